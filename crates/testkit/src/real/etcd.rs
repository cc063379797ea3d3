//! One etcd for all API servers of an environment, each with its own prefix.

use std::{ffi::OsString, fs, path::Path, time::Duration};

use anyhow::{Context as _, anyhow, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{
    binaries::Binaries,
    port,
    process::{Process, Spec},
    wait::{self, Pending},
};

const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syncs {
    /// With fsync before each answer, the default of etcd.
    Always,
    /// No fsync: data of a test need not survive a power cut.
    Never,
}

#[derive(Debug)]
pub(super) struct Etcd {
    pub(super) process: Process,
    port: u16,
}

impl Etcd {
    pub(super) async fn start(binaries: &Binaries, directory: &Path, syncs: Syncs) -> anyhow::Result<Self> {
        let mut tries = 0;
        loop {
            tries += 1;
            let mut etcd = Self::start_once(binaries, &directory.join(format!("etcd-{tries}")), syncs)?;
            let port = etcd.port;
            let process = &mut etcd.process;
            let ready = wait::poll("etcd is healthy", DEADLINE, async || {
                if let Some(status) = process.ended() {
                    return Err(Pending::Never(anyhow!("etcd ended with {status}")));
                }
                healthy(port).await.map_err(Pending::Yet)
            })
            .await;
            match ready {
                Ok(()) => return Ok(etcd),
                Err(_) if tries < port::TRIES && port::was_taken(&mut etcd.process) => {}
                Err(error) => return Err(anyhow!("{error:#}\n{}", etcd.process.log_tail())),
            }
        }
    }

    fn start_once(binaries: &Binaries, directory: &Path, syncs: Syncs) -> anyhow::Result<Self> {
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let port = port::free_port()?;
        let (client, peer) = (url(port), url(port::free_port()?));
        let mut arguments: Vec<OsString> = vec!["--data-dir".into(), directory.join("data").into()];
        for (flag, value) in [
            ("--name", "test"),
            ("--listen-client-urls", &client),
            ("--advertise-client-urls", &client),
            ("--listen-peer-urls", &peer),
            ("--initial-advertise-peer-urls", &peer),
            ("--initial-cluster", &format!("test={peer}")),
            ("--log-level", "warn"),
        ] {
            arguments.extend([flag.into(), value.into()]);
        }
        if syncs == Syncs::Never {
            arguments.push("--unsafe-no-fsync".into());
        }
        let program = binaries.program("etcd");
        let spec = Spec { name: "etcd".into(), program, arguments, directory: directory.to_owned() };
        Ok(Self { process: Process::start(&spec)?, port })
    }

    pub(super) fn url(&self) -> String {
        url(self.port)
    }
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

async fn healthy(port: u16) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    ensure!(answer.contains(r#""health":"true""#), "etcd answers {answer:?}");
    Ok(())
}
