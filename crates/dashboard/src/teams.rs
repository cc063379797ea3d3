//! The dashboard of a team: a listener with TLS, at which each user logs in with a bearer token of the control plane.
//!
//! Views are computed, and actions done, with the token of their session, never with rights of the program. Documents
//! and scripts are the same for everybody, and need no session.

use std::{fmt, io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header, request::Parts};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use ironclad_seam::{Clock, Tasks};
use ironclad_serving::{Body, Front, Listener, Settings};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{net::TcpListener, sync::Semaphore};

use crate::{
    answer::{self, answer},
    assets,
    desk::{Desk, Jobs, Served, desk},
    door::{self, Address, LOGIN, Refusal},
    route::{Route, pairs, route},
    secret::Secret,
    serve::{SHOWN, act, asked, nothing, plan_apply, texts},
    sessions::{Attempts, Found, Proof, STREAMS_EACH, Sessions},
    stream,
    token::{TOKEN_MAX, Token},
    views::{Failed, Users},
};

/// Streams of all sessions at once.
const STREAMS_MAX: usize = 128;
/// Views that are computed at once, of all sessions.
const LOOKS_MAX: usize = 8;
/// Actions that are under way at once, of all sessions.
const ACTS_MAX: usize = 32;
/// Users whose tokens are asked about at once.
const ADMISSIONS_MAX: usize = 4;
/// Time for the answer whose token it is.
const ADMISSION_MAX: Duration = Duration::from_secs(30);
/// Time for the body of a form.
const FORM_MAX: Duration = Duration::from_secs(10);
/// Bytes of a form: each byte of a token may be three.
const FORM_BYTES: usize = 3 * TOKEN_MAX + 64;
/// Bytes of the head of a request, which may have a token.
const HEAD_MAX: usize = 2 * TOKEN_MAX;
/// Name of the cookie. Browsers take one of this prefix over TLS only, for this host and all of its paths.
const COOKIE: &str = "__Host-ironclad-dashboard";

/// State of all requests.
struct Shared {
    address: Address,
    sessions: Arc<Mutex<Sessions>>,
    attempts: Mutex<Attempts>,
    admissions: Semaphore,
    desk: Desk,
    streams: Arc<Semaphore>,
    clock: Clock,
    /// True if users can change something.
    writes: bool,
}

/// The dashboard for users who log in.
pub struct TeamDashboard {
    listener: TcpListener,
    tls: Settings,
    shared: Shared,
    jobs: Jobs,
}

impl fmt::Debug for TeamDashboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TeamDashboard").field("address", &self.shared.address).finish_non_exhaustive()
    }
}

/// Reason for which nobody was logged in, as the page says it. No text of others is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotBegun {
    /// The control plane does not know the token, or it can be none.
    Unknown,
    /// Too many attempts of all users together.
    TooMany,
    /// The control plane did not answer.
    Unanswered,
    /// A proxy in front logs users in.
    Proxied,
    /// The form was too long, or did not come.
    Form,
    /// The system gives no randomness.
    Randomness,
}

impl NotBegun {
    fn told(self) -> (u16, &'static str) {
        match self {
            Self::Unknown => (401, "The control plane does not accept this token."),
            Self::TooMany => (429, "Too many people log in at once. Try again in a moment."),
            Self::Unanswered => {
                (503, "The control plane did not say whose token this is. The log of ironclad run says why.")
            }
            Self::Proxied => (
                401,
                "A proxy in front of this page sends the tokens of users, and the control plane did not accept yours. \
                 What is entered here is not used.",
            ),
            Self::Form => (400, "The form was not complete, or too long."),
            Self::Randomness => (500, "The operating system gives no randomness."),
        }
    }
}

impl TeamDashboard {
    /// Serves at this listener with these TLS settings, under these names and addresses of it, at any port.
    #[must_use]
    pub fn new(listener: TcpListener, tls: Settings, hosts: Vec<String>, clock: &Clock) -> Self {
        let (desk, jobs) = desk(LOOKS_MAX, ACTS_MAX, clock);
        let shared = Shared {
            address: Address::Named(hosts),
            sessions: Arc::default(),
            attempts: Mutex::new(Attempts::new(clock.mono())),
            admissions: Semaphore::new(ADMISSIONS_MAX),
            desk,
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            clock: clock.clone(),
            writes: false,
        };
        Self { listener, tls, shared, jobs }
    }

    /// Serves until the tasks are stopped. Views are computed, and actions done, by the caller's task.
    pub async fn serve(self, users: &dyn Users, clock: &Clock, tasks: &Tasks) {
        let Self { listener, tls, shared, jobs } = self;
        let shared = Arc::new(Shared { writes: users.can_act(), ..shared });
        let of_front = shared.clone();
        let front = Front::new(move |request, _peer| {
            let shared = of_front.clone();
            async move { shared.respond(request).await }
        });
        let (group, of_listener) = (tasks.clone(), clock.clone());
        let mut listener = Listener::new(listener, Some(tls), "dashboard");
        listener.bounds.head_bytes = Some(HEAD_MAX);
        tasks.spawn("dashboard", async move { listener.serve(&of_listener, &group, front).await });
        let swept = || shared.sessions.lock().sweep(clock.mono());
        jobs.work(Served::Many(users), clock, tasks, swept).await;
    }
}

/// Methods of a target.
fn methods(route: &Route, writes: bool) -> &'static [&'static str] {
    match route {
        Route::Do(_) if writes => &["POST"],
        Route::PlanApply => &["POST"],
        Route::Login(_) => &["GET", "HEAD", "POST"],
        Route::Logout => &["POST"],
        _ => &SHOWN,
    }
}

impl Shared {
    async fn respond(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let route = route(head.uri.path(), head.uri.query().unwrap_or_default());
        // Links in other pages lead here: what they get has nothing of the fleet.
        let is_public = matches!(route, Route::Page | Route::Login(_));
        if let Err(refusal) = door::check(&asked(&head, is_public), &self.address, methods(&route, self.writes)) {
            return self.refused(refusal);
        }
        match route {
            Route::Page => answer::file(&assets::DOCUMENT, &head.headers),
            Route::File(name) => match assets::file(&name) {
                Some(file) => answer::file(file, &head.headers),
                None => nothing(),
            },
            Route::Login(_) if head.method == Method::POST => self.log_in(&head, body).await,
            Route::Login(_) => match bearer(&head) {
                None => answer::login(200, page(None)),
                Some(_) => not_begun(NotBegun::Proxied),
            },
            Route::Logout => self.log_out(&head),
            Route::Do(_) if !self.writes => nothing(),
            Route::None => nothing(),
            Route::Do(_) | Route::PlanApply | Route::Session | Route::View(..) | Route::Follow(..) => {
                match self.session(&head).await {
                    Ok(Some(session)) => self.of_session(route, &head, body, &session).await,
                    Ok(None) => self.refused(Refusal::Session),
                    Err(NotBegun::Unknown) => answer::log_in_first(NotBegun::Proxied.told().1.to_owned()),
                    Err(why) => {
                        let (status, text) = why.told();
                        answer::text(status, text.to_owned())
                    }
                }
            }
        }
    }

    async fn of_session(&self, route: Route, head: &Parts, body: Incoming, session: &Found) -> Response<Body> {
        let desk = || self.desk.of(session, self.sessions.clone());
        match route {
            Route::Session => {
                let (csrf, writes) = (session.csrf.text(), self.writes);
                let (user, logout) = (&session.user, session.can_end);
                let told = json!({ "user": user, "login": true, "logout": logout, "csrf": csrf, "writes": writes });
                answer::view(Ok(told))
            }
            Route::PlanApply => plan_apply(&desk(), &self.address, &session.csrf, head, body).await,
            Route::Do(name) => {
                tracing::info!(user = session.user, action = name, "a page of the dashboard asks for an action");
                act(&desk(), &self.address, &session.csrf, &name, head, body).await
            }
            Route::View(question, wanted) => answer::view(desk().look(&question, &wanted).await),
            Route::Follow(..) if head.method == Method::HEAD => answer(200, "text/event-stream", ""),
            Route::Follow(question, wanted) => {
                let Ok(own) = session.streams.clone().try_acquire_owned() else {
                    return answer::text(503, format!("{STREAMS_EACH} pages are open: close some"));
                };
                let Ok(shared) = self.streams.clone().try_acquire_owned() else {
                    return answer::text(503, format!("{STREAMS_MAX} pages of all users are open"));
                };
                stream::follow(desk(), self.clock.clone(), question, wanted, vec![own, shared])
            }
            _ => nothing(),
        }
    }

    /// The session of a request. The token of a proxy decides alone, and begins one where there is none.
    async fn session(&self, head: &Parts) -> Result<Option<Found>, NotBegun> {
        let Some(token) = bearer(head) else {
            let cookies = door::cookies(texts(&head.headers, &header::COOKIE), COOKIE);
            return Ok(self.sessions.lock().by_cookie(cookies, self.clock.mono()));
        };
        let token = Token::parse(token).ok_or(NotBegun::Unknown)?;
        let digest = token.digest();
        if let Some(found) = self.sessions.lock().by_header(digest, self.clock.mono()) {
            return Ok(Some(found));
        }
        self.begin(token, Proof::Header(digest)).await.map(Some)
    }

    /// Begins a session, if the control plane knows the token.
    async fn begin(&self, token: Token, proof: Proof) -> Result<Found, NotBegun> {
        let Ok(_turn) = self.admissions.acquire().await else { return Err(NotBegun::Unanswered) };
        // Requests of one page come together; the first of them began it.
        if let Proof::Header(digest) = &proof
            && let Some(found) = self.sessions.lock().by_header(*digest, self.clock.mono())
        {
            return Ok(found);
        }
        if !self.attempts.lock().take(self.clock.mono()) {
            return Err(NotBegun::TooMany);
        }
        let admission = self.desk.admit(token, ADMISSION_MAX).await.map_err(|failed| match failed {
            Failed { status: 401, .. } => NotBegun::Unknown,
            Failed { what, because, .. } => {
                tracing::warn!(what, ?because, "the control plane did not say whose token logs in to the dashboard");
                NotBegun::Unanswered
            }
        })?;
        let csrf = Secret::new().map_err(|_: io::Error| NotBegun::Randomness)?;
        tracing::info!(user = admission.user, "a session of the dashboard began");
        Ok(self.sessions.lock().begin(admission, proof, csrf, self.clock.mono()))
    }

    async fn log_in(&self, head: &Parts, body: Incoming) -> Response<Body> {
        if bearer(head).is_some() {
            return not_begun(NotBegun::Proxied);
        }
        let read = Limited::new(body, FORM_BYTES).collect();
        let form: Bytes = tokio::select! {
            biased;
            read = read => match read {
                Ok(read) => read.to_bytes(),
                Err(_) => return not_begun(NotBegun::Form),
            },
            () = self.clock.sleep(FORM_MAX) => return not_begun(NotBegun::Form),
        };
        let pairs = pairs(&String::from_utf8_lossy(&form));
        let token = pairs.iter().find(|(name, _)| name == "token").and_then(|(_, value)| Token::parse(value));
        let Some(token) = token else { return not_begun(NotBegun::Unknown) };
        let begun: Result<Secret, NotBegun> = async {
            let secret = Secret::new().map_err(|_: io::Error| NotBegun::Randomness)?;
            self.begin(token, Proof::Cookie(secret.clone())).await?;
            Ok(secret)
        }
        .await;
        match begun {
            Ok(secret) => {
                // The browser forgets the cookie that it had.
                self.end_session(head);
                with_cookie(answer::go_on("/"), secret.text(), "")
            }
            Err(why) => not_begun(why),
        }
    }

    /// Ends the session of a request's cookie, if it has one.
    fn end_session(&self, head: &Parts) {
        let cookies = door::cookies(texts(&head.headers, &header::COOKIE), COOKIE);
        let mut sessions = self.sessions.lock();
        if let Some(found) = sessions.by_cookie(cookies, self.clock.mono()) {
            sessions.end(found.id);
        }
    }

    fn log_out(&self, head: &Parts) -> Response<Body> {
        self.end_session(head);
        with_cookie(answer::go_on(LOGIN), "", "; Max-Age=0")
    }

    fn refused(&self, refusal: Refusal) -> Response<Body> {
        let (status, text) = refusal.told(&self.address);
        if refusal == Refusal::Session { answer::log_in_first(text) } else { answer::text(status, text) }
    }
}

fn bearer(head: &Parts) -> Option<&str> {
    door::bearer(texts(&head.headers, &header::AUTHORIZATION))
}

fn with_cookie(mut answer: Response<Body>, value: &str, more: &str) -> Response<Body> {
    let cookie = format!("{COOKIE}={value}; Path=/; Secure; HttpOnly; SameSite=Strict{more}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    answer
}

fn not_begun(why: NotBegun) -> Response<Body> {
    let (status, text) = why.told();
    answer::login(status, page(Some(text)))
}

/// The page at which a user logs in, with the reason why that failed before.
fn page(message: Option<&'static str>) -> String {
    const MARK: &str = "<!--message-->";
    let message = message.map(|text| format!("<p class=\"refused\" role=\"alert\">{text}</p>"));
    assets::LOGIN.replace(MARK, &message.unwrap_or_default())
}
