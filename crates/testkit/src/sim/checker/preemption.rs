//! Preemption between bindings over time (specification/scheduling.md 14.3, 15): who leaves for whom, how many, how
//! fast, and that no capacity is promised twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ironclad_api::{
    eviction::{BINDING_PREEMPTED, PRODUCER_SCHEDULER},
    policy::{PurgeMode, ReplicaSchedulingType, SpreadByField},
    work::{GracefulEvictionTask, PreemptionPolicy, ResourceBinding, ResourceBindingSpec, Work},
};
use ironclad_fleet::{BindingKey, ClusterName, Gvk, ObjectKey, World as Fleet, eviction_task};
use ironclad_scheduling::preempt::{Limits, Mode};

use super::{
    Checker, Rules, Write,
    capacity::{self, Figures, Holder, cpu, of_target, priority},
    clusters::Clusters,
    copies,
    machines::{self, Machines},
};
use crate::sim::objects::Class;

/// Grace period of the tasks of preempted bindings, seconds.
const GRACE: i32 = 300;
/// Time within which a preempted binding is spared.
const SPARED: Duration = Duration::from_secs(300);
/// Time without changes after which reports and results agree in every view: two summaries and what they may lag.
const SETTLED: Duration = Duration::from_secs(30);
/// Evictions of one binding by the same version of another one.
const REPEATED_MAX: usize = 3;
/// Time within which the end of a nomination is written.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// Time for which pods of a copy are waited for, at least.
const STARTS_WITHIN: Duration = Duration::from_secs(12);
const MINUTE: Duration = Duration::from_secs(60);
/// Time of a write on its way: its decision may not know what is written meanwhile.
const IN_FLIGHT: Duration = Duration::from_millis(50);

/// Gate and flags of preemption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preemption {
    pub mode: Mode,
    pub limits: Limits,
}

/// Priority of a binding, and whether it may preempt.
type Priority = (i32, bool);

/// Values over time; each is in force until the next one.
#[derive(Debug)]
struct Over<T>(Vec<(Duration, T)>);

impl<T> Default for Over<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: PartialEq> Over<T> {
    /// Returns true if the value changes.
    fn set(&mut self, at: Duration, value: T) -> bool {
        let changes = self.0.last().is_none_or(|(_, last)| *last != value);
        if changes {
            self.0.push((at, value));
        }
        changes
    }

    /// The values in force at any time since then.
    fn since(&self, from: Duration) -> impl Iterator<Item = &T> {
        let until = |n: usize| self.0.get(n + 1).map_or(Duration::MAX, |(next, _)| *next);
        self.0.iter().enumerate().filter(move |(n, _)| until(*n) >= from).map(|(_, (_, value))| value)
    }
}

#[derive(Debug)]
struct Nomination {
    at: Duration,
    generation: i64,
    /// Clusters and replicas that are held.
    clusters: BTreeMap<ClusterName, i64>,
    figures: Option<Figures>,
    victims: BTreeSet<(String, ClusterName)>,
}

#[derive(Debug)]
struct Eviction {
    at: Duration,
    victim: String,
    /// The preemptor and its generation.
    by: (BindingKey, i64),
}

#[derive(Debug, Default)]
pub(super) struct Preemptions {
    priorities: BTreeMap<BindingKey, Over<Option<Priority>>>,
    nominations: BTreeMap<BindingKey, Nomination>,
    nominated: BTreeMap<BindingKey, Duration>,
    evictions: Vec<Eviction>,
    /// Copies that preempted bindings left behind.
    left: BTreeSet<(ClusterName, ObjectKey)>,
    classes: BTreeMap<String, Over<Option<Priority>>>,
    named: BTreeMap<String, Over<Option<&'static str>>>,
    quota: Over<Option<i64>>,
    /// Capacity that was given to others while it was held, and by when the nomination must have ended.
    suspects: Vec<(Duration, BindingKey, Duration, String)>,
    /// Last change of results, tasks and reported capacity.
    changed: Duration,
    healed: Option<Duration>,
    /// Changes of the clusters of each binding after the last fault.
    moves: BTreeMap<BindingKey, usize>,
    /// Times at which bindings got capacity, with their priorities.
    placements: Vec<(Duration, i32)>,
    /// Times at which bindings were last given more of a cluster, and millicores that they have with it.
    given: BTreeMap<(BindingKey, ClusterName), (Duration, i64)>,
    /// Members limit pods by quotas of their own.
    limited: bool,
}

fn priority_of(spec: &ResourceBindingSpec) -> Priority {
    let resolved = spec.schedule_priority.as_ref();
    let preempts = resolved.and_then(|p| p.preemption_policy) == Some(PreemptionPolicy::PreemptLowerPriority);
    (priority(spec), preempts)
}

/// Fields that decide about the capacity that a binding takes.
fn takes(binding: &ResourceBinding) -> impl PartialEq + use<> {
    let spec = &binding.spec;
    (spec.clusters.clone(), spec.graceful_eviction_tasks.len(), cpu(spec))
}

fn preempted(binding: &ResourceBinding) -> impl Iterator<Item = &GracefulEvictionTask> {
    binding.spec.graceful_eviction_tasks.iter().filter(|task| task.reason == BINDING_PREEMPTED)
}

/// Millicores of the pods of a binding that have a node in the cluster.
fn running(machines: &BTreeMap<ClusterName, Machines>, cluster: &ClusterName, spec: &ResourceBindingSpec) -> i64 {
    let pods = machines.get(cluster).map_or(0, |there| there.running(&spec.resource.name));
    i64::try_from(pods).unwrap_or(i64::MAX).saturating_mul(cpu(spec))
}

fn placed(spec: &ResourceBindingSpec) -> i32 {
    spec.clusters.iter().map(|target| target.replicas).sum()
}

#[cfg(test)]
mod tests;

impl Checker {
    /// Records that a user creates or deletes a PriorityClass.
    pub fn class_set(&mut self, at: Duration, name: &str, class: Option<Class>) {
        let priority = class.map(|class| (class.value, !class.never));
        self.preemptions.classes.entry(name.to_owned()).or_default().set(at, priority);
    }

    /// Records that the policy of a binding's template names a class.
    pub fn class_named(&mut self, at: Duration, binding: String, class: Option<&'static str>) {
        self.preemptions.named.entry(binding).or_default().set(at, class);
    }

    /// Records that a user sets or deletes the quota of all bindings, in millicores.
    pub fn quota_set(&mut self, at: Duration, cpu: Option<i64>) {
        self.preemptions.quota.set(at, cpu);
    }

    /// Records that a member limits the pods of its namespace.
    pub fn members_limited(&mut self) {
        self.preemptions.limited = true;
    }

    /// Returns true if a quota of a member or of the control plane may keep waiting who finds nodes.
    pub fn has_quotas(&self) -> bool {
        self.preemptions.limited || self.preemptions.quota.0.last().is_some_and(|(_, quota)| quota.is_some())
    }

    /// Evictions since then whose preemptor was not placed, although it is the same and no higher priority got
    /// capacity afterwards. Called at rest.
    pub fn in_vain(&self, since: Duration, fleet: &Fleet) -> Vec<String> {
        self.preemptions.in_vain(since, fleet)
    }

    pub(super) fn end_of_faults(&mut self, at: Duration) {
        self.preemptions.healed = Some(at);
    }

    /// Checks a written binding.
    pub(super) fn preemption(
        &mut self,
        write: &Write,
        key: &BindingKey,
        old: Option<&ResourceBinding>,
        new: Option<&ResourceBinding>,
        fleet: &Fleet,
        broken: &mut Vec<String>,
    ) {
        let Some(allowed) = self.rules.preemption else { return };
        let at = write.at;
        self.preemptions.confirm(at, broken);
        let Some(new) = new else {
            self.preemptions.priorities.entry(key.clone()).or_default().set(at, None);
            if self.preemptions.nominations.remove(key).is_some() {
                self.noted.insert("a preemptor is deleted before it is placed");
            }
            self.preemptions.changed = at;
            self.preemptions.forget_figures();
            return;
        };
        let old = old.filter(|old| old.metadata.uid == new.metadata.uid);
        if old.map(takes) != Some(takes(new)) && !(old.is_none() && new.spec.clusters.is_empty()) {
            self.preemptions.changed = at;
        }
        let priority = priority_of(&new.spec);
        if self.preemptions.priorities.entry(key.clone()).or_default().set(at, Some(priority)) {
            self.preemptions.forget_figures();
        }
        self.preemptions.resolved(at, key, old, new, &self.rules, broken);
        if let Some(old) = old {
            for task in preempted(new).filter(|task| !preempted(old).any(|o| o.from_cluster == task.from_cluster)) {
                self.evicted_for(write, key, task, old, new, allowed, fleet, broken);
            }
            self.preemptions.moved(key, old, new, broken);
            let went = |task: &&GracefulEvictionTask| !preempted(new).any(|n| n.from_cluster == task.from_cluster);
            if preempted(old).filter(went).any(|task| {
                task.creation_timestamp
                    .as_ref()
                    .is_some_and(|created| write.wall + self.rules.skew < created.0.as_second() + i64::from(GRACE) - 1)
            }) {
                self.noted.insert("a victim may return early");
            }
            if new.spec.clusters.len() > old.spec.clusters.len() && preempted(new).next().is_some() {
                self.noted.insert("a preempted binding finds another cluster");
            }
        }
        let (clusters, machines) = (&self.clusters, &self.machines);
        self.preemptions.nominate(at, key, new, allowed, &self.rules, clusters, machines, fleet, broken);
        self.preemptions.promise(at, key, old, new, fleet, machines, &self.rules, broken);
    }

    pub(super) fn capacity_changed(&mut self, at: Duration) {
        self.preemptions.changed = at;
    }

    /// Checks that a binding was preempted for a good reason.
    fn evicted_for(
        &mut self,
        write: &Write,
        key: &BindingKey,
        task: &GracefulEvictionTask,
        old: &ResourceBinding,
        new: &ResourceBinding,
        allowed: Preemption,
        fleet: &Fleet,
        broken: &mut Vec<String>,
    ) {
        let (at, from) = (write.at, ClusterName::from(task.from_cluster.as_str()));
        let spec = &old.spec;
        self.noted.insert("a binding is preempted");
        if allowed.mode != Mode::Evict {
            broken.push(format!("{key} is preempted from {from} in mode {:?}", allowed.mode));
        }
        let is_task = task.purge_mode == Some(PurgeMode::Directly)
            && task.grace_period_seconds == Some(GRACE)
            && task.producer == PRODUCER_SCHEDULER
            && spec.target(&from.0).is_some()
            && new.spec.target(&from.0).is_none();
        if !is_task {
            broken.push(format!("{key} leaves {from} by another task than a preemption's: {task:?}"));
        }
        if cpu(spec) == 0 || old.metadata.deletion_timestamp.is_some() || spec.scheduling_suspended() {
            broken.push(format!("{key} is no possible victim, and is preempted from {from}"));
        }
        if self.clusters.get(&from).is_none_or(|state| state.surely_repels(true, at, self.rules.stale)) {
            broken.push(format!("{key} is preempted from {from}, which is not ready"));
        }
        let object = ObjectKey {
            gvk: Gvk::from_manifest(&spec.resource.api_version, &spec.resource.kind),
            namespace: spec.resource.namespace.as_str().into(),
            name: spec.resource.name.as_str().into(),
        };
        self.preemptions.left.insert((from.clone(), object));
        let Some(by) = eviction_task::preemptor(task) else {
            broken.push(format!("the task of {key} from {from} does not name its preemptor: {}", task.message));
            return;
        };
        let lately = at.saturating_sub(self.rules.stale);
        let history = self.preemptions.priorities.get(&by);
        let higher = |p: &Option<Priority>| p.is_some_and(|(value, preempts)| preempts && value > priority(spec));
        if !history.is_some_and(|history| history.since(lately).any(higher)) {
            broken
                .push(format!("{key} of priority {} is preempted from {from} by {by}, which may not", priority(spec)));
        }
        let generation = fleet.bindings.get(&by).and_then(|by| by.metadata.generation).unwrap_or_default();
        let by = (by, generation);
        let eviction = Eviction { at, victim: key.to_string(), by: by.clone() };
        self.preemptions.evictions.push(eviction);
        self.within_limits(at, &by, key, allowed.limits, broken);
        self.preemptions.needed(at, &by.0, key, &from, &self.rules, allowed.limits, broken, &mut self.noted);
    }

    /// Checks the limit of a minute, and that nobody is evicted over and over again.
    fn within_limits(
        &mut self,
        at: Duration,
        by: &(BindingKey, i64),
        victim: &BindingKey,
        limits: Limits,
        broken: &mut Vec<String>,
    ) {
        let all = &self.preemptions.evictions;
        // Times on the wire have whole seconds, and a process that starts knows none of the evictions before.
        let recent: Vec<Duration> =
            all.iter().map(|e| e.at).filter(|e| *e + MINUTE > at + Duration::from_secs(2)).collect();
        let begin = recent.first().copied().unwrap_or(at);
        let is_calm = self.late.is_calm_since(begin.saturating_sub(self.rules.stale));
        let knows =
            is_calm && self.rules.skew == 0 && !self.starts.iter().any(|start| *start + self.rules.stale >= begin);
        if knows && recent.len() > limits.evictions_per_minute {
            broken.push(format!(
                "{} preemptions within a minute, at most {}",
                recent.len(),
                limits.evictions_per_minute
            ));
        }
        // It may leave several clusters at once.
        let times = all.iter().filter(|e| e.by == *by && e.victim == victim.to_string()).map(|e| e.at);
        let repeated = times.collect::<BTreeSet<_>>().len();
        if repeated > REPEATED_MAX {
            broken.push(format!("{victim} is preempted by {} for the {repeated}th time", by.0));
        }
    }
}

impl Preemptions {
    fn in_vain(&self, since: Duration, fleet: &Fleet) -> Vec<String> {
        let waits = |eviction: &&Eviction| {
            let (key, generation) = &eviction.by;
            let by = fleet.bindings.get(key).filter(|by| by.metadata.generation == Some(*generation));
            by.is_some_and(|by| {
                // The plan is made once more in the moment of the first eviction.
                let higher = |(at, of): &(Duration, i32)| *at + IN_FLIGHT >= eviction.at && *of > priority(&by.spec);
                placed(&by.spec) < by.spec.replicas && !self.placements.iter().any(higher)
            })
        };
        let recent = self.evictions.iter().filter(|eviction| eviction.at >= since && waits(eviction));
        recent.map(|eviction| format!("{} left in vain for {}", eviction.victim, eviction.by.0)).collect()
    }

    /// A plan that was made before something changed may be replaced under the same nomination.
    pub(super) fn forget_figures(&mut self) {
        self.nominations.values_mut().for_each(|nomination| nomination.figures = None);
    }

    /// Returns whether a deleted copy was left behind by a preempted binding. Only its first deletion is excused.
    pub(super) fn take_left(&mut self, cluster: &ClusterName, object: &ObjectKey) -> bool {
        self.left.remove(&(cluster.clone(), object.clone()))
    }

    /// Confirms suspicions about nominations that did not end in time.
    fn confirm(&mut self, at: Duration, broken: &mut Vec<String>) {
        let nominations = &self.nominations;
        self.suspects.retain(|(by, other, since, found)| {
            let lasts = nominations.get(other).is_some_and(|nomination| nomination.at == *since);
            if lasts && *by < at {
                broken.push(found.clone());
            }
            lasts && *by >= at
        });
    }

    /// Checks a changed priority against the classes that the policy named lately.
    fn resolved(
        &self,
        at: Duration,
        key: &BindingKey,
        old: Option<&ResourceBinding>,
        new: &ResourceBinding,
        rules: &Rules,
        broken: &mut Vec<String>,
    ) {
        let is = new.spec.schedule_priority.as_ref();
        if old.is_some_and(|old| old.spec.schedule_priority.as_ref() == is) {
            return;
        }
        let Some(named) = self.named.get(&*key.name) else { return };
        let lately = at.saturating_sub(rules.stale + SETTLED);
        let mut possible: Vec<Option<Priority>> = Vec::new();
        for class in named.since(lately) {
            let Some(class) = class else {
                possible.push(None);
                continue;
            };
            match self.classes.get(*class) {
                Some(values) => {
                    possible.extend(values.since(lately).map(|value| Some(value.unwrap_or((0, false)))));
                    if values.0.first().is_none_or(|(first, _)| *first >= lately) {
                        possible.push(Some((0, false)));
                    }
                }
                None => possible.push(Some((0, false))),
            }
        }
        let found = is.map(|_| priority_of(&new.spec));
        if !possible.contains(&found) {
            broken.push(format!("{key} has priority {found:?}, and its class says {possible:?}"));
        }
    }

    /// Records a changed nomination, with the capacity that it was decided on.
    fn nominate(
        &mut self,
        at: Duration,
        key: &BindingKey,
        new: &ResourceBinding,
        allowed: Preemption,
        rules: &Rules,
        clusters: &Clusters,
        machines: &BTreeMap<ClusterName, Machines>,
        fleet: &Fleet,
        broken: &mut Vec<String>,
    ) {
        let held = new.status.as_ref().map_or(&[][..], |status| &status.nominated_clusters);
        let held: BTreeMap<ClusterName, i64> =
            held.iter().map(|t| (ClusterName::from(t.name.as_str()), i64::from(t.replicas))).collect();
        if held.is_empty() {
            if self.nominations.remove(key).is_some() {
                self.nominated.insert(key.clone(), at);
            }
            return;
        }
        if self.nominations.get(key).is_some_and(|nomination| nomination.clusters == held) {
            return;
        }
        if allowed.mode != Mode::Evict {
            broken.push(format!("{key} is nominated in mode {:?}", allowed.mode));
        }
        let figures = self.figures(at, key, new, rules, clusters, machines, fleet);
        let generation = new.metadata.generation.unwrap_or_default();
        let nomination = Nomination { at, generation, clusters: held, figures, victims: BTreeSet::new() };
        self.nominations.insert(key.clone(), nomination);
    }

    /// Capacity that a preemptor surely saw; `None` if views may differ.
    fn figures(
        &self,
        at: Duration,
        key: &BindingKey,
        new: &ResourceBinding,
        rules: &Rules,
        clusters: &Clusters,
        machines: &BTreeMap<ClusterName, Machines>,
        fleet: &Fleet,
    ) -> Option<Figures> {
        let (spec, own) = (&new.spec, priority(&new.spec));
        let placement = spec.placement.as_ref()?;
        let grouped = |spec: &ResourceBindingSpec| spec.workload_affinity_groups.is_some();
        let by_cluster = placement.spread_constraints.iter().all(|c| c.spread_by_field == Some(SpreadByField::Cluster));
        let plain = placement.cluster_affinities.is_empty()
            && by_cluster
            && placement.replica_scheduling_type() == ReplicaSchedulingType::Divided
            && spec.clusters.is_empty()
            && spec.graceful_eviction_tasks.is_empty()
            && !fleet.bindings.values().any(|binding| grouped(&binding.spec))
            && cpu(spec) > 0;
        let stale = rules.stale;
        let spares = self.evictions.iter().any(|e| e.at + SPARED + stale + SETTLED >= at);
        if !plain
            || spares
            || self.limited
            || self.changed + stale + SETTLED >= at
            || self.nominations.keys().any(|other| other != key)
        {
            return None;
        }
        let named = placement.cluster_affinity.as_ref().map_or(&[][..], |affinity| &affinity.cluster_names);
        let mut found = BTreeMap::new();
        for (name, cluster) in &fleet.clusters {
            let state = clusters.get(name)?;
            let there = machines.get(name)?;
            let runs = |binding: &ResourceBinding| {
                let promised = binding.spec.target(&name.0).map_or(0, |target| target.replicas);
                cpu(&binding.spec) == 0 || there.pods_of(&binding.spec.resource.name) == promised as usize
            };
            let well = state.is_surely_ready(at, stale + SETTLED) && cluster.spec.taints.is_empty();
            let well = well && there.are_settled() && fleet.bindings.values().all(|binding| runs(binding));
            if !well || state.changed + stale + SETTLED >= at {
                return None;
            }
            if !named.is_empty() && !named.iter().any(|allowed| **allowed == *name.0) {
                continue;
            }
            let here = fleet.bindings.iter().filter(|(_, binding)| binding.spec.target(&name.0).is_some());
            let lower = here.filter(|(_, b)| priority(&b.spec) < own && cpu(&b.spec) > 0);
            let holders = lower
                .map(|(other, b)| Holder { binding: other.to_string(), cpu: there.held_by(&b.spec.resource.name) });
            found.insert(name.clone(), (there.free(&|_| false), holders.collect()));
        }
        let single = placement.spread_constraints.iter().any(|c| c.max_groups == 1);
        Some(Figures { replicas: i64::from(spec.replicas), cpu: cpu(spec), single, clusters: found })
    }

    /// Checks the number of victims of a nomination.
    fn needed(
        &mut self,
        at: Duration,
        by: &BindingKey,
        victim: &BindingKey,
        from: &ClusterName,
        rules: &Rules,
        limits: Limits,
        broken: &mut Vec<String>,
        noted: &mut BTreeSet<&'static str>,
    ) {
        let Some(nomination) = self.nominations.get_mut(by) else {
            // The nomination may have ended while the write was under way.
            if self.nominated.get(by).is_none_or(|ended| *ended + rules.stale < at) {
                broken.push(format!("{victim} is preempted by {by}, for which nothing is held"));
            }
            return;
        };
        if !nomination.clusters.contains_key(from) {
            broken.push(format!("{victim} is preempted from {from}, where nothing is held for {by}"));
        }
        nomination.victims.insert((victim.to_string(), from.clone()));
        let victims = &nomination.victims;
        let count = victims.iter().map(|(victim, _)| victim).collect::<BTreeSet<_>>().len();
        if count > 1 {
            noted.insert("a preemption needs several victims");
        }
        // Of an earlier plan under the same nomination, others may have taken what was freed. Who was placed and asks
        // for more has a plan of its own.
        let lately = |e: &&Eviction| e.by == (by.clone(), nomination.generation) && e.at + MINUTE >= at;
        let evictions = self.evictions.iter().filter(lately);
        let lately = evictions.map(|e| &e.victim).collect::<BTreeSet<_>>().len();
        if lately > limits.victims {
            broken.push(format!("{by} preempts {lately} bindings, at most {}", limits.victims));
        }
        let Some(figures) = &nomination.figures else { return };
        noted.insert("the number of victims is compared with all sets");
        if figures.single {
            let fewest = figures.fewest();
            if fewest.is_none_or(|fewest| count > fewest) {
                broken.push(format!("{by} preempts {victims:?}, and {fewest:?} would do: {figures:?}"));
            }
            return;
        }
        let held = |name: &ClusterName| nomination.clusters.contains_key(name);
        for spared in victims {
            if figures.fits(&held, victims.iter().filter(|other| *other != spared)) {
                broken.push(format!("{by} preempts {victims:?}, and need not preempt {spared:?}: {figures:?}"));
            }
        }
    }

    /// Checks that what a binding is given is free, and not held for another one of its priority or a higher one.
    fn promise(
        &mut self,
        at: Duration,
        key: &BindingKey,
        old: Option<&ResourceBinding>,
        new: &ResourceBinding,
        fleet: &Fleet,
        machines: &BTreeMap<ClusterName, Machines>,
        rules: &Rules,
        broken: &mut Vec<String>,
    ) {
        let spec = &new.spec;
        let had = |cluster: &str| {
            let target = old.and_then(|old| Some((&old.spec, old.spec.target(cluster)?)));
            target.map_or(0, |(spec, target)| of_target(spec, target))
        };
        for target in spec.clusters.iter().filter(|target| of_target(spec, target) > had(&target.name)) {
            let cluster = ClusterName::from(target.name.as_str());
            let of = (key.clone(), cluster.clone());
            let before = self.given.get(&of).filter(|(given, _)| *given + STARTS_WITHIN >= at);
            let before = before.map_or_else(|| running(machines, &cluster, spec), |(_, with)| *with);
            self.given.insert(of, (at, before + of_target(spec, target) - had(&target.name)));
            let promised = self.holds(at, &cluster, fleet, machines);
            // A node may have come that no summary has yet, or have gone a moment ago.
            let nodes = machines.get(&cluster).map_or(0, Machines::millicores);
            let all = capacity::allocatable(fleet, &cluster).max(nodes);
            // The scheduler knows the nodes of a cluster before a summary tells of them.
            if !capacity::is_reported(fleet, &cluster) {
                continue;
            }
            if promised > all {
                let holders = capacity::holders(fleet, &cluster);
                let waiting = machines.get(&cluster).map_or(0, Machines::waiting);
                broken.push(format!(
                    "{promised}m of {all}m are promised in {cluster}, the last to {key}: {holders}; pods with {waiting}m wait for a node"
                ));
            }
            let stay = fleet.bindings.values().filter(|binding| binding.spec.target(&cluster.0).is_some());
            let stay: BTreeSet<&str> = stay.map(|binding| binding.spec.resource.name.as_str()).collect();
            // The member's own pods have no name of a workload.
            let has_left = |app: &str| !app.is_empty() && !stay.contains(app);
            let holds: Vec<(&BindingKey, Duration, i64)> = self
                .nominations
                .iter()
                // Who was decided on before may be written later.
                .filter(|(other, nomination)| *other != key && nomination.at + rules.stale < at)
                .filter_map(|(other, n)| Some((other, n, &fleet.bindings.get(other)?.spec, n.clusters.get(&cluster)?)))
                .filter(|(other, n, ..)| {
                    fleet.bindings.get(*other).and_then(|b| b.metadata.generation) == Some(n.generation)
                })
                // Once it is placed, only its status is still to be written.
                .filter(|(_, _, other, _)| priority(other) >= priority(spec) && placed(other) < other.replicas)
                // Where no node will have room for one of its pods, others take fragments that are of no use to it.
                .filter(|(_, _, other, _)| {
                    let room = |free: Vec<i64>| machines::fits(free, cpu(other).max(1)) > 0;
                    machines.get(&cluster).is_none_or(|there| room(there.free_in_the_end(&has_left)))
                })
                .map(|(key, n, other, replicas)| (key, n.at, cpu(other) * replicas))
                .collect();
            let held: i64 = holds.iter().map(|(.., cpu)| *cpu).sum();
            if held > 0 && promised + held > all {
                let whose: Vec<String> = holds.iter().map(|(other, _, cpu)| format!("{} {cpu}m", other.name)).collect();
                let found = format!(
                    "{key} gets capacity in {cluster} that is held for others: {promised}m of {all}m are promised, held for {}; {}",
                    whose.join(", "),
                    capacity::holders(fleet, &cluster),
                );
                // Their status may say so only because its end is still to be written.
                let by = at + rules.stale + ENDS_WITHIN;
                let suspects =
                    holds.iter().map(|(other, since, _)| (by, BindingKey::clone(other), *since, found.clone()));
                let suspects: Vec<_> = suspects.collect();
                self.suspects.extend(suspects);
            }
        }
        let grows = spec.clusters.iter().any(|target| of_target(spec, target) > had(&target.name));
        if grows {
            self.placements.push((at, priority(spec)));
        }
        let taken = |spec: &ResourceBindingSpec| i64::from(placed(spec)) * cpu(spec);
        let used: i64 = fleet.bindings.values().map(|binding| taken(&binding.spec)).sum();
        let takes_more = taken(spec) > old.map_or(0, |old| taken(&old.spec));
        // A new quota limits nothing until what is in use was counted.
        let quota = self.quota.0.last().and_then(|(_, quota)| *quota);
        let limited = self.quota.0.iter().rev().take_while(|(_, quota)| quota.is_some()).last();
        if let (Some(quota), Some((since, _))) = (quota, limited)
            && takes_more
            && used > quota
            && *since + rules.stale < at
        {
            broken.push(format!("{key} gets more than the quota has: {used}m of {quota}m"));
        }
        if grows {
            // A copy that could not be deleted yet goes although its workload returns: its Work is being deleted.
            let is_going = |cluster: &ClusterName| {
                let ends =
                    |work: &Work| copies::id(work) == copies::id(new) && work.metadata.deletion_timestamp.is_some();
                fleet.works.iter().any(|(key, work)| key.cluster == *cluster && ends(work))
            };
            self.left.retain(|(cluster, object)| {
                *object.name != *spec.resource.name || spec.target(&cluster.0).is_none() || is_going(cluster)
            });
        }
    }

    /// Millicores that bindings hold in a cluster: those that they were given, or, once members had the time to start
    /// them or the binding is being deleted, those of pods that have a node: members may refuse pods, decide on
    /// replicas, and use nodes in another way than was foreseen.
    fn holds(
        &self,
        at: Duration,
        cluster: &ClusterName,
        fleet: &Fleet,
        machines: &BTreeMap<ClusterName, Machines>,
    ) -> i64 {
        let of = |(key, binding): (&BindingKey, &std::sync::Arc<ResourceBinding>)| {
            let spec = &binding.spec;
            let promised = spec.target(&cluster.0).map_or(0, |target| of_target(spec, target));
            let given = self.given.get(&(key.clone(), cluster.clone()));
            let replicas = spec.target(&cluster.0).map_or(0, |target| usize::try_from(target.replicas).unwrap_or(0));
            // All pods are there, and no node has room for those that wait: they hold nothing.
            let wait_in_vain = |there: &Machines| {
                let app = &spec.resource.name;
                there.pods_of(app) >= replicas && there.is_short_of(app, cpu(spec))
            };
            let waits = machines.get(cluster).is_some_and(wait_in_vain);
            let starts = binding.metadata.deletion_timestamp.is_none() && !waits;
            let given = given.filter(|(given, _)| starts && *given + STARTS_WITHIN >= at);
            promised.min(given.map_or_else(|| running(machines, cluster, spec), |(_, with)| *with))
        };
        fleet.bindings.iter().map(of).sum()
    }

    /// Counts how often a binding changes its clusters after the last fault.
    fn moved(&mut self, key: &BindingKey, old: &ResourceBinding, new: &ResourceBinding, broken: &mut Vec<String>) {
        let names = |b: &ResourceBinding| -> BTreeSet<String> {
            b.spec.clusters.iter().map(|target| target.name.clone()).collect()
        };
        if self.healed.is_none() || cpu(&new.spec) == 0 || names(old) == names(new) {
            return;
        }
        // Each binding of a higher priority may push it away once, and it returns.
        let bound = 2 * self.priorities.len() + 4;
        let moves = self.moves.entry(key.clone()).or_default();
        *moves += 1;
        if *moves > bound {
            broken.push(format!("{key} changes its clusters for the {moves}th time since the last fault"));
        }
    }
}
