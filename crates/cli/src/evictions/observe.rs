//! Input of the verbs: the leader's report, the pause, and the objects that decisions read.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{
    cluster::Cluster,
    namespaces,
    policy::ClusterTaintPolicy,
    work::{ClusterResourceBinding, ResourceBinding},
};
use ironclad_failover::{
    Evictions, Flags, Now,
    taint_manager::guards,
    taint_manager::{EvictionSettings, PAUSE_CONFIG_MAP, REPORT_CONFIG_MAP, Report, Row},
    taint_policy, taints,
};
use ironclad_fleet::{Binding, BindingKey, ClusterName, Clusters, World};
use ironclad_planning::{Fleet, Settings};
use ironclad_runtime::Api;
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{Client, ResourceExt as _, api::ListParams};
use serde_json::Value;

use super::show::span;
use crate::pages;

/// Default name of the Lease of the processes of `run`.
const LEASE: &str = "ironclad";
/// Time after the end of the Lease that is allowed for differing clocks. A leader renews the Lease every few seconds.
const LEASE_SLACK_SECONDS: i64 = 30;

/// The leader's report and the pause.
#[derive(Debug, Clone)]
pub(crate) struct LeaderReport {
    /// `None`: the leader said nothing, as `silence` says.
    pub(crate) report: Option<Report>,
    /// Source of the report.
    pub(crate) source: Source,
    /// ConfigMap `karmada-system/ironclad-failover` pauses evictions.
    pub(crate) paused: bool,
    /// Reason why there is no report, or which values are unknown.
    pub(crate) silence: String,
    /// The leader decides on no evictions at all, as `silence` says.
    pub(crate) is_off: bool,
    /// Its settings; the defaults if it announces none.
    pub(crate) settings: Settings,
    /// Its flags of evictions, if it announces them without a report.
    pub(crate) announced: Option<EvictionSettings>,
}

impl LeaderReport {
    /// Flags of the leader; the defaults if it announces none.
    pub(crate) fn flags(&self) -> Flags {
        let reported = self.report.as_ref().map(Report::flags);
        let flags = reported.or_else(|| self.announced.as_ref().map(EvictionSettings::flags)).unwrap_or_default();
        Flags { scheduler: self.settings.scheduler.clone(), ..flags }
    }

    /// True if the report has a row for everything that waits.
    pub(crate) fn is_whole(&self) -> bool {
        self.report.as_ref().is_some_and(|report| self.source == Source::Leader || !report.is_cut())
    }
}

/// Source of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The leader itself, asked now: group `explain.ironclad.io`.
    Leader,
    /// The ConfigMap in which it reports every ten seconds while something is wrong.
    ConfigMap,
}

/// Printed when there is no report.
pub(super) const SILENT: &str = "no leader reports its queue: it has had no faulty cluster for ten seconds, no process leads, or feature gate Failover is off";

/// Printed when the leader announced that it decides on no evictions.
const OFF: &str = "no evictions are decided: feature gate Failover is off, or controller taint-manager is";

/// Asks the leader; if the group is not served, reads its last report.
pub(crate) async fn leader_report(client: &Client) -> anyhow::Result<LeaderReport> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespaces::SYSTEM);
    let pause = api.get_opt(PAUSE_CONFIG_MAP).await?;
    let paused = guards::is_paused(pause.as_ref().and_then(|map| map.data.as_ref()));
    let configuration = crate::leader::configuration(client).await.unwrap_or_default();
    let (settings, announced) = (configuration.settings(), configuration.evictions.clone());
    let unknown = LeaderReport {
        report: None,
        source: Source::Leader,
        paused,
        silence: String::new(),
        is_off: false,
        settings,
        announced,
    };
    match asked(client).await {
        Ok(report) => return Ok(LeaderReport { report: Some(report), ..unknown }),
        // A report that it wrote before it was switched off says nothing about now.
        Err(Some(why)) => return Ok(LeaderReport { silence: why, is_off: true, ..unknown }),
        Err(None) if configuration.evicts_nothing() => {
            return Ok(LeaderReport { silence: OFF.to_owned(), is_off: true, ..unknown });
        }
        Err(None) => {}
    }
    let report = api.get_opt(REPORT_CONFIG_MAP).await?.and_then(|map| Report::parse(map.data.as_ref()?));
    Ok(LeaderReport { report, source: Source::ConfigMap, silence: SILENT.to_owned(), ..unknown })
}

/// The same for verbs that can do without it: who may not read the report still gets an answer.
pub(crate) async fn leader_report_if_readable(client: &Client) -> LeaderReport {
    leader_report(client).await.unwrap_or_else(|error| LeaderReport {
        report: None,
        source: Source::ConfigMap,
        paused: false,
        silence: format!("the report of the leader can't be read: {error}"),
        is_off: false,
        settings: Settings::default(),
        announced: None,
    })
}

/// The report of group `explain.ironclad.io`, whole.
///
/// # Errors
/// Reason given by the leader if it has no report; `None` if the group is not served or the user may not read it.
async fn asked(client: &Client) -> Result<Report, Option<String>> {
    let read = async |what: &str| {
        let path = format!("/apis/explain.ironclad.io/v1alpha1/{what}");
        let request = http::Request::get(path).body(Vec::new()).map_err(|_| None)?;
        match client.request::<Value>(request).await {
            Ok(value) => Ok(value),
            Err(kube::Error::Api(status))
                if status.code == 503 && status.message.contains("no evictions are decided") =>
            {
                Err(Some(status.message.clone()))
            }
            Err(_) => Err(None),
        }
    };
    let (rate, evictions) = (read("evictionrate").await?, read("evictions").await?);
    whole(rate, &evictions).ok_or(None)
}

/// A report out of its two parts.
fn whole(mut rate: Value, evictions: &Value) -> Option<Report> {
    rate.as_object_mut()?.insert("rows".to_owned(), evictions.get("items")?.clone());
    serde_json::from_value(rate).ok()
}

/// Waiting evictions, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct EvictionQueue {
    /// Rows that the leader reports.
    pub(super) reported: Vec<Row>,
    /// Rows decided from the objects, where no leader reports them.
    pub(super) rebuilt: Vec<Row>,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
}

/// Lists the waiting evictions: from the leader's answer, or from its report; and where that is missing or cut, by the
/// decisions that a leader makes when it starts, over lists of the objects.
///
/// Returns the objects, too, if they had to be listed whole.
pub(super) async fn eviction_queue(
    client: &Client,
    leader: &LeaderReport,
    now: Timestamp,
) -> anyhow::Result<(EvictionQueue, Option<Objects>)> {
    let mut queue = EvictionQueue::default();
    if let Some(report) = &leader.report {
        queue.reported.clone_from(&report.rows);
        if leader.source == Source::Leader {
            return Ok((queue, None));
        }
        queue
            .notes
            .push(format!("reported {} ago by the leader, which reports every ten seconds", span(report.at, now)));
        if let Some(note) = nobody_leads(client, Some(report.at), now).await {
            queue.notes.push(note);
            queue.reported.iter_mut().for_each(|row| row.expected = None);
        }
        if !report.is_cut() {
            return Ok((queue, None));
        }
        let seen = objects(client, None).await?;
        queue.rebuilt = report.rest(seen.rows(leader.flags(), now));
        queue.notes.push(format!(
            "it reports the first {}; the other {} were computed from the objects",
            queue.reported.len(),
            queue.rebuilt.len()
        ));
        return Ok((queue, Some(seen)));
    }
    queue.notes.push(leader.silence.clone());
    if leader.is_off {
        return Ok((queue, None));
    }
    queue.notes.extend(nobody_leads(client, None, now).await);
    let clusters = pages::all(&Api::<Cluster>::all(client.clone()), ListParams::default()).await?;
    if !clusters.iter().any(taints::is_faulty) {
        return Ok((queue, None));
    }
    let seen = objects(client, None).await?;
    queue.rebuilt = seen.rows(leader.flags(), now);
    if !queue.rebuilt.is_empty() {
        let flags = if leader.announced.is_some() { "its flags" } else { "feature gate Failover and default flags" };
        queue.notes.push(format!("positions and times assume a leader that starts now with {flags}"));
    }
    Ok((queue, Some(seen)))
}

/// Note that no process holds the Lease; `None` if one does, or if the Lease can't be read or has another name.
async fn nobody_leads(client: &Client, last_report: Option<Timestamp>, now: Timestamp) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespaces::SYSTEM);
    is_vacant(leases.get_opt(LEASE).await.ok().flatten().as_ref(), last_report, now)
}

/// A leader that reports (last at `last_report`) after the end of the Lease works without election.
fn is_vacant(lease: Option<&Lease>, last_report: Option<Timestamp>, now: Timestamp) -> Option<String> {
    let spec = lease?.spec.as_ref()?;
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let renewed = spec.renew_time.as_ref()?.0;
    let lasts = i64::from(spec.lease_duration_seconds.unwrap_or_default()) + LEASE_SLACK_SECONDS;
    let ago = |at: Timestamp| at.duration_since(renewed).as_secs();
    if (!holder.is_empty() && ago(now) < lasts) || last_report.is_some_and(|last_report| ago(last_report) >= lasts) {
        return None;
    }
    let who = if holder.is_empty() { String::new() } else { format!(" by {holder}") };
    let since = span(renewed, now);
    Some(format!("no leader: the Lease was last renewed {since} ago{who}; nothing is evicted until a process leads"))
}

/// The objects that decisions on evictions read.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) clusters: Clusters,
    pub(super) policies: Vec<Arc<ClusterTaintPolicy>>,
    pub(super) bindings: Vec<Binding>,
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

impl Objects {
    /// Without the bindings of other namespaces.
    pub(super) fn of(mut self, namespace: Option<&str>) -> Self {
        let is_in =
            |b: &Binding| b.metadata().namespace.as_deref().is_none_or(|own| namespace.is_none_or(|n| n == own));
        self.bindings.retain(is_in);
        self
    }

    /// The fleet of these objects, for a leader with these settings.
    pub(super) fn fleet(&self, settings: &Settings) -> Fleet {
        let namespaced = self.bindings.iter().filter_map(|binding| match binding {
            Binding::Namespaced(one) => Some((binding.key(), one.clone())),
            Binding::Cluster(_) => None,
        });
        let world = World { clusters: self.clusters.clone(), bindings: namespaced.collect(), ..World::default() };
        Fleet { world, settings: settings.clone(), ..Fleet::default() }
    }

    /// Waiting evictions, decided from these objects, which must be those of all namespaces.
    pub(super) fn rows(&self, flags: Flags, wall: Timestamp) -> Vec<Row> {
        let bindings: BTreeMap<BindingKey, Binding> = self.bindings.iter().map(|b| (b.key(), b.clone())).collect();
        let now = Now { wall, mono: std::time::Duration::ZERO };
        self.decisions(flags, wall).rows_from_objects(&bindings, &self.clusters, now)
    }

    /// The decisions as a leader that starts now with these flags would come to them.
    pub(super) fn decisions(&self, flags: Flags, wall: Timestamp) -> Evictions {
        let now = Now { wall, mono: std::time::Duration::ZERO };
        let mut evictions = Evictions::new(flags, now);
        let mut faulty = BTreeMap::new();
        for (name, cluster) in &self.clusters {
            let recovering = taint_policy::is_recovering(cluster, &self.policies).into();
            if evictions.cluster(name, Some(cluster), recovering, now) {
                faulty.insert(name.clone(), ());
            }
        }
        let on = |name: &ClusterName| {
            let name = name.clone();
            let here = self.bindings.iter().filter(move |b| b.spec().target(&name.0).is_some());
            here.cloned().collect::<Vec<_>>()
        };
        let found: Vec<_> =
            faulty.keys().flat_map(|name| on(name).into_iter().map(|binding| (name.clone(), binding))).collect();
        evictions.evaluate(found, now);
        evictions
    }
}

#[cfg(test)]
mod tests {
    use ironclad_failover::taint_manager::Waiting;
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
        for (name, lease, last_report, now, vacant) in [
            ("no Lease: another name, or no leader election", None, None, 1_000, false),
            ("renewed now", Some(lease("p1", 1_000)), None, 1_000, false),
            ("one second before the Lease counts as vacant", Some(lease("p1", 1_000)), None, 1_044, false),
            ("not renewed", Some(lease("p1", 1_000)), Some(999), 1_045, true),
            ("released", Some(lease("", 1_000)), Some(999), 1_001, true),
            ("the local clock is behind", Some(lease("p1", 1_000)), None, 900, false),
            (
                "left by a leader; the process that reports now runs without leader election",
                Some(lease("p1", 1_000)),
                Some(1_045),
                2_000,
                false,
            ),
        ] {
            assert_eq!(is_vacant(lease.as_ref(), last_report.map(at), at(now)).is_some(), vacant, "{name}");
        }
        let said = is_vacant(Some(&lease("p1", 1_000)), None, at(1_065)).unwrap();
        assert!(said.starts_with("no leader: the Lease was last renewed 1m5s ago by p1; nothing is evicted"), "{said}");
    }

    #[test]
    fn flags_are_those_reported_or_those_told_or_the_defaults() {
        let rate = |flags: &Flags| flags.eviction.resource_eviction_rate;
        let of = |rate: f64| {
            let mut flags = Flags::default();
            flags.eviction.resource_eviction_rate = rate;
            flags
        };
        let now = Now { wall: Timestamp::UNIX_EPOCH, mono: std::time::Duration::ZERO };
        let report = Some(Evictions::new(of(7.0), now).report(now));
        let announced = Some(EvictionSettings::from(&of(3.0)));
        for (name, report, announced, want) in [
            ("reported", report, announced.clone(), 7.0),
            ("announced", None, announced, 3.0),
            ("unknown", None, None, rate(&Flags::default())),
        ] {
            let leader = LeaderReport {
                report,
                source: Source::ConfigMap,
                paused: false,
                silence: String::new(),
                is_off: false,
                settings: Settings::default(),
                announced,
            };
            assert!((rate(&leader.flags()) - want).abs() < 1e-9, "{name}");
        }
    }

    #[test]
    fn report_is_assembled_from_two_responses() {
        let now = Now { wall: Timestamp::UNIX_EPOCH, mono: std::time::Duration::ZERO };
        let mut rate = json!(Evictions::new(Flags::default(), now).report(now));
        rate.as_object_mut().unwrap().remove("rows");
        rate["kind"] = "EvictionRate".into();
        let row = json!({ "binding": { "namespace": "shop", "name": "web" }, "resource": "r", "cluster": "m1",
            "state": "Parked", "position": null, "since": null, "due": "1970-01-01T00:00:00Z", "causes": [],
            "purgeMode": "Directly", "expected": null, "attempts": 3 });
        let report = whole(rate.clone(), &json!({ "items": [row] })).unwrap();
        assert_eq!((report.rows.len(), report.rows[0].state, report.state.as_str()), (1, Waiting::Parked, "held"));
        assert_eq!(whole(rate, &json!({})), None, "one response alone is no report");
    }
}
