//! Columns of pods and workloads.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{object, select::selector_text, table::age};

use super::{AGE, Cells, NAME, Spec, created, labels, list, name, number, or_none, plain, text};

const CONTAINERS: Spec = ("Containers", "string", 1);
const IMAGES: Spec = ("Images", "string", 1);
const SELECTOR: Spec = ("Selector", "string", 1);

/// Columns and cells of a kind of this file.
pub(super) fn printer(group: &str, kind: &str) -> Option<(&'static [Spec], Cells)> {
    Some(match (group, kind) {
        ("", "Pod") => (
            &[
                NAME,
                ("Ready", "string", 0),
                ("Status", "string", 0),
                ("Restarts", "string", 0),
                AGE,
                ("IP", "string", 1),
                ("Node", "string", 1),
                ("Nominated Node", "string", 1),
                ("Readiness Gates", "string", 1),
            ],
            pod,
        ),
        ("apps", "Deployment") => (
            &[
                NAME,
                ("Ready", "string", 0),
                ("Up-to-date", "string", 0),
                ("Available", "string", 0),
                AGE,
                CONTAINERS,
                IMAGES,
                SELECTOR,
            ],
            deployment,
        ),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => (
            &[
                NAME,
                ("Desired", "integer", 0),
                ("Current", "integer", 0),
                ("Ready", "integer", 0),
                AGE,
                CONTAINERS,
                IMAGES,
                SELECTOR,
            ],
            replica_set,
        ),
        ("apps", "StatefulSet") => (&[NAME, ("Ready", "string", 0), AGE, CONTAINERS, IMAGES], stateful_set),
        ("apps", "DaemonSet") => (
            &[
                NAME,
                ("Desired", "integer", 0),
                ("Current", "integer", 0),
                ("Ready", "integer", 0),
                ("Up-to-date", "integer", 0),
                ("Available", "integer", 0),
                ("Node Selector", "string", 0),
                AGE,
                CONTAINERS,
                IMAGES,
                SELECTOR,
            ],
            daemon_set,
        ),
        ("batch", "Job") => (
            &[
                NAME,
                ("Status", "string", 0),
                ("Completions", "string", 0),
                ("Duration", "string", 0),
                AGE,
                CONTAINERS,
                IMAGES,
                SELECTOR,
            ],
            job,
        ),
        ("batch", "CronJob") => (
            &[
                NAME,
                ("Schedule", "string", 0),
                ("Timezone", "string", 0),
                ("Suspend", "boolean", 0),
                ("Active", "integer", 0),
                ("Last Schedule", "string", 0),
                AGE,
                CONTAINERS,
                IMAGES,
                SELECTOR,
            ],
            cron_job,
        ),
        ("autoscaling", "HorizontalPodAutoscaler") => (
            &[
                NAME,
                ("Reference", "string", 0),
                ("Targets", "string", 0),
                ("MinPods", "string", 0),
                ("MaxPods", "string", 0),
                ("Replicas", "string", 0),
                AGE,
            ],
            autoscaler,
        ),
        ("policy", "PodDisruptionBudget") => (
            &[
                NAME,
                ("Min Available", "string", 0),
                ("Max Unavailable", "string", 0),
                ("Allowed Disruptions", "integer", 0),
                AGE,
            ],
            |o, now| {
                let bound = |pointer| match o.pointer(pointer) {
                    Some(value) => json!(plain(value)),
                    None => json!("N/A"),
                };
                let allowed = json!(number(o, "/status/disruptionsAllowed"));
                vec![name(o), bound("/spec/minAvailable"), bound("/spec/maxUnavailable"), allowed, created(o, now)]
            },
        ),
        _ => return None,
    })
}

/// Containers, images: the wide cells of a workload's template.
fn template(object: &Value, pointer: &str) -> [Value; 2] {
    let join = |key: &str| {
        let containers = list(object, pointer).map(|c| c[key].as_str().unwrap_or_default());
        json!(containers.collect::<Vec<_>>().join(","))
    };
    [join("name"), join("image")]
}

const TEMPLATE: &str = "/spec/template/spec/containers";

fn selector(object: &Value) -> Value {
    or_none(selector_text(object).unwrap_or_default())
}

fn deployment(o: &Value, now: Timestamp) -> Vec<Value> {
    let ready = format!("{}/{}", number(o, "/status/readyReplicas"), number(o, "/spec/replicas"));
    let [containers, images] = template(o, TEMPLATE);
    vec![
        name(o),
        json!(ready),
        json!(number(o, "/status/updatedReplicas")),
        json!(number(o, "/status/availableReplicas")),
        created(o, now),
        containers,
        images,
        selector(o),
    ]
}

fn replica_set(o: &Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = template(o, TEMPLATE);
    let count = |pointer| json!(number(o, pointer));
    vec![
        name(o),
        count("/spec/replicas"),
        count("/status/replicas"),
        count("/status/readyReplicas"),
        created(o, now),
        containers,
        images,
        selector(o),
    ]
}

fn stateful_set(o: &Value, now: Timestamp) -> Vec<Value> {
    let ready = format!("{}/{}", number(o, "/status/readyReplicas"), number(o, "/spec/replicas"));
    let [containers, images] = template(o, TEMPLATE);
    vec![name(o), json!(ready), created(o, now), containers, images]
}

fn daemon_set(o: &Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = template(o, TEMPLATE);
    let count = |field: &str| json!(number(o, &format!("/status/{field}")));
    vec![
        name(o),
        count("desiredNumberScheduled"),
        count("currentNumberScheduled"),
        count("numberReady"),
        count("updatedNumberScheduled"),
        count("numberAvailable"),
        or_none(labels(o.pointer("/spec/template/spec/nodeSelector"))),
        created(o, now),
        containers,
        images,
        selector(o),
    ]
}

fn job(o: &Value, now: Timestamp) -> Vec<Value> {
    let condition = |kind: &str| list(o, "/status/conditions").any(|c| c["type"] == kind && c["status"] == "True");
    let status = if condition("Complete") {
        "Complete"
    } else if condition("Failed") {
        "Failed"
    } else if object::terminating(o) {
        "Terminating"
    } else if condition("Suspended") {
        "Suspended"
    } else if condition("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    let succeeded = number(o, "/status/succeeded");
    let completions = match o.pointer("/spec/completions").and_then(Value::as_i64) {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if number(o, "/spec/parallelism") > 1 => format!("{succeeded}/1 of {}", number(o, "/spec/parallelism")),
        None => format!("{succeeded}/1"),
    };
    let time = |pointer| text(o, pointer).parse::<Timestamp>().ok();
    let duration = time("/status/startTime").map(|start| {
        let end = time("/status/completionTime").unwrap_or(now);
        age::human(end.as_second() - start.as_second())
    });
    let [containers, images] = template(o, TEMPLATE);
    vec![
        name(o),
        json!(status),
        json!(completions),
        json!(duration.unwrap_or_default()),
        created(o, now),
        containers,
        images,
        selector(o),
    ]
}

fn cron_job(o: &Value, now: Timestamp) -> Vec<Value> {
    let last = match text(o, "/status/lastScheduleTime") {
        "" => json!("<none>"),
        time => json!(age::since(time, now)),
    };
    let [containers, images] = template(o, "/spec/jobTemplate/spec/template/spec/containers");
    vec![
        name(o),
        json!(text(o, "/spec/schedule")),
        or_none(text(o, "/spec/timeZone")),
        json!(if o.pointer("/spec/suspend") == Some(&json!(true)) { "True" } else { "False" }),
        json!(list(o, "/status/active").count()),
        last,
        created(o, now),
        containers,
        images,
        or_none(""),
    ]
}

fn autoscaler(o: &Value, now: Timestamp) -> Vec<Value> {
    let reference = format!("{}/{}", text(o, "/spec/scaleTargetRef/kind"), text(o, "/spec/scaleTargetRef/name"));
    let current: Vec<&Value> = list(o, "/status/currentMetrics").collect();
    let one = |i: usize, metric: &Value| {
        let kind = metric["type"].as_str().unwrap_or_default();
        let field = match kind {
            "Resource" => "resource",
            "ContainerResource" => "containerResource",
            "Pods" => "pods",
            "Object" => "object",
            _ => "external",
        };
        let amount = |of: &Value, key: &str| of.get(key).filter(|v| !v.is_null()).map(plain);
        let target = &metric[field]["target"];
        let now = current.get(i).map_or(Value::Null, |c| c[field]["current"].clone());
        let (key, sign) = if target["averageUtilization"].is_number() {
            ("averageUtilization", "%")
        } else if target["averageValue"].is_null() {
            ("value", "")
        } else {
            ("averageValue", "")
        };
        let wanted = amount(target, key).map_or_else(|| "<auto>".to_owned(), |v| v + sign);
        let now = amount(&now, key).map_or_else(|| "<unknown>".to_owned(), |v| v + sign);
        let label = if field == "resource" { format!("{}: ", text(metric, "/resource/name")) } else { String::new() };
        format!("{label}{now}/{wanted}")
    };
    // In v1 the one metric that it knows is a field of its own.
    let cpu = o.pointer("/spec/targetCPUUtilizationPercentage").map(
        |percent| json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": percent}}}),
    );
    let metrics = cpu.iter().chain(list(o, "/spec/metrics"));
    let targets: Vec<String> = metrics.enumerate().map(|(i, m)| one(i, m)).collect();
    let shown = if targets.len() > 2 {
        format!("{} + {} more...", targets[..2].join(", "), targets.len() - 2)
    } else {
        targets.join(", ")
    };
    let least = o.pointer("/spec/minReplicas").map_or_else(|| "<unset>".to_owned(), plain);
    vec![
        name(o),
        json!(reference),
        or_none(shown),
        json!(least),
        json!(number(o, "/spec/maxReplicas")),
        json!(number(o, "/status/currentReplicas")),
        created(o, now),
    ]
}

/// Whether an init container runs beside the others until the end.
fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

fn pod(o: &Value, now: Timestamp) -> Vec<Value> {
    let (status, ready, total, restarts, last_restart) = pod_status(o);
    let restarts = match last_restart {
        Some(at) if restarts > 0 => format!("{restarts} ({} ago)", age::since(&at, now)),
        _ => restarts.to_string(),
    };
    let gates: Vec<&str> = list(o, "/spec/readinessGates").filter_map(|g| g["conditionType"].as_str()).collect();
    let open =
        gates.iter().filter(|g| list(o, "/status/conditions").any(|c| c["type"] == **g && c["status"] == "True"));
    let gates = if gates.is_empty() { String::new() } else { format!("{}/{}", open.count(), gates.len()) };
    vec![
        name(o),
        json!(format!("{ready}/{total}")),
        json!(status),
        json!(restarts),
        created(o, now),
        or_none(match text(o, "/status/podIP") {
            "" => text(o, "/status/podIPs/0/ip"),
            ip => ip,
        }),
        or_none(text(o, "/spec/nodeName")),
        or_none(text(o, "/status/nominatedNodeName")),
        or_none(gates),
    ]
}

/// What a pod is doing in one word, ready and all containers, restarts and when the last was.
fn pod_status(o: &Value) -> (String, usize, usize, i64, Option<String>) {
    let mut reason = match text(o, "/status/reason") {
        "" => text(o, "/status/phase").to_owned(),
        reason => reason.to_owned(),
    };
    if list(o, "/status/conditions").any(|c| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated") {
        reason = "SchedulingGated".into();
    }
    let inits: Vec<&Value> = list(o, "/spec/initContainers").collect();
    let total = list(o, "/spec/containers").count() + inits.iter().filter(|c| is_sidecar(c)).count();
    let (mut ready, mut restarts, mut last) = (0, 0, None);
    let mut note = |status: &Value, restarts: &mut i64| {
        *restarts += status["restartCount"].as_i64().unwrap_or(0);
        let at = status.pointer("/lastState/terminated/finishedAt").and_then(Value::as_str);
        last = last.take().max(at.map(str::to_owned));
    };
    let mut initializing = false;
    for (i, status) in list(o, "/status/initContainerStatuses").enumerate() {
        note(status, &mut restarts);
        let sidecar = inits.iter().any(|c| c["name"] == status["name"] && is_sidecar(c));
        if sidecar && status["ready"] == true {
            ready += 1;
        }
        let terminated = status.pointer("/state/terminated");
        if terminated.is_some_and(|t| t["exitCode"] == 0) || (sidecar && status["started"] == true) {
            continue;
        }
        reason = match (terminated, status.pointer("/state/waiting/reason").and_then(Value::as_str)) {
            (Some(t), _) => match t["reason"].as_str().unwrap_or_default() {
                "" => format!("Init:ExitCode:{}", t["exitCode"]),
                reason => format!("Init:{reason}"),
            },
            (None, Some(waiting)) if waiting != "PodInitializing" => format!("Init:{waiting}"),
            _ => format!("Init:{i}/{}", inits.len()),
        };
        initializing = true;
        break;
    }
    if !initializing {
        let mut running = false;
        for status in list(o, "/status/containerStatuses").collect::<Vec<_>>().into_iter().rev() {
            note(status, &mut restarts);
            let state = &status["state"];
            if let Some(waiting) = state.pointer("/waiting/reason").and_then(Value::as_str).filter(|r| !r.is_empty()) {
                reason = waiting.to_owned();
            } else if let Some(ended) = state.get("terminated") {
                reason = match (ended["reason"].as_str().unwrap_or_default(), ended["signal"].as_i64().unwrap_or(0)) {
                    ("", 0) => format!("ExitCode:{}", ended["exitCode"].as_i64().unwrap_or(0)),
                    ("", signal) => format!("Signal:{signal}"),
                    (reason, _) => reason.to_owned(),
                };
            } else if status["ready"] == true && state.get("running").is_some() {
                running = true;
                ready += 1;
            }
        }
        if reason == "Completed" && running {
            let is_ready = list(o, "/status/conditions").any(|c| c["type"] == "Ready" && c["status"] == "True");
            reason = if is_ready { "Running".into() } else { "NotReady".into() };
        }
    }
    if object::terminating(o) {
        let unreachable = text(o, "/status/reason") == "NodeLost";
        reason = if unreachable { "Unknown".into() } else { "Terminating".into() };
    }
    (reason, ready, total, restarts, last)
}
