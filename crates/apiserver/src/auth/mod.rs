//! Authorization (specification/apiserver.md 20): members of `system:masters` may do everything, others what RBAC
//! grants.

pub(crate) mod bearer;
pub(crate) mod bootstrap;
mod bootstrap_token;
pub(crate) mod escalation;
mod impersonate;
pub(crate) mod jwt;
mod oidc;
pub(crate) mod rbac;

use http::Method;

use crate::{
    Identity,
    admission::objects::Rights,
    context::Cx,
    names,
    request::{Query, ResourcePath, Verb},
    select::FieldSelector,
    state::State,
    status::ApiError,
};

pub(crate) use bearer::authenticate_token;
pub(crate) use impersonate::impersonated;
pub use impersonate::{Impersonation, NeededRight};
pub use jwt::TokenKey;
pub(crate) use oidc::openid;
pub(crate) use rbac::Attributes;

/// Reason of an allowed request, or addition to the message of a refusal.
pub(crate) fn allowed(state: &State, identity: &Identity, attributes: &Attributes<'_>) -> Result<String, String> {
    if identity.is_master() {
        return Ok(String::new());
    }
    rbac::allowed(&state.bindings(), identity, attributes)
}

impl Rights for State {
    fn may(
        &self,
        identity: &Identity,
        verb: &str,
        (group, resource): (&str, &str),
        namespace: &str,
        name: &str,
    ) -> bool {
        let attributes = Attributes { verb, group, resource, subresource: "", namespace, name, path: "" };
        allowed(self, identity, &attributes).is_ok()
    }
}

/// Paths that name no resource.
pub(crate) fn authorize_path(state: &State, identity: &Identity, path: &str, method: &Method) -> Result<(), ApiError> {
    let verb = method.as_str().to_lowercase();
    let attributes =
        Attributes { verb: &verb, group: "", resource: "", subresource: "", namespace: "", name: "", path };
    let Err(reason) = allowed(state, identity, &attributes) else { return Ok(()) };
    let why = because(format!("forbidden: User {:?} cannot {verb} path {path:?}", identity.user), &reason);
    Err(ApiError::new(403, "Forbidden", why).empty_details())
}

/// Requests for resources.
pub(crate) fn authorize(
    state: &State,
    identity: &Identity,
    path: &ResourcePath,
    verb: &str,
    query: &Query,
) -> Result<(), ApiError> {
    if identity.is_master() {
        return Ok(());
    }
    // A list or watch that selects one name is authorized as that name. Other verbs ignore selectors.
    let selected = match verb {
        "list" | "watch" if !path.legacy_watch => query.get("fieldSelector").and_then(selected_name),
        _ => None,
    };
    let attributes =
        Attributes { name: path.name.as_deref().or(selected.as_deref()).unwrap_or_default(), ..of_path(path, verb) };
    allowed(state, identity, &attributes).map_or_else(|why| Err(refused(identity, &attributes, &why)), |_| Ok(()))
}

/// Requires the verb `create` of an update or apply that makes a new object.
pub(crate) fn authorize_create(cx: &Cx) -> Result<(), ApiError> {
    let attributes = of_path(&cx.path, Verb::Create.as_str());
    allowed(&cx.state, &cx.identity, &attributes)
        .map_or_else(|why| Err(refused(&cx.identity, &attributes, &why)), |_| Ok(()))
}

/// The attributes of a request to this address. A Namespace is in itself.
fn of_path<'a>(path: &'a ResourcePath, verb: &'a str) -> Attributes<'a> {
    let name = path.name.as_deref().unwrap_or_default();
    Attributes {
        verb,
        group: &path.group,
        resource: &path.resource,
        subresource: path.subresource.as_deref().unwrap_or_default(),
        namespace: match path.namespace.as_deref() {
            None if path.resource == "namespaces" => name,
            namespace => namespace.unwrap_or_default(),
        },
        name,
        path: "",
    }
}

/// The name that a field selector requires.
fn selected_name(selector: &str) -> Option<String> {
    let name = FieldSelector::terms(selector).ok()?.name()?.to_owned();
    names::path_segment(&name).is_empty().then_some(name)
}

/// A refusal with what authorization says about it.
pub(crate) fn because(refusal: String, reason: &str) -> String {
    if reason.is_empty() { refusal } else { format!("{refusal}: {reason}") }
}

fn refused(identity: &Identity, attributes: &Attributes<'_>, reason: &str) -> ApiError {
    let Attributes { verb, group, resource, subresource, namespace, name, .. } = *attributes;
    let whole = if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") };
    let scope = match namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let why = format!("User {:?} cannot {verb} resource {whole:?} in API group {group:?} {scope}", identity.user);
    ApiError::forbidden(resource, group, name, &because(why, reason))
}
