//! The agent of one member: its connection, and the Lease by which it shows that it is alive
//! (specification/operations.md 8.2).

use std::{sync::Arc, time::Duration};

use ironclad_api::{cluster::Cluster, namespaces};
use ironclad_failover::cluster::{agent::serves, report::AgentReport};
use ironclad_fleet::ClusterName;
use ironclad_members::Members;
use ironclad_runtime::{Api, Change, Failure, Informer, Next, Queue};
use ironclad_seam::{Seam, Tasks};
use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use kube::{Client, Resource as _, ResourceExt as _, api::PostParams};

use crate::{
    controller::{Controller, Reconciler},
    settings::Settings,
    setup::{Setup, on_change},
};

struct Agent {
    seam: Seam,
    plane: Client,
    settings: Arc<Settings>,
    cluster: ClusterName,
    queue: Queue<ClusterName>,
    clusters: Informer<Cluster>,
    members: Arc<Members>,
}

/// The agent of this cluster.
pub(crate) fn new(setup: &Setup, cluster: &ClusterName) -> Arc<dyn Controller> {
    let this = Arc::new(Agent {
        seam: setup.seam.clone(),
        plane: setup.plane.clone(),
        settings: setup.settings.clone(),
        cluster: cluster.clone(),
        queue: setup.queue(Agent::NAME),
        clusters: setup.clusters().clone(),
        members: setup.members.clone(),
    });
    on_change(setup.clusters(), &this, Agent::on_cluster);
    this
}

impl Reconciler for Agent {
    type Key = ClusterName;
    const NAME: &'static str = "agent";
    const WORKERS: usize = 1;

    fn queue(&self) -> &Queue<ClusterName> {
        &self.queue
    }

    async fn reconcile(&self, name: &ClusterName) -> Result<Next, Failure> {
        match self.clusters.get("", &name.0).filter(|cluster| serves(cluster)) {
            Some(cluster) => self.members.connect(&cluster, None),
            None => self.members.remove(name),
        }
        self.members.check_now(name);
        Ok(Next::Forget)
    }

    fn start_beside(self: &Arc<Self>, _: &Tasks) {
        let this = self.clone();
        self.seam.tasks.supervise(&self.seam.clock, "lease", move || {
            let this = this.clone();
            async move {
                loop {
                    let wait = this.renew().await;
                    this.seam.clock.sleep(wait).await;
                }
            }
        });
    }
}

impl Agent {
    fn on_cluster(&self, change: &Change<Cluster>) {
        if let Some(cluster) = change.new.as_ref().or(change.old.as_ref())
            && cluster.name_any() == *self.cluster.0
        {
            let served = change.old.as_deref().is_none_or(serves);
            if served && change.new.as_deref().is_some_and(|new| !serves(new)) {
                tracing::warn!(cluster = %self.cluster, "it is in push mode: the control plane serves it, not this agent");
            }
            self.queue.add(self.cluster.clone());
        }
    }

    /// Renews the Lease, and returns the time until the next attempt.
    async fn renew(&self) -> Duration {
        let health = &self.settings.failover.health;
        let interval = health.lease_renew_interval();
        let cluster = self.clusters.get("", &self.cluster.0).filter(|cluster| serves(cluster));
        let Some(cluster) = cluster else { return interval.min(Duration::from_secs(1)) };
        let leases: Api<Lease> = Api::namespaced(self.plane.clone(), namespaces::CLUSTER);
        let renewed = async {
            let present = leases.get_opt(&self.cluster.0).await?;
            let is_new = present.is_none();
            let report = self.settings.agent_report.lock().clone();
            let lease = renewed(present, &cluster, health.lease_duration, &report, self.seam.clock.wall());
            if is_new {
                leases.create(&PostParams::default(), &lease).await
            } else {
                leases.replace(&self.cluster.0, &PostParams::default(), &lease).await
            }
        };
        match renewed.await {
            Ok(_) => interval,
            Err(error) => {
                tracing::warn!(%error, cluster = %self.cluster, "the Lease was not renewed");
                interval.min(Duration::from_secs(2))
            }
        }
    }
}

/// The Lease of a cluster's agent, renewed now. The Cluster owns it.
fn renewed(
    present: Option<Lease>,
    cluster: &Cluster,
    duration: Duration,
    report: &AgentReport,
    now: Timestamp,
) -> Lease {
    let mut lease = present.unwrap_or_default();
    let name = cluster.name_any();
    lease.metadata.name = Some(name.clone());
    lease.metadata.namespace = Some(namespaces::CLUSTER.to_owned());
    lease.metadata.owner_references = cluster.owner_ref(&()).map(|owner| vec![owner]);
    report.annotate(lease.metadata.annotations.get_or_insert_default());
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(name);
    spec.lease_duration_seconds = i32::try_from(duration.as_secs()).ok();
    spec.renew_time = Some(MicroTime(now));
    lease
}

#[cfg(test)]
mod tests {
    use ironclad_api::cluster::ClusterSpec;
    use ironclad_failover::cluster::report::Tunnel;

    use super::*;

    #[test]
    fn a_lease_is_renewed_and_owned_by_its_cluster() {
        let mut cluster = Cluster::new("m1", ClusterSpec::default());
        cluster.metadata.uid = Some("u".into());
        let at = |second| Timestamp::from_second(second).unwrap();
        let none = AgentReport::default();
        let first = renewed(None, &cluster, Duration::from_secs(40), &none, at(1));
        assert_eq!((first.name_any(), first.metadata.namespace.as_deref()), ("m1".into(), Some("karmada-cluster")));
        let report = AgentReport { tunnel: Some(Tunnel::Open), ..none };
        let second = renewed(Some(first), &cluster, Duration::from_secs(40), &report, at(11));
        assert_eq!(AgentReport::of(second.metadata.annotations.as_ref().unwrap()), report);
        let spec = second.spec.unwrap();
        assert_eq!((spec.lease_duration_seconds, spec.renew_time), (Some(40), Some(MicroTime(at(11)))));
        assert_eq!(spec.holder_identity.as_deref(), Some("m1"));
        assert_eq!(second.metadata.owner_references.unwrap()[0].uid, "u");
    }
}
