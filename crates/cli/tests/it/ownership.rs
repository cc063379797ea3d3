//! Join and unjoin change only objects that a join created, whichever of their requests fails.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use clap::Parser as _;
use ironclad_api::cluster::Cluster;
use ironclad_apiserver::Identity;
use ironclad_cli::{
    Outcome,
    join::{JoinError, JoinOptions, register},
    report::render,
    unjoin::command::{Command as Unjoin, whole},
};
use ironclad_runtime::in_process_client;
use k8s_openapi::api::{
    core::v1::{ConfigMap, Namespace, Secret, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tower::{BoxError, Service as _, service_fn};

use crate::support::{Plane, World};

/// Requests of both servers that fail.
#[derive(Clone, Copy)]
struct Fault {
    /// Number of the first request that fails.
    first: usize,
    /// Number of requests that fail.
    count: usize,
    /// The server handles the request, and its response is lost.
    done: bool,
}

/// A client of this server whose requests are counted, and fail by number.
fn faulty(plane: &Plane, requests: Arc<AtomicUsize>, fault: Fault) -> Client {
    let server = plane.server.clone();
    let service = service_fn(move |request: http::Request<kube::client::Body>| {
        let number = requests.fetch_add(1, Ordering::SeqCst);
        let mut server = server.in_process(Identity::admin("tester"));
        async move {
            let fails = (fault.first..fault.first.saturating_add(fault.count)).contains(&number);
            if fails && !fault.done {
                return Err(BoxError::from("injected: not sent"));
            }
            let answer = server.call(request).await.map_err(BoxError::from)?;
            if fails { Err(BoxError::from("injected: answer lost")) } else { Ok(answer) }
        }
    });
    in_process_client(service, Arc::default())
}

impl World {
    fn failing(&self, fault: Fault) -> (Client, Client, Arc<AtomicUsize>) {
        let requests = Arc::new(AtomicUsize::new(0));
        let plane = faulty(&self.plane, requests.clone(), fault);
        (plane, faulty(&self.member, requests.clone(), fault), requests)
    }
}

async fn all<K>(client: &Client, found: &mut BTreeMap<String, Value>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    for object in Api::<K>::all(client.clone()).list(&ListParams::default()).await.unwrap() {
        let name = format!("{} {}/{}", K::kind(&()), object.namespace().unwrap_or_default(), object.name_any());
        found.insert(name, serde_json::to_value(object).unwrap());
    }
}

/// All objects in a server that a join could change.
async fn state(client: &Client) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    all::<Namespace>(client, &mut found).await;
    all::<ServiceAccount>(client, &mut found).await;
    all::<Secret>(client, &mut found).await;
    all::<ConfigMap>(client, &mut found).await;
    all::<ClusterRole>(client, &mut found).await;
    all::<ClusterRoleBinding>(client, &mut found).await;
    found
}

async fn create<K>(client: &Client, object: Value)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
{
    let object: K = serde_json::from_value(object).unwrap();
    let namespace = object.namespace().unwrap();
    Api::<K>::namespaced(client.clone(), &namespace).create(&PostParams::default(), &object).await.unwrap();
}

async fn create_namespace(client: &Client, name: &str) {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
}

/// Namespace `shop` of a user in both servers, with objects of theirs.
async fn shop(world: &World) {
    for client in [&world.plane.client, &world.member.client] {
        create_namespace(client, "shop").await;
        create::<ConfigMap>(client, json!({"metadata": {"name": "precious", "namespace": "shop"}})).await;
        create::<Secret>(
            client,
            json!({"metadata": {"name": "other", "namespace": "shop"}, "stringData": {"password": "keep"}}),
        )
        .await;
    }
}

fn in_shop(world: &World) -> JoinOptions {
    JoinOptions { namespace: "shop".to_owned(), ..world.options() }
}

/// The whole command, with a client of the member.
async fn unjoin(world: &World, plane: &Client, member: Option<&Client>, words: &str) -> Result<String, String> {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        command: Unjoin,
    }
    let line =
        Line::parse_from(["unjoin", "member1", "--yes", "--no-drain"].into_iter().chain(words.split_whitespace()));
    let done = whole(plane, member, &world.seam.clock, &line.command, |_| ()).await;
    done.map_err(|error| render(&error))
}

async fn clusters(world: &World) -> usize {
    Api::<Cluster>::all(world.plane.client.clone()).list(&ListParams::default()).await.unwrap().items.len()
}

#[tokio::test(start_paused = true)]
async fn join_that_fails_at_any_request_leaves_nothing_and_can_be_repeated() {
    let world = World::new().await;
    shop(&world).await;
    let before = (state(&world.plane.client).await, state(&world.member.client).await);
    let now = || async { (state(&world.plane.client).await, state(&world.member.client).await) };
    let (mut taken_back, mut joined_after_all) = (0, 0);
    for done in [false, true] {
        for first in 0.. {
            let what = format!("request {first}, done: {done}");
            let (plane, member, requests) = world.failing(Fault { first, count: 1, done });
            let joined = register(plane, member, &world.seam.clock, &in_shop(&world)).await;
            let reached = requests.load(Ordering::SeqCst) > first;
            if reached && joined.is_err() && clusters(&world).await == 0 {
                let now = now().await;
                assert_eq!(now.1, before.1, "{what}: the member is unchanged");
                assert_eq!(now.0, before.0, "{what}: the control plane is unchanged");
                taken_back += 1;
            } else if reached {
                joined_after_all += 1;
            }
            let (own, member) = (world.plane.client.clone(), world.member.client.clone());
            let again = register(own.clone(), member.clone(), &world.seam.clock, &in_shop(&world)).await;
            assert!(again.is_ok(), "{what}: {again:?}");
            let secrets = Api::<Secret>::namespaced(own.clone(), "shop");
            for name in ["member1", "member1-impersonator"] {
                assert_eq!(secrets.get(name).await.unwrap().owner_references().len(), 1, "{what}: {name}");
            }
            unjoin(&world, &own, Some(&member), "--cluster-namespace shop").await.unwrap();
            assert_eq!(now().await, before, "{what}: an unjoin restores both");
            if !reached {
                break;
            }
        }
    }
    assert!(taken_back > 20 && joined_after_all > 2, "{taken_back} taken back, {joined_after_all} joined");
}

#[tokio::test(start_paused = true)]
async fn unjoin_that_fails_at_any_request_can_be_repeated() {
    let world = World::new().await;
    shop(&world).await;
    let before = (state(&world.plane.client).await, state(&world.member.client).await);
    let (own, own_member) = (world.plane.client.clone(), world.member.client.clone());
    let mut broke_off_between = 0;
    for done in [false, true] {
        for first in 0.. {
            let what = format!("request {first}, done: {done}");
            register(own.clone(), own_member.clone(), &world.seam.clock, &in_shop(&world)).await.unwrap();
            let (plane, member, requests) = world.failing(Fault { first, count: 1, done });
            let failed = unjoin(&world, &plane, Some(&member), "--cluster-namespace shop").await;
            broke_off_between += usize::from(failed.is_err() && clusters(&world).await == 0);
            let now = (state(&own).await, state(&own_member).await);
            if failed.is_err() || now != before {
                let again = unjoin(&world, &own, Some(&own_member), "--cluster-namespace shop").await;
                assert!(again.is_ok() || now == before, "{what}: {again:?}");
            }
            let now = (state(&own).await, state(&own_member).await);
            assert_eq!(now.1, before.1, "{what}: the member is unchanged");
            assert_eq!(now.0, before.0, "{what}: the control plane is unchanged");
            if requests.load(Ordering::SeqCst) <= first {
                break;
            }
        }
    }
    assert!(broke_off_between > 5, "the Cluster was deleted and the member not cleaned {broke_off_between} times");
}

#[tokio::test(start_paused = true)]
async fn join_that_cannot_roll_back_lists_remaining_objects() {
    let world = World::new().await;
    shop(&world).await;
    let mut named = 0;
    for first in 0.. {
        let before = state(&world.member.client).await;
        let (plane, member, requests) = world.failing(Fault { first, count: usize::MAX, done: false });
        let joined = register(plane, member, &world.seam.clock, &in_shop(&world)).await;
        if requests.load(Ordering::SeqCst) <= first {
            break;
        }
        let after = state(&world.member.client).await;
        let left: Vec<&String> = after.keys().filter(|name| !before.contains_key(*name)).collect();
        match joined {
            Err(JoinError::LeftBehind { left: said, .. }) => {
                named += 1;
                for name in left {
                    let (kind, name) = name.split_once(' ').unwrap();
                    let name = format!("{kind} {} in the member", name.trim_start_matches('/'));
                    assert!(said.contains(&name), "request {first}: {name} is not in {said}");
                }
            }
            _ => assert!(
                left.is_empty() || clusters(&world).await > 0,
                "request {first}: {left:?} remains and is not reported"
            ),
        }
        let (plane, member) = (world.plane.client.clone(), world.member.client.clone());
        register(plane.clone(), member.clone(), &world.seam.clock, &in_shop(&world)).await.unwrap();
        unjoin(&world, &plane, Some(&member), "--cluster-namespace shop").await.unwrap();
    }
    assert!(named > 5, "{named}");
}

#[tokio::test(start_paused = true)]
async fn the_control_plane_is_never_joined_to_itself() {
    let world = World::new().await;
    let plane = world.plane.client.clone();
    let refused = register(plane.clone(), plane.clone(), &world.seam.clock, &world.options()).await.unwrap_err();
    assert!(matches!(refused, JoinError::Itself { .. }), "{refused}");
    assert_eq!(world.plane.writes(), 0);

    // A control plane that an older release joined to itself keeps its templates.
    register(plane.clone(), world.member.client.clone(), &world.seam.clock, &world.options()).await.unwrap();
    let kube_system = Api::<Namespace>::all(plane.clone()).get("kube-system").await.unwrap();
    set_id(&plane, &kube_system.uid().unwrap()).await;
    let refused = unjoin(&world, &plane, None, "").await.unwrap_err();
    assert!(
        refused.contains("because it is the control plane itself") && refused.contains("--keep-workloads"),
        "{refused}"
    );
    assert_eq!(clusters(&world).await, 1);
    unjoin(&world, &plane, None, "--keep-workloads").await.unwrap();
}

async fn set_id(plane: &Client, id: &str) {
    let patch = Patch::Merge(json!({"spec": {"id": id}}));
    Api::<Cluster>::all(plane.clone()).patch("member1", &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unjoin_deletes_nothing_in_a_cluster_of_another_identity() {
    let world = World::new().await;
    let (plane, member) = (world.plane.client.clone(), world.member.client.clone());
    register(plane.clone(), member.clone(), &world.seam.clock, &world.options()).await.unwrap();
    let before = (state(&plane).await, state(&member).await);
    for (other, id, why) in [
        (&plane, None, "leads to the control plane, whose credentials of all members would be deleted"),
        (&member, Some("another"), "leads to another cluster"),
        (&member, Some(""), "leads to another cluster"),
    ] {
        if let Some(id) = id {
            set_id(&plane, id).await;
        }
        for words in ["", "--force", "--dry-run"] {
            let refused = unjoin(&world, &plane, Some(other), words).await.unwrap_err();
            assert!(refused.contains(why), "{words}: {refused}");
        }
        assert_eq!(clusters(&world).await, 1, "the Cluster is not deleted either");
        assert_eq!((state(&plane).await, state(&member).await), before);
    }
    // Without the Cluster only annotations identify objects of a join.
    let clusters = Api::<Cluster>::all(plane.clone());
    clusters.delete("member1", &DeleteParams::default()).await.unwrap();
    let refused = unjoin(&world, &plane, Some(&plane), "").await.unwrap_err();
    assert!(refused.contains("leads to the control plane"), "{refused}");
    assert_eq!((state(&plane).await, state(&member).await), before);
}

#[tokio::test(start_paused = true)]
async fn foreign_objects_stop_a_join_and_are_not_changed() {
    let world = World::new().await;
    let (plane, member) = (world.plane.client.clone(), world.member.client.clone());
    create_namespace(&plane, "karmada-cluster").await;
    create_namespace(&member, "karmada-cluster").await;
    let meta = |name: &str, more: Value| {
        let mut meta = json!({"name": name, "namespace": "karmada-cluster"});
        meta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "metadata": meta })
    };
    let system = json!({"karmada.io/system": "true"});
    let of_other =
        json!([{"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "name": "other", "uid": "u"}]);
    let of_plane = json!({"cluster.ironclad.io/joined-by": "another"});
    for (side, name, object, why) in [
        ("plane", "member1", meta("member1", json!({})), "no join made it"),
        ("plane", "member1-impersonator", meta("member1-impersonator", json!({})), "no join made it"),
        (
            "plane",
            "member1-impersonator",
            meta("member1-impersonator", json!({"labels": system, "ownerReferences": of_other})),
            "it belongs to Cluster other",
        ),
        ("member", "karmada-member1", meta("karmada-member1", json!({})), "no join made it"),
        ("member", "karmada-impersonator", meta("karmada-impersonator", json!({})), "no join made it"),
        (
            "member",
            "karmada-member1",
            meta("karmada-member1", json!({"labels": system, "annotations": of_plane})),
            "control plane another joined the member with it",
        ),
    ] {
        let client = if side == "plane" { &plane } else { &member };
        create::<Secret>(client, object).await;
        let before = (state(&plane).await, state(&member).await);
        let refused = register(plane.clone(), member.clone(), &world.seam.clock, &world.options()).await.unwrap_err();
        let text = render(&refused.into());
        assert!(text.contains(&format!("Secret karmada-cluster/{name}")) && text.contains(why), "{text}");
        assert_eq!((state(&plane).await, state(&member).await), before, "{name}: {why}");
        let secrets = Api::<Secret>::namespaced(client.clone(), "karmada-cluster");
        secrets.delete(name, &DeleteParams::default()).await.unwrap();
    }
    // Objects of karmadactl, which have only the label, are adopted.
    create::<Secret>(&member, {
        let mut secret = meta("karmada-member1", json!({"labels": system}));
        secret["metadata"]["annotations"] = json!({"kubernetes.io/service-account.name": "karmada-member1"});
        secret["type"] = json!("kubernetes.io/service-account-token");
        secret
    })
    .await;
    register(plane.clone(), member.clone(), &world.seam.clock, &world.options()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cluster_rejected_by_admission_leaves_the_member_unchanged() {
    let world = World::new().await;
    let plane = world.plane.client.clone();
    let kind = |kind: &str| {
        kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(
            "admissionregistration.k8s.io", "v1", kind,
        ))
    };
    for (resource, object) in [
        (
            "ValidatingAdmissionPolicy",
            json!({"metadata": {"name": "no"}, "spec": {
            "matchConstraints": {"resourceRules": [{"apiGroups": ["cluster.karmada.io"], "apiVersions": ["*"],
                "resources": ["clusters"], "operations": ["CREATE"]}]},
            "validations": [{"expression": "false", "message": "no more clusters"}]}}),
        ),
        (
            "ValidatingAdmissionPolicyBinding",
            json!({"metadata": {"name": "no"}, "spec": {
            "policyName": "no", "validationActions": ["Deny"]}}),
        ),
    ] {
        let api: Api<kube::api::DynamicObject> = Api::all_with(plane.clone(), &kind(resource));
        let mut object = object;
        object["apiVersion"] = json!("admissionregistration.k8s.io/v1");
        object["kind"] = json!(resource);
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }
    let refused = register(plane, world.member.client.clone(), &world.seam.clock, &world.options()).await.unwrap_err();
    let text = render(&refused.into());
    assert!(text.contains("no more clusters"), "{text}");
    assert_eq!(world.member.writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn joining_again_removes_insecure_tls_settings() {
    let world = World::new().await;
    let (plane, member) = (world.plane.client.clone(), world.member.client.clone());
    let mut insecure = world.options();
    insecure.address.insecure = true;
    insecure.address.proxy = "http://proxy:3128".into();
    let spec = async || Api::<Cluster>::all(plane.clone()).get("member1").await.unwrap().spec;
    register(plane.clone(), member.clone(), &world.seam.clock, &insecure).await.unwrap();
    assert_eq!(
        (spec().await.insecure_skip_tls_verification, spec().await.proxy_url.as_str()),
        (true, "http://proxy:3128")
    );
    let joined = register(plane.clone(), member.clone(), &world.seam.clock, &world.options()).await.unwrap();
    assert_eq!(joined.outcome, Outcome::Updated);
    assert_eq!((spec().await.insecure_skip_tls_verification, spec().await.proxy_url.as_str()), (false, ""));
}
