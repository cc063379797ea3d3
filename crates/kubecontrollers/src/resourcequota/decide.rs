//! The status of a quota after a count.

use std::{collections::BTreeMap, time::Duration};

use ironclad_quota::{Amounts, Counted, to_json};
use serde_json::{Map, Value, json};

/// Wait until the next count where nothing seems to have changed: pods outlive their grace period by time alone.
const RESYNC: Duration = Duration::from_secs(300);
/// Wait until a kind that the server does not have is looked up again.
const LOOK_UP: Duration = Duration::from_secs(30);

/// The outcome of a count.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Merge patch of the status; `None` if it is right.
    pub(super) status: Option<Value>,
    /// Wait until the next count.
    pub(super) again_after: Duration,
}

/// Decides the status of a quota from what the objects of each kind use. The server does not have the kinds that are
/// missing in `counts`: nothing is reported as used of them.
pub(super) fn decide(quota: &Value, counts: &BTreeMap<Counted, Amounts>) -> Plan {
    let empty = Map::new();
    let list = |part: &str, side: &str| quota[part][side].as_object().unwrap_or(&empty);
    let (wanted, hard, used) = (list("spec", "hard"), list("status", "hard"), list("status", "used"));
    let counted: Amounts = counts.values().flatten().map(|(name, amount)| (name.clone(), amount.clone())).collect();
    let counted = to_json(&counted).as_object().cloned().unwrap_or_default();
    let is_known = Counted::of_quota(quota).iter().all(|kind| counts.contains_key(kind));
    let takes_over = hard != wanted;
    Plan {
        status: (takes_over || *used != counted || !quota["status"]["used"].is_object())
            .then(|| json!({"hard": patch(hard, wanted), "used": patch(used, &counted)})),
        again_after: match (takes_over, is_known) {
            // Until now the server did not charge by these limits: what was created meanwhile is counted now.
            (true, _) => Duration::ZERO,
            (false, false) => LOOK_UP,
            (false, true) => RESYNC,
        },
    }
}

/// Returns the merge patch from one list to another.
fn patch(from: &Map<String, Value>, to: &Map<String, Value>) -> Value {
    let gone = from.keys().filter(|name| !to.contains_key(*name)).map(|name| (name.clone(), Value::Null));
    Value::Object(gone.chain(to.clone()).collect())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn status_follows_spec_and_count() {
        let secrets = Counted::of("", "secrets").unwrap();
        let counts =
            |quota: &Value, number: usize| BTreeMap::from([(secrets.clone(), secrets.total_of_number(quota, number))]);
        let quota = |hard: Value, status: Value| json!({"spec": {"hard": hard}, "status": status});
        let one = json!({"secrets": "1"});
        let (zero, resync) = (Duration::ZERO, RESYNC);
        for (name, quota, number, status, again_after) in [
            (
                "a new quota takes effect",
                quota(one.clone(), json!({})),
                2,
                Some(json!({"hard": {"secrets": "1"}, "used": {"secrets": "2"}})),
                zero,
            ),
            (
                "a settled one is not written",
                quota(one.clone(), json!({"hard": one, "used": {"secrets": "2"}})),
                2,
                None,
                resync,
            ),
            (
                "something was deleted",
                quota(one.clone(), json!({"hard": one, "used": {"secrets": "2"}})),
                1,
                Some(json!({"hard": {"secrets": "1"}, "used": {"secrets": "1"}})),
                resync,
            ),
            (
                "a limit was removed",
                quota(
                    one.clone(),
                    json!({"hard": {"secrets": "1", "pods": "2"}, "used": {"secrets": "0", "pods": "1"}}),
                ),
                0,
                Some(json!({"hard": {"secrets": "1", "pods": null}, "used": {"secrets": "0", "pods": null}})),
                zero,
            ),
        ] {
            let plan = decide(&quota, &counts(&quota, number));
            assert_eq!(plan, Plan { status, again_after }, "{name}");
        }
    }

    #[test]
    fn names_that_nothing_is_charged_for_have_no_usage() {
        let quota = json!({"spec": {"hard": {"count/widgets.example.com": "1", "pods": "1"}}});
        let now = Timestamp::from_second(0).unwrap();
        let counts = BTreeMap::from([(Counted::Pods, Counted::Pods.total(&quota, &[], now))]);
        let plan = decide(&quota, &counts);
        assert_eq!(plan.status.unwrap()["used"], json!({"pods": "0"}));
        let settled = json!({"spec": quota["spec"], "status": {"hard": quota["spec"]["hard"], "used": {"pods": "0"}}});
        assert_eq!(decide(&settled, &counts), Plan { status: None, again_after: LOOK_UP });
    }
}
