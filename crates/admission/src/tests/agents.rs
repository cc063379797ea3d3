//! Limits of agents (specification/admission.md 7.1).

use ironclad_api::agents::agent_rights;
use serde_json::{Value, json};

use super::{Write, with, with_spec};
use crate::agents::testkit::{agent, request};

const AGENT: &str = "system:karmada:agent:m1";
const CLUSTERS: (&str, &str, &str) = ("cluster.karmada.io", "clusters", "Cluster");
const LEASES: (&str, &str, &str) = ("coordination.k8s.io", "leases", "Lease");
const SECRETS: (&str, &str, &str) = ("", "secrets", "Secret");
const WORKS: (&str, &str, &str) = ("work.karmada.io", "works", "Work");

fn object((_, _, kind): (&str, &str, &str), namespace: &str, name: &str) -> Value {
    let metadata = match namespace {
        "" => json!({"name": name}),
        namespace => json!({"namespace": namespace, "name": name}),
    };
    json!({"kind": kind, "metadata": metadata, "spec": {}})
}

fn cluster(name: &str) -> Value {
    with_spec(&object(CLUSTERS, "", name), &json!({"syncMode": "Pull", "apiEndpoint": "https://10.0.0.1:6443"}))
}

fn writes(of: (&'static str, &'static str, &'static str), object: &Value) -> [Write; 3] {
    let (group, resource, _) = of;
    [
        Write::create(group, resource, object.clone()),
        Write::update(group, resource, object.clone(), object.clone()),
        Write::delete(group, resource, object.clone()),
    ]
}

#[test]
fn agents_write_only_what_is_their_own() {
    let is_refused = |write: &Write| write.validated().denial.is_some_and(|denial| denial.webhook.starts_with("agent"));
    for (kind, namespace, name, may) in [
        (CLUSTERS, "", "m1", true),
        (CLUSTERS, "", "m2", false),
        (CLUSTERS, "", "", false),
        (LEASES, "karmada-cluster", "m1", true),
        (LEASES, "karmada-cluster", "m2", false),
        (LEASES, "kube-system", "m1", false),
        (LEASES, "karmada-system", "karmada-agent-m1", true),
        (LEASES, "karmada-cluster", "karmada-agent-m1", true),
        (LEASES, "karmada-system", "karmada-agent-m2", false),
        (LEASES, "karmada-system", "ironclad", false),
        (SECRETS, "karmada-cluster", "m1", true),
        (SECRETS, "karmada-cluster", "m1-impersonator", true),
        (SECRETS, "karmada-cluster", "m2", false),
        (SECRETS, "default", "m1", false),
        (WORKS, "karmada-es-m1", "any", true),
        (WORKS, "karmada-es-m10", "any", false),
        (WORKS, "default", "any", false),
    ] {
        let object = if kind == CLUSTERS { cluster(name) } else { object(kind, namespace, name) };
        for write in writes(kind, &object) {
            let what = format!("{:?} {} {namespace}/{name}", write.operation, kind.2);
            assert_eq!(is_refused(&Write { user: AGENT, ..write.clone() }), !may, "{what}");
            assert!(is_refused(&Write { user: "system:karmada:agent:other", ..write.clone() }), "{what} of another");
            assert!(!is_refused(&Write { user: "alice", ..write }), "{what} of a person");
        }
    }
}

#[test]
fn refusals_name_user_object_and_what_is_allowed() {
    for (kind, namespace, name, may) in [
        (CLUSTERS, "", "m2", "Cluster m2: an agent writes only the Cluster of its own name, m1"),
        (
            LEASES,
            "kube-system",
            "l",
            "Lease kube-system/l: an agent writes only Lease karmada-cluster/m1, and Leases karmada-agent-m1 of any namespace",
        ),
        (
            SECRETS,
            "kube-system",
            "s",
            "Secret kube-system/s: an agent writes only Secrets m1 and m1-impersonator in karmada-cluster",
        ),
        (WORKS, "karmada-es-m2", "w", "Work karmada-es-m2/w: an agent writes only Works in karmada-es-m1"),
    ] {
        for (write, verb) in
            writes(kind, &object(kind, namespace, name)).into_iter().zip(["create", "update", "delete"])
        {
            let denial = Write { user: AGENT, ..write }.validated().denial.unwrap();
            assert_eq!((denial.code, denial.reason), (403, "Forbidden"));
            assert_eq!(denial.message, format!("user \"system:karmada:agent:m1\" may not {verb} {may}"));
        }
    }
}

#[test]
fn fields_that_agents_do_not_choose() {
    let (group, resource, _) = CLUSTERS;
    let own = cluster("m1");
    let taint = json!({"taints": [{"key": "k", "effect": "NoSchedule"}]});
    let secret = |namespace: &str, name: &str| json!({"secretRef": {"namespace": namespace, "name": name}});
    let impersonator = |name: &str| json!({"impersonatorSecretRef": {"namespace": "karmada-cluster", "name": name}});
    let stolen = with_spec(&own, &secret("karmada-cluster", "m2"));
    for (name, old, new, want) in [
        ("as register makes it", None, own.clone(), ""),
        ("mode Push", None, with_spec(&own, &json!({"syncMode": "Push"})), "spec.syncMode must be Pull"),
        ("no mode", None, with_spec(&own, &json!({"syncMode": null})), "spec.syncMode must be Pull"),
        (
            "from Push to Pull",
            Some(with_spec(&own, &json!({"syncMode": "Push"}))),
            own.clone(),
            "spec.syncMode must be Pull",
        ),
        (
            "from Pull to Push",
            Some(own.clone()),
            with_spec(&own, &json!({"syncMode": "Push"})),
            "spec.syncMode must be Pull",
        ),
        ("its own Secret", None, with_spec(&own, &secret("karmada-cluster", "m1")), ""),
        ("its own impersonator", None, with_spec(&own, &impersonator("m1-impersonator")), ""),
        ("the Secret of another", None, stolen.clone(), "spec.secretRef may name only Secret karmada-cluster/m1"),
        ("of another namespace", None, with_spec(&own, &secret("a", "m1")), "spec.secretRef may name only"),
        ("half a reference", None, with_spec(&own, &json!({"secretRef": {}})), "spec.secretRef may name only"),
        (
            "another impersonator",
            None,
            with_spec(&own, &impersonator("m2-impersonator")),
            "spec.impersonatorSecretRef may name only Secret karmada-cluster/m1-impersonator",
        ),
        ("its region", Some(own.clone()), with_spec(&own, &json!({"region": "r"})), ""),
        ("a new taint", Some(own.clone()), with_spec(&own, &taint), "an agent leaves spec.taints as they are"),
        ("without a taint", Some(with_spec(&own, &taint)), own.clone(), "an agent leaves spec.taints as they are"),
        ("the same taints", Some(with_spec(&own, &taint)), with(&with_spec(&own, &taint), &json!({"a": 1})), ""),
        ("an empty list of taints", Some(own.clone()), with_spec(&own, &json!({"taints": []})), ""),
        ("the Secret of another, later", Some(own.clone()), stolen.clone(), "spec.secretRef may name only"),
        ("a reference that others set", Some(stolen.clone()), stolen, ""),
    ] {
        let write = match old {
            None => Write::create(group, resource, new),
            Some(old) => Write::update(group, resource, old, new),
        };
        let refusal = Write { user: AGENT, ..write }.validated().denial;
        let refusal = refusal.filter(|denial| denial.webhook == "agentcluster.karmada.io");
        let message = refusal.map(|denial| denial.message).unwrap_or_default();
        let detail = message.split_once("Cluster m1: ").map_or("", |(_, detail)| detail);
        assert!(detail.starts_with(want) && want.is_empty() == detail.is_empty(), "{name}: {message}");
    }
    let token =
        with(&object(SECRETS, "karmada-cluster", "m1"), &json!({"type": "kubernetes.io/service-account-token"}));
    let write = Write { user: AGENT, ..Write::create("", "secrets", token) };
    assert!(write.refusal().contains("its type must not be"), "{}", write.refusal());
}

#[test]
fn others_are_no_agents() {
    let write = Write::create("", "secrets", object(SECRETS, "default", "s"));
    for user in ["system:karmada:agent:", "system:karmada:agents", "alice"] {
        assert_eq!(Write { user, ..write.clone() }.refusal(), "", "{user}");
    }
}

const REGISTRAR: &str = "system:karmada:agent:rbac-generator";
const RBAC: &str = "rbac.authorization.k8s.io";

fn plural(kind: &str) -> &'static str {
    match kind {
        "ClusterRole" => "clusterroles",
        "ClusterRoleBinding" => "clusterrolebindings",
        "Role" => "roles",
        _ => "rolebindings",
    }
}

/// The answer to a create of a role or binding by karmadactl.
fn made(kind: &'static str, namespace: &str, name: &str) -> (u16, &'static str, String) {
    let right = object((RBAC, plural(kind), kind), namespace, name);
    let write = Write { user: REGISTRAR, ..Write::create(RBAC, plural(kind), right) };
    let denial = write.with_request(|request| crate::mutate(request, &write.lookups, &write.config)).unwrap_err();
    assert_eq!(denial.webhook, "agentrights.karmada.io");
    (denial.code, denial.reason, denial.message)
}

#[test]
fn karmadactl_makes_no_rights() {
    for right in agent_rights("m1") {
        let text = |pointer: &str| right.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let kind = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
        let kind = kind.into_iter().find(|kind| *kind == text("/kind")).unwrap();
        let (code, reason, message) = made(kind, text("/metadata/namespace"), text("/metadata/name"));
        assert_eq!((code, reason), (409, "AlreadyExists"), "{message}");
        assert!(message.ends_with("the control plane makes the rights of agents itself"), "{message}");
    }
    for (kind, namespace, name) in [
        ("ClusterRoleBinding", "", "cluster-admin"),
        ("ClusterRole", "", "system:karmada:rbac-generator:agent"),
        ("ClusterRole", "", "system:karmada:A_1:agent"),
        ("ClusterRole", "", "system:karmada:m1:agent-secret"),
        ("Role", "kube-system", "system:karmada:m1:agent-secret"),
        ("Role", "karmada-es-m2", "system:karmada:m1:agent-work"),
        ("Role", "karmada-es-m1", "system:karmada:m1:agent"),
    ] {
        let (code, reason, message) = made(kind, namespace, name);
        assert_eq!((code, reason), (403, "Forbidden"), "{message}");
        assert!(message.contains("karmadactl names only rights of an agent"), "{message}");
    }
    let right = object((RBAC, "clusterroles", "ClusterRole"), "", "system:karmada:m1:agent");
    for user in [AGENT, "alice"] {
        let write = Write { user, ..Write::create(RBAC, "clusterroles", right.clone()) };
        assert_eq!(write.mutated(), right, "{user}");
    }
}

#[test]
fn karmadactl_writes_only_namespaces_of_agents() {
    let namespace = |name: &str, metadata: Value| {
        let kind = ("", "namespaces", "Namespace");
        let label = json!({"metadata": {"labels": {"karmada.io/system": "true"}}});
        with(&with(&object(kind, "", name), &label), &json!({ "metadata": metadata }))
    };
    let csr = |name: &str| {
        let mut request = serde_json::to_value(request(&agent(name))).unwrap();
        request["kind"] = "CertificateSigningRequest".into();
        Write::delete("certificates.k8s.io", "certificatesigningrequests", request)
    };
    let create = |name: &str, metadata: Value| Write::create("", "namespaces", namespace(name, metadata));
    let named = json!({"labels": {"kubernetes.io/metadata.name": "karmada-es-m1"}});
    let [_, update, delete] = writes(("", "namespaces", "Namespace"), &namespace("karmada-es-m1", json!({})));
    let right = object((RBAC, "roles", "Role"), "karmada-es-m1", "system:karmada:m1:agent-work");
    for (name, write, may) in [
        ("that of all clusters", create("karmada-cluster", json!({})), true),
        ("that of a cluster", create("karmada-es-m1", json!({})), true),
        ("as an API server completes it", create("karmada-es-m1", named), true),
        ("without label", create("karmada-es-m1", json!({"labels": null})), false),
        ("another label", create("karmada-es-m1", json!({"labels": {"a": "b"}})), false),
        ("an annotation", create("karmada-es-m1", json!({"annotations": {"a": "b"}})), false),
        ("an owner", create("karmada-es-m1", json!({"ownerReferences": [{"name": "x"}]})), false),
        ("a reserved name", create("karmada-es-rbac-generator", json!({})), false),
        ("a name that is none of clusters", create("karmada-es-a.b", json!({})), false),
        ("any namespace", create("shop", json!({})), false),
        ("a name that is drawn", create("", json!({"generateName": "karmada-es-"})), false),
        ("a change", update, false),
        ("a deletion", delete, false),
        ("its own request", csr("rbac-generator"), true),
        ("the request of an agent", csr("m1"), false),
        ("a deletion of rights", Write::delete(RBAC, "roles", right.clone()), false),
        ("a change of rights", Write::update(RBAC, "roles", right.clone(), right), false),
        ("a Cluster", Write::create("cluster.karmada.io", "clusters", cluster("rbac-generator")), false),
        ("a Secret", Write::create("", "secrets", object(SECRETS, "karmada-cluster", "rbac-generator")), false),
        ("a Deployment", Write::create("apps", "deployments", object(("", "", "Deployment"), "default", "d")), false),
    ] {
        let denial = Write { user: REGISTRAR, ..write }.validated().denial;
        let by = denial.as_ref().map(|denial| denial.webhook);
        assert_eq!(by, (!may).then_some("agentregistrar.karmada.io"), "{name}: {denial:?}");
    }
}

#[test]
fn karmadactl_gets_no_long_certificate() {
    let asked = |name: &str, seconds: Value, user: &'static str| {
        let mut request = serde_json::to_value(request(&agent(name))).unwrap();
        request["spec"]["expirationSeconds"] = seconds;
        let write = Write::create("certificates.k8s.io", "certificatesigningrequests", request);
        Write { user, ..write }.mutated()["spec"]["expirationSeconds"].clone()
    };
    let token = "system:bootstrap:abcdef";
    for (name, cluster, seconds, user, want) in [
        ("a year", "rbac-generator", json!(31_536_000), token, json!(600)),
        ("a second longer", "rbac-generator", json!(601), token, json!(600)),
        ("as long as the signer likes", "rbac-generator", Value::Null, token, json!(600)),
        ("short", "rbac-generator", json!(600), token, json!(600)),
        ("too short, which an API server refuses", "rbac-generator", json!(10), token, json!(10)),
        ("an agent", "m1", json!(31_536_000), token, json!(31_536_000)),
        ("of another user", "rbac-generator", json!(601), "alice", json!(601)),
    ] {
        assert_eq!(asked(cluster, seconds, user), want, "{name}");
    }
}

#[test]
fn a_cluster_with_the_name_of_karmadactls_user_has_no_agent() {
    let (group, resource, _) = CLUSTERS;
    let refusal = Write::create(group, resource, cluster("rbac-generator")).refusal();
    assert!(refusal.starts_with("metadata.name: Invalid value: \"rbac-generator\""), "{refusal}");
    let push = with_spec(&cluster("rbac-generator"), &json!({"syncMode": "Push"}));
    assert_eq!(Write::create(group, resource, push).refusal(), "");
}

#[test]
fn agents_tell_only_of_what_may_be_theirs() {
    let about = |field: &str, kind: &str, namespace: &str, name: &str| {
        let mut event = json!({"kind": "Event", "metadata": {"namespace": "default", "name": "e"}});
        event[field] = json!({"kind": kind, "namespace": namespace, "name": name});
        event
    };
    for (kind, namespace, name, may) in [
        ("Cluster", "", "m1", true),
        ("Cluster", "", "m2", false),
        ("Work", "karmada-es-m1", "w", true),
        ("Work", "karmada-es-m2", "w", false),
        ("Deployment", "shop", "web", true),
        ("ClusterRole", "", "reader", true),
        ("Secret", "karmada-cluster", "m2", false),
        ("Lease", "karmada-cluster", "m1", true),
        ("Lease", "karmada-system", "karmada-agent-m1", true),
        ("Lease", "karmada-system", "ironclad", false),
        ("Pod", "kube-system", "dns", false),
    ] {
        for (group, field) in [("", "involvedObject"), ("events.k8s.io", "regarding")] {
            let (own, event) = (about(field, "Cluster", "", "m1"), about(field, kind, namespace, name));
            for write in [
                Write::create(group, "events", event.clone()),
                Write::update(group, "events", own.clone(), event.clone()),
                Write::update(group, "events", event.clone(), own.clone()),
            ] {
                let of_agent = Write { user: AGENT, ..write.clone() }.validated().denial;
                let what = format!("{group} {:?} about {kind} {namespace}/{name}: {of_agent:?}", write.operation);
                assert_eq!(of_agent.is_none(), may, "{what}");
                assert!(write.validated().denial.is_none(), "a person: {what}");
            }
        }
    }
}

#[test]
fn agents_ask_only_for_certificates_of_their_own() {
    let (group, resource) = ("certificates.k8s.io", "certificatesigningrequests");
    let mut administrator = agent("m1");
    administrator.organizations = vec!["system:masters"];
    for (name, subject, may) in [
        ("its own", agent("m1"), true),
        ("of another", agent("m2"), false),
        ("an administrator's", administrator, false),
    ] {
        let mut object = serde_json::to_value(request(&subject)).unwrap();
        object["metadata"]["name"] = "r".into();
        let refusal = Write { user: AGENT, ..Write::create(group, resource, object.clone()) }.refusal();
        assert_eq!(refusal.is_empty(), may, "{name}: {refusal}");
        assert_eq!(Write { user: "alice", ..Write::create(group, resource, object) }.refusal(), "", "{name}");
    }
}
