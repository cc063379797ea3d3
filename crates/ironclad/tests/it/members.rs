//! Joining and unjoining a real member of a real control plane.

use ironclad_testkit::real::{Config, RealEnv};
use serde_json::Value;

use crate::verb::{Run, ironclad};

struct World {
    env: RealEnv,
}

impl World {
    /// A verb against the control plane.
    async fn plane(&self, args: &[&str]) -> anyhow::Result<Run> {
        let kubeconfig = self.env.plane().kubeconfig().display().to_string();
        ironclad(args.iter().copied().chain(["--kubeconfig", &kubeconfig])).await
    }

    /// A verb against the control plane and the member.
    async fn both(&self, args: &[&str]) -> anyhow::Result<Run> {
        let kubeconfig = self.env.member(0).kubeconfig().display().to_string();
        self.plane(&args.iter().copied().chain(["--cluster-kubeconfig", &kubeconfig]).collect::<Vec<_>>()).await
    }

    async fn get(&self, args: &[&str]) -> anyhow::Result<String> {
        self.env.plane().kubectl().run(["get"].iter().chain(args)).await
    }
}

#[tokio::test]
async fn a_real_member_joins_and_leaves() -> anyhow::Result<()> {
    let config = Config { members: 1, ..Config::default() };
    let Some(env) = RealEnv::start_or_skip(config).await? else { return Ok(()) };
    let world = World { env };

    let early = world.both(&["join", "member1"]).await?;
    assert_eq!(early.code, Some(1));
    assert!(
        early.stderr.contains("error: cluster member1 was not joined: listing clusters in the control plane"),
        "{}",
        early.stderr
    );
    assert!(early.stderr.contains("`ironclad crds --install`"), "{}", early.stderr);

    let installed = world.plane(&["crds", "--install"]).await?.done()?;
    assert!(installed.lines().all(|line| line.ends_with(" created")), "{installed}");
    let again = world.plane(&["crds", "--install"]).await?.done()?;
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");

    let dry = world.both(&["join", "member1", "--dry-run=server"]).await?.done()?;
    assert!(dry.contains("cluster.cluster.karmada.io/member1 created (server dry run) in the control plane"), "{dry}");
    assert_eq!(world.get(&["clusters", "-o", "name"]).await?, "", "a dry run writes nothing");

    let joined = world.both(&["join", "member1"]).await?;
    assert_eq!(joined.stdout, "cluster(member1) is joined successfully\n", "{}", joined.stderr);
    assert!(joined.stderr.starts_with("member: Kubernetes v1.36."), "{}", joined.stderr);
    let secret: Value =
        serde_json::from_str(&world.get(&["secret", "-n", "karmada-cluster", "member1", "-o", "json"]).await?)?;
    assert_eq!(secret["metadata"]["ownerReferences"][0]["kind"], "Cluster");
    assert!(secret["data"]["token"].is_string() && secret["data"]["caBundle"].is_string());
    let cluster = world.both(&["join", "member1", "--cluster-region", "eu", "-o", "json"]).await?.done()?;
    let cluster: Value = serde_json::from_str(&cluster)?;
    assert_eq!(cluster["spec"]["region"], "eu", "joining again refreshes");
    let renewed = world.both(&["join", "member1", "--credential=token", "--token-duration", "1h"]).await?;
    assert_eq!(renewed.code, Some(0), "{}", renewed.stderr);
    assert!(renewed.stderr.contains("the tokens expire at "), "{}", renewed.stderr);
    let of_member = async |args: &[&str]| world.env.member(0).kubectl().run(["get"].iter().chain(args)).await;
    let tokens = of_member(&["secrets", "-n", "karmada-cluster", "-o", "name"]).await?;
    assert_eq!(tokens, "", "no token is left that does not expire");

    let plane = world.env.plane().kubeconfig().display().to_string();
    let itself = world.plane(&["join", "itself", "--cluster-kubeconfig", &plane]).await?;
    assert!(itself.stderr.contains("because the member is the control plane itself"), "{}", itself.stderr);
    let wrong = world.plane(&["unjoin", "member1", "--yes", "--cluster-kubeconfig", &plane]).await?;
    assert!(wrong.stderr.contains("because --cluster-kubeconfig leads to the control plane"), "{}", wrong.stderr);
    assert!(world.get(&["secret", "-n", "karmada-cluster", "-o", "name"]).await?.contains("secret/member1\n"));

    let other = world.both(&["join", "other"]).await?;
    assert!(other.stderr.contains("is joined already as member1"), "{}", other.stderr);

    let unasked = world.plane(&["unjoin", "member1"]).await?;
    assert_eq!(unasked.code, Some(2), "nobody can be asked: {}", unasked.stderr);
    let left = world.both(&["unjoin", "member1", "--yes"]).await?;
    assert_eq!(left.stdout, "cluster(member1) is unjoined successfully\n", "{}", left.stderr);
    assert!(
        left.stderr.contains("cluster member1: 0 works, 0 bindings would lose a replica, 0 would have no cluster left"),
        "{}",
        left.stderr
    );
    let roles = world.env.member(0).kubectl().run(["get", "clusterroles", "-o", "name"]).await?;
    assert!(!roles.contains("karmada"), "the member is clean: {roles}");
    let namespace =
        of_member(&["namespace", "karmada-cluster", "--ignore-not-found", "-o", "jsonpath={.status.phase}"]).await?;
    assert_ne!(namespace.trim(), "Active", "it is deleted, as the join created it");
    let refused = world.plane(&["unjoin", "member1", "--yes"]).await?;
    assert!(
        refused.stderr.starts_with("error: no cluster object member1 found in karmada control Plane"),
        "{}",
        refused.stderr
    );
    Ok(())
}

#[tokio::test]
async fn a_real_member_with_finalizers_is_unjoined_by_force() -> anyhow::Result<()> {
    let config = Config { members: 1, ..Config::default() };
    let Some(env) = RealEnv::start_or_skip(config).await? else { return Ok(()) };
    let world = World { env };
    world.plane(&["crds", "--install"]).await?.done()?;
    world.both(&["join", "member1"]).await?.done()?;
    let kubectl = world.env.plane().kubectl();
    kubectl.run(["create", "namespace", "karmada-es-member1"]).await?;
    kubectl
        .apply(
            r#"{"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "spec": {"workload": {}}, "metadata": {
                "name": "held", "namespace": "karmada-es-member1", "finalizers": ["karmada.io/execution-controller"]}}"#,
        )
        .await?;
    let hold = r#"{"metadata": {"finalizers": ["karmada.io/cluster-controller"]}}"#;
    kubectl.run(["patch", "cluster", "member1", "--type=merge", "-p", hold]).await?;

    let stuck = world.plane(&["unjoin", "member1", "--yes", "--wait", "1s"]).await?;
    assert_eq!(stuck.code, Some(1));
    assert!(stuck.stderr.contains("error: timed out after 1 s waiting for cluster member1 to go\n  because its finalizers are not released: karmada.io/cluster-controller"), "{}", stuck.stderr);
    let forced = world.plane(&["unjoin", "member1", "--yes", "--wait", "1s", "--force"]).await?;
    assert_eq!(forced.stdout, "cluster(member1) is unjoined successfully\n", "{}", forced.stderr);
    let clean = || async {
        let namespaces = kubectl.run(["get", "namespaces", "-o", "name"]).await?;
        anyhow::ensure!(!namespaces.contains("karmada-es-member1"), "{namespaces}");
        Ok(())
    };
    ironclad_testkit::real::until("the execution space to go", std::time::Duration::from_secs(30), async || {
        clean().await
    })
    .await
}
