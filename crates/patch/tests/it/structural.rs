//! Custom resources and their schemas against the recorded answers.

use std::collections::BTreeSet;

use ironclad_patch::{FieldError, structural::Structural};
use serde_json::Value;

use crate::compare::same;

static GOLDENS: &str = include_str!("../../data/structural-goldens.json");

/// Path without the location of the schema, which differs for versions that share it.
const PATH: &str = "spec.validation.openAPIV3Schema";

type Cause = (String, String, String);

fn ours(errors: &[FieldError]) -> BTreeSet<Cause> {
    errors.iter().map(|e| (e.field.clone(), e.reason.as_str().to_owned(), e.message.clone())).collect()
}

fn theirs(status: &Value) -> BTreeSet<Cause> {
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    causes
        .map(|cause| {
            let text = |name: &str| cause[name].as_str().unwrap_or_default().to_owned();
            (text("field").replace("spec.versions[0].schema.openAPIV3Schema", PATH), text("reason"), text("message"))
        })
        .collect()
}

fn differences(ours: &BTreeSet<Cause>, theirs: &BTreeSet<Cause>) -> Result<(), String> {
    // Messages of Go's regular expressions differ from ours.
    let comparable = |causes: &BTreeSet<Cause>| -> BTreeSet<Cause> {
        let cut = |message: &str| message.split("but isn't: ").next().unwrap_or_default().to_owned();
        causes.iter().map(|(field, reason, message)| (field.clone(), reason.clone(), cut(message))).collect()
    };
    let (ours, theirs) = (comparable(ours), comparable(theirs));
    if ours == theirs {
        return Ok(());
    }
    Err(format!("only we: {:?}\n  only the server: {:?}", &ours - &theirs, &theirs - &ours))
}

fn instance(schema: &Structural, object: &Value, answer: &Value) -> Result<(), String> {
    let mut object = object.clone();
    schema.prune(&mut object);
    schema.drop_nulls(&mut object);
    schema.default(&mut object);
    let errors = ours(&schema.validate(&object));
    if answer["code"] == 201 {
        let mut theirs = answer["object"].clone();
        if let Some(metadata) = theirs["metadata"].as_object_mut() {
            metadata.remove("generation");
        }
        differences(&errors, &BTreeSet::new())?;
        return same(&object, &theirs, "");
    }
    differences(&errors, &theirs(&answer["status"]))
}

fn schema(object: &Value, answer: &Value) -> Result<(), String> {
    let schema = &object["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let errors = Structural::parse(schema, PATH).err().unwrap_or_default();
    differences(&ours(&errors), &theirs(&answer["status"]))
}

#[test]
fn custom_resources_are_treated_as_on_a_real_server() {
    let cases: Vec<Value> = serde_json::from_str(GOLDENS).expect("a list of cases");
    let (mut wrong, mut steps) = (Vec::new(), 0);
    for case in &cases {
        let of_case = &case["setup"][0]["object"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let of_case = of_case.is_object().then(|| Structural::parse(of_case, PATH).expect("a structural schema"));
        for patch in case["patches"].as_array().expect("patches") {
            steps += 1;
            let (object, answer) = (&patch["body"], &patch["answer"]);
            let verdict = match &of_case {
                Some(of_case) => instance(of_case, object, answer),
                None => schema(object, answer),
            };
            if let Err(text) = verdict {
                let what = if of_case.is_some() { &object["spec"] } else { &object["spec"]["versions"][0]["schema"] };
                wrong.push(format!("{}: {what}\n  {text}", case["name"]));
            }
        }
    }
    assert!(steps >= 100);
    assert!(wrong.is_empty(), "{} of {steps} differ:\n{}", wrong.len(), wrong.join("\n"));
}
