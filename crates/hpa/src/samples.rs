//! Measured values of pods (specification/autoscaling.md 2.3).

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};

use crate::{
    options::{AbsentContainer, Options},
    pods::{Amounts, PodKey},
};

/// Window of a custom metric that names none.
pub const DEFAULT_WINDOW: SignedDuration = SignedDuration::from_secs(60);

/// Usage of one pod by its containers, as `metrics.k8s.io` reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// Time of the measurement.
    pub at: Timestamp,
    /// Time that it covers.
    pub window: SignedDuration,
    /// Thousandths by container and resource. A quantity that cannot be read is absent.
    pub containers: BTreeMap<Arc<str>, Amounts>,
}

/// Value of one metric for one pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Time of the measurement.
    pub at: Timestamp,
    /// Time that it covers.
    pub window: SignedDuration,
    /// The value, in thousandths.
    pub value: i64,
}

/// Samples of one metric by pod.
pub type Samples = BTreeMap<PodKey, Sample>;

/// Returns the usage of a resource by pod: that of one container, or the sum over all of them. A pod without usage of
/// the resource in one of these containers, or with a negative one, has no sample.
///
/// # Errors
/// A message if no pod has usage, or if a pod does not have the container and the options say that this is a failure.
pub fn of_resource(
    usage: &BTreeMap<PodKey, Usage>,
    resource: &str,
    container: Option<&str>,
    options: &Options,
) -> Result<Samples, String> {
    if usage.is_empty() {
        return Err("no metrics returned from resource metrics API".to_owned());
    }
    let mut samples = Samples::new();
    for (pod, usage) in usage {
        if let Some(name) = container.filter(|name| !usage.containers.contains_key(*name))
            && options.absent_container == AbsentContainer::FailsMetric
        {
            return Err(format!("container {name} not present in metrics for pod {pod}"));
        }
        if let Some(value) = sum(usage, resource, container) {
            samples.insert(pod.clone(), Sample { at: usage.at, window: usage.window, value });
        }
    }
    Ok(samples)
}

fn sum(usage: &Usage, resource: &str, container: Option<&str>) -> Option<i64> {
    let counted = usage.containers.iter().filter(|(name, _)| container.is_none_or(|wanted| ***name == *wanted));
    let mut total = None;
    for (_, amounts) in counted {
        let amount = amounts.get(resource).filter(|amount| **amount >= 0)?;
        total = Some(total.unwrap_or(0_i64).saturating_add(*amount));
    }
    total
}

impl Sample {
    /// True if the sample is so old that it says nothing about the present.
    #[must_use]
    pub fn is_stale(&self, options: &Options, now: Timestamp) -> bool {
        options.stale_after.is_some_and(|after| now.duration_since(self.at) > after.saturating_add(self.window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(containers: &[(&str, &[(&str, i64)])]) -> Usage {
        let amounts = |of: &[(&str, i64)]| of.iter().map(|(name, amount)| ((*name).into(), *amount)).collect();
        Usage {
            at: Timestamp::UNIX_EPOCH,
            window: SignedDuration::ZERO,
            containers: containers.iter().map(|(name, of)| ((*name).into(), amounts(of))).collect(),
        }
    }

    #[test]
    fn usage_of_containers() {
        let both: &[(&str, &[(&str, i64)])] = &[("a", &[("cpu", 100)]), ("b", &[("cpu", 50)])];
        let lenient = Options::of_one_cluster();
        for (name, containers, container, options, want) in [
            ("the sum over containers", both, None, Options::default(), Ok(Some(150))),
            ("one container", both, Some("b"), Options::default(), Ok(Some(50))),
            (
                "a container without the resource: no sample",
                &[("a", &[("cpu", 1)]), ("b", &[("memory", 1)])],
                None,
                Options::default(),
                Ok(None),
            ),
            ("a negative value: no sample", &[("a", &[("cpu", -1)])], None, Options::default(), Ok(None)),
            ("no container: no sample", &[], None, Options::default(), Ok(None)),
            (
                "sums are limited to what fits",
                &[("a", &[("cpu", i64::MAX)]), ("b", &[("cpu", 1)])],
                None,
                Options::default(),
                Ok(Some(i64::MAX)),
            ),
            (
                "a pod without the container fails the metric",
                both,
                Some("c"),
                Options::default(),
                Err("container c not present in metrics for pod p of cluster m1".to_owned()),
            ),
            ("for one cluster it has no sample", both, Some("c"), lenient, Ok(None)),
        ] {
            let pod = PodKey { cluster: "m1".into(), name: "p".into() };
            let all = [(pod.clone(), usage(containers))].into();
            let found = of_resource(&all, "cpu", container, &options);
            assert_eq!(found.map(|samples| samples.get(&pod).map(|sample| sample.value)), want, "{name}");
        }
        let none = of_resource(&BTreeMap::new(), "cpu", None, &Options::default());
        assert_eq!(none, Err("no metrics returned from resource metrics API".to_owned()));
    }

    #[test]
    fn old_samples_are_stale() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let sample = Sample { at: at(1_000), window: SignedDuration::from_secs(15), value: 1 };
        for (name, now, options, want) in [
            ("within five minutes and its window", 1_315, Options::default(), false),
            ("older", 1_316, Options::default(), true),
            ("from a clock that is ahead", 10, Options::default(), false),
            ("one cluster does not ask for its age", 9_999, Options::of_one_cluster(), false),
        ] {
            assert_eq!(sample.is_stale(&options, at(now)), want, "{name}");
        }
    }
}
