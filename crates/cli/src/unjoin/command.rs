//! `ironclad unjoin`.

use std::{path::PathBuf, time::Duration};

use ironclad_api::names::member_service_account;
use ironclad_seam::Clock;

use super::{Cleaned, Consent, Joined, OnTimeout, Workloads, clean, clean_plane, find, remove};
use crate::{
    connect::{self, Plane},
    drain,
    dry_run::DryRun,
    print,
    report::{Misused, answer},
    write::Mode,
};

/// Take a push member out of the fleet.
///
/// Its workloads are removed from it; with --drain they are moved away first, with --keep-workloads they go on running
/// there as if nobody had ever managed them. No taint is added, and nothing migrates because of this. With
/// --cluster-kubeconfig what the join put into the member is removed too, after the identity of the member was
/// compared with the Cluster's; also when the Cluster was already deleted.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad unjoin member1
  ironclad unjoin member1 --dry-run
  ironclad unjoin member1 --drain
  ironclad unjoin member1 --keep-workloads --yes
  ironclad unjoin member1 --no-drain --yes --cluster-kubeconfig member1.kubeconfig
  ironclad unjoin member1 --force --yes --wait 10s")]
pub struct Command {
    /// The cluster
    #[arg(value_name = "CLUSTER")]
    pub cluster: String,
    /// Kubeconfig of the member, to clean up there
    #[arg(long, value_name = "FILE", help_heading = "Member")]
    pub cluster_kubeconfig: Option<PathBuf>,
    /// Context in the member's kubeconfig [default: the cluster's name, or the only one]
    #[arg(long, value_name = "NAME", help_heading = "Member", requires = "cluster_kubeconfig")]
    pub cluster_context: Option<String>,
    /// Namespace of credentials in the member
    #[arg(long, value_name = "NAME", default_value = ironclad_api::namespaces::CLUSTER)]
    pub cluster_namespace: String,
    /// Move workloads away first, as `ironclad drain` does
    #[arg(long, conflicts_with = "no_drain")]
    pub drain: bool,
    /// Continue although bindings target the cluster: their replicas there are lost at once
    #[arg(long)]
    pub no_drain: bool,
    /// Keep propagated objects in the member, without our labels and annotations; the control plane also places the
    /// replicas elsewhere
    #[arg(long, conflicts_with = "drain")]
    pub keep_workloads: bool,
    /// Don't ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// Timeout until the cluster is deleted
    #[arg(long, value_parser = crate::duration, default_value = "60s", value_name = "DURATION")]
    pub wait: Duration,
    /// Continue although bindings target the cluster, and remove its finalizers if it is not deleted in time: objects
    /// may stay in the member
    #[arg(long)]
    pub force: bool,
    /// Print what would happen, without doing it
    #[arg(long, value_enum, value_name = "WHO", num_args = 0..=1, default_value_t = DryRun::None, default_missing_value = "client", require_equals = true)]
    pub dry_run: DryRun,
    #[command(flatten)]
    pub plane: Plane,
}

impl Command {
    fn consent(&self) -> Consent<'_> {
        Consent {
            cluster: &self.cluster,
            verb: "unjoin",
            done: "unjoined",
            yes: self.yes,
            // Workloads that are kept need not be moved first.
            may_lose: self.no_drain || self.force || self.keep_workloads,
        }
    }

    fn joined<'a>(&'a self, plane: &'a str, confirmed: bool) -> Joined<'a> {
        let mode = self.dry_run.mode().unwrap_or(Mode::DryRun);
        Joined { cluster: &self.cluster, plane, namespace: &self.cluster_namespace, confirmed, mode }
    }
}

/// Runs the command.
///
/// # Errors
/// If the cluster can't be removed, or the user does not confirm.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    let name = &command.cluster;
    if command.wait.is_zero() {
        return Err(Misused("--wait must be longer than 0".to_owned()).into());
    }
    let plane = command.plane.client().await?;
    let member = match &command.cluster_kubeconfig {
        Some(file) => Some(member(file, command.cluster_context.as_deref(), name).await?),
        None => None,
    };
    print::out(&whole(&plane, member.as_ref(), clock, command, print::note).await?)
}

/// Executes an unjoin with these clients; returns the text to print at its end.
///
/// # Errors
/// If the cluster can't be removed, or the user does not confirm.
pub async fn whole(
    plane: &kube::Client,
    member: Option<&kube::Client>,
    clock: &Clock,
    command: &Command,
    mut report: impl FnMut(&str),
) -> anyhow::Result<String> {
    let name = &command.cluster;
    let cluster = match (find(plane, name).await, member) {
        (Err(not_found @ super::UnjoinError::NotFound { .. }), Some(member)) => {
            return leftovers(plane, member, command, not_found, report).await;
        }
        (found, _) => found?,
    };
    let (plane_id, member) = match super::identify(plane, member, name, Some(&cluster)).await {
        Err(super::UnjoinError::Server { doing, source, .. }) if command.force => {
            report(&format!("warning: nothing is removed from the member: {doing}: {}", answer(&source)));
            (String::new(), None)
        }
        identified => (identified?, member),
    };
    if !plane_id.is_empty() && cluster.spec.id == plane_id && !command.keep_workloads && !super::keeps(&cluster) {
        return Err(super::UnjoinError::PlaneIsCluster { name: name.clone() }.into());
    }
    let impact = super::impact(plane, name).await?;
    let workloads = if command.keep_workloads || super::keeps(&cluster) { Workloads::Keep } else { Workloads::Remove };
    let reach = if cluster.is_ready() { Reach::Ready } else { Reach::NotReady };
    report(&format!("cluster {name}: {impact}{}", kept(workloads, reach)));
    let joined = command.joined(&plane_id, true);
    if command.dry_run != DryRun::None {
        let drained = if command.drain { " once it is drained; see: ironclad drain --dry-run" } else { "" };
        if !command.drain {
            command.consent().refuse(impact, "would not be")?;
        }
        if command.dry_run == DryRun::Server {
            super::would_remove(plane, &cluster, workloads).await?;
            if let Some(member) = member {
                left_in_member(&clean(member, &joined).await?, &mut report);
            }
        }
        return Ok(format!("cluster({name}) would be unjoined{}{drained}\n", command.dry_run.suffix()));
    }
    if !command.drain {
        command.consent().refuse(impact, "was not")?;
    }
    command.consent().confirm()?;
    if command.drain {
        let options = drain::Options::new(name);
        let drained = drain::command::whole(plane, clock, &options, true, Duration::ZERO, &mut report).await;
        drained.map_err(|error| command.consent().not_drained(error))?;
        command.consent().refuse(super::impact(plane, name).await?, "was not")?;
    }
    let on_timeout = if command.force { OnTimeout::RemoveFinalizers } else { OnTimeout::Report };
    remove(plane, clock, &cluster, workloads, command.wait, on_timeout, &mut report).await?;
    if (workloads, reach) == (Workloads::Remove, Reach::NotReady) && impact.works > 0 {
        report(
            "left in the member, which could not be reached: what ran there runs on until somebody removes it there",
        );
    }
    match member {
        Some(member) => match clean(member, &joined).await {
            Err(super::UnjoinError::Server { doing, source, .. }) if command.force => {
                report(&format!("warning: the member is not cleaned up: {doing}: {}", answer(&source)));
            }
            Err(failure) => {
                let again = format!("{} removes the rest", again(command));
                return Err(anyhow::Error::new(failure).context(format!(
                    "cluster {name} is deleted, but what the join made in the member is not\n  try: {again}"
                )));
            }
            Ok(cleaned) => left_in_member(&cleaned, &mut report),
        },
        None => report(&format!(
            "left in the member: ServiceAccount {}/{} with its rights and its token\n  try: {} removes them",
            command.cluster_namespace,
            member_service_account(name),
            again(command)
        )),
    }
    // Credentials are deleted with their Cluster, which owns them, except those of a join that was interrupted.
    if let Err(super::UnjoinError::Server { doing, source, .. }) =
        clean_plane(plane, name, &command.cluster_namespace).await
    {
        report(&format!("warning: credentials of cluster {name} may be left: {doing}: {}", answer(&source)));
    }
    Ok(format!("cluster({name}) is unjoined successfully\n"))
}

fn left_in_member(cleaned: &Cleaned, report: &mut impl FnMut(&str)) {
    cleaned.left.iter().for_each(|left| report(&format!("left in the member: {left}")));
}

fn again(command: &Command) -> String {
    let file = command.cluster_kubeconfig.as_ref().map_or_else(|| "FILE".to_owned(), |file| file.display().to_string());
    format!("ironclad unjoin {} --yes --cluster-kubeconfig {file}", command.cluster)
}

/// Removes the remains of a join or unjoin that was interrupted, if the Cluster does not exist any more.
async fn leftovers(
    plane: &kube::Client,
    member: &kube::Client,
    command: &Command,
    not_found: super::UnjoinError,
    mut report: impl FnMut(&str),
) -> anyhow::Result<String> {
    let name = &command.cluster;
    let plane_id = super::identify(plane, Some(member), name, None).await?;
    let joined = command.joined(&plane_id, false);
    if command.dry_run != DryRun::None {
        if command.dry_run == DryRun::Server {
            left_in_member(&clean(member, &joined).await?, &mut report);
        }
        return Ok(format!("what is left of cluster({name}) would be removed{}\n", command.dry_run.suffix()));
    }
    command.consent().confirm()?;
    let cleaned = clean(member, &joined).await?;
    left_in_member(&cleaned, &mut report);
    let in_plane = clean_plane(plane, name, &command.cluster_namespace).await?;
    if cleaned.deleted + in_plane.deleted == 0 {
        return Err(not_found.into());
    }
    Ok(format!("cluster({name}) did not exist any more, what was left of it is removed\n"))
}

/// A client of the member that leaves: by the context that is named, else the only one, else that of the cluster's
/// name.
pub(crate) async fn member(file: &PathBuf, context: Option<&str>, cluster: &str) -> anyhow::Result<kube::Client> {
    let kubeconfig = connect::read(Some(file))?;
    // The current context is not used: in a file of several clusters it may be any of them.
    let context = match (context, kubeconfig.contexts.as_slice()) {
        (Some(context), _) => context.to_owned(),
        (None, [only]) => only.name.clone(),
        (None, _) => cluster.to_owned(),
    };
    connect::client(connect::config(kubeconfig, Some(&context), "member").await?)
}

/// State of the connection to the member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Condition Ready is true.
    Ready,
    /// It is not: objects in the member can't be deleted.
    NotReady,
}

/// Announces what happens to the objects in the member, before the confirmation.
pub(crate) fn kept(workloads: Workloads, reach: Reach) -> &'static str {
    match (workloads, reach) {
        (Workloads::Keep, _) => "; its workloads stay there, unmanaged",
        (Workloads::Remove, Reach::Ready) => "; its workloads are removed from it",
        (Workloads::Remove, Reach::NotReady) => "; it is not ready: its workloads run on there, if it runs at all",
    }
}
