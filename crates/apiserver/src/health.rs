//! Health and version (specification/apiserver.md 3).

use bytes::Bytes;
use http::{HeaderValue, header};
use ironclad_store::StoreError;
use serde_json::json;

use crate::{
    request::Query,
    respond::{self, Reply},
    status::error_chain,
};

/// The Kubernetes version that the server behaves as.
pub(crate) const GIT_VERSION: &str = "v1.36.3";

const CHECKS: [&str; 3] = ["ping", "log", "etcd"];

/// `GET /version`.
pub(crate) fn version() -> Reply {
    let value = json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": format!("{GIT_VERSION}+ironclad"), "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, match std::env::consts::ARCH { "x86_64" => "amd64", "aarch64" => "arm64", other => other }),
    });
    respond::reply(
        200,
        "application/json",
        serde_json::to_vec_pretty(&value).expect("a JSON value always serialises into memory"),
    )
}

/// `GET /healthz`, `/livez`, `/readyz`; `refusal` is why the store takes no writes, if it takes none.
pub(crate) fn check(name: &str, query: &Query, refusal: Option<&StoreError>) -> Reply {
    let excluded = query.all("exclude");
    let mut failed = false;
    let mut lines = String::new();
    for check in CHECKS {
        let line = if excluded.iter().any(|e| e == check) {
            format!("[+]{check} excluded: ok\n")
        } else if fails(check, refusal).is_some() {
            failed = true;
            format!("[-]{check} failed: reason withheld\n")
        } else {
            format!("[+]{check} ok\n")
        };
        lines.push_str(&line);
    }
    if failed {
        return text(500, format!("{lines}{name} check failed\n"));
    }
    if query.get("verbose").is_none() {
        return text(200, "ok");
    }
    respond::text(200, format!("{lines}{name} check passed\n"))
}

/// One check, such as `/livez/etcd`.
pub(crate) fn single(path: &str, refusal: Option<&StoreError>) -> Reply {
    let name = path.rsplit('/').next().unwrap_or_default();
    match fails(name, refusal) {
        _ if !CHECKS.contains(&name) => respond::page_not_found(),
        Some(refusal) => text(500, format!("internal server error: {}\n", error_chain(refusal))),
        None => respond::text(200, "ok"),
    }
}

/// Reason why a check fails. The store is where a kube-apiserver has its etcd; clients know the check by that name.
fn fails<'a>(check: &str, refusal: Option<&'a StoreError>) -> Option<&'a StoreError> {
    refusal.filter(|_| check == "etcd")
}

fn text(code: u16, text: impl Into<Bytes>) -> Reply {
    let mut reply = respond::text(code, text);
    reply.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}
