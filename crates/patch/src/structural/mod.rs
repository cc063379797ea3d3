//! Structural schemas of custom resources: pruning, defaulting, validation (specification/apiserver.md 18).
//!
//! A schema is parsed once per version of a CustomResourceDefinition and shared; its regular expressions are compiled
//! with it. A server applies the parts in this order: [`Structural::prune`], [`Structural::drop_nulls`],
//! [`Structural::default`], [`Structural::validate`] or [`Structural::validate_update`], then the CEL rules.
//!
//! CEL rules ([`Node::rules`]) are parsed and checked for form. With feature `cel` they are also evaluated; the first
//! object that needs them compiles them.

mod check;
mod default;
mod format;
mod list_type;
mod node;
mod parse;
mod pattern;
mod prune;
#[cfg(feature = "cel")]
mod rules;
mod to_table;
mod validate;

use serde_json::Value;

use crate::{
    error::FieldError,
    schema::{Gvk, SchemaId, Table},
};

pub use self::{
    format::Format,
    node::{Additional, Checks, JsonType, Node, Rule},
    pattern::Pattern,
};

/// Maximum nesting of a schema.
pub const DEPTH_MAX: usize = 64;

/// Maximum number of nodes of a schema.
pub const NODES_MAX: usize = 50_000;

/// Findings of the validation of an update.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// Errors that reject it.
    pub errors: Vec<FieldError>,
    /// Broken CEL rules of values that did not change: they are tolerated, and the writer is warned.
    pub ratcheted: Vec<FieldError>,
}

impl From<Vec<FieldError>> for Findings {
    fn from(errors: Vec<FieldError>) -> Self {
        Self { errors, ratcheted: Vec::new() }
    }
}

/// The schema of one version of a custom resource.
#[derive(Debug, Clone)]
pub struct Structural {
    root: Node,
    #[cfg(feature = "cel")]
    rules: std::sync::Arc<std::sync::OnceLock<Option<rules::Rules>>>,
}

impl Structural {
    /// Parses `spec.versions[].schema.openAPIV3Schema` and checks that it is structural. `path` is the location of the
    /// schema, and the prefix of fields in errors: `spec.versions[0].schema.openAPIV3Schema`.
    ///
    /// # Errors
    /// All mistakes, sorted by text.
    pub fn parse(schema: &Value, path: &str) -> Result<Self, Vec<FieldError>> {
        let root = parse::parse(schema, path)?;
        let errors = check::check(&root, path);
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Self {
            root,
            #[cfg(feature = "cel")]
            rules: std::sync::Arc::default(),
        })
    }

    /// Returns the mistakes of the CEL rules: compilation errors and excessive cost. `path` as for
    /// [`Structural::parse`].
    #[cfg(feature = "cel")]
    pub fn check_rules(&self, path: &str) -> Vec<FieldError> {
        rules::check(&self.root, path)
    }

    /// Evaluates the CEL rules on an object; `found` are the errors of its schema validation.
    #[cfg(feature = "cel")]
    fn rules(&self, object: &Value, old: Option<&Value>, found: &[FieldError]) -> Findings {
        match self.rules.get_or_init(|| rules::of(&self.root)) {
            Some(rules) => rules::validate(rules, &self.root, object, old, found),
            None => Findings::default(),
        }
    }

    #[cfg(not(feature = "cel"))]
    fn rules(&self, _: &Value, _: Option<&Value>, _: &[FieldError]) -> Findings {
        Findings::default()
    }

    /// The schema of whole objects.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The schema at the end of these field names.
    pub fn field<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Option<&Node> {
        names.into_iter().try_fold(&self.root, |node, name| node.child(name))
    }

    /// Returns `true` if any node has CEL rules.
    pub fn has_rules(&self) -> bool {
        fn any(node: &Node) -> bool {
            !node.rules.is_empty() || node.children().any(any)
        }
        any(&self.root)
    }

    /// Drops fields that the schema doesn't know, and returns their paths in alphabetical order, as strict validation
    /// names them (`unknown field "spec.bogus"`). Top-level `apiVersion`, `kind` and `metadata` stay.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(object, &self.root)
    }

    /// Drops nulls where the schema has neither `nullable` nor a default.
    pub fn drop_nulls(&self, object: &mut Value) {
        default::drop_nulls(object, Some(&self.root));
    }

    /// Sets defaults where fields are missing, or `null` and not nullable.
    pub fn default(&self, object: &mut Value) {
        default::default(object, &self.root);
    }

    /// Validates a new object.
    pub fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = validate::validate(&self.root, object, None);
        errors.extend(validate::embedded(&self.root, object));
        errors.extend(list_type::validate(&self.root, object));
        errors.extend(self.rules(object, None, &errors).errors);
        errors
    }

    /// Validates an update: values that did not change may stay invalid.
    pub fn validate_update(&self, object: &Value, old: &Value) -> Findings {
        let mut errors = validate::validate(&self.root, object, Some(old));
        errors.extend(validate::embedded(&self.root, object));
        if list_type::validate(&self.root, old).is_empty() {
            errors.extend(list_type::validate(&self.root, object));
        }
        let mut rules = self.rules(object, Some(old), &errors);
        errors.append(&mut rules.errors);
        Findings { errors, ratcheted: rules.ratcheted }
    }

    /// Returns the schema as a table, for decoding and server-side apply; `metadata` is the built-in one.
    pub fn table(&self, kind: &Gvk) -> (Table, SchemaId) {
        to_table::to_table(&self.root, kind)
    }
}

#[cfg(test)]
mod tests;
