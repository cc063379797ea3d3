//! Data directory on a real file system: locking, permissions and error messages.

use std::{fs, path::Path};

use ironclad_store::{BackendError, Query, RedbBackend};

use crate::support::{chain, inline, put, rev, words};

fn error_of(path: &Path) -> BackendError {
    RedbBackend::open(path).err().expect("it does not open")
}

#[test]
fn writes_and_history_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/data");
    for round in 1..4u64 {
        let engine = inline(RedbBackend::open(&path).unwrap());
        let store = engine.store("plane");
        assert_eq!(store.revision(), rev(round * 2 - 1));
        put(&store, "/a", &round.to_string());
        put(&engine.store("plane"), &format!("/b/{round}"), "x");
        let old = Query { at: Some(rev(2)), ..Query::prefix("") };
        assert_eq!(words(&store, &old), "/a=1", "the window outlives the process");
    }
    let engine = inline(RedbBackend::open(&path).unwrap());
    let store = engine.store("plane");
    assert_eq!(words(&store, &Query::prefix("")), "/a=3 /b/1=x /b/2=x /b/3=x");
    assert_eq!(crate::support::drain(&mut store.watch("/a", rev(1)).unwrap()), [2, 4, 6]);
    assert!(engine.stats().backend.stored_bytes.unwrap() > 0);
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    put(&inline(RedbBackend::open(&path).unwrap()).store("plane"), "/secret", "x");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    let mut files: Vec<_> = fs::read_dir(&path).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let names: Vec<_> = files.iter().map(|f| (f.file_name().unwrap().to_str().unwrap(), mode(f))).collect();
    assert_eq!(names, [("store.lock", 0o600), ("store.redb", 0o600)]);
}

#[test]
fn a_directory_in_use_is_rejected_with_its_holder() {
    let dir = tempfile::tempdir().unwrap();
    let first = RedbBackend::open(dir.path()).unwrap();
    let (path, pid) = (dir.path().display(), std::process::id());
    assert_eq!(
        chain(&error_of(dir.path())),
        format!(
            "data directory {path} is in use by another process (pid {pid}): \
             stop that process, or choose another directory"
        )
    );
    // As another process would write it.
    fs::write(dir.path().join("store.lock"), "4242").unwrap();
    assert_eq!(
        chain(&error_of(dir.path())),
        format!(
            "data directory {path} is in use by another process (pid 4242): \
             stop that process, or choose another directory"
        )
    );
    drop(first);
    assert!(RedbBackend::open(dir.path()).is_ok(), "a stale pid in the file is no lock");
}

#[test]
fn closing_the_engine_unlocks_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let engine = inline(RedbBackend::open(dir.path()).unwrap());
    let store = engine.store("plane");
    put(&store, "/a", "1");
    engine.close();
    let next = inline(RedbBackend::open(dir.path()).unwrap());
    assert_eq!(words(&next.store("plane"), &Query::prefix("")), words(&store, &Query::prefix("")));
}

#[test]
fn a_directory_that_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "not a directory").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = chain(&error_of(&path));
        let start = format!(
            "data directory {} is not writable: change its owner or mode, or choose another directory: ",
            path.display()
        );
        assert!(error.starts_with(&start), "{error}");
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "not a directory");
}

#[cfg(unix)]
#[test]
fn a_directory_without_write_permission() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o500)).unwrap();
    // The superuser can write everywhere.
    let may_write = fs::write(path.join("probe"), "").is_ok();
    match RedbBackend::open(&path) {
        Ok(_) => assert!(may_write, "a directory without write permission was opened"),
        Err(error) => {
            assert!(!may_write, "{error}");
            assert!(matches!(error, BackendError::NotWritable { .. }), "{error}");
        }
    }
}

#[test]
fn a_newer_format_is_rejected_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    put(&inline(RedbBackend::open(dir.path()).unwrap()).store("plane"), "/a", "1");
    let set_format = |bytes: [u8; 4]| {
        let database = redb::Database::open(dir.path().join("store.redb")).unwrap();
        let write = database.begin_write().unwrap();
        let table = redb::TableDefinition::<&str, &[u8]>::new("meta");
        write.open_table(table).unwrap().insert("format", bytes.as_slice()).unwrap();
        write.commit().unwrap();
    };
    set_format([2, 0, 7, 0]);
    assert_eq!(
        chain(&error_of(dir.path())),
        format!(
            "data directory {} has format 2.7, and this version reads up to 1.0: \
             start the newer version that wrote it, or choose another directory",
            dir.path().display()
        )
    );
    set_format([1, 0, 9, 0]);
    let engine = inline(RedbBackend::open(dir.path()).unwrap());
    assert_eq!(words(&engine.store("plane"), &Query::prefix("")), "/a=1", "a newer minor version opens");
}

#[test]
fn a_foreign_file_is_rejected_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let garbage = vec![7u8; 10_000];
    fs::write(dir.path().join("store.redb"), &garbage).unwrap();
    let error = error_of(dir.path());
    assert!(matches!(error, BackendError::Corrupt { .. }), "{}", chain(&error));
    let start = format!("data directory {} is damaged (", dir.path().display());
    assert!(chain(&error).starts_with(&start), "{}", chain(&error));
    assert_eq!(fs::read(dir.path().join("store.redb")).unwrap(), garbage);
}

#[test]
fn an_interrupted_first_start_starts_anew() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("store.redb.new"), vec![0u8; 5_000]).unwrap();
    put(&inline(RedbBackend::open(dir.path()).unwrap()).store("plane"), "/a", "1");
    assert!(!dir.path().join("store.redb.new").exists());
}

#[tokio::test]
async fn concurrent_puts_are_grouped_and_durable() {
    let seam = ironclad_seam::Seam::system("bench");
    let dir = tempfile::tempdir().unwrap();
    let engine = crate::support::threaded(RedbBackend::open(dir.path()).unwrap());
    let figures = ironclad_store::testing::bench::puts(&seam, &engine, 8, 20, 2_048).await.unwrap();
    assert_eq!(figures.puts, 160);
    assert_eq!(figures.engine.transactions, 160);
    assert!(figures.p50 <= figures.p99 && figures.p99 <= figures.elapsed && figures.per_second() > 0.0);
    drop(engine);
    assert_eq!(inline(RedbBackend::open(dir.path()).unwrap()).store("bench").len(), 160);
}
