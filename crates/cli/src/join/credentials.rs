//! The tokens by which the control plane identifies itself in a member.

use std::time::Duration;

use ironclad_api::names::{IMPERSONATOR, member_service_account};
use ironclad_runtime::Api;
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::{ConfigMap, Secret, ServiceAccount},
    },
};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions},
};

use super::{
    Join, JoinError, Side,
    ownership::{self, Owner},
};

/// Timeout of the member's token controller.
const FILLED_WITHIN: Duration = Duration::from_secs(30);
/// The first and the longest interval between checks of its result.
const LOOK: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(160)];
/// Type of Secrets that the member's token controller fills.
pub(super) const TOKEN_SECRET: &str = "kubernetes.io/service-account-token";
/// ConfigMap in each namespace with the certificate authority of the API server.
const ROOT_CA: &str = "kube-root-ca.crt";

/// Credentials of the control plane in the member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// Tokens that do not expire, from Secrets of the member.
    Static,
    /// Tokens that expire, requested from the member; joining again renews them.
    Token {
        /// Requested lifetime; the member may grant less.
        seconds: i64,
    },
}

/// Content of the Secrets in the control plane.
#[derive(Clone)]
pub(super) struct Tokens {
    /// Token of the account that the controllers act as.
    pub(super) controller: String,
    /// Token of the account that impersonates users.
    pub(super) impersonator: String,
    /// Certificate authorities of the member, as PEM.
    pub(super) ca_bundle: String,
    /// Time at which the first of them expires.
    pub(super) expires: Option<Timestamp>,
}

pub(super) async fn obtain(join: &Join<'_>) -> Result<Tokens, JoinError> {
    let account = member_service_account(&join.options.cluster);
    let (controller, impersonator) = (token(join, &account).await?, token(join, IMPERSONATOR).await?);
    // The authorities by which the member was reached are valid for its address.
    let ca_bundle = match &join.options.address.ca_bundle {
        given if !given.is_empty() => given.clone(),
        _ => controller.ca.clone().filter(|ca| !ca.is_empty()).unwrap_or(root_ca(join).await?),
    };
    let expires = [controller.expires, impersonator.expires].into_iter().flatten().min();
    Ok(Tokens { controller: controller.token, impersonator: impersonator.token, ca_bundle, expires })
}

struct Token {
    token: String,
    ca: Option<String>,
    expires: Option<Timestamp>,
}

async fn token(join: &Join<'_>, account: &str) -> Result<Token, JoinError> {
    match join.options.credential {
        Credential::Static => filled(join, account).await,
        Credential::Token { seconds } => requested(join, account, seconds).await,
    }
}

async fn filled(join: &Join<'_>, name: &str) -> Result<Token, JoinError> {
    let namespace = &join.options.namespace;
    let secrets: Api<Secret> = Api::namespaced(join.member.clone(), namespace);
    let deadline = join.clock.mono() + FILLED_WITHIN;
    let [mut look, longest] = LOOK;
    loop {
        let secret = secrets.get(name).await.map_err(join.failed(Side::Member, format!("reading Secret {name}")))?;
        let text = |key: &str| {
            let bytes = secret.data.as_ref().and_then(|data| data.get(key));
            bytes.and_then(|ByteString(bytes)| String::from_utf8(bytes.clone()).ok()).filter(|text| !text.is_empty())
        };
        if let Some(token) = text("token") {
            return Ok(Token { token, ca: text("ca.crt"), expires: None });
        }
        if join.clock.mono() >= deadline {
            let (name, secret) = (join.options.cluster.clone(), format!("{namespace}/{name}"));
            return Err(JoinError::NoToken { name, secret, seconds: FILLED_WITHIN.as_secs() });
        }
        join.clock.sleep(look).await;
        look = longest.min(look * 2);
    }
}

async fn requested(join: &Join<'_>, account: &str, seconds: i64) -> Result<Token, JoinError> {
    let accounts: Api<ServiceAccount> = Api::namespaced(join.member.clone(), &join.options.namespace);
    let spec = TokenRequestSpec { expiration_seconds: Some(seconds), ..TokenRequestSpec::default() };
    let request = TokenRequest { metadata: ObjectMeta::default(), spec: Some(spec), status: None };
    let answer: TokenRequest = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await
        .map_err(join.failed(Side::Member, format!("asking for a token of ServiceAccount {account}")))?;
    let status = answer.status.unwrap_or_default();
    let expires = status.expiration_timestamp.map(|time| time.0);
    Ok(Token { token: status.token.unwrap_or_default(), ca: None, expires })
}

/// Deletes the Secrets with tokens that do not expire, once tokens that do have replaced them.
pub(super) async fn drop_static(join: &Join<'_>, plane: &str) -> Result<(), JoinError> {
    if join.options.credential == Credential::Static {
        return Ok(());
    }
    let (namespace, own) = (&join.options.namespace, member_service_account(&join.options.cluster));
    let accounts: Api<ServiceAccount> = Api::namespaced(join.member.clone(), namespace);
    let secrets: Api<Secret> = Api::namespaced(join.member.clone(), namespace);
    let all = accounts.list(&ListParams::default()).await;
    let all = all.map_err(join.failed(Side::Member, format!("listing ServiceAccounts of namespace {namespace}")))?;
    let alone = !all.iter().any(|one| !["default", IMPERSONATOR, &own].contains(&one.name_any().as_str()));
    for name in std::iter::once(own.as_str()).chain(alone.then_some(IMPERSONATOR)) {
        let doing = |what: &str| format!("{what} Secret {name}, whose token does not expire,");
        let found = secrets.get_opt(name).await.map_err(join.failed(Side::Member, doing("reading")))?;
        let Some(found) = found.filter(|secret| secret.type_.as_deref() == Some(TOKEN_SECRET)) else { continue };
        if matches!(ownership::in_member(&found.metadata, plane), Owner::Other(_)) {
            continue;
        }
        let preconditions = Some(Preconditions { uid: found.metadata.uid, resource_version: None });
        let deleted = secrets.delete(name, &DeleteParams { preconditions, ..DeleteParams::default() }).await;
        match deleted {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => drop(deleted.map_err(join.failed(Side::Member, doing("deleting")))?),
        }
    }
    Ok(())
}

async fn root_ca(join: &Join<'_>) -> Result<String, JoinError> {
    let maps: Api<ConfigMap> = Api::namespaced(join.member.clone(), &join.options.namespace);
    let map = maps.get_opt(ROOT_CA).await.map_err(join.failed(Side::Member, format!("reading ConfigMap {ROOT_CA}")))?;
    Ok(map.and_then(|map| map.data).and_then(|mut data| data.remove("ca.crt")).unwrap_or_default())
}
