//! redb on a disk that loses unsynced writes: every call of a run meets every fault, then the same with concurrent
//! writers, and with a second fault during recovery.

use std::collections::BTreeMap;

use ironclad_store::{
    Commit, Engine, Op, OpenError, Options, Query, RedbBackend, Store, StoreError,
    testing::{Disk, DiskFault, Loss},
};

use crate::support::{chain, now, rev, txn};

fn open(disk: &Disk, mode: Commit) -> Result<Engine, OpenError> {
    let backend = RedbBackend::on(disk.storage(), "(disk)")?;
    Engine::open(Box::new(backend), mode, ironclad_seam::Clock::system())
}

fn plane(engine: &Engine) -> Store {
    engine.store_with("plane", Options { compact_step: 3, ..Options::default() })
}

/// A disk with an empty store. Its creation is not crash-safe in redb: a real file gets its final name when it is
/// complete.
fn prepared() -> Disk {
    let disk = Disk::new();
    drop(open(&disk, Commit::Inline).unwrap());
    disk
}

/// The n-th transaction writes two keys, deletes one, and marks a third.
fn ops(n: u64) -> Vec<Op> {
    let value = |key: u64| vec![b'0' + (n % 10) as u8; (key * 900 + n * 37) as usize % 6_000];
    vec![
        Op::put(format!("/a/{}", n % 3), value(1)),
        Op::put(format!("/b/{}", n % 2), value(3)),
        Op::delete(format!("/a/{}", (n + 1) % 3)),
        Op::put("/count", n.to_string()),
    ]
}

/// Returns the state after this many transactions.
fn state(count: u64) -> BTreeMap<String, Vec<u8>> {
    let mut state = BTreeMap::new();
    for op in (1..=count).flat_map(ops) {
        match op {
            Op::Put { key, value, .. } => state.insert(key.to_string(), value.to_vec()),
            Op::Delete { key } => state.remove(key.as_str()),
        };
    }
    state
}

fn read(store: &Store) -> BTreeMap<String, Vec<u8>> {
    let entries = store.range(&Query::prefix("")).unwrap().entries;
    entries.into_iter().map(|(k, e)| (k.to_string(), e.value.to_vec())).collect()
}

/// Writes transactions `from..=to`, with a restart in the middle; returns how many were acknowledged in all.
fn work(disk: &Disk, from: u64, to: u64) -> u64 {
    let mut acknowledged = from - 1;
    for (first, last) in [(from, (from + to) / 2), ((from + to) / 2 + 1, to)] {
        let Ok(engine) = open(disk, Commit::Inline) else { return acknowledged };
        let store = plane(&engine);
        if store.revision() != rev(first) {
            return acknowledged;
        }
        for n in first..=last {
            match txn(&store, vec![], ops(n)) {
                Ok(result) => assert_eq!(result.done(), Some(rev(n + 1))),
                Err(StoreError::ReadOnly { .. }) => return acknowledged,
                Err(error) => panic!("{error}"),
            }
            acknowledged = n;
            store.compact(rev(n.saturating_sub(2).max(1)));
        }
    }
    acknowledged
}

/// Checks that the acknowledged writes exist, and at most one more, completely.
fn check(disk: &Disk, acknowledged: u64, name: &str) -> u64 {
    let engine = open(disk, Commit::Inline).unwrap_or_else(|e| panic!("{name}: {}", chain(&e)));
    let store = plane(&engine);
    let count = store.revision().get() - 1;
    assert!(count == acknowledged || count == acknowledged + 1, "{name}: {acknowledged} acknowledged, {count} there");
    assert_eq!(read(&store), state(count), "{name}");
    // History agrees, too: every revision in the window reads as it was written.
    for revision in store.floor().get()..=store.revision().get() {
        let at = store.range(&Query { at: Some(rev(revision)), ..Query::prefix("") }).unwrap();
        let at: BTreeMap<_, _> = at.entries.into_iter().map(|(k, e)| (k.to_string(), e.value.to_vec())).collect();
        assert_eq!(at, state(revision - 1), "{name}, at {revision}");
    }
    count
}

const WRITES: u64 = 12;

#[test]
fn acknowledged_writes_survive_every_fault_at_every_call() {
    let undisturbed = prepared();
    let first = undisturbed.calls();
    assert_eq!(work(&undisturbed, 1, WRITES), WRITES);
    let calls = undisturbed.calls() - first;
    assert!(calls > 100, "{calls} calls: the run is long enough");
    let cut = DiskFault::PowerCut;
    let mut unacknowledged_kept = 0;
    for call in 0..calls {
        for fault in
            [DiskFault::Io, DiskFault::NoSpace, cut(Loss::All), cut(Loss::Nothing), cut(Loss::Some { seed: call })]
        {
            let name = format!("call {call}, {fault:?}");
            let disk = prepared();
            disk.fail_at(first + call, fault);
            let acknowledged = work(&disk, 1, WRITES);
            disk.restart();
            let count = check(&disk, acknowledged, &name);
            unacknowledged_kept += u64::from(count > acknowledged);
            if call % 4 != 0 {
                continue;
            }
            // Work continues, and a second crash at an idle moment loses nothing.
            assert_eq!(work(&disk, count + 1, count + 4), count + 4, "{name}");
            disk.power_cut(Loss::All);
            disk.restart();
            check(&disk, count + 4, &name);
        }
    }
    assert!(unacknowledged_kept > 0, "some cut happened between the sync and the response");
}

#[test]
fn a_power_cut_during_recovery_from_a_power_cut() {
    let undisturbed = prepared();
    let first = undisturbed.calls();
    work(&undisturbed, 1, WRITES);
    let calls = undisturbed.calls() - first;
    for call in (0..calls).step_by(3) {
        for again in 0..12 {
            let name = format!("call {call}, then {again}");
            let disk = prepared();
            disk.fail_at(first + call, DiskFault::PowerCut(Loss::Some { seed: call }));
            let acknowledged = work(&disk, 1, WRITES);
            disk.restart();
            disk.fail_at(disk.calls() + again, DiskFault::PowerCut(Loss::Some { seed: again * 77 + call }));
            drop(open(&disk, Commit::Inline));
            disk.power_cut(Loss::All);
            disk.restart();
            check(&disk, acknowledged, &name);
        }
    }
}

/// Counts up in two keys in one transaction; returns the last acknowledged number.
async fn write_until_it_fails(store: Store, writer: u64) -> u64 {
    let mut acknowledged = 0;
    while acknowledged < 40 {
        let value = (acknowledged + 1).to_string();
        let ops = vec![Op::put(format!("/x/{writer}"), value.clone()), Op::put(format!("/y/{writer}"), value)];
        match store.txn(vec![], ops).await {
            Ok(_) => acknowledged += 1,
            Err(StoreError::ReadOnly { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_under_concurrent_writers_keeps_acknowledged_writes_whole() {
    let seam = ironclad_seam::Seam::system("test");
    for seed in 0..40u64 {
        let disk = prepared();
        disk.fail_at(disk.calls() + 5 + seed * 7, DiskFault::PowerCut(Loss::Some { seed }));
        let Ok(engine) = open(&disk, Commit::Thread) else { continue };
        let stores = [engine.store("plane"), engine.store("member1")];
        let mut writers = Vec::new();
        for writer in 0..8 {
            let store = stores[writer as usize % 2].clone();
            writers.push(seam.tasks.spawn("writer", write_until_it_fails(store, writer)));
        }
        let mut acknowledged = Vec::new();
        for writer in writers {
            acknowledged.push(writer.await.unwrap());
        }
        let visible = stores.each_ref().map(Store::revision);
        drop((engine, stores));
        disk.restart();
        let engine = open(&disk, Commit::Inline).unwrap();
        let stores = [engine.store("plane"), engine.store("member1")];
        let mut written = [0, 0];
        for (writer, acknowledged) in acknowledged.iter().enumerate() {
            let store = &stores[writer % 2];
            let number = |key: String| {
                store.get(&key).map_or(0, |e| std::str::from_utf8(&e.value).unwrap().parse::<u64>().unwrap())
            };
            let (x, y) = (number(format!("/x/{writer}")), number(format!("/y/{writer}")));
            assert_eq!(x, y, "seed {seed}: a transaction is complete");
            assert!(x == *acknowledged || x == acknowledged + 1, "seed {seed}: {acknowledged} acknowledged, {x} there");
            written[writer % 2] += x;
        }
        for (index, store) in stores.iter().enumerate() {
            assert_eq!(store.revision().get(), written[index] + 1, "seed {seed}: revisions have no gap");
            assert!(store.revision() >= visible[index], "seed {seed}: no visible revision is assigned again");
        }
    }
}

#[test]
fn a_full_disk_is_reported_with_a_remedy() {
    let disk = Disk::new();
    let engine = open(&disk, Commit::Inline).unwrap();
    let store = engine.store("plane");
    txn(&store, vec![], ops(1)).unwrap();
    disk.fail_at(disk.calls(), DiskFault::NoSpace);
    let error = now(store.put("/a", "x")).unwrap_err();
    assert_eq!(
        chain(&error),
        "the store no longer takes writes since its backend failed; reads go on; remove the cause and start the \
         process again: no space is left for data directory (disk): free some on its file system, then start the \
         process again: no storage space"
    );
    assert_eq!(read(&store), state(1));
    drop((engine, store));
    disk.restart();
    assert_eq!(read(&open(&disk, Commit::Inline).unwrap().store("plane")), state(1));
}

#[test]
fn an_empty_disk_needs_few_syncs() {
    let disk = Disk::new();
    let engine = open(&disk, Commit::Inline).unwrap();
    let opened = disk.syncs();
    assert!(opened <= 4, "{opened} syncs to open an empty store");
    txn(&engine.store("plane"), vec![], ops(1)).unwrap();
    assert_eq!(disk.syncs() - opened, 1, "one sync for a write");
}

#[test]
fn a_truncated_file_is_rejected_or_harmless() {
    let disk = prepared();
    assert_eq!(work(&disk, 1, WRITES), WRITES);
    let size = disk.size();
    let mut refused = 0;
    let near_the_ends = (0..1_024).step_by(97).chain(size - 1_024..size);
    for bytes in (0..size).step_by(3_001).chain(near_the_ends.step_by(51)) {
        let cut = disk.copy();
        cut.cut(bytes);
        match open(&cut, Commit::Inline) {
            // An empty file is a new one: a real file gets its final name when it is complete, so nothing was lost.
            Ok(engine) if bytes == 0 => assert!(plane(&engine).is_empty()),
            Ok(engine) => assert_eq!(read(&plane(&engine)), state(WRITES), "cut at {bytes}"),
            Err(error) => {
                let text = chain(&error);
                assert!(text.contains("(disk)") && !text.contains("check its disk"), "cut at {bytes}: {text}");
                refused += 1;
            }
        }
    }
    assert!(refused > 50, "{refused} refused");
}

#[test]
fn a_flipped_bit_is_rejected_or_harmless() {
    let disk = prepared();
    assert_eq!(work(&disk, 1, WRITES), WRITES);
    let (mut refused, mut harmless) = (0, 0);
    for byte in (0..disk.size()).step_by(61) {
        let damaged = disk.copy();
        damaged.flip_bit(byte, (byte % 8) as u8);
        match open(&damaged, Commit::Inline) {
            Ok(engine) => {
                assert_eq!(read(&plane(&engine)), state(WRITES), "byte {byte}");
                harmless += 1;
            }
            Err(error) => {
                assert!(chain(&error).contains("(disk)"), "byte {byte}: {}", chain(&error));
                refused += 1;
            }
        }
    }
    assert!(refused > 50 && harmless > 50, "{refused} refused, {harmless} harmless");
}

#[test]
fn an_empty_file_is_not_a_new_store() {
    let dir = tempfile::tempdir().unwrap();
    drop(RedbBackend::open(dir.path()).unwrap());
    std::fs::write(dir.path().join("store.redb"), "").unwrap();
    let error = RedbBackend::open(dir.path()).err().expect("everything in it would be missing").to_string();
    assert!(error.contains("store.redb is empty"), "{error}");
    std::fs::remove_file(dir.path().join("store.redb")).unwrap();
    assert!(RedbBackend::open(dir.path()).is_ok(), "no file is the first start");
}
