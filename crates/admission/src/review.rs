//! AdmissionReview on the wire (specification/admission.md 1.1).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ironclad_api::cluster::STORED_GROUP;
use serde_json::{Map, Value, json};

use crate::{
    Config, Denial, Lookups, Need, Operation, Request, Verdict, diff, rules, stored,
    table::{CLUSTER, Phase, Webhook},
};

use std::collections::BTreeSet;

/// Review that a kube-apiserver requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Review {
    uid: String,
    operation: Operation,
    request: Value,
    groups: Vec<String>,
}

impl Review {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// If the body is not a valid review. There is no uid to echo then, so the answer is not a review either.
    pub fn parse(body: &[u8]) -> Result<Self, String> {
        let mut review: Value = serde_json::from_slice(body).map_err(|e| format!("the body is no JSON: {e}"))?;
        let kind = (review["apiVersion"].as_str(), review["kind"].as_str());
        if kind != (Some("admission.k8s.io/v1"), Some("AdmissionReview")) {
            return Err("the body is no AdmissionReview of admission.k8s.io/v1".to_owned());
        }
        let mut request = review["request"].take();
        let operation = match request["operation"].as_str() {
            Some("CREATE") => Operation::Create,
            Some("UPDATE") => Operation::Update,
            Some("DELETE") => Operation::Delete,
            Some("CONNECT") => Operation::Connect,
            other => return Err(format!("{other:?} is no operation")),
        };
        if request.pointer("/resource/group").is_some_and(|group| group == STORED_GROUP) {
            // The rules are about the Clusters that are served.
            stored::serve(&mut request);
            request["resource"]["group"] = CLUSTER.into();
        }
        let uid = request["uid"].as_str().unwrap_or_default().to_owned();
        if uid.is_empty() {
            return Err("request.uid is missing".to_owned());
        }
        let groups = request.pointer("/userInfo/groups").and_then(Value::as_array);
        let groups = groups.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        Ok(Self { uid, operation, request, groups })
    }

    /// The write to review.
    #[must_use]
    pub fn request(&self) -> Request<'_> {
        let text = |pointer: &str| self.request.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let object = |key: &str| self.request.get(key).filter(|object| !object.is_null());
        Request {
            operation: self.operation,
            group: text("/resource/group"),
            version: text("/resource/version"),
            resource: text("/resource/resource"),
            subresource: text("/subResource"),
            kind: text("/kind/kind"),
            namespace: text("/namespace"),
            name: text("/name"),
            object: object("object"),
            old: object("oldObject"),
            user: text("/userInfo/username"),
            may_be_own: true,
            groups: &self.groups,
            field_manager: text("/options/fieldManager"),
            dry_run: self.request["dryRun"] == true,
        }
    }

    /// Names the objects that the review needs.
    #[must_use]
    pub fn needs(&self, webhook: &Webhook, config: &Config) -> BTreeSet<Need> {
        let mut needs = BTreeSet::new();
        webhook.ask(&self.request(), config, &mut needs);
        needs
    }

    /// Runs the webhook. Carry out the effects before the answer is sent, unless it is a dry run; if that fails,
    /// answer with [`Review::failed`].
    #[must_use]
    pub fn answer(&self, webhook: &Webhook, lookups: &Lookups, config: &Config) -> (Value, Verdict) {
        let request = self.request();
        if !webhook.matches(&request, config) {
            // The registration is wider than the rule, or the write is our own: admit it.
            return (self.wrap(&Verdict::default(), None), Verdict::default());
        }
        match webhook.phase() {
            Phase::Validating => {
                let verdict = rules::one_validation(webhook, &request, lookups, config);
                (self.wrap(&verdict, None), verdict)
            }
            Phase::Mutating => {
                let Some(raw) = request.object else {
                    return (self.wrap(&Verdict::default(), None), Verdict::default());
                };
                let mut object = raw.clone();
                let denial = rules::one_mutation(webhook, &mut object, &request, lookups, config).err();
                let patch = denial.is_none().then(|| diff::json_patch(raw, &object));
                let verdict = Verdict { denial, ..Verdict::default() };
                (self.wrap(&verdict, patch.filter(|patch| !patch.is_empty())), verdict)
            }
        }
    }

    /// The answer when the review itself failed.
    #[must_use]
    pub fn failed(&self, message: &str) -> Value {
        self.wrap(&Verdict { denial: Some(Denial::failure(message)), ..Verdict::default() }, None)
    }

    fn wrap(&self, verdict: &Verdict, patch: Option<Vec<Value>>) -> Value {
        let mut response = json!({"uid": self.uid, "allowed": verdict.denial.is_none()});
        if let Some(denial) = &verdict.denial {
            response["status"] =
                json!({"code": denial.code, "reason": denial.reason, "message": denial.message, "status": "Failure"});
        }
        if !verdict.warnings.is_empty() {
            response["warnings"] = json!(verdict.warnings);
        }
        if !verdict.audit.is_empty() {
            let audit: Map<String, Value> = verdict.audit.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
            response["auditAnnotations"] = Value::Object(audit);
        }
        if let Some(patch) = patch {
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(STANDARD.encode(Value::Array(patch).to_string()));
        }
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;

    fn review(resource: &str, object: Value) -> Value {
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "u1", "operation": "CREATE", "namespace": "shop", "name": "",
                "kind": {"group": "policy.karmada.io", "version": "v1alpha1", "kind": "X"},
                "resource": {"group": "policy.karmada.io", "version": "v1alpha1", "resource": resource},
                "object": object, "oldObject": null, "userInfo": {"username": "alice", "groups": ["g"]},
                "options": {"fieldManager": "kubectl"}, "dryRun": false,
            },
        })
    }

    fn answer(path: &str, review: &Value) -> Value {
        let review = Review::parse(review.to_string().as_bytes()).unwrap();
        let lookups = Lookups { id: "id-1".into(), ..Lookups::default() };
        review.answer(table::at_path(path).unwrap(), &lookups, &Config::default()).0["response"].clone()
    }

    #[test]
    fn a_mutation_is_answered_with_a_patch_of_the_raw_object() {
        let policy = json!({"metadata": {"generateName": "p-"}, "spec": {"resourceSelectors": [], "placement": {}, "priority": 0,
            "preemption": "Never", "conflictResolution": "Abort", "schedulerName": "default-scheduler", "newer": {"field": 1}}});
        let response = answer("/mutate-propagationpolicy", &review("propagationpolicies", policy));
        assert_eq!(
            (&response["uid"], &response["allowed"], &response["patchType"]),
            (&json!("u1"), &json!(true), &json!("JSONPatch"))
        );
        let patch = STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
        let patch: Value = serde_json::from_slice(&patch).unwrap();
        assert_eq!(
            patch,
            json!([
                {"op": "add", "path": "/metadata/finalizers", "value": ["karmada.io/propagation-policy-controller"]},
                {"op": "add", "path": "/metadata/labels", "value": {"propagationpolicy.karmada.io/permanent-id": "id-1"}},
            ])
        );
        let selected =
            json!({"spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "namespace": "shop"}]}});
        let response = answer("/mutate-overridepolicy", &review("overridepolicies", selected));
        assert_eq!(response, json!({"uid": "u1", "allowed": true}), "no difference, no patch");
    }

    #[test]
    fn outcomes() {
        let bad = json!({"metadata": {"namespace": "shop"}, "spec": {"overriders": {"plaintext": [{"path": "a", "operator": "remove"}]}}});
        let undecodable = json!({"metadata": {"namespace": "shop"}, "spec": {"overriders": 3}});
        let denied = r#"spec.overriders.plaintext[0].path: Invalid value: "a": JSON pointer must be empty or start with a "/": write /a"#;
        for (name, object, want) in [
            ("allowed", json!({"metadata": {"namespace": "shop"}, "spec": {}}), json!({"uid": "u1", "allowed": true})),
            (
                "denied",
                bad,
                json!({"uid": "u1", "allowed": false, "status": {"code": 403, "reason": "Forbidden", "message": denied, "status": "Failure"}}),
            ),
            (
                "undecodable",
                undecodable,
                json!({"uid": "u1", "allowed": false, "status": {"code": 400, "reason": "BadRequest", "message": "spec: invalid type: integer `3`, expected struct Overriders", "status": "Failure"}}),
            ),
        ] {
            assert_eq!(answer("/validate-overridepolicy", &review("overridepolicies", object)), want, "{name}");
        }
        let failed = Review::parse(review("x", json!({})).to_string().as_bytes()).unwrap().failed("no answer");
        assert_eq!(failed["response"]["status"]["code"], 500);
        for (body, want) in [
            ("{", "the body is no JSON"),
            ("{}", "the body is no AdmissionReview of admission.k8s.io/v1"),
            (r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#, "None is no operation"),
        ] {
            let error = Review::parse(body.as_bytes()).unwrap_err();
            assert!(error.starts_with(want), "{body}: {error}");
        }
    }

    #[test]
    fn no_handler_panics_on_odd_objects() {
        for webhook in table::WEBHOOKS {
            for object in [
                json!(null),
                json!(3),
                json!([]),
                json!({}),
                json!({"spec": null}),
                json!({"metadata": 3, "spec": {}}),
                json!({"metadata": {"labels": []}, "spec": {"placement": {}, "resourceSelectors": [{}]}}),
                json!({"spec": {"workload": {"manifests": [{}, {"metadata": []}]}}, "webhooks": [{}]}),
                json!({"spec": {"metrics": [{}, 3], "behavior": 3, "rules": [{"http": {}}], "scaleTargetRef": {}}}),
            ] {
                let mut review = review(webhook.resource, object.clone());
                review["request"]["resource"]["group"] = json!(webhook.group);
                for operation in ["CREATE", "UPDATE", "DELETE"] {
                    review["request"]["operation"] = json!(operation);
                    review["request"]["oldObject"] = object.clone();
                    let answer = answer(webhook.path, &review);
                    assert_eq!(answer["uid"], "u1", "{} {object}", webhook.path);
                }
            }
        }
    }
}
