//! Errors of the connection to the control plane, for every verb that asks one: they name the server, the kubeconfig
//! and the context, and say what to do.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
use ironclad_seam::Tasks;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, pki_types::PrivatePkcs8KeyDer},
};

use crate::verb::ironclad;

const VERBS: [&[&str]; 18] = [
    &["tree", "deploy/web"],
    &["why", "deploy/web"],
    &["why", "evicted"],
    &["doctor"],
    &["cordon", "member1"],
    &["uncordon", "member1"],
    &["taint", "clusters", "member1", "a=b:NoSchedule"],
    &["drain", "member1"],
    &["unjoin", "member1", "--yes"],
    &["get", "clusters"],
    &["get", "deployments"],
    &["plan", "cluster-loss", "member1"],
    &["top", "clusters"],
    &["logs", "deploy/web"],
    &["failover", "status"],
    &["failover", "pause"],
    &["failover", "resume"],
    &["sim", "list"],
];

fn status(code: u16, reason: &str) -> String {
    let body = format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{reason} of the test","reason":"{reason}","code":{code}}}"#
    );
    answer(code, "application/json", &body)
}

fn answer(code: u16, media: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {code} X\r\ncontent-type: {media}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// A server that gives every request the same answer, or none. Returns its address.
async fn serve(tasks: &Tasks, answer: Option<String>, tls: Option<TlsAcceptor>) -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let connections = tasks.clone();
    tasks.spawn("accept", async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (answer, tls) = (answer.clone(), tls.clone());
            connections.spawn("answer", async move {
                if let Some(tls) = tls {
                    return drop(tls.accept(stream).await);
                }
                let mut head = [0; 64 * 1024];
                let _read = stream.read(&mut head).await;
                match answer {
                    Some(answer) => drop(stream.write_all(answer.as_bytes()).await),
                    None => std::future::pending().await,
                }
            });
        }
    });
    Ok(format!("{scheme}://{address}"))
}

/// A certificate for 127.0.0.1, and an acceptor with it.
fn certificate(is_expired: bool) -> anyhow::Result<(String, TlsAcceptor)> {
    let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
    if is_expired {
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(2021, 1, 1));
    }
    let key = rcgen::KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())?;
    Ok((certificate.pem(), TlsAcceptor::from(Arc::new(config))))
}

fn kubeconfig(path: &Path, server: &str, ca: Option<&str>) -> anyhow::Result<()> {
    let ca = ca.map_or(String::new(), |ca| format!(", certificate-authority: {ca}"));
    let text = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: \"{server}\"{ca}}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\ncontexts: [{{name: of-the-test, context: {{cluster: c, user: u}}}}]\n\
         current-context: of-the-test\n"
    );
    Ok(std::fs::write(path, text)?)
}

#[tokio::test]
async fn every_verb_says_which_control_plane_it_asked_and_what_to_do() -> anyhow::Result<()> {
    let (folder, tasks) = (tempfile::tempdir()?, Tasks::new("test"));
    let (ours, expired) = (certificate(false)?, certificate(true)?);
    let pem = |name: &str, text: &str| -> anyhow::Result<String> {
        let path = folder.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    };
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        format!("http://{}", listener.local_addr()?)
    };
    let causes = [
        ("down", closed, None, "did not answer"),
        ("no-name", "http://no-such-host.invalid:6443".to_owned(), None, "did not answer"),
        ("401", serve(&tasks, Some(status(401, "Unauthorized")), None).await?, None, "did not accept the credentials"),
        (
            "404",
            serve(&tasks, Some(answer(404, "text/plain", "404 page not found\n")), None).await?,
            None,
            "is no control plane",
        ),
        ("hangs", serve(&tasks, None, None).await?, None, "did not answer in time"),
        ("untrusted", serve(&tasks, None, Some(ours.1)).await?, Some(pem("other.pem", &expired.0)?), "does not trust"),
        ("expired", serve(&tasks, None, Some(expired.1)).await?, Some(pem("expired.pem", &expired.0)?), "not in time"),
    ];
    let mut wrong = Vec::new();
    for (cause, server, ca, want) in causes {
        let path = folder.path().join(format!("{cause}.yaml"));
        kubeconfig(&path, &server, ca.as_deref())?;
        let file = path.display().to_string();
        for verb in VERBS {
            let args = [verb, &["--kubeconfig", &file, "--request-timeout", "500ms"]].concat();
            let run = ironclad(args).await.with_context(|| format!("{cause}: {verb:?}"))?;
            if (cause, verb) == ("404", &["sim", "list"]) {
                // A control plane of `run` has none either.
                assert!(
                    run.stderr.contains("no simulated members") && run.stderr.contains("\n  try: "),
                    "{}",
                    run.stderr
                );
                continue;
            }
            let names = [server.as_str(), file.as_str(), "context of-the-test", want, "\n  try: "];
            if run.code == Some(0) || names.iter().any(|name| !run.stderr.contains(name)) {
                wrong.push(format!("{cause}: {verb:?}: {:?} {}", run.code, run.stderr));
            }
        }
    }
    anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[tokio::test]
async fn who_may_not_is_told_so_in_the_servers_words() -> anyhow::Result<()> {
    let (folder, tasks) = (tempfile::tempdir()?, Tasks::new("test"));
    let path = folder.path().join("403.yaml");
    kubeconfig(&path, &serve(&tasks, Some(status(403, "Forbidden")), None).await?, None)?;
    let file = path.display().to_string();
    for verb in [&["get", "clusters"][..], &["cordon", "member1"], &["failover", "pause"], &["tree", "deploy/web"]] {
        let run = ironclad([verb, &["--kubeconfig", &file]].concat()).await?;
        assert!(run.stderr.contains("Forbidden of the test"), "{verb:?}: {}", run.stderr);
        assert!(run.stderr.contains(&file) && run.stderr.contains("\n  try: "), "{verb:?}: {}", run.stderr);
    }
    Ok(())
}
