//! Plays a scenario on one server and records the answers.

use std::{collections::BTreeMap, io::Read as _, time::Duration};

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use http::HeaderMap;
use serde_json::{Value, json};

use crate::real::{Running, until};

use super::{
    certificates, event_counts,
    mask::Masks,
    script::{Action, Compared, Payload, Scenario, Step, repeated},
    side::{Answer, As, Side, Stream},
};

const DEADLINE: Duration = Duration::from_secs(40);

/// Headers that clients read, and `true` if their values are compared.
const HEADERS: [(&str, bool); 16] = [
    ("content-type", true),
    ("warning", true),
    ("retry-after", true),
    ("location", true),
    ("cache-control", true),
    ("vary", true),
    ("content-encoding", true),
    ("allow", true),
    ("x-content-type-options", true),
    ("audit-id", false),
    ("etag", false),
    ("expires", false),
    ("date", false),
    ("x-kubernetes-pf-flowschema-uid", false),
    ("x-kubernetes-pf-prioritylevel-uid", false),
    ("www-authenticate", true),
];

pub(super) async fn play(side: &Side, scenario: &Scenario, namespace: &str) -> anyhow::Result<Vec<Value>> {
    let mut runner = Runner {
        side,
        variables: BTreeMap::new(),
        watches: BTreeMap::new(),
        running: BTreeMap::new(),
        masks: Masks::new(namespace, &scenario.masks)?,
        namespace,
        code: String::new(),
    };
    for (name, value) in [
        ("ns", namespace.to_owned()),
        ("hook", format!("{}/{namespace}", side.webhooks.url())),
        ("ca", side.webhooks.authority().to_owned()),
        ("files", side.files.display().to_string()),
        ("core", format!("/api/v1/namespaces/{namespace}")),
        ("apps", format!("/apis/apps/v1/namespaces/{namespace}")),
    ] {
        runner.variables.insert(name.to_owned(), value);
    }
    for (name, value) in certificates::variables() {
        runner.variables.insert((*name).to_owned(), value.clone());
    }
    let mut notes = Vec::with_capacity(scenario.steps.len());
    for step in &scenario.steps {
        notes.push(runner.step(step).await.with_context(|| step.line.clone())?);
    }
    Ok(notes)
}

struct Runner<'a> {
    side: &'a Side,
    variables: BTreeMap<String, String>,
    watches: BTreeMap<String, Stream>,
    running: BTreeMap<String, Running>,
    masks: Masks,
    namespace: &'a str,
    /// Code of the last answer or kubectl, also if it is not compared.
    code: String,
}

impl Runner<'_> {
    async fn step(&mut self, step: &Step) -> anyhow::Result<Value> {
        let Some((path, want)) = &step.until else { return Ok(self.once(step).await?.0) };
        let want = self.filled(want);
        // Reset the masks for each attempt, so that the number of attempts does not show.
        let before = self.masks.clone();
        let mut last = None;
        let seen = until(&step.line, DEADLINE, async || {
            self.masks = before.clone();
            let (note, raw) = self.once(step).await?;
            let found = if path == "code" { self.code.clone() } else { text_at(&raw, path).unwrap_or_default() };
            last = Some(note.clone());
            if found != want {
                bail!("{path} is {found:?}, not {want:?}");
            }
            Ok(note)
        });
        match seen.await {
            Ok(note) => Ok(note),
            Err(error) => Ok(json!({"never": format!("{error:#}"), "last": last})),
        }
    }

    /// Runs a step once; returns its record and the original body.
    async fn once(&mut self, step: &Step) -> anyhow::Result<(Value, Value)> {
        match &step.action {
            Action::Request { method, content_type, path } => {
                let path = self.filled(path);
                let (who, headers) = self.headers(step, *content_type);
                let body = self.body(&step.body)?;
                let answer = self.side.ask(who, method, &path, &headers, body).await?;
                let raw = body_of(&answer)?;
                self.code = answer.code.to_string();
                self.capture(step, &raw)?;
                Ok((self.note(step, answer.code, &answer.headers, &raw), raw))
            }
            Action::Watch { name, path } => {
                let path = self.filled(path);
                let separator = if path.contains('?') { '&' } else { '?' };
                let watch = if path.contains("watch=") || path.contains("/watch/") {
                    path
                } else {
                    format!("{path}{separator}watch=true")
                };
                let (who, headers) = self.headers(step, None);
                let (code, headers, stream) = self.side.open(who, &watch, &headers).await?;
                self.watches.insert(name.clone(), stream);
                Ok((self.note(step, code, &headers, &Value::Null), Value::Null))
            }
            Action::Events { name, count } => {
                let stream = self.watches.get_mut(name).with_context(|| format!("no watch {name} is open"))?;
                let mut events = Vec::new();
                while count.is_none_or(|count| events.len() < count) {
                    match stream.next().await {
                        Ok(Some(event)) => events.push(event),
                        Ok(None) => {
                            if count.is_some() {
                                events.push("the stream ends".into());
                            }
                            break;
                        }
                        Err(error) => {
                            events.push(format!("{error:#}").into());
                            break;
                        }
                    }
                }
                let raw = Value::Array(events);
                self.capture(step, &raw)?;
                let masked = self.masks.value(&raw);
                Ok((if step.compared == Compared::Nothing { Value::Null } else { json!({"events": masked}) }, raw))
            }
            Action::Repeat { times, at_once, requests } => {
                Ok((self.repeat(step, *times, *at_once, requests).await?, Value::Null))
            }
            Action::CountEvents { name, count } => {
                let stream = self.watches.get_mut(name).with_context(|| format!("no watch {name} is open"))?;
                Ok((event_counts::count_events(stream, *count).await, Value::Null))
            }
            Action::Claims { token } => {
                let claims = certificates::claims(&self.filled(token))?;
                Ok((self.masks.value(&claims), claims))
            }
            Action::Asked { path } => {
                let asked = self.side.webhooks.asked(&format!("/{}/{path}", self.namespace));
                let asked = asked.unwrap_or_else(|| "nothing was asked".into());
                Ok((self.masks.value(&asked), asked))
            }
            Action::Kubectl { arguments } => self.kubectl(step, arguments).await,
            Action::Start { name, arguments } => {
                let arguments = self.arguments(arguments);
                let started = self.side.kubectl.start(&arguments).await;
                let note = match started {
                    Ok(running) => {
                        self.running.insert(name.clone(), running);
                        Value::Null
                    }
                    Err(error) => format!("{error:#}").into(),
                };
                Ok((note, Value::Null))
            }
            Action::Lines { name, count } => Ok((self.lines(name, *count).await?, Value::Null)),
        }
    }

    /// Sets the step's variables. An answer without such a value is an error: later steps would request paths that
    /// neither server has, and agree.
    fn capture(&mut self, step: &Step, raw: &Value) -> anyhow::Result<()> {
        for (name, at) in &step.captures {
            let value = text_at(raw, at).filter(|value| !value.is_empty());
            self.variables
                .insert(name.clone(), value.with_context(|| format!("${name}: the answer has no {at}: {raw}"))?);
        }
        Ok(())
    }

    /// Returns lines that a kubectl prints, and its exit code if it ends.
    async fn lines(&mut self, name: &str, count: Option<usize>) -> anyhow::Result<Value> {
        let Some(running) = self.running.get_mut(name) else { return Ok("it did not start".into()) };
        let mut lines = Vec::new();
        let mut ended = false;
        while !ended && count.is_none_or(|count| lines.len() < count) {
            match running.next_line().await {
                Ok(Some(line)) => lines.push(self.masks.text(&line)),
                Ok(None) => ended = true,
                Err(error) => {
                    lines.push(format!("{error:#}"));
                    break;
                }
            }
        }
        if !ended {
            return Ok(json!({"lines": lines}));
        }
        let code = match self.running.remove(name) {
            Some(running) => running.code().await?,
            None => None,
        };
        Ok(json!({"lines": lines, "ended with": code}))
    }

    /// Returns the arguments of kubectl: the scenario's namespace, then the arguments with variables resolved.
    fn arguments(&self, arguments: &[String]) -> Vec<String> {
        let namespace = ["--namespace".to_owned(), self.namespace.to_owned()];
        namespace.into_iter().chain(arguments.iter().map(|a| self.filled(a))).collect()
    }

    async fn repeat(
        &mut self,
        step: &Step,
        times: usize,
        at_once: usize,
        requests: &[(String, Option<&'static str>, String)],
    ) -> anyhow::Result<Value> {
        let mut all = Vec::with_capacity(times);
        for i in 0..times {
            self.variables.insert("i".to_owned(), i.to_string());
            let (method, content_type, path) = &requests[i % requests.len()];
            let (who, headers) = self.headers(step, *content_type);
            let body = if method == "DELETE" { Bytes::new() } else { self.body(&step.body)? };
            all.push((who, method.clone(), self.filled(path), headers, body));
        }
        self.variables.remove("i");
        let side = self.side;
        let codes: Vec<u16> = futures::stream::iter(all)
            .map(async |(who, method, path, headers, body)| {
                side.ask(who, &method, &path, &headers, body).await.map(|answer| answer.code)
            })
            .buffer_unordered(at_once)
            .try_collect()
            .await?;
        if step.compared == Compared::Code {
            return Ok(json!({"failed": codes.iter().filter(|code| **code >= 500).count()}));
        }
        let mut counted: BTreeMap<String, usize> = BTreeMap::new();
        codes.iter().for_each(|code| *counted.entry(code.to_string()).or_default() += 1);
        Ok(json!({"codes": counted}))
    }

    async fn kubectl(&mut self, step: &Step, arguments: &[String]) -> anyhow::Result<(Value, Value)> {
        let arguments = self.arguments(arguments);
        let stdin = match &step.body {
            Payload::None => String::new(),
            Payload::Yaml(text) | Payload::Raw(text) => self.filled(text),
        };
        let mut kubectl = self.side.kubectl.clone();
        for (name, value) in &step.headers {
            kubectl = kubectl.with_env(name, &self.filled(value));
        }
        let output = kubectl.output(&arguments, &stdin).await?;
        self.code = output.code.map_or_else(String::new, |code| code.to_string());
        let mut lines = |text: &str| -> Value { text.lines().map(|line| self.masks.text(line)).collect() };
        let note = match step.compared {
            Compared::Nothing => Value::Null,
            Compared::Code => json!({"code": output.code}),
            Compared::Whole => {
                let stderr: Vec<&str> = output.stderr.lines().filter(|line| !is_own_log(line)).collect();
                json!({"code": output.code, "stdout": lines(&output.stdout), "stderr": lines(&stderr.join("\n"))})
            }
        };
        let raw = Value::String(output.stdout);
        for (name, _) in &step.captures {
            let value = raw.as_str().unwrap_or_default().trim().to_owned();
            ensure!(!value.is_empty(), "${name}: kubectl printed nothing");
            self.variables.insert(name.clone(), value);
        }
        Ok((note, raw))
    }

    fn headers(&self, step: &Step, content_type: Option<&str>) -> (As, Vec<(String, String)>) {
        let mut who = As::Admin;
        let mut headers: Vec<(String, String)> = Vec::new();
        for (name, value) in &step.headers {
            if name == "As" {
                who = As::Anonymous;
            } else {
                headers.push((name.clone(), self.filled(value)));
            }
        }
        let given = |name: &str| headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        let mut more = Vec::new();
        if let Some(content_type) = content_type.filter(|_| step.body != Payload::None && !given("content-type")) {
            more.push(("Content-Type".to_owned(), content_type.to_owned()));
        }
        if !given("user-agent") {
            more.push(("User-Agent".to_owned(), "differential/1".to_owned()));
        }
        headers.extend(more);
        // An empty header is not sent.
        headers.retain(|(_, value)| !value.is_empty());
        (who, headers)
    }

    fn body(&self, body: &Payload) -> anyhow::Result<Bytes> {
        Ok(match body {
            Payload::None => Bytes::new(),
            Payload::Raw(text) => match text.strip_prefix("base16 ") {
                Some(digits) => from_base16(digits)?.into(),
                None => self.filled(text).into(),
            },
            Payload::Yaml(text) => {
                let options = serde_saphyr::options! { strict_booleans: true };
                let value: Value =
                    serde_saphyr::from_str_with_options(&self.filled(text), options).context("the body is no YAML")?;
                serde_json::to_vec(&value)?.into()
            }
        })
    }

    fn filled(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if text.contains('$') {
            // Longest first: `$ns` must not take the start of `$nsx`.
            let mut names: Vec<&String> = self.variables.keys().collect();
            names.sort_by_key(|name| std::cmp::Reverse(name.len()));
            for name in names {
                text = text.replace(&format!("${name}"), &self.variables[name]);
            }
        }
        repeated(&text)
    }

    fn note(&mut self, step: &Step, code: u16, headers: &HeaderMap, body: &Value) -> Value {
        match step.compared {
            Compared::Nothing => {
                // Mask it nevertheless, so that its values are numbered.
                self.masks.value(body);
                return Value::Null;
            }
            Compared::Code => {
                self.masks.value(body);
                return json!({"code": code});
            }
            Compared::Whole => {}
        }
        let mut noted = serde_json::Map::new();
        for (name, whole) in HEADERS {
            let values: Vec<Value> = headers
                .get_all(name)
                .iter()
                .map(|v| {
                    if whole { self.masks.text(&String::from_utf8_lossy(v.as_bytes())).into() } else { "there".into() }
                })
                .collect();
            if !values.is_empty() {
                noted.insert(name.to_owned(), Value::Array(values));
            }
        }
        let mut body = self.masks.value(body);
        if step.unordered {
            unorder(&mut body);
        }
        json!({"code": code, "headers": noted, "body": body})
    }
}

fn body_of(answer: &Answer) -> anyhow::Result<Value> {
    let packed = answer.headers.get("content-encoding").is_some_and(|v| v == "gzip");
    let bytes = if packed {
        let mut out = Vec::new();
        flate2::read::GzDecoder::new(&*answer.body).read_to_end(&mut out).context("the answer is not gzip")?;
        out.into()
    } else {
        answer.body.clone()
    };
    let pretty = bytes.starts_with(b"{\n");
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(mut map)) if pretty => {
            map.insert("(pretty)".into(), true.into());
            Ok(Value::Object(map))
        }
        Ok(value) => Ok(value),
        Err(_) => Ok(String::from_utf8_lossy(&bytes).lines().collect()),
    }
}

/// The value at a path such as `items.0.metadata.name`, as a text.
fn text_at(value: &Value, path: &str) -> Option<String> {
    let found = path.split('.').try_fold(value, |value, key| match value {
        Value::Array(list) => key.parse::<usize>().ok().and_then(|i| list.get(i)),
        // In keys that contain dots, slashes stand for the dots.
        other => other.get(key).or_else(|| other.get(key.replace('/', "."))),
    })?;
    Some(match found {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

/// Sorts the causes of a Status and splits its message.
fn unorder(body: &mut Value) {
    if let Some(causes) = body.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
        causes.sort_by_key(Value::to_string);
    }
    if let Some(message) = body.get("message").and_then(Value::as_str) {
        let mut pieces: Vec<&str> = message.split([',', '[', ']']).map(str::trim).collect();
        pieces.sort_unstable();
        body["message"] = pieces.into_iter().collect();
    }
}

fn from_base16(digits: &str) -> anyhow::Result<Vec<u8>> {
    let digits: String = digits.split_whitespace().collect();
    (0..digits.len())
        .step_by(2)
        .map(|at| Ok(u8::from_str_radix(digits.get(at..at + 2).context("an odd number of digits")?, 16)?))
        .collect()
}

/// Reports whether a line of stderr is a message of kubectl's reflector about the end of its own time: at a timeout
/// it opens a watch once more if its request ends before it is stopped, whatever the server answered.
fn is_own_log(line: &str) -> bool {
    line.starts_with('E') && line.contains("reflector.go") && line.contains("err=\"context deadline exceeded\"")
}
