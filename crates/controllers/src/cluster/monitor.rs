//! Monitor of the leases of Pull clusters: one scan of all clusters every few seconds (specification/failover.md 1.4).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_api::{cluster::Cluster, namespaces};
use ironclad_failover::{
    cluster::{
        lease::{self, Effect, Memory, Seen},
        report::AgentReport,
    },
    wakes,
};
use ironclad_fleet::{ClusterName, StatusPart};
use ironclad_runtime::{Api, Change, Failure, Informer, Writer};
use ironclad_seam::Seam;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Client, ResourceExt as _};
use serde_json::Value;
use tokio::time::Instant;

use super::leases::LastRenewals;
use crate::{
    caches::LEASES,
    settings::Settings,
    setup::{Setup, on_change},
    targets::json,
};

/// Attempts of one write in one scan.
const ATTEMPTS: usize = 5;
/// Time from one attempt to the next.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);

pub(super) struct Monitor {
    seam: Seam,
    settings: Arc<Settings>,
    plane: Client,
    writer: Writer,
    clusters: Informer<Cluster>,
    leases: Informer<Lease>,
    renewals: LastRenewals,
}

impl Monitor {
    pub(super) fn new(setup: &Setup) -> Arc<Self> {
        let this = Arc::new(Self {
            seam: setup.seam.clone(),
            settings: setup.settings.clone(),
            plane: setup.plane.clone(),
            writer: Writer::new("cluster"),
            clusters: setup.clusters().clone(),
            leases: setup.caches.take(&LEASES),
            renewals: LastRenewals::new(setup.seam.clock.clone()),
        });
        on_change(&this.leases, &this, Self::on_lease);
        on_change(setup.clusters(), &this, Self::on_cluster);
        this
    }

    pub(super) fn start(self: &Arc<Self>) {
        let this = self.clone();
        self.seam.tasks.supervise(&self.seam.clock, "cluster monitor", move || {
            let this = this.clone();
            async move {
                let (mut began, mut memories) = (None, BTreeMap::new());
                loop {
                    this.scan(&mut began, &mut memories).await;
                    this.seam.clock.sleep(this.settings.failover.health.monitor_period).await;
                }
            }
        });
    }

    fn on_lease(&self, change: &Change<Lease>) {
        if let Some(lease) = &change.new {
            self.renewals.note(&lease.name_any());
        }
    }

    fn on_cluster(&self, change: &Change<Cluster>) {
        match (change.old.as_deref(), change.new.as_deref()) {
            (old, Some(new)) if wakes::cluster::renews(old, new) => self.renewals.note(&new.name_any()),
            (Some(old), None) => self.renewals.forget(&old.name_any()),
            _ => {}
        }
    }

    async fn scan(&self, began: &mut Option<Instant>, memories: &mut BTreeMap<ClusterName, Memory>) {
        let mut before = std::mem::take(memories);
        for cluster in self.clusters.list() {
            if cluster.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let name = ClusterName::from(cluster.name_any().as_str());
            if let Some(memory) = self.check(began, &name, before.remove(&name)).await {
                memories.insert(name, memory);
            }
        }
    }

    /// Checks one cluster. If it changes while it is written, it is decided on again.
    async fn check(
        &self,
        began: &mut Option<Instant>,
        name: &ClusterName,
        mut memory: Option<Memory>,
    ) -> Option<Memory> {
        for _ in 0..ATTEMPTS {
            let cluster = self.clusters.get("", &name.0)?;
            let lease = self.leases.get(namespaces::CLUSTER, &name.0);
            let annotations = lease.as_ref().and_then(|lease| lease.metadata.annotations.as_ref());
            let report = annotations.map(AgentReport::of).unwrap_or_default();
            let renewed = lease.and_then(|lease| Some(lease.spec.as_ref()?.renew_time.as_ref()?.0));
            let mono = self.seam.clock.mono();
            let began = *began.get_or_insert(mono);
            let heard = self.renewals.get(name).map(|at| at.saturating_duration_since(began));
            let (mono, flags) = (mono - began, &self.settings.failover.health);
            let seen = Seen { cluster: &cluster, renewed, report: &report, heard, memory: memory.as_ref(), flags };
            let decision = lease::decide(&seen, self.seam.clock.wall_seconds(), mono);
            memory = decision.memory;
            let Some(Effect::Status(part)) = decision.plan.effects.first() else { break };
            let because = || decision.plan.because.first().map(tracing::field::display);
            match self.write(&cluster, part).await {
                Err(failure) if failure.is_conflict() => self.seam.clock.sleep(BETWEEN_ATTEMPTS).await,
                Err(failure) => {
                    tracing::warn!(cluster = %name, %failure, because = because(), "its status was not written");
                    break;
                }
                Ok(()) => {
                    tracing::info!(cluster = %name, because = because(), "its status was written");
                    break;
                }
            }
        }
        memory
    }

    /// Writes over the very version that was seen: the agent may just have reported.
    async fn write(&self, cluster: &Cluster, part: &StatusPart) -> Result<(), Failure> {
        let status = StatusPart::applied(&json(&cluster.status), &[part]);
        let mut patch = Value::Object(serde_json::Map::new());
        patch["conditions"] = status["conditions"].clone();
        let api: Api<Cluster> = Api::all(self.plane.clone());
        let base = cluster.resource_version().unwrap_or_default();
        self.writer.patch_status(&api, Some(&self.clusters), &cluster.name_any(), &base, patch).await?;
        Ok(())
    }
}
