//! Propagation in virtual time: one seed has one history, and no single fault at any write changes the final state.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, ensure};
use ironclad_api::{
    cluster::Cluster,
    conditions,
    policy::PropagationPolicy,
    work::{ResourceBinding, ResourceHealth, Work},
};
use ironclad_runtime::Api;
use ironclad_seam::Rng;
use ironclad_simcluster::Faults;
use ironclad_testkit::sim::{
    Fault, Setup, World, WorldOptions,
    propagation::{self, Disturbance},
};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Event, Namespace},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

const MATRIX: WorldOptions = WorldOptions { seed: 0x1c1ad, members: 2 };

fn digest_in_a_process(seed: u64) -> anyhow::Result<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_sim"))
        .args(["--propagation", "--seed", &seed.to_string(), "--digest"])
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn the_same_seed_has_the_same_history_in_two_processes() -> anyhow::Result<()> {
    for seed in [1, 42, 0x5eed] {
        let (a, b) = (digest_in_a_process(seed)?, digest_in_a_process(seed)?);
        assert_eq!(a, b, "seed {seed}");
    }
    assert_ne!(digest_in_a_process(1)?, digest_in_a_process(2)?, "the digest must depend on the seed");
    Ok(())
}

#[test]
fn a_conflict_at_any_write_does_not_change_the_final_state() -> anyhow::Result<()> {
    matrix(Fault::Conflict)
}

#[test]
fn a_crash_after_the_answer_to_any_write_does_not_change_the_final_state() -> anyhow::Result<()> {
    matrix(Fault::KillAfterAnswer)
}

#[test]
fn a_crash_before_the_answer_to_any_write_does_not_change_the_final_state() -> anyhow::Result<()> {
    matrix(Fault::KillBeforeAnswer)
}

#[test]
fn a_lost_answer_to_any_write_does_not_change_the_final_state() -> anyhow::Result<()> {
    matrix(Fault::LoseAnswer)
}

/// Disturbs every write of the scenario once; the world must reach exactly the states of the undisturbed run.
fn matrix(fault: Fault) -> anyhow::Result<()> {
    let undisturbed = propagation::run(MATRIX, None)?;
    ensure!(undisturbed.writes > 20, "the scenario wrote next to nothing: {}", undisturbed.writes);
    let mut struck = 0;
    for write in 1..=undisturbed.writes {
        let disturbance = Disturbance { write, fault };
        let outcome = propagation::run(MATRIX, Some(disturbance))?;
        struck += u64::from(outcome.struck);
        for (at, (is, want)) in outcome.states.iter().zip(&undisturbed.states).enumerate() {
            let differs = is.lines().zip(want.lines()).find(|(is, want)| is != want);
            ensure!(is == want, "{disturbance:?}: at rest {at} the world differs, first here: {differs:#?}");
        }
    }
    println!("matrix of {fault:?}: {} writes, {struck} struck", undisturbed.writes);
    ensure!(struck + 1 >= undisturbed.writes, "only {struck} faults struck");
    Ok(())
}

/// A member that fails during a write does not delay the others, is reported, and catches up.
#[tokio::test(start_paused = true)]
async fn a_member_that_fails_during_an_apply_delays_no_others_and_catches_up() -> anyhow::Result<()> {
    let mut world = World::start(WorldOptions { seed: 7, members: 3 }).await?;
    world.start_controllers().await;
    let user = world.user();
    let clusters: Api<Cluster> = Api::all(user.clone());
    let deployments: Api<Deployment> = Api::namespaced(user.clone(), "default");
    let bindings: Api<ResourceBinding> = Api::namespaced(user.clone(), "default");
    world
        .until("all are Ready", async || {
            let all = clusters.list(&ListParams::default()).await?.items;
            Ok(all.iter().all(|c| c.is_ready()))
        })
        .await?;
    Api::namespaced(user.clone(), "default").create(&PostParams::default(), &propagation::policy()?).await?;
    let works: Api<Work> = Api::namespaced(user.clone(), "karmada-es-member2");
    deployments.create(&PostParams::default(), &propagation::deployment()?).await?;
    let member2 = world.members.get("member2").context("member2")?.clone();
    // Down before its Work can be applied.
    member2.set_faults(Faults { down: true, ..Faults::default() });
    world
        .until("there is a Work for member2", async || Ok(!works.list(&ListParams::default()).await?.items.is_empty()))
        .await?;
    world
        .until("the others have theirs, and the binding says of whom it is not so", async || {
            let Some(status) = bindings.get("web-deployment").await?.status else { return Ok(false) };
            let line = |name: &str| status.aggregated_status.iter().find(|i| i.cluster_name == name);
            let well = |name| line(name).is_some_and(|i| i.applied && i.health == Some(ResourceHealth::Healthy));
            Ok(well("member1") && well("member3") && line("member2").is_some_and(|i| !i.applied))
        })
        .await?;
    world
        .until("the cluster says why", async || {
            let cluster = clusters.get("member2").await?;
            let conditions = cluster.status.map(|s| s.conditions).unwrap_or_default();
            let ready = conditions::get(&conditions, "Ready").context("no condition Ready")?;
            Ok(ready.status == "False"
                && ready.reason == "ClusterNotReachable"
                && ready.message == "cluster is not reachable")
        })
        .await?;
    member2.set_faults(Faults::default());
    propagation::settled(&mut world, &deployments, 6).await?;
    world.until_quiet().await
}

/// Templates that wait for override policies are claimed when the last of these appears, not when a back-off ends.
#[tokio::test(start_paused = true)]
async fn templates_are_claimed_as_soon_as_their_dependent_overrides_exist() -> anyhow::Result<()> {
    let mut world = World::start(WorldOptions { seed: 14, members: 1 }).await?;
    world.start_controllers().await;
    let user = world.user();
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "maps", "namespace": "default"},
        "spec": {
            "dependentOverrides": ["one", "two"], "placement": {"clusterAffinity": {}},
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"a": "b"}}}],
        },
    });
    let policy: ironclad_api::policy::PropagationPolicy = serde_json::from_value(policy)?;
    let map = |name: &str| serde_json::from_value(json!({"metadata": {"name": name, "labels": {"a": "b"}}}));
    let maps: Api<ConfigMap> = Api::namespaced(user.clone(), "default");
    maps.create(&PostParams::default(), &map("older")?).await?;
    world.until_quiet().await?;
    Api::namespaced(user.clone(), "default").create(&PostParams::default(), &policy).await?;
    world.advance(Duration::from_secs(5)).await;
    maps.create(&PostParams::default(), &map("newer")?).await?;
    // Back-off grows up to a minute.
    world.advance(Duration::from_secs(300)).await;
    let bindings: Api<ResourceBinding> = Api::namespaced(user.clone(), "default");
    for name in ["one", "two"] {
        ensure!(bindings.list(&ListParams::default()).await?.items.is_empty(), "{name} is not there yet");
        let overrides = json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"overrideRules": []},
        });
        let overrides: ironclad_api::policy::OverridePolicy = serde_json::from_value(overrides)?;
        Api::namespaced(user.clone(), "default").create(&PostParams::default(), &overrides).await?;
        world.advance(Duration::from_secs(2)).await;
    }
    let names = bindings.list(&ListParams::default()).await?.items.into_iter().filter_map(|b| b.metadata.name);
    let names: Vec<String> = names.collect();
    ensure!(names == ["newer-configmap", "older-configmap"], "{names:?}");
    world.until_quiet().await
}

/// Objects that wait for their namespace reach the member as soon as it exists, not when a backoff ends.
#[tokio::test(start_paused = true)]
async fn a_work_is_applied_as_soon_as_its_namespace_exists() -> anyhow::Result<()> {
    // Longer than many backoffs, shorter than the deadline of health probes.
    const SLOW: Duration = Duration::from_secs(3);
    let mut world = World::start(WorldOptions { seed: 22, members: 1 }).await?;
    world.start_controllers().await;
    let user = world.user();
    let namespaces: Api<Namespace> = Api::all(user.clone());
    let member = world.members.get("member1").context("member1")?.clone();
    for (namespace, slow) in [("first", None), ("shop", Some(SLOW))] {
        // The second time, both kinds are watched in the member, and only the namespace keeps the Deployment waiting.
        member.set_faults(Faults { slow, ..Faults::default() });
        let mut deployment = propagation::deployment()?;
        deployment.metadata.namespace = Some(namespace.into());
        let mut policy = propagation::policy()?;
        policy.metadata.namespace = Some(namespace.into());
        let named = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        namespaces.create(&PostParams::default(), &serde_json::from_value(named)?).await?;
        Api::namespaced(user.clone(), namespace).create(&PostParams::default(), &policy).await?;
        let deployments: Api<Deployment> = Api::namespaced(user.clone(), namespace);
        deployments.create(&PostParams::default(), &deployment).await?;
        propagation::settled(&mut world, &deployments, 2).await?;
        world.until_quiet().await?;
    }
    let lines = world.history.lines();
    let at = |is: &dyn Fn(&str) -> bool| -> anyhow::Result<Timestamp> {
        let line = lines.iter().rfind(|line| line.contains("->member1 POST ") && is(line));
        Ok(line.and_then(|line| line.split(' ').next()).context("no such line")?.parse()?)
    };
    let sent = at(&|line| line.contains(" /api/v1/namespaces?") && line.contains(" body "))?;
    let answered = at(&|line| line.contains(" /api/v1/namespaces?") && line.ends_with("-> 201"))?;
    let follows = at(&|line| line.contains("/namespaces/shop/deployments?") && line.contains(" body "))?;
    ensure!(answered.duration_since(sent).unsigned_abs() >= SLOW, "the answer came at once");
    // The member's watch delivers the namespace as soon as it is stored, long before the answer.
    let late = follows.duration_since(sent);
    ensure!(late.is_positive() && late.as_millis() < 100, "the Deployment came {late:#} after its namespace was sent");
    let tries = lines.iter().filter(|line| line.contains("->member1 POST ") && line.contains("/shop/deployments?"));
    ensure!(tries.filter(|line| line.contains(" body ")).count() == 1, "it was tried without its namespace");
    Ok(())
}

/// Something in the member that changes an object back whenever it is repaired.
#[tokio::test(start_paused = true)]
async fn an_object_that_something_else_keeps_changing_is_repaired_with_pauses_and_reported_once() -> anyhow::Result<()>
{
    let mut world = World::start(WorldOptions { seed: 31, members: 1 }).await?;
    world.start_controllers().await;
    let user = world.user();
    let of = |value| ConfigMap {
        data: Some([("owner".to_owned(), String::from(value))].into()),
        ..serde_json::from_value(json!({"metadata": {"name": "contested"}})).unwrap_or_default()
    };
    let policy = json!({"metadata": {"name": "contested"}, "spec": {
        "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "contested"}], "placement": {}}});
    let policy: ironclad_api::policy::PropagationPolicy = serde_json::from_value(policy)?;
    Api::namespaced(user.clone(), "default").create(&PostParams::default(), &policy).await?;
    let templates: Api<ConfigMap> = Api::namespaced(user.clone(), "default");
    templates.create(&PostParams::default(), &of("plane")).await?;
    let copies: Api<ConfigMap> = Api::namespaced(world.members.get("member1").context("member1")?.client(), "default");
    let owner = async |copies: &Api<ConfigMap>| -> anyhow::Result<Option<String>> {
        let copy = copies.get_opt("contested").await?;
        Ok(copy.and_then(|copy| copy.data).and_then(|mut data| data.remove("owner")))
    };
    world.until("the copy exists", async || Ok(owner(&copies).await?.as_deref() == Some("plane"))).await?;

    let (changes, stop) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, stopped, fought, clock) = (changes.clone(), stop.clone(), copies.clone(), world.clock().clone());
    world.spawn("fighter", async move {
        while !stopped.load(Ordering::Relaxed) {
            let data = fought.get_opt("contested").await.ok().flatten().and_then(|copy| copy.data);
            if data.is_some_and(|data| data["owner"] == "plane") {
                let patch = Patch::Merge(json!({"data": {"owner": "member"}}));
                if fought.patch("contested", &PatchParams::default(), &patch).await.is_ok() {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            }
            clock.sleep(Duration::from_millis(50)).await;
        }
    });
    let works: Api<Work> = Api::namespaced(user.clone(), "karmada-es-member1");
    let degraded = async |works: &Api<Work>| -> anyhow::Result<Option<String>> {
        let works = works.list(&ListParams::default()).await?.items;
        let of_copy = works.iter().filter(|work| work.spec.workload.manifests[0].named().kind == "ConfigMap");
        let all = of_copy.filter_map(|work| work.status.as_ref()).flat_map(|status| &status.conditions);
        Ok(all.into_iter().find(|one| one.type_ == "Degraded").map(|one| format!("{} {}", one.status, one.reason)))
    };
    world.pass(Duration::from_secs(300)).await?;
    let fights = changes.load(Ordering::Relaxed);
    ensure!((21..=30).contains(&fights), "the copy was repaired {fights} times in five minutes");
    ensure!(degraded(&works).await?.as_deref() == Some("True ChangedByAnotherWriter"), "{:?}", degraded(&works).await?);
    let events: Api<Event> = Api::namespaced(user.clone(), "default");
    let events = events.list(&ListParams::default().fields("reason=HotLoop")).await?.items;
    let about: Vec<_> = events.iter().map(|event| event.involved_object.kind.as_deref().unwrap_or_default()).collect();
    ensure!(about == ["ConfigMap"], "events on {about:?}");

    stop.store(true, Ordering::Relaxed);
    world.until("it is repaired", async || Ok(owner(&copies).await?.as_deref() == Some("plane"))).await?;
    world
        .until(
            "it is no longer reported",
            async || Ok(degraded(&works).await?.as_deref() == Some("False StaysApplied")),
        )
        .await?;
    world.until_quiet().await
}

/// Bindings are not watched by users only: what is deleted by hand is made again.
#[tokio::test(start_paused = true)]
async fn a_binding_that_is_deleted_by_hand_comes_back() -> anyhow::Result<()> {
    let mut world = World::start(WorldOptions { seed: 32, members: 1 }).await?;
    world.start_controllers().await;
    let user = world.user();
    let deployments: Api<Deployment> = Api::namespaced(user.clone(), "default");
    let bindings: Api<ResourceBinding> = Api::namespaced(user.clone(), "default");
    Api::namespaced(user.clone(), "default").create(&PostParams::default(), &propagation::policy()?).await?;
    deployments.create(&PostParams::default(), &propagation::deployment()?).await?;
    propagation::settled(&mut world, &deployments, 2).await?;
    world.pass(Duration::from_secs(120)).await?;
    let before = bindings.get("web-deployment").await?.metadata.uid;
    bindings.delete("web-deployment", &DeleteParams::default()).await?;
    world
        .until("there is another binding", async || {
            let now = bindings.get_opt("web-deployment").await?;
            Ok(now.is_some_and(|now| now.metadata.uid != before))
        })
        .await?;
    propagation::settled(&mut world, &deployments, 2).await?;
    world.until_quiet().await
}

#[test]
fn fresh_seeds_with_one_fault_each_settle() -> anyhow::Result<()> {
    let root = Rng::from_system();
    println!("fresh seeds from root {:#x}", root.seed());
    let draws = root.stream("seeds");
    let faults = [Fault::Conflict, Fault::KillAfterAnswer, Fault::KillBeforeAnswer, Fault::LoseAnswer];
    for _ in 0..20 {
        let options = WorldOptions { seed: draws.u64(), members: 1 + draws.below(4) as usize };
        let disturbance =
            Disturbance { write: 1 + draws.below(50), fault: faults[draws.below(faults.len() as u64) as usize] };
        propagation::run(options, Some(disturbance)).with_context(|| format!("{options:?} {disturbance:?}"))?;
    }
    Ok(())
}

/// A kind with a scale subresource keeps the replicas that an autoscaler of the member sets, if its label asks for it.
#[tokio::test(start_paused = true)]
async fn replicas_of_a_defined_kind_stay_as_the_member_scales_them() -> anyhow::Result<()> {
    defined_kind(0).await
}

/// Its agent applies it, which reads definitions and does not watch them.
#[tokio::test(start_paused = true)]
async fn replicas_of_a_defined_kind_stay_in_a_pull_member() -> anyhow::Result<()> {
    defined_kind(1).await
}

async fn defined_kind(pull: usize) -> anyhow::Result<()> {
    let setup = Setup { pull, ..Setup::from(WorldOptions { seed: 33, members: 1 }) };
    let mut world = World::start(setup).await?;
    world.start_controllers().await;
    let (user, member) = (world.user(), world.members.get("member1").context("member1")?.client());
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let mut scale = json!({"specReplicasPath": ".spec.size.n", "statusReplicasPath": ".status.n"});
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "farms.x.io"},
        "spec": {"group": "x.io", "scope": "Namespaced", "names": {"plural": "farms", "singular": "farm", "kind": "Farm"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"scale": scale}}]},
    }))?;
    for client in [&user, &member] {
        Api::all(client.clone()).create(&PostParams::default(), &definition).await?;
    }
    let policy: PropagationPolicy = serde_json::from_value(json!({"metadata": {"name": "farms"}, "spec": {
        "resourceSelectors": [{"apiVersion": "x.io/v1", "kind": "Farm"}], "placement": {}}}))?;
    Api::namespaced(user.clone(), "default").create(&PostParams::default(), &policy).await?;
    let farms = ApiResource {
        group: "x.io".into(),
        version: "v1".into(),
        api_version: "x.io/v1".into(),
        kind: "Farm".into(),
        plural: "farms".into(),
    };
    let templates: Api<DynamicObject> = Api::namespaced_with(user.clone(), "default", &farms);
    let copies: Api<DynamicObject> = Api::namespaced_with(member.clone(), "default", &farms);
    for (name, label) in [("kept", "true"), ("ours", "false")] {
        let farm = json!({"apiVersion": "x.io/v1", "kind": "Farm", "metadata": {"name": name, "labels":
            {"resourcetemplate.karmada.io/retain-replicas": label}}, "spec": {"size": {"n": 1}, "count": 1, "color": "red"}});
        templates.create(&PostParams::default(), &serde_json::from_value(farm)?).await?;
    }
    let has = async |name: &str, color: &str, replicas: i64| -> anyhow::Result<bool> {
        let Some(copy) = copies.get_opt(name).await? else { return Ok(false) };
        Ok(copy.data["spec"] == json!({"size": {"n": replicas}, "count": 1, "color": color}))
    };
    let patch = async |api: &Api<DynamicObject>, name: &str, spec: serde_json::Value| {
        api.patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await.map(drop)
    };
    for name in ["kept", "ours"] {
        world.until("the copies exist", async || has(name, "red", 1).await).await?;
        patch(&copies, name, json!({"size": {"n": 4}})).await?;
    }
    world.until("the other copy is repaired", async || has("ours", "red", 1).await).await?;
    world.pass(Duration::from_secs(30)).await?;
    ensure!(has("kept", "red", 4).await?, "the member's replicas are its own: {:?}", copies.get("kept").await?.data);
    patch(&templates, "kept", json!({"color": "blue"})).await?;
    world.until("a change of the template is applied", async || has("kept", "blue", 4).await).await?;
    patch(&copies, "kept", json!({"color": "green"})).await?;
    world.until("drift is repaired", async || has("kept", "blue", 4).await).await?;

    // Another version of the definition has them elsewhere.
    scale["specReplicasPath"] = ".spec.count".into();
    for client in [&user, &member] {
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let mut changed = definitions.get("farms.x.io").await?;
        changed.spec.versions[0].subresources = Some(serde_json::from_value(json!({"scale": scale}))?);
        definitions.replace("farms.x.io", &PostParams::default(), &changed).await?;
    }
    world.pass(Duration::from_secs(330)).await?;
    patch(&copies, "kept", json!({"count": 7})).await?;
    let want = json!({"size": {"n": 1}, "count": 7, "color": "blue"});
    let follows = async || Ok(copies.get("kept").await?.data["spec"] == want);
    world.until("what was replicas is ours, and what is replicas is not", follows).await?;
    world.pass(Duration::from_secs(60)).await?;
    ensure!(follows().await?, "{:?}", copies.get("kept").await?.data);
    world.until_quiet().await
}

/// Somebody makes the namespace in the member by hand, long after the object was refused.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_comes_late_in_a_member_brings_its_objects_at_once() -> anyhow::Result<()> {
    let mut world = World::start(WorldOptions { seed: 12, members: 2 }).await?;
    world.start_controllers().await;
    let user = world.user();
    let clusters: Api<Cluster> = Api::all(user.clone());
    world
        .until("all are Ready", async || {
            let all = clusters.list(&ListParams::default()).await?.items;
            Ok(all.iter().all(|c| c.is_ready()))
        })
        .await?;
    let late = |labels| json!({"metadata": {"name": "late", "labels": labels}});
    let private = late(json!({"namespace.karmada.io/skip-auto-propagation": "true"}));
    let namespaces: Api<Namespace> = Api::all(user.clone());
    namespaces.create(&PostParams::default(), &serde_json::from_value(private)?).await?;
    let policy = json!({"metadata": {"name": "all", "namespace": "late"}, "spec": {
        "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], "placement": {"clusterAffinity": {}}}});
    let policies: Api<PropagationPolicy> = Api::namespaced(user.clone(), "late");
    policies.create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
    let map = json!({"metadata": {"name": "web"}, "data": {"a": "b"}});
    let maps: Api<ConfigMap> = Api::namespaced(user.clone(), "late");
    maps.create(&PostParams::default(), &serde_json::from_value(map)?).await?;
    let works: Api<Work> = Api::namespaced(user.clone(), "karmada-es-member1");
    world
        .until("the member refuses it", async || {
            let refused = |work: &Work| {
                let conditions = work.status.as_ref().map_or(&[][..], |status| &status.conditions);
                conditions::get(conditions, conditions::work::APPLIED).is_some_and(|one| one.status == "False")
            };
            Ok(works.list(&ListParams::default()).await?.items.iter().any(refused))
        })
        .await?;
    world.pass(Duration::from_secs(400)).await?;
    let member = world.members.get("member1").context("the member")?.client();
    Api::<Namespace>::all(member.clone())
        .create(&PostParams::default(), &serde_json::from_value(late(json!({})))?)
        .await?;
    let made = world.clock().mono();
    let copies: Api<ConfigMap> = Api::namespaced(member, "late");
    world.until("the copy is there", async || Ok(copies.get_opt("web").await?.is_some())).await?;
    let took = world.clock().mono() - made;
    ensure!(took < Duration::from_secs(2), "it took {took:?}");
    Ok(())
}
