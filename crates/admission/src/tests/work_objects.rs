//! Bindings and Works (specification/admission.md 3).

use ironclad_fleet::gates::{Gate, Gates};
use serde_json::{Value, json};

use super::{ID, Write, with, with_spec};
use crate::{Effect, Need, kinds::charge::QUOTAS, needs, table::Phase};

const GROUP: &str = "work.karmada.io";

fn binding() -> Value {
    json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"namespace": "shop", "name": "web-deployment"},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}},
    })
}

#[test]
fn bindings_get_an_id_unless_they_have_one() {
    for (resource, key) in [
        ("resourcebindings", "resourcebinding.karmada.io/permanent-id"),
        ("clusterresourcebindings", "clusterresourcebinding.karmada.io/permanent-id"),
    ] {
        let made = Write::create(GROUP, resource, binding()).mutated();
        assert_eq!(made["metadata"]["labels"], json!({key: ID}), "{resource}");
        let restored = with(&binding(), &json!({"metadata": {"labels": {key: "before"}}}));
        let write = Write::create(GROUP, resource, restored.clone());
        assert_eq!(write.mutated(), restored, "{resource} from a backup");
        let needed = write.with_request(|request| needs(Phase::Mutating, request, &write.config));
        assert!(needed.is_empty(), "{resource}: no id is drawn in vain");
        let update = Write::update(GROUP, resource, binding(), binding());
        assert_eq!(update.mutated(), binding(), "{resource}, changed");
    }
}

#[test]
fn works_are_pruned_and_labelled() {
    let manifest = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "status": {},
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"},
            "annotations": {"deployment.kubernetes.io/revision": "1", "x": "y"},
        },
    });
    let work = |manifest: Value| {
        json!({
            "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
            "metadata": {"namespace": "karmada-es-m1", "name": "w"}, "spec": {"workload": {"manifests": [manifest]}},
        })
    };
    let made = Write::create(GROUP, "works", work(manifest)).mutated();
    assert_eq!(made["metadata"]["labels"], json!({"work.karmada.io/permanent-id": ID}));
    let marked = &made["spec"]["workload"]["manifests"][0];
    assert_eq!(marked.get("status"), None);
    let metadata = &marked["metadata"];
    assert_eq!((metadata.get("uid"), metadata.get("resourceVersion")), (None, None));
    assert_eq!(metadata["labels"]["work.karmada.io/permanent-id"], ID);
    assert_eq!(metadata["annotations"].get("deployment.kubernetes.io/revision"), None);
    let keys = "resourcetemplate.karmada.io/managed-annotations,resourcetemplate.karmada.io/managed-labels,resourcetemplate.karmada.io/uid,work.ironclad.io/applied-fields,work.karmada.io/name,work.karmada.io/namespace,x";
    assert_eq!(metadata["annotations"]["resourcetemplate.karmada.io/managed-annotations"], keys);

    // The schema, which names the manifest, refuses it after the defaults.
    let broken = Write::create(GROUP, "works", work(json!("text")));
    assert_eq!(broken.mutated(), work(json!("text")));
}

#[test]
fn binding_and_work_rules() {
    let annotated =
        |text: &str| json!({"metadata": {"annotations": {"resourcebinding.karmada.io/dependencies": text}}});
    let components = |names: &[&str]| {
        let list: Vec<Value> = names.iter().map(|name| json!({"name": name, "replicas": 1})).collect();
        json!({"spec": {"components": list}})
    };
    let path = "metadata.annotations.resourcebinding.karmada.io/dependencies";
    for (name, patch, want) in [
        ("a plain one", json!({}), String::new()),
        (
            "dependencies",
            annotated(r#"[{"apiVersion":"v1","kind":"Secret","namespace":"shop","name":"s"}]"#),
            String::new(),
        ),
        (
            "dependencies that are no list",
            annotated("{}"),
            format!(r#"{path}: Invalid value: "{{}}": must be a JSON list of object references"#),
        ),
        (
            "dependencies that are no JSON",
            annotated("["),
            format!(
                r#"{path}: Invalid value: "[": must be a JSON list of object references: EOF while parsing a list at line 1 column 1"#
            ),
        ),
        (
            "dependencies that are no objects",
            annotated("[1]"),
            format!(
                r#"{path}: Invalid value: "[1]": must be a JSON list of object references: item 0 lacks apiVersion, kind, or a name or labelSelector"#
            ),
        ),
        (
            "a dependency of no kind",
            annotated(r#"[{"foo":"bar"}]"#),
            format!(
                r#"{path}: Invalid value: "[{{\"foo\":\"bar\"}}]": must be a JSON list of object references: item 0 lacks apiVersion, kind, or a name or labelSelector"#
            ),
        ),
        (
            "dependencies by labels",
            annotated(
                r#"[{"apiVersion":"v1","kind":"Secret","namespace":"shop","labelSelector":{"matchLabels":{"a":"b"}}}]"#,
            ),
            String::new(),
        ),
        (
            "a component without name",
            components(&[""]),
            r#"spec.components[0].name: Invalid value: "": component names must not be empty"#.to_owned(),
        ),
        (
            "a component twice",
            components(&["a", "b", "a"]),
            r#"spec.components[2].name: Invalid value: "a": component names must be unique"#.to_owned(),
        ),
    ] {
        let mut write = Write::create(GROUP, "resourcebindings", with(&binding(), &patch));
        write.config.gates = Gates::default().with(Gate::MultiplePodTemplatesScheduling, true);
        assert_eq!(write.refusal(), want, "{name}");
    }
    let unchecked = Write::create(GROUP, "resourcebindings", with(&binding(), &components(&["a", "a"])));
    assert_eq!(unchecked.refusal(), "", "without the gate components are not validated");
}

/// A quota of the namespace.
fn quota(overall: Value, used: Value) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
        "metadata": {"namespace": "shop", "name": "q", "resourceVersion": "7"},
        "spec": {"overall": overall}, "status": {"overallUsed": used},
    })
}

/// A binding that requests this CPU per replica, with these replicas in two clusters.
fn taking(cpu: &str, replicas: [i32; 2]) -> Value {
    let clusters = json!([{"name": "m1", "replicas": replicas[0]}, {"name": "m2", "replicas": replicas[1]}]);
    with_spec(
        &binding(),
        &json!({"replicaRequirements": {"resourceRequest": {"cpu": cpu}}, "replicas": 9, "clusters": clusters}),
    )
}

#[test]
fn quota_usage_is_charged() {
    let components = |replicas: i32, clusters: &[&str]| {
        let clusters: Vec<Value> = clusters.iter().map(|name| json!({"name": name})).collect();
        let component =
            json!({"name": "a", "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}});
        with_spec(&binding(), &json!({"components": [component], "clusters": clusters}))
    };
    let refused =
        |sum: &str| format!("FederatedResourceQuota(shop/q) exceeded for resource cpu: requested sum {sum}, limit 4");
    let limit = || json!({"cpu": "4"});
    for (name, old, new, quota, want) in [
        ("it fits", None, taking("1", [2, 1]), quota(limit(), json!({})), Ok(Some(json!({"cpu": "3"})))),
        ("it just fits", None, taking("1", [2, 2]), quota(limit(), json!({})), Ok(Some(json!({"cpu": "4"})))),
        ("it does not fit", None, taking("1", [3, 2]), quota(limit(), json!({})), Err(refused("5"))),
        (
            "what others take counts",
            None,
            taking("1", [1, 1]),
            quota(limit(), json!({"cpu": "2500m"})),
            Err(refused("4500m")),
        ),
        ("not scheduled yet", None, binding(), quota(limit(), json!({})), Ok(None)),
        (
            "nothing changes",
            Some(taking("1", [2, 2])),
            taking("1", [2, 2]),
            quota(limit(), json!({"cpu": "4"})),
            Ok(None),
        ),
        (
            "moved, the sum is the same",
            Some(taking("1", [3, 1])),
            taking("1", [1, 3]),
            quota(limit(), json!({"cpu": "4"})),
            Ok(None),
        ),
        (
            "scaled up",
            Some(taking("1", [1, 1])),
            taking("1", [2, 1]),
            quota(limit(), json!({"cpu": "2"})),
            Ok(Some(json!({"cpu": "3"}))),
        ),
        (
            "scaled up too far",
            Some(taking("1", [1, 1])),
            taking("1", [3, 2]),
            quota(limit(), json!({"cpu": "2"})),
            Err(refused("5")),
        ),
        (
            "scaled down over the limit",
            Some(taking("1", [4, 4])),
            taking("1", [4, 2]),
            quota(limit(), json!({"cpu": "8"})),
            Ok(Some(json!({"cpu": "6"}))),
        ),
        (
            "usage never becomes negative",
            Some(taking("1", [4, 4])),
            taking("1", [0, 0]),
            quota(limit(), json!({"cpu": "1"})),
            Ok(Some(json!({"cpu": "0"}))),
        ),
        ("another resource", None, taking("1", [9, 9]), quota(json!({"memory": "1Gi"}), json!({})), Ok(None)),
        (
            "requests.cpu is cpu",
            None,
            taking("1", [3, 2]),
            quota(json!({"requests.cpu": "4"}), json!({})),
            Err("FederatedResourceQuota(shop/q) exceeded for resource requests.cpu: requested sum 5, limit 4"
                .to_owned()),
        ),
        (
            "components, per cluster",
            None,
            components(2, &["m1", "m2"]),
            quota(limit(), json!({})),
            Ok(Some(json!({"cpu": "4"}))),
        ),
        (
            "components, one cluster more",
            Some(components(2, &["m1", "m2"])),
            components(2, &["m1", "m2", "m3"]),
            quota(limit(), json!({"cpu": "4"})),
            Err(refused("6")),
        ),
    ] {
        let mut write = match old {
            None => Write::create(GROUP, "resourcebindings", new),
            Some(old) => Write::update(GROUP, "resourcebindings", old, new),
        };
        let need = Need::List { resource: QUOTAS, namespace: "shop".to_owned() };
        write.lookups.found.insert(need.clone(), vec![quota.clone()]);
        assert_eq!(write.refusal(), "", "{name}: without the gate nothing is charged");
        write.config.gates = Gates::default().with(Gate::FederatedQuotaEnforcement, true);
        let verdict = write.validated();
        let got = match verdict.denial {
            Some(denial) => {
                assert_eq!((denial.code, denial.reason), (403, "QuotaExceeded"), "{name}");
                Err(denial.message)
            }
            None => Ok(verdict.effects.first().map(|Effect::WriteStatus { object, .. }| {
                assert_eq!(object["metadata"], quota["metadata"], "{name}: the version that was seen");
                object["status"]["overallUsed"].clone()
            })),
        };
        assert_eq!(got, want, "{name}");
    }
    let mut write = Write::create(GROUP, "resourcebindings", taking("1", [1, 1]));
    write.config.gates = Gates::default().with(Gate::FederatedQuotaEnforcement, true);
    let needed = write.with_request(|request| needs(Phase::Validating, request, &write.config));
    assert_eq!(needed.len(), 1, "the quotas of the namespace");
    assert_eq!(write.validated().denial.map(|d| d.code), Some(500), "quotas that can't be listed refuse");
}

#[test]
fn two_quotas_are_booked_both_or_neither() {
    let mut write = Write::create(GROUP, "resourcebindings", taking("1", [2, 2]));
    write.config.gates = Gates::default().with(Gate::FederatedQuotaEnforcement, true);
    let need = Need::List { resource: QUOTAS, namespace: "shop".to_owned() };
    write
        .lookups
        .found
        .insert(need.clone(), vec![quota(json!({"cpu": "9"}), json!({})), quota(json!({"cpu": "4"}), json!({}))]);
    assert_eq!(write.validated().effects.len(), 2);
    write
        .lookups
        .found
        .insert(need, vec![quota(json!({"cpu": "9"}), json!({})), quota(json!({"cpu": "3"}), json!({}))]);
    let verdict = write.validated();
    assert!(verdict.denial.is_some() && verdict.effects.is_empty());
}
