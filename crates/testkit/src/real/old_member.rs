//! A member with the oldest Kubernetes that is supported: its kube-apiserver, with the other programs of the pinned
//! one.

use std::path::Path;

use anyhow::Context as _;
use tempfile::TempDir;

use super::{
    Binaries, Cluster, Kubectl,
    cluster::Role,
    etcd::{Etcd, Syncs},
    process::Sweeper,
};

/// A running member. Dropping it kills every program and removes every file.
#[derive(Debug)]
pub struct OldMember {
    // Drop order: the server before its etcd, programs before the files that they write.
    cluster: Cluster,
    _etcd: Etcd,
    directory: TempDir,
    _sweeper: Sweeper,
    binaries: Binaries,
}

impl OldMember {
    /// Starts the member and waits until it makes accounts; `None`, noted as skipped, if its kube-apiserver is not
    /// built.
    pub async fn start() -> anyhow::Result<Option<Self>> {
        let Some(with_old) = Binaries::oldest_or_skip()? else { return Ok(None) };
        let binaries = Binaries::find()?;
        let directory = tempfile::Builder::new().prefix("ironclad-old-").tempdir().context("a temporary directory")?;
        let sweeper = Sweeper::start(directory.path())?;
        let etcd = Etcd::start(&binaries, directory.path(), Syncs::Never).await?;
        let (name, url) = ("old".to_owned(), etcd.url());
        let cluster = Cluster::start(&with_old, name, Role::Unscheduled, &url, directory.path()).await?;
        Ok(Some(Self { cluster, _etcd: etcd, directory, _sweeper: sweeper, binaries }))
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// kubectl for another server by its kubeconfig.
    pub fn kubectl(&self, kubeconfig: &Path) -> Kubectl {
        Kubectl::new(&self.binaries, kubeconfig, self.directory.path())
    }
}
