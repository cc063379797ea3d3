//! The answers of `why` as people read them.

use ironclad_fleet::{Because, ClusterName, because::schedule::Reason};
use ironclad_planning::{
    schedule::{Outcome, Pass},
    why::{Answer, Placed, because_of_cluster},
};

use crate::print;

/// The whole answer.
#[must_use]
pub fn placement(placed: &Placed) -> String {
    let mut text = format!("{}\n", placed.template);
    let mut lines = |name: &str, values: &[String]| {
        for (i, value) in values.iter().enumerate() {
            let name = if i == 0 { name } else { "" };
            text.push_str(&format!("  {name:<11}{value}\n"));
        }
    };
    lines("policy", &placed.policy_lines());
    let Some(bound) = &placed.binding else { return text };
    let made = if bound.made { "" } else { " (not made yet; what follows is what the decisions would come to)" };
    lines("binding", &[format!("{}, replicas {}{made}", bound.key, bound.replicas)]);
    let on: Vec<String> = bound.clusters.iter().map(|target| format!("{}:{}", target.name, target.replicas)).collect();
    lines("runs on", &[if on.is_empty() { "no cluster".to_owned() } else { on.join(", ") }]);
    let leaving: Vec<String> = bound.leaving.iter().map(|(cluster, reason)| format!("{cluster}: {reason}")).collect();
    lines("has left", &leaving);
    let Some(scheduling) = &placed.scheduling else { return text };
    let turn: Vec<String> = scheduling.turn.iter().map(Because::to_string).collect();
    lines("scheduler", &turn);
    for pass in &scheduling.passes {
        if let Some(group) = &pass.group {
            text.push_str(&format!("\naffinity group {group}\n"));
        } else {
            text.push('\n');
        }
        text.push_str(&table(pass));
        if let Some(failed) = &pass.failed {
            text.push_str(&format!("{failed}\n"));
        }
    }
    text.push('\n');
    match (&scheduling.failure, scheduling.agrees) {
        (Some(failure), _) => text.push_str(&format!("a pass finds no place: {failure}\n")),
        (None, true) => text.push_str("a pass comes to the result that stands\n"),
        (None, false) if !bound.made || bound.clusters.is_empty() => text.push_str("a pass would place it there\n"),
        (None, false) => text.push_str("a pass comes to another result than the one that stands\n"),
    }
    text
}

/// What became of every cluster in a pass.
pub(crate) fn table(pass: &Pass) -> String {
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
        vec![cluster.to_string(), verdict.to_owned(), score, figure(outcome.room), replicas, because]
    };
    let rows: Vec<_> = pass.clusters.iter().map(row).collect();
    print::table(&["CLUSTER", "VERDICT", "SCORE", "ROOM", "REPLICAS", "BECAUSE"], &rows)
}

/// The answer for one cluster.
#[must_use]
pub fn not(placed: &Placed, answer: &Answer) -> String {
    let template = &placed.template;
    let mut text = match answer.replicas {
        Some(0) => format!("{template} is on {}\n", answer.cluster),
        Some(replicas) => format!("{template} is on {}, replicas {replicas}\n", answer.cluster),
        None => format!("{template} is not on {}\n", answer.cluster),
    };
    for because in &answer.because {
        text.push_str(&format!("  because {because}\n"));
    }
    if let Some(remedy) = &answer.remedy {
        text.push_str(&format!("  try: {remedy}\n"));
    }
    text
}
