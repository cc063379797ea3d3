//! The durable backend: one redb file for all servers of a process.
//!
//! Tables: `head: (server, key) -> entry`, `log: (server, revision) -> entries that the transaction replaced`,
//! `meta: name -> bytes` (the format, and for each server its number and newest revision). A group is one redb
//! transaction with one fsync, so the tables always fit together.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs, io,
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    path::{Path, PathBuf},
    sync::{Arc, Once},
};

use redb::{
    Builder, CommitError, Database, DatabaseError, ReadableDatabase, StorageBackend, StorageError, Table,
    TableDefinition, TableError, TransactionError, backends::FileBackend,
};

use crate::{
    Backend, BackendError, BackendStats, Entry, Key, Loaded, LoadedServer, Record, Revision, Transaction,
    backup::MARKER,
    codec::{self, ENTRY_HEADER},
    data_dir::{DataDir, classify, private_file},
    error::text_of,
};

const HEAD: TableDefinition<'_, (u32, &str), &[u8]> = TableDefinition::new("head");
const LOG: TableDefinition<'_, (u32, u64), &[u8]> = TableDefinition::new("log");
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

const FILE: &str = "store.redb";
/// The file before its first commit.
const NEW_FILE: &str = "store.redb.new";
/// redb's page cache. Reads never touch the file, so it serves the writer alone.
const CACHE_BYTES: usize = 8 * 1024 * 1024;
/// Entry in `meta`: the format's major and minor version, two bytes each.
const FORMAT_KEY: &str = "format";
/// A change of the minor version is readable by older programs, one of the major version is not.
const FORMAT: Format = Format { major: 1, minor: 0 };
/// Entries in `meta`: a server's number (4 bytes) and its newest revision (8 bytes).
const SERVER_KEY: &str = "server/";

/// Backend in a redb file; the module documents its tables.
pub struct RedbBackend {
    // Dropped before the directory, so that the file is closed before the lock is released.
    database: Handle,
    path: String,
    file: Option<PathBuf>,
    servers: BTreeMap<Arc<str>, u32>,
    stats: BackendStats,
    buffer: Vec<u8>,
    _dir: Option<DataDir>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Format {
    major: u16,
    minor: u16,
}

impl RedbBackend {
    /// Opens or creates a data directory: directory 0700, files 0600, locked against other processes until dropped.
    ///
    /// # Errors
    /// The directory is in use, not writable, full, damaged, or of a newer format.
    pub fn open(path: &Path) -> Result<Self, BackendError> {
        let name = path.display().to_string();
        let dir = DataDir::lock(path)?;
        let file = path.join(FILE);
        let io = |error| classify(&name, error);
        if path.join(MARKER).try_exists().map_err(io)? {
            return Err(BackendError::HalfRestored { path: name });
        }
        let found = file.try_exists().map_err(io)?;
        if found && fs::metadata(&file).map_err(io)?.len() == 0 {
            // It would become a new store, in which everything is missing.
            return Err(BackendError::Corrupt { path: name, detail: format!("{FILE} is empty") });
        }
        let mut options = private_file();
        let opened =
            if found { options.open(&file) } else { options.create(true).truncate(true).open(path.join(NEW_FILE)) };
        let storage = FileBackend::new(opened.map_err(io)?).map_err(|e| of_database(&name, e))?;
        let mut backend = Self::on(storage, &name)?;
        if !found {
            dir.put_in_place(NEW_FILE, FILE).map_err(io)?;
        }
        backend.file = Some(file);
        backend._dir = Some(dir);
        Ok(backend)
    }

    /// Opens a data directory that already has a store.
    ///
    /// # Errors
    /// As [`RedbBackend::open`], and if there is no store; then nothing is created.
    pub(crate) fn open_existing(path: &Path) -> Result<Self, BackendError> {
        let name = path.display().to_string();
        if !path.join(FILE).try_exists().map_err(|error| classify(&name, error))? {
            return Err(BackendError::NoStore { path: name });
        }
        Self::open(path)
    }

    /// Creates an empty store in a locked data directory, under a temporary name.
    pub(crate) fn create(path: &Path) -> Result<Self, BackendError> {
        let name = path.display().to_string();
        let opened = private_file().create(true).truncate(true).open(path.join(NEW_FILE));
        let storage = FileBackend::new(opened.map_err(|e| classify(&name, e))?).map_err(|e| of_database(&name, e))?;
        Self::on(storage, &name)
    }

    /// Removes an existing store from a locked data directory.
    pub(crate) fn remove(path: &Path) -> io::Result<()> {
        for file in [FILE, NEW_FILE] {
            match fs::remove_file(path.join(file)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Renames a closed store from [`RedbBackend::create`] to its final name.
    pub(crate) fn put_in_place(dir: &DataDir) -> io::Result<()> {
        dir.put_in_place(NEW_FILE, FILE)
    }

    /// Adds a server without history; returns its number.
    pub(crate) fn put_server(&mut self, name: &str, revision: Revision) -> Result<u32, BackendError> {
        let next = u32::try_from(self.servers.len()).unwrap_or(u32::MAX);
        let id = *self.servers.entry(name.into()).or_insert(next);
        let write = || {
            let write = self.database.get()?.begin_write()?;
            put_server_row(&mut write.open_table(META)?, name, id, revision)?;
            write.commit()?;
            Ok(())
        };
        write().map_err(|error: Failure| error.of(&self.path))?;
        Ok(id)
    }

    /// Writes entries of a server with their revisions.
    pub(crate) fn put_entries(&mut self, id: u32, entries: &[(Key, Entry)]) -> Result<(), BackendError> {
        let write = || {
            let write = self.database.get()?.begin_write()?;
            {
                let mut head = write.open_table(HEAD)?;
                for (key, entry) in entries {
                    let mut place = head.insert_reserve((id, key.as_str()), ENTRY_HEADER + entry.value.len())?;
                    codec::encode_entry(key, entry, place.as_mut());
                }
            }
            write.commit()?;
            Ok(())
        };
        write().map_err(|error: Failure| error.of(&self.path))
    }

    /// Opens or initialises any storage; `path` is shown in errors.
    ///
    /// # Errors
    /// The storage is damaged, failing, or of a newer format.
    pub fn on(storage: impl StorageBackend, path: &str) -> Result<Self, BackendError> {
        guarded(path, || Self::open_storage(storage, path))
    }

    fn open_storage(storage: impl StorageBackend, path: &str) -> Result<Self, BackendError> {
        let database = Builder::new()
            .set_cache_size(CACHE_BYTES)
            .create_with_backend(storage)
            .map_err(|e| of_database(path, e))?;
        let backend = Self {
            database: Handle(Some(database)),
            path: path.to_owned(),
            file: None,
            servers: BTreeMap::new(),
            stats: BackendStats::default(),
            buffer: Vec::new(),
            _dir: None,
        };
        backend.check_format()?;
        Ok(backend)
    }

    /// Refuses a newer format; a file without one is new and gets ours.
    fn check_format(&self) -> Result<(), BackendError> {
        let fail = |error: Failure| error.of(&self.path);
        match self.format().map_err(fail)? {
            Some(found) if found.major > FORMAT.major => Err(BackendError::NewerFormat {
                path: self.path.clone(),
                found: found.to_string(),
                supported: FORMAT.to_string(),
            }),
            Some(found) if found.major == FORMAT.major => Ok(()),
            Some(found) => Err(self.damaged(format!("it claims format {found}, which never existed"))),
            None => self.initialise().map_err(fail),
        }
    }

    fn format(&self) -> Result<Option<Format>, Failure> {
        let read = self.database.get()?.begin_read()?;
        let meta = match read.open_table(META) {
            Ok(meta) => meta,
            Err(TableError::TableDoesNotExist(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let found = meta.get(FORMAT_KEY)?;
        let format = found.and_then(|v| {
            let [a, b, c, d] = v.value().try_into().ok()?;
            Some(Format { major: u16::from_le_bytes([a, b]), minor: u16::from_le_bytes([c, d]) })
        });
        Ok(Some(format.unwrap_or(Format { major: 0, minor: 0 })))
    }

    fn initialise(&self) -> Result<(), Failure> {
        let write = self.database.get()?.begin_write()?;
        {
            write.open_table(HEAD)?;
            write.open_table(LOG)?;
            let [a, b] = FORMAT.major.to_le_bytes();
            let [c, d] = FORMAT.minor.to_le_bytes();
            write.open_table(META)?.insert(FORMAT_KEY, [a, b, c, d].as_slice())?;
        }
        write.commit()?;
        Ok(())
    }

    fn damaged(&self, detail: String) -> BackendError {
        BackendError::Corrupt { path: self.path.clone(), detail }
    }

    fn load_servers(&self) -> Result<Vec<(String, u32, Option<Revision>)>, Failure> {
        let meta = self.database.get()?.begin_read()?.open_table(META)?;
        let mut servers = Vec::new();
        for row in meta.range(SERVER_KEY..)? {
            let (key, value) = row?;
            let Some(name) = key.value().strip_prefix(SERVER_KEY) else { break };
            let row = value.value().split_first_chunk::<4>().and_then(|(id, revision)| {
                let revision = u64::from_le_bytes(revision.try_into().ok()?);
                Some((u32::from_le_bytes(*id), Revision::new(revision)))
            });
            let (id, revision) = row.unwrap_or((0, None));
            servers.push((name.to_owned(), id, revision));
        }
        Ok(servers)
    }

    fn load_all(&self) -> Result<(Loaded, BTreeMap<Arc<str>, u32>), BackendError> {
        let fail = |error: Failure| error.of(&self.path);
        let mut loaded = Loaded::new();
        let mut ids = BTreeMap::new();
        for (name, id, revision) in self.load_servers().map_err(fail)? {
            let damaged = |what: String| self.damaged(format!("{what} of server {name}"));
            let revision = revision.ok_or_else(|| damaged("the revision".into()))?;
            let head = self.load_head(id).map_err(fail)?;
            let head = head.map_err(|key| damaged(format!("the entry {key}")))?;
            let log = self.load_log(id, revision, &head).map_err(fail)?;
            let log = log.map_err(|number| damaged(format!("the log record {number}")))?;
            ids.insert(Arc::from(name.as_str()), id);
            loaded.insert(name, LoadedServer { revision, head, log });
        }
        Ok((loaded, ids))
    }

    /// The newest state of a server; an `Err` inside is the key of a damaged entry.
    fn load_head(&self, id: u32) -> Result<Result<Vec<(Key, Entry)>, String>, Failure> {
        let table = self.database.get()?.begin_read()?.open_table(HEAD)?;
        let mut head = Vec::new();
        for row in table.range((id, "")..)? {
            let (key, value) = row?;
            let (of, key) = key.value();
            if of != id {
                break;
            }
            match codec::decode_entry(key, value.value()) {
                Some(entry) => head.push((Key::from(key), entry)),
                None => return Ok(Err(key.to_owned())),
            }
        }
        Ok(Ok(head))
    }

    /// The window of a server, walked backwards from its head; an `Err` inside is a damaged revision.
    fn load_log(
        &self,
        id: u32,
        newest: Revision,
        head: &[(Key, Entry)],
    ) -> Result<Result<Vec<Arc<Transaction>>, u64>, Failure> {
        let table = self.database.get()?.begin_read()?.open_table(LOG)?;
        let mut log = Vec::new();
        // States of keys before the transactions that were visited so far.
        let mut older: BTreeMap<Key, Option<Entry>> = BTreeMap::new();
        let mut expected = newest;
        for row in table.range((id, 0)..=(id, u64::MAX))?.rev() {
            let (key, value) = row?;
            let (_, number) = key.value();
            let after = |key: &str| match older.get_key_value(key) {
                Some((key, entry)) => Some((key.clone(), entry.clone()?)),
                None => {
                    let at = head.binary_search_by(|(k, _)| k.as_str().cmp(key)).ok()?;
                    Some(head[at].clone())
                }
            };
            let transaction = Revision::new(number)
                .filter(|revision| *revision == expected)
                .and_then(|revision| codec::decode_record(value.value(), revision, after));
            let Some(transaction) = transaction else { return Ok(Err(number)) };
            for event in &transaction.events {
                older.insert(event.key.clone(), event.previous.clone());
            }
            expected = expected.previous();
            log.push(Arc::new(transaction));
        }
        log.reverse();
        Ok(Ok(log))
    }

    fn write_group(&mut self, group: &[Record]) -> Result<(), Failure> {
        let write = self.database.get()?.begin_write()?;
        {
            let (mut head, mut log, mut meta) =
                (write.open_table(HEAD)?, write.open_table(LOG)?, write.open_table(META)?);
            let mut newest: BTreeMap<&str, (u32, Revision)> = BTreeMap::new();
            // A key that the group writes several times is written once.
            let mut changed: BTreeMap<(u32, &str), Option<&Entry>> = BTreeMap::new();
            for Record { server, transaction } in group {
                let next = u32::try_from(self.servers.len()).unwrap_or(u32::MAX);
                let id = *self.servers.entry(server.clone()).or_insert(next);
                newest.insert(server, (id, transaction.revision));
                changed.extend(transaction.events.iter().map(|e| ((id, e.key.as_str()), e.entry.as_ref())));
                self.buffer.clear();
                codec::encode_record(transaction, &mut self.buffer);
                log.insert((id, transaction.revision.get()), self.buffer.as_slice())?;
            }
            for (key, entry) in changed {
                match entry {
                    Some(entry) => {
                        let mut place = head.insert_reserve(key, ENTRY_HEADER + entry.value.len())?;
                        codec::encode_entry(key.1, entry, place.as_mut());
                    }
                    None => {
                        head.remove(key)?;
                    }
                }
            }
            for (server, (id, revision)) in newest {
                put_server_row(&mut meta, server, id, revision)?;
            }
        }
        write.commit()?;
        Ok(())
    }

    fn forget(&mut self, id: u32, floor: Revision) -> Result<(), Failure> {
        let write = self.database.get()?.begin_write()?;
        write.open_table(LOG)?.retain_in((id, 0)..=(id, floor.get()), |_, _| false)?;
        write.commit()?;
        Ok(())
    }
}

fn put_server_row(
    meta: &mut Table<'_, &'static str, &'static [u8]>,
    name: &str,
    id: u32,
    revision: Revision,
) -> Result<(), StorageError> {
    let mut row = [0; 12];
    row[..4].copy_from_slice(&id.to_le_bytes());
    row[4..].copy_from_slice(&revision.get().to_le_bytes());
    meta.insert(format!("{SERVER_KEY}{name}").as_str(), row.as_slice())?;
    Ok(())
}

impl Backend for RedbBackend {
    fn load(&mut self) -> Result<Loaded, BackendError> {
        let (loaded, servers) = guarded(&self.path, || self.load_all())?;
        self.servers = servers;
        Ok(loaded)
    }

    fn commit(&mut self, group: &[Record]) -> Result<(), BackendError> {
        self.write_group(group).map_err(|error| error.of(&self.path))?;
        self.stats.commits += 1;
        self.stats.transactions += u64::try_from(group.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    fn compact(&mut self, server: &str, floor: Revision) -> Result<(), BackendError> {
        if let Some(id) = self.servers.get(server) {
            self.forget(*id, floor).map_err(|error| error.of(&self.path))?;
        }
        self.stats.compactions += 1;
        Ok(())
    }

    fn stats(&self) -> BackendStats {
        let stored_bytes = self.file.as_ref().and_then(|file| Some(file.metadata().ok()?.len()));
        BackendStats { stored_bytes, ..self.stats }
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A failure of redb, not yet attributed to a data directory.
struct Failure(StorageError);

impl Failure {
    fn of(self, path: &str) -> BackendError {
        match self.0 {
            StorageError::Io(error) => classify(path, error),
            StorageError::Corrupted(detail) => BackendError::Corrupt { path: path.to_owned(), detail },
            other => BackendError::Io { path: path.to_owned(), source: io::Error::other(other.to_string()) },
        }
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        Self(error)
    }
}

impl From<TransactionError> for Failure {
    fn from(error: TransactionError) -> Self {
        match error {
            TransactionError::Storage(error) => Self(error),
            other => Self(StorageError::Io(io::Error::other(other.to_string()))),
        }
    }
}

impl From<CommitError> for Failure {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Storage(error) => Self(error),
            other => Self(StorageError::Io(io::Error::other(other.to_string()))),
        }
    }
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Storage(error) => Self(error),
            other => Self(StorageError::Corrupted(other.to_string())),
        }
    }
}

/// An open database. Closing it writes, and panics on some damage; nothing can be lost at that time.
struct Handle(Option<Database>);

impl Handle {
    fn get(&self) -> Result<&Database, StorageError> {
        self.0.as_ref().ok_or(StorageError::DatabaseClosed)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let database = self.0.take();
        if let Err(panic) = quietly(|| drop(database)) {
            tracing::error!(error = text_of(&*panic), "store file is damaged: restore it from a backup");
        }
    }
}

/// Runs a function of redb, which panics at some kinds of damage when it opens or reads a file.
fn guarded<T>(path: &str, f: impl FnOnce() -> Result<T, BackendError>) -> Result<T, BackendError> {
    quietly(f).unwrap_or_else(|panic| {
        Err(BackendError::Corrupt { path: path.to_owned(), detail: text_of(&*panic).to_owned() })
    })
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Catches a panic without the report of it on stderr: the error that it becomes says what is wrong.
fn quietly<T>(f: impl FnOnce() -> T) -> std::thread::Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if !QUIET.get() {
                before(info);
            }
        }));
    });
    QUIET.set(true);
    let done = catch_unwind(AssertUnwindSafe(f));
    QUIET.set(false);
    done
}

fn of_database(path: &str, error: DatabaseError) -> BackendError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => {
            BackendError::InUse { path: path.to_owned(), holder: "its pid is not known".to_owned() }
        }
        DatabaseError::Storage(error) => Failure(error).of(path),
        other => BackendError::Corrupt { path: path.to_owned(), detail: other.to_string() },
    }
}
