//! Bootstrap tokens of a control plane: they sign ConfigMap `cluster-info`, and end at their expiration.

use std::time::Duration;

use ironclad_apiserver::{Identity, Options, Server};
use ironclad_kubecontrollers::{Cluster, Controller};
use ironclad_runtime::in_process_client;
use ironclad_seam::{Clock, Rng, Seam, Tasks};
use ironclad_store::{Commit, Engine, MemoryBackend};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

fn secret(id: &str, expiration: Option<&str>) -> Secret {
    let mut data = json!({"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true"});
    if let Some(expiration) = expiration {
        data["expiration"] = json!(expiration);
    }
    let name = format!("bootstrap-token-{id}");
    let type_ = "bootstrap.kubernetes.io/token";
    serde_json::from_value(json!({"metadata": {"name": name}, "type": type_, "stringData": data})).unwrap()
}

#[tokio::test(start_paused = true)]
async fn tokens_sign_cluster_info_until_they_expire() {
    let clock = Clock::simulated(Timestamp::from_second(1_700_000_000).unwrap());
    let seam = Seam { clock: clock.clone(), rng: Rng::from_seed(5), tasks: Tasks::new("tokens") };
    let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, clock).unwrap();
    let store = engine.store("plane");
    let server = Server::open(Options::default(), store.clone(), seam.child("server")).await.unwrap();
    let client = in_process_client(server.in_process(Identity::admin("c")), Default::default());
    let cluster = Cluster::new(client, seam.child("controllers"));
    let controllers = vec![Controller::BootstrapSigner, Controller::TokenCleaner];
    let options = ironclad_kubecontrollers::Options { controllers, ..ironclad_kubecontrollers::Options::default() };
    ironclad_kubecontrollers::start(&cluster, &options);
    cluster.start_caches();

    let admin = kube::Client::new(server.in_process(Identity::admin("user")), "default");
    let secrets: Api<Secret> = Api::namespaced(admin.clone(), "kube-system");
    let infos: Api<ConfigMap> = Api::namespaced(admin, "kube-public");
    let signed = async || {
        let data = infos.get("cluster-info").await.unwrap().data.unwrap_or_default();
        data.into_keys().filter_map(|key| key.strip_prefix("jws-kubeconfig-").map(str::to_owned)).collect::<Vec<_>>()
    };
    // In 100 seconds; never.
    for secret in [secret("aaaaaa", Some("2023-11-14T22:15:00Z")), secret("bbbbbb", None)] {
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }
    let info = json!({"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": "one"}});
    infos.create(&PostParams::default(), &serde_json::from_value(info).unwrap()).await.unwrap();
    seam.clock.sleep(Duration::from_secs(10)).await;
    assert_eq!(signed().await, ["aaaaaa", "bbbbbb"]);
    let before = infos.get("cluster-info").await.unwrap();

    let settled = store.revision();
    seam.clock.sleep(Duration::from_secs(80)).await;
    assert_eq!(store.revision(), settled, "nothing changed, nothing is written");
    secrets.get("bootstrap-token-aaaaaa").await.unwrap();
    let patch = |kubeconfig: &str| -> Patch<Value> { Patch::Merge(json!({"data": {"kubeconfig": kubeconfig}})) };
    infos.patch("cluster-info", &PatchParams::default(), &patch("two")).await.unwrap();
    seam.clock.sleep(Duration::from_secs(5)).await;
    let after = infos.get("cluster-info").await.unwrap();
    let key = "jws-kubeconfig-bbbbbb";
    assert_ne!(before.data.unwrap()[key], after.data.unwrap()[key], "another text has another signature");

    seam.clock.sleep(Duration::from_secs(6)).await;
    assert!(secrets.get_opt("bootstrap-token-aaaaaa").await.unwrap().is_none(), "it is deleted at its end");
    secrets.get("bootstrap-token-bbbbbb").await.unwrap();
    assert_eq!(signed().await, ["bbbbbb"]);
    seam.tasks.kill();
}
