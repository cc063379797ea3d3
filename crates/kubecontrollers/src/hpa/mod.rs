//! HorizontalPodAutoscalers on the resource usage of pods, from the cluster's `metrics.k8s.io`.
//!
//! It scales Deployments, ReplicaSets and StatefulSets. Custom and external metrics are not supported.

mod decide;
mod proposal;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::Request;
use ironclad_runtime::{EventAbout, EventType, Failure, Informer, Key, Next, Queue, Recorder, Writer};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::{Deployment, ReplicaSet, StatefulSet},
        autoscaling::v2::{
            ContainerResourceMetricStatus, HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus, MetricSpec,
            MetricStatus, MetricValueStatus, ResourceMetricStatus,
        },
        core::v1::Pod,
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, Time},
    },
};
use kube::{Api, Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::Value;

use self::{
    decide::{History, Plan, conditions, decide},
    proposal::{Metric, Proposal, Sample},
};
use crate::{
    Cluster,
    caches::{AUTOSCALERS, DEPLOYMENTS, PODS, REPLICA_SETS, STATEFUL_SETS},
    owner::{selector, selects},
    quantity::{CPU, parse},
    status_debounce::status_patch,
};

const WORKERS: usize = 2;
/// `--horizontal-pod-autoscaler-sync-period`.
const EVERY: Duration = Duration::from_secs(15);
const CONTROLLER: &str = "horizontal-pod-autoscaler-controller";

struct Controller {
    cluster: Cluster,
    autoscalers: Informer<HorizontalPodAutoscaler>,
    deployments: Informer<Deployment>,
    sets: Informer<ReplicaSet>,
    stateful_sets: Informer<StatefulSet>,
    pods: Informer<Pod>,
    writer: Writer,
    recorder: Recorder,
    histories: Mutex<BTreeMap<Key, History>>,
}

struct Target {
    replicas: i32,
    selector: LabelSelector,
}

pub(crate) fn start(cluster: &Cluster) {
    let caches = &cluster.caches;
    let controller = Arc::new(Controller {
        cluster: cluster.clone(),
        autoscalers: caches.take(&AUTOSCALERS),
        deployments: caches.take(&DEPLOYMENTS),
        sets: caches.take(&REPLICA_SETS),
        stateful_sets: caches.take(&STATEFUL_SETS),
        pods: caches.take(&PODS),
        writer: Writer::new(CONTROLLER),
        recorder: Recorder::new(cluster.client.clone(), &cluster.seam, "horizontal-pod-autoscaler"),
        histories: Mutex::default(),
    });
    let queue: Queue<Key> = cluster.queue("hpa");
    let to = queue.clone();
    controller.autoscalers.on_change(move |change| {
        let spec_changed =
            |old: &Arc<HorizontalPodAutoscaler>, new: &Arc<HorizontalPodAutoscaler>| old.spec != new.spec;
        match (&change.old, &change.new) {
            // A change of its own status needs no reconcile: the next one is scheduled.
            (Some(old), Some(new)) if !spec_changed(old, new) && old.metadata.uid == new.metadata.uid => {}
            (_, Some(new)) => to.add(Key::of(&**new)),
            (Some(old), None) => to.add(Key::of(&**old)),
            (None, None) => {}
        }
    });
    let ready = [
        controller.autoscalers.when_synced(),
        controller.deployments.when_synced(),
        controller.sets.when_synced(),
        controller.stateful_sets.when_synced(),
        controller.pods.when_synced(),
    ];
    cluster.run("hpa", queue, WORKERS, ready, move |key| {
        let controller = controller.clone();
        async move { controller.reconcile(&key).await }
    });
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let now = self.cluster.seam.clock.wall_seconds();
        let Some(hpa) = self.autoscalers.get_key(key).filter(|h| h.metadata.deletion_timestamp.is_none()) else {
            self.histories.lock().remove(key);
            return Ok(Next::Forget);
        };
        let Some(target) = self.target(&hpa) else {
            let reference = &hpa.spec.scale_target_ref;
            let why = format!(
                "the HPA controller was unable to get the target's current scale: {} {} not found",
                reference.kind, reference.name
            );
            let able = Some((false, "FailedGetScale", why));
            let mut status = hpa.status.clone().unwrap_or_default();
            let before = status.conditions.clone().unwrap_or_default();
            status.conditions = Some(conditions(
                &before,
                [("AbleToScale", able), ("ScalingActive", None), ("ScalingLimited", None)],
                now,
            ));
            self.write_status(&hpa, status).await?;
            return Ok(Next::After(EVERY));
        };
        let metrics = self.metrics(&hpa, &target, now).await;
        let known = self.histories.lock().get(key).cloned();
        let mut history = known.unwrap_or_else(|| History::begin(target.replicas, now));
        history.forget(now);
        let mut plan = decide(&hpa, target.replicas, &metrics, &history, now);
        history.proposed.extend(plan.proposed.map(|proposed| (now, proposed)));
        let mut scaled_at = None;
        if plan.desired != target.replicas {
            self.scale(&hpa, plan.desired).await?;
            history.scaled.push((now, plan.desired - target.replicas));
            scaled_at = Some(Time(now));
            plan.able = (
                true,
                "SucceededRescale",
                format!("the HPA controller was able to update the target scale to {}", plan.desired),
            );
            self.event(&hpa, &format!("New size: {}; reason: {}", plan.desired, plan.because));
        }
        self.histories.lock().insert(key.clone(), history);
        self.write_status(&hpa, status(&hpa, &target, &plan, &metrics, scaled_at, now)).await?;
        Ok(Next::After(EVERY))
    }

    fn target(&self, hpa: &HorizontalPodAutoscaler) -> Option<Target> {
        let (namespace, reference) = (hpa.metadata.namespace.as_deref().unwrap_or(""), &hpa.spec.scale_target_ref);
        let name = reference.name.as_str();
        let of = |replicas: Option<i32>, selector: &LabelSelector| Target {
            replicas: replicas.unwrap_or(1),
            selector: selector.clone(),
        };
        match reference.kind.as_str() {
            "Deployment" => self.deployments.get(namespace, name)?.spec.as_ref().map(|s| of(s.replicas, &s.selector)),
            "ReplicaSet" => self.sets.get(namespace, name)?.spec.as_ref().map(|s| of(s.replicas, &s.selector)),
            "StatefulSet" => {
                self.stateful_sets.get(namespace, name)?.spec.as_ref().map(|s| of(s.replicas, &s.selector))
            }
            _ => None,
        }
    }

    /// Evaluates the metrics in order; returns name and proposal of each.
    async fn metrics(
        &self,
        hpa: &HorizontalPodAutoscaler,
        target: &Target,
        now: Timestamp,
    ) -> Vec<(String, Result<Proposal, String>)> {
        let specs = hpa.spec.metrics.as_deref().unwrap_or_default();
        let namespace = hpa.metadata.namespace.as_deref().unwrap_or("");
        let samples = self.samples(namespace).await;
        let selector = selector(Some(&target.selector));
        let mut pods = self.pods.namespace(namespace);
        pods.retain(|pod| selector.as_ref().is_some_and(|s| selects(s, &pod.metadata)));
        let each = specs.iter().map(|spec| match metric(spec) {
            None => (spec.type_.clone(), Err(format!("no {} metrics are served here", spec.type_))),
            Some(metric) => {
                let kind = if metric.container.is_some() { "container resource" } else { "resource" };
                let by_share = metric.target.average_value.is_none();
                let name = if by_share {
                    format!("{} {kind} utilization (percentage of request)", metric.resource)
                } else {
                    format!("{} {kind}", metric.resource)
                };
                let asked = samples
                    .as_ref()
                    .map_err(Clone::clone)
                    .and_then(|samples| metric.propose(&pods, samples, target.replicas, now));
                (name, asked)
            }
        });
        each.collect()
    }

    async fn samples(&self, namespace: &str) -> Result<BTreeMap<String, Sample>, String> {
        let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods");
        let request = Request::get(path).body(Vec::new()).map_err(|e| e.to_string())?;
        let list = self.cluster.client.request::<Value>(request).await;
        let list =
            list.map_err(|e| format!("unable to fetch metrics from resource metrics API: {}", Failure::from(e)))?;
        Ok(list["items"].as_array().into_iter().flatten().filter_map(sample).collect())
    }

    async fn scale(&self, hpa: &HorizontalPodAutoscaler, replicas: i32) -> Result<(), Failure> {
        let (namespace, reference) = (hpa.metadata.namespace.as_deref().unwrap_or(""), &hpa.spec.scale_target_ref);
        match reference.kind.as_str() {
            "Deployment" => self.scale_of::<Deployment>(namespace, &reference.name, replicas).await,
            "ReplicaSet" => self.scale_of::<ReplicaSet>(namespace, &reference.name, replicas).await,
            _ => self.scale_of::<StatefulSet>(namespace, &reference.name, replicas).await,
        }
    }

    async fn scale_of<K>(&self, namespace: &str, name: &str, replicas: i32) -> Result<(), Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + serde::de::DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.cluster.client.clone(), namespace);
        self.writer.scale(&api, name, replicas).await
    }

    async fn write_status(
        &self,
        hpa: &HorizontalPodAutoscaler,
        status: HorizontalPodAutoscalerStatus,
    ) -> Result<(), Failure> {
        if hpa.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let api: Api<HorizontalPodAutoscaler> =
            Api::namespaced(self.cluster.client.clone(), hpa.metadata.namespace.as_deref().unwrap_or(""));
        let version = hpa.resource_version().unwrap_or_default();
        let patch = status_patch(hpa.status.as_ref(), &status);
        self.writer.patch_status(&api, Some(&self.autoscalers), &hpa.name_any(), &version, patch).await?;
        Ok(())
    }

    fn event(&self, hpa: &HorizontalPodAutoscaler, message: &str) {
        let about = EventAbout {
            api_version: "autoscaling/v2".to_owned(),
            kind: "HorizontalPodAutoscaler".to_owned(),
            namespace: hpa.metadata.namespace.clone().unwrap_or_default(),
            name: hpa.name_any(),
            uid: hpa.metadata.uid.clone().unwrap_or_default(),
        };
        self.recorder.record(&about, EventType::Normal, "SuccessfulRescale", message);
    }
}

fn metric(spec: &MetricSpec) -> Option<Metric<'_>> {
    match (&spec.resource, &spec.container_resource) {
        (Some(of), _) => Some(Metric { resource: &of.name, container: None, target: &of.target }),
        (None, Some(of)) => Some(Metric { resource: &of.name, container: Some(&of.container), target: &of.target }),
        (None, None) => None,
    }
}

/// Parses an item of a `PodMetricsList`; returns the pod's name and its usage.
fn sample(item: &Value) -> Option<(String, Sample)> {
    let name = item["metadata"]["name"].as_str()?.to_owned();
    let at = item["timestamp"].as_str()?.parse().ok()?;
    let window =
        item["window"].as_str().and_then(|w| w.strip_suffix('s')).and_then(|s| s.parse::<f64>().ok()).unwrap_or(0.0);
    let amounts = |usage: &Value| {
        let each = usage.as_object().into_iter().flatten();
        each.filter_map(|(resource, text)| Some((resource.clone(), parse(resource, text.as_str()?)?))).collect()
    };
    let containers = item["containers"].as_array().into_iter().flatten();
    let containers = containers.filter_map(|c| Some((c["name"].as_str()?.to_owned(), amounts(&c["usage"])))).collect();
    Some((name, Sample { at, window: SignedDuration::try_from_secs_f64(window).unwrap_or_default(), containers }))
}

fn status(
    hpa: &HorizontalPodAutoscaler,
    target: &Target,
    plan: &Plan,
    metrics: &[(String, Result<Proposal, String>)],
    scaled_at: Option<Time>,
    now: Timestamp,
) -> HorizontalPodAutoscalerStatus {
    let before = hpa.status.clone().unwrap_or_default();
    let wanted = [
        ("AbleToScale", Some(plan.able.clone())),
        ("ScalingActive", plan.active.clone()),
        ("ScalingLimited", plan.limited.clone()),
    ];
    let specs = hpa.spec.metrics.as_deref().unwrap_or_default();
    let metrics_status = plan.updates_metrics.then(|| {
        specs.iter().zip(metrics).map(|(spec, (_, asked))| metric_status(spec, asked.as_ref().ok())).collect::<Vec<_>>()
    });
    HorizontalPodAutoscalerStatus {
        conditions: Some(conditions(before.conditions.as_deref().unwrap_or_default(), wanted, now)),
        current_metrics: metrics_status.filter(|t| !t.is_empty()).or(before.current_metrics),
        current_replicas: Some(target.replicas),
        desired_replicas: plan.desired,
        last_scale_time: scaled_at.or(before.last_scale_time),
        observed_generation: hpa.metadata.generation,
    }
}

fn metric_status(spec: &MetricSpec, asked: Option<&Proposal>) -> MetricStatus {
    let mut status = MetricStatus { type_: spec.type_.clone(), ..MetricStatus::default() };
    let Some(proposal) = asked else { return status };
    let amount = |resource: &str| match resource {
        CPU => format!("{}m", proposal.average),
        _ => proposal.average.to_string(),
    };
    let current = |resource: &str| MetricValueStatus {
        average_utilization: proposal.utilization,
        average_value: Some(Quantity(amount(resource))),
        value: None,
    };
    if let Some(of) = &spec.resource {
        status.resource = Some(ResourceMetricStatus { current: current(&of.name), name: of.name.clone() });
    } else if let Some(of) = &spec.container_resource {
        status.container_resource = Some(ContainerResourceMetricStatus {
            container: of.container.clone(),
            current: current(&of.name),
            name: of.name.clone(),
        });
    }
    status
}
