//! Authorization by class: requests drawn from a seed, answered by a real kube-apiserver and by the embedded one. Both
//! must refuse the same requests with the same words.
//!
//! Effects of requests are not compared: writes are dry runs, and all that is not refused counts as allowed.

mod agents;
mod draw;

use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use super::{As, Servers, Side};
use draw::{Draw, Request};

/// Requests that are asked beside each other.
const AT_ONCE: usize = 16;
/// Rights are effective on a real server some time after they were written.
const EFFECTIVE_WITHIN: Duration = Duration::from_secs(60);

/// Result of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Requests that were asked.
    pub requests: usize,
    /// Requests that the real server refused.
    pub refused: usize,
    /// Requests that were answered differently: each with both answers.
    pub differences: Vec<String>,
}

/// Asks both servers `count` requests drawn from a seed; `None` where real Kubernetes can't be had.
///
/// # Errors
/// Servers that don't start or don't answer at all.
pub async fn run(seed: u64, count: usize) -> anyhow::Result<Option<Outcome>> {
    let home = tempfile::Builder::new().prefix("ironclad-authorization-").tempdir()?;
    let Some(servers) = Servers::start_or_skip(home.path()).await? else { return Ok(None) };
    let (real, ours) = (&servers.real, &servers.ours);
    let mut draw = Draw::new(seed);
    let (objects, bound) = draw.objects();
    let (of_real, of_ours) = tokio::try_join!(prepare(real, &objects, &bound), prepare(ours, &objects, &bound))?;
    let requests: Vec<Request> = (0..count).map(|_| draw.request()).collect();
    let asked: Vec<(Verdict, Verdict)> = stream::iter(&requests)
        .map(async |request| tokio::try_join!(ask(real, &of_real, request), ask(ours, &of_ours, request)))
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    let mut outcome = Outcome { requests: count, ..Outcome::default() };
    for (n, (request, (real, ours))) in requests.iter().zip(asked).enumerate() {
        outcome.refused += usize::from(real != Verdict::Allowed);
        if request.must_be_refused && (real.is_allowed() || ours.is_allowed()) {
            outcome.differences.push(format!("request {n} has to be refused: {request}"));
        }
        if real != ours {
            outcome.differences.push(format!("request {n}: {request}\n    real: {real:?}\n    ours: {ours:?}"));
        }
    }
    Ok(Some(outcome))
}

/// The answer of authorization to a request.
#[derive(Debug, PartialEq)]
enum Verdict {
    Allowed,
    Refused {
        code: u16,
        message: String,
    },
    /// The status of a SubjectAccessReview.
    Review {
        allowed: bool,
        reason: String,
    },
}

impl Verdict {
    fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed | Self::Review { allowed: true, .. })
    }
}

/// Writes the objects, and waits until rights and policies are effective. Returns the token of the impersonator.
async fn prepare(side: &Side, objects: &[(String, Value)], bound: &[Value]) -> anyhow::Result<String> {
    for (path, object) in objects {
        let answer = side.ask(As::Admin, "POST", path, &json_headers(), to_bytes(object)).await?;
        ensure!(answer.code == 201, "POST {path}: {}\n{object}", String::from_utf8_lossy(&answer.body));
    }
    for review in bound {
        crate::real::until(&review.to_string(), EFFECTIVE_WITHIN, async || {
            let verdict = ask_review(side, review).await?;
            ensure!(matches!(verdict, Verdict::Review { allowed: true, .. }), "{verdict:?}");
            Ok(())
        })
        .await?;
    }
    crate::real::until("the admission policy", EFFECTIVE_WITHIN, async || {
        let path = "/api/v1/namespaces/a/configmaps?dryRun=All";
        let body = json!({"metadata": {"name": draw::DENIED_NAME}});
        let code = side.ask(As::Admin, "POST", path, &json_headers(), to_bytes(&body)).await?.code;
        ensure!(code == 403, "{code}");
        Ok(())
    })
    .await?;
    crate::real::until("the aggregated role", EFFECTIVE_WITHIN, async || {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{}", draw::AGGREGATED);
        let role: Value = serde_json::from_slice(&side.ask(As::Admin, "GET", &path, &[], Bytes::new()).await?.body)?;
        ensure!(role["rules"].as_array().is_some_and(|rules| !rules.is_empty()), "{role}");
        Ok(())
    })
    .await?;
    let path = format!("/api/v1/namespaces/a/serviceaccounts/{}/token", draw::IMPERSONATOR);
    let answer = side.ask(As::Admin, "POST", &path, &json_headers(), to_bytes(&json!({"spec": {}}))).await?;
    let token: Value = serde_json::from_slice(&answer.body)?;
    Ok(token["status"]["token"].as_str().with_context(|| format!("no token: {token}"))?.to_owned())
}

async fn ask(side: &Side, token: &str, request: &Request) -> anyhow::Result<Verdict> {
    if let Some(review) = &request.review {
        return ask_review(side, review).await;
    }
    let mut headers: Vec<(String, String)> =
        request.headers.iter().map(|(name, value)| (name.clone(), value.replace("$token", token))).collect();
    headers.push(("User-Agent".to_owned(), "differential/1".to_owned()));
    let body = request.body.as_ref().map_or_else(Bytes::new, to_bytes);
    let answer = side.ask(request.who, request.method, &request.path, &headers, body).await?;
    if !matches!(answer.code, 401 | 403) {
        return Ok(Verdict::Allowed);
    }
    let status: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let message = status["message"].as_str().unwrap_or_default();
    // A real server tries constrained impersonation too, which the embedded one does not have, and speaks of that.
    let message = if message.contains("cannot impersonate") { "impersonation is refused" } else { message };
    Ok(Verdict::Refused { code: answer.code, message: message.to_owned() })
}

async fn ask_review(side: &Side, review: &Value) -> anyhow::Result<Verdict> {
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let answer = side.ask(As::Admin, "POST", path, &json_headers(), to_bytes(review)).await?;
    let said: Value = serde_json::from_slice(&answer.body)?;
    ensure!(answer.code == 201, "{said}");
    let status = &said["status"];
    let reason = status["reason"].as_str().unwrap_or_default();
    let allowed = status["allowed"] == true;
    // Which of several bindings a real server names depends on the order of a hash map.
    let reason = if allowed { reason.split(" by ").next().unwrap_or_default() } else { reason };
    Ok(Verdict::Review { allowed, reason: reason.to_owned() })
}

fn json_headers() -> [(String, String); 1] {
    [("Content-Type".to_owned(), "application/json".to_owned())]
}

fn to_bytes(value: &Value) -> Bytes {
    value.to_string().into()
}
