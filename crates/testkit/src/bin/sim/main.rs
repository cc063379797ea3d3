//! Runs seeds of the simulation: `cargo xtask sim`. A failing seed is shrunk and printed with the command to rerun it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use clap::Parser;
use ironclad_seam::{Clock, Rng};
use ironclad_testkit::sim::{
    Fault, WorldOptions,
    foretold::{Met, Property},
    propagation::{self, Disturbance},
    script::{
        self, Script,
        autoscalers::{self, Modes},
    },
    sometimes,
};
use tracing_subscriber::EnvFilter;

/// As in Ironclad.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// From this number of seeds on, an event of `sometimes` that never happened is a failure.
const MANY: u64 = 300;

#[derive(Parser)]
#[command(
    name = "sim",
    about = "Runs whole fleets in virtual time, from seeds",
    after_help = "Examples:
  sim --seeds 2000 --minutes 30     fresh seeds; their root is printed
  sim --root 0x5eed --seeds 50      the seeds that follow from a root
  sim --seed 17 --history           one seed again, with everything that happened
  sim --seed 17 --keep 3,7          the same with two of its actions alone
  sim --seed 17 --timings 200       the same events with other delays between them
  sim --varied --seeds 100          scarce capacity in members whose nodes differ
  sim --pull --seeds 100            members in pull mode among faults of their agents
  sim --autoscalers --seeds 100     autoscalers of both designs among faults, with --pull in pull members, too
  sim --foretold apply --seeds 300  whether plan apply foretells what happens; why and loss, too"
)]
struct Args {
    /// Run this one seed
    #[arg(long, value_parser = number)]
    seed: Option<u64>,
    /// Run this number of seeds
    #[arg(long, default_value_t = 50)]
    seeds: u64,
    /// Draw the seeds from this root; without it the system gives one
    #[arg(long, value_parser = number)]
    root: Option<u64>,
    /// Stop starting new seeds after this many minutes
    #[arg(long)]
    minutes: Option<u64>,
    /// In every run, not in every eighth: workloads that request more than there is, priorities, preemption and quotas
    #[arg(long, conflicts_with = "propagation")]
    scarce: bool,
    /// Scarce capacity in members of several nodes with pods, Jobs and quotas of their own
    #[arg(long, conflicts_with_all = ["scarce", "propagation"])]
    varied: bool,
    /// Members in pull mode, whose agents are processes with faults of their own
    #[arg(long, conflicts_with_all = ["scarce", "varied", "propagation", "foretold"])]
    pull: bool,
    /// Autoscalers of both designs among faults instead of failover
    #[arg(long, conflicts_with_all = ["scarce", "varied", "propagation", "foretold", "keep", "timing", "timings", "show", "digest", "history"])]
    autoscalers: bool,
    /// Only the actions at these places, or `none`
    #[arg(long, requires = "seed", value_name = "PLACES")]
    keep: Option<String>,
    /// Draw the delays of the seed's run anew, by this number
    #[arg(long, requires = "seed", default_value_t = 0)]
    timing: u64,
    /// Run the seed with this number of draws of its delays
    #[arg(long, requires = "seed", conflicts_with_all = ["timing", "show", "digest", "history"])]
    timings: Option<u64>,
    /// Print a seed's script and run nothing
    #[arg(long, requires = "seed")]
    show: bool,
    /// Don't look for the shortest script that fails
    #[arg(long)]
    no_shrink: bool,
    /// Print only the digest of the history
    #[arg(long, requires = "seed")]
    digest: bool,
    /// Print the history
    #[arg(long, requires = "seed")]
    history: bool,
    /// Run the scenario of propagation instead, with one seed
    #[arg(long, requires = "seed")]
    propagation: bool,
    /// Check that statements about the seeds' fleets come true: why, apply or loss
    #[arg(long, value_name = "PROPERTY", value_parser = Property::parse, conflicts_with_all = ["keep", "show", "digest"])]
    foretold: Option<Property>,
    /// Simulated members of propagation
    #[arg(long, default_value_t = 3, requires = "propagation")]
    members: usize,
    /// Inject the fault at the write with this number on propagation
    #[arg(long, requires = "fault")]
    write: Option<u64>,
    /// Fault to inject: conflict, kill-after, kill-before, lose-answer
    #[arg(long, requires = "propagation")]
    fault: Option<Fault>,
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| error.to_string())
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    // RUST_LOG=ironclad_controllers=debug shows the reason of each decision.
    tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env()).with_writer(std::io::stderr).init();
    if let Some(property) = args.foretold {
        return foretold(&args, property);
    }
    if args.autoscalers {
        return scaled(&args);
    }
    match args.seed {
        Some(seed) if args.propagation => on_the_propagation(&args, seed),
        Some(seed) => again(&args, seed),
        None => many(&args),
    }
}

/// Checks autoscalers in the fleet of one seed, or of many.
fn scaled(args: &Args) -> anyhow::Result<()> {
    let (modes, with) = if args.pull { (Modes::Mixed, " --pull") } else { (Modes::Push, "") };
    if let Some(seed) = args.seed {
        // Without the stack of the error: the story is what helps.
        return match autoscalers::check(seed, modes) {
            Ok(outcome) => {
                println!("{}{} changes of replicas", outcome.story, outcome.changes);
                Ok(())
            }
            Err(error) => bail!("{error:#}"),
        };
    }
    let root = args.root.map_or_else(Rng::from_system, Rng::from_seed);
    println!("{} seeds from root {:#x}", args.seeds, root.seed());
    let (draws, mut failures, mut changes, mut descheduled) = (root.stream("seeds"), Vec::new(), 0, 0);
    let mut turns = BTreeMap::new();
    for _ in 0..args.seeds {
        let seed = draws.u64();
        match autoscalers::check(seed, modes) {
            Ok(outcome) => {
                changes += outcome.changes;
                descheduled += outcome.descheduled;
                *turns.entry(outcome.turns).or_insert(0_u64) += 1;
            }
            Err(error) => {
                println!("{error:#}\n");
                failures.push(format!("cargo xtask sim --autoscalers{with} --seed {seed}: {}", error.root_cause()));
            }
        }
    }
    println!(
        "autoscalers: {} passed, {} failed, {changes} changes, {descheduled} times descheduled, by times that they turned after the last fault {turns:?}",
        args.seeds - failures.len() as u64,
        failures.len()
    );
    failures.iter().for_each(|failure| println!("failed: {failure}"));
    if failures.is_empty() { Ok(()) } else { bail!("{} seeds failed", failures.len()) }
}

/// Checks a property of statements for one seed, or for many.
fn foretold(args: &Args, property: Property) -> anyhow::Result<()> {
    if let Some(seed) = args.seed {
        let (met, history) = property.traced(seed);
        if args.history {
            println!("{}", history.join("\n"));
        }
        println!("{:?}", met?);
        return Ok(());
    }
    let root = args.root.map_or_else(Rng::from_system, Rng::from_seed);
    println!("{} seeds from root {:#x}", args.seeds, root.seed());
    let (draws, clock) = (root.stream("seeds"), Clock::system());
    let began = clock.wall();
    let (mut ran, mut met, mut failures) = (0_u64, Met::new(), Vec::new());
    for _ in 0..args.seeds {
        let minutes = clock.wall().duration_since(began).as_mins();
        if args.minutes.is_some_and(|most| minutes >= i64::try_from(most).unwrap_or(i64::MAX)) {
            println!("{minutes} minutes are over");
            break;
        }
        let seed = draws.u64();
        ran += 1;
        match property.check(seed) {
            Ok(more) => met.extend(more),
            Err(error) => {
                println!("{error:?}\n");
                failures.push(format!("{error}: {}", error.root_cause()));
            }
        }
    }
    println!("met: {met:?}");
    println!("foretold: {} passed, {} failed", ran - failures.len() as u64, failures.len());
    for failure in &failures {
        println!("failed: {failure}");
    }
    if failures.is_empty() { Ok(()) } else { bail!("{} of {ran} seeds failed", failures.len()) }
}

fn on_the_propagation(args: &Args, seed: u64) -> anyhow::Result<()> {
    let disturbance = args.write.zip(args.fault).map(|(write, fault)| Disturbance { write, fault });
    let outcome = propagation::run(WorldOptions { seed, members: args.members }, disturbance)?;
    if args.history {
        println!("{}", outcome.history.join("\n"));
    }
    println!("{}", outcome.digest);
    if !args.digest {
        println!("writes to settle: {}, in all: {}", outcome.writes_to_settle, outcome.writes);
    }
    Ok(())
}

fn draw(args: &Args, seed: u64) -> Script {
    match (args.varied, args.scarce) {
        _ if args.pull => Script::pulled(seed),
        (true, _) => Script::varied(seed),
        (_, true) => Script::scarce(seed),
        _ => Script::from_seed(seed),
    }
}

/// Script of one seed, with the actions and the delays that the arguments choose.
fn chosen(args: &Args, seed: u64) -> anyhow::Result<Script> {
    let mut script = draw(args, seed).timed(args.timing);
    if let Some(keep) = &args.keep {
        let places =
            keep.split(',').filter(|place| *place != "none").map(str::parse).collect::<Result<BTreeSet<_>, _>>();
        script = script.keeping(&places.context("--keep takes places, as 3,7, or none")?);
    }
    Ok(script)
}

fn again(args: &Args, seed: u64) -> anyhow::Result<()> {
    let script = chosen(args, seed)?;
    if let Some(timings) = args.timings {
        return run_all(args, (1..=timings).map(|timing| script.clone().timed(timing)));
    }
    if args.show {
        print!("{script}");
        return Ok(());
    }
    let outcome = match args.history {
        true => script::run_showing(&script, usize::MAX),
        false => script::run(&script),
    };
    match outcome {
        Ok(outcome) => {
            if args.history {
                println!("{}", outcome.history.join("\n"));
            }
            println!("{}", outcome.digest);
            if !args.digest {
                println!("{} virtual seconds, {} evictions", outcome.seconds, outcome.evictions);
            }
            Ok(())
        }
        Err(error) => Err(report_failure(args, &script, error)),
    }
}

fn report_failure(args: &Args, script: &Script, error: anyhow::Error) -> anyhow::Error {
    println!("{} failed: {}", script.again(), error.root_cause());
    if args.no_shrink {
        return error;
    }
    let shrunk = script::shrink(script, error);
    println!("shrunk in {} runs\nagain: {}", shrunk.runs, shrunk.script.again());
    shrunk.error
}

fn many(args: &Args) -> anyhow::Result<()> {
    let root = args.root.map_or_else(Rng::from_system, Rng::from_seed);
    println!("{} seeds from root {:#x}", args.seeds, root.seed());
    let draws = root.stream("seeds");
    let seeds = (0..args.seeds).map(|_| draws.u64());
    if args.scarce || args.varied || args.pull {
        return run_all(args, seeds.map(|seed| draw(args, seed)));
    }
    run_all(args, Script::of_runs(seeds))
}

/// Runs scripts until the time is over.
fn run_all(args: &Args, scripts: impl Iterator<Item = Script>) -> anyhow::Result<()> {
    let clock = Clock::system();
    let began = clock.wall();
    let (mut ran, mut evictions, mut failures) = (0u64, 0usize, Vec::new());
    for script in scripts {
        let minutes = clock.wall().duration_since(began).as_mins();
        if args.minutes.is_some_and(|most| minutes >= i64::try_from(most).unwrap_or(i64::MAX)) {
            println!("{minutes} minutes are over");
            break;
        }
        ran += 1;
        match script::run(&script) {
            Ok(outcome) => evictions += outcome.evictions,
            Err(error) => {
                let error = report_failure(args, &script, error);
                println!("{error:#}\n");
                failures.push(format!("{}: {}", script.again(), error.root_cause()));
            }
        }
        if ran.is_multiple_of(10) {
            let seconds = clock.wall().duration_since(began).as_secs();
            println!("{ran} seeds in {seconds} s, {evictions} evictions, {} failed", failures.len());
        }
    }
    println!("\nevents that must happen in some run:");
    for (what, count) in sometimes::counts() {
        println!("{count:>8}  {what}");
    }
    println!("sim: {} passed, {} failed", ran - failures.len() as u64, failures.len());
    for failure in &failures {
        println!("failed: {failure}");
    }
    let many_scarce = args.scarce || args.varied || (!args.pull && ran / script::SCARCE_EVERY >= MANY);
    let expected = |what: &&str| many_scarce || !sometimes::SCARCE.contains(what);
    let never: Vec<_> = sometimes::counts()
        .into_iter()
        .filter(|(_, count)| *count == 0)
        .map(|(what, _)| what)
        .filter(expected)
        .collect();
    if args.seed.is_none() && ran >= MANY && !never.is_empty() {
        bail!("never happened in {ran} seeds: {}", never.join("; "));
    }
    if !failures.is_empty() {
        bail!("{} of {ran} seeds failed", failures.len());
    }
    Ok(())
}
