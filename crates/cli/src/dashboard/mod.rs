//! `ironclad dashboard`: the fleet in a browser, with the rights of the kubeconfig.
//!
//! The views are those of the verbs: each is computed by the function whose result a verb prints.

mod actions;
mod failed;
mod kept;
mod logs;
mod manifests;
mod observe;
mod plans;
mod policies;
mod quotas;
mod scheduling;
mod services;
mod usage;
mod users;
mod views;

use anyhow::Context as _;
use ironclad_api::cluster::Cluster;
pub use ironclad_dashboard::{Actions, Dashboard, TeamDashboard};
use ironclad_runtime::Api;
use ironclad_seam::{Clock, Seam};
use kube::api::ListParams;

pub use self::{actions::Acting, users::Bearers, views::Live};
use crate::{connect::Plane, print};

/// Show the fleet in a browser: what is bad and since when, why, and what would happen.
///
/// Serves on a port of this machine until ctrl-c, with the rights that the kubeconfig has. Nothing is installed, and
/// nothing is written without --write. The printed address begins one session of a browser; when it was used, the
/// next is printed.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad dashboard
  ironclad dashboard --open
  ironclad dashboard --write
  ironclad dashboard --port 8080 --context fleet")]
pub struct Command {
    /// Port of 127.0.0.1; 0 for a free one
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    pub port: u16,
    /// Let pages cordon, drain, rebalance, restart, and pause evictions; each shows first what it would do
    #[arg(long)]
    pub write: bool,
    /// Open the address in the browser of this machine
    #[arg(long)]
    pub open: bool,
    #[command(flatten)]
    pub plane: Plane,
}

/// Runs the command until ctrl-c.
///
/// # Errors
/// If the port is in use, or the control plane does not answer or lets nobody list its clusters.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    let client = command.plane.client().await?;
    // What is wrong with the connection is said here, not on each page.
    Api::<Cluster>::all(client).list(&ListParams::default().limit(1)).await.context("listing the clusters")?;
    let dashboard = bind(command.port, clock).await?;
    let address = dashboard.address();
    print::out(&format!("dashboard: {address}\n"))?;
    if command.open {
        open(&address);
    }
    let seam = Seam { clock: clock.clone(), ..Seam::system("dashboard") };
    let views = Live::new(command.plane.clone(), &seam);
    let acting = command.write.then(|| Acting::new(command.plane.clone(), clock.clone()));
    let served = async {
        let actions = acting.as_ref().map(|acting| acting as &dyn Actions);
        dashboard.serve(&views, actions, clock, &seam.tasks).await;
        anyhow::Ok(())
    };
    tokio::select! {
        biased;
        done = tokio::signal::ctrl_c() => done.context("waiting for ctrl-c"),
        served = served => served,
    }?;
    seam.tasks.kill();
    Ok(())
}

/// Listens on a port of 127.0.0.1; the address of a later session is printed on stderr.
///
/// # Errors
/// If the port is in use.
pub async fn bind(port: u16, clock: &Clock) -> anyhow::Result<Dashboard> {
    let again = |next: &str| print::note(&format!("dashboard, for another browser: {next}"));
    Dashboard::bind(port, clock, again).await.with_context(|| {
        format!("listening on 127.0.0.1:{port} for the dashboard\n  try: port 0, which takes a free one")
    })
}

/// Opens an address with the program that the desktop has for it. Without one the printed address is left.
fn open(address: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started = std::process::Command::new(program)
        .arg(address)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
    if let Err(error) = started {
        print::note(&format!("{program} could not be started: {error}\n  try: open the address by hand"));
    }
}
