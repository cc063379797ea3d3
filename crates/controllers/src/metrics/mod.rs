//! The metrics of the controllers, with the reference's names (operations.md 6); a file for each area.

use std::sync::Arc;

use prometheus_client::registry::Registry;

/// Handles to all metrics, and the registry that shows them.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
}

impl Metrics {
    /// Registers every metric.
    #[must_use]
    pub(crate) fn new() -> Self {
        let registry = Registry::default();
        Self { registry: Arc::new(registry) }
    }

    /// What `/metrics` shows.
    #[must_use]
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.clone()
    }
}
