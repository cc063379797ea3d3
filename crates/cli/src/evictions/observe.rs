//! What the verbs look at: the leader's report, whether evictions are paused, and the objects that decisions read.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{
    cluster::Cluster,
    namespaces,
    policy::ClusterTaintPolicy,
    work::{ClusterResourceBinding, ResourceBinding},
};
use ironclad_failover::{
    Bound, Clusters, Evictions, Flags, Now,
    eviction::{PAUSE_CONFIG_MAP, REPORT_CONFIG_MAP, Report},
    guards, taint_policy,
};
use ironclad_fleet::ClusterName;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use serde_json::Value;

/// What the leader told, and what people asked of it.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    /// `None`: the leader said nothing, as `silence` says.
    pub(crate) report: Option<Report>,
    /// Where the report is from.
    pub(crate) source: Source,
    /// ConfigMap `karmada-system/ironclad-failover` pauses evictions.
    pub(crate) paused: bool,
    /// Why there is no report, or what nobody can know.
    pub(crate) silence: String,
}

/// Where a report is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The leader itself, asked now: group `explain.ironclad.io`.
    Leader,
    /// The ConfigMap in which it reports every ten seconds while something is wrong.
    ConfigMap,
}

/// What is said of a leader that says nothing.
pub(super) const SILENT: &str = "no leader told of its queue: it has had no faulty cluster, or gate Failover is off";

/// Asks the leader, and where nobody passes the question on, reads what it reported.
pub(crate) async fn told(client: &Client) -> anyhow::Result<Told> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespaces::SYSTEM);
    let pause = api.get_opt(PAUSE_CONFIG_MAP).await?;
    let paused = guards::is_paused(pause.as_ref().and_then(|map| map.data.as_ref()));
    let silence = match asked(client).await {
        Ok(report) => {
            return Ok(Told { report: Some(report), source: Source::Leader, paused, silence: String::new() });
        }
        // The leader is there and says why it has nothing to tell.
        Err(Some(why)) => why,
        Err(None) => SILENT.to_owned(),
    };
    let report = api.get_opt(REPORT_CONFIG_MAP).await?.and_then(|map| Report::parse(map.data.as_ref()?));
    Ok(Told { report, source: Source::ConfigMap, paused, silence })
}

/// The report of group `explain.ironclad.io`, whole.
///
/// # Errors
/// Why there is none, if the leader itself says so; nothing if nobody serves the group or this user may not read it.
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

/// The objects that decisions on evictions read.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) clusters: Clusters,
    pub(super) policies: Vec<Arc<ClusterTaintPolicy>>,
    pub(super) bindings: Vec<Bound>,
}

/// All clusters and policies, and the bindings of one namespace or of all.
pub(super) async fn objects(client: &Client, namespace: Option<&str>) -> anyhow::Result<Objects> {
    let all = ListParams::default();
    let clusters = Api::<Cluster>::all(client.clone()).list(&all).await?.items;
    let policies = Api::<ClusterTaintPolicy>::all(client.clone()).list(&all).await?.items;
    let namespaced: Api<ResourceBinding> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let namespaced = namespaced.list(&all).await?.items.into_iter().map(|b| Bound::from(Arc::new(b)));
    let cluster_wide = Api::<ClusterResourceBinding>::all(client.clone()).list(&all).await?.items;
    let cluster_wide = cluster_wide.into_iter().map(|b| Bound::from(Arc::new(b)));
    Ok(Objects {
        clusters: clusters.into_iter().map(|c| (ClusterName::from(c.name_any().as_str()), Arc::new(c))).collect(),
        policies: policies.into_iter().map(Arc::new).collect(),
        bindings: namespaced.chain(cluster_wide).collect(),
    })
}

impl Objects {
    /// The decisions as a leader that starts now would come to them, with the modes that the present one reported.
    pub(super) fn decisions(&self, report: Option<&Report>, wall: Timestamp) -> Evictions {
        let mut flags = Flags::default();
        if let Some(report) = report {
            flags.eviction.pre_scheduling_check.clone_from(&report.check);
            flags.eviction.failover_mode.clone_from(&report.mode);
        }
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
    use ironclad_failover::eviction::Waiting;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_out_of_its_parts() {
        let now = Now { wall: Timestamp::UNIX_EPOCH, mono: std::time::Duration::ZERO };
        let mut rate = json!(Evictions::new(Flags::default(), now).report(now));
        rate.as_object_mut().unwrap().remove("rows");
        rate["kind"] = "EvictionRate".into();
        let row = json!({ "binding": { "namespace": "shop", "name": "web" }, "resource": "r", "cluster": "m1",
            "state": "Parked", "position": null, "since": null, "due": "1970-01-01T00:00:00Z", "causes": [],
            "purgeMode": "Directly", "expected": null, "attempts": 3 });
        let report = whole(rate.clone(), &json!({ "items": [row] })).unwrap();
        assert_eq!((report.rows.len(), report.rows[0].state, report.state.as_str()), (1, Waiting::Parked, "held"));
        assert_eq!(whole(rate, &json!({})), None, "half of it is nothing");
    }
}
