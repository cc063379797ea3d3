//! Explanation of the evictions of one binding: the decisions on them, taken again over the objects, beside what the
//! leader tells.

mod objects;
#[cfg(test)]
mod tests;
mod text;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{Display, Write as _},
    time::Duration,
};

use ironclad_api::{annotations::PROCEED_WITHOUT_CLEANUP, eviction::PRODUCER_TAINT_MANAGER, policy::PurgeMode};
use ironclad_failover::{
    Evictions, Flags, Now,
    flags::eviction::Mode,
    taint_manager::pre_scheduling_check::{Snapshot, candidates, has_target, peers, refusals},
    taint_manager::queue::Key,
    taint_manager::verdict::Verdict,
    taint_manager::{Report, Row, Waiting},
};
use ironclad_fleet::{Binding, BindingKey, ClusterName, Clusters, because::eviction::NoTarget, targets};
use ironclad_scheduling::Peers;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    Fleet,
    schedule::{State, unasked_of},
};

pub use objects::Objects;
pub use text::{next_episode, span};

/// Most clusters that are named with what is against each.
const REFUSED_MAX: usize = 5;
/// Most clusters that are named as targets.
const TARGETS_MAX: usize = 5;

/// The leader's judgement of bindings on faulty clusters, as far as it is known.
#[derive(Debug, Clone, PartialEq)]
pub enum Judged {
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
    /// By the leader's report, or the reason why it decides on no evictions at all.
    #[must_use]
    pub fn of(report: Option<&Report>, off: Option<&str>) -> Self {
        match (report, off) {
            (Some(report), _) => {
                let since = report.episodes.iter().map(|one| (one.cluster.as_str().into(), one.since));
                Self::Known { since: since.collect(), mode: report.mode }
            }
            (None, Some(why)) => Self::Off(why.to_owned()),
            (None, None) => Self::Unknown,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub binding: BindingKey,
    /// Its template.
    pub resource: String,
    pub cluster: ClusterName,
    /// Queued, Delayed, Parked, Retrying, Held, Evicting; Leaves if its state in the queue is unknown; Left; Stays.
    pub state: String,
    /// Decided from the objects, because no leader reports it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rebuilt: bool,
    /// Position in the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<usize>,
    /// The taints, or the reason why it stays or has left.
    pub because: String,
    /// The settings that count, if they are not those of now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen: Option<String>,
    /// Reason why it is parked, retried or held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_because: Option<String>,
    /// Since when it waits, or when it left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Due time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// Expected time of the eviction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<Timestamp>,
    /// `Gracefully` or `Directly`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purge_mode: Option<String>,
    /// Clusters to which it can go, or the reason why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Clusters whose nodes say how many replicas of the target can start, and that were not asked for them.
    #[serde(skip)]
    pub unasked: BTreeSet<ClusterName>,
    /// Reasons that would keep it, or end its wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cancels: Vec<String>,
}

/// The objects, and the decisions that follow from them.
pub struct Decisions<'a> {
    clusters: &'a Clusters,
    bindings: BTreeMap<BindingKey, Binding>,
    /// `None` while gate `WorkloadAffinity` is off.
    peers: Option<Peers>,
    fleet: &'a Fleet,
    /// Account of the fleet's capacity, as a leader that starts now has it.
    state: State,
    evictions: Evictions,
    now: Timestamp,
}

impl<'a> Decisions<'a> {
    /// Decides over the objects; the fleet has what is known of its capacity.
    #[must_use]
    pub fn of(seen: &'a Objects, fleet: &'a Fleet, flags: Flags, now: Timestamp) -> Self {
        Self {
            clusters: &seen.clusters,
            bindings: seen.bindings.iter().map(|binding| (binding.key(), binding.clone())).collect(),
            peers: peers(&flags.scheduler, &seen.bindings),
            fleet,
            state: State::of_fleet(fleet, now),
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
#[must_use]
pub fn explain(binding: &Binding, decisions: &Decisions<'_>, queue: &[Row], judged: &Judged, all: bool) -> Vec<Answer> {
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
        unasked: BTreeSet::new(),
        cancels: Vec::new(),
    };
    let (mut answers, staying) = (Vec::new(), targets::staying(spec));
    for task in spec.graceful_eviction_tasks.iter().filter(|task| task.producer == PRODUCER_TAINT_MANAGER) {
        let mut answer = blank(&task.from_cluster, "Left", format!("{}: {}", task.reason, task.message));
        answer.since = task.creation_timestamp.as_ref().map(|time| time.0);
        answer.purge_mode = task.purge_mode.map(|mode| format!("{mode:?}"));
        let stays = staying.iter().find(|copy| *copy.cluster.0 == *task.from_cluster && copy.replicas > 0);
        if let Some(copy) = stays {
            answer.because.push_str(&format!("; {}", copy.stays()));
        }
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
                (is_empty, false) if is_empty || stays.is_some() => {
                    format!("{} recovers, or another cluster can take it: it is placed there then", task.from_cluster)
                }
                (_, false) => "nothing: the migration goes on until the new copy is healthy".to_owned(),
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
        let row = queue.iter().find(|row| row.binding == key && row.cluster == name);
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
        let (target, unasked) = target_of(binding, &name, decisions, row);
        (answer.target, answer.unasked) = (Some(target), unasked);
        answer.cancels = cancels(&name, row);
        if let Some(row) = row {
            // Settings that the leader recorded at the start of the episode, not those of the objects now.
            answer.state = row.state.to_string();
            (answer.place, answer.since, answer.expected) = (row.position, row.since, row.expected);
            (answer.due, answer.because) = (Some(row.due), row.causes.join(", "));
            answer.purge_mode = Some(row.purge_mode.clone());
            answer.rebuilt = row.rebuilt;
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

/// Clusters to which the binding can go, and those of them whose nodes are not known although they decide.
fn target_of(
    binding: &Binding,
    from: &ClusterName,
    decisions: &Decisions<'_>,
    row: Option<&Row>,
) -> (String, BTreeSet<ClusterName>) {
    let Decisions { clusters, fleet, state, evictions, now, .. } = decisions;
    let none = |why: &dyn Display| (format!("none: {why}"), BTreeSet::new());
    // The leader has checked the capacity of the clusters, too.
    if let Some(why) = row.filter(|row| row.state == Waiting::Parked).and_then(|row| row.because.as_ref())
        && !why.contains(&NoTarget::NoCandidate.to_string())
    {
        return none(&why.trim_start_matches("no available target cluster: "));
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
            if named.is_empty() { none(&why) } else { none(&format!("{why} ({named})")) }
        }
        Err(why) => none(&why),
        Ok(()) => {
            let everywhere = ironclad_api::policy::Placement::default();
            let placement = binding.spec().placement.as_deref().unwrap_or(&everywhere);
            let found = candidates(binding, placement, &left_out, &snapshot);
            let found = found.iter().filter_map(|cluster| cluster.metadata.name.as_deref()).map(ClusterName::from);
            let found: Vec<ClusterName> = found.collect();
            let moving = i64::from(binding.spec().target(&from.0).map_or(0, |target| target.replicas));
            let options = &evictions.flags().scheduler;
            let named = |cluster: &ClusterName| {
                let fits = state.fits(binding.view(), cluster, options).filter(|fits| *fits < moving);
                fits.map_or(cluster.to_string(), |fits| format!("{cluster} (room for {fits} of {moving} replicas)"))
            };
            let names: Vec<String> = found.iter().take(TARGETS_MAX).map(named).collect();
            let more = found.len().saturating_sub(names.len());
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let unasked = unasked_of(fleet, binding.view(), found.iter().take(TARGETS_MAX));
            (format!("{}{more}", names.join(", ")), unasked)
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
