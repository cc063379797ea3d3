//! Metrics of the questions to members (specification/autoscaling.md 3.2).

use std::time::Duration;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
};

use crate::slots::Origin;

/// Families of the metrics, shown by whoever registers them as a collector. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Observed {
    requests: Family<ResultLabel, Counter>,
    seconds: Histogram,
    answers: Family<OriginLabel, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OriginLabel {
    origin: &'static str,
}

impl Default for Observed {
    fn default() -> Self {
        let seconds = Histogram::new(exponential_buckets(0.001, 2.0, 13));
        Self { requests: Family::default(), seconds, answers: Family::default() }
    }
}

impl Observed {
    /// Metrics with one sample in each family, for the page of all metrics.
    #[must_use]
    pub fn example() -> Self {
        let observed = Self::default();
        observed.requested("success");
        observed.took(Duration::ZERO);
        observed.answered(Origin::Member);
        observed
    }

    /// Counts a request, or one that was not sent.
    pub(crate) fn requested(&self, result: &'static str) {
        self.requests.get_or_create(&ResultLabel { result }).inc();
    }

    /// Records the time until a member answered, or until it was given up.
    pub(crate) fn took(&self, time: Duration) {
        self.seconds.observe(time.as_secs_f64());
    }

    /// Counts an answer by its origin.
    pub(crate) fn answered(&self, origin: Origin) {
        let origin = match origin {
            Origin::Cache => "cache",
            Origin::Pending => "pending",
            Origin::Member => "member",
        };
        self.answers.get_or_create(&OriginLabel { origin }).inc();
    }
}

impl Collector for Observed {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let families: [(&str, &str, &dyn Encode); 3] = [
            (
                "ironclad_metrics_adapter_member_requests",
                "Requests to the metrics APIs of members, by how they ended: success, not_found, refused, unreadable, \
                 no_answer; and those not sent: throttled (--cluster-api-qps), left_alone (no answer a moment ago)",
                &self.requests,
            ),
            (
                "ironclad_metrics_adapter_member_request_duration_seconds",
                "Time until a member answered a request for metrics, or was given up",
                &self.seconds,
            ),
            (
                "ironclad_metrics_adapter_answers",
                "Answers of members that a question was answered with, by origin: cache, pending (the same request was under \
                 way), member",
                &self.answers,
            ),
        ];
        families.into_iter().try_for_each(|(name, help, family)| family.add(&mut encoder, name, help))
    }
}

/// A metric of any type.
trait Encode {
    fn add(&self, encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str) -> Result<(), std::fmt::Error>;
}

impl<M: EncodeMetric> Encode for M {
    fn add(&self, encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str) -> Result<(), std::fmt::Error> {
        let of_metric = encoder.encode_descriptor(name, help, None, self.metric_type())?;
        self.encode(of_metric)
    }
}
