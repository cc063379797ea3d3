//! Questions and printed answers.

use std::fmt::Write as _;

use clap::Args as _;
use ironclad_seam::Clock;
use jiff::Timestamp;
use serde_json::{Value, json};

use ironclad_planning::why::{Explanation, answer, explain};

use super::{
    LeaderSettings::{Announced, Assumed},
    read::of_objects,
    rendered, rendered_not, unknown_here,
};
use crate::{
    plan::read::objects,
    report::{FAILED, exit_code},
};

/// Four clusters: m2 is cordoned, m3 does not serve Deployments, m4 is in another region.
const FLEET: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m1, labels: {tier: gold}}, spec: {syncMode: Push, region: eu}, status: &ready {apiEnablements: [{groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}], conditions: [{type: Ready, status: "True", reason: ClusterReady, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}, {type: CompleteAPIEnablements, status: "True", reason: Complete, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m2}, spec: {syncMode: Push, region: eu, taints: [{key: cluster.karmada.io/unschedulable, effect: NoSchedule}]}, status: *ready}
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m3}, spec: {syncMode: Push, region: eu}, status: {conditions: [{type: CompleteAPIEnablements, status: "True", reason: Complete, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m4}, spec: {syncMode: Push, region: us}, status: *ready}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: w, labels: {app: web}}
spec: {replicas: 2, template: {spec: {containers: [{name: web, image: "web:1"}]}}}
"#;

#[test]
fn formats_that_a_verb_does_not_have_are_misuse() {
    let tree = clap::Command::new("ironclad").subcommands([
        super::Command::augment_args(clap::Command::new("why")),
        crate::doctor::Command::augment_args(clap::Command::new("doctor")),
        crate::tree::Command::augment_args(clap::Command::new("tree")),
        crate::evictions::failover::Command::augment_args(clap::Command::new("failover")),
    ]);
    for (line, formats) in [
        ("why deploy/web", "table json yaml"),
        ("why not m1 deploy/web", "table json yaml"),
        ("why evicted", "table wide json yaml"),
        ("doctor", "table json yaml"),
        ("tree deploy/web", "table json yaml name"),
        ("failover status", "table json yaml"),
    ] {
        let taken = ["table", "wide", "json", "yaml", "name"].into_iter().filter(|format| {
            let words = ["ironclad"].into_iter().chain(line.split(' ')).chain(["-o", format]);
            tree.clone().try_get_matches_from(words).is_ok()
        });
        assert_eq!(taken.collect::<Vec<_>>().join(" "), formats, "{line}");
    }
}

#[test]
fn answers_of_webhooks_are_missing_where_one_may_be_asked() {
    let hook = r#"---
{apiVersion: config.karmada.io/v1alpha1, kind: ResourceInterpreterWebhookConfiguration, metadata: {name: h},
  webhooks: [{name: h.x, clientConfig: {url: "https://h"}, interpreterContextVersions: [v1alpha1],
    rules: [{operations: ["*"], apiGroups: [GROUP], apiVersions: ["*"], kinds: [Deployment]}]}]}
"#;
    let clock = Clock::simulated(Timestamp::UNIX_EPOCH);
    let unknown = |dump: &str, settings| {
        let (fleet, _, key) = of_objects(objects(dump).unwrap(), &clock, "deploy", None, "web").unwrap();
        unknown_here(settings, &fleet, &key)
    };
    let (flags, answers) = ("the flags and gates of the scheduler that runs", "answers of interpreter webhooks");
    for (name, hook, settings, want) in [
        ("not read", "", Announced, Some(format!("not known here: {answers}"))),
        ("of the kind", &*hook.replace("GROUP", "apps"), Announced, Some(format!("not known here: {answers}"))),
        ("of others", &*hook.replace("GROUP", "farm.io"), Announced, None),
        ("of others", &*hook.replace("GROUP", "farm.io"), Assumed, Some(format!("not known here: {flags}"))),
        ("both", &*hook.replace("GROUP", "'*'"), Assumed, Some(format!("not known here: {flags}, and {answers}"))),
    ] {
        assert_eq!(unknown(&(FLEET.to_owned() + hook), settings), want, "{name}");
    }
}

fn policy(name: &str, selector: &str, placement: &str) -> String {
    format!(
        "---\napiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\n\
         metadata: {{name: {name}, namespace: shop, labels: {{propagationpolicy.karmada.io/permanent-id: {name}}}, finalizers: [karmada.io/propagation-policy-controller]}}\n\
         spec: {{resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment{selector}}}], placement: {placement}}}\n"
    )
}

/// Template claimed by policy `web`, and its binding with this result and placement.
fn bound(result: &str, placement: &str, spec: &str) -> String {
    let json: Value = serde_saphyr::from_str(placement).unwrap();
    let applied = Value::String(json.to_string());
    format!(
        "---\napiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\n\
         metadata: {{name: web-deployment, namespace: shop, uid: b, generation: 2, labels: {{propagationpolicy.karmada.io/permanent-id: web}}, annotations: {{policy.karmada.io/applied-placement: {applied}}}}}\n\
         spec: {{replicas: 2, replicaRequirements: {{}}, resource: {{apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web, uid: w}}, clusters: {result}, placement: {placement}{spec}}}\n\
         status: {{schedulerObservedGeneration: 2, conditions: [{{type: Scheduled, status: \"True\", reason: Success, message: \"\", lastTransitionTime: \"2026-01-01T00:00:00Z\"}}]}}\n"
    )
}

fn explanation(dump: &str) -> Explanation {
    let clock = Clock::simulated(Timestamp::from_second(1_790_000_000).unwrap());
    let (fleet, interpreter, key) = of_objects(objects(dump).unwrap(), &clock, "deploy", Some("shop"), "web").unwrap();
    explain(&fleet, &key, &interpreter, clock.wall_seconds()).unwrap()
}

/// Cases: name, fleet, and clusters of `why not`.
fn cases() -> Vec<(&'static str, String, &'static [&'static str])> {
    let europe = "{clusterAffinity: {fieldSelector: {matchExpressions: [{key: region, operator: In, values: [eu]}]}}}";
    let one = "{spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]}";
    let groups =
        "{clusterAffinities: [{affinityName: local, clusterNames: [m2]}, {affinityName: far, clusterNames: [m4]}]}";
    let divided = "{clusterAffinity: {clusterNames: [m1, m4]}, replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {staticWeightList: [{targetCluster: {clusterNames: [m1]}, weight: 1}]}}}";
    let aggregated = "{replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}}";
    let task = ", gracefulEvictionTasks: [{fromCluster: m4, reason: ClusterDrain, producer: Drain}]";
    let dependent = ", dependentOverrides: [later]}";
    let with = |parts: &[String]| parts.iter().fold(FLEET.to_owned(), |all, part| all + part);
    let scaler = r#"---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web, namespace: shop, uid: h, labels: {federatedhpa.karmada.io/enabled: "true"},
  annotations: {federatedhpa.karmada.io/status: '{"clusters":{"m1":{"min":1,"max":8,"share":5,"loan":3,"current":8,"desired":8},"m4":{"min":1,"max":2,"share":5,"loan":-3,"current":1,"silentSince":"2026-01-01T00:00:00Z"}}}'}},
  spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 2, maxReplicas: 10},
  status: {desiredReplicas: 9, conditions: [{type: AbleToScale, status: "True", reason: ReadyForNewScale, message: "2 of 2 members", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}
---
{apiVersion: policy.karmada.io/v1alpha1, kind: OverridePolicy, metadata: {name: federatedhpa-web, namespace: shop, labels: {federatedhpa.karmada.io/managed: "true"}},
  spec: {overrideRules: [{targetCluster: {clusterNames: [m1]}, overriders: {plaintext: [{path: /spec/replicas, operator: replace, value: 8}]}}]}}
"#
    .to_owned();
    vec![
        ("no policy selects it", with(&[policy("other", ", name: other", "{}")]), &["m1"]),
        (
            "a new policy without a binding",
            with(&[policy("web", ", name: web", europe), policy("all", "", "{}")]),
            &["m1", "m2", "m3", "m4"],
        ),
        (
            "the policy waits for an override",
            with(&[policy("web", ", name: web", "{}")
                .replace(", placement: {}}", &(", placement: {}".to_owned() + dependent))]),
            &["m1"],
        ),
        (
            "one cluster is enough",
            with(&[policy("web", ", name: web", one), bound("[{name: m4, replicas: 2}]", one, "")]),
            &["m1", "m4"],
        ),
        (
            "members decide the replicas",
            with(&[
                policy("web", ", name: web", "{}"),
                bound("[{name: m1, replicas: 1}, {name: m4, replicas: 1}]", "{}", ""),
                scaler,
            ]),
            &["m1"],
        ),
        (
            "affinity groups, the first of which is cordoned",
            with(&[policy("web", ", name: web", groups), bound("[{name: m4, replicas: 2}]", groups, "")]),
            &["m2", "m1"],
        ),
        (
            "a static weight for one cluster only",
            with(&[policy("web", ", name: web", divided), bound("[{name: m1, replicas: 2}]", divided, "")]),
            &["m4"],
        ),
        (
            "no cluster has reported its resources",
            with(&[policy("web", ", name: web", aggregated), bound("[]", aggregated, "")]),
            &["m1"],
        ),
        (
            "drained",
            with(&[policy("web", ", name: web", one), bound("[{name: m1, replicas: 2}]", one, task)])
                .replace("{name: m4}, spec", "{name: m4, annotations: {cluster.karmada.io/draining: now}}, spec"),
            &["m4"],
        ),
        (
            "suspended",
            with(&[policy("web", ", name: web", "{}"), bound("[]", "{}", ", suspension: {scheduling: true}")]),
            &["m1"],
        ),
    ]
}

#[test]
fn why_it_is_where_it_is() {
    let mut text = String::new();
    for (name, dump, clusters) in cases() {
        let explanation = explanation(&dump);
        let _ = write!(text, "# {name}\n{}", rendered(&explanation));
        for cluster in clusters {
            text.push_str(&rendered_not(&explanation, &answer(&explanation, &(*cluster).into())));
        }
        text.push('\n');
    }
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/src/why/goldens/why_it_is_where_it_is.txt");
    ironclad_reference::check_golden(golden, &text);
}

#[test]
fn answers_as_json() {
    let (_, dump, _) = cases().swap_remove(1);
    let explanation = explanation(&dump);
    let value = serde_json::to_value(&explanation).unwrap();
    assert_eq!(value["policy"][0]["reason"], "PolicyChosen", "{value}");
    let refused = &value["scheduling"]["cycles"][0]["clusters"]["m4"]["because"];
    assert_eq!((&refused["reason"], &refused["because"]["filter"]), (&json!("Refused"), &json!("Affinity")));
    assert_eq!(value["binding"]["made"], false);
}

#[test]
fn templates_that_a_dump_does_not_have() {
    let clock = Clock::simulated(Timestamp::UNIX_EPOCH);
    let twice = FLEET.to_owned() + "---\n" + &FLEET.replace("shop", "other");
    for (dump, kind, namespace, want) in [
        (FLEET, "sts", Some("shop"), "it holds no sts web"),
        (FLEET, "deploy", Some("other"), "it holds no deploy web"),
        (twice.as_str(), "deploy", None, "it holds several of deploy web"),
    ] {
        let error = of_objects(objects(dump).unwrap(), &clock, kind, namespace, "web").unwrap_err();
        assert!(error.to_string().starts_with(want), "{error}");
    }
    let (fleet, ..) = of_objects(objects(FLEET).unwrap(), &clock, "deploy", None, "web").unwrap();
    let error = super::known(&fleet.world, "m9").unwrap_err();
    assert_eq!((error.to_string().lines().next(), exit_code(&error)), (Some("there is no cluster m9"), FAILED));
}
