//! FederatedHPAs in virtual time: load in simulated members, replicas in all of them (specification/autoscaling.md 2);
//! and HorizontalPodAutoscalers that are propagated as they are (5).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_api::{autoscaling::FederatedHPA, labels, policy::PropagationPolicy, work::ResourceBinding};
use ironclad_controllers::{ControllerList, Settings};
use ironclad_fleet::gates::Gate;
use ironclad_simcluster::{Faults, UsageRule};
use ironclad_testkit::sim::{
    Fault, Setup, World, WorldOptions,
    matrix::{self, Disturbance, Pass, Played},
    propagation,
};
use k8s_openapi::{
    api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::autoscalers::load::{Load, Metrics};

/// Time between two changes of the usage of pods: the load is shared by those that run.
const STEP: Duration = Duration::from_secs(5);

struct Scene {
    world: World,
    deployments: Api<Deployment>,
    autoscalers: Api<FederatedHPA>,
    bindings: Api<ResourceBinding>,
    /// Load that all pods share, in thousandths of a core.
    load: i64,
}

fn deployment(replicas: i32) -> anyhow::Result<Deployment> {
    let mut deployment = serde_json::to_value(propagation::deployment()?)?;
    deployment["spec"]["replicas"] = json!(replicas);
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "100m"}});
    Ok(serde_json::from_value(deployment)?)
}

/// Divides replicas by these weights of member1 and member2.
fn divided(weights: [i32; 2]) -> anyhow::Result<PropagationPolicy> {
    let mut policy = serde_json::to_value(propagation::policy()?)?;
    let weights: Vec<Value> = weights
        .iter()
        .enumerate()
        .map(|(n, weight)| {
            let names = [format!("member{}", n + 1)];
            json!({"targetCluster": {"clusterNames": names}, "weight": weight})
        })
        .collect();
    policy["spec"]["placement"]["replicaScheduling"] = json!({
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": weights},
    });
    Ok(serde_json::from_value(policy)?)
}

fn autoscaler(min: i32, max: i32) -> anyhow::Result<FederatedHPA> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": min, "maxReplicas": max,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 50}}}],
        },
    }))?)
}

impl Scene {
    async fn start(replicas: i32, weights: [i32; 2], load: i64) -> anyhow::Result<Self> {
        Self::start_with(Settings::default(), replicas, weights, load).await
    }

    async fn start_with(settings: Settings, replicas: i32, weights: [i32; 2], load: i64) -> anyhow::Result<Self> {
        let setup = Setup { settings, ..Setup::from(WorldOptions { seed: 11, members: 2 }) };
        let mut world = World::start(setup).await?;
        world.start_controllers().await;
        let user = world.user();
        let deployments = Api::namespaced(user.clone(), "default");
        let post = PostParams::default();
        deployments.create(&post, &deployment(replicas)?).await?;
        Api::namespaced(user.clone(), "default").create(&post, &divided(weights)?).await?;
        let (autoscalers, bindings) = (Api::namespaced(user.clone(), "default"), Api::namespaced(user, "default"));
        let mut scene = Self { world, deployments, autoscalers, bindings, load };
        scene.until("all replicas are ready", async |scene| Ok(scene.ready().await? == replicas)).await?;
        Ok(scene)
    }

    /// Gives each member metrics APIs, whose values are set afterwards.
    fn measured(&self) -> anyhow::Result<Vec<Metrics>> {
        let mut all = Vec::new();
        for member in self.world.members.values() {
            let metrics = Metrics::new(member.client(), self.world.clock().clone());
            member.server().mount_in_front(Arc::new(metrics.clone()));
            for group in Metrics::groups() {
                member.server().announce(&group).map_err(|error| anyhow::anyhow!(error.message))?;
            }
            all.push(metrics);
        }
        Ok(all)
    }

    async fn add(&self, autoscaler: &FederatedHPA) -> anyhow::Result<()> {
        self.autoscalers.create(&PostParams::default(), autoscaler).await?;
        Ok(())
    }

    async fn replicas(&self) -> anyhow::Result<i32> {
        Ok(self.deployments.get("web").await?.spec.and_then(|spec| spec.replicas).unwrap_or(-1))
    }

    async fn ready(&self) -> anyhow::Result<i32> {
        let status = self.deployments.get("web").await?.status.unwrap_or_default();
        Ok(status.ready_replicas.unwrap_or(0))
    }

    async fn placed(&self) -> anyhow::Result<BTreeMap<String, i32>> {
        let binding = self.bindings.get("web-deployment").await?;
        Ok(binding.spec.clusters.into_iter().map(|target| (target.name, target.replicas)).collect())
    }

    /// Reason of a condition.
    async fn reason(&self, type_: &str) -> anyhow::Result<String> {
        let status = self.autoscalers.get("web").await?.status.unwrap_or_default();
        let condition = status.conditions.into_iter().flatten().find(|condition| condition.type_ == type_);
        Ok(condition.and_then(|condition| condition.reason).unwrap_or_default())
    }

    /// Shares the load among the pods that run, for this long.
    async fn pass(&mut self, time: Duration) -> anyhow::Result<()> {
        let mut left = time;
        while !left.is_zero() {
            self.share().await?;
            let step = STEP.min(left);
            self.world.pass(step).await?;
            left -= step;
        }
        Ok(())
    }

    async fn share(&self) -> anyhow::Result<()> {
        let pods = i64::from(self.ready().await?.max(1));
        let rule = UsageRule { cpu: Some(Quantity(format!("{}m", self.load / pods))), ..UsageRule::default() };
        self.world.members.values().for_each(|member| member.set_usage(vec![rule.clone()]));
        Ok(())
    }

    async fn until(&mut self, what: &str, holds: impl AsyncFn(&Self) -> anyhow::Result<bool>) -> anyhow::Result<()> {
        for _ in 0..120 {
            if holds(self).await? {
                return Ok(());
            }
            self.pass(STEP).await?;
        }
        let (replicas, able) = (self.replicas().await?, self.reason("AbleToScale").await.unwrap_or_default());
        let active = self.reason("ScalingActive").await.unwrap_or_default();
        anyhow::bail!("not within ten minutes: {what}; {replicas} replicas, AbleToScale {able}, ScalingActive {active}")
    }

    fn fault(&self, member: &str, down: bool) -> anyhow::Result<()> {
        self.world.member(member)?.set_faults(Faults { down, ..Faults::default() });
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn replicas_follow_the_load_and_are_divided_by_the_policy() -> anyhow::Result<()> {
    let mut scene = Scene::start(2, [1, 2], 600).await?;
    scene.add(&autoscaler(1, 20)?).await?;
    scene.until("twelve replicas run", async |scene| Ok(scene.ready().await? == 12)).await?;
    let placed = scene.placed().await?;
    ensure!(placed == BTreeMap::from([("member1".into(), 4), ("member2".into(), 8)]), "{placed:?}");
    scene.pass(Duration::from_secs(60)).await?;
    ensure!(scene.replicas().await? == 12, "constant load, constant replicas");
    ensure!(scene.reason("ScalingActive").await? == "ValidMetricFound");

    scene.load = 150;
    scene.pass(Duration::from_secs(240)).await?;
    ensure!(scene.replicas().await? == 12, "the highest recommendation of five minutes counts");
    ensure!(scene.reason("AbleToScale").await? == "ScaleDownStabilized");
    scene.until("three replicas are left", async |scene| Ok(scene.ready().await? == 3)).await?;
    let placed = scene.placed().await?;
    ensure!(placed == BTreeMap::from([("member1".into(), 1), ("member2".into(), 2)]), "{placed:?}");

    scene.pass(Duration::from_secs(60)).await?;
    let writes = scene.world.faults.writes();
    scene.pass(Duration::from_secs(120)).await?;
    ensure!(scene.world.faults.writes() == writes, "a settled autoscaler writes nothing");
    let status = scene.autoscalers.get("web").await?.status.context("no status")?;
    ensure!((status.current_replicas, status.desired_replicas) == (Some(3), 3), "{status:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_shorten_the_window_of_scaling_down() -> anyhow::Result<()> {
    let mut scene = Scene::start(6, [1, 1], 300).await?;
    scene.add(&autoscaler(1, 20)?).await?;
    scene.until("it is at rest", async |scene| Ok(scene.reason("AbleToScale").await? == "ReadyForNewScale")).await?;
    scene.load = 100;
    scene.pass(Duration::from_secs(240)).await?;
    scene.world.kill_controllers();
    scene.pass(Duration::from_secs(90)).await?;
    scene.world.start_controllers().await;
    scene.pass(Duration::from_secs(270)).await?;
    ensure!(scene.replicas().await? == 6, "a whole window passes after the start");
    scene.until("two replicas are left", async |scene| Ok(scene.ready().await? == 2)).await?;
    scene.world.until_quiet().await
}

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_scale_twice_in_a_period() -> anyhow::Result<()> {
    // Time for which the process still runs after the change: until the next write, and for some rounds more.
    for runs_on in [0, 40] {
        let mut scene = Scene::start(2, [1, 1], 1_000).await?;
        let mut limited = serde_json::to_value(autoscaler(1, 20)?)?;
        limited["spec"]["behavior"] =
            json!({"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 180}]}});
        scene.add(&serde_json::from_value(limited)?).await?;
        let changed = async |scene: &Scene| {
            let status = scene.autoscalers.get("web").await?.status;
            Ok(status.is_some_and(|status| status.last_scale_time.is_some()))
        };
        scene.until("the first change", changed).await?;
        let began = scene.world.clock().mono();
        scene.pass(Duration::from_secs(runs_on)).await?;
        scene.world.kill_controllers();
        scene.pass(Duration::from_secs(10)).await?;
        scene.world.start_controllers().await;
        while scene.world.clock().mono() - began < Duration::from_secs(160) {
            scene.pass(STEP).await?;
            ensure!(scene.replicas().await? == 4, "{runs_on} s: {} replicas", scene.replicas().await?);
        }
        scene.until("the next change, in the next period", async |scene| Ok(scene.replicas().await? == 6)).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lost_member_scales_nothing_down() -> anyhow::Result<()> {
    // At the target: eight pods with 50m each.
    let mut scene = Scene::start(8, [1, 1], 400).await?;
    scene.add(&autoscaler(1, 20)?).await?;
    scene
        .until("a metric is found", async |scene| Ok(scene.reason("ScalingActive").await? == "ValidMetricFound"))
        .await?;
    let rule = UsageRule { cpu: Some(Quantity("50m".into())), ..UsageRule::default() };
    scene.world.members.values().for_each(|member| member.set_usage(vec![rule.clone()]));
    scene.fault("member2", true)?;
    for _ in 0..24 {
        scene.world.pass(STEP).await?;
        ensure!(scene.replicas().await? == 8, "half of the pods cannot be seen, and are like the others");
    }
    scene.fault("member1", true)?;
    scene.world.pass(Duration::from_secs(90)).await?;
    ensure!(scene.reason("AbleToScale").await? == "NoReachableCluster", "{}", scene.reason("AbleToScale").await?);
    ensure!(scene.replicas().await? == 8);
    scene.fault("member1", false)?;
    scene.fault("member2", false)?;
    scene.until("it is able again", async |scene| Ok(scene.reason("AbleToScale").await? == "ReadyForNewScale")).await
}

#[tokio::test(start_paused = true)]
async fn bounds_hold_and_zero_switches_off() -> anyhow::Result<()> {
    let mut scene = Scene::start(2, [1, 1], 10).await?;
    scene.add(&autoscaler(3, 6)?).await?;
    scene.until("the minimum", async |scene| Ok(scene.ready().await? == 3)).await?;
    scene.load = 5_000;
    scene.until("the maximum", async |scene| Ok(scene.ready().await? == 6)).await?;
    scene.until("it is limited", async |scene| Ok(scene.reason("ScalingLimited").await? == "TooManyReplicas")).await?;
    let patch = json!({"spec": {"replicas": 0}});
    scene.deployments.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await?;
    scene.until("it is off", async |scene| Ok(scene.reason("ScalingActive").await? == "ScalingDisabled")).await?;
    scene.pass(Duration::from_secs(60)).await?;
    ensure!(scene.replicas().await? == 0, "a user's zero stays");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_scaled_is_named() -> anyhow::Result<()> {
    let mut scene = Scene::start(2, [1, 1], 100).await?;
    let mut other = autoscaler(1, 5)?;
    other.spec.scale_target_ref.name = "other".into();
    scene.add(&other).await?;
    let unable = async |scene: &Scene| Ok(scene.reason("AbleToScale").await? == "FailedGetScaleTargetRef");
    scene.until("the template is missing", unable).await?;
    let mut twin = autoscaler(1, 5)?;
    twin.metadata.name = Some("twin".into());
    scene.add(&twin).await?;
    let patch = json!({"spec": {"scaleTargetRef": {"name": "web"}}});
    scene.autoscalers.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await?;
    let ambiguous = async |scene: &Scene| Ok(scene.reason("ScalingActive").await? == "AmbiguousSelector");
    scene.until("two autoscalers on one workload", ambiguous).await?;
    ensure!(scene.replicas().await? == 2);
    Ok(())
}

/// True if the autoscaler that was created last says that the other one works.
async fn is_younger_refused(
    scene: &Scene,
    distributed: &Api<HorizontalPodAutoscaler>,
    central_is_older: bool,
) -> anyhow::Result<bool> {
    if !central_is_older {
        return Ok(scene.reason("AbleToScale").await? == "ConflictingAutoscaler");
    }
    let status = distributed.get("web").await?.status.unwrap_or_default();
    let able = status.conditions.into_iter().flatten().find(|condition| condition.type_ == "AbleToScale");
    Ok(able.is_some_and(|able| able.reason.as_deref() == Some("ConflictingAutoscaler")))
}

#[tokio::test(start_paused = true)]
async fn of_both_designs_on_one_target_the_older_one_works() -> anyhow::Result<()> {
    let mut hpa = serde_json::to_value(autoscaler(2, 20)?)?;
    hpa["apiVersion"] = json!("autoscaling/v2");
    hpa["kind"] = json!("HorizontalPodAutoscaler");
    hpa["metadata"]["labels"] = json!({labels::FEDERATED_HPA_ENABLED: "true"});
    let hpa: HorizontalPodAutoscaler = serde_json::from_value(hpa)?;
    for central_is_older in [true, false] {
        let mut scene = Scene::start(2, [1, 1], 400).await?;
        // Past admission, which refuses the younger one.
        let (ours, post) = (
            scene.world.ours(),
            PostParams { field_manager: Some("ironclad-test".to_owned()), ..PostParams::default() },
        );
        let central: Api<FederatedHPA> = Api::namespaced(ours.clone(), "default");
        let distributed: Api<HorizontalPodAutoscaler> = Api::namespaced(ours, "default");
        for step in [central_is_older, !central_is_older] {
            match step {
                true => drop(central.create(&post, &autoscaler(1, 20)?).await?),
                false => drop(distributed.create(&post, &hpa).await?),
            }
            scene.pass(Duration::from_secs(2)).await?;
        }
        let refused = async |scene: &Scene| is_younger_refused(scene, &distributed, central_is_older).await;
        scene.until("the younger one is refused", refused).await?;
        scene.pass(Duration::from_secs(90)).await?;
        ensure!(is_younger_refused(&scene, &distributed, central_is_older).await?, "it stays refused");
        let template = scene.replicas().await?;
        ensure!((template == 8) == central_is_older, "the older one works: the template has {template} replicas");
        match central_is_older {
            true => drop(central.delete("web", &DeleteParams::default()).await?),
            false => drop(distributed.delete("web", &DeleteParams::default()).await?),
        }
        let works = async |scene: &Scene| Ok(!is_younger_refused(scene, &distributed, central_is_older).await?);
        scene.until("the younger one works once it is alone", works).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn members_decide_where_an_autoscaler_is_propagated_as_it_is() -> anyhow::Result<()> {
    let mut setup = Setup::from(WorldOptions { seed: 12, members: 2 });
    setup.settings.controllers = ControllerList::parse("*,hpaScaleTargetMarker,deploymentReplicasSyncer")?;
    let mut world = World::start(setup).await?;
    world.start_controllers().await;
    // With one member only, the workload would move to the other one once its replicas are one.
    world.until_quiet().await?;
    let user = world.user();
    let rule = UsageRule { cpu: Some(Quantity("200m".into())), ..UsageRule::default() };
    world.member("member1")?.set_usage(vec![rule]);
    let post = PostParams::default();
    let hpas: Api<HorizontalPodAutoscaler> = Api::namespaced(user.clone(), "default");
    let hpa = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}});
    hpas.create(&post, &serde_json::from_value(hpa)?).await?;
    let mut policy = serde_json::to_value(divided([1, 1])?)?;
    policy["spec"]["resourceSelectors"] = json!([
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "name": "web"},
    ]);
    let policies: Api<PropagationPolicy> = Api::namespaced(user.clone(), "default");
    policies.create(&post, &serde_json::from_value(policy)?).await?;
    // The target appears after its autoscaler.
    let deployments: Api<Deployment> = Api::namespaced(user, "default");
    deployments.create(&post, &deployment(2)?).await?;
    let label =
        |found: &Deployment| found.metadata.labels.as_ref().and_then(|all| all.get(labels::RETAIN_REPLICAS).cloned());
    let read = deployments.clone();
    let marked = async || Ok(label(&read.get("web").await?).as_deref() == Some("true"));
    world.until("the target is marked", marked).await?;
    // member1 needs three, member2 one.
    let read = deployments.clone();
    let copied = async || Ok(read.get("web").await?.spec.and_then(|spec| spec.replicas) == Some(4));
    if let Err(error) = world.until("the template has what the members run", copied).await {
        let lines = world.history.lines();
        return Err(error.context(lines[lines.len().saturating_sub(150)..].join("\n")));
    }
    world.until_quiet().await?;
    hpas.delete("web", &Default::default()).await?;
    let read = deployments.clone();
    world.until("the mark is removed", async || Ok(label(&read.get("web").await?).is_none())).await
}

#[tokio::test(start_paused = true)]
async fn an_object_is_measured_in_all_members_wherever_the_workload_runs() -> anyhow::Result<()> {
    let mut scene = Scene::start(1, [1000, 1], 0).await?;
    for (metrics, hits) in scene.measured()?.iter().zip([100, 500]) {
        metrics.set("default", Load::object("services/gate/hits", hits));
    }
    scene.world.until_quiet().await?;
    let mut by_hits = serde_json::to_value(autoscaler(1, 10)?)?;
    by_hits["spec"]["metrics"] = json!([{"type": "Object", "object": {
        "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "gate"},
        "metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "100"}}}]);
    scene.add(&serde_json::from_value(by_hits)?).await?;
    scene.until("six replicas for 600 hits", async |scene| Ok(scene.replicas().await? == 6)).await?;
    let placed = scene.placed().await?;
    ensure!(!placed.contains_key("member2"), "member2 has the object, and no replica: {placed:?}");
    Ok(())
}

/// A queue that all members see: empty, then with work, then empty again.
async fn scale_to_zero(disturbance: Disturbance) -> anyhow::Result<Played> {
    let settings = Settings::default();
    let gates = settings.gates.clone().with(Gate::HPAScaleToZero, true);
    let mut scene = Scene::start_with(Settings { gates, ..settings }, 2, [1, 1], 0).await?;
    let queues = scene.measured()?;
    let set = |depth: u32| queues.iter().for_each(|queue| queue.set("default", Load::queue(depth)));
    set(0);
    scene.world.until_quiet().await?;
    let before = (scene.world.faults.writes(), scene.world.faults.events());
    disturbance.plan(&scene.world.faults);
    let mut queued = serde_json::to_value(autoscaler(0, 10)?)?;
    queued["spec"]["metrics"] = json!([{"type": "External", "external": {
        "metric": {"name": "depth"}, "target": {"type": "AverageValue", "averageValue": "20"}}}]);
    scene.add(&serde_json::from_value(queued)?).await?;
    let rounds = async |scene: &mut Scene| -> anyhow::Result<()> {
        for (depth, replicas, reason) in [(0, 0, "ScaledToZero"), (45, 3, "NotScaledToZero"), (0, 0, "ScaledToZero")] {
            set(depth);
            // A new process waits for the whole stabilization window before it scales down.
            scene.pass(Duration::from_secs(300)).await?;
            let what = format!("{replicas} replicas for a queue of {depth}");
            scene.until(&what, async |scene| Ok(scene.replicas().await? == replicas)).await?;
            scene.until(&what, async |scene| Ok(scene.reason("ScaledToZero").await? == reason)).await?;
            scene.until(&what, async |scene| Ok(scene.ready().await? == replicas)).await?;
            scene.pass(Duration::from_secs(60)).await?;
        }
        Ok(())
    };
    let outcome = rounds(&mut scene).await;
    matrix::show(disturbance, &scene.world.history);
    outcome?;
    let conditions = ["AbleToScale", "ScalingActive", "ScaledToZero"];
    let mut state = format!("{:?}", scene.placed().await?);
    for type_ in conditions {
        state.push_str(&format!(" {type_} {}", scene.reason(type_).await?));
    }
    Ok(Played::since(&scene.world.faults, before, state))
}

#[test]
fn a_crash_after_any_write_of_scaling_to_zero() -> anyhow::Result<()> {
    let play = |_: &&str, disturbance: Disturbance| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        runtime.block_on(scale_to_zero(disturbance))
    };
    matrix::run(&["scale_to_zero"], |name| (*name).to_owned(), play, Pass::Writes(Fault::KillAfterAnswer), 8)
}

#[tokio::test(start_paused = true)]
async fn a_user_who_scales_to_zero_switches_off_what_may_scale_to_zero() -> anyhow::Result<()> {
    let settings = Settings::default();
    let gates = settings.gates.clone().with(Gate::HPAScaleToZero, true);
    let mut scene = Scene::start_with(Settings { gates, ..settings }, 2, [1, 1], 100).await?;
    let mut either = serde_json::to_value(autoscaler(0, 10)?)?;
    let external = json!({"type": "External", "external": {"metric": {"name": "depth"},
        "target": {"type": "AverageValue", "averageValue": "20"}}});
    either["spec"]["metrics"].as_array_mut().context("a list")?.push(external);
    scene.add(&serde_json::from_value(either)?).await?;
    scene.until("it is active", async |scene| Ok(!scene.reason("ScalingActive").await?.is_empty())).await?;
    let patch = json!({"spec": {"replicas": 0}});
    scene.deployments.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await?;
    scene.until("it is off", async |scene| Ok(scene.reason("ScalingActive").await? == "ScalingDisabled")).await?;
    scene.pass(Duration::from_secs(300)).await?;
    ensure!(scene.replicas().await? == 0, "a user's zero stays");
    Ok(())
}
