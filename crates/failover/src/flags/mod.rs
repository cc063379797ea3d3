//! The flags of failover (specification/failover.md 1.5, 6.10): their defaults, what they may be, and what they warn
//! of.
//!
//! Each area has a struct of its own; [`Flags`] joins them. [`ironclad_options`] makes such a struct, whose fields also
//! say how they are given; the command line itself is the binary's.

pub mod eviction;

use std::time::Duration;

use ironclad_fleet::gates::{Gate, Gates};
use ironclad_options::{Rule, Table as _, Value, in_words, options, typed};
use ironclad_patch::FieldError;
use serde_json::json;

pub use eviction::EvictionFlags;

use crate::{cluster::health::Thresholds, graceful_eviction::Plugins, taints::ByCondition};

/// All flags of failover.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Flags {
    /// Flags of cluster health.
    pub health: HealthFlags,
    /// Plugins that end eviction tasks: `--evict-plugins`.
    pub evict_plugins: Plugins,
    /// The eviction queue.
    pub eviction: EvictionFlags,
    /// Flags and gates of the scheduler, which the pre-scheduling check asks.
    pub scheduler: ironclad_scheduling::Options,
}

impl Flags {
    /// The flags as decisions take them, with the effect of gates and with the flags of the scheduler.
    #[must_use]
    pub fn under(mut self, gates: &Gates, scheduler: &ironclad_scheduling::Options) -> Self {
        self.eviction.state_preservation = gates.enabled(Gate::StatefulFailoverInjection);
        self.scheduler = scheduler.clone();
        self
    }

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

options! {
/// Flags of cluster health and of taints (specification/failover.md 1.5, 1.6).
#[derive(Debug, Clone, PartialEq)]
pub struct HealthFlags under "Cluster health" {
    /// Interval between probes of a cluster
    status_update_frequency: Duration = Duration::from_secs(10) => "DURATION", name: "cluster_status_update_frequency",
        rule: Some(Rule::Positive), announced: true;
    /// Time for which a cluster must be healthy until it is Ready
    success_threshold: Duration = Thresholds::default().success => "DURATION", name: "cluster_success_threshold",
        announced: true, planned: Some((2, "Time for which probes succeed until a cluster is ready again"));
    /// Time for which a cluster must be unhealthy until it is not Ready
    failure_threshold: Duration = Thresholds::default().failure => "DURATION", name: "cluster_failure_threshold",
        announced: true, planned: Some((1, "Time for which probes fail until a cluster is not ready"));
    /// Interval between checks of agents' leases
    monitor_period: Duration = Duration::from_secs(5) => "DURATION", name: "cluster_monitor_period",
        rule: Some(Rule::Positive);
    /// An agent that is silent for longer makes its cluster's Ready Unknown
    monitor_grace_period: Duration = Duration::from_secs(40) => "DURATION", name: "cluster_monitor_grace_period",
        rule: Some(Rule::Positive);
    /// The same before its first renewal
    startup_grace_period: Duration = Duration::from_secs(60) => "DURATION", name: "cluster_startup_grace_period",
        rule: Some(Rule::Positive);
    /// Timeout for filling the caches of a member
    cache_sync_timeout: Duration = Duration::from_secs(120) => "DURATION", name: "cluster_cache_sync_timeout";
    /// URLs of which one can be reached unless this control plane itself is cut off: then no member is blamed
    connectivity_witnesses: Vec<String> = Vec::new() => "URL,...";
    /// Share of ready nodes below which a cluster's condition NodesReady is False, for ClusterTaintPolicies; 0 is no
    /// such condition
    nodes_ready_ratio: f64 = 0.0 => "SHARE", rule: Some(Rule::Share);
    /// Taint clusters that are not Ready with NoSchedule
    by_condition: ByCondition = ByCondition::On => "BOOL", name: "taint_cluster_by_condition";
    /// Let ClusterTaintPolicies add taints with effect NoExecute
    no_execute_policy: NoExecutePolicy = NoExecutePolicy::Allowed => "BOOL", name: "allow_no_execute_taint_policy";
}
besides {
    /// `--cluster-lease-duration` of agents: duration of the lease that one holds.
    lease_duration: Duration = Duration::from_secs(40);
    /// `--cluster-lease-renew-interval-fraction` of agents: part of that duration after which one renews it.
    lease_renew_interval_fraction: f64 = 0.25;
}
}

typed! {
    ByCondition, of HealthFlags: this => Value::Bool(*this == Self::On),
        Value::Bool(given) => Ok(if given { Self::On } else { Self::Off });
    NoExecutePolicy, of HealthFlags: this => Value::Bool(*this == Self::Allowed),
        Value::Bool(given) => Ok(if given { Self::Allowed } else { Self::Forbidden });
}

impl HealthFlags {
    /// The debounce of probes.
    #[must_use]
    pub fn thresholds(&self) -> Thresholds {
        Thresholds { success: self.success_threshold, failure: self.failure_threshold }
    }

    /// Interval at which an agent renews its lease.
    #[must_use]
    pub fn lease_renew_interval(&self) -> Duration {
        self.lease_duration.mul_f64(self.lease_renew_interval_fraction.clamp(0.0, 1.0))
    }

    fn errors(&self) -> Vec<FieldError> {
        let mut errors = self.faults();
        if self.lease_duration.is_zero() {
            let value = json!(in_words(self.lease_duration));
            errors.push(FieldError::invalid("--cluster-lease-duration", &value, "must be greater than 0"));
        }
        for witness in self.connectivity_witnesses.iter().filter(|witness| witness_address(witness).is_none()) {
            let (field, detail) = ("--connectivity-witnesses", "must be an http or https URL with a host");
            errors.push(FieldError::invalid(field, &json!(witness), detail));
        }
        let fraction = self.lease_renew_interval_fraction;
        if !(fraction > 0.0 && fraction < 1.0) {
            let value = json!(fraction.to_string());
            let field = "--cluster-lease-renew-interval-fraction";
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
            (HealthFlags { status_update_frequency: zero, ..flags() }, "--cluster-status-update-frequency"),
            (HealthFlags { monitor_period: zero, ..flags() }, "--cluster-monitor-period"),
            (HealthFlags { monitor_grace_period: zero, ..flags() }, "--cluster-monitor-grace-period"),
            (HealthFlags { startup_grace_period: zero, ..flags() }, "--cluster-startup-grace-period"),
            (HealthFlags { lease_duration: zero, ..flags() }, "--cluster-lease-duration"),
        ] {
            let got: Vec<String> = flags.errors().iter().map(ToString::to_string).collect();
            assert_eq!(got, [format!("{want}: Invalid value: \"0s\": must be greater than 0")]);
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
            let text = |value| format!("--nodes-ready-ratio: Invalid value: {value}: must be between 0 and 1");
            assert_eq!(got, want.map(text).into_iter().collect::<Vec<_>>(), "{ratio}");
        }
        let none = HealthFlags { success_threshold: zero, failure_threshold: zero, ..flags() };
        assert!(none.errors().is_empty(), "a threshold of 0 s is valid");
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
        let want = "--connectivity-witnesses: Invalid value: \"here\": must be an http or https URL with a host";
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
