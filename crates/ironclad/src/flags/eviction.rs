//! Flags of the eviction queue (specification/failover.md 6.10, 14.2, 14.3).

use ironclad_api::policy::PurgeMode;
use ironclad_failover::{
    Flags,
    flags::{
        EvictionFlags,
        eviction::{Check, Mode, no_execute_purge_mode},
    },
};

use super::Period;

/// Eviction flags.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Cluster failover")]
pub(crate) struct EvictionArgs {
    /// Evictions per second while most clusters are healthy
    #[arg(
        long,
        default_value_t = EvictionFlags::default().resource_eviction_rate,
        value_name = "RATE",
        allow_negative_numbers = true,
        env = "IRONCLAD_RESOURCE_EVICTION_RATE"
    )]
    resource_eviction_rate: f64,
    /// Evictions per second in a large fleet with too many unhealthy clusters; in a small one there are none then
    #[arg(
        long,
        default_value_t = EvictionFlags::default().secondary_resource_eviction_rate,
        value_name = "RATE",
        allow_negative_numbers = true,
        env = "IRONCLAD_SECONDARY_RESOURCE_EVICTION_RATE"
    )]
    secondary_resource_eviction_rate: f64,
    /// The share of unhealthy clusters that is too many when it is exceeded
    #[arg(
        long,
        default_value_t = EvictionFlags::default().unhealthy_cluster_threshold,
        value_name = "SHARE",
        allow_negative_numbers = true,
        env = "IRONCLAD_UNHEALTHY_CLUSTER_THRESHOLD"
    )]
    unhealthy_cluster_threshold: f64,
    /// A fleet of more clusters than this is large
    #[arg(
        long,
        default_value_t = EvictionFlags::default().large_cluster_num_threshold,
        value_name = "NUMBER",
        allow_negative_numbers = true,
        env = "IRONCLAD_LARGE_CLUSTER_NUM_THRESHOLD"
    )]
    large_cluster_num_threshold: i32,
    /// Evict from clusters with NoExecute taints
    #[arg(long, default_value_t = EvictionFlags::default().enable_no_execute_taint_eviction, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", env = "IRONCLAD_ENABLE_NO_EXECUTE_TAINT_EVICTION")]
    enable_no_execute_taint_eviction: bool,
    /// Purge mode of evictions from clusters with NoExecute taints whose policy has none: Gracefully or Directly
    #[arg(
        long,
        default_value = "Gracefully",
        value_name = "MODE",
        env = "IRONCLAD_NO_EXECUTE_TAINT_EVICTION_PURGE_MODE"
    )]
    no_execute_taint_eviction_purge_mode: String,
    /// Check that an evicted workload can be scheduled elsewhere: strict, relaxed or off
    #[arg(long, default_value = Check::default().as_str(), value_name = "MODE", env = "IRONCLAD_PRE_SCHEDULING_CHECK")]
    pre_scheduling_check: String,
    /// Do not evict workloads for which the other clusters lack available replicas; evictions with purge mode Directly
    /// from ready clusters always ask
    #[arg(long, default_value_t = EvictionFlags::default().capacity_check, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", env = "IRONCLAD_EVICTION_CAPACITY_CHECK")]
    eviction_capacity_check: bool,
    /// Concurrent writes of evictions; does not raise the rate
    #[arg(long, default_value_t = EvictionFlags::default().concurrent_binding_eviction_syncs, value_name = "NUMBER", env = "IRONCLAD_CONCURRENT_BINDING_EVICTION_SYNCS")]
    concurrent_binding_eviction_syncs: u32,
    /// Evict nothing while no cluster is healthy
    #[arg(long, default_value_t = EvictionFlags::default().halt_eviction_on_total_outage, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", env = "IRONCLAD_HALT_EVICTION_ON_TOTAL_OUTAGE")]
    halt_eviction_on_total_outage: bool,
    /// Time without evictions after half of the clusters failed within a minute; 0 is off
    #[arg(long, default_value_t = Period(EvictionFlags::default().mass_failure_hold), value_name = "DURATION", env = "IRONCLAD_MASS_FAILURE_HOLD")]
    mass_failure_hold: Period,
    /// Time without evictions after the start [default: --cluster-monitor-grace-period]
    #[arg(long, value_name = "DURATION", env = "IRONCLAD_EVICTION_WARM_UP")]
    eviction_warm_up: Option<Period>,
    /// Evictions from one cluster in one fault episode, after which they stop until a person allows more; 0 is no limit
    #[arg(long, default_value_t = EvictionFlags::default().max_evictions_per_episode, value_name = "NUMBER", env = "IRONCLAD_MAX_EVICTIONS_PER_EPISODE")]
    max_evictions_per_episode: u32,
    /// Evict (enforce), or only report what would be evicted (observe)
    #[arg(long, default_value = Mode::default().as_str(), value_name = "MODE", env = "IRONCLAD_FAILOVER_MODE")]
    failover_mode: String,
    /// The first wait after a failed eviction
    #[arg(long, default_value_t = Period(EvictionFlags::default().rate_limiter_base_delay), value_name = "DURATION", env = "IRONCLAD_RATE_LIMITER_BASE_DELAY")]
    rate_limiter_base_delay: Period,
    /// The longest wait after failed evictions
    #[arg(long, default_value_t = Period(EvictionFlags::default().rate_limiter_max_delay), value_name = "DURATION", env = "IRONCLAD_RATE_LIMITER_MAX_DELAY")]
    rate_limiter_max_delay: Period,
    /// Repeated attempts to evict per second, of all workloads together
    #[arg(
        long,
        default_value_t = EvictionFlags::default().rate_limiter_qps,
        value_name = "NUMBER",
        allow_negative_numbers = true,
        env = "IRONCLAD_RATE_LIMITER_QPS"
    )]
    rate_limiter_qps: f64,
    /// Burst of repeated attempts
    #[arg(long, default_value_t = EvictionFlags::default().rate_limiter_bucket_size, value_name = "NUMBER", env = "IRONCLAD_RATE_LIMITER_BUCKET_SIZE")]
    rate_limiter_bucket_size: u32,
}

impl EvictionArgs {
    /// Writes the values into the options of failover.
    ///
    /// # Errors
    /// A mode that does not exist.
    pub(crate) fn apply_to(&self, flags: &mut Flags) -> Result<(), String> {
        let unused = !self.enable_no_execute_taint_eviction;
        let purge_mode = match no_execute_purge_mode(&self.no_execute_taint_eviction_purge_mode) {
            Ok(mode) => mode,
            // Without these evictions the flag has no effect, so its value is not judged, as upstream.
            Err(_) if unused => PurgeMode::Gracefully,
            Err(error) => return Err(error.to_string()),
        };
        flags.eviction = EvictionFlags {
            resource_eviction_rate: self.resource_eviction_rate,
            secondary_resource_eviction_rate: self.secondary_resource_eviction_rate,
            unhealthy_cluster_threshold: self.unhealthy_cluster_threshold,
            large_cluster_num_threshold: self.large_cluster_num_threshold,
            enable_no_execute_taint_eviction: self.enable_no_execute_taint_eviction,
            no_execute_taint_eviction_purge_mode: purge_mode,
            pre_scheduling_check: Check::parse(&self.pre_scheduling_check).map_err(|error| error.to_string())?,
            capacity_check: self.eviction_capacity_check,
            concurrent_binding_eviction_syncs: self.concurrent_binding_eviction_syncs,
            halt_eviction_on_total_outage: self.halt_eviction_on_total_outage,
            mass_failure_hold: self.mass_failure_hold.0,
            eviction_warm_up: self.eviction_warm_up.map(|period| period.0),
            max_evictions_per_episode: self.max_evictions_per_episode,
            failover_mode: Mode::parse(&self.failover_mode).map_err(|error| error.to_string())?,
            rate_limiter_base_delay: self.rate_limiter_base_delay.0,
            rate_limiter_max_delay: self.rate_limiter_max_delay.0,
            rate_limiter_qps: self.rate_limiter_qps,
            rate_limiter_bucket_size: self.rate_limiter_bucket_size,
            ..EvictionFlags::default()
        };
        Ok(())
    }
}
