//! Metrics of members: their answers read with suspicion, and merged (specification/autoscaling.md 3).
//!
//! A member's answer is input from outside: what can't be a measurement is refused and counted, and costs only that
//! item. Nothing here sends a request: the crate `ironclad-membermetrics` asks the members of a fleet.

pub mod custom;
pub mod external;
mod read;
pub mod resource;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;

pub use self::read::Malformed;

/// The most items of one member's answer; what follows is refused.
pub const ITEMS_MAX: usize = 100_000;

/// The items of an answer that can't be measurements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    /// Their number.
    pub count: usize,
    /// The first one, with the reason.
    pub first: Option<String>,
}

impl Refused {
    /// Counts an item that is refused for this reason.
    pub fn add(&mut self, why: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some(why());
        }
    }
}

/// One member's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer<T> {
    /// The measurements.
    pub items: Vec<Arc<T>>,
    /// Items that were left out.
    pub refused: Refused,
}

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self { items: Vec::new(), refused: Refused::default() }
    }
}

/// A measurement, and the cluster that it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct OfCluster<T> {
    /// Name of the cluster.
    pub cluster: Arc<str>,
    /// The measurement.
    pub sample: Arc<T>,
}

/// The answers of several members.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged<T> {
    /// All measurements, in order of clusters, and in each of them as it answered.
    pub items: Vec<OfCluster<T>>,
    /// The members without an answer, and why. Their objects are unmeasured, not absent.
    pub failed: BTreeMap<Arc<str>, String>,
    /// The members of whose answers a part was left out.
    pub refused: BTreeMap<Arc<str>, Refused>,
}

impl<T> Default for Merged<T> {
    fn default() -> Self {
        Self { items: Vec::new(), failed: BTreeMap::new(), refused: BTreeMap::new() }
    }
}

impl<T> Merged<T> {
    /// Merges the answers of members: their items side by side, failures by name. The order of the answers does not
    /// matter.
    #[must_use]
    pub fn of(answers: impl IntoIterator<Item = (Arc<str>, Result<Arc<Answer<T>>, String>)>) -> Self {
        let answers: BTreeMap<_, _> = answers.into_iter().collect();
        let mut merged = Self::default();
        for (cluster, answer) in answers {
            match answer {
                Err(why) => {
                    merged.failed.insert(cluster, why);
                }
                Ok(answer) => {
                    if answer.refused.count > 0 {
                        merged.refused.insert(cluster.clone(), answer.refused.clone());
                    }
                    let of = |sample: &Arc<T>| OfCluster { cluster: cluster.clone(), sample: sample.clone() };
                    merged.items.extend(answer.items.iter().map(of));
                }
            }
        }
        merged
    }

    /// Returns the names of the members that are missing in the result or in a part of it, separated by commas; `None`
    /// if none is.
    #[must_use]
    pub fn incomplete(&self) -> Option<String> {
        let mut names: Vec<&str> = self.failed.keys().chain(self.refused.keys()).map(|name| &**name).collect();
        names.sort_unstable();
        (!names.is_empty()).then(|| names.join(","))
    }

    /// Returns a sentence about each member that is missing in the result or in a part of it.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let failed = self.failed.iter().map(|(cluster, why)| format!("no metrics of cluster {cluster}: {why}"));
        let refused = self.refused.iter().map(|(cluster, refused)| {
            let first = refused.first.as_deref().unwrap_or_default();
            let items = if refused.count == 1 { "item" } else { "items" };
            format!("{} {items} of cluster {cluster} left out: {first}", refused.count)
        });
        failed.chain(refused).collect()
    }
}

/// A measurement that is valid for some time.
pub trait Measured {
    /// The end of the interval that was measured.
    fn timestamp(&self) -> Timestamp;

    /// The length of that interval, if the source tells.
    fn window(&self) -> Option<Duration>;
}

/// Longest time for which an answer is used again.
pub const REUSE_MAX: Duration = Duration::from_secs(15);

/// Returns for how long from `now` on an answer may be used again: until the first of its measurements is as old as
/// its window, and at most [`REUSE_MAX`]. An answer that is empty, incomplete or without windows is not used again.
///
/// A source has no newer measurement before the window ends. One whose clock is ahead is not trusted for longer.
#[must_use]
pub fn reuse<T: Measured>(answer: &Answer<T>, now: Timestamp) -> Duration {
    if answer.refused.count > 0 {
        return Duration::ZERO;
    }
    let left = answer.items.iter().map(|item| {
        let age = Duration::try_from(now.duration_since(item.timestamp())).unwrap_or(Duration::ZERO);
        item.window().unwrap_or(Duration::ZERO).min(REUSE_MAX).saturating_sub(age)
    });
    left.min().unwrap_or(Duration::ZERO)
}
