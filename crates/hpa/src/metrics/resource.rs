//! `metrics.k8s.io/v1beta1`: usage of pods and nodes (specification/autoscaling.md 3.3).

use std::{collections::BTreeMap, time::Duration};

use ironclad_quantity::Amount;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{
    Answer, Measured,
    read::{self, Malformed, quoted},
};

pub const GROUP: &str = "metrics.k8s.io";
pub const VERSION: &str = "v1beta1";

/// Amounts by name of the resource.
pub type Usage = BTreeMap<String, Amount>;

/// Usage of a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct PodSample {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// Labels, where the source gives the pod's.
    pub labels: BTreeMap<String, String>,
    /// End of the measured interval.
    pub timestamp: Timestamp,
    /// Length of that interval.
    pub window: Duration,
    /// Usage of each container.
    pub containers: Vec<ContainerSample>,
}

/// Usage of a container.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerSample {
    /// Name of the container.
    pub name: String,
    pub usage: Usage,
}

/// Usage of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeSample {
    /// Name of the node.
    pub name: String,
    /// Labels, where the source gives the node's.
    pub labels: BTreeMap<String, String>,
    /// End of the measured interval.
    pub timestamp: Timestamp,
    /// Length of that interval.
    pub window: Duration,
    pub usage: Usage,
}

impl PodSample {
    /// Returns the usage of a resource in thousandths, summed over the containers; `None` if one of them lacks it, or
    /// there are none.
    #[must_use]
    pub fn milli(&self, resource: &str) -> Option<i64> {
        if self.containers.is_empty() {
            return None;
        }
        self.containers.iter().try_fold(0_i64, |sum, container| Some(sum.saturating_add(container.milli(resource)?)))
    }

    /// Returns the container of this name.
    #[must_use]
    pub fn container(&self, name: &str) -> Option<&ContainerSample> {
        self.containers.iter().find(|container| container.name == name)
    }
}

impl ContainerSample {
    /// Returns the usage of a resource in thousandths.
    #[must_use]
    pub fn milli(&self, resource: &str) -> Option<i64> {
        self.usage.get(resource).map(|amount| amount.milli_value())
    }
}

impl Measured for PodSample {
    fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    fn window(&self) -> Option<Duration> {
        Some(self.window)
    }
}

impl Measured for NodeSample {
    fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    fn window(&self) -> Option<Duration> {
        Some(self.window)
    }
}

#[derive(Deserialize)]
struct RawMetadata {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct RawPod {
    metadata: RawMetadata,
    #[serde(default)]
    timestamp: Value,
    #[serde(default)]
    window: Value,
    containers: Option<Vec<RawContainer>>,
}

#[derive(Deserialize)]
struct RawContainer {
    #[serde(default)]
    name: String,
    usage: Option<BTreeMap<String, Value>>,
}

#[derive(Deserialize)]
struct RawNode {
    metadata: RawMetadata,
    #[serde(default)]
    timestamp: Value,
    #[serde(default)]
    window: Value,
    usage: Option<BTreeMap<String, Value>>,
}

/// Reads a PodMetricsList that was asked of a namespace, or of all. Pods of other namespaces and repeated ones are
/// refused.
///
/// # Errors
/// If it is none.
pub fn read_pods(body: &[u8], namespace: Option<&str>) -> Result<Answer<PodSample>, Malformed> {
    let mut seen = std::collections::BTreeSet::new();
    read::list(body, "PodMetricsList", |raw| {
        let sample = pod(raw)?;
        if namespace.is_some_and(|asked| asked != sample.namespace) {
            return Err(format!("pod {}/{} is of another namespace", sample.namespace, sample.name));
        }
        if !seen.insert((sample.namespace.clone(), sample.name.clone())) {
            return Err(format!("pod {}/{} is there twice", sample.namespace, sample.name));
        }
        Ok(sample)
    })
}

/// Reads the PodMetrics of this pod.
///
/// # Errors
/// If it is none, or of another pod, or can't be a measurement.
pub fn read_pod(body: &[u8], namespace: &str, name: &str) -> Result<PodSample, Malformed> {
    let wrong = |why: String| Malformed { expected: "PodMetrics", why };
    let sample = pod(serde_json::from_slice(body).map_err(|e| wrong(e.to_string()))?).map_err(wrong)?;
    if (sample.namespace.as_str(), sample.name.as_str()) != (namespace, name) {
        return Err(wrong(format!("it is of pod {}/{}", sample.namespace, sample.name)));
    }
    Ok(sample)
}

/// Reads a NodeMetricsList. Repeated nodes are refused.
///
/// # Errors
/// If it is none.
pub fn read_nodes(body: &[u8]) -> Result<Answer<NodeSample>, Malformed> {
    let mut seen = std::collections::BTreeSet::new();
    read::list(body, "NodeMetricsList", |raw| {
        let sample = node(raw)?;
        if !seen.insert(sample.name.clone()) {
            return Err(format!("node {} is there twice", sample.name));
        }
        Ok(sample)
    })
}

/// Reads the NodeMetrics of this node.
///
/// # Errors
/// If it is none, or of another node, or can't be a measurement.
pub fn read_node(body: &[u8], name: &str) -> Result<NodeSample, Malformed> {
    let wrong = |why: String| Malformed { expected: "NodeMetrics", why };
    let sample = node(serde_json::from_slice(body).map_err(|e| wrong(e.to_string()))?).map_err(wrong)?;
    if sample.name != name {
        return Err(wrong(format!("it is of node {}", quoted(&sample.name))));
    }
    Ok(sample)
}

fn pod(raw: RawPod) -> Result<PodSample, String> {
    let RawMetadata { namespace, name, labels } = raw.metadata;
    if name.is_empty() || namespace.is_empty() {
        return Err("a pod has no name or namespace".to_owned());
    }
    let of = |why: String| format!("pod {}/{}: {why}", short(&namespace), short(&name));
    let mut containers = Vec::new();
    for container in raw.containers.unwrap_or_default() {
        let usage = usage(container.usage).map_err(|why| of(format!("container {}: {why}", short(&container.name))))?;
        containers.push(ContainerSample { name: container.name, usage });
    }
    let timestamp = read::timestamp(&raw.timestamp).map_err(of)?;
    let window = read::window(&raw.window).map_err(of)?;
    Ok(PodSample { namespace, name, labels: labels.unwrap_or_default(), timestamp, window, containers })
}

fn node(raw: RawNode) -> Result<NodeSample, String> {
    let RawMetadata { name, labels, .. } = raw.metadata;
    if name.is_empty() {
        return Err("a node has no name".to_owned());
    }
    let of = |why: String| format!("node {}: {why}", short(&name));
    let timestamp = read::timestamp(&raw.timestamp).map_err(of)?;
    let window = read::window(&raw.window).map_err(of)?;
    let usage = usage(raw.usage).map_err(of)?;
    Ok(NodeSample { name, labels: labels.unwrap_or_default(), timestamp, window, usage })
}

fn usage(raw: Option<BTreeMap<String, Value>>) -> Result<Usage, String> {
    let one = |(resource, value): (String, Value)| match read::amount(&value) {
        Ok(amount) => Ok((resource, amount)),
        Err(why) => Err(format!("usage of {}: {why}", short(&resource))),
    };
    raw.unwrap_or_default().into_iter().map(one).collect()
}

/// A name for a message; names of objects have at most 253 characters.
fn short(name: &str) -> String {
    name.chars().take(253).collect()
}
