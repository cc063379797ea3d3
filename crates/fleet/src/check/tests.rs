use ironclad_api::work::ClusterResourceBinding;
use serde_json::{Value, json};

use super::*;
use crate::WorkKey;

pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}

pub(crate) fn changed<T: serde::de::DeserializeOwned>(mut base: Value, patch: Value) -> T {
    merge(&mut base, &patch);
    serde_json::from_value(base).unwrap()
}

const CLAIM: &str = r#"{"labels": {"propagationpolicy.karmada.io/permanent-id": "p"},
    "annotations": {"propagationpolicy.karmada.io/namespace": "shop", "propagationpolicy.karmada.io/name": "policy"}}"#;

fn claim() -> Value {
    serde_json::from_str(CLAIM).unwrap()
}

pub(crate) fn template() -> Value {
    let mut template = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": "web", "uid": "u"}, "spec": {"replicas": 3}});
    merge(&mut template["metadata"], &claim());
    template
}

pub(crate) fn binding() -> Value {
    let mut binding = json!({
        "metadata": {"namespace": "shop", "name": "web-deployment", "generation": 2, "labels": {"resourcebinding.karmada.io/permanent-id": "rb"}},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "uid": "u"}, "replicas": 3,
            "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided"}},
            "clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 1}]},
        "status": {"schedulerObservedGeneration": 2, "conditions": [{"type": "Scheduled", "status": "True", "reason": "Success", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "aggregatedStatus": [{"clusterName": "m1", "applied": true}, {"clusterName": "m2", "applied": true}]}});
    merge(&mut binding["metadata"], &claim());
    binding
}

pub(crate) fn manifest(cluster: &str, replicas: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": "web",
        "labels": {"karmada.io/managed": "true", "work.karmada.io/permanent-id": format!("w-{cluster}")},
        "annotations": {"work.karmada.io/name": "web-1", "work.karmada.io/namespace": format!("karmada-es-{cluster}")}}, "spec": {"replicas": replicas}})
}

pub(crate) fn work(cluster: &str, replicas: i64) -> Value {
    json!({
        "metadata": {"namespace": format!("karmada-es-{cluster}"), "name": "web-1", "finalizers": ["karmada.io/execution-controller"],
            "labels": {"resourcebinding.karmada.io/permanent-id": "rb", "work.karmada.io/permanent-id": format!("w-{cluster}")}},
        "spec": {"suspendDispatching": false, "preserveResourcesOnDeletion": false, "workload": {"manifests": [manifest(cluster, replicas)]}},
        "status": {"conditions": [{"type": "Applied", "status": "True", "reason": "AppliedSuccessful", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
}

/// One Deployment on its way to two members, all in order.
pub(crate) fn world() -> World {
    let mut world = World::default();
    for name in ["m1", "m2"] {
        world.insert_cluster(changed(json!({"metadata": {"name": name}, "spec": {"syncMode": "Push"}, "status": {"conditions":
            [{"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}), json!({})));
    }
    world.insert_policy(changed(json!({"metadata": {"namespace": "shop", "name": "policy", "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}]}}), json!({})));
    world.insert_template(template());
    world.insert_binding(changed(binding(), json!({})));
    for (cluster, replicas) in [("m1", 2), ("m2", 1)] {
        world.insert_work(changed(work(cluster, replicas), json!({})));
        world.insert_member(cluster.into(), manifest(cluster, replicas));
    }
    world
}

fn violations(world: &World) -> Vec<String> {
    check(world).iter().map(ToString::to_string).collect()
}

#[test]
fn a_fleet_in_order() {
    assert_eq!(violations(&world()), Vec::<String>::new());
    assert_eq!(violations(&World::default()), Vec::<String>::new());
}

/// One change to a fleet in order, and what it breaks.
type Row = (&'static str, fn(&mut World), &'static [&'static str]);

fn set_binding(world: &mut World, patch: Value) {
    world.insert_binding(changed(binding(), patch));
}

fn set_work(world: &mut World, patch: Value) {
    world.insert_work(changed(work("m1", 2), patch));
}

fn set_cluster(world: &mut World, patch: Value) {
    let base = json!({"metadata": {"name": "m1"}, "spec": {"syncMode": "Push"}, "status": {"conditions":
        [{"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    world.insert_cluster(changed(base, patch));
}

/// A task for leaving a cluster.
fn task(from: &str) -> Value {
    json!({"fromCluster": from, "reason": "TaintUntolerated", "producer": "TaintManager", "purgeMode": "Gracefully"})
}

#[test]
fn what_can_be_wrong_with_taints_health_and_tasks() {
    let unknown = json!([{"type": "Ready", "status": "Unknown", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let taint = |effect: &str| json!({"key": "k", "effect": effect});
    let suppressed = json!({"fromCluster": "m1", "reason": "R", "producer": "P", "suppressDeletion": true});
    let spread = |groups: i64| {
        json!({"spec": {"replicas": 3, "clusters": [{"name": "m1", "replicas": 3}, {"name": "m2", "replicas": 3}],
        "placement": {"replicaScheduling": null, "spreadConstraints": [{"spreadByField": "cluster", "minGroups": groups, "maxGroups": groups}]}}})
    };
    type Change = Box<dyn Fn(&mut World)>;
    let on_cluster = |patch: Value| -> Change { Box::new(move |w| set_cluster(w, patch.clone())) };
    let with_tasks = |tasks: Value| -> Change {
        Box::new(move |w| set_binding(w, json!({"spec": {"gracefulEvictionTasks": tasks.clone()}})))
    };
    let rows: [(&str, Change, &[&str]); 8] = [
        (
            "a taint twice",
            on_cluster(json!({"spec": {"taints": [taint("NoExecute"), taint("NoExecute")]}})),
            &["cluster m1 has taint k:NoExecute twice"],
        ),
        ("of two effects", on_cluster(json!({"spec": {"taints": [taint("NoExecute"), taint("NoSchedule")]}})), &[]),
        (
            "a Push cluster that is unknown",
            on_cluster(json!({"status": {"conditions": unknown.clone()}})),
            &["cluster m1 is a Push cluster and its Ready condition is Unknown"],
        ),
        (
            "a Pull cluster that is",
            on_cluster(json!({"spec": {"syncMode": "Pull"}, "status": {"conditions": unknown}})),
            &[],
        ),
        (
            "a task of a target",
            with_tasks(json!([task("m1")])),
            &["binding shop/web-deployment has a task for leaving cluster m1, which is its target"],
        ),
        ("which a person keeps", with_tasks(json!([suppressed])), &[]),
        (
            "two tasks",
            with_tasks(json!([task("m3"), task("m3")])),
            &["binding shop/web-deployment has two tasks for leaving cluster m3"],
        ),
        ("a spread that holds", Box::new(move |w| set_binding(w, spread(2))), &[]),
    ];
    for (name, change, want) in rows {
        let mut world = world();
        change(&mut world);
        let got = violations(&world);
        let got: Vec<&str> = got
            .iter()
            .map(String::as_str)
            .filter(|line| !line.contains("Work karmada-es"))
            .filter(|line| !line.contains(" Work "))
            .collect();
        let of_failover: Vec<&str> =
            got.into_iter().filter(|line| !line.contains("differs from its binding")).collect();
        assert_eq!(of_failover, want, "{name}");
    }
    let mut world = world();
    set_binding(&mut world, spread(3));
    let found = violations(&world);
    let line = "binding shop/web-deployment is scheduled on 2 clusters, and its spread asks for 3";
    assert!(found.iter().any(|one| one == line), "{found:?}");
    for (replicas, is_broken) in [(0, false), (1, true)] {
        let spec = json!({"replicas": replicas, "replicaRequirements": {}, "clusters": []});
        set_binding(&mut world, changed(spread(2), json!({"spec": spec})));
        let found = violations(&world);
        let told = found.iter().any(|one| one.ends_with("is scheduled on 0 clusters, and its spread asks for 2"));
        assert_eq!(told, is_broken, "{replicas} replicas: {found:?}");
    }
}

const ROWS: [Row; 34] = [
    (
        "two claims",
        |w| {
            let mut both = template();
            merge(
                &mut both,
                &json!({"metadata": {"labels": {"clusterpropagationpolicy.karmada.io/permanent-id": "c"}, "annotations": {"clusterpropagationpolicy.karmada.io/name": "c"}}}),
            );
            w.insert_template(both);
        },
        &["Deployment shop/web is claimed by a PropagationPolicy and by a ClusterPropagationPolicy"],
    ),
    (
        "the policy was deleted",
        |w| w.policies.clear(),
        &["Deployment shop/web is claimed by PropagationPolicy shop/policy, which does not exist"],
    ),
    (
        "the policy was made anew",
        |w| {
            let key = w.policies.keys().next().unwrap().clone();
            let mut other = (*w.policies[&key]).clone();
            other
                .metadata
                .labels
                .as_mut()
                .unwrap()
                .insert("propagationpolicy.karmada.io/permanent-id".into(), "q".into());
            w.insert_policy(other);
        },
        &["Deployment shop/web is claimed by PropagationPolicy shop/policy, which does not exist"],
    ),
    (
        "the binding was deleted",
        |w| {
            w.bindings.clear();
            w.works.clear();
            w.members.clear();
        },
        &["Deployment shop/web is claimed by PropagationPolicy shop/policy and has no binding"],
    ),
    (
        "a cluster-scoped object has a binding of its policy and one of the workloads that need it",
        |w| {
            let role = json!({"resource": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "namespace": "", "name": "r", "uid": "r"}, "clusters": [], "placement": null});
            let of = |id: &str| json!({"metadata": {"name": "r-clusterrole", "labels": {"resourcebinding.karmada.io/permanent-id": id, "propagationpolicy.karmada.io/permanent-id": null}}, "spec": role, "status": null});
            w.insert_binding(changed(binding(), of("rb2")));
            let mut cluster = of("rb3");
            cluster["metadata"]["namespace"] = Value::Null;
            w.insert_cluster_binding(changed(binding(), cluster));
        },
        &[],
    ),
    (
        "binding and template disagree on the claim",
        |w| set_binding(w, json!({"metadata": {"labels": {"propagationpolicy.karmada.io/permanent-id": "other"}}})),
        &["binding shop/web-deployment carries another claim than Deployment shop/web"],
    ),
    (
        "a second binding",
        |w| {
            w.insert_binding(changed(binding(), json!({"metadata": {"name": "other", "labels": {"resourcebinding.karmada.io/permanent-id": "rb2"}}, "spec": {"clusters": []}, "status": null})))
        },
        &["bindings shop/other and shop/web-deployment are both for Deployment shop/web"],
    ),
    (
        "one id for two",
        |w| {
            w.insert_binding(changed(
                binding(),
                json!({"metadata": {"name": "a"}, "spec": {"resource": {"name": "other"}}}),
            ))
        },
        &["binding shop/a and binding shop/web-deployment have the same permanent id rb"],
    ),
    (
        "parts that are not the whole",
        |w| {
            set_binding(
                w,
                json!({"spec": {"clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}]}}),
            );
            w.insert_work(changed(work("m2", 2), json!({})));
        },
        &["binding shop/web-deployment wants 3 replicas and places 4"],
    ),
    (
        "parts on their way",
        |w| {
            set_binding(
                w,
                json!({"metadata": {"generation": 3}, "spec": {"clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}]}}),
            );
            w.insert_work(changed(work("m2", 2), json!({})));
        },
        &[],
    ),
    (
        "a copy that is not whole",
        |w| {
            set_binding(
                w,
                json!({"spec": {"placement": {"replicaScheduling": null}, "clusters": [{"name": "m1", "replicas": 3}, {"name": "m2", "replicas": 1}]}}),
            );
            w.insert_work(changed(work("m1", 3), json!({})));
        },
        &["binding shop/web-deployment is duplicated: cluster m2 has 1 of 3 replicas"],
    ),
    (
        "a cluster named twice",
        |w| {
            set_binding(
                w,
                json!({"spec": {"clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 1}, {"name": "m2"}]}}),
            )
        },
        &["binding shop/web-deployment names cluster m2 twice"],
    ),
    (
        "a cluster that is not there",
        |w| {
            w.clusters.remove(&"m2".into());
        },
        &["binding shop/web-deployment names cluster m2, which does not exist"],
    ),
    (
        "a report from elsewhere",
        |w| set_binding(w, json!({"status": {"aggregatedStatus": [{"clusterName": "m3"}]}})),
        &["the status of binding shop/web-deployment lists cluster m3, where no copy is expected"],
    ),
    (
        "a report from a cluster being left",
        |w| {
            set_binding(
                w,
                json!({"spec": {"gracefulEvictionTasks": [{"fromCluster": "m3", "purgeMode": "Gracefully", "reason": "R", "producer": "P"}]}, "status": {"aggregatedStatus": [{"clusterName": "m3"}]}}),
            )
        },
        &[],
    ),
    (
        "a missing Work",
        |w| {
            w.works.retain(|key, _| &*key.cluster.0 == "m1");
            w.members.remove(&"m2".into());
        },
        &["binding shop/web-deployment has no Work in its target m2"],
    ),
    (
        "a Work too many",
        |w| {
            set_binding(
                w,
                json!({"spec": {"replicas": 2, "clusters": [{"name": "m1", "replicas": 2}]}, "status": {"aggregatedStatus": [{"clusterName": "m1"}]}}),
            );
        },
        &["Work m2:web-1 exists where its binding shop/web-deployment expects none"],
    ),
    (
        "two Works in a cluster",
        |w| {
            let mut second = work("m1", 2);
            merge(
                &mut second,
                &json!({"metadata": {"name": "web-2", "labels": {"work.karmada.io/permanent-id": "w-2"}}}),
            );
            second["spec"]["workload"]["manifests"][0]["metadata"]["labels"]["work.karmada.io/permanent-id"] =
                json!("w-2");
            second["spec"]["workload"]["manifests"][0]["metadata"]["annotations"]["work.karmada.io/name"] =
                json!("web-2");
            w.insert_work(serde_json::from_value(second).unwrap());
        },
        &["Works m1:web-1 and m1:web-2 of binding shop/web-deployment are in one cluster"],
    ),
    (
        "other replicas",
        |w| w.insert_work(changed(work("m1", 5), json!({}))),
        &["Work m1:web-1 differs from its binding shop/web-deployment in replicas"],
    ),
    (
        "replicas by override",
        |w| {
            w.insert_work(changed(
                work("m1", 5),
                json!({"metadata": {"annotations": {"policy.karmada.io/applied-overrides": "[]"}}}),
            ))
        },
        &[],
    ),
    (
        "suspended",
        |w| set_work(w, json!({"spec": {"suspendDispatching": true}})),
        &["Work m1:web-1 differs from its binding shop/web-deployment in suspendDispatching"],
    ),
    (
        "preserved",
        |w| set_work(w, json!({"spec": {"preserveResourcesOnDeletion": true}})),
        &["Work m1:web-1 differs from its binding shop/web-deployment in preserveResourcesOnDeletion"],
    ),
    (
        "no finalizer",
        |w| set_work(w, json!({"metadata": {"finalizers": []}})),
        &["Work m1:web-1 differs from its binding shop/web-deployment in metadata.finalizers"],
    ),
    (
        "no binding",
        |w| w.bindings.clear(),
        &[
            "Deployment shop/web is claimed by PropagationPolicy shop/policy and has no binding",
            "Work m1:web-1 carries the id rb of a binding that does not exist",
            "Work m2:web-1 carries the id rb of a binding that does not exist",
        ],
    ),
    (
        "no namespace",
        |w| {
            w.insert_work(changed(work("m1", 2), json!({"metadata": {"name": "ns", "labels": {"resourcebinding.karmada.io/permanent-id": null, "work.karmada.io/permanent-id": "n"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "shop", "uid": "n"}]}, "status": null})));
        },
        &["Work m1:ns is owned by Namespace shop, which does not exist"],
    ),
    (
        "no manifest",
        |w| {
            set_work(w, json!({"spec": {"workload": {"manifests": []}}}));
            w.members.remove(&"m1".into());
        },
        &["Work m1:web-1 has 0 manifests, not one", "binding shop/web-deployment has no Work in its target m1"],
    ),
    (
        "an unmarked manifest",
        |w| {
            let mut unmarked = work("m1", 2);
            merge(
                &mut unmarked["spec"]["workload"]["manifests"][0],
                &json!({"metadata": {"labels": {"karmada.io/managed": null}}}),
            );
            w.insert_work(serde_json::from_value(unmarked).unwrap());
        },
        &["the manifest of Work m1:web-1 lacks the right karmada.io/managed"],
    ),
    (
        "a Work that was released, since its binding requires the copy again",
        |w| {
            w.works.remove(&WorkKey { cluster: "m1".into(), name: "web-1".into() });
        },
        &["binding shop/web-deployment has no Work in its target m1"],
    ),
    (
        "a copy without a Work that its binding does not require",
        |w| {
            w.works.remove(&WorkKey { cluster: "m1".into(), name: "web-1".into() });
            set_binding(
                w,
                json!({"spec": {"replicas": 1, "clusters": [{"name": "m2", "replicas": 1}]}, "status": {"aggregatedStatus": []}}),
            );
        },
        &["Deployment shop/web in cluster m1 is marked as ours, but its Work karmada-es-m1/web-1 does not exist"],
    ),
    (
        "an object left behind",
        |w| {
            let mut left = manifest("m1", 1);
            merge(&mut left, &json!({"metadata": {"name": "old", "annotations": {"work.karmada.io/name": "old-1"}}}));
            w.insert_member("m1".into(), left);
        },
        &["Deployment shop/old in cluster m1 is marked as ours, but its Work karmada-es-m1/old-1 does not exist"],
    ),
    (
        "what a controller of the member made with the labels of its owner",
        |w| {
            let labels = json!({"karmada.io/managed": "true", "work.karmada.io/permanent-id": "w-m1"});
            let owner = json!([{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "u", "controller": true}]);
            let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {
                "namespace": "shop", "name": "web-x", "labels": labels, "ownerReferences": owner}});
            w.insert_member("m1".into(), slice);
        },
        &[],
    ),
    (
        "an object of another Work",
        |w| {
            let mut other = manifest("m1", 2);
            merge(&mut other, &json!({"metadata": {"labels": {"work.karmada.io/permanent-id": "older"}}}));
            w.insert_member("m1".into(), other);
        },
        &["Deployment shop/web in cluster m1 names Work m1:web-1, which is not for it"],
    ),
    (
        "a missing object",
        |w| {
            w.members.insert("m1".into(), std::collections::BTreeMap::new());
        },
        &["Work m1:web-1 is applied, but the member has no Deployment shop/web"],
    ),
    (
        "objects of users are not judged",
        |w| {
            w.insert_member(
                "m1".into(),
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs"}}),
            )
        },
        &[],
    ),
];

#[test]
fn what_can_be_wrong() {
    for (name, change, want) in ROWS {
        let mut world = world();
        change(&mut world);
        assert_eq!(violations(&world), want, "{name}");
    }
}

#[test]
fn what_is_on_its_way_out_is_not_judged() {
    let mut world = world();
    let terminating = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    set_work(&mut world, terminating.clone());
    set_binding(
        &mut world,
        json!({"spec": {"replicas": 1, "clusters": [{"name": "m2", "replicas": 1}]}, "status": {"aggregatedStatus": []}}),
    );
    assert_eq!(violations(&world), Vec::<String>::new(), "a Work being deleted");
    let mut object = manifest("m1", 2);
    merge(&mut object, &terminating);
    world.insert_member("m1".into(), object);
    world.works.retain(|key, _| &*key.cluster.0 == "m2");
    assert_eq!(violations(&world), Vec::<String>::new(), "an object being deleted");
}

#[test]
fn members_that_were_not_looked_at_are_not_judged() {
    let mut world = world();
    world.members.clear();
    assert_eq!(violations(&world), Vec::<String>::new());
}

#[test]
fn cluster_scoped_bindings_are_judged_alike() {
    let mut world = World::default();
    world.insert_cluster_binding(changed::<ClusterResourceBinding>(
        json!({"metadata": {"name": "r-clusterrole", "labels": {"clusterresourcebinding.karmada.io/permanent-id": "c"}},
            "spec": {"resource": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "r"}, "clusters": [{"name": "m1"}]}}),
        json!({}),
    ));
    assert_eq!(violations(&world), ["binding r-clusterrole names cluster m1, which does not exist"]);
}

#[test]
fn only_what_a_change_can_pass_through_is_passing() {
    let mut world = world();
    world.bindings.clear();
    world.templates.clear();
    assert!(check(&world).iter().all(|violation| !violation.is_passing()));
    let mut world = self::world();
    world.policies.clear();
    assert!(check(&world).iter().all(Violation::is_passing));
}
