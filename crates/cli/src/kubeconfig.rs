//! `ironclad kubeconfig`: contexts of members behind the control plane's proxy.

use anyhow::Context as _;
use kube::{ResourceExt, config::Kubeconfig};

use crate::{connect::Plane, members, print, proxied};

/// Print a kubeconfig whose contexts lead to members through the control plane's proxy.
///
/// Requests are sent with your own credentials, and members know who asks: you need the right to clusters/proxy in the
/// control plane, and your rights in the member. kubectl, helm, k9s and others use the contexts as they are.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad kubeconfig > members.kubeconfig
  ironclad kubeconfig member1 member2 > members.kubeconfig
  kubectl --kubeconfig members.kubeconfig --context member1 get pods -A
  kubectl exec ironclad-0 -- /ironclad kubeconfig --control-plane --kubeconfig /data/kubeconfig > plane.kubeconfig")]
pub struct Command {
    /// Clusters [default: all]
    #[arg(value_name = "CLUSTER")]
    pub clusters: Vec<String>,
    /// Print the control plane's kubeconfig as it is, with its keys: for images without `cat`
    #[arg(long, conflicts_with = "clusters")]
    pub control_plane: bool,
    /// The control plane.
    #[command(flatten)]
    pub plane: Plane,
}

/// Prints the kubeconfig.
///
/// # Errors
/// If a cluster does not exist, or the control plane does not answer.
pub async fn run(command: &Command) -> anyhow::Result<()> {
    if command.control_plane {
        return shown(&command.plane.kubeconfig()?);
    }
    let client = command.plane.client().await?;
    let clusters = members::clusters(&client, &command.clusters).await?;
    let names: Vec<String> = clusters.iter().map(ResourceExt::name_any).collect();
    let front = proxied::front(&client).await;
    let made = proxied::kubeconfig(&command.plane.kubeconfig()?, front.as_ref(), &names)?;
    shown(&made)
}

fn shown(kubeconfig: &Kubeconfig) -> anyhow::Result<()> {
    print::data(&print::documents(&[serde_json::to_value(kubeconfig).context("writing the kubeconfig")?])?)
}
