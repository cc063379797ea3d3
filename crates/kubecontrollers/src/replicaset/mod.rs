//! ReplicaSets: maintains a number of pods.

mod decide;
mod observe;

use std::sync::Arc;

use ironclad_patch::selector::LabelSelector;
use ironclad_runtime::{Failure, Key, Next};
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};

pub(crate) use self::decide::{Counts, count, wanted};
use self::{decide::decide, observe::observe};
use crate::{
    Cluster,
    caches::REPLICA_SETS,
    owner::selector,
    pod_control::NewPod,
    pods::from_template,
    workload::{Kind, Workload, next},
};

impl Kind for ReplicaSet {
    const CONTROLLER: &'static str = "replicaset-controller";
    type Status = ReplicaSetStatus;

    fn selector(&self) -> Option<LabelSelector> {
        selector(self.spec.as_ref().map(|s| &s.selector))
    }

    fn status(&self) -> Option<&ReplicaSetStatus> {
        self.status.as_ref()
    }
}

pub(crate) fn start(cluster: &Cluster) {
    let sets = Workload::new(cluster, cluster.caches.take(&REPLICA_SETS));
    sets.run([], |sets, key| async move { reconcile(&sets, &key).await });
}

async fn reconcile(sets: &Arc<Workload<ReplicaSet>>, key: &Key) -> Result<Next, Failure> {
    let now = sets.cluster.seam.clock.wall_seconds();
    let Some(seen) = observe(sets, key) else { return Ok(Next::Forget) };
    let plan = decide(&seen, now);
    let set = &*seen.set;
    if plan.error_is_over {
        sets.control.forget_error(set.metadata.uid.as_deref().unwrap_or(""));
    }
    let wait = sets.write_status(key, set, &plan.status, plan.idle).await?;
    sets.apply_claims(set, &seen.pods).await?;
    if plan.create > 0 {
        sets.control.create(&set.metadata, (0..plan.create).map(|_| pod(set)).collect()).await?;
    }
    if !plan.delete.is_empty() {
        sets.control.delete(&set.metadata, &plan.delete).await?;
    }
    Ok(next(wait, plan.requeue_at, now))
}

fn pod(set: &ReplicaSet) -> NewPod {
    let template = set.spec.as_ref().and_then(|s| s.template.as_ref());
    let mut pod = from_template(template, &set.metadata);
    pod.metadata.owner_references = Some(vec![Workload::reference(set)]);
    NewPod { place: None, pod }
}
