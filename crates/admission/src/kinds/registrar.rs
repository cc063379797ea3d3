//! Limits of the user as which karmadactl registers a member (specification/admission.md 7.2): it writes nothing but
//! namespaces of agents. The control plane makes the rights of agents itself.

use ironclad_api::agents::{RBAC_GENERATOR, RBAC_GENERATOR_LIFE};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::Value;

use super::agents::refused;
use crate::{
    Denial, Operation,
    agents::{
        request::{AgentRequest, Occasion},
        rights::{are_of_an_agent, is_made_for_an_agent},
    },
    request::{Cx, decode},
};

/// Returns true if it asks for a certificate of this user.
fn asks_for_it(object: &Value) -> bool {
    let request: Option<CertificateSigningRequest> = decode(object).ok();
    request.and_then(|request| AgentRequest::of(&request)).is_some_and(|asked| asked.occasion == Occasion::Registrar)
}

/// CertificateSigningRequest of a bootstrap token: karmadactl asks for a year, and needs minutes.
pub(crate) fn shorten(object: &mut Value, _: &Cx<'_>) -> Result<(), Denial> {
    let seconds = object.pointer("/spec/expirationSeconds").and_then(Value::as_i64);
    if asks_for_it(object) && seconds.is_none_or(|seconds| seconds > RBAC_GENERATOR_LIFE.into()) {
        object["spec"]["expirationSeconds"] = RBAC_GENERATOR_LIFE.into();
    }
    Ok(())
}

/// Role or binding: it is never made, and one of an agent is answered as if it were there. It will be when the
/// certificate of that agent is approved. This answer comes before an API server compares the rights of the user.
pub(crate) fn make_right(_: &mut Value, cx: &Cx<'_>) -> Result<(), Denial> {
    let request = cx.request;
    if !are_of_an_agent(request.kind, request.namespace, request.name) {
        return Err(refused(request, "karmadactl names only rights of an agent, which the control plane makes"));
    }
    let message = format!("{} {}: the control plane makes the rights of agents itself", request.kind, request.name);
    Err(Denial { code: 409, reason: "AlreadyExists", ..Denial::forbidden(message) })
}

/// All kinds.
pub(crate) fn write(cx: &Cx<'_>) -> Result<(), Denial> {
    let request = cx.request;
    let may = match (request.operation, request.group, request.resource) {
        (Operation::Create, "", "namespaces") => request.object.is_some_and(is_made_for_an_agent),
        (Operation::Delete, "certificates.k8s.io", "certificatesigningrequests") => {
            request.old.is_some_and(asks_for_it)
        }
        _ => false,
    };
    if may {
        return Ok(());
    }
    let may = format!(
        "{RBAC_GENERATOR} makes only the namespaces of an agent, and deletes only requests for its own certificate"
    );
    Err(refused(request, &may))
}
