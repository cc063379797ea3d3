//! Schedulable and unschedulable pods.

use std::time::Duration;

use ironclad_simcluster::{MemberOptions, Shape};
use k8s_openapi::{
    api::core::v1::{Node, Pod},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, PostParams},
};
use serde_json::json;

use crate::world::{World, options, web};

fn unschedulable(pod: &Pod) -> Option<String> {
    let conditions = pod.status.clone()?.conditions?;
    let scheduled = conditions.into_iter().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    (scheduled.reason.as_deref() == Some("Unschedulable")).then(|| scheduled.message.unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn an_unschedulable_pod_reports_why_and_starts_when_resources_are_free() {
    let w = World::new(1, options()).await;
    let mut d = web(1, "i:1");
    d["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("9");
    w.deploy(d).await;
    w.quiet().await;
    let pods: Vec<Pod> = w.list().await;
    let message = unschedulable(&pods[0]).unwrap();
    assert!(message.starts_with("0/3 nodes are available: 3 Insufficient cpu. "), "{message}");
    assert_eq!(w.events().await, [format!("Pod FailedScheduling: {message}")]);
    let before = w.requests();
    w.quiet().await;
    assert_eq!(w.requests(), before, "it waits without a request");
    let mut shape = Shape { nodes: 4, ..Shape::default() };
    shape.capacity.insert("cpu".into(), Quantity("16".into()));
    w.member.reshape(shape);
    w.complete("web").await;
}

#[tokio::test(start_paused = true)]
async fn nodes_are_never_overcommitted_and_freed_resources_are_used() {
    let mut o = options();
    o.shape.nodes = 2;
    o.shape.capacity.insert("cpu".into(), Quantity("1".into()));
    let w = World::new(1, o).await;
    let mut d = web(7, "i:1");
    d["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("300m");
    w.deploy(d).await;
    w.quiet().await;
    let pods: Vec<Pod> = w.list().await;
    for node in ["m-node-1", "m-node-2"] {
        let on = pods.iter().filter(|p| p.spec.clone().unwrap().node_name.as_deref() == Some(node)).count();
        assert_eq!(on, 3, "{node}");
    }
    assert_eq!(pods.iter().filter(|p| unschedulable(p).is_some()).count(), 1);
    let victim = pods.iter().find(|p| unschedulable(p).is_none()).unwrap().name_any();
    w.pods().delete(&victim, &Default::default()).await.unwrap();
    w.quiet().await;
    let pods: Vec<Pod> = w.list().await;
    assert_eq!((pods.len(), pods.iter().filter(|p| unschedulable(p).is_some()).count()), (7, 1));
}

#[tokio::test(start_paused = true)]
async fn a_member_that_shrinks_loses_nodes_and_its_pods_move() {
    let w = World::new(1, options()).await;
    w.deploy(web(6, "i:1")).await;
    w.complete("web").await;
    w.member.reshape(Shape { nodes: 1, ..Shape::default() });
    w.quiet().await;
    let nodes = Api::<Node>::all(w.client.clone()).list(&ListParams::default()).await.unwrap().items;
    assert_eq!(nodes.iter().map(|n| n.name_any()).collect::<Vec<_>>(), ["m-node-1"]);
    w.complete("web").await;
    let pods: Vec<Pod> = w.list().await;
    assert!(pods.iter().all(|p| p.spec.clone().unwrap().node_name.as_deref() == Some("m-node-1")));
}

#[tokio::test(start_paused = true)]
async fn a_new_pod_has_its_node_immediately_and_starts_with_one_write() {
    let w = World::new(1, options()).await;
    w.quiet().await;
    let before = w.requests();
    let made = w.pods().create(&PostParams::default(), &pod("one", "c", "1")).await.unwrap();
    assert!(made.spec.as_ref().unwrap().node_name.is_some(), "it was placed at its creation");
    let scheduled = |p: &Pod| p.status.clone().unwrap().conditions.unwrap()[0].clone();
    assert_eq!((scheduled(&made).type_.as_str(), scheduled(&made).status.as_str()), ("PodScheduled", "True"));
    w.quiet().await;
    assert_eq!(w.requests(), (before.0 + 1, before.1), "one write, by its kubelet");
    let running = w.pods().get("one").await.unwrap();
    assert_eq!(running.status.as_ref().unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(scheduled(&running), scheduled(&made));
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_startup_time_runs_when_created() {
    let w = World::new(8, MemberOptions { startup_delay: Duration::ZERO, ..options() }).await;
    let made = w.pods().create(&PostParams::default(), &pod("first", "c", "100m")).await.unwrap();
    let status = made.status.clone().unwrap();
    assert_eq!((status.phase.as_deref(), status.qos_class.as_deref()), (Some("Running"), Some("Burstable")));
    let true_ones: Vec<&str> =
        status.conditions.iter().flatten().filter(|c| c.status == "True").map(|c| &*c.type_).collect();
    assert_eq!(true_ones, ["PodScheduled", "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"]);
    w.quiet().await;
    assert_eq!(w.pods().get("first").await.unwrap(), made, "no write follows");
    let mut slow = pod("second", "c", "100m");
    slow.metadata.annotations.get_or_insert_default().insert("sim.ironclad.io/startup-delay".into(), "5s".into());
    let made = w.pods().create(&PostParams::default(), &slow).await.unwrap();
    assert_eq!(made.status.unwrap().phase.as_deref(), Some("Pending"), "its own startup delay applies");
    w.quiet().await;
    let addresses: std::collections::BTreeSet<_> =
        w.list::<Pod>().await.into_iter().map(|pod| pod.status.unwrap().pod_ip).collect();
    assert_eq!(addresses.len(), 2, "each has its own");
}

#[tokio::test(start_paused = true)]
async fn the_assumed_node_of_a_rejected_pod_is_freed() {
    let mut o = options();
    o.shape.nodes = 1;
    o.shape.capacity.insert("cpu".into(), Quantity("1".into()));
    let w = World::new(1, o).await;
    w.quiet().await;
    for dry_run in [false, true] {
        let params = PostParams { dry_run, ..PostParams::default() };
        let refused = w.pods().create(&params, &pod("bad", "Not_A_Name", "1")).await.unwrap_err();
        assert!(refused.to_string().contains("spec.containers[0].name"), "{refused}");
    }
    let made = w.pods().create(&PostParams::default(), &pod("good", "c", "1")).await.unwrap();
    assert_eq!(made.spec.unwrap().node_name, None, "the resources of the rejected pod are still booked");
    w.quiet().await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    w.quiet().await;
    assert_eq!(w.pods().get("good").await.unwrap().status.unwrap().phase.as_deref(), Some("Running"));
}

fn pod(name: &str, container: &str, cpu: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": container, "image": "i:1", "resources": {"requests": {"cpu": cpu}}}]},
    }))
    .unwrap()
}
