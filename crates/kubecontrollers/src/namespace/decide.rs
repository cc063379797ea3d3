//! Conditions of a terminating namespace, and the decision to finalize it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Namespace, NamespaceCondition},
    apimachinery::pkg::apis::meta::v1::Time,
};

/// Finalizer in `spec.finalizers` that this controller removes.
pub(crate) const FINALIZER: &str = "kubernetes";

/// Remaining contents that one pass over the namespace's kinds found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RemainingContents {
    /// Number of objects by `plural.group`.
    pub(crate) objects: BTreeMap<String, usize>,
    /// Number of objects by finalizer.
    pub(crate) finalizers: BTreeMap<String, usize>,
    pub(crate) failure: Option<String>,
}

impl RemainingContents {
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.failure.is_none()
    }
}

pub(crate) fn is_ours(namespace: &Namespace) -> bool {
    namespace.metadata.deletion_timestamp.is_some() && finalizers(namespace).any(|f| f == FINALIZER)
}

/// `spec.finalizers` without ours.
pub(crate) fn without_ours(namespace: &Namespace) -> Vec<String> {
    finalizers(namespace).filter(|f| *f != FINALIZER).map(str::to_owned).collect()
}

fn finalizers(namespace: &Namespace) -> impl Iterator<Item = &str> {
    namespace.spec.iter().flat_map(|s| s.finalizers.iter().flatten()).map(String::as_str)
}

/// Returns the conditions about the remaining contents, if they change.
pub(crate) fn conditions(
    namespace: &Namespace,
    left: &RemainingContents,
    now: Timestamp,
) -> Option<Vec<NamespaceCondition>> {
    let before = namespace.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let joined = |counts: &BTreeMap<String, usize>, middle: &str| {
        let each = counts.iter().map(|(what, n)| format!("{what} {middle} {n} resource instances"));
        each.collect::<Vec<_>>().join(", ")
    };
    let content = match &left.failure {
        None => {
            ("False", "ContentDeleted", "All content successfully deleted, may be waiting on finalization".to_owned())
        }
        Some(failure) => ("True", "ContentDeletionFailed", format!("Failed to delete all resource types: {failure}")),
    };
    let remaining = if left.objects.is_empty() {
        ("False", "ContentRemoved", "All content successfully removed".to_owned())
    } else {
        ("True", "SomeResourcesRemain", format!("Some resources are remaining: {}", joined(&left.objects, "has")))
    };
    let finalizers_remaining = if left.finalizers.is_empty() {
        ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished".to_owned())
    } else {
        let which = joined(&left.finalizers, "in");
        ("True", "SomeFinalizersRemain", format!("Some content in the namespace has finalizers remaining: {which}"))
    };
    let wanted = [
        (
            "NamespaceDeletionDiscoveryFailure",
            ("False", "ResourcesDiscovered", "All resources successfully discovered".to_owned()),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            ("False", "ParsedGroupVersions", "All legacy kube types successfully parsed".to_owned()),
        ),
        ("NamespaceDeletionContentFailure", content),
        ("NamespaceContentRemaining", remaining),
        ("NamespaceFinalizersRemaining", finalizers_remaining),
    ];
    let after: Vec<NamespaceCondition> = wanted
        .into_iter()
        .map(|(type_, (status, reason, message))| {
            let old = before.iter().find(|c| c.type_ == type_ && c.status == status);
            NamespaceCondition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(message),
                last_transition_time: old.and_then(|c| c.last_transition_time.clone()).or(Some(Time(now))),
            }
        })
        .collect();
    (after != before).then_some(after)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{NamespaceSpec, NamespaceStatus};

    use super::*;
    use crate::testkit::{at, meta};

    fn namespace(finalizers: &[&str], deleted: bool) -> Namespace {
        let mut namespace = Namespace { metadata: meta("n"), ..Namespace::default() };
        namespace.metadata.deletion_timestamp = deleted.then(|| Time(at(1)));
        let finalizers = finalizers.iter().map(|f| (*f).to_owned()).collect();
        namespace.spec = Some(NamespaceSpec { finalizers: Some(finalizers) });
        namespace
    }

    #[test]
    fn only_terminating_namespaces_with_the_finalizer_are_emptied() {
        for (name, finalizers, deleted, want) in [
            ("an active namespace is left alone", vec!["kubernetes"], false, false),
            ("a terminating namespace is emptied", vec!["kubernetes"], true, true),
            ("a namespace with only foreign finalizers is not emptied", vec!["x.io/y"], true, false),
        ] {
            assert_eq!(is_ours(&namespace(&finalizers, deleted)), want, "{name}");
        }
        assert_eq!(without_ours(&namespace(&["a.io/x", "kubernetes"], true)), ["a.io/x"]);
    }

    #[test]
    fn conditions_list_remaining_contents_once() {
        let counts = |list: &[(&str, usize)]| list.iter().map(|(k, n)| ((*k).to_owned(), *n)).collect();
        for (name, left, type_, want) in [
            (
                "objects remain",
                RemainingContents {
                    objects: counts(&[("configmaps.", 1), ("pods.", 2)]),
                    ..RemainingContents::default()
                },
                "NamespaceContentRemaining",
                "Some resources are remaining: configmaps. has 1 resource instances, pods. has 2 resource instances",
            ),
            (
                "objects have finalizers",
                RemainingContents { finalizers: counts(&[("a.io/x", 1)]), ..RemainingContents::default() },
                "NamespaceFinalizersRemaining",
                "Some content in the namespace has finalizers remaining: a.io/x in 1 resource instances",
            ),
            (
                "a deletion failed",
                RemainingContents { failure: Some("no".into()), ..RemainingContents::default() },
                "NamespaceDeletionContentFailure",
                "Failed to delete all resource types: no",
            ),
        ] {
            let mut seen = namespace(&["kubernetes"], true);
            let conditions = conditions(&seen, &left, at(5)).unwrap();
            let found = conditions.iter().find(|c| c.type_ == type_).unwrap();
            assert_eq!((found.status.as_str(), found.message.as_deref()), ("True", Some(want)), "{name}");
            seen.status = Some(NamespaceStatus { conditions: Some(conditions), phase: None });
            assert_eq!(super::conditions(&seen, &left, at(9)), None, "{name}: reported once");
        }
    }
}
