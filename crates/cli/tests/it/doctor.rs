use std::time::Duration;

use ironclad_api::{
    cluster::Cluster,
    work::{ResourceBinding, ResourceBindingSpec, TargetCluster},
};
use ironclad_cli::{
    doctor::check_fleet,
    members::{Access, Member},
};
use ironclad_planning::doctor::Grade;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    client::Body,
};
use serde_json::json;

use crate::support::World;

const SETTLE: Duration = Duration::from_secs(5);

fn on(name: &str) -> ResourceBinding {
    let target = TargetCluster { name: "gone".to_owned(), replicas: 1, components: Vec::new() };
    let mut spec = ResourceBindingSpec { clusters: vec![target], ..ResourceBindingSpec::default() };
    spec.resource.api_version = "v1".into();
    spec.resource.kind = "ConfigMap".into();
    spec.resource.namespace = "default".into();
    spec.resource.name = name.into();
    ResourceBinding::new(name, spec)
}

#[tokio::test(start_paused = true)]
async fn violations_that_disappear_before_the_second_check_are_not_reported() {
    let world = World::with_all_kinds().await;
    let (plane, clock) = (&world.plane.client, &world.seam.clock);
    let members = [Member { name: "gone".to_owned(), access: Err("no kubeconfig has it".to_owned()) }];
    world.plane.writes();
    let well = check_fleet(plane, clock, &[], SETTLE, SETTLE).await.unwrap();
    assert!(well.violations.is_empty() && !well.is_broken(), "{well:?}");
    assert_eq!(world.plane.writes(), 0, "a check writes nothing");

    let bindings: Api<ResourceBinding> = Api::namespaced(plane.clone(), "default");
    for name in ["lasting", "passing"] {
        bindings.create(&PostParams::default(), &on(name)).await.unwrap();
    }
    // Repaired between the two checks.
    let (later, again) = (bindings.clone(), clock.clone());
    world.seam.tasks.spawn("repair", async move {
        again.sleep(Duration::from_secs(1)).await;
        later.delete("passing", &DeleteParams::default()).await.unwrap();
    });
    let looked = check_fleet(plane, clock, &members, SETTLE, SETTLE).await.unwrap();
    let violations: Vec<String> = looked.violations.iter().map(ToString::to_string).collect();
    assert!(violations.iter().all(|line| line.contains("default/lasting")) && !violations.is_empty(), "{violations:?}");
    assert!(
        violations.contains(&"binding default/lasting names cluster gone, which does not exist".to_owned()),
        "{violations:?}"
    );
    assert!(looked.findings.iter().any(|f| f.what == "cluster gone could not be checked: no kubeconfig has it"));
    assert!(looked.is_broken());
}

#[tokio::test(start_paused = true)]
async fn objects_in_members_are_checked() {
    let world = World::with_all_kinds().await;
    let (plane, clock) = (&world.plane.client, &world.seam.clock);
    // A Work of the kind makes the check list its objects; the object names another Work.
    let space: Namespace = serde_json::from_value(json!({ "metadata": { "name": "karmada-es-member1" } })).unwrap();
    Api::all(plane.clone()).create(&PostParams::default(), &space).await.unwrap();
    // Objects in clusters that are not joined are no violation.
    let cluster: Cluster = serde_json::from_value(json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": { "name": "member1" },
        "spec": { "syncMode": "Push", "apiEndpoint": "https://member1" },
    }))
    .unwrap();
    Api::all(plane.clone()).create(&PostParams::default(), &cluster).await.unwrap();
    let work: ironclad_api::work::Work = serde_json::from_value(json!({
        "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": { "name": "w" },
        "spec": { "workload": { "manifests": [{ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "c", "namespace": "default" } }] } },
    }))
    .unwrap();
    Api::namespaced(plane.clone(), "karmada-es-member1").create(&PostParams::default(), &work).await.unwrap();
    let stray: k8s_openapi::api::core::v1::ConfigMap = serde_json::from_value(json!({ "metadata": {
        "name": "stray", "labels": { "karmada.io/managed": "true" },
        "annotations": { "work.karmada.io/namespace": "karmada-es-member1", "work.karmada.io/name": "was" } } }))
    .unwrap();
    Api::namespaced(world.member.client.clone(), "default").create(&PostParams::default(), &stray).await.unwrap();
    // A kind that the member does not list, of which an object is applied.
    let mut refused = work.clone();
    refused.metadata.name = Some("refused".to_owned());
    refused.spec.workload.manifests = vec![
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "namespace": "default" } }).into(),
    ];
    let works: Api<ironclad_api::work::Work> = Api::namespaced(plane.clone(), "karmada-es-member1");
    works.create(&PostParams::default(), &refused).await.unwrap();
    let status = json!({ "status": { "conditions": [{ "type": "Applied", "status": "True", "reason": "AppliedSuccessful",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
    works.patch_status("refused", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
    let clusters: Api<Cluster> = Api::all(plane.clone());
    clusters.patch_status("member1", &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
    let through = world.member.client.clone();
    let client = kube::Client::new(
        tower::service_fn(move |request: http::Request<Body>| {
            let through = through.clone();
            async move {
                if !request.uri().path().ends_with("/secrets") {
                    return through.send(request).await;
                }
                let answer = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500,
                    "reason": "InternalError", "message": "conversion webhook failed" });
                let answer = Body::from(serde_json::to_vec(&answer).unwrap());
                Ok(http::Response::builder().status(500).body(answer).unwrap())
            }
        }),
        "default",
    );
    let members = [Member { name: "member1".to_owned(), access: Ok(Access::Client(client)) }];
    let looked = check_fleet(plane, clock, &members, SETTLE, SETTLE).await.unwrap();
    let violations: Vec<String> = looked.violations.iter().map(ToString::to_string).collect();
    let want = "ConfigMap default/stray in cluster member1 is marked as ours, but its Work karmada-es-member1/was does not exist";
    assert!(violations.contains(&want.to_owned()), "{violations:?}");
    assert!(!violations.iter().any(|line| line.contains("Secret")), "nothing is known of them: {violations:?}");
    let want = "v1 Secret in cluster member1 could not be checked: Error from server (InternalError): conversion webhook failed";
    assert!(looked.findings.iter().any(|finding| finding.what == want), "{:?}", looked.findings);
    assert!(looked.findings.iter().all(|finding| finding.grade != Grade::Broken), "{:?}", looked.findings);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_takes_no_writes_is_told() {
    let world = World::with_all_kinds().await;
    let (clock, through) = (&world.seam.clock, world.plane.client.clone());
    let plane = kube::Client::new(
        tower::service_fn(move |request: http::Request<Body>| {
            let through = through.clone();
            async move {
                let text = match request.uri().path() {
                    "/readyz" => "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n",
                    "/readyz/etcd" => "internal server error: the store takes no writes: no space left\n",
                    _ => return through.send(request).await,
                };
                Ok(http::Response::builder().status(500).body(Body::from(text.as_bytes().to_vec())).unwrap())
            }
        }),
        "default",
    );
    let looked = check_fleet(&plane, clock, &[], SETTLE, SETTLE).await.unwrap();
    let want =
        "the control plane's API server is not ready: check etcd fails: the store takes no writes: no space left";
    assert!(looked.findings.iter().any(|finding| finding.what == want), "{:?}", looked.findings);
    assert!(looked.is_broken());
}
