//! Turns of writes that are charged to the same quotas.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// Turns of the writes that are charged to quotas, by namespace. Without them all but one of the writes that compare
/// the same quota would fail, and be tried again after each commit.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<BTreeMap<String, Weak<tokio::sync::Mutex<()>>>>);

impl Turns {
    /// Waits for the namespace's turn, which ends when the guard is dropped.
    pub(super) async fn take(&self, namespace: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock();
            turns.retain(|_, turn| turn.strong_count() > 0);
            let known = turns.get(namespace).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let turn = Arc::default();
                turns.insert(namespace.to_owned(), Arc::downgrade(&turn));
                turn
            })
        };
        turn.lock_owned().await
    }
}
