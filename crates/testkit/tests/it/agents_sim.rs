//! Identity of agents: certificates that are approved, rights that follow Clusters, and limits of what agents write.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use ironclad_api::{
    agents::{AGENT_GROUP, BOOTSTRAP_GROUP, RBAC_GENERATOR, agent_rights, agent_user, bootstrap_rights},
    cluster::Cluster,
};
use ironclad_apiserver::Identity;
use ironclad_testkit::sim::{World, WorldOptions};
use k8s_openapi::{
    ByteString,
    api::{
        certificates::v1::CertificateSigningRequest,
        coordination::v1::Lease,
        core::v1::{Event, Secret},
    },
};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

fn api_of(client: &Client, object: &Value) -> Api<DynamicObject> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("/kind")));
    match text("/metadata/namespace") {
        "" => Api::all_with(client.clone(), &kind),
        namespace => Api::namespaced_with(client.clone(), namespace, &kind),
    }
}

async fn create(client: &Client, object: &Value) -> anyhow::Result<()> {
    let made = serde_json::from_value(object.clone())?;
    api_of(client, object).create(&PostParams::default(), &made).await?;
    Ok(())
}

/// The rights of a cluster's agent that there are.
async fn rights(client: &Client, cluster: &str) -> anyhow::Result<Vec<DynamicObject>> {
    let mut found = Vec::new();
    for object in agent_rights(cluster) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        found.extend(api_of(client, &object).get_opt(name).await?);
    }
    Ok(found)
}

async fn ask(client: &Client, name: &str, cluster: &str) -> anyhow::Result<()> {
    let mut params = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, agent_user(cluster));
    subject.push(DnType::OrganizationName, AGENT_GROUP);
    params.distinguished_name = subject;
    let request = ByteString(params.serialize_request(&KeyPair::generate()?)?.pem()?.into_bytes());
    let object = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"request": request, "signerName": "kubernetes.io/kube-apiserver-client",
            "expirationSeconds": 31_536_000, "usages": ["digital signature", "client auth"]},
    });
    create(client, &object).await
}

async fn approval(client: &Client, name: &str) -> anyhow::Result<Option<String>> {
    let request = Api::<CertificateSigningRequest>::all(client.clone()).get(name).await?;
    let mut conditions = request.status.unwrap_or_default().conditions.unwrap_or_default();
    ensure!(conditions.len() < 2, "{conditions:?}");
    let approved = conditions.pop().filter(|c| c.type_ == "Approved" && c.reason.as_deref() == Some("AutoApproved"));
    Ok(approved.and_then(|condition| condition.message))
}

async fn events(client: &Client, reason: &str) -> anyhow::Result<Vec<String>> {
    let all = Api::<Event>::all(client.clone()).list(&ListParams::default()).await?.items;
    let told = all.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
    Ok(told.map(|event| event.involved_object.name.unwrap_or_default()).collect())
}

fn lease(renewed: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "m1", "namespace": "karmada-cluster"},
        "spec": {"holderIdentity": "m1", "leaseDurationSeconds": 10, "renewTime": renewed},
    })
}

fn cluster(name: &str) -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
        "spec": {"syncMode": "Pull", "apiEndpoint": "https://10.0.0.1:6443"},
    })
}

#[tokio::test(start_paused = true)]
async fn agents_get_their_identity_and_keep_to_it() -> anyhow::Result<()> {
    let mut world = World::start(WorldOptions { seed: 7, members: 1 }).await?;
    let admin = world.user();
    for object in bootstrap_rights(true) {
        create(&admin, &object).await?;
    }
    for (id, name) in [("abcdef", None), ("fedcba", Some("m9"))] {
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"namespace": "kube-system", "name": format!("bootstrap-token-{id}")},
            "stringData": {"token-id": id, "token-secret": "0123456789abcdef"},
        });
        if let Some(name) = name {
            secret["stringData"]["ironclad-cluster-name"] = name.into();
        }
        create(&admin, &secret).await?;
    }
    let token = |id: &str| {
        world.client_of(Identity::user(&format!("system:bootstrap:{id}"), &["system:bootstrappers", BOOTSTRAP_GROUP]))
    };
    let (any, bound) = (token("abcdef"), token("fedcba"));
    let agent = world.client_of(Identity::user(&agent_user("m1"), &[AGENT_GROUP]));
    world.start_controllers().await;

    // The first certificate, and rights before there is a Cluster.
    ask(&any, "first", "m1").await?;
    world.until("approved", async || Ok(approval(&admin, "first").await?.is_some())).await?;
    let message = approval(&admin, "first").await?.context("just seen")?;
    ensure!(message == "Auto approving karmada agent certificate after SubjectAccessReview.", "{message}");
    world.until("rights", async || Ok(rights(&admin, "m1").await?.len() == 6)).await?;
    ask(&bound, "bound", "m2").await?;
    world.until("refused", async || Ok(events(&admin, "AgentNameRefused").await? == ["bound"])).await?;
    ask(&any, "taken", "member1").await?;
    world.until("taken", async || Ok(events(&admin, "AgentNameTaken").await? == ["member1"])).await?;

    // The agent makes its Cluster, and no other.
    let refusal = create(&agent, &cluster("m2")).await.err().context("a foreign Cluster")?.to_string();
    ensure!(refusal.contains("an agent writes only the Cluster of its own name, m1"), "{refusal}");
    create(&agent, &cluster("m1")).await?;
    let uid = Api::<Cluster>::all(admin.clone()).get("m1").await?.metadata.uid;
    world
        .until("owned", async || {
            let all = rights(&admin, "m1").await?;
            let owner = |object: &DynamicObject| Some(object.metadata.owner_references.as_ref()?.first()?.uid.clone());
            Ok(all.len() == 6 && all.iter().all(|object| owner(object) == uid))
        })
        .await?;
    create(&agent, &lease("2026-01-01T00:00:00.000000Z")).await?;
    let mut foreign = lease("2026-01-01T00:00:00.000000Z");
    foreign["metadata"]["name"] = "member1".into();
    let refusal = create(&agent, &foreign).await.err().context("a foreign Lease")?.to_string();
    ensure!(refusal.contains("may not create Lease karmada-cluster/member1"), "{refusal}");
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "karmada-cluster", "name": "x"}});
    ensure!(create(&agent, &secret).await.is_err(), "a foreign Secret");
    let read = Api::<Secret>::namespaced(agent.clone(), "karmada-cluster").get("member1").await;
    ensure!(matches!(read, Err(kube::Error::Api(status)) if status.code == 403), "it reads the Secret of another");

    // While it renews its Lease, nobody else gets its identity.
    ask(&any, "second", "m1").await?;
    let leases: Api<Lease> = Api::namespaced(agent.clone(), "karmada-cluster");
    for second in 1..5 {
        world.pass(Duration::from_secs(8)).await?;
        let spec = json!({"spec": {"renewTime": format!("2026-01-01T00:00:{second:02}.000000Z")}});
        let mut renewed: Value = serde_json::to_value(leases.get("m1").await?)?;
        renewed["spec"]["renewTime"] = spec["spec"]["renewTime"].clone();
        leases.replace("m1", &PostParams::default(), &serde_json::from_value(renewed)?).await?;
        ensure!(approval(&admin, "second").await?.is_none(), "approved although the agent is alive");
    }
    let told = events(&admin, "AgentNameTaken").await?;
    ensure!(told == ["m1", "member1"] || told == ["member1", "m1"], "{told:?}");
    // Its own renewal is approved all the same.
    ask(&agent, "renewal", "m1").await?;
    world.until("renewed", async || Ok(approval(&admin, "renewal").await?.is_some())).await?;
    world.until("silent", async || Ok(approval(&admin, "second").await?.is_some())).await?;

    // Changes of rights are undone.
    let role = &agent_rights("m1")[0];
    let patch = Patch::Merge(json!({"rules": [], "metadata": {"ownerReferences": null}}));
    let roles = api_of(&admin, role);
    roles.patch("system:karmada:m1:agent", &PatchParams::default(), &patch).await?;
    let secret_role = api_of(&admin, &agent_rights("m1")[2]);
    secret_role.delete("system:karmada:m1:agent-secret", &DeleteParams::default()).await?;
    world
        .until("repaired", async || {
            let all = rights(&admin, "m1").await?;
            let first = all.first().is_some_and(|found| found.data["rules"] == role["rules"]);
            Ok(all.len() == 6 && first && all.iter().all(|object| object.metadata.owner_references.is_some()))
        })
        .await?;

    // They end with the Cluster, although approved requests are left.
    Api::<Cluster>::all(admin.clone()).delete("m1", &DeleteParams::default()).await?;
    world.until("removed", async || Ok(rights(&admin, "m1").await?.is_empty())).await?;
    world.pass(Duration::from_secs(60)).await?;
    ensure!(rights(&admin, "m1").await?.is_empty(), "they came back");

    // As karmadactl registers it: with a user of its own it "makes" the rights, asks for the certificate, and may clean
    // up after a failure. The rights are there when the certificate is.
    ask(&bound, "agent-rbac-generator-m9abcde", "rbac-generator").await?;
    let asked = "agent-rbac-generator-m9abcde";
    world.until("karmadactl's approved", async || Ok(approval(&admin, asked).await?.is_some())).await?;
    let requests: Api<CertificateSigningRequest> = Api::all(admin.clone());
    ensure!(requests.get(asked).await?.spec.expiration_seconds == Some(600), "a long life");
    let registrar = world.client_of(Identity::user(RBAC_GENERATOR, &[AGENT_GROUP]));
    ensure!(Api::<Cluster>::all(registrar.clone()).get_opt("m9").await?.is_none(), "there is no m9");
    let space = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"karmada.io/system": "true"}}})
    };
    for object in [space("karmada-cluster"), space("karmada-es-m9")].into_iter().chain(agent_rights("m9")) {
        match create(&registrar, &object).await.map_err(anyhow::Error::downcast::<kube::Error>) {
            Ok(()) => ensure!(object["kind"] == "Namespace", "it made {object}"),
            Err(Ok(kube::Error::Api(status))) if status.reason == "AlreadyExists" => {}
            Err(other) => anyhow::bail!("{object}: {other:?}"),
        }
    }
    Api::<CertificateSigningRequest>::all(registrar.clone()).delete(asked, &DeleteParams::default()).await?;
    ensure!(rights(&admin, "m9").await?.is_empty(), "it made rights");
    ask(&bound, "m9-abcde", "m9").await?;
    world.until("m9 approved", async || Ok(approval(&admin, "m9-abcde").await?.is_some())).await?;
    world.until("rights of m9", async || Ok(rights(&admin, "m9").await?.len() == 6)).await?;
    for object in agent_rights("m9") {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let refused = api_of(&registrar, &object).delete(name, &DeleteParams::default()).await;
        ensure!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403), "it deleted {name}");
    }
    // Where it is an administrator, as with Karmada, it gets no certificate.
    let rbac = "rbac.authorization.k8s.io";
    let power = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "of-karmada"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": RBAC_GENERATOR}],
    });
    create(&admin, &power).await?;
    ask(&any, "powerful", "rbac-generator").await?;
    let refused = async || Ok(events(&admin, "AgentNameRefused").await?.contains(&"powerful".to_owned()));
    world.until("too much power", refused).await?;
    world.until_quiet().await?;
    ensure!(approval(&admin, "powerful").await?.is_none(), "powerful");
    for name in ["bound", "taken"] {
        ensure!(approval(&admin, name).await?.is_none(), "{name}");
    }
    Ok(())
}
