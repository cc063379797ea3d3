//! The members of a control plane whose metrics are asked, and the names of their pods and nodes.
//!
//! The names are taken from the shared caches of the members, from the first question on, and no longer than somebody
//! asks: a member that has nothing to measure need not be asked for metrics (specification/autoscaling.md 3.2).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ironclad_api::{StringMap, cluster::Cluster, conditions, namespaces};
use ironclad_fleet::ClusterName;
use ironclad_members::{Connections, Credentials, Member as Connected, NODES, Node, PODS, Pod};
use ironclad_patch::selector::LabelSelector;
use ironclad_runtime::{Api, CacheSpec, Caches, Informer, WatchScope};
use ironclad_seam::{Clock, Seam, Tasks};
use kube::{Client, ResourceExt as _};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{Member, MemberMetrics};

/// Time without a question after which names are no longer needed.
const IDLE_MAX: Duration = Duration::from_secs(600);
/// Time between two looks for names that nobody asks for.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Members by their Clusters. They are connected anew when address or credentials change.
pub struct Fleet {
    seam: Seam,
    connections: Connections,
    metrics: MemberMetrics,
    clusters: Informer<Cluster>,
    credentials: Credentials,
    members: Mutex<BTreeMap<ClusterName, Connection>>,
}

struct Connection {
    identity: String,
    member: Result<Connected, String>,
    objects: Option<Objects>,
}

/// The objects of one member that were asked about.
struct Objects {
    caches: Caches,
    tasks: Tasks,
    /// Time of the last question.
    asked: Instant,
}

impl Objects {
    fn of(member: &Connected) -> Self {
        let seam = member.seam.child("names");
        Self { caches: member.caches.owned_by(&seam), asked: seam.clock.mono(), tasks: seam.tasks }
    }
}

impl Connection {
    fn named(&self, name: &ClusterName) -> Member {
        let client = self.member.as_ref().map(|member| member.client.clone()).map_err(Clone::clone);
        Member { name: name.clone(), client }
    }
}

impl Fleet {
    /// Follows the Clusters of a control plane. Everything that runs is a task of this seam.
    pub fn start(plane: &Client, seam: &Seam, connections: Connections, metrics: MemberMetrics) -> Arc<Self> {
        let (clusters, secrets) = (Informer::new(&[]), Informer::new(&[]));
        let everything = WatchScope::default();
        clusters.start("clusters", seam, &seam.tasks, Api::all(plane.clone()), &everything);
        let api = Api::namespaced(plane.clone(), namespaces::CLUSTER);
        secrets.start("secrets", seam, &seam.tasks, api, &everything);
        let credentials = Credentials::new(plane, seam, secrets);
        let (seam, members) = (seam.clone(), Mutex::default());
        let fleet = Arc::new(Self { seam: seam.clone(), connections, metrics, clusters, credentials, members });
        let weak = Arc::downgrade(&fleet);
        seam.tasks.supervise(&seam.clock, "idle-names", move || {
            let weak = weak.clone();
            async move {
                while let Some(fleet) = weak.upgrade() {
                    fleet.sweep();
                    let clock = fleet.seam.clock.clone();
                    drop(fleet);
                    clock.sleep(SWEEP_EVERY).await;
                }
            }
        });
        fleet
    }

    /// The clock of the control plane, by which those of members are judged.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.seam.clock
    }

    /// Asks members for metrics.
    #[must_use]
    pub fn metrics(&self) -> &MemberMetrics {
        &self.metrics
    }

    /// Resolves when the Clusters and their credentials are known.
    pub async fn synced(&self) {
        self.clusters.synced().await;
        self.credentials.synced().await;
    }

    /// True once the Clusters and their credentials are known.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.clusters.is_synced() && self.credentials.is_synced()
    }

    /// All members in order of their names.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        let mut members = self.members.lock();
        self.connect(&mut members);
        members.iter().map(|(name, connection)| connection.named(name)).collect()
    }

    /// The members that serve a version of this API group, as their Clusters report, and those of which that is not
    /// known.
    #[must_use]
    pub fn serving(&self, group: &str) -> Vec<Member> {
        let lacks = |cluster: &Arc<Cluster>| {
            let Some(status) = &cluster.status else { return false };
            let of_group = |version: &str| version.split_once('/').is_some_and(|(of, _)| of == group);
            conditions::is_true(&status.conditions, conditions::cluster::COMPLETE_API_ENABLEMENTS)
                && !status.api_enablements.iter().any(|enablement| of_group(&enablement.group_version))
        };
        let mut members = self.members();
        members.retain(|member| !self.clusters.get("", &member.name.0).is_some_and(|cluster| lacks(&cluster)));
        members
    }

    /// The members that have such a pod, and those of which that is not known yet.
    #[must_use]
    pub fn with_pods(&self, namespace: Option<&str>, labels: &LabelSelector) -> Vec<Member> {
        self.those(&PODS, |pods| has(pods, Pod::labels, namespace, labels))
    }

    /// The members that have this pod, and those of which that is not known yet.
    #[must_use]
    pub fn with_pod(&self, namespace: &str, name: &str) -> Vec<Member> {
        self.those(&PODS, |pods| pods.get(namespace, name).is_some())
    }

    /// The members that have such a node, and those of which that is not known yet.
    #[must_use]
    pub fn with_nodes(&self, labels: &LabelSelector) -> Vec<Member> {
        self.those(&NODES, |nodes| has(nodes, Node::labels, None, labels))
    }

    /// The members that have this node, and those of which that is not known yet.
    #[must_use]
    pub fn with_node(&self, name: &str) -> Vec<Member> {
        self.those(&NODES, |nodes| nodes.get("", name).is_some())
    }

    /// The members for which `has` is true, those whose objects are not known yet, and those that can't be asked.
    fn those<K>(&self, spec: &'static CacheSpec<K>, has: impl Fn(&Informer<K>) -> bool) -> Vec<Member>
    where
        K: ironclad_runtime::Object,
    {
        let mut members = self.members.lock();
        self.connect(&mut members);
        let now = self.seam.clock.mono();
        let mut found = Vec::new();
        for (name, connection) in &mut *members {
            if let Ok(member) = &connection.member {
                let objects = connection.objects.get_or_insert_with(|| Objects::of(member));
                objects.asked = now;
                let cached = objects.caches.take(spec);
                objects.caches.start(&member.client);
                if cached.is_synced() && !has(&cached) {
                    continue;
                }
            }
            found.push(connection.named(name));
        }
        found
    }

    /// Makes clients of members that are new or changed, and drops those of members that were removed.
    fn connect(&self, members: &mut BTreeMap<ClusterName, Connection>) {
        let clusters = self.clusters.list();
        let names: BTreeSet<ClusterName> = clusters.iter().map(|c| c.name_any().as_str().into()).collect();
        members.retain(|name, connection| names.contains(name) || self.dropped(name, connection));
        for (name, cluster) in names.into_iter().zip(&clusters) {
            if !cluster.is_ready() {
                if members.get(&name).is_some_and(|connection| connection.identity.is_empty()) {
                    continue;
                }
                if let Some(mut connection) = members.remove(&name) {
                    self.dropped(&name, &mut connection);
                }
                let member = Err("the cluster is not ready".to_owned());
                members.insert(name, Connection { identity: String::new(), member, objects: None });
                continue;
            }
            let credentials = self.credentials.of(cluster);
            let identity = cluster.connection_identity(credentials.as_deref());
            if members.get(&name).is_some_and(|connection| connection.identity == identity) {
                continue;
            }
            if let Some(mut connection) = members.remove(&name) {
                self.dropped(&name, &mut connection);
            }
            let seam = self.seam.child(&format!("member/{name}"));
            let member = self.connections.connect(cluster, credentials.as_deref(), seam);
            members.insert(name, Connection { identity, member, objects: None });
        }
    }

    /// Ends what runs over a connection. Returns false, for `retain`.
    fn dropped(&self, name: &ClusterName, connection: &mut Connection) -> bool {
        if let Ok(member) = &connection.member {
            member.seam.tasks.kill();
        }
        self.metrics.forget(name);
        false
    }

    fn sweep(&self) {
        let now = self.seam.clock.mono();
        for connection in self.members.lock().values_mut() {
            if connection.objects.as_ref().is_some_and(|o| now.saturating_duration_since(o.asked) >= IDLE_MAX)
                && let Some(objects) = connection.objects.take()
            {
                objects.tasks.kill();
            }
        }
    }
}

/// True if the cache has an object of this namespace and these labels.
fn has<K: ironclad_runtime::Object>(
    cached: &Informer<K>,
    labels_of: fn(&K) -> &StringMap,
    namespace: Option<&str>,
    labels: &LabelSelector,
) -> bool {
    let objects = match namespace {
        Some(namespace) => cached.namespace(namespace),
        None if labels.requirements.is_empty() => return !cached.is_empty(),
        None => cached.list(),
    };
    let matches = |object: &Arc<K>| labels.matches(|key| labels_of(object).get(key).map(String::as_str));
    objects.iter().any(matches)
}
