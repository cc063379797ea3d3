//! CEL rules of a schema (`x-kubernetes-validations`): checked when the schema is accepted, evaluated over its objects
//! (specification/apiserver.md 18).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    Findings,
    node::{Additional, JsonType, Node, Rule},
};
use crate::{
    cel::{
        Binding, Budget, COST_MAX, EXCEEDED, Expression, Outcome, REQUEST_UNITS_MAX, TOTAL_COST_MAX, Variable,
        cost_of_node, factor,
    },
    error::{FieldError, Reason},
};

const ADVICE: &str = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and \
                      strings are declared)";
/// Beginning of the error of an evaluation whose operands have types that no operator or function takes.
const NO_OVERLOAD: &str = "no such overload";
/// Maximum number of bytes of a message that a `messageExpression` returns; a longer one is not used.
const MESSAGE_MAX: usize = 5 * 1024;
const NOT_CHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors \
                           to complete validation";

/// The compiled rules of a node and of those below it.
#[derive(Debug, Default)]
pub(super) struct Rules {
    own: Vec<Compiled>,
    fields: BTreeMap<String, Rules>,
    additional: Option<Box<Rules>>,
    items: Option<Box<Rules>>,
}

#[derive(Debug)]
struct Compiled {
    rule: Rule,
    /// The compiled expression, or its error: then every object is rejected.
    expression: Result<Expression, String>,
    message: Option<Expression>,
    /// The rule uses `oldSelf`.
    transition: bool,
}

fn compile(node: &Node, rule: &Rule) -> Compiled {
    let optional = rule.optional_old_self == Some(true);
    let old = if optional { Variable::OptionalOf(node) } else { Variable::Of(node) };
    let variables = BTreeMap::from([("self", Variable::Of(node)), ("oldSelf", old)]);
    let expression = Expression::compile(&rule.rule, &variables);
    let message = rule.message_expression.as_deref().filter(|text| !text.trim().is_empty());
    let message = message.and_then(|text| Expression::compile(text, &variables).ok());
    let transition = expression.as_ref().is_ok_and(|e| e.names("oldSelf"));
    Compiled { rule: rule.clone(), expression, message, transition }
}

/// Returns the schema as rules see it: at the root of an object, `apiVersion`, `kind` and two fields of `metadata` can
/// be read even if they are not declared.
fn with_type_and_meta(node: &Node, is_root: bool) -> Node {
    let mut seen = node.clone();
    for property in seen.properties.values_mut() {
        **property = with_type_and_meta(property, false);
    }
    if let Some(Additional::Of(of)) = &mut seen.additional {
        **of = with_type_and_meta(of, false);
    }
    if let Some(items) = &mut seen.items {
        **items = with_type_and_meta(items, false);
    }
    if is_root || node.embedded {
        let text = || Box::new(Node { ty: Some(JsonType::String), ..Node::default() });
        let metadata = seen.properties.entry("metadata".to_owned()).or_default();
        metadata.ty = Some(JsonType::Object);
        metadata.properties = ["name", "generateName"].map(|name| (name.to_owned(), text())).into();
        for name in ["apiVersion", "kind"] {
            seen.properties.insert(name.to_owned(), text());
        }
    }
    seen
}

fn has_rules(node: &Node) -> bool {
    let additional = match &node.additional {
        Some(Additional::Of(of)) => has_rules(of),
        _ => false,
    };
    !node.rules.is_empty()
        || additional
        || node.properties.values().any(|below| has_rules(below))
        || node.items.as_deref().is_some_and(has_rules)
}

pub(super) fn of(root: &Node) -> Option<Rules> {
    has_rules(root).then(|| below(&with_type_and_meta(root, true))).flatten()
}

fn below(node: &Node) -> Option<Rules> {
    let boxed = |node: Option<&Node>| node.and_then(below).map(Box::new);
    let rules = Rules {
        own: node.rules.iter().map(|rule| compile(node, rule)).collect(),
        fields: node.properties.iter().filter_map(|(name, node)| Some((name.clone(), below(node)?))).collect(),
        additional: boxed(match &node.additional {
            Some(Additional::Of(node)) => Some(node),
            _ => None,
        }),
        items: boxed(node.items.as_deref()),
    };
    let empty = rules.own.is_empty() && rules.fields.is_empty() && rules.additional.is_none() && rules.items.is_none();
    (!empty).then_some(rules)
}

pub(super) fn check(root: &Node, path: &str) -> Vec<FieldError> {
    if !has_rules(root) {
        return Vec::new();
    }
    let root = &with_type_and_meta(root, true);
    let mut checked = Checked { errors: Vec::new(), costs: Vec::new() };
    checked.node(root, path, 1, None);
    let total = checked.costs.iter().map(|(_, cost)| *cost).fold(0, u64::saturating_add);
    if let Some(factor) = factor(total, TOTAL_COST_MAX) {
        /// Number of the most expensive rules that an error names.
        const NAMED: usize = 4;
        checked.costs.sort_by_key(|(field, cost)| (std::cmp::Reverse(*cost), field.clone()));
        let costly = checked.costs.iter().take(NAMED).filter(|(_, cost)| *cost > COST_MAX);
        let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        checked.errors.extend(costly.map(|(field, _)| FieldError::forbidden(field.clone(), detail)));
        let detail = format!(
            "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of \
             {factor} {ADVICE}"
        );
        checked.errors.push(FieldError::forbidden(path, &detail));
    }
    checked.errors
}

struct Checked {
    errors: Vec<FieldError>,
    costs: Vec<(String, u64)>,
}

impl Checked {
    /// Checks a node. `times`: how many values of it an object has at most. `adrift`: the enclosing list whose items
    /// cannot be matched between two versions of an object.
    fn node(&mut self, node: &Node, path: &str, times: u64, adrift: Option<&str>) {
        for (i, rule) in node.rules.iter().enumerate() {
            self.rule(node, rule, &format!("{path}.x-kubernetes-validations[{i}]"), times, adrift);
        }
        for (name, property) in &node.properties {
            self.node(property, &format!("{path}.properties[{name}]"), times, adrift);
        }
        let more = || times.saturating_mul(cost_of_node(node));
        if let Some(Additional::Of(of)) = &node.additional {
            self.node(of, &format!("{path}.additionalProperties"), more(), adrift);
        }
        if let Some(items) = &node.items {
            let adrift = adrift.or((node.list_type.as_deref() != Some("map")).then_some(path));
            self.node(items, &format!("{path}.items"), more(), adrift);
        }
    }

    fn rule(&mut self, node: &Node, rule: &Rule, path: &str, times: u64, adrift: Option<&str>) {
        let shown = printed(rule);
        let invalid = |name: &str, detail: &str| FieldError {
            field: format!("{path}.{name}"),
            reason: Reason::Invalid,
            message: format!("Invalid value: {shown}: {detail}"),
        };
        let compiled = compile(node, rule);
        match &compiled.expression {
            Err(why) => self.errors.push(invalid("rule", &format!("compilation failed: {why}"))),
            Ok(expression) if !matches!(expression.type_name, "bool" | "dyn") => {
                self.errors.push(invalid("rule", "cel expression must evaluate to a bool"));
            }
            Ok(expression) => {
                self.cost(&format!("{path}.rule"), "rule", expression.cost.saturating_mul(times));
                if let Some(list) = adrift.filter(|_| compiled.transition) {
                    let detail =
                        format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
                    self.errors.push(FieldError::invalid(format!("{path}.rule"), &json!(rule.rule), &detail));
                }
                if let (Some(value), false) = (rule.optional_old_self, compiled.transition) {
                    let detail = "may not be set if oldSelf is not used in rule";
                    self.errors.push(FieldError::invalid(format!("{path}.optionalOldSelf"), &json!(value), detail));
                }
            }
        }
        if let Some(text) = rule.message_expression.as_deref().filter(|text| !text.trim().is_empty()) {
            let optional = rule.optional_old_self == Some(true);
            let old = if optional { Variable::OptionalOf(node) } else { Variable::Of(node) };
            let variables = BTreeMap::from([("self", Variable::Of(node)), ("oldSelf", old)]);
            match Expression::compile(text, &variables) {
                Err(why) => {
                    let detail = format!("messageExpression compilation failed: {why}");
                    self.errors.push(invalid("messageExpression", &detail));
                }
                Ok(expression) if !matches!(expression.type_name, "string" | "dyn") => {
                    self.errors.push(invalid("messageExpression", "messageExpression must evaluate to a string"));
                }
                Ok(expression) => {
                    let cost = expression.cost.saturating_mul(times);
                    self.cost(&format!("{path}.messageExpression"), "messageExpression", cost);
                }
            }
        }
        let field_path = rule.field_path.as_deref().unwrap_or_default();
        if !field_path.trim().is_empty() && target(node, field_path).is_none() {
            let detail = "must be a valid path";
            self.errors.push(FieldError::invalid(format!("{path}.fieldPath"), &json!(field_path), detail));
        }
    }

    fn cost(&mut self, field: &str, what: &str, cost: u64) {
        if let Some(factor) = factor(cost, COST_MAX) {
            let detail = format!("estimated {what} cost exceeds budget by factor of {factor} {ADVICE}");
            self.errors.push(FieldError::forbidden(field, &detail));
        }
        self.costs.push((field.to_owned(), cost));
    }
}

fn printed(rule: &Rule) -> String {
    let text = |text: Option<&str>| {
        let text = Value::from(text.unwrap_or_default()).to_string();
        text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
    };
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text(Some(&rule.rule)),
        text(rule.message.as_deref()),
        text(rule.message_expression.as_deref()),
        rule.reason.as_deref().map_or("null".to_owned(), |reason| text(Some(reason))),
        text(rule.field_path.as_deref()),
        rule.optional_old_self.map_or("null".to_owned(), |value| value.to_string()),
    )
}

/// Resolves a rule's `fieldPath` relative to its node, as a path of errors; `None` if there is no such field.
fn target(node: &Node, path: &str) -> Option<String> {
    let (mut node, mut rest, mut out) = (node, path, String::new());
    while !rest.is_empty() {
        let (name, after) = if let Some(quoted) = rest.strip_prefix("['").or_else(|| rest.strip_prefix(".['")) {
            quoted.split_once("']")?
        } else {
            let plain = rest.strip_prefix('.')?;
            plain.split_at(plain.find(['.', '[']).unwrap_or(plain.len()))
        };
        let is_field = node.properties.contains_key(name);
        node = node.child(name)?;
        out += &if is_field { format!(".{name}") } else { format!("[{name}]") };
        rest = after;
    }
    Some(out)
}

/// Evaluates the rules on an object; `found` are its earlier errors.
pub(super) fn validate(
    rules: &Rules,
    root: &Node,
    object: &Value,
    old: Option<&Value>,
    found: &[FieldError],
) -> Findings {
    let blocks = |reason: Reason| {
        use Reason::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
        matches!(reason, NotSupported | Required | TooLong | TooMany | TypeInvalid)
    };
    if found.iter().any(|error| blocks(error.reason)) {
        return Findings::from(vec![FieldError::invalid("<nil>", &Value::Null, NOT_CHECKED)]);
    }
    let mut done = Done { findings: Findings::default(), budget: Budget::new(REQUEST_UNITS_MAX) };
    let correlation = Correlation { own: old.map(|old| Versions { node: root, value: object, old }), parent: None };
    walk(rules, root, object, old, "", correlation, &mut done);
    done.findings
}

struct Done {
    findings: Findings,
    budget: Budget,
}

/// A value and its version before an update.
#[derive(Clone, Copy)]
struct Versions<'v> {
    node: &'v Node,
    value: &'v Value,
    old: &'v Value,
}

impl<'v> Versions<'v> {
    /// Versions of a member of an object; `None` if it is new or no schema describes it.
    fn member(self, name: &str) -> Option<Self> {
        let node = self.node.properties.get(name).map(|node| &**node).or(match &self.node.additional {
            Some(Additional::Of(node)) => Some(&**node),
            _ => None,
        })?;
        Some(Self { node, value: self.value.get(name)?, old: self.old.get(name)? })
    }

    /// Versions of an item of a list: only items of lists of type map are correlated.
    fn item(self, index: usize) -> Option<Self> {
        let value = self.value.get(index)?;
        let old = counterpart(self.node, value, self.old.as_array()?)?;
        Some(Self { node: self.node.items.as_deref()?, value, old })
    }

    /// True if the value did not change, as a kube-apiserver compares for ratcheting: a member that no schema describes
    /// counts as changed, and lists of type map are compared by their keys.
    fn is_unchanged(self) -> bool {
        match (self.value, self.old) {
            (Value::Array(items), Value::Array(olds)) if is_map_list(self.node) => {
                items.len() == olds.len() && (0..items.len()).all(|i| self.item(i).is_some_and(Self::is_unchanged))
            }
            (Value::Object(members), Value::Object(olds)) => {
                members.len() == olds.len()
                    && members.keys().all(|name| self.member(name).is_some_and(Self::is_unchanged))
            }
            (value, old) => value == old,
        }
    }
}

/// Correlation of a value with its old version. Broken rules of unchanged values are tolerated (ratcheting).
#[derive(Clone, Copy)]
struct Correlation<'v> {
    own: Option<Versions<'v>>,
    /// The nearest correlated value above.
    parent: Option<Versions<'v>>,
}

impl<'v> Correlation<'v> {
    fn below(self, find: impl FnOnce(Versions<'v>) -> Option<Versions<'v>>) -> Self {
        match self.own {
            Some(own) => Self { own: find(own), parent: self.own },
            None => self,
        }
    }

    fn member(self, name: &str) -> Self {
        // Both versions were converted to the same type, so a change of the type can't be seen.
        if self.own.is_some() && self.parent.is_none() && matches!(name, "apiVersion" | "kind") {
            return Self { own: None, parent: None };
        }
        self.below(|own| own.member(name))
    }

    fn item(self, index: usize) -> Self {
        self.below(|own| own.item(index))
    }

    fn is_unchanged(self) -> bool {
        self.own.or(self.parent).is_some_and(Versions::is_unchanged)
    }
}

fn walk<'v>(
    rules: &Rules,
    node: &'v Node,
    value: &'v Value,
    old: Option<&'v Value>,
    path: &str,
    correlation: Correlation<'v>,
    done: &mut Done,
) {
    if value.is_null() || done.budget.is_exceeded() {
        return;
    }
    for compiled in &rules.own {
        if done.budget.is_exceeded() {
            break;
        }
        match compiled.verdict(node, value, old, path, &mut done.budget) {
            Verdict::Holds => {}
            Verdict::Broken(error) if !compiled.transition && correlation.is_unchanged() => {
                done.findings.ratcheted.push(error);
            }
            Verdict::Broken(error) | Verdict::Failed(error) => done.findings.errors.push(error),
        }
    }
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let old = old.and_then(|old| old.get(name)).filter(|old| !old.is_null());
                let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                if let (Some(rules), Some(node)) = (rules.fields.get(name), node.properties.get(name)) {
                    walk(rules, node, value, old, &at, correlation.member(name), done);
                } else if let (Some(rules), Some(Additional::Of(node)), false) =
                    (&rules.additional, &node.additional, node.properties.contains_key(name))
                {
                    walk(rules, node, value, old, &format!("{path}[{name}]"), correlation.member(name), done);
                }
            }
        }
        Value::Array(items) => {
            if let (Some(rules), Some(of)) = (&rules.items, node.items.as_deref()) {
                let olds = old.and_then(Value::as_array);
                for (i, item) in items.iter().enumerate() {
                    let old = olds.and_then(|olds| counterpart(node, item, olds));
                    walk(rules, of, item, old, &format!("{path}[{i}]"), correlation.item(i), done);
                }
            }
        }
        _ => {}
    }
}

fn is_map_list(list: &Node) -> bool {
    list.list_type.as_deref() == Some("map")
}

/// Returns the old version of an item of a list of type map: the one with the same keys. Others have none.
fn counterpart<'v>(list: &Node, item: &Value, olds: &'v [Value]) -> Option<&'v Value> {
    let key = |item: &Value, name: &String| {
        let default = || list.items.as_deref().and_then(|n| n.properties.get(name)?.default.clone());
        item.get(name).cloned().or_else(default)
    };
    let has_keys = |old: &&Value| list.list_keys.iter().all(|name| key(old, name) == key(item, name));
    is_map_list(list).then(|| olds.iter().find(has_keys)).flatten()
}

/// Result of one rule.
enum Verdict {
    Holds,
    /// It evaluates to false.
    Broken(FieldError),
    /// It can't be evaluated.
    Failed(FieldError),
}

impl Compiled {
    fn verdict(&self, node: &Node, value: &Value, old: Option<&Value>, path: &str, budget: &mut Budget) -> Verdict {
        let optional = self.rule.optional_old_self == Some(true);
        if self.transition && old.is_none() && !optional {
            return Verdict::Holds;
        }
        // A kube-apiserver shows the type instead of the value.
        let shown = json!(node.ty.map_or("", JsonType::as_str));
        let failed = |detail: &str| Verdict::Failed(FieldError::invalid(path_or_nil(path), &shown, detail));
        let given = self.rule.message.as_deref().filter(|text| !text.is_empty());
        let rule = given.unwrap_or(&self.rule.rule).trim();
        let expression = match &self.expression {
            Ok(expression) => expression,
            Err(why) => return failed(&format!("rule compile error: compilation failed: {why}")),
        };
        let mut variables = vec![("self", Binding::Of(value, node))];
        match old {
            _ if optional => variables.push(("oldSelf", Binding::OptionalOf(old, node))),
            Some(old) => variables.push(("oldSelf", Binding::Of(old, node))),
            None => {}
        }
        match expression.evaluate_within(&variables, budget) {
            Ok(Outcome::Bool(true)) => Verdict::Holds,
            Ok(_) => Verdict::Broken(self.refusal(node, value, path, &variables, budget)),
            Err(why) if why == EXCEEDED => failed(&format!(
                "'{why}': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
            )),
            Err(why) if why.starts_with(NO_OVERLOAD) => failed(&format!(
                "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {rule}"
            )),
            Err(why) => failed(&format!("{why} evaluating rule: {rule}")),
        }
    }

    fn refusal(
        &self,
        node: &Node,
        value: &Value,
        path: &str,
        variables: &[(&str, Binding<'_>)],
        budget: &mut Budget,
    ) -> FieldError {
        let made = self.message.as_ref().and_then(|message| match message.evaluate_within(variables, budget) {
            Ok(Outcome::Text(text)) => Some(text.trim().to_owned())
                .filter(|text| !text.is_empty() && !text.contains('\n') && text.len() <= MESSAGE_MAX),
            _ => None,
        });
        let given = self.rule.message.as_deref().map(str::trim).filter(|text| !text.is_empty());
        let detail =
            made.or(given.map(str::to_owned)).unwrap_or_else(|| format!("failed rule: {}", self.rule.rule.trim()));
        let target = self.rule.field_path.as_deref().and_then(|p| target(node, p)).unwrap_or_default();
        let field = path_or_nil(format!("{path}{target}").trim_start_matches('.'));
        // Values that contain others are not printed.
        let holds_more = matches!(node.ty, Some(JsonType::Object | JsonType::Array));
        let with_value = |what: &str| match holds_more {
            true => what.to_owned(),
            false => format!("{what}: {value}"),
        };
        let (reason, message) = match self.rule.reason.as_deref() {
            Some("FieldValueForbidden") => (Reason::Forbidden, format!("Forbidden: {detail}")),
            Some("FieldValueRequired") => (Reason::Required, format!("Required value: {detail}")),
            Some("FieldValueDuplicate") => (Reason::Duplicate, with_value("Duplicate value")),
            _ => (Reason::Invalid, format!("{}: {detail}", with_value("Invalid value"))),
        };
        FieldError { field, reason, message }
    }
}

fn path_or_nil(path: &str) -> String {
    if path.is_empty() { "<nil>".to_owned() } else { path.to_owned() }
}
