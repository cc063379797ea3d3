//! Applies the rules of the table to one write.

use std::collections::{BTreeMap, BTreeSet};

use ironclad_patch::FieldError;
use serde_json::Value;

use crate::{
    Config, Denial, Lookups, Need, Operation, Request, Verdict, cluster_names,
    field::{Findings, Kind},
    request::{Cx, UNDECODABLE},
    table::{Act, Phase, WEBHOOKS, Webhook},
    without_effect,
};

/// Members of this group get warnings instead of refusals, except for rules that isolate tenants
/// (specification/admission.md 8).
pub const BYPASS_GROUP: &str = "karmada:admission-bypass";

/// Names the objects that the reviews of one phase need.
#[must_use]
pub fn needs(phase: Phase, request: &Request<'_>, config: &Config) -> BTreeSet<Need> {
    let mut needs = BTreeSet::new();
    for webhook in asked(phase, request, config) {
        webhook.ask(request, config, &mut needs);
    }
    needs
}

/// Sets defaults. `None` if nothing changes: also for an object that cannot be decoded as its kind, which validation
/// refuses.
///
/// # Errors
/// If the defaults cannot be determined.
pub fn mutate(request: &Request<'_>, lookups: &Lookups, config: &Config) -> Result<Option<Value>, Denial> {
    let mut changed: Option<Value> = None;
    for webhook in asked(Phase::Mutating, request, config) {
        let mut object = match (&changed, request.object) {
            (Some(object), _) => object.clone(),
            (None, Some(object)) => object.clone(),
            (None, None) => continue,
        };
        one_mutation(webhook, &mut object, request, lookups, config)?;
        if changed.as_ref().or(request.object) != Some(&object) {
            changed = Some(object);
        }
    }
    Ok(changed)
}

/// Validates the write. The first webhook that refuses ends the review.
#[must_use]
pub fn validate(request: &Request<'_>, lookups: &Lookups, config: &Config) -> Verdict {
    let mut all = Verdict::default();
    for webhook in asked(Phase::Validating, request, config) {
        let verdict = one_validation(webhook, request, lookups, config);
        all.warnings.extend(verdict.warnings);
        all.audit.extend(verdict.audit);
        all.effects.extend(verdict.effects);
        if verdict.denial.is_some() {
            all.denial = verdict.denial;
            all.effects.clear();
            return all;
        }
    }
    all
}

fn asked(phase: Phase, request: &Request<'_>, config: &Config) -> impl Iterator<Item = &'static Webhook> {
    WEBHOOKS.iter().filter(move |webhook| webhook.phase() == phase && webhook.matches(request, config))
}

pub(crate) fn one_mutation(
    webhook: &Webhook,
    object: &mut Value,
    request: &Request<'_>,
    lookups: &Lookups,
    config: &Config,
) -> Result<(), Denial> {
    let Act::Mutate(mutate) = webhook.act else { return Ok(()) };
    let mut changed = object.clone();
    match mutate(&mut changed, &Cx { request, lookups, config }) {
        Ok(()) => *object = changed,
        // The schema, which is checked after the defaults, names the field and what it takes; so does validation.
        Err(denial) if denial.code == UNDECODABLE => {}
        Err(denial) => return Err(Denial { webhook: webhook.name, ..denial }),
    }
    Ok(())
}

pub(crate) fn one_validation(webhook: &Webhook, request: &Request<'_>, lookups: &Lookups, config: &Config) -> Verdict {
    let cx = Cx { request, lookups, config };
    let mut out = Findings::default();
    let mut verdict = Verdict::default();
    let refused = match (webhook.act, request.object) {
        (Act::Permit(permit), _) => permit(&cx).err(),
        (Act::Validate { object: rules, change }, Some(object)) => {
            if keeps_its_content(object, &cx) {
                return verdict;
            }
            change(&cx, &mut out).and_then(|()| rules(object, &cx, &mut out)).err()
        }
        (Act::Validate { .. } | Act::Mutate(_), _) => None,
    };
    if webhook.validates_kind(request) {
        cluster_names::warn(request, lookups, &mut out);
    }
    verdict.warnings = out.warnings;
    if webhook.not_built && request.object.is_some() {
        verdict.warnings.push(format!(
            "{} {}/{} has no effect: this version of Ironclad does not act on the kind",
            request.kind, request.group, request.version
        ));
    }
    if let Some(object) = request.object.filter(|_| webhook.validates_kind(request)) {
        verdict.warnings.extend(without_effect::warnings(request.kind, object));
    }
    let denial = refused.or_else(|| {
        let mistakes = weigh(webhook, &cx, out.errors, &mut verdict);
        (!mistakes.is_empty()).then(|| Denial::of(mistakes))
    });
    verdict.denial = denial.map(|denial| Denial { webhook: webhook.name, ..denial });
    if verdict.denial.is_none() {
        verdict.effects = out.effects;
    }
    verdict
}

/// Selects the errors that refuse the write: not those that the old object had, nor those that the writer may
/// overrule.
fn weigh(
    webhook: &Webhook,
    cx: &Cx<'_>,
    findings: Vec<crate::field::Finding>,
    verdict: &mut Verdict,
) -> Vec<FieldError> {
    if findings.is_empty() {
        return vec![];
    }
    let mut before = mistakes_before(webhook, cx);
    let may_bypass = cx.request.groups.iter().any(|group| group == BYPASS_GROUP);
    let mut refused = Vec::new();
    for finding in findings {
        if before.take(&finding.error) {
            verdict.warnings.push(format!("{} (unchanged, so it is let through)", finding.error));
        } else if may_bypass && finding.kind == Kind::Ordinary {
            verdict.warnings.push(format!("{} (let through for group {BYPASS_GROUP})", finding.error));
            let used = verdict.audit.entry("bypass".to_owned()).or_default();
            if !used.is_empty() {
                used.push_str(", ");
            }
            used.push_str(&finding.error.to_string());
        } else {
            refused.push(finding.error);
        }
    }
    refused
}

/// Errors of the old object, each with the number of its occurrences. They do not refuse an update (ratcheting,
/// specification/admission.md 8).
#[derive(Debug, Default)]
struct MistakesBefore(BTreeMap<FieldError, usize>);

impl MistakesBefore {
    /// Returns true if the old object had this error, once for each time that it had it.
    fn take(&mut self, error: &FieldError) -> bool {
        let Some(left) = self.0.get_mut(&without_place(error)).filter(|left| **left > 0) else { return false };
        *left -= 1;
        true
    }
}

/// An error as it is compared with one of the old object: without the places of items in lists, which change when an
/// item before them is removed, and without the value if it has parts, of which others may change.
fn without_place(error: &FieldError) -> FieldError {
    let mut field = String::new();
    for (i, part) in error.field.split('[').enumerate() {
        match part.split_once(']') {
            Some((index, rest)) if i > 0 && index.bytes().all(|b| b.is_ascii_digit()) => {
                field.push_str("[]");
                field.push_str(rest);
            }
            _ => {
                field.push_str(if i > 0 { "[" } else { "" });
                field.push_str(part);
            }
        }
    }
    let composite = [("Invalid value: {", "}: "), ("Invalid value: [", "]: ")].into_iter().find_map(|(start, end)| {
        let value = error.message.strip_prefix(start)?;
        value.split_once(end).map(|(_, detail)| detail.to_owned())
    });
    FieldError { field, message: composite.unwrap_or_else(|| error.message.clone()), reason: error.reason }
}

fn mistakes_before(webhook: &Webhook, cx: &Cx<'_>) -> MistakesBefore {
    let mut before = MistakesBefore::default();
    let (Act::Validate { object: rules, .. }, Some(old)) = (webhook.act, cx.request.old) else { return before };
    if cx.request.operation != Operation::Update {
        return before;
    }
    let mut out = Findings::default();
    // An old object that cannot be decoded excuses no error.
    if rules(old, cx, &mut out).is_ok() {
        for finding in out.errors {
            *before.0.entry(without_place(&finding.error)).or_default() += 1;
        }
    }
    before
}

/// Returns true for an update of an object that is being deleted which changes nothing but metadata and status. It is
/// not validated, so that finalizers of invalid objects can be removed. Any other change takes effect until the object
/// is deleted, so it is validated like every write.
fn keeps_its_content(object: &Value, cx: &Cx<'_>) -> bool {
    let Some(old) = cx.request.old.filter(|_| cx.request.operation == Operation::Update) else { return false };
    let is_deleting = |object: &Value| object.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null());
    let content = |object: &Value| -> Vec<(String, Value)> {
        let fields = object.as_object().into_iter().flatten();
        let fields = fields.filter(|(name, value)| *name != "metadata" && *name != "status" && !value.is_null());
        fields.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    is_deleting(object) && is_deleting(old) && content(object) == content(old)
}
