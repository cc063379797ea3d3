//! Resource usage of a running pod: configured, since nothing is measured.
//!
//! The last rule of the member that has the resource and matches the pod wins, then the pod's own annotation. Otherwise
//! the pod idles.

use ironclad_kubecontrollers::{
    owner::{parse_selector, selects},
    quantity::{CPU, parse},
};
use ironclad_patch::selector::LabelSelector as Selector;
use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::LabelSelector},
};

/// Annotation with the cpu usage of a pod (`250m`).
pub(crate) const CPU_ANNOTATION: &str = "sim.ironclad.io/cpu";
/// Annotation with the memory usage of a pod (`64Mi`).
pub(crate) const MEMORY_ANNOTATION: &str = "sim.ironclad.io/memory";
const MEMORY: &str = "memory";
/// Usage of a pod without a configured one.
const IDLE: Usage = Usage { cpu_millis: 1, memory_bytes: 8 << 20 };

/// Usage of a member's pods (specification/api.md 11.8, `spec.usage`).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UsageRule {
    /// Namespace of the pods; empty means all.
    pub namespace: String,
    /// Labels of the pods; without a selector all.
    pub selector: Option<LabelSelector>,
    pub cpu: Option<Quantity>,
    pub memory: Option<Quantity>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) cpu_millis: i64,
    pub(crate) memory_bytes: i64,
}

impl Usage {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.saturating_add(other.cpu_millis),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
        }
    }

    /// Returns the share of container `number` (from 0) of `of`; the first gets the remainder.
    pub(crate) fn part(self, number: usize, of: usize) -> Self {
        let share = |whole: i64| {
            let of = i64::try_from(of.max(1)).unwrap_or(1);
            whole / of + if number == 0 { whole % of } else { 0 }
        };
        Self { cpu_millis: share(self.cpu_millis), memory_bytes: share(self.memory_bytes) }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Rules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    namespace: String,
    selector: Selector,
    cpu_millis: Option<i64>,
    memory_bytes: Option<i64>,
}

impl Rules {
    /// Parses the rules. An invalid selector matches nothing, an invalid amount is absent.
    pub(crate) fn of(rules: &[UsageRule]) -> Self {
        let amount = |resource: &str, q: &Option<Quantity>| q.as_ref().and_then(|q| parse(resource, &q.0));
        let read = rules.iter().filter_map(|rule| {
            let selector = match &rule.selector {
                None => Selector::default(),
                Some(selector) => parse_selector(selector)?,
            };
            Some(Rule {
                namespace: rule.namespace.clone(),
                selector,
                cpu_millis: amount(CPU, &rule.cpu),
                memory_bytes: amount(MEMORY, &rule.memory),
            })
        });
        Self(read.collect())
    }

    pub(crate) fn usage(&self, pod: &Pod) -> Usage {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("");
        let matching = || {
            let of = |rule: &&Rule| rule.namespace.is_empty() || rule.namespace == namespace;
            self.0.iter().rev().filter(of).filter(|rule| selects(&rule.selector, &pod.metadata))
        };
        let annotated = |resource: &str, key: &str| {
            let text = pod.metadata.annotations.as_ref().and_then(|a| a.get(key));
            text.and_then(|text| parse(resource, text)).filter(|amount| *amount >= 0)
        };
        let cpu = matching().find_map(|r| r.cpu_millis).or_else(|| annotated(CPU, CPU_ANNOTATION));
        let memory = matching().find_map(|r| r.memory_bytes).or_else(|| annotated(MEMORY, MEMORY_ANNOTATION));
        Usage {
            cpu_millis: cpu.unwrap_or(IDLE.cpu_millis).max(0),
            memory_bytes: memory.unwrap_or(IDLE.memory_bytes).max(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::api::ObjectMeta;

    use super::*;

    fn rule(namespace: &str, app: Option<&str>, cpu: Option<&str>, memory: Option<&str>) -> UsageRule {
        let quantity = |text: Option<&str>| text.map(|t| Quantity(t.to_owned()));
        UsageRule {
            namespace: namespace.into(),
            selector: app.map(|app| LabelSelector {
                match_labels: Some([("app".to_owned(), app.to_owned())].into()),
                ..LabelSelector::default()
            }),
            cpu: quantity(cpu),
            memory: quantity(memory),
        }
    }

    fn pod(annotations: &[(&str, &str)]) -> Pod {
        let map = |pairs: &[(&str, &str)]| Some(pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect());
        Pod {
            metadata: ObjectMeta {
                namespace: Some("shop".into()),
                labels: map(&[("app", "web")]),
                annotations: map(annotations),
                ..ObjectMeta::default()
            },
            ..Pod::default()
        }
    }

    #[test]
    fn usage_by_rule_annotation_or_default() {
        const MI: i64 = 1 << 20;
        for (name, rules, annotations, want) in [
            ("a pod without configured usage idles", vec![], vec![], (1, 8 * MI)),
            (
                "its own annotation",
                vec![],
                vec![(CPU_ANNOTATION, "250m"), (MEMORY_ANNOTATION, "1Gi")],
                (250, 1024 * MI),
            ),
            ("an invalid annotation is ignored", vec![], vec![(CPU_ANNOTATION, "a lot")], (1, 8 * MI)),
            ("a rule for all pods", vec![rule("", None, Some("2"), None)], vec![], (2_000, 8 * MI)),
            (
                "a rule overrides the annotation",
                vec![rule("", None, Some("2"), None)],
                vec![(CPU_ANNOTATION, "1")],
                (2_000, 8 * MI),
            ),
            ("a rule of another namespace", vec![rule("bar", None, Some("2"), None)], vec![], (1, 8 * MI)),
            ("a rule of other labels", vec![rule("shop", Some("db"), Some("2"), None)], vec![], (1, 8 * MI)),
            (
                "the last matching rule wins, for each resource separately",
                vec![rule("", None, Some("2"), Some("64Mi")), rule("shop", Some("web"), Some("3"), None)],
                vec![],
                (3_000, 64 * MI),
            ),
        ] {
            let usage = Rules::of(&rules).usage(&pod(&annotations));
            assert_eq!((usage.cpu_millis, usage.memory_bytes), want, "{name}");
        }
    }

    #[test]
    fn parts_add_up() {
        let whole = Usage { cpu_millis: 100, memory_bytes: 8 };
        let sum = (0..3).map(|n| whole.part(n, 3)).fold(Usage::default(), Usage::plus);
        assert_eq!(sum, whole);
        assert_eq!(whole.part(0, 3).cpu_millis, 34);
    }
}
