//! Schemas of the CRDs compared with the field tables of the reference in both directions: names, types, required
//! fields, enums, defaults and limits.

use std::collections::{BTreeMap, BTreeSet};

use ironclad_api::crds;
use ironclad_reference::{Reference, Table};
use serde_json::{Value, json};

/// Tables and the schema paths that they describe. A path is a kind and a JSON path.
const TABLES: [(&str, &[(&str, &str)]); 25] = [
    (
        "**ClusterAffinity** (policy group",
        &[
            ("PropagationPolicy", "spec.placement.clusterAffinity"),
            ("ClusterResourceBinding", "spec.placement.clusterAffinity"),
            ("OverridePolicy", "spec.targetCluster"),
            ("OverridePolicy", "spec.overrideRules.targetCluster"),
            ("ClusterTaintPolicy", "spec.targetClusters"),
            ("ClusterTaintPolicy", "spec.targetCluster"),
        ],
    ),
    (
        "**ResourceSelector** (policy group)",
        &[("PropagationPolicy", "spec.resourceSelectors"), ("OverridePolicy", "spec.resourceSelectors")],
    ),
    ("`spec` (ClusterSpec)", &[("Cluster", "spec")]),
    ("`status` (ClusterStatus)", &[("Cluster", "status")]),
    ("### 3.1", &[("PropagationPolicy", "spec"), ("ClusterPropagationPolicy", "spec")]),
    ("**SchedulePriority** (policy form)", &[("PropagationPolicy", "spec.schedulePriority")]),
    (
        "### 3.2",
        &[
            ("PropagationPolicy", "spec.failover"),
            ("ResourceBinding", "spec.failover"),
            ("ClusterResourceBinding", "spec.failover"),
        ],
    ),
    ("### 3.3", &[("PropagationPolicy", "spec.placement"), ("ResourceBinding", "spec.placement")]),
    ("**SpreadConstraint**", &[("PropagationPolicy", "spec.placement.spreadConstraints")]),
    ("**ReplicaSchedulingStrategy**", &[("PropagationPolicy", "spec.placement.replicaScheduling")]),
    ("### 4.1", &[("OverridePolicy", "spec"), ("ClusterOverridePolicy", "spec")]),
    (
        "**Overriders** – applied",
        &[("OverridePolicy", "spec.overriders"), ("ClusterOverridePolicy", "spec.overrideRules.overriders")],
    ),
    ("## 5.", &[("ClusterTaintPolicy", "spec")]),
    ("## 6.", &[("FederatedResourceQuota", "")]),
    ("### 7.1", &[("ResourceBinding", "spec"), ("ClusterResourceBinding", "spec")]),
    ("**GracefulEvictionTask**", &[("ResourceBinding", "spec.gracefulEvictionTasks")]),
    ("### 7.2", &[("ResourceBinding", "status"), ("ClusterResourceBinding", "status")]),
    ("## 8.", &[("Work", "")]),
    ("### 9.1", &[("ResourceInterpreterCustomization", "spec")]),
    ("### 9.2", &[("ResourceInterpreterWebhookConfiguration", "webhooks")]),
    ("### 10.1", &[("FederatedHPA", "")]),
    ("### 10.2", &[("CronFederatedHPA", "")]),
    ("### 11.2", &[("MultiClusterService", "")]),
    ("### 11.3", &[("WorkloadRebalancer", "")]),
    ("### 11.4", &[("Remedy", "")]),
];

/// Limits that admission checks, not the schema: specification/admission.md 1.4 lists those in schemas.
const ADMISSIONS: [(&str, &str); 1] = [("ResourceInterpreterWebhookConfiguration", "timeoutSeconds")];

#[test]
fn schemas_match_the_field_tables() {
    let schemas = schemas();
    let mut wrong = Vec::new();
    let sim = ("### 11.8", &[("SimulatedCluster", "")] as &[_]);
    for (anchor, places) in TABLES.iter().copied().chain([sim]) {
        let table = Reference::Api.table(anchor);
        for (kind, path) in places {
            let root = node(&schemas[*kind], path).unwrap_or_else(|| panic!("{kind} has {path}"));
            let mut checker = Checker { root, place: format!("{kind} {path}"), wrong: &mut wrong };
            checker.check(&table, kind);
        }
    }
    assert!(wrong.is_empty(), "{} differences from api.md:\n{}", wrong.len(), wrong.join("\n"));
}

/// The schema of the stored version of each kind.
pub(crate) fn schemas() -> BTreeMap<String, Value> {
    let mut crds = crds::crds();
    crds.push(crds::simulated_cluster_crd());
    let stored = |crd: &Value| {
        let versions = crd["spec"]["versions"].as_array().unwrap();
        versions.iter().find(|version| version["storage"] == true).unwrap()["schema"]["openAPIV3Schema"].clone()
    };
    crds.iter()
        .map(|crd| serde_json::to_value(crd).unwrap())
        .map(|crd| (crd["spec"]["names"]["kind"].as_str().unwrap().to_owned(), stored(&crd)))
        .collect()
}

/// The schema at a path; lists are entered implicitly.
pub(crate) fn node<'a>(root: &'a Value, path: &str) -> Option<&'a Value> {
    let mut schema = root;
    for segment in path.split('.').filter(|segment| !segment.is_empty()) {
        schema = inside(schema)["properties"].get(segment.trim_end_matches("[]"))?;
    }
    Some(schema)
}

pub(crate) fn inside(schema: &Value) -> &Value {
    schema.get("items").unwrap_or(schema)
}

fn parent(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

/// Compares the schema at one path with its table or text.
pub(crate) struct Checker<'a> {
    pub(crate) root: &'a Value,
    pub(crate) place: String,
    pub(crate) wrong: &'a mut Vec<String>,
}

impl Checker<'_> {
    fn check(&mut self, table: &Table, kind: &str) {
        // Paths to which rows with a leading "…" refer, and whether their fields were named there.
        let mut context: Vec<String> = Vec::new();
        let mut described = false;
        let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for row in &table.rows {
            let cell = table.cell(row, "Path");
            let only_namespaced = ["Default", "Constraints", "Meaning"]
                .iter()
                .any(|c| table.cell(row, c).contains("ResourceBinding only"));
            if only_namespaced && kind == "ClusterResourceBinding" {
                continue;
            }
            let paths = match cell.strip_prefix('…') {
                Some(rest) => {
                    let names = self.paths(rest);
                    context.iter().flat_map(|at| names.iter().map(move |name| format!("{at}.{name}"))).collect()
                }
                None => {
                    context = self.paths(cell);
                    described = false;
                    context.clone()
                }
            };
            for path in paths {
                self.row(table, row, &path, kind);
                if described {
                    continue;
                }
                self.required(table, row, &path);
                for (at, _) in path.match_indices('.').chain([(path.len(), "")]) {
                    let (parent, name) = parent(&path[..at]);
                    named.entry(parent.to_owned()).or_default().insert(name.trim_end_matches("[]").to_owned());
                }
            }
            described |= table.cell(row, "Type").contains('{');
        }
        for (path, names) in named {
            let Some(schema) = node(self.root, &path) else { continue };
            let root_members = ["apiVersion", "kind", "metadata"];
            let is_root = self.place.ends_with(' ') && path.is_empty();
            let is_named =
                |name: &&String| !(names.contains(*name) || is_root && root_members.contains(&name.as_str()));
            let extra: Vec<_> =
                inside(schema)["properties"].as_object().into_iter().flat_map(|p| p.keys()).filter(is_named).collect();
            if !extra.is_empty() {
                self.wrong.push(format!("{}: {path:?} has {extra:?}, which the table does not name", self.place));
            }
        }
    }

    /// `a.b, c` and `a.b / c`: what follows the first is a path of its own, or a sibling of the first.
    fn paths(&self, cell: &str) -> Vec<String> {
        let parts: Vec<&str> = cell.split([',', '/']).map(str::trim).collect();
        let (siblings, _) = parent(parts[0]);
        let sibling = |part: &str| match siblings {
            "" => part.to_owned(),
            of => format!("{of}.{part}"),
        };
        let mut paths = vec![parts[0].to_owned()];
        for part in &parts[1..] {
            match part.strip_prefix('.') {
                Some(part) => paths.push(sibling(part)),
                None if node(self.root, part).is_some() => paths.push((*part).to_owned()),
                None => paths.push(sibling(part)),
            }
        }
        paths
    }

    fn required(&mut self, table: &Table, row: &[String], path: &str) {
        if !table.has("R") {
            return;
        }
        let cell = table.cell(row, "R");
        let want = cell.starts_with('R') && !cell.starts_with("R in Karmada");
        let (parent, name) = parent(path);
        let required = node(self.root, parent).map_or(&Value::Null, |parent| &inside(parent)["required"]);
        let name = name.trim_end_matches("[]");
        let is = required.as_array().is_some_and(|required| required.iter().any(|of| of == name));
        if want != is {
            self.wrong.push(format!("{}: {path} is required: {is}, by the table {want}", self.place));
        }
    }

    fn row(&mut self, table: &Table, row: &[String], path: &str, kind: &str) {
        let Some(schema) = node(self.root, path) else {
            self.wrong.push(format!("{}: no field {path}", self.place));
            return;
        };
        // A path that ends in [] has the type of its items in the table.
        let schema = if path.ends_with("[]") { inside(schema) } else { schema };
        self.type_(schema, table.cell(row, "Type"), path);
        let constraints = [table.cell(row, "Default"), table.cell(row, "Constraints")].concat();
        if !ADMISSIONS.contains(&(kind, path)) {
            self.constraints(schema, &Constraints::parse(&constraints), path);
        }
    }

    fn differs(&mut self, path: &str, what: &str, is: &Value, want: &Value) {
        if is != want {
            self.wrong.push(format!("{}: {path}: {what} is {is}, by the table {want}", self.place));
        }
    }

    fn type_(&mut self, schema: &Value, text: &str, path: &str) {
        let text = text.trim();
        if let Some(item) = text.strip_prefix("[]") {
            self.differs(path, "type", &schema["type"], &json!("array"));
            return self.type_(&schema["items"], item, &format!("{path}[]"));
        }
        if let Some(at) = text.find('{') {
            let name = text[..at].trim();
            self.differs(path, "type", &schema["type"], &json!("object"));
            if name.is_empty() || name == "ptr" {
                self.members(schema, &text[at + 1..], path);
            }
            return;
        }
        let word = text.split([' ', '(']).next().unwrap_or_default();
        let want = match word {
            "str" => json!({ "type": "string", "format": null }),
            "bool" => json!({ "type": "boolean" }),
            "i32" => json!({ "type": "integer", "format": "int32" }),
            "i64" => json!({ "type": "integer", "format": "int64" }),
            "int" | "uint" => json!({ "type": "integer", "format": null, "minimum": null }),
            "time" => json!({ "type": "string", "format": "date-time" }),
            "Quantity" => json!({ "type": null, "x-kubernetes-int-or-string": true }),
            "map" => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
            "any" if text.contains("object") => {
                json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
            }
            "any" => json!({ "x-kubernetes-preserve-unknown-fields": true }),
            "ResourceList" => {
                let is = &schema["additionalProperties"]["x-kubernetes-int-or-string"];
                return self.differs(path, "a quantity", is, &json!(true));
            }
            "" | "as" => return,
            "ptr" | "object" => json!({ "type": "object" }),
            named if named.contains('/') || named.starts_with(char::is_uppercase) => json!({ "type": "object" }),
            other => panic!("{}: {path}: what type is {other:?}?", self.place),
        };
        for (keyword, want) in want.as_object().unwrap() {
            self.differs(path, keyword, &schema[keyword], want);
        }
    }

    /// `{name R type, other type; third}`, after the brace.
    pub(crate) fn members(&mut self, schema: &Value, text: &str, path: &str) {
        let mut names = BTreeSet::new();
        for member in split_members(text) {
            let member = member.trim().trim_start_matches("Ironclad: ");
            let (name, rest) = member.split_once([' ', ':']).unwrap_or((member, ""));
            let (name, rest) = (name.trim_end_matches("[]"), rest.trim());
            let (required, rest) = match rest.strip_prefix('R') {
                Some(rest) if rest.is_empty() || rest.starts_with(' ') => (true, rest.trim()),
                _ => (false, rest),
            };
            names.insert(name.to_owned());
            let path = format!("{path}.{name}");
            let Some(property) = schema["properties"].get(name) else {
                self.wrong.push(format!("{}: no field {path}", self.place));
                continue;
            };
            let is = schema["required"].as_array().is_some_and(|required| required.iter().any(|of| of == name));
            if is != required {
                self.wrong.push(format!("{}: {path} is required: {is}, by the table {required}", self.place));
            }
            let at = rest.find("enum ").filter(|_| !rest.contains('{')).unwrap_or(rest.len());
            let (type_, constraint) = rest.split_at(at);
            // Words that are not a type are an example of a value.
            let is_type =
                !type_.starts_with(char::is_uppercase) || type_.contains("List") || type_.starts_with("Quantity");
            if is_type && type_ != "[]" {
                self.type_(property, type_, &path);
            }
            let mut constraints = Constraints::parse(constraint);
            constraints.minimum = type_.rsplit_once("min ").and_then(|(_, min)| min.trim().parse().ok());
            if !type_.contains('{') && !type_.starts_with("[]") {
                self.constraints(property, &constraints, &path);
            }
        }
        let extra = schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys());
        let extra: Vec<_> = extra.filter(|name| !names.contains(*name)).collect();
        if !extra.is_empty() {
            self.wrong.push(format!("{}: {path} has {extra:?}, which the table does not name", self.place));
        }
    }

    fn constraints(&mut self, schema: &Value, want: &Constraints, path: &str) {
        if schema["type"] == "object" {
            return;
        }
        self.differs(path, "default", &schema["default"], &want.default);
        self.differs(path, "enum", &schema["enum"], &want.values);
        if schema["type"] == "array" {
            self.differs(path, "minItems", &schema["minItems"], &want.min_items.into());
        }
        if schema["type"] == "integer" {
            self.differs(path, "minimum", &as_integer(&schema["minimum"]), &want.minimum.into());
            self.differs(path, "maximum", &as_integer(&schema["maximum"]), &want.maximum.into());
        }
        if schema["type"] == "string" && schema["format"].is_null() {
            self.differs(path, "minLength", &schema["minLength"], &want.min_length.into());
            self.differs(path, "maxLength", &schema["maxLength"], &want.max_length.into());
            self.differs(path, "pattern", &schema["pattern"], &want.pattern);
        }
    }
}

/// JSON Schema's limits are numbers, which serde writes as 1.0.
fn as_integer(limit: &Value) -> Value {
    limit.as_f64().map_or(Value::Null, |limit| json!(limit as i64))
}

/// Splits at commas and semicolons, but not inside braces or within the values of an enum.
fn split_members(text: &str) -> Vec<String> {
    let mut members: Vec<String> = vec![String::new()];
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '{' | '(' => depth += 1,
            '}' | ')' if depth == 0 => break,
            '}' | ')' => depth -= 1,
            ',' | ';' if depth == 0 => {
                members.push(c.to_string());
                continue;
            }
            _ => {}
        }
        members.last_mut().expect("the list starts with one part").push(c);
    }
    let mut joined: Vec<String> = Vec::new();
    for member in members {
        let (separator, word) = match member.strip_prefix([',', ';']) {
            Some(word) => (&member[..1], word.trim()),
            None => ("", member.trim()),
        };
        match joined.last_mut() {
            Some(last) if last.contains("enum ") && separator == "," && !word.contains(' ') => {
                last.push_str(", ");
                last.push_str(word);
            }
            _ if word.starts_with("default ") => {}
            _ => joined.push(word.to_owned()),
        }
    }
    joined
}

/// Constraints of a cell that a schema can express; admission checks the others.
#[derive(Default)]
struct Constraints {
    default: Value,
    values: Value,
    minimum: Option<i64>,
    maximum: Option<i64>,
    min_items: Option<i64>,
    min_length: Option<i64>,
    max_length: Option<i64>,
    pattern: Value,
}

impl Constraints {
    fn parse(cell: &str) -> Self {
        let plain = cell.replace(['*', '`'], "");
        let plain = plain.split(" (").next().unwrap_or_default().split(" – ").next().unwrap_or_default();
        let mut parsed = Self::default();
        if let Some((_, pattern)) = cell.split_once("pattern `") {
            parsed.pattern = pattern.split('`').next().into();
        }
        if let Some((one, other)) = plain.split_once(" | ") {
            parsed.values = json!([one, other]);
        }
        for part in plain.split("; ").map(str::trim) {
            if let Some(default) = part.strip_prefix("default ") {
                parsed.default = serde_json::from_str(default).unwrap_or_else(|_| json!(default));
            } else if let Some(values) = part.strip_prefix("enum ") {
                // "Lazy; empty = immediate" was split at the semicolon.
                parsed.values = values.split(", ").collect();
            } else if let Some(limit) = part.strip_prefix("minItems ") {
                parsed.min_items = limit.split(' ').next().and_then(|limit| limit.parse().ok());
            } else {
                parsed.limits(part);
            }
        }
        parsed
    }

    /// `1–32 chars`, `1–32`, `maxLength 128000`, with more after a comma.
    fn limits(&mut self, part: &str) {
        for limit in part.split(", ") {
            if let Some(max) = limit.strip_prefix("maxLength ") {
                self.max_length = max.parse().ok();
            } else if let Some((min, max)) = limit.split_once('–') {
                let chars = max.ends_with(" chars");
                let (min, max) = (min.parse().ok(), max.trim_end_matches(" chars").parse().ok());
                match (chars, min.is_some() && max.is_some()) {
                    (true, _) => (self.min_length, self.max_length) = (min, max),
                    (false, true) => (self.minimum, self.maximum) = (min, max),
                    (false, false) => {}
                }
            }
        }
    }
}

#[test]
fn cells_of_tables_are_parsed() {
    let parsed = Constraints::parse("**default KubePriorityClass; enum A, B** (proposal 002; Karmada: no default)");
    assert_eq!((parsed.default, parsed.values), (json!("KubePriorityClass"), json!(["A", "B"])));
    let parsed = Constraints::parse("enum Lazy; empty = immediate");
    assert_eq!((parsed.default, parsed.values), (Value::Null, json!(["Lazy"])));
    let parsed = Constraints::parse("admission default 1; ≥ 1");
    assert_eq!((parsed.default, parsed.minimum), (Value::Null, None));
    let parsed = Constraints::parse("default 3; 0–32");
    assert_eq!((parsed.default, parsed.minimum, parsed.maximum), (json!(3), Some(0), Some(32)));
    let parsed = Constraints::parse("1–32 chars, pattern `^[A-Z]`");
    assert_eq!((parsed.min_length, parsed.max_length, parsed.minimum), (Some(1), Some(32), None));
    assert_eq!(parsed.pattern, "^[A-Z]");
    assert_eq!(
        split_members("path R str, operator R enum add, remove, replace; value any, deep {a, b}} rest"),
        ["path R str", "operator R enum add, remove, replace", "value any", "deep {a, b}"]
    );
}
