//! Health and version (apiserver.md 3).

use http::{HeaderValue, header};
use serde_json::json;

use crate::{
    request::Query,
    respond::{self, Reply},
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

/// `GET /healthz`, `/livez`, `/readyz`.
pub(crate) fn check(name: &str, query: &Query) -> Reply {
    if query.get("verbose").is_none() {
        return ok();
    }
    let excluded = query.all("exclude");
    let lines = CHECKS.iter().map(|check| {
        if excluded.iter().any(|e| e == check) {
            format!("[+]{check} excluded: ok\n")
        } else {
            format!("[+]{check} ok\n")
        }
    });
    respond::text(200, format!("{}{name} check passed\n", lines.collect::<String>()))
}

fn ok() -> Reply {
    let mut reply = respond::text(200, "ok");
    reply.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

/// One check, such as `/livez/etcd`.
pub(crate) fn single(path: &str) -> Reply {
    let name = path.rsplit('/').next().unwrap_or_default();
    if CHECKS.contains(&name) { respond::text(200, "ok") } else { respond::page_not_found() }
}
