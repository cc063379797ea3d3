//! The loss of a member and its return from the users' view: the same steps on real kube-apiservers
//! and through `ironclad up`.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use futures::StreamExt as _;
use ironclad_api::{
    cluster::Cluster,
    labels, names,
    policy::{ClusterTaintPolicy, PropagationPolicy},
    taints::NO_EXECUTE,
    work::{FailoverRecord, ResourceBinding, ResourceHealth, Work},
};
use ironclad_failover::{
    flags::EvictionFlags,
    taint_manager::rate::{Counts, State, formula},
};
use ironclad_runtime::{Traffic, client_from_kubeconfig, kubeconfig_client_config};
use ironclad_seam::{Clock, Tasks};
use ironclad_testkit::{
    binary::{Output, ironclad},
    eviction_rate,
    real::until,
    sim::script::{App, POLICY_KEY, TaintPolicy},
};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, PostParams},
    runtime::watcher,
};
use parking_lot::Mutex;
use serde_json::Value;

/// Deadline of a step, also on two busy cores with the defaults of cluster health.
pub(crate) const DEADLINE: Duration = Duration::from_secs(300);

pub(crate) const LOST: &str = "member1";

/// A fleet of three members, `member1` first, in which workloads are evicted at a rate.
pub(crate) struct Fleet {
    pub(crate) plane: Client,
    pub(crate) members: Vec<Client>,
    pub(crate) kubeconfig: String,
    pub(crate) rate: f64,
    pub(crate) workloads: usize,
}

/// Creates a client from a kubeconfig.
pub(crate) async fn client(kubeconfig: &Path, context: Option<&str>) -> anyhow::Result<Client> {
    let config = kubeconfig_client_config(kubeconfig, context).await?;
    Ok(client_from_kubeconfig(config, Arc::new(Traffic::default()))?)
}

/// Time since which each binding has a task for the lost member.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<BTreeMap<String, Timestamp>>>);

impl Fleet {
    /// Runs a verb that must succeed; returns its output.
    pub(crate) async fn verb(&self, args: &[&str]) -> anyhow::Result<String> {
        Ok(self.both(args).await?.stdout)
    }

    /// Runs a verb that must succeed; returns its output with stderr.
    pub(crate) async fn both(&self, args: &[&str]) -> anyhow::Result<Output> {
        let output = ironclad(args.iter().copied().chain(["--kubeconfig", &self.kubeconfig])).await?;
        ensure!(output.code == Some(0), "{args:?}: {output:?}");
        Ok(output)
    }

    pub(crate) async fn cluster(&self, name: &str) -> anyhow::Result<Cluster> {
        Ok(Api::<Cluster>::all(self.plane.clone()).get(name).await?)
    }

    pub(crate) async fn bindings(&self) -> anyhow::Result<Vec<ResourceBinding>> {
        let api: Api<ResourceBinding> = Api::namespaced(self.plane.clone(), "default");
        Ok(api.list(&ListParams::default()).await?.items)
    }

    fn apps(&self) -> impl Iterator<Item = App> {
        let affinity: Vec<String> = (1..=self.members.len()).map(|n| format!("member{n}")).collect();
        (1..=self.workloads).map(move |n| App { affinity: affinity.clone(), ..App::new(&format!("w{n:02}")) })
    }

    /// Waits until all members are Ready and every workload runs in `member1`, from which a policy moves it if that
    /// fails.
    pub(crate) async fn settle(&self, policy: &TaintPolicy) -> anyhow::Result<()> {
        let clusters: Api<Cluster> = Api::all(self.plane.clone());
        until("all members are Ready", DEADLINE, async || {
            let all = clusters.list(&ListParams::default()).await?.items;
            let ready = all.iter().filter(|cluster| cluster.is_ready()).count();
            ensure!(ready == self.members.len(), "{ready} of {} are Ready", self.members.len());
            Ok(())
        })
        .await?;
        Api::<ClusterTaintPolicy>::all(self.plane.clone()).create(&PostParams::default(), &policy.object()?).await?;
        self.verb(&["cordon", "member2", "member3"]).await?;
        let policies: Api<PropagationPolicy> = Api::namespaced(self.plane.clone(), "default");
        let deployments: Api<Deployment> = Api::namespaced(self.plane.clone(), "default");
        for app in self.apps() {
            policies.create(&PostParams::default(), &app.policy()?).await?;
            deployments.create(&PostParams::default(), &app.deployment()?).await?;
        }
        until("every workload runs in member1", DEADLINE, async || {
            let bindings = self.bindings().await?;
            let healthy = bindings.iter().filter(|binding| runs_only_in(binding, LOST)).count();
            ensure!(healthy == self.workloads, "{healthy} of {}", self.workloads);
            Ok(())
        })
        .await?;
        self.verb(&["uncordon", "member2", "member3"]).await?;
        Ok(())
    }

    /// Starts to record the time at which each binding first has a task.
    pub(crate) fn watch(&self, tasks: &Tasks) -> Seen {
        let (seen, clock) = (Seen::default(), Clock::system());
        let noted = seen.clone();
        let api: Api<ResourceBinding> = Api::namespaced(self.plane.clone(), "default");
        tasks.spawn("watch of bindings", async move {
            let mut events = Box::pin(watcher::watcher(api, watcher::Config::default()));
            while let Some(event) = events.next().await {
                let Ok(watcher::Event::Apply(binding) | watcher::Event::InitApply(binding)) = event else { continue };
                if binding.spec.graceful_eviction_tasks.iter().any(|task| task.from_cluster == LOST) {
                    noted.0.lock().entry(binding.name_any()).or_insert_with(|| clock.wall());
                }
            }
        });
        seen
    }

    /// Waits until the policy has tainted the lost member; returns the time.
    pub(crate) async fn tainted(&self) -> anyhow::Result<Timestamp> {
        until("the policy taints what is lost", DEADLINE, async || {
            let cluster = self.cluster(LOST).await?;
            ensure!(cluster.ready() == Some("False"), "Ready is {:?}", cluster.ready());
            let taint = cluster.spec.taints.iter().find(|t| t.key == POLICY_KEY && t.effect == NO_EXECUTE);
            Ok(taint.context("no taint of the policy")?.time_added.as_ref().context("no timeAdded")?.0)
        })
        .await
    }

    /// Waits until every workload runs elsewhere and all migrations are complete.
    pub(crate) async fn moved(&self) -> anyhow::Result<()> {
        until("every workload has another place", DEADLINE, async || {
            let bindings = self.bindings().await?;
            let moved = bindings.iter().filter(|b| b.spec.clusters.len() == 1 && b.spec.target(LOST).is_none()).count();
            ensure!(moved == self.workloads, "{moved} of {}", self.workloads);
            Ok(())
        })
        .await?;
        until("the copies run there, and the tasks are cleared", DEADLINE, async || {
            let bindings = self.bindings().await?;
            for binding in &bindings {
                let target = &binding.spec.clusters.first().context("no target")?.name;
                ensure!(runs_only_in(binding, target), "{}: {:?}", binding.name_any(), binding.status);
                ensure!(binding.spec.graceful_eviction_tasks.is_empty(), "{} has a task", binding.name_any());
            }
            Ok(())
        })
        .await?;
        let mut found = 0;
        for member in &self.members[1..] {
            let copies: Api<Deployment> = Api::namespaced(member.clone(), "default");
            let copies = copies.list(&ListParams::default()).await?.items;
            let ready = |copy: &&Deployment| copy.status.as_ref().and_then(|s| s.ready_replicas) == Some(1);
            found += copies.iter().filter(ready).count();
        }
        ensure!(found == self.workloads, "{found} ready copies in the members that are left");
        Ok(())
    }

    /// Compares recorded and observed evictions with the rate of the formula while one of the clusters is
    /// unhealthy. `begin` is the earliest time of the first eviction.
    pub(crate) async fn paced(&self, begin: Timestamp, seen: &Seen) -> anyhow::Result<()> {
        let flags = EvictionFlags { resource_eviction_rate: self.rate, ..EvictionFlags::default() };
        let (rate, state) = formula(Counts { total: self.members.len(), unhealthy: 1 }, &flags);
        ensure!(state == State::Normal, "{state:?}");
        // Recorded times have whole seconds.
        let whole = Timestamp::from_second(begin.as_second())?;
        let mut evicted = Vec::new();
        for binding in self.bindings().await? {
            let record = record(&binding)?;
            ensure!(record.reason == "TaintUntolerated" && record.original_clusters == [LOST], "{record:?}");
            let at = record.evicted_at.as_ref().context("evictedAt")?.0;
            ensure!(at >= whole, "before {begin}: {record:?}");
            evicted.push(since(whole, at));
        }
        ensure!(evicted.len() == self.workloads);
        println!(
            "evictions by what bindings record, in whole seconds\n{}",
            eviction_rate::table(&evicted, rate, self.workloads)
        );
        if let Some(found) = eviction_rate::too_fast(&evicted, rate, Duration::from_secs(1)) {
            anyhow::bail!("at {rate}/s: {found}");
        }
        // Times of the watcher may be late: the n-th eviction is at least n intervals after the first.
        let mut shown: Vec<Duration> = seen.0.lock().values().map(|at| since(begin, *at)).collect();
        shown.sort_unstable();
        ensure!(shown.len() == self.workloads, "{} tasks were seen", shown.len());
        println!("tasks by the watch\n{}", eviction_rate::table(&shown, rate, self.workloads));
        for (number, at) in shown.iter().enumerate() {
            let earliest = eviction_rate::earliest(number, rate).context("the rate is not 0")?;
            ensure!(*at >= earliest, "task {number} after {at:?}, where {earliest:?} is the earliest");
        }
        Ok(())
    }

    /// Waits until the returned member has no old copies, and checks that nothing else moves.
    pub(crate) async fn back(&self) -> anyhow::Result<()> {
        let before: BTreeMap<String, Vec<String>> = self.bindings().await?.iter().map(placed).collect();
        until("the member is Ready, and without taints", DEADLINE, async || {
            let cluster = self.cluster(LOST).await?;
            ensure!(cluster.is_ready(), "Ready is {:?}", cluster.ready());
            ensure!(cluster.spec.taints.is_empty(), "{:?}", cluster.spec.taints);
            Ok(())
        })
        .await?;
        let works: Api<Work> = Api::namespaced(self.plane.clone(), &names::execution_namespace(LOST));
        let copies: Api<Deployment> = Api::namespaced(self.members[0].clone(), "default");
        until("the old copies are deleted", DEADLINE, async || {
            let copies = copies.list(&ListParams::default()).await?.items;
            ensure!(copies.is_empty(), "{} copies are left", copies.len());
            // Other Works hold the member's impersonation rights.
            let of_bindings = ListParams::default().labels(labels::RESOURCE_BINDING_PERMANENT_ID);
            let works = works.list(&of_bindings).await?.items;
            ensure!(works.is_empty(), "{} Works are left", works.len());
            Ok(())
        })
        .await?;
        let after: BTreeMap<String, Vec<String>> = self.bindings().await?.iter().map(placed).collect();
        ensure!(before == after, "something moved back: {before:?}, {after:?}");
        self.moved().await
    }
}

fn since(begin: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(begin)).unwrap_or_default()
}

fn placed(binding: &ResourceBinding) -> (String, Vec<String>) {
    (binding.name_any(), binding.spec.clusters.iter().map(|target| target.name.clone()).collect())
}

/// Returns `true` if its result is only this cluster, with a healthy copy.
fn runs_only_in(binding: &ResourceBinding, cluster: &str) -> bool {
    let result: Vec<&str> = binding.spec.clusters.iter().map(|target| target.name.as_str()).collect();
    let status = binding.status.as_ref().map(|status| status.aggregated_status.as_slice()).unwrap_or_default();
    let healthy = |name: &str| {
        status.iter().any(|item| item.cluster_name == name && item.health == Some(ResourceHealth::Healthy))
    };
    result == [cluster] && healthy(cluster)
}

/// Returns the only migration of a binding.
fn record(binding: &ResourceBinding) -> anyhow::Result<FailoverRecord> {
    let history = binding.status.as_ref().map(|status| status.failover_history.as_slice()).unwrap_or_default();
    let [record] = history else { anyhow::bail!("{} was not moved exactly once: {history:?}", binding.name_any()) };
    Ok(record.clone())
}

pub(crate) fn rows(text: &str) -> anyhow::Result<Vec<Value>> {
    let list: Value = serde_json::from_str(text)?;
    Ok(list["items"].as_array().context("a list")?.clone())
}
