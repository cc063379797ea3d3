//! Placement of new pods: they get their node when they are created, and run immediately if their startup takes no
//! time. Writes that real schedulers and kubelets send separately are stored with the pod.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use ironclad_apiserver::{Admission, Admitted, ApiError, Objects, Operation, Review};
use ironclad_runtime::Object as _;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{kubelet::Kubelet, scheduler::Scheduler};

/// Time for which a placement is assumed before a cache shows the pod: a later admission step may reject its creation.
pub(crate) const ASSUME_EXPIRY: Duration = Duration::from_secs(30);

/// Scheduler and kubelets that the server calls for new pods; none while the member is down.
#[derive(Default)]
pub(crate) struct Placing(Mutex<(Weak<Scheduler>, Weak<Kubelet>)>);

impl Placing {
    pub(crate) fn by(&self, scheduler: Weak<Scheduler>, kubelet: Weak<Kubelet>) {
        *self.0.lock() = (scheduler, kubelet);
    }

    fn asked(&self) -> Option<(Arc<Scheduler>, Arc<Kubelet>)> {
        let (scheduler, kubelet) = &*self.0.lock();
        scheduler.upgrade().zip(kubelet.upgrade())
    }
}

impl fmt::Debug for Placing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Placing")
    }
}

impl Admission for Placing {
    fn mutate(&self, review: &Review<'_>, _: &Objects<'_>) -> Result<Option<Value>, ApiError> {
        let is_new = review.operation == Operation::Create && !review.dry_run;
        if !is_new || (review.group, review.resource, review.subresource) != ("", "pods", "") {
            return Ok(None);
        }
        let (Some(object), Some((scheduler, kubelet))) = (review.object, self.asked()) else { return Ok(None) };
        // Schema validation rejects anything but a pod.
        let Ok(mut pod) = Pod::decode(object.to_string().as_bytes()) else { return Ok(None) };
        let Some((node, scheduled)) = scheduler.assume(&pod) else { return Ok(None) };
        let mut placed = object.clone();
        placed["spec"]["nodeName"] = node.as_str().into();
        pod.spec.get_or_insert_default().node_name = Some(node);
        pod.metadata.generation = Some(1);
        let conditions = vec![scheduled];
        let status = json!({"conditions": conditions});
        pod.status.get_or_insert_default().conditions = Some(conditions);
        let status = kubelet.status_at_birth(&pod).map_or(status, |running| json!(running));
        for (field, value) in status.as_object().into_iter().flatten() {
            placed["status"][field] = value.clone();
        }
        Ok(Some(placed))
    }

    fn validate(&self, _: &Review<'_>, _: &Objects<'_>) -> Result<Admitted, ApiError> {
        Ok(Admitted::default())
    }
}
