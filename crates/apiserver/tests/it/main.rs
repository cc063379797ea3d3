//! The server as its clients see it: in-process through `kube::Client` and raw requests, and over TLS.

#![allow(clippy::unwrap_used, reason = "a test that can't go on says so by panicking")]

mod support;

mod access;
mod aggregation;
mod bounds;
mod certificates;
mod crud;
mod custom;
mod determinism;
mod fuzz;
mod mutations;
mod nesting;
mod ownership;
mod policies;
mod quotas;
mod routes;
mod serving;
mod tls;
mod tokens;
mod twelve;
mod versions;
mod watching;
mod webhooks;
