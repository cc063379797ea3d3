//! Plans, each by its verb.

use ironclad_dashboard::Change;
use ironclad_seam::Clock;
use kube::Client;
use serde_json::{Value, json};

use super::actions::parsed;
use crate::{
    connect::Plane,
    plan::{
        apply,
        command::{self, Command, Format, Plan, What},
        load, preemption,
    },
    print,
    report::{Exit, Misused, WOULD_MOVE},
};

/// The consequences of a change: moves in time, or what the verb prints. Nothing is written.
pub(super) async fn look(plane: &Plane, client: &Client, clock: &Clock, change: &Change) -> anyhow::Result<Value> {
    let how = || -> anyhow::Result<command::How> {
        let mut how: command::How = parsed(&["plan".to_owned()])?;
        how.plane = plane.clone();
        Ok(how)
    };
    let source = || preemption::Source { dump: None, output: Format::Table, plane: plane.clone() };
    let plan = match change.clone() {
        Change::Loss(clusters) => return moves(What::ClusterLoss { clusters, how: how()? }, client, clock).await,
        Change::Taint(cluster, taint) => {
            return moves(What::Taint { cluster, taint, how: how()? }, client, clock).await;
        }
        Change::Rate(rate) => {
            return moves(What::Rate { at: number("rate", &rate)?, how: how()? }, client, clock).await;
        }
        Change::Apply(given) => {
            let namespace = named(given.namespace);
            let verb = apply::of_text(plane, client, &given.manifests, namespace.as_deref(), clock);
            return said(print::captured(verb).await);
        }
        Change::Preemption(namespace, name) => Plan::Preemption(Box::new(preemption::How {
            name: Some(name),
            filename: None,
            namespace: named(namespace),
            priority: None,
            source: source(),
        })),
        Change::PriorityClass(name) => {
            Plan::PriorityClass(Box::new(preemption::OfClass { name, value: None, source: source() }))
        }
        Change::Load(namespace, name, multiply) => {
            let mut how: load::How = parsed(&["load", "fhpa/NAME", "--multiply=1"].map(str::to_owned))?;
            how.resource = vec![format!("fhpa/{name}")];
            how.namespace = named(namespace);
            how.multiply = number("factor", &multiply)?;
            how.plane = plane.clone();
            Plan::Load(Box::new(how))
        }
    };
    said(print::captured(command::run(&Command { plan }, clock)).await)
}

async fn moves(what: What, client: &Client, clock: &Clock) -> anyhow::Result<Value> {
    let found = command::consequences(&what, &command::how(&what)?, Some(client), clock).await?;
    Ok(json!({ "plan": found }))
}

/// The output of a verb. Its exit code says whether something would change.
fn said((done, text): (anyhow::Result<()>, String)) -> anyhow::Result<Value> {
    let changes = match done {
        Ok(()) => false,
        Err(error) if matches!(error.downcast_ref(), Some(Exit(WOULD_MOVE))) => true,
        Err(error) => return Err(error),
    };
    Ok(json!({ "text": text, "changes": changes }))
}

fn named(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn number(what: &str, text: &str) -> anyhow::Result<f64> {
    text.parse().map_err(|_| Misused(format!("the {what} {text:?} is no number")).into())
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn verbs_say_whether_something_would_change() {
        for (done, want) in [(Ok(()), false), (Err(Exit(WOULD_MOVE).into()), true)] {
            assert_eq!(said((done, "t".to_owned())).unwrap(), json!({ "text": "t", "changes": want }));
        }
        for failed in [anyhow!("no"), Exit(1).into()] {
            assert!(said((Err(failed), "t".to_owned())).is_err());
        }
    }
}
