//! Distributed HorizontalPodAutoscalers in virtual time: members scale by their load, with and without the control
//! plane, while one of them is lost, and whichever write a process is killed after
//! (specification/autoscaling.md 6, specification/proposals/001.md).
//!
//! The load is a number of millicores for the whole fleet, which the running pods share, as behind a load balancer.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_api::{
    apps::WorkloadRebalancer,
    cluster::Cluster,
    policy::{FederatedResourceQuota, OverridePolicy, PropagationPolicy},
    taints::NO_EXECUTE,
    work::{ResourceBinding, Work},
};
use ironclad_controllers::Settings;
use ironclad_failover::flags::eviction::Check;
use ironclad_fleet::gates::Gate;
use ironclad_simcluster::{Faults, UsageRule};
use ironclad_testkit::sim::{
    Fault, Setup, World, WorldOptions, flags,
    matrix::{self, Disturbance, Pass, Played},
    propagation,
};
use k8s_openapi::{
    api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// Cpu that each pod requests, in millicores; the target is half of it.
const REQUEST: i64 = 100;
const TARGET_PERCENT: i64 = 50;
const MAX: i32 = 30;
/// Interval at which the load is distributed anew.
const TICK: Duration = Duration::from_secs(5);
const MINUTE: Duration = Duration::from_secs(60);

fn autoscaler() -> anyhow::Result<HorizontalPodAutoscaler> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default", "labels": {"federatedhpa.karmada.io/enabled": "true"}},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 3, "maxReplicas": MAX,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": TARGET_PERCENT}}}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
        },
    }))?)
}

fn workload() -> anyhow::Result<Deployment> {
    let mut deployment = serde_json::to_value(propagation::deployment()?)?;
    deployment["spec"]["replicas"] = json!(3);
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": format!("{REQUEST}m")}});
    Ok(serde_json::from_value(deployment)?)
}

fn policy() -> anyhow::Result<PropagationPolicy> {
    let mut policy = serde_json::to_value(propagation::policy()?)?;
    policy["spec"]["placement"] = json!({"clusterAffinity": {}, "replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}});
    Ok(serde_json::from_value(policy)?)
}

struct Scene {
    world: World,
    deployments: Api<Deployment>,
    autoscalers: Api<HorizontalPodAutoscaler>,
    overrides: Api<OverridePolicy>,
    /// Load of the fleet in millicores.
    load: i64,
    /// Members that serve nobody.
    lost: Vec<String>,
}

impl Scene {
    async fn start() -> anyhow::Result<Self> {
        Self::start_with(flags::settings(true, 0.9, Check::Off)).await
    }

    async fn start_with(settings: Settings) -> anyhow::Result<Self> {
        let mut setup = Setup::from(WorldOptions { seed: 18, members: 3 });
        setup.settings = settings;
        setup.rules.gate = true;
        setup.rules.asked_taints = [("maintenance".to_owned(), NO_EXECUTE.to_owned())].into();
        let mut world = World::start(setup).await?;
        world.start_controllers().await;
        let user = world.user();
        let clusters: Api<Cluster> = Api::all(user.clone());
        world
            .until("all clusters are Ready", async || {
                let all = clusters.list(&ListParams::default()).await?;
                Ok(all.items.iter().all(Cluster::is_ready))
            })
            .await?;
        let scene = Self {
            world,
            deployments: Api::namespaced(user.clone(), "default"),
            autoscalers: Api::namespaced(user.clone(), "default"),
            overrides: Api::namespaced(user, "default"),
            load: 3 * REQUEST * TARGET_PERCENT / 100,
            lost: Vec::new(),
        };
        Ok(scene)
    }

    /// The scene with the workload in each member, and its autoscaler.
    async fn scaled() -> anyhow::Result<Self> {
        let mut scene = Self::start().await?;
        scene.create().await?;
        scene.until_replicas("one replica in each member", &[1, 1, 1]).await?;
        scene.until_autoscalers(&[(1, 10), (1, 10), (1, 10)]).await?;
        Ok(scene)
    }

    async fn create(&self) -> anyhow::Result<()> {
        let post = PostParams::default();
        self.deployments.create(&post, &workload()?).await?;
        Api::namespaced(self.world.user(), "default").create(&post, &policy()?).await?;
        self.autoscalers.create(&post, &autoscaler()?).await?;
        Ok(())
    }

    /// Sets the quota of the namespace: cpu for this many replicas.
    async fn set_quota(&self, replicas: i64) -> anyhow::Result<()> {
        let quotas: Api<FederatedResourceQuota> = Api::namespaced(self.world.user(), "default");
        let quota = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
            "metadata": {"name": "all"}, "spec": {"overall": {"cpu": format!("{}m", replicas * REQUEST)}}});
        quotas.patch("all", &PatchParams::apply("test").force(), &Patch::Apply(quota)).await?;
        Ok(())
    }

    /// Status and reason of condition `ScalingLimited`.
    async fn limited(&self) -> anyhow::Result<String> {
        let status = self.autoscalers.get("web").await?.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let limited = conditions.into_iter().find(|condition| condition.type_ == "ScalingLimited");
        Ok(limited
            .map(|limited| format!("{} {}", limited.status, limited.reason.unwrap_or_default()))
            .unwrap_or_default())
    }

    async fn in_member(&self, member: &str) -> anyhow::Result<Option<Deployment>> {
        Ok(Api::<Deployment>::namespaced(self.world.member(member)?.client(), "default").get_opt("web").await?)
    }

    /// Replicas by member; 0 without the workload.
    async fn replicas(&self) -> anyhow::Result<Vec<i32>> {
        let mut all = Vec::new();
        for member in self.world.members.keys() {
            let deployment = self.in_member(member).await?;
            all.push(deployment.and_then(|deployment| deployment.spec?.replicas).unwrap_or(0));
        }
        Ok(all)
    }

    /// Minimum and maximum of the members' autoscalers.
    async fn bounds(&self) -> anyhow::Result<Vec<(i32, i32)>> {
        let mut all = Vec::new();
        for member in self.world.members.keys() {
            let api = Api::<HorizontalPodAutoscaler>::namespaced(self.world.member(member)?.client(), "default");
            let hpa = api.get_opt("web").await?;
            all.push(hpa.map_or((0, 0), |hpa| (hpa.spec.min_replicas.unwrap_or(1), hpa.spec.max_replicas)));
        }
        Ok(all)
    }

    /// Divides the load among the pods that are ready.
    async fn share_load(&self) -> anyhow::Result<()> {
        let mut pods = 0;
        for member in self.world.members.keys().filter(|member| !self.lost.contains(member)) {
            let status = self.in_member(member).await?.and_then(|deployment| deployment.status);
            pods += i64::from(status.and_then(|status| status.ready_replicas).unwrap_or(0));
        }
        let each = self.load / pods.max(1);
        for (name, member) in self.world.members.iter() {
            let cpu = if self.lost.contains(name) { 0 } else { each };
            member.set_usage(vec![UsageRule {
                namespace: "default".to_owned(),
                selector: None,
                cpu: Some(Quantity(format!("{cpu}m"))),
                memory: None,
            }]);
        }
        Ok(())
    }

    /// Lets time pass under the present load, and checks what holds at any time.
    async fn pass(&mut self, time: Duration) -> anyhow::Result<()> {
        let end = self.world.clock().mono() + time;
        while self.world.clock().mono() < end {
            self.share_load().await?;
            self.world.pass(TICK).await?;
            self.check().await?;
        }
        Ok(())
    }

    /// No copy is ever at zero, above every maximum, or missing where the scheduler wants one.
    async fn check(&self) -> anyhow::Result<()> {
        let replicas = self.replicas().await?;
        for (n, (member, replicas)) in self.world.members.keys().zip(&replicas).enumerate() {
            ensure!((0..=MAX).contains(replicas), "{member} has {replicas} replicas");
            let runs = self.in_member(member).await?.is_some();
            ensure!(!runs || *replicas >= 1, "member {n} lost its replicas");
        }
        Ok(())
    }

    async fn until_replicas(&mut self, what: &str, want: &[i32]) -> anyhow::Result<()> {
        for _ in 0..240 {
            if self.replicas().await? == want {
                return Ok(());
            }
            self.pass(TICK).await?;
        }
        anyhow::bail!("{what}: {:?} and not {want:?}; {}", self.replicas().await?, self.shown().await?)
    }

    /// Waits until the fleet has this many replicas, give or take the tolerance of the autoscalers.
    async fn until_total(&mut self, want: i32) -> anyhow::Result<()> {
        for _ in 0..240 {
            if is_about(&self.replicas().await?, want) {
                return Ok(());
            }
            self.pass(TICK).await?;
        }
        anyhow::bail!("{want} replicas: {:?}; {}", self.replicas().await?, self.shown().await?)
    }

    /// Checks that the fleet has this many replicas, and that the record says what members have.
    async fn is_recorded(&self, want: i32) -> anyhow::Result<()> {
        let (replicas, recorded) = (self.replicas().await?, self.recorded().await?);
        ensure!(is_about(&replicas, want), "{want} replicas: {replicas:?}; {}", self.shown().await?);
        let running = self.world.members.keys().zip(&replicas).filter(|(_, replicas)| **replicas > 0);
        for (member, replicas) in running {
            let recorded = recorded.get(member).copied();
            ensure!(recorded == Some(i64::from(*replicas)), "{member}: {replicas}; {}", self.shown().await?);
        }
        Ok(())
    }

    async fn until_autoscalers(&mut self, want: &[(i32, i32)]) -> anyhow::Result<()> {
        for _ in 0..240 {
            if self.bounds().await? == want {
                return Ok(());
            }
            self.pass(TICK).await?;
        }
        anyhow::bail!("bounds {:?} and not {want:?}; {}", self.bounds().await?, self.shown().await?)
    }

    /// The record of what members decided, by cluster; empty without a policy.
    async fn recorded(&self) -> anyhow::Result<BTreeMap<String, i64>> {
        let policy = self.overrides.get_opt("federatedhpa-web").await?;
        let rules = policy.into_iter().flat_map(|policy| policy.spec.override_rules);
        let rule = |rule: ironclad_api::policy::RuleWithCluster| {
            let cluster = rule.target_cluster?.cluster_names.into_iter().next()?;
            Some((cluster, rule.overriders.plaintext.first()?.value.as_ref()?.as_i64()?))
        };
        Ok(rules.filter_map(rule).collect())
    }

    /// State for messages.
    async fn shown(&self) -> anyhow::Result<String> {
        let hpa = self.autoscalers.get_opt("web").await?.map(|hpa| json!({"meta": hpa.metadata, "status": hpa.status}));
        let recorded = self.recorded().await?;
        Ok(format!("recorded {recorded:?}, bounds {:?}, autoscaler {:?}", self.bounds().await?, hpa))
    }

    async fn template_replicas(&self) -> anyhow::Result<i32> {
        let template = self.deployments.get("web").await?;
        template.spec.and_then(|spec| spec.replicas).context("replicas")
    }

    async fn scale(&self, replicas: i32) -> anyhow::Result<()> {
        let patch = json!({"spec": {"replicas": replicas}});
        self.deployments.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// The largest number of replicas that each member has while time passes.
    async fn highest(&mut self, time: Duration) -> anyhow::Result<Vec<i32>> {
        let mut highest = self.replicas().await?;
        let end = self.world.clock().mono() + time;
        while self.world.clock().mono() < end {
            self.share_load().await?;
            self.world.pass(Duration::from_secs(1)).await?;
            for (highest, now) in highest.iter_mut().zip(self.replicas().await?) {
                *highest = now.max(*highest);
            }
        }
        Ok(highest)
    }

    /// The largest sums of replicas and of maxima in members while time passes.
    async fn most(&mut self, time: Duration) -> anyhow::Result<(i32, i32)> {
        let mut most = (0, 0);
        let end = self.world.clock().mono() + time;
        while self.world.clock().mono() < end {
            self.pass(Duration::from_secs(1)).await?;
            let replicas = self.replicas().await?.iter().sum();
            let maxima = self.bounds().await?.iter().map(|(_, max)| max).sum();
            most = (most.0.max(replicas), most.1.max(maxima));
        }
        Ok(most)
    }

    /// Steps of replicas of each member while time passes: how often a member went up after it went down, or the
    /// other way around.
    async fn turns(&mut self, time: Duration) -> anyhow::Result<(u32, Vec<Vec<i32>>)> {
        let mut seen = vec![self.replicas().await?];
        let end = self.world.clock().mono() + time;
        while self.world.clock().mono() < end {
            self.pass(TICK).await?;
            let now = self.replicas().await?;
            if seen.last() != Some(&now) {
                seen.push(now);
            }
        }
        let mut turns = 0;
        for member in 0..self.world.members.len() {
            let steps: Vec<i32> =
                seen.windows(2).map(|pair| (pair[1][member] - pair[0][member]).signum()).filter(|s| *s != 0).collect();
            turns += u32::try_from(steps.windows(2).filter(|pair| pair[0] != pair[1]).count())?;
        }
        Ok((turns, seen))
    }
}

/// True if the replicas add up to this number within the tolerance of 10 % and a replica for each member that rounds.
fn is_about(replicas: &[i32], want: i32) -> bool {
    (replicas.iter().sum::<i32>() - want).abs() <= want / 10 + 1
}

/// Load for this many replicas at the target.
fn load_for(replicas: i64) -> i64 {
    replicas * REQUEST * TARGET_PERCENT / 100
}

#[tokio::test(start_paused = true)]
async fn members_scale_by_their_load_and_come_to_rest() -> anyhow::Result<()> {
    let mut scene = Scene::scaled().await?;
    scene.load = load_for(12);
    scene.until_total(12).await?;
    scene.pass(3 * MINUTE).await?;
    scene.is_recorded(12).await?;
    ensure!(scene.template_replicas().await? == 3, "the template is not scaled");
    let total: i32 = scene.replicas().await?.iter().sum();
    let status = scene.autoscalers.get("web").await?.status.context("a status")?;
    ensure!(status.current_replicas == Some(total) && status.desired_replicas == total, "{status:?}");
    let template = scene.deployments.get("web").await?.status.unwrap_or_default();
    ensure!(template.ready_replicas == Some(total), "the template reports what runs: {template:?}");

    // Constant load: nobody oscillates, and nothing is written.
    let (turns, seen) = scene.turns(5 * MINUTE).await?;
    ensure!(seen.len() == 1 && turns == 0, "{seen:?}");
    scene.world.until_quiet().await?;
    let writes = scene.world.faults.writes();
    scene.pass(10 * MINUTE).await?;
    let written = scene.world.faults.writes() - writes;
    ensure!(written == 0, "a settled autoscaler writes {written}");

    scene.load = load_for(3);
    scene.until_replicas("they come back", &[1, 1, 1]).await?;
    scene.pass(7 * MINUTE).await?;
    ensure!(scene.recorded().await?.is_empty(), "the record is not needed any more: {}", scene.shown().await?);
    scene.world.until_quiet().await
}

#[tokio::test(start_paused = true)]
async fn members_stay_within_the_quota_of_their_namespace() -> anyhow::Result<()> {
    let mut settings = flags::settings(true, 0.9, Check::Off);
    settings.gates = settings.gates.with(Gate::FederatedQuotaEnforcement, true);
    let mut scene = Scene::start_with(settings).await?;
    scene.set_quota(15).await?;
    scene.create().await?;
    scene.until_autoscalers(&[(1, 5), (1, 5), (1, 5)]).await?;
    scene.load = load_for(25);
    ensure!(scene.most(10 * MINUTE).await? == (15, 15), "replicas and maxima within the quota");
    ensure!(scene.limited().await? == "True QuotaExceeded", "{}", scene.shown().await?);
    scene.world.until_quiet().await?;
    let writes = scene.world.faults.writes();
    scene.pass(10 * MINUTE).await?;
    ensure!(scene.world.faults.writes() == writes, "a settled fleet writes nothing");

    scene.set_quota(40).await?;
    scene.until_total(25).await?;
    scene.pass(3 * MINUTE).await?;
    ensure!(scene.most(MINUTE).await?.1 == MAX, "the maxima are back: {}", scene.shown().await?);
    ensure!(scene.limited().await? != "True QuotaExceeded", "{}", scene.shown().await?);

    // Less than runs: nothing is taken away, and nothing is added.
    let runs: i32 = scene.replicas().await?.iter().sum();
    scene.set_quota(10).await?;
    scene.pass(2 * MINUTE).await?;
    scene.load = load_for(40);
    ensure!(scene.most(5 * MINUTE).await? == (runs, runs), "{runs} ran before: {}", scene.shown().await?);
    ensure!(scene.replicas().await?.iter().sum::<i32>() == runs, "{}", scene.shown().await?);
    ensure!(scene.limited().await? == "True QuotaExceeded", "{}", scene.shown().await?);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn members_scale_while_the_control_plane_is_gone() -> anyhow::Result<()> {
    let mut scene = Scene::scaled().await?;
    scene.load = load_for(6);
    scene.until_total(6).await?;
    scene.pass(3 * MINUTE).await?;
    scene.world.kill_controllers();
    for (minutes, load) in [(30, 12), (15, 24), (15, 12)] {
        scene.load = load_for(i64::from(load));
        scene.pass(minutes * MINUTE).await?;
        ensure!(is_about(&scene.replicas().await?, load), "{load}: {:?}", scene.replicas().await?);
    }
    // Back again: no member jumps, although the record is an hour old.
    scene.world.start_controllers().await;
    let (turns, seen) = scene.turns(5 * MINUTE).await?;
    ensure!(turns == 0 && seen.len() == 1, "{seen:?}");
    scene.is_recorded(12).await?;
    scene.world.until_quiet().await
}

#[tokio::test(start_paused = true)]
async fn others_take_over_when_a_member_is_lost_and_evicted() -> anyhow::Result<()> {
    let mut scene = Scene::scaled().await?;
    scene.load = load_for(24);
    scene.until_total(24).await?;
    scene.pass(3 * MINUTE).await?;
    // The member is down: its share of the maximum goes to the others.
    scene.world.member("member3")?.set_faults(Faults { down: true, ..Faults::default() });
    scene.lost.push("member3".to_owned());
    scene.pass(10 * MINUTE).await?;
    let replicas = scene.replicas().await?;
    ensure!(is_about(&replicas[..2], 24), "{replicas:?}; {}", scene.shown().await?);
    let bounds = scene.bounds().await?;
    ensure!(bounds[0].1 + bounds[1].1 == MAX, "{bounds:?}");
    // It comes back, is tainted, and the workload leaves it.
    scene.world.member("member3")?.set_faults(Faults::default());
    scene.lost.clear();
    scene.pass(5 * MINUTE).await?;
    let taint = json!({"spec": {"taints": [{"key": "maintenance", "effect": NO_EXECUTE}]}});
    let clusters: Api<Cluster> = Api::all(scene.world.user());
    let before = scene.replicas().await?;
    clusters.patch("member3", &PatchParams::default(), &Patch::Merge(taint)).await?;
    let mut seen = Vec::new();
    for _ in 0..12 {
        seen.push((scene.bounds().await?, scene.replicas().await?));
        scene.pass(TICK).await?;
    }
    let is_raised = seen.iter().any(|(bounds, _)| bounds[..2].iter().any(|(min, _)| *min > before[0]));
    let gone = seen.iter().find(|(_, replicas)| replicas[2] == 0).map(|(_, replicas)| replicas);
    let is_taken_over = gone.is_some_and(|replicas| is_about(replicas, before.iter().sum()));
    ensure!(is_raised && is_taken_over, "others run what leaves before it is missed: {before:?}, then {seen:?}");
    for _ in 0..240 {
        if scene.in_member("member3").await?.is_none() {
            break;
        }
        scene.pass(TICK).await?;
    }
    scene.pass(MINUTE).await?;
    ensure!(scene.bounds().await?[2] == (0, 0), "its autoscaler left with the workload: {}", scene.shown().await?);
    let works: Api<Work> = Api::namespaced(scene.world.user(), "karmada-es-member3");
    let left: Vec<String> = works.list(&ListParams::default()).await?.iter().map(|work| work.name_any()).collect();
    ensure!(!left.iter().any(|name| name.starts_with("web-")), "orphans: {left:?}");
    scene.pass(10 * MINUTE).await?;
    let minima: i32 = scene.bounds().await?[..2].iter().map(|(min, _)| min).sum();
    ensure!(minima == 3, "minima are the user's again: {:?}", scene.bounds().await?);
    scene.is_recorded(24).await?;
    ensure!(scene.replicas().await?[2] == 0, "{:?}", scene.replicas().await?);
    let bindings: Api<ResourceBinding> = Api::namespaced(scene.world.user(), "default");
    ensure!(bindings.get("web-deployment").await?.spec.clusters.len() == 2, "two clusters");
    scene.world.until_quiet().await
}

#[tokio::test(start_paused = true)]
async fn users_scale_the_template_and_members_have_the_last_word() -> anyhow::Result<()> {
    let mut scene = Scene::scaled().await?;
    scene.load = load_for(12);
    scene.until_total(12).await?;
    scene.pass(3 * MINUTE).await?;
    scene.scale(24).await?;
    scene.world.pass(Duration::from_secs(3)).await?;
    ensure!(scene.recorded().await?.is_empty(), "the record goes at once: {:?}", scene.recorded().await?);
    let highest = scene.highest(MINUTE).await?;
    ensure!(highest == [8, 8, 8], "the number of the user reaches the members: {highest:?}");
    scene.until_total(12).await?;
    scene.pass(3 * MINUTE).await?;
    scene.is_recorded(12).await?;
    ensure!(scene.template_replicas().await? == 24);

    // Deleted, the numbers stay.
    let total: i32 = scene.replicas().await?.iter().sum();
    scene.autoscalers.delete("web", &DeleteParams::default()).await?;
    scene.pass(3 * MINUTE).await?;
    ensure!(scene.autoscalers.get_opt("web").await?.is_none(), "it is gone");
    let replicas = scene.replicas().await?;
    ensure!(replicas.iter().sum::<i32>() == total, "{replicas:?}");
    ensure!(scene.template_replicas().await? == total, "the template took them over");
    ensure!(scene.bounds().await? == [(0, 0); 3] && scene.recorded().await?.is_empty());
    scene.world.until_quiet().await
}

#[tokio::test(start_paused = true)]
async fn a_rebalance_moves_bounds_and_not_what_members_decided() -> anyhow::Result<()> {
    let mut scene = Scene::scaled().await?;
    scene.scale(6).await?;
    scene.load = load_for(12);
    scene.until_total(12).await?;
    scene.pass(3 * MINUTE).await?;
    scene.is_recorded(12).await?;
    let before = scene.replicas().await?;
    let weight = |member: &str, weight: i64| json!({"targetCluster": {"clusterNames": [member]}, "weight": weight});
    let weights = [weight("member1", 4), weight("member2", 1), weight("member3", 1)];
    let patch =
        json!({"spec": {"placement": {"replicaScheduling": {"weightPreference": {"staticWeightList": weights}}}}});
    let policies: Api<PropagationPolicy> = Api::namespaced(scene.world.user(), "default");
    policies.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await?;
    let rebalancer = json!({"metadata": {"name": "now"},
        "spec": {"workloads": [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web"}]}});
    let rebalancers: Api<WorkloadRebalancer> = Api::all(scene.world.user());
    rebalancers.create(&PostParams::default(), &serde_json::from_value(rebalancer)?).await?;
    let (turns, seen) = scene.turns(3 * MINUTE).await?;
    ensure!(turns == 0 && seen == [before.clone()], "{before:?}: {seen:?}; {}", scene.shown().await?);
    let bindings: Api<ResourceBinding> = Api::namespaced(scene.world.user(), "default");
    let placed = bindings.get("web-deployment").await?.spec.clusters;
    let placed: Vec<i32> = placed.iter().map(|target| target.replicas).collect();
    ensure!(placed == [4, 1, 1], "{placed:?}");
    scene.until_autoscalers(&[(1, 20), (1, 5), (1, 5)]).await?;
    ensure!(scene.replicas().await? == before, "{:?}", scene.replicas().await?);
    scene.world.until_quiet().await
}

/// Result of a scenario of the matrix, without times. Which member has one replica more depends on the moments at
/// which they measured.
/// Definition of ScaledObjects, as far as the scenario needs it.
fn scaled_objects() -> anyhow::Result<CustomResourceDefinition> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": "scaledobjects.keda.sh"},
        "spec": {
            "group": "keda.sh", "scope": "Namespaced",
            "names": {"kind": "ScaledObject", "plural": "scaledobjects", "singular": "scaledobject", "listKind": "ScaledObjectList"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}],
        },
    }))?)
}

/// Members run KEDA, whose part the test plays: their ScaledObjects have shares, and what they scale stays, zero
/// included, whatever else is changed, and when the control plane starts anew.
#[tokio::test(start_paused = true)]
async fn scaled_objects_are_run_by_members() -> anyhow::Result<()> {
    let mut scene = Scene::start().await?;
    let (plane, post) = (scene.world.user(), PostParams::default());
    scene.deployments.create(&post, &workload()?).await?;
    Api::namespaced(plane.clone(), "default").create(&post, &policy()?).await?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("keda.sh", "v1alpha1", "ScaledObject"));
    let of = |client: Client| Api::<DynamicObject>::namespaced_with(client, "default", &resource);
    let mut members = BTreeMap::new();
    for (name, member) in scene.world.members.iter() {
        Api::all(member.client()).create(&post, &scaled_objects()?).await?;
        members.insert(name.clone(), (of(member.client()), Api::<Deployment>::namespaced(member.client(), "default")));
    }
    Api::all(plane.clone()).create(&post, &scaled_objects()?).await?;
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
        "metadata": {"name": "web", "labels": {"federatedhpa.karmada.io/enabled": "true"}},
        "spec": {"scaleTargetRef": {"name": "web"}, "maxReplicaCount": MAX,
            "triggers": [{"type": "cron", "metadata": {"timezone": "UTC", "start": "0 8 * * *", "end": "0 20 * * *"}}]},
    }))?;
    of(plane.clone()).create(&post, &object).await?;
    let maxima = async || -> anyhow::Result<Vec<i64>> {
        let mut all = Vec::new();
        for (objects, _) in members.values() {
            let object = objects.get_opt("web").await?;
            all.push(object.and_then(|object| object.data["spec"]["maxReplicaCount"].as_i64()).unwrap_or(0));
        }
        Ok(all)
    };
    scene.world.until("each member has a share", async || Ok(maxima().await? == [10, 10, 10])).await?;

    let merge = PatchParams::default();
    let scaled = [5, 0, 1];
    for ((objects, deployments), replicas) in members.values().zip(scaled) {
        let status = json!({"status": {"hpaName": "keda-hpa-web", "conditions": [{"type": "Ready", "status": "True",
            "reason": "ScaledObjectReady", "message": "ScaledObject is defined correctly and is ready for scaling"}]}});
        objects.patch_status("web", &merge, &Patch::Merge(status)).await?;
        let scale = json!({"spec": {"replicas": replicas}});
        deployments.patch("web", &merge, &Patch::Merge(scale)).await?;
    }
    let recorded = async || -> anyhow::Result<Vec<i64>> {
        let overrides: Api<OverridePolicy> = Api::namespaced(plane.clone(), "default");
        let policy = overrides.get_opt("federatedhpa-web-scaledobject").await?;
        let rules = policy.into_iter().flat_map(|policy| policy.spec.override_rules);
        Ok(rules.filter_map(|rule| rule.overriders.plaintext.first()?.value.as_ref()?.as_i64()).collect())
    };
    scene.world.until("what they decided is recorded", async || Ok(recorded().await? == [5, 0, 1])).await?;
    ensure!(scene.replicas().await? == scaled, "nobody brings a copy back: {:?}", scene.replicas().await?);

    scene.world.kill_controllers();
    scene.world.start_controllers().await;
    let image = json!({"spec": {"template": {"metadata": {"annotations": {"rolled": "out"}}}}});
    scene.deployments.patch("web", &merge, &Patch::Merge(image)).await?;
    scene
        .world
        .until("the change is rolled out", async || {
            for (_, deployments) in members.values() {
                let deployment = deployments.get("web").await?;
                let annotations = deployment.spec.and_then(|spec| spec.template.metadata?.annotations);
                if !annotations.is_some_and(|all| all.contains_key("rolled")) {
                    return Ok(false);
                }
            }
            Ok(true)
        })
        .await?;
    scene.world.pass(MINUTE).await?;
    ensure!(scene.replicas().await? == scaled, "what members decided stays: {:?}", scene.replicas().await?);
    scene.world.until_quiet().await?;

    of(plane.clone()).delete("web", &DeleteParams::default()).await?;
    scene.world.until("members' objects are gone", async || Ok(maxima().await? == [0, 0, 0])).await?;
    ensure!(scene.template_replicas().await? == 6, "the template takes over: {}", scene.template_replicas().await?);
    scene.world.until_quiet().await
}

async fn outcome(scene: &Scene) -> anyhow::Result<String> {
    scene.is_recorded(12).await?;
    let hpa = scene.autoscalers.get("web").await?;
    let status = hpa.status.unwrap_or_default();
    let mut works: Vec<String> = Vec::new();
    for work in Api::<Work>::all(scene.world.user()).list(&ListParams::default()).await?.items {
        works.push(format!("{}/{}", work.namespace().unwrap_or_default(), work.name_any()));
    }
    works.sort();
    let lines: Vec<Value> = vec![
        json!({"template": scene.template_replicas().await?, "bounds": scene.bounds().await?}),
        json!({"status": status.current_replicas == Some(scene.replicas().await?.iter().sum())}),
        json!({"finalizers": hpa.metadata.finalizers, "works": works}),
    ];
    Ok(lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"))
}

/// Load up, then a user scales the template, then more load.
async fn act(scene: &mut Scene) -> anyhow::Result<()> {
    scene.create().await?;
    scene.until_replicas("one replica in each member", &[1, 1, 1]).await?;
    scene.until_autoscalers(&[(1, 10), (1, 10), (1, 10)]).await?;
    scene.load = load_for(6);
    scene.until_total(6).await?;
    scene.pass(MINUTE).await?;
    scene.scale(9).await?;
    scene.pass(5 * MINUTE).await?;
    scene.load = load_for(12);
    scene.until_total(12).await?;
    scene.pass(3 * MINUTE).await?;
    scene.world.until_quiet().await
}

fn play(_: &&str, disturbance: Disturbance) -> anyhow::Result<Played> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(async {
        let mut scene = Scene::start().await?;
        scene.world.until_quiet().await?;
        let before = (scene.world.faults.writes(), scene.world.faults.events());
        disturbance.plan(&scene.world.faults);
        act(&mut scene).await?;
        matrix::show(disturbance, &scene.world.history);
        Ok(Played::since(&scene.world.faults, before, outcome(&scene).await?))
    })
}

#[test]
fn a_crash_after_any_write_of_a_distributed_autoscaler() -> anyhow::Result<()> {
    matrix::run(&["distributed_hpa"], |name| (*name).to_owned(), play, Pass::Writes(Fault::KillAfterAnswer), 8)
}

#[test]
fn a_lost_answer_to_any_write_of_a_distributed_autoscaler() -> anyhow::Result<()> {
    matrix::run(&["distributed_hpa"], |name| (*name).to_owned(), play, Pass::Writes(Fault::LoseAnswer), 8)
}
