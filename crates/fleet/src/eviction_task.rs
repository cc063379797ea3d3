//! The write that evicts a binding from clusters: it removes them from the schedule result and adds a task for each
//! is still there (specification/failover.md 6.7 step 7, 7.1, 7.7). Who leaves, and when, is decided elsewhere.

use std::collections::BTreeSet;

use ironclad_api::{
    Time,
    eviction::BINDING_PREEMPTED,
    policy::PurgeMode,
    work::{GracefulEvictionTask, ResourceBindingSpec},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{BindingKey, ClusterName};

/// Bytes of a task's message that the API takes.
const MESSAGE_MAX: usize = 1_024;

/// Reason and purge mode of an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// Purge mode of the old copy.
    pub purge_mode: PurgeMode,
    /// One of `ironclad_api::eviction`, CamelCase and at most 32 characters.
    pub reason: &'static str,
    /// Producer, one of `ironclad_api::eviction`.
    pub producer: &'static str,
    /// Message for people; it is truncated to 1,024 bytes.
    pub message: String,
}

/// Task for an evicted copy, without a `creationTimestamp`: clients write it so, and the graceful eviction
/// controller dates it.
#[must_use]
pub fn task(spec: &ResourceBindingSpec, from: &ClusterName, why: &Why) -> GracefulEvictionTask {
    let replicas = spec.target(&from.0).map(|target| target.replicas).filter(|replicas| *replicas > 0);
    GracefulEvictionTask {
        from_cluster: from.to_string(),
        purge_mode: Some(why.purge_mode),
        replicas,
        reason: why.reason.to_owned(),
        message: cut(&why.message),
        producer: why.producer.to_owned(),
        ..GracefulEvictionTask::default()
    }
}

/// The task as controllers write it. Their clock is the one of the graceful eviction controller, which need not date it
/// in a write of its own, while the scheduler writes the result (docs/decisions).
#[must_use]
pub fn dated(task: GracefulEvictionTask, now: Timestamp) -> GracefulEvictionTask {
    let seconds = Timestamp::from_second(now.as_second()).map(Time).ok();
    GracefulEvictionTask { creation_timestamp: seconds, ..task }
}

/// Beginning of the message of a preempted binding's task, before the key of the preemptor.
const PREEMPTED_BY: &str = "preempted by ";

/// Message of a preempted binding's task, which names the preemptor and its priority.
#[must_use]
pub fn preempted_by(preemptor: &BindingKey, priority: i32) -> String {
    format!("{PREEMPTED_BY}{preemptor} (priority {priority})")
}

/// The preemptor that the task of a preempted binding names by [`preempted_by`]; `None` for other tasks. Tasks have no
/// field for it.
#[must_use]
pub fn preemptor(task: &GracefulEvictionTask) -> Option<BindingKey> {
    let named = task.message.strip_prefix(PREEMPTED_BY).filter(|_| task.reason == BINDING_PREEMPTED)?;
    let (namespace, name) = named.split(' ').next()?.split_once('/')?;
    Some(BindingKey { namespace: namespace.into(), name: name.into() })
}

/// The merge patch of the binding. A cluster that has a task already leaves the result and gets no second one; clusters
/// that are in no result are left alone. `None` if nothing would change.
#[must_use]
pub fn patch(spec: &ResourceBindingSpec, tasks: &[GracefulEvictionTask]) -> Option<Value> {
    let left: BTreeSet<&str> = tasks.iter().map(|task| task.from_cluster.as_str()).collect();
    let stay: Vec<_> = spec.clusters.iter().filter(|target| !left.contains(target.name.as_str())).collect();
    if stay.len() == spec.clusters.len() {
        return None;
    }
    let mut list: Vec<&GracefulEvictionTask> = spec.graceful_eviction_tasks.iter().collect();
    for task in tasks.iter().filter(|task| spec.target(&task.from_cluster).is_some()) {
        if !list.iter().any(|existing| existing.from_cluster == task.from_cluster) {
            list.push(task);
        }
    }
    let clusters = if stay.is_empty() { Value::Null } else { json!(stay) };
    Some(json!({ "spec": { "clusters": clusters, "gracefulEvictionTasks": list } }))
}

/// The merge patch that replaces the task list alone.
#[must_use]
pub fn tasks_patch(tasks: &[GracefulEvictionTask]) -> Value {
    let tasks = if tasks.is_empty() { Value::Null } else { json!(tasks) };
    json!({ "spec": { "gracefulEvictionTasks": tasks } })
}

fn cut(message: &str) -> String {
    if message.len() <= MESSAGE_MAX {
        return message.to_owned();
    }
    let end = (0..=MESSAGE_MAX - 3).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &message[..end])
}

#[cfg(test)]
mod tests {
    use ironclad_api::{
        eviction::{PRODUCER_TAINT_MANAGER, TAINT_UNTOLERATED},
        work::TargetCluster,
    };

    use super::*;

    fn spec(result: &[(&str, i32)], tasks: Vec<GracefulEvictionTask>) -> ResourceBindingSpec {
        let target = |(name, replicas): &(&str, i32)| TargetCluster {
            name: (*name).to_owned(),
            replicas: *replicas,
            components: Vec::new(),
        };
        let clusters = result.iter().map(target).collect();
        ResourceBindingSpec { clusters, graceful_eviction_tasks: tasks, ..ResourceBindingSpec::default() }
    }

    fn existing(from: &str) -> GracefulEvictionTask {
        let begun = Timestamp::from_second(0).unwrap();
        GracefulEvictionTask {
            from_cluster: from.to_owned(),
            reason: TAINT_UNTOLERATED.to_owned(),
            producer: PRODUCER_TAINT_MANAGER.to_owned(),
            creation_timestamp: Some(Time(begun)),
            ..GracefulEvictionTask::default()
        }
    }

    #[test]
    fn task_of_a_preempted_binding_names_its_preemptor() {
        let preemptor = BindingKey { namespace: "shop".into(), name: "web-deployment".into() };
        let task = |reason: &str, message: String| GracefulEvictionTask {
            reason: reason.to_owned(),
            message,
            ..GracefulEvictionTask::default()
        };
        let message = preempted_by(&preemptor, -7);
        assert_eq!(message, "preempted by shop/web-deployment (priority -7)");
        for (name, task, want) in [
            ("as it is written", task(BINDING_PREEMPTED, message.clone()), Some(&preemptor)),
            ("a task for another reason", task(TAINT_UNTOLERATED, message), None),
            ("a message of somebody else", task(BINDING_PREEMPTED, "shop/web-deployment wants it".into()), None),
            ("no key", task(BINDING_PREEMPTED, "preempted by web".into()), None),
            ("no message", task(BINDING_PREEMPTED, String::new()), None),
        ] {
            assert_eq!(super::preemptor(&task).as_ref(), want, "{name}");
        }
    }

    fn why() -> Why {
        Why {
            purge_mode: PurgeMode::Gracefully,
            reason: TAINT_UNTOLERATED,
            producer: PRODUCER_TAINT_MANAGER,
            message: "because".into(),
        }
    }

    #[test]
    fn eviction_replaces_a_target_by_a_task() {
        let full = spec(&[("m1", 2), ("m2", 1)], vec![]);
        let left = task(&full, &"m1".into(), &why());
        assert_eq!(left.replicas, Some(2), "the task records the replicas");
        assert_eq!(left.creation_timestamp, None);
        let at = |ms| Timestamp::from_millisecond(ms).unwrap();
        let of_controllers = dated(left.clone(), at(7_999));
        assert_eq!(
            of_controllers.creation_timestamp,
            Some(Time(at(7_000))),
            "times are truncated to seconds, as in JSON"
        );
        assert_eq!(GracefulEvictionTask { creation_timestamp: None, ..of_controllers }, left);
        let patch_of = |spec: &ResourceBindingSpec, names: &[&str]| {
            let tasks: Vec<_> = names.iter().map(|name| task(spec, &(*name).into(), &why())).collect();
            let object = json!({ "spec": spec });
            let mut after = object.clone();
            let patch = patch(spec, &tasks)?;
            for (field, value) in patch["spec"].as_object().unwrap() {
                match value {
                    Value::Null => drop(after["spec"].as_object_mut().unwrap().remove(field)),
                    _ => after["spec"][field] = value.clone(),
                }
            }
            let after: ResourceBindingSpec = serde_json::from_value(after["spec"].clone()).unwrap();
            let names = after.clusters.iter().map(|t| t.name.clone()).collect::<Vec<_>>().join(",");
            let tasks = after.graceful_eviction_tasks.iter().map(|t| t.from_cluster.clone()).collect::<Vec<_>>();
            Some((names, tasks.join(","), after.graceful_eviction_tasks))
        };
        for (name, before, leaving, want) in [
            ("one of two clusters is evicted", full.clone(), &["m1"][..], Some(("m2", "m1"))),
            (
                "both are evicted in one patch, in the order of the result",
                full.clone(),
                &["m2", "m1"],
                Some(("", "m2,m1")),
            ),
            ("the cluster is not a target", full, &["m9"], None),
            (
                "the cluster has a task and is a target again: no second task (B56)",
                spec(&[("m1", 2), ("m2", 1)], vec![existing("m1")]),
                &["m1"],
                Some(("m2", "m1")),
            ),
            (
                "tasks keep the order of creation",
                spec(&[("m1", 2), ("m2", 1)], vec![existing("m3")]),
                &["m1"],
                Some(("m2", "m3,m1")),
            ),
        ] {
            let got = patch_of(&before, leaving);
            assert_eq!(got.as_ref().map(|(a, b, _)| (a.as_str(), b.as_str())), want, "{name}");
        }
        let (_, _, tasks) = patch_of(&spec(&[("m1", 2)], vec![existing("m1")]), &["m1"]).unwrap();
        assert_eq!(tasks, [existing("m1")], "the existing task does not change");
        let none = task(&spec(&[("m1", 0)], vec![]), &"m1".into(), &why());
        assert_eq!(none.replicas, None, "a workload without replicas has none in its task");
    }

    #[test]
    fn long_messages_are_truncated() {
        let long = Why { message: "ä".repeat(1_000), ..why() };
        let task = task(&spec(&[("m1", 1)], vec![]), &"m1".into(), &long);
        assert!(task.message.len() <= 1_024 && task.message.ends_with("ä..."), "{}", task.message.len());
    }
}
