//! Entries of `metadata.managedFields`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::set::Set;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) manager: String,
    pub(super) apply: bool,
    /// Empty for appliers: they own across versions.
    pub(super) api_version: String,
    pub(super) subresource: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) set: Set,
    pub(super) api_version: String,
    /// RFC 3339, whole seconds.
    pub(super) time: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entries(pub(super) BTreeMap<Owner, Entry>);

impl Owner {
    pub(super) fn new(manager: &str, apply: bool, api_version: &str, subresource: &str) -> Self {
        Self {
            manager: if manager.is_empty() { "unknown" } else { manager }.to_owned(),
            apply,
            api_version: if apply { String::new() } else { api_version.to_owned() },
            subresource: subresource.to_owned(),
        }
    }

    /// `"m"`, `"m" with subresource "scale"`, `"m" using v1`.
    pub(super) fn print(&self) -> String {
        let mut out = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            out.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if !self.apply {
            out.push_str(&format!(" using {}", self.api_version));
        }
        out
    }
}

impl Entries {
    pub(super) fn of(object: &Value) -> Result<Self, String> {
        Self::read(&object["metadata"]["managedFields"])
    }

    pub(super) fn read(list: &Value) -> Result<Self, String> {
        let mut out = BTreeMap::new();
        for (i, entry) in list.as_array().into_iter().flatten().enumerate() {
            let text = |name: &str| entry[name].as_str().unwrap_or_default();
            let apply = match text("operation") {
                "Apply" => true,
                "Update" => false,
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            let api_version = text("apiVersion");
            if api_version.is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {i}")),
                other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {i}")),
            }
            // An empty manager name is kept.
            let mut owner = Owner::new(text("manager"), apply, api_version, text("subresource"));
            owner.manager = text("manager").to_owned();
            let entry = Entry {
                set: Set::from_fields_v1(&entry["fieldsV1"])?,
                api_version: api_version.to_owned(),
                time: entry["time"].as_str().map(str::to_owned),
            };
            out.insert(owner, entry);
        }
        Ok(Self(out))
    }

    /// Returns the entries in order: appliers first, then by time, those without a time first.
    pub(super) fn write(&self) -> Value {
        let mut sorted: Vec<(&Owner, &Entry)> = self.0.iter().collect();
        sorted.sort_by(|(a, x), (b, y)| {
            let key = |owner: &Owner| (owner.manager.clone(), owner.api_version.clone(), owner.subresource.clone());
            b.apply.cmp(&a.apply).then_with(|| x.time.cmp(&y.time)).then_with(|| key(a).cmp(&key(b)))
        });
        let list = sorted.into_iter().map(|(owner, entry)| {
            let mut out = Map::new();
            if !owner.manager.is_empty() {
                out.insert("manager".to_owned(), json!(owner.manager));
            }
            out.insert("operation".to_owned(), json!(if owner.apply { "Apply" } else { "Update" }));
            out.insert("apiVersion".to_owned(), json!(entry.api_version));
            if let Some(time) = &entry.time {
                out.insert("time".to_owned(), json!(time));
            }
            out.insert("fieldsType".to_owned(), json!("FieldsV1"));
            out.insert("fieldsV1".to_owned(), entry.set.to_fields_v1());
            if !owner.subresource.is_empty() {
                out.insert("subresource".to_owned(), json!(owner.subresource));
            }
            Value::Object(out)
        });
        Value::Array(list.collect())
    }

    /// Writes the entries into an object; without entries the field is removed.
    pub(super) fn put(&self, object: &mut Value) {
        let Value::Object(members) = object else { return };
        let metadata = members.entry("metadata").or_insert_with(|| json!({}));
        let Value::Object(metadata) = metadata else { return };
        if self.0.is_empty() {
            metadata.remove("managedFields");
        } else {
            metadata.insert("managedFields".to_owned(), self.write());
        }
    }
}
