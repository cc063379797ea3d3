//! The nodes of a simulated member. They have no heartbeats and no leases: a member is up or down as a whole.

mod decide;

use std::sync::Arc;

use futures::FutureExt as _;
use ironclad_kubecontrollers::{Cluster, NODES};
use ironclad_runtime::{Api, Failure, Informer, Next, Queue, Writer};
use k8s_openapi::api::core::v1::Node;
use kube::{ResourceExt as _, api::PropagationPolicy};
use parking_lot::Mutex;
use serde_json::json;

pub(crate) use self::decide::number;
use self::decide::{Step, decide, name, status_patch, wanted};
use crate::options::Shape;

const WORKERS: usize = 4;

#[derive(Clone)]
pub(crate) struct Nodes(Arc<Inner>);

struct Inner {
    cluster: Cluster,
    member: String,
    shape: Mutex<Shape>,
    nodes: Informer<Node>,
    queue: Queue<String>,
    writer: Writer,
}

impl Nodes {
    pub(crate) fn start(cluster: &Cluster, member: &str, shape: Shape) -> Self {
        let nodes = cluster.caches.take(&NODES);
        let queue = cluster.queue("nodes");
        let this = Self(Arc::new(Inner {
            cluster: cluster.clone(),
            member: member.to_owned(),
            shape: Mutex::new(shape),
            nodes: nodes.clone(),
            queue: queue.clone(),
            writer: Writer::new("nodes"),
        }));
        let to = queue.clone();
        nodes.on_change(move |change| {
            if let Some(node) = change.new.as_ref().or(change.old.as_ref()) {
                to.add(node.name_any());
            }
        });
        let (worker, first) = (this.clone(), this.clone());
        let ready = async move {
            nodes.synced().await;
            first.enqueue_all();
        };
        cluster.run("nodes", queue, WORKERS, [ready.boxed()], move |name| {
            let worker = worker.clone();
            async move { worker.reconcile(&name).await }
        });
        this
    }

    pub(crate) fn reshape(&self, shape: Shape) {
        *self.0.shape.lock() = shape;
        self.enqueue_all();
    }

    pub(crate) fn are_ready(&self) -> bool {
        let shape = self.0.shape.lock().clone();
        let right = |name: &str| {
            let node = self.0.nodes.get("", name);
            node.is_some_and(|node| decide(&self.0.member, &shape, name, Some(&node)) == Step::Leave)
        };
        (1..=shape.nodes).all(|n| right(&name(&self.0.member, n)))
    }

    fn enqueue_all(&self) {
        let count = self.0.shape.lock().nodes;
        (1..=count).for_each(|n| self.0.queue.add(name(&self.0.member, n)));
        self.0.nodes.list().iter().for_each(|node| self.0.queue.add(node.name_any()));
    }

    async fn reconcile(&self, name: &str) -> Result<Next, Failure> {
        let Inner { cluster, member, nodes, writer, .. } = &*self.0;
        let shape = self.0.shape.lock().clone();
        let seen = nodes.get("", name);
        let step = decide(member, &shape, name, seen.as_deref());
        let api: Api<Node> = Api::all(cluster.client.clone());
        let node = number(member, name).map(|n| wanted(member, &shape, n, cluster.seam.clock.wall_seconds()));
        match (step, node, seen) {
            (Step::Create, Some(node), _) => match writer.create(&api, Some(nodes), &node).await {
                Ok(_) | Err(Failure::AlreadyExists(_)) => {}
                Err(failure) => return Err(failure),
            },
            (Step::Delete, _, Some(seen)) => {
                writer.delete(&api, Some(nodes), &seen, PropagationPolicy::Background).await?
            }
            (Step::Change { labels, .. }, _, Some(seen)) if !labels.is_empty() => {
                writer.patch(&api, Some(nodes), &seen, json!({"metadata": {"labels": labels}})).await?;
            }
            (Step::Change { status: true, .. }, Some(node), Some(seen)) => {
                let version = seen.resource_version().unwrap_or_default();
                writer.patch_status(&api, Some(nodes), name, &version, status_patch(&seen, &node)).await?;
            }
            _ => {}
        }
        Ok(Next::Forget)
    }
}
