//! From answers of members to readings of metrics (specification/autoscaling.md 2.3, 3.4, 3.5).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};

use crate::{
    metrics::{
        Merged, custom, external,
        resource::{ContainerSample, PodSample},
    },
    pods::PodKey,
    proposal::Reading,
    samples::{DEFAULT_WINDOW, Sample, Samples, Usage},
};

/// Returns the usage of pods.
///
/// # Errors
/// A message if no member answered.
pub fn usage(merged: &Merged<PodSample>) -> Result<BTreeMap<PodKey, Usage>, String> {
    answered(merged, "resource metrics API")?;
    let each = merged.items.iter().map(|item| {
        let sample = &item.sample;
        let containers = sample.containers.iter().map(|container| (container.name.as_str().into(), amounts(container)));
        let usage = Usage { at: sample.timestamp, window: signed(sample.window), containers: containers.collect() };
        (key(&item.cluster, &sample.name), usage)
    });
    Ok(each.collect())
}

/// Returns the samples of a custom metric of pods. Pods of one name in two clusters are two pods.
///
/// # Errors
/// A message if no member answered, or none has the metric.
pub fn of_pods(merged: &Merged<custom::Sample>) -> Result<Reading, String> {
    answered(merged, "custom metrics API")?;
    let pods = merged.items.iter().filter(|item| item.sample.described.kind == "Pod");
    let each = pods.map(|item| {
        let sample = &item.sample;
        let window = sample.window.map_or(DEFAULT_WINDOW, signed);
        let value = sample.value.milli_value();
        (key(&item.cluster, &sample.described.name), Sample { at: sample.timestamp, window, value })
    });
    let samples: Samples = each.collect();
    if samples.is_empty() {
        return Err("no metrics returned from custom metrics API".to_owned());
    }
    Ok(Reading::Pods(samples))
}

/// Returns the value of a custom metric of an object, merged by the rule over the clusters that have it.
///
/// # Errors
/// A message if no member has the metric, or that of the rule.
pub fn of_object(merged: &Merged<custom::Sample>, rule: Result<custom::Merge, String>) -> Result<Reading, String> {
    answered(merged, "custom metrics API")?;
    let combined = custom::combine(&merged.items, rule?);
    if combined.is_empty() {
        return Err("no metrics returned from custom metrics API".to_owned());
    }
    let value = combined.iter().map(|combined| i128::from(combined.sample.value.milli_value())).sum();
    Ok(Reading::Total { value, unanswered: unanswered(merged) })
}

/// Returns the value of an external metric: the sum of the series that the rule selects.
///
/// # Errors
/// A message if no member has the metric, or that of the rule.
pub fn of_external(
    merged: &Merged<external::Sample>,
    rule: Result<external::Merge, String>,
    now: Timestamp,
) -> Result<Reading, String> {
    answered(merged, "external metrics API")?;
    let series = external::select(&merged.items, rule?, now);
    if series.is_empty() {
        return Err("no metrics returned from external metrics API".to_owned());
    }
    let value = series.iter().map(|series| i128::from(series.sample.value.milli_value())).sum();
    // A member that does not answer may see the same series as the others: what it alone sees is not known either.
    Ok(Reading::Total { value, unanswered: unanswered(merged) })
}

fn answered<T>(merged: &Merged<T>, api: &str) -> Result<(), String> {
    if !merged.items.is_empty() || merged.failed.is_empty() {
        return Ok(());
    }
    let each: Vec<String> = merged.failed.iter().map(|(cluster, why)| format!("{cluster}: {why}")).collect();
    Err(format!("unable to fetch metrics from {api}: {}", each.join("; ")))
}

fn unanswered<T>(merged: &Merged<T>) -> Vec<Arc<str>> {
    let names = merged.failed.keys().chain(merged.refused.keys());
    names.cloned().collect()
}

fn amounts(container: &ContainerSample) -> BTreeMap<Arc<str>, i64> {
    container.usage.iter().map(|(resource, amount)| (resource.as_str().into(), amount.milli_value())).collect()
}

fn key(cluster: &Arc<str>, name: &str) -> PodKey {
    PodKey { cluster: cluster.clone(), name: name.into() }
}

fn signed(window: Duration) -> SignedDuration {
    SignedDuration::try_from(window).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use ironclad_quantity::Amount;
    use jiff::Timestamp;

    use super::*;
    use crate::metrics::{Answer, custom::Described};

    fn custom(of: &[(&str, &str, &str, i64)]) -> Merged<custom::Sample> {
        let mut answers: BTreeMap<Arc<str>, Answer<custom::Sample>> = BTreeMap::new();
        for (cluster, kind, name, value) in of {
            let described = Described { kind: (*kind).to_owned(), name: (*name).to_owned(), ..Described::default() };
            let sample = custom::Sample {
                described,
                metric: "hits".into(),
                selector: None,
                timestamp: Timestamp::UNIX_EPOCH,
                window: None,
                value: Amount::from_milli(*value),
            };
            answers.entry(Arc::<str>::from(*cluster)).or_default().items.push(Arc::new(sample));
        }
        Merged::of(answers.into_iter().map(|(cluster, answer)| (cluster, Ok(Arc::new(answer)))))
    }

    fn lost<T>(mut merged: Merged<T>) -> Merged<T> {
        merged.failed.insert("m9".into(), "timed out".into());
        merged
    }

    #[test]
    fn values_of_objects_are_merged_by_the_rule() {
        let services =
            custom(&[("m1", "Service", "web", 10), ("m2", "Service", "web", 20), ("m3", "Service", "web", 30)]);
        let unknown = || "no such rule".to_owned();
        for (name, rule, want) in [
            ("added", Ok(custom::Merge::Sum), Ok(60)),
            ("the mean", Ok(custom::Merge::Avg), Ok(20)),
            ("the largest", Ok(custom::Merge::Max), Ok(30)),
            ("the rule is unknown", Err(unknown()), Err(unknown())),
        ] {
            let want = want.map(|value| Reading::Total { value, unanswered: Vec::new() });
            assert_eq!(of_object(&services, rule), want, "{name}");
        }
        let found = of_object(&lost(services), Ok(custom::Merge::Sum));
        assert_eq!(found, Ok(Reading::Total { value: 60, unanswered: vec!["m9".into()] }));
        let why = of_object(&lost(Merged::default()), Err(unknown())).unwrap_err();
        assert!(why.starts_with("unable to fetch metrics"), "no answer comes before the rule: {why}");
    }

    #[test]
    fn pods_of_one_name_are_two_samples() {
        let found = of_pods(&custom(&[("m1", "Pod", "web-0", 10), ("m2", "Pod", "web-0", 30), ("m2", "Node", "n", 9)]));
        let Ok(Reading::Pods(samples)) = found else { panic!("{found:?}") };
        let values: Vec<i64> = samples.values().map(|sample| sample.value).collect();
        assert_eq!(values, [10, 30]);
        assert!(samples.values().all(|sample| sample.window == DEFAULT_WINDOW));
    }

    #[test]
    fn without_any_answer_the_reason_is_told() {
        let nobody: Merged<PodSample> = lost(Merged::default());
        assert_eq!(usage(&nobody), Err("unable to fetch metrics from resource metrics API: m9: timed out".to_owned()));
        assert_eq!(usage(&Merged::default()), Ok(BTreeMap::new()), "no pods are measured anywhere");
        assert_eq!(of_pods(&Merged::default()), Err("no metrics returned from custom metrics API".to_owned()));
    }
}
