//! Limits of agents (specification/admission.md 7.1).

use serde_json::{Value, json};

use super::{Write, with, with_spec};

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
fn the_user_that_makes_rights_is_no_agent() {
    let write = Write::create("", "secrets", object(SECRETS, "default", "s"));
    for user in ["system:karmada:agent:rbac-generator", "system:karmada:agent:", "system:karmada:agents", "alice"] {
        assert_eq!(Write { user, ..write.clone() }.refusal(), "", "{user}");
    }
}
