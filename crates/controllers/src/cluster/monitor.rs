//! Looks after the leases of Pull clusters, all in one pass every few seconds (failover.md 1.4).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_api::cluster::{Cluster, SyncMode};
use ironclad_failover::lease::{self, Effect, Memory, Seen};
use ironclad_fleet::{ClusterName, StatusPart};
use ironclad_runtime::{Change, Failure, Writer};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::{Context, targets::json};

/// Tries of one write in one pass.
const ATTEMPTS: usize = 5;
/// From one try to the next.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);

/// When each Pull cluster was last heard of, by the moment at which the watch told it: looks come only now and then.
#[derive(Default)]
pub(crate) struct Heard(Mutex<BTreeMap<ClusterName, Instant>>);

impl Heard {
    fn note(&self, cx: &Context, name: &str) {
        self.0.lock().insert(name.into(), cx.seam.clock.mono());
    }
}

/// An agent renewed its lease.
pub(crate) fn on_lease(cx: &Arc<Context>, change: &Change<Lease>) {
    if let Some(lease) = &change.new {
        cx.heard.note(cx, &lease.name_any());
    }
}

/// An agent reported.
pub(super) fn on_cluster(cx: &Arc<Context>, change: &Change<Cluster>) {
    match (&change.old, &change.new) {
        (_, Some(new)) if new.spec.sync_mode == SyncMode::Pull => {
            let ready = |cluster: &Cluster| cluster.ready().map(str::to_owned);
            if change.old.as_ref().is_none_or(|old| ready(old) != ready(new)) {
                cx.heard.note(cx, &new.name_any());
            }
        }
        (Some(old), None) => {
            cx.heard.0.lock().remove(&ClusterName::from(old.name_any().as_str()));
        }
        _ => {}
    }
}

pub(super) fn start(cx: &Arc<Context>) {
    let weak = Arc::downgrade(cx);
    cx.seam.tasks.spawn("cluster monitor", async move {
        let (mut began, mut memories) = (None, BTreeMap::new());
        loop {
            let Some(cx) = weak.upgrade() else { return };
            scan(&cx, &mut began, &mut memories).await;
            let (clock, period) = (cx.seam.clock.clone(), cx.settings.failover.health.monitor_period);
            drop(cx);
            clock.sleep(period).await;
        }
    });
}

async fn scan(cx: &Context, began: &mut Option<Instant>, memories: &mut BTreeMap<ClusterName, Memory>) {
    let mut before = std::mem::take(memories);
    for cluster in cx.clusters.list() {
        if cluster.spec.sync_mode != SyncMode::Pull || cluster.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let name = ClusterName::from(cluster.name_any().as_str());
        if let Some(memory) = look(cx, began, &name, before.remove(&name)).await {
            memories.insert(name, memory);
        }
    }
}

/// One cluster; if it changes while it is written it is decided anew.
async fn look(
    cx: &Context,
    began: &mut Option<Instant>,
    name: &ClusterName,
    mut memory: Option<Memory>,
) -> Option<Memory> {
    for _ in 0..ATTEMPTS {
        let cluster = cx.clusters.get("", &name.0)?;
        let lease = cx.leases.get(ironclad_api::namespaces::CLUSTER, &name.0);
        let renewed = lease.and_then(|lease| Some(lease.spec.as_ref()?.renew_time.as_ref()?.0));
        let mono = cx.seam.clock.mono();
        let began = *began.get_or_insert(mono);
        let heard = cx.heard.0.lock().get(name).map(|at| at.saturating_duration_since(began));
        let (mono, flags) = (mono - began, &cx.settings.failover.health);
        let seen = Seen { cluster: &cluster, renewed, heard, memory: memory.as_ref(), flags };
        let decision = lease::decide(&seen, cx.seam.clock.wall_seconds(), mono);
        memory = decision.memory;
        let Some(Effect::Status(part)) = decision.plan.effects.first() else { break };
        match write(cx, &cluster, part).await {
            Err(failure) if failure.is_conflict() => cx.seam.clock.sleep(BETWEEN_ATTEMPTS).await,
            Err(failure) => {
                tracing::warn!(cluster = %name, %failure, "condition Ready was not set to Unknown");
                break;
            }
            Ok(()) => {
                tracing::info!(cluster = %name, "cluster fell silent: condition Ready is Unknown");
                break;
            }
        }
    }
    memory
}

/// Over the very version that was seen: the agent may just have reported.
async fn write(cx: &Context, cluster: &Cluster, part: &StatusPart) -> Result<(), Failure> {
    let status = StatusPart::applied(&json(&cluster.status), &[part]);
    let mut patch = Value::Object(serde_json::Map::new());
    patch["conditions"] = status["conditions"].clone();
    let api: Api<Cluster> = Api::all(cx.plane.clone());
    let base = cluster.resource_version().unwrap_or_default();
    Writer::new("cluster").patch_status(&api, Some(&cx.clusters), &cluster.name_any(), &base, patch).await?;
    Ok(())
}
