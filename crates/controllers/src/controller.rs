//! The interface between the process and its controllers.

use std::sync::Arc;

/// A controller. It owns its queue, state and metrics; what it shares with others comes from
/// [`Setup`](crate::setup::Setup).
pub(crate) trait Controller: Send + Sync + 'static {
    /// Starts the workers. The caches are complete by then, so that no key is reconciled over half of the objects.
    fn start(self: Arc<Self>);

    /// True if no key is ready or being reconciled. Keys with an appointment may wait.
    fn is_quiet(&self) -> bool;
}
