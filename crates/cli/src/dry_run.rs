//! The flag `--dry-run`, with one grammar for all verbs: kubectl's, and Karmada's boolean.

use crate::write::Mode;

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

impl DryRun {
    /// How servers are asked to write; `None` if they are not asked.
    pub(crate) fn mode(self) -> Option<Mode> {
        match self {
            Self::None => Some(Mode::Keep),
            Self::Client => None,
            Self::Server => Some(Mode::DryRun),
        }
    }

    /// End of a line about a change that was not made.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }
}
