//! The files of a set of dependencies, and the list that names them with their sizes and sums.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};

/// A file, or an empty folder, of a unit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The hash that names the unit.
    pub(super) unit: String,
    /// Path in the folder of the profile.
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// `None` for a folder.
    sum: Option<String>,
}

/// All files of a set.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct List {
    pub(super) entries: Vec<Entry>,
}

/// Closes the list, so that a part of it is not taken for all.
const END: &str = "end";
/// In place of the sum of a folder.
const FOLDER: &str = "folder";

impl List {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
        let lines = text.strip_suffix(&format!("{END}\n")).context("the list of files has no end")?;
        let entries = lines.lines().map(|line| {
            let mut words = line.splitn(4, ' ');
            let mut next = || words.next().with_context(|| format!("not a line of the list of files: {line:?}"));
            let (unit, bytes, sum, path) = (next()?.to_owned(), next()?.parse()?, next()?, next()?.into());
            Ok(Entry { unit, path, bytes, sum: (sum != FOLDER).then(|| sum.to_owned()) })
        });
        Ok(Self { entries: entries.collect::<anyhow::Result<_>>()? })
    }

    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = String::new();
        for Entry { unit, path, bytes, sum } in &self.entries {
            writeln!(text, "{unit} {bytes} {} {}", sum.as_deref().unwrap_or(FOLDER), path.display())?;
        }
        let mut file = fs::File::create(path)?;
        file.write_all(text.as_bytes())?;
        writeln!(file, "{END}")?;
        file.sync_all().map_err(Into::into)
    }

    pub(super) fn units(&self) -> BTreeSet<String> {
        self.entries.iter().map(|entry| entry.unit.clone()).collect()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.bytes).sum()
    }

    /// Finds what is missing or cut off before anything is copied.
    pub(super) fn check_sizes(&self, set: &Path) -> anyhow::Result<()> {
        for entry in &self.entries {
            let path = set.join(&entry.path);
            let there = fs::metadata(&path).with_context(|| format!("{} is missing", entry.path.display()))?;
            let bytes = if there.is_dir() { 0 } else { there.len() };
            ensure!(bytes == entry.bytes, "{} has {bytes} bytes instead of {}", entry.path.display(), entry.bytes);
        }
        Ok(())
    }
}

impl Entry {
    /// Reads it, if its content is that of the list; `None` for a folder.
    pub(super) fn read(&self, from: &Path) -> anyhow::Result<Option<Content>> {
        let Some(want) = &self.sum else { return Ok(None) };
        let path = from.join(&self.path);
        let bytes = fs::read(&path).with_context(|| format!("{} can't be read", path.display()))?;
        ensure!(*want == sum(&bytes), "{} has another content than the list says", self.path.display());
        Ok(Some(Content { bytes, metadata: fs::metadata(&path)? }))
    }

    /// Writes it with the time of modification that it had.
    pub(super) fn write(&self, to: &Path, content: Option<Content>) -> anyhow::Result<()> {
        let path = to.join(&self.path);
        let write = || {
            let Some(Content { bytes, metadata }) = content else { return fs::create_dir_all(&path) };
            fs::create_dir_all(path.parent().unwrap_or(&path))?;
            let mut file = fs::File::create(&path)?;
            file.write_all(&bytes)?;
            file.set_permissions(metadata.permissions())?;
            file.set_modified(metadata.modified()?)
        };
        write().with_context(|| format!("{} can't be written", path.display()))
    }
}

/// A file that was read.
pub(super) struct Content {
    bytes: Vec<u8>,
    metadata: fs::Metadata,
}

/// Writes a file to the disk: a set is complete once its list is there, also after a loss of power.
pub(super) fn flush(path: &Path) -> anyhow::Result<()> {
    fs::File::open(path)?.sync_all().with_context(|| format!("{} can't be written", path.display()))
}

/// Adds all files below `path`, and folders that hold none.
pub(super) fn find(base: &Path, path: &Path, unit: &str, found: &mut Vec<Entry>) -> anyhow::Result<()> {
    let full = base.join(path);
    if !full.is_dir() {
        let content = fs::read(&full).with_context(|| format!("{} can't be read", full.display()))?;
        let (bytes, sum) = (content.len() as u64, Some(sum(&content)));
        found.push(Entry { unit: unit.to_owned(), path: path.to_owned(), bytes, sum });
        return Ok(());
    }
    let mut names: Vec<_> = fs::read_dir(&full)?.map(|entry| Ok(entry?.file_name())).collect::<anyhow::Result<_>>()?;
    names.sort();
    if names.is_empty() {
        found.push(Entry { unit: unit.to_owned(), path: path.to_owned(), bytes: 0, sum: None });
    }
    names.iter().try_for_each(|name| find(base, &path.join(name), unit, found))
}

/// A sum that tells damage, not intent. It is fast in a build without optimisation, in which SHA-256 needs a minute for
/// a set. Each step is a bijection of what came before, so one changed word always changes the sum.
fn sum(content: &[u8]) -> String {
    let (words, rest) = content.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mut sum = content.len() as u64;
    for word in words.iter().chain([&last]) {
        sum = (sum.rotate_left(23) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    format!("{sum:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_follow_each_byte_and_the_length() {
        let content: Vec<u8> = (0..19).collect();
        let first = sum(&content);
        for index in 0..content.len() {
            let mut other = content.clone();
            other[index] ^= 1;
            assert_ne!(sum(&other), first, "byte {index}");
        }
        assert_ne!(sum(&content[..18]), first);
        assert_ne!(sum(&[0; 8]), sum(&[0; 16]));
    }
}
