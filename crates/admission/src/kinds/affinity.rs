//! Cluster affinities and resource selectors of a policy (specification/admission.md 2.3, 2.7).

use ironclad_api::policy::{ClusterAffinity, FieldSelector, ResourceSelector};
use ironclad_patch::names;

use crate::field::{Findings, Path};

/// The fields of a Cluster that a field selector knows.
const FIELDS: [&str; 3] = ["provider", "region", "zone"];

/// Validates a cluster affinity.
pub(crate) fn affinity(affinity: &ClusterAffinity, path: &Path, out: &mut Findings) {
    if let Some(selector) = &affinity.field_selector {
        field_selector(selector, &path.child("fieldSelector"), out);
    }
    if let Some(name) = affinity.cluster_names.iter().find(|name| affinity.exclude.contains(name)) {
        out.warn(format!("{path}: cluster {name} is both in clusterNames and in exclude: exclude wins"));
    }
}

fn field_selector(selector: &FieldSelector, path: &Path, out: &mut Findings) {
    for expression in &selector.match_expressions {
        if !FIELDS.contains(&expression.key.as_str()) {
            let detail = format!("unsupported key {:?}, must be provider, region, or zone", expression.key);
            return out.invalid(path, selector, &detail);
        }
        if !["In", "NotIn"].contains(&expression.operator.as_str()) {
            let detail = format!("unsupported operator {:?}, must be In or NotIn", expression.operator);
            return out.invalid(path, selector, &detail);
        }
    }
}

/// Returns true if the affinity selects nothing in particular, so that it selects every cluster.
pub(crate) fn is_empty(affinity: &ClusterAffinity) -> bool {
    affinity.label_selector.is_none()
        && affinity.field_selector.is_none()
        && affinity.cluster_names.is_empty()
        && affinity.exclude.is_empty()
}

/// Validates a name that becomes a label key: of an affinity, a label or a group.
pub(crate) fn label_key(path: impl Into<String>, value: &str, out: &mut Findings) {
    out.texts(path, value, names::label_key(value));
}

/// A namespaced policy selects templates of its own namespace only.
pub(crate) fn own_namespace(selectors: &[ResourceSelector], namespace: &str, path: &Path, out: &mut Findings) {
    for (i, selector) in selectors.iter().enumerate() {
        if !selector.namespace.is_empty() && selector.namespace != namespace {
            let detail = format!("must be the policy's own namespace {namespace:?}; a cluster policy reaches others");
            out.insecure(path.index(i).child("namespace"), &selector.namespace, &detail);
        }
    }
}
