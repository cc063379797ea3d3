//! `ironclad why evicted`: evictions with their cause, position in the queue and expected time, and what would cancel
//! them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    time::Duration,
};

use anyhow::bail;
use ironclad_api::{
    annotations::PROCEED_WITHOUT_CLEANUP, cluster::Cluster, eviction::PRODUCER_TAINT_MANAGER, policy::PurgeMode,
};
use ironclad_failover::{
    Evictions, Flags, Now,
    flags::eviction::Mode,
    taint_manager::pre_scheduling_check::{Snapshot, candidates, has_target, peers, refusals},
    taint_manager::queue::Key,
    taint_manager::verdict::Verdict,
    taint_manager::{Row, Waiting},
};
use ironclad_fleet::{Binding, BindingKey, ClusterName, Clusters, because::eviction::NoTarget, targets};
use ironclad_planning::schedule::{fits_at_most, most};
use ironclad_scheduling::Peers;
use ironclad_seam::Clock;
use jiff::Timestamp;
use serde::Serialize;

use super::{
    observe::{EvictionQueue, LeaderReport, Objects, eviction_queue, leader_report, objects},
    show,
};
use crate::{
    connect::Plane,
    print::{self, Output},
    resource::is_word_for,
};

/// Most clusters that are named with what is against each.
const REFUSED_MAX: usize = 5;

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

/// The leader's judgement of bindings on faulty clusters, as far as it is known.
#[derive(Debug, Clone, PartialEq)]
enum Judged {
    /// It judges none, for this reason.
    Off(String),
    /// On these clusters whatever has no row stays; each with the beginning of its fault. In mode `observe` a row ends
    /// with the event that tells what would be evicted.
    Known {
        /// The faulty clusters that it knows.
        since: BTreeMap<ClusterName, Timestamp>,
        /// `--failover-mode`.
        mode: Mode,
    },
    /// No leader reports all.
    Unknown,
}

impl Judged {
    fn of(leader: &LeaderReport) -> Self {
        match &leader.report {
            None if leader.is_off => Self::Off(leader.silence.clone()),
            Some(report) if leader.is_whole() => {
                let since = report.episodes.iter().map(|one| (one.cluster.as_str().into(), one.since));
                Self::Known { since: since.collect(), mode: report.mode }
            }
            _ => Self::Unknown,
        }
    }

    /// Reason why a binding without a row stays on a cluster although its present settings would let it leave.
    fn stays(&self, cluster: &ClusterName) -> Option<String> {
        match self {
            Self::Off(why) => Some(why.clone()),
            Self::Known { since, mode: Mode::Observe } if since.contains_key(cluster) => {
                Some("--failover-mode=observe writes nothing: event WouldEvict reports what would leave".to_owned())
            }
            Self::Known { since, mode: Mode::Enforce } => {
                let since = since.get(cluster)?;
                Some(format!(
                    "the leader judged it by its settings of {since}, when the fault began; edits since then count \
                     from the next fault on"
                ))
            }
            Self::Known { .. } | Self::Unknown => None,
        }
    }
}

/// The answer for one binding on one cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    binding: BindingKey,
    resource: String,
    cluster: ClusterName,
    /// Queued, Delayed, Parked, Retrying, Held, Evicting; Leaves if its state in the queue is unknown; Left; Stays.
    state: String,
    /// Decided from the objects, because no leader reports it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    rebuilt: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<usize>,
    because: String,
    /// The settings that count, if they are not those of now.
    #[serde(skip_serializing_if = "Option::is_none")]
    frozen: Option<String>,
    /// Reason why it is parked, retried or held.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_because: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purge_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cancels: Vec<String>,
}

/// The objects, and the decisions that follow from them.
struct Decisions<'a> {
    clusters: &'a Clusters,
    bindings: BTreeMap<BindingKey, Binding>,
    /// `None` while gate `WorkloadAffinity` is off.
    peers: Option<Peers>,
    evictions: Evictions,
    now: Timestamp,
}

impl<'a> Decisions<'a> {
    fn of(seen: &'a Objects, flags: Flags, now: Timestamp) -> Self {
        Self {
            clusters: &seen.clusters,
            bindings: seen.bindings.iter().map(|binding| (binding.key(), binding.clone())).collect(),
            peers: peers(&flags.scheduler, &seen.bindings),
            evictions: seen.decisions(flags, now),
            now,
        }
    }

    fn peers_that_stay(&self, binding: &Binding, cluster: &ClusterName) -> Option<Peers> {
        let key = Key { cluster: cluster.clone(), binding: binding.key() };
        let now = Now { wall: self.now, mono: Duration::ZERO };
        let of_key = |key: &BindingKey| self.bindings.get(key).cloned();
        self.peers.as_ref().map(|peers| self.evictions.peers_that_stay(&key, peers, self.clusters, of_key, now))
    }
}

/// Explains one binding: an answer for each faulty cluster that it is on, and each that it was evicted from; with `all`
/// also where it stays.
fn explain(
    binding: &Binding,
    decisions: &Decisions<'_>,
    queue: &EvictionQueue,
    judged: &Judged,
    all: bool,
) -> Vec<Answer> {
    let Decisions { clusters, evictions, .. } = decisions;
    let spec = binding.spec();
    let resource = &spec.resource;
    let blank = |cluster: &str, state: &str, because: String| Answer {
        binding: binding.key(),
        resource: format!("{} {} {}", resource.api_version, resource.kind, resource.name),
        cluster: cluster.into(),
        state: state.to_owned(),
        rebuilt: false,
        place: None,
        because,
        frozen: None,
        waits_because: None,
        since: None,
        due: None,
        expected: None,
        purge_mode: None,
        target: None,
        cancels: Vec::new(),
    };
    let mut answers = Vec::new();
    for task in spec.graceful_eviction_tasks.iter().filter(|task| task.producer == PRODUCER_TAINT_MANAGER) {
        let mut answer = blank(&task.from_cluster, "Left", format!("{}: {}", task.reason, task.message));
        answer.since = task.creation_timestamp.as_ref().map(|time| time.0);
        answer.purge_mode = task.purge_mode.map(|mode| format!("{mode:?}"));
        answer.cancels = vec![
            match (spec.clusters.is_empty(), waits_for_source(binding, &task.from_cluster, clusters)) {
                (_, true) => {
                    answer.because.push_str(
                        "; the new copy waits until the old one is deleted, which an unreachable cluster can't do",
                    );
                    format!(
                        "the wait for the old copy: annotation {PROCEED_WITHOUT_CLEANUP}=true on the binding, once nothing \
                     runs there any more"
                    )
                }
                (true, false) => {
                    format!("{} recovers, or another cluster can take it: it is placed there then", task.from_cluster)
                }
                (false, false) => "nothing: the migration goes on until the new copy is healthy".to_owned(),
            },
        ];
        answers.push(answer);
    }
    if all && spec.placement.is_none() && !spec.required_by.is_empty() {
        let followed: Vec<String> = spec.required_by.iter().map(|by| format!("{}/{}", by.namespace, by.name)).collect();
        for target in targets::targets(spec) {
            let because = format!("it follows the workload of {}, and leaves with it", followed.join(", "));
            answers.push(blank(&target.cluster.0, "Stays", because));
        }
        return answers;
    }
    let key = binding.key();
    for target in &spec.clusters {
        let name = ClusterName::from(target.name.as_str());
        let Some(verdict) = evictions.verdict(&name, binding) else { continue };
        let is_it = |row: &&Row| row.binding == key && row.cluster == name;
        let reported = queue.reported.iter().find(is_it);
        let row = reported.or_else(|| queue.rebuilt.iter().find(is_it));
        if let Judged::Off(why) = judged {
            answers.push(blank(&target.name, "Stays", why.clone()));
            continue;
        }
        let mut answer = match (verdict, row) {
            (Ok(Verdict::Goes { causes, purge_mode }), row) => {
                if let Some(why) = row.is_none().then(|| judged.stays(&name)).flatten() {
                    answers.push(blank(&target.name, "Stays", why));
                    continue;
                }
                let mut answer = blank(&target.name, "Leaves", causes.taints().join(", "));
                answer.due = Some(causes.due());
                answer.purge_mode = Some(format!("{purge_mode:?}"));
                answer
            }
            // The leader judged it by other settings than those of now.
            (Ok(Verdict::Stays(reason)) | Err(reason), Some(_)) => {
                let mut answer = blank(&target.name, "Leaves", String::new());
                answer.frozen = Some(format!(
                    "by its settings when the fault began; by those of now it would stay ({reason}), which counts from \
                     the next fault on"
                ));
                answer
            }
            (Err(reason), None) => {
                answers.push(blank(&target.name, "Stays", reason.to_string()));
                continue;
            }
            (Ok(Verdict::Stays(reason)), None) => {
                if all {
                    answers.push(blank(&target.name, "Stays", reason.to_string()));
                }
                continue;
            }
        };
        answer.target = Some(target_of(binding, &name, decisions, row));
        answer.cancels = cancels(&name, row);
        if let Some(row) = row {
            // Settings that the leader recorded at the start of the episode, not those of the objects now.
            answer.state = row.state.to_string();
            (answer.place, answer.since, answer.expected) = (row.position, row.since, row.expected);
            (answer.due, answer.because) = (Some(row.due), row.causes.join(", "));
            answer.purge_mode = Some(row.purge_mode.clone());
            answer.rebuilt = reported.is_none();
            answer.waits_because.clone_from(&row.because);
        }
        answers.push(answer);
    }
    answers
}

/// True if the new copy waits until the old one in this cluster is deleted.
fn waits_for_source(binding: &Binding, from: &str, clusters: &Clusters) -> bool {
    let spec = binding.spec();
    let is_ready = clusters.get(&ClusterName::from(from)).is_some_and(|cluster| cluster.is_ready());
    let directly = spec.eviction(from).is_some_and(|task| task.purge_mode == Some(PurgeMode::Directly));
    directly && !is_ready && targets::waits_for_source(spec, binding.metadata(), is_ready)
}

fn target_of(binding: &Binding, from: &ClusterName, decisions: &Decisions<'_>, row: Option<&Row>) -> String {
    let Decisions { clusters, evictions, now, .. } = decisions;
    // The leader knows the capacity of the clusters, too.
    if let Some(why) = row.filter(|row| row.state == Waiting::Parked).and_then(|row| row.because.as_ref())
        && !why.contains(&NoTarget::NoCandidate.to_string())
    {
        return format!("none: {}", why.trim_start_matches("no available target cluster: "));
    }
    let peers = decisions.peers_that_stay(binding, from);
    let snapshot = Snapshot { clusters, scheduler: &evictions.flags().scheduler, peers: peers.as_ref(), now: *now };
    let left_out = BTreeSet::from([from.clone()]);
    let check = evictions.flags().eviction.pre_scheduling_check;
    match has_target(binding, &left_out, &snapshot, check) {
        Err(why @ NoTarget::NoCandidate) => {
            let refused = refusals(binding, &left_out, &snapshot);
            let more = refused.len().saturating_sub(REFUSED_MAX);
            let named = refused.iter().take(REFUSED_MAX).map(|(cluster, why)| format!("{cluster} {why}"));
            let mut named = named.collect::<Vec<_>>().join("; ");
            if more > 0 {
                let _ = write!(named, "; and {more} more");
            }
            if named.is_empty() { format!("none: {why}") } else { format!("none: {why} ({named})") }
        }
        Err(why) => format!("none: {why}"),
        Ok(()) => {
            let everywhere = ironclad_api::policy::Placement::default();
            let placement = binding.spec().placement.as_deref().unwrap_or(&everywhere);
            let found = candidates(binding, placement, &left_out, &snapshot);
            let spec = binding.spec();
            let moving = i64::from(spec.target(&from.0).map_or(0, |target| target.replicas));
            let (most, options) = (most(clusters), &evictions.flags().scheduler);
            let named = |cluster: &&std::sync::Arc<Cluster>| {
                let name = cluster.metadata.name.clone()?;
                let fits = fits_at_most(&most, spec, &name.as_str().into(), options).filter(|fits| *fits < moving);
                Some(
                    fits.map_or(name.clone(), |fits| format!("{name} (at most {fits} of {moving} replicas can start)")),
                )
            };
            let names: Vec<String> = found.iter().filter_map(named).take(5).collect();
            let more = found.len().saturating_sub(names.len());
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{}{more}", names.join(", "))
        }
    }
}

fn cancels(cluster: &ClusterName, row: Option<&Row>) -> Vec<String> {
    let mut ways =
        vec![format!("{cluster} recovers and its taints are removed"), "`ironclad failover pause` holds it".to_owned()];
    match row.map(|row| row.state) {
        Some(Waiting::Parked) => ways.insert(0, "it is evicted only when another cluster can take it".to_owned()),
        // Nothing leaves a held cluster, so that a pause changes nothing.
        Some(Waiting::Held) => drop(ways.pop()),
        _ => {}
    }
    ways
}

impl Answer {
    fn rank(&self) -> u8 {
        match self.state.as_str() {
            "Evicting" => 0,
            "Queued" => 1,
            "Delayed" | "Retrying" | "Leaves" => 2,
            "Held" => 3,
            "Parked" => 4,
            "Left" => 5,
            _ => 6,
        }
    }

    fn text(&self, now: Timestamp) -> String {
        let verb = match self.state.as_str() {
            "Left" => "has left",
            "Stays" => "stays on",
            _ => "leaves",
        };
        let mut text = format!("{} ({}) {verb} {}\n", self.binding, self.resource, self.cluster);
        let mut line = |name: &str, value: String| text.push_str(&format!("  {name:<9}{value}\n"));
        line("because", self.because.clone());
        if let Some(frozen) = &self.frozen {
            line("judged", frozen.clone());
        }
        if !["Left", "Stays"].contains(&self.state.as_str()) {
            let place = self.place.map_or(String::new(), |place| format!(", position {place}"));
            let since = self.since.map_or(String::new(), |since| format!(", for {}", show::span(since, now)));
            let by = if self.rebuilt { " (by the objects; no leader reports)" } else { "" };
            line("state", format!("{}{place}{since}{by}", self.state));
            if let Some(because) = &self.waits_because {
                line("waits", because.clone());
            }
            if self.state == "Held" && self.waits_because.as_ref().is_some_and(|why| why.contains("--max-evictions")) {
                line("try", show::next_episode(&self.cluster.0));
            }
        }
        if let Some(due) = self.due {
            let in_words = if due <= now { "now".to_owned() } else { format!("in {}", show::span(now, due)) };
            line("due", format!("{due} ({in_words})"));
        }
        match self.expected {
            Some(at) => line("expected", format!("{at} (in {})", show::span(now, at))),
            None if self.due.is_some() => line("expected", "not before something changes".to_owned()),
            None => {}
        }
        if let Some(mode) = &self.purge_mode {
            line("copy", mode.clone());
        }
        if let Some(target) = &self.target {
            line("target", target.clone());
        }
        for way in &self.cancels {
            line("cancel", way.clone());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ironclad_api::{
        Taint, Time,
        cluster::{APIEnablement, APIResource, Cluster, ClusterSpec},
        conditions::{self, cluster::READY},
        policy::{Placement, SpreadByField, SpreadConstraint},
        taints::{NO_EXECUTE, PREFER_NO_EXECUTE},
        work::{
            GracefulEvictionTask, ObjectReference, ResourceBinding, ResourceBindingSpec, TargetCluster,
            WorkloadAffinityGroups,
        },
    };

    use ironclad_failover::Flags;

    use super::{super::observe::Objects, *};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn cluster(name: &str, status: &str, taint: Option<&str>) -> (ClusterName, Arc<Cluster>) {
        let mut cluster = Cluster::new(name, ClusterSpec::default());
        let of = |effect: &str| Taint {
            key: "k".into(),
            effect: effect.to_owned(),
            value: None,
            time_added: Some(Time(at(1_000))),
        };
        cluster.spec.taints = taint.into_iter().map(of).collect();
        let ready = conditions::condition(READY, status, "Because", "");
        let resources = vec![APIResource { name: "deployments".into(), kind: "Deployment".into() }];
        let apis = vec![APIEnablement { group_version: "apps/v1".into(), resources }];
        let state = cluster.status.get_or_insert_default();
        (state.conditions, state.api_enablements) = (vec![ready], apis.into());
        (name.into(), Arc::new(cluster))
    }

    fn binding() -> ResourceBinding {
        let spread = SpreadConstraint {
            spread_by_field: Some(SpreadByField::Cluster),
            min_groups: 1,
            ..SpreadConstraint::default()
        };
        let target = TargetCluster { name: "member1".into(), replicas: 2, components: vec![] };
        let resource = ObjectReference {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: "shop".into(),
            name: "web".into(),
            ..ObjectReference::default()
        };
        let mut binding = ResourceBinding::new(
            "web-deployment",
            ResourceBindingSpec {
                resource,
                replicas: 2,
                clusters: vec![target],
                placement: Some(Placement { spread_constraints: vec![spread], ..Placement::default() }.into()),
                ..ResourceBindingSpec::default()
            },
        );
        binding.metadata.namespace = Some("shop".into());
        binding.metadata.labels =
            Some([(ironclad_api::labels::PROPAGATION_POLICY_PERMANENT_ID.to_owned(), "id".to_owned())].into());
        binding
    }

    fn world(effect: &str, binding: ResourceBinding) -> Objects {
        let clusters = [
            cluster("member1", "False", Some(effect)),
            cluster("member2", "True", None),
            cluster("member3", "True", None),
        ];
        Objects {
            clusters: clusters.into_iter().collect(),
            policies: vec![],
            bindings: vec![Binding::from(Arc::new(binding))],
        }
    }

    fn decisions(seen: &Objects) -> Decisions<'_> {
        Decisions { now: at(1_000), ..Decisions::of(seen, Flags::default(), at(1_010)) }
    }

    fn answers(seen: &Objects, queue: &EvictionQueue) -> Vec<Answer> {
        explain(&seen.bindings[0], &decisions(seen), queue, &Judged::Unknown, true)
    }

    fn known(mode: Mode) -> Judged {
        Judged::Known { since: [("member1".into(), at(1_000))].into(), mode }
    }

    #[test]
    fn bindings_are_told_as_the_leader_judged_them() {
        let leaves = || world(NO_EXECUTE, binding());
        let stays = || world(PREFER_NO_EXECUTE, binding());
        let now = ironclad_failover::Now { wall: at(1_010), mono: std::time::Duration::ZERO };
        let row = leaves().decisions(Flags::default(), at(1_010)).report(now).rows.remove(0);
        let off = || Judged::Off("no evictions are decided: feature gate Failover is off".into());
        let limit = Row { state: Waiting::Held, because: Some("--max-evictions-per-episode".into()), ..row.clone() };
        for (name, seen, row, judged, state, want) in [
            ("queued", leaves(), Some(&row), known(Mode::Enforce), "Queued", "because  k:NoExecute"),
            (
                "tolerated since the fault began: it leaves all the same",
                stays(),
                Some(&row),
                known(Mode::Enforce),
                "Queued",
                "judged   by its settings when the fault began; by those of now it would stay (",
            ),
            (
                "its toleration was removed since the fault began: it stays",
                leaves(),
                None,
                known(Mode::Enforce),
                "Stays",
                "because  the leader judged it by its settings of 1970-01-01T00:16:40Z, when the fault began",
            ),
            ("observed", leaves(), None, known(Mode::Observe), "Stays", "event WouldEvict reports what would leave"),
            ("the gate is off", leaves(), None, off(), "Stays", "because  no evictions are decided: feature gate"),
            ("the gate is off, tolerated", stays(), None, off(), "Stays", "because  no evictions are decided"),
            (
                "a fault that the leader has not seen yet",
                leaves(),
                None,
                Judged::Known { since: BTreeMap::new(), mode: Mode::Enforce },
                "Leaves",
                "because  k:NoExecute",
            ),
            ("no leader reports", leaves(), None, Judged::Unknown, "Leaves", "because  k:NoExecute"),
            ("held", leaves(), Some(&limit), known(Mode::Enforce), "Held", "try      remove the evicting taints of"),
        ] {
            let queue = EvictionQueue { reported: row.cloned().into_iter().collect(), ..EvictionQueue::default() };
            let answers = explain(&seen.bindings[0], &decisions(&seen), &queue, &judged, true);
            let text = answers[0].text(at(1_012));
            assert_eq!((answers.len(), answers[0].state.as_str()), (1, state), "{name}: {text}");
            assert!(text.contains(want), "{name}: {text}");
        }
    }

    #[test]
    fn targets_whose_nodes_are_smaller_than_a_pod_are_told() {
        let mut large = binding();
        large.spec.replica_requirements =
            serde_json::from_value(serde_json::json!({"resourceRequest": {"cpu": "3"}})).unwrap();
        let mut seen = world(NO_EXECUTE, large);
        let member = Arc::make_mut(seen.clusters.get_mut(&ClusterName::from("member2")).unwrap());
        member.spec.resource_models = serde_json::from_value(serde_json::json!([
            {"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "2"}]},
            {"grade": 1, "ranges": [{"name": "cpu", "min": "2", "max": "64"}]},
        ]))
        .unwrap();
        member.status.as_mut().unwrap().resource_summary = serde_json::from_value(serde_json::json!({
            "allocatable": {"cpu": "8", "pods": "40"},
            "allocatableModelings": [{"grade": 0, "count": 4}, {"grade": 1, "count": 0}],
        }))
        .unwrap();
        let answers = answers(&seen, &EvictionQueue::default());
        assert_eq!(answers[0].target.as_deref(), Some("member2 (at most 0 of 2 replicas can start), member3"));
    }

    #[test]
    fn clusters_that_can_not_take_it_are_named_with_the_reason() {
        let mut seen = world(NO_EXECUTE, binding());
        for (name, cluster) in [cluster("member2", "False", None), cluster("member3", "True", Some("NoSchedule"))] {
            seen.clusters.insert(name, cluster);
        }
        let answer = answers(&seen, &EvictionQueue::default()).remove(0);
        let want = "none: no other cluster that the affinity chooses can take it (member2 is not ready; member3 had untolerated taint {k:NoSchedule})";
        assert_eq!(answer.target.as_deref(), Some(want));
    }

    #[test]
    fn groups_of_workloads_are_asked() {
        let grouped = |name: &str, on: &str| {
            let mut grouped = binding();
            grouped.metadata.name = Some(name.to_owned());
            grouped.spec.clusters[0].name = on.to_owned();
            grouped.spec.workload_affinity_groups =
                Some(WorkloadAffinityGroups { anti_affinity_group: "db".into(), ..WorkloadAffinityGroups::default() });
            Binding::from(Arc::new(grouped))
        };
        let flags = || {
            let mut flags = Flags::default();
            flags.scheduler.workload_affinity = true;
            flags
        };
        for (name, other_on, want) in [
            ("the other one stays where it is", "member2", "member3"),
            ("the other one leaves the same cluster", "member1", "member2, member3"),
        ] {
            let mut seen = world(NO_EXECUTE, binding());
            seen.bindings = vec![grouped("one", "member1"), grouped("other", other_on)];
            let decisions = Decisions::of(&seen, flags(), at(1_010));
            let answers = explain(&seen.bindings[0], &decisions, &EvictionQueue::default(), &Judged::Unknown, true);
            assert_eq!(answers[0].target.as_deref(), Some(want), "{name}");
        }
    }

    #[test]
    fn evictions_are_explained() {
        let seen = world(NO_EXECUTE, binding());
        let evictions = seen.decisions(Flags::default(), at(1_010));
        let now = ironclad_failover::Now { wall: at(1_010), mono: std::time::Duration::ZERO };
        let mut report = evictions.report(now);
        report.rows[0].expected = Some(at(1_052));
        let reported = EvictionQueue { reported: report.rows, ..EvictionQueue::default() };
        let text = answers(&seen, &reported)[0].text(at(1_012));
        assert_eq!(
            text,
            "shop/web-deployment (apps/v1 Deployment web) leaves member1
  because  k:NoExecute
  state    Queued, position 1, for 2s
  due      1970-01-01T00:16:40Z (now)
  expected 1970-01-01T00:17:32Z (in 40s)
  copy     Gracefully
  target   member2, member3
  cancel   member1 recovers and its taints are removed
  cancel   `ironclad failover pause` holds it
"
        );
        let alone = &answers(&seen, &EvictionQueue::default())[0];
        assert_eq!(
            (alone.state.as_str(), alone.place, alone.expected),
            ("Leaves", None, None),
            "position and time are known by the leader only"
        );
        let by_objects = EvictionQueue { rebuilt: seen.rows(Flags::default(), at(1_010)), ..EvictionQueue::default() };
        let rebuilt = &answers(&seen, &by_objects)[0];
        assert_eq!(
            (rebuilt.state.as_str(), rebuilt.place, rebuilt.expected, rebuilt.rebuilt),
            ("Queued", Some(1), Some(at(1_050)), true),
            "a new leader warms up for 40 s"
        );
        let text = rebuilt.text(at(1_012));
        assert!(text.contains("  state    Queued, position 1 (by the objects; no leader reports)\n"), "{text}");
    }

    #[test]
    fn bindings_that_are_not_evicted_are_explained() {
        let stays = answers(&world(PREFER_NO_EXECUTE, binding()), &EvictionQueue::default());
        assert_eq!(stays[0].state, "Stays");
        assert!(stays[0].text(at(0)).contains("has no failover.cluster"), "{}", stays[0].text(at(0)));
        let mut nowhere = binding();
        nowhere.spec.placement.as_mut().unwrap().spread_constraints[0].min_groups = 3;
        let answers = answers(&world(NO_EXECUTE, nowhere), &EvictionQueue::default());
        assert_eq!(
            answers[0].target.as_deref(),
            Some("none: its spread constraint wants 3 groups by cluster, left: 2")
        );
    }

    #[test]
    fn finished_evictions_are_explained() {
        let mut left = binding();
        left.spec.clusters.clear();
        left.spec.graceful_eviction_tasks = vec![GracefulEvictionTask {
            from_cluster: "member1".into(),
            reason: "TaintUntolerated".into(),
            message: "taints k:NoExecute".into(),
            producer: PRODUCER_TAINT_MANAGER.into(),
            ..GracefulEvictionTask::default()
        }];
        let text = answers(&world(NO_EXECUTE, left), &EvictionQueue::default())[0].text(at(0));
        assert!(text.starts_with("shop/web-deployment (apps/v1 Deployment web) has left member1\n  because  TaintUntolerated: taints k:NoExecute\n"), "{text}");
    }

    #[test]
    fn bindings_are_found_by_their_own_or_their_templates_name() {
        let bound = Binding::from(Arc::new(binding()));
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
