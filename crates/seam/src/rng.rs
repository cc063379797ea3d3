//! Random numbers in named streams from one root seed, so that a new draw in one place does not change the others.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng, TryRng as _};
use rand_chacha::ChaCha8Rng;

/// The letters of Kubernetes' generated names.
const SUFFIX_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A root of named streams. Cheap to clone; clones share the streams.
#[derive(Clone, Debug)]
pub struct Rng(Arc<Root>);

#[derive(Debug)]
struct Root {
    seed: u64,
    streams: Mutex<BTreeMap<String, Stream>>,
}

/// One stream of random numbers. Clones continue the same stream.
#[derive(Clone, Debug)]
pub struct Stream(Arc<Mutex<ChaCha8Rng>>);

impl Rng {
    /// Streams that are the same on every run with this seed.
    pub fn from_seed(seed: u64) -> Self {
        Self(Arc::new(Root { seed, streams: Mutex::default() }))
    }

    /// Streams seeded by the operating system.
    ///
    /// # Panics
    /// If the operating system has no randomness: uids and keys would be predictable.
    pub fn from_system() -> Self {
        let seed = rand::rngs::SysRng.try_next_u64().expect("the operating system gives no randomness");
        Self::from_seed(seed)
    }

    /// The root seed, to print with a failure.
    pub fn seed(&self) -> u64 {
        self.0.seed
    }

    /// A root whose streams are independent of this one's, for another process or member.
    pub fn child(&self, name: &str) -> Self {
        Self::from_seed(mix(self.0.seed, name))
    }

    /// The stream of this name; every call continues the same one.
    pub fn stream(&self, name: &str) -> Stream {
        let mut streams = self.0.streams.lock();
        if let Some(stream) = streams.get(name) {
            return stream.clone();
        }
        let seed = mix(self.0.seed, name);
        let stream = Stream(Arc::new(Mutex::new(ChaCha8Rng::seed_from_u64(seed))));
        streams.insert(name.to_owned(), stream.clone());
        stream
    }

    /// A UUID of version 4 from the stream `uid`.
    pub fn uuid(&self) -> String {
        self.stream("uid").uuid()
    }
}

impl Stream {
    /// 64 uniform bits.
    pub fn u64(&self) -> u64 {
        self.0.lock().next_u64()
    }

    /// A number in `0..bound`; 0 when `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        // Multiply-shift: its bias is below 2^-32 for every bound that we draw.
        ((u128::from(self.u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True with this probability, 0 to 1.
    pub fn chance(&self, probability: f64) -> bool {
        ((self.u64() >> 11) as f64) / ((1u64 << 53) as f64) < probability
    }

    /// A duration drawn evenly from `0..=longest`, to whole microseconds.
    pub fn duration_up_to(&self, longest: std::time::Duration) -> std::time::Duration {
        std::time::Duration::from_micros(self.below(u64::try_from(longest.as_micros()).unwrap_or(u64::MAX) + 1))
    }

    /// A UUID of version 4, lower case.
    pub fn uuid(&self) -> String {
        let (hi, lo) = (self.u64(), self.u64());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            hi >> 32,
            (hi >> 16) & 0xffff,
            hi & 0xfff,
            0x8000 | ((lo >> 48) & 0x3fff),
            lo & 0xffff_ffff_ffff
        )
    }

    /// Returns this many letters of the alphabet of Kubernetes' generated names.
    pub fn suffix(&self, length: usize) -> String {
        (0..length).map(|_| char::from(SUFFIX_LETTERS[self.below(27) as usize])).collect()
    }

    /// Fills the buffer with random bytes: for keys and serial numbers.
    pub fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().fill_bytes(bytes);
    }
}

/// A seed for the stream of this name: FNV-1a over the name, then the finalizer of splitmix64.
fn mix(seed: u64, name: &str) -> u64 {
    let mut h = seed ^ 0xcbf2_9ce4_8422_2325;
    for byte in name.bytes() {
        h = (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    h ^ (h >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn streams_are_the_same_for_a_seed_and_independent_of_each_other() {
        let (a, b) = (Rng::from_seed(7), Rng::from_seed(7));
        let first: Vec<_> = (0..4).map(|_| a.stream("jitter").u64()).collect();
        // Draws from another stream in between change nothing.
        let second: Vec<_> = (0..4)
            .map(|_| {
                let _ = b.uuid();
                b.stream("jitter").u64()
            })
            .collect();
        assert_eq!(first, second);
        assert_ne!(a.child("member1").stream("jitter").u64(), a.child("member2").stream("jitter").u64());
    }

    #[test]
    fn uuids_are_distinct_and_random_in_every_digit_but_that_of_the_version() {
        let rng = Rng::from_seed(1);
        let uuids: BTreeSet<String> = (0..200).map(|_| rng.uuid()).collect();
        assert_eq!(uuids.len(), 200, "two are equal");
        for at in 0..36 {
            let found: BTreeSet<char> = uuids.iter().map(|uuid| char::from(uuid.as_bytes()[at])).collect();
            let want = match at {
                8 | 13 | 18 | 23 => "-",
                14 => "4",
                19 => "89ab",
                _ => "0123456789abcdef",
            };
            assert_eq!(found, want.chars().collect(), "digits at {at}");
        }
        assert!(uuids.iter().all(|uuid| uuid.len() == 36));
    }

    #[test]
    fn below_is_less_than_its_bound_and_zero_for_zero() {
        let stream = Rng::from_seed(3).stream("x");
        assert_eq!(stream.below(0), 0);
        assert!((0..1000).all(|_| stream.below(5) < 5));
        assert!(!stream.chance(0.0) && stream.chance(1.0));
    }
}
