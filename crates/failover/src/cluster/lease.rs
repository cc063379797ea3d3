//! Clusters whose agent neither renews its lease nor reports (specification/failover.md 1.4).
//!
//! Only of Pull clusters: the control plane probes the others itself. Silence is measured by monotonic time, so that a
//! clock that jumps makes no cluster Unknown. That an agent's clock differs, that it has no tunnel, and that its
//! certificate ends are told by conditions of their own.

use std::time::Duration;

use ironclad_api::{
    Condition, Time,
    cluster::{Cluster, SyncMode},
    conditions::{
        self, FALSE, TRUE, UNKNOWN,
        cluster::{AGENT_CERTIFICATE_EXPIRING, CLOCK_SKEW, READY, TUNNEL_CONNECTED},
    },
};
use ironclad_fleet::{Plan, StatusPart, because::health::Reason};
use jiff::Timestamp;

use super::report::{AgentReport, Tunnel};
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
    /// Facts in the annotations of its lease.
    pub report: &'a AgentReport,
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
        // It may have been in pull mode before.
        let of_agents = [CLOCK_SKEW, TUNNEL_CONNECTED, AGENT_CERTIFICATE_EXPIRING];
        let left = of_agents.into_iter().filter(|type_| present(seen, type_).is_some());
        let conditions: Vec<Condition> = left.map(|type_| over(type_, now).0).collect();
        let mut plan = Plan::nothing(Reason::ProbedHere.into());
        if !conditions.is_empty() {
            plan.effects.push(Effect::Status(StatusPart { conditions, ..StatusPart::default() }));
        }
        return Decision { plan, memory: None };
    }
    let ready = cluster.status.as_ref().and_then(|status| conditions::get(&status.conditions, READY));
    let memory = follow(seen, ready, now, mono);
    let grace = if ready.is_some() { seen.flags.monitor_grace_period } else { seen.flags.startup_grace_period };
    let is_silent = memory.silent(mono) > grace;
    let health = if is_silent { unheard(ready, now) } else { clock(seen, &memory, now, mono) };
    let told = [health, tunnel(seen, &memory, is_silent, now), certificate(seen, now)];
    let (conditions, because): (Vec<Condition>, Vec<Reason>) = told.into_iter().flatten().unzip();
    let plan = if conditions.is_empty() {
        Plan::nothing(if is_silent { Reason::StatusUnchanged } else { Reason::Heard }.into())
    } else {
        let part = StatusPart { conditions, ..StatusPart::default() };
        Plan { effects: vec![Effect::Status(part)], because: because.into_iter().map(Into::into).collect() }
    };
    Decision { plan, memory: Some(memory) }
}

/// A condition of the cluster that is to be written, and why.
type Told = (Condition, Reason);

fn saying(type_: &str, status: &str, reason: Reason, now: Timestamp) -> Told {
    let mut condition = conditions::condition(type_, status, reason.reason(), reason.to_string());
    condition.last_transition_time = Time(now);
    (condition, reason)
}

/// Takes a condition out that no longer holds.
fn over(type_: &str, now: Timestamp) -> Told {
    saying(type_, "", Reason::Heard, now)
}

fn present<'a>(seen: &Seen<'a>, type_: &str) -> Option<&'a Condition> {
    conditions::get(&seen.cluster.status.as_ref()?.conditions, type_)
}

fn unheard(ready: Option<&Condition>, now: Timestamp) -> Option<Told> {
    if ready.is_some_and(|ready| ready.status == UNKNOWN) {
        return None;
    }
    let reason = if ready.is_some() { Reason::Silent } else { Reason::NeverHeard };
    let (mut condition, reason) = saying(READY, UNKNOWN, reason, now);
    condition.observed_generation = ready.and_then(|ready| ready.observed_generation);
    Some((condition, reason))
}

/// When the lease was renewed, if it is news: the one that a new process finds may be old.
fn news(seen: &Seen<'_>, memory: &Memory) -> Option<Timestamp> {
    let before = seen.memory.filter(|before| before.cluster == memory.cluster).and_then(|before| before.renewed);
    seen.renewed.filter(|renewed| before.is_some_and(|before| before != *renewed))
}

/// Tells of an agent whose clock differs when it has renewed its lease, and once it no longer does.
fn clock(seen: &Seen<'_>, memory: &Memory, now: Timestamp, mono: Duration) -> Option<Told> {
    let heard = now.saturating_sub(mono.saturating_sub(memory.seen)).ok()?;
    let seconds = news(seen, memory)?.duration_since(heard).as_secs();
    match present(seen, CLOCK_SKEW) {
        None if seconds.abs() > SKEW_TOLD => Some(saying(CLOCK_SKEW, TRUE, Reason::ClockSkew { seconds }, now)),
        Some(_) if seconds.abs() < SKEW_OVER => Some(over(CLOCK_SKEW, now)),
        _ => None,
    }
}

/// Tells whether the control plane reaches the member over its agent, as that said when it last renewed its lease.
fn tunnel(seen: &Seen<'_>, memory: &Memory, is_silent: bool, now: Timestamp) -> Option<Told> {
    let told = present(seen, TUNNEL_CONNECTED);
    let (status, reason) = if is_silent {
        told?;
        (UNKNOWN, Reason::Silent)
    } else {
        news(seen, memory)?;
        match seen.report.tunnel.as_ref()? {
            Tunnel::Off => return told.map(|_| over(TUNNEL_CONNECTED, now)),
            Tunnel::Open => (TRUE, Reason::TunnelOpen),
            Tunnel::Missing(why) => (FALSE, Reason::TunnelMissing { why: why.clone() }),
        }
    };
    let (condition, reason) = saying(TUNNEL_CONNECTED, status, reason, now);
    let is_told = told.is_some_and(|told| told.status == condition.status && told.message == condition.message);
    (!is_told).then_some((condition, reason))
}

/// Tells of a certificate that its agent did not renew. A silent agent's may have ended.
fn certificate(seen: &Seen<'_>, now: Timestamp) -> Option<Told> {
    let told = present(seen, AGENT_CERTIFICATE_EXPIRING);
    let Some(life) = seen.report.certificate.filter(|life| life.is_ending(now)) else {
        return told.map(|_| over(AGENT_CERTIFICATE_EXPIRING, now));
    };
    let (condition, reason) =
        saying(AGENT_CERTIFICATE_EXPIRING, TRUE, Reason::CertificateEnds { until: life.until }, now);
    told.is_none_or(|told| told.message != condition.message).then_some((condition, reason))
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
    use crate::{
        cluster::report::Life,
        testkit::{at, cluster, ready},
    };

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

    /// Writes what was decided; returns whether that is anything.
    fn write(cluster: &mut Cluster, decision: &Decision) -> bool {
        let Some(Effect::Status(part)) = decision.plan.effects.first() else { return false };
        let mut object = serde_json::to_value(&*cluster).unwrap();
        object["status"] = StatusPart::applied(&object["status"], &[part]);
        *cluster = serde_json::from_value(object).unwrap();
        true
    }

    /// Scans every five seconds up to this second; the cluster was created at second 0.
    fn run(mode: SyncMode, steps: &[(i64, Step)], end: i64) -> Option<(String, String, i64)> {
        let mut cluster = cluster("m1");
        cluster.spec.sync_mode = mode;
        cluster.metadata.creation_timestamp = Some(Time(at(0)));
        let (flags, report) = (HealthFlags::default(), AgentReport::default());
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
            let seen =
                Seen { cluster: &cluster, renewed, report: &report, heard, memory: memory.as_ref(), flags: &flags };
            let decision = decide(&seen, at(second), Duration::from_secs(second.unsigned_abs()));
            write(&mut cluster, &decision);
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
            let (flags, report, mut memory, mut writes) = (HealthFlags::default(), AgentReport::default(), None, 0);
            for (heard, renewed) in renewals {
                let heard = Duration::from_secs(heard.unsigned_abs());
                let scan = heard + Duration::from_secs(4);
                let now = at(i64::try_from(scan.as_secs()).unwrap());
                let seen = Seen {
                    cluster: &cluster,
                    renewed: Some(at(*renewed)),
                    report: &report,
                    heard: Some(heard),
                    memory: memory.as_ref(),
                    flags: &flags,
                };
                let decision = decide(&seen, now, scan);
                writes += usize::from(write(&mut cluster, &decision));
                memory = decision.memory;
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

    /// The conditions after scans every five seconds, and in how many of them something was written. Each step is a
    /// second at which the lease is renewed, and the facts in it.
    fn told(steps: &[(i64, AgentReport)], end: i64) -> (usize, Vec<(String, String, String)>) {
        let mut cluster = cluster("m1");
        cluster.spec.sync_mode = SyncMode::Pull;
        ready(&mut cluster, "True", 0);
        let flags = HealthFlags::default();
        let (mut renewed, mut report, mut heard, mut memory) = (None, AgentReport::default(), None, None::<Memory>);
        let mut writes = 0;
        for second in (0..=end).step_by(5) {
            if let Some((_, facts)) = steps.iter().find(|(when, _)| *when == second) {
                (renewed, report) = (Some(at(second)), facts.clone());
                heard = Some(Duration::from_secs(second.unsigned_abs()));
            }
            let seen =
                Seen { cluster: &cluster, renewed, report: &report, heard, memory: memory.as_ref(), flags: &flags };
            let decision = decide(&seen, at(second), Duration::from_secs(second.unsigned_abs()));
            writes += usize::from(write(&mut cluster, &decision));
            memory = decision.memory;
        }
        let conditions = cluster.status.unwrap().conditions.into_iter();
        (writes, conditions.map(|one| (one.type_, one.status, one.reason)).collect())
    }

    #[test]
    fn conditions_of_agents_go_with_pull_mode() {
        let mut cluster = cluster("m1");
        let (flags, report) = (HealthFlags::default(), AgentReport::default());
        for (conditions, want) in [
            (vec!["CompleteAPIEnablements"], vec![]),
            (vec!["TunnelConnected", "CompleteAPIEnablements"], vec!["TunnelConnected"]),
            (
                vec!["AgentCertificateExpiring", "ClockSkew", "TunnelConnected"],
                vec!["ClockSkew", "TunnelConnected", "AgentCertificateExpiring"],
            ),
        ] {
            let of = |type_: &&str| conditions::condition(type_, TRUE, "Stored", "");
            cluster.status.get_or_insert_default().conditions = conditions.iter().map(of).collect();
            let seen =
                Seen { cluster: &cluster, renewed: None, report: &report, heard: None, memory: None, flags: &flags };
            let decision = decide(&seen, at(0), Duration::ZERO);
            let parts = decision.plan.effects.iter().flat_map(|Effect::Status(part)| &part.conditions);
            let gone: Vec<&str> = parts.filter(|one| one.status.is_empty()).map(|one| one.type_.as_str()).collect();
            assert_eq!((gone, decision.memory), (want, None), "{conditions:?}");
        }
    }

    #[test]
    fn agents_say_whether_they_are_reached_and_how_long_they_are_let_in() {
        let tunnel = |tunnel| AgentReport { tunnel: Some(tunnel), ..AgentReport::default() };
        let missing = |why: &str| tunnel(Tunnel::Missing(why.to_owned()));
        let until = |seconds| AgentReport {
            certificate: Some(Life { from: at(0), until: at(seconds) }),
            ..AgentReport::default()
        };
        let (open, none) = (tunnel(Tunnel::Open), AgentReport::default());
        let ready = ("Ready", "True", "Stored");
        let unknown = ("Ready", "Unknown", "ClusterStatusUnknown");
        let ending = ("AgentCertificateExpiring", "True", "CertificateNotRenewed");
        let connected = |status, reason| ("TunnelConnected", status, reason);
        for (name, steps, end, want) in [
            (
                "a tunnel",
                vec![(0, &open), (10, &open), (20, &open)],
                20,
                (1, vec![ready, connected("True", "TunnelOpen")]),
            ),
            ("a lease that a new process finds may be old", vec![(0, &open)], 20, (0, vec![ready])),
            (
                "no tunnel, for two reasons",
                vec![(0, &none), (10, &missing("refused")), (20, &missing("refused")), (30, &missing("no route"))],
                30,
                (2, vec![ready, connected("False", "TunnelMissing")]),
            ),
            (
                "not known yet after a restart of the agent",
                vec![(0, &open), (10, &open), (20, &none)],
                20,
                (1, vec![ready, connected("True", "TunnelOpen")]),
            ),
            (
                "an agent that opens none any more",
                vec![(0, &open), (10, &open), (20, &tunnel(Tunnel::Off))],
                20,
                (2, vec![ready]),
            ),
            (
                "a silent agent",
                vec![(0, &open), (10, &open)],
                80,
                (2, vec![unknown, connected("Unknown", "ClusterStatusUnknown")]),
            ),
            ("a certificate that lasts", vec![(0, &until(1_000)), (10, &until(1_000))], 20, (0, vec![ready])),
            ("one that ends", vec![(0, &until(20)), (10, &until(20)), (20, &until(20))], 30, (1, vec![ready, ending])),
            ("one that was renewed", vec![(0, &until(10)), (10, &until(10)), (20, &until(900))], 30, (2, vec![ready])),
            ("a silent agent whose certificate has ended", vec![(0, &until(30))], 60, (2, vec![unknown, ending])),
        ] {
            let steps: Vec<_> = steps.into_iter().map(|(when, facts)| (when, facts.clone())).collect();
            let want = (want.0, want.1.into_iter().map(|(a, b, c)| (a.into(), b.into(), c.into())).collect());
            assert_eq!(told(&steps, end), want, "{name}");
        }
    }

    #[test]
    fn clock_jumps_and_recreated_clusters_do_not_shorten_the_grace_period() {
        let mut cluster = cluster("m1");
        cluster.spec.sync_mode = SyncMode::Pull;
        ready(&mut cluster, "True", 0);
        let (flags, report) = (HealthFlags::default(), AgentReport::default());
        let s = Duration::from_secs;
        let seen = Seen { cluster: &cluster, renewed: None, report: &report, heard: None, memory: None, flags: &flags };
        let first = decide(&seen, at(0), s(0));
        let seen = Seen { memory: first.memory.as_ref(), ..seen };
        assert!(decide(&seen, at(300), s(5)).plan.is_quiet(), "wall clock jumps five minutes within five seconds");
        let mut other = cluster.clone();
        other.metadata.uid = Some("another".into());
        let seen = Seen { cluster: &other, ..seen };
        assert!(decide(&seen, at(60), s(60)).plan.is_quiet());
    }
}
