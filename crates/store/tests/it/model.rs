//! State machine against the oracle, over every backend: transactions, compactions, watches opened, drained and closed,
//! reads of the past, restarts, and faults at any backend call.

use ironclad_store::{
    Backend, BackendError, Compare, Engine, MemoryBackend, Op, OpenError, Options, Query, RedbBackend, RevisionError,
    Store, StoreError, Watch,
    testing::{Disk, DiskFault, FailurePoint, FaultyBackend, Loss},
};
use proptest::prelude::*;

use crate::{
    oracle::Oracle,
    support::{now, poll, rev},
};

const KEYS: [&str; 7] = ["/a", "/a/1", "/a/2", "/a/b/1", "/b/1", "/b/2", "/c"];
const PREFIXES: [&str; 6] = ["", "/a", "/a/", "/b/", "/c", "/nothing/"];

#[derive(Clone, Debug)]
enum Step {
    Txn {
        compares: Vec<(usize, Expect)>,
        ops: Vec<(usize, Option<u8>)>,
    },
    Compact {
        back: u64,
    },
    Watch {
        prefix: usize,
        back: u64,
    },
    Drain {
        watch: usize,
    },
    Progress {
        watch: usize,
    },
    Close {
        watch: usize,
    },
    Range {
        prefix: usize,
        after: Option<usize>,
        limit: Option<usize>,
        back: u64,
    },
    /// The process ends cleanly and starts again.
    Restart,
    /// The backend call after this many meets a fault.
    Fault {
        calls: u64,
        fault: Fault,
    },
}

#[derive(Clone, Copy, Debug)]
enum Expect {
    Absent,
    Current,
    Stale,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Io,
    NoSpace,
    PowerCut(Loss),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let expect = prop_oneof![1 => Just(Expect::Absent), 4 => Just(Expect::Current), 1 => Just(Expect::Stale)];
    let compares = prop::collection::vec((0..KEYS.len(), expect), 0..3);
    let ops = prop::collection::btree_map(0..KEYS.len(), prop::option::weighted(0.7, any::<u8>()), 0..4);
    let loss = prop_oneof![1 => Just(Loss::All), 1 => Just(Loss::Nothing), 4 => any::<u64>().prop_map(|seed| Loss::Some { seed })];
    let fault = prop_oneof![1 => Just(Fault::Io), 1 => Just(Fault::NoSpace), 4 => loss.prop_map(Fault::PowerCut)];
    let step = prop_oneof![
        12 => (compares, ops).prop_map(|(compares, ops)| Step::Txn { compares, ops: ops.into_iter().collect() }),
        1 => (0..6u64).prop_map(|back| Step::Compact { back }),
        3 => (0..PREFIXES.len(), 0..12u64).prop_map(|(prefix, back)| Step::Watch { prefix, back }),
        3 => (0..8usize).prop_map(|watch| Step::Drain { watch }),
        2 => (0..8usize).prop_map(|watch| Step::Progress { watch }),
        1 => (0..8usize).prop_map(|watch| Step::Close { watch }),
        3 => (0..PREFIXES.len(), prop::option::of(0..KEYS.len()), prop::option::of(0..4usize), 0..12u64)
            .prop_map(|(prefix, after, limit, back)| Step::Range { prefix, after, limit, back }),
        1 => Just(Step::Restart),
        1 => (0..20u64, fault).prop_map(|(calls, fault)| Step::Fault { calls, fault }),
    ];
    prop::collection::vec(step, 1..60)
}

/// A kind of backend, its medium, and how faults reach it.
trait Medium {
    fn backend(&mut self) -> Result<Box<dyn Backend>, BackendError>;
    fn arm(&mut self, calls: u64, fault: Fault);
    /// The machine starts again; true if a fault had been armed.
    fn restart(&mut self);
    /// Returns `true` if arming needs a new backend.
    const REOPEN_TO_ARM: bool;
}

#[derive(Default)]
struct Memory {
    kept: MemoryBackend,
    armed: Option<(u64, Fault)>,
}

impl Medium for Memory {
    fn backend(&mut self) -> Result<Box<dyn Backend>, BackendError> {
        let (calls, moment) = match self.armed {
            None => (u64::MAX, FailurePoint::Before),
            Some((calls, Fault::PowerCut(Loss::Nothing) | Fault::Io)) => (calls, FailurePoint::After),
            Some((calls, _)) => (calls, FailurePoint::Before),
        };
        Ok(Box::new(FaultyBackend::new(self.kept.clone(), calls, moment)))
    }

    fn arm(&mut self, calls: u64, fault: Fault) {
        self.armed = Some((calls % 5, fault));
    }

    fn restart(&mut self) {
        self.armed = None;
    }

    const REOPEN_TO_ARM: bool = true;
}

#[derive(Default)]
struct Redb {
    disk: Disk,
}

impl Medium for Redb {
    fn backend(&mut self) -> Result<Box<dyn Backend>, BackendError> {
        Ok(Box::new(RedbBackend::on(self.disk.storage(), "(disk)")?))
    }

    fn arm(&mut self, calls: u64, fault: Fault) {
        let fault = match fault {
            Fault::Io => DiskFault::Io,
            Fault::NoSpace => DiskFault::NoSpace,
            Fault::PowerCut(loss) => DiskFault::PowerCut(loss),
        };
        self.disk.fail_at(self.disk.calls() + calls, fault);
    }

    fn restart(&mut self) {
        self.disk.restart();
    }

    const REOPEN_TO_ARM: bool = false;
}

struct Open {
    watch: Watch,
    prefix: &'static str,
    /// Everything up to here was delivered, as the watcher knows it.
    seen: u64,
}

struct Machine<M: Medium> {
    medium: M,
    engine: Option<Engine>,
    store: Option<Store>,
    oracle: Oracle,
    watches: Vec<Open>,
}

impl<M: Medium> Machine<M> {
    fn new(medium: M) -> Self {
        let mut machine = Self { medium, engine: None, store: None, oracle: Oracle::new(), watches: Vec::new() };
        machine.start();
        machine
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    /// Starts the process; a fault that meets the start itself is one more crash.
    fn start(&mut self) {
        let opened =
            self.medium.backend().map_err(OpenError::from).and_then(|backend| {
                Engine::open(backend, ironclad_store::Commit::Inline, ironclad_seam::Clock::system())
            });
        let engine = match opened {
            Ok(engine) => engine,
            Err(_) => {
                self.medium.restart();
                let backend = self.medium.backend().expect("it opens when nothing fails");
                Engine::open(backend, ironclad_store::Commit::Inline, ironclad_seam::Clock::system()).unwrap()
            }
        };
        self.store = Some(engine.store_with("plane", Options { compact_step: 2, ..Options::default() }));
        // A second server in the same file, which is never to see anything of the first.
        assert!(engine.store("member1").is_empty());
        self.engine = Some(engine);
    }

    fn stop(&mut self) -> Vec<(&'static str, u64)> {
        let resume = self.watches.drain(..).map(|open| (open.prefix, open.seen)).collect();
        self.store = None;
        self.engine = None;
        resume
    }

    /// Watches begin again where they were, and miss nothing.
    fn resume(&mut self, watches: Vec<(&'static str, u64)>) {
        let floor = self.store().floor().get();
        assert!(floor <= self.oracle.floor, "a restart never cuts more history than was requested");
        for (prefix, seen) in watches {
            self.watch(prefix, seen);
        }
    }

    fn watch(&mut self, prefix: &'static str, from: u64) {
        let floor = self.store().floor().get();
        match self.store().watch(prefix, rev(from)) {
            Ok(watch) => {
                assert!(from >= floor);
                self.watches.push(Open { watch, prefix, seen: from });
            }
            Err(error) => {
                assert_eq!(error, RevisionError::Compacted { requested: rev(from), floor: rev(floor) });
                assert!(from < floor);
            }
        }
    }

    /// The process dies with an error or a power cut, and restarts. `pending` is the state that the write in flight
    /// would have made: it exists completely or not at all.
    fn crash(&mut self, pending: Option<crate::oracle::State>) {
        self.compare_with_oracle();
        let refused = now(self.store().put("/refused", "x"));
        assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "{refused:?}");
        for index in 0..self.watches.len() {
            self.drain(index);
        }
        let watches = self.stop();
        self.medium.restart();
        self.start();
        if self.store().revision().get() > self.oracle.revision() {
            self.oracle.push(pending.expect("nothing appears that was not being written"));
        }
        self.compare_with_oracle();
        self.resume(watches);
    }

    fn compare_with_oracle(&self) {
        assert_eq!(self.store().revision().get(), self.oracle.revision());
        let range = self.store().range(&Query::prefix("")).unwrap();
        let entries: Vec<_> = range.entries.into_iter().map(|(k, e)| (k.to_string(), e)).collect();
        assert_eq!(entries, self.oracle.range(&Query::prefix("")).0);
    }

    fn drain(&mut self, index: usize) {
        let Open { watch, prefix, seen } = &mut self.watches[index];
        while let Some(answer) = poll(watch) {
            let batch = answer.expect("nobody closed it").expect("its buffer is large");
            let revision = batch.revision().get();
            assert_eq!(Some(revision), self.oracle.next_with_events(*seen, prefix), "nothing is skipped");
            assert_eq!(batch.events(), self.oracle.events(revision, prefix), "the transaction is whole");
            *seen = revision;
        }
        assert_eq!(self.oracle.next_with_events(*seen, prefix), None, "everything was delivered");
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Txn { compares, ops } => self.txn(compares, ops),
            Step::Compact { back } => {
                let floor = self.oracle.revision().saturating_sub(*back).max(1);
                self.store().compact(rev(floor));
                self.oracle.floor = self.oracle.floor.max(floor);
                assert_eq!(self.store().floor().get().max(floor), self.store().floor().get());
            }
            Step::Watch { prefix, back } => {
                let from = self.oracle.revision().saturating_sub(*back).max(1);
                self.watch(PREFIXES[*prefix], from);
            }
            Step::Drain { watch } if !self.watches.is_empty() => self.drain(watch % self.watches.len()),
            Step::Progress { watch } if !self.watches.is_empty() => {
                let index = watch % self.watches.len();
                let Open { watch, prefix, seen } = &mut self.watches[index];
                let progress = watch.progress().get();
                let next = self.oracle.next_with_events(*seen, prefix);
                assert_eq!(
                    progress,
                    next.map_or(self.oracle.revision(), |r| r - 1),
                    "as far as can be said, no further"
                );
                *seen = progress;
            }
            Step::Close { watch } if !self.watches.is_empty() => {
                let index = watch % self.watches.len();
                self.watches.remove(index);
                assert_eq!(self.store().watches(), self.watches.len());
            }
            Step::Drain { .. } | Step::Progress { .. } | Step::Close { .. } => {}
            Step::Range { prefix, after, limit, back } => {
                let at = (*back > 0).then(|| rev(self.oracle.revision().saturating_sub(back - 1).max(1)));
                let query = Query { prefix: PREFIXES[*prefix], start_after: after.map(|k| KEYS[k]), limit: *limit, at };
                match self.store().range(&query) {
                    Ok(range) => {
                        let entries: Vec<_> = range.entries.into_iter().map(|(k, e)| (k.to_string(), e)).collect();
                        assert_eq!((entries, range.remaining), self.oracle.range(&query));
                        assert_eq!(range.revision, at.unwrap_or(rev(self.oracle.revision())));
                    }
                    Err(error) => {
                        let floor = self.store().floor();
                        let requested = at.expect("the newest revision can always be read");
                        assert_eq!(error, RevisionError::Compacted { requested, floor });
                        assert!(requested < floor);
                    }
                }
            }
            Step::Restart => {
                let watches = self.stop();
                self.medium.restart();
                self.start();
                self.compare_with_oracle();
                self.resume(watches);
            }
            Step::Fault { calls, fault } => {
                if M::REOPEN_TO_ARM {
                    let watches = self.stop();
                    self.medium.arm(*calls, *fault);
                    self.start();
                    self.resume(watches);
                } else {
                    self.medium.arm(*calls, *fault);
                }
            }
        }
    }

    fn txn(&mut self, compares: &[(usize, Expect)], ops: &[(usize, Option<u8>)]) {
        let compares: Vec<_> = compares
            .iter()
            .map(|(key, expect)| {
                let current = self.oracle.newest().get(KEYS[*key]).map(|e| e.modified);
                let modified = match expect {
                    Expect::Absent => None,
                    Expect::Current => current,
                    Expect::Stale => Some(current.map_or(rev(1), ironclad_store::Revision::previous)),
                };
                Compare { key: KEYS[*key].into(), modified }
            })
            .collect();
        let ops: Vec<_> = ops
            .iter()
            .map(|(key, value)| match value {
                // Large enough for separate pages.
                Some(byte) => Op::put(KEYS[*key], vec![*byte; usize::from(*byte) * 40]),
                None => Op::delete(KEYS[*key]),
            })
            .collect();
        let (want, state) = self.oracle.txn(&compares, &ops);
        match now(self.store().txn(compares, ops)) {
            Ok(got) => {
                assert_eq!(got, want);
                if let Some(state) = state {
                    self.oracle.push(state);
                }
                // A compaction on the backend follows a commit, and can fail on its own.
                if self.engine.as_ref().unwrap().refuses_writes().is_some() {
                    self.crash(None);
                }
            }
            Err(StoreError::ReadOnly { .. }) => self.crash(state),
            Err(error) => panic!("{error}"),
        }
    }
}

fn run<M: Medium>(medium: M, steps: &[Step]) {
    let mut machine = Machine::new(medium);
    for step in steps {
        machine.step(step);
    }
    for index in 0..machine.watches.len() {
        machine.drain(index);
    }
    let watches = machine.stop();
    machine.medium.restart();
    machine.start();
    machine.compare_with_oracle();
    machine.resume(watches);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_memory_backend_agrees_with_the_model(steps in steps()) {
        run(Memory::default(), &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn redb_on_a_disk_that_forgets_agrees_with_the_model(steps in steps()) {
        run(Redb::default(), &steps);
    }
}
