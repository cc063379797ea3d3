//! Last rounds of FederatedHPAs, which the leader remembers (group `explain.ironclad.io`).

use anyhow::bail;
use ironclad_api::autoscaling::FederatedHPA;
use ironclad_autoscaling::federated_hpa::report::Report;
use ironclad_runtime::Api;
use kube::Client;

use crate::{
    leader::{Unknown, ask},
    report::Misused,
};

/// Names of the kind on the command line.
const NAMES: [&str; 4] = ["federatedhpa", "federatedhpas", "fhpa", "federatedhpas.autoscaling.karmada.io"];

/// True if the argument names FederatedHPAs.
pub(crate) fn is_kind(kind: &str) -> bool {
    NAMES.contains(&kind.to_ascii_lowercase().as_str())
}

/// Returns the name in `fhpa/NAME`, or in TYPE and NAME.
///
/// # Errors
/// If the arguments name anything else.
pub(crate) fn named(resource: &[String], verb: &str) -> anyhow::Result<String> {
    let parts: Vec<&str> = match resource {
        [one] => one.splitn(2, '/').collect(),
        several => several.iter().map(String::as_str).collect(),
    };
    match parts.as_slice() {
        [kind, name] if is_kind(kind) && !name.is_empty() => Ok((*name).to_owned()),
        _ => Err(Misused(format!("{} is no FederatedHPA\n  try: {verb} fhpa/NAME", resource.join(" "))).into()),
    }
}

/// Asks the leader for the last round.
///
/// # Errors
/// If no leader can be asked, or it has evaluated no FederatedHPA of this name.
pub(crate) async fn last_round(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Report> {
    match ask(client, &format!("namespaces/{namespace}/autoscalers/{name}")).await {
        Ok(report) => Ok(report),
        Err(Unknown::NotFound(why)) => {
            let all: Api<FederatedHPA> = Api::namespaced(client.clone(), namespace);
            // An error says nothing about the object.
            match all.get_opt(name).await {
                Ok(None) => {
                    bail!("there is no FederatedHPA {namespace}/{name}\n  try: ironclad get fhpa -n {namespace}")
                }
                _ => bail!("{why}\n  try: kubectl describe fhpa {name} -n {namespace}, which shows its conditions"),
            }
        }
        Err(Unknown::Unasked(why)) => bail!(
            "{why}\n  try: kubectl describe fhpa {name} -n {namespace}, which shows the conditions and the last values"
        ),
        Err(Unknown::Failed(why)) => bail!(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_does_not_exist_is_told_from_what_was_not_evaluated() {
        for (exists, want) in [
            (false, "there is no FederatedHPA shop/web\n  try: ironclad get fhpa -n shop"),
            (true, "web has not been evaluated\n  try: kubectl describe fhpa web -n shop, which shows its conditions"),
        ] {
            let service = tower::service_fn(move |request: http::Request<kube::client::Body>| async move {
                let is_object = exists && request.uri().path().contains("federatedhpas");
                let body = match is_object {
                    true => serde_json::json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA",
                        "metadata": {"name": "web"}, "spec": {"maxReplicas": 1, "scaleTargetRef": {"kind": "D", "name": "web"}}}),
                    false => {
                        serde_json::json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound",
                        "message": "web has not been evaluated"})
                    }
                };
                let answer = http::Response::builder().status(if is_object { 200 } else { 404 });
                Ok::<_, std::convert::Infallible>(
                    answer.body(kube::client::Body::from(body.to_string().into_bytes())).unwrap(),
                )
            });
            let error = last_round(&Client::new(service, "default"), "shop", "web").await.unwrap_err();
            assert_eq!(error.to_string(), want);
        }
    }

    #[test]
    fn arguments_name_an_autoscaler() {
        let named = |text: &str| {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            named(&words, "ironclad plan load").map_err(|error| error.to_string())
        };
        for (text, want) in [
            ("fhpa/web", Ok("web")),
            ("FederatedHPA web", Ok("web")),
            ("federatedhpas.autoscaling.karmada.io/web", Ok("web")),
            ("deploy/web", Err("deploy/web is no FederatedHPA\n  try: ironclad plan load fhpa/NAME")),
            ("fhpa", Err("fhpa is no FederatedHPA\n  try: ironclad plan load fhpa/NAME")),
            ("fhpa/", Err("fhpa/ is no FederatedHPA\n  try: ironclad plan load fhpa/NAME")),
        ] {
            assert_eq!(named(text), want.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }
}
