//! History: its retention, and answers for compacted revisions.

use std::time::Duration;

use ironclad_seam::Clock;
use ironclad_store::{
    Backend, Commit, Engine, MemoryBackend, Options, Query, RedbBackend, RevisionError, limits, testing::Disk,
};

use crate::support::{delete, inline, memory, put, rev, words};

#[test]
fn reads_of_the_past_and_pages_of_them() {
    let store = memory();
    put(&store, "/p/a", "1"); // 2
    put(&store, "/p/b", "1"); // 3
    put(&store, "/p/a", "2"); // 4
    delete(&store, "/p/b"); // 5
    put(&store, "/p/c", "1"); // 6
    put(&store, "/q", "1"); // 7
    put(&store, "/p/b", "2"); // 8
    let at = |number| Query { at: Some(rev(number)), ..Query::prefix("/p/") };
    for (number, want) in [
        (1, ""),
        (2, "/p/a=1"),
        (3, "/p/a=1 /p/b=1"),
        (4, "/p/a=2 /p/b=1"),
        (5, "/p/a=2"),
        (6, "/p/a=2 /p/c=1"),
        (7, "/p/a=2 /p/c=1"),
        (8, "/p/a=2 /p/b=2 /p/c=1"),
    ] {
        assert_eq!(words(&store, &at(number)), want, "at {number}");
    }
    for (name, query, want, remaining) in [
        ("the first page", Query { limit: Some(1), ..at(4) }, "/p/a=2", 1),
        ("the next page of the same state", Query { limit: Some(1), start_after: Some("/p/a"), ..at(4) }, "/p/b=1", 0),
        ("a limit that just fits", Query { limit: Some(2), ..at(4) }, "/p/a=2 /p/b=1", 0),
        ("no entries, only the count", Query { limit: Some(0), ..at(8) }, "", 3),
        ("a start before the prefix", Query { start_after: Some("/a"), ..at(4) }, "/p/a=2 /p/b=1", 0),
        ("a start beyond the prefix", Query { start_after: Some("/q"), ..at(4) }, "", 0),
        ("a start that is no key", Query { start_after: Some("/p/aa"), ..at(8) }, "/p/b=2 /p/c=1", 0),
    ] {
        let range = store.range(&query).unwrap();
        assert_eq!((words(&store, &query).as_str(), range.remaining), (want, remaining), "{name}");
        assert_eq!(range.more(), remaining > 0, "{name}");
    }
}

#[test]
fn reads_below_the_floor_or_in_the_future_fail() {
    let store = memory();
    for i in 0..5 {
        put(&store, "/a", &i.to_string());
    }
    store.compact(rev(4));
    let range = |number| store.range(&Query { at: Some(rev(number)), ..Query::prefix("") }).map(|r| r.entries.len());
    let compacted = RevisionError::Compacted { requested: rev(3), floor: rev(4) };
    let future = RevisionError::FutureRevision { requested: rev(7), current: rev(6) };
    assert_eq!(
        (range(3), range(4), range(6), range(7)),
        (Err(compacted), Ok(1), Ok(1), Err(future)),
        "one below, at, and beyond"
    );
    assert_eq!(store.watch("", rev(3)).err(), Some(compacted));
    assert_eq!(store.watch("", rev(7)).err(), Some(future));
    assert!(store.watch("", rev(4)).is_ok() && store.watch("", rev(6)).is_ok());
    assert_eq!(compacted.to_string(), "revision 3 has been compacted, the oldest one kept is 4");
    assert_eq!(future.to_string(), "revision 7 is in the future, the newest one is 6");
    store.compact(rev(99));
    assert_eq!(store.floor(), rev(6), "the newest state always stays");
}

#[test]
fn history_is_limited_by_bytes() {
    let engine = inline(MemoryBackend::default());
    let event = 100 + "/a".len() + limits::EVENT_OVERHEAD_BYTES;
    let store = engine.store_with("plane", Options { history_bytes: 3 * event, ..Options::default() });
    let value = "x".repeat(100);
    for _ in 0..3 {
        put(&store, "/a", &value);
    }
    assert_eq!(store.floor(), rev(1), "three just fit");
    put(&store, "/a", &value);
    assert_eq!(store.floor(), rev(2));
    put(&store, "/a", &"x".repeat(101));
    assert_eq!(store.floor(), rev(4), "one byte more costs a whole transaction");
    delete(&store, "/a");
    assert_eq!(store.floor(), rev(5), "a deletion counts what it deleted");
}

#[tokio::test(start_paused = true)]
async fn history_is_limited_by_age() {
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, clock.clone()).unwrap();
    let store = engine.store("plane");
    put(&store, "/a", "1");
    clock.sleep(Duration::from_secs(200)).await;
    put(&store, "/a", "2");
    clock.sleep(Duration::from_secs(100)).await;
    put(&store, "/a", "3");
    assert_eq!(store.floor(), rev(1), "exactly five minutes old");
    clock.sleep(Duration::from_millis(1)).await;
    // A jump of the time of day moves nothing.
    clock.set_skew_ms(86_400_000);
    put(&store, "/b", "1");
    assert_eq!(store.floor(), rev(2));
    let at = |number| store.range(&Query { at: Some(rev(number)), ..Query::prefix("") }).is_ok();
    assert!(!at(1) && at(2));
}

#[test]
fn the_backend_is_compacted_with_the_window() {
    let (memory, disk) = (MemoryBackend::default(), Disk::new());
    let redb = || Box::new(RedbBackend::on(disk.storage(), "(disk)").unwrap());
    let backends: [&dyn Fn() -> Box<dyn Backend>; 2] = [&|| Box::new(memory.clone()), &|| redb()];
    for backend in backends {
        let open = || Engine::open(backend(), Commit::Inline, Clock::system()).unwrap();
        let engine = open();
        let store = engine.store_with("plane", Options { compact_step: 10, ..Options::default() });
        for i in 0..30 {
            put(&store, "/a", &i.to_string());
        }
        store.compact(rev(20));
        put(&store, "/a", "last");
        assert_eq!(engine.stats().backend.compactions, 1);
        drop((engine, store));
        let engine = open();
        let store = engine.store("plane");
        assert_eq!(store.floor(), rev(20), "the log was cut as well");
        assert_eq!(words(&store, &Query::prefix("")), "/a=last");
        assert_eq!(words(&store, &Query { at: Some(rev(20)), ..Query::prefix("") }), "/a=18");
    }
}
