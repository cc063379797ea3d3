//! Parts of the objects that scripts create and the checker reads.

/// Ending of the names of ConfigMaps that workloads mount.
pub(in crate::sim) const CONFIG_SUFFIX: &str = "-config";

/// Value and `preemptionPolicy` of a PriorityClass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    pub value: i32,
    /// `preemptionPolicy: Never`.
    pub never: bool,
}
