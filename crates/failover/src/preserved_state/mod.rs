//! The state that a new copy inherits of the one that is left: labels read from its status (specification/failover.md
//! 5.4).
//!
//! Collecting happens here, at the eviction; the labels are put on the new copy where Works are made.

mod path;

use ironclad_api::{
    JsonText, StringMap,
    policy::StatePreservation,
    work::{AggregatedStatusItem, GracefulEvictionTask},
};
use ironclad_fleet::ClusterName;

pub use path::{JsonPath, PathError};

/// Bytes of a label's value that the API takes.
const LABEL_VALUE_MAX: usize = 63;

/// Error of collecting state. Nothing is evicted then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PreserveError {
    /// The cluster never reported a status.
    #[error("the application status has not yet been collected from Cluster({cluster})")]
    NotCollected { cluster: ClusterName },
    /// A rule's path can't be read, or leads nowhere in the status.
    #[error("{path} of label {alias} in the status from Cluster({cluster})")]
    Path {
        /// The label.
        alias: String,
        path: String,
        /// Cluster of the status.
        cluster: ClusterName,
        source: PathError,
    },
    /// A value that no label can have: the member would refuse the new copy.
    #[error("the value {value:?} is not a legal value of label {alias}")]
    NotALabel {
        /// The label.
        alias: String,
        value: String,
    },
}

/// Reads the rules from the last reported status of `cluster`. Where the copy there cannot supply a label, it has the
/// one that was meant for it: that of the task whose replacement it is, if that task has not ended (IR-19).
///
/// # Errors
/// If a label has no legal value.
pub fn collect(
    rules: &StatePreservation,
    cluster: &ClusterName,
    status: &[AggregatedStatusItem],
    previous: Option<&GracefulEvictionTask>,
) -> Result<StringMap, PreserveError> {
    let reported = status.iter().find(|line| line.cluster_name == *cluster.0).and_then(|line| line.status.as_ref());
    let reported = reported.map(JsonText::value);
    let inherited = |alias: &str| previous.and_then(|task| task.preserved_label_state.get(alias));
    let mut state = StringMap::new();
    for rule in &rules.rules {
        let alias = &rule.alias_label_name;
        let own = match &reported {
            None => Err(PreserveError::NotCollected { cluster: cluster.clone() }),
            Some(status) => JsonPath::parse(&rule.json_path).and_then(|path| path.render(status)).map_err(|source| {
                let (alias, path) = (alias.clone(), rule.json_path.clone());
                PreserveError::Path { alias, path, cluster: cluster.clone(), source }
            }),
        };
        let own = own.and_then(|value| match is_label_value(&value) {
            true => Ok(value),
            false => Err(PreserveError::NotALabel { alias: alias.clone(), value }),
        });
        let supplied = own.as_ref().is_ok_and(|value| !value.is_empty());
        let value = match inherited(alias) {
            Some(inherited) if !supplied => inherited.clone(),
            _ => own?,
        };
        state.insert(alias.clone(), value);
    }
    Ok(state)
}

/// A label value: empty, or up to 63 of letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
fn is_label_value(value: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let end = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    value.len() <= LABEL_VALUE_MAX
        && value.chars().all(inner)
        && end(value.chars().next())
        && end(value.chars().next_back())
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use ironclad_api::{policy::StatePreservationRule, work::ResourceHealth};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::testkit::{line, task};

    fn rules(rows: &[(&str, &str)]) -> StatePreservation {
        let rule = |(alias, path): &(&str, &str)| StatePreservationRule {
            alias_label_name: (*alias).to_owned(),
            json_path: (*path).to_owned(),
        };
        StatePreservation { rules: rows.iter().map(rule).collect() }
    }

    fn reported(status: Option<Value>) -> Vec<AggregatedStatusItem> {
        let status = status.as_ref().map(JsonText::from);
        vec![AggregatedStatusItem { status, ..line("m1", ResourceHealth::Unhealthy, 0) }]
    }

    fn text(result: Result<StringMap, PreserveError>) -> Result<String, String> {
        result
            .map(|state| state.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(","))
            .map_err(|e| e.source().map_or_else(|| e.to_string(), |source| format!("{e}: {source}")))
    }

    #[test]
    fn rules_read_labels_from_the_status() {
        let job = json!({"jobId": "a1-b2", "replicas": 3, "done": false, "text": "two words", "long": "x".repeat(64), "none": null});
        for (name, rows, status, want) in [
            ("a text", &[("id", "{.jobId}")][..], Some(job.clone()), Ok("id=a1-b2")),
            ("a number", &[("n", "{ .replicas }")], Some(job.clone()), Ok("n=3")),
            (
                "several rules, one of a boolean",
                &[("d", "{.done}"), ("id", "{.jobId}")],
                Some(job.clone()),
                Ok("d=false,id=a1-b2"),
            ),
            ("no rules", &[], None, Ok("")),
            (
                "a missing key is an error",
                &[("x", "{.nope}")],
                Some(job.clone()),
                Err("{.nope} of label x in the status from Cluster(m1): nope is not found"),
            ),
            (
                "null is an error",
                &[("x", "{.none}")],
                Some(job.clone()),
                Err("{.none} of label x in the status from Cluster(m1): none is not found"),
            ),
            (
                "an invalid path is an error",
                &[("x", "{.jobId")],
                Some(job.clone()),
                Err("{.jobId of label x in the status from Cluster(m1): unclosed action"),
            ),
            (
                "never collected",
                &[("x", "{.jobId}")],
                None,
                Err("the application status has not yet been collected from Cluster(m1)"),
            ),
            (
                "an invalid label value is an error (IR-18)",
                &[("x", "{.text}")],
                Some(job.clone()),
                Err("the value \"two words\" is not a legal value of label x"),
            ),
        ] {
            let got = text(collect(&rules(rows), &"m1".into(), &reported(status), None));
            assert_eq!(got, want.map(ToOwned::to_owned).map_err(ToOwned::to_owned), "{name}");
        }
        let long = collect(&rules(&[("x", "{.long}")]), &"m1".into(), &reported(Some(job.clone())), None);
        assert!(matches!(long, Err(PreserveError::NotALabel { .. })), "a label value of 64 bytes is too long");
        let elsewhere = collect(&rules(&[("x", "{.jobId}")]), &"m2".into(), &reported(Some(job)), None);
        assert_eq!(
            elsewhere,
            Err(PreserveError::NotCollected { cluster: "m2".into() }),
            "only the status of this cluster is read"
        );
    }

    #[test]
    fn injected_state_is_passed_on_if_the_copy_does_not_supply_it() {
        let mut previous = task("m0");
        previous.preserved_label_state = [("id".to_owned(), "from-m0".to_owned())].into();
        let rules = rules(&[("id", "{.jobId}"), ("n", "{.n}")]);
        for (name, status, want) in [
            ("the status supplies both labels", Some(json!({"jobId": "own", "n": 1})), Ok("id=own,n=1")),
            ("the status lacks one label (IR-19)", Some(json!({"n": 1})), Ok("id=from-m0,n=1")),
            ("an empty value counts as missing", Some(json!({"jobId": "", "n": 1})), Ok("id=from-m0,n=1")),
            ("no status reported", None, Err("the application status has not yet been collected from Cluster(m1)")),
        ] {
            let got = text(collect(&rules, &"m1".into(), &reported(status), Some(&previous)));
            assert_eq!(got, want.map(ToOwned::to_owned).map_err(ToOwned::to_owned), "{name}");
        }
        let only = StatePreservation { rules: rules.rules[..1].to_vec() };
        let got = text(collect(&only, &"m1".into(), &reported(None), Some(&previous)));
        assert_eq!(got, Ok("id=from-m0".to_owned()), "no status reported, but the injected state has all labels");
    }

    proptest! {
        /// Invariant 35, collection: preserved labels are the values of the status and valid.
        #[test]
        fn preserved_labels_are_valid_values_of_the_status(value in "[a-zA-Z0-9._ -]{0,70}", other in any::<i64>()) {
            let status = json!({"a": {"b": value}, "n": other});
            let got = collect(&rules(&[("l", "{.a.b}"), ("n", "{.n}")]), &"m1".into(), &reported(Some(status)), None);
            match got {
                Ok(state) => {
                    prop_assert_eq!(&state["l"], &value);
                    prop_assert_eq!(&state["n"], &other.to_string());
                    prop_assert!(state.values().all(|v| is_label_value(v)));
                }
                Err(_) => prop_assert!(!is_label_value(&value) || !is_label_value(&other.to_string())),
            }
        }
    }
}
