//! Deployments that start, roll out, scale and are idle.

use std::time::Duration;

use ironclad_kubecontrollers::pods::{is_active, ready_since};
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use kube::ResourceExt as _;
use serde_json::json;

use crate::world::{World, options, web};

#[tokio::test(start_paused = true)]
async fn a_deployment_runs_pods_with_few_writes() {
    for (delay, most) in [(0, 9), (2, 11)] {
        let w = World::new(1, options_with_delay(delay)).await;
        w.quiet().await;
        let before = w.requests();
        w.deploy(web(2, "i:1")).await;
        w.complete("web").await;
        w.quiet().await;
        let pods: Vec<Pod> = w.list().await;
        assert_eq!(pods.len(), 2);
        let mut addresses: Vec<_> = pods.iter().map(|p| p.status.clone().unwrap().pod_ip.unwrap()).collect();
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), 2, "each pod has its own address");
        let nodes: Vec<_> = pods.iter().map(|p| p.spec.clone().unwrap().node_name.unwrap()).collect();
        assert_ne!(nodes[0], nodes[1], "spread");
        let deployment = w.deployments().get("web").await.unwrap();
        assert_eq!(deployment.annotations()["deployment.kubernetes.io/revision"], "1");
        assert_eq!(deployment.metadata.generation, Some(1), "the annotation costs no generation");
        let (writes, reads) = w.requests();
        assert!(writes - before.0 <= most, "{} writes with a delay of {delay} s", writes - before.0);
        assert_eq!(reads - before.1, 0, "reads");
    }
}

fn options_with_delay(seconds: u64) -> ironclad_simcluster::MemberOptions {
    ironclad_simcluster::MemberOptions { startup_delay: Duration::from_secs(seconds), ..options() }
}

#[tokio::test(start_paused = true)]
async fn an_idle_member_writes_and_lists_nothing_in_an_hour() {
    let w = World::new(1, options()).await;
    w.deploy(web(3, "i:1")).await;
    w.complete("web").await;
    w.quiet().await;
    let (before, revision) = (w.requests(), w.store.revision());
    w.seam.clock.sleep(Duration::from_secs(3_600)).await;
    assert_eq!((w.requests(), w.store.revision()), (before, revision));
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_always_respects_surge_and_unavailable() {
    let w = World::new(1, options()).await;
    let mut d = web(4, "i:1");
    d["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}});
    w.deploy(d).await;
    w.complete("web").await;
    w.quiet().await;
    let mut watch = w.store.watch("", w.store.revision()).unwrap();
    w.patch("web", json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}})).await;
    let (mut least, mut most) = (usize::MAX, 0);
    loop {
        let pods: Vec<Pod> = w.list().await;
        let active: Vec<_> = pods.iter().filter(|p| is_active(p)).collect();
        least = least.min(active.iter().filter(|p| ready_since(p).is_some()).count());
        most = most.max(active.len());
        if tokio::time::timeout(Duration::from_secs(60), watch.next()).await.is_err() {
            break;
        }
    }
    assert_eq!((least, most), (3, 5), "minimum available and maximum pods");
    let pods: Vec<Pod> = w.list().await;
    assert_eq!(pods.len(), 4);
    assert!(pods.iter().all(|p| p.spec.clone().unwrap().containers[0].image.as_deref() == Some("i:2")));
    let sets: Vec<ReplicaSet> = w.list().await;
    let mut sizes: Vec<_> = sets.iter().map(|s| s.spec.clone().unwrap().replicas.unwrap()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [0, 4], "the old set stays for a rollback");
    let deployment = w.deployments().get("web").await.unwrap();
    assert_eq!(deployment.annotations()["deployment.kubernetes.io/revision"], "2");
}

#[tokio::test(start_paused = true)]
async fn recreate_never_runs_old_and_new_side_by_side() {
    let w = World::new(1, options()).await;
    let mut d = web(2, "i:1");
    d["spec"]["strategy"] = json!({"type": "Recreate"});
    w.deploy(d).await;
    w.complete("web").await;
    w.quiet().await;
    let mut watch = w.store.watch("", w.store.revision()).unwrap();
    w.patch("web", json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}})).await;
    loop {
        let pods: Vec<Pod> = w.list().await;
        let mut images: Vec<_> = pods.iter().map(|p| p.spec.clone().unwrap().containers[0].image.clone()).collect();
        images.dedup();
        assert!(images.len() <= 1, "{images:?}");
        if tokio::time::timeout(Duration::from_secs(60), watch.next()).await.is_err() {
            break;
        }
    }
    w.complete("web").await;
}

#[tokio::test(start_paused = true)]
async fn scaling_up_and_down() {
    let w = World::new(1, options()).await;
    w.deploy(web(1, "i:1")).await;
    for replicas in [5, 2, 0, 3] {
        w.patch("web", json!({"spec": {"replicas": replicas}})).await;
        w.complete("web").await;
        w.quiet().await;
        let pods: Vec<Pod> = w.list().await;
        assert_eq!(pods.len(), replicas);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unready_pod_stops_the_rollout_at_its_deadline() {
    let w = World::new(1, options()).await;
    let mut d = web(2, "i:1");
    d["spec"]["progressDeadlineSeconds"] = json!(60);
    w.deploy(d).await;
    w.complete("web").await;
    let template = json!({
        "metadata": {"annotations": {"sim.ironclad.io/ready": "false"}},
        "spec": {"containers": [{"name": "c", "image": "i:bad"}]},
    });
    w.patch("web", json!({"spec": {"template": template}})).await;
    w.until("the deadline is exceeded", || async {
        let status = w.deployments().get("web").await.unwrap().status.unwrap();
        let progressing = status.conditions.unwrap().into_iter().find(|c| c.type_ == "Progressing");
        progressing.is_some_and(|c| c.reason.as_deref() == Some("ProgressDeadlineExceeded"))
    })
    .await;
    let status = w.deployments().get("web").await.unwrap().status.unwrap();
    assert_eq!(status.available_replicas, Some(2), "the old pods still serve");
}
