//! Dashboards and alert rules as files: their structure, their queries, and the page that explains them. What `up` and
//! `run` export is compared in crate `testkit`.

use std::collections::{BTreeMap, BTreeSet};

use ironclad_reference::{
    exposition::Exposition,
    promql::{Query, labels_of_text, wrong_queries},
};
use serde_json::{Value, json};

use super::{
    Release, Values,
    monitoring::{DASHBOARDS, RULES},
    objects,
};

const PAGE: &str = include_str!("../../../../docs/operations/monitoring.md");
const METRICS: &str = include_str!("../../../../docs/reference/metrics.md");
/// Beginnings of metrics that only `up` has.
const OF_UP: [&str; 2] = ["ironclad_apiserver_", "ironclad_store_"];
/// The dashboard that may show them.
const WITH_UP: &str = "apiserver";
/// Units of Grafana that panels use.
const UNITS: [&str; 7] = ["Bps", "bytes", "none", "ops", "percentunit", "reqps", "s"];

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn dashboards() -> BTreeMap<&'static str, Value> {
    DASHBOARDS.iter().map(|(name, text)| (*name, serde_json::from_str(text).unwrap())).collect()
}

fn rules() -> Vec<Value> {
    let rules: Value = serde_saphyr::from_str(RULES).unwrap();
    list(&rules, "/groups").iter().flat_map(|group| list(group, "/rules").to_vec()).collect()
}

/// Panels that show something.
fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    list(dashboard, "/panels").iter().filter(|panel| panel["type"] != "row")
}

/// Variables of a dashboard that a query names.
fn variables(query: &str) -> BTreeSet<&str> {
    let words =
        query.split('$').skip(1).map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next());
    words.flatten().filter(|word| !word.starts_with("__")).collect()
}

#[test]
fn panels_say_what_they_show() {
    let mut wrong = Vec::new();
    let mut ids = BTreeSet::new();
    for (name, dashboard) in dashboards() {
        assert!(ids.insert(text(&dashboard, "/uid").to_owned()), "{name}: the uid is that of another dashboard");
        assert!(text(&dashboard, "/title").starts_with("Ironclad / ") && dashboard["schemaVersion"].is_u64(), "{name}");
        let mut taken = BTreeSet::new();
        for panel in list(&dashboard, "/panels") {
            if !taken.insert(panel["id"].as_u64()) {
                wrong.push(format!("{name}: two panels have the id {}", panel["id"]));
            }
        }
        let mut cells = BTreeSet::new();
        for panel in panels(&dashboard) {
            let title = text(panel, "/title");
            let at = format!("{name}: {title}");
            let description = text(panel, "/description");
            if title.is_empty() || description.len() < 20 || !description.ends_with('.') {
                wrong.push(format!("{at}: it has no title, or no sentence that describes it"));
            }
            if !UNITS.contains(&text(panel, "/fieldConfig/defaults/unit")) {
                wrong.push(format!("{at}: {} is no known unit", panel["fieldConfig"]["defaults"]["unit"]));
            }
            if text(panel, "/datasource/uid") != "$datasource" || list(panel, "/targets").is_empty() {
                wrong.push(format!("{at}: it asks nothing, or not the data source that was chosen"));
            }
            let place = |field: &str| panel["gridPos"][field].as_u64().unwrap();
            let (x, y, w, h) = (place("x"), place("y"), place("w"), place("h"));
            let mut all = (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y)));
            if x + w > 24 || !all.all(|cell| cells.insert(cell)) {
                wrong.push(format!("{at}: it lies over another panel, or outside"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn variables_are_declared_and_used() {
    for (name, dashboard) in dashboards() {
        let declared = list(&dashboard, "/templating/list");
        let names: BTreeSet<&str> = declared.iter().map(|one| text(one, "/name")).collect();
        let queries = panels(&dashboard).flat_map(|panel| list(panel, "/targets")).map(|target| text(target, "/expr"));
        let mut used: BTreeSet<&str> = queries.flat_map(variables).collect();
        used.insert("datasource");
        assert_eq!(used, names, "{name}");
        for panel in panels(&dashboard) {
            for target in list(panel, "/targets") {
                let chosen = variables(text(target, "/expr"));
                assert!(chosen.contains("job") && chosen.contains("namespace"), "{name}: {target} is of all jobs");
            }
        }
    }
}

#[test]
fn queries_are_understood_and_have_the_labels_of_the_page() {
    let dashboards = dashboards();
    let rules = rules();
    let mut queries = Vec::new();
    for (name, dashboard) in &dashboards {
        for panel in panels(dashboard) {
            for target in list(panel, "/targets") {
                let query = text(target, "/expr");
                let at = format!("{name}: {}: {query}", text(panel, "/title"));
                queries.push((at.clone(), query, labels_of_text(text(target, "/legendFormat"))));
                let of_up = |metric: &&str| OF_UP.iter().any(|start| metric.starts_with(start));
                let parsed = Query::parse(query).unwrap_or_else(|wrong| panic!("{at}: {wrong}"));
                let misplaced = parsed.metrics().into_iter().find(of_up).filter(|_| *name != WITH_UP);
                assert_eq!(misplaced, None, "{at}: only `up` has it");
            }
        }
        for variable in list(dashboard, "/templating/list") {
            let query = text(variable, "/query/query");
            if !query.is_empty() {
                queries.push((format!("{name}: {query}"), query, BTreeSet::new()));
            }
        }
    }
    for rule in &rules {
        let (alert, query) = (text(rule, "/alert"), text(rule, "/expr"));
        Query::parse(query).unwrap_or_else(|wrong| panic!("{alert}: {wrong}"));
        let annotations = rule["annotations"].as_object().unwrap().values().filter_map(Value::as_str);
        queries.push((alert.to_owned(), query, annotations.flat_map(labels_of_text).collect()));
    }
    assert!(queries.len() > 120, "only {} queries were read", queries.len());
    // The page lists the families of controllers; a scrape in crate `testkit` has the others, too.
    let mut wrong = wrong_queries(queries, &Exposition::of_page(METRICS));
    wrong.retain(|_, wrong| !wrong.0.ends_with(" is not exported"));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn alerts_have_a_section_that_says_what_to_do() {
    let mut alerts = Vec::new();
    for rule in rules() {
        let alert = text(&rule, "/alert").to_owned();
        assert!(["critical", "warning"].contains(&text(&rule, "/labels/severity")), "{alert}: no severity");
        for annotation in ["/annotations/summary", "/annotations/description"] {
            assert!(text(&rule, annotation).ends_with('.'), "{alert}: {annotation} is no sentence");
        }
        let link = format!("docs/operations/monitoring.md#{}", alert.to_ascii_lowercase());
        assert_eq!(text(&rule, "/annotations/runbook"), link, "{alert}");
        let unit = text(&rule, "/for").trim_start_matches(|c: char| c.is_ascii_digit());
        assert!(["", "m", "h"].contains(&unit), "{alert}: {}", rule["for"]);
        alerts.push(alert);
    }
    let sections: Vec<&str> = PAGE.lines().filter_map(|line| line.strip_prefix("### Ironclad")).collect();
    let sections: Vec<String> = sections.iter().map(|rest| format!("Ironclad{rest}")).collect();
    assert_eq!(sections, alerts, "the sections of the page, in the order of the rules");
    for section in PAGE.split("\n### Ironclad").skip(1) {
        let section = section.split("\n#").next().unwrap_or_default();
        assert!(section.contains("**What to do**"), "it does not say what to do: {section}");
    }
}

fn made(values: &str) -> Result<Vec<Value>, String> {
    let values = Values::new(&[("case".to_owned(), values.to_owned())], &[]).unwrap();
    objects(&Release { name: "a".to_owned(), namespace: "fleet".to_owned(), values })
}

#[test]
fn rules_and_dashboards_are_made_when_they_are_asked_for() {
    let kinds = |values: &str| -> Vec<String> {
        let objects = made(values).unwrap();
        let monitoring =
            objects.iter().filter(|object| ["ConfigMap", "PrometheusRule"].contains(&text(object, "/kind")));
        monitoring.map(|object| format!("{} {}", text(object, "/kind"), text(object, "/metadata/name"))).collect()
    };
    let dashboards =
        ["ConfigMap a-dashboard-apiserver", "ConfigMap a-dashboard-evictions", "ConfigMap a-dashboard-fleet"];
    let dashboards = [dashboards.as_slice(), &["ConfigMap a-dashboard-scheduler"]].concat();
    for mode in ["embedded", "external"] {
        assert_eq!(kinds(&format!("mode: {mode}")), Vec::<String>::new());
        let both = "monitoring: {rules: {enabled: true}, dashboards: {enabled: true}}";
        assert_eq!(
            kinds(&format!("{{mode: {mode}, {both}}}")),
            [dashboards.clone(), vec!["PrometheusRule a"]].concat()
        );
    }
    let objects =
        made("monitoring: {rules: {enabled: true, labels: {release: p}}, dashboards: {enabled: true}}").unwrap();
    let rule = objects.iter().find(|object| object["kind"] == "PrometheusRule").unwrap();
    assert_eq!(rule["metadata"]["labels"]["release"], "p");
    assert_eq!(list(rule, "/spec/groups").len(), 6);
    let fleet = objects.iter().find(|object| object["metadata"]["name"] == "a-dashboard-fleet").unwrap();
    assert_eq!(fleet["metadata"]["labels"]["grafana_dashboard"], json!("1"));
    let shown: Value = serde_json::from_str(text(fleet, "/data/ironclad-fleet.json")).unwrap();
    assert_eq!(shown["uid"], "ironclad-fleet");

    let agent = "mode: agent, agent: {clusterName: m1}";
    for part in ["rules", "dashboards"] {
        let refused = made(&format!("{{{agent}, monitoring: {{{part}: {{enabled: true}}}}}}")).unwrap_err();
        assert!(refused.contains("have no effect in mode agent") && refused.contains("\n  try: "), "{refused}");
    }
}
