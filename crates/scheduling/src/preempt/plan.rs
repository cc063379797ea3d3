//! Plan of a preemption, and the mode and the limits under which it is made.

use ironclad_api::work::TargetCluster;
use ironclad_fleet::{BindingKey, ClusterName};
use ironclad_options::flag;
use ironclad_patch::FieldError;
use serde_json::json;

/// Gate `PriorityBasedPreemptiveScheduling` with flag `--preemption-mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// No binding preempts.
    Off,
    /// Conditions, events and metrics show what would be preempted; nothing is.
    Observe,
    /// Victims are evicted.
    Evict,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Evict, Self::Observe, Self::Off];

    /// Spelling in the flag.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Observe => "observe",
            Self::Evict => "evict",
        }
    }

    /// Parses the value of `--preemption-mode`; earlier leaders tell it with a capital letter.
    ///
    /// # Errors
    /// Any other value, with the supported ones.
    pub fn parse(value: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mode| mode.as_str().eq_ignore_ascii_case(value));
        let names = Self::ALL.map(Self::as_str);
        found.ok_or_else(|| FieldError::not_supported(flag("preemption_mode"), &json!(value), &names).to_string())
    }
}

/// Limits of preemption, to bound what a wrong priority can do (specification/scheduling.md 15.7, step 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// `--preemption-max-victims`: victims of one attempt.
    pub victims: usize,
    /// `--preemption-max-evictions-per-minute`: victims of all attempts within a minute.
    pub evictions_per_minute: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { victims: 16, evictions_per_minute: 60 }
    }
}

/// A victim on one cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Victim {
    pub key: BindingKey,
    /// The cluster that it leaves.
    pub cluster: ClusterName,
    pub priority: i32,
    /// Its replicas there; 0 for a component set.
    pub replicas: i32,
}

/// Victims, and the capacity that is held for the preemptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// In the order in which they are evicted: the lowest priority first.
    pub victims: Vec<Victim>,
    /// Replicas by cluster, by name.
    pub nominated: Vec<TargetCluster>,
}

impl Plan {
    /// Number of distinct bindings that are evicted.
    #[must_use]
    pub fn bindings(&self) -> usize {
        let mut keys: Vec<&BindingKey> = self.victims.iter().map(|victim| &victim.key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.len()
    }

    /// The clusters that victims leave, by name.
    #[must_use]
    pub fn clusters(&self) -> Vec<&ClusterName> {
        let mut clusters: Vec<&ClusterName> = self.victims.iter().map(|victim| &victim.cluster).collect();
        clusters.sort_unstable();
        clusters.dedup();
        clusters
    }
}
