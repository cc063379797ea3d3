//! Guarantees of a watch, its buffer, and the cost for other watchers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use ironclad_store::{Lagged, MemoryBackend, Op, Options, RevisionError, Store};

use crate::support::{delete, drain, inline, memory, now, poll, put, rev, threaded, txn};

#[test]
fn batches_are_whole_transactions_with_previous_states() {
    let store = memory();
    put(&store, "/p/a", "1");
    let mut watch = store.watch("/p/", rev(2)).unwrap();
    txn(&store, vec![], vec![Op::put("/q", "x"), Op::delete("/p/a"), Op::put("/p/c", "3"), Op::put("/o", "x")])
        .unwrap();
    let batch = poll(&mut watch).unwrap().unwrap().unwrap();
    assert_eq!(batch.revision(), rev(3));
    let text = |e: &Option<ironclad_store::Entry>| e.as_ref().map(|e| String::from_utf8_lossy(&e.value).into_owned());
    let events: Vec<_> =
        batch.events().iter().map(|e| (e.key.to_string(), text(&e.entry), text(&e.previous))).collect();
    assert_eq!(
        events,
        [("/p/a".to_owned(), None, Some("1".to_owned())), ("/p/c".to_owned(), Some("3".to_owned()), None)]
    );
    assert!(poll(&mut watch).is_none());
}

#[test]
fn watches_start_in_the_past_but_not_below_the_floor() {
    let store = memory();
    for i in 0..6 {
        put(&store, if i % 2 == 0 { "/p/a" } else { "/q/a" }, "x");
    }
    assert_eq!(drain(&mut store.watch("/p/", rev(1)).unwrap()), [2, 4, 6]);
    assert_eq!(drain(&mut store.watch("/p/", rev(2)).unwrap()), [4, 6], "exclusive");
    let mut open = store.watch("/p/", rev(1)).unwrap();
    store.compact(rev(5));
    assert_eq!(drain(&mut open), [2, 4, 6], "a watch that began before the compaction misses nothing");
    let compacted = RevisionError::Compacted { requested: rev(4), floor: rev(5) };
    assert_eq!(store.watch("/p/", rev(4)).err(), Some(compacted));
    assert_eq!(drain(&mut store.watch("/p/", rev(5)).unwrap()), [6]);
}

#[test]
fn progress_never_runs_ahead_of_what_was_delivered() {
    let store = memory();
    put(&store, "/p/a", "1"); // 2
    put(&store, "/q", "1"); // 3
    put(&store, "/p/a", "2"); // 4
    let mut watch = store.watch("/p/", rev(1)).unwrap();
    assert_eq!(watch.progress(), rev(1), "before the first of the backlog");
    let _ = poll(&mut watch);
    assert_eq!(watch.progress(), rev(3), "what does not match is no reason to wait");
    let _ = poll(&mut watch);
    assert_eq!(watch.progress(), rev(4));
    put(&store, "/q", "2"); // 5
    assert_eq!(watch.progress(), rev(5), "it grows on a quiet prefix");
    put(&store, "/p/a", "3"); // 6
    put(&store, "/q", "3"); // 7
    assert_eq!(watch.progress(), rev(5), "before the one that is buffered");
    assert_eq!(drain(&mut watch), [6]);
    assert_eq!(watch.progress(), rev(7));
}

#[test]
fn a_full_buffer_ends_the_watch_without_a_gap() {
    let options = |watch_buffer, watch_buffer_bytes| Options { watch_buffer, watch_buffer_bytes, ..Options::default() };
    for (name, options, fits) in [("by count", options(3, usize::MAX), 3), ("by bytes", options(100, 1_100), 2)] {
        let engine = inline(MemoryBackend::default());
        let store = engine.store_with("plane", options);
        let value = "x".repeat(180);
        let mut slow = store.watch("/p/", rev(1)).unwrap();
        let mut elsewhere = store.watch("/q/", rev(1)).unwrap();
        for _ in 0..fits {
            put(&store, "/p/a", &value);
        }
        assert_eq!(store.watches(), 2, "{name}: it just fits");
        for _ in 0..5 {
            put(&store, "/p/a", &value);
        }
        assert_eq!(store.watches(), 1, "{name}");
        let delivered: Vec<u64> = (2..2 + fits).collect();
        assert_eq!(drain(&mut slow), delivered, "{name}: what was buffered comes first");
        // `drain` took the answer that ended it.
        assert!(matches!(poll(&mut slow), Some(None)), "{name}");
        let last = rev(1 + fits);
        assert_eq!(slow.progress(), last, "{name}");
        let rest: Vec<u64> = (2 + fits..=store.revision().get()).collect();
        assert_eq!(drain(&mut store.watch("/p/", last).unwrap()), rest, "{name}: it can go on from there");
        assert!(poll(&mut elsewhere).is_none(), "{name}: others go on");
    }
}

#[test]
fn lagging_names_the_revision_to_go_on_from() {
    let engine = inline(MemoryBackend::default());
    let store = engine.store_with("plane", Options { watch_buffer: 1, ..Options::default() });
    let mut watch = store.watch("", rev(1)).unwrap();
    put(&store, "/a", "1");
    put(&store, "/a", "2");
    assert_eq!(poll(&mut watch).unwrap().unwrap().unwrap().revision(), rev(2));
    assert_eq!(poll(&mut watch).unwrap().unwrap().unwrap_err(), Lagged { delivered: rev(2) });
    assert!(poll(&mut watch).unwrap().is_none());
    assert_eq!(
        Lagged { delivered: rev(2) }.to_string(),
        "the watcher did not keep up: everything up to revision 2 was delivered, watch again from there"
    );
}

#[test]
fn a_backlog_larger_than_the_buffer_is_served() {
    let engine = inline(MemoryBackend::default());
    let store = engine.store_with("plane", Options { watch_buffer: 2, ..Options::default() });
    for i in 0..20 {
        put(&store, "/a", &i.to_string());
    }
    let mut watch = store.watch("", rev(1)).unwrap();
    put(&store, "/a", "live");
    assert_eq!(drain(&mut watch), (2..=22).collect::<Vec<_>>());
}

/// Counts how often it is woken.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn only_watchers_of_the_prefix_are_woken() {
    let store = memory();
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(counter.clone());
    let mut watch = store.watch("/p/", rev(1)).unwrap();
    assert!(watch.poll_next(&mut Context::from_waker(&waker)).is_pending());
    put(&store, "/q", "1");
    assert_eq!(counter.0.load(Ordering::Relaxed), 0, "not for another prefix");
    put(&store, "/p/a", "1");
    assert_eq!(counter.0.load(Ordering::Relaxed), 1);
    delete(&store, "/p/a");
    assert_eq!(counter.0.load(Ordering::Relaxed), 1, "once until it looks");
    assert!(matches!(watch.poll_next(&mut Context::from_waker(&waker)), Poll::Ready(Some(Ok(_)))));
}

#[test]
fn dropped_watches_are_removed_and_closing_ends_the_others() {
    let engine = inline(MemoryBackend::default());
    let store = engine.store("plane");
    let watches: Vec<_> = (0..10).map(|i| store.watch(&format!("/{}/", i % 3), rev(1)).unwrap()).collect();
    assert_eq!(store.watches(), 10);
    drop(watches);
    assert_eq!(store.watches(), 0);
    let mut watch = store.watch("", rev(1)).unwrap();
    put(&store, "/a", "1");
    engine.close();
    assert_eq!(poll(&mut watch).unwrap().unwrap().unwrap().revision(), rev(2), "what was published still comes");
    assert!(poll(&mut watch).unwrap().is_none());
    assert!(poll(&mut store.watch("", rev(2)).unwrap()).unwrap().is_none(), "a watch of a closed engine ends at once");
}

async fn follow(store: Store, until: u64) -> Vec<u64> {
    let mut watch = store.watch("/", rev(1)).unwrap();
    let mut seen = Vec::new();
    while seen.last() != Some(&until) {
        seen.push(watch.next().await.unwrap().unwrap().revision().get());
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_of_concurrent_writers_see_every_revision_once_and_in_order() {
    let seam = ironclad_seam::Seam::system("test");
    let engine = threaded(MemoryBackend::default());
    let store = engine.store("plane");
    let watchers: Vec<_> = (0..4).map(|_| seam.tasks.spawn("watcher", follow(store.clone(), 401))).collect();
    let writers: Vec<_> = (0..4)
        .map(|w| {
            let store = store.clone();
            seam.tasks.spawn("writer", async move {
                for i in 0..100 {
                    let revision = store.put(&format!("/{w}/{i}"), "x").await.unwrap();
                    assert_eq!(store.get(&format!("/{w}/{i}")).unwrap().modified, revision, "one reads one's writes");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    for watcher in watchers {
        assert_eq!(watcher.await.unwrap(), (2..=401).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn reached_waits_for_a_revision() {
    let seam = ironclad_seam::Seam::system("test");
    let engine = threaded(MemoryBackend::default());
    let store = engine.store("plane");
    let waiting = store.clone();
    let waiter = seam.tasks.spawn("waiter", async move { waiting.reached(rev(3)).await });
    store.put("/a", "1").await.unwrap();
    store.put("/a", "2").await.unwrap();
    assert_eq!(waiter.await.unwrap(), rev(3));
    assert_eq!(now(store.reached(rev(1))), rev(3), "at once for the past");
}
