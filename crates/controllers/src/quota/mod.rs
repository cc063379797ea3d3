//! The FederatedResourceQuota controller: writes quotas into the clusters that they are assigned to, and their usage
//! into their status (specification/propagation.md 25).

mod counts;

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::{
    names,
    policy::{FederatedResourceQuota, OverridePolicy},
    work::{ResourceBinding, Work},
};
use ironclad_fleet::{ClusterName, gates::Gate};
use ironclad_propagation::{
    new_ids::NewIds,
    quota::{self, Effect, Seen, usage},
    success,
    wakes::{
        self,
        quota::{Accounting, counts_again, records_decisions},
    },
};
use ironclad_runtime::{Api, Change, Failure, Informer, Key, Next, Queue, StatusWriter, Writer};
use ironclad_seam::Seam;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;

use self::counts::Counts;
use crate::{
    caches::{NAMESPACES, OVERRIDES, QUOTAS},
    controller::{Controller, Reconciler},
    events::Events,
    index::BY_QUOTA,
    owned::OwnedWorks,
    settings::Settings,
    setup::{Setup, on_change},
    targets::{Typed, json},
    works::WorkStatus,
};

struct QuotaController {
    seam: Seam,
    settings: Arc<Settings>,
    accounting: Accounting,
    queue: Queue<Key>,
    quotas: Informer<FederatedResourceQuota>,
    status: StatusWriter<Typed<FederatedResourceQuota>>,
    namespaces: Informer<Namespace>,
    bindings: Informer<ResourceBinding>,
    overrides: Informer<OverridePolicy>,
    works: Informer<Work>,
    work_status: WorkStatus,
    owned: OwnedWorks,
    events: Events,
    counts: Counts,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let quotas = setup.caches.take(&QUOTAS);
    let target = Typed {
        client: setup.plane.clone(),
        cache: quotas.clone(),
        writer: Writer::new("federatedResourceQuota"),
        events: setup.events.clone(),
        api: |client, namespace| Api::namespaced(client.clone(), namespace),
        status: |q: &FederatedResourceQuota| json(&q.status),
    };
    let accounting = Accounting {
        enforced: setup.settings.gates.enabled(Gate::FederatedQuotaEnforcement),
        counted: setup.settings.controllers.enabled("federatedResourceQuotaEnforcement"),
    };
    let this = Arc::new(QuotaController {
        seam: setup.seam.clone(),
        settings: setup.settings.clone(),
        accounting,
        queue: setup.queue(QuotaController::NAME),
        status: StatusWriter::start("status/quotas", &setup.seam, target),
        quotas,
        namespaces: setup.caches.take(&NAMESPACES),
        bindings: setup.bindings().namespaced.clone(),
        overrides: setup.caches.take(&OVERRIDES),
        works: setup.works(),
        work_status: setup.work_status().clone(),
        owned: OwnedWorks::new(setup, "federatedResourceQuota"),
        events: setup.events.clone(),
        counts: Counts::default(),
    });
    on_change(&this.namespaces, &this, QuotaController::on_namespace);
    on_change(&setup.works(), &this, QuotaController::on_work);
    on_change(&this.quotas, &this, QuotaController::on_quota);
    on_change(&setup.bindings().namespaced, &this, QuotaController::on_binding);
    on_change(&this.overrides, &this, QuotaController::on_override);
    this
}

impl Reconciler for QuotaController {
    type Key = Key;
    const NAME: &'static str = "federatedResourceQuota";
    /// Quotas that are reconciled at once.
    const WORKERS: usize = 1;
    const HAS_APPOINTMENTS: bool = true;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let quota = self.quotas.get_key(key);
        let mut stored = self.works.by_index(BY_QUOTA, &key.to_string());
        for work in quota.iter().flat_map(|quota| quota::work_keys(quota)) {
            let found = self.works.get(&names::execution_namespace(&work.cluster.0), &work.name);
            stored.extend(found.filter(|found| !stored.iter().any(|one| one.metadata.uid == found.metadata.uid)));
        }
        let works: Vec<Arc<Work>> = stored.iter().map(|work| self.work_status.as_requested(work)).collect();
        let has_space =
            |cluster: &ClusterName| self.namespaces.get("", &names::execution_namespace(&cluster.0)).is_some();
        let assigned = quota.iter().flat_map(|quota| &quota.spec.static_assignments);
        let clusters: BTreeSet<ClusterName> =
            assigned.map(|assignment| ClusterName::from(assignment.cluster_name.as_str())).filter(has_space).collect();
        let counted = quota.as_deref().filter(|_| self.accounting.counts()).map(|quota| {
            let bindings = self.bindings.namespace(&key.namespace);
            let overrides = self.overrides.namespace(&key.namespace);
            let records = usage::Records::of(overrides.iter().map(|policy| &**policy));
            let specs: Vec<_> = bindings.iter().map(|binding| records.applied(&binding.spec)).collect();
            let taken = usage::counted(&quota.spec.overall, specs.iter().map(|spec| &**spec));
            let steady = self.counts.steady(key, (&taken, quota::booked(quota)), self.seam.clock.mono());
            (taken, steady)
        });
        let seen = Seen {
            namespace: &key.namespace,
            name: &key.name,
            quota: quota.as_deref(),
            works: &works,
            clusters: &clusters,
            overall: self.accounting.overall(counted.as_ref().map(|(taken, steady)| (taken, *steady))),
        };
        let ids = NewIds::from(self.seam.rng.uuid());
        let plan = quota::decide(&seen, ids);
        let period = self.settings.propagation.quota_sync_period;
        let mut next = if counted.is_some() { Next::After(period) } else { Next::Forget };
        if quota.is_none() {
            self.counts.forget(key);
        }
        let of_quota = || quota.iter().flat_map(|quota| success::of_quota(quota, &plan.effects)).collect();
        let successes = self.events.successes(of_quota);
        for effect in plan.effects {
            match effect {
                Effect::Work(write) => self.owned.send(&stored, write).await?,
                Effect::Status(part) => {
                    let uid = quota.as_ref().and_then(|quota| quota.uid()).unwrap_or_default();
                    self.status.request(key, &uid, "federatedResourceQuota", part, false);
                }
                Effect::CountAgain(wait) | Effect::RequeueAfter(wait) => next = Next::After(wait),
                Effect::Event(event) => self.events.record(&event),
            }
        }
        self.events.record_all(&successes);
        Ok(next)
    }

    fn is_quiet_beside(&self) -> bool {
        self.status.is_quiet()
    }
}

impl QuotaController {
    fn on_binding(&self, change: &Change<ResourceBinding>) {
        if counts_again(change.old.as_deref(), change.new.as_deref())
            && let Some(binding) = change.new.as_ref().or(change.old.as_ref())
        {
            self.count_later(&binding.namespace().unwrap_or_default());
        }
    }

    /// Members decided for other replicas.
    fn on_override(&self, change: &Change<OverridePolicy>) {
        if records_decisions(change.old.as_deref(), change.new.as_deref())
            && let Some(policy) = change.new.as_ref().or(change.old.as_ref())
        {
            self.count_later(&policy.namespace().unwrap_or_default());
        }
    }

    /// Counts the usage of a namespace after a while, so that many changes together are one count.
    fn count_later(&self, namespace: &str) {
        if self.accounting.counts() {
            for quota in self.quotas.namespace(namespace) {
                self.queue.add_after(Key::of(&*quota), quota::COUNT_SETTLES);
            }
        }
    }

    fn on_quota(&self, change: &Change<FederatedResourceQuota>) {
        if self.accounting.quota(change.old.as_deref(), change.new.as_deref())
            && let Some(quota) = change.new.as_ref().or(change.old.as_ref())
        {
            self.queue.add(Key::of(&**quota));
        }
    }

    fn on_work(&self, change: &Change<Work>) {
        for work in [&change.old, &change.new].into_iter().flatten() {
            for value in quota::of_work(work) {
                if let Some((namespace, name)) = value.split_once('/') {
                    self.queue.add(Key::new(namespace, name));
                }
            }
        }
    }

    /// A new execution space can have the quotas that are assigned to its cluster.
    fn on_namespace(&self, change: &Change<Namespace>) {
        let (old, new) = (change.old.as_ref().map(|old| &old.metadata), change.new.as_ref().map(|new| &new.metadata));
        let Some(cluster) = wakes::changes::new_space(old, new) else { return };
        for quota in self.quotas.list() {
            if wakes::quota::new_space(&quota, cluster) {
                self.queue.add(Key::of(&*quota));
            }
        }
    }
}
