//! The dashboard of one user: a port of the user's machine, and an address whose secret begins a session.
//!
//! Views are computed where [`Dashboard::serve`] is awaited, as their futures need not be `Send`; requests come from
//! the tasks of connections.

use std::{fmt, io, net::Ipv4Addr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header, request::Parts};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use ironclad_seam::{Clock, Tasks};
use ironclad_serving::{Body, Front, Listener};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{net::TcpListener, sync::Semaphore};

use crate::{
    action::{self, Actions},
    answer::{self, answer},
    assets,
    desk::{Desk, Jobs, Served, desk},
    door::{self, Address, Asked, Refusal},
    route::{Route, route},
    rows::Wanted,
    secret::{Keys, Secret},
    stream,
    views::{Change, Failed, Question, Views},
};

/// Streams at once: one for each open tab.
const STREAMS_MAX: usize = 32;
/// Views that are computed at once; further questions wait.
const LOOKS_MAX: usize = 4;
/// Actions that are under way at once.
const ACTS_MAX: usize = 4;
/// Bytes of the head of a request.
const HEAD_MAX: usize = 16 * 1024;
/// Bytes of the body of a plan for manifests.
const MANIFESTS_MAX: usize = 256 * 1024;
/// Time for the body of a request.
const BODY_WAIT: Duration = Duration::from_secs(10);
/// Methods that are answered.
pub(crate) const SHOWN: [&str; 2] = ["GET", "HEAD"];

/// State of all requests.
struct Shared {
    address: Address,
    /// `127.0.0.1:PORT`.
    authority: String,
    cookie: String,
    keys: Mutex<Keys>,
    desk: Desk,
    streams: Arc<Semaphore>,
    clock: Clock,
    /// True if there are actions.
    writes: bool,
    /// Told the next address when one was used.
    announce: Box<dyn Fn(&str) + Send + Sync>,
}

/// The dashboard on a loopback port.
pub struct Dashboard {
    listener: TcpListener,
    shared: Shared,
    jobs: Jobs,
}

impl fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dashboard").field("authority", &self.shared.authority).finish_non_exhaustive()
    }
}

impl Dashboard {
    /// Listens on this port of 127.0.0.1, 0 for a free one. An address with a secret begins one session; `announce`
    /// is told the next one when it was used.
    ///
    /// # Errors
    /// The port is in use, or the system gives no randomness.
    pub async fn bind(port: u16, clock: &Clock, announce: impl Fn(&str) + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let (desk, jobs) = desk(LOOKS_MAX, ACTS_MAX, clock);
        let shared = Shared {
            address: Address::Loopback(address.to_string()),
            authority: address.to_string(),
            // Cookies are shared by all ports of a host.
            cookie: format!("ironclad-dashboard-{}", address.port()),
            keys: Mutex::new(Keys::new()?),
            desk,
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            clock: clock.clone(),
            writes: false,
            announce: Box::new(announce),
        };
        Ok(Self { listener, shared, jobs })
    }

    /// The address that begins a session, once.
    #[must_use]
    pub fn address(&self) -> String {
        self.shared.login_address()
    }

    /// Serves until the tasks are stopped. Views are computed by the caller's task, and without actions that is all.
    pub async fn serve(self, views: &dyn Views, actions: Option<&dyn Actions>, clock: &Clock, tasks: &Tasks) {
        let Self { listener, shared, jobs } = self;
        let shared = Arc::new(Shared { writes: actions.is_some(), ..shared });
        let front = Front::new(move |request, _peer| {
            let shared = shared.clone();
            async move { shared.respond(request).await }
        });
        let (group, of_listener) = (tasks.clone(), clock.clone());
        let mut listener = Listener::new(listener, None, "dashboard");
        listener.bounds.head_bytes = Some(HEAD_MAX);
        tasks.spawn("dashboard", async move { listener.serve(&of_listener, &group, front).await });
        jobs.work(Served::One(views, actions), clock, tasks, || ()).await;
    }
}

impl Shared {
    fn login_address(&self) -> String {
        format!("http://{}{}?secret={}", self.authority, door::LOGIN, self.keys.lock().next().text())
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let route = route(head.uri.path(), head.uri.query().unwrap_or_default());
        // The address with the secret may be opened from anywhere: it is worth what the secret is.
        let is_public = matches!(route, Route::Login(_));
        let methods: &[&str] = match &route {
            Route::PlanApply => &["POST"],
            Route::Do(_) if self.writes => &["POST"],
            _ => &SHOWN,
        };
        if let Err(refusal) = door::check(&asked(&head, is_public), &self.address, methods) {
            return self.refused(refusal);
        }
        if let Route::Login(secret) = &route {
            return self.login(secret);
        }
        let cookies = door::cookies(texts(&head.headers, &header::COOKIE), &self.cookie);
        let csrf = self.keys.lock().csrf(cookies, self.clock.mono()).cloned();
        let Some(csrf) = csrf else { return self.refused(Refusal::Session) };
        match route {
            Route::Page => answer::file(&assets::DOCUMENT, &head.headers),
            Route::File(name) => match assets::file(&name) {
                Some(file) => answer::file(file, &head.headers),
                None => nothing(),
            },
            Route::View(question, wanted) => answer::view(self.desk.look(&question, &wanted).await),
            Route::Follow(..) if head.method == http::Method::HEAD => answer(200, "text/event-stream", ""),
            Route::Follow(question, wanted) => match self.streams.clone().try_acquire_owned() {
                Ok(slot) => stream::follow(self.desk.clone(), self.clock.clone(), question, wanted, vec![slot]),
                Err(_) => answer::text(503, format!("{STREAMS_MAX} pages are open: close some")),
            },
            // Nobody logs in here.
            Route::Session => {
                let (csrf, writes) = (csrf.text(), self.writes);
                let told = json!({ "user": null, "login": false, "logout": false, "csrf": csrf, "writes": writes });
                answer::view(Ok(told))
            }
            Route::PlanApply => plan_apply(&self.desk, &self.address, &csrf, &head, body).await,
            Route::Do(name) if self.writes => act(&self.desk, &self.address, &csrf, &name, &head, body).await,
            Route::Do(_) | Route::Login(_) | Route::Logout | Route::None => nothing(),
        }
    }

    fn login(&self, secret: &str) -> Response<Body> {
        let redeemed = self.keys.lock().redeem(secret, self.clock.mono());
        match redeemed {
            Ok(Some(session)) => {
                (self.announce)(&self.login_address());
                let name = &self.cookie;
                answer::begin(&format!("{name}={}; Path=/; HttpOnly; SameSite=Strict", session.text()))
            }
            Ok(None) => self.refused(Refusal::Secret),
            Err(error) => answer::text(500, error.to_string()),
        }
    }

    fn refused(&self, refusal: Refusal) -> Response<Body> {
        let (status, text) = refusal.told(&self.address);
        answer::text(status, text)
    }
}

/// Does what a page of the session with this secret asks for.
pub(crate) async fn act(
    desk: &Desk,
    address: &Address,
    csrf: &Secret,
    name: &str,
    head: &Parts,
    body: Incoming,
) -> Response<Body> {
    let body = match sent(desk, address, csrf, head, body, action::BODY_MAX).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    answer::view(match action::wish(name, &body) {
        Ok(wish) => desk.act(wish).await,
        Err(failed) => Err(failed),
    })
}

/// Plans for manifests that a page of the session with this secret sends. Nothing is written.
pub(crate) async fn plan_apply(
    desk: &Desk,
    address: &Address,
    csrf: &Secret,
    head: &Parts,
    body: Incoming,
) -> Response<Body> {
    let body = match sent(desk, address, csrf, head, body, MANIFESTS_MAX).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    answer::view(match serde_json::from_slice(&body) {
        // Browsers log every answer that is an error, and what is being written is wrong most of the time.
        Ok(manifests) => {
            let planned = desk.look(&Question::Plan(Change::Apply(manifests)), &Wanted::default()).await;
            Ok(planned.unwrap_or_else(|failed| json!({ "failed": failed })))
        }
        Err(error) => Err(Failed::new(400, &format!("the body of the plan can't be read: {error}"))),
    })
}

/// The JSON body that a page of the session with this secret sends, of so many bytes at most.
async fn sent(
    desk: &Desk,
    address: &Address,
    csrf: &Secret,
    head: &Parts,
    body: Incoming,
    max: usize,
) -> Result<Bytes, Response<Body>> {
    let expected = HeaderName::from_static(door::CSRF);
    let mut words = texts(&head.headers, &expected);
    match (words.next(), words.next()) {
        (Some(word), None) if csrf.is(word) => {}
        _ => {
            let (status, text) = Refusal::Csrf.told(address);
            return Err(answer::text(status, text));
        }
    }
    let media = head.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    if media != Some(b"application/json") {
        return Err(answer::text(415, "what pages send has type application/json".to_owned()));
    }
    let read = Limited::new(body, max).collect();
    tokio::select! {
        biased;
        read = read => match read {
            Ok(read) => Ok(read.to_bytes()),
            Err(_) => Err(answer::text(413, format!("a body has at most {max} bytes"))),
        },
        () = desk.clock.sleep(BODY_WAIT) => Err(answer::text(408, "the body did not come in time".to_owned())),
    }
}

pub(crate) fn nothing() -> Response<Body> {
    answer::text(404, "nothing is here: the first page is /".to_owned())
}

pub(crate) fn asked(head: &Parts, is_public: bool) -> Asked<'_> {
    let headers = &head.headers;
    let one = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    Asked {
        method: head.method.as_str(),
        is_public,
        hosts: texts(headers, &header::HOST).chain(head.uri.authority().map(http::uri::Authority::as_str)).collect(),
        origins: texts(headers, &header::ORIGIN).collect(),
        site: one("sec-fetch-site"),
        destination: one("sec-fetch-dest"),
    }
}

/// All values of a header. What is no text is one that nothing is equal to.
pub(crate) fn texts<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> impl Iterator<Item = &'a str> {
    headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?"))
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, net::SocketAddr};

    use futures::FutureExt as _;
    use serde_json::{Value, json};
    use tokio::{
        io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
        net::TcpStream,
    };

    use super::*;
    use crate::views::{Look, Version};

    /// Views that count how often somebody looked; one of them is never ready.
    #[derive(Default)]
    struct Counted(Cell<usize>);

    impl Views for Counted {
        fn look<'a>(&'a self, question: &'a Question) -> Look<'a> {
            match question {
                Question::Cluster(name) => return async move { Err(Failed::new(404, name)) }.boxed_local(),
                Question::Workloads => return std::future::pending().boxed_local(),
                _ => {}
            }
            self.0.set(self.0.get() + 1);
            let rows: Vec<Value> = (0..self.0.get()).map(|number| json!({ "name": format!("m{number}") })).collect();
            async move { Ok(json!({ "rows": rows })) }.boxed_local()
        }

        fn version(&self, _: &Question) -> Option<Version> {
            None
        }
    }

    async fn send(address: SocketAddr, path: &str, cookie: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    async fn get(address: SocketAddr, path: &str, cookie: &str) -> String {
        let mut answer = String::new();
        send(address, path, cookie).await.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn views_are_answered_once_and_followed() {
        let (clock, tasks, told) = (Clock::system(), Tasks::new("test"), Arc::new(Mutex::new(Vec::new())));
        let heard = told.clone();
        let dashboard = Dashboard::bind(0, &clock, move |next| heard.lock().push(next.to_owned())).await.unwrap();
        let address = dashboard.listener.local_addr().unwrap();
        let first = dashboard.address();
        let views = Counted::default();
        let client = async {
            let begun = get(address, first.split_once(&address.to_string()).unwrap().1, "").await;
            let cookie = begun.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
            let cookie = cookie.split(';').next().unwrap();
            assert!(!told.lock().contains(&first), "the next address is another one");
            assert_eq!(told.lock().len(), 1);

            let fleet = get(address, "/api/fleet?filter=m0", cookie).await;
            let want = "\r\n\r\n{\"matching\":1,\"offset\":0,\"page\":200,\"rows\":[{\"name\":\"m0\"}],\"total\":1}";
            assert!(fleet.starts_with("HTTP/1.1 200") && fleet.ends_with(want), "{fleet}");
            let missing = get(address, "/api/cluster?name=m9", cookie).await;
            assert!(missing.starts_with("HTTP/1.1 404") && missing.ends_with("{\"status\":404,\"what\":\"m9\"}"));
            assert!(get(address, "/nothing", cookie).await.starts_with("HTTP/1.1 404"));

            let file = get(address, "/files/app.js", cookie).await;
            let tag = file.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
            let known = format!("{cookie}\r\nif-none-match: {tag}");
            assert!(get(address, "/files/app.js", &known).await.starts_with("HTTP/1.1 304"), "{tag}");

            let mut lines = BufReader::new(send(address, "/stream?view=fleet", cookie).await).lines();
            let mut events = Vec::new();
            while events.len() < 2 {
                let line = lines.next_line().await.unwrap().unwrap();
                events.extend(line.strip_prefix("event: ").map(str::to_owned));
            }
            assert_eq!(events, ["view", "view"], "each look found one cluster more");
            drop(lines);

            // A view that nobody waits for any more gives its turn back.
            for _ in 0..2 * LOOKS_MAX {
                drop(send(address, "/api/workloads", cookie).await);
            }
            assert!(get(address, "/api/fleet", cookie).await.starts_with("HTTP/1.1 200"));

            let mut open = Vec::new();
            let refused = loop {
                let mut stream = BufReader::new(send(address, "/stream?view=fleet", cookie).await);
                let mut line = String::new();
                stream.read_line(&mut line).await.unwrap();
                if !line.contains(" 200 ") {
                    break line;
                }
                open.push(stream);
                assert!(open.len() <= STREAMS_MAX, "streams are bounded");
            };
            assert!(refused.contains(" 503 "), "{refused}");
        };
        tokio::select! {
            biased;
            () = dashboard.serve(&views, None, &clock, &tasks) => panic!("it serves until it is stopped"),
            () = client => {}
        }
        tasks.kill();
    }
}
