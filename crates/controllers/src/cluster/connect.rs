//! Connects members, once for each set of credentials.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock, atomic::AtomicBool},
};

use ironclad_api::{
    cluster::{Cluster, LocalSecretReference, SyncMode},
    labels, namespaces,
    work::Work,
};
use ironclad_estimator::Needs;
use ironclad_fleet::{ClusterName, Gvk};
use ironclad_runtime::{Api, Change, Informer, Key, Queue, WatchScope, WorkMetrics};
use ironclad_seam::Seam;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use parking_lot::Mutex;

use crate::{
    awaiting::Awaiting,
    caches::SECRETS,
    connector::Connector,
    estimates::member_needs,
    interpreter::Interpreters,
    mapper::Mapper,
    member_object,
    members::{Member, Members, Unconnected},
    objects::Objects,
    setup::Setup,
};

/// Maker of connections.
pub(super) struct Connections {
    seam: Seam,
    work_metrics: WorkMetrics,
    connector: Arc<dyn Connector>,
    mapper: Arc<Mapper>,
    interpreters: Arc<Interpreters>,
    works: Informer<Work>,
    plane: Client,
    /// The credentials in the namespace of clusters.
    pub(super) secrets: Informer<Secret>,
    /// Credentials in other namespaces, each watched alone.
    elsewhere: Mutex<BTreeMap<Key, Informer<Secret>>>,
    on_elsewhere: OnceLock<OnSecret>,
    pub(super) members: Arc<Members>,
    /// Figures that are computed from members' nodes and pods.
    needs: Needs,
    /// True if members' nodes and pods are watched.
    watches_resources: bool,
}

type OnSecret = Arc<dyn Fn(&Change<Secret>) + Send + Sync>;

impl Connections {
    pub(super) fn new(setup: &Setup) -> Self {
        let needs = member_needs(&setup.settings);
        let summaries = setup.settings.propagation.resource_modeling.is_on();
        Self {
            needs,
            watches_resources: summaries || needs.capacity || needs.unschedulable,
            seam: setup.seam.clone(),
            work_metrics: setup.work_metrics.clone(),
            connector: setup.connector.clone(),
            mapper: setup.mapper.clone(),
            interpreters: setup.interpreters.clone(),
            works: setup.works.clone(),
            plane: setup.plane.clone(),
            secrets: setup.caches.take(&SECRETS),
            elsewhere: Mutex::default(),
            on_elsewhere: OnceLock::new(),
            members: setup.members.clone(),
        }
    }

    /// Calls this for changes of credentials outside of the namespace of clusters. Only the first call counts.
    pub(super) fn on_secret_elsewhere(&self, handler: impl Fn(&Change<Secret>) + Send + Sync + 'static) {
        let _ = self.on_elsewhere.set(Arc::new(handler));
    }

    /// The credentials that a Cluster names, in whichever namespace.
    fn credentials(&self, named: &LocalSecretReference) -> Option<Arc<Secret>> {
        if named.namespace == namespaces::CLUSTER {
            return self.secrets.get(&named.namespace, &named.name);
        }
        let mut elsewhere = self.elsewhere.lock();
        let informer = elsewhere.entry(Key::new(&named.namespace, &named.name)).or_insert_with(|| {
            let informer = Informer::new(&[]);
            let handler = self.on_elsewhere.get().cloned();
            informer.on_change(move |change| handler.iter().for_each(|handler| handler(change)));
            let scope = WatchScope { labels: None, fields: Some(format!("metadata.name={}", named.name)) };
            let api = Api::namespaced(self.plane.clone(), &named.namespace);
            informer.start("credentials", &self.seam, &self.seam.tasks, api, &scope);
            informer
        });
        informer.get(&named.namespace, &named.name)
    }

    /// Makes sure that the cluster is connected with its present credentials. Pull members have an agent instead.
    pub(super) fn connect(&self, name: &ClusterName, cluster: &Cluster) {
        if cluster.spec.sync_mode != SyncMode::Push {
            return;
        }
        let credentials = cluster.spec.secret_ref.as_ref().and_then(|named| self.credentials(named));
        let identity = cluster.connection_identity(credentials.as_deref());
        if !self.members.is_current(name, &identity) {
            let made = self.make(name, cluster, credentials.as_deref());
            let member = made.as_ref().ok().cloned();
            self.members.set(name, identity, made.map_err(Unconnected::NoClient));
            // By now, everything that follows the caches has its handlers.
            if let Some(member) = member.filter(|_| self.watches_resources) {
                member.resources.start(&member.client, &self.seam, &member.tasks);
            }
        }
    }

    fn make(&self, name: &ClusterName, cluster: &Cluster, credentials: Option<&Secret>) -> Result<Arc<Member>, String> {
        let client = self.connector.connect(cluster, credentials)?;
        let seam = self.seam.child(&format!("member/{name}"));
        let works =
            Queue::new(seam.clock.clone(), seam.rng.stream("jitter/works")).measured("execution", &self.work_metrics);
        let statuses = Queue::new(seam.clock.clone(), seam.rng.stream("jitter/statuses"))
            .measured("workStatus", &self.work_metrics);
        // Objects of other origin are found by the answer to a create, at the price of one read.
        let scope = WatchScope { labels: Some(format!("{}={}", labels::MANAGED, labels::TRUE)), fields: None };
        let (interpreters, cached) = (self.interpreters.clone(), self.works.clone());
        let make = Box::new(move |gvk: &Gvk| member_object::informer(&interpreters, &cached, gvk));
        let objects = Objects::new(client.clone(), self.mapper.clone(), &seam, seam.tasks.clone(), scope, make);
        let objects = objects.of_older_servers();
        Ok(Arc::new(Member {
            name: name.clone(),
            client,
            objects,
            resources: ironclad_estimator::Member::new(self.needs),
            works,
            awaiting: Arc::new(Awaiting::default()),
            statuses,
            kinds_changed: AtomicBool::new(false),
            namespaces_watched: AtomicBool::new(false),
            kube_system: OnceLock::new(),
            further_retries: Mutex::default(),
            tasks: seam.tasks,
        }))
    }
}
