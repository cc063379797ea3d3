//! Members that differ, and what happens inside of them: nodes of several sizes, pods that the control plane did not
//! create, Jobs, quotas, copies whose replicas the member decides on. Capacity is what nodes have free; models,
//! summaries and estimators differ from run to run.

use std::{fmt, sync::Arc, time::Duration};

use anyhow::Context as _;
use futures::future::BoxFuture;
use ironclad_api::cluster::Cluster;
use ironclad_estimator::{Assumed, Call, Estimator, Workload};
use ironclad_runtime::Api;
use ironclad_scheduling::estimator::Question;
use ironclad_seam::Stream;
use ironclad_simcluster::Shape;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        batch::v1::Job,
        core::v1::{Namespace, Node, Pod, ResourceQuota, Service},
    },
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::sim::World;

/// Nodes of a member at most.
pub(super) const NODES_MAX: u64 = 6;
/// Namespace of the workloads, in the control plane and in members.
const NAMESPACE: &str = "default";
/// Namespace of estimators over gRPC.
const SYSTEM: &str = "karmada-system";
/// Name of the quota of a member.
const QUOTA: &str = "of-the-member";

/// Members of a run, and the settings by which their capacity is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variety {
    /// Nodes of each member.
    pub nodes: Vec<Nodes>,
    pub models: Models,
    /// Time between two summaries of a cluster.
    pub summaries: Duration,
    /// An estimator over gRPC answers for every member, by its nodes.
    pub estimators: bool,
    /// No faults, so that nothing excuses a preemption in vain.
    pub calm: bool,
}

/// Nodes of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    /// Cores of each node.
    pub cores: i64,
    /// Millicores that a pod of the member's own requests on each node.
    pub own: Vec<i64>,
}

/// Resource models of the clusters. They limit nothing where nodes and pods are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Models {
    Default,
    Off,
    /// A user wrote models by which no node has more than one core.
    Written,
}

impl fmt::Display for Variety {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { models, summaries, estimators, calm, .. } = self;
        write!(f, "models {models:?}, summaries every {summaries:?}, estimators {estimators}, calm {calm}, nodes")?;
        for Nodes { cores, own } in &self.nodes {
            write!(f, " {}x{cores}-{own:?}", own.len())?;
        }
        Ok(())
    }
}

impl Variety {
    pub(super) fn drawn(draws: &Stream, members: usize) -> Self {
        let nodes = |_| {
            let count = 1 + draws.below(NODES_MAX);
            let cores = if count > 3 { 2 + draws.below(2) } else { [3, 4, 6, 8][draws.below(4) as usize] };
            let own = |_| if draws.chance(0.5) { 0 } else { 500 * draws.below(2 * cores) as i64 };
            Nodes { cores: cores as i64, own: (0..count).map(own).collect() }
        };
        Self {
            nodes: (0..members).map(nodes).collect(),
            models: [Models::Default, Models::Off, Models::Written][draws.below(3) as usize],
            summaries: Duration::from_secs([2, 10, 10, 30, 60][draws.below(5) as usize]),
            estimators: draws.chance(0.3),
            calm: draws.chance(0.5),
        }
    }

    /// Millicores of all members that workloads may take.
    pub(super) fn capacity(&self) -> i64 {
        let of = |nodes: &Nodes| nodes.own.iter().map(|own| nodes.cores * 1_000 - own).sum::<i64>();
        self.nodes.iter().map(of).sum()
    }

    /// Gives members their nodes and the pods of their own, and clusters their models, before controllers start.
    pub(super) async fn furnish(&self, world: &mut World) -> anyhow::Result<()> {
        for (member, nodes) in self.nodes.iter().enumerate() {
            let name = World::name_of(member);
            self.reshape(world, member, nodes.own.len() as u32)?;
            let client = world.member(&name)?.client();
            let (all, count): (Api<Node>, _) = (Api::all(client.clone()), nodes.own.len());
            world
                .until(&format!("{name} has {count} nodes"), async || {
                    let found = all.list(&ListParams::default()).await?.items;
                    let has = |node: &Node| cores(node) == Some(nodes.cores);
                    Ok(found.len() == count && found.iter().all(has))
                })
                .await?;
            let pods: Api<Pod> = Api::namespaced(client, "kube-system");
            let found = all.list(&ListParams::default()).await?.items;
            for (node, own) in found.iter().zip(&nodes.own).filter(|(_, own)| **own > 0) {
                let mut pod = json!({"metadata": {"name": format!("own-{}", node.name_any())}, "spec": pod_spec(*own)});
                pod["spec"]["nodeName"] = json!(node.name_any());
                pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await.context("its own pod")?;
            }
            if self.models == Models::Written {
                let clusters: Api<Cluster> = Api::all(world.user());
                let patch = Patch::Merge(json!({"spec": {"resourceModels": written_models()}}));
                clusters.patch(&name, &PatchParams::default(), &patch).await?;
            }
            if self.estimators {
                self.estimate(world, &name).await?;
            }
        }
        Ok(())
    }

    /// Gives a member this many nodes.
    fn reshape(&self, world: &World, member: usize, nodes: u32) -> anyhow::Result<()> {
        let target = world.member(&World::name_of(member))?;
        let mut shape = Shape { nodes, ..target.shape() };
        if let Some(of) = self.nodes.get(member) {
            shape.capacity.insert("cpu".to_owned(), Quantity(of.cores.to_string()));
        }
        target.reshape(shape);
        Ok(())
    }

    async fn estimate(&self, world: &World, name: &str) -> anyhow::Result<()> {
        let namespaces: Api<Namespace> = Api::all(world.user());
        if namespaces.get_opt(SYSTEM).await?.is_none() {
            let namespace = json!({"metadata": {"name": SYSTEM}});
            namespaces.create(&PostParams::default(), &serde_json::from_value(namespace)?).await?;
        }
        let service = json!({
            "metadata": {"name": format!("karmada-scheduler-estimator-{name}")},
            "spec": {"type": "ExternalName", "externalName": "estimator.example.com",
                     "ports": [{"port": 10352, "targetPort": 10352}]},
        });
        let services: Api<Service> = Api::namespaced(world.user(), SYSTEM);
        services.create(&PostParams::default(), &serde_json::from_value(service)?).await?;
        world.set_estimator(name, Arc::new(OfMember(world.member(name)?.client())));
        Ok(())
    }

    /// Ends what members' own users did, and the choice of members over the replicas of these workloads.
    pub(super) async fn heal(&self, world: &World, retaining: &[&str]) -> anyhow::Result<()> {
        for (member, nodes) in self.nodes.iter().enumerate() {
            let client = world.member(&World::name_of(member))?.client();
            // Nodes that were added stay: what runs there would not fit elsewhere.
            let present = world.member(&World::name_of(member))?.shape().nodes;
            self.reshape(world, member, present.max(nodes.own.len() as u32))?;
            limit(world, member, None).await?;
            let jobs: Api<Job> = Api::namespaced(client, NAMESPACE);
            jobs.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
        }
        let templates: Api<Deployment> = Api::namespaced(world.user(), NAMESPACE);
        for app in retaining {
            let patch = json!({"metadata": {"labels": {ironclad_api::labels::RETAIN_REPLICAS: null}}});
            templates.patch(app, &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        Ok(())
    }
}

/// Starts a Job of a member's own users.
pub(super) async fn run_job(world: &World, member: usize, cpu: i64, time: Duration) -> anyhow::Result<()> {
    let jobs: Api<Job> = Api::namespaced(world.member(&World::name_of(member))?.client(), NAMESPACE);
    let mut spec = pod_spec(cpu);
    spec["restartPolicy"] = json!("Never");
    let annotations = json!({"sim.ironclad.io/run-time": format!("{}s", time.as_secs())});
    let job = json!({
        "metadata": {"generateName": "job-"},
        "spec": {"parallelism": 2, "completions": 2,
            "template": {"metadata": {"annotations": annotations}, "spec": spec}},
    });
    jobs.create(&PostParams::default(), &serde_json::from_value(job)?).await?;
    Ok(())
}

/// Limits the pods of a member's namespace, or ends that.
pub(super) async fn limit(world: &World, member: usize, pods: Option<i64>) -> anyhow::Result<()> {
    let quotas: Api<ResourceQuota> = Api::namespaced(world.member(&World::name_of(member))?.client(), NAMESPACE);
    if quotas.get_opt(QUOTA).await?.is_some() {
        quotas.delete(QUOTA, &DeleteParams::default()).await?;
    }
    if let Some(pods) = pods {
        let quota = json!({"metadata": {"name": QUOTA}, "spec": {"hard": {"pods": pods.to_string()}}});
        quotas.create(&PostParams::default(), &serde_json::from_value(quota)?).await?;
    }
    Ok(())
}

/// Adds or removes nodes of a member.
pub(super) fn resize(world: &World, member: usize, nodes: u32) -> anyhow::Result<()> {
    let target = world.member(&World::name_of(member))?;
    target.reshape(Shape { nodes, ..target.shape() });
    Ok(())
}

/// Scales the copy of a workload in a member, if there is one.
pub(super) async fn scale_copy(world: &World, app: &str, member: usize, replicas: i32) -> anyhow::Result<()> {
    let copies: Api<Deployment> = Api::namespaced(world.member(&World::name_of(member))?.client(), NAMESPACE);
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    match copies.patch(app, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

fn cores(node: &Node) -> Option<i64> {
    node.status.as_ref()?.allocatable.as_ref()?.get("cpu")?.0.parse().ok()
}

fn pod_spec(cpu: i64) -> Value {
    json!({"containers": [
        {"name": "c", "image": "own:1", "resources": {"requests": {"cpu": format!("{cpu}m")}}},
    ]})
}

/// Models of two grades: up to one core, and more.
fn written_models() -> Value {
    let most = i64::MAX.to_string();
    json!([
        {"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "1"}, {"name": "memory", "min": "0", "max": "1Gi"}]},
        {"grade": 1, "ranges": [{"name": "cpu", "min": "1", "max": most}, {"name": "memory", "min": "1Gi", "max": most}]},
    ])
}

/// Estimator that answers by what a member has at the moment.
struct OfMember(Client);

impl Estimator for OfMember {
    fn call(&self, _: &Workload, call: &Call, _: &[Assumed]) -> BoxFuture<'static, Result<i32, String>> {
        let question = match call {
            Call::Replicas(needs) => Question::replicas(&needs.namespace, Some(needs)),
            Call::Sets(namespace, components) => Question::sets(namespace, components),
            Call::Unschedulable(_) => return Box::pin(std::future::ready(Ok(0))),
        };
        let client = self.0.clone();
        Box::pin(async move {
            let index = ironclad_estimator::listed(&client).await.map_err(|error| error.to_string())?;
            Ok(i32::try_from(index.fits(&question)).unwrap_or(i32::MAX))
        })
    }
}
