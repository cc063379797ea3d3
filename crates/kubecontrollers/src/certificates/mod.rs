//! Signs CertificateSigningRequests once they are approved, and removes old ones, like kube-controller-manager
//! (specification/apiserver.md 17). It approves nothing.

mod decide;
mod signers;

use std::{fmt, sync::Arc};

use ironclad_runtime::{Api, Failure, Informer, Key, Next, Queue, Writer};
use ironclad_seam::Clock;
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
use kube::{Client, ResourceExt as _};
use serde_json::json;

use self::decide::{Plan, Verdict, decide, failed};
use crate::{Cluster, caches::CERTIFICATE_REQUESTS};

const WORKERS: usize = 1;

/// Contents of a certificate to sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The request (PKCS#10), DER. The signer verifies its signature.
    pub request: Vec<u8>,
    /// Usages of the certificate, as in `spec.usages`.
    pub usages: Vec<String>,
    /// Start of the validity.
    pub not_before: Timestamp,
    /// Latest end of the validity.
    pub not_after: Timestamp,
}

type Sign = dyn Fn(&Order, Timestamp) -> Result<String, String> + Send + Sync;

/// Issuer of certificates. It holds the key of an authority and does not reveal it.
#[derive(Clone)]
pub struct Signer(Arc<Sign>);

impl Signer {
    /// Creates a signer from a function that issues the certificate (PEM) of an order at this time, or returns an
    /// error.
    pub fn new(sign: impl Fn(&Order, Timestamp) -> Result<String, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(sign))
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").finish_non_exhaustive()
    }
}

struct Controller {
    client: Client,
    clock: Clock,
    requests: Informer<CertificateSigningRequest>,
    writer: Writer,
    signer: Signer,
}

pub(crate) fn start(cluster: &Cluster, signer: &Signer) {
    let controller = Arc::new(Controller {
        client: cluster.client.clone(),
        clock: cluster.seam.clock.clone(),
        requests: cluster.caches.take(&CERTIFICATE_REQUESTS),
        writer: Writer::new("certificatesigningrequest-signing-controller"),
        signer: signer.clone(),
    });
    let queue: Queue<Key> = cluster.queue("certificates");
    let to = queue.clone();
    controller.requests.on_change(move |change| {
        if let Some(request) = &change.new {
            to.add(Key::of(&**request));
        }
    });
    let ready = [controller.requests.when_synced()];
    cluster.run("certificates", queue, WORKERS, ready, move |key| {
        let controller = controller.clone();
        async move { controller.reconcile(&key).await }
    });
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(request) = self.requests.get_key(key) else { return Ok(Next::Forget) };
        let now = self.clock.wall();
        let Plan { verdict, again } = decide(&request, now);
        let status = match verdict {
            Verdict::Remove => {
                let api: Api<CertificateSigningRequest> = Api::all(self.client.clone());
                self.writer.delete_unchanged(&api, Some(&self.requests), &request).await?;
                return Ok(Next::Forget);
            }
            Verdict::Nothing => return Ok(again.map_or(Next::Forget, Next::After)),
            Verdict::Sign(order) => match (self.signer.0)(&order, now) {
                Ok(certificate) => json!({"certificate": ByteString(certificate.into_bytes())}),
                Err(why) => json!({"conditions": failed(&request, &why, now)}),
            },
            Verdict::Fail(why) => json!({"conditions": failed(&request, &why, now)}),
        };
        let api: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        let version = request.resource_version().unwrap_or_default();
        // The update triggers the next reconcile, which also schedules the removal.
        self.writer.patch_status(&api, Some(&self.requests), &key.name, &version, status).await?;
        Ok(Next::Forget)
    }
}
