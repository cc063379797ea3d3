//! The scheduler's decision on one binding of the fleet, with the outcome for every cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ironclad_api::{
    conditions::{self, FALSE, binding::SCHEDULED},
    work::{ResourceBindingSpec, TargetCluster},
};
use ironclad_fleet::{
    Because, Binding, BindingKey, BindingRef, ClusterName, Clusters, World, because::schedule::Reason,
};
use ironclad_scheduling::{
    self as scheduling, Available, Capacity, Options, Peers, Seen, Since, capacity::Modelling, deschedule,
    estimator::Index, question_of,
};
use jiff::Timestamp;
use serde::Serialize;

use crate::{Fleet, leader::Settings};

/// The scheduler's decision on one binding.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scheduling {
    /// Reason why the next reconcile runs a scheduling cycle, or runs none.
    pub trigger: Option<Because>,
    /// True if it runs one.
    #[serde(skip)]
    pub runs: bool,
    /// The scheduling cycles: one, or one for each affinity group that is tried.
    pub cycles: Vec<Cycle>,
    /// Error if no cycle finds enough clusters.
    pub failure: Option<String>,
    /// True if the last cycle comes to the present schedule result.
    pub agrees: bool,
    /// Schedule result after the next reconcile, which may run no cycle.
    pub result: Vec<TargetCluster>,
    /// Time at which that result is withdrawn if no cluster fits until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withdrawn: Option<Timestamp>,
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
    /// True if nothing fits only because the cluster has not reported its resources.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unreported: bool,
    /// Time until which the cluster gets no further replicas, since the descheduler took some back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub descheduled_until: Option<Timestamp>,
}

/// State that a scheduler that starts now has beside the objects: capacity with assumed and nominated replicas, and
/// groups of workloads.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Free capacity.
    pub capacity: Capacity,
    /// Groups of workloads; `None` if gate `WorkloadAffinity` is off.
    pub peers: Option<Peers>,
    /// Answers of the leader about the binding of the last [`State::ask`].
    pub available: Available,
    /// Answers of the leader's estimators over gRPC.
    pub(crate) answers: BTreeMap<BindingKey, BTreeMap<ClusterName, Option<i64>>>,
    /// Answers of the leader's accounts of clusters.
    pub(crate) accounts: BTreeMap<BindingKey, BTreeMap<ClusterName, i64>>,
}

impl State {
    /// Reads the state from the objects, as a new leader does, and from the nodes and pods of the members that were
    /// asked.
    #[must_use]
    pub fn of(world: &World, settings: &Settings, nodes: &BTreeMap<ClusterName, Arc<Index>>, now: Timestamp) -> Self {
        let options = &settings.scheduler;
        let capacity = assumed(world, settings.modelling(), nodes, options, now);
        let peers = options.workload_affinity.then(|| Peers::of(world.bindings.values().map(|binding| &**binding)));
        Self { capacity, peers, ..Self::default() }
    }

    /// The same, with the answers of the leader.
    #[must_use]
    pub fn of_fleet(fleet: &Fleet, now: Timestamp) -> Self {
        let state = Self::of(&fleet.world, &fleet.settings, &fleet.nodes, now);
        Self { answers: fleet.answers.clone(), accounts: fleet.accounts.clone(), ..state }
    }

    /// Takes up the answers of the leader about a binding, before it is scheduled.
    pub fn ask(&mut self, binding: BindingRef<'_>, options: &Options) {
        self.available = Available::new();
        if question_of(binding.spec(), options).is_none() {
            return;
        }
        for (cluster, fits) in self.accounts.get(&binding.key()).into_iter().flatten() {
            if !self.capacity.is_by_node(cluster) {
                self.available.account(cluster, *fits);
            }
        }
        for (cluster, answer) in self.answers.get(&binding.key()).into_iter().flatten() {
            if let Some(fits) = answer {
                self.available.limit(cluster, *fits);
            }
        }
    }

    /// Further replicas of a binding that fit into a cluster, by the leader's answers about it, or by the account here.
    /// `None` if the cluster is unknown or the binding requests no capacity.
    #[must_use]
    pub fn fits(&self, binding: BindingRef<'_>, cluster: &ClusterName, options: &Options) -> Option<i64> {
        let (key, is_by_node) = (binding.key(), self.capacity.is_by_node(cluster));
        let told = self.accounts.get(&key).and_then(|told| told.get(cluster)).filter(|_| !is_by_node).copied();
        let account = told.or_else(|| scheduling::available_replicas(binding.spec(), cluster, &self.capacity, options));
        let limit = self.answers.get(&key).and_then(|told| *told.get(cluster)?);
        account.map(|account| limit.map_or(account, |limit| limit.min(account)))
    }

    /// Returns whether what fits into a cluster follows from its nodes.
    fn is_by_node(&self, cluster: &ClusterName) -> bool {
        self.capacity.is_by_node(cluster) || self.available.is_exact(cluster)
    }

    /// Input of a decision on a binding.
    #[must_use]
    pub fn seen<'a>(&'a self, binding: BindingRef<'a>, clusters: &'a Clusters, options: &'a Options) -> Seen<'a> {
        Seen {
            binding,
            clusters,
            available: &self.available,
            capacity: &self.capacity,
            options,
            since: Since::default(),
            preempting: None,
            peers: self.peers.as_ref(),
            index: None,
        }
    }

    /// Bindings that are enqueued once a schedule result is written. Asked before [`Self::written`].
    #[must_use]
    pub fn wakes(&self, before: &Binding, after: &Binding, world: &World, options: &Options) -> Vec<BindingKey> {
        let (Some(peers), Binding::Namespaced(changed)) = (&self.peers, after) else { return Vec::new() };
        if before.spec().clusters == after.spec().clusters {
            return Vec::new();
        }
        let group_moved = peers.moves(&after.key(), Some(changed));
        let is_enqueued = |fellow: &BindingKey| {
            world
                .binding(fellow)
                .is_some_and(|one| scheduling::wakes::binding::fellow(one.view(), waits(&one), group_moved, options))
        };
        peers.fellows(&after.key()).into_iter().filter(is_enqueued).collect()
    }

    /// Takes in a written schedule result.
    pub fn written(&mut self, before: &Binding, after: &Binding, options: &Options) {
        self.capacity.assigned(before.view(), &after.spec().clusters, options, Duration::ZERO);
        if let (Some(peers), Binding::Namespaced(after)) = (&mut self.peers, after) {
            peers.update(after);
        }
    }
}

/// True if the last scheduling cycle failed: the binding waits for a change.
pub(crate) fn waits(binding: &Binding) -> bool {
    let conditions = binding.status().map_or(&[][..], |status| &status.conditions);
    conditions::get(conditions, SCHEDULED).is_some_and(|condition| condition.status == FALSE)
}

/// Clusters whose nodes decide on a binding, and that were not asked for them: those that pass the filters, if the
/// leader keeps accounts by node and the result depends on capacity.
#[must_use]
pub(crate) fn unasked(fleet: &Fleet, binding: BindingRef<'_>, scheduling: &Scheduling) -> BTreeSet<ClusterName> {
    let fitting = scheduling.cycles.iter().flat_map(|cycle| &cycle.clusters);
    unasked_of(fleet, binding, fitting.filter(|(_, outcome)| outcome.score.is_some()).map(|(cluster, _)| cluster))
}

/// The same of these clusters that pass the filters.
#[must_use]
pub fn unasked_of<'a>(
    fleet: &Fleet,
    binding: BindingRef<'_>,
    fitting: impl Iterator<Item = &'a ClusterName>,
) -> BTreeSet<ClusterName> {
    if !fleet.settings.estimators {
        return BTreeSet::new();
    }
    let known = fleet.accounts.get(&binding.key());
    let is_known = |cluster: &ClusterName| {
        fleet.nodes.contains_key(cluster) || known.is_some_and(|answers| answers.contains_key(cluster))
    };
    to_ask(binding.spec(), &fleet.settings.scheduler, fitting, is_known)
}

/// The same by the trace of a decision, with the nodes that a state knows.
pub(crate) fn unasked_in(
    trace: &[Because],
    spec: &ResourceBindingSpec,
    state: &State,
    options: &Options,
) -> BTreeSet<ClusterName> {
    let fitting = trace.iter().filter_map(|because| match because {
        Because::Schedule(Reason::Fits { cluster, .. }) => Some(cluster),
        _ => None,
    });
    to_ask(spec, options, fitting, |cluster| state.is_by_node(cluster))
}

/// Those of the clusters that pass the filters whose nodes are not known, if they decide on a workload.
fn to_ask<'a>(
    spec: &ResourceBindingSpec,
    options: &Options,
    fitting: impl Iterator<Item = &'a ClusterName>,
    is_known: impl Fn(&ClusterName) -> bool,
) -> BTreeSet<ClusterName> {
    if question_of(spec, options).is_none() {
        return BTreeSet::new();
    }
    fitting.filter(|cluster| !is_known(cluster)).cloned().collect()
}

/// The account of the fleet: by node where nodes are known, less what was assigned lately and nobody observes, and what
/// is held for preemptors.
#[must_use]
pub fn assumed(
    world: &World,
    modelling: Modelling,
    nodes: &BTreeMap<ClusterName, Arc<Index>>,
    options: &Options,
    now: Timestamp,
) -> Capacity {
    let mut capacity = beside(Capacity::of(&world.clusters, modelling), nodes);
    for binding in world.bindings.values() {
        let view = BindingRef::from(&**binding);
        let reports = binding.status.as_ref().map_or(&[][..], |status| &status.aggregated_status);
        capacity.found(view, reports, now, options, Duration::ZERO);
        let nominated = binding.status.as_ref().map_or(&[][..], |status| &status.nominated_clusters);
        capacity.nominate(binding, nominated, options);
    }
    capacity
}

/// The same capacity, with these nodes and pods of members.
fn beside(mut capacity: Capacity, nodes: &BTreeMap<ClusterName, Arc<Index>>) -> Capacity {
    for (cluster, index) in nodes {
        capacity.watch(cluster, Index::clone(index));
    }
    capacity
}

/// Runs the search for clusters on its own, whether or not the scheduler has a reason to run it, without these
/// clusters. Returns the result, or the reason why there is none, and the trace.
pub fn search(
    binding: &Binding,
    clusters: &Clusters,
    state: &State,
    options: &Options,
    without: &BTreeSet<ClusterName>,
) -> (Result<Vec<TargetCluster>, String>, Vec<Because>) {
    let seen = state.seen(binding.view(), clusters, options);
    let (found, trace) = scheduling::dry_run(&seen, without);
    (found.map(|found| found.targets).map_err(|failure| failure.to_string()), trace)
}

/// The scheduler's decision on a binding. Where the next reconcile runs no cycle,
/// the trace is that of the cycle that a user could request.
#[must_use]
pub fn schedule(
    binding: &Binding,
    clusters: &Clusters,
    state: &State,
    options: &Options,
    now: Timestamp,
) -> Scheduling {
    let current = match binding {
        Binding::Namespaced(b) => deschedule::without_past(b, now).map(|b| Binding::Namespaced(Arc::new(b))),
        Binding::Cluster(_) => None,
    };
    let binding = current.as_ref().unwrap_or(binding);
    let view = binding.view();
    let seen = state.seen(view, clusters, options);
    let decision = scheduling::decide(&seen, now);
    let (trigger, runs) = (decision.plan.because.first().cloned(), decision.schedule_type.is_some());
    let result = decision.result().unwrap_or(&binding.spec().clusters).to_vec();
    let (group, failure, trace) = if runs {
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
    explain_capacity(&mut cycles, view, clusters, state, options);
    let agrees = failure.is_none()
        && cycles.last().is_some_and(|cycle| {
            let targets = cycle.clusters.iter().filter_map(|(name, outcome)| match outcome.because {
                Reason::Target { replicas, .. } => Some((&*name.0, replicas)),
                _ => None,
            });
            let present = binding.spec().clusters.iter().map(|target| (&*target.name, target.replicas));
            targets.collect::<BTreeMap<_, _>>() == present.collect()
        });
    let withdrawn = match decision.next {
        scheduling::Next::At(at) if failure.is_some() && !result.is_empty() => Some(at),
        _ => None,
    };
    let failure = failure.map(|failure| failure.to_string());
    Scheduling { trigger, runs, cycles, failure, agrees, result, withdrawn }
}

/// The most that may be free in clusters: with the upper bounds of the nodes' grades, where models are counted, and
/// without pods that wait for a node.
#[must_use]
pub fn most(clusters: &Clusters, nodes: &BTreeMap<ClusterName, Arc<Index>>) -> Capacity {
    beside(Capacity::of(clusters, Modelling::Most), nodes)
}

/// Further replicas of a workload that fit into a cluster beside what was assigned to it, by one of the bounds on what
/// is free: more than by [`most`] certainly do not start, be it for the sum or because a pod is larger than each single
/// node. `None` where a cluster reports no resources, and may have any.
#[must_use]
pub fn fits_within(
    bound: &Capacity,
    spec: &ResourceBindingSpec,
    cluster: &ClusterName,
    options: &Options,
) -> Option<i64> {
    bound.is_known(cluster).then_some(())?;
    scheduling::available_replicas(spec, cluster, bound, options)
}

/// Tells why little fits: what would fit without resource models, which count each node with the least of its grade,
/// and which clusters have not reported their resources.
fn explain_capacity(
    cycles: &mut [Cycle],
    binding: BindingRef<'_>,
    clusters: &Clusters,
    state: &State,
    options: &Options,
) {
    let outcomes = || cycles.iter().flat_map(|cycle| cycle.clusters.values());
    if outcomes().all(|outcome| outcome.available.is_none()) {
        return;
    }
    let sums = Capacity::of(clusters, Modelling::Off);
    for (cluster, outcome) in cycles.iter_mut().flat_map(|cycle| &mut cycle.clusters) {
        let has_reported =
            || clusters.get(cluster).and_then(|c| c.status.as_ref()?.resource_summary.as_ref()).is_some();
        outcome.unreported = outcome.available == Some(0) && !state.is_by_node(cluster) && !has_reported();
        if outcome.descheduled_until.is_some() || state.is_by_node(cluster) {
            continue;
        }
        let fits = scheduling::available_replicas(binding.spec(), cluster, &sums, options);
        outcome.without_models = fits.filter(|fits| outcome.available.is_some_and(|modelled| modelled < *fits));
    }
}

/// The trace of a search, cut where an affinity group was not enough. A later reason of a cluster replaces an earlier
/// one, except for the scores.
fn cycles(trace: Vec<Because>, group: Option<String>) -> Vec<Cycle> {
    let (mut cycles, mut cycle) = (Vec::new(), Cycle::default());
    let mut descheduled: BTreeMap<ClusterName, Timestamp> = BTreeMap::new();
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
            Reason::Descheduled { cluster, until } => {
                descheduled.insert(cluster.clone(), *until);
                continue;
            }
            _ => continue,
        };
        let name = cluster.clone();
        let outcome = cycle.clusters.entry(cluster).or_insert(Outcome {
            because: reason.clone(),
            score: None,
            available: None,
            without_models: None,
            unreported: false,
            descheduled_until: descheduled.get(&name).copied(),
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
