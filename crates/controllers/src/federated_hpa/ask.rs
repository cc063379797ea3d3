//! Questions to the metrics APIs of members.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::join_all;
use ironclad_api::autoscaling::FederatedHPA;
use ironclad_autoscaling::federated_hpa::merge;
use ironclad_fleet::Gvk;
use ironclad_hpa::{
    metrics::{custom, external},
    options::Options,
    pods::PodKey,
    proposal::Reading,
    readings,
    samples::{self, Usage},
    source::{Asked, Source},
};
use ironclad_membermetrics::{CustomQuery, ExternalQuery, Member as AskedMember, MemberMetrics};
use ironclad_seam::Clock;
use k8s_openapi::{
    api::autoscaling::v2::{CrossVersionObjectReference, MetricIdentifier},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{ResourceExt as _, core::Selector};
use tokio::time::timeout;

use super::metrics::HpaMetrics;
use crate::mapper::Mapper;

/// Time for all metrics of one autoscaler.
const DEADLINE: Duration = Duration::from_secs(10);

/// Asks members for the metrics of an autoscaler.
pub(super) struct Asker {
    pub(super) mapper: Arc<Mapper>,
    pub(super) members: MemberMetrics,
    pub(super) clock: Clock,
    pub(super) metrics: HpaMetrics,
    pub(super) options: Options,
}

/// Members that are asked.
pub(super) struct Askable<'a> {
    /// The clusters of the workload that were reached.
    pub(super) reached: &'a [AskedMember],
    /// All clusters that are ready.
    pub(super) all: &'a [AskedMember],
    /// Selector of the workload's pods.
    pub(super) selector: &'a str,
}

impl Asker {
    /// Reads all metrics of the spec, in its order.
    pub(super) async fn readings(&self, object: &FederatedHPA, asked: &Askable<'_>) -> Vec<Result<Reading, String>> {
        let specs = &object.spec.metrics;
        let sources: Vec<Result<Source<'_>, String>> =
            specs.iter().map(|spec| Source::of(spec, &self.options).map_err(|invalid| invalid.message)).collect();
        let usage = if sources.iter().flatten().any(|source| source.resource().is_some()) {
            self.usage(object, asked).await
        } else {
            Ok(BTreeMap::new())
        };
        let each = sources.iter().map(|source| self.reading(object, source.as_ref(), &usage, asked));
        match timeout(DEADLINE, join_all(each)).await {
            Ok(readings) => readings,
            Err(_) => vec![Err(format!("no answer within {DEADLINE:?}")); specs.len()],
        }
    }

    async fn usage(&self, object: &FederatedHPA, asked: &Askable<'_>) -> Result<BTreeMap<PodKey, Usage>, String> {
        let began = self.clock.mono();
        let namespace = object.namespace();
        let merged = self.members.pods(asked.reached, namespace.as_deref(), Some(asked.selector)).await;
        let usage = readings::usage(&merged);
        self.metrics.pulled("ResourceMetric", &usage, self.clock.mono() - began);
        usage
    }

    async fn reading(
        &self,
        object: &FederatedHPA,
        source: Result<&Source<'_>, &String>,
        usage: &Result<BTreeMap<PodKey, Usage>, String>,
        asked: &Askable<'_>,
    ) -> Result<Reading, String> {
        let source = source.map_err(Clone::clone)?;
        let began = self.clock.mono();
        let (metric_type, reading) = match source.asked {
            Asked::Usage { resource, container } => {
                let usage = usage.as_ref().map_err(Clone::clone)?;
                return samples::of_resource(usage, resource, container, &self.options).map(Reading::Pods);
            }
            Asked::Pods(metric) => ("RawMetric", self.of_pods(object, metric, asked).await),
            Asked::Object(described, metric) => {
                ("ObjectMetric", self.of_object(object, described, metric, asked).await)
            }
            Asked::External(metric) => ("ExternalMetric", self.external(object, metric, asked).await),
        };
        self.metrics.pulled(metric_type, &reading, self.clock.mono() - began);
        reading
    }

    async fn of_pods(
        &self,
        object: &FederatedHPA,
        metric: &MetricIdentifier,
        asked: &Askable<'_>,
    ) -> Result<Reading, String> {
        let query = CustomQuery {
            namespace: object.namespace(),
            resource: "pods".to_owned(),
            name: None,
            labels: Some(asked.selector.to_owned()),
            metric: metric.name.clone(),
            metric_labels: selector(metric.selector.as_ref())?,
        };
        readings::of_pods(&self.members.custom(asked.reached, &query).await)
    }

    async fn of_object(
        &self,
        object: &FederatedHPA,
        described: &CrossVersionObjectReference,
        metric: &MetricIdentifier,
        asked: &Askable<'_>,
    ) -> Result<Reading, String> {
        let gvk = Gvk::from_manifest(described.api_version.as_deref().unwrap_or("v1"), &described.kind);
        let mut query = CustomQuery {
            namespace: object.namespace(),
            resource: String::new(),
            name: Some(described.name.clone()),
            labels: None,
            metric: metric.name.clone(),
            metric_labels: selector(metric.selector.as_ref())?,
        };
        if gvk.group.is_empty() && &*gvk.kind == "Namespace" {
            // The metrics of a namespace are those of the autoscaler's own.
            (query.resource, query.name, query.namespace) = ("namespaces".to_owned(), object.namespace(), None);
        } else {
            let served = self.mapper.served(&gvk).await.map_err(|failure| failure.to_string())?;
            let unknown = || format!("the control plane does not serve {} of {}", gvk.kind, gvk.api_version());
            let served = served.ok_or_else(unknown)?;
            query.resource = served.group_resource();
            query.namespace = query.namespace.filter(|_| served.is_namespaced());
        }
        // The object may be measured elsewhere than the workload runs, and must not weigh less for it.
        let merged = self.members.custom(asked.all, &query).await;
        readings::of_object(&merged, merge::rule(object.annotations(), &metric.name, custom::Merge::parse))
    }

    async fn external(
        &self,
        object: &FederatedHPA,
        metric: &MetricIdentifier,
        asked: &Askable<'_>,
    ) -> Result<Reading, String> {
        let query = ExternalQuery {
            namespace: object.namespace().unwrap_or_default(),
            metric: metric.name.clone(),
            labels: selector(metric.selector.as_ref())?,
        };
        let merged = self.members.external(asked.all, &query).await;
        let rule = merge::rule(object.annotations(), &metric.name, external::Merge::parse);
        readings::of_external(&merged, rule, self.clock.wall())
    }
}

fn selector(selector: Option<&LabelSelector>) -> Result<Option<String>, String> {
    let Some(selector) = selector else { return Ok(None) };
    let parsed = Selector::try_from(selector.clone()).map_err(|error| format!("its selector is invalid: {error}"))?;
    Ok(Some(parsed.to_string()).filter(|text| !text.is_empty()))
}
