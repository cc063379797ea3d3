//! Conversion webhooks of CRDs: objects in another version, and what such a webhook may change
//! (specification/apiserver.md 18).

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    object,
    registry::Resource,
    state::State,
    status::ApiError,
    webhooks::{WebhookCall, address},
};

const TIMEOUT: Duration = Duration::from_secs(30);
/// Versions of the review that can be sent, the best first.
pub(crate) const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

/// The conversion webhook of a CRD.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConversionWebhook {
    /// The CRD's name.
    pub(crate) name: String,
    client: Value,
    review: &'static str,
}

impl ConversionWebhook {
    /// The webhook of a CRD, if its strategy is to have one.
    pub(crate) fn of(crd: &Value) -> Option<Self> {
        let conversion = crd.pointer("/spec/conversion").filter(|c| c["strategy"] == "Webhook")?;
        let versions = conversion.pointer("/webhook/conversionReviewVersions").and_then(Value::as_array);
        let review = versions.into_iter().flatten().find_map(|v| REVIEWS.into_iter().find(|known| *v == **known))?;
        let client = conversion.pointer("/webhook/clientConfig")?.clone();
        Some(Self { name: object::meta_str(crd, "name").to_owned(), client, review })
    }
}

/// These objects in another version, in the same order.
pub(crate) async fn ask(
    state: &State,
    resource: &Resource,
    wanted: &str,
    objects: &[&Value],
) -> Result<Vec<Value>, ApiError> {
    let failed = |why: String| {
        ApiError::internal(format!(
            "conversion webhook for {}, Kind={} failed: {why}",
            resource.api_version(),
            resource.kind
        ))
    };
    let Some(webhook) = resource.custom().and_then(|custom| custom.webhook.as_ref()) else {
        return Err(failed("there is none".to_owned()));
    };
    let timed = |base: &str| {
        let separator = if base.contains('?') { '&' } else { '?' };
        format!("{base}{separator}timeout={}s", TIMEOUT.as_secs())
    };
    let (base, server_name) =
        address(state, &webhook.client).map_err(|(base, why)| failed(format!("Post {:?}: {why}", timed(&base))))?;
    let url = timed(&base);
    let Some(caller) = &state.options.webhooks else {
        return Err(failed(format!("Post {url:?}: this server calls no webhooks")));
    };
    let uid = state.seam.rng.stream("reviews").uuid();
    let api_version = format!("apiextensions.k8s.io/{}", webhook.review);
    let request = json!({"uid": uid, "desiredAPIVersion": wanted, "objects": objects});
    let review = json!({"apiVersion": api_version, "kind": "ConversionReview", "request": request});
    let bundle = webhook.client["caBundle"].as_str().filter(|b| !b.is_empty());
    let call = WebhookCall {
        url: url.clone(),
        server_name,
        ca_bundle: bundle.and_then(|b| STANDARD.decode(b).ok()),
        body: Bytes::from(review.to_string()),
        timeout: TIMEOUT,
    };
    let answer = match tokio::time::timeout(TIMEOUT, caller.call(call)).await {
        Ok(answer) => answer.map_err(failed)?,
        Err(_) => return Err(failed(format!("Post {url:?}: context deadline exceeded"))),
    };
    converted(&answer, &uid, wanted, objects).map_err(failed)
}

/// The objects in an answer. Of metadata, a webhook may change labels and annotations only.
fn converted(answer: &[u8], uid: &str, wanted: &str, objects: &[&Value]) -> Result<Vec<Value>, String> {
    let mut review: Value = serde_json::from_slice(answer).map_err(|e| format!("invalid answer: {e}"))?;
    let response = &mut review["response"];
    if response["uid"] != uid {
        return Err(format!("expected response.uid={uid:?}, got {}", response["uid"]));
    }
    if response["result"]["status"] != "Success" {
        let why = response["result"]["message"].as_str().filter(|m| !m.is_empty());
        return Err(why.unwrap_or("its answer has no message").to_owned());
    }
    let Value::Array(answers) = response["convertedObjects"].take() else {
        return Err("its answer has no convertedObjects".to_owned());
    };
    if answers.len() != objects.len() {
        return Err(format!("expected {} converted objects, got {}", objects.len(), answers.len()));
    }
    let pairs = answers.into_iter().zip(objects).enumerate();
    pairs
        .map(|(i, (answer, before))| checked(answer, before, wanted).map_err(|why| format!("object {i}: {why}")))
        .collect()
}

fn checked(mut answer: Value, before: &Value, wanted: &str) -> Result<Value, String> {
    if answer["apiVersion"] != wanted || answer["kind"] != before["kind"] {
        let (version, kind) = (&answer["apiVersion"], &answer["kind"]);
        return Err(format!("expected {wanted}, Kind={}, got {version}, Kind={kind}", before["kind"]));
    }
    for key in ["name", "namespace", "uid"] {
        let (is, was) = (object::meta_str(&answer, key), object::meta_str(before, key));
        if is != was {
            return Err(format!("metadata.{key} was changed from {was:?} to {is:?}"));
        }
    }
    let mut metadata = object::metadata(before).clone();
    for key in ["labels", "annotations"] {
        match object::metadata(&answer).get(key).filter(|v| v.is_object()) {
            Some(value) => metadata.insert(key.to_owned(), value.clone()),
            None => metadata.remove(key),
        };
    }
    answer["metadata"] = Value::Object(metadata);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_converts_and_keeps_identity() {
        let object = json!({"apiVersion": "t.io/v1", "kind": "Foo", "metadata": {"name": "a", "uid": "u", "labels": {"a": "b"},
                            "finalizers": ["x"]}, "spec": {"a": 1}});
        let good = json!({"apiVersion": "t.io/v2", "kind": "Foo", "metadata": {"name": "a", "uid": "u", "annotations": {"c": "d"},
                          "finalizers": []}, "spec": {"b": 1}});
        let with = |pointer: &str, value: Value| {
            let mut changed = good.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            vec![changed]
        };
        for (name, uid, status, objects, want) in [
            ("an answer", "1", "Success", vec![good.clone()], Ok(())),
            ("of another review", "2", "Success", vec![good.clone()], Err("expected response.uid=\"1\", got \"2\"")),
            ("a failure", "1", "Failure", vec![good.clone()], Err("sorry")),
            ("too few", "1", "Success", vec![], Err("expected 1 converted objects, got 0")),
            (
                "another version",
                "1",
                "Success",
                with("/apiVersion", json!("t.io/v1")),
                Err("object 0: expected t.io/v2, Kind=\"Foo\", got \"t.io/v1\", Kind=\"Foo\""),
            ),
            (
                "another name",
                "1",
                "Success",
                with("/metadata/name", json!("b")),
                Err("object 0: metadata.name was changed from \"a\" to \"b\""),
            ),
        ] {
            let response =
                json!({"uid": uid, "result": {"status": status, "message": "sorry"}, "convertedObjects": objects});
            let answer = json!({"response": response}).to_string();
            let got = converted(answer.as_bytes(), "1", "t.io/v2", &[&object]);
            assert_eq!(got.as_ref().map(|_| ()).map_err(String::as_str), want, "{name}");
            if let Ok(converted) = got {
                assert_eq!(converted[0]["spec"], json!({"b": 1}));
                let metadata = json!({"name": "a", "uid": "u", "annotations": {"c": "d"}, "finalizers": ["x"]});
                assert_eq!(converted[0]["metadata"], metadata, "labels and annotations only");
            }
        }
    }
}
