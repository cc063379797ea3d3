//! The interfaces between the process and its controllers.

use std::{
    fmt::{Debug, Display},
    future::Future,
    sync::Arc,
};

use ironclad_runtime::{Failure, Next, Queue, run_workers};
use ironclad_seam::Tasks;

/// A controller. It owns its queue, state and metrics; what it shares with others comes from
/// [`Setup`](crate::setup::Setup).
pub(crate) trait Controller: Send + Sync + 'static {
    /// Starts what it runs. The caches are complete by then, so that no key is reconciled over half of the objects.
    /// Those that serve members start with their connections instead.
    fn start(self: Arc<Self>, _: &Tasks) {}

    /// True if no key is ready or being reconciled. Keys with an appointment may wait.
    fn is_quiet(&self) -> bool {
        true
    }
}

/// A controller that reconciles the keys of one queue.
pub(crate) trait Reconciler: Send + Sync + 'static {
    type Key: Ord + Clone + Debug + Display + Send + Sync + 'static;
    /// Name of its workers and, in metrics, of its queue.
    const NAME: &'static str;
    /// Keys that are reconciled at once.
    const WORKERS: usize;
    /// True if keys have appointments, so that a delayed key is nothing to do. Without them, a delayed key failed.
    const HAS_APPOINTMENTS: bool = false;

    fn queue(&self) -> &Queue<Self::Key>;

    fn reconcile(&self, key: &Self::Key) -> impl Future<Output = Result<Next, Failure>> + Send;

    /// Starts what it runs beside its workers, before these.
    fn start_beside(self: &Arc<Self>, _: &Tasks) {}

    /// True if what it runs beside its workers has nothing to do.
    fn is_quiet_beside(&self) -> bool {
        true
    }
}

impl<R: Reconciler> Controller for R {
    fn start(self: Arc<Self>, tasks: &Tasks) {
        self.start_beside(tasks);
        let queue = self.queue().clone();
        run_workers(R::NAME, tasks, &queue, R::WORKERS, move |key| {
            let this = self.clone();
            async move { this.reconcile(&key).await }
        });
    }

    fn is_quiet(&self) -> bool {
        let queue = self.queue();
        (if R::HAS_APPOINTMENTS { queue.is_idle() } else { queue.is_empty() }) && self.is_quiet_beside()
    }
}
