//! Flags that a leader reports, so that other processes decide as it does (specification/failover.md 14.3).

use std::time::Duration;

use ironclad_api::policy::PurgeMode;
use serde::{Deserialize, Serialize};

use crate::{
    Flags,
    flags::eviction::{Check, Mode},
};

/// Flags that decide what is evicted, when and how fast. What a leader does not report has its default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedFlags {
    /// `--resource-eviction-rate`.
    pub resource_eviction_rate: f64,
    /// `--secondary-resource-eviction-rate`.
    pub secondary_resource_eviction_rate: f64,
    /// `--unhealthy-cluster-threshold`.
    pub unhealthy_cluster_threshold: f64,
    /// `--large-cluster-num-threshold`.
    pub large_cluster_num_threshold: i32,
    /// `--enable-no-execute-taint-eviction`.
    pub enable_no_execute_taint_eviction: bool,
    /// `--no-execute-taint-eviction-purge-mode`.
    pub no_execute_taint_eviction_purge_mode: PurgeMode,
    /// `--eviction-capacity-check`.
    pub eviction_capacity_check: bool,
    /// `--halt-eviction-on-total-outage`.
    pub halt_eviction_on_total_outage: bool,
    /// `--mass-failure-hold`, seconds.
    pub mass_failure_hold_seconds: f64,
    /// `--max-evictions-per-episode`.
    pub max_evictions_per_episode: u32,
    /// `--cluster-status-update-frequency`, seconds.
    pub cluster_status_update_frequency_seconds: f64,
    /// `--cluster-failure-threshold`, seconds.
    pub cluster_failure_threshold_seconds: f64,
    /// `--cluster-success-threshold`, seconds.
    pub cluster_success_threshold_seconds: f64,
}

impl From<&Flags> for ReportedFlags {
    fn from(flags: &Flags) -> Self {
        let (health, eviction) = (&flags.health, &flags.eviction);
        Self {
            resource_eviction_rate: eviction.resource_eviction_rate,
            secondary_resource_eviction_rate: eviction.secondary_resource_eviction_rate,
            unhealthy_cluster_threshold: eviction.unhealthy_cluster_threshold,
            large_cluster_num_threshold: eviction.large_cluster_num_threshold,
            enable_no_execute_taint_eviction: eviction.enable_no_execute_taint_eviction,
            no_execute_taint_eviction_purge_mode: eviction.no_execute_taint_eviction_purge_mode,
            eviction_capacity_check: eviction.capacity_check,
            halt_eviction_on_total_outage: eviction.halt_eviction_on_total_outage,
            mass_failure_hold_seconds: eviction.mass_failure_hold.as_secs_f64(),
            max_evictions_per_episode: eviction.max_evictions_per_episode,
            cluster_status_update_frequency_seconds: health.status_update_frequency.as_secs_f64(),
            cluster_failure_threshold_seconds: health.thresholds.failure.as_secs_f64(),
            cluster_success_threshold_seconds: health.thresholds.success.as_secs_f64(),
        }
    }
}

impl Default for ReportedFlags {
    fn default() -> Self {
        Self::from(&Flags::default())
    }
}

/// Flags of a leader about evictions, known without a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

impl Default for EvictionSettings {
    fn default() -> Self {
        Self::from(&Flags::default())
    }
}

impl EvictionSettings {
    /// Flags with these values; the others are the defaults.
    #[must_use]
    pub fn flags(&self) -> Flags {
        let mut flags = self.flags.flags();
        flags.eviction.pre_scheduling_check = self.check;
        flags.eviction.failover_mode = self.mode;
        flags
    }
}

impl ReportedFlags {
    /// Flags with these values; the others are the defaults.
    #[must_use]
    fn flags(&self) -> Flags {
        // A report is read from the control plane: a value that is no duration is taken for none.
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let mut flags = Flags::default();
        let health = &mut flags.health;
        health.status_update_frequency = seconds(self.cluster_status_update_frequency_seconds);
        health.thresholds.failure = seconds(self.cluster_failure_threshold_seconds);
        health.thresholds.success = seconds(self.cluster_success_threshold_seconds);
        let eviction = &mut flags.eviction;
        eviction.resource_eviction_rate = self.resource_eviction_rate;
        eviction.secondary_resource_eviction_rate = self.secondary_resource_eviction_rate;
        eviction.unhealthy_cluster_threshold = self.unhealthy_cluster_threshold;
        eviction.large_cluster_num_threshold = self.large_cluster_num_threshold;
        eviction.enable_no_execute_taint_eviction = self.enable_no_execute_taint_eviction;
        eviction.no_execute_taint_eviction_purge_mode = self.no_execute_taint_eviction_purge_mode;
        eviction.capacity_check = self.eviction_capacity_check;
        eviction.halt_eviction_on_total_outage = self.halt_eviction_on_total_outage;
        eviction.mass_failure_hold = seconds(self.mass_failure_hold_seconds);
        eviction.max_evictions_per_episode = self.max_evictions_per_episode;
        flags
    }
}
