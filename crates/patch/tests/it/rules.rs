//! CEL rules of schemas, with the answers of a real kube-apiserver v1.36 (specification/apiserver.md 18).

use ironclad_patch::structural::Structural;
use serde_json::{Value, json};

const PATH: &str = "spec.validation.openAPIV3Schema";

fn schema(spec: &Value) -> Structural {
    Structural::parse(&json!({"type": "object", "properties": {"spec": spec}}), PATH).expect("the schema is structural")
}

fn rules(rules: &Value, properties: &Value) -> Value {
    json!({"type": "object", "properties": properties, "x-kubernetes-validations": rules})
}

fn texts<E: ToString>(errors: &[E]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn invalid_rules_of_a_definition_are_rejected() {
    const ADVICE: &str = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";
    let (s, i) = (json!({"type": "string"}), json!({"type": "integer"}));
    let strings = |max: Option<u64>| match max {
        Some(max) => json!({"l": {"type": "array", "maxItems": max, "items": s}}),
        None => json!({"l": {"type": "array", "items": s}}),
    };
    let numbers = |max: Option<u64>| match max {
        Some(max) => json!({"l": {"type": "array", "maxItems": max, "items": i}}),
        None => json!({"l": {"type": "array", "items": i}}),
    };
    let wrong = |rule: &str, why: &str| {
        let shown = rule.replace('>', "\\u003e");
        let shown = format!(
            "{{\"Rule\":\"{shown}\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}}"
        );
        vec![format!("{PATH}.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {shown}: {why}")]
    };
    let at = format!("{PATH}.properties[spec].x-kubernetes-validations[0]");
    let costly = |factor: &str| {
        vec![
            format!("{at}.rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {ADVICE}"),
            format!(
                "{at}.rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            ),
            format!(
                "{PATH}: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of {factor} {ADVICE}"
            ),
        ]
    };
    let twice = "self.l.all(x, self.l.exists(y, x==y))";
    for (rule, properties, want) in [
        (
            json!({"rule": "self.a.b > 1"}),
            json!({"a": s}),
            wrong(
                "self.a.b > 1",
                "compilation failed: ERROR: <input>:1:7: type 'string' does not support field selection\n | self.a.b > 1\n | ......^",
            ),
        ),
        (
            json!({"rule": "self.nope > 1"}),
            json!({"a": s}),
            wrong(
                "self.nope > 1",
                "compilation failed: ERROR: <input>:1:5: undefined field 'nope'\n | self.nope > 1\n | ....^",
            ),
        ),
        (json!({"rule": "self.a"}), json!({"a": s}), wrong("self.a", "cel expression must evaluate to a bool")),
        (
            json!({"rule": "self.a > 1"}),
            json!({"a": s}),
            wrong(
                "self.a > 1",
                "compilation failed: ERROR: <input>:1:8: found no matching overload for '_>_' applied to '(string, int)'\n | self.a > 1\n | .......^",
            ),
        ),
        (json!({"rule": "self.l.all(x, x.size() > 1)"}), strings(None), vec![]),
        (json!({"rule": twice}), strings(None), costly("more than 100x")),
        (json!({"rule": twice}), numbers(None), costly("more than 100x")),
        (json!({"rule": twice}), numbers(Some(100)), vec![]),
        (json!({"rule": twice}), strings(Some(100)), costly("31.5x")),
        (json!({"rule": "self.a.matches('^a+$')"}), json!({"a": s}), vec![]),
        (json!({"rule": "self.a.contains(self.b)"}), json!({"a": s, "b": s}), costly("more than 100x")),
        (json!({"rule": "self.a == 'x'", "messageExpression": "string(self.n)"}), json!({"a": s, "n": i}), vec![]),
        (
            json!({"rule": "self.a == oldSelf.a", "fieldPath": ".zz"}),
            json!({"a": s}),
            vec![format!("{at}.fieldPath: Invalid value: \".zz\": must be a valid path")],
        ),
        (
            json!({"rule": "true", "optionalOldSelf": true}),
            json!({"a": s}),
            vec![format!("{at}.optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule")],
        ),
    ] {
        let schema = schema(&rules(&json!([rule]), &properties));
        assert_eq!(texts(&schema.check_rules(PATH)), want, "{rule}");
    }
    let adrift = json!({"type": "object", "properties": {"l": {"type": "array", "maxItems": 3, "items": {
        "type": "object", "properties": {"s": {"type": "string", "maxLength": 5}},
        "x-kubernetes-validations": [{"rule": "self.s == oldSelf.s"}]}}}});
    let list = format!("{PATH}.properties[spec].properties[l]");
    assert_eq!(
        texts(&schema(&adrift).check_rules(PATH)),
        [format!(
            "{list}.items.x-kubernetes-validations[0].rule: Invalid value: \"self.s == oldSelf.s\": oldSelf cannot be used on the \
             uncorrelatable portion of the schema within {list}"
        )]
    );
}

/// Applies each spec on top of the previous one, and compares the messages.
fn history(name: &str, spec: &Value, steps: &[(Value, &[&str])]) {
    let schema = schema(spec);
    assert_eq!(texts(&schema.check_rules(PATH)), Vec::<String>::new(), "{name}");
    let mut old: Option<Value> = None;
    for (spec, want) in steps {
        let object = json!({"spec": spec});
        let errors = match &old {
            Some(old) => schema.validate_update(&object, old).errors,
            None => schema.validate(&object),
        };
        assert_eq!(texts(&errors), *want, "{name}: {spec}");
        if errors.is_empty() {
            old = Some(object);
        }
    }
}

#[test]
fn rules_validate_objects() {
    let i = json!({"type": "integer"});
    let scalar = json!({"type": "object", "properties": {
        "imm": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "imm is immutable"}]},
        "n": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1"}]}}});
    history(
        "scalars",
        &scalar,
        &[
            (json!({"imm": "1", "n": 2}), &[]),
            (json!({"imm": "2", "n": 2}), &["spec.imm: Invalid value: \"2\": imm is immutable"]),
            (json!({"imm": "1", "n": 1}), &["spec.n: Invalid value: 1: failed rule: self > 1"]),
            (json!({"n": 3}), &[]),
        ],
    );
    let object = rules(
        &json!([
            {"rule": "self.a < self.b"},
            {"rule": "self.a != 7", "message": "seven", "reason": "FieldValueForbidden", "fieldPath": ".a"},
            {"rule": "self.a != 8", "messageExpression": "'a is ' + (self.a > 5 ? 'large' : 'small')"},
            {"rule": "self.a != 9", "messageExpression": "''", "message": "m", "reason": "FieldValueRequired", "fieldPath": ".a"},
            {"rule": "self.a != 10", "reason": "FieldValueDuplicate"},
        ]),
        &json!({"a": i, "b": i}),
    );
    history(
        "objects",
        &object,
        &[
            (json!({"a": 3, "b": 2}), &["spec: Invalid value: failed rule: self.a < self.b"]),
            (json!({"a": 7, "b": 20}), &["spec.a: Forbidden: seven"]),
            (json!({"a": 8, "b": 20}), &["spec: Invalid value: a is large"]),
            (json!({"a": 9, "b": 20}), &["spec.a: Required value: m"]),
            (json!({"a": 10, "b": 20}), &["spec: Duplicate value"]),
        ],
    );
    let runtime = rules(
        &json!([{"rule": "self.l[3] == 1"}, {"rule": "10 / self.a == 2", "message": "a must be 5"}]),
        &json!({"b": {"type": "integer", "x-kubernetes-validations": [{"rule": "10 / self > 1"}]}, "a": i, "l": {"type": "array", "maxItems": 10, "items": i}}),
    );
    history(
        "failures",
        &runtime,
        &[
            (
                json!({"a": 0, "b": 0, "l": [1]}),
                &[
                    "spec: Invalid value: \"object\": index out of bounds: 3 evaluating rule: self.l[3] == 1",
                    "spec: Invalid value: \"object\": division by zero evaluating rule: a must be 5",
                    "spec.b: Invalid value: \"integer\": division by zero evaluating rule: 10 / self > 1",
                ],
            ),
            (json!({"a": 5, "l": [1, 1, 1, 1]}), &[]),
        ],
    );
    let optional = rules(
        &json!([
            {"rule": "!oldSelf.hasValue() || oldSelf.value().a == self.a", "optionalOldSelf": true},
            {"rule": "oldSelf.?a.orValue(5) == 5", "optionalOldSelf": true},
        ]),
        &json!({"a": i}),
    );
    history(
        "an optional oldSelf",
        &optional,
        &[
            (json!({"a": 5}), &[]),
            (
                json!({"a": 6}),
                &["spec: Invalid value: failed rule: !oldSelf.hasValue() || oldSelf.value().a == self.a"],
            ),
        ],
    );
    let lists = json!({"type": "object", "properties": {
        "l": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
            "type": "object", "required": ["k"], "properties": {"k": {"type": "string", "maxLength": 5}, "v": i},
            "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "shrinks"}]}},
        "m": {"type": "object", "maxProperties": 3, "additionalProperties": {
            "type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]}}}});
    history(
        "items by their keys",
        &lists,
        &[
            (json!({"l": [{"k": "a", "v": 1}, {"k": "b", "v": 2}], "m": {"x": 1}}), &[]),
            (
                json!({"l": [{"k": "b", "v": 1}, {"k": "a", "v": 1}], "m": {"x": 1}}),
                &["spec.l[0]: Invalid value: shrinks"],
            ),
            (json!({"l": [], "m": {"x": 1, "x.y": 0}}), &["spec.m[x.y]: Invalid value: 0: failed rule: self > 0"]),
        ],
    );
    let skipped = rules(&json!([{"rule": "self.a < 5"}]), &json!({"a": {"type": "integer", "minimum": 2}}));
    history(
        "rules after the schema",
        &skipped,
        &[
            (json!({"a": 1}), &["spec.a: Invalid value: 1: spec.a in body should be greater than or equal to 2"]),
            (json!({"a": 7}), &["spec: Invalid value: failed rule: self.a < 5"]),
            (
                json!({"a": "x"}),
                &[
                    "spec.a: Invalid value: \"string\": spec.a in body must be of type integer: \"string\"",
                    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
                ],
            ),
        ],
    );
    let s = json!({"type": "string"});
    let names = rules(
        &json!([{"rule": "self.__namespace__ != 'x' && self.a__dash__b != 'x' && self.under_score != 'x'"}]),
        &json!({"namespace": s, "a-b": s, "under_score": s}),
    );
    history(
        "escaped names",
        &names,
        &[
            (json!({"namespace": "y", "a-b": "y", "under_score": "y"}), &[]),
            (
                json!({"namespace": "y", "a-b": "x", "under_score": "z"}),
                &[
                    "spec: Invalid value: failed rule: self.__namespace__ != 'x' && self.a__dash__b != 'x' && self.under_score != 'x'",
                ],
            ),
        ],
    );
    let times = rules(
        &json!([{"rule": "self.t > timestamp('2020-01-01T00:00:00Z')"}, {"rule": "self.d < duration('1h')"}]),
        &json!({"t": {"type": "string", "format": "date-time"}, "d": {"type": "string", "format": "duration"}}),
    );
    history(
        "times",
        &times,
        &[
            (json!({"t": "2021-01-01T00:00:00Z", "d": "30m"}), &[]),
            (
                json!({"t": "2019-01-01T00:00:00Z", "d": "2h"}),
                &[
                    "spec: Invalid value: failed rule: self.t > timestamp('2020-01-01T00:00:00Z')",
                    "spec: Invalid value: failed rule: self.d < duration('1h')",
                ],
            ),
        ],
    );
}

/// A kube-apiserver tolerates broken rules of unchanged values and warns of them.
#[test]
fn broken_rules_of_unchanged_values_are_warnings() {
    let above_one = json!([{"rule": "self > 1"}]);
    let number = json!({"type": "integer", "x-kubernetes-validations": above_one});
    let item = json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": number}});
    let strict = schema(&json!({"type": "object", "properties": {
        "a": number, "b": {"type": "integer"},
        "divided": {"type": "integer", "x-kubernetes-validations": [{"rule": "10 / self > 1"}]},
        "old": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1 && oldSelf > 0"}]},
        "map": {"type": "object", "additionalProperties": number},
        "list": {"type": "array", "items": number},
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.a > 1"}]},
    }}));
    let broken = |field: &str| vec![format!("spec.{field}: Invalid value: 0: failed rule: self > 1")];
    for (name, old, new, errors, warnings) in [
        ("unchanged", json!({"a": 0}), json!({"a": 0, "b": 1}), vec![], broken("a")),
        ("changed", json!({"a": 1}), json!({"a": 0}), broken("a"), vec![]),
        ("new", json!({}), json!({"a": 0}), broken("a"), vec![]),
        (
            "an unchanged value for which the rule fails",
            json!({"divided": 0}),
            json!({"divided": 0, "b": 1}),
            vec![
                "spec.divided: Invalid value: \"integer\": division by zero evaluating rule: 10 / self > 1".to_owned(),
            ],
            vec![],
        ),
        (
            "a rule that compares with oldSelf",
            json!({"old": 1}),
            json!({"old": 1, "b": 1}),
            vec!["spec.old: Invalid value: 1: failed rule: self > 1 && oldSelf > 0".to_owned()],
            vec![],
        ),
        (
            "a member of a changed map",
            json!({"map": {"x": 0}}),
            json!({"map": {"x": 0, "y": 2}}),
            vec![],
            broken("map[x]"),
        ),
        ("an item of a changed list", json!({"list": [0]}), json!({"list": [0, 2]}), broken("list[0]"), vec![]),
        ("an item of an unchanged list", json!({"list": [0]}), json!({"list": [0], "b": 1}), vec![], broken("list[0]")),
        (
            "an item with the same key",
            json!({"keyed": [{"k": "x", "v": 0}]}),
            json!({"keyed": [{"k": "y", "v": 2}, {"k": "x", "v": 0}]}),
            vec![],
            broken("keyed[1].v"),
        ),
        (
            "an object with a field that the schema does not describe counts as changed",
            json!({"free": {"a": 1, "more": 1}}),
            json!({"free": {"a": 1, "more": 1}, "b": 1}),
            vec!["spec.free: Invalid value: failed rule: self.a > 1".to_owned()],
            vec![],
        ),
        (
            "an unchanged object that the schema describes",
            json!({"free": {"a": 1}}),
            json!({"free": {"a": 1}, "b": 1}),
            vec![],
            vec!["spec.free: Invalid value: failed rule: self.a > 1".to_owned()],
        ),
    ] {
        let findings = strict.validate_update(&json!({"spec": new}), &json!({"spec": old}));
        assert_eq!((texts(&findings.errors), texts(&findings.ratcheted)), (errors, warnings), "{name}");
    }
    assert_eq!(texts(&strict.validate(&json!({"spec": {"a": 0}}))), broken("a"), "a new object");
}

/// A field that is an integer or a string has no static type: rules choose by `type()`.
#[test]
fn rules_of_integers_or_strings_choose_by_type() {
    let rule = "type(self) == string ? self.endsWith('%') : self > 0";
    let schema = schema(&json!({"type": "object", "properties": {"either": {
        "x-kubernetes-int-or-string": true, "maxLength": 10,
        "x-kubernetes-validations": [{"rule": rule, "message": "percent or positive"}, {"rule": "self != 'x%' || self > 3"}],
    }}}));
    assert_eq!(texts(&schema.check_rules(PATH)), Vec::<String>::new());
    let broken = |value: &str| vec![format!("spec.either: Invalid value: {value}: percent or positive")];
    for (value, want) in [
        (json!("50%"), vec![]),
        (json!(5), vec![]),
        (json!("50"), broken("\"50\"")),
        (json!(0), broken("0")),
        (
            json!("x%"),
            vec![
                "spec.either: Invalid value: \"\": 'no such overload': call arguments did not match a supported operator, \
                 function or macro signature for rule: self != 'x%' || self > 3"
                    .to_owned(),
            ],
        ),
    ] {
        assert_eq!(texts(&schema.validate(&json!({"spec": {"either": value}}))), want, "{value}");
    }
}

#[test]
fn rules_can_read_names_at_the_root_of_objects() {
    let metadata = json!({"type": "object"});
    for (rule, below, want) in [
        ("self.metadata.name.size() <= 4", "root", true),
        ("self.metadata.generateName == '' || self.kind == 'K'", "root", true),
        ("self.metadata.labels.size() == 0", "root", false),
        ("self.metadata.name.size() <= 4", "embedded", true),
        ("self.metadata.name.size() <= 4", "plain", false),
    ] {
        let rules = json!([{"rule": rule}]);
        let properties = json!({"metadata": metadata, "spec": {"type": "object"}});
        let schema = match below {
            "root" => json!({"type": "object", "properties": properties, "x-kubernetes-validations": rules}),
            _ => json!({"type": "object", "properties": {"spec": {
                "type": "object", "x-kubernetes-embedded-resource": below == "embedded", "properties": properties,
                "x-kubernetes-validations": rules,
            }}}),
        };
        let schema = Structural::parse(&schema, PATH).expect("the schema is structural");
        assert_eq!(schema.check_rules(PATH).is_empty(), want, "{rule} at {below}: {:?}", schema.check_rules(PATH));
    }
    let schema = json!({"type": "object", "properties": {"metadata": metadata},
        "x-kubernetes-validations": [{"rule": "self.metadata.name.size() <= 4"}]});
    let schema = Structural::parse(&schema, PATH).expect("the schema is structural");
    for (name, want) in [("four", 0), ("seven", 1)] {
        let object = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": name}});
        assert_eq!(schema.validate(&object).len(), want, "{name}");
    }
}
