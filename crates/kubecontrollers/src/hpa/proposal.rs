//! Replicas that one metric proposes (specification/autoscaling.md 2.3 to 2.5), in exact arithmetic.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    autoscaling::v2::MetricTarget,
    core::v1::{Container, Pod},
};

use crate::{
    pods::{condition, is_terminating, phase},
    quantity::{CPU, parse},
};

/// Pods younger than this may use more cpu than in steady state.
const CPU_INITIALIZATION: SignedDuration = SignedDuration::from_secs(300);
/// A pod that became unready within this time after its start was never ready.
const INITIAL_READINESS: SignedDuration = SignedDuration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) at: Timestamp,
    /// Window that the measurement covers.
    pub(crate) window: SignedDuration,
    /// Amounts by container and resource: thousandths of a core for cpu, whole units for all else.
    pub(crate) containers: BTreeMap<String, BTreeMap<String, i64>>,
}

/// A resource of pods, or of one container in each, with its target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metric<'a> {
    pub(crate) resource: &'a str,
    pub(crate) container: Option<&'a str>,
    pub(crate) target: &'a MetricTarget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub(crate) replicas: i32,
    /// Usage in percent of the requests.
    pub(crate) utilization: Option<i32>,
    /// Average usage per pod.
    pub(crate) average: i64,
}

/// Pods by how they count.
#[derive(Debug, Default)]
struct Groups<'a> {
    ready: Vec<(&'a Arc<Pod>, i64)>,
    unready: Vec<&'a Arc<Pod>>,
    missing: Vec<&'a Arc<Pod>>,
}

/// Target usage of a pod: a share of its requests, or an amount.
enum Target {
    Utilization(i128),
    Average(i128),
}

impl Metric<'_> {
    /// Computes the proposal of the metric, or the reason why there is none.
    pub(crate) fn propose(
        &self,
        pods: &[Arc<Pod>],
        samples: &BTreeMap<String, Sample>,
        current: i32,
        now: Timestamp,
    ) -> Result<Proposal, String> {
        let target = self.target()?;
        let groups = self.group(pods, samples, now);
        if groups.ready.is_empty() {
            return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
        }
        let values: i128 = groups.ready.iter().map(|(_, value)| i128::from(*value)).sum();
        let ready = i128::try_from(groups.ready.len()).unwrap_or(1);
        let average = values.div_euclid(ready);
        let requests = |pods: &mut dyn Iterator<Item = &Arc<Pod>>| -> Result<i128, String> {
            pods.map(|pod| self.request(pod)).sum::<Result<i128, String>>()
        };
        let (utilization, first) = match target {
            Target::Utilization(wanted) => {
                let asked = requests(&mut groups.ready.iter().map(|(pod, _)| *pod))?;
                let share = if asked > 0 { (values * 100).div_euclid(asked) } else { 0 };
                (Some(share), Ratio(share, wanted))
            }
            Target::Average(wanted) => (None, Ratio(average, wanted)),
        };
        let proposal_for = |replicas: i128| Proposal {
            replicas: i32::try_from(replicas).unwrap_or(i32::MAX),
            utilization: utilization.map(|u| i32::try_from(u).unwrap_or(i32::MAX)),
            average: i64::try_from(average).unwrap_or(i64::MAX),
        };
        let keep = proposal_for(i128::from(current));
        let fills_unready = !groups.unready.is_empty() && first.is_above();
        if groups.missing.is_empty() && !fills_unready {
            return Ok(if first.is_tolerated() { keep } else { proposal_for(first.of(ready)) });
        }
        // Missing samples favour the current size: no usage on scale-up, full usage on scale-down.
        let filled: i128 = match (&target, first.is_below()) {
            (_, false) => 0,
            (Target::Utilization(wanted), true) => {
                requests(&mut groups.missing.iter().copied())? * (*wanted).max(100) / 100
            }
            (Target::Average(wanted), true) => wanted * i128::try_from(groups.missing.len()).unwrap_or(0),
        };
        let counts_missing = first.is_below() || first.is_above();
        let mut count = ready + if counts_missing { i128::try_from(groups.missing.len()).unwrap_or(0) } else { 0 };
        let mut among: Vec<&Arc<Pod>> = groups.ready.iter().map(|(pod, _)| *pod).collect();
        if counts_missing {
            among.extend(groups.missing.iter().copied());
        }
        if fills_unready {
            count += i128::try_from(groups.unready.len()).unwrap_or(0);
            among.extend(groups.unready.iter().copied());
        }
        let second = match target {
            Target::Utilization(wanted) => {
                let asked = requests(&mut among.into_iter())?;
                Ratio(if asked > 0 { ((values + filled) * 100).div_euclid(asked) } else { 0 }, wanted)
            }
            Target::Average(wanted) => Ratio((values + filled).div_euclid(count), wanted),
        };
        let turned = first.is_below() && second.is_above() || first.is_above() && second.is_below();
        if second.is_tolerated() || turned {
            return Ok(keep);
        }
        let new = second.of(count);
        let against = second.is_below() && new > i128::from(current) || second.is_above() && new < i128::from(current);
        Ok(if against { keep } else { proposal_for(new) })
    }

    fn target(&self) -> Result<Target, String> {
        let wanted = match (&self.target.average_value, self.target.average_utilization) {
            (Some(value), _) => parse(self.resource, &value.0).map(|v| Target::Average(i128::from(v))),
            (None, Some(share)) => Some(Target::Utilization(i128::from(share))),
            (None, None) => None,
        };
        match wanted {
            Some(Target::Average(1..) | Target::Utilization(1..)) => wanted.ok_or_else(String::new),
            _ => Err(format!(
                "invalid metric source: neither a utilization target nor a value target for {} was set",
                self.resource
            )),
        }
    }

    fn group<'a>(&self, pods: &'a [Arc<Pod>], samples: &BTreeMap<String, Sample>, now: Timestamp) -> Groups<'a> {
        let mut groups = Groups::default();
        for pod in pods.iter().filter(|p| !is_terminating(p) && phase(p) != "Failed") {
            let sample = samples.get(pod.metadata.name.as_deref().unwrap_or(""));
            let value = sample.and_then(|s| self.value(s));
            match (sample, value) {
                _ if phase(pod) == "Pending" => groups.unready.push(pod),
                (Some(sample), Some(_)) if self.resource == CPU && !counts(pod, sample, now) => {
                    groups.unready.push(pod)
                }
                (Some(_), Some(value)) => groups.ready.push((pod, value)),
                _ => groups.missing.push(pod),
            }
        }
        groups
    }

    /// Returns the usage; `None` if a container has no sample.
    fn value(&self, sample: &Sample) -> Option<i64> {
        let of = |container: &BTreeMap<String, i64>| container.get(self.resource).copied();
        match self.container {
            Some(name) => sample.containers.get(name).and_then(of),
            None => sample.containers.values().map(of).sum(),
        }
    }

    fn request(&self, pod: &Pod) -> Result<i128, String> {
        let spec = pod.spec.as_ref();
        let stays = |c: &&Container| c.restart_policy.as_deref() == Some("Always");
        let sidecars = spec.iter().flat_map(|s| s.init_containers.iter().flatten()).filter(stays);
        let all = spec.iter().flat_map(|s| &s.containers).chain(sidecars);
        let counted = all.filter(|c| self.container.is_none_or(|name| c.name == name));
        counted
            .map(|container| {
                let requests = container.resources.as_ref().and_then(|r| r.requests.as_ref());
                let amount = requests.and_then(|r| r.get(self.resource)).and_then(|q| parse(self.resource, &q.0));
                amount.map(i128::from).ok_or_else(|| {
                    let (name, pod) = (&container.name, pod.metadata.name.as_deref().unwrap_or(""));
                    format!("missing request for {} in container {name} of Pod {pod}", self.resource)
                })
            })
            .sum()
    }
}

/// Returns `true` if the CPU usage of a pod counts, which it does not while the pod starts.
fn counts(pod: &Pod, sample: &Sample, now: Timestamp) -> bool {
    let start = pod.status.as_ref().and_then(|s| s.start_time.as_ref()).map(|t| t.0);
    let (Some(ready), Some(start)) = (condition(pod, "Ready"), start) else { return false };
    let changed = ready.last_transition_time.as_ref().map_or(start, |t| t.0);
    let later = |time: Timestamp, by: SignedDuration| time.saturating_add(by).unwrap_or(time);
    if later(start, CPU_INITIALIZATION) > now {
        ready.status != "False" && sample.at >= later(changed, sample.window)
    } else {
        ready.status != "False" || later(start, INITIAL_READINESS) <= changed
    }
}

/// Actual usage divided by target usage.
#[derive(Debug, Clone, Copy)]
struct Ratio(i128, i128);

impl Ratio {
    fn is_above(self) -> bool {
        self.0 > self.1
    }

    fn is_below(self) -> bool {
        self.0 < self.1
    }

    /// Returns `true` if the ratio is within a tenth of 1, bounds included.
    fn is_tolerated(self) -> bool {
        10 * self.0 >= 9 * self.1 && 10 * self.0 <= 11 * self.1
    }

    fn of(self, count: i128) -> i128 {
        (self.0 * count + self.1 - 1).div_euclid(self.1)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::core::v1::{PodSpec, ResourceRequirements},
        apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Time},
    };

    use super::*;
    use crate::testkit::{at, pod};

    const NOW: i64 = 10_000;

    /// Returns a pod with this request and usage in thousandths that has been ready for long.
    fn one(name: &str, request: i64, used: Option<i64>, unready: bool) -> (Arc<Pod>, Option<(String, Sample)>) {
        let mut maker = pod(name).ready(100).phase(if unready { "Pending" } else { "Running" });
        maker.status().start_time = Some(Time(at(50)));
        let mut pod = maker.build();
        pod.spec = Some(PodSpec {
            containers: vec![Container {
                name: "c".into(),
                resources: Some(ResourceRequirements {
                    requests: Some([("cpu".to_owned(), Quantity(format!("{request}m")))].into()),
                    ..ResourceRequirements::default()
                }),
                ..Container::default()
            }],
            ..PodSpec::default()
        });
        let sample = used.map(|used| {
            let containers = [("c".to_owned(), [("cpu".to_owned(), used)].into())].into();
            (name.to_owned(), Sample { at: at(NOW), window: SignedDuration::from_secs(15), containers })
        });
        (Arc::new(pod), sample)
    }

    type Measured = (Arc<Pod>, Option<(String, Sample)>);

    fn propose(target: &MetricTarget, current: i32, pods: Vec<Measured>) -> Result<Proposal, String> {
        let (pods, samples): (Vec<_>, Vec<_>) = pods.into_iter().unzip();
        let metric = Metric { resource: "cpu", container: None, target };
        metric.propose(&pods, &samples.into_iter().flatten().collect(), current, at(NOW))
    }

    fn share(percent: i32) -> MetricTarget {
        MetricTarget { type_: "Utilization".into(), average_utilization: Some(percent), ..MetricTarget::default() }
    }

    #[test]
    fn examples_of_the_specification() {
        let pods = |used: &[Option<i64>], unready: usize| {
            let mut all: Vec<_> =
                used.iter().enumerate().map(|(n, used)| one(&format!("p{n}"), 100, *used, false)).collect();
            all.extend((0..unready).map(|n| one(&format!("u{n}"), 100, None, true)));
            all
        };
        let same = |n: usize, used: i64| vec![Some(used); n];
        for (row, current, target, pods, want) in [
            (1, 3, 50, pods(&same(3, 100), 0), 6),
            (2, 4, 80, pods(&same(4, 50), 0), 3),
            (3, 10, 50, pods(&same(10, 54), 0), 10),
            (4, 10, 50, pods(&same(10, 55), 0), 10),
            (5, 10, 50, pods(&same(10, 56), 0), 12),
            (6, 10, 50, pods(&same(10, 45), 0), 10),
            (7, 10, 50, pods(&same(10, 44), 0), 9),
            (8, 2, 50, vec![one("a", 500, Some(300), false), one("b", 100, Some(100), false)], 3),
            (9, 4, 50, pods(&[Some(90), Some(90), Some(90), None], 0), 6),
            (10, 4, 50, pods(&[Some(10), Some(10), Some(10), None], 0), 3),
            (11, 4, 150, pods(&[Some(100), Some(100), Some(100), None], 0), 3),
            (12, 4, 50, pods(&same(2, 120), 2), 5),
            (13, 4, 50, pods(&same(2, 100), 2), 4),
            (14, 6, 50, pods(&same(4, 20), 2), 2),
        ] {
            assert_eq!(propose(&share(target), current, pods).map(|p| p.replicas), Ok(want), "row {row}");
        }
        let average = MetricTarget {
            type_: "AverageValue".into(),
            average_value: Some(Quantity("10".into())),
            ..MetricTarget::default()
        };
        let pods = pods(&[Some(10_000), Some(20_000), Some(31_000)], 0);
        let row_21 = propose(&average, 3, pods).unwrap();
        assert_eq!((row_21.replicas, row_21.average, row_21.utilization), (7, 20_333, None));
    }

    #[test]
    fn metrics_without_a_proposal() {
        let unrequested = |mut p: (Arc<Pod>, Option<(String, Sample)>)| {
            let mut pod = (*p.0).clone();
            pod.spec.as_mut().unwrap().containers[0].resources = None;
            p.0 = Arc::new(pod);
            p
        };
        for (name, target, pods, want) in [
            ("no pod has a sample", share(50), vec![one("a", 100, None, false)], "did not receive metrics"),
            (
                "a container requests nothing",
                share(50),
                vec![unrequested(one("a", 1, Some(1), false))],
                "missing request for cpu in container c of Pod a",
            ),
            ("no target", MetricTarget::default(), vec![one("a", 1, Some(1), false)], "neither a utilization target"),
        ] {
            let error = propose(&target, 1, pods).unwrap_err();
            assert!(error.contains(want), "{name}: {error}");
        }
    }

    #[test]
    fn cpu_of_a_starting_pod_is_ignored() {
        let starting = |started: i64, ready_since: i64| {
            let (pod, sample) = one("a", 100, Some(500), false);
            let mut pod = (*pod).clone();
            let status = pod.status.as_mut().unwrap();
            status.start_time = Some(Time(at(started)));
            for condition in status.conditions.iter_mut().flatten() {
                condition.last_transition_time = Some(Time(at(ready_since)));
            }
            (Arc::new(pod), sample)
        };
        let counts = |p: (Arc<Pod>, Option<(String, Sample)>)| counts(&p.0, &p.1.unwrap().1, at(NOW));
        for (name, pod, want) in [
            ("measured before it was ready for a whole window", starting(NOW - 20, NOW - 14), false),
            ("ready for a whole window", starting(NOW - 20, NOW - 15), true),
            ("started long ago", starting(NOW - 400, NOW - 1), true),
        ] {
            assert_eq!(counts(pod), want, "{name}");
        }
    }
}
