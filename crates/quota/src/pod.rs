//! Use of resources by pods.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::amounts::{Amounts, add, count, raise, read};

const COUNT: &str = "count/pods";
/// Names that pods are charged for, besides those with a prefix.
const NAMES: [&str; 11] = [
    COUNT, "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage",
    "limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods",
];
/// Names that every container must state once a quota counts them. Kubernetes adds no others to this list.
const REQUIRED: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
const HUGE_PAGES: &str = "hugepages-";
const REQUESTS: &str = "requests.";
/// Prefix of extended resources that device classes stand for.
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// Returns `true` if pods are charged for the resource of this name.
pub(crate) fn is_charged(name: &str) -> bool {
    NAMES.contains(&name)
        || name.starts_with(HUGE_PAGES)
        || name.strip_prefix(REQUESTS).is_some_and(|rest| rest.starts_with(HUGE_PAGES) || is_extended(rest))
}

/// Returns `true` for extended resources such as `example.com/gpu`. Names of containers' resources were validated.
fn is_extended(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    (!native || name.starts_with(DEVICE_CLASS)) && !name.starts_with(REQUESTS)
}

/// Returns what a pod uses. A pod that has ended, or outlived its grace period, counts as an object only.
pub(crate) fn usage(pod: &Value, now: Timestamp) -> Amounts {
    let mut out = Amounts::from([(COUNT.to_owned(), count(1))]);
    if !has_ended(pod, now) {
        add(&mut out, &charged(&requests(pod), &limits(pod)));
    }
    out
}

/// Returns `true` for a pod that has succeeded or failed, or whose grace period is over: its node may be lost, and
/// it must not keep others from starting.
fn has_ended(pod: &Value, now: Timestamp) -> bool {
    if matches!(pod.pointer("/status/phase").and_then(Value::as_str), Some("Succeeded" | "Failed")) {
        return true;
    }
    let at = pod.pointer("/metadata/deletionTimestamp").and_then(Value::as_str).and_then(|at| at.parse().ok());
    let grace = pod.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    at.zip(grace).is_some_and(|(at, grace): (Timestamp, i64)| {
        at.saturating_add(SignedDuration::from_secs(grace)).is_ok_and(|end| now > end)
    })
}

/// Names the uses of requests and limits as quotas do.
fn charged(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut out = Amounts::from([("pods".to_owned(), count(1))]);
    for (name, amount) in requests {
        let basic = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with(HUGE_PAGES);
        if basic {
            out.insert(name.clone(), amount.clone());
        }
        if basic || is_extended(name) {
            out.insert(format!("{REQUESTS}{name}"), amount.clone());
        }
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(amount) = limits.get(name) {
            out.insert(format!("limits.{name}"), amount.clone());
        }
    }
    out
}

/// Returns the required names that containers do not state, with the containers. Without them the pod can't be charged.
pub(crate) fn unstated(pod: &Value, hard: &Amounts) -> BTreeMap<String, BTreeSet<String>> {
    let mut out: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    if has_pod_resources(pod) {
        return out;
    }
    let containers = ["containers", "initContainers"].into_iter().flat_map(|list| containers(pod, list));
    for container in containers {
        let resources = &container["resources"];
        let stated = charged(&read(resources.get("requests")), &read(resources.get("limits")));
        for name in REQUIRED.iter().filter(|name| hard.contains_key(**name) && !stated.contains_key(**name)) {
            let container = container["name"].as_str().unwrap_or_default();
            out.entry((*name).to_owned()).or_default().insert(container.to_owned());
        }
    }
    out
}

fn containers<'a>(pod: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    pod["spec"][list].as_array().into_iter().flatten()
}

/// Returns `true` for resources that a pod can state as a whole.
fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

/// Returns the amounts that a pod states as a whole.
fn pod_resources(pod: &Value, side: &str) -> Amounts {
    let mut stated = read(pod["spec"]["resources"].get(side));
    stated.retain(|name, _| is_of_pods(name));
    stated
}

fn has_pod_resources(pod: &Value) -> bool {
    ["requests", "limits"].iter().any(|side| !pod_resources(pod, side).is_empty())
}

fn requests(pod: &Value) -> Amounts {
    let mut sum = of_containers(pod, "requests");
    sum.extend(pod_resources(pod, "requests"));
    add(&mut sum, &read(pod["spec"].get("overhead")));
    sum
}

fn limits(pod: &Value) -> Amounts {
    let mut sum = of_containers(pod, "limits");
    sum.extend(pod_resources(pod, "limits"));
    let mut overhead = read(pod["spec"].get("overhead"));
    overhead.retain(|name, _| sum.get(name).is_some_and(|limit| !limit.is_zero()));
    add(&mut sum, &overhead);
    sum
}

/// Returns the sum over a pod's containers: init containers run one after the other before the others, sidecars beside
/// them.
fn of_containers(pod: &Value, side: &str) -> Amounts {
    let (mut sum, mut sidecars, mut starting) = (Amounts::new(), Amounts::new(), Amounts::new());
    for container in containers(pod, "containers") {
        add(&mut sum, &in_effect(pod, container, "containerStatuses", side));
    }
    for container in containers(pod, "initContainers") {
        if container["restartPolicy"] == "Always" {
            let asked = in_effect(pod, container, "initContainerStatuses", side);
            add(&mut sum, &asked);
            add(&mut sidecars, &asked);
            raise(&mut starting, &sidecars);
        } else {
            let mut asked = read(container["resources"].get(side));
            add(&mut asked, &sidecars);
            raise(&mut starting, &asked);
        }
    }
    raise(&mut sum, &starting);
    sum
}

/// Returns the amounts of a container while it is resized: the largest of what is asked, allocated and in use.
fn in_effect(pod: &Value, container: &Value, statuses: &str, side: &str) -> Amounts {
    let asked = read(container["resources"].get(side));
    let mut statuses = pod["status"][statuses].as_array().into_iter().flatten();
    let Some(status) = statuses.find(|s| s["name"] == container["name"] && s["resources"].is_object()) else {
        return asked;
    };
    let mut out = if is_infeasible(pod) { Amounts::new() } else { asked };
    raise(&mut out, &read(status["resources"].get(side)));
    if side == "requests" {
        raise(&mut out, &read(status.get("allocatedResources")));
    }
    out
}

/// Returns `true` if the resize that is asked for will never be granted.
fn is_infeasible(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|c| c["type"] == "PodResizePending").is_some_and(|c| c["reason"] == "Infeasible")
}

/// Returns `true` for a pod with a bound on its running time.
pub(crate) fn is_terminating(pod: &Value) -> bool {
    pod.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds >= 0)
}

/// Returns `true` for a pod that asks for neither CPU nor memory.
pub(crate) fn is_best_effort(pod: &Value) -> bool {
    if let Some(class) = pod.pointer("/status/qosClass").and_then(Value::as_str).filter(|class| !class.is_empty()) {
        return class == "BestEffort";
    }
    let asks = |resources: &Value| {
        let amounts = ["requests", "limits"].into_iter().map(|side| read(resources.get(side)));
        amounts.flatten().any(|(name, amount)| matches!(name.as_str(), "cpu" | "memory") && !amount.is_zero())
    };
    let mut all = ["containers", "initContainers"].into_iter().flat_map(|list| containers(pod, list));
    !asks(&pod["spec"]["resources"]) && !all.any(|container| asks(&container["resources"]))
}

/// Returns `true` if the pod's affinity looks at pods of other namespaces.
pub(crate) fn looks_at_other_namespaces(pod: &Value) -> bool {
    let crosses = |term: &Value| {
        term["namespaces"].as_array().is_some_and(|list| !list.is_empty()) || term["namespaceSelector"].is_object()
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        let affinity = &pod["spec"]["affinity"][kind];
        let list = |name: &str| affinity[name].as_array().into_iter().flatten();
        list("requiredDuringSchedulingIgnoredDuringExecution").any(crosses)
            || list("preferredDuringSchedulingIgnoredDuringExecution").any(|term| crosses(&term["podAffinityTerm"]))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::amounts::{listed, tests::amounts};

    fn now() -> Timestamp {
        Timestamp::from_second(1_000).unwrap()
    }

    fn container(name: &str, requests: Value, limits: Value) -> Value {
        json!({"name": name, "resources": {"requests": requests, "limits": limits}})
    }

    fn asking(cpu: &str) -> Value {
        container("c", json!({"cpu": cpu}), json!({}))
    }

    #[test]
    fn pods_use_what_their_containers_ask_for() {
        let none = json!({});
        for (name, spec, want) in [
            ("nothing", json!({"containers": [container("c", none.clone(), none.clone())]}), "count/pods=1,pods=1"),
            (
                "requests and limits",
                json!({"containers": [container("c", json!({"cpu": "100m", "memory": "1Gi"}), json!({"cpu": "1"}))]}),
                "count/pods=1,cpu=100m,limits.cpu=1,memory=1Gi,pods=1,requests.cpu=100m,requests.memory=1Gi",
            ),
            (
                "ephemeral storage",
                json!({"containers": [container("c", json!({"ephemeral-storage": "1Gi"}), json!({"ephemeral-storage": "2Gi"}))]}),
                "count/pods=1,ephemeral-storage=1Gi,limits.ephemeral-storage=2Gi,pods=1,requests.ephemeral-storage=1Gi",
            ),
            (
                "huge pages, and extended resources under requests only",
                json!({"containers": [container("c", json!({"hugepages-2Mi": "4Mi", "example.com/gpu": "2"}), json!({"example.com/gpu": "2"}))]}),
                "count/pods=1,hugepages-2Mi=4Mi,pods=1,requests.example.com/gpu=2,requests.hugepages-2Mi=4Mi",
            ),
            (
                "containers add up",
                json!({"containers": [asking("1"), asking("500m")]}),
                "count/pods=1,cpu=1500m,pods=1,requests.cpu=1500m",
            ),
            (
                "the largest init container counts if it asks for more",
                json!({"containers": [asking("1")], "initContainers": [asking("3"), asking("2")]}),
                "count/pods=1,cpu=3,pods=1,requests.cpu=3",
            ),
            (
                "a sidecar runs beside all others",
                json!({"containers": [asking("1")], "initContainers": [
                    {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}, asking("4")]}),
                "count/pods=1,cpu=5,pods=1,requests.cpu=5",
            ),
            (
                "what the pod states as a whole takes precedence",
                json!({"containers": [asking("1")], "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}}),
                "count/pods=1,cpu=2,limits.memory=1Gi,pods=1,requests.cpu=2",
            ),
            (
                "overhead raises requests, and limits that are set",
                json!({"containers": [container("c", json!({"cpu": "1"}), json!({"cpu": "2"}))],
                    "overhead": {"cpu": "250m", "memory": "64Mi"}}),
                "count/pods=1,cpu=1250m,limits.cpu=2250m,memory=64Mi,pods=1,requests.cpu=1250m,requests.memory=64Mi",
            ),
        ] {
            assert_eq!(listed(&usage(&json!({"spec": spec}), now())), want, "{name}");
        }
    }

    #[test]
    fn pods_that_have_ended_count_as_objects_only() {
        let pod = |metadata: Value, phase: &str| json!({"metadata": metadata, "spec": {"containers": [asking("1")]}, "status": {"phase": phase}});
        let deleted = |at: i64, grace: i64| json!({"deletionTimestamp": Timestamp::from_second(at).unwrap().to_string(), "deletionGracePeriodSeconds": grace});
        for (name, pod, ended) in [
            ("running", pod(json!({}), "Running"), false),
            ("succeeded", pod(json!({}), "Succeeded"), true),
            ("failed", pod(json!({}), "Failed"), true),
            ("exactly at the end of its grace", pod(deleted(970, 30), "Running"), false),
            ("a second later", pod(deleted(969, 30), "Running"), true),
        ] {
            assert_eq!(usage(&pod, now()).len() == 1, ended, "{name}");
        }
    }

    #[test]
    fn a_resize_is_charged_with_the_largest_amount_until_it_is_done() {
        let pod = |condition: Value| {
            json!({"spec": {"containers": [container("c", json!({"cpu": "3"}), json!({"cpu": "3"}))]}, "status": {
                "conditions": condition,
                "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "2"},
                    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}}}],
            }})
        };
        for (name, pod, want) in [
            ("asked for", pod(json!([])), [("cpu", "3"), ("limits.cpu", "4")]),
            (
                "never to be granted",
                pod(json!([{"type": "PodResizePending", "reason": "Infeasible"}])),
                [("cpu", "2"), ("limits.cpu", "4")],
            ),
        ] {
            let used = usage(&pod, now());
            for (resource, amount) in amounts(&want) {
                assert_eq!(used[&resource], amount, "{name}: {resource}");
            }
        }
    }

    #[test]
    fn every_container_states_what_a_quota_requires() {
        let none = json!({});
        let pod = json!({"spec": {
            "containers": [container("b", json!({"cpu": "1"}), none.clone()), container("a", none.clone(), none.clone())],
            "initContainers": [container("i", json!({"memory": "1Gi"}), json!({"cpu": "1"}))],
        }});
        let text = |pod: &Value, hard: &[(&str, &str)]| {
            let all = unstated(pod, &amounts(hard)).into_iter();
            all.map(|(name, of)| format!("{name} for: {}", of.into_iter().collect::<Vec<_>>().join(",")))
                .collect::<Vec<_>>()
        };
        for (name, hard, want) in [
            ("requests", vec![("cpu", "1")], vec!["cpu for: a,i"]),
            ("limits", vec![("limits.cpu", "1")], vec!["limits.cpu for: a,b"]),
            ("several", vec![("requests.cpu", "1"), ("memory", "1")], vec!["memory for: a,b", "requests.cpu for: a,i"]),
            (
                "storage and devices may be left out",
                vec![("ephemeral-storage", "1"), ("requests.example.com/gpu", "1")],
                vec![],
            ),
        ] {
            assert_eq!(text(&pod, &hard), want, "{name}");
        }
        let mut whole = pod;
        whole["spec"]["resources"] = json!({"limits": {"cpu": "1"}});
        assert!(text(&whole, &[("memory", "1")]).is_empty(), "resources of the whole pod replace those of containers");
    }
}
