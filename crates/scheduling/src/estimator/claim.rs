//! Nodes that a pod may run on: node selector, required node affinity and tolerations (specification/scheduling.md
//! 10.6).

use std::collections::BTreeMap;

use ironclad_api::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration, taints::NO_EXECUTE,
    taints::NO_SCHEDULE, work::NodeClaim,
};
use ironclad_fleet::taint::tolerates;

/// Taint of a node with `spec.unschedulable`.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// The only field that an affinity may name.
const NAME_FIELD: &str = "metadata.name";

/// Fields of a node that decide which pods it admits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeFacts<'a> {
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.labels`.
    pub labels: &'a BTreeMap<String, String>,
    /// `spec.taints`.
    pub taints: &'a [Taint],
    /// `spec.unschedulable`.
    pub unschedulable: bool,
}

/// Requirements of a pod on its node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Claim {
    selector: BTreeMap<String, String>,
    affinity: Option<NodeSelector>,
    tolerations: Vec<Toleration>,
}

impl From<Option<&NodeClaim>> for Claim {
    fn from(claim: Option<&NodeClaim>) -> Self {
        claim.map_or_else(Self::default, |claim| Self {
            selector: claim.node_selector.clone(),
            affinity: claim.hard_node_affinity.clone(),
            tolerations: claim.tolerations.clone(),
        })
    }
}

impl Claim {
    /// Returns whether the node admits a pod with this claim.
    #[must_use]
    pub fn admits(&self, node: NodeFacts<'_>) -> bool {
        self.selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
            && self
                .affinity
                .as_ref()
                .is_none_or(|affinity| affinity.node_selector_terms.iter().any(|term| matches_term(term, node)))
            && self.tolerates(node)
    }

    fn tolerates(&self, node: NodeFacts<'_>) -> bool {
        let tolerated = |taint: &Taint| self.tolerations.iter().any(|toleration| tolerates(toleration, taint));
        let repels = |taint: &&Taint| [NO_SCHEDULE, NO_EXECUTE].contains(&taint.effect.as_str());
        let cordon = || Taint { key: UNSCHEDULABLE.to_owned(), effect: NO_SCHEDULE.to_owned(), ..Taint::default() };
        node.taints.iter().filter(repels).all(tolerated) && (!node.unschedulable || tolerated(&cordon()))
    }
}

/// Matches if all requirements of the term do. A term without requirements matches no node.
fn matches_term(term: &NodeSelectorTerm, node: NodeFacts<'_>) -> bool {
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if labels.is_empty() && fields.is_empty() {
        return false;
    }
    let field = |requirement: &NodeSelectorRequirement| {
        let value = (requirement.key == NAME_FIELD).then_some(node.name);
        value.is_some() && ["In", "NotIn"].contains(&requirement.operator.as_str()) && meets(requirement, value)
    };
    labels.iter().all(|requirement| meets(requirement, node.labels.get(&requirement.key).map(String::as_str)))
        && fields.iter().all(field)
}

/// Matches one value. An operator that Kubernetes does not have matches no node.
fn meets(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = || value.is_some_and(|value| values.iter().any(|other| other == value));
    let number = |text: &str| text.parse::<i64>().ok();
    let bound = || match values {
        [one] => number(one),
        _ => None,
    };
    match requirement.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => value.and_then(number).zip(bound()).is_some_and(|(value, bound)| value > bound),
        "Lt" => value.and_then(number).zip(bound()).is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn admits(claim: Value, labels: Value, taints: Value, unschedulable: bool) -> bool {
        let claim: NodeClaim = serde_json::from_value(claim).unwrap();
        let (labels, taints): (BTreeMap<_, _>, Vec<_>) =
            (serde_json::from_value(labels).unwrap(), serde_json::from_value(taints).unwrap());
        Claim::from(Some(&claim)).admits(NodeFacts { name: "n1", labels: &labels, taints: &taints, unschedulable })
    }

    fn term(requirements: Value) -> Value {
        json!({"hardNodeAffinity": {"nodeSelectorTerms": [{"matchExpressions": requirements}]}})
    }

    #[test]
    fn labels_decide() {
        let one = |key: &str, operator: &str, values: &[&str]| {
            term(json!([{"key": key, "operator": operator, "values": values}]))
        };
        let labels = json!({"disk": "ssd", "gpus": "4"});
        for (name, claim, want) in [
            ("no claim", json!({}), true),
            ("its selector", json!({"nodeSelector": {"disk": "ssd"}}), true),
            ("another value", json!({"nodeSelector": {"disk": "hdd"}}), false),
            ("one of two labels", json!({"nodeSelector": {"disk": "ssd", "zone": "a"}}), false),
            ("In", one("disk", "In", &["hdd", "ssd"]), true),
            ("In without the label", one("zone", "In", &["a"]), false),
            ("NotIn", one("disk", "NotIn", &["ssd"]), false),
            ("NotIn without the label", one("zone", "NotIn", &["a"]), true),
            ("Exists", one("disk", "Exists", &[]), true),
            ("DoesNotExist", one("disk", "DoesNotExist", &[]), false),
            ("DoesNotExist without the label", one("zone", "DoesNotExist", &[]), true),
            ("Gt below the value", one("gpus", "Gt", &["3"]), true),
            ("Gt at the value", one("gpus", "Gt", &["4"]), false),
            ("Lt above the value", one("gpus", "Lt", &["5"]), true),
            ("Lt at the value", one("gpus", "Lt", &["4"]), false),
            ("Gt of a text", one("disk", "Gt", &["3"]), false),
            ("Gt with two bounds", one("gpus", "Gt", &["1", "2"]), false),
            ("an unknown operator", one("disk", "Near", &["ssd"]), false),
            (
                "all requirements of a term",
                term(json!([{"key": "disk", "operator": "Exists"}, {"key": "zone", "operator": "Exists"}])),
                false,
            ),
            (
                "one of the terms",
                json!({"hardNodeAffinity": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
                    {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]}}),
                true,
            ),
            ("no term", json!({"hardNodeAffinity": {"nodeSelectorTerms": []}}), false),
            ("an empty term", json!({"hardNodeAffinity": {"nodeSelectorTerms": [{}]}}), false),
            (
                "the name",
                json!({"hardNodeAffinity": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}),
                true,
            ),
            (
                "another name",
                json!({"hardNodeAffinity": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}]}}),
                false,
            ),
            (
                "a field that no affinity may name",
                json!({"hardNodeAffinity": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.uid", "operator": "NotIn", "values": ["n1"]}]}]}}),
                false,
            ),
        ] {
            assert_eq!(admits(claim, labels.clone(), json!([]), false), want, "{name}");
        }
    }

    #[test]
    fn taints_repel() {
        let taint = |effect: &str| json!([{"key": "team", "value": "a", "effect": effect}]);
        let tolerating = |toleration: Value| json!({"tolerations": [toleration]});
        let exists = json!({"key": "team", "operator": "Exists"});
        for (name, claim, taints, unschedulable, want) in [
            ("NoSchedule", json!({}), taint("NoSchedule"), false, false),
            ("NoExecute", json!({}), taint("NoExecute"), false, false),
            ("PreferNoSchedule", json!({}), taint("PreferNoSchedule"), false, true),
            ("tolerated", tolerating(exists.clone()), taint("NoSchedule"), false, true),
            ("another value", tolerating(json!({"key": "team", "value": "b"})), taint("NoSchedule"), false, false),
            (
                "another effect",
                tolerating(json!({"key": "team", "operator": "Exists", "effect": "NoExecute"})),
                taint("NoSchedule"),
                false,
                false,
            ),
            ("cordoned", json!({}), json!([]), true, false),
            ("cordoned, everything tolerated", tolerating(json!({"operator": "Exists"})), json!([]), true, true),
            (
                "cordoned, that tolerated",
                tolerating(json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"})),
                json!([]),
                true,
                true,
            ),
            ("cordoned, something else tolerated", tolerating(exists), json!([]), true, false),
        ] {
            assert_eq!(admits(claim, json!({}), taints, unschedulable), want, "{name}");
        }
    }
}
