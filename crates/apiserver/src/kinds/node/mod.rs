//! The kinds of node.k8s.io.

pub(in crate::kinds) mod runtime_class;
