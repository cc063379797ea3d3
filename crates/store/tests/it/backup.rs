//! Backups under load, and their restore.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicI64, Ordering},
};

use ironclad_seam::{Clock, Tasks};
use ironclad_store::{
    BackendError, Engine, Op, Query, RedbBackend, RestoreError, RevisionError, Snapshot, Store, Summary, inspect,
    restore,
};
use jiff::Timestamp;

use crate::support::{chain, delete, inline, put, rev, threaded, txn, words};

fn write(snapshot: Snapshot, path: &Path) {
    fs::write(path, snapshot.chunks().flatten().collect::<Vec<u8>>()).unwrap();
}

/// Everything of a server, with the revisions of entries, versions and expiries.
fn state(store: &Store) -> String {
    format!("{:?} {}", store.range(&Query::prefix("")).unwrap().entries, words(store, &Query::prefix("")))
}

/// 2027, one second later than the last time.
fn clock() -> Clock {
    static LATER: AtomicI64 = AtomicI64::new(1_800_000_000);
    Clock::simulated(Timestamp::from_second(LATER.fetch_add(1, Ordering::Relaxed)).unwrap())
}

fn open(path: &Path) -> Engine {
    inline(RedbBackend::open(path).unwrap())
}

#[test]
fn a_restored_store_has_the_backups_state_at_a_revision_that_it_never_had() {
    let dir = tempfile::tempdir().unwrap();
    let (data, backup, other) = (dir.path().join("data"), dir.path().join("backup"), dir.path().join("a/b"));
    fs::create_dir_all(data.join("pki/members")).unwrap();
    fs::write(data.join("pki/ca.key"), "secret").unwrap();
    fs::write(data.join("pki/members/m.crt"), "certificate").unwrap();
    let engine = open(&data);
    let (plane, member) = (engine.store("plane"), engine.store("members/one"));
    put(&plane, "/a", "1");
    put(&plane, "/a", "2");
    put(&plane, "/gone", "x");
    delete(&plane, "/gone");
    let expiring = Op::Put {
        key: "/b".into(),
        value: "kept".into(),
        expires: ironclad_store::Expiry::at_unix_seconds(4_000_000_000),
    };
    txn(&plane, vec![], vec![expiring]).unwrap();
    put(&member, "/node", "n");
    let want = (state(&plane), state(&member));
    let mut snapshot = engine.snapshot();
    snapshot.add_folder(&data, "pki").unwrap();
    // A later write is not in the backup.
    put(&plane, "/later", "x");
    write(snapshot, &backup);

    let summary = Summary { servers: vec![("members/one".into(), rev(2), 1), ("plane".into(), rev(6), 2)], files: 2 };
    assert_eq!(inspect(&backup).unwrap(), summary);
    let restored = restore(&backup, &other, &clock()).unwrap();
    let continues = restored.servers[1].1;
    assert!(restored.servers.iter().all(|(_, revision, _)| revision.get() > 1_000_000_000), "{restored:?}");
    let counts =
        |summary: &Summary| summary.servers.iter().map(|(name, _, keys)| (name.clone(), *keys)).collect::<Vec<_>>();
    assert_eq!((counts(&restored), restored.files), (counts(&summary), summary.files));
    assert_eq!(fs::read_to_string(other.join("pki/ca.key")).unwrap(), "secret");
    assert_eq!(fs::read_to_string(other.join("pki/members/m.crt")).unwrap(), "certificate");
    for _ in 0..2 {
        let restored = open(&other);
        assert_eq!((state(&restored.store("plane")), state(&restored.store("members/one"))), want);
        // Watches begin anew: those from before the backup, and those from writes after it, which are lost.
        for seen in [5, 6, 7, 1_000_000, continues.get() - 1] {
            let error = restored.store("plane").watch("", rev(seen)).err();
            assert!(matches!(error, Some(RevisionError::Compacted { .. })), "{seen}: {error:?}");
        }
        assert!(restored.store("plane").watch("", continues).is_ok());
    }
    let next = put(&open(&other).store("plane"), "/a", "3");
    assert_eq!(next, continues.next());
    // Another restore of the same backup repeats no revision of the first one.
    let again = restore(&backup, &dir.path().join("again"), &clock()).unwrap().servers[1].1;
    assert!(again.get() >= continues.get() + 100_000, "{again} {continues}");
    // Nor does one on a machine with a clock that is wrong.
    let wrong = Clock::simulated(Timestamp::UNIX_EPOCH);
    let wrong = restore(&backup, &dir.path().join("wrong"), &wrong).unwrap().servers[1].1;
    assert_eq!(wrong, rev(1_000_000_006));
    assert_eq!(open(&other).store("plane").get("/a").unwrap().version, 3);

    engine.close();
    drop((plane, member, engine));
    let mut stopped = Snapshot::of_directory(&data).unwrap();
    stopped.add_folder(&data, "pki").unwrap();
    write(stopped, &backup);
    let (_, _, keys) = inspect(&backup).unwrap().servers.pop().unwrap();
    assert_eq!(keys, 3, "a stopped directory has what was written last");
}

#[cfg(unix)]
#[test]
fn restored_files_are_private_to_their_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let (data, backup, other) = (dir.path().join("data"), dir.path().join("backup"), dir.path().join("other"));
    fs::create_dir_all(data.join("pki")).unwrap();
    fs::write(data.join("pki/ca.key"), "secret").unwrap();
    let mut snapshot = open(&data).snapshot();
    snapshot.add_folder(&data, "pki").unwrap();
    write(snapshot, &backup);
    restore(&backup, &other, &clock()).unwrap();
    let mode = |path: &str| fs::metadata(other.join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(["", "pki", "pki/ca.key", "store.redb"].map(mode), [0o700, 0o700, 0o600, 0o600]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_is_a_consistent_state() {
    const WRITERS: usize = 8;
    const BACKUPS: usize = 20;
    let dir = tempfile::tempdir().unwrap();
    let engine = threaded(RedbBackend::open(&dir.path().join("data")).unwrap());
    let tasks = Tasks::new("writers");
    for writer in 0..WRITERS {
        let store = engine.store("plane");
        tasks.spawn("writer", async move {
            for value in 0u64.. {
                // Both keys or none.
                let ops = ["left", "right"].map(|side| Op::put(format!("/{side}/{writer}"), value.to_string()));
                if store.txn(vec![], ops.to_vec()).await.is_err() {
                    return;
                }
            }
        });
    }
    let plane = engine.store("plane");
    for number in 0..BACKUPS {
        let acknowledged = plane.reached(rev(plane.revision().get() + 5)).await;
        let (backup, other) = (dir.path().join("backup"), dir.path().join(format!("restored-{number}")));
        write(engine.snapshot(), &backup);
        restore(&backup, &other, &clock()).unwrap();
        let restored = open(&other).store("plane");
        assert!(restored.revision() >= acknowledged, "acknowledged writes are missing");
        let side = |side: &str| words(&restored, &Query::prefix(side)).replace(side, "");
        assert_eq!(side("/left"), side("/right"), "half of a transaction is in it");
        let newest = restored.range(&Query::prefix("")).unwrap().entries.iter().map(|(_, e)| e.modified).max();
        let taken = inspect(&backup).unwrap().servers[0].1;
        assert_eq!(newest, Some(taken), "the revision is that of the last change");
    }
    tasks.kill();
    engine.close();
}

#[test]
fn restore_into_a_nonempty_directory_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let backup = dir.path().join("backup");
    write(open(&dir.path().join("data")).snapshot(), &backup);
    let (full, mounted) = (dir.path().join("full"), dir.path().join("mounted"));
    fs::create_dir_all(&full).unwrap();
    fs::write(full.join("thesis.txt"), "years").unwrap();
    let error = restore(&backup, &full, &clock()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "data directory {} is not empty, and a backup is restored only into an empty one: nothing was changed",
            full.display()
        )
    );
    assert_eq!(fs::read_dir(&full).unwrap().count(), 1);
    fs::create_dir_all(mounted.join("lost+found")).unwrap();
    restore(&backup, &mounted, &clock()).unwrap();
    assert!(
        matches!(restore(&backup, &mounted, &clock()), Err(RestoreError::NotEmpty { .. })),
        "a backup is not restored over another store"
    );
}

#[test]
fn an_invalid_backup_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (backup, other) = (dir.path().join("backup"), dir.path().join("other"));
    let engine = open(&dir.path().join("data"));
    put(&engine.store("plane"), "/a", "value");
    write(engine.snapshot(), &backup);
    let whole = fs::read(&backup).unwrap();
    let with = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    for (name, bytes, says) in [
        ("cut short", whole[..whole.len() - 1].to_vec(), "was cut off"),
        ("damaged", with(1600, 0xff), "is damaged"),
        ("of a later version", with(512, b'9'), "format 9.0"),
        ("something else", b"apiVersion: v1\nkind: List\n".to_vec(), "is not a backup"),
        ("empty", Vec::new(), "is not a backup"),
    ] {
        fs::write(&backup, bytes).unwrap();
        let error = chain(&restore(&backup, &other, &clock()).unwrap_err());
        assert!(error.contains(says) && error.contains(&backup.display().to_string()), "{name}: {error}");
        assert!(!other.exists(), "{name}: the directory was created");
    }
    let error = chain(&restore(&dir.path().join("missing"), &other, &clock()).unwrap_err());
    assert!(error.contains("can't be read"), "{error}");
}

#[test]
fn an_interrupted_restore_is_detected_and_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let (backup, other) = (dir.path().join("backup"), dir.path().join("other"));
    let engine = open(&dir.path().join("data"));
    put(&engine.store("plane"), "/a", "value");
    write(engine.snapshot(), &backup);
    restore(&backup, &other, &clock()).unwrap();
    // As after a power cut during the restore.
    fs::write(other.join("restoring"), "").unwrap();
    let error = RedbBackend::open(&other).err().unwrap();
    assert!(matches!(error, BackendError::HalfRestored { .. }));
    assert!(error.to_string().contains("start again with `--restore FILE`"), "{error}");
    restore(&backup, &other, &clock()).unwrap();
    assert_eq!(words(&open(&other).store("plane"), &Query::prefix("")), "/a=value");
}

#[test]
fn backup_of_a_directory_without_a_store_fails() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let error = Snapshot::of_directory(&missing).unwrap_err();
    assert!(error.to_string().contains("holds no store"), "{error}");
    assert!(!missing.exists(), "the check created the directory");
    let _held = open(dir.path());
    let error = Snapshot::of_directory(dir.path()).unwrap_err();
    assert!(matches!(error, BackendError::InUse { .. }), "{error}");
}
