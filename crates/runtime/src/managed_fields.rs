//! Removes the entries of `metadata.managedFields` from answers before they are decoded. They are half of a small
//! object, each of their fields becomes a map of its own, and controllers read those of Services only.

use bytes::Bytes;
use http::{HeaderMap, Request, Response, header::CONTENT_TYPE};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use kube::client::Body;

/// Shape of an answer: what leads to the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One object. A list keeps the entries of its objects: servers with streaming lists are asked for events.
    Object,
    /// Events of a watch, one after the other.
    Events,
}

impl Shape {
    /// The shape of the answer to this request; `None` if it keeps the entries.
    pub(crate) fn of(request: &Request<Body>) -> Option<Self> {
        match is_of_services(request.uri().path()) {
            true => None,
            false if is_watch(request) => Some(Self::Events),
            false => Some(Self::Object),
        }
    }

    const fn path(self) -> &'static [&'static [u8]] {
        match self {
            Self::Object => &[b"metadata", b"managedFields"],
            Self::Events => &[b"object", b"metadata", b"managedFields"],
        }
    }
}

/// Their entries tell ports that were allocated from those that were asked for.
fn is_of_services(path: &str) -> bool {
    let below = path.split_once("/api/v1/").map(|(_, below)| below.split('/').collect::<Vec<_>>());
    matches!(below.as_deref(), Some(["services", ..] | ["namespaces", _, "services", ..]))
}

/// True for a request that begins a watch.
pub(crate) fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|q| q.split('&').any(|p| p == "watch=true" || p == "watch=1"))
}

/// The answer with `null` for `managedFields`. Other answers than JSON are left as they are.
pub(crate) fn without<B>(response: Response<B>, shape: Shape) -> Response<UnsyncBoxBody<Bytes, B::Error>>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
{
    if !is_json(response.headers()) {
        return response.map(BodyExt::boxed_unsync);
    }
    let mut filter = Filter::new(shape);
    response.map(|body| body.map_frame(move |frame| frame.map_data(|data| filter.pass(data))).boxed_unsync())
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/json"))
}

/// Reads JSON in parts of any length, and puts `null` in the place of the list `managedFields`. What is not JSON
/// passes as it is, or cut: the decoder refuses it in both cases.
struct Filter {
    /// The keys that lead to the list.
    path: &'static [&'static [u8]],
    /// The number of keys of the path in whose values the reader is.
    within: usize,
    /// Open objects and lists.
    depth: usize,
    /// In a string; `true` after a backslash.
    string: Option<bool>,
    /// In a string that may be the next key of the path: the number of bytes that are equal so far.
    candidate: Option<usize>,
    /// A key may follow.
    expects_key: bool,
    /// The last key is the next one of the path.
    found: bool,
    /// In the list.
    cuts: bool,
}

impl Filter {
    fn new(shape: Shape) -> Self {
        Self {
            path: shape.path(),
            within: 0,
            depth: 0,
            string: None,
            candidate: None,
            expects_key: false,
            found: false,
            cuts: false,
        }
    }

    /// Returns the next part without what is removed from it.
    fn pass(&mut self, part: Bytes) -> Bytes {
        let mut left: Option<Vec<u8>> = None;
        // Everything before `from` is in `left` or was cut.
        let (mut from, mut at) = (0, 0);
        while let Some(rest) = part.get(at..).filter(|rest| !rest.is_empty()) {
            if self.string.is_some() {
                at += self.string(rest);
                continue;
            }
            let cut = self.cuts;
            self.token(rest[0]);
            match (cut, self.cuts) {
                (false, true) => {
                    let left = left.get_or_insert_with(|| Vec::with_capacity(part.len()));
                    left.extend_from_slice(&part[from..at]);
                    left.extend_from_slice(b"null");
                }
                (true, false) => from = at + 1,
                _ => {}
            }
            at += 1;
        }
        match (left, self.cuts) {
            (None, true) => Bytes::new(),
            (None, false) => part.slice(from..),
            (Some(left), true) => left.into(),
            (Some(mut left), false) => {
                left.extend_from_slice(&part[from..]);
                left.into()
            }
        }
    }

    /// Reads a part of a string, and returns its length.
    fn string(&mut self, rest: &[u8]) -> usize {
        if self.string == Some(true) {
            (self.string, self.candidate) = (Some(false), None);
            return 1;
        }
        let end = memchr::memchr2(b'"', b'\\', rest);
        let text = &rest[..end.unwrap_or(rest.len())];
        let wanted = self.path.get(self.within).copied().unwrap_or_default();
        self.candidate = self.candidate.and_then(|equal| {
            let is_equal = wanted.get(equal..).is_some_and(|wanted| wanted.starts_with(text));
            is_equal.then_some(equal + text.len())
        });
        match end.map(|end| rest[end]) {
            Some(b'"') => {
                self.string = None;
                self.found = self.candidate.take() == Some(wanted.len());
            }
            Some(_) => self.string = Some(true),
            None => {}
        }
        text.len() + usize::from(end.is_some())
    }

    /// Reads a byte outside strings.
    fn token(&mut self, byte: u8) {
        // In the value of the last key found: the next key of the path stands here.
        let is_on_path = self.depth == self.within + 1;
        match byte {
            b'"' => {
                self.string = Some(false);
                self.candidate = (is_on_path && self.expects_key && !self.cuts).then_some(0);
            }
            b'{' | b'[' => {
                let leads = is_on_path && self.found && !self.cuts;
                let is_last = self.within + 1 == self.path.len();
                match byte {
                    b'{' if leads && !is_last => self.within += 1,
                    b'[' if leads && is_last => self.cuts = true,
                    _ => {}
                }
                self.depth += 1;
                self.expects_key = byte == b'{';
                self.found = false;
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.cuts {
                    self.cuts = self.depth > self.within + 1;
                } else if self.depth == self.within && self.within > 0 {
                    self.within -= 1;
                }
                (self.expects_key, self.found) = (false, false);
            }
            b',' if is_on_path => (self.expects_key, self.found) = (true, false),
            b':' => self.expects_key = false,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection, prelude::*, string::string_regex};
    use serde_json::{Map, Value, json};

    use super::*;

    /// Passes this text through a filter in parts of this many bytes.
    fn left(shape: Shape, text: &str, part: usize) -> String {
        let mut filter = Filter::new(shape);
        let parts = text.as_bytes().chunks(part.max(1));
        let left: Vec<u8> = parts.flat_map(|part| filter.pass(Bytes::copy_from_slice(part))).collect();
        String::from_utf8(left).unwrap()
    }

    #[test]
    fn answers_about_services_keep_the_entries() {
        for (path, expected) in [
            ("/api/v1/services?watch=true", None),
            ("/api/v1/namespaces/a/services", None),
            ("/proxied/api/v1/namespaces/a/services/b?dryRun=All", None),
            ("/api/v1/pods?watch=true", Some(Shape::Events)),
            ("/api/v1/namespaces/services", Some(Shape::Object)),
            ("/api/v1/namespaces/services/pods/services", Some(Shape::Object)),
            ("/apis/serving.knative.dev/v1/namespaces/a/services/b", Some(Shape::Object)),
        ] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            assert_eq!(Shape::of(&request), expected, "{path}");
        }
    }

    #[test]
    fn the_entries_at_the_place_of_the_shape_are_removed_and_no_others() {
        let entries = json!([{"manager": "a]\"}", "fieldsV1": {"f:spec": {"k:{\"a\":[]}": {}}}}, {}]);
        let object = |entries: Value| json!({"kind": "A", "metadata": {"managedFields": entries, "name": "a"}});
        let event = |entries: Value| json!({"type": "ADDED", "object": object(entries)});
        let text = |value: Value| value.to_string();
        for (what, shape, sent, expected) in [
            ("an object", Shape::Object, text(object(entries.clone())), text(object(Value::Null))),
            ("an event", Shape::Events, text(event(entries.clone())), text(event(Value::Null))),
            (
                "several events",
                Shape::Events,
                format!("{}\n{}\n", event(entries.clone()), event(entries.clone())),
                format!("{}\n{}\n", event(Value::Null), event(Value::Null)),
            ),
            ("no entries", Shape::Object, text(object(json!([]))), text(object(Value::Null))),
            ("no list", Shape::Object, text(object(json!({"a": [1]}))), text(object(json!({"a": [1]})))),
            (
                "white space",
                Shape::Object,
                "{ \"metadata\" : { \"managedFields\" : [ 1 , [ 2 ] ] } }".to_owned(),
                "{ \"metadata\" : { \"managedFields\" : null } }".to_owned(),
            ),
        ] {
            for part in 1..=sent.len() {
                assert_eq!(left(shape, &sent, part), expected, "{what}, in parts of {part} bytes");
            }
        }
        for (what, shape, sent) in [
            ("an object within an object", Shape::Object, json!({"spec": object(entries.clone())})),
            ("an object in a list", Shape::Object, json!({"items": [object(entries.clone())]})),
            ("an event in place of an object", Shape::Object, event(entries.clone())),
            ("an object in place of an event", Shape::Events, object(entries.clone())),
            ("elsewhere in metadata", Shape::Object, json!({"metadata": {"a": {"managedFields": entries.clone()}}})),
            (
                "the key as a value",
                Shape::Object,
                json!({"metadata": {"a": ["managedFields", [1]], "b": "managedFields"}}),
            ),
            ("a longer key", Shape::Object, json!({"metadata": {"managedFieldsToo": [1], "managed": [1]}})),
            ("a list", Shape::Object, json!(["metadata", {"managedFields": [1]}])),
        ] {
            assert_eq!(left(shape, &sent.to_string(), 3), sent.to_string(), "{what}");
        }
    }

    /// JSON in which the keys of the path are frequent.
    fn value() -> impl Strategy<Value = Value> {
        let text = || string_regex("[a\\\\\"{}\\[\\],:é]{0,4}").unwrap();
        let key = prop_oneof![
            Just("metadata".to_owned()),
            Just("managedFields".to_owned()),
            Just("object".to_owned()),
            text(),
        ];
        let leaf = prop_oneof![Just(Value::Null), text().prop_map(Value::from), key.clone().prop_map(Value::from)];
        leaf.prop_recursive(6, 60, 4, move |inner| {
            prop_oneof![
                collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                collection::btree_map(key.clone(), inner, 0..4)
                    .prop_map(|map| Value::from(map.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_left_is_the_same_value_without_the_list(
            values in collection::vec(value(), 1..3),
            part in 1..20usize,
            is_event: bool,
        ) {
            let (shape, at) = if is_event {
                (Shape::Events, "/object/metadata/managedFields")
            } else {
                (Shape::Object, "/metadata/managedFields")
            };
            let lines = |values: &[Value]| values.iter().map(|value| format!("{value}\n")).collect::<String>();
            let sent = lines(&values);
            let expected: Vec<Value> = values
                .into_iter()
                .map(|mut value| {
                    if let Some(list @ Value::Array(_)) = value.pointer_mut(at) {
                        *list = Value::Null;
                    }
                    value
                })
                .collect();
            prop_assert_eq!(left(shape, &sent, part), lines(&expected));
        }
    }
}
