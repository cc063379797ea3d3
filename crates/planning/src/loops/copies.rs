//! Events of bindings and their copies: scheduled, healthy after the start-up time, removed by graceful eviction.

use std::{collections::BTreeSet, time::Duration};

use ironclad_api::{
    JsonText,
    policy::PurgeMode,
    work::{AggregatedStatusItem, GracefulEvictionTask, ResourceBindingSpec, ResourceHealth, TargetCluster},
};
use ironclad_failover::graceful_eviction::{self, Snapshot};
use ironclad_fleet::{Binding, BindingKey, ClusterName, count::count, targets};
use ironclad_scheduling::{self as scheduling, question_of};
use serde_json::json;

use super::{Due, Plan};
use crate::{
    MoveStatus,
    schedule::{fits_within, unasked_in, waits},
    world::{patched_binding, with_reports, with_status},
};

/// Time beyond every horizon, from which on nothing is assumed any more.
const TO_THE_END: Duration = Duration::from_secs(1 << 40);

impl Plan<'_> {
    /// A binding is written.
    pub(super) fn set_binding(&mut self, key: &BindingKey, binding: Binding) {
        let before = self.fleet.put(key, binding.clone());
        self.regroup(before.as_ref(), &binding);
        let moment = self.moment();
        if let Some(evictions) = &mut self.evictions {
            evictions.binding(key, Some(&binding), moment);
        }
        let generation = |b: &Binding| b.metadata().generation;
        if before.as_ref().is_none_or(|before| generation(before) != generation(&binding)) {
            self.to_schedule.insert(key.clone());
            if let Some(before) = &before {
                self.start_new_copies(key, before, &binding);
            }
        }
        if !binding.spec().graceful_eviction_tasks.is_empty() {
            self.to_assess.insert(key.clone());
        }
    }

    /// Takes in a changed member of a group of workloads. Others may fit elsewhere now.
    fn regroup(&mut self, before: Option<&Binding>, after: &Binding) {
        let (Some(peers), Binding::Namespaced(changed)) = (&mut self.scheduler.peers, after) else { return };
        let group_moved = peers.moves(&after.key(), Some(changed));
        peers.update(changed);
        if before.is_some_and(|before| before.spec().clusters == after.spec().clusters) {
            return;
        }
        let moment = self.moment();
        let Some(peers) = &self.scheduler.peers else { return };
        for fellow in peers.fellows(&after.key()) {
            if let Some(evictions) = &mut self.evictions {
                evictions.fellow_moved(&fellow, moment);
            }
            let is_enqueued = |one: &Binding| {
                scheduling::wakes::binding::fellow(one.view(), waits(one), group_moved, &self.options.scheduling)
            };
            if self.fleet.world.binding(&fellow).as_ref().is_some_and(is_enqueued) {
                self.fellows.insert(fellow);
            }
        }
    }

    /// Follows a change of the schedule result: new copies start, removed ones are not reported any more.
    fn start_new_copies(&mut self, key: &BindingKey, before: &Binding, after: &Binding) {
        let expected = targets::expected_clusters(after.spec());
        let present = after.status().map_or(&[][..], |status| &status.aggregated_status);
        let reports: Vec<AggregatedStatusItem> =
            present.iter().filter(|item| expected.contains(&item.cluster_name.as_str().into())).cloned().collect();
        let shorter = reports.len() != present.len();
        for target in &after.spec().clusters {
            let same = before.spec().target(&target.name).is_some_and(|b| b.replicas == target.replicas);
            if !same {
                self.start_copy(key, &target.name.as_str().into());
            }
        }
        if shorter {
            let changed = with_reports(after, reports);
            self.fleet.put(key, changed);
        }
        let new: Vec<&str> = after.spec().clusters.iter().map(|t| t.name.as_str()).collect();
        let gained =
            after.spec().clusters.iter().any(|t| before.spec().target(&t.name).is_none_or(|b| b.replicas < t.replicas));
        if gained {
            let first = (key.clone(), ClusterName::from(""));
            for ((_, from), index) in self.open.range(first..).take_while(|((k, _), _)| k == key) {
                if let Some(one) = self.found.moves.get_mut(*index) {
                    one.placed.get_or_insert(self.now);
                    if new.contains(&&*from.0) {
                        one.status = MoveStatus::Returned;
                    }
                }
            }
        }
    }

    fn start_copy(&mut self, key: &BindingKey, cluster: &ClusterName) {
        if self.ailing.contains_key(key) || self.blocked.contains_key(&(key.clone(), cluster.clone())) {
            return;
        }
        if self.starting.insert((key.clone(), cluster.clone())) {
            self.timers.insert((self.now + self.options.startup, Due::Healthy(key.clone(), cluster.clone())));
        }
    }

    /// Starts the copies in a restored cluster that were never healthy there.
    pub(super) fn restart_copies(&mut self, cluster: &ClusterName) {
        let unhealthy = |bound: &Binding| {
            let status = bound.status().map_or(&[][..], |status| &status.aggregated_status);
            !status.iter().any(|i| i.cluster_name == *cluster.0 && i.health == Some(ResourceHealth::Healthy))
        };
        let keys: Vec<BindingKey> =
            self.fleet.on(cluster).filter(|(_, bound)| unhealthy(bound)).map(|(_, bound)| bound.key()).collect();
        for key in keys {
            self.start_copy(&key, cluster);
        }
    }

    /// Notes which copies of a new schedule result can't start, and takes their reports away: nothing is dispatched to
    /// their cluster, the whole of its free capacity is too small for the replicas that it gains, or the workload is
    /// not healthy where it runs now either. Copies are noted, too, that may not fit on the nodes.
    fn block_copies(&mut self, before: &Binding, after: Binding) -> Binding {
        let (key, spec) = (after.key(), after.spec());
        let (mut blocked, mut freed, mut doubtful) = (Vec::new(), Vec::new(), Vec::new());
        for target in &spec.clusters {
            let cluster = ClusterName::from(target.name.as_str());
            let had = before.spec().target(&target.name).map_or(0, |target| target.replicas);
            let gains = i64::from(target.replicas.saturating_sub(had));
            // The scheduler counted what fits on nodes that are known.
            let is_counted =
                self.scheduler.capacity.is_by_node(&cluster) && question_of(spec, &self.options.scheduling).is_some();
            let certain = fits_within(&self.least, spec, &cluster, &self.options.scheduling).filter(|_| !is_counted);
            if let Some(certain) = certain.filter(|certain| *certain < gains) {
                let gains = count(gains, "replica");
                doubtful.push((
                    cluster.clone(),
                    format!("of {gains} to start in {cluster}, only {certain} certainly fit on its nodes"),
                ));
            }
            let fits = || {
                let fits = fits_within(&self.free, spec, &cluster, &self.options.scheduling)?;
                (fits < gains)
                    .then(|| format!("{} to start in {cluster}, and only {fits} would fit", count(gains, "replica")))
            };
            let suspended = || is_suspended(spec, &cluster).then(|| format!("dispatching to {cluster} is suspended"));
            let is_new = before.spec().target(&target.name).is_none_or(|had| had.replicas != target.replicas);
            let ails = || {
                let ailing = self.ailing.get(&key).filter(|_| is_new)?;
                Some(format!("its copy in {ailing}, which has room for it, is not healthy either"))
            };
            match suspended().or_else(fits).or_else(ails) {
                Some(why) => blocked.push((cluster, why)),
                None => freed.push(cluster),
            }
        }
        for cluster in freed {
            self.blocked.remove(&(key.clone(), cluster.clone()));
            self.doubtful.remove(&(key.clone(), cluster));
        }
        self.doubtful.extend(doubtful.into_iter().map(|(cluster, why)| ((key.clone(), cluster), why)));
        if blocked.is_empty() {
            return after;
        }
        let mut reports = after.status().map_or_else(Vec::new, |status| status.aggregated_status.clone());
        reports.retain(|item| !blocked.iter().any(|(cluster, _)| *cluster.0 == *item.cluster_name));
        for (cluster, why) in blocked {
            self.record(&key.to_string(), format!("does not start: {why}"));
            self.blocked.insert((key.clone(), cluster), why);
        }
        with_reports(&after, reports)
    }

    /// Reports a copy as healthy, unless its cluster is lost or is no target any more.
    pub(super) fn healthy(&mut self, key: &BindingKey, cluster: &ClusterName) {
        self.starting.remove(&(key.clone(), cluster.clone()));
        let Some(binding) = self.fleet.world.binding(key) else { return };
        let Some(target) = binding.spec().target(&cluster.0) else { return };
        if self.lost.contains(cluster) {
            return;
        }
        let status = binding.spec().is_workload().then(|| {
            let replicas = target.replicas;
            json!({"replicas": replicas, "readyReplicas": replicas, "updatedReplicas": replicas,
                   "availableReplicas": replicas})
        });
        let report = AggregatedStatusItem {
            cluster_name: cluster.to_string(),
            status: status.as_ref().map(JsonText::from),
            applied: true,
            applied_message: String::new(),
            health: Some(ResourceHealth::Healthy),
            ..AggregatedStatusItem::default()
        };
        let mut reports = binding.status().map_or_else(Vec::new, |status| status.aggregated_status.clone());
        reports.retain(|item| item.cluster_name != report.cluster_name);
        reports.push(report);
        reports.sort_by(|a, b| a.cluster_name.cmp(&b.cluster_name));
        self.set_binding(key, with_reports(&binding, reports));
    }

    pub(super) fn schedule(&mut self, key: &BindingKey) {
        let Some(binding) = self.fleet.world.binding(key) else { return };
        let (options, world) = (&self.options.scheduling, &self.fleet.world);
        self.scheduler.capacity.expire(self.now);
        self.scheduler.ask(binding.view(), options);
        let decision = scheduling::decide(&self.scheduler.seen(binding.view(), &world.clusters, options), self.wall());
        if self.options.estimators {
            let trace = &decision.plan.because;
            self.found.unasked.extend(unasked_in(trace, binding.spec(), &self.scheduler, options));
        }
        let mut current = binding.clone();
        for effect in &decision.plan.effects {
            match effect {
                scheduling::Effect::Result { patch, .. } => current = patched_binding(&current, patch),
                scheduling::Effect::Status(part) => current = with_status(&current, part),
                scheduling::Effect::Event(_) | scheduling::Effect::Preempt(_) => {}
            }
        }
        if let scheduling::Next::At(at) = decision.next {
            self.timers.insert((self.until(at), Due::Schedule(key.clone())));
        }
        if !decision.plan.effects.is_empty() {
            let moved = current.spec().clusters != binding.spec().clusters;
            if moved {
                let share = |target: &TargetCluster| match target.replicas {
                    0 => target.name.clone(),
                    replicas => format!("{}:{replicas}", target.name),
                };
                let targets: Vec<String> = current.spec().clusters.iter().map(share).collect();
                self.record(&key.to_string(), format!("is placed on {{{}}}", targets.join(", ")));
                current = self.block_copies(&binding, current);
                let (before, targets, options) = (binding.view(), &current.spec().clusters, &self.options.scheduling);
                let starts =
                    |target: &&TargetCluster| !self.blocked.contains_key(&(key.clone(), target.name.as_str().into()));
                let starting: Vec<TargetCluster> = targets.iter().filter(starts).cloned().collect();
                // No cluster ever reports copies that do not start, so that they are assumed for a while only.
                let since = if starting.len() < targets.len() { self.now } else { TO_THE_END };
                self.scheduler.capacity.assigned(before, targets, options, since);
                self.free.assigned(before, &starting, options, TO_THE_END);
                self.least.assigned(before, &starting, options, TO_THE_END);
            }
            self.set_binding(key, current);
            // The scheduler's own write causes another reconcile only if something else changed, too.
            if moved {
                self.to_schedule.remove(key);
                self.fellows.remove(key);
            }
        }
    }

    pub(super) fn assess(&mut self, key: &BindingKey) {
        let Some(binding) = self.fleet.world.binding(key) else { return };
        let spec = binding.spec();
        if spec.graceful_eviction_tasks.is_empty() {
            return;
        }
        let world = &self.fleet.world;
        let cluster = |name: &ClusterName| world.clusters.get(name).cloned();
        let preemptor = |key: &BindingKey| world.bindings.get(key).cloned();
        let seen = Snapshot::new(binding.clone(), [], cluster, preemptor);
        let seen = Snapshot { copies: self.copies(&binding), ..seen };
        let decision = graceful_eviction::decide(&seen, &self.options.flags.evict_plugins, self.wall());
        if let Some(at) = decision.next {
            self.timers.insert((self.until(at), Due::Assess(key.clone())));
        }
        let mut current = None;
        for effect in &decision.plan.effects {
            if let graceful_eviction::Effect::Tasks { patch } = effect {
                current = Some(patched_binding(&binding, patch));
            }
        }
        for cleared in &decision.cleared {
            self.cleared(key, &cleared.task, cleared.by);
        }
        if let Some(current) = current {
            self.set_binding(key, current);
        }
    }

    /// The clusters that hold a copy: targets, and what is left where it stays or can't be removed.
    fn copies(&self, binding: &Binding) -> BTreeSet<ClusterName> {
        let spec = binding.spec();
        let stays = |task: &&GracefulEvictionTask| {
            task.purge_mode != Some(PurgeMode::Directly) || self.lost.contains(&task.from_cluster.as_str().into())
        };
        let left = spec.graceful_eviction_tasks.iter().filter(stays).map(|task| task.from_cluster.as_str());
        spec.clusters.iter().map(|t| t.name.as_str()).chain(left).map(ClusterName::from).collect()
    }

    fn cleared(&mut self, key: &BindingKey, task: &GracefulEvictionTask, by: &str) {
        self.record(&key.to_string(), format!("its old copy in {} may go: {by}", task.from_cluster));
        let from = ClusterName::from(task.from_cluster.as_str());
        if let Some(one) = self.open.remove(&(key.clone(), from)).and_then(|index| self.found.moves.get_mut(index)) {
            one.cleared = Some(self.now);
            if one.status != MoveStatus::Returned {
                one.status = MoveStatus::Moved;
            }
        }
    }
}

/// True if no Work is dispatched to the cluster.
fn is_suspended(spec: &ResourceBindingSpec, cluster: &ClusterName) -> bool {
    spec.suspension.as_ref().is_some_and(|suspension| {
        let on = suspension.dispatching_on_clusters.as_ref();
        suspension.dispatching == Some(true)
            || on.is_some_and(|on| on.cluster_names.iter().any(|name| **name == *cluster.0))
    })
}
