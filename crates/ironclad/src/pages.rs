//! Generated pages of `docs/reference`: the command line, the flags of `up` and `run` and the controllers, compared
//! with the code.
//!
//! `UPDATE_GOLDENS=1 cargo test -p ironclad pages` writes them.

use std::{fmt::Write as _, path::Path};

use clap::{Arg, Command, CommandFactory as _};

use crate::Ironclad;

/// Compares a page with this text, or writes it.
fn check_page(name: &str, want: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    ironclad_reference::check_golden(folder.join(name), want);
}

/// The tree of commands with all that clap adds, wrapped at a width that does not depend on the terminal. Flags that
/// every verb has are left out.
fn tree() -> Command {
    let mut tree = Ironclad::command().term_width(110);
    tree = tree.mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg });
    tree.build();
    tree
}

/// The help of a command and of its subcommands, each under a heading.
fn add_help(text: &mut String, command: &mut Command, name: &str) {
    let help = command.render_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    write!(text, "\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n").trim_end()).expect("a String takes all");
    let subcommands: Vec<String> = command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    for subcommand in subcommands.iter().filter(|subcommand| *subcommand != "help") {
        let below = command.find_subcommand_mut(subcommand).expect("its name is from the list");
        add_help(text, below, &format!("{name} {subcommand}"));
    }
}

#[test]
fn page_of_the_command_line_is_current() {
    let mut text = "# Command line\n\nThe help of each verb. `ironclad VERB -h` leaves out the flags of the connection, which `ironclad options` lists, \
                    and `--help` explains more. Flags of the connection and `-n` may stand before the verb, too. Every verb also has \
                    `-v`, `--log-filter` and `--log-format`. The flags of `up` and `run` have [a page of their own](flags.md).\n"
        .to_owned();
    let mut tree = tree();
    let verbs: Vec<String> = tree.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    for verb in verbs.iter().filter(|verb| !["help", "up", "run"].contains(&verb.as_str())) {
        let command = tree.find_subcommand_mut(verb).expect("its name is from the list");
        add_help(&mut text, command, &format!("ironclad {verb}"));
    }
    check_page("cli.md", &text);
}

/// A row of the table of flags: name, default, meaning.
fn row(arg: &Arg) -> Option<(String, String)> {
    let name = arg.get_long().filter(|_| !arg.is_hide_set())?;
    let defaults: Vec<&str> = arg.get_default_values().iter().filter_map(|value| value.to_str()).collect();
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default().replace('\n', " ").replace('|', "\\|");
    let takes_value = arg.get_action().takes_values();
    let default = if takes_value && !defaults.is_empty() { format!("`{}`", defaults.join(",")) } else { String::new() };
    let heading = arg.get_help_heading().unwrap_or("General").to_owned();
    Some((heading, format!("| `--{name}` | {default} | {help} |\n")))
}

#[test]
fn page_of_the_flags_is_current() {
    let mut text = "# Flags of `up` and `run`\n\nFlags that `ironclad up --help` and `ironclad run --help` print. Each can also be \
                    set by the environment variable that the help names.\n"
        .to_owned();
    let tree = tree();
    let flags_of = |verb: &str| -> Vec<(String, String)> {
        let command = tree.find_subcommand(verb).expect("a verb of the program");
        command.get_arguments().filter_map(row).collect()
    };
    let (up, run) = (flags_of("up"), flags_of("run"));
    let shared: Vec<_> = run.iter().filter(|flag| up.contains(flag)).cloned().collect();
    let only = |flags: &[(String, String)]| -> Vec<_> {
        flags.iter().filter(|flag| !shared.contains(flag)).cloned().collect()
    };
    for (title, flags) in [("Of both", shared.clone()), ("Of `up`", only(&up)), ("Of `run`", only(&run))] {
        write!(text, "\n## {title}\n").expect("a String takes all");
        let mut headings: Vec<&String> = Vec::new();
        for (heading, _) in &flags {
            if !headings.contains(&heading) {
                headings.push(heading);
            }
        }
        for heading in headings {
            write!(text, "\n### {heading}\n\n| flag | default | meaning |\n| --- | --- | --- |\n")
                .expect("a String takes all");
            text.extend(flags.iter().filter(|(of, _)| of == heading).map(|(_, row)| row.as_str()));
        }
    }
    check_page("flags.md", &text);
}

#[test]
fn page_of_the_controllers_is_current() {
    let mut text = "# Controllers\n\nNames for `--controllers` of `up` and `run`: `*` means all that are on, `name` adds one, `-name` removes \
                    one. A controller with a gate runs if its [feature gate](feature-gates.md) is on, too.\n\n\
                    | controller | default | gate | task |\n| --- | --- | --- | --- |\n"
        .to_owned();
    for row in ironclad_controllers::controller_rows() {
        let default = if row.on_by_default { "on" } else { "off" };
        let gate = row.gate.map(|gate| format!("`{}`", gate.name())).unwrap_or_default();
        writeln!(text, "| `{}` | {default} | {gate} | {} |", row.name, row.about).expect("a String takes all");
    }
    check_page("controllers.md", &text);
}

#[test]
fn page_of_migration_has_the_table_of_verbs() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tasks/migrate-from-karmada.md");
    let (page, rows) = (std::fs::read_to_string(page).expect("the page is there"), ironclad_cli::elsewhere::rows());
    assert!(page.contains(&rows), "the page needs these rows:\n{rows}");
}
