//! Load balancer and ingress controller: every Service of type LoadBalancer and every Ingress gets an address of a
//! documentation network. Nothing answers there.

mod decide;

use std::{collections::BTreeSet, sync::Arc};

use ironclad_kubecontrollers::{Cluster, INGRESSES, SERVICES};
use ironclad_runtime::{Api, Failure, Informer, Key, Next, Queue, Writer};
use k8s_openapi::api::{core::v1::Service, networking::v1::Ingress};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use self::decide::{Step, Wants, decide};
use crate::kubelet::SharedTimes;

/// One worker: an address is taken once the former is written.
const WORKERS: usize = 1;

/// Key of an object to balance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Balanced {
    Service(Key),
    Ingress(Key),
}

impl std::fmt::Display for Balanced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Service(key) => write!(f, "Service {key}"),
            Self::Ingress(key) => write!(f, "Ingress {key}"),
        }
    }
}

struct Balancer {
    cluster: Cluster,
    member: String,
    times: SharedTimes,
    services: Informer<Service>,
    ingresses: Informer<Ingress>,
    writer: Writer,
}

/// Runs both as tasks of the cluster's seam.
pub(crate) fn start(cluster: &Cluster, member: &str, times: SharedTimes) {
    let (services, ingresses) = (cluster.caches.take(&SERVICES), cluster.caches.take(&INGRESSES));
    let queue: Queue<Balanced> = cluster.queue("balancer");
    let to = queue.clone();
    services.on_change(move |change| {
        if let Some(service) = change.new.as_ref() {
            to.add(Balanced::Service(Key::of(&**service)));
        }
    });
    let to = queue.clone();
    ingresses.on_change(move |change| {
        if let Some(ingress) = change.new.as_ref() {
            to.add(Balanced::Ingress(Key::of(&**ingress)));
        }
    });
    let writer = Writer::new("load-balancer");
    let this = Balancer { cluster: cluster.clone(), member: member.to_owned(), times, services, ingresses, writer };
    let this = Arc::new(this);
    let ready = [this.services.when_synced(), this.ingresses.when_synced()];
    cluster.run("balancer", queue, WORKERS, ready, move |balanced| {
        let this = this.clone();
        async move {
            match balanced {
                Balanced::Service(key) => this.service(&key).await,
                Balanced::Ingress(key) => this.ingress(&key).await,
            }
        }
    });
}

impl Balancer {
    async fn service(&self, key: &Key) -> Result<Next, Failure> {
        let Some(service) = self.services.get_key(key) else { return Ok(Next::Forget) };
        let spec = service.spec.as_ref();
        // The status of a Service with a class belongs to the load balancer of that class.
        let foreign = spec.is_some_and(|s| s.load_balancer_class.is_some());
        let is_ours = !foreign && spec.is_some_and(|s| s.type_.as_deref() == Some("LoadBalancer"));
        let wants = if is_ours { Wants::Address } else { Wants::Nothing };
        let assigned = !foreign && service_addresses(&service).next().is_some();
        let step = self.decide(&service.metadata, wants, assigned);
        let patch = match self.patch(&step) {
            Ok(patch) => patch,
            Err(next) => return Ok(next),
        };
        let api: Api<Service> = Api::namespaced(self.cluster.client.clone(), &key.namespace);
        let version = service.resource_version().unwrap_or_default();
        written(self.writer.patch_status(&api, Some(&self.services), &key.name, &version, patch).await)
    }

    async fn ingress(&self, key: &Key) -> Result<Next, Failure> {
        let Some(ingress) = self.ingresses.get_key(key) else { return Ok(Next::Forget) };
        let assigned = ingress_addresses(&ingress).next().is_some();
        let step = self.decide(&ingress.metadata, Wants::Address, assigned);
        let patch = match self.patch(&step) {
            Ok(patch) => patch,
            Err(next) => return Ok(next),
        };
        let api: Api<Ingress> = Api::namespaced(self.cluster.client.clone(), &key.namespace);
        let version = ingress.resource_version().unwrap_or_default();
        written(self.writer.patch_status(&api, Some(&self.ingresses), &key.name, &version, patch).await)
    }

    fn decide(&self, meta: &kube::api::ObjectMeta, wants: Wants, assigned: bool) -> Step {
        // Only an object that gets an address costs a walk over the others.
        let used = if wants == Wants::Address && !assigned { self.used() } else { BTreeSet::new() };
        let (delay, now) = (self.times.lock().startup_delay, self.cluster.seam.clock.wall());
        decide(meta, wants, assigned, &used, &self.member, delay, now)
    }

    /// Returns the patch of the status for a step, or what follows if there is nothing to write.
    fn patch(&self, step: &Step) -> Result<Value, Next> {
        match step {
            Step::Leave => Err(Next::Forget),
            Step::Wait(until) => Err(Next::After(until.duration_since(self.cluster.seam.clock.wall()).unsigned_abs())),
            Step::Assign(ip) => Ok(json!({"loadBalancer": {"ingress": [{"ip": ip}]}})),
            Step::Clear => Ok(json!({"loadBalancer": {"ingress": null}})),
        }
    }

    fn used(&self) -> BTreeSet<String> {
        let services = self.services.list();
        let ingresses = self.ingresses.list();
        let of_services = services.iter().flat_map(|service| service_addresses(service));
        of_services.chain(ingresses.iter().flat_map(|ingress| ingress_addresses(ingress))).collect()
    }
}

fn service_addresses(service: &Service) -> impl Iterator<Item = String> {
    let status = service.status.as_ref().and_then(|s| s.load_balancer.as_ref());
    status.into_iter().flat_map(|s| s.ingress.iter().flatten()).filter_map(|ingress| ingress.ip.clone())
}

fn ingress_addresses(ingress: &Ingress) -> impl Iterator<Item = String> {
    let status = ingress.status.as_ref().and_then(|s| s.load_balancer.as_ref());
    status.into_iter().flat_map(|s| s.ingress.iter().flatten()).filter_map(|ingress| ingress.ip.clone())
}

fn written<K>(answer: Result<K, Failure>) -> Result<Next, Failure> {
    match answer {
        Ok(_) | Err(Failure::NotFound(_)) => Ok(Next::Forget),
        Err(failure) => Err(failure),
    }
}
