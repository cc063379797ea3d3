//! The watches that `up` opens to one member.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ironclad_api::{
    autoscaling::FederatedHPA,
    cluster::{Cluster, ClusterSpec, SyncMode},
    policy::PropagationPolicy,
};
use ironclad_controllers::{ControllerList, Settings};
use ironclad_membermetrics::Options as MetricsOptions;
use ironclad_members::Connector;
use ironclad_seam::{Clock, Rng, Tasks};
use ironclad_simcluster::{Member, MemberOptions};
use ironclad_store::{MemoryBackend, Options as StoreOptions};
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use kube::client::Body;
use serde_json::{Value, json};
use tower::Service as _;

use super::*;

/// Virtual deadline of a step.
const PATIENCE: Duration = Duration::from_secs(60);
const POD_METRICS: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods";

/// Reaches the one member, and counts the watches of its pods.
struct Counted {
    member: Arc<Member>,
    watches: Arc<AtomicUsize>,
}

impl Connector for Counted {
    fn connect(&self, _: &Cluster, _: Option<&Secret>) -> Result<Client, String> {
        let (member, watches) = (self.member.faulted_service(Identity::admin("ironclad")), self.watches.clone());
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
            if request.uri().path().ends_with("/pods") && is_watch {
                watches.fetch_add(1, Relaxed);
            }
            member.clone().call(request)
        });
        Ok(in_process_client(service, Arc::new(Traffic::default())))
    }
}

struct World {
    admin: Client,
    seam: Seam,
    watches: Arc<AtomicUsize>,
    parts: Parts,
    _engine: Engine,
}

impl World {
    /// The control plane with its metrics APIs, and one member with a Deployment that a FederatedHPA scales.
    async fn new() -> anyhow::Result<Self> {
        let clock = Clock::simulated(Timestamp::from_second(1_790_000_000)?);
        let seam = Seam { clock: clock.clone(), rng: Rng::from_seed(1), tasks: Tasks::new("up") };
        let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, clock)?;
        let options = ServerOptions { converter: Some(convert), ..ServerOptions::default() };
        let plane = Server::open(options, engine.store("plane"), seam.child("plane")).await?;
        let admin = in_process_client(plane.in_process(Identity::admin("ironclad")), Arc::new(Traffic::default()));
        install_crds(&admin, crds()).await?;
        for name in [namespaces::CLUSTER, namespaces::SYSTEM] {
            create_namespace(&Api::all(admin.clone()), name).await?;
        }
        let options = MemberOptions { name: "m1".to_owned(), ..MemberOptions::default() };
        let store = engine.store_with("member/m1", StoreOptions::member());
        let member = Arc::new(Member::start(options, store, seam.child("m1")).await?);

        let watches = Arc::new(AtomicUsize::new(0));
        let connections = Connections::new(Arc::new(Counted { member, watches: watches.clone() }), Scope::All);
        let of_members = seam.child("metrics");
        let served = MetricsFlags::served(&Settings::default().gates);
        let adapter = metrics::adapter(&admin, connections.clone(), MetricsOptions::default(), served, &of_members);
        MetricsRoute::mount(adapter, &plane, &of_members);
        let settings = Settings { controllers: ControllerList::parse("*,descheduler")?, ..Settings::default() };
        let parts = Parts::new(admin.clone(), &connections, settings, None, Present::default(), None);

        let spec = ClusterSpec {
            sync_mode: SyncMode::Push,
            api_endpoint: "https://m1.example".to_owned(),
            ..ClusterSpec::default()
        };
        let post = PostParams::default();
        Api::all(admin.clone()).create(&post, &Cluster::new("m1", spec)).await?;
        let container = json!({"name": "web", "image": "web", "resources": {"requests": {"cpu": "100m"}}});
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": "web"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}},
        }))?;
        Api::namespaced(admin.clone(), "default").create(&post, &deployment).await?;
        let policy: PropagationPolicy = serde_json::from_value(json!({
            "metadata": {"name": "web"},
            "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]},
        }))?;
        Api::namespaced(admin.clone(), "default").create(&post, &policy).await?;
        let autoscaler: FederatedHPA = serde_json::from_value(json!({
            "metadata": {"name": "web"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": 1, "maxReplicas": 5,
                "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 50}}}],
            },
        }))?;
        Api::namespaced(admin.clone(), "default").create(&post, &autoscaler).await?;
        Ok(Self { admin, seam, watches, parts, _engine: engine })
    }

    async fn until(&self, what: &str, mut is: impl AsyncFnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
        let began = self.seam.clock.mono();
        while !is().await? {
            anyhow::ensure!(self.seam.clock.mono() - began < PATIENCE, "never: {what}");
            self.seam.clock.sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Pods of which the metrics APIs have metrics.
    async fn measured(&self) -> anyhow::Result<usize> {
        let list: Value = self.admin.request(http::Request::get(POD_METRICS).body(Vec::new())?).await?;
        Ok(list["items"].as_array().map_or(0, Vec::len))
    }

    async fn cluster(&self) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(Api::<Cluster>::all(self.admin.clone()).get("m1").await?)?)
    }

    /// Runs the controllers for a term in which all that reads pods has read them.
    async fn term(&self, name: &str) -> anyhow::Result<()> {
        let term = self.seam.child(name);
        let work = self.parts.begin(term.clone(), std::future::ready(()), || {});
        self.until("the FederatedHPA scales", async || {
            let autoscalers: Api<FederatedHPA> = Api::namespaced(self.admin.clone(), "default");
            let status = serde_json::to_value(autoscalers.get("web").await?.status)?;
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            Ok(conditions.iter().any(|c| c["type"] == "ScalingActive" && c["status"] == "True"))
        })
        .await?;
        self.until("the summary counts the pods", async || {
            Ok(self.cluster().await?["status"]["resourceSummary"]["allocated"]["pods"] == "2")
        })
        .await?;
        self.until("the metrics APIs answer", async || Ok(self.measured().await? == 2)).await?;
        self.until("the account has the pods", async || {
            let controllers = self.parts.present.lock().clone();
            let account = controllers.and_then(|controllers| controllers.observed(&"m1".into()));
            Ok(account.is_some_and(|account| account.is_synced() && account.pods().len() == 2))
        })
        .await?;
        term.tasks.kill();
        drop(work);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn the_pods_of_a_member_are_watched_once_whoever_reads_them() -> anyhow::Result<()> {
    let world = World::new().await?;
    world.until("nothing is known of a member that is not ready", async || Ok(world.measured().await? == 0)).await?;
    world.term("first").await?;
    assert_eq!(world.watches.load(Relaxed), 1, "summary, account, FederatedHPA and metrics APIs read one cache");
    world.term("second").await?;
    assert_eq!(world.watches.load(Relaxed), 1, "the metrics APIs kept it, and the next leader has it at once");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_cluster_becomes_ready_with_its_resources() -> anyhow::Result<()> {
    let world = World::new().await?;
    let work = world.parts.begin(world.seam.child("term"), std::future::ready(()), || {});
    let mut status = Value::Null;
    world
        .until("the cluster is ready", async || {
            status = world.cluster().await?["status"].take();
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            Ok(conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True"))
        })
        .await?;
    assert_ne!(status["resourceSummary"]["allocatable"], Value::Null, "nothing is divided before: {status}");
    drop(work);
    Ok(())
}
