//! Names derived from other names (specification/api.md 16, specification/propagation.md 0.4). They are a wire
//! contract: members that Karmada populated are taken over by name. Names are never truncated: the API server refuses
//! a name that is too long.

use crate::{labels, namespaces};

/// Alphabet of [`safe_encode`]: without vowels and similar letters, so that it does not form words.
const SAFE_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// ServiceAccount, ClusterRole and ClusterRoleBinding by which a member impersonates callers.
pub const IMPERSONATOR: &str = "karmada-impersonator";

/// Group of all agents.
pub const AGENT_GROUP: &str = "system:karmada:agents";

/// A namespace that is not an execution namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "namespace {namespace:?} is not an execution namespace: it does not start with {}",
    namespaces::EXECUTION_PREFIX
)]
pub struct NotAnExecutionNamespace {
    /// The namespace.
    pub namespace: String,
}

/// FNV-1a, 32 bit.
pub fn fnv32a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Each character replaced by the alphabet's at its code modulo 27.
pub fn safe_encode(text: &str) -> String {
    text.chars().map(|c| char::from(SAFE_ALPHABET[c as usize % SAFE_ALPHABET.len()])).collect()
}

/// The hash in derived names: FNV-1a in decimal, encoded safely; 1 to 10 characters.
pub fn hash(text: &str) -> String {
    safe_encode(&fnv32a(text).to_string())
}

/// A name without `:`, which RBAC allows and other kinds do not.
fn plain(name: &str) -> String {
    name.replace(':', ".")
}

/// The execution namespace of a cluster.
pub fn execution_namespace(cluster: &str) -> String {
    format!("{}{cluster}", namespaces::EXECUTION_PREFIX)
}

/// The cluster of an execution namespace.
///
/// # Errors
/// If the namespace lacks the prefix.
pub fn cluster_of_execution_namespace(namespace: &str) -> Result<&str, NotAnExecutionNamespace> {
    namespace
        .strip_prefix(namespaces::EXECUTION_PREFIX)
        .ok_or_else(|| NotAnExecutionNamespace { namespace: namespace.to_owned() })
}

/// The plural of a kind as Kubernetes guesses it (`UnsafeGuessKindToResource`).
#[must_use]
pub fn guessed_plural(kind: &str) -> String {
    let singular = kind.to_lowercase();
    match singular.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if singular.ends_with('s') => format!("{singular}es"),
        None => format!("{singular}s"),
    }
}

/// The binding of a template, in the template's namespace.
pub fn binding_name(kind: &str, name: &str) -> String {
    format!("{}-{kind}", plain(name)).to_lowercase()
}

/// The Work of a template; an empty namespace stands for cluster-scoped templates.
pub fn work_name(kind: &str, namespace: &str, name: &str) -> String {
    let name = plain(name).to_lowercase();
    let key = if namespace.is_empty() { format!("{name}-{kind}") } else { format!("{namespace}-{name}-{kind}") };
    format!("{name}-{}", hash(&key.to_lowercase()))
}

/// The key of a binding in label names; an empty namespace stands for ClusterResourceBindings.
pub fn reference_key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { hash(name) } else { hash(&format!("{namespace}/{name}")) }
}

/// The label on an attached binding that names a binding which depends on it.
pub fn depended_by_label(namespace: &str, name: &str) -> String {
    format!("{}{}", labels::DEPENDED_BY_PREFIX, reference_key(namespace, name))
}

/// A kind as Go prints it: `group/version, Kind=Kind`, with an empty group for the core.
pub fn gvk_text(group: &str, version: &str, kind: &str) -> String {
    format!("{group}/{version}, Kind={kind}")
}

/// The policy that `promote` and `apply` make for a template; `gvk` as by [`gvk_text`], an empty namespace stands for
/// cluster-scoped templates.
pub fn policy_name(namespace: &str, name: &str, gvk: &str) -> String {
    format!("{}-{}", plain(name), hash(&format!("{namespace}{gvk}"))).to_lowercase()
}

/// The control plane's ServiceAccount in a member.
pub fn member_service_account(cluster: &str) -> String {
    format!("karmada-{cluster}")
}

/// ClusterRole and ClusterRoleBinding of a ServiceAccount in a member.
pub fn member_cluster_role(service_account: &str) -> String {
    format!("karmada-controller-manager:{service_account}")
}

/// The Secret with the impersonator's token of a cluster.
pub fn impersonation_secret(cluster: &str) -> String {
    format!("{cluster}-impersonator")
}

/// The user as whom a cluster's agent calls.
pub fn agent_user(cluster: &str) -> String {
    format!("system:karmada:agent:{cluster}")
}

/// The role of a cluster's agent.
pub fn agent_role(cluster: &str) -> String {
    format!("system:karmada:{cluster}:agent")
}

/// An EndpointSlice imported from a ServiceExport.
pub fn imported_endpoint_slice(cluster: &str, slice: &str) -> String {
    format!("imported-{cluster}-{slice}")
}

/// An EndpointSlice dispatched by a MultiClusterService.
pub fn dispatched_endpoint_slice(provider: &str, slice: &str) -> String {
    format!("{provider}-{slice}")
}

/// The Service derived from a ServiceImport.
pub fn derived_service(service: &str) -> String {
    format!("derived-{service}")
}

/// Service and Deployment of a cluster's estimator.
pub fn estimator(prefix: &str, cluster: &str) -> String {
    format!("{prefix}-{cluster}")
}

/// The affinity group of a label.
pub fn affinity_group(label_key: &str, label_value: &str) -> String {
    format!("{label_key}={label_value}")
}

/// ConfigMap in the namespace of the system that says where `ironclad run` serves the proxy to members.
pub const PROXY: &str = "ironclad-proxy";
/// Its key with the address, `https://HOST:PORT`.
pub const PROXY_ADDRESS: &str = "address";
/// Its key with the certificates to trust, PEM.
pub const PROXY_CA_BUNDLE: &str = "ca-bundle.crt";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_encode_digits_without_vowels() {
        for (digit, want) in "0123456789".chars().zip("456789bcdf".chars()) {
            assert_eq!(safe_encode(&digit.to_string()), want.to_string(), "{digit}");
        }
        assert_eq!(fnv32a(""), 0x811c_9dc5);
        assert_eq!(fnv32a("a"), 0xe40c_292c, "published test vector");
        assert_eq!(fnv32a("foobar"), 0xbf9c_f968, "published test vector");
    }

    #[test]
    fn names_of_bindings() {
        for (kind, name, want) in [
            ("Deployment", "nginx", "nginx-deployment"),
            ("ClusterRole", "system:foo", "system.foo-clusterrole"),
            ("ClusterRole", "system:x", "system.x-clusterrole"),
        ] {
            assert_eq!(binding_name(kind, name), want);
        }
    }

    #[test]
    fn names_of_works() {
        for (kind, namespace, name, want) in [
            ("Deployment", "default", "nginx", "nginx-687f7fb96f"),
            ("Deployment", "default", "nginx-karmada", "nginx-karmada-58d747f6b7"),
            ("ServiceAccount", "default", "default", "default-6487d7f75"),
            ("Namespace", "", "default", "default-5b5ccb595b"),
            ("Namespace", "", "demo", "demo-6654f4c4f6"),
            ("ClusterRole", "", "system:foo", "system.foo-5f7d88f69"),
            ("ClusterRole", "", "system:public-info-viewer", "system.public-info-viewer-5974478664"),
        ] {
            assert_eq!(work_name(kind, namespace, name), want, "{kind} {namespace}/{name}");
        }
    }

    #[test]
    fn reference_keys() {
        assert_eq!(reference_key("default", "nginx-deployment"), "5bdc5c4dcf");
        assert_eq!(reference_key("test", "test-rb"), "5d79ddfcb5");
        assert_eq!(reference_key("", "nginx"), hash("nginx"));
        assert_eq!(
            depended_by_label("default", "nginx-deployment"),
            "resourcebinding.karmada.io/depended-by-5bdc5c4dcf"
        );
    }

    #[test]
    fn execution_namespaces() {
        assert_eq!(execution_namespace("member1"), "karmada-es-member1");
        assert_eq!(cluster_of_execution_namespace("karmada-es-member1"), Ok("member1"));
        let error = cluster_of_execution_namespace("kube-system").unwrap_err();
        assert_eq!(
            error.to_string(),
            "namespace \"kube-system\" is not an execution namespace: it does not start with karmada-es-"
        );
    }

    #[test]
    fn names_of_generated_policies() {
        assert_eq!(policy_name("ns-foo", "foo", "rand"), "foo-b4978784");
        assert_eq!(gvk_text("apps", "v1", "Deployment"), "apps/v1, Kind=Deployment");
        assert_eq!(gvk_text("", "v1", "ConfigMap"), "/v1, Kind=ConfigMap");
    }

    #[test]
    fn names_in_members_and_of_services() {
        for (got, want) in [
            (member_service_account("m1"), "karmada-m1"),
            (member_cluster_role("karmada-m1"), "karmada-controller-manager:karmada-m1"),
            (impersonation_secret("m1"), "m1-impersonator"),
            (agent_user("m1"), "system:karmada:agent:m1"),
            (agent_role("m1"), "system:karmada:m1:agent"),
            (imported_endpoint_slice("m1", "web-x"), "imported-m1-web-x"),
            (dispatched_endpoint_slice("m1", "web-x"), "m1-web-x"),
            (derived_service("web"), "derived-web"),
            (estimator("karmada-scheduler-estimator", "m1"), "karmada-scheduler-estimator-m1"),
            (affinity_group("app.group", "frontend"), "app.group=frontend"),
        ] {
            assert_eq!(got, want);
        }
    }
}
