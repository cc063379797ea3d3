//! Rows of the tables of what admission changes: sections 2.1, 2.6, 3.1 and 3.2.

use super::*;

const ID_LABEL: &str = "propagationpolicy.karmada.io/permanent-id";

pub(super) fn cases() -> Vec<Case> {
    [policies(), ids_of_policies(), overrides(), bindings(), works(), manifests()].into_iter().flatten().collect()
}

fn policy(cluster: bool, spec: &Value) -> (&'static str, Value) {
    let (kind, resource, metadata) = if cluster {
        ("ClusterPropagationPolicy", "clusterpropagationpolicies", json!({"name": "p"}))
    } else {
        ("PropagationPolicy", "propagationpolicies", json!({"namespace": "shop", "name": "p"}))
    };
    let base = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": kind, "metadata": metadata,
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": {}},
    });
    (resource, with_spec(&base, spec))
}

fn written(cluster: bool, spec: &Value) -> Write {
    let (resource, policy) = policy(cluster, spec);
    Write::create("policy.karmada.io", resource, policy)
}

fn updated(cluster: bool, metadata: &Value) -> Write {
    let (resource, old) = policy(cluster, &json!({}));
    let old = with(&old, &json!({ "metadata": metadata }));
    Write::update("policy.karmada.io", resource, old.clone(), old)
}

fn policies() -> Vec<Case> {
    let of = |row: &'static str, list| super::cases("### 2.1", row, list);
    let spec = |spec: Value| written(false, &spec);
    let spread = |constraint: Value| spec(json!({"placement": {"spreadConstraints": [constraint]}}));
    let selected = |version: &str| {
        spec(
            json!({"resourceSelectors": [{"apiVersion": format!("multicluster.x-k8s.io/{version}"), "kind": "ServiceImport"}]}),
        )
    };
    let scheduling = |fields: Value| spec(json!({"placement": {"replicaScheduling": fields}}));
    let purged = |mode: &str| {
        let application = json!({"decisionConditions": {"tolerationSeconds": 1}, "purgeMode": mode});
        spec(json!({"propagateDeps": true, "failover": {"application": application}}))
    };
    let preference = "/spec/placement/replicaScheduling/replicaDivisionPreference";
    vec![
        of(
            "`spec.resourceSelectors[i].namespace`",
            vec![
                (
                    "PropagationPolicy: the **request's**",
                    spec(json!({})),
                    Changed("/spec/resourceSelectors/0/namespace", json!("shop")),
                ),
                (
                    "empty in a ClusterPropagationPolicy",
                    written(true, &json!({})),
                    Changed("/spec/resourceSelectors/0/namespace", Value::Null),
                ),
            ],
        ),
        of(
            "`spec.placement.spreadConstraints[i]`",
            vec![
                (
                    "neither spreadByField nor spreadByLabel",
                    spread(json!({})),
                    Changed("/spec/placement/spreadConstraints/0/spreadByField", json!("cluster")),
                ),
                (
                    "neither spreadByField nor spreadByLabel",
                    spread(json!({"spreadByLabel": "a"})),
                    Changed("/spec/placement/spreadConstraints/0/spreadByField", Value::Null),
                ),
                (
                    "`minGroups` of 0",
                    spread(json!({"minGroups": 0})),
                    Changed("/spec/placement/spreadConstraints/0/minGroups", json!(1)),
                ),
                (
                    "`minGroups` of 0",
                    spread(json!({"minGroups": 2})),
                    Changed("/spec/placement/spreadConstraints/0/minGroups", json!(2)),
                ),
            ],
        ),
        of(
            "`spec.propagateDeps`",
            vec![
                ("a selector is exactly", selected("v1alpha1"), Changed("/spec/propagateDeps", json!(true))),
                ("another version of it", selected("v1beta1"), Changed("/spec/propagateDeps", Value::Null)),
            ],
        ),
        of(
            "`spec.placement.replicaScheduling.replicaDivisionPreference`",
            vec![
                (
                    "absent with type Divided",
                    scheduling(json!({"replicaSchedulingType": "Divided"})),
                    Changed(preference, json!("Weighted")),
                ),
                (
                    "absent with type Duplicated",
                    scheduling(json!({"replicaSchedulingType": "Duplicated"})),
                    Changed(preference, Value::Null),
                ),
                (
                    "no `replicaScheduling` at all",
                    spec(json!({})),
                    Changed("/spec/placement/replicaScheduling", Value::Null),
                ),
            ],
        ),
        of(
            "`spec.failover.application.gracePeriodSeconds`",
            vec![
                (
                    "absent with purgeMode Gracefully",
                    purged("Gracefully"),
                    Changed("/spec/failover/application/gracePeriodSeconds", json!(600)),
                ),
                (
                    "absent with purgeMode Directly",
                    purged("Directly"),
                    Changed("/spec/failover/application/gracePeriodSeconds", Value::Null),
                ),
            ],
        ),
        of(
            "`spec.placement.clusterTolerations`",
            vec![("none", spec(json!({})), Changed("/spec/placement/clusterTolerations", Value::Null))],
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn ids_of_policies() -> Vec<Case> {
    let of = |row: &'static str, list| super::cases("### 2.1", row, list);
    let sent = |cluster: bool| {
        let write = written(cluster, &json!({}));
        let labels = json!({"metadata": {"labels": {ID_LABEL: "sent", (format!("cluster{ID_LABEL}")): "sent"}}});
        Write { object: write.object.as_ref().map(|object| with(object, &labels)), ..write }
    };
    vec![
        of("label `propagationpolicy.karmada.io/permanent-id` (cluster-scoped: `clusterpropagationpolicy.karmada.io/permanent-id`)", vec![
            ("on CREATE a new UUID", written(false, &json!({})), Changed("/metadata/labels/propagationpolicy.karmada.io~1permanent-id", json!(ID))),
            ("on CREATE a new UUID", sent(false), Changed("/metadata/labels/propagationpolicy.karmada.io~1permanent-id", json!(ID))),
            ("on CREATE a new UUID", sent(true), Changed("/metadata/labels/clusterpropagationpolicy.karmada.io~1permanent-id", json!(ID))),
            ("on UPDATE unchanged", updated(false, &json!({"labels": {ID_LABEL: "x"}})), Changed("/metadata/labels/propagationpolicy.karmada.io~1permanent-id", json!("x"))),
        ]),
        of("`metadata.finalizers`", vec![
            ("`karmada.io/propagation-policy-controller` is added", written(false, &json!({})), Changed("/metadata/finalizers", json!(["karmada.io/propagation-policy-controller"]))),
            ("cluster-scoped", written(true, &json!({})), Changed("/metadata/finalizers", json!(["karmada.io/cluster-propagation-policy-controller"]))),
            ("on UPDATE unchanged", updated(false, &json!({"labels": {ID_LABEL: "x"}})), Changed("/metadata/finalizers", Value::Null)),
        ]),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn overrides() -> Vec<Case> {
    let written = |kind: &str, resource: &'static str, namespace: &str, selected: &str| {
        let selector = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": selected});
        let policy = json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": kind, "metadata": {"name": "o", "namespace": namespace},
            "spec": {"resourceSelectors": [selector], "overrideRules": []},
        });
        Write::create("policy.karmada.io", resource, policy)
    };
    let of_namespace = |selected: &str| written("OverridePolicy", "overridepolicies", "shop", selected);
    let at = "/spec/resourceSelectors/0/namespace";
    super::cases(
        "### 2.6",
        "`spec.resourceSelectors[i].namespace`",
        vec![
            ("empty: the request's namespace", of_namespace(""), Changed(at, json!("shop"))),
            ("another one: unchanged", of_namespace("other"), Changed(at, json!("other"))),
            ("another one: unchanged", of_namespace("other"), Refused("spec.resourceSelectors[0].namespace")),
            (
                "in a ClusterOverridePolicy",
                written("ClusterOverridePolicy", "clusteroverridepolicies", "", ""),
                Changed(at, json!("")),
            ),
        ],
    )
}

fn bindings() -> Vec<Case> {
    let written = |kind: &str, resource: &'static str, labels: Value| {
        let binding = json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": kind, "metadata": {"name": "web-deployment", "namespace": "shop", "labels": labels},
            "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}},
        });
        Write::create("work.karmada.io", resource, binding)
    };
    let at = "/metadata/labels/resourcebinding.karmada.io~1permanent-id";
    let of_cluster = "/metadata/labels/clusterresourcebinding.karmada.io~1permanent-id";
    let restored = json!({"resourcebinding.karmada.io/permanent-id": "before"});
    super::cases(
        "### 3.1",
        "label `resourcebinding.karmada.io/permanent-id` (`clusterresourcebinding.karmada.io/permanent-id`)",
        vec![
            ("empty: a new UUID", written("ResourceBinding", "resourcebindings", json!({})), Changed(at, json!(ID))),
            (
                "empty: a new UUID",
                written("ClusterResourceBinding", "clusterresourcebindings", json!({})),
                Changed(of_cluster, json!(ID)),
            ),
            (
                "a value: unchanged",
                written("ResourceBinding", "resourcebindings", restored),
                Changed(at, json!("before")),
            ),
        ],
    )
}

/// A write of a Work with this manifest.
fn work(labels: &Value, manifest: &Value) -> Write {
    let work = json!({
        "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {"namespace": "karmada-es-m1", "name": "w", "labels": labels}, "spec": {"workload": {"manifests": [manifest]}},
    });
    Write::create("work.karmada.io", "works", work)
}

fn works() -> Vec<Case> {
    let of = |row: &'static str, list| super::cases("### 3.2", row, list);
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "status": {},
        "metadata": {
            "name": "c", "namespace": "shop", "labels": {"b": "1"}, "annotations": {"x": "1"}, "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 1, "generation": 1, "managedFields": [],
            "resourceVersion": "1", "selfLink": "l", "uid": "u", "ownerReferences": [], "finalizers": ["f"],
        },
    });
    let manifest = || work(&json!({}), &map);
    let at = |field: &'static str| Changed(field, Value::Null);
    let annotation = |key: &'static str, value: &str| Changed(key, json!(value));
    let annotations = "resourcetemplate.karmada.io/managed-annotations,resourcetemplate.karmada.io/managed-labels,\
                       resourcetemplate.karmada.io/uid,work.ironclad.io/applied-fields,work.karmada.io/name,\
                       work.karmada.io/namespace,x";
    vec![
        of(
            "label `work.karmada.io/permanent-id`",
            vec![
                ("empty: a new UUID", manifest(), Changed("/metadata/labels/work.karmada.io~1permanent-id", json!(ID))),
                (
                    "a value: unchanged",
                    work(&json!({"work.karmada.io/permanent-id": "w"}), &map),
                    Changed("/metadata/labels/work.karmada.io~1permanent-id", json!("w")),
                ),
            ],
        ),
        of(
            "manifest",
            vec![
                ("removed: `status`", manifest(), at("/spec/workload/manifests/0/status")),
                ("removed of `metadata`", manifest(), at("/spec/workload/manifests/0/metadata/creationTimestamp")),
                ("removed of `metadata`", manifest(), at("/spec/workload/manifests/0/metadata/deletionTimestamp")),
                (
                    "removed of `metadata`",
                    manifest(),
                    at("/spec/workload/manifests/0/metadata/deletionGracePeriodSeconds"),
                ),
                ("removed of `metadata`", manifest(), at("/spec/workload/manifests/0/metadata/generation")),
                ("removed of `metadata`", manifest(), at("/spec/workload/manifests/0/metadata/managedFields")),
                ("removed of `metadata`", manifest(), at("/spec/workload/manifests/0/metadata/resourceVersion")),
                ("removed of `metadata`", manifest(), at("/spec/workload/manifests/0/metadata/selfLink")),
                ("removed of `metadata`", manifest(), at("/spec/workload/manifests/0/metadata/uid")),
                ("removed of `metadata`", manifest(), at("/spec/workload/manifests/0/metadata/ownerReferences")),
                ("removed of `metadata`", manifest(), at("/spec/workload/manifests/0/metadata/finalizers")),
            ],
        ),
        of(
            "annotation `resourcetemplate.karmada.io/managed-annotations` of a manifest",
            vec![(
                "all annotation keys",
                manifest(),
                annotation(
                    "/spec/workload/manifests/0/metadata/annotations/resourcetemplate.karmada.io~1managed-annotations",
                    annotations,
                ),
            )],
        ),
        of(
            "annotation `work.ironclad.io/applied-fields` of a manifest",
            vec![(
                "its fields outside of metadata",
                manifest(),
                annotation(
                    "/spec/workload/manifests/0/metadata/annotations/work.ironclad.io~1applied-fields",
                    r#"{"fields":{}}"#,
                ),
            )],
        ),
        of(
            "label `work.karmada.io/permanent-id` of a manifest",
            vec![(
                "that of the Work",
                manifest(),
                annotation("/spec/workload/manifests/0/metadata/labels/work.karmada.io~1permanent-id", ID),
            )],
        ),
        of(
            "annotation `resourcetemplate.karmada.io/managed-labels` of a manifest",
            vec![(
                "label keys",
                manifest(),
                annotation(
                    "/spec/workload/manifests/0/metadata/annotations/resourcetemplate.karmada.io~1managed-labels",
                    "b,karmada.io/managed,work.karmada.io/permanent-id",
                ),
            )],
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn manifests() -> Vec<Case> {
    let of = |row: &'static str, list| super::cases("### 3.2", row, list);
    let manifest = |manifest: Value| work(&json!({}), &manifest);
    let deployment = || {
        let annotations =
            json!({"deployment.kubernetes.io/revision": "1", "deployment.kubernetes.io/revision-history": "1"});
        manifest(
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "annotations": annotations}}),
        )
    };
    let job = |group: &str, manual: bool| {
        let labels = json!({"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u", "job-name": "j", "batch.kubernetes.io/job-name": "j", "a": "b"});
        manifest(json!({
            "apiVersion": format!("{group}/v1"), "kind": "Job", "metadata": {"name": "j"},
            "spec": {
                "manualSelector": manual, "ttlSecondsAfterFinished": 1, "template": {"metadata": {"labels": labels}},
                "selector": {"matchLabels": {"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u", "a": "b"}},
            },
        }))
    };
    let secret = |kind: &str| {
        let annotations = json!({"kubernetes.io/service-account.uid": "u"});
        manifest(
            json!({"apiVersion": "v1", "kind": "Secret", "type": kind, "data": {"token": "t"}, "metadata": {"name": "s", "annotations": annotations}}),
        )
    };
    let token = "kubernetes.io/service-account-token";
    let account = || {
        let secrets = json!([{"name": "a-token-1"}, {"name": "a-token-2"}, {"name": "mine"}]);
        manifest(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}, "secrets": secrets}))
    };
    let service = |ip: &str| {
        manifest(
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"clusterIP": ip, "clusterIPs": [ip]}}),
        )
    };
    let claim = || {
        let annotations = json!({"volume.kubernetes.io/selected-node": "n"});
        manifest(
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "annotations": annotations}}),
        )
    };
    let labels = "/spec/workload/manifests/0/spec/template/metadata/labels";
    let selector = "/spec/workload/manifests/0/spec/selector/matchLabels";
    let time_to_live = "/spec/workload/manifests/0/spec/ttlSecondsAfterFinished";
    let data = "/spec/workload/manifests/0/data";
    vec![
        of(
            "manifest of a Deployment",
            vec![
                (
                    "annotation `deployment.kubernetes.io/revision`",
                    deployment(),
                    Changed(
                        "/spec/workload/manifests/0/metadata/annotations/deployment.kubernetes.io~1revision",
                        Value::Null,
                    ),
                ),
                (
                    "annotation `deployment.kubernetes.io/revision-history`",
                    deployment(),
                    Changed(
                        "/spec/workload/manifests/0/metadata/annotations/deployment.kubernetes.io~1revision-history",
                        Value::Null,
                    ),
                ),
            ],
        ),
        of(
            "manifest of a Job",
            vec![
                ("removed of the selector", job("batch", false), Changed(selector, json!({"a": "b"}))),
                ("removed of the pod labels", job("batch", false), Changed(labels, json!({"a": "b"}))),
                (
                    "with `manualSelector: true` neither",
                    job("batch", true),
                    Changed(
                        selector,
                        json!({"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u", "a": "b"}),
                    ),
                ),
                (
                    "`ttlSecondsAfterFinished` is always removed",
                    job("batch", false),
                    Changed(time_to_live, Value::Null),
                ),
                ("`ttlSecondsAfterFinished` is always removed", job("batch", true), Changed(time_to_live, Value::Null)),
            ],
        ),
        of(
            "manifest of a Job of another group",
            vec![("unchanged", job("example.com", false), Changed(time_to_live, json!(1)))],
        ),
        of(
            "manifest of a Secret",
            vec![
                ("of type service-account-token: data is null", secret(token), Changed(data, Value::Null)),
                (
                    "and annotation `kubernetes.io/service-account.uid` removed",
                    secret(token),
                    Changed(
                        "/spec/workload/manifests/0/metadata/annotations/kubernetes.io~1service-account.uid",
                        Value::Null,
                    ),
                ),
                ("of another type: unchanged", secret("Opaque"), Changed(data, json!({"token": "t"}))),
            ],
        ),
        of(
            "manifest of a ServiceAccount",
            vec![
                (
                    "removed: secrets named",
                    account(),
                    Changed("/spec/workload/manifests/0/secrets", json!([{"name": "mine"}])),
                ),
                ("others: unchanged", account(), Changed("/spec/workload/manifests/0/secrets/0/name", json!("mine"))),
            ],
        ),
        of(
            "manifest of a Service",
            vec![
                (
                    "removed: clusterIP",
                    service("10.0.0.1"),
                    Changed("/spec/workload/manifests/0/spec/clusterIP", Value::Null),
                ),
                (
                    "removed: clusterIP",
                    service("10.0.0.1"),
                    Changed("/spec/workload/manifests/0/spec/clusterIPs", Value::Null),
                ),
                (
                    "`None`: unchanged",
                    service("None"),
                    Changed("/spec/workload/manifests/0/spec/clusterIP", json!("None")),
                ),
            ],
        ),
        of(
            "manifest of a PersistentVolumeClaim",
            vec![(
                "removed: annotation",
                claim(),
                Changed(
                    "/spec/workload/manifests/0/metadata/annotations/volume.kubernetes.io~1selected-node",
                    Value::Null,
                ),
            )],
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}
