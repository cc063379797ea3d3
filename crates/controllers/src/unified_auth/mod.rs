//! The unified auth controller: copies the control plane's RBAC of the proxy into members
//! (specification/propagation.md 23). It writes two Works for each cluster.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{cluster::Cluster, names, work::Work};
use ironclad_fleet::ClusterName;
use ironclad_propagation::{
    new_ids::NewIds,
    unified_auth::{self, Rbac, Rule, Seen, Subject},
    wakes,
};
use ironclad_runtime::{Change, Failure, Informer, Next, Queue};
use ironclad_seam::Seam;
use k8s_openapi::api::{
    core::v1::Namespace,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::ResourceExt as _;
use parking_lot::Mutex;

use crate::{
    caches::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES},
    controller::{Controller, Reconciler},
    events::Events,
    index::cluster_of,
    owned::OwnedWorks,
    setup::{Setup, on_change},
};

struct UnifiedAuth {
    seam: Seam,
    queue: Queue<ClusterName>,
    clusters: Informer<Cluster>,
    namespaces: Informer<Namespace>,
    works: Informer<Work>,
    roles: Informer<ClusterRole>,
    role_bindings: Informer<ClusterRoleBinding>,
    owned: OwnedWorks,
    events: Events,
    /// The failure that was last reported, by cluster.
    reported: Mutex<BTreeMap<ClusterName, String>>,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let this = Arc::new(UnifiedAuth {
        seam: setup.seam.clone(),
        queue: setup.queue(UnifiedAuth::NAME),
        clusters: setup.clusters().clone(),
        namespaces: setup.caches.take(&NAMESPACES),
        works: setup.works(),
        roles: setup.caches.take(&CLUSTER_ROLES),
        role_bindings: setup.caches.take(&CLUSTER_ROLE_BINDINGS),
        owned: OwnedWorks::new(setup, "unifiedAuth"),
        events: setup.events.clone(),
        reported: Mutex::default(),
    });
    on_change(&this.namespaces, &this, UnifiedAuth::on_namespace);
    on_change(setup.clusters(), &this, UnifiedAuth::on_cluster);
    on_change(&setup.works(), &this, UnifiedAuth::on_work);
    on_change(&this.roles, &this, UnifiedAuth::on_role);
    on_change(&this.role_bindings, &this, UnifiedAuth::on_role_binding);
    this
}

impl Reconciler for UnifiedAuth {
    type Key = ClusterName;
    const NAME: &'static str = "unifiedAuth";
    /// Clusters that are reconciled at once.
    const WORKERS: usize = 1;

    fn queue(&self) -> &Queue<ClusterName> {
        &self.queue
    }

    async fn reconcile(&self, name: &ClusterName) -> Result<Next, Failure> {
        let space = names::execution_namespace(&name.0);
        let (Some(cluster), Some(_)) = (self.clusters.get("", &name.0), self.namespaces.get("", &space)) else {
            return Ok(Next::Forget);
        };
        let works: Vec<Arc<Work>> =
            unified_auth::keys(name).iter().filter_map(|key| self.works.get(&space, &key.name)).collect();
        let rbac = self.rbac();
        let ids = NewIds::from(self.seam.rng.uuid());
        let plan = unified_auth::decide(&Seen { cluster: &cluster, rbac: &rbac, works: &works }, ids);
        let mut outcome = Ok(());
        for write in plan.effects {
            outcome = self.owned.send(&works, write).await;
            if outcome.is_err() {
                break;
            }
        }
        self.report(&cluster, outcome.as_ref().err());
        outcome.map(|()| Next::Forget)
    }
}

impl UnifiedAuth {
    fn report(&self, cluster: &Cluster, failure: Option<&Failure>) {
        // Somebody wrote in between, and the next reconcile sees it: people can do nothing about it.
        if matches!(failure, Some(Failure::Conflict(_) | Failure::AlreadyExists(_))) {
            return;
        }
        let name = ClusterName::from(cluster.name_any().as_str());
        let failure = failure.map(ToString::to_string);
        let mut reported = self.reported.lock();
        let event = unified_auth::sync_event(cluster, failure.as_deref(), reported.get(&name).map(String::as_str));
        event.iter().for_each(|event| self.events.record(event));
        match failure {
            Some(failure) => reported.insert(name, failure),
            None => reported.remove(&name),
        };
    }

    /// The RBAC of the control plane, as the decision takes it.
    fn rbac(&self) -> Rbac {
        Rbac {
            roles: self.roles.list().iter().map(|role| (role.name_any(), rules(role))).collect(),
            bindings: self.role_bindings.list().iter().map(|binding| grant(binding)).collect(),
        }
    }

    /// A new execution space can have Works.
    fn on_namespace(&self, change: &Change<Namespace>) {
        let (old, new) = (change.old.as_ref().map(|old| &old.metadata), change.new.as_ref().map(|new| &new.metadata));
        if let Some(cluster) = wakes::changes::new_space(old, new) {
            self.queue.add(cluster.into());
        }
    }

    /// A joined cluster, or other credentials.
    fn on_cluster(&self, change: &Change<Cluster>) {
        if let Some(new) = &change.new
            && wakes::changes::work(change.old.as_ref().map(|c| &c.metadata), &new.metadata)
        {
            self.queue.add(new.name_any().as_str().into());
        }
    }

    fn on_role(&self, change: &Change<ClusterRole>) {
        let of = |role: &Option<Arc<ClusterRole>>| role.as_deref().map(rules).unwrap_or_default();
        if wakes::unified_auth::role(&of(&change.old), &of(&change.new)) {
            self.enqueue_all();
        }
    }

    fn on_role_binding(&self, change: &Change<ClusterRoleBinding>) {
        let of = |binding: &Option<Arc<ClusterRoleBinding>>| binding.as_deref().map(grant).unwrap_or_default();
        if wakes::unified_auth::role_binding(&of(&change.old), &of(&change.new)) {
            self.enqueue_all();
        }
    }

    /// One of its Works was deleted or changed by somebody else.
    fn on_work(&self, change: &Change<Work>) {
        let Some(old) = change.old.as_deref().filter(|_| !change.ours) else { return };
        let Some(cluster) = cluster_of(old) else { return };
        if wakes::unified_auth::work(&cluster, old, change.new.as_deref()) {
            self.queue.add(cluster);
        }
    }

    fn enqueue_all(&self) {
        for cluster in self.clusters.list() {
            if unified_auth::impersonator(&cluster).is_some() {
                self.queue.add_low_priority(cluster.name_any().as_str().into());
            }
        }
    }
}

/// The role of a ClusterRoleBinding with its subjects.
fn grant(binding: &ClusterRoleBinding) -> (String, Vec<Subject>) {
    (binding.role_ref.name.clone(), subjects(binding))
}

fn rules(role: &ClusterRole) -> Vec<Rule> {
    let rules = role.rules.iter().flatten();
    rules
        .map(|rule| Rule {
            groups: rule.api_groups.clone().unwrap_or_default(),
            resources: rule.resources.clone().unwrap_or_default(),
            names: rule.resource_names.clone().unwrap_or_default(),
        })
        .collect()
}

fn subjects(binding: &ClusterRoleBinding) -> Vec<Subject> {
    let subjects = binding.subjects.iter().flatten();
    subjects
        .map(|subject| Subject {
            kind: subject.kind.clone(),
            namespace: subject.namespace.clone().unwrap_or_default(),
            name: subject.name.clone(),
        })
        .collect()
}
