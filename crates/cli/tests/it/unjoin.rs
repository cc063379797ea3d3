use std::time::Duration;

use ironclad_api::{
    cluster::Cluster,
    work::{ResourceBinding, ResourceBindingSpec, TargetCluster, Work, WorkSpec},
};
use ironclad_cli::{
    Mode,
    join::register,
    report::render,
    unjoin::{Joined, OnTimeout, Workloads, clean, find, impact, keeps, remove},
};
use k8s_openapi::api::{
    core::v1::{Namespace, ServiceAccount},
    rbac::v1::ClusterRole,
};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::support::World;

const MINUTE: Duration = Duration::from_secs(60);

async fn joined() -> World {
    let world = World::new().await;
    let (plane, member) = (world.plane.client.clone(), world.member.client.clone());
    register(plane, member, &world.seam.clock, &world.options()).await.unwrap();
    world
}

/// Joins a cluster with the finalizers of controllers and two Works.
async fn cluster_with_workload() -> World {
    let world = joined().await;
    let client = &world.plane.client;
    let hold = Patch::Merge(json!({ "metadata": { "finalizers": ["karmada.io/cluster-controller"] } }));
    Api::<Cluster>::all(client.clone()).patch("member1", &PatchParams::default(), &hold).await.unwrap();
    let space: Namespace = serde_json::from_value(json!({ "metadata": { "name": "karmada-es-member1" } })).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &space).await.unwrap();
    for name in ["a", "b"] {
        let mut work = Work::new(name, WorkSpec::default());
        work.metadata.finalizers = Some(vec!["karmada.io/execution-controller".into()]);
        Api::namespaced(client.clone(), "karmada-es-member1").create(&PostParams::default(), &work).await.unwrap();
    }
    world
}

async fn bind(world: &World, name: &str, clusters: &[&str]) {
    let target = |name: &&str| TargetCluster { name: (*name).to_owned(), replicas: 1, components: Vec::new() };
    let mut spec =
        ResourceBindingSpec { clusters: clusters.iter().map(target).collect(), ..ResourceBindingSpec::default() };
    spec.resource.api_version = "apps/v1".into();
    spec.resource.kind = "Deployment".into();
    spec.resource.name = name.into();
    let binding = ResourceBinding::new(name, spec);
    Api::namespaced(world.plane.client.clone(), "default").create(&PostParams::default(), &binding).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cluster_without_finalizers_is_removed_at_once() {
    let world = joined().await;
    let cluster = find(&world.plane.client, "member1").await.unwrap();
    remove(&world.plane.client, &world.seam.clock, &cluster, Workloads::Remove, MINUTE, OnTimeout::Report, |_| ())
        .await
        .unwrap();
    let error = find(&world.plane.client, "member1").await.unwrap_err();
    let want = "error: no cluster object member1 found in karmada control Plane\n  try: ironclad get clusters";
    assert_eq!(render(&error.into()), want);
    remove(&world.plane.client, &world.seam.clock, &cluster, Workloads::Remove, MINUTE, OnTimeout::Report, |_| ())
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn impact_is_counted_before_an_unjoin() {
    let world = cluster_with_workload().await;
    bind(&world, "only", &["member1"]).await;
    bind(&world, "both", &["member1", "member2"]).await;
    bind(&world, "other", &["member2"]).await;
    let impact = impact(&world.plane.client, "member1").await.unwrap();
    assert_eq!(impact.to_string(), "2 works, 1 binding would lose a replica, 1 would have no cluster left");
}

#[tokio::test(start_paused = true)]
async fn finalizers_that_block_removal_are_reported_and_removed_with_force() {
    let world = cluster_with_workload().await;
    let (client, clock) = (&world.plane.client, &world.seam.clock);
    let cluster = find(client, "member1").await.unwrap();
    let began = clock.mono();
    let error =
        remove(client, clock, &cluster, Workloads::Remove, MINUTE, OnTimeout::Report, |_| ()).await.unwrap_err();
    let want = "error: timed out after 60 s waiting for cluster member1 to go\n  \
                because its finalizers are not released: karmada.io/cluster-controller\n  try: kubectl describe cluster member1; or --force";
    assert!(render(&error.into()).starts_with(want));
    assert!(clock.mono() - began < Duration::from_secs(61));

    remove(client, clock, &cluster, Workloads::Remove, Duration::from_secs(5), OnTimeout::RemoveFinalizers, |_| ())
        .await
        .unwrap();
    let works: Api<Work> = Api::namespaced(client.clone(), "karmada-es-member1");
    for work in works.list(&ListParams::default()).await.unwrap() {
        assert_eq!(work.metadata.finalizers, None, "finalizers of Works are removed");
    }
    assert!(Api::<Cluster>::all(client.clone()).get_opt("member1").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn unjoin_does_not_delete_a_recreated_cluster() {
    let world = joined().await;
    let (client, clock) = (&world.plane.client, &world.seam.clock);
    let old = find(client, "member1").await.unwrap();
    remove(client, clock, &old, Workloads::Remove, MINUTE, OnTimeout::Report, |_| ()).await.unwrap();
    register(client.clone(), world.member.client.clone(), clock, &world.options()).await.unwrap();
    let error = remove(client, clock, &old, Workloads::Remove, MINUTE, OnTimeout::Report, |_| ()).await.unwrap_err();
    assert!(render(&error.into()).contains("Conflict"), "a recreated cluster is not deleted");
    assert!(find(client, "member1").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn objects_of_another_control_plane_stay_in_the_member() {
    let world = joined().await;
    let client = &world.member.client;
    let plane =
        Api::<Namespace>::all(world.plane.client.clone()).get("kube-system").await.unwrap().metadata.uid.unwrap();
    let joined =
        |cluster| Joined { cluster, plane: &plane, namespace: "karmada-cluster", confirmed: true, mode: Mode::Keep };
    let theirs: ServiceAccount = serde_json::from_value(json!({
        "metadata": { "name": "karmada-theirs", "labels": { "karmada.io/system": "true" } },
    }))
    .unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "karmada-cluster");
    accounts.create(&PostParams::default(), &theirs).await.unwrap();
    clean(client, &joined("member1")).await.unwrap();
    assert!(accounts.get_opt("karmada-member1").await.unwrap().is_none());
    assert!(accounts.get_opt("karmada-impersonator").await.unwrap().is_some(), "another control plane uses it");
    let role = "karmada-controller-manager:karmada-member1";
    assert!(Api::<ClusterRole>::all(client.clone()).get_opt(role).await.unwrap().is_none());

    clean(client, &joined("theirs")).await.unwrap();
    let namespace = Api::<Namespace>::all(client.clone()).get_opt("karmada-cluster").await.unwrap();
    assert!(
        namespace.is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some()),
        "no control plane uses it any more"
    );
    clean(client, &joined("theirs")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn annotation_that_keeps_workloads_is_written_before_the_deletion() {
    let world = cluster_with_workload().await;
    let (client, clock) = (&world.plane.client, &world.seam.clock);
    let cluster = find(client, "member1").await.unwrap();
    assert!(!keeps(&cluster));
    world.plane.writes();
    let stuck =
        remove(client, clock, &cluster, Workloads::Keep, Duration::from_secs(5), OnTimeout::Report, |_| ()).await;
    assert!(stuck.is_err(), "no controller releases the finalizers here");
    let leaving = find(client, "member1").await.unwrap();
    assert!(keeps(&leaving) && leaving.metadata.deletion_timestamp.is_some());
    assert_eq!(world.plane.writes(), 2, "the annotation, then the deletion");
    let again =
        remove(client, clock, &leaving, Workloads::Keep, Duration::from_secs(5), OnTimeout::RemoveFinalizers, |_| ())
            .await;
    again.unwrap();
    assert_eq!(
        world.plane.writes() - 6,
        0,
        "no second annotation: the deletion, two Works, the namespace twice, the cluster"
    );
}
