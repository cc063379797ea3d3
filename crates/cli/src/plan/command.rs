//! The command line of `ironclad plan`.

use std::{path::PathBuf, time::Duration};

use ironclad_api::{
    Taint,
    taints::{NO_EXECUTE, NO_SCHEDULE, PREFER_NO_EXECUTE},
};
use ironclad_failover::flags::eviction::Check;
use ironclad_fleet::{ClusterName, World};
use ironclad_planning::{Options, Script, plan_failover};
use ironclad_seam::Clock;

use super::{apply, print::table, read};
use crate::{
    connect::Plane,
    print,
    report::{Exit, Misused, WOULD_MOVE},
};

/// Show what would happen if a manifest were applied, if clusters were lost or tainted, or evictions went at another
/// rate.
///
/// The real decisions are taken over a copy of the fleet in virtual time: when it is noticed, who leaves in which order
/// and how fast, who stays and why, and where everything ends. Nothing is written.
#[derive(clap::Args, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  ironclad plan apply -f policy.yaml
  ironclad plan cluster-loss member1 --for 30m
  ironclad plan cluster-loss member1 member2 --rate 5 -o json
  ironclad plan taint member1 maintenance:NoExecute
  ironclad plan rate 5
  ironclad plan cluster-loss member1 -f dump.yaml         without a control plane

Exit codes: 0 nothing would move, 3 something would, 1 failed, 2 misused."
)]
pub struct Command {
    /// Change to plan for
    #[command(subcommand)]
    pub plan: Plan,
}

/// Subject of the plan.
#[derive(clap::Subcommand, Debug)]
pub enum Plan {
    /// Objects are applied: policies, overrides, templates.
    ///
    /// Each goes through the control plane's admission as a dry run of a server-side apply. Then the decisions of the
    /// detector, of the scheduler and of the overrides are taken over the fleet with these objects in it: which policy
    /// has each template, where its copies would be and why, what is preempted, and which copies change. Dependencies,
    /// and templates that compete for the same room, are not followed.
    #[command(after_help = "Examples:
  ironclad plan apply -f policy.yaml
  ironclad plan apply -f override.yaml -n shop -o json
  kustomize build . | ironclad plan apply -f -
  ironclad plan apply -f policy.yaml --dump dump.yaml     without a control plane

Exit codes: 0 no copy would change, 3 some would, 1 failed or an object would be refused, 2 misused.")]
    Apply(Box<apply::How>),
    /// Something happens to the clusters.
    #[command(flatten)]
    Fleet(Box<What>),
}

/// Change to the clusters.
#[derive(clap::Subcommand, Debug)]
pub enum What {
    /// Clusters become unreachable, all at once.
    #[command(after_help = "Examples:
  ironclad plan cluster-loss member1
  ironclad plan cluster-loss member1 member2 --for 30m")]
    ClusterLoss {
        /// The clusters
        #[arg(required = true, value_name = "CLUSTER")]
        clusters: Vec<String>,
        #[command(flatten)]
        #[allow(missing_docs, reason = "described where it is defined")]
        how: How,
    },
    /// A user adds a taint to a cluster.
    #[command(after_help = "Examples:
  ironclad plan taint member1 maintenance:NoExecute
  ironclad plan taint member1 disk=slow:PreferNoExecute --for 1h")]
    Taint {
        /// The cluster
        #[arg(value_name = "CLUSTER")]
        cluster: String,
        /// The taint
        #[arg(value_name = "KEY[=VALUE]:EFFECT")]
        taint: String,
        #[command(flatten)]
        #[allow(missing_docs, reason = "described where it is defined")]
        how: How,
    },
    /// Nothing happens but what is under way: what the faulty clusters of now lose at this rate, and how long that
    /// takes.
    #[command(after_help = "Examples:
  ironclad plan rate 5
  ironclad plan rate 0.1 --secondary-rate 0 -o json")]
    Rate {
        /// Evictions per second
        #[arg(value_name = "RATE")]
        at: f64,
        #[command(flatten)]
        #[allow(missing_docs, reason = "described where it is defined")]
        how: How,
    },
}

/// Options of planning and printing.
#[derive(clap::Args, Clone, Debug)]
pub struct How {
    /// Time after which the change is reverted [default: never]
    #[arg(long = "for", value_parser = crate::duration, value_name = "DURATION")]
    pub lasts: Option<Duration>,
    /// Evictions per second, as --resource-eviction-rate of the controllers
    #[arg(long, alias = "resource-eviction-rate", default_value_t = 0.5, value_name = "RATE")]
    pub rate: f64,
    /// Evictions per second in a large fleet with too many unhealthy clusters
    #[arg(long, alias = "secondary-resource-eviction-rate", default_value_t = 0.1, value_name = "RATE")]
    pub secondary_rate: f64,
    /// strict, relaxed or off, as --pre-scheduling-check of the controllers
    #[arg(long, alias = "pre-scheduling-check", default_value = "relaxed", value_name = "CHECK")]
    pub check: String,
    /// Time from the creation of a copy until it is healthy
    #[arg(long, value_parser = crate::duration, default_value = "10s", value_name = "DURATION")]
    pub startup: Duration,
    /// Time span that is simulated
    #[arg(long, value_parser = crate::duration, default_value = "24h", value_name = "DURATION")]
    pub horizon: Duration,
    /// Plan with feature gate Failover off
    #[arg(long)]
    pub without_failover: bool,
    /// Read the fleet from this dump, - for stdin: objects or Lists as YAML or JSON
    #[arg(short, long, value_name = "FILE")]
    pub filename: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub output: Format,
    /// Print every step in the table
    #[arg(long)]
    pub timeline: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "described where it is defined")]
    pub plane: Plane,
}

/// Output format of a plan.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Readable text.
    Table,
    /// For scripts.
    Json,
}

/// Runs the command.
///
/// # Errors
/// If the fleet can't be read or a cluster is not in it; and [`Exit`] with 3 if something would move.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    let what = match &command.plan {
        Plan::Apply(how) => return apply::run(how, clock).await,
        Plan::Fleet(what) => what,
    };
    let how = how(what);
    let options = options(&how)?;
    let world = match &how.filename {
        Some(file) => read::dump(file)?,
        None => read::lists(&how.plane.client().await?).await?,
    };
    let script = script(what, &world)?;
    let found = plan_failover(&world, &script, &options, clock.wall_seconds());
    let text = match how.output {
        Format::Table => table(&found, how.timeline),
        Format::Json => serde_json::to_string_pretty(&found)? + "\n",
    };
    print::out(&text)?;
    if found.is_quiet() { Ok(()) } else { Err(Exit(WOULD_MOVE).into()) }
}

/// Options of the plan. `plan rate` takes the rate from its argument.
pub(super) fn how(what: &What) -> How {
    match what {
        What::ClusterLoss { how, .. } | What::Taint { how, .. } => how.clone(),
        What::Rate { at, how } => How { rate: *at, ..how.clone() },
    }
}

pub(super) fn options(how: &How) -> anyhow::Result<Options> {
    let mut options =
        Options { gate: !how.without_failover, startup: how.startup, horizon: how.horizon, ..Options::default() };
    options.flags.eviction.resource_eviction_rate = how.rate;
    options.flags.eviction.secondary_resource_eviction_rate = how.secondary_rate;
    options.flags.eviction.pre_scheduling_check =
        Check::parse(&how.check).map_err(|error| Misused(error.to_string()))?;
    let errors: Vec<String> = options.flags.errors().iter().map(ToString::to_string).collect();
    if errors.is_empty() { Ok(options) } else { Err(Misused(errors.join("; ")).into()) }
}

pub(super) fn script(what: &What, world: &World) -> anyhow::Result<Script> {
    let known = |name: &String| {
        let cluster = ClusterName::from(name.as_str());
        if world.clusters.contains_key(&cluster) {
            return Ok(cluster);
        }
        let all: Vec<&str> = world.clusters.keys().map(|name| &*name.0).collect();
        Err(Misused(format!("there is no cluster {name}\n  try: one of {}", all.join(", "))))
    };
    match what {
        What::ClusterLoss { clusters, how } => {
            let clusters = clusters.iter().map(known).collect::<Result<Vec<_>, _>>()?;
            Ok(Script::cluster_loss(&clusters, how.lasts))
        }
        What::Rate { .. } => Ok(Script::default()),
        What::Taint { cluster, taint, how } => Ok(Script::taint(&known(cluster)?, &parse_taint(taint)?, how.lasts)),
    }
}

/// `KEY[=VALUE]:EFFECT`.
pub(super) fn parse_taint(text: &str) -> anyhow::Result<Taint> {
    let bad = || Misused(format!("invalid taint spec: {text}\n  try: KEY=VALUE:EFFECT, or KEY:EFFECT"));
    let (key, effect) = text.rsplit_once(':').ok_or_else(bad)?;
    let (key, value) = key.split_once('=').map_or((key, None), |(key, value)| (key, Some(value.to_owned())));
    if key.is_empty() {
        return Err(bad().into());
    }
    if ![NO_SCHEDULE, NO_EXECUTE, PREFER_NO_EXECUTE].contains(&effect) {
        return Err(Misused(format!("invalid taint effect: {effect}, unsupported taint effect")).into());
    }
    Ok(Taint { key: key.to_owned(), value, effect: effect.to_owned(), time_added: None })
}
