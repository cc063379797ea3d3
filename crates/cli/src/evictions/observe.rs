//! Input of the verbs: the leader's answers, the pause, and the objects that decisions read.

use std::sync::Arc;

use ironclad_api::{
    cluster::Cluster,
    namespaces,
    policy::ClusterTaintPolicy,
    work::{ClusterResourceBinding, ResourceBinding},
};
use ironclad_failover::{
    Flags,
    taint_manager::{EvictionSettings, PAUSE_CONFIG_MAP, Report, Row, guards},
    taints,
};
use ironclad_fleet::{Binding, ClusterName};
use ironclad_planning::{
    Settings,
    evicted::{Objects, span},
};
use ironclad_runtime::Api;
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{Client, ResourceExt as _, api::ListParams};

use crate::{
    leader::{Listed, Unknown, ask},
    pages,
};

/// Default name of the Lease of the processes of `run`.
const LEASE: &str = "ironclad";
/// Time after the end of the Lease that is allowed for differing clocks. A leader renews the Lease every few seconds.
const LEASE_SLACK_SECONDS: i64 = 30;

/// The leader's report and the pause.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeaderReport {
    /// `None`: the leader said nothing, as `silence` says.
    pub(crate) report: Option<Report>,
    /// Its queue, with the report.
    pub(crate) rows: Vec<Row>,
    /// ConfigMap `karmada-system/ironclad-failover` pauses evictions.
    pub(crate) paused: bool,
    /// Reason why there is no report.
    pub(crate) silence: String,
    /// Reason why the leader decides on no evictions at all, if it doesn't.
    pub(crate) off: Option<&'static str>,
    /// Its settings; the defaults if they are not known.
    pub(crate) settings: Settings,
    /// Its flags of evictions, if they are known.
    pub(crate) announced: Option<EvictionSettings>,
}

impl LeaderReport {
    /// True if the leader decides on no evictions at all.
    pub(crate) fn is_off(&self) -> bool {
        self.off.is_some()
    }

    /// Flags of the leader; the defaults if they are not known.
    pub(crate) fn flags(&self) -> Flags {
        let flags = self.announced.as_ref().map(EvictionSettings::flags).unwrap_or_default();
        flags.under(&self.settings.gates, &self.settings.scheduler)
    }
}

/// Asks the leader, and reads the pause.
pub(crate) async fn leader_report(client: &Client) -> anyhow::Result<LeaderReport> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespaces::SYSTEM);
    let pause = api.get_opt(PAUSE_CONFIG_MAP).await?;
    let configuration = crate::leader::configuration(client).await.unwrap_or_default();
    let known = LeaderReport {
        paused: guards::is_paused(pause.as_ref().and_then(|map| map.data.as_ref())),
        settings: configuration.settings(),
        announced: configuration.evictions.clone(),
        ..LeaderReport::default()
    };
    if let Some(why) = configuration.evicts_nothing() {
        return Ok(LeaderReport { silence: format!("no evictions are decided: {why}"), off: Some(why), ..known });
    }
    Ok(match asked(client).await {
        Ok((report, rows)) => LeaderReport { report: Some(report), rows, ..known },
        Err(unknown) => LeaderReport { silence: format!("the leader is not asked: {}", unknown.why()), ..known },
    })
}

/// The same for verbs that can do without it: who may not read the pause still gets an answer.
pub(crate) async fn leader_report_if_readable(client: &Client) -> LeaderReport {
    leader_report(client).await.unwrap_or_else(|error| LeaderReport {
        silence: format!("the pause of evictions can't be read: {error}"),
        ..LeaderReport::default()
    })
}

/// The report and the queue of group `explain.ironclad.io`.
async fn asked(client: &Client) -> Result<(Report, Vec<Row>), Unknown> {
    let report = ask(client, "evictionrate").await?;
    Ok((report, ask::<Listed<_>>(client, "evictions").await?.items))
}

/// Waiting evictions, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct EvictionQueue {
    /// The elements, which the leader tells or which were decided from the objects.
    pub(crate) rows: Vec<Row>,
    /// Notes for the user.
    pub(crate) notes: Vec<String>,
}

/// Lists the waiting evictions: from the leader's answer, or by the decisions that a leader makes when it starts, over
/// lists of the objects.
///
/// Returns the objects, too, if they had to be listed whole.
pub(super) async fn eviction_queue(
    client: &Client,
    leader: &LeaderReport,
    now: Timestamp,
) -> anyhow::Result<(EvictionQueue, Option<Objects>)> {
    let mut queue = EvictionQueue::default();
    if leader.report.is_some() {
        queue.rows.clone_from(&leader.rows);
        return Ok((queue, None));
    }
    queue.notes.push(leader.silence.clone());
    if leader.is_off() {
        return Ok((queue, None));
    }
    queue.notes.extend(nobody_leads(client, now).await);
    let clusters = pages::all(&Api::<Cluster>::all(client.clone()), ListParams::default()).await?;
    if !clusters.iter().any(taints::is_faulty) {
        return Ok((queue, None));
    }
    let seen = objects(client, None).await?;
    queue.rows = seen.rows(leader.flags(), now);
    if !queue.rows.is_empty() {
        let flags = if leader.announced.is_some() { "its flags" } else { "feature gate Failover and default flags" };
        queue.notes.push(format!("positions and times assume a leader that starts now with {flags}"));
    }
    Ok((queue, Some(seen)))
}

/// Note that no process holds the Lease; `None` if one does, or if the Lease can't be read or has another name.
async fn nobody_leads(client: &Client, now: Timestamp) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespaces::SYSTEM);
    is_vacant(leases.get_opt(LEASE).await.ok().flatten().as_ref(), now)
}

fn is_vacant(lease: Option<&Lease>, now: Timestamp) -> Option<String> {
    let spec = lease?.spec.as_ref()?;
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let renewed = spec.renew_time.as_ref()?.0;
    let lasts = i64::from(spec.lease_duration_seconds.unwrap_or_default()) + LEASE_SLACK_SECONDS;
    if !holder.is_empty() && now.duration_since(renewed).as_secs() < lasts {
        return None;
    }
    let who = if holder.is_empty() { String::new() } else { format!(" by {holder}") };
    let since = span(renewed, now);
    Some(format!("no leader: the Lease was last renewed {since} ago{who}; nothing is evicted until a process leads"))
}

/// All clusters and policies, and the bindings of one namespace or of all.
pub(super) async fn objects(client: &Client, namespace: Option<&str>) -> anyhow::Result<Objects> {
    let all = ListParams::default;
    let clusters = pages::all(&Api::<Cluster>::all(client.clone()), all()).await?;
    let policies = pages::all(&Api::<ClusterTaintPolicy>::all(client.clone()), all()).await?;
    let namespaced: Api<ResourceBinding> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let namespaced = pages::all(&namespaced, all()).await?.into_iter().map(|b| Binding::from(Arc::new(b)));
    let cluster_wide = pages::all(&Api::<ClusterResourceBinding>::all(client.clone()), all()).await?;
    let cluster_wide = cluster_wide.into_iter().map(|b| Binding::from(Arc::new(b)));
    Ok(Objects {
        clusters: clusters.into_iter().map(|c| (ClusterName::from(c.name_any().as_str()), Arc::new(c))).collect(),
        policies: policies.into_iter().map(Arc::new).collect(),
        bindings: namespaced.chain(cluster_wide).collect(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn vacant_leases_are_detected() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let lease = |holder: &str, renewed: i64| -> Lease {
            serde_json::from_value(json!({"metadata": {"name": LEASE}, "spec": {"holderIdentity": holder,
                "leaseDurationSeconds": 15, "renewTime": format!("{}", at(renewed))}}))
            .unwrap()
        };
        for (name, lease, now, vacant) in [
            ("no Lease: another name, or no leader election", None, 1_000, false),
            ("renewed now", Some(lease("p1", 1_000)), 1_000, false),
            ("one second before the Lease counts as vacant", Some(lease("p1", 1_000)), 1_044, false),
            ("not renewed", Some(lease("p1", 1_000)), 1_045, true),
            ("released", Some(lease("", 1_000)), 1_001, true),
            ("the local clock is behind", Some(lease("p1", 1_000)), 900, false),
        ] {
            assert_eq!(is_vacant(lease.as_ref(), at(now)).is_some(), vacant, "{name}");
        }
        let said = is_vacant(Some(&lease("p1", 1_000)), at(1_065)).unwrap();
        assert!(said.starts_with("no leader: the Lease was last renewed 1m5s ago by p1; nothing is evicted"), "{said}");
    }

    #[test]
    fn flags_are_those_told_or_the_defaults() {
        let rate = |flags: &Flags| flags.eviction.resource_eviction_rate;
        let mut told = Flags::default();
        told.eviction.resource_eviction_rate = 3.0;
        let announced = Some(EvictionSettings::from(&told));
        for (name, announced, want) in [("told", announced, 3.0), ("unknown", None, rate(&Flags::default()))] {
            let leader = LeaderReport { announced, ..LeaderReport::default() };
            assert!((rate(&leader.flags()) - want).abs() < 1e-9, "{name}");
        }
    }
}
