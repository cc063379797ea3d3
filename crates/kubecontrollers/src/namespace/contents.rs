//! Contents of every active namespace: the ServiceAccount `default` and the ConfigMap with the root certificate.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_runtime::{Api, Failure, Informer, Next, Queue, Writer};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::{ResourceExt as _, api::ObjectMeta};
use serde_json::json;

use crate::{
    Cluster,
    caches::{NAMESPACES, ROOT_CAS, SERVICE_ACCOUNTS},
};

/// ServiceAccount of pods that name none.
pub(crate) const DEFAULT_SERVICE_ACCOUNT: &str = "default";
pub(crate) const ROOT_CA: &str = "kube-root-ca.crt";
const CA_KEY: &str = "ca.crt";
const CA_DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                              endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                              guaranteed across distributions of Kubernetes clusters.";
const WORKERS: usize = 4;

fn is_active(namespace: &Namespace) -> bool {
    namespace.metadata.deletion_timestamp.is_none()
}

fn queue_of_namespaces(cluster: &Cluster, name: &str) -> Queue<Arc<str>> {
    let queue: Queue<Arc<str>> = cluster.queue(name);
    let to = queue.clone();
    cluster.caches.take(&NAMESPACES).on_change(move |change| {
        if let Some(namespace) = change.new.as_ref().filter(|n| is_active(n)) {
            to.add(namespace.name_any().into());
        }
    });
    queue
}

/// Maintains a ServiceAccount `default` in each active namespace.
pub(crate) fn start_service_account(cluster: &Cluster) {
    let queue = queue_of_namespaces(cluster, "serviceaccount");
    let accounts = cluster.caches.take(&SERVICE_ACCOUNTS);
    let to = queue.clone();
    accounts.on_change(move |change| {
        if let (Some(old), None) = (&change.old, &change.new) {
            to.add(old.namespace().unwrap_or_default().into());
        }
    });
    let (cluster, namespaces, writer) =
        (cluster.clone(), cluster.caches.take(&NAMESPACES), Writer::new("serviceaccount-controller"));
    let (prepared, ready) = (cluster.clone(), [namespaces.when_synced(), accounts.when_synced()]);
    prepared.run("serviceaccount", queue, WORKERS, ready, move |name| {
        let (cluster, namespaces, accounts, writer) =
            (cluster.clone(), namespaces.clone(), accounts.clone(), writer.clone());
        async move {
            let missing = accounts.get(&name, DEFAULT_SERVICE_ACCOUNT).is_none();
            if !missing || !namespaces.get("", &name).is_some_and(|n| is_active(&n)) {
                return Ok(Next::Forget);
            }
            let account = ServiceAccount {
                metadata: ObjectMeta {
                    name: Some(DEFAULT_SERVICE_ACCOUNT.to_owned()),
                    namespace: Some(name.to_string()),
                    ..ObjectMeta::default()
                },
                ..ServiceAccount::default()
            };
            let api: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), &name);
            exists(writer.create(&api, Some(&accounts), &account).await)
        }
    });
}

/// Maintains the ConfigMap with this certificate (PEM) in each active namespace.
pub(crate) fn start_root_ca(cluster: &Cluster, certificate: &str) {
    let queue = queue_of_namespaces(cluster, "root-ca");
    let maps = cluster.caches.take(&ROOT_CAS);
    let to = queue.clone();
    maps.on_change(move |change| {
        if let Some(map) = change.old.as_ref().or(change.new.as_ref()) {
            to.add(map.namespace().unwrap_or_default().into());
        }
    });
    let (cluster, namespaces, writer) =
        (cluster.clone(), cluster.caches.take(&NAMESPACES), Writer::new("root-ca-certificate-publisher-controller"));
    let certificate: Arc<str> = certificate.into();
    let (prepared, ready) = (cluster.clone(), [namespaces.when_synced(), maps.when_synced()]);
    prepared.run("root-ca", queue, WORKERS, ready, move |name| {
        let (cluster, namespaces, maps, writer, certificate) =
            (cluster.clone(), namespaces.clone(), maps.clone(), writer.clone(), certificate.clone());
        async move {
            if !namespaces.get("", &name).is_some_and(|n| is_active(&n)) {
                return Ok(Next::Forget);
            }
            publish(&cluster, &maps, &writer, &name, &certificate).await
        }
    });
}

async fn publish(
    cluster: &Cluster,
    maps: &Informer<ConfigMap>,
    writer: &Writer,
    namespace: &str,
    certificate: &str,
) -> Result<Next, Failure> {
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), namespace);
    match maps.get(namespace, ROOT_CA) {
        Some(map) if map.data.as_ref().and_then(|d| d.get(CA_KEY)).is_some_and(|pem| pem == certificate) => {
            Ok(Next::Forget)
        }
        Some(map) => {
            writer.patch(&api, Some(maps), &map, json!({"data": {CA_KEY: certificate}})).await?;
            Ok(Next::Forget)
        }
        None => {
            let map = ConfigMap {
                metadata: ObjectMeta {
                    name: Some(ROOT_CA.to_owned()),
                    namespace: Some(namespace.to_owned()),
                    annotations: Some(BTreeMap::from([(
                        "kubernetes.io/description".to_owned(),
                        CA_DESCRIPTION.to_owned(),
                    )])),
                    ..ObjectMeta::default()
                },
                data: Some(BTreeMap::from([(CA_KEY.to_owned(), certificate.to_owned())])),
                ..ConfigMap::default()
            };
            exists(writer.create(&api, Some(maps), &map).await)
        }
    }
}

/// Accepts any response after which the object exists, or the namespace is terminating.
fn exists<T>(answer: Result<T, Failure>) -> Result<Next, Failure> {
    match answer {
        Ok(_) | Err(Failure::AlreadyExists(_) | Failure::NotFound(_)) => Ok(Next::Forget),
        Err(failure) => Err(failure),
    }
}
