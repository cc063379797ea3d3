//! Memory of each preemptor's attempts and nominations (specification/scheduling.md 15.7, steps 7 to 9).
//!
//! It is lost with the process. A new one finds nominations in the status of bindings and their victims by the tasks.

use std::collections::{BTreeMap, VecDeque};

use ironclad_fleet::{BindingKey, because::schedule::Unhelpful};
use jiff::{SignedDuration, Timestamp};

use super::plan::{Limits, Plan};

/// Longest time for which capacity is held.
pub(super) const NOMINATED_FOR: SignedDuration = SignedDuration::from_mins(10);
/// Shortest time between the end of a nomination and the next attempt.
const BETWEEN_ATTEMPTS: SignedDuration = SignedDuration::from_mins(1);
/// Attempts of one generation of a binding.
const ATTEMPTS_MAX: u32 = 3;
/// Time after which a binding whose attempts are used up may try again.
const RESTS_FOR: SignedDuration = SignedDuration::from_mins(30);
/// Time for which a plan waits for pods that get their nodes.
const SETTLES_WITHIN: SignedDuration = SignedDuration::from_secs(3);
/// Window of the limit of evictions.
const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// Attempts and nominations of all preemptors, and the evictions of the last minute.
#[derive(Debug, Clone, Default)]
pub struct Preemptors {
    records: BTreeMap<BindingKey, Record>,
    /// Preemptors whose plan awaits pods that get their nodes, since these times.
    settling: BTreeMap<BindingKey, Timestamp>,
    evictions: VecDeque<Timestamp>,
}

#[derive(Debug, Clone)]
struct Record {
    generation: i64,
    attempts: u32,
    nomination: Option<Nomination>,
    /// End of the last nomination.
    ended: Option<Timestamp>,
}

#[derive(Debug, Clone)]
struct Nomination {
    since: Timestamp,
    /// The plan until all its victims are evicted.
    open: Option<Plan>,
    /// Victims of the plan that are not evicted yet.
    pending: usize,
}

impl Nomination {
    fn of(plan: &Plan, since: Timestamp) -> Self {
        Self { since, open: Some(plan.clone()), pending: plan.victims.len() }
    }

    /// Returns whether nobody is evicted by the plan yet.
    fn is_untouched(&self) -> bool {
        self.open.as_ref().is_some_and(|plan| plan.victims.len() == self.pending)
    }
}

/// Next step of a binding that lacks capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// Look for victims.
    Attempt,
    /// Carry on with this plan: some of its victims are evicted, and others are not yet.
    Resume(Plan),
    /// Wait for the capacity that is held for it, at most until then.
    Wait {
        /// Begin of the nomination.
        since: Timestamp,
        /// End of the nomination.
        until: Timestamp,
    },
    /// Give the nomination up: its time is over.
    GiveUp,
    /// Wait for the next attempt.
    Pause {
        /// Its earliest time.
        until: Timestamp,
    },
    /// Its attempts are used up.
    Rest {
        /// When they are granted again, unless its spec changes before.
        until: Timestamp,
    },
}

/// Result of a decision on preemption. The scheduler records it with [`Preemptors::record`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Capacity is held and bindings are evicted.
    Nominated(Plan),
    /// The same, if the mode were not to observe only.
    Observed(Plan),
    /// The capacity that is held has not appeared yet.
    Waits,
    /// No plan.
    Refused(Unhelpful),
    /// The binding is scheduled, and its nomination ends.
    Bound,
    /// Its nomination ended without a result, for this reason.
    Expired(Unhelpful),
    /// It may not preempt any more, or no longer needs to.
    Dropped,
}

impl Outcome {
    /// Label `result` of `karmada_scheduler_preemption_attempts_total`; `None` if it was no attempt.
    #[must_use]
    pub fn result(&self) -> Option<&'static str> {
        use Unhelpful::{
            NoProgress, NoVictims, OverQuota, Overtaken, Paused, Recounting, Settling, StillTooLittle, TooMany,
        };
        match self {
            Self::Nominated(_) => Some("nominated"),
            Self::Observed(_) => Some("observed"),
            Self::Refused(NoVictims) => Some("no_victims"),
            Self::Refused(StillTooLittle | OverQuota) => Some("not_helpful"),
            Self::Refused(TooMany) => Some("limited"),
            Self::Refused(NoProgress | Overtaken | Paused | Recounting | Settling)
            | Self::Waits
            | Self::Bound
            | Self::Expired(_)
            | Self::Dropped => None,
        }
    }
}

impl Preemptors {
    /// Next step of the binding. `nominated`: its status names nominated clusters; `leaving`: somebody who was
    /// preempted has not left them yet.
    #[must_use]
    pub fn turn(&self, key: &BindingKey, generation: i64, nominated: bool, leaving: bool, now: Timestamp) -> Turn {
        let after = |at: Timestamp, wait| at.checked_add(wait).unwrap_or(Timestamp::MAX);
        let Some(record) = self.records.get(key).filter(|record| record.generation == generation) else {
            // A nomination of an earlier process.
            let of_before = nominated && leaving && !self.records.contains_key(key);
            return if of_before { Turn::Wait { since: now, until: after(now, NOMINATED_FOR) } } else { Turn::Attempt };
        };
        if let Some(nomination) = &record.nomination {
            let until = after(nomination.since, NOMINATED_FOR);
            return match &nomination.open {
                _ if !is_within(nomination.since, NOMINATED_FOR, now) => Turn::GiveUp,
                // Others may have taken what the plan counts on while the nomination was written.
                Some(_) if nomination.is_untouched() => Turn::Attempt,
                Some(plan) => Turn::Resume(plan.clone()),
                None => Turn::Wait { since: nomination.since, until },
            };
        }
        let Some(ended) = record.ended else { return Turn::Attempt };
        let (pause, rest) = (after(ended, BETWEEN_ATTEMPTS), after(ended, RESTS_FOR));
        match record.attempts >= ATTEMPTS_MAX {
            true if is_within(ended, RESTS_FOR, now) => Turn::Rest { until: rest },
            false if is_within(ended, BETWEEN_ATTEMPTS, now) => Turn::Pause { until: pause },
            _ => Turn::Attempt,
        }
    }

    /// Time at which this number of victims may be evicted under the limit of evictions per minute; `now` if at once,
    /// `None` if never. The victims of other preemptors' plans that are not carried out yet count as evicted now.
    #[must_use]
    pub fn allowed_at(&self, key: &BindingKey, victims: usize, limits: &Limits, now: Timestamp) -> Option<Timestamp> {
        let limit = limits.evictions_per_minute;
        if victims > limit {
            return None;
        }
        let others = self.records.iter().filter(|(other, _)| *other != key);
        let nominations = others.filter_map(|(_, record)| record.nomination.as_ref());
        let pending = nominations.filter(|one| one.open.is_some()).map(|one| one.pending).sum();
        let recent = self.evictions.iter().copied().filter(|at| is_within(*at, MINUTE, now));
        let recent: Vec<Timestamp> = recent.chain(std::iter::repeat_n(now, pending)).collect();
        let too_many = (recent.len() + victims).saturating_sub(limit);
        // The first ones have to leave the window.
        let last = too_many.checked_sub(1).and_then(|at| recent.get(at));
        Some(last.map_or(now, |at| at.checked_add(MINUTE).unwrap_or(Timestamp::MAX)))
    }

    /// Returns whether a plan of the preemptor awaits pods that get their nodes; they have [`SETTLES_WITHIN`] for it.
    #[must_use]
    pub fn awaits_nodes(&self, key: &BindingKey, now: Timestamp) -> bool {
        self.settling.get(key).is_none_or(|since| is_within(*since, SETTLES_WITHIN, now))
    }

    /// Records an outcome. Returns how long a nomination lasted that ends with it.
    pub fn record(
        &mut self,
        key: &BindingKey,
        generation: i64,
        outcome: &Outcome,
        now: Timestamp,
    ) -> Option<SignedDuration> {
        match outcome {
            Outcome::Refused(Unhelpful::Settling) => _ = self.settling.entry(key.clone()).or_insert(now),
            // The plan is made once more before the first eviction, and does not wait again.
            Outcome::Nominated(_) => {}
            _ => _ = self.settling.remove(key),
        }
        let lasted = |record: &Record| record.nomination.as_ref().map(|nominated| now.duration_since(nominated.since));
        match outcome {
            Outcome::Nominated(plan) => {
                let fresh = Record { generation, attempts: 0, nomination: None, ended: None };
                let record = self.records.entry(key.clone()).or_insert_with(|| fresh.clone());
                if record.generation != generation {
                    *record = fresh;
                }
                if record.ended.is_some_and(|ended| !is_within(ended, RESTS_FOR, now)) {
                    record.attempts = 0;
                }
                match &mut record.nomination {
                    None => {
                        record.attempts += 1;
                        record.nomination = Some(Nomination::of(plan, now));
                    }
                    Some(nomination) if nomination.is_untouched() => {
                        *nomination = Nomination::of(plan, nomination.since)
                    }
                    Some(_) => {}
                }
                None
            }
            Outcome::Waits => {
                let nomination = Some(Nomination { since: now, open: None, pending: 0 });
                let found = Record { generation, attempts: 1, nomination, ended: None };
                self.records.entry(key.clone()).or_insert(found);
                None
            }
            Outcome::Bound | Outcome::Dropped => self.records.remove(key).as_ref().and_then(lasted),
            Outcome::Expired(_) | Outcome::Observed(_) | Outcome::Refused(_) => {
                let record = self.records.get_mut(key).filter(|record| record.nomination.is_some())?;
                let lasted = lasted(record);
                let is_untouched = record.nomination.take().is_some_and(|nomination| nomination.is_untouched());
                if is_untouched && matches!(outcome, Outcome::Refused(_)) {
                    record.attempts = record.attempts.saturating_sub(1);
                } else {
                    record.ended = Some(now);
                }
                lasted
            }
        }
    }

    /// Records an eviction for this preemptor.
    pub fn evicted(&mut self, key: &BindingKey, now: Timestamp) {
        if let Some(nomination) = self.records.get_mut(key).and_then(|record| record.nomination.as_mut()) {
            nomination.pending = nomination.pending.saturating_sub(1);
        }
        while self.evictions.front().is_some_and(|at| !is_within(*at, MINUTE, now)) {
            self.evictions.pop_front();
        }
        self.evictions.push_back(now);
    }

    /// Records that all victims of a nomination are evicted, or that the others stay since one of them changed: the
    /// capacity is waited for.
    pub fn all_evicted(&mut self, key: &BindingKey) {
        if let Some(nomination) = self.records.get_mut(key).and_then(|record| record.nomination.as_mut()) {
            nomination.open = None;
        }
    }

    /// Forgets a deleted binding.
    pub fn forget(&mut self, key: &BindingKey) {
        self.records.remove(key);
        self.settling.remove(key);
    }
}

/// Returns whether less than a span has passed. A time that is further ahead was taken before the clock was set back,
/// and would otherwise last until the clock has caught up.
fn is_within(at: Timestamp, span: SignedDuration, now: Timestamp) -> bool {
    now.duration_since(at).abs() < span
}
