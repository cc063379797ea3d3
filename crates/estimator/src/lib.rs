//! Nodes and pods of members, and estimators over gRPC (specification/scheduling.md 10.5, 10.6): the caches that
//! everything in a process shares, one-shot lists, and Karmada's protocol as client and server.
//!
//! Replicas are computed by [`ironclad_scheduling::estimator`]. The crate decides nothing; which estimators the
//! scheduler asks is the controllers' part.

mod client;
mod convert;
mod kinds;
mod listed;
mod member;
mod metrics;
mod proto;
mod server;
mod service;
mod tls;

pub use client::{Assumed, Call, Client, Estimator, Workload};
pub use kinds::{Node, Pod, WithoutNode};
pub use listed::listed;
pub use member::{Member, Needs};
pub use metrics::CallMetrics;
pub use server::{Serve, serve};
pub use service::Service;
pub use tls::{ClientTls, ServerTls, TlsError};
