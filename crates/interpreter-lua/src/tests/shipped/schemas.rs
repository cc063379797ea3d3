//! Shipped scripts beside the published schemas of their kinds: `fields.txt` has the fields that the scripts name.

use std::collections::BTreeMap;

use super::*;

/// Fields of one kind and version: type by path.
type Fields = BTreeMap<String, String>;

/// Kinds for which no package registry ships a schema that could be read.
const WITHOUT_SCHEMA: [(&str, &str); 11] = [
    ("apps.kruise.io/v1alpha1", "DaemonSet"),
    ("apps.kruise.io/v1beta1", "DaemonSet"),
    ("apps.kruise.io/v1alpha1", "StatefulSet"),
    ("apps.kruise.io/v1beta1", "StatefulSet"),
    ("apps.kruise.io/v1alpha1", "UnitedDeployment"),
    ("apps.kruise.io/v1beta1", "UnitedDeployment"),
    ("argoproj.io/v1alpha1", "Workflow"),
    ("kubeflow.org/v1alpha1", "Notebook"),
    ("kubeflow.org/v1beta1", "Notebook"),
    ("kubeflow.org/v1", "Notebook"),
    ("kubeflow.org/v2beta1", "MPIJob"),
];

/// Words of scripts that are no fields of their kinds.
const OTHER_WORDS: [&str; 37] = [
    // Lua and the sandbox.
    "ceil", "concat", "floor", "getPodDependencies", "max", "resourceAdd", "sort", //
    // Fields of every object, of Pods, of reports and of answers.
    "apiVersion", "clusterName", "cpu", "generation", "kind", "labels", "memory", "metadata", "name", "namespace",
    "nodeClaim", "reason", "replicaRequirements", "resourceRequest", "resources", "spec", "status", "type",
    "v1", //
    // Names inside the scripts, and values.
    "field", "index", "jobmanager", "left", "node", "oci", "of", "ready", "taskmanager", "types", "worker",
];

/// Fields that another version of the same kind has.
const OF_OTHER_VERSIONS: [(&str, &str, &str); 15] = [
    ("apps.kruise.io/v1beta1", "SidecarSet", "namespace"),
    ("helm.toolkit.fluxcd.io/v2", "HelmRelease", "lastAppliedRevision"),
    ("helm.toolkit.fluxcd.io/v2beta1", "HelmRelease", "lastAttemptedRevisionDigest"),
    ("ray.io/v1alpha1", "RayCluster", "conditions"),
    ("ray.io/v1alpha1", "RayCluster", "numOfHosts"),
    ("ray.io/v1alpha1", "RayJob", "failed"),
    ("ray.io/v1alpha1", "RayJob", "numOfHosts"),
    ("ray.io/v1alpha1", "RayJob", "succeeded"),
    ("ray.io/v1alpha1", "RayService", "conditions"),
    ("ray.io/v1alpha1", "RayService", "numOfHosts"),
    ("ray.io/v1alpha1", "RayService", "numServeEndpoints"),
    ("source.toolkit.fluxcd.io/v1beta2", "Bucket", "serviceAccountName"),
    ("source.toolkit.fluxcd.io/v1beta2", "GitRepository", "proxySecretRef"),
    ("source.toolkit.fluxcd.io/v1beta2", "GitRepository", "serviceAccountName"),
    ("source.toolkit.fluxcd.io/v1beta2", "OCIRepository", "trustedRootSecretRef"),
];

/// Blocks of `fields.txt` by kind.
fn schemas() -> BTreeMap<(&'static str, &'static str), Fields> {
    let mut all = BTreeMap::new();
    for block in include_str!("fields.txt").split("\n\n") {
        let (mut kinds, mut fields) = (vec![], Fields::new());
        for line in block.lines().filter(|line| !line.starts_with('#') && !line.starts_with("from ")) {
            let (path, rest) = line.split_once(' ').unwrap();
            match path {
                "kind" => kinds.push(rest.split_once(' ').unwrap()),
                _ => assert_eq!(fields.insert(path.to_owned(), rest.to_owned()), None, "{kinds:?} {path}"),
            }
        }
        all.extend(kinds.into_iter().map(|kind| (kind, fields.clone())));
    }
    all
}

/// Words of a script that can be names of fields: after a dot and in quotes, with a small first letter.
fn words(script: &str) -> BTreeSet<&str> {
    let is_word = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let lines = script.lines().map(|line| line.split("--").next().unwrap_or_default());
    lines
        .flat_map(|line| {
            let quoted = line.split('"').skip(1).step_by(2).filter(move |text| is_word(text));
            let unquoted = line.split('"').step_by(2);
            let accessed = unquoted.flat_map(|text| text.split('.').skip(1)).map(|text| {
                let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
                &text[..end]
            });
            quoted.chain(accessed.filter(move |text| is_word(text)))
        })
        .collect()
}

#[test]
fn every_kind_has_a_schema_or_is_listed() {
    let schemas = schemas();
    let without: Vec<_> =
        Shipped::kinds().map(|(api, kind, _)| (api, kind)).filter(|kind| !schemas.contains_key(kind)).collect();
    let (mut without, mut want) = (without, WITHOUT_SCHEMA.to_vec());
    without.sort_unstable();
    want.sort_unstable();
    assert_eq!(without, want);
    for kind in schemas.keys() {
        assert!(Shipped::kinds().any(|(api, name, _)| (api, name) == *kind), "{kind:?} is not shipped");
    }
}

/// Names of the fields in the paths of a schema.
fn names(fields: &Fields) -> BTreeSet<&str> {
    fields.keys().flat_map(|path| path.split(['.', '[', ']', '*'])).filter(|name| !name.is_empty()).collect()
}

#[test]
fn fields_that_scripts_name_are_in_the_schemas() {
    let schemas = schemas();
    let (mut nowhere, mut of_other_versions) = (vec![], vec![]);
    for (_, _, scripts) in Shipped::scripts() {
        let of_script = Shipped::scripts().filter(|(_, _, others)| *others == scripts);
        let of_script: Vec<_> =
            of_script.filter_map(|(api, kind, _)| Some((api, kind, names(schemas.get(&(api, kind))?)))).collect();
        let words: BTreeSet<&str> = scripts.iter().flat_map(|script| words(script)).collect();
        for word in words {
            let has_it: Vec<_> = of_script.iter().filter(|(_, _, names)| names.contains(word)).collect();
            if has_it.is_empty() && !of_script.is_empty() && !OTHER_WORDS.contains(&word) {
                nowhere.push(word);
            }
            for (api, kind, names) in &of_script {
                if !names.contains(word) && has_it.iter().any(|(_, other, _)| other == kind) {
                    of_other_versions.push((*api, *kind, word));
                }
            }
        }
    }
    of_other_versions.sort_unstable();
    of_other_versions.dedup();
    assert_eq!(nowhere, Vec::<&str>::new(), "in no schema of the script's kinds");
    assert_eq!(of_other_versions, OF_OTHER_VERSIONS);
}

/// A value of each field below a path.
fn sample(fields: &Fields, path: &str) -> Value {
    let name = path.trim_end_matches("[]").rsplit('.').next().unwrap_or_default();
    let below = |separator: &str| -> Vec<&str> {
        let prefix = format!("{path}{separator}");
        let paths = fields.keys().filter_map(|known| known.strip_prefix(&prefix));
        let names: BTreeSet<&str> = paths.map(|rest| rest.split(['.', '[']).next().unwrap_or_default()).collect();
        names.into_iter().collect()
    };
    let children = || -> Value {
        let names = below(".").into_iter().filter(|name| *name != "*");
        names
            .map(|name| (name.to_owned(), sample(fields, &format!("{path}.{name}"))))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    match fields.get(path).map(String::as_str) {
        Some("string") if name == "observedGeneration" => json!("2"),
        Some("string") if name.ends_with("Time") || name.ends_with("At") => json!("2026-01-01T00:00:00Z"),
        Some("string") if path.ends_with("conditions[].status") => json!("True"),
        Some("string") if path.ends_with("conditions[].type") => json!("Ready"),
        Some("string") => json!("x"),
        Some("boolean") => json!(true),
        Some("integer" | "number") => json!(2),
        Some("int-or-string") => json!("1"),
        Some("map") => json!({"k": sample(fields, &format!("{path}.*"))}),
        Some("any") => json!({}),
        Some(list) if list.starts_with("list") => {
            let items = format!("{path}[]");
            let has_items = fields.keys().any(|known| known.starts_with(&items));
            if has_items { json!([sample(fields, &items)]) } else { json!([]) }
        }
        _ => children(),
    }
}

/// Asserts that a value is one of the schema: known fields of their types, and keys of lists that are maps only once.
fn assert_fits(fields: &Fields, path: &str, value: &Value, of: &str) {
    let known = fields.get(path).map(String::as_str);
    let fits = match (known, value) {
        (Some("string"), Value::String(_)) | (Some("boolean"), Value::Bool(_)) | (Some("any"), _) => true,
        (Some("integer"), Value::Number(number)) => number.is_i64() || number.is_u64(),
        (Some("number"), Value::Number(_)) | (Some("int-or-string"), Value::Number(_) | Value::String(_)) => true,
        (Some("map"), Value::Object(map)) => {
            map.values().for_each(|value| assert_fits(fields, &format!("{path}.*"), value, of));
            true
        }
        (Some("object") | None, Value::Object(map))
            if known.is_some() || path == "status" || path.ends_with("[]") || path.ends_with('*') =>
        {
            map.iter().for_each(|(name, value)| assert_fits(fields, &format!("{path}.{name}"), value, of));
            true
        }
        (Some(list), Value::Array(items)) if list.starts_with("list") => {
            items.iter().for_each(|item| assert_fits(fields, &format!("{path}[]"), item, of));
            let keys = list.strip_prefix("list by ");
            let unique: Option<BTreeSet<String>> =
                keys.map(|key| items.iter().map(|item| item[key].to_string()).collect());
            unique.is_none_or(|unique| unique.len() == items.len())
        }
        _ => false,
    };
    assert!(fits, "{of} {path} is {known:?} in the schema, not {value}");
}

/// A status with a field that the schema does not have is pruned, and written again for ever; one of another type, or
/// with a key twice in a list that is a map, is refused.
#[test]
fn aggregated_status_is_one_of_the_schema() {
    let schemas = schemas();
    for (api_version, kind, operations) in Shipped::kinds() {
        let Some(fields) = schemas.get(&(api_version, kind)).filter(|_| operations.contains(&AggregateStatus)) else {
            continue;
        };
        let of = format!("{api_version} {kind}");
        let mut good = sample(fields, "status");
        let mut bad = good.clone();
        for pointer in ["/conditions/0/status", "/conditionStatus/conditions/0/status"] {
            if let Some(status) = bad.pointer_mut(pointer) {
                *status = json!("False");
            }
        }
        for report in [&mut good, &mut bad] {
            report["generation"] = json!(2);
            report["resourceTemplateGeneration"] = json!(2);
        }
        let template = object(api_version, kind, json!({}));
        for reports in [vec![good.clone(), good.clone()], vec![good.clone(), bad.clone()], vec![bad, Value::Null]] {
            assert_fits(fields, "status", &aggregate(&template, &reports), &of);
        }
    }
}

#[test]
fn dependencies_of_every_field_can_be_read() {
    let schemas = schemas();
    for (api_version, kind, operations) in Shipped::kinds() {
        let Some(fields) = schemas.get(&(api_version, kind)).filter(|_| operations.contains(&InterpretDependency))
        else {
            continue;
        };
        let template = object(api_version, kind, sample(fields, "spec"));
        let found = dependencies(&template);
        // A Secret, an account, …: each reference of the sample is named x.
        let wrong: Vec<&String> = found.iter().filter(|found| !found.ends_with("/x")).collect();
        assert_eq!(wrong, Vec::<&String>::new(), "{api_version} {kind}");
    }
}
