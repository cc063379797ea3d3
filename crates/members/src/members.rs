//! The members of somebody who follows the Clusters, and what others keep for each of them.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::cluster::Cluster;
use ironclad_fleet::ClusterName;
use ironclad_seam::{Seam, Tasks};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::{Connections, Member};

/// Reason why a cluster is not connected.
#[derive(Debug, Clone)]
pub enum Unconnected {
    /// No client could be made, for this reason.
    NoClient(String),
    /// It is the control plane itself.
    ControlPlane {
        /// The uid of namespace kube-system in both.
        uid: String,
    },
}

/// The connection of one cluster.
struct Entry {
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
pub struct Members {
    connections: Connections,
    seam: Seam,
    entries: RwLock<BTreeMap<ClusterName, Entry>>,
    on_join: RwLock<Vec<OnJoin>>,
    on_connect: RwLock<Vec<OnConnect>>,
}

impl Members {
    /// No members. What runs for them belongs to this seam.
    #[must_use]
    pub fn new(connections: Connections, seam: &Seam) -> Self {
        let (on_join, on_connect) = Default::default();
        Self { connections, seam: seam.clone(), entries: RwLock::default(), on_join, on_connect }
    }

    /// Calls this for every cluster that is tried to be connected for the first time and that this process serves, with
    /// the notification by which a health check is requested and the owner of the cluster's health checks.
    pub fn on_join(&self, handler: impl Fn(&ClusterName, &Arc<Notify>, &Tasks) + Send + Sync + 'static) {
        self.on_join.write().push(Box::new(handler));
    }

    /// Calls this for every connection that is made. The caches that it takes start once all were called.
    pub fn on_connect(&self, handler: impl Fn(&Arc<Member>) + Send + Sync + 'static) {
        self.on_connect.write().push(Box::new(handler));
    }

    /// The connections that they have.
    #[must_use]
    pub fn connections(&self) -> &Connections {
        &self.connections
    }

    /// The member, if it is connected.
    #[must_use]
    pub fn get(&self, name: &ClusterName) -> Option<Arc<Member>> {
        self.connection(name)?.ok()
    }

    /// The member, or why it is not connected.
    #[must_use]
    pub fn connection(&self, name: &ClusterName) -> Option<Result<Arc<Member>, Unconnected>> {
        self.entries.read().get(name).map(|entry| entry.member.clone())
    }

    /// Connects a cluster with its present credentials, unless it was tried with the same ones. The tasks of the
    /// previous connection end.
    pub fn connect(&self, cluster: &Cluster, credentials: Option<&Secret>) {
        let name = ClusterName::from(cluster.name_any().as_str());
        let identity = cluster.connection_identity(credentials);
        if self.entries.read().get(&name).is_some_and(|entry| entry.identity == identity) {
            return;
        }
        let made = self.connections.connect(cluster, credentials, self.seam.child(&format!("member/{name}")));
        let member = made.map(Arc::new).map_err(Unconnected::NoClient);
        let connected = member.as_ref().ok().cloned();
        let (before, joined) = {
            let mut entries = self.entries.write();
            if let Some(entry) = entries.get_mut(&name) {
                entry.identity = identity;
                entry.check.notify_one();
                (Some(std::mem::replace(&mut entry.member, member)), None)
            } else {
                let (check, health) = (Arc::new(Notify::new()), self.seam.tasks.child(&format!("health/{name}")));
                let joined = Some((check.clone(), health.clone()));
                entries.insert(name.clone(), Entry { member, identity, check, health });
                (None, joined)
            }
        };
        if let Some((check, health)) = joined.filter(|_| connected.as_ref().is_none_or(|member| member.serves)) {
            self.on_join.read().iter().for_each(|handler| handler(&name, &check, &health));
        }
        if let Some(Ok(member)) = before {
            member.seam.tasks.kill();
        }
        if let Some(member) = connected {
            self.on_connect.read().iter().for_each(|handler| handler(&member));
            member.caches.start(&member.client);
        }
    }

    /// Ends the connection of a member for this reason. The cluster is connected again when its address or its
    /// credentials change.
    pub fn refuse(&self, member: &Arc<Member>, why: Unconnected) {
        if let Some(entry) = self.entries.write().get_mut(&member.name)
            && entry.member.as_ref().is_ok_and(|present| Arc::ptr_eq(present, member))
        {
            entry.member = Err(why);
        }
        member.seam.tasks.kill();
    }

    /// Requests a health check of a cluster now.
    pub fn check_now(&self, name: &ClusterName) {
        if let Some(entry) = self.entries.read().get(name) {
            entry.check.notify_one();
        }
    }

    /// Forgets a cluster and ends everything that runs for it.
    pub fn remove(&self, name: &ClusterName) {
        if let Some(entry) = self.entries.write().remove(name) {
            entry.health.kill();
            if let Ok(member) = entry.member {
                member.seam.tasks.kill();
            }
        }
    }
}

/// A value for each connected member, of whoever needs it. It counts until the connection ends.
pub struct PerMember<T>(RwLock<BTreeMap<ClusterName, (Tasks, Arc<T>)>>);

impl<T> Default for PerMember<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T> PerMember<T> {
    /// Keeps this value for a connection, and returns it.
    pub fn set(&self, member: &Member, value: impl Into<Arc<T>>) -> Arc<T> {
        let (mut all, value) = (self.0.write(), value.into());
        all.retain(|_, (connection, _)| !connection.is_dead());
        all.insert(member.name.clone(), (member.seam.tasks.clone(), value.clone()));
        value
    }

    /// The value for a cluster, if it is connected.
    #[must_use]
    pub fn get(&self, name: &ClusterName) -> Option<Arc<T>> {
        let all = self.0.read();
        all.get(name).filter(|(connection, _)| !connection.is_dead()).map(|(_, value)| value.clone())
    }

    /// The values for all connected members, in order of their names.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<T>> {
        let all = self.0.read();
        all.values().filter(|(connection, _)| !connection.is_dead()).map(|(_, value)| value.clone()).collect()
    }
}
