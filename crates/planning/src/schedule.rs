//! The scheduler's decision on one binding of the fleet, with the outcome for every cluster.

use std::collections::{BTreeMap, BTreeSet};

use ironclad_api::work::TargetCluster;
use ironclad_fleet::{Because, Binding, BindingRef, ClusterName, Clusters, because::schedule::Reason};
use ironclad_scheduling::{self as scheduling, Available, Capacity, Options, Seen, capacity::Modelling};
use jiff::Timestamp;
use serde::Serialize;

/// The scheduler's decision on one binding.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scheduling {
    /// Reason why the next reconcile runs a scheduling cycle, or runs none.
    pub trigger: Option<Because>,
    /// The scheduling cycles: one, or one for each affinity group that is tried.
    pub cycles: Vec<Cycle>,
    /// Error if no cycle finds enough clusters.
    pub failure: Option<String>,
    /// True if the last cycle comes to the present schedule result.
    pub agrees: bool,
}

/// One scheduling cycle over the clusters.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cycle {
    /// The affinity group, if the placement has groups.
    pub group: Option<String>,
    /// The outcome for every cluster, by name.
    pub clusters: BTreeMap<ClusterName, Outcome>,
    /// Error if the group was not enough.
    pub failed: Option<String>,
}

/// The outcome of a scheduling cycle for one cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The step that decided on the cluster.
    pub because: Reason,
    /// Sum of the scores, if the cluster passed the filters.
    pub score: Option<i64>,
    /// Further replicas that fit, if an estimator has an opinion.
    pub available: Option<i64>,
    /// Further replicas by the sum of free resources, if the resource models of the cluster count fewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_models: Option<i64>,
}

/// Free capacity by what the clusters report. Replicas that are placed but not yet reported are not subtracted.
#[must_use]
pub fn capacity(clusters: &Clusters) -> Capacity {
    Capacity::of(clusters, Modelling::On)
}

/// Runs the search for clusters on its own, whether or not the scheduler has a reason to run it, without these
/// clusters.
///
/// # Errors
/// If no result satisfies the placement.
pub fn search(
    binding: &Binding,
    clusters: &Clusters,
    capacity: &Capacity,
    without: &BTreeSet<ClusterName>,
) -> Result<Vec<TargetCluster>, String> {
    let (available, options) = (Available::new(), Options::default());
    let seen = Seen {
        binding: binding.view(),
        clusters,
        available: &available,
        capacity,
        options: &options,
        api_appeared: false,
        preempting: None,
        peers: None,
        index: None,
    };
    let (found, _) = scheduling::dry_run(&seen, without);
    found.map(|found| found.targets).map_err(|failure| failure.to_string())
}

/// The scheduler's decision on a binding, and its schedule result afterwards. Where the next reconcile runs no cycle,
/// the trace is that of the cycle that a user could request.
#[must_use]
pub fn schedule(binding: &Binding, clusters: &Clusters, now: Timestamp) -> (Scheduling, Vec<TargetCluster>) {
    let (view, options, available) = (binding.view(), Options::default(), Available::new());
    let capacity = capacity(clusters);
    let seen = Seen {
        binding: view,
        clusters,
        available: &available,
        capacity: &capacity,
        options: &options,
        api_appeared: false,
        preempting: None,
        peers: None,
        index: None,
    };
    let decision = scheduling::decide(&seen, now);
    let trigger = decision.plan.because.first().cloned();
    let result = decision.result().unwrap_or(&binding.spec().clusters).to_vec();
    let (group, failure, trace) = if decision.schedule_type.is_some() {
        let observed = decision.plan.effects.iter().find_map(|effect| match effect {
            scheduling::Effect::Status(part) => part.fields.get("schedulerObservingAffinityName")?.as_str(),
            _ => None,
        });
        let group = observed.unwrap_or(view.observed_group()).to_owned();
        ((!group.is_empty()).then_some(group), decision.failure, decision.plan.because)
    } else {
        let (found, because) = scheduling::dry_run(&seen, &BTreeSet::new());
        match found {
            Ok(found) => (found.group, None, because),
            Err(failure) => (None, Some(failure), because),
        }
    };
    let mut cycles = cycles(trace, group);
    count_without_models(&mut cycles, view, clusters, &options);
    let agrees = failure.is_none()
        && cycles.last().is_some_and(|cycle| {
            let targets = cycle.clusters.iter().filter_map(|(name, outcome)| match outcome.because {
                Reason::Target { replicas, .. } => Some((&*name.0, replicas)),
                _ => None,
            });
            let present = binding.spec().clusters.iter().map(|target| (&*target.name, target.replicas));
            targets.collect::<BTreeMap<_, _>>() == present.collect()
        });
    (Scheduling { trigger, cycles, failure: failure.map(|failure| failure.to_string()), agrees }, result)
}

/// Counts what would fit without resource models, which count each node with the least of its grade.
fn count_without_models(cycles: &mut [Cycle], binding: BindingRef<'_>, clusters: &Clusters, options: &Options) {
    let outcomes = || cycles.iter().flat_map(|cycle| cycle.clusters.values());
    if outcomes().all(|outcome| outcome.available.is_none()) {
        return;
    }
    let sums = Capacity::of(clusters, Modelling::Off);
    for (cluster, outcome) in cycles.iter_mut().flat_map(|cycle| &mut cycle.clusters) {
        let fits = scheduling::available_replicas(binding.spec(), cluster, &sums, options);
        outcome.without_models = fits.filter(|fits| outcome.available.is_some_and(|modelled| modelled < *fits));
    }
}

/// The trace of a search, cut where an affinity group was not enough. A later reason of a cluster replaces an earlier
/// one, except for the scores.
fn cycles(trace: Vec<Because>, group: Option<String>) -> Vec<Cycle> {
    let (mut cycles, mut cycle) = (Vec::new(), Cycle::default());
    for reason in trace {
        let Because::Schedule(reason) = reason else { continue };
        let cluster = match &reason {
            Reason::GroupFailed { group, error, .. } => {
                (cycle.group, cycle.failed) = (Some(group.clone()), Some(error.clone()));
                cycles.push(std::mem::take(&mut cycle));
                continue;
            }
            Reason::Fits { cluster, .. }
            | Reason::Refused { cluster, .. }
            | Reason::ClusterLeaving { cluster }
            | Reason::Missing { cluster }
            | Reason::NotSelected { cluster }
            | Reason::NoShare { cluster }
            | Reason::Target { cluster, .. } => cluster.clone(),
            _ => continue,
        };
        let outcome = cycle.clusters.entry(cluster).or_insert(Outcome {
            because: reason.clone(),
            score: None,
            available: None,
            without_models: None,
        });
        if let Reason::Fits { score, available, .. } = reason {
            (outcome.score, outcome.available) = (Some(score), available);
        }
        outcome.because = reason;
    }
    if !cycle.clusters.is_empty() || cycles.is_empty() {
        cycle.group = group;
        cycles.push(cycle);
    }
    cycles
}
