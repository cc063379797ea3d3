//! MultiClusterIngress and MultiClusterService (specification/admission.md 5.2, 5.3).

use serde_json::{Value, json};

use super::{ID, Write, with, with_spec};

const GROUP: &str = "networking.karmada.io";

fn ingress() -> Value {
    json!({
        "apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterIngress", "metadata": {"namespace": "shop", "name": "i"},
        "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
    })
}

#[test]
fn ingress_rules() {
    let path = |fields: Value| {
        let base =
            json!({"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}});
        json!({"rules": [{"http": {"paths": [with(&base, &fields)]}}]})
    };
    let backend = |backend: Value| json!({"defaultBackend": backend});
    let service = |fields: Value| backend(json!({ "service": fields }));
    let at = "spec.rules[0].http.paths[0]";
    let bad_path = |given: &str, why: &str| format!("{at}.path: Invalid value: {given:?}: {why}");
    for (name, spec, want) in [
        ("a default backend", json!({}), String::new()),
        ("a rule", path(json!({})), String::new()),
        ("neither", json!({"defaultBackend": null}), "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified".into()),
        ("no backend", backend(json!({"service": null})), r#"spec.defaultBackend: Invalid value: "": resource or service backend is required"#.into()),
        (
            "two backends",
            backend(json!({"resource": {"kind": "Bucket", "name": "b"}})),
            r#"spec.defaultBackend: Invalid value: "": cannot set both resource and service backends"#.into(),
        ),
        ("a resource", backend(json!({"service": null, "resource": {"kind": "Bucket", "name": "b"}})), String::new()),
        ("a resource without name", backend(json!({"service": null, "resource": {"kind": "Bucket", "name": ""}})), "spec.defaultBackend.resource.name: Required value".into()),
        ("a service without name", service(json!({"name": ""})), "spec.defaultBackend.service.name: Required value".into()),
        (
            "a service of no name",
            service(json!({"name": "1a"})),
            "spec.defaultBackend.service.name: Invalid value: \"1a\": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')".into(),
        ),
        ("no port", service(json!({"port": {"number": null}})), "spec.defaultBackend.service.port: Required value: port name or number is required".into()),
        (
            "two ports",
            service(json!({"port": {"name": "http"}})),
            r#"spec.defaultBackend.service.port: Invalid value: {"name":"http","number":80}: cannot set both port name & port number"#.into(),
        ),
        ("a port by name", service(json!({"port": {"name": "http", "number": null}})), String::new()),
        ("a port of no name", service(json!({"port": {"name": "80", "number": null}})), r#"spec.defaultBackend.service.port.name: Invalid value: "80": must contain at least one letter (a-z)"#.into()),
        ("a port out of range", service(json!({"port": {"number": 65536}})), "spec.defaultBackend.service.port.number: Invalid value: 65536: must be between 1 and 65535, inclusive".into()),
        ("an address for a host", json!({"rules": [{"host": "1.2.3.4"}]}), r#"spec.rules[0].host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address"#.into()),
        ("a wildcard", json!({"rules": [{"host": "*.example.com"}]}), String::new()),
        (
            "a wildcard within",
            json!({"rules": [{"host": "a.*.com"}]}),
            "spec.rules[0].host: Invalid value: \"a.*.com\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')".into(),
        ),
        ("no paths", json!({"rules": [{"http": {"paths": []}}]}), "spec.rules[0].http.paths: Required value".into()),
        ("no type of path", path(json!({"pathType": ""})), format!("{at}.pathType: Required value: pathType must be specified")),
        (
            "an unknown type of path",
            path(json!({"pathType": "Regex"})),
            format!(r#"{at}.pathType: Unsupported value: "Regex": supported values: "Exact", "ImplementationSpecific", "Prefix""#),
        ),
        ("a relative path", path(json!({"path": "a"})), bad_path("a", "must be an absolute path")),
        ("two slashes", path(json!({"path": "/a//b"})), bad_path("/a//b", "must not contain '//'")),
        ("a step to nowhere", path(json!({"path": "/a/./b"})), bad_path("/a/./b", "must not contain '/./'")),
        ("a step back", path(json!({"path": "/a/../b"})), bad_path("/a/../b", "must not contain '/../'")),
        ("a hidden slash", path(json!({"path": "/a%2fb"})), bad_path("/a%2fb", "must not contain '%2f'")),
        ("a hidden slash in capitals", path(json!({"path": "/a%2Fb"})), bad_path("/a%2Fb", "must not contain '%2F'")),
        ("back at the end", path(json!({"path": "/a/.."})), bad_path("/a/..", "cannot end with '/..'")),
        ("nowhere at the end", path(json!({"path": "/a/."})), bad_path("/a/.", "cannot end with '/.'")),
        ("what only the controller reads", path(json!({"pathType": "ImplementationSpecific", "path": "/a//.*"})), String::new()),
        ("hosts of TLS", json!({"tls": [{"hosts": ["1.2.3.4"]}]}), r#"spec.tls[0].hosts[0]: Invalid value: "1.2.3.4": must be a DNS name, not an IP address"#.into()),
    ] {
        assert_eq!(Write::create(GROUP, "multiclusteringresses", with_spec(&ingress(), &spec)).refusal(), want, "{name}");
    }
    for (name, spec, field) in [
        (
            "the secret of TLS",
            json!({"tls": [{"secretName": "A"}]}),
            "spec.tls[0].secretName: Invalid value: \"A\": a lowercase RFC 1123 subdomain",
        ),
        (
            "the class",
            json!({"ingressClassName": "A"}),
            "spec.ingressClassName: Invalid value: \"A\": a lowercase RFC 1123 subdomain",
        ),
    ] {
        let refusal = Write::create(GROUP, "multiclusteringresses", with_spec(&ingress(), &spec)).refusal();
        assert!(refusal.starts_with(field), "{name}: {refusal}");
    }
    let reported = |point: Value| with(&ingress(), &json!({"status": {"loadBalancer": {"ingress": [point]}}}));
    for (name, point, want) in [
        ("an address", json!({"ip": "1.2.3.4"}), ""),
        (
            "no address",
            json!({"ip": "a"}),
            r#"status.loadBalancer.ingress[0].ip: Invalid value: "a": must be a valid IP address"#,
        ),
        (
            "an address for a name",
            json!({"hostname": "1.2.3.4"}),
            r#"status.loadBalancer.ingress[0].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address"#,
        ),
    ] {
        let write = Write::update(GROUP, "multiclusteringresses", ingress(), reported(point.clone()));
        assert_eq!(write.refusal(), want, "{name}");
        assert_eq!(
            Write::create(GROUP, "multiclusteringresses", reported(point)).refusal(),
            "",
            "{name}, of a new one"
        );
    }
}

#[test]
fn service_rules() {
    let service = |spec: Value| {
        let base = json!({
            "apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
            "metadata": {"namespace": "shop", "name": "web"}, "spec": {"types": ["CrossCluster"]},
        });
        with_spec(&base, &spec)
    };
    let create = |object: Value| Write::create(GROUP, "multiclusterservices", object);
    assert_eq!(
        create(service(json!({}))).mutated()["metadata"]["labels"],
        json!({"multiclusterservice.karmada.io/permanent-id": ID})
    );
    let ports = |list: Value| json!({"ports": list});
    for (name, spec, want) in [
        ("a plain one", json!({}), String::new()),
        ("two ports", ports(json!([{"name": "a", "port": 1}, {"name": "b", "port": 65535}])), String::new()),
        ("a port's name", ports(json!([{"name": "a.b", "port": 1}])), r#"spec.ports[0].name: Invalid value: "a.b": must not contain dots"#.into()),
        ("a name twice", ports(json!([{"name": "a", "port": 1}, {"name": "a", "port": 2}])), r#"spec.ports[1].name: Duplicate value: "a""#.into()),
        ("port zero", ports(json!([{"port": 0}])), "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive".into()),
        ("an unknown type", json!({"types": ["Global"]}), r#"spec.types[0]: Invalid value: "Global": ExposureType Error: must be CrossCluster or LoadBalancer"#.into()),
        (
            "two types",
            json!({"types": ["CrossCluster", "LoadBalancer"]}),
            r#"spec.types: Invalid value: ["CrossCluster","LoadBalancer"]: MultiClusterService types should not contain more than one type"#.into(),
        ),
        ("a type twice", json!({"types": ["CrossCluster", "CrossCluster"]}), r#"spec.types[1]: Duplicate value: "CrossCluster""#.into()),
        ("a provider of no name", json!({"providerClusters": [{"name": "a.b"}]}), r#"spec.range.providerClusters[0]: Invalid value: "a.b": must not contain dots"#.into()),
        ("a consumer of no name", json!({"consumerClusters": [{"name": ""}]}), r#"spec.range.consumerClusters[0]: Invalid value: "": must be not empty"#.into()),
        (
            "a provider twice",
            json!({"providerClusters": [{"name": "m1"}, {"name": "m1"}]}),
            r#"spec.range.providerClusters[1]: Duplicate value: "m1""#.into(),
        ),
    ] {
        assert_eq!(create(service(spec)).refusal(), want, "{name}");
    }
    let named = with(&service(json!({})), &json!({"metadata": {"name": "1a"}}));
    assert!(create(named).refusal().starts_with("metadata.name: Invalid value: \"1a\": a DNS-1035 label"));
    let change =
        Write::update(GROUP, "multiclusterservices", service(json!({})), service(json!({"types": ["LoadBalancer"]})));
    assert_eq!(
        change.refusal(),
        r#"spec.types: Invalid value: ["LoadBalancer"]: MultiClusterService types are immutable"#
    );
    let mut named = create(service(json!({"providerClusters": [{"name": "m1"}]})));
    for need in named.with_request(|request| crate::needs(crate::table::Phase::Validating, request, &named.config)) {
        named.lookups.found.insert(need, vec![]);
    }
    assert_eq!(
        named.validated().warnings,
        ["spec.providerClusters[0].name names cluster \"m1\", which does not exist"]
    );
    let annotated = |value: &str| {
        let annotations =
            json!({"metadata": {"annotations": {"multiclusterservice.ironclad.io/unready-providers": value}}});
        create(with(&service(json!({})), &annotations))
    };
    assert_eq!(annotated("drop-after=5m").refusal(), "");
    assert!(annotated("sometimes").refusal().contains("none of keep, drop and drop-after=DURATION"));
    let reported = with(&service(json!({})), &json!({"status": {"loadBalancer": {"ingress": [{"ip": "x"}]}}}));
    let write = Write::update(GROUP, "multiclusterservices", service(json!({})), reported);
    assert_eq!(write.refusal(), r#"status.loadBalancer.ingress[0].ip: Invalid value: "x": must be a valid IP address"#);
}
