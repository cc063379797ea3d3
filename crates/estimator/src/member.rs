//! The figures that an estimator computes from the shared caches of one member.

use std::{fmt, sync::Arc};

use ironclad_members::{
    BY_BINDING_WITHOUT_NODE, NODES, Node, PODS, Pod, REPLICA_SETS, RESOURCE_QUOTAS, ReplicaSet, ResourceQuota,
};
use ironclad_runtime::{Caches, Change, Informer};
use ironclad_scheduling::estimator::{EstimatePart, Index, Pending, Question, Quota, SetPart, Workload};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use parking_lot::Mutex;

/// Parts that are computed beside the plain caches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Free capacity per node, for an estimator that is a server of its own.
    pub capacity: bool,
    /// ResourceQuotas.
    pub quotas: bool,
    /// Unschedulable replicas of Deployments.
    pub unschedulable: bool,
}

/// Nodes and pods of one member, and what is computed from them.
pub struct Member {
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    replica_sets: Option<Informer<ReplicaSet>>,
    quotas: Option<Informer<ResourceQuota>>,
    needs: Needs,
    index: Mutex<Index>,
    pending: Mutex<Pending>,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("needs", &self.needs).finish_non_exhaustive()
    }
}

impl Member {
    /// Takes what it needs of these caches.
    #[must_use]
    pub fn new(needs: Needs, caches: &Caches) -> Arc<Self> {
        let this = Arc::new(Self {
            nodes: caches.take(&NODES),
            pods: caches.take(&PODS),
            replica_sets: needs.unschedulable.then(|| caches.take(&REPLICA_SETS)),
            quotas: needs.quotas.then(|| caches.take(&RESOURCE_QUOTAS)),
            needs,
            index: Mutex::default(),
            pending: Mutex::default(),
        });
        if needs.capacity {
            this.follow(&this.nodes, Self::on_node);
            this.on_quota({
                let weak = Arc::downgrade(&this);
                move |namespace, name, free| {
                    if let Some(this) = weak.upgrade() {
                        this.index.lock().quota(namespace, name, free);
                    }
                }
            });
        }
        if needs.capacity || needs.unschedulable {
            this.follow(&this.pods, Self::on_pod);
        }
        if let Some(replica_sets) = &this.replica_sets {
            this.follow(replica_sets, Self::on_replica_set);
        }
        this
    }

    fn follow<K: ironclad_runtime::Object>(self: &Arc<Self>, informer: &Informer<K>, handler: fn(&Self, &Change<K>)) {
        let weak = Arc::downgrade(self);
        informer.on_change(move |change| {
            if let Some(this) = weak.upgrade() {
                handler(&this, change);
            }
        });
    }

    #[must_use]
    pub fn nodes(&self) -> &Informer<Node> {
        &self.nodes
    }

    #[must_use]
    pub fn pods(&self) -> &Informer<Pod> {
        &self.pods
    }

    /// Pods for which the scheduler finds no node, of the workload that the binding of this namespace and name has, in
    /// order of their names.
    #[must_use]
    pub fn without_node(&self, namespace: &str, binding: &str) -> Vec<Arc<Pod>> {
        self.pods.by_index(BY_BINDING_WITHOUT_NODE, &format!("{namespace}/{binding}"))
    }

    /// Calls this for each ResourceQuota that was added, changed or (`None`) removed, with its namespace, its name and
    /// the part of it that is not used. It must not wait.
    pub fn on_quota(&self, handler: impl Fn(&str, &str, Option<Quota>) + Send + Sync + 'static) {
        let Some(quotas) = &self.quotas else { return };
        quotas.on_change(move |change| {
            let Some(quota) = change.new.as_ref().or(change.old.as_ref()) else { return };
            let free = change.new.as_ref().map(|quota| quota.free());
            handler(&quota.namespace().unwrap_or_default(), &quota.name_any(), free);
        });
    }

    /// Index of the cached nodes, pods and quotas, counted anew.
    #[must_use]
    pub fn recount(&self) -> Index {
        let mut index = Index::default();
        for node in self.nodes.list() {
            index.node(&node.name_any(), Some(node.capacity()));
        }
        for pod in self.pods.list() {
            index.pod(None, Some(&pod.observed()));
        }
        for quota in self.quotas.iter().flat_map(Informer::list) {
            index.quota(&quota.namespace().unwrap_or_default(), &quota.name_any(), Some(quota.free()));
        }
        index
    }

    /// Waits until the first lists are complete.
    pub async fn synced(&self) {
        self.nodes.synced().await;
        self.pods.synced().await;
        if let Some(replica_sets) = &self.replica_sets {
            replica_sets.synced().await;
        }
        if let Some(quotas) = self.awaited_quotas() {
            quotas.synced().await;
        }
    }

    /// The quotas, if answers wait for them. The account of a cluster does not: a member may refuse to list them.
    fn awaited_quotas(&self) -> Option<&Informer<ResourceQuota>> {
        self.quotas.as_ref().filter(|_| self.needs.capacity)
    }

    /// True once the first lists are complete.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.nodes.is_synced()
            && self.pods.is_synced()
            && self.replica_sets.as_ref().is_none_or(Informer::is_synced)
            && self.awaited_quotas().is_none_or(Informer::is_synced)
    }

    /// Further replicas or sets that fit; `None` while the first lists are incomplete.
    #[must_use]
    pub fn fits(&self, question: &Question) -> Option<i64> {
        self.fits_beside(question, &[], &mut |_| {})
    }

    /// The same beside assumed workloads that are named with the question: one set of each. `ended` is called as each
    /// part of the estimate ends.
    pub fn fits_beside(
        &self,
        question: &Question,
        assumed: &[(String, Vec<SetPart>)],
        ended: &mut dyn FnMut(EstimatePart),
    ) -> Option<i64> {
        if !self.needs.capacity || !self.is_synced() {
            return None;
        }
        let mut index = self.index.lock();
        let key = |at: usize| format!("asked/{at}");
        for (at, (namespace, parts)) in assumed.iter().enumerate() {
            index.expect(&key(at), Workload::NONE, namespace, Some((parts.clone(), 1)));
        }
        let fits = index.fits_observed(question, ended);
        for at in 0..assumed.len() {
            index.expect(&key(at), Workload::NONE, "", None);
        }
        Some(fits)
    }

    /// Replicas of a Deployment that have been unschedulable for longer than the threshold; `None` while the first
    /// lists are incomplete.
    #[must_use]
    pub fn unschedulable(
        &self,
        namespace: &str,
        deployment: &str,
        threshold: SignedDuration,
        now: Timestamp,
    ) -> Option<i32> {
        let answers = self.needs.unschedulable && self.is_synced();
        answers.then(|| self.pending.lock().unschedulable(namespace, deployment, threshold, now))
    }

    fn on_node(&self, change: &Change<Node>) {
        let Some(node) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let capacity = change.new.as_ref().map(|node| node.capacity());
        self.index.lock().node(&node.name_any(), capacity);
    }

    fn on_pod(&self, change: &Change<Pod>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(pod) = new.or(old) else { return };
        if self.needs.capacity {
            let (old, new) = (old.and_then(Pod::assigned), new.and_then(Pod::assigned));
            self.index.lock().pod(old.as_ref(), new.as_ref());
        }
        if self.needs.unschedulable {
            let (old, new) = (old.and_then(Pod::pending), new.and_then(Pod::pending));
            let namespace = pod.namespace().unwrap_or_default();
            self.pending.lock().pod(&namespace, &pod.name_any(), old.as_ref(), new.as_ref());
        }
    }

    fn on_replica_set(&self, change: &Change<ReplicaSet>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(set) = new.or(old) else { return };
        let (old, new) = (old.and_then(ReplicaSet::revision), new.and_then(ReplicaSet::revision));
        let namespace = set.namespace().unwrap_or_default();
        self.pending.lock().replica_set(&namespace, &set.name_any(), old.as_ref(), new.as_ref());
    }
}
