//! Events and messages: their text and how often they are written (specification/propagation.md 1.1,
//! specification/propagation.md 13.1; specification/propagation.md 31 row 19).

use super::*;

fn conditions_of(plan: &Plan<Effect>) -> Vec<&Condition> {
    let parts = plan.effects.iter().filter_map(|e| if let Effect::WorkStatus(part) = e { Some(part) } else { None });
    parts.flat_map(|part| &part.conditions).collect()
}

#[test]
fn event_messages() {
    let applied_message = |scene: &Scene| {
        let plan = scene.plan();
        let list = conditions_of(&plan);
        list.iter().find(|c| c.type_ == "Applied").unwrap().message.clone()
    };
    let unmanaged = changed(object(&web()), json!({"metadata": {"labels": {MANAGED: null, ID: null}}}));
    let owned = changed(
        unmanaged.clone(),
        json!({"metadata": {"ownerReferences": [{"kind": "App", "name": "shop", "controller": true}]}}),
    );
    let helm = changed(unmanaged.clone(), json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}}));
    let theirs = changed(
        object(&web()),
        json!({"metadata": {"labels": {ID: "w2"}, "annotations": {"work.karmada.io/name": "web-y"}}}),
    );
    let remedy = "Karmada will not manage this resource: set the annotation work.karmada.io/conflict-resolution: overwrite \
        on the template or conflictResolution: Overwrite in its policy to take it over, or delete it in the member";
    let head =
        "Failed to apply all manifests (0/1): resource(kind=Deployment, shop/web) already exists in the cluster m1";
    let strategy = format!("and the {STRATEGY} strategy value is");
    for (scene, want) in [
        (Scene::of(web()).has(unmanaged.clone()), format!("{head} {strategy} not set, which means abort, {remedy}")),
        (Scene::of(work(deployment(), "abort")).has(unmanaged), format!("{head} {strategy} \"abort\", {remedy}")),
        (Scene::of(web()).has(helm), format!("{head}, managed by Helm, {strategy} not set, which means abort, {remedy}")),
        (Scene::of(web()).has(owned), format!("{head}, managed by App shop, {strategy} not set, which means abort, {remedy}")),
        (
            Scene::of(web()).has(theirs),
            format!(
                "{head}, managed by Work karmada-es-m1/web-y, id w2, {strategy} not set, which means abort, Karmada will not \
                 manage this resource: two control planes or two Works claim it; delete one of the claims, or take the label \
                 {ID} off the object in the member to give it to this one"
            ),
        ),
        (
            Scene { served: Served::No, ..Scene::of(web()) },
            "Failed to apply all manifests (0/1): the control plane does not serve apps/v1 Deployment: install its CRD there as \
             well"
                .to_owned(),
        ),
        (
            Scene::of(with(&web(), json!({"spec": {"workload": {"manifests": [{}, {}]}}}))),
            "Failed to apply all manifests (0/2): a Work holds one manifest, this one holds 2: make one Work for each object"
                .to_owned(),
        ),
    ] {
        assert_eq!(applied_message(&scene), want);
    }
}

#[test]
fn refusal_and_recovery_are_reported_once() {
    let scene = Scene::of(web());
    let plan = scene.plan();
    assert_eq!(words(&plan), ["create", WELL], "sent in this order: the report comes after the write");
    let interpreter = Interpreter::default();
    let report = failed(&scene.seen(&interpreter), "Denied", "admission webhook denied: no latest", now());
    assert_eq!(words(&report), refused());
    let applied = conditions_of(&report)[1];
    assert_eq!(applied.message, "Failed to apply all manifests (0/1): admission webhook denied: no latest");
    assert_eq!(applied.last_transition_time, Time(now()));
    let Effect::Event(event) = &report.effects[2] else { panic!("{report:?}") };
    assert_eq!((event.type_, &*event.about.uid), (EventType::Warning, "uid-web"), "the template's");
    assert_eq!(event.message, "cluster m1: Failed to apply all manifests (0/1): admission webhook denied: no latest");
    let after = scene.after(&report);
    assert_eq!(
        words(&failed(&after.seen(&interpreter), "Denied", "admission webhook denied: no latest", now())),
        ["retry"]
    );
    let other = failed(&after.seen(&interpreter), "Denied", "another", now());
    assert_eq!(words(&other), refused(), "another message is news");
    let plan = after.plan();
    assert_eq!(words(&plan), ["create", WELL, "Normal SyncSucceed Work", "Normal SyncSucceed Deployment"]);
    assert_eq!(words(&after.after(&plan).plan()), Vec::<String>::new());
    let terminating = Scene { work: deleting(&after.work), ..after };
    let report = failed(&terminating.seen(&interpreter), "Denied", "no", now());
    assert_eq!(words(&report), [WARN[0], WARN[1], "retry"], "a Work that goes does not say that it was not applied");
}

#[test]
fn object_that_something_else_changes_back_is_reported_until_it_stays_as_applied() {
    let drifted = changed(object(&web()), json!({"spec": {"replicas": 9}}));
    let scene = Scene::of(done(&web())).has(drifted);
    let interpreter = Interpreter::default();
    let at = |seconds: i64| Timestamp::from_second(now().as_second() + seconds).unwrap();
    let report = failed(&scene.seen(&interpreter), "HotLoop", "too often", now());
    assert_eq!(
        words(&report),
        ["Degraded=True/ChangedByAnotherWriter", "Warning HotLoop Work", "Warning HotLoop Deployment"],
        "Applied stays"
    );
    let scene = scene.after(&report);
    assert_eq!(words(&failed(&scene.seen(&interpreter), "HotLoop", "too often", at(5))), Vec::<String>::new(), "once");
    let repaired = decide(&scene.seen(&interpreter), at(300));
    assert_eq!(words(&repaired), ["replace", "retry after 60 s"], "it may be changed back");
    let scene = scene.after(&repaired);
    assert_eq!(words(&decide(&scene.seen(&interpreter), at(59))), ["retry after 60 s"], "soon after the report");
    let plan = decide(&scene.seen(&interpreter), at(360));
    assert_eq!(words(&plan), ["Degraded=False/StaysApplied"]);
    assert_eq!(words(&decide(&scene.after(&plan).seen(&interpreter), at(361))), Vec::<String>::new());
}

#[test]
fn retry_depends_on_the_failure_class() {
    let (living, terminating) = (Scene::of(web()), Scene::of(deleting(&web())));
    for (class, scene, want) in [
        ("Invalid", &living, "retry"),
        ("ServerError", &living, "retry"),
        ("Denied", &living, "retry"),
        ("NotFound", &living, "retry"),
        ("Invalid", &terminating, "retry"),
    ] {
        let plan = failed(&scene.seen(&Interpreter::default()), class, "no", now());
        assert_eq!(words(&plan).last().map(String::as_str), Some(want), "{class}");
        let again = scene.after(&plan);
        let plan = failed(&again.seen(&Interpreter::default()), class, "no", now());
        assert_eq!(words(&plan).last().map(String::as_str), Some(want), "{class}, reported already");
    }
}

#[test]
fn applied_condition_shows_earlier_success() {
    for (name, work, want) in [
        ("nothing is said", web(), false),
        ("applied", done(&web()), true),
        ("not applied", applied(&web(), "False", "AppliedFailed", "m"), false),
    ] {
        assert_eq!(was_applied(&work), want, "{name}");
    }
}

#[test]
fn long_error_is_truncated() {
    let scene = Scene::of(web());
    let plan = failed(&scene.seen(&Interpreter::default()), "Denied", &"ä".repeat(100_000), now());
    let message = &conditions_of(&plan)[1].message;
    assert!(message.len() < 4200 && message.ends_with("ä ..."), "{} bytes", message.len());
}

#[test]
fn failure_classes_that_concern_the_work() {
    for (class, at_once, at_last) in [
        ("Denied", true, true),
        ("OverQuota", true, true),
        ("Invalid", true, true),
        ("NotFound", true, true),
        ("HotLoop", true, true),
        ("Throttled", false, true),
        ("Unavailable", false, true),
        ("ServerError", false, true),
        ("Conflict", false, false),
        ("AlreadyExists", false, false),
        ("Unknown", false, false),
    ] {
        assert_eq!([0, 7, 8].map(|failures| is_verdict(class, failures)), [at_once, at_once, at_last], "{class}");
    }
}

#[test]
fn dropped_fields_are_reported_once_and_end_with_an_answer_that_has_them() {
    let scene = Scene::of(done(&web()));
    let fields = ["/spec/a".to_owned(), "/spec/b".to_owned()];
    let plan = dropped(&scene.seen(&Interpreter::default()), &fields, now());
    let applied = conditions_of(&plan)[1];
    assert_eq!((&*applied.status, &*applied.reason), ("False", "FieldsDropped"));
    assert_eq!(
        applied.message,
        "the member keeps the object without /spec/a, /spec/b: update the definition of the kind there, or take the \
         fields out of the template"
    );
    let after = scene.after(&plan);
    assert_eq!(words(&dropped(&after.seen(&Interpreter::default()), &fields, now())), ["retry"]);
    let plan = after.plan();
    assert_eq!(words(&plan), ["create", WELL, "Normal SyncSucceed Work", "Normal SyncSucceed Deployment"]);
}
