//! `Warning` headers of API servers, as Kubernetes writes and reads them (RFC 9110 5.5, RFC 7234 5.5).

use http::{HeaderMap, header::WARNING};

/// Code of the warnings that API servers send; others are not for people.
const MISCELLANEOUS_PERSISTENT: u16 = 299;

/// Function that is called with the text of each warning of an answer.
pub type Warn = fn(&str);

/// Texts of the warnings in the headers of an answer.
pub(crate) fn texts(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(WARNING).iter().filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
    values.flat_map(parse).collect()
}

/// Texts of code 299 in one header value, which may hold several warnings, separated by commas. What follows a syntax
/// error is skipped, as client-go does.
fn parse(value: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), value.trim());
    while !rest.is_empty() {
        let Some(((code, text), next)) = first(rest) else { break };
        if code == MISCELLANEOUS_PERSISTENT && !text.is_empty() {
            found.push(text);
        }
        rest = next;
    }
    found
}

/// Code and text of the first warning, `CODE AGENT "TEXT"` with an optional quoted date behind it, and what comes after
/// its comma.
fn first(value: &str) -> Option<((u16, String), &str)> {
    let (code, rest) = value.split_once(' ')?;
    let (agent, rest) = rest.split_once(' ')?;
    let is_code = code.len() == 3 && code.bytes().all(|digit| digit.is_ascii_digit());
    if !is_code || agent.is_empty() || agent.contains(char::is_control) {
        return None;
    }
    let (text, rest) = quoted(rest)?;
    if text.contains(char::is_control) {
        return None;
    }
    // A date has no escaped characters.
    let rest = match rest.strip_prefix('"') {
        Some(date) => date.split_once('"')?.1.trim_start(),
        None => rest,
    };
    let rest = if rest.is_empty() { rest } else { rest.strip_prefix(',')?.trim_start() };
    Some(((code.parse().ok()?, text), rest))
}

/// A quoted string without its quotes and backslashes, and what comes after it.
fn quoted(value: &str) -> Option<(String, &str)> {
    let (mut text, mut is_escaped) = (String::new(), false);
    let inner = value.strip_prefix('"')?;
    for (at, c) in inner.char_indices() {
        match c {
            '"' if !is_escaped => return Some((text, inner[at + 1..].trim_start())),
            '\\' if !is_escaped => is_escaped = true,
            c => {
                text.push(c);
                is_escaped = false;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{Arc, Mutex},
    };

    use kube::client::Body;

    use super::*;
    use crate::{Traffic, in_process_client};

    static PASSED: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[tokio::test]
    async fn clients_pass_the_warnings_of_every_answer() {
        let service = tower::service_fn(|request: http::Request<Body>| async move {
            let text = format!("299 - \"of {}\"", request.uri().path());
            let answer = http::Response::builder().header(WARNING, text).header(WARNING, "299 - \"always\"");
            Ok::<_, Infallible>(answer.body(Body::from(b"{}".to_vec())).unwrap())
        });
        let traffic = Traffic::with_warnings(|text| PASSED.lock().unwrap().push(text.to_owned()));
        let client = in_process_client(service, Arc::new(traffic));
        for path in ["/a", "/b"] {
            let request = http::Request::get(path).body(Vec::new()).unwrap();
            client.request::<serde_json::Value>(request).await.unwrap();
        }
        assert_eq!(*PASSED.lock().unwrap(), ["of /a", "always", "of /b", "always"]);
    }

    #[test]
    fn warnings_are_read_as_client_go_reads_them() {
        for (value, want) in [
            (r#"299 - "policy/v1beta1 is deprecated""#, vec!["policy/v1beta1 is deprecated"]),
            (r#"  299 kube-apiserver "with an agent"  "#, vec!["with an agent"]),
            (r#"299 - "a \"quoted\" back\\slash""#, vec![r#"a "quoted" back\slash"#]),
            (r#"299 - "dated" "Wed, 21 Oct 2015 07:28:00 GMT""#, vec!["dated"]),
            (r#"299 - "one", 299 - "two" "Wed, 21 Oct 2015 07:28:00 GMT" ,299 - "three""#, vec!["one", "two", "three"]),
            ("299 - \"größer als 1 €\"", vec!["größer als 1 €"]),
            (r#"199 - "for machines", 299 - "for people""#, vec!["for people"]),
            (r#"299 - """#, vec![]),
            (r#"299 - "dropped" and more"#, vec![]),
            (r#"299 - "first", 299 - "unclosed"#, vec!["first"]),
            (r#"299 - "undated" "Wed"#, vec![]),
            (r#"299 - unquoted"#, vec![]),
            (r#"299  "no agent""#, vec![]),
            (r#"+99 - "a sign""#, vec![]),
            (r#"29 - "two digits""#, vec![]),
            ("299 - \"a\x1b[2Jb\"", vec![]),
            ("299 -", vec![]),
            (",", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(parse(value), want, "{value}");
        }
    }

    #[test]
    fn every_header_of_an_answer_counts() {
        let mut headers = HeaderMap::new();
        for value in [&br#"299 - "one""#[..], br#"broken"#, b"299 - \"\xff\"", br#"299 - "two""#] {
            headers.append(WARNING, http::HeaderValue::from_bytes(value).unwrap());
        }
        assert_eq!(texts(&headers), ["one", "two"]);
    }
}
