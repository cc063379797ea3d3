//! RBAC: the union of the rules of all bindings of a user (apiserver.md 20).

use ironclad_store::Query;
use serde_json::Value;

use crate::{Identity, Server, object, registry::Registry};

use super::Attributes;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Why a request is allowed; `None` when it isn't.
pub(crate) fn allowed(server: &Server, identity: &Identity, attributes: &Attributes<'_>) -> Option<String> {
    if identity.is_master() {
        return Some(String::new());
    }
    let mut found = None;
    for_each_rule(server, identity, attributes.namespace, |binding, rule| {
        if found.is_none() && covers(rule, attributes) {
            found = Some(reason(binding, identity));
        }
    });
    found
}

fn reason(binding: &Value, identity: &Identity) -> String {
    let kind = binding["kind"].as_str().unwrap_or_default();
    let name = match object::meta_str(binding, "namespace") {
        "" => object::meta_str(binding, "name").to_owned(),
        namespace => format!("{}/{namespace}", object::meta_str(binding, "name")),
    };
    let role = &binding["roleRef"];
    format!(
        "RBAC: allowed by {kind} {name:?} of {} {:?} to User {:?}",
        role["kind"].as_str().unwrap_or_default(),
        role["name"].as_str().unwrap_or_default(),
        identity.user
    )
}

/// Calls back with each rule that applies to a user: of cluster bindings, then of the namespace's.
pub(crate) fn for_each_rule(
    server: &Server,
    identity: &Identity,
    namespace: &str,
    mut each: impl FnMut(&Value, &Value),
) {
    for (plural, namespace) in
        [("clusterrolebindings", None), ("rolebindings", Some(namespace).filter(|n| !n.is_empty()))]
    {
        let Some(resource) = Registry::builtin(GROUP, plural) else { continue };
        if resource.namespaced && namespace.is_none() {
            continue;
        }
        let prefix = resource.prefix_of(namespace);
        let Ok(range) = server.store.range(&Query::prefix(&prefix)) else { continue };
        for (_, entry) in range.entries {
            let Ok(binding) = object::decode(&entry.value, entry.modified) else { continue };
            if !binds(&binding, identity) {
                continue;
            }
            let role = &binding["roleRef"];
            let name = role["name"].as_str().unwrap_or_default();
            let role = match role["kind"].as_str() {
                Some("ClusterRole") => server.builtin_object(GROUP, "clusterroles", "", name),
                Some("Role") => server.builtin_object(GROUP, "roles", namespace.unwrap_or_default(), name),
                _ => None,
            };
            let rules = role.as_ref().and_then(|r| r["rules"].as_array());
            rules.into_iter().flatten().for_each(|rule| each(&binding, rule));
        }
    }
}

fn binds(binding: &Value, identity: &Identity) -> bool {
    let own = object::meta_str(binding, "namespace");
    binding["subjects"].as_array().into_iter().flatten().any(|subject| {
        let name = subject["name"].as_str().unwrap_or_default();
        match subject["kind"].as_str() {
            Some("User") => name == identity.user,
            Some("Group") => identity.in_group(name),
            Some("ServiceAccount") => {
                let namespace = subject["namespace"].as_str().filter(|n| !n.is_empty()).unwrap_or(own);
                identity.user == format!("system:serviceaccount:{namespace}:{name}")
            }
            _ => false,
        }
    })
}

fn strings<'a>(rule: &'a Value, key: &str) -> Vec<&'a str> {
    rule[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// True when the rule covers what is asked.
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
