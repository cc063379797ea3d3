//! The agent's end of a tunnel: it passes the control plane's requests on to its member, with credentials of the member
//! that never leave it (specification/operations.md 10.3).

mod bandwidth;
mod hold;
mod passed;

use std::{collections::BTreeSet, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::FutureExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use ironclad_api::{
    names::IMPERSONATOR,
    namespaces::{self},
};
use ironclad_runtime::{Api, StreamBody, Streams, carry_both};
use ironclad_seam::Seam;
use ironclad_serving::Answer;
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{Namespace, ServiceAccount},
};
use kube::{
    Client, Config,
    api::{ObjectMeta, PostParams},
};
use parking_lot::Mutex;
use tokio::time::Instant;

pub use self::{bandwidth::Bandwidth, hold::hold_tunnels, passed::Passed};

/// Life of a token of the impersonator, in seconds.
const TOKEN_SECONDS: i64 = 3_600;
/// Time after which a new token is asked for.
const TOKEN_KEPT: Duration = Duration::from_secs(2_400);

/// The member, as the agent passes requests on to it.
#[derive(Clone)]
pub struct TunnelledMember(Arc<Parts>);

struct Parts {
    config: Config,
    client: Client,
    /// As the agent.
    own: Streams,
    /// As the impersonator, until a new token is due.
    impersonator: Mutex<Option<(Instant, Streams)>>,
    /// Kinds of requests that are passed on.
    passed: BTreeSet<Passed>,
    seam: Seam,
}

impl TunnelledMember {
    /// The member of this configuration, to which `client` is one, for requests of these kinds. Connections that are
    /// taken over are tasks of `seam`.
    ///
    /// # Errors
    /// One line that says what in the configuration can't be used.
    pub fn new(config: Config, client: Client, passed: BTreeSet<Passed>, seam: &Seam) -> Result<Self, String> {
        let (own, impersonator) = (Streams::by_config(config.clone())?, Mutex::default());
        Ok(Self(Arc::new(Parts { config, client, own, impersonator, passed, seam: seam.clone() })))
    }

    /// Answers what comes over tunnels.
    fn answer(self) -> Answer {
        Answer::new(move |request| self.clone().pass_on(request).map(Ok))
    }

    /// Passes a request on: one that names a user as the impersonator, so that the member decides about the user.
    async fn pass_on(self, mut request: Request<Incoming>) -> Response<StreamBody> {
        let kind = Passed::of_path(request.uri().path());
        if !self.0.passed.contains(&kind) {
            return refused(StatusCode::FORBIDDEN, "Forbidden", &kind.refusal(&self.0.passed));
        }
        let protocol = request.headers().get(header::UPGRADE).cloned();
        let near = protocol.is_some().then(|| hyper::upgrade::on(&mut request));
        let is_users = request.headers().keys().any(|name| name.as_str().starts_with("impersonate-"));
        let streams = if is_users { self.impersonator().await } else { Ok(self.0.own.clone()) };
        let (parts, body) = request.into_parts();
        let body: StreamBody = body.map_err(io::Error::other).boxed_unsync();
        let mut sent = Request::new(body);
        *sent.method_mut() = parts.method;
        *sent.uri_mut() = parts.uri;
        *sent.headers_mut() = without_hop(&parts.headers);
        if let Some(protocol) = protocol.clone() {
            sent.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            sent.headers_mut().insert(header::UPGRADE, protocol);
        }
        let answered = match streams {
            Ok(streams) => streams.send(sent).await,
            Err(why) => Err(why),
        };
        let mut answer = match answered {
            Ok(answer) => answer,
            Err(why) => {
                let why = format!("the member does not answer its agent: {why}");
                return refused(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", &why);
            }
        };
        let switches = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
        let far = switches.then(|| hyper::upgrade::on(&mut answer));
        let (parts, body) = answer.into_parts();
        let mut passed = Response::new(body.map_err(io::Error::other).boxed_unsync());
        *passed.status_mut() = parts.status;
        *passed.headers_mut() = without_hop(&parts.headers);
        if let (Some(near), Some(far)) = (near, far) {
            let protocol = parts.headers.get(header::UPGRADE).cloned().or(protocol);
            passed.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            passed.headers_mut().extend(protocol.map(|protocol| (header::UPGRADE, protocol)));
            self.0.seam.tasks.spawn("upgraded", async move {
                let (Ok(near), Ok(far)) = (near.await, far.await) else { return };
                carry_both(TokioIo::new(near), TokioIo::new(far)).await;
            });
        }
        passed
    }

    /// The way to the member as its impersonator, which has the rights that the control plane mirrors.
    async fn impersonator(&self) -> Result<Streams, String> {
        let now = self.0.seam.clock.mono();
        if let Some((until, streams)) = &*self.0.impersonator.lock()
            && now < *until
        {
            return Ok(streams.clone());
        }
        let failed = |error: kube::Error| format!("the agent gets no token of {IMPERSONATOR}: {error}");
        let accounts: Api<ServiceAccount> = Api::namespaced(self.0.client.clone(), namespaces::CLUSTER);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() }),
            ..TokenRequest::default()
        };
        let made = accounts.create_token_request(IMPERSONATOR, &PostParams::default(), &request).await;
        let token = match made {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.make_impersonator().await.map_err(failed)?;
                accounts.create_token_request(IMPERSONATOR, &PostParams::default(), &request).await.map_err(failed)?
            }
            made => made.map_err(failed)?,
        };
        let token = token.status.and_then(|status| status.token).unwrap_or_default();
        let streams = Streams::by_config_and_token(self.0.config.clone(), token)?;
        *self.0.impersonator.lock() = Some((now + TOKEN_KEPT, streams.clone()));
        Ok(streams)
    }

    async fn make_impersonator(&self) -> Result<(), kube::Error> {
        let metadata = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let namespaces: Api<Namespace> = Api::all(self.0.client.clone());
        let accounts: Api<ServiceAccount> = Api::namespaced(self.0.client.clone(), namespaces::CLUSTER);
        let namespace = Namespace { metadata: metadata(namespaces::CLUSTER), ..Namespace::default() };
        let account = ServiceAccount { metadata: metadata(IMPERSONATOR), ..ServiceAccount::default() };
        let params = PostParams::default();
        let made = namespaces.create(&params, &namespace).await.map(drop);
        let made = [made, accounts.create(&params, &account).await.map(drop)];
        made.into_iter().try_for_each(|made| match made {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            made => made,
        })
    }
}

/// Headers without those that are about one connection.
fn without_hop(headers: &HeaderMap) -> HeaderMap {
    const HOP: [HeaderName; 9] = [
        header::CONNECTION,
        header::UPGRADE,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::HOST,
        header::AUTHORIZATION,
        header::PROXY_AUTHORIZATION,
        HeaderName::from_static("keep-alive"),
    ];
    let mut kept = headers.clone();
    HOP.iter().for_each(|name| drop(kept.remove(name)));
    kept
}

fn refused(code: StatusCode, reason: &str, why: &str) -> Response<StreamBody> {
    let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "code": code.as_u16(), "message": why});
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
