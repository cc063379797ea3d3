//! Plans of applied objects, over fleets of four clusters.

use std::{fmt::Write as _, sync::Arc};

use ironclad_fleet::{ClusterName, gates::Gate};
use ironclad_interpreter::Interpreter;
use ironclad_scheduling::estimator::{Claim, Index, Pod, Workload};
use jiff::Timestamp;

use super::{Alternative, CopyChange, Planned};
use crate::{
    Preemption, Settings,
    replay::Replay,
    testkit::{nodes_of, objects},
    why::explain,
};

/// m2 is cordoned, m3 does not serve Deployments; `web` and `db` wait for a policy.
const FLEET: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m1}, spec: {syncMode: Push}, status: &ready {apiEnablements: [{groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}], conditions: [{type: Ready, status: "True", reason: ClusterReady, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}, {type: CompleteAPIEnablements, status: "True", reason: Complete, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m2}, spec: {syncMode: Push, taints: [{key: cluster.karmada.io/unschedulable, effect: NoSchedule}]}, status: *ready}
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m3}, spec: {syncMode: Push}, status: {conditions: [{type: CompleteAPIEnablements, status: "True", reason: Complete, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m4}, spec: {syncMode: Push}, status: *ready}
"#;

/// A Deployment of namespace `shop`; `claim` is metadata besides.
fn deployment(name: &str, replicas: u32, claim: &str) -> String {
    format!(
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: shop, uid: u-{name}{claim}}}\n\
         spec: {{replicas: {replicas}, template: {{spec: {{containers: [{{name: c, image: \"{name}:1\"}}]}}}}}}\n"
    )
}

fn policy(name: &str, selector: &str, clusters: &str, more: &str) -> String {
    format!(
        "---\napiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: {name}, namespace: shop}}\n\
         spec: {{resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment{selector}}}], \
         placement: {{clusterAffinity: {{clusterNames: {clusters}}}}}{more}}}\n"
    )
}

/// `web`, placed by policy `low` in m1 alone.
fn placed() -> String {
    let claim = ", labels: {propagationpolicy.karmada.io/permanent-id: low-id}, annotations: {propagationpolicy.karmada.io/name: low, propagationpolicy.karmada.io/namespace: shop}";
    let low = policy("low", ", name: web", "[m1]", ", priority: 1").replace(
        "name: low, namespace: shop}",
        "name: low, namespace: shop, labels: {propagationpolicy.karmada.io/permanent-id: low-id}, finalizers: [karmada.io/propagation-policy-controller]}",
    );
    let binding = "---\napiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\n\
        metadata: {name: web-deployment, namespace: shop, uid: b, generation: 2, labels: {propagationpolicy.karmada.io/permanent-id: low-id, resourcebinding.karmada.io/permanent-id: rb}, \
        finalizers: [karmada.io/binding-controller], annotations: {propagationpolicy.karmada.io/name: low, propagationpolicy.karmada.io/namespace: shop, \
        policy.karmada.io/applied-placement: '{\"clusterAffinity\":{\"clusterNames\":[\"m1\"]}}'}}\n\
        spec: {replicas: 2, resource: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web, uid: u-web}, \
        clusters: [{name: m1, replicas: 2}], placement: {clusterAffinity: {clusterNames: [m1]}}}\n\
        status: {schedulerObservedGeneration: 2, conditions: [{type: Scheduled, status: \"True\", reason: Success, message: \"\", lastTransitionTime: \"2026-01-01T00:00:00Z\"}]}\n";
    format!("{FLEET}{}{low}{binding}", deployment("web", 2, claim))
}

const IMAGE: &str = "---\napiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: mirror, namespace: shop}\n\
    spec: {resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}], overrideRules: [{targetCluster: {clusterNames: [m1]}, overriders: \
    {plaintext: [{path: PATH, operator: replace, value: 9}]}}]}\n";

/// The plan of a file as text: the change of each copy, and every reason.
fn story(fleet: &str, file: &str, preemption: bool) -> String {
    answer(&Planned::of_dump(objects(fleet), objects(file), "shop").unwrap(), preemption)
}

fn answer(planned: &Planned, preemption: bool) -> String {
    let preemption = if preemption { Preemption::On } else { Preemption::Off };
    let now = Timestamp::from_second(1_790_000_000).unwrap();
    let found = planned.plan_apply(preemption, &Interpreter::default(), now);
    let mut text = String::new();
    for change in &found.templates {
        let because: Vec<String> = change.because.iter().map(ToString::to_string).collect();
        let _ = write!(text, "{} [{}]", change.template.name, because.join("; "));
        for (cluster, copy) in &change.copies {
            let figure = |replicas: Option<i32>| replicas.map_or_else(|| "-".to_owned(), |r| r.to_string());
            let _ = write!(text, " {cluster}:{} {}>{}", copy.change(), figure(copy.before), figure(copy.after));
            let _ = write!(text, "{}", copy.overrides.iter().map(|name| format!(" ({name})")).collect::<String>());
            let _ = write!(text, "{}", copy.error.iter().map(|error| format!(" ({error})")).collect::<String>());
        }
        let failure = change.scheduling.as_ref().and_then(|scheduling| scheduling.failure.as_deref());
        let _ = write!(text, "{}", failure.map(|failure| format!(" no place: {failure}")).unwrap_or_default());
        for other in &change.alternatives {
            let on = other.copies.iter().filter_map(|(cluster, copy)| Some(format!(" {cluster}:{}", copy.after?)));
            let _ = write!(text, " or{} {}", on.collect::<String>(), other.course);
        }
        text.push('\n');
    }
    let quiet = found.templates.iter().all(|change| !change.moves());
    assert_eq!(found.is_quiet(), quiet);
    let _ = write!(text, "{} unchanged{}", found.unchanged, if quiet { ", quiet" } else { "" });
    text
}

#[test]
fn what_would_happen() {
    let waiting = format!("{FLEET}{}{}", deployment("web", 2, ""), deployment("db", 1, ""));
    let high = |more: &str| policy("high", ", name: web", "[m4]", &format!(", priority: 5{more}"));
    let image = |path: &str| IMAGE.replace("PATH", path);
    for (name, fleet, file, preemption, want) in [
        (
            "a first policy claims what waits for it",
            &waiting,
            policy("web", ", name: web", "[m1, m4]", ""),
            false,
            "web [PropagationPolicy shop/web selects the template by name] m1:new ->2 m4:new ->2\n1 unchanged",
        ),
        (
            "a template comes under a policy that is there",
            &placed(),
            format!("{}{}", deployment("api", 3, ""), policy("all", "", "[m4]", "")),
            false,
            "api [PropagationPolicy shop/all selects the template by kind] m4:new ->3\n1 unchanged",
        ),
        (
            "a template before its policy: a policy that is there claims it first, and keeps it",
            &format!("{FLEET}{}", policy("broad", "", "[m1]", "")),
            format!("{}{}", deployment("api", 3, ""), policy("narrow", ", name: api", "[m4]", "")),
            false,
            "api [PropagationPolicy shop/broad selects the template by kind] m1:new ->3 \
             or m4:3 if the controllers see all objects of the file before they act on the first\n0 unchanged",
        ),
        (
            "a template after its policy",
            &format!("{FLEET}{}", policy("broad", "", "[m1]", "")),
            format!("{}{}", policy("narrow", ", name: api", "[m4]", ""), deployment("api", 3, "")),
            false,
            "api [PropagationPolicy shop/narrow selects the template by name; PropagationPolicy shop/broad selects it too: its selector is less specific] m4:new ->3\n0 unchanged",
        ),
        (
            "a Namespace goes to every member",
            &FLEET.to_owned(),
            "---\n{apiVersion: v1, kind: Namespace, metadata: {name: lab}}\n".to_owned(),
            false,
            "lab [] m1:new ->0 m2:new ->0 m3:new ->0 m4:new ->0\n0 unchanged",
        ),
        (
            "another placement: the copy moves",
            &placed(),
            policy("low", ", name: web", "[m4]", ", priority: 1"),
            false,
            "web [STAYS] m1:goes 2>- m4:new ->2\n0 unchanged",
        ),
        ("nothing new", &placed(), policy("low", ", name: web", "[m1]", ", priority: 1"), false, "1 unchanged, quiet"),
        (
            "the template scales",
            &placed(),
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 5}\n"
                .to_owned(),
            false,
            "web [STAYS] m1:scales 2>5\n0 unchanged",
        ),
        (
            "the template changes",
            &placed(),
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {paused: true}\n"
                .to_owned(),
            false,
            "web [STAYS] m1:changes 2>2\n0 unchanged",
        ),
        (
            "an override changes a copy",
            &placed(),
            image("/spec/minReadySeconds").replace("replace", "add"),
            false,
            "web [STAYS] m1:changes 2>2 (OverridePolicy mirror)\n0 unchanged",
        ),
        (
            "an override that can't be applied",
            &placed(),
            image("/spec/nope/deeper"),
            false,
            "web [STAYS] m1:fails 2>2 (OverridePolicy shop/mirror: plaintext: ERROR)\n0 unchanged",
        ),
        ("a stronger policy does not take what is claimed", &placed(), high(""), true, "1 unchanged, quiet"),
        (
            "unless it preempts",
            &placed(),
            high(", preemption: Always"),
            true,
            "web [PropagationPolicy shop/high takes the template from PropagationPolicy shop/low] m1:goes 2>- m4:new ->2\n0 unchanged",
        ),
        ("and the gate is on", &placed(), high(", preemption: Always"), false, "1 unchanged, quiet"),
        (
            "the selector leaves it: its copies stay",
            &placed(),
            policy("low", ", name: other", "[m1]", ", priority: 1"),
            false,
            "web [PropagationPolicy shop/low does not select the template any more; no policy selects Deployment shop/web] m1:stays 2>2\n0 unchanged, quiet",
        ),
        (
            "there is no place",
            &waiting,
            policy("web", ", name: web", "[m2, m3]", ""),
            false,
            "web [PropagationPolicy shop/web selects the template by name] no place: FAILURE\n1 unchanged, quiet",
        ),
    ] {
        let got = story(fleet, &file, preemption);
        // What the scheduler and the overrides say in full is theirs to test.
        let short = |text: &str, from: &str, to: &str| match (text.split_once(from), want.contains(to)) {
            (Some((before, after)), true) => {
                let end = after.find('\n').unwrap_or(after.len());
                format!("{before}{from}{to}{}", &after[end..])
            }
            _ => text.to_owned(),
        };
        let stays = "the template is claimed by PropagationPolicy shop/low and stays with it";
        let got = got.replace(&format!("[{stays}]"), "[STAYS]");
        let got = short(&short(&got, "plaintext: ", "ERROR)"), "no place: ", "FAILURE");
        assert_eq!(got, want, "{name}");
    }
}

/// `mounting`, which refers to ConfigMap `settings`, in m1; the ConfigMap is attached to it.
fn attached() -> String {
    let claim = ", labels: {propagationpolicy.karmada.io/permanent-id: all-id}, annotations: {propagationpolicy.karmada.io/name: all, propagationpolicy.karmada.io/namespace: shop}";
    let all = mounting_policy("[m1]", "true").replace(
        "name: all, namespace: shop}",
        "name: all, namespace: shop, labels: {propagationpolicy.karmada.io/permanent-id: all-id}, finalizers: [karmada.io/propagation-policy-controller]}",
    );
    let dependencies = r#"[{"apiVersion":"v1","kind":"ConfigMap","namespace":"shop","name":"settings"}]"#;
    let binding = format!(
        "---\napiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\n\
        metadata: {{name: mounting-deployment, namespace: shop, uid: b, generation: 2, labels: {{propagationpolicy.karmada.io/permanent-id: all-id, resourcebinding.karmada.io/permanent-id: rb}}, \
        finalizers: [karmada.io/binding-controller, karmada.io/binding-dependencies-distributor], annotations: {{propagationpolicy.karmada.io/name: all, propagationpolicy.karmada.io/namespace: shop, \
        resourcebinding.karmada.io/dependencies: '{dependencies}', \
        policy.karmada.io/applied-placement: '{{\"clusterAffinity\":{{\"clusterNames\":[\"m1\"]}}}}'}}}}\n\
        spec: {{replicas: 2, propagateDeps: true, resource: {{apiVersion: apps/v1, kind: Deployment, namespace: shop, name: mounting, uid: u-mounting}}, \
        clusters: [{{name: m1, replicas: 2}}], placement: {{clusterAffinity: {{clusterNames: [m1]}}}}}}\n\
        status: {{schedulerObservedGeneration: 2, conditions: [{{type: Scheduled, status: \"True\", reason: Success, message: \"\", lastTransitionTime: \"2026-01-01T00:00:00Z\"}}]}}\n"
    );
    let edge = ironclad_api::names::depended_by_label("shop", "mounting-deployment");
    let follower = format!(
        "---\napiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\n\
        metadata: {{name: settings-configmap, namespace: shop, uid: s, labels: {{resourcebinding.karmada.io/permanent-id: rs, {edge}: rb}}, finalizers: [karmada.io/binding-controller]}}\n\
        spec: {{resource: {{apiVersion: v1, kind: ConfigMap, namespace: shop, name: settings, uid: u-settings}}, \
        requiredBy: [{{namespace: shop, name: mounting-deployment, clusters: [{{name: m1, replicas: 2}}]}}]}}\n"
    );
    format!("{FLEET}{}{SETTINGS}{all}{binding}{follower}", mounting(claim))
}

/// A Deployment that refers to ConfigMap `settings`; `claim` is metadata besides.
fn mounting(claim: &str) -> String {
    deployment("mounting", 2, claim)
        .replace("containers:", "volumes: [{name: v, configMap: {name: settings}}], containers:")
}

fn mounting_policy(clusters: &str, follow: &str) -> String {
    policy("all", ", name: mounting", clusters, &format!(", propagateDeps: {follow}"))
}

const SETTINGS: &str = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: shop, uid: u-settings}\ndata: {a: \"1\"}\n";

/// Dependencies are planned for exactly the clusters of their workloads (specification/propagation.md 8).
#[test]
fn what_follows() {
    let by = "the workload of binding shop/mounting-deployment refers to it";
    let unreferenced = "nothing refers to the object of binding shop/settings-configmap any more";
    let (nobody, stays) = (
        "no policy selects ConfigMap shop/settings",
        "the template is claimed by PropagationPolicy shop/all and stays with it",
    );
    for (name, fleet, file, want) in [
        (
            "with its workload",
            format!("{FLEET}{}{SETTINGS}", mounting("")),
            mounting_policy("[m1, m4]", "true"),
            format!(
                "settings [{nobody}; {by}] m1:new ->0 m4:new ->0\n\
                 mounting [PropagationPolicy shop/all selects the template by name] m1:new ->2 m4:new ->2\n0 unchanged"
            ),
        ),
        (
            "nothing follows unless it is asked for",
            format!("{FLEET}{}{SETTINGS}", mounting("")),
            mounting_policy("[m1]", "false"),
            "mounting [PropagationPolicy shop/all selects the template by name] m1:new ->2\n1 unchanged".to_owned(),
        ),
        (
            "what is not there yet comes with the same file",
            format!("{FLEET}{}", mounting("")),
            format!("{}{SETTINGS}", mounting_policy("[m1]", "true")),
            format!(
                "settings [{nobody}; {by}] m1:new ->0\n\
                 mounting [PropagationPolicy shop/all selects the template by name] m1:new ->2\n0 unchanged"
            ),
        ),
        (
            "and moves with it",
            attached(),
            mounting_policy("[m4]", "true"),
            format!(
                "settings [{nobody}; {by}] m1:goes 0>- m4:new ->0\nmounting [{stays}] m1:goes 2>- m4:new ->2\n0 unchanged"
            ),
        ),
        (
            "its own change shows in the copies",
            attached(),
            SETTINGS.replace("\"1\"", "\"2\""),
            format!("settings [{nobody}] m1:changes 0>0\n1 unchanged"),
        ),
        (
            "not referred to any more, it goes",
            attached(),
            deployment("mounting", 2, "").replace("{containers:", "{volumes: null, containers:"),
            format!(
                "settings [{nobody}; {unreferenced}] m1:goes 0>-\n\
                 mounting [{stays}] m1:changes 2>2\n0 unchanged"
            ),
        ),
        (
            "as it does when nothing is to follow",
            attached(),
            mounting_policy("[m1]", "false"),
            format!("settings [{nobody}; {unreferenced}] m1:goes 0>-\n1 unchanged"),
        ),
    ] {
        assert_eq!(story(&fleet, &file, false), want, "{name}");
    }
}

/// A Deployment whose replicas request two cores each.
fn large(name: &str, replicas: u32) -> String {
    let requests = "name: c, resources: {requests: {cpu: \"2\"}}";
    deployment(name, replicas, "").replace("name: c", requests)
}

/// The fleet, with four cores in m1 and two in m4.
fn four_and_two_cores() -> String {
    let summary = |free: u32| {
        format!(
            "resourceSummary: {{allocatable: {{cpu: \"{free}\", pods: \"100\"}}}}, apiEnablements: [{{groupVersion: apps/v1"
        )
    };
    let fleet = FLEET.replacen("apiEnablements: [{groupVersion: apps/v1", &summary(4), 1);
    let ready = fleet.find("status: &ready ").unwrap() + "status: &ready ".len();
    let status = &fleet[ready..ready + fleet[ready..].find("}]}}").unwrap() + 3];
    let smaller = status.replace("cpu: \"4\"", "cpu: \"2\"");
    fleet.replace(
        "{name: m4}, spec: {syncMode: Push}, status: *ready}",
        &format!("{{name: m4}}, spec: {{syncMode: Push}}, status: {smaller}}}"),
    )
}

#[test]
fn workloads_that_compete_have_several_outcomes() {
    let fleet = four_and_two_cores();
    let aggregated = policy("all", "", "[m1, m4]", "").replace(
        "clusterNames: [m1, m4]}",
        "clusterNames: [m1, m4]}, replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}",
    );
    let by = "PropagationPolicy shop/all selects the template by kind";
    let one = format!("small [{by}] m1:new ->1\n");
    for (name, protected, file, want) in [
        (
            "the first one gets the larger cluster",
            true,
            format!("{aggregated}{}{}", large("big", 2), large("small", 1)),
            format!(
                "big [{by}] m1:new ->2 or m1:1 m4:1 if the scheduler takes small before big\n\
                 small [{by}] m4:new ->1 or m1:1 if the scheduler takes small before big\n0 unchanged"
            ),
        ),
        (
            "alone it competes with nobody",
            true,
            format!("{aggregated}{}", large("small", 1)),
            format!("{one}0 unchanged"),
        ),
        (
            "the gate of protection from overcommitment changes nothing",
            false,
            format!("{aggregated}{}{}", large("big", 2), large("small", 1)),
            format!(
                "big [{by}] m1:new ->2 or m1:1 m4:1 if the scheduler takes small before big\n\
                 small [{by}] m4:new ->1 or m1:1 if the scheduler takes small before big\n0 unchanged"
            ),
        ),
    ] {
        let mut planned = Planned::of_dump(objects(&fleet), objects(&file), "shop").unwrap();
        for fleet in [&mut planned.before, &mut planned.after] {
            let gates = fleet.settings.gates.clone().with(Gate::SchedulingOvercommitProtection, protected);
            fleet.settings = Settings::new(gates, &fleet.settings.scheduler);
        }
        assert_eq!(answer(&planned, false), want, "{name}");
    }
}

/// The nodes of members count where the leader keeps accounts by node.
#[test]
fn nodes_of_members_that_were_asked_count() {
    let aggregated = policy("all", "", "[m1, m4]", "").replace(
        "clusterNames: [m1, m4]}",
        "clusterNames: [m1, m4]}, replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}",
    );
    let file = format!("{aggregated}{}", large("web", 2));
    let plan = |estimators: bool, nodes: &[(&str, Arc<Index>)]| {
        let mut planned = Planned::of_dump(objects(&four_and_two_cores()), objects(&file), "shop").unwrap();
        for fleet in [&mut planned.before, &mut planned.after] {
            fleet.settings.estimators = estimators;
            fleet.nodes = nodes.iter().map(|(name, index)| ((*name).into(), index.clone())).collect();
        }
        let found = planned.plan_apply(Preemption::Off, &Interpreter::default(), Timestamp::UNIX_EPOCH);
        let on = found.templates[0].copies.iter().map(|(cluster, copy)| format!("{cluster}:{}", copy.after.unwrap()));
        let unasked: Vec<String> = found.unasked.iter().map(ToString::to_string).collect();
        (on.collect::<Vec<_>>().join(" "), unasked.join(" "))
    };
    let four_small = || nodes_of(&[1, 1, 1, 1]);
    let owned = |on: &str, unasked: &str| (on.to_owned(), unasked.to_owned());
    for (name, estimators, nodes, want) in [
        ("nobody asks", false, vec![], owned("m1:2", "")),
        ("both are to be asked", true, vec![], owned("m1:2", "m1 m4")),
        ("one is still to be asked", true, vec![("m1", four_small())], owned("", "m4")),
        ("cores on nodes of one", true, vec![("m1", four_small()), ("m4", nodes_of(&[1, 1, 2]))], owned("", "")),
        ("nodes count, not summaries", true, vec![("m1", four_small()), ("m4", nodes_of(&[4]))], owned("m4:2", "")),
        (
            "one of two fits on each",
            true,
            vec![("m1", nodes_of(&[2])), ("m4", nodes_of(&[1, 2]))],
            owned("m1:1 m4:1", ""),
        ),
    ] {
        assert_eq!(plan(estimators, &nodes), want, "{name}");
    }
}

/// Copies that go free the nodes on which their pods run, or for which those wait.
#[test]
fn nodes_that_copies_free_count() {
    let fleet = placed().replace("image: \"web:1\"", "image: \"web:1\", resources: {requests: {cpu: \"2\"}}");
    let moves = policy("low", ", name: web", "[m4]", ", priority: 1");
    let divided = policy("new", ", name: new", "[m1]", "").replace(
        "clusterNames: [m1]}",
        "clusterNames: [m1]}, replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}",
    );
    let file = format!("{moves}{divided}{}", large("new", 2));
    let web = Workload::new("Deployment", "shop", "web");
    let on = |node: &str| Pod {
        node: node.into(),
        request: [("cpu".to_owned(), 2_000)].into(),
        workload: web,
        is_replica: true,
        waiting: node.is_empty().then(|| Box::new(("shop/web".to_owned(), Claim::default()))),
        ..Pod::default()
    };
    for (name, cores, pods, want) in [
        ("two nodes become free", &[2, 2][..], vec![on("n0"), on("n1")], "m1:2"),
        ("one node becomes free", &[2], vec![on("n0"), on("")], ""),
        ("other pods stay", &[2, 2], vec![on("n0"), Pod { workload: Workload::NONE, ..on("n1") }], ""),
    ] {
        let mut planned = Planned::of_dump(objects(&fleet), objects(&file), "shop").unwrap();
        let mut index = Index::clone(&nodes_of(cores));
        for pod in &pods {
            index.pod(None, Some(pod));
        }
        for fleet in [&mut planned.before, &mut planned.after] {
            fleet.settings.estimators = true;
            fleet.nodes = [("m1".into(), Arc::new(index.clone())), ("m4".into(), nodes_of(&[2, 2]))].into();
        }
        let found = planned.plan_apply(Preemption::Off, &Interpreter::default(), Timestamp::UNIX_EPOCH);
        let new = found.templates.iter().find(|one| &*one.template.name == "new").unwrap();
        assert!(new.scheduling.as_ref().is_some_and(|one| one.failure.is_some()), "{name}: it fits now");
        let outcome = |other: &Alternative| -> Vec<String> {
            let on = |(cluster, copy): (&ClusterName, &CopyChange)| Some(format!("{cluster}:{}", copy.after?));
            other.copies.iter().filter_map(on).collect()
        };
        let freed = new.alternatives.iter().filter(|other| other.course.freed).flat_map(outcome);
        assert_eq!(freed.collect::<Vec<_>>().join(" "), want, "{name}");
    }
}

/// Both verbs ask one function, so they agree about every template, in every fleet.
#[test]
fn why_on_the_fleet_after_apply_gives_the_answer_of_plan_apply() {
    let now = Timestamp::from_second(1_790_000_000).unwrap();
    let interpreter = Interpreter::default();
    let waiting = format!("{FLEET}{}{}", deployment("web", 2, ""), deployment("db", 1, ""));
    let mut scheduled = 0;
    for (fleet, file) in [
        (waiting.clone(), policy("web", ", name: web", "[m1, m4]", "")),
        (waiting, policy("web", "", "[m2, m3]", "")),
        (placed(), format!("{}{}", deployment("api", 3, ""), policy("all", "", "[m4]", ""))),
        (placed(), policy("low", ", name: web", "[m4]", ", priority: 1")),
        (placed(), policy("low", ", name: other", "[m1]", ", priority: 1")),
        (placed(), policy("high", ", name: web", "[m4]", ", priority: 5, preemption: Always")),
        (format!("{FLEET}{}{SETTINGS}", mounting("")), mounting_policy("[m1, m4]", "true")),
        (attached(), mounting_policy("[m4]", "true")),
    ] {
        let planned = Planned::of_dump(objects(&fleet), objects(&file), "shop").unwrap();
        let mut replay = Replay::new(planned.after.clone(), &interpreter, now);
        for key in &planned.policies {
            let _ = replay.policy(key, Preemption::On);
        }
        for change in planned.plan_apply(Preemption::On, &interpreter, now).templates {
            let Some(scheduling) = change.scheduling else { continue };
            let placed = explain(&replay.fleet, &change.template, &interpreter, now).unwrap();
            assert_eq!(placed.scheduling.as_ref(), Some(&scheduling), "{}\n{file}", change.template);
            let binding = placed.binding.unwrap();
            assert_eq!((Some(binding.key.to_string()), binding.replicas), (change.binding, change.replicas));
            scheduled += 1;
        }
    }
    assert!(scheduled >= 7, "{scheduled}");
}

#[test]
fn what_is_no_file_to_apply() {
    for (text, want) in [
        ("", "the file holds no object"),
        ("kind: ConfigMap\nmetadata: {name: a}\n", "an object of the file has no apiVersion, kind or metadata.name"),
        ("apiVersion: v1\nkind: ConfigMap\n", "an object of the file has no apiVersion, kind or metadata.name"),
    ] {
        let error = Planned::of_dump(Vec::new(), objects(text), "shop").unwrap_err();
        assert_eq!(error.to_string(), want);
    }
}
