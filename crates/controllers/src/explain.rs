//! State that only the memory of the leader has, for the API that shows it (specification/operations.md 4.4). It is
//! read when somebody asks, never during a reconcile.

use std::sync::{Arc, OnceLock};

use ironclad_autoscaling::federated_hpa::report::Report as AutoscalerReport;
use ironclad_failover::taint_manager::{Report, Row};
use ironclad_planning::leader::QueuedBinding;
use ironclad_runtime::Key;

type ReadEvictions = Box<dyn Fn() -> Option<(Report, Vec<Row>)> + Send + Sync>;

type ReadAutoscaler = Box<dyn Fn(&Key) -> Option<Arc<AutoscalerReport>> + Send + Sync>;

type ReadQueue = Box<dyn Fn() -> Vec<QueuedBinding> + Send + Sync>;

/// Sources that controllers offer. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Explain(Arc<Sources>);

#[derive(Default)]
struct Sources {
    evictions: OnceLock<ReadEvictions>,
    scheduling: OnceLock<ReadQueue>,
    autoscalers: OnceLock<ReadAutoscaler>,
}

impl Explain {
    /// Offers the state of evictions. Only the first offer counts.
    pub(crate) fn offer_evictions(&self, read: impl Fn() -> Option<(Report, Vec<Row>)> + Send + Sync + 'static) {
        let _ = self.0.evictions.set(Box::new(read));
    }

    /// Offers the queue of the scheduler. Only the first offer counts.
    pub(crate) fn offer_scheduling_queue(&self, read: impl Fn() -> Vec<QueuedBinding> + Send + Sync + 'static) {
        let _ = self.0.scheduling.set(Box::new(read));
    }

    /// Offers the last rounds of FederatedHPAs. Only the first offer counts.
    pub(crate) fn offer_autoscalers(
        &self,
        read: impl Fn(&Key) -> Option<Arc<AutoscalerReport>> + Send + Sync + 'static,
    ) {
        let _ = self.0.autoscalers.set(Box::new(read));
    }

    /// The last round of a FederatedHPA.
    pub(crate) fn autoscaler(&self, key: &Key) -> Option<Arc<AutoscalerReport>> {
        self.0.autoscalers.get()?(key)
    }

    /// The rate in force with its reason, and the elements of the eviction queue in order. `None` while evictions are
    /// not decided.
    pub(crate) fn evictions(&self) -> Option<(Report, Vec<Row>)> {
        self.0.evictions.get()?()
    }

    /// The first part of [`Self::evictions`].
    pub(crate) fn eviction_report(&self) -> Option<Report> {
        self.evictions().map(|(report, _)| report)
    }

    /// The queue of the scheduler, in order. `None` if it does not run.
    pub(crate) fn scheduling_queue(&self) -> Option<Vec<QueuedBinding>> {
        Some(self.0.scheduling.get()?())
    }
}
