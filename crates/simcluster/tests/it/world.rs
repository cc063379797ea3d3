//! Test fixture: a member in memory and virtual time.

use std::{sync::atomic::Ordering, time::Duration};

use ironclad_seam::{Clock, Rng, Seam, Tasks};
use ironclad_simcluster::{Member, MemberOptions};
use ironclad_store::{Commit, Engine, MemoryBackend, Options, Query, Store};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Event, Pod},
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(3_600);
/// Time without changes after which the member is idle.
const QUIET: Duration = Duration::from_secs(40);

pub(crate) struct World {
    pub(crate) member: Member,
    pub(crate) client: Client,
    pub(crate) store: Store,
    pub(crate) seam: Seam,
}

pub(crate) fn options() -> MemberOptions {
    MemberOptions { name: "m".into(), startup_delay: Duration::from_secs(2), ..MemberOptions::default() }
}

impl World {
    pub(crate) async fn new(seed: u64, options: MemberOptions) -> Self {
        let clock = Clock::simulated(Timestamp::from_second(1_700_000_000).unwrap());
        let seam = Seam { clock: clock.clone(), rng: Rng::from_seed(seed), tasks: Tasks::new("m") };
        let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, clock).unwrap();
        let store = engine.store_with("m", Options::member());
        let member = Member::start(options, store.clone(), seam.clone()).await.unwrap();
        member.ready().await;
        Self { client: member.client(), member, store, seam }
    }

    pub(crate) fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn deploy(&self, deployment: Value) -> Deployment {
        let deployment = serde_json::from_value(deployment).unwrap();
        self.deployments().create(&PostParams::default(), &deployment).await.unwrap()
    }

    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        self.deployments().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn delete(&self, name: &str, params: DeleteParams) {
        self.deployments().delete(name, &params).await.unwrap();
    }

    pub(crate) async fn list<K>(&self) -> Vec<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        Api::<K>::namespaced(self.client.clone(), "default").list(&ListParams::default()).await.unwrap().items
    }

    /// The events of the default namespace, as `describe` shows them.
    pub(crate) async fn events(&self) -> Vec<String> {
        let line = |event: Event| {
            let (kind, reason, message) = (event.involved_object.kind, event.reason, event.message);
            format!("{} {}: {}", kind.unwrap_or_default(), reason.unwrap_or_default(), message.unwrap_or_default())
        };
        self.list::<Event>().await.into_iter().map(line).collect()
    }

    /// Waits until the condition holds; checks after each change of the store.
    pub(crate) async fn until<F: Future<Output = bool>>(&self, what: &str, mut is: impl FnMut() -> F) {
        let start = self.seam.clock.mono();
        let mut watch = self.store.watch("", self.store.revision()).unwrap();
        while !is().await {
            assert!(self.seam.clock.mono() - start < PATIENCE, "never: {what}");
            let _ = tokio::time::timeout(QUIET, watch.next()).await;
        }
    }

    pub(crate) async fn complete(&self, name: &str) {
        self.until(&format!("{name} is complete"), || async {
            let deployment = self.deployments().get(name).await.unwrap();
            let (spec, status) = (deployment.spec.unwrap(), deployment.status.unwrap_or_default());
            let wanted = spec.replicas;
            status.observed_generation == deployment.metadata.generation
                && [status.replicas, status.updated_replicas, status.available_replicas]
                    .iter()
                    .all(|n| n.unwrap_or(0) == wanted.unwrap_or(1))
        })
        .await;
    }

    /// Waits until nothing changes any more.
    pub(crate) async fn quiet(&self) {
        let start = self.seam.clock.mono();
        loop {
            let before = self.store.revision();
            self.seam.clock.sleep(QUIET).await;
            if self.store.revision() == before {
                return;
            }
            assert!(self.seam.clock.mono() - start < PATIENCE, "never quiet");
        }
    }

    /// Number of writes and reads (without watches) of the member's controllers.
    pub(crate) fn requests(&self) -> (u64, u64) {
        let traffic = self.member.traffic();
        (traffic.writes.load(Ordering::Relaxed), traffic.reads.load(Ordering::Relaxed))
    }

    /// Everything in the store: keys with their values.
    pub(crate) fn everything(&self) -> Vec<(String, Value)> {
        let range = self.store.range(&Query { prefix: "", ..Query::default() }).unwrap();
        range.entries.iter().map(|(key, entry)| (key.as_str().to_owned(), value(&entry.value))).collect()
    }
}

/// Returns the object of a stored value: the server stores four bytes before the JSON.
pub(crate) fn value(stored: &[u8]) -> Value {
    serde_json::from_slice(&stored[4..]).unwrap()
}

pub(crate) fn web(replicas: u32, image: &str) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{
                    "name": "c", "image": image, "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                }]},
            },
        },
    })
}
