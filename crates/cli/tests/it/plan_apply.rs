use ironclad_api::{
    cluster::{Cluster, ClusterSpec},
    policy::PropagationPolicy,
};
use ironclad_cli::plan::apply::of_plane;
use ironclad_fleet::ClusterName;
use ironclad_planning::{
    Preemption,
    apply::{ApplyPlan, Change},
};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::support::World;

async fn world() -> World {
    let world = World::with_all_kinds().await;
    let clusters: Api<Cluster> = Api::all(world.plane.client.clone());
    for name in ["m1", "m2"] {
        clusters.create(&PostParams::default(), &Cluster::new(name, ClusterSpec::default())).await.unwrap();
        let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let status = json!({"status": {
            "conditions": [condition("Ready"), condition("CompleteAPIEnablements")],
            "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
        }});
        clusters.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }
    world
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "web:1"}]},
        }},
    })
}

fn policy(clusters: &[&str]) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "placement": {"clusterAffinity": {"clusterNames": clusters}}},
    })
}

fn copies(found: &ApplyPlan) -> Vec<(ClusterName, &'static str, Option<i32>)> {
    let all = found.templates.iter().flat_map(|change| &change.copies);
    all.map(|(cluster, copy)| (cluster.clone(), copy.change(), copy.after)).collect()
}

#[tokio::test(start_paused = true)]
async fn plan_apply_uses_admitted_objects_and_writes_nothing() {
    let world = world().await;
    let (client, clock) = (&world.plane.client, &world.seam.clock);
    let plan =
        async |documents: Vec<Value>| of_plane(client, None, documents, None, Preemption::Off, clock, |_| ()).await;
    let (objects, found) = plan(vec![deployment(), policy(&["m1", "m2"])]).await.unwrap();
    let planned: Vec<(&str, Change)> = objects.iter().map(|object| (object.name.as_str(), object.change)).collect();
    let created = ["Deployment default/web", "PropagationPolicy default/web"].map(|name| (name, Change::Created));
    assert_eq!(planned, created);
    assert_eq!(copies(&found), [("m1".into(), "new", Some(2)), ("m2".into(), "new", Some(2))]);
    let policies: Api<PropagationPolicy> = Api::all(client.clone());
    assert!(policies.list(&ListParams::default()).await.unwrap().items.is_empty(), "nothing was written");

    // The template exists; the planned policy selects it.
    let deployments: Api<k8s_openapi::api::apps::v1::Deployment> = Api::default_namespaced(client.clone());
    let web = serde_json::from_value(deployment()).unwrap();
    deployments.create(&PostParams::default(), &web).await.unwrap();
    let (_, found) = plan(vec![policy(&["m2"])]).await.unwrap();
    assert_eq!(copies(&found), [("m2".into(), "new", Some(2))]);
    let (objects, found) =
        plan(vec![json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})]).await.unwrap();
    assert_eq!((objects[0].change, found.is_quiet()), (Change::Created, true), "no policy selects it");

    // Every object that would be rejected is reported.
    let nameless = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "bad"}, "spec": {"resourceSelectors": 7}});
    let error = plan(vec![policy(&["m1"]), nameless]).await.unwrap_err().to_string();
    assert!(error.starts_with("PropagationPolicy bad would be refused: "), "{error}");
    let unknown = json!({"apiVersion": "farm.io/v1", "kind": "Farm", "metadata": {"name": "f"}});
    let error = plan(vec![unknown]).await.unwrap_err().to_string();
    assert!(error.starts_with("the control plane does not serve farm.io/v1"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn dependencies_of_a_planned_workload_are_read_and_propagated() {
    let world = world().await;
    let (client, clock) = (&world.plane.client, &world.seam.clock);
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::default_namespaced(client.clone());
    for name in ["settings", "other"] {
        let map = json!({"metadata": {"name": name}, "data": {"a": "1"}});
        maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    }
    let mut web = deployment();
    web["spec"]["template"]["spec"]["volumes"] = json!([
        {"name": "v", "configMap": {"name": "settings"}}, {"name": "w", "secret": {"secretName": "not-there"}},
    ]);
    let mut policy = policy(&["m2"]);
    policy["spec"]["propagateDeps"] = true.into();
    let (_, found) = of_plane(client, None, vec![web, policy], None, Preemption::Off, clock, |_| ()).await.unwrap();
    let planned: Vec<(&str, usize)> =
        found.templates.iter().map(|change| (&*change.template.name, change.copies.len())).collect();
    assert_eq!(planned, [("settings", 1), ("web", 1)]);
    assert_eq!(copies(&found), [("m2".into(), "new", Some(0)), ("m2".into(), "new", Some(2))]);
    assert_eq!(found.unchanged, 0, "no other template was read");
}

#[tokio::test(start_paused = true)]
async fn fields_that_left_the_manifest_are_removed_in_the_plan() {
    let world = world().await;
    let (client, clock) = (&world.plane.client, &world.seam.clock);
    let deployments: Api<k8s_openapi::api::apps::v1::Deployment> = Api::default_namespaced(client.clone());
    deployments.create(&PostParams::default(), &serde_json::from_value(deployment()).unwrap()).await.unwrap();
    let mut applied = policy(&["m1"]);
    applied["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": policy(&["m1"]).to_string()});
    let policies: Api<PropagationPolicy> = Api::default_namespaced(client.clone());
    policies.create(&PostParams::default(), &serde_json::from_value(applied).unwrap()).await.unwrap();

    let mut wider = policy(&[]);
    wider["spec"]["placement"] = json!({});
    let plan =
        async |documents: Vec<Value>| of_plane(client, None, documents, None, Preemption::Off, clock, |_| ()).await;
    let (objects, found) = plan(vec![wider]).await.unwrap();
    assert_eq!(objects[0].change, Change::Configured);
    let clusters: Vec<_> = copies(&found).into_iter().map(|(cluster, ..)| cluster.to_string()).collect();
    assert_eq!(clusters, ["m1", "m2"], "the affinity is gone");
    let (objects, _) = plan(vec![policy(&["m1"])]).await.unwrap();
    assert_eq!(objects[0].change, Change::Unchanged);
}

#[tokio::test(start_paused = true)]
async fn changed_clusters_are_followed_and_other_changes_are_named() {
    let world = world().await;
    let (client, clock) = (&world.plane.client, &world.seam.clock);
    let deployments: Api<k8s_openapi::api::apps::v1::Deployment> = Api::default_namespaced(client.clone());
    let web = deployments.create(&PostParams::default(), &serde_json::from_value(deployment()).unwrap()).await.unwrap();
    let placement = json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "gold"}}}});
    let mut gold = policy(&[]);
    gold["metadata"]["labels"] = json!({"propagationpolicy.karmada.io/permanent-id": "p"});
    gold["spec"]["placement"] = placement.clone();
    let policies: Api<PropagationPolicy> = Api::default_namespaced(client.clone());
    policies.create(&PostParams::default(), &serde_json::from_value(gold).unwrap()).await.unwrap();
    let claim = json!({
        "labels": {"propagationpolicy.karmada.io/permanent-id": "p"},
        "annotations": {"propagationpolicy.karmada.io/name": "web", "propagationpolicy.karmada.io/namespace": "default"},
    });
    deployments.patch("web", &PatchParams::default(), &Patch::Merge(json!({"metadata": claim}))).await.unwrap();
    let mut binding = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": claim,
        "spec": {"replicas": 2, "placement": placement, "resource": {"apiVersion": "apps/v1", "kind": "Deployment",
            "namespace": "default", "name": "web", "uid": web.metadata.uid}},
    });
    binding["metadata"]["name"] = "web-deployment".into();
    let bindings: Api<ironclad_api::work::ResourceBinding> = Api::default_namespaced(client.clone());
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();

    let plan =
        async |documents: Vec<Value>| of_plane(client, None, documents, None, Preemption::Off, clock, |_| ()).await;
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "m2", "labels": {"tier": "gold"}}, "spec": {"syncMode": "Push"}});
    let (_, found) = plan(vec![cluster]).await.unwrap();
    assert_eq!(copies(&found), [("m2".into(), "new", Some(2))]);

    let taints = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy", "metadata": {"name": "t"},
    "spec": {
        "targetCluster": {},
        "matchConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["False"]}],
        "taintsToAdd": [{"key": "k", "effect": "NoSchedule", "addOnMatchSeconds": 1, "removeOnMismatchSeconds": 1}],
    }});
    let (_, found) = plan(vec![taints]).await.unwrap();
    assert_eq!((found.not_followed, found.templates.len()), (vec!["ClusterTaintPolicy t".to_owned()], 0));
}
