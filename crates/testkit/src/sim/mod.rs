//! The simulation: all controllers, the embedded server and simulated members in one thread and virtual time, from a seed.

mod history;
pub mod kinds;
mod link;
pub mod road;
mod world;

pub use history::History;
pub use link::{Fault, FaultPlan, Link};
pub use world::{World, WorldOptions};
