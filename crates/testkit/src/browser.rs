//! A headless Chromium, driven over its DevTools protocol: pages are read as assistive technology reads them.

use std::{path::Path, process::Stdio, time::Duration};

use anyhow::{Context as _, bail, ensure};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpStream,
    process::{Child, Command},
    time::timeout,
};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

/// Time for the browser to start, and for each of its answers.
const PATIENCE: Duration = Duration::from_secs(30);
/// Domains whose events are kept.
const DOMAINS: [&str; 5] = ["Page", "Runtime", "Log", "Network", "Accessibility"];

/// A browser with one page.
pub struct Browser {
    child: Child,
    _profile: TempDir,
    socket: WebSocketStream<TcpStream>,
    session: String,
    last: u64,
    events: Vec<Value>,
}

/// An element as the accessibility tree has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub role: String,
    pub name: String,
    /// Properties such as `selected` or `level`, as text.
    pub properties: Vec<(String, String)>,
}

impl Node {
    /// Value of a property, empty if it has none.
    pub fn property(&self, name: &str) -> &str {
        self.properties.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
    }
}

impl Browser {
    /// Starts it with an empty page; it ends with the value.
    pub async fn start(program: &Path) -> anyhow::Result<Self> {
        let profile = tempfile::tempdir()?;
        let mut child = Command::new(program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--no-default-browser-check"])
            .args(["--remote-debugging-port=0", "--window-size=1280,900"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let mut said = BufReader::new(child.stderr.take().context("piped")?).lines();
        let address = timeout(PATIENCE, async {
            while let Some(line) = said.next_line().await? {
                if let Some(address) = line.strip_prefix("DevTools listening on ws://") {
                    return Ok(address.to_owned());
                }
            }
            bail!("the browser ended without an address")
        })
        .await
        .context("the browser does not start")??;
        // Whatever else it says is read, so that the pipe never fills.
        let tasks = ironclad_seam::Tasks::new("browser");
        tasks.spawn("stderr", async move { while let Ok(Some(_)) = said.next_line().await {} });
        let (host, path) = address.split_once('/').context("an address with a path")?;
        let stream = TcpStream::connect(host).await?;
        let (socket, _) = tokio_tungstenite::client_async(format!("ws://{host}/{path}"), stream).await?;
        let mut browser =
            Self { child, _profile: profile, socket, session: String::new(), last: 0, events: Vec::new() };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" })).await?;
        let target = target["targetId"].as_str().context("a target")?.to_owned();
        let attached = browser.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true })).await?;
        attached["sessionId"].as_str().context("a session")?.clone_into(&mut browser.session);
        for domain in DOMAINS {
            browser.call(&format!("{domain}.enable"), json!({})).await?;
        }
        Ok(browser)
    }

    /// Process of the browser, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Sends a command, and returns its result. Events that come meanwhile are kept.
    pub async fn call(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.last += 1;
        let id = self.last;
        let mut command = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            command["sessionId"] = self.session.as_str().into();
        }
        self.socket.send(Message::text(command.to_string())).await?;
        let answered = timeout(PATIENCE, async {
            loop {
                let message = self.socket.next().await.context("the browser ended")??;
                let Message::Text(text) = message else { continue };
                let message: Value = serde_json::from_str(&text)?;
                if message["id"] == id {
                    return anyhow::Ok(message);
                }
                if message.get("method").is_some() {
                    self.events.push(message);
                }
            }
        });
        let answer = answered.await.with_context(|| format!("no answer to {method} {}", command["params"]))??;
        ensure!(answer.get("error").is_none(), "{method}: {}", answer["error"]);
        Ok(answer["result"].clone())
    }

    /// Opens an address.
    pub async fn open(&mut self, address: &str) -> anyhow::Result<()> {
        let opened = self.call("Page.navigate", json!({ "url": address })).await?;
        ensure!(opened.get("errorText").is_none(), "{address}: {opened}");
        Ok(())
    }

    /// Value of an expression.
    pub async fn value(&mut self, expression: &str) -> anyhow::Result<Value> {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let found = self.call("Runtime.evaluate", params).await?;
        ensure!(found.get("exceptionDetails").is_none(), "{expression}: {found}");
        Ok(found["result"]["value"].clone())
    }

    /// Presses a key, as on a keyboard.
    pub async fn press(&mut self, key: &str) -> anyhow::Result<()> {
        let text = if key.chars().count() == 1 { key } else { "" };
        let mut down = json!({ "type": "keyDown", "key": key });
        if !text.is_empty() {
            down["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", down).await?;
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key })).await?;
        Ok(())
    }

    /// Everything on the page that assistive technology is told, in order.
    pub async fn tree(&mut self) -> anyhow::Result<Vec<Node>> {
        let found = self.call("Accessibility.getFullAXTree", json!({})).await?;
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let node = |node: &Value| Node {
            role: text(&node["role"]["value"]),
            name: text(&node["name"]["value"]),
            properties: node["properties"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| (text(&one["name"]), text(&one["value"]["value"])))
                .collect(),
        };
        let all = found["nodes"].as_array().context("nodes")?;
        Ok(all.iter().filter(|node| node["ignored"] != true).map(node).collect())
    }

    /// Failures so far, and requests to elsewhere than this origin: exceptions, errors on the console, violations
    /// of the policy.
    pub fn complaints(&self, origin: &str) -> Vec<String> {
        let complaint = |event: &Value| {
            let params = &event["params"];
            match event["method"].as_str()? {
                "Runtime.exceptionThrown" => Some(format!("exception: {}", params["exceptionDetails"])),
                "Runtime.consoleAPICalled" if params["type"] == "error" => Some(format!("console: {}", params["args"])),
                "Log.entryAdded" if params["entry"]["level"] == "error" => Some(format!("log: {}", params["entry"])),
                "Network.requestWillBeSent" => {
                    let url = params["request"]["url"].as_str().unwrap_or_default();
                    let is_own = url.strip_prefix(origin).is_some_and(|rest| rest.starts_with('/'));
                    (!is_own && url != "about:blank").then(|| format!("request to {url}"))
                }
                _ => None,
            }
        };
        self.events.iter().filter_map(complaint).collect()
    }
}
