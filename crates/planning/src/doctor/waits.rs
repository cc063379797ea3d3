//! Works that members refuse, and moves that have waited for minutes, each with what it waits for.

use std::collections::{BTreeMap, BTreeSet};

use ironclad_api::{
    conditions::{self, FALSE, work::APPLIED},
    reasons::work::TERMINATING,
    work::{ResourceHealth, Work},
};
use ironclad_failover::{
    Flags,
    graceful_eviction::{self, Plugins, Snapshot},
    taint_manager::{Row, Waiting},
};
use ironclad_fleet::{Binding, BindingKey, ClusterName, World, count::count, targets};
use jiff::Timestamp;

use super::{Finding, Grade, Leader, NAMED_MAX};
use crate::{
    Settings,
    evicted::{Answer, Decisions, Judged, Objects, explain, span},
};

/// A move that waits longer is reported.
const LONG_SECONDS: i64 = 180;
/// Most characters of a member's words.
const WORDS_MAX: usize = 300;

/// Works whose last write a member refused, by cluster.
pub(super) fn refused(world: &World, now: Timestamp, found: &mut Vec<Finding>) {
    let mut by_cluster: BTreeMap<&ClusterName, Vec<Finding>> = BTreeMap::new();
    for (key, work) in &world.works {
        let conditions = work.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let refused = conditions::get(conditions, APPLIED)
            .filter(|condition| condition.status == FALSE && condition.reason != TERMINATING);
        let (Some(condition), Some(manifest)) = (refused, work.spec.workload.manifests.first()) else { continue };
        let named = manifest.named();
        let object = match named.metadata.namespace.as_str() {
            "" => named.metadata.name.clone(),
            namespace => format!("{namespace}/{}", named.metadata.name),
        };
        let line = format!(
            "cluster {} does not take {} {object} for {}: {}",
            key.cluster,
            named.kind,
            span(condition.last_transition_time.0, now),
            words(&condition.message)
        );
        let place = if named.metadata.namespace.is_empty() {
            String::new()
        } else {
            format!(" -n {}", named.metadata.namespace)
        };
        let remedy = format!("ironclad tree {}/{}{place}", named.kind.to_lowercase(), named.metadata.name);
        by_cluster.entry(&key.cluster).or_default().push(Finding::new(Grade::Warning, line).remedy(remedy));
    }
    for (cluster, mut all) in by_cluster {
        let more = all.len().saturating_sub(NAMED_MAX);
        all.truncate(NAMED_MAX);
        found.append(&mut all);
        if more > 0 {
            let line = format!("cluster {cluster} does not take {} more", count(more, "Work"));
            found.push(Finding::new(Grade::Warning, line).remedy("kubectl get works -A"));
        }
    }
}

/// Evictions that the queue keeps back, and old copies that stay after a move, each for minutes.
pub(super) fn moves(world: &World, leader: Leader<'_>, settings: &Settings, now: Timestamp, found: &mut Vec<Finding>) {
    let mut lines = Vec::new();
    let kept_back = |row: &Row| matches!(row.state, Waiting::Parked | Waiting::Retrying | Waiting::Held);
    let late: BTreeSet<&BindingKey> =
        leader.rows.iter().filter(|row| kept_back(row) && is_long(row.due, now)).map(|row| &row.binding).collect();
    if !late.is_empty() {
        let objects = Objects {
            clusters: world.clusters.clone(),
            policies: world.taint_policies.values().cloned().collect(),
            bindings: world.all_bindings().collect(),
        };
        let fleet = objects.fleet(settings);
        let eviction = leader.flags.cloned().unwrap_or_default();
        let flags = Flags { eviction, ..Flags::default() }.under(&settings.gates, &settings.scheduler);
        let decisions = Decisions::of(&objects, &fleet, flags, now);
        let judged = Judged::of(leader.report, leader.off);
        for binding in objects.bindings.iter().filter(|binding| late.contains(&binding.key())) {
            let answers = explain(binding, &decisions, leader.rows, &judged, false);
            lines.extend(
                answers
                    .iter()
                    .filter(|answer| answer.due.is_some_and(|due| is_long(due, now)))
                    .map(|answer| (answer.due, kept_back_line(answer, now), "ironclad why evicted".to_owned())),
            );
        }
    }
    for binding in world.all_bindings() {
        for copy in old_copies(&binding, world, &Plugins::default(), now) {
            if is_long(copy.since, now) {
                let (key, resource) = (binding.key(), &binding.spec().resource);
                let line =
                    format!("{key} is leaving cluster {} for {}: {}", copy.from, span(copy.since, now), copy.because);
                let place = if resource.namespace.is_empty() { "" } else { " -n " };
                let remedy = format!(
                    "ironclad tree {}/{}{place}{}",
                    resource.kind.to_lowercase(),
                    resource.name,
                    resource.namespace
                );
                lines.push((Some(copy.since), line, remedy));
            }
        }
    }
    lines.sort();
    let more = lines.len().saturating_sub(2 * NAMED_MAX);
    for (_, line, remedy) in lines.into_iter().take(2 * NAMED_MAX) {
        found.push(Finding::new(Grade::Warning, line).remedy(remedy));
    }
    if more > 0 {
        let line = format!("{} more have waited for more than {} minutes", count(more, "move"), LONG_SECONDS / 60);
        found.push(Finding::new(Grade::Warning, line).remedy("ironclad why evicted"));
    }
}

fn kept_back_line(answer: &Answer, now: Timestamp) -> String {
    let Answer { binding, cluster, state, .. } = answer;
    let since = answer.due.map_or_else(String::new, |due| format!(" for {}", span(due, now)));
    let because = answer.waits_because.as_ref().or(answer.target.as_ref()).map_or("", String::as_str);
    format!("{binding} waits{since} to leave cluster {cluster} ({}): {because}", state.to_lowercase())
}

fn is_long(since: Timestamp, now: Timestamp) -> bool {
    now.duration_since(since).as_secs() >= LONG_SECONDS
}

/// A member's words without line breaks, cut.
fn words(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(WORDS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Old copy that an eviction task keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldCopy {
    /// The cluster that is left.
    pub from: ClusterName,
    pub since: Timestamp,
    /// Reason of the decision that ends tasks, and the state of the new copies.
    pub because: String,
}

/// Old copies of a binding, each with what it waits for, by the decision that ends the tasks.
#[must_use]
pub fn old_copies(binding: &Binding, world: &World, plugins: &Plugins, now: Timestamp) -> Vec<OldCopy> {
    let spec = binding.spec();
    if spec.graceful_eviction_tasks.is_empty() {
        return Vec::new();
    }
    let works = world.works.iter().filter(|(_, work)| is_of(work, binding));
    let works = works.map(|(key, work)| (key.cluster.clone(), &**work));
    let cluster = |name: &ClusterName| world.clusters.get(name).cloned();
    let all = Snapshot::new(binding.clone(), works, cluster, |key| world.bindings.get(key).cloned());
    let waiting = spec.graceful_eviction_tasks.iter().filter_map(|task| {
        let since = task.creation_timestamp.as_ref()?.0;
        let mut one = all.clone();
        one.binding.spec_mut().graceful_eviction_tasks = vec![task.clone()];
        let decision = graceful_eviction::decide(&one, plugins, now);
        // What ends now is on its way.
        if !decision.cleared.is_empty() {
            return None;
        }
        let mut because: Vec<String> = decision.plan.because.iter().map(ToString::to_string).collect();
        because.extend(replacements(binding));
        Some(OldCopy { from: task.from_cluster.as_str().into(), since, because: because.join("; ") })
    });
    waiting.collect()
}

fn is_of(work: &Work, binding: &Binding) -> bool {
    let view = binding.view();
    let id = work.metadata.labels.as_ref().and_then(|labels| labels.get(view.id_label()));
    id.is_some_and(|id| Some(id.as_str()) == view.permanent_id())
}

/// New copies of a binding that are not healthy, each with its cluster and state; `None` if all are.
#[must_use]
pub fn replacements(binding: &Binding) -> Option<String> {
    let items = binding.status().map_or(&[][..], |status| &status.aggregated_status);
    let state = |name: &str| match items.iter().find(|item| item.cluster_name == name) {
        None => Some("has not reported yet".to_owned()),
        Some(item) if !item.applied => Some(format!("is not applied: {}", words(&item.applied_message))),
        Some(item) => match item.health {
            Some(ResourceHealth::Healthy) => None,
            Some(ResourceHealth::Unhealthy) => Some("is unhealthy".to_owned()),
            _ => Some("has unknown health".to_owned()),
        },
    };
    let open = targets::targets(binding.spec())
        .into_iter()
        .filter_map(|target| Some(format!("the copy in {} {}", target.cluster, state(&target.cluster.0)?)));
    let open: Vec<String> = open.collect();
    (!open.is_empty()).then(|| open.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{objects, world_of};

    /// Two clusters; web is moved from m1, which is tainted, and its new copy in m2 does not start.
    const FLEET: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m1}, spec: {syncMode: Push, taints: [{key: k, effect: NoExecute, timeAdded: "1970-01-01T00:00:00Z"}]}, status: &ready {apiEnablements: [{groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}], conditions: [{type: Ready, status: "True", reason: ClusterReady, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m2}, spec: {syncMode: Push}, status: *ready}
- apiVersion: work.karmada.io/v1alpha2
  kind: ResourceBinding
  metadata: {name: web-deployment, namespace: shop, generation: 3, labels: {resourcebinding.karmada.io/permanent-id: b}}
  spec: {replicas: 2, replicaRequirements: {}, resource: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web}, clusters: [{name: m2, replicas: 2}], gracefulEvictionTasks: [{fromCluster: m1, reason: ClusterDrain, producer: Drain, creationTimestamp: "1970-01-01T00:01:40Z"}], placement: {}}
  status: {schedulerObservedGeneration: 3, aggregatedStatus: [{clusterName: m2, applied: true, health: Unhealthy}]}
- apiVersion: work.karmada.io/v1alpha1
  kind: Work
  metadata: {name: web, namespace: karmada-es-m2, labels: {resourcebinding.karmada.io/permanent-id: b}}
  spec: {workload: {manifests: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}}]}}
  status: {conditions: [{type: Applied, status: "True", reason: AppliedSuccessful, message: "", lastTransitionTime: "1970-01-01T00:01:40Z"}]}
"#;

    fn lines(change: &[(&str, &str)], rows: &[Row], second: i64) -> Vec<(String, String)> {
        let text = change.iter().fold(FLEET.to_owned(), |text, (from, to)| text.replace(from, to));
        let mut world = world_of(&text);
        for work in objects(&text).into_iter().filter(|object| object["kind"] == "Work") {
            world.insert_work(serde_json::from_value(work).unwrap());
        }
        let (now, mut found) = (Timestamp::from_second(second).unwrap(), Vec::new());
        refused(&world, now, &mut found);
        moves(&world, Leader { rows, ..Leader::default() }, &Settings::default(), now, &mut found);
        found.into_iter().map(|finding| (finding.what, finding.remedy.unwrap_or_default())).collect()
    }

    #[test]
    fn works_that_a_member_refuses_are_told_with_its_words() {
        let refusal = "status: \"False\", reason: AppliedFailed, message: \"admission webhook w denied\\n  it\"";
        let applied = "status: \"True\", reason: AppliedSuccessful, message: \"\"";
        let leaving = refusal.replace("AppliedFailed", "Terminating");
        let want = "cluster m2 does not take Deployment shop/web for 1m0s: admission webhook w denied it";
        for (name, condition, want) in [
            ("applied", applied, vec![]),
            ("refused", refusal, vec![(want.to_owned(), "ironclad tree deployment/web -n shop".to_owned())]),
            ("the old object is being deleted", &leaving, vec![]),
        ] {
            assert_eq!(lines(&[(applied, condition)], &[], 160), want, "{name}");
        }
        let long = "x".repeat(2 * WORDS_MAX);
        assert_eq!(words(&long).chars().count(), WORDS_MAX + 1);
    }

    #[test]
    fn moves_that_wait_for_minutes_say_for_what() {
        let kept =
            "shop/web-deployment is leaving cluster m1 for 5m0s: the copy in m1 stays until every new one is healthy";
        let unhealthy = format!("{kept}; the copy in m2 is unhealthy");
        let refused = format!("{kept}; the copy in m2 is not applied: quota exceeded");
        let empty = "shop/web-deployment is leaving cluster m1 for 5m0s: the copy in m1 stays: the schedule result is empty, \
                     and it may be the only copy";
        for (name, change, second, want) in [
            ("just moved", &[][..], 200, None),
            ("the new copy does not start", &[], 400, Some(unhealthy.as_str())),
            ("it is healthy: the task ends", &[("health: Unhealthy", "health: Healthy")], 400, None),
            (
                "it is refused",
                &[("applied: true, health: Unhealthy", "appliedMessage: quota exceeded")],
                400,
                Some(refused.as_str()),
            ),
            ("no cluster takes it", &[("clusters: [{name: m2, replicas: 2}], ", "clusters: [], ")], 400, Some(empty)),
        ] {
            let found: Vec<String> = lines(change, &[], second).into_iter().map(|(line, _)| line).collect();
            assert_eq!(
                found.iter().map(String::as_str).collect::<Vec<_>>(),
                want.into_iter().collect::<Vec<_>>(),
                "{name}"
            );
        }
    }

    #[test]
    fn evictions_that_the_queue_keeps_back_say_why() {
        let on_m1 = [
            (
                "clusters: [{name: m2, replicas: 2}], gracefulEvictionTasks:",
                "clusters: [{name: m1, replicas: 2}], unused:",
            ),
            ("clusterName: m2", "clusterName: m1"),
        ];
        let row = |state: Waiting| Row {
            binding: BindingKey { namespace: "shop".into(), name: "web-deployment".into() },
            resource: String::new(),
            cluster: "m1".into(),
            state,
            position: None,
            rebuilt: false,
            since: None,
            due: Timestamp::UNIX_EPOCH,
            causes: vec!["k:NoExecute".into()],
            purge_mode: "Gracefully".into(),
            expected: None,
            attempts: 0,
            because: Some("no available target cluster: too little room".into()),
        };
        let parked = "shop/web-deployment waits for 6m40s to leave cluster m1 (parked): no available target cluster: too little room";
        for (name, state, second, want) in [
            ("parked", Waiting::Parked, 400, Some(parked)),
            ("parked just now", Waiting::Parked, 100, None),
            ("its turn comes", Waiting::Queued, 400, None),
        ] {
            let found: Vec<String> = lines(&on_m1, &[row(state)], second).into_iter().map(|(line, _)| line).collect();
            assert_eq!(
                found.iter().map(String::as_str).collect::<Vec<_>>(),
                want.into_iter().collect::<Vec<_>>(),
                "{name}"
            );
        }
    }
}
