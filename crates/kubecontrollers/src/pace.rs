//! Debounce of status writes: immediate if nothing is in progress, else delayed, so that one write covers many steps.

use std::{collections::BTreeMap, time::Duration};

use ironclad_runtime::Key;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

/// Delay of a status write while more changes are in progress.
const MOMENT: Duration = Duration::from_millis(200);

/// Times since which objects need a status write.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<BTreeMap<Key, Instant>>);

/// Decision about a status write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is right as it is.
    Keep,
    /// Write it.
    Write,
    /// Check again after this time.
    Wait(Duration),
}

impl Pace {
    /// Decides whether the status of an object is written now; `changes`: it differs, `settled`: nothing is in
    /// progress.
    pub(crate) fn turn(&self, key: &Key, changes: bool, settled: bool, now: Instant) -> Turn {
        let mut since = self.0.lock();
        if !changes {
            since.remove(key);
            return Turn::Keep;
        }
        let due = *since.entry(key.clone()).or_insert(now) + MOMENT;
        if settled || due <= now { Turn::Write } else { Turn::Wait(due - now) }
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
    async fn turns() {
        let (pace, key) = (Pace::default(), Key::new("d", "a"));
        let clock = ironclad_seam::Clock::system();
        assert_eq!(pace.turn(&key, false, true, clock.mono()), Turn::Keep);
        assert_eq!(pace.turn(&key, true, false, clock.mono()), Turn::Wait(MOMENT));
        clock.sleep(MOMENT / 2).await;
        assert_eq!(pace.turn(&key, true, false, clock.mono()), Turn::Wait(MOMENT / 2), "counted from the first wish");
        assert_eq!(pace.turn(&key, true, true, clock.mono()), Turn::Write, "at once if nothing is on its way");
        clock.sleep(MOMENT / 2).await;
        assert_eq!(pace.turn(&key, true, false, clock.mono()), Turn::Write, "and at the latest then");
        pace.done(&key);
        assert_eq!(pace.turn(&key, true, false, clock.mono()), Turn::Wait(MOMENT));
    }

    #[test]
    fn patches_name_what_goes_and_leave_out_what_stays() {
        let before = json!({"replicas": 3, "readyReplicas": 1, "observedGeneration": 1});
        let after = json!({"replicas": 3, "observedGeneration": 2});
        assert_eq!(status_patch(Some(&before), &after), json!({"readyReplicas": null, "observedGeneration": 2}));
        assert_eq!(status_patch(None, &after), after);
    }
}
