//! Authorization (specification/apiserver.md 20): members of `system:masters` may do everything, others what RBAC
//! grants.

pub(crate) mod bearer;
pub(crate) mod bootstrap;
pub(crate) mod escalation;
mod impersonate;
pub(crate) mod jwt;
mod oidc;
pub(crate) mod rbac;

use http::Method;

use crate::{
    Identity,
    request::{Query, ResourcePath, Verb},
    state::State,
    status::ApiError,
};

pub(crate) use bearer::authenticate_token;
pub(crate) use impersonate::impersonated;
pub use jwt::TokenKey;
pub(crate) use oidc::openid;
pub(crate) use rbac::Attributes;

/// Why a request is allowed; `None` when it isn't.
pub(crate) fn allowed(state: &State, identity: &Identity, attributes: &Attributes<'_>) -> Option<String> {
    if identity.is_master() {
        return Some(String::new());
    }
    rbac::allowed(&state.bindings(), identity, attributes)
}

/// Paths that name no resource.
pub(crate) fn authorize_path(state: &State, identity: &Identity, path: &str, method: &Method) -> Result<(), ApiError> {
    let verb = method.as_str().to_lowercase();
    let attributes =
        Attributes { verb: &verb, group: "", resource: "", subresource: "", namespace: "", name: "", path };
    if allowed(state, identity, &attributes).is_some() {
        return Ok(());
    }
    let why = format!("forbidden: User {:?} cannot {verb} path {path:?}", identity.user);
    Err(ApiError::new(403, "Forbidden", why).empty_details())
}

/// Requests for resources.
pub(crate) fn authorize(
    state: &State,
    identity: &Identity,
    path: &ResourcePath,
    verb: Option<Verb>,
    query: &Query,
) -> Result<(), ApiError> {
    if identity.is_master() {
        return Ok(());
    }
    let verb = verb.map_or("", Verb::as_str);
    // A field selector for one name authorizes as that name.
    let selected =
        query.get("fieldSelector").and_then(|s| s.strip_prefix("metadata.name=")).filter(|s| !s.contains(','));
    let name = path.name.as_deref().or(selected).unwrap_or_default();
    let namespace = match path.namespace.as_deref() {
        None if path.resource == "namespaces" && path.group.is_empty() => name,
        other => other.unwrap_or_default(),
    };
    let subresource = path.subresource.as_deref().unwrap_or_default();
    let attributes =
        Attributes { verb, group: &path.group, resource: &path.resource, subresource, namespace, name, path: "" };
    if allowed(state, identity, &attributes).is_some() {
        return Ok(());
    }
    let resource =
        if subresource.is_empty() { path.resource.clone() } else { format!("{}/{subresource}", path.resource) };
    let scope = match namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let why =
        format!("User {:?} cannot {verb} resource {resource:?} in API group {:?} {scope}", identity.user, path.group);
    Err(ApiError::forbidden(&path.resource, &path.group, path.name.as_deref().unwrap_or_default(), &why))
}
