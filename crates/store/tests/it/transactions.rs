//! Transactions: conditions, one revision for all changes, bounds, and writers that run together.

use std::sync::Arc;

use bytes::Bytes;
use ironclad_store::{
    Commit, Compare, Engine, Entry, MemoryBackend, Op, Query, Revision, Store, StoreError, TxnResult, limits,
};

use crate::support::{delete, inline, memory, now, put, rev, txn, words};

#[test]
fn a_transaction_is_one_revision_and_all_or_nothing() {
    let store = memory();
    assert_eq!(store.revision(), Revision::FIRST);
    let done = txn(&store, vec![Compare::absent("/a")], vec![Op::put("/b", "1"), Op::put("/a", "1")]).unwrap();
    assert_eq!(done, TxnResult::Done { revision: rev(2) });
    let failed = txn(
        &store,
        vec![Compare::modified("/b", rev(2)), Compare::absent("/a"), Compare::absent("/none")],
        vec![Op::put("/c", "1"), Op::delete("/a")],
    )
    .unwrap();
    let entry = |key| store.get(key);
    let current = vec![entry("/b"), entry("/a"), None];
    assert_eq!(failed, TxnResult::Failed { current, revision: rev(2) });
    assert_eq!(words(&store, &Query::prefix("")), "/a=1 /b=1", "a failed condition changes nothing");
    assert_eq!(store.revision(), rev(2));
}

#[test]
fn create_and_modified_revisions_and_versions() {
    let store = memory();
    put(&store, "/a", "1");
    put(&store, "/other", "x");
    put(&store, "/a", "2");
    let of = |e: Entry| (e.create.get(), e.modified.get(), e.version);
    assert_eq!(of(store.get("/a").unwrap()), (2, 4, 2));
    assert_eq!(delete(&store, "/a"), rev(5));
    put(&store, "/a", "3");
    assert_eq!(of(store.get("/a").unwrap()), (6, 6, 1), "a key made again begins again");
}

#[test]
fn transactions_without_changes_take_no_revision() {
    let store = memory();
    put(&store, "/a", "1");
    let mut watch = store.watch("", rev(2)).unwrap();
    assert_eq!(txn(&store, vec![], vec![]).unwrap().done(), Some(rev(2)));
    assert_eq!(txn(&store, vec![], vec![Op::delete("/none")]).unwrap().done(), Some(rev(2)));
    assert_eq!(store.revision(), rev(2));
    assert!(crate::support::poll(&mut watch).is_none());
}

#[test]
fn servers_are_independent() {
    let engine = inline(MemoryBackend::default());
    let (plane, member) = (engine.store("plane"), engine.store("member1"));
    put(&plane, "/a", "1");
    put(&plane, "/a", "2");
    put(&member, "/a", "m");
    assert_eq!((plane.revision(), member.revision()), (rev(3), rev(2)));
    assert_eq!(words(&member, &Query::prefix("")), "/a=m");
    assert_eq!(engine.store("plane").revision(), rev(3), "the same name is the same server");
    assert_eq!(engine.servers(), ["member1", "plane"]);
}

#[test]
fn bounds_in_pairs() {
    let store = memory();
    let value = |bytes| Op::put("/big", vec![0u8; bytes]);
    let many = |count: usize| (0..count).map(|i| Op::put(format!("/{i}"), "x")).collect::<Vec<_>>();
    let long = |bytes| vec![Op::put("k".repeat(bytes), "x")];
    // Eleven of the largest values do not fit into one transaction, ten do.
    let heavy = |count: usize| {
        let value = Bytes::from(vec![0u8; limits::VALUE_BYTES_MAX]);
        (0..count).map(|i| Op::put(format!("/{i}"), value.clone())).collect::<Vec<_>>()
    };
    for (name, ops, want) in [
        ("the largest value", vec![value(limits::VALUE_BYTES_MAX)], None),
        (
            "one byte more",
            vec![value(limits::VALUE_BYTES_MAX + 1)],
            Some(
                "the value of /big has 1572865 bytes, at most 1572864 are allowed: make the object smaller or split it",
            ),
        ),
        ("the longest key", long(limits::KEY_BYTES_MAX), None),
        (
            "a longer key",
            long(limits::KEY_BYTES_MAX + 1),
            Some("a key of 4097 bytes is not allowed: keys have 1 to 4096 bytes"),
        ),
        ("no key", long(0), Some("a key of 0 bytes is not allowed: keys have 1 to 4096 bytes")),
        ("the most changes", many(limits::TXN_OPS_MAX), None),
        (
            "one change more",
            many(limits::TXN_OPS_MAX + 1),
            Some(
                "a transaction of 10241 changes and 60577 bytes is too large: \
                 at most 10240 and 16777216 are allowed, split it",
            ),
        ),
        ("the heaviest", heavy(10), None),
        (
            "heavier",
            heavy(11),
            Some(
                "a transaction of 11 changes and 17301527 bytes is too large: \
                 at most 10240 and 16777216 are allowed, split it",
            ),
        ),
        (
            "a key twice",
            vec![Op::put("/a", "1"), Op::put("/b", "1"), Op::delete("/a")],
            Some("the transaction changes /a twice: one change per key is allowed"),
        ),
    ] {
        let before = store.revision();
        let error = txn(&store, vec![], ops).err().map(|e| e.to_string());
        assert_eq!(error.as_deref(), want, "{name}");
        assert_eq!(store.revision() == before, want.is_some(), "{name}: an error changes nothing");
    }
}

#[test]
fn values_and_keys_are_stored_once() {
    let store = memory();
    put(&store, "/a", "first");
    let key = store.range(&Query::prefix("")).unwrap().entries[0].0.clone();
    let first = store.get("/a").unwrap();
    let mut watch = store.watch("", rev(2)).unwrap();
    put(&store, "/a", "second");
    let batch = crate::support::poll(&mut watch).unwrap().unwrap().unwrap();
    let event = &batch.events()[0];
    assert_eq!(event.previous.as_ref().unwrap().value.as_ptr(), first.value.as_ptr());
    assert_eq!(event.entry.as_ref().unwrap().value.as_ptr(), store.get("/a").unwrap().value.as_ptr());
    assert_eq!(event.key.as_str().as_ptr(), key.as_str().as_ptr());
    let old = store.range(&Query { at: Some(rev(2)), ..Query::prefix("") }).unwrap();
    assert_eq!(old.entries[0].1.value.as_ptr(), first.value.as_ptr());
}

async fn increment(store: &Store) {
    loop {
        let old = store.get("/counter");
        let number: u64 = old.as_ref().map_or(0, |e| std::str::from_utf8(&e.value).unwrap().parse().unwrap());
        let compare = Compare { key: "/counter".into(), modified: old.map(|e| e.modified) };
        let result = store.txn(vec![compare], vec![Op::put("/counter", (number + 1).to_string())]).await.unwrap();
        if result.done().is_some() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_conditional_increments_by_eight_tasks_are_a_thousand() {
    for mode in [Commit::Inline, Commit::Thread] {
        let seam = ironclad_seam::Seam::system("test");
        let engine = Engine::open(Box::new(MemoryBackend::default()), mode, seam.clock.clone()).unwrap();
        let store = Arc::new(engine.store("plane"));
        let tasks: Vec<_> = (0..8)
            .map(|i| {
                let store = store.clone();
                seam.tasks.spawn(format!("writer {i}"), async move {
                    for _ in 0..125 {
                        increment(&store).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(words(&store, &Query::prefix("")), "/counter=1000", "{mode:?}");
        assert_eq!(store.revision(), rev(1001), "{mode:?}: no revision without a change, none twice");
    }
}

#[tokio::test(start_paused = true)]
async fn expired_entries_are_reaped_as_ordinary_deletions() {
    let clock = ironclad_seam::Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    let start = u64::try_from(clock.wall().as_second()).unwrap();
    let backend = MemoryBackend::default();
    let engine = Engine::open(Box::new(backend.clone()), Commit::Inline, clock.clone()).unwrap();
    let store = engine.store("plane");
    let expires = |seconds| ironclad_store::Expiry::at_unix_seconds(start + seconds);
    let event = |key: &str, seconds| Op::Put { key: key.into(), value: "e".into(), expires: expires(seconds) };
    txn(&store, vec![], vec![event("/e1", 60), event("/e2", 60), event("/e3", 90), Op::put("/kept", "k")]).unwrap();
    // Written again: the first expiry no longer counts.
    txn(&store, vec![], vec![event("/e2", 120)]).unwrap();
    // The index is rebuilt from the stored state.
    drop((engine, store));
    let engine = Engine::open(Box::new(backend), Commit::Inline, clock.clone()).unwrap();
    let store = engine.store("plane");
    for (seconds, reaped, left) in [
        (59, 0, "/e1=e /e2=e /e3=e /kept=k"),
        (60, 1, "/e2=e /e3=e /kept=k"),
        (119, 1, "/e2=e /kept=k"),
        (120, 1, "/kept=k"),
        (999, 0, "/kept=k"),
    ] {
        let so_far = u64::try_from(clock.wall().as_second()).unwrap() - start;
        clock.sleep(std::time::Duration::from_secs(seconds - so_far)).await;
        assert_eq!(now(store.reap()).unwrap(), reaped, "after {seconds} s");
        assert_eq!(words(&store, &Query::prefix("")), left, "after {seconds} s");
    }
    assert_eq!(store.next_expiry(), None);
    let mut watch = store.watch("/e1", rev(3)).unwrap();
    assert_eq!(crate::support::drain(&mut watch), [4]);
}

#[test]
fn a_closed_engine_rejects_writes_and_still_reads() {
    let engine = inline(MemoryBackend::default());
    let store = engine.store("plane");
    put(&store, "/a", "1");
    engine.close();
    let error = txn(&store, vec![], vec![Op::put("/a", "2")]).unwrap_err();
    assert!(matches!(error, StoreError::Closed), "{error}");
    assert_eq!(words(&store, &Query::prefix("")), "/a=1");
}
