//! Whole-system benches, run as `cargo xtask bench NAME`: machines are noisy, so quote ratios of one run only.

mod apiserver;
mod autoscalers;
mod compaction;
mod evictions;
mod members;
mod process;
mod propagate;
mod queue;
mod restart;
mod schedule;
mod schedule_real;
mod start;
mod top;

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
    /// Cost of many settled FederatedHPAs over simulated members: CPU and writes
    Autoscalers(autoscalers::Args),
    /// Sizes of file and process after many updates of few objects through `up`
    Compaction(compaction::Args),
    /// Moves bindings off a tainted member until they are present elsewhere, through `up` or on real
    /// kube-apiservers
    Evictions(evictions::Args),
    /// The eviction queue and its limiter: cost per event as the queue grows, memory per element
    Queue(queue::Args),
    /// One scheduling cycle: cost as the fleet and the number of placed bindings grow; with `--real` from the create of
    /// a binding on a real kube-apiserver to its result
    Schedule(schedule::Args),
    /// From exec of `up` to its ready line, and its memory at rest
    Start(start::Args),
    /// Cost of an idle fleet of simulated members: memory, CPU and writes
    Members(members::Args),
    /// Latency of a user's change after a restart with many Deployments, and cost of the other reconciles
    Restart(restart::Args),
    /// Time of `kubectl top pods -A` over many simulated members, through `up`
    Top(top::Args),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // The provider can be set only once; an earlier call set the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match Args::parse().bench {
        Bench::Propagate(args) => propagate::run(args).await,
        Bench::Apiserver(args) => apiserver::run(args).await,
        Bench::Autoscalers(args) => autoscalers::run(args).await,
        Bench::Compaction(args) => compaction::run(args).await,
        Bench::Evictions(args) => evictions::run(args).await,
        Bench::Queue(args) => queue::run(&args),
        Bench::Schedule(args) => schedule::run(args).await,
        Bench::Start(args) => start::run(args).await,
        Bench::Members(args) => members::run(args).await,
        Bench::Restart(args) => restart::run(args).await,
        Bench::Top(args) => top::run(args).await,
    }
}
