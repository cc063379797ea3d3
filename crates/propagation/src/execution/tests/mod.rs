mod awaited;
mod content;
mod messages;
mod ownership;
mod rows;

use ironclad_api::{Condition, Time, annotations, cluster::Cluster, conditions, work::WorkStatus};
use ironclad_fleet::{EventType, StatusPart};
use ironclad_interpreter::Interpreter;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{object::finished, *};
use crate::{
    template,
    testkit::{cluster, deployment, merge, work as work_of},
    work::manifest,
};

const ID: &str = "work.karmada.io/permanent-id";
const MANAGED: &str = "karmada.io/managed";
const KEEP: &str = "cluster.karmada.io/keep-workloads";
const STRATEGY: &str = "work.karmada.io/conflict-resolution";

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

/// A Work of `karmada-es-m1` for this template, generation 1, id `w1`, with its finalizer, as our binding controller
/// creates it.
fn work(mut template: Value, strategy: &str) -> Work {
    let marks = manifest::Marks {
        work_namespace: "karmada-es-m1",
        work_name: "web-x",
        work_id: "w1",
        conflict_resolution: strategy,
    };
    manifest::finish(&mut template, &marks);
    work_of(json!({
        "metadata": {"namespace": "karmada-es-m1", "name": "web-x", "uid": "uid-work", "generation": 1,
            "labels": {ID: "w1"}, "finalizers": ["karmada.io/execution-controller", "other"]},
        "spec": {"workload": {"manifests": [template]}},
    }))
}

fn web() -> Work {
    work(deployment(), "")
}

fn with(work: &Work, patch: Value) -> Work {
    crate::testkit::patched(work, &patch)
}

fn deleting(work: &Work) -> Work {
    with(work, json!({"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}}))
}

fn manifest_of(work: &Work) -> Value {
    work.spec.workload.manifests[0].object()
}

/// The object in the member after a create, with fields that its controllers and defaults add.
fn object(work: &Work) -> Value {
    let mut object = finished(work, &manifest_of(work)).into_owned();
    merge(
        &mut object,
        &json!({
            "metadata": {"uid": "uid-member", "resourceVersion": "5", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {"deployment.kubernetes.io/revision": "1"}},
            "spec": {"progressDeadlineSeconds": 600},
            "status": {"readyReplicas": 3},
        }),
    );
    object
}

fn changed(mut object: Value, patch: Value) -> Value {
    merge(&mut object, &patch);
    object
}

fn applied(work: &Work, status: &str, reason: &str, message: &str) -> Work {
    let mut work = work.clone();
    let set = |type_: &str, status: &str, reason: &str, message: &str, generation| Condition {
        observed_generation: generation,
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        ..conditions::condition(type_, status, reason, message)
    };
    let conditions = vec![
        set("Dispatching", "True", "Dispatching", "Work is being dispatched to member clusters.", None),
        set("Applied", status, reason, message, work.metadata.generation),
    ];
    work.status = Some(WorkStatus { conditions, ..WorkStatus::default() });
    work
}

fn done(work: &Work) -> Work {
    applied(work, "True", "AppliedSuccessful", "Manifest has been successfully applied")
}

/// One row: the whole snapshot, owned.
#[derive(Clone)]
struct Scene {
    work: Work,
    cluster: Option<Cluster>,
    connected: bool,
    object: Option<Option<Value>>,
    cached: bool,
    served: Served,
    wanted_again: WantedAgain,
    is_awaited: bool,
}

impl Scene {
    fn of(work: Work) -> Self {
        Self {
            work,
            cluster: Some(cluster("m1", "True")),
            connected: true,
            object: Some(None),
            cached: false,
            served: Served::Yes,
            wanted_again: WantedAgain::No,
            is_awaited: false,
        }
    }

    fn has(self, object: Value) -> Self {
        Self { object: Some(Some(object)), ..self }
    }

    /// The snapshot with a cache that dropped the object's content.
    fn cached(self) -> Self {
        Self { cached: true, ..self }
    }

    fn unknown(self) -> Self {
        Self { object: None, ..self }
    }

    fn cluster(self, patch: Value) -> Self {
        let cluster = self.cluster.map(|cluster| crate::testkit::patched(&cluster, &patch));
        Self { cluster, ..self }
    }

    fn ready(self, status: &str) -> Self {
        Self { cluster: Some(cluster("m1", status)), ..self }
    }

    fn seen<'a>(&'a self, interpreter: &'a Interpreter) -> Seen<'a> {
        let found = |object| compare_content(&self.work, object, interpreter);
        Seen {
            work: &self.work,
            cluster: self.cluster.as_ref(),
            connected: self.connected,
            object: match &self.object {
                None => Observed::Unknown,
                Some(None) if self.cached => Observed::Uncached,
                Some(None) => Observed::Absent,
                Some(Some(object)) if self.cached => Observed::Cached { object, found: found(object) },
                Some(Some(object)) => Observed::Present(object),
            },
            served: self.served,
            wanted_again: self.wanted_again,
            is_awaited: self.is_awaited,
            namespace: Space { exists: true, ..Space::default() },
            interpreter,
        }
    }

    fn plan(&self) -> Plan<Effect> {
        decide(&self.seen(&Interpreter::default()), now())
    }

    /// Applies the plan as a server and a status writer do.
    fn after(&self, plan: &Plan<Effect>) -> Self {
        let mut next = self.clone();
        let stored = |object: &Value, uid: &str, version: u64| {
            changed(object.clone(), json!({"metadata": {"uid": uid, "resourceVersion": version.to_string()}}))
        };
        for effect in &plan.effects {
            let there = next.object.clone().flatten();
            let version = |object: &Value| template::text(object, "/metadata/resourceVersion").parse().unwrap_or(0_u64);
            match effect {
                Effect::Read(_) => {
                    next.object.get_or_insert_default();
                    next.cached = false;
                }
                Effect::ReadBinding => next.wanted_again = WantedAgain::Read,
                Effect::CreateInMember(object) => {
                    assert!(there.is_none(), "create of what is there");
                    next.object = Some(Some(stored(object, "uid-new", 1)));
                }
                Effect::ReplaceInMember(object) => {
                    let there = there.expect("replaced object is there");
                    assert_eq!(version(object), version(&there), "the version that was seen");
                    let uid = template::text(&there, "/metadata/uid").to_owned();
                    next.object = Some(Some(stored(object, &uid, version(&there) + 1)));
                }
                Effect::PatchInMember { patch, .. } => {
                    let mut there = there.expect("patched object is there");
                    assert_eq!(version(patch), version(&there), "the version that was seen");
                    merge(&mut there, patch);
                    next.object = Some(Some(there));
                }
                Effect::DeleteInMember { uid, .. } => {
                    assert_eq!(uid, template::text(&there.expect("deleted object is there"), "/metadata/uid"));
                    next.object = Some(None);
                }
                Effect::WorkStatus(part) => {
                    let mut json = json!(next.work);
                    json["status"] = StatusPart::applied(&json["status"], &[part]);
                    next.work = serde_json::from_value(json).unwrap();
                }
                Effect::ReleaseWork { patch } => next.work = with(&next.work, patch.clone()),
                Effect::AwaitNamespace { .. }
                | Effect::Park
                | Effect::Retry
                | Effect::RetryAfter(_)
                | Effect::Event(_) => {}
            }
        }
        next
    }
}

/// A plan as text, one word per effect.
fn words(plan: &Plan<Effect>) -> Vec<String> {
    let mut words = Vec::new();
    for effect in &plan.effects {
        words.push(match effect {
            Effect::Read(key) => format!("read {key}"),
            Effect::ReadBinding => "read the binding".to_owned(),
            Effect::CreateInMember(_) => "create".into(),
            Effect::ReplaceInMember(_) => "replace".into(),
            Effect::PatchInMember { .. } => "patch".into(),
            Effect::DeleteInMember { uid, .. } => format!("delete {uid}"),
            Effect::WorkStatus(part) => {
                let one = |c: &Condition| format!("{}={}/{}", c.type_, c.status, c.reason);
                part.conditions.iter().map(one).collect::<Vec<_>>().join(" ")
            }
            Effect::ReleaseWork { patch } => format!("release {}", patch["metadata"]["finalizers"]),
            Effect::AwaitNamespace { namespace } => format!("await {namespace}"),
            Effect::Park => "park".into(),
            Effect::Retry => "retry".into(),
            Effect::RetryAfter(wait) => format!("retry after {} s", wait.as_secs()),
            Effect::Event(event) => format!("{} {} {}", event.type_.as_str(), event.reason, event.about.kind),
        });
    }
    words
}

/// The event that dispatching was suspended or resumed.
const DISPATCHING: &str = "Normal WorkDispatching Work";
const WELL: &str = "Dispatching=True/Dispatching Applied=True/AppliedSuccessful";
const FAILED: &str = "Dispatching=True/Dispatching Applied=False/AppliedFailed";
const WARN: [&str; 2] = ["Warning SyncFailed Work", "Warning SyncFailed Deployment"];

fn refused() -> Vec<&'static str> {
    vec![FAILED, WARN[0], WARN[1], "retry"]
}

/// Any JSON, including what no object is.
fn odd() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..3_i64).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "metadata", "labels", "annotations", "name", "kind", "apiVersion", "spec", "status", "finalizers", MANAGED, ID,
        "ownerReferences", "a",
    ]);
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..5)
                .prop_map(|m| Value::Object(m.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

fn labels() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-e]", "[0-2]", 0..4).prop_map(|map| json!(map))
}

fn settled(mut scene: Scene) -> (Scene, Vec<String>) {
    for _ in 0..4 {
        let plan = scene.plan();
        scene = scene.after(&plan);
    }
    let last = words(&scene.plan());
    (scene, last)
}

proptest! {
    #[test]
    fn decide_is_idempotent(
        strategy in prop::sample::select(vec!["", "abort", "overwrite"]),
        theirs in prop::option::of((labels(), prop::option::of("[0-3]"), any::<bool>(), prop::option::of(prop::sample::select(vec!["w1", "w2"])))),
        suspended in any::<bool>(), deleted in any::<bool>(), preserved in any::<bool>(), terminating in any::<bool>(),
        known in any::<bool>(), cached in any::<bool>(), ready in prop::sample::select(vec!["True", "False"]),
    ) {
        let work = work(deployment(), strategy);
        let mut scene = Scene::of(with(&work, json!({"spec": {"suspendDispatching": suspended, "preserveResourcesOnDeletion": preserved}}))).ready(ready);
        if deleted { scene.work = deleting(&scene.work); }
        if let Some((labels, replicas, managed, id)) = theirs {
            let mut there = object(&work);
            merge(&mut there, &json!({"metadata": {"labels": {MANAGED: null, ID: id, "app": null}}, "spec": {"replicas": replicas}}));
            merge(&mut there, &json!({"metadata": {"labels": labels}}));
            if managed { merge(&mut there, &json!({"metadata": {"labels": {MANAGED: "true"}}})); }
            if terminating { merge(&mut there, &json!({"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}})); }
            scene = scene.has(there);
        }
        if !known { scene = scene.unknown(); }
        if cached { scene = scene.cached(); }
        let (_, last) = settled(scene);
        prop_assert!(last.iter().all(|word| word == "retry" || word == "park"), "{:?}", last);
    }

    #[test]
    fn foreign_labels_are_kept_and_removed_ones_of_ours_deleted(
        first in labels(), second in labels(), theirs in prop::collection::btree_map("[f-h]", "[0-2]", 0..3),
        map in prop::sample::select(vec!["labels", "annotations"]),
    ) {
        let template = |of: &Value| {
            let mut template = deployment();
            template["metadata"][map] = of.clone();
            template
        };
        let scene = Scene::of(work(template(&first), ""));
        let mut scene = scene.after(&scene.plan());
        let mut there = scene.object.clone().flatten().unwrap();
        merge(&mut there, &json!({"metadata": {map: theirs}}));
        scene = scene.has(there);
        scene.work = with(&scene.work, json!({"metadata": {"generation": 2}, "spec": json!(work(template(&second), "").spec)}));
        let (after, last) = settled(scene);
        prop_assert!(last.is_empty(), "{:?}", last);
        let object = after.object.flatten().unwrap();
        let mut found = template::map(&object, &format!("/metadata/{map}"));
        found.retain(|key, _| !key.contains('/'));
        let mut want = theirs;
        want.extend(second.as_object().unwrap().iter().map(|(k, v)| (k.clone(), v.as_str().unwrap().to_owned())));
        prop_assert_eq!(found, want);
    }

    #[test]
    fn odd_objects_never_panic(manifest in odd(), there in odd(), deleted in any::<bool>(), preserved in any::<bool>()) {
        let mut odd = web();
        odd.spec.workload.manifests = vec![manifest.into()];
        odd.spec.preserve_resources_on_deletion = Some(preserved);
        let mut named = web();
        named.spec.preserve_resources_on_deletion = Some(preserved);
        for mut work in [odd, named] {
            if deleted { work = deleting(&work); }
            let scene = Scene::of(work).has(there.clone());
            let _ = scene.plan();
            let _ = failed(&scene.seen(&Interpreter::default()), "Invalid", "x", now());
            let _ = scene.cached().plan();
        }
    }
}
