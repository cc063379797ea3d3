//! Accounts by node and the descheduler in virtual time: a member whose summary has room while its nodes have none,
//! and estimators over gRPC that hang, lie or answer nonsense.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, ensure};
use futures::future::BoxFuture;
use ironclad_api::{annotations::DESCHEDULED, work::ResourceBinding};
use ironclad_controllers::ControllerList;
use ironclad_estimator::{Assumed, Call, Estimator, Workload};
use ironclad_fleet::gates::Gate;
use ironclad_testkit::sim::{Setup, World, WorldOptions, propagation};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Node, Pod, Service},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// Two members with two nodes of eight cores each. In member1, a pod of five cores runs on each node: six cores are
/// free, and no replica of four cores fits. Models are off.
async fn fragmented(change: impl FnOnce(&mut Setup)) -> anyhow::Result<World> {
    let mut setup = Setup { nodes: 2, ..Setup::from(WorldOptions { seed: 7, members: 2 }) };
    setup.settings.gates = setup.settings.gates.with(Gate::CustomizedClusterResourceModeling, false);
    change(&mut setup);
    let mut world = World::start(setup).await?;
    let pods: Api<Pod> = Api::namespaced(world.member("member1")?.client(), "default");
    for name in ["a", "b"] {
        let pod = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "5"}}}]},
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    }
    world.start_controllers().await;
    world.until_quiet().await?;
    let nodes: Vec<_> = [pods.get("a").await?, pods.get("b").await?].into_iter().map(|pod| pod.spec).collect();
    ensure!(nodes[0].as_ref().map(|spec| &spec.node_name) != nodes[1].as_ref().map(|spec| &spec.node_name));
    Ok(world)
}

/// Creates a workload that is divided by available replicas.
async fn create(world: &World, replicas: i32, cpu: &str) -> anyhow::Result<Api<ResourceBinding>> {
    let user = world.user();
    let mut policy = serde_json::to_value(propagation::policy()?)?;
    policy["spec"]["placement"] = json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    }});
    let mut deployment = serde_json::to_value(propagation::deployment()?)?;
    deployment["spec"]["replicas"] = json!(replicas);
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
    let policies: Api<ironclad_api::policy::PropagationPolicy> = Api::namespaced(user.clone(), "default");
    policies.create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
    let deployments: Api<Deployment> = Api::namespaced(user.clone(), "default");
    deployments.create(&PostParams::default(), &serde_json::from_value(deployment)?).await?;
    Ok(Api::namespaced(user, "default"))
}

fn result(binding: &ResourceBinding) -> Vec<(&str, i32)> {
    binding.spec.clusters.iter().map(|target| (target.name.as_str(), target.replicas)).collect()
}

async fn until_placed(world: &mut World, bindings: &Api<ResourceBinding>, want: &[(&str, i32)]) -> anyhow::Result<()> {
    world
        .until(&format!("a result of {want:?}"), async || {
            let binding = bindings.get_opt("web-deployment").await?;
            Ok(binding.is_some_and(|binding| result(&binding) == want))
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn replicas_avoid_a_fragmented_member() -> anyhow::Result<()> {
    for estimators in [false, true] {
        let mut world = fragmented(|setup| setup.settings.estimators.enabled = estimators).await?;
        let bindings = create(&world, 4, "4").await?;
        until_placed(&mut world, &bindings, &[("member2", 4)]).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn waiting_workload_is_placed_when_a_node_has_room_again() -> anyhow::Result<()> {
    let mut world = fragmented(|setup| setup.settings.estimators.enabled = true).await?;
    let bindings = create(&world, 5, "4").await?;
    world
        .until("four of five fit", async || {
            let Some(binding) = bindings.get_opt("web-deployment").await? else { return Ok(false) };
            let conditions = binding.status.map(|status| status.conditions).unwrap_or_default();
            Ok(conditions.iter().any(|c| c.reason == "Unschedulable" && c.message.contains("available replicas 4 are")))
        })
        .await?;
    let freed = world.clock().mono();
    let pods: Api<Pod> = Api::namespaced(world.member("member1")?.client(), "default");
    pods.delete("a", &DeleteParams::default()).await?;
    world
        .until("all five are placed", async || {
            let binding = bindings.get("web-deployment").await?;
            Ok(binding.spec.clusters.iter().map(|target| target.replicas).sum::<i32>() == 5)
        })
        .await?;
    let took = world.clock().mono() - freed;
    ensure!(took < Duration::from_secs(60), "not by the timer of five minutes: {took:?}");
    Ok(())
}

/// Answers every call in the same way.
struct Fake {
    answer: Option<Result<i32, &'static str>>,
    calls: AtomicUsize,
}

impl Estimator for Fake {
    fn call(&self, _: &Workload, _: &Call, _: &[Assumed]) -> BoxFuture<'static, Result<i32, String>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match self.answer {
            Some(answer) => Box::pin(std::future::ready(answer.map_err(str::to_owned))),
            None => Box::pin(std::future::pending()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn estimator_over_grpc_limits_only_with_a_number() -> anyhow::Result<()> {
    // The placing by the members' own figures, in which both have two replicas.
    let both = [("member1", 2), ("member2", 2)];
    for (name, answer, want) in [
        ("no room", Some(Ok(0)), &[("member2", 4)][..]),
        ("no opinion", Some(Ok(-1)), &both),
        ("a negative number", Some(Ok(-7)), &both),
        ("far too much", Some(Ok(i32::MAX)), &both),
        ("an error", Some(Err("the estimator is broken")), &both),
        ("it hangs", None, &both),
    ] {
        let mut setup = Setup { nodes: 2, ..Setup::from(WorldOptions { seed: 7, members: 2 }) };
        setup.settings.estimators.enabled = true;
        let mut world = World::start(setup).await?;
        let fake = Arc::new(Fake { answer, calls: AtomicUsize::new(0) });
        world.set_estimator("member1", fake.clone());
        let namespace = json!({"metadata": {"name": "karmada-system"}});
        let namespaces: Api<Namespace> = Api::all(world.user());
        namespaces.create(&PostParams::default(), &serde_json::from_value(namespace)?).await?;
        let service: Value = json!({
            "metadata": {"name": "karmada-scheduler-estimator-member1"},
            "spec": {"type": "ExternalName", "externalName": "estimator.example.com",
                     "ports": [{"port": 10352, "targetPort": 10352}]},
        });
        let services: Api<Service> = Api::namespaced(world.user(), "karmada-system");
        services.create(&PostParams::default(), &serde_json::from_value(service)?).await?;
        world.start_controllers().await;
        world.until_quiet().await?;
        let began = world.clock().mono();
        let bindings = create(&world, 4, "1").await?;
        until_placed(&mut world, &bindings, want).await.context(name)?;
        let took = world.clock().mono() - began;
        ensure!(took < Duration::from_secs(15), "{name}: a call has a deadline of 3 s, it took {took:?}");
        ensure!(fake.calls.load(Ordering::Relaxed) > 0, "{name}: it was asked");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn descheduler_moves_replicas_that_find_no_node() -> anyhow::Result<()> {
    let mut world = fragmented(|setup| {
        setup.settings.controllers = ControllerList::parse("*,descheduler").expect("both are names");
    })
    .await?;
    let pods: Api<Pod> = Api::namespaced(world.member("member1")?.client(), "default");
    pods.delete("b", &DeleteParams::default()).await?;
    world.pass(Duration::from_secs(5)).await?;
    let bindings = create(&world, 4, "4").await?;
    until_placed(&mut world, &bindings, &[("member1", 1), ("member2", 3)]).await?;
    world.until_quiet().await?;
    // Its pod has to find a node again, and no node of the member takes any.
    let nodes: Api<Node> = Api::all(world.member("member1")?.client());
    for node in nodes.list(&ListParams::default()).await? {
        let cordoned = Patch::Merge(json!({"spec": {"unschedulable": true}}));
        nodes.patch(&node.name_any(), &PatchParams::default(), &cordoned).await?;
    }
    for pod in pods.list(&ListParams::default()).await?.items.iter().filter(|pod| pod.name_any().starts_with("web")) {
        pods.delete(&pod.name_any(), &DeleteParams::default()).await?;
    }
    let placed = world.clock().mono();
    until_placed(&mut world, &bindings, &[("member2", 4)]).await?;
    let took = world.clock().mono() - placed;
    ensure!(took > Duration::from_secs(300), "not before --unschedulable-threshold: {took:?}");
    let binding = bindings.get("web-deployment").await?;
    let descheduled = binding.annotations().get(DESCHEDULED).context("the record of it")?;
    ensure!(descheduled.contains("member1"), "{descheduled}");
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::namespaced(world.user(), "default");
    let message = "Binding has been descheduled, 1 replica(s) in cluster(member1), 1 total descheduled replica(s)";
    world
        .until("an event that says so", async || {
            let all = events.list(&ListParams::default()).await?.items;
            Ok(all.iter().any(|event| event.message.as_deref() == Some(message)))
        })
        .await
}
