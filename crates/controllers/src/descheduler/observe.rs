//! Bindings, and what members found no node for.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::join_all;
use ironclad_api::work::ResourceBinding;
use ironclad_fleet::ClusterName;
use ironclad_scheduling::deschedule;
use jiff::SignedDuration;

use crate::{bindings::Bindings, estimates::Estimates, setup::Setup};

/// The caches and estimators that the descheduler reads.
pub(super) struct Observer {
    bindings: Bindings,
    estimates: Estimates,
    threshold: SignedDuration,
}

impl Observer {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            bindings: setup.bindings.clone(),
            estimates: setup.estimates.clone(),
            threshold: setup.settings.descheduler.threshold,
        }
    }

    pub(super) fn bindings(&self) -> Vec<Arc<ResourceBinding>> {
        self.bindings.namespaced.list()
    }

    /// Unschedulable replicas by cluster, of those that answer.
    pub(super) async fn observe(&self, binding: &ResourceBinding) -> BTreeMap<ClusterName, i32> {
        let answers = deschedule::questions(binding).into_iter().map(async |cluster| {
            let count = self.estimates.unschedulable(&binding.spec, &cluster, self.threshold).await;
            count.map(|count| (cluster, count))
        });
        join_all(answers).await.into_iter().flatten().collect()
    }
}
