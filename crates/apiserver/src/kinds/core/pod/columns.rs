//! The columns of pods.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    kinds::shared::{
        columns::{AGE, NAME, created, items, name, or_none},
        fields::text,
    },
    object,
    registry::strategy::Column,
    table::age,
};

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    ("Ready", "string", 0),
    ("Status", "string", 0),
    ("Restarts", "string", 0),
    AGE,
    ("IP", "string", 1),
    ("Node", "string", 1),
    ("Nominated Node", "string", 1),
    ("Readiness Gates", "string", 1),
];

pub(super) fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let (status, ready, total, restarts, last_restart) = pod_status(o);
    let restarts = match last_restart {
        Some(at) if restarts > 0 => format!("{restarts} ({} ago)", age::since(&at, now)),
        _ => restarts.to_string(),
    };
    let gates: Vec<&str> = items(o, "/spec/readinessGates").filter_map(|g| g["conditionType"].as_str()).collect();
    let open =
        gates.iter().filter(|g| items(o, "/status/conditions").any(|c| c["type"] == **g && c["status"] == "True"));
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

/// True for an init container that runs beside the main containers.
fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

/// The pod's status in one word, its ready and all containers, its restarts and the time of the last one.
fn pod_status(o: &Value) -> (String, usize, usize, i64, Option<String>) {
    let mut reason = match text(o, "/status/reason") {
        "" => text(o, "/status/phase").to_owned(),
        reason => reason.to_owned(),
    };
    if items(o, "/status/conditions").any(|c| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated") {
        reason = "SchedulingGated".into();
    }
    let inits: Vec<&Value> = items(o, "/spec/initContainers").collect();
    let total = items(o, "/spec/containers").count() + inits.iter().filter(|c| is_sidecar(c)).count();
    let (mut ready, mut restarts, mut last) = (0, 0, None);
    let mut note = |status: &Value, restarts: &mut i64| {
        *restarts += status["restartCount"].as_i64().unwrap_or(0);
        let at = status.pointer("/lastState/terminated/finishedAt").and_then(Value::as_str);
        last = last.take().max(at.map(str::to_owned));
    };
    let mut initializing = false;
    for (i, status) in items(o, "/status/initContainerStatuses").enumerate() {
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
        for status in items(o, "/status/containerStatuses").collect::<Vec<_>>().into_iter().rev() {
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
            let is_ready = items(o, "/status/conditions").any(|c| c["type"] == "Ready" && c["status"] == "True");
            reason = if is_ready { "Running".into() } else { "NotReady".into() };
        }
    }
    if object::terminating(o) {
        let unreachable = text(o, "/status/reason") == "NodeLost";
        reason = if unreachable { "Unknown".into() } else { "Terminating".into() };
    }
    (reason, ready, total, restarts, last)
}
