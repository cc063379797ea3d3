//! The parsed schema.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{format::Format, pattern::Pattern};

/// The schema of one value.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// `type`; `None` if any type is allowed, or for int-or-string.
    pub ty: Option<JsonType>,
    /// `null` is a value.
    pub nullable: bool,
    /// Value of the field if it is absent.
    pub default: Option<Value>,
    /// Fields of an object. Boxed, because a map node allocates space for eleven values.
    pub properties: BTreeMap<String, Box<Node>>,
    /// Members of an object that are no fields.
    pub additional: Option<Additional>,
    /// Items of a list.
    pub items: Option<Box<Node>>,
    /// `x-kubernetes-preserve-unknown-fields`
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`
    pub embedded: bool,
    /// `x-kubernetes-int-or-string`
    pub int_or_string: bool,
    /// `x-kubernetes-list-type`
    pub list_type: Option<String>,
    /// `x-kubernetes-list-map-keys`
    pub list_keys: Vec<String>,
    /// `x-kubernetes-map-type`
    pub map_type: Option<String>,
    /// Further constraints on a value.
    pub checks: Checks,
    /// `x-kubernetes-validations`
    pub rules: Vec<Rule>,
    /// It has a `title` or `description`: forbidden inside junctors.
    pub(super) titled: bool,
    pub(super) described: bool,
}

/// `type`
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the words of JSON schema")]
pub enum JsonType {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

impl JsonType {
    /// All types, by name.
    pub(super) const ALL: [(&'static str, Self); 6] = [
        ("array", Self::Array),
        ("boolean", Self::Boolean),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("object", Self::Object),
        ("string", Self::String),
    ];

    /// The word in the schema.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, ty)| *ty == self).map_or("", |(word, _)| word)
    }
}

/// `additionalProperties`
#[derive(Debug, Clone)]
pub enum Additional {
    /// `true` or `false`
    Any(bool),
    /// Values of this schema.
    Of(Box<Node>),
}

/// Value validations.
#[derive(Debug, Clone, Default)]
pub struct Checks {
    /// `format`, if it is enforced for this type.
    pub format: Option<Format>,
    /// `maximum`
    pub maximum: Option<f64>,
    /// `exclusiveMaximum`
    pub exclusive_maximum: bool,
    /// `minimum`
    pub minimum: Option<f64>,
    /// `exclusiveMinimum`
    pub exclusive_minimum: bool,
    /// `maxLength`
    pub max_length: Option<u64>,
    /// `minLength`
    pub min_length: Option<u64>,
    /// `pattern`
    pub pattern: Option<Pattern>,
    /// `maxItems`
    pub max_items: Option<u64>,
    /// `minItems`
    pub min_items: Option<u64>,
    /// `uniqueItems`
    pub unique_items: bool,
    /// `multipleOf`
    pub multiple_of: Option<f64>,
    /// `maxProperties`
    pub max_properties: Option<u64>,
    /// `minProperties`
    pub min_properties: Option<u64>,
    /// `required`
    pub required: Vec<String>,
    /// `enum`
    pub allowed: Vec<Value>,
    /// `allOf`
    pub all_of: Vec<Node>,
    /// `anyOf`
    pub any_of: Vec<Node>,
    /// `oneOf`
    pub one_of: Vec<Node>,
    /// `not`
    pub not: Option<Box<Node>>,
}

/// One of `x-kubernetes-validations`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// The expression.
    pub rule: String,
    /// Message of a failure.
    pub message: Option<String>,
    /// An expression that makes the message.
    pub message_expression: Option<String>,
    /// Cause reason, `FieldValueInvalid` unless given.
    pub reason: Option<String>,
    /// The field to name, relative to the node.
    pub field_path: Option<String>,
    /// `oldSelf` is optional, so that the rule also runs on creation.
    pub optional_old_self: Option<bool>,
}

impl Node {
    /// The schema of a field.
    pub fn property(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).map(|node| &**node)
    }

    /// The schema of a member.
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.property(name).or(match &self.additional {
            Some(Additional::Of(node)) => Some(node),
            _ => None,
        })
    }

    /// Direct child nodes, except those of junctors.
    pub fn children(&self) -> impl Iterator<Item = &Self> {
        let additional = match &self.additional {
            Some(Additional::Of(node)) => Some(&**node),
            _ => None,
        };
        self.properties.values().map(|node| &**node).chain(self.items.as_deref()).chain(additional)
    }

    /// Types as messages name them: `integer,string`. Empty if any type is allowed.
    pub(super) fn type_names(&self) -> &'static str {
        if self.int_or_string { "integer,string" } else { self.ty.map_or("", JsonType::as_str) }
    }
}
