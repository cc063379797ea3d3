//! The members of a control plane with their clients, and the names of their pods and nodes.
//!
//! The names are watched from the first question on, and no longer than somebody asks: a member that has nothing to
//! measure need not be asked for metrics (specification/autoscaling.md 3.2).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ironclad_api::{
    cluster::{Cluster, LocalSecretReference},
    conditions, namespaces,
};
use ironclad_fleet::ClusterName;
use ironclad_patch::selector::LabelSelector;
use ironclad_runtime::{Api, Informer, Key, WatchScope};
use ironclad_seam::{Clock, Seam, Tasks};
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::{Client, Resource, ResourceExt as _, api::ObjectMeta, core::PartialObjectMeta};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{Member, MemberMetrics};

/// Time without a question after which names are no longer watched.
const IDLE_MAX: Duration = Duration::from_secs(600);
/// Time between two looks for names that nobody asks for.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Makes the client of a member from its Cluster and credentials; the error is the reason as text.
pub type Connect = Arc<dyn Fn(&Cluster, Option<&Secret>) -> Result<Client, String> + Send + Sync>;

/// The names and labels of objects.
type Names<K> = Informer<PartialObjectMeta<K>>;

/// Members by their Clusters. Clients are made anew when address or credentials change.
pub struct Fleet {
    seam: Seam,
    plane: Client,
    connect: Connect,
    metrics: MemberMetrics,
    clusters: Informer<Cluster>,
    /// Credentials in the namespace of clusters.
    secrets: Informer<Secret>,
    /// Credentials in other namespaces, each watched alone.
    elsewhere: Mutex<BTreeMap<Key, Informer<Secret>>>,
    members: Mutex<BTreeMap<ClusterName, Connection>>,
}

struct Connection {
    identity: String,
    client: Result<Client, String>,
    objects: Option<Objects>,
}

/// The watched names of one member.
struct Objects {
    pods: Names<Pod>,
    nodes: Names<Node>,
    tasks: Tasks,
    /// Time of the last question.
    asked: Instant,
}

impl Fleet {
    /// Follows the Clusters of a control plane. Everything that runs is a task of this seam.
    pub fn start(plane: Client, seam: &Seam, connect: Connect, metrics: MemberMetrics) -> Arc<Self> {
        let (clusters, secrets) = (Informer::new(&[]), Informer::new(&[]));
        let everything = WatchScope::default();
        clusters.start("clusters", seam, &seam.tasks, Api::all(plane.clone()), &everything);
        let api = Api::namespaced(plane.clone(), namespaces::CLUSTER);
        secrets.start("secrets", seam, &seam.tasks, api, &everything);
        let fleet = Arc::new(Self {
            seam: seam.clone(),
            plane,
            connect,
            metrics,
            clusters,
            secrets,
            elsewhere: Mutex::default(),
            members: Mutex::default(),
        });
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
        self.secrets.synced().await;
    }

    /// True once the Clusters and their credentials are known.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.clusters.is_synced() && self.secrets.is_synced()
    }

    /// All members in order of their names.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        let mut members = self.members.lock();
        self.connect(&mut members);
        let member = |(name, connection): (&ClusterName, &Connection)| Member {
            name: name.clone(),
            client: connection.client.clone(),
        };
        members.iter().map(member).collect()
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
        self.those(|objects| has(&objects.pods, namespace, labels))
    }

    /// The members that have this pod, and those of which that is not known yet.
    #[must_use]
    pub fn with_pod(&self, namespace: &str, name: &str) -> Vec<Member> {
        self.those(|objects| objects.pods.is_synced().then(|| objects.pods.get(namespace, name).is_some()))
    }

    /// The members that have such a node, and those of which that is not known yet.
    #[must_use]
    pub fn with_nodes(&self, labels: &LabelSelector) -> Vec<Member> {
        self.those(|objects| has(&objects.nodes, None, labels))
    }

    /// The members that have this node, and those of which that is not known yet.
    #[must_use]
    pub fn with_node(&self, name: &str) -> Vec<Member> {
        self.those(|objects| objects.nodes.is_synced().then(|| objects.nodes.get("", name).is_some()))
    }

    /// The members for which `has` is true, those for which it is not known, and those that can't be asked.
    fn those(&self, has: impl Fn(&Objects) -> Option<bool>) -> Vec<Member> {
        let mut members = self.members.lock();
        self.connect(&mut members);
        let now = self.seam.clock.mono();
        let mut found = Vec::new();
        for (name, connection) in &mut *members {
            if let Ok(client) = &connection.client {
                let objects = connection.objects.get_or_insert_with(|| self.watch(name, client));
                objects.asked = now;
                if has(objects) == Some(false) {
                    continue;
                }
            }
            found.push(Member { name: name.clone(), client: connection.client.clone() });
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
                let client = Err("the cluster is not ready".to_owned());
                members.insert(name, Connection { identity: String::new(), client, objects: None });
                continue;
            }
            let credentials = cluster.spec.secret_ref.as_ref().and_then(|named| self.credentials(named));
            let identity = cluster.connection_identity(credentials.as_deref());
            if members.get(&name).is_some_and(|connection| connection.identity == identity) {
                continue;
            }
            if let Some(mut connection) = members.remove(&name) {
                self.dropped(&name, &mut connection);
            }
            let client = (self.connect)(cluster, credentials.as_deref());
            members.insert(name, Connection { identity, client, objects: None });
        }
    }

    /// Ends what runs over a connection. Returns false, for `retain`.
    fn dropped(&self, name: &ClusterName, connection: &mut Connection) -> bool {
        if let Some(objects) = connection.objects.take() {
            objects.tasks.kill();
        }
        self.metrics.forget(name);
        false
    }

    fn watch(&self, name: &ClusterName, client: &Client) -> Objects {
        let seam = self.seam.child(&format!("names/{name}"));
        let objects = Objects { pods: names(), nodes: names(), tasks: seam.tasks.clone(), asked: seam.clock.mono() };
        let everything = WatchScope::default();
        objects.pods.start("pod names", &seam, &seam.tasks, Api::all(client.clone()), &everything);
        objects.nodes.start("node names", &seam, &seam.tasks, Api::all(client.clone()), &everything);
        objects
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

    /// The credentials that a Cluster names, in whichever namespace.
    fn credentials(&self, named: &LocalSecretReference) -> Option<Arc<Secret>> {
        if named.namespace == namespaces::CLUSTER {
            return self.secrets.get(&named.namespace, &named.name);
        }
        let mut elsewhere = self.elsewhere.lock();
        let informer = elsewhere.entry(Key::new(&named.namespace, &named.name)).or_insert_with(|| {
            let informer = Informer::new(&[]);
            let scope = WatchScope { labels: None, fields: Some(format!("metadata.name={}", named.name)) };
            let api = Api::namespaced(self.plane.clone(), &named.namespace);
            informer.start("credentials", &self.seam, &self.seam.tasks, api, &scope);
            informer
        });
        informer.get(&named.namespace, &named.name)
    }
}

/// A cache that keeps of each object no more than its name and labels.
fn names<K>() -> Names<K>
where
    K: ironclad_runtime::Object + Resource<DynamicType = ()>,
{
    Informer::with_transform(&[], |object: &mut PartialObjectMeta<K>, _| {
        let whole = std::mem::take(&mut object.metadata);
        object.metadata = ObjectMeta {
            name: whole.name,
            namespace: whole.namespace,
            uid: whole.uid,
            resource_version: whole.resource_version,
            labels: whole.labels,
            ..ObjectMeta::default()
        };
    })
}

/// Returns whether the cache has an object of this namespace and these labels; `None` while it is not filled.
fn has<K>(names: &Names<K>, namespace: Option<&str>, labels: &LabelSelector) -> Option<bool>
where
    K: ironclad_runtime::Object + Resource<DynamicType = ()>,
{
    if !names.is_synced() {
        return None;
    }
    let objects = match namespace {
        Some(namespace) => names.namespace(namespace),
        None if labels.requirements.is_empty() => return Some(!names.is_empty()),
        None => names.list(),
    };
    let matches = |object: &Arc<PartialObjectMeta<K>>| {
        let own = object.metadata.labels.as_ref();
        labels.matches(|key| own.and_then(|own| own.get(key)).map(String::as_str))
    };
    Some(objects.iter().any(matches))
}
