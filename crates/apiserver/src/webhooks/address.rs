//! Addresses of webhooks.

use serde_json::Value;

use crate::state::State;

/// The URL of a webhook, and the server name of its certificate if that differs from the host.
///
/// This server is in no cluster network: of Services it reaches those of type ExternalName.
/// The error names the address, too.
pub(crate) fn address(state: &State, client: &Value) -> Result<(String, Option<String>), (String, String)> {
    if let Some(url) = client["url"].as_str() {
        return Ok((url.to_owned(), None));
    }
    let service = &client["service"];
    let text = |key: &str| service[key].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let port = service["port"].as_u64().unwrap_or(443);
    let path = text("path").trim_start_matches('/');
    let at = |host: &str| format!("https://{host}:{port}/{path}");
    let in_cluster = format!("{name}.{namespace}.svc");
    let Some(found) = state.builtin_object("", "services", namespace, name) else {
        return Err((at(&in_cluster), format!("service {name:?} not found")));
    };
    let host = found["spec"]["externalName"].as_str().filter(|_| found["spec"]["type"] == "ExternalName");
    let Some(host) = host else {
        let why = format!(
            "service {name:?} is in a network that this server is not part of: name a clientConfig.url, or make the Service \
             one of type ExternalName"
        );
        return Err((at(&in_cluster), why));
    };
    Ok((at(host), Some(in_cluster)))
}
