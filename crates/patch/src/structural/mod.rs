//! Structural schemas of custom resources: pruning, defaulting, validation (apiserver.md 18).
//!
//! A schema is parsed once per version of a CustomResourceDefinition and then shared; its regular expressions are
//! compiled with it. The order in which a server uses the parts:
//! [`Structural::prune`], [`Structural::drop_nulls`], [`Structural::default`], [`Structural::validate`] or
//! [`Structural::validate_update`], then the CEL rules.
//!
//! CEL rules ([`Node::rules`]) are parsed, their form is checked, and they are kept; with feature `cel` they are evaluated
//! too, compiled when the first object needs them.

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

/// How deep a schema may nest.
pub const DEPTH_MAX: usize = 64;

/// How many nodes a schema may have.
pub const NODES_MAX: usize = 50_000;

/// The schema of one version of a custom resource.
#[derive(Debug, Clone)]
pub struct Structural {
    root: Node,
    #[cfg(feature = "cel")]
    rules: std::sync::Arc<std::sync::OnceLock<Option<rules::Rules>>>,
}

impl Structural {
    /// Reads `spec.versions[].schema.openAPIV3Schema` and checks that it is structural. `path` is where it stands and
    /// begins the fields of errors: `spec.versions[0].schema.openAPIV3Schema`.
    ///
    /// # Errors
    /// Everything that is wrong with it, ordered by text.
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

    /// What is wrong with the CEL rules: what doesn't compile, and what may cost too much. `path` as for
    /// [`Structural::parse`].
    #[cfg(feature = "cel")]
    #[must_use]
    pub fn check_rules(&self, path: &str) -> Vec<FieldError> {
        rules::check(&self.root, path)
    }

    /// What the CEL rules say of an object whose schema said `found`.
    #[cfg(feature = "cel")]
    fn rules(&self, object: &Value, old: Option<&Value>, found: &[FieldError]) -> Vec<FieldError> {
        match self.rules.get_or_init(|| rules::of(&self.root)) {
            Some(rules) => rules::validate(rules, &self.root, object, old, found),
            None => vec![],
        }
    }

    #[cfg(not(feature = "cel"))]
    fn rules(&self, _: &Value, _: Option<&Value>, _: &[FieldError]) -> Vec<FieldError> {
        vec![]
    }

    /// The schema of whole objects.
    #[must_use]
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The schema at the end of these field names.
    #[must_use]
    pub fn field<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Option<&Node> {
        names.into_iter().try_fold(&self.root, |node, name| node.child(name))
    }

    /// Whether a node anywhere has CEL rules.
    #[must_use]
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

    /// Puts defaults where fields are missing, or `null` and not nullable.
    pub fn default(&self, object: &mut Value) {
        default::default(object, &self.root);
    }

    /// What is wrong with a new object.
    #[must_use]
    pub fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = validate::validate(&self.root, object, None);
        errors.extend(validate::embedded(&self.root, object));
        errors.extend(list_type::validate(&self.root, object));
        errors.extend(self.rules(object, None, &errors));
        errors
    }

    /// What is wrong with an update: values that did not change may stay wrong.
    #[must_use]
    pub fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = validate::validate(&self.root, object, Some(old));
        errors.extend(validate::embedded(&self.root, object));
        if list_type::validate(&self.root, old).is_empty() {
            errors.extend(list_type::validate(&self.root, object));
        }
        errors.extend(self.rules(object, Some(old), &errors));
        errors
    }

    /// The same schema as a table of its own, for decoding and server-side apply; `metadata` is the built-in one.
    #[must_use]
    pub fn table(&self, kind: &Gvk) -> (Table, SchemaId) {
        to_table::to_table(&self.root, kind)
    }
}

#[cfg(test)]
mod tests;
