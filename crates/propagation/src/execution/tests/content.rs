//! TemplateHash of written objects (specification/propagation.md 13.3, specification/propagation.md 14,
//! specification/propagation.md 9.4; specification/propagation.md 31 row 2).

use super::*;

#[test]
fn release_removes_only_our_labels_and_annotations() {
    let mut template = deployment();
    merge(
        &mut template,
        &json!({"metadata": {
            "labels": {"propagationpolicy.karmada.io/permanent-id": "p", "clusterpropagationpolicy.karmada.io/permanent-id": "c",
                "resourcebinding.karmada.io/permanent-id": "r", "clusterresourcebinding.karmada.io/permanent-id": "r"},
            "annotations": {"propagationpolicy.karmada.io/namespace": "shop", "propagationpolicy.karmada.io/name": "p",
                "clusterpropagationpolicy.karmada.io/name": "c", "resourcebinding.karmada.io/namespace": "shop",
                "resourcebinding.karmada.io/name": "r", "clusterresourcebinding.karmada.io/name": "r",
                "resourcetemplate.karmada.io/generation": "1", "note": "mine"},
        }}),
    );
    let work = work(template, "overwrite");
    let there = object(&work);
    let scene =
        Scene::of(with(&deleting(&work), json!({"spec": {"preserveResourcesOnDeletion": true}}))).has(there.clone());
    let plan = scene.plan();
    let Effect::PatchInMember { patch, .. } = &plan.effects[0] else { panic!("{plan:?}") };
    assert_eq!(patch.as_object().unwrap().keys().collect::<Vec<_>>(), ["metadata"], "the spec is not rewritten");
    let after = scene.after(&plan).object.unwrap().unwrap();
    assert_eq!(after["metadata"]["labels"], json!({"app": "web"}));
    assert_eq!(after["metadata"]["annotations"], json!({"deployment.kubernetes.io/revision": "1", "note": "mine"}));
    assert_eq!(after["spec"], there["spec"]);
}

#[test]
fn replacement_keeps_fields_of_the_member() {
    let mut first = deployment();
    merge(
        &mut first,
        &json!({"metadata": {"labels": {"a": "1", "b": "1"}, "annotations": {"n": "1"}, "finalizers": ["x"], "ownerReferences": [{"uid": "o"}]}}),
    );
    let before = work(first.clone(), "");
    let there = changed(
        object(&before),
        json!({"metadata": {"labels": {"x": "agent"}, "finalizers": ["theirs"], "managedFields": [{}]}}),
    );
    merge(
        &mut first,
        &json!({"metadata": {"labels": {"b": null}, "annotations": {"n": null}}, "spec": {"replicas": 4}}),
    );
    let after = with(&done(&before), json!({"metadata": {"generation": 2}, "spec": json!(work(first, "").spec)}));
    let plan = Scene::of(after).has(there).plan();
    let Effect::ReplaceInMember(put) = &plan.effects[0] else { panic!("{plan:?}") };
    let metadata = &put["metadata"];
    assert_eq!(metadata["labels"], json!({"app": "web", "a": "1", "x": "agent", MANAGED: "true", ID: "w1"}));
    assert!(metadata["annotations"].get("n").is_none(), "ours, and removed from the template");
    assert_eq!(metadata["annotations"]["deployment.kubernetes.io/revision"], "1", "theirs");
    assert_eq!((&metadata["resourceVersion"], &metadata["finalizers"]), (&json!("5"), &json!(["theirs"])));
    assert!(metadata.get("ownerReferences").is_none() && metadata.get("managedFields").is_none());
    assert_eq!(put["spec"]["replicas"], 4);
    assert_eq!(put["spec"]["progressDeadlineSeconds"], 600, "the member's");
    assert_eq!(put["status"], json!({"readyReplicas": 3}), "a kind without status subresource would lose it");
}

#[test]
fn fields_of_the_member_are_not_drift() {
    let named = |api_version: &str, kind: &str, rest: Value| {
        let metadata = json!({"namespace": "shop", "name": "web", "uid": "uid-web"});
        changed(json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}), rest)
    };
    let pods = |mounts: Value| json!({"spec": {"containers": [{"name": "c", "image": "i", "volumeMounts": mounts}], "volumes": mounts}});
    for (name, template, member) in [
        (
            "replicas of a Deployment with the label",
            named(
                "apps/v1",
                "Deployment",
                json!({"metadata": {"labels": {"resourcetemplate.karmada.io/retain-replicas": "true"}}, "spec": {"replicas": 1}}),
            ),
            json!({"spec": {"replicas": 7}}),
        ),
        (
            "a Pod's node, account, volumes and mounts",
            named("v1", "Pod", pods(json!([]))),
            changed(
                pods(json!([{"name": "token"}])),
                json!({"spec": {"nodeName": "n", "serviceAccountName": "default"}}),
            ),
        ),
        (
            "a Service's address and health port",
            named("v1", "Service", json!({"spec": {"ports": [{"port": 80}]}})),
            json!({"spec": {"clusterIP": "10.0.0.9", "healthCheckNodePort": 30000, "ports": [{"port": 80, "nodePort": 31000}]}}),
        ),
        (
            "a ServiceAccount's secrets",
            named("v1", "ServiceAccount", json!({"secrets": [{"name": "a"}]})),
            json!({"secrets": [{"name": "a"}, {"name": "token"}], "imagePullSecrets": [{"name": "pull"}]}),
        ),
        (
            "a claim's volume",
            named("v1", "PersistentVolumeClaim", json!({"spec": {"accessModes": ["ReadWriteOnce"]}})),
            json!({"spec": {"volumeName": "pv"}}),
        ),
        (
            "a volume's claim",
            named("v1", "PersistentVolume", json!({"spec": {"capacity": {"storage": "1024Mi"}}})),
            json!({"spec": {"claimRef": {"uid": "u"}, "capacity": {"storage": "1Gi"}}}),
        ),
        (
            "a Job's selector and pod labels",
            named("batch/v1", "Job", json!({"spec": {"template": {"metadata": {"labels": {"app": "j"}}}}})),
            json!({"spec": {"selector": {"matchLabels": {"controller-uid": "u"}}, "template": {"metadata": {"labels": {"controller-uid": "u"}}}}}),
        ),
        (
            "a token's data",
            named("v1", "Secret", json!({"type": "kubernetes.io/service-account-token", "data": {"token": "theirs"}})),
            json!({"data": {"token": "b3Vycw=="}}),
        ),
    ] {
        let work = done(&work(template, ""));
        let mut there = manifest_of(&work);
        merge(&mut there, &json!({"metadata": {"uid": "u", "resourceVersion": "5"}}));
        merge(&mut there, &member);
        let drifted = changed(there.clone(), json!({"metadata": {"labels": {MANAGED: "no"}}}));
        assert_eq!(words(&Scene::of(work.clone()).has(there.clone()).plan()), Vec::<String>::new(), "{name}");
        let plan = Scene::of(work.clone()).has(drifted).plan();
        let Effect::ReplaceInMember(put) = &plan.effects[0] else { panic!("{name}: {plan:?}") };
        assert_eq!(compare::difference(put, &there), None, "{name}: what is put for another reason keeps it");
    }
}

/// A copy of an older version, whose manifest had the port that the control plane allocated. A member's server keeps a
/// port that an update leaves out.
#[test]
fn a_port_that_leaves_the_manifest_is_written_once_and_stays() {
    let service = |ports: Value| {
        work(
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": "web", "uid": "uid-web"},
            "spec": {"type": "NodePort", "ports": ports}}),
            "",
        )
    };
    let before = done(&service(json!([{"port": 80, "protocol": "TCP", "nodePort": 31000}])));
    let mut there = manifest_of(&before);
    merge(&mut there, &json!({"metadata": {"uid": "u", "resourceVersion": "5"}}));
    let spec = service(json!([{"port": 80, "protocol": "TCP"}])).spec;
    let now = with(&before, json!({"metadata": {"generation": 2}, "spec": json!(spec)}));
    let plan = Scene::of(now.clone()).has(there).plan();
    let Effect::ReplaceInMember(put) = &plan.effects[0] else { panic!("{plan:?}") };
    assert_eq!(put["spec"]["ports"], json!([{"port": 80, "protocol": "TCP"}]));
    let mut kept = put.clone();
    kept["spec"]["ports"][0]["nodePort"] = json!(31000);
    let settled = Scene::of(done(&now)).has(kept.clone());
    assert_eq!(words(&settled.plan()), Vec::<String>::new(), "no further write");
    let spec = service(json!([{"port": 80, "protocol": "TCP", "targetPort": 8080}])).spec;
    let edited = with(&done(&now), json!({"metadata": {"generation": 3}, "spec": json!(spec)}));
    let plan = Scene::of(edited).has(kept).plan();
    let Effect::ReplaceInMember(put) = &plan.effects[0] else { panic!("{plan:?}") };
    assert_eq!(put["spec"]["ports"], json!([{"port": 80, "protocol": "TCP", "nodePort": 31000, "targetPort": 8080}]));
}

#[test]
fn manifests_of_other_writers_are_completed() {
    let bare = with(&web(), json!({"spec": {"workload": {"manifests": [deployment()]}}}));
    let scene = Scene::of(bare);
    let plan = scene.plan();
    let Effect::CreateInMember(object) = &plan.effects[0] else { panic!("{plan:?}") };
    assert_eq!((template::label(object, MANAGED), template::label(object, ID)), ("true", "w1"));
    assert_eq!(template::annotation(object, "work.karmada.io/name"), "web-x");
    assert!(object.pointer("/metadata/uid").is_none(), "pruned");
    let after = scene.after(&plan);
    assert_eq!(words(&after.plan()), Vec::<String>::new());
    assert_eq!(words(&Scene { work: deleting(&after.work), ..after }.plan())[0], "delete uid-new");
}
