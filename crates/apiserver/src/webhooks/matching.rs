//! Which writes a webhook or a policy is about: rules, selectors, conditions.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use ironclad_patch::cel::{Binding, Budget, CONDITIONS_UNITS_MAX, Expression, Outcome, Variable};
use serde_json::{Value, json};

use super::{Spoken, Write, review};
use crate::{
    admission::Operation,
    context::Cx,
    convert, object,
    registry::{Resource, builtin_groups},
    select::LabelSelector,
    status::ApiError,
    verbs::subresource::selector_text,
};

/// Which writes are meant.
#[derive(Debug)]
pub(crate) struct Matcher {
    rules: Vec<Rule>,
    /// No rule means all writes.
    all: bool,
    /// Rules that name another version of the same objects count as well.
    equivalent: bool,
    excluded: Vec<Rule>,
    namespaces: LabelSelector,
    objects: LabelSelector,
    conditions: Vec<Condition>,
}

/// One of `matchConditions`.
#[derive(Debug)]
struct Condition {
    text: String,
    expression: Result<Expression, String>,
}

/// One of the rules.
#[derive(Debug, Default)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    scope: String,
}

fn strings(value: &Value, key: &str) -> Vec<String> {
    value[key].as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

/// A label selector as objects carry it; an empty one selects everything.
pub(crate) fn selector(value: &Value) -> LabelSelector {
    let text = selector_text(&json!({"spec": {"selector": value}})).unwrap_or_default();
    LabelSelector::parse(&text).unwrap_or_default()
}

fn is_equivalent(value: &Value) -> bool {
    value["matchPolicy"] != "Exact"
}

/// The type of one of `matchConditions`, or why it is none.
pub(crate) fn condition_type(expression: &str) -> Result<&'static str, String> {
    Expression::compile(expression, &condition_variables()).map(|compiled| compiled.type_name)
}

fn condition_variables() -> BTreeMap<&'static str, Variable<'static>> {
    ["object", "oldObject", "request"].map(|name| (name, Variable::Anything)).into()
}

/// A write as a webhook or a policy sees it: in a version that its rules name.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) resource: Arc<Resource>,
    operation: Operation,
    dry_run: bool,
    pub(crate) spoken: Option<Spoken>,
    old: Option<Cow<'a, Value>>,
    new: Option<Cow<'a, Value>>,
}

impl Seen<'_> {
    pub(crate) fn object(&self) -> Option<&Value> {
        self.new.as_deref()
    }

    pub(crate) fn write(&self) -> Write<'_> {
        Write {
            operation: self.operation,
            old: self.old.as_deref(),
            dry_run: self.dry_run,
            spoken: self.spoken.clone(),
        }
    }
}

/// The other versions in which the same objects are served.
fn equivalents(cx: &Cx) -> Vec<Arc<Resource>> {
    let own = &cx.resource;
    let custom = cx.server.registry.custom();
    let groups = builtin_groups().iter().chain(&custom.groups).filter(|_| !own.is_served());
    let all = groups.flat_map(|g| &g.versions).flat_map(|(_, resources)| resources.values());
    let others = all.filter(|r| r.prefix == own.prefix && (&r.group, &r.version) != (&own.group, &own.version));
    others.cloned().collect()
}

fn rules(value: &Value, key: &str) -> Vec<Rule> {
    value[key].as_array().into_iter().flatten().map(Rule::read).collect()
}

fn conditions(value: &Value) -> Vec<Condition> {
    let variables = condition_variables();
    let conditions = value.as_array().into_iter().flatten().map(|condition| {
        let text = condition["expression"].as_str().unwrap_or_default().to_owned();
        Condition { expression: Expression::compile(&text, &variables), text }
    });
    conditions.collect()
}

impl Matcher {
    /// What a webhook says.
    pub(super) fn of_hook(hook: &Value) -> Self {
        Self {
            rules: rules(hook, "rules"),
            all: false,
            equivalent: is_equivalent(hook),
            excluded: vec![],
            namespaces: selector(&hook["namespaceSelector"]),
            objects: selector(&hook["objectSelector"]),
            conditions: conditions(&hook["matchConditions"]),
        }
    }

    /// What a policy or a binding says.
    pub(crate) fn read(constraints: &Value, match_conditions: &Value) -> Self {
        let wanted = rules(constraints, "resourceRules");
        Self {
            all: wanted.is_empty(),
            equivalent: is_equivalent(constraints),
            rules: wanted,
            excluded: rules(constraints, "excludeResourceRules"),
            namespaces: selector(&constraints["namespaceSelector"]),
            objects: selector(&constraints["objectSelector"]),
            conditions: conditions(match_conditions),
        }
    }

    /// The write as it is to be seen, if it is meant; `fails`: a condition that can't be evaluated refuses the write.
    pub(crate) fn matches<'w>(
        &self,
        cx: &Cx,
        write: &Write<'w>,
        new: Option<&'w Value>,
        fails: bool,
    ) -> Result<Option<Seen<'w>>, ApiError> {
        let name = match &write.spoken {
            Some(_) => cx.name(),
            None => object::meta_str(new.or(write.old).unwrap_or(&Value::Null), "name"),
        };
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
            let others = if self.equivalent && !rules.is_empty() { equivalents(cx) } else { vec![] };
            others.into_iter().find(|other| rules.iter().any(|rule| covers(rule, other)))
        };
        let ruled = if self.all { Some(cx.resource.clone()) } else { named(&self.rules) };
        let Some(resource) = ruled.filter(|_| named(&self.excluded).is_none()) else { return Ok(None) };
        if !self.in_namespace(cx, write, new) {
            return Ok(None);
        }
        if ![new, write.old].iter().flatten().any(|object| self.objects.matches_object(object)) {
            return Ok(None);
        }
        // What a subresource speaks is the same whichever version of the object the rule names.
        let own = write.spoken.is_some() || Arc::ptr_eq(&resource, &cx.resource);
        let shown = |object: &'w Value| match own {
            true => Cow::Borrowed(object),
            false => Cow::Owned(convert::between(&cx.resource, &resource, object)),
        };
        let (operation, dry_run, spoken) = (write.operation, write.dry_run, write.spoken.clone());
        let (old, new) = (write.old.map(shown), new.map(shown));
        let seen = Seen { resource, operation, dry_run, spoken, old, new };
        match self.condition(cx, &seen) {
            Ok(met) => Ok(met.then_some(seen)),
            Err(_) if !fails => Ok(None),
            Err(why) => Err(ApiError::forbidden(&cx.resource.plural, &cx.resource.group, name, &why)),
        }
    }

    /// True when all conditions are met.
    fn condition(&self, cx: &Cx, seen: &Seen<'_>) -> Result<bool, String> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let write = seen.write();
        let request = review::request(cx, &seen.resource, &write, "");
        let (object, old) = (seen.object().unwrap_or(&Value::Null), write.old.unwrap_or(&Value::Null));
        let variables = [
            ("object", Binding::Plain(object)),
            ("oldObject", Binding::Plain(old)),
            ("request", Binding::Plain(&request)),
        ];
        let mut budget = Budget::new(CONDITIONS_UNITS_MAX);
        let mut failed = None;
        for condition in &self.conditions {
            let came_to = match &condition.expression {
                Ok(expression) => expression.evaluate_within(&variables, &mut budget),
                Err(why) => Err(why.clone()),
            };
            let why = match came_to {
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
    fn in_namespace(&self, cx: &Cx, write: &Write<'_>, new: Option<&Value>) -> bool {
        let resource = &*cx.resource;
        if resource.is("", "Namespace") {
            return new.or(write.old).is_some_and(|object| self.namespaces.matches_object(object));
        }
        if !resource.namespaced || self.namespaces.is_empty() {
            return true;
        }
        let own = || object::meta_str(new.or(write.old).unwrap_or(&Value::Null), "namespace");
        let name = cx.namespace().unwrap_or_else(own);
        let namespace = cx.server.builtin_object("", "namespaces", "", name);
        self.namespaces.matches_object(namespace.as_ref().unwrap_or(&Value::Null))
    }
}

impl Rule {
    fn read(rule: &Value) -> Self {
        Self {
            operations: strings(rule, "operations"),
            groups: strings(rule, "apiGroups"),
            versions: strings(rule, "apiVersions"),
            resources: strings(rule, "resources"),
            names: strings(rule, "resourceNames"),
            scope: rule["scope"].as_str().unwrap_or("*").to_owned(),
        }
    }

    /// `to` is group, version, plural and subresource of a request.
    fn covers(&self, operation: Operation, to: (&str, &str, &str, &str), namespaced: bool) -> bool {
        let has = |list: &[String], value: &str| list.iter().any(|v| v == "*" || v == value);
        let operation = match operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        };
        let (group, version, plural, subresource) = to;
        let resource = self.resources.iter().any(|wanted| {
            let (resource, sub) = wanted.split_once('/').unwrap_or((wanted, ""));
            (resource == "*" || resource == plural) && (sub == subresource || sub == "*")
        });
        let scope = match self.scope.as_str() {
            "Cluster" => !namespaced,
            "Namespaced" => namespaced,
            _ => true,
        };
        has(&self.operations, operation)
            && has(&self.groups, group)
            && has(&self.versions, version)
            && resource
            && scope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rule_covers() {
        let rule = |resources: &[&str], scope: &str| {
            Rule::read(
                &json!({"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["*"], "resources": resources, "scope": scope}),
            )
        };
        let deployments = ("apps", "v1", "deployments", "");
        let status = ("apps", "v1", "deployments", "status");
        for (name, rule, operation, to, want) in [
            ("the same", rule(&["deployments"], "*"), Operation::Create, deployments, true),
            ("another operation", rule(&["deployments"], "*"), Operation::Delete, deployments, false),
            ("another group", rule(&["deployments"], "*"), Operation::Create, ("", "v1", "deployments", ""), false),
            ("all resources, no subresource", rule(&["*"], "*"), Operation::Create, status, false),
            ("all of everything", rule(&["*/*"], "*"), Operation::Create, status, true),
            ("all of everything, the object itself", rule(&["*/*"], "*"), Operation::Create, deployments, true),
            ("a subresource", rule(&["deployments/status"], "*"), Operation::Create, status, true),
            ("a subresource of all", rule(&["*/status"], "*"), Operation::Create, status, true),
            ("in namespaces", rule(&["*"], "Namespaced"), Operation::Create, deployments, true),
            ("of the cluster", rule(&["*"], "Cluster"), Operation::Create, deployments, false),
        ] {
            assert_eq!(rule.covers(operation, to, true), want, "{name}");
        }
    }
}
