use ironclad_api::{Time, policy::Placement};

use super::*;
use crate::{
    capacity::Modelling,
    testkit::{
        affinity, at, binding, cluster, duplicated, dynamic, group, overflow, settled, taint, targets, weighted,
    },
};

#[test]
fn cluster_changes_enqueue_bindings() {
    let old = cluster("m1");
    let with = |change: &dyn Fn(&mut Cluster)| {
        let mut new = old.clone();
        change(&mut new);
        wakes(Some(&old), Some(&new))
    };
    let condition = |type_: &str| conditions::condition(type_, "True", "R", "");
    assert_eq!(wakes(None, Some(&old)), Wakes::Concerned, "it joined");
    assert_eq!(wakes(Some(&old), None), Wakes::Concerned, "it is deleted");
    assert_eq!(with(&|_| {}), Wakes::Nobody);
    assert_eq!(with(&|c| c.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into())), Wakes::Concerned);
    assert_eq!(with(&|c| c.metadata.generation = Some(2)), Wakes::Concerned, "taints are in the spec");
    assert_eq!(with(&|c| c.metadata.deletion_timestamp = Some(Time(at(1)))), Wakes::Concerned);
    assert_eq!(
        with(&|c| c.metadata.annotations = Some([(DRAINING.to_owned(), "now".to_owned())].into())),
        Wakes::Nobody
    );
    let mut drained = old.clone();
    drained.metadata.annotations = Some([(DRAINING.to_owned(), "now".to_owned())].into());
    assert_eq!(wakes(Some(&drained), Some(&old)), Wakes::Concerned, "what was drained may come back");
    assert_eq!(with(&|c| c.metadata.resource_version = Some("9".into())), Wakes::Nobody);
    assert_eq!(with(&|c| c.status.as_mut().unwrap().api_enablements.clear()), Wakes::Concerned);
    assert_eq!(with(&|c| c.status.as_mut().unwrap().conditions.push(condition(READY))), Wakes::Unsettled);
    assert_eq!(with(&|c| c.status.as_mut().unwrap().conditions.push(condition("Other"))), Wakes::Nobody);
    assert_eq!(with(&|c| c.status.as_mut().unwrap().kubernetes_version = "v1".into()), Wakes::Nobody);
}

#[test]
fn kind_of_the_change_and_state_of_the_binding_decide() {
    let tainted = |name: &str| {
        let mut cluster = cluster(name);
        cluster.spec.taints = vec![taint("down", "", "NoSchedule")];
        cluster
    };
    let affine = |name: &str| Placement { cluster_affinity: Some(affinity(&[name])), ..dynamic() };
    let on = |result: &[(&str, i32)]| settled(affine("m1"), 2, result);
    let elsewhere = || settled(affine("m2"), 2, &[("m2", 2)]);
    let (concerned, unsettled) = (Wakes::Concerned, Wakes::Unsettled);
    // The last columns: if the last attempt failed, if that is asked, and if the binding is enqueued.
    for (name, binding, wakes, worse, fails, asked, want) in [
        ("nothing of interest", on(&[]), Wakes::Nobody, false, true, false, false),
        ("a cluster that it does not select", elsewhere(), concerned, false, false, false, false),
        (
            "one that it does not select, unsettled",
            settled(affine("m2"), 2, &[]),
            unsettled,
            false,
            false,
            false,
            false,
        ),
        ("it has a final placement", on(&[("m1", 2)]), unsettled, false, false, false, false),
        ("it has no result", on(&[]), unsettled, false, true, false, true),
        ("its target", on(&[("m1", 2)]), concerned, true, true, false, true),
        ("a cluster that it selects", on(&[("m2", 2)]), concerned, true, false, true, true),
        ("its last attempt failed, and the change may help", on(&[]), concerned, false, true, true, true),
        ("its last attempt failed, and the change does not help", on(&[]), concerned, true, true, true, false),
    ] {
        let (mut old, mut new) = (tainted("m1"), cluster("m1"));
        if worse {
            std::mem::swap(&mut old, &mut new);
        }
        let mut was_asked = false;
        let is_unschedulable = || {
            was_asked = true;
            fails
        };
        let found =
            enqueues((&binding).into(), Some(&old), Some(&new), wakes, is_unschedulable, &Options::default(), at(0));
        assert_eq!((found.is_some(), was_asked), (want, asked), "{name}");
    }
    let gone = enqueues(
        (&elsewhere()).into(),
        Some(&cluster("m2")),
        None,
        concerned,
        || panic!("a target"),
        &Options::default(),
        at(0),
    );
    assert_eq!(gone, Some(Since::default()), "its target is gone");
}

#[test]
fn api_that_a_member_gets_counts_for_bindings_that_do_not_run_there() {
    let with = |kinds: &[&str], complete: &str| -> Cluster {
        let mut cluster = cluster("m2");
        let status = cluster.status.as_mut().unwrap();
        let resources: Vec<_> = kinds.iter().map(|kind| serde_json::json!({"name": "x", "kind": kind})).collect();
        let groups = serde_json::json!([{"groupVersion": "apps/v1", "resources": resources}]);
        status.api_enablements = serde_json::from_value(groups).unwrap();
        status.conditions = vec![conditions::condition(COMPLETE_API_ENABLEMENTS, complete, "R", "")];
        cluster
    };
    let without = with(&["StatefulSet"], "True");
    let (serves, unknown) = (with(&["StatefulSet", "Deployment"], "True"), with(&["StatefulSet"], "False"));
    let elsewhere = settled(weighted(&[]), 4, &[("m1", 4)]);
    let there = settled(weighted(&[]), 4, &[("m1", 2), ("m2", 2)]);
    for (name, binding, old, new, want) in [
        ("it got the kind", &elsewhere, Some(&without), Some(&serves), true),
        ("it had the kind", &elsewhere, Some(&serves), Some(&serves), false),
        ("another kind", &elsewhere, Some(&with(&[], "True")), Some(&without), false),
        ("its kinds were not known", &elsewhere, Some(&unknown), Some(&serves), false),
        ("it joined", &elsewhere, None, Some(&serves), false),
        ("it is a target", &there, Some(&without), Some(&serves), false),
    ] {
        let found = since(binding.into(), old, new);
        assert_eq!(found, Since { api_appeared: want, relabelled: false }, "{name}");
    }
}

#[test]
fn changed_labels_count_for_bindings_in_a_later_group() {
    let labelled = |value: &str| {
        let mut cluster = cluster("m1");
        cluster.metadata.labels = Some([("tier".to_owned(), value.to_owned())].into());
        cluster
    };
    let in_group = |name: &str| {
        let groups = vec![group("p", &["m1"]), group("b", &["m2"])];
        let mut binding = settled(Placement { cluster_affinities: groups, ..duplicated() }, 2, &[("m2", 2)]);
        binding.status.get_or_insert_default().scheduler_observed_affinity_name = name.to_owned();
        binding
    };
    let (gold, iron) = (labelled("gold"), labelled("iron"));
    for (name, binding, old, new, want) in [
        ("other labels", in_group("b"), Some(&gold), Some(&iron), true),
        ("the same labels", in_group("b"), Some(&gold), Some(&gold), false),
        ("it joined", in_group("b"), None, Some(&gold), false),
        ("in the first group", in_group("p"), Some(&gold), Some(&iron), false),
        ("without groups", settled(duplicated(), 2, &[("m2", 2)]), Some(&gold), Some(&iron), false),
    ] {
        let found = since((&binding).into(), old, new);
        assert_eq!(found, Since { api_appeared: false, relabelled: want }, "{name}");
    }
    let both = Since { api_appeared: true, relabelled: true };
    let (one, other) = (Since { relabelled: false, ..both }, Since { api_appeared: false, ..both });
    assert_eq!((one.and(other), one.and(Since::default())), (both, one));
}

#[test]
fn cluster_concerns_its_targets_and_selected_bindings() {
    let options = Options::default();
    let of = |placement: Placement, observed: &str| {
        let mut binding = settled(placement, 1, &[]);
        binding.status.as_mut().unwrap().scheduler_observed_affinity_name = observed.into();
        binding.status.as_mut().unwrap().scheduler_observed_generation = 1;
        binding
    };
    let affine = |names: &[&str]| Placement { cluster_affinity: Some(affinity(names)), ..Placement::default() };
    let mut tiered = group("a", &["m1"]);
    tiered.overflow_affinities = vec![overflow("o", &["m3"])];
    let groups = Placement { cluster_affinities: vec![tiered, group("b", &["m2"])], ..Placement::default() };
    for (name, binding, cluster_name, want) in [
        ("no affinity", of(duplicated(), ""), "m1", true),
        ("chosen", of(affine(&["m1"]), ""), "m1", true),
        ("not chosen", of(affine(&["m1"]), ""), "m2", false),
        ("the first group where none is observed", of(groups.clone(), ""), "m1", true),
        ("a group that is not in use", of(groups.clone(), "b"), "m1", false),
        ("the group in use", of(groups.clone(), "b"), "m2", true),
        ("an overflow tier of the group in use", of(groups.clone(), "a"), "m3", true),
    ] {
        assert_eq!(concerns((&binding).into(), &cluster(cluster_name), &options), want, "{name}");
    }
    let mut lagging = of(groups, "b");
    lagging.metadata.generation = Some(2);
    assert!(concerns((&lagging).into(), &cluster("m1"), &options), "the status may lag");
    let mut target = of(affine(&["m1"]), "");
    target.spec.clusters = targets(&[("m2", 1)]);
    assert!(concerns((&target).into(), &cluster("m2"), &options), "a target, chosen or not");
    target.spec.placement = None;
    assert!(!concerns((&target).into(), &cluster("m2"), &options), "no placement");
}

#[test]
fn changes_of_a_cluster_that_may_help_who_waits() {
    let with = |change: &dyn Fn(&mut Cluster)| {
        let mut cluster = cluster("m1");
        change(&mut cluster);
        cluster
    };
    let plain = || with(&|_| {});
    let labelled = |key: &str| {
        let labels = Some([(key.to_owned(), "yes".to_owned())].into());
        with(&move |cluster| cluster.metadata.labels.clone_from(&labels))
    };
    let tainted = || with(&|cluster| cluster.spec.taints = vec![taint("down", "", "NoSchedule")]);
    let in_region = |region: &str| {
        let region = region.to_owned();
        with(&move |cluster| cluster.spec.region.clone_from(&region))
    };
    let leaving = || with(&|cluster| cluster.metadata.deletion_timestamp = Some(Time(at(1))));
    let without_api = || with(&|cluster| cluster.status.as_mut().unwrap().api_enablements.clear());
    let selects = |key: &str| {
        let labels = serde_json::json!({"labelSelector": {"matchLabels": {key: "yes"}}});
        Placement { cluster_affinity: serde_json::from_value(labels).unwrap(), ..dynamic() }
    };
    let groups = Placement { cluster_affinities: vec![group("a", &["m9"]), group("b", &["m1"])], ..dynamic() };
    for (name, placement, old, new, want) in [
        ("a label that nobody asks for", dynamic(), plain(), labelled("x"), false),
        ("a label that is asked for", selects("x"), plain(), labelled("x"), true),
        ("another label while it fits", selects("x"), labelled("x"), labelled("x"), false),
        ("the label is gone", selects("x"), labelled("x"), plain(), false),
        ("a taint is removed", dynamic(), tainted(), plain(), true),
        ("a taint is added", dynamic(), plain(), tainted(), false),
        ("its API appears", dynamic(), without_api(), plain(), true),
        ("it moves to another region", dynamic(), in_region("a"), in_region("b"), true),
        ("it leaves", dynamic(), plain(), leaving(), false),
        ("a later affinity group", groups, tainted(), plain(), true),
    ] {
        let mut waiting = binding("web", 2, &[]);
        waiting.spec.placement = Some(placement.into());
        let help = |old, new| may_help((&waiting).into(), old, new, &Options::default(), at(0));
        assert_eq!(help(Some(&old), Some(&new)), want, "{name}");
        assert!(!help(Some(&new), None), "{name}: a cluster that is gone helps nobody");
    }
    let mut waiting = binding("web", 2, &[]);
    waiting.spec.placement = Some(dynamic().into());
    assert!(may_help((&waiting).into(), None, Some(&plain()), &Options::default(), at(0)), "a new cluster");
}

#[test]
fn growth_of_a_cluster_counts_for_bindings_that_fit_there() {
    let mut grown = cluster("m1");
    let summary = serde_json::json!({"allocatable": {"cpu": "2", "pods": "10"}});
    grown.status.as_mut().unwrap().resource_summary = Some(serde_json::from_value(summary).unwrap());
    let capacity = Capacity::of(&[("m1".into(), grown.clone().into())].into(), Modelling::On);
    for (name, selects, cpu, want) in [
        ("it fits", "m1", "2", true),
        ("it is too large", "m1", "3", false),
        ("it selects another cluster", "m2", "2", false),
    ] {
        let mut waiting = binding("web", 2, &[]);
        waiting.spec.placement = Some(Placement { cluster_affinity: Some(affinity(&[selects])), ..dynamic() }.into());
        let requests = serde_json::json!({"resourceRequest": {"cpu": cpu}});
        waiting.spec.replica_requirements = serde_json::from_value(requests).unwrap();
        assert_eq!(may_fit((&waiting).into(), &grown, &capacity, &Options::default()), want, "{name}");
    }
}
