//! HorizontalPodAutoscalers on the resource usage of pods, from the cluster's `metrics.k8s.io`.
//!
//! It scales Deployments, ReplicaSets and StatefulSets. Custom and external metrics are not supported. FederatedHPAs
//! decide by the same functions (`ironclad_autoscaling::federated_hpa`).

mod usage;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::Request;
use ironclad_autoscaling::federated_hpa::{
    Notice, Plan, Snapshot,
    calibration::Calibration,
    conditions::{Condition, Conditions},
    decide,
    history::History,
    needs_metrics,
    options::Options,
    plan::Written,
    pods::{Pod, PodKey},
    proposal::Reading,
    samples::{self, Usage},
    selecting::Selection,
    source::{Asked, Source},
    spec::Spec,
    status::status,
};
use ironclad_runtime::{EventAbout, EventType, Failure, Informer, Key, Next, Queue, Recorder, Writer};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::{Deployment, ReplicaSet, StatefulSet},
        autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus},
        core::v1::Pod as CorePod,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{Api, Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    Cluster,
    caches::{AUTOSCALERS, DEPLOYMENTS, PODS, REPLICA_SETS, STATEFUL_SETS},
    owner::{selector, selects},
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
    pods: Informer<CorePod>,
    writer: Writer,
    recorder: Recorder,
    options: Options,
    histories: Mutex<BTreeMap<Key, History>>,
}

struct Target {
    replicas: i32,
    created: i32,
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
        options: Options::of_one_cluster(),
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
            let plan = without_target(&hpa);
            self.write_status(
                &hpa,
                status(hpa.status.as_ref(), hpa.metadata.generation, &plan, &Written::Nothing, now),
            )
            .await?;
            return Ok(Next::After(EVERY));
        };
        let spec = Spec::from(&hpa.spec);
        let known = self.histories.lock().get(key).cloned();
        let mut history = known.unwrap_or_else(|| History::begin(target.replicas, None, now));
        let pods = self.pods(&hpa, &target);
        let readings =
            if needs_metrics(&spec, target.replicas) { self.readings(&hpa, &spec).await } else { Vec::new() };
        let seen = Snapshot {
            current: target.replicas,
            pods: &pods,
            selection: Selection::NotNeeded,
            status_replicas: i64::from(target.created),
            calibration: Calibration::ONE,
            is_settling: false,
        };
        let plan = decide(&spec, &seen, &readings, &history, &self.options, now);
        let written = if plan.rescales() {
            self.scale(&hpa, plan.desired).await?;
            Written::Rescaled
        } else {
            Written::Nothing
        };
        plan.record(&mut history, &written, now);
        history.forget(&spec, &self.options, now);
        let told = history.news(plan.events.iter().cloned().chain(plan.notice_of(&written)).collect());
        self.histories.lock().insert(key.clone(), history);
        told.iter().for_each(|notice| self.event(&hpa, notice));
        self.write_status(&hpa, status(hpa.status.as_ref(), hpa.metadata.generation, &plan, &written, now)).await?;
        Ok(Next::After(EVERY))
    }

    fn target(&self, hpa: &HorizontalPodAutoscaler) -> Option<Target> {
        let (namespace, reference) = (hpa.metadata.namespace.as_deref().unwrap_or(""), &hpa.spec.scale_target_ref);
        let name = reference.name.as_str();
        let of = |replicas: Option<i32>, created: Option<i32>, selector: &LabelSelector| Target {
            replicas: replicas.unwrap_or(1),
            created: created.unwrap_or(0),
            selector: selector.clone(),
        };
        match reference.kind.as_str() {
            "Deployment" => {
                let found = self.deployments.get(namespace, name)?;
                let created = found.status.as_ref().and_then(|status| status.replicas);
                found.spec.as_ref().map(|spec| of(spec.replicas, created, &spec.selector))
            }
            "ReplicaSet" => {
                let found = self.sets.get(namespace, name)?;
                let created = found.status.as_ref().map(|status| status.replicas);
                found.spec.as_ref().map(|spec| of(spec.replicas, created, &spec.selector))
            }
            "StatefulSet" => {
                let found = self.stateful_sets.get(namespace, name)?;
                let created = found.status.as_ref().map(|status| status.replicas);
                found.spec.as_ref().map(|spec| of(spec.replicas, created, &spec.selector))
            }
            _ => None,
        }
    }

    fn pods(&self, hpa: &HorizontalPodAutoscaler, target: &Target) -> BTreeMap<PodKey, Arc<Pod>> {
        let selector = selector(Some(&target.selector));
        let pods = self.pods.namespace(hpa.metadata.namespace.as_deref().unwrap_or(""));
        let selected = pods.iter().filter(|pod| selector.as_ref().is_some_and(|s| selects(s, &pod.metadata)));
        selected.map(|pod| (key_of(&pod.name_any()), Arc::new(Pod::from(&**pod)))).collect()
    }

    /// Reads the metrics in order.
    async fn readings(&self, hpa: &HorizontalPodAutoscaler, spec: &Spec<'_>) -> Vec<Result<Reading, String>> {
        let usage = self.usage(hpa.metadata.namespace.as_deref().unwrap_or("")).await;
        let each = spec.metrics.iter().map(|metric| {
            let source = Source::of(metric, &self.options).map_err(|invalid| invalid.message)?;
            let Asked::Usage { resource, container } = source.asked else {
                return Err(format!("no {} metrics are served here", metric.type_));
            };
            let usage = usage.as_ref().map_err(Clone::clone)?;
            samples::of_resource(usage, resource, container, &self.options).map(Reading::Pods)
        });
        each.collect()
    }

    async fn usage(&self, namespace: &str) -> Result<BTreeMap<PodKey, Usage>, String> {
        let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods");
        let request = Request::get(path).body(Vec::new()).map_err(|e| e.to_string())?;
        let list = self.cluster.client.request::<Value>(request).await;
        let list =
            list.map_err(|e| format!("unable to fetch metrics from resource metrics API: {}", Failure::from(e)))?;
        let items = list["items"].as_array().into_iter().flatten();
        Ok(items.filter_map(usage::parse).map(|(name, usage)| (key_of(&name), usage)).collect())
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

    fn event(&self, hpa: &HorizontalPodAutoscaler, notice: &Notice) {
        let about = EventAbout {
            api_version: "autoscaling/v2".to_owned(),
            kind: "HorizontalPodAutoscaler".to_owned(),
            namespace: hpa.metadata.namespace.clone().unwrap_or_default(),
            name: hpa.name_any(),
            uid: hpa.metadata.uid.clone().unwrap_or_default(),
        };
        let type_ = if notice.is_warning { EventType::Warning } else { EventType::Normal };
        self.recorder.record(&about, type_, notice.reason, &notice.message);
    }
}

/// Pods of one cluster need no name of it.
fn key_of(name: &str) -> PodKey {
    PodKey { cluster: Arc::from(""), name: name.into() }
}

fn without_target(hpa: &HorizontalPodAutoscaler) -> Plan {
    let target = &hpa.spec.scale_target_ref;
    let (kind, name) = (&target.kind, &target.name);
    let why = format!("the HPA controller was unable to get the target's current scale: {kind} {name} not found");
    let able = Some(Condition::fails("FailedGetScale", why));
    Plan { conditions: Conditions { able, ..Conditions::default() }, ..Plan::default() }
}
