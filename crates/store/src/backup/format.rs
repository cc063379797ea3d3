//! File format of a backup (format 1): a tar archive that `tar t` lists.
//!
//! | member | content |
//! | --- | --- |
//! | `ironclad-backup` | the version of the format; first |
//! | `servers/NAME` | a [`ServerHeader`] as JSON |
//! | `objects/NAME/KEY` | an [`EntryHeader`] as one line of JSON, then the value; in the order of keys |
//! | `files/PATH` | a file of the data directory |
//! | `end` | the number of members before it, and the CRC-32 of their bytes; last |
//!
//! Names of members are for people: a restore uses the headers, except for paths of files. The reader accepts
//! only what the writer writes, block by block, so that a missing, duplicate, moved, truncated or changed member
//! is detected. It holds one member in memory at a time.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tar::{Builder, EntryType, Header};

use super::{FILE_BYTES_MAX, stays_inside};
use crate::{Entry, Expiry, Key, Revision, limits};

/// Name of the first member.
const FORMAT_MEMBER: &str = "ironclad-backup";
/// Name of the last member.
const END_MEMBER: &str = "end";
/// Older programs can read a newer minor version, but not a newer major version.
const MAJOR: u16 = 1;
const MINOR: u16 = 0;
const BLOCK_BYTES: usize = 512;
/// Space for the header of an entry, in which a key can be escaped.
const HEADER_BYTES_MAX: usize = 6 * limits::KEY_BYTES_MAX + 256;
/// Largest content of a member.
const CONTENT_BYTES_MAX: usize = limits::VALUE_BYTES_MAX + HEADER_BYTES_MAX + FILE_BYTES_MAX as usize;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A server; its entries follow in the order of their keys.
    Server {
        name: String,
        revision: Revision,
    },
    Entry {
        key: Key,
        entry: Entry,
    },
    File {
        path: String,
        bytes: Bytes,
    },
}

#[derive(Serialize, Deserialize)]
struct ServerHeader {
    name: String,
    revision: u64,
}

#[derive(Serialize, Deserialize)]
struct EntryHeader {
    key: String,
    create: u64,
    modified: u64,
    version: u64,
    /// Seconds since the epoch; 0 for an entry that does not expire.
    expires: u64,
}

#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct End {
    members: u64,
    crc32: u32,
}

/// A backup that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file is not a backup.
    #[error("{path} is not a backup of ironclad: name a file that `ironclad backup FILE` wrote")]
    Foreign {
        /// The file.
        path: String,
    },
    /// A later version wrote it.
    #[error(
        "backup {path} has format {found}, and this version reads up to {MAJOR}.{MINOR}: restore it with the newer version"
    )]
    Newer {
        /// The file.
        path: String,
        /// Format of the backup.
        found: String,
    },
    /// It is truncated.
    #[error("backup {path} was cut off: it ends in the middle; use another backup")]
    Torn {
        /// The file.
        path: String,
    },
    /// Its content was changed.
    #[error("backup {path} is damaged ({detail}): use another backup")]
    Damaged {
        /// The file.
        path: String,
        /// The mistake and its location.
        detail: String,
    },
    /// Reading it failed.
    #[error("backup {path} can't be read")]
    Io {
        /// The file.
        path: String,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

/// Number of servers, keys and files in a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Each server with its newest revision and its number of keys.
    pub servers: Vec<(String, Revision, u64)>,
    /// Number of files.
    pub files: u64,
}

/// Reads a backup to its end and counts its contents.
///
/// # Errors
/// The backup cannot be restored.
pub fn inspect(path: &Path) -> Result<Summary, BackupError> {
    let mut reader = Reader::open(path)?;
    let mut summary = Summary::default();
    while let Some(piece) = reader.next()? {
        match piece {
            Piece::Server { name, revision } => summary.servers.push((name, revision, 0)),
            Piece::Entry { .. } => {
                if let Some((_, _, keys)) = summary.servers.last_mut() {
                    *keys += 1;
                }
            }
            Piece::File { .. } => summary.files += 1,
        }
    }
    Ok(summary)
}

pub(super) struct Writer {
    archive: Builder<Vec<u8>>,
    /// Checksum of the bytes taken from the buffer.
    crc: crc32fast::Hasher,
    members: u64,
    server: String,
}

impl Writer {
    pub(super) fn new() -> Self {
        let mut this = Self {
            archive: Builder::new(Vec::new()),
            crc: crc32fast::Hasher::new(),
            members: 0,
            server: String::new(),
        };
        this.member(FORMAT_MEMBER, format!("{MAJOR}.{MINOR}\n").as_bytes());
        this
    }

    pub(super) fn buffered(&self) -> usize {
        self.archive.get_ref().len()
    }

    pub(super) fn take(&mut self) -> Bytes {
        let bytes = std::mem::take(self.archive.get_mut());
        self.crc.update(&bytes);
        bytes.into()
    }

    pub(super) fn put(&mut self, piece: &Piece) {
        match piece {
            Piece::Server { name, revision } => {
                self.server = listed(name);
                let header = ServerHeader { name: name.clone(), revision: revision.get() };
                self.member(&format!("servers/{}", self.server), &line(&header));
            }
            Piece::Entry { key, entry } => {
                let mut content = line(&EntryHeader {
                    key: key.to_string(),
                    create: entry.create.get(),
                    modified: entry.modified.get(),
                    version: entry.version,
                    expires: entry.expires.map_or(0, Expiry::unix_seconds),
                });
                content.extend_from_slice(&entry.value);
                self.member(&format!("objects/{}/{}", self.server, listed(key)), &content);
            }
            Piece::File { path, bytes } => self.member(&format!("files/{path}"), bytes),
        }
    }

    pub(super) fn end(mut self) -> Bytes {
        let mut last = Vec::from(self.take());
        let end = End { members: self.members, crc32: self.crc.clone().finalize() };
        self.member(END_MEMBER, &line(&end));
        last.extend(self.archive.into_inner().expect("a buffer takes everything"));
        last.into()
    }

    fn member(&mut self, path: &str, content: &[u8]) {
        let mut header = Header::new_gnu();
        header.set_mode(0o600);
        header.set_size(content.len() as u64);
        self.archive
            .append_data(&mut header, path, content)
            .expect("the path is relative, and a buffer takes everything");
        self.members += 1;
    }
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("headers are plain values");
    line.push(b'\n');
    line
}

/// A name as a relative path in a listing.
fn listed(name: &str) -> String {
    let parts = name.split('/').filter(|part| !part.is_empty()).map(|part| match part {
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        part => part.replace(|c: char| c.is_control() || c == '\\', "_"),
    });
    let path = parts.collect::<Vec<_>>().join("/");
    if path.is_empty() { "_".to_owned() } else { path }
}

/// Reads pieces from a file and checks their order and bounds.
pub(super) struct Reader<R> {
    from: R,
    path: String,
    minor: u16,
    crc: crc32fast::Hasher,
    members: u64,
    /// Names of the servers so far.
    names: Vec<String>,
    /// Revision and last key of the latest server.
    revision: Option<Revision>,
    key: Option<Key>,
}

impl Reader<BufReader<File>> {
    pub(super) fn open(path: &Path) -> Result<Self, BackupError> {
        let shown = path.display().to_string();
        let file = File::open(path).map_err(|source| BackupError::Io { path: shown.clone(), source })?;
        Self::new(BufReader::new(file), shown)
    }
}

impl<R: Read> Reader<R> {
    pub(super) fn new(from: R, path: String) -> Result<Self, BackupError> {
        let mut this = Self {
            from,
            path,
            minor: 0,
            crc: crc32fast::Hasher::new(),
            members: 0,
            names: Vec::new(),
            revision: None,
            key: None,
        };
        let foreign = |path: &str| BackupError::Foreign { path: path.to_owned() };
        let mut header = Header::new_gnu();
        match this.header(&mut header) {
            Ok(true) if header.path_bytes() == FORMAT_MEMBER.as_bytes() => {}
            Err(error @ BackupError::Io { .. }) => return Err(error),
            // A file that ends before or within the first header is no backup rather than a truncated one.
            _ => return Err(foreign(&this.path)),
        }
        let content = this.content(&header)?;
        let version = std::str::from_utf8(&content).ok().and_then(|text| text.trim_end().split_once('.'));
        let Some((Ok(major), Ok(minor))) = version.map(|(major, minor)| (major.parse::<u16>(), minor.parse())) else {
            return Err(this.damaged("the version of its format"));
        };
        if major > MAJOR {
            return Err(BackupError::Newer { path: this.path, found: format!("{major}.{minor}") });
        }
        if major < MAJOR {
            return Err(this.damaged("it claims a format that never existed"));
        }
        this.minor = minor;
        Ok(this)
    }

    /// Returns the next piece; `None` after the last one, once the end of the archive is complete.
    pub(super) fn next(&mut self) -> Result<Option<Piece>, BackupError> {
        loop {
            let end = End { members: self.members, crc32: self.crc.clone().finalize() };
            let (name, content) = self.member()?;
            let piece = if name == END_MEMBER {
                if content != line(&end) {
                    return Err(self.damaged("its checksum"));
                }
                self.trailer()?;
                return Ok(None);
            } else if let Some(path) = name.strip_prefix("files/") {
                stays_inside(path).then(|| Piece::File { path: path.to_owned(), bytes: content.into() })
            } else if name.starts_with("servers/") {
                self.server(&content)
            } else if name.starts_with("objects/") {
                self.entry(content.into())
            } else if self.minor > MINOR {
                // A member that a newer minor version added.
                continue;
            } else {
                None
            };
            return piece.map(Some).ok_or_else(|| self.damaged(&format!("member {name}")));
        }
    }

    fn server(&mut self, content: &[u8]) -> Option<Piece> {
        let ServerHeader { name, revision } = serde_json::from_slice(content).ok()?;
        let revision = Revision::new(revision)?;
        if self.names.contains(&name) {
            return None;
        }
        self.names.push(name.clone());
        (self.revision, self.key) = (Some(revision), None);
        Some(Piece::Server { name, revision })
    }

    fn entry(&mut self, content: Bytes) -> Option<Piece> {
        let header_bytes = content.iter().position(|byte| *byte == b'\n')?;
        let header: EntryHeader = serde_json::from_slice(&content[..header_bytes]).ok()?;
        let entry = Entry {
            create: Revision::new(header.create)?,
            modified: Revision::new(header.modified)?,
            version: header.version,
            expires: Expiry::at_unix_seconds(header.expires),
            value: content.slice(header_bytes + 1..),
        };
        let key = Key::from(header.key);
        let in_order = self.key.as_ref().is_none_or(|last| *last < key);
        if entry.modified > self.revision? || !in_order {
            return None;
        }
        self.key = Some(key.clone());
        Some(Piece::Entry { key, entry })
    }

    /// Reads a member: its name and its content.
    fn member(&mut self) -> Result<(String, Vec<u8>), BackupError> {
        let (mut header, mut long_name) = (Header::new_gnu(), None);
        loop {
            if !self.header(&mut header)? {
                return Err(self.damaged("it ends without its last member"));
            }
            let content = self.content(&header)?;
            match header.entry_type() {
                // The name of the next member, if it does not fit its header.
                EntryType::GNULongName if long_name.is_none() => long_name = Some(content),
                EntryType::Regular => {
                    let name = long_name.unwrap_or_else(|| header.path_bytes().into_owned());
                    let name = String::from_utf8(name).map(|name| name.trim_end_matches('\0').to_owned());
                    return match name {
                        Ok(name) => Ok((name, content)),
                        Err(_) => Err(self.damaged(&format!("the name of member {}", self.members))),
                    };
                }
                _ => return Err(self.damaged(&format!("the type of member {}", self.members))),
            }
        }
    }

    /// Reads a header; `false` for the empty block after the last member.
    fn header(&mut self, header: &mut Header) -> Result<bool, BackupError> {
        self.fill(header.as_mut_bytes())?;
        if header.as_bytes().iter().all(|byte| *byte == 0) {
            return Ok(false);
        }
        let mut intact = header.clone();
        intact.set_cksum();
        if intact.as_bytes() != header.as_bytes() {
            return Err(self.damaged(&format!("the header after member {}", self.members)));
        }
        Ok(true)
    }

    /// Reads the content of a member and the padding after it.
    fn content(&mut self, header: &Header) -> Result<Vec<u8>, BackupError> {
        if header.entry_type() == EntryType::Regular {
            self.members += 1;
        }
        let bytes = header.size().ok().and_then(|size| usize::try_from(size).ok());
        let Some(bytes) = bytes.filter(|bytes| *bytes <= CONTENT_BYTES_MAX) else {
            return Err(self.damaged(&format!("the size of member {}", self.members)));
        };
        let mut content = vec![0; bytes.next_multiple_of(BLOCK_BYTES)];
        self.fill(&mut content)?;
        if content[bytes..].iter().any(|byte| *byte != 0) {
            return Err(self.damaged(&format!("the padding of member {}", self.members)));
        }
        content.truncate(bytes);
        Ok(content)
    }

    /// Reads the two empty blocks at the end, and makes sure that nothing follows.
    fn trailer(&mut self) -> Result<(), BackupError> {
        let mut blocks = [0; 2 * BLOCK_BYTES];
        self.fill(&mut blocks)?;
        match self.from.read(&mut [0]) {
            Ok(0) if blocks.iter().all(|byte| *byte == 0) => Ok(()),
            Ok(_) => Err(self.damaged("it goes on after its end")),
            Err(source) => Err(self.failed(source)),
        }
    }

    fn fill(&mut self, into: &mut [u8]) -> Result<(), BackupError> {
        match self.from.read_exact(into) {
            Ok(()) => {
                self.crc.update(into);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(BackupError::Torn { path: self.path.clone() })
            }
            Err(source) => Err(self.failed(source)),
        }
    }

    fn failed(&self, source: io::Error) -> BackupError {
        BackupError::Io { path: self.path.clone(), source }
    }

    fn damaged(&self, detail: &str) -> BackupError {
        BackupError::Damaged { path: self.path.clone(), detail: detail.to_owned() }
    }
}

#[cfg(test)]
mod tests;
