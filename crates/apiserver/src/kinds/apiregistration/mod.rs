//! The kinds of apiregistration.k8s.io.

pub(in crate::kinds) mod api_service;
