//! `ironclad plan apply`: what would happen if a manifest were applied.

mod print;
pub(super) mod read;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use ironclad_interpreter::{Dependency, webhook::Webhooks};
use ironclad_planning::{
    Preemption,
    apply::{ApplyPlan, Object, Planned},
};
use ironclad_seam::Clock;
use kube::{Client, config::Kubeconfig};
use serde_json::Value;

use super::command::Format;
use crate::{
    connect::Plane,
    nodes::Asked,
    print as output,
    report::{Exit, Misused, WOULD_MOVE},
    why,
};

/// Objects to apply, and output options.
#[derive(clap::Args, Clone, Debug)]
pub struct How {
    /// The objects: YAML or JSON, - for stdin
    #[arg(short, long, required = true, value_name = "FILE")]
    pub filename: PathBuf,
    /// Namespace of objects that name none [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Read the fleet from this dump instead of a control plane; admission is not asked then
    #[arg(long, value_name = "FILE")]
    pub dump: Option<PathBuf>,
    /// Plan with feature gate PropagationPolicyPreemption on
    #[arg(long)]
    pub with_preemption: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub output: Format,
    #[command(flatten)]
    pub plane: Plane,
}

/// Runs the command.
///
/// # Errors
/// If the file or the fleet can't be read, or an object would be refused; and [`Exit`] with 3 if a copy would be made,
/// changed or taken away.
pub async fn run(how: &How, clock: &Clock) -> anyhow::Result<()> {
    let documents = super::read::dumped(&how.filename)?;
    let preemption = if how.with_preemption { Preemption::On } else { Preemption::Off };
    let (objects, found) = match &how.dump {
        Some(dump) => {
            output::note("not known without a control plane: what admission would refuse or fill in");
            let dumped_world = super::read::dumped(Path::new(dump))?;
            let namespace = how.namespace.as_deref().unwrap_or("default");
            let planned = Planned::of_dump(dumped_world, documents, namespace)?;
            let found = plan_apply(&planned, preemption, clock);
            (planned.objects, found)
        }
        None => {
            let (client, kubeconfig) = (how.plane.client().await?, how.plane.kubeconfig().ok());
            let namespace = how.namespace.as_deref();
            of_plane(&client, kubeconfig.as_ref(), documents, namespace, preemption, clock, output::note).await?
        }
    };
    let text = match how.output {
        Format::Table => print::table(&objects, &found),
        Format::Json => {
            serde_json::to_string_pretty(&serde_json::json!({"objects": objects, "foreseen": found}))? + "\n"
        }
    };
    output::out(&text)?;
    if found.is_quiet() { Ok(()) } else { Err(Exit(WOULD_MOVE).into()) }
}

/// Plans for applying these objects to the control plane. Objects without a namespace go into the given one, or that of
/// the client. Members are asked for their nodes and pods if the leader keeps accounts by node; their access is that of
/// [`members::connect`](crate::members::connect).
///
/// # Errors
/// If the control plane does not answer or would refuse one of them.
pub async fn of_plane(
    client: &Client,
    kubeconfig: Option<&Kubeconfig>,
    documents: Vec<Value>,
    namespace: Option<&str>,
    preemption: Preemption,
    clock: &Clock,
    report: impl FnMut(&str),
) -> anyhow::Result<(Vec<Object>, ApplyPlan)> {
    let (mut planned, resources) = read::live(client, documents, namespace, report).await?;
    let (mut asked, mut members) = (Vec::<Dependency>::new(), Asked::default());
    loop {
        let mut found = plan_apply(&planned, preemption, clock);
        // What is fetched may be a workload with references of its own; each is asked for once, so this ends.
        let missing: Vec<&Dependency> = found.needs.iter().filter(|need| !asked.contains(need)).collect();
        if missing.is_empty() {
            // With the nodes of some, the scheduler may try others.
            if members.ask(&planned.after, &found.unasked, client, kubeconfig, clock).await {
                planned.before.nodes.clone_from(&members.nodes);
                planned.after.nodes.clone_from(&members.nodes);
                continue;
            }
            found.nodes_unknown = members.unknown;
            return Ok((planned.objects, found));
        }
        read::fetch(&mut planned, client, &resources, &missing).await?;
        asked.extend(missing.into_iter().cloned());
    }
}

/// Prints the plan for applying these documents, as the verb does.
///
/// # Errors
/// As [`run`].
pub(crate) async fn of_text(
    plane: &Plane,
    client: &Client,
    text: &str,
    namespace: Option<&str>,
    clock: &Clock,
) -> anyhow::Result<()> {
    let documents = super::read::objects(text).map_err(|error| Misused(format!("{error:#}")))?;
    let kubeconfig = plane.kubeconfig().ok();
    let (objects, found) =
        of_plane(client, kubeconfig.as_ref(), documents, namespace, Preemption::Off, clock, output::note).await?;
    output::out(&print::table(&objects, &found))?;
    if found.is_quiet() { Ok(()) } else { Err(Exit(WOULD_MOVE).into()) }
}

fn plan_apply(planned: &Planned, preemption: Preemption, clock: &Clock) -> ApplyPlan {
    let interpreter = why::read::interpreter(clock, &planned.after.customizations, Webhooks::default());
    planned.plan_apply(preemption, &interpreter, clock.wall_seconds())
}
