//! Clients of members, with the rights that the control plane has in them.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use ironclad_api::cluster::Cluster;
use ironclad_runtime::{TokenAccess, Traffic, client_by_token};
use ironclad_seam::Clock;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt as _, config::Kubeconfig};

use crate::connect;

/// A member, or why it can't be asked.
pub struct Member {
    /// The cluster's name.
    pub name: String,
    /// A client, or one line that says why there is none.
    pub client: Result<Client, String>,
}

/// Clients of these Clusters: by the Secret that `join` left, else by the context of the kubeconfig that has the
/// cluster's name and its endpoint (as `ironclad up` writes it for simulated members).
pub async fn connect(plane: &Client, kubeconfig: Option<&Kubeconfig>, clusters: Vec<Cluster>) -> Vec<Member> {
    join_all(clusters.into_iter().map(async |cluster| {
        let client = one(plane, kubeconfig, &cluster).await;
        Member { name: cluster.name_any(), client }
    }))
    .await
}

async fn one(plane: &Client, kubeconfig: Option<&Kubeconfig>, cluster: &Cluster) -> Result<Client, String> {
    let secret = match &cluster.spec.secret_ref {
        None => None,
        Some(reference) => {
            let secrets: Api<Secret> = Api::namespaced(plane.clone(), &reference.namespace);
            secrets.get_opt(&reference.name).await.map_err(|error| crate::report::answer(&error))?
        }
    };
    let name = cluster.name_any();
    if secret.is_none()
        && let Some(kubeconfig) = kubeconfig
        && let Ok(config) = connect::config(kubeconfig.clone(), Some(&name), "member").await
        && config.cluster_url.to_string().trim_end_matches('/') == cluster.spec.api_endpoint.trim_end_matches('/')
    {
        return connect::client(config).map_err(|error| error.to_string());
    }
    let access = cluster.access(secret.as_ref()).map_err(|error| error.to_string())?;
    let access = TokenAccess {
        endpoint: access.endpoint,
        token: access.token,
        ca_bundle: access.ca_bundle,
        proxy: access.proxy,
        proxy_header: &cluster.spec.proxy_header,
    };
    client_by_token(access, Arc::new(Traffic::default()))
}

/// Answer of a member, or an error if it did not answer in time.
///
/// # Errors
/// One line that says that there is no answer.
pub async fn within<T>(clock: &Clock, patience: Duration, question: impl Future<Output = T>) -> Result<T, String> {
    tokio::select! {
        biased;
        answer = question => Ok(answer),
        () = clock.sleep(patience) => Err(format!("no answer within {} s", patience.as_secs())),
    }
}
