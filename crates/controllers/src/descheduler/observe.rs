//! Bindings, and what members found no node for.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::join_all;
use ironclad_api::work::ResourceBinding;
use ironclad_autoscaling::distributed_hpa::decides_in_members;
use ironclad_fleet::ClusterName;
use ironclad_runtime::Informer;
use ironclad_scheduling::deschedule::{self, DecidedBy};
use jiff::SignedDuration;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use crate::{
    bindings::Bindings,
    caches::HORIZONTAL_POD_AUTOSCALERS,
    estimates::Estimates,
    index::{BY_SCALED, template_key, template_name},
    setup::Setup,
};

/// The caches and estimators that the descheduler reads.
pub(super) struct Observer {
    bindings: Bindings,
    autoscalers: Informer<HorizontalPodAutoscaler>,
    estimates: Estimates,
    threshold: SignedDuration,
}

impl Observer {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            bindings: setup.bindings().clone(),
            autoscalers: setup.caches.take(&HORIZONTAL_POD_AUTOSCALERS),
            estimates: setup.estimates().clone(),
            threshold: setup.settings.descheduler.threshold,
        }
    }

    pub(super) fn bindings(&self) -> Vec<Arc<ResourceBinding>> {
        self.bindings.namespaced.list()
    }

    /// Returns who decides the replicas of a binding's template.
    pub(super) fn decided_by(&self, binding: &ResourceBinding) -> DecidedBy {
        let scalers = self.autoscalers.by_index(BY_SCALED, &template_name(&template_key(&binding.spec)));
        match scalers.iter().any(|hpa| decides_in_members(hpa)) {
            true => DecidedBy::Members,
            false => DecidedBy::Scheduler,
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
