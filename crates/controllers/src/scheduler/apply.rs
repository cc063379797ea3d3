//! Writes the result of a scheduling cycle: first the result, then the status about it.

use std::{sync::Arc, time::Duration};

use ironclad_fleet::Binding;
use ironclad_propagation::quota::usage::{self, Amounts};
use ironclad_runtime::{Failure, Key, Next, Writer};
use ironclad_scheduling::{self as scheduling, Again, Decision, Effect, preempt::NOMINATED_CLUSTERS};
use ironclad_seam::Clock;

use super::preemption::{Preemption, Progress};
use crate::{bindings::Bindings, capacity::BeingWritten, events::Events, setup::Setup};

/// Time within which a nomination is written; the evictions follow it.
const NOMINATION_WRITTEN: Duration = Duration::from_millis(100);

/// Returns whether the reasons of decisions are logged.
pub(super) fn logs_reasons() -> bool {
    tracing::enabled!(tracing::Level::DEBUG)
}

/// The writes of the scheduler.
pub(super) struct Applier {
    writer: Writer,
    bindings: Bindings,
    events: Events,
    clock: Clock,
    preemption: Arc<Preemption>,
}

/// Outcome of the writes of a decision.
pub(super) struct Applied {
    pub(super) next: Next,
    /// Usage of the result that a quota refused.
    pub(super) over_quota: Option<Amounts>,
}

impl From<Next> for Applied {
    fn from(next: Next) -> Self {
        Self { next, over_quota: None }
    }
}

impl Applier {
    pub(super) fn new(setup: &Setup, preemption: Arc<Preemption>) -> Self {
        Self {
            writer: setup.writer("scheduler"),
            bindings: setup.bindings().clone(),
            events: setup.events.clone(),
            clock: setup.seam.clock.clone(),
            preemption,
        }
    }

    /// `assumed` is the result of the plan, with which later decisions reckon already.
    pub(super) async fn apply(
        &self,
        key: &Key,
        binding: &Binding,
        decision: &Decision,
        mut assumed: Option<BeingWritten>,
    ) -> Result<Applied, Failure> {
        for reason in &decision.plan.because {
            tracing::debug!(binding = %key, %reason, "scheduled");
        }
        for effect in &decision.plan.effects {
            let (patch, targets) = match effect {
                Effect::Result { patch, targets } => (patch, targets),
                Effect::Preempt(plan) => match self.preemption.evict(key, binding, plan).await? {
                    Progress::Done => continue,
                    Progress::NotNominated => return Ok(Next::After(NOMINATION_WRITTEN).into()),
                },
                Effect::Status(_) | Effect::Event(_) => {
                    self.report(key, binding, effect);
                    continue;
                }
            };
            let written = self.bindings.patch(&self.writer, binding, patch.clone()).await;
            // The write may have been made even if its answer was lost or overtaken.
            if written.is_ok() || self.bindings.get(key).is_some_and(|now| now.spec().clusters == *targets) {
                assumed.take().into_iter().for_each(BeingWritten::confirm);
            }
            match written {
                Ok(()) => {}
                // Quota may be freed at any time, and nothing is broken.
                Err(Failure::OverQuota(refusal)) => {
                    self.report_refusal(key, binding, &refusal);
                    return Ok(Applied {
                        next: Next::Retry,
                        over_quota: usage::of_result(binding.spec(), targets).ok(),
                    });
                }
                Err(failure) => {
                    // Failures that may pass by themselves are retried without a report.
                    if failure.is_final() {
                        self.report_refusal(key, binding, &failure.to_string());
                    }
                    return Err(failure);
                }
            }
        }
        let successes = self.events.successes(|| scheduling::success(binding.view(), &decision.plan.effects));
        self.events.record_all(&successes);
        Ok(match scheduling::again(decision.next, self.clock.wall()) {
            Again::Never => Next::Forget,
            Again::Backoff => Next::Retry,
            Again::After(wait) => Next::After(wait),
        }
        .into())
    }

    fn report_refusal(&self, key: &Key, binding: &Binding, refusal: &str) {
        let plan = scheduling::refused(binding.view(), refusal, self.clock.wall_seconds());
        plan.effects.iter().for_each(|effect| self.report(key, binding, effect));
    }

    fn report(&self, key: &Key, binding: &Binding, effect: &Effect) {
        match effect {
            Effect::Result { .. } | Effect::Preempt(_) => {}
            Effect::Status(part) => {
                if part.fields.contains_key(NOMINATED_CLUSTERS) {
                    self.bindings.request_urgent_status(key, binding.uid(), "scheduler", part.clone());
                } else {
                    self.bindings.request_status(key, binding.uid(), "scheduler", part.clone());
                }
            }
            Effect::Event(event) => self.events.record(event),
        }
    }
}
