//! One running member: a server on a port that is chosen once and kept (specification/operations.md 7.2).

use std::{net::SocketAddr, path::PathBuf};

use anyhow::Context as _;
use ironclad_api::sim::SimulatedCluster;
use ironclad_apiserver::pki;
use ironclad_kubecontrollers::AutoscalingOptions;
use ironclad_seam::Seam;
use ironclad_simcluster::{Member, MemberOptions};
use ironclad_store::{Engine, Op, Options as StoreOptions, Query, Store};
use kube::ResourceExt as _;
use tokio::net::TcpListener;

use super::decide::MemberConfig;

/// Keys of a deleted member that one transaction deletes.
const WIPED_AT_ONCE: usize = 256;

/// Shared environment of members.
pub(super) struct Environment {
    pub(super) engine: Engine,
    pub(super) seam: Seam,
    pub(super) data_dir: PathBuf,
    pub(super) address: std::net::IpAddr,
    /// Flags of the members' HorizontalPodAutoscalers.
    pub(super) autoscaling: AutoscalingOptions,
}

/// One running member.
pub(crate) struct SimulatedMember {
    /// Its name, also in the kubeconfig.
    pub name: String,
    /// `https://ADDRESS:PORT`.
    pub endpoint: String,
    /// Its certificates and keys.
    pub pki: pki::Pki,
    pub(super) member: Member,
    store: Store,
}

impl Environment {
    fn pki_dir(&self, name: &str) -> PathBuf {
        self.data_dir.join("pki").join("members").join(name)
    }

    fn store(&self, name: &str) -> Store {
        // Use a prefix: a member may have the name of the control plane's store.
        self.engine.store_with(&format!("member/{name}"), StoreOptions::member())
    }

    /// Starts the member; `life` distinguishes it from earlier ones of that name in this process.
    pub(super) async fn start(
        &self,
        simulated: &SimulatedCluster,
        wanted: &MemberConfig,
        life: u64,
    ) -> anyhow::Result<SimulatedMember> {
        let name = simulated.name_any();
        let kept = simulated.status.as_ref().and_then(|s| s.endpoint.rsplit(':').next()?.parse::<u16>().ok());
        let bind = |port| TcpListener::bind(SocketAddr::new(self.address, port));
        let listener = match bind(kept.unwrap_or(0)).await {
            Err(error) if kept.is_some() => {
                tracing::warn!(member = %name, %error, port = kept, "the member's port is in use: it gets another one");
                bind(0).await
            }
            bound => bound,
        };
        let listener = listener.with_context(|| format!("listening on {} for the member {name}", self.address))?;
        let address = listener.local_addr()?;
        let endpoint = crate::up::endpoint(address, &[]);
        // A later life draws other uids.
        let seam = self.seam.child(&if life == 0 { name.clone() } else { format!("{name}-{life}") });
        let pki = pki::Pki::load_or_create_for(
            &self.pki_dir(&name),
            &seam,
            &name,
            &crate::up::certified_hosts(address.ip(), &[]),
        )?;
        let options = MemberOptions {
            name: name.clone(),
            shape: wanted.shape.clone(),
            startup_delay: wanted.times.startup_delay,
            termination_delay: wanted.times.termination_delay,
            run_time: wanted.times.run_time,
            root_certificate: Some(pki.ca().to_owned()),
            authority: Some(pki.authority().clone()),
            token_key: Some(pki.token_key().clone()),
            usage: wanted.usage.clone(),
            autoscaling: self.autoscaling.clone(),
        };
        let store = self.store(&name);
        let member = Member::start(options, store.clone(), seam).await?;
        member.set_faults(wanted.faults.clone());
        member.serve(listener.into_std()?, pki.server_config()?)?;
        Ok(SimulatedMember { name, endpoint, pki, member, store })
    }

    /// Removes what a member stored.
    pub(super) async fn wipe(&self, name: &str, member: Option<&SimulatedMember>) -> anyhow::Result<()> {
        if let Some(member) = member {
            member.member.end();
        }
        let store = member.map_or_else(|| self.store(name), |m| m.store.clone());
        let keys: Vec<_> = store.range(&Query::prefix(""))?.entries.iter().map(|(key, _)| key.clone()).collect();
        for some in keys.chunks(WIPED_AT_ONCE) {
            store.txn(vec![], some.iter().cloned().map(Op::delete).collect()).await?;
        }
        match std::fs::remove_dir_all(self.pki_dir(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(anyhow::Error::new(error).context(format!("removing the certificates of {name}")))
            }
            _ => Ok(()),
        }
    }
}

impl SimulatedMember {
    /// Runs like this from now on.
    pub(super) fn follow(&self, wanted: &MemberConfig) {
        self.member.reshape(wanted.shape.clone());
        self.member.set_usage(wanted.usage.clone());
        self.member.set_times(wanted.times);
        self.member.set_faults(wanted.faults.clone());
    }
}
