//! Yields of work that never waits, so that other tasks run.

/// Pieces of work between two yields: about half a millisecond of objects that are read.
const EVERY: u32 = 16;

/// Counts pieces of work that come without a wait between them, such as the objects of a first list.
#[derive(Debug, Default)]
pub struct Yields(u32);

impl Yields {
    /// Notes that one piece is done, and yields after some of them.
    pub async fn done(&mut self) {
        self.0 = (self.0 + 1) % EVERY;
        if self.0 == 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use super::*;

    #[tokio::test]
    async fn other_tasks_run_between_pieces_of_work() {
        let turns = Arc::new(AtomicU32::new(0));
        let counted = turns.clone();
        #[allow(clippy::disallowed_methods, reason = "the test watches the scheduler itself")]
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        let mut yields = Yields::default();
        for _ in 0..10 * EVERY {
            yields.done().await;
        }
        other.abort();
        assert!(turns.load(Ordering::Relaxed) >= 9);
    }
}
