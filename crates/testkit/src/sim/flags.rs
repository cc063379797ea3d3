//! The flags of simulated controllers.

use ironclad_controllers::Settings;
use ironclad_failover::flags::eviction::Check;
use ironclad_fleet::gates::Gates;

/// Settings with gate `Failover` on or off, this rate of evictions and this pre-scheduling check.
pub fn settings(gate: bool, rate: f64, check: Check) -> Settings {
    let (gates, _) = Gates::parse(&format!("Failover={gate}")).expect("the gate exists");
    let mut settings = Settings { gates, ..Settings::default() };
    settings.failover.eviction.resource_eviction_rate = rate;
    settings.failover.eviction.pre_scheduling_check = check;
    settings
}
