//! Metrics of a spec, read into what is asked for and compared (specification/autoscaling.md 2.3).

use k8s_openapi::{
    api::autoscaling::v2::{
        ContainerResourceMetricStatus, CrossVersionObjectReference, ExternalMetricStatus, MetricIdentifier, MetricSpec,
        MetricStatus, MetricTarget, MetricValueStatus, ObjectMetricStatus, PodsMetricStatus, ResourceMetricStatus,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

use crate::{events, options::Options, pods::milli, proposal::Current};

/// Kind of a metric source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceType {
    /// Usage of pods.
    Resource,
    /// Usage of one container of each pod.
    ContainerResource,
    /// A custom metric of pods.
    Pods,
    /// A custom metric of one object.
    Object,
    /// A metric from outside of the clusters.
    External,
}

impl SourceType {
    /// Returns its name in `spec.metrics[].type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Resource => "Resource",
            Self::ContainerResource => "ContainerResource",
            Self::Pods => "Pods",
            Self::Object => "Object",
            Self::External => "External",
        }
    }

    /// Returns the reason of the condition and of the event if the metric fails.
    #[must_use]
    pub fn failure(self) -> &'static str {
        match self {
            Self::Resource => events::FAILED_GET_RESOURCE_METRIC,
            Self::ContainerResource => events::FAILED_GET_CONTAINER_RESOURCE_METRIC,
            Self::Pods => events::FAILED_GET_PODS_METRIC,
            Self::Object => events::FAILED_GET_OBJECT_METRIC,
            Self::External => events::FAILED_GET_EXTERNAL_METRIC,
        }
    }
}

/// Question to the metrics APIs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Asked<'a> {
    /// Usage of a resource by pods.
    Usage {
        resource: &'a str,
        /// The container, if not all are meant.
        container: Option<&'a str>,
    },
    /// A custom metric of pods.
    Pods(&'a MetricIdentifier),
    /// A custom metric of an object.
    Object(&'a CrossVersionObjectReference, &'a MetricIdentifier),
    External(&'a MetricIdentifier),
}

/// Value that the metric should have, above zero; amounts are in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Percent of what pods request.
    Utilization(i32),
    /// Amount per pod.
    Average(i64),
    /// Amount.
    Value(i64),
}

/// One metric of a spec.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Source<'a> {
    /// Its kind.
    pub type_: SourceType,
    /// The question.
    pub asked: Asked<'a>,
    /// Its target value.
    pub target: Target,
}

/// Reason why a metric of a spec cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSource {
    /// Reason of condition and event.
    pub reason: &'static str,
    pub message: String,
}

impl<'a> Source<'a> {
    /// Reads a metric. Nothing relies on admission: what it refuses is refused here, too.
    ///
    /// # Errors
    /// The type is unknown or switched off, the block of the type is missing, or it has no target above zero.
    pub fn of(spec: &'a MetricSpec, options: &Options) -> Result<Self, InvalidSource> {
        let unknown = || InvalidSource {
            reason: events::INVALID_METRIC_SOURCE_TYPE,
            message: format!("unknown metric source type {:?}", spec.type_),
        };
        let (type_, asked, target) = match spec.type_.as_str() {
            "Resource" => spec
                .resource
                .as_ref()
                .map(|of| (SourceType::Resource, Asked::Usage { resource: &of.name, container: None }, &of.target)),
            "ContainerResource" => spec.container_resource.as_ref().map(|of| {
                let asked = Asked::Usage { resource: &of.name, container: Some(&of.container) };
                (SourceType::ContainerResource, asked, &of.target)
            }),
            "Pods" => spec.pods.as_ref().map(|of| (SourceType::Pods, Asked::Pods(&of.metric), &of.target)),
            "Object" => spec
                .object
                .as_ref()
                .map(|of| (SourceType::Object, Asked::Object(&of.described_object, &of.metric), &of.target)),
            "External" if options.external_metrics => {
                spec.external.as_ref().map(|of| (SourceType::External, Asked::External(&of.metric), &of.target))
            }
            _ => None,
        }
        .ok_or_else(unknown)?;
        let target = read_target(type_, target)
            .ok_or_else(|| InvalidSource { reason: type_.failure(), message: without_target(type_).to_owned() })?;
        Ok(Self { type_, asked, target })
    }

    /// Returns the resource, if it is one of pods or containers.
    #[must_use]
    pub fn resource(&self) -> Option<(&'a str, Option<&'a str>)> {
        match self.asked {
            Asked::Usage { resource, container } => Some((resource, container)),
            _ => None,
        }
    }

    /// Returns the name that conditions and reasons of scaling use. Dashboards match on it.
    #[must_use]
    pub fn name(&self) -> String {
        match self.asked {
            Asked::Usage { resource, container } => match (self.target, container) {
                (Target::Utilization(_), None) => format!("{resource} resource utilization (percentage of request)"),
                (Target::Utilization(_), Some(_)) => {
                    format!("{resource} container resource utilization (percentage of request)")
                }
                _ => format!("{resource} resource"),
            },
            Asked::Pods(metric) => format!("pods metric {}", metric.name),
            Asked::Object(described, metric) => format!("{} metric {}", described.kind, metric.name),
            Asked::External(metric) => {
                format!("external metric {}({})", metric.name, shown_selector(metric.selector.as_ref()))
            }
        }
    }

    /// Puts a failure of the metric in words, as kube-controller-manager does: that of the condition, and that of the
    /// error of the whole round.
    #[must_use]
    pub(crate) fn failure(&self, why: &str) -> (String, String) {
        let inner = match (self.asked, self.target) {
            (Asked::Usage { resource, .. }, Target::Utilization(_)) => {
                format!("failed to get {resource} utilization: {why}")
            }
            (Asked::Usage { resource, .. }, _) => format!("failed to get {resource} usage: {why}"),
            (Asked::Object(_, metric), Target::Average(_)) => {
                format!("failed to get {} object metric: {why}", metric.name)
            }
            (Asked::External(metric), Target::Average(_)) => {
                format!("failed to get {} external metric: {why}", metric.name)
            }
            (Asked::External(metric), _) => format!("failed to get external metric {}: {why}", metric.name),
            (Asked::Pods(_) | Asked::Object(..), _) => why.to_owned(),
        };
        let outer = match self.asked {
            Asked::Usage { resource, container: None } => {
                format!("failed to get {resource} resource metric value: {inner}")
            }
            Asked::Usage { container: Some(name), .. } => {
                format!("failed to get {name} container metric value: {inner}")
            }
            Asked::Pods(_) => format!("failed to get pods metric value: {inner}"),
            Asked::Object(..) => format!("failed to get object metric value: {inner}"),
            Asked::External(metric) => format!("failed to get {} external metric value: {inner}", metric.name),
        };
        (inner, outer)
    }

    /// Returns the entry of `status.currentMetrics`.
    #[must_use]
    pub(crate) fn status(&self, current: &Current) -> MetricStatus {
        let mut status = MetricStatus { type_: self.type_.name().to_owned(), ..MetricStatus::default() };
        let current = current.shown(self.resource().map(|(resource, _)| resource));
        match self.asked {
            Asked::Usage { resource, container: None } => {
                status.resource = Some(ResourceMetricStatus { current, name: resource.to_owned() });
            }
            Asked::Usage { resource, container: Some(container) } => {
                let (container, name) = (container.to_owned(), resource.to_owned());
                status.container_resource = Some(ContainerResourceMetricStatus { container, current, name });
            }
            Asked::Pods(metric) => status.pods = Some(PodsMetricStatus { current, metric: metric.clone() }),
            Asked::Object(described, metric) => {
                let (described_object, metric) = (described.clone(), metric.clone());
                status.object = Some(ObjectMetricStatus { current, described_object, metric });
            }
            Asked::External(metric) => {
                status.external = Some(ExternalMetricStatus { current, metric: metric.clone() });
            }
        }
        status
    }
}

/// Returns an entry of `status.currentMetrics` for a metric that failed: empty.
pub(crate) fn without_value() -> MetricStatus {
    MetricStatus::default()
}

/// Reads the target. An average value comes first even if the type says otherwise.
fn read_target(type_: SourceType, target: &MetricTarget) -> Option<Target> {
    let amount = |quantity: Option<&k8s_openapi::apimachinery::pkg::api::resource::Quantity>| {
        quantity.and_then(|quantity| milli(&quantity.0)).filter(|amount| *amount > 0)
    };
    let average = || amount(target.average_value.as_ref()).map(Target::Average);
    let value = || amount(target.value.as_ref()).map(Target::Value);
    match type_ {
        SourceType::Resource | SourceType::ContainerResource => match target.average_value {
            Some(_) => average(),
            None => target.average_utilization.filter(|percent| *percent > 0).map(Target::Utilization),
        },
        SourceType::Pods => average(),
        SourceType::Object if target.type_ == "AverageValue" => average().or_else(value),
        SourceType::Object => value().or_else(average),
        SourceType::External => average().or_else(value),
    }
}

fn without_target(type_: SourceType) -> &'static str {
    match type_ {
        SourceType::Resource | SourceType::ContainerResource => {
            "invalid resource metric source: neither an average utilization target nor an average value (usage) target \
             was set"
        }
        SourceType::Pods => "invalid pods metric source: no average value target was set",
        SourceType::Object => {
            "invalid object metric source: neither a value target nor an average value target was set"
        }
        SourceType::External => {
            "invalid external metric source: neither a value target nor an average value target was set"
        }
    }
}

/// Renders a selector as kube-controller-manager prints it.
fn shown_selector(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let labels: String =
        selector.match_labels.iter().flatten().map(|(name, value)| format!("{name}: {value},")).collect();
    let expressions: String = selector
        .match_expressions
        .iter()
        .flatten()
        .map(|of| {
            let values = of.values.as_deref().unwrap_or_default().join(" ");
            format!("LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},", of.key, of.operator)
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

impl Current {
    /// Returns the value as a status shows it: memory in binary units, everything else in decimal ones.
    fn shown(&self, resource: Option<&str>) -> MetricValueStatus {
        let quantity = |milli: i64| crate::quantity::quantity(milli, resource);
        MetricValueStatus {
            average_utilization: self.utilization,
            average_value: self.average.map(quantity),
            value: self.value.map(quantity),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(spec: Value, options: &Options) -> Result<(String, Target), (&'static str, String)> {
        let spec: MetricSpec = serde_json::from_value(spec).unwrap();
        let source = Source::of(&spec, options);
        source.map(|source| (source.name(), source.target)).map_err(|error| (error.reason, error.message))
    }

    #[test]
    fn names_and_targets() {
        let resource = |target: Value| json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        let container = |target: Value| {
            json!({"type": "ContainerResource",
                "containerResource": {"name": "memory", "container": "app", "target": target}})
        };
        let object = |target: Value| {
            json!({"type": "Object", "object": {"metric": {"name": "hits"}, "target": target,
                "describedObject": {"kind": "Ingress", "name": "i", "apiVersion": "networking.k8s.io/v1"}}})
        };
        let external = |metric: Value| json!({"type": "External", "external": {"metric": metric, "target": {"type": "Value", "value": "2"}}});
        for (spec, name, target) in [
            (
                resource(json!({"type": "Utilization", "averageUtilization": 50})),
                "cpu resource utilization (percentage of request)",
                Target::Utilization(50),
            ),
            (resource(json!({"type": "AverageValue", "averageValue": "100m"})), "cpu resource", Target::Average(100)),
            (
                resource(json!({"type": "Utilization", "averageUtilization": 50, "averageValue": "1"})),
                "cpu resource",
                Target::Average(1_000),
            ),
            (
                container(json!({"type": "Utilization", "averageUtilization": 70})),
                "memory container resource utilization (percentage of request)",
                Target::Utilization(70),
            ),
            (
                json!({"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "10"}}}),
                "pods metric rps",
                Target::Average(10_000),
            ),
            (object(json!({"type": "Value", "value": "100"})), "Ingress metric hits", Target::Value(100_000)),
            (
                object(json!({"type": "AverageValue", "averageValue": "1"})),
                "Ingress metric hits",
                Target::Average(1_000),
            ),
            (external(json!({"name": "queue"})), "external metric queue(nil)", Target::Value(2_000)),
            (
                external(json!({"name": "q", "selector": {"matchLabels": {"a": "b"}}})),
                "external metric q(&LabelSelector{MatchLabels:map[string]string{a: b,},\
                 MatchExpressions:[]LabelSelectorRequirement{},})",
                Target::Value(2_000),
            ),
        ] {
            assert_eq!(read(spec, &Options::default()), Ok((name.to_owned(), target)));
        }
    }

    #[test]
    fn what_admission_would_refuse_is_refused() {
        let off = Options { external_metrics: false, ..Options::default() };
        let external = json!({"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "2"}}});
        for (name, spec, options, reason, message) in [
            (
                "an unknown type",
                json!({"type": "Load"}),
                Options::default(),
                "InvalidMetricSourceType",
                "unknown metric source type \"Load\"",
            ),
            (
                "a type without its block",
                json!({"type": "Pods"}),
                Options::default(),
                "InvalidMetricSourceType",
                "unknown metric source type \"Pods\"",
            ),
            (
                "External behind its gate",
                external,
                off,
                "InvalidMetricSourceType",
                "unknown metric source type \"External\"",
            ),
            (
                "a target of zero",
                json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "0"}}}),
                Options::default(),
                "FailedGetResourceMetric",
                "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set",
            ),
            (
                "no target",
                json!({"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue"}}}),
                Options::default(),
                "FailedGetPodsMetric",
                "invalid pods metric source: no average value target was set",
            ),
        ] {
            assert_eq!(read(spec, &options), Err((reason, message.to_owned())), "{name}");
        }
    }
}
