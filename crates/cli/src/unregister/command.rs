//! `ironclad unregister`.

use std::{path::PathBuf, time::Duration};

use ironclad_seam::Clock;
use kube::Client;

use super::{UnregisterError, find, member, plane};
use crate::{
    connect::{self, Plane},
    drain,
    dry_run::DryRun,
    print,
    register::AGENT,
    report::{Misused, answer},
    unjoin::{
        self, Cleaned, Consent, Joined, OnTimeout, Workloads, clean,
        command::{Reach, kept},
    },
    write::Mode,
};

/// Take a pull member out of the fleet.
///
/// Its workloads are removed from it by its agent; with --drain they are moved away first, with --keep-workloads they
/// go on running there. Then the Cluster is deleted, and last the agent, its rights and its credentials in the member;
/// the agent's namespace stays. The member's identity is compared with the Cluster's before anything is deleted.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad unregister member3 --cluster-kubeconfig member3.kubeconfig --kubeconfig plane.kubeconfig
  ironclad unregister member3 --cluster-kubeconfig member3.kubeconfig --kubeconfig plane.kubeconfig --drain
  ironclad unregister member3 --cluster-kubeconfig member3.kubeconfig --dry-run")]
pub struct Command {
    /// The cluster
    #[arg(value_name = "CLUSTER")]
    pub cluster: String,
    /// Kubeconfig of the member
    #[arg(long, value_name = "FILE", help_heading = "Member", required = true)]
    pub cluster_kubeconfig: PathBuf,
    /// Context in the member's kubeconfig [default: the cluster's name, or the only one]
    #[arg(long, value_name = "NAME", help_heading = "Member")]
    pub cluster_context: Option<String>,
    /// Namespace of the agent
    #[arg(short, long, value_name = "NAME", default_value = ironclad_api::namespaces::SYSTEM)]
    pub namespace: String,
    /// Name of the agent's Deployment
    #[arg(long, value_name = "NAME", default_value = AGENT)]
    pub agent_name: String,
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
    /// Kubeconfig of the control plane [default: that of the agent in the member, whose rights may not suffice]
    #[arg(long, value_name = "FILE", help_heading = "Control plane", conflicts_with = "kubeconfig")]
    pub karmada_config: Option<PathBuf>,
    #[command(flatten)]
    pub plane: Plane,
}

impl Command {
    fn consent(&self) -> Consent<'_> {
        Consent {
            cluster: &self.cluster,
            verb: "unregister",
            done: "unregistered",
            yes: self.yes,
            // Workloads that are kept need not be moved first.
            may_lose: self.no_drain || self.force || self.keep_workloads,
        }
    }

    fn mode(&self) -> Mode {
        self.dry_run.mode().unwrap_or(Mode::DryRun)
    }

    fn workloads(&self, cluster: &ironclad_api::cluster::Cluster) -> Workloads {
        if self.keep_workloads || unjoin::keeps(cluster) { Workloads::Keep } else { Workloads::Remove }
    }

    /// A client of the control plane, and whose it is. Without any flag of the control plane it is the agent's.
    async fn control_plane(&self, member: &Client) -> anyhow::Result<(Client, Identity)> {
        let mut plane = self.plane.clone();
        plane.kubeconfig = self.karmada_config.clone().or(plane.kubeconfig);
        let Plane { kubeconfig, context, user, server, token, as_user, .. } = &plane;
        let is_named =
            kubeconfig.is_some() || [context, user, server, token, as_user].iter().any(|flag| flag.is_some());
        if is_named {
            return Ok((plane.client().await?, Identity::Named));
        }
        let (kubeconfig, context) = plane::of_agent(member, &self.namespace, &self.agent_name).await?;
        let config = connect::config(kubeconfig, context.as_deref(), "agent").await?;
        Ok((connect::client(config)?, Identity::Agent))
    }
}

/// User that asks the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// The user of a kubeconfig that is named.
    Named,
    /// The agent, which sees no bindings.
    Agent,
}

/// Runs the command.
///
/// # Errors
/// If the cluster can't be removed, or the user does not confirm.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    if command.wait.is_zero() {
        return Err(Misused("--wait must be longer than 0".to_owned()).into());
    }
    let context = command.cluster_context.as_deref();
    let member = unjoin::command::member(&command.cluster_kubeconfig, context, &command.cluster).await?;
    let plane = command.control_plane(&member).await?;
    print::out(&whole(plane, &member, clock, command, print::note).await?)
}

/// Executes an unregistration with these clients; returns the text to print at its end.
///
/// # Errors
/// If the cluster can't be removed, or the user does not confirm.
pub async fn whole(
    (plane, identity): (Client, Identity),
    member: &Client,
    clock: &Clock,
    command: &Command,
    mut report: impl FnMut(&str),
) -> anyhow::Result<String> {
    let name = &command.cluster;
    let Some(cluster) = find(&plane, name).await? else {
        return leftovers(&plane, member, command, report).await;
    };
    let plane_id = unjoin::identify(&plane, Some(member), name, Some(&cluster)).await.map_err(UnregisterError::from)?;
    let workloads = command.workloads(&cluster);
    let reach = if cluster.is_ready() { Reach::Ready } else { Reach::NotReady };
    refuse(&plane, identity, command, &mut report, kept(workloads, reach)).await?;
    let joined = joined(command, &plane_id, true);
    let suffix = command.dry_run.suffix();
    if command.dry_run != DryRun::None {
        if command.dry_run == DryRun::Server {
            unjoin::would_remove(&plane, &cluster, workloads).await.map_err(UnregisterError::from)?;
            let _ = clean_member(member, command, &joined, &mut report).await?;
        }
        let drained = if command.drain { " once it is drained; see: ironclad drain --dry-run" } else { "" };
        return Ok(format!("cluster({name}) would be unregistered{suffix}{drained}\n"));
    }
    let consent = command.consent();
    consent.confirm()?;
    if command.drain {
        let options = drain::Options::new(name);
        let drained = drain::command::whole(&plane, clock, &options, true, Duration::ZERO, &mut report).await;
        drained.map_err(|error| consent.not_drained(error))?;
        consent.refuse(unjoin::impact(&plane, name).await.map_err(UnregisterError::from)?, "was not")?;
    }
    let on_timeout = if command.force { OnTimeout::RemoveFinalizers } else { OnTimeout::Report };
    let removed = unjoin::remove(&plane, clock, &cluster, workloads, command.wait, on_timeout, &mut report).await;
    removed.map_err(UnregisterError::from)?;
    if identity == Identity::Named
        && let Err((doing, error)) = member::clean_plane(&plane, name).await
    {
        report(&format!("warning: rights of the agent may be left in the control plane: {doing}: {}", answer(&error)));
    }
    match clean_member(member, command, &joined, &mut report).await {
        Ok(_) => {}
        Err(UnregisterError::Server { doing, source, .. }) if command.force => {
            report(&format!("warning: the member is not cleaned up: {doing}: {}", answer(&source)));
        }
        Err(failure) => {
            return Err(anyhow::Error::new(failure).context(format!(
                "cluster {name} is deleted, but its agent is not\n  try: the same again, which removes the rest"
            )));
        }
    }
    Ok(format!("cluster({name}) is unregistered successfully\n"))
}

fn joined<'a>(command: &'a Command, plane: &'a str, confirmed: bool) -> Joined<'a> {
    Joined { cluster: &command.cluster, plane, namespace: &command.cluster_namespace, confirmed, mode: command.mode() }
}

/// Says what loses the cluster, and refuses while bindings target it. The agent's credentials don't show bindings:
/// with them somebody has to say that replicas may be lost.
async fn refuse(
    plane: &Client,
    identity: Identity,
    command: &Command,
    report: &mut impl FnMut(&str),
    kept: &str,
) -> anyhow::Result<()> {
    let (name, consent) = (&command.cluster, command.consent());
    let was = if command.dry_run == DryRun::None { "was not" } else { "would not be" };
    match unjoin::impact(plane, name).await {
        Ok(impact) => {
            report(&format!("cluster {name}: {impact}{kept}"));
            if command.drain { Ok(()) } else { consent.refuse(impact, was) }
        }
        Err(unjoin::UnjoinError::Server { source, .. })
            if identity == Identity::Agent && matches!(&*source, kube::Error::Api(status) if status.code == 403) =>
        {
            if consent.may_lose {
                report(&format!(
                    "cluster {name}: the agent's credentials don't show the bindings that target it{kept}"
                ));
                return Ok(());
            }
            anyhow::bail!(
                "cluster {name} {was} unregistered\n  because the agent's credentials don't show the bindings that target it\n  \
                 try: --karmada-config FILE of an administrator; or --no-drain, if their replicas there may be lost at once"
            )
        }
        Err(error) => Err(UnregisterError::from(error).into()),
    }
}

/// Removes the agent first: it would make its accounts again.
async fn clean_member(
    client: &Client,
    command: &Command,
    joined: &Joined<'_>,
    report: &mut impl FnMut(&str),
) -> Result<usize, UnregisterError> {
    let (name, namespace) = (&command.cluster, &command.namespace);
    let cleaned = member::clean(client, name, namespace, &command.agent_name, command.mode()).await;
    let agent = cleaned.map_err(|(doing, error)| UnregisterError::server(name, doing, error))?;
    let accounts = clean(client, joined).await?;
    for Cleaned { left, .. } in [&agent, &accounts] {
        left.iter().for_each(|left| report(&format!("left in the member: {left}")));
    }
    Ok(agent.deleted + accounts.deleted)
}

/// Removes what an unregistration that was interrupted left in the member, if the Cluster does not exist any more.
async fn leftovers(
    plane: &Client,
    member: &Client,
    command: &Command,
    mut report: impl FnMut(&str),
) -> anyhow::Result<String> {
    let name = &command.cluster;
    let plane_id = unjoin::identify(plane, Some(member), name, None).await.map_err(UnregisterError::from)?;
    let joined = joined(command, &plane_id, false);
    if command.dry_run == DryRun::Client {
        return Ok(format!("what is left of cluster({name}) would be removed{}\n", command.dry_run.suffix()));
    }
    if command.dry_run == DryRun::None {
        command.consent().confirm()?;
    }
    if clean_member(member, command, &joined, &mut report).await? == 0 {
        return Err(UnregisterError::NotFound { name: name.clone() }.into());
    }
    if command.dry_run == DryRun::Server {
        return Ok(format!("what is left of cluster({name}) would be removed{}\n", command.dry_run.suffix()));
    }
    Ok(format!("cluster({name}) did not exist any more, what was left of it is removed\n"))
}
