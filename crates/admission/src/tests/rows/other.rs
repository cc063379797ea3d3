//! Rows of sections 3.3, 4, 5 and 7: bindings, autoscaling, other policy kinds, Cluster.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ironclad_failover::flags::NoExecutePolicy;
use ironclad_fleet::gates::{Gate, Gates};

use super::*;
use crate::{needs, table::Phase};

pub(super) fn cases() -> Vec<Case> {
    [
        bindings(),
        autoscalers(),
        cron(),
        distributed(),
        quotas(),
        ingresses(),
        services(),
        protected(),
        taints(),
        interpreters(),
        clusters(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn bindings() -> Vec<Case> {
    let of = |row: &'static str, list| super::cases("### 3.3", row, list);
    let binding = |patch: Value| {
        let base = json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"namespace": "shop", "name": "web-deployment"},
            "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}},
        });
        Write::create("work.karmada.io", "resourcebindings", with(&base, &patch))
    };
    let depends =
        |text: &str| binding(json!({"metadata": {"annotations": {"resourcebinding.karmada.io/dependencies": text}}}));
    let components = |names: &[&str], gate: bool| {
        let list: Vec<Value> = names.iter().map(|name| json!({"name": name, "replicas": 1})).collect();
        let mut write = binding(json!({"spec": {"components": list}}));
        write.config.gates = Gates::default().with(Gate::MultiplePodTemplatesScheduling, gate);
        write
    };
    let annotation = "metadata.annotations.resourcebinding.karmada.io/dependencies";
    [
        of(
            "`metadata.annotations.resourcebinding.karmada.io/dependencies`",
            vec![
                ("not a JSON list", depends("[]"), Admitted),
                ("not a JSON list", depends("{}"), Refused(annotation)),
                ("not a JSON list", depends("["), Refused(annotation)),
                (
                    "without apiVersion, kind, or a name or labelSelector",
                    depends(r#"[{"apiVersion":"v1","kind":"Secret","name":"s"}]"#),
                    Admitted,
                ),
                (
                    "without apiVersion, kind, or a name or labelSelector",
                    depends(r#"[{"apiVersion":"v1","kind":"Secret","labelSelector":{}}]"#),
                    Admitted,
                ),
                (
                    "without apiVersion, kind, or a name or labelSelector",
                    depends(r#"[{"apiVersion":"v1","kind":"Secret"}]"#),
                    Refused(annotation),
                ),
                (
                    "without apiVersion, kind, or a name or labelSelector",
                    depends(r#"[{"kind":"Secret","name":"s"}]"#),
                    Refused(annotation),
                ),
            ],
        ),
        of(
            "`spec.components[i].name`",
            vec![
                ("empty", components(&["a", "b"], true), Admitted),
                ("empty", components(&[""], true), Refused("spec.components[0].name")),
                ("not unique", components(&["a", "a"], true), Refused("spec.components[1].name")),
                ("not unique", components(&["a", "a"], false), Admitted),
            ],
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn protected() -> Vec<Case> {
    const LABEL: &str = "resourcetemplate.karmada.io/deletion-protected";
    let of = |row: &'static str, list| super::cases("### 5.4", row, list);
    let object = |kind: &str, labels: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": "shop", "name": "a", "labels": labels}});
    let deleted = |group: &'static str, resource: &'static str, labels: Value| {
        Write::delete(group, resource, object("Deployment", labels))
    };
    let namespace = |contents: Option<usize>| {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        let mut write = Write::delete("", "namespaces", namespace);
        let contents = contents.map(|number| vec![object("Secret", json!({LABEL: "Always"})); number]);
        for need in write.with_request(|request| needs(Phase::Validating, request, &write.config)) {
            contents.iter().for_each(|contents| drop(write.lookups.found.insert(need.clone(), contents.clone())));
        }
        write
    };
    let unprotected = || {
        let mut write = namespace(Some(1));
        write.config.protect_namespace_contents = false;
        write
    };
    [
        of(
            "with label `resourcetemplate.karmada.io/deletion-protected: Always`",
            vec![(
                "403, and the text asks to remove the label",
                deleted("apps", "deployments", json!({LABEL: "Always"})),
                Refused(""),
            )],
        ),
        of(
            "with another value of the label, or without it",
            vec![
                ("allowed", deleted("apps", "deployments", json!({LABEL: "always"})), Admitted),
                ("allowed", deleted("apps", "deployments", json!({})), Admitted),
            ],
        ),
        of(
            "Cluster with the label",
            vec![("403, as a CRD", deleted("cluster.karmada.io", "clusters", json!({LABEL: "Always"})), Refused(""))],
        ),
        of(
            "Namespace that contains objects with the label",
            vec![
                ("403, with a list of up to five", namespace(Some(5)), Refused("")),
                ("with more than five, the list says so", namespace(Some(6)), Refused("")),
                ("allowed with `--protect-namespace-contents=false`", unprotected(), Admitted),
                ("allowed with `--protect-namespace-contents=false`", namespace(Some(0)), Admitted),
            ],
        ),
        of(
            "Namespace whose contents cannot be listed",
            vec![("500, since it is not known", namespace(None), Refused(""))],
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn ingresses() -> Vec<Case> {
    let of = |row: &'static str, list| super::cases("### 5.2", row, list);
    let base = json!({
        "apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterIngress", "metadata": {"namespace": "shop", "name": "i"},
        "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
    });
    let write = |patch: Value| Write::create("networking.karmada.io", "multiclusteringresses", with(&base, &patch));
    let spec = |spec: Value| write(json!({ "spec": spec }));
    let backend = |backend: Value| spec(json!({ "defaultBackend": backend }));
    let service = |service: Value| backend(json!({ "service": service }));
    let resource = |fields: Value| {
        backend(json!({"service": null, "resource": with(&json!({"kind": "Bucket", "name": "b"}), &fields)}))
    };
    let path = |fields: Value| {
        let base =
            json!({"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}});
        spec(json!({"rules": [{"http": {"paths": [with(&base, &fields)]}}]}))
    };
    let given = |kind: &str, text: &str| path(json!({"pathType": kind, "path": text}));
    let host = |host: &str| spec(json!({"rules": [{ "host": host }]}));
    let tls = |tls: Value| spec(json!({ "tls": [tls] }));
    let point = |point: Value| {
        let new = with(&base, &json!({"status": {"loadBalancer": {"ingress": [point]}}}));
        Write::update("networking.karmada.io", "multiclusteringresses", base.clone(), new)
    };
    let (path_type, path_at) = ("spec.rules[0].http.paths[0].pathType", "spec.rules[0].http.paths[0].path");
    [
        of(
            "`metadata.name`",
            vec![
                ("not a DNS subdomain", write(json!({})), Admitted),
                ("not a DNS subdomain", write(json!({"metadata": {"name": "A"}})), Refused("metadata.name")),
            ],
        ),
        of(
            "`spec`",
            vec![("neither rules nor defaultBackend", spec(json!({"defaultBackend": null})), Refused("spec"))],
        ),
        of(
            "`spec.defaultBackend`, `….paths[j].backend`",
            vec![
                ("neither resource nor service", backend(json!({"service": null})), Refused("spec.defaultBackend")),
                (
                    "neither resource nor service",
                    path(json!({"backend": {"service": null}})),
                    Refused("spec.rules[0].http.paths[0].backend"),
                ),
                ("both", backend(json!({"resource": {"kind": "Bucket", "name": "b"}})), Refused("spec.defaultBackend")),
            ],
        ),
        of(
            "`….service.name`",
            vec![
                ("empty", service(json!({"name": ""})), Refused("spec.defaultBackend.service.name")),
                ("not DNS-1035", service(json!({"name": "1a"})), Refused("spec.defaultBackend.service.name")),
            ],
        ),
        of(
            "`….service.port`",
            vec![
                (
                    "neither name nor number",
                    service(json!({"port": {"number": null}})),
                    Refused("spec.defaultBackend.service.port"),
                ),
                ("both", service(json!({"port": {"name": "http"}})), Refused("spec.defaultBackend.service.port")),
            ],
        ),
        of(
            "`….service.port.number`",
            vec![
                ("not 1–65535", service(json!({"port": {"number": 65535}})), Admitted),
                (
                    "not 1–65535",
                    service(json!({"port": {"number": 65536}})),
                    Refused("spec.defaultBackend.service.port.number"),
                ),
                (
                    "not 1–65535",
                    service(json!({"port": {"number": -1}})),
                    Refused("spec.defaultBackend.service.port.number"),
                ),
            ],
        ),
        of(
            "`….service.port.name`",
            vec![
                ("not a port name", service(json!({"port": {"name": "http", "number": null}})), Admitted),
                (
                    "not a port name",
                    service(json!({"port": {"name": "80", "number": null}})),
                    Refused("spec.defaultBackend.service.port.name"),
                ),
                (
                    "not a port name",
                    service(json!({"port": {"name": "a-name-of-16-char", "number": null}})),
                    Refused("spec.defaultBackend.service.port.name"),
                ),
            ],
        ),
        of(
            "`….resource.kind`, `.name`",
            vec![
                ("empty", resource(json!({})), Admitted),
                ("empty", resource(json!({"kind": ""})), Refused("spec.defaultBackend.resource.kind")),
                ("empty", resource(json!({"name": ""})), Refused("spec.defaultBackend.resource.name")),
            ],
        ),
        of(
            "`spec.rules[i].host`, `spec.tls[i].hosts[j]`",
            vec![
                ("an IP", host("1.2.3.4"), Refused("spec.rules[0].host")),
                ("an IP", tls(json!({"hosts": ["::1"]})), Refused("spec.tls[0].hosts[0]")),
                ("not a DNS name", host("a_b"), Refused("spec.rules[0].host")),
                ("not a DNS name", tls(json!({"hosts": ["A.example.com"]})), Refused("spec.tls[0].hosts[0]")),
                ("a wildcard other than", host("*.example.com"), Admitted),
                ("a wildcard other than", host("a.*.com"), Refused("spec.rules[0].host")),
                ("a wildcard other than", host("*"), Refused("spec.rules[0].host")),
            ],
        ),
        of(
            "`spec.rules[i].http.paths`",
            vec![("empty", spec(json!({"rules": [{"http": {"paths": []}}]})), Refused("spec.rules[0].http.paths"))],
        ),
        of(
            "`….paths[j].pathType`",
            vec![
                ("absent", given("", "/"), Refused(path_type)),
                ("not Exact, Prefix, ImplementationSpecific", given("Exact", "/"), Admitted),
                ("not Exact, Prefix, ImplementationSpecific", given("Regex", "/"), Refused(path_type)),
            ],
        ),
        of(
            "`….paths[j].path`",
            vec![
                ("not absolute", given("Exact", "a"), Refused(path_at)),
                ("not absolute", given("ImplementationSpecific", "a"), Refused(path_at)),
                ("not absolute", given("ImplementationSpecific", ""), Admitted),
                ("with `//`", given("Prefix", "/a//b"), Refused(path_at)),
                ("with `//`", given("Exact", "/a/./b"), Refused(path_at)),
                ("with `//`", given("Exact", "/a/../b"), Refused(path_at)),
                ("with `//`", given("Exact", "/a%2fb"), Refused(path_at)),
                ("with `//`", given("Prefix", "/a%2Fb"), Refused(path_at)),
                ("with `//`", given("ImplementationSpecific", "/a//.*"), Admitted),
                ("ends in `/..`", given("Prefix", "/a/.."), Refused(path_at)),
                ("ends in `/..`", given("Exact", "/a/."), Refused(path_at)),
            ],
        ),
        of(
            "`spec.tls[i].secretName`",
            vec![
                ("not a DNS subdomain", tls(json!({"secretName": "a.b"})), Admitted),
                ("not a DNS subdomain", tls(json!({"secretName": "A"})), Refused("spec.tls[0].secretName")),
            ],
        ),
        of(
            "`spec.ingressClassName`",
            vec![("not a DNS subdomain", spec(json!({"ingressClassName": "A"})), Refused("spec.ingressClassName"))],
        ),
        of(
            "`status.loadBalancer.ingress[i]`",
            vec![
                ("ip is not an IP", point(json!({"ip": "1.2.3.4"})), Admitted),
                ("ip is not an IP", point(json!({"ip": "a"})), Refused("status.loadBalancer.ingress[0].ip")),
                (
                    "hostname is not a DNS name",
                    point(json!({"hostname": "A"})),
                    Refused("status.loadBalancer.ingress[0].hostname"),
                ),
                (
                    "hostname is an IP",
                    point(json!({"hostname": "1.2.3.4"})),
                    Refused("status.loadBalancer.ingress[0].hostname"),
                ),
            ],
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn autoscalers() -> Vec<Case> {
    const S: &str = "### 4.1";
    let of = |row: &'static str, list| super::cases(S, row, list);
    let base = json!({
        "apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "metadata": {"namespace": "shop", "name": "a"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minReplicas": 1, "maxReplicas": 3},
    });
    let write = |patch: Value| Write::create("autoscaling.karmada.io", "federatedhpas", with(&base, &patch));
    let spec = |spec: Value| write(json!({ "spec": spec }));
    let to_zero = |fields: Value| {
        let mut write = spec(fields);
        write.config.gates = Gates::default().with(Gate::HPAScaleToZero, true);
        write
    };
    let metric = |metric: Value| spec(json!({"metrics": [metric]}));
    let source = |kind: &str, block: &str, base: Value, fields: Value| {
        metric(json!({"type": kind, block: with(&base, &fields)}))
    };
    let resource = |fields: Value| {
        source(
            "Resource",
            "resource",
            json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}),
            fields,
        )
    };
    let container = |fields: Value| {
        let base =
            json!({"name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": 80}});
        source("ContainerResource", "containerResource", base, fields)
    };
    let object = |fields: Value| {
        let base = json!({"describedObject": {"apiVersion": "v1", "kind": "Service", "name": "s"}, "metric": {"name": "m"}, "target": {"type": "Value", "value": "1"}});
        source("Object", "object", base, fields)
    };
    let pods = |fields: Value| {
        source(
            "Pods",
            "pods",
            json!({"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}}),
            fields,
        )
    };
    let behavior = |direction: &str, fields: Value| {
        let base = json!({"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1}]});
        spec(json!({"behavior": {direction: with(&base, &fields)}}))
    };
    let rule = |fields: Value| {
        behavior(
            "scaleUp",
            json!({"policies": [with(&json!({"type": "Pods", "value": 1, "periodSeconds": 1}), &fields)]}),
        )
    };
    vec![
        of("`metadata`", vec![("name is a DNS subdomain", write(json!({"metadata": {"name": "A"}})), Refused("metadata.name"))]),
        of("`spec.minReplicas`", vec![
            ("< 1", spec(json!({})), Admitted),
            ("< 1", spec(json!({"minReplicas": 0})), Refused("spec.minReplicas")),
            ("with gate `HPAScaleToZero` < 0", to_zero(json!({"minReplicas": -1})), Refused("spec.minReplicas")),
        ]),
        of("`spec.metrics`", vec![
            ("minReplicas 0 without an Object or External metric", to_zero(json!({"minReplicas": 0})), Refused("spec.metrics")),
        ]),
        of("`spec.maxReplicas`", vec![
            ("< 1", spec(json!({"minReplicas": null, "maxReplicas": 0})), Refused("spec.maxReplicas")),
            ("< minReplicas", spec(json!({"minReplicas": 3, "maxReplicas": 3})), Admitted),
            ("< minReplicas", spec(json!({"minReplicas": 4, "maxReplicas": 3})), Refused("spec.maxReplicas")),
        ]),
        of("`spec.scaleTargetRef.kind`, `.name`", vec![
            ("empty", spec(json!({"scaleTargetRef": {"kind": ""}})), Refused("spec.scaleTargetRef.kind")),
            ("empty", spec(json!({"scaleTargetRef": {"name": ""}})), Refused("spec.scaleTargetRef.name")),
            ("not a valid path segment", spec(json!({"scaleTargetRef": {"name": ".."}})), Refused("spec.scaleTargetRef.name")),
            ("`%`", spec(json!({"scaleTargetRef": {"kind": "a%b"}})), Refused("spec.scaleTargetRef.kind")),
        ]),
        of("`spec.metrics[i].type`", vec![
            ("empty", metric(json!({"type": ""})), Refused("spec.metrics[0].type")),
            ("not one of", metric(json!({"type": "Other"})), Refused("spec.metrics[0].type")),
        ]),
        of("`spec.metrics[i].<source>`", vec![
            ("missing", resource(json!({})), Admitted),
            ("missing", metric(json!({"type": "Resource"})), Refused("spec.metrics[0].resource")),
        ]),
        of("`spec.metrics[i].<other>`", vec![
            ("another source is filled", metric(json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}, "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}}})), Refused("spec.metrics[0].pods")),
        ]),
        of("`….object.describedObject.*`, `….metric.name`", vec![
            ("as above", object(json!({})), Admitted),
            ("as above", object(json!({"describedObject": {"name": ""}})), Refused("spec.metrics[0].object.describedObject.name")),
            ("as above", object(json!({"describedObject": {"kind": "a/b"}})), Refused("spec.metrics[0].object.describedObject.kind")),
            ("metric name a path segment", object(json!({"metric": {"name": "."}})), Refused("spec.metrics[0].object.metric.name")),
            ("metric name a path segment", pods(json!({"metric": {"name": ""}})), Refused("spec.metrics[0].pods.metric.name")),
        ]),
        of("`….target.type`", vec![
            ("empty", resource(json!({"target": {"type": ""}})), Refused("spec.metrics[0].resource.target.type")),
            ("not Utilization, Value, AverageValue", resource(json!({"target": {"type": "Other"}})), Refused("spec.metrics[0].resource.target.type")),
        ]),
        of("`….target.value`, `.averageValue`", vec![
            ("not positive", object(json!({"target": {"value": "0"}})), Refused("spec.metrics[0].object.target.value")),
            ("not positive", pods(json!({"target": {"averageValue": "-1"}})), Refused("spec.metrics[0].pods.target.averageValue")),
        ]),
        of("`….target.averageUtilization`", vec![
            ("< 1", resource(json!({"target": {"averageUtilization": 0}})), Refused("spec.metrics[0].resource.target.averageUtilization")),
        ]),
        of("`….object.target.averageValue`", vec![
            ("neither value nor averageValue", object(json!({"target": {"value": null}})), Refused("spec.metrics[0].object.target.averageValue")),
        ]),
        of("`….pods.target.averageValue`", vec![
            ("missing", pods(json!({})), Admitted),
            ("missing", pods(json!({"target": {"averageValue": null}})), Refused("spec.metrics[0].pods.target.averageValue")),
        ]),
        of("`….resource.name`, `….containerResource.name`, `.container`", vec![
            ("empty", resource(json!({"name": ""})), Refused("spec.metrics[0].resource.name")),
            ("empty", container(json!({"container": ""})), Refused("spec.metrics[0].containerResource.container")),
            ("not a container resource", resource(json!({"name": "sunshine"})), Refused("spec.metrics[0].resource.name")),
            ("not a container resource", container(json!({"name": "sunshine"})), Refused("spec.metrics[0].containerResource.name")),
            ("container not a DNS label", container(json!({})), Admitted),
            ("container not a DNS label", container(json!({"container": "C"})), Refused("spec.metrics[0].containerResource.container")),
        ]),
        of("`….resource.target.averageUtilization`", vec![
            ("neither averageUtilization nor averageValue", resource(json!({"target": {"averageUtilization": null}})), Refused("spec.metrics[0].resource.target.averageUtilization")),
        ]),
        of("`….resource.target.averageValue`", vec![
            ("both set", resource(json!({"target": {"averageValue": "1"}})), Refused("spec.metrics[0].resource.target.averageValue")),
        ]),
        of("`spec.behavior.scaleUp.stabilizationWindowSeconds`, the same of `scaleDown`", vec![
            ("< 0 or > 3600", behavior("scaleDown", json!({"stabilizationWindowSeconds": 3600})), Admitted),
            ("< 0 or > 3600", behavior("scaleUp", json!({"stabilizationWindowSeconds": -1})), Refused("spec.behavior.scaleUp.stabilizationWindowSeconds")),
            ("< 0 or > 3600", behavior("scaleDown", json!({"stabilizationWindowSeconds": 3601})), Refused("spec.behavior.scaleDown.stabilizationWindowSeconds")),
        ]),
        of("`….selectPolicy`", vec![
            ("not Disabled, Max, Min", behavior("scaleUp", json!({"selectPolicy": "Disabled"})), Admitted),
            ("not Disabled, Max, Min", behavior("scaleUp", json!({"selectPolicy": "Middle"})), Refused("spec.behavior.scaleUp.selectPolicy")),
        ]),
        of("`….policies`", vec![("empty", behavior("scaleUp", json!({"policies": []})), Refused("spec.behavior.scaleUp.policies"))]),
        of("`….policies[j].type`", vec![("not Percent, Pods", rule(json!({"type": "Nodes"})), Refused("spec.behavior.scaleUp.policies[0].type"))]),
        of("`….policies[j].value`", vec![("≤ 0", rule(json!({"value": 0})), Refused("spec.behavior.scaleUp.policies[0].value"))]),
        of("`….policies[j].periodSeconds`", vec![
            ("≤ 0 or > 1800", rule(json!({"periodSeconds": 1800})), Admitted),
            ("≤ 0 or > 1800", rule(json!({"periodSeconds": 0})), Refused("spec.behavior.scaleUp.policies[0].periodSeconds")),
            ("≤ 0 or > 1800", rule(json!({"periodSeconds": 1801})), Refused("spec.behavior.scaleUp.policies[0].periodSeconds")),
        ]),
        of("`status.currentReplicas`, `.desiredReplicas`", vec![
            ("negative", write(json!({"status": {"currentReplicas": 0, "desiredReplicas": 0}})), Admitted),
            ("negative", write(json!({"status": {"currentReplicas": -1, "desiredReplicas": 0}})), Refused("status.currentReplicas")),
            ("negative", write(json!({"status": {"currentReplicas": 0, "desiredReplicas": -1}})), Refused("status.desiredReplicas")),
        ]),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn distributed() -> Vec<Case> {
    let of = |row: &'static str, list| super::cases("### 4.3", row, list);
    let named = |name: &str| {
        json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"namespace": "shop", "name": name, "labels": {"federatedhpa.karmada.io/enabled": "true"}},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3},
        })
    };
    let write = |patch: Value| Write::create("autoscaling", "horizontalpodautoscalers", with(&named("a"), &patch));
    let annotated = |key: &str, value: &str| {
        write(json!({"metadata": {"annotations": {format!("federatedhpa.karmada.io/{key}"): value}}}))
    };
    // Answers each need by the plural that it looks up.
    let beside = |mut write: Write, plural: &str, found: Value| {
        for need in write.with_request(|request| needs(Phase::Validating, request, &write.config)) {
            let is_it = format!("{need:?}").contains(&format!("plural: \"{plural}\""));
            write.lookups.found.insert(need, if is_it { vec![found.clone()] } else { vec![] });
        }
        write
    };
    let federated = json!({"metadata": {"name": "f"}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
    let bound = |clusters: usize| {
        let clusters: Vec<Value> = (0..clusters).map(|n| json!({"name": format!("m{n}")})).collect();
        json!({"metadata": {"name": "web-deployment"}, "spec": {"clusters": clusters}})
    };
    let (split, target) = ("metadata.annotations[federatedhpa.karmada.io/split]", "spec.scaleTargetRef");
    vec![
        of(
            "`spec.scaleTargetRef`",
            vec![
                (
                    "the target has a FederatedHPA",
                    beside(write(json!({})), "federatedhpas", federated),
                    Refused(target),
                ),
                (
                    "the target has another distributed HPA",
                    beside(write(json!({})), "horizontalpodautoscalers", named("a")),
                    Admitted,
                ),
                (
                    "the target has another distributed HPA",
                    beside(write(json!({})), "horizontalpodautoscalers", named("b")),
                    Refused(target),
                ),
            ],
        ),
        of(
            "`metadata.annotations[federatedhpa.karmada.io/split]`",
            vec![
                (
                    "no JSON object with mode Weighted, Even, PerCluster or Static",
                    annotated("split", r#"{"mode":"Even"}"#),
                    Admitted,
                ),
                (
                    "no JSON object with mode Weighted, Even, PerCluster or Static",
                    annotated("split", "Even"),
                    Refused(split),
                ),
                (
                    "no JSON object with mode Weighted, Even, PerCluster or Static",
                    annotated("split", r#"{"mode":"Odd"}"#),
                    Refused(split),
                ),
                (
                    "Static without weights",
                    annotated("split", r#"{"mode":"Static","weights":{"m1":2,"m2":0}}"#),
                    Admitted,
                ),
                ("Static without weights", annotated("split", r#"{"mode":"Static","weights":{}}"#), Refused(split)),
                ("with one below 0", annotated("split", r#"{"mode":"Static","weights":{"m1":-1}}"#), Refused(split)),
            ],
        ),
        of(
            "`metadata.annotations[federatedhpa.karmada.io/strict-max]`, `[…/rebalance]`",
            vec![
                ("not true, false", annotated("strict-max", "true"), Admitted),
                (
                    "not true, false",
                    annotated("strict-max", "True"),
                    Refused("metadata.annotations[federatedhpa.karmada.io/strict-max]"),
                ),
                (
                    "not true, false",
                    annotated("rebalance", "1"),
                    Refused("metadata.annotations[federatedhpa.karmada.io/rebalance]"),
                ),
            ],
        ),
        of(
            "`metadata.annotations[federatedhpa.karmada.io/on-delete]`",
            vec![
                ("not Reset", annotated("on-delete", "Reset"), Admitted),
                (
                    "not Reset",
                    annotated("on-delete", "Keep"),
                    Refused("metadata.annotations[federatedhpa.karmada.io/on-delete]"),
                ),
            ],
        ),
        of(
            "`spec.maxReplicas`",
            vec![
                ("below the number of clusters", beside(write(json!({})), "resourcebindings", bound(3)), Admitted),
                (
                    "below the number of clusters",
                    beside(write(json!({})), "resourcebindings", bound(4)),
                    Warned("spec.maxReplicas: 3 is below the 4 clusters"),
                ),
                (
                    "unless mode is PerCluster",
                    beside(annotated("split", r#"{"mode":"PerCluster"}"#), "resourcebindings", bound(4)),
                    Admitted,
                ),
            ],
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn cron() -> Vec<Case> {
    const S: &str = "### 4.2";
    let of = |row: &'static str, list| super::cases(S, row, list);
    let write = |name: &str, target: Value, rules: Value| {
        Write::create(
            "autoscaling.karmada.io",
            "cronfederatedhpas",
            json!({
                "apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "CronFederatedHPA", "metadata": {"namespace": "shop", "name": name},
                "spec": {"scaleTargetRef": target, "rules": rules},
            }),
        )
    };
    let workload = || json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let ours = |kind: &str| json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": kind, "name": "a"});
    let replicas = |fields: Value| with(&json!({"name": "r", "schedule": "0 9 * * 1-5", "targetReplicas": 1}), &fields);
    let bounds = |fields: Value| {
        with(&json!({"name": "r", "schedule": "@daily", "targetMinReplicas": 1, "targetMaxReplicas": 2}), &fields)
    };
    let of_workload = |fields: Value| write("c", workload(), json!([replicas(fields)]));
    let of_autoscaler = |fields: Value| write("c", ours("FederatedHPA"), json!([bounds(fields)]));
    vec![
        of(
            "`metadata`",
            vec![("as above", write("C", workload(), json!([replicas(json!({}))])), Refused("metadata.name"))],
        ),
        of(
            "`spec.scaleTargetRef.kind`",
            vec![
                ("kind is not FederatedHPA", of_autoscaler(json!({})), Admitted),
                (
                    "kind is not FederatedHPA",
                    write("c", ours("CronFederatedHPA"), json!([bounds(json!({}))])),
                    Refused("spec.scaleTargetRef.kind"),
                ),
            ],
        ),
        of(
            "`spec.scaleTargetRef.*`",
            vec![(
                "as in 4.1",
                write("c", with(&workload(), &json!({"name": ""})), json!([replicas(json!({}))])),
                Refused("spec.scaleTargetRef.name"),
            )],
        ),
        of(
            "`spec.rules[i].name`",
            vec![(
                "repeated",
                write("c", workload(), json!([replicas(json!({})), replicas(json!({}))])),
                Refused("spec.rules[1].name"),
            )],
        ),
        of(
            "`….schedule`",
            vec![
                ("not a cron expression", of_workload(json!({"schedule": "0/5 * * * *"})), Admitted),
                ("not a cron expression", of_workload(json!({"schedule": "@every 1h"})), Admitted),
                (
                    "not a cron expression",
                    of_workload(json!({"schedule": "61 * * * *"})),
                    Refused("spec.rules[0].schedule"),
                ),
                (
                    "not a cron expression",
                    of_workload(json!({"schedule": "0 0 L * *"})),
                    Refused("spec.rules[0].schedule"),
                ),
            ],
        ),
        of(
            "`….timeZone`",
            vec![
                ("unknown zone", of_workload(json!({"timeZone": "Europe/Berlin"})), Admitted),
                ("unknown zone", of_workload(json!({"timeZone": "europe/berlin"})), Refused("spec.rules[0].timeZone")),
                ("unknown zone", of_workload(json!({"timeZone": ""})), Refused("spec.rules[0].timeZone")),
                ("unknown zone", of_workload(json!({"timeZone": "Local"})), Refused("spec.rules[0].timeZone")),
            ],
        ),
        of(
            "`….targetMaxReplicas`",
            vec![
                (
                    "both min and max absent",
                    of_autoscaler(json!({"targetMinReplicas": null, "targetMaxReplicas": null})),
                    Refused("spec.rules[0].targetMaxReplicas"),
                ),
                (
                    "≤ 0",
                    of_autoscaler(json!({"targetMinReplicas": null, "targetMaxReplicas": 0})),
                    Refused("spec.rules[0].targetMaxReplicas"),
                ),
            ],
        ),
        of(
            "`….targetMinReplicas`",
            vec![
                ("≤ 0", of_autoscaler(json!({"targetMinReplicas": 0})), Refused("spec.rules[0].targetMinReplicas")),
                ("> targetMaxReplicas", of_autoscaler(json!({"targetMinReplicas": 2})), Admitted),
                (
                    "> targetMaxReplicas",
                    of_autoscaler(json!({"targetMinReplicas": 3})),
                    Refused("spec.rules[0].targetMinReplicas"),
                ),
            ],
        ),
        of(
            "`….targetReplicas`",
            vec![
                ("absent", of_workload(json!({"targetReplicas": null})), Refused("spec.rules[0].targetReplicas")),
                ("(0 is allowed)", of_workload(json!({"targetReplicas": 0})), Admitted),
                ("< 0", of_workload(json!({"targetReplicas": -1})), Refused("spec.rules[0].targetReplicas")),
            ],
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn quotas() -> Vec<Case> {
    const S: &str = "### 5.1";
    const EVERYWHERE: &str = "`spec.overall[k]`, `spec.staticAssignments[i].hard[k]`, `status.*[k]`";
    let of = |row: &'static str, list| super::cases(S, row, list);
    let write = |patch: Value| {
        let base = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota", "metadata": {"namespace": "shop", "name": "q"}, "spec": {"overall": {"cpu": "10"}}});
        Write::create("policy.karmada.io", "federatedresourcequotas", with(&base, &patch))
    };
    let overall = |key: &str, amount: &str| write(json!({"spec": {"overall": {key: amount}}}));
    let assigned = |cluster: &str, hard: Value| {
        write(json!({"spec": {"staticAssignments": [{"clusterName": cluster, "hard": hard}]}}))
    };
    let long = "m".repeat(49);
    vec![
        of(
            "`metadata.name`",
            vec![
                ("longer than 63", write(json!({"metadata": {"name": "q".repeat(63)}})), Admitted),
                ("longer than 63", write(json!({"metadata": {"name": "q".repeat(64)}})), Refused("metadata.name")),
            ],
        ),
        of(
            EVERYWHERE,
            vec![
                ("k is not a qualified name", overall("a b", "1"), Refused("spec.overall[a b]")),
                ("k is not a standard quota resource", overall("sunshine", "1"), Refused("spec.overall[sunshine]")),
                (
                    "k is not a standard quota resource",
                    assigned("m1", json!({"sunshine": "1"})),
                    Refused("spec.staticAssignments[0].hard[sunshine]"),
                ),
                ("quantity negative", overall("memory", "-1"), Refused("spec.overall[memory]")),
                (
                    "quantity negative",
                    write(json!({"status": {"overall": {"cpu": "-1"}, "overallUsed": {}}})),
                    Refused("status.overall[cpu]"),
                ),
                ("quantity not whole", overall("pods", "2"), Admitted),
                ("quantity not whole", overall("pods", "1500m"), Refused("spec.overall[pods]")),
                ("extended resources", overall("a.io/gpu", "1500m"), Refused("spec.overall[a.io/gpu]")),
            ],
        ),
        of(
            "`spec.staticAssignments[i].clusterName`",
            vec![
                ("empty", assigned("", json!({"cpu": "1"})), Refused("spec.staticAssignments[0].clusterName")),
                ("> 48", assigned(&long[1..], json!({"cpu": "1"})), Admitted),
                ("> 48", assigned(&long, json!({"cpu": "1"})), Refused("spec.staticAssignments[0].clusterName")),
                (
                    "not a DNS label",
                    assigned("M", json!({"cpu": "1"})),
                    Refused("spec.staticAssignments[0].clusterName"),
                ),
            ],
        ),
        of(
            "`spec.overall[k]`",
            vec![
                ("less than the sum assigned", assigned("m1", json!({"cpu": "10"})), Admitted),
                ("less than the sum assigned", assigned("m1", json!({"cpu": "11"})), Refused("spec.overall[cpu]")),
            ],
        ),
        of(
            "`spec.staticAssignments[i].hard[k]`",
            vec![(
                "k not in overall",
                assigned("m1", json!({"memory": "1"})),
                Refused("spec.staticAssignments[0].hard[memory]"),
            )],
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn services() -> Vec<Case> {
    const S: &str = "### 5.3";
    let of = |row: &'static str, list| super::cases(S, row, list);
    let base = json!({"apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService", "metadata": {"namespace": "shop", "name": "web"}, "spec": {"types": ["CrossCluster"]}});
    let write = |patch: Value| Write::create("networking.karmada.io", "multiclusterservices", with(&base, &patch));
    let spec = |spec: Value| write(json!({ "spec": spec }));
    let update = |patch: Value| {
        Write::update("networking.karmada.io", "multiclusterservices", base.clone(), with(&base, &patch))
    };
    let ingress = |entry: Value| json!({"status": {"loadBalancer": {"ingress": [entry]}}});
    vec![
        of(
            "`metadata.name`",
            vec![
                ("not DNS-1035", write(json!({})), Admitted),
                ("not DNS-1035", write(json!({"metadata": {"name": "1a"}})), Refused("metadata.name")),
            ],
        ),
        of(
            "`spec.ports[i].name`",
            vec![
                ("not a DNS label", spec(json!({"ports": [{"name": "A", "port": 80}]})), Refused("spec.ports[0].name")),
                (
                    "repeated",
                    spec(json!({"ports": [{"name": "a", "port": 80}, {"name": "a", "port": 81}]})),
                    Refused("spec.ports[1].name"),
                ),
            ],
        ),
        of(
            "`spec.ports[i].port`",
            vec![
                ("not 1–65535", spec(json!({"ports": [{"port": 65535}]})), Admitted),
                ("not 1–65535", spec(json!({"ports": [{"port": 0}]})), Refused("spec.ports[0].port")),
                ("not 1–65535", spec(json!({"ports": [{"port": 65536}]})), Refused("spec.ports[0].port")),
            ],
        ),
        of(
            "`spec.types[i]`",
            vec![
                ("not CrossCluster, LoadBalancer", spec(json!({"types": ["LoadBalancer"]})), Admitted),
                ("not CrossCluster, LoadBalancer", spec(json!({"types": ["NodePort"]})), Refused("spec.types[0]")),
            ],
        ),
        of(
            "`spec.types`",
            vec![
                (
                    "more than one *different* type",
                    spec(json!({"types": ["CrossCluster", "LoadBalancer"]})),
                    Refused("spec.types"),
                ),
                ("changed on UPDATE", update(json!({"metadata": {"labels": {"a": "b"}}})), Admitted),
                ("changed on UPDATE", update(json!({"spec": {"types": ["LoadBalancer"]}})), Refused("spec.types")),
            ],
        ),
        of(
            "`spec.range.providerClusters[i]`, `…consumerClusters[i]`",
            vec![
                (
                    "invalid cluster name",
                    spec(json!({"providerClusters": [{"name": "m1"}], "consumerClusters": [{"name": "m2"}]})),
                    Admitted,
                ),
                (
                    "invalid cluster name",
                    spec(json!({"providerClusters": [{"name": "M"}]})),
                    Refused("spec.range.providerClusters[0]"),
                ),
                (
                    "invalid cluster name",
                    spec(json!({"consumerClusters": [{"name": "M"}]})),
                    Refused("spec.range.consumerClusters[0]"),
                ),
            ],
        ),
        of(
            "`status.loadBalancer.ingress[i]`",
            vec![
                ("UPDATE only, as 5.2", update(ingress(json!({"ip": "10.0.0.1"}))), Admitted),
                (
                    "UPDATE only, as 5.2",
                    update(ingress(json!({"ip": "x"}))),
                    Refused("status.loadBalancer.ingress[0].ip"),
                ),
                (
                    "UPDATE only, as 5.2",
                    update(ingress(json!({"hostname": "10.0.0.1"}))),
                    Refused("status.loadBalancer.ingress[0].hostname"),
                ),
            ],
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn taints() -> Vec<Case> {
    const S: &str = "### 5.5";
    let of = |row: &'static str, list| super::cases(S, row, list);
    let write = |effect: &str, other: &str, no_execute: NoExecutePolicy| {
        let condition = json!([{"conditionType": "Ready", "operator": "In", "statusValues": ["False"]}]);
        let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy", "metadata": {"name": "p"}, "spec": {
            "addOnConditions": condition, "taints": [{"key": "k", "effect": effect}, {"key": "k", "effect": other}]}});
        let mut write = Write::create("policy.karmada.io", "clustertaintpolicies", policy);
        write.config.no_execute_policy = no_execute;
        write
    };
    let forbidden = || write("NoExecute", "NoSchedule", NoExecutePolicy::Forbidden);
    vec![
        of(
            "`spec.taints[i]`",
            vec![
                ("effect NoExecute while", write("NoExecute", "NoSchedule", NoExecutePolicy::Allowed), Admitted),
                ("effect NoExecute while", forbidden(), Refused("spec.taints[0]")),
                ("text says that an administrator must enable it by flag", forbidden(), Refused("spec.taints[0]")),
            ],
        ),
        of(
            "`spec.taints[i]`",
            vec![(
                "same key and effect as a later entry",
                write("NoSchedule", "NoSchedule", NoExecutePolicy::Allowed),
                Refused("spec.taints[0]"),
            )],
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn interpreters() -> Vec<Case> {
    const S: &str = "### 5.6";
    let of = |row: &'static str, list| super::cases(S, row, list);
    let webhook = json!({
        "name": "a.example.com", "clientConfig": {"url": "https://example.com/x"}, "timeoutSeconds": 5,
        "rules": [{"operations": ["InterpretReplica"], "apiGroups": [""], "apiVersions": ["v1"], "kinds": ["Pod"]}],
        "interpreterContextVersions": ["v1alpha1"],
    });
    let list = |list: Value| {
        Write::create(
            "config.karmada.io",
            "resourceinterpreterwebhookconfigurations",
            json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration", "metadata": {"name": "c"}, "webhooks": list}),
        )
    };
    let write = |fields: Value| list(json!([with(&webhook, &fields)]));
    let rule = |fields: Value| {
        write(
            json!({"rules": [with(&json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "kinds": ["*"]}), &fields)]}),
        )
    };
    let url = |url: &str| write(json!({"clientConfig": {"url": url}}));
    let service = |fields: Value| {
        write(json!({"clientConfig": {"url": null, "service": with(&json!({"namespace": "n", "name": "s"}), &fields)}}))
    };
    let versions = |versions: Value| write(json!({"interpreterContextVersions": versions}));
    let bundle = |text: &str| write(json!({"clientConfig": {"caBundle": STANDARD.encode(text)}}));
    vec![
        of("`webhooks[i].name`", vec![
            ("not a fully qualified domain name", write(json!({"name": "a"})), Refused("webhooks[0].name")),
            ("not a fully qualified domain name", write(json!({"name": "A.b"})), Refused("webhooks[0].name")),
            ("one trailing dot is tolerated", write(json!({"name": "a.b."})), Admitted),
            ("repeated", list(json!([webhook, webhook])), Refused("webhooks[1].name")),
        ]),
        of("`….rules[j].operations`", vec![
            ("empty", rule(json!({"operations": []})), Refused("webhooks[0].rules[0].operations")),
            ("`*` mixed with others", rule(json!({"operations": ["*", "Retain"]})), Refused("webhooks[0].rules[0].operations")),
        ]),
        of("`….rules[j].operations[k]`", vec![
            ("not one of", rule(json!({"operations": ["InterpretReplica", "InterpretComponent", "ReviseReplica", "Retain", "AggregateStatus", "InterpretStatus", "InterpretHealth", "InterpretDependency"]})), Admitted),
            ("not one of", rule(json!({"operations": ["Guess"]})), Refused("webhooks[0].rules[0].operations[0]")),
        ]),
        of("`….rules[j].apiGroups`, `.apiVersions`, `.kinds`", vec![
            ("empty", rule(json!({"apiGroups": []})), Refused("webhooks[0].rules[0].apiGroups")),
            ("empty", rule(json!({"apiVersions": []})), Refused("webhooks[0].rules[0].apiVersions")),
            ("empty", rule(json!({"kinds": []})), Refused("webhooks[0].rules[0].kinds")),
            ("`*` mixed with others", rule(json!({"apiGroups": ["*", "apps"]})), Refused("webhooks[0].rules[0].apiGroups")),
            ("`*` mixed with others", rule(json!({"kinds": ["*", "Pod"]})), Refused("webhooks[0].rules[0].kinds")),
            ("empty string items are Required errors for versions and kinds", rule(json!({"apiVersions": [""]})), Refused("webhooks[0].rules[0].apiVersions[0]")),
            ("empty string items are Required errors for versions and kinds", rule(json!({"kinds": [""]})), Refused("webhooks[0].rules[0].kinds[0]")),
            ("allowed for groups (core)", rule(json!({"apiGroups": [""]})), Admitted),
        ]),
        of("`….timeoutSeconds`", vec![
            ("not 1–30", write(json!({"timeoutSeconds": 30})), Admitted),
            ("not 1–30", write(json!({"timeoutSeconds": 0})), Refused("webhooks[0].timeoutSeconds")),
            ("not 1–30", write(json!({"timeoutSeconds": 31})), Refused("webhooks[0].timeoutSeconds")),
        ]),
        of("`….clientConfig`", vec![
            ("not exactly one of url, service", write(json!({"clientConfig": {"url": null}})), Refused("webhooks[0].clientConfig")),
            ("not exactly one of url, service", write(json!({"clientConfig": {"service": {"namespace": "n", "name": "s"}}})), Refused("webhooks[0].clientConfig")),
        ]),
        of("`….clientConfig.url`", vec![
            ("not https", url("https://[::1]:8443/x"), Admitted),
            ("not https", url("http://example.com"), Refused("webhooks[0].clientConfig.url")),
            ("no host", url("https:///x"), Refused("webhooks[0].clientConfig.url")),
            ("no host", url("https://:443"), Refused("webhooks[0].clientConfig.url")),
            ("malformed host or port", url("https://[::1"), Refused("webhooks[0].clientConfig.url")),
            ("malformed host or port", url("https://a:x"), Refused("webhooks[0].clientConfig.url")),
            ("malformed host or port", url("https://a:65536"), Refused("webhooks[0].clientConfig.url")),
            ("user info, fragment or query present", url("https://u@a"), Refused("webhooks[0].clientConfig.url")),
            ("user info, fragment or query present", url("https://a#b"), Refused("webhooks[0].clientConfig.url")),
            ("user info, fragment or query present", url("https://a?b"), Refused("webhooks[0].clientConfig.url")),
        ]),
        of("`….clientConfig.caBundle`", vec![
            ("no certificates in PEM", bundle("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"), Admitted),
            ("no certificates in PEM", bundle("MIIB"), Refused("webhooks[0].clientConfig.caBundle")),
            ("no certificates in PEM", bundle("-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n"), Refused("webhooks[0].clientConfig.caBundle")),
        ]),
        of("`….clientConfig.service.namespace/name/port/path`", vec![
            ("missing", service(json!({})), Admitted),
            ("missing", service(json!({"namespace": ""})), Refused("webhooks[0].clientConfig.service.namespace")),
            ("missing", service(json!({"name": ""})), Refused("webhooks[0].clientConfig.service.name")),
            ("port not 1–65535", service(json!({"port": 65536})), Refused("webhooks[0].clientConfig.service.port")),
            ("path segments must be DNS subdomains", service(json!({"path": "/a/b.c"})), Admitted),
            ("path segments must be DNS subdomains", service(json!({"path": "/A"})), Refused("webhooks[0].clientConfig.service.path")),
            ("no empty segment", service(json!({"path": "/a//b"})), Refused("webhooks[0].clientConfig.service.path")),
        ]),
        of("`….interpreterContextVersions`", vec![
            ("empty", versions(json!([])), Refused("webhooks[0].interpreterContextVersions")),
            ("duplicate", versions(json!(["v1alpha1", "v1alpha1"])), Refused("webhooks[0].interpreterContextVersions[1]")),
            ("not DNS-1035", versions(json!(["v1alpha1", "1"])), Refused("webhooks[0].interpreterContextVersions[1]")),
            ("none equals `v1alpha1`", versions(json!(["v1"])), Refused("webhooks[0].interpreterContextVersions")),
        ]),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn clusters() -> Vec<Case> {
    const S: &str = "## 7";
    let of = |row: &'static str, list| super::cases(S, row, list);
    let base = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"}, "spec": {"syncMode": "Push", "apiEndpoint": "https://10.0.0.1:6443"}});
    let write = |patch: Value| Write::create("cluster.karmada.io", "clusters", with(&base, &patch));
    let spec = |spec: Value| write(json!({ "spec": spec }));
    let named = |name: &str| write(json!({"metadata": {"name": name}}));
    let endpoint = |url: &str| spec(json!({"apiEndpoint": url}));
    let proxy = |url: &str| spec(json!({"proxyURL": url}));
    let taints = |list: Value| spec(json!({"taints": list}));
    let secret = |field: &str, permitted: bool| {
        let mut write = spec(json!({field: {"namespace": "n", "name": "s"}}));
        for need in write.with_request(|request| needs(Phase::Validating, request, &write.config)) {
            write.lookups.found.insert(need, if permitted { vec![Value::Bool(true)] } else { vec![] });
        }
        write
    };
    let max = "9223372036854775807";
    let model = |grade: u64, resource: &str, min: &str, max: &str| json!({"grade": grade, "ranges": [{"name": resource, "min": min, "max": max}]});
    let models = |list: Value| spec(json!({"resourceModels": list}));
    vec![
        of(
            "`metadata.name`",
            vec![
                ("empty", named(""), Refused("metadata.name")),
                ("> 48 characters", named(&"m".repeat(48)), Admitted),
                ("> 48 characters", named(&"m".repeat(49)), Refused("metadata.name")),
                ("not a DNS label", named("a.b"), Refused("metadata.name")),
            ],
        ),
        of(
            "`spec.syncMode`",
            vec![
                ("empty", spec(json!({"syncMode": null})), Refused("spec.syncMode")),
                ("not Push, Pull", spec(json!({"syncMode": "Pull"})), Admitted),
                ("not Push, Pull", spec(json!({"syncMode": "Carry"})), Refused("spec.syncMode")),
            ],
        ),
        of(
            "`spec.apiEndpoint`",
            vec![
                ("not a URL with host", endpoint("10.0.0.1:6443"), Admitted),
                ("not a URL with host", endpoint("https:///x"), Refused("spec.apiEndpoint")),
                ("user info, fragment, query", endpoint("https://u@a"), Refused("spec.apiEndpoint")),
                ("user info, fragment, query", endpoint("https://a#b"), Refused("spec.apiEndpoint")),
                ("user info, fragment, query", endpoint("https://a?b"), Refused("spec.apiEndpoint")),
            ],
        ),
        of(
            "`spec.secretRef.namespace/.name`, `spec.impersonatorSecretRef.*`",
            vec![
                (
                    "reference given but incomplete",
                    spec(json!({"secretRef": {"namespace": "", "name": "a"}})),
                    Refused("spec.secretRef.namespace"),
                ),
                (
                    "reference given but incomplete",
                    spec(json!({"secretRef": {"namespace": "a", "name": ""}})),
                    Refused("spec.secretRef.name"),
                ),
                (
                    "reference given but incomplete",
                    spec(json!({"impersonatorSecretRef": {"namespace": "a", "name": ""}})),
                    Refused("spec.impersonatorSecretRef.name"),
                ),
            ],
        ),
        of(
            "`spec.proxyURL`",
            vec![
                ("not a URL", proxy("socks5://p:1"), Admitted),
                ("not a URL", proxy("p"), Refused("spec.proxyURL")),
                ("scheme not http, https, socks5", proxy("ftp://p"), Refused("spec.proxyURL")),
            ],
        ),
        of(
            "`spec.proxyHeader[k]`",
            vec![
                ("k is no header name", spec(json!({"proxyHeader": {"X-A": "a"}})), Admitted),
                ("k is no header name", spec(json!({"proxyHeader": {"X A": "a"}})), Refused("spec.proxyHeader[X A]")),
                (
                    "or is host, content-length, transfer-encoding, connection",
                    spec(json!({"proxyHeader": {"Host": "a"}})),
                    Refused("spec.proxyHeader[Host]"),
                ),
                (
                    "control characters in the value",
                    spec(json!({"proxyHeader": {"X": "a\r\nb"}})),
                    Refused("spec.proxyHeader[X]"),
                ),
            ],
        ),
        of(
            "`spec.apiEndpoint`, `spec.proxyURL`",
            vec![
                (
                    "a link-local, multicast or unspecified address",
                    endpoint("https://169.254.169.254"),
                    Refused("spec.apiEndpoint"),
                ),
                (
                    "a link-local, multicast or unspecified address",
                    proxy("http://0.0.0.0:80"),
                    Refused("spec.proxyURL"),
                ),
            ],
        ),
        of(
            "`spec.secretRef`, `spec.impersonatorSecretRef`",
            vec![
                ("the user may not get the Secret", secret("secretRef", true), Admitted),
                ("the user may not get the Secret", secret("secretRef", false), Refused("spec.secretRef")),
                (
                    "the user may not get the Secret",
                    secret("impersonatorSecretRef", false),
                    Refused("spec.impersonatorSecretRef"),
                ),
            ],
        ),
        of(
            "`spec.provider`, `.region`, `.Zone`, `.Zones`",
            vec![
                ("not a label value", spec(json!({"provider": "a", "region": "b", "zones": ["c"]})), Admitted),
                ("not a label value", spec(json!({"provider": "a b"})), Refused("spec.provider")),
                ("not a label value", spec(json!({"region": "a b"})), Refused("spec.region")),
                ("not a label value", spec(json!({"zone": "a b"})), Refused("spec.zone")),
                ("not a label value", spec(json!({"zones": ["a b"]})), Refused("spec.zones[0]")),
            ],
        ),
        of(
            "`spec.spec`",
            vec![("zone and zones together", spec(json!({"zone": "a", "zones": ["a"]})), Refused("spec.zones"))],
        ),
        of(
            "`spec.taints[i].key/.value/.effect`",
            vec![
                ("label rules", taints(json!([{"key": "/k", "effect": "NoSchedule"}])), Refused("spec.taints[0].key")),
                (
                    "label rules",
                    taints(json!([{"key": "k", "value": "a b", "effect": "NoSchedule"}])),
                    Refused("spec.taints[0].value"),
                ),
                (
                    "effect not NoSchedule, NoExecute",
                    taints(json!([{"key": "k", "effect": "PreferNoExecute"}])),
                    Admitted,
                ),
                (
                    "effect not NoSchedule, NoExecute",
                    taints(json!([{"key": "k", "effect": "PreferNoSchedule"}])),
                    Refused("spec.taints[0].effect"),
                ),
            ],
        ),
        of(
            "`spec.taints[i]`",
            vec![
                (
                    "same key and effect",
                    taints(json!([{"key": "k", "effect": "NoSchedule"}, {"key": "k", "effect": "NoExecute"}])),
                    Admitted,
                ),
                (
                    "same key and effect",
                    taints(json!([{"key": "k", "effect": "NoSchedule"}, {"key": "k", "effect": "NoSchedule"}])),
                    Refused("spec.taints[1]"),
                ),
            ],
        ),
        of(
            "`spec.resourceModels`",
            vec![
                ("gaps or overlaps", models(json!([model(0, "cpu", "0", "1"), model(1, "cpu", "1", max)])), Admitted),
                (
                    "equal grades in a row",
                    models(json!([model(0, "cpu", "0", "1"), model(0, "cpu", "1", max)])),
                    Refused("spec.resourceModels[1].grade"),
                ),
                (
                    "different number or names of resources",
                    models(json!([model(0, "cpu", "0", "1"), model(1, "memory", "1", max)])),
                    Refused("spec.resourceModels[1].ranges"),
                ),
                ("no resources", models(json!([{"grade": 0, "ranges": []}])), Refused("spec.resourceModels[0].ranges")),
                (
                    "max ≤ min",
                    models(json!([model(0, "cpu", "0", "1"), model(1, "cpu", "1", "1"), model(2, "cpu", "1", max)])),
                    Refused("spec.resourceModels[1].ranges[0]"),
                ),
                (
                    "first min not 0",
                    models(json!([model(0, "cpu", "1", max)])),
                    Refused("spec.resourceModels[0].ranges[0].min"),
                ),
                (
                    "gaps or overlaps",
                    models(json!([model(0, "cpu", "0", "1"), model(1, "cpu", "2", max)])),
                    Refused("spec.resourceModels[1].ranges[0].min"),
                ),
                (
                    "last max not MaxInt64",
                    models(json!([model(0, "cpu", "0", "1")])),
                    Refused("spec.resourceModels[0].ranges[0].max"),
                ),
            ],
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}
