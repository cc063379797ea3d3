//! CRDs against the inventory and the printer columns of the reference (specification/api.md 0.1, 0.2).

use std::collections::{BTreeMap, BTreeSet};

use ironclad_api::crds;
use ironclad_reference::Reference;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

fn by_kind() -> BTreeMap<String, CustomResourceDefinition> {
    let mut crds = crds::crds();
    crds.push(crds::simulated_cluster_crd());
    crds.into_iter().map(|crd| (crd.spec.names.kind.clone(), crd)).collect()
}

#[test]
fn names_scopes_and_subresources_match_the_inventory() {
    let table = Reference::Api.table("### 0.1 Inventory");
    let crds = by_kind();
    let mut seen = BTreeSet::new();
    for row in &table.rows {
        let kind = table.cell(row, "Kind").split(" (").next().unwrap();
        if !table.cell(row, "Served by").starts_with("CRD") {
            assert!(!crds.contains_key(kind), "{kind} is no CRD");
            continue;
        }
        let crd = &crds[kind];
        seen.insert(kind.to_owned());
        let names = &crd.spec.names;
        assert_eq!(crd.spec.group, table.cell(row, "Group"), "{kind}");
        let want = table.cell(row, "Plural");
        assert_eq!(format!("{} / {}", names.plural, names.singular.as_deref().unwrap()), want, "{kind}");
        assert_eq!(names.list_kind.as_deref(), Some(format!("{kind}List").as_str()), "{kind}");
        assert_eq!(
            names.short_names.as_ref().map_or("–".to_owned(), |short| short.join(" ")),
            table.cell(row, "Short")
        );
        assert_eq!(crd.spec.scope, table.cell(row, "Scope"), "{kind}");
        let categories = names.categories.clone().unwrap_or_default().join(" ");
        let want = table.cell(row, "Categories");
        assert_eq!(categories, if want == "none" || want == "–" { "" } else { want }, "{kind}");
        let stored = crd.spec.versions.iter().find(|version| version.storage).unwrap();
        let versions: Vec<&str> =
            table.cell(row, "Version").split(", ").map(|of| of.split(' ').next().unwrap()).collect();
        let mut declared: Vec<&str> = crd.spec.versions.iter().map(|version| version.name.as_str()).collect();
        declared.sort_by_key(|name| *name != stored.name);
        assert_eq!(declared, versions, "{kind}, the stored one first");
        let status = stored.subresources.as_ref().is_some_and(|of| of.status.is_some());
        assert_eq!(status, table.cell(row, "Status").starts_with("yes"), "{kind}");
    }
    let made: BTreeSet<_> = crds.keys().cloned().collect();
    assert_eq!(made, seen, "every CRD is in the inventory");
}

#[test]
fn printer_columns_match_the_reference() {
    let table = Reference::Api.table("### 0.2 Printer columns");
    let crds = by_kind();
    let mut with_columns = BTreeSet::from(["Cluster".to_owned()]);
    for row in &table.rows {
        let kinds = table.cell(row, "Kind").split(" (").next().unwrap();
        for kind in kinds.split(", ").filter(|kind| crds.contains_key(*kind)) {
            with_columns.insert(kind.to_owned());
            let stored = crds[kind].spec.versions.iter().find(|version| version.storage).unwrap();
            let columns = stored.additional_printer_columns.clone().unwrap_or_default();
            let got: Vec<_> = columns.iter().map(|c| (c.name.clone(), c.json_path.clone(), c.type_.clone())).collect();
            let want: Vec<_> = table.cell(row, "Columns").split("; ").map(want_column).collect();
            assert_eq!(got, want, "{kind}");
            assert!(columns.iter().all(|column| column.priority.is_none()), "{kind} has no wide columns");
        }
    }
    for (kind, crd) in &crds {
        for version in &crd.spec.versions {
            let has = version.additional_printer_columns.is_some();
            assert_eq!(has, version.served && with_columns.contains(kind), "{kind} {}", version.name);
        }
    }
}

/// `NAME ← .path (type)`. Age and AGE have fixed paths; without a type it is text.
fn want_column(text: &str) -> (String, String, String) {
    let (text, type_) = text.rsplit_once(" (").unwrap_or((text, "string"));
    let type_ = type_.trim_end_matches(')').to_owned();
    match text.split_once(" ← ") {
        Some((name, path)) => (name.to_owned(), path.trim_matches('`').to_owned(), type_),
        None => (text.to_owned(), ".metadata.creationTimestamp".to_owned(), type_),
    }
}

/// specification/operations.md 2.7: columns of `get`, followed by the wide columns. The server adds NAME.
#[test]
fn columns_of_get_match_the_specification() {
    let table = Reference::Operations.table("Default table columns");
    let crds = by_kind();
    for row in &table.rows {
        let (narrow, wide) = row[1].split_once(" · wide: ").unwrap_or((&row[1], ""));
        for kind in row[0].split(", ") {
            let stored = crds[kind].spec.versions.iter().find(|version| version.storage).unwrap();
            let columns = stored.additional_printer_columns.clone().unwrap_or_default();
            let shown = |wide: bool| -> Vec<String> {
                let columns = columns.iter().filter(|column| column.priority.is_some() == wide);
                columns.map(|column| column.name.to_uppercase()).collect()
            };
            let words = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
            assert_eq!(shown(false), words(narrow.strip_prefix("NAME").unwrap()), "{kind}");
            assert_eq!(shown(true), words(wide), "{kind}, wide");
        }
    }
}

/// specification/api.md 0.2, below its table: columns of the Cluster CRD.
#[test]
fn columns_of_clusters_match_the_text() {
    let cluster = by_kind().remove("Cluster").unwrap();
    let columns = cluster.spec.versions[0].additional_printer_columns.clone().unwrap();
    let got: Vec<_> =
        columns.iter().map(|c| (c.name.as_str(), c.json_path.as_str(), c.type_.as_str(), c.priority)).collect();
    let want = [
        ("Version", ".status.kubernetesVersion", "string", None),
        ("Mode", ".spec.syncMode", "string", None),
        ("Ready", ".status.conditions[?(@.type==\"Ready\")].status", "string", None),
        ("Age", ".metadata.creationTimestamp", "date", None),
        ("Zones", ".spec.zones", "string", Some(1)),
        ("Region", ".spec.region", "string", Some(1)),
        ("Provider", ".spec.provider", "string", Some(1)),
        ("API-Endpoint", ".spec.apiEndpoint", "string", Some(1)),
        ("Proxy-URL", ".spec.proxyURL", "string", Some(1)),
    ];
    assert_eq!(got, want);
}

#[test]
fn only_clusters_have_validation_rules() {
    for (kind, crd) in by_kind() {
        let rules = serde_json::to_string(&crd).unwrap().matches("x-kubernetes-validations").count();
        assert_eq!(rules, if kind == "Cluster" { 2 } else { 0 }, "{kind}");
    }
}

#[test]
fn empty_subresources_match_karmada() {
    for (kind, crd) in by_kind() {
        let empty = crd
            .spec
            .versions
            .iter()
            .any(|version| version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_none()));
        let want = ["PropagationPolicy", "ClusterPropagationPolicy", "ResourceInterpreterCustomization"];
        assert_eq!(empty, want.contains(&kind.as_str()), "{kind}");
    }
}
