//! Late evictions (the other half of invariant 8), only if nothing excuses them: for the whole window
//! the same binding could surely move. Cause and settings are older, enough clusters are healthy, a
//! rate is in force, and no process started, failed or was disturbed. Then 1/rate and some seconds contain an eviction:
//! that one, or one before it in the queue.

use std::time::Duration;

use ironclad_api::{
    Shared,
    annotations::{APPLIED_PLACEMENT, DRAINING},
    cluster::Cluster,
    policy::{Placement, ReplicaSchedulingType, SpreadByField},
    work::ResourceBinding,
};
use ironclad_fleet::{BindingKey, ClusterName, World as Fleet};

use super::{Checker, bindings, by_policy, capacity};

/// Time that an eviction may take in addition to the interval between two.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time after a fault of a process until another one leads and works.
const AFTER_FAULT: Duration = Duration::from_secs(60);
/// Time after the start of a leader, in addition to its warm-up, until its caches are filled.
const AFTER_START: Duration = Duration::from_secs(20);
/// Time after a change of Ready: `--mass-failure-hold` and its propagation.
const AFTER_READY: Duration = Duration::from_secs(70);
/// Maximum number of bindings of a world in which this is checked.
const BINDINGS_MAX: usize = 100;
const SECOND: i64 = 1;

#[derive(Debug, Default)]
pub(super) struct Late {
    /// End of the last disturbance of processes.
    disturbed: Duration,
    looked: Duration,
    last: Option<Duration>,
}

impl Late {
    pub(super) fn evicted(&mut self, at: Duration) {
        self.last = Some(at);
    }

    /// Returns true if no process was disturbed from then on.
    pub(super) fn is_calm_since(&self, at: Duration) -> bool {
        self.disturbed <= at
    }
}

impl Checker {
    /// Records that processes are disturbed until then.
    pub fn disturbed(&mut self, until: Duration) {
        self.late.disturbed = self.late.disturbed.max(until);
    }

    pub fn healed(&mut self, at: Duration) {
        self.late.disturbed = at;
        self.end_of_faults(at);
    }

    pub fn look(&mut self, at: Duration, wall: i64, fleet: &Fleet) -> Option<String> {
        let often = Duration::from_secs(1);
        if !self.rules.gate || !self.rules.late || at < self.late.looked + often || fleet.bindings.len() > BINDINGS_MAX
        {
            return None;
        }
        self.late.looked = at;
        let rate = self.rules.rates.allowed(fleet.clusters.values().map(|cluster| &**cluster));
        let known = fleet.clusters.values().all(|cluster| cluster.ready().is_some() && !is_leaving(cluster));
        if rate <= 0.0 || !known {
            return None;
        }
        let calm = self.calm_since(at);
        let allowed = Duration::from_secs_f64(1.0 / rate) + PATIENCE;
        if at < calm.saturating_add(allowed) {
            return None;
        }
        for (key, binding) in &fleet.bindings {
            for target in &binding.spec.clusters {
                let cluster = ClusterName::from(target.name.as_str());
                let Some(since) = self.could_move(key, binding, &cluster, at, wall, fleet) else { continue };
                let since = since.max(calm);
                if at < since + allowed {
                    // It waits, and it is not overdue yet.
                    continue;
                }
                return Some(format!(
                    "invariant 8: {key} could leave {cluster} for {:?}, and nothing was evicted at {rate}/s",
                    at - since
                ));
            }
        }
        None
    }

    /// Time since which nothing can hold all evictions.
    fn calm_since(&self, at: Duration) -> Duration {
        let stale = self.rules.stale;
        let started = self.starts.last().map_or(at, |start| *start + self.rules.warm_up + AFTER_START);
        let clusters =
            self.clusters.iter().map(|(_, state)| (state.changed + stale).max(state.ready_since + AFTER_READY));
        let last = self.late.last.unwrap_or_default();
        clusters.chain([started, self.late.disturbed.saturating_add(AFTER_FAULT), last]).max().unwrap_or(at)
    }

    /// Time since which a binding could leave a cluster in every view; `None` if that is uncertain.
    fn could_move(
        &self,
        key: &BindingKey,
        binding: &ResourceBinding,
        from: &ClusterName,
        at: Duration,
        wall: i64,
        fleet: &Fleet,
    ) -> Option<Duration> {
        let (rules, state, seen) = (&self.rules, self.clusters.get(from)?, self.bindings.get(key)?);
        let cluster = fleet.clusters.get(from)?;
        let alive = binding.metadata.deletion_timestamp.is_none() && binding.spec.graceful_eviction_tasks.is_empty();
        // A cluster that is Ready again is not evicted from while its policy's taints wait for their removal.
        let recovers = cluster.is_ready() && cluster.spec.taints.iter().any(by_policy);
        // Capacity may be scarce.
        let needs_capacity = capacity::cpu(&binding.spec) > 0;
        if needs_capacity
            || seen.stuck.is_some()
            || !alive
            || recovers
            || !self.has_places(binding, from, fleet)
            || !is_applied(binding)
        {
            return None;
        }
        let began = state.episode_began?;
        let (placed, wished) = (seen.placed(from)?, seen.wished_since()?);
        if placed.max(wished) + rules.stale >= began {
            return None;
        }
        let due = seen.due(&cluster.spec.taints, rules)? + 2 * rules.skew + 2 * SECOND;
        let ago = Duration::from_secs(u64::try_from(wall - due).ok()?);
        Some(at.checked_sub(ago).unwrap_or_default().max(began + rules.stale))
    }

    /// Returns `true` if clusters without any fault satisfy the binding, at least one of them new to it.
    fn has_places(&self, binding: &ResourceBinding, from: &ClusterName, fleet: &Fleet) -> bool {
        let spec = &binding.spec;
        let Some(placement) = &spec.placement else { return false };
        let anywhere = placement.cluster_affinity.as_ref().is_none_or(|a| a.cluster_names.is_empty());
        if !anywhere || !placement.cluster_affinities.is_empty() {
            return false;
        }
        let well = |name: &ClusterName| fleet.clusters.get(name).is_some_and(|cluster| is_well(cluster));
        let others_are_well = spec.clusters.iter().all(|t| *t.name == *from.0 || well(&t.name.as_str().into()));
        let places = fleet.clusters.keys().filter(|name| well(name)).count();
        let outside = fleet.clusters.keys().filter(|name| well(name) && spec.target(&name.0).is_none()).count();
        let least = placement
            .spread_constraints
            .iter()
            .filter(|constraint| constraint.spread_by_field == Some(SpreadByField::Cluster))
            .filter_map(|constraint| usize::try_from(constraint.min_groups).ok())
            .max();
        let divided = placement.replica_scheduling_type() == ReplicaSchedulingType::Divided;
        others_are_well && outside > 0 && least.map_or(divided, |least| places >= least)
    }
}

fn is_leaving(cluster: &Cluster) -> bool {
    let drains = cluster.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(DRAINING));
    drains || cluster.metadata.deletion_timestamp.is_some()
}

fn is_well(cluster: &Cluster) -> bool {
    cluster.is_ready() && cluster.spec.taints.is_empty() && !is_leaving(cluster)
}

/// Returns `true` if the scheduler has applied the current placement.
fn is_applied(binding: &ResourceBinding) -> bool {
    let annotations = binding.metadata.annotations.as_ref();
    let applied = annotations.and_then(|all| all.get(APPLIED_PLACEMENT));
    let applied: Option<Shared<Placement>> = applied.and_then(|text| serde_json::from_str(text).ok());
    applied.is_some() && applied == binding.spec.placement
}

impl bindings::State {
    /// Time since which the cluster is in its result.
    fn placed(&self, cluster: &ClusterName) -> Option<Duration> {
        self.on.get(&*cluster.0).copied()
    }
}
