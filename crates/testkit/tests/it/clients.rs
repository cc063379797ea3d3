//! Programs that users write in Go: client-go, controller-runtime and helm behave the same on the embedded server as on
//! a real one. The programs are in `tools/clients`; each prints its observations.

use std::{collections::BTreeMap, path::Path, process::Stdio, time::Duration};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use ironclad_testkit::{
    differential::Ours,
    real::{Binaries, Config, RealEnv},
};
use tokio::{process::Command, time::timeout};

/// Concurrent commands: they mostly wait.
const AT_ONCE: usize = 4;
/// Deadline; that of the program itself is a little shorter.
const DEADLINE: Duration = Duration::from_secs(120);
/// Makes client-go begin with a list, as before 1.35.
const BY_LIST: (&str, &str) = ("KUBE_FEATURE_WatchListClient", "false");

/// Program to run: a command, an environment variable, and lines that prove that it did
/// its work.
type Row = (&'static str, Option<(&'static str, &'static str)>, &'static [&'static str]);

const ROWS: [Row; 7] = [
    (
        "informers",
        None,
        &[
            "all: map[added:61]",
            "red: map[added:30]",
            "asked: configmaps, watch with initial events, NotOlderThan, bookmarks",
            "it turns blue: red: deleted new",
            "after the cut: all: updated m00, deleted m02",
            "asked again: watch from a revision, bookmarks",
            "the cache equals a list: 30",
        ],
    ),
    (
        "informers",
        Some(BY_LIST),
        &[
            "asked: configmaps, get or list, limit 500",
            "asked: configmaps, watch from a revision, bookmarks",
            "asked again: watch from a revision, bookmarks",
            "the cache equals a list: 30",
        ],
    ),
    (
        "dynamic",
        None,
        &[
            "made: generation 1, unknown kept false",
            "in 3 pages: 25, sorted true, <nil>",
            "scaled: 4",
            "after the definition was deleted: deleted g99",
        ],
    ),
    (
        "leader",
        None,
        &[
            "ann leads: held by ann for 3 s, 0 transitions",
            "cid leads: held by cid for 3 s, 2 transitions",
            "given back: holder \"\"",
        ],
    ),
    (
        "apply",
        None,
        &[
            "the same revision: true",
            "invalid: true: Deployment.apps \"bad\" is invalid",
            "own: image web:2, env 0, replicas set false",
        ],
    ),
    (
        "manager",
        None,
        &["elected", "too long: true", "by index: 1", "gone, and with it the copy: true; cleaned: map[one:yes]"],
    ),
    (
        "helm",
        None,
        &[
            "installed: revision 1, deployed, \"Install complete\"",
            "rolled back: revision 3, deployed, \"Rollback to 1\"",
            "a broken upgrade is refused: true",
            "uninstalled: uninstalled",
            "status: release: not found",
        ],
    ),
];

#[tokio::test]
async fn programs_in_go_behave_the_same_on_both_servers() -> anyhow::Result<()> {
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let program = binaries.clients()?;
    let env = RealEnv::start(Config { plane: true, members: 0, ..Config::default() }).await?;
    let home = tempfile::tempdir()?;
    let embedded = Ours::start(home.path()).await?;
    let (real, ours) = (env.plane().kubeconfig(), embedded.kubeconfig());

    let seen: BTreeMap<(usize, &str), String> = stream::iter(ROWS.iter().enumerate())
        .flat_map(|(n, row)| stream::iter([("real", n, row), ("ours", n, row)]))
        .map(|(side, n, row)| {
            let kubeconfig = if side == "real" { real.as_path() } else { ours };
            let (program, home) = (program.as_path(), home.path().join(format!("{side}-{n}")));
            async move {
                let lines = run(program, kubeconfig, &home, n, row).await;
                anyhow::Ok(((n, side), lines.with_context(|| format!("{} on the {side} server", row.0))?))
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let mut differences = Vec::new();
    for (n, (command, environment, want)) in ROWS.iter().enumerate() {
        let (real, ours) = (&seen[&(n, "real")], &seen[&(n, "ours")]);
        for line in *want {
            let there = real.lines().any(|seen| seen.starts_with(line));
            ensure!(there, "{command} {environment:?} did not print {line:?} on the real server, but\n{real}");
        }
        if real != ours {
            differences.push(format!("{command} {environment:?}\non the real server:\n{real}\non ours:\n{ours}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    Ok(())
}

/// Runs a command and returns the lines that it prints.
async fn run(program: &Path, kubeconfig: &Path, home: &Path, n: usize, row: &Row) -> anyhow::Result<String> {
    let (command, environment, _) = row;
    tokio::fs::create_dir_all(home).await?;
    let output = Command::new(program)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .arg("--namespace")
        .arg(format!("clients-{command}-{n}"))
        .arg("--home")
        .arg(home)
        .arg(command)
        .env("HOME", home)
        .envs(*environment)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(DEADLINE, output).await.context("it does not end")??;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "it ended with {}: {stderr}\nafter\n{stdout}", output.status);
    Ok(stdout.into_owned())
}
