//! `clusters/NAME/proxy/PATH`: requests of users to members, with the users' own rights
//! (specification/operations.md 4.2).
//!
//! A member is reached by the credentials of the impersonator, never by those of the controllers, and told who asks.
//! Bodies and answers stream, upgrades are carried, redirects are passed on.

mod address;
mod every;
mod headers;
mod observed;
mod serve;
mod target;
mod tunnel;

use std::{
    io,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use ironclad_apiserver::{
    ApiError, Connects, Identity, RequestBody, ResponseBody, Route, RouteFuture, Server, Upgrade, passed_on,
};
use ironclad_runtime::{Recorder, StreamBody, Tunnels, carry_both};
use ironclad_seam::{Clock, Seam};
use kube::Client;
use tokio::sync::OwnedSemaphorePermit;

use self::{
    address::{Address, Clusters, location, proxy_of},
    observed::Open,
    target::{Target, Targets},
};
use crate::aggregated::failure;

pub(crate) use self::serve::asked;
pub use self::{observed::ProxyObserved, serve::serve_proxy};

/// The subresource of Clusters (specification/operations.md 4.1, 4.2).
pub static CONNECTS: Connects = Connects {
    group: "cluster.karmada.io",
    resource: "clusters",
    subresource: "proxy",
    options: "ClusterProxyOptions",
    verbs: &["create", "delete", "get", "patch", "update"],
};

/// Interval at which it is checked that the user of an open stream may still use the proxy.
const CHECK_EVERY: Duration = Duration::from_secs(30);

/// Authorization of users of the proxy.
pub trait Rights: Send + Sync + 'static {
    /// Checks that the user may send a request with this method to this path of the control plane.
    ///
    /// # Errors
    /// 403 with the reason.
    fn check<'a>(
        &'a self,
        user: &'a Identity,
        method: &'a Method,
        path: &'a str,
    ) -> BoxFuture<'a, Result<(), ApiError>>;
}

/// The rights that an embedded server knows.
impl Rights for Weak<Server> {
    fn check<'a>(
        &'a self,
        user: &'a Identity,
        method: &'a Method,
        path: &'a str,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        let stopping = || ApiError::new(503, "ServiceUnavailable", "the server is stopping");
        let checked = self.upgrade().ok_or_else(stopping).and_then(|server| server.authorize(user, method, path));
        Box::pin(std::future::ready(checked))
    }
}

/// The proxy to all members of a control plane. Cheap to clone.
#[derive(Clone)]
pub struct ClusterProxy(Arc<Shared>);

struct Shared {
    targets: Targets,
    rights: Box<dyn Rights>,
    clock: Clock,
    observed: ProxyObserved,
    events: Recorder,
}

impl ClusterProxy {
    /// A proxy to the members of this control plane, to those in pull mode over these tunnels. The client reads
    /// Clusters, their Secrets and the Works of the impersonator, and writes events about agents.
    pub fn new(plane: Client, rights: impl Rights, seam: &Seam, tunnels: Tunnels, observed: ProxyObserved) -> Self {
        let events = Recorder::new(plane.clone(), seam, "ironclad");
        let targets = Targets::new(plane, seam.clock.clone(), tunnels);
        Self(Arc::new(Shared { targets, rights: Box::new(rights), clock: seam.clock.clone(), observed, events }))
    }

    /// Answers a request that was authorized, unless it is for all clusters: then each of them is authorized here.
    async fn answer(
        self,
        mut request: Request<RequestBody>,
        identity: Identity,
    ) -> Result<Response<ResponseBody>, ApiError> {
        let path = request.uri().path().to_owned();
        let address = Address::of(&path).ok_or_else(ApiError::no_resource)?;
        if !address.stays() {
            return Err(ApiError::bad_request("a path with the segment . or .. is not passed on"));
        }
        let Clusters::One(name) = &address.clusters else { return self.every(request, &address, &identity).await };
        let target = self.0.targets.get(name).await?;
        let upgrade = match request.headers().get(header::UPGRADE).cloned() {
            Some(protocol) => Some((Upgrade::of(&mut request)?, protocol)),
            None => None,
        };
        let verb = observed::verb(request.method(), upgrade.is_some());
        let began = self.0.clock.mono();
        let answered = self.pass_on(&target, request, &address, identity, upgrade).await;
        let code = match &answered {
            Ok(answer) => answer.status(),
            Err(error) => StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        };
        self.0.observed.answered(&target.name, verb, code, self.0.clock.mono() - began);
        answered
    }

    /// Passes a request on to a member, and the answer back.
    async fn pass_on(
        &self,
        target: &Arc<Target>,
        request: Request<RequestBody>,
        address: &Address<'_>,
        identity: Identity,
        upgrade: Option<(Upgrade, HeaderValue)>,
    ) -> Result<Response<ResponseBody>, ApiError> {
        let permit = target.permits.clone().try_acquire_owned().map_err(|_| ApiError::too_many_requests())?;
        let open = self.0.observed.opened(&target.name);
        let (parts, body) = request.into_parts();
        let to_member = open.to_member.clone();
        let body = body.map_frame(move |frame| {
            to_member.inc_by(frame.data_ref().map_or(0, |data| data.len() as u64));
            frame
        });
        let (mut headers, left_out) = headers::outbound(&parts.headers, &identity, &target.may, address.prefix);
        if let Some((_, protocol)) = &upgrade {
            headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(header::UPGRADE, protocol.clone());
        }
        let query = parts.uri.query().map_or_else(String::new, |query| format!("?{query}"));
        let mut sent: Request<StreamBody> = Request::new(body.boxed_unsync());
        *sent.method_mut() = parts.method.clone();
        *sent.headers_mut() = headers;
        *sent.uri_mut() = format!("{}{query}", address.path).parse().map_err(|_| unsendable())?;
        let answer = target.streams.send(sent).await.map_err(|why| target::unreached(&target.name, &why))?;
        let warned = headers::left_out(&left_out, &target.name);
        let watched = Watched { shared: self.0.clone(), method: parts.method, path: proxy_of(&target.name), identity };
        let underway = Underway { open, _permit: permit };
        let mut passed = match upgrade {
            Some((upgrade, protocol)) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => {
                carry(upgrade, protocol, answer, watched, underway)
            }
            _ => {
                let (parts, body) = answer.into_parts();
                let mut passed = Response::new(ResponseBody::boxed(Guarded {
                    body,
                    revoked: Box::pin(watched.revoked()),
                    underway,
                }));
                *passed.status_mut() = parts.status;
                *passed.headers_mut() = passed_on(&parts.headers);
                passed
            }
        };
        let headers = passed.headers_mut();
        if let Some(value) = headers.get(header::LOCATION).and_then(|value| value.to_str().ok()) {
            let through = location(value, target.streams.server(), address.prefix);
            headers.insert(header::LOCATION, HeaderValue::try_from(through).map_err(|_| unsendable())?);
        }
        if let Some(warning) = warned {
            headers.append(header::WARNING, warning);
        }
        Ok(passed)
    }
}

impl Route for ClusterProxy {
    fn takes(&self, path: &str) -> bool {
        Address::of(path).is_some() || tunnel::cluster_of(path).is_some()
    }

    fn authorizes(&self, path: &str) -> bool {
        Address::of(path).is_some_and(|address| address.clusters == Clusters::Every)
    }

    fn connects(&self) -> Option<&'static Connects> {
        Some(&CONNECTS)
    }

    fn call(&self, request: Request<RequestBody>, identity: Identity) -> RouteFuture {
        let this = self.clone();
        Box::pin(async move {
            let answered = match tunnel::cluster_of(request.uri().path()) {
                Some(_) => this.tunnel(request, identity),
                None => this.answer(request, identity).await,
            };
            answered.unwrap_or_else(|error| failure(&error))
        })
    }
}

fn unsendable() -> ApiError {
    ApiError::bad_request("the path can't be passed on")
}

/// The user of an open stream.
struct Watched {
    shared: Arc<Shared>,
    method: Method,
    path: String,
    identity: Identity,
}

impl Watched {
    /// Resolves once the user may not use the proxy any more.
    async fn revoked(self) {
        loop {
            self.shared.clock.sleep(CHECK_EVERY).await;
            let checked = self.shared.rights.check(&self.identity, &self.method, &self.path).await;
            if checked.is_err_and(|error| error.code == 403) {
                return;
            }
        }
    }
}

/// Answers 101 as the member did, and carries bytes both ways until one side ends, or the right to use the
/// proxy is taken away.
fn carry(
    upgrade: Upgrade,
    protocol: HeaderValue,
    mut answer: Response<Incoming>,
    watched: Watched,
    underway: Underway,
) -> Response<ResponseBody> {
    let member = hyper::upgrade::on(&mut answer);
    let protocol = answer.headers().get(header::UPGRADE).cloned().unwrap_or(protocol);
    let name = watched.path.clone();
    let mut switching = upgrade.switch(protocol, move |client| async move {
        let carried = async {
            match member.await {
                Ok(member) => {
                    let (to_member, from_member) = carry_both(client, TokioIo::new(member)).await;
                    underway.open.to_member.inc_by(to_member);
                    underway.open.from_member.inc_by(from_member);
                }
                Err(error) => tracing::debug!(%error, proxy = name, "a connection was not handed over"),
            }
        };
        tokio::select! {
            biased;
            () = watched.revoked() => {}
            () = carried => {}
        }
    });
    for (name, value) in &passed_on(answer.headers()) {
        switching.headers_mut().append(name.clone(), value.clone());
    }
    switching
}

/// Count and permit of a stream to a member, for as long as it lasts.
struct Underway {
    open: Open,
    _permit: OwnedSemaphorePermit,
}

/// The body of a member's answer, which is cut off when the user may not read it any more.
struct Guarded<R> {
    body: Incoming,
    revoked: Pin<Box<R>>,
    underway: Underway,
}

impl<R: Future<Output = ()> + Send> Body for Guarded<R> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.revoked.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(io::Error::other("the right to use the proxy was taken away"))));
        }
        let polled = Pin::new(&mut self.body).poll_frame(cx).map_err(io::Error::other);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.underway.open.from_member.inc_by(frame.data_ref().map_or(0, |data| data.len() as u64));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Grants the first checks, and refuses the others.
    struct Until(AtomicUsize);

    impl Rights for Until {
        fn check<'a>(&'a self, _: &'a Identity, _: &'a Method, _: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
            let left = self.0.load(Ordering::SeqCst);
            self.0.store(left.saturating_sub(1), Ordering::SeqCst);
            let refused = || ApiError::forbidden("clusters", "cluster.karmada.io", "m1", "no");
            Box::pin(std::future::ready(if left > 0 { Ok(()) } else { Err(refused()) }))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_stream_ends_within_a_minute_of_the_loss_of_its_right() {
        let clock = Clock::system();
        let unreached = tower::service_fn(|_: Request<kube::client::Body>| async {
            Err::<Response<kube::client::Body>, _>(io::Error::other("not asked"))
        });
        let client = Client::new(unreached, "default");
        let events = Recorder::new(client.clone(), &Seam::system("test"), "test");
        let targets = Targets::new(client, clock.clone(), Tunnels::default());
        let (rights, observed) = (Box::new(Until(AtomicUsize::new(3))), ProxyObserved::default());
        let shared = Shared { targets, rights, clock: clock.clone(), observed, events };
        let (method, identity) = (Method::GET, Identity::user("ann", &[]));
        let began = clock.mono();
        Watched { shared: Arc::new(shared), method, path: proxy_of("m1"), identity }.revoked().await;
        assert_eq!((clock.mono() - began).as_secs(), 120, "granted at 30, 60 and 90 s");
    }
}
