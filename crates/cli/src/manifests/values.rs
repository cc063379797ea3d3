//! Values of an installation: the defaults of the chart, files over them, and `--set` over those.

use anyhow::Context as _;
use serde_json::{Map, Value};

use crate::report::Misused;

/// The values of the chart, with their defaults.
const DEFAULTS: &str = include_str!("../../../../charts/ironclad/values.yaml");
/// Maps of the defaults that have entries and may get others.
const OPEN: [&str; 1] = ["resources.requests"];
/// Maps whose entries are texts.
const TEXTS: [&str; 6] = [
    "embedded.service.annotations", "metrics.serviceMonitor.labels", "monitoring.rules.labels", "nodeSelector",
    "podAnnotations", "serviceAccount.annotations",
];
/// Lists of texts.
const TEXT_LISTS: [&str; 6] = [
    "agent.zones", "controllers", "embedded.publicAddresses", "external.dashboard.hosts", "external.install",
    "extraArgs",
];
/// Maps whose entries are true or false.
const SWITCHES: &str = "featureGates";
/// Keys of `--set` nest no deeper.
const DEPTH_MAX: usize = 16;

/// Merged values: every key of the chart, with a value of its kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Values(Value);

impl Values {
    /// The defaults, with these values over them, which are YAML: of files, then `KEY=VALUE` of `--set`.
    ///
    /// # Errors
    /// A key does not exist, or a value is of another kind than the default.
    pub fn new(files: &[(String, String)], set: &[String]) -> anyhow::Result<Self> {
        let mut merged = defaults()?;
        for (name, text) in files {
            let given = serde_saphyr::from_str(text).with_context(|| format!("the values {name} are no YAML"))?;
            over(&mut merged, &given).map_err(|why| Misused(format!("{why}\n  because {name} says so")))?;
        }
        for word in set {
            let given = of_set(&merged, word)?;
            over(&mut merged, &given).map_err(|why| Misused(format!("{why}\n  because --set {word} says so")))?;
        }
        Ok(Self(merged))
    }

    /// The value at a path such as `image.tag`; null if there is none.
    pub(super) fn at(&self, path: &str) -> &Value {
        path.split('.').fold(&self.0, |value, key| &value[key])
    }

    pub(super) fn text(&self, path: &str) -> &str {
        self.at(path).as_str().unwrap_or_default()
    }

    pub(super) fn is_on(&self, path: &str) -> bool {
        self.at(path).as_bool().unwrap_or_default()
    }

    /// The texts of a list.
    pub(super) fn texts(&self, path: &str) -> Vec<String> {
        self.list(path).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    pub(super) fn list(&self, path: &str) -> &[Value] {
        self.at(path).as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// True if the map, the list or the text has nothing in it.
    pub(super) fn is_empty(&self, path: &str) -> bool {
        is_empty(self.at(path))
    }

    pub(super) fn set_mode(&mut self, mode: &str) {
        self.0["mode"] = mode.into();
    }
}

pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::String(text) => text.is_empty(),
        other => other.is_null(),
    }
}

/// The values of the chart.
pub(super) fn defaults() -> anyhow::Result<Value> {
    serde_saphyr::from_str(DEFAULTS).context("the built-in values are no YAML")
}

/// True if the chart has no keys of its own in this map.
fn is_open(default: &Map<String, Value>, path: &str) -> bool {
    default.is_empty() || OPEN.contains(&path)
}

/// Puts given values over those that are there.
fn over(there: &mut Value, given: &Value) -> Result<(), String> {
    let given = match given {
        Value::Null => return Ok(()),
        Value::Object(given) => given,
        _ => return Err("the values are no map of keys to values".to_owned()),
    };
    // The kinds of the defaults, as an open map gets entries.
    let defaults = defaults().map_err(|error| error.to_string())?;
    merge(there, &defaults, given, "")
}

fn merge(there: &mut Value, default: &Value, given: &Map<String, Value>, path: &str) -> Result<(), String> {
    for (key, value) in given {
        let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let is_open = default.as_object().is_some_and(|map| is_open(map, path));
        let known = default.get(key).filter(|_| !is_open);
        if known.is_none() && !is_open {
            return Err(unknown(&below, default));
        }
        match (known, value) {
            (Some(known @ Value::Object(_)), Value::Object(value)) => {
                merge(&mut there[key.as_str()], known, value, &below)?;
            }
            (Some(known), value) => {
                if kind(known) != kind(value) {
                    return Err(format!("the value {below} is {}, and has to be {}", kind(value), kind(known)));
                }
                entries(value, &below)?;
                there[key.as_str()] = value.clone();
            }
            (None, Value::Null) => {
                there.as_object_mut().map(|map| map.remove(key));
            }
            (None, value) => {
                entry(value, path, &below)?;
                there[key.as_str()] = value.clone();
            }
        }
    }
    Ok(())
}

/// An entry of an open map.
fn entry(value: &Value, path: &str, below: &str) -> Result<(), String> {
    let want = if TEXTS.contains(&path) {
        "a text"
    } else if path == SWITCHES {
        "true or false"
    } else {
        return Ok(());
    };
    if kind(value) == want {
        return Ok(());
    }
    let quoted = if want == "a text" { ": put it in quotation marks" } else { "" };
    Err(format!("the value {below} is {}, and has to be {want}{quoted}", kind(value)))
}

/// The entries of a list.
fn entries(value: &Value, path: &str) -> Result<(), String> {
    let Value::Array(list) = value else { return Ok(()) };
    let want = if TEXT_LISTS.contains(&path) { "a text" } else { "a map" };
    match list.iter().position(|entry| kind(entry) != want) {
        Some(at) => Err(format!("the value {path}[{at}] is {}, and has to be {want}", kind(&list[at]))),
        None => Ok(()),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_u64() => "a number",
        Value::Number(_) => "a number below 0 or with a fraction",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

fn unknown(path: &str, known: &Value) -> String {
    let known: Vec<&str> = known.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    format!("there is no value {path}\n  try: one of {}", known.join(", "))
}

/// The tree with one value of `KEY.KEY=VALUE`: a text as it stands where the default is one, else YAML.
fn of_set(merged: &Value, word: &str) -> anyhow::Result<Value> {
    let misused = || Misused(format!("--set {word:?} is not KEY.KEY=VALUE\n  try: --set image.tag=v1"));
    let (path, text) = word.split_once('=').ok_or_else(misused)?;
    let keys: Vec<&str> = path.split('.').collect();
    if keys.len() > DEPTH_MAX || keys.iter().any(|key| key.is_empty()) {
        return Err(misused().into());
    }
    let there = keys.iter().try_fold(merged, |value, key| value.get(key));
    let value = match there {
        Some(Value::String(_)) => Value::String(text.to_owned()),
        _ => serde_saphyr::from_str(text)
            .map_err(|error| Misused(format!("the value of --set {path} is no YAML: {error}")))?,
    };
    Ok(keys.iter().rev().fold(value, |value, key| Value::Object(Map::from_iter([((*key).to_owned(), value)]))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn values(file: &str, set: &[&str]) -> Result<Values, String> {
        let set: Vec<String> = set.iter().map(|word| (*word).to_owned()).collect();
        Values::new(&[("v.yaml".to_owned(), file.to_owned())], &set).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn later_values_take_precedence() {
        let file =
            "image: {repository: a}\nresources: {requests: {cpu: 1, memory: null, storage: 1Gi}}\nextraArgs: [-v=3]";
        let values = values(file, &["image.tag=1.0", "image.repository=b", "external.replicas=3", "extraArgs=[]"]);
        let values = values.unwrap();
        for (path, want) in [
            ("image.repository", json!("b")),
            ("image.tag", json!("1.0")),
            ("image.pullPolicy", json!("IfNotPresent")),
            ("external.replicas", json!(3)),
            ("external.install", json!(["crds", "roles"])),
            ("extraArgs", json!([])),
            ("resources.requests", json!({"cpu": 1, "storage": "1Gi"})),
        ] {
            assert_eq!(values.at(path), &want, "{path}");
        }
    }

    #[test]
    fn what_acts_on_nothing_is_refused_by_name() {
        for (file, set, want) in [
            ("imag: {}", "", "there is no value imag\n  try: one of affinity, agent, controllers"),
            ("image: {name: a}", "", "there is no value image.name\n  try: one of pullPolicy, repository, tag"),
            ("image: a", "", "the value image is a text, and has to be a map"),
            ("external: {replicas: two}", "", "the value external.replicas is a text, and has to be a number"),
            ("external: {replicas: -1}", "", "the value external.replicas is a number below 0"),
            ("mode:", "", "the value mode is nothing, and has to be a text"),
            ("podAnnotations: {a: 1}", "", "the value podAnnotations.a is a number, and has to be a text: put it in"),
            ("featureGates: {Failover: on-off}", "", "the value featureGates.Failover is a text, and has to be true"),
            ("extraArgs: [3]", "", "the value extraArgs[0] is a number, and has to be a text"),
            ("tolerations: [all]", "", "the value tolerations[0] is a text, and has to be a map"),
            ("[a]", "", "the values are no map"),
            ("a: [", "", "the values v.yaml are no YAML"),
            ("", "image", "--set \"image\" is not KEY.KEY=VALUE"),
            ("", "image..tag=1", "--set \"image..tag=1\" is not KEY.KEY=VALUE"),
            ("", "image.tga=1", "there is no value image.tga"),
            ("", "external.replicas=x", "the value external.replicas is a text, and has to be a number"),
            ("", "tolerations=[", "the value of --set tolerations is no YAML"),
        ] {
            let set: Vec<&str> = Some(set).filter(|set| !set.is_empty()).into_iter().collect();
            let error = values(file, &set).unwrap_err();
            assert!(error.starts_with(want), "{file} {set:?}: {error}");
        }
        assert_eq!(values("", &[]), values("{}", &[]));
    }

    /// The schema that helm checks allows what is taken here.
    #[test]
    fn the_schema_of_the_chart_has_the_same_keys() {
        fn compare(schema: &Value, default: &Value, path: &str, wrong: &mut Vec<String>) {
            let want = match default {
                Value::Bool(_) => "boolean",
                Value::Number(_) => "integer",
                Value::String(_) => "string",
                Value::Array(_) => "array",
                _ => "object",
            };
            if schema["type"] != want {
                wrong.push(format!("{path}: type {} instead of {want}", schema["type"]));
            }
            let Value::Object(map) = default else { return };
            if is_open(map, path) {
                return;
            }
            let keys = |value: &Value| -> Vec<String> {
                value.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
            };
            let required: Vec<&str> =
                schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            if keys(&schema["properties"]) != keys(default) || required != keys(default) {
                wrong.push(format!("{path}: {:?} and required {required:?}", keys(&schema["properties"])));
            }
            if schema["additionalProperties"] != false {
                wrong.push(format!("{path}: additionalProperties"));
            }
            for (key, value) in map {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(&schema["properties"][key.as_str()], value, &below, wrong);
            }
        }
        let schema = include_str!("../../../../charts/ironclad/values.schema.json");
        let mut wrong = Vec::new();
        compare(&serde_json::from_str(schema).unwrap(), &defaults().unwrap(), "", &mut wrong);
        assert_eq!(wrong, Vec::<String>::new());
    }

    #[test]
    fn the_chart_has_the_version_of_the_program() {
        let chart: Value = serde_saphyr::from_str(include_str!("../../../../charts/ironclad/Chart.yaml")).unwrap();
        assert_eq!((&chart["version"], &chart["appVersion"]), (&json!(env!("CARGO_PKG_VERSION")), &chart["version"]));
    }
}
