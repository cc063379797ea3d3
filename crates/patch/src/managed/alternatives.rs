//! Fields of built-in kinds that exclude each other: a server takes one of them, and none of their schemas says so.

use serde_json::{Map, Value};

use super::{
    path::Element,
    set::Set,
    typed::{Ref, Shape},
};

type Members = Map<String, Value>;

/// Alternatives in an object, by the name of what has the object.
const ALTERNATIVES: [(&[&str], &[&str]); 5] = [
    (
        &["livenessProbe", "readinessProbe", "startupProbe", "postStart", "preStop"],
        &["exec", "grpc", "httpGet", "sleep", "tcpSocket"],
    ),
    (&["env"], &["value", "valueFrom"]),
    (&["valueFrom"], &["configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"]),
    // Of an Ingress, and of a PodDisruptionBudget. Other alternatives are in lists that are replaced.
    (&["defaultBackend"], &["resource", "service"]),
    (&["spec"], &["maxUnavailable", "minAvailable"]),
];
/// Objects whose field `type` says which others they may have.
const TYPED: [&str; 2] = ["strategy", "updateStrategy"];
const TYPE: &str = "type";

/// The fields of an object that `content` excludes, as it has another alternative. What it has itself stays.
pub(super) fn excluded(of: Ref<'_>, content: &Value, object: Option<&Value>, parent: &str) -> Set {
    let mut out = Set::default();
    match (of.shape(Some(content)), content) {
        (Shape::Map(map), Value::Object(ours)) if !map.atomic => {
            let theirs = object.and_then(Value::as_object);
            let others = theirs.into_iter().flat_map(|theirs| theirs.keys().map(move |name| (theirs, name)));
            for (theirs, name) in others.filter(|(_, name)| map.is_field(name) && !has(ours, name)) {
                if excludes(parent, ours, theirs, name) {
                    out.members.insert(Element::field(name));
                }
            }
            for (name, member) in ours {
                let Some(below) = map.member(name) else { continue };
                let element = Element::field(name);
                let set = excluded(below, member, of.find(object, &element), name);
                add(&mut out, element, set);
            }
        }
        (Shape::List(list), Value::Array(items)) => {
            for item in items {
                let Ok(element) = list.element(item) else { continue };
                let set = excluded(list.item, item, of.find(object, &element), parent);
                add(&mut out, element, set);
            }
        }
        _ => {}
    }
    out
}

fn add(out: &mut Set, element: Element, below: Set) {
    if !below.is_empty() {
        out.children.insert(element, below);
    }
}

/// Decides whether `ours` leaves no place for a field of `theirs` that it does not have.
fn excludes(parent: &str, ours: &Members, theirs: &Members, name: &str) -> bool {
    if TYPED.contains(&parent) {
        return has(ours, TYPE) && ours.get(TYPE) != theirs.get(TYPE);
    }
    is_alternative(parent, name) && ours.keys().any(|other| is_alternative(parent, other) && has(ours, other))
}

fn is_alternative(parent: &str, name: &str) -> bool {
    match parent {
        // All fields of a volume but its name are sources.
        "volumes" => name != "name",
        parent => ALTERNATIVES.iter().any(|(parents, names)| parents.contains(&parent) && names.contains(&name)),
    }
}

fn has(members: &Members, name: &str) -> bool {
    members.get(name).is_some_and(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, sample::select};
    use serde_json::json;

    use super::*;
    use crate::managed::ThreeWay;

    fn merged(kind: (&str, &str, &str), content: &Value, live: &Value) -> Value {
        let of = ThreeWay::of(kind.0, kind.1, kind.2);
        let now = of.record(content, |_, _, _| false);
        of.merge(&of.without(live, &now, &now), content, &now, &now)
    }

    const DEPLOYMENT: (&str, &str, &str) = ("apps", "v1", "Deployment");

    #[test]
    fn one_alternative_is_left() {
        let pod = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
        let of_container = |fields: Value| {
            let mut container = json!({"name": "c"});
            container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            pod(json!({"containers": [container]}))
        };
        let volume = |source: &str| pod(json!({"volumes": [{"name": "v", source: {}}, {"name": "w", "nfs": {}}]}));
        let env = |fields: Value| {
            let mut variable = json!({"name": "A"});
            variable.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            of_container(json!({"env": [variable]}))
        };
        let strategy = |strategy: Value| json!({"spec": {"strategy": strategy}});
        let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}});
        for (name, content, live, want) in [
            ("a volume's source", volume("secret"), volume("emptyDir"), volume("secret")),
            ("the same source", volume("secret"), volume("secret"), volume("secret")),
            (
                "a probe's handler, and what others set beside it",
                of_container(json!({"livenessProbe": {"httpGet": {"port": 80}}})),
                of_container(json!({"livenessProbe": {"exec": {"command": ["x"]}, "periodSeconds": 3}})),
                of_container(json!({"livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 3}})),
            ),
            (
                "a probe without a handler of ours",
                of_container(json!({"livenessProbe": {"periodSeconds": 3}})),
                of_container(json!({"livenessProbe": {"exec": {"command": ["x"]}}})),
                of_container(json!({"livenessProbe": {"exec": {"command": ["x"]}, "periodSeconds": 3}})),
            ),
            (
                "a hook",
                of_container(json!({"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}})),
                of_container(json!({"lifecycle": {"preStop": {"exec": {}}, "postStart": {"exec": {}}}})),
                of_container(json!({"lifecycle": {"preStop": {"sleep": {"seconds": 1}}, "postStart": {"exec": {}}}})),
            ),
            (
                "a variable's value",
                env(json!({"value": "1"})),
                env(json!({"valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}})),
                env(json!({"value": "1"})),
            ),
            (
                "where a value is from",
                env(json!({"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}})),
                env(json!({"valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}})),
                env(json!({"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}})),
            ),
            (
                "a type without what the other type has",
                strategy(json!({"type": "Recreate"})),
                strategy(rolling.clone()),
                strategy(json!({"type": "Recreate"})),
            ),
            (
                "of the same type what others set stays",
                strategy(json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}})),
                strategy(rolling),
                strategy(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 2}})),
            ),
        ] {
            assert_eq!(merged(DEPLOYMENT, &content, &live), want, "{name}");
        }
        let budget = |field: &str| json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, field: 1}});
        let (min, max) = (budget("minAvailable"), budget("maxUnavailable"));
        assert_eq!(merged(("policy", "v1", "PodDisruptionBudget"), &min, &max), min);
        // Of custom kinds nothing is known.
        let both = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "minAvailable": 1, "maxUnavailable": 1}});
        assert_eq!(merged(("x.io", "v1", "X"), &min, &max), both);
    }

    proptest! {
        /// Whatever others chose, the template's alternative is left alone, and theirs where it chose none.
        #[test]
        fn the_templates_alternative_wins(
            ours in select(vec!["", "emptyDir", "secret", "configMap", "csi", "nfs"]),
            theirs in select(vec!["", "emptyDir", "secret", "configMap", "csi", "nfs"]),
        ) {
            let volume = |source: &str| {
                let mut volume = json!({"name": "v"});
                if !source.is_empty() {
                    volume[source] = json!({});
                }
                json!({"spec": {"template": {"spec": {"volumes": [volume]}}}})
            };
            let got = merged(DEPLOYMENT, &volume(ours), &volume(theirs));
            let want = if ours.is_empty() { theirs } else { ours };
            prop_assert_eq!(got, volume(want));
        }
    }
}
