//! Who may do what (apiserver.md 20): members of `system:masters` everything, others what RBAC objects grant.

mod bearer;
mod bootstrap;
pub(crate) mod escalation;
mod impersonate;
pub(crate) mod jwt;
mod oidc;
pub(crate) mod rbac;
mod review;

use http::Method;

use crate::{
    Identity, Server,
    request::{Query, ResourcePath, Verb},
    status::ApiError,
};

pub(crate) use bearer::authenticate_token;
pub(crate) use impersonate::impersonated;
pub use jwt::TokenKey;
pub(crate) use oidc::openid;
pub(crate) use review::review;

/// What is to be allowed.
#[derive(Debug, Clone)]
pub(crate) struct Attributes<'a> {
    pub(crate) verb: &'a str,
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// A path that names no resource; all of the above but the verb are empty then.
    pub(crate) path: &'a str,
}

/// Paths that name no resource.
pub(crate) fn authorize_path(
    server: &Server,
    identity: &Identity,
    path: &str,
    method: &Method,
) -> Result<(), ApiError> {
    let verb = method.as_str().to_lowercase();
    let attributes =
        Attributes { verb: &verb, group: "", resource: "", subresource: "", namespace: "", name: "", path };
    if rbac::allowed(server, identity, &attributes).is_some() {
        return Ok(());
    }
    let why = format!("forbidden: User {:?} cannot {verb} path {path:?}", identity.user);
    Err(ApiError::new(403, "Forbidden", why).empty_details())
}

/// Requests for resources.
pub(crate) fn authorize(
    server: &Server,
    identity: &Identity,
    path: &ResourcePath,
    verb: Option<Verb>,
    query: &Query,
) -> Result<(), ApiError> {
    if identity.is_master() {
        return Ok(());
    }
    let verb = verb.map_or("", Verb::as_str);
    // A collection narrowed to one name is asked for by that name.
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
    if rbac::allowed(server, identity, &attributes).is_some() {
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
