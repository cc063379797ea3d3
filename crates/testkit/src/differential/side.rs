//! Plain HTTP access to one of the two servers: no retries, no redirects, no decompression.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use kube::{
    Config,
    client::ConfigExt as _,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;
use tokio::time::timeout;
use tower::{BoxError, ServiceExt as _, util::BoxCloneSyncService};

use super::webhooks::Webhooks;
use crate::real::Kubectl;

const DEADLINE: Duration = Duration::from_secs(60);

type Http = BoxCloneSyncService<Request<Full<Bytes>>, http::Response<hyper::body::Incoming>, BoxError>;

#[derive(Clone)]
pub struct Side {
    url: String,
    admin: Http,
    anonymous: Http,
    pub kubectl: Kubectl,
    pub webhooks: Arc<Webhooks>,
    pub files: PathBuf,
}

impl std::fmt::Debug for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Side").field("url", &self.url).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum As {
    Admin,
    /// Only the identity in the headers.
    Anonymous,
}

#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A watch that is open.
#[derive(Debug)]
pub struct Stream {
    body: hyper::body::Incoming,
    buffer: Vec<u8>,
}

impl Side {
    /// Creates a side from a kubeconfig and the directory with files for kubectl.
    pub async fn new(kubeconfig: &Path, kubectl: Kubectl, files: &Path) -> anyhow::Result<Self> {
        let text = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(text, &KubeConfigOptions::default()).await?;
        let mut anonymous = config.clone();
        anonymous.auth_info = AuthInfo::default();
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let webhooks = Arc::new(Webhooks::start().await?);
        Ok(Self {
            url,
            admin: http_of(&config)?,
            anonymous: http_of(&anonymous)?,
            kubectl,
            webhooks,
            files: files.to_owned(),
        })
    }

    async fn send(
        &self,
        who: As,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: Bytes,
    ) -> anyhow::Result<http::Response<hyper::body::Incoming>> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            // Values may have other bytes than ASCII.
            request = request.header(name, value.as_bytes());
        }
        let request = request.body(Full::new(body)).with_context(|| format!("{method} {path}"))?;
        let http = match who {
            As::Admin => &self.admin,
            As::Anonymous => &self.anonymous,
        };
        let answer = timeout(DEADLINE, http.clone().oneshot(request)).await;
        answer
            .with_context(|| format!("{method} {path}: no answer within {} s", DEADLINE.as_secs()))?
            .map_err(|error| anyhow::anyhow!("{method} {path}: {error:?}"))
    }

    pub async fn ask(
        &self,
        who: As,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: Bytes,
    ) -> anyhow::Result<Answer> {
        let (parts, body) = self.send(who, method, path, headers, body).await?.into_parts();
        let body = timeout(DEADLINE, body.collect()).await.context("the answer does not end")??.to_bytes();
        Ok(Answer { code: parts.status.as_u16(), headers: parts.headers, body })
    }

    pub async fn open(
        &self,
        who: As,
        path: &str,
        headers: &[(String, String)],
    ) -> anyhow::Result<(u16, HeaderMap, Stream)> {
        let (parts, body) = self.send(who, "GET", path, headers, Bytes::new()).await?.into_parts();
        Ok((parts.status.as_u16(), parts.headers, Stream { body, buffer: Vec::new() }))
    }
}

impl Stream {
    /// The next line as JSON; `None` at a clean end.
    pub async fn next(&mut self) -> anyhow::Result<Option<Value>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let text = String::from_utf8_lossy(&line);
                return Ok(Some(serde_json::from_slice(&line).unwrap_or_else(|_| text.trim_end().into())));
            }
            match timeout(DEADLINE, self.body.frame()).await.context("the watch is silent")? {
                None if self.buffer.is_empty() => return Ok(None),
                None => bail!("the watch ends within a line"),
                Some(frame) => self.buffer.extend_from_slice(frame?.data_ref().map_or(&[][..], |d| d)),
            }
        }
    }
}

fn http_of(config: &Config) -> anyhow::Result<Http> {
    let client = Client::builder(TokioExecutor::new()).build(config.rustls_https_connector()?);
    Ok(BoxCloneSyncService::new(client.map_err(BoxError::from)))
}
