//! Content that one writer sets whole in an object whose other fields belong to others: a three-way merge of what the
//! writer set last, what it sets now and the live object (specification/propagation.md 13.3).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    alternatives, merge,
    path::Element,
    set::Set,
    typed::{Ref, Shape},
};
use crate::builtin;

type Members = serde_json::Map<String, Value>;

/// Merges objects of one kind. Lists of built-in kinds merge by the keys of server-side apply; in all others, lists are
/// replaced.
#[derive(Clone, Copy)]
pub struct ThreeWay<'t>(Ref<'t>);

/// The fields that a writer set, with a bounded form on the wire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// All of them.
    fields: Set,
    /// Those that had the value that a server sets anyway.
    defaults: Set,
    /// Levels that are recorded; everything below the last one counts as the writer's.
    depth: Option<usize>,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    fields: Value,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    defaults: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    depth: Option<usize>,
}

impl Record {
    /// The record as JSON with fields in the form of `managedFields`, in at most `bytes` bytes: levels that do not fit
    /// are left out.
    #[must_use]
    pub fn print(&self, bytes: usize) -> String {
        let mut record = self.clone();
        loop {
            let defaults = if record.defaults.is_empty() { Value::Null } else { record.defaults.to_fields_v1() };
            let wire = Wire { fields: record.fields.to_fields_v1(), defaults, depth: record.depth };
            let text = serde_json::to_string(&wire).expect("values of JSON are serializable");
            let depth = record.depth.unwrap_or_else(|| record.fields.depth());
            if text.len() <= bytes || depth <= 1 {
                return text;
            }
            let depth = depth - 1;
            record =
                Self { fields: record.fields.cut(depth), defaults: record.defaults.within(depth), depth: Some(depth) };
        }
    }

    /// Reads a record; `None` if it is none.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let wire: Wire = serde_json::from_str(text).ok()?;
        let fields = Set::from_fields_v1(&wire.fields).ok()?;
        let defaults = Set::from_fields_v1(&wire.defaults).ok()?;
        Some(Self { fields, defaults, depth: wire.depth })
    }
}

impl ThreeWay<'static> {
    /// For objects of this kind.
    #[must_use]
    pub fn of(group: &str, version: &str, kind: &str) -> Self {
        let table = builtin::table();
        Self(match table.kind(group, version, kind) {
            Some(schema) => Ref::of(table, schema),
            None => Ref::deduced(table),
        })
    }
}

impl ThreeWay<'_> {
    /// The fields of `content`. `is_default` tells of a field of an object, by the name of what has the object, the
    /// object and the name of the field, that a server sets the field to this value if it is missing.
    #[must_use]
    pub fn record(&self, content: &Value, is_default: impl Fn(&str, &Members, &str) -> bool) -> Record {
        let of = self.fitting(content);
        let mut defaults = Set::default();
        find_defaults(of, content, "", &is_default, &mut Vec::new(), &mut defaults);
        Record { fields: of.fields(content), defaults, depth: None }
    }

    /// The live object without the fields of `last` that `now` does not have. An object with fields goes whole if none
    /// of its fields is left in `now`, and so does an item of a list; keys that others set in maps stay.
    #[must_use]
    pub fn without(&self, live: &Value, last: &Record, now: &Record) -> Value {
        let of = self.fitting(live);
        let below = if last.depth.is_some() { of.fields(live) } else { Set::default() };
        let cut = Cut { depth: last.depth, live: &below };
        object(merge::remove(of, live, &gone(of, &last.fields, &now.fields, cut)))
    }

    /// The object with `content`, which `now` records. A default is set if the field is missing, or if `last` had
    /// another value there. Where `content` has one of several fields that exclude each other, the object loses the
    /// others.
    #[must_use]
    pub fn merge(&self, object: &Value, content: &Value, last: &Record, now: &Record) -> Value {
        let of = self.fitting(content);
        let of = if of.misfits(object, true).is_empty() { of } else { untyped() };
        let kept = kept(of, &now.defaults, (&last.fields, &last.defaults), Some(object));
        let left: Value;
        let ours = if kept.is_empty() {
            content
        } else {
            left = self::object(merge::remove(of, content, &kept));
            &left
        };
        let excluded = alternatives::excluded(of, ours, Some(object), "");
        if excluded.is_empty() {
            return merge::merge(of, object, ours);
        }
        merge::merge(of, &self::object(merge::remove(of, object, &excluded)), ours)
    }

    /// The type, unless the value does not fit it: then lists are replaced, and a server says what is wrong.
    fn fitting(&self, value: &Value) -> Ref<'_> {
        if self.0.misfits(value, false).is_empty() { self.0 } else { untyped() }
    }
}

fn untyped() -> Ref<'static> {
    Ref::deduced(builtin::table())
}

fn object(value: Value) -> Value {
    if value.is_null() { Value::Object(Members::new()) } else { value }
}

/// End of a record that has not all levels.
#[derive(Clone, Copy)]
struct Cut<'s> {
    /// Levels from here to the end.
    depth: Option<usize>,
    /// Fields of the live object from here.
    live: &'s Set,
}

/// The fields that have to go.
fn gone(of: Ref<'_>, last: &Set, now: &Set, cut: Cut<'_>) -> Set {
    let none = Set::default();
    let mut out = Set::default();
    for element in last.members.difference(&now.members) {
        let Some(set) = now.children.get(element) else {
            out.members.insert(element.clone());
            continue;
        };
        if cut.depth == Some(1)
            && let Some(live) = cut.live.children.get(element)
        {
            out.children.insert(element.clone(), live.difference(set));
        }
    }
    for (element, last) in &last.children {
        let below = of.below(element);
        // Metadata has maps with keys of others, and nothing that is invalid without the rest.
        let goes_whole = below.is_struct() && *element != Element::field("metadata");
        match now.children.get(element) {
            None if goes_whole && !now.members.contains(element) => drop(out.members.insert(element.clone())),
            now => {
                let live = cut.live.children.get(element).unwrap_or(&none);
                let cut = Cut { depth: cut.depth.map(|depth| depth.saturating_sub(1)), live };
                let rest = gone(below, last, now.unwrap_or(&none), cut);
                if !rest.is_empty() {
                    out.children.insert(element.clone(), rest);
                }
            }
        }
    }
    out
}

/// The defaults for which the object has a value: they are not the writer's, unless it set another value last. Of what
/// was set last, `fields` has everything and `same` the defaults.
fn kept(of: Ref<'_>, defaults: &Set, (fields, same): (&Set, &Set), object: Option<&Value>) -> Set {
    let was_set = |element: &Element| fields.members.contains(element) || fields.children.contains_key(element);
    let is_left = |element: &&Element| same.members.contains(element) || !was_set(element);
    let has = |element: &&Element| of.find(object, element).is_some_and(|value| !value.is_null());
    let none = Set::default();
    let members = defaults.members.iter().filter(is_left).filter(has).cloned().collect();
    let mut out = Set { members, ..Set::default() };
    for (element, defaults) in &defaults.children {
        let at = (fields.children.get(element).unwrap_or(&none), same.children.get(element).unwrap_or(&none));
        let below = kept(of.below(element), defaults, at, of.find(object, element));
        if !below.is_empty() {
            out.children.insert(element.clone(), below);
        }
    }
    out
}

fn find_defaults(
    of: Ref<'_>,
    value: &Value,
    parent: &str,
    is_default: &impl Fn(&str, &Members, &str) -> bool,
    path: &mut Vec<Element>,
    out: &mut Set,
) {
    match (of.shape(Some(value)), value) {
        (Shape::Map(map), Value::Object(members)) if !map.atomic => {
            for (name, member) in members {
                let Some(of) = map.member(name) else { continue };
                path.push(Element::field(name));
                if map.is_field(name) && is_default(parent, members, name) {
                    out.insert(path);
                } else {
                    find_defaults(of, member, name, is_default, path, out);
                }
                path.pop();
            }
        }
        (Shape::List(list), Value::Array(items)) => {
            for item in items {
                let Ok(element) = list.element(item) else { continue };
                path.push(element);
                find_defaults(list.item, item, parent, is_default, path, out);
                path.pop();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Of the tests: the default of `strategy` as a whole, and of `dnsPolicy`.
    fn is_default(_: &str, members: &Members, name: &str) -> bool {
        match name {
            "strategy" => members[name] == json!({"type": "RollingUpdate"}),
            "dnsPolicy" => members[name] == "ClusterFirst",
            _ => false,
        }
    }

    fn merged(of: ThreeWay<'_>, last: &Value, content: &Value, live: &Value) -> Value {
        let read = |content: &Value| {
            let record = of.record(content, is_default);
            let text = record.print(usize::MAX);
            assert_eq!(Record::read(&text).as_ref(), Some(&record), "{text}");
            record
        };
        let (last, now) = (read(last), read(content));
        let rest = of.without(live, &last, &now);
        of.merge(&rest, content, &last, &now)
    }

    /// Without members that are null, which are as good as missing.
    fn clean(mut value: Value) -> Value {
        match &mut value {
            Value::Object(members) => {
                members.retain(|_, value| !value.is_null());
                members.values_mut().for_each(|value| *value = clean(value.take()));
            }
            Value::Array(items) => items.iter_mut().for_each(|value| *value = clean(value.take())),
            _ => {}
        }
        value
    }

    #[test]
    fn what_others_set_stays_and_what_the_writer_took_back_goes() {
        let pod = |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
        let notes = |notes: Value| json!({"spec": {"template": {"metadata": {"annotations": notes}}}});
        let spec = |spec: Value| json!({ "spec": spec });
        for (name, last, content, live, want) in [
            (
                "a value",
                spec(json!({"replicas": 1})),
                spec(json!({"replicas": 2})),
                spec(json!({"replicas": 1})),
                spec(json!({"replicas": 2})),
            ),
            (
                "a value that was changed",
                spec(json!({"replicas": 2})),
                spec(json!({"replicas": 2})),
                spec(json!({"replicas": 9})),
                spec(json!({"replicas": 2})),
            ),
            (
                "a field of others",
                spec(json!({})),
                spec(json!({"replicas": 2})),
                spec(json!({"paused": true})),
                spec(json!({"replicas": 2, "paused": true})),
            ),
            (
                "a field that left",
                spec(json!({"replicas": 1, "paused": true})),
                spec(json!({"replicas": 1})),
                spec(json!({"replicas": 1, "paused": true})),
                spec(json!({"replicas": 1})),
            ),
            (
                "a key of others in a map",
                notes(json!({"ours": "1", "gone": "1"})),
                notes(json!({"ours": "2"})),
                notes(json!({"ours": "1", "gone": "1", "restartedAt": "t"})),
                notes(json!({"ours": "2", "restartedAt": "t"})),
            ),
            (
                "the last key of ours in a map",
                notes(json!({"gone": "1"})),
                json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}),
                notes(json!({"gone": "1", "restartedAt": "t"})),
                json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}, "annotations": {"restartedAt": "t"}}}}}),
            ),
            (
                "metadata of which nothing of ours is left",
                notes(json!({"gone": "1"})),
                json!({"spec": {"template": {"spec": {"dnsPolicy": "None"}}}}),
                notes(json!({"gone": "1", "restartedAt": "t"})),
                json!({"spec": {"template": {"metadata": {"annotations": {"restartedAt": "t"}}, "spec": {"dnsPolicy": "None"}}}}),
            ),
            (
                "a container of others",
                pod(json!([{"name": "a", "image": "1"}])),
                pod(json!([{"name": "a", "image": "2"}])),
                pod(json!([{"name": "a", "image": "1", "stdin": true}, {"name": "proxy"}])),
                pod(json!([{"name": "a", "image": "2", "stdin": true}, {"name": "proxy"}])),
            ),
            (
                "a container that left, with all in it",
                pod(json!([{"name": "a"}, {"name": "b", "image": "1"}])),
                pod(json!([{"name": "a"}])),
                pod(json!([{"name": "a"}, {"name": "b", "image": "1", "stdin": true}])),
                pod(json!([{"name": "a"}])),
            ),
            (
                "an object that left, with defaults in it",
                pod(json!([{"name": "a", "livenessProbe": {"exec": {"command": ["x"]}}}])),
                pod(json!([{"name": "a"}])),
                pod(json!([{"name": "a", "livenessProbe": {"exec": {"command": ["x"]}, "periodSeconds": 10}}])),
                pod(json!([{"name": "a"}])),
            ),
            (
                "one of two alternatives",
                json!({"spec": {"template": {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}}}),
                json!({"spec": {"template": {"spec": {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}}}}),
                json!({"spec": {"template": {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}}}),
                json!({"spec": {"template": {"spec": {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}}}}),
            ),
            (
                "a list without keys",
                pod(json!([{"name": "a", "args": ["1", "2"]}])),
                pod(json!([{"name": "a", "args": ["1"]}])),
                pod(json!([{"name": "a", "args": ["1", "2", "theirs"]}])),
                pod(json!([{"name": "a", "args": ["1"]}])),
            ),
            (
                "the order of a list",
                pod(json!([{"name": "a"}, {"name": "b"}])),
                pod(json!([{"name": "b"}, {"name": "a"}])),
                pod(json!([{"name": "a"}, {"name": "b"}])),
                pod(json!([{"name": "b"}, {"name": "a"}])),
            ),
            (
                "keys that are there twice",
                pod(json!([{"name": "a"}, {"name": "a"}])),
                pod(json!([{"name": "a"}, {"name": "a"}])),
                pod(json!([{"name": "x"}])),
                pod(json!([{"name": "a"}, {"name": "a"}])),
            ),
            (
                "a default that others replaced",
                spec(json!({"strategy": {"type": "RollingUpdate"}})),
                spec(json!({"strategy": {"type": "RollingUpdate"}})),
                spec(json!({"strategy": {"type": "Recreate"}})),
                spec(json!({"strategy": {"type": "Recreate"}})),
            ),
            (
                "a default after another value",
                spec(json!({"strategy": {"type": "Recreate"}})),
                spec(json!({"strategy": {"type": "RollingUpdate"}})),
                spec(json!({"strategy": {"type": "Recreate"}})),
                spec(json!({"strategy": {"type": "RollingUpdate"}})),
            ),
            (
                "another value after a default",
                spec(json!({"strategy": {"type": "RollingUpdate"}})),
                spec(json!({"strategy": {"type": "Recreate"}})),
                spec(json!({"strategy": {"type": "RollingUpdate"}})),
                spec(json!({"strategy": {"type": "Recreate"}})),
            ),
            (
                "a default that is missing",
                spec(json!({})),
                spec(json!({"strategy": {"type": "RollingUpdate"}})),
                spec(json!({})),
                spec(json!({"strategy": {"type": "RollingUpdate"}})),
            ),
            (
                "a default in an item",
                json!({"spec": {"template": {"spec": {"dnsPolicy": "None"}}}}),
                json!({"spec": {"template": {"spec": {"dnsPolicy": "ClusterFirst"}}}}),
                json!({"spec": {"template": {"spec": {"dnsPolicy": "None"}}}}),
                json!({"spec": {"template": {"spec": {"dnsPolicy": "ClusterFirst"}}}}),
            ),
        ] {
            let got = merged(ThreeWay::of("apps", "v1", "Deployment"), &last, &content, &live);
            assert_eq!(clean(got), want, "{name}");
        }
        let custom = ThreeWay::of("x.io", "v1", "X");
        for (name, last, content, live, want) in [
            (
                "fields of others",
                json!({"a": {"b": 1, "c": 1}}),
                json!({"a": {"b": 2}}),
                json!({"a": {"b": 1, "c": 1, "d": 1}, "e": 1}),
                json!({"a": {"b": 2, "d": 1}, "e": 1}),
            ),
            (
                "lists are the template's",
                json!({"l": [{"name": "a"}]}),
                json!({"l": [{"name": "b"}]}),
                json!({"l": [{"name": "a"}, {"name": "c"}]}),
                json!({"l": [{"name": "b"}]}),
            ),
            (
                "an object that left",
                json!({"a": {"b": 1}}),
                json!({"c": 1}),
                json!({"a": {"b": 1, "default": 1}}),
                json!({"c": 1}),
            ),
            ("another type", json!({"a": {"b": 1}}), json!({"a": 1}), json!({"a": {"b": 1, "d": 1}}), json!({"a": 1})),
            ("and back", json!({"a": 1}), json!({"a": {"b": 1}}), json!({"a": 1}), json!({"a": {"b": 1}})),
        ] {
            assert_eq!(clean(merged(custom, &last, &content, &live)), want, "{name}");
        }
        let config_map = ThreeWay::of("", "v1", "ConfigMap");
        let (ours, both) =
            (json!({"data": {"a": "1", "b": "1"}}), json!({"data": {"a": "1", "b": "1", "theirs": "1"}}));
        assert_eq!(
            clean(merged(config_map, &ours, &json!({"data": {"a": "1"}}), &both)),
            json!({"data": {"a": "1", "theirs": "1"}})
        );
        assert_eq!(clean(merged(config_map, &ours, &json!({}), &both)), json!({"data": {"theirs": "1"}}));
    }

    #[test]
    fn a_record_is_bounded_and_what_it_leaves_out_is_the_writers() {
        let of = ThreeWay::of("", "v1", "ConfigMap");
        let many = |keys: std::ops::Range<u32>| {
            let data: Members = keys.map(|key| (format!("key-{key}"), json!("1"))).collect();
            json!({ "data": data, "immutable": false })
        };
        let (last, now) = (of.record(&many(0..1000), |_, _, _| false), of.record(&many(1..1000), |_, _, _| false));
        let text = last.print(1024);
        assert!(text.len() <= 1024, "{text}");
        let last = Record::read(&text).unwrap();
        let mut live = many(0..1000);
        live["data"]["theirs"] = json!("1");
        live["binaryData"] = json!({"theirs": "AA=="});
        let mut want = many(1..1000);
        want["binaryData"] = json!({"theirs": "AA=="});
        let rest = of.without(&live, &last, &now);
        assert_eq!(of.merge(&rest, &many(1..1000), &last, &now), want);
        assert_eq!(Record::read("no JSON"), None);
        assert_eq!(Record::read(r#"{"fields":{"nocolon":{}}}"#), None);
    }

    proptest! {
        #[test]
        fn no_value_panics(live in crate::arbitrary::json(), last in crate::arbitrary::json(), content in crate::arbitrary::json(), built_in in any::<bool>(), bytes in 0..200_usize) {
            let of = if built_in { ThreeWay::of("apps", "v1", "Deployment") } else { ThreeWay::of("x.io", "v1", "X") };
            let (last, now) = (of.record(&last, is_default), of.record(&content, is_default));
            let last = Record::read(&last.print(bytes)).expect("what was printed can be read");
            let rest = of.without(&live, &last, &now);
            let once = of.merge(&rest, &content, &last, &now);
            let again = of.without(&once, &now, &now);
            prop_assert_eq!(clean(of.merge(&again, &content, &now, &now)), clean(once), "a second merge changes nothing");
        }
    }
}
