//! Generators of JSON for property tests.

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

/// A member name out of a few, so that documents and patches have members in common.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("a"),
        Just("b"),
        Just("name"),
        Just("metadata"),
        Just("spec"),
        Just("ports"),
        Just("containers"),
        Just("template"),
        Just("finalizers"),
        Just("$patch"),
        Just("$retainKeys"),
        Just("$setElementOrder/containers"),
        Just("$deleteFromPrimitiveList/finalizers"),
        Just("f:a"),
        Just("k:{\"name\":\"a\"}"),
        Just("."),
        Just("")
    ]
    .prop_map(str::to_owned)
}

/// A small JSON document, with words that have a meaning in patches.
pub(crate) fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..100i64).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|n| json!(n)),
        prop_oneof![Just("a"), Just("b"), Just("replace"), Just("delete"), Just("1"), Just("")].prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            vec((key(), inner), 0..5).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}
