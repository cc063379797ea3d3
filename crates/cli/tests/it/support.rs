//! A control plane and a member in memory.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ironclad_apiserver::{Identity, Options, Server};
use ironclad_cli::join::{Address, JoinOptions};
use ironclad_runtime::{Traffic, in_process_client};
use ironclad_seam::{Clock, Rng, Seam, Tasks};
use ironclad_store::{Commit, Engine, MemoryBackend};
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

/// A server and the number of its requests.
pub(crate) struct Plane {
    pub(crate) client: Client,
    pub(crate) server: Arc<Server>,
    traffic: Arc<Traffic>,
}

impl Plane {
    /// Write requests since the last call.
    pub(crate) fn writes(&self) -> u64 {
        self.traffic.writes.swap(0, Ordering::Relaxed)
    }
}

pub(crate) struct World {
    pub(crate) seam: Seam,
    pub(crate) plane: Plane,
    pub(crate) member: Plane,
}

impl World {
    /// Creates a control plane with Karmada's kinds, and a member with a token controller.
    pub(crate) async fn new() -> Self {
        // Only kinds that the verbs use: reading the schemas of all takes seconds.
        Self::with(|group| ["cluster.karmada.io", "work.karmada.io"].contains(&group)).await
    }

    /// Creates a control plane with all kinds.
    pub(crate) async fn with_all_kinds() -> Self {
        Self::with(|_| true).await
    }

    async fn with(wanted: impl Fn(&str) -> bool) -> Self {
        let world = Self::bare().await;
        let mut crds = ironclad_api::crds::crds();
        crds.retain(|crd| wanted(&crd.spec.group));
        ironclad_cli::crds::install(&world.plane.client, &world.seam.clock, crds, Duration::from_secs(60), false)
            .await
            .unwrap();
        world.plane.writes();
        world.fill_tokens("one");
        world
    }

    /// Creates two servers without CRDs.
    pub(crate) async fn bare() -> Self {
        let clock = Clock::simulated(Timestamp::from_second(1_767_225_600).unwrap());
        let seam = Seam { clock: clock.clone(), rng: Rng::from_seed(1), tasks: Tasks::new("test") };
        let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, clock).unwrap();
        let mut servers = Vec::new();
        for name in ["plane", "member"] {
            let options = Options { name: name.into(), ..Options::default() };
            let server = Server::open(options, engine.store(name), seam.child(name)).await.unwrap();
            let traffic = Arc::new(Traffic::default());
            let client = in_process_client(server.in_process(Identity::admin("tester")), traffic.clone());
            servers.push(Plane { client, server, traffic });
        }
        let member = servers.pop().unwrap();
        Self { seam, plane: servers.pop().unwrap(), member }
    }

    pub(crate) fn options(&self) -> JoinOptions {
        let address = Address {
            endpoint: "https://member.example:6443".into(),
            ca_bundle: "-----BEGIN CERTIFICATE-----\n".into(),
            ..Address::default()
        };
        JoinOptions::new("member1", address)
    }

    /// Fills token Secrets as the token controller of kube-controller-manager does.
    fn fill_tokens(&self, token: &'static str) {
        let secrets: Api<Secret> = Api::all(self.member.client.clone());
        let (client, clock) = (self.member.client.clone(), self.seam.clock.clone());
        self.seam.tasks.spawn("token-controller", async move {
            loop {
                for secret in secrets.list(&ListParams::default()).await.unwrap() {
                    let wants = secret.type_.as_deref() == Some("kubernetes.io/service-account-token");
                    if wants && secret.data.as_ref().is_none_or(|data| !data.contains_key("token")) {
                        // The Secret may have been deleted meanwhile.
                        let _ = put_token(&client, &secret.namespace().unwrap(), &secret.name_any(), token).await;
                    }
                }
                clock.sleep(Duration::from_millis(250)).await;
            }
        });
    }
}

/// Puts a token into a Secret of the member.
pub(crate) async fn set_token(client: &Client, secret: &str, token: &str) {
    put_token(client, "karmada-cluster", secret, token).await.unwrap();
}

async fn put_token(client: &Client, namespace: &str, secret: &str, token: &str) -> Result<Secret, kube::Error> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let data = json!({ "data": { "token": ByteString(token.as_bytes().to_vec()) } });
    secrets.patch(secret, &PatchParams::default(), &Patch::Merge(data)).await
}
