//! Admission at work.

mod in_process;
mod support;
