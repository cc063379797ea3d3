//! Compares a write with what a webhook or a policy is about.

use std::{borrow::Cow, sync::Arc};

use ironclad_patch::cel::{Binding, Budget, CONDITIONS_UNITS_MAX, Outcome};
use serde_json::Value;

use super::{
    matcher::{Matcher, Rule},
    review,
};
use crate::{
    admission::review::{Operation, Write},
    context::Cx,
    convert, object,
    registry::{Resource, SubresourceKind},
    status::ApiError,
};

/// A write as a webhook or a policy sees it: in a version that its rules name.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) resource: Arc<Resource>,
    operation: Operation,
    dry_run: bool,
    pub(crate) subresource_kind: Option<SubresourceKind>,
    old: Option<Cow<'a, Value>>,
    new: Option<Cow<'a, Value>>,
}

impl<'a> Seen<'a> {
    /// The write in the version of a resource that [`select`] named.
    pub(crate) fn of(cx: &Cx, resource: Arc<Resource>, write: &Write<'a>, new: Option<&'a Value>) -> Self {
        // The object of a subresource is the same for every version that the rule names.
        let own = write.subresource_kind.is_some() || Arc::ptr_eq(&resource, &cx.resource);
        let shown = |object: &'a Value| match own {
            true => Cow::Borrowed(object),
            false => Cow::Owned(convert::between(&cx.resource, &resource, object)),
        };
        let (old, new) = (write.old.map(shown), new.map(shown));
        let (operation, dry_run) = (write.operation, write.dry_run);
        Self { resource, operation, dry_run, subresource_kind: write.subresource_kind.clone(), old, new }
    }

    pub(crate) fn object(&self) -> Option<&Value> {
        self.new.as_deref()
    }

    pub(crate) fn write(&self) -> Write<'_> {
        Write {
            operation: self.operation,
            old: self.old.as_deref(),
            dry_run: self.dry_run,
            subresource_kind: self.subresource_kind.clone(),
        }
    }
}

/// The other versions in which the same objects are served.
fn equivalents(cx: &Cx) -> Vec<Arc<Resource>> {
    let own = &cx.resource;
    let custom = cx.state.registry.custom();
    let groups = cx.state.registry.builtin_groups().iter().chain(&custom.groups).filter(|_| !own.is_served());
    let all = groups.flat_map(|g| &g.versions).flat_map(|(_, resources)| resources.values());
    let others = all.filter(|r| r.prefix == own.prefix && (&r.group, &r.version) != (&own.group, &own.version));
    others.cloned().collect()
}

/// The write in a version that the rules name, if they match; `fails`: a condition that can't be evaluated refuses it.
pub(crate) fn matches<'w>(
    matcher: &Matcher,
    cx: &Cx,
    write: &Write<'w>,
    new: Option<&'w Value>,
    fails: bool,
) -> Result<Option<Seen<'w>>, ApiError> {
    let Some(resource) = select(matcher, cx, write, new) else { return Ok(None) };
    let seen = Seen::of(cx, resource, write, new);
    match conditions_met(matcher, cx, &seen, &Value::Null) {
        Ok(met) => Ok(met.then_some(seen)),
        Err(_) if !fails => Ok(None),
        Err(why) => Err(ApiError::forbidden(&cx.resource.plural, &cx.resource.group, name_of(cx, write, new), &why)),
    }
}

fn name_of<'w>(cx: &'w Cx, write: &Write<'w>, new: Option<&'w Value>) -> &'w str {
    match &write.subresource_kind {
        Some(_) => cx.name(),
        None => object::meta_str(new.or(write.old).unwrap_or(&Value::Null), "name"),
    }
}

/// The resource in a version that the rules name, if rules and selectors match.
pub(crate) fn select(matcher: &Matcher, cx: &Cx, write: &Write<'_>, new: Option<&Value>) -> Option<Arc<Resource>> {
    let name = name_of(cx, write, new);
    let covers = |rule: &Rule, resource: &Resource| {
        let subresource = cx.subresource().unwrap_or_default();
        let to = (resource.group.as_str(), resource.version.as_str(), resource.plural.as_str(), subresource);
        rule.covers(write.operation, to, resource.namespaced)
            && (rule.names.is_empty() || rule.names.iter().any(|n| n == name))
    };
    let named = |rules: &[Rule]| {
        if rules.iter().any(|rule| covers(rule, &cx.resource)) {
            return Some(cx.resource.clone());
        }
        // Objects of kinds with a conversion webhook are reviewed in their own version only.
        let convertible =
            cx.resource.custom().is_none_or(|custom| custom.webhook.is_none() || custom.converter.is_some());
        let others = if matcher.equivalent && convertible && !rules.is_empty() { equivalents(cx) } else { vec![] };
        others.into_iter().find(|other| rules.iter().any(|rule| covers(rule, other)))
    };
    let ruled = if matcher.all { Some(cx.resource.clone()) } else { named(&matcher.rules) };
    let resource = ruled.filter(|_| named(&matcher.excluded).is_none())?;
    let is_selected = in_namespace(matcher, cx, write, new)
        && [new, write.old].iter().flatten().any(|object| matcher.objects.matches_object(object));
    is_selected.then_some(resource)
}

/// True when all match conditions hold; `params` are those of a policy.
pub(crate) fn conditions_met(matcher: &Matcher, cx: &Cx, seen: &Seen<'_>, params: &Value) -> Result<bool, String> {
    if matcher.conditions.is_empty() {
        return Ok(true);
    }
    let write = seen.write();
    let request = review::request(cx, &seen.resource, &write, "");
    let (object, old) = (seen.object().unwrap_or(&Value::Null), write.old.unwrap_or(&Value::Null));
    let variables = [
        ("object", Binding::Plain(object)),
        ("oldObject", Binding::Plain(old)),
        ("request", Binding::Plain(&request)),
        ("params", Binding::Plain(params)),
    ];
    let mut budget = Budget::new(CONDITIONS_UNITS_MAX);
    let mut failed = None;
    for condition in &matcher.conditions {
        let result = match &condition.expression {
            Ok(expression) => expression.evaluate_within(&variables, &mut budget),
            Err(why) => Err(why.clone()),
        };
        let why = match result {
            Ok(Outcome::Bool(true)) => continue,
            // One that says no wins over those that fail.
            Ok(Outcome::Bool(false)) => return Ok(false),
            Ok(_) => "it is no truth value".to_owned(),
            Err(why) => why,
        };
        failed.get_or_insert(format!("expression '{}' resulted in error: {why}", condition.text));
        if budget.is_exceeded() {
            break;
        }
    }
    failed.map_or(Ok(true), Err)
}

/// By the labels of the object's namespace; a Namespace has its own.
fn in_namespace(matcher: &Matcher, cx: &Cx, write: &Write<'_>, new: Option<&Value>) -> bool {
    let resource = &*cx.resource;
    if resource.is_namespace() {
        return new.or(write.old).is_some_and(|object| matcher.namespaces.matches_object(object));
    }
    if !resource.namespaced || matcher.namespaces.is_empty() {
        return true;
    }
    let own = || object::meta_str(new.or(write.old).unwrap_or(&Value::Null), "namespace");
    let name = cx.namespace().unwrap_or_else(own);
    let namespace = cx.state.builtin_object("", "namespaces", "", name);
    matcher.namespaces.matches_object(namespace.as_ref().unwrap_or(&Value::Null))
}
