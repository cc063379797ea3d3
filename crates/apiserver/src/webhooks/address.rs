//! Addresses of webhooks.

use serde_json::Value;

use crate::state::State;

const REMEDY: &str = "name a clientConfig.url, or make the Service one of type ExternalName";

/// The reason why this server can't reach a Service. It is in no cluster network: of Services it reaches those of type
/// ExternalName.
pub(crate) enum Unreachable {
    /// There is no such Service.
    NotFound,
    /// It is of another type.
    InCluster,
}

/// The host of a Service.
pub(crate) fn host(state: &State, service: &Value) -> Result<String, Unreachable> {
    let text = |key: &str| service[key].as_str().unwrap_or_default();
    let found = state.builtin_object("", "services", text("namespace"), text("name")).ok_or(Unreachable::NotFound)?;
    let host = found["spec"]["externalName"].as_str().filter(|_| found["spec"]["type"] == "ExternalName");
    host.map(str::to_owned).ok_or(Unreachable::InCluster)
}

fn in_another_network(name: &str) -> String {
    format!("service {name:?} is in a network that this server is not part of: {REMEDY}")
}

/// The URL of a webhook, and the server name of its certificate if that differs from the host.
///
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
    match host(state, service) {
        Ok(host) => Ok((at(&host), Some(in_cluster))),
        // The words of a kube-apiserver.
        Err(Unreachable::NotFound) => Err((at(&in_cluster), format!("service {name:?} not found"))),
        Err(Unreachable::InCluster) => Err((at(&in_cluster), in_another_network(name))),
    }
}

/// Returns the reason why the webhook of a `clientConfig` can't be called, with the remedy.
pub(super) fn unreachable(state: &State, client: &Value) -> Option<String> {
    let service = Some(&client["service"]).filter(|service| service.is_object())?;
    let name = service["name"].as_str().unwrap_or_default();
    Some(match host(state, service).err()? {
        Unreachable::NotFound => {
            format!("service {name:?} not found, and this server is in no cluster network: {REMEDY}")
        }
        Unreachable::InCluster => in_another_network(name),
    })
}
