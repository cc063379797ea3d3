//! Discovery of the APIs of a server of any supported version.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use kube::{
    Client, Discovery, Error,
    client::Body,
    core::discovery::v2::{APIGroupDiscovery, APIGroupDiscoveryList},
    discovery::ApiGroup,
};
use serde_json::Value;
use tower::{BoxError, service_fn};

/// The most bytes of a discovery document.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Discovers the APIs that the server serves: by aggregated discovery, or group by group if the server is older than
/// Kubernetes 1.30 and does not know it in version v2.
///
/// # Errors
/// The failure of a request.
pub async fn discover(client: &Client) -> kube::Result<Discovery> {
    match Discovery::new(without_nulls(client)).run_aggregated().await {
        // A server that ignores the Accept header answers with a list that has none of the expected items.
        Ok(found) if found.get(ApiGroup::CORE_GROUP).is_some() => Ok(found),
        Err(error) if !answered_otherwise(&error) => Err(error),
        _ => Discovery::new(without_nulls(client)).run().await,
    }
}

/// Reads the groups of a server by aggregated discovery, the core group first.
///
/// # Errors
/// The failure of a request, or a server that knows no aggregated discovery.
pub async fn aggregated_groups(client: &Client) -> kube::Result<Vec<APIGroupDiscovery>> {
    let client = without_nulls(client);
    let (core, groups) =
        futures::future::join(client.list_core_api_versions_aggregated(), client.list_api_groups_aggregated()).await;
    let (APIGroupDiscoveryList { items: core, .. }, APIGroupDiscoveryList { items: groups, .. }) = (core?, groups?);
    Ok(core.into_iter().chain(groups).collect())
}

/// A client that leaves out the fields of JSON documents that are null.
///
/// A kube-apiserver lists `"verbs": null` for a resource of which an aggregated API has subresources only, as the
/// metrics of pods in `custom.metrics.k8s.io`, and kube's types take a list. One such resource would cost the whole
/// document.
fn without_nulls(client: &Client) -> Client {
    let client = client.clone();
    let service = service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let (parts, body) = client.send(request).await?.into_parts();
            let bytes = Limited::new(body, BYTES_MAX).collect().await?.to_bytes();
            Ok::<_, BoxError>(Response::from_parts(parts, Full::new(strip_nulls(bytes))))
        }
    });
    Client::new(service, "default")
}

/// Removes the fields that are null. Documents without one, and what is not JSON, are left as they are.
fn strip_nulls(document: Bytes) -> Bytes {
    const NULL: &[u8] = b"null";
    if !document.windows(NULL.len()).any(|window| window == NULL) {
        return document;
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(&document) else { return document };
    strip(&mut value);
    value.to_string().into()
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// True for an answer that is not in the format asked for.
fn answered_otherwise(error: &Error) -> bool {
    match error {
        Error::SerdeError(_) => true,
        Error::Api(status) => status.code == http::StatusCode::NOT_ACCEPTABLE.as_u16(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use http::{StatusCode, header::ACCEPT};

    use super::*;

    /// Answer of a server to a request for aggregated discovery.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Aggregated {
        NotAcceptable,
        Ignored,
        Failed,
    }

    fn server(aggregated: Aggregated) -> Client {
        let service = service_fn(move |request: Request<Body>| async move {
            let wants = request.headers().get(ACCEPT).and_then(|a| a.to_str().ok()).unwrap_or_default();
            let plain = match request.uri().path() {
                "/apis" => {
                    r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}]}]}"#
                }
                "/apis/apps/v1" => {
                    r#"{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[{"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment","verbs":["list","watch"]}]}"#
                }
                "/api" => r#"{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[]}"#,
                "/api/v1" => {
                    r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["list","watch"]}]}"#
                }
                other => return Err(BoxError::from(format!("unexpected request for {other}"))),
            };
            let (code, text) = match aggregated {
                _ if !wants.contains("APIGroupDiscoveryList") => (StatusCode::OK, plain),
                Aggregated::Ignored => (StatusCode::OK, plain),
                Aggregated::NotAcceptable => (
                    StatusCode::NOT_ACCEPTABLE,
                    r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotAcceptable","message":"only the following media types are accepted: application/json","code":406}"#,
                ),
                Aggregated::Failed => (
                    StatusCode::FORBIDDEN,
                    r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}"#,
                ),
            };
            Ok::<_, BoxError>(Response::builder().status(code).body(Body::from(text.as_bytes().to_vec()))?)
        });
        Client::new(service, "default")
    }

    /// A server with an aggregated API that has nothing but subresources of pods.
    fn server_with_custom_metrics() -> Client {
        let service = service_fn(|request: Request<Body>| async move {
            let text = match request.uri().path() {
                "/apis" => {
                    r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{"name":"custom.metrics.k8s.io"},"versions":[{"version":"v1beta2","resources":[{"resource":"pods","responseKind":{"group":"","version":"","kind":""},"scope":"Namespaced","singularResource":"","verbs":null,"subresources":[{"subresource":"qps","responseKind":{"group":"","version":"","kind":"MetricValueList"},"verbs":["get"]}]}],"freshness":"Current"}]}]}"#
                }
                "/api" => {
                    r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{},"versions":[{"version":"v1","resources":[{"resource":"pods","responseKind":{"group":"","version":"","kind":"Pod"},"scope":"Namespaced","singularResource":"pod","verbs":["list","watch"]}],"freshness":"Current"}]}]}"#
                }
                // Discovery group by group would be a request for each of them.
                other => return Err(BoxError::from(format!("unexpected request for {other}"))),
            };
            Ok::<_, BoxError>(Response::new(Body::from(text.as_bytes().to_vec())))
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn a_resource_without_verbs_costs_nothing_else() {
        let client = server_with_custom_metrics();
        let found = discover(&client).await.unwrap();
        assert!(found.get(ApiGroup::CORE_GROUP).is_some() && found.get("custom.metrics.k8s.io").is_some());
        let groups = aggregated_groups(&client).await.unwrap();
        let names: Vec<_> = groups.iter().map(|g| g.metadata.clone().unwrap().name.unwrap_or_default()).collect();
        assert_eq!(names, ["", "custom.metrics.k8s.io"]);
        let pods = &groups[1].versions[0].resources[0];
        assert!(pods.verbs.is_empty());
        assert_eq!(pods.subresources[0].verbs, ["get"]);
    }

    #[test]
    fn fields_that_are_null_are_left_out() {
        for (document, want) in [
            (r#"{"a": 1}"#, r#"{"a": 1}"#),
            (r#"{"a":null,"b":[{"c":null,"d":"null"}]}"#, r#"{"b":[{"d":"null"}]}"#),
            ("null and void", "null and void"),
        ] {
            assert_eq!(strip_nulls(document.into()), want, "{document}");
        }
    }

    #[tokio::test]
    async fn servers_without_aggregated_discovery_are_discovered_group_by_group() {
        for aggregated in [Aggregated::NotAcceptable, Aggregated::Ignored] {
            let found = discover(&server(aggregated)).await.unwrap_or_else(|error| panic!("{aggregated:?}: {error}"));
            let mut kinds: Vec<String> = found
                .groups()
                .flat_map(|group| group.recommended_resources())
                .map(|(resource, _)| resource.kind)
                .collect();
            kinds.sort();
            assert_eq!(kinds, ["Deployment", "Pod"], "{aggregated:?}");
        }
        let refused = discover(&server(Aggregated::Failed)).await.map(drop);
        assert!(matches!(refused, Err(Error::Api(status)) if status.code == 403), "the refusal is the answer");
    }
}
