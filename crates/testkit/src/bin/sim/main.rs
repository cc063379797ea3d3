//! Runs seeds of the simulation: `cargo xtask sim`. A failing seed prints its history and how to run it again.

use anyhow::bail;
use clap::Parser;
use ironclad_seam::{Clock, Rng};
use ironclad_testkit::sim::{
    Fault, WorldOptions,
    road::{self, Disturbance},
};

#[derive(Parser)]
#[command(name = "sim", about = "Runs the road in virtual time, from seeds")]
struct Args {
    /// Run this one seed
    #[arg(long)]
    seed: Option<u64>,
    /// Run so many fresh seeds
    #[arg(long, default_value_t = 50)]
    seeds: u64,
    /// Stop starting new seeds after so many minutes
    #[arg(long)]
    minutes: Option<u64>,
    /// Simulated members
    #[arg(long, default_value_t = 3)]
    members: usize,
    /// Disturb the write of this number
    #[arg(long, requires = "fault")]
    write: Option<u64>,
    /// How: conflict, kill-after, kill-before, lose-answer
    #[arg(long)]
    fault: Option<String>,
    /// Print only the digest of the history
    #[arg(long, requires = "seed")]
    digest: bool,
    /// Print the history
    #[arg(long, requires = "seed")]
    history: bool,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if let Some(seed) = args.seed {
        let disturbance = match (args.write, args.fault.as_deref()) {
            (Some(write), Some(fault)) => Some(Disturbance { write, fault: parse(fault)? }),
            _ => None,
        };
        let outcome = road::run(WorldOptions { seed, members: args.members }, disturbance)?;
        if args.history {
            println!("{}", outcome.history.join("\n"));
        }
        println!("{}", outcome.digest);
        if !args.digest {
            println!("writes to settle: {}, in all: {}", outcome.writes_to_settle, outcome.writes);
        }
        return Ok(());
    }
    fresh(&args)
}

/// Fresh seeds, each with one drawn fault on one drawn write.
fn fresh(args: &Args) -> anyhow::Result<()> {
    let root = Rng::from_system();
    println!("fresh seeds from root {:#x}", root.seed());
    let draws = root.stream("seeds");
    let clock = Clock::system();
    let began = clock.wall();
    let (mut ran, mut failed) = (0, 0);
    for _ in 0..args.seeds {
        if args.minutes.is_some_and(|m| clock.wall().duration_since(began).as_mins() >= m as i64) {
            break;
        }
        let seed = draws.u64();
        let faults = [Fault::Conflict, Fault::KillAfterAnswer, Fault::KillBeforeAnswer, Fault::LoseAnswer];
        let disturbance =
            Disturbance { write: 1 + draws.below(60), fault: faults[draws.below(faults.len() as u64) as usize] };
        let options = WorldOptions { seed, members: 1 + draws.below(4) as usize };
        ran += 1;
        if let Err(error) = road::run(options, Some(disturbance)) {
            failed += 1;
            println!("seed {seed} failed: {error:#}");
            println!(
                "again: cargo xtask sim --seed {seed} --members {} --write {} --fault {} --history",
                options.members,
                disturbance.write,
                name(disturbance.fault)
            );
        }
    }
    println!("sim: {} passed, {failed} failed", ran - failed);
    if failed > 0 {
        bail!("{failed} of {ran} seeds failed");
    }
    Ok(())
}

fn parse(fault: &str) -> anyhow::Result<Fault> {
    Ok(match fault {
        "conflict" => Fault::Conflict,
        "kill-after" => Fault::KillAfterAnswer,
        "kill-before" => Fault::KillBeforeAnswer,
        "lose-answer" => Fault::LoseAnswer,
        other => bail!("--fault {other}: one of conflict, kill-after, kill-before, lose-answer"),
    })
}

fn name(fault: Fault) -> &'static str {
    match fault {
        Fault::Conflict => "conflict",
        Fault::KillAfterAnswer => "kill-after",
        Fault::KillBeforeAnswer => "kill-before",
        Fault::LoseAnswer => "lose-answer",
    }
}
