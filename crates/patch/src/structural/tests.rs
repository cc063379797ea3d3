//! Behaviour of custom resources, most of it recorded from a kube-apiserver (specification/apiserver.md 18).

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{arbitrary, decode};

const PATH: &str = "spec.versions[0].schema.openAPIV3Schema";

fn schema_of(properties: Value) -> Structural {
    let root = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
    Structural::parse(&root, PATH).expect("a structural schema")
}

fn sample() -> Structural {
    schema_of(json!({
        "size": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3},
        "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "name": {"type": "string", "maxLength": 8, "pattern": "^[a-z]*$"},
        "opt": {"type": "string", "nullable": true},
        "port": {"x-kubernetes-int-or-string": true},
        "dt": {"type": "string", "format": "date-time"},
        "bin": {"type": "string", "format": "byte"},
        "i32": {"type": "integer", "format": "int32"},
        "ratio": {"type": "number", "minimum": 0.5, "exclusiveMaximum": true, "maximum": 2},
        "lst": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "maxItems": 3,
            "items": {"type": "object", "required": ["k"], "properties": {
                "k": {"type": "string"}, "v": {"type": "integer", "minimum": 0, "default": 1}}}
        },
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "string", "minLength": 1}},
        "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "known": {"type": "object", "properties": {"a": {"type": "string"}}},
            "list": {"type": "array", "x-kubernetes-preserve-unknown-fields": true,
                "items": {"type": "object", "properties": {"b": {"type": "object"}}}}}},
        "tpl": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        "deep": {"type": "object", "default": {}, "properties": {"x": {"type": "integer", "default": 7}}},
        "either": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    }))
}

fn errors(object: &Value) -> Vec<String> {
    sample().validate(object).iter().map(ToString::to_string).collect()
}

#[test]
fn messages_of_instances() {
    for (spec, want) in [
        (json!({"size": 0}), r#"spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"#),
        (json!({"size": 11}), r#"spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"#),
        (
            json!({"size": "x"}),
            r#"spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#,
        ),
        (
            json!({"name": 1}),
            r#"spec.name: Invalid value: "integer": spec.name in body must be of type string: "integer""#,
        ),
        (
            json!({"name": {}}),
            r#"spec.name: Invalid value: "object": spec.name in body must be of type string: "object""#,
        ),
        (json!({"mode": "z"}), r#"spec.mode: Unsupported value: "z": supported values: "a", "b""#),
        (json!({"name": "abcdefghi"}), "spec.name: Too long: may not be more than 8 bytes"),
        (json!({"name": "A"}), r#"spec.name: Invalid value: "A": spec.name in body should match '^[a-z]*$'"#),
        (json!({"dt": "nope"}), r#"spec.dt: Invalid value: "nope": spec.dt in body must be of type date-time: "nope""#),
        (json!({"dt": 5}), r#"spec.dt: Invalid value: "int64": spec.dt in body must be of type date-time: "int64""#),
        (json!({"bin": "!"}), r#"spec.bin: Invalid value: "!": spec.bin in body must be of type byte: "!""#),
        (
            json!({"i32": 3_000_000_000_i64}),
            r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.i32"#,
        ),
        (
            json!({"ratio": 0.25}),
            "spec.ratio: Invalid value: 0.25: spec.ratio in body should be greater than or equal to 0.5",
        ),
        (json!({"ratio": 2.0}), "spec.ratio: Invalid value: 2.0: spec.ratio in body should be less than 2"),
        (json!({"lst": [{}]}), "spec.lst[0].k: Required value"),
        (json!({"lst": [{"k": "a"}, {"k": "a"}]}), r#"spec.lst[1]: Duplicate value: {"k":"a"}"#),
        (
            json!({"lst": [{"k": "1"}, {"k": "2"}, {"k": "3"}, {"k": "4"}]}),
            "spec.lst: Too many: 4: must have at most 3 items",
        ),
        (json!({"set": ["x", "y", "x", "x"]}), r#"spec.set[2]: Duplicate value: "x""#),
        (
            json!({"map": {"q": ""}}),
            r#"spec.map.q: Invalid value: "": spec.map.q in body should be at least 1 chars long"#,
        ),
        (json!({"tpl": {"kind": "A"}}), "spec.tpl.apiVersion: Required value"),
        (
            json!({"port": 1.5}),
            r#"spec.port: Invalid value: "number": spec.port in body must be of type integer,string: "number""#,
        ),
        (
            json!({"name": null}),
            r#"spec.name: Invalid value: "null": spec.name in body must be of type string: "null""#,
        ),
    ] {
        assert_eq!(errors(&json!({"spec": spec})), [want], "{spec}");
    }
    for good in [
        json!({"size": 3.0, "opt": null, "port": 1, "dt": "2024-01-02T03:04:05Z", "ratio": 1}),
        json!({"port": "x", "i32": 2_147_483_647, "raw": {"any": [1]}, "tpl": {"kind": "A", "apiVersion": "v1", "x": 1}}),
        json!({"either": {"a": ""}}),
    ] {
        assert_eq!(errors(&json!({"spec": good})), [""; 0], "{good}");
    }
}

#[test]
fn junctors_name_no_field() {
    assert_eq!(
        errors(&json!({"spec": {"either": {}}})),
        [
            r#"<nil>: Invalid value: "": "spec.either" must validate one and only one schema (oneOf). Found none valid"#,
            "spec.either.a: Required value",
        ]
    );
    assert_eq!(
        errors(&json!({"spec": {"either": {"a": "", "b": ""}}})),
        [
            r#"<nil>: Invalid value: "": "spec.either" must validate one and only one schema (oneOf). Found 2 valid alternatives"#
        ]
    );
}

#[test]
fn unchanged_values_may_stay_invalid() {
    let schema = sample();
    let old = json!({"spec": {"size": 0, "lst": [{"k": "a", "v": -1}], "set": ["x", "x"]}});
    for (new, want) in [
        (json!({"spec": {"size": 0, "name": "b", "lst": [{"k": "a", "v": -1}], "set": ["x", "x", "y"]}}), &[][..]),
        (
            json!({"spec": {"size": -1}}),
            &["spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 1"],
        ),
        (json!({"spec": {"lst": [{"k": "b"}, {"k": "a", "v": -1}]}}), &[]),
        (
            json!({"spec": {"lst": [{"k": "b", "v": -1}]}}),
            &["spec.lst[0].v: Invalid value: -1: spec.lst[0].v in body should be greater than or equal to 0"],
        ),
    ] {
        let got: Vec<String> = schema.validate_update(&new, &old).errors.iter().map(ToString::to_string).collect();
        assert_eq!(got, want, "{new}");
    }
}

#[test]
fn unknown_fields_are_pruned() {
    let mut object = json!({
        "apiVersion": "t.io/v1", "kind": "Foo", "metadata": {"name": "a", "zzz": 1}, "status": {},
        "spec": {
            "size": 1, "bogus": {"a": 1}, "map": {"a": "b"}, "lst": [{"k": "a", "q": 1}],
            "raw": {"free": {"b": 1}, "known": {"a": "", "c": 1}, "list": [{"a": 1, "b": {"c": 1}}]}, "tpl": {"metadata": {"x": 1}, "y": 2},
        },
    });
    let dropped = sample().prune(&mut object);
    assert_eq!(dropped, ["spec.bogus", "spec.lst[0].q", "spec.raw.known.c", "spec.raw.list[0].b.c", "status"]);
    assert_eq!(
        object,
        json!({
            "apiVersion": "t.io/v1", "kind": "Foo", "metadata": {"name": "a", "zzz": 1},
            "spec": {
                "size": 1, "map": {"a": "b"}, "lst": [{"k": "a"}],
                "raw": {"free": {"b": 1}, "known": {"a": ""}, "list": [{"a": 1, "b": {}}]}, "tpl": {"metadata": {"x": 1}, "y": 2},
            },
        })
    );
}

#[test]
fn nulls_and_defaults() {
    let schema = sample();
    let mut object = json!({"spec": {"size": null, "name": null, "opt": null, "lst": [{"k": "a"}], "deep": null}});
    schema.drop_nulls(&mut object);
    schema.default(&mut object);
    assert_eq!(
        object,
        json!({"spec": {"size": 3, "mode": "a", "opt": null, "lst": [{"k": "a", "v": 1}], "deep": {"x": 7}}})
    );
}

#[test]
fn messages_of_schemas() {
    for (schema, want) in [
        (json!({"properties": {}}), &["{}.type: Required value: must not be empty at the root"][..]),
        (json!({"type": "string"}), &[r#"{}.type: Invalid value: "string": must be object at the root"#]),
        (json!({"type": "object", "nullable": true}), &["{}.nullable: Forbidden: nullable cannot be true at the root"]),
        (
            json!({"type": "object", "properties": {"a": {}}}),
            &["{}.properties[a].type: Required value: must not be empty for specified object fields"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array"}}}),
            &["{}.properties[a].items: Required value: must be specified"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {}}}}),
            &["{}.properties[a].items.type: Required value: must not be empty for specified array items"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}}}),
            &[
                "{}.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}}}),
            &[
                "{}.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "default": 1}}}),
            &[r#"{}.properties[a].default: Invalid value: "integer":  in body must be of type string: "integer""#],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "default": {"x": 1}}}}),
            &[r#"{}.properties[a].default: Invalid value: {"x":1}: must not have unknown fields"#],
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            &[
                "{}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "nope"}}}),
            &[
                r#"{}.properties[a].type: Unsupported value: "nope": supported values: "array", "boolean", "integer", "number", "object", "string""#,
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "$ref": "x"}}}),
            &["{}.properties[a].$ref: Forbidden: $ref is not supported"],
        ),
        (
            json!({"type": "object", "additionalProperties": true}),
            &["{}.additionalProperties: Forbidden: must not be used at the root"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "anyOf": [{"type": "string"}]}}}),
            &["{}.properties[a].anyOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (
            json!({"type": "object", "anyOf": [{"properties": {"a": {"minimum": 1}}}]}),
            &["{}.properties[a]: Required value: because it is defined in {}.anyOf[0].properties[a]"],
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
            &["{}.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
        ),
        (
            json!({"type": "object", "x-kubernetes-validations": [{"rule": " "}]}),
            &["{}.x-kubernetes-validations[0].rule: Required value: rule is not specified"],
        ),
        (
            json!({"type": "object", "x-kubernetes-validations": [{"rule": "true", "reason": "Nope"}]}),
            &[
                r#"{}.x-kubernetes-validations[0].reason: Unsupported value: "Nope": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired""#,
            ],
        ),
    ] {
        let got = Structural::parse(&schema, PATH).expect_err("not structural");
        let got: Vec<String> = got.iter().map(ToString::to_string).collect();
        let want: Vec<String> = want.iter().map(|text| text.replace("{}", PATH)).collect();
        assert_eq!(got, want, "{schema}");
    }
    let pattern = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}});
    let got = Structural::parse(&pattern, PATH).expect_err("no pattern");
    assert!(got[0].message.starts_with(r#"Invalid value: "(": must be a valid regular expression, but isn't: "#));
}

#[test]
fn structural_schemas_prune_and_validate() {
    let int_or_string = json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
    let in_all_of =
        json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}]});
    let metadata = json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}});
    for (schema, object, pruned, want) in [
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            json!({"a": {"b": 1}}),
            json!({"a": {"b": 1}}),
            &[][..],
        ),
        (
            json!({"type": "object", "properties": {"metadata": metadata}}),
            json!({"metadata": {"name": "abcdef"}, "a": 1}),
            json!({"metadata": {"name": "abcdef"}}),
            &["metadata.name: Too long: may not be more than 5 bytes"],
        ),
        (
            json!({"type": "object", "properties": {"p": int_or_string, "q": int_or_string}}),
            json!({"p": 1, "q": "80%", "r": 1}),
            json!({"p": 1, "q": "80%"}),
            &[],
        ),
        (
            json!({"type": "object", "properties": {"p": in_all_of, "q": {"x-kubernetes-int-or-string": true}}}),
            json!({"p": "a", "q": true}),
            json!({"p": "a", "q": true}),
            &[r#"q: Invalid value: "boolean": q in body must be of type integer,string: "boolean""#],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "description": "d", "format": "unknown"}}}),
            json!({"a": 1, "b": 2}),
            json!({"a": 1}),
            &[r#"a: Invalid value: "integer": a in body must be of type string: "integer""#],
        ),
    ] {
        let parsed = Structural::parse(&schema, PATH).expect("a structural schema");
        let mut kept = object.clone();
        parsed.prune(&mut kept);
        assert_eq!(kept, pruned, "{schema}");
        let errors: Vec<String> = parsed.validate(&kept).iter().map(ToString::to_string).collect();
        assert_eq!(errors, want, "{schema}");
    }
}

#[test]
fn depth_and_size_of_schemas_are_limited() {
    let mut deep = json!({"type": "object"});
    for _ in 0..DEPTH_MAX + 1 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    let got = Structural::parse(&deep, PATH).expect_err("too deep");
    assert!(got.iter().any(|error| error.message.contains("nest 64 levels deep")), "{got:?}");
    let wide: serde_json::Map<String, Value> =
        (0..NODES_MAX).map(|i| (format!("f{i}"), json!({"type": "string"}))).collect();
    assert!(Structural::parse(&json!({"type": "object", "properties": wide}), PATH).is_err());
}

#[test]
fn a_structural_schema_converts_to_a_table() {
    let kind = Gvk { group: "t.io".to_owned(), version: "v1".to_owned(), kind: "Foo".to_owned() };
    let (table, id) = sample().table(&kind);
    assert_eq!(table.kind("t.io", "v1", "Foo"), Some(id));
    let text = r#"{"metadata":{"name":"a","labels":{"a":"1"},"bogus":1},"spec":{"size":1,"bogus":1,"raw":{"free":1},
        "opt":null,"port":"x","lst":[{"k":"a"}]}}"#;
    let got = decode::json(text.as_bytes(), &table, id).expect("an object");
    assert_eq!(got.strict, [r#"unknown field "metadata.bogus""#, r#"unknown field "spec.bogus""#]);
    assert_eq!(
        got.value["spec"],
        json!({"size": 1, "raw": {"free": 1}, "opt": null, "port": "x", "lst": [{"k": "a"}]})
    );
}

proptest! {
    #[test]
    fn pruning_and_defaulting_twice_is_once(spec in arbitrary::json(), raw in arbitrary::json()) {
        let schema = sample();
        let mut object = json!({"spec": {"deep": spec, "lst": spec, "map": spec, "raw": raw, "tpl": raw, "size": spec}});
        for _ in 0..2 {
            schema.prune(&mut object);
            schema.drop_nulls(&mut object);
            schema.default(&mut object);
            let once = object.clone();
            prop_assert_eq!(schema.prune(&mut object), Vec::<String>::new());
            schema.drop_nulls(&mut object);
            schema.default(&mut object);
            prop_assert_eq!(&object, &once);
        }
        let mut errors = schema.validate_update(&object, &object).errors;
        errors.retain(|error| !error.field.starts_with("spec.tpl."));
        prop_assert_eq!(errors, Vec::new());
    }

    #[test]
    fn no_schema_and_no_object_panics(schema in arbitrary::json(), object in arbitrary::json()) {
        let _ = Structural::parse(&schema, PATH);
        let schema = json!({"type": "object", "properties": {"a": schema}});
        if let Ok(schema) = Structural::parse(&schema, PATH) {
            let _ = schema.validate(&object);
        }
    }
}
