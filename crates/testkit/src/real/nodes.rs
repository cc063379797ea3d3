//! The nodes of a member: objects with capacity, whose kubelets kwok simulates.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context as _, bail};
use ironclad_runtime::Api;
use k8s_openapi::{
    api::core::v1::{Node, NodeStatus},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Client,
    api::{ListParams, ObjectMeta, PostParams},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeShape {
    pub count: usize,
    /// Cpu of each, such as `8` or `500m`.
    pub cpu: String,
    /// Memory of each, such as `32Gi`.
    pub memory: String,
    /// Maximum pods of each.
    pub pods: u32,
    /// File with kwok's stages of nodes and pods, instead of `tools/kubernetes/kwok-stages`.
    pub stages: Option<PathBuf>,
}

impl Default for NodeShape {
    fn default() -> Self {
        Self { count: 2, cpu: "8".into(), memory: "32Gi".into(), pods: 110, stages: None }
    }
}

pub(super) async fn create(client: &Client, cluster: &str, shape: &NodeShape) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    for number in 1..=shape.count {
        let name = format!("{cluster}-node{number}");
        nodes
            .create(&PostParams::default(), &node(&name, shape))
            .await
            .with_context(|| format!("node {name} of {cluster}"))?;
    }
    Ok(())
}

fn node(name: &str, shape: &NodeShape) -> Node {
    let resources: BTreeMap<String, Quantity> =
        [("cpu", shape.cpu.clone()), ("memory", shape.memory.clone()), ("pods", shape.pods.to_string())]
            .into_iter()
            .map(|(resource, amount)| (resource.to_owned(), Quantity(amount)))
            .collect();
    let labels = [("kubernetes.io/hostname", name), ("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "amd64")];
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()),
            ..ObjectMeta::default()
        },
        status: Some(NodeStatus {
            capacity: Some(resources.clone()),
            allocatable: Some(resources),
            ..NodeStatus::default()
        }),
        ..Node::default()
    }
}

/// Checks that pods can be placed on every node: it is ready, and the taint of new nodes is removed.
pub(super) async fn are_ready(client: &Client) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    for node in nodes.list(&ListParams::default()).await?.items {
        let name = node.metadata.name.unwrap_or_default();
        let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
        if !conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True") {
            bail!("node {name} is not Ready");
        }
        if let Some(taint) = node.spec.and_then(|spec| spec.taints).unwrap_or_default().first() {
            bail!("node {name} has the taint {}", taint.key);
        }
    }
    Ok(())
}
