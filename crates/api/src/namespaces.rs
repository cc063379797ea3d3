//! Namespaces and objects with fixed names (specification/api.md 12.6).

/// Components of the control plane; reserved.
pub const SYSTEM: &str = "karmada-system";
/// Cluster Leases and credential Secrets; reserved.
pub const CLUSTER: &str = "karmada-cluster";
/// Prefix of execution namespaces; reserved.
pub const EXECUTION_PREFIX: &str = "karmada-es-";
/// Kubernetes' own system namespace.
pub const KUBE_SYSTEM: &str = "kube-system";
/// The namespace that is not synced to members.
pub const DEFAULT: &str = "default";
/// ConfigMap of [`KUBE_SYSTEM`] that is never propagated.
pub const EXTENSION_APISERVER_AUTHENTICATION: &str = "extension-apiserver-authentication";

/// Key of a credential Secret: the token.
pub const SECRET_TOKEN: &str = "token";
/// Key of a credential Secret: the certificates of the member's authority.
pub const SECRET_CA_BUNDLE: &str = "caBundle";

/// Returns true if ClusterPropagationPolicies never propagate templates of this namespace (specification/api.md 16).
pub fn is_reserved(namespace: &str) -> bool {
    namespace == SYSTEM || namespace == CLUSTER || namespace.starts_with(EXECUTION_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::is_reserved;

    #[test]
    fn reserved_namespaces() {
        for (namespace, want) in [
            ("karmada-system", true),
            ("karmada-cluster", true),
            ("karmada-es-member1", true),
            ("karmada-es-", true),
            ("karmada-es", false),
            ("karmada-systems", false),
            ("kube-system", false),
            ("default", false),
            ("", false),
        ] {
            assert_eq!(is_reserved(namespace), want, "{namespace:?}");
        }
    }
}
