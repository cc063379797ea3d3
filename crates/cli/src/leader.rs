//! Answers of the leader about itself beside evictions: its settings, its controllers, and the queue of the scheduler.
//! `up` serves them (group `explain.ironclad.io`); a leader of `run` announces its settings in a ConfigMap.

use std::collections::BTreeMap;

use ironclad_api::namespaces;
use ironclad_fleet::{BindingKey, ClusterName};
use ironclad_planning::{
    Fleet, Settings,
    announcement::{Announcement, CONFIG_MAP, LeaseName},
    leader::{Configuration, EstimatorAnswer, QueuedBinding},
};
use ironclad_runtime::Api;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reason why something of the group is not known.
struct Unknown {
    why: String,
    /// The group may not be served here, or not by a process that leads.
    is_served: bool,
}

/// Reads what of the group.
async fn read(client: &Client, what: &str) -> Result<Value, Unknown> {
    let path = format!("/apis/explain.ironclad.io/v1alpha1/{what}");
    let unknown = |is_served, why: String| Unknown { why, is_served };
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| unknown(true, error.to_string()))?;
    client.request::<Value>(request).await.map_err(|error| match error {
        kube::Error::Api(status) => match status.code {
            404 => unknown(
                false,
                "this control plane does not serve explain.ironclad.io, as `ironclad up` does".to_owned(),
            ),
            // Rights are checked before anybody looks whether the group is served.
            403 => unknown(false, format!("you may not read {what} of explain.ironclad.io")),
            code => unknown(code != 503, status.message.clone()),
        },
        error => unknown(true, error.to_string()),
    })
}

fn parsed<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| format!("the leader's answer can't be read: {error}"))
}

/// The leader's configuration: as it is served, or as it was announced.
///
/// # Errors
/// The reason why it is not known.
pub(crate) async fn configuration(client: &Client) -> Result<Configuration, String> {
    match read(client, "configuration").await {
        Ok(found) => parsed(found),
        Err(unknown) if unknown.is_served => Err(unknown.why),
        Err(unknown) => announced(client).await.map_err(|why| format!("{}; {why}", unknown.why)),
    }
}

/// The configuration that leaders announced.
async fn announced(client: &Client) -> Result<Configuration, String> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespaces::SYSTEM);
    let map = maps.get_opt(CONFIG_MAP).await.map_err(|error| match error {
        kube::Error::Api(status) if status.code == 403 => {
            format!(
                "you may not read ConfigMap {}/{CONFIG_MAP}, where the leader announces its settings",
                namespaces::SYSTEM
            )
        }
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    })?;
    let all = Announcement::read(&map.and_then(|map| map.data).unwrap_or_default());
    let mut holders = BTreeMap::new();
    for announcement in &all {
        let Some(lease) = &announcement.lease else { continue };
        let leases: Api<Lease> = Api::namespaced(client.clone(), &lease.namespace);
        let holder = match leases.get_opt(&lease.name).await {
            Ok(found) => found.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default(),
            // Who leads can't be seen: the announcement is the best that is known.
            Err(_) => announcement.holder.clone(),
        };
        holders.insert(lease.clone(), holder);
    }
    Announcement::combined(&all, |lease: &LeaseName| holders.get(lease).cloned().unwrap_or_default())
}

/// The leader's settings, or the defaults if it announces none.
pub(crate) async fn settings(client: &Client) -> Settings {
    configuration(client).await.map_or_else(|_| Settings::default(), |found| found.settings())
}

/// Answers of the leader's account and of its estimators over gRPC about a binding; none where the leader has neither,
/// or tells nothing.
pub(crate) async fn estimates(client: &Client, binding: &BindingKey) -> Vec<EstimatorAnswer> {
    let what = format!("estimates?binding={}/{}", binding.namespace, binding.name);
    let Ok(mut list) = read(client, &what).await else { return Vec::new() };
    parsed(list.get_mut("items").map(Value::take).unwrap_or_default()).unwrap_or_default()
}

/// Takes answers of the leader about a binding into the fleet.
pub(crate) fn take_estimates(fleet: &mut Fleet, binding: &BindingKey, told: &[EstimatorAnswer]) {
    let accounts = fleet.accounts.entry(binding.clone()).or_default();
    let answers = fleet.answers.entry(binding.clone()).or_default();
    for answer in told {
        let cluster = ClusterName::from(answer.cluster.as_str());
        match (answer.source.as_str(), answer.fits) {
            ("Nodes", Some(fits)) => drop(accounts.insert(cluster, fits)),
            ("Nodes", None) => {}
            (_, fits) => drop(answers.insert(cluster, fits)),
        }
    }
}

/// The bindings that wait for the scheduler, in order.
///
/// # Errors
/// The reason why they are not known.
pub(crate) async fn scheduling_queue(client: &Client) -> Result<Vec<QueuedBinding>, String> {
    let mut list = read(client, "schedulingqueue").await.map_err(|unknown| unknown.why)?;
    parsed(list.get_mut("items").map(Value::take).unwrap_or_default())
}
