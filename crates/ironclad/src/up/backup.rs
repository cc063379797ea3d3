//! `GET /ironclad/backup`: everything that this process keeps, as one stream. Its readers get every secret and the
//! keys that make users, so that it is for members of `system:masters` alone, whatever paths a role names.

use std::{path::PathBuf, sync::Arc};

use futures::stream;
use http::{Method, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::StreamBody;
use ironclad_apiserver::{Identity, MASTERS, RequestBody, ResponseBody, Route, RouteFuture};
use ironclad_store::Engine;
use tokio::sync::Semaphore;

/// Path of the endpoint.
pub(crate) const PATH: &str = "/ironclad/backup";
/// The folder of the data directory with keys and certificates.
pub(crate) const KEYS: &str = "pki";

/// Serves backups of an engine and of the keys beside it, one at a time, because each retains its snapshot until it is
/// sent.
pub(crate) struct Backup {
    engine: Engine,
    data_dir: PathBuf,
    one: Arc<Semaphore>,
}

impl Backup {
    /// Creates the endpoint for this process's store.
    pub(crate) fn new(engine: Engine, data_dir: PathBuf) -> Self {
        Self { engine, data_dir, one: Arc::new(Semaphore::new(1)) }
    }

    fn answer(&self, method: &Method, identity: &Identity) -> Response<ResponseBody> {
        if !identity.is_master() {
            tracing::warn!(user = %identity.user, "backup refused");
            let why = format!(
                "User {:?} cannot get a backup, which holds every secret: only members of the group {MASTERS} can",
                identity.user
            );
            return refusal(StatusCode::FORBIDDEN, &why);
        }
        if method != Method::GET {
            return refusal(StatusCode::METHOD_NOT_ALLOWED, "a backup can only be read with GET");
        }
        let Ok(turn) = self.one.clone().try_acquire_owned() else {
            return refusal(
                StatusCode::TOO_MANY_REQUESTS,
                "another backup is in progress: try again when it is complete",
            );
        };
        let mut snapshot = self.engine.snapshot();
        if let Err(error) = snapshot.add_folder(&self.data_dir, KEYS) {
            tracing::error!(%error, "reading the keys for a backup failed");
            let what = format!("reading the keys beside the store: {error}");
            return refusal(StatusCode::INTERNAL_SERVER_ERROR, &what);
        }
        tracing::info!(user = %identity.user, "backup is sent");
        let chunks = snapshot.chunks().map(move |chunk| {
            let _under_way = &turn;
            Ok::<_, std::io::Error>(Frame::data(chunk))
        });
        let mut response = Response::new(ResponseBody::boxed(StreamBody::new(stream::iter(chunks))));
        let kind = header::HeaderValue::from_static("application/octet-stream");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

impl Route for Backup {
    fn takes(&self, path: &str) -> bool {
        path == PATH
    }

    fn call(&self, request: Request<RequestBody>, identity: Identity) -> RouteFuture {
        let response = self.answer(request.method(), &identity);
        Box::pin(async move { response })
    }
}

/// A refusal that clients print as they print those of the server itself.
fn refusal(code: StatusCode, message: &str) -> Response<ResponseBody> {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "code": code.as_u16(),
    });
    let mut response = Response::new(ResponseBody::full(status.to_string()));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use ironclad_seam::Seam;
    use ironclad_store::{Commit, MemoryBackend};

    use super::*;

    #[test]
    fn only_masters_get_a_backup() -> anyhow::Result<()> {
        let seam = Seam::system("backup");
        let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, seam.clock.clone())?;
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join(KEYS))?;
        let backup = Backup::new(engine, folder.path().to_owned());
        for (name, identity, want) in [
            ("a member of system:masters", Identity::admin("anna"), 200),
            ("a role with all paths", Identity::user("monitoring", &[]), 403),
            ("a name alone", Identity::user("ironclad-admin", &["system:nodes"]), 403),
            ("nobody", Identity::anonymous(), 403),
        ] {
            assert_eq!(backup.answer(&Method::GET, &identity).status(), want, "{name}");
        }
        Ok(())
    }
}
