//! Tests over the whole table of kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::builtins;
use crate::{
    feature_gates::FeatureGates,
    registry::{Builtin, strategy::Strategy},
};

fn strategy(group: &str, kind: &str) -> &'static Strategy {
    let of_kind = |b: &&Builtin| b.group == group && b.kind == kind;
    builtins().iter().find(of_kind).expect("the table has the kind").strategy
}

/// The resources that a real kube-apiserver published, one line each.
fn published() -> Vec<String> {
    let resources = ironclad_patch::builtin::resources().iter();
    let mut lines: Vec<String> = resources
        .map(|r| {
            let subs: Vec<String> =
                r.subresources.iter().map(|s| format!("{} {} {:?}", s.name, s.kind, s.verbs)).collect();
            format!(
                "{}/{} {} {} {} {:?} {:?} {:?} {subs:?}",
                r.group, r.version, r.resource, r.kind, r.namespaced, r.short_names, r.categories, r.verbs
            )
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn the_table_is_what_a_real_server_publishes() {
    let mut ours: Vec<String> = builtins()
        .iter()
        .map(|r| {
            let subs: Vec<String> =
                r.subresources.iter().map(|s| format!("{} {} {:?}", s.name, s.kind, s.verbs)).collect();
            format!(
                "{}/{} {} {} {} {:?} {:?} {:?} {subs:?}",
                r.group, r.version, r.plural, r.kind, r.namespaced, r.short_names, r.categories, r.verbs
            )
        })
        .collect();
    ours.sort();
    assert_eq!(ours.join("\n"), published().join("\n"));
}

fn workload(spec: Value) -> Value {
    let mut object = json!({"spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]},
    }}});
    ironclad_patch::merge_patch(&mut object, &json!({"spec": spec}));
    object
}

fn messages(group: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    let strategy = strategy(group, kind);
    let mut object = object.clone();
    if kind == "Service" {
        (strategy.defaults)(&mut object);
    }
    let mut out = Vec::new();
    (strategy.validate_gated)(FeatureGates::default(), &object, old, &mut out);
    (strategy.validate)(&object, old, &mut out);
    out.into_iter().map(|c| format!("{}: {}", c.field, c.message)).collect()
}

#[test]
fn creates() {
    let containers = |containers: Value| json!({"template": {"spec": {"containers": containers}}});
    for (kind, spec, want) in [
        ("Deployment", json!({}), vec![]),
        (
            "Deployment",
            json!({"replicas": -1}),
            vec!["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            "Deployment",
            json!({"selector": null}),
            vec![
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`",
            ],
        ),
        (
            "Deployment",
            json!({"strategy": {"type": "Recreate", "rollingUpdate": {}}}),
            vec!["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
        ),
        ("Deployment", containers(json!([])), vec!["spec.template.spec.containers: Required value"]),
        (
            "Deployment",
            containers(json!([{"name": "c"}])),
            vec!["spec.template.spec.containers[0].image: Required value"],
        ),
        (
            "Deployment",
            containers(json!([{"name": "c", "image": "i", "ports": [{"containerPort": 99999, "protocol": "TCP"}]}])),
            vec![
                "spec.template.spec.containers[0].ports[0].containerPort: Invalid value: 99999: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            "Deployment",
            containers(json!([{"name": "c", "image": "i"}, {"name": "c", "image": "i"}])),
            vec!["spec.template.spec.containers[1].name: Duplicate value: \"c\""],
        ),
        (
            "Deployment",
            containers(json!([{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}])),
            vec!["spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"v\""],
        ),
        (
            "Deployment",
            json!({"template": {"spec": {"restartPolicy": "Never"}}}),
            vec!["spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\""],
        ),
    ] {
        assert_eq!(messages("apps", kind, &workload(spec.clone()), None), want, "{kind} {spec}");
    }
}

#[test]
fn other_kinds() {
    for (group, kind, object, want) in [
        ("", "Service", json!({"spec": {"type": "ClusterIP"}}), "spec.ports: Required value"),
        (
            "",
            "Service",
            json!({"spec": {"type": "Foo", "ports": [{"port": 1}]}}),
            "spec.type: Unsupported value: \"Foo\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
        ),
        (
            "",
            "ConfigMap",
            json!({"data": {"a b": "x"}}),
            "data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
        ),
        ("", "Secret", json!({"type": "kubernetes.io/tls", "data": {"tls.key": ""}}), "data[tls.crt]: Required value"),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            json!({"spec": {"scaleTargetRef": {"kind": "D", "name": "d", "apiVersion": "a/v1"}}}),
            "spec.maxReplicas: Required value: must be set and greater than 0",
        ),
        (
            "coordination.k8s.io",
            "Lease",
            json!({"spec": {"leaseDurationSeconds": 0}}),
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            "batch",
            "CronJob",
            json!({"metadata": {"name": "a"}, "spec": {"schedule": "bad", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}}),
            "spec.schedule: Invalid value: \"bad\": expected exactly 5 fields, found 1: [bad]",
        ),
        (
            "rbac.authorization.k8s.io",
            "Role",
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"]}]}),
            "rules[0].verbs: Required value: verbs must contain at least one value",
        ),
        ("apps", "ControllerRevision", json!({"revision": 1}), "data: Required value: data is mandatory"),
        (
            "apps",
            "ControllerRevision",
            json!({"revision": 1, "data": "text"}),
            "data: Required value: data must be a valid JSON object",
        ),
        (
            "apps",
            "ControllerRevision",
            json!({"revision": -1, "data": {}}),
            "revision: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "networking.k8s.io",
            "NetworkPolicy",
            json!({"spec": {"ingress": [{"from": [{}]}]}}),
            "spec.ingress[0].from[0]: Required value: must specify a peer",
        ),
        (
            "networking.k8s.io",
            "NetworkPolicy",
            json!({"spec": {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}]}]}}),
            "spec.egress[0].to[0].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
        ),
        (
            "networking.k8s.io",
            "IngressClass",
            json!({"spec": {"controller": "plain"}}),
            "spec.controller: Invalid value: \"plain\": must be a domain-prefixed path (such as \"acme.io/foo\")",
        ),
        (
            "",
            "PersistentVolume",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}}),
            "spec: Required value: must specify a volume type",
        ),
        (
            "",
            "PersistentVolumeClaim",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "0"}}}}),
            "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
        ),
        (
            "",
            "Endpoints",
            json!({"subsets": [{"addresses": [{"ip": "127.0.0.1"}]}]}),
            "subsets[0].addresses[0].ip: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
        ),
        (
            "discovery.k8s.io",
            "EndpointSlice",
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["2001:db8::1"]}]}),
            "endpoints[0].addresses: Invalid value: \"2001:db8::1\": must be an IPv4 address",
        ),
        (
            "",
            "Service",
            json!({"spec": {"ports": [{"port": 1}], "externalTrafficPolicy": "Local"}}),
            "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services",
        ),
        (
            "",
            "Service",
            json!({"spec": {"type": "ExternalName", "externalName": "a b"}}),
            "spec.externalName: Invalid value: \"a b\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ),
        (
            "",
            "Secret",
            json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "bm9wZQ=="}}),
            "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": invalid character 'o' in literal null (expecting 'u')",
        ),
        (
            "",
            "Node",
            json!({"spec": {"taints": [{"key": "a", "effect": "Never"}]}}),
            "metadata.taints[0].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
        ),
        (
            "",
            "ResourceQuota",
            json!({"spec": {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}}}),
            "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
        ),
        ("node.k8s.io", "RuntimeClass", json!({}), "handler: Required value"),
        (
            "storage.k8s.io",
            "CSIDriver",
            json!({"spec": {"fsGroupPolicy": "None", "volumeLifecycleModes": ["Never"]}}),
            "spec.volumeLifecycleModes: Unsupported value: \"Never\": supported values: \"Persistent\", \"Ephemeral\"",
        ),
        (
            "storage.k8s.io",
            "StorageClass",
            json!({"provisioner": "a.io/b", "reclaimPolicy": "Delete", "volumeBindingMode": "Never"}),
            "volumeBindingMode: Unsupported value: \"Never\": supported values: \"Immediate\", \"WaitForFirstConsumer\"",
        ),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            json!({"spec": {"maxReplicas": 1, "scaleTargetRef": {"kind": "D", "name": "d", "apiVersion": "a/v1"}, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}},
            ]}}),
            "spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization",
        ),
        (
            "networking.k8s.io",
            "Ingress",
            json!({"spec": {"defaultBackend": {"service": {"name": "s"}}}}),
            "spec.defaultBackend: Required value: port name or number is required",
        ),
        (
            "networking.k8s.io",
            "Ingress",
            json!({"spec": {}}),
            "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified",
        ),
    ] {
        assert_eq!(messages(group, kind, &object, None), [want], "{kind}");
    }
}

#[test]
fn zero_as_the_minimum_of_an_autoscaler_needs_its_gate() {
    let hpa = |least: i64, metric: &str| {
        let source = match metric {
            "External" => json!({"type": "External", "external": {"metric": {"name": "depth"},
                "target": {"type": "AverageValue", "averageValue": "20"}}}),
            _ => json!({"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 50}}}),
        };
        json!({"spec": {"minReplicas": least, "maxReplicas": 3, "metrics": [source],
            "scaleTargetRef": {"kind": "D", "name": "d", "apiVersion": "a/v1"}}})
    };
    let (off, on) = (FeatureGates::default(), FeatureGates { hpa_scale_to_zero: true });
    let below =
        |n: i64, least: i64| format!("spec.minReplicas: Invalid value: {n}: must be greater than or equal to {least}");
    let alone = "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to \
                 zero replicas";
    for (name, gates, old, new, want) in [
        ("without the gate", off, None, hpa(0, "External"), vec![below(0, 1)]),
        ("with it", on, None, hpa(0, "External"), vec![]),
        ("usage alone", on, None, hpa(0, "Resource"), vec![alone.to_owned()]),
        ("below zero", on, None, hpa(-1, "External"), vec![below(-1, 0)]),
        ("it was stored while the gate was on", off, Some(hpa(0, "Resource")), hpa(0, "External"), vec![]),
        ("it was not", off, Some(hpa(1, "External")), hpa(0, "External"), vec![below(0, 1)]),
    ] {
        let strategy = strategy("autoscaling", "HorizontalPodAutoscaler");
        let mut out = Vec::new();
        (strategy.validate_gated)(gates, &new, old.as_ref(), &mut out);
        (strategy.validate)(&new, old.as_ref(), &mut out);
        let found: Vec<String> = out.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        assert_eq!(found, want, "{name}");
    }
}

#[test]
fn updates() {
    let other =
        json!({"selector": {"matchLabels": {"a": "b", "c": "d"}}, "template": {"metadata": {"labels": {"c": "d"}}}});
    for (name, group, kind, old, new, want) in [
        (
            "selectors stay",
            "apps",
            "Deployment",
            workload(json!({})),
            workload(other),
            "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\",\"c\":\"d\"}}: field is immutable",
        ),
        (
            "immutable means it",
            "",
            "ConfigMap",
            json!({"immutable": true, "data": {"a": "b"}}),
            json!({"immutable": true, "data": {"a": "c"}}),
            "data: Forbidden: field is immutable when `immutable` is set",
        ),
        (
            "a secret keeps its type",
            "",
            "Secret",
            json!({"type": "a"}),
            json!({"type": "b"}),
            "type: Invalid value: \"b\": field is immutable",
        ),
        (
            "an address stays",
            "",
            "Service",
            json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 1}]}}),
            json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"], "ports": [{"port": 1}]}}),
            "spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set",
        ),
        (
            "a revision keeps its data",
            "apps",
            "ControllerRevision",
            json!({"revision": 1, "data": {"a": 1}}),
            json!({"revision": 2, "data": {"a": 2}}),
            "data: Invalid value: {\"a\":2}: field is immutable",
        ),
        (
            "a volume keeps its source",
            "",
            "PersistentVolume",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a"}}}),
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/b"}}}),
            "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation",
        ),
        (
            "a node keeps the addresses of its pods",
            "",
            "Node",
            json!({"spec": {"podCIDRs": ["10.1.0.0/24"]}}),
            json!({"spec": {"podCIDRs": ["10.2.0.0/24"]}}),
            "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid",
        ),
        (
            "a driver keeps how it attaches",
            "storage.k8s.io",
            "CSIDriver",
            json!({"spec": {"fsGroupPolicy": "None", "attachRequired": true}}),
            json!({"spec": {"fsGroupPolicy": "None", "attachRequired": false}}),
            "spec.attachedRequired: Invalid value: false: field is immutable",
        ),
        (
            "a class keeps its value",
            "scheduling.k8s.io",
            "PriorityClass",
            json!({"value": 1}),
            json!({"value": 2}),
            "value: Forbidden: may not be changed in an update.",
        ),
    ] {
        assert_eq!(messages(group, kind, &new, Some(&old)), [want], "{name}");
    }
}

#[test]
fn objects_stored_before_a_rule_remain_changeable() {
    let old = json!({"metadata": {"name": "a"}, "spec": {"policyTypes": ["Odd"]}});
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({"a": "b"});
    assert!(messages("networking.k8s.io", "NetworkPolicy", &new, Some(&old)).is_empty());
    new["spec"]["podSelector"] = json!({});
    assert_eq!(messages("networking.k8s.io", "NetworkPolicy", &new, Some(&old)).len(), 1);
}

#[test]
fn cells_fit_their_columns() {
    let now = Timestamp::from_second(1_000_000).unwrap();
    for builtin in builtins() {
        let strategy = builtin.strategy;
        let empty = json!({"metadata": {"name": "a"}});
        assert_eq!((strategy.cells)(&empty, now).len(), strategy.columns.len(), "{}", builtin.kind);
    }
}

#[test]
fn rows() {
    let now: Timestamp = "2026-01-01T00:05:00Z".parse().unwrap();
    let meta = json!({"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"});
    for (kind, group, rest, want) in [
        (
            "Deployment",
            "apps",
            json!({"spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}, "status": {"readyReplicas": 1, "updatedReplicas": 2}}),
            json!(["a", "1/3", 2, 0, "5m", "c", "i", "a=b"]),
        ),
        (
            "Pod",
            "",
            json!({"spec": {"containers": [{"name": "c"}], "nodeName": "n"}, "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [{"ready": true, "restartCount": 2, "state": {"running": {}}}]}}),
            json!(["a", "1/1", "Running", "2", "5m", "10.0.0.1", "n", "<none>", "<none>"]),
        ),
        (
            "Pod",
            "",
            json!({"spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Pending", "containerStatuses": [{"ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}}),
            json!(["a", "0/1", "ImagePullBackOff", "0", "5m", "<none>", "<none>", "<none>", "<none>"]),
        ),
        (
            "Node",
            "",
            json!({"spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1"}}}),
            json!([
                "a", "Ready,SchedulingDisabled", "<none>", "5m", "v1", "<none>", "<none>", "<unknown>", "<unknown>",
                "<unknown>"
            ]),
        ),
        (
            "Service",
            "",
            json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.2", "ports": [{"port": 80, "protocol": "TCP"}, {"port": 443, "nodePort": 30000, "protocol": "TCP"}], "selector": {"a": "b"}}}),
            json!(["a", "ClusterIP", "10.0.0.2", "<none>", "80/TCP,443:30000/TCP", "5m", "a=b"]),
        ),
        ("ConfigMap", "", json!({"data": {"x": ""}, "binaryData": {"y": ""}}), json!(["a", 2, "5m"])),
        ("Namespace", "", json!({"status": {"phase": "Active"}}), json!(["a", "Active", "5m"])),
        (
            "Job",
            "batch",
            json!({"spec": {"completions": 2, "template": {"spec": {"containers": []}}}, "status": {"succeeded": 1, "startTime": "2026-01-01T00:00:00Z"}}),
            json!(["a", "Running", "1/2", "5m", "5m", "", "", "<none>"]),
        ),
    ] {
        let mut object = rest.clone();
        object["metadata"] = meta.clone();
        assert_eq!(Value::Array((strategy(group, kind).cells)(&object, now)), want, "{kind}");
    }
}

const ADMISSION: &str = "admissionregistration.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

fn hook(more: Value) -> Value {
    let mut hook = json!({"name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {"url": "https://h/x"}});
    for (key, value) in more.as_object().unwrap() {
        hook[key] = value.clone();
    }
    json!({"webhooks": [hook]})
}

#[test]
fn webhooks() {
    let rule = |resources: &[&str]| json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": resources});
    for (more, want) in [
        (json!({}), vec![]),
        (
            json!({"name": "nodots"}),
            vec![".name: Invalid value: \"nodots\": should be a domain with at least three segments separated by dots"],
        ),
        (
            json!({"sideEffects": null, "clientConfig": null, "admissionReviewVersions": null}),
            vec![
                ".sideEffects: Required value: must specify one of None, NoneOnDryRun",
                ".clientConfig: Required value: exactly one of url or service is required",
                ".admissionReviewVersions: Required value: must specify one of v1, v1beta1",
            ],
        ),
        (
            json!({"clientConfig": {"url": "http://user@h/x?q=1#f"}}),
            vec![
                ".clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
                ".clientConfig.url: Invalid value: \"user\": user information is not permitted in the URL",
                ".clientConfig.url: Invalid value: \"f\": fragments are not permitted in the URL",
                ".clientConfig.url: Invalid value: \"q=1\": query parameters are not permitted in the URL",
            ],
        ),
        (
            json!({"clientConfig": {"url": "https:///x"}}),
            vec![".clientConfig.url: Invalid value: \"\": host must be specified; desired format: https://host[/path]"],
        ),
        (json!({"clientConfig": {"url": "https://[::1]:8443/x"}}), vec![]),
        (
            json!({"clientConfig": {"url": "https://h:port/x"}}),
            vec![
                ".clientConfig.url: Invalid value: \"https://h:port/x\": url must be a valid URL: invalid port \"port\"; desired format: https://host[/path]",
            ],
        ),
        (
            json!({"clientConfig": {"url": "https://h h/x"}}),
            vec![
                ".clientConfig.url: Invalid value: \"https://h h/x\": url must be a valid URL: invalid uri character; desired format: https://host[/path]",
            ],
        ),
        (
            json!({"clientConfig": {"service": {"name": "x", "namespace": "y", "path": "/a//b"}}}),
            vec![".clientConfig.service.path: Invalid value: \"/a//b\": segment[1] may not be empty"],
        ),
        (json!({"clientConfig": {"service": {"name": "x", "namespace": "y", "path": "/a/b/"}}}), vec![]),
        (
            json!({"timeoutSeconds": 0, "admissionReviewVersions": ["v2"]}),
            vec![
                ".timeoutSeconds: Invalid value: 0: the timeout value must be between 1 and 30 seconds",
                ".admissionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1",
            ],
        ),
        (json!({"timeoutSeconds": 30, "rules": [rule(&["*", "*/status"])]}), vec![]),
        (
            json!({"rules": [rule(&["pods/*", "pods/status"])]}),
            vec![
                ".rules[0].resources[1]: Invalid value: \"pods/status\": if 'pods/*' is present, must not specify pods/status",
            ],
        ),
        (
            json!({"rules": [rule(&["*/status", "pods/status"])]}),
            vec![
                ".rules[0].resources[1]: Invalid value: \"pods/status\": if '*/status' is present, must not specify pods/status",
            ],
        ),
        (
            json!({"rules": [rule(&["*", "pods"])]}),
            vec![
                ".rules[0].resources: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify other resources without subresources",
            ],
        ),
        (
            json!({"matchConditions": [{"name": "a", "expression": "'text'"}, {"name": "a", "expression": "true"}]}),
            vec![
                ".matchConditions[0].expression: Invalid value: \"'text'\": must evaluate to bool but got string",
                ".matchConditions[1].name: Duplicate value: \"a\"",
            ],
        ),
    ] {
        let want: Vec<String> = want.iter().map(|text| format!("webhooks[0]{text}")).collect();
        assert_eq!(messages(ADMISSION, "ValidatingWebhookConfiguration", &hook(more.clone()), None), want, "{more}");
    }
    let mut twice = hook(json!({}));
    twice["webhooks"] = json!([twice["webhooks"][0], twice["webhooks"][0]]);
    assert_eq!(
        messages(ADMISSION, "MutatingWebhookConfiguration", &twice, None),
        ["webhooks[1].name: Duplicate value: \"a.b.c\""]
    );
}

#[test]
fn policies_and_bindings() {
    let empty = messages(ADMISSION, "ValidatingAdmissionPolicy", &json!({"spec": {}}), None);
    assert_eq!(
        empty,
        [
            "spec.matchConstraints: Required value",
            "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
            "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
        ]
    );
    let both = json!({"spec": {"policyName": "p", "validationActions": ["Deny", "Warn"], "paramRef": {}}});
    assert_eq!(
        messages(ADMISSION, "ValidatingAdmissionPolicyBinding", &both, None),
        [
            "spec.paramRef: Required value: one of name or selector must be specified",
            "spec.paramRef.parameterNotFoundAction: Required value",
            "spec.validationActions: Invalid value: [\"Deny\",\"Warn\"]: must not contain both Deny and Warn (repeating the same \
             validation failure information in the API response and headers serves no purpose)",
        ]
    );
    let named = json!({"spec": {"policyName": "p", "validationActions": ["Deny"]}});
    assert_eq!(messages(ADMISSION, "ValidatingAdmissionPolicyBinding", &named, None), Vec::<String>::new());
}

#[test]
fn roles_and_bindings() {
    let binding = |role: Value, subject: Value| json!({"roleRef": role, "subjects": [subject]});
    let role = json!({"apiGroup": RBAC, "kind": "Role", "name": "r"});
    let user = json!({"kind": "User", "name": "u", "apiGroup": RBAC});
    for (kind, object, want) in [
        ("RoleBinding", binding(role.clone(), user.clone()), ""),
        ("ClusterRoleBinding", binding(role.clone(), user.clone()), "roleRef.kind"),
        ("RoleBinding", binding(json!({"apiGroup": "x", "kind": "Role", "name": "r"}), user), "roleRef.apiGroup"),
        ("RoleBinding", binding(role.clone(), json!({"kind": "User", "name": "u"})), "subjects[0].apiGroup"),
        ("RoleBinding", binding(role.clone(), json!({"kind": "ServiceAccount", "name": "s"})), ""),
        ("RoleBinding", binding(role, json!({"kind": "ServiceAccount", "name": "S_"})), "subjects[0].name"),
        ("Role", json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/a"]}]}), "rules[0].nonResourceURLs"),
        ("ClusterRole", json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/a"]}]}), ""),
        (
            "ClusterRole",
            json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/a"], "resources": ["pods"]}]}),
            "rules[0].nonResourceURLs",
        ),
        ("ClusterRole", json!({"aggregationRule": {}}), "aggregationRule.clusterRoleSelectors"),
    ] {
        let mut out = Vec::new();
        (strategy(RBAC, kind).validate)(&object, None, &mut out);
        let fields: Vec<String> = out.into_iter().map(|c| c.field).collect();
        assert_eq!(fields.join(" "), want, "{kind} {object}");
    }
}
