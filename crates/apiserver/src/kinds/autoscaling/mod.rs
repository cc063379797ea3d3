//! The kinds of autoscaling.

pub(in crate::kinds) mod horizontal_pod_autoscaler;
