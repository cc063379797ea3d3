//! PropagationPolicy and ClusterPropagationPolicy (specification/admission.md 2.1 to 2.4, 5.5).

use ironclad_fleet::gates::{Gate, Gates};
use serde_json::{Value, json};

use super::{ID, Write, with, with_spec};
use crate::{Need, Resource, needs, table::Phase};

const GROUP: &str = "policy.karmada.io";

fn policy() -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"namespace": "shop", "name": "p", "labels": {"propagationpolicy.karmada.io/permanent-id": "x"}},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}],
            "placement": {}, "schedulerName": "default-scheduler",
        },
    })
}

fn cluster_policy() -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "p", "labels": {"clusterpropagationpolicy.karmada.io/permanent-id": "x"}},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}], "placement": {}},
    })
}

fn create(spec: &Value) -> Write {
    Write::create(GROUP, "propagationpolicies", with_spec(&policy(), spec))
}

#[test]
fn new_policy_gets_defaults_and_an_id() {
    let bare = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"namespace": "shop", "name": "p", "labels": {"propagationpolicy.karmada.io/permanent-id": "mine"}},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "unknown": 1}], "placement": {"spreadConstraints": [{}]}},
    });
    let made = Write::create(GROUP, "propagationpolicies", bare.clone()).mutated();
    for (name, pointer, want) in [
        ("an id, whatever was sent", "/metadata/labels/propagationpolicy.karmada.io~1permanent-id", json!(ID)),
        ("its finalizer", "/metadata/finalizers", json!(["karmada.io/propagation-policy-controller"])),
        ("the namespace of the request", "/spec/resourceSelectors/0/namespace", json!("shop")),
        ("fields that we do not know stay", "/spec/resourceSelectors/0/unknown", json!(1)),
        (
            "spread by cluster",
            "/spec/placement/spreadConstraints",
            json!([{"spreadByField": "cluster", "minGroups": 1}]),
        ),
        ("no tolerations (seed 004)", "/spec/placement/clusterTolerations", Value::Null),
    ] {
        assert_eq!(made.pointer(pointer).cloned().unwrap_or_default(), want, "{name}");
    }
    let cluster = Write::create(
        GROUP,
        "clusterpropagationpolicies",
        with(&cluster_policy(), &json!({"metadata": {"labels": null}})),
    );
    let made = cluster.mutated();
    let metadata = json!({
        "name": "p", "labels": {"clusterpropagationpolicy.karmada.io/permanent-id": ID},
        "finalizers": ["karmada.io/cluster-propagation-policy-controller"],
    });
    assert_eq!(made["metadata"], metadata, "a cluster policy");
    assert_eq!(made["spec"]["resourceSelectors"][0].get("namespace"), None, "its selectors stay open");
    let changed = Write::update(GROUP, "propagationpolicies", policy(), policy()).mutated();
    assert_eq!(changed["metadata"], policy()["metadata"], "an update sets no id");
}

#[test]
fn immutable_fields_are_refused() {
    let key = "propagationpolicy.karmada.io/permanent-id";
    for (name, old, new, want) in [
        ("nothing", json!({}), json!({}), ""),
        (
            "the scheduler",
            json!({}),
            json!({"spec": {"schedulerName": "other"}}),
            "the schedulerName should not be updated",
        ),
        ("the scheduler's default", json!({"spec": {"schedulerName": null}}), json!({}), ""),
        (
            "the id",
            json!({}),
            json!({"metadata": {"labels": {key: "y"}}}),
            "label propagationpolicy.karmada.io/permanent-id is immutable, it can only be set by the system during creation",
        ),
        (
            "the id, removed",
            json!({}),
            json!({"metadata": {"labels": {key: null}}}),
            "label propagationpolicy.karmada.io/permanent-id is immutable, it can only be set by the system during creation",
        ),
        ("an id where none was, from before admission", json!({"metadata": {"labels": {key: null}}}), json!({}), ""),
        (
            "anything else of a policy from before admission",
            json!({"metadata": {"labels": {key: null}}}),
            json!({"metadata": {"labels": {key: null}}, "spec": {"priority": 3}}),
            "",
        ),
        (
            "the first refusal stops",
            json!({}),
            json!({"metadata": {"labels": {key: "y"}}, "spec": {"schedulerName": "other", "suspension": {"dispatching": true, "dispatchingOnClusters": {"clusterNames": ["m1"]}}}}),
            "the schedulerName should not be updated",
        ),
    ] {
        let write = Write::update(GROUP, "propagationpolicies", with(&policy(), &old), with(&policy(), &new));
        assert_eq!(write.refusal(), want, "{name}");
    }
    let unstamped =
        Write::create(GROUP, "propagationpolicies", with(&policy(), &json!({"metadata": {"labels": null}})));
    assert_eq!(
        unstamped.refusal(),
        "label propagationpolicy.karmada.io/permanent-id not set",
        "the mutating step did not run"
    );
    let unstamped = with(&cluster_policy(), &json!({"metadata": {"labels": null}}));
    let unstamped = Write::create(GROUP, "clusterpropagationpolicies", unstamped);
    assert_eq!(unstamped.refusal(), "label clusterpropagationpolicy.karmada.io/permanent-id not set", "cluster-scoped");
}

#[test]
fn placement_rules() {
    let name_form = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let tiers = |name: &str| json!([{"affinityName": name, "clusterNames": ["m2"]}]);
    let aggregated = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
    for (name, placement, want) in [
        ("an empty one", json!({}), String::new()),
        (
            "both forms of affinity",
            json!({"clusterAffinity": {"clusterNames": ["m1"]}, "clusterAffinities": [{"affinityName": "a"}]}),
            r#"spec.placement: Invalid value: {"clusterAffinities":[{"affinityName":"a"}],"clusterAffinity":{"clusterNames":["m1"]}}: clusterAffinities cannot co-exist with clusterAffinity"#.to_owned(),
        ),
        (
            "a field that clusters do not have",
            json!({"clusterAffinity": {"fieldSelector": {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}}}),
            r#"spec.placement.clusterAffinity.fieldSelector: Invalid value: {"matchExpressions":[{"key":"rack","operator":"In","values":["a"]}]}: unsupported key "rack", must be provider, region, or zone"#.to_owned(),
        ),
        (
            "an operator that makes no sense",
            json!({"clusterAffinities": [{"affinityName": "a", "fieldSelector": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}]}),
            r#"spec.placement.clusterAffinities[0].fieldSelector: Invalid value: {"matchExpressions":[{"key":"zone","operator":"Exists"}]}: unsupported operator "Exists", must be In or NotIn"#.to_owned(),
        ),
        (
            "provider, region, zone, In and NotIn",
            json!({"clusterAffinity": {"fieldSelector": {"matchExpressions": [{"key": "provider", "operator": "In", "values": ["a"]}, {"key": "region", "operator": "NotIn", "values": ["a"]}, {"key": "zone", "operator": "In", "values": ["a"]}]}}}),
            String::new(),
        ),
        (
            "a field selector of a static weight",
            json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted", "weightPreference": {"staticWeightList": [{"weight": 1, "targetCluster": {"fieldSelector": {"matchExpressions": [{"key": "x", "operator": "In"}]}}}]}}}),
            r#"spec.placement.replicaScheduling.weightPreference.staticWeightList[0].targetCluster.fieldSelector: Invalid value: {"matchExpressions":[{"key":"x","operator":"In"}]}: unsupported key "x", must be provider, region, or zone"#.to_owned(),
        ),
        (
            "an affinity name that is no label key",
            json!({"clusterAffinities": [{"affinityName": "a b"}]}),
            format!(r#"spec.placement.clusterAffinities[0]: Invalid value: "a b": {name_form}"#),
        ),
        (
            "an affinity name twice",
            json!({"clusterAffinities": [{"affinityName": "a"}, {"affinityName": "a"}]}),
            r#"spec.placement.clusterAffinities: Invalid value: "a": each affinity term in a policy must have a unique name"#.to_owned(),
        ),
        (
            "overflow with duplicated replicas",
            json!({"clusterAffinities": [{"affinityName": "a", "clusterNames": ["m1"], "overflowAffinities": tiers("b")}]}),
            r#"spec.placement.clusterAffinities[0].overflowAffinities: Invalid value: [{"affinityName":"b","clusterNames":["m2"]}]: overflowAffinities need replicaSchedulingType Divided with replicaDivisionPreference Aggregated or a dynamicWeight: only these divide by available replicas"#.to_owned(),
        ),
        (
            "overflow with static weights",
            json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}, "clusterAffinities": [{"affinityName": "a", "clusterNames": ["m1"], "overflowAffinities": tiers("b")}]}),
            r#"spec.placement.clusterAffinities[0].overflowAffinities: Invalid value: [{"affinityName":"b","clusterNames":["m2"]}]: overflowAffinities need replicaSchedulingType Divided with replicaDivisionPreference Aggregated or a dynamicWeight: only these divide by available replicas"#.to_owned(),
        ),
        (
            "overflow, aggregated",
            json!({"replicaScheduling": aggregated, "clusterAffinities": [{"affinityName": "a", "clusterNames": ["m1"], "overflowAffinities": tiers("b")}]}),
            String::new(),
        ),
        (
            "overflow by dynamic weight",
            json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted", "weightPreference": {"dynamicWeight": "AvailableReplicas"}}, "clusterAffinities": [{"affinityName": "a", "clusterNames": ["m1"], "overflowAffinities": tiers("b")}]}),
            String::new(),
        ),
        (
            "overflow of everything",
            json!({"replicaScheduling": aggregated, "clusterAffinities": [{"affinityName": "a", "overflowAffinities": tiers("b")}]}),
            r#"spec.placement.clusterAffinities[0].overflowAffinities: Invalid value: [{"affinityName":"b","clusterNames":["m2"]}]: the affinity itself must choose clusters: an empty one takes all of them and nothing ever overflows"#.to_owned(),
        ),
        (
            "a tier named as its affinity",
            json!({"replicaScheduling": aggregated, "clusterAffinities": [{"affinityName": "a", "clusterNames": ["m1"], "overflowAffinities": tiers("a")}]}),
            r#"spec.placement.clusterAffinities[0].overflowAffinities[0].affinityName: Invalid value: "a": must differ from the names of its affinity and of the other tiers"#.to_owned(),
        ),
        (
            "a tier's name is a label key",
            json!({"replicaScheduling": aggregated, "clusterAffinities": [{"affinityName": "a", "clusterNames": ["m1"], "overflowAffinities": tiers("-")}]}),
            format!(r#"spec.placement.clusterAffinities[0].overflowAffinities[0].affinityName: Invalid value: "-": {name_form}"#),
        ),
        (
            "spread by field and label",
            json!({"spreadConstraints": [{"spreadByField": "cluster", "spreadByLabel": "x", "minGroups": 1}]}),
            r#"spec.placement.spreadConstraints[0]: Invalid value: {"minGroups":1,"spreadByField":"cluster","spreadByLabel":"x"}: spreadByLabel should not co-exist with spreadByField"#.to_owned(),
        ),
        (
            "fewer than no groups, at least",
            json!({"spreadConstraints": [{"spreadByField": "cluster", "minGroups": -1}]}),
            r#"spec.placement.spreadConstraints[0]: Invalid value: {"minGroups":-1,"spreadByField":"cluster"}: minGroups lower than 0"#.to_owned(),
        ),
        (
            "negative minimum and maximum: both are refused",
            json!({"spreadConstraints": [{"spreadByField": "cluster", "maxGroups": -1, "minGroups": -2}]}),
            r#"[spec.placement.spreadConstraints[0]: Invalid value: {"maxGroups":-1,"minGroups":-2,"spreadByField":"cluster"}: minGroups lower than 0, spec.placement.spreadConstraints[0]: Invalid value: {"maxGroups":-1,"minGroups":-2,"spreadByField":"cluster"}: maxGroups lower than 0]"#.to_owned(),
        ),
        (
            "at most less than at least",
            json!({"spreadConstraints": [{"spreadByField": "cluster", "maxGroups": 1, "minGroups": 2}]}),
            r#"spec.placement.spreadConstraints[0]: Invalid value: {"maxGroups":1,"minGroups":2,"spreadByField":"cluster"}: maxGroups lower than minGroups"#.to_owned(),
        ),
        ("no upper bound", json!({"spreadConstraints": [{"spreadByField": "cluster", "maxGroups": 0, "minGroups": 2}]}), String::new()),
        (
            "a field three times is reported once",
            json!({"spreadConstraints": [{"spreadByField": "cluster"}, {"spreadByField": "cluster"}, {"spreadByField": "cluster"}]}),
            r#"spec.placement.spreadConstraints: Invalid value: [{"spreadByField":"cluster"},{"spreadByField":"cluster"},{"spreadByField":"cluster"}]: multiple cluster spread constraints are not allowed"#.to_owned(),
        ),
        (
            "regions without clusters",
            json!({"spreadConstraints": [{"spreadByField": "region"}]}),
            r#"spec.placement.spreadConstraints: Invalid value: [{"spreadByField":"region"}]: the cluster spread constraint must be enabled in one of the constraints in case of SpreadByField is enabled"#.to_owned(),
        ),
        ("groups by label", json!({"spreadConstraints": [{"spreadByLabel": "example.com/rack"}]}), String::new()),
        (
            "groups by what is no label key",
            json!({"spreadConstraints": [{"spreadByLabel": "a b"}]}),
            format!(r#"spec.placement.spreadConstraints[0].spreadByLabel: Invalid value: "a b": {name_form}"#),
        ),
        (
            "groups by one label twice",
            json!({"spreadConstraints": [{"spreadByLabel": "x"}, {"spreadByLabel": "x"}]}),
            r#"spec.placement.spreadConstraints: Invalid value: [{"spreadByLabel":"x"},{"spreadByLabel":"x"}]: multiple spread constraints by label x are not allowed"#.to_owned(),
        ),
        (
            "a group key that is no label key",
            json!({"workloadAffinity": {"affinity": {"groupByLabelKey": "a b"}}}),
            format!(r#"spec.placement.workloadAffinity.affinity.groupByLabelKey: Invalid value: "a b": {name_form}"#),
        ),
        (
            "an anti-affinity key that is no label key",
            json!({"workloadAffinity": {"antiAffinity": {"groupByLabelKey": "a b"}}}),
            format!(r#"spec.placement.workloadAffinity.antiAffinity.groupByLabelKey: Invalid value: "a b": {name_form}"#),
        ),
        (
            "together and apart by the same key",
            json!({"workloadAffinity": {"affinity": {"groupByLabelKey": "a"}, "antiAffinity": {"groupByLabelKey": "a"}}}),
            r#"spec.placement.workloadAffinity: Invalid value: {"affinity":{"groupByLabelKey":"a"},"antiAffinity":{"groupByLabelKey":"a"}}: affinity and antiAffinity must not use the same groupByLabelKey"#.to_owned(),
        ),
        (
            "a numeric toleration",
            json!({"clusterTolerations": [{"key": "a", "operator": "Lt", "value": "5"}]}),
            r#"spec.placement.clusterTolerations[0].operator: Unsupported value: "Lt": supported values: "", "Equal", "Exists""#.to_owned(),
        ),
        ("tolerations", json!({"clusterTolerations": [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Equal", "value": "b"}, {"key": "b", "value": "c"}]}), String::new()),
    ] {
        assert_eq!(create(&json!({"placement": placement})).refusal(), want, "{name}");
    }
}

#[test]
fn spec_rules() {
    let failover = |behavior: Value| json!({"propagateDeps": true, "failover": behavior});
    let application = |fields: Value| {
        let base =
            json!({"decisionConditions": {"tolerationSeconds": 1}, "purgeMode": "Gracefully", "gracePeriodSeconds": 1});
        failover(json!({"application": with(&base, &fields)}))
    };
    let name_form = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    for (name, spec, want) in [
        (
            "application failover without dependencies",
            json!({"failover": {"application": {"decisionConditions": {}, "purgeMode": "Directly"}}}),
            "spec.propagateDeps: Invalid value: false: application failover is set, propagateDeps must be true".to_owned(),
        ),
        ("cluster failover without dependencies", json!({"failover": {"cluster": {}}}), String::new()),
        ("an application failover", application(json!({})), String::new()),
        (
            "a negative toleration",
            application(json!({"decisionConditions": {"tolerationSeconds": -1}})),
            "spec.failover.application.decisionConditions.tolerationSeconds: Invalid value: -1: must be greater than or equal to 0".to_owned(),
        ),
        ("no toleration given is 300", application(json!({"decisionConditions": {"tolerationSeconds": null}})), String::new()),
        ("a toleration of zero", application(json!({"decisionConditions": {"tolerationSeconds": 0}})), String::new()),
        (
            "a grace period without graceful eviction",
            application(json!({"purgeMode": "Directly"})),
            "spec.failover.application.gracePeriodSeconds: Invalid value: 1: only takes effect when purgeMode is Gracefully: remove it, or set that mode".to_owned(),
        ),
        (
            "no grace period where one is granted",
            application(json!({"gracePeriodSeconds": null})),
            "spec.failover.application.gracePeriodSeconds: Invalid value: null: should not be empty when purgeMode is Gracefully".to_owned(),
        ),
        (
            "a grace period of zero",
            application(json!({"gracePeriodSeconds": 0})),
            "spec.failover.application.gracePeriodSeconds: Invalid value: 0: must be greater than 0".to_owned(),
        ),
        (
            "a preserved label that is none",
            application(json!({"statePreservation": {"rules": [{"aliasLabelName": "a b", "jsonPath": "{.x}"}]}})),
            format!(r#"spec.failover.application.statePreservation.rules[0].aliasLabelName: Invalid value: "a b": {name_form}"#),
        ),
        (
            "a path without a closing brace",
            application(json!({"statePreservation": {"rules": [{"aliasLabelName": "a", "jsonPath": "{.rep"}]}})),
            r#"spec.failover.application.statePreservation.rules[0].jsonPath: Invalid value: "{.rep": unclosed action"#.to_owned(),
        ),
        (
            "an empty path, and an alias twice",
            failover(json!({"cluster": {"statePreservation": {"rules": [
                {"aliasLabelName": "a", "jsonPath": "{.x}"}, {"aliasLabelName": "a", "jsonPath": ""},
            ]}}})),
            r#"[spec.failover.cluster.statePreservation.rules[1].aliasLabelName: Duplicate value: "a", spec.failover.cluster.statePreservation.rules[1].jsonPath: Invalid value: "": a path is written in braces, as {.field}]"#.to_owned(),
        ),
        (
            "state without a rule",
            failover(json!({"cluster": {"statePreservation": {"rules": []}}})),
            "spec.failover.cluster.statePreservation.rules: Required value: name at least one label, or leave statePreservation out".to_owned(),
        ),
        (
            "the same for the cluster",
            failover(json!({"cluster": {"statePreservation": {"rules": [{"aliasLabelName": "a b", "jsonPath": "{.x}"}]}}})),
            format!(r#"spec.failover.cluster.statePreservation.rules[0].aliasLabelName: Invalid value: "a b": {name_form}"#),
        ),
        (
            "a cluster's negative toleration",
            failover(json!({"cluster": {"tolerationSeconds": -1}})),
            "spec.failover.cluster.tolerationSeconds: Invalid value: -1: must be greater than or equal to 0".to_owned(),
        ),
        (
            "never, from a cluster",
            failover(json!({"cluster": {"purgeMode": "Never"}})),
            r#"spec.failover.cluster.purgeMode: Unsupported value: "Never": supported values: "Directly", "Gracefully""#.to_owned(),
        ),
        (
            "a template of another namespace",
            json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "namespace": "other"}]}),
            r#"spec.resourceSelectors[0].namespace: Invalid value: "other": must be the policy's own namespace "shop"; a cluster policy reaches others"#.to_owned(),
        ),
        (
            "preemption of whatever there is",
            json!({"preemption": "Always", "resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "namespace": "shop"}]}),
            r#"spec.resourceSelectors[0].name: Invalid value: "": name cannot be empty if preemption is Always, the empty name may cause unexpected resources preemption"#.to_owned(),
        ),
        (
            "suspended everywhere and somewhere",
            json!({"suspension": {"dispatching": true, "dispatchingOnClusters": {"clusterNames": ["m1"]}}}),
            r#"spec.suspension: Invalid value: {"dispatching":true,"dispatchingOnClusters":{"clusterNames":["m1"]}}: suspension dispatching cannot co-exist with dispatchingOnClusters.clusterNames"#.to_owned(),
        ),
        ("suspended somewhere", json!({"suspension": {"dispatching": false, "dispatchingOnClusters": {"clusterNames": ["m1"]}}}), String::new()),
        (
            "a wrong type",
            json!({"priority": "high"}),
            r#"spec: invalid type: string "high", expected i32"#.to_owned(),
        ),
    ] {
        assert_eq!(create(&spec).refusal(), want, "{name}");
    }
    let undecodable = create(&json!({"priority": "high"})).validated().denial.unwrap();
    assert_eq!((undecodable.code, undecodable.webhook), (400, "propagationpolicy.karmada.io"));
}

#[test]
fn priority_rules() {
    let priority = |priority: Value| json!({"schedulePriority": priority});
    for (name, spec, want) in [
        ("the default class", priority(json!({"priorityClassSource": "KubePriorityClass"})), ""),
        ("a class", priority(json!({"priorityClassSource": "KubePriorityClass", "priorityClassName": "high"})), ""),
        (
            "a class of no name",
            priority(json!({"priorityClassSource": "KubePriorityClass", "priorityClassName": "High"})),
            "spec.schedulePriority.priorityClassName: Invalid value: \"High\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ),
        ("the pod's own class", priority(json!({"priorityClassSource": "PodPriorityClass"})), ""),
        (
            "the pod's own class, named",
            priority(json!({"priorityClassSource": "PodPriorityClass", "priorityClassName": "high"})),
            "spec.schedulePriority.priorityClassName: Forbidden: with source PodPriorityClass the class that the pod template names is used; leave it empty, or use KubePriorityClass",
        ),
        (
            "a federated class",
            priority(json!({"priorityClassSource": "FederatedPriorityClass", "priorityClassName": "high"})),
            "spec.schedulePriority.priorityClassSource: Invalid value: \"FederatedPriorityClass\": priority class source FederatedPriorityClass is not supported: no such kind exists; use KubePriorityClass or PodPriorityClass",
        ),
        (
            "a federated class without a name",
            priority(json!({"priorityClassSource": "FederatedPriorityClass"})),
            "[spec.schedulePriority.priorityClassSource: Invalid value: \"FederatedPriorityClass\": priority class source FederatedPriorityClass is not supported: no such kind exists; use KubePriorityClass or PodPriorityClass, spec.schedulePriority.priorityClassName: Required value: FederatedPriorityClass needs the name of a class]",
        ),
    ] {
        assert_eq!(create(&spec).refusal(), want, "{name}");
        let cluster = Write::create(GROUP, "clusterpropagationpolicies", with_spec(&cluster_policy(), &spec));
        assert_eq!(cluster.refusal(), want, "{name}, of a cluster policy");
    }
}

#[test]
fn settings_without_effect_are_warned_of() {
    let gates = Gates::default().with(Gate::PriorityBasedScheduling, false).with(Gate::StatefulFailoverInjection, true);
    let toleration = |fields: Value| json!({"placement": {"clusterTolerations": [fields]}});
    let application = |rules: Value| json!({"decisionConditions": {"tolerationSeconds": 5}, "purgeMode": "Directly", "statePreservation": rules});
    let rules = json!({"rules": [{"aliasLabelName": "replicas", "jsonPath": "{.replicas}"}]});
    for (name, spec, want) in [
        (
            "preemption",
            json!({"preemption": "Always"}),
            "spec.preemption has no effect: feature gate PropagationPolicyPreemption is off",
        ),
        (
            "failover",
            json!({"failover": {"cluster": {}}}),
            "spec.failover.cluster has no effect: feature gate Failover is off",
        ),
        (
            "a dependency listed beside its workload",
            json!({"propagateDeps": true, "failover": {"application": application(Value::Null)}, "resourceSelectors": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                {"apiVersion": "v1", "kind": "Service", "name": "web"},
            ]}),
            "spec.resourceSelectors[1]: a Service is scheduled on its own and does not follow a workload that spec.failover moves",
        ),
        (
            "state of what runs in several clusters",
            json!({"propagateDeps": true, "failover": {"application": application(rules.clone())}}),
            "spec.placement.spreadConstraints: state is preserved only for workloads in one cluster: spreadByField cluster, minGroups 1, maxGroups 1",
        ),
        (
            "state of what keeps its old copy",
            json!({
                "propagateDeps": true, "failover": {"application": {
                    "decisionConditions": {"tolerationSeconds": 5}, "purgeMode": "Gracefully",
                    "gracePeriodSeconds": 1, "statePreservation": rules,
                }},
                "placement": {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]},
            }),
            "spec.failover.application.statePreservation has no effect with purgeMode Gracefully: only copies that replace a deleted one inherit",
        ),
        (
            "a toleration of what needs none",
            toleration(json!({"key": "a", "operator": "Exists", "effect": "PreferNoExecute"})),
            "spec.placement.clusterTolerations[0]: no toleration is asked for taints of effect PreferNoExecute, so this one has no effect",
        ),
        (
            "an end to a toleration that is asked for once",
            toleration(json!({"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5})),
            "spec.placement.clusterTolerations[0]: tolerationSeconds has no effect for taints of effect NoSchedule",
        ),
        (
            "chosen and excluded",
            json!({"placement": {"clusterAffinity": {"clusterNames": ["m1"], "exclude": ["m1"]}}}),
            "spec.placement.clusterAffinity: cluster m1 is both in clusterNames and in exclude: exclude wins",
        ),
        (
            "two kinds of weight",
            json!({"placement": {"replicaScheduling": {"weightPreference": {"dynamicWeight": "AvailableReplicas", "staticWeightList": [{"weight": 1, "targetCluster": {}}]}}}}),
            "spec.placement.replicaScheduling.weightPreference: staticWeightList has no effect beside dynamicWeight",
        ),
        (
            "bounds beside static weights",
            json!({"placement": {"spreadConstraints": [{"spreadByField": "cluster", "maxGroups": 1, "minGroups": 1}], "replicaScheduling": {"weightPreference": {"staticWeightList": [{"weight": 1, "targetCluster": {}}]}}}}),
            "spec.placement.spreadConstraints[0]: minGroups and maxGroups have no effect with static weights, nor where replicas are divided without weights: every cluster of the weights gets its share",
        ),
        (
            "a field that nobody reads",
            json!({"association": true}),
            "spec.association has no effect: it is the deprecated forerunner of spec.propagateDeps: set that instead",
        ),
    ] {
        let mut write = create(&spec);
        write.config.gates = gates.clone();
        let verdict = write.validated();
        assert_eq!((verdict.denial, verdict.warnings), (None, vec![want.to_owned()]), "{name}");
    }
    let mut write = create(&json!({"schedulePriority": {"priorityClassSource": "PodPriorityClass"}}));
    write.config.gates = gates;
    let off = "spec.schedulePriority has no effect: feature gate PriorityBasedScheduling is off";
    assert_eq!(write.validated().warnings, [off], "a priority while its gate is off");
    let group = json!({"placement": {"workloadAffinity": {"affinity": {"groupByLabelKey": "app"}}}});
    let off = "spec.placement.workloadAffinity has no effect: feature gate WorkloadAffinity is off";
    let mut write = create(&group);
    assert_eq!(write.validated().warnings, [off], "a group of workloads while its gate is off");
    write.config.gates = Gates::default().with(Gate::WorkloadAffinity, true);
    assert_eq!(write.validated().warnings, [""; 0], "and while it is on");
    let all = with_spec(&cluster_policy(), &json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret"}]}));
    let all = Write::create(GROUP, "clusterpropagationpolicies", all).validated();
    assert_eq!(all.warnings, ["spec.resourceSelectors[0] matches every Secret of all namespaces"]);
}

#[test]
fn unknown_names_are_warned_of() {
    let spec = json!({
        "placement": {"clusterAffinity": {"clusterNames": ["m1", "m2"]}},
        "schedulePriority": {"priorityClassSource": "KubePriorityClass", "priorityClassName": "high"},
    });
    let mut write = create(&spec);
    let needed = write.with_request(|request| needs(Phase::Validating, request, &write.config));
    let get = |group, version, kind, plural, name: &str| Need::Get {
        resource: Resource { group, version, kind, plural },
        namespace: String::new(),
        name: name.to_owned(),
    };
    let cluster = |name| get("cluster.karmada.io", "v1alpha1", "Cluster", "clusters", name);
    let class = get("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", "high");
    assert_eq!(needed.into_iter().collect::<Vec<_>>(), [cluster("m1"), cluster("m2"), class.clone()]);
    assert_eq!(write.validated().warnings, [""; 0], "failed look-ups cause no warning");
    write.lookups.found.insert(cluster("m1"), vec![json!({})]);
    write.lookups.found.insert(cluster("m2"), vec![]);
    write.lookups.found.insert(class, vec![]);
    assert_eq!(
        write.validated().warnings,
        [
            "spec.schedulePriority.priorityClassName: PriorityClass \"high\" does not exist: until it does, the default priority counts",
            "spec.placement.clusterAffinity.clusterNames[1] names cluster \"m2\", which does not exist",
        ]
    );
    let needed = write.with_request(|request| needs(Phase::Mutating, request, &write.config));
    assert_eq!(needed.into_iter().collect::<Vec<_>>(), [Need::Id], "a new policy needs an id");
}
