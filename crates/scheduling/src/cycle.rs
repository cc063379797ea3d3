//! Scheduling cycle: filter, score, select, assign (specification/scheduling.md 3). Writing its result is not part of
//! it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::{
    cluster::Cluster,
    conditions::binding::PREEMPTED,
    eviction::{APPLICATION_FAILURE, BINDING_PREEMPTED},
    policy::{
        ClusterAffinityTerm, Placement, ReplicaSchedulingType, SpreadByField, SpreadConstraint, StaticClusterWeight,
    },
    work::{ResourceBindingSpec, TargetCluster, TargetComponent},
};
use ironclad_fleet::{
    Because, BindingRef, ClusterName, affinity,
    because::schedule::{Reason, Refusal},
};
use jiff::Timestamp;

use crate::{
    Candidate, CycleEvent, Options, Seen, Step,
    assign::{self, AssignError, Fill, Mode, Shares},
    avoided::avoided,
    candidate::{self, Preference},
    capacity::{Asker, Capacity},
    divide::{TieOrder, Weight},
    estimator::Question,
    filter::{Filter, FitError},
    groups::{AtTheEnd, Start, attempts},
    index::{Entry, Index, Numbers},
    memberships::Memberships,
    options::schedules_component_sets,
    plugin::TargetState,
    preempt,
    spread::{self, Bounds, Grouping, Need, SelectError, Selection, Spread, Topology},
    topology::{self, Figures, Fleet, GroupNames},
};

/// Capacity used when a workload requests no resources or no estimator is configured.
const UNLIMITED: i64 = i32::MAX as i64;
/// Number of clusters from which on estimates are remembered: a few are computed as fast, and their requests would
/// drive out those of larger decisions. Tests remember more, as their fleets are small.
const REMEMBERED_FROM: usize = if cfg!(test) { 2 } else { 32 };

/// Failure of a scheduling cycle. The texts are those of conditions and events.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The binding has no placement.
    #[error("failed to get placement from {kind}({binding})")]
    NoPlacement {
        /// `resourceBinding` or `clusterResourceBinding`.
        kind: &'static str,
        /// Its name.
        binding: String,
    },
    /// No cluster passed the filters.
    #[error("{0}")]
    NoFit(FitError),
    /// The feasible clusters do not satisfy the spread constraints.
    #[error("failed to select clusters: {0}")]
    Select(SelectError),
    /// Nothing was selected.
    #[error("failed to assign replicas: no clusters available to schedule")]
    NothingSelected,
    /// The selected clusters have too little capacity for the replicas.
    #[error("failed to assign replicas: {0}")]
    Assign(AssignError),
}

impl Failure {
    /// Class of the failure. It decides on the condition, the retry, and whether the result is kept.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::NoFit(_) => Class::NoFit,
            Self::Select(SelectError::InsufficientCapacity { .. }) | Self::Assign(_) => Class::InsufficientCapacity,
            Self::Select(SelectError::Unsupported) | Self::NoPlacement { .. } | Self::NothingSelected => Class::Other,
            Self::Select(_) => Class::TooFew,
        }
    }
}

/// Kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// No cluster passes the filters: retried on an event; the result may be withdrawn.
    NoFit,
    /// Too few clusters for the spread constraints: retried on an event; the result is kept
    /// (specification/scheduling.md 16.4).
    TooFew,
    /// Feasible clusters lack capacity: retried when capacity appears.
    InsufficientCapacity,
    /// Any other failure: retried with backoff.
    Other,
}

/// Result of a search: of the only cycle, or of the first affinity group that succeeds.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleResult {
    /// The targets, by name.
    pub targets: Vec<TargetCluster>,
    /// The affinity group that succeeded, if the placement has groups.
    pub group: Option<String>,
}

/// Schedules a binding as if the clusters `without` did not exist, with the reasons for and against every other
/// cluster. Used by the check before an eviction, `why`, `plan`, `drain` and preemption
/// (specification/scheduling.md 5.5). Tolerations with `tolerationSeconds` count from now.
///
/// # Errors
/// If no result satisfies the placement.
pub fn dry_run(seen: &Seen<'_>, without: &BTreeSet<ClusterName>) -> (Result<ScheduleResult, Failure>, Vec<Because>) {
    let mut because = Vec::new();
    let mut on_event = |_| {};
    let mut trace = Trace::of(seen, &mut because, &mut on_event);
    let found = search(seen, without, Timestamp::MIN, &mut trace, &mut Vec::new());
    (found, because)
}

/// Outputs of a scheduling cycle beside its result.
pub(crate) struct Trace<'a> {
    /// Reasons for the result.
    pub(crate) because: &'a mut Vec<Because>,
    /// True if there are reasons for and against every cluster among them.
    each_cluster: bool,
    /// Called at the end of each step and each plugin, so that a caller with a clock can measure them.
    pub(crate) on_event: &'a mut dyn FnMut(CycleEvent),
}

impl<'a> Trace<'a> {
    pub(crate) fn of(seen: &Seen<'_>, because: &'a mut Vec<Because>, on_event: &'a mut dyn FnMut(CycleEvent)) -> Self {
        Self { because, each_cluster: seen.index.is_none(), on_event }
    }

    /// Adds reasons that name a cluster each.
    fn note_clusters(&mut self, reasons: impl IntoIterator<Item = Reason>) {
        if self.each_cluster {
            self.because.extend(reasons.into_iter().map(Because::from));
        }
    }
}

/// Failed affinity group: index in the list, and failure.
pub(crate) type GroupFailure = (usize, Failure);

/// Runs cycles over the ordered affinity groups, or the one cycle of a placement without groups
/// (specification/scheduling.md 4.2). The failure is that of the first group.
pub(crate) fn search(
    seen: &Seen<'_>,
    without: &BTreeSet<ClusterName>,
    now: Timestamp,
    trace: &mut Trace<'_>,
    failed: &mut Vec<GroupFailure>,
) -> Result<ScheduleResult, Failure> {
    let binding = seen.binding;
    let Some(placement) = &binding.spec().placement else { return Err(no_placement(seen)) };
    let groups = &placement.cluster_affinities;
    if placement.cluster_affinity.is_some() || groups.is_empty() {
        let targets = run_cycle(seen, placement, None, without, now, trace)?;
        return Ok(ScheduleResult { targets, group: None });
    }
    let start = if binding.reschedule_required() { Start::First } else { Start::Observed };
    let end = if seen.options.wrap_around_groups { AtTheEnd::WrapAround } else { AtTheEnd::Stop };
    for index in attempts(groups, binding.observed_group(), start, end) {
        let group = &groups[index];
        match run_cycle(seen, placement, Some(group), without, now, trace) {
            Ok(targets) => return Ok(ScheduleResult { targets, group: Some(group.affinity_name.clone()) }),
            Err(failure) => {
                let (group, error) = (group.affinity_name.clone(), failure.to_string());
                trace.because.push(Reason::GroupFailed { group, index, error }.into());
                failed.push((index, failure));
            }
        }
    }
    Err(failed.first().map_or_else(|| no_placement(seen), |(_, failure)| failure.clone()))
}

fn no_placement(seen: &Seen<'_>) -> Failure {
    let kind = match seen.binding {
        BindingRef::Namespaced(_) => "resourceBinding",
        BindingRef::Cluster(_) => "clusterResourceBinding",
    };
    Failure::NoPlacement { kind, binding: seen.binding.key().to_string() }
}

fn run_cycle(
    seen: &Seen<'_>,
    placement: &Placement,
    group: Option<&ClusterAffinityTerm>,
    without: &BTreeSet<ClusterName>,
    now: Timestamp,
    trace: &mut Trace<'_>,
) -> Result<Vec<TargetCluster>, Failure> {
    let spec = seen.binding.spec();
    let before: BTreeMap<&str, &TargetCluster> = spec.clusters.iter().map(|t| (t.name.as_str(), t)).collect();
    let history = seen.binding.status().map_or(&[][..], |status| &status.failover_history);
    let filter = Filter { spec, placement, group, plugins: seen.options.plugins, history, now };
    if !trace.each_cluster {
        let scored = scored(seen, &filter, &before, without, trace).map_err(Failure::NoFit)?;
        let selected = selected(seen, placement, &before, &scored);
        (trace.on_event)(CycleEvent::Step(Step::Select));
        return divided(seen, placement, &selected.map_err(Failure::Select)?, trace.on_event);
    }
    let candidates = candidates(seen, &filter, &before, without, trace).map_err(Failure::NoFit)?;
    trace.note_clusters(candidates.iter().map(fits));
    let placed = place(seen, placement, candidates, trace.on_event)?;
    explain(&placed, &before, trace);
    Ok(placed.targets)
}

/// Feasible clusters in the order of preference.
pub(crate) fn candidates(
    seen: &Seen<'_>,
    filter: &Filter<'_>,
    before: &BTreeMap<&str, &TargetCluster>,
    without: &BTreeSet<ClusterName>,
    trace: &mut Trace<'_>,
) -> Result<Vec<Candidate>, FitError> {
    let scored = scored(seen, filter, before, without, trace)?;
    let weighing = Weighing::of(seen, filter.placement);
    let mut all: Vec<Candidate> =
        weighing.weighed(before, &scored).into_iter().map(|one| weighing.candidate(&scored, one)).collect();
    Candidate::sort(&mut all);
    Ok(all)
}

/// Feasible clusters with their scores.
struct Scored<'a> {
    feasible: Vec<Feasible<'a>>,
    /// The score of each.
    scores: Vec<i64>,
    /// Clusters that get no replicas for now.
    avoided: BTreeMap<ClusterName, Timestamp>,
}

fn scored<'a>(
    seen: &Seen<'a>,
    filter: &Filter<'_>,
    before: &BTreeMap<&str, &TargetCluster>,
    without: &BTreeSet<ClusterName>,
    trace: &mut Trace<'_>,
) -> Result<Scored<'a>, FitError> {
    let feasible = feasible(seen, filter, before, without, trace);
    (trace.on_event)(CycleEvent::Step(Step::Filter));
    let feasible = feasible?;
    let scores: Vec<i64> = feasible
        .iter()
        .map(|f| {
            (trace.on_event)(CycleEvent::Cluster);
            filter.score_observed(f.cluster, f.state, f.is_tainted, trace.on_event)
        })
        .collect();
    (trace.on_event)(CycleEvent::Step(Step::Score));
    let avoided = avoided(seen.binding, filter.now);
    trace.because.extend(
        avoided
            .iter()
            .map(|(cluster, until)| Because::from(Reason::Descheduled { cluster: cluster.clone(), until: *until })),
    );
    Ok(Scored { feasible, scores, avoided })
}

/// Result of selection and division.
pub(crate) struct Placing {
    pub(crate) targets: Vec<TargetCluster>,
    selected: Vec<Candidate>,
    rest: Vec<Candidate>,
}

/// Selects among the candidates, which are in the order of preference, and divides the replicas.
pub(crate) fn place(
    seen: &Seen<'_>,
    placement: &Placement,
    candidates: Vec<Candidate>,
    on_event: &mut dyn FnMut(CycleEvent),
) -> Result<Placing, Failure> {
    let spec = seen.binding.spec();
    let selection = spread::select(candidates, &spread_of(spec, placement), need(seen.options, spec, placement));
    on_event(CycleEvent::Step(Step::Select));
    let Selection { selected, rest } = selection.map_err(Failure::Select)?;
    let targets = divided(seen, placement, &selected, on_event)?;
    Ok(Placing { targets, selected, rest })
}

/// Divides the replicas among the selected clusters.
fn divided(
    seen: &Seen<'_>,
    placement: &Placement,
    selected: &[Candidate],
    on_event: &mut dyn FnMut(CycleEvent),
) -> Result<Vec<TargetCluster>, Failure> {
    if selected.is_empty() {
        return Err(Failure::NothingSelected);
    }
    let targets = assigned(seen, placement, selected);
    on_event(CycleEvent::Step(Step::AssignReplicas));
    targets.map_err(Failure::Assign)
}

/// Selects among the feasible clusters as [`place`], without making candidates of the others: these are nowhere
/// reported.
fn selected(
    seen: &Seen<'_>,
    placement: &Placement,
    before: &BTreeMap<&str, &TargetCluster>,
    scored: &Scored<'_>,
) -> Result<Vec<Candidate>, SelectError> {
    let weighing = Weighing::of(seen, placement);
    let need = need(seen.options, seen.binding.spec(), placement);
    let mut all = weighing.weighed(before, scored);
    let candidate = |one: &Weighed| weighing.candidate(scored, *one);
    if let Spread::Groups { by, clusters, replicas } = &weighing.spread {
        all.sort_unstable_by(|a, b| a.preference(scored).cmp(&b.preference(scored)));
        let groups = |at: usize, constraint: usize| scored.feasible[all[at].at].groups(&by[constraint].topology).iter();
        let fleet = Fleet {
            figures: all.iter().map(|one| Figures { score: one.score, available: one.available() }).collect(),
            memberships: Memberships::of(all.len(), by.len(), groups),
        };
        let chosen = topology::select(&fleet, by, *clusters, *replicas, need)?;
        return Ok(chosen.into_iter().map(|at| candidate(&all[at])).collect());
    }
    if let Spread::Clusters(bounds) = &weighing.spread {
        keep_selected(&mut all, scored, *bounds, need);
    }
    let mut candidates: Vec<Candidate> = all.iter().map(candidate).collect();
    Candidate::sort(&mut candidates);
    spread::select(candidates, &weighing.spread, need).map(|selection| selection.selected)
}

/// Cluster that passed the filters.
struct Feasible<'a> {
    name: &'a ClusterName,
    cluster: &'a Cluster,
    /// Its number and entry in the index, if there is one.
    indexed: Option<(usize, &'a Entry)>,
    tier: u32,
    state: TargetState,
    /// False if it is known to have no taints.
    is_tainted: bool,
}

impl<'a> Feasible<'a> {
    fn groups(&self, topology: &Topology) -> GroupNames<'a> {
        self.indexed.map_or_else(|| topology.groups(self.cluster), |(_, entry)| entry.groups(topology))
    }
}

fn feasible<'a>(
    seen: &Seen<'a>,
    filter: &Filter<'_>,
    before: &BTreeMap<&str, &TargetCluster>,
    without: &BTreeSet<ClusterName>,
    trace: &mut Trace<'_>,
) -> Result<Vec<Feasible<'a>>, FitError> {
    if let Some(index) = seen.index {
        let all = feasible_by_index(seen, index, filter, before, without, trace);
        if !all.is_empty() {
            return Ok(all);
        }
        // The failure counts the clusters by the reason against them.
    }
    feasible_of_all(seen, filter, before, without, trace)
}

fn feasible_of_all<'a>(
    seen: &Seen<'a>,
    filter: &Filter<'_>,
    before: &BTreeMap<&str, &TargetCluster>,
    without: &BTreeSet<ClusterName>,
    trace: &mut Trace<'_>,
) -> Result<Vec<Feasible<'a>>, FitError> {
    let missing = filter.missing(seen.clusters);
    trace.note_clusters(missing.iter().map(|name| Reason::Missing { cluster: name.clone() }));
    let mut error = FitError { clusters: seen.clusters.len(), refusals: BTreeMap::new(), missing };
    let yields = Yields::of(seen, filter.placement);
    let mut all = Vec::new();
    for (name, cluster) in seen.clusters.iter().filter(|(name, _)| !without.contains(*name)) {
        if cluster.metadata.deletion_timestamp.is_some() {
            trace.note_clusters([Reason::ClusterLeaving { cluster: name.clone() }]);
            continue;
        }
        let state = if before.contains_key(&*name.0) { TargetState::Target } else { TargetState::New };
        (trace.on_event)(CycleEvent::Cluster);
        let passed = filter.test_observed(cluster, state, trace.on_event);
        let by_others = || refused_by_peers(seen, name, state).or_else(|| yields.refusal(seen, name, state));
        match passed.and_then(|tier| by_others().map_or(Ok(tier), Err)) {
            Err(refusal) => {
                trace.note_clusters([Reason::Refused { cluster: name.clone(), because: refusal.clone() }]);
                *error.refusals.entry(refusal).or_default() += 1;
            }
            Ok(tier) => all.push(Feasible { name, cluster, indexed: None, tier, state, is_tainted: true }),
        }
    }
    if all.is_empty() { Err(error) } else { Ok(all) }
}

/// The same clusters, in the order of their numbers: tests the targets, and what the index does not rule out.
fn feasible_by_index<'a>(
    seen: &Seen<'a>,
    index: &'a Index,
    filter: &Filter<'_>,
    before: &BTreeMap<&str, &TargetCluster>,
    without: &BTreeSet<ClusterName>,
    trace: &mut Trace<'_>,
) -> Vec<Feasible<'a>> {
    let narrowed = filter.narrowed(index, trace.on_event);
    let (mut numbers, mut targets) = (narrowed.numbers, Numbers::default());
    before.keys().filter_map(|name| index.number(name)).for_each(|number| targets.insert(number));
    numbers.unite(&targets);
    let yields = Yields::of(seen, filter.placement);
    let mut all = Vec::with_capacity(numbers.len());
    for number in numbers.iter() {
        let Some(entry) = index.entry(number) else { continue };
        let (name, cluster) = (&entry.name, &*entry.cluster);
        if !without.is_empty() && without.contains(name) {
            continue;
        }
        let is_target = targets.contains(number);
        let state = if is_target { TargetState::Target } else { TargetState::New };
        let passed = if is_target {
            if cluster.metadata.deletion_timestamp.is_some() {
                continue;
            }
            (trace.on_event)(CycleEvent::Cluster);
            filter.test_observed(cluster, state, trace.on_event)
        } else {
            if !narrowed.left.is_empty() {
                (trace.on_event)(CycleEvent::Cluster);
            }
            filter.test_by(narrowed.left.iter().copied(), cluster, state, trace.on_event)
        };
        if let Ok(tier) = passed
            && refused_by_peers(seen, name, state).is_none()
            && yields.refusal(seen, name, state).is_none()
        {
            let is_tainted = index.is_tainted(number);
            all.push(Feasible { name, cluster, indexed: Some((number, entry)), tier, state, is_tainted });
        }
    }
    all
}

/// Why other workloads keep the binding away from a cluster.
fn refused_by_peers(seen: &Seen<'_>, cluster: &ClusterName, state: TargetState) -> Option<Refusal> {
    seen.peers?.test(seen.binding, &cluster.0, state).err()
}

/// Returns whether the binding was preempted, as far as this process or the binding itself knows.
fn was_preempted(seen: &Seen<'_>) -> bool {
    let conditions = seen.binding.status().map_or(&[][..], |status| &status.conditions);
    seen.preempting.is_some_and(|preempting| preempting.placed.was_preempted(&seen.binding.key()))
        || conditions.iter().any(|condition| condition.type_ == PREEMPTED)
        || seen.binding.spec().graceful_eviction_tasks.iter().any(|task| task.reason == BINDING_PREEMPTED)
}

/// Rule for a preempted binding whose result does not depend on capacity: a cluster is refused, and where it stays it
/// does not grow, while the binding would take what is held for, or promised to, workloads that it yields to. It would
/// take back what it made room with.
struct Yields<'a>(Option<Asker<'a>>);

impl<'a> Yields<'a> {
    fn of(seen: &Seen<'a>, placement: &Placement) -> Self {
        let spec = seen.binding.spec();
        let applies = seen.options.preemption() == preempt::Mode::Evict
            && !depends_on_capacity(spec, placement)
            && was_preempted(seen);
        Self(applies.then(|| Asker::of(spec)))
    }

    fn refusal(&self, seen: &Seen<'_>, cluster: &ClusterName, state: TargetState) -> Option<Refusal> {
        let asker = self.0.as_ref().filter(|_| state == TargetState::New)?;
        if !seen.capacity.awaits_others(cluster, asker) {
            return None;
        }
        let spec = seen.binding.spec();
        let placement = spec.placement.as_ref()?;
        let is_duplicated = placement.replica_scheduling_type() == ReplicaSchedulingType::Duplicated;
        let wanted = if is_duplicated { i64::from(spec.replicas).max(1) } else { 1 };
        let fits = available_replicas(spec, cluster, seen.capacity, seen.options)?;
        (fits < wanted).then_some(Refusal::HeldForOthers)
    }

    /// Tests that no cluster gets more replicas than before of what is held for others.
    fn growth(&self, seen: &Seen<'_>, selected: &[Candidate], shares: &Shares) -> Result<(), AssignError> {
        let Some(asker) = &self.0 else { return Ok(()) };
        let takes = |candidate: &&Candidate| {
            let share = shares.get(&candidate.name).copied().unwrap_or(0);
            let more = share.saturating_sub(candidate.assigned);
            more > 0
                && seen.capacity.awaits_others(&candidate.name, asker)
                && available_replicas(seen.binding.spec(), &candidate.name, seen.capacity, seen.options)
                    .is_some_and(|fits| fits < more)
        };
        match selected.iter().find(takes) {
            Some(candidate) => Err(AssignError::HeldForOthers { cluster: candidate.name.clone() }),
            None => Ok(()),
        }
    }
}

fn fits(candidate: &Candidate) -> Reason {
    let available = candidate.estimated.then_some(candidate.allocatable);
    Reason::Fits { cluster: candidate.name.clone(), tier: candidate.tier, score: candidate.score, available }
}

/// Input of the figures of feasible clusters (specification/scheduling.md 7.1).
struct Weighing<'a> {
    seen: &'a Seen<'a>,
    spec: &'a ResourceBindingSpec,
    spread: Spread,
    /// True if component sets are scheduled as a whole.
    sets: bool,
    /// The question to the account, if the result depends on capacity.
    question: Option<Question>,
}

impl<'a> Weighing<'a> {
    fn of(seen: &'a Seen<'_>, placement: &Placement) -> Self {
        let spec = seen.binding.spec();
        let sets = schedules_component_sets(seen.options, spec, placement);
        let question = depends_on_capacity(spec, placement).then(|| Question::of(spec, sets));
        Self { seen, spec, spread: spread_of(spec, placement), sets, question }
    }

    /// Figures of the feasible clusters, in their order.
    fn weighed(&self, before: &BTreeMap<&str, &TargetCluster>, scored: &Scored<'_>) -> Vec<Weighed> {
        let Scored { feasible, scores, avoided } = scored;
        let (seen, spec) = (self.seen, self.spec);
        // Without an estimate every requested count fits (specification/scheduling.md 10.1).
        let unknown = if self.question.is_some() { i64::from(spec.replicas).max(1) } else { UNLIMITED };
        let asker = Asker::of(spec);
        let mut remembered = self
            .question
            .as_ref()
            .filter(|_| seen.index.is_some() && feasible.len() >= REMEMBERED_FROM)
            .map(|question| seen.capacity.remembered(question, asker));
        let mut estimate = |f: &Feasible<'_>| {
            let question = self.question.as_ref()?;
            if let Some(exact) = seen.available.exact(f.name) {
                return smallest(Some(exact), seen.available.get(f.name));
            }
            let general = match (&mut remembered, f.indexed) {
                (Some(remembered), Some((number, _))) => remembered.fits(number, f.name),
                _ => seen.capacity.fits(f.name, question, &asker),
            };
            smallest(general, seen.available.get(f.name))
        };
        let returns = may_return(seen.binding);
        let weight = |(at, (f, score)): (usize, (&Feasible<'_>, &i64))| {
            let mut estimate = estimate(f);
            if self.question.is_some() && !avoided.is_empty() && avoided.contains_key(f.name) {
                estimate = Some(0);
            }
            let target = (f.state == TargetState::Target).then(|| before.get(&*f.name.0)).flatten();
            let assigned = match target {
                Some(_) if self.sets => 1,
                Some(target) => i64::from(target.replicas.max(0)),
                None if returns => returning(seen, f.name),
                None => 0,
            };
            let allocatable = estimate.unwrap_or(unknown);
            Weighed { at, tier: f.tier, score: *score, allocatable, estimated: estimate.is_some(), assigned }
        };
        feasible.iter().zip(scores).enumerate().map(weight).collect()
    }

    fn candidate(&self, scored: &Scored<'_>, weighed: Weighed) -> Candidate {
        let f = &scored.feasible[weighed.at];
        let suspended = self.spec.suspension.as_ref().and_then(|all| all.dispatching_on_clusters.as_ref());
        Candidate {
            groups: self
                .spread
                .topologies()
                .map(|topology| f.groups(topology).iter().map(Arc::from).collect())
                .collect(),
            tier: f.tier,
            score: weighed.score,
            allocatable: weighed.allocatable,
            estimated: weighed.estimated,
            assigned: weighed.assigned,
            suspended: suspended.is_some_and(|some| some.cluster_names.iter().any(|name| **name == *f.name.0)),
            name: f.name.clone(),
        }
    }
}

/// Figures of a feasible cluster.
#[derive(Clone, Copy)]
struct Weighed {
    /// Its index among the feasible clusters.
    at: usize,
    tier: u32,
    score: i64,
    allocatable: i64,
    estimated: bool,
    assigned: i64,
}

impl Weighed {
    fn available(&self) -> i64 {
        self.allocatable.saturating_add(self.assigned)
    }

    fn preference<'a>(&self, scored: &Scored<'a>) -> Preference<'a> {
        candidate::preference(self.tier, self.score, self.available(), scored.feasible[self.at].name)
    }
}

/// Keeps the clusters that [`spread::select`] selects, if these are the preferred ones: with their number known, a
/// large fleet need not be sorted. If their capacity does not suffice, others take their places, and all are kept.
fn keep_selected(all: &mut Vec<Weighed>, scored: &Scored<'_>, bounds: Bounds, need: Need) {
    if bounds.max >= all.len() || bounds.min > bounds.max || bounds.max == 0 {
        return;
    }
    all.select_nth_unstable_by(bounds.max - 1, |a, b| a.preference(scored).cmp(&b.preference(scored)));
    let together: i128 = all[..bounds.max].iter().map(|one| i128::from(one.available())).sum();
    if matches!(need, Need::Replicas(need) if together < i128::from(need)) {
        return;
    }
    all.truncate(bounds.max);
}

/// Smallest estimate of all estimators; a negative answer is none (specification/scheduling.md 10.1).
fn smallest(general: Option<i64>, accurate: Option<i64>) -> Option<i64> {
    let answers = general.into_iter().chain(accurate.filter(|answer| *answer >= 0));
    answers.min().map(|fits| fits.clamp(0, UNLIMITED))
}

/// Further replicas (or component sets) of a binding that fit into the cluster by the account. `None` if the cluster is
/// unknown or the binding requests no capacity.
#[must_use]
pub fn available_replicas(
    spec: &ResourceBindingSpec,
    cluster: &ClusterName,
    capacity: &Capacity,
    options: &Options,
) -> Option<i64> {
    let sets = spec.placement.as_ref().is_some_and(|placement| schedules_component_sets(options, spec, placement));
    let requests_capacity = spec.replicas != 0 || !spec.components.is_empty();
    requests_capacity.then(|| capacity.fits(cluster, &Question::of(spec, sets), &Asker::of(spec))).flatten()
}

/// Returns whether the result depends on capacity. It does not for workloads without replicas, or if every feasible
/// cluster is used with fixed shares.
pub(crate) fn depends_on_capacity(spec: &ResourceBindingSpec, placement: &Placement) -> bool {
    let requests_capacity = spec.replicas != 0 || !spec.components.is_empty();
    requests_capacity && (spread_of(spec, placement) != Spread::All || divides_by_capacity(placement))
}

/// Returns the question that the scheduling cycles of a binding ask; `None` if its result does not depend on capacity.
#[must_use]
pub fn question_of(spec: &ResourceBindingSpec, options: &Options) -> Option<Question> {
    let placement = spec.placement.as_ref()?;
    depends_on_capacity(spec, placement).then(|| Question::of(spec, schedules_component_sets(options, spec, placement)))
}

/// Returns whether shares follow capacity (specification/scheduling.md 8.2).
pub(crate) fn divides_by_capacity(placement: &Placement) -> bool {
    let Some(strategy) = &placement.replica_scheduling else { return false };
    let dynamic = strategy.weight_preference.as_ref().is_some_and(|preference| preference.dynamic_weight.is_some());
    placement.replica_scheduling_type() == ReplicaSchedulingType::Divided && (!strategy.is_weighted() || dynamic)
}

/// Returns whether the binding has replicas on their way out, and no valid result.
fn may_return(binding: BindingRef<'_>) -> bool {
    let spec = binding.spec();
    !spec.graceful_eviction_tasks.is_empty() && (spec.clusters.is_empty() || !binding.is_scheduled())
}

/// Replicas that a cluster had before a taint or a drain evicted them, counted as previous result while the binding has
/// no valid one: the former result is restored where it still fits (specification/failover.md IR-30). Replicas that
/// never ran there are not counted: no summary includes them.
fn returning(seen: &Seen<'_>, cluster: &ClusterName) -> i64 {
    let binding = seen.binding;
    let may_return = |reason: &str| ![APPLICATION_FAILURE, BINDING_PREEMPTED].contains(&reason);
    let task = binding.spec().eviction(&cluster.0).filter(|task| may_return(&task.reason));
    task.map_or(0, |_| seen.capacity.returning(binding, cluster))
}

/// Component replicas of a cluster that runs the whole set; empty for a single component.
pub(crate) fn component_targets(spec: &ResourceBindingSpec) -> Vec<TargetComponent> {
    let shares = spec.components.iter().map(|c| TargetComponent { name: c.name.clone(), replicas: c.replicas });
    if spec.components.len() > 1 { shares.collect() } else { Vec::new() }
}

pub(crate) fn need(options: &Options, spec: &ResourceBindingSpec, placement: &Placement) -> Need {
    if schedules_component_sets(options, spec, placement) {
        return Need::Replicas(1);
    }
    match placement.replica_scheduling_type() {
        ReplicaSchedulingType::Duplicated => Need::DontCare,
        ReplicaSchedulingType::Divided => Need::Replicas(i64::from(spec.replicas)),
    }
}

/// Selection rule of the placement (specification/scheduling.md 7.2).
pub(crate) fn spread_of(spec: &ResourceBindingSpec, placement: &Placement) -> Spread {
    if placement.spread_constraints.is_empty() || placement.ignores_spread() {
        return Spread::All;
    }
    let bounds = |c: &SpreadConstraint| Bounds::new(c.min_groups, c.max_groups);
    let clusters = placement.spread_constraints.iter().find(|c| c.spread_by_field == Some(SpreadByField::Cluster));
    let clusters = clusters.map(bounds);
    let mut by: Vec<Grouping> = Vec::new();
    for constraint in &placement.spread_constraints {
        let named = Topology::of(constraint).filter(|topology| by.iter().all(|other| other.topology != *topology));
        by.extend(named.map(|topology| Grouping { topology, bounds: bounds(constraint) }));
    }
    // The sort is stable: labels keep the order of the placement.
    by.sort_by_key(|grouping| grouping.topology.rank());
    match clusters {
        Some(clusters) if by.is_empty() => Spread::Clusters(clusters),
        None if by.is_empty() => Spread::Unsupported,
        clusters => {
            Spread::Groups { by, clusters: clusters.unwrap_or(Bounds::new(0, 0)), replicas: i64::from(spec.replicas) }
        }
    }
}

/// Targets among the selected clusters, sorted by name (specification/scheduling.md 8).
fn assigned(seen: &Seen<'_>, placement: &Placement, selected: &[Candidate]) -> Result<Vec<TargetCluster>, AssignError> {
    let spec = seen.binding.spec();
    let divides = (spec.replicas > 0 || spec.replica_requirements.is_some()) && spec.components.len() <= 1;
    let mut targets: Vec<TargetCluster> = if divides {
        let shares = shares(seen, placement, selected)?;
        Yields::of(seen, placement).growth(seen, selected, &shares)?;
        let missing =
            selected.iter().filter(|c| seen.options.enable_empty_workload_propagation && !shares.contains_key(&c.name));
        let empty: Vec<_> = missing.map(|c| target(&c.name, 0)).collect();
        shares.iter().map(|(name, replicas)| target(name, *replicas)).chain(empty).collect()
    } else {
        let in_sets = schedules_component_sets(seen.options, spec, placement);
        let components = if in_sets { component_targets(spec) } else { Vec::new() };
        selected.iter().map(|c| TargetCluster { components: components.clone(), ..target(&c.name, 0) }).collect()
    };
    targets.sort();
    Ok(targets)
}

fn target(name: &ClusterName, replicas: i64) -> TargetCluster {
    let replicas = i32::try_from(replicas).unwrap_or(i32::MAX);
    TargetCluster { name: name.to_string(), replicas, components: Vec::new() }
}

fn shares(seen: &Seen<'_>, placement: &Placement, selected: &[Candidate]) -> Result<Shares, AssignError> {
    let want = i64::from(seen.binding.spec().replicas);
    let ties = TieOrder::of(&seen.binding.spec().resource.uid);
    let mode = if seen.binding.reschedule_required() { Mode::Fresh } else { Mode::Steady };
    let Some(strategy) = &placement.replica_scheduling else { return Ok(assign::duplicated(selected, want)) };
    if placement.replica_scheduling_type() == ReplicaSchedulingType::Duplicated {
        return Ok(assign::duplicated(selected, want));
    }
    if !strategy.is_weighted() {
        return assign::dynamic(selected, want, Fill::Aggregated, mode, ties);
    }
    match &strategy.weight_preference {
        Some(preference) if preference.dynamic_weight.is_some() => {
            assign::dynamic(selected, want, Fill::ByCapacity, mode, ties)
        }
        preference => {
            let weight = |candidate: &Candidate| match preference {
                None => 1,
                Some(preference) => heaviest(seen, &preference.static_weight_list, &candidate.name),
            };
            let weights = selected.iter().map(|c| Weight { cluster: c.name.clone(), weight: weight(c) }).collect();
            Ok(assign::by_static_weight(weights, want, ties))
        }
    }
}

/// Largest weight of the entries that select the cluster, not their sum (specification/scheduling.md 8.4).
fn heaviest(seen: &Seen<'_>, list: &[StaticClusterWeight], name: &ClusterName) -> i64 {
    let Some(cluster) = seen.clusters.get(name) else { return 0 };
    let matching = list.iter().filter(|entry| affinity::chooses(&entry.target_cluster, cluster));
    matching.map(|entry| entry.weight).max().unwrap_or(0)
}

fn explain(placed: &Placing, before: &BTreeMap<&str, &TargetCluster>, trace: &mut Trace<'_>) {
    if !trace.each_cluster {
        return;
    }
    let chosen: BTreeMap<&str, i32> = placed.targets.iter().map(|t| (t.name.as_str(), t.replicas)).collect();
    trace.note_clusters(placed.selected.iter().map(|candidate| {
        let cluster = candidate.name.clone();
        match chosen.get(&*candidate.name.0) {
            Some(replicas) => {
                let before = before.get(&*candidate.name.0).map(|target| target.replicas);
                Reason::Target { cluster, replicas: *replicas, before }
            }
            None => Reason::NoShare { cluster },
        }
    }));
    trace.note_clusters(placed.rest.iter().map(|c| Reason::NotSelected { cluster: c.name.clone() }));
}
