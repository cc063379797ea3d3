//! What a claim for a volume says about what fills the volume.

use serde_json::Value;

/// A claim that names its source in one of the two fields names it in both. The older field takes claims and snapshots
/// only: in a new claim anything else there is dropped without a word.
pub(crate) fn data_sources(old: Option<&Value>, claim: &mut Value) {
    let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let kept = old.is_some_and(|old| old.pointer("/spec/dataSource").is_some_and(Value::is_object));
    if !kept && spec.get("dataSource").is_some_and(|source| !is_claim_or_snapshot(source)) {
        spec.remove("dataSource");
    }
    let source = |spec: &serde_json::Map<String, Value>, key: &str| spec.get(key).filter(|s| s.is_object()).cloned();
    match (source(spec, "dataSource"), source(spec, "dataSourceRef")) {
        (Some(source), None) => drop(spec.insert("dataSourceRef".to_owned(), source)),
        (None, Some(source)) if source["namespace"].as_str().is_none_or(str::is_empty) => {
            spec.insert("dataSource".to_owned(), source);
        }
        _ => {}
    }
}

fn is_claim_or_snapshot(source: &Value) -> bool {
    matches!(
        (source["apiGroup"].as_str().unwrap_or_default(), source["kind"].as_str().unwrap_or_default()),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_fields_say_the_same() {
        let claim = json!({"kind": "PersistentVolumeClaim", "name": "a"});
        let other = json!({"apiGroup": "x.io", "kind": "Thing", "name": "a"});
        let far = json!({"kind": "PersistentVolumeClaim", "name": "a", "namespace": "b"});
        for (name, given, want) in [
            ("the older field", json!({"dataSource": claim}), json!({"dataSource": claim, "dataSourceRef": claim})),
            ("the newer field", json!({"dataSourceRef": other}), json!({"dataSource": other, "dataSourceRef": other})),
            ("the older one takes not everything", json!({"dataSource": other}), json!({})),
            ("another namespace is for the newer one", json!({"dataSourceRef": far}), json!({"dataSourceRef": far})),
        ] {
            let mut object = json!({"spec": given});
            data_sources(None, &mut object);
            assert_eq!(object["spec"], want, "{name}");
        }
    }
}
