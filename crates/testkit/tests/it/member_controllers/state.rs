//! State of a namespace, without what differs between any two clusters: names with random parts, times, addresses.

use std::collections::BTreeMap;

use anyhow::bail;
use serde_json::Value;

use super::scenario::lookup;

/// Compared facts: `object: field` and its value, or `pods of owner: description` and their number.
pub(crate) type State = BTreeMap<String, String>;

/// Fields that are compared, by kind. Conditions are compared with status and reason.
const FIELDS: [(&str, &[&str]); 14] = [
    (
        "Deployment",
        &[
            "/metadata/annotations/deployment.kubernetes.io~1revision",
            "/spec/replicas",
            "/spec/paused",
            "/status/replicas",
            "/status/updatedReplicas",
            "/status/readyReplicas",
            "/status/availableReplicas",
            "/status/unavailableReplicas",
            "/status/conditions",
        ],
    ),
    (
        "ReplicaSet",
        &[
            "/spec/replicas", "/status/replicas", "/status/fullyLabeledReplicas", "/status/readyReplicas",
            "/status/availableReplicas", "/status/conditions",
        ],
    ),
    (
        "StatefulSet",
        &[
            "/spec/replicas", "/status/replicas", "/status/readyReplicas", "/status/availableReplicas",
            "/status/currentReplicas", "/status/updatedReplicas", "/status/conditions",
        ],
    ),
    (
        "DaemonSet",
        &[
            "/status/desiredNumberScheduled", "/status/currentNumberScheduled", "/status/numberMisscheduled",
            "/status/numberReady", "/status/numberAvailable", "/status/numberUnavailable",
            "/status/updatedNumberScheduled",
        ],
    ),
    (
        "Job",
        &[
            "/status/active", "/status/ready", "/status/succeeded", "/status/failed", "/status/completedIndexes",
            "/status/failedIndexes", "/status/conditions",
        ],
    ),
    ("CronJob", &["/spec/suspend"]),
    ("HorizontalPodAutoscaler", &["/status/currentReplicas", "/status/desiredReplicas", "/status/conditions"]),
    (
        "PodDisruptionBudget",
        &[
            "/status/currentHealthy", "/status/desiredHealthy", "/status/disruptionsAllowed", "/status/expectedPods",
            "/status/conditions",
        ],
    ),
    ("ResourceQuota", &["/status/hard", "/status/used"]),
    ("PersistentVolumeClaim", &[]),
    ("ConfigMap", &["/data"]),
    ("Service", &["/spec/type"]),
    ("EndpointSlice", &["/ports"]),
    ("ControllerRevision", &["/revision"]),
];

/// Objects that a cluster makes in every namespace.
const EVERYWHERE: [&str; 1] = ["kube-root-ca.crt"];

/// Returns the path of a list of this kind in a namespace.
pub(crate) fn path(plural: &str, namespace: &str) -> anyhow::Result<String> {
    let group = match plural {
        "pods" | "persistentvolumeclaims" | "configmaps" | "services" | "resourcequotas" => "api/v1",
        "deployments" | "replicasets" | "statefulsets" | "daemonsets" | "controllerrevisions" => "apis/apps/v1",
        "jobs" | "cronjobs" => "apis/batch/v1",
        "horizontalpodautoscalers" => "apis/autoscaling/v2",
        "poddisruptionbudgets" => "apis/policy/v1",
        "endpointslices" => "apis/discovery.k8s.io/v1",
        other => bail!("{other} is not known: add it to state::path"),
    };
    Ok(format!("/{group}/namespaces/{namespace}/{plural}"))
}

/// Returns the state of these objects.
pub(crate) fn state(objects: &[Value]) -> State {
    let mut state = State::new();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for object in objects {
        let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
        if EVERYWHERE.contains(&name) {
            continue;
        }
        let key = label(object, objects);
        if kind == "Pod" {
            *counts.entry(format!("{key}: {}", pod(object))).or_default() += 1;
            continue;
        }
        if kind == "EndpointSlice" {
            for endpoint in object["endpoints"].as_array().into_iter().flatten() {
                let ready = endpoint["conditions"]["ready"] == true;
                *counts.entry(format!("{key}: endpoint ready {ready}")).or_default() += 1;
            }
        }
        state.insert(key.clone(), "exists".into());
        if !object["metadata"]["deletionTimestamp"].is_null() {
            state.insert(format!("{key}: deletionTimestamp"), "set".into());
        }
        let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let owners: Vec<&str> = owners.map(|owner| text(owner, "/kind")).collect();
        if !owners.is_empty() {
            state.insert(format!("{key}: owners"), owners.join(", "));
        }
        let fields = FIELDS.iter().find(|(of, _)| *of == kind).map(|(_, fields)| *fields).unwrap_or_default();
        for field in fields {
            flatten(&mut state, &format!("{key}: {field}"), lookup(object, field));
        }
        if kind == "StatefulSet" {
            let same = object["status"]["currentRevision"] == object["status"]["updateRevision"];
            state.insert(format!("{key}: one revision"), same.to_string());
        }
    }
    state.extend(counts.into_iter().map(|(key, count)| (key, count.to_string())));
    state
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    lookup(object, path).as_str().unwrap_or("")
}

/// Returns a name that is the same in both clusters.
fn label(object: &Value, all: &[Value]) -> String {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let Some(owner) = owners.find(|owner| owner["controller"] == true) else {
        // A ReplicaSet that outlived its Deployment.
        let hash = format!("-{}", text(object, "/metadata/labels/pod-template-hash"));
        return format!("{kind} {}", name.strip_suffix(&hash).unwrap_or(name));
    };
    let of = all.iter().find(|other| other["metadata"]["uid"] == owner["uid"]);
    let of = of.map_or_else(|| format!("deleted {}", text(owner, "/kind")), |owner| label(owner, all));
    match kind {
        // Their names end in a hash or in random letters.
        "ReplicaSet" => {
            let revision = text(object, "/metadata/annotations/deployment.kubernetes.io~1revision");
            format!("ReplicaSet {revision} of {of}")
        }
        "Pod" if text(owner, "/kind") == "StatefulSet" => format!("Pod {name} of {of}"),
        "Pod" => {
            let index = text(object, "/metadata/annotations/batch.kubernetes.io~1job-completion-index");
            if index.is_empty() { format!("Pods of {of}") } else { format!("Pods {index} of {of}") }
        }
        "ControllerRevision" => format!("ControllerRevision {} of {of}", object["revision"]),
        "PersistentVolumeClaim" | "ConfigMap" => format!("{kind} {name}"),
        _ => format!("{kind} of {of}"),
    }
}

/// Describes a pod in a few words.
fn pod(pod: &Value) -> String {
    let mut words = vec![text(pod, "/status/phase").to_owned()];
    let scheduled = lookup(pod, "/status/conditions/PodScheduled");
    // kube-scheduler's attempt to bind a Pod that replaces one of the same name may fail, and be reported after another
    // attempt succeeded and kwok reported the Pod as running.
    let is_outdated = text(scheduled, "/reason") == "SchedulerError" && !text(pod, "/spec/nodeName").is_empty();
    if scheduled["status"] == "False" && !is_outdated {
        words.push(text(scheduled, "/reason").to_owned());
    }
    if lookup(pod, "/status/conditions/Ready")["status"] == "True" {
        words.push("ready".into());
    }
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    words.extend(containers.map(|container| text(container, "/image").to_owned()));
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        words.push("terminating".into());
    }
    words.join(" ")
}

/// Adds the leaves of a value. What is absent and what is zero, false or empty are the same.
fn flatten(state: &mut State, key: &str, value: &Value) {
    match value {
        Value::Null | Value::Bool(false) => {}
        Value::Number(number) if number.as_i64() == Some(0) => {}
        Value::Array(items) if key.ends_with("conditions") => {
            for condition in items {
                let said = format!("{} {}", text(condition, "/status"), text(condition, "/reason"));
                state.insert(format!("{key}/{}", text(condition, "/type")), said);
            }
        }
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                flatten(state, &format!("{key}/{n}"), item);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                flatten(state, &format!("{key}/{name}"), field);
            }
        }
        Value::String(text) if text.is_empty() => {}
        Value::String(text) => drop(state.insert(key.to_owned(), text.clone())),
        other => drop(state.insert(key.to_owned(), other.to_string())),
    }
}

#[test]
fn random_names_and_zeros_do_not_count() {
    let named = |name: &str, uid: &str, pods: [&str; 2], zero: Value| {
        let set = serde_json::json!({
            "kind": "ReplicaSet",
            "metadata": {"name": name, "uid": uid, "annotations": {"deployment.kubernetes.io/revision": "2"},
                "ownerReferences": [{"kind": "Deployment", "uid": "gone", "controller": true}]},
            "status": {"replicas": 2, "readyReplicas": zero},
        });
        let pod = |name: &str| {
            serde_json::json!({
                "kind": "Pod",
                "metadata": {"name": name, "ownerReferences": [{"kind": "ReplicaSet", "uid": uid, "controller": true}]},
                "spec": {"containers": [{"image": "i:1"}]},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            })
        };
        state(&[set, pod(pods[0]), pod(pods[1])])
    };
    let one = named("web-5d8", "a", ["web-5d8-x", "web-5d8-y"], Value::Null);
    assert_eq!(one, named("web-7c9", "b", ["web-7c9-p", "web-7c9-q"], 0.into()));
    assert_eq!(one["Pods of ReplicaSet 2 of deleted Deployment: Running ready i:1"], "2");
}

#[test]
fn failed_attempt_to_bind_a_pod_that_has_a_node_does_not_count() {
    let described = |reason: &str, node: Value| {
        let scheduled = serde_json::json!({"type": "PodScheduled", "status": "False", "reason": reason});
        pod(&serde_json::json!({
            "spec": {"nodeName": node, "containers": [{"image": "i:1"}]},
            "status": {"phase": "Running", "conditions": [scheduled, {"type": "Ready", "status": "True"}]},
        }))
    };
    for (reason, node, want) in [
        ("SchedulerError", "n".into(), "Running ready i:1"),
        ("SchedulerError", Value::Null, "Running SchedulerError ready i:1"),
        ("Unschedulable", "n".into(), "Running Unschedulable ready i:1"),
    ] {
        assert_eq!(described(reason, node), want);
    }
}
