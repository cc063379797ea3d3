//! The listener, and the way from requests to views.
//!
//! Views are computed where [`Dashboard::serve`] is awaited, as their futures need not be `Send`; requests come from
//! the tasks of connections.

use std::{fmt, io, net::Ipv4Addr, sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use http::{HeaderMap, Request, Response, header};
use hyper::body::Incoming;
use ironclad_seam::{Clock, Tasks};
use ironclad_serving::{Body, Front, Listener};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, mpsc, oneshot},
};

use crate::{
    answer::{self, answer},
    assets,
    door::{self, Asked, Refusal},
    route::{Route, route},
    rows::Wanted,
    secret::Keys,
    stream,
    views::{Failed, Question, Views},
};

/// Streams at once: one for each open tab.
const STREAMS_MAX: usize = 32;
/// Views that are computed at once; further questions wait.
const LOOKS_MAX: usize = 4;
/// Questions that wait to be taken.
const QUESTIONS_MAX: usize = 64;
/// Time for a view. A plan over a large fleet takes the longest.
const LOOK_MAX: Duration = Duration::from_secs(120);
/// Bytes of the head of a request.
const HEAD_MAX: usize = 16 * 1024;

/// A question, and where its answer is waited for.
type Waiting = (Question, oneshot::Sender<Result<Value, Failed>>);

/// Takes questions to where views are computed. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Desk {
    questions: mpsc::Sender<Waiting>,
    looks: Arc<Semaphore>,
    clock: Clock,
}

impl Desk {
    /// Looks once, and keeps the rows that are wanted.
    pub(crate) async fn look(&self, question: &Question, wanted: &Wanted) -> Result<Value, Failed> {
        let ended = || Failed::new(503, "the program that served this page is ending");
        let _turn = self.looks.acquire().await.map_err(|_| ended())?;
        let (sender, receiver) = oneshot::channel();
        self.questions.send((question.clone(), sender)).await.map_err(|_| ended())?;
        let mut view = tokio::select! {
            biased;
            found = receiver => found.map_err(|_| ended())??,
            () = self.clock.sleep(LOOK_MAX) => {
                return Err(Failed::new(504, "the control plane, or its members, did not answer in time"));
            }
        };
        wanted.apply(&mut view);
        Ok(view)
    }
}

/// State of all requests.
struct Shared {
    /// `127.0.0.1:PORT`.
    authority: String,
    cookie: String,
    keys: Mutex<Keys>,
    desk: Desk,
    streams: Arc<Semaphore>,
    clock: Clock,
    /// Told the next address when one was used.
    announce: Box<dyn Fn(&str) + Send + Sync>,
}

/// The dashboard on a loopback port.
pub struct Dashboard {
    listener: TcpListener,
    shared: Arc<Shared>,
    questions: mpsc::Receiver<Waiting>,
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
        let (sender, questions) = mpsc::channel(QUESTIONS_MAX);
        let desk = Desk { questions: sender, looks: Arc::new(Semaphore::new(LOOKS_MAX)), clock: clock.clone() };
        let shared = Shared {
            authority: address.to_string(),
            // Cookies are shared by all ports of a host.
            cookie: format!("ironclad-dashboard-{}", address.port()),
            keys: Mutex::new(Keys::new()?),
            desk,
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            clock: clock.clone(),
            announce: Box::new(announce),
        };
        Ok(Self { listener, shared: Arc::new(shared), questions })
    }

    /// The address that begins a session, once.
    #[must_use]
    pub fn address(&self) -> String {
        self.shared.login_address()
    }

    /// Serves until the tasks are stopped. Views are computed by the caller's task.
    pub async fn serve(self, views: &dyn Views, clock: &Clock, tasks: &Tasks) {
        let Self { listener, shared, mut questions } = self;
        let front = Front::new(move |request, _peer| {
            let shared = shared.clone();
            async move { shared.respond(request).await }
        });
        let (group, of_listener) = (tasks.clone(), clock.clone());
        let mut listener = Listener::new(listener, None, "dashboard");
        listener.bounds.head_bytes = Some(HEAD_MAX);
        tasks.spawn("dashboard", async move { listener.serve(&of_listener, &group, front).await });
        let mut looks = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                () = tasks.stopping() => break,
                Some(()) = looks.next(), if !looks.is_empty() => {}
                question = questions.recv() => match question {
                    Some((question, mut sender)) => looks.push(
                        async move {
                            // Nobody waits for the answer any more: the page was closed, or the time is over.
                            let found = tokio::select! {
                                biased;
                                found = question.ask(views) => found,
                                () = sender.closed() => return,
                            };
                            let _ = sender.send(found);
                        }
                        .boxed_local(),
                    ),
                    None => break,
                },
            }
        }
    }
}

impl Shared {
    fn login_address(&self) -> String {
        format!("http://{}{}?secret={}", self.authority, door::LOGIN, self.keys.lock().next().text())
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, _body) = request.into_parts();
        let path = head.uri.path();
        if let Err(refusal) = door::check(&asked(&head), &self.authority) {
            return self.refused(refusal);
        }
        let route = route(path, head.uri.query().unwrap_or_default());
        if let Route::Login(secret) = &route {
            return self.login(secret);
        }
        let cookies = door::cookies(texts(&head.headers, &header::COOKIE), &self.cookie);
        if !self.keys.lock().knows(cookies, self.clock.mono()) {
            return self.refused(Refusal::Session);
        }
        match route {
            Route::Page => answer::file(&assets::DOCUMENT, &head.headers),
            Route::File(name) => match assets::file(&name) {
                Some(file) => answer::file(file, &head.headers),
                None => nothing(),
            },
            Route::View(question, wanted) => answer::view(self.desk.look(&question, &wanted).await),
            Route::Follow(..) if head.method == http::Method::HEAD => answer(200, "text/event-stream", ""),
            Route::Follow(question, wanted) => match self.streams.clone().try_acquire_owned() {
                Ok(slot) => stream::follow(self.desk.clone(), self.clock.clone(), question, wanted, slot),
                Err(_) => answer::text(503, format!("{STREAMS_MAX} pages are open: close some")),
            },
            Route::Login(_) | Route::None => nothing(),
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
        let (status, text) = refusal.told(&self.authority);
        answer::text(status, text)
    }
}

fn nothing() -> Response<Body> {
    answer::text(404, "nothing is here: the first page is /".to_owned())
}

fn asked(head: &http::request::Parts) -> Asked<'_> {
    let headers = &head.headers;
    let one = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    Asked {
        method: head.method.as_str(),
        path: head.uri.path(),
        hosts: texts(headers, &header::HOST).chain(head.uri.authority().map(http::uri::Authority::as_str)).collect(),
        origins: texts(headers, &header::ORIGIN).collect(),
        site: one("sec-fetch-site"),
        destination: one("sec-fetch-dest"),
    }
}

/// All values of a header. What is no text is one that nothing is equal to.
fn texts<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> impl Iterator<Item = &'a str> {
    headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?"))
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, net::SocketAddr};

    use serde_json::json;
    use tokio::{
        io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
        net::TcpStream,
    };

    use super::*;
    use crate::views::{Account, Change, Look, Reference};

    /// Views that count how often somebody looked; one of them is never ready.
    #[derive(Default)]
    struct Counted(Cell<usize>);

    impl Counted {
        fn look(&self) -> Look<'_> {
            self.0.set(self.0.get() + 1);
            let rows: Vec<Value> = (0..self.0.get()).map(|number| json!({ "name": format!("m{number}") })).collect();
            async move { Ok(json!({ "rows": rows })) }.boxed_local()
        }
    }

    impl Views for Counted {
        fn fleet(&self) -> Look<'_> {
            self.look()
        }

        fn cluster<'a>(&'a self, name: &'a str) -> Look<'a> {
            async move { Err(Failed::new(404, name)) }.boxed_local()
        }

        fn workloads(&self) -> Look<'_> {
            std::future::pending().boxed_local()
        }

        fn workload<'a>(&'a self, _: &'a Reference) -> Look<'a> {
            self.look()
        }

        fn why<'a>(&'a self, _: &'a Reference) -> Look<'a> {
            self.look()
        }

        fn manifests<'a>(&'a self, _: &'a Reference, _: Option<&'a str>) -> Look<'a> {
            self.look()
        }

        fn logs<'a>(&'a self, _: &'a Reference) -> Look<'a> {
            self.look()
        }

        fn timeline<'a>(&'a self, _: &'a Reference) -> Look<'a> {
            self.look()
        }

        fn policies(&self) -> Look<'_> {
            self.look()
        }

        fn services(&self) -> Look<'_> {
            self.look()
        }

        fn quotas(&self) -> Look<'_> {
            self.look()
        }

        fn evictions(&self) -> Look<'_> {
            self.look()
        }

        fn events(&self) -> Look<'_> {
            self.look()
        }

        fn system(&self) -> Look<'_> {
            self.look()
        }

        fn doctor(&self) -> Look<'_> {
            self.look()
        }

        fn scheduling(&self) -> Look<'_> {
            self.look()
        }

        fn preemptions(&self) -> Look<'_> {
            self.look()
        }

        fn accounts(&self, _: Account) -> Look<'_> {
            self.look()
        }

        fn autoscalers(&self) -> Look<'_> {
            self.look()
        }

        fn autoscaler<'a>(&'a self, _: &'a str, _: &'a str) -> Look<'a> {
            self.look()
        }

        fn plan<'a>(&'a self, _: &'a Change) -> Look<'a> {
            self.look()
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
            () = dashboard.serve(&views, &clock, &tasks) => panic!("it serves until it is stopped"),
            () = client => {}
        }
        tasks.kill();
    }
}
