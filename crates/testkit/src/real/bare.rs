//! One kube-apiserver and its own etcd with fsync, as a baseline for measurements.

use std::time::Duration;

use anyhow::Context as _;
use ironclad_seam::Clock;
use tempfile::TempDir;

use super::{
    Binaries, Cluster,
    etcd::{Etcd, Syncs},
    pki::Authority,
    process::Sweeper,
};

#[derive(Debug)]
pub struct Bare {
    // Drop order: the server before its etcd, programs before the files that they write.
    cluster: Cluster,
    etcd: Etcd,
    _directory: TempDir,
    _sweeper: Sweeper,
    ready_after: Duration,
}

impl Bare {
    /// Starts both and waits until the API server is ready. Certificates are created before the clock starts.
    pub async fn start(clock: &Clock) -> anyhow::Result<Self> {
        let binaries = Binaries::find()?;
        let directory = tempfile::Builder::new().prefix("ironclad-bare-").tempdir().context("a temporary directory")?;
        let sweeper = Sweeper::start(directory.path())?;
        let authority = Authority::make(directory.path()).context("certificates")?;
        let began = clock.mono();
        let etcd = Etcd::start(&binaries, directory.path(), Syncs::Always).await?;
        let (name, url, place) = ("plane".to_owned(), etcd.url(), directory.path().to_owned());
        let cluster = Cluster::start_api_server_anywhere(&binaries, name, &url, place, &authority, &[]).await?;
        let ready_after = clock.mono() - began;
        Ok(Self { cluster, etcd, _directory: directory, _sweeper: sweeper, ready_after })
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Time from the start of etcd until the API server was ready.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    pub fn process_ids(&self) -> Vec<u32> {
        let server = self.cluster.processes().into_iter().map(|(_, id)| id);
        std::iter::once(self.etcd.process.id()).chain(server).collect()
    }
}
