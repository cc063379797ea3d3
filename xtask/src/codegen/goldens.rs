//! Answers of a real kube-apiserver to the patches that the golden tests of crate `patch` list.
//!
//! A file `NAME-goldens.json` is a list of cases. A case has `name`; perhaps `setup`, objects that all cases share and
//! that remain (`{path, object, then}`: `then` is a path that answers once it works); perhaps `create` (`{path,
//! object}`); and `patches` (`{method, path, type, body}`: `PATCH` unless given, `body` a value or a string sent as it
//! is). Recording puts beside them `before` and, for each patch, `answer` (`{code, object}` or `{code, status}`).

use std::{collections::BTreeMap, fs, path::Path, thread, time::Duration};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::server::{Answer, Server};

/// The files with cases, and `true` for those about `managedFields`.
const FILES: [(&str, bool); 3] =
    [("strategic-goldens.json", false), ("apply-goldens.json", true), ("structural-goldens.json", false)];

/// Attempts to read the `then` of a `setup`, a tenth of a second apart.
const SETUP_TRIES: u32 = 100;

/// Records the cases of all files again. The server must be new: objects are identified by their names.
pub(super) fn record(server: &Server, data: &Path) -> anyhow::Result<BTreeMap<&'static str, Value>> {
    let mut out = BTreeMap::new();
    for (name, managed) in FILES {
        let path = data.join(name);
        if !path.exists() {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("{} can't be read", path.display()))?;
        let mut cases: Vec<Value> = serde_json::from_str(&text).with_context(|| format!("{name} is a list"))?;
        for (i, case) in cases.iter_mut().enumerate() {
            let label = case["name"].as_str().unwrap_or_default().to_owned();
            record_case(server, &format!("{}-{i}", name.replace("-goldens.json", "")), case, managed)
                .with_context(|| format!("case {label:?} of {name}"))?;
        }
        out.insert(name, Value::Array(cases));
    }
    Ok(out)
}

fn record_case(server: &Server, namespace: &str, case: &mut Value, managed: bool) -> anyhow::Result<()> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}).to_string();
    server.ask("POST", "/api/v1/namespaces", "application/json", Some(&body))?;
    let place = |path: &Value| -> anyhow::Result<String> {
        Ok(path.as_str().context("a case has a path")?.replace("NAMESPACE", namespace))
    };
    for setup in case["setup"].as_array().into_iter().flatten() {
        let (path, then) = (place(&setup["path"])?, place(&setup["then"])?);
        server.ask("POST", &path, "application/json", Some(&setup["object"].to_string()))?;
        let works = (0..SETUP_TRIES).any(|_| {
            thread::sleep(Duration::from_millis(100));
            server.ask("GET", &then, "", None).is_ok_and(|answer| answer.code == 200)
        });
        if !works {
            bail!("{then} did not work in time");
        }
    }
    let create = case["create"].clone();
    if !create.is_null() {
        let path = place(&create["path"])?;
        let answer = server.ask("POST", &path, "application/json", Some(&create["object"].to_string()))?;
        if answer.code != 201 {
            bail!("creating its object answered {}: {}", answer.code, answer.body);
        }
        case["before"] = normal(answer.body, namespace, managed);
    }
    let mut name = String::new();
    for patch in case["patches"].as_array_mut().context("a case has patches")? {
        let path = place(&patch["path"])?;
        let kind = patch["type"].as_str().context("a patch has a type")?.to_owned();
        let body = match &patch["body"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        name.clone_from(&path);
        let method = patch["method"].as_str().unwrap_or("PATCH").to_owned();
        let answer = server.ask(&method, &path, &format!("application/{kind}"), Some(&body))?;
        patch["answer"] = record_answer(answer, namespace, managed);
    }
    if !name.is_empty() && case["keep"].is_null() {
        let plain = name.split('?').next().unwrap_or_default();
        server.ask("DELETE", plain, "application/json", Some(r#"{"propagationPolicy":"Background"}"#))?;
    }
    Ok(())
}

fn record_answer(answer: Answer, namespace: &str, managed: bool) -> Value {
    let body = normal(answer.body, namespace, managed);
    let member = if body["kind"] == "Status" { "status" } else { "object" };
    json!({"code": answer.code, member: body})
}

/// Masks values that differ from run to run: identities, times, and the order of errors (Go's maps) and of
/// `managedFields`.
fn normal(mut body: Value, namespace: &str, managed: bool) -> Value {
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        for member in ["uid", "resourceVersion", "creationTimestamp"] {
            metadata.remove(member);
        }
        if !managed {
            metadata.remove("managedFields");
        }
        if let Some(list) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) {
            for time in list.iter_mut().filter_map(|entry| entry.get_mut("time")) {
                *time = json!("TIME");
            }
            list.sort_by_key(Value::to_string);
        }
    }
    let details = body.get_mut("details").and_then(|details| details.get_mut("causes"));
    if let Some(causes) = details.and_then(Value::as_array_mut)
        && causes.len() > 1
    {
        causes.sort_by_key(Value::to_string);
        if body["reason"] == "Invalid" {
            body["message"] = json!("SEVERAL");
        }
    }
    let text = body.to_string().replace(namespace, "NAMESPACE");
    serde_json::from_str(&text).unwrap_or(body)
}
