//! Impersonation (specification/apiserver.md 20).

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use crate::{AUTHENTICATED, Identity, UNAUTHENTICATED, state::State, status::ApiError};

use super::{Attributes, allowed, because};
use crate::identity::service_account;

const EXTRA: &str = "impersonate-extra-";

/// A user that a request names in headers, in place of who sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impersonation {
    /// The user.
    pub identity: Identity,
    /// The rights that the sender needs.
    pub needed: Vec<NeededRight>,
}

/// A right to the verb `impersonate`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NeededRight {
    /// API group of the resource.
    pub group: &'static str,
    /// `users`, `groups`, `serviceaccounts`, `uids` or `userextras`.
    pub resource: &'static str,
    /// Key of an extra attribute.
    pub subresource: String,
    /// Namespace of a ServiceAccount.
    pub namespace: String,
    /// The name, or the value.
    pub name: String,
}

impl NeededRight {
    /// The answer to a sender who lacks it.
    #[must_use]
    pub fn refused(&self, sender: &str, reason: &str) -> ApiError {
        let Self { group, resource, subresource, namespace, name } = self;
        let scope = match &**namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {namespace:?}"),
        };
        let whole = if subresource.is_empty() { (*resource).to_owned() } else { format!("{resource}/{subresource}") };
        let why = format!("User {sender:?} cannot impersonate resource {whole:?} in API group {group:?} {scope}");
        ApiError::forbidden(resource, group, name, &because(why, reason))
    }
}

impl Impersonation {
    /// Reads the headers of a request; `None` if it names nobody.
    ///
    /// # Errors
    /// 400 for headers that name no user.
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, ApiError> {
        let user = texts(headers, "impersonate-user")?.into_iter().next().unwrap_or_default();
        let mut groups = texts(headers, "impersonate-group")?;
        let uid = texts(headers, "impersonate-uid")?.into_iter().next().unwrap_or_default();
        let extras = headers.keys().filter(|name| name.as_str().starts_with(EXTRA));
        if user.is_empty() {
            if groups.is_empty() && uid.is_empty() && extras.count() == 0 {
                return Ok(None);
            }
            let what = format!("requested [{}] without impersonating a user name", groups.join(" "));
            return Err(ApiError::bad_request(what));
        }
        let mut identity = Identity::known(user, uid, vec![], BTreeMap::new());
        for header in extras {
            let key = percent_decode_str(&header.as_str()[EXTRA.len()..]).decode_utf8_lossy().into_owned();
            identity.extra.entry(key).or_default().extend(texts(headers, header.as_str())?);
        }
        let needed = needed(&identity, &groups);
        if let Some((namespace, _)) = service_account(&identity.user)
            && groups.is_empty()
        {
            groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        }
        let marked = groups.iter().any(|g| g == AUTHENTICATED || g == UNAUTHENTICATED);
        if identity.user == "system:anonymous" {
            if !marked {
                groups.push(UNAUTHENTICATED.to_owned());
            }
        } else if !marked {
            groups.push(AUTHENTICATED.to_owned());
        }
        identity.groups = groups;
        Ok(Some(Self { identity, needed }))
    }
}

/// The user that a request is to be taken as coming from: its own, or the one that its headers name.
pub(crate) fn impersonated(state: &State, asking: Identity, headers: &HeaderMap) -> Result<Identity, ApiError> {
    let Some(Impersonation { identity, needed }) = Impersonation::of(headers)? else { return Ok(asking) };
    for right in needed.iter().filter(|_| !asking.is_master()) {
        let NeededRight { group, resource, subresource, namespace, name } = right;
        let attributes = Attributes { verb: "impersonate", group, resource, subresource, namespace, name, path: "" };
        allowed(state, &asking, &attributes).map_err(|reason| right.refused(&asking.user, &reason))?;
    }
    Ok(identity)
}

/// All values of a header. Names may be of any script; a value that is no UTF-8 is refused, because the request would
/// run as somebody else without it.
fn texts(headers: &HeaderMap, name: &str) -> Result<Vec<String>, ApiError> {
    let text = |value: &http::HeaderValue| std::str::from_utf8(value.as_bytes()).map(str::to_owned);
    let all: Result<_, _> = headers.get_all(name).iter().map(text).collect();
    all.map_err(|_| ApiError::bad_request(format!("the header {name} is not valid UTF-8: send the name in UTF-8")))
}

/// The rights to every attribute of an impersonated user.
fn needed(wanted: &Identity, groups: &[String]) -> Vec<NeededRight> {
    const AUTHENTICATION: &str = "authentication.k8s.io";
    let right =
        |group, resource, name: &str| NeededRight { group, resource, name: name.to_owned(), ..NeededRight::default() };
    let user = match service_account(&wanted.user) {
        Some((namespace, name)) => {
            NeededRight { namespace: namespace.to_owned(), ..right("", "serviceaccounts", name) }
        }
        None => right("", "users", &wanted.user),
    };
    let groups = groups.iter().map(|group| right("", "groups", group));
    let uid = (!wanted.uid.is_empty()).then(|| right(AUTHENTICATION, "uids", &wanted.uid));
    let extras = wanted.extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
    let extras = extras
        .map(|(key, value)| NeededRight { subresource: key.clone(), ..right(AUTHENTICATION, "userextras", value) });
    std::iter::once(user).chain(groups).chain(uid).chain(extras).collect()
}
