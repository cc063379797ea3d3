#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::net::Ipv4Addr;

use ironclad_api::{
    crds::{crds, simulated_cluster_crd},
    namespaces::CLUSTER,
};
use ironclad_apiserver::{Identity, Options, Server, pki};
use ironclad_kubecontrollers::AutoscalingOptions;
use ironclad_runtime::{Traffic, in_process_client};
use ironclad_seam::{Clock, Rng, Tasks};
use ironclad_store::{Commit, MemoryBackend};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, Namespace, Node},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::api::{DeleteParams, ListParams, ObjectMeta};
use serde_json::Value;

use super::*;

/// Virtual deadline of a step.
const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    admin: Client,
    engine: Engine,
    seam: Seam,
    members: SimulatedMembers,
    dir: tempfile::TempDir,
}

impl World {
    async fn new(clusters: u32) -> Self {
        let clock = Clock::simulated(Timestamp::from_second(1_700_000_000).unwrap());
        let seam = Seam { clock: clock.clone(), rng: Rng::from_seed(1), tasks: Tasks::new("up") };
        let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, clock).unwrap();
        let server = Server::open(Options::default(), engine.store("plane"), seam.child("plane")).await.unwrap();
        let admin = in_process_client(server.in_process(Identity::admin("a")), Arc::new(Traffic::default()));
        let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
        let cluster = crds().into_iter().filter(|c| c.spec.names.kind == "Cluster");
        for definition in cluster.chain([simulated_cluster_crd()]) {
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        let namespaces: Api<Namespace> = Api::all(admin.clone());
        let metadata = ObjectMeta { name: Some(CLUSTER.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let args = FleetArgs {
            clusters: Some(clusters),
            fleet: None,
            nodes: 2,
            cpu: "4".into(),
            memory: "8Gi".into(),
            pods: 10,
            startup_delay: None,
        };
        args.ensure(&admin, None, Start::First).await.unwrap();
        let members = start(&admin, &engine, &seam, &dir).await.unwrap();
        Self { admin, engine, seam, members, dir }
    }

    /// Stops the process that runs the members, and starts another one on its data.
    async fn restart(&mut self) {
        for member in self.members.list() {
            member.member.end();
        }
        let next = Seam { tasks: Tasks::new("again"), ..self.seam.clone() };
        self.members = start(&self.admin, &self.engine, &next, &self.dir).await.unwrap();
    }

    fn objects(&self) -> Api<SimulatedCluster> {
        Api::all(self.admin.clone())
    }

    fn clusters(&self) -> Api<Cluster> {
        Api::all(self.admin.clone())
    }

    async fn patch(&self, name: &str, patch: Value) {
        let object = self.objects().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        self.until("it is followed", async || {
            let now = self.objects().get(name).await.unwrap();
            now.status.is_some_and(|s| Some(s.observed_generation) >= object.metadata.generation)
        })
        .await;
    }

    async fn until(&self, what: &str, mut is: impl AsyncFnMut() -> bool) {
        let began = self.seam.clock.mono();
        while !is().await {
            assert!(self.seam.clock.mono() - began < PATIENCE, "never: {what}");
            self.seam.clock.sleep(Duration::from_millis(20)).await;
        }
    }

    async fn nodes(&self, member: &str) -> usize {
        let client = self.members.get(member).unwrap().member.client();
        Api::<Node>::all(client).list(&ListParams::default()).await.unwrap().items.len()
    }

    fn kubeconfig(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("kubeconfig")).unwrap()
    }
}

async fn start(
    admin: &Client,
    engine: &Engine,
    seam: &Seam,
    dir: &tempfile::TempDir,
) -> anyhow::Result<SimulatedMembers> {
    // The provider can be set only once; all tests set the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let plane = pki::Pki::load_or_create(&dir.path().join("pki"), seam, "ironclad")?;
    let file = KubeconfigFile::new(dir.path().join("kubeconfig"), plane.admin_context("ironclad", "https://plane"));
    let (address, autoscaling) = (Ipv4Addr::LOCALHOST.into(), AutoscalingOptions::of_one_cluster());
    SimulatedMembers::start(admin, engine, seam, dir.path().to_owned(), address, file, autoscaling).await
}

fn described(name: &str, nodes: i32) -> SimulatedCluster {
    let object = json!({
        "apiVersion": "sim.ironclad.io/v1alpha1", "kind": "SimulatedCluster",
        "metadata": {"name": name, "labels": {"tier": "edge", REGION: "eu"}},
        "spec": {"nodes": nodes, "capacity": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
    });
    serde_json::from_value(object).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_member_follows_its_object_from_creation_to_deletion() {
    let w = World::new(1).await;
    assert_eq!(w.members.list().iter().map(|m| m.name.as_str()).collect::<Vec<_>>(), ["member1"]);
    w.until("its nodes", async || w.nodes("member1").await == 2).await;

    w.objects().create(&PostParams::default(), &described("edge", 1)).await.unwrap();
    w.until("it is joined", async || w.clusters().get_opt("edge").await.unwrap().is_some()).await;
    let cluster = w.clusters().get("edge").await.unwrap();
    assert_eq!((cluster.labels()["tier"].as_str(), cluster.spec.region.as_str()), ("edge", "eu"));
    assert_eq!(cluster.spec.api_endpoint, w.members.get("edge").unwrap().endpoint);
    assert!(w.kubeconfig().contains("name: \"edge\""));

    w.patch("edge", json!({"spec": {"nodes": 4}})).await;
    w.until("the nodes follow", async || w.nodes("edge").await == 4).await;
    w.patch("edge", json!({"spec": {"faults": {"down": true}}})).await;
    assert!(w.members.get("edge").unwrap().member.faults().down);

    w.objects().delete("edge", &DeleteParams::default()).await.unwrap();
    w.until("it is deleted", async || w.objects().get_opt("edge").await.unwrap().is_none()).await;
    assert!(w.clusters().get_opt("edge").await.unwrap().is_none(), "it left the fleet");
    assert!(w.members.get("edge").is_none());
    assert!(!w.kubeconfig().contains("name: \"edge\""));
    assert!(w.engine.store("member/edge").is_empty(), "nothing of it is stored");
    assert!(!w.dir.path().join("pki/members/edge").exists());
}

#[tokio::test(start_paused = true)]
async fn another_member_of_the_same_name_is_another_member() {
    let w = World::new(0).await;
    let mut uids = Vec::new();
    for _ in 0..2 {
        w.objects().create(&PostParams::default(), &described("edge", 1)).await.unwrap();
        w.until("it is joined", async || w.clusters().get_opt("edge").await.unwrap().is_some()).await;
        w.until("its node", async || w.nodes("edge").await == 1).await;
        let nodes: Api<Node> = Api::all(w.members.get("edge").unwrap().member.client());
        uids.push(nodes.get("edge-node-1").await.unwrap().metadata.uid);
        w.objects().delete("edge", &DeleteParams::default()).await.unwrap();
        w.until("it is deleted", async || w.objects().get_opt("edge").await.unwrap().is_none()).await;
    }
    assert_ne!(uids[0], uids[1]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_continues_with_the_stored_members() {
    let mut w = World::new(2).await;
    w.until("its nodes", async || w.nodes("member1").await == 2).await;
    let endpoint = w.members.get("member1").unwrap().endpoint.clone();
    w.patch("member1", json!({"spec": {"faults": {"partition": true}}})).await;
    w.clusters().delete("member2", &DeleteParams::default()).await.unwrap();
    let revision = w.engine.store("plane").revision();
    w.restart().await;
    assert_eq!(w.members.get("member1").unwrap().endpoint, endpoint, "the port is kept");
    assert!(w.members.get("member1").unwrap().member.faults().partition, "a fault outlives a restart");
    assert!(w.clusters().get_opt("member2").await.unwrap().is_none(), "who was unjoined stays so");
    assert_eq!(w.engine.store("plane").revision(), revision, "nothing changed, nothing is written");
}

#[tokio::test(start_paused = true)]
async fn invalid_fields_are_reported_on_the_object() {
    let w = World::new(1).await;
    w.patch("member1", json!({"spec": {"faults": {"slow": {"latency": "a while"}}}})).await;
    let mut reserved = described("ironclad", 1);
    reserved.metadata.labels = None;
    w.objects().create(&PostParams::default(), &reserved).await.unwrap();
    let events: Api<Event> = Api::namespaced(w.admin.clone(), "default");
    w.until("both are reported", async || {
        let all = events.list(&ListParams::default()).await.unwrap().items;
        let says = |text: &str| all.iter().any(|e| e.message.as_deref().unwrap_or_default().contains(text));
        says("\"a while\" is not a duration") && says("the name of the control plane's context")
    })
    .await;
    assert!(w.members.get("ironclad").is_none());
}
