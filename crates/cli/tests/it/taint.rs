use ironclad_api::{
    Taint, Time,
    cluster::{Cluster, ClusterSpec},
};
use ironclad_cli::{
    cordon::{Cordon, cordon},
    report::render,
    taint::find,
};
use jiff::Timestamp;
use kube::{Api, api::PostParams};

use crate::support::World;

async fn with_cluster(taints: Vec<Taint>) -> World {
    let world = World::new().await;
    let cluster = Cluster::new("m1", ClusterSpec { taints, ..ClusterSpec::default() });
    Api::all(world.plane.client.clone()).create(&PostParams::default(), &cluster).await.unwrap();
    world.plane.writes();
    world
}

#[tokio::test(start_paused = true)]
async fn cordon_needs_one_write_and_keeps_other_taints() {
    let time = Time(Timestamp::from_second(1_767_225_600).unwrap());
    let mine = Taint { key: "k".into(), effect: "NoExecute".into(), value: Some("v".into()), time_added: Some(time) };
    let world = with_cluster(vec![mine.clone()]).await;
    let client = &world.plane.client;
    assert!(cordon(client, "m1", Cordon::Close).await.unwrap());
    assert!(!cordon(client, "m1", Cordon::Close).await.unwrap());
    assert_eq!(world.plane.writes(), 1);
    let taints = find(client, "m1").await.unwrap().spec.taints;
    assert_eq!((&taints[0], &*taints[1].key, taints.len()), (&mine, "cluster.karmada.io/unschedulable", 2));
    assert!(cordon(client, "m1", Cordon::Open).await.unwrap());
    assert!(!cordon(client, "m1", Cordon::Open).await.unwrap());
    assert_eq!(find(client, "m1").await.unwrap().spec.taints, [mine]);
    let error = cordon(client, "m9", Cordon::Close).await.unwrap_err();
    assert_eq!(
        render(&error.into()),
        "Error from server (NotFound): clusters.cluster.karmada.io \"m9\" not found\n  try: ironclad get clusters"
    );
}

#[tokio::test(start_paused = true)]
async fn concurrent_edits_of_taints_are_not_lost() {
    let world = with_cluster(Vec::new()).await;
    let client = &world.plane.client;
    let add = |key: String| {
        let client = client.clone();
        async move {
            // All read the cluster before the first one writes.
            let seen = find(&client, "m1").await.unwrap();
            tokio::task::yield_now().await;
            ironclad_cli::taint::add(&client, seen, Taint { key, effect: "NoSchedule".into(), ..Taint::default() })
                .await
        }
    };
    let done = futures::future::join_all((0..4).map(|i| add(format!("k{i}")))).await;
    assert!(done.into_iter().all(|done| done.unwrap()));
    let mut keys: Vec<_> = find(client, "m1").await.unwrap().spec.taints.into_iter().map(|taint| taint.key).collect();
    keys.sort();
    assert_eq!(keys, ["k0", "k1", "k2", "k3"]);
}
