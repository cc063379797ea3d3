//! `ironclad why evicted`: evictions with their cause, position in the queue and expected time, and what would cancel
//! them.

use std::collections::BTreeSet;

use anyhow::bail;
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use ironclad_fleet::{Binding, BindingKey};
use ironclad_planning::{
    Fleet,
    evicted::{Answer, Decisions, Judged, explain},
};
use ironclad_seam::Clock;
use kube::Client;

use super::{
    observe::{eviction_queue, leader_report, objects},
    show,
};
use crate::{
    connect::Plane,
    leader,
    members::ASKED_MAX,
    nodes::{self, Asked},
    print::{self, Output},
    resource::is_word_for,
};

/// Selection of evictions to explain.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad why evicted
  ironclad why evicted -o wide
  ironclad why evicted -n shop web-deployment
  ironclad why evicted -n shop deployment/web")]
pub struct Evicted {
    /// Bindings by name, or templates as KIND/NAME [default: all on faulty clusters, a line each]
    #[arg(value_name = "BINDING")]
    pub names: Vec<String>,
    /// Only of this namespace [default: all]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Output format; wide explains each of all bindings in full
    #[arg(short, long, value_parser = Output::without(&[Output::Name]), default_value = "table")]
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
    let names = &names_of(names);
    for name in names {
        if !seen.bindings.iter().any(|binding| is_named(binding, name)) {
            let place = namespace.as_deref().map_or(String::new(), |namespace| format!(" in namespace {namespace}"));
            bail!("no binding {name}{place}\n  try: ironclad get rb -A");
        }
    }
    let wanted = |binding: &&Binding| names.is_empty() || names.iter().any(|name| is_named(binding, name));
    let judged = Judged::of(leader.report.as_ref(), leader.is_off().then_some(leader.silence.as_str()));
    let explained = |fleet: &Fleet| -> Vec<Answer> {
        let decisions = Decisions::of(&seen, fleet, leader.flags(), now);
        let wanted = seen.bindings.iter().filter(wanted);
        wanted.flat_map(|binding| explain(binding, &decisions, &queue.rows, &judged, !names.is_empty())).collect()
    };
    let fleet = seen.fleet(&leader.settings);
    let mut answers = explained(&fleet);
    if answers.iter().any(|answer| answer.target.is_some()) {
        answers = with_room(answers, explained, fleet, namespace.as_deref(), (plane, &client), clock).await;
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
    if answers.is_empty() && !leader.is_off() {
        print::note("taints evict no binding from a cluster");
    }
    if names.is_empty() && answers.len() > 1 && *output == Output::Table {
        print::out(&show::answers(&answers, now))?;
        print::note("each in full: -o wide, or ironclad why evicted BINDING");
        return Ok(());
    }
    let blocks: Vec<String> = answers.iter().map(|answer| answer.text(now)).collect();
    print::out(&blocks.join("\n"))
}

/// Explains again with the room that the targets have: by the leader's answers, and by the nodes and pods of members of
/// which it tells none although it keeps accounts by node.
async fn with_room(
    mut answers: Vec<Answer>,
    again: impl Fn(&Fleet) -> Vec<Answer>,
    mut fleet: Fleet,
    namespace: Option<&str>,
    (plane, client): (&Plane, &Client),
    clock: &Clock,
) -> Vec<Answer> {
    let moving = answers.iter().filter(|answer| answer.target.is_some());
    let moving: BTreeSet<BindingKey> = moving.map(|answer| answer.binding.clone()).collect();
    // Boxed, since the compiler can't prove that a stream of closures' futures is `Send`.
    let asked: Vec<BoxFuture<'_, _>> = moving.iter().map(|key| leader::estimates(client, key).boxed()).collect();
    let told: Vec<_> = stream::iter(asked).buffered(ASKED_MAX).collect().await;
    moving.iter().zip(&told).for_each(|(key, told)| leader::take_estimates(&mut fleet, key, told));
    let (mut members, kubeconfig) = (Asked::default(), plane.kubeconfig().ok());
    loop {
        answers = again(&fleet);
        let unasked = answers.iter().flat_map(|answer| answer.unasked.clone()).collect();
        if !members.ask(&fleet, &unasked, client, kubeconfig.as_ref(), clock).await {
            break;
        }
        // What is promised to workloads of other namespaces counts, too, where the leader does not say what is left.
        if namespace.is_some()
            && let Ok(all) = objects(client, None).await
        {
            fleet.world = all.fleet(&fleet.settings).world;
        }
        fleet.nodes.clone_from(&members.nodes);
    }
    members.unknown.iter().for_each(|(cluster, why)| print::note(&nodes::unknown(cluster, why)));
    answers
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ironclad_api::work::ResourceBinding;

    use super::*;

    #[test]
    fn bindings_are_found_by_their_own_or_their_templates_name() {
        let binding: ResourceBinding = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "web-deployment", "namespace": "shop"},
            "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}},
        }))
        .unwrap();
        let bound = Binding::from(Arc::new(binding));
        for (name, want) in [
            ("web-deployment", true),
            ("deployment/web", true),
            ("Deployments/web", true),
            ("deploy/web", true),
            ("sts/web", false),
            ("deployment/db", false),
            ("deployments.apps/web", true),
            ("web", false),
        ] {
            assert_eq!(is_named(&bound, name), want, "{name}");
        }
        let words = |given: &[&str]| names_of(&given.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&["deployment", "web"]), ["deployment/web"]);
        assert_eq!(words(&["web-deployment", "db-statefulset"]), ["web-deployment", "db-statefulset"]);
    }
}
