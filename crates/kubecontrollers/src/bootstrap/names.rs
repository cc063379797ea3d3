//! Names of bootstrap tokens and of the ConfigMap that they sign.

/// Namespace of the Secrets of bootstrap tokens.
pub(crate) const TOKEN_NAMESPACE: &str = "kube-system";
/// Type of these Secrets.
pub(crate) const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
/// Namespace of the ConfigMap [`CLUSTER_INFO`].
pub(crate) const INFO_NAMESPACE: &str = "kube-public";
/// Name of the ConfigMap with the address and the certificate of the cluster.
pub(crate) const CLUSTER_INFO: &str = "cluster-info";
