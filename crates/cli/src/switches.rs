//! Flags without a value that take one all the same, as kubectl's and Karmada's do: `--watch=true`, `-A=false`.

use clap::{ArgAction, Command};

/// The tree of commands as lines are parsed. Help is printed from the tree without these values.
#[must_use]
pub fn with_values(tree: Command) -> Command {
    let tree = tree.mut_args(|arg| match arg.get_action() {
        ArgAction::SetTrue => arg
            .clone()
            // The last one counts.
            .overrides_with(arg.get_id().clone())
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .default_value("false")
            .default_missing_value("true")
            .value_parser(truth),
        _ => arg,
    });
    tree.mut_subcommands(with_values)
}

/// A boolean in the spellings of Go.
fn truth(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err("it is true or false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, FromArgMatches as _, Parser};

    use super::*;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(subcommand)]
        verb: Verb,
    }

    #[derive(clap::Subcommand, Debug)]
    enum Verb {
        Get {
            kind: String,
            #[arg(short = 'A', long)]
            all_namespaces: bool,
            #[arg(short, long)]
            watch: bool,
            #[arg(short, long)]
            output: Option<String>,
            #[arg(long, conflicts_with = "watch")]
            once: bool,
        },
    }

    #[test]
    fn flags_take_the_booleans_of_go() {
        for (line, want) in [
            ("get cm", "cm, false false"),
            ("get cm -A", "cm, true false"),
            ("get -A cm", "cm, true false"),
            ("get --watch cm", "cm, false true"),
            ("get cm -Aw", "cm, true true"),
            ("get cm -Awojson", "cm, true true json"),
            ("get cm -A=false", "cm, false false"),
            ("get cm -A=true --watch=T", "cm, true true"),
            ("get cm -wA=0", "cm, false true"),
            ("get cm -A -A --watch --watch=false", "cm, true false"),
            ("get cm --watch=false -o json", "cm, false false json"),
            ("get --watch=1 cm", "cm, false true"),
            ("get cm --watch=maybe", "error: invalid value 'maybe' for '--watch"),
            ("get cm --watch=", "error: "),
            ("get cm --watch --once", "error: "),
            ("get cm --once", "cm, false false"),
        ] {
            let words = std::iter::once("line").chain(line.split(' '));
            let parsed = with_values(Line::command()).try_get_matches_from(words);
            let got = match parsed.and_then(|matches| Line::from_arg_matches(&matches)) {
                Ok(Line { verb: Verb::Get { kind, all_namespaces, watch, output, once: _ } }) => {
                    format!("{kind}, {all_namespaces} {watch} {}", output.unwrap_or_default()).trim_end().to_owned()
                }
                Err(error) => error.to_string(),
            };
            let is_equal = if want.starts_with("error: ") { got.starts_with(want) } else { got == want };
            assert!(is_equal, "{line}: {got}");
        }
    }
}
