//! `ironclad drain`.

use std::time::Duration;

use ironclad_api::{cluster::Cluster, policy::PurgeMode};
use ironclad_failover::{drain::Health, flags::eviction::Check};
use ironclad_fleet::ClusterName;
use ironclad_fleet::count::count;
use ironclad_patch::selector::LabelSelector;
use ironclad_seam::Clock;
use kube::Client;
use serde_json::{Value, json};

use super::{
    DrainError, Limit, Options, Progress, Report, Stuck, Survey, abort, begin, draining_since, evict, find, preview,
    wait,
};
use crate::{
    connect::Plane,
    cordon::{Cordon, cordon},
    dry_run::DryRun,
    print::{self, Output},
    report::{Exit, INTERRUPTED, Misused},
    taint::TaintError,
};

/// Move everything off a cluster, a workload at a time.
///
/// The cluster is cordoned and stays so. Each workload leaves once another cluster can take it; gracefully its old copy
/// stays until the new ones are healthy. Nothing depends on the feature gate Failover, and no taint evicts anybody.
/// Interrupting it stops further moves; running it again goes on.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad drain member1 --dry-run
  ironclad drain member1
  ironclad drain member1 --rate 5 --skip-unmovable --timeout 30m
  ironclad drain member1 --namespace shop --kind Deployment --purge-mode Directly
  ironclad drain member1 --status
  ironclad drain member1 --abort

Exit codes: 0 the cluster holds nothing that could be moved, 1 it does, 2 misused, 130 interrupted.")]
pub struct Command {
    /// The cluster
    #[arg(value_name = "CLUSTER")]
    pub cluster: String,
    /// Only templates with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Only this namespace
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Only templates of these kinds
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub kind: Vec<String>,
    /// Removal of the old copies
    #[arg(long, value_enum, default_value_t = Purge::Gracefully, value_name = "MODE")]
    pub purge_mode: Purge,
    /// Moves per second
    #[arg(long, default_value_t = 0.5, value_name = "RATE")]
    pub rate: f64,
    /// Strictness of the pre-scheduling check: strict, relaxed (remaining target clusters may take the replicas) or off
    #[arg(long, value_enum, default_value_t = PreCheck::Strict, value_name = "HOW")]
    pub pre_scheduling_check: PreCheck,
    /// Leave bindings that have no other cluster or are pinned
    #[arg(long, conflicts_with = "force")]
    pub skip_unmovable: bool,
    /// Also evict bindings that have no other cluster or are pinned
    #[arg(long)]
    pub force: bool,
    /// Continue even if many other clusters are unhealthy
    #[arg(long)]
    pub ignore_health: bool,
    /// Wait until the old copies are deleted
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub wait: bool,
    /// Timeout; 0 waits forever
    #[arg(long, value_parser = crate::duration, default_value = "0s", value_name = "DURATION")]
    pub timeout: Duration,
    /// Print what would move and where to, without moving it
    #[arg(long, value_enum, value_name = "WHO", num_args = 0..=1, default_value_t = DryRun::None, default_missing_value = "client", require_equals = true)]
    pub dry_run: DryRun,
    /// Print the progress of a drain
    #[arg(long, conflicts_with = "abort")]
    pub status: bool,
    /// End a drain: no further binding is moved; moved ones stay moved
    #[arg(long)]
    pub abort: bool,
    /// Output format of the preview or the progress
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
    #[command(flatten)]
    pub plane: Plane,
}

/// Removal of old copies.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purge {
    /// They stay until the new ones are healthy.
    #[value(name = "Gracefully", alias = "gracefully")]
    Gracefully,
    /// They go before the new ones come.
    #[value(name = "Directly", alias = "directly")]
    Directly,
}

/// Strictness of the pre-scheduling check.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreCheck {
    /// As the eviction queue does by default.
    Strict,
    /// Clusters that run it already may take its replicas.
    Relaxed,
    /// Not at all.
    Off,
}

impl Command {
    fn options(&self) -> anyhow::Result<Options> {
        if !self.rate.is_finite() || self.rate <= 0.0 {
            return Err(Misused(format!("--rate is {}, and must be a number above 0", self.rate)).into());
        }
        let selector = self.selector.as_deref().map(LabelSelector::parse).transpose();
        let selector = selector.map_err(|error| Misused(format!("--selector can't be read\n  because {error}")))?;
        let stuck = match (self.skip_unmovable, self.force) {
            (true, _) => Stuck::Skip,
            (_, true) => Stuck::Force,
            _ => Stuck::Refuse,
        };
        Ok(Options {
            namespace: self.namespace.clone(),
            kinds: self.kind.clone(),
            selector,
            check: match self.pre_scheduling_check {
                PreCheck::Strict => Check::Strict,
                PreCheck::Relaxed => Check::Relaxed,
                PreCheck::Off => Check::Off,
            },
            purge_mode: match self.purge_mode {
                Purge::Gracefully => PurgeMode::Gracefully,
                Purge::Directly => PurgeMode::Directly,
            },
            rate: self.rate,
            health: if self.ignore_health { Health::Ignored } else { Health::Heeded },
            stuck,
            ..Options::new(&self.cluster)
        })
    }
}

/// Runs the command.
///
/// # Errors
/// If the cluster can't be drained, or something is left on it.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    let options = command.options()?;
    let plane = command.plane.client().await?;
    let (settings, kubeconfig) = (crate::leader::settings(&plane).await, command.plane.kubeconfig().ok());
    let options = Options { settings, kubeconfig, ..options };
    let name = options.cluster.clone();
    if command.abort {
        let before = find(&plane, &name).await?;
        abort(&plane, &name).await?;
        return print::out(&aborted(&name, &before));
    }
    if command.status || command.dry_run != DryRun::None {
        let cluster = find(&plane, &name).await?;
        let survey = preview(&plane, &options, clock, print::note).await?;
        print::out(&shown(command, &survey, &cluster)?)?;
        let refused = refused(&options, &survey).filter(|_| !command.status);
        return refused.map_or(Ok(()), |(stuck, total)| {
            Err(DrainError::WouldRefuse { name: name.to_string(), stuck, total }.into())
        });
    }
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => {
            print::note(&format!(
                "error: the drain of cluster {name} was interrupted\n  because you asked for it; what moved goes on\n  \
                 try: ironclad drain {name}, to go on; or --status"
            ));
            Err(Exit(INTERRUPTED).into())
        }
        drained = drain(&plane, clock, &options, command) => drained,
    }
}

/// Result of `--abort`, by the cluster before it.
fn aborted(name: &ClusterName, before: &Cluster) -> String {
    let cordoned =
        if Cordon::Close.applied(&before.spec.taints).is_none() { "it stays cordoned" } else { "it is not cordoned" };
    match draining_since(before) {
        Some(_) => format!("the drain of cluster {name} is ended; {cordoned}\n"),
        None => format!("no drain of cluster {name} is under way; {cordoned}\n"),
    }
}

async fn drain(plane: &Client, clock: &Clock, options: &Options, command: &Command) -> anyhow::Result<()> {
    let progress = whole(plane, clock, options, command.wait, command.timeout, print::note).await?;
    let moved = count(progress.evicted, "binding");
    print::out(&(finished(&options.cluster, &moved, progress.waiting) + "\n"))
}

/// Result of a drain: without `--wait` old copies may remain.
fn finished(name: &ClusterName, moved: &str, waiting: usize) -> String {
    match waiting {
        0 => format!("cluster {name} drained: {moved} moved"),
        _ => format!(
            "cluster {name} is being drained: {moved} moved, {} not healthy yet\n  see: ironclad drain {name} --status",
            count(waiting, "replacement")
        ),
    }
}

/// The whole of a drain: cordons, looks, moves, waits, and looks again.
///
/// # Errors
/// If something can't be moved, or is left.
pub async fn whole(
    plane: &Client,
    clock: &Clock,
    options: &Options,
    waits: bool,
    timeout: Duration,
    mut say: impl FnMut(&str),
) -> Result<Progress, DrainError> {
    let (name, limit) = (&options.cluster, Limit::of(timeout, clock));
    cordon(plane, &name.0, Cordon::Close).await.map_err(|error| match error {
        TaintError::NotFound { name } => DrainError::NotFound { name },
        source => DrainError::Cordon { name: name.to_string(), source },
    })?;
    let survey = preview(plane, options, clock, &mut say).await?;
    say(&summary(name, &survey));
    for item in survey.stuck() {
        say(&format!("  {} {}: {}", item.word(), item.binding.key(), item.detail()));
    }
    if let Some((stuck, total)) = refused(options, &survey) {
        return Err(DrainError::Refused { name: name.to_string(), stuck, total });
    }
    begin(plane, name, clock.wall_seconds()).await?;
    let mut progress = Progress { waiting: survey.under_way.len(), ..Progress::default() };
    let mut said = String::new();
    let mut report = |report: Report<'_>| {
        let text = report.to_string();
        if text != said {
            say(&text);
            said = text;
        }
    };
    let moving = survey.moving(options.stuck);
    let mut left = evict(plane, clock, options, moving, limit, &mut progress, &mut report).await?;
    left.extend(survey.under_way);
    if waits {
        wait(plane, clock, options, left, limit, &mut progress, &mut report).await?;
    }
    let after = preview(plane, options, clock, |_| {}).await?;
    let remaining = after.remaining(options.stuck);
    if remaining.is_empty() {
        return Ok(progress);
    }
    let because: Vec<String> =
        remaining.iter().map(|item| format!("{}: {}", item.binding.key(), item.detail())).collect();
    let because = match because.len() {
        0..=5 => because.join("; "),
        more => format!("{}; and {} more", because[..5].join("; "), more - 5),
    };
    Err(DrainError::Left { name: name.to_string(), left: remaining.len(), because })
}

/// Number of bindings that prevent the drain, and of all, if any does.
fn refused(options: &Options, survey: &Survey) -> Option<(usize, usize)> {
    let stuck = survey.stuck().len();
    (stuck > 0 && options.stuck == Stuck::Refuse).then(|| (stuck, survey.evictable()))
}

fn summary(name: &ClusterName, survey: &Survey) -> String {
    let follows = survey.items.len() - survey.evictable();
    format!(
        "cluster {name}: {}, {} can be moved, {} can't, {follows} follow others, {} under way",
        count(survey.evictable(), "binding"),
        survey.evictable() - survey.stuck().len(),
        survey.stuck().len(),
        survey.under_way.len()
    )
}

fn shown(command: &Command, survey: &Survey, cluster: &Cluster) -> anyhow::Result<String> {
    let name = ClusterName::from(command.cluster.as_str());
    let since = draining_since(cluster);
    if let Some(output) = command.output.filter(|output| output.is_objects()) {
        let items: Vec<Value> = survey.items.iter().map(super::Item::to_json).collect();
        let under_way: Vec<String> = survey.under_way.iter().map(|binding| binding.key().to_string()).collect();
        let object =
            json!({ "cluster": command.cluster, "drainingSince": since, "bindings": items, "underWay": under_way });
        return print::objects(output, &[object]);
    }
    if command.output == Some(Output::Name) {
        let bindings = survey.items.iter().map(|item| &item.binding).chain(&survey.under_way);
        return Ok(bindings.map(|binding| format!("{}\n", binding.key())).collect());
    }
    let wide = command.output == Some(Output::Wide);
    let binding_name = |binding: &ironclad_fleet::Binding| wide.then(|| binding.key().name.to_string());
    let row = |item: &super::Item| {
        let (key, resource) = (item.binding.key(), &item.binding.spec().resource);
        let template = format!("{}/{}", resource.kind, resource.name);
        let mut cells = vec![key.namespace.to_string(), template, item.word().to_owned(), item.detail()];
        cells.extend(binding_name(&item.binding));
        cells
    };
    let mut rows: Vec<Vec<String>> = survey.items.iter().map(row).collect();
    for binding in &survey.under_way {
        let resource = &binding.spec().resource;
        let healthy = "waits for its replacement to be healthy".to_owned();
        let template = format!("{}/{}", resource.kind, resource.name);
        let mut cells = vec![binding.key().namespace.to_string(), template, "moved".to_owned(), healthy];
        cells.extend(binding_name(binding));
        rows.push(cells);
    }
    let mut text = match since {
        Some(since) if survey.items.is_empty() && survey.under_way.is_empty() => {
            format!("cluster {name} is drained; the drain began at {since}\n")
        }
        Some(since) => format!("the drain of cluster {name} began at {since}\n"),
        None if command.status => format!("no drain of cluster {name} is under way\n"),
        None => String::new(),
    };
    text += &(summary(&name, survey) + "\n");
    if !rows.is_empty() {
        let mut heading = vec!["NAMESPACE", "TEMPLATE", "VERDICT", "TARGET"];
        heading.extend(wide.then_some("BINDING"));
        text += &print::table(&heading, &rows);
    }
    Ok(text)
}
