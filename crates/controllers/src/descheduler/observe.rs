//! Bindings, and what members found no node for.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::join_all;
use ironclad_api::work::ResourceBinding;
use ironclad_fleet::ClusterName;
use ironclad_scheduling::deschedule::{self, DecidedBy};
use jiff::SignedDuration;

use crate::{
    bindings::Bindings, estimates::Estimates, index::template_key, pause::Pause, scalers::Scalers, setup::Setup,
};

/// The caches and estimators that the descheduler reads.
pub(super) struct Observer {
    bindings: Bindings,
    scalers: Scalers,
    estimates: Estimates,
    threshold: SignedDuration,
    pause: Pause,
}

impl Observer {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            bindings: setup.bindings().clone(),
            scalers: Scalers::new(setup),
            estimates: setup.estimates().clone(),
            threshold: setup.settings.descheduler.threshold,
            pause: Pause::new(setup),
        }
    }

    pub(super) fn bindings(&self) -> Vec<Arc<ResourceBinding>> {
        self.bindings.namespaced.list()
    }

    /// Returns who decides the replicas of a binding's template.
    pub(super) fn decided_by(&self, binding: &ResourceBinding) -> DecidedBy {
        if self.pause.is_on() {
            return DecidedBy::Nobody;
        }
        match self.scalers.of_target(&template_key(&binding.spec)).is_empty() {
            false => DecidedBy::Members,
            true => DecidedBy::Scheduler,
        }
    }

    /// Unschedulable replicas by cluster, of those that answer.
    pub(super) async fn observe(&self, binding: &ResourceBinding, by: DecidedBy) -> BTreeMap<ClusterName, i32> {
        let answers = deschedule::questions(binding, by).into_iter().map(async |cluster| {
            let count = self.estimates.unschedulable(&binding.spec, &cluster, self.threshold).await;
            count.map(|count| (cluster, count))
        });
        join_all(answers).await.into_iter().flatten().collect()
    }
}
