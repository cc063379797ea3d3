//! Rights of agents (specification/operations.md 10.3).

mod apply;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_admission::{
    agents::rights::{cluster_of_rights, decide, first_approval},
    wakes::agent_rights::{self as wakes, Wake},
};
use ironclad_api::cluster::Cluster;
use ironclad_fleet::ClusterName;
use ironclad_runtime::{Change, Failure, Informer, Next, Queue};
use ironclad_seam::Seam;
use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, core::v1::Namespace};
use kube::ResourceExt as _;
use parking_lot::Mutex;

use self::apply::Applier;
use crate::{
    caches::{
        CERTIFICATE_REQUESTS, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, SYSTEM_ROLE_BINDINGS, SYSTEM_ROLES,
    },
    controller::{Controller, Reconciler},
    setup::{Setup, on_change},
};

struct AgentRights {
    seam: Seam,
    queue: Queue<ClusterName>,
    requests: Informer<CertificateSigningRequest>,
    clusters: Informer<Cluster>,
    applier: Applier,
    /// Uids of requests that were used for Clusters that are gone, by cluster.
    spent: Mutex<BTreeMap<String, BTreeSet<String>>>,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let this = Arc::new(AgentRights {
        seam: setup.seam.clone(),
        queue: setup.queue(AgentRights::NAME),
        requests: setup.caches.take(&CERTIFICATE_REQUESTS),
        clusters: setup.clusters().clone(),
        applier: Applier::new(setup),
        spent: Mutex::default(),
    });
    on_change(&this.requests, &this, AgentRights::on_request);
    on_change(setup.clusters(), &this, AgentRights::on_cluster);
    on_change(&setup.caches.take(&NAMESPACES), &this, AgentRights::on_namespace);
    on_change(&setup.caches.take(&CLUSTER_ROLES), &this, AgentRights::on_rights);
    on_change(&setup.caches.take(&CLUSTER_ROLE_BINDINGS), &this, AgentRights::on_rights);
    on_change(&setup.caches.take(&SYSTEM_ROLES), &this, AgentRights::on_rights);
    on_change(&setup.caches.take(&SYSTEM_ROLE_BINDINGS), &this, AgentRights::on_rights);
    this
}

impl Reconciler for AgentRights {
    type Key = ClusterName;
    const NAME: &'static str = "agentRights";
    /// Clusters that are reconciled at once.
    const WORKERS: usize = 4;
    /// Rights end some time after a request was approved for which nobody made a Cluster.
    const HAS_APPOINTMENTS: bool = true;

    fn queue(&self) -> &Queue<ClusterName> {
        &self.queue
    }

    async fn reconcile(&self, name: &ClusterName) -> Result<Next, Failure> {
        let spent = self.spent.lock().get(&*name.0).cloned().unwrap_or_default();
        let approved = self.approved(&name.0).into_iter().filter(|(uid, _)| !spent.contains(uid));
        let approved: Vec<_> = approved.map(|(_, at)| at).collect();
        let cluster = self.clusters.get("", &name.0);
        let due = decide(&name.0, cluster.as_deref(), &approved, self.seam.clock.wall());
        self.applier.apply(due).await
    }
}

impl AgentRights {
    /// Uids of the approved requests for the first certificate of a cluster's agent, with the times of approval.
    fn approved(&self, cluster: &str) -> Vec<(String, jiff::Timestamp)> {
        let of = |request: &Arc<CertificateSigningRequest>| {
            let (name, at) = first_approval(request)?;
            (name == cluster).then(|| (request.uid().unwrap_or_default(), at))
        };
        self.requests.list().iter().filter_map(of).collect()
    }

    fn on_request(&self, change: &Change<CertificateSigningRequest>) {
        let of = |request: &Option<Arc<CertificateSigningRequest>>| request.as_deref().and_then(first_approval);
        let (old, new) = (of(&change.old), of(&change.new));
        if let (Some((cluster, _)), None, Some(request)) = (&old, &change.new, &change.old)
            && let Some(uids) = self.spent.lock().get_mut(cluster)
        {
            uids.remove(&request.uid().unwrap_or_default());
        }
        if old != new
            && let Some((cluster, _)) = new.or(old)
        {
            self.queue.add(cluster.as_str().into());
        }
    }

    fn on_cluster(&self, change: &Change<Cluster>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(cluster) = new.or(old).filter(|_| wakes::cluster(old, new)) else { return };
        let name = cluster.name_any();
        if new.is_none() {
            let used: BTreeSet<String> = self.approved(&name).into_iter().map(|(uid, _)| uid).collect();
            let mut spent = self.spent.lock();
            spent.retain(|_, uids| !uids.is_empty());
            spent.insert(name.clone(), used);
        }
        self.queue.add(name.as_str().into());
    }

    fn on_namespace(&self, change: &Change<Namespace>) {
        match wakes::namespace(change.old.as_deref(), change.new.as_deref()) {
            Some(Wake::All) => {
                self.clusters.list().iter().for_each(|cluster| self.queue.add(cluster.name_any().as_str().into()));
            }
            Some(Wake::Cluster(cluster)) => self.queue.add(cluster.into()),
            None => {}
        }
    }

    /// Somebody else changed or deleted rights of an agent.
    fn on_rights<K: ironclad_runtime::Object>(&self, change: &Change<K>) {
        let Some(object) = change.new.as_ref().or(change.old.as_ref()).filter(|_| !change.ours) else { return };
        if let Some(cluster) = cluster_of_rights(&object.name_any()) {
            self.queue.add(cluster.into());
        }
    }
}
