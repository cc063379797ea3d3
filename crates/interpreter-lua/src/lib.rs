//! Script engine of declarative interpreters: Lua 5.1 in a sandbox (specification/propagation.md 20.3, 20.4, 31.4).
//!
//! Scripts are compiled once. Each call runs in a fresh environment, so that nothing leaks from one call to the next,
//! and within limits: steps, memory, the host's clock, the size of texts and answers. Scripts have no files, no
//! network, no randomness and no time but the host's; tables are iterated in the order of their keys. Two runs with
//! the same arguments give the same answer.
//!
//! Not here: the choice of the source that answers (crate `interpreter`), and the objects that hold scripts (the
//! reconcilers).

mod budget;
mod calendar;
mod check;
mod convert;
mod customization;
mod declarative;
mod library;
mod pattern;
mod running;
mod shipped;
mod vm;

pub use budget::{Host, MEMORY_BYTES_MAX, PRINTED_BYTES_MAX, PRINTED_LINES_MAX, STEPS_MAX, TIME_MAX};
pub use check::{CHECK_MEMORY_BYTES_MAX, CHECK_STEPS_MAX, check_script};
pub use convert::{ANSWER_BYTES_MAX, DEPTH_MAX, VALUES_MAX};
pub use customization::{Customization, SCRIPT_BYTES_MAX, Trace};
pub use declarative::{Conflict, Declarative};
pub use library::{PATTERN_BYTES_MAX, TEXT_BYTES_MAX};
pub use running::{RunningScripts, SKIP_SECONDS, SKIP_SECONDS_MAX, SkippedScript};
pub use shipped::Shipped;

#[cfg(test)]
mod tests;
