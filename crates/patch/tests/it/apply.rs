//! Server-side apply and field ownership against the recorded answers.

use ironclad_patch::{
    builtin, decode,
    error::PatchError,
    managed::{Applied, Set, Tracker, keep_times},
    schema::{Gvk, SchemaId, Table},
    structural::Structural,
};
use serde_json::{Value, json};

use crate::compare::same;

static GOLDENS: &str = include_str!("../../data/apply-goldens.json");

/// Recordings mask all times, so one value represents each.
const NOW: &str = "2026-01-01T00:00:00Z";

/// The kind of a case, with its schemas and the fields that its endpoints do not write.
struct Kind {
    api_version: String,
    kind: String,
    custom: Option<(Structural, Table, SchemaId)>,
}

impl Kind {
    fn of(case: &Value) -> Self {
        let body = |step: &Value| step["body"]["kind"].as_str().map(|_| step["body"].clone());
        let first = case["patches"].as_array().into_iter().flatten().find_map(body);
        let object = first.unwrap_or_else(|| case["create"]["object"].clone());
        let text = |name: &str| object[name].as_str().expect("a kind").to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let schema = &case["setup"][0]["object"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let custom = schema.is_object().then(|| {
            let (group, version) = api_version.split_once('/').expect("a group");
            let gvk = Gvk { group: group.to_owned(), version: version.to_owned(), kind: kind.clone() };
            let structural = Structural::parse(schema, "").expect("a structural schema");
            let (table, schema) = structural.table(&gvk);
            (structural, table, schema)
        });
        Self { api_version, kind, custom }
    }

    fn table(&self) -> (&Table, SchemaId) {
        match &self.custom {
            Some((_, table, schema)) => (table, *schema),
            None => {
                let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
                let schema = builtin::table().kind(group, version, &self.kind).expect("a built-in kind");
                (builtin::table(), schema)
            }
        }
    }

    fn reset(&self, subresource: &str) -> Set {
        match (self.kind.as_str(), subresource) {
            ("Deployment" | "Foo", "") | ("Service", _) => Set::of_fields(&[&["status"]]),
            ("Deployment", _) => Set::of_fields(&[&["spec"], &["metadata", "labels"]]),
            ("Foo", _) => Set::of_fields(&[&["spec"], &["metadata"]]),
            _ => Set::default(),
        }
    }
}

fn sorted(managed: &Value) -> Vec<String> {
    let mut out: Vec<String> = managed.as_array().into_iter().flatten().map(ToString::to_string).collect();
    out.sort();
    out
}

fn without_managed_fields(object: &Value) -> Value {
    let mut out = object.clone();
    if let Some(metadata) = out["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    out
}

fn step(kind: &Kind, live: Option<&Value>, step: &Value) -> Result<(), String> {
    let path = step["path"].as_str().expect("a path");
    let (place, query) = path.split_once('?').unwrap_or((path, ""));
    let subresource = if place.ends_with("/status") { "status" } else { "" };
    let manager = query.split('&').find_map(|part| part.strip_prefix("fieldManager=")).expect("a manager");
    let (table, schema) = kind.table();
    let reset = kind.reset(subresource);
    let tracker =
        Tracker { table, schema, api_version: &kind.api_version, kind: &kind.kind, subresource, reset: &reset };
    let (theirs, body) = (&step["answer"], &step["body"]);
    if step["type"] != "apply-patch+yaml" {
        let mut new = without_managed_fields(&theirs["object"]);
        if let Some(given) = body["metadata"].get("managedFields") {
            new["metadata"]["managedFields"] = given.clone();
        }
        tracker.update(live, &mut new, manager, NOW);
        return owners(&new, &theirs["object"]);
    }
    match tracker.apply(live, body, manager, query.contains("force=true"), NOW) {
        Ok(Applied { object, .. }) if theirs["code"] == 200 || theirs["code"] == 201 => {
            let mut decoded = decode::value(object, table, schema).map_err(|error| error.to_string())?.value;
            decode::complete(&mut decoded, table, schema);
            if let Some(live) = live {
                keep_times(live, &mut decoded);
            }
            owners(&decoded, &theirs["object"])?;
            if subresource.is_empty() && kind.custom.is_none() {
                let mut ours = without_managed_fields(&decoded);
                ours["status"] = theirs["object"]["status"].clone();
                let mut theirs = without_managed_fields(&theirs["object"]);
                theirs["status"] = ours["status"].clone();
                same(&ours, &theirs, "")?;
            }
            Ok(())
        }
        // Apply succeeds, and the validation after it rejects the object.
        Ok(Applied { object, .. }) if theirs["code"] == 422 => validation_refuses(kind, &object, theirs),
        Ok(applied) => Err(format!("we accept it: {}; the server says {}", applied.object, theirs["status"])),
        Err(error) => refused(&error, theirs),
    }
}

/// Checks that the applied object has exactly the mistakes that the server's validation reports.
fn validation_refuses(kind: &Kind, object: &Value, theirs: &Value) -> Result<(), String> {
    let causes = theirs["status"]["details"]["causes"].as_array().map_or(&[][..], Vec::as_slice);
    let found: Vec<Value> = match &kind.custom {
        Some((structural, ..)) => {
            let mut object = object.clone();
            structural.default(&mut object);
            let mistakes = structural.validate(&object);
            mistakes
                .iter()
                .map(|e| json!({"field": e.field, "message": e.message, "reason": e.reason.as_str()}))
                .collect()
        }
        // Kinds are not validated in this crate, but an absent required field is detected here.
        None => {
            let pointer = |field: &str| format!("/{}", field.replace(['.', '['], "/").replace(']', ""));
            let missing = |cause: &&Value| {
                cause["reason"] == "FieldValueRequired"
                    && object.pointer(&pointer(cause["field"].as_str().unwrap_or_default())).is_none()
            };
            causes.iter().filter(missing).cloned().collect()
        }
    };
    if !causes.is_empty() && found == causes {
        return Ok(());
    }
    Err(format!("the server's validation refuses {causes:?}; in {object} we find {found:?}"))
}

fn owners(ours: &Value, theirs: &Value) -> Result<(), String> {
    let (ours, theirs) = (sorted(&ours["metadata"]["managedFields"]), sorted(&theirs["metadata"]["managedFields"]));
    if ours == theirs {
        return Ok(());
    }
    let lines = |list: &[String], other: &[String]| -> String {
        list.iter().filter(|line| !other.contains(line)).map(|line| format!("\n    {line}")).collect()
    };
    Err(format!("we say{}\n  the server says{}", lines(&ours, &theirs), lines(&theirs, &ours)))
}

fn refused(error: &PatchError, theirs: &Value) -> Result<(), String> {
    let status = &theirs["status"];
    let mut agrees = theirs["code"] == error.code()
        && status["message"].as_str() == Some(&error.to_string())
        && status["reason"].as_str().unwrap_or_default() == error.reason();
    if let PatchError::Conflict { conflicts, .. } = error {
        let causes: Vec<Value> = conflicts
            .iter()
            .map(|conflict| {
                let message = format!("conflict with {}", conflict.manager);
                json!({"reason": "FieldManagerConflict", "message": message, "field": conflict.field})
            })
            .collect();
        agrees &= sorted(&status["details"]["causes"]) == sorted(&Value::Array(causes));
    }
    if agrees {
        Ok(())
    } else {
        Err(format!("we refuse it: {} {:?}\n  the server: {theirs}", error.code(), error.to_string()))
    }
}

#[test]
fn applies_end_as_on_a_real_server() {
    let goldens = GOLDENS.replace("\"TIME\"", &format!("{NOW:?}"));
    let cases: Vec<Value> = serde_json::from_str(&goldens).expect("a list of cases");
    assert!(cases.len() >= 40);
    let (mut wrong, mut steps) = (Vec::new(), 0);
    for case in &cases {
        let kind = Kind::of(case);
        let mut live = Some(case["before"].clone()).filter(Value::is_object);
        if let Some(live) = &live {
            // The create: everything is new.
            let (table, schema) = kind.table();
            let reset = kind.reset("");
            let tracker = Tracker {
                table,
                schema,
                api_version: &kind.api_version,
                kind: &kind.kind,
                subresource: "",
                reset: &reset,
            };
            let path = case["create"]["path"].as_str().expect("a path");
            let manager = path.split_once("fieldManager=").expect("a manager").1;
            let mut new = without_managed_fields(live);
            tracker.update(None, &mut new, manager, NOW);
            if let Err(text) = owners(&new, live) {
                wrong.push(format!("{}: its create\n  {text}", case["name"]));
            }
        }
        for (i, patch) in case["patches"].as_array().expect("patches").iter().enumerate() {
            steps += 1;
            if let Err(text) = step(&kind, live.as_ref(), patch) {
                wrong.push(format!("{} step {i}\n  {}\n  {text}", case["name"], patch["body"]));
            }
            if patch["answer"]["object"].is_object() {
                live = Some(patch["answer"]["object"].clone());
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {steps} steps differ:\n{}", wrong.len(), wrong.join("\n"));
}
