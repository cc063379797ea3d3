//! Decoding of bodies: JSON against a schema, with the reports of strict validation (specification/apiserver.md 2, 14).
//!
//! A wrong type is an error. Unknown and duplicate fields are dropped and reported, in the order of the document; the
//! caller decides about them (`fieldValidation`). Quantities, times and base64 are normalised as in Kubernetes; `null`
//! and values that Go omits because they are empty are dropped. [`complete`] adds what Go prints although it was not
//! set.

mod bytes;
mod complete;
mod syntax;
mod time;
mod walk;

use serde_json::Value;

use crate::schema::{SchemaId, Table};

pub use self::{
    complete::complete,
    time::{micro_time, time},
};

/// No more strict errors than this are collected from one body.
pub const STRICT_ERRORS_MAX: usize = 100;

/// An object that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The object without unknown fields.
    pub value: Value,
    /// `unknown field "spec.foo"` and `duplicate field "metadata.name"`, each once.
    pub strict: Vec<String>,
}

/// Reason why a body is not an object of its kind. The text follows `ConfigMap in version "v1" cannot be handled as a
/// ConfigMap: `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It is not JSON, or nested deeper than 128 levels.
    #[error("{0}")]
    Syntax(String),
    /// The first value that has the wrong type.
    #[error("{0}")]
    Type(String),
}

/// Reads a body as an object of a schema.
///
/// # Errors
/// If it is not JSON, or a value is of the wrong type.
pub fn json(bytes: &[u8], table: &Table, schema: SchemaId) -> Result<Decoded, DecodeError> {
    let mut source = serde_json::Deserializer::from_slice(bytes);
    let walked = walk::typed(&mut source, table, schema, walk::Dialect::Json);
    let walked = walked.and_then(|walked| source.end().map(|()| walked));
    walked.map_err(|error| syntax(bytes, &error))?.finish()
}

/// Decodes JSON that was parsed before, such as a YAML body; unknown fields are reported in alphabetical order.
///
/// # Errors
/// A value has the wrong type.
pub fn value(value: Value, table: &Table, schema: SchemaId) -> Result<Decoded, DecodeError> {
    parsed(value, table, schema, walk::Dialect::Json)
}

/// Decodes the result of a strategic merge patch, with Kubernetes' other messages for it (`unrecognized type: int32`).
///
/// # Errors
/// A value has the wrong type.
pub fn patched(value: Value, table: &Table, schema: SchemaId) -> Result<Decoded, DecodeError> {
    let mut decoded = parsed(value, table, schema, walk::Dialect::Unstructured)?;
    decoded.strict.sort();
    Ok(decoded)
}

fn parsed(value: Value, table: &Table, schema: SchemaId, dialect: walk::Dialect) -> Result<Decoded, DecodeError> {
    let walked = walk::typed(value, table, schema, dialect);
    walked.map_err(|error| DecodeError::Syntax(error.to_string()))?.finish()
}

/// Decodes any JSON, such as a patch or a custom resource, and reports duplicate fields only.
///
/// # Errors
/// The body is not JSON.
pub fn untyped(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let mut source = serde_json::Deserializer::from_slice(bytes);
    let walked = walk::any(&mut source);
    let walked = walked.and_then(|walked| source.end().map(|()| walked));
    walked.map_err(|error| syntax(bytes, &error))?.finish()
}

/// `strict decoding error: unknown field "a", duplicate field "b"`.
pub fn strict_message(errors: &[String]) -> String {
    format!("strict decoding error: {}", errors.join(", "))
}

/// Translates the parser's error into Go's.
fn syntax(bytes: &[u8], error: &serde_json::Error) -> DecodeError {
    let text = syntax::explain(bytes).unwrap_or_else(|| {
        // Go accepts it as JSON: the cause is its nesting, or a text that is not UTF-8.
        if error.to_string().starts_with("recursion") { "exceeded max depth".to_owned() } else { error.to_string() }
    });
    DecodeError::Syntax(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{arbitrary, builtin};

    fn kind(group: &str, kind: &str) -> SchemaId {
        builtin::table().kind(group, "v1", kind).expect(kind)
    }

    fn read(group: &str, name: &str, text: &str) -> Result<Decoded, DecodeError> {
        json(text.as_bytes(), builtin::table(), kind(group, name))
    }

    #[test]
    fn strict_errors_in_document_order() {
        let text = r#"{"kind":"ConfigMap","metadata":{"zoo":1,"name":"a","name":"b"},"foo":{"x":1,"x":2},
            "data":{"a":"1","a":"2"},"Data":{},"foo":2}"#;
        let got = read("", "ConfigMap", text).expect("an object");
        assert_eq!(
            got.strict,
            [
                r#"unknown field "metadata.zoo""#,
                r#"duplicate field "metadata.name""#,
                r#"unknown field "foo""#,
                r#"duplicate field "data.a""#,
                r#"unknown field "Data""#,
            ]
        );
        assert_eq!(got.value, json!({"kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"a": "2"}}));
        let deep = r#"{"spec":{"template":{"spec":{"containers":[{"name":"c"},{"foo":1}]}}}}"#;
        let got = read("apps", "Deployment", deep).expect("an object");
        assert_eq!(got.strict, [r#"unknown field "spec.template.spec.containers[1].foo""#]);
    }

    #[test]
    fn wrong_types() {
        for (group, name, text, want) in [
            (
                "",
                "ConfigMap",
                r#"{"data":{"a":1}}"#,
                "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            ),
            (
                "",
                "ConfigMap",
                r#"{"data":[]}"#,
                "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
            ),
            (
                "",
                "ConfigMap",
                r#"{"metadata":"x"}"#,
                "json: cannot unmarshal string into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
            ),
            (
                "",
                "ConfigMap",
                r#"{"immutable":"x"}"#,
                "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool",
            ),
            ("", "ConfigMap", "[]", "json: cannot unmarshal array into Go value of type v1.ConfigMap"),
            (
                "apps",
                "Deployment",
                r#"{"spec":{"replicas":"3"}}"#,
                "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                "apps",
                "Deployment",
                r#"{"spec":{"replicas":1.5}}"#,
                "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                "apps",
                "Deployment",
                r#"{"spec":{"replicas":3000000000}}"#,
                "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                "apps",
                "Deployment",
                r#"{"spec":{"template":{"spec":{"containers":{}}}}}"#,
                "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
            ),
            ("", "Secret", r#"{"data":{"a":"YWJj!"}}"#, "illegal base64 data at input byte 4"),
            (
                "",
                "ResourceQuota",
                r#"{"spec":{"hard":{"cpu":"abc"}}}"#,
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
            (
                "",
                "Service",
                r#"{"spec":{"ports":[{"targetPort":true}]}}"#,
                "json: cannot unmarshal bool into Go value of type int32",
            ),
        ] {
            assert_eq!(read(group, name, text), Err(DecodeError::Type(want.to_owned())), "{text}");
        }
        for (text, want) in [("", "unexpected end of JSON input"), ("{", "unexpected end of JSON input")] {
            assert_eq!(read("", "ConfigMap", text), Err(DecodeError::Syntax(want.to_owned())), "{text}");
        }
        for (text, want) in [
            ("{} {}", "invalid character '{' after top-level value"),
            ("{]", "invalid character ']' looking for beginning of object key string"),
        ] {
            assert_eq!(read("", "ConfigMap", text), Err(DecodeError::Syntax(want.to_owned())), "{text}");
        }
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(untyped(deep.as_bytes()), Err(DecodeError::Syntax("exceeded max depth".to_owned())));
    }

    #[test]
    fn wrong_types_after_a_strategic_patch() {
        for (object, want) in [
            (json!({"spec": {"replicas": "x"}}), "unrecognized type: int32"),
            (json!({"spec": {"paused": "x"}}), "unrecognized type: bool"),
            (json!({"spec": {"replicas": 1.5}}), "cannot convert float64 to int32"),
            (json!({"metadata": {"name": 1}}), "cannot convert int64 to string"),
            (json!({"metadata": {"name": true}}), "unrecognized type: string"),
            (json!({"metadata": {"labels": []}}), "cannot restore map from slice"),
            (json!({"metadata": 1}), "cannot restore struct from: int64"),
            (json!({"spec": {"template": {"spec": {"containers": {}}}}}), "cannot restore slice from map"),
        ] {
            let got = patched(object.clone(), builtin::table(), kind("apps", "Deployment"));
            assert_eq!(got, Err(DecodeError::Type(want.to_owned())), "{object}");
        }
        let odd = json!({"spec": {"replicas": 2.0, "b": 1}, "a": 1});
        let got = patched(odd, builtin::table(), kind("apps", "Deployment")).expect("an object");
        assert_eq!(got.strict, [r#"unknown field "a""#, r#"unknown field "spec.b""#]);
        assert_eq!(got.value, json!({"spec": {"replicas": 2}}));
    }

    #[test]
    fn normal_forms() {
        for (group, name, object, want) in [
            ("", "ConfigMap", json!({"data": {"a": null}, "immutable": null}), json!({"data": {"a": ""}})),
            (
                "",
                "ConfigMap",
                json!({"data": {}, "metadata": {"labels": {}, "finalizers": []}}),
                json!({"metadata": {}}),
            ),
            ("", "ConfigMap", json!({"metadata": {"creationTimestamp": null}}), json!({"metadata": {}})),
            (
                "",
                "ConfigMap",
                json!({"metadata": {"creationTimestamp": "2024-01-02T03:04:05.6+01:00"}}),
                json!({"metadata": {"creationTimestamp": "2024-01-02T02:04:05Z"}}),
            ),
            ("", "Secret", json!({"data": {"a": "YW\nJj", "b": ""}}), json!({"data": {"a": "YWJj", "b": ""}})),
            (
                "",
                "ResourceQuota",
                json!({"spec": {"hard": {"cpu": "1000m", "memory": 1024}}}),
                json!({"spec": {"hard": {"cpu": "1", "memory": "1024"}}}),
            ),
            ("rbac.authorization.k8s.io", "Role", json!({"rules": []}), json!({"rules": []})),
            (
                "coordination.k8s.io",
                "Lease",
                json!({"spec": {"renewTime": "2024-01-02T03:04:05Z"}}),
                json!({"spec": {"renewTime": "2024-01-02T03:04:05.000000Z"}}),
            ),
        ] {
            let got = value(object.clone(), builtin::table(), kind(group, name)).expect("an object");
            assert_eq!(got.value, want, "{object}");
            assert_eq!(got.strict, [""; 0], "{object}");
        }
    }

    proptest! {
        #[test]
        fn decoding_twice_is_decoding_once(object in arbitrary::json(), which in 0..4usize) {
            let (group, name) = [("apps", "Deployment"), ("", "Service"), ("", "ConfigMap"), ("", "Pod")][which];
            let object = json!({"metadata": object, "spec": object, "data": object, "status": object});
            if let Ok(once) = value(object.clone(), builtin::table(), kind(group, name)) {
                let twice = value(once.value.clone(), builtin::table(), kind(group, name)).expect("it was read once");
                prop_assert_eq!(&twice.value, &once.value);
                prop_assert_eq!(twice.strict, Vec::<String>::new());
                let text = read(group, name, &object.to_string()).expect("the same object");
                prop_assert_eq!(text.value, once.value);
            }
            let _ = patched(object, builtin::table(), kind(group, name));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = json(&bytes, builtin::table(), kind("", "Pod"));
            let _ = untyped(&bytes);
        }
    }
}
