//! RBAC escalation check: nobody may grant rights they lack (specification/apiserver.md 20).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{Identity, context::Cx, object, state::State, status::ApiError};

use super::{
    allowed,
    rbac::{self, Attributes, GROUP, strings},
};

/// Refuses a role or binding that grants more than its writer has. `old` is absent for a new one.
pub(crate) fn check(cx: &Cx, old: Option<&Value>, new: &Value) -> Result<(), ApiError> {
    if cx.identity.is_master() {
        return Ok(());
    }
    // A label can make rules part of an aggregated role, so all changes count but those that let objects be deleted.
    if old.is_some_and(|old| changes_owners_only(old, new)) {
        return Ok(());
    }
    match cx.resource.plural.as_str() {
        "roles" | "clusterroles" => role(cx, old, new),
        "rolebindings" | "clusterrolebindings" => binding(cx, new),
        _ => Ok(()),
    }
}

/// True for a change of nothing but owners, finalizers and managers of fields.
fn changes_owners_only(old: &Value, new: &Value) -> bool {
    const FREE: [&str; 3] = ["ownerReferences", "finalizers", "managedFields"];
    let rest = |object: &Value| {
        let mut rest = object.clone();
        FREE.iter().for_each(|key| drop(object::metadata_mut(&mut rest).remove(*key)));
        rest
    };
    rest(old) == rest(new)
}

fn rules(value: &Value) -> Vec<Value> {
    value["rules"].as_array().cloned().unwrap_or_default()
}

fn may(cx: &Cx, verb: &str, resource: &str, name: &str) -> bool {
    let namespace = cx.namespace().unwrap_or_default();
    let attributes = Attributes { verb, group: GROUP, resource, subresource: "", namespace, name, path: "" };
    allowed(&cx.state, &cx.identity, &attributes).is_ok()
}

fn role(cx: &Cx, old: Option<&Value>, new: &Value) -> Result<(), ApiError> {
    let name = object::meta_str(new, "name");
    if may(cx, "escalate", &cx.resource.plural, name) {
        return Ok(());
    }
    let refused = |why: &str| ApiError::forbidden(&cx.resource.plural, GROUP, name, why);
    if let Some(why) = beyond(&cx.state, &cx.identity, cx.namespace().unwrap_or_default(), &rules(new)) {
        return Err(refused(&why));
    }
    // The rules of roles that are labelled later become part of an aggregated role.
    let all = [
        json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
        json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
    ];
    let aggregated = [Some(new), old].into_iter().flatten().any(|role| !role["aggregationRule"].is_null());
    if aggregated && beyond(&cx.state, &cx.identity, "", &all).is_some() {
        return Err(refused("must have cluster-admin privileges to use the aggregationRule"));
    }
    Ok(())
}

fn binding(cx: &Cx, new: &Value) -> Result<(), ApiError> {
    let name = object::meta_str(new, "name");
    let text = |key: &str| new["roleRef"][key].as_str().unwrap_or_default();
    let plural = if text("kind") == "Role" { "roles" } else { "clusterroles" };
    if may(cx, "bind", plural, text("name")) {
        return Ok(());
    }
    let namespace = cx.namespace().unwrap_or_default();
    let of = if plural == "roles" { namespace } else { "" };
    let Some(role) = cx.state.builtin_object(GROUP, plural, of, text("name")) else {
        return Err(ApiError::not_found(&cx.resource.plural, GROUP, text("name")));
    };
    match beyond(&cx.state, &cx.identity, namespace, &rules(&role)) {
        Some(why) => Err(ApiError::forbidden(&cx.resource.plural, GROUP, name, &why)),
        None => Ok(()),
    }
}

/// A message naming the rights in these rules that a user lacks in a namespace (empty: everywhere); `None` without any.
fn beyond(state: &State, identity: &Identity, namespace: &str, wanted: &[Value]) -> Option<String> {
    let mut own = Vec::new();
    let bindings = state.bindings();
    rbac::for_each_rule(&bindings, identity, namespace, |_, _, rule| own.push(rule.clone()));
    let missing = uncovered(&own, wanted);
    if missing.is_empty() {
        return None;
    }
    let texts: BTreeSet<String> = compact(missing).iter().map(shown).collect();
    let texts: Vec<String> = texts.into_iter().collect();
    let mut out = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        identity.user,
        quoted(&identity.groups),
        texts.join("\n")
    );
    if let Some(errors) = bindings.missing_roles(identity, namespace) {
        out.push_str(&format!("; resolution errors: [{errors}]"));
    }
    Some(out)
}

/// The single rights of `wanted` that no rule of `own` covers.
pub(super) fn uncovered(own: &[Value], wanted: &[Value]) -> Vec<Value> {
    wanted.iter().flat_map(single).filter(|one| !own.iter().any(|rule| covers(rule, one))).collect()
}

/// A rule as rules of one verb on one resource or path each.
fn single(rule: &Value) -> Vec<Value> {
    let verbs = strings(rule, "verbs");
    let mut out = Vec::new();
    for group in strings(rule, "apiGroups") {
        for resource in strings(rule, "resources") {
            for verb in &verbs {
                let one = json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]});
                match strings(rule, "resourceNames").as_slice() {
                    [] => out.push(one),
                    names => out.extend(names.iter().map(|name| {
                        let mut named = one.clone();
                        named["resourceNames"] = json!([name]);
                        named
                    })),
                }
            }
        }
    }
    for path in strings(rule, "nonResourceURLs") {
        out.extend(verbs.iter().map(|verb| json!({"nonResourceURLs": [path], "verbs": [verb]})));
    }
    out
}

/// True when a rule allows all that a single one allows.
fn covers(rule: &Value, one: &Value) -> bool {
    let all = |key: &str, fits: &dyn Fn(&str, &str) -> bool| {
        strings(one, key).iter().all(|wanted| strings(rule, key).iter().any(|has| *has == "*" || fits(has, wanted)))
    };
    let same = |has: &str, wanted: &str| has == wanted;
    let resource = |has: &str, wanted: &str| {
        has == wanted
            || wanted.split_once('/').is_some_and(|(_, sub)| has.strip_prefix("*/").is_some_and(|of| of == sub))
    };
    let path =
        |has: &str, wanted: &str| has == wanted || has.strip_suffix('*').is_some_and(|of| wanted.starts_with(of));
    let names = strings(rule, "resourceNames");
    let wanted = strings(one, "resourceNames");
    let named = names.is_empty() || (!wanted.is_empty() && wanted.iter().all(|name| names.contains(name)));
    all("verbs", &same)
        && all("apiGroups", &same)
        && all("resources", &resource)
        && all("nonResourceURLs", &path)
        && named
}

/// Single rules about the same thing as one rule with all their verbs.
fn compact(rules: Vec<Value>) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    let mut at: BTreeMap<String, usize> = BTreeMap::new();
    for rule in rules {
        if !strings(&rule, "nonResourceURLs").is_empty() {
            out.push(rule);
            continue;
        }
        let about = format!("{} {} {}", rule["apiGroups"], rule["resources"], rule["resourceNames"]);
        match at.get(&about) {
            Some(at) => {
                let verbs = rule["verbs"].as_array().cloned().unwrap_or_default();
                if let Some(list) = out[*at]["verbs"].as_array_mut() {
                    list.extend(verbs);
                }
            }
            None => {
                at.insert(about, out.len());
                out.push(rule);
            }
        }
    }
    out
}

fn quoted(list: &[impl AsRef<str>]) -> String {
    let quoted: Vec<String> = list.iter().map(|text| format!("{:?}", text.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}

/// A rule as Kubernetes prints it: `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`.
fn shown(rule: &Value) -> String {
    let fields = [
        ("APIGroups", "apiGroups"),
        ("Resources", "resources"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("ResourceNames", "resourceNames"),
        ("Verbs", "verbs"),
    ];
    let parts: Vec<String> = fields
        .iter()
        .map(|(name, key)| (name, strings(rule, key)))
        .filter(|(_, list)| !list.is_empty())
        .map(|(name, list)| format!("{name}:{}", quoted(&list)))
        .collect();
    format!("{{{}}}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(groups: &[&str], resources: &[&str], names: &[&str], verbs: &[&str]) -> Value {
        json!({"apiGroups": groups, "resources": resources, "resourceNames": names, "verbs": verbs})
    }

    #[test]
    fn rights_beyond_ones_own_are_found() {
        let path = |path: &str| json!({"nonResourceURLs": [path], "verbs": ["get"]});
        for (name, own, wanted, want) in [
            ("the same", vec![rule(&[""], &["pods"], &[], &["get"])], rule(&[""], &["pods"], &[], &["get"]), ""),
            (
                "one verb more",
                vec![rule(&[""], &["pods"], &[], &["get"])],
                rule(&[""], &["pods"], &[], &["get", "list", "watch"]),
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#,
            ),
            (
                "two rules together",
                vec![rule(&[""], &["pods"], &[], &["get"]), rule(&[""], &["pods"], &[], &["list"])],
                rule(&[""], &["pods"], &[], &["get", "list"]),
                "",
            ),
            ("everything", vec![rule(&["*"], &["*"], &[], &["*"])], rule(&["a"], &["b/c"], &["d"], &["e"]), ""),
            (
                "a subresource of all",
                vec![rule(&[""], &["*/scale"], &[], &["get"])],
                rule(&[""], &["b/scale"], &[], &["get"]),
                "",
            ),
            (
                "a resource is not its subresource",
                vec![rule(&[""], &["pods"], &[], &["get"])],
                rule(&[""], &["pods/log"], &[], &["get"]),
                r#"{APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}"#,
            ),
            (
                "one name is not all",
                vec![rule(&[""], &["pods"], &["a"], &["get"])],
                rule(&[""], &["pods"], &[], &["get"]),
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#,
            ),
            (
                "another name",
                vec![rule(&[""], &["pods"], &["a"], &["get"])],
                rule(&[""], &["pods"], &["a", "b"], &["get"]),
                r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}"#,
            ),
            (
                "all names hold one",
                vec![rule(&[""], &["pods"], &[], &["get"])],
                rule(&[""], &["pods"], &["a"], &["get"]),
                "",
            ),
            ("a path", vec![path("/a/*")], path("/a/b"), ""),
            ("another path", vec![path("/a/*")], path("/b"), r#"{NonResourceURLs:["/b"], Verbs:["get"]}"#),
        ] {
            let texts: Vec<String> = compact(uncovered(&own, &[wanted])).iter().map(shown).collect();
            assert_eq!(texts.join("; "), want, "{name}");
        }
    }
}
