//! Endpoint of a webhook (specification/propagation.md 20.2, service resolution).

use k8s_openapi::api::{admissionregistration::v1::WebhookClientConfig, core::v1::Service};

/// Default port of a service.
const PORT: i32 = 443;

/// Address of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `https://HOST:PORT`.
    pub base: String,
    /// Path and query.
    pub path: String,
    /// Server name in the certificate, if it differs from the host.
    pub server_name: Option<String>,
}

/// The endpoint of a webhook. `service` is the Service that it names, if the control plane has it. A service takes
/// precedence over a URL.
///
/// # Errors
/// The missing part, for a person.
pub fn endpoint(config: &WebhookClientConfig, service: Option<&Service>) -> Result<Endpoint, String> {
    let Some(reference) = &config.service else {
        return url(config.url.as_deref().ok_or("clientConfig has neither url nor service")?);
    };
    let name = format!("{}.{}.svc", reference.name, reference.namespace);
    let port = reference.port.unwrap_or(PORT);
    let spec = service.and_then(|service| service.spec.as_ref());
    let host = match spec {
        None => name.clone(),
        Some(spec) if spec.type_.as_deref() == Some("ExternalName") => {
            spec.external_name.clone().ok_or_else(|| format!("service {name} has no externalName"))?
        }
        Some(spec) => {
            if !spec.ports.iter().flatten().any(|known| known.port == port) {
                return Err(format!("service {name} has no port {port}"));
            }
            match spec.cluster_ip.as_deref() {
                None | Some("" | "None") => return Err(format!("service {name} has no cluster IP")),
                Some(ip) if ip.contains(':') => format!("[{ip}]"),
                Some(ip) => ip.to_owned(),
            }
        }
    };
    let path = reference.path.as_deref().unwrap_or_default();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok(Endpoint { base: format!("https://{host}:{port}"), path, server_name: Some(name) })
}

fn url(url: &str) -> Result<Endpoint, String> {
    let Some(rest) = url.strip_prefix("https://") else { return Err(format!("url {url:?} is not https")) };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if host.is_empty() || host.contains(['@', '?', '#']) || path.contains(['?', '#']) {
        return Err(format!("url {url:?} must have a host, and neither user, query nor fragment"));
    }
    let path = if path.is_empty() { "/" } else { path };
    Ok(Endpoint { base: format!("https://{host}"), path: path.to_owned(), server_name: None })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{
        admissionregistration::v1::ServiceReference,
        core::v1::{ServicePort, ServiceSpec},
    };

    use super::*;

    #[test]
    fn endpoints_of_urls_and_services() {
        let by_url = |url: &str| WebhookClientConfig { url: Some(url.into()), ..Default::default() };
        let by_service = |port, path: Option<&str>| WebhookClientConfig {
            service: Some(ServiceReference {
                name: "s".into(),
                namespace: "n".into(),
                port,
                path: path.map(str::to_owned),
            }),
            url: Some("https://ignored".into()),
            ..Default::default()
        };
        let service = |type_: &str, ip: Option<&str>| Service {
            spec: Some(ServiceSpec {
                type_: Some(type_.into()),
                cluster_ip: ip.map(str::to_owned),
                external_name: (type_ == "ExternalName").then(|| "hooks.example.com".into()),
                ports: Some(vec![ServicePort { port: 8443, ..Default::default() }]),
                ..Default::default()
            }),
            ..Default::default()
        };
        for (name, config, service, want) in [
            ("a url", by_url("https://h:8443/p/q"), None, Ok(("https://h:8443", "/p/q", None))),
            ("a url without a path", by_url("https://h"), None, Ok(("https://h", "/", None))),
            ("not https", by_url("http://h"), None, Err("url \"http://h\" is not https")),
            (
                "a query",
                by_url("https://h/?a"),
                None,
                Err("url \"https://h/?a\" must have a host, and neither user, query nor fragment"),
            ),
            ("neither", WebhookClientConfig::default(), None, Err("clientConfig has neither url nor service")),
            (
                "a service that is not here",
                by_service(None, Some("p")),
                None,
                Ok(("https://s.n.svc:443", "/p", Some("s.n.svc"))),
            ),
            (
                "its address",
                by_service(Some(8443), None),
                Some(service("ClusterIP", Some("10.0.0.1"))),
                Ok(("https://10.0.0.1:8443", "/", Some("s.n.svc"))),
            ),
            (
                "of the sixth kind",
                by_service(Some(8443), None),
                Some(service("LoadBalancer", Some("fd00::1"))),
                Ok(("https://[fd00::1]:8443", "/", Some("s.n.svc"))),
            ),
            (
                "another port",
                by_service(None, None),
                Some(service("ClusterIP", Some("10.0.0.1"))),
                Err("service s.n.svc has no port 443"),
            ),
            (
                "headless",
                by_service(Some(8443), None),
                Some(service("ClusterIP", Some("None"))),
                Err("service s.n.svc has no cluster IP"),
            ),
            (
                "elsewhere",
                by_service(Some(1), None),
                Some(service("ExternalName", None)),
                Ok(("https://hooks.example.com:1", "/", Some("s.n.svc"))),
            ),
        ] {
            let got = endpoint(&config, service.as_ref());
            let got = got.as_ref().map(|e| (e.base.as_str(), e.path.as_str(), e.server_name.as_deref()));
            assert_eq!(got, want.as_ref().map(|w| *w).map_err(|e| (*e).to_owned()).as_ref().map(|w| *w), "{name}");
        }
    }
}
