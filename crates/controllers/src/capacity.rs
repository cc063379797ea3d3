//! Capacity of the fleet, as the scheduler assumes it between its cycles. A new leader finds it in the objects.

use std::{sync::Arc, time::Duration};

use ironclad_api::{
    cluster::Cluster,
    work::{AggregatedStatusItem, ResourceBinding, TargetCluster},
};
use ironclad_fleet::{BindingKey, BindingRef, ClusterName};
use ironclad_runtime::Change;
use ironclad_scheduling::{
    Capacity, Options,
    capacity::{Modelling, Reservation},
};
use ironclad_seam::Clock;
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::{sync::Notify, time::Instant};

use crate::settings::Settings;

type OnGrowth = Box<dyn Fn() + Send + Sync>;
type IsSummarized = Box<dyn Fn(&ClusterName, Duration) -> bool + Send + Sync>;

/// The capacity, with the options under which it is used. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FleetCapacity(Arc<Shared>);

struct Shared {
    options: Options,
    clock: Clock,
    began: Instant,
    capacity: Mutex<Capacity>,
    /// Told when assumptions are made, or may end earlier.
    assumed: Notify,
    handlers: RwLock<Vec<OnGrowth>>,
    /// Tells whether the summary of a cluster shows what it reported until then; `None` if summaries are collected
    /// elsewhere.
    is_summarized: RwLock<Option<IsSummarized>>,
}

impl FleetCapacity {
    pub(crate) fn new(settings: &Settings, clock: Clock) -> Self {
        let modelling = Modelling::of(&settings.gates);
        let began = clock.mono();
        let capacity = Mutex::new(Capacity::new(modelling, settings.failover.health.status_update_frequency));
        let options = settings.scheduler.with_gates(&settings.gates);
        Self(Arc::new(Shared {
            options,
            clock,
            began,
            capacity,
            assumed: Notify::new(),
            handlers: RwLock::default(),
            is_summarized: RwLock::default(),
        }))
    }

    /// The time by which assumptions end.
    pub(crate) fn now(&self) -> Duration {
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

    /// Asks this whether the summary of a cluster shows what it reported until then.
    pub(crate) fn ask_for_summaries(
        &self,
        is_summarized: impl Fn(&ClusterName, Duration) -> bool + Send + Sync + 'static,
    ) {
        *self.0.is_summarized.write() = Some(Box::new(is_summarized));
    }

    /// Notes that a cluster has sent a summary, even if it is the same as before.
    pub(crate) fn summarized(&self, cluster: &ClusterName) {
        if self.lock().recount(cluster) {
            self.0.assumed.notify_one();
        }
    }

    fn ended(&self, capacity: &mut Capacity, now: Duration) -> Vec<ClusterName> {
        let asked = self.0.is_summarized.read();
        capacity.expire(now, |cluster, until| asked.as_ref().is_none_or(|asked| asked(cluster, until)))
    }

    /// Takes in a changed cluster. Returns the clusters with more capacity than before.
    pub(crate) fn on_cluster(&self, name: &ClusterName, change: &Change<Cluster>) -> Vec<ClusterName> {
        let now = self.now();
        let grown = {
            let mut capacity = self.lock();
            // What would have ended while the cluster was not ready is prolonged before it counts as ready.
            let mut grown = self.ended(&mut capacity, now);
            let has_grown = capacity.cluster(name, change.old.as_deref(), change.new.as_deref());
            grown.extend(self.ended(&mut capacity, now));
            grown.extend(has_grown.then(|| name.clone()));
            grown.sort();
            grown.dedup();
            grown
        };
        if !grown.is_empty() {
            self.0.handlers.read().iter().for_each(|handler| handler());
        }
        grown
    }

    /// Takes in a changed ResourceBinding: an assumed result may be reported by now, or be void.
    pub(crate) fn on_binding(&self, change: &Change<ResourceBinding>) {
        let Some(new) = change.new.as_deref() else {
            if let Some(old) = change.old.as_deref() {
                self.lock().forget(&BindingRef::from(old).key());
            }
            return;
        };
        let Some(old) = change.old.as_deref() else {
            self.found(new);
            return;
        };
        let (key, now) = (BindingRef::from(new).key(), self.now());
        let mut capacity = self.lock();
        // A result of somebody else, or one of ours whose answer was lost.
        if old.spec.clusters != new.spec.clusters && !capacity.is_being_written(&key) {
            capacity.observed(BindingRef::from(old), &new.spec, self.options(), now);
        }
        if capacity.assumed_count() > 0 {
            capacity.reported(&key, &new.spec, reports(old), reports(new), now);
            self.0.assumed.notify_one();
        }
    }

    /// Takes in a binding that was scheduled before this process knew it, or before it knew a cluster of its result.
    pub(crate) fn found(&self, binding: &ResourceBinding) {
        let wall = self.0.clock.wall();
        self.lock().found(BindingRef::from(binding), reports(binding), wall, self.options(), self.now());
        self.0.assumed.notify_one();
    }

    /// Assumes a result that is about to be written over `before`. It counts until its write is known to have failed.
    pub(crate) fn assume(&self, before: BindingRef<'_>, after: &[TargetCluster]) -> BeingWritten {
        let assumed = self.lock().assume(before, after, self.options(), self.now());
        self.0.assumed.notify_one();
        BeingWritten { capacity: self.clone(), assumed }
    }

    /// Holds capacity for a preemptor, instead of what was held for it before.
    pub(crate) fn nominate(&self, binding: &ResourceBinding, nominated: &[TargetCluster]) {
        self.lock().nominate(binding, nominated, self.options());
    }

    /// Gives up what is held for a preemptor. Returns the clusters that have more capacity for others by that.
    pub(crate) fn withdraw_nomination(&self, key: &BindingKey) -> Vec<ClusterName> {
        self.lock().withdraw_nomination(key)
    }

    /// Time until the first assumed result expires, if there is one.
    pub(crate) fn expires_in(&self) -> Option<Duration> {
        let expires = self.lock().expires_next();
        expires.map(|at| at.saturating_sub(self.now()))
    }

    /// Ends the assumed results that have expired. Returns the clusters with more capacity by that.
    pub(crate) fn expire(&self) -> Vec<ClusterName> {
        let now = self.now();
        let freed = self.ended(&mut self.lock(), now);
        if !freed.is_empty() {
            self.0.handlers.read().iter().for_each(|handler| handler());
        }
        freed
    }

    /// Waits until assumed results have expired. Returns the clusters with more capacity by that.
    pub(crate) async fn expired(&self) -> Vec<ClusterName> {
        loop {
            let wait = self.expires_in();
            tokio::select! {
                biased;
                () = self.0.assumed.notified() => {}
                () = self.0.clock.sleep(wait.unwrap_or_default()), if wait.is_some() => {}
            }
            let freed = self.expire();
            if !freed.is_empty() {
                return freed;
            }
        }
    }
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
            self.capacity.lock().revert(assumed, self.capacity.now());
        }
    }
}

/// The reports of members about a binding.
fn reports(binding: &ResourceBinding) -> &[AggregatedStatusItem] {
    binding.status.as_ref().map_or(&[], |status| &status.aggregated_status)
}
