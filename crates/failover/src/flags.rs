//! The flags of failover (specification/failover.md 1.5, 6.10): their defaults, what they may be, and what they warn
//! of.
//!
//! Each area has a struct of its own; [`Flags`] joins them. How they are spelled on a command line is the binary's.

pub mod eviction;

use std::time::Duration;

use ironclad_patch::FieldError;
use serde_json::json;

pub use eviction::EvictionFlags;

use crate::{cluster::health::Thresholds, duration::in_words, graceful_eviction::Plugins, taints::ByCondition};

/// All flags of failover.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Flags {
    /// Flags of cluster health.
    pub health: HealthFlags,
    /// True if the Ready condition taints: `--taint-cluster-by-condition`.
    pub by_condition: ByCondition,
    /// True if a ClusterTaintPolicy may add NoExecute: `--allow-no-execute-taint-policy`.
    pub no_execute_policy: NoExecutePolicy,
    /// Plugins that end eviction tasks: `--evict-plugins`.
    pub evict_plugins: Plugins,
    /// The eviction queue.
    pub eviction: EvictionFlags,
    /// Flags and gates of the scheduler, which the pre-scheduling check asks.
    pub scheduler: ironclad_scheduling::Options,
}

impl Flags {
    /// Errors in the flags: the process must not start.
    #[must_use]
    pub fn errors(&self) -> Vec<FieldError> {
        let mut errors = self.health.errors();
        errors.extend(self.eviction.errors());
        errors
    }

    /// Warnings, for the log.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.health.warnings();
        warnings.extend(self.evict_plugins.warnings());
        warnings.extend(self.eviction.warnings());
        warnings
    }
}

/// True if a ClusterTaintPolicy may add taints with effect NoExecute (IR-6).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NoExecutePolicy {
    /// It may.
    #[default]
    Allowed,
    /// It may not.
    Forbidden,
}

/// Flags of cluster health (specification/failover.md 1.5).
#[derive(Debug, Clone, PartialEq)]
pub struct HealthFlags {
    /// `--cluster-status-update-frequency`: from one probe to the next.
    pub status_update_frequency: Duration,
    /// `--cluster-success-threshold` and `--cluster-failure-threshold`: the debounce.
    pub thresholds: Thresholds,
    /// `--cluster-monitor-period`: interval of checking leases.
    pub monitor_period: Duration,
    /// `--cluster-monitor-grace-period`: a cluster that is silent for longer is Unknown.
    pub monitor_grace_period: Duration,
    /// `--cluster-startup-grace-period`: the same before its first word.
    pub startup_grace_period: Duration,
    /// `--cluster-lease-duration`: of the lease that an agent holds.
    pub lease_duration: Duration,
    /// `--cluster-lease-renew-interval-fraction`: after which part of that duration it renews.
    pub lease_renew_interval_fraction: f64,
    /// `--cluster-cache-sync-timeout`: how long a member's caches may take to fill.
    pub cache_sync_timeout: Duration,
    /// `--connectivity-witnesses`: URLs of which one can be reached unless the control plane itself is cut off; empty
    /// is off (specification/failover.md 14.2).
    pub connectivity_witnesses: Vec<String>,
    /// `--nodes-ready-ratio`: the share of ready nodes below which condition NodesReady is False; 0 is no such
    /// condition.
    pub nodes_ready_ratio: f64,
}

impl Default for HealthFlags {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            status_update_frequency: seconds(10),
            thresholds: Thresholds::default(),
            monitor_period: seconds(5),
            monitor_grace_period: seconds(40),
            startup_grace_period: seconds(60),
            lease_duration: seconds(40),
            lease_renew_interval_fraction: 0.25,
            cache_sync_timeout: seconds(120),
            connectivity_witnesses: Vec::new(),
            nodes_ready_ratio: 0.0,
        }
    }
}

impl HealthFlags {
    /// Interval at which an agent renews its lease.
    #[must_use]
    pub fn lease_renew_interval(&self) -> Duration {
        self.lease_duration.mul_f64(self.lease_renew_interval_fraction.clamp(0.0, 1.0))
    }

    fn errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for (field, duration) in [
            ("ClusterStatusUpdateFrequency", self.status_update_frequency),
            ("ClusterMonitorPeriod", self.monitor_period),
            ("ClusterMonitorGracePeriod", self.monitor_grace_period),
            ("ClusterStartupGracePeriod", self.startup_grace_period),
            ("ClusterLeaseDuration", self.lease_duration),
        ] {
            if duration.is_zero() {
                let value = json!(in_words(duration));
                errors.push(FieldError::invalid(format!("Options.{field}"), &value, "must be greater than 0"));
            }
        }
        for witness in self.connectivity_witnesses.iter().filter(|witness| witness_address(witness).is_none()) {
            let (field, detail) = ("Options.ConnectivityWitnesses", "must be an http or https URL with a host");
            errors.push(FieldError::invalid(field, &json!(witness), detail));
        }
        let ratio = self.nodes_ready_ratio;
        if !(0.0..=1.0).contains(&ratio) {
            let value = if ratio.is_finite() { json!(ratio) } else { json!(ratio.to_string()) };
            errors.push(FieldError::invalid("Options.NodesReadyRatio", &value, "must be between 0 and 1"));
        }
        let fraction = self.lease_renew_interval_fraction;
        if !(fraction > 0.0 && fraction < 1.0) {
            let value = json!(fraction.to_string());
            let field = "Options.ClusterLeaseRenewIntervalFraction";
            errors.push(FieldError::invalid(field, &value, "must be greater than 0 and less than 1"));
        }
        errors
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let (period, grace) = (self.monitor_period, self.monitor_grace_period);
        if period >= grace {
            warnings.push(format!(
                "--cluster-monitor-period {} is not less than --cluster-monitor-grace-period {}: a cluster that stops reporting is detected late",
                in_words(period),
                in_words(grace)
            ));
        }
        if grace < self.status_update_frequency * 2 {
            warnings.push(format!(
                "--cluster-monitor-grace-period {} is less than twice --cluster-status-update-frequency {}: one slow \
                 report makes a cluster Unknown",
                in_words(grace),
                in_words(self.status_update_frequency)
            ));
        }
        warnings
    }
}

/// Host and port of a witness; `None` if it is no URL that can be one.
#[must_use]
pub fn witness_address(url: &str) -> Option<(String, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let default = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next().filter(|authority| !authority.contains('@'))?;
    let (host, port) = match authority.rsplit_once(':') {
        // The colons of an IPv6 address are inside its brackets.
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (authority, default),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn defaults_are_valid_and_without_warnings() {
        let flags = Flags::default();
        assert_eq!((flags.errors(), flags.warnings()), (vec![], vec![]));
        assert_eq!(flags.health.lease_renew_interval(), S(10));
    }

    #[test]
    fn invalid_flags_are_rejected() {
        let flags = HealthFlags::default;
        let zero = Duration::ZERO;
        for (flags, want) in [
            (HealthFlags { status_update_frequency: zero, ..flags() }, "ClusterStatusUpdateFrequency"),
            (HealthFlags { monitor_period: zero, ..flags() }, "ClusterMonitorPeriod"),
            (HealthFlags { monitor_grace_period: zero, ..flags() }, "ClusterMonitorGracePeriod"),
            (HealthFlags { startup_grace_period: zero, ..flags() }, "ClusterStartupGracePeriod"),
            (HealthFlags { lease_duration: zero, ..flags() }, "ClusterLeaseDuration"),
        ] {
            let got: Vec<String> = flags.errors().iter().map(ToString::to_string).collect();
            assert_eq!(got, [format!("Options.{want}: Invalid value: \"0s\": must be greater than 0")]);
        }
        for (fraction, sound) in [
            (0.0, false),
            (0.001, true),
            (0.999, true),
            (1.0, false),
            (-0.5, false),
            (f64::NAN, false),
            (f64::INFINITY, false),
        ] {
            let flags = HealthFlags { lease_renew_interval_fraction: fraction, ..flags() };
            assert_eq!(flags.errors().is_empty(), sound, "{fraction}");
        }
        for (ratio, want) in [
            (0.0, None),
            (1.0, None),
            (-0.1, Some("-0.1")),
            (1.1, Some("1.1")),
            (f64::NAN, Some("\"NaN\"")),
            (f64::INFINITY, Some("\"inf\"")),
        ] {
            let flags = HealthFlags { nodes_ready_ratio: ratio, ..flags() };
            let got: Vec<String> = flags.errors().iter().map(ToString::to_string).collect();
            let text = |value| format!("Options.NodesReadyRatio: Invalid value: {value}: must be between 0 and 1");
            assert_eq!(got, want.map(text).into_iter().collect::<Vec<_>>(), "{ratio}");
        }
        let none = Thresholds { success: zero, failure: zero };
        assert!(HealthFlags { thresholds: none, ..flags() }.errors().is_empty(), "a threshold of 0 s is valid");
    }

    #[test]
    fn witnesses_are_urls() {
        for (url, want) in [
            ("https://example.com", Some(("example.com", 443))),
            ("http://example.com/healthz?a=b", Some(("example.com", 80))),
            ("https://10.0.0.1:6443/readyz", Some(("10.0.0.1", 6443))),
            ("https://[::1]:6443", Some(("::1", 6443))),
            ("https://[::1]", Some(("::1", 443))),
            ("example.com", None),
            ("ftp://example.com", None),
            ("https://", None),
            ("https://:443", None),
            ("https://user@example.com", None),
            ("https://example.com:port", None),
        ] {
            assert_eq!(witness_address(url), want.map(|(host, port)| (host.to_owned(), port)), "{url}");
        }
        let flags = HealthFlags { connectivity_witnesses: vec!["here".into()], ..HealthFlags::default() };
        let want = "Options.ConnectivityWitnesses: Invalid value: \"here\": must be an http or https URL with a host";
        assert_eq!(flags.errors()[0].to_string(), want);
    }

    #[test]
    fn unusual_combinations_cause_warnings() {
        let flags = |period, grace, frequency| HealthFlags {
            monitor_period: S(period),
            monitor_grace_period: S(grace),
            status_update_frequency: S(frequency),
            ..HealthFlags::default()
        };
        for (name, flags, want) in [
            ("defaults", flags(5, 40, 10), 0),
            ("period one second below the grace period", flags(39, 40, 10), 0),
            ("period equal to the grace period", flags(40, 40, 10), 1),
            ("grace period twice the frequency", flags(5, 20, 10), 0),
            ("and less", flags(5, 19, 10), 1),
            ("both", flags(19, 19, 10), 2),
        ] {
            assert_eq!(flags.warnings().len(), want, "{name}: {:?}", flags.warnings());
        }
    }
}
