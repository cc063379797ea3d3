//! Flags that a leader reports, so that other processes decide as it does (specification/failover.md 14.3).

use serde::{Deserialize, Serialize};

use crate::{
    Flags,
    flags::{
        EvictionFlags, HealthFlags,
        eviction::{Check, Mode},
        table::announced,
    },
};

/// Flags that decide what is evicted, when and how fast. What a leader does not report has its default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedFlags {
    /// Those of the eviction queue that are announced.
    #[serde(flatten, with = "announced")]
    pub eviction: EvictionFlags,
    /// Those of cluster health that are announced.
    #[serde(flatten, with = "announced")]
    pub health: HealthFlags,
}

impl From<&Flags> for ReportedFlags {
    fn from(flags: &Flags) -> Self {
        Self { eviction: announced::of(&flags.eviction), health: announced::of(&flags.health) }
    }
}

/// Flags of a leader about evictions, known without a report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EvictionSettings {
    /// `--pre-scheduling-check`.
    pub check: Check,
    /// `--failover-mode`.
    pub mode: Mode,
    /// The other flags.
    pub flags: ReportedFlags,
}

impl From<&Flags> for EvictionSettings {
    fn from(flags: &Flags) -> Self {
        let (check, mode) = (flags.eviction.pre_scheduling_check, flags.eviction.failover_mode);
        Self { check, mode, flags: ReportedFlags::from(flags) }
    }
}

impl EvictionSettings {
    /// Flags with these values; the others are the defaults.
    #[must_use]
    pub fn flags(&self) -> Flags {
        let ReportedFlags { eviction, health } = self.flags.clone();
        let eviction = EvictionFlags { pre_scheduling_check: self.check, failover_mode: self.mode, ..eviction };
        Flags { eviction, health, ..Flags::default() }
    }
}
