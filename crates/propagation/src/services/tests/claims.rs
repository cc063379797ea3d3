//! Table of the claim of a Service.

use super::*;

pub(super) fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": "web", "uid": "svc", "resourceVersion": "3",
        "labels": {"propagationpolicy.karmada.io/permanent-id": "p", "app": "web"},
        "annotations": {"propagationpolicy.karmada.io/name": "p", "propagationpolicy.karmada.io/namespace": "shop"}},
        "spec": {"selector": {"app": "web"}}})
}

pub(super) fn claim_plan(
    mcs: &MultiClusterService,
    service: Option<&Value>,
    binding: Option<&ResourceBinding>,
    works: &[Arc<Work>],
) -> Vec<claim::Effect> {
    let (clusters, key) = (three(), key());
    let spaces = clusters.keys().cloned().collect();
    let seen = claim::Seen {
        key: &key,
        mcs: Some(mcs),
        clusters: &clusters,
        spaces: &spaces,
        service,
        binding,
        works,
        now: now(),
    };
    claim::decide(&seen, ids("id")).effects
}

pub(super) fn made(effects: &[claim::Effect]) -> Vec<Arc<Work>> {
    let work = |effect: &claim::Effect| match effect {
        claim::Effect::Work(Write::Create(work)) => Some(stored(work)),
        _ => None,
    };
    effects.iter().filter_map(work).collect()
}

#[test]
fn a_service_is_claimed_and_bound_to_all_clusters_concerned() {
    let mcs = mcs(json!({"providerClusters": [{"name": "m1"}], "consumerClusters": [{"name": "m2"}]}));
    let effects = claim_plan(&mcs, Some(&service()), None, &[]);
    let [claim::Effect::Work(_), claim::Effect::PatchService(patch), claim::Effect::CreateBinding(binding)] =
        effects.as_slice()
    else {
        panic!("{effects:?}")
    };
    let claimed: Value = patched(&service(), patch);
    let id = "multiclusterservice.karmada.io/permanent-id";
    assert_eq!(
        claimed["metadata"]["labels"],
        json!({"app": "web", "resourcetemplate.karmada.io/claimed-by": "MultiClusterService", id: "id"})
    );
    let names =
        json!({"multiclusterservice.karmada.io/namespace": "shop", "multiclusterservice.karmada.io/name": "web"});
    assert_eq!(claimed["metadata"]["annotations"], names);
    let bound = json!(binding);
    assert_eq!(bound["metadata"]["name"], "web-service");
    assert_eq!(bound["metadata"]["labels"]["binding.karmada.io/managed-by"], "MultiClusterService");
    assert_eq!(bound["spec"]["placement"], json!({"clusterAffinity": {"clusterNames": ["m1", "m2"]}}));
    assert_eq!(bound["spec"]["conflictResolution"], "Overwrite");

    let works = made(&effects);
    let applied = |names: &[&str]| -> ResourceBinding {
        let items: Vec<Value> = names.iter().map(|name| json!({"clusterName": name, "applied": true})).collect();
        let chosen = json!({"clusters": [{"name": "m1"}, {"name": "m2"}]});
        patched(&**binding, &json!({"metadata": {"uid": "b"}, "spec": chosen, "status": {"aggregatedStatus": items}}))
    };
    assert_eq!(claim_plan(&mcs, Some(&claimed), Some(&applied(&["m1"])), &works), [], "m2 has not answered");
    let effects = claim_plan(&mcs, Some(&claimed), Some(&applied(&["m1", "m2"])), &works);
    let [claim::Effect::Status(part), claim::Effect::Event(event)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!((part.conditions[0].status.as_str(), event.reason), ("True", "SyncServiceSucceed"));
    let told = patched(&mcs, &json!({"status": {"conditions": part.conditions}}));
    assert_eq!(claim_plan(&told, Some(&claimed), Some(&applied(&["m1", "m2"])), &works), [], "told once");

    let unchosen = patched(&applied(&["m1"]), &json!({"spec": {"clusters": [{"name": "m1"}]}}));
    let effects = claim_plan(&told, Some(&claimed), Some(&unchosen), &works);
    let [claim::Effect::Status(_), claim::Effect::Event(event)] = effects.as_slice() else { panic!("{effects:?}") };
    assert!(event.message.contains("1 of 2 target clusters; m2 was not chosen"), "{}", event.message);

    // The same with other providers: the marker moves.
    let moved = patched(&told, &json!({"spec": {"providerClusters": [{"name": "m3"}]}}));
    let effects = claim_plan(&moved, Some(&claimed), Some(&applied(&["m1", "m2"])), &works);
    assert!(
        matches!(
            effects.as_slice(),
            [
                claim::Effect::Work(Write::Create(_)),
                claim::Effect::Work(Write::Delete { .. }),
                claim::Effect::PatchBinding(_),
                ..
            ]
        ),
        "{effects:?}"
    );

    // Deleted: it lets go, and the finalizer is the last to go.
    let deleted = patched(&told, &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let slice = collected("m1", "web-x", &["10.0.0.1"]);
    let only = patched(
        &*slice,
        &json!({"metadata": {"labels": {"endpointslice.karmada.io/managed-by": "MultiClusterService"}}}),
    );
    let all = [slice, Arc::new(only), works[0].clone()];
    let effects = claim_plan(&deleted, Some(&claimed), Some(&applied(&["m1"])), &all);
    let [
        claim::Effect::Work(Write::Delete { key: first, .. }),
        claim::Effect::Work(Write::Delete { .. }),
        claim::Effect::PatchService(_),
        claim::Effect::PatchBinding(_),
        claim::Effect::PatchMcs(_),
    ] = effects.as_slice()
    else {
        panic!("{effects:?}")
    };
    assert_eq!(Some(first.clone()), crate::work::key_of(&works[0]), "the marker is first, and shared slices stay");
}

#[test]
fn what_keeps_a_service_from_its_clusters_is_told() {
    let own = mcs(json!({}));
    let others = patched(
        &service(),
        &json!({"metadata": {"labels": {"resourcetemplate.karmada.io/claimed-by": "FederatedHPA"}}}),
    );
    let foreign: ResourceBinding = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web-service", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "other", "controller": true}]},
        "spec": {"resource": {"apiVersion": "v1", "kind": "Service", "name": "web"}},
    }))
    .unwrap();
    let nowhere = mcs(json!({"providerClusters": [{"name": "m8"}], "consumerClusters": [{"name": "m9"}]}));
    for (name, mcs, service, binding, want) in [
        ("no Service", &own, None, None, "there is no Service shop/web: create it in the control plane"),
        ("claimed elsewhere", &own, Some(&others), None, "Service shop/web belongs to a FederatedHPA"),
        (
            "a foreign binding",
            &own,
            Some(&service()),
            Some(&foreign),
            "ResourceBinding shop/web-service belongs to another object",
        ),
        ("no cluster", &nowhere, Some(&service()), None, "none of its clusters exists; there is no cluster m8, m9"),
    ] {
        let effects = claim_plan(mcs, service, binding, &[]);
        let told = effects.iter().find_map(|effect| match effect {
            claim::Effect::Event(event) if event.reason == "SyncServiceFailed" => Some(event.message.as_str()),
            _ => None,
        });
        assert!(told.is_some_and(|text| text.starts_with(want)), "{name}: {told:?}");
        assert!(!effects.iter().any(|effect| matches!(effect, claim::Effect::CreateBinding(_))), "{name}");
    }
}
