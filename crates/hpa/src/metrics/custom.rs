//! `custom.metrics.k8s.io`: metrics of objects (specification/autoscaling.md 3.4).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_quantity::Amount;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value as Json;

use super::{
    Answer, Measured, OfCluster,
    read::{self, Malformed},
};

pub const GROUP: &str = "custom.metrics.k8s.io";

/// A version of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// The metric is a name and a selector.
    V1Beta1,
    /// The metric is an object.
    V1Beta2,
}

impl Version {
    /// Returns its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1Beta1 => "v1beta1",
            Self::V1Beta2 => "v1beta2",
        }
    }

    /// Returns the version of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::V1Beta1, Self::V1Beta2].into_iter().find(|version| version.as_str() == name)
    }

    /// Returns the newest version among those that a member serves.
    #[must_use]
    pub fn newest<'a>(served: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        served.into_iter().filter_map(Self::parse).max()
    }
}

/// The object that a metric describes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Described {
    pub kind: String,
    /// Group and version, as the source gives them.
    pub api_version: String,
    /// Its namespace; empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
}

/// The value of a metric for one object.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The object.
    pub described: Described,
    /// Name of the metric.
    pub metric: String,
    /// The label selector of the metric, as JSON.
    pub selector: Option<Json>,
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

/// The way in which values of one object in several clusters become one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Merge {
    /// They are added.
    #[default]
    Sum,
    /// Their mean, in thousandths, rounded down.
    Avg,
    /// The largest.
    Max,
}

impl Merge {
    /// Reads a rule by its name.
    ///
    /// # Errors
    /// If it is none of `sum`, `avg` and `max`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "sum" => Ok(Self::Sum),
            "avg" => Ok(Self::Avg),
            "max" => Ok(Self::Max),
            other => Err(format!("{} is none of sum, avg and max", read::quoted(other))),
        }
    }
}

/// The value of a metric for one object of the fleet.
#[derive(Debug, Clone, PartialEq)]
pub struct Combined {
    /// The clusters that contributed, in order.
    pub clusters: Vec<Arc<str>>,
    /// The object, the metric, the oldest timestamp, the largest window, and the combined value.
    pub sample: Sample,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawValue {
    #[serde(rename = "describedObject")]
    described: RawObject,
    /// v1beta1.
    metric_name: Option<String>,
    selector: Option<Json>,
    /// v1beta2.
    metric: Option<RawMetric>,
    #[serde(default)]
    timestamp: Json,
    /// `window` in v1beta1.
    #[serde(alias = "window")]
    window_seconds: Option<i64>,
    #[serde(default)]
    value: Json,
}

#[derive(Deserialize)]
struct RawMetric {
    name: String,
    selector: Option<Json>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawObject {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

/// Reads a MetricValueList of any version that was asked of a namespace, or of cluster-scoped objects. Values of
/// objects in other namespaces and repeated ones are refused.
///
/// # Errors
/// If it is none.
pub fn read(body: &[u8], namespace: Option<&str>, metric: &str) -> Result<Answer<Sample>, Malformed> {
    let mut seen = std::collections::BTreeSet::new();
    read::list(body, "MetricValueList", |raw: RawValue| {
        let RawObject { kind, api_version, namespace: of, name } = raw.described;
        let described = Described { kind, api_version, namespace: of, name };
        let about = || format!("{} {}", described.kind, described.name);
        let (name, selector) = match (raw.metric, raw.metric_name) {
            (Some(metric), _) => (metric.name, metric.selector),
            (None, name) => (name.unwrap_or_default(), raw.selector),
        };
        if described.name.is_empty() {
            return Err("a value describes no object".to_owned());
        }
        if metric != "*" && name != metric {
            return Err(format!("{}: the metric is {}", about(), read::quoted(&name)));
        }
        // Sources leave the namespace out where it is that of the request.
        if namespace.is_some_and(|asked| !described.namespace.is_empty() && described.namespace != asked) {
            return Err(format!("{} is of another namespace", about()));
        }
        if !seen.insert((described.clone(), name.clone())) {
            return Err(format!("{} is there twice", about()));
        }
        let timestamp = read::timestamp(&raw.timestamp).map_err(|why| format!("{}: {why}", about()))?;
        let window = read::window_seconds(raw.window_seconds).map_err(|why| format!("{}: {why}", about()))?;
        let value = read::signed_amount(&raw.value).map_err(|why| format!("{}: value {why}", about()))?;
        Ok(Sample { described, metric: name, selector: selector.filter(|s| !s.is_null()), timestamp, window, value })
    })
}

/// Combines the values of each object over the clusters. Pods are not combined: pods of one name in two clusters are
/// two pods. The result is in order of the objects, pods of one name in order of the clusters.
#[must_use]
pub fn combine(samples: &[OfCluster<Sample>], rule: Merge) -> Vec<Combined> {
    /// Object, metric, and the cluster of a pod.
    type Key<'a> = (Described, &'a str, Option<&'a Arc<str>>);
    let mut groups: BTreeMap<Key<'_>, Vec<&OfCluster<Sample>>> = BTreeMap::new();
    for sample in samples {
        let described = &sample.sample.described;
        // Clusters of several ages serve one kind in several versions.
        let object = Described { api_version: String::new(), ..described.clone() };
        let own = (described.kind == "Pod").then_some(&sample.cluster);
        groups.entry((object, &sample.sample.metric, own)).or_default().push(sample);
    }
    groups.into_values().filter_map(|group| combined(group, rule)).collect()
}

fn combined(mut group: Vec<&OfCluster<Sample>>, rule: Merge) -> Option<Combined> {
    group.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    let first = group.first()?;
    let values = || group.iter().map(|one| one.sample.value);
    let sum = values().fold(Amount::ZERO, |sum, value| sum + value);
    let value = match rule {
        Merge::Sum => sum,
        Merge::Max => values().max()?,
        Merge::Avg => Amount::from_milli(sum.milli_value().div_euclid(i64::try_from(group.len()).ok()?)),
    };
    let sample = Sample {
        timestamp: group.iter().map(|one| one.sample.timestamp).min()?,
        window: group.iter().filter_map(|one| one.sample.window).max(),
        value,
        ..(*first.sample).clone()
    };
    Some(Combined { clusters: group.iter().map(|one| one.cluster.clone()).collect(), sample })
}
