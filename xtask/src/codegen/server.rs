//! A real kube-apiserver on loopback that lives as long as its [`Server`], called through `curl`.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, bail};
use serde_json::Value;

/// Readiness checks, a quarter of a second apart.
const READY_TRIES: u32 = 240;

pub(super) struct Server {
    url: String,
    token: String,
    owned: Option<Owned>,
}

/// The processes that were started and the folder they write to.
struct Owned {
    children: Vec<Child>,
    folder: PathBuf,
}

impl Drop for Owned {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) body: Value,
}

impl Server {
    pub(super) fn at(url: &str, token: &str) -> Self {
        Self { url: url.trim_end_matches('/').to_owned(), token: token.to_owned(), owned: None }
    }

    pub(super) fn start(programs: &Path) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("ironclad-codegen-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let mut owned = Owned { children: Vec::new(), folder: folder.clone() };
        let token = "codegen";
        fs::write(folder.join("tokens"), format!("{token},codegen,codegen,system:masters\n"))?;
        let key = folder.join("sa.key").display().to_string();
        let made = Command::new("openssl").args(["genrsa", "-out", &key, "2048"]).stderr(Stdio::null()).status();
        if !made.context("openssl can't be run")?.success() {
            bail!("openssl made no key");
        }
        let [client, peer, port] = free_ports()?;
        let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let mut start = |program: &str, args: &[&str]| -> anyhow::Result<()> {
            let log = fs::File::create(folder.join(format!("{program}.log")))?;
            let child = Command::new(programs.join(program))
                .current_dir(&folder)
                .args(args)
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .with_context(|| format!("{program} can't be started from {}", programs.display()))?;
            owned.children.push(child);
            Ok(())
        };
        start(
            "etcd",
            &[
                "--data-dir=etcd",
                "--unsafe-no-fsync",
                &format!("--listen-client-urls={client}"),
                &format!("--advertise-client-urls={client}"),
                &format!("--listen-peer-urls={peer}"),
                &format!("--initial-advertise-peer-urls={peer}"),
                &format!("--initial-cluster=default={peer}"),
            ],
        )?;
        start(
            "kube-apiserver",
            &[
                &format!("--etcd-servers={client}"),
                &format!("--secure-port={port}"),
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
                "--cert-dir=certs",
                "--token-auth-file=tokens",
                "--authorization-mode=RBAC",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--service-account-issuer=https://codegen",
                "--service-account-key-file=sa.key",
                "--service-account-signing-key-file=sa.key",
                "--disable-admission-plugins=ServiceAccount",
            ],
        )?;
        let server = Self { url: format!("https://127.0.0.1:{port}"), token: token.to_owned(), owned: Some(owned) };
        for _ in 0..READY_TRIES {
            if server.ask("GET", "/readyz", "", None).is_ok_and(|answer| answer.code == 200) {
                return Ok(server);
            }
            thread::sleep(Duration::from_millis(250));
        }
        let folder = server.owned.as_ref().map(|owned| owned.folder.join("kube-apiserver.log"));
        let log = folder.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(5).collect();
        bail!("kube-apiserver did not become ready; the end of its log, last line first:\n{}", tail.join("\n"))
    }

    pub(super) fn get(&self, path: &str) -> anyhow::Result<Value> {
        let answer = self.ask("GET", path, "", None)?;
        if answer.code != 200 {
            bail!("{path} answered {}: {}", answer.code, answer.body);
        }
        Ok(answer.body)
    }

    pub(super) fn ask(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Option<&str>,
    ) -> anyhow::Result<Answer> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--insecure", "--max-time", "60", "--write-out", "\n%{http_code}"])
            .args(["--request", method, "--header", &format!("Authorization: Bearer {}", self.token)])
            .args(["--user-agent", "codegen/1"])
            .arg(format!("{}{path}", self.url));
        if let Some(body) = body {
            curl.args(["--header", &format!("Content-Type: {content_type}"), "--data-binary", body]);
        }
        let output = curl.output().context("curl can't be run")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let (body, code) = text.rsplit_once('\n').context("curl printed no status code")?;
        let code: u16 = code.trim().parse().context("curl printed no status code")?;
        if code == 0 {
            bail!("{method} {path}: no answer");
        }
        Ok(Answer { code, body: serde_json::from_str(body).unwrap_or(Value::Null) })
    }
}

fn free_ports() -> anyhow::Result<[u16; 3]> {
    // All three together, or the system could return the same port twice.
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0"));
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(listeners) {
        *port = listener?.local_addr()?.port();
    }
    Ok(ports)
}
