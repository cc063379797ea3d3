//! Two processes compete for one Lease: at every moment at most one writes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::Request;
use ironclad_apiserver::{Identity, Options, Server};
use ironclad_runtime::{
    Traffic, in_process_client,
    leader::{Elector, LeaderOptions, fenced},
};
use ironclad_seam::{Clock, Rng, Seam, Tasks};
use ironclad_store::{Commit, Engine, MemoryBackend};
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Namespace},
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
    client::Body,
};
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::service_fn;

const S: fn(u64) -> Duration = Duration::from_secs;

struct World {
    seam: Seam,
    server: Arc<Server>,
    /// Leaders over time: second by second, each with its name.
    log: Arc<Mutex<Vec<(Instant, &'static str)>>>,
}

/// One process.
struct Process {
    seam: Seam,
    elector: Elector,
    /// The client that its work writes with.
    writes: Client,
    partitioned: Arc<AtomicBool>,
}

impl World {
    async fn new() -> Self {
        let clock = Clock::simulated(Timestamp::from_second(1_767_225_600).unwrap());
        let seam = Seam { clock: clock.clone(), rng: Rng::from_seed(7), tasks: Tasks::new("test") };
        let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, clock).unwrap();
        let options = Options { name: "plane".into(), ..Options::default() };
        let server = Server::open(options, engine.store("plane"), seam.child("plane")).await.unwrap();
        let world = Self { seam, server, log: Arc::default() };
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some("karmada-system".into());
        Api::all(world.client(&Arc::default())).create(&PostParams::default(), &namespace).await.unwrap();
        world
    }

    /// A client whose requests never arrive while this says so.
    fn client(&self, partitioned: &Arc<AtomicBool>) -> Client {
        let inner = in_process_client(self.server.in_process(Identity::admin("tester")), Arc::new(Traffic::default()));
        let partitioned = partitioned.clone();
        let service = service_fn(move |request: Request<Body>| {
            let (inner, partitioned) = (inner.clone(), partitioned.clone());
            async move {
                if partitioned.load(Ordering::Relaxed) {
                    std::future::pending::<()>().await;
                }
                inner.send(request).await
            }
        });
        in_process_client(service, Arc::new(Traffic::default()))
    }

    /// Starts a process that notes its name each second while it leads.
    fn start(&self, name: &'static str) -> Process {
        let seam = self.seam.child(name);
        let partitioned = Arc::default();
        let client = self.client(&partitioned);
        let elector = Elector::new(client.clone(), seam.clone(), LeaderOptions::new(name));
        let writes = fenced(client, elector.fence());
        let (running, log) = (elector.clone(), self.log.clone());
        seam.tasks.spawn("election", async move {
            let begin = |term: Seam| {
                let (clock, log) = (term.clock.clone(), log.clone());
                term.tasks.spawn("work", async move {
                    loop {
                        log.lock().push((clock.mono(), name));
                        clock.sleep(S(1)).await;
                    }
                });
            };
            running.run(begin).await;
        });
        Process { seam, elector, writes, partitioned }
    }

    async fn pass(&self, seconds: u64) {
        self.seam.clock.sleep(S(seconds)).await;
    }

    /// The last second in which one worked and the first in which another did after it, since the log was emptied.
    fn change(&self, from: &str, to: &str) -> (Option<Instant>, Option<Instant>) {
        let log = self.log.lock();
        let last = log.iter().rev().find(|(_, name)| *name == from).map(|(at, _)| *at);
        let first = log.iter().find(|(at, name)| *name == to && last.is_none_or(|last| *at > last)).map(|(at, _)| *at);
        (last, first)
    }

    async fn lease(&self) -> (String, i32) {
        let api: Api<Lease> = Api::namespaced(self.client(&Arc::default()), "karmada-system");
        let spec = api.get("ironclad").await.unwrap().spec.unwrap();
        (spec.holder_identity.unwrap_or_default(), spec.lease_transitions.unwrap_or_default())
    }
}

async fn write(client: &Client, name: &str) -> Result<(), kube::Error> {
    let map =
        ConfigMap { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..ConfigMap::default() };
    Api::namespaced(client.clone(), "karmada-system").create(&PostParams::default(), &map).await.map(|_: ConfigMap| ())
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_hands_over() {
    let world = World::new().await;
    let a = world.start("a");
    world.pass(3).await;
    let b = world.start("b");
    world.pass(60).await;
    assert!(a.elector.leads() && !b.elector.leads());
    assert_eq!((b.elector.holder(), world.lease().await), ("a".to_owned(), ("a".to_owned(), 0)));
    assert!(write(&a.writes, "by-a").await.is_ok());
    assert!(write(&b.writes, "by-b").await.is_err(), "who stands by does not write");

    let stopped = world.seam.clock.mono();
    a.seam.tasks.kill();
    a.elector.release().await;
    world.pass(10).await;
    assert!(write(&a.writes, "late").await.is_err());
    assert!(b.elector.leads());
    assert_eq!(world.lease().await, ("b".to_owned(), 1));
    let (last, first) = world.change("a", "b");
    assert!(last.unwrap() <= stopped && first.unwrap() - stopped <= S(3), "within a retry period or so");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_dies_is_replaced_when_its_lease_expires() {
    let world = World::new().await;
    let a = world.start("a");
    world.pass(3).await;
    let b = world.start("b");
    world.pass(20).await;
    let died = world.seam.clock.mono();
    a.seam.tasks.kill();
    world.pass(30).await;
    assert!(b.elector.leads());
    let first = world.change("a", "b").1.unwrap();
    assert!(first - died >= S(12) && first - died <= S(20), "{:?}", first - died);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_before_another_begins_and_competes_again() {
    let world = World::new().await;
    let a = world.start("a");
    world.pass(3).await;
    let b = world.start("b");
    world.pass(20).await;
    let cut = world.seam.clock.mono();
    a.partitioned.store(true, Ordering::Relaxed);
    // A write that is under way when the lead is lost ends with it.
    let (writes, clock) = (a.writes.clone(), world.seam.clock.clone());
    let under_way = world.seam.tasks.spawn("write", async move {
        let outcome = write(&writes, "under-way").await;
        (outcome, clock.mono())
    });
    world.pass(40).await;
    let (last, first) = world.change("a", "b");
    let (last, first) = (last.unwrap(), first.unwrap());
    assert!(last - cut <= S(10), "it stops at its renew deadline: {:?}", last - cut);
    assert!(first - last >= S(4), "and nobody begins before: {:?}", first - last);
    let (outcome, ended) = under_way.await.unwrap();
    assert!(outcome.is_err() && ended < first, "a late write fails");
    assert!(write(&a.writes, "late").await.is_err());
    assert!(!a.elector.leads() && b.elector.leads());

    // The network heals: it stands by, and takes over when the other stops.
    a.partitioned.store(false, Ordering::Relaxed);
    world.pass(30).await;
    assert!(!a.elector.leads(), "the other leads");
    world.log.lock().clear();
    b.seam.tasks.kill();
    b.elector.release().await;
    world.pass(30).await;
    assert!(a.elector.leads() && a.elector.terms() == 2);
    assert!(write(&a.writes, "again").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_taken_away_stops_at_once() {
    let world = World::new().await;
    let a = world.start("a");
    world.pass(10).await;
    let api: Api<Lease> = Api::namespaced(world.client(&Arc::default()), "karmada-system");
    let mut lease = api.get("ironclad").await.unwrap();
    lease.spec.get_or_insert_default().holder_identity = Some("somebody".into());
    api.replace("ironclad", &PostParams::default(), &lease).await.unwrap();
    world.pass(5).await;
    assert!(!a.elector.leads());
    world.pass(60).await;
    assert!(a.elector.leads(), "somebody never renewed");
    assert_eq!(a.elector.terms(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_is_made_again() {
    let world = World::new().await;
    let a = world.start("a");
    world.pass(10).await;
    let api: Api<Lease> = Api::namespaced(world.client(&Arc::default()), "karmada-system");
    api.delete("ironclad", &kube::api::DeleteParams::default()).await.unwrap();
    world.pass(10).await;
    assert!(a.elector.leads() && a.elector.terms() == 1);
    assert_eq!(world.lease().await.0, "a");
}
