//! Schema tables: fields, their types, and how lists and maps merge (specification/apiserver.md 28).
//!
//! One table drives decoding, strategic merge patch and server-side apply. [`crate::builtin::table`] has the built-in
//! kinds; a custom resource brings its own ([`crate::structural::Structural::table`]).

use std::collections::BTreeMap;

use serde_json::Value;

/// A schema's place in its [`Table`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchemaId(pub(crate) u32);

/// Group, version and kind. The core group is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk {
    /// `apps`
    pub group: String,
    /// `v1`
    pub version: String,
    /// `Deployment`
    pub kind: String,
}

/// Schemas that refer to each other by [`SchemaId`].
#[derive(Debug, Clone, Default)]
pub struct Table {
    pub(crate) schemas: Vec<Schema>,
    pub(crate) by_name: BTreeMap<String, SchemaId>,
    /// Kind, then group, then version: a lookup needs no owned key.
    pub(crate) by_kind: BTreeMap<String, Vec<(String, String, SchemaId)>>,
}

/// One named type.
#[derive(Debug, Clone)]
pub struct Schema {
    /// `io.k8s.api.apps.v1.DeploymentSpec`
    pub name: String,
    /// Kind of value.
    pub form: Form,
    /// The fields, for [`Form::Object`].
    pub fields: BTreeMap<String, Field>,
    /// Names of fields that validation requires; built-in kinds print them even when empty.
    pub required: Vec<String>,
    /// Kinds of objects with this schema.
    pub kinds: Vec<Gvk>,
    /// Undeclared fields are preserved.
    pub preserve_unknown: bool,
    /// Text for people.
    pub description: Option<String>,
}

/// Representation of a schema's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An object with declared fields.
    Object,
    /// A string or number that is read by [`ironclad_quantity`].
    Quantity,
    /// An integer of 32 bits or a string.
    IntOrString,
    /// RFC 3339 with whole seconds, in UTC.
    Time,
    /// RFC 3339 with microseconds, in UTC.
    MicroTime,
    /// Any object, its members unknown (`RawExtension`, `FieldsV1`).
    AnyObject,
    /// Anything.
    Any,
}

/// A field of a schema.
#[derive(Debug, Clone)]
pub struct Field {
    /// Type of the value.
    pub element: Element,
    /// Treatment by a strategic merge patch.
    pub strategy: Strategy,
    /// Field that identifies the elements of a merged list.
    pub merge_key: Option<String>,
    /// Treatment when it is empty.
    pub printed: Printed,
    /// Text for people.
    pub description: Option<String>,
}

/// Condition under which a field is printed, as in Go's struct tags. A zero value is `""`, 0, `false`, an empty list or
/// map.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Printed {
    /// Whenever it was given, also with a zero value.
    #[default]
    IfGiven,
    /// Unless it has the zero value.
    UnlessZero,
    /// Always: with its zero value if it was not given.
    Always,
    /// Always: as `null` if it was not given.
    AlwaysOrNull,
}

/// `x-kubernetes-patch-strategy`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Strategy {
    /// Lists merge; otherwise they are replaced.
    pub merge: bool,
    /// The value is replaced although it is a map.
    pub replace: bool,
    /// Clients send `$retainKeys`.
    pub retain_keys: bool,
}

/// Type of a value, with the properties of its place.
#[derive(Debug, Clone)]
pub struct Element {
    /// The type.
    pub ty: Type,
    /// `enum`; empty if every value is allowed.
    pub allowed: Vec<String>,
    /// Published default, if it is not Go's zero value.
    pub default: Option<Value>,
    /// `null` is a value (custom resources only).
    pub nullable: bool,
}

/// A type.
#[derive(Debug, Clone)]
pub enum Type {
    /// Text.
    String,
    /// A boolean.
    Boolean,
    /// A whole number.
    Integer {
        /// 32 or 64.
        bits: u8,
    },
    /// Any number.
    Number,
    /// Bytes in base64.
    Bytes,
    /// A named schema.
    Schema {
        /// The schema.
        id: SchemaId,
        /// `true` if an apply owns the value as a whole.
        atomic: bool,
    },
    /// A list.
    List {
        /// Type of the items.
        item: Box<Element>,
        /// Treatment by an apply.
        list: ListType,
    },
    /// An object whose member names are data.
    Map {
        /// Type of the values.
        value: Box<Element>,
        /// `true` if an apply owns the value as a whole.
        atomic: bool,
    },
    /// Anything.
    Any,
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListType {
    /// Owned as a whole.
    Atomic,
    /// Values that occur once.
    Set,
    /// Objects identified by these fields, in the order of declaration.
    Map(Vec<String>),
}

impl Element {
    /// Creates an element with a type and no other properties.
    pub fn of(ty: Type) -> Self {
        Self { ty, allowed: Vec::new(), default: None, nullable: false }
    }
}

impl Table {
    /// The schema of the objects of a kind.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<SchemaId> {
        let of_kind = self.by_kind.get(kind)?;
        of_kind.iter().find(|(g, v, _)| g == group && v == version).map(|(_, _, id)| *id)
    }

    /// The schema of that name.
    pub fn named(&self, name: &str) -> Option<SchemaId> {
        self.by_name.get(name).copied()
    }

    /// The schema itself.
    ///
    /// # Panics
    /// If `id` is of another, larger table.
    pub fn get(&self, id: SchemaId) -> &Schema {
        &self.schemas[id.0 as usize]
    }

    /// All schemas, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (SchemaId, &Schema)> {
        self.by_name.values().map(|id| (*id, self.get(*id)))
    }

    /// Adds a schema, registered by its name and kinds.
    pub(crate) fn add(&mut self, schema: Schema) -> SchemaId {
        let id = SchemaId(u32::try_from(self.schemas.len()).unwrap_or(u32::MAX));
        self.index(id, &schema);
        self.schemas.push(schema);
        id
    }

    /// Reserves an id for a schema that others refer to before it is parsed.
    pub(crate) fn reserve(&mut self, name: &str) -> SchemaId {
        self.add(Schema::empty(name))
    }

    /// Stores a schema under its reserved id.
    pub(crate) fn fill(&mut self, id: SchemaId, schema: Schema) {
        self.index(id, &schema);
        self.schemas[id.0 as usize] = schema;
    }

    fn index(&mut self, id: SchemaId, schema: &Schema) {
        if !schema.name.is_empty() {
            self.by_name.insert(schema.name.clone(), id);
        }
        for gvk in &schema.kinds {
            let place = (gvk.group.clone(), gvk.version.clone(), id);
            self.by_kind.entry(gvk.kind.clone()).or_default().push(place);
        }
    }
}

impl Schema {
    pub(crate) fn empty(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            form: Form::Object,
            fields: BTreeMap::new(),
            required: Vec::new(),
            kinds: Vec::new(),
            preserve_unknown: false,
            description: None,
        }
    }

    /// Name of the type in Go's messages: `v1.DeploymentSpec`.
    pub(crate) fn go_name(&self) -> &str {
        let mut dots = self.name.rmatch_indices('.').map(|(at, _)| at);
        dots.nth(1).map_or(self.name.as_str(), |at| &self.name[at + 1..])
    }

    pub(crate) fn short_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or_default()
    }
}
