//! Failover behaviour of policies (specification/admission.md 2.3, 5.5).

use std::collections::BTreeSet;

use ironclad_api::policy::{
    ApplicationFailoverBehavior, ClusterFailoverBehavior, FailoverBehavior, PurgeMode, StatePreservation,
};
use ironclad_failover::preserved_state::JsonPath;
use ironclad_patch::names;
use serde_json::json;

use crate::field::{Findings, Path};

/// Validates a failover behaviour.
pub(crate) fn failover(failover: &FailoverBehavior, path: &Path, out: &mut Findings) {
    if let Some(behavior) = &failover.application {
        application(behavior, &path.child("application"), out);
    }
    if let Some(behavior) = &failover.cluster {
        cluster(behavior, &path.child("cluster"), out);
    }
}

fn application(behavior: &ApplicationFailoverBehavior, path: &Path, out: &mut Findings) {
    let conditions = path.child("decisionConditions");
    toleration(behavior.decision_conditions.toleration_seconds, &conditions, out);
    let grace = path.child("gracePeriodSeconds");
    let graceful = behavior.purge_mode() == PurgeMode::Gracefully;
    match behavior.grace_period_seconds {
        Some(seconds) if !graceful => {
            out.invalid(
                &grace,
                &seconds,
                "only takes effect when purgeMode is Gracefully: remove it, or set that mode",
            );
        }
        None if graceful => out.invalid(&grace, &json!(null), "should not be empty when purgeMode is Gracefully"),
        _ => {}
    }
    if let Some(seconds @ ..=0) = behavior.grace_period_seconds {
        out.invalid(&grace, &seconds, "must be greater than 0");
    }
    preserved(behavior.state_preservation.as_ref(), path, out);
}

fn cluster(behavior: &ClusterFailoverBehavior, path: &Path, out: &mut Findings) {
    if behavior.purge_mode() == PurgeMode::Never {
        out.not_supported(path.child("purgeMode"), "Never", &["Directly", "Gracefully"]);
    }
    toleration(behavior.toleration_seconds, path, out);
    preserved(behavior.state_preservation.as_ref(), path, out);
}

fn toleration(seconds: Option<i32>, path: &Path, out: &mut Findings) {
    if let Some(seconds @ ..0) = seconds {
        out.invalid(path.child("tolerationSeconds"), &seconds, "must be greater than or equal to 0");
    }
}

fn preserved(preservation: Option<&StatePreservation>, path: &Path, out: &mut Findings) {
    let rules = path.child("statePreservation.rules");
    let Some(preservation) = preservation else { return };
    if preservation.rules.is_empty() {
        out.required(&rules, "name at least one label, or leave statePreservation out");
    }
    let mut aliases = BTreeSet::new();
    for (i, rule) in preservation.rules.iter().enumerate() {
        let at = rules.index(i).child("aliasLabelName");
        out.texts(at.clone(), &rule.alias_label_name, names::label_key(&rule.alias_label_name));
        if !aliases.insert(&rule.alias_label_name) {
            out.duplicate(&at, &rule.alias_label_name);
        }
        // With a path that can't be read the workload would never be evicted.
        if let Err(error) = JsonPath::parse(&rule.json_path) {
            out.invalid(rules.index(i).child("jsonPath"), &rule.json_path, &error.to_string());
        }
    }
}
