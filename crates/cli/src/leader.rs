//! Answers of the leader about itself beside evictions: its settings, its controllers, and the queue of the scheduler
//! (group `explain.ironclad.io`). `up` serves the group; `run` does not.

use ironclad_fleet::BindingKey;
use ironclad_planning::{
    Settings,
    leader::{Configuration, EstimatorAnswer, QueuedBinding},
};
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads what of the group; the error is the reason why it is not known.
async fn read(client: &Client, what: &str) -> Result<Value, String> {
    let path = format!("/apis/explain.ironclad.io/v1alpha1/{what}");
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    client.request::<Value>(request).await.map_err(|error| match error {
        kube::Error::Api(status) if status.code == 404 => {
            "this control plane does not serve explain.ironclad.io, as `ironclad up` does".to_owned()
        }
        kube::Error::Api(status) if status.code == 403 => format!("you may not read {what} of explain.ironclad.io"),
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    })
}

fn parsed<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| format!("the leader's answer can't be read: {error}"))
}

/// The leader's configuration.
///
/// # Errors
/// The reason why it is not known.
pub(crate) async fn configuration(client: &Client) -> Result<Configuration, String> {
    parsed(read(client, "configuration").await?)
}

/// The leader's settings, or the defaults if it does not tell them.
pub(crate) async fn settings(client: &Client) -> Settings {
    configuration(client).await.map_or_else(|_| Settings::default(), |told| told.settings())
}

/// Answers of accurate estimators about a binding; none where the leader has no such estimators, or tells nothing.
pub(crate) async fn estimates(client: &Client, binding: &BindingKey) -> Vec<EstimatorAnswer> {
    let what = format!("estimates?binding={}/{}", binding.namespace, binding.name);
    let Ok(mut list) = read(client, &what).await else { return Vec::new() };
    parsed(list.get_mut("items").map(Value::take).unwrap_or_default()).unwrap_or_default()
}

/// The bindings that wait for the scheduler, in order.
///
/// # Errors
/// The reason why they are not known.
pub(crate) async fn scheduling_queue(client: &Client) -> Result<Vec<QueuedBinding>, String> {
    let mut list = read(client, "schedulingqueue").await?;
    parsed(list.get_mut("items").map(Value::take).unwrap_or_default())
}
