use serde_json::{Value, json};

use super::*;
use crate::{
    Gvk,
    check::tests::{binding, changed, template, work, world},
};

fn key() -> ObjectKey {
    ObjectKey { gvk: Gvk::from_manifest("apps/v1", "Deployment"), namespace: "shop".into(), name: "web".into() }
}

fn printed(world: &World) -> Vec<String> {
    printed_as(world, &key(), &Explained::default())
}

fn printed_as(world: &World, key: &ObjectKey, explained: &Explained) -> Vec<String> {
    let tree = tree(world, key, explained).unwrap();
    let mark = |i: usize| if tree.first_broken == Some(i) { " <-" } else { "" };
    let line = |(i, link): (usize, &Link)| {
        format!("{}{} [{:?}] {}{}", "  ".repeat(link.depth), link.object, link.state, link.detail, mark(i))
    };
    tree.links.iter().enumerate().map(line).collect()
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn healthy(cluster: &str, replicas: i64, health: &str) -> Value {
    let mut work = work(cluster, replicas);
    work["status"]["manifestStatuses"] = json!([{"identifier": {"ordinal": 0, "version": "v1", "kind": "Deployment", "resource": "deployments", "name": "web"}, "health": health}]);
    work
}

#[test]
fn a_chain_in_order() {
    let mut world = world();
    for (cluster, replicas) in [("m1", 2), ("m2", 1)] {
        world.insert_work(changed(healthy(cluster, replicas, "Healthy"), json!({})));
    }
    let lines = printed(&world);
    assert_eq!(
        lines,
        [
            "Deployment shop/web [Ok] 0/3 ready",
            "  PropagationPolicy shop/policy [Ok] ",
            "    ResourceBinding shop/web-deployment [Ok] on m1:2, m2:1",
            "      Cluster m1 [Ok] ",
            "        Work karmada-es-m1/web-1 [Ok] applied",
            "          m1: Deployment shop/web [Ok] 0/2 ready, healthy",
            "      Cluster m2 [Ok] ",
            "        Work karmada-es-m2/web-1 [Ok] applied",
            "          m2: Deployment shop/web [Ok] 0/1 ready, healthy",
        ]
    );
}

/// Works hold the manifests of all tenants, so a tenant may not read them.
#[test]
fn the_binding_says_what_is_applied_where_works_may_not_be_read() {
    let mut world = world();
    world.works.clear();
    let reported = json!({"status": {"aggregatedStatus": [
        {"clusterName": "m1", "applied": true, "health": "Healthy"},
        {"clusterName": "m2", "appliedMessage": "denied"},
    ]}});
    world.insert_binding(changed(binding(), reported));
    let without = Explained { without_works: true, ..Explained::default() };
    assert_eq!(
        printed_as(&world, &key(), &without)[3..],
        [
            "      Cluster m1 [Ok] ",
            "        Work karmada-es-m1/web-56d6c779bb [Ok] applied, as the binding reports",
            "          m1: Deployment shop/web [Ok] 0/2 ready, healthy",
            "      Cluster m2 [Ok] ",
            "        Work karmada-es-m2/web-56d6c779bb [Broken] denied, as the binding reports <-",
            "          m2: Deployment shop/web [Waiting] 0/1 ready, health not known",
        ]
    );
    let not_yet = json!({"status": {"aggregatedStatus": [{"clusterName": "m1"}]}});
    world.insert_binding(changed(binding(), not_yet));
    let lines = printed_as(&world, &key(), &without);
    assert!(lines[4].ends_with("[Waiting] is not applied yet, as the binding reports <-"), "{lines:?}");
    assert!(lines[7].ends_with("[Waiting] is not made yet"), "{lines:?}");
}

#[test]
fn a_chain_without_claim_or_binding_needs_an_explanation() {
    let follows = json!({"spec": {"requiredBy": [{"namespace": "shop", "name": "web-deployment"}]}});
    for (name, is_claimed, bound, want) in [
        ("claimed and bound", true, Some(json!({})), true),
        ("claimed, without a binding", true, None, false),
        ("its policy was deleted", false, Some(json!({})), false),
        ("follows others", false, Some(follows), true),
        ("nothing", false, None, false),
    ] {
        let mut world = world();
        if !is_claimed {
            let mut alone = template();
            alone["metadata"]["annotations"] = json!({});
            world.insert_template(alone);
        }
        world.bindings.clear();
        if let Some(patch) = bound {
            world.insert_binding(changed(binding(), patch));
        }
        assert_eq!(explains_itself(&world, &key()), want, "{name}");
    }
}

/// Each row breaks one thing; the line that is marked, as it reads.
#[test]
fn the_first_broken_link_is_marked() {
    let broken = |change: &dyn Fn(&mut World)| {
        let mut world = world();
        for (cluster, replicas) in [("m1", 2), ("m2", 1)] {
            world.insert_work(changed(healthy(cluster, replicas, "Healthy"), json!({})));
        }
        change(&mut world);
        let lines = printed(&world);
        lines
            .into_iter()
            .find_map(|line| line.strip_suffix(" <-").map(|line| line.trim().to_owned()))
            .unwrap_or_default()
    };
    let rebind = |world: &mut World, patch: Value| world.insert_binding(changed(binding(), patch));
    type Change<'a> = &'a dyn Fn(&mut World);
    let rows: [(Change<'_>, &str); 14] = [
        (&|_| {}, ""),
        (
            &|w| {
                let mut alone = template();
                alone["metadata"]["annotations"] = json!({});
                w.insert_template(alone);
                w.bindings.clear();
            },
            "no policy [Broken] has claimed it",
        ),
        (
            &|w| w.policies.clear(),
            "PropagationPolicy shop/policy [Broken] does not exist any more: copies are kept as they are until another policy claims the template",
        ),
        (&|w| w.bindings.clear(), "ResourceBinding [Waiting] is not made yet"),
        (
            &|w| {
                rebind(
                    w,
                    json!({"status": {"conditions": [condition("Scheduled", "False", "NoClusterFit", "0/2 clusters are available")]}}),
                );
            },
            "ResourceBinding shop/web-deployment [Broken] NoClusterFit: 0/2 clusters are available (stays on m1:2, m2:1)",
        ),
        (
            &|w| rebind(w, json!({"metadata": {"generation": 7}, "spec": {"clusters": []}})),
            "ResourceBinding shop/web-deployment [Waiting] is not scheduled anew yet",
        ),
        (
            &|w| rebind(w, json!({"spec": {"suspension": {"scheduling": true}}})),
            "ResourceBinding shop/web-deployment [Waiting] scheduling is suspended",
        ),
        (
            &|w| rebind(w, json!({"spec": {"suspension": {"dispatching": true}}})),
            "Work karmada-es-m1/web-1 [Waiting] dispatching is suspended",
        ),
        (
            &|w| {
                w.clusters.remove(&ClusterName::from("m2"));
            },
            "Cluster m2 [Broken] does not exist: join it, or take it out of the placement",
        ),
        (
            &|w| {
                let patch =
                    json!({"status": {"conditions": [condition("Applied", "False", "AppliedFailed", "denied")]}});
                w.insert_work(changed(healthy("m1", 2, "Healthy"), patch));
            },
            "Work karmada-es-m1/web-1 [Broken] AppliedFailed: denied",
        ),
        (
            &|w| {
                w.members.get_mut(&ClusterName::from("m2")).unwrap().clear();
            },
            "m2: Deployment shop/web [Broken] is not there although it was applied: it will be put there again",
        ),
        (
            &|w| {
                w.members.remove(&ClusterName::from("m2"));
            },
            "m2: Deployment shop/web [Waiting] could not be asked",
        ),
        (
            &|w| w.insert_work(changed(healthy("m2", 1, "Unhealthy"), json!({}))),
            "m2: Deployment shop/web [Waiting] 0/1 ready, not healthy yet",
        ),
        (
            &|w| {
                w.insert_work(changed(healthy("m2", 1, "Unhealthy"), json!({})));
                let mut copy = crate::check::tests::manifest("m2", 1);
                let late = condition("Progressing", "False", "ProgressDeadlineExceeded", "timed out");
                copy["status"] = json!({"conditions": [late]});
                w.insert_member("m2".into(), copy);
            },
            "m2: Deployment shop/web [Broken] 0/1 ready, unhealthy: ProgressDeadlineExceeded: timed out",
        ),
    ];
    for (i, (change, expected)) in rows.into_iter().enumerate() {
        assert_eq!(broken(change), expected, "row {i}");
    }
}

#[test]
fn evictions_and_dependencies_are_told() {
    let mut world = world();
    let task = json!({"fromCluster": "m3", "reason": "TaintUntolerated", "producer": "TaintManager", "purgeMode": "Gracefully", "message": "not-ready"});
    world.insert_binding(changed(
        binding(),
        json!({"spec": {"gracefulEvictionTasks": [task],
        "requiredBy": [{"namespace": "shop", "name": "db-statefulset"}]}}),
    ));
    let lines = printed(&world);
    assert!(
        lines.contains(&"      leaving m3 [Waiting] TaintUntolerated, Gracefully: not-ready".to_owned()),
        "{lines:#?}"
    );
    let mut alone = template();
    alone["metadata"]["annotations"] = json!({});
    world.insert_template(alone);
    let lines = printed(&world);
    assert_eq!(lines[1], "  no policy [Ok] follows what needs it: shop/db-statefulset");
    assert!(tree(&world, &ObjectKey { name: "other".into(), ..key() }, &Explained::default()).is_none());
}

#[test]
fn copies_that_a_member_does_not_delete_are_told() {
    let going = |conditions: Value| {
        let mut world = world();
        world.insert_binding(changed(binding(), json!({"spec": {"clusters": [{"name": "m1", "replicas": 3}]}})));
        let deleted =
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"conditions": conditions}});
        world.insert_work(changed(healthy("m2", 1, "Healthy"), deleted));
        let lines = printed(&world);
        let at = lines.iter().position(|line| line.contains("Cluster m2")).unwrap();
        lines[at..=at + 1].to_vec()
    };
    let message = "Failed to delete the object: no";
    for (conditions, want) in [
        (
            json!([condition("Applied", "False", "AppliedFailed", message)]),
            format!("        Work karmada-es-m2/web-1 [Broken] AppliedFailed: {message} <-"),
        ),
        (
            json!([condition("Applied", "True", "AppliedSuccessful", "")]),
            "        Work karmada-es-m2/web-1 [Waiting] is to be deleted".to_owned(),
        ),
    ] {
        assert_eq!(going(conditions), ["      Cluster m2 [Ok] ".to_owned(), want]);
    }
}

#[test]
fn health_that_is_older_than_the_copy_breaks_no_link() {
    let mut world = world();
    world.insert_work(changed(healthy("m1", 2, "Healthy"), json!({})));
    world.insert_work(changed(healthy("m2", 1, "Unhealthy"), json!({})));
    let mut copy = crate::check::tests::manifest("m2", 1);
    copy["status"] = json!({"readyReplicas": 1});
    world.insert_member("m2".into(), copy);
    let lines = printed(&world);
    assert!(
        lines
            .iter()
            .any(|line| line.trim() == "m2: Deployment shop/web [Waiting] 1/1 ready, health not reported yet <-"),
        "{lines:#?}"
    );
}

#[test]
fn new_copy_that_waits_for_the_end_of_the_old_one_says_so() {
    let mut world = world();
    world.works.clear();
    world.insert_work(changed(work("m1", 2), json!({})));
    let task = json!({"fromCluster": "m1", "purgeMode": "Directly", "reason": "R", "producer": "P"});
    let moved = json!({"spec": {"clusters": [{"name": "m2", "replicas": 3}], "gracefulEvictionTasks": [task]}});
    world.insert_binding(changed(binding(), moved));
    let lines = printed(&world);
    let want = "[Waiting] waits until the old copy in m1 is deleted; annotation failover.ironclad.io/proceed-without-cleanup=true on the binding ends the wait";
    assert!(lines.iter().any(|line| line.contains(want)), "{lines:#?}");
}

#[test]
fn replicas_that_stay_in_a_cluster_that_is_left_are_told() {
    let mut world = world();
    let task = json!({"fromCluster": "m1", "purgeMode": "Directly", "reason": "R", "producer": "P", "replicas": 2});
    let divided = json!({"replicaScheduling": {"replicaSchedulingType": "Divided"}});
    let spec = json!({"replicas": 3, "placement": divided, "clusters": [{"name": "m2", "replicas": 1}],
        "gracefulEvictionTasks": [task]});
    world.insert_binding(changed(binding(), json!({"spec": spec})));
    let lines = printed(&world);
    let want = "Work karmada-es-m1/web-1 [Waiting] 2 replicas stay until others have room";
    assert!(lines.iter().any(|line| line.trim().starts_with(want)), "{lines:#?}");
}

#[test]
fn target_without_a_work_has_its_name_and_the_reason_in_the_status() {
    let mut world = world();
    world.works.clear();
    let item =
        json!([{"clusterName": "m2", "applied": false, "appliedMessage": "override for cluster m2: no such field"}]);
    world.insert_binding(changed(binding(), json!({"status": {"aggregatedStatus": item}})));
    let lines = printed(&world);
    let of_works: Vec<&str> = lines.iter().map(|line| line.trim()).filter(|line| line.starts_with("Work ")).collect();
    let name = names::work_name("Deployment", "shop", "web");
    assert_eq!(
        of_works,
        [
            format!("Work karmada-es-m1/{name} [Waiting] is not made yet"),
            format!("Work karmada-es-m2/{name} [Broken] was not made: override for cluster m2: no such field <-"),
        ]
    );
}

#[test]
fn reasons_of_decisions_are_told_where_the_chain_ends() {
    let mut world = world();
    world.bindings.clear();
    let unbound = Explained { unbound: Some("waits for an override".to_owned()), ..Explained::default() };
    assert!(
        printed_as(&world, &key(), &unbound).contains(&"    ResourceBinding [Waiting] waits for an override <-".into())
    );
    let mut alone = template();
    alone["metadata"]["annotations"] = json!({});
    world.insert_template(alone);
    let skipped = (LinkState::Ok, "templates of this kind are not propagated".to_owned());
    let lines = printed_as(&world, &key(), &Explained { unclaimed: Some(skipped), ..Explained::default() });
    assert_eq!(lines[1], "  no policy [Ok] templates of this kind are not propagated");

    world.insert_template(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    let namespace = ObjectKey { gvk: Gvk::from_manifest("v1", "Namespace"), namespace: "".into(), name: "shop".into() };
    let mut of_namespace = work("m1", 1);
    of_namespace["metadata"]["name"] = "shop-ns".into();
    world.insert_work(changed(of_namespace, json!({})));
    let explained = Explained {
        unclaimed: Some((LinkState::Ok, "namespace sync".to_owned())),
        placed: Some(Placed { works: vec!["shop-ns".to_owned()], clusters: None }),
        ..Explained::default()
    };
    let lines = printed_as(&world, &namespace, &explained);
    for line in [
        "  no policy [Ok] namespace sync",
        "    Cluster m1 [Ok] ",
        "      Work karmada-es-m1/shop-ns [Ok] applied",
        "      Work karmada-es-m2/shop-ns [Waiting] is not made yet",
    ] {
        assert!(lines.iter().any(|one| one.trim_end_matches(" <-") == line), "{line}: {lines:#?}");
    }
    let lines = printed_as(&world, &namespace, &Explained { without_works: true, ..explained });
    let hidden = "      Work karmada-es-m2/shop-ns [Waiting] is not known: you may not read it";
    assert!(lines.iter().any(|one| one.trim_end_matches(" <-") == hidden), "{lines:#?}");
}

#[test]
fn pods_hang_from_their_copies() {
    let mut world = world();
    for (cluster, replicas) in [("m1", 2), ("m2", 1)] {
        world.insert_work(changed(healthy(cluster, replicas, "Healthy"), json!({})));
    }
    let running = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    let waiting = json!({"phase": "Pending", "containerStatuses": [
        {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]});
    let creating =
        json!({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]});
    let unschedulable = json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes fit"}]});
    for (name, metadata, status, want) in [
        ("ready", json!({}), running.clone(), "[Ok] ready on n1"),
        ("starting", json!({}), creating, "[Waiting] starts on n1"),
        ("unready", json!({}), json!({"phase": "Running"}), "[Waiting] runs on n1, not ready yet"),
        ("no image", json!({}), waiting, "[Broken] ImagePullBackOff: no such image"),
        ("no node", json!({}), unschedulable, "[Broken] Unschedulable: 0/1 nodes fit"),
        (
            "failed",
            json!({}),
            json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
            "[Broken] failed on n1: Evicted: low on memory",
        ),
        ("ended", json!({}), json!({"phase": "Succeeded"}), "[Ok] has ended on n1"),
        ("leaving", json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), running, "[Waiting] is being deleted"),
        ("elsewhere", json!({"namespace": "other"}), json!({"phase": "Running"}), ""),
    ] {
        let mut world = world.clone();
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": "web-1"},
            "spec": {"nodeName": "n1"}, "status": status});
        pod["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        world.insert_member("m1".into(), pod);
        let lines = printed(&world);
        let copy = lines.iter().position(|line| line.contains("m1: Deployment")).unwrap();
        let below = lines[copy + 1].trim_start().trim_end_matches(" <-");
        let want = if want.is_empty() { "Cluster m2 [Ok] ".to_owned() } else { format!("m1: Pod shop/web-1 {want}") };
        assert_eq!(below, want, "{name}");
    }
}
