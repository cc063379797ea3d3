//! The verbs of the command line that are clients of the API (specification/operations.md 2).
//!
//! Each verb is a library first (`join::register`, `unjoin::remove`, `crds::install`: functions over kube clients,
//! which tests and `up` call too) and a thin command over it. Results go to stdout, everything else to stderr.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "only `print` writes to the terminal: it escapes foreign text"
)]

pub mod apply;
pub mod asked;
mod autoscaler;
mod bindings;
mod claims;
pub mod completion;
pub mod connect;
pub mod cordon;
pub mod crds;
pub mod dashboard;
pub mod doctor;
pub mod drain;
pub mod dry_run;
mod duration;
pub mod early;
pub mod elsewhere;
pub mod evictions;
pub mod get;
pub mod given;
pub mod help;
mod hooks;
mod input;
pub mod interpret;
pub mod join;
pub mod kubeconfig;
pub mod kubectl;
mod kyaml;
mod leader;
pub mod logs;
pub mod manifests;
pub mod members;
mod nodes;
pub mod options;
mod pages;
pub mod plan;
pub mod print;
pub mod program;
pub mod promote;
pub mod proxied;
pub mod rebalance;
pub mod register;
pub mod report;
pub mod resource;
pub mod rollout;
pub mod sim;
pub mod switches;
pub mod taint;
pub mod token;
pub mod top;
pub mod tree;
pub mod unjoin;
pub mod unregister;
pub mod version;
pub mod warnings;
pub mod why;
mod write;

pub use duration::{Period, duration};
pub use write::{Mode, Outcome};
