//! Registration of a member in pull mode: an agent in the member gets credentials of the control plane by a bootstrap
//! token (specification/operations.md 2.5).
//!
//! [`credentials`] discovers the control plane and obtains the certificate, without a word to the member; the verb
//! then puts the agent into the member, and `ironclad agent --register` uses them itself. [`rights::ensure`] waits for
//! the rights of the agent, or makes them.

mod certificate;
pub mod command;
mod credentials;
mod discovery;
mod identity;
mod member;
mod objects;
pub(crate) mod ownership;
pub mod pins;
mod renewal;
pub mod rights;

use ironclad_api::agents::may_have_agent;

use crate::join;

pub use certificate::{
    CertificateRequest, EXPIRATION_SECONDS, EXPIRATION_SECONDS_MIN, PrivateKey, certificate_request,
};
pub use credentials::{Bootstrap, KUBECONFIG_CLUSTER, credentials, kubeconfig};
pub(crate) use discovery::first_cluster;
pub use discovery::{address, authority};
pub use member::{install, rolled_out};
pub use objects::{ACCOUNT, AGENT, Agent, Names, SECRET, objects};
pub use renewal::life;

/// Error of a registration.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The address can't be used.
    #[error(
        "{text:?} is no address of a control plane\n  because it is not HOST:PORT\n  try: plane.example.com:6443, or the \
         line that `ironclad token create --print-register-command` prints"
    )]
    Address {
        /// The text.
        text: String,
    },
    /// The name is reserved.
    #[error(
        "cluster name \"rbac-generator\" can't be used\n  because it is the name of an identity of karmadactl\n  try: another name"
    )]
    Reserved,
    /// No hash was given.
    #[error(
        "the control plane can't be recognized\n  because there is no hash of its certificate\n  \
         try: --discovery-token-ca-cert-hash, which `ironclad token create --print-register-command` prints"
    )]
    NoPins,
    /// The text is no hash.
    #[error(
        "--discovery-token-ca-cert-hash {text:?} can't be used\n  because it is not sha256: and 64 hexadecimal digits\n  \
         try: the line that `ironclad token create --print-register-command` prints"
    )]
    Pin {
        /// The text.
        text: String,
    },
    /// The control plane can't be asked.
    #[error("the control plane at {server} can't be asked\n  because {why}")]
    Client {
        /// Its address.
        server: String,
        /// The reason.
        why: String,
    },
    /// The discovery ended without success.
    #[error(
        "timed out after {seconds} s waiting for the control plane at {server} to answer with a signature of the token\n  \
         because {why}\n  try: ironclad token list, for the token; curl -k {server}/version, for the address"
    )]
    NotDiscovered {
        /// Its address.
        server: String,
        /// Timeout.
        seconds: u64,
        /// Last answer.
        why: String,
    },
    /// The token did not sign.
    #[error(
        "the answer is not the control plane's\n  because its signature by token {id} is wrong: the token has another \
         secret, or somebody else answered\n  try: ironclad token create --print-register-command"
    )]
    Signature {
        /// Id of the token.
        id: String,
    },
    /// There is no certificate to recognize the control plane by.
    #[error(
        "the control plane can't be recognized\n  because ConfigMap kube-public/cluster-info has no certificate\n  \
         try: ironclad doctor, with the control plane's kubeconfig"
    )]
    NoAuthority,
    /// The control plane is another one.
    #[error(
        "the answer is not the control plane's\n  because its certificate has another public key: {found}\n  \
         try: the line that `ironclad token create --print-register-command` prints"
    )]
    Pins {
        /// The hashes of its keys.
        found: String,
    },
    /// The certificate can't be requested.
    #[error("cluster {cluster} was not registered: requesting its certificate\n  try: {remedy}")]
    Requesting {
        /// Name of the cluster.
        cluster: String,
        /// The next step.
        remedy: &'static str,
        /// The server's answer.
        source: Box<kube::Error>,
    },
    /// The request was denied, failed, or is gone.
    #[error(
        "cluster {cluster} was not registered\n  because its request {name} for a certificate is refused: {why}\n  \
         try: kubectl describe csr {name}, with the control plane's kubeconfig"
    )]
    Denied {
        /// Name of the cluster.
        cluster: String,
        /// Name of the request.
        name: String,
        /// The reason.
        why: String,
    },
    /// The request was not signed in time.
    #[error(
        "timed out after {seconds} s waiting for the certificate of cluster {cluster}\n  because of request {name}: {last}\n  \
         try: kubectl certificate approve {name}, as an administrator of the control plane; then register again"
    )]
    NotSigned {
        /// Name of the cluster.
        cluster: String,
        /// Name of the request.
        name: String,
        /// Timeout.
        seconds: u64,
        /// Last state.
        last: String,
    },
    /// Objects of somebody else are in the way in the member.
    #[error(
        "cluster {cluster} was not registered\n  because the member has {findings}\n  \
         try: `ironclad unregister` of that cluster first; or another namespace than {namespace}, with --namespace"
    )]
    InTheWay {
        /// Name of the cluster.
        cluster: String,
        /// Namespace of the agent.
        namespace: String,
        /// The objects.
        findings: String,
    },
    /// The member has no namespace kube-system to be identified by.
    #[error(
        "cluster {cluster} was not registered\n  because the member has no namespace kube-system, whose uid identifies it"
    )]
    NoIdentity {
        /// Name of the cluster.
        cluster: String,
    },
    /// The name is taken by another cluster.
    #[error(
        "cluster {cluster} was not registered\n  because a cluster of that name with another identity ({id}, not {own}) is \
         registered already\n  try: another name with --cluster-name, or first `ironclad unregister {cluster}`"
    )]
    NameTaken {
        /// Name of the cluster.
        cluster: String,
        /// The identity of the cluster that has it.
        id: String,
        /// The identity of the member.
        own: String,
    },
    /// The cluster is joined in push mode.
    #[error(
        "cluster {cluster} was not registered\n  because it is in push mode: the control plane itself serves it\n  \
         try: kubectl patch cluster {cluster} --type=merge -p '{{\"spec\":{{\"syncMode\":\"Pull\"}}}}' first; what runs there stays"
    )]
    Push {
        /// Name of the cluster.
        cluster: String,
    },
    /// The member is the control plane.
    #[error(
        "cluster {cluster} was not registered\n  because the member is the control plane itself (namespace kube-system has \
         uid {id} in both)\n  try: --kubeconfig FILE of the member, or --context NAME"
    )]
    Itself {
        /// Name of the cluster.
        cluster: String,
        /// The identity of both.
        id: String,
    },
    /// The agent's Pods are not ready.
    #[error(
        "timed out after {seconds} s waiting for the agent of cluster {cluster}\n  because {why}\n  \
         try: kubectl -n {namespace} describe pods -l app=karmada-agent, with the member's kubeconfig; nodes need image \
         {image}, or another one with --karmada-agent-image"
    )]
    NotRolledOut {
        /// Name of the cluster.
        cluster: String,
        /// Namespace of the agent.
        namespace: String,
        /// Its image.
        image: String,
        /// Timeout.
        seconds: u64,
        /// Missing part.
        why: String,
    },
    /// The member refused or did not answer.
    #[error(
        "cluster {cluster} was not registered: {doing} in the member\n  try: --kubeconfig FILE of an administrator of the member; the same again completes it"
    )]
    Member {
        /// Name of the cluster.
        cluster: String,
        /// The attempted operation.
        doing: String,
        /// The server's answer.
        source: Box<kube::Error>,
    },
}

impl RegisterError {
    fn member(cluster: &str, doing: String, source: kube::Error) -> Self {
        Self::Member { cluster: cluster.to_owned(), doing, source: Box::new(source) }
    }

    /// True if the name can't be this member's.
    fn refuses_the_name(&self) -> bool {
        matches!(self, Self::NameTaken { .. } | Self::Push { .. } | Self::Itself { .. })
    }

    fn requesting(cluster: &str, source: kube::Error) -> Self {
        let remedy = match &source {
            kube::Error::Api(status) if status.code == 401 => {
                "ironclad token create --print-register-command: the token is unknown or expired, or may not authenticate"
            }
            kube::Error::Api(status) if status.code == 403 => {
                "ironclad doctor, with the control plane's kubeconfig: the group of the token may not request certificates"
            }
            _ => "the same again",
        };
        Self::Requesting { cluster: cluster.to_owned(), remedy, source: Box::new(source) }
    }
}

/// Refuses names that no cluster in pull mode may have.
///
/// # Errors
/// If it is one of them.
pub fn refuse_name(cluster: &str) -> anyhow::Result<()> {
    join::check_name(cluster)?;
    if !may_have_agent(cluster) {
        return Err(RegisterError::Reserved.into());
    }
    Ok(())
}
