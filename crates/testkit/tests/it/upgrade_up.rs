//! The data directory of an older version (`upgrade/`): what it has is kept, nothing restarts, and edits arrive.

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_testkit::{
    binary::{Daemon, free_port},
    real::{Binaries, until},
};
use tokio::process::Command;

use crate::propagation_up::kubectl;

const DEADLINE: Duration = Duration::from_secs(60);
/// Kind, name and UID of each object.
const IDENTITIES: &str = r#"jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid}{"\n"}{end}"#;
const OF_PLANE: &str = "clusters,rb,works,crb,pp,op,cronfederatedhpas,federatedresourcequotas";

fn lines(text: &str) -> BTreeSet<&str> {
    text.lines().filter(|line| !line.is_empty()).collect()
}

#[tokio::test]
async fn the_data_directory_of_an_older_version_is_taken_over() -> anyhow::Result<()> {
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upgrade/1000c873.tar.gz");
    let unpacked = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(dir.path()).status().await?;
    ensure!(unpacked.success(), "{} can't be unpacked", archive.display());
    let data = dir.path().join("data");
    let (path, listen) = (data.display().to_string(), format!("127.0.0.1:{}", free_port()?));
    let daemon = Daemon::start(["up", "--data-dir", &path, "--listen", &listen, "--metrics-bind-address", "0"]).await?;
    let plane = kubectl(&binaries, &data, "ironclad", dir.path())?;
    let members = ["member1", "member2", "member3"];
    let member = |name: &str| kubectl(&binaries, &data, name, dir.path());

    // Edits that restart no Pod arrive, beside what a member has of its own.
    plane.run(["patch", "cm", "web", "--type=merge", "-p", r#"{"data":{"a":"9"}}"#]).await?;
    plane.run(["annotate", "deploy", "web", "plane.example/note=edited"]).await?;
    for name in members {
        until("the edits arrive", DEADLINE, async || {
            let member = member(name)?;
            let value = member.run(["get", "cm", "web", "-o", "jsonpath={.data.a}"]).await?;
            let note = r"jsonpath={.metadata.annotations.plane\.example/note}";
            let note = member.run(["get", "deploy", "web", "-o", note]).await?;
            ensure!((value.as_str(), note.as_str()) == ("9", "edited"), "{name}: {value} {note}");
            Ok(())
        })
        .await?;
    }
    let own = member("member1")?.run(["get", "cm", "web", "-o", "jsonpath={.data.own}"]).await?;
    let note = r"jsonpath={.metadata.annotations.member\.example/note}";
    let note = member("member1")?.run(["get", "deploy", "web", "-o", note]).await?;
    ensure!((own.as_str(), note.as_str()) == ("member", "kept"), "{own} {note}");
    let region = member("member2")?.run(["get", "deploy", "web", "-o", "jsonpath={.metadata.labels.region}"]).await?;
    ensure!(region == "two", "the override holds: {region}");

    let before = |server: &str| {
        fs::read_to_string(dir.path().join("before").join(server)).with_context(|| format!("what {server} had"))
    };
    let (had, now) = (before("ironclad")?, plane.run(["get", OF_PLANE, "-A", "-o", IDENTITIES]).await?);
    ensure!(lines(&had).is_subset(&lines(&now)), "of the control plane:\n{had}\nis now\n{now}");
    for name in members {
        let now = member(name)?.run(["get", "deploy,pods,svc,cm", "-n", "default", "-o", IDENTITIES]).await?;
        ensure!(lines(&before(name)?) == lines(&now), "of {name}:\n{}\nis now\n{now}", before(name)?);
    }

    // It is scheduled on: five replicas become six.
    plane.run(["scale", "deploy/split", "--replicas", "6"]).await?;
    until("six replicas run", DEADLINE, async || {
        let ready = plane.run(["get", "deploy/split", "-o", "jsonpath={.status.readyReplicas}"]).await?;
        ensure!(ready == "6", "{ready}");
        Ok(())
    })
    .await?;
    daemon.stop().await
}
