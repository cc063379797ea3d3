//! CronFederatedHPA (specification/admission.md 4.2).

use std::collections::BTreeSet;

use ironclad_api::autoscaling::{CronFederatedHPA, CronFederatedHPARule};
use ironclad_cron::Schedule;
use jiff::{Timestamp, tz::TimeZone};
use serde_json::Value;

use super::{federated_hpa, lens::at};
use crate::{
    Denial,
    field::{Findings, Path},
    request::{Cx, decode},
};

pub(crate) fn validate(object: &Value, _: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    let typed: CronFederatedHPA = decode(object)?;
    federated_hpa::object_name(object, out);
    let path = Path::new("spec");
    let target = &typed.spec.scale_target_ref;
    let ours = target.api_version.as_deref() == Some("autoscaling.karmada.io/v1alpha1");
    if ours && target.kind != "FederatedHPA" {
        out.invalid(
            path.child("scaleTargetRef.kind"),
            &target.kind,
            "of this apiVersion only FederatedHPA can be scaled",
        );
        return Ok(());
    }
    federated_hpa::reference(at(object, "/spec/scaleTargetRef"), &path.child("scaleTargetRef"), out);
    let mut seen = BTreeSet::new();
    for (i, rule) in typed.spec.rules.iter().enumerate() {
        let at = path.child("rules").index(i);
        if !seen.insert(rule.name.as_str()) {
            out.duplicate(at.child("name"), &rule.name);
        }
        when(rule, &at, out);
        if ours { bounds(rule, &at, out) } else { replicas(rule, &at, out) }
    }
    if typed.spec.rules.is_empty() {
        out.warn("spec.rules is empty: nothing is ever scaled");
    }
    Ok(())
}

fn when(rule: &CronFederatedHPARule, path: &Path, out: &mut Findings) {
    match Schedule::parse_to_seven(&rule.schedule, TimeZone::UTC) {
        Err(error) => out.invalid(path.child("schedule"), &rule.schedule, &error.to_string()),
        // Leap years and all days of the week are within five years of any time of this century.
        Ok(schedule) if schedule.next(Timestamp::UNIX_EPOCH).is_none() => {
            out.warn(format!(
                "{} {:?} names no time: the rule is never executed",
                path.child("schedule"),
                rule.schedule
            ));
        }
        Ok(_) => {}
    }
    if let Some(zone) = &rule.time_zone
        && ironclad_cron::time_zone(zone).is_none()
    {
        // The local zone of the controller is the default: leave the field out to use it.
        let detail = format!("unknown time zone {zone}");
        out.invalid(path.child("timeZone"), zone, &detail);
    }
}

/// Validates a rule whose target is a FederatedHPA: it sets minimum and maximum.
fn bounds(rule: &CronFederatedHPARule, path: &Path, out: &mut Findings) {
    let (least, most) = (rule.target_min_replicas, rule.target_max_replicas);
    if least.is_none() && most.is_none() {
        let detail =
            "targetMinReplicas and targetMaxReplicas cannot be nil at the same time if you want to scale FederatedHPA";
        out.invalid(path.child("targetMaxReplicas"), &Value::Null, detail);
    }
    if let Some(n @ ..=0) = most {
        out.invalid(path.child("targetMaxReplicas"), &n, "should be larger than 0");
    }
    if let Some(n @ ..=0) = least {
        out.invalid(path.child("targetMinReplicas"), &n, "should be larger than 0");
    }
    if let (Some(least), Some(most)) = (least, most)
        && least > most
    {
        out.invalid(path.child("targetMinReplicas"), &least, "should not be larger than targetMaxReplicas");
    }
    if rule.target_replicas.is_some() {
        let detail = "a FederatedHPA has bounds: set targetMinReplicas and targetMaxReplicas";
        out.forbidden(path.child("targetReplicas"), detail);
    }
}

/// Validates a rule whose target is a workload: it sets replicas.
fn replicas(rule: &CronFederatedHPARule, path: &Path, out: &mut Findings) {
    match rule.target_replicas {
        None => {
            let detail = "targetReplicas cannot be nil if you want to scale a workload";
            out.invalid(path.child("targetReplicas"), &Value::Null, detail);
        }
        Some(n @ ..0) => out.invalid(path.child("targetReplicas"), &n, "should be larger than or equal to 0"),
        Some(_) => {}
    }
    for (field, given) in
        [("targetMinReplicas", rule.target_min_replicas), ("targetMaxReplicas", rule.target_max_replicas)]
    {
        if given.is_some() {
            out.forbidden(path.child(field), "only a FederatedHPA has bounds: set targetReplicas");
        }
    }
}
