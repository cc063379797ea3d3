//! Tunnels over links with faults.

use std::sync::atomic::AtomicBool;

use futures::FutureExt as _;
use http_body_util::Full;
use kube::Client;
use parking_lot::Mutex;
use tokio::{
    io::AsyncReadExt as _,
    time::{sleep, timeout},
};

use super::{
    links::{Faults, link},
    *,
};
use crate::{Streams, client_through};

/// Time in which both ends find that a link carries nothing.
const FOUND: Duration = Duration::from_secs(KEEP_ALIVE.as_secs() + KEEP_ALIVE_TIMEOUT.as_secs() + 1);
/// Time in which a request over it has an answer, or fails.
const ANSWERED: Duration = Duration::from_secs(FOUND.as_secs() + OPEN_MAX.as_secs());

/// A member that answers with the request, and counts by path.
#[derive(Clone, Default)]
struct Member(Arc<Mutex<Vec<String>>>);

impl Member {
    fn answer(&self) -> Answer {
        let heard = self.0.clone();
        Answer::new(move |request: Request<Incoming>| {
            let heard = heard.clone();
            async move {
                let path = request.uri().path().to_owned();
                heard.lock().push(path.clone());
                if path == "/silent" {
                    std::future::pending::<()>().await;
                }
                let text = match path.strip_prefix("/bytes/").and_then(|bytes| bytes.parse().ok()) {
                    Some(bytes) => "x".repeat(bytes),
                    None => format!("{} {path}", request.method()),
                };
                Ok(Response::new(Full::new(Bytes::from(text)).map_err(|e| match e {}).boxed_unsync()))
            }
        })
    }

    fn heard(&self, path: &str) -> usize {
        self.0.lock().iter().filter(|heard| *heard == path).count()
    }
}

/// A tunnel over a link, with the tasks of its ends.
struct Session {
    plane: Tasks,
    agent: Tasks,
    carried: ironclad_seam::TaskHandle<io::Result<()>>,
    served: ironclad_seam::TaskHandle<io::Result<()>>,
    silent: Arc<AtomicBool>,
}

impl Session {
    fn open(tunnels: &Tunnels, member: &Member, there: Faults, back: Faults) -> Self {
        let (plane, agent) = (Tasks::new("plane"), Tasks::new("agent"));
        let silent = Arc::new(AtomicBool::new(false));
        let (near, far) = link(&plane, there, back, &silent);
        let (tunnels, of_agent, answer) = (tunnels.clone(), agent.clone(), member.answer());
        let carried = plane.spawn("carry", async move { tunnels.carry("m1", "a", near).await });
        let served = agent.spawn("serve", async move { serve_tunnel(far, &of_agent, answer).await });
        Self { plane, agent, carried, served, silent }
    }

    fn sound(tunnels: &Tunnels, member: &Member) -> Self {
        Self::open(tunnels, member, Faults::default(), Faults::default())
    }

    /// Waits until both ends have found that the tunnel is over.
    async fn ended(self, within: Duration, why: &str) {
        timeout(within, self.carried).await.unwrap_or_else(|_| panic!("{why}: the control plane holds on")).ok();
        timeout(within, self.served).await.unwrap_or_else(|_| panic!("{why}: the agent holds on")).ok();
    }

    fn kill(&self) {
        self.plane.kill();
        self.agent.kill();
    }
}

async fn asked(streams: &Streams, path: &str) -> Result<String, String> {
    let mut request = Request::new(Empty::new().map_err(|e| match e {}).boxed_unsync());
    *request.uri_mut() = path.parse().map_err(|_| path.to_owned())?;
    let body = streams.send(request).await?.into_body().collect().await.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
}

/// The same as a client of controllers.
async fn got(client: &Client, path: &str) -> Result<String, String> {
    let request = Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    client.request_text(request).await.map_err(|error| {
        let (mut text, mut cause): (_, &dyn std::error::Error) = (error.to_string(), &error);
        while let Some(next) = cause.source() {
            (text, cause) = (format!("{text}: {next}"), next);
        }
        text
    })
}

async fn opened(tunnels: &Tunnels) {
    while !tunnels.is_open("m1") {
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_cut_at_any_byte_answers_each_request_once_at_most() {
    let cut = |cut| Faults { cut: Some(cut), ..Faults::default() };
    for (name, of) in [("there", 0), ("back", 1)] {
        for at in 0..200 {
            let faults = if of == 0 { (cut(at), Faults::default()) } else { (Faults::default(), cut(at)) };
            let (tunnels, member, why) =
                (Tunnels::default(), Member::default(), format!("cut after {at} bytes {name}"));
            let client = client_through(&tunnels, "m1", Arc::default());
            let first = Session::open(&tunnels, &member, faults.0, faults.1);
            sleep(Duration::from_millis(1)).await;
            let answer = timeout(ANSWERED, got(&client, "/1")).await.unwrap_or_else(|_| panic!("{why}: hangs"));
            match &answer {
                Ok(text) => assert_eq!((&**text, member.heard("/1")), ("GET /1", 1), "{why}"),
                Err(error) => assert!(error.contains("m1") && member.heard("/1") <= 1, "{why}: {error}"),
            }
            let is_cut = answer.is_err();
            let second = Session::sound(&tunnels, &member);
            if is_cut {
                first.ended(FOUND, &why).await;
            }
            let again = timeout(ANSWERED, got(&client, "/2")).await.unwrap_or_else(|_| panic!("{why}: hangs"));
            assert_eq!((again.as_deref(), member.heard("/2")), (Ok("GET /2"), 1), "{why}, on the next session");
            second.kill();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_request_and_no_end_waits_for_a_link_that_says_nothing() {
    let mute = |at| Faults { mute: Some(at), ..Faults::default() };
    // The first request takes some 155 bytes each way.
    for at in [0, 1, 9, 23, 24, 40, 60, 80, 100, 120, 140, 150] {
        for (name, there, back) in [
            ("there", mute(at), Faults::default()),
            ("back", Faults::default(), mute(at)),
            ("both ways", mute(at), mute(at)),
        ] {
            let why = format!("mute {name} after {at} bytes");
            let (tunnels, member) = (Tunnels::default(), Member::default());
            let streams = Streams::through(&tunnels, "m1");
            let session = Session::open(&tunnels, &member, there, back);
            sleep(Duration::from_millis(1)).await;
            let _ = timeout(ANSWERED, asked(&streams, "/1")).await.unwrap_or_else(|_| panic!("{why}: hangs"));
            assert!(member.heard("/1") <= 1, "{why}");
            // Probes may be the last bytes that arrive.
            session.ended(FOUND + 2 * KEEP_ALIVE, &why).await;
            assert!(!tunnels.is_open("m1"), "{why}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn slow_links_and_small_chunks_carry_everything() {
    for (delay, chunk) in [(200, 1), (200, 7), (0, 1), (0, 3), (200, 1 << 14), (1_000, 100)] {
        let faults = Faults { delay: Duration::from_millis(delay), chunk, ..Faults::default() };
        let (tunnels, member) = (Tunnels::default(), Member::default());
        let streams = Streams::through(&tunnels, "m1");
        let session = Session::open(&tunnels, &member, faults, faults);
        opened(&tunnels).await;
        let paths: Vec<String> = (0..20).map(|n| format!("/{n}")).collect();
        let answers = futures::future::join_all(paths.iter().map(|path| asked(&streams, path))).await;
        for (path, answer) in paths.iter().zip(answers) {
            assert_eq!((answer, member.heard(path)), (Ok(format!("GET {path}")), 1), "{delay} ms, chunks of {chunk}");
        }
        let large = asked(&streams, "/bytes/20000").await.unwrap();
        assert_eq!(large.len(), 20_000, "{delay} ms, chunks of {chunk}");
        session.kill();
    }
}

#[tokio::test(start_paused = true)]
async fn requests_go_to_the_new_session_at_once_though_the_old_one_is_half_open() {
    let (tunnels, member) = (Tunnels::default(), Member::default());
    let streams = Streams::through(&tunnels, "m1");
    let old = Session::sound(&tunnels, &member);
    opened(&tunnels).await;
    assert_eq!(asked(&streams, "/1").await.as_deref(), Ok("GET /1"));
    old.silent.store(true, Ordering::Relaxed);
    let new = Session::sound(&tunnels, &member);
    sleep(Duration::from_millis(10)).await;
    let answer = timeout(Duration::from_secs(1), asked(&streams, "/2")).await.expect("it waits for the old session");
    assert_eq!((answer.as_deref(), member.heard("/2")), (Ok("GET /2"), 1));
    new.kill();
    old.kill();
}

#[tokio::test(start_paused = true)]
async fn the_newest_session_is_used_and_the_one_before_once_it_ended() {
    let (tunnels, first, second) = (Tunnels::default(), Member::default(), Member::default());
    let streams = Streams::through(&tunnels, "m1");
    let old = Session::sound(&tunnels, &first);
    opened(&tunnels).await;
    assert_eq!(asked(&streams, "/1").await.as_deref(), Ok("GET /1"));
    let (waiting, of_old) = (Tasks::new("waiting"), streams.clone());
    let under_way = waiting.spawn("one", async move { asked(&of_old, "/silent").await });
    while first.heard("/silent") == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    let new = Session::sound(&tunnels, &second);
    assert!(timeout(Duration::from_secs(100), under_way).await.is_err(), "a request under way is not broken off");
    assert_eq!(asked(&streams, "/2").await.as_deref(), Ok("GET /2"));
    assert_eq!((first.heard("/2"), second.heard("/2")), (0, 1));
    new.kill();
    sleep(Duration::from_secs(1)).await;
    assert!(tunnels.is_open("m1"), "the agent with the older session is still there");
    assert_eq!(asked(&streams, "/3").await.as_deref(), Ok("GET /3"));
    assert_eq!((first.heard("/3"), second.heard("/3")), (1, 0));
    old.kill();
    sleep(Duration::from_secs(1)).await;
    assert!(!tunnels.is_open("m1"));
    let refused = asked(&streams, "/4").await.unwrap_err();
    assert!(refused.contains("holds no tunnel open"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_has_a_bounded_number_of_sessions() {
    let (tunnels, member) = (Tunnels::default(), Member::default());
    let mut sessions = Vec::new();
    for _ in 0..20 {
        sessions.push(Session::sound(&tunnels, &member));
        sleep(Duration::from_secs(1)).await;
    }
    let newest = sessions.split_off(20 - 4);
    for (n, session) in sessions.into_iter().enumerate() {
        session.ended(FOUND, &format!("session {n}")).await;
    }
    sleep(FOUND * 2).await;
    let streams = Streams::through(&tunnels, "m1");
    assert_eq!(asked(&streams, "/1").await.as_deref(), Ok("GET /1"));
    newest.iter().for_each(Session::kill);
}

/// Ends of agents that are none: what they say, and whether they end then.
#[tokio::test(start_paused = true)]
async fn an_agent_that_speaks_something_else_is_dropped() {
    let header = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let many_headers = b"\x00\x40\x00\x01\x00\x00\x00\x00\x01".to_vec();
    for (name, said) in [
        ("nothing", &b""[..]),
        ("HTML", b"<html><body>Sign in to continue</body></html>\r\n"),
        ("an answer of HTTP/1.1", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ("its own preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("settings and nothing more", &header),
        ("headers of no request", &many_headers),
    ] {
        let (tunnels, carriers) = (Tunnels::default(), Tasks::new("carriers"));
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let carried = tunnels.clone();
        let carried = carriers.spawn("carry", async move { carried.carry("m1", "a", near).await });
        far.write_all(said).await.unwrap();
        let streams = Streams::through(&tunnels, "m1");
        sleep(Duration::from_millis(1)).await;
        let failed = timeout(ANSWERED, asked(&streams, "/1")).await.unwrap_or_else(|_| panic!("{name}: hangs"));
        assert!(failed.is_err(), "{name}");
        timeout(FOUND, carried).await.unwrap_or_else(|_| panic!("{name}: the tunnel stays")).ok();
        assert!(!tunnels.is_open("m1"), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_that_speaks_something_else_is_left() {
    for (name, said) in [
        ("nothing", &b""[..]),
        ("HTML", b"<html><body>Sign in to continue</body></html>\r\n"),
        ("half a preface", b"PRI * HTTP/2.0\r\n"),
        ("a preface and nothing more", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("a request of HTTP/1.1", b"GET / HTTP/1.1\r\nHost: member\r\n\r\n"),
        ("half a request", b"GET / HTTP/1.1\r\n"),
    ] {
        let (agent, member) = (Tasks::new("agent"), Member::default());
        let (mut near, far) = tokio::io::duplex(1 << 16);
        let (of_agent, answer) = (agent.clone(), member.answer());
        let served = agent.spawn("serve", async move { serve_tunnel(far, &of_agent, answer).await });
        near.write_all(said).await.unwrap();
        timeout(FOUND, served).await.unwrap_or_else(|_| panic!("{name}: the agent holds on")).ok();
        assert_eq!(member.0.lock().len(), 0, "{name}: no request over a stream of the tunnel");
    }
}

#[tokio::test(start_paused = true)]
async fn streams_beyond_the_bound_fail_and_the_others_go_on() {
    let (tunnels, member) = (Tunnels::default(), Member::default());
    let streams = Streams::through(&tunnels, "m1");
    let session = Session::sound(&tunnels, &member);
    opened(&tunnels).await;
    let waiting = Tasks::new("waiting");
    let most = STREAMS_MAX as usize;
    for _ in 0..most {
        let streams = streams.clone();
        waiting.spawn("one", async move { asked(&streams, "/silent").await });
    }
    while member.heard("/silent") < most {
        sleep(Duration::from_millis(10)).await;
    }
    let more = futures::future::join_all((0..2_000).map(|_| asked(&streams, "/more")));
    let more = timeout(ANSWERED, more).await.expect("requests beyond the bound hang");
    assert!(more.iter().all(Result::is_err) && member.heard("/more") == 0);
    assert!(tunnels.is_open("m1"));
    waiting.kill();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(asked(&streams, "/after").await.as_deref(), Ok("GET /after"));
    session.kill();
}

/// A side that can't be written to any more.
struct Closed;

impl AsyncWrite for Closed {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn what_one_direction_carries_arrives_though_the_other_broke() {
    let sent = vec![7; 1 << 16];
    let (mut near, far) = tokio::io::duplex(16);
    near.write_all(b"nobody reads this").now_or_never();
    let tasks = Tasks::new("carriers");
    let content = std::io::Cursor::new(sent.clone());
    let carried = tasks.spawn("carry", carry_both(tokio::io::join(content, Closed), far));
    let mut arrived = Vec::new();
    near.read_to_end(&mut arrived).await.unwrap();
    assert!(arrived == sent, "{} bytes of {}", arrived.len(), sent.len());
    drop(near);
    assert_eq!(carried.await.unwrap(), (sent.len() as u64, 0));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_being_opened_goes_over_to_the_new_session() {
    let (tunnels, member, waiting) = (Tunnels::default(), Member::default(), Tasks::new("waiting"));
    let streams = Streams::through(&tunnels, "m1");
    let old = Session::sound(&tunnels, &member);
    opened(&tunnels).await;
    old.silent.store(true, Ordering::Relaxed);
    let asking = waiting.spawn("one", async move { asked(&streams, "/1").await });
    sleep(Duration::from_secs(1)).await;
    let new = Session::sound(&tunnels, &member);
    let answer = timeout(Duration::from_secs(1), asking).await.expect("it waits for the old session").unwrap();
    assert_eq!((answer.as_deref(), member.heard("/1")), (Ok("GET /1"), 1));
    new.kill();
    old.kill();
}

/// Bytes that the control plane takes of an answer whose head does not end.
#[tokio::test(start_paused = true)]
async fn a_head_without_an_end_is_not_kept() {
    let (tunnels, carriers, agent) = (Tunnels::default(), Tasks::new("carriers"), Tasks::new("agent"));
    let (near, far) = tokio::io::duplex(1 << 16);
    let carried = tunnels.clone();
    drop(carriers.spawn("carry", async move { carried.carry("m1", "a", near).await }));
    let taken = Arc::new(AtomicU64::new(0));
    let (of_answer, of_agent) = (taken.clone(), agent.clone());
    let answer = Answer::new(move |mut request: Request<Incoming>| {
        let (connection, taken, group) = (hyper::upgrade::on(&mut request), of_answer.clone(), of_agent.clone());
        group.spawn("connection", async move {
            let Ok(connection) = connection.await else { return };
            let mut connection = TokioIo::new(connection);
            let mut said = &b"HTTP/1.1 200 OK\r\n"[..];
            while connection.write_all(said).await.is_ok() {
                taken.fetch_add(said.len() as u64, Ordering::Relaxed);
                said = b"x-more: 0123456789012345678901234567890123456789012345678901234567890123456789\r\n";
            }
        });
        let response = Response::new(Empty::new().map_err(|e| match e {}).boxed_unsync());
        std::future::ready(Ok(response))
    });
    let of_agent = agent.clone();
    drop(agent.spawn("serve", async move { Served::new(far, BOUNDS_OF_TUNNEL, &of_agent, answer).await }));
    opened(&tunnels).await;
    let streams = Streams::through(&tunnels, "m1");
    let refused = timeout(ANSWERED, asked(&streams, "/1")).await.expect("it reads on and on");
    assert!(refused.is_err());
    let most = u64::from(2 * WINDOW.0);
    assert!(taken.load(Ordering::Relaxed) < most, "{} bytes", taken.load(Ordering::Relaxed));
    agent.kill();
    carriers.kill();
}
