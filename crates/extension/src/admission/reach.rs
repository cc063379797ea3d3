//! Warnings about interpreter webhooks behind Services that a control plane without a cluster network can't reach.

use ironclad_apiserver::{Objects, Review};
use serde_json::Value;

/// Returns a warning for each webhook of a ResourceInterpreterWebhookConfiguration whose Service is not of type
/// ExternalName. Webhooks that the write leaves as they are were reported before.
pub(super) fn unreachable(review: &Review<'_>, objects: &Objects<'_>) -> Vec<String> {
    let Some(new) = review.object.filter(|_| {
        review.group == "config.karmada.io"
            && review.resource == "resourceinterpreterwebhookconfigurations"
            && review.subresource.is_empty()
    }) else {
        return vec![];
    };
    let client = |object: &Value, i: usize| object["webhooks"][i]["clientConfig"].clone();
    let count = new["webhooks"].as_array().map_or(0, Vec::len);
    let changed = (0..count).filter(|i| review.old.is_none_or(|old| client(old, *i) != client(new, *i)));
    changed.filter_map(|i| Some((i, warning(&client(new, i)["service"], objects)?))).map(text).collect()
}

fn text((i, why): (usize, String)) -> String {
    format!("webhooks[{i}].clientConfig.service: {why}")
}

fn warning(service: &Value, objects: &Objects<'_>) -> Option<String> {
    let text = |key: &str| service[key].as_str().unwrap_or_default();
    if !service.is_object() {
        return None;
    }
    let found = objects.get("", "v1", "services", text("namespace"), text("name"));
    if found.is_some_and(|found| found["spec"]["type"] == "ExternalName") {
        return None;
    }
    Some(format!(
        "service {:?} can't be reached, as this control plane is in no cluster network: name a clientConfig.url, or make \
         the Service one of type ExternalName",
        text("name")
    ))
}
