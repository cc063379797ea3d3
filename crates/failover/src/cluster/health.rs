//! From what a probe saw to the status of a Cluster (specification/failover.md 1.2, 1.3; specification/api.md 13.1).
//!
//! Monotonic time is a [`Duration`] since any fixed moment of the process. What is remembered of a cluster between
//! probes is a value that is passed in and returned: [`Memory`].

use std::{cmp::Ordering, time::Duration};

use ironclad_api::{
    Condition, Time,
    cluster::{APIEnablement, Cluster, ClusterStatus, NodeSummary, ResourceSummary},
    conditions::{
        self, FALSE, TRUE,
        cluster::{COMPLETE_API_ENABLEMENTS, READY},
    },
    events,
    finalizers::CLUSTER_CONTROLLER,
};
use ironclad_fleet::{Because, Event, Plan, StatusPart, because::health::Reason, cluster_reference};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

/// Result of probing a member.
#[derive(Debug, Clone, PartialEq)]
pub enum Probe {
    /// No client could be created, for this reason.
    NoClient(String),
    /// No HTTP status line came back.
    Offline,
    /// An answer, but not 200: also errors such as 500 and 503 (IR-1).
    Unhealthy,
    /// 200.
    Healthy,
    /// The server is the control plane itself: both have the same namespace kube-system.
    ControlPlane {
        /// The uid of that namespace.
        uid: String,
    },
}

impl Probe {
    /// Every value of [`Probe::as_str`].
    pub const RESULTS: [&'static str; 5] = ["no_client", "offline", "unhealthy", "healthy", "control_plane"];

    /// The label of metrics.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::NoClient(_) => "no_client",
            Self::Offline => "offline",
            Self::Unhealthy => "unhealthy",
            Self::Healthy => "healthy",
            Self::ControlPlane { .. } => "control_plane",
        }
    }
}

/// Status collected from a healthy member.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Collected {
    /// Its git version; empty if it could not be read.
    pub kubernetes_version: String,
    /// APIs it serves.
    pub apis: Vec<APIEnablement>,
    /// The groups and versions that could not be read.
    pub failed_group_versions: Vec<String>,
    /// Nodes and capacity, unless resource modelling is off or they could not be read.
    pub resources: Option<(NodeSummary, ResourceSummary)>,
}

/// Time that an observation must last before it is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// `--cluster-success-threshold`.
    pub success: Duration,
    /// `--cluster-failure-threshold`.
    pub failure: Duration,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { success: Duration::from_secs(30), failure: Duration::from_secs(30) }
    }
}

/// State of a cluster between probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// True if the last probe saw it healthy.
    healthy: bool,
    /// Since when; `None` is always.
    since: Option<Duration>,
}

/// Input of the decision.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub cluster: &'a Cluster,
    /// State returned by the last decision; `None` at the first probe of this process.
    pub memory: Option<Memory>,
    /// The debounce.
    pub thresholds: Thresholds,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// A part of the Cluster's status.
    Status(StatusPart),
    /// It stopped being ready, or is ready again.
    Event(Event),
}

/// The plan, and what to remember.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a decision that nobody applies changes nothing"]
pub struct Decision {
    pub plan: Plan<Effect>,
    /// For the next probe.
    pub memory: Option<Memory>,
}

/// The probe of a healthy server, by the uid of its namespace kube-system and that of the control plane's. A server
/// that does not report its uid, or a control plane whose uid is not known yet, counts as healthy.
#[must_use]
pub fn identify(plane: Option<&str>, member: Option<&str>) -> Probe {
    match member.filter(|uid| !uid.is_empty() && plane == Some(*uid)) {
        Some(uid) => Probe::ControlPlane { uid: uid.to_owned() },
        None => Probe::Healthy,
    }
}

/// True if a healthy member's version, APIs and resources are worth collecting now: its Ready condition is or becomes
/// True. Members that are not ready cost one request per probe.
#[must_use]
pub fn collects(seen: &Seen<'_>, probe: &Probe, mono: Duration) -> bool {
    *probe == Probe::Healthy && is_guarded(seen.cluster) && publishes(seen, probe, mono).0.is_ok()
}

/// Decides the cluster's status after a probe. `collected` is present if [`collects`] asked for it. `now` is in whole
/// seconds.
pub fn decide(
    seen: &Seen<'_>,
    probe: &Probe,
    collected: Option<Collected>,
    mono: Duration,
    now: Timestamp,
) -> Decision {
    if !is_guarded(seen.cluster) {
        // Its execution space is not there yet, and a status would make it a target.
        return Decision { plan: Plan::nothing(Reason::Joining.into()), memory: seen.memory };
    }
    let (verdict, memory) = publishes(seen, probe, mono);
    let mut plan = Plan::default();
    match verdict {
        Err(waiting) => plan.note(waiting),
        Ok(()) => {
            let observed = observation(probe);
            let mut part = match collected {
                Some(collected) if *probe == Probe::Healthy => everything(seen.cluster, collected, now, &mut plan),
                _ => StatusPart::default(),
            };
            let status = if *probe == Probe::Healthy { TRUE } else { FALSE };
            part.conditions.extend(changed(seen.cluster, READY, status, &observed, now));
            let turned = seen.cluster.ready().filter(|before| (*before == TRUE) != (status == TRUE));
            if turned.is_some() {
                let (about, message) = (cluster_reference(seen.cluster), observed.to_string());
                plan.effects.push(Effect::Event(match status == TRUE {
                    true => Event::normal(about, events::CLUSTER_READY, message),
                    false => Event::warning(about, events::CLUSTER_NOT_READY, message),
                }));
            }
            plan.note(observed.into());
            if part.is_empty() {
                plan.note(Reason::StatusUnchanged.into());
            } else {
                plan.effects.push(Effect::Status(part));
            }
        }
    }
    Decision { plan, memory: Some(memory) }
}

fn is_guarded(cluster: &Cluster) -> bool {
    cluster.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == CLUSTER_CONTROLLER)
}

fn observation(probe: &Probe) -> Reason {
    match probe {
        Probe::NoClient(error) => Reason::NoClient { error: error.clone() },
        Probe::Offline => Reason::NotReachable,
        Probe::Unhealthy => Reason::NotReady,
        Probe::Healthy => Reason::Ready,
        Probe::ControlPlane { uid } => Reason::IsControlPlane { uid: uid.clone() },
    }
}

/// The threshold filter: whether the observation is published, and what is remembered. Only True or not True matters.
/// That a cluster is the control plane itself is no observation that may pass.
fn publishes(seen: &Seen<'_>, probe: &Probe, mono: Duration) -> (Result<(), Because>, Memory) {
    let healthy = *probe == Probe::Healthy;
    let stored = seen.cluster.ready().map(|status| status == TRUE);
    let memory = match seen.memory {
        Some(memory) if memory.healthy == healthy => memory,
        Some(_) => Memory { healthy, since: Some(mono) },
        // After a restart a cluster that was ready gets its whole debounce again (IR-2).
        None if stored == Some(true) => Memory { healthy, since: Some(mono) },
        None => Memory { healthy, since: None },
    };
    let threshold = if healthy { seen.thresholds.success } else { seen.thresholds.failure };
    let lasted = memory.since.map(|since| mono.saturating_sub(since));
    let verdict = match (stored, lasted) {
        _ if matches!(probe, Probe::ControlPlane { .. }) => Ok(()),
        (Some(stored), Some(lasted)) if stored != healthy && lasted < threshold => {
            Err(Reason::Debouncing { observed_ms: millis(lasted), needed_ms: millis(threshold) }.into())
        }
        _ => Ok(()),
    };
    (verdict, memory)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A condition, if it differs from the existing one.
fn changed(cluster: &Cluster, type_: &str, status: &str, reason: &Reason, now: Timestamp) -> Option<Condition> {
    let existing = cluster.status.as_ref().and_then(|s| conditions::get(&s.conditions, type_));
    let mut wanted = conditions::condition(type_, status, reason.reason(), reason.to_string());
    let since = existing.filter(|condition| condition.status == status);
    wanted.last_transition_time = since.map_or(Time(now), |condition| condition.last_transition_time.clone());
    wanted.observed_generation = existing.and_then(|condition| condition.observed_generation);
    (existing != Some(&wanted)).then_some(wanted)
}

/// The whole status of a ready member, as far as it differs.
fn everything(cluster: &Cluster, collected: Collected, now: Timestamp, plan: &mut Plan<Effect>) -> StatusPart {
    let empty = ClusterStatus::default();
    let stored = cluster.status.as_ref().unwrap_or(&empty);
    let mut part = StatusPart::default();
    let mut set = |field: &str, differs: bool, value: Value| {
        if differs {
            part.fields.insert(field.to_owned(), value);
        }
    };
    let version = &collected.kubernetes_version;
    set("kubernetesVersion", !version.is_empty() && *version != stored.kubernetes_version, json!(version));
    let (status, reason) = match (collected.apis.is_empty(), collected.failed_group_versions.is_empty()) {
        (true, _) => (FALSE, Reason::ApisUnknown),
        (false, false) => (FALSE, Reason::ApisPartial),
        (false, true) => (TRUE, Reason::ApisComplete),
    };
    let apis = enablements(collected.apis, &collected.failed_group_versions, &stored.api_enablements);
    set("apiEnablements", *stored.api_enablements != apis, json!(apis));
    if let Some((nodes, resources)) = &collected.resources {
        set("nodeSummary", stored.node_summary.as_ref() != Some(nodes), whole(nodes));
        set("resourceSummary", stored.resource_summary.as_ref() != Some(resources), whole(resources));
    }
    part.conditions.extend(changed(cluster, COMPLETE_API_ENABLEMENTS, status, &reason, now));
    plan.note(reason.into());
    part
}

fn whole(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("a summary is plain data")
}

/// APIs by group, version and name; groups that could not be read keep their previous entry, since a
/// broken APIService does not make a member lose its workloads.
fn enablements(mut read: Vec<APIEnablement>, failed: &[String], known: &[APIEnablement]) -> Vec<APIEnablement> {
    let kept = |old: &&APIEnablement| read.is_empty() || failed.contains(&old.group_version);
    let missing = |old: &&APIEnablement| read.iter().all(|new| new.group_version != old.group_version);
    let kept: Vec<_> = known.iter().filter(kept).filter(missing).cloned().collect();
    read.extend(kept);
    for enablement in &mut read {
        enablement.resources.sort();
    }
    read.sort_by(|a, b| match a.group_version.cmp(&b.group_version) {
        Ordering::Equal => a.resources.cmp(&b.resources),
        other => other,
    });
    read
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testkit::{apis, at, cluster, ready};

    const S: fn(u64) -> Duration = Duration::from_secs;

    /// Applies a decision, as the status writer would.
    fn applied(cluster: &Cluster, decision: &Decision) -> Cluster {
        let mut object = serde_json::to_value(cluster).unwrap();
        for effect in &decision.plan.effects {
            let Effect::Status(part) = effect else { continue };
            object["status"] = StatusPart::applied(&object["status"], &[part]);
        }
        serde_json::from_value(object).unwrap()
    }

    fn step(cluster: &mut Cluster, memory: &mut Option<Memory>, probe: Probe, second: u64) {
        let seen = Seen { cluster, memory: *memory, thresholds: Thresholds::default() };
        let decision = decide(&seen, &probe, None, S(second), at(second.try_into().unwrap()));
        *cluster = applied(cluster, &decision);
        *memory = decision.memory;
    }

    #[test]
    fn results_of_probes_become_conditions() {
        for (probe, status, reason, message) in [
            (Probe::Healthy, "True", "ClusterReady", "cluster is healthy and ready to accept workloads"),
            (
                Probe::Unhealthy,
                "False",
                "ClusterNotReady",
                "cluster is reachable but health endpoint responded without ok",
            ),
            (Probe::Offline, "False", "ClusterNotReachable", "cluster is not reachable"),
            (
                Probe::NoClient("no Secret".into()),
                "False",
                "StatusCollectionFailed",
                "failed to create a ClusterClient: no Secret",
            ),
            (
                Probe::ControlPlane { uid: "u".into() },
                "False",
                "ClusterIsControlPlane",
                "the cluster is the control plane itself (namespace kube-system has uid u in both), so nothing is \
                 written to it: correct spec.apiEndpoint and the credentials, or delete the Cluster",
            ),
        ] {
            let mut cluster = cluster("m1");
            step(&mut cluster, &mut None, probe, 7);
            let condition = conditions::get(&cluster.status.as_ref().unwrap().conditions, READY).unwrap().clone();
            assert_eq!((&*condition.status, &*condition.reason, &*condition.message), (status, reason, message));
            assert_eq!(condition.last_transition_time, Time(at(7)));
        }
    }

    #[test]
    fn the_control_plane_is_known_by_its_namespace_kube_system() {
        let itself = Probe::ControlPlane { uid: "p".into() };
        for (name, plane, member, want) in [
            ("another server", Some("p"), Some("m"), Probe::Healthy),
            ("the same", Some("p"), Some("p"), itself),
            ("the member does not report its uid", Some("p"), None, Probe::Healthy),
            ("the control plane is not known yet", None, Some("m"), Probe::Healthy),
            ("neither is known", None, None, Probe::Healthy),
            ("empty ids say nothing", Some(""), Some(""), Probe::Healthy),
        ] {
            assert_eq!(identify(plane, member), want, "{name}");
        }
    }

    #[test]
    fn a_cluster_that_is_the_control_plane_is_never_ready() {
        let itself = || Probe::ControlPlane { uid: "p".into() };
        for stored in [None, Some(TRUE), Some(FALSE), Some("Unknown")] {
            let mut cluster = cluster("m1");
            if let Some(status) = stored {
                ready(&mut cluster, status, 0);
            }
            let seen = Seen { cluster: &cluster, memory: None, thresholds: Thresholds::default() };
            assert!(!collects(&seen, &itself(), S(1)), "{stored:?}: nothing is read from it");
            let mut memory = None;
            step(&mut cluster, &mut memory, itself(), 1);
            assert_eq!(cluster.ready(), Some(FALSE), "{stored:?}: at once");
        }
    }

    #[test]
    fn ready_changes_after_its_threshold() {
        use Probe::{Healthy, Offline, Unhealthy};
        // Results of probes by second, and status of Ready after the last one.
        for (name, stored, probes, want) in [
            ("the first observation is published at once", None, &[(0, Offline)][..], FALSE),
            ("a first good observation too", None, &[(0, Healthy)], TRUE),
            ("one bad probe changes nothing", None, &[(0, Healthy), (10, Offline)], TRUE),
            ("one tick before the threshold", None, &[(0, Healthy), (10, Offline), (39, Offline)], TRUE),
            ("exactly at the threshold", None, &[(0, Healthy), (10, Offline), (40, Offline)], FALSE),
            (
                "a good probe restarts the threshold",
                None,
                &[(0, Healthy), (10, Offline), (20, Healthy), (30, Offline), (45, Offline)],
                TRUE,
            ),
            (
                "offline and unhealthy count together",
                None,
                &[(0, Healthy), (10, Offline), (20, Unhealthy), (40, Offline)],
                FALSE,
            ),
            (
                "25 s of failure, then good (B6)",
                None,
                &[(0, Healthy), (10, Offline), (35, Offline), (36, Healthy)],
                TRUE,
            ),
            (
                "60 s down, 20 s up, down again: stays False (B7)",
                Some(TRUE),
                &[
                    (0, Offline),
                    (30, Offline),
                    (60, Offline),
                    (61, Healthy),
                    (80, Healthy),
                    (81, Offline),
                    (120, Offline),
                ],
                FALSE,
            ),
            ("recovery needs its threshold", Some(FALSE), &[(0, Offline), (10, Healthy), (39, Healthy)], FALSE),
            ("exactly at the threshold of recovery", Some(FALSE), &[(0, Offline), (10, Healthy), (40, Healthy)], TRUE),
            ("a restart does not shorten the debounce", Some(TRUE), &[(0, Offline), (29, Offline)], TRUE),
            ("a restart restarts the debounce", Some(TRUE), &[(0, Offline), (30, Offline)], FALSE),
            ("a restart publishes good news at once", Some(FALSE), &[(0, Healthy)], TRUE),
            ("Unknown gives way to False at once", Some("Unknown"), &[(0, Offline)], FALSE),
            (
                "Unknown becomes True after the threshold if a probe failed",
                Some("Unknown"),
                &[(0, Offline), (10, Healthy), (20, Healthy)],
                FALSE,
            ),
        ] {
            let mut cluster = cluster("m1");
            if let Some(status) = stored {
                ready(&mut cluster, status, 0);
            }
            let mut memory = None;
            for (second, probe) in probes {
                step(&mut cluster, &mut memory, probe.clone(), *second);
            }
            assert_eq!(cluster.ready(), Some(want), "{name}");
        }
    }

    /// B7: a recovery that is shorter than the threshold does not change the condition.
    #[test]
    fn short_recovery_does_not_change_the_transition_time() {
        let mut cluster = cluster("m1");
        ready(&mut cluster, TRUE, 0);
        let mut memory = None;
        for second in [0, 10, 20, 30] {
            step(&mut cluster, &mut memory, Probe::Offline, second);
        }
        let since = |cluster: &Cluster| {
            conditions::get(&cluster.status.as_ref().unwrap().conditions, READY).unwrap().last_transition_time.clone()
        };
        assert_eq!(since(&cluster), Time(at(30)));
        for (second, probe) in [(60, Probe::Healthy), (80, Probe::Healthy), (85, Probe::Offline), (200, Probe::Offline)]
        {
            step(&mut cluster, &mut memory, probe, second);
        }
        assert_eq!((cluster.ready(), since(&cluster)), (Some(FALSE), Time(at(30))));
    }

    proptest! {
        /// Invariant 29, compared with a model that keeps all observations.
        #[test]
        fn ready_changes_only_as_in_a_model_of_all_observations(
            probes in proptest::collection::vec((1..25u64, any::<bool>()), 1..60),
            success in 0..60u64,
            failure in 0..60u64,
        ) {
            let thresholds = Thresholds { success: S(success), failure: S(failure) };
            let mut cluster = cluster("m1");
            ready(&mut cluster, TRUE, 0);
            let (mut memory, mut second, mut since) = (None, 0, (true, 0));
            let mut last_flip = None;
            for (wait, healthy) in probes {
                second += wait;
                if memory.is_none() || since.0 != healthy {
                    since = (healthy, second);
                }
                let before = cluster.is_ready();
                let probe = if healthy { Probe::Healthy } else { Probe::Offline };
                let seen = Seen { cluster: &cluster, memory, thresholds };
                let decision = decide(&seen, &probe, None, S(second), at(i64::try_from(second).unwrap()));
                cluster = applied(&cluster, &decision);
                memory = decision.memory;
                let after = cluster.is_ready();
                let window = if healthy { success } else { failure };
                if before == after {
                    prop_assert!(after == healthy || second - since.1 < window, "late");
                    continue;
                }
                prop_assert_eq!(after, healthy);
                prop_assert!(second - since.1 >= window || before == healthy, "after {} s", second - since.1);
                if let Some(last) = last_flip {
                    prop_assert!(second - last >= success.min(failure), "two flips within {} s", second - last);
                }
                last_flip = Some(second);
            }
        }
    }

    #[test]
    fn a_member_that_stops_answering_and_answers_again_is_an_event() {
        let thresholds = Thresholds { success: S(0), failure: S(0) };
        for (name, before, probe, want) in [
            ("joined", None, Probe::Healthy, None),
            ("joined, and does not answer", None, Probe::Offline, None),
            ("still ready", Some(TRUE), Probe::Healthy, None),
            ("lost", Some(TRUE), Probe::Offline, Some("ClusterNotReady")),
            ("unhealthy", Some(TRUE), Probe::Unhealthy, Some("ClusterNotReady")),
            ("still lost", Some(FALSE), Probe::Unhealthy, None),
            ("back", Some(FALSE), Probe::Healthy, Some("ClusterReady")),
        ] {
            let mut cluster = cluster("m1");
            if let Some(before) = before {
                ready(&mut cluster, before, 0);
            }
            let seen = Seen { cluster: &cluster, memory: None, thresholds };
            let effects = decide(&seen, &probe, None, S(60), at(60)).plan.effects;
            let found = effects.iter().find_map(|effect| match effect {
                Effect::Event(event) => Some(event.reason),
                Effect::Status(_) => None,
            });
            assert_eq!(found, want, "{name}");
        }
    }

    #[test]
    fn transition_time_changes_only_with_the_status() {
        let (mut cluster, mut memory) = (cluster("m1"), None);
        step(&mut cluster, &mut memory, Probe::Offline, 1);
        step(&mut cluster, &mut memory, Probe::Unhealthy, 11);
        let condition = conditions::get(&cluster.status.as_ref().unwrap().conditions, READY).unwrap().clone();
        assert_eq!((&*condition.reason, condition.last_transition_time), ("ClusterNotReady", Time(at(1))));
    }

    #[test]
    fn cluster_without_finalizer_is_not_probed() {
        let mut cluster = cluster("m1");
        cluster.metadata.finalizers = None;
        let seen = Seen { cluster: &cluster, memory: None, thresholds: Thresholds::default() };
        assert!(!collects(&seen, &Probe::Healthy, S(0)));
        let decision = decide(&seen, &Probe::Healthy, None, S(0), at(0));
        assert!(decision.plan.is_quiet());
        assert_eq!(decision.memory, None, "the next probe is the first observation");
    }

    #[test]
    fn status_is_collected_only_if_ready_is_or_becomes_true() {
        let mut known = cluster("m1");
        ready(&mut known, FALSE, 0);
        let memory = Some(Memory { healthy: true, since: Some(S(0)) });
        let seen = Seen { cluster: &known, memory, thresholds: Thresholds::default() };
        assert!(!collects(&seen, &Probe::Healthy, S(29)), "still debouncing");
        assert!(collects(&seen, &Probe::Healthy, S(30)));
        assert!(!collects(&seen, &Probe::Unhealthy, S(30)));
    }

    #[test]
    fn each_condition_is_written_once() {
        let cluster = cluster("m1");
        let collected = Collected {
            kubernetes_version: "v1.36.3".into(),
            apis: apis(&["v1", "apps/v1"]),
            failed_group_versions: Vec::new(),
            resources: Some((NodeSummary { total_num: 2, ready_num: 1 }, ResourceSummary::default())),
        };
        let seen = Seen { cluster: &cluster, memory: None, thresholds: Thresholds::default() };
        let decision = decide(&seen, &Probe::Healthy, Some(collected.clone()), S(0), at(5));
        let after = applied(&cluster, &decision);
        let status = after.status.clone().unwrap();
        assert_eq!(status.kubernetes_version, "v1.36.3");
        let groups: Vec<_> = status.api_enablements.iter().map(|e| e.group_version.as_str()).collect();
        assert_eq!(groups, ["apps/v1", "v1"], "API groups are sorted");
        assert_eq!(status.node_summary, Some(NodeSummary { total_num: 2, ready_num: 1 }));
        assert!(conditions::is_true(&status.conditions, COMPLETE_API_ENABLEMENTS));
        assert!(conditions::is_true(&status.conditions, READY));
        let seen = Seen { cluster: &after, memory: decision.memory, thresholds: Thresholds::default() };
        assert!(decide(&seen, &Probe::Healthy, Some(collected), S(10), at(15)).plan.is_quiet(), "nothing changed");
    }

    #[test]
    fn fields_that_could_not_be_read_keep_their_values() {
        let collect = |cluster: &Cluster, apis: Vec<APIEnablement>, failed: &[&str]| {
            let failed_group_versions = failed.iter().map(|gv| (*gv).to_owned()).collect();
            let collected = Collected { apis, failed_group_versions, ..Collected::default() };
            let seen = Seen { cluster, memory: None, thresholds: Thresholds::default() };
            let after = applied(cluster, &decide(&seen, &Probe::Healthy, Some(collected), S(0), at(0)));
            let status = after.status.clone().unwrap();
            let condition = conditions::get(&status.conditions, COMPLETE_API_ENABLEMENTS).unwrap();
            let groups: Vec<_> = status.api_enablements.iter().map(|e| e.group_version.clone()).collect();
            (after, condition.reason.clone(), groups)
        };
        let (known, reason, _) = collect(&cluster("m1"), apis(&["apps/v1", "metrics.k8s.io/v1beta1", "v1"]), &[]);
        assert_eq!(reason, "Complete");
        let (_, reason, groups) = collect(&known, apis(&["v1"]), &["metrics.k8s.io/v1beta1"]);
        assert_eq!((reason.as_str(), groups), ("Partial", vec!["metrics.k8s.io/v1beta1".to_owned(), "v1".to_owned()]));
        let (_, reason, groups) = collect(&known, Vec::new(), &[]);
        assert_eq!((reason.as_str(), groups.len()), ("Empty", 3));
    }

    proptest! {
        #[test]
        fn ready_never_changes_before_its_threshold(probes in prop::collection::vec(any::<bool>(), 1..60)) {
            let (mut cluster, mut memory) = (cluster("m1"), None);
            for (cycle, healthy) in probes.iter().enumerate() {
                let before = cluster.ready().map(str::to_owned);
                let probe = if *healthy { Probe::Healthy } else { Probe::Offline };
                step(&mut cluster, &mut memory, probe, cycle as u64 * 10);
                if before.is_some() && before.as_deref() != cluster.ready() {
                    // 30 s of equal observations are this one and the three before it.
                    prop_assert!(cycle >= 3 && probes[cycle - 3..=cycle].iter().all(|p| p == healthy));
                }
            }
        }
    }
}
