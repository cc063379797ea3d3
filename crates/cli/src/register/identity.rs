//! Check with an agent's credentials that the name in the control plane is that of this member.

use std::time::Duration;

use ironclad_api::cluster::{Cluster, SyncMode};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use kube::{Client, config::Kubeconfig};

use super::RegisterError;
use crate::{connect, join};

/// Interval between looks whether the agent has its rights.
const LOOK: Duration = Duration::from_millis(500);
/// Time in which the control plane makes the rights of an agent whose certificate it signed.
const RIGHTS_WITHIN: Duration = Duration::from_secs(15);

/// Refuses a name that another cluster has, or the control plane as its own member. If the control plane does not
/// permit the question in time, the agent asks it again when it starts.
pub(super) async fn check(kubeconfig: &str, cluster: &str, id: &str, clock: &Clock) -> anyhow::Result<()> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    let plane = connect::client(connect::config(kubeconfig, None, "control plane").await?)?;
    let deadline = clock.mono() + RIGHTS_WITHIN;
    loop {
        match read(&plane, cluster).await {
            Ok((found, plane_id)) => return Ok(refuse(found.as_ref(), plane_id.as_deref(), cluster, id)?),
            Err(error) if clock.mono() >= deadline => {
                tracing::debug!(cluster, %error, "the agent could not ask who has its name");
                return Ok(());
            }
            Err(_) => clock.sleep(LOOK).await,
        }
    }
}

async fn read(plane: &Client, cluster: &str) -> Result<(Option<Cluster>, Option<String>), kube::Error> {
    let found = Api::<Cluster>::all(plane.clone()).get_opt(cluster).await?;
    Ok((found, join::identity(plane).await?))
}

fn refuse(found: Option<&Cluster>, plane: Option<&str>, cluster: &str, id: &str) -> Result<(), RegisterError> {
    let cluster = cluster.to_owned();
    if plane == Some(id) {
        return Err(RegisterError::Itself { cluster, id: id.to_owned() });
    }
    let Some(found) = found else { return Ok(()) };
    if found.spec.sync_mode == SyncMode::Push {
        return Err(RegisterError::Push { cluster });
    }
    if !found.spec.id.is_empty() && found.spec.id != id {
        return Err(RegisterError::NameTaken { cluster, id: found.spec.id.clone(), own: id.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ironclad_api::cluster::ClusterSpec;

    use super::*;

    #[test]
    fn names_belong_to_one_member() {
        let cluster = |id: &str, sync_mode: SyncMode| {
            Cluster::new("m1", ClusterSpec { id: id.into(), sync_mode, ..ClusterSpec::default() })
        };
        for (name, found, plane, want) in [
            ("new", None, "plane", ""),
            ("again", Some(cluster("1", SyncMode::Pull)), "plane", ""),
            ("without an identity yet", Some(cluster("", SyncMode::Pull)), "plane", ""),
            ("another member", Some(cluster("2", SyncMode::Pull)), "plane", "another identity (2, not 1)"),
            ("joined in push mode", Some(cluster("1", SyncMode::Push)), "plane", "push mode"),
            ("the control plane", None, "1", "the control plane itself"),
        ] {
            let got = refuse(found.as_ref(), Some(plane), "m1", "1").err().map(|error| error.to_string());
            let got = got.unwrap_or_default();
            assert!(got.contains(want) && got.is_empty() == want.is_empty(), "{name}: {got}");
        }
    }
}
