//! What goes into a namespace waits for it (22; 13.2).

use super::*;
use crate::detect::Skipped;

/// A Work, the Work and the Namespace that bring its namespace, what is synced, and whether it waits.
type Waits<'a> = (&'static str, Scene, Option<Work>, Option<Value>, Option<&'a Skipped>, bool);

#[test]
fn what_comes_into_a_namespace_waits_for_it() {
    let at = |second: i64| Timestamp::from_second(now().as_second() + second).unwrap().to_string();
    let sent = |status: Value, metadata: Value| -> Work {
        let base = json!({
            "metadata": {"namespace": "karmada-es-m1", "name": "shop-x", "generation": 1, "creationTimestamp": at(-1)},
            "spec": {"workload": {"manifests": []}}, "status": status,
        });
        with(&work_of(base), json!({"metadata": metadata}))
    };
    let held = || with(&sent(json!({}), json!({})), json!({"spec": {"suspendDispatching": true}}));
    let told = |status: &str| json!({"conditions": [{"type": "Applied", "status": status, "reason": "R", "message": "", "lastTransitionTime": at(-1)}]});
    let stands = |metadata: Value| {
        let mut namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "creationTimestamp": at(-1)}});
        merge(&mut namespace, &json!({"metadata": metadata}));
        namespace
    };
    let plain = || stands(json!({}));
    let made = |second: i64| json!({"creationTimestamp": at(second)});
    let scene = |second: i64| Scene::of(with(&web(), json!({"metadata": made(second)})));
    let skipped = Skipped::default();
    let leaves = json!({"metadata": {"deletionTimestamp": at(-1)}});
    let came_back = json!({"status": {"conditions": [
        {"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": at(-119)},
    ]}});
    let old = -3600;
    let rows: Vec<Waits<'_>> = vec![
        ("nobody knows it", scene(-1), None, None, Some(&skipped), false),
        // Its Work is there.
        ("on its way", scene(-1), Some(sent(json!({}), json!({}))), None, Some(&skipped), true),
        (
            "on its way, by somebody else than namespace sync",
            scene(-1),
            Some(sent(json!({}), json!({}))),
            None,
            None,
            true,
        ),
        ("it is there", scene(-1), Some(sent(told("True"), json!({}))), None, Some(&skipped), false),
        (
            "it was refused: the object says so, too",
            scene(-1),
            Some(sent(told("False"), json!({}))),
            None,
            Some(&skipped),
            false,
        ),
        ("it is suspended", scene(-1), Some(held()), None, Some(&skipped), false),
        (
            "it goes",
            scene(-1),
            Some(sent(json!({}), json!({"deletionTimestamp": at(-1)}))),
            None,
            Some(&skipped),
            false,
        ),
        // Its Work follows.
        ("it stands in the control plane", scene(-1), None, Some(plain()), Some(&skipped), true),
        ("it does, and nobody sends it", scene(-1), None, Some(plain()), None, false),
        ("it is skipped", scene(-1), None, Some(stands(json!({"name": "kube-x"}))), Some(&skipped), false),
        ("every member has it", scene(-1), None, Some(stands(json!({"name": "default"}))), Some(&skipped), false),
        (
            "its owner wants it to stay",
            scene(-1),
            None,
            Some(stands(json!({"labels": {"namespace.karmada.io/skip-auto-propagation": "true"}}))),
            Some(&skipped),
            false,
        ),
        ("it goes there", scene(-1), None, Some(stands(json!({"deletionTimestamp": at(-1)}))), Some(&skipped), false),
        (
            "the member goes: it is sent no namespace",
            scene(-1).cluster(leaves),
            None,
            Some(plain()),
            Some(&skipped),
            false,
        ),
        // The bound counts from whatever came last.
        ("119 s after the Work was made", scene(-119), None, Some(stands(made(old))), Some(&skipped), true),
        ("after 120 s nobody waits", scene(-120), None, Some(stands(made(old))), Some(&skipped), false),
        ("119 s after the namespace was made", scene(old), None, Some(stands(made(-119))), Some(&skipped), true),
        ("after 120 s, too", scene(old), None, Some(stands(made(-120))), Some(&skipped), false),
        ("119 s after its Work was made", scene(old), Some(sent(json!({}), made(-119))), None, Some(&skipped), true),
        ("after 120 s of that", scene(old), Some(sent(json!({}), made(-120))), None, Some(&skipped), false),
        (
            "119 s after the member came back",
            scene(old).cluster(came_back),
            None,
            Some(stands(made(old))),
            Some(&skipped),
            true,
        ),
    ];
    for (name, scene, work, namespace, synced, waits) in rows {
        let interpreter = Interpreter::default();
        let space = Space { work: work.as_ref(), namespace: namespace.as_ref(), synced };
        let plan = decide(&Seen { namespace: space, ..scene.seen(&interpreter) }, now());
        assert_eq!(plan.effects == [Effect::Retry], waits, "{name}");
        let says_why = plan.because.contains(&Reason::AwaitsNamespace { namespace: "shop".into() }.into());
        assert_eq!(says_why, waits, "{name}: it says why");
    }
}
