//! The rules, a file for each kind.

pub(crate) mod affinity;
pub(crate) mod binding;
pub(crate) mod charge;
pub(crate) mod failover;
pub(crate) mod lens;
pub(crate) mod overrides;
pub(crate) mod placement;
pub(crate) mod priority;
pub(crate) mod propagation;
pub(crate) mod protection;
pub(crate) mod work;
