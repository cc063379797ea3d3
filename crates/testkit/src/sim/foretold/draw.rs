//! Draws fleets: clusters with labels and regions, workloads, and the policies that place them.

use std::time::Duration;

use anyhow::bail;
use ironclad_api::cluster::Cluster;
use ironclad_failover::flags::eviction::Check;
use ironclad_fleet::gates::Gate;
use ironclad_runtime::Api;
use ironclad_seam::{Rng, Stream};
use kube::{
    Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::Trace;
use crate::sim::{
    Setup,
    runner::{Runner, setup},
};

/// Most half minutes until every member reports its capacity.
const REPORTS_MAX: usize = 20;
/// Field manager of the user.
const USER: &str = "user";

/// Drawn fleet.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) members: usize,
    pub(super) workloads: Vec<Workload>,
    /// Policies that select several workloads.
    pub(super) broad: Vec<Value>,
}

/// Drawn workload.
#[derive(Debug, Clone)]
pub(super) struct Workload {
    pub(super) name: String,
    pub(super) deployment: Value,
    /// The ConfigMap that it mounts, if it does.
    pub(super) config: Option<Value>,
    /// The policy that names it, if there is one.
    pub(super) policy: Option<Value>,
}

/// Settings of a seed's world, with a gate of its own for every other seed.
pub(super) fn world(seed: u64) -> (Setup, Stream) {
    let draws = Rng::from_seed(seed).child("foretold").stream("draws");
    let members = 2 + draws.below(3) as usize;
    let mut setup = setup(members, 5.0);
    setup.seed = seed;
    setup.nodes = 1 + draws.below(2) as u32;
    let check = [Check::Strict, Check::Relaxed][draws.below(2) as usize];
    setup.settings.failover.eviction.pre_scheduling_check = check;
    let gates = setup.settings.gates.clone();
    setup.settings.gates = gates
        .with(Gate::WorkloadAffinity, draws.chance(0.5))
        .with(Gate::SchedulingOvercommitProtection, draws.chance(0.3));
    (setup, draws)
}

pub(super) fn fleet(draws: &Stream, members: usize) -> Fleet {
    let workloads = (1..=2 + draws.below(4)).map(|n| workload(draws, n, members)).collect();
    let mut broad = Vec::new();
    if draws.chance(0.3) {
        let selector = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
        let mut policy = policy("broad", selector, placement(draws, members));
        if draws.chance(0.5) {
            policy["kind"] = "ClusterPropagationPolicy".into();
            policy["metadata"] = json!({"name": "broad"});
        }
        broad.push(policy);
    }
    Fleet { members, workloads, broad }
}

/// Value of label `tier`, of clusters and workloads.
pub(super) fn tier(draws: &Stream) -> &'static str {
    ["gold", "silver"][draws.below(2) as usize]
}

pub(super) fn workload(draws: &Stream, n: u64, members: usize) -> Workload {
    let name = format!("w{n}");
    let labels = json!({"app": name, "tier": tier(draws)});
    let mut container = json!({"name": "app", "image": "app:1"});
    // Nodes have 8 CPUs: some fit several times, some once, some never.
    if let Some(cpu) = [None, Some("500m"), Some("3"), Some("9")].get(draws.below(9) as usize).copied().flatten() {
        container["resources"] = json!({"requests": {"cpu": cpu}});
    }
    let config = draws.chance(0.3).then(|| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("{name}-config"), "namespace": "default"}, "data": {"a": "b"}})
    });
    let volumes =
        config.iter().map(|config| json!({"name": "config", "configMap": {"name": config["metadata"]["name"]}}));
    let volumes: Vec<Value> = volumes.collect();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "replicas": 1 + draws.below(4), "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": volumes}},
        },
    });
    let policy = draws.chance(0.85).then(|| {
        let selector = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}]);
        let mut policy = policy(&name, selector, placement(draws, members));
        if config.is_some() && draws.chance(0.8) {
            policy["spec"]["propagateDeps"] = true.into();
        }
        match draws.below(12) {
            0 => policy["spec"]["suspension"] = json!({"dispatching": true}),
            1 => policy["spec"]["dependentOverrides"] = json!(["missing"]),
            2 | 3 => {
                policy["spec"]["failover"] = json!({"cluster": {"purgeMode": "Directly", "tolerationSeconds": 20}});
            }
            _ => {}
        }
        policy
    });
    Workload { name, deployment, config, policy }
}

fn policy(name: &str, selectors: Value, placement: Value) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"resourceSelectors": selectors, "placement": placement},
    })
}

/// Draws a placement; some can't be satisfied.
pub(super) fn placement(draws: &Stream, members: usize) -> Value {
    let member = || format!("member{}", 1 + draws.below(members as u64));
    let mut placement = json!({});
    match draws.below(8) {
        0 => placement["clusterAffinity"] = json!({"clusterNames": [member()]}),
        1 => placement["clusterAffinity"] = json!({"clusterNames": [member(), member()]}),
        2 => placement["clusterAffinity"] = json!({"labelSelector": {"matchLabels": {"tier": "gold"}}}),
        3 => placement["clusterAffinity"] = json!({"exclude": [member()]}),
        4 if draws.chance(0.4) => placement["clusterAffinity"] = json!({"clusterNames": ["member99"]}),
        5 => {
            placement["clusterAffinities"] = json!([
                {"affinityName": "first", "clusterNames": [member()]},
                {"affinityName": "second", "labelSelector": {"matchLabels": {"sim": "true"}}},
            ]);
        }
        _ => {}
    }
    let least = 1 + draws.below(2);
    match draws.below(6) {
        0 => {
            placement["spreadConstraints"] =
                json!([{"spreadByField": "cluster", "minGroups": least, "maxGroups": least}])
        }
        1 => placement["spreadConstraints"] = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2}]),
        2 => {
            placement["spreadConstraints"] = json!([
                {"spreadByField": "region", "minGroups": 1, "maxGroups": 1},
                {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2},
            ]);
        }
        _ => {}
    }
    match draws.below(6) {
        0 => {
            placement["replicaScheduling"] =
                json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
        }
        1 => {
            placement["replicaScheduling"] = json!({
                "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                "weightPreference": {"dynamicWeight": "AvailableReplicas"},
            });
        }
        2 => {
            let weights = json!([{"targetCluster": {"clusterNames": [member()]}, "weight": 2},
                {"targetCluster": {"clusterNames": [member()]}, "weight": 1}]);
            placement["replicaScheduling"] = json!({
                "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                "weightPreference": {"staticWeightList": weights},
            });
        }
        3 => placement["replicaScheduling"] = json!({"replicaSchedulingType": "Duplicated"}),
        _ => {}
    }
    match draws.below(8) {
        0 => placement["workloadAffinity"] = json!({"affinity": {"groupByLabelKey": "tier"}}),
        1 => placement["workloadAffinity"] = json!({"antiAffinity": {"groupByLabelKey": "tier"}}),
        _ => {}
    }
    if draws.chance(0.15) {
        placement["clusterTolerations"] = json!([{"operator": "Exists"}]);
    }
    placement
}

/// Writes of a user.
pub(super) struct User(Client);

impl User {
    pub(super) fn of(runner: &Runner) -> Self {
        Self(runner.world.user())
    }

    fn api(&self, object: &Value) -> (Api<DynamicObject>, String) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("/apiVersion"), text("/kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api = match text("/metadata/namespace") {
            "" => Api::all_with(self.0.clone(), &resource),
            namespace => Api::namespaced_with(self.0.clone(), namespace, &resource),
        };
        (api, text("/metadata/name").to_owned())
    }

    pub(super) async fn create(&self, object: &Value) -> anyhow::Result<()> {
        let (api, _) = self.api(object);
        api.create(&PostParams::default(), &serde_json::from_value(object.clone())?).await?;
        Ok(())
    }

    /// Applies a manifest as `kubectl apply --server-side` does, or shows what that would come to.
    pub(super) async fn apply(&self, object: &Value, dry_run: bool) -> anyhow::Result<Value> {
        let (api, name) = self.api(object);
        let parameters = PatchParams { dry_run, ..PatchParams::apply(USER).force() };
        let applied = api.patch(&name, &parameters, &Patch::Apply(object)).await?;
        Ok(typed(serde_json::to_value(applied)?, object))
    }

    pub(super) async fn merge(&self, object: &Value, patch: &Value) -> anyhow::Result<()> {
        let (api, name) = self.api(object);
        api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    pub(super) async fn get(&self, object: &Value) -> anyhow::Result<Option<Value>> {
        let (api, name) = self.api(object);
        let found = api.get_opt(&name).await?;
        Ok(found.map(serde_json::to_value).transpose()?.map(|found| typed(found, object)))
    }

    pub(super) async fn delete(&self, object: &Value) -> anyhow::Result<()> {
        let (api, name) = self.api(object);
        api.delete(&name, &kube::api::DeleteParams::background()).await?;
        Ok(())
    }
}

fn typed(mut object: Value, like: &Value) -> Value {
    object["apiVersion"] = like["apiVersion"].clone();
    object["kind"] = like["kind"].clone();
    object
}

/// Cluster of this name, for patches.
pub(super) fn cluster(number: u64) -> Value {
    json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": format!("member{number}")}})
}

/// Lets the fleet come to rest, with the capacity of all members known: nobody can foretell by what no member has
/// reported.
pub(super) async fn settle(runner: &mut Runner) -> anyhow::Result<()> {
    let reported = |cluster: &Cluster| {
        let summary = cluster.status.as_ref().and_then(|status| status.resource_summary.as_ref());
        summary.is_some_and(|summary| summary.allocatable.get("cpu").is_some_and(|cpu| cpu.0 != "0"))
    };
    for _ in 0..REPORTS_MAX {
        runner.world.until_still().await?;
        if runner.world.observe().await?.clusters.values().all(|cluster| reported(cluster)) {
            return Ok(());
        }
        runner.world.pass(Duration::from_secs(30)).await?;
    }
    bail!("a member never reported its capacity")
}

/// Starts the fleet: clusters get labels and regions, and policies and workloads are applied in a drawn order.
pub(super) async fn start(setup: Setup, draws: &Stream, trace: &Trace) -> anyhow::Result<(Runner, User, Fleet)> {
    let members = setup.members;
    let runner = Runner::new(setup).await?;
    let _ = trace.set(runner.world.history.clone());
    let user = User::of(&runner);
    for number in 1..=members as u64 {
        let tier = tier(draws);
        let region = ["eu", "us"][draws.below(2) as usize];
        let patch = json!({"metadata": {"labels": {"tier": tier}}, "spec": {"region": region}});
        user.merge(&cluster(number), &patch).await?;
    }
    let fleet = fleet(draws, members);
    for policy in &fleet.broad {
        user.create(policy).await?;
    }
    for workload in &fleet.workloads {
        let mut all: Vec<&Value> = workload.config.iter().chain(&workload.policy).collect();
        let place = draws.below(all.len() as u64 + 1) as usize;
        all.insert(place, &workload.deployment);
        for object in all {
            user.apply(object, false).await?;
        }
    }
    Ok((runner, user, fleet))
}
