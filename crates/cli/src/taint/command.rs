//! `ironclad taint`.

use std::{io::IsTerminal as _, sync::Arc};

use anyhow::Context as _;
use ironclad_api::{Taint, cluster::Cluster};
use ironclad_fleet::count::count;
use ironclad_planning::taint::Fleet;
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use kube::ResourceExt as _;

use super::{
    change,
    edit::{Outcome, Overwrite, edited, evicting},
    find, impact,
    spec::{Request, parse},
};
use crate::{
    connect::Plane, dry_run::DryRun, evictions::observe::leader_report_if_readable, plan::read::every, print,
    report::Misused,
};

/// More evictions than these are not begun from a terminal without a question.
const QUESTION_ABOVE: usize = 20;

/// Add taints to clusters, or remove them.
///
/// NoSchedule keeps new work away. PreferNoExecute also moves the workloads whose policy has spec.failover.cluster, and
/// NoExecute all that do not tolerate it; both only while feature gate Failover is on.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad taint clusters member1 maintenance=soon:NoSchedule
  ironclad taint clusters member1 member2 example.com/power:PreferNoExecute
  ironclad taint clusters member1 maintenance=now:NoSchedule --overwrite
  ironclad taint clusters member1 maintenance-
  ironclad taint clusters member1 maintenance:NoSchedule- --dry-run")]
pub struct Command {
    /// `clusters`, their names, and then KEY[=VALUE]:EFFECT to add a taint, KEY[:EFFECT]- to remove one
    #[arg(value_name = "clusters NAME... TAINT...", required = true, num_args = 1.., allow_hyphen_values = false)]
    pub words: Vec<String>,
    /// Give taints that are there another value
    #[arg(long, num_args = 0..=1, default_missing_value = "true", default_value_t = false, require_equals = true, value_name = "BOOL")]
    pub overwrite: bool,
    /// Print what would happen, without doing it
    #[arg(long, value_enum, value_name = "WHO", num_args = 0..=1, default_value_t = DryRun::None, default_missing_value = "client", require_equals = true)]
    pub dry_run: DryRun,
    /// Don't ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub plane: Plane,
}

/// Runs the command.
///
/// # Errors
/// If the words mean nothing, or a cluster can't be changed so. Clusters before it are changed by then.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    let request = parse(&command.words).map_err(|error| Misused(error.to_string()))?;
    let overwrite = if command.overwrite { Overwrite::Allowed } else { Overwrite::Refused };
    let plane = command.plane.client().await?;
    // All clusters are read before the first is changed, so a wrong name changes nothing.
    let mut planned = Vec::new();
    for name in &request.clusters {
        let cluster = find(&plane, name).await?;
        let (taints, outcome) = edited(name, &cluster.spec.taints, &request, overwrite)?;
        planned.push((cluster, taints, outcome));
    }
    let evicted = note_impact(&plane, &request, &planned, clock).await?;
    if command.dry_run == DryRun::None && !command.yes && evicted > QUESTION_ABOVE {
        confirm(&request, evicted)?;
    }
    for (cluster, _, outcome) in planned {
        let line = one(&plane, command, &request, overwrite, cluster, outcome).await?;
        print::out(&line).context("printing")?;
    }
    Ok(())
}

/// Prints the evictions that the taints would cause; returns their number.
async fn note_impact(
    plane: &kube::Client,
    request: &Request,
    planned: &[(Cluster, Vec<Taint>, Outcome)],
    clock: &Clock,
) -> anyhow::Result<usize> {
    let Some(first) = evicting(request).into_iter().next() else { return Ok(0) };
    let leader = leader_report_if_readable(plane).await;
    let all = every(Api::<Cluster>::all(plane.clone())).await?;
    let clusters = all.into_iter().map(|cluster| (cluster.name_any().as_str().into(), Arc::new(cluster))).collect();
    let fleet = Fleet { clusters: &clusters, flags: &leader.flags(), now: clock.wall_seconds() };
    let gate = match (&leader.report, leader.is_off()) {
        (Some(_), _) => String::new(),
        (None, true) => format!("nothing is evicted now ({}); otherwise ", leader.silence),
        (None, false) => "with feature gate Failover ".to_owned(),
    };
    let mut evicted = 0;
    for (cluster, taints, _) in planned {
        let name = cluster.name_any();
        let impact = impact(plane, &name, taints, &fleet).await.context("listing the bindings")?;
        print::note(&format!("cluster {name}: {gate}{impact}\n  see: ironclad plan taint {name} {first}"));
        evicted += impact.evicted();
    }
    Ok(if leader.is_off() { 0 } else { evicted })
}

fn confirm(request: &Request, evicted: usize) -> anyhow::Result<()> {
    if !std::io::stdin().is_terminal() {
        return Ok(());
    }
    if print::confirm(&format!("taint {}, which evicts {}?", request.clusters.join(", "), count(evicted, "binding")))? {
        Ok(())
    } else {
        anyhow::bail!(
            "no cluster was tainted\n  because it was not confirmed\n  try: --yes, or --dry-run to look first"
        )
    }
}

async fn one(
    plane: &kube::Client,
    command: &Command,
    request: &Request,
    overwrite: Overwrite,
    cluster: Cluster,
    outcome: Outcome,
) -> anyhow::Result<String> {
    let name = cluster.name_any();
    let (mode, suffix) = (command.dry_run.mode(), command.dry_run.suffix());
    if let Some(mode) = mode {
        let edit = |taints: &[ironclad_api::Taint]| Ok(Some(edited(&name, taints, request, overwrite)?.0));
        change(plane, cluster, mode, edit).await?;
    }
    Ok(format!("cluster/{name} {outcome}{suffix}\n"))
}
