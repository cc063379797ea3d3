//! Effects, row by row (specification/propagation.md 13.1, specification/propagation.md 13.2,
//! specification/propagation.md 13.7, and the rows of specification/propagation.md 31 that they name).

use super::*;

/// The effect that reads the whole object.
const READ: &str = "read Deployment shop/web";
const READ_BINDING: &str = "read the binding";
/// Rows of [`work_being_applied`] that a cache without the object's content cannot decide. All others have the same
/// effects.
const READ_FIRST: [&str; 13] = [
    "resumed: a whole sync",
    "drift",
    "a field that left the manifest goes",
    "an object without a record of what was applied gets one",
    "they stay when the manifest changes",
    "a failure before, but all arrived",
    "managed, whoever made it: ours",
    "unmanaged, overwrite: adopted",
    "the managed label was taken off, the id is ours: repaired",
    "an earlier Work's of the same template: ours",
    "replicas to retain, but the member has none",
    "replicas to retain, but they are zero: assigned once",
    "the cache is not synced",
];

#[test]
fn work_being_applied() {
    let suspended = |work: &Work| with(work, json!({"spec": {"suspendDispatching": true}}));
    let suspended_before = |work: &Work| {
        let mut work = suspended(work);
        let condition = conditions::condition(
            "Dispatching",
            "False",
            "SuspendDispatching",
            "Work dispatching is in a suspended state.",
        );
        work.status = Some(WorkStatus { conditions: vec![condition], ..WorkStatus::default() });
        work
    };
    let resumed = with(&suspended_before(&web()), json!({"spec": {"suspendDispatching": null}}));
    let without = |object: Value, what: Value| changed(object, json!({"metadata": what}));
    let unmanaged = |work: &Work| without(object(work), json!({"labels": {MANAGED: null, ID: null}}));
    let other = |work: &Work| {
        without(
            object(work),
            json!({"labels": {ID: "w2"}, "annotations": {"resourcetemplate.karmada.io/uid": "uid-other"}}),
        )
    };
    let overwrite = work(deployment(), "overwrite");
    let apis = |complete: &str, kind: &str| {
        json!({"status": {
            "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "things", "kind": kind}]}],
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "CompleteAPIEnablements", "status": complete, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ],
        }})
    };
    let drifted = changed(object(&web()), json!({"spec": {"replicas": 9}}));
    let surplus = changed(object(&web()), json!({"spec": {"paused": true}}));
    let paused = work(changed(deployment(), json!({"spec": {"paused": true}})), "");
    let terminating =
        |object: Value| changed(object, json!({"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}}));
    let rows: Vec<(&str, Scene, Vec<&str>)> = vec![
        // specification/propagation.md 13.1
        (
            "outside of execution spaces nothing is done",
            Scene::of(with(&web(), json!({"metadata": {"namespace": "shop"}}))),
            vec![],
        ),
        ("no such Cluster: it waits for one", Scene { cluster: None, ..Scene::of(web()) }, vec!["park"]),
        (
            "suspended: said, and nothing else",
            Scene::of(suspended(&web())).unknown(),
            vec!["Dispatching=False/SuspendDispatching", DISPATCHING],
        ),
        ("suspended and said", Scene::of(suspended_before(&web())), vec![]),
        ("suspended: an object deleted in the member stays away (row 24)", Scene::of(suspended_before(&web())), vec![]),
        ("suspended: drift is not repaired (row 24)", Scene::of(suspended_before(&web())).has(drifted.clone()), vec![]),
        (
            "suspended comes before ready",
            Scene::of(suspended(&web())).ready("False"),
            vec!["Dispatching=False/SuspendDispatching", DISPATCHING],
        ),
        ("resumed: a whole sync", Scene::of(resumed.clone()).has(drifted.clone()), vec!["replace", WELL, DISPATCHING]),
        (
            "resumed while not ready: the suspended_before condition is not true any more",
            Scene::of(resumed).ready("False"),
            vec!["Dispatching=True/Dispatching", DISPATCHING, "park"],
        ),
        ("not ready: it waits, nothing is written (row 3)", Scene::of(web()).ready("False"), vec!["park"]),
        ("ready unknown is not ready", Scene::of(web()).ready("Unknown"), vec!["park"]),
        (
            "not ready: what was applied stays said",
            Scene::of(done(&web())).ready("False").has(drifted.clone()),
            vec!["park"],
        ),
        ("ready without a connection waits, too", Scene { connected: false, ..Scene::of(web()) }, vec!["park"]),
        ("the kind is not known in the control plane", Scene { served: Served::No, ..Scene::of(web()) }, refused()),
        ("the cache is not synced", Scene::of(web()).unknown(), vec![READ]),
        (
            "no manifest",
            Scene::of(with(&web(), json!({"spec": {"workload": null}}))),
            vec![FAILED, "Warning SyncFailed Work"],
        ),
        (
            "two manifests",
            Scene::of(with(&web(), json!({"spec": {"workload": {"manifests": [manifest_of(&web()), {}]}}}))),
            vec![FAILED, WARN[0], WARN[1]],
        ),
        (
            "a manifest without a name",
            Scene::of(with(&web(), json!({"spec": {"workload": {"manifests": [{"kind": "Deployment"}]}}}))),
            vec![FAILED, "Warning SyncFailed Work"],
        ),
        // specification/propagation.md 31 row 15.
        (
            "the member has no such API",
            Scene::of(web()).cluster(apis("True", "StatefulSet")),
            vec!["Dispatching=True/Dispatching Applied=False/APINotInstalled", WARN[0], WARN[1], "park"],
        ),
        ("the member has it", Scene::of(web()).cluster(apis("True", "Deployment")), vec!["create", WELL]),
        (
            "nobody knows whether the member has it",
            Scene::of(web()).cluster(apis("False", "StatefulSet")),
            vec!["create", WELL],
        ),
        // specification/propagation.md 13.2
        ("not found: created", Scene::of(web()), vec!["create", WELL]),
        ("deleted in the member: created again", Scene::of(done(&web())), vec!["create"]),
        ("as it should be", Scene::of(done(&web())).has(object(&web())), vec![]),
        (
            "as it should be, but not said yet",
            Scene::of(web()).has(changed(object(&web()), json!({"spec": {"progressDeadlineSeconds": null}}))),
            vec![WELL],
        ),
        ("drift", Scene::of(done(&web())).has(drifted.clone()), vec!["replace"]),
        ("the member's own fields are no drift (row 27)", Scene::of(done(&web())).has(surplus.clone()), vec![]),
        (
            "they stay when the manifest changes",
            Scene::of(with(&done(&web()), json!({"metadata": {"generation": 2}}))).has(surplus),
            vec![WELL],
        ),
        (
            "a field that left the manifest goes",
            Scene::of(with(&done(&web()), json!({"metadata": {"generation": 2}}))).has(object(&paused)),
            vec!["replace", WELL],
        ),
        (
            "an object without a record of what was applied gets one",
            Scene::of(done(&web()))
                .has(without(object(&web()), json!({"annotations": {annotations::APPLIED_FIELDS: null}}))),
            vec!["replace"],
        ),
        (
            "a failure before, but all arrived",
            Scene::of(applied(&web(), "False", "AppliedFailed", "m")).has(object(&web())),
            vec![WELL, "Normal SyncSucceed Work", "Normal SyncSucceed Deployment"],
        ),
        (
            "managed, whoever made it: ours",
            Scene::of(done(&web())).has(without(object(&web()), json!({"labels": {ID: null}}))),
            vec!["replace"],
        ),
        ("unmanaged", Scene::of(web()).has(unmanaged(&web())), refused()),
        ("unmanaged, abort", Scene::of(work(deployment(), "abort")).has(unmanaged(&web())), refused()),
        ("unmanaged, overwrite: adopted", Scene::of(overwrite.clone()).has(unmanaged(&web())), vec!["replace", WELL]),
        (
            "another value than overwrite is abort",
            Scene::of(work(deployment(), "Overwrite")).has(unmanaged(&web())),
            refused(),
        ),
        (
            "reported already: only tried again",
            {
                let scene = Scene::of(web()).has(unmanaged(&web()));
                scene.after(&scene.plan())
            },
            vec!["retry"],
        ),
        // specification/propagation.md 31 row 7.
        (
            "the managed label was taken off, the id is ours: repaired",
            Scene::of(done(&web())).has(without(object(&web()), json!({"labels": {MANAGED: null}}))),
            vec!["replace"],
        ),
        ("another Work's id", Scene::of(web()).has(other(&web())), refused()),
        (
            "another Work's id is no matter of overwriting: two would fight for ever",
            Scene::of(overwrite).has(other(&web())),
            refused(),
        ),
        (
            "an earlier Work's of the same template: ours",
            Scene::of(done(&web())).has(without(object(&web()), json!({"labels": {ID: "w0"}}))),
            vec!["replace"],
        ),
        // specification/propagation.md 31 row 8.
        (
            "a terminating object is not touched; its end brings the Work back",
            Scene::of(done(&web())).has(terminating(object(&web()))),
            vec!["Dispatching=True/Dispatching Applied=False/Terminating"],
        ),
        (
            "said: quiet",
            {
                let scene = Scene::of(done(&web())).has(terminating(object(&web())));
                scene.after(&scene.plan())
            },
            vec![],
        ),
        (
            "it is deleted: made anew, and no event for what was no failure",
            {
                let scene = Scene::of(done(&web())).has(terminating(object(&web())));
                Scene { object: Some(None), ..scene.after(&scene.plan()) }
            },
            vec!["create", WELL],
        ),
        (
            "no event announces the end of an unmanaged object",
            Scene::of(web()).has(terminating(unmanaged(&web()))),
            vec!["Dispatching=True/Dispatching Applied=False/Terminating", "retry"],
        ),
        (
            "nor of an object of another Work",
            Scene::of(web())
                .has(terminating(without(object(&web()), json!({"annotations": {"work.karmada.io/name": "w2"}})))),
            vec!["Dispatching=True/Dispatching Applied=False/Terminating", "retry"],
        ),
        // specification/propagation.md 14
        (
            "replicas to retain, but the member has none",
            {
                let work = work(
                    changed(
                        deployment(),
                        json!({"metadata": {"labels": {"resourcetemplate.karmada.io/retain-replicas": "true"}}}),
                    ),
                    "",
                );
                let bare = changed(object(&work), json!({"spec": {"replicas": null}}));
                Scene::of(work).has(bare)
            },
            refused(),
        ),
        // specification/autoscaling.md 5
        ("replicas to retain, but they are zero: assigned once", at_zero(retaining()), vec!["replace", WELL]),
        ("replicas to retain, and zero again after they were assigned", at_zero(done(&retaining())), vec![]),
    ];
    for name in READ_FIRST {
        assert!(rows.iter().any(|row| row.0 == name), "{name} is a row");
    }
    for (name, scene, want) in rows {
        let plan = scene.plan();
        assert_eq!(words(&plan), want, "{name}");
        assert!(want.is_empty() || !plan.because.is_empty() || want == [WELL], "{name}: it says why");
        let want_cached = if READ_FIRST.contains(&name) { vec![READ] } else { want };
        assert_eq!(words(&scene.cached().plan()), want_cached, "{name}: without the object's content");
    }
}

/// A Work whose replicas the member decides.
fn retaining() -> Work {
    let label = json!({"metadata": {"labels": {"resourcetemplate.karmada.io/retain-replicas": "true"}}});
    work(changed(deployment(), label), "")
}

/// The object of the Work is in the member, without replicas.
fn at_zero(work: Work) -> Scene {
    let zero = changed(object(&work), json!({"spec": {"replicas": 0}}));
    Scene::of(work).has(zero)
}

#[test]
fn decisions_without_cached_content() {
    let drifted = changed(object(&web()), json!({"spec": {"replicas": 9}}));
    let relabelled = changed(object(&web()), json!({"metadata": {"labels": {"app": "other"}}}));
    let theirs = changed(object(&web()), json!({"metadata": {"labels": {"x": "agent"}}}));
    let unmanaged = changed(object(&web()), json!({"metadata": {"labels": {MANAGED: null, ID: null}}}));
    let refused_once = {
        let scene = Scene::of(web()).has(unmanaged.clone());
        scene.after(&scene.plan())
    };
    let anew = with(&refused_once.work, json!({"metadata": {"generation": 2}}));
    let rows: Vec<(&str, Scene, Vec<&str>)> = vec![
        ("as it should be: neither read nor written", Scene::of(done(&web())).has(object(&web())), vec![]),
        ("somebody's label besides", Scene::of(done(&web())).has(theirs), vec![]),
        ("drift is read before it is repaired", Scene::of(done(&web())).has(drifted), vec![READ]),
        ("so is a label", Scene::of(done(&web())).has(relabelled), vec![READ]),
        ("never sent, and the member has a default", Scene::of(web()).has(object(&web())), vec![READ]),
        ("not in the cache: created", Scene::of(web()), vec!["create", WELL]),
        (
            "not in the cache, and a create met an object before: looked at, at the price of one request",
            Scene { object: Some(None), ..refused_once.clone() },
            vec![READ],
        ),
        (
            "another manifest is another chance",
            Scene { object: Some(None), work: anew, ..refused_once },
            vec!["create", WELL, "Normal SyncSucceed Work", "Normal SyncSucceed Deployment"],
        ),
    ];
    for (name, scene, want) in rows {
        assert_eq!(words(&scene.cached().plan()), want, "{name}");
    }
}

#[test]
fn work_being_deleted() {
    let terminating = deleting(&web());
    let kept = with(&terminating, json!({"spec": {"preserveResourcesOnDeletion": true}}));
    let there = object(&web());
    let label = |patch: Value| changed(object(&web()), json!({"metadata": patch}));
    let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}});
    let leaves_with =
        |value: &str| json!({"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z", "annotations": {KEEP: value}}});
    let impersonator = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "karmada-impersonator", "uid": "uid-role"}});
    let release = r#"release ["other"]"#;
    let wanted = |scene: Scene| Scene { wanted_again: WantedAgain::Read, ..scene };
    let awaited = |scene: Scene| Scene { is_awaited: true, ..scene };
    let maybe = |scene: Scene| Scene { wanted_again: WantedAgain::Cached, ..scene };
    for (name, scene, want) in [
        (
            "ready: the object, then the finalizer",
            Scene::of(terminating.clone()).has(there.clone()),
            vec!["delete uid-member", release],
        ),
        ("absent", Scene::of(terminating.clone()), vec![release]),
        (
            "new copies wait for its end: the finalizer stays",
            awaited(Scene::of(terminating.clone()).has(there.clone())),
            vec!["delete uid-member", "retry after 5 s"],
        ),
        (
            "the same while a finalizer of the member keeps the object",
            awaited(Scene::of(terminating.clone()).has(label(json!({"deletionTimestamp": "2026-01-02T00:00:00Z"})))),
            vec!["retry after 5 s"],
        ),
        ("it has ended, and new copies may start", awaited(Scene::of(terminating.clone())), vec![release]),
        (
            "wanted again by a cached binding, which may be late: looked up",
            maybe(Scene::of(terminating.clone()).has(there.clone())),
            vec![READ_BINDING],
        ),
        (
            "the same while the member is not reachable",
            maybe(Scene::of(terminating.clone()).has(there.clone()).ready("False")),
            vec![READ_BINDING],
        ),
        ("not in the cache, which may be late: looked up", Scene::of(terminating.clone()).cached(), vec![READ]),
        (
            "suspension does not hold it",
            Scene::of(with(&terminating, json!({"spec": {"suspendDispatching": true}}))).has(there.clone()),
            vec!["delete uid-member", release],
        ),
        (
            "not managed any more: left alone",
            Scene::of(terminating.clone()).has(label(json!({"labels": {MANAGED: null}}))),
            vec![release],
        ),
        (
            "another Work's: left alone",
            Scene::of(terminating.clone())
                .has(label(json!({"labels": {ID: "w2"}, "annotations": {"work.karmada.io/name": "w2"}}))),
            vec![release],
        ),
        (
            "going already: not waited for",
            Scene::of(terminating.clone()).has(label(json!({"deletionTimestamp": "2026-01-02T00:00:00Z"}))),
            vec![release],
        ),
        ("not known yet", Scene::of(terminating.clone()).unknown(), vec![READ]),
        ("not ready: it waits", Scene::of(terminating.clone()).ready("Unknown").has(there.clone()), vec!["park"]),
        (
            "ready, not connected: it waits",
            Scene { connected: false, ..Scene::of(terminating.clone()).has(there.clone()) },
            vec!["park"],
        ),
        (
            "not ready and leaving: left behind",
            Scene::of(terminating.clone()).ready("False").cluster(leaving.clone()).has(there.clone()),
            vec![release],
        ),
        (
            "ready and leaving: cleaned",
            Scene::of(terminating.clone()).cluster(leaving.clone()).has(there.clone()),
            vec!["delete uid-member", release],
        ),
        (
            "ready and leaving, not connected: it waits",
            Scene { connected: false, ..Scene::of(terminating.clone()).cluster(leaving.clone()) },
            vec!["park"],
        ),
        ("no Cluster at all: left behind", Scene { cluster: None, ..Scene::of(terminating.clone()) }, vec![release]),
        (
            "our finalizer is off already",
            Scene::of(with(&terminating, json!({"metadata": {"finalizers": ["other"]}}))).has(there.clone()),
            vec![],
        ),
        (
            "no manifest, no object",
            Scene::of(with(&terminating, json!({"spec": {"workload": null}}))).unknown(),
            vec![release],
        ),
        (
            "the kind is not known any more",
            Scene { served: Served::No, ..Scene::of(terminating.clone()).unknown() },
            vec![WARN[0], WARN[1], "retry"],
        ),
        // Required again (specification/failover.md 14.1, karmada#5406).
        ("wanted again: it stays", wanted(Scene::of(terminating.clone()).has(there.clone())), vec![release]),
        (
            "wanted again in a cluster that is lost: it need not come back for that",
            wanted(Scene::of(terminating.clone()).ready("Unknown").has(there.clone())),
            vec![release],
        ),
        ("wanted again, not looked up", wanted(Scene::of(terminating.clone()).unknown()), vec![release]),
        (
            "wanted again by a binding, but the cluster leaves: cleaned",
            wanted(Scene::of(terminating.clone()).cluster(leaving.clone()).has(there.clone())),
            vec!["delete uid-member", release],
        ),
        // Preserved (specification/propagation.md 31 row 2).
        ("preserved: released, then the finalizer", Scene::of(kept.clone()).has(there.clone()), vec!["patch", release]),
        ("preserved, absent", Scene::of(kept.clone()), vec![release]),
        (
            "preserved, not managed any more",
            Scene::of(kept.clone()).has(label(json!({"labels": {MANAGED: null}}))),
            vec![release],
        ),
        (
            "preserved, another Work's",
            Scene::of(kept.clone())
                .has(label(json!({"labels": {ID: "w2"}, "annotations": {"work.karmada.io/name": "w2"}}))),
            vec![release],
        ),
        ("preserved, not ready", Scene::of(kept.clone()).ready("False").has(there.clone()), vec!["park"]),
        (
            "preserved, not ready and leaving",
            Scene::of(kept.clone()).ready("False").cluster(leaving.clone()).has(there.clone()),
            vec![release],
        ),
        // unjoin --keep-workloads.
        (
            "the member leaves",
            Scene::of(terminating.clone()).cluster(leaving).has(there.clone()),
            vec!["delete uid-member", release],
        ),
        (
            "the member leaves with its workloads: released",
            Scene::of(terminating.clone()).cluster(leaves_with("true")).has(there.clone()),
            vec!["patch", release],
        ),
        (
            "the member leaves with its workloads, absent",
            Scene::of(terminating.clone()).cluster(leaves_with("true")),
            vec![release],
        ),
        (
            "the member leaves without them",
            Scene::of(terminating.clone()).cluster(leaves_with("false")).has(there.clone()),
            vec!["delete uid-member", release],
        ),
        (
            "the member will leave with its workloads, and stays for now",
            Scene::of(terminating.clone()).cluster(json!({"metadata": {"annotations": {KEEP: "true"}}})).has(there),
            vec!["delete uid-member", release],
        ),
        (
            "the member leaves with its workloads: what is ours goes",
            Scene::of(deleting(&work(impersonator.clone(), "")))
                .cluster(leaves_with("true"))
                .has(object(&work(impersonator, ""))),
            vec!["delete uid-member", release],
        ),
    ] {
        let plan = scene.plan();
        assert_eq!(words(&plan), want, "{name}");
        // A read changes nothing.
        let changes = !want.is_empty() && want != ["read the binding"];
        assert!(!changes || !plan.because.is_empty() || name.starts_with("no manifest"), "{name}: it says why");
    }
}

#[test]
fn work_required_again_by_its_binding() {
    let id = "resourcebinding.karmada.io/permanent-id";
    let terminating = with(&deleting(&web()), json!({"metadata": {"labels": {id: "id-web"}}}));
    let binding = |patch: Value| -> ironclad_api::work::ResourceBinding {
        let mut base = json!({
            "metadata": {"namespace": "shop", "name": "web-deployment", "labels": {id: "id-web"}},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
                "clusters": [{"name": "m1"}],
            },
        });
        merge(&mut base, &patch);
        serde_json::from_value(base).unwrap()
    };
    let task = json!([{"fromCluster": "m1", "purgeMode": "Gracefully", "reason": "TaintUntolerated", "producer": "TaintManager"}]);
    for (name, work, patch, want) in [
        ("its cluster is a target", &terminating, json!({}), true),
        ("another one is", &terminating, json!({"spec": {"clusters": [{"name": "m2"}]}}), false),
        ("none is", &terminating, json!({"spec": {"clusters": null}}), false),
        (
            "a referrer needs it there",
            &terminating,
            json!({"spec": {"clusters": null, "requiredBy": [{"namespace": "shop", "name": "a", "clusters": [{"name": "m1"}]}]}}),
            true,
        ),
        (
            "it is being left, so no Work is made anew",
            &terminating,
            json!({"spec": {"clusters": null, "gracefulEvictionTasks": task}}),
            false,
        ),
        (
            "the binding goes too",
            &terminating,
            json!({"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}}),
            false,
        ),
        ("another binding of the name", &terminating, json!({"metadata": {"labels": {id: "id-other"}}}), false),
        ("a Work of nobody", &deleting(&web()), json!({}), false),
        ("the binding is of another object now", &terminating, json!({"spec": {"resource": {"name": "web2"}}}), false),
    ] {
        assert_eq!(is_wanted_again(work, Binding::from(&binding(patch))), want, "{name}");
    }
}

#[test]
fn missing_api_releases_the_work() {
    let scene = Scene::of(deleting(&web())).cluster(json!({"status": {"conditions": [
        {"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "CompleteAPIEnablements", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]}}));
    assert_eq!(words(&Scene { served: Served::No, ..scene.clone().unknown() }.plan()), [r#"release ["other"]"#]);
    // The object was applied in a version that the member dropped since.
    let scene = scene.cluster(json!({"status": {"apiEnablements": [
        {"groupVersion": "apps/v2", "resources": [{"name": "deployments", "kind": "Deployment"}]},
    ]}}));
    assert_eq!(words(&scene.clone().unknown().plan()), [READ]);
    assert_eq!(words(&scene.has(object(&web())).plan()), ["delete uid-member", r#"release ["other"]"#]);
}

#[test]
fn api_under_which_a_member_serves_a_kind() {
    let cluster = |versions: &[(&str, &str)]| {
        let list: Vec<_> = versions
            .iter()
            .map(|(version, kind)| json!({"groupVersion": version, "resources": [{"name": kind.to_lowercase(), "kind": kind}]}))
            .collect();
        crate::testkit::patched(&cluster("m1", "True"), &json!({"status": {"apiEnablements": list}}))
    };
    for (name, versions, want) in [
        ("its own version first", &[("x.io/v1", "Foo"), ("x.io/v2", "Foo")][..], Some("x.io/v2 Foo")),
        ("another version", &[("x.io/v1", "Foo")], Some("x.io/v1 Foo")),
        ("another kind", &[("x.io/v2", "Bar")], None),
        ("another group", &[("y.io/v2", "Foo")], None),
        ("nothing", &[], None),
    ] {
        let served = serving_api(&cluster(versions), &ironclad_fleet::Gvk::from_manifest("x.io/v2", "Foo"));
        assert_eq!(served.map(|(gvk, _)| gvk.to_string()).as_deref(), want, "{name}");
    }
}

#[test]
fn adopted_namespaces_are_not_deleted() {
    let namespace = |strategy: &str| {
        work(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "uid-ns"}}), strategy)
    };
    let theirs = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "u", "resourceVersion": "5", "labels": {"team": "x"}}, "spec": {"finalizers": ["kubernetes"]}});
    let exists = "Dispatching=True/Dispatching Applied=True/AlreadyExists";
    assert_eq!(words(&Scene::of(namespace("")).has(theirs.clone()).plan()), [exists], "it exists, that is enough");
    let left = Scene::of(deleting(&namespace(""))).has(theirs.clone()).plan();
    assert_eq!(words(&left), [r#"release ["other"]"#], "and it stays when the Work goes");

    let scene = Scene::of(namespace("overwrite")).has(theirs);
    let adopted = scene.after(&scene.plan());
    assert_eq!(words(&scene.plan()), ["patch", WELL], "adopted by metadata alone");
    assert_eq!(words(&adopted.plan()), Vec::<String>::new());
    let leaving = Scene { work: deleting(&adopted.work), ..adopted };
    assert_eq!(words(&leaving.plan()), ["patch", r#"release ["other"]"#], "an adopted namespace is never deleted");
    let after = leaving.after(&leaving.plan()).object.unwrap().unwrap();
    assert_eq!((&after["metadata"]["labels"], &after["metadata"]["annotations"]), (&json!({"team": "x"}), &json!({})));

    let ours = Scene::of(namespace(""));
    let made = ours.after(&ours.plan());
    let leaving = Scene { work: deleting(&made.work), ..made };
    assert_eq!(words(&leaving.plan()), ["delete uid-new", r#"release ["other"]"#], "one that we made goes");
}

#[test]
fn drift_is_what_a_reconcile_would_correct() {
    let drift = |object: Value| drifted(&web(), &object, &Interpreter::default());
    let there = |patch: Value| changed(object(&web()), patch);
    for (name, object, want) in [
        ("as it should be, with what the member adds", object(&web()), None),
        ("another value", there(json!({"spec": {"replicas": 9}})), Some("/spec/replicas")),
        ("a label that was taken", there(json!({"metadata": {"labels": {"app": null}}})), Some("/metadata/labels")),
        ("status is the member's", there(json!({"status": {"readyReplicas": 0}})), None),
        (
            "it is going",
            there(json!({"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}, "spec": {"replicas": 9}})),
            None,
        ),
        ("nobody's", there(json!({"metadata": {"labels": {ID: null, MANAGED: null}}, "spec": {"replicas": 9}})), None),
        ("another object", there(json!({"metadata": {"name": "other"}, "spec": {"replicas": 9}})), None),
    ] {
        assert_eq!(drift(object).as_deref(), want, "{name}");
    }
}

/// specification/autoscaling.md 6.7.
#[test]
fn versions_of_autoscalers_that_only_older_members_serve() {
    let of = |api_version: &str, kind: &str| {
        successor(&ironclad_fleet::Gvk::from_manifest(api_version, kind)).map(|gvk| gvk.to_string())
    };
    let hpa = "HorizontalPodAutoscaler";
    for (api_version, kind, want) in [
        ("autoscaling/v2beta2", hpa, Some("autoscaling/v2 HorizontalPodAutoscaler")),
        ("autoscaling/v2beta1", hpa, Some("autoscaling/v2 HorizontalPodAutoscaler")),
        ("autoscaling/v2", hpa, None),
        ("autoscaling/v1", hpa, None),
        ("x.io/v2beta2", hpa, None),
        ("autoscaling/v2beta2", "Scale", None),
    ] {
        assert_eq!(of(api_version, kind).as_deref(), want, "{api_version} {kind}");
    }
}
