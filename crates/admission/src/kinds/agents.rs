//! Limits of agents, which rights cannot express: the user of a cluster's agent writes only what belongs to its cluster
//! (specification/operations.md 10.3, specification/admission.md 7.1).

use ironclad_api::{
    agents::{AGENT_SIGNER, cluster_of_agent},
    names, namespaces,
};
use ironclad_propagation::skipped_resources::ALWAYS_SKIPPED;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::Value;

use super::lens::{at, list, text};
use crate::{
    Denial, Operation, Request,
    agents::request::AgentRequest,
    request::{Cx, decode},
};

/// Name of the Leases by which replicas of an agent elect their leader; the name of the cluster follows.
const ELECTION_PREFIX: &str = "karmada-agent-";
const PULL: &str = "Pull";
/// Type of Secrets that the control plane fills with a token of a service account of its own.
const SERVICE_ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";

/// The cluster whose agent writes. `None` for the user of karmadactl, whose writes have a webhook of their own.
fn cluster<'a>(cx: &Cx<'a>) -> Option<&'a str> {
    cluster_of_agent(cx.request.user)
}

pub(super) fn refused(request: &Request<'_>, may: &str) -> Denial {
    let verb = match request.operation {
        Operation::Create => "create",
        Operation::Update => "update",
        Operation::Delete => "delete",
        Operation::Connect => "connect to",
    };
    let slash = if request.namespace.is_empty() { "" } else { "/" };
    let (user, kind, namespace, name) = (request.user, request.kind, request.namespace, request.name);
    Denial::forbidden(format!("user {user:?} may not {verb} {kind} {namespace}{slash}{name}: {may}"))
}

/// Cluster: its own one, in mode Pull, with taints that others set and credentials of its own.
pub(crate) fn write_cluster(cx: &Cx<'_>) -> Result<(), Denial> {
    let (Some(cluster), request) = (cluster(cx), cx.request) else { return Ok(()) };
    if request.name != cluster {
        return Err(refused(request, &format!("an agent writes only the Cluster of its own name, {cluster}")));
    }
    let Some(new) = request.object else { return Ok(()) };
    if text(new, "/spec/syncMode") != PULL || request.old.is_some_and(|old| text(old, "/spec/syncMode") != PULL) {
        return Err(refused(request, &format!("spec.syncMode must be {PULL}, which is the mode of agents")));
    }
    if let Some(old) = request.old
        && list(old, "/spec/taints") != list(new, "/spec/taints")
    {
        return Err(refused(request, "an agent leaves spec.taints as they are; it may change the other fields"));
    }
    let impersonator = names::impersonation_secret(cluster);
    for (field, name) in [("secretRef", cluster), ("impersonatorSecretRef", &impersonator)] {
        let pointer = format!("/spec/{field}");
        let named = at(new, &pointer);
        let is_own = text(named, "/namespace") == namespaces::CLUSTER && text(named, "/name") == name;
        let is_kept = request.old.is_some_and(|old| at(old, &pointer) == named);
        if !named.is_null() && !is_own && !is_kept {
            let may = format!("spec.{field} may name only Secret {}/{name}", namespaces::CLUSTER);
            return Err(refused(request, &may));
        }
    }
    Ok(())
}

/// Lease: the one by which the control plane sees that its agent lives, and that of its elections.
pub(crate) fn write_lease(cx: &Cx<'_>) -> Result<(), Denial> {
    let (Some(cluster), request) = (cluster(cx), cx.request) else { return Ok(()) };
    let heartbeat = request.namespace == namespaces::CLUSTER && request.name == cluster;
    if heartbeat || request.name.strip_prefix(ELECTION_PREFIX) == Some(cluster) {
        return Ok(());
    }
    let may = format!(
        "an agent writes only Lease {}/{cluster}, and Leases {ELECTION_PREFIX}{cluster} of any namespace",
        namespaces::CLUSTER
    );
    Err(refused(request, &may))
}

/// Secret: the credentials of its member.
pub(crate) fn write_secret(cx: &Cx<'_>) -> Result<(), Denial> {
    let (Some(cluster), request) = (cluster(cx), cx.request) else { return Ok(()) };
    let impersonator = names::impersonation_secret(cluster);
    if request.namespace != namespaces::CLUSTER || ![cluster, &impersonator].contains(&request.name) {
        let may = format!("an agent writes only Secrets {cluster} and {impersonator} in {}", namespaces::CLUSTER);
        return Err(refused(request, &may));
    }
    if request.object.is_some_and(|new: &Value| text(new, "/type") == SERVICE_ACCOUNT_TOKEN) {
        return Err(refused(
            request,
            &format!(
                "its type must not be {SERVICE_ACCOUNT_TOKEN}, which would put a token of the control plane in it"
            ),
        ));
    }
    Ok(())
}

/// Work: those of its execution namespace.
pub(crate) fn write_work(cx: &Cx<'_>) -> Result<(), Denial> {
    let (Some(cluster), request) = (cluster(cx), cx.request) else { return Ok(()) };
    let space = names::execution_namespace(cluster);
    if request.namespace == space {
        return Ok(());
    }
    Err(refused(request, &format!("an agent writes only Works in {space}")))
}

/// Event: about objects that may be of its member. Of the control plane's own ones these are its Cluster, its Leases
/// and its Works.
pub(crate) fn write_event(cx: &Cx<'_>) -> Result<(), Denial> {
    let (Some(cluster), request) = (cluster(cx), cx.request) else { return Ok(()) };
    let about = [request.old, request.object].into_iter().flatten().map(|event| {
        let object = if request.group.is_empty() { "/involvedObject" } else { "/regarding" };
        at(event, object)
    });
    for about in about {
        let (kind, namespace, name) = (text(about, "/kind"), text(about, "/namespace"), text(about, "/name"));
        let space = names::execution_namespace(cluster);
        let is_own = match kind {
            "Cluster" => name == cluster,
            "Lease" => name == cluster || name.strip_prefix(ELECTION_PREFIX) == Some(cluster),
            _ => namespace == space || !(namespaces::is_reserved(namespace) || ALWAYS_SKIPPED.contains(&namespace)),
        };
        if !is_own {
            let may = format!(
                "an agent writes no Events about {kind} {namespace}/{name}, only about Cluster {cluster}, objects in {space}, and what users propagate"
            );
            return Err(refused(request, &may));
        }
    }
    Ok(())
}

/// CertificateSigningRequest: for the user that it is, so that no person signs another one by mistake.
pub(crate) fn write_request(cx: &Cx<'_>) -> Result<(), Denial> {
    let (Some(cluster), request) = (cluster(cx), cx.request) else { return Ok(()) };
    let asked = request.object.and_then(|object| decode::<CertificateSigningRequest>(object).ok());
    // Whoever creates it is not in it yet where webhooks come first.
    let own = asked.as_ref().and_then(AgentRequest::of).is_some_and(|asked| asked.cluster == cluster);
    if own || request.operation == Operation::Delete {
        return Ok(());
    }
    let user = request.user;
    Err(refused(
        request,
        &format!("an agent asks only for certificates of its own user {user}, for signer {AGENT_SIGNER}"),
    ))
}
