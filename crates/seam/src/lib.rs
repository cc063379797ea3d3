//! Seam: the boundary to clock, randomness and tasks, which tests replace.
//!
//! Every crate that waits, draws random numbers or spawns tasks does it through a [`Seam`]. In production it is the
//! system's clock, the system's randomness and tokio's scheduler; in the simulation it is virtual time, named streams
//! from one root seed, and tasks that can be killed together, so that a whole control plane runs from one seed. It does
//! no IO and knows nothing of Kubernetes.

#![warn(missing_docs)]

mod clock;
mod panics;
mod rng;
mod tasks;

pub use clock::Clock;
pub use panics::Panics;
pub use rng::{Rng, Stream};
pub use tasks::{Cancelled, TaskHandle, Tasks};

/// Environment of a process besides its clients: clock, randomness, and the owner of its tasks.
#[derive(Clone, Debug)]
pub struct Seam {
    /// Two readings of time.
    pub clock: Clock,
    /// Named streams of random numbers.
    pub rng: Rng,
    /// The owner of everything this process spawns.
    pub tasks: Tasks,
}

impl Seam {
    /// The seam of a real process: system clock, randomness seeded by the system.
    pub fn system(name: &str) -> Self {
        Self { clock: Clock::system(), rng: Rng::from_system(), tasks: Tasks::new(name) }
    }

    /// Returns a seam with the same clock, independent streams, and a child group of tasks that ends with this one.
    pub fn child(&self, name: &str) -> Self {
        Self { clock: self.clock.clone(), rng: self.rng.child(name), tasks: self.tasks.child(name) }
    }
}
