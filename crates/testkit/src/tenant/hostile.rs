//! Values that reach outside of the tenant's namespace, or that are of no use to anybody.

use ironclad_seam::Stream;
use serde_json::{Value, json};

use super::{OWN_NAME, VICTIM};

/// Names, namespaces, kinds, paths, addresses and texts.
const TEXTS: [&str; 40] = [
    VICTIM,
    VICTIM,
    VICTIM,
    "kube-system",
    "default",
    "karmada-system",
    "karmada-cluster",
    "karmada-es-member1",
    "other/conf",
    "../other/conf",
    "../../namespaces/other/secrets/conf",
    "*",
    "",
    "member2",
    "Secret",
    "Namespace",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "Cluster",
    "Work",
    "rbac.authorization.k8s.io/v1",
    "work.karmada.io/v1alpha1",
    "cluster.karmada.io/v1alpha1",
    "policy.karmada.io/v1alpha1",
    "cluster-admin",
    "victim",
    "system:masters",
    "/metadata/namespace",
    "/metadata",
    "/",
    "/metadata/annotations/x",
    "/kind",
    "https://127.0.0.1:1/",
    "system:apiserver",
    "\u{0}",
    "用户\u{202e}",
    "{{.}}",
    "999999999999h",
    "-5m",
];

const NUMBERS: [i64; 9] = [0, -1, 1, 2, i64::MAX, i64::MIN, i32::MAX as i64, i32::MIN as i64, 1 << 53];

const QUANTITIES: [&str; 8] =
    ["-1", "0", "1e999999", "9223372036854775807Ei", "100m", "1Gi", "nonsense", "0.000000000001"];

/// Letters of the longest text.
const HUGE: usize = 200_000;
/// Levels of the deepest value.
const DEEP: usize = 400;
/// Items of the longest list.
const MANY: usize = 3_000;

fn one<'a, T>(of: &'a [T], draw: &Stream) -> &'a T {
    &of[draw.below(of.len() as u64) as usize]
}

/// A value for a field of this type, sometimes of another type.
pub(super) fn value(kind: &str, name: &str, allowed: Option<&Vec<Value>>, draw: &Stream) -> Value {
    if draw.below(12) == 0 {
        return misfit(draw);
    }
    if let Some(allowed) = allowed
        && draw.below(4) != 0
    {
        return one(allowed, draw).clone();
    }
    match kind {
        "string" => json!(*one(&TEXTS, draw)),
        "integer" => json!(*one(&NUMBERS, draw)),
        "number" => one(&[json!(-1.5), json!(1e308), json!(0), json!(i64::MAX)], draw).clone(),
        "boolean" => json!(draw.below(2) == 0),
        "quantity" => json!(*one(&QUANTITIES, draw)),
        "array" => match draw.below(3) {
            0 => json!([]),
            1 => json!([reference(draw), reference(draw)]),
            _ => json!(vec![one(&TEXTS, draw); 3]),
        },
        "object" if draw.below(2) == 0 => json!({(*one(&TEXTS, draw)): *one(&TEXTS, draw)}),
        _ if name == "value" => manifest(draw),
        _ => reference(draw),
    }
}

/// A value of a wrong type, a deep one, or a huge one.
fn misfit(draw: &Stream) -> Value {
    match draw.below(10) {
        0 => json!("x".repeat(HUGE)),
        1 => (0..DEEP).fold(json!(1), |inner, _| json!({"a": inner})),
        2 => (0..DEEP).fold(json!(1), |inner, _| json!([inner])),
        3 => Value::Array(vec![json!(one(&TEXTS, draw)); MANY]),
        4 => Value::Object((0..MANY).map(|n| (format!("k{n}"), json!("v"))).collect()),
        5 => Value::Null,
        6 => json!(1.5e300),
        7 => json!(true),
        8 => json!([[], {}]),
        _ => json!({"": {"": ""}}),
    }
}

/// A reference to an object of somebody else.
fn reference(draw: &Stream) -> Value {
    let (api_version, kind) = *one(
        &[
            ("v1", "Secret"),
            ("v1", "ConfigMap"),
            ("v1", "Namespace"),
            ("v1", "ServiceAccount"),
            ("apps/v1", "Deployment"),
            ("rbac.authorization.k8s.io/v1", "ClusterRole"),
            ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
            ("work.karmada.io/v1alpha1", "Work"),
            ("cluster.karmada.io/v1alpha1", "Cluster"),
        ],
        draw,
    );
    let namespace = *one(&[VICTIM, "kube-system", "karmada-es-member1", ""], draw);
    json!({
        "apiVersion": api_version, "kind": kind, "namespace": namespace, "name": *one(&[OWN_NAME, "victim", VICTIM], draw),
        "metadata": {"name": OWN_NAME, "namespace": namespace}, "clusters": [{"name": "member1"}],
    })
}

/// A whole object that gives rights, or that is somebody else's.
pub(super) fn manifest(draw: &Stream) -> Value {
    match draw.below(4) {
        0 => json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "taken"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "User", "name": super::TENANT, "apiGroup": "rbac.authorization.k8s.io"}],
        }),
        1 => json!({"name": OWN_NAME, "namespace": "kube-system"}),
        2 => json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": OWN_NAME, "namespace": VICTIM},
            "data": {"k": "taken"},
        }),
        _ => json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "taken"}}),
    }
}
