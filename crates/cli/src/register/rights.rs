//! Rights of an agent in the control plane. Ironclad's control plane makes them when it approves the agent's
//! certificate. Karmada's leaves it to whoever registers, who gets a certificate of a user that may make them.

use std::time::Duration;

use anyhow::Context as _;
use ironclad_api::agents::{RBAC_GENERATOR_LIFE, agent_namespaces, agent_rights};
use ironclad_seam::Clock;
use kube::{Client, config::Kubeconfig};

use super::{
    RegisterError,
    certificate::{CertificateRequest, PrivateKey, certificate_request},
    credentials::{Bootstrap, enter, kubeconfig},
    identity,
};
use crate::{
    connect,
    report::answer,
    write::{self, Mode},
};

/// Interval between looks whether the agent has its rights.
const LOOK: Duration = Duration::from_millis(500);
/// Time in which a control plane makes the rights of an agent whose certificate it signed, if it makes them.
pub const MADE_WITHIN: Duration = Duration::from_secs(15);
/// Longest wait for the certificate of the user that makes them.
const GENERATOR_WITHIN: Duration = Duration::from_secs(60);
/// The name with which an agent would be that user.
const GENERATOR: &str = "rbac-generator";

/// Waits until the agent with these credentials has its rights, and makes them as karmadactl does if the control plane
/// does not within this time (specification/operations.md 2.5, 10.3). With the identity of the member (`id`) a name is
/// refused that another cluster has, or the control plane as its own member. If the rights can't be made, `report`
/// takes a warning: the agent waits for them.
///
/// # Errors
/// If the name is refused, or the credentials can't be used.
pub async fn ensure(
    bootstrap: &Bootstrap,
    credentials: &str,
    id: Option<&str>,
    within: Duration,
    clock: &Clock,
    mut report: impl FnMut(&str),
) -> anyhow::Result<()> {
    let cluster = &bootstrap.cluster;
    let agent = client(credentials).await?;
    let deadline = clock.mono() + within;
    let missing = loop {
        match identity::read(&agent, cluster).await {
            Ok(owner) => return Ok(owner.refuse(cluster, id)?),
            Err(_) if clock.mono() < deadline => clock.sleep(LOOK).await,
            Err(error) => break answer(&error),
        }
    };
    report("the control plane makes no rights for the agent: they are made with the token, as karmadactl makes them");
    match make(bootstrap, id, clock, &mut report).await {
        Err(error) if error.downcast_ref().is_some_and(RegisterError::refuses_the_name) => Err(error),
        Err(error) => {
            report(&format!(
                "warning: the agent has no rights yet: {missing}\n  because they can't be made: {error:#}\n  \
                 try: the log of the control plane's leader; the agent waits for its rights"
            ));
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

async fn client(kubeconfig: &str) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    connect::client(connect::config(kubeconfig, None, "control plane").await?)
}

/// Makes the rights with a certificate of the user that may.
async fn make(
    bootstrap: &Bootstrap,
    id: Option<&str>,
    clock: &Clock,
    report: &mut impl FnMut(&str),
) -> anyhow::Result<()> {
    let (registrar, certificates) = enter(bootstrap, clock, &mut *report).await?;
    let key = PrivateKey::generate()?;
    let request = CertificateRequest {
        cluster: GENERATOR,
        key: &key,
        expiration_seconds: RBAC_GENERATOR_LIFE,
        timeout: bootstrap.timeout.min(GENERATOR_WITHIN),
    };
    let certificate = certificate_request(&registrar, clock, &request, report).await?;
    let generator = kubeconfig(&bootstrap.server, &certificates, GENERATOR, &certificate, &key.pem())?;
    let generator = client(&generator).await?;
    identity::read(&generator, &bootstrap.cluster)
        .await
        .with_context(|| format!("asking whose the name {} is", bootstrap.cluster))?
        .refuse(&bootstrap.cluster, id)?;
    let cluster = &bootstrap.cluster;
    for object in agent_namespaces(cluster).into_iter().chain(agent_rights(cluster)) {
        match write::create(&generator, &object, Mode::Keep).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            other => {
                drop(other.with_context(|| format!("creating {} {}", object["kind"], object["metadata"]["name"]))?)
            }
        }
    }
    Ok(())
}

#[test]
fn rights_are_made_by_karmadas_user() {
    use ironclad_api::agents::{RBAC_GENERATOR, agent_user};
    assert_eq!(agent_user(GENERATOR), RBAC_GENERATOR);
}
