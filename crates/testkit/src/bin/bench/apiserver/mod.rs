//! `bench apiserver`: the embedded API server beside kube-apiserver and etcd, both with fsync, one after the other in
//! one run.
//!
//! Ours is the whole product: `up` without members, controllers and admission included.

mod load;
mod side;
mod table;

use std::{fs::File, io::Write as _, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_seam::Clock;

use self::{
    load::{Load, Writes},
    side::Side,
};
use crate::propagate::at;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds of writing for each number of clients
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Numbers of concurrent clients
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100])]
    clients: Vec<usize>,
    /// Objects of 1 KiB that exist when memory is measured
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    /// How many of them are in the namespace that is listed
    #[arg(long, default_value_t = 10_000)]
    listed: usize,
    /// Watches of one namespace
    #[arg(long, default_value_t = 100)]
    watchers: usize,
    /// Writes that are timed until all watches have them
    #[arg(long, default_value_t = 50)]
    events: usize,
    /// Measure only ironclad, without ratios
    #[arg(long)]
    alone: bool,
}

/// Result of one server.
pub(crate) struct Figures {
    /// Time from start to ready, seconds.
    ready: f64,
    /// Resident memory at rest and its anonymous part, MiB.
    rest: (f64, f64),
    writes: Vec<Writes>,
    /// Median duration of a full list, milliseconds, and its bytes.
    list_ms: f64,
    list_bytes: usize,
    /// Time from a write until the last watch has it, milliseconds: median and 99th percentile.
    fan_out_ms: (f64, f64),
    /// Creates per second while the objects were made.
    creates_per_second: f64,
    /// Memory with all objects, like `rest`.
    full: (f64, f64),
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    ensure!(args.listed <= args.objects, "--listed can't be more than --objects");
    let clock = Clock::system();
    println!("an fsync of 1 KiB takes {:.2} ms here (median of 50)", fsync_ms(&clock)?);
    let ours = measure(Side::ours(&clock)?, &args, &clock).await.context("ironclad")?;
    let theirs = if args.alone {
        None
    } else {
        Some(measure(Side::theirs(&clock).await?, &args, &clock).await.context("kube-apiserver and etcd")?)
    };
    table::print(&args, &ours, theirs.as_ref());
    Ok(())
}

async fn measure(side: Side, args: &Args, clock: &Clock) -> anyhow::Result<Figures> {
    const REST: Duration = Duration::from_secs(15);
    const LISTS: usize = 5;
    eprintln!("{}: ready after {:.2} s", side.name, side.ready.as_secs_f64());
    let load = Load::new(&side, clock);
    load.namespaces().await?;
    clock.sleep(REST).await;
    let rest = side.memory()?;
    let mut writes = Vec::new();
    for &clients in &args.clients {
        let figures = load.write(clients, Duration::from_secs(args.seconds)).await?;
        eprintln!("{}: {clients} clients: {:.0} writes per second", side.name, figures.per_second);
        writes.push(figures);
    }
    let fan_out = load.fan_out(args.watchers, args.events).await?;
    eprintln!("{}: fan-out {:.1} ms", side.name, at(&fan_out, 0.5));
    let creates_per_second = load.fill(args.listed, args.objects).await?;
    let mut lists = Vec::new();
    let mut list_bytes = 0;
    for _ in 0..LISTS {
        let (took, bytes) = load.list().await?;
        lists.push(took.as_secs_f64() * 1e3);
        list_bytes = bytes;
    }
    lists.sort_by(f64::total_cmp);
    clock.sleep(REST).await;
    let full = side.memory()?;
    Ok(Figures {
        ready: side.ready.as_secs_f64(),
        rest,
        writes,
        list_ms: at(&lists, 0.5),
        list_bytes,
        fan_out_ms: (at(&fan_out, 0.5), at(&fan_out, 0.99)),
        creates_per_second,
        full,
    })
}

/// Measures the duration of an fsync, which both servers do at each commit.
fn fsync_ms(clock: &Clock) -> anyhow::Result<f64> {
    let dir = tempfile::tempdir()?;
    let mut file = File::create(dir.path().join("probe"))?;
    let mut all = Vec::new();
    for _ in 0..50 {
        let began = clock.mono();
        file.write_all(&[7; 1024])?;
        file.sync_data()?;
        all.push((clock.mono() - began).as_secs_f64() * 1e3);
    }
    all.sort_by(f64::total_cmp);
    Ok(at(&all, 0.5))
}
