//! The last hour of a fleet, as the memory of the leader has it: evictions, placements, rounds of autoscalers
//! (specification/operations.md 4.4). Bounded in time and in number.

use std::collections::{BTreeMap, VecDeque};

use ironclad_api::work::TargetCluster;
use ironclad_fleet::BindingKey;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// Time that is remembered.
const KEPT: SignedDuration = SignedDuration::from_hours(1);
/// Time between two samples of the eviction queue.
pub const SAMPLED_EVERY: SignedDuration = SignedDuration::from_secs(15);
/// Placements, and rounds, that are remembered at most, over the whole fleet: some 2 MiB each.
const ENTRIES_MAX: usize = 10_000;

/// The eviction queue at one time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    pub at: Timestamp,
    /// Evictions that wait for their turn or their time.
    pub waiting: usize,
    /// Those that have nowhere to go.
    pub parked: usize,
    /// Evictions per second in force.
    pub rate: f64,
}

/// Replicas of a binding by cluster, from one time on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Placed {
    pub at: Timestamp,
    pub clusters: BTreeMap<String, i32>,
}

/// A round of an autoscaler.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Round {
    pub at: Timestamp,
    /// Replicas before the round; absent if they could not be read.
    pub current: Option<i32>,
    /// Replicas after it.
    pub desired: i32,
    /// Replicas that each metric proposes, in the order of the spec; absent if it failed.
    pub proposals: Vec<Option<i32>>,
}

/// Questions about the last hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Of {
    /// The eviction queue.
    Evictions,
    /// Placements of a binding.
    Binding(BindingKey),
    /// Rounds of a FederatedHPA.
    Autoscaler(BindingKey),
}

/// Answers to them, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    /// Time from which on everything is remembered; absent before anything was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evictions: Vec<Sample>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placements: Vec<Placed>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<Round>,
}

/// A change of one binding.
#[derive(Debug)]
struct Change {
    at: Timestamp,
    binding: BindingKey,
    before: Box<[(Box<str>, i32)]>,
    after: Box<[(Box<str>, i32)]>,
}

/// The last hour.
#[derive(Debug, Default)]
pub struct History {
    began: Option<Timestamp>,
    samples: VecDeque<Sample>,
    changes: VecDeque<Change>,
    rounds: VecDeque<(BindingKey, Round)>,
    /// Time of the last entry that was dropped before its hour was over.
    dropped: Option<Timestamp>,
}

impl History {
    /// Records the eviction queue.
    pub fn sample(&mut self, sample: Sample) {
        self.begin(sample.at);
        let oldest = sample.at - KEPT;
        self.samples.push_back(sample);
        while self.samples.front().is_some_and(|first| first.at < oldest) {
            self.samples.pop_front();
        }
    }

    /// Records that a binding has other targets than before.
    pub fn placed(&mut self, at: Timestamp, binding: BindingKey, before: &[TargetCluster], after: &[TargetCluster]) {
        self.begin(at);
        let of = |targets: &[TargetCluster]| -> Box<[(Box<str>, i32)]> {
            targets.iter().map(|target| (target.name.as_str().into(), target.replicas)).collect()
        };
        self.changes.push_back(Change { at, binding, before: of(before), after: of(after) });
        let dropped = trim(&mut self.changes, at - KEPT, |change| change.at);
        self.dropped = self.dropped.max(dropped);
    }

    /// Records a round of an autoscaler.
    pub fn round(&mut self, autoscaler: BindingKey, round: Round) {
        self.begin(round.at);
        let oldest = round.at - KEPT;
        self.rounds.push_back((autoscaler, round));
        let dropped = trim(&mut self.rounds, oldest, |(_, round)| round.at);
        self.dropped = self.dropped.max(dropped);
    }

    fn begin(&mut self, at: Timestamp) {
        self.began.get_or_insert(at);
    }

    /// Answers a question at this time. The first placement is the one before the first change.
    #[must_use]
    pub fn told(&self, of: &Of, now: Timestamp) -> Told {
        // By the minute, so that an answer changes with what happens and not with each second.
        let minute = SignedDuration::from_secs(now.as_second().rem_euclid(60));
        let oldest = now - KEPT - minute;
        let since = self.began.map(|began| began.max(oldest).max(self.dropped.unwrap_or(oldest)));
        let mut told = Told { since, ..Told::default() };
        match of {
            Of::Evictions => told.evictions = self.samples.iter().filter(|one| one.at >= oldest).cloned().collect(),
            Of::Binding(key) => {
                let clusters = |targets: &[(Box<str>, i32)]| {
                    targets.iter().map(|(name, replicas)| (name.to_string(), *replicas)).collect()
                };
                for change in self.changes.iter().filter(|change| change.at >= oldest && change.binding == *key) {
                    if told.placements.is_empty() {
                        let at = since.unwrap_or(change.at).min(change.at);
                        told.placements.push(Placed { at, clusters: clusters(&change.before) });
                    }
                    told.placements.push(Placed { at: change.at, clusters: clusters(&change.after) });
                }
            }
            Of::Autoscaler(key) => {
                let own = self.rounds.iter().filter(|(of, round)| of == key && round.at >= oldest);
                told.rounds = own.map(|(_, round)| round.clone()).collect();
            }
        }
        told
    }
}

/// Drops what is older, and the oldest of too many; returns the time of the last one of these.
fn trim<T>(all: &mut VecDeque<T>, oldest: Timestamp, at: impl Fn(&T) -> Timestamp) -> Option<Timestamp> {
    while all.front().is_some_and(|first| at(first) < oldest) {
        all.pop_front();
    }
    let mut dropped = None;
    while all.len() > ENTRIES_MAX {
        dropped = all.pop_front().map(|first| at(&first));
    }
    dropped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn key(name: &str) -> BindingKey {
        BindingKey { namespace: "shop".into(), name: name.into() }
    }

    fn on(all: &[(&str, i32)]) -> Vec<TargetCluster> {
        let target = |(name, replicas): &(&str, i32)| TargetCluster {
            name: (*name).into(),
            replicas: *replicas,
            components: Vec::new(),
        };
        all.iter().map(target).collect()
    }

    #[test]
    fn placements_are_steps_with_what_was_before() {
        let mut history = History::default();
        history.sample(Sample { at: at(1_000), waiting: 0, parked: 0, rate: 0.5 });
        history.placed(at(1_100), key("web"), &on(&[("m1", 3)]), &on(&[("m1", 1), ("m2", 2)]));
        history.placed(at(1_200), key("api"), &[], &on(&[("m1", 1)]));
        history.placed(at(1_300), key("web"), &on(&[("m1", 1), ("m2", 2)]), &on(&[("m2", 3)]));
        let steps = |now| -> Vec<(i64, String)> {
            let told = history.told(&Of::Binding(key("web")), now);
            let text = |placed: &Placed| format!("{:?}", placed.clusters);
            told.placements.iter().map(|placed| (placed.at.as_second(), text(placed))).collect()
        };
        let last = (1_300, r#"{"m2": 3}"#.to_owned());
        assert_eq!(
            steps(at(1_400)),
            [(1_000, r#"{"m1": 3}"#.to_owned()), (1_100, r#"{"m1": 1, "m2": 2}"#.to_owned()), last.clone()]
        );
        assert_eq!(steps(at(4_770)), [(1_140, r#"{"m1": 1, "m2": 2}"#.to_owned()), last], "an hour after the first");
        assert_eq!(steps(at(9_000)), []);
        assert_eq!(history.told(&Of::Binding(key("none")), at(1_400)).placements, []);
    }

    #[test]
    fn the_last_hour_is_kept_and_no_more_than_fits() {
        let mut history = History::default();
        assert_eq!(history.told(&Of::Evictions, at(0)), Told::default());
        for minute in 0..90 {
            history.sample(Sample { at: at(minute * 60), waiting: 1, parked: 0, rate: 0.1 });
        }
        let told = history.told(&Of::Evictions, at(89 * 60));
        assert_eq!((told.evictions.len(), told.since), (61, Some(at(29 * 60))));
        for number in 0..i64::try_from(ENTRIES_MAX).unwrap() + 10 {
            let round = Round { at: at(5_400 + number / 100), desired: 1, ..Round::default() };
            history.round(key(if number % 2 == 0 { "a" } else { "b" }), round);
        }
        let told = history.told(&Of::Autoscaler(key("a")), at(5_500));
        assert_eq!((told.rounds.len(), told.since), (ENTRIES_MAX / 2, Some(at(5_400))));
    }
}
