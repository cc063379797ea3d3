//! Restore of a data directory from a backup.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Write as _},
    path::Path,
};

use ironclad_seam::Clock;

use super::{
    BackupError, Summary,
    format::{Piece, Reader, inspect},
};
use crate::{
    BackendError, Entry, Key, RedbBackend, Revision,
    data_dir::{DataDir, LOCK_FILE, classify, private_file},
};

/// Marker file in a data directory while a restore is incomplete.
pub(crate) const MARKER: &str = "restoring";
/// Directory at the root of a new file system.
const LOST_AND_FOUND: &str = "lost+found";
/// Approximate bytes of the transactions that write entries.
const GROUP_BYTES: usize = 4 * 1024 * 1024;
/// A restored server continues at least this many revisions after the backup, as `etcdutl --bump-revision` suggests.
const BUMP_MIN: u64 = 1_000_000_000;
/// Revisions per second since 1970 from which a restored server continues at least, so that a second restore of one
/// backup does not repeat those of the first. No disk commits as many.
const REVISIONS_PER_SECOND: u64 = 100_000;

/// A backup that was not restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The directory is not empty.
    #[error("data directory {path} is not empty, and a backup is restored only into an empty one: nothing was changed")]
    NotEmpty {
        /// The data directory.
        path: String,
    },
    /// The backup can't be used; the data directory is as it was.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The data directory can't be written.
    #[error(transparent)]
    Directory(#[from] BackendError),
}

/// Creates a data directory from a backup, which is read to its end before anything is written.
///
/// An interrupted restore leaves a directory that only another restore accepts.
///
/// Servers continue at revisions that none had before, also not after the backup: whoever watches or lists from an
/// older one must list anew, and no condition on a revision holds for other content. The summary names them.
///
/// # Errors
/// The directory is not empty, in use or not writable; the file is not a backup, or is damaged.
pub fn restore(backup: &Path, data_dir: &Path, clock: &Clock) -> Result<Summary, RestoreError> {
    let mut summary = inspect(backup)?;
    let now = clock.wall().as_second();
    for (_, revision, _) in &mut summary.servers {
        *revision = bumped(*revision, now);
    }
    let shown = data_dir.display().to_string();
    let failed = |error: io::Error| RestoreError::Directory(classify(&shown, error));
    let again = data_dir.join(MARKER).try_exists().map_err(failed)?;
    if !again && !is_empty(data_dir).map_err(failed)? {
        return Err(RestoreError::NotEmpty { path: shown });
    }
    let dir = DataDir::lock(data_dir)?;
    private_file().create(true).truncate(false).open(data_dir.join(MARKER)).map_err(failed)?;
    dir.sync().map_err(failed)?;
    RedbBackend::remove(data_dir).map_err(failed)?;
    let mut filling = Filling { backend: RedbBackend::create(data_dir)?, server: 0, entries: Vec::new(), bytes: 0 };
    let mut reader = Reader::open(backup)?;
    while let Some(piece) = reader.next()? {
        match piece {
            Piece::Server { name, revision } => {
                filling.flush()?;
                filling.server = filling.backend.put_server(&name, bumped(revision, now))?;
            }
            Piece::Entry { key, entry } => filling.put(key, entry)?,
            Piece::File { path, bytes } => write_file(data_dir, &path, &bytes).map_err(failed)?,
        }
    }
    filling.flush()?;
    drop(filling);
    RedbBackend::put_in_place(&dir).map_err(failed)?;
    fs::remove_file(data_dir.join(MARKER)).map_err(failed)?;
    dir.sync().map_err(failed)?;
    Ok(summary)
}

/// The revision at which a restored server continues.
fn bumped(revision: Revision, unix_seconds: i64) -> Revision {
    let by_time = u64::try_from(unix_seconds).unwrap_or(0).saturating_mul(REVISIONS_PER_SECOND);
    Revision::new(revision.get().saturating_add(BUMP_MIN).max(by_time)).unwrap_or(revision)
}

/// Returns `true` if the directory is missing or contains no files of a user.
fn is_empty(data_dir: &Path) -> io::Result<bool> {
    let entries = match fs::read_dir(data_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let name = entry?.file_name();
        if name != LOCK_FILE && name != LOST_AND_FOUND {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Entries that are collected for the next transaction.
struct Filling {
    backend: RedbBackend,
    server: u32,
    entries: Vec<(Key, Entry)>,
    bytes: usize,
}

impl Filling {
    fn put(&mut self, key: Key, entry: Entry) -> Result<(), BackendError> {
        self.bytes += key.len() + entry.value.len();
        self.entries.push((key, entry));
        if self.bytes >= GROUP_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), BackendError> {
        self.backend.put_entries(self.server, &self.entries)?;
        self.entries.clear();
        self.bytes = 0;
        Ok(())
    }
}

/// Writes a file that only its owner reads, in folders that only their owner enters.
fn write_file(data_dir: &Path, path: &str, bytes: &[u8]) -> io::Result<()> {
    let path = data_dir.join(path);
    let parent = path.parent().unwrap_or(data_dir);
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(parent)?;
    let mut file = private_file().create(true).truncate(true).open(&path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    File::open(parent)?.sync_all()
}
