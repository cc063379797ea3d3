//! Cluster affinities and resource selectors of a policy (specification/admission.md 2.3, 2.7).

use ironclad_api::policy::{ClusterAffinity, FieldSelector, ResourceSelector};
use ironclad_patch::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::field::{Findings, Path};

/// The fields of a Cluster that a field selector knows.
const FIELDS: [&str; 3] = ["provider", "region", "zone"];

/// Validates a cluster affinity.
pub(crate) fn affinity(affinity: &ClusterAffinity, path: &Path, out: &mut Findings) {
    if let Some(selector) = &affinity.label_selector {
        label_selector(selector, &path.child("labelSelector"), out);
    }
    if let Some(selector) = &affinity.field_selector {
        field_selector(selector, &path.child("fieldSelector"), out);
    }
    if let Some(name) = affinity.cluster_names.iter().find(|name| affinity.exclude.contains(name)) {
        out.warn(format!("{path}: cluster {name} is both in clusterNames and in exclude: exclude wins"));
    }
}

fn field_selector(selector: &FieldSelector, path: &Path, out: &mut Findings) {
    for (i, expression) in selector.match_expressions.iter().enumerate() {
        if !FIELDS.contains(&expression.key.as_str()) {
            let detail = format!("unsupported key {:?}, must be provider, region, or zone", expression.key);
            return out.invalid(path, selector, &detail);
        }
        if !["In", "NotIn"].contains(&expression.operator.as_str()) {
            let detail = format!("unsupported operator {:?}, must be In or NotIn", expression.operator);
            return out.invalid(path, selector, &detail);
        }
        if expression.values.as_deref().unwrap_or_default().is_empty() {
            let at = path.child("matchExpressions").index(i).child("values");
            out.required(at, "without a value no cluster is selected by it: name at least one");
        }
    }
}

/// Validates a label selector as Kubernetes does. One that cannot be evaluated selects nothing, without a word.
pub(crate) fn label_selector(selector: &LabelSelector, path: &Path, out: &mut Findings) {
    let at = path.child("matchLabels");
    for (key, value) in selector.match_labels.iter().flatten() {
        out.texts(&at, key, names::label_key(key));
        out.texts(&at, value, names::label_value(value));
    }
    for (i, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        let at = path.child("matchExpressions").index(i);
        let values = requirement.values.as_deref().unwrap_or_default();
        out.texts(at.child("key"), &requirement.key, names::label_key(&requirement.key));
        match requirement.operator.as_str() {
            "In" | "NotIn" if values.is_empty() => {
                out.required(at.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                out.forbidden(at.child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "Exists" | "DoesNotExist" => {}
            other => out.invalid(at.child("operator"), other, "not a valid selector operator"),
        }
        for (j, value) in values.iter().enumerate() {
            out.texts(at.child("values").index(j), value, names::label_value(value));
        }
    }
}

/// Validates the kinds and labels of resource selectors.
pub(crate) fn resource_selectors(selectors: &[ResourceSelector], path: &Path, out: &mut Findings) {
    for (i, selector) in selectors.iter().enumerate() {
        let at = path.index(i);
        for (field, text) in [("apiVersion", &selector.api_version), ("kind", &selector.kind)] {
            if text.is_empty() {
                out.required(at.child(field), "");
            } else if text.contains('*') {
                out.invalid(at.child(field), text, "must name one kind: patterns are not possible");
            }
        }
        if let Some(labels) = &selector.label_selector {
            label_selector(labels, &at.child("labelSelector"), out);
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
