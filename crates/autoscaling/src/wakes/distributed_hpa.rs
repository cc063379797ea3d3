//! Wake rules of the controller of distributed HorizontalPodAutoscalers.

use std::collections::BTreeSet;

use ironclad_api::{
    ObjectMeta, annotations,
    cluster::Cluster,
    policy::{FederatedResourceQuota, OverridePolicy, OverrideSpec},
    work::{ObjectReference, ResourceBinding, Work},
};
use ironclad_fleet::ObjectKey;
use ironclad_propagation::{overrides, wakes::changes};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::Value;

use crate::distributed_hpa::{decides_in_members, is_enabled, report, scaler, state::State, target_key, target_keys};

/// Key of an object.
pub type Key = ObjectKey;

/// Returns true if the object has to be reconciled: it is new, gone, or changed other than in its status and in what
/// the controller writes itself.
#[must_use]
pub fn autoscaler(old: Option<&HorizontalPodAutoscaler>, new: Option<&HorizontalPodAutoscaler>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let meaning = |hpa: &HorizontalPodAutoscaler| {
        let metadata = &hpa.metadata;
        let mut annotations = metadata.annotations.clone().unwrap_or_default();
        annotations.remove(annotations::FEDERATED_HPA_STATUS);
        (
            metadata.generation,
            metadata.uid.clone(),
            metadata.labels.clone(),
            annotations,
            metadata.deletion_timestamp.clone(),
        )
    };
    old.spec != new.spec || meaning(old) != meaning(new)
}

/// The targets whose copies in members have to be written again: members begin or cease to decide their replicas.
#[must_use]
pub fn target(old: Option<&HorizontalPodAutoscaler>, new: Option<&HorizontalPodAutoscaler>) -> BTreeSet<ObjectKey> {
    let of = |hpa: Option<&HorizontalPodAutoscaler>| {
        hpa.filter(|hpa| decides_in_members(hpa)).map(target_keys).unwrap_or_default()
    };
    of(old).symmetric_difference(&of(new)).cloned().collect()
}

/// The targets whose autoscalers have to be reconciled: another one with this target may have to begin, or to cease.
#[must_use]
pub fn rivals(old: Option<&HorizontalPodAutoscaler>, new: Option<&HorizontalPodAutoscaler>) -> BTreeSet<ObjectKey> {
    let both = || [old, new].into_iter().flatten();
    if both().any(decides_in_members) { both().flat_map(target_keys).collect() } else { BTreeSet::new() }
}

/// Returns true if the autoscalers of a binding's template have to be reconciled: its spec, its life or the scheduler's
/// progress changed.
#[must_use]
pub fn binding(old: Option<&ResourceBinding>, new: Option<&ResourceBinding>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let observed =
        |binding: &ResourceBinding| binding.status.as_ref().map(|status| status.scheduler_observed_generation);
    changes::binding(Some(&old.metadata), &new.metadata) || observed(old) != observed(new)
}

/// Returns true if the autoscalers with a share in a cluster have to be reconciled: it became ready or unready, its
/// taints or APIs changed, or it is being deleted.
#[must_use]
pub fn cluster(old: Option<&Cluster>, new: Option<&Cluster>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    changes::cluster(Some(old), new) || old.spec.taints != new.spec.taints
}

/// The object that a Work was made for, if it has to be reconciled: a report came, or somebody changed the Work.
#[must_use]
pub fn work(old: Option<&Work>, new: Option<&Work>) -> Option<Key> {
    let work = new.or(old)?;
    let annotations = work.metadata.annotations.as_ref()?;
    let of = |key: &str| annotations.get(key).cloned();
    let (namespace, name) = (of(annotations::FEDERATED_HPA_NAMESPACE)?, of(annotations::FEDERATED_HPA_NAME)?);
    if !is_different(old, new) {
        return None;
    }
    let manifest = work.spec.workload.manifests.first().map(|manifest| manifest.object()).unwrap_or_default();
    let of = |field: &str| manifest.get(field).and_then(Value::as_str).unwrap_or_default();
    let gvk = scaler::kind_of(of("apiVersion"), of("kind"));
    Some(ObjectKey { gvk, namespace: namespace.as_str().into(), name: name.as_str().into() })
}

/// Autoscalers of a target that a change of one of its Works concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfTarget {
    /// All of them.
    All,
    /// Those of kinds without a number of their own: they report the replicas of the target.
    WithoutNumber,
}

/// Returns the autoscalers of a target that have to be reconciled: all if one of the target's Works came, went or was
/// applied; some kinds, if `knows_others` of these, if a member reports other replicas than before.
#[must_use]
pub fn target_work(old: Option<&Work>, new: Option<&Work>, knows_others: impl FnOnce() -> bool) -> Option<OfTarget> {
    let (Some(old), Some(new)) = (old, new) else { return Some(OfTarget::All) };
    if changes::work(Some(&old.metadata), &new.metadata) || report::is_applied(old) != report::is_applied(new) {
        return Some(OfTarget::All);
    }
    let replicas = |work: &Work| report::status(work).and_then(|status| status.get("replicas").cloned());
    (knows_others() && replicas(old) != replicas(new)).then_some(OfTarget::WithoutNumber)
}

fn is_different(old: Option<&Work>, new: Option<&Work>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    changes::work(Some(&old.metadata), &new.metadata)
        || old.status != new.status
        || old.metadata.labels != new.metadata.labels
}

/// Returns true if the autoscalers of a template have to be reconciled: its spec changed, or it is new or gone.
#[must_use]
pub fn template(old: Option<&ObjectMeta>, new: Option<&ObjectMeta>) -> bool {
    old.map(|old| old.generation) != new.map(|new| new.generation)
}

/// The object that an OverridePolicy was written for, if somebody changed or deleted the policy.
#[must_use]
pub fn own_policy(old: Option<&OverridePolicy>, new: Option<&OverridePolicy>) -> Option<Key> {
    let policy = [old, new].into_iter().flatten().find(|policy| overrides::is_of_autoscaler(policy))?;
    let owner = policy.metadata.owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true))?;
    let parts = |policy: Option<&OverridePolicy>| {
        policy.map(|policy| (policy.spec.clone(), policy.metadata.labels.clone(), policy.metadata.annotations.clone()))
    };
    let namespace = policy.metadata.namespace.clone()?;
    let gvk = scaler::kind_of(&owner.api_version, &owner.kind);
    let key = || ObjectKey { gvk, namespace: namespace.as_str().into(), name: owner.name.as_str().into() };
    (parts(old) != parts(new)).then(key)
}

/// Returns true if a policy of a user may change an autoscaler's objects in members, before or after its change.
#[must_use]
pub fn users_policy(old: Option<&OverrideSpec>, new: Option<&OverrideSpec>, autoscaler: &ObjectReference) -> bool {
    old != new && [old, new].into_iter().flatten().any(|spec| overrides::may_take(spec, autoscaler))
}

/// Returns true if the autoscalers of a quota's namespace have to be reconciled: what it allows changed.
#[must_use]
pub fn quota(old: Option<&FederatedResourceQuota>, new: Option<&FederatedResourceQuota>) -> bool {
    let allows = |quota: Option<&FederatedResourceQuota>| {
        let live = quota.filter(|quota| quota.metadata.deletion_timestamp.is_none());
        live.map(|quota| quota.spec.overall.clone())
    };
    allows(old) != allows(new)
}

/// Returns true if a binding uses another part of the quotas of its namespace than before.
#[must_use]
pub fn usage(old: Option<&ResourceBinding>, new: Option<&ResourceBinding>) -> bool {
    let uses = |binding: Option<&ResourceBinding>| {
        let spec = &binding?.spec;
        Some((spec.clusters.clone(), spec.components.clone(), spec.replica_requirements.clone()))
    };
    uses(old) != uses(new)
}

/// Returns true if an autoscaler claims another part of the quotas of its namespace than before, or its members have
/// other maxima.
#[must_use]
pub fn claim(old: Option<&HorizontalPodAutoscaler>, new: Option<&HorizontalPodAutoscaler>) -> bool {
    let claims = |hpa: Option<&HorizontalPodAutoscaler>| {
        let hpa = hpa?;
        let enabled = is_enabled(&hpa.metadata) && hpa.metadata.deletion_timestamp.is_none();
        let states = State::of(hpa.metadata.annotations.as_ref()).clusters;
        let maxima: Vec<_> = states.into_iter().map(|(cluster, state)| (cluster, state.max)).collect();
        enabled.then(|| (target_key(hpa), hpa.spec.max_replicas, maxima))
    };
    claims(old) != claims(new)
}

/// Returns true if the report of a Work is news, so that it counts after the start of a controller.
#[must_use]
pub fn is_report(old: Option<&Work>, new: &Work) -> bool {
    old.is_some_and(|old| old.status != new.status)
}

#[cfg(test)]
mod tests {
    use serde::{Serialize, de::DeserializeOwned};
    use serde_json::{Value, json};

    use super::*;

    /// The object with this value at the pointer.
    fn with<T: Serialize + DeserializeOwned>(object: &T, pointer: &str, value: Value) -> T {
        let mut json = json!(object);
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        json.pointer_mut(parent).unwrap()[key] = value;
        serde_json::from_value(json).unwrap()
    }

    fn hpa() -> HorizontalPodAutoscaler {
        serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "u", "annotations": {},
                "labels": {"federatedhpa.karmada.io/enabled": "true"}},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3},
            "status": {"desiredReplicas": 0}}))
        .unwrap()
    }

    #[test]
    fn changes_of_the_object() {
        for (name, new, want) in [
            ("its spec", with(&hpa(), "/spec/maxReplicas", json!(4)), true),
            ("a label", with(&hpa(), "/metadata/labels/app", json!("web")), true),
            ("an annotation", with(&hpa(), "/metadata/annotations/note", json!("{}")), true),
            ("its deletion", with(&hpa(), "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")), true),
            ("its status", with(&hpa(), "/status/desiredReplicas", json!(4)), false),
            (
                "our state",
                {
                    let mut new = hpa();
                    let annotations = new.metadata.annotations.get_or_insert_default();
                    annotations.insert(annotations::FEDERATED_HPA_STATUS.into(), "{}".into());
                    new
                },
                false,
            ),
            ("its version", with(&hpa(), "/metadata/resourceVersion", json!("2")), false),
        ] {
            assert_eq!(autoscaler(Some(&hpa()), Some(&new)), want, "{name}");
        }
        assert!(autoscaler(None, Some(&hpa())) && autoscaler(Some(&hpa()), None));
    }

    #[test]
    fn targets_whose_copies_change() {
        let off = with(&hpa(), "/metadata/labels", json!({}));
        let ending = with(&off, "/metadata/finalizers", json!(["federatedhpa.karmada.io/finalizer"]));
        let other = with(&hpa(), "/spec/scaleTargetRef/name", json!("api"));
        let acting = |hpa: &HorizontalPodAutoscaler| {
            let state = State { target: Some(self::hpa().spec.scale_target_ref), ..State::default() };
            with(hpa, "/metadata/annotations", json!({annotations::FEDERATED_HPA_STATUS: state.text()}))
        };
        for (name, old, new, want) in [
            ("it comes", None, Some(hpa()), "Deployment shop/web"),
            ("it goes", Some(hpa()), None, "Deployment shop/web"),
            ("the label comes", Some(off.clone()), Some(hpa()), "Deployment shop/web"),
            (
                "the label goes, and the end is not complete",
                Some(with(&hpa(), "/metadata/finalizers", json!(["federatedhpa.karmada.io/finalizer"]))),
                Some(ending.clone()),
                "",
            ),
            ("the end is complete", Some(ending), Some(off.clone()), "Deployment shop/web"),
            ("another target", Some(hpa()), Some(other.clone()), "Deployment shop/api, Deployment shop/web"),
            (
                "another target, and the old one is not handed over",
                Some(acting(&hpa())),
                Some(acting(&other)),
                "Deployment shop/api",
            ),
            ("it is handed over", Some(acting(&other)), Some(other), "Deployment shop/web"),
            ("another maximum", Some(hpa()), Some(with(&hpa(), "/spec/maxReplicas", json!(4))), ""),
            ("it was never distributed", Some(off), None, ""),
        ] {
            let found = target(old.as_ref(), new.as_ref());
            let text: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(text.join(", "), want, "{name}");
        }
    }

    #[test]
    fn other_autoscalers_of_a_target_follow() {
        let off = with(&hpa(), "/metadata/labels", json!({}));
        let other = with(&hpa(), "/spec/scaleTargetRef/name", json!("api"));
        for (name, old, new, want) in [
            ("it comes", None, Some(&off), ""),
            ("it comes and members decide", None, Some(&hpa()), "Deployment shop/web"),
            ("members cease to decide", Some(&hpa()), Some(&off), "Deployment shop/web"),
            ("another target", Some(&hpa()), Some(&other), "Deployment shop/api, Deployment shop/web"),
        ] {
            let found: Vec<String> = rivals(old, new).iter().map(ToString::to_string).collect();
            assert_eq!(found.join(", "), want, "{name}");
        }
    }

    #[test]
    fn changes_of_bindings_and_clusters() {
        let base: ResourceBinding = serde_json::from_value(json!({"metadata": {"name": "b", "generation": 1},
            "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}, "status": {}}))
        .unwrap();
        for (name, new, want) in [
            ("its spec", with(&base, "/metadata/generation", json!(2)), true),
            ("the scheduler's progress", with(&base, "/status/schedulerObservedGeneration", json!(1)), true),
            ("another status", with(&base, "/status/conditions", json!([])), false),
        ] {
            assert_eq!(binding(Some(&base), Some(&new)), want, "{name}");
        }
        assert!(binding(None, Some(&base)) && binding(Some(&base), None));
        let base: Cluster = serde_json::from_value(json!({"metadata": {"name": "m"}, "spec": {"syncMode": "Push"},
            "status": {"conditions": []}}))
        .unwrap();
        let ready = json!([{"type": "Ready", "status": "True", "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        for (name, new, want) in [
            ("ready", with(&base, "/status/conditions", ready), true),
            ("a taint", with(&base, "/spec/taints", json!([{"key": "k", "effect": "NoExecute"}])), true),
            ("its APIs", with(&base, "/status/apiEnablements", json!([{"groupVersion": "autoscaling/v2"}])), true),
            ("its version", with(&base, "/status/kubernetesVersion", json!("v1.36.0")), false),
        ] {
            assert_eq!(cluster(Some(&base), Some(&new)), want, "{name}");
        }
        assert!(cluster(None, Some(&base)) && cluster(Some(&base), None));
    }

    fn key(api_version: &str, kind: &str) -> ObjectKey {
        ObjectKey {
            gvk: ironclad_fleet::Gvk::from_manifest(api_version, kind),
            namespace: "shop".into(),
            name: "web".into(),
        }
    }

    #[test]
    fn changes_of_works() {
        let plain: Work = serde_json::from_value(json!({"metadata": {"name": "w", "generation": 1, "annotations": {}},
            "spec": {"workload": {"manifests": [{"apiVersion": "autoscaling/v2beta2", "kind": "HorizontalPodAutoscaler"}]}},
            "status": {"conditions": []}}))
        .unwrap();
        let of = |work: &Work| -> Work {
            let mut work = work.clone();
            let annotations = work.metadata.annotations.get_or_insert_default();
            annotations.insert(annotations::FEDERATED_HPA_NAMESPACE.into(), "shop".into());
            annotations.insert(annotations::FEDERATED_HPA_NAME.into(), "web".into());
            work
        };
        let key = Some(key("autoscaling/v2", "HorizontalPodAutoscaler"));
        let applied = json!([{"type": "Applied", "status": "True", "reason": "r", "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        for (name, new, of_autoscaler, of_target) in [
            ("applied", with(&plain, "/status/conditions", applied.clone()), true, true),
            (
                "another report",
                with(
                    &plain,
                    "/status/manifestStatuses",
                    json!([{"identifier": {"ordinal": 0, "version": "v2", "kind": "K", "resource": "", "name": "n"}}]),
                ),
                true,
                false,
            ),
            ("its spec", with(&plain, "/metadata/generation", json!(2)), true, true),
            ("its resourceVersion", with(&plain, "/metadata/resourceVersion", json!("2")), false, false),
        ] {
            let wakes = work(Some(&of(&plain)), Some(&of(&new)));
            assert_eq!(wakes, key.clone().filter(|_| of_autoscaler), "{name}");
            assert_eq!(work(Some(&plain), Some(&new)), None, "{name}: not of an autoscaler");
            let of_target = of_target.then_some(OfTarget::All);
            assert_eq!(target_work(Some(&plain), Some(&new), || false), of_target, "{name}");
            assert_eq!(is_report(Some(&plain), &new), plain.status != new.status, "{name}");
        }
        assert_eq!(work(Some(&of(&plain)), None), key);
        assert_eq!(target_work(None, Some(&plain), || false), Some(OfTarget::All));
        assert!(!is_report(None, &plain));
        let reports = |replicas: i32| {
            let identifier =
                json!({"ordinal": 0, "version": "v1", "kind": "Deployment", "resource": "", "name": "web"});
            let statuses = json!([{"identifier": identifier, "status": {"replicas": replicas}}]);
            with(&with(&plain, "/status/conditions", applied.clone()), "/status/manifestStatuses", statuses)
        };
        for (name, old, new, others, want) in [
            ("other replicas", reports(2), reports(3), true, Some(OfTarget::WithoutNumber)),
            ("no kind reports them", reports(2), reports(3), false, None),
            ("the same replicas", reports(2), reports(2), true, None),
        ] {
            assert_eq!(target_work(Some(&old), Some(&new), || others), want, "{name}");
        }
    }

    #[test]
    fn changes_of_templates() {
        let of = |generation, version: &str| ObjectMeta {
            generation: Some(generation),
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        };
        let base = of(1, "1");
        for (name, old, new, want) in [
            ("created", None, Some(&base), true),
            ("deleted", Some(&base), None, true),
            ("its spec", Some(&base), Some(&of(2, "2")), true),
            ("its status", Some(&base), Some(&of(1, "2")), false),
        ] {
            assert_eq!(template(old, new), want, "{name}");
        }
    }

    #[test]
    fn changes_of_what_shares_a_quota() {
        let base: FederatedResourceQuota = serde_json::from_value(json!({"metadata": {"name": "q", "generation": 1},
            "spec": {"overall": {"cpu": "4"}}, "status": {"overallUsed": {"cpu": "1"}}}))
        .unwrap();
        for (name, new, want) in [
            ("its limit", with(&base, "/spec/overall/cpu", json!("5")), true),
            ("its end", with(&base, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")), true),
            ("what is used", with(&base, "/status/overallUsed/cpu", json!("2")), false),
        ] {
            assert_eq!(quota(Some(&base), Some(&new)), want, "quota: {name}");
        }
        assert!(quota(None, Some(&base)) && quota(Some(&base), None));
        let base: ResourceBinding = serde_json::from_value(json!({"metadata": {"name": "b"},
            "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "replicas": 2,
                "replicaRequirements": {"resourceRequest": {"cpu": "1"}}, "clusters": [{"name": "m1", "replicas": 2}]}}))
        .unwrap();
        for (name, new, want) in [
            ("replicas in a cluster", with(&base, "/spec/clusters/0/replicas", json!(3)), true),
            ("requests", with(&base, "/spec/replicaRequirements/resourceRequest/cpu", json!("2")), true),
            ("replicas that are not placed", with(&base, "/spec/replicas", json!(3)), false),
            ("its name", with(&base, "/metadata/labels", json!({"a": "b"})), false),
        ] {
            assert_eq!(usage(Some(&base), Some(&new)), want, "binding: {name}");
        }
        let state = |max: i32| json!(json!({"clusters": {"m1": {"max": max, "current": max - 1}}}).to_string());
        let annotated =
            |max| with(&hpa(), "/metadata/annotations", json!({annotations::FEDERATED_HPA_STATUS: state(max)}));
        for (name, old, new, want) in [
            ("its maximum", hpa(), with(&hpa(), "/spec/maxReplicas", json!(4)), true),
            ("its minimum", hpa(), with(&hpa(), "/spec/minReplicas", json!(2)), false),
            ("its label", hpa(), with(&hpa(), "/metadata/labels", json!({})), true),
            ("the maximum of a member", annotated(5), annotated(6), true),
            ("its status", hpa(), with(&hpa(), "/status/desiredReplicas", json!(4)), false),
        ] {
            assert_eq!(claim(Some(&old), Some(&new)), want, "autoscaler: {name}");
        }
        assert!(claim(None, Some(&hpa())) && claim(Some(&hpa()), None));
    }

    #[test]
    fn changes_of_override_policies() {
        let ours: OverridePolicy = serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": "federatedhpa-web", "labels": {"federatedhpa.karmada.io/managed": "true"},
                "ownerReferences": [{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "name": "web", "uid": "u", "controller": true}]},
            "spec": {"overrideRules": []}}))
        .unwrap();
        let key = Some(key("autoscaling/v2", "HorizontalPodAutoscaler"));
        let changed = with(&ours, "/spec/overrideRules", json!([{"overriders": {}}]));
        let unmarked = with(&ours, "/metadata/labels", json!({}));
        for (name, old, new, want) in [
            ("deleted", Some(&ours), None, key.clone()),
            ("changed", Some(&ours), Some(&changed), key.clone()),
            ("its label was taken off", Some(&ours), Some(&unmarked), key),
            ("nothing of it", Some(&ours), Some(&ours), None),
            ("one of a user", Some(&unmarked), None, None),
        ] {
            assert_eq!(own_policy(old, new), want, "{name}");
        }
        let selects = |kind: &str| -> OverrideSpec {
            serde_json::from_value(
                json!({"resourceSelectors": [{"apiVersion": "autoscaling/v2", "kind": kind}], "overrideRules": []}),
            )
            .unwrap()
        };
        let about = crate::distributed_hpa::reference_of(&hpa().into());
        let (this, that) = (selects("HorizontalPodAutoscaler"), selects("Deployment"));
        for (name, old, new, want) in [
            ("it selects the object", None, Some(&this), true),
            ("it did", Some(&this), Some(&that), true),
            ("it does not", None, Some(&that), false),
            ("nothing changed", Some(&this), Some(&this), false),
        ] {
            assert_eq!(users_policy(old, new, &about), want, "{name}");
        }
    }
}
