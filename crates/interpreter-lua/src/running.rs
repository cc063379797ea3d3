//! Scripts that run now, recorded in a file, so that a script that ended the process is not run at the next start
//! (docs/decisions/0031).
//!
//! A mark is written before a script runs and erased afterwards. Both are plain writes without a sync: a process that
//! dies leaves them in the page cache, and after a power failure nothing has to be known. Scripts that were marked when
//! a process ended are skipped for a while at the next start: a process may also be killed while an innocent script
//! runs.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    io::{Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _},
    path::Path,
    sync::{Mutex, PoisonError},
};

use ironclad_interpreter::Operation;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Time in seconds for which a script is skipped after the first process that it ended; each further one doubles it.
pub const SKIP_SECONDS: i64 = 600;
/// Longest time for which a script is skipped, in seconds. The count of its deaths is forgotten that long after it.
pub const SKIP_SECONDS_MAX: i64 = 86_400;

/// File of the marks.
const MARKS: &str = "running-scripts";
/// File of the scripts that are skipped.
const SKIPPED: &str = "skipped-scripts.json";
/// Bytes of one mark: an id, a space and the script's name.
const MARK_BYTES: usize = 256;

/// Identity of a script: the hash of its operation and text. A changed script is another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ScriptId(String);

impl ScriptId {
    pub(crate) fn of(operation: Operation, text: &str) -> Self {
        let hash = Sha256::new().chain_update(operation.name()).chain_update("\n").chain_update(text).finalize();
        Self(hash[..16].iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Script that was running when a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedScript {
    /// Its operation, and the name of its interpreter.
    pub name: String,
    /// Processes that ended while it ran.
    pub deaths: u32,
    /// Time at which the last of these deaths was found, in seconds since 1970.
    pub found: i64,
}

impl SkippedScript {
    /// Time from which it runs again, in seconds since 1970.
    #[must_use]
    pub fn until(&self) -> i64 {
        let doubled = self.deaths.saturating_sub(1).min(20);
        self.found.saturating_add((SKIP_SECONDS << doubled).min(SKIP_SECONDS_MAX))
    }

    fn is_forgotten(&self, now: i64) -> bool {
        now > self.until().saturating_add(SKIP_SECONDS_MAX)
    }
}

impl fmt::Display for SkippedScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = Timestamp::from_second(self.until()).unwrap_or(Timestamp::MAX);
        let times = if self.deaths == 1 { "the process" } else { "several processes in a row" };
        write!(f, "{times} ended while it ran, so it is not run before {until}: change or remove it")
    }
}

/// The scripts that run now, and those that are skipped.
#[derive(Debug)]
pub struct RunningScripts {
    marks: fs::File,
    slots: Mutex<Vec<bool>>,
    skipped: BTreeMap<ScriptId, SkippedScript>,
}

/// Options of files that only their owner reads.
fn private() -> fs::OpenOptions {
    let mut options = fs::File::options();
    options.write(true).mode(0o600);
    options
}

impl RunningScripts {
    /// Opens the record in this directory, which it creates if necessary, and skips the scripts that the last process
    /// left marked. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// If the directory is unusable, or another process uses it.
    pub fn open(directory: &Path, now: i64) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mut marks = private().read(true).create(true).truncate(false).open(directory.join(MARKS))?;
        marks.try_lock().map_err(|error| match error {
            fs::TryLockError::Error(error) => error,
            fs::TryLockError::WouldBlock => io::Error::new(
                io::ErrorKind::ResourceBusy,
                format!("another process uses {}", directory.join(MARKS).display()),
            ),
        })?;
        let mut left = Vec::new();
        marks.read_to_end(&mut left)?;
        let file = directory.join(SKIPPED);
        // A record that cannot be read must not keep the process from starting.
        let mut skipped: BTreeMap<ScriptId, SkippedScript> =
            fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        skipped.retain(|_, script| !script.is_forgotten(now));
        let marked: BTreeMap<ScriptId, String> = left.chunks(MARK_BYTES).filter_map(read_mark).collect();
        if !marked.is_empty() {
            for (id, name) in marked {
                let script = skipped.entry(id).or_insert(SkippedScript { name, deaths: 0, found: now });
                (script.deaths, script.found) = (script.deaths.saturating_add(1), now);
            }
            let partial = directory.join(format!("{SKIPPED}.partial"));
            let mut written = private().create(true).truncate(true).open(&partial)?;
            written.write_all(&serde_json::to_vec_pretty(&skipped)?)?;
            written.sync_all()?;
            fs::rename(&partial, &file)?;
        }
        marks.set_len(0)?;
        Ok(Self { marks, slots: Mutex::default(), skipped })
    }

    /// The scripts that are skipped at this time.
    pub fn skipped(&self, now: i64) -> impl Iterator<Item = &SkippedScript> {
        self.skipped.values().filter(move |script| now < script.until())
    }

    /// The reason why a script is skipped at this time.
    pub(crate) fn is_skipped(&self, id: &ScriptId, now: i64) -> Option<String> {
        self.skipped.get(id).filter(|script| now < script.until()).map(ToString::to_string)
    }

    /// Marks a script until the result is dropped.
    pub(crate) fn mark(&self, id: &ScriptId, name: &str) -> Mark<'_> {
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            let free = slots.iter().position(|used| !used).unwrap_or(slots.len());
            if free == slots.len() {
                slots.push(true);
            } else {
                slots[free] = true;
            }
            free
        };
        let mut bytes = format!("{} {}", id.0, name.replace('\n', " ")).into_bytes();
        bytes.resize(MARK_BYTES, 0);
        self.write(slot, &bytes);
        Mark { of: self, slot }
    }

    /// A mark that cannot be written, on a full disk say, does not keep a script from running.
    fn write(&self, slot: usize, bytes: &[u8]) {
        let _ = self.marks.write_all_at(bytes, (slot * MARK_BYTES) as u64);
    }
}

/// Mark of a running script; dropping it erases the mark.
#[derive(Debug)]
pub(crate) struct Mark<'a> {
    of: &'a RunningScripts,
    slot: usize,
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        self.of.write(self.slot, &[0]);
        self.of.slots.lock().unwrap_or_else(PoisonError::into_inner)[self.slot] = false;
    }
}

fn read_mark(bytes: &[u8]) -> Option<(ScriptId, String)> {
    if *bytes.first()? == 0 {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    let (id, name) = text.trim_end_matches('\0').split_once(' ')?;
    Some((ScriptId(id.to_owned()), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_scripts_are_skipped_after_the_process_ended() {
        let directory = tempfile::tempdir().unwrap();
        let (bad, good) = (ScriptId::of(Operation::Retain, "bad"), ScriptId::of(Operation::Retain, "good"));
        let open = |now| RunningScripts::open(directory.path(), now).unwrap();
        // Start, whether the script ran at its end, and seconds for which it is skipped from then on.
        for (name, now, runs_at_end, skipped) in [
            ("the first process", 1_000, true, None),
            ("the process ended while it ran", 2_000, false, Some(600)),
            ("a process in between", 2_500, false, Some(100)),
            ("the pause is over", 2_600, true, None),
            ("it ended another process", 3_000, true, Some(1_200)),
            ("and a third", 3_100, false, Some(2_400)),
            ("its deaths are forgotten a day later", 3_100 + 2_400 + 86_401, true, None),
            ("so that it begins anew", 200_000, false, Some(600)),
        ] {
            let scripts = open(now);
            match skipped {
                None => assert_eq!(scripts.is_skipped(&bad, now), None, "{name}"),
                Some(seconds) => {
                    assert!(scripts.is_skipped(&bad, now + seconds - 1).is_some(), "{name}");
                    assert_eq!(scripts.is_skipped(&bad, now + seconds), None, "{name}");
                    assert_eq!(scripts.skipped(now).map(|s| s.name.as_str()).collect::<Vec<_>>(), ["Retain of a"]);
                }
            }
            assert_eq!(scripts.is_skipped(&good, now), None, "{name}");
            drop(scripts.mark(&good, "Retain of b"));
            if runs_at_end {
                let other = scripts.mark(&good, "Retain of b");
                std::mem::forget(scripts.mark(&bad, "Retain of a"));
                drop(other);
            }
        }
    }

    #[test]
    fn unreadable_record_does_not_keep_a_process_from_starting() {
        let directory = tempfile::tempdir().unwrap();
        for (marks, skipped) in [(&b"\xff\xfe no mark"[..], &b"{"[..]), (b"one", b"[]"), (&[b' '; 700], b"")] {
            fs::write(directory.path().join(MARKS), marks).unwrap();
            fs::write(directory.path().join(SKIPPED), skipped).unwrap();
            drop(RunningScripts::open(directory.path(), 5).unwrap());
        }
        let one = RunningScripts::open(directory.path(), 5).unwrap();
        let error = RunningScripts::open(directory.path(), 5).unwrap_err();
        assert!(error.to_string().starts_with("another process uses "), "{error}");
        drop(one);
    }

    #[test]
    fn marks_of_concurrent_scripts_are_all_found() {
        let directory = tempfile::tempdir().unwrap();
        let scripts = RunningScripts::open(directory.path(), 0).unwrap();
        for text in ["a", "b", "c"] {
            std::mem::forget(scripts.mark(&ScriptId::of(Operation::Retain, text), &text.repeat(400)));
        }
        drop(scripts);
        assert_eq!(RunningScripts::open(directory.path(), 0).unwrap().skipped(0).count(), 3);
    }
}
