//! Evictions by taints: which clusters are faulty, which bindings leave them, in which order and how fast
//! (specification/failover.md 3, 6). A state machine without IO: events go in, evictions come out. The reconciler
//! drives it with caches and a clock, `ironclad plan` with a world and virtual time.
//!
//! A driver does this:
//!
//! 1. [`Evictions::cluster`] for every cluster, and again whenever one changes. If it returns true,
//!    [`Evictions::evaluate`]
//!    with the bindings on that cluster.
//! 2. [`Evictions::binding`] whenever a binding changes.
//! 3. [`Evictions::next`] in a loop; write what it returns and report with [`Evictions::done`]; or wait until it says.

mod episode;
pub mod guards;
mod notice;
pub mod pre_scheduling_check;
mod process;
pub mod queue;
pub mod rate;
mod rebuilt;
mod report;
mod reported_flags;
mod rows;
pub mod verdict;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_api::{cluster::Cluster, events};
use ironclad_fleet::{Binding, BindingKey, ClusterName, Clusters, Event, because::eviction::Reason, count::count};
use ironclad_options::in_words;

pub use self::{
    episode::Episode,
    notice::Notice,
    process::{Eviction, Next, Outcome, Surroundings},
    report::{EpisodeReport, OLD_REPORT_CONFIG_MAP, PAUSE_CONFIG_MAP, Report},
    reported_flags::{EvictionSettings, ReportedFlags},
    rows::{Row, Waiting},
};
use self::{
    guards::{Allowed, ClusterHealth, Fleet, Guards, Hold},
    queue::{Abandoned, Key, Queue, Request},
    rate::{Pacer, Reached, Retries, State},
    verdict::Verdict,
};
use crate::{Flags, Now, taints::is_faulty};

/// State of the leader about evictions by taints.
#[derive(Debug)]
pub struct Evictions {
    flags: Flags,
    fleet: Fleet,
    guards: Guards,
    pacer: Pacer,
    reached: Reached,
    retries: Retries,
    hold: Hold,
    episodes: BTreeMap<ClusterName, Episode>,
    queue: Queue,
    notices: notice::Notices,
    events: Vec<Event>,
    /// State of the rate that the last event reported.
    recorded_state: State,
    /// Writes in flight.
    working: usize,
    /// True if elements were parked for lack of capacity since some cluster had more.
    parked_for_capacity: bool,
}

/// Maximum number of unread events.
const EVENTS_MAX: usize = 4096;

impl Evictions {
    /// State of a leader that starts now: nothing is evicted before the warm-up is over, and the first eviction keeps
    /// the distance that one at the start would ask for.
    #[must_use]
    pub fn new(flags: Flags, now: Now) -> Self {
        let warm_up = flags.eviction.warm_up(flags.health.monitor_grace_period);
        Self {
            fleet: Fleet::default(),
            guards: Guards::new(now, warm_up),
            pacer: Pacer::new(now.mono, flags.eviction.concurrent_binding_eviction_syncs),
            reached: Reached::default(),
            retries: Retries::default(),
            hold: Hold::None,
            episodes: BTreeMap::new(),
            queue: Queue::default(),
            notices: notice::Notices::default(),
            events: Vec::new(),
            recorded_state: State::Normal,
            working: 0,
            parked_for_capacity: false,
            flags,
        }
    }

    /// Flags in force.
    #[must_use]
    pub fn flags(&self) -> &Flags {
        &self.flags
    }

    /// Pauses or resumes all evictions: a person paused them, or the caches are not complete.
    pub fn hold(&mut self, hold: Hold) {
        self.hold = hold;
    }

    /// Retries elements parked for lack of capacity: some cluster has more.
    pub fn capacity_appeared(&mut self) {
        if std::mem::take(&mut self.parked_for_capacity) {
            self.queue.look_again_at_parked();
        }
    }

    /// Records the state of a cluster, `None` if it was deleted. `recovering` is
    /// [`is_recovering`](crate::taint_policy::is_recovering). Returns true if the bindings on it are to be evaluated:
    /// it became faulty, or its taints changed.
    pub fn cluster(&mut self, name: &ClusterName, cluster: Option<&Cluster>, recovering: Recovering, now: Now) -> bool {
        let health = cluster.map(|c| ClusterHealth::of(c, self.flags.health.startup_grace_period));
        let before = self.fleet.get(name).cloned();
        self.fleet.set(name, health.clone());
        self.watch_departure(name, cluster, before.as_ref(), health.as_ref(), now);
        if cluster.is_some_and(|cluster| self.notices.shape_changed(name, notice::shape(cluster)))
            || became_available(before.as_ref(), health.as_ref())
        {
            self.queue.look_again_at_parked();
        }
        let Some(cluster) = cluster else {
            self.end(name, Abandoned::Deleted, now);
            self.queue.tally_mut().forget(name);
            return false;
        };
        let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
        if self.episodes.get(name).is_some_and(|episode| *episode.cluster_uid != *uid) {
            self.end(name, Abandoned::Deleted, now);
        }
        if !is_faulty(cluster) {
            self.end(name, Abandoned::Recovered, now);
            return false;
        }
        let changed = match self.episodes.get_mut(name) {
            Some(episode) => episode.taints_are(cluster, now),
            None => {
                let episode = Episode::new(name, cluster, now);
                self.episodes.insert(name.clone(), episode);
                self.queue.tally_mut().episode(name);
                true
            }
        };
        self.pause_or_resume(name, recovering);
        changed
    }

    fn pause_or_resume(&mut self, name: &ClusterName, recovering: Recovering) {
        let Some(episode) = self.episodes.get_mut(name) else { return };
        episode.recovering = recovering == Recovering::Yes;
        let max = self.flags.eviction.max_evictions_per_episode;
        let is_held = episode.recovering || episode.is_exhausted(max);
        if is_held {
            self.queue.pause(name);
        } else {
            self.queue.resume(name);
        }
    }

    /// Feeds the guard against mass failures with the times at which clusters became not ready.
    fn watch_departure(
        &mut self,
        name: &ClusterName,
        cluster: Option<&Cluster>,
        before: Option<&ClusterHealth>,
        after: Option<&ClusterHealth>,
        now: Now,
    ) {
        let well = |health: &ClusterHealth| health.ready;
        match (before, after, cluster) {
            (_, Some(after), _) if well(after) || !after.counts => self.guards.returned(name),
            (_, None, _) => self.guards.returned(name),
            (before, Some(_), Some(cluster)) if before.is_none_or(well) && cluster.ready().is_some() => {
                // A cluster found not ready at start failed when its condition says so.
                let first = before.is_none();
                let since = guards::ready_since(cluster).filter(|_| first).unwrap_or(now.wall);
                let half = self.fleet.counts(now.wall).total.div_ceil(2);
                self.guards.departed(name, since, half, &self.flags.eviction, now);
            }
            _ => {}
        }
    }

    /// Ends the episode of a cluster and drops all its elements.
    fn end(&mut self, name: &ClusterName, why: Abandoned, now: Now) {
        self.queue.resume(name);
        let dropped = self.queue.drop_cluster(name, why);
        for (binding, element) in &dropped {
            let key = Key { cluster: name.clone(), binding: binding.clone() };
            self.notices.abandoned(&key, element, why, now.mono);
        }
        self.announce();
        let Some(episode) = self.episodes.remove(name) else { return };
        let about = episode.about.clone();
        let evicted = self.queue.tally().cluster(name).map_or(0, |tally| tally.episode_evicted);
        let message = format!(
            "failover episode {} ended after {}: {} evicted, {} abandoned",
            episode.id,
            in_words(now.mono.saturating_sub(episode.began)),
            count(evicted, "binding"),
            count(dropped.len(), "eviction"),
        );
        self.record_event(Event::normal(about, events::FAILOVER_EPISODE_ENDED, message));
        self.queue.tally_mut().episode(name);
    }

    /// Evaluates bindings on faulty clusters, each with its cluster. Bindings of one call are enqueued in
    /// the order of their times, then of their age, kind and name (6.3).
    pub fn evaluate(&mut self, found: impl IntoIterator<Item = (ClusterName, Binding)>, now: Now) {
        let mut requests: Vec<(jiff::Timestamp, jiff::Timestamp, bool, Key, Request)> = Vec::new();
        for (cluster, binding) in found {
            let key = Key { cluster, binding: binding.key() };
            if let Some(one) = self.judge(&key, &binding, now) {
                let created = binding.metadata().creation_timestamp.as_ref().map_or(now.wall, |t| t.0);
                let due = one.causes.due().max(jiff::Timestamp::UNIX_EPOCH);
                requests.push((due, created, key.binding.namespace.is_empty(), key, one));
            }
        }
        requests.sort_by(|a, b| {
            (a.0, a.1, a.2, &a.3.binding, &a.3.cluster).cmp(&(b.0, b.1, b.2, &b.3.binding, &b.3.cluster))
        });
        for (_, _, _, key, one) in requests {
            if self.queue.add(&key, one, now) {
                self.notices.changed(&key.binding, now.mono);
            }
        }
        self.announce();
    }

    /// Records events for the episodes that began, now that the affected bindings are known.
    fn announce(&mut self) {
        let new = self.episodes.iter_mut().filter(|(_, episode)| !episode.announced);
        let reported: Vec<_> = new
            .map(|(name, episode)| {
                episode.announced = true;
                let (id, taints) = (&episode.id, episode.taints_text());
                let waiting = self.queue.of_cluster(name).count();
                let waiting = count(waiting, "binding");
                let message = format!("failover episode {id} began: {taints}; {waiting} to evict");
                Event::warning(episode.about.clone(), events::FAILOVER_EPISODE_STARTED, message)
            })
            .collect();
        reported.into_iter().for_each(|event| self.record_event(event));
    }

    /// Records the state of a binding, `None` if it was deleted: it gets elements for the faulty clusters that it is on
    /// only.
    pub fn binding(&mut self, key: &BindingKey, binding: Option<&Binding>, now: Now) {
        let Some(binding) = binding.filter(|b| b.metadata().deletion_timestamp.is_none()) else {
            let clusters: Vec<_> = self.queue.of_binding(key).cloned().collect();
            for cluster in clusters {
                self.queue.remove(&Key { cluster, binding: key.clone() }, Abandoned::Obsolete);
            }
            for episode in self.episodes.values_mut() {
                episode.forget(key);
            }
            self.notices.forget(key);
            return;
        };
        let left: Vec<_> =
            self.queue.of_binding(key).filter(|cluster| binding.spec().target(&cluster.0).is_none()).cloned().collect();
        for cluster in left {
            let key = Key { cluster, binding: key.clone() };
            let working = self
                .queue
                .get(&key)
                .is_some_and(|e| matches!(e.place, crate::taint_manager::queue::Place::Working { .. }));
            // The watch event of our own write precedes its response; the response decides about the element.
            if !working && let Some(element) = self.queue.remove(&key, Abandoned::Obsolete) {
                self.notices.abandoned(&key, &element, Abandoned::Obsolete, now.mono);
            }
        }
        let elements: Vec<_> = self.queue.of_binding(key).cloned().collect();
        for cluster in elements {
            self.queue.recheck(&Key { cluster, binding: key.clone() }, now);
        }
        self.notices.seen(key, binding, self.queue.of_binding(key).next().is_some(), now.mono);
        let faulty: Vec<ClusterName> = binding
            .spec()
            .clusters
            .iter()
            .map(|target| ClusterName::from(target.name.as_str()))
            .filter(|cluster| self.episodes.contains_key(cluster))
            .collect();
        if !faulty.is_empty() {
            self.evaluate(faulty.into_iter().map(|cluster| (cluster, binding.clone())), now);
        }
    }

    /// Checks a binding again that waits for a target: another workload of its groups changed its clusters.
    pub fn fellow_moved(&mut self, key: &BindingKey, now: Now) {
        let clusters: Vec<_> = self.queue.of_binding(key).cloned().collect();
        for cluster in clusters {
            self.queue.recheck(&Key { cluster, binding: key.clone() }, now);
        }
    }

    /// Forgets the settings of a binding on clusters that it left: they are read again if it returns
    /// (specification/failover.md 3.6).
    pub fn moved(&mut self, key: &BindingKey, old: &Binding, new: &Binding) {
        for target in old.spec().clusters.iter().filter(|target| new.spec().target(&target.name).is_none()) {
            self.left(key, &ClusterName::from(target.name.as_str()));
        }
    }

    fn left(&mut self, key: &BindingKey, cluster: &ClusterName) {
        if let Some(episode) = self.episodes.get_mut(cluster) {
            episode.forget(key);
        }
    }

    /// Judges one binding on one cluster: returns the element to enqueue, and removes an element that is no longer
    /// affected.
    fn judge(&mut self, key: &Key, binding: &Binding, now: Now) -> Option<Request> {
        let episode = self.episodes.get_mut(&key.cluster)?;
        if binding.metadata().deletion_timestamp.is_some() || binding.spec().target(&key.cluster.0).is_none() {
            return None;
        }
        if let Err(reason) = episode.freeze(&key.binding, binding) {
            for about in [binding.reference(), binding.spec().resource.clone()] {
                self.record_event(Event::warning(about, events::PLACEMENT_UNREADABLE, reason.to_string()));
            }
            return None;
        }
        match episode.verdict(&key.binding, binding, &self.flags.eviction).ok()? {
            Verdict::Goes { .. } if episode.was_observed(&key.binding, binding.uid()) => None,
            Verdict::Goes { causes, purge_mode } => Some(Request {
                binding_uid: binding.uid().into(),
                cluster_uid: episode.cluster_uid.clone(),
                resource: Arc::new(binding.spec().resource.clone()),
                causes,
                purge_mode,
            }),
            Verdict::Stays(_) => {
                if let Some(element) = self.queue.remove(key, Abandoned::Recovered) {
                    self.notices.abandoned(key, &element, Abandoned::Recovered, now.mono);
                }
                None
            }
        }
    }

    /// Verdict on a binding on a faulty cluster, with the settings frozen in this episode; `None` if it is not faulty.
    #[must_use]
    pub fn verdict(&self, cluster: &ClusterName, binding: &Binding) -> Option<Result<Verdict, Reason>> {
        Some(self.episodes.get(cluster)?.verdict(&binding.key(), binding, &self.flags.eviction))
    }

    /// The rate in force, and why.
    #[must_use]
    pub fn allowed(&self, now: Now) -> Allowed {
        self.guards.allowed(self.fleet.counts(now.wall), self.hold, &self.flags.eviction, now)
    }

    /// Earliest start of the next eviction at the rate in force; `None` is never.
    #[must_use]
    pub fn next_allowed(&self, now: Now) -> Option<Duration> {
        self.pacer.next_allowed(self.allowed(now).rate)
    }

    /// True if an eviction in flight is still needed: its cluster has not recovered since.
    #[must_use]
    pub fn is_under_way(&self, key: &Key) -> bool {
        self.queue
            .get(key)
            .is_some_and(|element| matches!(element.place, crate::taint_manager::queue::Place::Working { .. }))
    }

    /// True if nothing is being written.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.working == 0
    }

    /// The faulty clusters.
    #[must_use]
    pub fn episodes(&self) -> &BTreeMap<ClusterName, Episode> {
        &self.episodes
    }

    #[must_use]
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Waiting times that ended since the last call, for histograms.
    pub fn take_waited(&mut self) -> Vec<crate::taint_manager::queue::Waited> {
        self.queue.tally_mut().take_waited()
    }

    /// Events since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    fn record_event(&mut self, event: Event) {
        if self.events.len() < EVENTS_MAX {
            self.events.push(event);
        }
    }

    /// Records an event on every faulty cluster when the rate stops or resumes.
    fn record_state_change(&mut self, allowed: &Allowed) {
        let stopped = |state: State| matches!(state, State::Halted | State::Held);
        if stopped(allowed.state) == stopped(self.recorded_state) || self.episodes.is_empty() {
            if self.episodes.is_empty() {
                self.recorded_state = State::Normal;
            }
            return;
        }
        self.recorded_state = allowed.state;
        let abouts: Vec<_> = self.episodes.values().map(|episode| episode.about.clone()).collect();
        for about in abouts {
            let event = if stopped(allowed.state) {
                let (unhealthy, total) = (allowed.counts.unhealthy, allowed.counts.total);
                let state = allowed.state.as_str();
                let why = allowed.why;
                let message = format!("evictions are {state}: {why} (unhealthy clusters: {unhealthy} of {total})");
                Event::warning(about, events::EVICTION_PAUSED, message)
            } else {
                let message = format!("evictions resume at {} per second", allowed.rate);
                Event::normal(about, events::EVICTION_RESUMED, message)
            };
            self.record_event(event);
        }
    }
}

/// Recovery of a faulty cluster. Elements of a recovering cluster are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovering {
    /// It is.
    Yes,
    /// It is not recovering, or a person set its taints.
    No,
}

impl From<bool> for Recovering {
    fn from(recovering: bool) -> Self {
        if recovering { Self::Yes } else { Self::No }
    }
}

/// True if a cluster became able to take workloads: it joined, or became healthy.
fn became_available(before: Option<&ClusterHealth>, after: Option<&ClusterHealth>) -> bool {
    let well = |health: &ClusterHealth| health.ready && !health.unhealthy;
    after.is_some_and(well) && !before.is_some_and(well)
}

/// True if the cluster is ready.
#[must_use]
pub fn is_ready(clusters: &Clusters, name: &ClusterName) -> bool {
    clusters.get(name).is_some_and(|cluster| cluster.is_ready())
}

#[cfg(test)]
mod tests;
