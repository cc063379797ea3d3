//! Items of a `PodMetricsList`.

use std::sync::Arc;

use ironclad_hpa::{pods::Amounts, samples::Usage};
use ironclad_quantity::Amount;
use jiff::SignedDuration;
use serde_json::Value;

/// Parses an item; returns the name of the pod and its usage. A quantity that cannot be read is left out.
pub(super) fn parse(item: &Value) -> Option<(String, Usage)> {
    let name = item["metadata"]["name"].as_str()?.to_owned();
    let at = item["timestamp"].as_str()?.parse().ok()?;
    let seconds =
        item["window"].as_str().and_then(|window| window.strip_suffix('s')).and_then(|s| s.parse::<f64>().ok());
    let window = seconds.and_then(|seconds| SignedDuration::try_from_secs_f64(seconds).ok()).unwrap_or_default();
    let amounts = |usage: &Value| -> Amounts {
        let each = usage.as_object().into_iter().flatten();
        let milli = |text: &Value| Amount::parse(text.as_str()?).ok().map(Amount::milli_value);
        each.filter_map(|(resource, text)| Some((Arc::from(resource.as_str()), milli(text)?))).collect()
    };
    let containers = item["containers"].as_array().into_iter().flatten();
    let containers = containers.filter_map(|c| Some((Arc::from(c["name"].as_str()?), amounts(&c["usage"])))).collect();
    Some((name, Usage { at, window, containers }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn items_are_read_as_far_as_possible() {
        let item = |usage: Value| {
            json!({"metadata": {"name": "a"}, "timestamp": "2026-01-01T00:00:00Z", "window": "15s",
                "containers": [{"name": "c", "usage": usage}]})
        };
        let (name, usage) = parse(&item(json!({"cpu": "100m", "memory": "1Ki", "gpu": "NaN"}))).unwrap();
        assert_eq!((name.as_str(), usage.window), ("a", SignedDuration::from_secs(15)));
        let amounts: Vec<(&str, i64)> = usage.containers["c"].iter().map(|(name, amount)| (&**name, *amount)).collect();
        assert_eq!(amounts, [("cpu", 100), ("memory", 1_024_000)]);
        assert_eq!(parse(&json!({"metadata": {"name": "a"}})), None, "an item without a time");
    }
}
