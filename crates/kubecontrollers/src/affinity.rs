//! Node selectors, node affinity, taints and tolerations.

use std::collections::BTreeMap;

use ironclad_patch::selector::Operator;
use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration};

/// The taint that a cordoned node has in effect.
pub fn unschedulable_taint() -> Taint {
    Taint { key: "node.kubernetes.io/unschedulable".into(), effect: "NoSchedule".into(), ..Taint::default() }
}

/// Returns `true` if the toleration covers the taint.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |t: &Option<String>| t.clone().unwrap_or_default();
    let (effect, key) = (text(&toleration.effect), text(&toleration.key));
    if (!effect.is_empty() && effect != taint.effect) || (!key.is_empty() && key != taint.key) {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or("") {
        "Exists" => true,
        "" | "Equal" => !key.is_empty() && text(&toleration.value) == text(&taint.value),
        _ => false,
    }
}

/// The first taint of these effects that none of the tolerations covers.
pub fn untolerated<'a>(node: &'a Node, tolerations: &[Toleration], effects: &[&str]) -> Option<&'a Taint> {
    let taints = node.spec.as_ref().and_then(|n| n.taints.as_deref()).unwrap_or_default();
    let hard = taints.iter().filter(|t| effects.contains(&t.effect.as_str()));
    hard.into_iter().find(|taint| !tolerations.iter().any(|t| tolerates(t, taint)))
}

/// Returns `true` if the pod's node selector and required node affinity accept the node.
pub fn accepts(spec: &PodSpec, node: &Node) -> bool {
    let none = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&none);
    if !spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value)) {
        return false;
    }
    let required = spec
        .affinity
        .as_ref()
        .and_then(|a| a.node_affinity.as_ref())
        .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|selector| selector.node_selector_terms.iter().any(|term| matches_term(term, node)))
}

/// Returns `true` if all conditions of the term hold. A term without conditions matches nothing.
pub fn matches_term(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|l| l.get(key)).map(String::as_str);
    let field = |key: &str| if key == "metadata.name" { node.metadata.name.as_deref() } else { None };
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|r| holds(r, label(&r.key)))
        && fields.iter().all(|r| holds(r, field(&r.key)))
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    Operator::from_expression(&requirement.operator).is_some_and(|operator| operator.matches(value, values))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Affinity, NodeAffinity, NodeSelector};
    use kube::api::ObjectMeta;

    use super::*;

    #[test]
    fn tolerations() {
        let taint = Taint { key: "k".into(), value: Some("v".into()), effect: "NoSchedule".into(), ..Taint::default() };
        for (name, key, operator, value, effect, want) in [
            ("equal", "k", "Equal", "v", "NoSchedule", true),
            ("no operator means Equal", "k", "", "v", "", true),
            ("different value", "k", "Equal", "w", "", false),
            ("Exists matches any value", "k", "Exists", "", "", true),
            ("Exists without a key matches every taint", "", "Exists", "", "", true),
            ("different effect", "k", "Exists", "", "NoExecute", false),
            ("another key", "l", "Exists", "", "", false),
        ] {
            let some = |t: &str| (!t.is_empty()).then(|| t.to_owned());
            let toleration = Toleration {
                key: some(key),
                operator: some(operator),
                value: some(value),
                effect: some(effect),
                toleration_seconds: None,
            };
            assert_eq!(tolerates(&toleration, &taint), want, "{name}");
        }
    }

    #[test]
    fn affinity() {
        let labels = [("zone", "a"), ("cores", "8")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let n =
            Node { metadata: ObjectMeta { labels: Some(labels.into()), ..ObjectMeta::default() }, ..Node::default() };
        for (name, key, operator, values, want) in [
            ("in", "zone", "In", vec!["a", "b"], true),
            ("not in", "zone", "NotIn", vec!["a"], false),
            ("NotIn matches a node without the label", "x", "NotIn", vec!["a"], true),
            ("exists", "zone", "Exists", vec![], true),
            ("DoesNotExist", "zone", "DoesNotExist", vec![], false),
            ("greater", "cores", "Gt", vec!["7"], true),
            ("Gt excludes the value itself", "cores", "Gt", vec!["8"], false),
            ("less", "cores", "Lt", vec!["9"], true),
        ] {
            let term = NodeSelectorTerm {
                match_expressions: Some(vec![NodeSelectorRequirement {
                    key: key.into(),
                    operator: operator.into(),
                    values: Some(values.into_iter().map(str::to_owned).collect()),
                }]),
                match_fields: None,
            };
            let spec = PodSpec {
                affinity: Some(Affinity {
                    node_affinity: Some(NodeAffinity {
                        required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                            node_selector_terms: vec![NodeSelectorTerm::default(), term],
                        }),
                        ..NodeAffinity::default()
                    }),
                    ..Affinity::default()
                }),
                ..PodSpec::default()
            };
            assert_eq!(accepts(&spec, &n), want, "{name}");
        }
    }
}
