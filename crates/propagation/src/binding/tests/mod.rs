use ironclad_api::work::{ClusterResourceBinding, ResourceBinding};
use proptest::prelude::*;

use super::*;
use crate::testkit::{self, cluster, deployment, ids, merge, patched, work};

mod purge;
mod waits;

/// Time at which Works are deleted.
const DELETED: &str = "2026-01-01T00:00:00Z";

/// A binding with its template and Works. Applies effects as the reconciler does.
struct World {
    binding: ResourceBinding,
    template: Option<Value>,
    works: Vec<Arc<Work>>,
    clusters: BTreeMap<ClusterName, Arc<Cluster>>,
    overrides: Vec<Arc<OverridePolicy>>,
    options: Options,
    member_replicas: Option<&'static str>,
    /// Other owners of Works that exist.
    owned: Vec<(WorkKey, Owner)>,
    now: Timestamp,
}

impl World {
    fn new(targets: &[(&str, i32)]) -> Self {
        let clusters =
            ["m1", "m2", "m3"].iter().map(|n| (ClusterName::from(*n), Arc::new(cluster(n, "True")))).collect();
        Self {
            binding: testkit::binding(targets),
            template: Some(deployment()),
            works: Vec::new(),
            clusters,
            overrides: Vec::new(),
            options: Options::default(),
            member_replicas: None,
            owned: Vec::new(),
            now: DELETED.parse().unwrap(),
        }
    }

    fn reconcile(&mut self) -> Plan<Effect> {
        let id = self
            .binding
            .metadata
            .labels
            .as_ref()
            .and_then(|l| l.get("resourcebinding.karmada.io/permanent-id"))
            .cloned();
        let own = |work: &&Arc<Work>| {
            work.metadata.labels.as_ref().and_then(|l| l.get("resourcebinding.karmada.io/permanent-id")) == id.as_ref()
        };
        let (works, named): (Vec<_>, Vec<_>) = self.works.iter().partition(|work| own(work));
        let (works, named): (Vec<_>, Vec<_>) =
            (works.into_iter().cloned().collect(), named.into_iter().cloned().collect());
        let plan = decide(
            &Seen {
                binding: Binding::from(&self.binding),
                template: self.template.as_ref(),
                works: &works,
                named: &named,
                owned: &self.owned,
                clusters: &self.clusters,
                cluster_overrides: &[],
                overrides: &self.overrides,
                quotas: &[],
                interpreter: &Interpreter::default(),
                member_replicas: self.member_replicas,
                members_may_rest: false,
                namespace_sync: None,
                options: &self.options,
                // The wait for the scheduler is over, so that schedule results of tests need not add up.
                waited: await_scheduler::WAIT_MAX,
                now: self.now,
            },
            ids("new"),
        );
        for effect in &plan.effects {
            match effect {
                Effect::PatchBinding { patch } => self.binding = patched(&self.binding, patch),
                Effect::Create(work) => {
                    self.works.push(Arc::new(patched(&**work, &json!({"metadata": {"uid": "u", "generation": 1}}))))
                }
                Effect::Patch { key, patch } => {
                    let at = self.works.iter().position(|work| key_of(work).as_ref() == Some(key)).unwrap();
                    self.works[at] = Arc::new(patched(&*self.works[at], patch));
                }
                Effect::Delete { key, .. } | Effect::DeleteOnceReplaced { key, .. } => {
                    let at = self.works.iter().position(|work| key_of(work).as_ref() == Some(key)).unwrap();
                    self.works[at] =
                        Arc::new(patched(&*self.works[at], &json!({"metadata": {"deletionTimestamp": DELETED}})));
                }
                Effect::CopiesNotMade(_)
                | Effect::AwaitScheduler(_)
                | Effect::RequeueAfter(_)
                | Effect::Retry
                | Effect::Event(_) => {}
            }
        }
        plan
    }

    fn go(&mut self) {
        let _applied = self.reconcile();
    }

    /// Removes the finalizers of Works being deleted, as the execution controller does.
    fn finish_deletions(&mut self) {
        self.works.retain(|work| work.metadata.deletion_timestamp.is_none());
    }

    fn at(&self, cluster: &str) -> &Work {
        self.works.iter().find(|w| w.metadata.namespace.as_deref() == Some(&format!("karmada-es-{cluster}"))).unwrap()
    }

    fn manifest(&self, cluster: &str) -> Value {
        self.at(cluster).spec.workload.manifests[0].object()
    }

    fn places(&self) -> Vec<String> {
        let mut all: Vec<String> = self
            .works
            .iter()
            .filter(|w| w.metadata.deletion_timestamp.is_none())
            .filter_map(|w| Some(key_of(w)?.cluster.to_string()))
            .collect();
        all.sort();
        all
    }
}

fn kinds(plan: &Plan<Effect>) -> Vec<&'static str> {
    plan.effects
        .iter()
        .map(|effect| match effect {
            Effect::PatchBinding { .. } => "binding",
            Effect::Create(_) => "create",
            Effect::Patch { .. } => "patch",
            Effect::Delete { .. } => "delete",
            Effect::DeleteOnceReplaced { .. } => "delete once replaced",
            Effect::CopiesNotMade(_) => "not made",
            Effect::AwaitScheduler(_) => "await",
            Effect::RequeueAfter(_) => "requeue",
            Effect::Retry => "retry",
            Effect::Event(_) => "event",
        })
        .collect()
}

#[test]
fn one_work_per_target_with_its_replicas() {
    let mut world = World::new(&[("m1", 2), ("m2", 1)]);
    assert_eq!(kinds(&world.reconcile()), ["create", "create"]);
    assert!(world.reconcile().is_quiet());
    let work = world.at("m1");
    assert_eq!(
        json!(work.metadata),
        json!({
            "name": names::work_name("Deployment", "shop", "web"), "namespace": "karmada-es-m1", "uid": "u", "generation": 1,
            "labels": {"resourcebinding.karmada.io/permanent-id": "rb-id", "work.karmada.io/permanent-id": "new-1"},
            "annotations": {"resourcebinding.karmada.io/namespace": "shop", "resourcebinding.karmada.io/name": "web-deployment", "work.karmada.io/conflict-resolution": "abort"},
            "finalizers": ["karmada.io/execution-controller"],
        })
    );
    assert_eq!(
        (work.spec.suspend_dispatching, work.spec.preserve_resources_on_deletion),
        (Some(false), Some(false)),
        "always explicit"
    );
    let manifest = world.manifest("m1");
    assert_eq!(manifest.pointer("/spec/replicas"), Some(&json!(2)));
    assert_eq!(world.manifest("m2").pointer("/spec/replicas"), Some(&json!(1)));
    let mut labels: Vec<&String> = manifest["metadata"]["labels"].as_object().unwrap().keys().collect();
    labels.sort();
    assert_eq!(
        labels,
        ["app", "karmada.io/managed", "resourcebinding.karmada.io/permanent-id", "work.karmada.io/permanent-id"]
    );
    assert_eq!(template::annotation(&manifest, "resourcetemplate.karmada.io/generation"), "1");
    assert_eq!(template::annotation(&manifest, "resourcebinding.karmada.io/name"), "web-deployment");
    assert_eq!(template::annotation(&manifest, "work.karmada.io/namespace"), "karmada-es-m1");
}

#[test]
fn changes_of_template_and_binding_update_the_works() {
    for (name, change, pointer, want) in [
        (
            "the image",
            json!({"spec": {"paused": true}, "metadata": {"generation": 2}}),
            "/spec/workload/manifests/0/spec/paused",
            json!(true),
        ),
        (
            "the generation",
            json!({"metadata": {"generation": 2}}),
            "/spec/workload/manifests/0/metadata/annotations/resourcetemplate.karmada.io~1generation",
            json!("2"),
        ),
    ] {
        let mut world = World::new(&[("m1", 2)]);
        world.go();
        merge(world.template.as_mut().unwrap(), &change);
        assert_eq!(kinds(&world.reconcile()), ["patch"], "{name}");
        assert_eq!(json!(world.at("m1")).pointer(pointer), Some(&want), "{name}");
        assert!(world.reconcile().is_quiet(), "{name}");
    }
    for (name, change, pointer, want) in [
        (
            "replicas",
            json!({"clusters": [{"name": "m1", "replicas": 5}]}),
            "/spec/workload/manifests/0/spec/replicas",
            json!(5),
        ),
        (
            "none left: the member gets 0",
            json!({"clusters": [{"name": "m1"}]}),
            "/spec/workload/manifests/0/spec/replicas",
            json!(0),
        ),
        ("suspended everywhere", json!({"suspension": {"dispatching": true}}), "/spec/suspendDispatching", json!(true)),
        (
            "suspended here",
            json!({"suspension": {"dispatchingOnClusters": {"clusterNames": ["m1"]}}}),
            "/spec/suspendDispatching",
            json!(true),
        ),
        (
            "suspended elsewhere",
            json!({"preserveResourcesOnDeletion": true, "suspension": {"dispatchingOnClusters": {"clusterNames": ["m2"]}}}),
            "/spec/suspendDispatching",
            json!(false),
        ),
        ("preserved", json!({"preserveResourcesOnDeletion": true}), "/spec/preserveResourcesOnDeletion", json!(true)),
        (
            "overwrite",
            json!({"conflictResolution": "Overwrite"}),
            "/metadata/annotations/work.karmada.io~1conflict-resolution",
            json!("overwrite"),
        ),
    ] {
        let mut world = World::new(&[("m1", 2)]);
        world.go();
        world.binding = patched(&world.binding, &json!({"spec": change}));
        assert_eq!(kinds(&world.reconcile()), ["patch"], "{name}");
        assert_eq!(json!(world.at("m1")).pointer(pointer), Some(&want), "{name}");
        assert!(world.reconcile().is_quiet(), "{name}");
    }
}

#[test]
fn status_change_writes_nothing() {
    let mut world = World::new(&[("m1", 2)]);
    world.go();
    merge(world.template.as_mut().unwrap(), &json!({"status": {"replicas": 2}, "metadata": {"resourceVersion": "99"}}));
    assert!(world.reconcile().is_quiet());
}

#[test]
fn template_conflict_resolution_takes_precedence() {
    for (wish, policy, want) in [
        ("overwrite", ConflictResolution::Abort, "overwrite"),
        ("abort", ConflictResolution::Overwrite, "abort"),
        ("Overwrite", ConflictResolution::Abort, "abort"),
        ("nonsense", ConflictResolution::Overwrite, "overwrite"),
        ("", ConflictResolution::Overwrite, "overwrite"),
    ] {
        let mut template = deployment();
        template["metadata"]["annotations"] = json!({"work.karmada.io/conflict-resolution": wish});
        assert_eq!(conflict_resolution(&template, Some(policy)), want, "{wish:?} with {policy:?}");
    }
    assert_eq!(conflict_resolution(&deployment(), None), "abort");
}

#[test]
fn targets_and_expected_clusters() {
    let spec = patched(
        &testkit::binding(&[("m2", 1), ("m1", 2)]),
        &json!({"spec": {
            "requiredBy": [{"name": "a", "clusters": [{"name": "m3"}, {"name": "m1", "replicas": 9}]}],
            "gracefulEvictionTasks": [
                {"fromCluster": "old", "purgeMode": "Gracefully", "reason": "R", "producer": "P"},
                {"fromCluster": "kept", "purgeMode": "Never", "reason": "R", "producer": "P"},
                {"fromCluster": "gone", "purgeMode": "Directly", "reason": "R", "producer": "P"},
                {"fromCluster": "plain", "reason": "R", "producer": "P"}]}}),
    )
    .spec;
    let names: Vec<String> = targets(&spec).iter().map(|t| format!("{}:{}", t.cluster, t.replicas)).collect();
    assert_eq!(names, ["m2:1", "m1:2", "m3:0"], "the scheduler's first, then the referrers', in order");
    let expected: Vec<String> = expected_clusters(&spec).iter().map(ToString::to_string).collect();
    assert_eq!(expected, ["kept", "m1", "m2", "m3", "old", "plain"]);
}

#[test]
fn orphans_are_deleted_and_evicted_clusters_keep_their_work() {
    let mut world = World::new(&[("m1", 1), ("m2", 1)]);
    world.go();
    world.binding = patched(
        &world.binding,
        &json!({"spec": {"clusters": [{"name": "m3", "replicas": 1}], "gracefulEvictionTasks": [{"fromCluster": "m1", "purgeMode": "Gracefully", "reason": "R", "producer": "P"}]}}),
    );
    merge(world.template.as_mut().unwrap(), &json!({"metadata": {"generation": 2}}));
    let before = world.at("m1").clone();
    assert_eq!(kinds(&world.reconcile()), ["create", "delete once replaced"]);
    assert_eq!(world.places(), ["m1", "m3"]);
    assert_eq!(*world.at("m1"), before, "the copy that is being left stays as it was");
    assert!(world.reconcile().is_quiet());
}

#[test]
fn moved_workload_always_has_a_copy() {
    let fails = json!({"overrideRules": [{"overriders": {"plaintext": [{"path": "/spec/no/such", "operator": "replace", "value": 1}]}}]});
    let failing: OverridePolicy =
        serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "o"}, "spec": fails})).unwrap();
    for (name, to, overridden, want, places) in [
        ("all move", &["m2"][..], false, &["create", "delete once replaced"][..], &["m2"][..]),
        ("one target has its copy", &["m1", "m3"], false, &["patch", "create", "delete"], &["m1", "m3"]),
        (
            "no target can be written: the old one stays",
            &["m3"],
            true,
            &["not made", "event", "event", "event", "retry"],
            &["m1", "m2"],
        ),
        (
            "one exists, though it cannot be updated",
            &["m1"],
            true,
            &["event", "event", "event", "retry", "delete"],
            &["m1"],
        ),
        ("nowhere at all is what was requested", &[], false, &["delete", "delete"], &[]),
    ] {
        let from = if to == ["m2"] { &[("m1", 1)][..] } else { &[("m1", 1), ("m2", 1)] };
        let mut world = World::new(from);
        world.go();
        let clusters: Vec<Value> = to.iter().map(|name| json!({"name": name, "replicas": 2})).collect();
        world.binding = patched(&world.binding, &json!({"spec": {"clusters": clusters}}));
        world.overrides = overridden.then(|| Arc::new(failing.clone())).into_iter().collect();
        assert_eq!(kinds(&world.reconcile()), want, "{name}");
        assert_eq!(world.places(), places, "{name}");
    }
}

#[test]
fn directly_purged_copy_is_deleted_before_replacement_is_created() {
    let directly = |extra: Value| {
        let mut patch = json!({"spec": {"clusters": [{"name": "m2", "replicas": 1}], "gracefulEvictionTasks": [{"fromCluster": "m1", "purgeMode": "Directly", "reason": "R", "producer": "P"}]}});
        merge(&mut patch, &extra);
        patch
    };
    let stateful = json!({"spec": {"failover": {"cluster": {"statePreservation": {"rules": []}}}}});
    let mut forced = stateful.clone();
    merge(&mut forced, &json!({"metadata": {"annotations": {"failover.ironclad.io/proceed-without-cleanup": "true"}}}));
    for (name, ready, extra, waits) in [
        ("the cluster is ready: wait", "True", json!({}), true),
        ("it is not: go on", "Unknown", json!({}), false),
        ("it is not, but the workload has state: wait", "Unknown", stateful, true),
        ("unless a person says so", "Unknown", forced.clone(), false),
        ("a person cannot hurry a ready cluster", "True", forced, true),
    ] {
        let mut world = World::new(&[("m1", 1)]);
        world.go();
        world.clusters.insert("m1".into(), Arc::new(cluster("m1", ready)));
        world.binding = patched(&world.binding, &directly(extra));
        let plan = world.reconcile();
        if waits {
            assert_eq!(kinds(&plan), ["delete", "requeue"], "{name}");
            assert_eq!(plan.effects[1], Effect::RequeueAfter(Duration::from_secs(5)));
            assert_eq!(kinds(&world.reconcile()), ["requeue"], "{name}");
            world.finish_deletions();
            assert_eq!(kinds(&world.reconcile()), ["create"], "{name}");
        } else {
            assert_eq!(kinds(&plan), ["delete", "create"], "{name}");
        }
    }
}

#[test]
fn replicas_without_a_place_stay_in_a_ready_cluster_that_is_left_directly() {
    let divided =
        json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    let to = |m2: i32| {
        let clusters = if m2 > 0 { json!([{"name": "m2", "replicas": m2}]) } else { Value::Null };
        json!({"spec": {"clusters": clusters, "placement": divided, "gracefulEvictionTasks": [
            {"fromCluster": "m1", "purgeMode": "Directly", "reason": "R", "producer": "P", "replicas": 3}]}})
    };
    let replicas = |world: &World, cluster: &str| {
        world.at(cluster).spec.workload.manifests[0].object().get("spec").unwrap()["replicas"].clone()
    };
    let mut world = World::new(&[("m1", 3)]);
    world.go();
    world.clusters.insert("m1".into(), Arc::new(cluster("m1", "True")));
    world.binding = patched(&world.binding, &to(0));
    assert!(world.reconcile().is_quiet(), "all stay");
    world.binding = patched(&world.binding, &to(1));
    assert_eq!(kinds(&world.reconcile()), ["create", "patch"], "one moves");
    assert_eq!((replicas(&world, "m2"), replicas(&world, "m1")), (json!(1), json!(2)));
    assert!(world.reconcile().is_quiet());
    world.binding = patched(&world.binding, &to(3));
    assert_eq!(kinds(&world.reconcile()), ["delete", "requeue"], "all have a place");
    world.finish_deletions();
    assert_eq!(kinds(&world.reconcile()), ["patch"]);
    world.binding = patched(&world.binding, &to(1));
    assert_eq!(kinds(&world.reconcile()), ["patch"], "a copy that is gone is not made again");
    assert_eq!(world.places(), ["m2"]);
    for (name, whole) in [
        ("state is handed over", json!({"failover": {"cluster": {"statePreservation": {"rules": []}}}})),
        ("nothing is dispatched", json!({"suspension": {"dispatching": true}})),
        ("to a target", json!({"suspension": {"dispatchingOnClusters": {"clusterNames": ["m2"]}}})),
    ] {
        let mut world = World::new(&[("m1", 3)]);
        world.go();
        world.clusters.insert("m1".into(), Arc::new(cluster("m1", "True")));
        world.binding = patched(&world.binding, &to(1));
        world.binding = patched(&world.binding, &json!({"spec": whole}));
        assert_eq!(kinds(&world.reconcile()), ["requeue"], "{name}");
        assert_eq!((world.places(), replicas(&world, "m1")), (vec!["m1".to_owned()], json!(3)), "{name}");
    }
}

#[test]
fn deleted_binding_deletes_its_works() {
    let mut world = World::new(&[("m1", 1), ("m2", 1)]);
    world.go();
    world.binding = patched(&world.binding, &json!({"metadata": {"deletionTimestamp": DELETED}}));
    let plan = world.reconcile();
    assert_eq!(kinds(&plan), ["delete", "delete", "binding"], "the finalizer goes with the request");
    assert_eq!(plan.effects[2], Effect::PatchBinding { patch: json!({"metadata": {"finalizers": []}}) });
    assert!(world.reconcile().is_quiet());
}

#[test]
fn foreign_binding_gets_id_and_finalizer_first() {
    let mut world = World::new(&[("m1", 1)]);
    (world.binding.metadata.labels, world.binding.metadata.finalizers) = (None, None);
    assert_eq!(kinds(&world.reconcile()), ["binding"]);
    assert_eq!(kinds(&world.reconcile()), ["create"]);
    assert_eq!(world.at("m1").metadata.labels.as_ref().unwrap()["resourcebinding.karmada.io/permanent-id"], "new-1");
}

#[test]
fn missing_template_creates_no_works() {
    let mut world = World::new(&[("m1", 1)]);
    world.template = None;
    assert!(world.reconcile().is_quiet());
    let mut newer = deployment();
    newer["metadata"]["uid"] = json!("another");
    world.template = Some(newer);
    assert!(world.reconcile().is_quiet(), "a template made anew has a binding of its own to come");
}

#[test]
fn failure_in_one_cluster_does_not_stop_the_others() {
    let mut world = World::new(&[("nowhere", 1), ("m1", 1)]);
    let plan = world.reconcile();
    assert_eq!(kinds(&plan), ["create", "event", "event", "retry"]);
    let Effect::Event(event) = &plan.effects[1] else { panic!("{plan:?}") };
    assert_eq!((event.about.kind.as_str(), event.message.as_str()), ("ResourceBinding", "there is no cluster nowhere"));
    assert_eq!(world.places(), ["m1"]);
}

#[test]
fn target_for_which_no_work_could_be_made_is_reported_with_the_reason() {
    let fails = json!({"overrideRules": [{"targetCluster": {"clusterNames": ["m2"]}, "overriders": {"plaintext": [{"path": "/nope", "operator": "remove"}]}}]});
    let failing: OverridePolicy =
        serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "o"}, "spec": fails})).unwrap();
    let not_made = |plan: &Plan<Effect>| {
        let reasons = plan.effects.iter().find_map(|effect| match effect {
            Effect::CopiesNotMade(reasons) => Some(reasons.clone()),
            _ => None,
        });
        let reasons = reasons.unwrap_or_default().into_iter();
        reasons.map(|(cluster, reason)| format!("{cluster}: {reason}")).collect::<Vec<_>>()
    };
    let mut world = World::new(&[("m1", 1), ("m2", 1), ("nowhere", 1)]);
    world.overrides = vec![Arc::new(failing.clone())];
    let reported = not_made(&world.reconcile());
    assert_eq!(reported.len(), 1, "a missing cluster ends by itself: {reported:?}");
    assert!(reported[0].starts_with("m2: override for cluster m2: OverridePolicy shop/o: plaintext: "), "{reported:?}");
    assert_eq!(not_made(&world.reconcile()), reported, "it still fails");
    world.overrides.clear();
    assert!(not_made(&world.reconcile()).is_empty());
    world.overrides = vec![Arc::new(failing)];
    assert!(not_made(&world.reconcile()).is_empty(), "the Work that exists reports for itself");
}

#[test]
fn failing_override_keeps_the_last_good_work() {
    let mut world = World::new(&[("m1", 2)]);
    let op = |overriders: Value| -> Vec<Arc<OverridePolicy>> {
        vec![Arc::new(serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "o"}, "spec": {"overrideRules": [{"overriders": overriders}]}})).unwrap())]
    };
    world.overrides = op(
        json!({"plaintext": [{"path": "/spec/replicas", "operator": "replace", "value": 9}, {"path": "/metadata/labels/karmada.io~1managed", "operator": "add", "value": "no"}]}),
    );
    world.go();
    assert_eq!(world.manifest("m1").pointer("/spec/replicas"), Some(&json!(9)));
    assert_eq!(template::label(&world.manifest("m1"), "karmada.io/managed"), "true", "our marks cannot be overridden");
    assert!(world.at("m1").metadata.annotations.as_ref().unwrap().contains_key("policy.karmada.io/applied-overrides"));
    let before = world.at("m1").clone();
    world.overrides = op(json!({"plaintext": [{"path": "/nope", "operator": "remove"}]}));
    assert_eq!(kinds(&world.reconcile()), ["event", "event", "event", "retry"]);
    assert_eq!(*world.at("m1"), before);
    world.overrides = Vec::new();
    assert_eq!(kinds(&world.reconcile()), ["patch"]);
    assert!(
        !world.at("m1").metadata.annotations.as_ref().unwrap().contains_key("policy.karmada.io/applied-overrides"),
        "the record goes with the last override"
    );
    assert!(world.reconcile().is_quiet());
}

#[test]
fn used_work_name_gets_a_suffix() {
    let name = names::work_name("Deployment", "shop", "web");
    let stranger = |manifest: Value| {
        Arc::new(work(
            json!({"metadata": {"namespace": "karmada-es-m1", "name": name}, "spec": {"workload": {"manifests": [manifest]}}}),
        ))
    };
    let mut world = World::new(&[("m1", 1)]);
    world.works = vec![stranger(
        json!({"apiVersion": "example.io/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": "web"}}),
    )];
    assert_eq!(kinds(&world.reconcile()), ["event", "create"]);
    assert_eq!(world.works[1].metadata.name, Some(format!("{name}-{}", names::hash("apps"))));
    assert!(world.reconcile().is_quiet(), "found by its id from then on");

    let mut world = World::new(&[("m1", 1)]);
    world.works = vec![stranger(
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": "web"}}),
    )];
    assert_eq!(kinds(&world.reconcile()), ["patch"], "the same object's Work, of a binding that was: taken over");
    assert_eq!(world.works.len(), 1);
    assert!(world.reconcile().is_quiet());
}

#[test]
fn work_is_created_again_after_its_deletion() {
    let mut world = World::new(&[("m1", 1)]);
    world.go();
    world.works[0] = Arc::new(patched(&*world.works[0], &json!({"metadata": {"deletionTimestamp": DELETED}})));
    // Its finalizer runs: that is a failure only if it does not end.
    let deleted = world.now;
    for (name, seconds, want) in [
        ("at once", 0, vec![Effect::RequeueAfter(Duration::from_secs(60))]),
        ("by a clock that is behind", -5, vec![Effect::RequeueAfter(Duration::from_secs(60))]),
        ("later", 59, vec![Effect::RequeueAfter(Duration::from_secs(1))]),
    ] {
        world.now = deleted + SignedDuration::from_secs(seconds);
        let plan = world.reconcile();
        assert_eq!(plan.effects, want, "{name}");
        let why: Vec<String> = plan.because.iter().map(ToString::to_string).collect();
        assert!(why.iter().any(|why| why.ends_with("is still being deleted")), "{name}: {why:?}");
    }
    world.now = deleted + SignedDuration::from_secs(60);
    assert_eq!(kinds(&world.reconcile()), ["event", "event", "retry"]);
    world.finish_deletions();
    assert_eq!(kinds(&world.reconcile()), ["create"]);
}

#[test]
fn preserved_state_goes_to_the_only_new_target() {
    let task = |before: &[&str], purge: &str| json!({"spec": {"gracefulEvictionTasks": [{"fromCluster": "m2", "purgeMode": purge, "reason": "R", "producer": "P", "clustersBeforeFailover": before, "preservedLabelState": {"job-id": "7"}}]}});
    for (name, targets, patch, gate, want) in [
        ("into the new copy", vec![("m1", 1)], task(&["m2"], "Directly"), true, "7"),
        ("not with the gate off", vec![("m1", 1)], task(&["m2"], "Directly"), false, ""),
        ("not where it ran before", vec![("m1", 1)], task(&["m1", "m2"], "Directly"), true, ""),
        ("not to several", vec![("m1", 1), ("m3", 1)], task(&["m2"], "Directly"), true, ""),
        ("not gracefully", vec![("m1", 1)], task(&["m2"], "Gracefully"), true, ""),
    ] {
        let mut world = World::new(&targets);
        world.options.state_injection = gate;
        world.binding = patched(&world.binding, &patch);
        world.go();
        assert_eq!(template::label(&world.manifest("m1"), "job-id"), want, "{name}");
    }
}

#[test]
fn job_completions_are_divided() {
    let mut world = World::new(&[("m1", 3), ("m2", 2)]);
    world.binding = patched(
        &world.binding,
        &json!({"spec": {"replicas": 5, "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided"}}, "resource": {"apiVersion": "batch/v1", "kind": "Job"}}}),
    );
    world.template = Some(
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "shop", "name": "web", "uid": "uid-web"}, "spec": {"parallelism": 5, "completions": 8}}),
    );
    world.go();
    let of = |cluster: &str| {
        (
            world.manifest(cluster).pointer("/spec/parallelism").cloned(),
            world.manifest(cluster).pointer("/spec/completions").cloned(),
        )
    };
    assert_eq!(of("m1"), (Some(json!(3)), Some(json!(5))));
    assert_eq!(of("m2"), (Some(json!(2)), Some(json!(3))));
}

#[test]
fn an_autoscaler_that_takes_its_own_works_over_is_no_failure() {
    let mut world = World::new(&[("m1", 3)]);
    let hpa = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"});
    world.template = world.template.map(|template| patched(&template, &hpa));
    world.go();
    let key = key_of(&world.works[0]).unwrap();
    for (name, of_template) in [("web", true), ("other", false)] {
        let marks = json!({"labels": {"resourcebinding.karmada.io/permanent-id": null,
            "federatedhpa.karmada.io/hpa-uid": "u"}});
        world.works[0] = Arc::new(patched(&*world.works[0], &json!({"metadata": marks})));
        world.owned = vec![(key.clone(), Owner::Autoscaler { namespace: "shop".into(), name: name.into() })];
        let plan = world.reconcile();
        assert_eq!(kinds(&plan).contains(&"event"), !of_template, "{name}: {plan:?}");
    }
}

#[test]
fn work_of_another_owner_is_taken_over_only_once_the_owner_is_gone() {
    let quota = json!({"labels": {"resourcebinding.karmada.io/permanent-id": null,
        "federatedresourcequota.karmada.io/namespace": "shop", "federatedresourcequota.karmada.io/name": "web"}});
    let other = json!({"labels": {"resourcebinding.karmada.io/permanent-id": "other"},
        "annotations": {"resourcebinding.karmada.io/namespace": "other", "resourcebinding.karmada.io/name": "web"}});
    for (name, marks) in [("a quota", quota), ("another binding", other)] {
        let mut world = World::new(&[("m1", 3)]);
        world.go();
        world.works[0] = Arc::new(patched(&*world.works[0], &json!({"metadata": marks})));
        let before = world.works[0].clone();
        let key = key_of(&before).unwrap();
        let owner = crate::work::owner(&before).unwrap();
        world.owned = vec![(key, owner.clone())];
        let plan = world.reconcile();
        assert_eq!(kinds(&plan), ["not made", "event", "event", "retry"], "{name} exists");
        let Effect::Event(event) = &plan.effects[1] else { panic!("{plan:?}") };
        assert!(event.message.contains(&owner.to_string()), "{name}: {}", event.message);
        assert_eq!(world.works[0], before, "{name} exists");

        world.owned.clear();
        assert_eq!(kinds(&world.reconcile()), ["patch"], "{name} is deleted");
        let Some(Owner::Binding { key, id }) = crate::work::owner(&world.works[0]) else { panic!("{name}") };
        assert_eq!(
            (&*key.namespace, &*key.name, id.as_str()),
            ("shop", "web-deployment", "rb-id"),
            "{name} is deleted"
        );
        let labels = world.works[0].metadata.labels.as_ref().unwrap();
        assert!(!labels.keys().any(|key| key.contains("quota")), "{name} is deleted, and its labels: {labels:?}");
        assert!(world.reconcile().is_quiet(), "{name} is deleted");
    }
}

#[test]
fn non_workload_is_copied_unchanged() {
    let mut world = World::new(&[("m1", 0)]);
    world.binding.spec.replicas = 0;
    world.go();
    assert_eq!(world.manifest("m1").pointer("/spec/replicas"), Some(&json!(3)));
}

#[test]
fn cluster_scoped_bindings_use_their_own_labels() {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r", "uid": "u"}});
    let binding: ClusterResourceBinding = serde_json::from_value(json!({
        "metadata": {"name": "r-clusterrole", "labels": {"clusterresourcebinding.karmada.io/permanent-id": "c"}, "finalizers": ["karmada.io/cluster-resource-binding-controller"]},
        "spec": {"resource": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "r", "uid": "u"}, "clusters": [{"name": "m1"}]}}))
    .unwrap();
    let plan = decide(
        &Seen {
            binding: Binding::from(&binding),
            template: Some(&role),
            works: &[],
            named: &[],
            owned: &[],
            clusters: &BTreeMap::from([("m1".into(), Arc::new(cluster("m1", "True")))]),
            cluster_overrides: &[],
            overrides: &[],
            quotas: &[],
            interpreter: &Interpreter::default(),
            member_replicas: None,
            members_may_rest: false,
            namespace_sync: None,
            options: &Options::default(),
            waited: Duration::ZERO,
            now: Timestamp::UNIX_EPOCH,
        },
        ids("new"),
    );
    let [Effect::Create(work)] = plan.effects.as_slice() else { panic!("{plan:?}") };
    assert_eq!(work.metadata.name.as_deref(), Some(names::work_name("ClusterRole", "", "r").as_str()));
    assert_eq!(work.metadata.annotations.as_ref().unwrap()["clusterresourcebinding.karmada.io/name"], "r-clusterrole");
    assert_eq!(
        template::label(&work.spec.workload.manifests[0].object(), "clusterresourcebinding.karmada.io/permanent-id"),
        "c"
    );
    assert_eq!(
        template::annotation(&work.spec.workload.manifests[0].object(), "resourcetemplate.karmada.io/generation"),
        "",
        "no generation, no mark"
    );
}

#[test]
fn namespace_that_a_policy_leaves_goes_back_to_namespace_sync() {
    let id = "clusterresourcebinding.karmada.io/permanent-id";
    let template = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "u"}});
    let binding = |clusters: Value, extra: Value| -> ClusterResourceBinding {
        let mut binding = json!({
            "metadata": {"name": "shop-namespace", "labels": {id: "c"}, "finalizers": ["karmada.io/cluster-resource-binding-controller"]},
            "spec": {"resource": {"apiVersion": "v1", "kind": "Namespace", "name": "shop", "uid": "u"}, "clusters": clusters}});
        merge(&mut binding["metadata"], &extra);
        serde_json::from_value(binding).unwrap()
    };
    let both = json!([{"name": "m1"}, {"name": "m2"}]);
    let leaving = patched(&cluster("m2", "True"), &json!({"metadata": {"deletionTimestamp": DELETED}}));
    let (skipped, none) = (Skipped::default(), Vec::new());
    let run = |binding: &ClusterResourceBinding, works: &[Arc<Work>], template: &Value, m2: Cluster, sync| {
        let clusters = [("m1".into(), Arc::new(cluster("m1", "True"))), ("m2".into(), Arc::new(m2))].into();
        let seen = Seen {
            binding: Binding::from(binding),
            template: Some(template),
            works,
            named: &none,
            owned: &[],
            clusters: &clusters,
            cluster_overrides: &[],
            overrides: &[],
            quotas: &[],
            interpreter: &Interpreter::default(),
            member_replicas: None,
            members_may_rest: false,
            namespace_sync: sync,
            options: &Options::default(),
            waited: await_scheduler::WAIT_MAX,
            now: Timestamp::UNIX_EPOCH,
        };
        decide(&seen, ids("new"))
    };
    let m2 = || cluster("m2", "True");
    let works: Vec<Arc<Work>> = run(&binding(both.clone(), json!({})), &[], &template, m2(), Some(&skipped))
        .effects
        .iter()
        .filter_map(|effect| if let Effect::Create(work) = effect { Some(Arc::new((**work).clone())) } else { None })
        .collect();
    assert_eq!(works.len(), 2);
    let narrowed = binding(json!([{"name": "m1"}]), json!({}));
    let going = json!({"metadata": {"deletionTimestamp": DELETED}});
    let mut deleted = template.clone();
    merge(&mut deleted, &going);
    let mut hidden = template.clone();
    merge(&mut hidden, &json!({"metadata": {"labels": {"namespace.karmada.io/skip-auto-propagation": "true"}}}));
    for (name, template, m2, sync, want) in [
        ("synced", &template, m2(), Some(&skipped), &["patch"][..]),
        ("namespace sync does not run", &template, m2(), None, &["delete"][..]),
        ("the namespace is deleted", &deleted, m2(), Some(&skipped), &["delete"][..]),
        ("the namespace is not synced", &hidden, m2(), Some(&skipped), &["patch", "delete"][..]),
        ("the cluster leaves", &template, leaving, Some(&skipped), &["delete"][..]),
    ] {
        let plan = run(&narrowed, &works, template, m2, sync);
        assert_eq!(kinds(&plan), want, "{name}");
        if let [Effect::Patch { key, patch }] = plan.effects.as_slice() {
            assert_eq!(*key.cluster.0, *"m2");
            let left = patched(&*works[1], patch);
            assert_eq!(crate::work::owner(&left), None, "{name}");
        }
    }
    let ended = binding(both, going["metadata"].clone());
    let plan = run(&ended, &works, &template, m2(), Some(&skipped));
    assert_eq!(kinds(&plan), ["patch", "patch", "binding"], "the binding is deleted");
}

proptest! {
    #[test]
    fn works_converge_to_the_targets(first in prop::collection::btree_map("m[1-3]", 0..4_i32, 0..4), second in prop::collection::btree_map("m[1-3]", 0..4_i32, 0..4)) {
        let mut world = World::new(&first.iter().map(|(c, r)| (c.as_str(), *r)).collect::<Vec<_>>());
        world.go();
        prop_assert!(world.reconcile().is_quiet());
        world.binding.spec.clusters = testkit::binding(&second.iter().map(|(c, r)| (c.as_str(), *r)).collect::<Vec<_>>()).spec.clusters;
        world.go();
        world.finish_deletions();
        prop_assert!(world.reconcile().is_quiet());
        prop_assert_eq!(world.places(), second.keys().cloned().collect::<Vec<_>>());
        for (cluster, replicas) in &second {
            prop_assert_eq!(&world.manifest(cluster)["spec"]["replicas"], &json!(replicas));
        }
    }
}

#[test]
fn failed_cleanup_is_reported_on_the_binding() {
    let binding = testkit::binding(&[("m1", 1)]);
    let work = WorkKey { cluster: "m2".into(), name: "web-x".into() };
    let event_of = |class| cleanup_failed_event(Binding::from(&binding), &work, class, "forbidden");
    assert_eq!(event_of("Conflict"), None, "it changed meanwhile: it is decided again");
    assert!(event_of("Unavailable").is_some(), "not answered");
    let event = event_of("Denied").unwrap();
    assert_eq!((event.about.kind.as_str(), event.reason), ("ResourceBinding", "CleanupWorkFailed"));
    assert_eq!(event.message, "Work web-x of cluster m2 is no longer needed and was not deleted: forbidden");
}

/// specification/autoscaling.md 6.6: updates of the copy leave the member's number where nobody else chose another one.
#[test]
fn copies_say_whose_number_their_replicas_are() {
    let policy = |name: &str, managed: bool, number: i64, observed: &str| -> Arc<OverridePolicy> {
        let labels = managed.then(|| json!({"federatedhpa.karmada.io/managed": "true"}));
        let annotations = json!({"federatedhpa.karmada.io/observed-replicas": observed});
        let policy = json!({"metadata": {"namespace": "shop", "name": name, "labels": labels, "annotations": annotations}, "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "overrideRules": [{"targetCluster": {"clusterNames": ["m1"]}, "overriders": {
                "plaintext": [{"path": "/spec/replicas", "operator": "replace", "value": number}]}}]}});
        Arc::new(serde_json::from_value(policy).unwrap())
    };
    let of_users = |number| policy("zz", false, number, "9");
    let of_members = |number| policy("federatedhpa-web", true, number, "3");
    let outdated = |number| policy("federatedhpa-web", true, number, "1");
    for (name, pointer, overrides, want) in [
        ("no autoscaler", None, vec![of_members(8)], (None, 8)),
        ("nothing is recorded", Some("/spec/replicas"), vec![], (Some("3/2"), 2)),
        ("the member decided", Some("/spec/replicas"), vec![of_members(8)], (Some("3/2/member"), 8)),
        ("it decided what it was given", Some("/spec/replicas"), vec![of_members(2)], (Some("3/2"), 2)),
        ("a user decides", Some("/spec/replicas"), vec![of_users(5)], (Some("3/5"), 5)),
        ("both", Some("/spec/replicas"), vec![of_users(5), of_members(8)], (Some("3/5/member"), 8)),
        ("a user has scaled the template since", Some("/spec/replicas"), vec![outdated(8)], (Some("1/2/member"), 8)),
        ("a field that nothing has", Some("/spec/size"), vec![], (Some("0/0"), 2)),
    ] {
        let mut world = World::new(&[("m1", 2), ("m2", 1)]);
        (world.member_replicas, world.overrides) = (pointer, overrides);
        world.go();
        assert!(world.reconcile().is_quiet(), "{name}");
        let manifest = world.manifest("m1");
        let mark = manifest.pointer("/metadata/annotations/federatedhpa.karmada.io~1applied-replicas");
        let replicas = manifest.pointer("/spec/replicas").and_then(Value::as_i64);
        assert_eq!((mark.and_then(Value::as_str), replicas), (want.0, Some(want.1)), "{name}");
    }
}
