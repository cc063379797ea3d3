//! Tables as servers print them, joined over several servers.

use serde_json::Value;

use super::columns;
use crate::{print, resource::Resource};

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    name: String,
    /// Shown with `-o wide` only.
    wide: bool,
}

/// One object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    cells: Vec<String>,
    /// Cluster of the object, if members were asked too.
    place: Option<String>,
    /// The whole object.
    pub(super) object: Value,
}

impl Row {
    /// The row with no more of the object than names it and its version.
    pub(super) fn summary(&self) -> Self {
        let metadata = &self.object["metadata"];
        let kept = ["name", "namespace", "uid", "resourceVersion"];
        let kept = kept.iter().filter_map(|key| Some(((*key).to_owned(), metadata.get(*key)?.clone())));
        let object = serde_json::json!({
            "apiVersion": self.object["apiVersion"], "kind": self.object["kind"],
            "metadata": kept.collect::<serde_json::Map<_, _>>(),
        });
        Self { cells: self.cells.clone(), place: self.place.clone(), object }
    }
}

/// Objects in columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Table {
    columns: Vec<Column>,
    /// The objects.
    pub(super) rows: Vec<Row>,
    /// The resourceVersion at which the server answered; empty if it did not say.
    pub(super) version: String,
    joined: bool,
}

/// Options of a table.
pub(super) struct Options {
    /// Print the columns of `-o wide`.
    pub(super) wide: bool,
    /// Print the namespace.
    pub(super) namespaces: bool,
    /// Print all labels.
    pub(super) labels: bool,
    /// Labels that are printed in columns of their own.
    pub(super) label_columns: Vec<String>,
    /// Print the heading.
    pub(super) headings: bool,
    /// Type that is printed before each name, such as `deployment.apps`.
    pub(super) kind: Option<String>,
    /// Watch event of the objects, as the first column.
    pub(super) event: Option<&'static str>,
}

impl Table {
    /// Reads a server's answer: a Table, or an object or list whose names are shown.
    pub(super) fn read(answer: Value, resource: &Resource) -> Self {
        let typed = |mut object: Value| {
            object["apiVersion"] = resource.api.api_version.clone().into();
            object["kind"] = resource.api.kind.clone().into();
            object
        };
        let version = text(&answer, "/metadata/resourceVersion");
        if answer["kind"] != "Table" {
            let items = match answer.get("items").and_then(Value::as_array) {
                Some(items) => items.clone(),
                None => vec![answer],
            };
            let name = |object: &Value| text(object, "/metadata/name");
            let rows =
                items.into_iter().map(|object| Row { cells: vec![name(&object)], place: None, object: typed(object) });
            return Self {
                columns: vec![Column { name: "NAME".into(), wide: false }],
                rows: rows.collect(),
                version,
                joined: false,
            };
        }
        let array = |name: &str| answer.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        let columns = array("columnDefinitions").into_iter().map(|column| Column {
            name: column["name"].as_str().unwrap_or_default().to_uppercase(),
            wide: column["priority"].as_i64().unwrap_or(0) > 0,
        });
        let rows = array("rows").into_iter().map(|mut row| Row {
            cells: row["cells"].as_array().into_iter().flatten().map(cell).collect(),
            place: None,
            object: typed(row["object"].take()),
        });
        Self { columns: columns.collect(), rows: rows.collect(), version, joined: false }
    }

    /// Takes the columns of another table of the same kind if this one has none: only the first event of a watch has
    /// them.
    pub(super) fn learn(&mut self, from: &Self) {
        if self.columns.is_empty() {
            self.columns.clone_from(&from.columns);
        }
    }

    /// Appends another page. The resourceVersion remains that of the first page.
    pub(super) fn extend(&mut self, page: Self) {
        if self.columns.is_empty() {
            self.columns = page.columns;
        }
        if self.version.is_empty() {
            self.version = page.version;
        }
        self.rows.extend(page.rows);
    }

    /// Appends the table of one server. With `joined` the cluster of each object is printed.
    pub(super) fn join(&mut self, mut found: Self, server: Option<&str>, joined: bool) {
        let place = server.unwrap_or("Karmada");
        found.rows.iter_mut().for_each(|row| row.place = joined.then(|| place.to_owned()));
        self.joined |= joined;
        self.extend(found);
    }

    /// Renders the table as text.
    pub(super) fn render(&self, options: &Options, kind: &str) -> String {
        let extra = if options.wide { columns::of(kind) } else { &[] };
        let shown: Vec<usize> =
            (0..self.columns.len()).filter(|i| options.wide || self.columns.get(*i).is_some_and(|c| !c.wide)).collect();
        let mut heading: Vec<String> = Vec::new();
        if options.event.is_some() {
            heading.push("EVENT".into());
        }
        if options.namespaces {
            heading.push("NAMESPACE".into());
        }
        for (position, index) in shown.iter().enumerate() {
            heading.push(self.columns.get(*index).map(|column| column.name.clone()).unwrap_or_default());
            if position == 0 && self.joined {
                heading.push("CLUSTER".into());
            }
        }
        heading.extend(extra.iter().map(|column| column.name.to_owned()));
        if self.joined {
            heading.push("ADOPTION".into());
        }
        heading.extend(
            options
                .label_columns
                .iter()
                .map(|label| label.rsplit_once('/').map_or(label.as_str(), |(_, name)| name).to_uppercase()),
        );
        if options.labels {
            heading.push("LABELS".into());
        }
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| self.cells(row, &shown, options, extra, kind)).collect();
        let names: Vec<&str> = heading.iter().map(String::as_str).collect();
        let text = print::table(&names, &rows);
        if options.headings { text } else { text.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap_or_default() }
    }

    fn cells(
        &self,
        row: &Row,
        shown: &[usize],
        options: &Options,
        extra: &[columns::Extra],
        kind: &str,
    ) -> Vec<String> {
        let mut cells = Vec::new();
        cells.extend(options.event.map(str::to_owned));
        if options.namespaces {
            cells.push(text(&row.object, "/metadata/namespace"));
        }
        for (position, index) in shown.iter().enumerate() {
            let cell = row.cells.get(*index).cloned().unwrap_or_default();
            match (&options.kind, position) {
                (Some(kind), 0) => cells.push(format!("{kind}/{cell}")),
                _ => cells.push(cell),
            }
            if position == 0 && self.joined {
                cells.push(row.place.clone().unwrap_or_default());
            }
        }
        cells.extend(extra.iter().map(|column| (column.read)(&row.object)));
        if self.joined {
            cells.push(columns::adoption(kind, row.place.as_deref() == Some("Karmada"), &row.object));
        }
        let labels = row.object.pointer("/metadata/labels").and_then(Value::as_object);
        cells.extend(options.label_columns.iter().map(|label| {
            labels.and_then(|labels| labels.get(label)).and_then(Value::as_str).unwrap_or_default().to_owned()
        }));
        if options.labels {
            let all: Vec<String> =
                labels.into_iter().flatten().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
            cells.push(if all.is_empty() { "<none>".into() } else { all.join(",") });
        }
        cells
    }
}

/// A cell in the format of kubectl.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "<none>".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub(super) fn text(object: &Value, pointer: &str) -> String {
    print::text(object, pointer).to_owned()
}

#[cfg(test)]
mod tests {
    use kube::core::ApiResource;
    use serde_json::json;

    use super::*;

    fn deployments() -> Resource {
        let api = ApiResource {
            group: "apps".into(),
            version: "v1".into(),
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            plural: "deployments".into(),
        };
        Resource { api, namespaced: true }
    }

    fn answer(managed: bool) -> Value {
        let labels = if managed { json!({"karmada.io/managed": "true"}) } else { json!({}) };
        json!({"kind": "Table", "columnDefinitions": [{"name": "Name", "priority": 0}, {"name": "Ready", "priority": 0}, {"name": "Images", "priority": 1}],
            "rows": [{"cells": ["web", "1/1", "nginx"], "object": {"metadata": {"name": "web", "namespace": "shop", "labels": labels}}}]})
    }

    fn options() -> Options {
        Options {
            wide: false,
            namespaces: false,
            labels: false,
            label_columns: Vec::new(),
            headings: true,
            kind: None,
            event: None,
        }
    }

    #[test]
    fn tables_of_one_server_are_those_of_kubectl() {
        let table = Table::read(answer(false), &deployments());
        assert_eq!(table.render(&options(), "Deployment"), "NAME   READY\nweb    1/1\n");
        let wide = Options { wide: true, namespaces: true, labels: true, ..options() };
        let expected = "NAMESPACE   NAME   READY   IMAGES   LABELS\nshop        web    1/1     nginx    <none>\n";
        assert_eq!(table.render(&wide, "Deployment"), expected);
        let bare = Options { headings: false, kind: Some("deployment.apps".into()), ..options() };
        assert_eq!(table.render(&bare, "Deployment"), "deployment.apps/web   1/1\n");
        assert_eq!(table.rows[0].object["kind"], "Deployment");
    }

    #[test]
    fn tables_of_several_servers_have_a_cluster_column() {
        let mut table = Table::default();
        table.join(Table::read(answer(false), &deployments()), None, true);
        table.join(Table::read(answer(true), &deployments()), Some("m1"), true);
        table.join(Table::read(answer(false), &deployments()), Some("m2"), true);
        let expected = "\
NAME   CLUSTER   READY   ADOPTION
web    Karmada   1/1     -
web    m1        1/1     Y
web    m2        1/1     N
";
        assert_eq!(table.render(&options(), "Deployment"), expected);
    }

    #[test]
    fn labels_and_events_have_columns() {
        let mut table = Table::read(answer(true), &deployments());
        let label_columns = vec!["karmada.io/managed".to_owned(), "nope".to_owned()];
        let all = Options { label_columns, labels: true, event: Some("ADDED"), ..options() };
        let want = "\
EVENT   NAME   READY   MANAGED   NOPE   LABELS
ADDED   web    1/1     true             karmada.io/managed=true
";
        assert_eq!(table.render(&all, "Deployment"), want);
        let mut event = answer(false);
        event.as_object_mut().unwrap().remove("columnDefinitions");
        let mut next = Table::read(event, &deployments());
        next.learn(&table);
        assert_eq!(next.render(&options(), "Deployment"), "NAME   READY\nweb    1/1\n", "events name columns once");
        table.rows.clear();
        assert_eq!(table.render(&all, "Deployment"), "EVENT   NAME   READY   MANAGED   NOPE   LABELS\n");
    }

    #[test]
    fn servers_without_tables_show_names() {
        let list = json!({"kind": "DeploymentList", "items": [{"metadata": {"name": "web"}}]});
        assert_eq!(Table::read(list, &deployments()).render(&options(), "Deployment"), "NAME\nweb\n");
    }
}
