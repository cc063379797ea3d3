//! `ironclad completion SHELL`.

use clap_complete::Shell;

use crate::print;

/// Print a completion script for a shell.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  source <(ironclad completion bash)
  ironclad completion zsh > \"${fpath[1]}/_ironclad\"
  ironclad completion fish > ~/.config/fish/completions/ironclad.fish")]
pub struct Command {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Prints the script for this tree of commands.
///
/// # Errors
/// If stdout can't be written to.
pub fn run(command: &Command, tree: &mut clap::Command) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(command.shell, tree, "ironclad", &mut script);
    print::data(&String::from_utf8_lossy(&script))
}
