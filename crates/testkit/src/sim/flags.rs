//! The flags of simulated controllers.

use ironclad_controllers::Settings;
use ironclad_failover::flags::eviction::Check;
use ironclad_fleet::gates::{Gate, Gates};
use ironclad_scheduling::preempt::{Limits, Mode};

/// Settings with gate `Failover` on or off, this rate of evictions and this pre-scheduling check.
pub fn settings(gate: bool, rate: f64, check: Check) -> Settings {
    let (gates, _) = Gates::parse(&format!("Failover={gate}")).expect("the gate exists");
    let mut settings = Settings { gates, ..Settings::default() };
    settings.failover.eviction.resource_eviction_rate = rate;
    settings.failover.eviction.pre_scheduling_check = check;
    settings
}

/// These settings with preemption, quotas and groups of workloads. Capacity is what summaries report, without resource
/// models, by which a node of eight cores has room for four.
pub fn with_preemption(mut settings: Settings, mode: Mode, limits: Limits) -> Settings {
    let gates = settings.gates.clone();
    let gates = gates.with(Gate::PriorityBasedPreemptiveScheduling, mode != Mode::Off);
    let gates = gates.with(Gate::SchedulingOvercommitProtection, true).with(Gate::WorkloadAffinity, true);
    settings.gates = gates.with(Gate::FederatedQuotaEnforcement, true);
    let Limits { victims, evictions_per_minute } = limits;
    let scheduler = &mut settings.scheduler;
    scheduler.preemption_mode = mode;
    (scheduler.preemption_max_victims, scheduler.preemption_max_evictions_per_minute) = (victims, evictions_per_minute);
    settings
}
