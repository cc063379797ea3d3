//! Runs Karmada's own end-to-end suite, which `cargo xtask karmada` builds, against Ironclad on real kube-apiservers.

mod bed;
mod suite;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, bail};
use clap::Parser;
use ironclad_testkit::{
    binary,
    karmada::{KNOWN, Known},
};
use tokio::signal::unix::{SignalKind, signal};

use crate::{bed::Bed, suite::Choice};

const LIST: &str = "crates/testkit/tests/karmada/known.yaml";

#[derive(Parser)]
#[command(name = "karmada", about = "Runs Karmada's own end-to-end suite: cargo xtask karmada PATH")]
struct Args {
    /// Checkout of Karmada
    checkout: PathBuf,
    /// Folder with the programs that were built from it: e2e.test, ginkgo, interpreter-webhook; logs and the report go
    /// there, too
    #[arg(long, value_name = "FOLDER")]
    built: PathBuf,
    #[command(flatten)]
    choice: Choice,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run_until_signalled().await {
        Ok(()) => ExitCode::SUCCESS,
        // Printed rather than returned: a backtrace does not help with a failed spec.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run_until_signalled() -> anyhow::Result<()> {
    // The provider can be set only once; an earlier call set the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let args = Args::parse();
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    // Whatever was started ends with this process's values, so a signal must not end it at once.
    tokio::select! {
        biased;
        ended = run(args) => ended,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
    }
}

async fn run(args: Args) -> anyhow::Result<()> {
    let known = Known::read(KNOWN)?;
    let (checkout, built) = (args.checkout.canonicalize(), args.built.canonicalize());
    let checkout = checkout.with_context(|| format!("the checkout {}", args.checkout.display()))?;
    let built = built.with_context(|| format!("the folder {}", args.built.display()))?;
    let product = binary::binary()?.canonicalize().context("IRONCLAD_BIN")?;
    let bed = Bed::start(&product, &checkout, &built).await?;
    let run = suite::run(&bed, &built, &args.choice, &known).await?;
    println!("{run}");
    let differences = run.differences(&known);
    if differences.is_empty() {
        println!("as expected: {LIST} says why each of the others fails");
        return Ok(());
    }
    differences.iter().for_each(|difference| println!("not as expected: {difference}"));
    bail!(
        "{} results are not as expected\n  logs: {}\n  try: correct {LIST} if that is meant; it is of Karmada's commit {}",
        differences.len(),
        built.display(),
        known.commit
    )
}
