//! The kinds of storage.k8s.io.

pub(in crate::kinds) mod csi_driver;
pub(in crate::kinds) mod storage_class;
