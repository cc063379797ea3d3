//! `bench start`: time until `up` serves, and its memory at rest.

use std::time::Duration;

use ironclad_seam::Clock;
use ironclad_testkit::binary::free_port;

use crate::process::{Daemon, binary};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Simulated members
    #[arg(long, default_value_t = 3)]
    members: u32,
    /// Runs
    #[arg(long, default_value_t = 5)]
    runs: u32,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let (binary, clock) = (binary()?, Clock::system());
    println!("{:<10} {:>12} {:>12} {:>14} {:>10}", "run", "empty ms", "again ms", "at rest MiB", "peak MiB");
    for run in 1..=args.runs {
        let dir = tempfile::tempdir()?;
        let (data, members) = (dir.path().join("data"), args.members.to_string());
        let data = data.display().to_string();
        let listen = format!("127.0.0.1:{}", free_port()?);
        let arguments =
            ["up", "--data-dir", &data, "--clusters", &members, "--listen", &listen, "--metrics-bind-address", "0"];
        let began = clock.mono();
        let first = Daemon::start(&binary, &arguments)?;
        let empty = clock.mono() - began;
        clock.sleep(Duration::from_secs(3)).await;
        let used = first.used()?;
        drop(first);
        let began = clock.mono();
        let second = Daemon::start(&binary, &arguments)?;
        let again = clock.mono() - began;
        drop(second);
        println!(
            "{run:<10} {:>12.0} {:>12.0} {:>14.1} {:>10.1}",
            empty.as_secs_f64() * 1e3,
            again.as_secs_f64() * 1e3,
            used.resident_mib,
            used.peak_mib
        );
    }
    Ok(())
}
