//! `ironclad options`.

use clap::Args as _;

use crate::{connect::Plane, print};

/// List the flags that every verb has.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  ironclad options")]
pub struct Command {}

/// Prints the flags of every verb that asks a control plane, and those of this tree of commands.
///
/// # Errors
/// If stdout can't be written to.
pub fn run(tree: &clap::Command) -> anyhow::Result<()> {
    print::out(&text(tree))
}

fn text(tree: &clap::Command) -> String {
    let global = tree.get_arguments().filter(|arg| arg.is_global_set()).cloned();
    let global = global.map(|arg| arg.hide_short_help(false));
    let all = Plane::augment_args(clap::Command::new("options").disable_help_flag(true)).args(global);
    let flags = all.help_template("{all-args}").render_help().to_string();
    format!(
        "The following options can be passed to any command; those of the control plane to any that asks one:\n\n{}\n",
        flags.trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_lists_the_flags_of_control_planes_and_of_the_program() {
        let global = |name: &'static str| clap::Arg::new(name).long(name).global(true).help_heading("Logging");
        let tree =
            clap::Command::new("ironclad").arg(global("log").hide_short_help(true)).arg(global("hidden").hide(true));
        let text = text(&tree.arg(clap::Arg::new("own").long("own")));
        for want in ["any command", "\nControl plane:\n", "--kubeconfig <FILE>", "--as-group", "\nLogging:\n", "--log"]
        {
            assert!(text.contains(want), "{want}: {text}");
        }
        for no in ["--hidden", "--own", "--help", "Usage"] {
            assert!(!text.contains(no), "{no}: {text}");
        }
    }
}
