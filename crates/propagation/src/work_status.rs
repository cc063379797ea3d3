//! Decision of the work status controller: reflects a member object's status into its Work
//! (specification/propagation.md 15.2).

use ironclad_api::{
    JsonText, annotations, events,
    work::{ManifestStatus, ResourceHealth, ResourceIdentifier, Work},
};
use ironclad_fleet::{Because, Event, Plan, StatusPart, because::propagation::Reason};
use ironclad_interpreter::{Health, Interpreter};
use serde_json::{Map, Value, json};

use crate::template::{Identity, annotation};

/// Snapshot of one applied object.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The Work that its annotations name.
    pub work: &'a Work,
    /// The object in the member.
    pub object: &'a Value,
    /// Resource interpreter.
    pub interpreter: &'a Interpreter,
}

/// Write or event.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Set a part of the Work's status.
    Status(StatusPart),
    /// Record an event.
    Event(Event),
}

/// The namespace and name of the Work that an object in a member belongs to, according to its annotations.
#[must_use]
pub fn work_of(object: &Value) -> Option<(&str, &str)> {
    let (namespace, name) =
        (annotation(object, annotations::WORK_NAMESPACE), annotation(object, annotations::WORK_NAME));
    (!namespace.is_empty() && !name.is_empty()).then_some((namespace, name))
}

/// Reflects status and health of the object into the Work. No effects if they are up to date.
pub fn decide(seen: &Seen<'_>) -> Plan<Effect> {
    let mut plan = Plan::default();
    let (work, object) = (seen.work, seen.object);
    if work.metadata.deletion_timestamp.is_some() {
        return Plan::nothing(Because::Gone { object: Identity::of(object).key() });
    }
    let identity = Identity::of(object);
    let manifests = &work.spec.workload.manifests;
    // The member may serve the object in another version than that of the manifest.
    let Some(ordinal) = manifests.iter().position(|manifest| identity.is_named(&manifest.named())) else {
        let message = format!("the Work has no manifest of {}", identity.key());
        plan.push(
            Effect::Event(Event::warning(reference(work), events::REFLECT_STATUS_FAILED, message.clone())),
            Reason::NotInterpreted { message }.into(),
        );
        return plan;
    };
    let status = match seen.interpreter.reflect_status(object) {
        Ok(status) => status,
        Err(error) => {
            let message = error.to_string();
            plan.push(
                Effect::Event(Event::warning(reference(work), events::REFLECT_STATUS_FAILED, message.clone())),
                Reason::NotInterpreted { message }.into(),
            );
            return plan;
        }
    };
    let health = match seen.interpreter.health(object) {
        Ok(None | Some(Health::Healthy)) => ResourceHealth::Healthy,
        Ok(Some(Health::Unhealthy)) => ResourceHealth::Unhealthy,
        Err(error) => {
            let message = error.to_string();
            let event = Event::warning(reference(work), events::INTERPRET_HEALTH_FAILED, message.clone());
            plan.push(Effect::Event(event), Reason::NotInterpreted { message }.into());
            ResourceHealth::Unknown
        }
    };
    let gvk = identity.gvk();
    let desired = ManifestStatus {
        identifier: ResourceIdentifier {
            ordinal: i64::try_from(ordinal).unwrap_or(i64::MAX),
            group: gvk.group.to_string(),
            version: gvk.version.to_string(),
            kind: gvk.kind.to_string(),
            namespace: identity.namespace.to_owned(),
            name: identity.name.to_owned(),
            ..ResourceIdentifier::default()
        },
        status: status.as_ref().map(JsonText::from),
        health: Some(health),
    };
    let present = work.status.as_ref().map(|status| status.manifest_statuses.as_slice()).unwrap_or_default();
    if present == std::slice::from_ref(&desired) {
        plan.note(Because::UpToDate);
    } else {
        let fields = Map::from_iter([("manifestStatuses".to_owned(), json!([desired]))]);
        plan.effects.push(Effect::Status(StatusPart { fields, conditions: Vec::new() }));
    }
    plan
}

pub(crate) fn reference(work: &Work) -> ironclad_api::work::ObjectReference {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    ironclad_api::work::ObjectReference {
        api_version: "work.karmada.io/v1alpha1".into(),
        kind: "Work".into(),
        namespace: text(&work.metadata.namespace),
        name: text(&work.metadata.name),
        uid: text(&work.metadata.uid),
        resource_version: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use ironclad_api::work::{WorkSpec, WorkloadTemplate};

    use super::*;

    fn object(ready: i64) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "web", "namespace": "shop", "generation": 3,
                "annotations": {
                    "resourcetemplate.karmada.io/generation": "7",
                    "work.karmada.io/namespace": "karmada-es-m1", "work.karmada.io/name": "web-x",
                },
            },
            "spec": {"replicas": 2},
            "status": {"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "readyReplicas": ready, "availableReplicas": ready},
        })
    }

    fn work() -> Work {
        let manifest =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}});
        let mut work = Work::new(
            "web-x",
            WorkSpec { workload: WorkloadTemplate { manifests: vec![manifest.into()] }, ..WorkSpec::default() },
        );
        work.metadata.namespace = Some("karmada-es-m1".into());
        work
    }

    fn decided(work: &Work, object: &Value) -> Plan<Effect> {
        decide(&Seen { work, object, interpreter: &Interpreter::default() })
    }

    fn applied(work: &Work, plan: &Plan<Effect>) -> Work {
        let mut json = serde_json::to_value(work).unwrap();
        for effect in &plan.effects {
            if let Effect::Status(part) = effect {
                json["status"] = StatusPart::applied(&json["status"], &[part]);
            }
        }
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn status_and_health_are_reflected_once() {
        for (name, ready, health) in
            [("all ready", 2, ResourceHealth::Healthy), ("one short", 1, ResourceHealth::Unhealthy)]
        {
            let (work, object) = (work(), object(ready));
            let after = applied(&work, &decided(&work, &object));
            let item = &after.status.as_ref().unwrap().manifest_statuses[0];
            assert_eq!(item.health, Some(health), "{name}");
            assert_eq!(item.identifier.kind, "Deployment", "{name}");
            let status = item.status.as_ref().unwrap().value();
            assert_eq!(status["readyReplicas"], ready, "{name}");
            assert_eq!(status["resourceTemplateGeneration"], 7, "{name}");
            assert!(decided(&after, &object).is_quiet(), "{name}: the second time nothing is new");
        }
    }

    #[test]
    fn foreign_object_is_reported_and_not_reflected() {
        let mut other = object(2);
        other["metadata"]["name"] = json!("other");
        let plan = decided(&work(), &other);
        assert!(matches!(&plan.effects[..], [Effect::Event(event)] if event.message.contains("shop/other")));
        let mut odd = object(2);
        odd["metadata"]["annotations"]["resourcetemplate.karmada.io/generation"] = json!("seven");
        assert!(matches!(&decided(&work(), &odd).effects[..], [Effect::Event(_)]));
        let mut leaving = work();
        leaving.metadata.deletion_timestamp = Some(ironclad_api::Time(jiff::Timestamp::UNIX_EPOCH));
        assert!(decided(&leaving, &object(2)).is_quiet());
    }

    #[test]
    fn work_is_named_by_both_annotations() {
        assert_eq!(work_of(&object(1)), Some(("karmada-es-m1", "web-x")));
        assert_eq!(work_of(&json!({"metadata": {"annotations": {"work.karmada.io/name": "x"}}})), None);
        assert_eq!(work_of(&json!({})), None);
    }
}
