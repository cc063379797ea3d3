//! Backup and restore: all servers of an engine at one moment, and files beside them, as one stream of bytes.
//!
//! A backup has the newest state of every key with its revisions, and no history. A restored server continues at a
//! revision that it never had, so watches start anew. A backup contains every secret.

mod format;
mod restore;

use std::{
    fs, io,
    path::{Component, Path},
};

use bytes::Bytes;

use crate::{BackendError, Entry, Key, Loaded, RedbBackend, Revision};

use self::format::{Piece, Writer};
pub use self::{
    format::{BackupError, Summary, inspect},
    restore::{RestoreError, restore},
};
pub(crate) use restore::MARKER;

/// Approximate bytes of a backup's chunks.
const CHUNK_BYTES: usize = 64 * 1024;
/// Largest file that is included: keys and certificates are far smaller.
pub(crate) const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// State of all servers at one moment. It shares the bytes of values with the engine.
#[derive(Debug, Default)]
pub struct Snapshot {
    servers: Vec<ServerState>,
    files: Vec<(String, Bytes)>,
}

#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) name: String,
    pub(crate) revision: Revision,
    pub(crate) entries: Vec<(Key, Entry)>,
}

impl Snapshot {
    pub(crate) fn new(mut servers: Vec<ServerState>) -> Self {
        servers.sort_by(|a, b| a.name.cmp(&b.name));
        Self { servers, files: Vec::new() }
    }

    /// Reads a data directory that no process has open.
    ///
    /// # Errors
    /// As [`RedbBackend::open`], and if the directory holds no store.
    pub fn of_directory(data_dir: &Path) -> Result<Self, BackendError> {
        let mut backend = RedbBackend::open_existing(data_dir)?;
        let loaded: Loaded = crate::Backend::load(&mut backend)?;
        let state = |(name, server): (String, crate::LoadedServer)| ServerState {
            name,
            revision: server.revision,
            entries: server.head,
        };
        Ok(Self::new(loaded.into_iter().map(state).collect()))
    }

    /// Adds the files of a folder of the data directory, and of folders in it. Anything but plain files is left out.
    ///
    /// # Errors
    /// A file cannot be read or exceeds 1 MiB.
    pub fn add_folder(&mut self, data_dir: &Path, folder: &str) -> io::Result<()> {
        let mut found: Vec<_> = match fs::read_dir(data_dir.join(folder)) {
            Ok(entries) => entries.collect::<Result<_, _>>()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        found.sort_by_key(fs::DirEntry::file_name);
        for entry in found {
            let name = entry.file_name().into_string().map_err(|name| {
                io::Error::new(io::ErrorKind::InvalidInput, format!("the file name {} is no text", name.display()))
            })?;
            let path = format!("{folder}/{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.add_folder(data_dir, &path)?;
            } else if kind.is_file() {
                if entry.metadata()?.len() > FILE_BYTES_MAX {
                    return Err(io::Error::new(
                        io::ErrorKind::FileTooLarge,
                        format!("{path} is no key or certificate"),
                    ));
                }
                self.files.push((path, fs::read(entry.path())?.into()));
            }
        }
        Ok(())
    }

    /// Returns the backup in chunks, which are encoded as they are requested.
    pub fn chunks(self) -> impl Iterator<Item = Bytes> + Send + 'static {
        let of_server = |server: ServerState| {
            let ServerState { name, revision, entries } = server;
            let entries = entries.into_iter().map(|(key, entry)| Piece::Entry { key, entry });
            std::iter::once(Piece::Server { name, revision }).chain(entries)
        };
        let files = self.files.into_iter().map(|(path, bytes)| Piece::File { path, bytes });
        let mut pieces = self.servers.into_iter().flat_map(of_server).chain(files);
        let mut writer = Some(Writer::new());
        std::iter::from_fn(move || {
            let of_this = writer.as_mut()?;
            while of_this.buffered() < CHUNK_BYTES {
                match pieces.next() {
                    Some(piece) => of_this.put(&piece),
                    None => return writer.take().map(Writer::end),
                }
            }
            Some(of_this.take())
        })
    }
}

fn stays_inside(path: &str) -> bool {
    let mut parts = Path::new(path).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_outside_of_the_directory_are_detected() {
        for (path, want) in [
            ("pki/ca.crt", true),
            ("a", true),
            ("", false),
            ("/etc/passwd", false),
            ("../a", false),
            ("pki/../../a", false),
            ("./a", false),
        ] {
            assert_eq!(stays_inside(path), want, "{path}");
        }
    }
}
