//! Replicas of an autoscaled workload under another load, foreseen in virtual time: `plan load`.
//!
//! Rounds of the autoscaler and cycles of the scheduler are those of the crates that decide them. Assumed are three
//! things: the load is shared by the pods that are ready, every metric follows it, and a new pod is ready after a given
//! time.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{autoscaling::FederatedHPA, work::TargetCluster};
use ironclad_autoscaling::federated_hpa::{
    self, placed,
    report::{Load, Report},
};
use ironclad_fleet::{Binding, ClusterName, Clusters};
use ironclad_hpa::{
    Snapshot,
    conditions::ScaledToZero,
    explain,
    history::History,
    needs_metrics,
    plan::Written,
    pods::{Phase, Pod, PodKey, Readiness, Requests},
    proposal::Reading,
    samples::{Sample, Samples},
    selecting::Selection,
    source::Source,
    spec::Spec,
};
use ironclad_scheduling::Capacity;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::{
    leader::Settings,
    schedule::{State, schedule},
};

/// Rounds that are foreseen at most.
const ROUNDS_MAX: usize = 10_000;
/// Time that is foreseen after the load has ended and the window of scaling down is over.
const AFTERWARDS: SignedDuration = SignedDuration::from_secs(300);

/// Load to foresee.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    pub autoscaler: &'a FederatedHPA,
    /// Its last round.
    pub report: &'a Report,
    /// The binding of its workload.
    pub binding: &'a Binding,
    pub clusters: &'a Clusters,
    /// The load, in thousandths of the present one.
    pub load: u64,
    /// Time for which it lasts; the present load follows.
    pub lasts: SignedDuration,
    /// Time until a new pod is ready.
    pub startup: SignedDuration,
    /// Flags and gates of the leader.
    pub settings: &'a Settings,
    /// Time at which the load begins.
    pub now: Timestamp,
}

/// Replicas from one moment on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Point {
    /// Seconds since the beginning.
    pub after_seconds: i64,
    /// Replicas of the template.
    pub replicas: i32,
    /// Replicas by cluster.
    pub clusters: BTreeMap<String, i32>,
    /// Replicas that the metrics ask for; absent at the beginning.
    pub proposed: Option<i32>,
    /// Reason of the change.
    pub because: String,
}

/// The replicas over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Foreseen {
    /// The beginning, and each change.
    pub points: Vec<Point>,
    /// Rounds in which the maximum held back replicas.
    pub rounds_at_max: usize,
    /// Seconds that were foreseen.
    pub seconds: i64,
}

/// Reason why nothing can be foreseen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The last round did not see the workload.
    #[error("the last round of FederatedHPA {name} failed: {why}")]
    Unknown {
        /// The autoscaler.
        name: String,
        why: String,
    },
    /// A metric cannot be foreseen.
    #[error("metric {metric} of FederatedHPA {name} is not known: {why}")]
    Metric {
        /// The autoscaler.
        name: String,
        metric: String,
        why: String,
    },
}

/// Foresees the replicas.
///
/// # Errors
/// If the last round did not see the workload, or one of its metrics.
pub fn foresee(question: &Question<'_>) -> Result<Foreseen, LoadError> {
    let report = question.report;
    let name = report.name.clone();
    let Some(current) = report.current else {
        let why = report.error.clone().unwrap_or_else(|| "its replicas could not be read".to_owned());
        return Err(LoadError::Unknown { name, why });
    };
    let loads = report.metrics.iter().map(|metric| {
        metric.load.ok_or_else(|| LoadError::Metric {
            name: name.clone(),
            metric: metric.name.clone(),
            why: metric.error.clone().unwrap_or_default(),
        })
    });
    let loads: Vec<Load> = loads.collect::<Result<_, _>>()?;
    let autoscaler = question.autoscaler;
    let spec =
        federated_hpa::spec(&autoscaler.spec).with_status(autoscaler.status.as_ref(), &question.settings.autoscaler);
    if needs_metrics(&spec, current) && loads.len() != spec.metrics.len() {
        let why = "its metrics changed since".to_owned();
        return Err(LoadError::Unknown { name, why });
    }
    Ok(Run::begin(question, current).through(spec, &loads))
}

/// A run in virtual time.
struct Run<'a> {
    question: &'a Question<'a>,
    binding: Binding,
    /// State of the scheduler; other workloads keep their capacity.
    scheduler: State,
    current: i32,
    /// False if the interpreter does not know the replicas of the kind: each cluster has those of the template.
    knows_replicas: bool,
    history: History,
    pods: BTreeMap<PodKey, Arc<Pod>>,
    /// Pods that were made, for their names.
    made: usize,
    foreseen: Foreseen,
}

impl<'a> Run<'a> {
    fn begin(question: &'a Question<'a>, current: i32) -> Self {
        let mut run = Self {
            question,
            binding: question.binding.clone(),
            scheduler: State {
                capacity: Capacity::of(question.clusters, question.settings.modelling()),
                ..State::default()
            },
            current,
            knows_replicas: question.binding.spec().replicas > 0 || current == 0,
            history: History::of(question.report.recommended.clone(), Vec::new()),
            pods: BTreeMap::new(),
            made: 0,
            foreseen: Foreseen::default(),
        };
        let long_ago = question.now.checked_sub(SignedDuration::from_hours(1)).unwrap_or(question.now);
        run.place_pods(long_ago);
        run.note(0, None, "the load changes");
        run
    }

    fn through(mut self, mut spec: Spec<'_>, loads: &[Load]) -> Foreseen {
        let (question, options) = (self.question, &self.question.settings.autoscaler);
        let period = options.sync_period.as_secs().max(1);
        let window = spec.longest_window(options).saturating_add(AFTERWARDS);
        let end = question.lasts.saturating_add(window).as_secs();
        for round in 1..=ROUNDS_MAX {
            let after = period.saturating_mul(i64::try_from(round).unwrap_or(i64::MAX));
            if after > end {
                break;
            }
            self.foreseen.seconds = after;
            self.round(&mut spec, loads, after);
        }
        self.foreseen
    }

    fn round(&mut self, spec: &mut Spec<'_>, loads: &[Load], after: i64) {
        let question = self.question;
        let now = question.now.saturating_add(SignedDuration::from_secs(after)).unwrap_or(question.now);
        self.start_pods(now);
        let factor = if after <= question.lasts.as_secs() { question.load } else { 1_000 };
        let readings: Vec<Result<Reading, String>> = spec
            .metrics
            .iter()
            .zip(loads)
            .map(|(metric, load)| {
                let source = Source::of(metric, &question.settings.autoscaler).map_err(|invalid| invalid.message)?;
                Ok(self.reading(source.resource().is_some() || load.is_of_pods, load, factor, now))
            })
            .collect();
        let reached = self.binding.spec().clusters.iter().map(|target| target.name.as_str()).collect();
        let Some(calibration) = placed::calibration(self.binding.spec(), &reached) else { return };
        let seen = Snapshot {
            current: self.current,
            pods: &self.pods,
            selection: Selection::NotNeeded,
            status_replicas: i64::try_from(self.pods.len()).unwrap_or(i64::MAX),
            calibration,
            is_settling: false,
        };
        let (plan, trace) = explain(spec, &seen, &readings, &self.history, &question.settings.autoscaler, now);
        let reason = trace.normalized.as_ref().map_or("", |normalized| normalized.limited.reason);
        self.foreseen.rounds_at_max += usize::from(reason == "TooManyReplicas");
        let written = if plan.rescales() { Written::Rescaled } else { Written::Nothing };
        plan.record(&mut self.history, &written, now);
        self.history.forget(spec, &question.settings.autoscaler, now);
        if plan.rescales() {
            spec.scaled_to_zero = Some(plan.scaled_to_zero == ScaledToZero::Becomes(true));
            self.current = plan.desired;
            self.reschedule(now);
            self.place_pods(now);
            let because = if reason.is_empty() || reason == "DesiredWithinRange" {
                plan.because
            } else {
                format!("{} ({reason})", plan.because)
            };
            self.note(after, plan.recommended, &because);
        }
    }

    /// A reading under the load: pods that are ready share it.
    fn reading(&self, is_of_pods: bool, load: &Load, factor: u64, now: Timestamp) -> Reading {
        let total = i128::from(load.total) * i128::from(factor) / 1_000;
        if !is_of_pods {
            return Reading::Total { value: total, unanswered: Vec::new() };
        }
        let ready: Vec<&PodKey> = self.pods.iter().filter(|(_, pod)| pod.is_ready()).map(|(key, _)| key).collect();
        let each = total / i128::try_from(ready.len()).unwrap_or(1).max(1);
        let value = i64::try_from(each).unwrap_or(i64::MAX);
        let sample = Sample { at: now, window: SignedDuration::ZERO, value };
        Reading::Pods(ready.into_iter().map(|key| (key.clone(), sample)).collect::<Samples>())
    }

    /// Lets the scheduler divide the replicas.
    fn reschedule(&mut self, now: Timestamp) {
        if self.knows_replicas {
            self.binding.spec_mut().replicas = self.current;
        }
        let options = &self.question.settings.scheduler;
        let scheduled = schedule(&self.binding, self.question.clusters, &self.scheduler, options, now);
        self.binding.spec_mut().clusters = scheduled.result;
    }

    fn replicas_in(&self, target: &TargetCluster) -> i32 {
        if self.knows_replicas { target.replicas } else { self.current }
    }

    /// Makes and removes pods, so that each cluster has as many as it is assigned. The youngest are removed first.
    fn place_pods(&mut self, now: Timestamp) {
        let targets: Vec<TargetCluster> = self.binding.spec().clusters.clone();
        self.pods.retain(|key, _| targets.iter().any(|target| *target.name == *key.cluster));
        for target in &targets {
            let wanted = usize::try_from(self.replicas_in(target)).unwrap_or(0);
            let mut present: Vec<PodKey> =
                self.pods.keys().filter(|key| *key.cluster == *target.name).cloned().collect();
            present.sort_by(|a, b| a.name.cmp(&b.name));
            for key in present.drain(wanted.min(present.len())..) {
                self.pods.remove(&key);
            }
            for _ in present.len()..wanted {
                self.made += 1;
                let name = format!("pod-{:08}", self.made).as_str().into();
                let key = PodKey { cluster: target.name.as_str().into(), name };
                self.pods.insert(key, Arc::new(self.pod(now)));
            }
        }
        self.start_pods(now);
    }

    fn pod(&self, started: Timestamp) -> Pod {
        let metrics = self.question.autoscaler.spec.metrics.iter().zip(&self.question.report.metrics);
        let requests = metrics.filter_map(|(spec, metric)| {
            let (resource, container) = Source::of(spec, &self.question.settings.autoscaler).ok()?.resource()?;
            let amounts = [(resource.into(), metric.load?.request)].into();
            Some(Requests { container: container.unwrap_or("all").into(), amounts })
        });
        // Each resource is requested once, whatever number of metrics asks for it.
        let mut each: BTreeMap<Arc<str>, Requests> = BTreeMap::new();
        for request in requests {
            let known = each.entry(request.container.clone()).or_insert_with(|| request.clone());
            known.amounts.extend(request.amounts);
        }
        let all: Vec<Requests> = each.into_values().collect();
        let whole = all.iter().find(|request| &*request.container == "all").map(|request| request.amounts.clone());
        Pod {
            labels: BTreeMap::new(),
            is_deleted: false,
            phase: Phase::Pending,
            ready: None,
            started: Some(started),
            requests: all,
            whole,
        }
    }

    /// Makes pods ready whose time has come.
    fn start_pods(&mut self, now: Timestamp) {
        let startup = self.question.startup;
        for pod in self.pods.values_mut().filter(|pod| !pod.is_ready()) {
            let Some(ready) = pod.started.and_then(|started| started.checked_add(startup).ok()) else { continue };
            if ready <= now {
                let pod = Arc::make_mut(pod);
                pod.phase = Phase::Running;
                pod.ready = Some(Readiness { is_ready: Some(true), since: Some(ready) });
            }
        }
    }

    fn note(&mut self, after_seconds: i64, proposed: Option<i32>, because: &str) {
        let targets = self.binding.spec().clusters.iter();
        let clusters = targets.map(|target| (target.name.clone(), self.replicas_in(target)));
        let point = Point {
            after_seconds,
            replicas: self.current,
            clusters: clusters.collect(),
            proposed,
            because: because.to_owned(),
        };
        self.foreseen.points.push(point);
    }
}

/// Returns the clusters that have replicas at some time, in order of their names.
#[must_use]
pub fn clusters_of(foreseen: &Foreseen) -> Vec<ClusterName> {
    let mut names: Vec<&String> = foreseen.points.iter().flat_map(|point| point.clusters.keys()).collect();
    names.sort();
    names.dedup();
    names.into_iter().map(|name| ClusterName::from(name.as_str())).collect()
}

#[cfg(test)]
mod tests;
