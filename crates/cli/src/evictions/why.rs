//! `ironclad why evicted`: evictions with their cause, position in the queue and expected time, and what would cancel
//! them.
mod explanation;
#[cfg(test)]
mod tests;
mod text;

use anyhow::bail;
use ironclad_fleet::Binding;
use ironclad_seam::Clock;

use self::explanation::{Decisions, Judged, explain};
use super::{
    observe::{eviction_queue, leader_report, objects},
    show,
};
use crate::{
    connect::Plane,
    print::{self, Output},
    resource::is_word_for,
};

/// Selection of evictions to explain.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad why evicted
  ironclad why evicted -n shop web-deployment
  ironclad why evicted -n shop deployment/web")]
pub struct Evicted {
    /// Bindings by name, or templates as KIND/NAME [default: all on faulty clusters]
    #[arg(value_name = "BINDING")]
    pub names: Vec<String>,
    /// Only of this namespace [default: all]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// Runs the command.
///
/// # Errors
/// If a named binding does not exist, or the control plane does not answer.
pub async fn run(asked: &Evicted, plane: &Plane, clock: &Clock) -> anyhow::Result<()> {
    let Evicted { names, namespace, output } = asked;
    let client = plane.client().await?;
    let leader = leader_report(&client).await?;
    let now = clock.wall_seconds();
    let (queue, listed) = eviction_queue(&client, &leader, now).await?;
    let seen = match listed {
        Some(all) => all.of(namespace.as_deref()),
        None => objects(&client, namespace.as_deref()).await?,
    };
    let decisions = Decisions::of(&seen, leader.flags(), now);
    let names = &names_of(names);
    for name in names {
        if !seen.bindings.iter().any(|binding| is_named(binding, name)) {
            let place = namespace.as_deref().map_or(String::new(), |namespace| format!(" in namespace {namespace}"));
            bail!("no binding {name}{place}\n  try: ironclad get rb -A");
        }
    }
    let wanted = |binding: &&Binding| names.is_empty() || names.iter().any(|name| is_named(binding, name));
    let mut answers = Vec::new();
    let judged = Judged::of(&leader);
    for binding in seen.bindings.iter().filter(wanted) {
        answers.extend(explain(binding, &decisions, &queue, &judged, !names.is_empty()));
    }
    answers
        .sort_by(|a, b| (a.rank(), a.place, &a.binding, &a.cluster).cmp(&(b.rank(), b.place, &b.binding, &b.cluster)));
    if output.is_objects() {
        let items = answers.iter().map(|answer| serde_json::json!(answer)).collect();
        return print::out(&print::objects(*output, &[print::list(items)])?);
    }
    match &leader.report {
        Some(report) => print::note(&show::rate(report, leader.paused).to_string()),
        None if leader.paused => print::note("evictions are paused"),
        None => {}
    }
    queue.notes.iter().for_each(|note| print::note(note));
    if answers.is_empty() && !leader.is_off {
        print::note("taints evict no binding from a cluster");
    }
    let blocks: Vec<String> = answers.iter().map(|answer| answer.text(now)).collect();
    print::out(&blocks.join("\n"))
}

/// Names as given; `TYPE NAME` in two words is `TYPE/NAME`, as in other verbs.
fn names_of(given: &[String]) -> Vec<String> {
    match given {
        [kind, name] if is_type(kind) && !name.contains('/') => vec![format!("{kind}/{name}")],
        given => given.to_vec(),
    }
}

/// True for words that are types rather than names of bindings, which contain the kind behind a hyphen.
fn is_type(word: &str) -> bool {
    !word.contains('/') && !word.contains('-')
}

/// By the binding's own name, or by its template's as `kind/name`; `deployments.apps/web` names the group, too.
fn is_named(binding: &Binding, name: &str) -> bool {
    let resource = &binding.spec().resource;
    let by_template = name.split_once('/').is_some_and(|(kind, name)| {
        let kind = kind.split_once('.').map_or(kind, |(kind, _)| kind);
        is_word_for(kind, &resource.kind) && resource.name == name
    });
    by_template || binding.metadata().name.as_deref() == Some(name)
}
