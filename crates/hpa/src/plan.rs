//! Outcome of a round: replicas, conditions and events.

use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::MetricStatus;

use crate::{
    conditions::{Condition, Conditions, ScaledToZero},
    events,
    history::History,
    notice::Notice,
};

/// Changes to make after a round.
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use]
pub struct Plan {
    /// Replicas of the template before the round; `None` if they could not be read.
    pub current: Option<i32>,
    /// Replicas to set. They equal the present ones if nothing is to be set.
    pub desired: i32,
    /// Proposal to record.
    pub recommended: Option<i32>,
    /// Reason of the change, as its event gives it.
    pub because: String,
    pub conditions: Conditions,
    /// Condition `ScaledToZero`.
    pub scaled_to_zero: ScaledToZero,
    /// `status.currentMetrics`, if they are known.
    pub metrics: Option<Vec<MetricStatus>>,
    /// True unless the round ended early: then replicas and metrics of the status stay.
    pub is_complete: bool,
    pub events: Vec<Notice>,
    /// Reason why the round is repeated soon.
    pub error: Option<String>,
}

/// Outcome of writing the replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// There was nothing to write.
    Nothing,
    /// They were written.
    Rescaled,
    /// They were not, for this reason.
    Failed(String),
}

impl Plan {
    /// The plan of a round that ends before it decides: a condition and an event say why, and nothing is scaled.
    /// `current` are the replicas, if they are known.
    pub fn ended(current: Option<i32>, condition: &'static str, event: &'static str, why: String) -> Self {
        let able = Some(Condition::fails(condition, why.clone()));
        Self {
            current,
            desired: current.unwrap_or(0),
            conditions: Conditions { able, ..Conditions::default() },
            events: vec![Notice::warning(event, why.clone())],
            error: Some(why),
            ..Self::default()
        }
    }

    /// The plan of a round whose target has no scale that could be read.
    pub fn without_scale(current: Option<i32>, why: &str) -> Self {
        let message = format!("the HPA controller was unable to get the target's current scale: {why}");
        Self::ended(current, events::FAILED_GET_SCALE, events::FAILED_GET_SCALE, message)
    }

    /// True if replicas are to be written.
    #[must_use]
    pub fn rescales(&self) -> bool {
        self.current.is_some_and(|current| current != self.desired)
    }

    /// Returns the event of the outcome of writing the replicas.
    #[must_use]
    pub fn notice_of(&self, written: &Written) -> Option<Notice> {
        let (size, because) = (self.desired, &self.because);
        match written {
            Written::Nothing => None,
            Written::Rescaled => Some(Notice {
                is_warning: false,
                reason: events::SUCCESSFUL_RESCALE,
                message: format!("New size: {size}; reason: {because}"),
            }),
            Written::Failed(why) => {
                let message = format!("New size: {size}; reason: {because}; error: {why}");
                Some(Notice::warning(events::FAILED_RESCALE, message))
            }
        }
    }

    /// Returns `AbleToScale` if writing the replicas decides it.
    pub(crate) fn able_after(&self, written: &Written) -> Option<Condition> {
        match written {
            Written::Nothing => None,
            Written::Rescaled => Some(Condition::holds(
                "SucceededRescale",
                format!("the HPA controller was able to update the target scale to {}", self.desired),
            )),
            Written::Failed(why) => Some(Condition::fails(
                "FailedUpdateScale",
                format!("the HPA controller was unable to update the target scale: {why}"),
            )),
        }
    }

    /// Records the round in the state of the autoscaler.
    pub fn record(&self, history: &mut History, written: &Written, now: Timestamp) {
        if let Some(recommended) = self.recommended {
            history.recommend(recommended, now);
        }
        if let (Written::Rescaled, Some(current)) = (written, self.current) {
            history.change(current, self.desired, now);
        }
    }
}
