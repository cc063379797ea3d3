//! The simulation: all controllers, the embedded server and simulated members in one thread and virtual time, from a seed.

mod faults;
mod history;
pub mod judge;
pub mod kinds;
pub mod knobs;
mod link;
pub mod matrix;
mod process;
pub mod programme;
pub mod road;
pub mod sometimes;
pub mod stage;
mod state;
pub mod truth;
mod watch;
mod world;

pub use faults::{Cut, EventFault, Fault, FaultPlan};
pub use history::History;
pub use link::Link;
pub use world::{Poison, Setup, World, WorldOptions};
