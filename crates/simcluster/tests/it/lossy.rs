//! Responses that are lost after the request was handled: nothing is created twice.

use std::{
    collections::BTreeSet,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use http::{Method, Request, Response};
use ironclad_apiserver::{Identity, InProcess, Options, ResponseBody, Server};
use ironclad_kubecontrollers::{Cluster, Controller};
use ironclad_runtime::in_process_client;
use ironclad_seam::{Clock, Rng, Seam, Tasks};
use ironclad_store::{Commit, Engine, MemoryBackend};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
    client::Body,
};
use serde_json::{Value, json};

use crate::world::web;

#[derive(Clone)]
struct Lossy {
    server: InProcess,
    writes: Arc<AtomicUsize>,
    lost: usize,
}

impl tower::Service<Request<Body>> for Lossy {
    type Response = Response<ResponseBody>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, std::io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let write = request.method() != Method::GET;
        let loses = write && self.writes.fetch_add(1, Ordering::Relaxed) + 1 == self.lost;
        let answer = self.server.call(request);
        Box::pin(async move {
            let answer = answer.await.map_err(std::io::Error::other)?;
            if loses { Err(std::io::ErrorKind::ConnectionReset.into()) } else { Ok(answer) }
        })
    }
}

/// Counts of all pods and ReplicaSets that ever existed, and of those at the end, after a rollout and a scaling with
/// one lost response.
async fn run(lost: usize) -> (usize, usize, usize) {
    let clock = Clock::simulated(Timestamp::from_second(1_700_000_000).unwrap());
    let seam = Seam { clock: clock.clone(), rng: Rng::from_seed(5), tasks: Tasks::new("lossy") };
    let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, clock).unwrap();
    let store = engine.store("lossy");
    let server = Server::open(Options::default(), store.clone(), seam.child("server")).await.unwrap();
    let writes = Arc::new(AtomicUsize::new(0));
    let service = Lossy { server: server.in_process(Identity::admin("c")), writes: writes.clone(), lost };
    let client = in_process_client(service, Default::default());
    let cluster = Cluster::new(client, seam.child("controllers"));
    let controllers = vec![Controller::Deployment, Controller::ReplicaSet];
    let options = ironclad_kubecontrollers::Options { controllers, ..ironclad_kubecontrollers::Options::default() };
    ironclad_kubecontrollers::start(&cluster, &options);
    cluster.start_caches();

    let mut watch = store.watch("/registry/", store.revision()).unwrap();
    let admin = kube::Client::new(server.in_process(Identity::admin("user")), "default");
    let deployments: Api<Deployment> = Api::namespaced(admin, "default");
    let deployment = serde_json::from_value(web(3, "i:1")).unwrap();
    deployments.create(&PostParams::default(), &deployment).await.unwrap();
    seam.clock.sleep(Duration::from_secs(30)).await;
    for replicas in [1, 4] {
        let patch: Value = json!({"spec": {"replicas": replicas}});
        deployments.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        seam.clock.sleep(Duration::from_secs(30)).await;
    }
    let (mut ever, mut now) = (BTreeSet::new(), BTreeSet::new());
    while let Ok(Some(Ok(batch))) = tokio::time::timeout(Duration::from_millis(1), watch.next()).await {
        for event in batch.events() {
            let key = event.key.as_str().to_owned();
            if key.contains("/pods/") || key.contains("/replicasets/") {
                if event.entry.is_some() {
                    now.insert(key.clone())
                } else {
                    now.remove(&key)
                };
                ever.insert(key);
            }
        }
    }
    seam.tasks.kill();
    (ever.len(), now.len(), writes.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn a_lost_response_creates_no_extra_pod() {
    let (ever, now, writes) = run(0).await;
    assert_eq!((ever, now), (1 + 3 + 3, 1 + 4), "one set; three pods, then one of them, then three more");
    for lost in 1..=writes {
        let (ever_lossy, now_lossy, _) = run(lost).await;
        assert_eq!((ever_lossy, now_lossy), (ever, now), "the response of write {lost} was lost");
    }
}
