//! `ironclad why`: the real decisions, run again over the objects, with their reasons (specification/operations.md
//! 2.20).

mod print;
pub(crate) mod read;
pub(crate) mod services;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use anyhow::bail;
use ironclad_fleet::{ClusterName, ObjectKey, World};
use ironclad_planning::{
    Fleet, Settings,
    leader::EstimatorAnswer,
    why::{Explanation, Queue, answer, explain},
};
use ironclad_seam::Clock;
use kube::{Client, config::Kubeconfig};

pub(crate) use self::print::table as rendered_cycle;
pub use self::print::{not as rendered_not, placement as rendered};
use crate::{
    connect::Plane, evictions::why::Evicted, nodes::Asked, print as output, print::Output, report::Misused,
    resource::arguments,
};

/// Explain a placement: the decision is made again over the objects, with its reasons.
///
/// TYPE/NAME prints the policy that claims the template, the policies that were not chosen, and for every cluster why
/// the template is or is not there. fhpa/NAME prints the last round of a FederatedHPA: its metrics by cluster,
/// what each proposes, and the limits step by step. For an autoscaler that members run, and for its target, it prints
/// the bounds, loans and decisions of each member. mcs/NAME prints the providers of a MultiClusterService with their
/// addresses, which are held back and why, and what each consumer has; cluster/NAME the actions that Remedies ask.
/// Nothing is written.
#[derive(clap::Args, Debug)]
#[command(
    subcommand_negates_reqs = true,
    after_help = "Examples:
  ironclad why deploy/web
  ironclad why deployment web -n shop -o json
  ironclad why fhpa/web
  ironclad why hpa/web
  ironclad why mcs/web
  ironclad why cluster/member1
  ironclad why not member3 deploy/web
  ironclad why evicted
  ironclad why evicted -n shop deployment/web -o yaml"
)]
pub struct Command {
    #[command(subcommand)]
    pub question: Option<Question>,
    #[command(flatten)]
    pub about: About,
    #[command(flatten)]
    pub plane: Plane,
}

/// Question other than that about the placement.
#[derive(clap::Subcommand, Debug)]
pub enum Question {
    /// Why and when bindings are evicted from faulty clusters, and what would cancel it
    Evicted(Evicted),
    /// Why a template is not on one cluster, and what would change that
    #[command(after_help = "Examples:
  ironclad why not member3 deploy/web
  ironclad why not member3 deployment web -n shop")]
    Not {
        /// The cluster
        #[arg(value_name = "CLUSTER")]
        cluster: String,
        #[command(flatten)]
        about: About,
    },
}

/// Template, and output options.
#[derive(clap::Args, Clone, Debug)]
pub struct About {
    /// The template: TYPE/NAME, or TYPE and NAME
    #[arg(value_name = "TYPE/NAME", required = true, num_args = 1..=2)]
    pub resource: Vec<String>,
    /// Its namespace [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Read the fleet from this dump, - for stdin: objects or Lists as YAML or JSON
    #[arg(short, long, value_name = "FILE")]
    pub filename: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_parser = Output::without(&[Output::Wide, Output::Name]), default_value = "table")]
    pub output: Output,
}

/// Runs the command.
///
/// # Errors
/// If there is no such template, cluster or binding, or the control plane does not answer.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    if command.question.is_none()
        && let Some(asked) = services::asked(&command.about.resource)
    {
        return services::run(&asked, &command.about, &command.plane, clock).await;
    }
    match &command.question {
        Some(Question::Evicted(evicted)) => crate::evictions::why::run(evicted, &command.plane, clock).await,
        Some(Question::Not { cluster, about }) => {
            let (fleet, explanation, settings) = asked_about(about, &command.plane, clock).await?;
            let answer = answer(&explanation, &known(&fleet.world, cluster)?);
            if about.output.is_objects() {
                return output::out(&output::objects(about.output, &[serde_json::to_value(&answer)?])?);
            }
            unknown_here(settings, &fleet, &explanation.template).iter().for_each(|text| output::note(text));
            output::out(&rendered_not(&explanation, &answer))
        }
        None if is_autoscaler(&command.about) => autoscaler(&command.about, &command.plane).await,
        None => {
            let (fleet, explanation, settings) = asked_about(&command.about, &command.plane, clock).await?;
            if command.about.output.is_objects() {
                return output::out(&output::objects(command.about.output, &[serde_json::to_value(&explanation)?])?);
            }
            unknown_here(settings, &fleet, &explanation.template).iter().for_each(|text| output::note(text));
            output::out(&rendered(&explanation))
        }
    }
}

/// True if the question is about a FederatedHPA.
fn is_autoscaler(about: &About) -> bool {
    let first = about.resource.first().map(String::as_str).unwrap_or_default();
    crate::autoscaler::is_kind(first.split('/').next().unwrap_or_default())
}

/// Prints the last round of a FederatedHPA.
async fn autoscaler(about: &About, plane: &Plane) -> anyhow::Result<()> {
    if about.filename.is_some() {
        let message = "a dump has no metrics: FederatedHPAs are explained by their leader\n  try: without --filename";
        return Err(Misused(message.to_owned()).into());
    }
    let name = crate::autoscaler::named(&about.resource, "ironclad why")?;
    let client = plane.client().await?;
    let namespace = about.namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
    let report = crate::autoscaler::last_round(&client, &namespace, &name).await?;
    if about.output.is_objects() {
        return output::out(&output::objects(about.output, &[serde_json::to_value(&report)?])?);
    }
    output::out(&(report.lines().join("\n") + "\n"))
}

/// Knowledge of the leader's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaderSettings {
    /// It announces them.
    Announced,
    /// The defaults are assumed.
    Assumed,
}

/// The inputs that are not known here, if there are any.
pub(crate) fn unknown_here(settings: LeaderSettings, fleet: &Fleet, template: &ObjectKey) -> Option<String> {
    let flags = (settings == LeaderSettings::Assumed).then_some("the flags and gates of the scheduler that runs");
    let webhooks = fleet.may_ask_webhooks(&template.gvk).then_some("answers of interpreter webhooks");
    let all: Vec<&str> = flags.into_iter().chain(webhooks).collect();
    (!all.is_empty()).then(|| format!("not known here: {}", all.join(", and ")))
}

async fn asked_about(
    about: &About,
    plane: &Plane,
    clock: &Clock,
) -> anyhow::Result<(Fleet, Explanation, LeaderSettings)> {
    let [(kind, names)] =
        arguments(&about.resource)?.try_into().map_err(|_| Misused("one TYPE/NAME is explained at a time".into()))?;
    let [name] = names.as_slice() else {
        return Err(Misused(format!("{kind} without a name\n  try: ironclad why {kind}/NAME")).into());
    };
    let namespace = about.namespace.as_deref();
    let Some(file) = &about.filename else {
        let (client, kubeconfig) = (plane.client().await?, plane.kubeconfig().ok());
        return observe(&client, kubeconfig.as_ref(), clock, &kind, namespace, name).await;
    };
    let (fleet, interpreter, key) = read::dump(file, clock, &kind, namespace, name)?;
    let found = explain(&fleet, &key, &interpreter, clock.wall_seconds());
    let mut explanation = found.ok_or_else(|| anyhow::anyhow!("{key} does not exist"))?;
    if explanation.binding.as_ref().is_some_and(|binding| binding.waits) {
        explanation.queue = Some(Queue::No { because: "a dump does not hold it".to_owned() });
    }
    Ok((fleet, explanation, LeaderSettings::Assumed))
}

/// Explains the placement of a template of a control plane.
///
/// # Errors
/// If there is no such template, or the control plane does not answer.
pub(crate) async fn observe(
    client: &Client,
    kubeconfig: Option<&Kubeconfig>,
    clock: &Clock,
    kind: &str,
    namespace: Option<&str>,
    name: &str,
) -> anyhow::Result<(Fleet, Explanation, LeaderSettings)> {
    let configuration = crate::leader::configuration(client).await;
    let known = if configuration.is_ok() { LeaderSettings::Announced } else { LeaderSettings::Assumed };
    let settings = configuration.map_or_else(|_| Settings::default(), |configuration| configuration.settings());
    let (mut fleet, interpreter, key) = read::live(client, clock, kind, namespace, name, settings).await?;
    let now = clock.wall_seconds();
    let again = |fleet: &Fleet| explain(fleet, &key, &interpreter, now);
    let explanation = again(&fleet).ok_or_else(|| anyhow::anyhow!("{key} does not exist"))?;
    let mut explanation = estimate(&mut fleet, explanation, again, client, kubeconfig, clock).await;
    if let Some(binding) = explanation.binding.as_ref().filter(|binding| binding.waits) {
        explanation.queue = Some(match crate::leader::scheduling_queue(client).await {
            Ok(reported) => Queue::of(&reported, &binding.key, now),
            Err(because) => Queue::No { because },
        });
    }
    Ok((fleet, explanation, known))
}

/// Explains again with the leader's answers about the binding, of its account and of estimators over gRPC, and with the
/// nodes and pods of members of which it tells none although it keeps accounts by node.
async fn estimate(
    fleet: &mut Fleet,
    mut explanation: Explanation,
    again: impl Fn(&Fleet) -> Option<Explanation>,
    client: &Client,
    kubeconfig: Option<&Kubeconfig>,
    clock: &Clock,
) -> Explanation {
    let mut estimates = Vec::new();
    if let Some(binding) = &explanation.binding {
        estimates = crate::leader::estimates(client, &binding.key).await;
        crate::leader::take_estimates(fleet, &binding.key, &estimates);
    }
    let mut members = Asked::default();
    loop {
        explanation = again(fleet).unwrap_or(explanation);
        if !members.ask(fleet, &explanation.unasked, client, kubeconfig, clock).await {
            break;
        }
        fleet.nodes.clone_from(&members.nodes);
    }
    estimates.extend(members.unknown.into_iter().map(|(cluster, why)| EstimatorAnswer {
        cluster: cluster.to_string(),
        source: "Nodes".to_owned(),
        fits: None,
        account: None,
        age_ms: None,
        error: Some(why),
    }));
    Explanation { estimates, ..explanation }
}

/// The name of a cluster.
///
/// # Errors
/// If the fleet has no such cluster.
pub(crate) fn known(world: &World, cluster: &str) -> anyhow::Result<ClusterName> {
    let name = ClusterName::from(cluster);
    if world.clusters.contains_key(&name) {
        return Ok(name);
    }
    let all: Vec<&str> = world.clusters.keys().map(|name| &*name.0).collect();
    bail!("there is no cluster {cluster}\n  try: one of {}", all.join(", "))
}
