//! ReplicaSets of a Deployment: selection of the new one, names, and revision numbers.

use std::{cmp::Reverse, collections::BTreeMap};

use k8s_openapi::{
    api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::api::ObjectMeta;

use super::strategy::Strategy;
use crate::{
    owner::controller_reference,
    pods::labels,
    template::{HASH_LABEL, hash, same_template},
};

/// Annotation with the revision of a ReplicaSet or Deployment.
pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Annotation with the earlier revisions of a set that was rolled back to.
pub(crate) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// `spec.replicas` of the Deployment when it last scaled the set.
pub(crate) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// Maximum number of pods (replicas and surge) at that time.
pub(crate) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of a Deployment that are not copied to its sets.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];
/// Bytes of the annotation that lists earlier revisions.
const HISTORY_BYTES_MAX: usize = 2_000;
const NAME_BYTES_MAX: usize = 253;

/// Returns the position of the ReplicaSet with the Deployment's template; of several the oldest.
pub(crate) fn new_set_among<'a>(
    deployment: &Deployment,
    sets: impl Iterator<Item = &'a ReplicaSet>,
) -> Option<&'a ReplicaSet> {
    let spec = deployment.spec.as_ref()?;
    sets.filter(|s| s.spec.as_ref().and_then(|s| s.template.as_ref()).is_some_and(|t| same_template(t, &spec.template)))
        .min_by_key(|s| age_key(s))
}

/// Sort key: oldest first, ties by name.
pub(crate) fn age_key(set: &ReplicaSet) -> (Option<&Time>, &str) {
    (set.metadata.creation_timestamp.as_ref(), set.metadata.name.as_deref().unwrap_or(""))
}

/// Sort key: larger first, ties by age.
pub(crate) fn size_key(set: &ReplicaSet, newer_first: bool) -> impl Ord + use<> {
    let seconds = set.metadata.creation_timestamp.as_ref().map_or(0, |t| t.0.as_second());
    let age = if newer_first { -seconds } else { seconds };
    (Reverse(crate::replicaset::wanted(set)), age, set.metadata.name.clone())
}

/// Returns the revision of the annotation, 0 without one.
pub(crate) fn revision_of(meta: &ObjectMeta) -> i64 {
    annotation(meta, REVISION).and_then(|r| r.parse().ok()).unwrap_or(0)
}

pub(crate) fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

pub(crate) fn number(meta: &ObjectMeta, key: &str) -> Option<i32> {
    annotation(meta, key)?.parse().ok()
}

/// Annotations that record a Deployment's size on a ReplicaSet.
pub(crate) fn size_annotations(strategy: &Strategy) -> BTreeMap<String, String> {
    BTreeMap::from([
        (DESIRED_REPLICAS.to_owned(), strategy.replicas.to_string()),
        (MAX_REPLICAS.to_owned(), strategy.most().to_string()),
    ])
}

/// Returns the annotations of the new ReplicaSet that differ from those it has.
pub(crate) fn new_set_annotations(
    deployment: &Deployment,
    set: Option<&ObjectMeta>,
    revision: i64,
) -> BTreeMap<String, String> {
    let mut wanted: BTreeMap<String, String> = deployment
        .metadata
        .annotations
        .iter()
        .flatten()
        .filter(|(k, _)| !NOT_COPIED.contains(&k.as_str()))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    let old = set.map_or(0, revision_of);
    if old < revision {
        wanted.insert(REVISION.to_owned(), revision.to_string());
        if let (Some(set), 1..) = (set, old) {
            wanted.insert(REVISION_HISTORY.to_owned(), history(annotation(set, REVISION_HISTORY), old));
        }
    }
    if let Some(has) = set.and_then(|s| s.annotations.as_ref()) {
        wanted.retain(|k, v| has.get(k) != Some(v));
    }
    wanted
}

fn history(before: Option<&str>, old: i64) -> String {
    let old = old.to_string();
    let mut revisions: Vec<&str> = before.unwrap_or("").split(',').filter(|r| !r.is_empty()).collect();
    revisions.push(&old);
    while revisions.iter().map(|r| r.len() + 1).sum::<usize>() > HISTORY_BYTES_MAX {
        revisions.remove(0);
    }
    revisions.join(",")
}

pub(crate) fn new_set(deployment: &Deployment, strategy: &Strategy, revision: i64, replicas: i32) -> ReplicaSet {
    let spec = deployment.spec.clone().unwrap_or_default();
    let collisions = deployment.status.as_ref().and_then(|s| s.collision_count).unwrap_or(0);
    let hash = hash(&spec.template, collisions);
    let mut template = spec.template;
    template
        .metadata
        .get_or_insert_default()
        .labels
        .get_or_insert_default()
        .insert(HASH_LABEL.to_owned(), hash.clone());
    let mut selector = spec.selector;
    selector.match_labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), hash.clone());
    let mut annotations = new_set_annotations(deployment, None, revision);
    annotations.extend(size_annotations(strategy));
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(set_name(deployment.metadata.name.as_deref().unwrap_or(""), &hash)),
            namespace: deployment.metadata.namespace.clone(),
            labels: template.metadata.as_ref().map(|m| labels(m).clone()),
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference("apps/v1", "Deployment", &deployment.metadata)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(replicas),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        status: None,
    }
}

fn set_name(deployment: &str, hash: &str) -> String {
    let mut end = deployment.len().min(NAME_BYTES_MAX - 1 - hash.len());
    while !deployment.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{hash}", &deployment[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::testkit::deployment;

    #[test]
    fn a_set_is_found_by_its_template_and_named_by_its_hash() {
        let d = deployment(3).build();
        let strategy = Strategy::of(&d);
        let set = new_set(&d, &strategy, 1, 3);
        assert!(new_set_among(&d, [&set].into_iter()).is_some());
        let other = deployment(3).image("i:2").build();
        assert!(new_set_among(&other, [&set].into_iter()).is_none());
        let hash = labels(&set.metadata)[HASH_LABEL].clone();
        assert_eq!(set.metadata.name, Some(format!("web-{hash}")));
        assert_ne!(hash, labels(&new_set(&other, &strategy, 1, 3).metadata)[HASH_LABEL]);
    }

    #[test]
    fn annotations() {
        let mut d = deployment(1).build();
        d.metadata.annotations =
            Some(BTreeMap::from([("team".to_owned(), "a".to_owned()), (NOT_COPIED[0].to_owned(), "{}".to_owned())]));
        let fresh = new_set_annotations(&d, None, 1);
        assert_eq!(fresh, BTreeMap::from([("team".into(), "a".into()), (REVISION.into(), "1".into())]));
        let mut set = ObjectMeta { annotations: Some(fresh), ..ObjectMeta::default() };
        assert!(new_set_annotations(&d, Some(&set), 1).is_empty(), "nothing to add");
        let back = new_set_annotations(&d, Some(&set), 3);
        assert_eq!(back.get(REVISION_HISTORY).map(String::as_str), Some("1"), "rolled back: it was revision 1 before");
        set.annotations.as_mut().unwrap().extend(back);
        assert_eq!(new_set_annotations(&d, Some(&set), 5)[REVISION_HISTORY], "1,3");
    }

    #[test]
    fn a_name_that_is_too_long_is_truncated() {
        assert_eq!(set_name(&"x".repeat(253), "abc").len(), NAME_BYTES_MAX);
    }
}
