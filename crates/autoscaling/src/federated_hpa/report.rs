//! The last round of an autoscaler for people: `ironclad why fhpa/NAME` prints it, and `ironclad plan load` begins with
//! it. It is made by the decision itself ([`explain`](ironclad_hpa::explain)).

use std::collections::BTreeMap;

use ironclad_hpa::{
    Plan, Snapshot, Trace,
    combine::Evaluated,
    grouping::Counts,
    history::History,
    normalize::Normalized,
    options::Options,
    proposal::{Outcome, Proposal, Reading},
    quantity::quantity,
    rates::{RateLimit, Step},
    ratio::Ratio,
    source::{Source, Target},
    spec::Spec,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Readings of one round, and how it decided.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Report {
    /// Namespace of the autoscaler.
    pub namespace: String,
    pub name: String,
    /// Kind and name of the workload.
    pub target: String,
    /// Time of the round.
    pub at: Option<Timestamp>,
    /// Lower bound.
    pub min: i32,
    /// Upper bound.
    pub max: i32,
    /// Replicas of the template before the round; absent if they could not be read.
    pub current: Option<i32>,
    /// Replicas after the round.
    pub desired: i32,
    /// Reason of a change.
    pub because: String,
    /// Errors of the round.
    pub error: Option<String>,
    /// Pods of the reached clusters per replica of the template.
    pub calibration: String,
    /// True while the last change of the replicas has not arrived in all clusters.
    pub is_settling: bool,
    /// Clusters of the workload that were not reached, and why.
    pub unreached: BTreeMap<String, String>,
    /// Each metric, in the order of the spec.
    pub metrics: Vec<MetricReport>,
    /// The steps from the proposals to the replicas.
    pub steps: Vec<String>,
    /// Recent proposals, the oldest first.
    pub recommended: Vec<(Timestamp, i32)>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricReport {
    pub name: String,
    pub target: String,
    pub value: String,
    /// Steps from the value to the proposal.
    pub steps: Vec<String>,
    /// The replicas that it proposes; absent if it failed.
    pub proposal: Option<i32>,
    /// Reason of a failure.
    pub error: Option<String>,
    /// Pods and values by cluster.
    pub clusters: BTreeMap<String, ClusterReport>,
    /// Figures needed to foresee the metric under another load.
    pub load: Option<Load>,
}

/// Pods of one cluster as a metric counts them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterReport {
    /// Their samples count.
    pub ready: usize,
    /// They start.
    pub unready: usize,
    /// They have no sample.
    pub missing: usize,
    /// Their sample is too old.
    pub stale: usize,
    /// They are being deleted or have failed.
    pub ignored: usize,
    /// Sum of the samples.
    pub total: String,
}

/// Load that a metric measures; amounts are in thousandths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Load {
    /// Sum over all pods, or the one value.
    pub total: i64,
    /// True if pods share it, false if it is one value.
    pub is_of_pods: bool,
    /// Average request of a pod, if that matters.
    pub request: i64,
}

/// Parts of a report.
#[derive(Debug, Clone, Copy)]
pub struct Round<'a> {
    /// Namespace of the autoscaler.
    pub namespace: &'a str,
    pub name: &'a str,
    pub spec: &'a Spec<'a>,
    /// The snapshot; `None` if the round ended before it was taken.
    pub seen: Option<&'a Snapshot<'a>>,
    /// Answers for the metrics.
    pub readings: &'a [Result<Reading, String>],
    /// Clusters that were not reached.
    pub unreached: &'a [(String, String)],
    /// The way to the replicas.
    pub trace: Option<&'a Trace<'a>>,
    pub plan: &'a Plan,
    /// State in memory after the round.
    pub history: &'a History,
    /// Flags.
    pub options: &'a Options,
    /// Time of the round.
    pub now: Timestamp,
}

impl Round<'_> {
    /// Makes the report.
    #[must_use]
    pub fn report(&self) -> Report {
        let target = self.spec.target;
        let metrics = self.trace.map(|trace| &trace.metrics[..]).unwrap_or_default();
        let metrics = metrics.iter().enumerate().map(|(index, metric)| self.metric(index, metric));
        Report {
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
            target: format!("{} {}", target.kind, target.name),
            at: Some(self.now),
            min: self.spec.min,
            max: self.spec.max,
            current: self.plan.current,
            desired: self.plan.desired,
            because: self.plan.because.clone(),
            error: self.plan.error.clone(),
            calibration: self.seen.map(|seen| seen.calibration.to_string()).unwrap_or_default(),
            is_settling: self.seen.is_some_and(|seen| seen.is_settling),
            unreached: self.unreached.iter().cloned().collect(),
            metrics: metrics.collect(),
            steps: self.steps(),
            recommended: self.history.recommendations().to_vec(),
        }
    }

    fn metric(&self, index: usize, metric: &Evaluated<'_>) -> MetricReport {
        let Some(source) = &metric.source else {
            let error = metric.proposal.as_ref().err().map(|failed| failed.message.clone());
            return MetricReport { name: format!("metric {}", index + 1), error, ..MetricReport::default() };
        };
        let resource = source.resource().map(|(name, _)| name);
        let mut report = MetricReport { name: source.name(), target: shown_target(source), ..MetricReport::default() };
        match &metric.proposal {
            Err(failed) => report.error = Some(failed.message.clone()),
            Ok(proposal) => {
                report.value = shown_value(proposal, resource);
                report.steps = self.proposal_steps(proposal);
                report.proposal = Some(proposal.replicas);
                let clusters = proposal.counts.iter();
                let shown = |counts: &Counts| cluster_report(counts, resource);
                report.clusters = clusters.map(|(name, counts)| (name.to_string(), shown(counts))).collect();
                report.load = Some(self.load(index, source, proposal));
            }
        }
        report
    }

    fn load(&self, index: usize, source: &Source<'_>, proposal: &Proposal) -> Load {
        let limited = |value: i128| i64::try_from(value).unwrap_or(i64::MAX);
        if let Some(Ok(Reading::Total { value, .. })) = self.readings.get(index) {
            return Load { total: limited(*value), is_of_pods: false, request: 0 };
        }
        let total: i128 = proposal.counts.values().map(|counts| counts.total).sum();
        let requests = source.resource().zip(self.seen).map(|((resource, container), seen)| {
            let each: Vec<i64> = seen.pods.values().filter_map(|pod| pod.request(resource, container).ok()).collect();
            let count = i64::try_from(each.len()).unwrap_or(i64::MAX).max(1);
            each.iter().fold(0_i64, |sum, one| sum.saturating_add(*one)) / count
        });
        Load { total: limited(total), is_of_pods: true, request: requests.unwrap_or(0) }
    }

    fn proposal_steps(&self, proposal: &Proposal) -> Vec<String> {
        let tolerances = self.spec.tolerances(self.options);
        let percent = |millionths: i64| format!("{}.{}%", millionths / 10_000, millionths / 1_000 % 10);
        let mut steps = vec![format!("ratio {}", shown_ratio(proposal.ratio))];
        if let Some(assumed) = proposal.assumed {
            let (count, ratio) = (proposal.count, shown_ratio(assumed));
            steps.push(format!("ratio {ratio} over {count} pods, with what is assumed of missing and unready pods"));
        }
        let current = self.plan.current.unwrap_or_default();
        let step = match proposal.outcome {
            Outcome::Tolerated => format!(
                "within the tolerance of {} below and {} above: keep {current}",
                percent(tolerances.down.millionths()),
                percent(tolerances.up.millionths())
            ),
            Outcome::TurnedAround => {
                format!("with what is assumed the direction would turn: keep {current}")
            }
            Outcome::Computed => {
                let calibration = self.seen.map(|seen| seen.calibration.to_string()).unwrap_or_default();
                let per = if calibration == "1" { String::new() } else { format!(" / {calibration}") };
                format!("ratio * {}{per}, rounded up: {}", proposal.count, proposal.replicas)
            }
        };
        steps.push(step);
        steps
    }

    fn steps(&self) -> Vec<String> {
        let Some(trace) = self.trace else { return Vec::new() };
        let (Some((name, proposal)), Some(normalized)) = (&trace.best, &trace.normalized) else {
            let because = &self.plan.because;
            return (!because.is_empty()).then(|| because.clone()).into_iter().collect();
        };
        let mut steps = vec![format!("the largest proposal is {proposal}, by {name}")];
        steps.extend(self.normalized_steps(normalized));
        steps
    }

    fn normalized_steps(&self, normalized: &Normalized) -> Vec<String> {
        let (up, down) = self.spec.windows(self.options);
        let mut steps = Vec::new();
        if let Some(lowest) = normalized.lowest {
            steps.push(format!("the lowest recommendation of {} s is {lowest}", up.as_secs()));
        }
        steps.push(format!("the highest recommendation of {} s is {}", down.as_secs(), normalized.highest));
        steps.push(format!("stabilized: {} ({})", normalized.stabilized, normalized.able.reason));
        steps.push(format!("scaling up is limited to {}{}", normalized.up.replicas, shown_limit(&normalized.up)));
        if let Some(down) = &normalized.down {
            steps.push(format!("scaling down is limited to {}{}", down.replicas, shown_limit(down)));
        }
        let (min, max) = (self.spec.min, self.spec.max);
        let (desired, reason) = (normalized.desired, normalized.limited.reason);
        steps.push(format!("within {min} and {max}: {desired} ({reason})"));
        steps
    }
}

fn shown_limit(limit: &RateLimit) -> String {
    let each: Vec<String> = limit
        .policies
        .iter()
        .map(|of| {
            let step = match of.policy.step {
                Step::Pods(value) => format!("{value} pods"),
                Step::Percent(value) => format!("{value}%"),
            };
            format!("{step} of {} in {} s: {}", of.start, of.policy.period.as_secs(), of.limit)
        })
        .collect();
    if each.is_empty() { String::new() } else { format!(" ({})", each.join("; ")) }
}

fn shown_ratio(ratio: Ratio) -> String {
    let thousandths = ratio.thousandths();
    format!("{}.{:03}", thousandths / 1_000, thousandths.rem_euclid(1_000))
}

fn shown_target(source: &Source<'_>) -> String {
    let resource = source.resource().map(|(name, _)| name);
    match source.target {
        Target::Utilization(percent) => format!("{percent}%"),
        Target::Average(amount) => format!("{} per pod", quantity(amount, resource).0),
        Target::Value(amount) => quantity(amount, resource).0,
    }
}

fn shown_value(proposal: &Proposal, resource: Option<&str>) -> String {
    let amount = |milli: i64| quantity(milli, resource).0;
    let current = proposal.current;
    match (current.utilization, current.average, current.value) {
        (Some(percent), Some(average), _) => format!("{percent}% ({} per pod)", amount(average)),
        (_, Some(average), _) => format!("{} per pod", amount(average)),
        (_, _, Some(value)) => amount(value),
        _ => String::new(),
    }
}

fn cluster_report(counts: &Counts, resource: Option<&str>) -> ClusterReport {
    ClusterReport {
        ready: counts.ready,
        unready: counts.unready,
        missing: counts.missing,
        stale: counts.stale,
        ignored: counts.ignored,
        total: quantity(i64::try_from(counts.total).unwrap_or(i64::MAX), resource).0,
    }
}

impl Report {
    /// Renders the report, a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let (min, max) = (self.min, self.max);
        let mut lines = vec![format!(
            "FederatedHPA {}/{} scales {} between {min} and {max}",
            self.namespace, self.name, self.target
        )];
        let size = match self.current {
            None => "its replicas could not be read".to_owned(),
            Some(current) if current == self.desired => format!("{current} replicas, and they stay"),
            Some(current) => format!("{current} replicas become {}: {}", self.desired, self.because),
        };
        lines.push(size);
        lines.extend(self.error.iter().map(|error| format!("error: {error}")));
        if !matches!(self.calibration.as_str(), "" | "1") {
            lines.push(format!(
                "pods of the clusters that were asked, per replica of the template: {}",
                self.calibration
            ));
        }
        if self.is_settling {
            lines.push("the last change of the replicas has not arrived in all clusters".to_owned());
        }
        lines.extend(self.unreached.iter().map(|(cluster, why)| format!("cluster {cluster} was not asked: {why}")));
        for metric in &self.metrics {
            lines.extend(metric.lines());
        }
        if !self.steps.is_empty() {
            lines.push("replicas".to_owned());
            lines.extend(self.steps.iter().map(|step| format!("  {step}")));
        }
        lines
    }
}

impl MetricReport {
    fn lines(&self) -> Vec<String> {
        let name = &self.name;
        if let Some(error) = &self.error {
            return vec![format!("metric {name}: {error}")];
        }
        let mut lines = vec![format!("metric {name}: {}, target {}", self.value, self.target)];
        for (cluster, pods) in &self.clusters {
            let counts = [
                (pods.ready, "ready"),
                (pods.unready, "unready"),
                (pods.missing, "without a sample"),
                (pods.ignored, "ignored"),
            ];
            let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
            let counts: Vec<String> = counts.collect();
            let pods_in = if cluster.is_empty() { "pods".to_owned() } else { format!("pods in {cluster}") };
            lines.push(format!("  {pods_in}: {}, total {}", counts.join(", "), pods.total));
        }
        lines.extend(self.steps.iter().map(|step| format!("  {step}")));
        lines
    }
}

#[cfg(test)]
mod tests;
