//! Objects in another version by the webhook of their definition, and what such a webhook may change
//! (specification/apiserver.md 18).

use std::{borrow::Cow, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use ironclad_store::{Entry, Event};
use serde_json::{Value, json};

use crate::{
    context::Cx,
    convert::{self, Converter},
    object,
    registry::Resource,
    state::State,
    status::ApiError,
    webhooks::{WebhookCall, address},
};

/// Objects in one review of a conversion webhook.
const OBJECTS_AT_ONCE: usize = 500;
const TIMEOUT: Duration = Duration::from_secs(30);

/// Stored objects as if they had been stored in the request's version: a conversion webhook is asked for all of them
/// at once. Objects that can't be decoded stay as they are.
///
/// # Errors
/// The webhook can't be asked, or its answer is none.
pub(crate) async fn in_version(cx: &Cx, entries: &mut [&mut Entry]) -> Result<(), ApiError> {
    let resource = &*cx.resource;
    if resource.custom().is_none_or(|custom| custom.webhook.is_none()) {
        return Ok(());
    }
    let wanted = resource.api_version();
    let mut converted: Vec<(usize, Value)> = Vec::new();
    for (at, entry) in
        entries.iter().enumerate().filter(|(_, entry)| object::api_version(&entry.value) != Some(&wanted))
    {
        let Ok(value) = object::decode(&entry.value, entry.modified) else { continue };
        if convert::unconverted(resource, &value).is_some() {
            converted.push((at, value));
        }
    }
    for part in converted.chunks(OBJECTS_AT_ONCE) {
        let objects: Vec<&Value> = part.iter().map(|(_, value)| value).collect();
        let answers = ask(&cx.state, resource, &wanted, &objects).await?;
        for ((at, _), answer) in part.iter().zip(answers) {
            entries[*at].value = object::encode(&answer);
        }
    }
    Ok(())
}

/// The same for one object.
pub(crate) async fn one_in_version(cx: &Cx, entry: &Entry) -> Result<Entry, ApiError> {
    let mut entry = entry.clone();
    in_version(cx, &mut [&mut entry]).await?;
    Ok(entry)
}

/// True if a conversion webhook may have to be asked for a state of the event.
pub(crate) fn is_asked_for(resource: &Resource, event: &Event) -> bool {
    if resource.custom().is_none_or(|custom| custom.webhook.is_none()) {
        return false;
    }
    let wanted = resource.api_version();
    let mut states = [&event.entry, &event.previous].into_iter().flatten();
    states.any(|entry| object::api_version(&entry.value) != Some(&wanted))
}

/// The object in the version that is stored.
///
/// # Errors
/// As for [`in_version`].
pub(crate) async fn to_stored<'a>(cx: &Cx, object: &'a Value) -> Result<Cow<'a, Value>, ApiError> {
    let resource = &*cx.resource;
    let version = convert::storage_api_version(resource);
    let Some(custom) = resource.custom().filter(|custom| custom.webhook.is_some()) else {
        return Ok(convert::stored(resource, object));
    };
    let known = |converter: Converter| converter(object, &version)["apiVersion"] == *version;
    if object["apiVersion"] == *version || custom.converter.is_some_and(known) {
        return Ok(convert::stored(resource, object));
    }
    let answers = ask(&cx.state, resource, &version, &[object]).await?;
    answers.into_iter().next().map(Cow::Owned).ok_or_else(|| ApiError::internal("the conversion has no object"))
}

/// One of many stored objects in the request's version: those that can't be decoded are left out and reported.
pub(crate) fn read_or_skip(cx: &Cx, key: &str, entry: &Entry) -> Option<Value> {
    let read = convert::read(&cx.resource, entry);
    if let Err(error) = &read {
        tracing::error!(key, error = error.message, "stored object is left out of a list");
        cx.warn(format!("{key} is left out: {}", error.message));
    }
    read.ok()
}

/// These objects in another version, in the same order.
async fn ask(state: &State, resource: &Resource, wanted: &str, objects: &[&Value]) -> Result<Vec<Value>, ApiError> {
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
