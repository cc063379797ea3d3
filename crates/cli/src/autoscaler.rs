//! Last rounds of FederatedHPAs, which the leader remembers (group `explain.ironclad.io`).

use anyhow::bail;
use ironclad_autoscaling::federated_hpa::report::Report;
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
        Err(Unknown::NotFound(why)) => bail!("{why}\n  try: ironclad get fhpa -n {namespace}"),
        Err(Unknown::Unasked(why)) => bail!(
            "{why}\n  try: kubectl describe fhpa {name} -n {namespace}, which shows the conditions and the last values"
        ),
        Err(Unknown::Failed(why)) => bail!(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
