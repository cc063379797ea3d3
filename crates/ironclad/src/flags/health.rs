//! Flags of cluster health and of taints (specification/failover.md 1.5, 1.6).

use ironclad_failover::{
    Flags,
    cluster::health::Thresholds,
    flags::{HealthFlags, NoExecutePolicy},
    taints::ByCondition,
};

use super::Period;

/// Cluster health flags.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Cluster health")]
pub(crate) struct HealthArgs {
    /// Interval between probes of a cluster
    #[arg(long, default_value_t = Period(HealthFlags::default().status_update_frequency), value_name = "DURATION", env = "IRONCLAD_CLUSTER_STATUS_UPDATE_FREQUENCY")]
    cluster_status_update_frequency: Period,
    /// Time for which a cluster must be healthy until it is Ready
    #[arg(long, default_value_t = Period(HealthFlags::default().thresholds.success), value_name = "DURATION", env = "IRONCLAD_CLUSTER_SUCCESS_THRESHOLD")]
    cluster_success_threshold: Period,
    /// Time for which a cluster must be unhealthy until it is not Ready
    #[arg(long, default_value_t = Period(HealthFlags::default().thresholds.failure), value_name = "DURATION", env = "IRONCLAD_CLUSTER_FAILURE_THRESHOLD")]
    cluster_failure_threshold: Period,
    /// Interval between checks of agents' leases
    #[arg(long, default_value_t = Period(HealthFlags::default().monitor_period), value_name = "DURATION", env = "IRONCLAD_CLUSTER_MONITOR_PERIOD")]
    cluster_monitor_period: Period,
    /// An agent that is silent for longer makes its cluster's Ready Unknown
    #[arg(long, default_value_t = Period(HealthFlags::default().monitor_grace_period), value_name = "DURATION", env = "IRONCLAD_CLUSTER_MONITOR_GRACE_PERIOD")]
    cluster_monitor_grace_period: Period,
    /// The same before its first renewal
    #[arg(long, default_value_t = Period(HealthFlags::default().startup_grace_period), value_name = "DURATION", env = "IRONCLAD_CLUSTER_STARTUP_GRACE_PERIOD")]
    cluster_startup_grace_period: Period,
    /// Timeout for filling the caches of a member
    #[arg(long, default_value_t = Period(HealthFlags::default().cache_sync_timeout), value_name = "DURATION", env = "IRONCLAD_CLUSTER_CACHE_SYNC_TIMEOUT")]
    cluster_cache_sync_timeout: Period,
    /// URLs of which one can be reached unless this control plane itself is cut off: then no member is blamed
    #[arg(long, value_delimiter = ',', value_name = "URL,...", env = "IRONCLAD_CONNECTIVITY_WITNESSES")]
    connectivity_witnesses: Vec<String>,
    /// Share of ready nodes below which a cluster's condition NodesReady is False, for ClusterTaintPolicies; 0 is no
    /// such condition
    #[arg(
        long,
        default_value_t = HealthFlags::default().nodes_ready_ratio,
        value_name = "SHARE",
        allow_negative_numbers = true,
        env = "IRONCLAD_NODES_READY_RATIO"
    )]
    nodes_ready_ratio: f64,
    /// Taint clusters that are not Ready with NoSchedule
    #[arg(long, default_value_t = Flags::default().by_condition == ByCondition::On, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", env = "IRONCLAD_TAINT_CLUSTER_BY_CONDITION")]
    taint_cluster_by_condition: bool,
    /// Let ClusterTaintPolicies add taints with effect NoExecute
    #[arg(long, default_value_t = Flags::default().no_execute_policy == NoExecutePolicy::Allowed, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", env = "IRONCLAD_ALLOW_NO_EXECUTE_TAINT_POLICY")]
    allow_no_execute_taint_policy: bool,
}

impl HealthArgs {
    /// Writes the values into the options of failover.
    pub(crate) fn apply_to(&self, flags: &mut Flags) {
        flags.health = HealthFlags {
            status_update_frequency: self.cluster_status_update_frequency.0,
            thresholds: Thresholds {
                success: self.cluster_success_threshold.0,
                failure: self.cluster_failure_threshold.0,
            },
            monitor_period: self.cluster_monitor_period.0,
            monitor_grace_period: self.cluster_monitor_grace_period.0,
            startup_grace_period: self.cluster_startup_grace_period.0,
            cache_sync_timeout: self.cluster_cache_sync_timeout.0,
            connectivity_witnesses: self.connectivity_witnesses.clone(),
            nodes_ready_ratio: self.nodes_ready_ratio,
            ..HealthFlags::default()
        };
        flags.by_condition = if self.taint_cluster_by_condition { ByCondition::On } else { ByCondition::Off };
        flags.no_execute_policy =
            if self.allow_no_execute_taint_policy { NoExecutePolicy::Allowed } else { NoExecutePolicy::Forbidden };
    }
}
