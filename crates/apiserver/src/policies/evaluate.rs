//! Parameters and variables of the expressions of a policy.

use std::collections::BTreeMap;

use ironclad_patch::cel::{Binding, Budget, Made, made_map};
use serde_json::Value;

use super::config::{BoundPolicy, Policy, text};
use crate::{
    admission::{objects::Objects, review::Write},
    context::Cx,
    object,
    webhooks::{Seen, label_selector, request},
};

/// Names of an expression with their values.
pub(super) type Names<'a> = [(&'a str, Binding<'a>)];

impl<R> BoundPolicy<R> {
    /// The parameters that a policy is evaluated with, one after the other; null when it has none.
    pub(super) fn parameters(&self, cx: &Cx, write: &Write<'_>, new: Option<&Value>) -> Result<Vec<Value>, String> {
        let Some((api_version, kind)) = &self.policy.param_kind else { return Ok(vec![Value::Null]) };
        if !self.params.is_object() {
            return Ok(vec![Value::Null]);
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let custom = cx.state.registry.custom();
        let groups = cx.state.registry.builtin_groups().iter().chain(&custom.groups).filter(|g| g.name == group);
        let mut resources = groups.filter_map(|g| g.version(version)).flat_map(|resources| resources.values());
        let Some(resource) = resources.find(|resource| resource.kind == *kind) else {
            return Err(format!("failed to configure policy: no kind {kind:?} in {api_version:?} is known"));
        };
        let own = object::meta_str(new.or(write.old).unwrap_or(&Value::Null), "namespace");
        let namespace = match text(&self.params, "namespace") {
            _ if !resource.namespaced => "",
            "" => own,
            given => given,
        };
        let objects = Objects::new(&cx.state.store, &cx.state.registry, &cx.state.seam, &*cx.state);
        let found = match self.params["name"].as_str() {
            Some(name) => objects.get(group, version, &resource.plural, namespace, name).into_iter().collect(),
            None => {
                let selector = label_selector(&self.params["selector"]);
                let mut all = objects.list(group, version, &resource.plural, namespace);
                all.retain(|object| selector.matches_object(object));
                all
            }
        };
        if found.is_empty() && text(&self.params, "parameterNotFoundAction") != "Allow" {
            let why =
                "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
            return Err(why.to_owned());
        }
        Ok(found)
    }
}

impl<R> Policy<R> {
    /// Evaluates the variables, and calls with the names of all expressions.
    pub(super) fn with_names<T>(
        &self,
        cx: &Cx,
        seen: &Seen<'_>,
        params: &Value,
        budget: &mut Budget,
        call: impl FnOnce(&Names<'_>, &mut Budget) -> T,
    ) -> T {
        let (write, new) = (&seen.write(), seen.object());
        let request = request(cx, &seen.resource, write, "");
        let (object, old) = (new.unwrap_or(&Value::Null), write.old.unwrap_or(&Value::Null));
        let own = object::meta_str(new.or(write.old).unwrap_or(&Value::Null), "namespace");
        let namespace = cx.state.builtin_object("", "namespaces", "", own).unwrap_or(Value::Null);
        let plain = [
            ("object", Binding::Plain(object)),
            ("oldObject", Binding::Plain(old)),
            ("request", Binding::Plain(&request)),
            ("params", Binding::Plain(params)),
            ("namespaceObject", Binding::Plain(&namespace)),
        ];
        let mut made: BTreeMap<String, Made> = BTreeMap::new();
        for (name, expression) in &self.variables {
            if budget.is_exceeded() {
                break;
            }
            let so_far = made_map(&made);
            let names: Vec<_> = plain.into_iter().chain([("variables", Binding::Made(&so_far))]).collect();
            // A variable that fails is absent; expressions that use it fail.
            if let Some(value) = expression.as_ref().ok().and_then(|e| e.make(&names, budget).ok()) {
                made.insert(name.clone(), value);
            }
        }
        let variables = made_map(&made);
        let names: Vec<_> = plain.into_iter().chain([("variables", Binding::Made(&variables))]).collect();
        call(&names, budget)
    }
}
