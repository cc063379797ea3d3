//! Capacity of the fleet, as the scheduler assumes it between its cycles. A new leader finds it in the objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ironclad_api::{
    cluster::Cluster,
    work::{AggregatedStatusItem, ResourceBinding, TargetCluster},
};
use ironclad_fleet::{Binding, BindingKey, BindingRef, ClusterName};
use ironclad_members::{Member, Pod};
use ironclad_planning::leader::EstimatorAnswer;
use ironclad_runtime::Change;
use ironclad_scheduling::{
    Capacity, Options,
    capacity::{Asker, Modelling, Reservation},
    question_of,
};
use ironclad_seam::Clock;
use kube::ResourceExt as _;
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::{sync::Notify, time::Instant};

use crate::{bindings::Bindings, index::BY_TARGET, settings::Settings};

/// Growth of a cluster within this time enqueues what waits for it once (specification/scheduling.md 16.3).
const GROWTH_EVERY: Duration = Duration::from_millis(200);

type OnGrowth = Box<dyn Fn() + Send + Sync>;

/// The capacity, with the options under which it is used. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FleetCapacity(Arc<Shared>);

struct Shared {
    options: Options,
    clock: Clock,
    began: Instant,
    capacity: Mutex<Capacity>,
    /// The members whose pods are watched.
    members: Mutex<BTreeMap<ClusterName, Arc<ironclad_estimator::Member>>>,
    /// Told when something became free, or promises may end earlier.
    changed: Notify,
    handlers: RwLock<Vec<OnGrowth>>,
}

impl FleetCapacity {
    pub(crate) fn new(settings: &Settings, clock: Clock) -> Self {
        let modelling = Modelling::of(&settings.gates);
        let began = clock.mono();
        let mut capacity = Capacity::new(modelling, settings.failover.health.status_update_frequency);
        if settings.propagation.resource_modeling.is_on() {
            capacity.starts(Duration::ZERO);
        }
        let options = settings.scheduler.with_gates(&settings.gates);
        Self(Arc::new(Shared {
            options,
            clock,
            began,
            capacity: Mutex::new(capacity),
            members: Mutex::default(),
            changed: Notify::new(),
            handlers: RwLock::default(),
        }))
    }

    /// The time by which promises end.
    fn now(&self) -> Duration {
        self.0.clock.mono() - self.0.began
    }

    /// The capacity. Do not hold it across an `.await`.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Capacity> {
        self.0.capacity.lock()
    }

    /// The flags of the scheduler, with the effect of gates.
    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    /// Calls this when some cluster has more capacity than before. It must not wait.
    pub(crate) fn on_growth(&self, handler: impl Fn() + Send + Sync + 'static) {
        self.0.handlers.write().push(Box::new(handler));
    }

    /// Changes the account, and tells those who follow its growth.
    fn change<T>(&self, change: impl FnOnce(&mut Capacity, Duration) -> T) -> T {
        let (changed, now) = (&self.0.changed, self.now());
        let changing = change(&mut self.lock(), now);
        changed.notify_one();
        changing
    }

    /// Keeps the account of a member by its nodes, pods and quotas from the time at which they are listed.
    pub(crate) fn follow(
        &self,
        member: &Member,
        account: Option<Arc<ironclad_estimator::Member>>,
        bindings: &Bindings,
    ) {
        let name = member.name.clone();
        self.change(|capacity, _| capacity.lists(&name));
        let Some(resources) = account else { return };
        self.0.members.lock().insert(name.clone(), resources.clone());
        let (this, cluster) = (self.clone(), name.clone());
        resources.nodes().on_change(move |change| {
            let Some(node) = change.new.as_ref().or(change.old.as_ref()) else { return };
            let of = change.new.as_ref().map(|node| node.capacity());
            this.change(|capacity, _| capacity.node(&cluster, &node.name_any(), of));
        });
        let (this, cluster) = (self.clone(), name.clone());
        resources.pods().on_change(move |change| {
            let (old, new) = (change.old.as_deref().map(Pod::observed), change.new.as_deref().map(Pod::observed));
            if old != new {
                this.change(|capacity, now| capacity.pod(&cluster, old.as_ref(), new.as_ref(), now));
            }
        });
        let (this, cluster) = (self.clone(), name.clone());
        resources.on_quota(move |namespace, quota, free| {
            this.change(|capacity, _| capacity.quota(&cluster, namespace, quota, free));
        });
        let (this, bindings) = (self.clone(), bindings.clone());
        member.seam.tasks.supervise(&member.seam.clock, "account", move || {
            let (this, bindings, resources, name) = (this.clone(), bindings.clone(), resources.clone(), name.clone());
            async move {
                resources.nodes().synced().await;
                resources.pods().synced().await;
                this.change(|capacity, _| capacity.listed(&name));
                this.restore(&bindings, &name);
            }
        });
    }

    /// Restores the promises to the bindings in a cluster.
    pub(crate) fn restore(&self, bindings: &Bindings, cluster: &ClusterName) {
        for binding in bindings.by_index(BY_TARGET, &cluster.0) {
            if let Binding::Namespaced(binding) = binding {
                self.found(&binding);
            }
        }
    }

    /// Takes in a changed cluster.
    pub(crate) fn on_cluster(&self, name: &ClusterName, change: &Change<Cluster>) {
        if change.new.is_none() {
            self.0.members.lock().remove(name);
        }
        self.change(|capacity, now| {
            // What would have ended while the cluster was not ready is prolonged before it counts as ready.
            self.expire_of(capacity, now);
            capacity.cluster(name, change.old.as_deref(), change.new.as_deref());
        });
    }

    /// Takes in a changed ResourceBinding: a promised result may be observed by now, or be void.
    pub(crate) fn on_binding(&self, change: &Change<ResourceBinding>) {
        let Some(new) = change.new.as_deref() else {
            if let Some(old) = change.old.as_deref() {
                self.change(|capacity, _| capacity.forget(&BindingRef::from(old).key()));
            }
            return;
        };
        let Some(old) = change.old.as_deref() else {
            self.found(new);
            return;
        };
        let key = BindingRef::from(new).key();
        self.change(|capacity, now| {
            if names(old) != names(new) {
                capacity.observed(BindingRef::from(old), &new.spec, self.options(), now);
            }
            if capacity.promised_count() > 0 {
                capacity.reported(&key, &new.spec, reports(old), reports(new), now);
            }
            if new.spec.scheduling_suspended() || new.metadata.deletion_timestamp.is_some() {
                capacity.withdraw_nomination(&key);
            }
        });
    }

    /// Takes in a binding that was scheduled before this process knew it, or before it knew a cluster of its result.
    fn found(&self, binding: &ResourceBinding) {
        let wall = self.0.clock.wall();
        self.change(|capacity, now| {
            capacity.found(BindingRef::from(binding), reports(binding), wall, self.options(), now);
        });
    }

    /// Promises a result that is about to be written over `before`. It counts until its write is known to have failed.
    pub(crate) fn assume(&self, before: BindingRef<'_>, after: &[TargetCluster]) -> BeingWritten {
        let assumed = self.change(|capacity, now| capacity.assume(before, after, self.options(), now));
        BeingWritten { capacity: self.clone(), assumed }
    }

    /// Holds capacity for a preemptor, instead of what was held for it before.
    pub(crate) fn nominate(&self, binding: &ResourceBinding, nominated: &[TargetCluster]) {
        self.change(|capacity, _| capacity.nominate(binding, nominated, self.options()));
    }

    /// Gives up what is held for a preemptor.
    pub(crate) fn withdraw_nomination(&self, key: &BindingKey) {
        self.change(|capacity, _| capacity.withdraw_nomination(key));
    }

    /// Time until the first promise expires, if there is one.
    fn expires_in(&self) -> Option<Duration> {
        let expires = self.lock().expires_next();
        expires.map(|at| at.saturating_sub(self.now()))
    }

    /// Answers of the accounts that are kept by node about a binding, to show them.
    pub(crate) fn explain(&self, binding: BindingRef<'_>) -> Vec<EstimatorAnswer> {
        let Some(question) = question_of(binding.spec(), self.options()) else { return Vec::new() };
        let (capacity, asker) = (self.lock(), Asker::of(binding.spec()));
        let answer = |cluster: &ClusterName| EstimatorAnswer {
            cluster: cluster.to_string(),
            source: "Nodes".to_owned(),
            fits: capacity.fits(cluster, &question, &asker),
            account: capacity.describe(cluster, &question, &asker),
            age_ms: Some(0),
            error: None,
        };
        capacity.by_node().map(answer).collect()
    }

    /// Ends the promises that have expired.
    pub(crate) fn expire(&self) {
        let now = self.now();
        self.expire_of(&mut self.lock(), now);
    }

    fn expire_of(&self, capacity: &mut Capacity, now: Duration) {
        let members = self.0.members.lock();
        capacity.expire_watched(now, |cluster| {
            let open_since = members.get(cluster).and_then(|member| member.pods().open_since());
            open_since.map_or(Duration::ZERO, |since| self.0.clock.mono() - since)
        });
    }

    /// Notes that something may fit into a cluster that was not tried.
    pub(crate) fn grew(&self, cluster: &ClusterName) {
        self.change(|capacity, _| capacity.grew(cluster));
    }

    /// Waits until something became free, and returns the clusters in which it did.
    pub(crate) async fn grown(&self) -> BTreeSet<ClusterName> {
        loop {
            self.expire();
            let grown = self.lock().take_grown();
            if !grown.is_empty() {
                self.0.handlers.read().iter().for_each(|handler| handler());
                // What becomes free within this time is tried together.
                self.0.clock.sleep(GROWTH_EVERY).await;
                let more = self.lock().take_grown();
                return grown.into_iter().chain(more).collect();
            }
            let wait = self.expires_in();
            tokio::select! {
                biased;
                () = self.0.changed.notified() => {}
                () = self.0.clock.sleep(wait.unwrap_or_default()), if wait.is_some() => {}
            }
        }
    }
}

/// Fields by which a binding holds capacity: its result, its eviction tasks, where it is not dispatched, what it
/// requests, and its priority.
fn names(binding: &ResourceBinding) -> impl PartialEq + use<'_> {
    let spec = &binding.spec;
    let requests = (&spec.replica_requirements, &spec.components, &spec.schedule_priority);
    (&spec.clusters, &spec.graceful_eviction_tasks, &spec.suspension, requests)
}

/// An assumed result that is being written. It is reverted when this is dropped.
pub(crate) struct BeingWritten {
    capacity: FleetCapacity,
    assumed: Option<Reservation>,
}

impl BeingWritten {
    /// Notes that it was written.
    pub(crate) fn confirm(mut self) {
        if let Some(assumed) = self.assumed.take() {
            self.capacity.lock().confirm(&assumed);
        }
    }
}

impl Drop for BeingWritten {
    fn drop(&mut self) {
        if let Some(assumed) = self.assumed.take() {
            self.capacity.change(|capacity, now| capacity.revert(assumed, now));
        }
    }
}

/// The reports of members about a binding.
fn reports(binding: &ResourceBinding) -> &[AggregatedStatusItem] {
    binding.status.as_ref().map_or(&[], |status| &status.aggregated_status)
}
