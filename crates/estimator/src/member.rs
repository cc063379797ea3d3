//! Caches of one member's nodes and pods. All that a process computes from them follows the same two watches.

use std::{fmt, sync::Arc};

use ironclad_runtime::{Api, Change, Informer, WatchScope};
use ironclad_scheduling::estimator::{EstimatePart, Index, Pending, Question, Quota, SetPart, Workload};
use ironclad_seam::{Seam, Tasks};
use jiff::{SignedDuration, Timestamp};
use kube::{Client, ResourceExt as _};
use parking_lot::{Mutex, RwLock};

use crate::kinds::{Node, Pod, ReplicaSet, ResourceQuota};

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

/// Pods without node, by namespace and name of the binding of their workload.
const BY_BINDING_WITHOUT_NODE: &str = "bindingWithoutNode";

type OnQuota = Box<dyn Fn(&str, &str, Option<Quota>) + Send + Sync>;

/// Nodes and pods of one member, and what is computed from them. Handlers are added before [`Member::start`].
pub struct Member {
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    replica_sets: Informer<ReplicaSet>,
    quotas: Informer<ResourceQuota>,
    needs: Needs,
    index: Mutex<Index>,
    pending: Mutex<Pending>,
    quota_handlers: RwLock<Vec<OnQuota>>,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("needs", &self.needs).finish_non_exhaustive()
    }
}

impl Member {
    /// Caches that do not run yet.
    #[must_use]
    pub fn new(needs: Needs) -> Arc<Self> {
        let this = Arc::new(Self {
            nodes: Informer::new(&[]),
            pods: Informer::new(&[(BY_BINDING_WITHOUT_NODE, |pod| {
                let found = pod.without_node();
                found.map(|found| format!("{}/{}", found.namespace, found.binding)).into_iter().collect()
            })]),
            replica_sets: Informer::new(&[]),
            quotas: Informer::new(&[]),
            needs,
            index: Mutex::default(),
            pending: Mutex::default(),
            quota_handlers: RwLock::default(),
        });
        if needs.capacity {
            let weak = Arc::downgrade(&this);
            this.nodes.on_change(move |change| {
                if let Some(this) = weak.upgrade() {
                    this.on_node(change);
                }
            });
        }
        if needs.capacity || needs.unschedulable {
            let weak = Arc::downgrade(&this);
            this.pods.on_change(move |change| {
                if let Some(this) = weak.upgrade() {
                    this.on_pod(change);
                }
            });
        }
        let weak = Arc::downgrade(&this);
        this.replica_sets.on_change(move |change| {
            if let Some(this) = weak.upgrade() {
                this.on_replica_set(change);
            }
        });
        let weak = Arc::downgrade(&this);
        this.quotas.on_change(move |change| {
            if let Some(this) = weak.upgrade() {
                this.quota_changed(change);
            }
        });
        this
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
        self.quota_handlers.write().push(Box::new(handler));
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
        for quota in self.quotas.list() {
            index.quota(&quota.namespace().unwrap_or_default(), &quota.name_any(), Some(quota.free()));
        }
        index
    }

    /// Starts the watches as tasks of this group.
    pub fn start(&self, client: &Client, seam: &Seam, tasks: &Tasks) {
        let all = WatchScope::default();
        self.nodes.start("nodes", seam, tasks, Api::all(client.clone()), &all);
        self.pods.start("pods", seam, tasks, Api::all(client.clone()), &all);
        if self.needs.unschedulable {
            self.replica_sets.start("replicasets", seam, tasks, Api::all(client.clone()), &all);
        }
        if self.needs.quotas {
            self.quotas.start("resourcequotas", seam, tasks, Api::all(client.clone()), &all);
        }
    }

    /// Retries broken watches now: the server is known to be back.
    pub fn retry_now(&self) {
        self.nodes.retry_now();
        self.pods.retry_now();
        self.replica_sets.retry_now();
        self.quotas.retry_now();
    }

    /// Waits until the first lists are complete.
    pub async fn synced(&self) {
        self.nodes.synced().await;
        self.pods.synced().await;
        if self.needs.unschedulable {
            self.replica_sets.synced().await;
        }
        if self.waits_for_quotas() {
            self.quotas.synced().await;
        }
    }

    /// True if answers wait for the quotas. The account of a cluster does not: a member may refuse to list them.
    fn waits_for_quotas(&self) -> bool {
        self.needs.quotas && self.needs.capacity
    }

    /// True once the first lists are complete.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.nodes.is_synced()
            && self.pods.is_synced()
            && (!self.needs.unschedulable || self.replica_sets.is_synced())
            && (!self.waits_for_quotas() || self.quotas.is_synced())
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

    fn quota_changed(&self, change: &Change<ResourceQuota>) {
        let Some(quota) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let free = change.new.as_ref().map(|quota| quota.free());
        let (namespace, name) = (quota.namespace().unwrap_or_default(), quota.name_any());
        self.quota_handlers.read().iter().for_each(|handler| handler(&namespace, &name, free.clone()));
        if self.needs.capacity {
            self.index.lock().quota(&namespace, &name, free);
        }
    }
}
