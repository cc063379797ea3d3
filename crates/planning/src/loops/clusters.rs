//! Events of clusters: changes from outside, probes, taints by policies, and the bindings that they affect.

use std::{sync::Arc, time::Duration};

use ironclad_api::{cluster::Cluster, conditions::TRUE};
use ironclad_failover::{
    cluster::health::{self, Probe},
    taint_policy,
    taints::{by_condition, is_faulty, stamped},
};
use ironclad_fleet::{ClusterName, StatusPart};
use ironclad_scheduling::wakes::cluster::{Wakes, enqueues, wakes};
use serde_json::{Value, json};

use super::{Due, LED_FOR, Plan};
use crate::{Change, world::patched as merged};
use ironclad_fleet::count::count;

impl Plan<'_> {
    pub(super) fn change(&mut self, change: &Change) {
        match change {
            Change::Lost(name) => {
                if self.lost.insert(name.clone()) {
                    self.record(&name.0, "is lost");
                    self.timers.insert((self.now, Due::Probe(name.clone())));
                }
            }
            Change::Restored(name) => {
                if self.lost.remove(name) {
                    self.record(&name.0, "is back");
                    self.timers.insert((self.now, Due::Probe(name.clone())));
                    self.restart_copies(name);
                }
            }
            Change::Taint(name, taint) => {
                let Some(cluster) = self.fleet.world.clusters.get(name).cloned() else { return };
                let mut taints = cluster.spec.taints.clone();
                if !taints.iter().any(|t| t.key == taint.key && t.effect == taint.effect) {
                    taints.push(taint.clone());
                }
                let wanted = stamped(&taints, &cluster.spec.taints, self.wall()).unwrap_or(taints);
                self.record(&name.0, format!("is tainted {}", ironclad_fleet::taint::text(taint)));
                self.set_taints(name, &cluster, wanted);
            }
            Change::Untaint(name, taint) => {
                let Some(cluster) = self.fleet.world.clusters.get(name).cloned() else { return };
                let mut taints = cluster.spec.taints.clone();
                taints.retain(|t| t.key != taint.key || t.effect != taint.effect);
                self.record(&name.0, format!("loses its taint {}", ironclad_fleet::taint::text(taint)));
                self.set_taints(name, &cluster, taints);
            }
        }
    }

    fn set_taints(&mut self, name: &ClusterName, cluster: &Arc<Cluster>, taints: Vec<ironclad_api::Taint>) {
        let mut changed = (**cluster).clone();
        changed.spec.taints = taints;
        self.set_cluster(name, changed);
    }

    /// One probe, and the next one as long as the outcome is not published.
    pub(super) fn probe(&mut self, name: &ClusterName) {
        let Some(cluster) = self.fleet.world.clusters.get(name).cloned() else { return };
        let probe = if self.lost.contains(name) { Probe::Offline } else { Probe::Healthy };
        let flags = &self.options.flags.health;
        let seen =
            health::Seen { cluster: &cluster, memory: self.probes.get(name).copied(), thresholds: flags.thresholds() };
        let every = flags.status_update_frequency;
        let decision = health::decide(&seen, &probe, None, LED_FOR + self.now, self.wall());
        if let Some(memory) = decision.memory {
            self.probes.insert(name.clone(), memory);
        }
        for effect in decision.plan.effects {
            let health::Effect::Status(part) = effect else { continue };
            let current =
                serde_json::to_value(&cluster.status).ok().filter(Value::is_object).unwrap_or_else(|| json!({}));
            let mut changed = (*cluster).clone();
            changed.status = serde_json::from_value(StatusPart::applied(&current, &[&part])).ok();
            if changed.ready() != cluster.ready() {
                let status = changed.ready().unwrap_or("missing").to_owned();
                self.record(&name.0, format!("Ready becomes {status}"));
            }
            self.set_cluster(name, changed);
        }
        let is_ready = self.fleet.world.clusters.get(name).is_some_and(|c| c.ready() == Some(TRUE));
        if is_ready == self.lost.contains(name) {
            self.timers.insert((self.now + every, Due::Probe(name.clone())));
        }
    }

    /// Writes a cluster and notifies the decisions that watch it.
    fn set_cluster(&mut self, name: &ClusterName, mut changed: Cluster) {
        let Some(before) = self.fleet.world.clusters.get(name).cloned() else { return };
        if changed.spec != before.spec {
            changed.metadata.generation = Some(before.metadata.generation.unwrap_or_default() + 1);
        }
        let after = Arc::new(changed);
        self.fleet.world.clusters.insert(name.clone(), after.clone());
        let moment = self.moment();
        if is_faulty(&after) {
            self.faulty.insert(name.clone());
        } else if is_faulty(&before) {
            self.record_abandoned(name);
        }
        if let Some(evictions) = &mut self.evictions {
            let recovering = taint_policy::is_recovering(&after, &self.fleet.taint_policies);
            let waited = evictions.queue().tally().pending();
            if evictions.cluster(name, Some(&after), recovering.into(), moment) {
                let bound: Vec<_> = self.fleet.on(name).collect();
                evictions.evaluate(bound, moment);
            }
            let abandoned = waited.saturating_sub(evictions.queue().tally().pending());
            if abandoned > 0 && !is_faulty(&after) {
                self.found.abandoned += abandoned as u64;
                self.record(&name.0, format!("recovery cancels {}", count(abandoned, "eviction")));
            }
            self.to_taint.insert(name.clone());
        }
        let (wakes, now) = (wakes(Some(&before), Some(&after)), self.wall());
        if wakes != Wakes::Nobody {
            let (old, new, options) = (Some(&*before), Some(&*after), &self.options.scheduling);
            for binding in self.fleet.world.all_bindings() {
                if enqueues(binding.view(), old, new, wakes, || false, options, now).is_some() {
                    self.to_schedule.insert(binding.key());
                }
            }
        }
        self.to_assess.extend(self.fleet.leaving.iter().cloned());
        if let Some(taints) = by_condition::wanted(&after, self.options.flags.health.by_condition, self.wall()) {
            self.set_taints(name, &after, taints);
        }
    }

    pub(super) fn taint_by_policies(&mut self, name: &ClusterName) {
        if self.fleet.taint_policies.is_empty() {
            return;
        }
        let Some(cluster) = self.fleet.world.clusters.get(name).cloned() else { return };
        let seen = taint_policy::Seen {
            cluster: &cluster,
            policies: &self.fleet.taint_policies,
            memory: self.policies.get(name),
        };
        let decision = taint_policy::decide(&seen, self.wall(), LED_FOR + self.now);
        self.policies.insert(name.clone(), decision.memory);
        if let Some(wait) = decision.next {
            // Times are compared in whole seconds: a look a little too early would see nothing.
            let wait = wait.max(Duration::from_secs(1));
            self.timers.insert((self.now + wait, Due::TaintPolicies(name.clone())));
        }
        for effect in decision.plan.effects {
            if let taint_policy::Effect::Patch(patch) = effect {
                let changed: Cluster = merged(&*cluster, &patch);
                let texts: Vec<String> = changed.spec.taints.iter().map(ironclad_fleet::taint::text).collect();
                let texts = if texts.is_empty() { "none".to_owned() } else { texts.join(", ") };
                self.record(&name.0, format!("a policy sets its taints: {texts}"));
                self.set_cluster(name, changed);
            }
        }
    }
}
