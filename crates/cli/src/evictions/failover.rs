//! `ironclad failover`: pauses and resumes all evictions of the fleet, and shows their state.

use ironclad_api::namespaces;
use ironclad_failover::taint_manager::PAUSE_CONFIG_MAP;
use ironclad_fleet::count::count;
use ironclad_planning::evicted::{next_episode, span};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{
    observe::{LeaderReport, leader_report},
    show,
};
use crate::{
    connect::Plane,
    dry_run::DryRun,
    print::{self, Output},
};

/// Pause or resume all evictions of the fleet, or show their state
///
/// The pause is `paused: "true"` in ConfigMap karmada-system/ironclad-failover; the leader follows it within a second.
/// It holds evictions by taints, application failover, the descheduler and preemption. What people ask for goes on:
/// drains, and changes of policies. So do bindings that were evicted before.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad failover pause
  ironclad failover status
  ironclad failover resume")]
pub struct Command {
    #[command(subcommand)]
    pub verb: Verb,
    #[command(flatten)]
    pub plane: Plane,
}

/// Action.
#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    /// Evict nothing until `resume`
    #[command(after_help = "Examples:\n  ironclad failover pause\n  ironclad failover pause --dry-run")]
    Pause {
        /// Print what would be done, without doing it
        #[arg(long, value_enum, value_name = "WHO", num_args = 0..=1, default_value_t = DryRun::None, default_missing_value = "client", require_equals = true)]
        dry_run: DryRun,
    },
    /// Evict again
    #[command(after_help = "Examples:\n  ironclad failover resume")]
    Resume {
        /// Print what would be done, without doing it
        #[arg(long, value_enum, value_name = "WHO", num_args = 0..=1, default_value_t = DryRun::None, default_missing_value = "client", require_equals = true)]
        dry_run: DryRun,
    },
    /// Show the rate in force and why, the faulty clusters, and the number of waiting evictions
    #[command(after_help = "Examples:\n  ironclad failover status\n  ironclad failover status -o json")]
    Status {
        /// Output format
        #[arg(short, long, value_parser = Output::without(&[Output::Wide, Output::Name]), default_value = "table")]
        output: Output,
    },
}

/// API of clusters, which every control plane serves and no member does.
const CLUSTERS: &str = "cluster.karmada.io/v1alpha1";

/// Runs the command.
///
/// # Errors
/// If the server is no control plane, does not answer or refuses.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    let client = command.plane.client().await?;
    match &command.verb {
        Verb::Pause { dry_run } => change(&client, EvictionSwitch::Paused, *dry_run).await,
        Verb::Resume { dry_run } => change(&client, EvictionSwitch::Running, *dry_run).await,
        Verb::Status { output } => status(&client, *output, clock).await,
    }
}

/// State of evictions that a user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionSwitch {
    /// No report.
    Paused,
    /// As the rate allows.
    Running,
}

/// Writes the ConfigMap that says so. Returns whether it said otherwise before.
///
/// # Errors
/// If the control plane does not answer or refuses.
pub async fn set(client: &Client, switch: EvictionSwitch) -> anyhow::Result<bool> {
    let before = leader_report(client).await?.paused;
    let paused = switch == EvictionSwitch::Paused;
    if before == paused {
        return Ok(false);
    }
    match write(client, paused, false).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        written => return Ok(written.map(|()| true)?),
    }
    // Whoever may write the ConfigMap need not have the right to create its namespace, unless there is none.
    let metadata = ObjectMeta { name: Some(namespaces::SYSTEM.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    match Api::all(client.clone()).create(&PostParams::default(), &namespace).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => return Err(error.into()),
    }
    write(client, paused, false).await?;
    Ok(true)
}

async fn write(client: &Client, paused: bool, dry_run: bool) -> Result<(), kube::Error> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespaces::SYSTEM);
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": PAUSE_CONFIG_MAP, "namespace": namespaces::SYSTEM },
        "data": { "paused": paused.to_string() },
    });
    let params = PatchParams { dry_run, ..PatchParams::apply("ironclad-cli").force() };
    api.patch(PAUSE_CONFIG_MAP, &params, &Patch::Apply(&map)).await.map(drop)
}

/// Fails for any other server: the ConfigMap of a pause could be written there as well.
async fn require_control_plane(client: &Client) -> Result<(), kube::Error> {
    client.list_api_group_resources(CLUSTERS).await.map(drop)
}

async fn change(client: &Client, switch: EvictionSwitch, dry_run: DryRun) -> anyhow::Result<()> {
    let (done, would) = match switch {
        EvictionSwitch::Paused => ("evictions paused", "evictions would be paused"),
        EvictionSwitch::Running => ("evictions resumed", "evictions would be resumed"),
    };
    let before = leader_report(client).await?;
    require_control_plane(client).await?;
    let same = before.paused == (switch == EvictionSwitch::Paused);
    let waits = before.report.as_ref().map_or(0, |report| report.ready + report.delayed);
    if same {
        print::out(if before.paused { "evictions are already paused\n" } else { "evictions were not paused\n" })?;
    } else if dry_run != DryRun::None {
        let is_of_server = dry_run == DryRun::Server;
        if is_of_server {
            write(client, switch == EvictionSwitch::Paused, true).await?;
        }
        let of_server = if is_of_server { "server " } else { "" };
        print::out(&format!("{would} ({of_server}dry run): {waits} wait\n"))?;
    } else {
        set(client, switch).await?;
        print::out(&format!("{done}: {waits} wait\n"))?;
        print::note("see: ironclad failover status");
    }
    Ok(())
}

async fn status(client: &Client, output: Output, clock: &Clock) -> anyhow::Result<()> {
    let leader = leader_report(client).await?;
    require_control_plane(client).await?;
    if output.is_objects() {
        let whole = json!({ "paused": leader.paused, "report": leader.report, "evictions": leader.rows });
        return print::out(&print::objects(output, &[whole])?);
    }
    print::out(&page(&leader, clock.wall_seconds()))
}

fn page(leader: &LeaderReport, now: jiff::Timestamp) -> String {
    let paused = if leader.paused { "yes" } else { "no" };
    let mut text = format!("paused     {paused}\n");
    let Some(report) = &leader.report else {
        text.push_str(&format!("leader     {}\n", leader.silence));
        return text;
    };
    text.push_str(&format!("evictions  {}\n", show::rate(report, leader.paused)));
    text.push_str(&format!("queue      {}\n", show::sums(report, now)));
    if report.episodes.is_empty() {
        let unhealthy = match report.unhealthy {
            0 => String::new(),
            some => format!("; nothing is evicted yet from {}", count(some, "unhealthy cluster")),
        };
        text.push_str(&format!("faulty     no cluster{unhealthy}\n"));
        return text;
    }
    let row = |episode: &ironclad_failover::taint_manager::EpisodeReport| {
        let state = match (episode.recovering, &episode.held) {
            (true, _) => "ready again",
            (false, Some(_)) => "limit reached",
            (false, None) => "",
        };
        vec![
            episode.cluster.clone(),
            span(episode.since, now),
            episode.evicted.to_string(),
            episode.pending.to_string(),
            episode.taints.clone(),
            state.to_owned(),
        ]
    };
    let rows: Vec<_> = report.episodes.iter().map(row).collect();
    text.push('\n');
    text.push_str(&print::table(&["FAULTY", "SINCE", "EVICTED", "WAITING", "TAINTS", "HELD"], &rows));
    for episode in &report.episodes {
        if let Some(held) = &episode.held {
            text.push_str(&format!("\nevictions from {} are held: {held}\n", episode.cluster));
            if !episode.recovering {
                text.push_str(&format!("  try: {}\n", next_episode(&episode.cluster)));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use ironclad_failover::{
        flags::eviction::{Check, Mode},
        taint_manager::{EpisodeReport as Episode, Report},
    };
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn printed_status_of_evictions() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let episode = Episode {
            id: "member1-10".into(),
            cluster: "member1".into(),
            since: at(10),
            taints: "k:NoExecute".into(),
            evicted: 12,
            pending: 28,
            recovering: false,
            held: None,
        };
        let report = Report {
            at: at(95),
            rate: 0.5,
            reached: None,
            state: "normal".into(),
            because: "the share of unhealthy clusters".into(),
            clusters: 3,
            unhealthy: 1,
            check: Check::Strict,
            mode: Mode::Enforce,
            flags: ironclad_failover::taint_manager::ReportedFlags::default(),
            ready: 26,
            held: 0,
            oldest: None,
            delayed: 1,
            parked: 1,
            drained_at: Some(at(152)),
            episodes: vec![episode],
        };
        let want = "paused     no
evictions  rate 0.5/s, normal (the share of unhealthy clusters; unhealthy clusters: 1 of 3)
queue      26 queued; the queue is empty in 52s; 1 delayed; 1 without a target

FAULTY    SINCE   EVICTED   WAITING   TAINTS        HELD
member1   1m30s   12        28        k:NoExecute
";
        let rendered = |report: Option<Report>, paused| {
            let silence = "the leader is not asked".to_owned();
            page(&LeaderReport { report, paused, silence, ..LeaderReport::default() }, at(100))
        };
        assert_eq!(rendered(Some(report.clone()), false), want);
        let slow = rendered(Some(Report { reached: Some(0.3), ..report.clone() }), false);
        assert!(slow.contains("unhealthy clusters: 1 of 3); this fleet takes 0.3/s\n"), "{slow}");
        let mut held = report.clone();
        (held.held, held.episodes[0].held) = (26, Some("evicted 3 bindings in this episode".into()));
        let held = rendered(Some(held), false);
        assert!(held.contains("queue      0 queued; 26 held; 1 delayed; 1 without a target\n"), "{held}");
        let why = "\nevictions from member1 are held: evicted 3 bindings in this episode\n  try: remove the evicting taints of cluster member1";
        assert!(held.contains("k:NoExecute   limit reached\n") && held.contains(why), "{held}");
        let quiet = Report { episodes: Vec::new(), ..report.clone() };
        let yet = rendered(Some(quiet.clone()), false);
        assert!(yet.ends_with("\nfaulty     no cluster; nothing is evicted yet from 1 unhealthy cluster\n"), "{yet}");
        let none = rendered(Some(Report { unhealthy: 0, ..quiet }), false);
        assert!(none.ends_with("\nfaulty     no cluster\n"), "{none}");
        let asked = rendered(Some(report), true);
        assert!(asked.contains("a pause was asked for and is not in force yet"), "{asked}");
        let silent = rendered(None, true);
        assert!(silent.starts_with("paused     yes\nleader     the leader is not asked"), "{silent}");
    }
}
