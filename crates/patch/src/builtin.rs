//! The built-in kinds: schemas and resources as a real kube-apiserver publishes them.
//!
//! The data is made by `cargo xtask codegen openapi` and expanded once per process, at first use.

use std::{
    collections::BTreeMap,
    io::Read,
    sync::{LazyLock, OnceLock},
};

use serde::Deserialize;
use serde_json::Value;

use crate::schema::{Element, Field, Form, Gvk, ListType, Printed, Schema, SchemaId, Strategy, Table, Type};

static SCHEMAS: &[u8] = include_bytes!("../data/kubernetes-schemas.json.gz");
static RESOURCES: &str = include_str!("../data/kubernetes-resources.json");

static TABLE: OnceLock<(Table, String)> = OnceLock::new();

/// The schemas of all built-in kinds, shared by all servers of a process.
pub fn table() -> &'static Table {
    &expanded().0
}

/// The version of the server that the table was derived from, `v1.36.3`.
pub fn version() -> &'static str {
    &expanded().1
}

fn expanded() -> &'static (Table, String) {
    TABLE.get_or_init(|| {
        let mut text = String::new();
        flate2::read::GzDecoder::new(SCHEMAS)
            .read_to_string(&mut text)
            .expect("the data in the tree is gzipped JSON, a test reads it");
        let raw: RawTable = serde_json::from_str(&text).expect("the data in the tree has this form, a test reads it");
        let version = raw.version.clone();
        (raw.expand(), version)
    })
}

/// A resource as discovery describes it (specification/apiserver.md 4, 27).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resource {
    /// Empty for the core group.
    pub group: String,
    /// `v1`
    pub version: String,
    /// Plural, `deployments`.
    pub resource: String,
    /// `deployment`
    pub singular: String,
    /// `Deployment`
    pub kind: String,
    /// `true` if the objects are namespaced.
    pub namespaced: bool,
    /// Verbs, in the order of discovery.
    pub verbs: Vec<String>,
    /// `deploy`
    #[serde(default)]
    pub short_names: Vec<String>,
    /// `all`, `api-extensions`
    #[serde(default)]
    pub categories: Vec<String>,
    /// Eight bytes in base64, for stored resources.
    #[serde(default)]
    pub storage_version_hash: Option<String>,
    /// `status`, `scale`, …
    #[serde(default)]
    pub subresources: Vec<Subresource>,
}

/// A subresource of a [`Resource`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subresource {
    /// `scale`
    pub name: String,
    /// `Scale`
    pub kind: String,
    /// The group of that kind, if it differs from the resource's.
    #[serde(default)]
    pub group: Option<String>,
    /// The version of that kind, if it differs from the resource's.
    #[serde(default)]
    pub version: Option<String>,
    /// Verbs, in the order of discovery.
    pub verbs: Vec<String>,
}

/// Returns all built-in resources: groups in the order of `/apis` after the core group, their resources by name.
pub fn resources() -> &'static [Resource] {
    static ALL: LazyLock<Vec<Resource>> =
        LazyLock::new(|| serde_json::from_str(RESOURCES).expect("the data in the tree has this form, a test reads it"));
    &ALL
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTable {
    version: String,
    schemas: BTreeMap<String, RawSchema>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSchema {
    #[serde(default, rename = "f")]
    fields: Option<BTreeMap<String, RawField>>,
    #[serde(default, rename = "q")]
    required: Vec<String>,
    #[serde(default, rename = "g")]
    kinds: Vec<(String, String, String)>,
    #[serde(default, rename = "m")]
    map_type: Option<String>,
    #[serde(default, rename = "t")]
    ty: Option<String>,
    #[serde(default, rename = "n")]
    format: Option<String>,
    #[serde(default, rename = "u")]
    either: Vec<String>,
    #[serde(default, rename = "d")]
    description: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawField {
    #[serde(default, rename = "r")]
    reference: Option<String>,
    #[serde(default, rename = "t")]
    ty: Option<String>,
    #[serde(default, rename = "n")]
    format: Option<String>,
    #[serde(default, rename = "i")]
    items: Option<Box<RawField>>,
    #[serde(default, rename = "a")]
    values: Option<Box<RawField>>,
    #[serde(default, rename = "e")]
    allowed: Vec<String>,
    #[serde(default, rename = "v")]
    default: Option<Value>,
    #[serde(default, rename = "l")]
    list_type: Option<String>,
    #[serde(default, rename = "k")]
    list_keys: Vec<String>,
    #[serde(default, rename = "m")]
    map_type: Option<String>,
    #[serde(default, rename = "s")]
    strategy: Option<String>,
    #[serde(default, rename = "p")]
    merge_key: Option<String>,
    #[serde(default, rename = "o")]
    printed: Option<String>,
    #[serde(default, rename = "d")]
    description: Option<String>,
}

impl RawTable {
    fn expand(self) -> Table {
        let mut table = Table::default();
        for name in self.schemas.keys() {
            table.reserve(name);
        }
        let atomic: BTreeMap<String, bool> = self
            .schemas
            .iter()
            .map(|(name, schema)| (name.clone(), schema.map_type.as_deref() == Some("atomic")))
            .collect();
        let resolve = |name: &str| Some((table.named(name)?, atomic.get(name).copied().unwrap_or(false)));
        let filled: Vec<(SchemaId, Schema)> = self
            .schemas
            .into_iter()
            .filter_map(|(name, raw)| Some((table.named(&name)?, raw.expand(name, &resolve))))
            .collect();
        for (id, schema) in filled {
            table.fill(id, schema);
        }
        table
    }
}

/// Lists that are left out when they are empty, and whose defaults tell an empty one from an absent one: an empty one
/// is kept, so that it is refused as a kube-apiserver refuses it.
const TOLD_APART: [(&str, &str); 1] = [("io.k8s.api.autoscaling.v2.HPAScalingRules", "policies")];

impl RawSchema {
    fn expand(self, name: String, resolve: &dyn Fn(&str) -> Option<(SchemaId, bool)>) -> Schema {
        let form = self.form(&name);
        let mut fields = self.fields.unwrap_or_default();
        for (of, field) in TOLD_APART {
            if name == of
                && let Some(field) = fields.get_mut(field)
            {
                field.printed = None;
            }
        }
        Schema {
            form,
            fields: fields.into_iter().map(|(name, field)| (name, field.expand(resolve))).collect(),
            required: self.required,
            kinds: self.kinds.into_iter().map(|(group, version, kind)| Gvk { group, version, kind }).collect(),
            preserve_unknown: false,
            description: self.description,
            name,
        }
    }

    fn form(&self, name: &str) -> Form {
        match (name.rsplit('.').next().unwrap_or_default(), self.format.as_deref()) {
            (_, Some("int-or-string")) => Form::IntOrString,
            ("MicroTime", Some("date-time")) => Form::MicroTime,
            (_, Some("date-time")) => Form::Time,
            ("Quantity", _) if !self.either.is_empty() => Form::Quantity,
            ("RawExtension" | "FieldsV1" | "Patch", _) if self.fields.is_none() => Form::AnyObject,
            _ if self.ty.as_deref() == Some("object") => Form::Object,
            _ => Form::Any,
        }
    }
}

impl RawField {
    fn expand(self, resolve: &dyn Fn(&str) -> Option<(SchemaId, bool)>) -> Field {
        let strategy = self.strategy.as_deref().unwrap_or_default();
        let has = |word: &str| strategy.split(',').any(|part| part == word);
        Field {
            strategy: Strategy { merge: has("merge"), replace: has("replace"), retain_keys: has("retainKeys") },
            merge_key: self.merge_key.clone(),
            printed: match self.printed.as_deref() {
                Some("z") => Printed::UnlessZero,
                Some("a") => Printed::Always,
                Some("n") => Printed::AlwaysOrNull,
                _ => Printed::IfGiven,
            },
            description: self.description.clone(),
            element: self.element(resolve),
        }
    }

    fn element(self, resolve: &dyn Fn(&str) -> Option<(SchemaId, bool)>) -> Element {
        let of_items = |items: Option<Box<Self>>| match items {
            Some(items) => Box::new(items.element(resolve)),
            None => Box::new(Element::of(Type::Any)),
        };
        let list = match self.list_type.as_deref() {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(self.list_keys),
            _ => ListType::Atomic,
        };
        let ty = match (self.reference.as_deref(), self.ty.as_deref(), self.format.as_deref()) {
            (Some(name), _, _) => match resolve(name) {
                Some((id, atomic)) => {
                    let atomic = self.map_type.as_deref().map_or(atomic, |map_type| map_type == "atomic");
                    Type::Schema { id, atomic }
                }
                None => Type::Any,
            },
            (None, Some("string"), Some("byte")) => Type::Bytes,
            (None, Some("string"), _) => Type::String,
            (None, Some("boolean"), _) => Type::Boolean,
            (None, Some("integer"), Some("int32")) => Type::Integer { bits: 32 },
            (None, Some("integer"), _) => Type::Integer { bits: 64 },
            (None, Some("number"), _) => Type::Number,
            (None, Some("array"), _) => Type::List { item: of_items(self.items), list },
            (None, Some("object"), _) => {
                Type::Map { value: of_items(self.values), atomic: self.map_type.as_deref() == Some("atomic") }
            }
            _ => Type::Any,
        };
        Element { ty, allowed: self.allowed, default: self.default, nullable: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_what_patches_need() {
        let table = table();
        assert_eq!(version(), "v1.36.3");
        let deployment = table.get(table.kind("apps", "v1", "Deployment").expect("Deployment"));
        assert_eq!(deployment.go_name(), "v1.Deployment");
        let pod_spec = table.get(table.named("io.k8s.api.core.v1.PodSpec").expect("PodSpec"));
        let containers = &pod_spec.fields["containers"];
        assert_eq!((containers.strategy.merge, containers.merge_key.as_deref()), (true, Some("name")));
        assert!(
            matches!(&containers.element.ty, Type::List { list: ListType::Map(keys), .. } if keys == &["name".to_owned()])
        );
        assert!(matches!(pod_spec.fields["nodeSelector"].element.ty, Type::Map { atomic: true, .. }));
        assert!(pod_spec.fields["volumes"].strategy.retain_keys);
        let container = table.get(table.named("io.k8s.api.core.v1.Container").expect("Container"));
        let Type::List { item, list } = &container.fields["ports"].element.ty else { panic!("ports is a list") };
        assert_eq!(*list, ListType::Map(vec!["containerPort".to_owned(), "protocol".to_owned()]));
        let Type::Schema { id, .. } = item.ty else { panic!("of objects") };
        let protocol = &table.get(id).fields["protocol"].element;
        assert_eq!(protocol.default, Some(Value::from("TCP")));
        assert_eq!(protocol.allowed, ["SCTP", "TCP", "UDP"]);
        for (name, form) in [
            ("io.k8s.apimachinery.pkg.api.resource.Quantity", Form::Quantity),
            ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", Form::IntOrString),
            ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", Form::Time),
            ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", Form::MicroTime),
            ("io.k8s.apimachinery.pkg.runtime.RawExtension", Form::AnyObject),
            ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", Form::Any),
        ] {
            assert_eq!(table.get(table.named(name).expect(name)).form, form, "{name}");
        }
    }

    #[test]
    fn empty_lists_are_kept_where_defaults_tell_them_from_absent_ones() {
        let autoscaler = table().kind("autoscaling", "v2", "HorizontalPodAutoscaler").expect("a built-in kind");
        let spec = serde_json::json!({"behavior": {"scaleUp": {"policies": []}, "scaleDown": {"policies": null}}, "metrics": []});
        let decoded = crate::decode::value(serde_json::json!({ "spec": spec }), table(), autoscaler).unwrap();
        let behavior = serde_json::json!({"scaleUp": {"policies": []}, "scaleDown": {}});
        assert_eq!(decoded.value["spec"], serde_json::json!({ "behavior": behavior }));
        for (schema, field) in TOLD_APART {
            let schema = table().get(table().named(schema).expect(schema));
            assert_eq!(schema.fields[field].printed, Printed::IfGiven, "{field}");
        }
    }

    #[test]
    fn every_resource_has_a_schema() {
        for resource in resources() {
            let found = table().kind(&resource.group, &resource.version, &resource.kind);
            assert!(found.is_some() || resource.kind == "Eviction", "{} {}", resource.group, resource.kind);
            for sub in &resource.subresources {
                let group = sub.group.as_deref().unwrap_or(&resource.group);
                let version = sub.version.as_deref().unwrap_or(&resource.version);
                // The options of these are query parameters, not bodies.
                let options = sub.kind.ends_with("ProxyOptions") || sub.kind.starts_with("Pod") && sub.kind != "Pod";
                assert!(table().kind(group, version, &sub.kind).is_some() || options, "{} {}", resource.kind, sub.kind);
            }
        }
        let deployments = resources().iter().find(|r| r.resource == "deployments").expect("deployments");
        assert_eq!(deployments.short_names, ["deploy"]);
        assert_eq!(deployments.categories, ["all"]);
        assert_eq!(deployments.subresources.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["scale", "status"]);
    }
}
