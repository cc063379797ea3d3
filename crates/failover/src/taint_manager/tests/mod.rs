//! Rows of the behaviour table of specification/failover.md 11 that the eviction queue decides, by their numbers.

use std::collections::BTreeSet;

use ironclad_api::{
    Time, Toleration,
    annotations::{APPLIED_PLACEMENT, TAINT_OWNERS},
    policy::{
        ClusterAffinity, ClusterFailoverBehavior, FailoverBehavior, Placement, PurgeMode, ReplicaDivisionPreference,
        ReplicaSchedulingStrategy, ReplicaSchedulingType, SpreadByField, SpreadConstraint, SuspendClusters,
    },
    taints::{NO_EXECUTE, PREFER_NO_EXECUTE},
    work::{GracefulEvictionTask, ObjectReference as Resource, ResourceBinding, ResourceBindingSpec, TargetCluster},
};
use ironclad_scheduling::Peers;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::{
    flags::eviction::EvictionFlags,
    taint_manager::queue::{Place, QueueName},
    testkit::{apis, at, cluster, owned, ready, taint},
};

mod groups;
mod property;
mod rows;

const EPOCH: i64 = 1_000_000;
/// End of the warm-up: the first eviction is allowed.
const READY_AT: u64 = 100;

fn now(second: u64) -> Now {
    Now { wall: at(EPOCH + i64::try_from(second).unwrap()), mono: Duration::from_secs(second) }
}

/// Clusters, bindings and eviction queue in virtual time.
struct World {
    evictions: Evictions,
    clusters: Clusters,
    bindings: BTreeMap<BindingKey, Binding>,
    now: Now,
    /// Evictions as `second: binding <- cluster`.
    log: Vec<String>,
    /// Gate `WorkloadAffinity`.
    grouped: bool,
    /// Replicas that fit into each cluster; unknown if empty.
    room: BTreeMap<&'static str, i64>,
    /// Result of writing an eviction.
    writes: fn(&Eviction, usize) -> Outcome,
    attempts: usize,
}

fn flags(change: impl FnOnce(&mut EvictionFlags)) -> Flags {
    let mut flags = Flags::default();
    change(&mut flags.eviction);
    flags
}

impl World {
    fn new(clusters: usize) -> Self {
        Self::with(clusters, Flags::default())
    }

    fn with(clusters: usize, flags: Flags) -> Self {
        let mut world = Self {
            evictions: Evictions::new(flags, now(0)),
            clusters: Clusters::new(),
            bindings: BTreeMap::new(),
            now: now(0),
            log: Vec::new(),
            grouped: false,
            room: BTreeMap::new(),
            writes: |_, _| Outcome::Written,
            attempts: 0,
        };
        for n in 1..=clusters {
            world.join(&format!("m{n}"));
        }
        world.at(READY_AT);
        world
    }

    fn join(&mut self, name: &str) {
        self.change(name, |cluster| {
            ready(cluster, "True", 0);
            cluster.metadata.uid = Some(format!("uid-{}", cluster.metadata.name.clone().unwrap()));
            cluster.status.get_or_insert_default().api_enablements = apis(&["apps/v1", "v1"]).into();
        });
    }

    /// Sets the time without running the queue.
    fn at(&mut self, second: u64) {
        self.now = now(second);
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Cluster)) {
        let mut object =
            self.clusters.get(&ClusterName::from(name)).map_or_else(|| cluster(name), |cluster| (**cluster).clone());
        change(&mut object);
        self.clusters.insert(name.into(), Arc::new(object));
        self.notify_cluster(name);
    }

    fn notify_cluster(&mut self, name: &str) {
        let name = ClusterName::from(name);
        let cluster = self.clusters.get(&name).cloned();
        let recovering = cluster.as_ref().is_some_and(|c| crate::taint_policy::is_recovering(c, &[never()]));
        if self.evictions.cluster(&name, cluster.as_deref(), recovering.into(), self.now) {
            let on = |binding: &&Binding| binding.spec().target(&name.0).is_some();
            let found: Vec<_> = self.bindings.values().filter(on).map(|b| (name.clone(), b.clone())).collect();
            self.evictions.evaluate(found, self.now);
        }
    }

    /// Taints a cluster and sets its Ready condition to False.
    fn fail(&mut self, name: &str, effect: &str) {
        let added = self.now.wall.as_second();
        self.change(name, |cluster| {
            ready(cluster, "False", added);
            cluster.spec.taints.push(taint("k", effect, Some(added)));
        });
    }

    fn recover(&mut self, name: &str) {
        let since = self.now.wall.as_second();
        self.change(name, |cluster| {
            ready(cluster, "True", since);
            cluster.spec.taints.clear();
        });
    }

    fn put(&mut self, binding: ResourceBinding) {
        let binding = Binding::Namespaced(Arc::new(binding));
        self.bindings.insert(binding.key(), binding.clone());
        self.evictions.binding(&binding.key(), Some(&binding), self.now);
        self.notify_fellows(&binding.key());
    }

    fn peers(&self) -> Peers {
        Peers::of(self.bindings.values().filter_map(|binding| match binding {
            Binding::Namespaced(binding) => Some(&**binding),
            Binding::Cluster(_) => None,
        }))
    }

    fn notify_fellows(&mut self, key: &BindingKey) {
        for fellow in self.peers().fellows(key) {
            self.evictions.fellow_moved(&fellow, self.now);
        }
    }

    fn edit(&mut self, name: &str, edit: impl FnOnce(&mut ResourceBinding)) {
        let Binding::Namespaced(shared) = self.get(name) else { unreachable!() };
        let mut binding = (*shared).clone();
        edit(&mut binding);
        self.put(binding);
    }

    fn remove(&mut self, name: &str) {
        let key = BindingKey { namespace: "ns".into(), name: name.into() };
        self.bindings.remove(&key);
        self.evictions.binding(&key, None, self.now);
    }

    fn get(&self, name: &str) -> Binding {
        self.bindings[&BindingKey { namespace: "ns".into(), name: name.into() }].clone()
    }

    fn on(&self, name: &str) -> Vec<String> {
        self.get(name).spec().clusters.iter().map(|target| target.name.clone()).collect()
    }

    fn tasks(&self, name: &str) -> Vec<GracefulEvictionTask> {
        self.get(name).spec().graceful_eviction_tasks.clone()
    }

    /// Runs the queue up to this second, inclusive.
    fn run(&mut self, until: u64) -> &mut Self {
        let end = now(until);
        for _ in 0..100_000 {
            let bindings = &self.bindings;
            let peers = self.grouped.then(|| self.peers());
            let room = &self.room;
            let available = |_: &ResourceBindingSpec, cluster: &ClusterName| room.get(&*cluster.0).copied();
            let around = Surroundings { clusters: &self.clusters, available: Some(&available), peers: peers.as_ref() };
            match self.evictions.next_in(around, |key| bindings.get(key).cloned(), self.now) {
                Next::Evict(eviction) => self.write(&eviction),
                Next::Again => {}
                Next::Wait(Some(at)) if at <= end.mono => {
                    let at = at.max(self.now.mono);
                    self.now = Now { wall: self.now.wall_at(at), mono: at };
                }
                Next::Wait(_) => {
                    self.now = end;
                    return self;
                }
            }
        }
        panic!("no progress at {:?}", self.now);
    }

    fn write(&mut self, eviction: &Eviction) {
        self.attempts += 1;
        let outcome = (self.writes)(eviction, self.attempts);
        if outcome == Outcome::Written {
            let second = self.now.mono.as_millis() / 1000;
            self.log.push(format!("{second}: {} <- {}", eviction.key.binding.name, eviction.key.cluster));
            let key = eviction.key.binding.clone();
            let Binding::Namespaced(shared) = self.bindings[&key].clone() else { unreachable!() };
            let mut object = serde_json::to_value(&*shared).unwrap();
            merge(&mut object, &eviction.patch);
            let mut binding: ResourceBinding = serde_json::from_value(object).unwrap();
            binding.metadata.generation = Some(binding.metadata.generation.unwrap_or(0) + 1);
            let binding = Binding::Namespaced(Arc::new(binding));
            self.bindings.insert(key.clone(), binding.clone());
            self.evictions.binding(&key, Some(&binding), self.now);
            self.notify_fellows(&key);
        }
        if self.evictions.done(eviction, &outcome, self.now) {
            let binding = self.bindings.get(&eviction.key.binding).cloned();
            self.evictions.binding(&eviction.key.binding, binding.as_ref(), self.now);
        }
    }

    fn evicted(&self) -> usize {
        self.log.len()
    }

    fn reasons(&mut self) -> Vec<(String, &'static str)> {
        self.evictions.take_events().into_iter().map(|event| (event.about.name, event.reason)).collect()
    }

    /// Replaces the queue by that of a new leader.
    fn restart(&mut self) {
        let flags = self.evictions.flags().clone();
        self.evictions = Evictions::new(flags, self.now);
        let mut faulty = Vec::new();
        for (name, cluster) in &self.clusters {
            if self.evictions.cluster(name, Some(cluster), Recovering::No, self.now) {
                faulty.push(name.clone());
            }
        }
        let found: Vec<_> = faulty
            .iter()
            .flat_map(|name| {
                self.bindings.values().filter(|b| b.spec().target(&name.0).is_some()).map(|b| (name.clone(), b.clone()))
            })
            .collect();
        self.evictions.evaluate(found, self.now);
    }
}

fn never() -> Arc<ironclad_api::policy::ClusterTaintPolicy> {
    let condition = ironclad_api::policy::MatchCondition {
        condition_type: "Ready".into(),
        operator: "In".into(),
        status_values: vec!["False".into()],
    };
    let item = |effect: &str| ironclad_api::policy::TaintToAdd {
        key: "k".into(),
        effect: effect.into(),
        ..Default::default()
    };
    let spec = ironclad_api::policy::ClusterTaintPolicySpec {
        match_conditions: vec![condition],
        taints_to_add: vec![item(NO_EXECUTE), item(PREFER_NO_EXECUTE)],
        ..Default::default()
    };
    Arc::new(ironclad_api::policy::ClusterTaintPolicy::new("p", spec))
}

fn merge(value: &mut Value, patch: &Value) {
    let (Value::Object(fields), Value::Object(changes)) = (&mut *value, patch) else {
        *value = patch.clone();
        return;
    };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}

/// Binding of a Deployment that is duplicated to these clusters, with `maxGroups` 1.
fn dup(name: &str, on: &[&str]) -> ResourceBinding {
    let spread = SpreadConstraint {
        spread_by_field: Some(SpreadByField::Cluster),
        min_groups: 1,
        max_groups: 1,
        ..SpreadConstraint::default()
    };
    let mut binding = ResourceBinding::new(name, ResourceBindingSpec::default());
    binding.metadata.namespace = Some("ns".into());
    binding.metadata.uid = Some(format!("uid-{name}"));
    binding.metadata.labels = Some(owned());
    binding.metadata.generation = Some(1);
    binding.metadata.creation_timestamp = Some(Time(at(0)));
    binding.spec = ResourceBindingSpec {
        resource: Resource {
            api_version: "apps/v1".into(),
            kind: "Thing".into(),
            namespace: "ns".into(),
            name: name.into(),
            uid: format!("template-{name}"),
            ..Resource::default()
        },
        replicas: 1,
        clusters: on.iter().map(|name| target(name, 1)).collect(),
        placement: Some(Placement { spread_constraints: vec![spread], ..Placement::default() }.into()),
        ..ResourceBindingSpec::default()
    };
    binding
}

/// Binding of a Deployment that is divided among these clusters.
fn div(name: &str, on: &[(&str, i32)]) -> ResourceBinding {
    let mut binding = dup(name, &[]);
    binding.spec.clusters = on.iter().map(|(name, replicas)| target(name, *replicas)).collect();
    binding.spec.replicas = on.iter().map(|(_, replicas)| replicas).sum();
    binding.spec.placement = Some(
        Placement {
            replica_scheduling: Some(ReplicaSchedulingStrategy {
                replica_scheduling_type: Some(ReplicaSchedulingType::Divided),
                ..ReplicaSchedulingStrategy::default()
            }),
            ..Placement::default()
        }
        .into(),
    );
    binding
}

fn target(name: &str, replicas: i32) -> TargetCluster {
    TargetCluster { name: name.to_owned(), replicas, components: vec![] }
}

fn with(mut binding: ResourceBinding, change: impl FnOnce(&mut ResourceBindingSpec)) -> ResourceBinding {
    change(&mut binding.spec);
    binding
}

fn only(binding: ResourceBinding, names: &[&str]) -> ResourceBinding {
    with(binding, |spec| {
        let cluster_names = names.iter().map(|name| (*name).to_owned()).collect();
        let affinity = ClusterAffinity { cluster_names, ..ClusterAffinity::default() };
        spec.placement.as_mut().unwrap().cluster_affinity = Some(affinity);
    })
}

fn tolerating(binding: ResourceBinding, seconds: Option<i64>) -> ResourceBinding {
    let mut binding = with(binding, |spec| {
        let toleration = Toleration {
            key: Some("k".into()),
            operator: Some("Exists".into()),
            toleration_seconds: seconds,
            ..Toleration::default()
        };
        spec.placement.as_mut().unwrap().cluster_tolerations = vec![toleration];
    });
    let text = serde_json::to_string(binding.spec.placement.as_ref().unwrap()).unwrap();
    binding.metadata.annotations = Some([(APPLIED_PLACEMENT.to_owned(), text)].into());
    binding
}

fn failing_over(binding: ResourceBinding, mode: Option<PurgeMode>, seconds: Option<i32>) -> ResourceBinding {
    let cluster = ClusterFailoverBehavior { purge_mode: mode, toleration_seconds: seconds, state_preservation: None };
    with(binding, |spec| spec.failover = Some(FailoverBehavior { application: None, cluster: Some(cluster) }.into()))
}
