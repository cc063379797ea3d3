//! Scenarios: files with steps.

use std::{fs, path::Path};

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Scenario {
    /// File name without its ending; also the namespace in which it is played.
    pub(crate) name: String,
    /// Plurals of the compared kinds.
    pub(crate) kinds: Vec<String>,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    kinds: Vec<String>,
    steps: Vec<Fields>,
}

/// A step as it is written: exactly one of the fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    apply: Option<String>,
    run: Option<Vec<String>>,
    r#try: Option<Try>,
    until: Option<Until>,
    compare: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Step {
    /// Manifests for `kubectl apply`.
    Apply(String),
    /// Arguments of kubectl, which must succeed.
    Run(Vec<String>),
    /// Arguments of kubectl whose outcome is compared, and its stdin.
    Try(Try),
    /// Wait until a field has this value.
    Until(Until),
    /// Wait until nothing changes, and compare the state under this name.
    Compare(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Try {
    pub(crate) run: Vec<String>,
    #[serde(default)]
    pub(crate) stdin: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Until {
    /// `PLURAL/NAME`.
    pub(crate) object: String,
    /// Path such as `/status/conditions/Complete/status`: an item of a list is named by its `type`, or by its index.
    pub(crate) path: String,
    /// The value; null for a field, or an object, that does not exist.
    pub(crate) is: Value,
}

pub(crate) fn all(folder: &Path) -> anyhow::Result<Vec<Scenario>> {
    let mut files: Vec<_> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<_>>()?;
    files.sort();
    files.iter().map(|file| read(file).with_context(|| file.display().to_string())).collect()
}

fn read(file: &Path) -> anyhow::Result<Scenario> {
    let name = file.file_stem().context("a file name")?.to_string_lossy().replace('_', "-");
    let File { kinds, steps } = serde_saphyr::from_str(&fs::read_to_string(file)?)?;
    let steps = steps.into_iter().map(step).collect::<Option<_>>().context("a step is not exactly one thing")?;
    Ok(Scenario { name, kinds, steps })
}

fn step(fields: Fields) -> Option<Step> {
    match fields {
        Fields { apply: Some(manifests), run: None, r#try: None, until: None, compare: None } => {
            Some(Step::Apply(manifests))
        }
        Fields { apply: None, run: Some(arguments), r#try: None, until: None, compare: None } => {
            Some(Step::Run(arguments))
        }
        Fields { apply: None, run: None, r#try: Some(wanted), until: None, compare: None } => Some(Step::Try(wanted)),
        Fields { apply: None, run: None, r#try: None, until: Some(wanted), compare: None } => Some(Step::Until(wanted)),
        Fields { apply: None, run: None, r#try: None, until: None, compare: Some(name) } => Some(Step::Compare(name)),
        _ => None,
    }
}

/// Returns the value at a path of an object.
pub(crate) fn lookup<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('/').skip(1).fold(object, |value, step| match value {
        Value::Array(items) => {
            let by_type = items.iter().find(|item| item["type"] == step);
            by_type.or_else(|| items.get(step.parse::<usize>().ok()?)).unwrap_or(&Value::Null)
        }
        other => &other[step.replace("~1", "/").as_str()],
    })
}

#[test]
fn paths_name_items_by_type_or_index() {
    let object = serde_json::json!({"a": [{"type": "Ready", "status": "True"}], "b": {"x/y": 1}});
    for (path, want) in [
        ("/a/Ready/status", Value::from("True")),
        ("/a/0/status", Value::from("True")),
        ("/a/Other/status", Value::Null),
        ("/b/x~1y", Value::from(1)),
        ("/c/d", Value::Null),
    ] {
        assert_eq!(lookup(&object, path), &want, "{path}");
    }
}
