//! The event loop: what is due is decided by the real decisions and written into the copy of the fleet, until nothing is
//! due any more; then the clock jumps.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ironclad_api::{
    cluster::Cluster,
    conditions::TRUE,
    policy::PurgeMode,
    work::{AggregatedStatusItem, GracefulEvictionTask, ResourceHealth},
};
use ironclad_failover::{
    Bound, Evictions, Now,
    eviction::{Next, Outcome, Waiting},
    graceful,
    health::{self, Probe},
    precheck, taint_policy,
    taints::{by_condition, is_faulty, stamped},
};
use ironclad_fleet::{BindingKey, ClusterName, StatusPart, World, targets};
use ironclad_scheduling::{self as scheduling, Available, trigger};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    Change, Fate, Foreseen, Line, Move, Options, Script, Waits,
    copy::{Fleet, for_scheduler, merged, patched_binding, with_reports, with_status},
};

/// The leader is taken to have led for so long: its warm-up is over.
const BEFORE: Duration = Duration::from_secs(3_600);
/// A decision that goes on changing its own input for so many rounds at one moment would never end.
const ROUNDS_MAX: usize = 10_000_000;
/// So many lines of the timeline are kept.
const LINES_MAX: usize = 100_000;

/// What is done to this fleet from `start` on, and what follows from it.
#[must_use]
pub fn foresee(world: &World, script: &Script, options: &Options, start: Timestamp) -> Foreseen {
    let mut plan = Plan::new(world, script, options, start);
    plan.begin();
    plan.run();
    plan.finish()
}

/// What a moment is waited for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Script(usize),
    Probe(ClusterName),
    TaintPolicies(ClusterName),
    Healthy(BindingKey, ClusterName),
    Schedule(BindingKey),
    Assess(BindingKey),
    Evict,
}

struct Plan<'a> {
    options: &'a Options,
    script: &'a Script,
    fleet: Fleet,
    /// `None` while the gate is off.
    evictions: Option<Evictions>,
    start: Timestamp,
    now: Duration,
    timers: BTreeSet<(Duration, Due)>,
    lost: BTreeSet<ClusterName>,
    probes: BTreeMap<ClusterName, health::Memory>,
    policies: BTreeMap<ClusterName, taint_policy::Memory>,
    to_taint: BTreeSet<ClusterName>,
    to_schedule: BTreeSet<BindingKey>,
    to_assess: BTreeSet<BindingKey>,
    starting: BTreeSet<(BindingKey, ClusterName)>,
    open: BTreeMap<(BindingKey, ClusterName), usize>,
    rounds: usize,
    found: Foreseen,
}

impl<'a> Plan<'a> {
    fn new(world: &World, script: &'a Script, options: &'a Options, start: Timestamp) -> Self {
        let born = start.checked_sub(SignedDuration::try_from(BEFORE).unwrap_or_default()).unwrap_or(start);
        let evictions =
            options.gate.then(|| Evictions::new(options.flags.clone(), Now { wall: born, mono: Duration::ZERO }));
        Self {
            options,
            script,
            fleet: Fleet::of(world),
            evictions,
            start,
            now: Duration::ZERO,
            timers: BTreeSet::new(),
            lost: BTreeSet::new(),
            probes: BTreeMap::new(),
            policies: BTreeMap::new(),
            to_taint: BTreeSet::new(),
            to_schedule: BTreeSet::new(),
            to_assess: BTreeSet::new(),
            starting: BTreeSet::new(),
            open: BTreeMap::new(),
            rounds: 0,
            found: Foreseen::default(),
        }
    }

    /// The moment as the eviction queue takes it.
    fn moment(&self) -> Now {
        let elapsed = SignedDuration::try_from(self.now).unwrap_or(SignedDuration::MAX);
        Now { wall: self.start.saturating_add(elapsed).unwrap_or(self.start), mono: BEFORE + self.now }
    }

    /// In whole seconds, as on the wire.
    fn wall(&self) -> Timestamp {
        Timestamp::from_second(self.moment().wall.as_second()).unwrap_or(self.start)
    }

    /// So long after the beginning a stored time comes.
    fn until(&self, at: Timestamp) -> Duration {
        Duration::try_from(at.duration_since(self.start)).unwrap_or_default().max(self.now)
    }

    fn tell(&mut self, about: &str, what: impl Into<String>) {
        if self.found.timeline.len() < LINES_MAX {
            self.found.timeline.push(Line { at: self.now, about: about.to_owned(), what: what.into() });
        }
    }

    /// The fleet as it is, faults and waiting evictions among it.
    fn begin(&mut self) {
        for (index, (at, _)) in self.script.0.iter().enumerate() {
            self.timers.insert((*at, Due::Script(index)));
        }
        let moment = self.moment();
        if let Some(evictions) = &mut self.evictions {
            let mut faulty = Vec::new();
            for (name, cluster) in &self.fleet.clusters {
                let recovering = taint_policy::is_recovering(cluster, &self.fleet.taint_policies);
                if evictions.cluster(name, Some(cluster), recovering.into(), moment) {
                    faulty.push(name.clone());
                }
            }
            let bound: Vec<_> = faulty.iter().flat_map(|name| self.fleet.on(name)).collect();
            evictions.evaluate(bound, moment);
            self.to_taint = self.fleet.clusters.keys().cloned().collect();
        }
        self.to_assess = self.fleet.leaving.clone();
        self.timers.insert((Duration::ZERO, Due::Evict));
    }

    fn run(&mut self) {
        while let Some((at, due)) = self.timers.pop_first() {
            if at > self.options.horizon {
                self.found.cut_off = due != Due::Evict || self.is_moving();
                return;
            }
            self.now = self.now.max(at);
            self.take(due);
            // Everything that is due at this moment is seen before anything is decided on it.
            if self.timers.first().is_none_or(|(next, _)| *next > self.now) {
                self.settle();
                if self.is_idle() || self.rounds > ROUNDS_MAX {
                    return;
                }
            }
        }
    }

    fn take(&mut self, due: Due) {
        match due {
            Due::Script(index) => {
                if let Some((_, change)) = self.script.0.get(index) {
                    self.change(change);
                }
            }
            Due::Probe(cluster) => self.probe(&cluster),
            Due::TaintPolicies(cluster) => drop(self.to_taint.insert(cluster)),
            Due::Healthy(binding, cluster) => self.healthy(&binding, &cluster),
            Due::Schedule(binding) => drop(self.to_schedule.insert(binding)),
            Due::Assess(binding) => drop(self.to_assess.insert(binding)),
            Due::Evict => {}
        }
    }

    /// Nothing is to come but another look at what can't move.
    fn is_idle(&self) -> bool {
        self.timers.iter().all(|(_, due)| *due == Due::Evict) && !self.is_moving()
    }

    /// Something in the queue has its turn by time alone.
    fn is_moving(&self) -> bool {
        let Some(evictions) = &self.evictions else { return false };
        if evictions.queue().tally().pending() == 0 || !self.timers.iter().any(|(_, due)| *due == Due::Evict) {
            return false;
        }
        let goes = |state: Waiting| !matches!(state, Waiting::Parked | Waiting::Held);
        evictions.queue().tally().ready() > 0 || evictions.rows(self.moment()).iter().any(|row| goes(row.state))
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Lost(name) => {
                if self.lost.insert(name.clone()) {
                    self.tell(&name.0, "is lost");
                    self.timers.insert((self.now, Due::Probe(name.clone())));
                }
            }
            Change::Back(name) => {
                if self.lost.remove(name) {
                    self.tell(&name.0, "is back");
                    self.timers.insert((self.now, Due::Probe(name.clone())));
                    self.restart_copies(name);
                }
            }
            Change::Taint(name, taint) => {
                let Some(cluster) = self.fleet.clusters.get(name).cloned() else { return };
                let mut taints = cluster.spec.taints.clone();
                if !taints.iter().any(|t| t.key == taint.key && t.effect == taint.effect) {
                    taints.push(taint.clone());
                }
                let wanted = stamped(&taints, &cluster.spec.taints, self.wall()).unwrap_or(taints);
                self.tell(&name.0, format!("is tainted {}", ironclad_fleet::taint::text(taint)));
                self.set_taints(name, &cluster, wanted);
            }
            Change::Untaint(name, taint) => {
                let Some(cluster) = self.fleet.clusters.get(name).cloned() else { return };
                let mut taints = cluster.spec.taints.clone();
                taints.retain(|t| t.key != taint.key || t.effect != taint.effect);
                self.tell(&name.0, format!("loses its taint {}", ironclad_fleet::taint::text(taint)));
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
    fn probe(&mut self, name: &ClusterName) {
        let Some(cluster) = self.fleet.clusters.get(name).cloned() else { return };
        let probe = if self.lost.contains(name) { Probe::Offline } else { Probe::Healthy };
        let flags = &self.options.flags.health;
        let seen =
            health::Seen { cluster: &cluster, memory: self.probes.get(name).copied(), thresholds: flags.thresholds };
        let every = flags.status_update_frequency;
        let decision = health::decide(&seen, &probe, None, BEFORE + self.now, self.wall());
        if let Some(memory) = decision.memory {
            self.probes.insert(name.clone(), memory);
        }
        for health::Effect::Status(part) in decision.plan.effects {
            let current =
                serde_json::to_value(&cluster.status).ok().filter(Value::is_object).unwrap_or_else(|| json!({}));
            let mut changed = (*cluster).clone();
            changed.status = serde_json::from_value(StatusPart::applied(&current, &[&part])).ok();
            if changed.ready() != cluster.ready() {
                let status = changed.ready().unwrap_or("missing").to_owned();
                self.tell(&name.0, format!("Ready becomes {status}"));
            }
            self.set_cluster(name, changed);
        }
        let is_ready = self.fleet.clusters.get(name).is_some_and(|c| c.ready() == Some(TRUE));
        if is_ready == self.lost.contains(name) {
            self.timers.insert((self.now + every, Due::Probe(name.clone())));
        }
    }

    /// A cluster is written; everybody who watches it hears of it.
    fn set_cluster(&mut self, name: &ClusterName, mut changed: Cluster) {
        let Some(before) = self.fleet.clusters.get(name).cloned() else { return };
        if changed.spec != before.spec {
            changed.metadata.generation = Some(before.metadata.generation.unwrap_or_default() + 1);
        }
        let after = Arc::new(changed);
        self.fleet.clusters.insert(name.clone(), after.clone());
        let moment = self.moment();
        if is_faulty(&before) && !is_faulty(&after) {
            self.abandoned(name);
        }
        if let Some(evictions) = &mut self.evictions {
            let recovering = taint_policy::is_recovering(&after, &self.fleet.taint_policies);
            let waited = evictions.queue().tally().pending();
            if evictions.cluster(name, Some(&after), recovering.into(), moment) {
                let bound: Vec<_> = self.fleet.on(name).collect();
                evictions.evaluate(bound, moment);
            }
            let gone = waited.saturating_sub(evictions.queue().tally().pending());
            if gone > 0 && !is_faulty(&after) {
                self.found.abandoned += gone as u64;
                self.tell(&name.0, format!("{gone} evictions are abandoned"));
            }
            self.to_taint.insert(name.clone());
        }
        let wakes = trigger::wakes(Some(&before), Some(&after));
        if wakes != trigger::Wakes::Nobody {
            let options = &self.options.scheduling;
            for (key, binding) in &self.fleet.bindings {
                let view = for_scheduler(binding);
                let concerned = [&before, &after].into_iter().any(|c| trigger::concerns(&view, c, options));
                if concerned && (wakes == trigger::Wakes::Concerned || trigger::is_unsettled(&view)) {
                    self.to_schedule.insert(key.clone());
                }
            }
        }
        self.to_assess.extend(self.fleet.leaving.iter().cloned());
        if let Some(taints) = by_condition::wanted(&after, self.options.flags.by_condition, self.wall()) {
            self.set_taints(name, &after, taints);
        }
    }

    /// A binding is written.
    fn set_binding(&mut self, key: &BindingKey, binding: Bound) {
        let before = self.fleet.put(key, binding.clone());
        let moment = self.moment();
        if let Some(evictions) = &mut self.evictions {
            evictions.binding(key, Some(&binding), moment);
        }
        let generation = |b: &Bound| b.metadata().generation;
        if before.as_ref().is_none_or(|before| generation(before) != generation(&binding)) {
            self.to_schedule.insert(key.clone());
            if let Some(before) = &before {
                self.placed(key, before, &binding);
            }
        }
        if !binding.spec().graceful_eviction_tasks.is_empty() {
            self.to_assess.insert(key.clone());
        }
    }

    /// What a change of the result means for copies: new ones start, old ones are not reported any more.
    fn placed(&mut self, key: &BindingKey, before: &Bound, after: &Bound) {
        let expected = targets::expected_clusters(after.spec());
        let standing = after.status().map_or(&[][..], |status| &status.aggregated_status);
        let reports: Vec<AggregatedStatusItem> =
            standing.iter().filter(|item| expected.contains(&item.cluster_name.as_str().into())).cloned().collect();
        let shorter = reports.len() != standing.len();
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
                        one.fate = Fate::Back;
                    }
                }
            }
        }
    }

    fn start_copy(&mut self, key: &BindingKey, cluster: &ClusterName) {
        if self.starting.insert((key.clone(), cluster.clone())) {
            self.timers.insert((self.now + self.options.startup, Due::Healthy(key.clone(), cluster.clone())));
        }
    }

    /// What is placed in a cluster that is back, and was never seen healthy there, starts now.
    fn restart_copies(&mut self, cluster: &ClusterName) {
        let unhealthy = |bound: &Bound| {
            let status = bound.status().map_or(&[][..], |status| &status.aggregated_status);
            !status.iter().any(|i| i.cluster_name == *cluster.0 && i.health == Some(ResourceHealth::Healthy))
        };
        let keys: Vec<BindingKey> =
            self.fleet.on(cluster).filter(|(_, bound)| unhealthy(bound)).map(|(_, bound)| bound.key()).collect();
        for key in keys {
            self.start_copy(&key, cluster);
        }
    }

    /// A copy has come up, unless its cluster is lost or it is not wanted there any more.
    fn healthy(&mut self, key: &BindingKey, cluster: &ClusterName) {
        self.starting.remove(&(key.clone(), cluster.clone()));
        let Some(binding) = self.fleet.bindings.get(key).cloned() else { return };
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
            status,
            applied: true,
            applied_message: String::new(),
            health: Some(ResourceHealth::Healthy),
        };
        let mut reports = binding.status().map_or_else(Vec::new, |status| status.aggregated_status.clone());
        reports.retain(|item| item.cluster_name != report.cluster_name);
        reports.push(report);
        reports.sort_by(|a, b| a.cluster_name.cmp(&b.cluster_name));
        self.set_binding(key, with_reports(&binding, reports));
    }

    /// Decides on everything that changed, until nothing changes any more at this moment.
    fn settle(&mut self) {
        loop {
            self.rounds += 1;
            if self.rounds > ROUNDS_MAX {
                return;
            }
            if let Some(name) = self.to_taint.pop_first() {
                self.taint_by_policies(&name);
            } else if let Some(key) = self.to_schedule.pop_first() {
                self.schedule(&key);
            } else if let Some(key) = self.to_assess.pop_first() {
                self.assess(&key);
            } else if !self.evict() {
                return;
            }
        }
    }

    fn taint_by_policies(&mut self, name: &ClusterName) {
        if self.fleet.taint_policies.is_empty() {
            return;
        }
        let Some(cluster) = self.fleet.clusters.get(name).cloned() else { return };
        let seen = taint_policy::Seen {
            cluster: &cluster,
            policies: &self.fleet.taint_policies,
            memory: self.policies.get(name),
        };
        let decision = taint_policy::decide(&seen, self.wall(), BEFORE + self.now);
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
                self.tell(&name.0, format!("a policy sets its taints: {texts}"));
                self.set_cluster(name, changed);
            }
        }
    }

    fn schedule(&mut self, key: &BindingKey) {
        let Some(binding) = self.fleet.bindings.get(key).cloned() else { return };
        let seen = scheduling::Seen {
            binding: for_scheduler(&binding),
            clusters: &self.fleet.clusters,
            available: &Available::new(),
            options: &self.options.scheduling,
        };
        let decision = scheduling::decide(&seen, self.wall());
        let mut current = binding.clone();
        for effect in &decision.plan.effects {
            match effect {
                scheduling::Effect::Result { patch } => current = patched_binding(&current, patch),
                scheduling::Effect::Status(part) => current = with_status(&current, part),
                scheduling::Effect::Event(_) => {}
            }
        }
        if let scheduling::Next::At(at) = decision.next {
            self.timers.insert((self.until(at), Due::Schedule(key.clone())));
        }
        if !decision.plan.effects.is_empty() {
            let moved = current.spec().clusters != binding.spec().clusters;
            if moved {
                let targets: Vec<String> =
                    current.spec().clusters.iter().map(|t| format!("{}:{}", t.name, t.replicas)).collect();
                self.tell(&key.to_string(), format!("is placed on {{{}}}", targets.join(", ")));
            }
            self.set_binding(key, current);
            // The echo of the scheduler's own write gives it another turn only if something else changed, too.
            if moved {
                self.to_schedule.remove(key);
            }
        }
    }

    fn assess(&mut self, key: &BindingKey) {
        let Some(binding) = self.fleet.bindings.get(key).cloned() else { return };
        let spec = binding.spec();
        if spec.graceful_eviction_tasks.is_empty() {
            return;
        }
        let named =
            spec.clusters.iter().map(|t| &t.name).chain(spec.graceful_eviction_tasks.iter().map(|t| &t.from_cluster));
        let is_ready = |name: &ClusterName| self.fleet.clusters.get(name).is_some_and(|c| c.ready() == Some(TRUE));
        let not_ready = named.map(|name| ClusterName::from(name.as_str())).filter(|name| !is_ready(name)).collect();
        let (status, copies) = (binding.status(), self.copies(&binding));
        let seen = graceful::Seen {
            about: binding.reference(),
            metadata: binding.metadata(),
            spec,
            scheduler_observed: status.map_or(0, |s| s.scheduler_observed_generation),
            status: status.map_or(&[], |s| &s.aggregated_status),
            history: status.map_or(&[], |s| &s.failover_history),
            not_ready: &not_ready,
            copies: &copies,
            plugins: &self.options.flags.evict_plugins,
        };
        let decision = graceful::decide(&seen, self.wall());
        if let Some(at) = decision.next {
            self.timers.insert((self.until(at), Due::Assess(key.clone())));
        }
        let mut current = None;
        for effect in &decision.plan.effects {
            if let graceful::Effect::Tasks { patch } = effect {
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
    fn copies(&self, binding: &Bound) -> BTreeSet<ClusterName> {
        let spec = binding.spec();
        let stays = |task: &&GracefulEvictionTask| {
            task.purge_mode != Some(PurgeMode::Directly) || self.lost.contains(&task.from_cluster.as_str().into())
        };
        let left = spec.graceful_eviction_tasks.iter().filter(stays).map(|task| task.from_cluster.as_str());
        spec.clusters.iter().map(|t| t.name.as_str()).chain(left).map(ClusterName::from).collect()
    }

    fn cleared(&mut self, key: &BindingKey, task: &GracefulEvictionTask, by: &str) {
        self.tell(&key.to_string(), format!("its old copy in {} may go: {by}", task.from_cluster));
        let from = ClusterName::from(task.from_cluster.as_str());
        if let Some(one) = self.open.remove(&(key.clone(), from)).and_then(|index| self.found.moves.get_mut(index)) {
            one.cleared = Some(self.now);
            if one.fate != Fate::Back {
                one.fate = Fate::Moved;
            }
        }
    }

    /// Takes one step of the queue; false if it has nothing to do now.
    fn evict(&mut self) -> bool {
        let moment = self.moment();
        let Some(evictions) = &mut self.evictions else { return false };
        let bindings = &self.fleet.bindings;
        let next = evictions.next(&self.fleet.clusters, |key| bindings.get(key).cloned(), moment);
        let events = evictions.take_events();
        let _ = evictions.take_waited();
        let goes_on = match next {
            Next::Wait(at) => {
                self.timers.retain(|(_, due)| *due != Due::Evict);
                if let Some(at) = at {
                    // A moment that has come already would be asked for without end.
                    let at = at.saturating_sub(BEFORE).max(self.now + Duration::from_millis(1));
                    self.timers.insert((at, Due::Evict));
                }
                false
            }
            Next::Again => true,
            Next::Evict(eviction) => {
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
                    fate: Fate::Homeless,
                });
                self.open.insert((key.clone(), from.clone()), index);
                self.tell(&key.to_string(), format!("leaves {from}: {}", task.reason));
                let mut patched = patched_binding(&eviction.binding, &eviction.patch);
                patched = with_status(&patched, &eviction.status());
                self.set_binding(&key, patched.clone());
                if again && let Some(evictions) = &mut self.evictions {
                    evictions.binding(&key, Some(&patched), moment);
                }
                true
            }
        };
        for event in events {
            if event.about.kind == "Cluster" {
                self.tell(&event.about.name, event.message);
            }
        }
        goes_on
    }

    /// Whatever still waits to leave a cluster whose episode ends now stays there.
    fn abandoned(&mut self, name: &ClusterName) {
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

    /// Who waits at this moment, and why.
    fn waiting(&self) -> Vec<Waits> {
        let Some(evictions) = &self.evictions else { return Vec::new() };
        let moment = self.moment();
        let with_reason = |row: ironclad_failover::eviction::Row| {
            let because = match (self.no_target(&row.binding, &row.cluster), row.state) {
                (Some(why), _) => why,
                (None, Waiting::Held) => "its cluster is back and its taints wait to be removed".to_owned(),
                (None, _) => evictions.allowed(moment).why.to_string(),
            };
            Waits {
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

    fn finish(mut self) -> Foreseen {
        let waiting = self.waiting();
        self.found.waits.extend(waiting);
        for one in &mut self.found.moves {
            let Some(binding) = self.fleet.bindings.get(&one.binding) else { continue };
            one.ends = binding.spec().clusters.iter().map(|t| (t.name.clone(), t.replicas)).collect();
            let kept = binding.spec().eviction(&one.from.0).is_some();
            let elsewhere = one.ends.keys().any(|name| *name != *one.from.0);
            if one.fate == Fate::Homeless && elsewhere {
                one.fate = if kept { Fate::MovedButKept } else { Fate::Moved };
            } else if one.fate == Fate::Homeless && !one.ends.is_empty() {
                one.fate = Fate::Back;
            }
        }
        self.found.add_up();
        self.found
    }

    /// Why nothing would take it, if that is so.
    fn no_target(&self, key: &BindingKey, from: &ClusterName) -> Option<String> {
        let check = self.options.flags.eviction.check();
        let left_out = BTreeSet::from([from.clone()]);
        let binding = self.fleet.bindings.get(key)?;
        precheck::has_target(binding, &left_out, &self.fleet.clusters, check).err().map(|why| why.to_string())
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
