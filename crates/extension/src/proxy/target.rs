//! Members as the proxy reaches them: an address, the credentials of the impersonator, and what these allow.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_api::{
    cluster::{Cluster, LocalSecretReference, SyncMode},
    conditions,
    namespaces::{SECRET_CA_BUNDLE, SECRET_TOKEN},
    reasons,
    work::Work,
};
use ironclad_apiserver::ApiError;
use ironclad_members::streams;
use ironclad_propagation::unified_auth::{self, Impersonable};
use ironclad_runtime::{Api, Streams, Tunnels};
use ironclad_seam::Clock;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Client, ResourceExt as _};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant};

/// Time for which a member is taken to be as it was read.
const FRESH: Duration = Duration::from_secs(1);
/// Members that are kept.
const KEPT_MAX: usize = 1_024;
/// Requests and streams of one member at once.
pub(super) const STREAMS_MAX: usize = 500;

/// A member that requests are passed on to.
pub(super) struct Target {
    pub(super) name: String,
    pub(super) streams: Streams,
    /// Attributes of users that the member lets the impersonator pass on.
    pub(super) may: Impersonable,
    /// A permit for each request under way.
    pub(super) permits: Arc<Semaphore>,
    /// Everything on which the connection depends.
    identity: String,
}

/// The members of a control plane, as they are asked for.
pub(super) struct Targets {
    plane: Client,
    clock: Clock,
    tunnels: Tunnels,
    kept: Mutex<BTreeMap<String, (Instant, Arc<Target>)>>,
    /// Uid of namespace kube-system of the control plane, once it was read.
    own: Mutex<Option<String>>,
}

/// Secrets of a member in push mode.
struct Credentials {
    own: Secret,
    impersonator: Secret,
}

fn unavailable(message: String) -> ApiError {
    ApiError::new(503, "ServiceUnavailable", message)
}

/// An error of the control plane, as its client is told.
fn of_plane(error: kube::Error) -> ApiError {
    unavailable(format!("the control plane does not answer: {error}"))
}

impl Targets {
    pub(super) fn new(plane: Client, clock: Clock, tunnels: Tunnels) -> Self {
        Self { plane, clock, tunnels, kept: Mutex::default(), own: Mutex::default() }
    }

    pub(super) fn tunnels(&self) -> &Tunnels {
        &self.tunnels
    }

    /// Names of all Clusters, in order.
    pub(super) async fn names(&self) -> Result<Vec<String>, ApiError> {
        let clusters: Api<Cluster> = Api::all(self.plane.clone());
        let listed = clusters.list(&kube::api::ListParams::default()).await.map_err(of_plane)?;
        Ok(listed.items.iter().map(kube::ResourceExt::name_any).collect())
    }

    /// The member of this name.
    ///
    /// # Errors
    /// 404 if there is no such Cluster; 503 that says why it can't be reached.
    pub(super) async fn get(&self, name: &str) -> Result<Arc<Target>, ApiError> {
        let now = self.clock.mono();
        let known = self.kept.lock().get(name).cloned();
        if let Some((read, target)) = &known
            && now.saturating_duration_since(*read) < FRESH
        {
            return Ok(target.clone());
        }
        let target = self.read(name, known.map(|(_, target)| target)).await?;
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(name.to_owned(), (now, target.clone()));
        Ok(target)
    }

    /// The Cluster of this name, as it is now.
    pub(super) async fn cluster(&self, name: &str) -> Result<Cluster, ApiError> {
        let clusters: Api<Cluster> = Api::all(self.plane.clone());
        let found = clusters.get_opt(name).await.map_err(of_plane)?;
        found.ok_or_else(|| ApiError::not_found("clusters", "cluster.karmada.io", name))
    }

    async fn read(&self, name: &str, known: Option<Arc<Target>>) -> Result<Arc<Target>, ApiError> {
        let cluster = self.cluster(name).await?;
        let is_pull = cluster.spec.sync_mode == SyncMode::Pull;
        check(&cluster, &self.own().await?, self.tunnels.is_open(name))?;
        let credentials = if is_pull { None } else { Some(self.credentials(&cluster).await?) };
        let [role, _] = unified_auth::keys(&name.into());
        let space = ironclad_api::names::execution_namespace(name);
        let works: Api<Work> = Api::namespaced(self.plane.clone(), &space);
        let may = works.get_opt(&role.name).await.map_err(of_plane)?;
        let may = may.map(|work| Impersonable::of(&work)).unwrap_or_default();
        let version = credentials.as_ref().and_then(|of| of.impersonator.resource_version()).unwrap_or_default();
        let connection = cluster.connection_identity(credentials.as_ref().map(|of| &of.own));
        let identity = format!("{connection} {version} {} {is_pull}", cluster.spec.proxy_url);
        if let Some(known) = known.as_ref().filter(|known| known.identity == identity && known.may == may) {
            return Ok(known.clone());
        }
        let same = known.filter(|known| known.identity == identity);
        let streams = match (&same, &credentials) {
            (Some(known), _) => known.streams.clone(),
            (None, None) => Streams::through(&self.tunnels, name),
            (None, Some(of)) => {
                let (token, bundle) = (key(&of.impersonator, SECRET_TOKEN), key(&of.own, SECRET_CA_BUNDLE));
                let token = token.ok_or_else(|| {
                    unavailable(format!(
                        "the Secret of spec.impersonatorSecretRef of cluster {name} has no key {SECRET_TOKEN}"
                    ))
                })?;
                streams(&cluster, token, bundle)
                    .map_err(|why| unavailable(format!("cluster {name} can't be reached: {why}")))?
            }
        };
        let permits = same.map_or_else(|| Arc::new(Semaphore::new(STREAMS_MAX)), |known| known.permits.clone());
        Ok(Arc::new(Target { name: name.to_owned(), streams, may, permits, identity }))
    }

    async fn own(&self) -> Result<String, ApiError> {
        if let Some(own) = self.own.lock().clone() {
            return Ok(own);
        }
        let namespaces: Api<Namespace> = Api::all(self.plane.clone());
        let found = namespaces.get_opt("kube-system").await.map_err(of_plane)?;
        let uid = found.and_then(|namespace| namespace.uid()).unwrap_or_default();
        *self.own.lock() = Some(uid.clone()).filter(|uid| !uid.is_empty());
        Ok(uid)
    }

    async fn credentials(&self, cluster: &Cluster) -> Result<Credentials, ApiError> {
        let spec = &cluster.spec;
        let own = self.secret(cluster, spec.secret_ref.as_ref(), "spec.secretRef").await?;
        let reference = spec.impersonator_secret_ref.as_ref();
        Ok(Credentials { own, impersonator: self.secret(cluster, reference, "spec.impersonatorSecretRef").await? })
    }

    async fn secret(
        &self,
        cluster: &Cluster,
        reference: Option<&LocalSecretReference>,
        field: &str,
    ) -> Result<Secret, ApiError> {
        let name = cluster.name_any();
        let again = format!("`ironclad join {name}` again writes it");
        let reference = reference.ok_or_else(|| unavailable(format!("cluster {name} has no {field}: {again}")))?;
        let secrets: Api<Secret> = Api::namespaced(self.plane.clone(), &reference.namespace);
        let found = secrets.get_opt(&reference.name).await.map_err(of_plane)?;
        let named = format!("{}/{}", reference.namespace, reference.name);
        found.ok_or_else(|| unavailable(format!("Secret {named} of {field} of cluster {name} does not exist: {again}")))
    }
}

fn key<'a>(secret: &'a Secret, name: &str) -> Option<&'a [u8]> {
    secret.data.as_ref().and_then(|data| data.get(name)).map(|bytes| bytes.0.as_slice())
}

/// Refuses clusters that requests are not passed on to: pull members whose agents hold no tunnel open, and the control
/// plane itself, whose uid of namespace kube-system is `own`.
fn check(cluster: &Cluster, own: &str, has_tunnel: bool) -> Result<(), ApiError> {
    let name = cluster.name_any();
    if cluster.spec.sync_mode == SyncMode::Pull && !has_tunnel {
        return Err(unavailable(format!(
            "{name} is a pull member without a tunnel: its agent is not connected to this replica, or is none of ironclad's"
        )));
    }
    let ready =
        cluster.status.as_ref().and_then(|status| conditions::get(&status.conditions, conditions::cluster::READY));
    let found_out = ready.is_some_and(|ready| ready.reason == reasons::cluster::CLUSTER_IS_CONTROL_PLANE);
    if found_out || (!own.is_empty() && cluster.spec.id == own) {
        return Err(unavailable(format!(
            "cluster {name} is this control plane itself: requests are not passed on to it"
        )));
    }
    Ok(())
}

/// The answer in place of a member that gave none.
pub(super) fn unreached(name: &str, why: &str) -> ApiError {
    unavailable(format!("cluster {name} does not answer: {why}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_request_goes_to_the_plane_or_to_a_pull_member() {
        let cluster = |spec, reason: &str| {
            let conditions = json!([{"type": "Ready", "status": "False", "reason": reason, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
            let status = json!({"conditions": conditions});
            serde_json::from_value::<Cluster>(json!({"metadata": {"name": "m1"}, "spec": spec, "status": status}))
                .unwrap()
        };
        let push = json!({"syncMode": "Push", "apiEndpoint": "https://m1", "id": "member"});
        let itself = json!({"syncMode": "Push", "apiEndpoint": "https://m1", "id": "plane"});
        let pull = json!({"syncMode": "Pull", "id": "member"});
        for (name, spec, reason, own, want) in [
            ("a member", &push, "ClusterReady", "plane", None),
            ("one that is down: it is asked all the same", &push, "ClusterNotReachable", "plane", None),
            ("the plane by its id", &itself, "ClusterReady", "plane", Some("this control plane itself")),
            (
                "by what the controllers found",
                &push,
                "ClusterIsControlPlane",
                "plane",
                Some("this control plane itself"),
            ),
            ("no id of the plane is known", &itself, "ClusterReady", "", None),
            ("a pull member", &pull, "ClusterReady", "plane", Some("a pull member without a tunnel")),
        ] {
            let got = check(&cluster(spec.clone(), reason), own, false).err();
            assert_eq!(got.is_some(), want.is_some(), "{name}");
            if let (Some(got), Some(want)) = (got, want) {
                assert!(got.code == 503 && got.message.contains(want), "{name}: {}", got.message);
            }
        }
        assert!(check(&cluster(pull, "ClusterReady"), "plane", true).is_ok(), "with a tunnel");
    }
}
