//! Decision of the binding status controller: aggregates the status of Works into the binding and the template
//! (specification/propagation.md 16, specification/propagation.md 17; specification/propagation.md 31 rows 5 and 6).

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use ironclad_api::{
    conditions::{self, FALSE, TRUE, binding::FULLY_APPLIED, work::APPLIED},
    events, names, reasons,
    work::{AggregatedStatusItem, ManifestStatus, ResourceHealth, Work},
};
use ironclad_fleet::{
    Because, ClusterName, Event, Plan, StatusPart,
    because::propagation::Reason,
    targets::{expected_clusters, targets},
};
use ironclad_interpreter::{Interpreter, Item, Operation};
use serde_json::{Map, Value, json};

use crate::{detector::binding::Binding, template::Identity};

/// Snapshot of one binding.
#[derive(Debug, Clone)]
pub struct Seen<'a> {
    /// The binding, with status parts that wait to be written.
    pub binding: Binding<'a>,
    /// All Works with its permanent id.
    pub works: &'a [&'a Work],
    /// The clusters of these Works whose Ready condition is not True.
    pub not_ready: &'a BTreeSet<ClusterName>,
    /// Targets for which the binding controller could not make a Work, with the reason.
    pub not_made: &'a BTreeMap<ClusterName, String>,
}

/// Write or event.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Set a part of the status of the binding or the template.
    Status(StatusPart),
    /// Record an event.
    Event(Event),
}

/// `aggregatedStatus` and the condition `FullyApplied` of a binding (specification/propagation.md 16). `now` is in
/// whole seconds.
pub fn binding(seen: &Seen<'_>, now: jiff::Timestamp) -> Plan<Effect> {
    let mut plan = Plan::default();
    if seen.binding.is_deleting() {
        return Plan::nothing(Reason::BindingDeleted { binding: seen.binding.key() }.into());
    }
    let old = seen.binding.status();
    let before: BTreeMap<&str, &AggregatedStatusItem> = old
        .map(|status| status.aggregated_status.iter().map(|item| (item.cluster_name.as_str(), item)).collect())
        .unwrap_or_default();
    let mut items = BTreeMap::new();
    for work in seen.works.iter().filter(|work| work.metadata.deletion_timestamp.is_none()) {
        let namespace = work.metadata.namespace.as_deref().unwrap_or_default();
        let Ok(cluster) = names::cluster_of_execution_namespace(namespace) else { continue };
        let ready = !seen.not_ready.contains(&ClusterName::from(cluster));
        items.insert(cluster.to_owned(), item(cluster, work, ready, before.get(cluster).copied(), now));
    }
    for target in targets(seen.binding.spec()) {
        if let Entry::Vacant(entry) = items.entry(target.cluster.to_string()) {
            let before = before.get(entry.key().as_str()).copied();
            if let Some(item) = not_made(&target.cluster, seen.not_made, before, now) {
                entry.insert(item);
            }
        }
    }
    let items: Vec<AggregatedStatusItem> = items.into_values().collect();
    let expected = expected_clusters(seen.binding.spec());
    let all = !expected.is_empty()
        && items.len() == expected.len()
        && items.iter().all(|item| item.applied && expected.contains(&ClusterName::from(item.cluster_name.as_str())));
    let mut part = StatusPart::default();
    if old.map(|status| status.aggregated_status.as_slice()).unwrap_or_default() != items {
        let value = if items.is_empty() { Value::Null } else { json!(items) };
        part.fields = Map::from_iter([("aggregatedStatus".to_owned(), value)]);
    }
    let (status, reason, message) = if all {
        (TRUE, reasons::binding::FULLY_APPLIED_SUCCESS, "All works have been successfully applied")
    } else {
        let message = "Failed to apply all works, see status.aggregatedStatus for details";
        (FALSE, reasons::binding::FULLY_APPLIED_FAILED, message)
    };
    let existing = old.and_then(|status| conditions::get(&status.conditions, FULLY_APPLIED));
    if existing.is_none_or(|c| (&*c.status, &*c.reason, &*c.message) != (status, reason, message)) {
        let mut condition = conditions::condition(FULLY_APPLIED, status, reason, message);
        condition.last_transition_time = ironclad_api::Time(now);
        part.conditions.push(condition);
    }
    if part.is_empty() {
        plan.note(Because::UpToDate);
    } else {
        plan.effects.push(Effect::Status(part));
    }
    plan
}

/// The item of a target without a Work, if it is known why there is none. A reason that was written before stays until
/// there is a Work: a process that has just started has not tried yet.
fn not_made(
    cluster: &ClusterName,
    reasons: &BTreeMap<ClusterName, String>,
    before: Option<&AggregatedStatusItem>,
    now: jiff::Timestamp,
) -> Option<AggregatedStatusItem> {
    let stored = before.filter(|item| !item.applied && !item.applied_message.is_empty());
    let message = reasons.get(cluster).or(stored.map(|item| &item.applied_message))?.clone();
    let health = Some(ResourceHealth::Unknown);
    let health_transition_time = match before.filter(|before| before.health == health) {
        Some(before) => before.health_transition_time.clone(),
        None => Some(ironclad_api::Time(now)),
    };
    Some(AggregatedStatusItem {
        cluster_name: cluster.to_string(),
        status: None,
        applied: false,
        applied_message: message,
        health,
        health_transition_time,
    })
}

/// The item of one cluster. A copy that is refused, or whose cluster is not ready, keeps its last known status:
/// numbers are neither invented nor hidden (specification/propagation.md 31 row 6).
fn item(
    cluster: &str,
    work: &Work,
    ready: bool,
    before: Option<&AggregatedStatusItem>,
    now: jiff::Timestamp,
) -> AggregatedStatusItem {
    let status = work.status.as_ref();
    let applied = status.and_then(|s| conditions::get(&s.conditions, APPLIED));
    let reported: Option<&ManifestStatus> = status.and_then(|s| s.manifest_statuses.first());
    let is_applied = applied.is_some_and(|condition| condition.status == TRUE);
    let health = Some(match reported {
        Some(reported) if is_applied && ready => reported.health.unwrap_or_default(),
        _ => ResourceHealth::Unknown,
    });
    // Do not add the field to an item of an older version: that alone is not worth a write.
    let health_transition_time = match before.filter(|before| before.health == health) {
        Some(before) => before.health_transition_time.clone(),
        None => Some(ironclad_api::Time(now)),
    };
    AggregatedStatusItem {
        cluster_name: cluster.to_owned(),
        status: reported
            .and_then(|t| t.status.clone())
            .or_else(|| before.filter(|_| reported.is_none())?.status.clone()),
        applied: is_applied,
        applied_message: match applied {
            Some(condition) if !is_applied => condition.message.clone(),
            _ => String::new(),
        },
        health,
        health_transition_time,
    }
}

/// Snapshot of one template.
#[derive(Debug, Clone, Copy)]
pub struct SeenTemplate<'a> {
    /// The template, with status parts that wait to be written.
    pub template: &'a Value,
    /// Its binding, with status parts that wait to be written.
    pub binding: Binding<'a>,
    /// Resource interpreter.
    pub interpreter: &'a Interpreter,
}

/// The status of a template from the items of its binding (specification/propagation.md 17). `now` is in whole
/// seconds.
pub fn template(seen: &SeenTemplate<'_>, now: jiff::Timestamp) -> Plan<Effect> {
    let identity = Identity::of(seen.template);
    if !seen.interpreter.implements(&identity.gvk(), Operation::AggregateStatus) {
        return Plan::nothing(Because::UpToDate);
    }
    let lines = seen.binding.status().map(|status| status.aggregated_status.as_slice()).unwrap_or_default();
    let items: Vec<Item<'_>> = lines.iter().map(Item::from).collect();
    let expected = expected_clusters(seen.binding.spec());
    match seen.interpreter.aggregate_status(seen.template, &items, &expected, &now.to_string()) {
        Ok(status) => {
            let part = StatusPart::replacing(seen.template.get("status").unwrap_or(&Value::Null), &status);
            if part.is_empty() {
                Plan::nothing(Because::UpToDate)
            } else {
                Plan::one(Effect::Status(part), Because::UpToDate)
            }
        }
        Err(error) => {
            let message = error.to_string();
            let event = Event::warning(identity.reference(), events::AGGREGATE_STATUS_FAILED, message.clone());
            Plan::one(Effect::Event(event), Reason::NotInterpreted { message }.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use ironclad_api::{
        Time,
        policy::PurgeMode,
        work::{
            BindingSnapshot, GracefulEvictionTask, ResourceBinding, ResourceBindingSpec, ResourceBindingStatus,
            ResourceIdentifier, TargetCluster, WorkSpec, WorkStatus,
        },
    };
    use jiff::Timestamp;

    use super::*;

    fn binding_to(clusters: &[&str]) -> ResourceBinding {
        let targets = clusters.iter().map(|name| TargetCluster { name: (*name).into(), ..TargetCluster::default() });
        ResourceBinding::new(
            "web-deployment",
            ResourceBindingSpec { clusters: targets.collect(), ..Default::default() },
        )
    }

    fn work(cluster: &str, applied: Option<(&str, &str)>, ready: Option<i64>) -> Work {
        let mut work = Work::new("web-x", WorkSpec::default());
        work.metadata.namespace = Some(names::execution_namespace(cluster));
        let conditions = applied.map(|(status, message)| {
            let mut c = conditions::condition(APPLIED, status, "AppliedFailed", message);
            c.last_transition_time = Time(Timestamp::UNIX_EPOCH);
            c
        });
        let reported = ready.map(|ready| ManifestStatus {
            identifier: ResourceIdentifier::default(),
            status: Some((&json!({"readyReplicas": ready})).into()),
            health: Some(ResourceHealth::Healthy),
        });
        work.status = Some(WorkStatus {
            conditions: conditions.into_iter().collect(),
            manifest_statuses: reported.into_iter().collect(),
        });
        work
    }

    fn after(binding: &ResourceBinding, works: &[Work], not_ready: &[&str]) -> ResourceBinding {
        let works: Vec<&Work> = works.iter().collect();
        let not_ready = not_ready.iter().map(|name| ClusterName::from(*name)).collect();
        let seen = Seen { binding: binding.into(), works: &works, not_ready: &not_ready, not_made: &BTreeMap::new() };
        let after = with_plan(binding, &super::binding(&seen, Timestamp::UNIX_EPOCH));
        let again = Seen { binding: (&after).into(), works: &works, not_ready: &not_ready, not_made: &BTreeMap::new() };
        assert!(super::binding(&again, Timestamp::UNIX_EPOCH).is_quiet(), "the second time nothing is new");
        after
    }

    fn with_plan(binding: &ResourceBinding, plan: &Plan<Effect>) -> ResourceBinding {
        let mut object = serde_json::to_value(binding).unwrap();
        for effect in &plan.effects {
            if let Effect::Status(part) = effect {
                object["status"] = StatusPart::applied(&object["status"], &[part]);
            }
        }
        serde_json::from_value(object).unwrap()
    }

    fn lines(binding: &ResourceBinding) -> Vec<(String, bool, String, Option<i64>, ResourceHealth)> {
        let status = binding.status.as_ref().unwrap();
        let line = |i: &AggregatedStatusItem| {
            let ready = i.status.as_ref().and_then(|s| s.value()["readyReplicas"].as_i64());
            (i.cluster_name.clone(), i.applied, i.applied_message.clone(), ready, i.health.unwrap())
        };
        status.aggregated_status.iter().map(line).collect()
    }

    fn fully_applied(binding: &ResourceBinding) -> bool {
        conditions::is_true(&binding.status.as_ref().unwrap().conditions, FULLY_APPLIED)
    }

    #[test]
    fn aggregated_status_items() {
        use ResourceHealth::{Healthy, Unknown};
        let ok = Some((TRUE, ""));
        for (name, work, not_ready, want) in [
            ("applied and reported", work("m1", ok, Some(2)), &[][..], (true, "", Some(2), Healthy)),
            ("applied, not reported yet", work("m1", ok, None), &[], (true, "", None, Unknown)),
            (
                "refused: its message",
                work("m1", Some((FALSE, "no such kind")), None),
                &[],
                (false, "no such kind", None, Unknown),
            ),
            (
                "refused later: the last status stays",
                work("m1", Some((FALSE, "no")), Some(2)),
                &[],
                (false, "no", Some(2), Unknown),
            ),
            ("not tried yet", work("m1", None, None), &[], (false, "", None, Unknown)),
            (
                "cluster not ready: numbers stay, health is unknown",
                work("m1", ok, Some(2)),
                &["m1"],
                (true, "", Some(2), Unknown),
            ),
        ] {
            let after = after(&binding_to(&["m1"]), &[work], not_ready);
            let (applied, message, ready, health) = want;
            assert_eq!(lines(&after), [("m1".to_owned(), applied, message.to_owned(), ready, health)], "{name}");
        }
    }

    #[test]
    fn health_transition_time_changes_with_health() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let reported = |health, ready| {
            let mut work = work("m1", Some((TRUE, "")), Some(ready));
            work.status.as_mut().unwrap().manifest_statuses[0].health = Some(health);
            work
        };
        let (well, ill) = (ResourceHealth::Healthy, ResourceHealth::Unhealthy);
        let mut binding = binding_to(&["m1"]);
        for (name, second, work, not_ready, want) in [
            ("first heard of", 10, reported(well, 2), &[][..], Some(10)),
            ("other numbers, the same verdict", 20, reported(well, 3), &[], Some(10)),
            ("unhealthy", 30, reported(ill, 1), &[], Some(30)),
            ("still", 40, reported(ill, 0), &[], Some(30)),
            ("its cluster is not ready: nobody can say", 50, reported(ill, 0), &["m1"], Some(50)),
            ("and back", 60, reported(ill, 0), &[], Some(60)),
        ] {
            let not_ready = not_ready.iter().map(|name| ClusterName::from(*name)).collect();
            let seen =
                Seen { binding: (&binding).into(), works: &[&work], not_ready: &not_ready, not_made: &BTreeMap::new() };
            binding = with_plan(&binding, &super::binding(&seen, at(second)));
            let line = &binding.status.as_ref().unwrap().aggregated_status[0];
            assert_eq!(line.health_transition_time.as_ref().map(|t| t.0.as_second()), want, "{name}");
        }
        let old = &mut binding.status.as_mut().unwrap().aggregated_status[0];
        old.health_transition_time = None;
        let work = reported(ill, 0);
        let seen = Seen {
            binding: (&binding).into(),
            works: &[&work],
            not_ready: &BTreeSet::new(),
            not_made: &BTreeMap::new(),
        };
        assert!(
            super::binding(&seen, at(70)).is_quiet(),
            "a line of an older version is not written for its time alone"
        );
    }

    #[test]
    fn target_without_a_work_is_reported_with_the_reason_until_it_has_one() {
        let failed =
            || BTreeMap::from([(ClusterName::from("m2"), "override for cluster m2: no such field".to_owned())]);
        let decide = |binding: &ResourceBinding, works: &[Work], not_made: &BTreeMap<ClusterName, String>| {
            let works: Vec<&Work> = works.iter().collect();
            let seen = Seen { binding: binding.into(), works: &works, not_ready: &BTreeSet::new(), not_made };
            with_plan(binding, &super::binding(&seen, Timestamp::UNIX_EPOCH))
        };
        let reported = |binding: &ResourceBinding| {
            let lines = lines(binding).into_iter();
            lines.map(|(cluster, applied, message, ..)| (cluster, applied, message)).collect::<Vec<_>>()
        };
        let m1 = || work("m1", Some((TRUE, "")), Some(1));
        let ok = |cluster: &str| (cluster.to_owned(), true, String::new());
        let refused = ("m2".to_owned(), false, "override for cluster m2: no such field".to_owned());

        let binding = decide(&binding_to(&["m1", "m2"]), &[m1()], &failed());
        assert_eq!(reported(&binding), [ok("m1"), refused.clone()]);
        assert!(!fully_applied(&binding));

        let restarted = decide(&binding, &[m1()], &BTreeMap::new());
        assert_eq!(reported(&restarted), [ok("m1"), refused], "a new process has not tried yet");

        let made = decide(&binding, &[m1(), work("m2", Some((TRUE, "")), None)], &BTreeMap::new());
        assert_eq!(reported(&made), [ok("m1"), ok("m2")], "the override was mended");
        assert!(fully_applied(&made));

        let had = decide(&binding_to(&["m1", "m2"]), &[m1(), work("m2", Some((FALSE, "no")), None)], &failed());
        assert_eq!(reported(&had)[1].2, "no", "a Work reports for itself");

        let mut moved = binding;
        moved.spec.clusters.pop();
        assert_eq!(reported(&decide(&moved, &[m1()], &failed())), [ok("m1")], "it is no target any more");
    }

    #[test]
    fn fully_applied_counts_expected_clusters() {
        let ok = |cluster: &str| work(cluster, Some((TRUE, "")), None);
        let no = |cluster: &str| work(cluster, Some((FALSE, "no")), None);
        for (name, clusters, works, want) in [
            ("all applied", &["m1", "m2"][..], vec![ok("m1"), ok("m2")], true),
            ("one refused", &["m1", "m2"], vec![ok("m1"), no("m2")], false),
            ("one missing", &["m1", "m2"], vec![ok("m1")], false),
            ("one too many", &["m1"], vec![ok("m1"), ok("m2")], false),
            ("none expected", &[], vec![], false),
            ("as many, but others", &["m1"], vec![ok("m2")], false),
        ] {
            assert_eq!(fully_applied(&after(&binding_to(clusters), &works, &[])), want, "{name}");
        }
    }

    #[test]
    fn terminating_works_are_ignored_and_items_are_sorted() {
        let mut going = work("m3", Some((TRUE, "")), Some(1));
        going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        let works = [work("m2", Some((TRUE, "")), Some(2)), going, work("m1", Some((TRUE, "")), Some(1))];
        let after = after(&binding_to(&["m1", "m2"]), &works, &[]);
        let names: Vec<_> = lines(&after).into_iter().map(|line| line.0).collect();
        assert_eq!(names, ["m1", "m2"]);
    }

    #[test]
    fn expected_clusters_include_referrers_and_graceful_evictions() {
        let mut spec = binding_to(&["a"]).spec;
        let snapshot = |name: &str| TargetCluster { name: name.into(), ..TargetCluster::default() };
        spec.required_by = vec![BindingSnapshot { clusters: vec![snapshot("b")], ..BindingSnapshot::default() }];
        let task = |from: &str, purge_mode| GracefulEvictionTask {
            from_cluster: from.into(),
            purge_mode,
            ..GracefulEvictionTask::default()
        };
        spec.graceful_eviction_tasks =
            vec![task("c", Some(PurgeMode::Gracefully)), task("d", Some(PurgeMode::Directly)), task("e", None)];
        let names: Vec<String> = expected_clusters(&spec).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["a", "b", "c", "e"]);
    }

    #[test]
    fn template_status_is_the_sum_of_its_items() {
        let mut binding = binding_to(&["m1", "m2"]);
        let line = |cluster: &str, template_generation: i64| AggregatedStatusItem {
            cluster_name: cluster.into(),
            applied: true,
            status: Some(
                (&json!({
                    "replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "availableReplicas": 2,
                    "generation": 1, "observedGeneration": 1, "resourceTemplateGeneration": template_generation,
                }))
                    .into(),
            ),
            ..AggregatedStatusItem::default()
        };
        let template = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "d", "generation": 4}});
        for (name, second, observed) in [("both at generation 4", 4, json!(4)), ("one still at 3", 3, Value::Null)] {
            let aggregated_status = vec![line("m1", 4), line("m2", second)];
            binding.status = Some(ResourceBindingStatus { aggregated_status, ..ResourceBindingStatus::default() });
            let interpreter = Interpreter::default();
            let seen = SeenTemplate { template: &template, binding: (&binding).into(), interpreter: &interpreter };
            let plan = super::template(&seen, Timestamp::UNIX_EPOCH);
            let [Effect::Status(part)] = &plan.effects[..] else { panic!("{name}: {plan:?}") };
            let status = StatusPart::applied(&Value::Null, &[part]);
            assert_eq!(status["readyReplicas"], 4, "{name}");
            assert_eq!(status.get("observedGeneration").cloned().unwrap_or_default(), observed, "{name}");
            let mut reported = template.clone();
            reported["status"] = status;
            let seen = SeenTemplate { template: &reported, ..seen };
            assert!(super::template(&seen, Timestamp::UNIX_EPOCH).is_quiet(), "{name}: the second time nothing is new");
        }
    }
}
