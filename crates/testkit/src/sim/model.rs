//! State of the control plane and its members, followed by watches without faults.
//!
//! Every change is applied to a [`Fleet`] and passed to the [`Checker`] at the virtual time of the write, so
//! that invariants over time are checked write by write, and reading the state costs no request.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_api::{
    annotations,
    cluster::Cluster,
    names,
    policy::{ClusterPropagationPolicy, PropagationPolicy},
    work::{ClusterResourceBinding, ResourceBinding, Work},
};
use ironclad_fleet::{BindingKey, ClusterName, Gvk, ObjectKey, PolicyKey, WorkKey, World as Fleet};
use ironclad_runtime::{Api, Change, Informer, WatchScope};
use ironclad_seam::{Clock, Seam};
use ironclad_simcluster::Member;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Node, Pod},
};
use kube::{Client, Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde::Serialize;

use super::{
    History,
    change::{Changed, Write},
    checker::{Checker, Rules, machines::Held},
    objects::CONFIG_SUFFIX,
};

#[derive(Clone)]
pub struct Model(Arc<Inner>);

struct Inner {
    clock: Clock,
    began: tokio::time::Instant,
    history: History,
    state: Mutex<State>,
}

struct State {
    fleet: Fleet,
    changes: u64,
    checker: Checker,
    broken: Vec<String>,
}

impl Model {
    /// Starts to follow the control plane. Resolves when all existing objects are known.
    pub async fn follow(plane: &Client, seam: &Seam, history: History, rules: Rules) -> Self {
        let state = State { fleet: Fleet::default(), changes: 0, checker: Checker::new(rules), broken: Vec::new() };
        let began = seam.clock.mono();
        let model = Self(Arc::new(Inner { clock: seam.clock.clone(), began, history, state: Mutex::new(state) }));
        model
            .kind::<Cluster>("clusters", plane, seam, |fleet, change| {
                let name = ClusterName::from(name_of(change).as_str());
                put(&mut fleet.clusters, name.clone(), &change.new);
                Some(Changed::Cluster { name, old: change.old.clone(), new: change.new.clone() })
            })
            .await;
        model
            .kind::<PropagationPolicy>("policies", plane, seam, |fleet, change| {
                let key = PolicyKey {
                    namespace: namespace_of(change).as_str().into(),
                    name: name_of(change).as_str().into(),
                };
                put(&mut fleet.policies, key, &change.new);
                None
            })
            .await;
        model
            .kind::<ClusterPropagationPolicy>("clusterpolicies", plane, seam, |fleet, change| {
                let key = PolicyKey { namespace: "".into(), name: name_of(change).as_str().into() };
                put(&mut fleet.cluster_policies, key, &change.new);
                None
            })
            .await;
        model
            .kind::<Deployment>("templates", plane, seam, |fleet, change| {
                let key = deployment_key(change);
                match &change.new {
                    None => drop(fleet.templates.remove(&key)),
                    Some(new) => drop(fleet.templates.insert(key, Arc::new(manifest(&**new, "apps/v1", "Deployment")))),
                }
                None
            })
            .await;
        model
            .kind::<ResourceBinding>("bindings", plane, seam, |fleet, change| {
                let key = BindingKey {
                    namespace: namespace_of(change).as_str().into(),
                    name: name_of(change).as_str().into(),
                };
                put(&mut fleet.bindings, key.clone(), &change.new);
                Some(Changed::Binding { key, old: change.old.clone(), new: change.new.clone() })
            })
            .await;
        model
            .kind::<ClusterResourceBinding>("clusterbindings", plane, seam, |fleet, change| {
                let key = BindingKey { namespace: "".into(), name: name_of(change).as_str().into() };
                put(&mut fleet.cluster_bindings, key.clone(), &change.new);
                let old = change.old.as_deref().map(as_namespaced);
                Some(Changed::Binding { key, old, new: change.new.as_deref().map(as_namespaced) })
            })
            .await;
        model
            .kind::<Work>("works", plane, seam, |fleet, change| {
                let namespace = namespace_of(change);
                let cluster = names::cluster_of_execution_namespace(&namespace).ok()?;
                let key = WorkKey { cluster: cluster.into(), name: name_of(change).as_str().into() };
                put(&mut fleet.works, key.clone(), &change.new);
                Some(Changed::Work { key, old: change.old.clone(), new: change.new.clone() })
            })
            .await;
        model
    }

    /// Follows the objects of a member, too, without its faults.
    pub async fn follow_member(&self, name: &str, member: &Member, seam: &Seam) {
        let cluster = ClusterName::from(name);
        self.0.state.lock().fleet.members.insert(cluster.clone(), BTreeMap::new());
        self.kind::<Deployment>("copies", &member.client(), seam, move |fleet, change| {
            let object = deployment_key(change);
            let copies = fleet.members.entry(cluster.clone()).or_default();
            match &change.new {
                None => drop(copies.remove(&object)),
                Some(new) => drop(copies.insert(object.clone(), Arc::new(manifest(&**new, "apps/v1", "Deployment")))),
            }
            let (before, after) = (change.old.is_some(), change.new.is_some());
            let template = any(change).and_then(|copy| copy.annotations().get(annotations::TEMPLATE_UID).cloned());
            let template = template.unwrap_or_default();
            Some(Changed::Copy { cluster: cluster.clone(), object, before, after, template })
        })
        .await;
        let cluster = ClusterName::from(name);
        self.kind::<ConfigMap>("configs", &member.client(), seam, move |_, change| {
            let workload = name_of(change).strip_suffix(CONFIG_SUFFIX).map(|workload| workload.into())?;
            let deleted = change.new.is_none();
            deleted.then(|| Changed::ConfigDeleted {
                cluster: cluster.clone(),
                namespace: namespace_of(change).as_str().into(),
                workload,
            })
        })
        .await;
        let cluster = ClusterName::from(name);
        self.kind::<Node>("nodes", &member.client(), seam, move |_, change| {
            Some(Changed::Node { cluster: cluster.clone(), name: name_of(change), new: change.new.clone() })
        })
        .await;
        let cluster = ClusterName::from(name);
        self.kind::<Pod>("pods", &member.client(), seam, move |_, change| {
            let name = format!("{}/{}", namespace_of(change), name_of(change));
            Some(Changed::Pod { cluster: cluster.clone(), name, new: change.new.as_deref().and_then(Held::of) })
        })
        .await;
    }

    async fn kind<K>(
        &self,
        name: &'static str,
        client: &Client,
        seam: &Seam,
        take: impl Fn(&mut Fleet, &Change<K>) -> Option<Changed> + Send + Sync + 'static,
    ) where
        K: ironclad_runtime::Object + Resource<DynamicType = ()>,
    {
        let informer: Informer<K> = Informer::new(&[]);
        let weak = Arc::downgrade(&self.0);
        informer.on_change(move |change| {
            let Some(inner) = weak.upgrade() else { return };
            inner.take(|fleet| take(fleet, change));
        });
        informer.start(name, seam, &seam.tasks, Api::all(client.clone()), &WatchScope::default());
        informer.synced().await;
    }

    /// Returns a copy of the current state.
    pub fn fleet(&self) -> Fleet {
        self.0.state.lock().fleet.clone()
    }

    pub fn changes(&self) -> u64 {
        self.0.state.lock().changes
    }

    /// Reads the current state without a copy.
    pub fn look<T>(&self, at: impl FnOnce(&Fleet) -> T) -> T {
        at(&self.0.state.lock().fleet)
    }

    /// Returns the invariants that the checker found broken since the last call.
    pub fn broken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.state.lock().broken)
    }

    /// Tells the checker about an event outside of the control plane.
    pub fn with_checker(&self, act: impl FnOnce(&mut Checker, Duration)) {
        let at = self.0.clock.mono() - self.0.began;
        act(&mut self.0.state.lock().checker, at);
    }

    /// Runs the checks that depend only on time.
    pub fn look_at_time(&self) {
        let (at, wall) = (self.0.clock.mono() - self.0.began, self.0.clock.wall().as_second());
        let mut state = self.0.state.lock();
        let state = &mut *state;
        if let Some(broken) = state.checker.look(at, wall, &state.fleet) {
            self.0.history.log(format!("BROKEN {broken}"));
            state.broken.push(broken);
        }
    }

    /// Converts an instant to time since the start of the world.
    pub fn since_beginning(&self, at: tokio::time::Instant) -> Duration {
        at.saturating_duration_since(self.0.began)
    }

    /// Reads the state of the checker.
    pub fn ask<T>(&self, ask: impl FnOnce(&Checker) -> T) -> T {
        ask(&self.0.state.lock().checker)
    }
}

impl Inner {
    fn take(&self, take: impl FnOnce(&mut Fleet) -> Option<Changed>) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let what = take(&mut state.fleet);
        state.changes += u64::from(what.as_ref().is_none_or(Changed::is_of_the_fleet));
        let Some(what) = what else { return };
        let write = Write { at: self.clock.mono() - self.began, wall: self.clock.wall().as_second(), what };
        for broken in state.checker.see(&write, &state.fleet) {
            self.history.log(format!("BROKEN {broken}"));
            state.broken.push(broken);
        }
    }
}

fn put<Q: Ord, K>(map: &mut BTreeMap<Q, Arc<K>>, key: Q, new: &Option<Arc<K>>) {
    match new {
        Some(new) => map.insert(key, new.clone()),
        None => map.remove(&key),
    };
}

fn any<K>(change: &Change<K>) -> Option<&Arc<K>> {
    change.new.as_ref().or(change.old.as_ref())
}

fn name_of<K: Resource>(change: &Change<K>) -> String {
    any(change).map(|object| object.name_any()).unwrap_or_default()
}

fn namespace_of<K: Resource>(change: &Change<K>) -> String {
    any(change).and_then(|object| object.namespace()).unwrap_or_default()
}

fn deployment_key(change: &Change<Deployment>) -> ObjectKey {
    ObjectKey {
        gvk: Gvk::from_manifest("apps/v1", "Deployment"),
        namespace: namespace_of(change).as_str().into(),
        name: name_of(change).as_str().into(),
    }
}

/// Returns JSON with `apiVersion` and `kind`, which typed objects of a list lack.
fn manifest(object: &impl Serialize, api_version: &str, kind: &str) -> serde_json::Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = api_version.into();
    value["kind"] = kind.into();
    value
}

fn as_namespaced(binding: &ClusterResourceBinding) -> Arc<ResourceBinding> {
    Arc::new(ResourceBinding {
        metadata: binding.metadata.clone(),
        spec: binding.spec.clone(),
        status: binding.status.clone(),
    })
}
