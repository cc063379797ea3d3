//! Decisions on services over clusters (specification/mcs.md): MultiClusterService, ServiceExport and ServiceImport.
//!
//! Both go one way. EndpointSlices of exported Services are collected from members into Works that only report
//! ([`collect`]). [`dispatch`] copies those of a MultiClusterService to its consumers, [`imported`] those of a
//! ServiceExport to the control plane, from where a policy for the ServiceImport carries them on.

pub mod claim;
pub mod collect;
pub mod dispatch;
pub mod explain;
pub mod export;
pub mod import;
pub mod imported;
pub mod ingress;
pub mod slice;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use ironclad_api::{
    Condition, Time, annotations,
    cluster::Cluster,
    conditions, labels, names,
    networking::{ClusterSelector, MultiClusterService},
    work::Work,
};
use ironclad_fleet::{ClusterName, Clusters, Event, StatusPart};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The type of a MultiClusterService that is served in clusters.
pub const CROSS_CLUSTER: &str = "CrossCluster";
/// API version of MultiClusterServices.
pub const MCS_API_VERSION: &str = "networking.karmada.io/v1alpha1";
/// Kind of MultiClusterServices.
pub const MCS_KIND: &str = "MultiClusterService";
/// API version of ServiceExports and ServiceImports.
pub const EXPORT_API_VERSION: &str = "multicluster.x-k8s.io/v1alpha1";
/// API version of EndpointSlices.
pub const SLICE_API_VERSION: &str = "discovery.k8s.io/v1";
/// Kind of EndpointSlices.
pub const SLICE_KIND: &str = "EndpointSlice";
/// Longest `drop-after`.
const DROP_AFTER_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// A Service by namespace and name, and whatever has its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl ServiceKey {
    /// The key of these names.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Treatment of the endpoints of providers that are not ready.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnreadyProviders {
    /// Consumers keep them, as in Karmada.
    #[default]
    Keep,
    /// They are dropped.
    DropAfter(Duration),
}

impl UnreadyProviders {
    /// Parses `keep`, `drop` or `drop-after=5m`.
    ///
    /// # Errors
    /// A message with the remedy, for anything else and for more than a week.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refused =
            || format!("{text:?} is none of keep, drop and drop-after=DURATION, at most 168h, such as drop-after=5m");
        match text {
            "keep" => return Ok(Self::Keep),
            "drop" => return Ok(Self::DropAfter(Duration::ZERO)),
            _ => {}
        }
        let span: jiff::SignedDuration =
            text.strip_prefix("drop-after=").and_then(|text| text.parse().ok()).ok_or_else(refused)?;
        let wait = Duration::try_from(span).map_err(|_| refused())?;
        if wait > DROP_AFTER_MAX { Err(refused()) } else { Ok(Self::DropAfter(wait)) }
    }
}

/// Flags of services over clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// `--endpoints-of-unready-providers`.
    pub unready_providers: UnreadyProviders,
    /// `--traffic-control-endpoints`: action `TrafficControl` of Remedies drains the endpoints of its clusters.
    pub traffic_control: bool,
    /// `--endpoint-dispatch-interval`: shortest time between two reports of one slice that takes no address away.
    pub interval: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { unready_providers: UnreadyProviders::Keep, traffic_control: true, interval: Duration::from_secs(1) }
    }
}

/// Returns true if the MultiClusterService is served in clusters, and not being deleted.
#[must_use]
pub fn is_served(mcs: &MultiClusterService) -> bool {
    mcs.metadata.deletion_timestamp.is_none() && mcs.spec.types.iter().any(|type_| type_ == CROSS_CLUSTER)
}

/// The clusters that a list of a MultiClusterService names, and that exist and stay. An empty list names all.
#[must_use]
pub fn selected(list: &[ClusterSelector], clusters: &Clusters) -> BTreeSet<ClusterName> {
    let stays = |name: &ClusterName| clusters.get(name).is_some_and(|c| c.metadata.deletion_timestamp.is_none());
    let named = |name: &ClusterName| list.is_empty() || list.iter().any(|selector| *selector.name == *name.0);
    clusters.keys().filter(|name| named(name) && stays(name)).cloned().collect()
}

/// The names of such a list for which there is no cluster.
#[must_use]
pub fn missing(lists: &[&[ClusterSelector]], clusters: &Clusters) -> BTreeSet<String> {
    let all = lists.iter().copied().flatten().map(|selector| selector.name.as_str());
    all.filter(|name| !clusters.contains_key(&ClusterName::from(*name))).map(str::to_owned).collect()
}

/// The MultiClusterService that a Work belongs to, by its labels.
#[must_use]
pub fn mcs_of(work: &Work) -> Option<ServiceKey> {
    key_of(work, labels::MULTI_CLUSTER_SERVICE_NAMESPACE, labels::MULTI_CLUSTER_SERVICE_NAME)
}

/// The exported Service whose collected EndpointSlice a Work contains, by its labels.
#[must_use]
pub fn export_of(work: &Work) -> Option<ServiceKey> {
    key_of(work, labels::ENDPOINT_SLICE_NAMESPACE, labels::ENDPOINT_SLICE_NAME)
}

fn key_of(work: &Work, namespace: &str, name: &str) -> Option<ServiceKey> {
    let labels = work.metadata.labels.as_ref()?;
    Some(ServiceKey::new(labels.get(namespace)?, labels.get(name)?))
}

/// Returns true for Works that only carry something from a member to the control plane, or a marker.
#[must_use]
pub fn reports(work: &Work) -> bool {
    work.spec.suspend_dispatching == Some(true) && (mcs_of(work).is_some() || export_of(work).is_some())
}

/// The cluster that a Work with a dispatched slice has it from.
#[must_use]
pub fn provider_of(work: &Work) -> Option<&str> {
    work.metadata.annotations.as_ref()?.get(annotations::ENDPOINT_SLICE_PROVISION_CLUSTER).map(String::as_str)
}

/// The one manifest of a Work, if it is of this kind.
fn manifest(work: &Work, api_version: &str, kind: &str) -> Option<Value> {
    let [manifest] = work.spec.workload.manifests.as_slice() else { return None };
    let object: Value = manifest.object();
    let group = |text: &str| text.split('/').next().unwrap_or_default().to_owned();
    let found = object["apiVersion"].as_str().unwrap_or_default();
    (object["kind"] == kind && group(found) == group(api_version)).then_some(object)
}

fn is_true_of(work: &Work, type_: &str) -> bool {
    work.status.as_ref().is_some_and(|status| conditions::is_true(&status.conditions, type_))
}

/// Name of the member for messages, with the time since which it is not ready.
fn not_ready(name: &ClusterName, cluster: &Cluster) -> String {
    match unready_since(cluster) {
        Some(since) => format!("{name} is not ready since {since:.0}"),
        None => format!("{name} is not ready"),
    }
}

/// The time since which a cluster is not ready; `None` if it never reported.
fn unready_since(cluster: &Cluster) -> Option<Timestamp> {
    let conditions = &cluster.status.as_ref()?.conditions;
    let ready = conditions::get(conditions, conditions::cluster::READY)?;
    (ready.status != conditions::TRUE).then_some(ready.last_transition_time.0)
}

/// A condition with this status, reason and message; `None` if the object has it.
fn changed(
    present: &[Condition],
    type_: &str,
    (status, reason, message): (&str, &str, String),
    now: Timestamp,
) -> Option<Condition> {
    let before = conditions::get(present, type_);
    if before.is_some_and(|c| (c.status.as_str(), c.reason.as_str(), &c.message) == (status, reason, &message)) {
        return None;
    }
    let mut condition = conditions::condition(type_, status, reason, message);
    condition.last_transition_time = Time(now);
    Some(condition)
}

/// A condition that replaces the present one, and the event that tells it; `None` if nothing changes.
struct Told<'a> {
    conditions: &'a [Condition],
    type_: &'a str,
    /// Reasons of the condition if it is true and if it is false.
    reasons: [&'a str; 2],
    /// Reasons of the event likewise.
    events: [&'static str; 2],
}

impl Told<'_> {
    fn tell(
        self,
        is_true: bool,
        message: String,
        now: Timestamp,
        about: impl FnOnce() -> ironclad_api::work::ObjectReference,
    ) -> Option<(StatusPart, Event)> {
        let at = usize::from(!is_true);
        let status = if is_true { conditions::TRUE } else { conditions::FALSE };
        let condition = changed(self.conditions, self.type_, (status, self.reasons[at], message.clone()), now)?;
        let event = if is_true {
            Event::normal(about(), self.events[0], message)
        } else {
            Event::warning(about(), self.events[1], message)
        };
        Some((StatusPart::condition(condition), event))
    }
}

fn mcs_conditions(mcs: &MultiClusterService) -> &[Condition] {
    mcs.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

fn mcs_reference(mcs: &MultiClusterService) -> ironclad_api::work::ObjectReference {
    ironclad_fleet::reference(MCS_API_VERSION, MCS_KIND, &mcs.metadata)
}

/// Names with commas between them.
fn listed<T: fmt::Display>(names: impl IntoIterator<Item = T>) -> String {
    names.into_iter().map(|name| name.to_string()).collect::<Vec<_>>().join(", ")
}

/// The marker of a MultiClusterService or ServiceExport in the execution space of a cluster: a Work that is never
/// applied, and by which the collector there knows that the Service is exported.
fn marker_key(cluster: &ClusterName, kind: &str, key: &ServiceKey) -> ironclad_fleet::WorkKey {
    ironclad_fleet::WorkKey { cluster: cluster.clone(), name: names::work_name(kind, &key.namespace, &key.name).into() }
}

/// The identity of an object in a manifest of ours.
fn metadata(namespace: &str, name: &str) -> Value {
    json!({"namespace": namespace, "name": name})
}
