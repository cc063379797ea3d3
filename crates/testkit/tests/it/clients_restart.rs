//! Informers over restarts of `ironclad up`: those of client-go and kube-rs, which begin with a watch or a list, resume
//! their position. Acknowledged changes arrive once and in order, and no informer lists again (scenario D115).

use std::{path::Path, process::Stdio, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use futures::StreamExt as _;
use ironclad_seam::Tasks;
use ironclad_testkit::{
    binary::{Daemon, free_port},
    real::{Binaries, until},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{WatchStreamExt as _, watcher, watcher::Event},
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

const DEADLINE: Duration = Duration::from_secs(60);
/// Number of objects that are written before each end, and after each start.
const WRITTEN: usize = 5;

/// A program with an informer of client-go.
struct Program {
    name: &'static str,
    namespace: String,
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    async fn start(
        binaries: &Binaries,
        kubeconfig: &Path,
        home: &Path,
        (name, watch_list): (&'static str, &str),
    ) -> anyhow::Result<Self> {
        let namespace = format!("restart-{watch_list}");
        let home = home.join(&namespace);
        tokio::fs::create_dir_all(&home).await?;
        let mut child = Command::new(binaries.clients()?)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--home")
            .arg(&home)
            .args(["--namespace", &namespace, "restart"])
            .env("HOME", &home)
            .env("KUBE_FEATURE_WatchListClient", watch_list)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdin = child.stdin.take().context("a pipe")?;
        let lines = BufReader::new(child.stdout.take().context("a pipe")?).lines();
        let mut program = Self { name, namespace, child, stdin, lines };
        // Objects of the program, and the root certificate.
        ensure!(program.line().await? == "synced: map[added:61]", "{name}");
        let asked = program.line().await?;
        let way = if watch_list == "true" { "watch with initial events" } else { "get or list" };
        ensure!(asked.contains(way), "{name}: {asked}");
        Ok(program)
    }

    async fn line(&mut self) -> anyhow::Result<String> {
        let line =
            timeout(DEADLINE, self.lines.next_line()).await.with_context(|| format!("{}: in time", self.name))??;
        line.with_context(|| format!("{} ended", self.name))
    }

    /// Waits until it has this object; it must have received exactly these events, without a list.
    async fn has(&mut self, last: &str, events: &[String]) -> anyhow::Result<()> {
        self.stdin.write_all(format!("{last}\n").as_bytes()).await?;
        let (heard, asked) = (self.line().await?, self.line().await?);
        let want = format!("heard: {}", events.join(", "));
        ensure!(heard == want, "{}\nheard {heard}\nand not {want}", self.name);
        let resumed = asked == "asked: watch from a revision, bookmarks";
        ensure!(resumed, "{} did not go on where it was: {asked}", self.name);
        Ok(())
    }

    async fn end(mut self) -> anyhow::Result<()> {
        drop(self.stdin);
        let status = timeout(DEADLINE, self.child.wait()).await??;
        ensure!(status.success(), "{}: {status}", self.name);
        Ok(())
    }
}

/// Events of a watcher of kube-rs in the form of client-go's handlers; `listed` counts its new lists.
#[derive(Default)]
struct Received {
    listed: usize,
    events: Vec<String>,
}

fn watch(tasks: &Tasks, api: Api<ConfigMap>, config: watcher::Config) -> Arc<Mutex<Received>> {
    let received = Arc::new(Mutex::new(Received::default()));
    let to = received.clone();
    tasks.spawn("watcher", async move {
        let mut events = std::pin::pin!(watcher(api, config).default_backoff());
        while let Some(event) = events.next().await {
            let mut received = to.lock();
            match event {
                Ok(Event::Init) => received.listed += 1,
                Ok(Event::Apply(object)) => received.events.push(format!("added {}", object.name_any())),
                Ok(Event::Delete(object)) => received.events.push(format!("deleted {}", object.name_any())),
                // The server is down.
                Ok(Event::InitApply(_) | Event::InitDone) | Err(_) => {}
            }
        }
    });
    received
}

async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(kubeconfig)?, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informers_resume_after_restarts() -> anyhow::Result<()> {
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data").display().to_string(), format!("127.0.0.1:{}", free_port()?));
    let arguments = ["up", "--data-dir", &data, "--listen", &listen, "--clusters", "0", "--metrics-bind-address", "0"];
    let mut daemon = Daemon::start(arguments).await?;
    let kubeconfig = dir.path().join("data/kubeconfig");
    let client = client(&kubeconfig).await?;
    let mut programs = Vec::new();
    for strategy in [("client-go with streaming lists", "true"), ("client-go with lists", "false")] {
        programs.push(Program::start(&binaries, &kubeconfig, dir.path(), strategy).await?);
    }
    let tasks = Tasks::new("watchers");
    let of_first: Api<ConfigMap> = Api::namespaced(client.clone(), &programs[0].namespace);
    let watchers = [
        ("kube-rs with lists", watcher::Config::default()),
        ("kube-rs with streaming lists", watcher::Config::default().streaming_lists()),
    ]
    .map(|(name, config)| (name, watch(&tasks, of_first.clone(), config)));
    for (name, received) in &watchers {
        until(&format!("{name} began"), DEADLINE, async || {
            ensure!(received.lock().listed == 1, "it did not");
            Ok(())
        })
        .await?;
    }

    let mut all = Vec::new();
    for (round, clean) in [(1, true), (2, false), (3, false)] {
        let mut events = Vec::new();
        for program in &programs {
            let api: Api<ConfigMap> = Api::namespaced(client.clone(), &program.namespace);
            events = write(&api, &format!("r{round}-before")).await?;
        }
        // The informers need not have received it before the end.
        if clean {
            daemon.stop().await?
        } else {
            daemon.kill().await?
        }
        daemon = Daemon::start(arguments).await?;
        for program in &mut programs {
            let api: Api<ConfigMap> = Api::namespaced(client.clone(), &program.namespace);
            let mut events = events.clone();
            events.extend(write(&api, &format!("r{round}-after")).await?);
            let last = format!("r{round}-after-{}", WRITTEN - 1);
            program.has(&last, &events).await.with_context(|| format!("round {round}, clean {clean}"))?;
            all.push(events);
        }
    }
    for program in programs {
        program.end().await?;
    }
    // Half of the objects are for the other program.
    let want: Vec<String> = all.into_iter().step_by(2).flatten().collect();
    for (name, received) in &watchers {
        until(&format!("{name} heard of all"), DEADLINE, async || {
            let received = received.lock();
            ensure!(received.events == want, "it heard {:?} and not {want:?}", received.events);
            ensure!(received.listed == 1, "it listed {} times", received.listed);
            Ok(())
        })
        .await?;
    }
    let left = of_first.list(&ListParams::default()).await?.items.len();
    ensure!(left == 61 + 6 * (WRITTEN - 1), "{left} are left");
    daemon.stop().await
}

/// Creates some objects and deletes the first; returns the expected events.
async fn write(api: &Api<ConfigMap>, prefix: &str) -> anyhow::Result<Vec<String>> {
    let mut events = Vec::new();
    for n in 0..WRITTEN {
        let name = format!("{prefix}-{n}");
        events.push(format!("added {name}"));
        let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
        api.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await?;
        if n == 1 {
            let first = format!("{prefix}-0");
            api.delete(&first, &DeleteParams::default()).await?;
            events.push(format!("deleted {first}"));
        }
    }
    Ok(events)
}
