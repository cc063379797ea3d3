//! Guards on top of the rate formula (specification/failover.md 6.6, IR-24): which clusters count, and when evictions
//! are paused although the formula allows them.

use std::{collections::BTreeMap, time::Duration};

use ironclad_api::{
    annotations::DRAINING,
    cluster::Cluster,
    conditions::{self, cluster::READY},
};
use ironclad_fleet::ClusterName;
use jiff::Timestamp;

use crate::{
    flags::eviction::EvictionFlags,
    now::Now,
    taint_manager::rate::{Counts, State, formula},
    taints::is_faulty,
};

/// Clusters that become not ready within this time of each other failed together.
const MASS_WINDOW: Duration = Duration::from_secs(60);

/// One cluster's share of the counts of 6.5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterHealth {
    /// It is neither being deleted nor drained.
    pub counts: bool,
    /// It is not ready, or faulty (IR-23).
    pub unhealthy: bool,
    /// It is ready.
    pub ready: bool,
    /// Without a Ready condition yet: counts only from this moment on.
    pub starting_until: Option<Timestamp>,
}

impl ClusterHealth {
    /// Derives it from the cluster.
    #[must_use]
    pub fn of(cluster: &Cluster, startup_grace: Duration) -> Self {
        let meta = &cluster.metadata;
        let drained = meta.annotations.as_ref().is_some_and(|all| all.contains_key(DRAINING));
        let ready = cluster.is_ready();
        let created = meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0);
        let starting_until =
            cluster.ready().is_none().then(|| created.saturating_add(startup_grace).unwrap_or(created));
        Self {
            counts: meta.deletion_timestamp.is_none() && !drained,
            unhealthy: !ready || is_faulty(cluster),
            ready,
            starting_until,
        }
    }
}

/// Health of the fleet, for the rate: one entry per cluster, with counts.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    clusters: BTreeMap<ClusterName, ClusterHealth>,
    /// Counted clusters that have a Ready condition, and those of them that are unhealthy.
    settled: Counts,
    /// Counted clusters without one: few, and only they have to be re-evaluated as time passes.
    starting: BTreeMap<ClusterName, (Timestamp, bool)>,
}

impl Fleet {
    /// Updates one cluster, `None` if it was deleted; returns the previous entry.
    pub fn set(&mut self, name: &ClusterName, health: Option<ClusterHealth>) -> Option<ClusterHealth> {
        let before = self.clusters.remove(name);
        if let Some(before) = &before {
            self.subtract(name, before);
        }
        if let Some(health) = health {
            self.add(name, &health);
            self.clusters.insert(name.clone(), health);
        }
        before
    }

    fn add(&mut self, name: &ClusterName, health: &ClusterHealth) {
        if !health.counts {
            return;
        }
        match health.starting_until {
            Some(until) => {
                self.starting.insert(name.clone(), (until, health.unhealthy));
            }
            None => {
                self.settled.total += 1;
                self.settled.unhealthy += usize::from(health.unhealthy);
            }
        }
    }

    fn subtract(&mut self, name: &ClusterName, health: &ClusterHealth) {
        if !health.counts {
            return;
        }
        if health.starting_until.is_some() {
            self.starting.remove(name);
        } else {
            self.settled.total -= 1;
            self.settled.unhealthy -= usize::from(health.unhealthy);
        }
    }

    /// The counts at this moment.
    #[must_use]
    pub fn counts(&self, now: Timestamp) -> Counts {
        let mut counts = self.settled;
        for (until, unhealthy) in self.starting.values() {
            if now >= *until {
                counts.total += 1;
                counts.unhealthy += usize::from(*unhealthy);
            }
        }
        counts
    }

    /// Time of the next change of the counts by time alone.
    #[must_use]
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        self.starting.values().map(|(until, _)| *until).filter(|until| *until > now).min()
    }

    /// One cluster's entry.
    #[must_use]
    pub fn get(&self, name: &ClusterName) -> Option<&ClusterHealth> {
        self.clusters.get(name)
    }
}

/// Reason of the rate in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    Formula,
    /// No counted cluster is healthy.
    TotalOutage,
    /// Many clusters failed at once.
    MassFailure {
        /// End of the hold.
        until: Duration,
    },
    /// The leader has just started.
    WarmUp {
        /// End of the hold.
        until: Duration,
    },
    /// A person paused evictions.
    Paused,
    /// The caches are not complete.
    NotSynced,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Formula => "the share of unhealthy clusters",
            Self::TotalOutage => "no cluster is healthy",
            Self::MassFailure { .. } => "many clusters became not ready at once",
            Self::WarmUp { .. } => "the leader has just started",
            Self::Paused => "paused by ConfigMap karmada-system/ironclad-failover",
            Self::NotSynced => "the caches are not complete",
        })
    }
}

/// The rate in force, and why.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Allowed {
    /// Evictions per second.
    pub rate: f64,
    /// State of the rate.
    pub state: State,
    /// Reason.
    pub why: Why,
    /// Counts that the formula used.
    pub counts: Counts,
}

/// State of the guards.
#[derive(Debug, Clone)]
pub struct Guards {
    /// End of the warm-up: no eviction before.
    warm_until: Duration,
    /// Times at which clusters became not ready, in nanoseconds of monotonic time; negative before the start.
    departures: BTreeMap<ClusterName, i128>,
    hold_until: Option<Duration>,
}

impl Guards {
    /// State of a leader that starts now.
    #[must_use]
    pub fn new(now: Now, warm_up: Duration) -> Self {
        Self { warm_until: now.mono.saturating_add(warm_up), departures: BTreeMap::new(), hold_until: None }
    }

    /// Records a cluster that became not ready, or was found not ready at start, since this time. `half` is half of all
    /// counted clusters, rounded up.
    pub fn departed(&mut self, name: &ClusterName, since: Timestamp, half: usize, flags: &EvictionFlags, now: Now) {
        let nanos = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
        let age = now.wall.duration_since(since).as_nanos().max(0);
        let left = nanos(now.mono) - age;
        self.departures.insert(name.clone(), left);
        let window = nanos(MASS_WINDOW);
        self.departures.retain(|_, at| left - *at <= window || *at > left);
        let together = self.departures.values().filter(|at| (left - **at).abs() <= window).count();
        let hold = flags.mass_failure_hold;
        if hold.is_zero() || together < half.max(2) {
            return;
        }
        let last = self.departures.values().filter(|at| (left - **at).abs() <= window).max().copied().unwrap_or(left);
        let until = Duration::from_nanos(u64::try_from((last + nanos(hold)).max(0)).unwrap_or(u64::MAX));
        if until > now.mono {
            self.hold_until = Some(self.hold_until.map_or(until, |old| old.max(until)));
        }
    }

    /// Records a cluster that is ready again, or was deleted.
    pub fn returned(&mut self, name: &ClusterName) {
        self.departures.remove(name);
    }

    /// Returns the rate in force: the formula, lowered by guards.
    #[must_use]
    pub fn allowed(&self, counts: Counts, hold: Hold, flags: &EvictionFlags, now: Now) -> Allowed {
        let mass = self.hold_until.filter(|until| now.mono < *until).map(|until| Why::MassFailure { until });
        let warm = (now.mono < self.warm_until).then_some(Why::WarmUp { until: self.warm_until });
        let by_person = match hold {
            Hold::None => None,
            Hold::Paused => Some(Why::Paused),
            Hold::NotSynced => Some(Why::NotSynced),
        };
        if let Some(why) = by_person.or(warm).or(mass) {
            return Allowed { rate: 0.0, state: State::Held, why, counts };
        }
        if flags.halt_eviction_on_total_outage && counts.is_total_outage() {
            return Allowed { rate: 0.0, state: State::Halted, why: Why::TotalOutage, counts };
        }
        let (rate, state) = formula(counts, flags);
        Allowed { rate, state, why: Why::Formula, counts }
    }

    /// Time at which a guard expires.
    #[must_use]
    pub fn next_change(&self, now: Now) -> Option<Duration> {
        [Some(self.warm_until), self.hold_until].into_iter().flatten().filter(|at| *at > now.mono).min()
    }
}

/// External pause of all evictions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Hold {
    /// Nothing.
    #[default]
    None,
    /// The ConfigMap says `paused`.
    Paused,
    /// The caches are not complete.
    NotSynced,
}

/// True if the data of ConfigMap `karmada-system/ironclad-failover` pauses evictions (14.2): `paused` is exactly
/// `true`.
#[must_use]
pub fn is_paused(data: Option<&BTreeMap<String, String>>) -> bool {
    data.and_then(|data| data.get("paused")).is_some_and(|value| value == "true")
}

/// Time of the last transition of the Ready condition.
#[must_use]
pub fn ready_since(cluster: &Cluster) -> Option<Timestamp> {
    let conditions = &cluster.status.as_ref()?.conditions;
    conditions::get(conditions, READY).map(|condition| condition.last_transition_time.0)
}

#[cfg(test)]
mod tests;
