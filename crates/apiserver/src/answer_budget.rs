//! Memory of answers: how many bytes may be built and sent at once.
//!
//! A list is built as a whole, and a client can leave it unread. Without a bound, a few clients that ask for all
//! objects would take all memory. Watches have buffers of their own.

use std::{sync::Arc, time::Duration};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::status::ApiError;

/// Granularity of the bound: permits are counted in 32 bits.
const UNIT_BYTES: usize = 1024;
/// Longest wait for other answers to be sent.
const WAIT: Duration = Duration::from_secs(5);
/// Answers up to this size are not counted: requests themselves are limited.
const SMALL_BYTES: usize = 32 * 1024;

/// Bytes that answers may take.
#[derive(Debug)]
pub(crate) struct AnswerBudget {
    free: Arc<Semaphore>,
    units: u32,
}

/// Part of the budget; returned when it is dropped.
#[derive(Debug)]
pub(crate) struct BudgetPermit(OwnedSemaphorePermit);

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

impl AnswerBudget {
    pub(crate) fn new(bytes: usize) -> Self {
        let units = units(bytes).clamp(1, u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX));
        Self { free: Arc::new(Semaphore::new(units as usize)), units }
    }

    /// Acquires a permit for an answer of this size, in order of arrival. An answer larger than the budget takes all of
    /// it.
    ///
    /// # Errors
    /// Other answers did not leave enough in time.
    pub(crate) async fn acquire(&self, bytes: usize) -> Result<Option<BudgetPermit>, ApiError> {
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        let wanted = units(bytes).min(self.units);
        match tokio::time::timeout(WAIT, self.free.clone().acquire_many_owned(wanted)).await {
            Ok(Ok(permit)) => Ok(Some(BudgetPermit(permit))),
            Ok(Err(_)) | Err(_) => Err(ApiError::too_many_requests()),
        }
    }
}

impl BudgetPermit {
    /// Returns what an answer of this size does not need.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let kept = units(bytes) as usize;
        let surplus = self.0.num_permits().saturating_sub(kept.max(1));
        drop(self.0.split(surplus));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    #[tokio::test(start_paused = true)]
    async fn answers_wait_for_the_budget_and_are_refused_without() {
        let budget = AnswerBudget::new(4 * MIB);
        assert!(budget.acquire(1_000).await.unwrap().is_none(), "small ones need none");
        let mut first = budget.acquire(3 * MIB).await.unwrap().unwrap();
        assert_eq!(budget.acquire(2 * MIB).await.map(drop).unwrap_err().code, 429);
        first.shrink(2 * MIB);
        let second = budget.acquire(2 * MIB).await.unwrap();
        assert!(second.is_some());
        drop((first, second));
        let all = budget.acquire(100 * MIB).await.unwrap();
        assert!(all.is_some(), "an answer larger than the budget is possible, alone");
        assert_eq!(budget.acquire(MIB).await.map(drop).unwrap_err().code, 429);
        drop(all);
        assert!(budget.acquire(MIB).await.unwrap().is_some());
    }
}
