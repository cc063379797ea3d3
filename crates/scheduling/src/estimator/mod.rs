//! Free capacity by the nodes and pods of a member (specification/scheduling.md 10.6), for the account of a cluster and
//! for `ironclad estimator`; what estimators over gRPC answer (10.1, 10.5), and what a failing one means.
//!
//! An [`Index`] follows one member incrementally: a node or pod event costs the logarithm of the number of nodes, and a
//! question that was asked before costs the nodes that changed since. Watches, connections and clocks stay outside.

mod breaker;
mod claim;
mod combine;
mod discovery;
mod index;
mod pending;
mod place;
mod pods;
mod question;
mod quota;

pub use breaker::Breaker;
pub use claim::{Claim, NodeFacts};
pub use combine::{Answer, NoAnswer, meaning};
pub use discovery::{Discovery, EstimatorService, Undiscovered, addresses};
pub(crate) use index::{Before, Leaving};
pub use index::{EstimatePart, Index, Node, Pod};
pub use pending::{Pending, PendingPod, ReplicaSet};
pub(crate) use place::is_counted;
pub use pods::Workload;
pub use question::{PodTemplate, Question, SetPart, Wanted, assumed_parts};
pub use quota::{Quota, Scope};
