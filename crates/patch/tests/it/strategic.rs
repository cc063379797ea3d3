//! Strategic merge patches against the recorded answers.

use ironclad_patch::{
    builtin,
    decode::{self, DecodeError, Decoded},
    error::PatchError,
    strategic,
};
use serde_json::Value;

use crate::compare::same;

static GOLDENS: &str = include_str!("../../data/strategic-goldens.json");

fn answer(before: &Value, body: &Value, strict: bool) -> Result<Value, PatchError> {
    let word = |name: &str| before[name].as_str().unwrap_or_default();
    let (group, version) = word("apiVersion").split_once('/').unwrap_or(("", word("apiVersion")));
    let table = builtin::table();
    let schema = table.kind(group, version, word("kind")).expect("a built-in kind");
    let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
    let patch = match decode::untyped(text.as_bytes()) {
        Ok(Decoded { value, .. }) => value,
        Err(DecodeError::Syntax(text) | DecodeError::Type(text)) => return Err(PatchError::BadRequest(text)),
    };
    let mut decoded = strategic::patched(before.clone(), &patch, table, schema)?;
    if strict && !decoded.strict.is_empty() {
        let message = decode::strict_message(&decoded.strict);
        return Err(PatchError::Invalid { value: strategic::go_print(&patch), message });
    }
    decode::complete(&mut decoded.value, table, schema);
    Ok(decoded.value)
}

#[test]
fn strategic_patches_end_as_on_a_real_server() {
    let cases: Vec<Value> = serde_json::from_str(GOLDENS).expect("a list of cases");
    assert!(cases.len() >= 40);
    let mut wrong = Vec::new();
    for case in &cases {
        let mut object = case["before"].clone();
        for patch in case["patches"].as_array().expect("patches") {
            let strict = patch["path"].as_str().is_some_and(|path| path.contains("Strict"));
            let theirs = &patch["answer"];
            let verdict = match answer(&object, &patch["body"], strict) {
                Ok(ours) if theirs["code"] == 200 => {
                    object = theirs["object"].clone();
                    same(&ours, &theirs["object"], "")
                }
                Ok(ours) => Err(format!("we accept it: {ours}; the server says {}", theirs["status"])),
                Err(error) => {
                    let (status, ours) = (&theirs["status"], error.to_string());
                    let agrees = theirs["code"] == error.code()
                        && status["message"].as_str().is_some_and(|text| text == ours)
                        && status["reason"].as_str().unwrap_or_default() == error.reason();
                    if agrees {
                        Ok(())
                    } else {
                        Err(format!("we refuse it: {} {ours:?}\n  the server: {theirs}", error.code()))
                    }
                }
            };
            if let Err(text) = verdict {
                wrong.push(format!("{}\n  {}\n  {text}", case["name"], patch["body"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
