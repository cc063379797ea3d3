//! The kinds of networking.k8s.io.

pub(in crate::kinds) mod ingress;
pub(in crate::kinds) mod ingress_class;
pub(in crate::kinds) mod network_policy;
