//! A member over TLS, on real sockets and in real time; and a member that is opened again.

use std::{net::TcpListener, time::Duration};

use futures::StreamExt as _;
use ironclad_apiserver::pki::{self, Pki};
use ironclad_runtime::{client_from_kubeconfig, kubeconfig_client_config};
use ironclad_seam::Seam;
use ironclad_simcluster::{Faults, Member};
use ironclad_store::{Commit, Engine, MemoryBackend};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client,
    api::{ListParams, WatchParams},
};

use crate::world::{World, options, web};

/// Deadline for steps of real processes.
const PATIENCE: Duration = Duration::from_secs(30);

async fn client(folder: &std::path::Path, pki: &Pki, port: u16) -> Client {
    let file = folder.join("kubeconfig");
    let text = pki::kubeconfig(&[pki.admin_context("m", &format!("https://127.0.0.1:{port}"))]);
    std::fs::write(&file, text).unwrap();
    let config = kubeconfig_client_config(&file, None).await.unwrap();
    client_from_kubeconfig(config, Default::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn users_reach_a_member_over_tls_unless_it_is_down() {
    let folder = tempfile::tempdir().unwrap();
    let seam = Seam::system("m");
    let pki = Pki::load_or_create(folder.path(), &seam, "m").unwrap();
    let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Thread, seam.clock.clone()).unwrap();
    let member = Member::start(options(), engine.store("m"), seam.clone()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    member.serve(listener, pki.server_config().unwrap()).unwrap();
    member.ready().await;
    let client = client(folder.path(), &pki, port).await;
    let nodes: Api<Node> = Api::all(client.clone());
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 3);
    let pods: Api<Pod> = Api::all(client);
    let mut stream = pods.watch(&WatchParams::default(), "0").await.unwrap().boxed();

    member.set_faults(Faults { down: true, ..Faults::default() });
    let ends = async { while let Some(Ok(_)) = stream.next().await {} };
    tokio::time::timeout(PATIENCE, ends).await.expect("the watch is cut");

    member.set_faults(Faults::default());
    let back = async { while nodes.list(&ListParams::default()).await.is_err() {} };
    tokio::time::timeout(PATIENCE, back).await.expect("it serves again on the same port");
    seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn a_reopened_member_continues_with_its_state() {
    let w = World::new(1, options()).await;
    w.deploy(web(2, "i:1")).await;
    w.complete("web").await;
    w.quiet().await;
    w.seam.tasks.kill();
    let revision = w.store.revision();
    let seam = Seam { tasks: ironclad_seam::Tasks::new("again"), ..w.seam.clone() };
    let again = Member::start(options(), w.store.clone(), seam.clone()).await.unwrap();
    again.ready().await;
    seam.clock.sleep(Duration::from_secs(600)).await;
    assert_eq!(w.store.revision(), revision, "nothing changed, so nothing is written");
    let w = World { client: again.client(), member: again, store: w.store, seam };
    w.patch("web", serde_json::json!({"spec": {"replicas": 3}})).await;
    w.complete("web").await;
}
