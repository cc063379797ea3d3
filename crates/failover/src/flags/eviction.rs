//! The flags of the eviction queue (specification/failover.md 6.10, 14.2, 14.3) and what is wrong with values of
//! theirs.

use std::time::Duration;

use ironclad_api::policy::PurgeMode;
use ironclad_options::{Rule, Table as _, Value, flag, in_words, options, typed};
use ironclad_patch::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::json;

options! {
/// Flags of the eviction queue as given; [`EvictionFlags::errors`] validates them.
#[derive(Debug, Clone, PartialEq)]
pub struct EvictionFlags under "Cluster failover" {
    /// Evictions per second while most clusters are healthy
    resource_eviction_rate: f64 = 0.5 => "RATE", rule: Some(Rule::NotNegative), announced: true;
    /// Evictions per second in a large fleet with too many unhealthy clusters; in a small one there are none then
    secondary_resource_eviction_rate: f64 = 0.1 => "RATE", rule: Some(Rule::NotNegative), announced: true;
    /// The share of unhealthy clusters that is too many when it is exceeded
    unhealthy_cluster_threshold: f64 = 0.55 => "SHARE", rule: Some(Rule::Share), announced: true,
        planned: Some((1, "Share of unhealthy clusters beyond which evictions are slowed or halted"));
    /// A fleet of more clusters than this is large
    large_cluster_num_threshold: i32 = 10 => "NUMBER", rule: Some(Rule::NotNegative), announced: true,
        planned: Some((2, "Number of clusters beyond which a fleet is large"));
    /// Evict from clusters with NoExecute taints
    enable_no_execute_taint_eviction: bool = true => "BOOL", announced: true,
        planned: Some((6, "true or false: NoExecute taints evict"));
    /// Purge mode of evictions from clusters with NoExecute taints whose policy has none: Gracefully or Directly
    no_execute_taint_eviction_purge_mode: PurgeMode = PurgeMode::Gracefully => "MODE", announced: true,
        planned: Some((7, "Gracefully or Directly: purge mode of what NoExecute taints evict"));
    /// Check that an evicted workload can be scheduled elsewhere: strict, relaxed or off
    pre_scheduling_check: Check = Check::Relaxed => "MODE";
    /// Do not evict workloads for which the other clusters lack available replicas; evictions with purge mode Directly
    /// from ready clusters always ask
    eviction_capacity_check: bool = false => "BOOL", announced: true,
        planned: Some((5, "true or false: evict only what other clusters have room for, also gracefully"));
    /// Concurrent writes of evictions; does not raise the rate
    concurrent_binding_eviction_syncs: u32 = 5 => "NUMBER", rule: Some(Rule::Positive);
    /// Evict nothing while no cluster is healthy
    halt_eviction_on_total_outage: bool = true => "BOOL", announced: true;
    /// Time without evictions after half of the clusters failed within a minute; 0 is off
    mass_failure_hold: Duration = Duration::from_secs(60) => "DURATION", announced: true,
        planned: Some((3, "Time for which evictions are held after many clusters failed at once; 0 is off"));
    /// Time without evictions after the start [default: --cluster-monitor-grace-period]
    eviction_warm_up: Option<Duration> = None => "DURATION";
    /// Evictions from one cluster in one fault episode, after which they stop until a person allows more; 0 is no limit
    max_evictions_per_episode: u32 = 0 => "NUMBER", announced: true,
        planned: Some((4, "Evictions from a cluster until a person decides; 0 is no limit"));
    /// Evict (enforce), or only report what would be evicted (observe)
    failover_mode: Mode = Mode::Enforce => "MODE";
    /// The first wait after a failed eviction
    rate_limiter_base_delay: Duration = Duration::from_millis(5) => "DURATION";
    /// The longest wait after failed evictions
    rate_limiter_max_delay: Duration = Duration::from_secs(1000) => "DURATION";
    /// Repeated attempts to evict per second, of all workloads together
    // With none at all what failed once would never be tried again.
    rate_limiter_qps: f64 = 10.0 => "NUMBER", rule: Some(Rule::Positive);
    /// Burst of repeated attempts
    rate_limiter_bucket_size: u32 = 100 => "NUMBER", rule: Some(Rule::Positive);
}
besides {
    /// Gate `StatefulFailoverInjection`: new copies inherit labels where policies ask for it.
    state_preservation: bool = false;
}
}

typed! {
    Check, of EvictionFlags: this => Value::Word(this.as_str().to_owned()),
        Value::Word(given) => Self::parse(&given).map_err(|error| error.to_string());
    Mode, of EvictionFlags: this => Value::Word(this.as_str().to_owned()),
        Value::Word(given) => Self::parse(&given).map_err(|error| error.to_string());
    PurgeMode, of EvictionFlags: this => Value::Word(format!("{this:?}")),
        Value::Word(given) => no_execute_purge_mode(&given).map_err(|error| error.to_string());
}

/// Strictness of the pre-scheduling check (specification/failover.md 6.9).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// Seed 004, literally.
    Strict,
    /// Survivors may take the replicas.
    #[default]
    Relaxed,
    /// Everything has a target.
    Off,
}

impl Check {
    const ALL: [Self; 3] = [Self::Strict, Self::Relaxed, Self::Off];

    /// Spelling in the flag.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Relaxed => "relaxed",
            Self::Off => "off",
        }
    }

    /// Parses the value of `--pre-scheduling-check`.
    ///
    /// # Errors
    /// Any other value, with the supported ones.
    pub fn parse(value: &str) -> Result<Self, FieldError> {
        one_of("pre_scheduling_check", value, &Self::ALL, Self::as_str)
    }
}

/// True if evictions are written (specification/failover.md 14.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// They are.
    #[default]
    Enforce,
    /// Everything but the write.
    Observe,
}

impl Mode {
    const ALL: [Self; 2] = [Self::Enforce, Self::Observe];

    /// Spelling in the flag.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Observe => "observe",
        }
    }

    /// Parses the value of `--failover-mode`.
    ///
    /// # Errors
    /// Any other value, with the supported ones.
    pub fn parse(value: &str) -> Result<Self, FieldError> {
        one_of("failover_mode", value, &Self::ALL, Self::as_str)
    }
}

/// Parses the value of `--no-execute-taint-eviction-purge-mode`.
///
/// # Errors
/// Any value but `Gracefully` and `Directly`.
pub fn no_execute_purge_mode(value: &str) -> Result<PurgeMode, FieldError> {
    match value {
        "Gracefully" => Ok(PurgeMode::Gracefully),
        "Directly" => Ok(PurgeMode::Directly),
        _ => Err(FieldError::invalid(flag("no_execute_taint_eviction_purge_mode"), &json!(value), "Invalid mode")),
    }
}

fn one_of<T: Copy>(field: &str, value: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, FieldError> {
    let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
    let found = all.iter().copied().find(|one| name(*one) == value);
    found.ok_or_else(|| FieldError::not_supported(flag(field), &json!(value), &names))
}

/// Largest distinguishable rate; a higher one is unlimited.
const RATE_MAX: f64 = 1e9;

impl EvictionFlags {
    /// Errors in the flags: the process must not start.
    #[must_use]
    pub fn errors(&self) -> Vec<FieldError> {
        let mut errors = self.faults();
        if self.rate_limiter_base_delay > self.rate_limiter_max_delay {
            let base = json!(in_words(self.rate_limiter_base_delay));
            let text = "must be less than or equal to --rate-limiter-max-delay";
            errors.push(FieldError::invalid(flag("rate_limiter_base_delay"), &base, text));
        }
        errors
    }

    /// Warnings at start.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let (primary, secondary) = (self.resource_eviction_rate, self.secondary_resource_eviction_rate);
        let clamped = (secondary > primary).then(|| {
            format!(
                "--secondary-resource-eviction-rate={secondary} is larger than --resource-eviction-rate={primary}: \
                 {primary} is used for both"
            )
        });
        clamped.into_iter().collect()
    }

    /// Warm-up without evictions after the start of leadership, given `--cluster-monitor-grace-period`.
    #[must_use]
    pub fn warm_up(&self, monitor_grace_period: Duration) -> Duration {
        self.eviction_warm_up.unwrap_or(monitor_grace_period)
    }

    /// Backoff of a failed write: it doubles with each failure, from the base delay to the maximum (6.7 step 9).
    #[must_use]
    pub fn backoff(&self, attempts: u32) -> Duration {
        let base = self.rate_limiter_base_delay.max(Duration::from_millis(1));
        base.saturating_mul(1 << attempts.min(31)).min(self.rate_limiter_max_delay)
    }

    /// Primary rate per second, at most the largest distinguishable one.
    #[must_use]
    pub fn primary(&self) -> f64 {
        self.resource_eviction_rate.clamp(0.0, RATE_MAX)
    }

    /// The secondary rate per second; one above the primary is clamped.
    #[must_use]
    pub fn secondary(&self) -> f64 {
        self.secondary_resource_eviction_rate.clamp(0.0, RATE_MAX).min(self.primary())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(flags: &EvictionFlags) -> Vec<String> {
        flags.errors().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn defaults_are_valid() {
        let flags = EvictionFlags::default();
        assert_eq!((errors(&flags), flags.warnings()), (vec![], vec![]));
        assert_eq!((flags.primary(), flags.secondary()), (0.5, 0.1));
        assert_eq!(flags.warm_up(Duration::from_secs(40)), Duration::from_secs(40));
    }

    #[test]
    fn invalid_values_are_rejected_with_path_and_reason() {
        type Change = fn(&mut EvictionFlags);
        let rows: [(&str, Change, &str); 17] = [
            (
                "negative",
                |f| f.resource_eviction_rate = -1.0,
                "--resource-eviction-rate: Invalid value: -1.0: must be non-negative",
            ),
            (
                "rate NaN",
                |f| f.resource_eviction_rate = f64::NAN,
                "--resource-eviction-rate: Invalid value: \"NaN\": must be a finite number",
            ),
            (
                "infinite",
                |f| f.resource_eviction_rate = f64::INFINITY,
                "--resource-eviction-rate: Invalid value: \"inf\": must be a finite number",
            ),
            (
                "negative secondary",
                |f| f.secondary_resource_eviction_rate = -0.1,
                "--secondary-resource-eviction-rate: Invalid value: -0.1: must be non-negative",
            ),
            (
                "infinite secondary",
                |f| f.secondary_resource_eviction_rate = f64::NEG_INFINITY,
                "--secondary-resource-eviction-rate: Invalid value: \"-inf\": must be a finite number",
            ),
            (
                "threshold below",
                |f| f.unhealthy_cluster_threshold = -0.01,
                "--unhealthy-cluster-threshold: Invalid value: -0.01: must be between 0 and 1",
            ),
            (
                "threshold above",
                |f| f.unhealthy_cluster_threshold = 1.01,
                "--unhealthy-cluster-threshold: Invalid value: 1.01: must be between 0 and 1",
            ),
            (
                "threshold NaN",
                |f| f.unhealthy_cluster_threshold = f64::NAN,
                "--unhealthy-cluster-threshold: Invalid value: \"NaN\": must be between 0 and 1",
            ),
            (
                "large",
                |f| f.large_cluster_num_threshold = -1,
                "--large-cluster-num-threshold: Invalid value: -1: must be non-negative",
            ),
            (
                "workers",
                |f| f.concurrent_binding_eviction_syncs = 0,
                "--concurrent-binding-eviction-syncs: Invalid value: 0: must be greater than 0",
            ),
            (
                "base delay above the maximum",
                |f| f.rate_limiter_base_delay = Duration::from_secs(2000),
                "--rate-limiter-base-delay: Invalid value: \"33m20s\": must be less than or equal to --rate-limiter-max-delay",
            ),
            (
                "secondary rate NaN",
                |f| f.secondary_resource_eviction_rate = f64::NAN,
                "--secondary-resource-eviction-rate: Invalid value: \"NaN\": must be a finite number",
            ),
            (
                "threshold infinite",
                |f| f.unhealthy_cluster_threshold = f64::INFINITY,
                "--unhealthy-cluster-threshold: Invalid value: \"inf\": must be between 0 and 1",
            ),
            (
                "no retries",
                |f| f.rate_limiter_qps = 0.0,
                "--rate-limiter-qps: Invalid value: 0.0: must be greater than 0",
            ),
            (
                "negative QPS",
                |f| f.rate_limiter_qps = -10.0,
                "--rate-limiter-qps: Invalid value: -10.0: must be greater than 0",
            ),
            (
                "QPS NaN",
                |f| f.rate_limiter_qps = f64::NAN,
                "--rate-limiter-qps: Invalid value: \"NaN\": must be a finite number",
            ),
            (
                "no bucket",
                |f| f.rate_limiter_bucket_size = 0,
                "--rate-limiter-bucket-size: Invalid value: 0: must be greater than 0",
            ),
        ];
        for (name, change, want) in rows {
            let mut flags = EvictionFlags::default();
            change(&mut flags);
            assert_eq!(errors(&flags), [want], "{name}");
        }
    }

    #[test]
    fn modes_are_parsed_and_other_values_rejected() {
        for check in Check::ALL {
            assert_eq!(Check::parse(check.as_str()).ok(), Some(check));
            assert_eq!(json!(check), json!(check.as_str()), "the report uses the flag's spelling");
        }
        for mode in Mode::ALL {
            assert_eq!(Mode::parse(mode.as_str()).ok(), Some(mode));
            assert_eq!(json!(mode), json!(mode.as_str()));
        }
        assert_eq!(no_execute_purge_mode("Gracefully").ok(), Some(PurgeMode::Gracefully));
        assert_eq!(no_execute_purge_mode("Directly").ok(), Some(PurgeMode::Directly));
        let mode = |value: &str| no_execute_purge_mode(value).err();
        for (error, want) in [
            (mode("Never"), "--no-execute-taint-eviction-purge-mode: Invalid value: \"Never\": Invalid mode"),
            (mode("Graciously"), "--no-execute-taint-eviction-purge-mode: Invalid value: \"Graciously\": Invalid mode"),
            (mode(""), "--no-execute-taint-eviction-purge-mode: Invalid value: \"\": Invalid mode"),
            (
                Check::parse("loose").err(),
                "--pre-scheduling-check: Unsupported value: \"loose\": supported values: \"strict\", \"relaxed\", \"off\"",
            ),
            (
                Mode::parse("dry").err(),
                "--failover-mode: Unsupported value: \"dry\": supported values: \"enforce\", \"observe\"",
            ),
        ] {
            assert_eq!(error.map(|error| error.to_string()), Some(want.to_owned()));
        }
    }

    #[test]
    fn limits_of_ranges_are_valid() {
        let zero = EvictionFlags { resource_eviction_rate: 0.0, ..EvictionFlags::default() };
        assert!(errors(&zero).is_empty(), "a rate of zero pauses everything");
        assert_eq!(zero.secondary(), 0.0, "the secondary rate is limited to it");
        assert_eq!(zero.warnings().len(), 1);
        for threshold in [0.0, 1.0] {
            let flags = EvictionFlags { unhealthy_cluster_threshold: threshold, ..EvictionFlags::default() };
            assert!(errors(&flags).is_empty(), "{threshold}");
        }
    }

    #[test]
    fn backoff_doubles_up_to_its_maximum() {
        let flags = EvictionFlags::default();
        let waits: Vec<u128> = [0, 1, 2, 17, 18, 40, u32::MAX].iter().map(|n| flags.backoff(*n).as_millis()).collect();
        assert_eq!(waits, [5, 10, 20, 655_360, 1_000_000, 1_000_000, 1_000_000]);
    }
}
