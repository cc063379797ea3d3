//! The account of capacity in `ironclad up` as users start it: summaries, resource models and periods by default, only
//! preemption is switched on (specification/scheduling.md 10, 11, 15). `capacity_rows` plays more of it, in virtual
//! time.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use anyhow::ensure;
use ironclad_api::{policy::PropagationPolicy, work::ResourceBinding};
use ironclad_testkit::{
    binary::{Daemon, free_port},
    real::until,
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Event, Namespace},
    scheduling::v1::PriorityClass,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::failover_walk::client;

/// Far more than any row needs, and far less than the five minutes after which an unschedulable binding is tried
/// whatever happens.
const DEADLINE: Duration = Duration::from_secs(60);
/// Cores of the one node.
const CORES: i32 = 10;

/// A control plane with one member of one node.
struct Up {
    daemon: Daemon,
    dir: TempDir,
    listen: String,
    plane: Client,
}

/// A workload: name, replicas, cores of each, priority.
type App = (&'static str, i32, i32, i32);

impl Up {
    async fn start() -> anyhow::Result<Self> {
        let (dir, listen) = (tempfile::tempdir()?, format!("127.0.0.1:{}", free_port()?));
        let (daemon, plane) = serve(dir.path().join("data"), &listen).await?;
        Ok(Self { daemon, dir, listen, plane })
    }

    /// Ends the process, and starts it on the same data.
    async fn restart(self) -> anyhow::Result<Self> {
        self.daemon.stop().await?;
        let (daemon, plane) = serve(self.dir.path().join("data"), &self.listen).await?;
        Ok(Self { daemon, plane, ..self })
    }
}

async fn serve(data: PathBuf, listen: &str) -> anyhow::Result<(Daemon, Client)> {
    let (path, cores) = (data.display().to_string(), CORES.to_string());
    let own = ["up", "--data-dir", &path, "--listen", listen, "--clusters", "1", "--nodes", "1", "--cpu", &cores];
    let gate = "--feature-gates=PriorityBasedPreemptiveScheduling=true";
    let daemon = Daemon::start(own.into_iter().chain(["--metrics-bind-address", "0", gate])).await?;
    Ok((daemon, client(&data.join("kubeconfig"), Some("ironclad")).await?))
}

/// A row of the table, in a namespace of its own.
struct Row {
    plane: Client,
    namespace: &'static str,
}

impl Row {
    async fn new(up: &Up, namespace: &'static str) -> anyhow::Result<Self> {
        let row = Self { plane: up.plane.clone(), namespace };
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
        Api::<Namespace>::all(row.plane.clone()).create(&PostParams::default(), &object).await?;
        Ok(row)
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.plane.clone(), self.namespace)
    }

    async fn create(&self, (name, replicas, cpu, priority): App) -> anyhow::Result<()> {
        let class = format!("{}-{name}", self.namespace);
        let object = serde_json::from_value(json!({"metadata": {"name": class}, "value": priority}))?;
        Api::<PriorityClass>::all(self.plane.clone()).create(&PostParams::default(), &object).await?;
        let policy = json!({
            "metadata": {"name": name},
            "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}],
                "schedulePriority": {"priorityClassSource": "KubePriorityClass", "priorityClassName": class},
                "placement": {"replicaScheduling": {
                    "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
                }},
            },
        });
        let policies: Api<PropagationPolicy> = Api::namespaced(self.plane.clone(), self.namespace);
        policies.create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
        let request = json!({"requests": {"cpu": cpu.to_string()}});
        let deployment = json!({
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "c", "image": "registry.example/c:1", "resources": request}]},
                },
            },
        });
        self.deployments().create(&PostParams::default(), &serde_json::from_value(deployment)?).await?;
        Ok(())
    }

    async fn run(&self, app: App) -> anyhow::Result<()> {
        self.create(app).await?;
        self.until_ready(app.0, app.1).await
    }

    async fn until_ready(&self, name: &str, replicas: i32) -> anyhow::Result<()> {
        until(&format!("{}/{name} runs", self.namespace), DEADLINE, async || {
            let status = self.deployments().get(name).await?.status;
            let ready = status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
            ensure!(ready == replicas, "{ready} of {replicas} are ready");
            Ok(())
        })
        .await
    }

    /// Names of all that were preempted since the row began.
    async fn victims(&self) -> anyhow::Result<BTreeSet<String>> {
        let events: Api<Event> = Api::namespaced(self.plane.clone(), self.namespace);
        let all = events.list(&ListParams::default()).await?.items;
        let of_templates = all.into_iter().filter(|event| event.reason.as_deref() == Some("BindingPreempted"));
        let names = of_templates.filter(|event| event.involved_object.kind.as_deref() == Some("Deployment"));
        Ok(names.filter_map(|event| event.involved_object.name).collect())
    }

    async fn expect_victims(&self, want: &[&str]) -> anyhow::Result<()> {
        let want: BTreeSet<String> = want.iter().map(|name| (*name).to_owned()).collect();
        let victims = self.victims().await?;
        ensure!(victims == want, "{}: {victims:?} left instead of {want:?}", self.namespace);
        Ok(())
    }

    async fn delete(&self, name: &str) -> anyhow::Result<()> {
        self.deployments().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    async fn patch(&self, name: &str, spec: Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.deployments().patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Takes the row's workloads away and waits until nothing of them is left.
    async fn end(self) -> anyhow::Result<()> {
        for deployment in self.deployments().list(&ListParams::default()).await?.items {
            self.delete(&deployment.name_any()).await?;
        }
        let bindings: Api<ResourceBinding> = Api::namespaced(self.plane.clone(), self.namespace);
        until(&format!("{} is over", self.namespace), DEADLINE, async || {
            let left = bindings.list(&ListParams::default()).await?.items.len();
            ensure!(left == 0, "{left} bindings are left");
            Ok(())
        })
        .await
    }
}

/// Preemption evicts the victims that it needs, and no others.
#[tokio::test]
async fn preemption_by_default_evicts_what_it_needs() -> anyhow::Result<()> {
    let up = Up::start().await?;

    // The example of the proposal: a node of ten cores, full.
    let row = Row::new(&up, "proposal").await?;
    for app in [("p0", 1, 1, 0), ("p1", 1, 2, 1), ("p2", 1, 5, 2), ("p3", 1, 2, 3)] {
        row.run(app).await?;
    }
    row.run(("new", 1, 5, 10)).await?;
    row.expect_victims(&["p2"]).await?;
    row.end().await?;

    // Placed a moment ago, it is not counted twice beside what comes next.
    let row = Row::new(&up, "beside").await?;
    row.create(("first", 1, 5, 0)).await?;
    row.run(("new", 1, 4, 100)).await?;
    row.until_ready("first", 1).await?;
    row.expect_victims(&[]).await?;
    row.end().await?;

    // Five at once take five, of ten.
    let row = Row::new(&up, "five").await?;
    const LOW: [&str; 10] = ["v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9"];
    for name in LOW {
        row.create((name, 1, 1, 0)).await?;
    }
    for name in LOW {
        row.until_ready(name, 1).await?;
    }
    const HIGH: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];
    for name in HIGH {
        row.create((name, 1, 1, 10)).await?;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    for name in HIGH {
        row.until_ready(name, 1).await?;
    }
    let victims = row.victims().await?;
    ensure!(victims.len() == 5, "five: {victims:?} left");
    row.end().await?;

    // One that grows while its victim leaves takes one more.
    let row = Row::new(&up, "grows").await?;
    const PAIRS: [&str; 5] = ["v0", "v1", "v2", "v3", "v4"];
    for name in PAIRS {
        row.run((name, 1, 2, 0)).await?;
    }
    row.create(("new", 1, 2, 10)).await?;
    row.patch("new", json!({"replicas": 2})).await?;
    row.until_ready("new", 2).await?;
    let victims = row.victims().await?;
    ensure!(victims.len() == 2, "grows: {victims:?} left");
    row.end().await?;
    up.daemon.stop().await
}

/// Waiting workloads are tried when something becomes free, also after a restart.
#[tokio::test]
async fn what_waits_by_default_is_tried_when_it_fits() -> anyhow::Result<()> {
    let up = Up::start().await?;

    // An empty cluster is not full.
    let row = Row::new(&up, "emptied").await?;
    row.create(("whole", 1, 10, 0)).await?;
    row.create(("other", 1, 10, 0)).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    row.delete("whole").await?;
    row.until_ready("other", 1).await?;
    row.end().await?;

    // Low and high at once: only one fits.
    let row = Row::new(&up, "at-once").await?;
    row.create(("low", 1, 10, 0)).await?;
    row.run(("high", 1, 10, 10)).await?;
    row.end().await?;

    // Whoever gives up holds nothing.
    let row = Row::new(&up, "gives-up").await?;
    row.run(("low", 1, 6, 0)).await?;
    row.create(("high", 1, 10, 10)).await?;
    row.delete("high").await?;
    row.run(("small", 1, 4, 0)).await?;
    row.until_ready("low", 1).await?;
    row.end().await?;

    // The process ends right after a preemption.
    let row = Row::new(&up, "restarted").await?;
    row.run(("low", 1, 10, 0)).await?;
    row.create(("high", 1, 10, 10)).await?;
    until("low is preempted", DEADLINE, async || row.expect_victims(&["low"]).await).await?;
    let up = up.restart().await?;
    let row = Row { plane: up.plane.clone(), ..row };
    row.until_ready("high", 1).await?;
    row.expect_victims(&["low"]).await?;
    up.daemon.stop().await
}
