//! `ironclad why mcs/NAME` and `why cluster/NAME`: endpoints of services over clusters, and the actions that Remedies
//! ask (specification/mcs.md 2.4, specification/remedy.md).

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context as _, bail};
use ironclad_api::{StringMap, cluster::Cluster, labels, networking::MultiClusterService, remedy::Remedy, work::Work};
use ironclad_failover::remedy;
use ironclad_fleet::{ClusterName, Clusters};
use ironclad_propagation::services::{
    Options, ServiceKey,
    dispatch::{self, Seen},
    explain::{Explanation, explain},
};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::{Client, ResourceExt as _, api::ListParams};
use serde_json::{Value, json};

use super::About;
use crate::{connect::Plane, print as output, report::Misused};

const SERVICES: [&str; 4] =
    ["mcs", "multiclusterservice", "multiclusterservices", "multiclusterservices.networking.karmada.io"];
const CLUSTERS: [&str; 3] = ["cluster", "clusters", "clusters.cluster.karmada.io"];

/// An object that is no template and can be explained all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A MultiClusterService.
    Service(String),
    /// A Cluster.
    Cluster(String),
}

/// The question, if it is about one of these kinds.
pub(crate) fn asked(resource: &[String]) -> Option<Asked> {
    let (kind, name) = match resource {
        [one] => one.split_once('/')?,
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => return None,
    };
    let kind = kind.to_ascii_lowercase();
    if SERVICES.contains(&kind.as_str()) {
        return Some(Asked::Service(name.to_owned()));
    }
    CLUSTERS.contains(&kind.as_str()).then(|| Asked::Cluster(name.to_owned()))
}

/// Answers it.
///
/// # Errors
/// If the object does not exist, or the control plane does not answer.
pub(super) async fn run(asked: &Asked, about: &About, plane: &Plane, clock: &Clock) -> anyhow::Result<()> {
    if about.filename.is_some() {
        return Err(Misused(
            "clusters and MultiClusterServices are not explained from a dump\n  try: without --filename".into(),
        )
        .into());
    }
    let client = plane.client().await?;
    let (object, lines) = match asked {
        Asked::Service(name) => {
            let namespace = about.namespace.as_deref().unwrap_or(client.default_namespace());
            service(&client, &ServiceKey::new(namespace, name), clock).await?
        }
        Asked::Cluster(name) => cluster(&client, name).await?,
    };
    if about.output.is_objects() {
        return output::out(&output::objects(about.output, &[object])?);
    }
    output::out(&(lines.join("\n") + "\n"))
}

async fn service(client: &Client, key: &ServiceKey, clock: &Clock) -> anyhow::Result<(Value, Vec<String>)> {
    let (_, explanation) = look(client, key, clock).await?;
    Ok((json!(explanation), explanation.lines()))
}

/// A MultiClusterService with its explanation.
///
/// # Errors
/// If it does not exist, or the control plane does not answer.
pub(crate) async fn look(
    client: &Client,
    key: &ServiceKey,
    clock: &Clock,
) -> anyhow::Result<(MultiClusterService, Explanation)> {
    let all: Api<MultiClusterService> = Api::namespaced(client.clone(), &key.namespace);
    let Some(mcs) = all.get_opt(&key.name).await? else {
        bail!("there is no MultiClusterService {key}\n  try: ironclad get mcs -n {}", key.namespace);
    };
    let selector = format!(
        "{}={},{}={}",
        labels::MULTI_CLUSTER_SERVICE_NAMESPACE,
        key.namespace,
        labels::MULTI_CLUSTER_SERVICE_NAME,
        key.name
    );
    let works: Api<Work> = Api::all(client.clone());
    let of_service =
        crate::pages::all(&works, ListParams::default().labels(&selector)).await.context("listing Works")?;
    let clusters: Api<Cluster> = Api::all(client.clone());
    let list = crate::pages::all(&clusters, ListParams::default()).await.context("listing clusters")?;
    let clusters: Clusters =
        list.into_iter().map(|cluster| (cluster.name_any().as_str().into(), Arc::new(cluster))).collect();
    let of_service: Vec<Arc<Work>> = of_service.into_iter().map(Arc::new).collect();
    output::note(ASSUMED);
    let near = &mut None;
    let explanation = explained(client, (key, &mcs), &clusters, &of_service, near, clock.wall_seconds()).await?;
    Ok((mcs, explanation))
}

/// Told with every explanation of a MultiClusterService.
pub(crate) const ASSUMED: &str =
    "not known here: the flags of services over clusters that the leader runs with; the defaults are assumed";

/// Explains a MultiClusterService with the Works that belong to it. All Works of the fleet are listed into `near` if
/// one of its providers is not ready: they say where its backends are.
///
/// # Errors
/// If the control plane does not answer.
pub(crate) async fn explained(
    client: &Client,
    (key, mcs): (&ServiceKey, &MultiClusterService),
    clusters: &Clusters,
    of_service: &[Arc<Work>],
    near: &mut Option<Vec<Work>>,
    now: Timestamp,
) -> anyhow::Result<Explanation> {
    let unready = dispatch::unready_reporters(of_service, clusters);
    let mut evicted = BTreeSet::<ClusterName>::new();
    if !unready.is_empty() {
        let services: Api<Service> = Api::namespaced(client.clone(), &key.namespace);
        let selector = services.get_opt(&key.name).await?.and_then(|service| service.spec?.selector);
        let selector: StringMap = selector.unwrap_or_default();
        if near.is_none() {
            let works: Api<Work> = Api::all(client.clone());
            *near = Some(crate::pages::all(&works, ListParams::default()).await.context("listing Works")?);
        }
        evicted = dispatch::evicted(unready, &key.namespace, &selector, near.iter().flatten());
    }
    let options = Options::default();
    let seen = Seen { key, mcs: Some(mcs), clusters, works: of_service, evicted: &evicted, options, now };
    explain(&seen).context("it was read just now")
}

async fn cluster(client: &Client, name: &str) -> anyhow::Result<(Value, Vec<String>)> {
    let clusters: Api<Cluster> = Api::all(client.clone());
    let Some(cluster) = clusters.get_opt(name).await? else {
        bail!("there is no cluster {name}\n  try: ironclad get clusters");
    };
    let remedies: Api<Remedy> = Api::all(client.clone());
    let list = crate::pages::all(&remedies, ListParams::default()).await.context("listing Remedies")?;
    let remedies: Vec<Arc<Remedy>> = list.into_iter().map(Arc::new).collect();
    let asked = remedy::asked(&cluster, &remedies);
    let present = cluster.status.as_ref().map(|status| status.remedy_actions.clone()).unwrap_or_default();
    let mut lines = vec![format!("Cluster {name}")];
    lines.push(if present.is_empty() {
        "  no remedy actions".to_owned()
    } else {
        format!("  remedy actions: {}", present.join(", "))
    });
    lines.extend((!asked.is_empty()).then(|| format!("  {}", remedy::explained(&asked))));
    Ok((json!({"cluster": name, "remedyActions": present, "asked": asked}), lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_and_services_are_told_from_templates() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (text, want) in [
            ("mcs/web", Some(Asked::Service("web".into()))),
            ("MultiClusterService web", Some(Asked::Service("web".into()))),
            ("cluster/m1", Some(Asked::Cluster("m1".into()))),
            ("deploy/web", None),
            ("mcs", None),
        ] {
            assert_eq!(asked(&words(text)), want, "{text}");
        }
    }
}
