//! Tests of preemption: the worked examples of the specification, properties, and the rules around a plan.

mod by_node;
mod examples;
mod held;
mod nominations;
mod oracle;
mod rules;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_api::{
    Condition, Time,
    cluster::Cluster,
    conditions::{self, TRUE, cluster::READY},
    policy::{Placement, SpreadByField},
    work::{
        Component, PreemptionPolicy, ReplicaRequirements, ResolvedPriority, ResourceBinding, ResourceBindingStatus,
    },
};
use ironclad_fleet::{BindingRef, ClusterName, Clusters};
use serde_json::{Value, json};

use super::{Mode, Outcome, Placed, Plan, Preempting, Preemptors};
use crate::{
    Available, Capacity, Decision, Options, Peers, Seen, Since,
    capacity::Modelling,
    estimator::{Claim, Node, Pod, Quota, Workload},
    testkit::{applied, at, binding, cluster, decide_both, dynamic, merge, spread},
};

/// A fleet with what runs in it.
#[derive(Debug, Clone, Default)]
struct World {
    clusters: Clusters,
    bindings: Vec<ResourceBinding>,
    preemptors: Preemptors,
    options: Options,
    /// Message of a quota that refuses what the pending binding lacks.
    over_quota: Option<&'static str>,
    /// Evictions are paused.
    paused: bool,
    /// Nodes by name and pods of the clusters where they are watched.
    watched: BTreeMap<ClusterName, (Vec<(String, Node)>, Vec<Pod>)>,
    /// The rest of a quota of namespace `default` in each of these clusters.
    quota: Option<Quota>,
    /// Bindings whose results are promised.
    promised: Vec<&'static str>,
    /// Seconds since the process started; `None` if that is long ago.
    started: Option<u64>,
}

/// Amounts as `[("cpu", "4")]`.
type Request<'a> = &'a [(&'a str, &'a str)];

fn list(rows: Request<'_>) -> Value {
    rows.iter().map(|(name, amount)| ((*name).to_owned(), json!(amount))).collect::<serde_json::Map<_, _>>().into()
}

fn requirements(rows: Request<'_>) -> ReplicaRequirements {
    ReplicaRequirements { resource_request: serde_json::from_value(list(rows)).unwrap(), ..Default::default() }
}

fn ready() -> Condition {
    conditions::condition(READY, TRUE, "ClusterReady", "")
}

/// Binding of this name and priority; each replica requests this much.
fn workload(name: &str, priority: i32, replicas: i32, request: Request<'_>, on: &[(&str, i32)]) -> ResourceBinding {
    let mut binding = binding(name, replicas, on);
    binding.metadata.name = Some(name.to_owned());
    binding.spec.placement = Some(dynamic().into());
    binding.spec.replica_requirements = Some(requirements(request).into());
    binding.spec.schedule_priority =
        Some(ResolvedPriority { priority, preemption_policy: Some(PreemptionPolicy::Never) });
    binding.status =
        Some(ResourceBindingStatus { last_scheduled_time: Some(Time(at(0))), ..ResourceBindingStatus::default() });
    binding
}

/// Pending binding `p` that preempts.
fn preemptor(priority: i32, replicas: i32, request: Request<'_>) -> ResourceBinding {
    let mut pending = workload("p", priority, replicas, request, &[]);
    pending.spec.schedule_priority =
        Some(ResolvedPriority { priority, preemption_policy: Some(PreemptionPolicy::PreemptLowerPriority) });
    pending
}

/// The placement that puts everything on one cluster.
fn one_cluster() -> Placement {
    Placement { spread_constraints: vec![spread(SpreadByField::Cluster, 1, 1)], ..dynamic() }
}

/// Component set with one template by row: name, replicas and request.
fn set(mut binding: ResourceBinding, rows: &[(&str, i32, Request<'_>)]) -> ResourceBinding {
    let component = |(name, replicas, request): &(&str, i32, Request<'_>)| Component {
        name: (*name).to_owned(),
        replicas: *replicas,
        replica_requirements: Some(serde_json::from_value(json!({ "resourceRequest": list(request) })).unwrap()),
    };
    binding.spec.components = rows.iter().map(component).collect();
    binding.spec.replica_requirements = None;
    binding.spec.replicas = 0;
    binding.spec.placement = Some(one_cluster().into());
    binding
}

impl World {
    fn new() -> Self {
        let options = Options { preempts: true, component_scheduling: true, ..Options::default() };
        Self { options, ..Self::default() }
    }

    /// Adds a ready cluster whose free amounts, beside what runs there, are these.
    fn cluster(mut self, name: &str, free: Request<'_>) -> Self {
        let mut cluster: Cluster = cluster(name);
        let status = cluster.status.as_mut().unwrap();
        status.conditions = vec![ready()];
        // 100 of each resource are taken.
        let taken: Vec<(&str, String)> = free
            .iter()
            .map(|(name, amount)| (*name, format!("100{}", amount.trim_start_matches(|c: char| c.is_ascii_digit()))))
            .collect();
        let all: Vec<(&str, String)> = free
            .iter()
            .map(|(name, amount)| {
                let unit = amount.trim_start_matches(|c: char| c.is_ascii_digit());
                let count: i64 = amount.trim_end_matches(unit).parse().unwrap();
                (*name, format!("{}{unit}", count + 100))
            })
            .chain([("pods", "1000".to_owned())])
            .collect();
        let list = |rows: &[(&str, String)]| -> Value {
            rows.iter()
                .map(|(name, amount)| ((*name).to_owned(), json!(amount)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let summary = json!({ "allocatable": list(&all), "allocated": list(&taken) });
        status.resource_summary = serde_json::from_value(summary).unwrap();
        self.clusters.insert(name.into(), Arc::new(cluster));
        self
    }

    /// Adds a binding that runs.
    fn running(mut self, binding: ResourceBinding) -> Self {
        self.bindings.push(binding);
        self
    }

    /// Adds bindings of one pod with a request of cpu on this cluster: name, priority, and cores.
    fn cores(self, on: &str, rows: &[(&str, i32, &str)]) -> Self {
        rows.iter().fold(self, |world, (name, priority, cores)| {
            world.running(workload(name, *priority, 1, &[("cpu", cores)], &[(on, 1)]))
        })
    }

    /// Adds a ready cluster whose nodes and pods are watched: names of nodes, and their cores. By its summary and
    /// models nothing fits.
    fn watched(mut self, name: &str, nodes: &[(&str, i64)]) -> Self {
        self = self.cluster(name, &[("cpu", "0")]);
        let cluster = Arc::make_mut(self.clusters.get_mut(&name.into()).unwrap());
        let grades = json!([{"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "1"}]}]);
        cluster.spec.resource_models = serde_json::from_value(grades).unwrap();
        let summary = cluster.status.as_mut().unwrap().resource_summary.as_mut().unwrap();
        let counts = json!([{"grade": 0, "count": nodes.len()}]);
        summary.allocatable_modelings = serde_json::from_value(counts).unwrap();
        let node = |(name, cores): &(&str, i64)| {
            let allocatable = [("cpu".to_owned(), cores * 1_000), ("pods".to_owned(), 110)].into_iter().collect();
            ((*name).to_owned(), Node { allocatable, ..Node::default() })
        };
        self.watched.insert(name.into(), (nodes.iter().map(node).collect(), Vec::new()));
        self
    }

    /// Adds bindings of one pod that run on this node: name, priority, and cores.
    fn on_node(self, cluster: &str, node: &str, rows: &[(&str, i32, i64)]) -> Self {
        rows.iter().fold(self, |world, (name, priority, cores)| {
            world.cores(cluster, &[(name, *priority, &cores.to_string())]).pod(cluster, node, name, *cores)
        })
    }

    /// Adds a pod of a binding.
    fn pod(mut self, cluster: &str, node: &str, of: &str, cores: i64) -> Self {
        let pod = Pod {
            node: node.into(),
            request: [("cpu".to_owned(), cores * 1_000)].into_iter().collect(),
            workload: Workload::new("Deployment", "default", of),
            is_replica: true,
            ..Pod::default()
        };
        self.watched.get_mut(&cluster.into()).unwrap().1.push(pod);
        self
    }

    /// Adds a pod of a binding that waits for a node.
    fn waits(mut self, cluster: &str, of: &str, cores: i64) -> Self {
        self = self.pod(cluster, "", of, cores);
        let pods = &mut self.watched.get_mut(&cluster.into()).unwrap().1;
        let name = format!("default/{of}-{}", pods.len());
        pods.last_mut().unwrap().waiting = Some(Box::new((name, Claim::default())));
        self
    }

    /// Pods of a binding in all clusters.
    fn pods_of<'w>(&'w mut self, name: &str) -> impl Iterator<Item = &'w mut Pod> {
        let workload = Workload::new("Deployment", "default", name);
        self.watched.values_mut().flat_map(|(_, pods)| pods).filter(move |pod| pod.workload == workload)
    }

    /// Carries out the plan of a preemptor: it is nominated, and its victims are evicted. Their pods stay.
    fn preempt(&mut self, pending: &ResourceBinding, now: i64) -> Vec<String> {
        let decision = self.decide(pending, now);
        let Some(Outcome::Nominated(plan)) = decision.preemption.clone() else {
            panic!("no plan: {:?}", decision.preemption);
        };
        let key = BindingRef::from(pending).key();
        let generation = pending.metadata.generation.unwrap();
        self.preemptors.record(&key, generation, &Outcome::Nominated(plan.clone()), at(now));
        self.preemptors.all_evicted(&key);
        for victim in &plan.victims {
            let binding = self.bindings.iter_mut().find(|binding| BindingRef::from(&**binding).key() == victim.key);
            let binding = binding.unwrap();
            let eviction = super::evict(binding, [victim], pending.into(), at(now)).unwrap().unwrap();
            let mut object = serde_json::to_value(&*binding).unwrap();
            merge(&mut object, &eviction.patch);
            *binding = serde_json::from_value(object).unwrap();
        }
        let waiting = applied(pending, &decision);
        match self.bindings.iter_mut().find(|binding| BindingRef::from(&**binding).key() == key) {
            Some(known) => *known = waiting,
            None => self.bindings.push(waiting),
        }
        plan.victims.iter().map(|victim| victim.key.name.to_string()).collect()
    }

    /// A binding as it is now.
    fn binding(&self, name: &str) -> &ResourceBinding {
        self.bindings.iter().find(|binding| binding.metadata.name.as_deref() == Some(name)).unwrap()
    }

    /// The account of the clusters' capacity.
    fn capacity(&self) -> Capacity {
        let mut capacity = Capacity::new(Modelling::On, Duration::from_secs(10));
        if let Some(seconds) = self.started {
            capacity.starts(Duration::ZERO);
            capacity.expire(Duration::from_secs(seconds));
        }
        for (name, cluster) in &self.clusters {
            capacity.cluster(name, None, Some(cluster));
        }
        for (name, (nodes, pods)) in &self.watched {
            capacity.lists(name);
            for (node, fields) in nodes {
                capacity.node(name, node, Some(fields.clone()));
            }
            for pod in pods {
                capacity.pod(name, None, Some(pod), Duration::ZERO);
            }
            capacity.quota(name, "default", "quota", self.quota.clone());
            capacity.listed(name);
        }
        for binding in &self.bindings {
            let nominated = binding.status.as_ref().map_or(&[][..], |status| &status.nominated_clusters);
            capacity.nominate(binding, nominated, &self.options);
            capacity.observed(binding.into(), &binding.spec, &self.options, Duration::ZERO);
            if self.promised.contains(&binding.metadata.name.as_deref().unwrap()) {
                let mut before = binding.clone();
                before.spec.clusters.clear();
                capacity.assigned((&before).into(), &binding.spec.clusters, &self.options, Duration::ZERO);
            }
        }
        capacity
    }

    fn decide(&self, pending: &ResourceBinding, now: i64) -> Decision {
        let placed = Placed::of(&self.bindings);
        let capacity = self.capacity();
        let peers = self.options.workload_affinity.then(|| Peers::of(self.bindings.iter().chain([pending])));
        decide_both(
            &Seen {
                binding: pending.into(),
                clusters: &self.clusters,
                available: &Available::new(),
                capacity: &capacity,
                options: &self.options,
                since: Since::default(),
                preempting: Some(Preempting {
                    placed: &placed,
                    preemptors: &self.preemptors,
                    over_quota: self.over_quota,
                    paused: self.paused,
                }),
                peers: peers.as_ref(),
                index: None,
            },
            now,
        )
    }

    fn plan(&self, pending: &ResourceBinding) -> Option<Plan> {
        match self.decide(pending, 1_000).preemption {
            Some(Outcome::Nominated(plan)) => Some(plan),
            _ => None,
        }
    }

    /// The victims of a plan as `name@cluster`.
    fn victims(&self, pending: &ResourceBinding) -> Vec<String> {
        let plan = self.plan(pending);
        plan.iter().flat_map(|plan| &plan.victims).map(|v| format!("{}@{}", v.key.name, v.cluster)).collect()
    }
}
