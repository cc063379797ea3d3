//! Apply configurations of admission policies: merged as those of server-side apply, but nobody owns their fields
//! (specification/apiserver.md 21).

use serde_json::Value;

use super::{
    Tracker, merge,
    path::Element,
    typed::{self, List, Ref, Relation, Shape},
};

impl Tracker<'_> {
    /// Merges the configuration of a policy into an object. Its `apiVersion` and `kind` are the object's.
    ///
    /// # Errors
    /// If it does not fit the schema, or names lists or maps that are replaced whole.
    pub fn configure(&self, object: &Value, config: &Value) -> Result<Value, String> {
        let mut config = config.clone();
        for key in ["apiVersion", "kind"] {
            if let Some(value) = object.get(key) {
                config[key] = value.clone();
            }
        }
        let of = Ref::of(self.table, self.schema);
        let misfits = of.misfits(&config, false);
        if !misfits.is_empty() {
            return Err(format!("failed to convert patch object to typed object: {}", typed::print(&misfits)));
        }
        let mut atomics = Vec::new();
        find_atomics(of, &config, "", &mut atomics);
        if !atomics.is_empty() {
            let atomics = atomics.join(", ");
            return Err(format!(
                "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {atomics}"
            ));
        }
        Ok(merge::merge(of, object, &config))
    }
}

/// Collects the paths of lists and maps that are replaced whole.
fn find_atomics(of: Ref<'_>, value: &Value, path: &str, out: &mut Vec<String>) {
    match (of.shape(Some(value)), value) {
        (Shape::Map(map), Value::Object(members)) => {
            if map.atomic {
                out.push(path.to_owned());
            }
            for (name, member) in members.iter().filter(|(name, _)| map.is_field(name)) {
                if let Some(of) = map.member(name) {
                    find_atomics(of, member, &format!("{path}.{name}"), out);
                }
            }
        }
        (Shape::List(List { item, relation }), Value::Array(items)) => {
            if relation == Relation::Atomic {
                out.push(path.to_owned());
            }
            for (i, member) in items.iter().enumerate() {
                find_atomics(item, member, &format!("{path}{}", Element::Index(i as i64)), out);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{builtin, managed::Set};

    #[test]
    fn configurations_merge_along_types() {
        let table = builtin::table();
        let schema = table.kind("apps", "v1", "Deployment").expect("the table has Deployments");
        let reset = Set::default();
        let tracker =
            Tracker { table, schema, api_version: "apps/v1", kind: "Deployment", subresource: "", reset: &reset };
        let pod = |pod: Value| json!({"spec": {"template": {"spec": pod}}});
        let mut live = pod(json!({"containers": [{"name": "a", "image": "x", "args": ["1"]}, {"name": "b"}]}));
        live["apiVersion"] = json!("apps/v1");
        live["kind"] = json!("Deployment");
        for (name, config, want) in [
            (
                "nothing",
                json!({}),
                Ok(pod(json!({"containers": [{"name": "a", "image": "x", "args": ["1"]}, {"name": "b"}]}))),
            ),
            (
                "an item by its key",
                pod(json!({"containers": [{"name": "b", "image": "y"}]})),
                Ok(pod(
                    json!({"containers": [{"name": "a", "image": "x", "args": ["1"]}, {"name": "b", "image": "y"}]}),
                )),
            ),
            (
                "an atomic list",
                pod(json!({"containers": [{"name": "a", "args": ["2"]}]})),
                Err(
                    "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.template.spec.containers[0].args",
                ),
            ),
            (
                "a field that does not exist",
                json!({"spec": {"none": 1}}),
                Err("failed to convert patch object to typed object: .spec.none: field not declared in schema"),
            ),
        ] {
            let got = tracker.configure(&live, &config).map(|mut merged| {
                merged.as_object_mut().expect("an object").retain(|key, _| key == "spec");
                merged
            });
            assert_eq!(got, want.map_err(str::to_owned), "{name}");
        }
    }
}
