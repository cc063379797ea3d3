//! How a backup stands in a file (format 1). Numbers are little-endian.
//!
//! A head of sixteen letters and the format, then records: a tag, a length, the payload, and a sum over the record and all
//! before it. The last one says that it is the last. So a record that is missing, doubled, moved, cut or changed is noticed.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

use bytes::Bytes;

use super::{FILE_BYTES_MAX, stays_inside};
use crate::{
    Entry, Key, Revision,
    codec::{self, ENTRY_HEADER},
    limits,
};

const MAGIC: [u8; 16] = *b"ironclad-backup\n";
/// A change of the minor version is readable by older programs, one of the major version is not.
const MAJOR: u16 = 1;
const MINOR: u16 = 0;
const SERVER: u8 = 1;
const ENTRY: u8 = 2;
const FILE: u8 = 3;
const END: u8 = 4;
/// Nothing that is written is larger.
const PAYLOAD_BYTES_MAX: usize = limits::VALUE_BYTES_MAX + limits::KEY_BYTES_MAX + FILE_BYTES_MAX as usize;
/// The sum before the first record.
const FIRST_SUM: u64 = 0x6972_6f6e_636c_6164;

/// One record.
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

/// A backup that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// It is something else.
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
        /// Its format.
        found: String,
    },
    /// Its end is missing.
    #[error("backup {path} was cut off: it ends in the middle; use another backup")]
    Torn {
        /// The file.
        path: String,
    },
    /// It is not what was written.
    #[error("backup {path} is damaged ({detail}): use another backup")]
    Damaged {
        /// The file.
        path: String,
        /// What and where.
        detail: String,
    },
    /// It can't be read.
    #[error("backup {path} can't be read")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// What is in a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Each server with its newest revision and how many keys it has.
    pub servers: Vec<(String, Revision, u64)>,
    /// Files beside them.
    pub files: u64,
}

/// Reads a backup to its end; says what is in it.
///
/// # Errors
/// Whatever keeps it from being restored.
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

/// Puts records into chunks.
pub(super) struct Writer {
    buffer: Vec<u8>,
    sum: u64,
    records: u64,
}

impl Writer {
    pub(super) fn new() -> Self {
        let mut buffer = MAGIC.to_vec();
        buffer.extend_from_slice(&MAJOR.to_le_bytes());
        buffer.extend_from_slice(&MINOR.to_le_bytes());
        Self { buffer, sum: FIRST_SUM, records: 0 }
    }

    pub(super) fn buffered(&self) -> usize {
        self.buffer.len()
    }

    pub(super) fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.buffer).into()
    }

    pub(super) fn put(&mut self, piece: &Piece) {
        match piece {
            Piece::Server { name, revision } => self.record(SERVER, |into| {
                into.extend_from_slice(&revision.get().to_le_bytes());
                into.extend_from_slice(name.as_bytes());
            }),
            Piece::Entry { key, entry } => self.record(ENTRY, |into| {
                put_name(key, into);
                let start = into.len();
                into.resize(start + ENTRY_HEADER + entry.value.len(), 0);
                codec::encode_entry(key, entry, &mut into[start..]);
            }),
            Piece::File { path, bytes } => self.record(FILE, |into| {
                put_name(path, into);
                into.extend_from_slice(bytes);
            }),
        }
    }

    pub(super) fn end(mut self) -> Bytes {
        let records = self.records;
        self.record(END, |into| into.extend_from_slice(&records.to_le_bytes()));
        self.buffer.into()
    }

    fn record(&mut self, tag: u8, payload: impl FnOnce(&mut Vec<u8>)) {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[tag, 0, 0, 0, 0]);
        payload(&mut self.buffer);
        let length = u32::try_from(self.buffer.len() - start - 5).expect("payloads have a bound far below 4 GiB");
        self.buffer[start + 1..start + 5].copy_from_slice(&length.to_le_bytes());
        self.sum = codec::sum(&self.sum.to_le_bytes(), &self.buffer[start..]);
        self.buffer.extend_from_slice(&self.sum.to_le_bytes());
        self.records += 1;
    }
}

fn put_name(name: &str, into: &mut Vec<u8>) {
    let length = u32::try_from(name.len()).expect("keys and paths are short");
    into.extend_from_slice(&length.to_le_bytes());
    into.extend_from_slice(name.as_bytes());
}

/// Takes records out of a file, and checks what each of them must be.
pub(super) struct Reader<R> {
    from: R,
    path: String,
    minor: u16,
    sum: u64,
    records: u64,
    buffer: Vec<u8>,
    /// The servers so far, and of the latest its revision and last key.
    names: Vec<String>,
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
        let mut reader = Self {
            from,
            path,
            minor: 0,
            sum: FIRST_SUM,
            records: 0,
            buffer: Vec::new(),
            names: Vec::new(),
            revision: None,
            key: None,
        };
        let mut head = [0; 16];
        match reader.fill(&mut head) {
            // Too short to be one is no more foreign than too short a beginning of one.
            Err(BackupError::Torn { path }) => return Err(BackupError::Foreign { path }),
            read => read?,
        }
        if head != MAGIC {
            return Err(BackupError::Foreign { path: reader.path });
        }
        let (mut major, mut minor) = ([0; 2], [0; 2]);
        reader.fill(&mut major)?;
        reader.fill(&mut minor)?;
        let (major, minor) = (u16::from_le_bytes(major), u16::from_le_bytes(minor));
        if major > MAJOR {
            return Err(BackupError::Newer { path: reader.path, found: format!("{major}.{minor}") });
        }
        if major < MAJOR {
            return Err(reader.damaged("it claims a format that never existed"));
        }
        reader.minor = minor;
        Ok(reader)
    }

    /// The next record; `None` after the last, which is there.
    pub(super) fn next(&mut self) -> Result<Option<Piece>, BackupError> {
        loop {
            let tag = self.record()?;
            let piece = match tag {
                SERVER => self.server(),
                ENTRY => self.entry(),
                FILE => self.file(),
                END => {
                    let records = self.records - 1;
                    if self.buffer[5..] != records.to_le_bytes() {
                        return Err(self.damaged("the number of its records"));
                    }
                    return match self.from.read(&mut [0]) {
                        Ok(0) => Ok(None),
                        Ok(_) => Err(self.damaged("it goes on after its end")),
                        Err(source) => Err(self.failed(source)),
                    };
                }
                // What a newer minor version added can be left out.
                _ if self.minor > MINOR => continue,
                _ => None,
            };
            let record = self.records;
            return piece.map(Some).ok_or_else(|| self.damaged(&format!("record {record}")));
        }
    }

    /// Reads a record into the buffer: tag, length, payload. The sum is checked.
    fn record(&mut self) -> Result<u8, BackupError> {
        let mut head = [0; 5];
        self.fill(&mut head)?;
        let [tag, length @ ..] = head;
        let length = u32::from_le_bytes(length) as usize;
        self.records += 1;
        if length > PAYLOAD_BYTES_MAX {
            return Err(self.damaged(&format!("the length of record {}", self.records)));
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.extend_from_slice(&head);
        buffer.resize(5 + length, 0);
        let read = self.fill(&mut buffer[5..]);
        self.buffer = buffer;
        read?;
        let mut sum = [0; 8];
        self.fill(&mut sum)?;
        self.sum = codec::sum(&self.sum.to_le_bytes(), &self.buffer);
        if self.sum != u64::from_le_bytes(sum) {
            return Err(self.damaged(&format!("the sum of record {}", self.records)));
        }
        Ok(tag)
    }

    fn server(&mut self) -> Option<Piece> {
        let (revision, name) = self.buffer[5..].split_first_chunk::<8>()?;
        let revision = Revision::new(u64::from_le_bytes(*revision))?;
        let name = std::str::from_utf8(name).ok()?.to_owned();
        if self.names.contains(&name) {
            return None;
        }
        self.names.push(name.clone());
        (self.revision, self.key) = (Some(revision), None);
        Some(Piece::Server { name, revision })
    }

    fn entry(&mut self) -> Option<Piece> {
        let (key, bytes) = name_of(&self.buffer[5..])?;
        let entry = codec::decode_entry(key, bytes)?;
        let fits = entry.modified <= self.revision? && self.key.as_ref().is_none_or(|last| last.as_str() < key);
        let key = Key::from(key);
        self.key = Some(key.clone());
        fits.then_some(Piece::Entry { key, entry })
    }

    fn file(&self) -> Option<Piece> {
        let (path, bytes) = name_of(&self.buffer[5..])?;
        stays_inside(path).then(|| Piece::File { path: path.to_owned(), bytes: Bytes::copy_from_slice(bytes) })
    }

    fn fill(&mut self, into: &mut [u8]) -> Result<(), BackupError> {
        match self.from.read_exact(into) {
            Ok(()) => Ok(()),
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

/// A name with its length before it, and what follows.
fn name_of(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (name, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some((std::str::from_utf8(name).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<Piece>, BackupError> {
        let mut reader = Reader::new(bytes, "b".to_owned())?;
        let mut pieces = Vec::new();
        while let Some(piece) = reader.next()? {
            pieces.push(piece);
        }
        Ok(pieces)
    }

    fn pieces() -> Vec<Piece> {
        let revision = |n| Revision::new(n).unwrap();
        let entry = |modified, value: &'static [u8]| Entry {
            create: revision(2),
            modified: revision(modified),
            version: 3,
            expires: crate::Expiry::at_unix_seconds(7),
            value: Bytes::from_static(value),
        };
        vec![
            Piece::Server { name: "m".into(), revision: revision(1) },
            Piece::Server { name: "plane".into(), revision: revision(9) },
            Piece::Entry { key: "/a".into(), entry: entry(9, b"one") },
            Piece::Entry { key: "/b".into(), entry: entry(4, b"") },
            Piece::File { path: "pki/ca.key".into(), bytes: Bytes::from_static(b"key") },
        ]
    }

    fn written(pieces: &[Piece]) -> Vec<u8> {
        let mut writer = Writer::new();
        pieces.iter().for_each(|piece| writer.put(piece));
        writer.end().to_vec()
    }

    #[test]
    fn it_comes_back_and_nothing_that_was_changed_does() {
        let bytes = written(&pieces());
        assert_eq!(read(&bytes).unwrap(), pieces());
        for cut in 0..bytes.len() {
            let error = read(&bytes[..cut]).unwrap_err();
            let right = if cut < 16 {
                matches!(error, BackupError::Foreign { .. })
            } else {
                matches!(error, BackupError::Torn { .. })
            };
            assert!(right, "cut at {cut}: {error}");
        }
        // The version is no part of what the sums are over: another one is refused or means the same.
        for bit in (0..16 * 8).chain(20 * 8..bytes.len() * 8) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&damaged).is_err(), "bit {bit}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(matches!(read(&longer), Err(BackupError::Damaged { .. })));
    }

    #[test]
    fn what_is_refused() {
        let versioned = |major: u16| {
            let mut bytes = written(&pieces());
            bytes[16..18].copy_from_slice(&major.to_le_bytes());
            read(&bytes).unwrap_err().to_string()
        };
        let newer = "backup b has format 2.0, and this version reads up to 1.0: restore it with the newer version";
        assert_eq!(versioned(2), newer);
        assert!(versioned(0).contains("never existed"));
        let foreign = read(b"PK\x03\x04 this is some other file").unwrap_err().to_string();
        assert_eq!(foreign, "b is not a backup of ironclad: name a file that `ironclad backup FILE` wrote");
        let all = pieces();
        let outside = Piece::File { path: "../../etc/cron.d/x".into(), bytes: Bytes::new() };
        for (name, pieces) in [
            ("a file outside", vec![outside]),
            ("an entry of no server", vec![all[2].clone()]),
            ("a key twice", vec![all[1].clone(), all[2].clone(), all[2].clone()]),
            ("keys out of order", vec![all[1].clone(), all[3].clone(), all[2].clone()]),
            ("an entry newer than its server", vec![all[0].clone(), all[2].clone()]),
            ("a server twice", vec![all[0].clone(), all[0].clone()]),
        ] {
            assert!(matches!(read(&written(&pieces)), Err(BackupError::Damaged { .. })), "{name}");
        }
    }

    #[test]
    fn a_record_that_a_later_minor_version_added_is_left_out() {
        let mut writer = Writer::new();
        writer.put(&pieces()[0]);
        writer.record(9, |into| into.extend_from_slice(b"something new"));
        let mut bytes = writer.end().to_vec();
        assert!(read(&bytes).is_err(), "of this version it is damage");
        bytes[18] = 1;
        assert_eq!(read(&bytes).unwrap(), pieces()[..1]);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes);
            let mut with_head = written(&[])[..20].to_vec();
            with_head.extend_from_slice(&bytes);
            let _ = read(&with_head);
        }
    }
}
