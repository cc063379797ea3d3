//! Readiness of a fleet for the loss of a cluster. Broken invariants are found by `ironclad_fleet::check`.

pub mod controllers;
pub mod drift;
mod waits;

pub use waits::{OldCopy, old_copies, replacements};

use std::collections::BTreeSet;

use ironclad_api::{
    Condition,
    conditions::{
        self, FALSE, TRUE,
        binding::SCHEDULED,
        cluster::{AGENT_CERTIFICATE_EXPIRING, CLOCK_SKEW, READY, TUNNEL_CONNECTED},
    },
};
use ironclad_autoscaling::{
    distributed_hpa::{self, scaler::Scaler},
    idle::{self, Verdict},
};
use ironclad_failover::{
    flags::{EvictionFlags, eviction::Check},
    taint_manager::{
        Report, Row,
        pre_scheduling_check::{Snapshot, has_target},
    },
    taints::is_faulty,
};
use ironclad_fleet::{Binding, ClusterName, World};
use ironclad_propagation::template::Identity;
use ironclad_scheduling::Peers;
use jiff::Timestamp;
use serde::Serialize;

use crate::{Settings, unjoin::blocked};
use ironclad_fleet::count::count;

/// Most names in a line.
const NAMED_MAX: usize = 5;
/// An eviction that waits longer at a normal rate is reported (specification/failover.md 14.4).
const LATE_SECONDS: i64 = 600;

/// Severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Grade {
    /// It does not work.
    Broken,
    /// It works, and a user should look into it.
    Warning,
    /// It is as somebody chose, and has consequences.
    Note,
    /// It is in order; for information.
    Fine,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// Severity.
    pub grade: Grade,
    /// The finding.
    pub what: String,
    #[serde(rename = "try", skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    /// A finding without a remedy.
    #[must_use]
    pub fn new(grade: Grade, what: impl Into<String>) -> Self {
        Self { grade, what: what.into(), remedy: None }
    }

    /// Adds what a person could do.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// The leader's state, as far as it is known.
#[derive(Debug, Clone, Copy, Default)]
pub struct Leader<'a> {
    pub report: Option<&'a Report>,
    /// Its queue of evictions.
    pub rows: &'a [Row],
    /// Its flags of evictions, if they are known.
    pub flags: Option<&'a EvictionFlags>,
    /// Evictions are paused.
    pub paused: bool,
    /// Reason why it decides on no evictions at all, if it doesn't.
    pub off: Option<&'a str>,
}

/// Findings about the health of clusters, workloads without a cluster, the fleet's readiness for the loss of a cluster,
/// and evictions.
#[must_use]
pub fn findings(world: &World, leader: Leader<'_>, settings: &Settings, now: Timestamp) -> Vec<Finding> {
    let mut found = Vec::new();
    clusters(world, &mut found);
    without_a_cluster(world, &mut found);
    waits::refused(world, now, &mut found);
    failover(world, leader, settings, now, &mut found);
    evictions(world, leader, now, &mut found);
    waits::moves(world, leader, settings, now, &mut found);
    autoscalers(world, now, &mut found);
    found
}

/// HorizontalPodAutoscalers that nobody runs, or whose work is undone.
fn autoscalers(world: &World, now: Timestamp, found: &mut Vec<Finding>) {
    for (key, object) in world.templates.iter().filter(|(key, _)| distributed_hpa::is_kind(&key.gvk)) {
        let Some(scaler) = Scaler::from_object(object) else { continue };
        let target = world.templates.get(&distributed_hpa::target_key(&scaler.hpa));
        let target = target.map(|template| Identity::of(template).labels);
        let is_propagated = world.binding_of(key).is_some();
        match idle::verdict(idle::Seen { hpa: &scaler.hpa, is_propagated, target: target.as_ref(), now }) {
            Verdict::Fine | Verdict::Later(_) => {}
            told @ (Verdict::NotRun | Verdict::Undone { .. }) => {
                found.push(Finding::new(Grade::Warning, format!("{key}: {told}")));
            }
        }
    }
}

/// Bindings with an empty schedule result that the scheduler has seen: nothing runs, or only what an eviction left.
fn without_a_cluster(world: &World, found: &mut Vec<Finding>) {
    let (mut nowhere, mut evicted) = (Vec::new(), Vec::new());
    for binding in world.all_bindings() {
        let (spec, metadata) = (binding.spec(), binding.metadata());
        let conditions = binding.status().map_or(&[][..], |status| &status.conditions);
        let is_empty = spec.placement.is_some() && spec.clusters.is_empty() && metadata.deletion_timestamp.is_none();
        let as_wanted = spec.is_scaled_to_zero() && conditions::is_true(conditions, SCHEDULED);
        if is_empty && !spec.graceful_eviction_tasks.is_empty() {
            evicted.push(binding.key().to_string());
        } else if is_empty
            && !as_wanted
            && (spec.scheduling_suspended() || conditions::get(conditions, SCHEDULED).is_some())
        {
            nowhere.push(binding.key().to_string());
        }
    }
    for (names, what) in [
        (nowhere, "in no cluster: the scheduler finds none, or is suspended for it"),
        (evicted, "in no cluster since evictions: only old copies may run"),
    ] {
        if !names.is_empty() {
            let line = format!("{} {what}: {}", count(names.len(), "workload"), named(&names));
            found.push(Finding::new(Grade::Warning, line).remedy("ironclad why TYPE/NAME -n NAMESPACE"));
        }
    }
}

fn clusters(world: &World, found: &mut Vec<Finding>) {
    let mut ready = 0;
    for (name, cluster) in &world.clusters {
        if cluster.metadata.deletion_timestamp.is_some() {
            let line = match blocked(cluster) {
                Some(why) => format!("cluster {name} is being removed from the fleet, and can't go: {why}"),
                None => format!("cluster {name} is being removed from the fleet"),
            };
            found.push(Finding::new(Grade::Warning, line));
            continue;
        }
        let conditions = cluster.status.as_ref().map_or(&[][..], |status| &status.conditions);
        found.extend(of_agent(name, conditions));
        match conditions::get(conditions, READY) {
            Some(condition) if condition.status == TRUE => ready += 1,
            Some(condition) => found.push(
                Finding::new(Grade::Warning, format!("cluster {name} is not ready: {}", condition.reason))
                    .remedy(format!("kubectl describe cluster {name}")),
            ),
            None => found.push(Finding::new(Grade::Warning, format!("cluster {name} has not reported its status yet"))),
        }
    }
    found.push(Finding::new(Grade::Fine, format!("{ready} of {} ready", count(world.clusters.len(), "cluster"))));
}

/// Findings on the agent of a cluster in pull mode.
fn of_agent(cluster: &ClusterName, conditions: &[Condition]) -> impl Iterator<Item = Finding> {
    [
        (CLOCK_SKEW, TRUE, "synchronise the clock of the machine with the agent (NTP)"),
        (AGENT_CERTIFICATE_EXPIRING, TRUE, "the agent's log says why it was not renewed; `ironclad register` again"),
        (TUNNEL_CONNECTED, FALSE, "proxy, logs, exec and metrics of the member need it: see the agent's log"),
    ]
    .into_iter()
    .filter_map(move |(type_, status, remedy)| {
        let told = conditions::get(conditions, type_).filter(|told| told.status == status)?;
        Some(Finding::new(Grade::Warning, format!("cluster {cluster}: {}", told.message)).remedy(remedy))
    })
}

/// Policies that can taint, bindings that PreferNoExecute moves, and bindings that no other cluster could take.
fn failover(world: &World, leader: Leader<'_>, settings: &Settings, now: Timestamp, found: &mut Vec<Finding>) {
    let check = leader.flags.map_or_else(Check::default, |flags| flags.pre_scheduling_check);
    let tainting: Vec<String> = world.taint_policies.keys().map(ToString::to_string).collect();
    found.push(match (tainting.as_slice(), leader.off) {
        ([], _) => Finding::new(Grade::Fine, "no ClusterTaintPolicy: only people put evicting taints on clusters"),
        (some, None) => Finding::new(Grade::Fine, format!("ClusterTaintPolicies that can taint: {}", named(some))),
        (some, Some(_)) => {
            let line = format!("ClusterTaintPolicies that taint only with feature gate Failover: {}", named(some));
            Finding::new(Grade::Fine, line)
        }
    });
    let bindings: Vec<Binding> = world.all_bindings().collect();
    let opted_in = bindings.iter().filter(|b| b.spec().failover.as_ref().is_some_and(|f| f.cluster.is_some())).count();
    found.push(Finding::new(
        Grade::Fine,
        format!(
            "{opted_in} of {} with spec.failover.cluster, which PreferNoExecute taints {}",
            count(bindings.len(), "binding"),
            if leader.off.is_some() { "would move if evictions were decided" } else { "move" }
        ),
    ));
    let grouped = settings.scheduler.workload_affinity;
    let peers = grouped.then(|| Peers::of(world.bindings.values().map(|binding| &**binding)));
    let snapshot = Snapshot { clusters: &world.clusters, scheduler: &settings.scheduler, peers: peers.as_ref(), now };
    let stuck = bindings.iter().filter(|binding| is_stuck(binding, &snapshot, check));
    let stuck: Vec<String> = stuck.map(|binding| binding.key().to_string()).collect();
    if !stuck.is_empty() {
        found.push(
            Finding::new(
                Grade::Warning,
                format!(
                    "{} could not be moved now if one of {} clusters were lost: {}",
                    count(stuck.len(), "binding"),
                    if stuck.len() == 1 { "its" } else { "their" },
                    named(&stuck)
                ),
            )
            .remedy("ironclad plan cluster-loss CLUSTER"),
        );
    }
}

/// True if no other cluster could replace one of the binding's clusters. A binding without a placement follows its
/// referrers.
fn is_stuck(binding: &Binding, snapshot: &Snapshot<'_>, check: Check) -> bool {
    let spec = binding.spec();
    spec.placement.is_some()
        && spec.clusters.iter().any(|target| {
            let left_out = BTreeSet::from([ClusterName::from(target.name.as_str())]);
            has_target(binding, &left_out, snapshot, check).is_err()
        })
}

fn evictions(world: &World, leader: Leader<'_>, now: Timestamp, found: &mut Vec<Finding>) {
    if leader.paused {
        found.push(Finding::new(Grade::Warning, "evictions are paused").remedy("ironclad failover resume"));
    }
    let faulty: Vec<String> =
        world.clusters.iter().filter(|(_, cluster)| is_faulty(cluster)).map(|(name, _)| name.to_string()).collect();
    if leader.off.is_none() && leader.flags.is_some_and(|flags| !flags.enable_no_execute_taint_eviction) {
        let line = "NoExecute taints evict nothing: --enable-no-execute-taint-eviction=false";
        found.push(Finding::new(if faulty.is_empty() { Grade::Fine } else { Grade::Warning }, line));
    }
    let Some(report) = leader.report else {
        let line = match (leader.off, faulty.as_slice()) {
            (Some(why), []) => format!("nothing fails over: {why}"),
            (Some(why), some) => format!("nothing fails over: {why}; evicting taints are on {}", named(some)),
            (None, []) => "no cluster is faulty".to_owned(),
            (None, some) => {
                format!("evicting taints are on {}, and no leader can be asked about evictions", named(some))
            }
        };
        let grade = match (faulty.is_empty(), leader.off) {
            (false, _) => Grade::Warning,
            (true, Some(_)) => Grade::Note,
            (true, None) => Grade::Fine,
        };
        let remedy = match leader.off {
            Some(_) => {
                "start the control plane with --feature-gates Failover=true and without -taint-manager in --controllers"
            }
            None => "ironclad get evictions",
        };
        let finding = Finding::new(grade, line);
        found.push(if grade == Grade::Fine { finding } else { finding.remedy(remedy) });
        return;
    };
    let waits = report.ready + report.delayed + report.parked;
    let line = format!("evictions: {}, {}/s ({}); {waits} wait", report.state, report.rate, report.because);
    let stopped = ["halted", "held"].contains(&report.state.as_str()) && waits > 0;
    found.push(Finding::new(if stopped { Grade::Warning } else { Grade::Fine }, line));
    for episode in &report.episodes {
        let (cluster, taints) = (&episode.cluster, &episode.taints);
        found.push(
            Finding::new(
                Grade::Warning,
                format!(
                    "cluster {cluster} is faulty ({taints}): {} evicted, {} wait",
                    episode.evicted, episode.pending
                ),
            )
            .remedy("ironclad why evicted"),
        );
        if let Some(held) = &episode.held {
            let line = format!("evictions from cluster {cluster} are held: {held}");
            found.push(Finding::new(Grade::Warning, line).remedy("ironclad failover status"));
        }
    }
    if report.parked > 0 {
        let line = format!("no target cluster for {}", count(report.parked, "eviction"));
        found.push(Finding::new(Grade::Warning, line).remedy("ironclad get evictions"));
    }
    let late = |since: &Timestamp| now.duration_since(*since).as_secs() > LATE_SECONDS;
    if report.state == "normal" && report.oldest.as_ref().is_some_and(late) {
        let line = format!("the head of the eviction queue waits for more than {} minutes", LATE_SECONDS / 60);
        found.push(Finding::new(Grade::Warning, line).remedy("ironclad failover status"));
    }
}

/// The first names, and how many more there are.
#[must_use]
pub fn named(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let some = names.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{some} and {more} more") } else { some }
}

#[cfg(test)]
mod tests {
    use ironclad_failover::{Evictions, Flags, Now, taint_manager::EpisodeReport};

    use super::*;
    use crate::testkit::{objects, world_of};

    /// Two ready clusters, and web, which may run on either.
    const FLEET: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m1}, spec: {syncMode: Push}, status: &ready {apiEnablements: [{groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}], conditions: [{type: Ready, status: "True", reason: ClusterReady, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m2}, spec: {syncMode: Push}, status: *ready}
- apiVersion: work.karmada.io/v1alpha2
  kind: ResourceBinding
  metadata: {name: web-deployment, namespace: shop, labels: {propagationpolicy.karmada.io/permanent-id: p}}
  spec: {replicas: 2, replicaRequirements: {}, resource: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web}, clusters: [{name: m1, replicas: 2}], placement: {spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]}}
"#;

    fn world(change: &[(&str, &str)]) -> World {
        let text = change.iter().fold(FLEET.to_owned(), |text, (from, to)| text.replace(from, to));
        world_of(&text)
    }

    #[test]
    fn conditions_of_agents_are_findings() {
        for (type_, status, is_told) in [
            ("ClockSkew", "True", true),
            ("AgentCertificateExpiring", "True", true),
            ("TunnelConnected", "False", true),
            ("TunnelConnected", "True", false),
            ("TunnelConnected", "Unknown", false),
            ("Mine", "False", false),
        ] {
            let condition = conditions::condition(type_, status, "Reason", "something is wrong");
            let found: Vec<Finding> = of_agent(&"m1".into(), &[condition]).collect();
            let lines: Vec<&str> = found.iter().map(|finding| finding.what.as_str()).collect();
            let want: &[&str] = if is_told { &["cluster m1: something is wrong"] } else { &[] };
            assert_eq!(lines, want, "{type_} {status}");
            assert!(found.iter().all(|finding| finding.remedy.is_some() && finding.grade == Grade::Warning));
        }
    }

    fn report() -> Report {
        let now = Now { wall: Timestamp::UNIX_EPOCH, mono: std::time::Duration::ZERO };
        // A leader that has just started is held for a moment.
        Report { state: "normal".into(), ..Evictions::new(Flags::default(), now).report(now) }
    }

    fn warnings(world: &World, report: Option<&Report>, paused: bool) -> Vec<String> {
        let now = Timestamp::from_second(1_000).unwrap();
        let all = findings(world, Leader { report, paused, ..Leader::default() }, &Settings::default(), now);
        all.into_iter().filter(|finding| finding.grade != Grade::Fine).map(|finding| finding.what).collect()
    }

    #[test]
    fn how_ready_a_fleet_is() {
        let pinned = [(
            "spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]",
            "clusterAffinity: {clusterNames: [m1]}",
        )];
        let sick = [(
            "status: *ready",
            "status: {conditions: [{type: Ready, status: \"False\", reason: Gone, message: \"\", lastTransitionTime: \"2026-01-01T00:00:00Z\"}]}",
        )];
        let leaving = [("metadata: {name: m2}", "metadata: {name: m2, deletionTimestamp: \"2026-01-01T00:00:00Z\"}")];
        let stuck = "1 binding could not be moved now if one of its clusters were lost: shop/web-deployment";
        for (name, change, want) in [
            ("all is well", &[][..], &[][..]),
            ("it may run in one cluster only", &pinned, &[stuck]),
            ("the other cluster is not ready", &sick, &["cluster m2 is not ready: Gone", stuck]),
            ("the other cluster leaves", &leaving, &["cluster m2 is being removed from the fleet", stuck]),
        ] {
            assert_eq!(warnings(&world(change), None, false), want, "{name}");
        }
        let fine = findings(&world(&[]), Leader::default(), &Settings::default(), Timestamp::UNIX_EPOCH);
        let fine: Vec<_> = fine.iter().map(|finding| finding.what.as_str()).collect();
        assert_eq!(
            fine,
            [
                "2 of 2 clusters ready",
                "no ClusterTaintPolicy: only people put evicting taints on clusters",
                "0 of 1 binding with spec.failover.cluster, which PreferNoExecute taints move",
                "no cluster is faulty",
            ]
        );
    }

    #[test]
    fn workloads_without_a_cluster_are_listed() {
        let (empty, some) = ("clusters: []", "clusters: [{name: m1, replicas: 2}]");
        let status = "\n  status: {conditions: [{type: Scheduled, status: \"False\", reason: NoClusterFit, message: \"\", lastTransitionTime: \"2026-01-01T00:00:00Z\"}]}\n";
        let tail = "maxGroups: 1}]}}\n";
        let tasks = "clusters: [], gracefulEvictionTasks: [{fromCluster: m1, reason: TaintUntolerated, producer: TaintManager}]";
        let failed = &("maxGroups: 1}]}}".to_owned() + status);
        let placed = failed.replace("\"False\"", "\"True\"");
        let nowhere = "1 workload in no cluster: the scheduler finds none, or is suspended for it: shop/web-deployment";
        for (name, change, want) in [
            ("it has not been scheduled yet", vec![(some, empty)], vec![]),
            ("unschedulable", vec![(some, empty), (tail, failed.as_str())], vec![nowhere]),
            ("suspended", vec![(some, "clusters: [], suspension: {scheduling: true}")], vec![nowhere]),
            (
                "scaled to no replicas",
                vec![(some, "clusters: []"), ("replicas: 2", "replicas: 0"), (tail, &placed)],
                vec![],
            ),
            (
                "evicted, without a target",
                vec![(some, tasks)],
                vec!["1 workload in no cluster since evictions: only old copies may run: shop/web-deployment"],
            ),
        ] {
            assert_eq!(warnings(&world(&change), None, false), want, "{name}");
        }
    }

    #[test]
    fn switched_off_evictions_are_told_as_off() {
        let off = Some("feature gate Failover is off");
        let why = "nothing fails over: feature gate Failover is off";
        let lines = |world: &World, leader: Leader<'_>| -> Vec<(Grade, String)> {
            let all = findings(world, leader, &Settings::default(), Timestamp::UNIX_EPOCH);
            all.into_iter().map(|finding| (finding.grade, finding.what)).collect()
        };
        let quiet = lines(&world(&[]), Leader { off, ..Leader::default() });
        let opted = "0 of 1 binding with spec.failover.cluster, which PreferNoExecute taints would move if evictions were decided";
        assert!(quiet.contains(&(Grade::Fine, opted.to_owned())), "{quiet:?}");
        assert!(quiet.contains(&(Grade::Note, why.to_owned())), "{quiet:?}");
        let tainted = [(
            "spec: {syncMode: Push}, status: &ready",
            "spec: {syncMode: Push, taints: [{key: k, effect: NoExecute}]}, status: &ready",
        )];
        let faulty = lines(&world(&tainted), Leader { off, ..Leader::default() });
        let text = format!("{why}; evicting taints are on m1");
        assert!(faulty.contains(&(Grade::Warning, text)), "{faulty:?}");
        let silent = lines(&world(&tainted), Leader::default());
        assert!(
            silent.iter().any(|(_, what)| what.starts_with("evicting taints are on m1, and no leader can be asked")),
            "{silent:?}"
        );
        let flags = EvictionFlags { enable_no_execute_taint_eviction: false, ..EvictionFlags::default() };
        let no_execute = lines(&world(&tainted), Leader { flags: Some(&flags), ..Leader::default() });
        let text = "NoExecute taints evict nothing: --enable-no-execute-taint-eviction=false".to_owned();
        assert!(no_execute.contains(&(Grade::Warning, text)), "{no_execute:?}");
    }

    #[test]
    fn findings_about_evictions() {
        let episode = EpisodeReport {
            id: "m1-1".into(),
            cluster: "m1".into(),
            since: Timestamp::UNIX_EPOCH,
            taints: "k:NoExecute".into(),
            evicted: 2,
            pending: 3,
            recovering: false,
            held: None,
        };
        let halted = Report { state: "halted".into(), ready: 3, ..report() };
        let late = Report { ready: 1, oldest: Some(Timestamp::UNIX_EPOCH), ..report() };
        let idle = Report { state: "halted".into(), ..report() };
        let parked = Report { parked: 1, ..report() };
        let faulty = Report { episodes: vec![episode], ..report() };
        for (name, report, paused, want) in [
            ("no evictions", report(), false, &[][..]),
            ("paused", report(), true, &["evictions are paused"]),
            ("halted, and nobody waits", idle, false, &[]),
            ("late", late, false, &["the head of the eviction queue waits for more than 10 minutes"]),
            ("parked", parked, false, &["no target cluster for 1 eviction"]),
            ("faulty", faulty, false, &["cluster m1 is faulty (k:NoExecute): 2 evicted, 3 wait"]),
        ] {
            assert_eq!(warnings(&world(&[]), Some(&report), paused), want, "{name}");
        }
        let stopped = warnings(&world(&[]), Some(&halted), false);
        assert!(stopped.len() == 1 && stopped[0].starts_with("evictions: halted, "), "{stopped:?}");
    }

    #[test]
    fn autoscalers_that_nobody_runs_are_told() {
        let hpa = |labels: &str| {
            let text = format!(
                "{{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {{name: web, namespace: shop, \
                 creationTimestamp: \"1970-01-01T00:00:00Z\", labels: {{{labels}}}}}, \
                 spec: {{scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: web}}, maxReplicas: 3}}}}"
            );
            let mut world = World::default();
            objects(&text).into_iter().for_each(|object| world.insert_template(object));
            world
        };
        let lines = |world: &World| warnings(world, None, false);
        let said = lines(&hpa(""));
        let about: Vec<&String> = said.iter().filter(|line| line.contains("HorizontalPodAutoscaler")).collect();
        assert_eq!(about.len(), 1, "{said:?}");
        assert!(about[0].starts_with("HorizontalPodAutoscaler shop/web: nobody runs it"), "{about:?}");
        let said = lines(&hpa("federatedhpa.karmada.io/enabled: \"true\""));
        assert!(!said.iter().any(|line| line.contains("HorizontalPodAutoscaler")), "{said:?}");
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..7).map(|n| format!("b{n}")).collect();
        assert_eq!(named(&names), "b0, b1, b2, b3, b4 and 2 more");
        assert_eq!(named(&names[..1]), "b0");
    }
}
