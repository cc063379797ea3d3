//! Replicas that one metric proposes (specification/autoscaling.md 2.5).

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use crate::{
    calibration::Calibration,
    grouping::{Counts, Groups, Named, group},
    options::Options,
    pods::{Pod, PodKey},
    ratio::{Ratio, Tolerances},
    samples::Samples,
    source::{Source, Target},
};

/// Answer of the metrics APIs for one metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// Samples of pods. Pods of clusters that did not answer have none.
    Pods(Samples),
    /// One value, in thousandths.
    Total {
        /// The value, merged over the clusters that answered.
        value: i128,
        /// Clusters that did not answer.
        unanswered: Vec<Arc<str>>,
    },
}

/// Workload as it runs in the reached clusters.
#[derive(Debug, Clone, Copy)]
pub struct Workload<'a> {
    /// Replicas of the template.
    pub current: i32,
    /// Pods of the reached clusters.
    pub pods: &'a BTreeMap<PodKey, Arc<Pod>>,
    /// Sum of `status.replicas` of the reached members' scales.
    pub status_replicas: i64,
    /// Pods of reached clusters per replica of the template.
    pub calibration: Calibration,
}

/// Present value of a metric: utilization in percent, amounts in thousandths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Current {
    /// Percent of what the pods request.
    pub utilization: Option<i32>,
    /// Amount per pod.
    pub average: Option<i64>,
    /// Amount.
    pub value: Option<i64>,
}

/// Result of the comparison with the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The ratio is within the tolerance: keep.
    Tolerated,
    /// With assumed values of missing and unready pods the direction turns or ends: keep.
    TurnedAround,
    /// The ratio gives the proposal.
    Computed,
}

/// Replicas that a metric proposes, with the way to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The replicas of the template.
    pub replicas: i32,
    /// The present value.
    pub current: Current,
    /// Pods by how they count, by cluster; none if the metric is not one of pods.
    pub counts: BTreeMap<Arc<str>, Counts>,
    /// The ratio of the measured values.
    pub ratio: Ratio,
    /// The ratio with assumed values of missing and unready pods.
    pub assumed: Option<Ratio>,
    /// Number that the ratio is multiplied with.
    pub count: i128,
    /// Comparison of the last ratio with 1.
    pub outcome: Outcome,
}

/// Computes the proposal of a metric.
///
/// # Errors
/// A message that says why there is none.
pub fn propose(
    source: &Source<'_>,
    reading: &Reading,
    workload: &Workload<'_>,
    tolerances: Tolerances,
    options: &Options,
    now: Timestamp,
) -> Result<Proposal, String> {
    match (reading, source.target) {
        (Reading::Pods(samples), Target::Utilization(_) | Target::Average(_)) => {
            let resource = source.resource();
            let pods = workload.pods.iter().map(|(key, pod)| (key, &**pod));
            let groups = group(pods, samples, resource.map(|(name, _)| name), options, now);
            if workload.pods.is_empty() {
                return Err("no pods returned by selector while calculating replica count".to_owned());
            }
            if groups.ready.is_empty() {
                return Err(without_samples(&groups));
            }
            let scale = match source.target {
                Target::Utilization(percent) => Scale::Requests(Requested::of(workload, resource)?, percent),
                Target::Average(target) | Target::Value(target) => Scale::Amount(target),
            };
            Ok(by_pods(groups, &scale, workload, tolerances))
        }
        (Reading::Total { value, unanswered }, Target::Value(target)) => {
            let proposal = by_value(*value, target, workload, tolerances)?;
            complete_or_rising(proposal, unanswered, workload)
        }
        (Reading::Total { value, unanswered }, Target::Average(target)) => {
            let proposal = by_average(*value, target, workload, tolerances);
            complete_or_rising(proposal, unanswered, workload)
        }
        _ => Err(format!("{} cannot be compared with its target", source.name())),
    }
}

fn without_samples(groups: &Groups<'_>) -> String {
    let stale: usize = groups.counts.values().map(|counts| counts.stale).sum();
    if stale > 0 {
        return format!("did not receive recent metrics for targeted pods ({stale} of them were measured long ago)");
    }
    "did not receive metrics for targeted pods (pods might be unready)".to_owned()
}

/// Refuses to scale down by the values of some clusters alone.
fn complete_or_rising(
    proposal: Proposal,
    unanswered: &[Arc<str>],
    workload: &Workload<'_>,
) -> Result<Proposal, String> {
    if proposal.replicas < workload.current && !unanswered.is_empty() {
        let clusters = unanswered.join(", ");
        return Err(format!("no answer from {clusters}: the values of the other clusters alone do not scale down"));
    }
    Ok(proposal)
}

/// Measure of a target of pods.
enum Scale {
    /// Percent of the requests.
    Requests(Requested, i32),
    /// Amount per pod.
    Amount(i64),
}

/// Requests of each pod, in thousandths.
struct Requested(BTreeMap<PodKey, i64>);

impl Requested {
    /// Reads the requests of all pods: one that is absent makes every ratio wrong.
    fn of(workload: &Workload<'_>, resource: Option<(&str, Option<&str>)>) -> Result<Self, String> {
        let (resource, container) = resource.unwrap_or_default();
        let each = workload.pods.iter().map(|(key, pod)| {
            let request = pod.request(resource, container);
            request.map(|request| (key.clone(), request)).map_err(|why| format!("{why} {key}"))
        });
        each.collect::<Result<_, String>>().map(Self)
    }

    fn sum(&self, pods: &[Named<'_>]) -> i128 {
        pods.iter().filter_map(|(key, _)| self.0.get(*key)).map(|request| i128::from(*request)).sum()
    }
}

impl Scale {
    /// Returns the ratio of a total usage of these pods.
    fn ratio(&self, usage: i128, pods: &[Named<'_>]) -> Ratio {
        match self {
            Self::Requests(requested, percent) => {
                let requests = requested.sum(pods);
                let used = if requests > 0 { usage.saturating_mul(100).div_euclid(requests) } else { 0 };
                Ratio { actual: used, target: i128::from(*percent) }
            }
            Self::Amount(target) => {
                let count = i128::try_from(pods.len()).unwrap_or(i128::MAX).max(1);
                Ratio { actual: usage.div_euclid(count), target: i128::from(*target) }
            }
        }
    }

    /// Returns the usage that missing pods are assumed to have when the others would scale down: all that they request,
    /// or more if the target is above that; or exactly the target.
    fn full_usage(&self, pods: &[Named<'_>]) -> i128 {
        match self {
            Self::Requests(requested, percent) => {
                requested.sum(pods).saturating_mul(i128::from(*percent).max(100)) / 100
            }
            Self::Amount(target) => i128::from(*target).saturating_mul(i128::try_from(pods.len()).unwrap_or(i128::MAX)),
        }
    }
}

fn by_pods(groups: Groups<'_>, scale: &Scale, workload: &Workload<'_>, tolerances: Tolerances) -> Proposal {
    let (k, current) = (workload.calibration, workload.current);
    let measured: i128 = groups.ready.iter().map(|(_, sample)| i128::from(sample.value)).sum();
    let mut counted: Vec<Named<'_>> = groups.ready.iter().map(|(pod, _)| *pod).collect();
    let ready = i128::try_from(counted.len()).unwrap_or(i128::MAX).max(1);
    let ratio = scale.ratio(measured, &counted);
    let utilization = matches!(scale, Scale::Requests(..));
    let mut proposal = Proposal {
        replicas: current,
        current: Current {
            utilization: utilization.then(|| i32::try_from(ratio.actual).unwrap_or(i32::MAX)),
            average: Some(limited(measured.div_euclid(ready))),
            value: None,
        },
        counts: groups.counts,
        ratio,
        assumed: None,
        count: ready,
        outcome: Outcome::Tolerated,
    };
    let counts_unready = !groups.unready.is_empty() && ratio.is_above();
    if groups.missing.is_empty() && !counts_unready {
        if !ratio.is_within(tolerances) {
            (proposal.replicas, proposal.outcome) = (ratio.replicas(ready, k), Outcome::Computed);
        }
        return proposal;
    }
    // What is not known is assumed to be in favour of the present size: no usage when the others would scale up, full
    // usage when they would scale down.
    let mut usage = measured;
    if ratio.is_below() {
        usage = usage.saturating_add(scale.full_usage(&groups.missing));
    }
    if ratio.is_below() || ratio.is_above() {
        counted.extend(&groups.missing);
    }
    if counts_unready {
        counted.extend(&groups.unready);
    }
    let count = i128::try_from(counted.len()).unwrap_or(i128::MAX);
    let assumed = scale.ratio(usage, &counted);
    (proposal.assumed, proposal.count) = (Some(assumed), count);
    if assumed.is_within(tolerances) {
        return proposal;
    }
    proposal.outcome = Outcome::TurnedAround;
    let replicas = assumed.replicas(count, k);
    let is_against = assumed.is_below() && replicas > current || assumed.is_above() && replicas < current;
    if !ratio.is_opposed_to(assumed) && !is_against {
        (proposal.replicas, proposal.outcome) = (replicas, Outcome::Computed);
    }
    proposal
}

/// A value that the number of pods changes: in proportion to the ready ones.
fn by_value(value: i128, target: i64, workload: &Workload<'_>, tolerances: Tolerances) -> Result<Proposal, String> {
    let ratio = Ratio { actual: value, target: i128::from(target) };
    let current = Current { value: Some(limited(value)), ..Current::default() };
    let mut proposal = of_total(ratio, current, workload);
    if workload.current == 0 {
        (proposal.replicas, proposal.outcome) = (ratio.replicas(1, Calibration::ONE), Outcome::Computed);
    } else if !ratio.is_within(tolerances) {
        if workload.pods.is_empty() {
            return Err("unable to calculate ready pods: no pods returned by selector while calculating replica count"
                .to_owned());
        }
        let ready = workload.pods.values().filter(|pod| pod.is_ready()).count();
        proposal.count = i128::try_from(ready).unwrap_or(i128::MAX);
        proposal.replicas = ratio.replicas(proposal.count, workload.calibration);
        proposal.outcome = Outcome::Computed;
    }
    Ok(proposal)
}

/// A total that pods share, such as the length of a queue.
fn by_average(value: i128, target: i64, workload: &Workload<'_>, tolerances: Tolerances) -> Proposal {
    let pods = i128::from(workload.status_replicas);
    let target = i128::from(target);
    let ratio = Ratio { actual: value, target: target.saturating_mul(pods.max(1)) };
    let average = if pods > 0 { ceil_div(value, pods) } else { value };
    let current = Current { average: Some(limited(average)), ..Current::default() };
    let mut proposal = of_total(ratio, current, workload);
    if pods <= 0 || !ratio.is_within(tolerances) {
        proposal.replicas = Ratio { actual: value, target }.replicas(1, workload.calibration);
        proposal.outcome = Outcome::Computed;
    }
    proposal
}

fn of_total(ratio: Ratio, current: Current, workload: &Workload<'_>) -> Proposal {
    Proposal {
        replicas: workload.current,
        current,
        counts: BTreeMap::new(),
        ratio,
        assumed: None,
        count: 1,
        outcome: Outcome::Tolerated,
    }
}

fn ceil_div(value: i128, by: i128) -> i128 {
    value.div_euclid(by) + i128::from(value.rem_euclid(by) > 0)
}

fn limited(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests;
