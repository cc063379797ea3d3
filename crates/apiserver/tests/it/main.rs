//! The server as its clients see it: in-process through `kube::Client` and raw requests, and over TLS.

mod support;

mod crud;
mod custom;
mod determinism;
mod ownership;
mod serving;
mod tls;
mod watching;
