//! One proposal out of those of all metrics (specification/autoscaling.md 2.5).

use crate::{
    conditions::Condition,
    events,
    proposal::{Proposal, Reading},
    source::{InvalidSource, Source},
};

/// Result of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluated<'a> {
    /// The metric, if its spec can be read.
    pub source: Option<Source<'a>>,
    /// Its proposal, or why it has none.
    pub proposal: Result<Proposal, Failed>,
}

/// Failure of one metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Reason of condition and event.
    pub reason: &'static str,
    /// Message of condition and event.
    pub message: String,
    /// Message of the error of the round.
    pub error: String,
}

impl From<InvalidSource> for Failed {
    fn from(invalid: InvalidSource) -> Self {
        Self { reason: invalid.reason, error: invalid.message.clone(), message: invalid.message }
    }
}

impl Failed {
    pub(crate) fn of(source: &Source<'_>, why: &str) -> Self {
        let (message, error) = source.failure(why);
        Self { reason: source.type_.failure(), message, error }
    }
}

/// Answers of the metrics APIs, in the order of the metrics of the spec. An error says why there is none.
pub type Readings = [Result<Reading, String>];

/// The proposal that is used, or the reason for using none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Combined {
    /// Name and replicas of the largest proposal; `None` if it must not be used.
    pub(crate) best: Option<(String, i32)>,
    /// Condition `ScalingActive`.
    pub(crate) active: Condition,
    /// The failures, if there are any. The round is repeated.
    pub(crate) error: Option<String>,
}

/// Takes the largest proposal; of equal ones the first. While a metric fails, none that scales down.
pub(crate) fn combine(metrics: &[Evaluated<'_>], current: i32) -> Combined {
    let proposals = metrics.iter().filter_map(|metric| {
        let replicas = metric.proposal.as_ref().ok()?.replicas;
        Some((metric.source.as_ref()?, replicas))
    });
    let best = proposals.reduce(|best, next| if next.1 > best.1 { next } else { best });
    let mut failures = metrics.iter().filter_map(|metric| metric.proposal.as_ref().err());
    let first = failures.next();
    let error = first.map(|first| {
        let (failed, all) = (1 + failures.count(), metrics.len());
        format!("invalid metrics ({failed} invalid out of {all}), first error is: {}", first.error)
    });
    let unable = |reason, message: &str| {
        Condition::fails(reason, format!("the HPA was unable to compute the replica count: {message}"))
    };
    let best = best.filter(|best| first.is_none() || best.1 >= current);
    match (best, first) {
        (Some((source, replicas)), _) => {
            let name = source.name();
            let message = format!("the HPA was able to successfully calculate a replica count from {name}");
            Combined { best: Some((name, replicas)), active: Condition::holds("ValidMetricFound", message), error }
        }
        (None, Some(first)) => Combined { best: None, active: unable(first.reason, &first.message), error },
        (None, None) => {
            let message = "spec.metrics names no metric";
            let error = Some(message.to_owned());
            Combined { best: None, active: unable(events::INVALID_METRIC_SOURCE_TYPE, message), error }
        }
    }
}
