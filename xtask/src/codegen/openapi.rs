//! The compact table of the built-in kinds (specification/apiserver.md 28): the parts that decoding, patches and apply
//! need of OpenAPI.
//!
//! Names are short, since they occur thousands of times:
//!
//! | of a schema | | of a field or an item | |
//! | --- | --- | --- | --- |
//! | `f` | fields by name | `r` | name of another schema |
//! | `q` | names of required fields | `t`, `n` | type, format |
//! | `g` | `[group, version, kind]` list | `i` | item of a list |
//! | `m` | map type | `a` | value of a map |
//! | `t`, `n`, `u` | type, format; `u` if either of several types | `e`, `v` | allowed values, default |
//! | | | `l`, `k`, `m` | list type, list keys, map type |
//! | | | `s`, `p` | patch strategy, patch merge key |
//! | | | `o` | when empty: `z` left out, `a` printed always, `n` printed always, as `null`; else printed if given |
//!
//! Descriptions are in a separate file, which the server opens only when a client requests them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

use super::{go_source::Sources, server::Server};

/// File of descriptions, relative to the other files.
const DESCRIPTIONS: &str = "../../apiserver/data/kubernetes-descriptions.json.gz";

const REFERENCE: &str = "#/components/schemas/";

/// The files to write, by name.
pub(super) fn derive(server: &Server, mut sources: Sources) -> anyhow::Result<BTreeMap<&'static str, Value>> {
    let version = server.get("/version")?["gitVersion"].clone();
    let index = server.get("/openapi/v3")?;
    let documents = index["paths"].as_object().context("the index of OpenAPI has paths")?;
    let mut schemas: BTreeMap<String, Value> = BTreeMap::new();
    let mut kinds: BTreeMap<String, BTreeSet<Vec<String>>> = BTreeMap::new();
    let mut texts: BTreeMap<String, Value> = BTreeMap::new();
    for (path, document) in documents {
        let url = document["serverRelativeURL"].as_str().with_context(|| format!("{path} has an address"))?;
        let document = server.get(url)?;
        let Some(of_document) = document["components"]["schemas"].as_object() else { continue };
        for (name, schema) in of_document {
            let derived = derive_schema(schema).with_context(|| format!("schema {name} of {path}"))?;
            if schemas.get(name).is_some_and(|known| *known != derived) {
                bail!("{path} has another schema of the name {name}");
            }
            schemas.insert(name.clone(), derived);
            texts.insert(name.clone(), descriptions(schema));
            for gvk in schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
                let word = |member: &str| gvk[member].as_str().unwrap_or_default().to_owned();
                kinds.entry(name.clone()).or_default().insert(vec![word("group"), word("version"), word("kind")]);
            }
        }
    }
    for (name, schema) in &mut schemas {
        let Some(fields) = schema.get_mut("f").and_then(Value::as_object_mut) else { continue };
        let declared = sources.fields(name)?;
        for (field_name, field) in fields {
            let go = declared.get(field_name).with_context(|| format!("{name} has no field {field_name} in Go"))?;
            let is_struct = field.get("r").is_some();
            let printed = match (go.pointer, go.omit_empty) {
                (true, true) => continue,
                (true, false) => "n",
                (false, _) if go.omit_zero => "z",
                (false, true) if !is_struct => "z",
                (false, _) => "a",
            };
            field["o"] = json!(printed);
        }
    }
    for (name, kinds) in kinds {
        schemas.entry(name).and_modify(|schema| schema["g"] = json!(kinds));
    }
    Ok(BTreeMap::from([
        ("kubernetes-schemas.json.gz", json!({"version": version, "schemas": schemas})),
        ("kubernetes-resources.json", resources(server)?),
        (DESCRIPTIONS, json!(texts)),
    ]))
}

/// Descriptions of a schema and its fields: the fields by name, the schema itself under the empty name.
fn descriptions(schema: &Value) -> Value {
    let mut out = Map::new();
    put(&mut out, "", schema.get("description"));
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        put(&mut out, name, property.get("description"));
    }
    Value::Object(out)
}

fn derive_schema(schema: &Value) -> anyhow::Result<Value> {
    let mut out = Map::new();
    put(&mut out, "t", schema.get("type"));
    put(&mut out, "n", schema.get("format"));
    put(&mut out, "m", schema.get("x-kubernetes-map-type"));
    put(&mut out, "q", schema.get("required"));
    if let Some(either) = schema.get("oneOf").and_then(Value::as_array) {
        out.insert("u".to_owned(), either.iter().map(|one| one["type"].clone()).collect());
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let mut fields = Map::new();
        for (name, property) in properties {
            fields.insert(name.clone(), derive_field(property).with_context(|| format!("field {name}"))?);
        }
        out.insert("f".to_owned(), Value::Object(fields));
    }
    Ok(Value::Object(out))
}

fn derive_field(field: &Value) -> anyhow::Result<Value> {
    let mut out = Map::new();
    let reference = match field.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([one]) => one.get("$ref"),
        Some(_) => bail!("allOf with other than one element"),
        None => field.get("$ref"),
    };
    if let Some(reference) = reference.and_then(Value::as_str) {
        let name = reference.strip_prefix(REFERENCE).with_context(|| format!("reference {reference}"))?;
        out.insert("r".to_owned(), json!(name));
    }
    put(&mut out, "t", field.get("type"));
    put(&mut out, "n", field.get("format"));
    put(&mut out, "e", field.get("enum"));
    put(&mut out, "l", field.get("x-kubernetes-list-type"));
    put(&mut out, "k", field.get("x-kubernetes-list-map-keys"));
    put(&mut out, "m", field.get("x-kubernetes-map-type"));
    put(&mut out, "s", field.get("x-kubernetes-patch-strategy"));
    put(&mut out, "p", field.get("x-kubernetes-patch-merge-key"));
    if let Some(default) = field.get("default").filter(|default| !is_zero(default)) {
        out.insert("v".to_owned(), default.clone());
    }
    if let Some(items) = field.get("items") {
        out.insert("i".to_owned(), derive_field(items)?);
    }
    if let Some(values) = field.get("additionalProperties") {
        out.insert("a".to_owned(), derive_field(values)?);
    }
    Ok(Value::Object(out))
}

/// Returns `true` for Go's zero values: such defaults are left out.
fn is_zero(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value == "" || value == 0 || *value == Value::Null
}

fn put(out: &mut Map<String, Value>, name: &str, value: Option<&Value>) {
    if let Some(value) = value {
        out.insert(name.to_owned(), value.clone());
    }
}

/// Returns every resource of every built-in group, in the order of discovery, with its subresources.
fn resources(server: &Server) -> anyhow::Result<Value> {
    let mut versions = vec![(String::new(), "v1".to_owned(), "/api/v1".to_owned())];
    for group in server.get("/apis")?["groups"].as_array().context("groups")? {
        for version in group["versions"].as_array().context("versions of a group")? {
            let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let path = format!("/apis/{}", word(&version["groupVersion"]));
            versions.push((word(&group["name"]), word(&version["version"]), path));
        }
    }
    let mut out: Vec<Value> = Vec::new();
    for (group, version, path) in versions {
        let list = server.get(&path)?;
        let list = list["resources"].as_array().context("resources of a group version")?;
        let (subresources, tops): (Vec<_>, Vec<_>) =
            list.iter().partition(|resource| resource["name"].as_str().unwrap_or_default().contains('/'));
        for top in tops {
            let name = top["name"].as_str().context("name of a resource")?;
            let mut resource = json!({"group": group, "version": version, "resource": name});
            for (ours, theirs) in [
                ("kind", "kind"),
                ("singular", "singularName"),
                ("namespaced", "namespaced"),
                ("verbs", "verbs"),
                ("shortNames", "shortNames"),
                ("categories", "categories"),
                ("storageVersionHash", "storageVersionHash"),
            ] {
                if let Some(value) = top.get(theirs) {
                    resource[ours] = value.clone();
                }
            }
            let of_it = subresources.iter().filter_map(|sub| {
                let sub_name = sub["name"].as_str()?.strip_prefix(name)?.strip_prefix('/')?;
                let mut out = json!({"name": sub_name, "kind": sub["kind"], "verbs": sub["verbs"]});
                for member in ["group", "version"] {
                    if let Some(value) = sub.get(member) {
                        out[member] = value.clone();
                    }
                }
                Some(out)
            });
            let of_it: Vec<Value> = of_it.collect();
            if !of_it.is_empty() {
                resource["subresources"] = Value::Array(of_it);
            }
            out.push(resource);
        }
    }
    Ok(Value::Array(out))
}
