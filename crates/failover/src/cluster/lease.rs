//! Clusters whose agent neither renews its lease nor reports (specification/failover.md 1.4).
//!
//! Only of Pull clusters: the control plane probes the others itself. Silence is measured by monotonic time, so that a
//! clock that jumps makes no cluster Unknown. That an agent's clock differs is told by a condition of its own.

use std::time::Duration;

use ironclad_api::{
    Condition, Time,
    cluster::{Cluster, SyncMode},
    conditions::{
        self, TRUE, UNKNOWN,
        cluster::{CLOCK_SKEW, READY},
    },
};
use ironclad_fleet::{Plan, StatusPart, because::health::Reason};
use jiff::Timestamp;

use crate::flags::HealthFlags;

/// Seconds by which an agent's clock may differ before it is told: more than a renewal takes to arrive.
const SKEW_TOLD: i64 = 10;
/// Seconds below which it is no longer told.
const SKEW_OVER: i64 = 5;

/// Input of the decision.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub cluster: &'a Cluster,
    /// `renewTime` of its lease, by the agent's clock: for silence only its changes matter.
    pub renewed: Option<Timestamp>,
    /// Monotonic time at which its lease or its condition last changed; `None` is now.
    pub heard: Option<Duration>,
    /// State returned by the last decision; `None` at the first of this process.
    pub memory: Option<&'a Memory>,
    /// The grace periods.
    pub flags: &'a HealthFlags,
}

/// The last sign of life of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// A new cluster of the same name starts without it.
    cluster: Option<String>,
    ready: Option<Condition>,
    renewed: Option<Timestamp>,
    /// Monotonic time of that sign.
    seen: Duration,
    /// Duration of its silence by then.
    silent_then: Duration,
}

impl Memory {
    fn silent(&self, mono: Duration) -> Duration {
        self.silent_then.saturating_add(mono.saturating_sub(self.seen))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// A part of the Cluster's status, to be sent on condition that it is still the one seen.
    Status(StatusPart),
}

/// The plan, and what to remember.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a decision that nobody applies changes nothing"]
pub struct Decision {
    pub plan: Plan<Effect>,
    /// State for the next decision; `None` for clusters that are not monitored.
    pub memory: Option<Memory>,
}

/// True if a cluster's silence has lasted too long. `now` is in whole seconds, `mono` since any fixed moment of the
/// process.
pub fn decide(seen: &Seen<'_>, now: Timestamp, mono: Duration) -> Decision {
    let cluster = seen.cluster;
    if cluster.spec.sync_mode != SyncMode::Pull {
        return Decision { plan: Plan::nothing(Reason::ProbedHere.into()), memory: None };
    }
    let ready = cluster.status.as_ref().and_then(|status| conditions::get(&status.conditions, READY));
    let memory = follow(seen, ready, now, mono);
    let grace = if ready.is_some() { seen.flags.monitor_grace_period } else { seen.flags.startup_grace_period };
    let silent = memory.silent(mono);
    let plan = if silent <= grace {
        clock(seen, &memory, now, mono)
    } else if ready.is_some_and(|ready| ready.status == UNKNOWN) {
        Plan::nothing(Reason::StatusUnchanged.into())
    } else {
        let reason = if ready.is_some() { Reason::Silent } else { Reason::NeverHeard };
        let mut condition = conditions::condition(READY, UNKNOWN, reason.reason(), reason.to_string());
        condition.last_transition_time = Time(now);
        condition.observed_generation = ready.and_then(|ready| ready.observed_generation);
        Plan::one(Effect::Status(StatusPart::condition(condition)), reason.into())
    };
    Decision { plan, memory: Some(memory) }
}

/// Tells of an agent whose clock differs when it has renewed its lease, and once it no longer does.
fn clock(seen: &Seen<'_>, memory: &Memory, now: Timestamp, mono: Duration) -> Plan<Effect> {
    let told = seen.cluster.status.as_ref().and_then(|status| conditions::get(&status.conditions, CLOCK_SKEW));
    let before = seen.memory.filter(|before| before.cluster == memory.cluster).and_then(|before| before.renewed);
    // The lease that a new process finds may be old.
    let renewed = seen.renewed.filter(|renewed| before.is_some_and(|before| before != *renewed));
    let heard = now.saturating_sub(mono.saturating_sub(memory.seen));
    let seconds = match (renewed, heard) {
        (Some(renewed), Ok(heard)) => renewed.duration_since(heard).as_secs(),
        _ => return Plan::nothing(Reason::Heard.into()),
    };
    let reason = Reason::ClockSkew { seconds };
    let mut condition = conditions::condition(CLOCK_SKEW, TRUE, reason.reason(), reason.to_string());
    condition.last_transition_time = Time(now);
    match told {
        None if seconds.abs() > SKEW_TOLD => Plan::one(Effect::Status(StatusPart::condition(condition)), reason.into()),
        Some(_) if seconds.abs() < SKEW_OVER => {
            condition.status.clear();
            Plan::one(Effect::Status(StatusPart::condition(condition)), Reason::Heard.into())
        }
        _ => Plan::nothing(Reason::Heard.into()),
    }
}

/// Last sign of life: a renewed lease, a changed condition, or the start of this process.
fn follow(seen: &Seen<'_>, ready: Option<&Condition>, now: Timestamp, mono: Duration) -> Memory {
    let uid = seen.cluster.metadata.uid.clone();
    let alive = |silent_then| Memory {
        cluster: uid.clone(),
        ready: ready.cloned(),
        renewed: seen.renewed,
        seen: mono,
        silent_then,
    };
    let moved = |memory: &Memory| {
        // Also backwards: an agent whose clock was corrected is alive.
        let renewed = seen.renewed.is_some() && memory.renewed != seen.renewed;
        renewed || (ready.is_some() && memory.ready.as_ref() != ready)
    };
    match seen.memory.filter(|memory| memory.cluster == uid) {
        Some(memory) if moved(memory) => {
            let heard = seen.heard.filter(|heard| *heard >= memory.seen && *heard <= mono);
            Memory { seen: heard.unwrap_or(mono), ..alive(Duration::ZERO) }
        }
        Some(memory) => Memory { ready: ready.cloned(), ..memory.clone() },
        // After a restart a dead agent is found a whole grace period later, never earlier.
        None if ready.is_some() || seen.renewed.is_some() => alive(Duration::ZERO),
        None => {
            let created = seen.cluster.metadata.creation_timestamp.as_ref();
            let age = created.map(|created| Duration::try_from(now.duration_since(created.0)).unwrap_or_default());
            alive(age.unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{at, cluster, ready};

    /// Events of a run, each at its second.
    #[derive(Clone, Copy)]
    enum Step {
        /// The agent renews its lease; its clock is an hour behind.
        Renew,
        /// The agent renews its lease by a clock that is another hour behind.
        SetBack,
        /// The agent reports.
        Report(&'static str),
        /// The controller restarts.
        Restart,
    }
    use Step::{Renew, Report, Restart, SetBack};

    /// Scans every five seconds up to this second; the cluster was created at second 0.
    fn run(mode: SyncMode, steps: &[(i64, Step)], end: i64) -> Option<(String, String, i64)> {
        let mut cluster = cluster("m1");
        cluster.spec.sync_mode = mode;
        cluster.metadata.creation_timestamp = Some(Time(at(0)));
        let flags = HealthFlags::default();
        let (mut renewed, mut heard, mut memory) = (None, None, None::<Memory>);
        for second in 0..=end {
            for (_, step) in steps.iter().filter(|(when, _)| *when == second) {
                heard = Some(Duration::from_secs(second.unsigned_abs()));
                match step {
                    Renew => renewed = Some(at(second - 3_600)),
                    SetBack => renewed = Some(at(second - 7_200)),
                    Report(status) => ready(&mut cluster, status, second),
                    Restart => memory = None,
                }
            }
            if second % 5 != 0 {
                continue;
            }
            let seen = Seen { cluster: &cluster, renewed, heard, memory: memory.as_ref(), flags: &flags };
            let decision = decide(&seen, at(second), Duration::from_secs(second.unsigned_abs()));
            if let Some(Effect::Status(part)) = decision.plan.effects.first() {
                let mut object = serde_json::to_value(&cluster).unwrap();
                object["status"] = StatusPart::applied(&object["status"], &[part]);
                cluster = serde_json::from_value(object).unwrap();
            }
            memory = decision.memory;
        }
        let condition = conditions::get(&cluster.status.as_ref()?.conditions, READY)?;
        Some((condition.status.clone(), condition.reason.clone(), condition.last_transition_time.0.as_second()))
    }

    #[test]
    fn cluster_without_reports_becomes_unknown() {
        let unknown = |since| Some(("Unknown".to_owned(), "ClusterStatusUnknown".to_owned(), since));
        let never = |since| Some(("Unknown".to_owned(), "ClusterStatusNeverUpdated".to_owned(), since));
        let stored = |status: &str, since| Some((status.to_owned(), "Stored".to_owned(), since));
        let (pull, push) = (SyncMode::Pull, SyncMode::Push);
        for (name, mode, steps, end, want) in [
            ("no report for exactly the grace period", pull, &[(0, Report("True"))][..], 40, stored("True", 0)),
            ("no report for longer than the grace period (B5)", pull, &[(0, Report("True"))], 45, unknown(45)),
            ("a lease that is renewed", pull, &[(0, Report("True")), (20, Renew), (50, Renew)], 90, stored("True", 0)),
            (
                "the grace period starts when the lease changed, not at the next scan",
                pull,
                &[(0, Report("True")), (31, Renew)],
                75,
                unknown(75),
            ),
            ("then the lease is not renewed", pull, &[(0, Report("True")), (20, Renew), (50, Renew)], 95, unknown(95)),
            (
                "a clock that is set back while it is renewed is no silence",
                pull,
                &[(0, Report("True")), (30, Renew), (60, SetBack), (90, SetBack)],
                130,
                stored("True", 0),
            ),
            (
                "a status report counts too",
                pull,
                &[(0, Report("True")), (30, Report("False"))],
                70,
                stored("False", 30),
            ),
            ("False becomes Unknown too", pull, &[(0, Report("False"))], 45, unknown(45)),
            ("Unknown is not written again", pull, &[(0, Report("Unknown"))], 500, stored("Unknown", 0)),
            ("never reported, within the startup grace period", pull, &[], 60, None),
            ("never reported, after the startup grace period", pull, &[], 65, never(65)),
            ("never reported, but its lease is renewed", pull, &[(40, Renew)], 100, None),
            ("and stops", pull, &[(40, Renew)], 105, never(105)),
            ("a restart restarts the grace period", pull, &[(0, Report("True")), (40, Restart)], 80, stored("True", 0)),
            ("after the restarted grace period", pull, &[(0, Report("True")), (40, Restart)], 85, unknown(85)),
            (
                "a report after Unknown",
                pull,
                &[(0, Report("True")), (60, Renew), (61, Report("True"))],
                65,
                stored("True", 61),
            ),
            (
                "Push clusters never become Unknown (invariant 30)",
                push,
                &[(0, Report("True"))],
                9_000,
                stored("True", 0),
            ),
            ("Push clusters never become Unknown, also if they never reported", push, &[], 9_000, None),
        ] {
            assert_eq!(run(mode, steps, end), want, "{name}");
        }
    }

    #[test]
    fn clocks_that_differ_are_told() {
        // Seconds of the scans' clock at which the lease is renewed, and what the agent's clock says then.
        let run = |renewals: &[(i64, i64)]| {
            let mut cluster = cluster("m1");
            cluster.spec.sync_mode = SyncMode::Pull;
            ready(&mut cluster, "True", 0);
            let (flags, mut memory, mut writes) = (HealthFlags::default(), None, 0);
            for (heard, renewed) in renewals {
                let heard = Duration::from_secs(heard.unsigned_abs());
                let scan = heard + Duration::from_secs(4);
                let now = at(i64::try_from(scan.as_secs()).unwrap());
                let seen = Seen {
                    cluster: &cluster,
                    renewed: Some(at(*renewed)),
                    heard: Some(heard),
                    memory: memory.as_ref(),
                    flags: &flags,
                };
                let decision = decide(&seen, now, scan);
                memory = decision.memory;
                if let Some(Effect::Status(part)) = decision.plan.effects.first() {
                    let mut object = serde_json::to_value(&cluster).unwrap();
                    object["status"] = StatusPart::applied(&object["status"], &[part]);
                    cluster = serde_json::from_value(object).unwrap();
                    writes += 1;
                }
            }
            let conditions = &cluster.status.as_ref().unwrap().conditions;
            assert_eq!(conditions::get(conditions, READY).unwrap().status, "True");
            (writes, conditions::get(conditions, CLOCK_SKEW).map(|condition| condition.message.clone()))
        };
        let text = |words: &str| Some(format!("the clock of the cluster's agent is {words} the control plane's"));
        for (name, renewals, want) in [
            ("the same time", &[(10, 10), (20, 20), (30, 30)][..], (0, None)),
            ("ten seconds", &[(10, 20), (20, 30)], (0, None)),
            ("an hour behind", &[(3_700, 100), (3_710, 110)], (1, text("3600 s behind"))),
            ("a minute ahead, once told", &[(10, 70), (20, 80), (30, 91), (40, 101)], (1, text("60 s ahead of"))),
            ("an old lease that a new process finds", &[(3_700, 100)], (0, None)),
            ("corrected", &[(10, 70), (20, 80), (30, 30), (40, 40)], (2, None)),
            ("almost corrected", &[(10, 70), (20, 80), (30, 37)], (1, text("60 s ahead of"))),
        ] {
            assert_eq!(run(renewals), want, "{name}");
        }
    }

    #[test]
    fn messages_of_unknown_conditions() {
        let text = |reason: Reason| (reason.reason(), reason.to_string());
        let never = "Cluster status controller never posted cluster status.".to_owned();
        assert_eq!(text(Reason::NeverHeard), ("ClusterStatusNeverUpdated", never));
        let stopped = "Cluster status controller stopped posting cluster status.".to_owned();
        assert_eq!(text(Reason::Silent), ("ClusterStatusUnknown", stopped));
    }

    #[test]
    fn clock_jumps_and_recreated_clusters_do_not_shorten_the_grace_period() {
        let mut cluster = cluster("m1");
        cluster.spec.sync_mode = SyncMode::Pull;
        ready(&mut cluster, "True", 0);
        let flags = HealthFlags::default();
        let s = Duration::from_secs;
        let first =
            decide(&Seen { cluster: &cluster, renewed: None, heard: None, memory: None, flags: &flags }, at(0), s(0));
        let seen = Seen { cluster: &cluster, renewed: None, heard: None, memory: first.memory.as_ref(), flags: &flags };
        assert!(decide(&seen, at(300), s(5)).plan.is_quiet(), "wall clock jumps five minutes within five seconds");
        let mut other = cluster.clone();
        other.metadata.uid = Some("another".into());
        let seen = Seen { cluster: &other, ..seen };
        assert!(decide(&seen, at(60), s(60)).plan.is_quiet());
    }
}
