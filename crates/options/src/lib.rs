//! Tables of options: a field stands in its table once, with its default, help, rule and the ways in which it is given.
//!
//! [`options!`] makes the struct of an area. A command line makes its flags of [`Table::FIELDS`], and [`announced`] is
//! the form in which a leader tells them.

mod duration;

use std::time::Duration;

use ironclad_patch::FieldError;
use jiff::SignedDuration;
use serde_json::{Value as Json, json};

pub use duration::in_words;

/// The options of an area.
pub trait Table: Default + 'static {
    /// Heading of their flags.
    const HEADING: &'static str;
    /// The fields that have a flag, in the order of the help.
    const FIELDS: &'static [Field<Self>];

    /// Errors of the fields that break their rules.
    fn faults(&self) -> Vec<FieldError> {
        let fault = |field: &Field<Self>| {
            let value = (field.get)(self);
            let fault = field.rule?.broken_by(&value)?;
            let json = match value {
                Value::Duration(Some(duration)) => json!(in_words(duration)),
                other => other.json(),
            };
            Some(FieldError::invalid(flag(field.name), &json, fault))
        };
        Self::FIELDS.iter().filter_map(fault).collect()
    }
}

/// The flag of a field, which errors name.
#[must_use]
pub fn flag(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}

/// Value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A rate or a share.
    F64(f64),
    /// A number.
    I32(i32),
    /// A number from 0 on.
    U32(u32),
    /// A duration; `None` follows another flag.
    Duration(Option<Duration>),
    /// One of several words.
    Word(String),
    /// Any words.
    Words(Vec<String>),
}

impl Value {
    /// The value as a leader announces it.
    #[must_use]
    pub fn json(&self) -> Json {
        match self {
            Self::Bool(is) => json!(is),
            // JSON has no such numbers.
            Self::F64(number) if !number.is_finite() => json!(number.to_string()),
            Self::F64(number) => json!(number),
            Self::I32(number) => json!(number),
            Self::U32(number) => json!(number),
            Self::Duration(duration) => json!(duration.map(|duration| duration.as_secs_f64())),
            Self::Word(word) => json!(word),
            Self::Words(words) => json!(words),
        }
    }

    /// Reads a value of the same type.
    fn read(&self, json: &Json) -> Option<Self> {
        // What is announced is read from the control plane: a number that is no duration is taken for none.
        let duration = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        Some(match self {
            Self::Bool(_) => Self::Bool(json.as_bool()?),
            Self::F64(_) => Self::F64(json.as_f64()?),
            Self::I32(_) => Self::I32(json.as_i64()?.try_into().ok()?),
            Self::U32(_) => Self::U32(json.as_u64()?.try_into().ok()?),
            Self::Duration(_) => Self::Duration(Some(duration(json.as_f64()?))),
            Self::Word(_) => Self::Word(json.as_str()?.to_owned()),
            Self::Words(_) => Self::Words(serde_json::from_value(json.clone()).ok()?),
        })
    }
}

/// Values that a field may have.
#[derive(Debug, Clone, Copy)]
pub enum Rule {
    /// 0 to 1.
    Share,
    /// 0 and more.
    NotNegative,
    /// More than 0.
    Positive,
}

impl Rule {
    fn broken_by(self, value: &Value) -> Option<&'static str> {
        let number = match value {
            Value::F64(number) => *number,
            Value::Duration(duration) => (*duration)?.as_secs_f64(),
            other => other.json().as_f64()?,
        };
        match self {
            Self::Share => (!(0.0..=1.0).contains(&number)).then_some("must be between 0 and 1"),
            _ if !number.is_finite() => Some("must be a finite number"),
            Self::NotNegative => (number < 0.0).then_some("must be non-negative"),
            Self::Positive => (number <= 0.0).then_some("must be greater than 0"),
        }
    }
}

/// A field of the options `T`. Its flag, environment variable and key are made of its name.
#[derive(Debug)]
pub struct Field<T> {
    /// Its name, in the struct too unless it is called otherwise there.
    pub name: &'static str,
    pub help: &'static str,
    /// Placeholder of its value in the help.
    pub value_name: &'static str,
    /// Returns its value.
    pub get: fn(&T) -> Value,
    /// Sets its value; the error names the values that it may have.
    pub set: fn(&mut T, Value) -> Result<(), String>,
    /// If it is also a flag of `plan`: its place there, and its help.
    pub planned: Option<(u8, &'static str)>,
    /// True if leaders tell it.
    pub announced: bool,
    /// Values that it may have, beside those of its type.
    pub rule: Option<Rule>,
}

impl<T> Field<T> {
    /// Key under which it is announced.
    fn key(&self, value: &Value) -> String {
        camel_case(self.name) + if matches!(value, Value::Duration(_)) { "Seconds" } else { "" }
    }
}

/// Name of a field with capitals instead of underscores.
fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |all, word| {
        let (initial, rest) = word.split_at(word.len().min(1));
        all + &initial.to_uppercase() + rest
    })
}

/// The form in which a leader announces options, for `serde(with)`. What it does not announce has its default.
pub mod announced {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::{Field, Json, Table, Value};

    fn fields<T: Table>() -> impl Iterator<Item = &'static Field<T>> {
        T::FIELDS.iter().filter(|field| field.announced)
    }

    /// The options with the defaults in all fields that are not announced.
    #[must_use]
    pub fn of<T: Table>(options: &T) -> T {
        let mut announced = T::default();
        for field in fields() {
            // A field takes its own values.
            let _ = (field.set)(&mut announced, (field.get)(options));
        }
        announced
    }

    /// Serialises the fields that are announced.
    ///
    /// # Errors
    /// As the serialiser.
    pub fn serialize<T: Table, S: Serializer>(options: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(fields().map(|field| {
            let value = (field.get)(options);
            (field.key(&value), value.json())
        }))
    }

    /// Reads the fields that are announced.
    ///
    /// # Errors
    /// A field has a value of another type.
    pub fn deserialize<'de, T: Table, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        let given = BTreeMap::<String, Json>::deserialize(deserializer)?;
        let mut options = T::default();
        for field in fields() {
            let default = (field.get)(&options);
            let key = field.key(&default);
            if let Some(json) = given.get(&key) {
                let mut value = default.read(json).ok_or_else(|| D::Error::custom(format!("{key} is {json}")))?;
                if let Value::Words(words) = &mut value {
                    // Words of a newer leader that this version does not know are left out.
                    words.retain(|word| (field.set)(&mut T::default(), Value::Words(vec![word.clone()])).is_ok());
                }
                (field.set)(&mut options, value).map_err(D::Error::custom)?;
            }
        }
        Ok(options)
    }
}

/// Type of a field of the options `T`. The parameter lets the crate of `T` implement it for types of other crates.
pub trait Typed<T>: Sized {
    /// The value as flags have it.
    fn value(&self) -> Value;

    /// Reads it.
    ///
    /// # Errors
    /// It is of another type, or none that the field may have; the text names the flag and what it may be.
    fn of(value: Value) -> Result<Self, String>;
}

/// Implements [`Typed`] for types, each with the options that have it, or for all options.
#[macro_export]
macro_rules! typed {
    ($($type:ty $(, of $options:ty)?: $this:ident => $value:expr, $pattern:pat => $read:expr;)+) => {$(
        $crate::typed!(@ [$($options)?] $type: $this => $value, $pattern => $read);
    )+};
    (@ [] $type:ty: $this:ident => $value:expr, $pattern:pat => $read:expr) => {
        impl<T> $crate::Typed<T> for $type {
            $crate::typed!(@@ $this => $value, $pattern => $read);
        }
    };
    (@ [$options:ty] $type:ty: $this:ident => $value:expr, $pattern:pat => $read:expr) => {
        impl $crate::Typed<$options> for $type {
            $crate::typed!(@@ $this => $value, $pattern => $read);
        }
    };
    (@@ $this:ident => $value:expr, $pattern:pat => $read:expr) => {
        fn value(&self) -> $crate::Value {
            let $this = self;
            $value
        }

        fn of(value: $crate::Value) -> Result<Self, String> {
            match value {
                $pattern => $read,
                other => Err(format!("{other:?} is of another type")),
            }
        }
    };
}

typed! {
    bool: this => Value::Bool(*this), Value::Bool(given) => Ok(given);
    f64: this => Value::F64(*this), Value::F64(given) => Ok(given);
    i32: this => Value::I32(*this), Value::I32(given) => Ok(given);
    u32: this => Value::U32(*this), Value::U32(given) => Ok(given);
    usize: this => Value::U32((*this).try_into().unwrap_or(u32::MAX)),
        Value::U32(given) => Ok(given.try_into().unwrap_or(usize::MAX));
    String: this => Value::Word(this.clone()), Value::Word(given) => Ok(given);
    Vec<String>: this => Value::Words(this.clone()), Value::Words(given) => Ok(given);
    Duration: this => Value::Duration(Some(*this)), Value::Duration(Some(given)) => Ok(given);
    Option<Duration>: this => Value::Duration(*this), Value::Duration(given) => Ok(given);
    SignedDuration: this => Value::Duration(Some(Duration::try_from(*this).unwrap_or_default())),
        Value::Duration(Some(given)) => Ok(given.try_into().unwrap_or(Self::MAX));
}

/// Makes the struct of an area's options, its defaults, and its [`Table`]. An entry is
/// `name: Type = default => "VALUE"` with other fields of its [`Field`]; its comment is the help of its flag.
/// `besides` has the fields that have no flag.
#[macro_export]
macro_rules! options {
    (
        $(#[$meta:meta])*
        pub struct $options:ident under $heading:literal {$(
            $(#[doc = $help:literal])+
            $name:ident: $type:ty = $default:expr => $value_name:literal $(, $property:ident: $with:expr)*;
        )+}
        besides {$(
            $(#[doc = $doc:literal])+
            $other:ident: $other_type:ty = $other_default:expr;
        )*}
    ) => {
        $(#[$meta])*
        pub struct $options {
            $($(#[doc = $help])+ pub $name: $type,)+
            $($(#[doc = $doc])+ pub $other: $other_type,)*
        }

        impl Default for $options {
            fn default() -> Self {
                Self { $($name: $default,)+ $($other: $other_default,)* }
            }
        }

        impl $crate::Table for $options {
            const HEADING: &'static str = $heading;
            const FIELDS: &'static [$crate::Field<Self>] = &[$(
                $crate::Field {
                    $($property: $with,)*
                    ..$crate::Field {
                        name: stringify!($name),
                        help: concat!($($help),+),
                        value_name: $value_name,
                        get: |options: &$options| $crate::Typed::<$options>::value(&options.$name),
                        set: |options, value| $crate::Typed::<$options>::of(value).map(|value| options.$name = value),
                        planned: None,
                        announced: false,
                        rule: None,
                    }
                },
            )+];
        }
    };
}
