//! Number and timing of requests to members, in virtual time, counted in the history.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_api::{
    cluster::Cluster,
    conditions,
    policy::{OverridePolicy, PropagationPolicy},
    work::{ResourceBinding, Work},
};
use ironclad_runtime::Api;
use ironclad_simcluster::Faults;
use ironclad_testkit::sim::{CONTROL_PLANE, World, WorldOptions, propagation};
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::ConfigMap},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use serde_json::json;

/// Path of the scenario's Deployment in a member.
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments";

/// Starts a world with Ready members, controllers and the scenario's policy.
async fn ready(seed: u64, members: usize) -> anyhow::Result<World> {
    let mut world = World::start(WorldOptions { seed, members }).await?;
    world.start_controllers().await;
    let clusters: Api<Cluster> = Api::all(world.user());
    world
        .until("all are Ready", async || {
            let all = clusters.list(&ListParams::default()).await?.items;
            Ok(all.iter().all(|c| c.is_ready()))
        })
        .await?;
    Api::namespaced(world.user(), "default").create(&PostParams::default(), &propagation::policy()?).await?;
    Ok(world)
}

fn deployments(world: &World) -> Api<Deployment> {
    Api::namespaced(world.user(), "default")
}

/// Returns the requests for the scenario's Deployment in a member since this line of the history, by method.
fn asked(world: &World, member: &str, since: usize) -> Vec<String> {
    let to = format!("->{member} ");
    let lines = world.history.lines();
    let requests = lines[since..].iter().filter_map(|line| {
        let (method, path) = line.split_once(&to)?.1.split_once(' ')?;
        let is_it = path.starts_with(WEB) && !path.contains("watch=") && !path.contains(" -> ");
        is_it.then(|| method.to_owned())
    });
    requests.collect()
}

/// Lines of the history so far.
fn now(world: &World) -> usize {
    world.history.lines().len()
}

#[tokio::test(start_paused = true)]
async fn members_are_read_only_before_writes() -> anyhow::Result<()> {
    let mut world = ready(11, 1).await?;
    let (templates, began) = (deployments(&world), now(&world));
    templates.create(&PostParams::default(), &propagation::deployment()?).await?;
    propagation::settled(&mut world, &templates, 2).await?;
    world.until_quiet().await?;
    ensure!(asked(&world, "member1", began) == ["POST"], "created: {:?}", asked(&world, "member1", began));

    let there: Api<Deployment> = Api::namespaced(world.member("member1")?.client(), "default");
    let began = now(&world);
    let noted = json!({"metadata": {"annotations": {"of": "somebody else"}}});
    there.patch("web", &PatchParams::default(), &Patch::Merge(noted)).await?;
    world.until_quiet().await?;
    ensure!(asked(&world, "member1", began).is_empty(), "a note: {:?}", asked(&world, "member1", began));

    let began = now(&world);
    there.patch("web", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 5}}))).await?;
    world
        .until("drift is repaired", async || Ok(there.get("web").await?.spec.and_then(|s| s.replicas) == Some(2)))
        .await?;
    world.until_quiet().await?;
    ensure!(asked(&world, "member1", began) == ["GET", "PUT"], "drift: {:?}", asked(&world, "member1", began));

    let began = now(&world);
    let change = json!({"spec": {"replicas": 3}});
    templates.patch("web", &PatchParams::default(), &Patch::Merge(change)).await?;
    propagation::settled(&mut world, &templates, 3).await?;
    world.until_quiet().await?;
    ensure!(asked(&world, "member1", began) == ["GET", "PUT"], "a change: {:?}", asked(&world, "member1", began));

    let began = now(&world);
    world.kill_controllers();
    world.start_controllers().await;
    world.pass(Duration::from_secs(60)).await?;
    world.until_quiet().await?;
    let asked = asked(&world, "member1", began);
    ensure!(asked.is_empty(), "a restart compares what it lists, and asks nothing: {asked:?}");
    Ok(())
}

/// A member far away answers every health probe, so it is Ready; it must be a place for workloads, too.
#[tokio::test(start_paused = true)]
async fn apis_of_a_member_with_two_seconds_of_latency_are_read_when_it_joins() -> anyhow::Result<()> {
    let mut world = World::start(WorldOptions { seed: 15, members: 2 }).await?;
    let slow = Faults { slow: Some(Duration::from_secs(2)), ..Faults::default() };
    world.members.get("member2").context("member2")?.set_faults(slow);
    world.start_controllers().await;
    world.pass(Duration::from_secs(30)).await?;
    let clusters: Api<Cluster> = Api::all(world.user());
    for name in ["member1", "member2"] {
        let cluster = clusters.get(name).await?;
        let status = cluster.status.as_ref().context("no status")?;
        let complete = conditions::get(&status.conditions, "CompleteAPIEnablements").context("no condition")?;
        ensure!(cluster.is_ready() && complete.status == "True", "{name}: {:?}", status.conditions);
        ensure!(status.api_enablements.iter().any(|api| api.group_version == "apps/v1"), "{name} has no APIs");
    }
    Ok(())
}

/// A kind that the member lost can't be listed there: its Works are held up once, and other Works are not.
#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_listed_delays_no_others() -> anyhow::Result<()> {
    const FARMS: usize = 60;
    let mut world = ready(14, 1).await?;
    let (plane, member) = (world.user(), world.member("member1")?.client());
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "farms.farm.io"},
        "spec": {
            "group": "farm.io", "scope": "Namespaced",
            "names": {"kind": "Farm", "plural": "farms", "singular": "farm", "listKind": "FarmList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}],
        },
    }))?;
    for client in [&plane, &member] {
        Api::all(client.clone()).create(&PostParams::default(), &definition).await?;
    }
    let policy = |name: &str, api_version: &str, kind: &str| -> anyhow::Result<PropagationPolicy> {
        Ok(serde_json::from_value(json!({"metadata": {"name": name}, "spec": {
            "resourceSelectors": [{"apiVersion": api_version, "kind": kind}], "placement": {},
        }}))?)
    };
    let policies: Api<PropagationPolicy> = Api::namespaced(plane.clone(), "default");
    policies.create(&PostParams::default(), &policy("farms", "farm.io/v1", "Farm")?).await?;
    policies.create(&PostParams::default(), &policy("maps", "v1", "ConfigMap")?).await?;
    let gvk = GroupVersionKind::gvk("farm.io", "v1", "Farm");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "farms");
    let farms: Api<DynamicObject> = Api::namespaced_with(plane.clone(), "default", &resource);
    for n in 0..FARMS {
        farms.create(&PostParams::default(), &DynamicObject::new(&format!("farm-{n}"), &resource)).await?;
    }
    let copies: Api<DynamicObject> = Api::namespaced_with(member.clone(), "default", &resource);
    world
        .until("the member has all farms", async || Ok(copies.list(&ListParams::default()).await?.items.len() == FARMS))
        .await?;
    world.until_quiet().await?;

    world.kill_controllers();
    let definitions: Api<CustomResourceDefinition> = Api::all(member.clone());
    definitions.delete("farms.farm.io", &DeleteParams::default()).await?;
    let maps: Api<ConfigMap> = Api::namespaced(plane, "default");
    let began = world.clock().mono();
    world.start_controllers().await;
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "map"}}))?;
    maps.create(&PostParams::default(), &map).await?;
    let copies: Api<ConfigMap> = Api::namespaced(member, "default");
    world.until("the member has the ConfigMap", async || Ok(copies.get_opt("map").await?.is_some())).await?;
    let took = world.clock().mono() - began;
    ensure!(took < Duration::from_secs(10), "it came after {took:?}");
    Ok(())
}

/// A Cluster with the address of the control plane: its copies would overwrite their own templates.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_the_control_plane_is_refused_and_never_written_to() -> anyhow::Result<()> {
    let mut world = ready(13, 1).await?;
    world.join(CONTROL_PLANE).await?;
    let clusters: Api<Cluster> = Api::all(world.user());
    world
        .until("it is refused", async || {
            let conditions = clusters.get(CONTROL_PLANE).await?.status.unwrap_or_default().conditions;
            let ready = conditions::get(&conditions, conditions::cluster::READY);
            Ok(ready.is_some_and(|ready| ready.status == "False" && ready.reason == "ClusterIsControlPlane"))
        })
        .await?;
    let templates = deployments(&world);
    templates.create(&PostParams::default(), &propagation::deployment()?).await?;
    propagation::settled(&mut world, &templates, 2).await?;
    world.pass(Duration::from_secs(120)).await?;
    ensure!(!clusters.get(CONTROL_PLANE).await?.is_ready(), "it became Ready");
    let to = format!("->{CONTROL_PLANE} ");
    let written: Vec<String> = world
        .history
        .lines()
        .into_iter()
        .filter(|line| line.contains(&to) && ["POST", "PUT", "PATCH", "DELETE"].iter().any(|verb| line.contains(verb)))
        .collect();
    ensure!(written.is_empty(), "written to it: {written:#?}");
    ensure!(world.history.lines().iter().any(|line| line.contains(&to)), "it was asked who it is");

    clusters.delete(CONTROL_PLANE, &DeleteParams::default()).await?;
    world.until("it leaves", async || Ok(clusters.get_opt(CONTROL_PLANE).await?.is_none())).await?;
    world.until_quiet().await
}

#[tokio::test(start_paused = true)]
async fn invalid_objects_are_retried_once_a_minute_and_when_they_change() -> anyhow::Result<()> {
    let mut world = ready(12, 1).await?;
    let broken: OverridePolicy = serde_json::from_value(json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "broken", "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "overrideRules": [{"overriders": {"plaintext": [
                {"path": "/spec/template/spec/restartPolicy", "operator": "add", "value": "Sometimes"},
            ]}}],
        },
    }))?;
    let overrides: Api<OverridePolicy> = Api::namespaced(world.user(), "default");
    overrides.create(&PostParams::default(), &broken).await?;
    let templates = deployments(&world);
    templates.create(&PostParams::default(), &propagation::deployment()?).await?;
    let works: Api<Work> = Api::namespaced(world.user(), "karmada-es-member1");
    let refused = async || {
        let all = works.list(&ListParams::default()).await?.items;
        let applied = all.iter().filter_map(|work| conditions::get(&work.status.as_ref()?.conditions, "Applied"));
        anyhow::Ok(applied.into_iter().any(|c| c.status == "False" && c.message.contains("restartPolicy")))
    };
    world.until("the Work says what the member said", refused).await?;
    // Backoff has reached a minute by then.
    world.pass(Duration::from_secs(180)).await?;
    let backed_off = now(&world);
    world.pass(Duration::from_secs(600)).await?;
    let again = asked(&world, "member1", backed_off);
    // After a refusal the object is read before the next try: the refusal may hide that it exists.
    let (reads, creates): (Vec<_>, Vec<_>) = again.iter().partition(|method| *method == "GET");
    ensure!(creates.iter().all(|method| *method == "POST"), "{again:?}");
    ensure!((9..=10).contains(&creates.len()), "once a minute, as the member's rules may change: {again:?}");
    ensure!(reads.len().abs_diff(creates.len()) <= 1, "one read before each: {again:?}");

    overrides.delete("broken", &kube::api::DeleteParams::default()).await?;
    world.pass(Duration::from_secs(5)).await?;
    let there: Api<Deployment> = Api::namespaced(world.member("member1")?.client(), "default");
    ensure!(there.get_opt("web").await?.is_some(), "another manifest is sent at once");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_unmanaged_object_costs_one_request_per_attempt() -> anyhow::Result<()> {
    let mut world = ready(13, 1).await?;
    let there: Api<Deployment> = Api::namespaced(world.member("member1")?.client(), "default");
    there.create(&PostParams::default(), &propagation::deployment()?).await?;
    let (templates, began) = (deployments(&world), now(&world));
    templates.create(&PostParams::default(), &propagation::deployment()?).await?;
    let bindings: Api<ResourceBinding> = Api::namespaced(world.user(), "default");
    world
        .until("the binding says why", async || {
            let Some(binding) = bindings.get_opt("web-deployment").await? else { return Ok(false) };
            let items = binding.status.map(|s| s.aggregated_status).unwrap_or_default();
            Ok(items.iter().any(|item| item.applied_message.contains("already exists in the cluster")))
        })
        .await?;
    world.pass(Duration::from_secs(600)).await?;
    let all = asked(&world, "member1", began);
    let (head, looks) = all.split_first().context("a create")?;
    ensure!(head == "POST" && looks.iter().all(|method| method == "GET"), "{all:?}");
    ensure!((10..40).contains(&looks.len()), "with back-off up to a minute: {}", looks.len());

    there.delete("web", &kube::api::DeleteParams::background()).await?;
    propagation::settled(&mut world, &templates, 2).await
}

#[tokio::test(start_paused = true)]
async fn a_slow_member_delays_no_others() -> anyhow::Result<()> {
    let mut world = ready(14, 3).await?;
    let slow = Faults { slow: Some(Duration::from_secs(25)), ..Faults::default() };
    world.members.get("member2").context("member2")?.set_faults(slow);
    let templates = deployments(&world);
    for n in 0..8 {
        let mut template = propagation::deployment()?;
        template.metadata.name = Some(format!("web-{n}"));
        templates.create(&PostParams::default(), &template).await?;
    }
    let policy = json!({"spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}]}});
    let policies: Api<ironclad_api::policy::PropagationPolicy> = Api::namespaced(world.user(), "default");
    let began = world.clock().mono();
    policies.patch("web", &PatchParams::default(), &Patch::Merge(policy)).await?;
    let others = ["member1", "member3"].map(|name| {
        let member = world.members.get(name).map(|member| member.client());
        member.map(|client| Api::<Deployment>::namespaced(client, "default"))
    });
    world
        .until("the others have all of them", async || {
            for there in others.iter().flatten() {
                if there.list(&ListParams::default()).await?.items.len() < 8 {
                    return Ok(false);
                }
            }
            Ok(true)
        })
        .await?;
    let took = world.clock().mono() - began;
    ensure!(took < Duration::from_secs(5), "a slow member delayed the others: {took:?}");
    world.members.get("member2").context("member2")?.set_faults(Faults::default());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_member_that_returns_after_hours_is_updated_immediately() -> anyhow::Result<()> {
    let mut world = ready(15, 2).await?;
    let templates = deployments(&world);
    let member = world.members.get("member2").context("member2")?.clone();
    member.set_faults(Faults { down: true, ..Faults::default() });
    templates.create(&PostParams::default(), &propagation::deployment()?).await?;
    world.clock().sleep(Duration::from_secs(3 * 3600)).await;
    member.set_faults(Faults::default());
    let clusters: Api<Cluster> = Api::all(world.user());
    world.until("it is Ready again", async || Ok(clusters.get("member2").await?.ready() == Some("True"))).await?;
    let began = world.clock().mono();
    let there: Api<Deployment> = Api::namespaced(member.client(), "default");
    world.until("it has its copy", async || Ok(there.get_opt("web").await?.is_some())).await?;
    let took = world.clock().mono() - began;
    ensure!(took < Duration::from_secs(2), "it waited out a back-off: {took:?}");
    propagation::settled(&mut world, &templates, 4).await
}

/// In half an hour a settled fleet only probes the health of members and renews watches.
#[tokio::test(start_paused = true)]
async fn a_settled_fleet_writes_and_lists_nothing_and_has_one_watch_per_member_and_kind() -> anyhow::Result<()> {
    const LONG: Duration = Duration::from_secs(1_800);
    let mut world = ready(31, 3).await?;
    let deployments = deployments(&world);
    deployments.create(&PostParams::default(), &propagation::deployment()?).await?;
    propagation::settled(&mut world, &deployments, 6).await?;
    world.until_quiet().await?;
    let since = now(&world);
    world.pass(LONG).await?;
    let lines = world.history.lines();
    let mut watches: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for line in &lines[since..] {
        let mut words = line.split(' ').skip(1);
        let (Some(link), Some(method), Some(uri), None) = (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let path = uri.split('?').next().unwrap_or_default();
        if uri.contains("watch=") {
            *watches.entry((link, path)).or_default() += 1;
            continue;
        }
        ensure!(
            method == "GET" && matches!(path, "/readyz" | "/version" | "/api" | "/apis"),
            "a settled fleet asks {link} {method} {uri}"
        );
    }
    let writes = lines[since..].iter().find(|line| line.contains(" body "));
    ensure!(writes.is_none_or(|line| line.contains("/leases/")), "a settled fleet writes {writes:?}");
    ensure!(watches.keys().any(|(link, path)| link.ends_with("->member3") && *path == "/apis/apps/v1/deployments"));
    // A watch lasts 200 s: two of them would be renewed twice as often.
    let most = LONG.as_secs() / 200 + 1;
    for ((link, path), count) in watches {
        ensure!(u64::from(count) <= most, "{link} {path} is watched {count} times, {most} would be one watch");
    }
    Ok(())
}
