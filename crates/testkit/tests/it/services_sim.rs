//! Services over clusters in virtual time: MultiClusterService, ServiceExport with ServiceImport, and the drain by
//! Remedies (specification/mcs.md, specification/remedy.md).

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_api::{
    cluster::Cluster,
    conditions,
    crds::crds,
    multicluster::{ServiceExport, ServiceImport},
    networking::{MultiClusterIngress, MultiClusterService},
    policy::PropagationPolicy,
    remedy::Remedy,
    work::Work,
};
use ironclad_controllers::ControllerList;
use ironclad_fleet::gates::Gates;
use ironclad_simcluster::Faults;
use ironclad_testkit::sim::{Setup, World, WorldOptions};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Event, Service},
        discovery::v1::EndpointSlice,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

async fn create<K>(client: &Client, object: Value) -> anyhow::Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    K: serde::Serialize + serde::de::DeserializeOwned + Clone + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), "default");
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

async fn patch<K>(client: &Client, name: &str, patch: Value) -> anyhow::Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    K: serde::de::DeserializeOwned + Clone + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), "default");
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

fn deployment(replicas: i32) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

fn service() -> Value {
    json!({"metadata": {"name": "web", "labels": {"team": "shop"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]}})
}

fn policy(name: &str, api_version: &str, kind: &str, clusters: &[&str]) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "resourceSelectors": [{"apiVersion": api_version, "kind": kind, "name": "web"}],
        "placement": {"clusterAffinity": {"clusterNames": clusters}}}})
}

/// The slices of a Service in a cluster: number of endpoints by name.
async fn slices(client: &Client, service: &str) -> anyhow::Result<BTreeMap<String, usize>> {
    let api: Api<EndpointSlice> = Api::namespaced(client.clone(), "default");
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    let all = api.list(&of_service).await?.items;
    Ok(all.into_iter().map(|slice| (slice.name_any(), slice.endpoints.as_deref().unwrap_or_default().len())).collect())
}

/// The numbers of endpoints that came from this cluster.
async fn endpoints_from(client: &Client, service: &str, prefix: &str) -> anyhow::Result<Vec<usize>> {
    let all = slices(client, service).await?;
    Ok(all.into_iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, count)| count).collect())
}

async fn events(client: &Client, kind: &str) -> anyhow::Result<Vec<String>> {
    let all = Api::<Event>::all(client.clone()).list(&ListParams::default()).await?.items;
    let about = all.into_iter().filter(|event| event.involved_object.kind.as_deref() == Some(kind));
    Ok(about.filter_map(|event| event.reason).collect())
}

/// Status and message of a condition of the MultiClusterService.
async fn condition(client: &Client, type_: &str) -> anyhow::Result<(String, String)> {
    let mcs = Api::<MultiClusterService>::namespaced(client.clone(), "default").get("web").await?;
    let all = mcs.status.and_then(|status| status.conditions).unwrap_or_default();
    Ok(conditions::get(&all, type_).map(|c| (c.status.clone(), c.message.clone())).unwrap_or_default())
}

async fn world(members: usize, pull: usize) -> anyhow::Result<World> {
    let mut setup = Setup { pull, ..Setup::from(WorldOptions { seed: 24, members }) };
    setup.settings.gates = Gates::parse("MultiClusterService=true")?.0;
    let mut world = World::start(setup).await?;
    world.start_controllers().await;
    Ok(world)
}

#[tokio::test(start_paused = true)]
async fn endpoints_of_providers_are_reached_from_consumers() -> anyhow::Result<()> {
    let mut world = world(3, 1).await?;
    let user = world.user();
    let [first, second, third] = ["member1", "member2", "member3"].map(|name| world.member(name).map(|m| m.client()));
    let (first, second, third) = (first?, second?, third?);
    create::<Deployment>(&user, deployment(2)).await?;
    create::<PropagationPolicy>(&user, policy("web", "apps/v1", "Deployment", &["member1", "member3"])).await?;
    let providers = json!([{"name": "member1"}, {"name": "member3"}]);
    create::<MultiClusterService>(
        &user,
        json!({"metadata": {"name": "web"}, "spec": {"types": ["CrossCluster"], "providerClusters": providers,
            "consumerClusters": [{"name": "member2"}, {"name": "member3"}, {"name": "absent"}]}}),
    )
    .await?;
    world
        .until("the missing Service is told", async || {
            let (status, message) = condition(&user, "ServiceApplied").await?;
            Ok(status == "False" && message.contains("there is no Service default/web"))
        })
        .await?;
    create::<Service>(&user, service()).await?;
    world
        .until("member2 has the endpoints of both, and member3 those of member1", async || {
            let own = slices(&third, "web").await?.len();
            Ok(endpoints_from(&second, "web", "member1-").await? == [2]
                && endpoints_from(&second, "web", "member3-").await? == [2]
                && endpoints_from(&third, "web", "member1-").await? == [2]
                && own == 2)
        })
        .await?;
    world
        .until("both conditions are True", async || {
            Ok(condition(&user, "ServiceApplied").await?.0 == "True"
                && condition(&user, "EndpointSliceDispatched").await?.0 == "True")
        })
        .await?;
    world.until_quiet().await?;
    ensure!(slices(&first, "web").await?.len() == 1, "member1 consumes nothing");
    let told = events(&user, "MultiClusterService").await?;
    for reason in ["SyncServiceFailed", "SyncServiceSucceed", "DispatchEndpointSliceSucceed", "ClusterNotFound"] {
        ensure!(told.iter().any(|one| one == reason), "{reason}: {told:?}");
    }
    let (_, message) = condition(&user, "ServiceApplied").await?;
    ensure!(message == "Service is propagated to target clusters.; there is no cluster absent", "{message}");
    let copies = Api::<EndpointSlice>::namespaced(second.clone(), "default");
    for slice in copies.list(&ListParams::default().labels("kubernetes.io/service-name=web")).await?.items {
        let by = slice.labels().get("endpointslice.kubernetes.io/managed-by").map(String::as_str);
        if by != Some("endpointslice-dispatch-controller.karmada.io") {
            continue;
        }
        ensure!(slice.labels().get("team").is_some_and(|team| team == "shop"), "labels of users are kept");
        let from = slice.annotations().get("endpointslice.karmada.io/provision-cluster").context("the provider")?;
        ensure!(slice.name_any().starts_with(from.as_str()), "{from}");
        ensure!(
            slice.endpoints.iter().flatten().all(|one| one.node_name.is_none() && one.target_ref.is_none()),
            "{slice:?}"
        );
    }

    // Replicas.
    patch::<Deployment>(&user, "web", json!({"spec": {"replicas": 3}})).await?;
    world
        .until("new endpoints arrive", async || {
            Ok(endpoints_from(&second, "web", "member1-").await? == [3]
                && endpoints_from(&second, "web", "member3-").await? == [3])
        })
        .await?;

    // A provider is lost: its endpoints stay until its backends are moved away.
    world.member("member1")?.set_faults(Faults { down: true, ..Faults::default() });
    world.pass(Duration::from_secs(120)).await?;
    ensure!(endpoints_from(&second, "web", "member1-").await? == [3], "kept");
    let placed = |clusters: &[&str]| json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": clusters}}}});
    patch::<PropagationPolicy>(&user, "web", placed(&["member3"])).await?;
    world.until("they are dropped", async || Ok(endpoints_from(&second, "web", "member1-").await?.is_empty())).await?;
    let (_, message) = condition(&user, "EndpointSliceDispatched").await?;
    ensure!(message.contains("its backends were moved away"), "{message}");
    world.member("member1")?.set_faults(Faults::default());
    patch::<PropagationPolicy>(&user, "web", placed(&["member1", "member3"])).await?;
    world.until("they come back", async || Ok(endpoints_from(&second, "web", "member1-").await? == [3])).await?;

    // A provider leaves the list, and the whole is deleted.
    let only = json!({"spec": {"providerClusters": [{"name": "member1"}]}});
    patch::<MultiClusterService>(&user, "web", only).await?;
    world
        .until("member3 provides no more", async || {
            Ok(endpoints_from(&second, "web", "member3-").await?.is_empty()
                && endpoints_from(&third, "web", "member1-").await? == [3])
        })
        .await?;
    Api::<MultiClusterService>::namespaced(user.clone(), "default").delete("web", &DeleteParams::default()).await?;
    let works: Api<Work> = Api::all(user.clone());
    let labelled = ListParams::default().labels("multiclusterservice.karmada.io/name=web");
    world
        .until("nothing is left", async || {
            let gone = Api::<MultiClusterService>::namespaced(user.clone(), "default").get_opt("web").await?.is_none();
            Ok(gone
                && works.list(&labelled).await?.items.is_empty()
                && endpoints_from(&second, "web", "member1-").await?.is_empty()
                && endpoints_from(&third, "web", "member1-").await?.is_empty())
        })
        .await?;
    let service = Api::<Service>::namespaced(user.clone(), "default").get("web").await?;
    ensure!(!service.labels().contains_key("resourcetemplate.karmada.io/claimed-by"), "{:?}", service.labels());
    world.until_quiet().await
}

#[tokio::test(start_paused = true)]
async fn a_remedy_drains_the_endpoints_of_its_cluster() -> anyhow::Result<()> {
    let mut world = world(2, 0).await?;
    let user = world.user();
    let second = world.member("member2")?.client();
    create::<Deployment>(&user, deployment(1)).await?;
    create::<PropagationPolicy>(&user, policy("web", "apps/v1", "Deployment", &["member1", "member2"])).await?;
    create::<Service>(&user, service()).await?;
    let spec = json!({"types": ["CrossCluster"]});
    create::<MultiClusterService>(&user, json!({"metadata": {"name": "web"}, "spec": spec})).await?;
    let dispatched = async || endpoints_from(&second, "web", "member1-").await;
    world.until("endpoints of member1 arrive", async || Ok(dispatched().await? == [1])).await?;
    let condition_match = json!({"conditionType": "ServiceDomainNameResolutionReady", "operator": "Equal",
        "conditionStatus": "False"});
    let remedy = json!({"metadata": {"name": "dns"}, "spec": {"actions": ["TrafficControl"],
        "decisionMatches": [{"clusterConditionMatch": condition_match}]}});
    let remedies: Api<Remedy> = Api::all(user.clone());
    remedies.create(&PostParams::default(), &serde_json::from_value(remedy)?).await?;
    let clusters: Api<Cluster> = Api::all(user.clone());
    let resolves = async |status: &str| -> anyhow::Result<()> {
        loop {
            let mut cluster = clusters.get("member1").await?;
            let list = &mut cluster.status.get_or_insert_default().conditions;
            list.retain(|condition| condition.type_ != "ServiceDomainNameResolutionReady");
            list.push(conditions::condition("ServiceDomainNameResolutionReady", status, "Test", "set by the test"));
            match clusters.replace_status("member1", &PostParams::default(), &cluster).await {
                Err(kube::Error::Api(error)) if error.code == 409 => {}
                written => return Ok(written.map(drop)?),
            }
        }
    };
    let actions = async || -> anyhow::Result<Vec<String>> {
        Ok(clusters.get("member1").await?.status.unwrap_or_default().remedy_actions)
    };
    resolves("False").await?;
    world.until("the action is asked", async || Ok(actions().await? == ["TrafficControl"])).await?;
    world.until("it is drained", async || Ok(dispatched().await?.is_empty())).await?;
    world
        .until("the condition names it", async || {
            let (status, message) = condition(&user, "EndpointSliceDispatched").await?;
            Ok(status == "True" && message.contains("member1 has remedy action TrafficControl"))
        })
        .await?;
    ensure!(events(&user, "Cluster").await?.iter().any(|reason| reason == "RemedyActionsChanged"), "the event");
    resolves("True").await?;
    world.until("it serves again", async || Ok(actions().await?.is_empty() && dispatched().await? == [1])).await?;

    // A Remedy without matches acts at once, and its end ends the action, also while nothing ran.
    let always = json!({"metadata": {"name": "always"}, "spec": {"actions": ["TrafficControl"],
        "clusterAffinity": {"clusterNames": ["member1"]}}});
    remedies.create(&PostParams::default(), &serde_json::from_value(always)?).await?;
    world.until("it acts", async || Ok(dispatched().await?.is_empty())).await?;
    world.until_quiet().await?;
    world.kill_controllers();
    remedies.delete("always", &DeleteParams::default()).await?;
    world.start_controllers().await;
    world.until("it ends", async || Ok(actions().await?.is_empty() && dispatched().await? == [1])).await?;
    world.until_quiet().await
}

#[tokio::test(start_paused = true)]
async fn an_exported_service_is_imported_elsewhere() -> anyhow::Result<()> {
    let mut world = world(2, 1).await?;
    let user = world.user();
    let (first, second) = (world.member("member1")?.client(), world.member("member2")?.client());
    for member in [&first, &second] {
        let definitions: Api<CustomResourceDefinition> = Api::all(member.clone());
        for crd in crds().into_iter().filter(|crd| crd.spec.group == "multicluster.x-k8s.io") {
            definitions.create(&PostParams::default(), &crd).await?;
        }
    }
    // The exporter is served by its agent.
    create::<Deployment>(&user, deployment(2)).await?;
    create::<PropagationPolicy>(&user, policy("web", "apps/v1", "Deployment", &["member2"])).await?;
    create::<Service>(&user, service()).await?;
    create::<PropagationPolicy>(&user, policy("service", "v1", "Service", &["member2"])).await?;
    // Either version will do.
    let newer = ApiResource::from_gvk(&GroupVersionKind::gvk("multicluster.x-k8s.io", "v1beta1", "ServiceExport"));
    let export = json!({"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport",
        "metadata": {"name": "web"}, "spec": {"exportedLabels": {"a": "b"}}});
    let exports: Api<DynamicObject> = Api::namespaced_with(user.clone(), "default", &newer);
    exports.create(&PostParams::default(), &serde_json::from_value(export)?).await?;
    let spec = json!({"type": "ClusterSetIP", "ports": [{"name": "http", "protocol": "TCP", "port": 80}]});
    create::<ServiceImport>(&user, json!({"metadata": {"name": "web"}, "spec": spec})).await?;
    let import = policy("import", "multicluster.x-k8s.io/v1alpha1", "ServiceImport", &["member1"]);
    create::<PropagationPolicy>(&user, import).await?;
    world
        .until("the importer has the endpoints", async || {
            Ok(endpoints_from(&first, "derived-web", "imported-member2-").await? == [2])
        })
        .await?;
    let derived = Api::<Service>::namespaced(first.clone(), "default");
    world.until("and their Service", async || Ok(derived.get_opt("derived-web").await?.is_some())).await?;
    let export = Api::<ServiceExport>::namespaced(user.clone(), "default");
    world
        .until("the status says so", async || {
            let all = export.get("web").await?.status.unwrap_or_default().conditions;
            let imports = Api::<ServiceImport>::namespaced(user.clone(), "default");
            let import = imports.get("web").await?.status.unwrap_or_default();
            Ok(conditions::is_true(&all, "Valid")
                && conditions::is_true(&all, "Ready")
                && conditions::get(&all, "Conflict").is_some_and(|found| found.status == "False")
                && conditions::is_true(&import.conditions, "Ready")
                && import.clusters.iter().map(|one| one.cluster.as_str()).eq(["member2"]))
        })
        .await?;
    let kept = exports.get("web").await?.data;
    ensure!(kept["spec"]["exportedLabels"]["a"] == "b", "nothing is lost by the status of the older version: {kept}");
    ensure!(
        events(&user, "ServiceImport").await?.iter().any(|reason| reason == "SyncDerivedServiceSucceed"),
        "the event"
    );
    // A cluster whose slices have another port is told.
    patch::<PropagationPolicy>(
        &user,
        "service",
        json!({"spec": {"placement": {"clusterAffinity": {
        "clusterNames": ["member1", "member2"]}}}}),
    )
    .await?;
    let slice = json!({"metadata": {"name": "by-hand", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"name": "web", "port": 80}], "endpoints": [{"addresses": ["10.9.0.1"]}]});
    create::<EndpointSlice>(&first, slice).await?;
    world
        .until("the conflict is told", async || {
            let all = export.get("web").await?.status.unwrap_or_default().conditions;
            Ok(conditions::get(&all, "Conflict").is_some_and(|found| {
                found.reason == "PortConflict" && found.message.contains("port web/TCP is served in member1")
            }))
        })
        .await?;
    Api::<EndpointSlice>::namespaced(first.clone(), "default").delete("by-hand", &DeleteParams::default()).await?;
    world
        .until("and ends", async || {
            let all = export.get("web").await?.status.unwrap_or_default().conditions;
            Ok(conditions::get(&all, "Conflict").is_some_and(|found| found.reason == "NoConflicts"))
        })
        .await?;
    world.until_quiet().await?;
    patch::<Deployment>(&user, "web", json!({"spec": {"replicas": 1}})).await?;
    world
        .until("they follow the replicas", async || {
            Ok(endpoints_from(&first, "derived-web", "imported-member2-").await? == [1])
        })
        .await?;
    export.delete("web", &DeleteParams::default()).await?;
    world
        .until("the export ends", async || {
            Ok(slices(&first, "derived-web").await?.is_empty() && slices(&user, "derived-web").await?.is_empty())
        })
        .await?;
    Api::<ServiceImport>::namespaced(user.clone(), "default").delete("web", &DeleteParams::default()).await?;
    world.until("and the import", async || Ok(derived.get_opt("derived-web").await?.is_none())).await?;
    world.until_quiet().await
}

#[tokio::test(start_paused = true)]
async fn an_ingress_tells_the_clusters_of_its_backends() -> anyhow::Result<()> {
    let mut setup = Setup::from(WorldOptions { seed: 24, members: 2 });
    setup.settings.controllers = ControllerList::parse("*,mciStatus")?;
    let mut world = World::start(setup).await?;
    world.start_controllers().await;
    let user = world.user();
    create::<Service>(&user, service()).await?;
    create::<PropagationPolicy>(&user, policy("web", "v1", "Service", &["member1"])).await?;
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    create::<MultiClusterIngress>(&user, json!({"metadata": {"name": "i"}, "spec": {"defaultBackend": backend}}))
        .await?;
    let status = async || -> anyhow::Result<Value> {
        Ok(json!(Api::<MultiClusterIngress>::namespaced(user.clone(), "default").get("i").await?.status))
    };
    let at = |clusters: Value| json!([{"name": "web", "clusters": clusters}]);
    world.until("it is located", async || Ok(status().await?["serviceLocations"] == at(json!(["member1"])))).await?;
    let both = json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": ["member1", "member2"]}}}});
    patch::<PropagationPolicy>(&user, "web", both).await?;
    world
        .until("it follows", async || Ok(status().await?["serviceLocations"] == at(json!(["member1", "member2"]))))
        .await?;
    let remedy = json!({"metadata": {"name": "always"}, "spec": {"actions": ["TrafficControl"],
        "clusterAffinity": {"clusterNames": ["member2"]}}});
    Api::<Remedy>::all(user.clone()).create(&PostParams::default(), &serde_json::from_value(remedy)?).await?;
    world.until("it is blocked", async || Ok(status().await?["trafficBlockClusters"] == json!(["member2"]))).await?;
    world.until_quiet().await
}
