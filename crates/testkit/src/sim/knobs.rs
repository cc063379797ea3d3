//! The flags of simulated controllers.

use ironclad_controllers::Settings;
use ironclad_fleet::gates::Gates;

/// Settings with gate `Failover` on or off, this rate of evictions and this pre-scheduling check.
///
/// # Panics
/// None: the gate exists.
#[must_use]
pub fn settings(gate: bool, _rate: f64, _check: &str) -> Settings {
    let (gates, _) = Gates::parse(&format!("Failover={gate}")).expect("the gate exists");
    Settings { gates, ..Settings::default() }
}
