//! Match of a write with the configuration of a webhook or a policy: rules, selectors, conditions.

use std::collections::BTreeMap;

use ironclad_patch::{
    cel::{Expression, Variable},
    selector::LabelSelector,
};
use serde_json::Value;

use crate::admission::review::Operation;

/// The writes that a webhook or policy applies to.
#[derive(Debug)]
pub(crate) struct Matcher {
    pub(super) rules: Vec<Rule>,
    /// No rule means all writes.
    pub(super) all: bool,
    /// Rules that name another version of the same objects count as well.
    pub(super) equivalent: bool,
    pub(super) excluded: Vec<Rule>,
    pub(super) namespaces: LabelSelector,
    pub(super) objects: LabelSelector,
    pub(super) conditions: Vec<Condition>,
}

/// One of `matchConditions`.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) text: String,
    pub(super) expression: Result<Expression, String>,
}

/// One of the rules.
#[derive(Debug, Default)]
pub(super) struct Rule {
    pub(super) operations: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) versions: Vec<String>,
    pub(super) resources: Vec<String>,
    pub(super) names: Vec<String>,
    pub(super) scope: String,
}

fn strings(value: &Value, key: &str) -> Vec<String> {
    value[key].as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

/// A label selector as configurations carry it; an absent or unreadable one selects everything.
pub(crate) fn label_selector(object: &Value) -> LabelSelector {
    LabelSelector::from_object(object).ok().flatten().unwrap_or_default()
}

fn is_equivalent(value: &Value) -> bool {
    value["matchPolicy"] != "Exact"
}

/// Variables of match conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConditionVariables {
    /// Those of a request.
    Request,
    /// And `params`, of a policy with a `paramKind`.
    WithParams,
}

impl ConditionVariables {
    /// The variables for a policy of this spec.
    pub(crate) fn of_policy(spec: &Value) -> Self {
        if spec["paramKind"].is_object() { Self::WithParams } else { Self::Request }
    }

    fn declared(self) -> BTreeMap<&'static str, Variable<'static>> {
        let params = (self == Self::WithParams).then_some("params");
        let names = ["object", "oldObject", "request"].into_iter().chain(params);
        names.map(|name| (name, Variable::Anything)).collect()
    }
}

/// The type of one of `matchConditions`, or why it is none.
pub(crate) fn condition_type(expression: &str, variables: ConditionVariables) -> Result<&'static str, String> {
    Expression::compile(expression, &variables.declared()).map(|compiled| compiled.type_name)
}

fn rules(value: &Value, key: &str) -> Vec<Rule> {
    value[key].as_array().into_iter().flatten().map(Rule::read).collect()
}

fn conditions(value: &Value, variables: ConditionVariables) -> Vec<Condition> {
    let variables = variables.declared();
    let conditions = value.as_array().into_iter().flatten().map(|condition| {
        let text = condition["expression"].as_str().unwrap_or_default().to_owned();
        Condition { expression: Expression::compile(&text, &variables), text }
    });
    conditions.collect()
}

impl Matcher {
    /// Reads the rules of a webhook.
    pub(super) fn of_hook(hook: &Value) -> Self {
        Self {
            rules: rules(hook, "rules"),
            all: false,
            equivalent: is_equivalent(hook),
            excluded: vec![],
            namespaces: label_selector(&hook["namespaceSelector"]),
            objects: label_selector(&hook["objectSelector"]),
            conditions: conditions(&hook["matchConditions"], ConditionVariables::Request),
        }
    }

    /// Reads the constraints and the conditions of a policy.
    pub(crate) fn of_policy(spec: &Value) -> Self {
        let conditions = conditions(&spec["matchConditions"], ConditionVariables::of_policy(spec));
        Self { conditions, ..Self::of_constraints(&spec["matchConstraints"]) }
    }

    /// Reads the constraints of a policy or a binding.
    pub(crate) fn of_constraints(constraints: &Value) -> Self {
        let wanted = rules(constraints, "resourceRules");
        Self {
            all: wanted.is_empty(),
            equivalent: is_equivalent(constraints),
            rules: wanted,
            excluded: rules(constraints, "excludeResourceRules"),
            namespaces: label_selector(&constraints["namespaceSelector"]),
            objects: label_selector(&constraints["objectSelector"]),
            conditions: vec![],
        }
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
    pub(super) fn covers(&self, operation: Operation, to: (&str, &str, &str, &str), namespaced: bool) -> bool {
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
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_cover_operations_groups_resources_and_scopes() {
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
