//! The two servers that are compared.

use std::{path::PathBuf, sync::Arc, time::Duration};

use ironclad_runtime::{Traffic, client_from_kubeconfig, kubeconfig_client_config};
use ironclad_seam::Clock;
use ironclad_testkit::{binary::free_port, real::Bare};
use kube::Client;

use crate::process::{Daemon, binary, used};

pub(crate) struct Side {
    pub(super) name: &'static str,
    pub(super) ready: Duration,
    kubeconfig: PathBuf,
    processes: Vec<u32>,
    // Drop order: programs before the files that they write.
    _binary: Option<Daemon>,
    _bare: Option<Bare>,
    _directory: Option<tempfile::TempDir>,
}

impl Side {
    pub(super) fn ours(clock: &Clock) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let data = directory.path().join("data").display().to_string();
        let listen = format!("127.0.0.1:{}", free_port()?);
        let arguments =
            ["up", "--data-dir", &data, "--clusters", "0", "--listen", &listen, "--metrics-bind-address", "0"];
        let began = clock.mono();
        let daemon = Daemon::start(&binary()?, &arguments)?;
        let ready = clock.mono() - began;
        Ok(Self {
            name: "ironclad",
            ready,
            kubeconfig: directory.path().join("data/kubeconfig"),
            processes: vec![daemon.id()],
            _binary: Some(daemon),
            _bare: None,
            _directory: Some(directory),
        })
    }

    pub(super) async fn theirs(clock: &Clock) -> anyhow::Result<Self> {
        let bare = Bare::start(clock).await?;
        Ok(Self {
            name: "kube-apiserver + etcd",
            ready: bare.ready_after(),
            kubeconfig: bare.cluster().kubeconfig(),
            processes: bare.process_ids(),
            _binary: None,
            _bare: Some(bare),
            _directory: None,
        })
    }

    pub(super) async fn client(&self) -> anyhow::Result<Client> {
        let config = kubeconfig_client_config(&self.kubeconfig, None).await?;
        Ok(client_from_kubeconfig(config, Arc::new(Traffic::default()))?)
    }

    /// CPU seconds of all its processes so far.
    pub(super) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        self.processes.iter().map(|id| Ok(used(*id)?.cpu_seconds)).sum()
    }

    /// Returns resident memory of all its processes and its anonymous part, MiB.
    pub(super) fn memory(&self) -> anyhow::Result<(f64, f64)> {
        let mut sum = (0.0, 0.0);
        for id in &self.processes {
            let used = used(*id)?;
            sum = (sum.0 + used.resident_mib, sum.1 + used.own_mib);
        }
        Ok(sum)
    }
}
