//! Readiness of a fleet for the loss of a cluster. Broken invariants are found by `ironclad_fleet::check`.

pub mod drift;

use std::collections::BTreeSet;

use ironclad_api::conditions::{self, TRUE, cluster::READY};
use ironclad_failover::{
    flags::eviction::Check,
    taint_manager::{
        Report,
        pre_scheduling_check::{Snapshot, has_target},
    },
};
use ironclad_fleet::{Binding, ClusterName, World};
use ironclad_scheduling::Options;
use jiff::Timestamp;
use serde::Serialize;

use crate::unjoin::blocked;
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
    /// Remedy.
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

/// Findings about the health of clusters, the fleet's readiness for the loss of one, and evictions.
#[must_use]
pub fn findings(world: &World, report: Option<&Report>, paused: bool, now: Timestamp) -> Vec<Finding> {
    let mut found = Vec::new();
    clusters(world, &mut found);
    failover(world, report.map_or_else(Check::default, |report| report.check), now, &mut found);
    evictions(report, paused, now, &mut found);
    found
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
        let condition = cluster.status.as_ref().and_then(|status| conditions::get(&status.conditions, READY));
        match condition {
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

/// Policies that can taint, bindings that PreferNoExecute moves, and bindings that no other cluster could take.
fn failover(world: &World, check: Check, now: Timestamp, found: &mut Vec<Finding>) {
    let tainting: Vec<String> = world.taint_policies.keys().map(ToString::to_string).collect();
    found.push(match tainting.as_slice() {
        [] => Finding::new(Grade::Fine, "no ClusterTaintPolicy: only people put evicting taints on clusters"),
        some => Finding::new(Grade::Fine, format!("ClusterTaintPolicies that can taint: {}", named(some))),
    });
    let bindings: Vec<Binding> = world.all_bindings().collect();
    let opted_in = bindings.iter().filter(|b| b.spec().failover.as_ref().is_some_and(|f| f.cluster.is_some())).count();
    found.push(Finding::new(
        Grade::Fine,
        format!(
            "{opted_in} of {} with spec.failover.cluster, which PreferNoExecute taints move",
            count(bindings.len(), "binding")
        ),
    ));
    let stuck: Vec<String> =
        bindings.iter().filter(|binding| is_stuck(binding, world, check, now)).map(|b| b.key().to_string()).collect();
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
fn is_stuck(binding: &Binding, world: &World, check: Check, now: Timestamp) -> bool {
    let (spec, scheduler) = (binding.spec(), Options::default());
    let snapshot = Snapshot { clusters: &world.clusters, scheduler: &scheduler, now };
    spec.placement.is_some()
        && spec.clusters.iter().any(|target| {
            let left_out = BTreeSet::from([ClusterName::from(target.name.as_str())]);
            has_target(binding, &left_out, &snapshot, check).is_err()
        })
}

fn evictions(report: Option<&Report>, paused: bool, now: Timestamp, found: &mut Vec<Finding>) {
    if paused {
        found.push(Finding::new(Grade::Warning, "evictions are paused").remedy("ironclad failover resume"));
    }
    let Some(report) = report else {
        found.push(Finding::new(
            Grade::Fine,
            "the leader reports no evictions: no cluster is faulty, or feature gate Failover is off",
        ));
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
    }
    if report.parked > 0 {
        let line = format!("no target cluster for {}", count(report.parked, "eviction"));
        found.push(Finding::new(Grade::Warning, line).remedy("ironclad get evictions"));
    }
    let late = |since: &Timestamp| now.duration_since(*since).as_secs() > LATE_SECONDS;
    let head = report.rows.iter().find(|row| row.position == Some(1)).and_then(|row| row.since);
    if report.state == "normal" && head.as_ref().is_some_and(late) {
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
    use crate::testkit::world_of;

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

    fn report() -> Report {
        let now = Now { wall: Timestamp::UNIX_EPOCH, mono: std::time::Duration::ZERO };
        // A leader that has just started is held for a moment.
        Report { state: "normal".into(), ..Evictions::new(Flags::default(), now).report(now) }
    }

    fn warnings(world: &World, report: Option<&Report>, paused: bool) -> Vec<String> {
        let now = Timestamp::from_second(1_000).unwrap();
        let all = findings(world, report, paused, now);
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
        let fine = findings(&world(&[]), None, false, Timestamp::UNIX_EPOCH);
        let fine: Vec<_> = fine.iter().map(|finding| finding.what.as_str()).collect();
        assert_eq!(
            fine,
            [
                "2 of 2 clusters ready",
                "no ClusterTaintPolicy: only people put evicting taints on clusters",
                "0 of 1 binding with spec.failover.cluster, which PreferNoExecute taints move",
                "the leader reports no evictions: no cluster is faulty, or feature gate Failover is off",
            ]
        );
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
        };
        let halted = Report { state: "halted".into(), ready: 3, ..report() };
        let idle = Report { state: "halted".into(), ..report() };
        let parked = Report { parked: 1, ..report() };
        let faulty = Report { episodes: vec![episode], ..report() };
        for (name, report, paused, want) in [
            ("no evictions", report(), false, &[][..]),
            ("paused", report(), true, &["evictions are paused"]),
            ("halted, and nobody waits", idle, false, &[]),
            ("parked", parked, false, &["no target cluster for 1 eviction"]),
            ("faulty", faulty, false, &["cluster m1 is faulty (k:NoExecute): 2 evicted, 3 wait"]),
        ] {
            assert_eq!(warnings(&world(&[]), Some(&report), paused), want, "{name}");
        }
        let stopped = warnings(&world(&[]), Some(&halted), false);
        assert!(stopped.len() == 1 && stopped[0].starts_with("evictions: halted, "), "{stopped:?}");
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..7).map(|n| format!("b{n}")).collect();
        assert_eq!(named(&names), "b0, b1, b2, b3, b4 and 2 more");
        assert_eq!(named(&names[..1]), "b0");
    }
}
