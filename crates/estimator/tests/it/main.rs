//! The server and the client of the protocol, over TLS on a socket, for a simulated member.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use ironclad_api::work::{Component, ReplicaRequirements};
use ironclad_apiserver::pki::{Pki, authority, serving};
use ironclad_estimator::{
    Call, CallMetrics, Client, ClientTls, Estimator as _, Member, Needs, Serve, ServerTls, Service, Workload, serve,
};
use ironclad_runtime::{Caches, Scope};
use ironclad_seam::Seam;
use ironclad_simcluster::{MemberOptions, Shape};
use ironclad_store::{Commit, Engine, MemoryBackend, Options as StoreOptions};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::PostParams};
use serde_json::json;
use tokio::{net::TcpListener, time::timeout};

/// Time after which a test that waits for something fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A member with two nodes of eight cores, its estimator, and how clients reach it.
struct Setting {
    seam: Seam,
    member: ironclad_simcluster::Member,
    cached: Arc<Member>,
    address: String,
    tls: ClientTls,
    _dir: tempfile::TempDir,
}

async fn setting() -> anyhow::Result<Setting> {
    let seam = Seam::system("test");
    let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, seam.clock.clone())?;
    let options = MemberOptions {
        name: "m1".to_owned(),
        shape: Shape { nodes: 2, ..Shape::default() },
        ..MemberOptions::default()
    };
    let store = engine.store_with("m1", StoreOptions::member());
    let member = ironclad_simcluster::Member::start(options, store, seam.child("m1")).await?;
    let caches = Caches::new(Scope::All, &seam);
    let cached = Member::new(Needs { capacity: true, quotas: true, unschedulable: true }, &caches);
    caches.start(&member.client());
    let filled = async {
        cached.synced().await;
        while cached.nodes().len() < 2 {
            seam.clock.sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, filled).await.context("both nodes are in the caches")?;

    let dir = tempfile::tempdir()?;
    let clients = Pki::load_or_create(dir.path(), &seam, "clients")?;
    let servers = authority("servers", 1, &seam).map_err(anyhow::Error::msg)?;
    let server = serving(&servers, "estimator", &["127.0.0.1".to_owned()], 1, &seam).map_err(anyhow::Error::msg)?;
    let client = clients.client(&seam, "scheduler", "")?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let tls = ServerTls {
        certificate: server.certificate.clone().into_bytes(),
        key: server.key.clone().into_bytes(),
        client_ca: Some(clients.ca().as_bytes().to_vec()),
    };
    let service = Service::new("m1", cached.clone(), seam.clock.clone(), CallMetrics::default());
    let (clock, tasks) = (seam.clock.clone(), seam.tasks.clone());
    seam.tasks.spawn("server", async move {
        let _ = serve(Serve { listener, tls: Some(tls), service }, &clock, &tasks).await;
    });
    let tls = ClientTls {
        ca: Some(servers.certificate.clone().into_bytes()),
        identity: Some((client.certificate.clone().into_bytes(), client.key.clone().into_bytes())),
        skip_verify: false,
    };
    Ok(Setting { seam, member, cached, address, tls, _dir: dir })
}

impl Setting {
    fn client(&self, cluster: &str, tls: ClientTls) -> Client {
        Client::new(cluster, vec![self.address.clone()], tls, &self.seam.clock, &self.seam.tasks)
    }

    async fn connected(&self, cluster: &str, tls: ClientTls) -> anyhow::Result<Client> {
        let client = self.client(cluster, tls);
        self.until("a connection", || client.is_connected()).await?;
        Ok(client)
    }

    async fn until(&self, what: &str, done: impl Fn() -> bool) -> anyhow::Result<()> {
        let waiting = async {
            while !done() {
                self.seam.clock.sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, waiting).await.with_context(|| format!("waiting for {what}"))
    }
}

fn web() -> Workload {
    Workload {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: "default".to_owned(),
        name: "web".to_owned(),
    }
}

fn cores(cpu: &str) -> anyhow::Result<Call> {
    let needs: ReplicaRequirements =
        serde_json::from_value(json!({"namespace": "default", "resourceRequest": {"cpu": cpu}}))?;
    Ok(Call::Replicas(needs))
}

fn component(replicas: i32, cpu: &str) -> anyhow::Result<Component> {
    let needs = json!({"resourceRequest": {"cpu": cpu}});
    Ok(serde_json::from_value(json!({"name": "c", "replicas": replicas, "replicaRequirements": needs}))?)
}

#[tokio::test]
async fn server_answers_the_client_over_mutual_tls() -> anyhow::Result<()> {
    let setting = setting().await?;
    let client = setting.connected("m1", setting.tls.clone()).await?;
    let ask = async |call: &Call, assumed: &[(String, Vec<Component>)]| client.call(&web(), call, assumed).await;
    assert_eq!(ask(&cores("3")?, &[]).await, Ok(4), "two on each of two nodes of eight cores");
    let assumed = vec![("default".to_owned(), vec![component(1, "6")?])];
    assert_eq!(ask(&cores("3")?, &assumed).await, Ok(2), "beside an assumed workload");
    assert_eq!(ask(&cores("3")?, &[]).await, Ok(4), "which is forgotten after the call");
    let sets = Call::Sets("default".to_owned(), vec![component(1, "2")?, component(2, "3")?]);
    assert_eq!(ask(&sets, &[]).await, Ok(2));
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "big"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "6"}}}]},
    }))?;
    Api::<Pod>::namespaced(setting.member.client(), "default").create(&PostParams::default(), &pod).await?;
    let question = ironclad_scheduling::estimator::Question::replicas("default", Some(&needs("3")?));
    let cached = setting.cached.clone();
    setting.until("the pod takes room", move || cached.fits(&question) == Some(2)).await?;
    assert_eq!(ask(&cores("3")?, &[]).await, Ok(2), "the watched pods count");
    let listed = ironclad_estimator::listed(&setting.member.client()).await?;
    for (cpu, fits) in [("3", 2), ("2", 5), ("9", 0)] {
        let question = ironclad_scheduling::estimator::Question::replicas("default", Some(&needs(cpu)?));
        let asked = listed.clone().fits(&question);
        let watched = ask(&cores(cpu)?, &[]).await.map(i64::from);
        assert_eq!((asked, watched), (fits, Ok(fits)), "{cpu} cores, by one list and by watches");
    }
    let pending = Call::Unschedulable(SignedDuration::from_mins(5));
    assert_eq!(ask(&pending, &[]).await, Ok(0));
    let other = Workload { kind: "Job".to_owned(), ..web() };
    let want = "gRPC request cluster(m1) estimator error when calling UnschedulableReplicas: kind(Job) of \
                workload(default/web) is not supported";
    assert_eq!(client.call(&other, &pending, &[]).await, Err(want.to_owned()));
    let elsewhere = setting.connected("m2", setting.tls.clone()).await?;
    let want = "gRPC request cluster(m2) estimator error when calling MaxAvailableReplicas: cluster name does not \
                match, got: m2, desire: m1";
    assert_eq!(elsewhere.call(&web(), &cores("3")?, &[]).await, Err(want.to_owned()));
    setting.seam.tasks.stop();
    setting.member.end();
    Ok(())
}

fn needs(cpu: &str) -> anyhow::Result<ReplicaRequirements> {
    let Call::Replicas(needs) = cores(cpu)? else { anyhow::bail!("a question about replicas") };
    Ok(needs)
}

#[tokio::test]
async fn certificates_are_verified_on_both_sides() -> anyhow::Result<()> {
    let setting = setting().await?;
    let skipping = ClientTls { ca: None, skip_verify: true, ..setting.tls.clone() };
    let client = setting.connected("m1", skipping).await?;
    assert_eq!(client.call(&web(), &cores("8")?, &[]).await, Ok(2), "any server, with a certificate of its own");

    for (name, tls) in [
        (
            "a server of another authority",
            ClientTls { ca: setting.tls.identity.clone().map(|(ca, _)| ca), ..setting.tls.clone() },
        ),
        ("no certificate of the client", ClientTls { identity: None, ..setting.tls.clone() }),
        ("no TLS", ClientTls::default()),
    ] {
        let client = setting.client("m1", tls);
        let answer = timeout(Duration::from_secs(2), async {
            loop {
                match client.call(&web(), &cores("8")?, &[]).await {
                    Ok(fits) => return anyhow::Ok(fits),
                    Err(_) => setting.seam.clock.sleep(Duration::from_millis(50)).await,
                }
            }
        });
        assert!(answer.await.is_err(), "{name}: nothing is answered");
    }
    setting.seam.tasks.stop();
    setting.member.end();
    Ok(())
}
