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
pub(crate) struct Room {
    free: Arc<Semaphore>,
    units: u32,
}

/// A part of the room; returned when it is dropped.
#[derive(Debug)]
pub(crate) struct Taken(OwnedSemaphorePermit);

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

impl Room {
    pub(crate) fn new(bytes: usize) -> Self {
        let units = units(bytes).clamp(1, u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX));
        Self { free: Arc::new(Semaphore::new(units as usize)), units }
    }

    /// Takes room for an answer of this size, in order of arrival. One that is larger than all room takes all of it.
    ///
    /// # Errors
    /// Other answers did not leave enough in time.
    pub(crate) async fn take(&self, bytes: usize) -> Result<Option<Taken>, ApiError> {
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        let wanted = units(bytes).min(self.units);
        match tokio::time::timeout(WAIT, self.free.clone().acquire_many_owned(wanted)).await {
            Ok(Ok(permit)) => Ok(Some(Taken(permit))),
            Ok(Err(_)) | Err(_) => Err(ApiError::too_many_requests()),
        }
    }
}

impl Taken {
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
    async fn answers_wait_for_room_and_are_refused_without() {
        let room = Room::new(4 * MIB);
        assert!(room.take(1_000).await.unwrap().is_none(), "small ones need none");
        let mut first = room.take(3 * MIB).await.unwrap().unwrap();
        assert_eq!(room.take(2 * MIB).await.map(drop).unwrap_err().code, 429);
        first.shrink(2 * MIB);
        let second = room.take(2 * MIB).await.unwrap();
        assert!(second.is_some());
        drop((first, second));
        let all = room.take(100 * MIB).await.unwrap();
        assert!(all.is_some(), "a larger one than all room is possible, alone");
        assert_eq!(room.take(MIB).await.map(drop).unwrap_err().code, 429);
        drop(all);
        assert!(room.take(MIB).await.unwrap().is_some());
    }
}
