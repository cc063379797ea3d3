//! Place of a waiting binding in the queue of the scheduler (specification/scheduling.md 14.1).

use std::fmt;

use ironclad_fleet::{BindingKey, count::count};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::leader::QueuedBinding;

/// Most bindings that are named as those ahead.
const AHEAD_MAX: usize = 3;

/// Knowledge of a waiting binding's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "known", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Queue {
    /// The leader does not announce it.
    No {
        /// Reason.
        because: String,
    },
    /// It is not in the queue: it is tried again when it or a cluster that concerns it changes.
    OutOfIt,
    Yes(Place),
}

/// Place in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// Position, from 1.
    pub position: usize,
    /// Number of bindings in the queue.
    pub of: usize,
    pub priority: i32,
    /// `Scheduling`, `Active`, `Backoff` or `Unschedulable`.
    pub state: String,
    /// The bindings that are ahead, at most three, the nearest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ahead: Vec<BindingKey>,
    /// Time at which it is tried again even without an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Attempts in a row that failed.
    pub attempts: u32,
}

impl Queue {
    /// The place of a binding among those that the leader reports, which are in order.
    #[must_use]
    pub fn of(reported: &[QueuedBinding], binding: &BindingKey, now: Timestamp) -> Self {
        let Some(index) = reported.iter().position(|one| one.binding == *binding) else { return Self::OutOfIt };
        let own = &reported[index];
        let until = own.wait_ms.and_then(|wait| {
            let wait = SignedDuration::from_millis(i64::try_from(wait).unwrap_or(i64::MAX));
            let until = now.checked_add(wait).ok()?;
            // Whole seconds, not before the time.
            until.round(jiff::TimestampRound::new().smallest(jiff::Unit::Second).mode(jiff::RoundMode::Ceil)).ok()
        });
        Self::Yes(Place {
            position: own.position,
            of: reported.len(),
            priority: own.priority,
            state: own.state.clone(),
            ahead: reported[index.saturating_sub(AHEAD_MAX)..index].iter().map(|one| one.binding.clone()).collect(),
            until,
            attempts: own.attempts,
        })
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::No { because } => write!(f, "its place in the scheduler's queue is not known: {because}"),
            Self::OutOfIt => f.write_str(
                "it is not in the scheduler's queue: it is tried again when it changes, or a cluster that concerns it",
            ),
            Self::Yes(place) => place.fmt(f),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = count(self.attempts as usize, "failed attempt");
        let until = self.until.map_or_else(String::new, |until| format!(", at the latest at {until}"));
        match self.state.as_str() {
            "Scheduling" => return f.write_str("it is being scheduled now"),
            "Backoff" => write!(f, "it backs off after {failed} and is tried again{until}")?,
            "Unschedulable" => write!(f, "it waits for capacity or a cluster that fits, and is tried again{until}")?,
            _ => f.write_str("it waits for its turn")?,
        }
        let Self { position, of, priority, .. } = self;
        write!(f, "; position {position} of {of} in the scheduler's queue, with priority {priority}")?;
        if self.ahead.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = self.ahead.iter().map(ToString::to_string).collect();
        let more = self.position.saturating_sub(1 + names.len());
        let more = if more > 0 { format!("{} and ", count(more, "other")) } else { String::new() };
        write!(f, ", behind {more}{}", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queued(name: &str, position: usize, state: &str, wait_ms: Option<u64>) -> QueuedBinding {
        QueuedBinding {
            binding: BindingKey { namespace: "shop".into(), name: name.into() },
            position,
            priority: 7,
            cause: "Change".to_owned(),
            state: state.to_owned(),
            wait_ms,
            attempts: 2,
            message: None,
        }
    }

    #[test]
    fn places_say_who_is_ahead_and_until_when() {
        let reported: Vec<_> = [
            ("a", "Scheduling", None),
            ("b", "Active", None),
            ("c", "Active", None),
            ("d", "Active", None),
            ("e", "Active", None),
            ("f", "Backoff", Some(1_500)),
            ("g", "Unschedulable", Some(60_000)),
        ]
        .iter()
        .enumerate()
        .map(|(index, (name, state, wait))| queued(name, index + 1, state, *wait))
        .collect();
        let now = Timestamp::from_second(100).unwrap();
        let said = |name: &str| {
            let key = BindingKey { namespace: "shop".into(), name: name.into() };
            Queue::of(&reported, &key, now).to_string()
        };
        let end = "of 7 in the scheduler's queue, with priority 7";
        for (name, want) in [
            ("a", "it is being scheduled now".to_owned()),
            ("b", format!("it waits for its turn; position 2 {end}, behind shop/a")),
            ("e", format!("it waits for its turn; position 5 {end}, behind 1 other and shop/b, shop/c, shop/d")),
            (
                "f",
                format!(
                    "it backs off after 2 failed attempts and is tried again, at the latest at 1970-01-01T00:01:42Z; \
                     position 6 {end}, behind 2 others and shop/c, shop/d, shop/e"
                ),
            ),
            (
                "g",
                format!(
                    "it waits for capacity or a cluster that fits, and is tried again, at the latest at \
                     1970-01-01T00:02:40Z; position 7 {end}, behind 3 others and shop/d, shop/e, shop/f"
                ),
            ),
            (
                "x",
                "it is not in the scheduler's queue: it is tried again when it changes, or a cluster that concerns it"
                    .to_owned(),
            ),
        ] {
            assert_eq!(said(name), want, "{name}");
        }
    }
}
