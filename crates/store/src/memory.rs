//! A backend in memory: for the simulation and for tests.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;

use crate::{Backend, BackendError, BackendStats, Entry, Key, Loaded, LoadedServer, Record, Revision, Transaction};

/// In-memory backend. Clones share their state: an engine opened on a clone finds what an earlier one committed, as a
/// restarted process finds its disk. It shares bytes with the engine's memory.
#[derive(Clone, Default)]
pub struct MemoryBackend(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    servers: BTreeMap<Arc<str>, KeptServer>,
    stats: BackendStats,
}

struct KeptServer {
    revision: Revision,
    head: BTreeMap<Key, Entry>,
    log: VecDeque<Arc<Transaction>>,
}

impl Backend for MemoryBackend {
    fn load(&mut self) -> Result<Loaded, BackendError> {
        let kept = self.0.lock();
        let load = |(name, server): (&Arc<str>, &KeptServer)| {
            let loaded = LoadedServer {
                revision: server.revision,
                head: server.head.iter().map(|(k, e)| (k.clone(), e.clone())).collect(),
                log: server.log.iter().cloned().collect(),
            };
            (name.to_string(), loaded)
        };
        Ok(kept.servers.iter().map(load).collect())
    }

    fn commit(&mut self, group: &[Record]) -> Result<(), BackendError> {
        let mut kept = self.0.lock();
        for record in group {
            let server = kept.servers.entry(record.server.clone()).or_insert_with(|| KeptServer {
                revision: Revision::FIRST,
                head: BTreeMap::new(),
                log: VecDeque::new(),
            });
            for event in &record.transaction.events {
                match &event.entry {
                    Some(entry) => server.head.insert(event.key.clone(), entry.clone()),
                    None => server.head.remove(&event.key),
                };
            }
            server.revision = record.transaction.revision;
            server.log.push_back(record.transaction.clone());
        }
        kept.stats.commits += 1;
        kept.stats.transactions += u64::try_from(group.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    fn compact(&mut self, server: &str, floor: Revision) -> Result<(), BackendError> {
        let mut kept = self.0.lock();
        if let Some(server) = kept.servers.get_mut(server) {
            while server.log.front().is_some_and(|t| t.revision <= floor) {
                server.log.pop_front();
            }
        }
        kept.stats.compactions += 1;
        Ok(())
    }

    fn stats(&self) -> BackendStats {
        self.0.lock().stats
    }
}
