//! Defaults of Deployment, ReplicaSet, StatefulSet, DaemonSet and ReplicationController.

use serde_json::{Value, json};

use super::{child, each, pod, set};

fn rolling_update(strategy: &mut Value, defaults: &[(&str, Value)]) {
    set(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        let update = child(strategy, "rollingUpdate");
        for (key, value) in defaults {
            set(update, key, value.clone());
        }
    }
}

pub(super) fn deployment(object: &mut Value) {
    let spec = child(object, "spec");
    set(spec, "replicas", 1);
    rolling_update(child(spec, "strategy"), &[("maxUnavailable", json!("25%")), ("maxSurge", json!("25%"))]);
    set(spec, "revisionHistoryLimit", 10);
    set(spec, "progressDeadlineSeconds", 600);
    pod::template(child(spec, "template"));
    child(object, "status");
}

pub(super) fn replica_set(object: &mut Value) {
    let spec = child(object, "spec");
    set(spec, "replicas", 1);
    if spec["template"].is_object() {
        pod::template(&mut spec["template"]);
    }
    set(child(object, "status"), "replicas", 0);
}

pub(super) fn replication_controller(object: &mut Value) {
    let spec = child(object, "spec");
    set(spec, "replicas", 1);
    if spec["template"].is_object() {
        pod::template(&mut spec["template"]);
    }
    let labels = spec.pointer("/template/metadata/labels").cloned().unwrap_or(Value::Null);
    if labels.is_object() {
        set(spec, "selector", labels.clone());
        set(child(object, "metadata"), "labels", labels);
    }
    set(child(object, "status"), "replicas", 0);
}

pub(super) fn stateful_set(object: &mut Value) {
    let spec = child(object, "spec");
    set(spec, "replicas", 1);
    set(spec, "podManagementPolicy", "OrderedReady");
    rolling_update(child(spec, "updateStrategy"), &[("partition", json!(0))]);
    set(spec, "revisionHistoryLimit", 10);
    let retention = child(spec, "persistentVolumeClaimRetentionPolicy");
    set(retention, "whenDeleted", "Retain");
    set(retention, "whenScaled", "Retain");
    pod::template(child(spec, "template"));
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

pub(super) fn daemon_set(object: &mut Value) {
    let annotations = child(child(object, "metadata"), "annotations");
    set(annotations, "deprecated.daemonset.template.generation", "1");
    let spec = child(object, "spec");
    rolling_update(child(spec, "updateStrategy"), &[("maxUnavailable", json!(1)), ("maxSurge", json!(0))]);
    set(spec, "revisionHistoryLimit", 10);
    pod::template(child(spec, "template"));
    let status = child(object, "status");
    for count in ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"] {
        set(status, count, 0);
    }
}
