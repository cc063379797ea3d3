//! Bindings over time: preconditions of an eviction, and ends of tasks (invariants 4, 6, 8, 9, 11, 12, 17, 19, 21, 22,
//! 34, 36).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ironclad_api::{
    Shared, Taint, Toleration,
    annotations::DRAINING,
    conditions::{binding::EVICTION_PENDING, is_true},
    eviction::{APPLICATION_FAILURE, BINDING_PREEMPTED, CLUSTER_DRAIN, PRODUCER_TAINT_MANAGER},
    labels::{BINDING_MANAGED_BY, CLUSTER_PROPAGATION_POLICY_PERMANENT_ID, PROPAGATION_POLICY_PERMANENT_ID},
    policy::{FailoverBehavior, Placement, PurgeMode, ReplicaSchedulingType, SpreadByField},
    taints::{NO_EXECUTE, PREFER_NO_EXECUTE},
    work::{GracefulEvictionTask, ResourceBinding, ResourceHealth, TargetCluster},
};
use ironclad_fleet::{BindingKey, ClusterName, ObjectKey, World as Fleet, taint::tolerates};

use super::{Checker, Eviction, Rules, Write, clusters};

/// Resolution of times on the wire.
const SECOND: i64 = 1;
/// Default of `failover.cluster.tolerationSeconds`.
const ACTIVE_TOLERATION: i64 = 300;

#[derive(Debug, Default)]
pub(super) struct Bindings(BTreeMap<BindingKey, State>);

#[derive(Debug, Default)]
pub(super) struct State {
    /// Time at which every target was last healthy.
    healthy: Option<Duration>,
    /// The user's settings over time.
    wishes: Vec<(Duration, Wishes)>,
    /// Since when no scheduler places it, or nothing is dispatched, and why.
    pub(super) stuck: Option<(Duration, &'static str)>,
    /// The clusters in its result, and since when they are there.
    pub(super) on: BTreeMap<String, Duration>,
    /// The clusters of its tasks, and since when there is one.
    pub(super) leaving: BTreeMap<String, Duration>,
    /// The clusters that it left because it was scaled and did not fit there any more.
    pub(super) outgrown: BTreeSet<String>,
    /// Clusters that a Directly task emptied and that are no targets since: their copies may go after its end.
    pub(super) left_directly: BTreeSet<String>,
}

/// Inputs of an eviction decision besides taints.
#[derive(Debug, Clone, PartialEq)]
struct Wishes {
    placement: Shared<Placement>,
    failover: Option<Shared<FailoverBehavior>>,
}

impl Wishes {
    fn of(binding: &ResourceBinding) -> Self {
        Self { placement: binding.spec.placement.clone().unwrap_or_default(), failover: binding.spec.failover.clone() }
    }
}

impl State {
    /// Time since which the settings are unchanged.
    pub(super) fn wished_since(&self) -> Option<Duration> {
        self.wishes.last().map(|(since, _)| *since)
    }

    /// Time at which it must leave a cluster with these taints by its current settings, seconds; `None` is never.
    pub(super) fn due(&self, taints: &[Taint], rules: &Rules) -> Option<i64> {
        let taints: Vec<&Taint> = taints.iter().collect();
        due(&self.wishes.last()?.1, &taints, rules)
    }

    fn wished_anew_since(&self, at: Duration) -> bool {
        self.wishes.last().is_some_and(|(since, _)| *since >= at)
    }

    /// Returns the settings at any time of an interval.
    fn wished(&self, from: Duration, to: Duration) -> impl Iterator<Item = &Wishes> {
        let until = |n: usize| self.wishes.get(n + 1).map_or(Duration::MAX, |(next, _)| *next);
        self.wishes
            .iter()
            .enumerate()
            .filter(move |(n, (since, _))| *since <= to && until(*n) >= from)
            .map(|(_, (_, wishes))| wishes)
    }
}

fn is_healthy(binding: &ResourceBinding) -> bool {
    let status = binding.status.as_ref();
    let line = |name: &str| status.and_then(|s| s.aggregated_status.iter().find(|item| item.cluster_name == name));
    !binding.spec.clusters.is_empty()
        && binding
            .spec
            .clusters
            .iter()
            .all(|t| line(&t.name).is_some_and(|i| i.health == Some(ResourceHealth::Healthy)))
}

/// Returns `true` if the copies in the members are ready, reported or not.
fn copies_are_ready(binding: &ResourceBinding, fleet: &Fleet) -> bool {
    let resource = &binding.spec.resource;
    let is_it = |key: &ObjectKey| {
        *key.gvk.kind == *resource.kind && *key.namespace == *resource.namespace && *key.name == *resource.name
    };
    let ready = |target: &TargetCluster| {
        let objects = fleet.members.get(&ClusterName::from(target.name.as_str()));
        let copy = objects.and_then(|objects| objects.iter().find(|(key, _)| is_it(key)));
        copy.and_then(|(_, copy)| copy.pointer("/status/readyReplicas")?.as_i64())
            .is_some_and(|ready| ready >= i64::from(target.replicas))
    };
    binding.spec.clusters.iter().all(ready)
}

fn task<'a>(binding: &'a ResourceBinding, cluster: &str) -> Option<&'a GracefulEvictionTask> {
    binding.spec.graceful_eviction_tasks.iter().find(|task| task.from_cluster == cluster)
}

/// The clusters that a workload leaves because it was scaled, and does not fit there any more.
fn outgrown<'a>(old: &'a ResourceBinding, new: &'a ResourceBinding) -> impl Iterator<Item = &'a TargetCluster> {
    let before: i32 = old.spec.clusters.iter().map(|target| target.replicas).sum();
    let is_left = move |target: &&TargetCluster| {
        before != new.spec.replicas && new.spec.target(&target.name).is_none() && task(new, &target.name).is_none()
    };
    old.spec.clusters.iter().filter(is_left)
}

impl Bindings {
    pub(super) fn get(&self, key: &BindingKey) -> Option<&State> {
        self.0.get(key)
    }

    pub(super) fn see(
        &mut self,
        write: &Write,
        key: &BindingKey,
        old: Option<&ResourceBinding>,
        new: Option<&ResourceBinding>,
        fleet: &Fleet,
        rules: &Rules,
        broken: &mut Vec<String>,
        noted: &mut BTreeSet<&'static str>,
    ) -> Vec<(ClusterName, String)> {
        let at = write.at;
        let Some(new) = new else {
            self.0.remove(key);
            return Vec::new();
        };
        let old = old.filter(|old| old.metadata.uid == new.metadata.uid);
        if old.is_none() {
            self.0.remove(key);
        }
        let state = self.0.entry(key.clone()).or_default();
        let wishes = Wishes::of(new);
        if state.wishes.last().is_none_or(|(_, last)| *last != wishes) {
            state.wishes.push((at, wishes));
        }
        state.on.retain(|cluster, _| {
            new.spec.target(cluster).is_some() || old.is_some_and(|o| o.spec.target(cluster).is_some())
        });
        for target in &new.spec.clusters {
            state.on.entry(target.name.clone()).or_insert(at);
        }
        state.leaving.retain(|cluster, _| task(new, cluster).is_some());
        for task in &new.spec.graceful_eviction_tasks {
            state.leaving.entry(task.from_cluster.clone()).or_insert(at);
        }
        state.outgrown.retain(|cluster| new.spec.target(cluster).is_none());
        let directly = |task: &&GracefulEvictionTask| task.purge_mode == Some(PurgeMode::Directly);
        let tasks = new.spec.graceful_eviction_tasks.iter().filter(directly);
        state.left_directly.extend(tasks.map(|task| task.from_cluster.clone()));
        state.left_directly.retain(|cluster| new.spec.target(cluster).is_none());
        state.outgrown.extend(old.into_iter().flat_map(|old| outgrown(old, new)).map(|target| target.name.clone()));
        state.stuck = match (state.stuck, stuck(new)) {
            (Some((since, _)), Some(why)) => Some((since, why)),
            (None, Some(why)) => Some((at, why)),
            (_, None) => None,
        };
        let tasks = &new.spec.graceful_eviction_tasks;
        for task in tasks {
            if tasks.iter().filter(|t| t.from_cluster == task.from_cluster).count() > 1 {
                broken.push(format!("invariant 11: {key} has two tasks from {}", task.from_cluster));
            }
        }
        let mut evicted = Vec::new();
        if let Some(old) = old {
            for before in &old.spec.graceful_eviction_tasks {
                if task(new, &before.from_cluster).is_none() && new.metadata.deletion_timestamp.is_none() {
                    cleared(write, key, before, old, new, state, fleet, rules, broken);
                    noted.insert("a task is cleared after a migration");
                }
            }
            for target in &new.spec.clusters {
                let chosen = old.spec.target(&target.name).is_none();
                if chosen && tasks.iter().any(|t| t.producer == PRODUCER_TAINT_MANAGER && t.from_cluster != target.name)
                {
                    noted.insert("an evicted binding finds another cluster");
                }
                let barring = task(old, &target.name)
                    .filter(|t| bars(&t.reason, &target.name, fleet, write, rules))
                    .filter(|_| task(new, &target.name).is_some());
                if let (true, Some(task)) = (chosen, barring) {
                    broken
                        .push(format!("invariant 34: {key} goes back to {} in spite of {}", target.name, task.reason));
                }
            }
            for task in tasks.iter().filter(|t| t.producer == PRODUCER_TAINT_MANAGER) {
                if self::task(old, &task.from_cluster).is_none() {
                    evicted.push((ClusterName::from(task.from_cluster.as_str()), task.reason.clone()));
                }
            }
        }
        let waits = |b: &ResourceBinding| b.status.as_ref().is_some_and(|s| is_true(&s.conditions, EVICTION_PENDING));
        if evicted.is_empty() && old.is_some_and(waits) && !waits(new) && new.spec.graceful_eviction_tasks.is_empty() {
            noted.insert("what waits is abandoned when its cluster recovers");
        }
        if is_healthy(new) || old.is_some_and(is_healthy) {
            state.healthy = Some(at);
        }
        evicted
    }
}

/// Reason why no scheduler places the binding anew, or no copy would be made.
fn stuck(binding: &ResourceBinding) -> Option<&'static str> {
    let suspension = binding.spec.suspension.as_ref();
    let labels = binding.metadata.labels.as_ref();
    let owners = [PROPAGATION_POLICY_PERMANENT_ID, CLUSTER_PROPAGATION_POLICY_PERMANENT_ID, BINDING_MANAGED_BY];
    if binding.spec.scheduling_suspended() {
        Some("its scheduling is suspended")
    } else if suspension.is_some_and(|suspension| suspension.dispatching == Some(true)) {
        Some("its dispatching is suspended")
    } else if !owners.iter().any(|owner| labels.is_some_and(|labels| labels.contains_key(*owner))) {
        Some("its policy is deleted")
    } else {
        None
    }
}

/// True if a task with this reason keeps the scheduler from choosing the cluster: that of a drain does while the drain
/// goes on.
fn bars(reason: &str, cluster: &str, fleet: &Fleet, write: &Write, rules: &Rules) -> bool {
    let drains_since = || {
        let cluster = fleet.clusters.get(&ClusterName::from(cluster))?;
        cluster.metadata.annotations.as_ref()?.get(DRAINING)?.parse::<jiff::Timestamp>().ok()
    };
    let known = rules.stale.as_secs() as i64 + rules.skew + SECOND;
    match reason {
        APPLICATION_FAILURE | BINDING_PREEMPTED => true,
        CLUSTER_DRAIN => drains_since().is_some_and(|since| since.as_second() + known < write.wall),
        _ => false,
    }
}

fn cleared(
    write: &Write,
    key: &BindingKey,
    task: &GracefulEvictionTask,
    old: &ResourceBinding,
    new: &ResourceBinding,
    state: &State,
    fleet: &Fleet,
    rules: &Rules,
    broken: &mut Vec<String>,
) {
    let from = &task.from_cluster;
    let by_person = task.suppress_deletion.is_some();
    let back = old.spec.target(from).is_some() || new.spec.target(from).is_some();
    if by_person || back || task.reason == BINDING_PREEMPTED {
        return;
    }
    if old.spec.clusters.is_empty() {
        broken.push(format!("invariant 22: the task of {key} from {from} is cleared while its result is empty"));
        return;
    }
    let created = task.creation_timestamp.as_ref().map(|t| t.0.as_second());
    let grace_ended = matches!((task.grace_period_seconds, created), (Some(grace), Some(created))
        if write.wall + rules.skew + SECOND >= created + i64::from(grace));
    // The health of copies reaches the stored binding later.
    let healthy = is_healthy(old)
        || copies_are_ready(old, fleet)
        || state.healthy.is_some_and(|last| last + rules.stale >= write.at);
    if !healthy && !grace_ended && task.purge_mode != Some(PurgeMode::Directly) {
        let lines = old.status.iter().flat_map(|status| &status.aggregated_status);
        let reported: Vec<String> = lines.map(|line| format!("{} {:?}", line.cluster_name, line.health)).collect();
        let targets: Vec<&str> = old.spec.clusters.iter().map(|target| &*target.name).collect();
        broken.push(format!(
            "invariant 17: the task of {key} from {from} is cleared before the new copies are healthy: it is to be on {targets:?}, \
             and is reported as {reported:?}"
        ));
    }
}

impl Checker {
    pub(super) fn evicted(
        &mut self,
        write: &Write,
        key: &str,
        cluster: ClusterName,
        reason: String,
        old: Option<&ResourceBinding>,
        fleet: &Fleet,
        broken: &mut Vec<String>,
    ) {
        let (at, rules) = (write.at, &self.rules);
        if !rules.gate {
            broken.push(format!("invariant 4: {key} is evicted from {cluster} although gate Failover is off"));
        }
        if self.starts.last().is_some_and(|start| at < *start + rules.warm_up) {
            broken.push(format!("invariant 2: {key} is evicted from {cluster} during the warm-up"));
        }
        broken.extend(self.rate.evicted(at, rules.stale));
        if let (Some(old), Some(state)) = (old, self.clusters.get(&cluster)) {
            let binding_key = BindingKey {
                namespace: old.metadata.namespace.as_deref().unwrap_or_default().into(),
                name: old.metadata.name.as_deref().unwrap_or_default().into(),
            };
            let seen = self.bindings.get(&binding_key);
            let began = state.episode_began.unwrap_or(at);
            let causes: Vec<&Taint> = state.causes(at, rules.stale).collect();
            let last = at + Duration::from_secs(1);
            // A verdict is made when the cluster becomes faulty, when the binding is placed there, when another taint
            // is added, or when a leader starts, and stays (specification/failover.md 3.6).
            let placed = seen.and_then(|s| s.on.get(&*cluster.0)).copied().unwrap_or(began);
            let begin = began.max(placed);
            let leaders = self.starts.iter().map(|start| (*start, *start + rules.warm_up));
            let moments = std::iter::once((begin, begin))
                .chain(state.tainted_at.iter().map(|at| (*at, *at)))
                .chain(leaders)
                .filter(|(_, to)| *to + rules.stale >= begin)
                .map(|(from, to)| (from.saturating_sub(rules.stale), (to + rules.stale).min(last)));
            let wishes: Vec<&Wishes> =
                moments.flat_map(|(from, to)| seen.into_iter().flat_map(move |s| s.wished(from, to))).collect();
            let has_cause = |w: &&&Wishes| {
                let opted_in = w.failover.as_ref().is_some_and(|f| f.cluster.is_some());
                (rules.no_execute && causes.iter().any(|t| t.effect == NO_EXECUTE))
                    || (opted_in && causes.iter().any(|t| t.effect == PREFER_NO_EXECUTE))
            };
            let caused: Vec<&&Wishes> = wishes.iter().filter(has_cause).collect();
            let now = write.wall + rules.skew + SECOND;
            if caused.is_empty() {
                broken.push(format!("invariants 6, 12, 36: {key} is evicted from {cluster} without a cause"));
            } else if !caused.iter().any(|w| due(w, &causes, rules).is_some_and(|due| due <= now)) {
                let due: Vec<Option<i64>> = caused.iter().map(|w| due(w, &causes, rules)).collect();
                broken.push(format!(
                    "invariants 8, 9, 36: {key} is evicted from {cluster} at {}, due {due:?}",
                    write.wall
                ));
            }
            if rules.checked
                && let Some(lack) = self.lacks_target(old, &cluster, seen, fleet, write)
            {
                broken.push(format!("invariant 19: {key} is evicted from {cluster} although {lack}"));
            }
            let uid = old.metadata.uid.clone().unwrap_or_default();
            let last = self.per_episode.insert((uid, cluster.clone(), state.episode), at);
            // A binding that a user moves back to a faulty cluster may have to leave it again; so may one that came
            // back before further taint, or because a taint went that the one who evicted it still saw.
            let begin = state.episode_began;
            let seen_at = |at: Duration| if Some(at) == begin { at } else { at + rules.stale };
            let same = |last| {
                seen.is_none_or(|seen| !seen.wished_anew_since(last))
                    && state.tainted_at.iter().all(|at| seen_at(*at) <= last)
            };
            if last.is_some_and(same) {
                broken.push(format!("invariant 21: {key} is evicted from {cluster} again in one episode"));
            }
        }
        self.late.evicted(at);
        self.evictions.push(Eviction { at, binding: key.to_owned(), cluster, reason });
    }
}

impl Checker {
    /// Reason why the scheduler could never place a binding anew, apart from what it does not know yet
    /// (specification/failover.md 6.9).
    fn lacks_target(
        &self,
        binding: &ResourceBinding,
        from: &ClusterName,
        seen: Option<&State>,
        fleet: &Fleet,
        write: &Write,
    ) -> Option<String> {
        let at = write.at;
        if let Some((since, why)) = seen.and_then(|seen| seen.stuck)
            && since + self.rules.stale < at
        {
            return Some(why.to_owned());
        }
        let placement = binding.spec.placement.clone().unwrap_or_default();
        let named = placement.cluster_affinity.as_ref().map(|a| a.cluster_names.clone()).unwrap_or_default();
        if !placement.cluster_affinities.is_empty() {
            return None;
        }
        let candidates: Vec<&ClusterName> = self
            .clusters
            .iter()
            .filter(|(name, state)| {
                let holds = binding.spec.target(&name.0).is_some();
                let barred = task(binding, &name.0).is_some_and(|task| task.reason == APPLICATION_FAILURE);
                let tainted = !holds && self.surely_untolerated(&placement, state, write);
                let grouped = !holds && self.surely_avoided(binding, name, from, fleet, at);
                *name != from && !barred && !tainted && !grouped && !state.surely_repels(holds, at, self.rules.stale)
            })
            .map(|(name, _)| name)
            .filter(|name| named.is_empty() || named.iter().any(|n| **n == *name.0))
            .collect();
        let outside = candidates.iter().filter(|name| binding.spec.target(&name.0).is_none()).count();
        let least = placement
            .spread_constraints
            .iter()
            .filter(|constraint| constraint.spread_by_field == Some(SpreadByField::Cluster))
            .map(|constraint| usize::try_from(constraint.min_groups).unwrap_or_default())
            .max();
        match (placement.replica_scheduling_type(), least) {
            (ReplicaSchedulingType::Duplicated, Some(least)) if candidates.len() < least => {
                Some(format!("{least} clusters are asked for and {} are left", candidates.len()))
            }
            (ReplicaSchedulingType::Duplicated, None) if outside == 0 => Some("it runs wherever it may".to_owned()),
            (ReplicaSchedulingType::Divided, _) if candidates.is_empty() => Some("no cluster is left".to_owned()),
            _ => None,
        }
    }
}

impl Checker {
    /// Every view of the groups of a binding shows another workload because of which the cluster is barred: one that it
    /// avoids is there, or one that it goes with is elsewhere, and not where it comes from.
    fn surely_avoided(
        &self,
        binding: &ResourceBinding,
        cluster: &ClusterName,
        from: &ClusterName,
        fleet: &Fleet,
        at: Duration,
    ) -> bool {
        let Some(own) = &binding.spec.workload_affinity_groups else { return false };
        let is_same = |own: &str, other: &str| !own.is_empty() && own == other;
        fleet.bindings.iter().any(|(key, other)| {
            let Some(groups) = &other.spec.workload_affinity_groups else { return false };
            let Some(seen) = self.bindings.get(key).filter(|_| other.metadata.uid != binding.metadata.uid) else {
                return false;
            };
            if other.metadata.namespace != binding.metadata.namespace {
                return false;
            }
            let stays_in = |name: &ClusterName| {
                let since = seen.on.get(&*name.0).filter(|_| other.spec.target(&name.0).is_some());
                since.is_some_and(|since| *since + self.rules.stale < at)
            };
            let is_elsewhere = || {
                let known = |target: &TargetCluster| stays_in(&target.name.as_str().into());
                !other.spec.clusters.is_empty()
                    && other.spec.clusters.iter().all(known)
                    && other.spec.target(&cluster.0).is_none()
                    && other.spec.target(&from.0).is_none()
            };
            (is_same(&own.anti_affinity_group, &groups.anti_affinity_group) && stays_in(cluster))
                || (is_same(&own.affinity_group, &groups.affinity_group) && is_elsewhere())
        })
    }

    /// Every view of the cluster shows a NoExecute taint that the placement does not tolerate, or not any more.
    fn surely_untolerated(&self, placement: &Placement, state: &clusters::State, write: &Write) -> bool {
        let stale = self.rules.stale;
        let lasts = |taint: &Taint, toleration: &Toleration| {
            let added = taint.time_added.as_ref().map_or(0, |t| t.0.as_second());
            let slack = 2 * self.rules.skew + SECOND + stale.as_secs() as i64;
            toleration.toleration_seconds.is_none_or(|seconds| added + seconds + slack >= write.wall)
        };
        let tolerated = |taint: &Taint| {
            placement.cluster_tolerations.iter().any(|each| tolerates(each, taint) && lasts(taint, each))
        };
        state.changed + stale < write.at
            && state.taints.iter().any(|taint| taint.effect == NO_EXECUTE && !tolerated(taint))
    }
}

/// Due time of the binding in seconds (specification/failover.md 3.2 to 3.4); `None` is never.
fn due(wishes: &Wishes, taints: &[&Taint], rules: &Rules) -> Option<i64> {
    let placement = &wishes.placement;
    let added = |taint: &Taint| taint.time_added.as_ref().map_or(0, |t| t.0.as_second());
    let passive = taints.iter().filter(|t| rules.no_execute && t.effect == NO_EXECUTE).filter_map(|taint| {
        let matching: Vec<&Toleration> =
            placement.cluster_tolerations.iter().filter(|toleration| tolerates(toleration, taint)).collect();
        if matching.iter().any(|toleration| toleration.toleration_seconds.is_none()) {
            return None;
        }
        let longest = matching.iter().filter_map(|t| t.toleration_seconds).max().unwrap_or(0).max(0);
        Some(added(taint) + longest)
    });
    let behaviour = wishes.failover.as_ref().and_then(|failover| failover.cluster.as_ref());
    let active = taints.iter().filter(|t| t.effect == PREFER_NO_EXECUTE).filter_map(|taint| {
        let toleration = behaviour?.toleration_seconds.map_or(ACTIVE_TOLERATION, i64::from);
        Some(added(taint) + toleration)
    });
    passive.chain(active).min()
}
