//! Bytes of any kind at both ends of a tunnel: they end it or are ignored, whatever their chunks are.

use http_body_util::Full;
use proptest::{
    collection,
    prelude::{Strategy, any, prop, proptest},
};
use tokio::io::{AsyncReadExt as _, DuplexStream};

use super::*;
use crate::Streams;

/// Bytes for one end, and their chunks.
#[derive(Debug, Clone)]
struct Said {
    bytes: Vec<u8>,
    cuts: Vec<usize>,
}

/// Time in which an end finds that nothing follows.
const FOUND: Duration = Duration::from_secs(90);

fn path(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/tunnel").join(name)
}

fn folder(name: &str) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(path(name)).unwrap().map(|file| file.unwrap().path());
    let mut paths: Vec<_> = files.collect();
    paths.sort();
    paths.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// A seed of this folder with some bytes changed, repeated or left out, or any bytes at all.
fn said(name: &'static str) -> impl Strategy<Value = Said> {
    let changes = collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 0..6);
    let cuts = collection::vec(1..40usize, 0..20);
    (any::<prop::sample::Selector>(), changes, collection::vec(any::<u8>(), 0..200), 0..10u8, cuts).prop_map(
        move |(seed, changes, random, kind, cuts)| {
            let mut bytes = if kind == 0 { Vec::new() } else { seed.select(folder(name)) };
            for (at, byte, how) in changes {
                if bytes.is_empty() {
                    break;
                }
                let at = at.index(bytes.len());
                match how {
                    0 => bytes[at] = byte,
                    1 => drop(bytes.drain(at..bytes.len().min(at + usize::from(byte)))),
                    2 => bytes.extend_from_within(at..),
                    _ => bytes.insert(at, byte),
                }
            }
            if kind < 3 {
                bytes.extend(random);
            }
            Said { cuts: if kind < 6 { cuts } else { frames(&bytes) }, bytes }
        },
    )
}

/// The sizes of the frames of an agent.
fn frames(bytes: &[u8]) -> Vec<usize> {
    let (mut sizes, mut rest) = (Vec::new(), bytes);
    while let [a, b, c, ..] = rest {
        let size = (9 + u32::from_be_bytes([0, *a, *b, *c]) as usize).min(rest.len());
        sizes.push(size);
        rest = &rest[size..];
    }
    sizes
}

/// Says it in its chunks, and ends, while what comes back is thrown away.
async fn say(mut stream: DuplexStream, said: Said) {
    tokio::time::sleep(Duration::from_millis(1)).await;
    let (mut rest, mut cuts, mut heard) = (&said.bytes[..], said.cuts.into_iter(), [0; 4096]);
    while !rest.is_empty() {
        let (part, more) = rest.split_at(cuts.next().unwrap_or(rest.len()).min(rest.len()));
        rest = more;
        if stream.write_all(part).await.is_err() {
            return;
        }
        while let Some(Ok(1..)) = stream.read(&mut heard).now_or_never() {}
        // The other end answers meanwhile.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let _ = tokio::time::timeout(FOUND, async { while let Ok(1..) = stream.read(&mut heard).await {} }).await;
}

/// A member that answers with what it is sent, and counts.
fn member(heard: &Arc<AtomicU64>) -> Answer {
    let heard = heard.clone();
    Answer::new(move |request: Request<Incoming>| {
        let heard = heard.clone();
        async move {
            heard.fetch_add(1, Ordering::Relaxed);
            let body = request.into_body().collect().await.map_err(io::Error::other)?;
            Ok(Response::new(Full::new(body.to_bytes()).map_err(|e| match e {}).boxed_unsync()))
        }
    })
}

/// Sends a request with a body of so many bytes; returns the bytes of the answer.
async fn ask(streams: Streams, bytes: usize) -> Result<usize, String> {
    let body = Full::new(Bytes::from(vec![b'x'; bytes])).map_err(|e| match e {}).boxed_unsync();
    let mut request = Request::new(body);
    *request.uri_mut() = Uri::from_static("/version");
    let answer = streams.send(request).await?.into_body().collect().await.map_err(|error| error.to_string())?;
    Ok(answer.to_bytes().len())
}

/// Sends requests of these sizes at once.
async fn ask_all(tunnels: &Tunnels, sizes: &[usize]) -> Vec<Result<usize, String>> {
    let streams = Streams::through(tunnels, "m1");
    futures::future::join_all(sizes.iter().map(|bytes| ask(streams.clone(), *bytes))).await
}

/// Carries bytes, and keeps them.
async fn record(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, kept: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        kept.lock().extend(&buffer[..read]);
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// The bytes of a session with these requests at once: the control plane's, and the agent's.
async fn recorded(requests: &[usize]) -> [Vec<u8>; 2] {
    let (tunnels, tasks, kept) = (Tunnels::default(), Tasks::new("both"), <[Arc<Mutex<Vec<u8>>>; 2]>::default());
    let ((near, of_near), (far, of_far)) = (tokio::io::duplex(1 << 16), tokio::io::duplex(1 << 16));
    let ((from_near, to_near), (from_far, to_far)) = (tokio::io::split(of_near), tokio::io::split(of_far));
    drop(tasks.spawn("there", record(from_near, to_far, kept[0].clone())));
    drop(tasks.spawn("back", record(from_far, to_near, kept[1].clone())));
    let (of_carry, of_agent, answer) = (tunnels.clone(), tasks.clone(), member(&Arc::default()));
    drop(tasks.spawn("carry", async move { of_carry.carry("m1", "a", near).await }));
    drop(tasks.spawn("serve", async move { serve_tunnel(far, &of_agent, answer).await }));
    tokio::time::sleep(Duration::from_millis(1)).await;
    let answers = ask_all(&tunnels, requests).await;
    assert!(answers.iter().zip(requests).all(|(answer, sent)| answer.as_ref() == Ok(sent)));
    tasks.kill();
    kept.map(|kept| kept.lock().clone())
}

/// The seeds still are bytes of sessions. With UPDATE_GOLDENS=1 they are recorded again.
#[test]
fn seeds_carry_requests() {
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        for (name, requests) in
            [("one-request", &[0][..]), ("three-at-once", &[0, 10, 100]), ("a-large-body", &[3_000])]
        {
            paused(async {
                for (of, bytes) in ["plane", "agent"].into_iter().zip(recorded(requests).await) {
                    std::fs::create_dir_all(path(of)).unwrap();
                    std::fs::write(path(of).join(name), bytes).unwrap();
                }
            });
        }
    }
    for bytes in folder("plane") {
        paused(async move {
            let (agent, heard) = (Tasks::new("agent"), Arc::<AtomicU64>::default());
            let (near, far) = tokio::io::duplex(1 << 12);
            let (of_agent, answer) = (agent.clone(), member(&heard));
            drop(agent.spawn("serve", async move { serve_tunnel(far, &of_agent, answer).await }));
            say(near, Said { bytes, cuts: Vec::new() }).await;
            assert!(heard.load(Ordering::Relaxed) > 0, "no request arrives");
        });
    }
    for bytes in folder("agent") {
        paused(async move {
            let (tunnels, plane) = (Tunnels::default(), Tasks::new("plane"));
            let (near, far) = tokio::io::duplex(1 << 12);
            let of_carry = tunnels.clone();
            drop(plane.spawn("carry", async move { of_carry.carry("m1", "a", near).await }));
            let said = plane.spawn("say", say(far, Said { cuts: frames(&bytes), bytes }));
            tokio::task::yield_now().await;
            assert!(ask_all(&tunnels, &[0; 3]).await.iter().any(Result::is_ok), "no answer arrives");
            drop(said);
            plane.kill();
        });
    }
}

/// Panics in the code of tunnels since the first call, in whatever task.
fn panics() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let file = panic.location().map_or("", std::panic::Location::file);
            let is_counted = ["hyper", "h2-", "tunnel.rs", "serving"].iter().any(|part| file.contains(part));
            COUNT.fetch_add(u64::from(is_counted), Ordering::Relaxed);
            told(panic);
        }));
    });
    COUNT.load(Ordering::Relaxed)
}

fn paused(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap().block_on(test);
}

proptest! {
    /// An agent given anything in place of the control plane's part.
    #[test]
    fn agents_take_anything(said in said("plane")) {
        panics();
        paused(async move {
            let agent = Tasks::new("agent");
            let (near, far) = tokio::io::duplex(1 << 12);
            let (of_agent, answer) = (agent.clone(), member(&Arc::default()));
            let served = agent.spawn("serve", async move { serve_tunnel(far, &of_agent, answer).await });
            say(near, said).await;
            let ended = tokio::time::timeout(FOUND, served).await.expect("the agent holds on");
            drop(ended.expect("it panics"));
            assert_eq!(panics(), 0, "a task panics");
        });
    }

    /// A control plane given anything in place of the agent's part, while it sends requests.
    #[test]
    fn the_control_plane_takes_anything(said in said("agent")) {
        panics();
        paused(async move {
            let (tunnels, plane) = (Tunnels::default(), Tasks::new("plane"));
            let (near, far) = tokio::io::duplex(1 << 12);
            let of_carry = tunnels.clone();
            let carried = plane.spawn("carry", async move { of_carry.carry("m1", "a", near).await });
            let of_requests = tunnels.clone();
            let asked = plane.spawn("ask", async move { ask_all(&of_requests, &[0; 3]).await });
            say(far, said).await;
            let ended = tokio::time::timeout(FOUND, carried).await.expect("the control plane holds on");
            drop(ended.expect("it panics"));
            tokio::time::timeout(FOUND, asked).await.expect("a request hangs").expect("it panics");
            assert!(!tunnels.is_open("m1"));
            assert_eq!(panics(), 0, "a task panics");
        });
    }
}
