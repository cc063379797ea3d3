//! The event loop: what is due is decided by the real decisions and written into the copy of the fleet, until nothing
//! is due any more; then the clock jumps.

mod clusters;
mod copies;
mod evict;
mod fleet;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ironclad_api::{
    conditions::TRUE,
    work::{AggregatedStatusItem, ResourceBinding, ResourceHealth},
};
use ironclad_failover::{
    Evictions, Now,
    cluster::health,
    taint_manager::{Row, Waiting},
    taint_policy,
    taints::is_faulty,
};
use ironclad_fleet::{BindingKey, ClusterName, World};
use ironclad_scheduling::{Capacity, Peers, capacity::Modelling};
use jiff::{SignedDuration, Timestamp};

use self::fleet::Fleet;
use crate::{
    FailoverPlan, MoveStatus, Options, Script, TimelineEntry,
    schedule::{State, assumed, fits_within, most},
};

/// Assumed time since the leader started: its warm-up is over.
const LED_FOR: Duration = Duration::from_secs(3_600);
/// Most rounds of decisions at one time. A decision that keeps changing its own input would never end.
const ROUNDS_MAX: usize = 10_000_000;
/// Most entries of the timeline.
const LINES_MAX: usize = 100_000;

/// Simulates the changes of the script from `start` on, and their consequences.
#[must_use]
pub fn plan_failover(world: &World, script: &Script, options: &Options, start: Timestamp) -> FailoverPlan {
    let mut plan = Plan::new(world, script, options, start);
    plan.begin();
    plan.run();
    plan.finish()
}

/// Workloads of which no copy is healthy, with a cluster in which one had time to start, and has room: another replica
/// would certainly fit there, or no pod waits for a node.
fn ailing(world: &World, least: &Capacity, options: &Options, now: Timestamp) -> BTreeMap<BindingKey, ClusterName> {
    let ails = |binding: &ResourceBinding| {
        let spec = &binding.spec;
        let reports = binding.status.as_ref().map_or(&[][..], |status| &status.aggregated_status);
        if !spec.is_workload() || reports.iter().any(|item| item.health == Some(ResourceHealth::Healthy)) {
            return None;
        }
        let had_time = |item: &AggregatedStatusItem| {
            let since = item.health_transition_time.as_ref().map(|time| now.duration_since(time.0));
            since.is_none_or(|since| Duration::try_from(since).unwrap_or_default() > options.startup)
        };
        let unhealthy = reports
            .iter()
            .filter(|item| item.applied && item.health == Some(ResourceHealth::Unhealthy) && had_time(item))
            .map(|item| ClusterName::from(item.cluster_name.as_str()));
        let is_ready = |name: &ClusterName| world.clusters.get(name).is_some_and(|one| one.ready() == Some(TRUE));
        let has_room =
            |name: &ClusterName| fits_within(least, spec, name, &options.scheduling).is_none_or(|fits| fits > 0);
        // Its own pods may be what fills the cluster.
        let no_pod_waits = |name: &ClusterName| {
            let status = world.clusters.get(name).and_then(|cluster| cluster.status.as_ref());
            let summary = status.and_then(|status| status.resource_summary.as_ref());
            summary.is_some_and(|summary| summary.allocating.is_empty())
        };
        unhealthy
            .filter(|name| spec.target(&name.0).is_some() && is_ready(name))
            .find(|name| has_room(name) || no_pod_waits(name))
    };
    world.bindings.iter().filter_map(|(key, binding)| Some((key.clone(), ails(binding)?))).collect()
}

/// Event that is due at a time.
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
    /// State of the scheduler: free capacity, less what is assumed, and groups of workloads. No resource summary is
    /// collected here, so replicas that are assigned here and start stay assumed to the end.
    scheduler: State,
    /// The most that may be free, with the upper bounds of the nodes' grades: what does not fit certainly does not
    /// start.
    free: Capacity,
    /// Capacity that is certainly free, with the lower bounds of the nodes' grades: what fits in it certainly starts.
    least: Capacity,
    /// Workloads that are not healthy where they run, although nothing says that their cluster is the reason, each with
    /// one such cluster. No copy elsewhere is expected to become healthy.
    ailing: BTreeMap<BindingKey, ClusterName>,
    /// New copies that can't start, with the reason.
    blocked: BTreeMap<(BindingKey, ClusterName), String>,
    /// New copies that may not start, since reports do not show what is free on each node.
    doubtful: BTreeMap<(BindingKey, ClusterName), String>,
    /// `None` while the gate is off.
    evictions: Option<Evictions>,
    start: Timestamp,
    now: Duration,
    timers: BTreeSet<(Duration, Due)>,
    lost: BTreeSet<ClusterName>,
    /// Clusters that had an evicting taint at any time.
    faulty: BTreeSet<ClusterName>,
    probes: BTreeMap<ClusterName, health::Memory>,
    policies: BTreeMap<ClusterName, taint_policy::Memory>,
    to_taint: BTreeSet<ClusterName>,
    to_schedule: BTreeSet<BindingKey>,
    /// Members of groups of workloads in which another one has moved: they come after that one.
    fellows: BTreeSet<BindingKey>,
    to_assess: BTreeSet<BindingKey>,
    starting: BTreeSet<(BindingKey, ClusterName)>,
    open: BTreeMap<(BindingKey, ClusterName), usize>,
    rounds: usize,
    found: FailoverPlan,
}

impl<'a> Plan<'a> {
    fn new(world: &World, script: &'a Script, options: &'a Options, start: Timestamp) -> Self {
        let born = start.checked_sub(SignedDuration::try_from(LED_FOR).unwrap_or_default()).unwrap_or(start);
        let evictions =
            options.gate.then(|| Evictions::new(options.flags.clone(), Now { wall: born, mono: Duration::ZERO }));
        let capacity = assumed(world, options.modelling, &options.nodes, &options.scheduling, start);
        let bindings = || world.bindings.values().map(|binding| &**binding);
        let peers = options.scheduling.workload_affinity.then(|| Peers::of(bindings()));
        let free = most(&world.clusters, &options.nodes);
        let least = assumed(world, Modelling::On, &options.nodes, &options.scheduling, start);
        Self {
            options,
            script,
            fleet: Fleet::of(world),
            scheduler: State { capacity, peers, ..State::default() },
            ailing: ailing(world, &least, options, start),
            free,
            least,
            blocked: BTreeMap::new(),
            doubtful: BTreeMap::new(),
            evictions,
            start,
            now: Duration::ZERO,
            timers: BTreeSet::new(),
            lost: BTreeSet::new(),
            faulty: BTreeSet::new(),
            probes: BTreeMap::new(),
            policies: BTreeMap::new(),
            to_taint: BTreeSet::new(),
            to_schedule: BTreeSet::new(),
            fellows: BTreeSet::new(),
            to_assess: BTreeSet::new(),
            starting: BTreeSet::new(),
            open: BTreeMap::new(),
            rounds: 0,
            found: FailoverPlan::default(),
        }
    }

    /// The moment as the eviction queue takes it.
    fn moment(&self) -> Now {
        let elapsed = SignedDuration::try_from(self.now).unwrap_or(SignedDuration::MAX);
        Now { wall: self.start.saturating_add(elapsed).unwrap_or(self.start), mono: LED_FOR + self.now }
    }

    /// In whole seconds, as on the wire.
    fn wall(&self) -> Timestamp {
        Timestamp::from_second(self.moment().wall.as_second()).unwrap_or(self.start)
    }

    /// Time of a stored timestamp after the start.
    fn until(&self, at: Timestamp) -> Duration {
        Duration::try_from(at.duration_since(self.start)).unwrap_or_default().max(self.now)
    }

    fn record(&mut self, about: &str, what: impl Into<String>) {
        if self.found.timeline.len() < LINES_MAX {
            self.found.timeline.push(TimelineEntry { at: self.now, about: about.to_owned(), what: what.into() });
        }
    }

    /// Initial state: the fleet with its faults and waiting evictions.
    fn begin(&mut self) {
        for (index, (at, _)) in self.script.0.iter().enumerate() {
            self.timers.insert((*at, Due::Script(index)));
        }
        self.faulty =
            self.fleet.world.clusters.iter().filter(|(_, c)| is_faulty(c)).map(|(name, _)| name.clone()).collect();
        let moment = self.moment();
        if let Some(evictions) = &mut self.evictions {
            let mut faulty = Vec::new();
            for (name, cluster) in &self.fleet.world.clusters {
                let recovering = taint_policy::is_recovering(cluster, &self.fleet.taint_policies);
                if evictions.cluster(name, Some(cluster), recovering.into(), moment) {
                    faulty.push(name.clone());
                }
            }
            let bound: Vec<_> = faulty.iter().flat_map(|name| self.fleet.on(name)).collect();
            evictions.evaluate(bound, moment);
            self.to_taint = self.fleet.world.clusters.keys().cloned().collect();
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
            self.handle(due);
            // Everything that is due at this moment is seen before anything is decided on it.
            if self.timers.first().is_none_or(|(next, _)| *next > self.now) {
                self.decide_all();
                if self.is_idle() || self.rounds > ROUNDS_MAX {
                    return;
                }
            }
        }
    }

    fn handle(&mut self, due: Due) {
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

    /// True if no event is due but another check of evictions that can't proceed.
    fn is_idle(&self) -> bool {
        self.timers.iter().all(|(_, due)| *due == Due::Evict) && !self.is_moving()
    }

    /// True if an eviction in the queue becomes due by time alone.
    fn is_moving(&self) -> bool {
        let Some(evictions) = &self.evictions else { return false };
        if evictions.queue().tally().pending() == 0 || !self.timers.iter().any(|(_, due)| *due == Due::Evict) {
            return false;
        }
        // One that failed has the same answer as long as its member reports the same.
        let goes = |row: &Row| match row.state {
            Waiting::Parked | Waiting::Held => false,
            Waiting::Retrying => row.because.is_none(),
            Waiting::Evicting | Waiting::Queued | Waiting::Delayed => true,
        };
        evictions.queue().tally().ready() > 0 || evictions.rows(self.moment()).iter().any(goes)
    }

    /// Decides on everything that changed, until nothing changes any more at this moment.
    fn decide_all(&mut self) {
        loop {
            self.rounds += 1;
            if self.rounds > ROUNDS_MAX {
                return;
            }
            if let Some(name) = self.to_taint.pop_first() {
                self.taint_by_policies(&name);
            } else if let Some(key) = self.to_schedule.pop_first() {
                self.schedule(&key);
            } else if let Some(key) = self.fellows.pop_first() {
                self.schedule(&key);
            } else if let Some(key) = self.to_assess.pop_first() {
                self.assess(&key);
            } else if !self.evict() {
                return;
            }
        }
    }

    fn finish(mut self) -> FailoverPlan {
        let waiting = self.waiting();
        self.found.waits.extend(waiting);
        for one in &mut self.found.moves {
            let Some(binding) = self.fleet.world.binding(&one.binding) else { continue };
            one.ends = binding.spec().clusters.iter().map(|t| (t.name.clone(), t.replicas)).collect();
            let kept = binding.spec().eviction(&one.from.0).is_some();
            let elsewhere = one.ends.keys().any(|name| *name != *one.from.0);
            if one.status == MoveStatus::Unschedulable && elsewhere {
                one.status = if kept { MoveStatus::MovedButKept } else { MoveStatus::Moved };
            } else if one.status == MoveStatus::Unschedulable && !one.ends.is_empty() {
                one.status = MoveStatus::Returned;
            }
            let of_binding = |cluster: &String| {
                let key = (one.binding.clone(), ClusterName::from(cluster.as_str()));
                self.blocked.get(&key).filter(|_| *cluster != *one.from.0).cloned()
            };
            one.because = one.ends.keys().find_map(of_binding);
            if one.because.is_some() {
                one.status = MoveStatus::NotRunning;
            } else if one.status == MoveStatus::Moved {
                let doubt = |cluster: &String| {
                    let key = (one.binding.clone(), ClusterName::from(cluster.as_str()));
                    self.doubtful.get(&key).filter(|_| *cluster != *one.from.0).cloned()
                };
                one.because = one.ends.keys().find_map(doubt);
            }
        }
        if self.found.moves.is_empty() && self.found.waits.is_empty() {
            self.found.quiet_because = Some(self.quiet_because());
        }
        self.found.sum_up();
        self.found
    }

    /// Reason that nothing is evicted and nothing waits.
    fn quiet_because(&self) -> String {
        if self.evictions.is_none() {
            return "feature gate Failover is off, so nothing is ever evicted".to_owned();
        }
        if self.faulty.is_empty() {
            return match self.fleet.taint_policies.is_empty() {
                true => "there is no ClusterTaintPolicy: only people taint clusters NoExecute or PreferNoExecute",
                false => "no ClusterTaintPolicy taints a cluster NoExecute or PreferNoExecute for this, or not so soon",
            }
            .to_owned();
        }
        let names: Vec<&str> = self.faulty.iter().map(|name| &*name.0).collect();
        let names = names.join(", ");
        if self.faulty.iter().all(|name| self.fleet.on(name).next().is_none()) {
            format!("no workload is on {names}")
        } else {
            format!(
                "every workload on {names} tolerates the taints; those with effect PreferNoExecute move only what has \
                 spec.failover.cluster in its policy"
            )
        }
    }
}
