//! What is seen of one rebalancer: the bindings of the workloads that it names.

use std::sync::Arc;

use ironclad_api::apps::WorkloadRebalancer;
use ironclad_fleet::{Gvk, ObjectKey};
use ironclad_propagation::{detector::binding::Binding, rebalance::Seen};
use ironclad_runtime::Key;
use jiff::Timestamp;

use crate::{
    AnyBinding, Context,
    index::{BY_TEMPLATE, template_name},
};

/// The snapshot.
pub(super) struct Observed {
    /// The rebalancer; its version is the one to write over.
    pub(super) rebalancer: Arc<WorkloadRebalancer>,
    /// The binding of each workload, in their order.
    pub(super) bindings: Vec<Option<AnyBinding>>,
}

impl Observed {
    /// Decides over the snapshot.
    pub(super) fn with_seen<T>(&self, now: Timestamp, decide: impl FnOnce(&Seen<'_>) -> T) -> T {
        let bindings: Vec<Option<Binding<'_>>> =
            self.bindings.iter().map(|found| found.as_ref().map(AnyBinding::view)).collect();
        decide(&Seen { rebalancer: &self.rebalancer, bindings: &bindings, now })
    }
}

pub(super) fn observe(cx: &Context, key: &Key) -> Option<Observed> {
    let rebalancer = cx.rebalancers.get_key(key)?;
    let bindings = rebalancer
        .spec
        .workloads
        .iter()
        .map(|workload| {
            let key = ObjectKey {
                gvk: Gvk::from_manifest(&workload.api_version, &workload.kind),
                namespace: workload.namespace.as_str().into(),
                name: workload.name.as_str().into(),
            };
            cx.bindings.by_index(BY_TEMPLATE, &template_name(&key)).into_iter().next()
        })
        .collect();
    Some(Observed { rebalancer, bindings })
}
