//! Short help: `-h` says what a verb is for, `--help` also how its servers are tuned and reached.

use clap::Command;

use crate::program;

/// Headings of flags that belong to the verb itself.
const OWN: [&str; 2] = ["Member", "Simulated members"];

/// The tree of commands, whose short help leaves out the flags under other headings: those that most verbs have, which
/// `ironclad options` lists, and those of controllers.
#[must_use]
pub fn short(tree: Command) -> Command {
    let tree = tree.mut_args(|arg| {
        let is_own = arg.get_help_heading().is_none_or(|heading| OWN.contains(&heading));
        arg.hide_short_help(!is_own)
    });
    tree.mut_subcommands(short)
}

/// The tree of commands under the name that people type.
#[must_use]
pub fn called(tree: Command, name: &str) -> Command {
    fn examples(command: Command, name: &str) -> Command {
        let text = command.get_after_help().map(|text| program::in_lines(&text.to_string(), name));
        let command = match text {
            Some(text) => command.after_help(text),
            None => command,
        };
        command.mut_subcommands(|below| examples(below, name))
    }
    if name == program::NAME { tree } else { examples(tree, name).bin_name(name) }
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[test]
    fn flags_under_headings_of_their_own_are_in_the_long_help_alone() {
        let flag = |name: &'static str| Arg::new(name).long(name);
        let up = Command::new("up")
            .args([flag("data-dir"), flag("nodes").help_heading("Simulated members")])
            .arg(flag("rate").help_heading("Cluster failover"));
        let mut tree = short(Command::new("ironclad").subcommand(up));
        let up = tree.find_subcommand_mut("up").unwrap();
        let (short, long) = (up.render_help().to_string(), up.render_long_help().to_string());
        for (flag, is_short) in [("--data-dir", true), ("--nodes", true), ("--rate", false)] {
            assert_eq!((short.contains(flag), long.contains(flag)), (is_short, true), "{flag}: {short}");
        }
    }

    #[test]
    fn examples_and_usage_have_the_name_that_was_typed() {
        let get = Command::new("get").after_help("Examples:\n  ironclad get pods");
        let mut tree = called(Command::new("ironclad").subcommand(get), "kubectl karmada");
        tree.build();
        let help = tree.find_subcommand_mut("get").unwrap().render_help().to_string();
        assert!(help.contains("Usage: kubectl karmada get") && help.contains("  kubectl karmada get pods"), "{help}");
        assert!(!help.contains("ironclad"), "{help}");
    }
}
