//! What the scheduler sees: one binding with its status as it will stand, all clusters, and their room.

use std::sync::Arc;

use ironclad_runtime::Key;
use ironclad_scheduling::{Available, Capacity, Clusters, Options, Seen};

use crate::{AnyBinding, Context};

/// The snapshot of one pass; the room is lent to it.
pub(super) struct Observed {
    /// The binding; its version is the one to write over.
    pub(super) binding: AnyBinding,
    clusters: Arc<Clusters>,
    available: Available,
}

impl Observed {
    /// As the decision takes it.
    pub(super) fn seen<'a>(&'a self, capacity: &'a Capacity, options: &'a Options) -> Seen<'a> {
        let binding = self.binding.for_scheduler();
        Seen { binding, clusters: &self.clusters, available: &self.available, capacity, options }
    }
}

pub(super) fn observe(cx: &Context, key: &Key) -> Option<Observed> {
    let binding = cx.bindings.get_as_requested(key)?;
    Some(Observed { binding, clusters: cx.all_clusters(), available: Available::new() })
}
