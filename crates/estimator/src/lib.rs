//! Estimates of members (specification/scheduling.md 10.5, 10.6): from the shared caches of one, from one-shot lists,
//! and over Karmada's gRPC protocol, as client and server.
//!
//! Replicas are computed by [`ironclad_scheduling::estimator`]. The crate decides nothing; which estimators the
//! scheduler asks is the controllers' part.

mod client;
mod convert;
mod listed;
mod member;
mod metrics;
mod proto;
mod server;
mod service;
mod tls;

pub use client::{Assumed, Call, Client, Estimator, Workload};
pub use listed::listed;
pub use member::{Member, Needs};
pub use metrics::CallMetrics;
pub use server::{Serve, serve};
pub use service::Service;
pub use tls::{ClientTls, ServerTls, TlsError};
