//! The members that this process can reach: for each a client, caches of the applied objects, and queues, so that a
//! slow or dead member never delays the others (specification/propagation.md 31.3).

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock, atomic::AtomicBool},
};

use ironclad_fleet::{ClusterName, ObjectKey};
use ironclad_runtime::Queue;
use ironclad_seam::Tasks;
use kube::Client;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use crate::{awaiting::Awaiting, member_object::MemberObject, objects::Objects};

/// One connected member.
pub(crate) struct Member {
    pub(crate) name: ClusterName,
    pub(crate) client: Client,
    /// Applied objects, by kind.
    pub(crate) objects: Objects<MemberObject>,
    /// Caches of its nodes and pods.
    pub(crate) resources: Arc<ironclad_estimator::Member>,
    /// Names of the Works in its execution space that are to be applied.
    pub(crate) works: Queue<Arc<str>>,
    /// Works that wait for namespaces.
    pub(crate) awaiting: Arc<Awaiting>,
    /// Objects whose status is to be reported.
    pub(crate) statuses: Queue<ObjectKey>,
    /// Set when the kinds that it serves may differ from those that were read.
    pub(crate) kinds_changed: AtomicBool,
    /// Set once all its namespaces are watched, also those that others make.
    pub(crate) namespaces_watched: AtomicBool,
    /// The uid of its namespace kube-system, once it was read; `None` if the member does not report it.
    pub(crate) kube_system: OnceLock<Option<String>>,
    /// Retries of the watches that only some controllers have.
    pub(crate) further_retries: Mutex<Vec<Retry>>,
    /// Everything that runs over this connection.
    pub(crate) tasks: Tasks,
}

/// Retries a broken watch now.
pub(crate) type Retry = Box<dyn Fn() + Send + Sync>;

impl Member {
    /// Retries broken watches now, since the server is known to be back: what its summary counts must not be older than
    /// what is applied there now.
    pub(crate) fn retry_watches(&self) {
        self.objects.retry_now();
        self.resources.retry_now();
        self.further_retries.lock().iter().for_each(|retry| retry());
    }

    /// Adds a watch to those that [`Member::retry_watches`] retries.
    pub(crate) fn also_retry(&self, retry: impl Fn() + Send + Sync + 'static) {
        self.further_retries.lock().push(Box::new(retry));
    }
}

/// Reason why a cluster is not connected.
#[derive(Debug, Clone)]
pub(crate) enum Unconnected {
    /// No client could be made, for this reason.
    NoClient(String),
    /// It is the control plane itself.
    ControlPlane {
        /// The uid of namespace kube-system in both.
        uid: String,
    },
}

/// The connection of one cluster.
struct Connection {
    /// The member, or why it is not connected.
    member: Result<Arc<Member>, Unconnected>,
    /// `Cluster::connection_identity` of the connection.
    identity: String,
    /// Requests a check of its health now.
    check: Arc<Notify>,
    /// Its health checks, which outlive connections.
    health: Tasks,
}

type OnJoin = Box<dyn Fn(&ClusterName, &Arc<Notify>, &Tasks) + Send + Sync>;
type OnConnect = Box<dyn Fn(&Arc<Member>) + Send + Sync>;

/// All clusters that were tried to be connected.
pub(crate) struct Members {
    tasks: Tasks,
    connections: RwLock<BTreeMap<ClusterName, Connection>>,
    on_join: RwLock<Vec<OnJoin>>,
    on_connect: RwLock<Vec<OnConnect>>,
}

impl Members {
    /// No members. Their health checks will run as tasks of this group.
    pub(crate) fn new(tasks: Tasks) -> Self {
        Self { tasks, connections: RwLock::default(), on_join: RwLock::default(), on_connect: RwLock::default() }
    }

    /// Calls this for every cluster that is tried to be connected for the first time, with the notification by which a
    /// health check is requested and the owner of the cluster's health checks.
    pub(crate) fn on_join(&self, handler: impl Fn(&ClusterName, &Arc<Notify>, &Tasks) + Send + Sync + 'static) {
        self.on_join.write().push(Box::new(handler));
    }

    /// Calls this for every connection that is made.
    pub(crate) fn on_connect(&self, handler: impl Fn(&Arc<Member>) + Send + Sync + 'static) {
        self.on_connect.write().push(Box::new(handler));
    }

    /// The member, if it is connected.
    pub(crate) fn get(&self, name: &ClusterName) -> Option<Arc<Member>> {
        self.connections.read().get(name)?.member.as_ref().ok().cloned()
    }

    /// The member, or why it is not connected.
    pub(crate) fn connection(&self, name: &ClusterName) -> Option<Result<Arc<Member>, Unconnected>> {
        self.connections.read().get(name).map(|connection| connection.member.clone())
    }

    /// All connected members in order of their names.
    pub(crate) fn list(&self) -> Vec<Arc<Member>> {
        self.connections.read().values().filter_map(|connection| connection.member.as_ref().ok().cloned()).collect()
    }

    /// True if the cluster was tried to be connected with this identity.
    pub(crate) fn is_current(&self, name: &ClusterName, identity: &str) -> bool {
        self.connections.read().get(name).is_some_and(|connection| connection.identity == identity)
    }

    /// Replaces the connection, or the reason why there is none. The tasks of the previous connection end.
    pub(crate) fn set(&self, name: &ClusterName, identity: String, member: Result<Arc<Member>, Unconnected>) {
        let connected = member.as_ref().ok().cloned();
        let (before, joined) = {
            let mut all = self.connections.write();
            if let Some(connection) = all.get_mut(name) {
                connection.identity = identity;
                connection.check.notify_one();
                (Some(std::mem::replace(&mut connection.member, member)), None)
            } else {
                let (check, health) = (Arc::new(Notify::new()), self.tasks.child(&format!("health/{name}")));
                let joined = Some((check.clone(), health.clone()));
                all.insert(name.clone(), Connection { member, identity, check, health });
                (None, joined)
            }
        };
        if let Some((check, health)) = joined {
            self.on_join.read().iter().for_each(|handler| handler(name, &check, &health));
        }
        if let Some(Ok(member)) = before {
            member.tasks.kill();
        }
        if let Some(member) = connected {
            self.on_connect.read().iter().for_each(|handler| handler(&member));
        }
    }

    /// Ends the connection of a member for this reason. The cluster is connected again when its address or its
    /// credentials change.
    pub(crate) fn refuse(&self, member: &Arc<Member>, why: Unconnected) {
        if let Some(connection) = self.connections.write().get_mut(&member.name)
            && connection.member.as_ref().is_ok_and(|present| Arc::ptr_eq(present, member))
        {
            connection.member = Err(why);
        }
        member.tasks.kill();
    }

    /// Requests a health check of a cluster now.
    pub(crate) fn check_now(&self, name: &ClusterName) {
        if let Some(connection) = self.connections.read().get(name) {
            connection.check.notify_one();
        }
    }

    /// Forgets a cluster and ends everything that runs for it.
    pub(crate) fn remove(&self, name: &ClusterName) {
        if let Some(connection) = self.connections.write().remove(name) {
            connection.health.kill();
            if let Ok(member) = connection.member {
                member.tasks.kill();
            }
        }
    }

    /// True if no Work and no status of a connected member is ready or being reconciled.
    pub(crate) fn is_quiet(&self) -> bool {
        self.list().iter().all(|member| member.works.is_empty() && member.statuses.is_empty())
    }
}
