//! The answers of `why` as people read them.

use ironclad_autoscaling::distributed_hpa::explain::{self as scaler, Explanation as Scaler};
use ironclad_fleet::{Because, ClusterName, because::schedule::Reason};
use ironclad_planning::{
    schedule::{Cycle, Outcome},
    why::{Answer, Explanation, Queue, because_of_cluster},
};

use crate::{plan::victims::table as preemption, print};

/// Estimates that are printed at most.
const ESTIMATES_MAX: usize = 10;

/// The whole answer.
#[must_use]
pub fn placement(explanation: &Explanation) -> String {
    let mut text = format!("{}\n", explanation.template);
    let mut lines = |name: &str, values: &[String]| {
        for (i, value) in values.iter().enumerate() {
            let name = if i == 0 { name } else { "" };
            text.push_str(&format!("  {name:<11}{value}\n"));
        }
    };
    lines("policy", &explanation.policy_lines());
    if let Some(scaler) = &explanation.autoscaler {
        lines("scaled by", &[format!("{}, in each member of {}", scaler.autoscaler, scaler.target)]);
        lines("bounds", &[format!("{} to {} replicas in all members together", scaler.min, scaler.max)]);
        lines("record", &scaler.record.iter().map(|name| format!("OverridePolicy {name}")).collect::<Vec<_>>());
        lines("conditions", &scaler.conditions.iter().map(|one| print::line(one).into_owned()).collect::<Vec<_>>());
        lines("notes", &scaler.notes);
    }
    let Some(bound) = &explanation.binding else {
        text.push_str(&explanation.autoscaler.as_ref().map(shares).unwrap_or_default());
        return text;
    };
    let made = if bound.made { "" } else { " (not created yet; this is what the decisions would come to)" };
    lines("binding", &[format!("{}, replicas {}{made}", bound.key, bound.replicas)]);
    let on = bound.clusters.iter().map(|target| match decided(explanation, &target.name).unwrap_or(target.replicas) {
        0 => target.name.clone(),
        replicas => format!("{}:{replicas}", target.name),
    });
    let on: Vec<String> = on.collect();
    lines("runs on", &[if on.is_empty() { "no cluster".to_owned() } else { on.join(", ") }]);
    lines("follows", &bound.follows.iter().map(ToString::to_string).collect::<Vec<_>>());
    let failed = bound.not_applied.iter().map(|(cluster, message)| format!("{cluster}: {}", print::line(message)));
    lines("failed", &failed.collect::<Vec<_>>());
    let leaving: Vec<String> = bound.leaving.iter().map(|(cluster, reason)| format!("{cluster}: {reason}")).collect();
    lines("has left", &leaving);
    let held: Vec<String> =
        bound.nominated.iter().map(|target| format!("{}:{}", target.name, target.replicas)).collect();
    let held = if held.is_empty() { Vec::new() } else { vec![format!("{} while others leave", held.join(", "))] };
    lines("held", &held);
    lines("kept", &explanation.last_copies.iter().map(ToString::to_string).collect::<Vec<_>>());
    lines("waits", &explanation.queue.iter().map(Queue::to_string).collect::<Vec<_>>());
    let mut estimates: Vec<String> =
        explanation.estimates.iter().take(ESTIMATES_MAX).map(ToString::to_string).collect();
    let more = explanation.estimates.len().saturating_sub(ESTIMATES_MAX);
    estimates.extend((more > 0).then(|| format!("and {more} more (-o json)")));
    lines("estimates", &estimates);
    let trigger = explanation.scheduling.iter().flat_map(|scheduling| &scheduling.trigger);
    lines("scheduler", &trigger.map(Because::to_string).collect::<Vec<_>>());
    text.push_str(&explanation.autoscaler.as_ref().map(shares).unwrap_or_default());
    let Some(scheduling) = &explanation.scheduling else { return text };
    for cycle in &scheduling.cycles {
        if let Some(group) = &cycle.group {
            text.push_str(&format!("\naffinity group {group}\n"));
        } else {
            text.push('\n');
        }
        text.push_str(&table(cycle));
        if let Some(failed) = &cycle.failed {
            text.push_str(&format!("{failed}\n"));
        }
    }
    if let Some(plan) = &explanation.preemption {
        text.push_str("\npreemption\n");
        text.push_str(&preemption(plan));
    }
    text.push('\n');
    match (&scheduling.failure, scheduling.agrees) {
        (Some(failure), _) => text.push_str(&format!("a scheduling cycle would find no cluster: {failure}\n")),
        (None, true) => text.push_str("a scheduling cycle would keep the present result\n"),
        (None, false) if !bound.made || bound.clusters.is_empty() => {
            text.push_str("a scheduling cycle would place it there\n")
        }
        (None, false) => text.push_str("a scheduling cycle would change the present result\n"),
    }
    if let Some(at) = scheduling.withdrawn {
        text.push_str(&format!("the present result is withdrawn at {at}, unless a cluster fits until then\n"));
    }
    text
}

/// Replicas that a member decided for, as recorded or reported, if it decides.
fn decided(explanation: &Explanation, cluster: &str) -> Option<i32> {
    let member = explanation.autoscaler.as_ref()?.members.get(&ClusterName::from(cluster))?;
    member.recorded.or(member.desired).or(member.current)
}

/// Prints bounds, loans and decisions of the members of an autoscaler.
fn shares(scaler: &Scaler) -> String {
    let number = |number: Option<i32>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let row = |(cluster, member): (&ClusterName, &scaler::Member)| {
        vec![
            cluster.to_string(),
            member.min.to_string(),
            member.max.to_string(),
            member.share.to_string(),
            if member.loan == 0 { "-".to_owned() } else { format!("{:+}", member.loan) },
            number(member.current),
            number(member.desired),
            number(member.recorded),
            member.notes.join("; "),
        ]
    };
    let rows: Vec<_> = scaler.members.iter().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let columns = ["CLUSTER", "MIN", "MAX", "SHARE", "LOAN", "RUNS", "WANTS", "RECORDED", "NOTES"];
    format!("\n{}", print::table(&columns, &rows))
}

/// Prints the outcome of a cycle for every cluster.
pub(crate) fn table(cycle: &Cycle) -> String {
    let row = |(cluster, outcome): (&ClusterName, &Outcome)| {
        let figure = |figure: Option<i64>| figure.map_or_else(|| "-".to_owned(), |figure| figure.to_string());
        let (verdict, replicas) = match &outcome.because {
            Reason::Target { replicas, .. } => ("target", replicas.to_string()),
            Reason::Refused { .. } => ("refused", "-".to_owned()),
            Reason::Missing { .. } => ("missing", "-".to_owned()),
            Reason::ClusterLeaving { .. } => ("leaving", "-".to_owned()),
            Reason::NotSelected { .. } => ("not selected", "-".to_owned()),
            Reason::NoShare { .. } => ("no share", "-".to_owned()),
            _ => ("fits", "-".to_owned()),
        };
        let because = match &outcome.because {
            Reason::Fits { .. } => "passes the filters; the search ended before it was chosen".to_owned(),
            other => because_of_cluster(other, cluster),
        };
        let score = figure(outcome.score);
        vec![cluster.to_string(), verdict.to_owned(), score, figure(outcome.available), replicas, because]
    };
    let rows: Vec<_> = cycle.clusters.iter().map(row).collect();
    let mut text = print::table(&["CLUSTER", "VERDICT", "SCORE", "CAPACITY", "REPLICAS", "REASON"], &rows);
    let fewer = cycle.clusters.iter().filter_map(|(cluster, outcome)| {
        let (available, without) = (outcome.available?, outcome.without_models?);
        Some(format!("{cluster} {available} instead of {without}"))
    });
    let fewer: Vec<String> = fewer.collect();
    if !fewer.is_empty() {
        text.push_str(&format!(
            "CAPACITY counts each node with the least of its grade in spec.resourceModels: {}\n",
            fewer.join(", ")
        ));
    }
    let unreported = cycle.clusters.iter().filter(|(_, outcome)| outcome.unreported).map(|(cluster, _)| &*cluster.0);
    let unreported: Vec<&str> = unreported.collect();
    match unreported.as_slice() {
        [] => {}
        [one] => text.push_str(&format!("CAPACITY: {one} has not reported its resources yet\n")),
        some => text.push_str(&format!("CAPACITY: {} have not reported their resources yet\n", some.join(", "))),
    }
    for (cluster, outcome) in &cycle.clusters {
        if let Some(until) = outcome.descheduled_until {
            text.push_str(&format!(
                "{cluster} gets no further replicas until {until}: it found no nodes for some, and the descheduler took \
                 them back\n"
            ));
        }
    }
    text
}

/// The answer for one cluster.
#[must_use]
pub fn not(explanation: &Explanation, answer: &Answer) -> String {
    let template = &explanation.template;
    let mut text = match answer.replicas {
        Some(_) if answer.not_applied.is_some() => {
            format!("{template} is placed on {}, but its copy is not applied\n", answer.cluster)
        }
        Some(0) => format!("{template} is on {}\n", answer.cluster),
        Some(replicas) => format!("{template} is on {}, replicas {replicas}\n", answer.cluster),
        None => format!("{template} is not on {}\n", answer.cluster),
    };
    if let Some(message) = &answer.not_applied {
        text.push_str(&format!("  because {}\n", print::line(message)));
    }
    for because in &answer.because {
        text.push_str(&format!("  because {because}\n"));
    }
    if let Some(remedy) = &answer.remedy {
        text.push_str(&format!("  try: {remedy}\n"));
    }
    text
}
