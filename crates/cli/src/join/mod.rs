//! Joining a member that the control plane reaches itself (specification/operations.md 2.3, 10.1, 10.2).
//!
//! [`register`] can be repeated: what is there is left or refreshed, and the Cluster is written last. Objects that no
//! join made are never written, and a join that fails deletes what it created.

mod address;
mod changes;
pub mod command;
mod credentials;
mod objects;
pub(crate) mod ownership;
mod preflight;

use std::{collections::BTreeMap, time::Duration};

use ironclad_api::{
    cluster::{Cluster, NAME_LENGTH_MAX, SyncMode},
    namespaces,
};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Client, ResourceExt as _,
    api::{DynamicObject, ListParams},
};

pub use address::Address;
pub use credentials::Credential;
pub use objects::{Objects, Rbac, objects};
pub use preflight::Preflight;

use changes::{Change, Ledger};

use crate::write::{self, Mode, Outcome};

/// Clusters that are listed at a time.
const PAGE: u32 = 500;
/// Interval between checks whether the cluster is ready.
const LOOK: Duration = Duration::from_millis(250);
/// Longest wait for a namespace that is being deleted.
const LEAVING_MAX: Duration = Duration::from_secs(60);

/// Member to join, and options.
#[derive(Debug, Clone)]
pub struct JoinOptions {
    /// The name of the cluster.
    pub cluster: String,
    /// The namespace of credentials, in the control plane and in the member.
    pub namespace: String,
    /// Address of the member.
    pub address: Address,
    /// Credentials of the control plane in the member.
    pub credential: Credential,
    /// Permissions in the member.
    pub rbac: Rbac,
    /// Cloud provider, empty if none is to be set.
    pub provider: String,
    /// Region, empty if none is to be set.
    pub region: String,
    /// Failure zones, empty if none are to be set.
    pub zones: Vec<String>,
    /// Labels of the Cluster, empty if none are to be set.
    pub labels: BTreeMap<String, String>,
    /// Timeout until the cluster is ready; `None` does not wait.
    pub wait: Option<Duration>,
}

impl JoinOptions {
    /// The defaults for a cluster at an address.
    #[must_use]
    pub fn new(cluster: &str, address: Address) -> Self {
        Self {
            cluster: cluster.to_owned(),
            namespace: namespaces::CLUSTER.to_owned(),
            address,
            credential: Credential::Static,
            rbac: Rbac::Full,
            provider: String::new(),
            region: String::new(),
            zones: Vec::new(),
            labels: BTreeMap::new(),
            wait: None,
        }
    }
}

/// Result of a join.
#[derive(Debug, Clone)]
pub struct Joined {
    /// The Cluster as it was last seen.
    pub cluster: Cluster,
    /// True if the cluster is new.
    pub outcome: Outcome,
    /// Time at which the first of the tokens expires; `None` if they don't.
    pub expires: Option<Timestamp>,
}

/// Error of a join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The name can't be a cluster's.
    #[error(
        "cluster name {name:?} can't be used\n  because {why}\n  try: lower case letters, digits and '-', at most {NAME_LENGTH_MAX} of them"
    )]
    Name {
        /// The name.
        name: String,
        /// The problem.
        why: &'static str,
    },
    /// The name is taken by another cluster.
    #[error(
        "cluster {name} was not joined\n  because a cluster of that name with another identity ({id}) is joined already\n  \
         try: another name, or first `ironclad unjoin {name}`"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// The identity of the cluster that has it.
        id: String,
    },
    /// The member is joined under another name.
    #[error(
        "cluster {name} was not joined\n  because the same cluster ({id}) is joined already as {other}\n  \
         try: `ironclad unjoin {other}` first, or use {other}"
    )]
    JoinedAs {
        /// The name that was asked for.
        name: String,
        /// The identity of the member.
        id: String,
        /// The name it has.
        other: String,
    },
    /// The member is the control plane.
    #[error(
        "cluster {name} was not joined\n  because the member is the control plane itself (namespace kube-system has uid \
         {id} in both): its templates would be taken for copies\n  \
         try: --cluster-kubeconfig FILE of the member, or --cluster-context NAME"
    )]
    Itself {
        /// The name that was asked for.
        name: String,
        /// The identity of both.
        id: String,
    },
    /// An object that the join would write belongs to somebody else.
    #[error(
        "cluster {name} was not joined\n  because {object} in the {side} is in the way: {why}\n  \
         try: another name, or another --cluster-namespace"
    )]
    Foreign {
        /// The name that was asked for.
        name: String,
        /// Kind, namespace and name of the object.
        object: String,
        /// The server.
        side: Side,
        /// Its owner.
        why: String,
    },
    /// The join failed, and so did the deletion of what it had created.
    #[error(
        "{}\n  because it left behind {left}\n  \
         try: the same `ironclad join` again, which completes it; or delete these objects, which give rights in the member",
        failure.to_string()
    )]
    LeftBehind {
        /// The reason for which it failed.
        #[source]
        failure: Box<JoinError>,
        /// The objects.
        left: String,
    },
    /// The cluster is a pull member.
    #[error(
        "cluster {name} was not joined\n  because it is in pull mode: its agent serves it\n  \
         try: kubectl patch cluster {name} --type=merge -p '{{\"spec\":{{\"syncMode\":\"Push\"}}}}' first; what runs there stays"
    )]
    Pull {
        /// The name.
        name: String,
    },
    /// The cluster is being removed.
    #[error(
        "cluster {name} was not joined\n  because it is being removed\n  \
         try: again when `kubectl get cluster {name}` finds nothing"
    )]
    Leaving {
        /// The name.
        name: String,
    },
    /// A server has no namespace kube-system to be identified by.
    #[error(
        "cluster {name} was not joined\n  because the {side} has no namespace kube-system, whose uid identifies it"
    )]
    NoIdentity {
        /// The name.
        name: String,
        /// The server.
        side: Side,
    },
    /// The member did not fill a token Secret.
    #[error(
        "cluster {name} was not joined\n  because no token appeared in Secret {secret} of the member within {seconds} s: its \
         kube-controller-manager may not run\n  try: --credential=token"
    )]
    NoToken {
        /// The name.
        name: String,
        /// The Secret, as namespace/name.
        secret: String,
        /// Timeout.
        seconds: u64,
    },
    /// The cluster is joined but not ready.
    #[error(
        "timed out after {seconds} s waiting for cluster {name} to be ready\n  because {last}\n  \
         try: kubectl describe cluster {name}; it is joined, and `ironclad run` must be running"
    )]
    NotReady {
        /// The name.
        name: String,
        /// Timeout.
        seconds: u64,
        /// Last message of its Ready condition.
        last: String,
    },
    /// A server refused or did not answer.
    #[error("cluster {name} was not joined: {doing} in the {side}\n  try: {}", side.remedy())]
    Server {
        /// The name.
        name: String,
        /// The attempted operation.
        doing: String,
        /// The server.
        side: Side,
        /// The server's answer.
        source: Box<kube::Error>,
    },
}

/// One of the two servers of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The control plane.
    Plane,
    /// The member.
    Member,
}

impl Side {
    fn remedy(self) -> &'static str {
        match self {
            Self::Plane => {
                "--kubeconfig FILE of an administrator of the control plane, and `ironclad crds --install` if it is new"
            }
            Self::Member => "--cluster-kubeconfig FILE of an administrator of the member",
        }
    }
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plane => "control plane",
            Self::Member => "member",
        })
    }
}

/// Registers a member with the control plane; again, it refreshes credentials and address.
///
/// # Errors
/// If the name or the member is taken, an object is in the way, or a server refuses. What was created is deleted then,
/// except namespaces.
pub async fn register(
    plane: Client,
    member: Client,
    clock: &Clock,
    options: &JoinOptions,
) -> Result<Joined, JoinError> {
    check_name(&options.cluster)?;
    let join = Join { plane, member, clock, options };
    let survey = join.survey_all().await?;
    let mut ledger = Ledger::default();
    let failure = match join.carry_out(&survey, &mut ledger).await {
        Ok(joined) => return Ok(Joined { cluster: join.ready(joined.cluster).await?, ..joined }),
        // The Cluster was there before: `unjoin` removes everything.
        Err(failure) if survey.cluster.present.is_some() => return Err(failure),
        Err(failure) => failure,
    };
    match join.take_back(&ledger, &survey.plane_id).await {
        left if left.is_empty() => Err(failure),
        left => Err(JoinError::LeftBehind { failure: Box::new(failure), left: left.join(", ") }),
    }
}

/// The uid of a server's namespace kube-system, by which a cluster is known.
///
/// # Errors
/// If the server refuses or does not answer.
pub(crate) async fn identity(server: &Client) -> Result<Option<String>, kube::Error> {
    let namespaces: Api<Namespace> = Api::all(server.clone());
    Ok(namespaces.get_opt(namespaces::KUBE_SYSTEM).await?.and_then(|namespace| namespace.uid()))
}

/// Returns the error of an invalid cluster name.
///
/// # Errors
/// If it is none.
pub fn check_name(name: &str) -> Result<(), JoinError> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > NAME_LENGTH_MAX {
        "it is too long: its namespace karmada-es-NAME has to fit into 63 characters"
    } else if !name.chars().all(inner) {
        "it has a character that DNS labels don't have"
    } else if name.starts_with('-') || name.ends_with('-') {
        "it begins or ends with '-'"
    } else {
        return Ok(());
    };
    Err(JoinError::Name { name: name.to_owned(), why })
}

/// Objects that a join writes, with their existing versions.
struct Survey {
    plane_id: String,
    member: Vec<Change>,
    plane_namespace: Change,
    /// The Secrets of the control plane, still without tokens.
    secrets: Vec<Change>,
    cluster: Change,
}

/// One join that is under way.
struct Join<'a> {
    plane: Client,
    member: Client,
    clock: &'a Clock,
    options: &'a JoinOptions,
}

impl Join<'_> {
    fn client(&self, side: Side) -> &Client {
        match side {
            Side::Plane => &self.plane,
            Side::Member => &self.member,
        }
    }

    fn failed(&self, side: Side, doing: impl Into<String>) -> impl FnOnce(kube::Error) -> JoinError {
        let (name, doing) = (self.options.cluster.clone(), doing.into());
        move |source| JoinError::Server { name, doing, side, source: Box::new(source) }
    }

    /// Reads everything that a join depends on, and rejects objects that it must not change, before the first write.
    async fn survey_all(&self) -> Result<Survey, JoinError> {
        let id = self.identity(Side::Member).await?;
        self.refuse_taken(&id).await?;
        let plane_id = self.identity(Side::Plane).await?;
        if id == plane_id {
            return Err(JoinError::Itself { name: self.options.cluster.clone(), id });
        }
        let objects = objects(self.options, &id, &plane_id);
        let mut member = Vec::new();
        for object in objects.member {
            member.push(self.survey(Side::Member, object, &plane_id).await?);
        }
        let plane_namespace = self.survey(Side::Plane, objects.plane_namespace, &plane_id).await?;
        let mut secrets = Vec::new();
        for secret in objects::secrets(self.options, None) {
            secrets.push(self.survey(Side::Plane, secret, &plane_id).await?);
        }
        let mut cluster = self.survey(Side::Plane, objects.cluster, &plane_id).await?;
        match &cluster.present {
            Some(present) => objects::reset_address(&mut cluster.object, present),
            // Ask admission first: the member is not touched for a Cluster that is refused.
            None => {
                let dry_run = write::create(&self.plane, &cluster.object, Mode::DryRun).await;
                let doing = format!("a dry run of creating Cluster {}", self.options.cluster);
                dry_run.map_err(self.failed(Side::Plane, doing))?;
            }
        }
        Ok(Survey { plane_id, member, plane_namespace, secrets, cluster })
    }

    async fn carry_out(&self, survey: &Survey, ledger: &mut Ledger) -> Result<Joined, JoinError> {
        for change in &survey.member {
            self.write(change, ledger).await?;
        }
        let tokens = credentials::obtain(self).await?;
        self.write(&survey.plane_namespace, ledger).await?;
        let present = survey.cluster.present.as_ref();
        let mut secrets = Vec::new();
        for (before, object) in survey.secrets.iter().zip(objects::secrets(self.options, Some(&tokens))) {
            // The Secrets of a new Cluster become its own when it has a uid.
            let object = present.map_or(object.clone(), |cluster| objects::owned(object, cluster));
            let change = Change::in_plane(object, before.present.clone());
            secrets.push((self.write(&change, ledger).await?, change.object));
        }
        let outcome = survey.cluster.outcome();
        let cluster = match self.write(&survey.cluster, ledger).await {
            Err(JoinError::Server { source, .. }) if outcome == Outcome::Created && !changes::refused(&source) => {
                self.created_after_all(&survey.cluster, *source).await?
            }
            written => written?,
        };
        // From here on the cluster is joined: `unjoin` removes what is left, so nothing is taken back.
        *ledger = Ledger::default();
        if present.is_none() {
            for (written, object) in secrets {
                let change = Change::in_plane(objects::owned(object, &cluster), Some(written));
                self.write(&change, ledger).await?;
            }
        }
        credentials::drop_static(self, &survey.plane_id).await?;
        let cluster = Cluster { metadata: cluster.metadata, ..Cluster::default() };
        Ok(Joined { cluster, outcome, expires: tokens.expires })
    }

    /// Looks for a Cluster whose creation was not answered.
    async fn created_after_all(&self, change: &Change, source: kube::Error) -> Result<DynamicObject, JoinError> {
        let api = write::api_of(&self.plane, &change.object);
        let found = api.get_opt(&self.options.cluster).await;
        match found.map_err(self.failed(Side::Plane, "reading the cluster"))? {
            Some(found) if found.data.pointer("/spec/id") == change.object.pointer("/spec/id") => Ok(found),
            _ => Err(self.failed(Side::Plane, format!("writing Cluster {}", self.options.cluster))(source)),
        }
    }

    /// The uid of a server's kube-system namespace.
    async fn identity(&self, side: Side) -> Result<String, JoinError> {
        let id = identity(self.client(side)).await.map_err(self.failed(side, "reading namespace kube-system"))?;
        id.ok_or_else(|| JoinError::NoIdentity { name: self.options.cluster.clone(), side })
    }

    async fn refuse_taken(&self, id: &str) -> Result<(), JoinError> {
        let clusters: Api<Cluster> = Api::all(self.plane.clone());
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = clusters.list(&params).await.map_err(self.failed(Side::Plane, "listing clusters"))?;
            for cluster in &page.items {
                refuse(cluster, &self.options.cluster, id)?;
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }

    async fn ready(&self, written: Cluster) -> Result<Cluster, JoinError> {
        let clusters: Api<Cluster> = Api::all(self.plane.clone());
        let name = written.name_any();
        let deadline = self.options.wait.map(|wait| (self.clock.mono() + wait, wait));
        loop {
            let cluster = clusters.get(&name).await.map_err(self.failed(Side::Plane, "reading the cluster"))?;
            let Some((deadline, wait)) = deadline else { return Ok(cluster) };
            if cluster.ready() == Some("True") {
                return Ok(cluster);
            }
            if self.clock.mono() >= deadline {
                let conditions = cluster.status.as_ref().map_or(&[][..], |status| &status.conditions);
                let last = ironclad_api::conditions::get(conditions, "Ready").map_or_else(
                    || "no controller has looked at it yet".to_owned(),
                    |c| format!("{}: {}", c.reason, c.message),
                );
                return Err(JoinError::NotReady { name, seconds: wait.as_secs(), last });
            }
            self.clock.sleep(LOOK).await;
        }
    }
}

/// Checks whether an existing cluster conflicts with one of this name and identity.
fn refuse(cluster: &Cluster, name: &str, id: &str) -> Result<(), JoinError> {
    let owned = || name.to_owned();
    if cluster.name_any() != name {
        let same = !cluster.spec.id.is_empty() && cluster.spec.id == id;
        return if same {
            Err(JoinError::JoinedAs { name: owned(), id: id.to_owned(), other: cluster.name_any() })
        } else {
            Ok(())
        };
    }
    if cluster.metadata.deletion_timestamp.is_some() {
        return Err(JoinError::Leaving { name: owned() });
    }
    if cluster.spec.sync_mode == SyncMode::Pull {
        return Err(JoinError::Pull { name: owned() });
    }
    if !cluster.spec.id.is_empty() && cluster.spec.id != id {
        return Err(JoinError::NameTaken { name: owned(), id: cluster.spec.id.clone() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ironclad_api::{Time, cluster::ClusterSpec};

    use super::*;

    #[test]
    fn names() {
        for name in ["member1", "a", "0-1", &"x".repeat(48)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for (name, why) in [
            ("", "it is empty"),
            ("Member1", "a character"),
            ("a.b", "a character"),
            ("-a", "begins or ends"),
            ("a-", "begins or ends"),
            (&"x".repeat(49), "too long"),
        ] {
            assert!(check_name(name).unwrap_err().to_string().contains(why), "{name:?}");
        }
    }

    #[test]
    fn joined_clusters_that_prevent_a_join() {
        let cluster =
            |name: &str, id: &str| Cluster::new(name, ClusterSpec { id: id.into(), ..ClusterSpec::default() });
        let leaving = || {
            let mut cluster = cluster("m1", "1");
            cluster.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
            cluster
        };
        let pull = || {
            let mut cluster = cluster("m1", "1");
            cluster.spec.sync_mode = SyncMode::Pull;
            cluster
        };
        for (name, present, want) in [
            ("another cluster", cluster("m2", "2"), None),
            ("another cluster without an identity", cluster("m2", ""), None),
            ("the same cluster again", cluster("m1", "1"), None),
            ("the same name without an identity", cluster("m1", ""), None),
            ("the same name, another cluster", cluster("m1", "2"), Some("with another identity (2) is joined already")),
            ("the same cluster, another name", cluster("m2", "1"), Some("is joined already as m2")),
            ("just being removed", leaving(), Some("it is being removed")),
            ("a pull member", pull(), Some("in pull mode")),
        ] {
            let got = refuse(&present, "m1", "1").err().map(|error| error.to_string());
            assert_eq!(got.is_some(), want.is_some(), "{name}: {got:?}");
            if let (Some(got), Some(want)) = (got, want) {
                assert!(got.contains(want), "{name}: {got}");
            }
        }
    }
}
