//! `get -w`: prints objects when they change, on each server from its list's resourceVersion on.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt as _, stream::select_all};
use ironclad_seam::Clock;
use kube::{
    Resource as _,
    api::{DynamicObject, ListParams, WatchEvent, WatchParams},
    core::Request,
};
use serde_json::{Value, json};

use super::{
    Query, Scope, Server, as_table,
    format::Format,
    options, said,
    table::{Row, Table, text},
};
use crate::print::{self, Output};

/// Pause before a watch that ended at once is restarted.
const PAUSE: Duration = Duration::from_secs(1);

/// State of one server's list: its resourceVersion, and its columns, which a server names once.
#[derive(Debug, Default)]
pub(super) struct ListState {
    version: String,
    columns: Table,
}

impl ListState {
    /// The state after this answer.
    pub(super) fn of(answer: &Table) -> Self {
        let mut columns = Table::default();
        columns.learn(answer);
        Self { version: answer.version.clone(), columns }
    }
}

/// Prints the objects that exist when the watch begins.
pub(super) fn begin(table: &Table, query: &Query<'_>) -> anyhow::Result<()> {
    if table.rows.is_empty() && query.format.plain().is_none_or(Output::is_objects) {
        return Ok(());
    }
    show(table, query, "ADDED", !query.command.no_headers)
}

/// Prints rows when they change, until the process is interrupted. A watch that the server ends is resumed at its last
/// resourceVersion.
pub(super) async fn run(
    servers: &[Server],
    states: Vec<(Option<String>, ListState)>,
    query: &Query<'_>,
    scope: Scope,
    clock: &Clock,
) -> anyhow::Result<()> {
    let mut headings = query.command.watch_only && !query.command.no_headers;
    let only_known = !states.is_empty();
    let mut states: BTreeMap<Option<String>, ListState> = states.into_iter().collect();
    let path = DynamicObject::url_path(&query.resource.api, query.namespace.as_deref());
    // Servers that did not answer the list are not watched.
    let servers: Vec<&Server> =
        servers.iter().filter(|server| !only_known || states.contains_key(&server.name)).collect();
    loop {
        let mut streams = Vec::new();
        for server in &servers {
            let mut parameters = WatchParams::default();
            parameters.label_selector.clone_from(&query.command.selector);
            parameters.field_selector.clone_from(&query.command.field_selector);
            let state = states.entry(server.name.clone()).or_default();
            // Named objects were read one by one, each at its own version; after an error no version is known.
            if state.version.is_empty() {
                state.version = version(server, &path).await?;
            }
            let request = as_table(Request::new(&path).watch(&parameters, &state.version)?, "Object")?;
            let events = server.client.request_events::<Value>(request).await.map_err(said)?;
            streams.push(Box::pin(events.map(move |event| (&server.name, event))));
        }
        let mut events = select_all(streams);
        let mut seen = false;
        while let Some((server, event)) = events.next().await {
            let state = states.entry(server.clone()).or_default();
            let (happened, page) = match event {
                Ok(WatchEvent::Added(page)) => ("ADDED", page),
                Ok(WatchEvent::Modified(page)) => ("MODIFIED", page),
                Ok(WatchEvent::Deleted(page)) => ("DELETED", page),
                Ok(WatchEvent::Bookmark(bookmark)) => {
                    state.version = bookmark.metadata.resource_version;
                    continue;
                }
                // Usually 410: the version is too old.
                Ok(WatchEvent::Error(_)) => {
                    state.version.clear();
                    break;
                }
                Err(_) => break,
            };
            seen = true;
            let mut found = Table::read(page, query.resource);
            found.learn(&state.columns);
            state.columns.learn(&found);
            if let Some(version) = found.rows.last().map(|row| text(&row.object, "/metadata/resourceVersion")) {
                state.version = version;
            }
            let mut table = Table::default();
            table.join(found, server.as_deref(), scope != Scope::Karmada);
            table.rows.retain(|row| is_wanted(row, query.names));
            if !table.rows.is_empty() {
                show(&table, query, happened, std::mem::take(&mut headings))?;
            }
        }
        if !seen {
            clock.sleep(PAUSE).await;
        }
    }
}

fn is_wanted(row: &Row, names: &[String]) -> bool {
    names.is_empty() || names.contains(&text(&row.object, "/metadata/name"))
}

/// Prints each object by itself: the next one may come much later.
fn show(table: &Table, query: &Query<'_>, happened: &'static str, headings: bool) -> anyhow::Result<()> {
    let events = query.command.output_watch_events;
    if query.format.plain() == Some(Output::Name) {
        let names = table.rows.iter().map(|row| print::name(&row.object) + "\n");
        return print::out(&names.collect::<String>());
    }
    if !query.format.is_objects() {
        if table.rows.is_empty() {
            return Ok(());
        }
        let options = super::table::Options { headings, event: events.then_some(happened), ..options(query) };
        return print::out(&table.render(&options, &query.resource.api.kind));
    }
    if let Format::Columns(_) = query.format {
        let objects = table.rows.iter().map(|row| row.object.clone()).collect();
        return query.format.print(&query.format.text(objects, false, headings)?);
    }
    for row in &table.rows {
        let object = match events {
            true => json!({"type": happened, "object": row.object}),
            false => row.object.clone(),
        };
        query.format.print(&query.format.text(vec![object], true, headings)?)?;
    }
    Ok(())
}

/// Returns the resourceVersion of an empty list, from which a watch continues.
async fn version(server: &Server, path: &str) -> anyhow::Result<String> {
    let request = Request::new(path).list(&ListParams { limit: Some(1), ..ListParams::default() })?;
    let page: Value = server.client.request(request).await.map_err(said)?;
    Ok(page.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or("0").to_owned())
}
