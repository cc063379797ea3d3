//! HorizontalPodAutoscalers on the metrics that the cluster's own metrics APIs serve.
//!
//! It scales Deployments, ReplicaSets and StatefulSets, and no other kinds. FederatedHPAs decide by the same functions
//! (`ironclad_hpa`).

mod ask;
mod usage;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_hpa::{
    Notice, Plan, Snapshot,
    calibration::Calibration,
    decide,
    history::History,
    needs_metrics,
    options::Options,
    plan::Written,
    pods::{Pod, PodKey},
    selecting::{self, Selection},
    spec::Spec,
    status::status,
};
use ironclad_patch::selector::LabelSelector;
use ironclad_runtime::{Api, EventAbout, EventType, Failure, Informer, Key, Next, Queue, Recorder, Writer};
use jiff::Timestamp;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::{Deployment, ReplicaSet, StatefulSet},
        autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus},
        core::v1::Pod as CorePod,
    },
    apimachinery::pkg::apis::meta::v1 as meta,
};
use kube::{Resource, ResourceExt as _, core::Selector};
use parking_lot::Mutex;

use self::ask::Asker;
use crate::{
    Cluster,
    caches::{AUTOSCALERS, DEPLOYMENTS, PODS, REPLICA_SETS, STATEFUL_SETS},
    owner::selects,
    status_debounce::status_patch,
};

const WORKERS: usize = 2;
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
    asker: Asker,
    states: Mutex<BTreeMap<Key, State>>,
    /// Selectors of the autoscalers that were evaluated, by key.
    selectors: Mutex<BTreeMap<Key, LabelSelector>>,
}

/// State in memory of one autoscaler.
#[derive(Clone, Default)]
struct State {
    /// False until the replicas of its target are read for the first time.
    is_begun: bool,
    history: History,
}

struct Target {
    replicas: i32,
    created: i32,
    /// Selector of its pods, as its scale shows it.
    selector: String,
}

pub(crate) fn start(cluster: &Cluster, options: &Options) {
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
        options: options.clone(),
        asker: Asker::new(cluster.client.clone(), options.clone()),
        states: Mutex::default(),
        selectors: Mutex::default(),
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
        let again = Next::After(Duration::try_from(self.options.sync_period).unwrap_or(Duration::MAX));
        let Some(hpa) = self.autoscalers.get_key(key).filter(|h| h.metadata.deletion_timestamp.is_none()) else {
            self.states.lock().remove(key);
            self.selectors.lock().remove(key);
            return Ok(Next::Forget);
        };
        let spec = Spec::from(&hpa.spec).with_status(hpa.status.as_ref(), &self.options);
        let mut state = self.states.lock().get(key).cloned().unwrap_or_default();
        let (plan, written) = match self.target(&hpa) {
            Err(why) => (without_target(why), Written::Nothing),
            Ok(target) => {
                if !std::mem::replace(&mut state.is_begun, true) {
                    // Like kube-controller-manager, it forgets the changes of an earlier process.
                    state.history = History::begin(target.replicas, None, now);
                }
                let plan = self.decide(key, &hpa, &spec, &target, &state.history, now).await;
                let written = match plan.rescales() {
                    true => match self.scale(&hpa, plan.desired).await {
                        Ok(()) => Written::Rescaled,
                        Err(failure) => Written::Failed(failure.to_string()),
                    },
                    false => Written::Nothing,
                };
                (plan, written)
            }
        };
        let history = &mut state.history;
        plan.record(history, &written, now);
        history.forget(&spec, &self.options, now);
        let news = history.news(plan.events.iter().cloned().chain(plan.notice_of(&written)).collect());
        self.states.lock().insert(key.clone(), state);
        news.iter().for_each(|notice| self.event(&hpa, notice));
        self.write_status(&hpa, status(hpa.status.as_ref(), hpa.metadata.generation, &plan, &written, now)).await?;
        Ok(again)
    }

    async fn decide(
        &self,
        key: &Key,
        hpa: &HorizontalPodAutoscaler,
        spec: &Spec<'_>,
        target: &Target,
        history: &History,
        now: Timestamp,
    ) -> Plan {
        let asks = needs_metrics(spec, target.replicas);
        let (pods, selection) = if asks { self.selected(key, target) } else { (BTreeMap::new(), Selection::NotNeeded) };
        let namespace = hpa.metadata.namespace.as_deref().unwrap_or("");
        let readings = match &selection {
            Selection::By(selector) => self.asker.readings(namespace, selector, spec, now).await,
            _ => Vec::new(),
        };
        let seen = Snapshot {
            current: target.replicas,
            pods: &pods,
            selection,
            status_replicas: i64::from(target.created),
            calibration: Calibration::ONE,
            is_settling: false,
        };
        decide(spec, &seen, &readings, history, &self.options, now)
    }

    /// Returns the pods of a target, and the selector that they were found by. A selector that selects pods of another
    /// autoscaler, too, is not to be used.
    fn selected(&self, key: &Key, target: &Target) -> (BTreeMap<PodKey, Arc<Pod>>, Selection) {
        let parsed = match selecting::parse(&target.selector) {
            Ok(parsed) => parsed,
            Err(selection) => return (BTreeMap::new(), selection),
        };
        let all = self.pods.namespace(&key.namespace);
        let selected = all.iter().filter(|pod| selects(&parsed, &pod.metadata));
        let pods: BTreeMap<PodKey, Arc<Pod>> =
            selected.map(|pod| (key_of(&pod.name_any()), Arc::new(Pod::from(&**pod)))).collect();
        let mut selectors = self.selectors.lock();
        selectors.insert(key.clone(), parsed);
        let named: Vec<(String, &LabelSelector)> = selectors
            .iter()
            .filter(|(other, _)| other.namespace == key.namespace)
            .map(|(other, selector)| (other.to_string(), selector))
            .collect();
        let named = named.iter().map(|(name, selector)| (name.as_str(), *selector));
        let others = selecting::others(&key.to_string(), pods.values().map(|pod| &**pod), named);
        let selector = target.selector.clone();
        let selection =
            if others.is_empty() { Selection::By(selector) } else { Selection::Ambiguous { selector, others } };
        (pods, selection)
    }

    /// Returns the target, or why its scale cannot be read.
    fn target(&self, hpa: &HorizontalPodAutoscaler) -> Result<Target, String> {
        let (namespace, reference) = (hpa.metadata.namespace.as_deref().unwrap_or(""), &hpa.spec.scale_target_ref);
        let name = reference.name.as_str();
        let of = |replicas: Option<i32>, created: Option<i32>, selector: &meta::LabelSelector| Target {
            replicas: replicas.unwrap_or(1),
            created: created.unwrap_or(0),
            selector: shown(selector),
        };
        let (plural, found) = match reference.kind.as_str() {
            "Deployment" => {
                let found = self.deployments.get(namespace, name);
                let of = |found: Arc<Deployment>| {
                    let created = found.status.as_ref().and_then(|status| status.replicas);
                    found.spec.as_ref().map(|spec| of(spec.replicas, created, &spec.selector))
                };
                ("deployments", found.and_then(of))
            }
            "ReplicaSet" => {
                let found = self.sets.get(namespace, name);
                let of = |found: Arc<ReplicaSet>| {
                    let created = found.status.as_ref().map(|status| status.replicas);
                    found.spec.as_ref().map(|spec| of(spec.replicas, created, &spec.selector))
                };
                ("replicasets", found.and_then(of))
            }
            "StatefulSet" => {
                let found = self.stateful_sets.get(namespace, name);
                let of = |found: Arc<StatefulSet>| {
                    let created = found.status.as_ref().map(|status| status.replicas);
                    found.spec.as_ref().map(|spec| of(spec.replicas, created, &spec.selector))
                };
                ("statefulsets", found.and_then(of))
            }
            other => {
                let api_version = reference.api_version.as_deref().unwrap_or_default();
                let group = api_version.split_once('/').map_or("", |(group, _)| group);
                return Err(format!("no matches for kind \"{other}\" in group \"{group}\""));
            }
        };
        found.ok_or_else(|| format!("{plural}.apps \"{name}\" not found"))
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
        K: ironclad_runtime::Object + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
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
        let about = EventAbout::of::<HorizontalPodAutoscaler>(&hpa.metadata);
        let type_ = if notice.is_warning { EventType::Warning } else { EventType::Normal };
        self.recorder.record(&about, type_, notice.reason, &notice.message);
    }
}

/// Pods of one cluster need no name of it.
fn key_of(name: &str) -> PodKey {
    PodKey { cluster: Arc::from(""), name: name.into() }
}

/// The plan for a target that cannot be read. As with kube-controller-manager, the event gives the reason alone, and
/// the condition a whole sentence.
fn without_target(why: String) -> Plan {
    let mut plan = Plan::without_scale(None, &why);
    for event in &mut plan.events {
        event.message.clone_from(&why);
    }
    plan
}

/// Renders the selector of a workload as its scale does. One that cannot be read selects nothing.
fn shown(selector: &meta::LabelSelector) -> String {
    Selector::try_from(selector.clone()).map(|selector| selector.to_string()).unwrap_or_default()
}
