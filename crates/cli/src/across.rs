//! The members that a verb asks, and what it says of those that did not answer.

use anyhow::{Context as _, bail};
use ironclad_api::cluster::Cluster;
use kube::{Api, Client, ResourceExt as _, api::ListParams};

use crate::{
    connect::Plane,
    members::{self, Member},
    print,
};

/// Members and those that can't be asked, with the reason.
pub(crate) struct Asked {
    /// Names with clients, in order.
    pub(crate) members: Vec<(String, Client)>,
    /// Names with one line that says why there is no answer.
    pub(crate) silent: Vec<(String, String)>,
    /// All of them as the control plane knows them.
    pub(crate) clusters: Vec<Cluster>,
}

/// The members of these names, or all.
///
/// # Errors
/// If one does not exist, or the control plane does not answer.
pub(crate) async fn ask(plane: &Plane, client: &Client, names: &[String]) -> anyhow::Result<Asked> {
    let clusters: Api<Cluster> = Api::all(client.clone());
    let mut clusters = clusters.list(&ListParams::default()).await.context("listing the clusters")?.items;
    for name in names {
        if !clusters.iter().any(|cluster| cluster.name_any() == *name) {
            bail!("cluster {name} does not exist\n  try: ironclad get clusters");
        }
    }
    clusters.retain(|cluster| names.is_empty() || names.contains(&cluster.name_any()));
    let kubeconfig = plane.kubeconfig().ok();
    let mut asked = Asked { members: Vec::new(), silent: Vec::new(), clusters: clusters.clone() };
    for Member { name, client } in members::connect(client, kubeconfig.as_ref(), clusters).await {
        match client {
            Ok(client) => asked.members.push((name, client)),
            Err(why) => asked.silent.push((name, why)),
        }
    }
    Ok(asked)
}

/// Tells on stderr who did not answer.
pub(crate) fn report_silent(silent: &[(String, String)]) {
    for (name, why) in silent {
        print::note(&format!(
            "cluster({name}) is inaccessible, please check authorization or network: {}",
            print::line(why)
        ));
    }
}
