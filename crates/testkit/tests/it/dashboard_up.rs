//! The dashboard of `ironclad up`: who is let in, and each page in a browser.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use ironclad_api::{
    networking::MultiClusterService,
    policy::{ClusterTaintPolicy, FederatedResourceQuota, PropagationPolicy},
};
use ironclad_testkit::{
    binary::{Daemon, free_port, ironclad},
    browser::{Browser, Node},
    real::{browser_or_skip, until},
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Event, Secret, Service},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::failover_walk::client;

/// Deadline of a step: a dead member is noticed after half a minute.
const DEADLINE: Duration = Duration::from_secs(120);
/// A name that is markup, a script, and turns the direction of text.
const HOSTILE: &str = "<img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>\u{202e}";
/// Events of a fleet in trouble.
const EVENTS: usize = 10_000;
/// Value of a Secret, nine bytes.
const HUSH: &str = "aHVzaC1odXNo";

pub(crate) struct World {
    pub(crate) daemon: Daemon,
    dir: tempfile::TempDir,
    /// `http://127.0.0.1:PORT`.
    pub(crate) origin: String,
    /// The address that begins a session.
    pub(crate) login: String,
}

impl World {
    pub(crate) async fn start(more: &[&str], ready: &str) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
        let path = data.display().to_string();
        let own = ["up", "--data-dir", &path, "--listen", &listen, "--metrics-bind-address", "0", "--dashboard"];
        let (daemon, lines) = Daemon::start_until(own.into_iter().chain(more.iter().copied()), ready).await?;
        let login = lines.iter().find_map(|line| line.strip_prefix("dashboard: "));
        let login = login.with_context(|| format!("no address in {lines:?}"))?.to_owned();
        let origin = login.split("/login").next().unwrap_or_default().to_owned();
        Ok(Self { daemon, dir, origin, login })
    }

    pub(crate) fn kubeconfig(&self) -> String {
        self.dir.path().join("data/kubeconfig").display().to_string()
    }

    async fn verb(&self, words: &[&str]) -> anyhow::Result<String> {
        let kubeconfig = self.kubeconfig();
        let output = ironclad(words.iter().copied().chain(["--kubeconfig", &kubeconfig])).await?;
        ensure!(matches!(output.code, Some(0 | 3)), "{words:?}: {output:?}");
        Ok(output.stdout)
    }

    /// The answer to these bytes.
    async fn raw(&self, request: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(self.host()).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        // The end is that of a connection that is closed, as every request here asks for.
        stream.read_to_end(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    fn host(&self) -> &str {
        self.origin.trim_start_matches("http://")
    }

    /// The answer to a request with these lines in its head.
    async fn ask(&self, method: &str, path: &str, head: &[&str]) -> anyhow::Result<String> {
        let lines: String = head.iter().map(|line| format!("{line}\r\n")).collect();
        self.raw(&format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n{lines}\r\n")).await
    }
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[tokio::test]
async fn nobody_but_the_browser_that_was_let_in_is_answered() -> anyhow::Result<()> {
    let world = World::start(&["--clusters", "1"], "ready").await?;
    let host = format!("host: {}", world.host());
    let own = host.as_str();
    let path = world.login.strip_prefix(&world.origin).context("a path")?.to_owned();
    for refused in ["/", "/api/fleet", "/stream?view=fleet", "/files/app.js", "/login", "/login?secret=wrong"] {
        let answer = world.ask("GET", refused, &[own]).await?;
        ensure!(status(&answer) == "401", "{refused}: {answer}");
    }
    let begun = world.ask("GET", &path, &[own]).await?;
    ensure!(status(&begun) == "200", "{begun}");
    let cookie = begun.lines().find_map(|line| line.strip_prefix("set-cookie: ")).context("a cookie")?;
    ensure!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = format!("cookie: {}", cookie.split(';').next().unwrap_or_default());
    let session = cookie.as_str();
    let again = world.ask("GET", &path, &[own]).await?;
    ensure!(status(&again) == "401", "an address begins one session: {again}");
    until("the next address is told", DEADLINE, async || {
        let told = world.daemon.errors();
        let next = told.iter().find_map(|line| line.strip_prefix("dashboard, for another browser: "));
        ensure!(next.is_some_and(|next| next != world.login), "{told:?}");
        Ok(())
    })
    .await?;

    let fleet = world.ask("GET", "/api/fleet", &[own, session]).await?;
    ensure!(status(&fleet) == "200" && fleet.contains("\"name\":\"member1\""), "{fleet}");
    for (header, value) in [
        ("content-security-policy", "frame-ancestors 'none'"),
        ("content-security-policy", "default-src 'none'; script-src 'self'; style-src 'self'"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
    ] {
        let found = fleet.lines().find(|line| line.starts_with(&format!("{header}: ")));
        ensure!(found.is_some_and(|line| line.contains(value)), "{header}: {found:?}");
    }
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"] {
        for path in ["/", "/api/fleet", "/stream?view=fleet", "/login"] {
            let path = if method == "CONNECT" { world.host() } else { path };
            let answer = world.ask(method, path, &[own, session]).await?;
            ensure!(["405", "400"].contains(&status(&answer)), "{method} {path}: {answer}");
        }
    }
    let other = format!("http://{}", world.host().replace("127.0.0.1", "localhost"));
    for (what, head, want) in [
        ("a name that was made to lead here", vec!["host: rebound.example", session], "403"),
        ("localhost is another host", vec!["host: localhost", session], "403"),
        ("two hosts", vec![own, "host: rebound.example", session], "403"),
        ("no host", vec![session], "400"),
        ("a page of another origin", vec![own, session, "origin: http://evil.example"], "403"),
        ("another name of this host", vec![own, session, &format!("origin: {other}")], "403"),
        ("an origin without a name", vec![own, session, "origin: null"], "403"),
        ("another port of this host", vec![own, session, "sec-fetch-site: same-site"], "403"),
        ("a link in another page", vec![own, session, "sec-fetch-site: cross-site"], "403"),
        ("inside of another page", vec![own, session, "sec-fetch-dest: iframe"], "403"),
        ("a cookie of another name", vec![own, &session.replace("dashboard", "board")], "401"),
        ("a cookie that was changed", vec![own, &format!("{session}x")], "401"),
        (
            "its own page",
            vec![own, session, &format!("origin: {}", world.origin), "sec-fetch-site: same-origin"],
            "200",
        ),
    ] {
        let answer = world.ask("GET", "/api/fleet", &head).await?;
        let closed = want == "400" && ["400", "403"].contains(&status(&answer));
        ensure!(closed || status(&answer) == want, "{what}: {answer}");
    }
    let elsewhere =
        format!("GET http://evil.example/api/fleet HTTP/1.1\r\n{own}\r\n{session}\r\nconnection: close\r\n\r\n");
    let answer = world.raw(&elsewhere).await?;
    ensure!(status(&answer) == "403", "the whole address names another host: {answer}");
    let long = format!("x: {}", "x".repeat(64 * 1024));
    let answer = world.ask("GET", "/api/fleet", &[own, session, &long]).await.unwrap_or_default();
    ensure!(["", "431"].contains(&status(&answer)), "heads are bounded: {answer}");
    let head = world.ask("HEAD", "/", &[own, session]).await?;
    ensure!(status(&head) == "200" && head.ends_with("\r\n\r\n"), "{head}");
    world.daemon.stop().await?;
    Ok(())
}

/// A browser that was let in.
pub(crate) struct Pages {
    pub(crate) browser: Browser,
    pub(crate) origin: String,
}

impl Pages {
    pub(crate) async fn open(&mut self, path: &str) -> anyhow::Result<()> {
        let address = format!("{}{path}", self.origin);
        self.browser.open(&address).await
    }

    /// Waits until something on the page has this role and a name with this text.
    pub(crate) async fn has(&mut self, role: &str, text: &str) -> anyhow::Result<Node> {
        let what = format!("a {role} {text:?}");
        until(&what, DEADLINE, async || {
            let tree = self.browser.tree().await?;
            let found = tree.iter().find(|node| node.role == role && node.name.contains(text));
            let names =
                || tree.iter().filter(|node| node.role == role).map(|node| node.name.as_str()).collect::<Vec<_>>();
            found.cloned().with_context(|| format!("only {:?}", names()))
        })
        .await
    }

    /// The command line that shows the same as the page.
    async fn command(&mut self) -> anyhow::Result<String> {
        let line = self.browser.value("document.getElementById('cli').textContent").await?;
        Ok(line.as_str().context("a command line")?.to_owned())
    }

    pub(crate) fn is_quiet(&self) -> anyhow::Result<()> {
        let complaints = self.browser.complaints(&self.origin);
        ensure!(complaints.is_empty(), "{complaints:#?}");
        Ok(())
    }
}

/// Makes an object for each page that the sample leaves empty.
async fn objects_of_pages(plane: &Client) -> anyhow::Result<()> {
    let parameters = PostParams::default();
    let policy: PropagationPolicy = serde_json::from_value(json!({"metadata": {"name": "wide"}, "spec": {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}]}}))?;
    Api::<PropagationPolicy>::namespaced(plane.clone(), "default").create(&parameters, &policy).await?;
    let quota: FederatedResourceQuota =
        serde_json::from_value(json!({"metadata": {"name": "cores"}, "spec": {"overall": {"cpu": "100"}}}))?;
    Api::<FederatedResourceQuota>::namespaced(plane.clone(), "default").create(&parameters, &quota).await?;
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "token"}, "data": {"token": HUSH}}))?;
    Api::<Secret>::namespaced(plane.clone(), "default").create(&parameters, &secret).await?;
    let service: Service = serde_json::from_value(json!({"metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}))?;
    Api::<Service>::namespaced(plane.clone(), "default").create(&parameters, &service).await?;
    let service: MultiClusterService =
        serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {"types": ["CrossCluster"]}}))?;
    Api::<MultiClusterService>::namespaced(plane.clone(), "default").create(&parameters, &service).await?;
    Ok(())
}

/// The editor begins with the policy as it is, answers what is typed, and writes nothing.
async fn a_policy_is_planned_for_as_it_is_written(pages: &mut Pages) -> anyhow::Result<()> {
    pages.open("/policies").await?;
    pages.has("link", "Plan a change of wide").await?;
    let kind = "propagationpolicies.policy.karmada.io";
    pages.open(&format!("/plan?verb=apply&kind={kind}&namespace=default&name=wide")).await?;
    pages.has("textbox", "Manifests").await?;
    pages.has("StaticText", "Nothing would change").await?;
    let type_ = async |pages: &mut Pages, change: &str| {
        let script = format!(
            "(() => {{ const text = document.querySelector('textarea'); text.focus(); text.value = {change}; \
             text.dispatchEvent(new Event('input', {{ bubbles: true }})); return text.value; }})()"
        );
        pages.browser.value(&script).await
    };
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "written", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "written"}}, "template": {"metadata": {"labels": {"app": "written"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    type_(pages, &format!("JSON.stringify({deployment})")).await?;
    pages.has("StaticText", "Something would change").await?;
    pages.has("StaticText", "Deployment default/written").await?;
    type_(pages, "'kind: ['").await?;
    pages.has("StaticText", "neither JSON nor YAML").await?;
    pages.open("/workloads?filter=written").await?;
    pages.has("StaticText", "0 of").await?;
    pages.is_quiet()
}

/// As many Events, and as long an annotation, as a fleet in trouble and a careless tool make: both are shown, in part
/// and as a whole.
async fn what_is_large_is_shown(plane: &Client, pages: &mut Pages) -> anyhow::Result<()> {
    let parameters = PostParams::default();
    let events = Api::<Event>::namespaced(plane.clone(), "default");
    let made: Vec<Event> = (0..EVENTS)
        .map(|number| {
            serde_json::from_value(json!({"metadata": {"name": format!("many-{number}"), "namespace": "default"},
                "involvedObject": {"kind": "Deployment", "namespace": "default", "name": "web", "apiVersion": "apps/v1"},
                "reason": "Many", "message": format!("{number} \u{202e}right to left")}))
        })
        .collect::<Result<_, _>>()?;
    stream::iter(&made)
        .map(|event| events.create(&parameters, event))
        .buffer_unordered(32)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await?;
    pages.open("/events?filter=reason%3DMany").await?;
    pages.has("cell", "right to left").await?;
    ensure!(pages.browser.value("document.querySelectorAll('tbody tr').length").await? == 200, "one page of the rows");

    let note = format!("{}end of the note", "long ".repeat(50_000));
    let big: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "big", "annotations": {"example.com/note": note}},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "big"}}, "template": {
            "metadata": {"labels": {"app": "big"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}))?;
    Api::<Deployment>::namespaced(plane.clone(), "default").create(&parameters, &big).await?;
    pages.open("/workload/default/deployment.apps/big?tab=yaml").await?;
    pages.has("StaticText", "end of the note").await?;
    pages.is_quiet()
}

#[tokio::test]
async fn each_page_shows_the_fleet_as_it_changes() -> anyhow::Result<()> {
    let Some(program) = browser_or_skip()? else { return Ok(()) };
    let gates = "--feature-gates=Failover=true,MultiClusterService=true";
    let flags = ["--clusters", "3", "--demo", gates, "--resource-eviction-rate", "0.05"];
    let world = World::start(&flags, "ctrl-c").await?;
    let plane = client(world.kubeconfig().as_ref(), Some("ironclad")).await?;
    let event: Event = serde_json::from_value(json!({"metadata": {"name": "hostile", "namespace": "default"},
        "involvedObject": {"kind": "Deployment", "namespace": "default", "name": "web", "apiVersion": "apps/v1"},
        "type": "Warning", "reason": "Hostile", "message": HOSTILE, "firstTimestamp": "2026-01-01T00:00:00Z"}))?;
    Api::<Event>::namespaced(plane.clone(), "default").create(&PostParams::default(), &event).await?;

    let policy: ClusterTaintPolicy = serde_json::from_value(json!({"metadata": {"name": "not-ready"}, "spec": {
        "matchConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["False", "Unknown"]}],
        "taintsToAdd": [{"key": "example.com/not-ready", "effect": "NoExecute", "addOnMatchSeconds": 1}]}}))?;
    Api::<ClusterTaintPolicy>::all(plane.clone()).create(&PostParams::default(), &policy).await?;

    objects_of_pages(&plane).await?;
    let mut pages = Pages { browser: Browser::start(&program).await?, origin: world.origin.clone() };
    pages.browser.open(&world.login).await?;
    pages.has("heading", "Fleet").await?;
    pages.has("rowheader", "member1").await?;
    let tree = pages.browser.tree().await?;
    let all = |role: &str| tree.iter().filter(|node| node.role == role).count();
    ensure!((all("main"), all("banner")) == (1, 1), "landmarks: {tree:?}");
    let ones = tree.iter().filter(|node| node.role == "heading" && node.property("level") == "1").count();
    ensure!(ones == 1, "one h1, not {ones}");

    for (path, heading, role, text) in [
        ("/workloads", "Workloads", "rowheader", "Deployment"),
        ("/cluster/member1", "member1", "columnheader", "Reason"),
        ("/cluster/member1", "member1", "columnheader", "Memory used"),
        ("/workload/default/deployment.apps/web", "deployment default/web", "treeitem", "Deployment default/web"),
        ("/workload/default/deployment.apps/web?tab=why", "deployment default/web", "region", "Why"),
        ("/workload/default/deployment.apps/web?tab=timeline", "deployment default/web", "cell", "Hostile"),
        ("/workload/default/deployment.apps/web?tab=yaml", "deployment default/web", "button", "Manifest in member1"),
        ("/workload/default/deployment.apps/web?tab=usage", "deployment default/web", "columnheader", "CPU used"),
        ("/workload/default/deployment.apps/web?tab=logs", "deployment default/web", "region", "Log of member"),
        ("/workload/default/secret/token?tab=yaml", "secret default/token", "StaticText", "token: 9 bytes"),
        ("/policies", "Policies", "rowheader", "wide"),
        ("/policies?filter=shadowed!%3D0", "Policies", "StaticText", "its selector is less specific"),
        ("/services", "Services", "StaticText", "in 1 EndpointSlice"),
        ("/quotas", "Quotas", "rowheader", "cores"),
        ("/evictions", "Evictions", "StaticText", "Rate"),
        // A hostile message is shown as text.
        ("/events?filter=reason%3DHostile", "Events", "cell", "<script>document.title='pwned'</script>"),
        ("/scheduling", "Scheduling", "heading", "Scheduling"),
        ("/scheduling?tab=preemptions", "Scheduling", "StaticText", "No workload is being preempted"),
        ("/scheduling?tab=capacity", "Scheduling", "rowheader", "member1"),
        ("/autoscalers", "Autoscalers", "StaticText", "no FederatedHPA"),
        ("/plan?clusters=member1", "Plan", "rowheader", "Deployment"),
        ("/plan?verb=taint&clusters=member1&taint=a:NoExecute", "Plan", "rowheader", "Deployment"),
        ("/plan?verb=rate&rate=5", "Plan", "StaticText", "Nothing would move"),
        ("/plan?verb=preemption&namespace=default&name=web-deployment", "Plan", "region", "Plan"),
        ("/system", "System", "rowheader", "taint-manager"),
        ("/workload/default/deployment.apps/none", "deployment default/none", "heading", "Not found"),
    ] {
        pages.open(path).await?;
        pages.has("heading", heading).await?;
        pages.has(role, text).await.with_context(|| path.to_owned())?;
        let content = pages.browser.value("document.body.textContent").await?;
        ensure!(content.as_str().is_some_and(|content| !content.contains(HUSH)), "{path} shows the value of a Secret");
        let title = pages.browser.value("document.title").await?;
        ensure!(title.as_str().is_some_and(|title| title.ends_with("Ironclad")), "{path}: {title}");
        // The command line of the page is one that works, and asks the same.
        let line = pages.command().await?;
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        if !path.ends_with("/none") {
            world.verb(&words).await.with_context(|| format!("{path}: {line}"))?;
        }
        pages.is_quiet().with_context(|| path.to_owned())?;
    }

    a_policy_is_planned_for_as_it_is_written(&mut pages).await?;
    let tree = world.verb(&["tree", "mcs/web"]).await?;
    ensure!(tree.contains("from Cluster member1") && tree.contains("to Cluster member2"), "{tree}");
    pages.open("/").await?;
    pages.has("rowheader", "member1").await?;
    pages.browser.press("g").await?;
    pages.browser.press("w").await?;
    pages.has("heading", "Workloads").await?;
    pages.has("searchbox", "Filter").await?;
    pages.browser.press("/").await?;
    let focused = pages.browser.value("document.activeElement.type").await?;
    ensure!(focused == "search", "/ leads to the filter: {focused}");
    pages.browser.press("Escape").await?;
    pages.browser.press("?").await?;
    pages.has("dialog", "Keys").await?;

    what_is_large_is_shown(&plane, &mut pages).await?;
    let scaled = Patch::Merge(json!({"spec": {"replicas": 9}}));
    let templates = Api::<Deployment>::namespaced(plane.clone(), "default");
    templates.patch("web", &PatchParams::default(), &scaled).await?;
    pages.open("/workload/default/deployment.apps/web").await?;
    pages.has("heading", "Replicas over the last hour").await?;

    pages.open("/").await?;
    pages.has("StaticText", "3 shown").await?;
    world.verb(&["sim", "down", "member1"]).await?;
    pages.has("cell", "not ready").await?;
    let row = "document.querySelector('tbody tr').textContent";
    let first = pages.browser.value(row).await?;
    ensure!(first.as_str().is_some_and(|text| text.starts_with("member1")), "what is bad comes first: {first}");
    pages.open("/evictions").await?;
    pages.has("link", "member1").await?;
    pages.has("heading", "Last hour").await?;
    pages.has("rowheader", "waiting").await?;
    pages.open("/workload/default/deployment.apps/web?tab=tree").await?;
    pages.has("treeitem", "is not ready").await?;
    pages.is_quiet()?;
    world.daemon.stop().await?;
    Ok(())
}
