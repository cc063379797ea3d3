//! Answers of the leader about itself beside evictions: its settings, its controllers, and the queue of the scheduler.
//! They are asked for in group `explain.ironclad.io`; where that is not served, the settings are those that leaders of
//! `run` announce in a ConfigMap.

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
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Reason why something of the group is not known.
#[derive(Debug)]
pub(crate) enum Unknown {
    /// The group is not served here, may not be read, or no process that leads can answer now.
    Unasked(String),
    /// The leader has nothing of this name.
    NotFound(String),
    /// The request failed.
    Failed(String),
}

impl Unknown {
    /// The reason as text.
    pub(crate) fn why(self) -> String {
        match self {
            Self::Unasked(why) | Self::NotFound(why) | Self::Failed(why) => why,
        }
    }
}

/// Asks the leader: reads what of the group. Fields of newer leaders are ignored.
pub(crate) async fn ask<T: DeserializeOwned>(client: &Client, what: &str) -> Result<T, Unknown> {
    let path = format!("/apis/explain.ironclad.io/v1alpha1/{what}");
    let failed = |error: &dyn std::fmt::Display| Unknown::Failed(error.to_string());
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| failed(&error))?;
    let answer = client.request::<Value>(request).await.map_err(|error| match error {
        kube::Error::Api(status) => match status.code {
            404 if status.message.contains("has not been evaluated") => Unknown::NotFound(status.message.clone()),
            404 => Unknown::Unasked(
                "this control plane does not serve explain.ironclad.io, as `ironclad up` and `ironclad run \
                 --explain-bind-address` do"
                    .to_owned(),
            ),
            // Rights are checked before anybody looks whether the group is served.
            403 => Unknown::Unasked(format!(
                "you may not read {what} of explain.ironclad.io: {} ({})",
                status.message, status.reason
            )),
            503 => Unknown::Unasked(status.message.clone()),
            _ => Unknown::Failed(status.message.clone()),
        },
        error => failed(&error),
    })?;
    serde_json::from_value(answer).map_err(|error| failed(&format!("the leader's answer can't be read: {error}")))
}

/// A list of the group.
#[derive(Deserialize)]
pub(crate) struct Listed<T> {
    pub(crate) items: Vec<T>,
}

/// The leader's configuration: as it is served, or as it was announced.
///
/// # Errors
/// The reason why it is not known.
pub(crate) async fn configuration(client: &Client) -> Result<Configuration, String> {
    match ask::<Configuration>(client, "configuration").await {
        // Another process may run what this one leaves out; each announces its own.
        Ok(served) if served.leaves_out_controllers() => Ok(announced(client).await.unwrap_or(served)),
        Ok(served) => Ok(served),
        Err(Unknown::Unasked(asked)) => announced(client).await.map_err(|why| format!("{asked}; {why}")),
        Err(unknown) => Err(unknown.why()),
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
    ask::<Listed<_>>(client, &what).await.map_or_else(|_| Vec::new(), |list| list.items)
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

/// The last hour as the leader remembers it, of a binding or an autoscaler (`binding=NAMESPACE/NAME`), or of evictions;
/// nothing if it does not tell.
pub(crate) async fn history(client: &Client, of: &str) -> Value {
    ask(client, &format!("history{of}")).await.unwrap_or_else(|_| json!({}))
}

/// The bindings that wait for the scheduler, in order.
///
/// # Errors
/// The reason why they are not known.
pub(crate) async fn scheduling_queue(client: &Client) -> Result<Vec<QueuedBinding>, String> {
    ask::<Listed<_>>(client, "schedulingqueue").await.map(|list| list.items).map_err(Unknown::why)
}
