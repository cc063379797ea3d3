//! Framing of a watch: one JSON value a line, cut from the bytes of the answer, whatever their chunks are. What is in
//! a frame is told from its beginning, before the object in it is decoded.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Largest event in bytes. Servers refuse objects of a few MiB.
const EVENT_MAX: usize = 32 << 20;

/// Cuts the answer to a watch into its lines.
#[derive(Debug, Default)]
pub struct Frames {
    /// Bytes that arrived and are not cut yet.
    left: BytesMut,
    /// Bytes of it that hold no end of a line.
    searched: usize,
}

/// The line is longer than [`EVENT_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the watch is larger than {EVENT_MAX} bytes")]
pub struct TooLong;

impl Frames {
    /// Takes in the next part of the answer.
    pub fn push(&mut self, part: &[u8]) {
        self.left.extend_from_slice(part);
    }

    /// The next complete line that is not empty; `None` until more arrives.
    ///
    /// # Errors
    /// If the line is too long.
    pub fn line(&mut self) -> Result<Option<Bytes>, TooLong> {
        loop {
            let Some(at) = memchr::memchr(b'\n', &self.left[self.searched..]) else {
                self.searched = self.left.len();
                return if self.searched > EVENT_MAX { Err(TooLong) } else { Ok(None) };
            };
            let line = self.left.split_to(self.searched + at + 1).freeze();
            self.searched = 0;
            if line.len() > EVENT_MAX {
                return Err(TooLong);
            }
            let line = line.slice(..line.len() - 1);
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }

    /// The last line, which the answer does not end; `None` if there is none.
    pub fn rest(&mut self) -> Option<Bytes> {
        self.searched = 0;
        let rest = self.left.split().freeze();
        (!rest.trim_ascii().is_empty()).then_some(rest)
    }
}

/// Type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventType {
    /// The object was added or changed.
    Applied,
    /// The object was deleted.
    Deleted,
    /// All events up to a version were sent.
    Bookmark,
    /// The watch failed; a Status says why.
    Error,
}

impl EventType {
    fn of(text: &[u8]) -> Option<Self> {
        Some(match text {
            b"ADDED" | b"MODIFIED" => Self::Applied,
            b"DELETED" => Self::Deleted,
            b"BOOKMARK" => Self::Bookmark,
            b"ERROR" => Self::Error,
            _ => return None,
        })
    }
}

/// An event whose object is not decoded yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// Its type.
    pub(crate) event: EventType,
    /// The JSON of its object. In an event of the usual form, what follows the object is a part of it.
    object: &'a [u8],
    line: &'a [u8],
}

/// An event in any order of its fields.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(rename = "type", borrow)]
    event: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl<'a> Frame<'a> {
    /// Reads the type of an event, and finds its object.
    ///
    /// # Errors
    /// If the line is no event.
    pub(crate) fn read(line: &'a [u8]) -> serde_json::Result<Self> {
        Self::usual(line).map_or_else(|| Self::by_fields(line), Ok)
    }

    /// Decodes the object.
    ///
    /// # Errors
    /// The decoder's.
    pub(crate) fn decode<T>(&self, decode: impl Fn(&'a [u8]) -> serde_json::Result<T>) -> serde_json::Result<T> {
        let decoded = decode(self.object);
        if decoded.is_err()
            && let Ok(Self { object, .. }) = Self::by_fields(self.line)
            && object != self.object
        {
            return decode(object);
        }
        decoded
    }

    fn by_fields(line: &'a [u8]) -> serde_json::Result<Self> {
        let fields: Fields<'a> = serde_json::from_slice(line)?;
        let event = EventType::of(fields.event.as_bytes()).ok_or_else(|| {
            let text = format!("unknown type {:?} of an event", fields.event);
            <serde_json::Error as serde::de::Error>::custom(text)
        })?;
        Ok(Self { event, object: fields.object.get().as_bytes(), line })
    }

    /// An event as API servers write it: the type, then the object, and nothing else. The object need not be read to
    /// find its end: if something follows it, its decoder refuses that.
    fn usual(line: &'a [u8]) -> Option<Self> {
        let rest = line.trim_ascii().strip_prefix(br#"{"type":""#)?;
        let (event, rest) = rest.split_at(memchr::memchr(b'"', rest)?);
        let object = rest.strip_prefix(br#"","object":"#)?.strip_suffix(b"}")?;
        let event = EventType::of(event)?;
        object.ends_with(b"}").then_some(Self { event, object, line })
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection, prelude::*};
    use serde_json::{Value, json};

    use super::*;

    fn lines(parts: &[&[u8]]) -> Vec<String> {
        let (mut frames, mut all) = (Frames::default(), Vec::new());
        for part in parts {
            frames.push(part);
            while let Some(line) = frames.line().unwrap() {
                all.push(String::from_utf8_lossy(&line).into_owned());
            }
        }
        all.extend(frames.rest().map(|line| String::from_utf8_lossy(&line).into_owned()));
        all
    }

    #[test]
    fn lines_are_cut_whatever_the_chunks() {
        type Row<'a> = (&'a str, &'a [&'a [u8]], &'a [&'a str]);
        let rows: [Row<'_>; 6] = [
            ("one line", &[b"{}\n"], &["{}"]),
            ("two in one chunk", &[b"{}\n[]\n"], &["{}", "[]"]),
            ("one in three", &[b"{", b"}", b"\n"], &["{}"]),
            ("empty lines", &[b"\n\r\n{}\n\n"], &["{}"]),
            ("no end of the last", &[b"{}\n[", b"]"], &["{}", "[]"]),
            ("nothing", &[], &[]),
        ];
        for (name, parts, want) in rows {
            assert_eq!(lines(parts), want, "{name}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused_before_it_fills_the_memory() {
        let mut frames = Frames::default();
        let part = vec![b'x'; 1 << 20];
        let parts = (0..64).take_while(|_| {
            frames.push(&part);
            frames.line() == Ok(None)
        });
        assert_eq!(parts.count(), EVENT_MAX >> 20);
        let mut frames = Frames::default();
        frames.push(&vec![b'x'; EVENT_MAX + 1]);
        frames.push(b"\n");
        assert_eq!(frames.line(), Err(TooLong), "nor if its end arrives with it");
    }

    fn value(json: &[u8]) -> serde_json::Result<Value> {
        serde_json::from_slice(json)
    }

    #[test]
    fn events_are_told_by_their_type() {
        let object = json!({"metadata": {"name": "a", "annotations": {"}": "\"}"}}});
        let of = |event: &str| json!({"type": event, "object": object}).to_string();
        let compact = |event: &str| format!(r#"{{"type":"{event}","object":{object}}}"#);
        let applied = Some(EventType::Applied);
        let rows: [(&str, String, Option<EventType>); 13] = [
            ("added", compact("ADDED"), applied),
            ("modified", compact("MODIFIED"), applied),
            ("deleted", compact("DELETED"), Some(EventType::Deleted)),
            ("bookmark", compact("BOOKMARK"), Some(EventType::Bookmark)),
            ("error", compact("ERROR"), Some(EventType::Error)),
            ("another type", compact("RENAMED"), None),
            ("the object first", of("ADDED"), applied),
            ("spaces", format!(r#" {{ "type": "ADDED", "object": {object} }} "#), applied),
            ("one more field", format!(r#"{{"type":"ADDED","object":{object},"x":1}}"#), applied),
            ("one more object", format!(r#"{{"type":"ADDED","object":{object},"x":{{}}}}"#), applied),
            ("a type with an escape", format!(r#"{{"type":"\u0041DDED","object":{object}}}"#), applied),
            ("a page of HTML", "<html><body>502</body></html>".to_owned(), None),
            ("truncated", compact("ADDED")[..20].to_owned(), None),
        ];
        for (name, line, want) in &rows {
            let frame = Frame::read(line.as_bytes()).ok();
            assert_eq!(frame.map(|frame| frame.event), *want, "{name}");
            assert!(frame.is_none_or(|frame| frame.decode(value).unwrap() == object), "{name}");
        }
    }

    proptest! {
        /// Whatever the order of the fields and wherever chunks end, the objects are those that were sent.
        #[test]
        fn events_arrive_as_they_were_sent(
            events in collection::vec(("[a-z{}\\[\\]\"\\\\\n]{0,8}", any::<bool>(), any::<bool>()), 0..8),
            cuts in collection::vec(1..40usize, 0..20),
        ) {
            let objects: Vec<Value> = events.iter().map(|(text, ..)| json!({"metadata": {"name": text}})).collect();
            let mut sent = Vec::new();
            for ((_, is_object_first, has_more), object) in events.iter().zip(&objects) {
                let more = if *has_more { r#","more":{"object":{}}"# } else { "" };
                let line = match is_object_first {
                    true => format!(r#"{{"object":{object},"type":"ADDED"{more}}}"#),
                    false => format!(r#"{{"type":"ADDED","object":{object}{more}}}"#),
                };
                sent.extend_from_slice(line.as_bytes());
                sent.push(b'\n');
            }
            let (mut frames, mut got, mut rest) = (Frames::default(), Vec::new(), &sent[..]);
            let mut cuts = cuts.into_iter();
            while !rest.is_empty() {
                let (part, more) = rest.split_at(cuts.next().unwrap_or(rest.len()).min(rest.len()));
                rest = more;
                frames.push(part);
                while let Some(line) = frames.line().unwrap() {
                    got.push(Frame::read(&line).unwrap().decode(value).unwrap());
                }
            }
            prop_assert_eq!(got, objects);
            prop_assert_eq!(frames.rest(), None);
        }

        /// Nothing that a server sends makes the reader panic, and what it takes for an object of the usual form is the
        /// object that a decoder of the whole line finds.
        #[test]
        fn any_bytes_are_read(line in "(\\{\"type\":\"(ADDED|ERROR)\",\"object\":)?[\\{\\}\",:a\\[\\] ]{0,24}\\}{0,3}") {
            if let Ok(object) = Frame::read(line.as_bytes()).and_then(|frame| frame.decode(value)) {
                let whole: Value = serde_json::from_str(&line).unwrap();
                prop_assert_eq!(&whole["object"], &object);
            }
        }

        /// Answers of `fuzz/seeds/watch`, changed at random: they are cut and read alike, whatever the chunks, and an
        /// event of the usual form is read as its fields say.
        #[test]
        fn changed_answers_are_read_alike_in_all_chunks(
            seed in any::<prop::sample::Selector>(),
            changes in collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cuts in collection::vec(1..60usize, 0..20),
        ) {
            let mut answer = seed.select(seeds());
            for (at, byte) in changes {
                let at = at.index(answer.len());
                answer[at] = byte;
            }
            let read = |cuts: &[usize]| {
                let (mut frames, mut all, mut rest) = (Frames::default(), Vec::new(), &answer[..]);
                let mut cuts = cuts.iter();
                while !rest.is_empty() {
                    let (part, more) = rest.split_at(cuts.next().copied().unwrap_or(rest.len()).min(rest.len()));
                    rest = more;
                    frames.push(part);
                    while let Ok(Some(line)) = frames.line() {
                        all.push(line);
                    }
                }
                all.extend(frames.rest());
                all
            };
            let lines = read(&[]);
            prop_assert_eq!(&read(&cuts), &lines);
            for line in &lines {
                let (usual, by_fields) = (Frame::read(line), Frame::by_fields(line));
                if let (Ok(usual), Ok(by_fields)) = (&usual, &by_fields) {
                    prop_assert_eq!(usual.event, by_fields.event);
                    prop_assert_eq!(usual.decode(value).ok(), by_fields.decode(value).ok());
                }
            }
        }
    }

    fn seeds() -> Vec<Vec<u8>> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/watch");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        files.map(|file| std::fs::read(file).unwrap()).collect()
    }
}
