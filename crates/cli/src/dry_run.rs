//! The flag `--dry-run`, with one grammar for all verbs: kubectl's, and Karmada's boolean.

/// Place of a dry run.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DryRun {
    /// None: changes are made.
    #[default]
    #[value(alias = "false")]
    None,
    /// This program.
    #[value(alias = "true")]
    Client,
    /// The servers.
    Server,
}
