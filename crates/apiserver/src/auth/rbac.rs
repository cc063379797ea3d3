//! RBAC: the union of the rules of all bindings of a user (specification/apiserver.md 20).

use std::{collections::BTreeMap, sync::Arc};

use ironclad_store::{Query, Store};
use serde_json::Value;

use crate::{Identity, object, registry::Registry};

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// The attributes of a request that authorization decides on.
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

/// All bindings with the rules that they give, as they were at one time.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    cluster: Vec<BoundRules>,
    namespaces: BTreeMap<String, Vec<BoundRules>>,
}

/// A binding and the rules of its role; without the role it gives no right.
#[derive(Debug)]
struct BoundRules {
    binding: Value,
    rules: Option<Arc<[Value]>>,
}

impl Bindings {
    pub(crate) fn read(store: &Store, registry: &Registry) -> Self {
        let mut roles: BTreeMap<(String, String), Arc<[Value]>> = BTreeMap::new();
        for plural in ["clusterroles", "roles"] {
            for mut role in all(store, registry, plural) {
                let rules = match role["rules"].take() {
                    Value::Array(rules) => rules,
                    _ => vec![],
                };
                let at = (object::meta_str(&role, "namespace").to_owned(), object::meta_str(&role, "name").to_owned());
                roles.insert(at, rules.into());
            }
        }
        let mut out = Self::default();
        for binding in
            ["clusterrolebindings", "rolebindings"].into_iter().flat_map(|plural| all(store, registry, plural))
        {
            let namespace = object::meta_str(&binding, "namespace").to_owned();
            let role = &binding["roleRef"];
            let of = if role["kind"] == "Role" { namespace.clone() } else { String::new() };
            let name = role["name"].as_str().unwrap_or_default().to_owned();
            let bound = BoundRules { rules: roles.get(&(of, name)).cloned(), binding };
            if namespace.is_empty() {
                out.cluster.push(bound);
            } else {
                out.namespaces.entry(namespace).or_default().push(bound);
            }
        }
        out
    }
}

fn all(store: &Store, registry: &Registry, plural: &str) -> Vec<Value> {
    let Some(resource) = registry.builtin(GROUP, plural) else { return vec![] };
    let Ok(range) = store.range(&Query::prefix(&resource.prefix)) else { return vec![] };
    range.entries.iter().filter_map(|(_, e)| object::decode(&e.value, e.modified).ok()).collect()
}

/// Reason of an allowed request, or of a refusal, which is empty unless the role of a binding is missing.
pub(crate) fn allowed(bindings: &Bindings, identity: &Identity, attributes: &Attributes<'_>) -> Result<String, String> {
    match bindings.rules(identity, attributes.namespace).find(|(_, _, rule)| covers(rule, attributes)) {
        Some((binding, subject, _)) => Ok(reason(binding, subject)),
        None => Err(bindings
            .missing_roles(identity, attributes.namespace)
            .map_or_else(String::new, |m| format!("RBAC: {m}"))),
    }
}

fn reason(binding: &Value, subject: &Value) -> String {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let own = object::meta_str(binding, "namespace");
    let name = match own {
        "" => object::meta_str(binding, "name").to_owned(),
        namespace => format!("{}/{namespace}", object::meta_str(binding, "name")),
    };
    let who = match (text(subject, "kind").as_str(), text(subject, "namespace")) {
        ("ServiceAccount", namespace) if namespace.is_empty() => format!("{}/{own}", text(subject, "name")),
        ("ServiceAccount", namespace) => format!("{}/{namespace}", text(subject, "name")),
        _ => text(subject, "name"),
    };
    let (kind, role) = (text(binding, "kind"), &binding["roleRef"]);
    format!(
        "RBAC: allowed by {kind} {name:?} of {} {:?} to {} {who:?}",
        text(role, "kind"),
        text(role, "name"),
        text(subject, "kind")
    )
}

impl Bindings {
    /// The rules that apply to a user, with binding and subject: of cluster bindings, then of the namespace's.
    fn rules<'a>(
        &'a self,
        identity: &'a Identity,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a Value, &'a Value, &'a Value)> {
        self.of_namespace(namespace).flat_map(|bound| {
            let subject = subject_of(&bound.binding, identity);
            let rules =
                move |s| bound.rules.iter().flat_map(|rules| rules.iter()).map(move |rule| (&bound.binding, s, rule));
            subject.into_iter().flat_map(rules)
        })
    }

    fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &BoundRules> {
        self.cluster.iter().chain(self.namespaces.get(namespace).into_iter().flatten())
    }

    /// Roles that bindings of a user name and that don't exist, as an error of a kube-apiserver; `None` without any.
    pub(crate) fn missing_roles(&self, identity: &Identity, namespace: &str) -> Option<String> {
        let dangling = self.of_namespace(namespace).filter(|b| b.rules.is_none());
        let dangling = dangling.filter(|b| subject_of(&b.binding, identity).is_some());
        let mut errors: Vec<String> = Vec::new();
        for bound in dangling {
            let role = &bound.binding["roleRef"];
            let kind = role["kind"].as_str().unwrap_or_default().to_lowercase();
            let error = format!("{kind}.{GROUP} {:?} not found", role["name"].as_str().unwrap_or_default());
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
        match errors.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            many => Some(format!("[{}]", many.join(", "))),
        }
    }
}

/// Calls back with each rule that applies to a user, and the binding and subject that make it so: of cluster bindings,
/// then of the namespace's.
pub(crate) fn for_each_rule(
    bindings: &Bindings,
    identity: &Identity,
    namespace: &str,
    mut each: impl FnMut(&Value, &Value, &Value),
) {
    bindings.rules(identity, namespace).for_each(|(binding, subject, rule)| each(binding, subject, rule));
}

/// Which of a binding's subjects the user is.
fn subject_of<'a>(binding: &'a Value, identity: &Identity) -> Option<&'a Value> {
    let own = object::meta_str(binding, "namespace");
    binding["subjects"].as_array().into_iter().flatten().find(|subject| {
        let name = subject["name"].as_str().unwrap_or_default();
        match subject["kind"].as_str() {
            Some("User") => name == identity.user,
            Some("Group") => identity.in_group(name),
            Some("ServiceAccount") => {
                let namespace = subject["namespace"].as_str().filter(|n| !n.is_empty()).unwrap_or(own);
                crate::identity::service_account(&identity.user) == Some((namespace, name))
            }
            _ => false,
        }
    })
}

pub(super) fn strings<'a>(rule: &'a Value, key: &str) -> Vec<&'a str> {
    rule[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// True when the rule covers the request.
pub(crate) fn covers(rule: &Value, attributes: &Attributes<'_>) -> bool {
    let has = |key: &str, value: &str| strings(rule, key).iter().any(|v| *v == "*" || *v == value);
    if !has("verbs", attributes.verb) {
        return false;
    }
    if !attributes.path.is_empty() {
        return strings(rule, "nonResourceURLs").iter().any(|url| match url.strip_suffix('*') {
            Some(prefix) => attributes.path.starts_with(prefix),
            None => *url == attributes.path,
        });
    }
    let whole = match attributes.subresource {
        "" => attributes.resource.to_owned(),
        sub => format!("{}/{sub}", attributes.resource),
    };
    let any_parent = format!("*/{}", attributes.subresource);
    let resource = has("resources", &whole)
        || (!attributes.subresource.is_empty() && strings(rule, "resources").contains(&any_parent.as_str()));
    let names = strings(rule, "resourceNames");
    has("apiGroups", attributes.group) && resource && (names.is_empty() || names.contains(&attributes.name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules() {
        let ask = |verb, resource, subresource, name| Attributes {
            verb,
            group: "",
            resource,
            subresource,
            namespace: "n",
            name,
            path: "",
        };
        let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "*/scale"], "resourceNames": []});
        let named = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["a"]});
        for (name, rule, attributes, want) in [
            ("verb, group and resource", &rule, ask("get", "pods", "", "x"), true),
            ("another verb", &rule, ask("list", "pods", "", ""), false),
            ("a subresource is a resource of its own", &rule, ask("get", "pods", "log", "x"), false),
            ("a subresource of anything", &rule, ask("get", "replicasets", "scale", "x"), true),
            ("a name that is meant", &named, ask("delete", "pods", "", "a"), true),
            ("a name that isn't", &named, ask("delete", "pods", "", "b"), false),
            ("no name", &named, ask("list", "pods", "", ""), false),
        ] {
            assert_eq!(covers(rule, &attributes), want, "{name}");
        }
    }
}
