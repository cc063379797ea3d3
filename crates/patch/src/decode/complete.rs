//! Fields that Kubernetes prints although they are not set: `status: {}`, `resources: {}`, `rules: null`.

use serde_json::{Map, Value};

use crate::schema::{Element, Form, Printed, SchemaId, Table, Type};

/// Adds these fields to a decoded object, at every level.
pub fn complete(object: &mut Value, table: &Table, schema: SchemaId) {
    let schema = table.get(schema);
    let Value::Object(members) = object else { return };
    if schema.form != Form::Object {
        return;
    }
    for (name, field) in &schema.fields {
        match (members.get_mut(name), field.printed) {
            (Some(value), _) => element(value, table, &field.element),
            (None, Printed::Always) => {
                members.insert(name.clone(), zero(table, &field.element.ty));
            }
            (None, Printed::AlwaysOrNull) => {
                members.insert(name.clone(), Value::Null);
            }
            (None, Printed::IfGiven | Printed::UnlessZero) => {}
        }
    }
}

fn element(value: &mut Value, table: &Table, of: &Element) {
    match (value, &of.ty) {
        (value, Type::Schema { id, .. }) => complete(value, table, *id),
        (Value::Array(items), Type::List { item, .. }) => items.iter_mut().for_each(|i| element(i, table, item)),
        (Value::Object(members), Type::Map { value, .. }) => {
            members.values_mut().for_each(|v| element(v, table, value))
        }
        _ => {}
    }
}

fn zero(table: &Table, ty: &Type) -> Value {
    match ty {
        Type::String => Value::from(""),
        Type::Boolean => Value::from(false),
        Type::Integer { .. } | Type::Number => Value::from(0),
        Type::Bytes | Type::List { .. } | Type::Map { .. } | Type::Any => Value::Null,
        Type::Schema { id, .. } => match table.get(*id).form {
            Form::Object => {
                let mut out = Value::Object(Map::new());
                complete(&mut out, table, *id);
                out
            }
            Form::Quantity => Value::from("0"),
            Form::IntOrString => Value::from(0),
            Form::Time | Form::MicroTime | Form::AnyObject | Form::Any => Value::Null,
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::builtin;

    #[test]
    fn completed_fields() {
        for (group, name, mut object, want) in [
            ("", "ConfigMap", json!({}), json!({"metadata": {}})),
            ("rbac.authorization.k8s.io", "Role", json!({}), json!({"metadata": {}, "rules": null})),
            (
                "apps",
                "Deployment",
                json!({"spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "c"}]}}}}),
                json!({
                    "metadata": {},
                    "spec": {
                        "selector": {},
                        "strategy": {},
                        "template": {"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {}}]}},
                    },
                    "status": {},
                }),
            ),
            (
                "policy",
                "PodDisruptionBudget",
                json!({}),
                json!({
                    "metadata": {},
                    "spec": {},
                    "status": {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0},
                }),
            ),
        ] {
            let schema = builtin::table().kind(group, "v1", name).expect(name);
            complete(&mut object, builtin::table(), schema);
            assert_eq!(object, want, "{name}");
        }
    }
}
