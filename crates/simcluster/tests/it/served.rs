//! Resources of a member that are not stored: metrics and logs.

use http::Request;
use ironclad_simcluster::UsageRule;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::api::resource::Quantity};
use kube::{Api, ResourceExt as _, api::LogParams, discovery::Discovery};
use serde_json::Value;

use crate::world::{World, options, web};

async fn get(w: &World, path: &str) -> Result<Value, kube::Error> {
    w.client.request(Request::get(path).body(Vec::new()).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn the_metrics_api_reports_the_configured_usage() {
    let w = World::new(1, options()).await;
    w.deploy(web(2, "i:1")).await;
    w.complete("web").await;
    let pods = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods";
    let idle = get(&w, pods).await.unwrap();
    assert_eq!(idle["kind"], "PodMetricsList");
    assert_eq!(idle["items"].as_array().unwrap().len(), 2);
    assert_eq!(idle["items"][0]["containers"][0]["usage"]["cpu"], "1m");

    w.member.set_usage(vec![UsageRule {
        namespace: "default".into(),
        cpu: Some(Quantity("800m".into())),
        memory: Some(Quantity("1Gi".into())),
        ..UsageRule::default()
    }]);
    let name = w.list::<Pod>().await[0].name_any();
    let one = get(&w, &format!("{pods}/{name}")).await.unwrap();
    assert_eq!((&one["kind"], &one["window"]), (&Value::from("PodMetrics"), &Value::from("15s")));
    assert_eq!(one["containers"][0]["usage"]["memory"], "1048576Ki");
    for (selector, want) in [("app%3Dweb", 2), ("app%3Ddb", 0), ("app%20in%20(web,db)", 2)] {
        let found = get(&w, &format!("{pods}?labelSelector={selector}")).await.unwrap();
        assert_eq!(found["items"].as_array().unwrap().len(), want, "{selector}");
    }
    let nodes = get(&w, "/apis/metrics.k8s.io/v1beta1/nodes").await.unwrap();
    let used: Vec<_> = nodes["items"].as_array().unwrap().iter().map(|n| n["usage"]["cpu"].clone()).collect();
    assert_eq!(used, ["800m", "800m", "0m"], "two pods on three nodes");

    let missing = get(&w, &format!("{pods}/nobody")).await.unwrap_err();
    assert!(missing.to_string().contains("pods.metrics.k8s.io \"default/nobody\" not found"), "{missing}");
    let discovery = Discovery::new(w.client.clone()).run_aggregated().await.unwrap();
    let group = discovery.get("metrics.k8s.io").unwrap();
    let kinds: Vec<_> = group.versioned_resources("v1beta1").into_iter().map(|(r, _)| r.kind).collect();
    assert_eq!(kinds, ["NodeMetrics", "PodMetrics"]);
}

#[tokio::test(start_paused = true)]
async fn the_log_of_a_pod_describes_its_container() {
    let w = World::new(1, options()).await;
    w.deploy(web(1, "registry.example/web:2")).await;
    w.complete("web").await;
    let pods: Api<Pod> = w.pods();
    let name = w.list::<Pod>().await[0].name_any();
    let log = pods.logs(&name, &LogParams::default()).await.unwrap();
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines, ["c: simulated container of image registry.example/web:2 started on node m-node-1", "c: ready"]);
    let last = pods.logs(&name, &LogParams { tail_lines: Some(1), ..LogParams::default() }).await.unwrap();
    assert_eq!(last, "c: ready\n");
    let wrong = LogParams { container: Some("x".into()), ..LogParams::default() };
    assert!(pods.logs(&name, &wrong).await.unwrap_err().to_string().contains("container x is not valid for pod"));
}
