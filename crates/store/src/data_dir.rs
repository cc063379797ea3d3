//! Data directory: private to its owner, locked by one process, with errors that name the path and a remedy.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use crate::BackendError;

/// Lock file of the process that has the directory open; contains its pid.
pub(crate) const LOCK_FILE: &str = "store.lock";

/// A data directory that this process has locked until it is dropped.
pub(crate) struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Creates the directory if it is missing (mode 0700) and locks it.
    pub(crate) fn lock(path: &Path) -> Result<Self, BackendError> {
        let fail = |error| classify(&path.display().to_string(), error);
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).map_err(fail)?;
        let mut lock = private_file().create(true).truncate(false).open(path.join(LOCK_FILE)).map_err(fail)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(BackendError::InUse { path: path.display().to_string(), holder: holder(&mut lock) });
            }
            Err(TryLockError::Error(error)) => return Err(fail(error)),
        }
        lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id())).map_err(fail)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Renames a finished file, so that after a crash it exists completely or not at all.
    pub(crate) fn put_in_place(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))?;
        self.sync()
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

/// Files that only their owner can read.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn holder(lock: &mut File) -> String {
    let mut pid = String::new();
    // A longer text is not a pid.
    let read = lock.take(20).read_to_string(&mut pid);
    match (read, pid.trim()) {
        (Ok(_), pid) if !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()) => format!("pid {pid}"),
        _ => "its pid is not known".to_owned(),
    }
}

/// Maps a system error to an error with a remedy.
pub(crate) fn classify(path: &str, source: io::Error) -> BackendError {
    use io::ErrorKind as Kind;
    let path = path.to_owned();
    match source.kind() {
        Kind::StorageFull | Kind::QuotaExceeded => BackendError::NoSpace { path, source },
        Kind::PermissionDenied | Kind::ReadOnlyFilesystem | Kind::NotADirectory | Kind::AlreadyExists => {
            BackendError::NotWritable { path, source }
        }
        // redb's errors for a foreign or truncated file.
        Kind::InvalidData | Kind::UnexpectedEof => BackendError::Corrupt { path, detail: source.to_string() },
        _ => BackendError::Io { path, source },
    }
}
