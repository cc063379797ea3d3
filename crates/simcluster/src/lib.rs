//! Simulated member cluster: the embedded server with nodes and running pods.
//!
//! [`Member::start`] opens a server on a store and runs a cluster on it: nodes, a pod scheduler that respects requests,
//! kubelets that start pods after a delay, and the built-in controllers. Faults are switched while it runs. It knows
//! nothing of the control plane and its kinds.

mod balancer;
mod faults;
mod kubelet;
mod member;
mod nodes;
mod options;
mod placing;
mod scheduler;
mod served;
mod signing;
mod usage;
mod volumes;

pub use faults::{FaultError, Faulted};
pub use kubelet::duration;
pub use member::Member;
pub use options::{Faults, Flap, MemberOptions, Shape, Times};
pub use signing::signer;
pub use usage::UsageRule;
