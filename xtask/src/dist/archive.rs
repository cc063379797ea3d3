//! Archives whose bytes depend on their content alone: entries in the order given, one time, no owner.

use std::{io::Write as _, path::Path};

use anyhow::Context as _;
use flate2::{Compression, write::GzEncoder};

/// An entry of an archive.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Path in the archive.
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) content: Content,
}

/// Content of an entry.
#[derive(Debug, Clone)]
pub(super) enum Content {
    File(Vec<u8>),
    Folder,
    /// Target of a symbolic link.
    Link(String),
}

impl Entry {
    pub(super) fn file(path: impl Into<String>, mode: u32, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode, content: Content::File(bytes.into()) }
    }

    pub(super) fn folder(path: impl Into<String>, mode: u32) -> Self {
        Self { path: path.into(), mode, content: Content::Folder }
    }

    pub(super) fn link(path: impl Into<String>, target: impl Into<String>) -> Self {
        Self { path: path.into(), mode: 0o777, content: Content::Link(target.into()) }
    }
}

/// A tar archive of these entries. `time` is that of each, in seconds since 1970.
pub(super) fn tar(entries: &[Entry], time: u64) -> anyhow::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for entry in entries {
        let mut header = tar::Header::new_ustar();
        header.set_mode(entry.mode);
        header.set_mtime(time);
        header.set_uid(0);
        header.set_gid(0);
        let path = Path::new(&entry.path);
        match &entry.content {
            Content::File(bytes) => {
                header.set_entry_type(tar::EntryType::Regular);
                header.set_size(u64::try_from(bytes.len())?);
                archive.append_data(&mut header, path, bytes.as_slice())
            }
            Content::Folder => {
                header.set_entry_type(tar::EntryType::Directory);
                header.set_size(0);
                archive.append_data(&mut header, path, std::io::empty())
            }
            Content::Link(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                archive.append_link(&mut header, path, target)
            }
        }
        .with_context(|| format!("{} does not fit into an archive", entry.path))?;
    }
    Ok(archive.into_inner()?)
}

/// Compresses bytes, with no name and no time.
pub(super) fn gzip(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}
