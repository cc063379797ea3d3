//! Whole-system benches, run as `cargo xtask bench NAME`: figures to quote as ratios of one run, machines are noisy.

mod process;
mod propagate;
mod start;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "bench", about = "Measures the product as a whole")]
struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// From the create of Deployments to their settled status, through `up` or on real kube-apiservers
    Propagate(propagate::Args),
    /// From exec of `up` to its ready line, and its memory at rest
    Start(start::Args),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // The provider can only be set once; whoever came first set the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match Args::parse().bench {
        Bench::Propagate(args) => propagate::run(args).await,
        Bench::Start(args) => start::run(args).await,
    }
}
