//! ReplicaSets and ReplicationControllers: maintains a number of pods.

mod decide;
mod observe;

use std::sync::Arc;

use ironclad_patch::selector::LabelSelector;
use ironclad_runtime::{Failure, Key, Next};
use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus},
        core::v1::{ReplicationController, ReplicationControllerCondition, ReplicationControllerStatus},
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector as Selector,
};

pub(crate) use self::decide::{Counts, count, wanted};
use self::{decide::decide, observe::observe};
use crate::{
    Cluster,
    caches::{REPLICA_SETS, REPLICATION_CONTROLLERS},
    owner::selector,
    pod_control::NewPod,
    pods::from_template,
    workload::{Kind, Workload, next},
};

/// A kind whose pods are maintained as those of a ReplicaSet.
trait Set: Kind {
    /// The same as a ReplicaSet.
    fn as_set(self: &Arc<Self>) -> Arc<ReplicaSet>;
    fn of_set(status: ReplicaSetStatus) -> Self::Status;
}

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

impl Set for ReplicaSet {
    fn as_set(self: &Arc<Self>) -> Arc<ReplicaSet> {
        self.clone()
    }

    fn of_set(status: ReplicaSetStatus) -> ReplicaSetStatus {
        status
    }
}

impl Kind for ReplicationController {
    const CONTROLLER: &'static str = "replicationcontroller-controller";
    type Status = ReplicationControllerStatus;

    fn selector(&self) -> Option<LabelSelector> {
        selector(
            self.spec.as_ref().map(|s| Selector { match_labels: s.selector.clone(), match_expressions: None }).as_ref(),
        )
    }

    fn status(&self) -> Option<&ReplicationControllerStatus> {
        self.status.as_ref()
    }
}

impl Set for ReplicationController {
    fn as_set(self: &Arc<Self>) -> Arc<ReplicaSet> {
        let spec = self.spec.as_ref().map(|spec| ReplicaSetSpec {
            min_ready_seconds: spec.min_ready_seconds,
            replicas: spec.replicas,
            selector: Selector { match_labels: spec.selector.clone(), match_expressions: None },
            template: spec.template.clone(),
        });
        let conditions = self.status.iter().flat_map(|status| status.conditions.iter().flatten().cloned());
        let condition = |c: ReplicationControllerCondition| ReplicaSetCondition {
            last_transition_time: c.last_transition_time,
            message: c.message,
            reason: c.reason,
            status: c.status,
            type_: c.type_,
        };
        let conditions = Some(conditions.map(condition).collect());
        let status = ReplicaSetStatus { conditions, ..ReplicaSetStatus::default() };
        Arc::new(ReplicaSet { metadata: self.metadata.clone(), spec, status: Some(status) })
    }

    fn of_set(status: ReplicaSetStatus) -> ReplicationControllerStatus {
        let condition = |c: ReplicaSetCondition| ReplicationControllerCondition {
            last_transition_time: c.last_transition_time,
            message: c.message,
            reason: c.reason,
            status: c.status,
            type_: c.type_,
        };
        ReplicationControllerStatus {
            available_replicas: status.available_replicas,
            conditions: status.conditions.map(|all| all.into_iter().map(condition).collect()),
            fully_labeled_replicas: status.fully_labeled_replicas,
            observed_generation: status.observed_generation,
            ready_replicas: status.ready_replicas,
            replicas: status.replicas,
        }
    }
}

pub(crate) fn start(cluster: &Cluster) {
    let sets = Workload::new(cluster, cluster.caches.take(&REPLICA_SETS));
    sets.run([], |sets, key| async move { reconcile(&sets, &key).await });
}

pub(crate) fn start_replication_controllers(cluster: &Cluster) {
    let controllers = Workload::new(cluster, cluster.caches.take(&REPLICATION_CONTROLLERS));
    controllers.run([], |controllers, key| async move { reconcile(&controllers, &key).await });
}

async fn reconcile<W: Set>(sets: &Arc<Workload<W>>, key: &Key) -> Result<Next, Failure> {
    let now = sets.cluster.seam.clock.wall_seconds();
    let Some((object, seen)) = observe(sets, key) else { return Ok(Next::Forget) };
    let plan = decide(&seen, now);
    if plan.error_is_over {
        sets.control.forget_error(object.meta().uid.as_deref().unwrap_or(""));
    }
    let wait = sets.write_status(key, &object, &W::of_set(plan.status), plan.idle).await?;
    sets.apply_claims(&object, &seen.pods).await?;
    if plan.create > 0 {
        let pod = || pod::<W>(&object, &seen.set);
        sets.control.create(object.meta(), (0..plan.create).map(|_| pod()).collect()).await?;
    }
    if !plan.delete.is_empty() {
        sets.control.delete(object.meta(), &plan.delete).await?;
    }
    Ok(next(wait, plan.requeue_at, now))
}

fn pod<W: Set>(object: &W, set: &ReplicaSet) -> NewPod {
    let template = set.spec.as_ref().and_then(|s| s.template.as_ref());
    let mut pod = from_template(template, &set.metadata);
    pod.metadata.owner_references = Some(vec![Workload::reference(object)]);
    NewPod { place: None, pod }
}
