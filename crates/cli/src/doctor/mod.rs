//! `ironclad doctor`: every invariant on the live fleet, and how ready it is for the loss of a cluster
//! (specification/operations.md 2.20, specification/failover.md 14.3, 14.4).

mod certificates;
mod clocks;
mod quotas;
mod read;

use std::time::Duration;

use ironclad_fleet::count::count;
use ironclad_fleet::{Violation, check};
use ironclad_planning::doctor::{Finding, Grade, Leader, drift, findings};
use ironclad_seam::Clock;
use kube::Client;
use serde_json::{Value, json};

use crate::{
    connect::Plane,
    evictions::observe::leader_report,
    members::{self, Member, Silent},
    print::{self, Output},
    report::{Exit, FAILED},
};

/// Check the fleet: every invariant on the live objects, and how ready it is for the loss of a cluster; certificates
/// that end soon, clocks that differ, and objects of members that somebody else changes.
///
/// The fleet is checked twice: a violation that exists only while a change propagates is not reported.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad doctor
  ironclad doctor -o json
  ironclad doctor --without-members

Exit codes: 0 nothing is broken (warnings don't count), 1 something is, or the control plane does not answer.")]
pub struct Command {
    /// Time between the first check and the second, if the first finds something
    #[arg(long, value_parser = crate::duration, default_value = "5s", value_name = "DURATION")]
    pub settle: Duration,
    /// Time for all questions to a member; members are asked at the same time
    #[arg(long, value_parser = crate::duration, default_value = "10s", value_name = "DURATION")]
    pub timeout: Duration,
    /// Check the control plane only
    #[arg(long)]
    pub without_members: bool,
    /// Output format
    #[arg(short, long, value_parser = Output::without(&[Output::Wide, Output::Name]), default_value = "table")]
    pub output: Output,
    #[command(flatten)]
    pub way: members::Way,
    #[command(flatten)]
    pub plane: Plane,
}

/// Runs the command.
///
/// # Errors
/// If the control plane does not answer; and [`Exit`] with 1 if something is broken.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    let client = command.plane.client().await?;
    let checkup = examine(command, &client, clock).await?;
    print::out(&match command.output {
        output if output.is_objects() => print::objects(output, &[checkup.told()])?,
        _ => print::drawn(rendered(&checkup)),
    })?;
    if checkup.is_broken() { Err(Exit(FAILED).into()) } else { Ok(()) }
}

/// Examines the fleet of this control plane, its members and the kubeconfig.
///
/// # Errors
/// If the control plane does not answer.
pub(crate) async fn examine(command: &Command, client: &Client, clock: &Clock) -> anyhow::Result<Checkup> {
    let kubeconfig = command.plane.kubeconfig().ok();
    let clusters = crate::plan::read::every(ironclad_runtime::Api::all(client.clone())).await?;
    let members = match command.without_members {
        true => Vec::new(),
        false => members::connect(client, kubeconfig.as_ref(), command.way, &clusters).await,
    };
    let mut checkup = check_fleet(client, clock, &members, command.settle, command.timeout).await?;
    let context = command.plane.context.as_deref();
    let now = clock.wall_seconds();
    checkup.findings.extend(kubeconfig.iter().flat_map(|file| certificates::of_kubeconfig(file, context, now)));
    checkup.findings.sort();
    Ok(checkup)
}

/// Result of a check of the fleet.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkup {
    /// Invariants that are broken, and were so at both looks.
    pub violations: Vec<Violation>,
    /// All else.
    pub findings: Vec<Finding>,
    /// Summary of the checked objects, in one line.
    pub at: String,
}

impl Checkup {
    /// The result as JSON.
    pub(crate) fn told(&self) -> Value {
        json!({ "violations": self.violations, "findings": self.findings, "looked": self.at })
    }

    /// True if something is broken. Warnings don't count.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        !self.violations.is_empty() || self.findings.iter().any(|finding| finding.grade == Grade::Broken)
    }
}

/// Looks at the fleet, and if something is wrong a second time: lists of several kinds are no snapshot, and a change
/// may be on its way.
///
/// # Errors
/// If the control plane does not answer.
pub async fn check_fleet(
    plane: &Client,
    clock: &Clock,
    members: &[Member],
    settle: Duration,
    patience: Duration,
) -> anyhow::Result<Checkup> {
    let mut seen = read::all(plane, clock, members, patience, Silent::default()).await?;
    let mut violations = check(&seen.world);
    let mut drifted = drift::of(&seen.world, &seen.interpreter);
    if !violations.is_empty() || !drifted.is_empty() {
        // One fleet at a time is held in memory.
        let silent = std::mem::take(&mut seen.silent);
        drop(seen);
        clock.sleep(settle).await;
        seen = read::all(plane, clock, members, patience, silent).await?;
        let again = check(&seen.world);
        violations.retain(|violation| again.contains(violation));
        let again = drift::of(&seen.world, &seen.interpreter);
        drifted.retain(|object, _| again.contains_key(object));
    }
    let leader = leader_report(plane).await?;
    let flags = leader.announced.is_some().then(|| leader.flags().eviction);
    let state = Leader {
        report: leader.report.as_ref(),
        rows: &leader.rows,
        flags: flags.as_ref(),
        paused: leader.paused,
        off: leader.off,
    };
    let mut all = findings(&seen.world, state, &leader.settings, clock.wall_seconds());
    all.extend(seen.findings);
    all.extend(drift::finding(&drifted));
    all.extend(read::controllers(plane, &seen.world).await?);
    let answering = members.iter().filter(|member| !seen.silent.contains(&member.name));
    all.extend(clocks::findings(plane, answering, clock, patience).await);
    all.extend(certificates::of_secrets(plane, seen.world.clusters.values(), clock.wall_seconds()).await);
    all.sort();
    let world = &seen.world;
    let objects: usize = world.members.values().map(std::collections::BTreeMap::len).sum();
    let at = format!(
        "{}, {}, {}, {}; {} in {}",
        count(world.clusters.len(), "cluster"),
        count(world.templates.len(), "template"),
        count(world.bindings.len() + world.cluster_bindings.len(), "binding"),
        count(world.works.len(), "Work"),
        count(objects, "object"),
        count(world.members.len(), "member")
    );
    Ok(Checkup { violations, findings: all, at })
}

fn rendered(checkup: &Checkup) -> String {
    let mut text = String::new();
    for violation in &checkup.violations {
        text.push_str(&format!("✗ {}\n", print::line(&violation.to_string())));
    }
    for finding in &checkup.findings {
        let mark = match finding.grade {
            Grade::Broken => "✗",
            Grade::Warning => "!",
            Grade::Note => "-",
            Grade::Fine => "✓",
        };
        text.push_str(&format!("{mark} {}\n", print::line(&finding.what)));
        if let Some(remedy) = &finding.remedy {
            text.push_str(&format!("    try: {remedy}\n"));
        }
    }
    let broken = match checkup.violations.len() {
        0 => "no invariant is broken".to_owned(),
        1 => "1 invariant is broken".to_owned(),
        several => format!("{several} invariants are broken"),
    };
    text.push_str(&format!("{broken}: {}\n", checkup.at));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_report() {
        let finding = |grade, what: &str, remedy: Option<&str>| Finding {
            grade,
            what: what.to_owned(),
            remedy: remedy.map(str::to_owned),
        };
        let mut checkup = Checkup {
            violations: vec![Violation::TaintTwice { cluster: "m1".into(), taint: "k:NoExecute".into() }],
            findings: vec![
                finding(Grade::Warning, "cluster m1 is not ready", Some("kubectl describe cluster m1")),
                finding(Grade::Note, "nothing fails over", None),
                finding(Grade::Fine, "evictions: normal", None),
            ],
            at: "1 cluster".to_owned(),
        };
        let want = "✗ cluster m1 has taint k:NoExecute twice\n! cluster m1 is not ready\n    try: kubectl describe cluster m1\n\
                    - nothing fails over\n✓ evictions: normal\n1 invariant is broken: 1 cluster\n";
        assert_eq!(rendered(&checkup), want);
        assert!(checkup.is_broken());
        checkup.violations.clear();
        assert!(!checkup.is_broken(), "warnings do not count as broken");
        assert!(rendered(&checkup).ends_with("no invariant is broken: 1 cluster\n"));
    }
}
