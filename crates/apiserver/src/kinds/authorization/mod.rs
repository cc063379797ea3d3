//! The kinds of authorization.k8s.io.

mod access;
pub(in crate::kinds) mod self_subject_access_review;
pub(in crate::kinds) mod self_subject_rules_review;
pub(in crate::kinds) mod subject_access_review;
