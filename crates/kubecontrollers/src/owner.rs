//! Controller references: which objects of a namespace a controller owns, adopts or releases.

use std::sync::Arc;

use ironclad_patch::selector::LabelSelector;
use ironclad_runtime::{Api, Failure};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{self as meta, OwnerReference};
use kube::{Resource, api::ObjectMeta};
use serde_json::{Value, json};

/// Index of objects by the uid of their controller.
pub(crate) const BY_CONTROLLER: &str = "controller";
/// Index of objects without a controller by namespace.
pub(crate) const ORPHANS: &str = "orphans";

/// Returns the owner reference to the controller of an object.
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.as_ref()?.iter().find(|r| r.controller == Some(true))
}

/// Creates the owner reference to this controller.
pub(crate) fn controller_reference(api_version: &str, kind: &str, owner: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: owner.name.clone().unwrap_or_default(),
        uid: owner.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

pub(crate) fn index_by_controller<K: Resource>(object: &K) -> Vec<String> {
    controller_of(object.meta()).map(|r| r.uid.clone()).into_iter().collect()
}

pub(crate) fn index_orphans<K: Resource>(object: &K) -> Vec<String> {
    match controller_of(object.meta()) {
        Some(_) => Vec::new(),
        None => object.meta().namespace.iter().cloned().collect(),
    }
}

/// Parses a selector; `None` if it is invalid.
pub fn parse_selector(selector: &meta::LabelSelector) -> Option<LabelSelector> {
    let expressions = selector.match_expressions.iter().flatten().map(|expression| {
        let values = expression.values.iter().flatten().cloned().collect();
        (expression.key.clone(), expression.operator.clone(), values)
    });
    LabelSelector::from_parts(selector.match_labels.clone().unwrap_or_default(), expressions).ok()
}

/// Parses the selector of a workload; `None` if it is absent, invalid or empty: an empty one selects no pods.
pub(crate) fn selector(selector: Option<&meta::LabelSelector>) -> Option<LabelSelector> {
    parse_selector(selector?).filter(|selector| !selector.is_empty())
}

/// Returns `true` if the selector matches the labels of the object.
pub fn selects(selector: &LabelSelector, meta: &ObjectMeta) -> bool {
    selector.matches(|key| meta.labels.as_ref()?.get(key).map(String::as_str))
}

/// Objects of a controller, by action.
#[derive(Debug)]
pub(crate) struct Claims<K> {
    /// Owned, and matching.
    pub(crate) mine: Vec<Arc<K>>,
    /// Without an owner, and matching: adopt.
    pub(crate) adopt: Vec<Arc<K>>,
    /// Owned, and no longer matching: release.
    pub(crate) release: Vec<Arc<K>>,
}

/// Sorts owned objects and those without an owner by the selector. A controller that is being deleted adopts and
/// releases nothing; objects that are being deleted are neither adopted nor released.
pub(crate) fn claim<K: Resource>(
    controller: &ObjectMeta,
    selector: &LabelSelector,
    owned: Vec<Arc<K>>,
    orphans: Vec<Arc<K>>,
) -> Claims<K> {
    let mut claims = Claims { mine: Vec::new(), adopt: Vec::new(), release: Vec::new() };
    let deleted = controller.deletion_timestamp.is_some();
    for object in owned {
        let release = !selects(selector, object.meta()) && !deleted && object.meta().deletion_timestamp.is_none();
        if release { claims.release.push(object) } else { claims.mine.push(object) }
    }
    if !deleted {
        claims.adopt = orphans;
        claims.adopt.retain(|o| selects(selector, o.meta()) && o.meta().deletion_timestamp.is_none());
    }
    claims
}

/// Returns whether a controller may adopt, by its present version on the server. A cache may not show yet that it is
/// being deleted: what its deletion has just orphaned would be adopted again, and then collected.
pub(crate) fn may_adopt(cached: &ObjectMeta, present: Option<&ObjectMeta>) -> bool {
    present.is_some_and(|present| present.uid == cached.uid && present.deletion_timestamp.is_none())
}

/// Checks on the server that a controller may adopt.
///
/// # Errors
/// A conflict if it may not; other failures if the server does not answer.
pub(crate) async fn check_adopter<K>(api: &Api<K>, cached: &ObjectMeta) -> Result<(), Failure>
where
    K: ironclad_runtime::Object,
{
    let name = cached.name.as_deref().unwrap_or_default();
    let present = api.get_metadata_opt(name).await?;
    match may_adopt(cached, present.as_ref().map(|present| &present.metadata)) {
        true => Ok(()),
        false => Err(Failure::Conflict(format!("{name} is being deleted, or was replaced, and adopts nothing"))),
    }
}

/// Returns the merge patch that adds this controller to an object's owners.
pub(crate) fn adopting(object: &ObjectMeta, reference: &OwnerReference) -> Value {
    let mut owners = object.owner_references.clone().unwrap_or_default();
    owners.retain(|r| r.uid != reference.uid);
    owners.push(reference.clone());
    json!({"metadata": {"uid": object.uid, "ownerReferences": owners}})
}

/// Returns the merge patch that removes these owners from an object.
pub(crate) fn releasing(object: &ObjectMeta, uids: &[&str]) -> Value {
    let mut owners = object.owner_references.clone().unwrap_or_default();
    owners.retain(|r| !uids.contains(&r.uid.as_str()));
    let owners = if owners.is_empty() { Value::Null } else { json!(owners) };
    json!({"metadata": {"uid": object.uid, "ownerReferences": owners}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{meta, pod};

    #[test]
    fn objects_are_claimed_by_selector() {
        let names = |pods: &[Arc<k8s_openapi::api::core::v1::Pod>]| {
            pods.iter().map(|p| p.metadata.name.clone().unwrap()).collect::<Vec<_>>().join(",")
        };
        let selector = LabelSelector::parse("app=a").unwrap();
        for (name, deleted, mine, adopt, release) in [
            ("matching objects are kept or adopted, others released", false, "own", "free", "changed"),
            ("a controller in deletion adopts and releases nothing", true, "own,changed", "", ""),
        ] {
            let mut owner = meta("owner");
            if deleted {
                owner.deletion_timestamp =
                    Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(crate::testkit::at(1)));
            }
            let claims = claim(
                &owner,
                &selector,
                vec![pod("own").label("app", "a").arc(), pod("changed").label("app", "b").arc()],
                vec![
                    pod("free").label("app", "a").arc(),
                    pod("other").label("app", "b").arc(),
                    pod("dying").label("app", "a").terminating().arc(),
                ],
            );
            assert_eq!(names(&claims.mine), mine, "{name}");
            assert_eq!(names(&claims.adopt), adopt, "{name}");
            assert_eq!(names(&claims.release), release, "{name}");
        }
    }

    #[test]
    fn only_a_controller_that_stays_adopts() {
        let of = |uid: &str, deleted: bool| {
            let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(crate::testkit::at(1));
            ObjectMeta { uid: Some(uid.into()), deletion_timestamp: deleted.then_some(time), ..ObjectMeta::default() }
        };
        for (name, present, want) in [
            ("as in the cache", Some(of("a", false)), true),
            ("it is being deleted", Some(of("a", true)), false),
            ("another one has its name", Some(of("b", false)), false),
            ("it is gone", None, false),
        ] {
            assert_eq!(may_adopt(&of("a", false), present.as_ref()), want, "{name}");
        }
    }

    #[test]
    fn an_empty_selector_selects_nothing() {
        assert!(selector(Some(&meta::LabelSelector::default())).is_none());
        assert!(selector(None).is_none());
    }
}
