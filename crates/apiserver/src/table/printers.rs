//! The columns of built-in kinds (apiserver.md 25).

mod cluster;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object;

use super::{Column, age};

/// A column: name, type, priority (1: only when wide).
pub(super) type Spec = (&'static str, &'static str, i64);
/// The cells of an object.
pub(super) type Cells = fn(&Value, Timestamp) -> Vec<Value>;

/// How a kind is printed.
pub(crate) struct Printer {
    columns: &'static [Spec],
    cells: Cells,
}

impl Printer {
    pub(crate) fn columns(&self) -> Vec<Column> {
        let columns = self.columns.iter().map(|(name, kind, priority)| {
            let mut column = Column::new(name, kind);
            column.priority = *priority;
            column
        });
        columns.collect()
    }

    pub(crate) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        (self.cells)(object, now)
    }
}

pub(super) const NAME: Spec = ("Name", "string", 0);
pub(super) const AGE: Spec = ("Age", "string", 0);

pub(super) fn name(object: &Value) -> Value {
    json!(object::meta_str(object, "name"))
}

pub(super) fn created(object: &Value, now: Timestamp) -> Value {
    json!(age::since(object::meta_str(object, "creationTimestamp"), now))
}

/// A text, or what stands for none.
pub(super) fn or_none(text: impl Into<String>) -> Value {
    let text = text.into();
    json!(if text.is_empty() { "<none>".to_owned() } else { text })
}

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// A value without quotes.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Labels as `a=b,c=d`.
pub(super) fn labels(map: Option<&Value>) -> String {
    let pairs = map.and_then(Value::as_object).into_iter().flatten();
    pairs.map(|(k, v)| format!("{k}={}", plain(v))).collect::<Vec<_>>().join(",")
}

/// The printer of a kind; the default prints when it was made.
pub(crate) fn printer(group: &str, kind: &str) -> Printer {
    let (columns, cells) = workloads::printer(group, kind)
        .or_else(|| cluster::printer(group, kind))
        .unwrap_or((&[NAME, ("Created At", "date", 0)], |o, _| {
            vec![name(o), json!(object::meta_str(o, "creationTimestamp"))]
        }));
    Printer { columns, cells }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_fit_their_columns() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        for builtin in crate::kinds::builtins() {
            let printer = printer(builtin.group, builtin.kind);
            let empty = json!({"metadata": {"name": "a"}});
            assert_eq!(printer.cells(&empty, now).len(), printer.columns.len(), "{}", builtin.kind);
        }
    }

    #[test]
    fn rows() {
        let now: Timestamp = "2026-01-01T00:05:00Z".parse().unwrap();
        let meta = json!({"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"});
        for (kind, group, rest, want) in [
            (
                "Deployment",
                "apps",
                json!({"spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}, "status": {"readyReplicas": 1, "updatedReplicas": 2}}),
                json!(["a", "1/3", 2, 0, "5m", "c", "i", "a=b"]),
            ),
            (
                "Pod",
                "",
                json!({"spec": {"containers": [{"name": "c"}], "nodeName": "n"}, "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [{"ready": true, "restartCount": 2, "state": {"running": {}}}]}}),
                json!(["a", "1/1", "Running", "2", "5m", "10.0.0.1", "n", "<none>", "<none>"]),
            ),
            (
                "Pod",
                "",
                json!({"spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Pending", "containerStatuses": [{"ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}}),
                json!(["a", "0/1", "ImagePullBackOff", "0", "5m", "<none>", "<none>", "<none>", "<none>"]),
            ),
            (
                "Node",
                "",
                json!({"spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1"}}}),
                json!([
                    "a",
                    "Ready,SchedulingDisabled",
                    "<none>",
                    "5m",
                    "v1",
                    "<none>",
                    "<none>",
                    "<unknown>",
                    "<unknown>",
                    "<unknown>"
                ]),
            ),
            (
                "Service",
                "",
                json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.2", "ports": [{"port": 80, "protocol": "TCP"}, {"port": 443, "nodePort": 30000, "protocol": "TCP"}], "selector": {"a": "b"}}}),
                json!(["a", "ClusterIP", "10.0.0.2", "<none>", "80/TCP,443:30000/TCP", "5m", "a=b"]),
            ),
            ("ConfigMap", "", json!({"data": {"x": ""}, "binaryData": {"y": ""}}), json!(["a", 2, "5m"])),
            ("Namespace", "", json!({"status": {"phase": "Active"}}), json!(["a", "Active", "5m"])),
            (
                "Job",
                "batch",
                json!({"spec": {"completions": 2, "template": {"spec": {"containers": []}}}, "status": {"succeeded": 1, "startTime": "2026-01-01T00:00:00Z"}}),
                json!(["a", "Running", "1/2", "5m", "5m", "", "", "<none>"]),
            ),
        ] {
            let mut object = rest.clone();
            object["metadata"] = meta.clone();
            assert_eq!(Value::Array(printer(group, kind).cells(&object, now)), want, "{kind}");
        }
    }
}
