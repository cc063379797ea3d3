//! Flags made of a table of options, and the values that they were given.

use clap::{
    Arg, ArgAction, ArgMatches, Command,
    builder::{BoolValueParser, Resettable, StringValueParser, TypedValueParser as _},
    value_parser,
};
use ironclad_options::{Field, Table, Value};

use crate::Period;

/// Values of the flags of a table. With `CHANGES` the flags are those of `plan`: they change options that are known
/// otherwise, so they have no defaults and are no environment variables.
#[derive(Clone, Debug)]
pub struct Given<T: Table, const CHANGES: bool = false>(Vec<(&'static Field<T>, Value)>);

impl<T: Table, const CHANGES: bool> Given<T, CHANGES> {
    /// Sets the options, and returns the names of the fields whose value is none of theirs, with the errors.
    pub fn apply_to(&self, options: &mut T) -> Vec<(&'static str, String)> {
        let set = |(field, value): &(&'static Field<T>, Value)| {
            (field.set)(options, value.clone()).err().map(|error| (field.name, error))
        };
        self.0.iter().filter_map(set).collect()
    }

    /// Value of a field, if it has one.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(field, _)| field.name == name).map(|(_, value)| value)
    }

    fn fields() -> Vec<&'static Field<T>> {
        let mut fields: Vec<_> = T::FIELDS.iter().collect();
        if CHANGES {
            fields.retain(|field| field.planned.is_some());
            fields.sort_by_key(|field| field.planned);
        }
        fields
    }
}

/// The flag of a field; the default determines its type.
fn flag<T: Table>(field: &Field<T>, default: &Value) -> Arg {
    let duration = |text: &str| text.parse().map(|Period(duration)| Value::Duration(Some(duration)));
    let number = |text: &str| text.parse().map(Value::F64);
    let arg = Arg::new(field.name).long(field.name.replace('_', "-")).value_name(field.value_name);
    let arg = arg.action(ArgAction::Set).help(field.help.trim());
    match default {
        Value::Bool(_) => arg
            .value_parser(BoolValueParser::new().map(Value::Bool))
            .num_args(0..=1)
            .default_missing_value("true")
            .require_equals(true),
        Value::F64(_) => arg.value_parser(number).allow_negative_numbers(true),
        Value::I32(_) => arg.value_parser(value_parser!(i32).map(Value::I32)).allow_negative_numbers(true),
        Value::U32(_) => arg.value_parser(value_parser!(u32).map(Value::U32)),
        Value::Duration(_) => arg.value_parser(duration),
        Value::Word(_) => arg.value_parser(StringValueParser::new().map(Value::Word)),
        // Entries may begin with `-`.
        Value::Words(_) => arg.value_delimiter(',').action(ArgAction::Append).allow_hyphen_values(true),
    }
}

/// A default as the help prints it.
fn printed(default: &Value) -> Option<String> {
    Some(match default {
        Value::F64(number) => number.to_string(),
        Value::Duration(duration) => Period((*duration)?).to_string(),
        Value::Word(word) => word.clone(),
        Value::Words(words) => Some(words.join(",")).filter(|words| !words.is_empty())?,
        Value::Bool(_) | Value::I32(_) | Value::U32(_) => default.json().to_string(),
    })
}

impl<T: Table, const CHANGES: bool> clap::Args for Given<T, CHANGES> {
    fn augment_args(command: Command) -> Command {
        let options = T::default();
        let args = Self::fields().into_iter().map(|field| {
            let default = (field.get)(&options);
            let flag = flag(field, &default);
            match field.planned.filter(|_| CHANGES) {
                Some((_, help)) => flag.help(help),
                None => flag
                    .default_value(Resettable::from(printed(&default).map(Into::into)))
                    .env(format!("IRONCLAD_{}", field.name.to_uppercase())),
            }
        });
        let command = if CHANGES { command } else { command.next_help_heading(T::HEADING) };
        command.args(args)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Table, const CHANGES: bool> clap::FromArgMatches for Given<T, CHANGES> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let defaults = T::default();
        let given = |field: &'static Field<T>| {
            let value = match (field.get)(&defaults) {
                Value::Words(_) => Value::Words(matches.get_many(field.name)?.cloned().collect()),
                _ => matches.get_one::<Value>(field.name)?.clone(),
            };
            Some((field, value))
        };
        Ok(Self(Self::fields().into_iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
