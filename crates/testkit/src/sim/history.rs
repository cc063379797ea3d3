//! Log of a simulated world, line by line, with virtual time: the trace of a failing seed, and the proof that one
//! seed has one history.

use std::{fmt::Write as _, sync::Arc};

use ironclad_seam::Clock;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

/// Log of one world. Cheap to clone.
#[derive(Clone)]
pub struct History {
    clock: Clock,
    lines: Arc<Mutex<Vec<String>>>,
}

impl History {
    pub fn new(clock: Clock) -> Self {
        Self { clock, lines: Arc::default() }
    }

    pub fn log(&self, line: impl AsRef<str>) {
        let wall = self.clock.wall();
        self.lines.lock().push(format!("{wall:.6} {}", line.as_ref()));
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }

    /// Digest of all lines: equal for equal seeds, in every process.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for line in self.lines.lock().iter() {
            hash.update(line.as_bytes());
            hash.update(b"\n");
        }
        hash.finalize().iter().fold(String::new(), |mut hex, byte| {
            // Writing into a String can't fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}
