//! Connections to a member go through the forward proxy that its Cluster names.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, ensure};
use ironclad_api::cluster::Cluster;
use ironclad_apiserver::{Identity, Options, Server, Token, pki};
use ironclad_cli::members;
use ironclad_members::client;
use ironclad_runtime::{Traffic, in_process_client};
use ironclad_seam::Seam;
use ironclad_store::{Commit, Engine, MemoryBackend};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Client, api::ObjectMeta};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
};

const TOKEN: &str = "s3cret";

/// A forward proxy that knows one server, and the heads of the requests to it.
struct Proxy {
    address: String,
    heads: Arc<Mutex<Vec<String>>>,
}

async fn proxy(seam: &Seam, server: String) -> anyhow::Result<Proxy> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let (seen, tasks) = (heads.clone(), seam.tasks.clone());
    seam.tasks.spawn("proxy", async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (seen, server) = (seen.clone(), server.clone());
            tasks.spawn("tunnel", async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = client.read_u8().await else { return };
                    head.push(byte);
                }
                seen.lock().push(String::from_utf8_lossy(&head).into_owned());
                let Ok(mut behind) = TcpStream::connect(server).await else { return };
                if client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_ok() {
                    let _ = copy_bidirectional(&mut client, &mut behind).await;
                }
            });
        }
    });
    Ok(Proxy { address, heads })
}

#[tokio::test(flavor = "multi_thread")]
async fn controllers_and_commands_reach_a_member_through_its_proxy() -> anyhow::Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let dir = tempfile::tempdir()?;
    let seam = Seam::system("proxied");
    let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Thread, seam.clock.clone())?;
    let keys = pki::Pki::load_or_create(&dir.path().join("pki"), &seam, "member")?;
    let token = Token { token: TOKEN.into(), identity: Identity::admin("control-plane") };
    let options = Options { tokens: vec![token], ..Options::default() };
    let member = Server::open(options, engine.store("member"), seam.clone()).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let behind = listener.local_addr()?.to_string();
    let (serving, tls) = (member.clone(), keys.server_config()?);
    seam.tasks.spawn("serve", async move { drop(serving.serve(listener, tls).await) });
    let proxy = proxy(&seam, behind).await?;

    // Nothing listens there: only the proxy knows where the member is.
    let cluster: Cluster = serde_json::from_value(json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"},
        "spec": {
            "syncMode": "Push", "apiEndpoint": "https://localhost:1",
            "secretRef": {"namespace": "karmada-cluster", "name": "m1"},
            "proxyURL": format!("http://me:pass@{}", proxy.address), "proxyHeader": {"X-Tenant": "a,b"},
        },
    }))?;
    let data = [("token", TOKEN.as_bytes().to_vec()), ("caBundle", keys.ca().as_bytes().to_vec())];
    let data: BTreeMap<String, ByteString> =
        data.into_iter().map(|(key, value)| (key.to_owned(), ByteString(value))).collect();
    let metadata = ObjectMeta { name: Some("m1".into()), ..ObjectMeta::default() };
    let secret = Secret { metadata, data: Some(data), ..Secret::default() };

    let plane = Server::open(Options::default(), engine.store("plane"), seam.child("plane")).await?;
    let plane = in_process_client(plane.in_process(Identity::admin("user")), Arc::new(Traffic::default()));
    let namespace = serde_json::from_value(json!({"metadata": {"name": "karmada-cluster"}}))?;
    kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(plane.clone())
        .create(&Default::default(), &namespace)
        .await?;
    kube::Api::namespaced(plane.clone(), "karmada-cluster").create(&Default::default(), &secret).await?;

    let by_controllers = client(&cluster, Some(&secret), Arc::new(Traffic::default()));
    let by_commands =
        members::connect(&plane, None, members::Way::default(), &[cluster]).await.pop().context("one member")?.client();
    for (who, client) in [("controllers", by_controllers), ("commands", by_commands)] {
        let client: Client = client.map_err(|error| anyhow::anyhow!("{who}: {error}"))?;
        proxy.heads.lock().clear();
        client.apiserver_version().await.with_context(|| who.to_owned())?;
        let heads = proxy.heads.lock().clone();
        ensure!(heads.len() == 1, "{who}: {heads:?}");
        for part in ["CONNECT localhost:1 ", "\r\nProxy-Authorization: Basic bWU6cGFzcw==\r\n", "\r\nx-tenant: b\r\n"] {
            ensure!(heads[0].contains(part), "{who}: {part:?} is missing in {heads:?}");
        }
        ensure!(!heads[0].contains(TOKEN), "{who}: the proxy is told the token: {heads:?}");
    }
    seam.tasks.kill();
    Ok(())
}
