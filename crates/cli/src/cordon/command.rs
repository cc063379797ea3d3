//! `ironclad cordon` and `ironclad uncordon`.

use ironclad_api::cluster::Cluster;
use ironclad_runtime::Api;
use kube::api::ListParams;

use super::{Cordon, change};
use crate::{connect::Plane, drain, dry_run::DryRun, pages, print, report::Misused, taint, write::Mode};

/// Mark clusters as closed for new work.
///
/// Running workloads stay. The taint is cluster.karmada.io/unschedulable:NoSchedule.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad cordon member1
  ironclad cordon member1 member2 --dry-run
  ironclad cordon -l region=eu")]
pub struct CordonCommand {
    #[command(flatten)]
    pub which: Which,
}

/// Mark clusters as open for new work again.
///
/// Other taints stay, and workloads that left do not come back by themselves.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad uncordon member1
  ironclad uncordon -l region=eu")]
pub struct UncordonCommand {
    #[command(flatten)]
    pub which: Which,
}

/// Clusters and dry run.
#[derive(clap::Args, Debug)]
pub struct Which {
    /// The clusters
    #[arg(value_name = "CLUSTER")]
    pub clusters: Vec<String>,
    /// The clusters with these labels
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "clusters")]
    pub selector: Option<String>,
    /// Print what would happen, without doing it
    #[arg(long, value_enum, value_name = "WHO", num_args = 0..=1, default_value_t = DryRun::None, default_missing_value = "client", require_equals = true)]
    pub dry_run: DryRun,
    #[command(flatten)]
    pub plane: Plane,
}

/// Runs either verb.
///
/// # Errors
/// If no cluster is named, one is not there, or one can't be changed.
pub async fn run(which: &Which, cordon: Cordon) -> anyhow::Result<()> {
    if which.clusters.is_empty() && which.selector.is_none() {
        let verb = if cordon == Cordon::Close { "cordon" } else { "uncordon" };
        return Err(Misused(format!("cluster name is required\n  try: ironclad {verb} CLUSTER, or -l LABELS")).into());
    }
    let plane = which.plane.client().await?;
    let names = match &which.selector {
        None => which.clusters.clone(),
        // An unset variable in a script would close the whole fleet.
        Some(selector) if selector.trim().is_empty() => {
            return Err(Misused("-l has no labels\n  try: -l region=eu, or the names of the clusters".into()).into());
        }
        Some(selector) => {
            let found = pages::all(&Api::<Cluster>::all(plane.clone()), ListParams::default().labels(selector)).await?;
            found.iter().map(kube::ResourceExt::name_any).collect()
        }
    };
    if names.is_empty() {
        print::note("no cluster has these labels");
    }
    // A name that is none changes nothing.
    for name in &names {
        taint::find(&plane, name).await?;
    }
    for name in names {
        let (changed, suffix) = match which.dry_run {
            DryRun::None => (apply(&plane, &name, cordon).await?, ""),
            DryRun::Server => (change(&plane, &name, cordon, Mode::DryRun).await?, " (server dry run)"),
            DryRun::Client => (cordon.applied(&taint::find(&plane, &name).await?.spec.taints).is_some(), " (dry run)"),
        };
        print::out(&format!("{name} cluster {}{suffix}\n", cordon.outcome(changed)))?;
    }
    Ok(())
}

/// Cordons or uncordons a cluster. A cluster that takes workloads again is not being drained any more, so uncordoning
/// ends its drain.
///
/// # Errors
/// If there is no such cluster, or it can't be changed.
pub async fn apply(plane: &kube::Client, name: &str, which: Cordon) -> anyhow::Result<bool> {
    let is_changed = change(plane, name, which, Mode::Keep).await?;
    if which == Cordon::Open {
        drain::abort(plane, &name.into()).await?;
    }
    Ok(is_changed)
}
