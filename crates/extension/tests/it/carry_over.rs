//! Clusters are carried over and back, and any move may be cut off between any two of its requests.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use http::Request;
use ironclad_admission::Config;
use ironclad_api::crds::stored_clusters_crd;
use ironclad_extension::clusters::{Form, carry_over};
use ironclad_seam::Clock;
use jiff::Timestamp;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use crate::support::{Plane, plane, send};

const PLAIN: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const STORED: &str = "/apis/cluster.ironclad.io/v1alpha1/clusters";
const SECRETS: &str = "/api/v1/namespaces/karmada-cluster/secrets";
const NAMES: [&str; 2] = ["m1", "m2"];

/// A client that sends this many requests, and no more.
fn limited(client: &Client, requests: usize) -> Client {
    let (client, left) = (client.clone(), Arc::new(AtomicUsize::new(requests)));
    let service = service_fn(move |request: Request<Body>| {
        let (client, left) = (client.clone(), left.clone());
        async move {
            let passes = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            passes.map_err(|_| BoxError::from("the process is gone"))?;
            client.send(request).await.map_err(BoxError::from)
        }
    });
    Client::new(service, "default")
}

async fn get(plane: &Plane, path: &str) -> Value {
    send(&plane.client, "GET", path, "application/json", &Value::Null).await.2
}

async fn written(plane: &Plane, method: &str, path: &str, object: Value) -> Value {
    let (code, _, answer) = send(&plane.client, method, path, "application/json", &object).await;
    assert!(code < 300, "{method} {path}: {answer}");
    answer
}

/// Two joined members, whose Secrets their Clusters own.
async fn fleet() -> Plane {
    let plane = plane(Config::default(), &["clusters", "works"]).await;
    let namespace = json!({"metadata": {"name": "karmada-cluster"}});
    written(&plane, "POST", "/api/v1/namespaces", namespace).await;
    for name in NAMES {
        let cluster = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": name, "labels": {"of": name}, "finalizers": ["karmada.io/cluster-controller"]},
            "spec": {"syncMode": "Push", "region": name},
        });
        let mut made = written(&plane, "POST", PLAIN, cluster).await;
        made["status"] = json!({"kubernetesVersion": format!("v-{name}")});
        let made = written(&plane, "PUT", &format!("{PLAIN}/{name}/status"), made).await;
        let owner = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "name": name, "uid": made["metadata"]["uid"]});
        written(&plane, "POST", SECRETS, json!({"metadata": {"name": name, "ownerReferences": [owner]}})).await;
    }
    plane
}

/// Each Cluster that is there, in any form, and the uids by which Secrets may name their owners.
async fn uids(plane: &Plane) -> Vec<(Value, Value)> {
    let mut all = Vec::new();
    for path in [PLAIN, STORED] {
        let list = get(plane, path).await;
        for item in list["items"].as_array().into_iter().flatten() {
            all.push((item["metadata"]["name"].clone(), item["metadata"]["uid"].clone()));
        }
    }
    all
}

/// At any time each Cluster exists, and what it owns has an owner.
async fn check_between(plane: &Plane, at: &str) {
    let there = uids(plane).await;
    for name in NAMES {
        assert!(there.iter().any(|(other, _)| other == name), "{at}: {name} is lost");
        let secret = get(plane, &format!("{SECRETS}/{name}")).await;
        let owner = (json!(name), secret["metadata"]["ownerReferences"][0]["uid"].clone());
        assert!(there.contains(&owner), "{at}: {owner:?} owns the Secret, and {there:?} are there");
    }
}

/// In the end each Cluster is in one form, as it was.
async fn check(plane: &Plane, form: Form, at: &str) {
    let (here, not_here) = if form == Form::Stored { (STORED, PLAIN) } else { (PLAIN, STORED) };
    assert_eq!(get(plane, not_here).await["items"], Value::Null, "{at}: that form is not served any more");
    for name in NAMES {
        let cluster = get(plane, &format!("{here}/{name}")).await;
        let metadata = &cluster["metadata"];
        assert_eq!(metadata["labels"], json!({"of": name}), "{at}: {cluster}");
        assert_eq!(metadata["finalizers"], json!(["karmada.io/cluster-controller"]), "{at}");
        assert!(metadata["annotations"].as_object().is_none_or(serde_json::Map::is_empty), "{at}: {metadata}");
        assert_eq!(cluster["spec"]["region"], name, "{at}");
        assert_eq!(cluster["status"]["kubernetesVersion"], format!("v-{name}"), "{at}");
    }
    check_between(plane, at).await;
}

async fn moved(client: &Client, to: Form) -> Result<usize, String> {
    let clock = Clock::simulated(Timestamp::from_second(1_790_000_000).unwrap());
    carry_over(client, to, &clock).await.map_err(|error| format!("{error}: {:?}", std::error::Error::source(&error)))
}

#[tokio::test(start_paused = true)]
async fn a_move_that_is_cut_off_goes_on_or_is_turned_round() {
    let mut cuts = 0;
    loop {
        let at = format!("cut after {cuts} requests");
        // Goes on.
        let first = fleet().await;
        let cut = moved(&limited(&first.client, cuts), Form::Stored).await;
        check_between(&first, &at).await;
        moved(&first.client, Form::Stored).await.expect(&at);
        check(&first, Form::Stored, &at).await;
        // Is turned round.
        let second = fleet().await;
        let _ = moved(&limited(&second.client, cuts), Form::Stored).await;
        check_between(&second, &at).await;
        moved(&second.client, Form::Plain).await.expect(&at);
        check(&second, Form::Plain, &at).await;
        // The way back.
        let back = moved(&limited(&first.client, cuts), Form::Plain).await;
        check_between(&first, &format!("back, {at}")).await;
        moved(&first.client, Form::Plain).await.expect(&at);
        check(&first, Form::Plain, &format!("back, {at}")).await;
        if cut.is_ok() && back.is_ok() {
            break;
        }
        cuts += 1;
        assert!(cuts < 500, "a move ends");
    }
    assert!(cuts > 20, "it was cut off {cuts} times");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_being_deleted_goes_on_so() {
    let plane = fleet().await;
    written(&plane, "DELETE", &format!("{PLAIN}/m1"), Value::Null).await;
    assert_eq!(moved(&plane.client, Form::Stored).await, Ok(2));
    let cluster = get(&plane, &format!("{STORED}/m1")).await;
    assert!(!cluster["metadata"]["deletionTimestamp"].is_null(), "{cluster}");
    assert_eq!(cluster["metadata"]["finalizers"], json!(["karmada.io/cluster-controller"]));
    assert_eq!(moved(&plane.client, Form::Stored).await, Ok(0), "it is done");
}

#[tokio::test(start_paused = true)]
async fn two_clusters_of_one_name_are_left_alone() {
    let plane = fleet().await;
    let definition = serde_json::to_value(stored_clusters_crd()).unwrap();
    written(&plane, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    let other = json!({
        "apiVersion": "cluster.ironclad.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"},
        "spec": {"syncMode": "Pull"},
    });
    written(&plane, "POST", STORED, other).await;
    let error = moved(&plane.client, Form::Stored).await.unwrap_err();
    assert!(error.contains("Cluster m1 exists in two forms: delete one of"), "{error}");
    assert_eq!(get(&plane, &format!("{PLAIN}/m1")).await["spec"]["syncMode"], "Push");
}

#[tokio::test(start_paused = true)]
async fn clusters_that_somebody_else_serves_are_left_alone() {
    let plane = fleet().await;
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1alpha1.cluster.karmada.io"},
        "spec": {"group": "cluster.karmada.io", "version": "v1alpha1", "groupPriorityMinimum": 2000, "versionPriority": 10,
            "service": {"namespace": "karmada-system", "name": "karmada-aggregated-apiserver"}},
    });
    written(&plane, "POST", "/apis/apiregistration.k8s.io/v1/apiservices", service).await;
    let error = moved(&plane.client, Form::Stored).await.unwrap_err();
    assert!(error.contains("of somebody else serves Clusters: delete it first"), "{error}");
    assert_eq!(uids(&plane).await.len(), NAMES.len(), "none is copied");
}
