//! The agent's side of a cluster in pull mode: its Cluster (specification/operations.md 8.2, 10.3).

use ironclad_api::cluster::{Cluster, ClusterSpec, SyncMode};

/// Facts that an agent publishes about its member. Empty ones leave what the Cluster has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Registration {
    /// Name of the Cluster.
    pub name: String,
    /// Unique id of the member.
    pub id: String,
    /// `--cluster-api-endpoint`.
    pub api_endpoint: String,
    /// `--proxy-server-address`.
    pub proxy_url: String,
    /// `--cluster-provider`.
    pub provider: String,
    /// `--cluster-region`.
    pub region: String,
    /// `--cluster-zones`.
    pub zones: Vec<String>,
}

/// Reason why an agent may not serve under a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The Cluster is of another member.
    #[error(
        "cluster {name} is another member (id {theirs}, this one has {ours})\n  try: another --cluster-name, or `ironclad unregister {name}` at that member"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// Id in the Cluster.
        theirs: String,
        /// Id of this member.
        ours: String,
    },
    /// The member has another Cluster.
    #[error(
        "this member (id {id}) is cluster {other} already\n  try: --cluster-name {other}, or `ironclad unregister {other}`"
    )]
    RegisteredAs {
        /// Id of this member.
        id: String,
        /// The other Cluster.
        other: String,
    },
    /// The control plane connects to the member itself.
    #[error(
        "cluster {name} is in push mode: the control plane itself serves it\n  try: kubectl patch cluster {name} --type=merge \
         -p '{{\"spec\":{{\"syncMode\":\"Pull\"}}}}' first; what runs there stays"
    )]
    Push {
        /// The name.
        name: String,
    },
    /// The Cluster is being deleted.
    #[error("cluster {name} is being deleted\n  try: again when it is gone")]
    Leaving {
        /// The name.
        name: String,
    },
}

/// The Cluster as it is to be written; `None` if it is so already.
///
/// # Errors
/// If the Cluster of this name is not this member's, or not in pull mode.
pub fn registered(present: Option<&Cluster>, wanted: &Registration) -> Result<Option<Cluster>, Refusal> {
    let name = || wanted.name.clone();
    let mut cluster = match present {
        None => Cluster::new(
            &wanted.name,
            ClusterSpec { sync_mode: SyncMode::Pull, id: wanted.id.clone(), ..ClusterSpec::default() },
        ),
        Some(present) if present.metadata.deletion_timestamp.is_some() => {
            return Err(Refusal::Leaving { name: name() });
        }
        Some(present) if present.spec.sync_mode == SyncMode::Push => return Err(Refusal::Push { name: name() }),
        Some(present) if !present.spec.id.is_empty() && present.spec.id != wanted.id => {
            return Err(Refusal::NameTaken { name: name(), theirs: present.spec.id.clone(), ours: wanted.id.clone() });
        }
        Some(present) => present.clone(),
    };
    let spec = &mut cluster.spec;
    for (field, value) in [
        (&mut spec.id, &wanted.id),
        (&mut spec.api_endpoint, &wanted.api_endpoint),
        (&mut spec.proxy_url, &wanted.proxy_url),
        (&mut spec.provider, &wanted.provider),
        (&mut spec.region, &wanted.region),
    ] {
        if !value.is_empty() {
            field.clone_from(value);
        }
    }
    if !wanted.zones.is_empty() {
        spec.zones.clone_from(&wanted.zones);
    }
    Ok(Some(cluster).filter(|cluster| present.is_none_or(|present| present.spec != cluster.spec)))
}

/// True if the agent of this Cluster is to serve the member: somebody may have changed its mode.
#[must_use]
pub fn serves(cluster: &Cluster) -> bool {
    cluster.spec.sync_mode == SyncMode::Pull
}

/// Checks that none of these Clusters is this member under another name.
///
/// # Errors
/// If one is.
pub fn refuse_other_names<'a>(
    clusters: impl IntoIterator<Item = &'a Cluster>,
    wanted: &Registration,
) -> Result<(), Refusal> {
    let is_same = |cluster: &&Cluster| {
        !wanted.id.is_empty() && cluster.spec.id == wanted.id && cluster.metadata.name.as_deref() != Some(&*wanted.name)
    };
    match clusters.into_iter().find(is_same) {
        Some(other) => {
            Err(Refusal::RegisteredAs { id: wanted.id.clone(), other: other.metadata.name.clone().unwrap_or_default() })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use ironclad_api::Time;

    use super::*;
    use crate::testkit::at;

    fn wanted() -> Registration {
        Registration { name: "m1".into(), id: "1".into(), region: "north".into(), ..Registration::default() }
    }

    fn cluster(change: impl FnOnce(&mut Cluster)) -> Cluster {
        let mut cluster = registered(None, &wanted()).unwrap().unwrap();
        change(&mut cluster);
        cluster
    }

    #[test]
    fn an_agent_writes_its_cluster_once() {
        let made = cluster(|_| ());
        assert_eq!((made.spec.sync_mode, &*made.spec.id, &*made.spec.region), (SyncMode::Pull, "1", "north"));
        for (name, present, want) in [
            ("as it is to be", cluster(|_| ()), Ok(false)),
            ("with taints and more", cluster(|c| c.spec.provider = "p".into()), Ok(false)),
            ("of another region", cluster(|c| c.spec.region = "south".into()), Ok(true)),
            ("without an id", cluster(|c| c.spec.id.clear()), Ok(true)),
            ("another member", cluster(|c| c.spec.id = "2".into()), Err("another member (id 2, this one has 1)")),
            ("in push mode", cluster(|c| c.spec.sync_mode = SyncMode::Push), Err("in push mode")),
            ("being deleted", cluster(|c| c.metadata.deletion_timestamp = Some(Time(at(0)))), Err("is being deleted")),
        ] {
            let got = registered(Some(&present), &wanted()).map(|written| written.is_some()).map_err(|e| e.to_string());
            match (got, want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{name}"),
                (Err(got), Err(want)) => assert!(got.contains(want), "{name}: {got}"),
                (got, want) => panic!("{name}: {got:?} and not {want:?}"),
            }
        }
    }

    #[test]
    fn a_member_has_one_name() {
        let other = |name: &str, id: &str| cluster(|c| (c.metadata.name, c.spec.id) = (Some(name.into()), id.into()));
        assert_eq!(refuse_other_names(&[other("m1", "1"), other("m2", "2"), other("m3", "")], &wanted()), Ok(()));
        let refused = refuse_other_names(&[other("m2", "1")], &wanted());
        assert_eq!(refused, Err(Refusal::RegisteredAs { id: "1".into(), other: "m2".into() }));
    }
}
