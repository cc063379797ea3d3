//! The embedded server on a port, with the controllers of a control plane.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ironclad_apiserver::{Identity, Options, Server, pki};
use ironclad_extension::NetworkCaller;
use ironclad_kubecontrollers::{self as kubecontrollers, Cluster, Controller};
use ironclad_runtime::in_process_client;
use ironclad_seam::Seam;
use ironclad_store::{Commit, Engine, MemoryBackend};
use tokio::net::TcpListener;

#[derive(Debug)]
pub struct Ours {
    seam: Seam,
    kubeconfig: PathBuf,
}

impl Ours {
    pub async fn start(directory: &Path) -> anyhow::Result<Self> {
        let seam = Seam::system("differential");
        let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Thread, seam.clock.clone())?;
        let plane = seam.child("plane");
        let pki = pki::Pki::load_or_create(&directory.join("pki"), &plane, "plane")?;
        let listener = TcpListener::bind("127.0.0.1:0").await.context("a port")?;
        let url = format!("https://{}", listener.local_addr()?);
        let options = Options {
            external_url: Some(url.clone()),
            webhooks: Some(std::sync::Arc::new(NetworkCaller::default())),
            token_key: Some(pki.token_key().clone()),
            api_services: true,
            ..Options::default()
        };
        let server = Server::open(options, engine.store("plane"), plane.clone()).await?;
        let kubeconfig = directory.join("kubeconfig");
        let text = pki::kubeconfig(&[pki.admin_context("plane", &url)]);
        pki::write_private(&kubeconfig, text.as_bytes())?;
        let (serving, tls) = (server.clone(), pki.server_config()?);
        plane.tasks.spawn("serve", async move {
            if let Err(error) = serving.serve(listener, tls).await {
                tracing::error!(%error, "the API listener ended");
            }
        });
        let client = in_process_client(
            server.in_process(Identity::admin("system:kube-controller-manager")),
            std::sync::Arc::default(),
        );
        let cluster = Cluster::new(client, seam.child("controllers"));
        let options = kubecontrollers::Options {
            // The real control plane has none for quotas either: scenarios write their status themselves.
            controllers: Controller::PLANE.into_iter().filter(|c| *c != Controller::ResourceQuota).collect(),
            root_certificate: Some(pki.ca().to_owned()),
            signer: Some(ironclad_simcluster::signer(pki.authority().clone())),
            ..kubecontrollers::Options::default()
        };
        kubecontrollers::start(&cluster, &options);
        cluster.start_caches();
        Ok(Self { seam, kubeconfig })
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.seam.tasks.kill();
    }
}
