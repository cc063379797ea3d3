//! Watches.

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
    runtime::watcher,
};
use serde_json::json;

use crate::support::{World, config_map};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn changes_after_a_revision_are_sent_in_order() {
    let world = World::new().await;
    let made = world.post(MAPS, config_map("a", json!({}))).await.expect(201);
    let from = made.at("/metadata/resourceVersion").as_str().unwrap().to_owned();
    let mut events =
        world.watch(&format!("{MAPS}?watch=1&resourceVersion={from}&timeoutSeconds=5"), "application/json").await;
    world.patch(&format!("{MAPS}/a"), "merge-patch+json", json!({"data": {"x": "y"}})).await.expect(200);
    world.post(MAPS, config_map("b", json!({}))).await.expect(201);
    world.delete(&format!("{MAPS}/a")).await.expect(200);
    let changed = events.next().await.unwrap();
    assert_eq!((&changed["type"], &changed["object"]["data"]), (&json!("MODIFIED"), &json!({"x": "y"})));
    assert_eq!(events.brief().await, "ADDED b");
    let deleted = events.next().await.unwrap();
    assert_eq!(deleted["type"], "DELETED");
    let revision =
        |v: &serde_json::Value| v["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(revision(&deleted), revision(&changed) + 2);
    assert_eq!(events.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn selector_turns_changes_into_added_and_deleted() {
    let world = World::new().await;
    let mut events =
        world.watch(&format!("{MAPS}?watch=1&labelSelector=s%3D1&timeoutSeconds=5"), "application/json").await;
    let mut map = config_map("a", json!({}));
    map["metadata"]["labels"] = json!({"s": "1"});
    world.post(MAPS, map).await.expect(201);
    for value in ["2", "1"] {
        world
            .patch(&format!("{MAPS}/a"), "merge-patch+json", json!({"metadata": {"labels": {"s": value}}}))
            .await
            .expect(200);
    }
    world.delete(&format!("{MAPS}/a")).await.expect(200);
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        assert_eq!(event["object"]["metadata"]["labels"]["s"], "1", "the state that still matched");
        seen.push(event["type"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen, ["ADDED", "DELETED", "ADDED", "DELETED"]);
}

#[tokio::test(start_paused = true)]
async fn streaming_list_ends_initial_events_with_a_bookmark() {
    let world = World::new().await;
    world.post(MAPS, config_map("a", json!({}))).await.expect(201);
    let query =
        "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=100";
    let mut events = world.watch(&format!("{MAPS}?{query}"), "application/json").await;
    assert_eq!(events.brief().await, "ADDED a");
    let marker = events.next().await.unwrap();
    assert_eq!(marker["type"], "BOOKMARK");
    assert_eq!(marker["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    // A write elsewhere moves the bookmarks, each minute and shortly before the end.
    world.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await.expect(201);
    let start = world.seam.clock.mono();
    let first = events.next().await.unwrap();
    assert_eq!(
        (&first["type"], world.seam.clock.mono() - start),
        (&json!("BOOKMARK"), std::time::Duration::from_secs(60))
    );
    assert!(first["object"]["metadata"]["annotations"].is_null());
    assert_ne!(first["object"]["metadata"]["resourceVersion"], marker["object"]["metadata"]["resourceVersion"]);
    events.next().await.unwrap();
    assert_eq!(world.seam.clock.mono() - start, std::time::Duration::from_secs(98));
    assert_eq!(events.next().await, None);
    assert_eq!(world.seam.clock.mono() - start, std::time::Duration::from_secs(100));
}

#[tokio::test(start_paused = true)]
async fn a_compacted_revision_is_expired() {
    let world = World::new().await;
    for i in 0..5 {
        world.post(MAPS, config_map(&format!("m{i}"), json!({}))).await.expect(201);
    }
    world.server.store().compact(world.server.store().revision());
    let mut events = world.watch(&format!("{MAPS}?watch=1&resourceVersion=2"), "application/json").await;
    let error = events.next().await.unwrap();
    assert_eq!(
        (&error["type"], &error["object"]["code"], &error["object"]["reason"]),
        (&json!("ERROR"), &json!(410), &json!("Expired"))
    );
    assert_eq!(events.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn killed_server_ends_its_watches() {
    let world = World::new().await;
    let mut events = world.watch(&format!("{MAPS}?watch=1"), "application/json").await;
    world.seam.tasks.kill();
    let reader = ironclad_seam::Tasks::new("reader");
    let cut = reader.spawn("reader", async move { events.next().await }).await;
    assert!(cut.is_err(), "the body ends with an error, not cleanly");
    let maps: Api<ConfigMap> = Api::default_namespaced(world.client());
    assert!(matches!(maps.get("a").await, Err(kube::Error::Service(_))));
}

#[tokio::test(start_paused = true)]
async fn kubes_watcher_follows_in_both_modes() {
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let world = World::new().await;
        let maps: Api<ConfigMap> = Api::default_namespaced(world.client());
        let map = |name: &str| serde_json::from_value(config_map(name, json!({}))).unwrap();
        maps.create(&PostParams::default(), &map("a")).await.unwrap();
        let mut stream = Box::pin(watcher(maps.clone(), config));
        let mut seen = Vec::new();
        while seen.len() < 3 {
            seen.push(stream.next().await.unwrap().unwrap().to_string());
        }
        maps.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"x": "y"}}))).await.unwrap();
        maps.delete("a", &Default::default()).await.unwrap();
        while seen.len() < 5 {
            seen.push(stream.next().await.unwrap().unwrap().to_string());
        }
        assert_eq!(seen, ["Init", "InitApply(a)", "InitDone", "Apply(a)", "Delete(a)"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_may_ask_for_any_time() {
    let world = World::new().await;
    world.post(MAPS, config_map("a", json!({}))).await.expect(201);
    for seconds in [1, i64::from(u32::MAX), 9_223_372_036, i64::MAX] {
        let mut watch = world.watch(&format!("{MAPS}?watch=1&timeoutSeconds={seconds}"), "application/json").await;
        assert_eq!(watch.brief().await, "ADDED a", "{seconds}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_decoded_once_however_many_watches_select() {
    let world = World::new().await;
    let mut decoded = Vec::new();
    for watches in [1, 40] {
        let mut open = Vec::new();
        for i in 0..watches {
            let selector = match i % 3 {
                0 => format!("labelSelector=s%3D{i}"),
                1 => format!("labelSelector=s&fieldSelector=metadata.name%21%3Dm{i}"),
                _ => "fieldSelector=metadata.namespace%3Ddefault".to_owned(),
            };
            open.push(world.watch(&format!("{MAPS}?watch=1&{selector}&timeoutSeconds=5"), "application/json").await);
        }
        let before = world.server.decoded_for_watches();
        for step in ["create", "update", "delete"] {
            let path = format!("{MAPS}/a");
            match step {
                "create" => {
                    let mut map = config_map("a", json!({}));
                    map["metadata"]["labels"] = json!({"s": "0"});
                    world.post(MAPS, map).await.expect(201);
                }
                "update" => drop(world.patch(&path, "merge-patch+json", json!({"data": {"x": "y"}})).await.expect(200)),
                _ => drop(world.delete(&path).await.expect(200)),
            }
        }
        for (i, events) in open.iter_mut().enumerate() {
            let mut seen = Vec::new();
            while let Some(event) = events.next().await {
                seen.push(event["type"].as_str().unwrap().to_owned());
            }
            let want: &[&str] = if i % 3 == 0 && i > 0 { &[] } else { &["ADDED", "MODIFIED", "DELETED"] };
            assert_eq!(seen, want, "watch {i} of {watches}");
        }
        decoded.push(world.server.decoded_for_watches() - before);
    }
    assert_eq!(decoded, [4, 4], "one for each state of the three events");
}
