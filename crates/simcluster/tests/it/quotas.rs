//! ResourceQuotas of a member: the server charges, the controller counts.

use std::collections::BTreeMap;

use futures::future::join_all;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Pod, ResourceQuota},
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::world::{World, options, web};

impl World {
    fn quotas(&self) -> Api<ResourceQuota> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn limit(&self, spec: Value) {
        let quota = serde_json::from_value(json!({"metadata": {"name": "q"}, "spec": spec})).unwrap();
        self.quotas().create(&PostParams::default(), &quota).await.unwrap();
    }

    async fn used(&self) -> BTreeMap<String, String> {
        let status = self.quotas().get("q").await.unwrap().status.unwrap_or_default();
        status.used.unwrap_or_default().into_iter().map(|(name, amount)| (name, amount.0)).collect()
    }

    async fn until_used(&self, want: &[(&str, &str)]) {
        let want: BTreeMap<String, String> = want.iter().map(|(n, a)| ((*n).to_owned(), (*a).to_owned())).collect();
        self.until(&format!("{want:?} used"), || async { self.used().await == want }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn workload_gets_the_pods_that_its_quota_allows() {
    let w = World::new(1, options()).await;
    w.limit(json!({"hard": {"pods": "2", "requests.cpu": "1"}})).await;
    w.until_used(&[("pods", "0"), ("requests.cpu", "0")]).await;
    w.deploy(web(3, "i:1")).await;
    w.until_used(&[("pods", "2"), ("requests.cpu", "200m")]).await;
    w.until("the failure is in the status", || async {
        let status = w.deployments().get("web").await.unwrap().status.unwrap_or_default();
        let failure = status.conditions.into_iter().flatten().find(|c| c.type_ == "ReplicaFailure");
        failure.is_some_and(|c| {
            let message = c.message.unwrap_or_default();
            c.status == "True"
                && message.contains("exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2")
        })
    })
    .await;
    assert_eq!(w.list::<Pod>().await.len(), 2);
    let events = w.events().await;
    let told = |event: &String| event.starts_with("ReplicaSet FailedCreate: Error creating: pods \"web-");
    assert!(events.iter().any(told), "{events:?}");
    let more = Patch::Merge(json!({"spec": {"hard": {"pods": "3"}}}));
    w.quotas().patch("q", &PatchParams::default(), &more).await.unwrap();
    w.complete("web").await;
    w.until_used(&[("pods", "3"), ("requests.cpu", "300m")]).await;
    w.delete("web", DeleteParams::background()).await;
    w.until_used(&[("pods", "0"), ("requests.cpu", "0")]).await;
}

#[tokio::test(start_paused = true)]
async fn pod_that_ended_counts_as_an_object_only() {
    let w = World::new(1, options()).await;
    w.limit(json!({"hard": {"pods": "2", "count/pods": "2", "limits.memory": "1Gi"}})).await;
    w.until_used(&[("count/pods", "0"), ("limits.memory", "0"), ("pods", "0")]).await;
    let pod: Pod =
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"restartPolicy": "Never", "containers": [
        {"name": "c", "image": "i", "resources": {"limits": {"memory": "64Mi"}}}]}}))
        .unwrap();
    w.pods().create(&PostParams::default(), &pod).await.unwrap();
    assert_eq!(w.used().await["limits.memory"], "64Mi", "charged at once");
    w.until_used(&[("count/pods", "1"), ("limits.memory", "0"), ("pods", "0")]).await;
}

#[tokio::test(start_paused = true)]
async fn objects_of_any_kind_are_counted_and_freed() {
    let w = World::new(1, options()).await;
    w.deploy(web(1, "i:1")).await;
    w.limit(json!({"hard": {"count/deployments.apps": "1", "count/widgets.example.com": "1"}})).await;
    // Of a kind that the server does not have, nothing is reported.
    w.until_used(&[("count/deployments.apps", "1")]).await;
    let mut other = web(0, "i:1");
    other["metadata"]["name"] = json!("other");
    let other: Deployment = serde_json::from_value(other).unwrap();
    let refused = w.deployments().create(&PostParams::default(), &other).await.unwrap_err().to_string();
    assert!(refused.contains("exceeded quota: q, requested: count/deployments.apps=1"), "{refused}");
    w.delete("web", DeleteParams::background()).await;
    w.until_used(&[("count/deployments.apps", "0")]).await;
    w.deployments().create(&PostParams::default(), &other).await.unwrap();
    assert_eq!(w.used().await["count/deployments.apps"], "1");
}

#[tokio::test(start_paused = true)]
async fn nothing_that_races_with_a_new_quota_stays_uncounted() {
    let w = World::new(1, options()).await;
    let maps: Api<ConfigMap> = Api::namespaced(w.client.clone(), "default");
    let params = PostParams::default();
    let create = |i: usize| {
        let (maps, params) = (&maps, &params);
        async move {
            let map = serde_json::from_value(json!({"metadata": {"name": format!("m{i}")}})).unwrap();
            maps.create(params, &map).await.is_ok()
        }
    };
    let before = join_all((0..10).map(create));
    let quota = w.limit(json!({"hard": {"configmaps": "500"}}));
    let after = async {
        let mut created = Vec::new();
        for i in 10..60 {
            created.push(create(i).await);
        }
        created
    };
    let (before, (), after) = tokio::join!(before, quota, after);
    assert!(before.into_iter().chain(after).all(|created| created));
    w.quiet().await;
    let count = w.list::<ConfigMap>().await.len().to_string();
    assert_eq!(w.used().await["configmaps"], count);
    let deleted = join_all((0..30).map(|i| {
        let maps = &maps;
        async move { maps.delete(&format!("m{i}"), &DeleteParams::default()).await.is_ok() }
    }));
    assert!(deleted.await.into_iter().all(|deleted| deleted));
    w.quiet().await;
    let count = w.list::<ConfigMap>().await.len().to_string();
    assert_eq!(w.used().await["configmaps"], count);
}

#[tokio::test(start_paused = true)]
async fn settled_member_with_a_quota_writes_nothing() {
    let w = World::new(1, options()).await;
    w.limit(json!({"hard": {"pods": "5", "secrets": "5"}})).await;
    w.deploy(web(2, "i:1")).await;
    w.complete("web").await;
    w.quiet().await;
    let (writes, _) = w.requests();
    w.seam.clock.sleep(std::time::Duration::from_secs(3_600)).await;
    assert_eq!(w.requests().0, writes, "an hour of counts finds nothing to write");
}
