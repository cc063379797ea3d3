//! The command line of `ironclad plan`.

use std::{path::PathBuf, time::Duration};

use ironclad_api::{
    Taint,
    taints::{NO_EXECUTE, NO_SCHEDULE, PREFER_NO_EXECUTE},
};
use ironclad_failover::{
    Flags,
    flags::{
        EvictionFlags, HealthFlags,
        eviction::{Check, Mode},
    },
};
use ironclad_fleet::World;
use ironclad_planning::{FailoverPlan, Fleet, Options, Script, Settings, plan_failover};
use ironclad_seam::Clock;
use kube::Client;

use super::{apply, load, preemption, print::table, read};
use crate::{
    connect::Plane,
    evictions::observe::{LeaderReport, leader_report_if_readable},
    given::Given,
    nodes::Asked,
    print,
    report::{Exit, Misused, WOULD_MOVE},
};

/// Show what would happen if a manifest were applied, if clusters were lost or tainted, if evictions went at another
/// rate, if a workload preempted others, or if the load of an autoscaled one changed.
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
  ironclad plan preemption payments -n shop
  ironclad plan priority-class critical
  ironclad plan load fhpa/web --multiply 3 --for 10m
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
    /// Each goes through the control plane's admission as a dry run of the apply that `kubectl apply` would send:
    /// fields that left the manifest are removed. Then the decisions of the detector, of the scheduler and of the
    /// overrides are taken over the fleet with these objects in it, in the order of the file: which policy has each
    /// template, where its copies would be and why, what is preempted, and which copies change. Templates that compete
    /// for the same capacity are not followed; changed kinds whose effect is not followed are named.
    #[command(after_help = "Examples:
  ironclad plan apply -f policy.yaml
  ironclad plan apply -f override.yaml -n shop -o json
  kustomize build . | ironclad plan apply -f -
  ironclad plan apply -f policy.yaml --dump dump.yaml     without a control plane

Exit codes: 0 no copy would change, 3 some would, or a change is not followed, 1 failed or an object would be refused,
2 misused.")]
    Apply(Box<apply::How>),
    /// A workload that a FederatedHPA scales has another load: its replicas over time in each cluster.
    ///
    /// Begins with the values of the autoscaler's last round, which the leader remembers. The rounds of the autoscaler
    /// and the division by the scheduler are the real decisions, in virtual time. With the load all metrics change, and
    /// the Pods that are ready share it.
    #[command(after_help = "Examples:
  ironclad plan load fhpa/web --multiply 3 --for 10m
  ironclad plan load fhpa/web -n shop --multiply 0.1 -o json

Exit codes: 0 the replicas would not change, 3 they would, 1 failed, 2 misused.")]
    Load(Box<load::How>),
    /// A workload preempts others: who would leave, and where to.
    ///
    /// The scheduler's search for victims is run for the workload as if gate PriorityBasedPreemptiveScheduling were on
    /// and its preemptionPolicy were PreemptLowerPriority. For every victim it says where it would be placed then, or
    /// that it would have no place. With -f the workload need not exist: its manifests are applied to a copy of the
    /// fleet first, as `plan apply` does. Several workloads are planned for each by itself.
    #[command(after_help = "Examples:
  ironclad plan preemption payments -n shop
  ironclad plan preemption payments --priority 1000       as if it had this priority
  ironclad plan preemption -f workload.yaml               one that does not exist yet, with its policy
  ironclad plan preemption payments --dump dump.yaml      without a control plane

Exit codes: 0 nobody would leave, 3 somebody would, 1 failed, 2 misused.")]
    Preemption(Box<preemption::How>),
    /// Workloads of a PriorityClass preempt others: who would leave, and where to.
    ///
    /// The priority of each workload whose policy uses the class is resolved anew, and the scheduler's search for
    /// victims is run for those that have no place, each by itself. Bindings keep the numbers with which they were
    /// written: a class with another value does not change them until they are written again.
    #[command(after_help = "Examples:
  ironclad plan priority-class critical
  ironclad plan priority-class critical --value 1000000   as if it had this value
  ironclad plan priority-class critical --dump dump.yaml  without a control plane

Exit codes: 0 nobody would leave, 3 somebody would, 1 failed, 2 misused.")]
    PriorityClass(Box<preemption::OfClass>),
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
        how: How,
    },
}

/// Options of planning and printing.
#[derive(clap::Args, Clone, Debug)]
pub struct How {
    /// Time after which the change is reverted [default: never]
    #[arg(long = "for", value_parser = crate::duration, value_name = "DURATION")]
    pub lasts: Option<Duration>,
    /// Evictions per second, as --resource-eviction-rate of the controllers [default: the leader's, or 0.5]
    #[arg(long, alias = "resource-eviction-rate", value_name = "RATE")]
    pub rate: Option<f64>,
    /// Evictions per second in a large fleet with too many unhealthy clusters [default: the leader's, or 0.1]
    #[arg(long, alias = "secondary-resource-eviction-rate", value_name = "RATE")]
    pub secondary_rate: Option<f64>,
    /// strict, relaxed or off, as --pre-scheduling-check of the controllers [default: the leader's, or relaxed]
    #[arg(long, alias = "pre-scheduling-check", value_name = "CHECK")]
    pub check: Option<String>,
    /// Flags of the controllers under their names; what is not given is as the leader has it, or the default.
    #[command(flatten, next_help_heading = "Flags of the controllers [default: the leader's]")]
    health: Given<HealthFlags, true>,
    #[command(flatten)]
    eviction: Given<EvictionFlags, true>,
    /// Time from the creation of a copy until it is healthy
    #[arg(long, value_parser = crate::duration, default_value = "10s", value_name = "DURATION")]
    pub startup: Duration,
    /// Time span that is simulated
    #[arg(long, value_parser = crate::duration, default_value = "24h", value_name = "DURATION")]
    pub horizon: Duration,
    /// Plan with feature gate Failover off
    #[arg(long, conflicts_with = "with_failover")]
    pub without_failover: bool,
    /// Plan with feature gate Failover on [default: as the leader has it; on without a leader]
    #[arg(long)]
    pub with_failover: bool,
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
    pub plane: Plane,
}

/// The leader's settings, as far as they are known.
#[derive(Debug, Clone, Default)]
pub(super) struct Leader {
    /// Its flags; the defaults where it reports none.
    pub(super) flags: Flags,
    /// It decides on no evictions: feature gate Failover or the controller is off.
    pub(super) is_off: bool,
    /// Its other flags and gates.
    pub(super) settings: Settings,
}

impl Leader {
    /// The settings by its report, with notes on what is not known.
    fn of(report: &LeaderReport, how: &How) -> Self {
        if report.is_off() && !how.with_failover && !how.without_failover {
            print::note(&format!("{}\n  try: --with-failover, to plan as if evictions were decided", report.silence));
        }
        if report.announced.is_none() && !report.is_off() {
            print::note("the leader's flags are not known: planned with the defaults and feature gate Failover");
        }
        if report.paused {
            print::note("evictions are paused: planned as if they were resumed");
        }
        Self { flags: report.flags(), is_off: report.is_off(), settings: report.settings.clone() }
    }
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
        Plan::Load(how) => return load::run(how, clock).await,
        Plan::Preemption(how) => return preemption::run(how, clock).await,
        Plan::PriorityClass(how) => return preemption::run_of_class(how, clock).await,
        Plan::Fleet(what) => what,
    };
    let how = how(what)?;
    let plane = match &how.filename {
        Some(_) => None,
        None => Some(how.plane.client().await?),
    };
    let found = consequences(what, &how, plane.as_ref(), clock).await?;
    let text = match how.output {
        Format::Table => table(&found, how.timeline),
        Format::Json => serde_json::to_string_pretty(&found)? + "\n",
    };
    print::out(&text)?;
    if found.is_quiet() { Ok(()) } else { Err(Exit(WOULD_MOVE).into()) }
}

/// The consequences of a change: for the fleet of this control plane, or of the dump that is named.
///
/// # Errors
/// If the fleet can't be read, or a cluster is not in it.
pub(crate) async fn consequences(
    what: &What,
    how: &How,
    plane: Option<&Client>,
    clock: &Clock,
) -> anyhow::Result<FailoverPlan> {
    let (world, leader) = match (plane, &how.filename) {
        (Some(client), _) => {
            let report = leader_report_if_readable(client).await;
            (read::lists(client).await?, Leader::of(&report, how))
        }
        (None, Some(file)) => (read::dump(file)?, Leader::default()),
        (None, None) => (World::default(), Leader::default()),
    };
    let options = options(how, &leader)?;
    let script = script(what, &world)?;
    Ok(foresee(how, world, leader.settings, options, &script, plane, clock).await)
}

/// The consequences of the script. Members are asked for their nodes where the leader's scheduler asks accurate
/// estimators.
async fn foresee(
    how: &How,
    world: World,
    settings: Settings,
    mut options: Options,
    script: &Script,
    plane: Option<&Client>,
    clock: &Clock,
) -> FailoverPlan {
    let fleet = Fleet { world, settings, ..Fleet::default() };
    let (mut members, start) = (Asked::default(), clock.wall_seconds());
    loop {
        let mut found = plan_failover(&fleet.world, script, &options, start);
        let kubeconfig = || how.plane.kubeconfig().ok();
        if let Some(plane) = plane
            && members.ask(&fleet, &found.unasked, plane, kubeconfig().as_ref(), clock).await
        {
            options.nodes.clone_from(&members.nodes);
            continue;
        }
        found.nodes_unknown = members.unknown;
        return found;
    }
}

/// Options of the plan. `plan rate` takes the rate from its argument.
pub(crate) fn how(what: &What) -> anyhow::Result<How> {
    match what {
        What::ClusterLoss { how, .. } | What::Taint { how, .. } => Ok(how.clone()),
        What::Rate { how, .. } if how.rate.is_some() => {
            let message = "two rates were given: the argument and --rate\n  try: ironclad plan rate RATE";
            Err(Misused(message.to_owned()).into())
        }
        What::Rate { at, how } => Ok(How { rate: Some(*at), ..how.clone() }),
    }
}

pub(super) fn options(how: &How, leader: &Leader) -> anyhow::Result<Options> {
    let gate = how.with_failover || !(how.without_failover || leader.is_off);
    let mut flags = leader.flags.clone();
    // A plan evicts in virtual time, also where the leader only observes.
    flags.eviction.failover_mode = Mode::Enforce;
    let mut wrong = how.health.apply_to(&mut flags.health);
    wrong.extend(how.eviction.apply_to(&mut flags.eviction));
    if let Some((_, error)) = wrong.into_iter().next() {
        return Err(Misused(error).into());
    }
    let eviction = &mut flags.eviction;
    eviction.resource_eviction_rate = how.rate.unwrap_or(eviction.resource_eviction_rate);
    eviction.secondary_resource_eviction_rate = how.secondary_rate.unwrap_or(eviction.secondary_resource_eviction_rate);
    if let Some(check) = &how.check {
        eviction.pre_scheduling_check = Check::parse(check).map_err(|error| Misused(error.to_string()))?;
    }
    let errors: Vec<String> = flags.errors().iter().map(ToString::to_string).collect();
    if !errors.is_empty() {
        return Err(Misused(errors.join("; ")).into());
    }
    let (scheduling, modelling) = (leader.settings.scheduler.clone(), leader.settings.modelling());
    flags.scheduler = scheduling.clone();
    let estimators = leader.settings.estimators;
    let (startup, horizon) = (how.startup, how.horizon);
    Ok(Options { gate, flags, scheduling, modelling, estimators, startup, horizon, ..Options::default() })
}

pub(super) fn script(what: &What, world: &World) -> anyhow::Result<Script> {
    let known = |name: &String| crate::why::known(world, name);
    match what {
        What::ClusterLoss { clusters, how } => {
            let clusters = clusters.iter().map(known).collect::<anyhow::Result<Vec<_>>>()?;
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
