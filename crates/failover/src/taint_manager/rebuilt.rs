//! Eviction queue for processes that can't ask the leader: as a leader that starts now would build it. Read-only: it
//! evicts nothing.

use std::collections::{BTreeMap, BTreeSet};

use ironclad_api::conditions::{self, TRUE, binding::EVICTION_PENDING};
use ironclad_fleet::{Binding, BindingKey, ClusterName, Clusters, because::eviction::Reason};
use jiff::Timestamp;

use super::{Evictions, Key, Row, Waiting};
use crate::{
    Now,
    taint_manager::pre_scheduling_check::{Snapshot, has_target, peers},
};

impl Evictions {
    /// Queue rebuilt from the objects alone: [`rows`](Self::rows) of decisions that no driver has run yet. Bindings
    /// that could go nowhere are parked, and each waits since the time in its condition `EvictionPending`; without the
    /// condition the time is unknown.
    #[must_use]
    pub fn rows_from_objects(
        &self,
        bindings: &BTreeMap<BindingKey, Binding>,
        clusters: &Clusters,
        now: Now,
    ) -> Vec<Row> {
        let scheduler = &self.flags.scheduler;
        let peers = peers(scheduler, bindings.values());
        let no_target = |cluster: &ClusterName, binding: &BindingKey| {
            let key = Key { cluster: cluster.clone(), binding: binding.clone() };
            let staying = |peers| self.peers_that_stay(&key, peers, clusters, |key| bindings.get(key).cloned(), now);
            let peers = peers.as_ref().map(staying);
            let snapshot = Snapshot { clusters, scheduler, peers: peers.as_ref(), now: now.wall };
            let left_out = BTreeSet::from([cluster.clone()]);
            let check = self.flags.eviction.pre_scheduling_check;
            has_target(bindings.get(binding)?, &left_out, &snapshot, check).err()
        };
        // Nothing is evicted before the end of such a leader's warm-up.
        let warm_up = self.flags.eviction.warm_up(self.flags.health.monitor_grace_period);
        let begins = now.mono.saturating_add(warm_up);
        let begins = Now { wall: now.wall_at(begins), mono: begins };
        let mut rows = self.rows_in(begins, |cluster, binding, state| match state {
            Waiting::Queued if no_target(cluster, binding).is_some() => Waiting::Parked,
            state => state,
        });
        for row in &mut rows {
            row.rebuilt = true;
            row.since = bindings.get(&row.binding).and_then(pending_since);
            if row.state == Waiting::Parked {
                row.because = no_target(&row.cluster, &row.binding).map(|why| Reason::NoTarget(why).to_string());
            }
        }
        rows
    }
}

/// Since when a binding shows that an eviction of it waits.
fn pending_since(bound: &Binding) -> Option<Timestamp> {
    let pending = conditions::get(&bound.status()?.conditions, EVICTION_PENDING)?;
    (pending.status == TRUE).then_some(pending.last_transition_time.0)
}
