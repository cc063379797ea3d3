//! Discovery of the APIs of a server of any supported version.

use kube::{Client, Discovery, Error, discovery::ApiGroup};

/// Discovers the APIs that the server serves: by aggregated discovery, or group by group if the server is older than
/// Kubernetes 1.30 and does not know it in version v2.
///
/// # Errors
/// The failure of a request.
pub async fn discover(client: &Client) -> kube::Result<Discovery> {
    match Discovery::new(client.clone()).run_aggregated().await {
        // A server that ignores the Accept header answers with a list that has none of the expected items.
        Ok(found) if found.get(ApiGroup::CORE_GROUP).is_some() => Ok(found),
        Err(error) if !answered_otherwise(&error) => Err(error),
        _ => Discovery::new(client.clone()).run().await,
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
    use http::{Request, Response, StatusCode, header::ACCEPT};
    use kube::client::Body;
    use tower::{BoxError, service_fn};

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
