//! StatefulSets.

use crate::kinds::shared::columns::TEMPLATE;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            columns::{AGE, CONTAINERS, IMAGES, NAME, created, name, number, template_cells},
            defaults::{child, each, set},
            fields::{at, label, list, not_negative, quoted, text},
            formats, pod, pod_defaults, warnings,
            workload::{counts, rolling_update, same_template, selected_template, status_changed},
        },
    },
    names,
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults,
        prepare_create: Some(|o| {
            if let Some(map) = o.as_object_mut() {
                map.remove("status");
            }
            drop_max_unavailable(None, o);
        }),
        prepare_update: |old, new| drop_max_unavailable(Some(old), new),
        validate,
        validate_name: names::dns_label,
        warnings: warnings::template,
        columns: &[NAME, ("Ready", "string", 0), AGE, CONTAINERS, IMAGES],
        cells,
        ..Strategy::NONE
    },
    ..Kind::new("apps/v1 statefulsets StatefulSet N short=sts all gen +scale +status")
};

fn defaults(object: &mut Value) {
    let spec = child(object, "spec");
    set(spec, "replicas", 1);
    set(spec, "podManagementPolicy", "OrderedReady");
    rolling_update(child(spec, "updateStrategy"), &[("partition", json!(0))]);
    set(spec, "revisionHistoryLimit", 10);
    let retention = child(spec, "persistentVolumeClaimRetentionPolicy");
    set(retention, "whenDeleted", "Retain");
    set(retention, "whenScaled", "Retain");
    pod_defaults::template(child(spec, "template"));
    for claim in each(spec, "volumeClaimTemplates") {
        set(claim, "apiVersion", "v1");
        set(claim, "kind", "PersistentVolumeClaim");
        set(child(claim, "spec"), "volumeMode", "Filesystem");
        set(child(claim, "status"), "phase", "Pending");
    }
    let status = child(object, "status");
    set(status, "replicas", 0);
    set(status, "availableReplicas", 0);
}

/// Drops a field whose feature gate is off, unless the stored object has it.
fn drop_max_unavailable(old: Option<&Value>, new: &mut Value) {
    const AT: &str = "/spec/updateStrategy/rollingUpdate";
    if old.is_some_and(|old| !at(at(old, AT), "/maxUnavailable").is_null()) {
        return;
    }
    if let Some(update) = new.pointer_mut(AT).and_then(Value::as_object_mut) {
        update.remove("maxUnavailable");
    }
}

fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    const COUNTS: [&str; 7] = [
        "replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas", "observedGeneration",
        "collisionCount",
    ];
    const PARTS: [(&str, &str, &str); 5] = [
        ("readyReplicas", "replicas", "status.replicas"),
        ("currentReplicas", "replicas", "status.replicas"),
        ("updatedReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "readyReplicas", "status.readyReplicas"),
    ];
    stateful_policies(at(object, "/spec"), out);
    if old.is_none() {
        for (i, claim) in list(object, "/spec/volumeClaimTemplates").iter().enumerate() {
            pod::claim_template(at(claim, "/spec"), &format!("spec.volumeClaimTemplates[{i}].spec"), out);
        }
    }
    for field in ["replicas", "minReadySeconds", "ordinals/start"] {
        not_negative(object, &format!("/spec/{field}"), out);
    }
    let service = text(object, "/spec/serviceName");
    if !service.is_empty() && old.is_none() {
        label(service, "spec.serviceName", out);
    }
    if !same_template(object, old) {
        selected_template(object, "statefulset", "StatefulSet", out);
    }
    let Some(old) = old else { return };
    let fixed = |o: &Value| {
        let mut spec = at(o, "/spec").clone();
        if let Some(map) = spec.as_object_mut() {
            map.retain(|k, _| !MUTABLE.contains(&k.as_str()));
        }
        spec
    };
    if fixed(object) != fixed(old) {
        out.push(Cause::forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ));
    }
    if status_changed(object, Some(old)) {
        counts(object, &COUNTS, &PARTS, out);
    }
}

/// Validates how pods of a StatefulSet are created, updated and deleted.
fn stateful_policies(spec: &Value, out: &mut Vec<Cause>) {
    let invalid = |field: &str, value: &str, why: &str| Cause::invalid_quoted(field, value, why);
    let policy = text(spec, "/podManagementPolicy");
    if !["", "OrderedReady", "Parallel"].contains(&policy) {
        let quote = json!(policy).to_string();
        out.push(invalid("spec.podManagementPolicy", &quote, "must be 'OrderedReady' or 'Parallel'"));
    }
    let strategy = at(spec, "/updateStrategy");
    let update = &strategy["rollingUpdate"];
    let members = [("Partition", update["partition"].clone()), ("MaxUnavailable", update["maxUnavailable"].clone())];
    match text(strategy, "/type") {
        "OnDelete" if update.is_object() => {
            let why = "only allowed for updateStrategy 'RollingUpdate'";
            out.push(invalid("spec.updateStrategy.rollingUpdate", &quoted(&members), why));
        }
        "" | "OnDelete" => {}
        "RollingUpdate" => {
            let partition = &update["partition"];
            if partition.as_i64().is_some_and(|n| n < 0) {
                let why = "must be greater than or equal to 0";
                out.push(Cause::invalid("spec.updateStrategy.rollingUpdate.partition", partition, why));
            }
        }
        other => {
            let update = if update.is_object() { quoted(&members) } else { "null".to_owned() };
            let quote = format!("{{\"Type\":{},\"RollingUpdate\":{update}}}", json!(other));
            out.push(invalid("spec.updateStrategy", &quote, "must be 'RollingUpdate' or 'OnDelete'"));
        }
    }
    for key in ["whenDeleted", "whenScaled"] {
        let policy = at(spec, &format!("/persistentVolumeClaimRetentionPolicy/{key}"));
        if let Some(policy) = policy.as_str().filter(|p| !p.is_empty()) {
            let field = format!("spec.persistentVolumeClaimRetentionPolicy.{key}");
            formats::supported(policy, &field, &["Retain", "Delete"], out);
        }
    }
}

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let ready = format!("{}/{}", number(o, "/status/readyReplicas"), number(o, "/spec/replicas"));
    let [containers, images] = template_cells(o, TEMPLATE);
    vec![name(o), json!(ready), created(o, now), containers, images]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::shared::workload::tests::messages;

    #[test]
    fn stateful_sets() {
        let claims = json!([{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
        let mounts = |name: &str| json!({"volumeClaimTemplates": claims, "template": {"spec": {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": name, "mountPath": "/a"}]}]}}});
        for (spec, want) in [
            (mounts("v"), vec![]),
            (mounts("w"), vec!["template.spec.containers[0].volumeMounts[0].name: Not found: \"w\""]),
            (
                json!({"podManagementPolicy": "Sometimes"}),
                vec!["podManagementPolicy: Invalid value: \"Sometimes\": must be 'OrderedReady' or 'Parallel'"],
            ),
            (
                json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}}),
                vec![
                    "updateStrategy.rollingUpdate: Invalid value: {\"Partition\":1,\"MaxUnavailable\":null}: only allowed for updateStrategy 'RollingUpdate'",
                ],
            ),
            (
                json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Maybe"}}),
                vec![
                    "persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: \"Maybe\": supported values: \"Retain\", \"Delete\"",
                ],
            ),
        ] {
            assert_eq!(messages(validate, spec.clone()), want, "{spec}");
        }
    }
}
