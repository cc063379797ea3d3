//! Rows of the eviction queue, as `ironclad get evictions` and `ironclad why evicted` print them, with the expected
//! time.

use std::time::Duration;

use ironclad_fleet::{BindingKey, ClusterName, because::eviction::Reason};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Evictions;
use crate::{
    Now,
    taint_manager::queue::{Element, Place},
    taint_manager::rate::interval,
};

/// State of an element, named after what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waiting {
    /// Ready.
    Queued,
    /// Waits for its due time.
    Delayed,
    /// Waits for a target.
    Parked,
    /// Waits for its next attempt.
    Retrying,
    /// Waits for its cluster, whose taints are about to be removed or whose episode reached its limit.
    Held,
    /// Being written.
    Evicting,
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// One element.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub binding: BindingKey,
    /// The template, as `apps/v1/Deployment shop/web`.
    pub resource: String,
    /// Cluster that the binding leaves.
    pub cluster: ClusterName,
    /// State of the element.
    pub state: Waiting,
    /// Position among ready and delayed elements, from 1.
    pub position: Option<usize>,
    /// Decided from the objects, because no leader tells it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rebuilt: bool,
    /// Since when it is ready.
    pub since: Option<Timestamp>,
    /// Due time.
    pub due: Timestamp,
    /// The taints that evict it.
    pub causes: Vec<String>,
    /// `Gracefully` or `Directly`.
    pub purge_mode: String,
    /// Expected time of the eviction at the rate in force; `None`: not at this rate, or not before something
    /// changes.
    pub expected: Option<Timestamp>,
    /// Failed attempts.
    pub attempts: u32,
    /// Reason why it is parked, retried or held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

impl Evictions {
    /// All elements: in work, then ready, delayed or retried ones, then held and parked ones.
    #[must_use]
    pub fn rows(&self, now: Now) -> Vec<Row> {
        self.rows_in(now, |_, _, state| state)
    }

    /// The same, each in the state that `state_of` gives it instead of that in the queue.
    pub(super) fn rows_in(
        &self,
        now: Now,
        state_of: impl Fn(&ClusterName, &BindingKey, Waiting) -> Waiting,
    ) -> Vec<Row> {
        let mut all: Vec<(Waiting, &ClusterName, &BindingKey, &Element)> = self
            .queue
            .iter()
            .map(|(cluster, binding, element)| {
                let state = match element.place {
                    Place::Working { .. } => Waiting::Evicting,
                    _ if self.queue.is_paused(cluster) => Waiting::Held,
                    Place::Ready => Waiting::Queued,
                    Place::Delayed => Waiting::Delayed,
                    Place::Backoff => Waiting::Retrying,
                    Place::Parked => Waiting::Parked,
                };
                (state_of(cluster, binding, state), cluster, binding, element)
            })
            .collect();
        let rank = |state: Waiting| match state {
            Waiting::Evicting => 0,
            Waiting::Queued => 1,
            Waiting::Delayed | Waiting::Retrying => 2,
            Waiting::Held => 3,
            Waiting::Parked => 4,
        };
        all.sort_by_key(|(state, _, _, element)| (rank(*state), element.order));
        let allowed = self.allowed(now);
        let step = interval(self.reached.less_than_allowed(now.mono).unwrap_or(allowed.rate));
        let mut next = self.next_allowed(now).map(|at| at.max(now.mono));
        let mut position = 0;
        let mut row = |(state, cluster, binding, element): (Waiting, &ClusterName, &BindingKey, &Element)| {
            let lines_up = matches!(state, Waiting::Queued | Waiting::Delayed | Waiting::Retrying);
            let mut expected = None;
            if lines_up {
                position += 1;
                if let (Some(at), Some(step)) = (next, step) {
                    let at = at.max(element.order.0);
                    expected = Some(now.wall_at(at));
                    next = Some(at.saturating_add(step));
                }
            }
            let resource = &element.request.resource;
            let name = match resource.namespace.as_str() {
                "" => resource.name.clone(),
                namespace => format!("{namespace}/{}", resource.name),
            };
            Row {
                binding: binding.clone(),
                resource: format!("{}/{} {name}", resource.api_version, resource.kind),
                cluster: cluster.clone(),
                state,
                position: lines_up.then_some(position),
                rebuilt: false,
                since: element.enqueued_at.map(|at| whole(now.wall_at(at))),
                due: whole(element.request.causes.due()),
                causes: element.request.causes.taints(),
                purge_mode: format!("{:?}", element.request.purge_mode),
                expected: expected.map(whole),
                attempts: element.attempts,
                because: match state {
                    Waiting::Held => self.held_because(cluster),
                    Waiting::Parked | Waiting::Retrying => element.because.as_deref().map(str::to_owned),
                    Waiting::Queued | Waiting::Delayed | Waiting::Evicting => None,
                },
            }
        };
        all.into_iter().map(&mut row).collect()
    }

    /// Reason why the elements of a cluster are held; `None` if they are not.
    #[must_use]
    pub fn held_because(&self, cluster: &ClusterName) -> Option<String> {
        let episode = self.episodes.get(cluster)?;
        let max = self.flags.eviction.max_evictions_per_episode;
        let reason = match episode.recovering {
            true => Reason::SourceRecovering { cluster: cluster.clone() },
            false if episode.is_exhausted(max) => Reason::EpisodeLimit { max },
            false => return None,
        };
        Some(reason.to_string())
    }

    /// Time to process all ready elements that are not held at the rate in force; `None` if it is infinite.
    #[must_use]
    pub fn drains_in(&self, now: Now) -> Option<Duration> {
        let ready = u32::try_from(self.queue.lined_up()).unwrap_or(u32::MAX);
        if ready == 0 {
            return Some(Duration::ZERO);
        }
        let first = self.next_allowed(now)?.saturating_sub(now.mono);
        let rate = self.reached.less_than_allowed(now.mono).unwrap_or(self.allowed(now).rate);
        Some(first + interval(rate)?.saturating_mul(ready - 1))
    }
}

fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
