//! LimitRanges at work: what containers get that say nothing, and which pods and claims ask for too little or too much
//! (specification/apiserver.md 21).

use std::collections::{BTreeMap, BTreeSet};

use ironclad_quantity::{Format, Quantity};
use ironclad_store::Query;
use serde_json::{Value, json};

use crate::{context::Cx, object, status::ApiError};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// Both lists of containers, and how the annotation calls one.
const CONTAINERS: [(&str, &str); 2] = [("containers", "container"), ("initContainers", "init container")];

/// Fills in what a new pod's containers don't say.
pub(in crate::kinds) fn default(cx: &Cx, pod: &mut Value) {
    for range in ranges(cx) {
        complete(&range, pod);
    }
}

/// Refuses pods beyond a limit.
pub(in crate::kinds) fn validate_pod(cx: &Cx, old: Option<&Value>, new: Option<&Value>) -> Result<(), ApiError> {
    validate(cx, old, new, of_pod)
}

/// Refuses claims beyond a limit.
pub(in crate::kinds) fn validate_claim(cx: &Cx, old: Option<&Value>, new: Option<&Value>) -> Result<(), ApiError> {
    validate(cx, old, new, of_claim)
}

/// Refuses an object about which a LimitRange has complaints.
fn validate(
    cx: &Cx,
    old: Option<&Value>,
    new: Option<&Value>,
    complaints: fn(&Value, &Value) -> Vec<String>,
) -> Result<(), ApiError> {
    let Some(new) = new.filter(|_| !old.is_some_and(object::terminating)) else { return Ok(()) };
    for range in ranges(cx) {
        let mut seen = BTreeSet::new();
        let wrong: Vec<String> = complaints(&range, new).into_iter().filter(|text| seen.insert(text.clone())).collect();
        let why = match wrong.as_slice() {
            [] => continue,
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        return Err(ApiError::forbidden(&cx.resource.plural, "", object::meta_str(new, "name"), &why));
    }
    Ok(())
}

/// The namespace's LimitRanges, by name.
fn ranges(cx: &Cx) -> Vec<Value> {
    let Some(resource) = cx.state.registry.builtin("", "limitranges").filter(|_| cx.namespace().is_some()) else {
        return vec![];
    };
    let prefix = resource.prefix_of(cx.namespace());
    let Ok(range) = cx.state.store.range(&Query::prefix(&prefix)) else { return vec![] };
    range.entries.iter().filter_map(|(_, entry)| object::decode(&entry.value, entry.modified).ok()).collect()
}

fn limits<'a>(range: &'a Value, kind: &str) -> impl Iterator<Item = &'a Value> {
    let limits = range.pointer("/spec/limits").and_then(Value::as_array).into_iter().flatten();
    limits.filter(move |limit| limit["type"] == kind)
}

fn containers<'a>(pod: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    pod["spec"][list].as_array().into_iter().flatten()
}

fn complete(range: &Value, pod: &mut Value) {
    let mut said = Vec::new();
    for (list, called) in CONTAINERS {
        let containers = pod.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter(|c| c.is_object()) {
            for (from, to, what) in [("defaultRequest", "requests", "request"), ("default", "limits", "limit")] {
                let mut set = BTreeSet::new();
                for (name, amount) in limits(range, "Container").filter_map(|l| l[from].as_object()).flatten() {
                    let asked = &mut container["resources"][to];
                    if asked.get(name).is_none_or(Value::is_null) || set.contains(name) {
                        asked[name] = amount.clone();
                        set.insert(name.clone());
                    }
                }
                if !set.is_empty() {
                    let names = set.into_iter().collect::<Vec<_>>().join(", ");
                    let name = container["name"].as_str().unwrap_or_default();
                    said.push(format!("{names} {what} for {called} {name}"));
                }
            }
        }
    }
    if !said.is_empty() {
        let annotations = object::metadata_mut(pod).entry("annotations").or_insert_with(|| json!({}));
        annotations[ANNOTATION] = json!(format!("LimitRanger plugin set: {}", said.join("; ")));
    }
}

type Amounts = BTreeMap<String, Quantity>;

fn amounts(list: &Value) -> Amounts {
    let parse = |(name, value): (&String, &Value)| Some((name.clone(), Quantity::parse(value.as_str()?).ok()?));
    list.as_object().into_iter().flatten().filter_map(parse).collect()
}

/// The requests and limits of a pod.
struct PodResources {
    requests: Amounts,
    limits: Amounts,
}

fn of_pod(range: &Value, pod: &Value) -> Vec<String> {
    let mut out = Vec::new();
    for limit in range.pointer("/spec/limits").and_then(Value::as_array).into_iter().flatten() {
        match limit["type"].as_str() {
            Some("Container") => {
                for (list, _) in CONTAINERS {
                    for container in containers(pod, list) {
                        let asked = PodResources {
                            requests: amounts(&container["resources"]["requests"]),
                            limits: amounts(&container["resources"]["limits"]),
                        };
                        within(limit, "Container", &asked, &mut out);
                    }
                }
            }
            Some("Pod") => {
                let asked = PodResources { requests: whole(pod, "requests"), limits: whole(pod, "limits") };
                within(limit, "Pod", &asked, &mut out);
            }
            _ => {}
        }
    }
    out
}

/// The sum over a pod's containers: init containers run one after the other before the main ones, sidecars beside them.
fn whole(pod: &Value, side: &str) -> Amounts {
    let add = |to: &mut Amounts, more: &Amounts| {
        for (name, amount) in more {
            let sum = to.get(name).map_or_else(|| amount.clone(), |have| (**have + **amount).into());
            to.insert(name.clone(), sum);
        }
    };
    let at_least = |to: &mut Amounts, least: &Amounts| {
        for (name, amount) in least {
            if to.get(name).is_none_or(|have| have < amount) {
                to.insert(name.clone(), amount.clone());
            }
        }
    };
    let (mut sum, mut sidecars, mut starting) = (Amounts::new(), Amounts::new(), Amounts::new());
    for container in containers(pod, "containers") {
        add(&mut sum, &amounts(&container["resources"][side]));
    }
    for container in containers(pod, "initContainers") {
        let mut asked = amounts(&container["resources"][side]);
        if container["restartPolicy"] == "Always" {
            add(&mut sum, &asked);
            add(&mut sidecars, &asked);
            at_least(&mut starting, &sidecars);
        } else {
            add(&mut asked, &sidecars);
            at_least(&mut starting, &asked);
        }
    }
    at_least(&mut sum, &starting);
    // Pod-level resources take precedence.
    for (name, amount) in amounts(&pod["spec"]["resources"][side]) {
        if matches!(name.as_str(), "cpu" | "memory") {
            sum.insert(name, amount);
        }
    }
    sum
}

/// Reports amounts outside of the limits.
fn within(limit: &Value, kind: &str, asked: &PodResources, out: &mut Vec<String>) {
    for (name, min) in amounts(&limit["min"]) {
        let about = format!("minimum {name} usage per {kind} is {min}");
        match (asked.requests.get(&name), asked.limits.get(&name)) {
            (None, _) => out.push(format!("{about}.  No request is specified")),
            (Some(request), _) if *request < min => out.push(format!("{about}, but request is {request}")),
            (_, Some(limit)) if *limit < min => out.push(format!("{about}, but limit is {limit}")),
            _ => {}
        }
    }
    for (name, max) in amounts(&limit["max"]) {
        let about = format!("maximum {name} usage per {kind} is {max}");
        match (asked.limits.get(&name), asked.requests.get(&name)) {
            (None, _) => out.push(format!("{about}.  No limit is specified")),
            (Some(limit), _) if *limit > max => out.push(format!("{about}, but limit is {limit}")),
            (_, Some(request)) if *request > max => out.push(format!("{about}, but request is {request}")),
            _ => {}
        }
    }
    for (name, ratio) in amounts(&limit["maxLimitRequestRatio"]) {
        let about = format!("{name} max limit to request ratio per {kind} is {ratio}");
        let given = |amounts: &Amounts| amounts.get(&name).filter(|a| !a.is_zero()).cloned();
        match (given(&asked.requests), given(&asked.limits)) {
            (None, _) => out.push(format!("{about}, but no request is specified or request is 0")),
            (_, None) => out.push(format!("{about}, but no limit is specified or limit is 0")),
            (Some(request), Some(limit)) => {
                let is = limit.milli_value() as f64 / request.milli_value() as f64;
                if is * 1_000.0 > ratio.milli_value() as f64 {
                    out.push(format!("{about}, but provided ratio is {is:.6}"));
                }
            }
        }
    }
}

fn of_claim(range: &Value, claim: &Value) -> Vec<String> {
    const KIND: &str = "PersistentVolumeClaim";
    let asked = amounts(&claim["spec"]["resources"]["requests"]);
    let zero = Quantity::new(0, Format::DecimalSi);
    let mut out = Vec::new();
    for limit in limits(range, KIND) {
        for (key, word) in [("min", "minimum"), ("max", "maximum")] {
            for (name, bound) in amounts(&limit[key]) {
                let about = format!("{word} {name} usage per {KIND} is {bound}");
                match asked.get(&name) {
                    None => out.push(format!("{about}.  No request is specified")),
                    Some(amount) => {
                        let beyond = if key == "min" { *amount < bound } else { *amount > bound };
                        if beyond && bound >= zero {
                            out.push(format!("{about}, but request is {amount}"));
                        }
                    }
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(limit: Value) -> Value {
        json!({"spec": {"limits": [limit]}})
    }

    fn pod(containers: Value) -> Value {
        json!({"metadata": {"name": "a"}, "spec": {"containers": containers}})
    }

    #[test]
    fn containers_get_default_limits() {
        let limit =
            json!({"type": "Container", "default": {"cpu": "2", "memory": "1Gi"}, "defaultRequest": {"cpu": "1"}});
        let mut pod = pod(json!([{"name": "a"}, {"name": "b", "resources": {"limits": {"cpu": "3"}}}]));
        pod["spec"]["initContainers"] = json!([{"name": "i"}]);
        complete(&range(limit.clone()), &mut pod);
        let resources = |at: &str| pod.pointer(at).cloned().unwrap();
        assert_eq!(
            resources("/spec/containers/0/resources"),
            json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}})
        );
        assert_eq!(
            resources("/spec/containers/1/resources"),
            json!({"limits": {"cpu": "3", "memory": "1Gi"}, "requests": {"cpu": "1"}})
        );
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu request for container a; cpu, memory limit for container a; cpu request for container b; memory limit for container b; cpu request for init container i; cpu, memory limit for init container i"
        );
        let mut done = pod.clone();
        complete(&range(limit), &mut done);
        assert_eq!(done, pod, "once is enough");
    }

    #[test]
    fn pods_outside_of_limits() {
        let asks = |requests: Value, limits: Value| json!([{"name": "a", "resources": {"requests": requests, "limits": limits}}]);
        let min = json!({"type": "Container", "min": {"cpu": "1"}});
        let max = json!({"type": "Container", "max": {"cpu": "1"}});
        let ratio = json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}});
        let none = json!({});
        for (name, limit, containers, want) in [
            ("just enough", &min, asks(json!({"cpu": "1"}), none.clone()), vec![]),
            (
                "a bit too little",
                &min,
                asks(json!({"cpu": "999m"}), none.clone()),
                vec!["minimum cpu usage per Container is 1, but request is 999m"],
            ),
            (
                "nothing",
                &min,
                asks(none.clone(), none.clone()),
                vec!["minimum cpu usage per Container is 1.  No request is specified"],
            ),
            ("just the most", &max, asks(none.clone(), json!({"cpu": "1"})), vec![]),
            (
                "a bit too much",
                &max,
                asks(none.clone(), json!({"cpu": "1001m"})),
                vec!["maximum cpu usage per Container is 1, but limit is 1001m"],
            ),
            (
                "no bound",
                &max,
                asks(none.clone(), none.clone()),
                vec!["maximum cpu usage per Container is 1.  No limit is specified"],
            ),
            ("just twice", &ratio, asks(json!({"cpu": "1"}), json!({"cpu": "2"})), vec![]),
            (
                "more than twice",
                &ratio,
                asks(json!({"cpu": "1"}), json!({"cpu": "2001m"})),
                vec!["cpu max limit to request ratio per Container is 2, but provided ratio is 2.001000"],
            ),
            (
                "of nothing",
                &ratio,
                asks(json!({"cpu": "0"}), json!({"cpu": "1"})),
                vec!["cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"],
            ),
        ] {
            assert_eq!(of_pod(&range(limit.clone()), &pod(containers)), want, "{name}");
        }
    }

    #[test]
    fn pod_requests_are_of_concurrent_containers() {
        let of = |cpu: &str| json!({"name": "x", "resources": {"requests": {"cpu": cpu}}});
        let beside =
            |cpu: &str| json!({"name": "x", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
        for (name, containers, starting, want) in [
            ("all containers together", vec![of("1"), of("2")], vec![], "3"),
            ("less to start with", vec![of("1"), of("2")], vec![of("2")], "3"),
            ("more to start with", vec![of("1")], vec![of("4"), of("2")], "4"),
            ("a sidecar stays", vec![of("1")], vec![beside("1")], "2"),
            ("and is there while others start", vec![of("1")], vec![beside("1"), of("4")], "5"),
        ] {
            let pod = json!({"spec": {"containers": containers, "initContainers": starting}});
            assert_eq!(whole(&pod, "requests")["cpu"], Quantity::parse(want).unwrap(), "{name}");
        }
    }
}
