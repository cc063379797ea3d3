//! A requested, approved and signed certificate authenticates its holder over TLS: in the control
//! plane and in a simulated member, each with its own authority.

use std::{fs, path::Path};

use anyhow::{Context as _, ensure};
use ironclad_apiserver::pki;
use ironclad_seam::Clock;
use ironclad_testkit::{
    binary::{Daemon, free_port},
    real::{Binaries, Kubectl},
};
use jiff::SignedDuration;
use k8s_openapi::ByteString;
use kube::config::Kubeconfig;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

/// Requested lifetime. The minimum is ten minutes.
const LIFE: SignedDuration = SignedDuration::from_mins(30);

/// One server with its administrator's client, and a directory for files of users.
struct Place<'a> {
    binaries: &'a Binaries,
    kubectl: Kubectl,
    kubeconfig: &'a Path,
    context: &'a str,
    home: &'a Path,
}

impl Place<'_> {
    async fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.kubectl.run(["--context", self.context].iter().chain(arguments)).await
    }

    /// Requests a certificate for this key.
    async fn ask(&self, name: &str, key: &KeyPair, usage: &str) -> anyhow::Result<()> {
        let mut params = CertificateParams::default();
        let mut subject = DistinguishedName::new();
        subject.push(DnType::CommonName, name);
        subject.push(DnType::OrganizationName, "devs");
        // Another organisation: the library takes the two for different types.
        subject.push(DnType::CustomDnType(vec![2, 5, 4, 10]), "admins");
        params.distinguished_name = subject;
        let request = ByteString(params.serialize_request(key)?.pem()?.into_bytes());
        let manifest = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
            "spec": {
                "request": request, "signerName": "kubernetes.io/kube-apiserver-client", "usages": [usage],
                "expirationSeconds": LIFE.as_secs(),
            },
        });
        let file = self.home.join(format!("{}-{name}.json", self.context));
        fs::write(&file, manifest.to_string())?;
        self.run(&["apply", "-f", &file.display().to_string()]).await.map(drop)
    }

    async fn status(&self, name: &str) -> anyhow::Result<Value> {
        Ok(serde_json::from_str::<Value>(&self.run(&["get", "csr", name, "-o", "json"]).await?)?["status"].take())
    }

    /// A kubectl with only this certificate and its key.
    fn user(&self, certificate: &str, key: &KeyPair) -> anyhow::Result<Kubectl> {
        let all = Kubeconfig::read_from(self.kubeconfig)?;
        let cluster = all.clusters.into_iter().find(|c| c.name == self.context).and_then(|c| c.cluster);
        let cluster = cluster.context("the server's place in the kubeconfig")?;
        let ca: ByteString = serde_json::from_value(json!(cluster.certificate_authority_data))?;
        let context = pki::Context {
            name: self.context.to_owned(),
            server: cluster.server.context("a URL")?,
            ca: String::from_utf8(ca.0)?,
            client: pki::Pair { certificate: certificate.to_owned(), key: key.serialize_pem() },
        };
        let file = self.home.join(format!("{}-user", self.context));
        pki::write_private(&file, pki::kubeconfig(&[context]).as_bytes())?;
        Ok(Kubectl::new(self.binaries, &file, self.home))
    }
}

#[tokio::test]
async fn an_approved_certificate_authenticates_its_holder() -> anyhow::Result<()> {
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data").display().to_string(), format!("127.0.0.1:{}", free_port()?));
    let arguments = ["up", "--data-dir", &data, "--listen", &listen, "--clusters", "1", "--metrics-bind-address", "0"];
    let daemon = Daemon::start(arguments).await?;
    let kubeconfig = dir.path().join("data/kubeconfig");
    let mut made = Vec::new();
    for context in ["ironclad", "member1"] {
        let kubectl = Kubectl::new(&binaries, &kubeconfig, dir.path());
        let place = Place { binaries: &binaries, kubectl, kubeconfig: &kubeconfig, context, home: dir.path() };
        made.push(is_let_in(&place).await.with_context(|| context.to_owned())?);
        told_why_not(&place).await.with_context(|| context.to_owned())?;
    }
    // A user of the control plane is unknown in the member.
    let kubectl = Kubectl::new(&binaries, &kubeconfig, dir.path());
    let member = Place { binaries: &binaries, kubectl, kubeconfig: &kubeconfig, context: "member1", home: dir.path() };
    let (certificate, key) = &made[0];
    let stranger = member.user(certificate, key)?.output(["auth", "whoami"], "").await?;
    ensure!(stranger.code == Some(1), "{stranger:?}");
    daemon.stop().await
}

async fn is_let_in(place: &Place<'_>) -> anyhow::Result<(String, KeyPair)> {
    let clock = Clock::system();
    let key = KeyPair::generate()?;
    place.ask("alice", &key, "client auth").await?;
    ensure!(place.status("alice").await? == json!({}), "nobody approved yet");
    let before = clock.wall_seconds();
    place.run(&["certificate", "approve", "alice"]).await?;
    place.run(&["wait", "csr", "alice", "--for=jsonpath={.status.certificate}", "--timeout=60s"]).await?;
    let certificate: ByteString = serde_json::from_value(place.status("alice").await?["certificate"].take())?;
    let certificate = String::from_utf8(certificate.0)?;
    let (ends, _) = pki::validity(&certificate).context("a certificate")?;
    ensure!(
        before + LIFE <= ends && ends <= clock.wall() + LIFE,
        "approved at {before}, it ends at {ends}, although {LIFE:#} were asked for"
    );
    let user = place.user(&certificate, &key)?;
    let who: Value = serde_json::from_str(&user.run(["auth", "whoami", "-o", "json"]).await?)?;
    let info = &who["status"]["userInfo"];
    ensure!(info["username"] == "alice", "{who}");
    ensure!(info["groups"] == json!(["devs", "admins", "system:authenticated"]), "{who}");
    Ok((certificate, key))
}

async fn told_why_not(place: &Place<'_>) -> anyhow::Result<()> {
    place.ask("server", &KeyPair::generate()?, "server auth").await?;
    place.run(&["certificate", "approve", "server"]).await?;
    place.run(&["wait", "csr", "server", "--for=condition=Failed", "--timeout=60s"]).await?;
    let status = place.status("server").await?;
    let why = &status["conditions"][1]["message"];
    ensure!(why == "invalid usage for client certificate: server auth", "{status}");
    ensure!(status["certificate"].is_null(), "{status}");
    Ok(())
}
