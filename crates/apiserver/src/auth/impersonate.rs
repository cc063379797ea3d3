//! Impersonation (specification/apiserver.md 20).

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use crate::{AUTHENTICATED, Identity, UNAUTHENTICATED, state::State, status::ApiError};

use super::{Attributes, allowed, because};
use crate::identity::service_account;

const EXTRA: &str = "impersonate-extra-";

/// The user that a request is to be taken as coming from: its own, or the one that its headers name.
pub(crate) fn impersonated(state: &State, asking: Identity, headers: &HeaderMap) -> Result<Identity, ApiError> {
    let user = texts(headers, "impersonate-user")?.into_iter().next().unwrap_or_default();
    let mut groups = texts(headers, "impersonate-group")?;
    let uid = texts(headers, "impersonate-uid")?.into_iter().next().unwrap_or_default();
    let extras = headers.keys().filter(|name| name.as_str().starts_with(EXTRA));
    if user.is_empty() {
        if groups.is_empty() && uid.is_empty() && extras.count() == 0 {
            return Ok(asking);
        }
        let what = format!("requested [{}] without impersonating a user name", groups.join(" "));
        return Err(ApiError::bad_request(what));
    }
    let mut out = Identity::known(user, uid, vec![], BTreeMap::new());
    for header in extras {
        let key = percent_decode_str(&header.as_str()[EXTRA.len()..]).decode_utf8_lossy().into_owned();
        out.extra.entry(key).or_default().extend(texts(headers, header.as_str())?);
    }
    may(state, &asking, &out, &groups)?;
    if let Some((namespace, _)) = service_account(&out.user)
        && groups.is_empty()
    {
        groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    }
    let marked = groups.iter().any(|g| g == AUTHENTICATED || g == UNAUTHENTICATED);
    if out.user == "system:anonymous" {
        if !marked {
            groups.push(UNAUTHENTICATED.to_owned());
        }
    } else if !marked {
        groups.push(AUTHENTICATED.to_owned());
    }
    out.groups = groups;
    Ok(out)
}

/// All values of a header. Names may be of any script; a value that is no UTF-8 is refused, because the request would
/// run as somebody else without it.
fn texts(headers: &HeaderMap, name: &str) -> Result<Vec<String>, ApiError> {
    let text = |value: &http::HeaderValue| std::str::from_utf8(value.as_bytes()).map(str::to_owned);
    let all: Result<_, _> = headers.get_all(name).iter().map(text).collect();
    all.map_err(|_| ApiError::bad_request(format!("the header {name} is not valid UTF-8: send the name in UTF-8")))
}

/// Requires the verb `impersonate` on every attribute of the impersonated user.
fn may(state: &State, asking: &Identity, wanted: &Identity, groups: &[String]) -> Result<(), ApiError> {
    if asking.is_master() {
        return Ok(());
    }
    const AUTHENTICATION: &str = "authentication.k8s.io";
    let mut needed: Vec<(&str, &str, &str, &str, &str)> = Vec::new();
    match service_account(&wanted.user) {
        Some((namespace, name)) => needed.push(("", "serviceaccounts", "", namespace, name)),
        None => needed.push(("", "users", "", "", &wanted.user)),
    }
    needed.extend(groups.iter().map(|g| ("", "groups", "", "", g.as_str())));
    if !wanted.uid.is_empty() {
        needed.push((AUTHENTICATION, "uids", "", "", &wanted.uid));
    }
    let extras = wanted.extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
    needed.extend(extras.map(|(key, value)| (AUTHENTICATION, "userextras", key.as_str(), "", value.as_str())));
    for (group, resource, subresource, namespace, name) in needed {
        let attributes = Attributes { verb: "impersonate", group, resource, subresource, namespace, name, path: "" };
        if let Err(reason) = allowed(state, asking, &attributes) {
            let scope = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {namespace:?}")
            };
            let whole = if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") };
            let why =
                format!("User {:?} cannot impersonate resource {whole:?} in API group {group:?} {scope}", asking.user);
            return Err(ApiError::forbidden(resource, group, name, &because(why, &reason)));
        }
    }
    Ok(())
}
