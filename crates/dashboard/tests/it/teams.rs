//! The dashboard of a team over TLS: users log in with tokens, and each sees what the token may see.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
};

use futures::{FutureExt as _, future::LocalBoxFuture};
use ironclad_dashboard::{Action, Actions, Admitted, Done, Failed, TeamDashboard, Token, Users, Views};
use ironclad_seam::{Clock, Tasks};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    actions::ACTIONS,
    fake::{Fake, body, line, status},
};

const NAME: &str = "fleet.example";
const ORIGIN: &str = "origin: https://fleet.example";
const JSON: &str = "content-type: application/json";

/// State of a control plane, and how often it was asked.
#[derive(Default)]
struct Plane {
    /// Tokens that it does not take any more.
    expired: RefCell<BTreeSet<String>>,
    reviews: Cell<usize>,
    /// Views of sessions that are kept.
    kept: Cell<usize>,
    is_away: Cell<bool>,
    /// Actions that were done or rehearsed, with who did it.
    done: RefCell<Vec<(String, Action)>>,
    /// Until it is told, no drain is done.
    drained: Notify,
}

/// Counts what is kept.
struct Kept(Rc<Plane>);

impl Kept {
    fn new(plane: &Rc<Plane>) -> Self {
        plane.kept.set(plane.kept.get() + 1);
        Self(plane.clone())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.kept.set(self.0.kept.get() - 1);
    }
}

/// Views of a user whose name is the token.
fn views(plane: &Rc<Plane>, name: &str) -> Rc<dyn Views> {
    let (kept, name) = (Kept::new(plane), name.to_owned());
    Rc::new(Fake(move || {
        if kept.0.expired.borrow().contains(&name) {
            return Err(Failed::new(401, "Unauthorized"));
        }
        let rows: [Value; 0] = [];
        Ok(json!({ "of": name, "rows": rows }))
    }))
}

/// Actions of a user whose name is the token. One with `viewer` in it may do nothing.
struct Acting {
    kept: Kept,
    name: String,
}

impl Actions for Acting {
    fn rehearse<'a>(&'a self, action: &'a Action) -> Done<'a> {
        self.act(action)
    }

    fn act<'a>(&'a self, action: &'a Action) -> Done<'a> {
        async move {
            let plane = &self.kept.0;
            if plane.expired.borrow().contains(&self.name) {
                return Err(Failed::new(401, "Unauthorized"));
            }
            if self.name.contains("viewer") {
                return Err(Failed::new(403, &format!("User \"{}\" cannot patch clusters", self.name)));
            }
            if matches!(action, Action::Drain(_)) {
                plane.drained.notified().await;
            }
            plane.done.borrow_mut().push((self.name.clone(), action.clone()));
            Ok(json!({ "text": "did" }))
        }
        .boxed_local()
    }
}

struct Known {
    plane: Rc<Plane>,
    writes: bool,
}

impl Users for Known {
    fn can_act(&self) -> bool {
        self.writes
    }

    fn admit<'a>(&'a self, token: &'a Token) -> LocalBoxFuture<'a, Result<Admitted, Failed>> {
        async move {
            let plane = self.plane.clone();
            plane.reviews.set(plane.reviews.get() + 1);
            if plane.is_away.get() {
                return Err(Failed::new(502, "no answer"));
            }
            let name = token.expose().to_owned();
            if !name.starts_with("user-") || plane.expired.borrow().contains(&name) {
                return Err(Failed::new(401, "Unauthorized"));
            }
            let acting = self.writes.then(|| Acting { kept: Kept::new(&plane), name: name.clone() });
            let actions = acting.map(|acting| Rc::new(acting) as Rc<dyn Actions>);
            Ok(Admitted { views: views(&plane, &name), actions, user: name })
        }
        .boxed_local()
    }
}

/// A browser.
struct Client {
    address: SocketAddr,
    tls: TlsConnector,
}

impl Client {
    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        self.tls.connect(ServerName::try_from(NAME).unwrap(), stream).await.unwrap()
    }

    /// The answer to a request with these lines in its head, which names the host unless they do.
    async fn send(&self, method: &str, path: &str, head: &[&str], body: &str) -> String {
        let mut stream = self.begin(method, path, head, body).await;
        let mut answer = Vec::new();
        // Some servers end the connection without the end of TLS.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    async fn begin(&self, method: &str, path: &str, head: &[&str], body: &str) -> TlsStream<TcpStream> {
        let host = if head.iter().any(|line| line.starts_with("host:")) { "" } else { "host: fleet.example\r\n" };
        let lines: String = head.iter().map(|line| format!("{line}\r\n")).collect();
        let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        let text = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n{host}{lines}{length}\r\n{body}");
        let mut stream = self.connect().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    async fn get(&self, path: &str, head: &[&str]) -> String {
        self.send("GET", path, head, "").await
    }

    /// Logs in; returns the line with the cookie.
    async fn log_in(&self, token: &str) -> String {
        let answer = self.send("POST", "/login", &[ORIGIN], &format!("token={token}")).await;
        assert!(status(&answer) == "303" && line(&answer, "location") == Some("/"), "{answer}");
        let cookie = line(&answer, "set-cookie").unwrap();
        assert!(cookie.ends_with("; Path=/; Secure; HttpOnly; SameSite=Strict"), "{cookie}");
        assert!(cookie.starts_with("__Host-") && !cookie.contains(token), "{cookie}");
        format!("cookie: {}", cookie.split(';').next().unwrap())
    }

    /// The lines of requests for changes by pages of the session that these lines prove.
    async fn own(&self, proof: &str) -> Vec<String> {
        let session = body(&self.get("/session", &[proof]).await);
        let csrf = format!("x-ironclad-csrf: {}", session["csrf"].as_str().unwrap_or("none"));
        [ORIGIN, proof, JSON, &csrf].map(str::to_owned).to_vec()
    }

    /// Asks for an action as a page with these lines does.
    async fn act(&self, own: &[String], name: &str, body: &str) -> String {
        let head: Vec<&str> = own.iter().map(String::as_str).collect();
        self.send("POST", &format!("/do/{name}"), &head, body).await
    }
}

/// Runs a test against a dashboard of this control plane that only shows.
async fn with<F: Future>(test: impl FnOnce(Client, Rc<Plane>) -> F) {
    served(false, test).await;
}

async fn served<F: Future>(writes: bool, test: impl FnOnce(Client, Rc<Plane>) -> F) {
    let key = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let certificate = CertificateDer::from(key.cert.der().to_vec());
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
    let server = Arc::new(server.with_no_client_auth().with_single_cert(vec![certificate.clone()], private).unwrap());
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let client = Arc::new(client.with_root_certificates(roots).with_no_client_auth());

    let (clock, tasks) = (Clock::system(), Tasks::new("test"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let plane = Rc::new(Plane::default());
    let settings: ironclad_serving::Settings = Arc::new(move || server.clone());
    let dashboard = TeamDashboard::new(listener, settings, vec![NAME.to_owned()], &clock);
    let (users, client) = (Known { plane: plane.clone(), writes }, Client { address, tls: TlsConnector::from(client) });
    tokio::select! {
        biased;
        () = dashboard.serve(&users, &clock, &tasks) => panic!("it serves until it is stopped"),
        _ = test(client, plane) => {}
    }
    tasks.kill();
}

#[tokio::test]
async fn each_user_sees_what_the_token_may_see() {
    with(|client, plane| async move {
        let page = client.get("/", &[]).await;
        assert!(status(&page) == "200" && page.contains("/files/app.js"), "documents are the same for everybody");
        assert_eq!(status(&client.get("/files/app.js", &[]).await), "200");
        for path in ["/api/fleet", "/stream?view=fleet", "/session"] {
            let answer = client.get(path, &[]).await;
            assert!(status(&answer) == "401" && answer.contains("log in at /login"), "{path}: {answer}");
            assert_eq!(line(&answer, "www-authenticate"), Some("Bearer"), "by which scripts go there");
        }
        let form = client.get("/login", &["sec-fetch-site: cross-site", "sec-fetch-dest: document"]).await;
        assert!(status(&form) == "200" && form.contains("name=\"token\""), "{form}");
        let policy = line(&form, "content-security-policy").unwrap();
        assert!(policy.contains("form-action 'self'") && !policy.contains("script-src"), "{policy}");
        assert_eq!(line(&form, "referrer-policy"), Some("same-origin"), "or the origin of the form is null");

        let (ann, bob) = (client.log_in("user-ann").await, client.log_in("user-bob%20").await);
        for (cookie, user) in [(&ann, "user-ann"), (&bob, "user-bob")] {
            let fleet = client.get("/api/fleet", &[cookie]).await;
            assert_eq!((status(&fleet), &body(&fleet)["of"]), ("200", &json!(user)));
            let session = client.get("/session", &[cookie]).await;
            let session = body(&session);
            assert!(session["csrf"].is_string(), "{session}");
            let known = ["user", "login", "logout", "writes"].map(|field| session[field].clone());
            assert_eq!(known, [json!(user), json!(true), json!(true), json!(false)]);
        }
        assert_eq!((plane.reviews.get(), plane.kept.get()), (2, 2), "the control plane is asked once for each");

        let end = client.send("POST", "/logout", &[ORIGIN, &ann], "").await;
        assert!(status(&end) == "303" && line(&end, "location") == Some("/login"), "{end}");
        assert!(line(&end, "set-cookie").unwrap().ends_with("; Max-Age=0"), "{end}");
        assert_eq!(status(&client.get("/api/fleet", &[&ann]).await), "401");
        assert_eq!(body(&client.get("/api/fleet", &[&bob]).await)["of"], "user-bob");
        assert_eq!(plane.kept.get(), 1, "what had the token is gone");

        let again = client.send("POST", "/login", &[ORIGIN, &bob], "token=user-cid").await;
        assert_eq!(status(&again), "303");
        assert_eq!(status(&client.get("/api/fleet", &[&bob]).await), "401", "one browser has one session");
    })
    .await;
}

#[tokio::test]
async fn a_token_that_the_control_plane_refuses_begins_and_keeps_no_session() {
    with(|client, plane| async move {
        for (token, want, asked) in
            [("stranger", "401", 1), ("", "401", 1), ("a%0D%0Ab", "401", 1), ("user-%C3%A4", "401", 1)]
        {
            let answer = client.send("POST", "/login", &[ORIGIN], &format!("token={token}")).await;
            assert!(status(&answer) == want && line(&answer, "set-cookie").is_none(), "{token}: {answer}");
            assert!(answer.contains("does not accept this token") && answer.contains("<form"), "{answer}");
            assert_eq!(plane.reviews.get(), asked, "{token}");
        }
        let long = format!("token={}", "a".repeat(64 * 1024));
        assert_eq!(status(&client.send("POST", "/login", &[ORIGIN], &long).await), "400");
        plane.is_away.set(true);
        let away = client.send("POST", "/login", &[ORIGIN], "token=user-ann").await;
        assert!(status(&away) == "503" && line(&away, "set-cookie").is_none(), "{away}");
        plane.is_away.set(false);

        let ann = client.log_in("user-ann").await;
        let mut stream = client.begin("GET", "/stream?view=fleet", &[&ann], "").await;
        let mut heard = String::new();
        while !heard.contains("event: view") {
            let mut part = [0; 4096];
            let read = stream.read(&mut part).await.unwrap();
            assert!(read > 0, "{heard}");
            heard.push_str(std::str::from_utf8(&part[..read]).unwrap());
        }
        plane.expired.borrow_mut().insert("user-ann".into());
        let _ = stream.read_to_string(&mut heard).await;
        assert!(heard.contains("event: failed\ndata: ") && heard.contains("\"status\":401"), "it ends: {heard}");
        let after = client.get("/session", &[&ann]).await;
        assert_eq!(status(&after), "401", "{after}");
        let bob = client.log_in("user-bob").await;
        assert_eq!(body(&client.get("/api/fleet", &[&bob]).await)["of"], "user-bob");
        assert_eq!(plane.kept.get(), 1, "what had the expired token is gone");
    })
    .await;
}

#[tokio::test]
async fn the_token_of_a_proxy_is_taken_as_it_is() {
    with(|client, plane| async move {
        let ann = "authorization: Bearer user-ann";
        for _ in 0..3 {
            assert_eq!(body(&client.get("/api/fleet", &[ann]).await)["of"], "user-ann");
        }
        assert_eq!((plane.reviews.get(), plane.kept.get()), (1, 1), "one session for its requests");
        let told = client.get("/session", &[ann]).await;
        let told = body(&told);
        assert_eq!((&told["user"], &told["logout"]), (&json!("user-ann"), &json!(false)));

        let bob = client.log_in("user-bob").await;
        let both = client.get("/api/fleet", &[&bob, ann]).await;
        assert_eq!(body(&both)["of"], "user-ann", "the proxy says who it is, and no cookie of another one");
        let wrong = client.get("/api/fleet", &[&bob, "authorization: Bearer stranger"]).await;
        assert_eq!(status(&wrong), "401", "{wrong}");
        let basic = client.get("/api/fleet", &[&bob, "authorization: Basic YTpi"]).await;
        assert_eq!(body(&basic)["of"], "user-bob");
        let form = client.get("/login", &["authorization: Bearer stranger"]).await;
        assert!(status(&form) == "401" && form.contains("A proxy in front"), "{form}");
        let sent = client.send("POST", "/login", &[ORIGIN, ann], "token=user-bob").await;
        assert!(status(&sent) == "401" && line(&sent, "set-cookie").is_none(), "{sent}");

        plane.expired.borrow_mut().insert("user-ann".into());
        assert_eq!(status(&client.get("/api/fleet", &[ann]).await), "401");
        assert_eq!(status(&client.get("/api/fleet", &[ann]).await), "401", "nor does the next one begin another");
    })
    .await;
}

#[tokio::test]
async fn other_methods_names_and_origins_are_refused() {
    with(|client, plane| async move {
        let cookie = client.log_in("user-ann").await;
        let own = cookie.as_str();
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"] {
            for path in ["/", "/api/fleet", "/stream?view=fleet", "/session", "/files/app.js", "/do/cordon", "/nothing"]
            {
                let answer = client.send(method, path, &[own, ORIGIN], "").await;
                assert_eq!(status(&answer), "405", "{method} {path}");
            }
        }
        assert_eq!(status(&client.get("/logout", &[own]).await), "405", "a link logs nobody out");
        for (what, head, want) in [
            ("a name that was made to lead here", vec!["host: rebound.example", own], "403"),
            ("an address that is not named", vec!["host: 127.0.0.1", own], "403"),
            ("another port of a proxy in front", vec!["host: fleet.example:8443", own], "200"),
            ("a page of another origin", vec![own, "origin: https://evil.example"], "403"),
            ("the same name without TLS", vec![own, "origin: http://fleet.example"], "403"),
            ("a link in another page", vec![own, "sec-fetch-site: cross-site"], "403"),
            ("another name of the site", vec![own, "sec-fetch-site: same-site"], "403"),
            ("inside of another page", vec![own, "sec-fetch-dest: iframe"], "403"),
            ("a cookie that was changed", vec![&cookie[..cookie.len() - 1]], "401"),
            ("its own page", vec![own, ORIGIN, "sec-fetch-site: same-origin"], "200"),
        ] {
            assert_eq!(status(&client.get("/api/fleet", &head).await), want, "{what}");
        }
        let linked = client.get("/workload/shop/deployment.apps/web", &["sec-fetch-site: cross-site"]).await;
        assert_eq!(status(&linked), "200", "links to pages may be in other pages: a document has no data");
        let reviews = plane.reviews.get();
        for head in [
            vec![],
            vec!["origin: null"],
            vec!["origin: https://evil.example"],
            vec!["origin: https://rebound.example", "host: rebound.example"],
            vec![ORIGIN, "sec-fetch-site: cross-site"],
        ] {
            for path in ["/login", "/logout"] {
                let answer = client.send("POST", path, &[&head[..], &[own]].concat(), "token=user-bob").await;
                assert_eq!(status(&answer), "403", "{path} {head:?}");
            }
        }
        assert_eq!(plane.reviews.get(), reviews, "nobody was logged in by another page");
        assert_eq!(status(&client.get("/api/fleet", &[own]).await), "200", "nor out");
    })
    .await;
}

#[tokio::test]
async fn an_action_is_done_by_the_user_of_the_session() {
    served(true, |client, plane| async move {
        let (ann, bob) = (client.log_in("user-ann").await, client.log_in("user-bob").await);
        let (viewer, proxied) = (client.log_in("user-viewer").await, "authorization: Bearer user-cid");
        for (proof, user) in [(&*ann, "user-ann"), (&*bob, "user-bob"), (proxied, "user-cid")] {
            let own = client.own(proof).await;
            for dry in [true, false] {
                let did = client.act(&own, "cordon", &format!(r#"{{"name": "m1", "dryRun": {dry}}}"#)).await;
                assert_eq!((status(&did), &body(&did)["text"]), ("200", &json!("did")), "{user}");
                assert_eq!(plane.done.take(), [(user.to_owned(), Action::Cordon("m1".into()))]);
            }
        }
        let refused = client.act(&client.own(&viewer).await, "cordon", r#"{"name": "m1"}"#).await;
        assert_eq!(
            (status(&refused), &body(&refused)["what"]),
            ("403", &json!("User \"user-viewer\" cannot patch clusters"))
        );
        let both = client.own(&bob).await;
        let mixed = [&both[..], &[proxied.to_owned()]].concat();
        assert_eq!(
            status(&client.act(&mixed, "cordon", r#"{"name": "m1"}"#).await),
            "403",
            "the token has another session"
        );
        assert!(plane.done.take().is_empty());

        let own = client.own(&ann).await;
        plane.expired.borrow_mut().insert("user-ann".into());
        assert_eq!(status(&client.act(&own, "cordon", r#"{"name": "m1"}"#).await), "401");
        assert_eq!(status(&client.get("/session", &[&ann]).await), "401", "the session has ended");
        assert_eq!(status(&client.act(&own, "cordon", r#"{"name": "m1"}"#).await), "401");
        let own = client.own(&bob).await;
        client.send("POST", "/logout", &[ORIGIN, &bob], "").await;
        assert_eq!(status(&client.act(&own, "cordon", r#"{"name": "m1"}"#).await), "401");
        assert!(plane.done.take().is_empty());
    })
    .await;
}

#[tokio::test]
async fn other_pages_change_nothing() {
    served(true, |client, plane| async move {
        let (ann, bob) = (client.log_in("user-ann").await, client.log_in("user-bob").await);
        let (own, of_bob) = (client.own(&ann).await, client.own(&bob).await);
        let [_, cookie, _, csrf] = &own[..] else { panic!() };
        let (cookie, csrf, other) = (cookie.as_str(), csrf.as_str(), of_bob[3].as_str());
        for (what, head, want) in [
            ("no header", vec![ORIGIN, cookie, JSON], "403"),
            ("that of another session", vec![ORIGIN, cookie, JSON, other], "403"),
            ("no value", vec![ORIGIN, cookie, JSON, "x-ironclad-csrf:"], "403"),
            ("two of them", vec![ORIGIN, cookie, JSON, csrf, csrf], "403"),
            ("no session", vec![ORIGIN, JSON, csrf], "401"),
            ("no origin", vec![cookie, JSON, csrf], "403"),
            ("no origin that is told", vec!["origin: null", cookie, JSON, csrf], "403"),
            ("another origin", vec!["origin: https://evil.example", cookie, JSON, csrf], "403"),
            ("the same name without TLS", vec!["origin: http://fleet.example", cookie, JSON, csrf], "403"),
            ("another port", vec!["origin: https://fleet.example:8443", cookie, JSON, csrf], "403"),
            (
                "a name that was made to lead here",
                vec!["host: rebound.example", "origin: https://rebound.example", cookie, JSON, csrf],
                "403",
            ),
            ("another site", vec![ORIGIN, "sec-fetch-site: cross-site", cookie, JSON, csrf], "403"),
            ("another name of the site", vec![ORIGIN, "sec-fetch-site: same-site", cookie, JSON, csrf], "403"),
            ("a form", vec![ORIGIN, cookie, "content-type: text/plain", csrf], "415"),
            ("no type", vec![ORIGIN, cookie, csrf], "415"),
        ] {
            for name in ACTIONS {
                let answer = client.send("POST", &format!("/do/{name}"), &head, r#"{"name": "m1"}"#).await;
                assert_eq!(status(&answer), want, "{what}: {name}");
            }
        }
        let head: Vec<&str> = own.iter().map(String::as_str).collect();
        for method in ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            for name in ACTIONS {
                let answer = client.send(method, &format!("/do/{name}"), &head, r#"{"name": "m1"}"#).await;
                assert_eq!(status(&answer), "405", "{method} {name}");
            }
        }
        for path in ["/", "/api/fleet", "/session", "/files/app.js", "/do/delete", "/nothing"] {
            assert_eq!(status(&client.send("POST", path, &head, "{}").await), "405", "{path}");
        }
        let long = format!("{{\"name\": \"{}\"}}", "a".repeat(8 * 1024));
        assert_eq!(status(&client.act(&own, "cordon", &long).await), "413");
        for wrong in ["[]", r#"{"name": "--all"}"#, r#"{"name": "m1", "more": 1}"#] {
            assert_eq!(body(&client.act(&own, "cordon", wrong).await)["status"], 400, "{wrong}");
        }
        assert!(plane.done.take().is_empty());
    })
    .await;
}

#[tokio::test]
async fn without_the_flag_no_session_changes_anything() {
    with(|client, _| async move {
        let own = client.own(&client.log_in("user-ann").await).await;
        for name in ACTIONS {
            assert_eq!(status(&client.act(&own, name, r#"{"name": "m1"}"#).await), "405", "{name}");
        }
        assert_eq!(status(&client.get("/do/cordon", &[&own[1]]).await), "404");
    })
    .await;
}

#[tokio::test]
async fn actions_of_one_user_leave_room_to_the_others() {
    served(true, |client, plane| async move {
        let (ann, bob) = (client.log_in("user-ann").await, client.log_in("user-bob").await);
        let (of_ann, of_bob) = (client.own(&ann).await, client.own(&bob).await);
        let head: Vec<&str> = of_ann.iter().map(String::as_str).collect();
        let mut begun = Vec::new();
        for _ in 0..4 {
            begun.push(client.begin("POST", "/do/drain", &head, r#"{"name": "m1"}"#).await);
        }
        while status(&client.act(&of_ann, "cordon", r#"{"name": "m2"}"#).await) != "503" {}
        plane.done.take();
        assert_eq!(status(&client.act(&of_bob, "cordon", r#"{"name": "m2"}"#).await), "200");
        assert_eq!(plane.done.take(), [("user-bob".to_owned(), Action::Cordon("m2".into()))]);

        client.send("POST", "/logout", &[ORIGIN, &ann], "").await;
        for _ in 0..4 {
            plane.drained.notify_one();
            while plane.done.borrow().is_empty() {
                client.get("/session", &[&bob]).await;
            }
            assert_eq!(plane.done.take(), [("user-ann".to_owned(), Action::Drain("m1".into()))], "it goes on");
        }
    })
    .await;
}

#[tokio::test]
async fn one_user_leaves_turns_to_the_others() {
    with(|client, _| async move {
        let (ann, bob) = (client.log_in("user-ann").await, client.log_in("user-bob").await);
        let mut waiting = Vec::new();
        for _ in 0..20 {
            waiting.push(client.begin("GET", "/api/workloads", &[&ann], "").await);
        }
        assert_eq!(status(&client.get("/session", &[&ann]).await), "200");
        assert_eq!(body(&client.get("/api/fleet", &[&bob]).await)["of"], "user-bob");
        let mut open = Vec::new();
        let refused = loop {
            let mut stream = client.begin("GET", "/stream?view=fleet", &[&bob], "").await;
            let mut start = [0; 12];
            stream.read_exact(&mut start).await.unwrap();
            if start != *b"HTTP/1.1 200" {
                break start;
            }
            open.push(stream);
            assert!(open.len() < 100, "streams are bounded");
        };
        assert_eq!((&refused, open.len()), (b"HTTP/1.1 503", 8));
    })
    .await;
}

#[tokio::test]
async fn attempts_to_log_in_are_bounded() {
    const TRIED: usize = 150;
    with(|client, plane| async move {
        let clock = Clock::system();
        let (begun, mut refused) = (clock.mono(), 0);
        for _ in 0..TRIED {
            let answer = client.send("POST", "/login", &[ORIGIN], "token=stranger").await;
            match status(&answer) {
                "401" => {}
                "429" => refused += 1,
                _ => panic!("{answer}"),
            }
        }
        // However long that took: 20 at once, and five more each second.
        let most = 20.0 + 5.0 * (clock.mono() - begun).as_secs_f64() + 1.0;
        assert!(plane.reviews.get() as f64 <= most, "{} of {most}", plane.reviews.get());
        assert_eq!(plane.reviews.get() + refused, TRIED);
    })
    .await;
}
