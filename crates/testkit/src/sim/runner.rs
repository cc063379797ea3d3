//! A small fleet with settled workloads for scenarios of failover: actions of a test and conditions to wait
//! for.

use ironclad_failover::flags::eviction::Check;
use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_api::{
    cluster::Cluster,
    labels,
    policy::{ClusterTaintPolicy, PropagationPolicy},
    work::{GracefulEvictionTask, ResourceBinding, Work},
};
use ironclad_fleet::{BindingKey, ClusterName};
use ironclad_runtime::Api;
use ironclad_simcluster::{Faults, Shape};
use k8s_openapi::{api::apps::v1::Deployment, apimachinery::pkg::api::resource::Quantity};
use kube::api::{ListParams, PostParams};
use serde_json::Value;

use super::{
    Setup, World,
    checker::{Eviction, Rates, Rules},
    flags,
    script::{App, HAND_KEY, TaintPolicy, taint, untaint},
};

/// Gate `Failover` on, this many members of one node each, this rate, and the strict check.
pub fn setup(members: usize, rate: f64) -> Setup {
    let rules = Rules {
        gate: true,
        rates: Rates { primary: rate, ..Rates::default() },
        asked_taints: [HAND_KEY, super::script::POLICY_KEY].map(|key| (key.into(), "NoExecute".into())).into(),
        ..Rules::default()
    };
    Setup {
        seed: 0xfa11,
        members,
        spares: 0,
        pull: 0,
        tunnels: false,
        nodes: 1,
        zones: 0,
        elected: false,
        settings: flags::settings(true, rate, Check::Strict),
        rules,
    }
}

pub struct Runner {
    pub world: World,
    began: tokio::time::Instant,
}

impl Runner {
    /// Starts the world and waits until all clusters are Ready and the leader's warm-up is over.
    pub async fn new(setup: Setup) -> anyhow::Result<Self> {
        let mut world = World::start(setup).await?;
        // Of clusters that are equal otherwise, the first by name has room for most pods, so that it is preferred.
        for (at, member) in world.members.values().enumerate() {
            let mut shape = member.shape();
            let pods = 110 + 5 * (world.members.len() - at);
            shape.capacity.insert("pods".to_owned(), Quantity(pods.to_string()));
            member.reshape(shape);
        }
        world.start_process(0);
        let clusters: Api<Cluster> = Api::all(world.user());
        world
            .until("all clusters are Ready", async || {
                let all = clusters.list(&ListParams::default()).await?;
                Ok(all.items.iter().all(|c| c.is_ready()))
            })
            .await?;
        let began = world.clock().mono();
        Ok(Self { world, began })
    }

    /// Creates workloads and waits until all is idle.
    pub async fn settle(&mut self, apps: &[App]) -> anyhow::Result<()> {
        for app in apps {
            self.add(app, |_| {}).await?;
        }
        self.world.until_quiet().await?;
        // The warm-up of the leader is over.
        self.world.pass(Duration::from_secs(10)).await?;
        self.began = self.world.clock().mono();
        Ok(())
    }

    pub async fn add(&self, app: &App, change: impl FnOnce(&mut Value)) -> anyhow::Result<()> {
        let user = self.world.user();
        let mut policy = serde_json::to_value(app.policy()?)?;
        change(&mut policy);
        let policies: Api<PropagationPolicy> = Api::namespaced(user.clone(), "default");
        policies.create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
        let deployments: Api<Deployment> = Api::namespaced(user, "default");
        deployments.create(&PostParams::default(), &app.deployment()?).await?;
        Ok(())
    }

    pub async fn taint_policy(&self, policy: &TaintPolicy) -> anyhow::Result<()> {
        let policies: Api<ClusterTaintPolicy> = Api::all(self.world.user());
        policies.create(&PostParams::default(), &policy.object()?).await?;
        Ok(())
    }

    /// Taints members as a user; [`Runner::elapsed`] counts from then on.
    pub async fn taint(&mut self, members: &[&str], effect: &str) -> anyhow::Result<()> {
        self.began = self.world.clock().mono();
        for member in members {
            taint(&self.world.user(), member, HAND_KEY, effect, self.world.clock().wall_seconds()).await?;
        }
        Ok(())
    }

    pub async fn untaint(&mut self, members: &[&str], effect: &str) -> anyhow::Result<()> {
        for member in members {
            untaint(&self.world.user(), member, HAND_KEY, effect).await?;
        }
        Ok(())
    }

    pub fn fault(&mut self, member: &str, faults: Faults) -> anyhow::Result<()> {
        self.began = self.world.clock().mono();
        self.world.member(member)?.set_faults(faults);
        Ok(())
    }

    /// Removes the nodes of a member: workloads placed there never become ready.
    pub fn remove_nodes(&self, member: &str) -> anyhow::Result<()> {
        self.world.member(member)?.reshape(Shape { nodes: 0, ..Shape::default() });
        Ok(())
    }

    /// Gives a member one node again.
    pub fn restore_node(&self, member: &str) -> anyhow::Result<()> {
        self.world.member(member)?.reshape(Shape { nodes: 1, ..Shape::default() });
        Ok(())
    }

    pub fn elapsed(&self) -> Duration {
        self.world.clock().mono() - self.began
    }

    /// Lets virtual time pass until this time after the last taint or fault.
    pub async fn at(&mut self, seconds: f64) -> anyhow::Result<()> {
        let left = Duration::from_secs_f64(seconds).saturating_sub(self.elapsed());
        self.world.pass(left).await
    }

    pub fn binding(&self, app: &str) -> anyhow::Result<Arc<ResourceBinding>> {
        let key = BindingKey { namespace: "default".into(), name: format!("{app}-deployment").as_str().into() };
        self.world.model.look(|fleet| fleet.bindings.get(&key).cloned()).with_context(|| format!("no binding of {app}"))
    }

    /// Returns the clusters and replicas of a workload, as `member1:2`, by name.
    pub fn placed(&self, app: &str) -> anyhow::Result<Vec<String>> {
        let mut all: Vec<String> =
            self.binding(app)?.spec.clusters.iter().map(|t| format!("{}:{}", t.name, t.replicas)).collect();
        all.sort();
        Ok(all)
    }

    pub fn tasks(&self, app: &str) -> anyhow::Result<Vec<GracefulEvictionTask>> {
        Ok(self.binding(app)?.spec.graceful_eviction_tasks.clone())
    }

    pub fn copies(&self, app: &str) -> Vec<String> {
        self.world.model.look(|fleet| {
            let has = |(_, objects): &(&ClusterName, &std::collections::BTreeMap<_, _>)| {
                objects.keys().any(|key: &ironclad_fleet::ObjectKey| *key.name == *app)
            };
            fleet.members.iter().filter(has).map(|(name, _)| name.to_string()).collect()
        })
    }

    /// Returns the copy in a member.
    pub fn copy(&self, app: &str, member: &str) -> Option<Value> {
        self.world.model.look(|fleet| {
            let objects = fleet.members.get(&ClusterName::from(member))?;
            objects.iter().find(|(key, _)| *key.name == *app).map(|(_, object)| (**object).clone())
        })
    }

    /// Returns the clusters with a Work of a workload, terminating ones included.
    pub fn works(&self, app: &str) -> anyhow::Result<Vec<(String, Arc<Work>)>> {
        let binding = self.binding(app)?;
        let id = |labels: &Option<std::collections::BTreeMap<String, String>>| {
            labels.as_ref().and_then(|l| l.get(labels::RESOURCE_BINDING_PERMANENT_ID)).cloned()
        };
        let of = id(&binding.metadata.labels);
        Ok(self.world.model.look(|fleet| {
            let ours = fleet.works.iter().filter(|(_, work)| of.is_some() && id(&work.metadata.labels) == of);
            ours.map(|(key, work)| (key.cluster.to_string(), work.clone())).collect()
        }))
    }

    pub fn evictions(&self) -> Vec<Eviction> {
        self.world.model.ask(|checker| checker.evictions().to_vec())
    }

    /// Times of evictions after the last taint or fault, seconds.
    pub fn eviction_times(&self) -> Vec<f64> {
        let since = self.world.model.since_beginning(self.began);
        self.evictions().iter().map(|e| e.at.as_secs_f64() - since.as_secs_f64()).collect()
    }

    /// Waits until a condition holds that is read without a request.
    pub async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> anyhow::Result<bool>) -> anyhow::Result<()> {
        let begin = self.world.clock().mono();
        while !holds(self)? {
            let waited = self.world.clock().mono() - begin;
            ensure!(waited < Duration::from_secs(900), "{what}: not so after {waited:?}");
            self.world.pass(Duration::from_millis(250)).await.with_context(|| format!("waiting for {what}"))?;
        }
        Ok(())
    }

    /// Waits until condition Ready of a cluster has this status.
    pub async fn until_ready_is(&mut self, cluster: &str, status: &str) -> anyhow::Result<()> {
        self.until(&format!("Ready of {cluster} is {status}"), |runner| {
            Ok(runner.world.model.look(|f| f.clusters.get(&cluster.into()).is_some_and(|c| c.ready() == Some(status))))
        })
        .await
    }

    /// Waits until a workload is placed as given (see [`Runner::placed`]) and its migration is complete.
    pub async fn until_settled(&mut self, app: &str, placed: &[&str]) -> anyhow::Result<()> {
        self.until(&format!("{app} is settled on {placed:?}"), |runner| {
            Ok(runner.placed(app)? == placed
                && runner.tasks(app)?.is_empty()
                && runner.copies(app).len() == placed.len())
        })
        .await
    }
}
