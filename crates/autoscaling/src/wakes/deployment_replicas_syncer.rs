//! Wake rules of the replicas syncer.

use ironclad_api::{ObjectMeta, labels};
use ironclad_fleet::Gvk;
use serde_json::Value;

/// Metadata of a template, and the rest of it.
type Template<'a> = (&'a ObjectMeta, &'a Value);

/// Returns true if the replicas of a template may have to be copied: it is a Deployment whose members decide them, and
/// that is new, or the number that it wants or runs changed.
#[must_use]
pub fn template(gvk: &Gvk, old: Option<Template<'_>>, new: Template<'_>) -> bool {
    fn replicas(data: &Value) -> [Option<&Value>; 2] {
        ["/spec/replicas", "/status/replicas"].map(|pointer| data.pointer(pointer))
    }
    let retains = |(metadata, _): Template<'_>| {
        let value = metadata.labels.as_ref().and_then(|labels| labels.get(labels::RETAIN_REPLICAS));
        value.is_some_and(|value| value == labels::TRUE)
    };
    let is_deployment = &*gvk.group == "apps" && &*gvk.kind == "Deployment";
    is_deployment && retains(new) && !old.is_some_and(|old| retains(old) && replicas(old.1) == replicas(new.1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replicas_of_marked_deployments_wake_them() {
        let deployment = Gvk::from_manifest("apps/v1", "Deployment");
        let marked: ObjectMeta = serde_json::from_value(json!({"labels": {labels::RETAIN_REPLICAS: "true"}})).unwrap();
        let (unmarked, none) = (ObjectMeta::default(), json!({"spec": {"replicas": 2}}));
        let of = |spec: i32, status: i32| json!({"spec": {"replicas": spec}, "status": {"replicas": status}});
        let (two, three, four) = (of(2, 2), of(2, 3), of(4, 2));
        let mut paused = two.clone();
        paused["spec"]["paused"] = json!(true);
        for (name, old, new, want) in [
            ("created", None, (&marked, &two), true),
            ("another field", Some((&marked, &two)), (&marked, &paused), false),
            ("members run another number", Some((&marked, &two)), (&marked, &three), true),
            ("a user wants another number", Some((&marked, &two)), (&marked, &four), true),
            ("the first status", Some((&marked, &none)), (&marked, &two), true),
            ("marked now", Some((&unmarked, &two)), (&marked, &two), true),
            ("not marked", None, (&unmarked, &two), false),
        ] {
            assert_eq!(template(&deployment, old, new), want, "{name}");
            assert!(!template(&Gvk::from_manifest("apps/v1", "StatefulSet"), old, new), "{name}: another kind");
        }
    }
}
