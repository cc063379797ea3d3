//! Controllers of one term of leadership: of `run` and of `up`.

use std::sync::Arc;

use ironclad_api::cluster::Cluster;
use ironclad_controllers::{Connector, Controllers, Settings};
use ironclad_planning::announcement::LeaseName;
use ironclad_runtime::leader::{Fence, fenced};
use ironclad_seam::Seam;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;

/// State of the present term; empty while this process is not the leader.
pub(crate) type Present<T> = Arc<parking_lot::Mutex<Option<Arc<T>>>>;

/// Client, connector and settings of controllers, the same for each term.
#[derive(Clone)]
pub(crate) struct Parts {
    /// Client of the control plane; its writes pass only while this process leads.
    pub(crate) writer: Client,
    pub(crate) connector: Arc<FencedConnector>,
    pub(crate) settings: Settings,
    pub(crate) present: Present<Controllers>,
    /// The Lease and this process in it, if it announces its settings, which `up` serves instead.
    pub(crate) announces: Option<Announces>,
}

/// Lease by which a process leads that announces its settings; `None` without leader election.
pub(crate) type Announces = Option<(LeaseName, String)>;

impl Parts {
    /// Parts whose writes pass this fence, if there is an election.
    pub(crate) fn new(
        client: Client,
        connector: Arc<dyn Connector>,
        settings: Settings,
        fence: Option<Fence>,
        present: Present<Controllers>,
        announces: Option<Announces>,
    ) -> Self {
        let writer = match &fence {
            Some(fence) => fenced(client, fence.clone()),
            None => client,
        };
        let connector = Arc::new(FencedConnector { inner: connector, fence });
        Self { writer, connector, settings, present, announces }
    }

    /// Starts the controllers as tasks of this term, and calls `started` when their caches are filled.
    pub(crate) fn begin(&self, term: Seam, started: impl FnOnce() + Send + 'static) -> Work {
        let controllers =
            Controllers::new(self.writer.clone(), term.clone(), self.connector.clone(), self.settings.clone());
        *self.present.lock() = Some(controllers.clone());
        if let Some(leads) = self.announces.clone() {
            controllers.announce(leads);
        }
        term.tasks.spawn("start", async move {
            controllers.start().await;
            started();
        });
        Work(self.present.clone())
    }
}

/// Running controllers of a leader; dropped at the end of its term.
pub(crate) struct Work(Present<Controllers>);

impl Drop for Work {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

/// Connects members; writes get there only while this process leads.
pub(crate) struct FencedConnector {
    inner: Arc<dyn Connector>,
    fence: Option<Fence>,
}

impl Connector for FencedConnector {
    fn connect(&self, cluster: &Cluster, credentials: Option<&Secret>) -> Result<Client, String> {
        let client = self.inner.connect(cluster, credentials)?;
        Ok(match &self.fence {
            Some(fence) => fenced(client, fence.clone()),
            None => client,
        })
    }
}
