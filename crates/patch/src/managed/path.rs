//! Paths to fields; list items are identified by their keys rather than their index.

use std::{cmp::Ordering, fmt};

use serde_json::{Map, Number, Value};

/// One step from an object or list to what it contains.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// A field of an object: `f:name`.
    Field(String),
    /// The item of a list whose key fields have these values, by name: `k:{"name":"a"}`.
    Key(Vec<(String, Scalar)>),
    /// A member of a set: `v:"a"`.
    Member(Scalar),
    /// An item of a list by its index: `i:0`.
    Index(i64),
}

/// A value as part of a path, with a total order: numbers, texts, truth values, lists, objects, null.
#[derive(Debug, Clone)]
pub struct Scalar(pub Value);

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |value: &Value| match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        };
        match (&self.0, &other.0) {
            (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Array(_) | Value::Object(_), Value::Array(_) | Value::Object(_)) => {
                rank(&self.0).cmp(&rank(&other.0)).then_with(|| self.0.to_string().cmp(&other.0.to_string()))
            }
            (a, b) => rank(a).cmp(&rank(b)),
        }
    }
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default()),
    }
}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scalar {}

impl Element {
    /// A field by its name.
    pub fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    /// Returns the member name in `fieldsV1`.
    pub fn to_fields_v1(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => {
                let members: Map<String, Value> =
                    keys.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect();
                format!("k:{}", Value::Object(members))
            }
            Self::Member(value) => format!("v:{}", value.0),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Parses a member name in `fieldsV1`; `None` for unknown kinds of elements.
    ///
    /// # Errors
    /// The element is malformed.
    pub fn from_fields_v1(name: &str) -> Result<Option<Self>, String> {
        let Some((kind, rest)) = name.split_once(':') else {
            return Err(format!("key must be 2 characters long and begin with a letter and a colon: {name:?}"));
        };
        let json = || serde_json::from_str::<Value>(rest).map_err(|error| format!("{name:?}: {error}"));
        Ok(Some(match kind {
            "f" => Self::Field(rest.to_owned()),
            "k" => match json()? {
                Value::Object(members) => {
                    Self::Key(members.into_iter().map(|(name, value)| (name, Scalar(value))).collect())
                }
                _ => return Err(format!("{name:?} is no object")),
            },
            "v" => Self::Member(Scalar(json()?)),
            "i" => Self::Index(rest.parse().map_err(|_| format!("{name:?} is no index"))?),
            _ => return Ok(None),
        }))
    }
}

/// `.name`, `[name="a"]`, `[="a"]`, `[0]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                f.write_str("[")?;
                for (i, (name, value)) in keys.iter().enumerate() {
                    write!(f, "{}{name}={}", if i == 0 { "" } else { "," }, value.0)?;
                }
                f.write_str("]")
            }
            Self::Member(value) => write!(f, "[={}]", value.0),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A path in one string.
pub fn print(path: &[Element]) -> String {
    path.iter().map(ToString::to_string).collect()
}
