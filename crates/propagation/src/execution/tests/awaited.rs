//! Objects wait for their namespace (specification/propagation.md 22, specification/propagation.md 13.2).

use std::time::Duration;

use super::*;
use crate::skipped_resources::Skipped;

/// Name, snapshot, Work and Namespace that propagate the namespace, skipped resources, and expected wait in seconds.
type Waits<'a> = (&'static str, Scene, Option<Work>, Option<Value>, Option<&'a Skipped>, Option<u64>);

#[test]
fn object_waits_for_its_namespace() {
    let at = |second: i64| Timestamp::from_second(now().as_second() + second).unwrap().to_string();
    let sent = |status: Value, metadata: Value| -> Work {
        let base = json!({
            "metadata": {"namespace": "karmada-es-m1", "name": "shop-x", "generation": 1, "creationTimestamp": at(-1)},
            "spec": {"workload": {"manifests": []}}, "status": status,
        });
        with(&work_of(base), json!({"metadata": metadata}))
    };
    let suspended = || with(&sent(json!({}), json!({})), json!({"spec": {"suspendDispatching": true}}));
    let applied_status = |status: &str| json!({"conditions": [{"type": "Applied", "status": status, "reason": "R", "message": "", "lastTransitionTime": at(-1)}]});
    let existing = |metadata: Value| {
        let mut namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "creationTimestamp": at(-1)}});
        merge(&mut namespace, &json!({"metadata": metadata}));
        namespace
    };
    let plain = || existing(json!({}));
    let made = |second: i64| json!({"creationTimestamp": at(second)});
    let scene = |second: i64| Scene::of(with(&web(), json!({"metadata": made(second)})));
    let skipped = Skipped::default();
    let leaves = json!({"metadata": {"deletionTimestamp": at(-1)}});
    let came_back = json!({"status": {"conditions": [
        {"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": at(-119)},
    ]}});
    let old = -3600;
    let rows: Vec<Waits<'_>> = vec![
        ("nobody knows it", scene(-1), None, None, Some(&skipped), None),
        // With a Work of the namespace.
        ("on its way", scene(-1), Some(sent(json!({}), json!({}))), None, Some(&skipped), Some(119)),
        (
            "on its way, by somebody else than namespace sync",
            scene(-1),
            Some(sent(json!({}), json!({}))),
            None,
            None,
            Some(119),
        ),
        ("it is there", scene(-1), Some(sent(applied_status("True"), json!({}))), None, Some(&skipped), None),
        (
            "it was refused: the object says so, too",
            scene(-1),
            Some(sent(applied_status("False"), json!({}))),
            None,
            Some(&skipped),
            None,
        ),
        ("it is suspended", scene(-1), Some(suspended()), None, Some(&skipped), None),
        ("it goes", scene(-1), Some(sent(json!({}), json!({"deletionTimestamp": at(-1)}))), None, Some(&skipped), None),
        // Without a Work of the namespace.
        ("it exists in the control plane", scene(-1), None, Some(plain()), Some(&skipped), Some(119)),
        ("it does, and nobody sends it", scene(-1), None, Some(plain()), None, None),
        ("it is skipped", scene(-1), None, Some(existing(json!({"name": "kube-x"}))), Some(&skipped), None),
        ("every member has it", scene(-1), None, Some(existing(json!({"name": "default"}))), Some(&skipped), None),
        (
            "its owner wants it to stay",
            scene(-1),
            None,
            Some(existing(json!({"labels": {"namespace.karmada.io/skip-auto-propagation": "true"}}))),
            Some(&skipped),
            None,
        ),
        ("it goes there", scene(-1), None, Some(existing(json!({"deletionTimestamp": at(-1)}))), Some(&skipped), None),
        (
            "the member goes: it is sent no namespace",
            scene(-1).cluster(leaves),
            None,
            Some(plain()),
            Some(&skipped),
            None,
        ),
        // The limit counts from the later creation.
        ("119 s after the Work was made", scene(-119), None, Some(existing(made(old))), Some(&skipped), Some(1)),
        ("after 120 s nobody waits", scene(-120), None, Some(existing(made(old))), Some(&skipped), None),
        ("119 s after the namespace was made", scene(old), None, Some(existing(made(-119))), Some(&skipped), Some(1)),
        ("after 120 s, too", scene(old), None, Some(existing(made(-120))), Some(&skipped), None),
        ("119 s after its Work was made", scene(old), Some(sent(json!({}), made(-119))), None, Some(&skipped), Some(1)),
        ("after 120 s of that", scene(old), Some(sent(json!({}), made(-120))), None, Some(&skipped), None),
        (
            "119 s after the member came back",
            scene(old).cluster(came_back),
            None,
            Some(existing(made(old))),
            Some(&skipped),
            Some(1),
        ),
    ];
    for (name, scene, work, namespace, synced, waits) in rows {
        let interpreter = Interpreter::default();
        let space = Space { work: work.as_ref(), namespace: namespace.as_ref(), synced, exists: false };
        let plan = decide(&Seen { namespace: space, ..scene.seen(&interpreter) }, now());
        let creates = matches!(plan.effects.first(), Some(Effect::CreateInMember(_)));
        let waiting = waits.map(|seconds| {
            [
                Effect::AwaitNamespace { namespace: "shop".into(), by_others: false },
                Effect::RetryAfter(Duration::from_secs(seconds)),
            ]
            .to_vec()
        });
        assert_eq!((!creates).then_some(plan.effects), waiting, "{name}");
        let says_why = plan.because.contains(&Reason::AwaitsNamespace { namespace: "shop".into() }.into());
        assert_eq!(says_why, waits.is_some(), "{name}: it says why");
        let there = decide(&Seen { namespace: Space { exists: true, ..space }, ..scene.seen(&interpreter) }, now());
        assert!(matches!(there.effects.first(), Some(Effect::CreateInMember(_))), "{name}: the member has it by now");
    }
}

#[test]
fn refused_object_is_retried_when_its_namespace_exists() {
    let interpreter = Interpreter::default();
    let cluster_wide = work(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}), "");
    let ending = "deployments.apps \"web\" is forbidden: unable to create new content in namespace shop because it is \
                  being terminated";
    // The last column: whether it waits, and also for a namespace of others.
    for (name, work, class, error, exists, waits) in [
        ("no such namespace", web(), "NotFound", "no", false, Some(true)),
        ("it is on its way out", web(), "Denied", ending, false, Some(true)),
        ("a policy forbids it", web(), "Denied", "no", false, Some(false)),
        ("invalid is invalid in any namespace", web(), "Invalid", "no", false, None),
        ("the namespace is there: something else is missing", web(), "NotFound", "no", true, None),
        ("no namespace at all", cluster_wide, "NotFound", "no", false, None),
        ("it goes", deleting(&web()), "NotFound", "no", false, None),
    ] {
        let scene = Scene::of(work);
        let space = Space { exists, ..Space::default() };
        let plan = failed(&Seen { namespace: space, ..scene.seen(&interpreter) }, class, error, now());
        let found = plan.effects.iter().find_map(|effect| match effect {
            Effect::AwaitNamespace { by_others, .. } => Some(*by_others),
            _ => None,
        });
        assert_eq!(found, waits, "{name}");
    }
}
