//! The language of a scenario: requests with their bodies, and variables from their answers.
//!
//! ```text
//! # A comment. Steps are separated by empty lines.
//! POST $core/configmaps
//!   metadata: {name: a}
//!   data: {k: v}
//! $rv = metadata.resourceVersion
//!
//! PATCH merge $core/configmaps/a?fieldManager=m
//!   data: {k: w}
//!
//! WATCH w $core/configmaps?resourceVersion=$rv&timeoutSeconds=2
//!
//! EVENTS w end
//! ```
//!
//! - The first line of a step: a method, for PATCH the kind of patch (`json`, `merge`, `strategic`, `apply`), and the
//!   path.
//! - Indented lines: the body as YAML, sent as JSON. Lines that begin with `=`: the raw body, which need not be
//!   JSON at all.
//! - `Name: value`: a header. `As: anonymous` sends the request without the administrator's certificate.
//! - `$name = path`: stores a value of the answer, separately for each server. `$ns` is the scenario's namespace,
//!   `$core` and `$apps` the paths below it.
//! - `until PATH VALUE` and `until code N`: repeats the request until the condition holds.
//! - `only code`, `silent`: compares only the code, or nothing.
//! - `unordered`: the causes of a refusal may be in any order.
//! - `WATCH name path` opens a watch, `EVENTS name N` takes N events from it, `EVENTS name end` all until its end.
//! - `REPEAT 100 4 METHOD path`: sends the request 100 times, 4 at a time; `$i` counts from 0. Several requests
//!   with `|` between them take turns. The codes are counted; with `only code`, only those from 500 on.
//! - `COUNT name N`: takes N events from a watch, without bookmarks, counts them by type, and checks
//!   whether their order is right.
//! - `CLAIMS $token`: the claims of a token. `ASKED path`: the last request to the webhook at `$hook/path`.
//! - `$hook` and `$ca`: URL of webhooks ([`super::webhooks`]) and their CA; `$csr`, `$mastercsr` and
//!   `$certificate`: requests for certificates of a user and of an administrator, and a certificate, all in base64.
//! - `$files`: a directory with `tls.crt`, `tls.key` and the `other.key`, for kubectl.
//! - `kubectl …`: runs the command in the scenario's namespace; the body is its stdin, headers are its environment.
//! - `START name kubectl …` starts one that watches, and waits until it does; `LINES name N` takes N lines that it
//!   prints, `LINES name end` all until it ends.
//! - `mask REGEX TEXT`, as a separate step: masks matches in all later answers.
//! - `{{x*1000}}` anywhere is x repeated 1000 times.

use anyhow::{Context as _, bail};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    pub name: String,
    pub steps: Vec<Step>,
    pub masks: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub line: String,
    pub action: Action,
    pub headers: Vec<(String, String)>,
    pub body: Payload,
    pub captures: Vec<(String, String)>,
    /// Path and value that the step waits for.
    pub until: Option<(String, String)>,
    /// Compared part of the answer.
    pub compared: Compared,
    /// Set if the causes may be in any order.
    pub unordered: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A request, with its content type unless a header sets another.
    Request {
        method: String,
        /// The content type of its body.
        content_type: Option<&'static str>,
        path: String,
    },
    Watch {
        name: String,
        /// Path and query; `watch=true` is added.
        path: String,
    },
    /// Takes events of a watch.
    Events {
        name: String,
        /// Their number; all until the end if absent.
        count: Option<usize>,
    },
    Repeat {
        /// Total number.
        times: usize,
        /// Number of concurrent requests.
        at_once: usize,
        requests: Vec<(String, Option<&'static str>, String)>,
    },
    /// Takes events of a watch and counts them by type.
    CountEvents {
        name: String,
        count: usize,
    },
    Claims {
        token: String,
    },
    Asked {
        path: String,
    },
    Kubectl {
        arguments: Vec<String>,
    },
    Start {
        name: String,
        arguments: Vec<String>,
    },
    /// Takes lines that a started kubectl prints.
    Lines {
        name: String,
        /// Their number; all until the end if absent.
        count: Option<usize>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    None,
    Yaml(String),
    Raw(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    Whole,
    Code,
    Nothing,
}

pub fn parse(name: &str, text: &str) -> anyhow::Result<Scenario> {
    let mut scenario = Scenario { name: name.to_owned(), steps: Vec::new(), masks: Vec::new() };
    let mut block: Vec<&str> = Vec::new();
    for line in text.lines().chain([""]) {
        if !line.trim().is_empty() {
            if !line.starts_with('#') {
                block.push(line);
            }
            continue;
        }
        if let Some(first) = block.first() {
            if let Some(mask) = first.strip_prefix("mask ") {
                let (pattern, with) = mask.rsplit_once(' ').with_context(|| format!("{name}: {first}"))?;
                scenario.masks.push((pattern.trim().to_owned(), with.to_owned()));
            } else {
                scenario.steps.push(step(&block).with_context(|| format!("{name}: {first}"))?);
            }
            block.clear();
        }
    }
    Ok(scenario)
}

fn step(lines: &[&str]) -> anyhow::Result<Step> {
    let (first, rest) = lines.split_first().context("a step has a first line")?;
    let mut step = Step {
        line: (*first).to_owned(),
        action: action(first)?,
        headers: Vec::new(),
        body: Payload::None,
        captures: Vec::new(),
        until: None,
        compared: Compared::Whole,
        unordered: false,
    };
    for line in rest {
        if let Some(raw) = line.strip_prefix('=') {
            append(&mut step.body, Payload::Raw, raw.strip_prefix(' ').unwrap_or(raw));
        } else if let Some(yaml) = line.strip_prefix("  ") {
            append(&mut step.body, Payload::Yaml, yaml);
        } else if let Some((variable, path)) = line.strip_prefix('$').and_then(|l| l.split_once(" = ")) {
            step.captures.push((variable.to_owned(), path.trim().to_owned()));
        } else if let Some((path, value)) = line.strip_prefix("until ").and_then(|l| l.split_once(' ')) {
            step.until = Some((path.to_owned(), value.trim().to_owned()));
        } else if *line == "only code" {
            step.compared = Compared::Code;
        } else if *line == "silent" {
            step.compared = Compared::Nothing;
        } else if *line == "unordered" {
            step.unordered = true;
        } else if let Some((name, value)) = line.split_once(':').filter(|(n, _)| is_header(n)) {
            step.headers.push((name.to_owned(), value.trim().to_owned()));
        } else {
            bail!("{line:?} is not understood");
        }
    }
    Ok(step)
}

fn append(body: &mut Payload, make: fn(String) -> Payload, line: &str) {
    match body {
        Payload::None => *body = make(line.to_owned()),
        Payload::Yaml(text) | Payload::Raw(text) => {
            text.push('\n');
            text.push_str(line);
        }
    }
}

fn is_header(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

fn action(line: &str) -> anyhow::Result<Action> {
    let words: Vec<&str> = line.split_whitespace().collect();
    Ok(match *words.as_slice() {
        ["WATCH", name, path] => Action::Watch { name: name.to_owned(), path: path.to_owned() },
        ["EVENTS", name, "end"] => Action::Events { name: name.to_owned(), count: None },
        ["EVENTS", name, count] => Action::Events { name: name.to_owned(), count: Some(count.parse()?) },
        ["COUNT", name, count] => Action::CountEvents { name: name.to_owned(), count: count.parse()? },
        ["CLAIMS", token] => Action::Claims { token: token.to_owned() },
        ["ASKED", path] => Action::Asked { path: path.to_owned() },
        ["REPEAT", times, at_once, ref requests @ ..] => {
            let requests = requests.split(|word| *word == "|").map(request).collect::<anyhow::Result<_>>()?;
            Action::Repeat { times: times.parse()?, at_once: at_once.parse()?, requests }
        }
        ["kubectl", ..] => Action::Kubectl { arguments: arguments(line)?.split_off(1) },
        ["START", name, "kubectl", ..] => {
            Action::Start { name: name.to_owned(), arguments: arguments(line)?.split_off(3) }
        }
        ["LINES", name, "end"] => Action::Lines { name: name.to_owned(), count: None },
        ["LINES", name, count] => Action::Lines { name: name.to_owned(), count: Some(count.parse()?) },
        ref words => {
            let (method, content_type, path) = request(words)?;
            Action::Request { method, content_type, path }
        }
    })
}

fn request(words: &[&str]) -> anyhow::Result<(String, Option<&'static str>, String)> {
    let (method, content_type, path) = match *words {
        ["PATCH", kind, path] => {
            let content_type = match kind {
                "json" => "application/json-patch+json",
                "merge" => "application/merge-patch+json",
                "strategic" => "application/strategic-merge-patch+json",
                "apply" => "application/apply-patch+yaml",
                _ => bail!("the kind of a patch must be json, merge, strategic or apply"),
            };
            ("PATCH", Some(content_type), path)
        }
        [method @ ("POST" | "PUT" | "DELETE"), path] => (method, Some("application/json"), path),
        [method @ ("GET" | "PATCH" | "HEAD" | "OPTIONS"), path] => (method, None, path),
        _ => bail!("unknown step"),
    };
    Ok((method.to_owned(), content_type, path.to_owned()))
}

/// Splits a command line at blanks outside quotes, as a shell does.
fn arguments(line: &str) -> anyhow::Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        bail!("a quote is not closed");
    }
    words.extend(word);
    Ok(words)
}

/// Replaces `{{x*N}}` by x, repeated N times.
pub(super) fn repeated(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let found = after.split_once("}}").and_then(|(inner, tail)| {
            let (what, times) = inner.rsplit_once('*')?;
            Some((what.repeat(times.parse().ok()?), tail))
        });
        match found {
            Some((long, tail)) => {
                out.push_str(&long);
                rest = tail;
            }
            None => {
                out.push_str("{{");
                rest = after;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenario_is_parsed() {
        let text = "# what it shows\nmask a[0-9]+ a\n\nPOST $core/configmaps\nAccept: text/html\n  metadata: {name: a}\n  data:\n    k: v\n$rv = metadata.resourceVersion\n\n\
                    PATCH json $core/configmaps/a\n= [\nonly code\n\nEVENTS w end\n\nkubectl get cm 'a b'\nuntil code 0\n\n\
                    START w kubectl get cm -w\n\nLINES w 2\n";
        let scenario = parse("x", text).unwrap();
        assert_eq!(scenario.masks, [("a[0-9]+".to_owned(), "a".to_owned())]);
        let [post, patch, events, kubectl, start, lines] = scenario.steps.as_slice() else {
            panic!("{:?}", scenario.steps)
        };
        assert_eq!(post.headers, [("Accept".to_owned(), "text/html".to_owned())]);
        assert_eq!(post.body, Payload::Yaml("metadata: {name: a}\ndata:\n  k: v".to_owned()));
        assert_eq!(post.captures, [("rv".to_owned(), "metadata.resourceVersion".to_owned())]);
        assert_eq!(patch.body, Payload::Raw("[".to_owned()));
        assert_eq!(patch.compared, Compared::Code);
        assert_eq!(events.action, Action::Events { name: "w".to_owned(), count: None });
        let words = ["get", "cm", "a b"].map(str::to_owned).to_vec();
        assert_eq!(kubectl.action, Action::Kubectl { arguments: words });
        assert_eq!(kubectl.until, Some(("code".to_owned(), "0".to_owned())));
        let arguments = ["get", "cm", "-w"].map(str::to_owned).to_vec();
        assert_eq!(start.action, Action::Start { name: "w".to_owned(), arguments });
        assert_eq!(lines.action, Action::Lines { name: "w".to_owned(), count: Some(2) });
    }

    #[test]
    fn unknown_steps_are_refused() {
        for text in [
            "FETCH /a", "GET /a\nwhat is this", "PATCH odd /a", "EVENTS w many", "kubectl get 'x", "REPEAT 2 1 GET",
            "COUNT w",
        ] {
            assert!(parse("x", text).is_err(), "{text}");
        }
    }

    #[test]
    fn repetitions_are_expanded() {
        for (text, want) in [("a{{b*3}}c", "abbbc"), ("{{x}}", "{{x}}"), ("{{1*2}}{{a*0}}", "11")] {
            assert_eq!(repeated(text), want);
        }
    }
}
