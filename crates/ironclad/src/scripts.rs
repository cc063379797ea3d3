//! The record of running interpreter scripts on disk (docs/decisions/0031).

use std::{
    env,
    path::{Path, PathBuf},
    sync::Arc,
};

use ironclad_interpreter_lua::RunningScripts;
use ironclad_seam::Clock;

/// Opens the record and logs the scripts that are skipped. Without a record scripts run all the same, so that a
/// read-only disk does not keep the process from starting.
pub(crate) fn open(directory: &Path, clock: &Clock) -> Option<Arc<RunningScripts>> {
    let now = clock.wall().as_second();
    match RunningScripts::open(directory, now) {
        Ok(scripts) => {
            for script in scripts.skipped(now) {
                tracing::warn!(script = %script.name, "{script}");
            }
            Some(Arc::new(scripts))
        }
        Err(error) => {
            tracing::warn!(
                directory = %directory.display(), %error,
                "running interpreter scripts are not recorded: one that ends the process runs again at the next start"
            );
            None
        }
    }
}

/// `$XDG_STATE_HOME/ironclad`, else `~/.local/state/ironclad`.
pub(crate) fn default_directory() -> Option<PathBuf> {
    let state = env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = || Some(PathBuf::from(env::var_os("HOME").filter(|path| !path.is_empty())?).join(".local/state"));
    Some(state.or_else(home)?.join("ironclad"))
}
