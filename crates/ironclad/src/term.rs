//! Controllers of one term of leadership: of `run` and of `up`.

use std::{sync::Arc, time::Duration};

use ironclad_api::namespaces;
use ironclad_controllers::{Controllers, NetworkBackends, Settings};
use ironclad_failover::taint_manager::OLD_REPORT_CONFIG_MAP;
use ironclad_members::Connections;
use ironclad_planning::announcement::LeaseName;
use ironclad_runtime::Api;
use ironclad_runtime::leader::{Fence, fenced};
use ironclad_seam::Seam;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, api::DeleteParams};

/// Time between two attempts to remove an object of older versions.
const RETRY: Duration = Duration::from_secs(30);

/// State of the present term; empty while this process is not the leader.
pub(crate) type Present<T> = Arc<parking_lot::Mutex<Option<Arc<T>>>>;

/// Client, members and settings of controllers, the same for each term.
#[derive(Clone)]
pub(crate) struct Parts {
    /// Client of the control plane; its writes pass only while this process leads.
    pub(crate) writer: Client,
    pub(crate) members: Connections,
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
        members: &Connections,
        settings: Settings,
        fence: Option<Fence>,
        present: Present<Controllers>,
        announces: Option<Announces>,
    ) -> Self {
        let writer = match &fence {
            Some(fence) => fenced(client, fence.clone()),
            None => client,
        };
        Self { writer, members: members.fenced(fence), settings, present, announces }
    }

    /// Starts the controllers as tasks of this term once `ready` has ended, and calls `started` when their caches are
    /// filled.
    pub(crate) fn begin(
        &self,
        term: Seam,
        ready: impl Future<Output = ()> + Send + 'static,
        started: impl FnOnce() + Send + 'static,
    ) -> Work {
        let (writer, members, settings) = (self.writer.clone(), self.members.clone(), self.settings.clone());
        let controllers = Controllers::new(writer, term.clone(), members, Arc::new(NetworkBackends), settings);
        if let Some(leads) = self.announces.clone() {
            controllers.announce(leads);
        }
        let (writer, clock) = (self.writer.clone(), term.clock.clone());
        term.tasks.spawn("older versions", async move {
            while let Err(error) = remove_old_report(&writer).await {
                tracing::debug!(%error, "the ConfigMap of an older version was not removed");
                clock.sleep(RETRY).await;
            }
        });
        Work::begin(&self.present, controllers, &term, ready, started)
    }
}

/// Removes the ConfigMap in which leaders of older versions reported their queue of evictions: it is out of date.
async fn remove_old_report(writer: &Client) -> Result<(), kube::Error> {
    let maps: Api<ConfigMap> = Api::namespaced(writer.clone(), namespaces::SYSTEM);
    match maps.delete(OLD_REPORT_CONFIG_MAP, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        done => done.map(drop),
    }
}

/// Running controllers of a leader; dropped at the end of its term.
pub(crate) struct Work(Present<Controllers>);

impl Work {
    /// Starts these controllers as tasks of a term once `ready` has ended, and calls `started` when their caches are
    /// filled.
    pub(crate) fn begin(
        present: &Present<Controllers>,
        controllers: Arc<Controllers>,
        term: &Seam,
        ready: impl Future<Output = ()> + Send + 'static,
        started: impl FnOnce() + Send + 'static,
    ) -> Self {
        *present.lock() = Some(controllers.clone());
        term.tasks.spawn("start", async move {
            ready.await;
            controllers.start().await;
            started();
        });
        Self(present.clone())
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}
