use std::time::Duration;

use ironclad_api::{cluster::Cluster, conditions};
use ironclad_cli::{
    Outcome,
    join::{JoinOptions, register},
};
use k8s_openapi::api::{
    core::v1::{Namespace, Secret, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::support::{World, set_token};

async fn join(world: &World, options: &JoinOptions) -> Result<(Cluster, Outcome), String> {
    let (plane, member) = (world.plane.client.clone(), world.member.client.clone());
    match register(plane, member, &world.seam.clock, options).await {
        Ok(joined) => Ok((joined.cluster, joined.outcome)),
        Err(error) => Err(ironclad_cli::report::render(&error.into())),
    }
}

fn data(secret: &Secret, key: &str) -> String {
    String::from_utf8(secret.data.as_ref().unwrap()[key].0.clone()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn join_creates_the_objects_that_other_tools_expect() {
    let world = World::new().await;
    let (cluster, outcome) = join(&world, &world.options()).await.unwrap();
    assert_eq!(outcome, Outcome::Created);
    let kube_system = Api::<Namespace>::all(world.member.client.clone()).get("kube-system").await.unwrap();
    assert_eq!(Some(cluster.spec.id.clone()), kube_system.uid());
    assert_eq!(cluster.spec.api_endpoint, "https://member.example:6443");

    let accounts: Api<ServiceAccount> = Api::namespaced(world.member.client.clone(), "karmada-cluster");
    for name in ["karmada-impersonator", "karmada-member1"] {
        assert!(accounts.get_opt(name).await.unwrap().is_some(), "{name}");
    }
    let role = "karmada-controller-manager:karmada-member1";
    assert!(Api::<ClusterRole>::all(world.member.client.clone()).get_opt(role).await.unwrap().is_some());
    let binding = Api::<ClusterRoleBinding>::all(world.member.client.clone()).get(role).await.unwrap();
    assert_eq!(binding.subjects.unwrap()[0].name, "karmada-member1");

    let secrets: Api<Secret> = Api::namespaced(world.plane.client.clone(), "karmada-cluster");
    let (own, impersonator) =
        (secrets.get("member1").await.unwrap(), secrets.get("member1-impersonator").await.unwrap());
    assert_eq!(
        (data(&own, "token"), data(&own, "caBundle")),
        ("one".to_owned(), "-----BEGIN CERTIFICATE-----\n".to_owned())
    );
    assert_eq!(data(&impersonator, "token"), "one");
    for secret in [own, impersonator] {
        let owner = &secret.owner_references()[0];
        assert_eq!((owner.kind.as_str(), Some(&owner.uid)), ("Cluster", cluster.metadata.uid.as_ref()));
        assert_eq!(secret.labels().get("karmada.io/system").map(String::as_str), Some("true"));
    }
}

#[tokio::test(start_paused = true)]
async fn joining_again_writes_only_what_changed() {
    let world = World::new().await;
    join(&world, &world.options()).await.unwrap();
    world.plane.writes();
    let (_, outcome) = join(&world, &world.options()).await.unwrap();
    assert_eq!((outcome, world.plane.writes()), (Outcome::Unchanged, 0));

    set_token(&world.member.client, "karmada-member1", "two").await;
    let (_, outcome) = join(&world, &world.options()).await.unwrap();
    assert_eq!((outcome, world.plane.writes()), (Outcome::Unchanged, 1), "one Secret has a new token");
    let secrets: Api<Secret> = Api::namespaced(world.plane.client.clone(), "karmada-cluster");
    assert_eq!(data(&secrets.get("member1").await.unwrap(), "token"), "two");

    let moved = JoinOptions { region: "eu".into(), ..world.options() };
    let (cluster, outcome) = join(&world, &moved).await.unwrap();
    assert_eq!((outcome, world.plane.writes(), cluster.spec.region.as_str()), (Outcome::Updated, 1, "eu"));
}

#[tokio::test(start_paused = true)]
async fn interrupted_join_is_completed_by_the_next() {
    let world = World::new().await;
    join(&world, &world.options()).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(world.plane.client.clone(), "karmada-cluster");
    secrets.delete("member1", &DeleteParams::default()).await.unwrap();
    let roles: Api<ClusterRole> = Api::all(world.member.client.clone());
    roles.delete("karmada-controller-manager:karmada-member1", &DeleteParams::default()).await.unwrap();
    join(&world, &world.options()).await.unwrap();
    assert_eq!(secrets.get("member1").await.unwrap().owner_references().len(), 1);
    assert!(roles.get_opt("karmada-controller-manager:karmada-member1").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn member_can_be_joined_under_one_name_only() {
    let world = World::new().await;
    let (cluster, _) = join(&world, &world.options()).await.unwrap();
    let twice = join(&world, &JoinOptions { cluster: "other".into(), ..world.options() }).await.unwrap_err();
    let want = format!(
        "error: cluster other was not joined\n  because the same cluster ({}) is joined already as member1\n  \
         try: `ironclad unjoin member1` first, or use member1",
        cluster.spec.id
    );
    assert_eq!(twice, want);
    let bad = join(&world, &JoinOptions { cluster: "Member_1".into(), ..world.options() }).await.unwrap_err();
    assert!(bad.starts_with("error: cluster name \"Member_1\" can't be used\n  because it has a character"), "{bad}");
    assert!(bad.contains("\n  try: lower case letters"), "{bad}");
}

#[tokio::test(start_paused = true)]
async fn control_plane_without_crds_is_reported() {
    let world = World::bare().await;
    let error = join(&world, &world.options()).await.unwrap_err();
    assert!(
        error.starts_with(
            "error: cluster member1 was not joined: listing clusters in the control plane\n  because Error"
        ),
        "{error}"
    );
    assert!(
        error
            .contains("try: --kubeconfig FILE of an administrator of the control plane, and `ironclad crds --install`"),
        "{error}"
    );
    assert_eq!(world.member.writes(), 0, "nothing was written to the member");
}

#[tokio::test(start_paused = true)]
async fn missing_token_controller_is_reported_after_a_timeout() {
    let world = World::bare().await;
    let crds = ironclad_api::crds::crds();
    ironclad_cli::crds::install(&world.plane.client, &world.seam.clock, crds, Duration::from_secs(60), false)
        .await
        .unwrap();
    let began = world.seam.clock.mono();
    let error = join(&world, &world.options()).await.unwrap_err();
    assert!(
        error.contains("because no token appeared in Secret karmada-cluster/karmada-member1 of the member within 30 s"),
        "{error}"
    );
    assert!(error.contains("try: --credential=token"), "{error}");
    assert!(world.seam.clock.mono() - began < Duration::from_secs(32));
    let clusters: Api<Cluster> = Api::all(world.plane.client.clone());
    assert!(clusters.list(&ListParams::default()).await.unwrap().items.is_empty(), "no Cluster was created");
}

#[tokio::test(start_paused = true)]
async fn join_waits_until_the_cluster_is_ready() {
    let world = World::new().await;
    let options = JoinOptions { wait: Some(Duration::from_secs(20)), ..world.options() };
    let error = join(&world, &options).await.unwrap_err();
    let want = "error: timed out after 20 s waiting for cluster member1 to be ready\n  \
                because no controller has looked at it yet\n  try: kubectl describe cluster member1";
    assert!(error.starts_with(want), "{error}");

    let clusters: Api<Cluster> = Api::all(world.plane.client.clone());
    let clock = world.seam.clock.clone();
    world.seam.tasks.spawn("cluster-status", async move {
        clock.sleep(Duration::from_secs(5)).await;
        let ready = conditions::condition("Ready", "True", "ClusterReady", "fine");
        let patch = Patch::Merge(json!({ "status": { "conditions": [ready] } }));
        clusters.patch_status("member1", &PatchParams::default(), &patch).await.unwrap();
    });
    let (cluster, _) = join(&world, &options).await.unwrap();
    assert_eq!(cluster.ready(), Some("True"));
}

#[tokio::test(start_paused = true)]
async fn join_waits_for_a_namespace_that_is_being_deleted() {
    let world = World::new().await;
    let namespaces: Api<Namespace> = Api::all(world.member.client.clone());
    let leaving = serde_json::from_value(json!({"metadata": {"name": "karmada-cluster"}})).unwrap();
    let first = namespaces.create(&Default::default(), &leaving).await.unwrap();
    namespaces.delete("karmada-cluster", &DeleteParams::default()).await.unwrap();
    assert!(namespaces.get("karmada-cluster").await.unwrap().metadata.deletion_timestamp.is_some());
    // The namespace controller ends it later.
    let (client, clock) = (world.member.client.clone(), world.seam.clock.clone());
    world.seam.tasks.spawn("namespace-controller", async move {
        clock.sleep(Duration::from_secs(3)).await;
        let finalized = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karmada-cluster"}, "spec": {"finalizers": []}});
        let request = http::Request::put("/api/v1/namespaces/karmada-cluster/finalize");
        client.request_text(request.body(serde_json::to_vec(&finalized).unwrap()).unwrap()).await.unwrap();
    });
    join(&world, &world.options()).await.unwrap();
    assert_ne!(namespaces.get("karmada-cluster").await.unwrap().uid(), first.uid());
}
