//! Informers on ordered maps, work queues, the reconcile loop and one writer of status, over any kube client.
//!
//! It uses kube's client and requests, but not its runtime, which iterates hash maps and reads the system clock: the
//! same controllers must run in the simulation. What is typed is a thin cover of code over erased objects
//! ([`ironclad_kinds`]), which is compiled once. This crate decides nothing about the domain.

#![warn(missing_docs)]

mod api;
mod cache;
mod caches;
mod client;
mod discovery;
mod events;
mod failure;
mod frames;
mod hot_loop;
mod informer;
pub mod leader;
mod managed_fields;
mod metrics;
mod panics;
mod proxy;
mod queue;
mod reconcile;
mod status;
mod streams;
mod traffic;
mod tunnel;
mod warnings;
mod watch;
mod webhook_call;
mod webhook_tls;
mod write;
mod yields;

pub use api::{Api, Deleted};
pub use cache::{Change, Key};
pub use caches::{CacheSpec, Caches, Scope};
pub use client::{
    AggregatedAccess, ClientError, TokenAccess, Unanswered, aggregated_client, certificates, client_by_token,
    client_config, client_from_kubeconfig, client_through, in_process_client, kubeconfig_client_config, webhook_client,
};
pub use discovery::{aggregated_groups, discover};
pub use events::{EventAbout, EventType, Recorder};
pub use failure::Failure;
pub use frames::{Frames, TooLong};
pub use hot_loop::{HotLoop, HotLoops};
pub use informer::{Indexer, Informer, Transform, WatchScope};
pub use ironclad_kinds::{Encode, Object, objects};
pub use metrics::WorkMetrics;
pub use panics::PanicMetrics;
pub use proxy::Bars;
pub use queue::{Queue, Queued, QueuedState};
pub use reconcile::{Next, Worker, run_workers};
pub use status::{Current, StatusTarget, StatusWriter};
pub use streams::{StreamBody, Streams};
pub use traffic::Traffic;
pub use tunnel::{AGENT, HELD, REPLICA, TUNNEL, Tunnels, carry_both, serve_tunnel};
pub use warnings::Warn;
pub use watch::{Event, Watch, WatchError};
pub use webhook_call::ask_webhook;
pub use write::Writer;
pub use yields::Yields;
