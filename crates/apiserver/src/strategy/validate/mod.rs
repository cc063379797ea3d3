//! What is wrong with objects of built-in kinds, and which changes they refuse (apiserver.md 16).

mod access;
mod admission;
mod amounts;
mod api_service;
mod autoscaler;
pub(crate) mod certificates;
mod cluster;
mod config;
mod endpoints;
mod event;
mod formats;
mod ingress;
mod job;
mod json_syntax;
mod limit_range;
mod network_policy;
mod node;
mod node_selector;
mod pod;
pub(super) mod pod_part;
mod quota;
mod schedule;
mod service;
mod storage;
mod volume;
mod workload;

use serde_json::{Value, json};

use crate::{names, status::Cause};

/// What is wrong with the object or, with `old`, with the change.
pub(crate) fn validate(group: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let out = &mut causes;
    // What was stored before a rule was known stays changeable: its spec is looked at when it changes.
    let is_new = || old.is_none_or(|old| is_changed(old, object));
    match (group, kind) {
        ("", "Pod") => pod::pod(object, old, out),
        ("", "PodTemplate") => workload::pod_template(object, old, out),
        ("", "ReplicationController") => workload::replication_controller(object, old, out),
        ("", "Service") => service::service(object, old, out),
        ("", "ConfigMap") => config::config_map(object, old, out),
        ("", "Secret") => config::secret(object, old, out),
        ("", "PersistentVolumeClaim") if is_new() => volume::claim(object, old, out),
        ("", "PersistentVolume") if is_new() => volume::volume(object, old, out),
        ("", "Endpoints") if is_new() => endpoints::endpoints(object, out),
        ("", "LimitRange") if is_new() => limit_range::limit_range(object, out),
        ("", "Node") => node::node(object, old, out),
        ("apps", "Deployment") => workload::deployment(object, old, out),
        ("apps", "ReplicaSet") => workload::replica_set(object, old, out),
        ("apps", "DaemonSet") => workload::daemon_set(object, old, out),
        ("apps", "ControllerRevision") => workload::revision(object, old, out),
        ("apps", "StatefulSet") => workload::stateful_set(object, old, out),
        ("batch", "Job") => job::job(object, old, out),
        ("batch", "CronJob") => job::cron_job(object, old, out),
        ("autoscaling", "HorizontalPodAutoscaler") if is_new() => autoscaler::spec(object, out),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler::status(object, out),
        ("policy", "PodDisruptionBudget") => workload::budget(object, old, out),
        ("rbac.authorization.k8s.io", _) => access::rbac(kind, object, old, out),
        ("scheduling.k8s.io", "PriorityClass") => cluster::priority_class(object, old, out),
        ("storage.k8s.io", "StorageClass") => storage::storage_class(object, old, out),
        ("coordination.k8s.io", "Lease") => cluster::lease(object, out),
        ("storage.k8s.io", "CSIDriver") => storage::csi_driver(object, old, out),
        ("node.k8s.io", "RuntimeClass") => storage::runtime_class(object, old, out),
        ("networking.k8s.io", "IngressClass") if is_new() => ingress::class(object, old, out),
        ("networking.k8s.io", "NetworkPolicy") if is_new() => network_policy::network_policy(object, out),
        ("discovery.k8s.io", "EndpointSlice") if is_new() => endpoints::slice(object, old, out),
        ("", "Event") => event::core(object, out),
        ("events.k8s.io", "Event") => event::event(object, old, out),
        ("", "ResourceQuota") if is_new() => quota::quota(object, old, out),
        ("networking.k8s.io", "Ingress") if is_new() => ingress::ingress(object, old.is_none(), out),
        ("networking.k8s.io", "Ingress") => ingress::status(object, out),
        ("certificates.k8s.io", "CertificateSigningRequest") => certificates::request(object, old, out),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            admission::configuration(object, out);
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => admission::policy(object, out),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => admission::binding(object, out),
        ("apiregistration.k8s.io", "APIService") => api_service::api_service(object, out),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => return crate::crd::validate(object, old),
        _ => {}
    }
    causes
}

/// Whether more than metadata and status changed.
fn is_changed(old: &Value, new: &Value) -> bool {
    let rest = |of: &'_ Value| of.as_object().map_or(0, |map| map.keys().filter(|k| is_rest(k)).count());
    let changed = |(key, value): (&String, &Value)| is_rest(key) && old.get(key) != Some(value);
    rest(old) != rest(new) || new.as_object().into_iter().flatten().any(changed)
}

fn is_rest(key: &str) -> bool {
    key != "metadata" && key != "status"
}

/// JSON of an object whose members stand in the given order, as refusals quote the structures of a kube-apiserver.
fn quoted(members: &[(&str, Value)]) -> String {
    let members: Vec<String> = members.iter().map(|(name, value)| format!("{name:?}:{value}")).collect();
    format!("{{{}}}", members.join(","))
}

/// A label selector as refusals quote it.
fn quoted_selector(selector: &Value) -> String {
    if !selector.is_object() {
        return selector.to_string();
    }
    let mut members = Vec::new();
    for key in ["matchLabels", "matchExpressions"] {
        if selector[key].as_object().is_some_and(|m| !m.is_empty())
            || selector[key].as_array().is_some_and(|l| !l.is_empty())
        {
            members.push((key, selector[key].clone()));
        }
    }
    quoted(&members)
}

/// A value, null when absent.
fn at<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    object.pointer(pointer).unwrap_or(&Value::Null)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    at(object, pointer).as_str().unwrap_or_default()
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    at(object, pointer).as_array().map_or(&[], Vec::as_slice)
}

/// `/spec/selector` as `spec.selector`.
fn field_of(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

/// The value may not be below zero.
fn not_negative(object: &Value, pointer: &str, out: &mut Vec<Cause>) {
    let value = at(object, pointer);
    if value.as_i64().is_some_and(|n| n < 0) {
        out.push(Cause::invalid(field_of(pointer), value, "must be greater than or equal to 0"));
    }
}

/// The value may not change.
fn immutable(object: &Value, old: Option<&Value>, pointer: &str, out: &mut Vec<Cause>) {
    if let Some(old) = old
        && at(object, pointer) != at(old, pointer)
    {
        out.push(Cause::invalid(field_of(pointer), at(object, pointer), "field is immutable"));
    }
}

/// The value must be one of these.
fn one_of(object: &Value, pointer: &str, supported: &[&str], out: &mut Vec<Cause>) {
    let value = text(object, pointer);
    if !value.is_empty() && !supported.contains(&value) {
        out.push(Cause::unsupported(field_of(pointer), &json!(value), supported));
    }
}

/// The text must be a DNS label.
fn label(value: &str, field: &str, out: &mut Vec<Cause>) {
    out.extend(names::dns_label(value).iter().map(|m| Cause::invalid(field, &json!(value), m)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(spec: Value) -> Value {
        let mut object = json!({"spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]},
        }}});
        ironclad_patch::merge_patch(&mut object, &json!({"spec": spec}));
        object
    }

    fn messages(group: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut object = object.clone();
        if kind == "Service" {
            crate::strategy::defaults::apply(group, kind, &mut object, true);
        }
        let object = &object;
        validate(group, kind, object, old).into_iter().map(|c| format!("{}: {}", c.field, c.message)).collect()
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
                containers(
                    json!([{"name": "c", "image": "i", "ports": [{"containerPort": 99999, "protocol": "TCP"}]}]),
                ),
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
            (
                "",
                "Secret",
                json!({"type": "kubernetes.io/tls", "data": {"tls.key": ""}}),
                "data[tls.crt]: Required value",
            ),
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
    fn updates() {
        let other = json!({"selector": {"matchLabels": {"a": "b", "c": "d"}}, "template": {"metadata": {"labels": {"c": "d"}}}});
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
    fn what_was_stored_before_a_rule_stays_changeable() {
        let old = json!({"metadata": {"name": "a"}, "spec": {"policyTypes": ["Odd"]}});
        let mut new = old.clone();
        new["metadata"]["labels"] = json!({"a": "b"});
        assert!(messages("networking.k8s.io", "NetworkPolicy", &new, Some(&old)).is_empty());
        new["spec"]["podSelector"] = json!({});
        assert_eq!(messages("networking.k8s.io", "NetworkPolicy", &new, Some(&old)).len(), 1);
    }
}
