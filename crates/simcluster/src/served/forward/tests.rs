//! Frames in pieces, sessions as kubectl has them, answers, bounds.

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::json;

use super::{
    FORWARDED_MAX, Session,
    answer::Ports,
    frames::{self, Broken, Decoder, Frame, client::Client, reason},
};

fn ports() -> Ports {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "web-0", "namespace": "shop"},
        "spec": {"containers": [
            {"name": "c", "ports": [{"containerPort": 8080}, {"containerPort": 53, "protocol": "UDP"}]},
            {"name": "side", "ports": [{"containerPort": 9090}, {"containerPort": 8080}]},
        ]},
    }))
    .unwrap();
    Ports::of(&pod, |container| format!("container {}", container.name))
}

/// Frames of a piece that a session sends first.
fn decoded(bytes: &[u8]) -> Vec<Frame> {
    next(&mut Decoder::new(), bytes)
}

fn next(decoder: &mut Decoder, bytes: &[u8]) -> Vec<Frame> {
    decoder.push(bytes);
    std::iter::from_fn(|| decoder.next().unwrap()).collect()
}

/// SYN_STREAM of both streams, as kubectl opens them: that of errors first, and ended.
fn pair(client: &mut Client, first: u32, request: &str, port: &str) -> Vec<u8> {
    let mut out = client.open(first, &[("Streamtype", "error"), ("Port", port), ("Requestid", request)]);
    frames::data(first, &[], true, &mut out);
    out.extend(client.open(first + 2, &[("Streamtype", "data"), ("Port", port), ("Requestid", request)]));
    out
}

fn data(stream: u32, data: &str, last: bool) -> Frame {
    Frame::Data { stream, data: data.into(), last }
}

fn sent(stream: u32, text: &str, last: bool) -> Vec<u8> {
    let mut out = Vec::new();
    frames::data(stream, text.as_bytes(), last, &mut out);
    out
}

/// Number of SYN_REPLY frames among those sent; the decoder leaves them out.
fn opened(bytes: &[u8]) -> usize {
    bytes.windows(4).filter(|four| *four == [0x80, 3, 0, 2]).count()
}

#[test]
fn http_is_answered_and_the_rest_comes_back() {
    let (mut client, mut session) = (Client::new(), Session::new(ports()));
    let mut reader = Decoder::new();
    let out = session.take(&pair(&mut client, 1, "0", "8080")).unwrap();
    assert_eq!((opened(&out), next(&mut reader, &out)), (2, vec![]));
    // A stream of zlib, a stored block with the number 0, and an empty one: Go's inflater wants the last one, too.
    let block = [0x78_u8, 1, 0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    assert_eq!(out[..28], [&[0x80_u8, 3, 0, 2, 0, 0, 0, 20, 0, 0, 0, 1][..], &block].concat());
    assert!(session.take(&sent(3, "GET /a HTTP/1.1\r\nHost: x\r\n", false)).unwrap().is_empty());
    let out = next(&mut reader, &session.take(&sent(3, "\r\n", false)).unwrap());
    let [Frame::Data { stream: 3, data: answer, last: true }, Frame::Data { stream: 1, last: true, .. }] = &out[..]
    else {
        panic!("{out:?}")
    };
    let answer = String::from_utf8_lossy(answer);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\ncontainer c\nGET /a\n"), "{answer}");
    assert!(session.take(&sent(3, "late", true)).unwrap().is_empty(), "what comes after the answer is dropped");

    // Headers of later streams refer to earlier ones.
    let mut more = pair(&mut client, 5, "1", "9090");
    more.extend(sent(7, "hello", false));
    more.extend(pair(&mut client, 9, "2", "9090"));
    let out = session.take(&more).unwrap();
    assert_eq!((opened(&out), next(&mut reader, &out)), (4, vec![data(7, "hello", false)]));
    let out = next(&mut reader, &session.take(&sent(7, " world", true)).unwrap());
    assert_eq!(out, [data(7, " world", true), data(5, "", true)]);
    let mut reset = Vec::new();
    frames::reset(11, 5, &mut reset);
    assert_eq!(
        next(&mut reader, &session.take(&reset).unwrap()),
        [data(9, "", true)],
        "kubectl waits for the end of errors"
    );
    assert!(session.forwarded.is_empty());
}

#[test]
fn a_port_on_which_nothing_listens_is_told_on_the_stream_of_errors() {
    let mut session = Session::new(ports());
    let out = decoded(&session.take(&pair(&mut Client::new(), 1, "0", "53")).unwrap());
    let why = "connection refused: nothing listens on port 53 of the simulated pod shop/web-0; \
               its containers declare 8080, 9090";
    assert_eq!(out, [data(1, why, true), data(3, "", true)]);
    let pod = serde_json::from_value(json!({"spec": {"containers": [{"name": "c"}]}})).unwrap();
    assert!(Ports::of(&pod, |_| String::new()).answer(1).is_ok(), "of ports that nobody declares nothing is known");
}

#[test]
fn answers() {
    for (pieces, want, ended) in [
        (&["ab\n"][..], "ab\n", false),
        (&["get / HTTP/1.1\r\n\r\n"], "get / HTTP/1.1\r\n\r\n", false),
        (&["GET", " / HTTP"], "", false),
        (&["GET", "ting"], "GETting", false),
        (&["GET / HTTP/2\r\n"], "GET / HTTP/2\r\n", false),
        (&["HELLO THERE\n", "x"], "HELLO THERE\nx", false),
        (&["HEAD / HTTP/1.0\n\n"], "200 OK", true),
        (&["POST /x HTTP/1.1\r\nContent-Length: 2\r\n\r\nab"], "container c\nPOST /x\n", true),
    ] {
        let mut answer = ports().answer(8080).unwrap();
        let (mut all, mut whole) = (Vec::new(), false);
        for piece in pieces {
            let (bytes, ended) = answer.take(piece.as_bytes(), false);
            all.extend(bytes);
            whole |= ended;
        }
        let all = String::from_utf8(all).unwrap();
        assert!(whole == ended && if ended { all.contains(want) } else { all == want }, "{pieces:?}: {all}");
    }
    let mut answer = ports().answer(8080).unwrap();
    assert_eq!(answer.take(b"GET", true), (b"GET".to_vec(), true), "what did not become a request comes back");
    let mut answer = ports().answer(8080).unwrap();
    let long = format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(20_000));
    assert!(answer.take(long.as_bytes(), false).0.starts_with(b"HTTP/1.1 431 "));
}

#[test]
fn bounds() {
    let mut session = Session::new(ports());
    let mut ping = Vec::new();
    frames::ping(7, &mut ping);
    assert_eq!(session.take(&ping).unwrap(), ping);
    let mut even = Vec::new();
    frames::ping(8, &mut even);
    assert!(session.take(&even).unwrap().is_empty());
    for (bytes, want) in [
        (&[0, 0, 0, 1, 0, 0xff, 0xff, 0xff][..], Broken::Frame(0xff_ffff)),
        (&[0x80, 2, 0, 1, 0, 0, 0, 0], Broken::Version(2)),
        (&[0x80, 3, 0, 1, 0, 0, 0, 2, 0, 0], Broken::Short),
        (&[0x80, 3, 0, 1, 0, 0, 0, 14, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x78, 1, 6, 6], Broken::Compression),
    ] {
        assert_eq!(Session::new(ports()).take(bytes).unwrap_err(), want, "{bytes:?}");
    }
    // Some hundred bytes that become many.
    let bomb = Client::new().open(1, &[("a", "b".repeat(1 << 15).as_str())]);
    assert!(bomb.len() < 200);
    assert_eq!(Session::new(ports()).take(&bomb).unwrap_err(), Broken::Headers);

    let (mut client, mut refused) = (Client::new(), Vec::new());
    let error = |request: &'static str| [("streamtype", "error"), ("port", "8080"), ("requestid", request)];
    frames::reset(4, reason::PROTOCOL, &mut refused);
    assert_eq!(session.take(&client.open(4, &error("0"))).unwrap(), refused, "even numbers are the server's");
    for (headers, stream) in [
        (vec![("streamtype", "error"), ("port", "8080")], 5),
        (vec![("streamtype", "other"), ("port", "8080"), ("requestid", "0")], 5),
        (vec![("streamtype", "data"), ("port", "65536"), ("requestid", "0")], 5),
    ] {
        refused.clear();
        frames::reset(stream, reason::PROTOCOL, &mut refused);
        assert_eq!(session.take(&client.open(stream, &headers)).unwrap(), refused, "{headers:?}");
    }
    for number in 0..FORWARDED_MAX as u32 {
        let request = number.to_string();
        let headers = [("streamtype", "data"), ("port", "8080"), ("requestid", request.as_str())];
        assert_eq!(opened(&session.take(&client.open(number * 2 + 7, &headers)).unwrap()), 1, "{number}");
    }
    let next = FORWARDED_MAX as u32 * 2 + 7;
    refused.clear();
    frames::reset(next, reason::REFUSED, &mut refused);
    assert_eq!(session.take(&client.open(next, &error("more"))).unwrap(), refused);
    assert_eq!(opened(&session.take(&client.open(next + 2, &error("0"))).unwrap()), 1, "its pair is open");
    let early = session.take(&sent(9, "before the stream of errors", false)).unwrap();
    refused.clear();
    frames::reset(9, reason::PROTOCOL, &mut refused);
    assert_eq!(early, refused);
}

proptest! {
    /// Whatever comes: no panic, and what is kept and sent stays in proportion.
    #[test]
    fn any_bytes(
        valid in any::<bool>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        place in any::<prop::sample::Index>(),
        cut in 1_usize..50,
    ) {
        let mut all = Vec::new();
        if valid {
            all = pair(&mut Client::new(), 1, "0", "8080");
            all.extend(sent(3, "GET / HTTP/1.1\r\n\r\n", false));
            let from = place.index(all.len());
            all.splice(from..from, bytes.iter().copied().take(cut));
        }
        all.extend(bytes);
        let mut session = Session::new(ports());
        let mut out = 0;
        for piece in all.chunks(cut) {
            match session.take(piece) {
                Ok(sent) => out += sent.len(),
                Err(_) => break,
            }
        }
        prop_assert!(out <= 4 * all.len() + 400);
    }

    /// How bytes are cut into pieces changes nothing.
    #[test]
    fn any_pieces(cuts in proptest::collection::vec(1_usize..60, 1..20)) {
        let mut client = Client::new();
        let mut all = pair(&mut client, 1, "0", "8080");
        all.extend(sent(3, "hello\n", false));
        all.extend(pair(&mut client, 5, "1", "81"));
        all.extend(sent(3, "", true));
        let mut cut = Session::new(ports());
        let (mut rest, mut out) = (&all[..], Vec::new());
        for length in cuts.iter().cycle() {
            let (piece, after) = rest.split_at(rest.len().min(*length));
            out.extend(cut.take(piece).unwrap());
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(out, Session::new(ports()).take(&all).unwrap());
    }
}
