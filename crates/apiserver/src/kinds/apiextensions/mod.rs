//! The kinds of apiextensions.k8s.io.

pub(in crate::kinds) mod custom_resource_definition;
