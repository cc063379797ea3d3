//! `ironclad drain`.

use std::{collections::BTreeSet, time::Duration};

use ironclad_api::{cluster::Cluster, policy::PurgeMode};
use ironclad_failover::{drain::Health, flags::eviction::Check};
use ironclad_fleet::{Binding, BindingKey, ClusterName, count::count};
use ironclad_patch::selector::LabelSelector;
use ironclad_seam::Clock;
use kube::Client;
use serde_json::{Value, json};

use super::{
    DrainError, Limit, Options, Progress, Report, Stuck, Survey, abort, begin, close, draining_since, evict, find,
    named, named_by, preview, rehearse, wait,
};
use crate::{
    asked,
    connect::Plane,
    cordon::Cordon,
    dry_run::DryRun,
    print::{self, Output},
    report::{Exit, INTERRUPTED, Misused},
    write::Mode,
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
    /// Strictness of the check that another cluster can take a workload: relaxed (also one that runs it already may
    /// take its replicas), strict (only one that does not) or off
    #[arg(long, value_enum, default_value_t = PreCheck::Relaxed, value_name = "HOW")]
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

/// Most rounds of a drain.
const ROUNDS_MAX: usize = 10;

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
    /// Only a cluster that does not run it yet may take it.
    Strict,
    /// Clusters that run it already may take its replicas, as in the eviction queue by default.
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
        if let Some((stuck, total)) = refused {
            let (name, kept_by_strict) = (name.to_string(), survey.kept_by_strict);
            return Err(DrainError::WouldRefuse { name, stuck, kept_by_strict, total }.into());
        }
        if command.dry_run == DryRun::Server && !command.status {
            rehearse(&plane, &options, &survey.moving(options.stuck), clock.wall_seconds()).await?;
        }
        return Ok(());
    }
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => {
            print::note(&format!(
                "error: the drain of cluster {name} was interrupted\n  because you asked for it; what moved goes on\n  \
                 try: {}, to go on; or ironclad drain {name} --status",
                asked::again(std::env::args())
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
    print::out(&(finished(&options.cluster, &progress) + "\n"))
}

/// The last line of a drain: what stays, and for whose replacements it does not wait.
fn finished(name: &ClusterName, progress: &Progress) -> String {
    let moved = count(progress.evicted, "binding");
    let stays = match progress.stays.len() {
        0 => String::new(),
        1 => format!("; 1 stays: {}", named(&progress.stays)),
        several => format!("; {several} stay: {}", named(&progress.stays)),
    };
    match progress.waiting {
        0 => format!("cluster {name} drained: {moved} moved{stays}"),
        waiting => format!(
            "cluster {name} is being drained: {moved} moved, {} not healthy yet: {}{stays}\n  \
             see: ironclad drain {name} --status",
            count(waiting, "replacement"),
            named(&progress.awaited)
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
    close(plane, name, Mode::Keep).await?;
    let survey = preview(plane, options, clock, &mut say).await?;
    say(&summary(name, &survey));
    for item in survey.stuck() {
        say(&format!("  {} {}: {}", item.word(), item.binding.key(), item.detail()));
    }
    if let Some((stuck, total)) = refused(options, &survey) {
        let kept_by_strict = survey.kept_by_strict;
        return Err(DrainError::Refused { name: name.to_string(), stuck, kept_by_strict, total });
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
    let (mut survey, mut before) = (survey, BTreeSet::new());
    // What another drain moves here meanwhile, or what can go only now, is moved in a further round.
    for _ in 0..ROUNDS_MAX {
        let moving = survey.moving(options.stuck);
        let keys: BTreeSet<BindingKey> = moving.iter().map(Binding::key).collect();
        let mut left = evict(plane, clock, options, moving, limit, &mut progress, &mut report).await?;
        left.extend(std::mem::take(&mut survey.under_way));
        if waits {
            wait(plane, clock, options, left, limit, &mut progress, &mut report).await?;
        }
        survey = preview(plane, options, clock, |_| {}).await?;
        let is_new = |binding: &Binding| !keys.contains(&binding.key()) && !before.contains(&binding.key());
        if !survey.moving(options.stuck).iter().any(is_new) {
            break;
        }
        before.extend(keys);
    }
    let remaining = survey.remaining(options.stuck);
    if remaining.is_empty() {
        progress.awaits(&survey.under_way);
        progress.stays = survey.staying();
        return Ok(progress);
    }
    let because: Vec<String> =
        remaining.iter().map(|item| format!("{}: {}", item.binding.key(), item.detail())).collect();
    Err(DrainError::Left { name: name.to_string(), left: remaining.len(), because: named_by(&because, "; ") })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_what_stays_and_what_is_waited_for() {
        let names = |count: usize| (1..=count).map(|n| format!("shop/w{n}")).collect::<Vec<_>>();
        let said = |waiting: usize, stays: usize| {
            let progress =
                Progress { evicted: 7, waiting, awaited: names(waiting), stays: names(stays), ..Progress::default() };
            finished(&"m1".into(), &progress)
        };
        assert_eq!(said(0, 0), "cluster m1 drained: 7 bindings moved");
        assert_eq!(said(0, 1), "cluster m1 drained: 7 bindings moved; 1 stays: shop/w1");
        let many =
            "cluster m1 drained: 7 bindings moved; 7 stay: shop/w1, shop/w2, shop/w3, shop/w4, shop/w5, and 2 more";
        assert_eq!(said(0, 7), many);
        assert_eq!(
            said(2, 1),
            "cluster m1 is being drained: 7 bindings moved, 2 replacements not healthy yet: shop/w1, shop/w2; \
             1 stays: shop/w1\n  see: ironclad drain m1 --status"
        );
    }
}
