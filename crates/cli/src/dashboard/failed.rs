//! Errors of a verb as the dashboard shows them.

use ironclad_dashboard::Failed;

use crate::report;

/// The failure that an error is, in the lines that a verb prints.
pub(super) fn failed(error: &anyhow::Error) -> Failed {
    let (mut what, mut because, mut remedies) = (String::new(), Vec::new(), Vec::new());
    for line in report::render(error).lines() {
        let line = line.trim();
        if let Some(remedy) = line.strip_prefix("try: ") {
            remedies.push(remedy.to_owned());
        } else if let Some(reason) = line.strip_prefix("because ") {
            because.push(reason.to_owned());
        } else if what.is_empty() {
            line.trim_start_matches("error: ").clone_into(&mut what);
        } else {
            because.push(line.to_owned());
        }
    }
    Failed { status: status(error), what, because, remedies, printed: String::new() }
}

/// 403 and 404 as the control plane answered them; 400 for what was asked wrongly, 502 for all else.
fn status(error: &anyhow::Error) -> u16 {
    let from_server = error.chain().find_map(report::from_server);
    match from_server {
        Some(kube::Error::Api(status)) if matches!(status.code, 401 | 403 | 404) => status.code,
        Some(_) => 502,
        None if report::exit_code(error) == report::MISUSED => 400,
        None if ["does not exist", "(NotFound)"].iter().any(|text| error.to_string().contains(text)) => 404,
        None => 502,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;
    use crate::report::Misused;

    fn api(code: u16, reason: &str, message: &str) -> anyhow::Error {
        let status: kube::core::Status = serde_json::from_value(
            serde_json::json!({"status": "Failure", "code": code, "reason": reason, "message": message}),
        )
        .unwrap();
        anyhow::Error::new(kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn failures_say_what_to_do() {
        for (error, status, what, because, remedy) in [
            (
                api(403, "Forbidden", "clusters is forbidden: User \"x\" cannot list").context("listing the clusters"),
                403,
                "listing the clusters",
                "Error from server (Forbidden): clusters is forbidden: User \"x\" cannot list",
                "",
            ),
            (
                anyhow!("web does not exist\n  try: ironclad get deploy -A"),
                404,
                "web does not exist",
                "",
                "ironclad get deploy -A",
            ),
            (
                anyhow!(
                    "Error from server (NotFound): clusters.cluster.karmada.io \"m1\" not found\n  try: ironclad get clusters"
                ),
                404,
                "Error from server (NotFound): clusters.cluster.karmada.io \"m1\" not found",
                "",
                "ironclad get clusters",
            ),
            (Misused("bad\n  try: good".to_owned()).into(), 400, "bad", "", "good"),
            (anyhow!("no answer").context("reading"), 502, "reading", "no answer", ""),
            (api(500, "InternalError", "broken"), 502, "Error from server (InternalError): broken", "", ""),
        ] {
            let found = failed(&error);
            let list = |all: &[String]| all.join("|");
            assert_eq!((found.status, found.what.as_str()), (status, what));
            assert_eq!((list(&found.because), list(&found.remedies)), (because.to_owned(), remedy.to_owned()));
        }
    }
}
