//! The metrics APIs of `ironclad run`: an API server of its own behind a kube-apiserver, with managed certificates.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use ironclad_apiserver::{ApiError, ResponseBody};
use ironclad_seam::Seam;
use kube::Client;
use tokio::{net::TcpListener, time::Instant};

use super::{
    adapter::MetricsAdapter,
    address::{Address, Group},
    delegated::Delegated,
    registration::{AdapterService, Registered, register_service, register_version, unregister_version},
};
use crate::{
    admission::{Purpose, WebhookError, certificates},
    tls::{self, InUse, Peer},
};

/// Interval between checks of certificates and registrations.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);
/// A version that the kube-apiserver could not reach for this long is unregistered: what can't be reached breaks
/// discovery, and with it the deletion of namespaces.
const UNREACHED_MAX: Duration = Duration::from_secs(90);
/// Time until such a version is registered again.
const REGISTER_AGAIN: Duration = Duration::from_secs(600);

/// Options of the adapter as an API server.
#[derive(Debug, Clone)]
pub struct AdapterOptions {
    /// The Service by which the kube-apiserver finds it.
    pub service: AdapterService,
    /// Further names and addresses of the certificate.
    pub hosts: Vec<String>,
}

/// Serves the metrics APIs on a listener, registers them, and maintains certificates and registrations until the tasks
/// are stopped. Returns once they are registered.
///
/// # Errors
/// The control plane rejects the Secret, the Service or an APIService.
pub async fn serve_metrics(
    client: Client,
    listener: TcpListener,
    adapter: MetricsAdapter,
    options: AdapterOptions,
    seam: &Seam,
) -> Result<(), WebhookError> {
    let mut hosts = options.hosts.clone();
    hosts.push(options.service.server_name());
    hosts.sort();
    hosts.dedup();
    let purpose = Purpose {
        secret: "ironclad-metrics-adapter-certificates",
        authority: "ironclad-metrics-adapter-ca",
        name: "ironclad-metrics-adapter",
        hosts: Some(hosts),
    };
    let in_use = Arc::new(InUse::default());
    let delegated = Delegated::start(client.clone(), in_use.clone(), seam).await.map_err(WebhookError::Certificate)?;
    let mut keeper = Keeper {
        client,
        service: options.service,
        purpose,
        in_use,
        groups: adapter.groups(),
        served: String::new(),
        versions: BTreeMap::new(),
    };
    keeper.renew(seam).await?;
    // Start the server first: a kube-apiserver asks as soon as the versions are registered.
    let answering = Answering { adapter, delegated: delegated.clone() };
    let (of_listener, settings) = (seam.clone(), delegated.clone());
    let fallback = delegated.tls().ok_or_else(|| WebhookError::Certificate("no TLS settings".to_owned()))?;
    seam.tasks.spawn("metrics-adapter", async move {
        let config = move || settings.tls().unwrap_or_else(|| fallback.clone());
        let answer = move |request, peer| {
            let answering = answering.clone();
            async move { answering.answer(request, peer).await }
        };
        tls::serve(listener, config, &of_listener, "metrics-adapter", answer).await;
    });
    keeper.check(seam).await?;
    let of_keeper = seam.clone();
    seam.tasks.spawn("metrics-keeper", async move {
        loop {
            tokio::select! {
                biased;
                () = of_keeper.tasks.stopping() => return,
                () = of_keeper.clock.sleep(CHECK_INTERVAL) => {}
            }
            if let Err(error) = keeper.check(&of_keeper).await {
                tracing::warn!(%error, cause = ?std::error::Error::source(&error).map(ToString::to_string), "checking the registration of the metrics APIs failed");
            }
        }
    });
    Ok(())
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
    service: AdapterService,
    purpose: Purpose,
    in_use: Arc<InUse>,
    groups: Vec<Group>,
    /// The certificate that is presented.
    served: String,
    versions: BTreeMap<(Group, &'static str), State>,
}

impl Keeper {
    /// Renews the certificate if it is due. Returns the authorities to trust.
    async fn renew(&mut self, seam: &Seam) -> Result<String, WebhookError> {
        let found = certificates(&self.client, &self.purpose, seam).await?;
        if self.served != found.serving.certificate {
            self.in_use.set(&found.serving).map_err(WebhookError::Certificate)?;
            self.served.clone_from(&found.serving.certificate);
        }
        Ok(found.bundle)
    }

    async fn check(&mut self, seam: &Seam) -> Result<(), WebhookError> {
        let bundle = self.renew(seam).await?;
        register_service(&self.client, &self.service).await?;
        for group in self.groups.clone() {
            for version in group.versions() {
                let before = self.versions.get(&(group, *version)).copied();
                let now = seam.clock.mono();
                if let Some(State::GivenUpUntil(until)) = before
                    && now < until
                {
                    continue;
                }
                let registered = register_version(&self.client, group, version, &self.service, &bundle).await?;
                let after = next(before, &registered, now);
                let api = format!("{}/{version}", group.name());
                match (&after, &registered) {
                    (State::GivenUpUntil(_), Registered::Unavailable(why)) => {
                        tracing::warn!(
                            api,
                            why,
                            "the kube-apiserver can't reach the metrics adapter: its APIService is removed, since it would break \
                             discovery; see --metrics-adapter-service"
                        );
                        unregister_version(&self.client, group, version).await?;
                    }
                    (State::Foreign, _) if before != Some(State::Foreign) => {
                        tracing::warn!(api, "an APIService of somebody else serves this version: it is left alone");
                    }
                    _ => {}
                }
                self.versions.insert((group, *version), after);
            }
        }
        Ok(())
    }
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
    adapter: MetricsAdapter,
    delegated: Arc<Delegated>,
}

impl Answering {
    async fn answer(&self, request: Request<Incoming>, peer: Peer) -> Response<ResponseBody> {
        let path = request.uri().path().to_owned();
        if matches!(path.trim_end_matches('/'), "/readyz" | "/healthz" | "/livez") {
            return Response::new(ResponseBody::full("ok"));
        }
        match self.authorized(&request, &path, &peer).await {
            Ok(()) => {
                // Nothing that is served here has a body.
                let request = request.map(|_| Bytes::new());
                self.adapter.answer(&request).await
            }
            Err(error) => {
                let mut response = Response::new(ResponseBody::full(error.status().to_string() + "\n"));
                *response.status_mut() = StatusCode::from_u16(error.code).unwrap_or(StatusCode::FORBIDDEN);
                let json = http::HeaderValue::from_static("application/json");
                response.headers_mut().insert(http::header::CONTENT_TYPE, json);
                response
            }
        }
    }

    async fn authorized(&self, request: &Request<Incoming>, path: &str, peer: &Peer) -> Result<(), ApiError> {
        let user = match self.delegated.authenticate(request.headers(), peer).await {
            Ok(user) => user,
            Err(why) => {
                tracing::debug!(why, "a request was not authenticated");
                return Err(ApiError::unauthorized());
            }
        };
        let attributes = Address::attributes(path);
        let verb = match (&attributes, request.method().as_str()) {
            (Some(of), "GET" | "HEAD") if of.name.is_empty() => "list".to_owned(),
            // `.../pods/*/metric`, too: it names an object `*`, as a kube-apiserver reads it.
            (_, "GET" | "HEAD") => "get".to_owned(),
            (_, "POST") => "create".to_owned(),
            (_, "PUT") => "update".to_owned(),
            (_, method) => method.to_lowercase(),
        };
        match self.delegated.authorize(&user, &verb, path, attributes.as_ref()).await {
            Ok(()) => Ok(()),
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

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(next(before, &registered, at(now)), want, "{name}");
        }
    }
}
