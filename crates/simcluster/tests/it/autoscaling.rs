//! Autoscaling by resource usage.

use std::time::Duration;

use ironclad_simcluster::UsageRule;
use k8s_openapi::{
    api::{
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{Event, Pod},
    },
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use crate::world::{World, options, web};

fn load(w: &World, cpu: &str) {
    w.member.set_usage(vec![UsageRule { cpu: Some(Quantity(cpu.into())), ..UsageRule::default() }]);
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_follows_the_load() {
    let w = World::new(1, options()).await;
    load(&w, "50m");
    w.deploy(web(2, "i:1")).await;
    w.complete("web").await;
    let autoscalers: Api<HorizontalPodAutoscaler> = Api::namespaced(w.client.clone(), "default");
    let hpa = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "minReplicas": 1, "maxReplicas": 6, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
        },
    }));
    autoscalers.create(&PostParams::default(), &hpa.unwrap()).await.unwrap();
    let replicas = async || w.deployments().get("web").await.unwrap().spec.unwrap().replicas.unwrap();
    let conditions = async |type_: &str| {
        let status = autoscalers.get("web").await.unwrap().status.unwrap_or_default();
        let condition = status.conditions.unwrap_or_default().into_iter().find(|c| c.type_ == type_);
        condition.and_then(|c| c.reason).unwrap_or_default()
    };
    w.until("its conditions are set", || async { conditions("ScalingActive").await == "ValidMetricFound" }).await;
    w.seam.clock.sleep(Duration::from_secs(120)).await;
    assert_eq!(replicas().await, 2, "usage equals the target");
    let (writes, _) = w.requests();
    w.seam.clock.sleep(Duration::from_secs(600)).await;
    assert_eq!(w.requests().0, writes, "an unchanged state costs no write");

    // 100m each of the 100m requested: twice the target.
    load(&w, "100m");
    w.until("it grew to twice as many", || async { replicas().await == 4 }).await;
    w.complete("web").await;
    w.until("and to the most that there may be", || async { replicas().await == 6 }).await;
    w.complete("web").await;
    w.until("its condition says why it is limited", || async {
        conditions("ScalingLimited").await == "TooManyReplicas"
    })
    .await;

    load(&w, "10m");
    let began = w.seam.clock.mono();
    w.until("it shrank", || async { replicas().await < 6 }).await;
    assert!(
        w.seam.clock.mono() - began > Duration::from_secs(250),
        "scale-down waits five minutes for the stabilization window"
    );
    w.until("it is as small as it may be", || async { replicas().await == 2 || replicas().await == 1 }).await;
    let events: Vec<Event> = w.list().await;
    let texts: Vec<_> = events.iter().filter_map(|e| e.message.as_deref()).collect();
    assert!(
        texts.contains(&"New size: 4; reason: cpu resource utilization (percentage of request) above target"),
        "{texts:?}"
    );
    assert!(texts.iter().any(|t| t.ends_with("reason: All metrics below target")), "{texts:?}");

    autoscalers.delete("web", &DeleteParams::default()).await.unwrap();
    w.quiet().await;
    let before = w.requests();
    w.quiet().await;
    assert_eq!(w.requests(), before, "without an autoscaler no request is sent");
    assert!(!w.list::<Pod>().await.is_empty());
}
