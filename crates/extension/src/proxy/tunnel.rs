//! Tunnels of agents, as the control plane accepts them (specification/proposals/001.md, specification/operations.md
//! 10.3): `agent.ironclad.io/v1alpha1 clusters/NAME/tunnel`.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use ironclad_api::{
    agents::{AGENT_API_GROUP, tunnel_path},
    cluster::Cluster,
    events::SEVERAL_AGENTS,
};
use ironclad_apiserver::{ApiError, Identity, RequestBody, ResponseBody, Upgrade};
use ironclad_runtime::{AGENT, EventAbout, EventType, HELD, REPLICA, TUNNEL};

use super::{ClusterProxy, Shared, Watched};

/// Time after which both ends have found out that a tunnel is dead.
const SETTLED: Duration = Duration::from_secs(40);
/// Most characters of an agent's name.
const NAME_MAX: usize = 128;

/// The cluster whose tunnel a path is.
pub(super) fn cluster_of(path: &str) -> Option<&str> {
    let below = path.strip_prefix("/apis/")?.strip_prefix(AGENT_API_GROUP)?.strip_prefix("/v1alpha1/clusters/")?;
    below.strip_suffix("/tunnel").filter(|name| !name.is_empty() && !name.contains('/'))
}

impl ClusterProxy {
    /// Takes the connection of an agent over as the tunnel of its cluster, until the agent may not hold it any more.
    pub(super) fn tunnel(
        &self,
        mut request: Request<RequestBody>,
        identity: Identity,
    ) -> Result<Response<ResponseBody>, ApiError> {
        let Some(cluster) = cluster_of(request.uri().path()).map(str::to_owned) else {
            return Err(ApiError::no_resource());
        };
        let asked = request.headers().get(header::UPGRADE).and_then(|protocol| protocol.to_str().ok());
        if asked != Some(TUNNEL) {
            return Err(ApiError::bad_request(format!("a tunnel is asked for with the header Upgrade: {TUNNEL}")));
        }
        let tunnels = self.0.targets.tunnels().clone();
        let replica = tunnels.replica();
        if tunnels.is_open(&cluster) && replica.as_deref().is_some_and(|replica| is_named(request.headers(), replica)) {
            return Err(ApiError::new(409, "AlreadyExists", "this replica has a tunnel of this agent"));
        }
        let upgrade = Upgrade::of(&mut request)?;
        let agent = agent(request.headers());
        let shared = self.0.clone();
        let path = tunnel_path(&cluster);
        let watched = Watched { shared: self.0.clone(), method: Method::GET, path, identity };
        let mut switching = upgrade.switch(HeaderValue::from_static(TUNNEL), move |connection| async move {
            tracing::info!(cluster, agent, "the agent opened its tunnel");
            tokio::select! {
                biased;
                () = watched.revoked() => tracing::warn!(cluster, "the tunnel ends: its agent has no right to it any more"),
                ended = tunnels.carry(&cluster, &agent, connection) => match ended {
                    Ok(()) => tracing::info!(cluster, "the tunnel ended"),
                    Err(error) => tracing::warn!(cluster, %error, "the tunnel broke"),
                },
                () = shared.tell_of_agents(&cluster) => {}
            }
        });
        let name = replica.and_then(|replica| HeaderValue::try_from(&*replica).ok());
        switching.headers_mut().extend(name.map(|name| (REPLICA, name)));
        Ok(switching)
    }
}

impl Shared {
    /// Tells of the agents of a cluster if there are several once those that are gone were found out. It does not end.
    async fn tell_of_agents(&self, cluster: &str) {
        self.clock.sleep(SETTLED).await;
        let agents = self.targets.tunnels().agents(cluster);
        if agents.len() > 1 {
            match self.targets.cluster(cluster).await {
                Ok(found) => {
                    let about = EventAbout::of::<Cluster>(&found.metadata);
                    self.events.record(&about, EventType::Normal, SEVERAL_AGENTS, &several(&agents));
                }
                Err(error) => tracing::warn!(cluster, ?agents, error = error.message, "several agents hold tunnels"),
            }
        }
        std::future::pending().await
    }
}

/// The message about several agents.
fn several(agents: &[String]) -> String {
    let names = agents.join(" and ");
    format!(
        "agents {names} hold tunnels of this cluster: requests go over the newest, and one of the agents leads; stop \
         those that are not meant to be replicas of one another"
    )
}

/// The name of an agent among those of its cluster, as far as it can be printed.
fn agent(headers: &HeaderMap) -> String {
    let name = headers.get(AGENT).and_then(|name| name.to_str().ok()).unwrap_or_default();
    name.chars().filter(char::is_ascii_graphic).take(NAME_MAX).collect()
}

/// True if an agent says that it has a tunnel to this replica.
fn is_named(headers: &HeaderMap, replica: &str) -> bool {
    let held = headers.get(HELD).and_then(|held| held.to_str().ok()).unwrap_or_default();
    held.split(',').any(|name| name.trim() == replica)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_tunnels() {
        for (path, want) in [
            ("/apis/agent.ironclad.io/v1alpha1/clusters/m1/tunnel", Some("m1")),
            ("/apis/agent.ironclad.io/v1alpha1/clusters//tunnel", None),
            ("/apis/agent.ironclad.io/v1alpha1/clusters/m1/x/tunnel", None),
            ("/apis/agent.ironclad.io/v1alpha1/clusters/m1", None),
            ("/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy", None),
        ] {
            assert_eq!(cluster_of(path), want, "{path}");
        }
        assert_eq!(cluster_of(&tunnel_path("m1")), Some("m1"));
    }
    #[test]
    fn replicas_find_themselves_among_those_that_are_held() {
        for (held, want) in [
            (None, false),
            (Some(""), false),
            (Some("a"), false),
            (Some("b"), true),
            (Some("a, b"), true),
            (Some("ab"), false),
        ] {
            let headers: HeaderMap = held.map(|held| (HELD, HeaderValue::from_static(held))).into_iter().collect();
            assert_eq!(is_named(&headers, "b"), want, "{held:?}");
        }
    }
}
