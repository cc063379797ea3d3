//! Secrets of Clusters.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{cluster::Cluster, namespaces};
use ironclad_runtime::{Api, Change, Informer, Key, WatchScope};
use ironclad_seam::Seam;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use parking_lot::{Mutex, RwLock};

type OnChange = Arc<dyn Fn(&Change<Secret>) + Send + Sync>;

/// The credentials that Clusters name, in whichever namespace.
pub struct Credentials {
    seam: Seam,
    plane: Client,
    /// Those in the namespace of clusters.
    secrets: Informer<Secret>,
    /// Those in other namespaces, each watched alone.
    elsewhere: Mutex<BTreeMap<Key, Informer<Secret>>>,
    handlers: Arc<RwLock<Vec<OnChange>>>,
}

impl Credentials {
    /// Credentials of this control plane; `secrets` are those in the namespace of clusters.
    #[must_use]
    pub fn new(plane: &Client, seam: &Seam, secrets: Informer<Secret>) -> Self {
        let (seam, plane) = (seam.clone(), plane.clone());
        Self { seam, plane, secrets, elsewhere: Mutex::default(), handlers: Arc::default() }
    }

    /// Calls this for changes of credentials. Call it before any were asked for.
    pub fn on_change(&self, handler: impl Fn(&Change<Secret>) + Send + Sync + 'static) {
        let handler: OnChange = Arc::new(handler);
        self.handlers.write().push(handler.clone());
        self.secrets.on_change(move |change| handler(change));
    }

    /// The credentials that a Cluster names, as far as they are known.
    pub fn of(&self, cluster: &Cluster) -> Option<Arc<Secret>> {
        let named = cluster.spec.secret_ref.as_ref()?;
        if named.namespace == namespaces::CLUSTER {
            return self.secrets.get(&named.namespace, &named.name);
        }
        let mut elsewhere = self.elsewhere.lock();
        let informer = elsewhere.entry(Key::new(&named.namespace, &named.name)).or_insert_with(|| {
            let (informer, handlers) = (Informer::new(&[]), self.handlers.clone());
            informer.on_change(move |change| handlers.read().iter().for_each(|handler| handler(change)));
            let scope = WatchScope { labels: None, fields: Some(format!("metadata.name={}", named.name)) };
            let api = Api::namespaced(self.plane.clone(), &named.namespace);
            informer.start("credentials", &self.seam, &self.seam.tasks, api, &scope);
            informer
        });
        informer.get(&named.namespace, &named.name)
    }

    /// Resolves when those in the namespace of clusters are known.
    pub async fn synced(&self) {
        self.secrets.synced().await;
    }

    /// True once those in the namespace of clusters are known.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.secrets.is_synced()
    }
}
