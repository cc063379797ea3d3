//! Credentials of the agent in the control plane: obtained with a bootstrap token, read again when somebody writes them
//! anew, and renewed before they end (specification/operations.md 10.5).

use std::{fs, io::Write as _, os::unix::fs::OpenOptionsExt as _, path::Path, time::Duration};

use anyhow::{Context as _, bail};
use ironclad_cli::{
    print,
    register::{
        Bootstrap, CertificateRequest, EXPIRATION_SECONDS, PrivateKey, SECRET, address, authority, certificate_request,
        credentials, kubeconfig, life, rights,
    },
};
use ironclad_failover::cluster::report::{Got, Life};
use ironclad_runtime::{Api, Traffic, client_from_kubeconfig};
use ironclad_seam::Clock;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Client,
    api::{Patch, PatchParams},
    config::Kubeconfig,
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use super::AgentArgs;

/// Interval between looks at the certificate and its file.
const LOOK: Duration = Duration::from_secs(60);
/// Time to wait for a new certificate.
const SIGNED_MAX: Duration = Duration::from_secs(300);
/// Time in which a file follows its Secret, by far.
const FOLLOWS_MAX: Duration = Duration::from_secs(600);
/// File with the namespace of a Pod.
const NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The remedy for a certificate that the control plane does not accept any more.
pub(super) const AGAIN: &str = "`ironclad register` again in the member, or --register HOST:PORT with a new token \
                                (`ironclad token create --print-register-command`)";

/// The credentials that this process got last.
#[derive(Default)]
pub(super) struct Obtained(Mutex<Option<(String, Timestamp, Instant)>>);

impl Obtained {
    fn note(&self, text: &str, clock: &Clock) {
        *self.0.lock() = Some((text.to_owned(), clock.wall(), clock.mono()));
    }

    /// When it got these, if it did.
    fn got(&self, text: &str, clock: &Clock) -> Option<Got> {
        let last = self.0.lock();
        let (_, at, mono) = last.as_ref().filter(|(got, ..)| got == text)?;
        Some(Got { at: *at, ago: clock.mono() - *mono })
    }

    /// True if others than these were got lately, which their file does not have yet.
    fn is_newer_on_the_way(&self, text: &str, clock: &Clock) -> bool {
        let last = self.0.lock();
        last.as_ref().is_some_and(|(got, _, mono)| got != text && clock.mono() - *mono < FOLLOWS_MAX)
    }
}

/// Gets credentials with the token, unless the file has some that last.
///
/// # Errors
/// If there are none, or they ended, and no token was given.
pub(super) async fn ensure(args: &AgentArgs, obtained: &Obtained, clock: &Clock) -> anyhow::Result<()> {
    let file = &args.karmada_kubeconfig;
    let present = Kubeconfig::read_from(file).ok();
    // One that was just signed is not over, whatever the clock says.
    let is_own = fs::read_to_string(file).is_ok_and(|text| obtained.got(&text, clock).is_some());
    let is_over = !is_own && present.as_ref().and_then(life).is_some_and(|life| life.is_over(clock.wall()));
    match (&args.register, &present) {
        (_, Some(_)) if !is_over => return Ok(()),
        (None, _) if is_over => {
            let until = present.as_ref().and_then(life).map(|life| life.until.to_string()).unwrap_or_default();
            bail!(
                "the certificate in {} has ended at {until}, and this machine's clock says {}: the control plane does not \
                 let this agent in\n  try: {AGAIN}; or set the clock (NTP), if it is wrong",
                file.display(),
                clock.wall_seconds()
            )
        }
        // The message says why it can't be read.
        (None, _) => return Ok(()),
        (Some(_), _) => {}
    }
    let bootstrap = args.bootstrap()?;
    print::note(&format!("registering cluster {} at {}", args.cluster_name, bootstrap.server));
    let text = credentials(&bootstrap, clock, print::note).await?;
    write(file, &text)?;
    obtained.note(&text, clock);
    rights::ensure(&bootstrap, &text, None, rights::MADE_WITHIN, clock, print::note).await
}

/// Writes a file that nobody else may read, in place of the one that is there.
fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let writing = || format!("writing {}\n  try: another --karmada-kubeconfig", file.display());
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).with_context(writing)?;
    }
    let beside = file.with_extension("new");
    let mut options = fs::OpenOptions::new();
    let mut out = options.write(true).create(true).truncate(true).mode(0o600).open(&beside).with_context(writing)?;
    out.write_all(text.as_bytes()).and_then(|()| out.sync_all()).with_context(writing)?;
    fs::rename(&beside, file).with_context(writing)
}

/// Returns once the file has other credentials than these: renewed ones, or somebody else's.
pub(super) async fn changed(args: &AgentArgs, used: &str, member: &Client, obtained: &Obtained, clock: &Clock) {
    loop {
        clock.sleep(LOOK).await;
        match fs::read_to_string(&args.karmada_kubeconfig) {
            Ok(text) if text != used && Kubeconfig::from_yaml(&text).is_ok() => return,
            _ => {}
        }
        match renew(args, used, member, obtained, clock).await {
            Ok(Renewed::InFile) => return,
            // The file follows the Secret after a while.
            Ok(Renewed::InSecret | Renewed::NotDue) => {}
            Err(error) => tracing::warn!(error = format!("{error:#}"), "the certificate was not renewed"),
        }
    }
}

enum Renewed {
    NotDue,
    InFile,
    InSecret,
}

async fn renew(
    args: &AgentArgs,
    used: &str,
    member: &Client,
    obtained: &Obtained,
    clock: &Clock,
) -> anyhow::Result<Renewed> {
    let own = Kubeconfig::from_yaml(used)?;
    let is_renewed = |life: &Life| life.is_renewed(clock.wall(), obtained.got(used, clock));
    let Some(life) = life(&own).filter(is_renewed) else { return Ok(Renewed::NotDue) };
    if obtained.is_newer_on_the_way(used, clock) {
        return Ok(Renewed::NotDue);
    }
    let config = args.plane().await?;
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let authority = authority(used).context("the kubeconfig has no certificates of the control plane inline")?;
    let plane = client_from_kubeconfig(config, Traffic::default().into())?;
    let key = PrivateKey::generate()?;
    let seconds = i32::try_from(life.until.duration_since(life.from).as_secs()).unwrap_or(EXPIRATION_SECONDS);
    let cluster = &args.cluster_name;
    let request = CertificateRequest { cluster, key: &key, expiration_seconds: seconds, timeout: SIGNED_MAX };
    let certificate = certificate_request(&plane, clock, &request, |line| tracing::warn!("{line}")).await;
    let certificate = certificate.map_err(|error| match life.is_over(clock.wall()) {
        true => error.context(format!("the certificate has ended at {}\n  try: {AGAIN}", life.until)),
        false => error,
    })?;
    let text = kubeconfig(&server, &authority, cluster, &certificate, &key.pem())?;
    tracing::info!(cluster, "the certificate was renewed");
    obtained.note(&text, clock);
    // In a Pod the file is a read-only view of a Secret.
    match write(&args.karmada_kubeconfig, &text) {
        Ok(()) => Ok(Renewed::InFile),
        Err(unwritten) => {
            let Ok(namespace) = fs::read_to_string(NAMESPACE) else { return Err(unwritten) };
            let secrets: Api<Secret> = Api::namespaced(member.clone(), namespace.trim());
            let patch = Patch::Merge(json!({"stringData": {SECRET: text}}));
            let name = &args.karmada_kubeconfig_secret;
            secrets.patch(name, &PatchParams::default(), &patch).await.context("writing the Secret of the agent")?;
            Ok(Renewed::InSecret)
        }
    }
}

impl AgentArgs {
    fn bootstrap(&self) -> anyhow::Result<Bootstrap> {
        let (Some(server), Some(token)) = (&self.register, &self.token) else {
            bail!(
                "--register needs --token\n  try: the line that `ironclad token create --print-register-command` prints"
            );
        };
        Ok(Bootstrap {
            server: address(server)?,
            token: token.clone(),
            ca_hashes: self.discovery_token_ca_cert_hash.clone(),
            unsafe_skip: self.discovery_token_unsafe_skip_ca_verification,
            timeout: self.discovery_timeout.0,
            cluster: self.cluster_name.clone(),
            expiration_seconds: EXPIRATION_SECONDS,
        })
    }
}
