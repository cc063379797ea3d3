//! `external.metrics.k8s.io/v1beta1`: metrics of what is outside of the clusters (specification/autoscaling.md 3.5).

use std::{collections::BTreeMap, time::Duration};

use ironclad_quantity::Amount;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value as Json;

use super::{
    Answer, Measured, OfCluster,
    read::{self, Malformed},
};

pub const GROUP: &str = "external.metrics.k8s.io";
pub const VERSION: &str = "v1beta1";
/// A timestamp that is ahead of the control plane's time by more comes from a clock that is wrong.
const AHEAD_MAX: SignedDuration = SignedDuration::from_secs(30);

/// The value of one series.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Name of the metric.
    pub metric: String,
    /// The labels, which tell the series of a metric apart.
    pub labels: BTreeMap<String, String>,
    /// End of the measured interval.
    pub timestamp: Timestamp,
    /// Length of that interval, if the source tells.
    pub window: Option<Duration>,
    pub value: Amount,
}

impl Measured for Sample {
    fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    fn window(&self) -> Option<Duration> {
        self.window
    }
}

/// The selection of values of one series that several clusters see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Merge {
    /// The one with the newest timestamp: all clusters measure the same thing. One that is in the future counts as
    /// older than all that are not, since the clock of its cluster is wrong.
    #[default]
    Freshest,
    /// All: each cluster measures its own.
    Sum,
    /// The largest.
    Max,
    /// That of the first cluster by name.
    First,
}

impl Merge {
    /// Reads a rule by its name.
    ///
    /// # Errors
    /// If it is none of `sum`, `max` and `first`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "sum" => Ok(Self::Sum),
            "max" => Ok(Self::Max),
            "first" => Ok(Self::First),
            other => Err(format!("{} is none of sum, max and first", read::quoted(other))),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawValue {
    metric_labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    timestamp: Json,
    #[serde(alias = "window")]
    window_seconds: Option<i64>,
    #[serde(default)]
    value: Json,
}

/// Reads an ExternalMetricValueList of this metric. Sources may spell its name otherwise: nobody reads it.
///
/// # Errors
/// If it is none.
pub fn read(body: &[u8], metric: &str) -> Result<Answer<Sample>, Malformed> {
    read::list(body, "ExternalMetricValueList", |raw: RawValue| {
        let labels = raw.metric_labels.unwrap_or_default();
        let timestamp = read::timestamp(&raw.timestamp)?;
        let window = read::window_seconds(raw.window_seconds)?;
        let value = read::signed_amount(&raw.value).map_err(|why| format!("value {why}"))?;
        Ok(Sample { metric: metric.to_owned(), labels, timestamp, window, value })
    })
}

/// Selects the series that are handed out, in order of metric and labels; `now` is the control plane's time.
#[must_use]
pub fn select(samples: &[OfCluster<Sample>], rule: Merge, now: Timestamp) -> Vec<OfCluster<Sample>> {
    /// Metric and labels.
    type Key<'a> = (&'a str, &'a BTreeMap<String, String>);
    let mut groups: BTreeMap<Key<'_>, Vec<&OfCluster<Sample>>> = BTreeMap::new();
    for sample in samples {
        groups.entry((&sample.sample.metric, &sample.sample.labels)).or_default().push(sample);
    }
    let mut selected = Vec::new();
    for mut group in groups.into_values() {
        // The first of equal ones is selected: order by cluster, and take later ones only if they are better.
        group.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        let better = |is_better: &dyn Fn(&Sample, &Sample) -> bool| {
            let mut best = group.first().copied();
            for one in &group {
                if best.is_some_and(|best| is_better(&one.sample, &best.sample)) {
                    best = Some(one);
                }
            }
            best.cloned()
        };
        match rule {
            Merge::Freshest => selected.extend(better(&|one, best| age_rank(one, now) > age_rank(best, now))),
            Merge::Max => selected.extend(better(&|one, best| one.value > best.value)),
            Merge::First => selected.extend(group.first().copied().cloned()),
            Merge::Sum => selected.extend(group.into_iter().cloned()),
        }
    }
    selected
}

/// Rank of a sample by its age: higher for newer ones.
fn age_rank(sample: &Sample, now: Timestamp) -> (bool, Timestamp) {
    (sample.timestamp.duration_since(now) <= AHEAD_MAX, sample.timestamp)
}
