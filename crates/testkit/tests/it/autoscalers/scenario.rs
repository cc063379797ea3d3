//! Scenarios: a file of named lists of steps.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};

use super::load::Load;
use crate::member_controllers::scenario::Until;

/// Steps by the name of the scenario, which is also the namespace in which it is played.
pub(super) type Scenarios = BTreeMap<String, Vec<Step>>;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Step {
    /// A workload `web` whose pods run.
    Workload(Workload),
    /// The metrics from now on.
    Load(Load),
    /// An autoscaler of `web`.
    Autoscaler(Autoscaler),
    /// An autoscaler that the API server refuses; its answer is compared.
    Refused(Autoscaler),
    /// Further objects.
    Create(Vec<Value>),
    /// A merge patch.
    Patch(Patch),
    /// Wait until a field has this value.
    Until(Until),
    /// Wait until nothing changes, and compare the state under this name.
    Compare(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Workload {
    pub(super) replicas: i64,
    #[serde(default = "stateful_set")]
    pub(super) kind: String,
    /// Containers with their requests.
    #[serde(default = "one_container")]
    pub(super) containers: BTreeMap<String, BTreeMap<String, String>>,
    /// Number of pods beside it that its selector selects, and that are never ready.
    #[serde(default)]
    pub(super) unready: i64,
    /// Number of pods beside it that its selector selects, and that fit nowhere.
    #[serde(default)]
    pub(super) pending: i64,
}

fn stateful_set() -> String {
    "StatefulSet".to_owned()
}

fn one_container() -> BTreeMap<String, BTreeMap<String, String>> {
    [("c".to_owned(), [("cpu".to_owned(), "100m".to_owned())].into())].into()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Autoscaler {
    #[serde(default = "web")]
    pub(super) name: String,
    #[serde(default = "web")]
    pub(super) target: String,
    #[serde(default = "stateful_set")]
    pub(super) kind: String,
    #[serde(default = "one")]
    pub(super) min: i64,
    #[serde(default = "twenty")]
    pub(super) max: i64,
    /// Metrics as in the spec; `cpu: 50` is a target of 50 % of the requested cpu.
    pub(super) metrics: Vec<Value>,
    #[serde(default)]
    pub(super) behavior: Value,
}

fn web() -> String {
    "web".to_owned()
}

fn one() -> i64 {
    1
}

fn twenty() -> i64 {
    20
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Patch {
    /// `PLURAL/NAME`.
    pub(super) object: String,
    #[serde(default)]
    pub(super) subresource: Option<String>,
    pub(super) body: Value,
}

pub(super) fn read(file: &Path) -> anyhow::Result<Scenarios> {
    let read = || anyhow::Ok(serde_json::from_value(serde_saphyr::from_str(&fs::read_to_string(file)?)?)?);
    read().with_context(|| file.display().to_string())
}

impl Workload {
    /// Returns the objects: the workload, and pods beside it that its selector selects.
    pub(super) fn objects(&self) -> Vec<Value> {
        let labels = json!({"app": "web"});
        let containers = |requests: &BTreeMap<String, BTreeMap<String, String>>| -> Vec<Value> {
            let each = requests
                .iter()
                .map(|(name, requests)| json!({"name": name, "image": "i:1", "resources": {"requests": requests}}));
            each.collect()
        };
        let mut spec = json!({
            "replicas": self.replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers(&self.containers)}},
        });
        if self.kind == "StatefulSet" {
            spec["podManagementPolicy"] = json!("Parallel");
            spec["serviceName"] = json!("web");
        }
        let pod = |name: String, ready: &str, containers: Vec<Value>| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "labels": labels, "annotations": {"sim.ironclad.io/ready": ready}},
                "spec": {"containers": containers},
            })
        };
        let mut objects =
            vec![json!({"apiVersion": "apps/v1", "kind": self.kind, "metadata": {"name": "web"}, "spec": spec})];
        objects.extend((0..self.unready).map(|n| pod(format!("unready-{n}"), "false", containers(&self.containers))));
        let large = [("c".to_owned(), [("cpu".to_owned(), "1000".to_owned())].into())].into();
        objects.extend((0..self.pending).map(|n| pod(format!("pending-{n}"), "true", containers(&large))));
        objects
    }
}

impl Autoscaler {
    pub(super) fn object(&self) -> Value {
        let metrics: Vec<Value> = self.metrics.iter().map(metric).collect();
        let mut spec = json!({
            "minReplicas": self.min, "maxReplicas": self.max, "metrics": metrics,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": self.kind, "name": self.target},
        });
        if !self.behavior.is_null() {
            spec["behavior"] = self.behavior.clone();
        }
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": self.name}, "spec": spec})
    }
}

fn metric(short: &Value) -> Value {
    match short.get("cpu") {
        Some(percent) => json!({"type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}}),
        None => short.clone(),
    }
}
