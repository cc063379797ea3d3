//! The agent's end of a tunnel: it passes the control plane's requests on to its member, with credentials of the member
//! that never leave it (specification/operations.md 10.3).

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::FutureExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use ironclad_api::{
    agents::tunnel_path,
    names::IMPERSONATOR,
    namespaces::{self},
};
use ironclad_runtime::{Api, HELD, REPLICA, StreamBody, Streams, TUNNEL, carry_both, serve_tunnel};
use ironclad_seam::{Seam, Tasks};
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
use tokio::{sync::Notify, time::Instant};

/// Life of a token of the impersonator, in seconds.
const TOKEN_SECONDS: i64 = 3_600;
/// Time after which a new token is asked for.
const TOKEN_KEPT: Duration = Duration::from_secs(2_400);
/// Longest time between two attempts to open a tunnel.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Longest time until it is looked again whether there is one more replica.
const LOOK_MAX: Duration = Duration::from_secs(300);

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
    seam: Seam,
}

impl TunnelledMember {
    /// The member of this configuration, to which `client` is one. Connections that are taken over are tasks of `seam`.
    ///
    /// # Errors
    /// One line that says what in the configuration can't be used.
    pub fn new(config: Config, client: Client, seam: &Seam) -> Result<Self, String> {
        let own = Streams::by_config(config.clone())?;
        Ok(Self(Arc::new(Parts { config, client, own, impersonator: Mutex::default(), seam: seam.clone() })))
    }

    /// Passes a request on: one that names a user as the impersonator, so that the member decides about the user.
    async fn pass_on(self, mut request: Request<Incoming>) -> Response<StreamBody> {
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
            Err(why) => return unavailable(&why),
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

fn unavailable(why: &str) -> Response<StreamBody> {
    let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": "ServiceUnavailable", "code": 503, "message": format!("the member does not answer its agent: {why}")});
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// Holds a tunnel of a cluster open to each replica of the control plane, over which these reach the member. All
/// replicas have one address: a load balancer decides which of them answers, so another tunnel is asked for again and
/// again, less and less often while no replica is new. `plane` makes the configuration of the control plane anew each
/// time; `told` gets to know whether a tunnel is open, or why there is none.
pub async fn hold_tunnels<F, R>(
    plane: F,
    told: impl Fn(Result<(), String>),
    member: TunnelledMember,
    cluster: &str,
    seam: &Seam,
) where
    F: Fn() -> R,
    R: Future<Output = Result<Config, String>>,
{
    let jitter = seam.rng.stream("tunnel");
    let held = Held::default();
    let mut pace = Pace::default();
    loop {
        let opened = match plane().await {
            Ok(config) => open(config, cluster, &held.names()).await,
            Err(why) => Err(why),
        };
        let found = match opened {
            Ok(Some(tunnel)) => {
                tracing::info!(replica = tunnel.replica, "a tunnel to the control plane is open");
                let found = if tunnel.replica.is_some() { Found::Another } else { Found::TheOnly };
                held.serve(tunnel, member.clone(), &seam.tasks);
                told(Ok(()));
                found
            }
            Ok(None) => Found::Known,
            Err(why) => {
                if held.names().is_empty() {
                    tracing::warn!(why, "there is no tunnel to the control plane: it does not reach the member");
                    told(Err(why));
                } else {
                    tracing::debug!(why, "no further tunnel to the control plane was opened");
                }
                Found::Nothing
            }
        };
        let wait = pace.after(found);
        let next = async {
            match wait {
                Some(wait) => seam.clock.sleep(wait / 2 + jitter.duration_up_to(wait / 2)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = held.0.ended.notified() => {
                if held.names().is_empty() {
                    told(Err("it ended".to_owned()));
                }
                pace = Pace::default();
                seam.clock.sleep(jitter.duration_up_to(pace.wait)).await;
            }
            () = next => {}
        }
    }
}

/// The result of an attempt to open a tunnel.
#[derive(Clone, Copy)]
enum Found {
    /// A replica to which there was none.
    Another,
    /// One of which there are no others.
    TheOnly,
    /// A replica that has one.
    Known,
    Nothing,
}

/// Times of attempts to open tunnels.
struct Pace {
    wait: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { wait: Duration::from_secs(1) }
    }
}

impl Pace {
    /// Time until the next attempt; none while the tunnel that there is lives.
    fn after(&mut self, found: Found) -> Option<Duration> {
        let max = match found {
            Found::TheOnly => return None,
            Found::Another => {
                *self = Self::default();
                return Some(self.wait);
            }
            Found::Known => LOOK_MAX,
            Found::Nothing => RETRY_MAX,
        };
        let wait = self.wait.min(max);
        self.wait = (wait * 2).min(max);
        Some(wait)
    }
}

/// The tunnels of this agent.
#[derive(Clone, Default)]
struct Held(Arc<Replicas>);

#[derive(Default)]
struct Replicas {
    /// The newest tunnel to each.
    newest: Mutex<BTreeMap<String, u64>>,
    made: AtomicU64,
    ended: Notify,
}

impl Held {
    /// The replicas to which they lead. One that has no name has the empty one.
    fn names(&self) -> Vec<String> {
        self.0.newest.lock().keys().cloned().collect()
    }

    /// Passes on what comes over a tunnel until it ends.
    fn serve(&self, tunnel: Tunnel, member: TunnelledMember, tasks: &Tasks) {
        let (held, of_streams) = (self.clone(), tasks.clone());
        let name = tunnel.replica.unwrap_or_default();
        let id = held.0.made.fetch_add(1, Ordering::Relaxed);
        held.0.newest.lock().insert(name.clone(), id);
        tasks.spawn("tunnel", async move {
            let answer = Answer::new(move |request| member.clone().pass_on(request).map(Ok));
            match serve_tunnel(TokioIo::new(tunnel.connection), &of_streams, answer).await {
                Ok(()) => tracing::info!(replica = name, "a tunnel to the control plane ended"),
                Err(error) => tracing::warn!(replica = name, %error, "a tunnel to the control plane broke"),
            }
            {
                let mut newest = held.0.newest.lock();
                if newest.get(&name) == Some(&id) {
                    newest.remove(&name);
                }
            }
            held.0.ended.notify_one();
        });
    }
}

struct Tunnel {
    /// The process in which it ends, if there may be several.
    replica: Option<String>,
    connection: Upgraded,
}

/// Opens a tunnel; none where the replica that answers has one.
async fn open(plane: Config, cluster: &str, held: &[String]) -> Result<Option<Tunnel>, String> {
    let mut request: Request<StreamBody> = Request::new(Full::default().map_err(|never| match never {}).boxed_unsync());
    *request.uri_mut() = tunnel_path(cluster).parse().map_err(|error| format!("cluster {cluster:?}: {error}"))?;
    request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    request.headers_mut().insert(header::UPGRADE, HeaderValue::from_static(TUNNEL));
    request.headers_mut().extend(HeaderValue::try_from(held.join(",")).ok().map(|names| (HELD, names)));
    let mut answer = Streams::by_config(plane)?.send(request).await?;
    match answer.status() {
        StatusCode::SWITCHING_PROTOCOLS => {}
        StatusCode::CONFLICT if !held.is_empty() => return Ok(None),
        status => {
            let body = answer.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let told: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let message = told["message"].as_str().unwrap_or_default();
            return Err(format!("the control plane answers {status} {message}"));
        }
    }
    let replica = answer.headers().get(REPLICA).and_then(|name| name.to_str().ok()).map(str::to_owned);
    let connection = hyper::upgrade::on(&mut answer).await.map_err(|error| error.to_string())?;
    Ok(Some(Tunnel { replica, connection }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_rarer_while_no_replica_is_new() {
        let mut pace = Pace::default();
        let mut seconds = |found| pace.after(found).map(|wait| wait.as_secs());
        let known: Vec<_> = std::iter::repeat_with(|| seconds(Found::Known)).take(10).flatten().collect();
        assert_eq!(known, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(seconds(Found::Nothing), Some(30), "a failure is tried again soon");
        assert_eq!(seconds(Found::Another), Some(1));
        assert_eq!(seconds(Found::Known), Some(1));
        let failures: Vec<_> = std::iter::repeat_with(|| seconds(Found::Nothing)).take(6).flatten().collect();
        assert_eq!(failures, [2, 4, 8, 16, 30, 30]);
        assert_eq!(seconds(Found::TheOnly), None);
    }
}
