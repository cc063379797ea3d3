//! The embedded server as a client of aggregated API servers: requests over the network, and the certificate by which
//! those servers know that a request comes from it (specification/apiserver.md 22).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt as _;
use ironclad_apiserver::{ForwardAnswer, ForwardTarget, Forwarder, pki::Pair};
use ironclad_runtime::{AggregatedAccess, Api, Traffic, aggregated_client};
use ironclad_seam::Seam;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Client,
    api::{ObjectMeta, PostParams},
    client::Body,
};
use parking_lot::Mutex;
use serde_json::json;

use crate::admission::{Certificates, Purpose, WebhookError, certificates, failed};

/// Clients that are cached. Beyond that the cache is emptied.
const CLIENTS_MAX: usize = 64;
/// The user of the certificate, which aggregated API servers let speak for others.
const PROXY_CLIENT: &str = "ironclad-proxy-client";
/// The ConfigMap in which aggregated API servers find whom to trust.
pub(crate) const AUTHENTICATION: &str = "extension-apiserver-authentication";
pub(crate) const KUBE_SYSTEM: &str = "kube-system";
/// Time between two looks whether the certificate ends.
const CHECK_EVERY: Duration = Duration::from_secs(3_600);
const FIELD_MANAGER: &str = "ironclad-aggregation";

/// Address of a server, with the serial number of our certificate at the time.
type Peer = (String, Option<String>, Option<Vec<u8>>, bool, u64);

/// Forwards requests over TLS, with the certificate of the proxy.
#[derive(Default)]
pub struct NetworkForwarder(Arc<State>);

#[derive(Default)]
struct State {
    /// Our certificate, and how often it was replaced.
    certificate: Mutex<(Option<Pair>, u64)>,
    clients: Mutex<BTreeMap<Peer, Client>>,
}

impl std::fmt::Debug for NetworkForwarder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NetworkForwarder").field("clients", &self.0.clients.lock().len()).finish()
    }
}

impl State {
    fn client(&self, target: &ForwardTarget) -> Result<Client, String> {
        let (certificate, generation) = self.certificate.lock().clone();
        let peer: Peer =
            (target.base.clone(), target.server_name.clone(), target.ca_bundle.clone(), target.insecure, generation);
        let mut clients = self.clients.lock();
        if let Some(client) = clients.get(&peer) {
            return Ok(client.clone());
        }
        let access = AggregatedAccess {
            endpoint: &target.base,
            server_name: target.server_name.as_deref(),
            ca_bundle: target.ca_bundle.as_deref(),
            insecure: target.insecure,
            certificate: certificate.as_ref().map(|pair| (pair.certificate.as_str(), pair.key.as_str())),
        };
        let made = aggregated_client(access, Arc::new(Traffic::default()))?;
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        clients.insert(peer, made.clone());
        Ok(made)
    }
}

impl NetworkForwarder {
    /// Presents this certificate from now on.
    pub(crate) fn present(&self, pair: Pair) {
        let mut slot = self.0.certificate.lock();
        if slot.0.as_ref().is_none_or(|before| before.certificate != pair.certificate) {
            *slot = (Some(pair), slot.1 + 1);
        }
    }
}

impl Forwarder for NetworkForwarder {
    fn forward(&self, target: ForwardTarget, request: Request<Bytes>) -> ForwardAnswer {
        let state = self.0.clone();
        Box::pin(async move {
            let client = state.client(&target)?;
            let request = request.map(|body| Body::from(body.to_vec()));
            let response = client.send(request).await.map_err(|error| innermost(&error))?;
            Ok(response.map(|body| body.map_err(std::io::Error::other).boxed_unsync()))
        })
    }
}

/// The innermost cause, which says what happened.
fn innermost(error: &kube::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// The certificate of the proxy, and the ConfigMap that makes it known.
pub struct FrontProxy {
    client: Client,
    forwarder: Arc<NetworkForwarder>,
    /// The authority of the certificates of the server's clients, PEM.
    client_ca: String,
}

impl FrontProxy {
    /// Makes the certificate and the ConfigMap, and keeps both up to date as a task of this seam.
    ///
    /// # Errors
    /// The control plane rejects the Secret or the ConfigMap.
    pub async fn start(
        client: Client,
        forwarder: Arc<NetworkForwarder>,
        client_ca: String,
        seam: &Seam,
    ) -> Result<(), WebhookError> {
        let proxy = Arc::new(Self { client, forwarder, client_ca });
        proxy.check(seam).await?;
        let keeper = seam.clone();
        seam.tasks.supervise(&seam.clock, "proxy-certificate", move || {
            let (proxy, seam) = (proxy.clone(), keeper.clone());
            async move {
                loop {
                    seam.clock.sleep(CHECK_EVERY).await;
                    if let Err(error) = proxy.check(&seam).await {
                        tracing::warn!(%error, "checking the certificate for aggregated API servers failed");
                    }
                }
            }
        });
        Ok(())
    }

    async fn check(&self, seam: &Seam) -> Result<(), WebhookError> {
        let purpose = Purpose {
            secret: "ironclad-front-proxy",
            authority: "ironclad-front-proxy-ca",
            name: PROXY_CLIENT,
            hosts: None,
        };
        let found = certificates(&self.client, &purpose, seam).await?;
        // Trust first, then the certificate that needs it.
        self.publish(&found).await?;
        self.forwarder.present(found.serving);
        Ok(())
    }

    async fn publish(&self, found: &Certificates) -> Result<(), WebhookError> {
        let data = [
            ("client-ca-file", self.client_ca.clone()),
            ("requestheader-client-ca-file", found.bundle.clone()),
            ("requestheader-allowed-names", json!([PROXY_CLIENT]).to_string()),
            ("requestheader-username-headers", json!(["X-Remote-User"]).to_string()),
            ("requestheader-uid-headers", json!(["X-Remote-Uid"]).to_string()),
            ("requestheader-group-headers", json!(["X-Remote-Group"]).to_string()),
            ("requestheader-extra-headers-prefix", json!(["X-Remote-Extra-"]).to_string()),
        ];
        publish(&self.client, KUBE_SYSTEM, AUTHENTICATION, &data, FIELD_MANAGER).await
    }
}

/// Writes the data of a ConfigMap, unless it has it.
pub(crate) async fn publish(
    client: &Client,
    namespace: &str,
    name: &str,
    data: &[(&str, String)],
    manager: &str,
) -> Result<(), WebhookError> {
    const TRIES: usize = 8;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let what = || format!("ConfigMap {namespace}/{name}");
    let data: BTreeMap<String, String> = data.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    let params = PostParams { field_manager: Some(manager.into()), ..PostParams::default() };
    for _ in 0..TRIES {
        let written = match api.get_opt(name).await.map_err(failed(what()))? {
            Some(map) if map.data.as_ref() == Some(&data) => return Ok(()),
            Some(mut map) => {
                map.data = Some(data.clone());
                api.replace(name, &params, &map).await
            }
            None => {
                let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
                api.create(&params, &ConfigMap { metadata, data: Some(data.clone()), ..ConfigMap::default() }).await
            }
        };
        match written {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {}
            Err(error) => return Err(failed(what())(error)),
        }
    }
    Err(WebhookError::Contended(what()))
}
