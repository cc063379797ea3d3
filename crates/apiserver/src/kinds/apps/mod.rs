//! The kinds of apps.

pub(in crate::kinds) mod controller_revision;
pub(in crate::kinds) mod daemon_set;
pub(in crate::kinds) mod deployment;
pub(in crate::kinds) mod replica_set;
pub(in crate::kinds) mod stateful_set;
