//! Counts the events of a watch whose order differs from run to run.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::side::Stream;

pub(super) async fn count_events(stream: &mut Stream, count: usize) -> Value {
    let mut types: BTreeMap<String, usize> = BTreeMap::new();
    let (mut last, mut back, mut marks, mut trouble) = (0_u64, 0, 0, Value::Null);
    // Existing objects come first, by name, up to the bookmark of their end, if there is one.
    let mut listed = 0_u64;
    while types.values().sum::<usize>() < count {
        let event = match stream.next().await {
            Ok(Some(event)) => event,
            Ok(None) => {
                trouble = "the stream ends".into();
                break;
            }
            Err(error) => {
                trouble = format!("{error:#}").into();
                break;
            }
        };
        let metadata = &event["object"]["metadata"];
        let revision = metadata["resourceVersion"].as_str().and_then(|r| r.parse().ok()).unwrap_or(0);
        let kind = event["type"].as_str().unwrap_or_default();
        // The number of bookmarks may differ between servers.
        if kind == "BOOKMARK" {
            marks += usize::from(!metadata["annotations"]["k8s.io/initial-events-end"].is_null());
            back += usize::from(revision < listed);
            last = revision;
            continue;
        }
        *types.entry(kind.to_owned()).or_default() += 1;
        if marks > 0 || kind != "ADDED" {
            back += usize::from(revision <= last);
            last = revision;
        } else {
            listed = listed.max(revision);
        }
    }
    json!({"types": types, "ends of the list": marks, "out of order": back, "trouble": trouble})
}
