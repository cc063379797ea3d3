//! What the scheduler sees: one binding with its status as it will stand, and all clusters.

use std::sync::Arc;

use ironclad_runtime::Key;
use ironclad_scheduling::{Available, Clusters, Seen};

use crate::{AnyBinding, Context, Settings};

/// The snapshot of one pass.
pub(super) struct Observed {
    /// The binding; its version is the one to write over.
    pub(super) binding: AnyBinding,
    clusters: Arc<Clusters>,
    available: Available,
    settings: Arc<Settings>,
}

impl Observed {
    /// As the decision takes it.
    pub(super) fn seen(&self) -> Seen<'_> {
        Seen {
            binding: self.binding.for_scheduler(),
            clusters: &self.clusters,
            available: &self.available,
            options: &self.settings.scheduler,
        }
    }
}

pub(super) fn observe(cx: &Context, key: &Key) -> Option<Observed> {
    Some(Observed {
        binding: cx.binding_as_written(key)?,
        clusters: cx.all_clusters(),
        available: Available::new(),
        settings: cx.settings.clone(),
    })
}
