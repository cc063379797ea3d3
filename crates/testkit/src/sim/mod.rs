//! The simulation: all controllers, the embedded server and simulated members in one thread and virtual time, from a
//! seed.

pub mod change;
pub mod checker;
mod faults;
pub mod flags;
pub mod foretold;
mod history;
pub mod kinds;
mod link;
pub mod matrix;
pub mod model;
pub mod nightly;
mod objects;
mod process;
pub mod propagation;
pub mod runner;
pub mod script;
pub mod sometimes;
mod state;
mod watch;
mod world;

pub use faults::{Cut, EventFault, Fault, FaultPlan};
pub use history::History;
pub use link::Link;
pub use process::CONTROL_PLANE;
pub use world::{ConnectPanic, Setup, World, WorldOptions};
