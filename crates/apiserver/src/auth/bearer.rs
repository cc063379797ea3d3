//! Bearer tokens: those that the server was opened with, bootstrap tokens, and those of ServiceAccounts
//! (specification/apiserver.md 20).

use std::collections::BTreeMap;

use crate::{AUTHENTICATED, Identity, object, state::State, status::ApiError};

use super::{
    bootstrap_token::BootstrapToken,
    jwt::{About, Claims, ISSUER, Object},
};

/// Tolerated difference between the clocks of two machines.
const LEEWAY_SECONDS: i64 = 10;
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// The user of a token, and the requested audiences that it is for.
#[derive(Debug)]
pub(crate) struct Bearer {
    pub(crate) identity: Identity,
    pub(crate) audiences: Vec<String>,
}

/// The user of the Authorization header; anonymous without one. An unknown token is refused on every path.
pub(crate) fn authenticate_token(state: &State, header: Option<&str>) -> Result<Identity, ApiError> {
    let Some(header) = header else { return Ok(Identity::anonymous()) };
    let mut parts = header.trim().splitn(3, ' ');
    let scheme = parts.next().unwrap_or_default();
    let given = match parts.next() {
        Some(token) if scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() => token,
        _ => return Ok(Identity::anonymous()),
    };
    let bearer = bearer(state, given, &[ISSUER.to_owned()]).map_err(|_| ApiError::unauthorized())?;
    Ok(bearer.identity)
}

/// Reads a token that is to be for one of these audiences.
///
/// # Errors
/// The message of a TokenReview.
pub(crate) fn bearer(state: &State, given: &str, audiences: &[String]) -> Result<Bearer, String> {
    const INVALID: &str = "invalid bearer token";
    let wrong = |of: &[String]| {
        let quoted = |list: &[String]| {
            let quoted: Vec<String> = list.iter().map(|text| format!("{text:?}")).collect();
            format!("[{}]", quoted.join(" "))
        };
        let (of, wanted) = (quoted(of), quoted(audiences));
        format!("[{INVALID}, token audiences {of} is invalid for the target audiences {wanted}]")
    };
    let known = state.options.tokens.iter().find(|t| same(t.token.as_bytes(), given.as_bytes()));
    let known = known.map(|known| known.identity.clone());
    if let Some(identity) = known.or_else(|| BootstrapToken::parse(given)?.identity(state)) {
        let own = [ISSUER.to_owned()];
        let audiences = shared(audiences, &own);
        return if audiences.is_empty() { Err(wrong(&own)) } else { Ok(Bearer { identity, audiences }) };
    }
    let Some(claims) = state.token_key.read(given).filter(|claims| claims.iss == ISSUER) else {
        return Err(INVALID.to_owned());
    };
    let now = state.seam.clock.wall().as_second();
    if now > claims.exp.saturating_add(LEEWAY_SECONDS) {
        return Err(format!("[{INVALID}, service account token has expired]"));
    }
    if now.saturating_add(LEEWAY_SECONDS) < claims.nbf {
        return Err(format!("[{INVALID}, service account token is not valid yet]"));
    }
    let audiences = shared(audiences, &claims.aud);
    if audiences.is_empty() {
        return Err(wrong(&claims.aud));
    }
    let about = &claims.about;
    if state.builtin_object("", "serviceaccounts", &about.namespace, &about.serviceaccount.name).is_none() {
        return Err(format!("[{INVALID}, serviceaccounts {:?} not found]", about.serviceaccount.name));
    }
    if !is_bound_object_unchanged(state, about) {
        return Err(format!("[{INVALID}, service account token has been invalidated]"));
    }
    Ok(Bearer { identity: identity_of(&claims), audiences })
}

/// True while the ServiceAccount of a token and what it is bound to are the objects that they were.
fn is_bound_object_unchanged(state: &State, about: &About) -> bool {
    let is = |plural: &str, namespace: &str, wanted: &Object| {
        let object = state.builtin_object("", plural, namespace, &wanted.name);
        object.is_some_and(|o| object::meta_str(&o, "uid") == wanted.uid)
    };
    let namespace = about.namespace.as_str();
    let pod_deleted = about.pod.as_ref().is_some_and(|pod| !is("pods", namespace, pod));
    let secret_deleted = about.secret.as_ref().is_some_and(|secret| !is("secrets", namespace, secret));
    // A node that a pod's token names is a note; a token of its own dies with the node.
    let node_deleted = about.pod.is_none() && about.node.as_ref().is_some_and(|node| !is("nodes", "", node));
    is("serviceaccounts", namespace, &about.serviceaccount) && !pod_deleted && !secret_deleted && !node_deleted
}

fn shared(wanted: &[String], has: &[String]) -> Vec<String> {
    wanted.iter().filter(|audience| has.contains(audience)).cloned().collect()
}

fn identity_of(claims: &Claims) -> Identity {
    let about = &claims.about;
    let mut extra = BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![format!("JTI={}", claims.jti)])]);
    if let Some(pod) = &about.pod {
        extra.insert(POD_NAME.to_owned(), vec![pod.name.clone()]);
        extra.insert(POD_UID.to_owned(), vec![pod.uid.clone()]);
    }
    if let Some(node) = &about.node {
        extra.insert(NODE_NAME.to_owned(), vec![node.name.clone()]);
    }
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{}", about.namespace),
        AUTHENTICATED.to_owned(),
    ];
    Identity::known(claims.sub.clone(), about.serviceaccount.uid.clone(), groups.into(), extra)
}

/// Compares in constant time.
pub(super) fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |diff, (x, y)| diff | (x ^ y)) == 0
}
