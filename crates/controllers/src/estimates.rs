//! Estimators of members over gRPC (specification/scheduling.md 10.1, 10.5), and what the descheduler asks.
//!
//! They are asked before a cycle begins, all at once, under one
//! deadline; one that fails limits nothing, and is not asked for some time if it fails again and again.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::join_all;
use ironclad_api::{
    cluster::Cluster,
    work::{Component, ComponentReplicaRequirements, ResourceBindingSpec},
};
use ironclad_estimator::{Assumed, Call, Estimator, Needs, Workload};
use ironclad_fleet::{BindingKey, BindingRef, ClusterName};
use ironclad_planning::leader::EstimatorAnswer;
use ironclad_runtime::{Api, Change, Informer, Key, WatchScope};
use ironclad_scheduling::{
    Available, Seen, capacity,
    estimator::{Answer, Breaker, EstimatorService, NoAnswer, Wanted, addresses, meaning},
    question_of,
    trigger::{ScheduleDecision, schedule_decision},
    wakes::cluster::may_fit,
};
use ironclad_seam::Seam;
use jiff::SignedDuration;
use k8s_openapi::{api::core::v1::Service, apimachinery::pkg::util::intstr::IntOrString};
use kube::{Client, ResourceExt as _};
use parking_lot::{Mutex, RwLock};
use prometheus_client::{
    encoding::EncodeLabelSet, metrics::counter::Counter, metrics::family::Family, registry::Registry,
};
use tokio::time::{Instant, timeout};

use crate::{
    backends::Backends, bindings::Bindings, capacity::FleetCapacity, metrics, settings::Settings, setup::Accounts,
};

/// Largest number of assumed workloads that are sent with one call.
const ASSUMED_MAX: usize = 1_000;
/// Largest number of answers of one estimator that are remembered, to show them.
const REMEMBERED_MAX: usize = 512;

/// Figures that are computed from members' nodes and pods with these settings, beside the accounts of the clusters.
pub(crate) fn member_needs(settings: &Settings) -> Needs {
    Needs { capacity: false, quotas: true, unschedulable: settings.deschedules() }
}

/// Parts of [`Estimates`].
pub(crate) struct EstimateParts<'a> {
    pub(crate) settings: &'a Arc<Settings>,
    pub(crate) seam: &'a Seam,
    pub(crate) backends: &'a Arc<dyn Backends>,
    pub(crate) plane: &'a Client,
    pub(crate) clusters: &'a Informer<Cluster>,
    pub(crate) accounts: &'a Accounts,
    pub(crate) bindings: &'a Bindings,
    pub(crate) capacity: &'a FleetCapacity,
    pub(crate) registry: &'a mut Registry,
}

/// Estimators over gRPC, and replicas that find no node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Estimates(Option<Arc<Shared>>);

struct Shared {
    settings: Arc<Settings>,
    seam: Seam,
    began: Instant,
    backends: Arc<dyn Backends>,
    clusters: Informer<Cluster>,
    services: Informer<Service>,
    accounts: Accounts,
    bindings: Bindings,
    capacity: FleetCapacity,
    remotes: RwLock<BTreeMap<ClusterName, Remote>>,
    calls: EstimatorCalls,
}

/// Call to the estimator of a cluster, with assumed workloads.
pub(crate) type RemoteCall = (ClusterName, Call, Vec<Assumed>);

/// Estimator over gRPC.
struct Remote {
    addresses: Vec<String>,
    estimator: Arc<dyn Estimator>,
    breaker: Mutex<Breaker>,
    /// Last answers, and when they were given, by what they are about.
    last: Mutex<BTreeMap<String, (Answer, Duration)>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    result: &'static str,
    r#type: &'static str,
}

/// Metric of questions to estimators, by result and method. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct EstimatorCalls(Family<CallLabels, Counter>);

impl EstimatorCalls {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let calls = Family::default();
        registry.register(
            "karmada_scheduler_estimator_estimating_request",
            "Number of questions to estimators over gRPC",
            calls.clone(),
        );
        Self(calls)
    }

    /// Counts a question that ended so.
    pub(crate) fn count(&self, result: &'static str, method: &'static str) {
        self.0.get_or_create(&CallLabels { result, r#type: method }).inc();
    }
}

impl Estimates {
    pub(crate) fn new(parts: EstimateParts<'_>) -> Self {
        let settings = parts.settings;
        if !settings.estimators.enabled && !settings.deschedules() {
            return Self(None);
        }
        let calls = EstimatorCalls::register(parts.registry);
        let this = Arc::new(Shared {
            settings: settings.clone(),
            seam: parts.seam.clone(),
            began: parts.seam.clock.mono(),
            backends: parts.backends.clone(),
            clusters: parts.clusters.clone(),
            services: Informer::new(&[]),
            accounts: parts.accounts.clone(),
            bindings: parts.bindings.clone(),
            capacity: parts.capacity.clone(),
            remotes: RwLock::default(),
            calls,
        });
        let weak = Arc::downgrade(&this);
        parts.clusters.on_change(move |change| {
            if let Some(this) = weak.upgrade() {
                this.on_cluster(change);
            }
        });
        let weak = Arc::downgrade(&this);
        this.services.on_change(move |change| {
            if let Some(this) = weak.upgrade() {
                this.on_service(change);
            }
        });
        let api = Api::namespaced(parts.plane.clone(), &settings.estimators.discovery.service_namespace);
        let scope = WatchScope::default();
        this.services.start("estimator services", parts.seam, &parts.seam.tasks, api, &scope);
        Self(Some(this))
    }

    /// The estimators, if the scheduler asks them.
    fn enabled(&self) -> Option<&Arc<Shared>> {
        self.0.as_ref().filter(|this| this.settings.estimators.enabled)
    }

    /// True if some are asked over gRPC.
    pub(crate) fn asks_over_the_network(&self) -> bool {
        self.enabled().is_some_and(|this| !this.remotes.read().is_empty())
    }

    /// Calls over gRPC about a binding, if a cycle would run for it.
    pub(crate) fn calls_for(&self, seen: &Seen<'_>) -> Vec<RemoteCall> {
        self.enabled().and_then(|this| this.calls_for(seen)).unwrap_or_default()
    }

    /// Makes these calls about a binding. Returns the answers that limit its estimates.
    pub(crate) async fn ask(&self, spec: &ResourceBindingSpec, calls: Vec<RemoteCall>) -> Vec<(ClusterName, i64)> {
        let Some(this) = self.enabled() else { return Vec::new() };
        let workload = Workload::of(spec);
        let answers = calls.into_iter().map(|(cluster, call, assumed)| {
            let workload = &workload;
            async move {
                let answer = this.call(&cluster, workload, &call, &assumed).await;
                this.remember(&cluster, subject(spec), &answer);
                answer.limit().map(|limit| (cluster, limit))
            }
        });
        join_all(answers).await.into_iter().flatten().collect()
    }

    /// Answers of estimators over gRPC about a binding.
    pub(crate) fn available(&self, binding: BindingRef<'_>, remote: Vec<(ClusterName, i64)>) -> Available {
        let mut available = Available::new();
        let Some(this) = self.enabled() else { return available };
        let Some(question) = question_of(binding.spec(), this.capacity.options()) else { return available };
        let method = match question.wanted {
            Wanted::Replicas(_) => "MaxAvailableReplicas",
            Wanted::Sets(_) => "MaxAvailableComponentSets",
        };
        this.count(method, "success");
        for (cluster, fits) in &remote {
            available.limit(cluster, *fits);
        }
        available
    }

    /// Last answers of estimators over gRPC about a binding, to show them.
    pub(crate) fn explain(&self, binding: BindingRef<'_>) -> Vec<EstimatorAnswer> {
        let Some(this) = self.enabled() else { return Vec::new() };
        if question_of(binding.spec(), this.capacity.options()).is_none() {
            return Vec::new();
        }
        let remotes = this.remotes.read();
        let answer = |(name, remote): (&ClusterName, &Remote)| {
            let answer = EstimatorAnswer {
                cluster: name.to_string(),
                source: "Server".to_owned(),
                fits: None,
                account: None,
                age_ms: None,
                error: None,
            };
            match remote.last.lock().get(&subject(binding.spec())) {
                None => answer,
                Some((last, at)) => {
                    let age = this.now().saturating_sub(*at).as_millis();
                    let error = match last {
                        Answer::Failed(why) => Some(why.to_string()),
                        Answer::Fits(_) | Answer::NoOpinion => None,
                    };
                    let age_ms = Some(u64::try_from(age).unwrap_or(u64::MAX));
                    EstimatorAnswer { fits: last.limit(), age_ms, error, ..answer }
                }
            }
        };
        remotes.iter().map(answer).collect()
    }

    /// Replicas of a Deployment that a cluster has found no node for, for longer than the threshold; `None` is no
    /// opinion.
    pub(crate) async fn unschedulable(
        &self,
        spec: &ResourceBindingSpec,
        cluster: &ClusterName,
        threshold: SignedDuration,
    ) -> Option<i32> {
        let this = self.0.as_ref()?;
        let resource = &spec.resource;
        if let Some(account) = this.accounts.get(cluster) {
            let now = this.seam.clock.wall();
            return account.unschedulable(&resource.namespace, &resource.name, threshold, now);
        }
        let call = Call::Unschedulable(threshold);
        let answer = this.call(cluster, &Workload::of(spec), &call, &[]).await;
        answer.limit().and_then(|count| i32::try_from(count).ok())
    }
}

impl Shared {
    fn now(&self) -> Duration {
        self.seam.clock.mono() - self.began
    }

    fn count(&self, method: &'static str, result: &'static str) {
        self.calls.count(result, method);
    }

    /// Keeps an answer, to show it.
    fn remember(&self, cluster: &ClusterName, subject: String, answer: &Answer) {
        let (now, remotes) = (self.now(), self.remotes.read());
        let Some(remote) = remotes.get(cluster) else { return };
        let mut last = remote.last.lock();
        if !last.contains_key(&subject)
            && last.len() >= REMEMBERED_MAX
            && let Some(oldest) = last.iter().min_by_key(|(_, (_, at))| *at).map(|(subject, _)| subject.clone())
        {
            last.remove(&oldest);
        }
        last.insert(subject, (answer.clone(), now));
    }

    /// Calls about a binding that a cycle would run for: to the clusters with an estimator over gRPC that may take
    /// replicas by their summary.
    fn calls_for(&self, seen: &Seen<'_>) -> Option<Vec<RemoteCall>> {
        let asked: Vec<ClusterName> = self.remotes.read().keys().cloned().collect();
        if asked.is_empty() || !matches!(schedule_decision(seen), ScheduleDecision::Schedule(_)) {
            return None;
        }
        let options = self.capacity.options();
        let question = question_of(seen.binding.spec(), options)?;
        let call = Call::fits(seen.binding.spec(), matches!(question.wanted, Wanted::Sets(_)));
        let may_take = |name: &ClusterName| {
            let cluster = seen.clusters.get(name);
            cluster.is_some_and(|cluster| may_fit(seen.binding, cluster, seen.capacity, options))
        };
        let calls = asked.into_iter().filter(may_take).map(|name| {
            let assumed = self.assumed_in(seen, &name);
            (name, call.clone(), assumed)
        });
        Some(calls.collect())
    }

    /// Assumed workloads of a cluster as the protocol carries them: one set each.
    fn assumed_in(&self, seen: &Seen<'_>, cluster: &ClusterName) -> Vec<Assumed> {
        let all = seen.capacity.promised_in(cluster).take(ASSUMED_MAX);
        let read = |(key, parts, count): (&BindingKey, &[capacity::demand::Part], i64)| {
            let binding = self.bindings.get(&Key::new(&key.namespace, &key.name))?;
            let spec = binding.spec();
            let claim = spec.replica_requirements.as_ref().and_then(|needs| needs.node_claim.clone());
            let component = |(at, part): (usize, &capacity::demand::Part)| {
                let whole = spec.components.get(at);
                let needs = whole.and_then(|component| component.replica_requirements.clone()).unwrap_or_else(|| {
                    let needs = spec.replica_requirements.as_deref().cloned().unwrap_or_default();
                    ComponentReplicaRequirements {
                        node_claim: claim.clone(),
                        resource_request: needs.resource_request,
                        priority_class_name: needs.priority_class_name,
                    }
                });
                Component {
                    name: whole.map_or_else(|| format!("component-{at}"), |component| component.name.clone()),
                    replicas: i32::try_from(part.replicas.saturating_mul(count)).unwrap_or(i32::MAX),
                    replica_requirements: Some(needs),
                }
            };
            Some((spec.resource.namespace.clone(), parts.iter().enumerate().map(component).collect()))
        };
        all.filter_map(read).collect()
    }

    /// Asks one estimator, unless its circuit is open.
    async fn call(&self, cluster: &ClusterName, workload: &Workload, call: &Call, assumed: &[Assumed]) -> Answer {
        let asked = {
            let remotes = self.remotes.read();
            let Some(remote) = remotes.get(cluster) else { return Answer::NoOpinion };
            remote.breaker.lock().admit(self.now()).then(|| remote.estimator.call(workload, call, assumed))
        };
        let Some(asked) = asked else { return meaning(Err(NoAnswer::CircuitOpen)) };
        let _probe = Probe { shared: self, cluster };
        let answer = match timeout(self.settings.estimators.timeout, asked).await {
            Ok(Ok(number)) => meaning(Ok(number)),
            Ok(Err(error)) => meaning(Err(NoAnswer::Error(error))),
            Err(_) => meaning(Err(NoAnswer::Timeout)),
        };
        if let Answer::Failed(why) = &answer {
            tracing::warn!(%cluster, method = call.method(), %why, "the estimator did not answer, others decide");
        }
        let works = answer.works().unwrap_or(true);
        self.count(call.method(), metrics::result::<(), ()>(&if works { Ok(()) } else { Err(()) }));
        if let Some(remote) = self.remotes.read().get(cluster) {
            remote.breaker.lock().record(works, self.now());
        }
        answer
    }

    fn on_cluster(&self, change: &Change<Cluster>) {
        if let Some(cluster) = change.new.as_ref().or(change.old.as_ref()) {
            self.discover(&cluster.name_any().as_str().into());
        }
    }

    fn on_service(&self, change: &Change<Service>) {
        let Some(service) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let discovery = &self.settings.estimators.discovery;
        let name = service.name_any();
        let cluster = name.strip_prefix(&discovery.service_prefix).and_then(|rest| rest.strip_prefix('-'));
        if let Some(cluster) = cluster
            && service.namespace().as_deref() == Some(&*discovery.service_namespace)
        {
            self.discover(&cluster.into());
        }
    }

    /// Connects to the estimator of a cluster, or ends the connection.
    fn discover(&self, name: &ClusterName) {
        let discovery = &self.settings.estimators.discovery;
        let found = self.clusters.get("", &name.0).map(|cluster| {
            let service = self.services.get(&discovery.service_namespace, &discovery.service(&name.0));
            let service = service.as_deref().map(service_facts);
            addresses(discovery, &name.0, &cluster.spec, service.as_ref())
        });
        let addresses = found.unwrap_or_else(|| Ok(Vec::new())).unwrap_or_else(|error| {
            tracing::warn!(cluster = %name, %error, "the Service of the estimator leads nowhere");
            Vec::new()
        });
        let mut remotes = self.remotes.write();
        if remotes.get(name).map_or(addresses.is_empty(), |remote| remote.addresses == addresses) {
            return;
        }
        remotes.remove(name);
        if !addresses.is_empty() {
            let (tls, seam) = (&self.settings.estimators.tls, &self.seam);
            let estimator = self.backends.estimator(&name.0, addresses.clone(), tls, &seam.clock, &seam.tasks);
            remotes.insert(
                name.clone(),
                Remote { addresses, estimator, breaker: Mutex::default(), last: Mutex::default() },
            );
        }
    }
}

/// Ends the test of an estimator whose caller is gone.
struct Probe<'a> {
    shared: &'a Shared,
    cluster: &'a ClusterName,
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        if let Some(remote) = self.shared.remotes.read().get(self.cluster) {
            remote.breaker.lock().abandon();
        }
    }
}

/// The workload that a question is about.
fn subject(spec: &ResourceBindingSpec) -> String {
    let of = &spec.resource;
    format!("{}/{}/{}", of.kind, of.namespace, of.name)
}

fn service_facts(service: &Service) -> EstimatorService {
    let spec = service.spec.clone().unwrap_or_default();
    let port = |port: &k8s_openapi::api::core::v1::ServicePort| {
        let target = match &port.target_port {
            Some(IntOrString::Int(target)) => Some(*target),
            Some(IntOrString::String(_)) => None,
            None => Some(port.port),
        };
        (port.port, target)
    };
    EstimatorService {
        type_: spec.type_.unwrap_or_default(),
        external_name: spec.external_name.unwrap_or_default(),
        ports: spec.ports.iter().flatten().map(port).collect(),
    }
}
