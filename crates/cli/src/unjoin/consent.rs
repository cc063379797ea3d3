//! Refusal and confirmation of the removal of a cluster, for `unjoin` and `unregister` (specification/operations.md
//! 2.4).

use std::io::IsTerminal as _;

use ironclad_planning::unjoin::Impact;

use crate::{drain, print, program, report::Misused};

/// Consent of the user to the removal of a cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Consent<'a> {
    /// Name of the cluster.
    pub(crate) cluster: &'a str,
    /// The verb: `unjoin`.
    pub(crate) verb: &'static str,
    /// Its participle: `unjoined`.
    pub(crate) done: &'static str,
    /// The user is not asked.
    pub(crate) yes: bool,
    /// Replicas in the cluster may be lost, or are kept there.
    pub(crate) may_lose: bool,
}

impl Consent<'_> {
    /// The error of a drain, with flags that the verb has.
    pub(crate) fn not_drained(&self, error: drain::DrainError) -> anyhow::Error {
        let Self { cluster: name, verb, done, .. } = self;
        let drain::DrainError::Refused { stuck, total, .. } = error else { return error.into() };
        anyhow::anyhow!(
            "cluster {name} was not {done}, only cordoned\n  because {stuck} of {total} bindings can't be moved\n  \
             try: ironclad drain {name} --status, which names them; ironclad drain {name} --force, which evicts them \
             anyway; then ironclad {verb} {name}"
        )
    }

    /// Refuses while bindings target the cluster, unless their replicas may be lost. `was` is `was not` or `would not
    /// be`.
    pub(crate) fn refuse(&self, impact: Impact, was: &str) -> anyhow::Result<()> {
        if !impact.is_targeted() || self.may_lose {
            return Ok(());
        }
        anyhow::bail!(
            "cluster {name} {was} {done}\n  because {held_by}\n  \
             try: ironclad drain {name}, or ironclad {verb} {name} --drain\n  \
             try: --no-drain, if their replicas there may be lost at once; --keep-workloads, to keep them there unmanaged",
            name = self.cluster,
            done = self.done,
            verb = self.verb,
            held_by = impact.held_by()
        )
    }

    /// Asks for confirmation on a terminal.
    pub(crate) fn confirm(&self) -> anyhow::Result<()> {
        let Self { cluster: name, verb, done, .. } = self;
        match prompt(self.yes, std::io::stdin().is_terminal(), program::runs_as_karmadactl()) {
            Prompt::Skipped => Ok(()),
            Prompt::NoTerminal => Err(Misused(format!(
                "cluster {name} was not {done}\n  because there is no terminal to confirm on\n  try: --yes"
            ))
            .into()),
            Prompt::Shown if print::confirm(&format!("{verb} cluster {name}?"))? => Ok(()),
            Prompt::Shown => anyhow::bail!("cluster {name} was not {done}\n  because it was not confirmed"),
        }
    }
}

/// The prompt for confirmation.
#[derive(Debug, PartialEq)]
enum Prompt {
    Skipped,
    Shown,
    /// It is needed, and can't be shown.
    NoTerminal,
}

/// karmadactl has no prompt and no `--yes`, so its scripts go on without (docs/decisions/0257).
fn prompt(yes: bool, is_terminal: bool, is_karmadactl: bool) -> Prompt {
    match (yes, is_terminal) {
        (true, _) => Prompt::Skipped,
        (false, true) => Prompt::Shown,
        (false, false) if is_karmadactl => Prompt::Skipped,
        (false, false) => Prompt::NoTerminal,
    }
}

#[test]
fn scripts_for_karmadactl_are_not_asked() {
    for (yes, is_terminal, is_karmadactl, want) in [
        (true, false, false, Prompt::Skipped),
        (true, true, true, Prompt::Skipped),
        (false, true, false, Prompt::Shown),
        (false, true, true, Prompt::Shown),
        (false, false, true, Prompt::Skipped),
        (false, false, false, Prompt::NoTerminal),
    ] {
        assert_eq!(prompt(yes, is_terminal, is_karmadactl), want, "{yes} {is_terminal} {is_karmadactl}");
    }
}
