//! Whole-system benches, run as `cargo xtask bench NAME`: machines are noisy, so quote ratios of one run only.

mod apiserver;
mod dashboard;
mod evictions;
mod process;
mod propagate;
mod schedule;
mod schedule_real;
mod start;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "bench", about = "Measures the daemon as a whole")]
struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// From the create of Deployments to their settled status, through `up` or on real kube-apiservers
    Propagate(propagate::Args),
    /// The embedded API server beside kube-apiserver and etcd, both with fsync
    Apiserver(apiserver::Args),
    /// Moves bindings off a tainted member until they are present elsewhere, through `up` or on real
    /// kube-apiservers
    Evictions(evictions::Args),
    /// One scheduling cycle: cost as the fleet and the number of placed bindings grow; with `--real` from the create of
    /// a binding on a real kube-apiserver to its result
    Schedule(schedule::Args),
    /// Pages of a large fleet in a headless Chromium, through `ironclad dashboard` beside a real kube-apiserver
    Dashboard(dashboard::Args),
    /// From exec of `up` to its ready line, and its memory at rest
    Start(start::Args),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // The provider can be set only once; an earlier call set the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match Args::parse().bench {
        Bench::Propagate(args) => propagate::run(args).await,
        Bench::Apiserver(args) => apiserver::run(args).await,
        Bench::Evictions(args) => evictions::run(args).await,
        Bench::Schedule(args) => schedule::run(args).await,
        Bench::Dashboard(args) => dashboard::run(args).await,
        Bench::Start(args) => start::run(args).await,
    }
}
