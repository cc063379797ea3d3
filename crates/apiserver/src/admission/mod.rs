//! Admission: changes and refusals beyond schemas, by the server itself, by webhooks, policies and the embedder
//! (specification/apiserver.md 19).
//!
//! The order of a kube-apiserver: the built-in steps and the mutating reviews, then defaults and validation, then the
//! validating reviews.

mod lifecycle;
pub(crate) mod objects;
pub(crate) mod reinvocation;
pub(crate) mod review;

use ironclad_store::{Compare, Op, Revision};
use serde_json::{Value, json};

pub use self::{
    objects::Objects,
    review::{Admission, Admitted, Operation, Review, SideWrite},
};
use self::{
    reinvocation::{Reinvocation, Round},
    review::Write,
};
use crate::{
    auth,
    context::Cx,
    convert, kinds, object, policies,
    registry::{Resource, SubresourceKind},
    request::Verb,
    state::State,
    status::ApiError,
    webhooks,
};

/// Admits a new object before its defaults.
pub(crate) async fn create(cx: &Cx, value: &mut Value, dry_run: bool) -> Result<(), ApiError> {
    let hooks = kinds::hooks(&cx.resource);
    lifecycle::create(cx, value)?;
    (hooks.admit_create)(cx, value)?;
    mutate(cx, Operation::Create, None, value, dry_run)?;
    let write = Write { operation: Operation::Create, old: None, dry_run, subresource_kind: None };
    mutate_as_configured(cx, &write, Some(value)).await?;
    (hooks.check_escalation)(cx, None, value)
}

/// Admits a changed object before its defaults: true if a policy or a webhook changed it.
pub(crate) async fn update(cx: &Cx, old: &Value, new: &mut Value, dry_run: bool) -> Result<bool, ApiError> {
    let hooks = kinds::hooks(&cx.resource);
    (hooks.admit_update)(cx, old, new)?;
    mutate(cx, Operation::Update, Some(old), new, dry_run)?;
    let write = Write { operation: Operation::Update, old: Some(old), dry_run, subresource_kind: None };
    let changed = mutate_as_configured(cx, &write, Some(new)).await?;
    if changed {
        (hooks.check_escalation)(cx, Some(old), new)?;
    }
    Ok(changed)
}

/// Applies the mutating policies and calls the mutating webhooks of users; true if they changed the object.
async fn mutate_as_configured(cx: &Cx, write: &Write<'_>, mut object: Option<&mut Value>) -> Result<bool, ApiError> {
    let (mut policies_again, mut hooks_again) = (Reinvocation::default(), Reinvocation::default());
    let mut changed = false;
    for round in [Round::First, Round::Second] {
        changed |= policies::mutate(cx, write, object.as_deref_mut(), round, &mut policies_again)?;
        changed |= webhooks::mutate(cx, write, object.as_deref_mut(), round, &mut hooks_again).await?;
        if !changed {
            break;
        }
    }
    Ok(changed)
}

fn mutate(cx: &Cx, operation: Operation, old: Option<&Value>, new: &mut Value, dry_run: bool) -> Result<(), ApiError> {
    let Some(reviewer) = reviewer(cx) else { return Ok(()) };
    let changed = {
        let old = old.map(|old| convert::reviewed(&cx.resource, old));
        let asked = convert::reviewed(&cx.resource, new);
        reviewer.mutate(&review(cx, operation, old.as_deref(), Some(&asked), dry_run), &objects_of(&cx.state))?
    };
    if let Some(mut changed) = changed {
        if convert::reviewed_version(&cx.resource) != cx.resource.version {
            convert::from_storage(&cx.resource, &mut changed);
        }
        *new = changed;
    }
    Ok(())
}

/// Admits a valid write. Returns the objects that are written with it.
///
/// Webhooks, which are awaited, run first: objects that are written beside it derive from the final state.
pub(crate) async fn validate(
    cx: &Cx,
    operation: Operation,
    old: Option<&Value>,
    new: Option<&Value>,
    dry_run: bool,
) -> Result<SideWrites, ApiError> {
    if operation == Operation::Create && cx.verb != Verb::Create {
        auth::authorize_create(cx)?;
    }
    let write = Write { operation, old, dry_run, subresource_kind: None };
    if operation == Operation::Delete {
        mutate_as_configured(cx, &write, None).await?;
    }
    (kinds::hooks(&cx.resource).admit_valid)(cx, operation, old, new)?;
    if let Some(new) = new {
        webhooks::warn_unreachable(cx, old, new);
    }
    policies::validate(cx, &write, new)?;
    webhooks::validate(cx, &write, new).await?;
    let Some(reviewer) = reviewer(cx) else { return Ok(SideWrites::default()) };
    let in_version = |object| convert::reviewed(&cx.resource, object);
    let (old, new) = (old.map(in_version), new.map(in_version));
    let review = review(cx, operation, old.as_deref(), new.as_deref(), dry_run);
    let admitted = reviewer.validate(&review, &objects_of(&cx.state))?;
    admitted.warnings.into_iter().for_each(|text| cx.warn(text));
    if dry_run {
        return Ok(SideWrites::default());
    }
    admitted.writes.iter().map(|write| SideWrites::of(&cx.state, write)).collect()
}

/// Mutates the object of a subresource's own kind by policies and webhooks: a Scale, a Binding.
pub(crate) async fn mutate_subresource(
    cx: &Cx,
    operation: Operation,
    old: Option<&Value>,
    new: &mut Value,
    dry_run: bool,
) -> Result<(), ApiError> {
    let write = Write { operation, old, dry_run, subresource_kind: cx.subresource_kind() };
    mutate_as_configured(cx, &write, Some(new)).await?;
    Ok(())
}

/// Reviews the object of a subresource by policies and validating webhooks.
pub(crate) async fn validate_subresource(
    cx: &Cx,
    operation: Operation,
    old: Option<&Value>,
    new: &Value,
    dry_run: bool,
) -> Result<(), ApiError> {
    let write = Write { operation, old, dry_run, subresource_kind: cx.subresource_kind() };
    policies::validate(cx, &write, Some(new))?;
    webhooks::validate(cx, &write, Some(new)).await
}

/// Reviews a connection that a route makes: what is reviewed are options of this kind, with the path.
pub(crate) async fn connect(cx: &Cx, kind: &str, path: &str) -> Result<(), ApiError> {
    let Resource { group, version, .. } = &*cx.resource;
    let of = SubresourceKind { group: group.clone(), version: version.clone(), kind: kind.to_owned() };
    let mut options = json!({"kind": kind, "apiVersion": of.api_version(), "path": path});
    let write = Write { operation: Operation::Connect, old: None, dry_run: false, subresource_kind: Some(of) };
    mutate_as_configured(cx, &write, Some(&mut options)).await?;
    policies::validate(cx, &write, Some(&options))?;
    webhooks::validate(cx, &write, Some(&options)).await
}

/// True if webhooks or policies could review the object of a subresource.
pub(crate) fn is_asked(cx: &Cx) -> bool {
    reviews_any(&cx.state)
}

/// True if there are webhooks or policies.
pub(crate) fn reviews_any(state: &State) -> bool {
    webhooks::any(state) || policies::any(state)
}

/// Objects and rights of this server that reviewers may read.
pub(crate) fn objects_of(state: &State) -> Objects<'_> {
    Objects::new(&state.store, &state.registry, &state.seam, state)
}

fn reviewer(cx: &Cx) -> Option<&dyn Admission> {
    cx.state.options.admission.as_deref().filter(|_| !cx.identity.is_server())
}

fn review<'a>(
    cx: &'a Cx,
    operation: Operation,
    old: Option<&'a Value>,
    new: Option<&'a Value>,
    dry_run: bool,
) -> Review<'a> {
    let resource = &*cx.resource;
    let any = new.or(old).unwrap_or(&Value::Null);
    Review {
        operation,
        group: &resource.group,
        version: convert::reviewed_version(resource),
        resource: &resource.plural,
        subresource: cx.subresource().filter(|s| *s != "eviction").unwrap_or_default(),
        kind: &resource.kind,
        namespace: if resource.namespaced { object::meta_str(any, "namespace") } else { "" },
        name: object::meta_str(any, "name"),
        object: new,
        old,
        identity: &cx.identity,
        field_manager: cx.query.text("fieldManager").unwrap_or_default(),
        dry_run,
    }
}

/// Other objects that go into the transaction of a write.
#[derive(Debug, Default)]
pub(crate) struct SideWrites {
    compares: Vec<Compare>,
    ops: Vec<Op>,
}

impl SideWrites {
    fn of(state: &State, write: &SideWrite) -> Result<Self, ApiError> {
        let found = state.registry.find(&write.group, &write.version, &write.resource);
        let crate::registry::Lookup::Resource(resource) = found else { return Err(ApiError::no_resource()) };
        let (namespace, name) = (object::meta_str(&write.object, "namespace"), object::meta_str(&write.object, "name"));
        let key = resource.key(namespace, name);
        let revision = object::meta_str(&write.object, "resourceVersion").parse().ok().and_then(Revision::new);
        let Some(revision) = revision else {
            return Err(ApiError::internal(format!("{key} is to be written without the version it is based on")));
        };
        let put = state.put(&resource, key.clone(), &convert::stored(&resource, &write.object))?;
        Ok(Self { compares: vec![Compare::modified(key, revision)], ops: vec![put] })
    }

    /// Puts them into a transaction, after what is there.
    pub(crate) fn join(self, compares: &mut Vec<Compare>, ops: &mut Vec<Op>) {
        compares.extend(self.compares);
        ops.extend(self.ops);
    }

    /// True without any.
    pub(crate) fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }
}

impl FromIterator<SideWrites> for SideWrites {
    fn from_iter<I: IntoIterator<Item = SideWrites>>(all: I) -> Self {
        let mut out = Self::default();
        for writes in all {
            writes.join(&mut out.compares, &mut out.ops);
        }
        out
    }
}
