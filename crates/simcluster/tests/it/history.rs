//! The same seed gives the same history; crashes between any two writes do not change the outcome.

use std::collections::BTreeMap;

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::world::{World, options, value, web};

async fn scenario(w: &World) {
    w.deploy(web(3, "i:1")).await;
    w.complete("web").await;
    w.patch("web", json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}})).await;
    w.complete("web").await;
    w.patch("web", json!({"spec": {"replicas": 1}})).await;
    w.complete("web").await;
    w.quiet().await;
}

async fn history(seed: u64) -> Vec<String> {
    let w = World::new(seed, options()).await;
    let mut watch = w.store.watch("", w.store.revision()).unwrap();
    scenario(&w).await;
    w.delete("web", DeleteParams::foreground()).await;
    w.quiet().await;
    let mut events = Vec::new();
    while let Ok(Some(Ok(batch))) = tokio::time::timeout(std::time::Duration::from_millis(1), watch.next()).await {
        for event in batch.events() {
            let after = event.entry.as_ref().map_or(Value::Null, |entry| value(&entry.value));
            events.push(format!("{:?} {} {after}", batch.revision(), event.key.as_str()));
        }
    }
    events
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_history() {
    let (first, second, other) = (history(7).await, history(7).await, history(8).await);
    assert!(first.len() > 50, "{} events", first.len());
    for (a, b) in first.iter().zip(&second) {
        assert_eq!(a, b);
    }
    assert_eq!(first.len(), second.len());
    assert_ne!(first, other);
}

/// Final objects, without parts that differ between runs: random names, uids, times and versions.
async fn outcome(w: &World) -> BTreeMap<String, usize> {
    let mut left = BTreeMap::new();
    for (key, object) in w.everything() {
        let mut kept = json!({});
        let drawn = object["kind"] == "Pod" || object["kind"] == "Event";
        kept["name"] = if drawn { Value::Null } else { object["metadata"]["name"].clone() };
        for path in ["/metadata/labels", "/metadata/annotations", "/spec/replicas", "/spec/containers", "/status/phase"]
        {
            kept[path] = object.pointer(path).cloned().unwrap_or_default();
        }
        for count in ["replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "observedGeneration"] {
            kept[count] = object["status"][count].clone();
        }
        if let Some(conditions) = object["status"]["conditions"].as_array() {
            let mut named: Vec<String> =
                conditions.iter().map(|c| format!("{}={} {}", c["type"], c["status"], c["reason"])).collect();
            named.sort();
            kept["conditions"] = json!(named);
        }
        let place = key.rsplit_once('/').map_or("", |(place, _)| place);
        *left.entry(format!("{place} {kept}")).or_insert(0) += 1;
    }
    left
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_write_ends_in_the_same_state() {
    let calm = World::new(7, options()).await;
    let start = calm.store.revision();
    scenario(&calm).await;
    let want = outcome(&calm).await;
    let writes = format!("{:?}", calm.store.revision());
    let mut watch = calm.store.watch("", start).unwrap();
    let mut steps = 0usize;
    while let Ok(Some(Ok(_))) = tokio::time::timeout(std::time::Duration::from_millis(1), watch.next()).await {
        steps += 1;
    }
    assert!(steps > 40, "{steps} steps, {writes}");
    for crash_after in 1..=steps {
        let w = World::new(7, options()).await;
        let mut watch = w.store.watch("", w.store.revision()).unwrap();
        let member = w.member.clone();
        let crash = w.seam.tasks.spawn("crash", async move {
            for _ in 0..crash_after {
                watch.next().await;
            }
            member.restart_inside();
        });
        scenario(&w).await;
        crash.await.unwrap();
        let got = outcome(&w).await;
        assert_eq!(got, want, "a crash after step {crash_after}");
    }
}
