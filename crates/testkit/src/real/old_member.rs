//! A member with the oldest Kubernetes that is supported: its kube-apiserver, with the other programs of the pinned
//! one.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use tempfile::TempDir;

use super::{
    Binaries, Cluster, Kubectl,
    cluster::Role,
    etcd::{Etcd, Syncs},
    process::Sweeper,
};

/// Variable with the kube-apiserver of the oldest Kubernetes, set by `cargo xtask oldest-kubernetes`.
pub const OLDEST_VARIABLE: &str = "IRONCLAD_OLDEST_API_SERVER";

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
    /// Starts the member and waits until it makes accounts; `None` unless the variable names its kube-apiserver.
    pub async fn start() -> anyhow::Result<Option<Self>> {
        let Some(program) = env::var_os(OLDEST_VARIABLE).map(PathBuf::from) else { return Ok(None) };
        let binaries = Binaries::find()?;
        let directory = tempfile::Builder::new().prefix("ironclad-old-").tempdir().context("a temporary directory")?;
        let sweeper = Sweeper::start(directory.path())?;
        let etcd = Etcd::start(&binaries, directory.path(), Syncs::Never).await?;
        let (name, url) = ("old".to_owned(), etcd.url());
        let with_old = binaries.clone().with_api_server(program);
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
