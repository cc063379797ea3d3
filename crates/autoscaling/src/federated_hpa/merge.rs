//! Annotations that say how a metric of several members is merged (specification/autoscaling.md 2.3).

use std::collections::BTreeMap;

use ironclad_api::annotations::METRIC_MERGE_PREFIX;

/// Returns the rule for a metric, as `parse` reads it from the annotations of its autoscaler; the usual one if they
/// name none.
///
/// # Errors
/// A message if the annotation is invalid.
pub fn rule<R: Default>(
    annotations: &BTreeMap<String, String>,
    metric: &str,
    parse: impl Fn(&str) -> Result<R, String>,
) -> Result<R, String> {
    let name = format!("{METRIC_MERGE_PREFIX}{metric}");
    let Some(text) = annotations.get(&name) else { return Ok(R::default()) };
    parse(text).map_err(|why| format!("annotation {name}: {why}"))
}

#[cfg(test)]
mod tests {
    use ironclad_hpa::metrics::custom::Merge;

    use super::*;

    #[test]
    fn annotations_name_rules() {
        let annotated = |text: &str| [("autoscaling.karmada.io/merge.hits".to_owned(), text.to_owned())].into();
        for (name, annotations, metric, want) in [
            ("none", BTreeMap::new(), "hits", Ok(Merge::Sum)),
            ("the mean", annotated("avg"), "hits", Ok(Merge::Avg)),
            ("the largest", annotated("max"), "hits", Ok(Merge::Max)),
            ("of another metric", annotated("max"), "misses", Ok(Merge::Sum)),
            (
                "an invalid annotation",
                annotated("median"),
                "hits",
                Err("annotation autoscaling.karmada.io/merge.hits: \"median\" is none of sum, avg and max"),
            ),
        ] {
            assert_eq!(rule(&annotations, metric, Merge::parse), want.map_err(str::to_owned), "{name}");
        }
    }
}
