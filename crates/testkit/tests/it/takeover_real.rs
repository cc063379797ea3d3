//! `run --take-over-karmada` on what a Karmada left: its objects in a real control plane and member, as they were read
//! from one (commit f8fdd02df, the state that became 1.19.0). No Pod restarts, nothing is made anew, and edits arrive.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_testkit::{
    binary::{Daemon, ironclad},
    real::{Config, Kubectl, NodeShape, RealEnv, until},
};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(90);

/// A line is `{"part": …, "object": …}`; parts are template (with policies), binding, work and copy.
const LEFT: &str = include_str!("../karmada/left_by_karmada.jsonl");

/// The objects of a part, with the uids of this plane.
fn left(part: &str, uids: &BTreeMap<String, String>) -> anyhow::Result<Vec<Value>> {
    let mut text = LEFT.to_owned();
    for (old, new) in uids {
        text = text.replace(old, new);
    }
    let lines = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    Ok(lines.into_iter().filter(|line| line["part"] == part).map(|line| line["object"].clone()).collect())
}

/// Creates an object and its status; returns its uid.
async fn create(kubectl: &Kubectl, object: &Value) -> anyhow::Result<String> {
    let mut bare = object.clone();
    for pointer in ["/metadata", ""] {
        let map = bare.pointer_mut(pointer).and_then(Value::as_object_mut).context("an object")?;
        for key in if pointer.is_empty() { &["status"][..] } else { &["uid", "generation"] } {
            map.remove(*key);
        }
    }
    // The server counts marks of a Deployment that are set later as its second generation, which Works name.
    let marks = bare["metadata"]["annotations"].take();
    kubectl.output(["create", "-f", "-"], &bare.to_string()).await?.success()?;
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let group = text("/apiVersion").split_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
    let version = text("/apiVersion").rsplit('/').next().unwrap_or_default();
    let kind = if group.is_empty() { text("/kind").to_owned() } else { format!("{}.{version}{group}", text("/kind")) };
    let of = [kind.as_str(), text("/metadata/name"), "-n", text("/metadata/namespace")];
    let marks = json!({"metadata": {"annotations": marks}}).to_string();
    kubectl.run([&["patch"][..], &of, &["--type=merge", "-p", &marks]].concat()).await?;
    if let Some(status) = object.get("status").filter(|_| group.contains("karmada.io")) {
        let patch = json!({ "status": status }).to_string();
        kubectl.run([&["patch"][..], &of, &["--subresource=status", "--type=merge", "-p", &patch]].concat()).await?;
    }
    kubectl.run([&["get"][..], &of, &["-o", "jsonpath={.metadata.uid}"]].concat()).await
}

/// Pods, copies and Works, which have to stay the same objects. Works and copies are written once: they get the record
/// of the fields that were applied.
async fn marks(plane: &Kubectl, member: &Kubectl) -> anyhow::Result<[String; 3]> {
    let of = "custom-columns=K:.kind,N:.metadata.name,U:.metadata.uid";
    let pods = member.run(["get", "pods", "-o", "custom-columns=N:.metadata.name,U:.metadata.uid"]).await?;
    let copies = member.run(["get", "deploy/web", "cm/conf", "svc/web", "clusterrole/reader", "-o", of]);
    let names = left("work", &BTreeMap::new())?;
    let names = names.iter().filter_map(|work| work["metadata"]["name"].as_str());
    let works = ["get", "works", "-n", "karmada-es-member1", "-o", of].into_iter().chain(names);
    Ok([pods, copies.await?, plane.run(works).await?])
}

#[tokio::test]
async fn what_a_karmada_left_is_gone_on_with() -> anyhow::Result<()> {
    let nodes = NodeShape { count: 1, ..NodeShape::default() };
    let Some(env) = RealEnv::start_or_skip(Config { members: 1, nodes, ..Config::default() }).await? else {
        return Ok(());
    };
    let (plane, member) = (env.plane().kubectl(), env.member(0).kubectl());
    let of_plane = env.plane().kubeconfig().display().to_string();
    let of_member = env.member(0).kubeconfig().display().to_string();
    ironclad(["crds", "--install", "--kubeconfig", &of_plane]).await?.success()?;
    let mut uids = BTreeMap::new();
    for object in left("template", &uids)? {
        let old = object["metadata"]["uid"].as_str().context("it has a uid")?.to_owned();
        uids.insert(old, create(plane, &object).await?);
    }
    for object in left("binding", &uids)? {
        create(plane, &object).await?;
    }
    plane.run(["create", "namespace", "karmada-es-member1"]).await?;
    for object in left("work", &uids)? {
        create(plane, &object).await?;
    }
    for object in left("copy", &uids)? {
        create(member, &object).await?;
    }
    until("the Pods run", DEADLINE, async || {
        let ready = member.run(["get", "deploy/web", "-o", "jsonpath={.status.readyReplicas}"]).await?;
        ensure!(ready == "2", "{ready}");
        Ok(())
    })
    .await?;
    ironclad(["join", "member1", "--kubeconfig", &of_plane, "--cluster-kubeconfig", &of_member]).await?.success()?;
    let before = marks(plane, member).await?;

    let account = env.account().await?;
    let run = ["run", "--take-over-karmada", "--kubeconfig", &account, "--metrics-bind-address=0"];
    let daemon = Daemon::start(run).await?;
    until("the chain is whole", DEADLINE, async || {
        let tree = ironclad(["tree", "deploy/web", "--kubeconfig", &of_plane]).await?.success()?;
        ensure!(tree.contains("member1: Deployment default/web – 2/2 ready, healthy"), "{tree}");
        ensure!(!tree.contains('✗') && !tree.contains('…'), "{tree}");
        Ok(())
    })
    .await?;
    let doctor = ironclad(["doctor", "--kubeconfig", &of_plane]).await?;
    ensure!(doctor.stdout.contains("no invariant is broken"), "{doctor:?}");
    ensure!(marks(plane, member).await? == before, "{before:?} {:?}", marks(plane, member).await?);

    // It goes on from there: an edit reaches the copies that there are.
    plane.run(["scale", "deploy/web", "--replicas=3"]).await?;
    plane.run(["patch", "cm/conf", "--type=merge", "-p", r#"{"data":{"a":"2"}}"#]).await?;
    until("edits arrive", DEADLINE, async || {
        let ready = member.run(["get", "deploy/web", "-o", "jsonpath={.status.readyReplicas}"]).await?;
        let data = member.run(["get", "cm/conf", "-o", "jsonpath={.data.a}"]).await?;
        ensure!((ready.as_str(), data.as_str()) == ("3", "2"), "{ready} {data}");
        Ok(())
    })
    .await?;
    let [pods, ..] = marks(plane, member).await?;
    for pod in before[0].lines().skip(1) {
        ensure!(pods.contains(pod), "{pod} is gone: {pods}");
    }
    // Karmada's Leases are held, so that it does not come back beside.
    let holder = plane.run([
        "get",
        "lease",
        "karmada-scheduler",
        "-n",
        "karmada-system",
        "-o",
        "jsonpath={.spec.holderIdentity}",
    ]);
    let holder = holder.await?;
    ensure!(holder.starts_with("ironclad_"), "{holder}");
    daemon.stop_unrefused().await
}
