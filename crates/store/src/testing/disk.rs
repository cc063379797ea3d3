//! An in-memory disk for redb. A power cut loses writes that were not synced and tears others; calls fail on demand.

use std::{io, sync::Arc};

use parking_lot::Mutex;
use redb::StorageBackend;

/// Granularity of torn writes: disks write whole sectors.
const SECTOR: usize = 512;

/// A disk that outlives the processes which use it. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Content that a power cut cannot lose.
    synced: Vec<u8>,
    /// Content that is read.
    live: Vec<u8>,
    /// Changes that turn `synced` into `live`, in order.
    unsynced: Vec<Change>,
    calls: u64,
    syncs: u64,
    plan: Option<(u64, DiskFault)>,
    /// Set by a power cut; every call fails until the disk is restarted.
    off: bool,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, data: Vec<u8> },
    Length(usize),
}

/// Fault of the n-th changing call (write, resize or sync), in place of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// It fails with an input/output error (EIO) and does nothing.
    Io,
    /// It fails with "no space left" (ENOSPC) and does nothing.
    NoSpace,
    /// Power cut: it fails, and so does every call until [`Disk::restart`].
    PowerCut(Loss),
}

/// Unsynced changes that a power cut loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All of them.
    All,
    /// None of them.
    Nothing,
    /// A random subset, drawn from this seed; a write that is not lost may be torn at a sector.
    Some {
        /// Seed of the random choices.
        seed: u64,
    },
}

impl Disk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the storage for [`RedbBackend::on`](crate::RedbBackend::on).
    pub fn storage(&self) -> DiskStorage {
        DiskStorage(self.clone())
    }

    /// Number of changing calls.
    pub fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// Number of syncs.
    pub fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// Injects the fault at the changing call with this number, counted from 0 since the disk was created.
    pub fn fail_at(&self, call: u64, fault: DiskFault) {
        self.0.lock().plan = Some((call, fault));
    }

    /// Cuts the power now.
    pub fn power_cut(&self, loss: Loss) {
        self.0.lock().power_cut(loss, None);
    }

    /// Returns `true` after a power cut, until the restart.
    pub fn is_off(&self) -> bool {
        self.0.lock().off
    }

    /// Restores power and removes a pending fault.
    pub fn restart(&self) {
        let mut state = self.0.lock();
        state.off = false;
        state.plan = None;
    }

    /// Returns another disk with the same content and no pending faults.
    pub fn copy(&self) -> Self {
        let state = self.0.lock();
        let (synced, live, unsynced) = (state.synced.clone(), state.live.clone(), state.unsynced.clone());
        Self(Arc::new(Mutex::new(State { synced, live, unsynced, ..State::default() })))
    }

    /// Inverts one bit of what is stored.
    pub fn flip_bit(&self, byte: usize, bit: u8) {
        let mut state = self.0.lock();
        let state = &mut *state;
        for image in [&mut state.synced, &mut state.live] {
            if let Some(place) = image.get_mut(byte) {
                *place ^= 1 << (bit % 8);
            }
        }
    }

    /// Truncates the content to this many bytes.
    pub fn cut(&self, bytes: usize) {
        let mut state = self.0.lock();
        state.synced.truncate(bytes);
        state.live.truncate(bytes);
    }

    /// The size in bytes.
    pub fn size(&self) -> usize {
        self.0.lock().live.len()
    }
}

impl State {
    /// Counts a changing call and injects its fault; `change` is the pending change.
    fn call(&mut self, change: Option<&Change>) -> io::Result<()> {
        self.powered()?;
        let call = self.calls;
        self.calls += 1;
        match self.plan {
            Some((at, fault)) if at == call => {
                self.plan = None;
                match fault {
                    DiskFault::Io => Err(io::Error::from_raw_os_error(5)),
                    DiskFault::NoSpace => Err(io::ErrorKind::StorageFull.into()),
                    DiskFault::PowerCut(loss) => {
                        self.power_cut(loss, change);
                        self.powered()
                    }
                }
            }
            _ => Ok(()),
        }
    }

    fn powered(&self) -> io::Result<()> {
        if self.off { Err(io::Error::other("the power is off")) } else { Ok(()) }
    }

    fn power_cut(&mut self, loss: Loss, under_way: Option<&Change>) {
        self.off = true;
        let mut changes = std::mem::take(&mut self.unsynced);
        changes.extend(under_way.cloned());
        let mut coins = Coins(match loss {
            Loss::Some { seed } => seed,
            Loss::All | Loss::Nothing => 0,
        });
        for change in changes {
            match loss {
                Loss::All => {}
                Loss::Nothing => change.apply(&mut self.synced),
                Loss::Some { .. } => match coins.next() % 4 {
                    0 | 1 => {}
                    2 => change.apply(&mut self.synced),
                    _ => change.torn(coins.next()).apply(&mut self.synced),
                },
            }
        }
        self.live.clone_from(&self.synced);
    }
}

impl Change {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Length(length) => image.resize(*length, 0),
            Self::Write { offset, data } => {
                let end = offset + data.len();
                if image.len() < end {
                    image.resize(end, 0);
                }
                image[*offset..end].copy_from_slice(data);
            }
        }
    }

    /// Returns the beginning of a write, up to the end of a random sector.
    fn torn(mut self, coin: u64) -> Self {
        if let Self::Write { data, .. } = &mut self {
            let sectors = u64::try_from(data.len().div_ceil(SECTOR)).unwrap_or(1).max(1);
            data.truncate(usize::try_from(coin % sectors).unwrap_or(0) * SECTOR);
        }
        self
    }
}

/// splitmix64, which is random enough for tests.
struct Coins(u64);

impl Coins {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A [`Disk`] as redb sees it.
#[derive(Debug)]
pub struct DiskStorage(Disk);

impl StorageBackend for DiskStorage {
    fn len(&self) -> io::Result<u64> {
        let state = self.0.0.lock();
        state.powered()?;
        Ok(u64::try_from(state.live.len()).unwrap_or(u64::MAX))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.0.lock();
        state.powered()?;
        let from = index(offset)?;
        let stored = state.live.get(from..).and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(stored.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.0.0.lock();
        let change = Change::Length(index(len)?);
        state.call(Some(&change))?;
        change.apply(&mut state.live);
        state.unsynced.push(change);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.0.0.lock();
        let state = &mut *state;
        state.call(None)?;
        state.syncs += 1;
        for change in state.unsynced.drain(..) {
            change.apply(&mut state.synced);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.0.lock();
        let change = Change::Write { offset: index(offset)?, data: data.to_vec() };
        state.call(Some(&change))?;
        change.apply(&mut state.live);
        state.unsynced.push(change);
        Ok(())
    }
}

fn index(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput.into())
}
