//! Patch of `kubectl apply`: what a manifest adds, changes and, compared with the manifest that was applied last, takes
//! out (specification/apiserver.md 12).

use ironclad_patch::{
    builtin,
    schema::{SchemaId, Table, Type},
};
use ironclad_propagation::template::{self, Identity};
use serde_json::{Map, Value, json};

use super::LAST_APPLIED;

/// Request that applies an object, by what its present state says of earlier applies.
#[derive(Debug, Clone, PartialEq)]
pub enum Apply {
    /// By a server-side apply of this field manager.
    ServerSide {
        /// The manager of the last server-side apply, if there was one.
        manager: Option<String>,
    },
    /// By a strategic merge patch, for built-in kinds.
    Strategic(Value),
    /// By a merge patch, for all others.
    Merge(Value),
}

impl Apply {
    /// Apply of a manifest over the present object, as the client that applied it last does.
    #[must_use]
    pub fn of(present: Option<&Value>, manifest: &Value) -> Self {
        let Some(present) = present else { return Self::ServerSide { manager: None } };
        let last = template::annotation(present, LAST_APPLIED);
        let Ok(last) = serde_json::from_str::<Value>(last) else {
            return Self::ServerSide { manager: last_manager(present) };
        };
        let identity = Identity::of(manifest);
        let gvk = identity.gvk();
        let (table, last) = (builtin::table(), without_annotation(last));
        match table.kind(&gvk.group, &gvk.version, &gvk.kind) {
            Some(schema) => {
                Self::Strategic(members(&last, manifest, &Place::of(table, Some(Position::Schema(schema)))))
            }
            None => Self::Merge(members(&last, manifest, &Place::of(table, None))),
        }
    }
}

/// Manager of the last server-side apply of an object.
fn last_manager(object: &Value) -> Option<String> {
    let entries = object.pointer("/metadata/managedFields")?.as_array()?;
    let text = |entry: &Value, field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let applied = entries.iter().filter(|entry| text(entry, "operation") == "Apply");
    // Controllers of this product apply fields of templates, too.
    let of_users = applied.filter(|entry| !text(entry, "manager").starts_with("ironclad-"));
    of_users.max_by_key(|entry| text(entry, "time")).map(|entry| text(entry, "manager"))
}

fn without_annotation(mut manifest: Value) -> Value {
    if let Some(annotations) = manifest.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    manifest
}

/// Schema of a value, if it is known.
#[derive(Clone, Copy)]
struct Place<'t> {
    table: &'t Table,
    position: Option<Position<'t>>,
}

#[derive(Clone, Copy)]
enum Position<'t> {
    Schema(SchemaId),
    Type(&'t Type),
}

impl<'t> Place<'t> {
    fn of(table: &'t Table, position: Option<Position<'t>>) -> Self {
        Self { table, position }
    }

    fn at(&self, ty: Option<&'t Type>) -> Self {
        Self { table: self.table, position: ty.map(Position::Type) }
    }

    /// The schema of a member, and the field that identifies the elements of a list that is merged.
    fn member(&self, name: &str) -> (Self, Option<&'t str>) {
        let id = match self.position {
            Some(Position::Schema(id)) => id,
            Some(Position::Type(Type::Schema { id, .. })) => *id,
            Some(Position::Type(Type::Map { value, .. })) => return (self.at(Some(&value.ty)), None),
            _ => return (self.at(None), None),
        };
        let Some(field) = self.table.get(id).fields.get(name) else { return (self.at(None), None) };
        let key = field.merge_key.as_deref().filter(|_| field.strategy.merge);
        (self.at(Some(&field.element.ty)), key)
    }

    fn item(&self) -> Self {
        match self.position {
            Some(Position::Type(Type::List { item, .. })) => self.at(Some(&item.ty)),
            _ => self.at(None),
        }
    }
}

/// The manifest, with nulls for members that only the last one had.
fn members(last: &Value, manifest: &Value, place: &Place<'_>) -> Value {
    let (Some(last), Some(members_now)) = (last.as_object(), manifest.as_object()) else { return manifest.clone() };
    let mut patch = Map::new();
    for (name, value) in members_now {
        let (below, merge_key) = place.member(name);
        let value = match (last.get(name), merge_key) {
            (Some(Value::Array(last)), Some(key)) => match value.as_array() {
                Some(items) => elements(last, items, key, &below.item()),
                None => value.clone(),
            },
            (Some(last), _) => members(last, value, &below),
            (None, _) => value.clone(),
        };
        patch.insert(name.clone(), value);
    }
    let removed = last.keys().filter(|name| !members_now.contains_key(*name));
    patch.extend(removed.map(|name| (name.clone(), Value::Null)));
    Value::Object(patch)
}

/// The elements of a merged list, with a directive for each that only the last one had.
fn elements(last: &[Value], items: &[Value], key: &str, place: &Place<'_>) -> Value {
    let same = |a: &Value, b: &Value| a.get(key).is_some() && a.get(key) == b.get(key);
    let mut patch: Vec<Value> = items
        .iter()
        .map(|item| match last.iter().find(|last| same(last, item)) {
            Some(last) => members(last, item, place),
            None => item.clone(),
        })
        .collect();
    let removed = last.iter().filter(|last| !items.iter().any(|item| same(last, item)));
    patch.extend(removed.filter_map(|last| Some(json!({ "$patch": "delete", (key): last.get(key)? }))));
    Value::Array(patch)
}

#[cfg(test)]
mod tests {
    use ironclad_patch::{merge_patch, strategic};

    use super::*;

    /// The object after the manifest was applied over it.
    fn applied(mut present: Value, last: &Value, manifest: &Value) -> Value {
        present["metadata"]["annotations"] = json!({ LAST_APPLIED: last.to_string() });
        match Apply::of(Some(&present), manifest) {
            Apply::Merge(patch) => merge_patch(&mut present, &patch),
            Apply::Strategic(patch) => {
                let gvk = Identity::of(manifest).gvk();
                let schema = builtin::table().kind(&gvk.group, &gvk.version, &gvk.kind).unwrap();
                strategic::apply(&mut present, patch, builtin::table(), schema).unwrap();
            }
            Apply::ServerSide { .. } => panic!("it was applied by a client before"),
        }
        present["metadata"].as_object_mut().unwrap().remove("annotations");
        present
    }

    #[test]
    fn fields_that_left_the_manifest_are_removed_and_those_of_others_stay() {
        let policy = |placement: Value| {
            json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
                "metadata": {"name": "p", "namespace": "shop"}, "spec": {"placement": placement}})
        };
        let mut present = policy(json!({"clusterAffinity": {"clusterNames": ["m1", "m2"]}, "defaulted": 1}));
        present["status"] = json!({"kept": true});
        let last = policy(json!({"clusterAffinity": {"clusterNames": ["m1", "m2"]}}));
        let mut want = policy(json!({"defaulted": 1}));
        want["status"] = json!({"kept": true});
        assert_eq!(applied(present.clone(), &last, &policy(json!({}))), want);
        assert_eq!(applied(present.clone(), &last, &last), present, "the same manifest changes nothing");
    }

    #[test]
    fn elements_that_left_a_merged_list_are_removed() {
        let deployment = |spec: Value, more: Value| {
            let mut spec = json!({"template": {"spec": spec}});
            if !more.is_null() {
                spec["replicas"] = more;
            }
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
        };
        let web = |env: Value| json!({"name": "web", "image": "web:1", "env": env});
        let sidecar = json!({"name": "sidecar", "image": "s:1"});
        let injected = json!({"name": "injected", "image": "i:1"});
        let (a, b) = (json!({"name": "A", "value": "1"}), json!({"name": "B", "value": "2"}));
        let last = deployment(json!({"containers": [web(json!([a, b])), sidecar]}), json!(3));
        let present = deployment(json!({"containers": [web(json!([a, b])), sidecar, injected]}), json!(3));
        let manifest = deployment(json!({"containers": [web(json!([b]))]}), Value::Null);
        let want = deployment(json!({"containers": [web(json!([b])), injected]}), Value::Null);
        assert_eq!(applied(present, &last, &manifest), want);
    }

    #[test]
    fn other_objects_are_applied_by_the_manager_of_the_last_apply() {
        let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
        let managed = |entries: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "managedFields": entries}});
        let entry = |manager: &str, operation: &str, time: &str| json!({"manager": manager, "operation": operation, "time": time});
        for (name, present, want) in [
            ("new", None, None),
            ("never applied", Some(managed(json!([entry("kubectl-create", "Update", "2")]))), None),
            (
                "applied by two",
                Some(managed(json!([
                    entry("argocd", "Apply", "2"),
                    entry("kubectl", "Apply", "3"),
                    entry("x", "Update", "4")
                ]))),
                Some("kubectl"),
            ),
            (
                "a controller of ours applied, too",
                Some(managed(json!([entry("argocd", "Apply", "2"), entry("ironclad-detector", "Apply", "3")]))),
                Some("argocd"),
            ),
        ] {
            let want = Apply::ServerSide { manager: want.map(str::to_owned) };
            assert_eq!(Apply::of(present.as_ref(), &manifest), want, "{name}");
        }
    }
}
