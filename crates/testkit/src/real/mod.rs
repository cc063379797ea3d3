//! Real Kubernetes for tests, without containers: a control plane and members on loopback, each a real kube-apiserver
//! with controllers, scheduler and kubelets, and one etcd for all.
//!
//! Everything that is started here ends with the [`RealEnv`], and with the test process even if that is killed; nothing
//! is left behind in the file system. It installs nothing of Ironclad: the tests do that.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use ironclad_testkit::real::{Config, RealEnv};
//! let Some(env) = RealEnv::start_or_skip(Config { members: 2, ..Config::default() }).await? else { return Ok(()) };
//! env.plane().kubectl().run(["get", "namespaces"]).await?;
//! println!("{}", env.member(0).kubeconfig().display());
//! # Ok(())
//! # }
//! ```

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tempfile::TempDir;

pub use self::{
    account::as_account,
    bare::Bare,
    binaries::{Binaries, Missing, QUICK_VARIABLE, SKIPPED_VARIABLE, browser_or_skip},
    cluster::Cluster,
    kubectl::{Kubectl, Output, Running},
    metrics_api::{CPU, MetricsAnswers, MetricsApi, MetricsServer, Mood, QPS},
    nodes::NodeShape,
    old_member::OldMember,
    port::free_port,
    wait::until,
};
use self::{
    cluster::{MemberRole, Role},
    etcd::{Etcd, Syncs},
    process::{Process, Spec, Sweeper},
};

mod account;
mod bare;
mod binaries;
mod cluster;
mod etcd;
mod kubectl;
mod metrics_api;
mod nodes;
mod old_member;
mod pki;
mod port;
mod process;
mod wait;

/// Concurrent starts: two are fastest on two cores.
const STARTED_AT_ONCE: usize = 2;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Set for a control plane: a cluster whose kube-controller-manager starts no workloads.
    pub plane: bool,
    /// Number of members; two cores can run ten.
    pub members: usize,
    pub nodes: NodeShape,
    /// Further flags of the members' kube-controller-managers.
    pub manager_flags: Vec<String>,
    /// Further flags of the members' kube-apiservers.
    pub api_server_flags: Vec<String>,
}

impl Default for Config {
    /// A control plane and two members of two nodes.
    fn default() -> Self {
        Self {
            plane: true,
            members: 2,
            nodes: NodeShape::default(),
            manager_flags: Vec::new(),
            api_server_flags: Vec::new(),
        }
    }
}

/// A running environment. Dropping it kills every program by its process id and removes every file.
#[derive(Debug)]
pub struct RealEnv {
    // Drop order: clients before servers, servers before their etcd, programs before the files that they write.
    programs: Vec<Process>,
    plane: Option<Cluster>,
    members: Vec<Cluster>,
    etcd: Etcd,
    directory: TempDir,
    _sweeper: Sweeper,
    binaries: Binaries,
}

impl RealEnv {
    /// Starts it and waits until all parts are ready.
    pub async fn start(config: Config) -> anyhow::Result<Self> {
        Self::start_with(Binaries::find()?, config).await
    }

    /// Like [`RealEnv::start`]; where the programs are missing because Go is, notes the test as skipped and
    /// returns `None`.
    pub async fn start_or_skip(config: Config) -> anyhow::Result<Option<Self>> {
        match Binaries::find_or_skip()? {
            Some(binaries) => Self::start_with(binaries, config).await.map(Some),
            None => Ok(None),
        }
    }

    async fn start_with(binaries: Binaries, config: Config) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("ironclad-real-").tempdir().context("a temporary directory")?;
        let sweeper = Sweeper::start(directory.path())?;
        let etcd = Etcd::start(&binaries, directory.path(), Syncs::Never).await?;
        let url = etcd.url();
        let plane = config.plane.then(|| ("plane".to_owned(), Role::Plane));
        let member = || {
            Role::Member(MemberRole {
                nodes: config.nodes.clone(),
                manager_flags: config.manager_flags.clone(),
                api_server_flags: config.api_server_flags.clone(),
            })
        };
        let members = (1..=config.members).map(|number| (format!("member{number}"), member()));
        let mut clusters: Vec<Cluster> = stream::iter(plane.into_iter().chain(members))
            .map(|(name, role)| Cluster::start(&binaries, name, role, &url, directory.path()))
            .buffered(STARTED_AT_ONCE)
            .try_collect()
            .await?;
        let plane = config.plane.then(|| clusters.remove(0));
        Ok(Self { programs: Vec::new(), plane, members: clusters, etcd, directory, _sweeper: sweeper, binaries })
    }

    pub fn plane(&self) -> &Cluster {
        self.plane.as_ref().expect("this environment was started with Config { plane: true }")
    }

    pub fn members(&self) -> &[Cluster] {
        &self.members
    }

    /// Returns a member by index: `member(0)` is `member1`.
    pub fn member(&self, index: usize) -> &Cluster {
        &self.members[index]
    }

    /// kubectl for any other server by its kubeconfig.
    pub fn kubectl(&self, kubeconfig: &Path) -> Kubectl {
        Kubectl::new(&self.binaries, kubeconfig, self.directory.path())
    }

    /// Starts another program, which ends with the environment. Its log, `NAME.log`, is in `directory`, which is its
    /// home, too; one of an earlier run is replaced.
    pub fn start_program<I: IntoIterator<Item: AsRef<OsStr>>>(
        &mut self,
        name: &str,
        program: &Path,
        arguments: I,
        directory: &Path,
    ) -> anyhow::Result<()> {
        let arguments = arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        let log = directory.join(format!("{name}.log"));
        std::fs::write(&log, "").with_context(|| log.display().to_string())?;
        let (name, program, directory) = (name.to_owned(), program.to_owned(), directory.to_owned());
        self.programs.push(Process::start(&Spec { name, program, arguments, directory })?);
        Ok(())
    }

    /// Directory for files of a test, removed with the environment.
    pub fn directory(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    /// The name and process id of every program: `etcd`, `plane/kube-apiserver`, `member1/kwok` ….
    pub fn processes(&self) -> Vec<(String, u32)> {
        let etcd = (self.etcd.process.name().to_owned(), self.etcd.process.id());
        let clusters = self.plane.iter().chain(&self.members).flat_map(Cluster::processes);
        let programs = self.programs.iter().map(|program| (program.name().to_owned(), program.id()));
        std::iter::once(etcd).chain(clusters).chain(programs).collect()
    }
}
