//! RBAC: the union of the rules of all bindings of a user (specification/apiserver.md 20).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_store::{Query, Store};
use serde_json::Value;

use crate::{Identity, identity::service_account_user, object, registry::Registry};

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
    cluster: ScopeBindings,
    namespaces: BTreeMap<String, ScopeBindings>,
}

/// The bindings of one namespace, or those of the cluster, with an index by subject: a request costs what the bindings
/// of its user cost, not all of them.
#[derive(Debug, Default)]
struct ScopeBindings {
    all: Vec<BoundRules>,
    /// Positions in `all`, by the name of a user; a ServiceAccount has the name of its user.
    by_user: BTreeMap<String, Vec<usize>>,
    by_group: BTreeMap<String, Vec<usize>>,
}

impl ScopeBindings {
    fn push(&mut self, bound: BoundRules) {
        let at = self.all.len();
        let own = object::meta_str(&bound.binding, "namespace");
        for subject in bound.binding["subjects"].as_array().into_iter().flatten() {
            let name = subject["name"].as_str().unwrap_or_default();
            let positions = match subject["kind"].as_str() {
                Some("User") => self.by_user.entry(name.to_owned()).or_default(),
                Some("Group") => self.by_group.entry(name.to_owned()).or_default(),
                Some("ServiceAccount") => {
                    let user = service_account_user(namespace_of(subject, own), name);
                    self.by_user.entry(user).or_default()
                }
                _ => continue,
            };
            // A binding may name a subject twice.
            if positions.last() != Some(&at) {
                positions.push(at);
            }
        }
        self.all.push(bound);
    }

    /// The bindings that name the user or one of its groups, in the order of all bindings.
    fn of<'a>(&'a self, identity: &Identity) -> impl Iterator<Item = &'a BoundRules> + use<'a> {
        let groups = identity.groups.iter().filter_map(|group| self.by_group.get(group));
        let positions = self.by_user.get(&identity.user).into_iter().chain(groups).flatten();
        let positions: BTreeSet<usize> = positions.copied().collect();
        positions.into_iter().map(|at| &self.all[at])
    }
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
            out.push(namespace, bound);
        }
        out
    }

    fn push(&mut self, namespace: String, bound: BoundRules) {
        if namespace.is_empty() {
            self.cluster.push(bound);
        } else {
            self.namespaces.entry(namespace).or_default().push(bound);
        }
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
        self.applying(identity, namespace).flat_map(|bound| {
            let subject = subject_of(&bound.binding, identity);
            let rules =
                move |s| bound.rules.iter().flat_map(|rules| rules.iter()).map(move |rule| (&bound.binding, s, rule));
            subject.into_iter().flat_map(rules)
        })
    }

    /// The bindings of a user: those of the cluster, then those of the namespace.
    fn applying<'a>(&'a self, identity: &'a Identity, namespace: &str) -> impl Iterator<Item = &'a BoundRules> {
        let scopes = [Some(&self.cluster), self.namespaces.get(namespace)];
        scopes.into_iter().flatten().flat_map(move |scope| scope.of(identity))
    }

    /// Roles that bindings of a user name and that don't exist, as an error of a kube-apiserver; `None` without any.
    pub(crate) fn missing_roles(&self, identity: &Identity, namespace: &str) -> Option<String> {
        let dangling = self.applying(identity, namespace).filter(|b| b.rules.is_none());
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
                crate::identity::service_account(&identity.user) == Some((namespace_of(subject, own), name))
            }
            _ => false,
        }
    })
}

/// The namespace of a ServiceAccount: without one in the subject, the binding's own.
fn namespace_of<'a>(subject: &'a Value, own: &'a str) -> &'a str {
    subject["namespace"].as_str().filter(|namespace| !namespace.is_empty()).unwrap_or(own)
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
    fn only_bindings_of_the_user_are_looked_at() {
        let bound = |namespace: &str, name: &str, subjects: Value| BoundRules {
            binding: json!({"metadata": {"name": name, "namespace": namespace}, "subjects": subjects}),
            rules: Some(vec![json!({"verbs": [name]})].into()),
        };
        let user = |name: &str| json!({"kind": "User", "name": name});
        let group = |name: &str| json!({"kind": "Group", "name": name});
        let account =
            |namespace: &str, name: &str| json!({"kind": "ServiceAccount", "namespace": namespace, "name": name});
        let mut bindings = Bindings::default();
        for i in 0..2_000 {
            let others = json!([user(&format!("u{i}")), group(&format!("g{i}")), account("n", &format!("a{i}"))]);
            bindings.push(String::new(), bound("", "other", others.clone()));
            bindings.push("n".into(), bound("n", "other", others));
        }
        for (namespace, name, subjects) in [
            ("", "c-group", json!([group("x"), group("devs")])),
            ("", "c-user", json!([user("eve"), group("devs"), user("eve")])),
            ("", "c-account", json!([account("n", "bot")])),
            ("n", "n-user", json!([user("eve")])),
            ("n", "n-account-here", json!([account("", "bot")])),
            ("n", "n-account-there", json!([account("m", "bot")])),
            ("n", "n-user-named-as-a-group", json!([user("devs")])),
            ("n", "n-account-user", json!([user("system:serviceaccount:n:bot")])),
            ("m", "m-user", json!([user("eve")])),
        ] {
            bindings.push(namespace.into(), bound(namespace, name, subjects));
        }
        let eve = Identity::user("eve", &["devs"]);
        let bot = Identity::user("system:serviceaccount:n:bot", &["system:serviceaccounts"]);
        for (identity, namespace, want) in [
            (&eve, "n", vec!["c-group", "c-user", "n-user"]),
            (&eve, "m", vec!["c-group", "c-user", "m-user"]),
            (&eve, "", vec!["c-group", "c-user"]),
            (&bot, "n", vec!["c-account", "n-account-here", "n-account-user"]),
            (&Identity::user("nobody", &[]), "n", vec![]),
        ] {
            let name = |bound: &BoundRules| object::meta_str(&bound.binding, "name").to_owned();
            let looked_at: Vec<String> = bindings.applying(identity, namespace).map(name).collect();
            assert_eq!(looked_at, want, "{} in {namespace:?}", identity.user);
            let rules: Vec<&str> =
                bindings.rules(identity, namespace).map(|(_, _, rule)| strings(rule, "verbs")[0]).collect();
            assert_eq!(rules, want, "{} in {namespace:?}", identity.user);
        }
    }

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
