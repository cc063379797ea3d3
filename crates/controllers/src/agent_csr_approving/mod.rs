//! Approval of agents' certificates (specification/operations.md 10.4).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_admission::{
    agents::{
        approval::{self, RegistrarRights, Seen, Token, Told, Verdict, decide, token_secret},
        request::{AgentRequest, Occasion, administrator_review, is_pending, registrar_rights_review},
    },
    wakes,
};
use ironclad_api::{
    cluster::Cluster,
    namespaces::{CLUSTER, KUBE_SYSTEM},
};
use ironclad_runtime::{Api, Change, Failure, Informer, Key, Next, Queue, Writer};
use ironclad_seam::Seam;
use k8s_openapi::api::{
    authorization::v1::SubjectAccessReview, certificates::v1::CertificateSigningRequest, coordination::v1::Lease,
    core::v1::Secret,
};
use kube::{Client, ResourceExt as _, api::PostParams};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    caches::{CERTIFICATE_REQUESTS, LEASES},
    controller::{Controller, Reconciler},
    events::Events,
    setup::{Setup, on_change},
};

struct AgentCsrApproving {
    seam: Seam,
    plane: Client,
    writer: Writer,
    queue: Queue<Key>,
    requests: Informer<CertificateSigningRequest>,
    clusters: Informer<Cluster>,
    leases: Informer<Lease>,
    /// Time at which the last change of each Lease was seen.
    renewed: Mutex<BTreeMap<String, Instant>>,
    events: Events,
    told: Mutex<Told>,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let this = Arc::new(AgentCsrApproving {
        seam: setup.seam.clone(),
        plane: setup.plane.clone(),
        writer: setup.writer("agentcsrapproving"),
        queue: setup.queue(AgentCsrApproving::NAME),
        requests: setup.caches.take(&CERTIFICATE_REQUESTS),
        clusters: setup.clusters().clone(),
        leases: setup.caches.take(&LEASES),
        renewed: Mutex::default(),
        events: setup.events.clone(),
        told: Mutex::default(),
    });
    on_change(&this.leases, &this, AgentCsrApproving::on_lease);
    on_change(&this.requests, &this, AgentCsrApproving::on_request);
    on_change(setup.clusters(), &this, AgentCsrApproving::on_cluster);
    this
}

impl Reconciler for AgentCsrApproving {
    type Key = Key;
    const NAME: &'static str = "agentcsrapproving";
    /// Requests that are decided on at once.
    const WORKERS: usize = 1;
    /// A request waits until the agent of its name may be silent.
    const HAS_APPOINTMENTS: bool = true;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let pending = self.requests.get_key(key).filter(|request| is_pending(request));
        let recognised = pending.and_then(|request| AgentRequest::of(&request).map(|asked| (request, asked)));
        let Some((request, asked)) = recognised else {
            self.told.lock().news(&key.name, None);
            return Ok(Next::Forget);
        };
        let (may, token) = (self.allowed(&asked.access_review(&request)).await?, self.token(&request).await?);
        let registrar = match asked.occasion {
            Occasion::Registrar if self.allowed(&administrator_review()).await? => RegistrarRights::All,
            Occasion::Registrar if !self.allowed(&registrar_rights_review()).await? => RegistrarRights::Missing,
            _ => RegistrarRights::Own,
        };
        let (cluster, lease) = (self.clusters.get("", &asked.cluster), self.lease(&asked.cluster));
        let seen = Seen {
            request: &request,
            asked: &asked,
            may,
            cluster: cluster.as_deref(),
            lease: lease.as_ref().map(|(lease, silent)| (&**lease, *silent)),
            token: match &token {
                None => Token::None,
                Some(None) => Token::Gone,
                Some(Some(secret)) => Token::Secret(secret),
            },
            registrar,
        };
        match decide(&seen) {
            Verdict::Approve(message) => {
                self.approve(&request, message).await?;
                tracing::info!(request = %key, cluster = asked.cluster, "the certificate of an agent was approved");
                Ok(Next::Forget)
            }
            Verdict::Wait { why, event, again } => {
                tracing::warn!(request = %key, %why, "the certificate of an agent was not approved");
                let news = self.told.lock().news(&key.name, event.map(|event| *event));
                news.iter().for_each(|event| self.events.record(event));
                Ok(again.map_or(Next::Forget, Next::After))
            }
        }
    }
}

impl AgentCsrApproving {
    /// Asks the authorizer of the control plane.
    async fn allowed(&self, review: &SubjectAccessReview) -> Result<bool, Failure> {
        let api: Api<SubjectAccessReview> = Api::all(self.plane.clone());
        let answer = api.create(&PostParams::default(), review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    /// Reads the Secret of the requester's bootstrap token; the outer `None` says that the requester is none.
    async fn token(&self, request: &CertificateSigningRequest) -> Result<Option<Option<Secret>>, Failure> {
        let Some(name) = token_secret(request) else { return Ok(None) };
        let api: Api<Secret> = Api::namespaced(self.plane.clone(), KUBE_SYSTEM);
        Ok(Some(api.get_opt(&name).await?))
    }

    /// The Lease of a cluster, and the time since it changed.
    fn lease(&self, cluster: &str) -> Option<(Arc<Lease>, Duration)> {
        let (lease, now) = (self.leases.get(CLUSTER, cluster)?, self.seam.clock.mono());
        let renewed = self.renewed.lock().get(cluster).copied().unwrap_or(now);
        Some((lease, now.saturating_duration_since(renewed)))
    }

    async fn approve(&self, request: &CertificateSigningRequest, message: &str) -> Result<(), Failure> {
        let conditions = approval::approved(request, message, self.seam.clock.wall_seconds());
        let mut approved = request.clone();
        approved.status.get_or_insert_default().conditions = Some(conditions);
        let api: Api<CertificateSigningRequest> = Api::all(self.plane.clone());
        self.writer.replace_subresource(&api, Some(&self.requests), "approval", &approved).await?;
        Ok(())
    }

    fn on_lease(&self, change: &Change<Lease>) {
        match (&change.old, &change.new) {
            (_, Some(new)) => {
                self.renewed.lock().insert(new.name_any(), self.seam.clock.mono());
            }
            (Some(old), None) => {
                self.renewed.lock().remove(&old.name_any());
                self.enqueue(&old.name_any());
            }
            (None, None) => {}
        }
    }

    fn on_request(&self, change: &Change<CertificateSigningRequest>) {
        if let Some(request) = change.new.as_ref().or(change.old.as_ref()) {
            self.queue.add(Key::of(&**request));
        }
    }

    fn on_cluster(&self, change: &Change<Cluster>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if let Some(cluster) = new.or(old).filter(|_| wakes::agent_csr_approving::cluster(old, new)) {
            self.enqueue(&cluster.name_any());
        }
    }

    /// Enqueues the pending requests for the agent of a cluster.
    fn enqueue(&self, cluster: &str) {
        for request in self.requests.list() {
            if is_pending(&request) && AgentRequest::of(&request).is_some_and(|asked| asked.cluster == cluster) {
                self.queue.add(Key::of(&*request));
            }
        }
    }
}
