//! Fields of a kind by its structural schema, and values that fit them.

use serde_json::{Map, Value, json};

/// Depth at which a walk ends; no schema of ours is deeper.
const DEPTH_MAX: usize = 24;

/// One step into an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    /// The first item of a list.
    First,
}

/// A field, with the schemas of the steps that lead to it.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) steps: Vec<Step>,
    pub(super) schema: Value,
}

impl Field {
    pub(super) fn path(&self) -> String {
        let mut path = String::new();
        for step in &self.steps {
            match step {
                Step::Key(key) => path.extend([".", key.as_str()]),
                Step::First => path.push_str("[0]"),
            }
        }
        path
    }

    /// Name of the innermost field: that of the list for its items.
    pub(super) fn name(&self) -> &str {
        let mut keys = self.steps.iter().rev().filter_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::First => None,
        });
        keys.next().unwrap_or_default()
    }

    pub(super) fn kind(&self) -> &str {
        kind(&self.schema)
    }
}

/// Type of a value; "any" where everything fits.
fn kind(schema: &Value) -> &str {
    if schema["x-kubernetes-int-or-string"] == true {
        return "quantity";
    }
    schema["type"].as_str().unwrap_or("any")
}

/// All fields below `root`, objects and lists among them.
pub(super) fn fields(schema: &Value, root: &str) -> Vec<Field> {
    let mut out = Vec::new();
    walk(schema, vec![Step::Key(root.to_owned())], &mut out);
    out
}

fn walk(schema: &Value, steps: Vec<Step>, out: &mut Vec<Field>) {
    if steps.len() > DEPTH_MAX {
        return;
    }
    let below = |step: Step| steps.iter().cloned().chain([step]).collect::<Vec<_>>();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(property, below(Step::Key(name.clone())), out);
    }
    if schema["additionalProperties"].is_object() {
        walk(&schema["additionalProperties"], below(Step::Key("entry".to_owned())), out);
    }
    if schema["items"].is_object() {
        walk(&schema["items"], below(Step::First), out);
    }
    out.push(Field { steps: steps.clone(), schema: schema.clone() });
}

/// Sets a field, making what leads to it with all that is required there.
pub(super) fn set(object: &mut Value, schema: &Value, steps: &[Step], value: Value) {
    let Some((step, rest)) = steps.split_first() else {
        *object = value;
        return;
    };
    match step {
        Step::Key(key) => {
            let schema = match &schema["properties"][key] {
                Value::Null => &schema["additionalProperties"],
                property => property,
            };
            if !object.is_object() {
                *object = json!({});
            }
            let child = &mut object[key.as_str()];
            if child.is_null() && !rest.is_empty() {
                *child = harmless(key, schema);
            }
            set(child, schema, rest, value);
        }
        Step::First => {
            if !object.is_array() {
                *object = json!([]);
            }
            let list = object.as_array_mut().expect("just made");
            if list.is_empty() {
                list.push(harmless("", &schema["items"]));
            }
            set(&mut list[0], &schema["items"], rest, value);
        }
    }
}

/// A value with all that is required, which refers to the tenant's own objects.
pub(super) fn harmless(name: &str, schema: &Value) -> Value {
    if let Some(allowed) = schema["enum"].as_array() {
        let first = allowed.iter().find(|one| **one != "");
        return first.cloned().unwrap_or_default();
    }
    match kind(schema) {
        "string" => json!(match name {
            "apiVersion" => "v1",
            "kind" => "ConfigMap",
            "name" => super::OWN_NAME,
            "namespace" => super::OWN,
            "clusterName" | "fromCluster" => "member1",
            "schedule" => "*/5 * * * *",
            "operator" => "Exists",
            "effect" => "NoExecute",
            "reason" => "Reason",
            "lastTransitionTime" | "startTime" | "timeAdded" => "2026-01-01T00:00:00Z",
            "status" => "True",
            "path" => "/data/k",
            _ => "x",
        }),
        "integer" | "number" => schema["minimum"].as_f64().map_or(json!(1), |least| json!(least.max(1.0) as i64)),
        "boolean" => json!(false),
        "quantity" => json!("1"),
        "array" => match schema["minItems"].as_u64() {
            Some(least) if least > 0 => json!([harmless(name, &schema["items"])]),
            _ => json!([]),
        },
        "object" => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let of = |key: &str| (key.to_owned(), harmless(key, &schema["properties"][key]));
            Value::Object(required.map(of).collect::<Map<_, _>>())
        }
        _ => json!({}),
    }
}
