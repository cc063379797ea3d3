//! The rules of crate `admission` at work.

mod in_process;

pub use in_process::InProcessAdmission;
