//! Connections of a process to members: one for each address and credentials.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use ironclad_api::cluster::{Cluster, SyncMode};
use ironclad_fleet::ClusterName;
use ironclad_runtime::{
    CacheSpec, Caches, Informer, Object, Scope,
    leader::{Fence, fenced},
};
use ironclad_seam::Seam;
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt as _};
use parking_lot::Mutex;

use crate::Connector;

/// The connections of a process. Cheap to clone.
#[derive(Clone)]
pub struct Connections {
    connector: Arc<dyn Connector>,
    /// Namespaces of members that are watched.
    scope: Scope,
    open: Arc<Mutex<Open>>,
    /// Writes of whoever connects through this clone pass it.
    fence: Option<Fence>,
}

/// The connections that somebody uses, each with the address and credentials that it has.
type Open = BTreeMap<ClusterName, (String, Weak<Connection>)>;

/// A connection that somebody uses.
struct Connection {
    client: Client,
    caches: Caches,
}

/// A connected member, as one of those who use the connection has it.
pub struct Member {
    /// Its name.
    pub name: ClusterName,
    /// Its client.
    pub client: Client,
    /// The caches of it that this user takes. They are shared with the other users of the connection.
    pub caches: Caches,
    /// The owner of everything that this user runs over the connection.
    pub seam: Seam,
    /// True if this process applies its Works and reports its status, false if its agent does.
    pub serves: bool,
    /// Kept for the other users.
    _connection: Arc<Connection>,
}

impl Member {
    /// The running cache of a kind.
    #[must_use]
    pub fn watch<K: Object>(&self, spec: &'static CacheSpec<K>) -> Informer<K> {
        let informer = self.caches.take(spec);
        self.caches.start(&self.client);
        informer
    }
}

impl Connections {
    /// No connections yet.
    #[must_use]
    pub fn new(connector: Arc<dyn Connector>, scope: Scope) -> Self {
        Self { connector, scope, open: Arc::default(), fence: None }
    }

    /// The same connections for somebody whose writes pass this fence.
    #[must_use]
    pub fn fenced(&self, fence: Option<Fence>) -> Self {
        Self { fence, ..self.clone() }
    }

    /// True if there is a way to the member: always to those in push mode.
    #[must_use]
    pub fn reaches(&self, cluster: &Cluster) -> bool {
        let is_open = || self.connector.tunnels().is_some_and(|tunnels| tunnels.is_open(&cluster.name_any()));
        cluster.spec.sync_mode == SyncMode::Push || is_open()
    }

    /// Calls this with the name of each cluster that comes to be reached over a tunnel, or is no longer.
    pub fn on_tunnel(&self, handler: impl Fn(&ClusterName) + Send + Sync + 'static) {
        if let Some(tunnels) = self.connector.tunnels() {
            tunnels.on_change(move |name| handler(&name.into()));
        }
    }

    /// Connects a member with these credentials, over the connection that others use if there is one. What this user
    /// runs over it belongs to `seam`.
    ///
    /// # Errors
    /// Returns the reason as text.
    pub fn connect(&self, cluster: &Cluster, credentials: Option<&Secret>, seam: Seam) -> Result<Member, String> {
        let name = ClusterName::from(cluster.name_any().as_str());
        let identity = cluster.connection_identity(credentials);
        let mut open = self.open.lock();
        let known = open.get(&name).filter(|(known, _)| *known == identity);
        let connection = match known.and_then(|(_, connection)| connection.upgrade()) {
            Some(connection) => connection,
            None => {
                let client = self.connector.connect(cluster, credentials)?;
                let caches = Caches::new(self.scope.clone(), &seam);
                let connection = Arc::new(Connection { client, caches });
                if !open.contains_key(&name) {
                    open.retain(|_, (_, connection)| connection.strong_count() > 0);
                }
                open.insert(name.clone(), (identity, Arc::downgrade(&connection)));
                connection
            }
        };
        let client = match &self.fence {
            Some(fence) => fenced(connection.client.clone(), fence.clone()),
            None => connection.client.clone(),
        };
        let caches = connection.caches.owned_by(&seam);
        let serves = cluster.spec.sync_mode == SyncMode::Push || self.connector.tunnels().is_none();
        Ok(Member { name, client, caches, seam, serves, _connection: connection })
    }
}
