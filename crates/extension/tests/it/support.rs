//! An embedded control plane with our kinds and their reviews.

use std::sync::Arc;

use ironclad_admission::{Config, convert::convert};
use ironclad_api::crds::{crds, serve_legacy_bindings};
use ironclad_apiserver::{Identity, Options, Server};
use ironclad_extension::admission::InProcessAdmission;
use ironclad_runtime::{Traffic, in_process_client};
use ironclad_seam::{Clock, Rng, Seam, Tasks};
use ironclad_store::{Commit, Engine, MemoryBackend};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, WebhookClientConfig,
};
use kube::{Api, Client, api::PostParams};
use serde_json::Value;

/// The user that controllers are.
pub(crate) const OWN: &str = "ironclad";

/// A server, and a client of its administrator.
pub(crate) struct Plane {
    pub(crate) server: Arc<Server>,
    pub(crate) client: Client,
    _engine: Engine,
}

/// Starts one with these kinds, by their plurals.
pub(crate) async fn plane(config: Config, kinds: &[&str]) -> Plane {
    let clock = Clock::simulated(Timestamp::from_second(1_790_000_000).unwrap());
    plane_with(config, kinds, clock, Options::default()).await
}

/// Starts one with these kinds, on this clock.
pub(crate) async fn plane_with(config: Config, kinds: &[&str], clock: Clock, options: Options) -> Plane {
    let seam = Seam { clock: clock.clone(), rng: Rng::from_seed(7), tasks: Tasks::new("test") };
    let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, clock).unwrap();
    let config = Config { own_user: Some(OWN.to_owned()), ..config };
    let admission = Arc::new(InProcessAdmission::new(config));
    let options = Options { admission: Some(admission), converter: Some(convert), ..options };
    let server = Server::open(options, engine.store("plane"), seam).await.unwrap();
    let client = client(&server, "alice");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for mut definition in crds().into_iter().filter(|d| kinds.contains(&d.spec.names.plural.as_str())) {
        let url = Some("https://converter.example/convert".to_owned());
        serve_legacy_bindings(&mut definition, WebhookClientConfig { url, ..WebhookClientConfig::default() });
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    Plane { server, client, _engine: engine }
}

/// Returns a client of this user, who has all rights.
pub(crate) fn client(server: &Arc<Server>, user: &str) -> Client {
    in_process_client(server.in_process(Identity::admin(user)), Arc::new(Traffic::default()))
}

/// Sends a request; answers code, warnings and body.
pub(crate) async fn send(
    client: &Client,
    method: &str,
    path: &str,
    content_type: &str,
    body: &Value,
) -> (u16, Vec<String>, Value) {
    let request = http::Request::builder().method(method).uri(path).header("content-type", content_type);
    let bytes = if body.is_null() { vec![] } else { serde_json::to_vec(body).unwrap() };
    let answer = client.send(request.body(kube::client::Body::from(bytes)).unwrap()).await.unwrap();
    let code = answer.status().as_u16();
    let warnings = answer.headers().get_all("warning").iter().map(|w| w.to_str().unwrap().to_owned()).collect();
    let body = answer.into_body().collect_bytes().await.unwrap();
    (code, warnings, serde_json::from_slice(&body).unwrap_or(Value::Null))
}
