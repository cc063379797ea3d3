//! Both designs of autoscaling on real kube-apiservers: members with kube-controller-manager's HorizontalPodAutoscalers
//! and with metrics APIs (specification/autoscaling.md 2, 6, specification/proposals/001.md).
//!
//! The load is a number of millicores for the whole fleet, which the running pods share, as behind a load balancer.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_api::{
    autoscaling::FederatedHPA,
    cluster::Cluster,
    policy::{OverridePolicy, PropagationPolicy},
    taints::NO_EXECUTE,
};
use ironclad_seam::Clock;
use ironclad_testkit::{
    binary::{Daemon, ironclad},
    real::{Config, MetricsServer, NodeShape, RealEnv, until},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Event},
};
use kube::{
    Api, Client, Resource,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::autoscalers::load::{Load, Metrics};

const DEADLINE: Duration = Duration::from_secs(90);
/// Cpu that each pod uses at the target, in millicores: half of what it requests.
const AT_TARGET: i64 = 50;
const LOOK: Duration = Duration::from_millis(500);
/// Looks for which replicas have to stay: several evaluations, and the window of scaling down.
const LOOKS_STEADY: u32 = 16;

struct Fleet {
    env: RealEnv,
    plane: Client,
    members: Vec<Client>,
    metrics: Vec<Metrics>,
    _servers: Vec<MetricsServer>,
    /// Arguments of `ironclad`.
    run: Vec<String>,
}

impl Fleet {
    /// Two members that are joined and ready, and the control plane, which runs with these arguments too; `None` where
    /// the programs are missing.
    async fn start(more: &[&str]) -> anyhow::Result<Option<(Self, Daemon)>> {
        // Windows are short to save time.
        let flags = ["sync-period=1s", "downscale-stabilization=4s", "cpu-initialization-period=0s"];
        let flags = flags.map(|flag| format!("--horizontal-pod-autoscaler-{flag}"));
        let nodes = NodeShape { count: 1, ..NodeShape::default() };
        let config = Config { members: 2, nodes, manager_flags: flags.to_vec(), ..Config::default() };
        let Some(env) = RealEnv::start_or_skip(config).await? else { return Ok(None) };
        let kubeconfig = env.plane().kubeconfig().display().to_string();
        ironclad(["crds", "--install", "--kubeconfig", &kubeconfig]).await?.success()?;
        let account = env.account().await?;
        let own = ["run", "--kubeconfig", &account, "--metrics-bind-address=0", "--cluster-status-update-frequency=1s"];
        let run: Vec<String> = own.iter().chain(more).map(|flag| (*flag).to_owned()).chain(flags).collect();
        let daemon = Daemon::start(&run).await?;
        let (mut members, mut metrics, mut servers) = (Vec::new(), Vec::new(), Vec::new());
        for (n, member) in env.members().iter().enumerate() {
            let (name, path) = (format!("member{}", n + 1), member.kubeconfig().display().to_string());
            ironclad(["join", &name, "--kubeconfig", &kubeconfig, "--cluster-kubeconfig", &path]).await?.success()?;
            let client = member.client().await?;
            let own = Metrics::new(client.clone(), Clock::system());
            servers.push(MetricsServer::start(member, Arc::new(own.clone())).await?);
            members.push(client);
            metrics.push(own);
        }
        let plane = env.plane().client().await?;
        let clusters: Api<Cluster> = Api::all(plane.clone());
        until("both members are ready", DEADLINE, async || {
            let all = clusters.list(&ListParams::default()).await?.items;
            ensure!(all.len() == 2 && all.iter().all(Cluster::is_ready), "{all:?}");
            Ok(())
        })
        .await?;
        let fleet = Self { env, plane, members, metrics, _servers: servers, run };
        Ok(Some((fleet, daemon)))
    }

    async fn create<K>(&self, object: Value) -> anyhow::Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + serde::Serialize
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.plane.clone(), "default");
        api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    /// Creates the workload, divided by these weights.
    async fn deploy(&self, weights: [i64; 2]) -> anyhow::Result<()> {
        let labels = json!({"app": "web"});
        self.create::<Deployment>(json!({
            "metadata": {"name": "web"},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "100m"}}}]}}},
        }))
        .await?;
        let weight =
            |n: usize| json!({"targetCluster": {"clusterNames": [format!("member{}", n + 1)]}, "weight": weights[n]});
        self.create::<PropagationPolicy>(json!({
            "metadata": {"name": "web"},
            "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
                "placement": {"replicaScheduling": {
                    "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                    "weightPreference": {"staticWeightList": [weight(0), weight(1)]}}},
            },
        }))
        .await
    }

    /// Gives each of these members an equal part of the load of this many pods, whatever runs there: so there is one
    /// number of replicas that fits it.
    fn share(&self, pods: i64, members: &[usize]) {
        let each = pods * AT_TARGET / i64::try_from(members.len().max(1)).unwrap_or(i64::MAX);
        for member in members {
            self.metrics[*member].set("default", Load::shared(each));
        }
    }

    async fn in_member(&self, member: usize) -> anyhow::Result<Option<Deployment>> {
        Ok(Api::<Deployment>::namespaced(self.members[member].clone(), "default").get_opt("web").await?)
    }

    /// Replicas in each of these members; 0 without the workload.
    async fn replicas(&self, members: &[usize]) -> anyhow::Result<Vec<i32>> {
        let mut all = Vec::new();
        for member in members {
            all.push(self.in_member(*member).await?.and_then(|found| found.spec?.replicas).unwrap_or(0));
        }
        Ok(all)
    }

    /// Keeps the load of this many pods on these members until they have these replicas.
    async fn until_replicas(&self, what: &str, load: i64, members: &[usize], want: &[i32]) -> anyhow::Result<()> {
        until(what, DEADLINE, async || {
            self.share(load, members);
            let replicas = self.replicas(members).await?;
            ensure!(replicas == want, "{replicas:?} and not {want:?}");
            Ok(())
        })
        .await
    }

    /// Checks that these members keep their replicas under the load of this many pods.
    async fn steady(&self, what: &str, load: i64, members: &[usize], want: &[i32]) -> anyhow::Result<()> {
        for _ in 0..LOOKS_STEADY {
            self.share(load, members);
            let replicas = self.replicas(members).await?;
            ensure!(replicas == want, "{what}: {replicas:?} and not {want:?}");
            sleep(LOOK).await;
        }
        Ok(())
    }

    async fn template_replicas(&self) -> anyhow::Result<i32> {
        let template = Api::<Deployment>::namespaced(self.plane.clone(), "default").get("web").await?;
        template.spec.and_then(|spec| spec.replicas).context("replicas of the template")
    }

    /// Minimum and maximum of a member's autoscaler.
    async fn bounds(&self, member: usize) -> anyhow::Result<Option<(i32, i32)>> {
        let api: Api<HorizontalPodAutoscaler> = Api::namespaced(self.members[member].clone(), "default");
        let found = api.get_opt("web").await?;
        Ok(found.map(|hpa| (hpa.spec.min_replicas.unwrap_or(1), hpa.spec.max_replicas)))
    }

    /// Waits until the record says what these members have.
    async fn until_recorded(&self, want: &[(&str, i64)]) -> anyhow::Result<()> {
        let api: Api<OverridePolicy> = Api::namespaced(self.plane.clone(), "default");
        until("what members decided is recorded", DEADLINE, async || {
            let policy = api.get("federatedhpa-web").await?;
            let rules = policy.spec.override_rules.into_iter();
            let rules: Vec<(String, i64)> = rules
                .filter_map(|rule| {
                    let cluster = rule.target_cluster?.cluster_names.into_iter().next()?;
                    Some((cluster, rule.overriders.plaintext.first()?.value.as_ref()?.as_i64()?))
                })
                .collect();
            let rules: Vec<(&str, i64)> =
                rules.iter().map(|(cluster, replicas)| (cluster.as_str(), *replicas)).collect();
            ensure!(rules == want, "{rules:?} and not {want:?}");
            Ok(())
        })
        .await
    }
}

fn metrics() -> Value {
    json!([{"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 50}}}])
}

#[tokio::test]
async fn members_scale_with_and_without_the_control_plane_on_real_kube_apiservers() -> anyhow::Result<()> {
    let failover = [
        "--feature-gates=Failover=true",
        "--resource-eviction-rate=10",
        "--cluster-success-threshold=2s",
        "--cluster-failure-threshold=2s",
        "--eviction-warm-up=1s",
        "--federated-hpa-cluster-failure-grace=5s",
    ];
    let Some((fleet, daemon)) = Fleet::start(&failover).await? else { return Ok(()) };
    let both = &[0, 1];
    fleet.deploy([1, 1]).await?;
    fleet
        .create::<HorizontalPodAutoscaler>(json!({
            "metadata": {"name": "web", "labels": {"federatedhpa.karmada.io/enabled": "true"}},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": 2, "maxReplicas": 12, "metrics": metrics(),
            },
        }))
        .await?;
    fleet.until_replicas("one replica in each member", 2, both, &[1, 1]).await?;
    until("each member has an autoscaler", DEADLINE, async || {
        let bounds = (fleet.bounds(0).await?, fleet.bounds(1).await?);
        ensure!(bounds == (Some((1, 6)), Some((1, 6))), "{bounds:?}");
        Ok(())
    })
    .await?;

    // Normal scaling: members decide, the record follows, the template is not scaled.
    fleet.until_replicas("members scale up", 8, both, &[4, 4]).await?;
    fleet.until_recorded(&[("member1", 4), ("member2", 4)]).await?;
    ensure!(fleet.template_replicas().await? == 2, "the template is not scaled");
    fleet.steady("constant load", 8, both, &[4, 4]).await?;

    // Without the control plane: members follow the load, and keep what they have when it is back.
    daemon.stop_unrefused().await?;
    fleet.until_replicas("members scale up alone", 12, both, &[6, 6]).await?;
    fleet.until_replicas("members scale down alone", 4, both, &[2, 2]).await?;
    let daemon = Daemon::start(&fleet.run).await?;
    fleet.steady("the control plane is back", 4, both, &[2, 2]).await?;
    fleet.until_recorded(&[("member1", 2), ("member2", 2)]).await?;

    // A member is lost: the other one gets its share of the maximum. Then the workload is evicted.
    fleet.until_replicas("members scale up", 8, both, &[4, 4]).await?;
    fleet.env.member(1).stop_api_server();
    fleet.until_replicas("the other one takes over", 8, &[0], &[8]).await?;
    let clusters: Api<Cluster> = Api::all(fleet.plane.clone());
    let taint = json!({"spec": {"taints": [{"key": "maintenance", "effect": NO_EXECUTE}]}});
    clusters.patch("member2", &PatchParams::default(), &Patch::Merge(taint)).await?;
    fleet.steady("while it is evicted", 8, &[0], &[8]).await?;
    fleet.env.member(1).start_api_server().await?;
    until("the evicted copy and its autoscaler are gone", DEADLINE, async || {
        fleet.share(8, &[0]);
        let left = (fleet.in_member(1).await?.is_some(), fleet.bounds(1).await?);
        ensure!(left == (false, None), "{left:?}");
        Ok(())
    })
    .await?;
    fleet.steady("afterwards", 8, &[0], &[8]).await?;
    ensure!(fleet.bounds(0).await? == Some((2, 12)), "{:?}", fleet.bounds(0).await?);
    fleet.until_recorded(&[("member1", 8)]).await?;
    daemon.stop_unrefused().await
}

#[tokio::test]
async fn the_control_plane_scales_on_real_kube_apiservers() -> anyhow::Result<()> {
    let Some((fleet, daemon)) = Fleet::start(&[]).await? else { return Ok(()) };
    let both = &[0, 1];
    fleet.deploy([1, 2]).await?;
    fleet
        .create::<FederatedHPA>(json!({
            "metadata": {"name": "web"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": 1, "maxReplicas": 12, "metrics": metrics(),
            },
        }))
        .await?;
    fleet.until_replicas("replicas follow the load and are divided by the policy", 6, both, &[2, 4]).await?;
    fleet.steady("constant load", 6, both, &[2, 4]).await?;
    ensure!(fleet.template_replicas().await? == 6, "{}", fleet.template_replicas().await?);
    fleet.until_replicas("the maximum holds", 60, both, &[4, 8]).await?;
    fleet.until_replicas("they come back after the window", 3, both, &[1, 2]).await?;
    fleet.steady("at rest", 3, both, &[1, 2]).await?;
    let events: Api<Event> = Api::namespaced(fleet.plane.clone(), "default");
    until("changes are told", DEADLINE, async || {
        let all = events.list(&ListParams::default().fields("involvedObject.kind=FederatedHPA")).await?;
        let told = |event: &Event| event.message.as_deref() == Some("New size: 3; reason: All metrics below target");
        ensure!(all.iter().any(told), "{:?}", all.iter().map(|event| &event.message).collect::<Vec<_>>());
        Ok(())
    })
    .await?;
    daemon.stop_unrefused().await
}
