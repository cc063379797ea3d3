//! Match of a cluster with an affinity (specification/scheduling.md 4.1): policies, overrides, weights and taint
//! policies all ask this.

use ironclad_api::{
    NodeSelectorRequirement,
    cluster::Cluster,
    policy::{ClusterAffinity, FieldSelector},
    selector::{self, Operator},
};

/// Returns whether a cluster satisfies all parts of the affinity. An empty affinity selects every cluster, an invalid
/// selector none.
#[must_use]
pub fn chooses(affinity: &ClusterAffinity, cluster: &Cluster) -> bool {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let named = |names: &[String]| names.iter().any(|listed| listed == name);
    if named(&affinity.exclude) {
        return false;
    }
    if let Some(by_label) = affinity.label_selector.as_ref().filter(|s| !selector::is_empty(s)) {
        let none = std::collections::BTreeMap::new();
        let labels = cluster.metadata.labels.as_ref().unwrap_or(&none);
        if !selector::matches(by_label, labels).unwrap_or(false) {
            return false;
        }
    }
    affinity.field_selector.as_ref().is_none_or(|fields| fields_match(fields, cluster))
        && (affinity.cluster_names.is_empty() || named(&affinity.cluster_names))
}

fn fields_match(fields: &FieldSelector, cluster: &Cluster) -> bool {
    fields.match_expressions.iter().all(|requirement| match requirement.key.as_str() {
        "zone" => list_matches(requirement, zones(cluster)),
        "provider" => value_matches(requirement, &cluster.spec.provider),
        "region" => value_matches(requirement, &cluster.spec.region),
        _ => value_matches(requirement, ""),
    })
}

/// The zones of a cluster; an object older than admission may still name one in the deprecated field.
#[must_use]
pub fn zones(cluster: &Cluster) -> &[String] {
    let spec = &cluster.spec;
    if spec.zones.is_empty() && !spec.zone.is_empty() { std::slice::from_ref(&spec.zone) } else { &spec.zones }
}

fn list_matches(requirement: &NodeSelectorRequirement, zones: &[String]) -> bool {
    let listed = || values(requirement).iter().any(|value| zones.contains(value));
    match requirement.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => !zones.is_empty(),
        "DoesNotExist" => zones.is_empty(),
        _ => false,
    }
}

/// Matches a field of one value; an empty value counts as absent.
fn value_matches(requirement: &NodeSelectorRequirement, value: &str) -> bool {
    match Operator::from_expression(&requirement.operator) {
        None | Some(Operator::GreaterThan | Operator::LessThan) => false,
        Some(operator) => operator.matches((!value.is_empty()).then_some(value), values(requirement)),
    }
}

fn values(requirement: &NodeSelectorRequirement) -> &[String] {
    requirement.values.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use ironclad_api::{LabelSelector, LabelSelectorRequirement, cluster::ClusterSpec};

    use super::*;

    fn cluster() -> Cluster {
        let mut cluster = Cluster::new(
            "m1",
            ClusterSpec { provider: "acme".into(), zones: vec!["z1".into(), "z2".into()], ..ClusterSpec::default() },
        );
        cluster.metadata.labels = Some([("tier".to_owned(), "gold".to_owned())].into());
        cluster
    }

    fn field(key: &str, operator: &str, values: &[&str]) -> ClusterAffinity {
        let requirement = NodeSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(|v| (*v).to_owned()).collect()),
        };
        ClusterAffinity {
            field_selector: Some(FieldSelector { match_expressions: vec![requirement] }),
            ..ClusterAffinity::default()
        }
    }

    fn label(key: &str, operator: &str, values: &[&str]) -> ClusterAffinity {
        let requirement = LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(|v| (*v).to_owned()).collect()),
        };
        let selector = LabelSelector { match_expressions: Some(vec![requirement]), match_labels: None };
        ClusterAffinity { label_selector: Some(selector), ..ClusterAffinity::default() }
    }

    fn names(names: &[&str]) -> ClusterAffinity {
        let names = names.iter().map(|n| (*n).to_owned()).collect();
        ClusterAffinity { cluster_names: names, ..ClusterAffinity::default() }
    }

    #[test]
    fn choices() {
        for (name, affinity, want) in [
            ("nothing given chooses every cluster", ClusterAffinity::default(), true),
            ("named", names(&["m0", "m1"]), true),
            ("not named", names(&["m0"]), false),
            ("excluded, though named", ClusterAffinity { exclude: vec!["m1".into()], ..names(&["m1"]) }, false),
            (
                "an empty label selector does not filter",
                ClusterAffinity { label_selector: Some(LabelSelector::default()), ..names(&[]) },
                true,
            ),
            ("label In", label("tier", "In", &["gold"]), true),
            ("label NotIn", label("tier", "NotIn", &["gold"]), false),
            ("an invalid label selector chooses nothing", label("tier", "Near", &["gold"]), false),
            (
                "labels and names must both hold",
                ClusterAffinity { cluster_names: vec!["m0".into()], ..label("tier", "In", &["gold"]) },
                false,
            ),
            ("zone In: one overlap is enough", field("zone", "In", &["z2", "z9"]), true),
            ("zone In: no overlap", field("zone", "In", &["z9"]), false),
            ("zone NotIn: overlap", field("zone", "NotIn", &["z2"]), false),
            ("zone NotIn: no overlap", field("zone", "NotIn", &["z9"]), true),
            ("zone Exists", field("zone", "Exists", &[]), true),
            ("zone DoesNotExist", field("zone", "DoesNotExist", &[]), false),
            ("zone with another operator", field("zone", "Gt", &["1"]), false),
            ("provider In", field("provider", "In", &["acme"]), true),
            ("provider NotIn", field("provider", "NotIn", &["acme"]), false),
            ("region In, but it has none", field("region", "In", &["eu"]), false),
            ("region NotIn matches a cluster without one", field("region", "NotIn", &["eu"]), true),
            ("region In with an empty value matches nothing", field("region", "In", &[""]), false),
            ("an unknown field is absent", field("flavour", "Exists", &[]), false),
        ] {
            assert_eq!(chooses(&affinity, &cluster()), want, "{name}");
        }
    }

    #[test]
    fn no_zones_at_all() {
        let bare = Cluster::new("m1", ClusterSpec::default());
        assert!(!chooses(&field("zone", "In", &["z1"]), &bare));
        assert!(chooses(&field("zone", "NotIn", &["z1"]), &bare));
        let old = Cluster::new("m1", ClusterSpec { zone: "z1".into(), ..ClusterSpec::default() });
        assert!(chooses(&field("zone", "In", &["z1"]), &old), "the deprecated field counts where zones are empty");
    }
}
