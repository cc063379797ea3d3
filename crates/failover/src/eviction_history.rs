//! The last migrations of a binding, in its status (specification/failover.md 14.4).

use ironclad_api::work::FailoverRecord;
use serde_json::{Value, json};

/// So many migrations are remembered.
const HISTORY_MAX: usize = 5;

/// The list with a migration in it: at the end, or in the place of the one of the same episode and cluster that is not
/// finished; the oldest are dropped. As a field of a status, with its times in whole seconds.
#[must_use]
pub(crate) fn recorded(history: &[FailoverRecord], record: FailoverRecord) -> Value {
    let same =
        |old: &FailoverRecord| old.episode == record.episode && old.from == record.from && old.cleared_at.is_none();
    let mut all: Vec<FailoverRecord> = history.iter().filter(|old| !same(old)).cloned().collect();
    all.push(record);
    let surplus = all.len().saturating_sub(HISTORY_MAX);
    all.drain(..surplus);
    json!(all)
}
