//! API servers of `ironclad run` behind a kube-apiserver: their managed certificates, their registration as
//! APIServices, and requests that the kube-apiserver authenticates and authorizes.

pub(crate) mod attributes;
pub(crate) mod delegated;
mod registration;

use std::{collections::BTreeMap, io, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use ironclad_apiserver::{
    ApiError, RequestBody, ResponseBody, Upgrade,
    pki::{self, Pair},
};
use ironclad_seam::Seam;
use ironclad_serving::{Front, Listener, Peer};
use kube::Client;
use tokio::{net::TcpListener, time::Instant};

use self::{
    attributes::{Attributes, verb},
    delegated::{ANSWERS_KEPT, Delegated, REPLICA, User},
    registration::{Registered, register_service, register_version, unregister_version},
};
use crate::{
    CertificateExpiry,
    admission::{Certificates, Purpose, WebhookError, certificates},
    tls::InUse,
};

pub use registration::ServerService;
pub(crate) use registration::unregister;

/// Interval between checks of certificates and registrations.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);
/// Interval at which a process looks whether it is its turn to register.
const TURN_INTERVAL: Duration = Duration::from_secs(1);
/// A version that the kube-apiserver could not reach for this long is unregistered: what can't be reached breaks
/// discovery, and with it the deletion of namespaces.
const UNREACHED_MAX: Duration = Duration::from_secs(90);
/// Time until such a version is registered again.
const REGISTER_AGAIN: Duration = Duration::from_secs(600);
/// Validity of the certificate that a replica shows to others, in days; it is made again with each of the server.
const REPLICA_DAYS: i64 = 365;

/// A version of an API, with the priorities of its group and of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServedVersion {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) priority: (u32, u32),
}

/// Names of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerNames {
    /// Of its Service where none is named, its certificate, its tasks and its field manager.
    pub(crate) server: &'static str,
    /// Of the Secret with its certificates, which all replicas share.
    pub(crate) secret: &'static str,
    /// Of the authority of its certificates.
    pub(crate) authority: &'static str,
    /// Of the flag that names its Service.
    pub(crate) flag: &'static str,
}

/// An API that is served behind a kube-apiserver.
pub(crate) trait AggregatedApi: Send + Sync + 'static {
    fn names(&self) -> ServerNames;

    fn versions(&self) -> Vec<ServedVersion>;

    /// True if this process registers the versions now.
    fn registers(&self) -> bool;

    /// Takes what requests to other replicas need.
    fn take(&self, _: ReplicaAccess) {}

    /// Answers a request that was authorized, by this process or by the replica that passes it on.
    fn answer(&self, request: Request<RequestBody>, by: Sender) -> BoxFuture<'static, Response<ResponseBody>>;
}

/// Sender of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sender {
    /// A user, by a kube-apiserver or another client.
    Client(User),
    /// Another replica of this server.
    Replica,
}

/// Means of a replica to ask the others.
pub(crate) struct ReplicaAccess {
    /// The name in the certificates of the server.
    pub(crate) host_name: String,
    /// The authorities of these certificates, PEM.
    pub(crate) bundle: String,
    /// The certificate that proves to be a replica.
    pub(crate) certificate: Pair,
}

/// Serves an API on a listener, registers it, and maintains certificates and registrations until the tasks are stopped.
/// Returns once it is registered.
///
/// # Errors
/// The control plane rejects the Secret, the Service or an APIService.
pub(crate) async fn serve(
    client: Client,
    listener: TcpListener,
    api: Arc<dyn AggregatedApi>,
    service: ServerService,
    expiry: &CertificateExpiry,
    seam: &Seam,
) -> Result<Registration, WebhookError> {
    let in_use = expiry.in_use(api.names().server);
    let delegated = Delegated::start(client.clone(), in_use.clone(), ANSWERS_KEPT, seam)
        .await
        .map_err(WebhookError::Certificate)?;
    let registration = Registration { client: client.clone(), versions: api.versions() };
    let server = api.names().server;
    let mut keeper = Keeper {
        client,
        service,
        api: api.clone(),
        in_use,
        delegated: delegated.clone(),
        used: None,
        registers: false,
        versions: BTreeMap::new(),
    };
    keeper.renew(seam).await?;
    // Start the server first: a kube-apiserver asks as soon as the versions are registered.
    let answering = Answering { api, delegated: delegated.clone(), seam: seam.clone() };
    let (of_listener, settings) = (seam.clone(), delegated.clone());
    let fallback = delegated.tls().ok_or_else(|| WebhookError::Certificate("no TLS settings".to_owned()))?;
    seam.tasks.spawn(server, async move {
        let config = Arc::new(move || settings.tls().unwrap_or_else(|| fallback.clone()));
        let front = Front::new(move |request, peer| {
            let answering = answering.clone();
            async move { answering.answer(request, peer).await.map(BodyExt::boxed_unsync) }
        });
        Listener::new(listener, Some(config), server).serve(&of_listener.clock, &of_listener.tasks, front).await;
    });
    keeper.check(seam).await?;
    let of_keeper = seam.clone();
    seam.tasks.spawn("registration", async move {
        let mut due = of_keeper.clock.mono() + CHECK_INTERVAL;
        loop {
            tokio::select! {
                biased;
                () = of_keeper.tasks.stopping() => return,
                () = of_keeper.clock.sleep(TURN_INTERVAL) => {}
            }
            if of_keeper.clock.mono() < due && keeper.registers == keeper.api.registers() {
                continue;
            }
            due = of_keeper.clock.mono() + CHECK_INTERVAL;
            if let Err(error) = keeper.check(&of_keeper).await {
                tracing::warn!(%error, server, cause = ?std::error::Error::source(&error).map(ToString::to_string), "checking the registration failed");
            }
        }
    });
    Ok(registration)
}

/// The APIServices of a server, for its end.
pub struct Registration {
    client: Client,
    versions: Vec<ServedVersion>,
}

impl Registration {
    /// Removes the APIServices if no other replica is known to answer: `leads` says whether this process led, `holder`
    /// names the leader that it knows, if any. The tasks of the server must have ended.
    pub async fn end(&self, leads: bool, holder: &str) {
        if !is_removed_at_stop(leads, holder) {
            return;
        }
        for version in &self.versions {
            if let Err(error) = unregister_version(&self.client, *version).await {
                tracing::warn!(%error, "an APIService was not removed; kubectl delete apiservice removes it");
            }
        }
    }
}

/// True if a process that stops takes the APIServices with it. The next leader makes them again; without one they would
/// lead nowhere and break discovery.
fn is_removed_at_stop(leads: bool, holder: &str) -> bool {
    leads || holder.is_empty()
}

/// The state of a version's registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Available,
    Foreign,
    /// Not reached since.
    UnreachedSince(Instant),
    /// Unregistered until.
    GivenUpUntil(Instant),
}

/// Maintains certificates and registrations.
struct Keeper {
    client: Client,
    service: ServerService,
    api: Arc<dyn AggregatedApi>,
    in_use: Arc<InUse>,
    delegated: Arc<Delegated>,
    /// The certificate that is presented, and the authorities that others trust.
    used: Option<(String, String)>,
    /// True if it registered the versions at the last check.
    registers: bool,
    versions: BTreeMap<ServedVersion, State>,
}

impl Keeper {
    /// Renews the certificate if it is due. Returns the authorities to trust.
    async fn renew(&mut self, seam: &Seam) -> Result<String, WebhookError> {
        let ServerNames { server, secret, authority, .. } = self.api.names();
        let host_name = self.service.host_name(server);
        // Replicas are known by this one name, so that their certificate is the same.
        let purpose = Purpose { secret, authority, name: server, hosts: Some(vec![host_name.clone()]) };
        let Certificates { authority, bundle, serving } = certificates(&self.client, &purpose, seam).await?;
        let used = Some((serving.certificate.clone(), bundle.clone()));
        if self.used != used {
            let own = pki::client_certificate(&authority, REPLICA, REPLICA_DAYS, seam);
            let certificate = own.map_err(WebhookError::Certificate)?;
            self.in_use.set(&serving).map_err(WebhookError::Certificate)?;
            self.delegated.trust_replicas(&bundle).map_err(WebhookError::Certificate)?;
            self.api.take(ReplicaAccess { host_name, bundle: bundle.clone(), certificate });
            self.used = used;
        }
        Ok(bundle)
    }

    async fn check(&mut self, seam: &Seam) -> Result<(), WebhookError> {
        let bundle = self.renew(seam).await?;
        let names = self.api.names();
        self.registers = self.api.registers();
        if !self.registers {
            self.versions.clear();
            return Ok(());
        }
        register_service(&self.client, names.server, &self.service).await?;
        for version in self.api.versions() {
            let before = self.versions.get(&version).copied();
            let now = seam.clock.mono();
            if is_given_up(before, now) {
                continue;
            }
            let registered = register_version(&self.client, names.server, version, &self.service, &bundle).await?;
            let after = next(before, &registered, now);
            let api = format!("{}/{}", version.group, version.version);
            match (&after, &registered) {
                (State::GivenUpUntil(_), Registered::Unavailable(why)) => {
                    tracing::warn!(
                        api,
                        why,
                        "the kube-apiserver can't reach {}: its APIService is removed, since it would break discovery; see {}",
                        names.server,
                        names.flag
                    );
                    unregister_version(&self.client, version).await?;
                }
                (State::Foreign, _) if before != Some(State::Foreign) => {
                    tracing::warn!(api, "an APIService of somebody else serves this version: it is left alone");
                }
                _ => {}
            }
            self.versions.insert(version, after);
        }
        Ok(())
    }
}

/// True while a version that was not reached is not registered again.
fn is_given_up(state: Option<State>, now: Instant) -> bool {
    matches!(state, Some(State::GivenUpUntil(until)) if now < until)
}

/// The state of a version after a look at its APIService.
fn next(before: Option<State>, registered: &Registered, now: Instant) -> State {
    match (registered, before) {
        (Registered::Available, _) => State::Available,
        (Registered::Foreign, _) => State::Foreign,
        (Registered::Unavailable(_), Some(State::UnreachedSince(since)))
            if now.saturating_duration_since(since) >= UNREACHED_MAX =>
        {
            State::GivenUpUntil(now + REGISTER_AGAIN)
        }
        (Registered::Unavailable(_), Some(State::UnreachedSince(since))) => State::UnreachedSince(since),
        (Registered::Unavailable(_), _) => State::UnreachedSince(now),
    }
}

/// Answers requests of a kube-apiserver, and of others.
#[derive(Clone)]
struct Answering {
    api: Arc<dyn AggregatedApi>,
    delegated: Arc<Delegated>,
    seam: Seam,
}

impl Answering {
    async fn answer(&self, request: Request<Incoming>, peer: Peer) -> Response<ResponseBody> {
        let path = request.uri().path().to_owned();
        if matches!(path.trim_end_matches('/'), "/readyz" | "/healthz" | "/livez") {
            return Response::new(ResponseBody::full("ok"));
        }
        match self.authorized(&request, &path, &peer).await {
            Ok(by) => {
                let mut request = request.map(|body| body.map_err(io::Error::other).boxed_unsync());
                Upgrade::allow(&mut request, &self.seam.tasks);
                self.api.answer(request, by).await
            }
            Err(error) => failure(&error),
        }
    }

    async fn authorized(&self, request: &Request<Incoming>, path: &str, peer: &Peer) -> Result<Sender, ApiError> {
        if self.delegated.is_replica(peer) {
            return Ok(Sender::Replica);
        }
        let user = match self.delegated.authenticate(request.headers(), peer).await {
            Ok(user) => user,
            Err(why) => {
                tracing::debug!(why, "a request was not authenticated");
                return Err(ApiError::unauthorized());
            }
        };
        let attributes = Attributes::of(path);
        let verb = verb(request.method().as_str(), attributes.as_ref());
        match self.delegated.authorize(&user, &verb, path, attributes.as_ref()).await {
            Ok(()) => Ok(Sender::Client(user)),
            Err(why) => {
                let (resource, group, name) = match &attributes {
                    Some(of) => (of.resource.as_str(), of.group.as_str(), of.name.as_str()),
                    None => ("", "", ""),
                };
                let why = format!("User {:?} cannot {verb} path {path:?}: {why}", user.name);
                Err(ApiError::forbidden(resource, group, name, why.trim_end_matches(": ")))
            }
        }
    }
}

/// The answer that tells an error.
pub(crate) fn failure(error: &ApiError) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(error.status().to_string() + "\n"));
    *response.status_mut() = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_process_takes_the_registration_with_it() {
        for (name, leads, holder, want) in [
            ("the leader stops: the next one registers again", true, "me", true),
            ("a replica stops while another process leads", false, "other", false),
            ("a replica stops while nobody leads", false, "", true),
        ] {
            assert_eq!(is_removed_at_stop(leads, holder), want, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_version_that_is_not_reached_is_given_up_for_a_while() {
        let start = ironclad_seam::Clock::system().mono();
        let at = |seconds| start + Duration::from_secs(seconds);
        let unreached = || Registered::Unavailable("no".into());
        let since = |seconds| Some(State::UnreachedSince(at(seconds)));
        for (name, before, registered, now, want) in [
            ("it is registered", None, unreached(), 0, State::UnreachedSince(at(0))),
            ("it waits", since(0), unreached(), 89, State::UnreachedSince(at(0))),
            ("it is given up", since(0), unreached(), 90, State::GivenUpUntil(at(690))),
            ("it is tried again", Some(State::GivenUpUntil(at(690))), unreached(), 690, State::UnreachedSince(at(690))),
            ("it is reached", since(0), Registered::Available, 80, State::Available),
            ("it is lost", Some(State::Available), unreached(), 100, State::UnreachedSince(at(100))),
            ("somebody else has it", None, Registered::Foreign, 0, State::Foreign),
        ] {
            assert!(!is_given_up(before, at(now)), "{name}");
            assert_eq!(next(before, &registered, at(now)), want, "{name}");
        }
        let given_up = Some(State::GivenUpUntil(at(690)));
        assert!(is_given_up(given_up, at(689)) && !is_given_up(given_up, at(690)) && !is_given_up(None, at(0)));
    }
}
