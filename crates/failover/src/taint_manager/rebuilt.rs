//! Eviction queue for processes other than the leader: as a leader that starts now would build it, and
//! the part that a leader's report omits (docs/decisions/0023). Read-only: it evicts nothing.

use std::collections::{BTreeMap, BTreeSet};

use ironclad_api::conditions::{self, TRUE, binding::EVICTION_PENDING};
use ironclad_fleet::{Binding, BindingKey, ClusterName, Clusters, because::eviction::Reason};
use jiff::{SignedDuration, Timestamp};

use super::{Evictions, Key, Report, Row, Waiting, report::ROWS_MAX};
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

impl Report {
    /// True if more may wait than it has rows for.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.rows.len() >= ROWS_MAX
    }

    /// Rows of the rebuilt queue that this report omits: after all of its own, at its rate.
    #[must_use]
    pub fn rest(&self, rebuilt: Vec<Row>) -> Vec<Row> {
        let reported: BTreeSet<(&BindingKey, &ClusterName)> =
            self.rows.iter().map(|row| (&row.binding, &row.cluster)).collect();
        let mut place = self.rows.iter().filter_map(|row| row.position).max().unwrap_or(0);
        let mut last = self.rows.iter().filter_map(|row| row.expected).max();
        let step = (self.rate > 0.0).then(|| SignedDuration::try_from_secs_f64(1.0 / self.rate).ok()).flatten();
        let mut rest: Vec<Row> =
            rebuilt.into_iter().filter(|row| !reported.contains(&(&row.binding, &row.cluster))).collect();
        for row in &mut rest {
            row.expected = None;
            if row.position.is_some() {
                place += 1;
                row.position = Some(place);
                last = last.zip(step).and_then(|(last, step)| last.checked_add(step).ok()).map(|at| at.max(row.due));
                row.expected = last.map(|at| Timestamp::from_second(at.as_second()).unwrap_or(at));
            }
        }
        rest
    }
}
