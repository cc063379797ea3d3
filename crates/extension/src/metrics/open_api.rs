//! OpenAPI v3 of the metrics APIs.

use ironclad_apiserver::{OpenApi, OpenApiVersion};
use serde_json::{Map, Value, json};

use super::address::Group;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const LABEL_SELECTOR: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const OBJECT_REFERENCE: &str = "io.k8s.api.core.v1.ObjectReference";

/// Returns the documents of these groups.
pub(crate) fn documents(groups: &[Group]) -> OpenApi {
    let versions = groups.iter().flat_map(|group| group.versions().iter().map(|version| describe(*group, version)));
    OpenApi::new(&versions.collect::<Vec<_>>())
}

fn describe(group: Group, version: &'static str) -> OpenApiVersion {
    let api = Api { group, version };
    let (paths, schemas) = match group {
        Group::Resource => (api.paths_of_resources(), api.schemas_of_resources()),
        Group::Custom => (api.paths_of_custom_metrics(), api.schemas_of_custom_metrics()),
        Group::External => (api.paths_of_external_metrics(), api.schemas_of_external_metrics()),
    };
    OpenApiVersion {
        group: group.name(),
        version,
        paths: paths.into_iter().collect(),
        schemas: schemas.into_iter().map(|(kind, schema)| (api.name(kind), schema)).collect(),
    }
}

/// One version of a group.
#[derive(Clone, Copy)]
struct Api {
    group: Group,
    version: &'static str,
}

/// Body of an answer to a GET.
#[derive(Clone, Copy)]
enum Answer {
    /// One object of this kind.
    One(&'static str),
    /// A list of objects of this kind.
    Many(&'static str),
}

impl Api {
    /// The name of a kind's schema.
    fn name(self, kind: &str) -> String {
        let package = match self.group {
            Group::Resource => "metrics",
            Group::Custom => "custom_metrics",
            Group::External => "external_metrics",
        };
        format!("io.k8s.metrics.pkg.apis.{package}.{}.{kind}", self.version)
    }

    fn gvk(self, kind: &str) -> Value {
        json!({"group": self.group.name(), "version": self.version, "kind": kind})
    }

    fn paths_of_resources(self) -> Vec<(String, Value)> {
        let (nodes, pods) = ("NodeMetrics", "PodMetrics");
        let labels: &[_] = &[LABELS, FIELDS, CLUSTER];
        vec![
            self.path("nodes", Answer::Many(nodes), &[], labels),
            self.path("nodes/{name}", Answer::One(nodes), &[NAME], &[CLUSTER]),
            self.path("pods", Answer::Many(pods), &[], labels),
            self.path("namespaces/{namespace}/pods", Answer::Many(pods), &[NAMESPACE], labels),
            self.path("namespaces/{namespace}/pods/{name}", Answer::One(pods), &[NAMESPACE, NAME], &[CLUSTER]),
        ]
    }

    fn paths_of_custom_metrics(self) -> Vec<(String, Value)> {
        let values = Answer::Many("MetricValue");
        let query: &[_] = &[LABELS, METRIC_LABELS, CLUSTER];
        vec![
            self.path("{resource}/{name}/{metric}", values, &[RESOURCE, NAME, METRIC], query),
            self.path(
                "namespaces/{namespace}/{resource}/{name}/{metric}",
                values,
                &[NAMESPACE, RESOURCE, NAME, METRIC],
                query,
            ),
        ]
    }

    fn paths_of_external_metrics(self) -> Vec<(String, Value)> {
        let values = Answer::Many("ExternalMetricValue");
        vec![self.path("namespaces/{namespace}/{metric}", values, &[NAMESPACE, METRIC], &[LABELS, CLUSTER])]
    }

    /// A path below the version, with its one operation.
    fn path(self, below: &str, answer: Answer, places: &[Parameter], query: &[Parameter]) -> (String, Value) {
        let (action, kind, schema) = match answer {
            Answer::One(kind) => ("get", kind, self.reference(kind)),
            Answer::Many(kind) => ("list", kind, self.reference(&format!("{kind}List"))),
        };
        let of = |place: &'static str| {
            move |(name, text): &Parameter| {
                json!({"name": name, "in": place, "description": text, "required": place == "path",
                    "schema": {"type": "string", "uniqueItems": true}})
            }
        };
        let parameters: Vec<Value> = places.iter().map(of("path")).chain(query.iter().map(of("query"))).collect();
        let get = json!({
            "parameters": parameters,
            "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}},
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": self.gvk(kind),
        });
        (format!("/apis/{}/{}/{below}", self.group.name(), self.version), json!({"get": get}))
    }

    fn reference(self, kind: &str) -> Value {
        reference(&self.name(kind))
    }

    fn schemas_of_resources(self) -> Vec<(&'static str, Value)> {
        let measured = |mut fields: Vec<Property>| {
            fields.insert(
                0,
                metadata(
                    OBJECT_META,
                    "Name, namespace and labels of what was measured. The annotation \
                resource.karmada.io/query-from-cluster names its cluster.",
                ),
            );
            fields.push(required("timestamp", "End of the time that was measured.", reference(TIME)));
            fields.push(required("window", "Length of the time that was measured, such as 15s.", text()));
            fields
        };
        let usage = |of: &str| {
            let text = format!("Usage of {of} by resource: cpu in cores, memory in bytes of the working set.");
            let amounts = json!({"type": "object", "additionalProperties": reference(QUANTITY)});
            ("usage", text, amounts, true)
        };
        let containers = json!({"type": "array", "items": self.reference("ContainerMetrics"),
            "x-kubernetes-list-type": "atomic"});
        let containers = required("containers", "Usage of each container, measured in the same time.", containers);
        vec![
            (
                "NodeMetrics",
                self.kind("NodeMetrics", "Usage of a node of a member.", measured(vec![usage("the node")])),
            ),
            ("NodeMetricsList", self.list("NodeMetrics", "Usage of nodes of all members.")),
            ("PodMetrics", self.kind("PodMetrics", "Usage of a pod of a member.", measured(vec![containers]))),
            ("PodMetricsList", self.list("PodMetrics", "Usage of pods of all members.")),
            (
                "ContainerMetrics",
                object(
                    "Usage of a container.",
                    vec![required("name", "Name of the container.", text()), usage("the container")],
                ),
            ),
        ]
    }

    fn schemas_of_custom_metrics(self) -> Vec<(&'static str, Value)> {
        let is_old = self.version == "v1beta1";
        let mut fields =
            vec![required("describedObject", "Object that the value describes.", reference(OBJECT_REFERENCE))];
        let selector =
            || ("selector", "Selector of the labels of the metric.".to_owned(), reference(LABEL_SELECTOR), false);
        match is_old {
            true => fields.extend([required("metricName", "Name of the metric.", text()), selector()]),
            false => {
                fields.push(required("metric", "Name and selector of the metric.", self.reference("MetricIdentifier")))
            }
        }
        fields.extend(value());
        fields.push(window(if is_old { "window" } else { "windowSeconds" }));
        let mut schemas = vec![
            ("MetricValue", self.kind("MetricValue", "Value of a metric of an object, over all members.", fields)),
            ("MetricValueList", self.list("MetricValue", "Values of a metric of objects.")),
        ];
        if !is_old {
            let identifier = vec![required("name", "Name of the metric.", text()), selector()];
            schemas.push(("MetricIdentifier", object("Name of a metric, and a selector of its labels.", identifier)));
        }
        schemas
    }

    fn schemas_of_external_metrics(self) -> Vec<(&'static str, Value)> {
        let labels = json!({"type": "object", "additionalProperties": text()});
        let mut fields = vec![
            required("metricName", "Name of the metric.", text()),
            required("metricLabels", "Labels of the series.", labels),
        ];
        fields.extend(value());
        fields.push(window("window"));
        let text = "Value of a series of a metric that belongs to no object.";
        vec![
            ("ExternalMetricValue", self.kind("ExternalMetricValue", text, fields)),
            ("ExternalMetricValueList", self.list("ExternalMetricValue", "Values of the series of a metric.")),
        ]
    }

    /// A schema with kind and apiVersion.
    fn kind(self, kind: &str, description: &str, mut fields: Vec<Property>) -> Value {
        fields.extend(type_meta());
        let mut schema = object(description, fields);
        schema["x-kubernetes-group-version-kind"] = json!([self.gvk(kind)]);
        schema
    }

    fn list(self, kind: &str, description: &str) -> Value {
        let items = json!({"type": "array", "items": self.reference(kind)});
        let failed = "Metadata of the list. The annotation resource.karmada.io/query-failed-clusters names clusters that \
            did not answer.";
        let fields = vec![required("items", "The measurements.", items), metadata(LIST_META, failed)];
        self.kind(&format!("{kind}List"), description, fields)
    }
}

/// Name and description of a parameter.
type Parameter = (&'static str, &'static str);

const NAME: Parameter = ("name", "Name of the object; * for all that the selector selects.");
const NAMESPACE: Parameter = ("namespace", "Namespace of the object.");
const RESOURCE: Parameter = ("resource", "Resource of the object, with its group: deployments.apps.");
const METRIC: Parameter = ("metric", "Name of the metric.");
const LABELS: Parameter = ("labelSelector", "Selector of labels.");
const FIELDS: Parameter = ("fieldSelector", "Selector of metadata.name and metadata.namespace.");
const METRIC_LABELS: Parameter = ("metricLabelSelector", "Selector of the labels of the metric.");
const CLUSTER: Parameter = ("cluster", "Members to ask, separated by commas; all by default.");

/// Name, description and schema of a field, and true if it is required.
type Property = (&'static str, String, Value, bool);

fn required(name: &'static str, description: &str, schema: Value) -> Property {
    (name, description.to_owned(), schema, true)
}

fn metadata(schema: &str, description: &str) -> Property {
    ("metadata", description.to_owned(), reference(schema), false)
}

fn value() -> [Property; 2] {
    [required("timestamp", "Time of the value.", reference(TIME)), required("value", "The value.", reference(QUANTITY))]
}

fn window(name: &'static str) -> Property {
    let description = "Seconds before the timestamp in which the value was measured; 0 for a value of one moment.";
    (name, description.to_owned(), json!({"type": "integer", "format": "int64"}), false)
}

fn type_meta() -> [Property; 2] {
    let described = |name, description: &str| (name, description.to_owned(), text(), false);
    [described("apiVersion", "Group and version of the API."), described("kind", "Kind of the object.")]
}

fn object(description: &str, fields: Vec<Property>) -> Value {
    let needed: Vec<&str> = fields.iter().filter(|(.., needed)| *needed).map(|(name, ..)| *name).collect();
    let needed = json!(needed);
    let properties: Map<String, Value> = fields
        .into_iter()
        .map(|(name, description, schema, _)| {
            // Fields beside a reference are ignored.
            let mut schema = if schema.get("$ref").is_some() { json!({"allOf": [schema]}) } else { schema };
            schema["description"] = json!(description);
            (name.to_owned(), schema)
        })
        .collect();
    let mut schema = json!({"type": "object", "description": description, "properties": properties});
    if needed.as_array().is_some_and(|needed| !needed.is_empty()) {
        schema["required"] = needed;
    }
    schema
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn text() -> Value {
    json!({"type": "string"})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use http::HeaderMap;
    use http_body_util::BodyExt as _;

    use super::*;

    async fn get(documents: &OpenApi, url: &str) -> Value {
        let (path, query) = url.split_once('?').map_or((url, None), |(path, query)| (path, Some(query)));
        let response = documents.answer(path, query, &HeaderMap::new()).unwrap();
        assert_eq!(response.status(), 200, "{url}");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&body).unwrap()
    }

    fn references<'a>(value: &'a Value, into: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(map) => {
                into.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|value| references(value, into));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, into)),
            _ => {}
        }
    }

    #[tokio::test]
    async fn documents_have_all_that_they_refer_to() {
        let documents = documents(&Group::ALL);
        let index = get(&documents, "/openapi/v3").await;
        let paths: Vec<&String> = index["paths"].as_object().unwrap().keys().collect();
        assert_eq!(
            paths,
            [
                "apis/custom.metrics.k8s.io/v1beta1",
                "apis/custom.metrics.k8s.io/v1beta2",
                "apis/external.metrics.k8s.io/v1beta1",
                "apis/metrics.k8s.io/v1beta1",
            ]
        );
        for path in paths {
            let url = index["paths"][path]["serverRelativeURL"].as_str().unwrap();
            let document = get(&documents, url).await;
            let schemas = document["components"]["schemas"].as_object().unwrap();
            let mut found = BTreeSet::new();
            references(&document, &mut found);
            for reference in &found {
                let name = reference.strip_prefix("#/components/schemas/").unwrap();
                assert!(schemas.contains_key(name), "{path}: {name}");
            }
            for (place, operations) in document["paths"].as_object().unwrap() {
                let kind = &operations["get"]["x-kubernetes-group-version-kind"];
                let has = |schema: &Value| schema["x-kubernetes-group-version-kind"][0] == *kind;
                assert!(place.starts_with(&format!("/{path}/")) && schemas.values().any(has), "{place}: {kind}");
            }
        }
        assert!(documents.answer("/openapi/v2", None, &HeaderMap::new()).is_none());
        let missing = documents.answer("/openapi/v3/apis/apps/v1", None, &HeaderMap::new()).unwrap();
        assert_eq!(missing.status(), 404);
    }
}
