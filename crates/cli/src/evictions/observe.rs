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

/// What the leader told, and what people asked of it.
#[derive(Debug, Clone)]
pub(super) struct Told {
    /// `None`: no leader with gate `Failover` has had anything to tell.
    pub(super) report: Option<Report>,
    /// ConfigMap `karmada-system/ironclad-failover` pauses evictions.
    pub(super) paused: bool,
}

pub(super) async fn told(client: &Client) -> anyhow::Result<Told> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespaces::SYSTEM);
    let report = api.get_opt(REPORT_CONFIG_MAP).await?.and_then(|map| Report::parse(map.data.as_ref()?));
    let pause = api.get_opt(PAUSE_CONFIG_MAP).await?;
    Ok(Told { report, paused: guards::is_paused(pause.as_ref().and_then(|map| map.data.as_ref())) })
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
