//! Kubeconfig of `up`: a context for the control plane and one for each simulated member.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context as _;
use ironclad_apiserver::pki::{self, Context};
use parking_lot::Mutex;

use super::one::SimulatedMember;

const CURRENT: &str = "current-context: ";

/// The file.
pub(crate) struct KubeconfigFile {
    path: PathBuf,
    plane: Mutex<Context>,
    /// Content of the last write: equal content is not written again.
    written: Mutex<String>,
}

impl KubeconfigFile {
    /// A file that is not written yet.
    pub(crate) fn new(path: PathBuf, plane: Context) -> Self {
        Self { path, plane: Mutex::new(plane), written: Mutex::default() }
    }

    /// The context of the control plane from the next write on.
    pub(super) fn set_plane(&self, plane: Context) {
        *self.plane.lock() = plane;
    }

    /// Writes the contexts of the control plane and of these members. Which of them is the current one stays.
    pub(super) fn write(&self, members: &[Arc<SimulatedMember>]) -> anyhow::Result<()> {
        let mut contexts = vec![self.plane.lock().clone()];
        contexts.extend(members.iter().map(|m| m.pki.admin_context(&m.name, &m.endpoint)));
        let mut written = self.written.lock();
        let before = std::fs::read_to_string(&self.path).unwrap_or_default();
        let names: Vec<&str> = contexts.iter().map(|c| c.name.as_str()).collect();
        let text = keep_current(pki::kubeconfig(&contexts), &before, &names);
        if *written == text {
            return Ok(());
        }
        pki::write_private(&self.path, text.as_bytes()).with_context(|| format!("writing {}", self.path.display()))?;
        *written = text;
        Ok(())
    }
}

/// The text with the current context of the text before, if it is still there.
fn keep_current(text: String, before: &str, names: &[&str]) -> String {
    let of = |text: &str| {
        let current = text.lines().find_map(|l| l.strip_prefix(CURRENT))?;
        Some(current.trim().trim_matches(['"', '\'']).to_owned())
    };
    match (of(&text), of(before)) {
        (Some(now), Some(kept)) if names.contains(&kept.as_str()) => {
            text.replace(&format!("{CURRENT}{now:?}"), &format!("{CURRENT}{kept:?}"))
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_context_is_kept_while_it_exists() {
        let text = |current: &str| format!("kind: Config\ncurrent-context: {current:?}\n");
        let by_hand = |current: &str| format!("kind: Config\ncurrent-context: {current}\n");
        for (name, before, want) in [
            ("the first time it is the control plane's", String::new(), "ironclad"),
            ("a choice stays", text("member1"), "member1"),
            ("without quotes as well", by_hand("member1"), "member1"),
            ("one that is deleted does not", text("member9"), "ironclad"),
        ] {
            assert_eq!(keep_current(text("ironclad"), &before, &["ironclad", "member1"]), text(want), "{name}");
        }
    }
}
