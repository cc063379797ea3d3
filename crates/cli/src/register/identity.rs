//! Check that the name in the control plane is that of this member.

use ironclad_api::cluster::{Cluster, SyncMode};
use ironclad_runtime::Api;
use kube::Client;

use super::RegisterError;
use crate::join;

/// The owner of a cluster's name, and the identity of the control plane.
pub(super) struct Owner {
    cluster: Option<Cluster>,
    plane: Option<String>,
}

/// Asks the control plane. Agents and those who make their rights may.
pub(super) async fn read(plane: &Client, cluster: &str) -> Result<Owner, kube::Error> {
    let found = Api::<Cluster>::all(plane.clone()).get_opt(cluster).await?;
    Ok(Owner { cluster: found, plane: join::identity(plane).await? })
}

impl Owner {
    /// Refuses a name that another cluster than the one of this identity has, or the control plane as its own member.
    pub(super) fn refuse(&self, cluster: &str, id: Option<&str>) -> Result<(), RegisterError> {
        let (cluster, Some(id)) = (cluster.to_owned(), id) else { return Ok(()) };
        if self.plane.as_deref() == Some(id) {
            return Err(RegisterError::Itself { cluster, id: id.to_owned() });
        }
        let Some(found) = &self.cluster else { return Ok(()) };
        if found.spec.sync_mode == SyncMode::Push {
            return Err(RegisterError::Push { cluster });
        }
        if !found.spec.id.is_empty() && found.spec.id != id {
            return Err(RegisterError::NameTaken { cluster, id: found.spec.id.clone(), own: id.to_owned() });
        }
        Ok(())
    }
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
            let owner = Owner { cluster: found, plane: Some(plane.to_owned()) };
            let got = owner.refuse("m1", Some("1")).err();
            assert_eq!(got.is_some(), got.as_ref().is_some_and(RegisterError::refuses_the_name), "{name}");
            let got = got.map(|error| error.to_string()).unwrap_or_default();
            assert!(got.contains(want) && got.is_empty() == want.is_empty(), "{name}: {got}");
            assert!(owner.refuse("m1", None).is_ok(), "{name}: without an identity nothing is known");
        }
    }
}
