//! Members that are down, partitioned, slow or flapping, as the control plane sees them.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use ironclad_apiserver::Identity;
use ironclad_runtime::in_process_client;
use ironclad_simcluster::{Faults, Flap};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, Client, api::PostParams, api::WatchParams};
use serde_json::json;

use crate::world::{World, options, web};

fn plane(w: &World) -> Client {
    in_process_client(w.member.faulted_service(Identity::admin("plane")), Default::default())
}

async fn reaches(client: &Client) -> Result<(), String> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    match maps.get_opt("x").await {
        Ok(_) => Ok(()),
        Err(error) => {
            let mut text = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                text = format!("{text}: {cause}");
                source = cause.source();
            }
            Err(text)
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_down_refuses_connections_and_stops() {
    let w = World::new(1, options()).await;
    let client = plane(&w);
    assert_eq!(reaches(&client).await, Ok(()));
    w.member.set_faults(Faults { down: true, ..Faults::default() });
    let error = reaches(&client).await.unwrap_err();
    assert!(error.contains("connection refused"), "{error}");
    w.deploy(web(1, "i:1")).await;
    let revision = w.store.revision();
    w.seam.clock.sleep(Duration::from_secs(600)).await;
    assert_eq!(w.store.revision(), revision, "nothing moves");
    w.member.set_faults(Faults::default());
    w.complete("web").await;
    assert_eq!(reaches(&client).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_partition_is_silent_while_the_member_keeps_running() {
    let w = World::new(1, options()).await;
    let client = plane(&w);
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let mut stream = pods.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    w.member.set_faults(Faults { partition: true, ..Faults::default() });
    let clock = w.seam.clock.clone();
    let start = clock.mono();
    assert!(reaches(&client).await.is_err());
    assert_eq!(clock.mono() - start, Duration::from_secs(32), "the client's own timeout ends it");
    w.deploy(web(1, "i:1")).await;
    w.complete("web").await;
    assert!(tokio::time::timeout(Duration::from_secs(60), stream.next()).await.is_err(), "no event gets through");
    w.member.set_faults(Faults::default());
    assert!(stream.try_next().await.is_err(), "the watch is known to be broken");
    assert_eq!(reaches(&client).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_response_lost_in_a_partition_may_have_been_a_write() {
    let w = World::new(1, options()).await;
    let client = plane(&w);
    w.member.set_faults(Faults { slow: Some(Duration::from_secs(5)), ..Faults::default() });
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "x"}})).unwrap();
    let post = PostParams::default();
    let create = maps.create(&post, &map);
    let cut = async {
        w.seam.clock.sleep(Duration::from_secs(1)).await;
        w.member.set_faults(Faults { down: true, ..Faults::default() });
    };
    let (created, ()) = tokio::join!(create, cut);
    assert!(created.is_err());
    let admin: Api<ConfigMap> = Api::namespaced(w.client.clone(), "default");
    assert!(admin.get_opt("x").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_slow_member_delays_responses_and_bounds_streams() {
    let w = World::new(1, options()).await;
    let client = plane(&w);
    w.member.set_faults(Faults { slow: Some(Duration::from_millis(700)), ..Faults::default() });
    let (clock, start) = (w.seam.clock.clone(), w.seam.clock.mono());
    assert_eq!(reaches(&client).await, Ok(()));
    let took = clock.mono() - start;
    assert!(took >= Duration::from_millis(700) && took < Duration::from_millis(1_500), "{took:?}");
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let admin: Api<ConfigMap> = Api::namespaced(w.client.clone(), "default");
    let version = admin.list(&Default::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut stream = maps.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    for i in 0..50 {
        let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": format!("m{i}")}})).unwrap();
        admin.create(&PostParams::default(), &map).await.unwrap();
    }
    let start = clock.mono();
    for _ in 0..50 {
        stream.try_next().await.unwrap().unwrap();
    }
    let took = clock.mono() - start;
    assert!(took <= Duration::from_millis(800), "50 events take {took:?}, not 50 times the latency");
}

#[tokio::test(start_paused = true)]
async fn a_flapping_member_alternates() {
    let w = World::new(1, options()).await;
    let client = plane(&w);
    let flap = Flap { up: Duration::from_secs(10), down: Duration::from_secs(5) };
    w.member.set_faults(Faults { flap: Some(flap), ..Faults::default() });
    let clock = w.seam.clock.clone();
    let mut seen = String::new();
    for _ in 0..30 {
        seen.push(if reaches(&client).await.is_ok() { 'u' } else { 'd' });
        clock.sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(seen, "uuuuuuuuuuddddduuuuuuuuuuddddd");
    w.member.set_faults(Faults::default());
    w.deploy(web(1, "i:1")).await;
    w.complete("web").await;
}
