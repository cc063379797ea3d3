//! Parts of a CRD besides its schema.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceStatus,
    CustomResourceSubresources, CustomResourceValidation,
};
use serde_json::{Value, json};

use super::structural;
use crate::{
    ObjectMeta,
    schema::{Kind, KindInfo},
};

/// The usual last column.
pub(super) const AGE: [&str; 3] = ["AGE", ".metadata.creationTimestamp", "date"];

/// One version of a kind, to build a CRD from.
pub(super) struct Definition {
    info: KindInfo,
    singular: &'static str,
    short: Option<&'static str>,
    category: Option<&'static str>,
    columns: Vec<CustomResourceColumnDefinition>,
    subresources: Option<CustomResourceSubresources>,
    /// Further versions with the same schema.
    also: &'static [&'static str],
    schema: Value,
}

impl Definition {
    /// A kind without short name, category, columns and subresources.
    pub(super) fn of<K: Kind>(singular: &'static str) -> Self {
        Self {
            info: K::INFO,
            singular,
            short: None,
            category: None,
            columns: Vec::new(),
            subresources: None,
            also: &[],
            schema: structural::root_schema::<K>(),
        }
    }

    pub(super) fn short(mut self, name: &'static str) -> Self {
        self.short = Some(name);
        self
    }

    /// Serves it by these names of versions, too, without conversion.
    pub(super) fn also(mut self, versions: &'static [&'static str]) -> Self {
        self.also = versions;
        self
    }

    pub(super) fn category(mut self, category: &'static str) -> Self {
        self.category = Some(category);
        self
    }

    pub(super) fn with_status(mut self) -> Self {
        let status = Some(CustomResourceSubresourceStatus(json!({})));
        self.subresources = Some(CustomResourceSubresources { scale: None, status });
        self
    }

    /// An empty stanza, as Karmada's CRDs of these kinds have.
    pub(super) fn with_empty_subresources(mut self) -> Self {
        self.subresources = Some(CustomResourceSubresources::default());
        self
    }

    /// Columns by name, path and type.
    pub(super) fn columns(mut self, columns: &[[&str; 3]]) -> Self {
        self.columns.extend(columns.iter().map(column));
        self
    }

    /// Columns of the wide output only.
    pub(super) fn wide_columns(mut self, columns: &[[&str; 3]]) -> Self {
        let wide = |of: &[&str; 3]| CustomResourceColumnDefinition { priority: Some(1), ..column(of) };
        self.columns.extend(columns.iter().map(wide));
        self
    }

    /// Adds a CEL rule at a path of the schema.
    pub(super) fn rule(mut self, place: &[&str], rule: &str, message: &str) -> Self {
        let schema = self.at(place);
        schema["x-kubernetes-validations"] = json!([{ "rule": rule, "message": message }]);
        self
    }

    /// Lets the reasons of status conditions be empty.
    pub(super) fn with_empty_reasons(mut self) -> Self {
        let reason = self.at(&["status", "conditions"]).pointer_mut("/items/properties/reason");
        let reason = reason.and_then(Value::as_object_mut).expect("the kind has conditions");
        reason.remove("minLength");
        reason.insert("pattern".to_owned(), json!("^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?)?$"));
        self
    }

    /// Removes a property from the schema.
    pub(super) fn without(mut self, place: &[&str], property: &str) -> Self {
        let properties = self.at(place)["properties"].as_object_mut().expect("our schemas of objects have properties");
        properties.remove(property).expect("only properties that are there are taken out");
        self
    }

    fn at(&mut self, place: &[&str]) -> &mut Value {
        place.iter().fold(&mut self.schema, |schema, property| {
            schema.pointer_mut(&format!("/properties/{property}")).expect("the place is in the schema")
        })
    }

    /// This version, in a CRD of its own.
    pub(super) fn crd(&self) -> CustomResourceDefinition {
        let stored = self.version();
        let also = |name: &&str| CustomResourceDefinitionVersion {
            name: (*name).to_owned(),
            storage: false,
            ..stored.clone()
        };
        let also: Vec<_> = self.also.iter().map(also).collect();
        self.crd_with(std::iter::once(stored).chain(also).collect())
    }

    /// These versions of the kind, without conversion.
    pub(super) fn crd_with(&self, versions: Vec<CustomResourceDefinitionVersion>) -> CustomResourceDefinition {
        CustomResourceDefinition {
            metadata: ObjectMeta {
                name: Some(format!("{}.{}", self.info.plural, self.info.group)),
                ..ObjectMeta::default()
            },
            spec: CustomResourceDefinitionSpec {
                conversion: Some(CustomResourceConversion { strategy: "None".to_owned(), webhook: None }),
                group: self.info.group.to_owned(),
                names: CustomResourceDefinitionNames {
                    categories: self.category.map(|category| vec![category.to_owned()]),
                    kind: self.info.kind.to_owned(),
                    list_kind: Some(format!("{}List", self.info.kind)),
                    plural: self.info.plural.to_owned(),
                    short_names: self.short.map(|short| vec![short.to_owned()]),
                    singular: Some(self.singular.to_owned()),
                },
                preserve_unknown_fields: None,
                scope: self.info.scope.as_str().to_owned(),
                versions,
            },
            status: None,
        }
    }

    /// The version in a CRD, served and stored.
    pub(super) fn version(&self) -> CustomResourceDefinitionVersion {
        CustomResourceDefinitionVersion {
            additional_printer_columns: (!self.columns.is_empty()).then(|| self.columns.clone()),
            name: self.info.version.to_owned(),
            schema: Some(CustomResourceValidation {
                open_api_v3_schema: Some(
                    serde_json::from_value(self.schema.clone()).expect("what was derived is a schema"),
                ),
            }),
            served: true,
            storage: true,
            subresources: self.subresources.clone(),
            ..CustomResourceDefinitionVersion::default()
        }
    }
}

fn column([name, path, type_]: &[&str; 3]) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        json_path: (*path).to_owned(),
        name: (*name).to_owned(),
        type_: (*type_).to_owned(),
        ..CustomResourceColumnDefinition::default()
    }
}
