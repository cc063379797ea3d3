//! The eviction queue in virtual time: what leaves, what waits and why.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ironclad_api::work::ResourceBindingSpec;
use ironclad_failover::{
    taint_manager::pre_scheduling_check::{Snapshot, has_target},
    taint_manager::{Next, Outcome, Surroundings, queue},
};
use ironclad_fleet::{BindingKey, ClusterName};
use ironclad_scheduling as scheduling;

use super::{Due, LED_FOR, Plan};
use crate::{
    Move, MoveStatus, PendingEviction,
    world::{patched_binding, with_status},
};

impl Plan<'_> {
    /// Takes one step of the queue. Returns false if nothing is due.
    pub(super) fn evict(&mut self) -> bool {
        let moment = self.moment();
        let Some(evictions) = &mut self.evictions else { return false };
        let world = &self.fleet.world;
        let (capacity, options) = (&self.scheduler.capacity, &self.options.scheduling);
        let available_replicas = |spec: &ResourceBindingSpec, cluster: &ClusterName| {
            scheduling::available_replicas(spec, cluster, capacity, options)
        };
        let clusters = &self.fleet.world.clusters;
        let around =
            Surroundings { clusters, available: Some(&available_replicas), peers: self.scheduler.peers.as_ref() };
        let next = evictions.next_in(around, |key| world.binding(key), moment);
        let events = evictions.take_events();
        let _ = evictions.take_waited();
        // An episode begins before its first eviction.
        for event in events {
            if event.about.kind == "Cluster" {
                self.record(&event.about.name, event.message);
            }
        }
        match next {
            Next::Wait(at) => {
                self.timers.retain(|(_, due)| *due != Due::Evict);
                if let Some(at) = at {
                    // A moment that has come already would be asked for without end.
                    let at = at.saturating_sub(LED_FOR).max(self.now + Duration::from_millis(1));
                    self.timers.insert((at, Due::Evict));
                }
                false
            }
            Next::Again => true,
            Next::Evict(eviction) => {
                let Some(evictions) = &mut self.evictions else { return false };
                let rate = evictions.allowed(moment).rate;
                let again = evictions.done(&eviction, &Outcome::Written, moment);
                self.found.peak_rate = self.found.peak_rate.max(rate);
                let key = eviction.key.binding.clone();
                let from = eviction.key.cluster.clone();
                let task = eviction.task.clone();
                let resource = &eviction.binding.spec().resource;
                let index = self.found.moves.len();
                self.found.moves.push(Move {
                    binding: key.clone(),
                    resource: named(resource),
                    from: from.clone(),
                    reason: task.reason.clone(),
                    purge_mode: format!("{:?}", task.purge_mode.unwrap_or_default()),
                    evicted: self.now,
                    placed: None,
                    cleared: None,
                    ends: BTreeMap::new(),
                    status: MoveStatus::Unschedulable,
                    because: None,
                });
                self.open.insert((key.clone(), from.clone()), index);
                self.record(&key.to_string(), format!("leaves {from}: {}", task.reason));
                let mut patched = patched_binding(&eviction.binding, &eviction.patch);
                patched = with_status(&patched, &eviction.status());
                self.set_binding(&key, patched.clone());
                if again && let Some(evictions) = &mut self.evictions {
                    evictions.binding(&key, Some(&patched), moment);
                }
                true
            }
        }
    }

    /// Records the evictions that are cancelled because their cluster recovers.
    pub(super) fn record_abandoned(&mut self, name: &ClusterName) {
        let mut waiting = self.waiting();
        waiting.retain(|one| one.from == *name);
        for mut one in waiting {
            if self.no_target(&one.binding, &one.from).is_none() {
                "its cluster recovers first".clone_into(&mut one.because);
            }
            "Abandoned".clone_into(&mut one.state);
            one.position = None;
            self.found.waits.push(one);
        }
    }

    /// Evictions that wait now, with their reasons.
    pub(super) fn waiting(&self) -> Vec<PendingEviction> {
        let Some(evictions) = &self.evictions else { return Vec::new() };
        let moment = self.moment();
        let with_reason = |row: ironclad_failover::taint_manager::Row| {
            let because = match (self.no_target(&row.binding, &row.cluster), row.because) {
                (Some(why), _) => why,
                (None, Some(why)) => why,
                (None, None) => evictions.allowed(moment).why.to_string(),
            };
            PendingEviction {
                binding: row.binding,
                resource: row.resource,
                from: row.cluster,
                state: row.state.to_string(),
                position: row.position,
                causes: row.causes,
                because,
            }
        };
        evictions.rows(moment).into_iter().map(with_reason).collect()
    }

    /// Reason that no cluster would take it, if none would.
    fn no_target(&self, key: &BindingKey, from: &ClusterName) -> Option<String> {
        let check = self.options.flags.eviction.pre_scheduling_check;
        let left_out = BTreeSet::from([from.clone()]);
        let (clusters, scheduler) = (&self.fleet.world.clusters, &self.options.flags.scheduler);
        let now = self.moment();
        let peers = self.scheduler.peers.as_ref().zip(self.evictions.as_ref()).map(|(peers, evictions)| {
            let element = queue::Key { cluster: from.clone(), binding: key.clone() };
            evictions.peers_that_stay(&element, peers, clusters, |key| self.fleet.world.binding(key), now)
        });
        let snapshot = Snapshot { clusters, scheduler, peers: peers.as_ref(), now: now.wall };
        let binding = self.fleet.world.binding(key)?;
        has_target(&binding, &left_out, &snapshot, check).err().map(|why| why.to_string())
    }
}

/// A template as people name it.
fn named(resource: &ironclad_api::work::ObjectReference) -> String {
    let name = if resource.namespace.is_empty() {
        resource.name.clone()
    } else {
        format!("{}/{}", resource.namespace, resource.name)
    };
    format!("{}/{} {name}", resource.api_version, resource.kind)
}
