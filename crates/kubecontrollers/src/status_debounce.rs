//! Debounce of status writes: immediate if nothing is in progress, else delayed, so that one write covers many steps.

use std::{collections::BTreeMap, time::Duration};

use ironclad_runtime::Key;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

/// Delay of a status write while more changes are in progress.
const DEBOUNCE: Duration = Duration::from_millis(200);

/// Objects whose status must be written, with the time since when.
#[derive(Debug, Default)]
pub(crate) struct StatusDebounce(Mutex<BTreeMap<Key, Instant>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteStatus {
    /// Do not write: the status is unchanged.
    Keep,
    Write,
    /// Check again after this time.
    Wait(Duration),
}

impl StatusDebounce {
    /// Decides whether the status of an object is written now; `changes`: the status differs, `idle`: nothing is in
    /// progress.
    pub(crate) fn check(&self, key: &Key, changes: bool, idle: bool, now: Instant) -> WriteStatus {
        let mut since = self.0.lock();
        if !changes {
            since.remove(key);
            return WriteStatus::Keep;
        }
        let due = *since.entry(key.clone()).or_insert(now) + DEBOUNCE;
        if idle || due <= now { WriteStatus::Write } else { WriteStatus::Wait(due - now) }
    }

    /// Forgets the object: its status was written, or it was deleted.
    pub(crate) fn done(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

/// Returns the merge patch from one status to another; removed fields become null.
pub(crate) fn status_patch<S: Serialize>(before: Option<&S>, after: &S) -> Value {
    let fields = |s: &S| serde_json::to_value(s).unwrap_or_default();
    let (before, mut after) = (before.map(fields).unwrap_or_default(), fields(after));
    if let (Value::Object(before), Value::Object(after)) = (before, &mut after) {
        for (name, value) in before {
            match after.get(&name) {
                None => {
                    after.insert(name, Value::Null);
                }
                Some(same) if *same == value => {
                    after.remove(&name);
                }
                Some(_) => {}
            }
        }
    }
    after
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn writes_are_debounced() {
        let (debounce, key) = (StatusDebounce::default(), Key::new("d", "a"));
        let clock = ironclad_seam::Clock::system();
        assert_eq!(debounce.check(&key, false, true, clock.mono()), WriteStatus::Keep);
        assert_eq!(debounce.check(&key, true, false, clock.mono()), WriteStatus::Wait(DEBOUNCE));
        clock.sleep(DEBOUNCE / 2).await;
        assert_eq!(
            debounce.check(&key, true, false, clock.mono()),
            WriteStatus::Wait(DEBOUNCE / 2),
            "the delay counts from the first change"
        );
        assert_eq!(
            debounce.check(&key, true, true, clock.mono()),
            WriteStatus::Write,
            "immediately if nothing is in progress"
        );
        clock.sleep(DEBOUNCE / 2).await;
        assert_eq!(
            debounce.check(&key, true, false, clock.mono()),
            WriteStatus::Write,
            "at the latest after the delay"
        );
        debounce.done(&key);
        assert_eq!(debounce.check(&key, true, false, clock.mono()), WriteStatus::Wait(DEBOUNCE));
    }

    #[test]
    fn patches_contain_only_changed_and_removed_fields() {
        let before = json!({"replicas": 3, "readyReplicas": 1, "observedGeneration": 1});
        let after = json!({"replicas": 3, "observedGeneration": 2});
        assert_eq!(status_patch(Some(&before), &after), json!({"readyReplicas": null, "observedGeneration": 2}));
        assert_eq!(status_patch(None, &after), after);
    }
}
