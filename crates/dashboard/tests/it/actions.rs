//! Changes by pages: which requests are taken for one, and what is done.

use std::{cell::RefCell, net::SocketAddr, sync::Arc};

use futures::FutureExt as _;
use ironclad_dashboard::{Action, Actions, Dashboard, Done, Failed, Reference};
use ironclad_seam::{Clock, Tasks};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::Notify,
};

use crate::fake::{Fake, body, line, status};

pub(crate) const ACTIONS: [&str; 7] =
    ["cordon", "uncordon", "drain", "pause-failover", "resume-failover", "rebalance", "restart"];
const JSON: &str = "content-type: application/json";

/// Remembers what was asked for. A drain is done when it is told to be.
#[derive(Default)]
struct Remembered {
    rehearsed: RefCell<Vec<Action>>,
    done: RefCell<Vec<Action>>,
    drained: Arc<Notify>,
}

impl Actions for Remembered {
    fn rehearse<'a>(&'a self, action: &'a Action) -> Done<'a> {
        self.rehearsed.borrow_mut().push(action.clone());
        async move { Ok(json!({ "text": "would" })) }.boxed_local()
    }

    fn act<'a>(&'a self, action: &'a Action) -> Done<'a> {
        async move {
            match action {
                Action::Drain(_) => self.drained.notified().await,
                Action::Uncordon(name) if name == "none" => return Err(Failed::new(404, "none does not exist")),
                _ => {}
            }
            self.done.borrow_mut().push(action.clone());
            Ok(json!({ "text": "did" }))
        }
        .boxed_local()
    }
}

struct Client {
    address: SocketAddr,
    /// Lines that every request of its own page has.
    own: Vec<String>,
}

impl Client {
    async fn begin(&self, method: &str, path: &str, head: &[&str], body: &str) -> TcpStream {
        let lines: String = head.iter().map(|line| format!("{line}\r\n")).collect();
        let length = body.len();
        let text = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {length}\r\n{lines}\r\n{body}",
            self.address
        );
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    async fn send(&self, method: &str, path: &str, head: &[&str], body: &str) -> String {
        let mut answer = String::new();
        // What was refused before it was read breaks the connection off.
        let _ = self.begin(method, path, head, body).await.read_to_string(&mut answer).await;
        answer
    }

    fn own(&self) -> Vec<&str> {
        self.own.iter().map(String::as_str).collect()
    }

    /// Asks for an action as its own page does.
    async fn act(&self, name: &str, body: &str) -> String {
        self.send("POST", &format!("/do/{name}"), &self.own(), body).await
    }
}

/// Runs a test against a dashboard with these actions, with a browser that has a session.
async fn with<F: Future>(actions: Option<&Remembered>, test: impl FnOnce(Client) -> F) {
    let (clock, tasks) = (Clock::system(), Tasks::new("test"));
    let dashboard = Dashboard::bind(0, &clock, |_| ()).await.unwrap();
    let login = dashboard.address();
    let (address, path) = login.trim_start_matches("http://").split_once('/').unwrap();
    let (address, path): (SocketAddr, _) = (address.parse().unwrap(), format!("/{path}"));
    let views = Fake(|| Ok(json!({ "rows": [] })));
    let client = async {
        let mut client = Client { address, own: Vec::new() };
        let begun = client.send("GET", &path, &[], "").await;
        let cookie = format!("cookie: {}", line(&begun, "set-cookie").unwrap().split(';').next().unwrap());
        let session = body(&client.send("GET", "/session", &[&cookie], "").await);
        assert_eq!(session["writes"], actions.is_some(), "{session}");
        let csrf = format!("x-ironclad-csrf: {}", session["csrf"].as_str().unwrap_or("none"));
        client.own = vec![format!("origin: http://{address}"), cookie, JSON.to_owned(), csrf];
        test(client).await
    };
    tokio::select! {
        biased;
        () = dashboard.serve(&views, actions.map(|all| all as &dyn Actions), &clock, &tasks) => panic!("it ended"),
        _ = client => {}
    }
    tasks.kill();
}

#[tokio::test]
async fn without_actions_no_method_does_anything() {
    with(None, |client| async move {
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"] {
            for path in ["/", "/api/fleet", "/stream?view=fleet", "/session", "/login", "/logout", "/nothing"] {
                assert_eq!(status(&client.send(method, path, &client.own(), "{}").await), "405", "{method} {path}");
            }
            for name in ACTIONS {
                let answer = client.send(method, &format!("/do/{name}"), &client.own(), r#"{"name": "m1"}"#).await;
                assert_eq!(status(&answer), "405", "{method} {name}");
            }
        }
        assert_eq!(status(&client.send("GET", "/do/cordon", &client.own(), "").await), "404");
    })
    .await;
}

/// It only computes, so it needs no `--write`; and it is for pages of the session alone, as actions are.
#[tokio::test]
async fn manifests_are_planned_for_pages_of_the_session() {
    with(None, |client| async move {
        let [origin, cookie, _, csrf] = &client.own[..] else { panic!() };
        let (origin, cookie, csrf) = (origin.as_str(), cookie.as_str(), csrf.as_str());
        let body = r#"{"manifests": "kind: Namespace"}"#;
        let long = format!("{{\"manifests\": \"{}\"}}", "a".repeat(256 * 1024));
        for (what, method, head, body, want) in [
            ("a plan", "POST", vec![origin, cookie, JSON, csrf], body, "200"),
            ("no header", "POST", vec![origin, cookie, JSON], body, "403"),
            ("no session", "POST", vec![origin, JSON, csrf], body, "401"),
            ("another origin", "POST", vec!["origin: https://evil.example", cookie, JSON, csrf], body, "403"),
            ("a form", "POST", vec![origin, cookie, "content-type: text/plain", csrf], body, "415"),
            ("another field", "POST", vec![origin, cookie, JSON, csrf], r#"{"dryRun": false}"#, "400"),
            ("too long", "POST", vec![origin, cookie, JSON, csrf], &long, "413"),
            ("GET", "GET", vec![cookie], "", "405"),
            ("PUT", "PUT", vec![origin, cookie, JSON, csrf], body, "405"),
        ] {
            assert_eq!(status(&client.send(method, "/plan/apply", &head, body).await), want, "{what}");
        }
    })
    .await;
}

#[tokio::test]
async fn actions_do_what_they_say() {
    let all = Remembered::default();
    with(Some(&all), |client| {
        let all = &all;
        async move {
            let web = || Reference { namespace: "shop".into(), kind: "deployment.apps".into(), name: "web".into() };
            let about = r#""namespace": "shop", "kind": "deployment.apps", "name": "web""#;
            for (name, fields, want) in [
                ("cordon", r#""name": "m1""#, Action::Cordon("m1".into())),
                ("uncordon", r#""name": "m1""#, Action::Uncordon("m1".into())),
                ("pause-failover", "", Action::PauseFailover),
                ("resume-failover", "", Action::ResumeFailover),
                ("rebalance", about, Action::Rebalance(web())),
                ("restart", about, Action::Restart(web())),
            ] {
                let comma = if fields.is_empty() { "" } else { "," };
                let would = client.act(name, &format!("{{{fields}{comma} \"dryRun\": true}}")).await;
                assert_eq!((status(&would), &body(&would)["text"]), ("200", &json!("would")), "{name}");
                assert_eq!((all.rehearsed.take(), all.done.take()), (vec![want.clone()], vec![]), "{name}");
                let did = client.act(name, &format!("{{{fields}}}")).await;
                assert_eq!((status(&did), &body(&did)["text"]), ("200", &json!("did")), "{name}");
                assert_eq!((all.rehearsed.take(), all.done.take()), (vec![], vec![want]), "{name}");
            }
            let failed = client.act("uncordon", r#"{"name": "none"}"#).await;
            assert_eq!((status(&failed), &body(&failed)["what"]), ("404", &json!("none does not exist")));
            assert_eq!(status(&client.act("delete", r#"{"name": "m1"}"#).await), "405", "the list is fixed");
            let shown = client.send("GET", "/api/fleet", &client.own(), "").await;
            assert_eq!(status(&shown), "200", "pages are shown as ever");
        }
    })
    .await;
}

#[tokio::test]
async fn a_drain_goes_on_when_nobody_waits_for_it() {
    let all = Remembered::default();
    with(Some(&all), |client| {
        let all = &all;
        async move {
            let mut begun = Vec::new();
            for _ in 0..4 {
                begun.push(client.begin("POST", "/do/drain", &client.own(), r#"{"name": "m1"}"#).await);
            }
            // Until all of them were begun, a further one is.
            let refused = loop {
                let answer = client.act("cordon", r#"{"name": "m2"}"#).await;
                if status(&answer) == "503" {
                    break answer;
                }
            };
            assert!(refused.contains("as many actions are under way as can be at once"), "{refused}");
            drop(begun);
            assert_eq!(status(&client.send("GET", "/session", &client.own(), "").await), "200");
            all.done.take();
            for _ in 0..4 {
                all.drained.notify_one();
                while all.done.borrow().is_empty() {
                    client.send("GET", "/session", &client.own(), "").await;
                }
                assert_eq!(all.done.take(), [Action::Drain("m1".into())]);
            }
            assert_eq!(status(&client.act("cordon", r#"{"name": "m2"}"#).await), "200");
        }
    })
    .await;
}

#[tokio::test]
async fn other_pages_change_nothing() {
    let all = Remembered::default();
    with(Some(&all), |client| {
        let all = &all;
        async move {
            let [origin, cookie, _, csrf] = &client.own[..] else { panic!() };
            let (origin, cookie, csrf) = (origin.as_str(), cookie.as_str(), csrf.as_str());
            let port = client.address.port();
            let (localhost, other) = (format!("origin: http://localhost:{port}"), format!("{csrf}x"));
            for (what, head, want) in [
                ("no header", vec![origin, cookie, JSON], "403"),
                ("another value", vec![origin, cookie, JSON, &other], "403"),
                ("no value", vec![origin, cookie, JSON, "x-ironclad-csrf:"], "403"),
                ("two of them", vec![origin, cookie, JSON, csrf, csrf], "403"),
                ("no session", vec![origin, JSON, csrf], "401"),
                ("no origin", vec![cookie, JSON, csrf], "403"),
                ("another origin", vec!["origin: https://evil.example", cookie, JSON, csrf], "403"),
                ("another name of this host", vec![&localhost, cookie, JSON, csrf], "403"),
                ("another site", vec![origin, "sec-fetch-site: cross-site", cookie, JSON, csrf], "403"),
                ("a form", vec![origin, cookie, "content-type: text/plain", csrf], "415"),
                ("no type", vec![origin, cookie, csrf], "415"),
            ] {
                for name in ACTIONS {
                    let answer = client.send("POST", &format!("/do/{name}"), &head, r#"{"name": "m1"}"#).await;
                    assert_eq!(status(&answer), want, "{what}: {name}");
                }
            }
            for method in ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"] {
                for name in ACTIONS {
                    let answer = client.send(method, &format!("/do/{name}"), &client.own(), r#"{"name": "m1"}"#).await;
                    assert_eq!(status(&answer), "405", "{method} {name}");
                }
            }
            for path in ["/", "/api/fleet", "/session", "/files/app.js", "/login"] {
                assert_eq!(status(&client.send("POST", path, &client.own(), "{}").await), "405", "{path}");
            }
            let long = format!("{{\"name\": \"{}\"}}", "a".repeat(8 * 1024));
            assert_eq!(status(&client.act("cordon", &long).await), "413");
            for wrong in ["", "[]", r#"{"name": "--all"}"#, r#"{"name": "m1", "more": 1}"#] {
                let refused: Value = body(&client.act("cordon", wrong).await);
                assert_eq!(refused["status"], 400, "{wrong}");
            }
            assert_eq!((all.rehearsed.take(), all.done.take()), (vec![], vec![]));
        }
    })
    .await;
}
