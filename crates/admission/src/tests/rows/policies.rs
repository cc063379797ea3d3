//! Rows of section 2: policies and overrides.

use ironclad_fleet::gates::{Gate, Gates};

use super::*;
use crate::{Need, Resource, needs, table::Phase};

const GROUP: &str = "policy.karmada.io";
const ID_LABEL: &str = "propagationpolicy.karmada.io/permanent-id";

fn base() -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"namespace": "shop", "name": "p", "labels": {ID_LABEL: "x"}},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}], "placement": {}},
    })
}

fn policy(spec: &Value) -> Write {
    Write::create(GROUP, "propagationpolicies", with_spec(&base(), spec))
}

fn placement(placement: &Value) -> Write {
    policy(&json!({"placement": placement}))
}

fn changed(patch: &Value) -> Write {
    Write::update(GROUP, "propagationpolicies", base(), with(&base(), patch))
}

fn application(fields: &Value) -> Write {
    let application =
        json!({"decisionConditions": {"tolerationSeconds": 1}, "purgeMode": "Gracefully", "gracePeriodSeconds": 1});
    policy(&json!({"propagateDeps": true, "failover": {"application": with(&application, fields)}}))
}

fn overrides(spec: &Value) -> Write {
    let base = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy", "metadata": {"namespace": "shop", "name": "o"}, "spec": {}});
    Write::create(GROUP, "overridepolicies", with_spec(&base, spec))
}

fn overriders(overriders: &Value) -> Write {
    overrides(&json!({"overrideRules": [{"overriders": overriders}]}))
}

fn class(patch: &Value) -> Value {
    with(
        &json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}),
        patch,
    )
}

fn class_changed(patch: &Value) -> Write {
    Write::update("scheduling.k8s.io", "priorityclasses", class(&json!({})), class(patch))
}

fn class_created(patch: &Value) -> Write {
    Write::create("scheduling.k8s.io", "priorityclasses", class(patch))
}

/// The write with these objects as the answer to every look-up.
fn found(mut write: Write, objects: &[Value]) -> Write {
    for need in write.with_request(|request| needs(Phase::Validating, request, &write.config)) {
        write.lookups.found.insert(need, objects.to_vec());
    }
    write
}

pub(super) fn cases() -> Vec<Case> {
    [propagation(), priorities(), overriding()].into_iter().flatten().collect()
}

fn propagation() -> Vec<Case> {
    const S: &str = "### 2.3";
    let of = |row: &'static str, list| super::cases(S, row, list);
    let selector = |key: &str, operator: &str| json!({"fieldSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": ["a"]}]}});
    let tiers = |name: &str, inline: Value| {
        let term = with(
            &json!({"affinityName": "a", "overflowAffinities": [{"affinityName": name, "clusterNames": ["m2"]}]}),
            &inline,
        );
        json!({"clusterAffinities": [term], "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}})
    };
    let named = || json!({"clusterNames": ["m1"]});
    let spread = |list: Value| placement(&json!({"spreadConstraints": list}));
    let toleration = |fields: Value| placement(&json!({"clusterTolerations": [with(&json!({"key": "k"}), &fields)]}));
    let alias = |field: &str| json!({"statePreservation": {"rules": [{"aliasLabelName": field, "jsonPath": "{.x}"}]}});
    let second = |group: &Value| json!({"workloadAffinity": group});
    vec![
        super::cases("### 2.2", "`spec.schedulerName` unchanged", vec![
            ("must not be updated", changed(&json!({})), Admitted),
            ("must not be updated", changed(&json!({"spec": {"schedulerName": "mine"}})), Refused("")),
        ]),
        super::cases("### 2.2", "permanent-id label unchanged", vec![
            ("immutable", changed(&json!({"metadata": {"labels": {ID_LABEL: "y"}}})), Refused("")),
        ]),
        of("`spec.placement`", vec![
            ("both set", placement(&json!({"clusterAffinity": named()})), Admitted),
            ("both set", placement(&json!({"clusterAffinity": named(), "clusterAffinities": [{"affinityName": "a"}]})), Refused("spec.placement")),
        ]),
        of("`spec.placement.clusterAffinities[i].overflowAffinities`", vec![
            ("used without", placement(&with(&tiers("b", named()), &json!({"replicaScheduling": null}))), Refused("spec.placement.clusterAffinities[0].overflowAffinities")),
        ]),
        of("`….clusterAffinity.fieldSelector` (also inside every affinity, overflow tier and override rule)", vec![
            ("a match expression key other than provider, region, zone", placement(&json!({"clusterAffinity": selector("zone", "In")})), Admitted),
            ("a match expression key other than provider, region, zone", placement(&json!({"clusterAffinity": selector("rack", "In")})), Refused("spec.placement.clusterAffinity.fieldSelector")),
            ("an operator other than In, NotIn", placement(&json!({"clusterAffinity": selector("zone", "Gt")})), Refused("spec.placement.clusterAffinity.fieldSelector")),
            ("an operator other than In, NotIn", placement(&json!({"clusterAffinities": [with(&selector("zone", "Gt"), &json!({"affinityName": "a"}))]})), Refused("spec.placement.clusterAffinities[0].fieldSelector")),
            ("an operator other than In, NotIn", overrides(&json!({"overrideRules": [{"targetCluster": selector("zone", "Gt"), "overriders": {}}]})), Refused("spec.overrideRules[0].targetCluster.fieldSelector")),
        ]),
        of("`….clusterAffinities[i]`", vec![
            ("`affinityName` is not a valid label key", placement(&json!({"clusterAffinities": [{"affinityName": "a b"}]})), Refused("spec.placement.clusterAffinities[0]")),
        ]),
        of("`….clusterAffinities`", vec![
            ("duplicate affinity names", placement(&json!({"clusterAffinities": [{"affinityName": "a"}, {"affinityName": "a"}]})), Refused("spec.placement.clusterAffinities")),
        ]),
        of("`….clusterAffinities[i].overflowAffinities`", vec![
            ("the inline affinity is empty", placement(&tiers("b", named())), Admitted),
            ("the inline affinity is empty", placement(&tiers("b", json!({}))), Refused("spec.placement.clusterAffinities[0].overflowAffinities")),
        ]),
        of("`….overflowAffinities[j].affinityName`", vec![
            ("not a label key", placement(&tiers("a b", named())), Refused("spec.placement.clusterAffinities[0].overflowAffinities[0].affinityName")),
            ("or equal to the primary's or another tier's name", placement(&tiers("a", named())), Refused("spec.placement.clusterAffinities[0].overflowAffinities[0].affinityName")),
        ]),
        of("`….spreadConstraints[i]`", vec![
            ("both spreadByLabel and spreadByField", spread(json!([{"spreadByField": "cluster", "spreadByLabel": "x"}])), Refused("spec.placement.spreadConstraints[0]")),
            ("minGroups < 0", spread(json!([{"spreadByField": "cluster", "minGroups": 0}])), Admitted),
            ("minGroups < 0", spread(json!([{"spreadByField": "cluster", "minGroups": -1}])), Refused("spec.placement.spreadConstraints[0]")),
            ("maxGroups < 0", spread(json!([{"spreadByField": "cluster", "maxGroups": -1}])), Refused("spec.placement.spreadConstraints[0]")),
            ("0 < maxGroups < minGroups", spread(json!([{"spreadByField": "cluster", "maxGroups": 2, "minGroups": 2}])), Admitted),
            ("0 < maxGroups < minGroups", spread(json!([{"spreadByField": "cluster", "maxGroups": 1, "minGroups": 2}])), Refused("spec.placement.spreadConstraints[0]")),
        ]),
        of("`….spreadConstraints`", vec![
            ("the same spreadByField twice", spread(json!([{"spreadByField": "cluster"}, {"spreadByField": "cluster"}])), Refused("spec.placement.spreadConstraints")),
            ("any spreadByField used but none of them is `cluster`", spread(json!([{"spreadByField": "region"}])), Refused("spec.placement.spreadConstraints")),
            ("any spreadByField used but none of them is `cluster`", spread(json!([{"spreadByField": "region"}, {"spreadByField": "cluster"}])), Admitted),
        ]),
        of("`….workloadAffinity.affinity.groupByLabelKey`, `…antiAffinity.groupByLabelKey`", vec![
            ("not a valid label key", placement(&second(&json!({"affinity": {"groupByLabelKey": "a b"}}))), Refused("spec.placement.workloadAffinity.affinity.groupByLabelKey")),
            ("not a valid label key", placement(&second(&json!({"antiAffinity": {"groupByLabelKey": "a b"}}))), Refused("spec.placement.workloadAffinity.antiAffinity.groupByLabelKey")),
        ]),
        of("`….workloadAffinity`", vec![
            ("use the same key", placement(&second(&json!({"affinity": {"groupByLabelKey": "a"}, "antiAffinity": {"groupByLabelKey": "b"}}))), Admitted),
            ("use the same key", placement(&second(&json!({"affinity": {"groupByLabelKey": "a"}, "antiAffinity": {"groupByLabelKey": "a"}}))), Refused("spec.placement.workloadAffinity")),
        ]),
        of("`….clusterTolerations[i].operator`", vec![
            ("Lt or Gt", toleration(json!({"operator": "Exists"})), Admitted),
            ("Lt or Gt", toleration(json!({"operator": "Equal", "value": "v"})), Admitted),
            ("Lt or Gt", toleration(json!({"operator": "Lt", "value": "5"})), Refused("spec.placement.clusterTolerations[0].operator")),
            ("Lt or Gt", toleration(json!({"operator": "Gt", "value": "5"})), Refused("spec.placement.clusterTolerations[0].operator")),
        ]),
        of("`….clusterTolerations[i]`, its `key`, `operator` and `effect`", vec![
            ("key not a label key", toleration(json!({"key": "a b", "operator": "Exists"})), Refused("spec.placement.clusterTolerations[0].key")),
            ("value with Exists", toleration(json!({"operator": "Exists", "value": "v"})), Refused("spec.placement.clusterTolerations[0].operator")),
            ("no key without Exists", toleration(json!({"key": "", "operator": "Exists"})), Admitted),
            ("no key without Exists", toleration(json!({"key": "", "operator": "Equal"})), Refused("spec.placement.clusterTolerations[0].operator")),
            ("value not a label value", toleration(json!({"value": "a b"})), Refused("spec.placement.clusterTolerations[0].operator")),
            ("effect not NoSchedule, NoExecute, PreferNoExecute or PreferNoSchedule", toleration(json!({"effect": "Foo"})), Refused("spec.placement.clusterTolerations[0].effect")),
            ("effect not NoSchedule, NoExecute, PreferNoExecute or PreferNoSchedule", toleration(json!({"effect": "NoExecute"})), Admitted),
        ]),
        of("`spec.propagateDeps`", vec![
            ("application failover set while propagateDeps is false", application(&json!({})), Admitted),
            ("application failover set while propagateDeps is false", policy(&json!({"failover": {"application": {"decisionConditions": {}, "purgeMode": "Directly"}}})), Refused("spec.propagateDeps")),
        ]),
        of("`spec.failover.application.decisionConditions.tolerationSeconds`", vec![
            ("< 0", application(&json!({"decisionConditions": {"tolerationSeconds": 0}})), Admitted),
            ("< 0", application(&json!({"decisionConditions": {"tolerationSeconds": -1}})), Refused("spec.failover.application.decisionConditions.tolerationSeconds")),
        ]),
        of("`spec.failover.application.gracePeriodSeconds`", vec![
            ("set although purgeMode is not Gracefully", application(&json!({"purgeMode": "Directly"})), Refused("spec.failover.application.gracePeriodSeconds")),
            ("missing although it is", application(&json!({"gracePeriodSeconds": null})), Refused("spec.failover.application.gracePeriodSeconds")),
            ("≤ 0", application(&json!({"gracePeriodSeconds": 0})), Refused("spec.failover.application.gracePeriodSeconds")),
        ]),
        of("`spec.failover.application.statePreservation.rules[i].aliasLabelName`, same under `cluster`", vec![
            ("not a valid label name", application(&alias("a")), Admitted),
            ("not a valid label name", application(&alias("a b")), Refused("spec.failover.application.statePreservation.rules[0].aliasLabelName")),
            ("not a valid label name", policy(&json!({"failover": {"cluster": alias("a b")}})), Refused("spec.failover.cluster.statePreservation.rules[0].aliasLabelName")),
        ]),
        of("`spec.resourceSelectors[i].namespace`", vec![
            ("differs from the policy's namespace", policy(&json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "namespace": "other"}]})), Refused("spec.resourceSelectors[0].namespace")),
        ]),
        of("`spec.resourceSelectors[i].name`", vec![
            ("preemption Always with an empty name", policy(&json!({"preemption": "Always"})), Admitted),
            ("preemption Always with an empty name", policy(&json!({"preemption": "Always", "resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "namespace": "shop"}]})), Refused("spec.resourceSelectors[0].name")),
        ]),
        of("`spec.suspension.suspension`", vec![
            ("together with", policy(&json!({"suspension": {"dispatching": true}})), Admitted),
            ("together with", policy(&json!({"suspension": {"dispatching": true, "dispatchingOnClusters": {"clusterNames": ["m1"]}}})), Refused("spec.suspension")),
        ]),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn priorities() -> Vec<Case> {
    const S: &str = "### 2.4";
    const ON_THE_PLANE: &str = "`PriorityClass` objects on the control plane";
    let of = |row: &'static str, list| super::cases(S, row, list);
    let priority = |fields: Value| {
        let mut write = policy(&json!({"schedulePriority": fields}));
        write.config.gates = Gates::default().with(Gate::PriorityBasedScheduling, true);
        write
    };
    let named = |source: &str, name: &str| priority(json!({"priorityClassSource": source, "priorityClassName": name}));
    let without_gate = {
        let mut write = named("KubePriorityClass", "");
        write.config.gates = Gates::default().with(Gate::PriorityBasedScheduling, false);
        write
    };
    let of_cluster = {
        let policy = with(
            &base(),
            &json!({"kind": "ClusterPropagationPolicy", "metadata": {"namespace": null,
            "labels": {ID_LABEL: null, "clusterpropagationpolicy.karmada.io/permanent-id": "x"}},
            "spec": {"schedulePriority": {"priorityClassSource": "KubePriorityClass"}}}),
        );
        Write::create(GROUP, "clusterpropagationpolicies", policy)
    };
    let other_default = class(&json!({"metadata": {"name": "other"}, "globalDefault": true}));
    let missing = {
        let mut write = named("KubePriorityClass", "high");
        let resource =
            Resource { group: "scheduling.k8s.io", version: "v1", kind: "PriorityClass", plural: "priorityclasses" };
        write.lookups.found.insert(Need::Get { resource, namespace: String::new(), name: "high".to_owned() }, vec![]);
        write
    };
    let source = "spec.schedulePriority.priorityClassSource";
    let name = "spec.schedulePriority.priorityClassName";
    vec![
        of(
            "`spec.schedulePriority.priorityClassSource`",
            vec![
                ("enum KubePriorityClass", named("KubePriorityClass", ""), Admitted),
                ("enum KubePriorityClass", named("PodPriorityClass", ""), Admitted),
                (
                    "use KubePriorityClass or PodPriorityClass`",
                    named("FederatedPriorityClass", "high"),
                    Refused(source),
                ),
            ],
        ),
        of(
            "`….priorityClassName` with PodPriorityClass",
            vec![("must be empty, otherwise Forbidden", named("PodPriorityClass", "high"), Refused(name))],
        ),
        of(
            "`….priorityClassName` with KubePriorityClass",
            vec![
                ("may be empty", named("KubePriorityClass", ""), Admitted),
                ("if set must be a DNS subdomain", named("KubePriorityClass", "high"), Admitted),
                ("if set must be a DNS subdomain", named("KubePriorityClass", "High"), Refused(name)),
                ("missing: warning in the response", missing, Warned("does not exist")),
            ],
        ),
        of(
            "`….priorityClassName` with FederatedPriorityClass",
            vec![("required", named("FederatedPriorityClass", ""), Refused(name))],
        ),
        of(
            "gates",
            vec![(
                "off and field set: allowed with a warning",
                without_gate,
                Warned("feature gate PriorityBasedScheduling is off"),
            )],
        ),
        of("`ClusterPropagationPolicy`", vec![("priority allowed", of_cluster, Admitted)]),
        of(
            ON_THE_PLANE,
            vec![
                (
                    "only `description` (and metadata) may change",
                    class_changed(&json!({"description": "d", "metadata": {"labels": {"a": "b"}}})),
                    Admitted,
                ),
                (
                    "value, preemptionPolicy, globalDefault immutable",
                    class_changed(&json!({"value": 2})),
                    Refused("value"),
                ),
                (
                    "value, preemptionPolicy, globalDefault immutable",
                    class_changed(&json!({"preemptionPolicy": "Never"})),
                    Refused("preemptionPolicy"),
                ),
                (
                    "value, preemptionPolicy, globalDefault immutable",
                    class_changed(&json!({"globalDefault": true})),
                    Refused("globalDefault"),
                ),
                (
                    "a second `globalDefault: true` is allowed with a warning",
                    found(class_created(&json!({"globalDefault": true})), &[other_default]),
                    Warned("is the global default already"),
                ),
                (
                    "unless the name starts with `system-`",
                    class_created(&json!({"value": 1_000_000_001})),
                    Refused("value"),
                ),
                (
                    "unless the name starts with `system-`",
                    class_created(&json!({"value": 1_000_000_001, "metadata": {"name": "system-x"}})),
                    Admitted,
                ),
                ("unless the name starts with `system-`", class_created(&json!({"value": 1_000_000_000})), Admitted),
            ],
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn overriding() -> Vec<Case> {
    const S: &str = "### 2.7";
    let of = |row: &'static str, list| super::cases(S, row, list);
    let field = |fields: Value| {
        let base = json!({"fieldPath": "/data/a", "json": [{"subPath": "/a", "operator": "add", "value": 1}]});
        overriders(&json!({"fieldOverrider": [with(&base, &fields)]}))
    };
    let patch = |format: &str, fields: Value| {
        let base = json!({"subPath": "/a", "operator": "add", "value": 1});
        let mut all = json!({"json": null});
        all[format] = json!([with(&base, &fields)]);
        field(all)
    };
    let image = |path: &str| {
        overriders(
            &json!({"imageOverrider": [{"component": "Tag", "operator": "replace", "value": "1", "predicate": {"path": path}}]}),
        )
    };
    let plain = |path: &str| overriders(&json!({"plaintext": [{"path": path, "operator": "add", "value": 1}]}));
    let labels = |field: &str, value: Value| overriders(&json!({field: [{"operator": "add", "value": value}]}));
    let bad_target =
        json!({"fieldSelector": {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}});
    vec![
        of("`spec.targetCluster`", vec![
            ("deprecated form together with `overrideRules`", overrides(&json!({"targetCluster": {"clusterNames": ["m1"]}})), Admitted),
            ("deprecated form together with `overrideRules`", overrides(&json!({"targetCluster": {"clusterNames": ["m1"]}, "overrideRules": [{"overriders": {}}]})), Refused("spec.targetCluster")),
            ("bad field selector", overrides(&json!({"targetCluster": bad_target})), Refused("spec.targetCluster.fieldSelector")),
        ]),
        of("`spec.overriders`", vec![
            ("non-empty together with", overrides(&json!({"overriders": {"fieldOverrider": [{"fieldPath": "/data/a", "json": [{"subPath": "/a", "operator": "remove"}]}]}, "overrideRules": [{"overriders": {}}]})), Refused("spec.overriders")),
        ]),
        of("`spec.overrideRules[i].overriders.annotationsOverrider[j].value`", vec![
            ("not valid annotations", labels("annotationsOverrider", json!({"a": "b c"})), Admitted),
            ("not valid annotations", labels("annotationsOverrider", json!({"a b": "c"})), Refused("spec.overrideRules[0].overriders.annotationsOverrider[0].value")),
            ("total size 256 KiB", labels("annotationsOverrider", json!({"a": "b".repeat(256 * 1024)})), Refused("spec.overrideRules[0].overriders.annotationsOverrider[0].value")),
        ]),
        of("`….labelsOverrider[j].value`", vec![
            ("not valid labels", labels("labelsOverrider", json!({"a": "b"})), Admitted),
            ("not valid labels", labels("labelsOverrider", json!({"a": "b c"})), Refused("spec.overrideRules[0].overriders.labelsOverrider[0].value")),
        ]),
        of("`….imageOverrider[j].predicate.path`", vec![
            ("not a JSON pointer", image("/spec/image"), Admitted),
            ("not a JSON pointer", image("spec.image"), Refused("spec.overrideRules[0].overriders.imageOverrider[0].predicate.path")),
        ]),
        of("`….fieldOverrider[j]`", vec![
            ("both json and yaml set", field(json!({})), Admitted),
            ("both json and yaml set", field(json!({"yaml": [{"subPath": "/a", "operator": "remove"}]})), Refused("spec.overrideRules[0].overriders.fieldOverrider[0]")),
            ("neither set", field(json!({"json": null})), Refused("spec.overrideRules[0].overriders.fieldOverrider[0]")),
        ]),
        of("`….fieldOverrider[j].fieldPath`, `….json[k].subPath`, `….yaml[k].subPath`", vec![
            ("not a JSON pointer", field(json!({"fieldPath": "data"})), Refused("spec.overrideRules[0].overriders.fieldOverrider[0].fieldPath")),
            ("not a JSON pointer", patch("json", json!({"subPath": "a"})), Refused("spec.overrideRules[0].overriders.fieldOverrider[0].json[0].subPath")),
            ("not a JSON pointer", patch("yaml", json!({"subPath": "a"})), Refused("spec.overrideRules[0].overriders.fieldOverrider[0].yaml[0].subPath")),
        ]),
        of("`….plaintext[j].path`, `….imageOverrider[j].predicate.path`, `….fieldOverrider[j].fieldPath`", vec![
            ("the whole object", plain("/metadata/labels/a"), Admitted),
            ("the whole object", plain(""), Refused("spec.overrideRules[0].overriders.plaintext[0].path")),
            ("`/metadata/namespace`", plain("/metadata/namespace"), Refused("spec.overrideRules[0].overriders.plaintext[0].path")),
            ("`/metadata`", image("/metadata"), Refused("spec.overrideRules[0].overriders.imageOverrider[0].predicate.path")),
            ("`/kind`", field(json!({"fieldPath": "/kind"})), Refused("spec.overrideRules[0].overriders.fieldOverrider[0].fieldPath")),
            ("`/apiVersion`", plain("/apiVersion"), Refused("spec.overrideRules[0].overriders.plaintext[0].path")),
            ("`/metadata/name`", plain("/metadata/name"), Refused("spec.overrideRules[0].overriders.plaintext[0].path")),
        ]),
        of("`….json[k].value`, `….yaml[k].value`", vec![
            ("missing for add/replace", patch("json", json!({"value": null})), Refused("spec.overrideRules[0].overriders.fieldOverrider[0].json[0].value")),
            ("missing for add/replace", patch("yaml", json!({"value": null, "operator": "replace"})), Refused("spec.overrideRules[0].overriders.fieldOverrider[0].yaml[0].value")),
            ("present for remove", patch("json", json!({"operator": "remove"})), Refused("spec.overrideRules[0].overriders.fieldOverrider[0].json[0].value")),
            ("present for remove", patch("yaml", json!({"operator": "remove"})), Refused("spec.overrideRules[0].overriders.fieldOverrider[0].yaml[0].value")),
        ]),
        of("`….targetCluster.fieldSelector`", vec![
            ("2.3", overrides(&json!({"overrideRules": [{"targetCluster": bad_target, "overriders": {}}]})), Refused("spec.overrideRules[0].targetCluster.fieldSelector")),
        ]),
        of("`spec.resourceSelectors[i].namespace`", vec![
            ("differs from the policy's namespace", overrides(&json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "namespace": "other"}]})), Refused("spec.resourceSelectors[0].namespace")),
        ]),
    ]
    .into_iter()
    .flatten()
    .collect()
}
