//! Requests to `*`: all clusters that the user may ask.

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use ironclad_api::annotations::CACHED_FROM_CLUSTER;
use ironclad_apiserver::{ApiError, Identity, RequestBody, ResponseBody};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::{
    ClusterProxy,
    address::{Address, proxy_of},
    headers,
    target::unreached,
    unsendable,
};

/// Members that are asked at once.
const AT_ONCE: usize = 16;
/// The most bytes of one member's answer.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Time that a member has to answer.
const ANSWER_MAX: std::time::Duration = std::time::Duration::from_secs(30);

/// A member's answer: the object in it, or why there is none.
type Answered = (String, Result<(StatusCode, Value), ApiError>);

impl ClusterProxy {
    /// Reads from all clusters that the user may ask: lists are merged, one object is looked for.
    pub(super) async fn every(
        &self,
        request: Request<RequestBody>,
        address: &Address<'_>,
        identity: &Identity,
    ) -> Result<Response<ResponseBody>, ApiError> {
        if request.method() != Method::GET {
            return Err(ApiError::method_not_allowed());
        }
        let query = request.uri().query().map_or_else(String::new, |query| format!("?{query}"));
        if request.uri().query().is_some_and(is_endless) {
            return Err(ApiError::bad_request("all clusters are read once: name one cluster to watch it"));
        }
        let path = format!("{}{query}", address.path);
        let mut answers: Vec<Answered> = stream::iter(self.0.targets.names().await?)
            .map(|name| self.one(name, &path, identity))
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        answers.sort_by(|a, b| a.0.cmp(&b.0));
        let merged = merge(answers)?;
        let mut response = Response::new(ResponseBody::full(merged.body.to_string() + "\n"));
        *response.status_mut() = merged.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        for warning in merged.warnings.iter().take(WARNINGS_MAX).filter_map(|text| headers::warning(text)) {
            headers.append(header::WARNING, warning);
        }
        Ok(response)
    }

    /// The answer of one cluster, which is an error if the user may not ask it.
    async fn one(&self, name: String, path: &str, identity: &Identity) -> Answered {
        let allowed = self.0.rights.check(identity, &Method::GET, &proxy_of(&name)).await;
        let answered = match allowed {
            Err(error) => Err(error),
            Ok(()) => match tokio::time::timeout(ANSWER_MAX, self.read(&name, path, identity)).await {
                Ok(answered) => answered,
                Err(_) => Err(unreached(&name, "no answer in time")),
            },
        };
        (name, answered)
    }

    async fn read(&self, name: &str, path: &str, identity: &Identity) -> Result<(StatusCode, Value), ApiError> {
        let target = self.0.targets.get(name).await?;
        let _permit = target.permits.try_acquire().map_err(|_| ApiError::too_many_requests())?;
        let (headers, _) = headers::outbound(&HeaderMap::new(), identity, &target.may, &proxy_of(name));
        let body = Full::new(Bytes::new()).map_err(|never| match never {}).boxed_unsync();
        let mut sent = Request::new(body);
        *sent.headers_mut() = headers;
        *sent.uri_mut() = path.parse().map_err(|_| unsendable())?;
        let answer = target.streams.send(sent).await.map_err(|why| unreached(name, &why))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| unreached(name, &error.to_string()))?.to_bytes();
        Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    }
}

/// True if a query asks for an answer without an end. As an API server reads them, all values but `false` and `0` are
/// true.
fn is_endless(query: &str) -> bool {
    let asked = query.split('&').map(|part| part.split_once('=').unwrap_or((part, "")));
    asked.into_iter().any(|(name, value)| {
        let name = percent_decode_str(name).decode_utf8_lossy();
        let value = percent_decode_str(value).decode_utf8_lossy();
        ["watch", "follow"].contains(&&*name) && !value.eq_ignore_ascii_case("false") && value != "0"
    })
}

/// The most headers `Warning` of an answer.
const WARNINGS_MAX: usize = 16;

/// One answer for many.
#[derive(Debug, PartialEq)]
struct Merged {
    status: StatusCode,
    body: Value,
    warnings: Vec<String>,
}

/// Merges answers in order of the clusters' names: the items of lists, each with its origin; an object that one cluster
/// has. Clusters that gave no answer are named in warnings.
fn merge(answers: Vec<Answered>) -> Result<Merged, ApiError> {
    let (mut lists, mut objects, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for (name, answered) in answers {
        match answered {
            Ok((status, body)) if status.is_success() && body["items"].is_array() => lists.push((name, body)),
            Ok((status, body)) if status.is_success() && body.is_object() => objects.push((name, body)),
            Ok((StatusCode::NOT_FOUND, _)) => {}
            Ok((status, body)) => {
                let said = body["message"].as_str().unwrap_or(status.as_str()).to_owned();
                warnings.push(format!("cluster {name} is left out: {said}"));
            }
            Err(error) => warnings.push(format!("cluster {name} is left out: {}", error.message)),
        }
    }
    let marked = |name: &str, mut object: Value| {
        object["metadata"]["annotations"][CACHED_FROM_CLUSTER] = json!(name);
        object
    };
    let mut lists = lists.into_iter();
    if let Some((first, mut list)) = lists.next() {
        let items = list["items"].take();
        let rest = lists.map(|(name, mut list)| (name, list["items"].take()));
        let all = std::iter::once((first, items)).chain(rest).flat_map(|(name, items)| {
            let items = if let Value::Array(items) = items { items } else { Vec::new() };
            items.into_iter().map(move |item| marked(&name, item))
        });
        list["items"] = all.collect();
        // They are of one member, and no list of all can be continued or watched by them.
        list["metadata"] = json!({"resourceVersion": ""});
        return Ok(Merged { status: StatusCode::OK, body: list, warnings });
    }
    match objects.len() {
        0 => Err(ApiError::new(
            404,
            "NotFound",
            match warnings.is_empty() {
                true => "no cluster has it".to_owned(),
                false => format!("no cluster has it that answers: {}", warnings.join("; ")),
            },
        )),
        1 => {
            let one = objects.pop().map(|(name, object)| marked(&name, object)).unwrap_or_default();
            Ok(Merged { status: StatusCode::OK, body: one, warnings })
        }
        _ => {
            let names: Vec<String> = objects.into_iter().map(|(name, _)| name).collect();
            let message = format!("conflict resource, exist in more than one cluster: {}", names.join(","));
            Err(ApiError::new(409, "Conflict", message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_without_an_end_are_recognized_by_the_query() {
        for (query, want) in [
            ("watch=true", true),
            ("limit=1&watch=1", true),
            ("watch", true),
            ("watch=", true),
            ("%77atch=true", true),
            ("tailLines=1&follow=true", true),
            ("watch=false", false),
            ("watch=0&follow=False", false),
            ("labelSelector=watch%3Dtrue", false),
            ("timeoutSeconds=5", false),
            ("", false),
        ] {
            assert_eq!(is_endless(query), want, "{query}");
        }
    }

    fn ok(name: &str, body: Value) -> Answered {
        (name.to_owned(), Ok((StatusCode::OK, body)))
    }

    fn refused(name: &str, code: u16, message: &str) -> Answered {
        (name.to_owned(), Ok((StatusCode::from_u16(code).unwrap(), json!({"kind": "Status", "message": message}))))
    }

    #[test]
    fn lists_are_merged_and_objects_found() {
        let list = |name: &str, pods: &[&str]| {
            let items: Vec<Value> = pods.iter().map(|pod| json!({"metadata": {"name": pod}})).collect();
            ok(name, json!({"kind": "PodList", "metadata": {"resourceVersion": "7", "continue": "c"}, "items": items}))
        };
        let of = |item: &Value| {
            let origin = item["metadata"]["annotations"][CACHED_FROM_CLUSTER].as_str().unwrap_or("-").to_owned();
            format!("{} of {origin}", item["metadata"]["name"].as_str().unwrap_or("-"))
        };
        let merged = merge(vec![
            list("m1", &["a", "b"]),
            refused("m2", 403, "pods is forbidden"),
            ("m3".to_owned(), Err(unreached("m3", "connection refused"))),
            list("m4", &["a"]),
        ])
        .unwrap();
        let items: Vec<String> = merged.body["items"].as_array().unwrap().iter().map(of).collect();
        assert_eq!(items, ["a of m1", "b of m1", "a of m4"]);
        assert_eq!(
            (&merged.body["kind"], &merged.body["metadata"]),
            (&json!("PodList"), &json!({"resourceVersion": ""}))
        );
        assert_eq!(
            merged.warnings,
            [
                "cluster m2 is left out: pods is forbidden",
                "cluster m3 is left out: cluster m3 does not answer: connection refused"
            ]
        );
        let pod = || json!({"kind": "Pod", "metadata": {"name": "a"}});
        let one = merge(vec![refused("m1", 404, "not found"), ok("m2", pod())]).unwrap();
        assert_eq!(of(&one.body), "a of m2");
        for (name, answers, code, says) in [
            ("no cluster", vec![], 404, "no cluster has it"),
            ("none has it", vec![refused("m1", 404, "not found")], 404, "no cluster has it"),
            ("none may be asked", vec![refused("m1", 403, "forbidden")], 404, "cluster m1 is left out: forbidden"),
            ("several have it", vec![ok("m1", pod()), ok("m2", pod())], 409, "exist in more than one cluster: m1,m2"),
            ("an answer that is no object", vec![ok("m1", json!("<html>"))], 404, "cluster m1 is left out"),
        ] {
            let error = merge(answers).unwrap_err();
            assert!(error.code == code && error.message.contains(says), "{name}: {}", error.message);
        }
    }
}
