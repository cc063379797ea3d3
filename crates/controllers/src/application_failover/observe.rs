//! What is seen of a binding whose workload may fail.

use std::{sync::Arc, time::Duration};

use ironclad_failover::{
    Bound, Clusters,
    application::{Memory, Seen},
};
use ironclad_fleet::gates::Gate;
use ironclad_interpreter::Operation;
use ironclad_propagation::detector::binding::application_failover_since;
use ironclad_runtime::Key;
use jiff::Timestamp;

use crate::{AnyBinding, Context};

/// The snapshot.
pub(super) struct Observed {
    /// The binding; its version is the one to write over.
    pub(super) binding: AnyBinding,
    bound: Bound,
    health_is_judged: bool,
    clusters: Arc<Clusters>,
    memory: Memory,
    asked: Option<Duration>,
    asked_at: Option<Timestamp>,
}

impl Observed {
    /// As the decision takes it.
    pub(super) fn seen<'a>(&'a self, cx: &Context) -> Seen<'a> {
        Seen {
            binding: &self.bound,
            health_is_judged: self.health_is_judged,
            clusters: &self.clusters,
            check: cx.settings.failover.eviction.check(),
            state_injection: cx.settings.gates.enabled(Gate::StatefulFailoverInjection),
            memory: &self.memory,
            began: cx.unhealthy.began,
            asked: self.asked,
            asked_at: self.asked_at,
        }
    }
}

pub(super) fn observe(cx: &Context, key: &Key, memory: Memory) -> Option<Observed> {
    let binding = cx.bindings.get_as_requested(key)?;
    let bound = match &binding {
        AnyBinding::Namespaced(binding) => Bound::Namespaced(binding.clone()),
        AnyBinding::Cluster(binding) => Bound::Cluster(binding.clone()),
    };
    let health_is_judged = cx.interpreter().implements(&binding.template().gvk, Operation::InterpretHealth);
    let asked = cx.unhealthy.asked(key);
    let asked_at = application_failover_since(bound.metadata());
    Some(Observed { binding, bound, health_is_judged, clusters: cx.all_clusters(), memory, asked, asked_at })
}
