//! Kinds that scale a target: where their objects have it, their bounds, and what they report
//! (specification/autoscaling.md 6.11).
//!
//! A row has paths instead of code, so that a user can add one: annotation `interpreter.ironclad.io/autoscaler` of a
//! ResourceInterpreterCustomization.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{annotations, config::ResourceInterpreterCustomization};
use ironclad_fleet::Gvk;
use k8s_openapi::api::autoscaling::v2::CrossVersionObjectReference;
use serde::Deserialize;
use serde_json::Value;

/// Longest path of a row.
const PATH_MAX: usize = 256;
/// Most totals of a row.
const TOTALS_MAX: usize = 16;

/// Kind of HorizontalPodAutoscalers.
const HPA: (&str, &str) = ("autoscaling", "HorizontalPodAutoscaler");

/// Rows by kind.
pub type AutoscalerKinds = BTreeMap<Gvk, Arc<AutoscalerKind>>;

/// Row of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoscalerKind {
    pub gvk: Gvk,
    pub paths: AutoscalerPaths,
}

/// Places in an object, as JSON pointers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AutoscalerPaths {
    /// Reference with `apiVersion`, `kind` and `name`; without the first two it is a Deployment.
    pub scale_target_ref: String,
    /// Minimum of all members together.
    #[serde(default)]
    pub min_replicas: Option<String>,
    /// Maximum of all members together.
    #[serde(default)]
    pub max_replicas: Option<String>,
    /// The minimum of an object that has none.
    #[serde(default = "one")]
    pub default_min_replicas: i32,
    /// The maximum of an object that has none.
    #[serde(default)]
    pub default_max_replicas: Option<i32>,
    /// Other numbers of replicas that are meant for all members together; `*` stands for every item of a list.
    #[serde(default)]
    pub totals: Vec<String>,
    /// Replicas that the object wants, in its status. Without it they are those that its target runs.
    #[serde(default)]
    pub desired_replicas: Option<String>,
    /// Type of the condition that says whether it can scale. Without it, it always can.
    #[serde(default)]
    pub able_condition: Option<String>,
}

fn one() -> i32 {
    1
}

/// Annotation that is no row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRow {
    /// It is not an object of these fields.
    #[error("is not understood: {0}")]
    Shape(String),
    /// A path is not a JSON pointer.
    #[error("{path:?} is not a JSON pointer of at most {PATH_MAX} characters, such as /spec/scaleTargetRef")]
    Path {
        /// The text.
        path: String,
    },
    /// Too many totals.
    #[error("totals has more than {TOTALS_MAX} paths")]
    Totals,
    /// Nothing to divide.
    #[error("has no number of replicas: give maxReplicas or totals")]
    NoNumber,
}

impl AutoscalerKind {
    /// The row of HorizontalPodAutoscalers.
    #[must_use]
    pub fn hpa() -> Self {
        let paths = AutoscalerPaths {
            scale_target_ref: "/spec/scaleTargetRef".to_owned(),
            min_replicas: Some("/spec/minReplicas".to_owned()),
            max_replicas: Some("/spec/maxReplicas".to_owned()),
            default_min_replicas: 1,
            desired_replicas: Some("/status/desiredReplicas".to_owned()),
            able_condition: Some("AbleToScale".to_owned()),
            ..AutoscalerPaths::default()
        };
        Self { gvk: Gvk { group: HPA.0.into(), version: "v2".into(), kind: HPA.1.into() }, paths }
    }

    /// The rows that are there without any customization.
    #[must_use]
    pub fn shipped() -> AutoscalerKinds {
        let text = str::to_owned;
        // KEDA makes a HorizontalPodAutoscaler, and scales to and from zero itself. Its status has no number.
        let scaled_object = AutoscalerPaths {
            scale_target_ref: text("/spec/scaleTargetRef"),
            min_replicas: Some(text("/spec/minReplicaCount")),
            max_replicas: Some(text("/spec/maxReplicaCount")),
            default_min_replicas: 0,
            default_max_replicas: Some(100),
            totals: vec![
                text("/spec/idleReplicaCount"),
                text("/spec/fallback/replicas"),
                text("/metadata/annotations/autoscaling.keda.sh~1paused-replicas"),
            ],
            able_condition: Some(text("Ready")),
            ..AutoscalerPaths::default()
        };
        // kubernetes-cronhpa-controller: each job has a number, and there are no bounds. Its conditions are of jobs.
        let cron = AutoscalerPaths {
            scale_target_ref: text("/spec/scaleTargetRef"),
            totals: vec![text("/spec/jobs/*/targetSize")],
            ..AutoscalerPaths::default()
        };
        let row = |api_version: &str, kind: &str, paths| {
            let gvk = Gvk::from_manifest(api_version, kind);
            (gvk.clone(), Arc::new(Self { gvk, paths }))
        };
        [
            row("keda.sh/v1alpha1", "ScaledObject", scaled_object),
            row("autoscaling.alibabacloud.com/v1beta1", "CronHorizontalPodAutoscaler", cron),
        ]
        .into()
    }

    /// Reads the annotation of a customization for this kind.
    ///
    /// # Errors
    /// If it is no row.
    pub fn of_annotation(gvk: Gvk, text: &str) -> Result<Self, InvalidRow> {
        let paths: AutoscalerPaths =
            serde_json::from_str(text).map_err(|error| InvalidRow::Shape(error.to_string()))?;
        let named = [&paths.min_replicas, &paths.max_replicas, &paths.desired_replicas];
        let all = std::iter::once(&paths.scale_target_ref).chain(named.into_iter().flatten()).chain(&paths.totals);
        for path in all {
            if !path.starts_with('/') || path.len() > PATH_MAX {
                return Err(InvalidRow::Path { path: path.clone() });
            }
        }
        if paths.totals.len() > TOTALS_MAX {
            return Err(InvalidRow::Totals);
        }
        if paths.max_replicas.is_none() && paths.totals.is_empty() {
            return Err(InvalidRow::NoNumber);
        }
        Ok(Self { gvk, paths })
    }

    /// The rows in annotations of customizations. Of two for one kind the first by name counts, and what is no row is
    /// left out.
    pub fn of_customizations<'a>(
        customizations: impl IntoIterator<Item = &'a ResourceInterpreterCustomization>,
    ) -> AutoscalerKinds {
        let mut all: Vec<_> = customizations.into_iter().collect();
        all.sort_by(|a, b| b.metadata.name.cmp(&a.metadata.name));
        let row = |customization: &&ResourceInterpreterCustomization| {
            let text = customization.metadata.annotations.as_ref()?.get(annotations::AUTOSCALER)?;
            let target = &customization.spec.target;
            let gvk = Gvk::from_manifest(&target.api_version, &target.kind);
            Some((gvk.clone(), Arc::new(Self::of_annotation(gvk, text).ok()?)))
        };
        all.iter().filter_map(row).collect()
    }

    /// Returns true for HorizontalPodAutoscalers, in any version.
    #[must_use]
    pub fn is_hpa(&self) -> bool {
        (&*self.gvk.group, &*self.gvk.kind) == HPA
    }

    /// Returns true if objects have a maximum. Others say numbers for moments.
    #[must_use]
    pub fn has_bounds(&self) -> bool {
        self.paths.max_replicas.is_some()
    }

    /// The target of an object.
    #[must_use]
    pub fn target(&self, object: &Value) -> Option<CrossVersionObjectReference> {
        let target = object.pointer(&self.paths.scale_target_ref)?;
        let of = |field: &str| target.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
        let name = of("name")?.to_owned();
        let api_version = Some(of("apiVersion").unwrap_or("apps/v1").to_owned());
        Some(CrossVersionObjectReference { api_version, kind: of("kind").unwrap_or("Deployment").to_owned(), name })
    }

    /// Minimum and maximum of an object; without bounds the smallest and the largest of its totals.
    #[must_use]
    pub fn bounds(&self, object: &Value) -> (i32, i32) {
        let at = |path: &Option<String>| object.pointer(path.as_ref()?).and_then(number);
        if self.has_bounds() {
            let min = at(&self.paths.min_replicas).unwrap_or(self.paths.default_min_replicas).max(0);
            let max = at(&self.paths.max_replicas).or(self.paths.default_max_replicas).unwrap_or(min);
            return (min, max);
        }
        let mut object = object.clone();
        let mut all = Vec::new();
        self.each_total(&mut object, |total| {
            all.push(total);
            total
        });
        (all.iter().copied().min().unwrap_or(0), all.iter().copied().max().unwrap_or(0))
    }

    /// Writes minimum and maximum into an object that has bounds.
    pub fn set_bounds(&self, object: &mut Value, min: i32, max: i32) {
        for (path, bound) in [(&self.paths.min_replicas, min), (&self.paths.max_replicas, max)] {
            let Some((parent, key)) = path.as_ref().and_then(|path| path.rsplit_once('/')) else { continue };
            let key = key.replace("~1", "/").replace("~0", "~");
            if let Some(fields) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
                fields.insert(key, bound.into());
            }
        }
    }

    /// Replaces every total of an object that is there.
    pub fn each_total(&self, object: &mut Value, mut share: impl FnMut(i32) -> i32) {
        for path in &self.paths.totals {
            let keys: Vec<String> =
                path.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~")).collect();
            each(object, &keys, &mut |value| {
                if let Some(total) = number(value) {
                    let share = share(total);
                    *value = if value.is_string() { share.to_string().into() } else { share.into() };
                }
            });
        }
    }
}

/// A number, also one in an annotation.
fn number(value: &Value) -> Option<i32> {
    let whole = value.as_i64().or_else(|| value.as_str()?.parse().ok())?;
    i32::try_from(whole).ok().filter(|number| *number >= 0)
}

fn each(value: &mut Value, keys: &[String], visit: &mut impl FnMut(&mut Value)) {
    let Some((key, rest)) = keys.split_first() else { return visit(value) };
    match value {
        Value::Array(items) if key == "*" => items.iter_mut().for_each(|item| each(item, rest, visit)),
        Value::Object(fields) => {
            if let Some(field) = fields.get_mut(key) {
                each(field, rest, visit);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Interpreter;

    fn shipped(api_version: &str, kind: &str) -> Arc<AutoscalerKind> {
        AutoscalerKind::shipped()[&Gvk::from_manifest(api_version, kind)].clone()
    }

    /// As KEDA's controller leaves it.
    fn scaled_object() -> Value {
        json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
            "metadata": {"name": "orders", "namespace": "shop", "finalizers": ["finalizer.keda.sh"],
                "labels": {"scaledobject.keda.sh/name": "orders"},
                "annotations": {"autoscaling.keda.sh/paused-replicas": "6"}},
            "spec": {"scaleTargetRef": {"name": "orders"}, "idleReplicaCount": 0, "minReplicaCount": 3, "maxReplicaCount": 30,
                "fallback": {"failureThreshold": 3, "replicas": 6},
                "triggers": [{"type": "rabbitmq", "metadata": {"queueName": "orders", "mode": "QueueLength", "value": "20"}}]},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "ScaledObjectReady",
                    "message": "ScaledObject is defined correctly and is ready for scaling"}],
                "externalMetricNames": ["s0-rabbitmq-orders"], "hpaName": "keda-hpa-orders", "originalReplicaCount": 1,
                "scaleTargetGVKR": {"group": "apps", "kind": "Deployment", "resource": "deployments", "version": "v1"},
                "scaleTargetKind": "apps/v1.Deployment"}})
    }

    /// As kubernetes-cronhpa-controller leaves it.
    fn cron() -> Value {
        json!({"apiVersion": "autoscaling.alibabacloud.com/v1beta1", "kind": "CronHorizontalPodAutoscaler",
            "metadata": {"name": "days", "namespace": "shop"},
            "spec": {"excludeDates": null,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
                "jobs": [{"name": "up", "schedule": "0 0 8 * * *", "runOnce": false, "targetSize": 12},
                    {"name": "down", "schedule": "0 0 20 * * *", "runOnce": false, "targetSize": 2}]},
            "status": {"conditions": [{"name": "up", "jobId": "a", "schedule": "0 0 8 * * *", "targetSize": 12, "runOnce": false,
                "state": "Submitted", "lastProbeTime": "2026-01-01T00:00:00Z", "message": ""}],
                "excludeDates": null, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}}})
    }

    fn target(api_version: &str, kind: &str, name: &str) -> Option<CrossVersionObjectReference> {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        Some(CrossVersionObjectReference { api_version: Some(api_version.to_owned()), kind, name })
    }

    #[test]
    fn rows_that_are_shipped() {
        let keda = shipped("keda.sh/v1alpha1", "ScaledObject");
        let mut object = scaled_object();
        assert_eq!(keda.target(&object), target("apps/v1", "Deployment", "orders"));
        assert_eq!(keda.bounds(&object), (3, 30));
        keda.set_bounds(&mut object, 1, 10);
        keda.each_total(&mut object, |total| total / 3);
        assert_eq!(keda.bounds(&object), (1, 10));
        assert_eq!(object["spec"]["fallback"]["replicas"], 2);
        assert_eq!(object["spec"]["idleReplicaCount"], 0);
        assert_eq!(object["metadata"]["annotations"]["autoscaling.keda.sh/paused-replicas"], "2");
        assert_eq!(keda.bounds(&json!({"spec": {"scaleTargetRef": {"name": "x"}}})), (0, 100), "KEDA's defaults");

        let row = shipped("autoscaling.alibabacloud.com/v1beta1", "CronHorizontalPodAutoscaler");
        let mut object = cron();
        assert_eq!(row.target(&object), target("apps/v1", "StatefulSet", "web"));
        assert_eq!((row.bounds(&object), row.has_bounds()), ((2, 12), false));
        row.each_total(&mut object, |total| total / 2);
        assert_eq!(object["spec"]["jobs"][0]["targetSize"], 6);
        assert_eq!(object["spec"]["jobs"][1]["targetSize"], 1);
        row.set_bounds(&mut object, 1, 9);
        assert_eq!(row.bounds(&object), (1, 6), "it has none to set");
    }

    #[test]
    fn rows_of_users() {
        let gvk = Gvk::from_manifest("x.io/v1", "Scaler");
        let parse = |text: &str| AutoscalerKind::of_annotation(gvk.clone(), text);
        let row = parse(r#"{"scaleTargetRef": "/spec/target", "maxReplicas": "/spec/most"}"#).unwrap();
        let mut object = json!({"spec": {"target": {"kind": "Farm", "apiVersion": "x.io/v1", "name": "f"}, "most": 9}});
        assert_eq!(row.target(&object), target("x.io/v1", "Farm", "f"));
        assert_eq!(row.bounds(&object), (1, 9));
        row.set_bounds(&mut object, 1, 4);
        assert_eq!(object["spec"]["most"], 4);
        for (name, text, want) in [
            ("no JSON", "x", "is not understood: expected value at line 1 column 1"),
            (
                "an unknown field",
                r#"{"scaleTargetRef": "/a", "most": "/b"}"#,
                "is not understood: unknown field `most`",
            ),
            (
                "not a pointer",
                r#"{"scaleTargetRef": ".spec.target", "maxReplicas": "/b"}"#,
                "\".spec.target\" is not a JSON",
            ),
            ("nothing to divide", r#"{"scaleTargetRef": "/a"}"#, "has no number of replicas"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(want), "{name}: {error}");
        }
        let many = format!(r#"{{"scaleTargetRef": "/a", "totals": [{}"/b"]}}"#, "\"/b\",".repeat(TOTALS_MAX));
        assert_eq!(parse(&many), Err(InvalidRow::Totals));
        let long = format!(r#"{{"scaleTargetRef": "/{}", "maxReplicas": "/b"}}"#, "a".repeat(PATH_MAX));
        assert!(matches!(parse(&long), Err(InvalidRow::Path { .. })));
    }

    #[test]
    fn customizations_name_rows() {
        let customization = |name: &str, text: &str| -> ResourceInterpreterCustomization {
            serde_json::from_value(
                json!({"metadata": {"name": name, "annotations": {"interpreter.ironclad.io/autoscaler": text}},
                "spec": {"target": {"apiVersion": "x.io/v1", "kind": "Scaler"}, "customizations": {}}}),
            )
            .unwrap()
        };
        let row = |max: &str| format!(r#"{{"scaleTargetRef": "/spec/target", "maxReplicas": "{max}"}}"#);
        let all = [customization("b", &row("/b")), customization("a", &row("/a")), customization("0", "no row")];
        let found = AutoscalerKind::of_customizations(&all);
        let gvk = Gvk::from_manifest("x.io/v1", "Scaler");
        assert_eq!(found[&gvk].paths.max_replicas.as_deref(), Some("/a"), "the first by name that is one");
        let all = Interpreter::default().with_autoscalers(Arc::new(found)).autoscalers();
        assert_eq!(all.len(), AutoscalerKind::shipped().len() + 1);
    }

    #[test]
    fn objects_of_other_shapes_have_no_target_and_no_numbers() {
        let row = shipped("keda.sh/v1alpha1", "ScaledObject");
        for mut odd in [json!(null), json!([]), json!({"spec": 3}), json!({"spec": {"scaleTargetRef": {"name": 4}}})] {
            assert_eq!(row.target(&odd), None);
            assert_eq!(row.bounds(&odd), (0, 100));
            row.set_bounds(&mut odd, 1, 2);
            row.each_total(&mut odd, |_| 1);
        }
        let negative = json!({"spec": {"minReplicaCount": -3, "maxReplicaCount": 1e30}});
        assert_eq!(row.bounds(&negative), (0, 100));
    }
}
