//! Garbage collection: dependents that are deleted with their owner, and others that remain.

use k8s_openapi::{
    api::{
        apps::v1::ReplicaSet,
        core::v1::{ConfigMap, Namespace, Pod, ServiceAccount},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use serde_json::json;

use crate::world::{World, options, web};

async fn left(w: &World) -> (usize, usize, usize) {
    let deployments = w.deployments().list(&Default::default()).await.unwrap().items.len();
    (deployments, w.list::<ReplicaSet>().await.len(), w.list::<Pod>().await.len())
}

#[tokio::test(start_paused = true)]
async fn background_and_foreground_delete_dependents_and_orphan_keeps_them() {
    for (params, want) in [
        (DeleteParams::background(), (0, 0, 0)),
        (DeleteParams::foreground(), (0, 0, 0)),
        (DeleteParams::orphan(), (0, 1, 2)),
    ] {
        let w = World::new(1, options()).await;
        w.deploy(web(2, "i:1")).await;
        w.complete("web").await;
        w.delete("web", params.clone()).await;
        w.quiet().await;
        assert_eq!(left(&w).await, want, "{params:?}");
        let sets: Vec<ReplicaSet> = w.list().await;
        assert!(sets.iter().all(|s| s.metadata.owner_references.is_none()), "{params:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_orphaned_set_is_adopted_by_a_new_deployment() {
    let w = World::new(1, options()).await;
    w.deploy(web(2, "i:1")).await;
    w.complete("web").await;
    let before: Vec<Pod> = w.list().await;
    w.delete("web", DeleteParams::orphan()).await;
    w.quiet().await;
    w.deploy(web(2, "i:1")).await;
    w.complete("web").await;
    w.quiet().await;
    assert_eq!(left(&w).await, (1, 1, 2));
    let uids = |pods: &[Pod]| pods.iter().map(|p| p.metadata.uid.clone()).collect::<Vec<_>>();
    assert_eq!(uids(&w.list::<Pod>().await), uids(&before), "no pod was replaced");
}

#[tokio::test(start_paused = true)]
async fn dependents_of_custom_resources_are_collected_for_new_kinds() {
    let w = World::new(1, options()).await;
    let crd: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "things.x.io"},
        "spec": {
            "group": "x.io", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    }))
    .unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(w.client.clone());
    crds.create(&PostParams::default(), &crd).await.unwrap();
    w.quiet().await;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("x.io", "v1", "Thing"));
    let things: Api<DynamicObject> = Api::namespaced_with(w.client.clone(), "default", &resource);
    let thing = things.create(&PostParams::default(), &DynamicObject::new("t", &resource)).await.unwrap();
    let owned = |name: &str, uid: &str| {
        serde_json::from_value::<ConfigMap>(json!({"metadata": {"name": name, "ownerReferences": [
            {"apiVersion": "x.io/v1", "kind": "Thing", "name": "t", "uid": uid}]}}))
        .unwrap()
    };
    let maps: Api<ConfigMap> = Api::namespaced(w.client.clone(), "default");
    let uid = thing.metadata.uid.unwrap();
    maps.create(&PostParams::default(), &owned("mine", &uid)).await.unwrap();
    maps.create(&PostParams::default(), &owned("dangling", "no-such-uid")).await.unwrap();
    w.quiet().await;
    assert!(maps.get_opt("mine").await.unwrap().is_some());
    assert!(maps.get_opt("dangling").await.unwrap().is_none(), "its owner never existed");
    things.delete("t", &DeleteParams::default()).await.unwrap();
    w.quiet().await;
    assert!(maps.get_opt("mine").await.unwrap().is_none());
    // An owner of a kind that is not served (yet) may exist.
    let unknown: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "later", "ownerReferences": [
        {"apiVersion": "y.io/v1", "kind": "Other", "name": "o", "uid": "u"}]}}))
    .unwrap();
    maps.create(&PostParams::default(), &unknown).await.unwrap();
    crds.delete("things.x.io", &DeleteParams::default()).await.unwrap();
    w.quiet().await;
    assert!(maps.get_opt("later").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_has_its_account_and_is_deleted_with_its_contents() {
    let w = World::new(1, options()).await;
    let namespaces: Api<Namespace> = Api::all(w.client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(w.client.clone(), "n");
    w.until("the account is there", || async { accounts.get_opt("default").await.unwrap().is_some() }).await;
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    w.until("the account is there again", || async { accounts.get_opt("default").await.unwrap().is_some() }).await;

    let maps: Api<ConfigMap> = Api::namespaced(w.client.clone(), "n");
    let finalized = serde_json::from_value(json!({"metadata": {"name": "held", "finalizers": ["x.io/y"]}})).unwrap();
    maps.create(&PostParams::default(), &finalized).await.unwrap();
    namespaces.delete("n", &DeleteParams::default()).await.unwrap();
    let message = "Some content in the namespace has finalizers remaining: x.io/y in 1 resource instances";
    w.until("it says what holds it", || async {
        let status = namespaces.get("n").await.unwrap().status.unwrap_or_default();
        status.conditions.iter().flatten().any(|c| c.message.as_deref() == Some(message))
    })
    .await;
    let release = kube::api::Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("held", &Default::default(), &release).await.unwrap();
    w.until("it is deleted", || async { namespaces.get_opt("n").await.unwrap().is_none() }).await;
}
