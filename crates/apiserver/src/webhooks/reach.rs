//! Warnings about webhooks that this server can't call (specification/apiserver.md 21).

use serde_json::Value;

use super::address::unreachable;
use crate::{context::Cx, registry::Resource};

/// Warns the writer of a configuration or CRD of webhooks that can't be called: their failure would show in the writes
/// of others.
pub(crate) fn warn_unreachable(cx: &Cx, old: Option<&Value>, new: &Value) {
    if cx.subresource().is_some() {
        return;
    }
    let before = old.map(|old| clients(&cx.resource, old)).unwrap_or_default();
    for (field, client) in clients(&cx.resource, new) {
        if !before.contains(&(field.clone(), client))
            && let Some(why) = unreachable(&cx.state, client)
        {
            cx.warn(format!("{field}.service: {why}"));
        }
    }
}

/// The `clientConfig` of each webhook in an object, with its field.
fn clients<'a>(resource: &Resource, object: &'a Value) -> Vec<(String, &'a Value)> {
    match (&*resource.group, &*resource.plural) {
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations" | "validatingwebhookconfigurations") => {
            let hooks = object["webhooks"].as_array().into_iter().flatten().enumerate();
            hooks.map(|(i, hook)| (format!("webhooks[{i}].clientConfig"), &hook["clientConfig"])).collect()
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            let client = object.pointer("/spec/conversion/webhook/clientConfig");
            client.map(|client| ("spec.conversion.webhook.clientConfig".to_owned(), client)).into_iter().collect()
        }
        _ => vec![],
    }
}
