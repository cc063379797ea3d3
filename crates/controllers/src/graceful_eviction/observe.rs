//! What is seen of a binding that leaves clusters.

use std::collections::BTreeSet;

use ironclad_api::{conditions::TRUE, work::ResourceBindingStatus};
use ironclad_failover::graceful::Seen;
use ironclad_fleet::ClusterName;
use ironclad_runtime::Key;

use crate::{
    AnyBinding, Context,
    index::{BY_BINDING, cluster_of},
};

/// The snapshot.
pub(super) struct Observed {
    /// The binding; its version is the one to write over.
    pub(super) binding: AnyBinding,
    not_ready: BTreeSet<ClusterName>,
    copies: BTreeSet<ClusterName>,
}

impl Observed {
    /// As the decision takes it.
    pub(super) fn seen<'a>(&'a self, cx: &'a Context) -> Seen<'a> {
        let view = self.binding.view();
        let status: Option<&ResourceBindingStatus> = view.status();
        Seen {
            about: view.reference(),
            metadata: self.binding.metadata(),
            spec: self.binding.spec(),
            scheduler_observed: status.map_or(0, |status| status.scheduler_observed_generation),
            status: status.map(|status| status.aggregated_status.as_slice()).unwrap_or_default(),
            history: status.map(|status| status.failover_history.as_slice()).unwrap_or_default(),
            not_ready: &self.not_ready,
            copies: &self.copies,
            plugins: &cx.settings.failover.evict_plugins,
        }
    }
}

pub(super) fn observe(cx: &Context, key: &Key) -> Option<Observed> {
    let binding = cx.bindings.get_as_requested(key)?;
    let spec = binding.spec();
    if spec.graceful_eviction_tasks.is_empty() || binding.metadata().deletion_timestamp.is_some() {
        return None;
    }
    let targets = spec.clusters.iter().map(|target| target.name.as_str());
    let left = spec.graceful_eviction_tasks.iter().map(|task| task.from_cluster.as_str());
    let not_ready = targets
        .chain(left)
        .filter(|name| cx.clusters.get("", name).is_none_or(|cluster| cluster.ready() != Some(TRUE)))
        .map(ClusterName::from)
        .collect();
    let works = binding.view().permanent_id().map(|id| cx.works.by_index(BY_BINDING, id)).unwrap_or_default();
    let copies = works.iter().filter_map(|work| cluster_of(work)).collect();
    Some(Observed { binding, not_ready, copies })
}
