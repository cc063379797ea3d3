//! Flags that a leader reports, so that other processes decide as it does (specification/failover.md 14.3).

use ironclad_options::announced;
use serde::{Deserialize, Serialize};

use crate::{
    Flags,
    flags::{
        EvictionFlags, HealthFlags,
        eviction::{Check, Mode},
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ironclad_api::policy::PurgeMode;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn flags_of_a_leader_are_those_that_it_was_given() {
        let mut flags = Flags::default();
        flags.health.failure_threshold = Duration::from_millis(1_500);
        flags.health.status_update_frequency = Duration::from_secs(1);
        let eviction = &mut flags.eviction;
        (eviction.resource_eviction_rate, eviction.secondary_resource_eviction_rate) = (7.0, 0.25);
        (eviction.unhealthy_cluster_threshold, eviction.large_cluster_num_threshold) = (0.9, 3);
        (eviction.enable_no_execute_taint_eviction, eviction.eviction_capacity_check) = (false, true);
        eviction.no_execute_taint_eviction_purge_mode = PurgeMode::Directly;
        (eviction.pre_scheduling_check, eviction.failover_mode) = (Check::Strict, Mode::Observe);
        (eviction.halt_eviction_on_total_outage, eviction.max_evictions_per_episode) = (false, 9);
        eviction.mass_failure_hold = Duration::from_secs(5);
        let told = json!(EvictionSettings::from(&flags));
        let read = |told: Value| serde_json::from_value::<EvictionSettings>(told).unwrap();
        assert_eq!(read(told.clone()).flags(), flags);

        let mut older = told.clone();
        older.as_object_mut().unwrap().remove("flags");
        assert_eq!(read(older).flags().health, Flags::default().health, "a leader that tells no other flags");
        let mut negative = told;
        negative["flags"]["massFailureHoldSeconds"] = json!(-1.0);
        let negative = read(negative);
        assert_eq!(negative.flags().eviction.mass_failure_hold, Duration::ZERO);
    }

    /// The form that leaders and verbs of other versions read and write.
    #[test]
    fn flags_are_reported_under_their_names() {
        let flags = ReportedFlags::default();
        let text = r#"{"resourceEvictionRate":0.5,"secondaryResourceEvictionRate":0.1,"unhealthyClusterThreshold":0.55,"largeClusterNumThreshold":10,"enableNoExecuteTaintEviction":true,"noExecuteTaintEvictionPurgeMode":"Gracefully","evictionCapacityCheck":false,"haltEvictionOnTotalOutage":true,"massFailureHoldSeconds":60.0,"maxEvictionsPerEpisode":0,"clusterStatusUpdateFrequencySeconds":10.0,"clusterFailureThresholdSeconds":30.0,"clusterSuccessThresholdSeconds":30.0}"#;
        assert_eq!(json!(flags), serde_json::from_str::<Value>(text).unwrap());
        let read = |text: &str| serde_json::from_str::<ReportedFlags>(text);
        assert_eq!(read(text).unwrap(), flags);
        let newer = read(r#"{"maxEvictionsPerEpisode": 9, "clusterFailureThresholdSeconds": 1, "later": {}}"#).unwrap();
        assert_eq!(
            (newer.eviction.max_evictions_per_episode, newer.health.failure_threshold),
            (9, Duration::from_secs(1))
        );
        for wrong in [r#"{"maxEvictionsPerEpisode": -1}"#, r#"{"noExecuteTaintEvictionPurgeMode": "Later"}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
