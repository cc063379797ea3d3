//! Encoding of entries and transactions on disk (format 1). Numbers are little-endian.
//!
//! A log record holds the values that its transaction *replaced*: the new values are in the head or in a later record.
//! So every value is on disk once, and a walk backwards from the head gives each change both of its sides.
//!
//! Entries and records begin with a checksum: redb verifies its own only after a crash, and a damaged object must be
//! refused at start rather than be served.

use bytes::Bytes;

use crate::{Entry, Event, Expiry, Key, Revision, Transaction};

/// Bytes before the value of an entry: sum, create, modified, version, expiry.
pub(crate) const ENTRY_HEADER: usize = SUM + NUMBERS;
const SUM: usize = 8;
const NUMBERS: usize = 32;
const PUT: u8 = 1;
const REPLACED: u8 = 2;

pub(crate) fn encode_entry(key: &str, entry: &Entry, into: &mut [u8]) {
    let (header, value) = into.split_at_mut(ENTRY_HEADER);
    header[SUM..].copy_from_slice(&numbers(entry));
    value.copy_from_slice(&entry.value);
    let sum = sum(key.as_bytes(), &into[SUM..]);
    into[..SUM].copy_from_slice(&sum.to_le_bytes());
}

/// Checksum against accidental damage, not against tampering. Every step is a bijection of the state, so two inputs of
/// one length that differ in one word never have the same sum.
pub(crate) fn sum(name: &[u8], bytes: &[u8]) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let mut add = |word: u64| {
        state = (state ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state ^= state >> 29;
    };
    for part in [name, bytes] {
        let (words, rest) = part.as_chunks::<8>();
        for word in words {
            add(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        add(u64::from_le_bytes(last));
    }
    state
}

fn numbers(entry: &Entry) -> [u8; NUMBERS] {
    let mut header = [0; NUMBERS];
    let expires = entry.expires.map_or(0, Expiry::unix_seconds);
    let numbers = [entry.create.get(), entry.modified.get(), entry.version, expires];
    for (place, number) in header.chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    header
}

pub(crate) fn decode_entry(key: &str, bytes: &[u8]) -> Option<Entry> {
    let mut input = Input(bytes);
    if input.number()? != sum(key.as_bytes(), input.0) {
        return None;
    }
    let mut entry = input.numbers()?;
    entry.value = Bytes::copy_from_slice(input.0);
    Some(entry)
}

pub(crate) fn encode_record(transaction: &Transaction, into: &mut Vec<u8>) {
    let start = into.len();
    into.extend_from_slice(&[0; SUM]);
    for event in &transaction.events {
        put_bytes(event.key.as_bytes(), into);
        let put = if event.entry.is_some() { PUT } else { 0 };
        let replaced = if event.previous.is_some() { REPLACED } else { 0 };
        into.push(put | replaced);
        if let Some(previous) = &event.previous {
            into.extend_from_slice(&numbers(previous));
            put_bytes(&previous.value, into);
        }
    }
    let sum = sum(&transaction.revision.get().to_le_bytes(), &into[start + SUM..]);
    into[start..start + SUM].copy_from_slice(&sum.to_le_bytes());
}

fn put_bytes(bytes: &[u8], into: &mut Vec<u8>) {
    let length = u32::try_from(bytes.len()).expect("keys and values are far smaller than 4 GiB");
    into.extend_from_slice(&length.to_le_bytes());
    into.extend_from_slice(bytes);
}

/// Reads the log record of the transaction with this revision; `None` if it is damaged.
/// `newer` gives the state of a key after the transaction.
pub(crate) fn decode_record(
    bytes: &[u8],
    revision: Revision,
    mut newer: impl FnMut(&str) -> Option<(Key, Entry)>,
) -> Option<Transaction> {
    let mut input = Input(bytes);
    if input.number()? != sum(&revision.get().to_le_bytes(), input.0) {
        return None;
    }
    decode_events(input, revision, &mut newer)
}

fn decode_events(
    mut input: Input<'_>,
    revision: Revision,
    newer: &mut dyn FnMut(&str) -> Option<(Key, Entry)>,
) -> Option<Transaction> {
    let mut events = Vec::new();
    while !input.0.is_empty() {
        let key = std::str::from_utf8(input.bytes()?).ok()?;
        let [flags] = input.take()?;
        let previous = match flags & REPLACED {
            0 => None,
            _ => {
                let mut entry = input.numbers()?;
                entry.value = Bytes::copy_from_slice(input.bytes()?);
                Some(entry)
            }
        };
        let now = newer(key);
        // Both tables were committed together: if they disagree, one is damaged.
        let fits = match (&now, flags & PUT != 0) {
            (Some((_, entry)), true) => entry.modified == revision,
            (None, false) => previous.is_some(),
            _ => false,
        };
        if !fits || flags & !(PUT | REPLACED) != 0 || previous.as_ref().is_some_and(|p| p.modified >= revision) {
            return None;
        }
        let (key, entry) = match now {
            Some((key, entry)) => (key, Some(entry)),
            None => (Key::from(key), None),
        };
        events.push(Event::new(key, previous, entry));
    }
    let ordered = events.windows(2).all(|pair| pair[0].key < pair[1].key);
    (ordered && !events.is_empty()).then(|| Transaction { revision, events: events.into() })
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take()?))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(u32::from_le_bytes(self.take()?)).ok()?;
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn numbers(&mut self) -> Option<Entry> {
        Some(Entry {
            create: Revision::new(self.number()?)?,
            modified: Revision::new(self.number()?)?,
            version: self.number()?,
            expires: Expiry::at_unix_seconds(self.number()?),
            value: Bytes::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(create: u64, modified: u64, expires: u64, value: &[u8]) -> Entry {
        Entry {
            create: Revision::new(create).unwrap(),
            modified: Revision::new(modified).unwrap(),
            version: 3,
            expires: Expiry::at_unix_seconds(expires),
            value: Bytes::copy_from_slice(value),
        }
    }

    #[test]
    fn records_round_trip_and_damage_is_detected() {
        let revision = Revision::new(9).unwrap();
        let (new, old) = (entry(2, 9, 77, b"new"), entry(2, 5, 0, b"old"));
        let events = Box::from([
            Event::new("/a".into(), None, Some(new.clone())),
            Event::new("/b".into(), Some(old.clone()), Some(new.clone())),
            Event::new("/c".into(), Some(old), None),
        ]);
        let transaction = Transaction { revision, events };
        let mut bytes = Vec::new();
        encode_record(&transaction, &mut bytes);
        let after = |key: &str| (key != "/c").then(|| (key.into(), new.clone()));
        assert_eq!(decode_record(&bytes, revision, after), Some(transaction));
        assert_eq!(decode_record(&bytes, revision.next(), after), None, "a record of another revision is refused");
        assert_eq!(decode_record(&bytes, revision, |_| None), None, "a put key must exist after it");
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_record(&damaged, revision, after), None, "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert_eq!(decode_record(&bytes[..cut], revision, after), None, "cut at {cut}");
        }
    }

    #[test]
    fn entries_round_trip_and_damage_is_detected() {
        for entry in [entry(1, 1, 0, b""), entry(3, 9, 1_700_000_000, b"value")] {
            let mut bytes = vec![0; ENTRY_HEADER + entry.value.len()];
            encode_entry("/a", &entry, &mut bytes);
            assert_eq!(decode_entry("/a", &bytes), Some(entry));
            assert_eq!(decode_entry("/b", &bytes), None, "an entry under another key");
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(decode_entry("/a", &damaged), None, "bit {bit}");
            }
            assert_eq!(decode_entry("/a", &bytes[..ENTRY_HEADER - 1]), None);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_as_a_log_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_entry("/a", &bytes);
            let revision = Revision::new(7).unwrap();
            // After the checksum, which arbitrary bytes would not pass.
            let _ = decode_events(Input(&bytes), revision, &mut |key| Some((key.into(), entry(1, 7, 0, b"x"))));
        }
    }
}
