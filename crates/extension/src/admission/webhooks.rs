//! Webhooks of `ironclad run`: certificates in a Secret, the listener, and the registrations.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_admission::{
    Config,
    registration::{Endpoint, configuration},
    table::Phase,
};
use ironclad_api::{crds, namespaces};
use ironclad_runtime::Api;
use ironclad_seam::Seam;
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        authentication::v1::SelfSubjectReview,
        core::v1::{Namespace, Secret},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, WebhookClientConfig},
};
use kube::{
    Client, Resource, ResourceExt as _,
    api::{ObjectMeta, PostParams},
};
use tokio::net::TcpListener;

use crate::{CertificateExpiry, tls::InUse};

use super::{
    certificates::{Certificates, Purpose},
    server::Webhooks,
};

/// The Secret that all replicas share.
const SECRET: &str = "ironclad-webhook-certificates";

/// Name in its certificate.
const NAME: &str = "ironclad-webhook";

fn purpose(hosts: &[String]) -> Purpose {
    Purpose { secret: SECRET, authority: "ironclad-webhook-ca", name: NAME, hosts: Some(hosts.to_vec()) }
}
/// Interval between checks of certificates and registrations.
const CHECK_INTERVAL: Duration = Duration::from_secs(300);
/// Interval between checks after a failure.
const CHECK_RETRY: Duration = Duration::from_secs(5);
const FIELD_MANAGER: &str = "ironclad-webhooks";

/// Options of the webhook server.
#[derive(Debug, Clone)]
pub struct WebhookOptions {
    /// Address at which a kube-apiserver reaches the webhooks.
    pub endpoint: Endpoint,
    /// The names and addresses that the certificate is for.
    pub hosts: Vec<String>,
    /// Serve v1alpha1 of the bindings: `--serve-legacy-binding-api`.
    pub legacy_bindings: bool,
    /// Gates and flags of the rules; the own user is found out if it is not given.
    pub config: Config,
}

/// Reason why webhooks are not served.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// A request failed.
    #[error("{what}")]
    Request {
        /// The operation.
        what: String,
        /// The error of the client.
        #[source]
        source: Box<kube::Error>,
    },
    /// A certificate can't be made or used.
    #[error("the certificate can't be made or used: {0}")]
    Certificate(String),
    /// Replicas overwrote each other too often.
    #[error("{0} changed again and again while it was written")]
    Contended(String),
}

pub(crate) fn failed(what: impl Into<String>) -> impl FnOnce(kube::Error) -> WebhookError {
    let what = what.into();
    move |source| WebhookError::Request { what, source: Box::new(source) }
}

/// Serves the webhooks on a listener, registers them, and maintains certificates and registrations until the tasks are
/// stopped. Returns once the webhooks are registered.
///
/// # Errors
/// The control plane rejects the Secret or the registrations.
pub async fn serve_webhooks(
    client: Client,
    listener: TcpListener,
    options: WebhookOptions,
    expiry: &CertificateExpiry,
    seam: &Seam,
) -> Result<(), WebhookError> {
    let mut options = options;
    if options.config.own_user.is_none() {
        options.config.own_user = Some(own_user(&client).await?);
    }
    let in_use = expiry.in_use(NAME);
    let mut served = String::new();
    let certificates = certificates(&client, &purpose(&options.hosts), seam).await?;
    in_use.set(&certificates.serving).map_err(WebhookError::Certificate)?;
    served.clone_from(&certificates.serving.certificate);
    // Start the server first: a kube-apiserver calls as soon as the webhooks are registered.
    let webhooks = Webhooks { config: Arc::new(options.config.clone()), client: client.clone(), seam: seam.clone() };
    let certificate = in_use.clone();
    seam.tasks.spawn("webhooks", async move {
        if let Err(error) = webhooks.serve(listener, certificate).await {
            tracing::error!(%error, "webhook listener failed");
        }
    });
    register(&client, &options, &certificates.bundle).await?;
    let keeper = seam.clone();
    seam.tasks.spawn("webhook-keeper", async move {
        let mut pause = CHECK_INTERVAL;
        loop {
            tokio::select! {
                biased;
                () = keeper.tasks.stopping() => return,
                () = keeper.clock.sleep(pause) => {}
            }
            pause = match check(&client, &options, &in_use, &mut served, &keeper).await {
                Ok(()) => CHECK_INTERVAL,
                Err(error) => {
                    tracing::warn!(%error, cause = ?std::error::Error::source(&error).map(ToString::to_string), "checking webhook certificates and registrations failed");
                    CHECK_RETRY
                }
            };
        }
    });
    Ok(())
}

/// One check: renews certificates that are due and repairs registrations that were changed.
async fn check(
    client: &Client,
    options: &WebhookOptions,
    in_use: &InUse,
    served: &mut String,
    seam: &Seam,
) -> Result<(), WebhookError> {
    let certificates = certificates(client, &purpose(&options.hosts), seam).await?;
    // Trust first, then the certificate that needs it.
    register(client, options, &certificates.bundle).await?;
    if *served != certificates.serving.certificate {
        in_use.set(&certificates.serving).map_err(WebhookError::Certificate)?;
        served.clone_from(&certificates.serving.certificate);
        tracing::info!("webhook certificate renewed");
    }
    Ok(())
}

/// The user that we are, as the control plane sees us.
async fn own_user(client: &Client) -> Result<String, WebhookError> {
    let what = "asking the control plane who we are";
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = api.create(&PostParams::default(), &SelfSubjectReview::default()).await.map_err(failed(what))?;
    Ok(review.status.and_then(|status| status.user_info).and_then(|user| user.username).unwrap_or_default())
}

/// The certificates of the Secret, renewed if they are due.
pub(crate) async fn certificates(
    client: &Client,
    purpose: &Purpose,
    seam: &Seam,
) -> Result<Certificates, WebhookError> {
    let secret_name = purpose.secret;
    const TRIES: usize = 8;
    let api: Api<Secret> = Api::namespaced(client.clone(), namespaces::SYSTEM);
    let what = || format!("Secret {}/{secret_name} with certificates", namespaces::SYSTEM);
    for _ in 0..TRIES {
        let existing = api.get_opt(secret_name).await.map_err(failed(what()))?;
        let data = existing.as_ref().and_then(|secret| secret.data.clone()).unwrap_or_default();
        let data: BTreeMap<String, Vec<u8>> = data.into_iter().map(|(key, bytes)| (key, bytes.0)).collect();
        let read = Certificates::read(&data);
        let renewed = Certificates::renewed(read.as_ref(), purpose, seam).map_err(WebhookError::Certificate)?;
        let fresh = match (renewed, read) {
            (None, Some(read)) => return Ok(read),
            (Some(fresh), _) => fresh,
            (None, None) => continue,
        };
        let data = fresh.data().into_iter().map(|(key, bytes)| (key, ByteString(bytes))).collect();
        let params = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        let written = match existing {
            Some(mut secret) => {
                secret.data = Some(data);
                api.replace(secret_name, &params, &secret).await
            }
            None => {
                ensure_namespace(client).await?;
                let metadata = ObjectMeta { name: Some(secret_name.into()), ..ObjectMeta::default() };
                let secret = Secret { metadata, data: Some(data), type_: Some("Opaque".into()), ..Secret::default() };
                api.create(&params, &secret).await
            }
        };
        match written {
            Ok(_) => return Ok(fresh),
            // Another replica wrote first: use its certificates.
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {}
            Err(error) => return Err(failed(what())(error)),
        }
    }
    Err(WebhookError::Contended(what()))
}

pub(crate) async fn ensure_namespace(client: &Client) -> Result<(), WebhookError> {
    let api: Api<Namespace> = Api::all(client.clone());
    let what = || format!("namespace {}", namespaces::SYSTEM);
    if api.get_opt(namespaces::SYSTEM).await.map_err(failed(what()))?.is_some() {
        return Ok(());
    }
    let metadata = ObjectMeta { name: Some(namespaces::SYSTEM.into()), ..ObjectMeta::default() };
    match api.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        made => made.map(drop).map_err(failed(what())),
    }
}

/// Makes the registrations what they should be; writes nothing if they are.
async fn register(client: &Client, options: &WebhookOptions, bundle: &str) -> Result<(), WebhookError> {
    let wanted = |phase| configuration(phase, &options.endpoint, bundle, &options.config);
    let invalid = |e: serde_json::Error| WebhookError::Certificate(e.to_string());
    let mutating: MutatingWebhookConfiguration = serde_json::from_value(wanted(Phase::Mutating)).map_err(invalid)?;
    put(client, mutating, |existing, wanted| {
        let entries = |c: &MutatingWebhookConfiguration| serde_json::to_value(&c.webhooks).unwrap_or_default();
        if covers(&entries(existing), &entries(wanted)) {
            return false;
        }
        existing.webhooks.clone_from(&wanted.webhooks);
        true
    })
    .await?;
    let validating: ValidatingWebhookConfiguration =
        serde_json::from_value(wanted(Phase::Validating)).map_err(invalid)?;
    put(client, validating, |existing, wanted| {
        let entries = |c: &ValidatingWebhookConfiguration| serde_json::to_value(&c.webhooks).unwrap_or_default();
        if covers(&entries(existing), &entries(wanted)) {
            return false;
        }
        existing.webhooks.clone_from(&wanted.webhooks);
        true
    })
    .await?;
    if options.legacy_bindings {
        serve_legacy(client, options, bundle).await?;
    }
    Ok(())
}

/// Creates the object or, if `change` finds something to change, replaces it.
async fn put<K>(client: &Client, wanted: K, change: impl Fn(&mut K, &K) -> bool) -> Result<(), WebhookError>
where
    K: ironclad_runtime::Encode + Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>,
{
    const TRIES: usize = 8;
    let (api, name): (Api<K>, String) = (Api::all(client.clone()), wanted.name_any());
    let what = || format!("{} {name}", K::kind(&()));
    let params = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
    for _ in 0..TRIES {
        let written = match api.get_opt(&name).await.map_err(failed(what()))? {
            None => api.create(&params, &wanted).await,
            Some(mut existing) => {
                if !change(&mut existing, &wanted) {
                    return Ok(());
                }
                api.replace(&name, &params, &existing).await
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

/// Returns `true` if the existing object has every wanted field. Fields that a server adds do not count.
pub(crate) fn covers(existing: &serde_json::Value, wanted: &serde_json::Value) -> bool {
    use serde_json::Value;
    match (existing, wanted) {
        (Value::Object(a), Value::Object(b)) => {
            // A condition or selector that is no longer wanted must be removed.
            let removed = ["matchConditions"].iter().any(|key| {
                !b.contains_key(*key) && a.get(*key).is_some_and(|v| v.as_array().is_some_and(|l| !l.is_empty()))
            });
            !removed && b.iter().all(|(key, value)| a.get(key).is_some_and(|existing| covers(existing, value)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| covers(a, b)),
        (a, b) => a == b,
    }
}

/// Enables v1alpha1 of the bindings, converted by this process.
async fn serve_legacy(client: &Client, options: &WebhookOptions, bundle: &str) -> Result<(), WebhookError> {
    let config = options.endpoint.client_config("/convert", bundle);
    let converter: WebhookClientConfig =
        serde_json::from_value(config).map_err(|e| WebhookError::Certificate(e.to_string()))?;
    for name in ["resourcebindings.work.karmada.io", "clusterresourcebindings.work.karmada.io"] {
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let what = || format!("CustomResourceDefinition {name}");
        let Some(mut crd) = api.get_opt(name).await.map_err(failed(what()))? else { continue };
        let before = crd.spec.clone();
        for version in crd.spec.versions.iter_mut().filter(|version| !version.storage) {
            version.served = false;
        }
        crds::serve_legacy_bindings(&mut crd, converter.clone());
        let same = serde_json::to_value(&before.conversion).ok().zip(serde_json::to_value(&crd.spec.conversion).ok());
        if before.versions == crd.spec.versions && same.is_some_and(|(existing, wanted)| covers(&existing, &wanted)) {
            continue;
        }
        let params = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        match api.replace(name, &params, &crd).await {
            Err(kube::Error::Api(status)) if status.is_conflict() => return Err(WebhookError::Contended(what())),
            written => written.map(drop).map_err(failed(what()))?,
        }
    }
    Ok(())
}
