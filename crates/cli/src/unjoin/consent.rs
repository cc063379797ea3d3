//! Refusal and confirmation of the removal of a cluster, for `unjoin` and `unregister` (specification/operations.md
//! 2.4).

use std::io::IsTerminal as _;

use ironclad_planning::unjoin::Impact;

use crate::{drain, print, report::Misused};

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
        if self.yes {
            return Ok(());
        }
        let Self { cluster: name, verb, done, .. } = self;
        if !std::io::stdin().is_terminal() {
            return Err(Misused(format!(
                "cluster {name} was not {done}\n  because there is no terminal to confirm on\n  try: --yes"
            ))
            .into());
        }
        if print::confirm(&format!("{verb} cluster {name}?"))? {
            Ok(())
        } else {
            anyhow::bail!("cluster {name} was not {done}\n  because it was not confirmed")
        }
    }
}
