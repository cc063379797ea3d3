//! The members that this process can reach: a client each, caches of what was applied there, and queues of their own, so
//! that a slow or dead member never delays the others (propagation.md 31.3).

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
};

use ironclad_api::cluster::Cluster;
use ironclad_fleet::{ClusterName, ObjectKey};
use ironclad_interpreter::webhook::Endpoint;
use ironclad_runtime::{Queue, webhook_client};
use ironclad_seam::Tasks;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::{MemberObject, awaiting::Awaiting, objects::Objects};

/// Makes the client of a member: over the network from its credentials, or in-process for a simulated one.
pub trait Connector: Send + Sync + 'static {
    /// A client for the member.
    ///
    /// # Errors
    /// Why none can be made, for a person: it becomes the message of the cluster's condition.
    fn connect(&self, cluster: &Cluster, credentials: Option<&Secret>) -> Result<Client, String>;

    /// A client for an interpreter webhook; `ca_bundle` is PEM.
    ///
    /// # Errors
    /// Why none can be made, for a person.
    fn webhook(&self, endpoint: &Endpoint, ca_bundle: Option<&[u8]>) -> Result<Client, String> {
        webhook_client(&endpoint.base, endpoint.server_name.as_deref(), ca_bundle, Arc::default())
    }
}

/// One connected member.
pub(crate) struct Member {
    /// Its name.
    pub(crate) name: ClusterName,
    /// Its client.
    pub(crate) client: Client,
    /// What was applied there, by kind.
    pub(crate) objects: Objects<MemberObject>,
    /// Names of the Works in its execution space that are to be applied.
    pub(crate) works: Queue<Arc<str>>,
    /// Which of its Works wait for which of its namespaces.
    pub(crate) awaiting: Arc<Awaiting>,
    /// Objects in it whose status is to be reported.
    pub(crate) statuses: Queue<ObjectKey>,
    /// Set when it serves other kinds than were read of it.
    pub(crate) kinds_changed: Arc<AtomicBool>,
    /// Everything that runs over this connection.
    pub(crate) tasks: Tasks,
}

/// What is known of one cluster's connection.
#[derive(Clone)]
struct Known {
    member: Result<Arc<Member>, String>,
    /// What it was connected with: another one means to connect anew.
    identity: String,
    /// Has its health looked at now.
    look: Arc<Notify>,
    /// Its health checks, which outlive connections.
    health: Tasks,
}

/// All clusters that were tried to be connected.
#[derive(Default)]
pub(crate) struct Members(RwLock<BTreeMap<ClusterName, Known>>);

impl Members {
    /// The member, if it is connected.
    #[must_use]
    pub(crate) fn get(&self, name: &ClusterName) -> Option<Arc<Member>> {
        self.0.read().get(name)?.member.as_ref().ok().cloned()
    }

    /// The member, or why it is not connected.
    #[must_use]
    pub(crate) fn connection(&self, name: &ClusterName) -> Option<Result<Arc<Member>, String>> {
        self.0.read().get(name).map(|known| known.member.clone())
    }

    /// All connected members in order of their names.
    #[must_use]
    pub(crate) fn list(&self) -> Vec<Arc<Member>> {
        self.0.read().values().filter_map(|known| known.member.as_ref().ok().cloned()).collect()
    }

    /// True if the cluster was tried to be connected with just this.
    pub(crate) fn is_current(&self, name: &ClusterName, identity: &str) -> bool {
        self.0.read().get(name).is_some_and(|known| known.identity == identity)
    }

    /// Puts a connection, or why there is none, in the place of the one before, whose tasks end. `health` is called for a
    /// cluster that is new.
    pub(crate) fn set(
        &self,
        name: &ClusterName,
        identity: String,
        member: Result<Arc<Member>, String>,
        health: impl FnOnce(Arc<Notify>) -> Tasks,
    ) {
        let before = {
            let mut all = self.0.write();
            if let Some(known) = all.get_mut(name) {
                known.identity = identity;
                known.look.notify_one();
                Some(std::mem::replace(&mut known.member, member))
            } else {
                let look = Arc::new(Notify::new());
                let health = health(look.clone());
                all.insert(name.clone(), Known { member, identity, look, health });
                None
            }
        };
        if let Some(Ok(member)) = before {
            member.tasks.kill();
        }
    }

    /// Has the health of a cluster looked at now.
    pub(crate) fn look(&self, name: &ClusterName) {
        if let Some(known) = self.0.read().get(name) {
            known.look.notify_one();
        }
    }

    /// Forgets a cluster and ends everything that runs for it.
    pub(crate) fn remove(&self, name: &ClusterName) {
        if let Some(known) = self.0.write().remove(name) {
            known.health.kill();
            if let Ok(member) = known.member {
                member.tasks.kill();
            }
        }
    }
}

/// What a connection depends on: if it changes, the member is connected anew.
pub(crate) fn connection_identity(cluster: &Cluster, credentials: Option<&Secret>) -> String {
    let version = credentials.and_then(|s| s.metadata.resource_version.as_deref()).unwrap_or("-");
    format!(
        "{} {} {} {}",
        cluster.metadata.uid.as_deref().unwrap_or_default(),
        cluster.spec.api_endpoint,
        cluster.spec.insecure_skip_tls_verification,
        version
    )
}
