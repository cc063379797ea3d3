//! From answers of members to readings of metrics (specification/autoscaling.md 2.3, 3.4, 3.5).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_api::annotations::METRIC_MERGE_PREFIX;
use ironclad_fleet::ClusterName;
use jiff::{SignedDuration, Timestamp};

use super::{
    pods::PodKey,
    proposal::Reading,
    samples::{DEFAULT_WINDOW, Sample, Samples, Usage},
};
use crate::metrics::{
    Merged, custom, external,
    resource::{ContainerSample, PodSample},
};

type Annotations = BTreeMap<String, String>;

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

/// Returns the value of a custom metric of an object, merged over the clusters that have it.
///
/// # Errors
/// A message if no member has the metric, or the annotation that says how to merge is invalid.
pub fn of_object(merged: &Merged<custom::Sample>, metric: &str, annotations: &Annotations) -> Result<Reading, String> {
    answered(merged, "custom metrics API")?;
    let rule = rule(annotations, metric, custom::Merge::parse)?;
    let combined = custom::combine(&merged.items, rule);
    if combined.is_empty() {
        return Err("no metrics returned from custom metrics API".to_owned());
    }
    let value = combined.iter().map(|combined| i128::from(combined.sample.value.milli_value())).sum();
    Ok(Reading::Total { value, unanswered: unanswered(merged) })
}

/// Returns the value of an external metric: the sum of its series.
///
/// # Errors
/// A message if no member has the metric, or the annotation that says how to merge is invalid.
pub fn of_external(
    merged: &Merged<external::Sample>,
    metric: &str,
    annotations: &Annotations,
    now: Timestamp,
) -> Result<Reading, String> {
    answered(merged, "external metrics API")?;
    let rule = rule(annotations, metric, external::Merge::parse)?;
    let series = external::select(&merged.items, rule, now);
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
    names.map(|cluster| cluster.0.clone()).collect()
}

fn rule<R: Default>(
    annotations: &Annotations,
    metric: &str,
    parse: impl Fn(&str) -> Result<R, String>,
) -> Result<R, String> {
    let name = format!("{METRIC_MERGE_PREFIX}{metric}");
    let Some(text) = annotations.get(&name) else { return Ok(R::default()) };
    parse(text).map_err(|why| format!("annotation {name}: {why}"))
}

fn amounts(container: &ContainerSample) -> BTreeMap<Arc<str>, i64> {
    container.usage.iter().map(|(resource, amount)| (resource.as_str().into(), amount.milli_value())).collect()
}

fn key(cluster: &ClusterName, name: &str) -> PodKey {
    PodKey { cluster: cluster.0.clone(), name: name.into() }
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
        let mut answers: BTreeMap<ClusterName, Answer<custom::Sample>> = BTreeMap::new();
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
            answers.entry(ClusterName::from(*cluster)).or_default().items.push(Arc::new(sample));
        }
        Merged::of(answers.into_iter().map(|(cluster, answer)| (cluster, Ok(Arc::new(answer)))))
    }

    fn lost<T>(mut merged: Merged<T>) -> Merged<T> {
        merged.failed.insert("m9".into(), "timed out".into());
        merged
    }

    #[test]
    fn values_of_objects_are_merged_as_their_annotation_says() {
        let services =
            custom(&[("m1", "Service", "web", 10), ("m2", "Service", "web", 20), ("m3", "Service", "web", 30)]);
        let annotated =
            |text: &str| Annotations::from([("autoscaling.karmada.io/merge.hits".to_owned(), text.to_owned())]);
        for (name, annotations, want) in [
            ("added", Annotations::new(), Ok(60)),
            ("the mean", annotated("avg"), Ok(20)),
            ("the largest", annotated("max"), Ok(30)),
            (
                "an invalid annotation",
                annotated("median"),
                Err("annotation autoscaling.karmada.io/merge.hits: \"median\" is none of sum, avg and max"),
            ),
        ] {
            let found = of_object(&services, "hits", &annotations);
            let want = want.map(|value| Reading::Total { value, unanswered: Vec::new() }).map_err(str::to_owned);
            assert_eq!(found, want, "{name}");
        }
        let found = of_object(&lost(services), "hits", &Annotations::new());
        assert_eq!(found, Ok(Reading::Total { value: 60, unanswered: vec!["m9".into()] }));
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
