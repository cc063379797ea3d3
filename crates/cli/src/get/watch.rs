//! `get -w`: prints objects when they change, each server by itself from its list's resourceVersion on.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::{StreamExt as _, future::try_join_all};
use ironclad_seam::Clock;
use kube::{
    Client,
    api::{WatchEvent, WatchParams},
    core::Request,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{
    Query, Scope, as_table, find,
    format::Format,
    options, path, shown,
    table::{Row, Table, text},
};
use crate::{
    members::{self, ASKED_MAX, Member},
    print::{self, Output},
    report::answer,
    resource::{Resource, Resources},
};

/// Pause before a watch that ended is begun again; it doubles while the server does not answer.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// State of one server's list: its resourceVersion, its columns, which a server names once, and the objects that were
/// printed.
#[derive(Debug, Default)]
pub(super) struct ListState {
    version: String,
    columns: Table,
    printed: BTreeMap<String, Row>,
}

/// A change to print.
#[derive(Debug, PartialEq)]
struct Change {
    happened: &'static str,
    row: Row,
}

/// Identity of an object within one server.
fn id(row: &Row) -> String {
    format!("{}/{}", text(&row.object, "/metadata/namespace"), text(&row.object, "/metadata/name"))
}

impl ListState {
    /// The state after this answer.
    pub(super) fn of(answer: &Table) -> Self {
        let mut state = Self::default();
        state.changes(answer.clone());
        state
    }

    /// Takes a list, and returns what changed since the last one: what a watch would have sent meanwhile.
    fn changes(&mut self, mut list: Table) -> Vec<Change> {
        self.columns.learn(&list);
        self.version = std::mem::take(&mut list.version);
        let mut changes = Vec::new();
        let present: BTreeSet<String> = list.rows.iter().map(id).collect();
        let deleted: Vec<String> = self.printed.keys().filter(|id| !present.contains(*id)).cloned().collect();
        for id in deleted {
            changes.extend(self.printed.remove(&id).map(|row| Change { happened: "DELETED", row }));
        }
        for row in list.rows {
            let known = self.printed.get(&id(&row));
            let happened = match known.map(|known| (version(known), uid(known))) {
                None => "ADDED",
                Some(of_known) if of_known == (version(&row), uid(&row)) => continue,
                Some(_) => "MODIFIED",
            };
            self.record(happened, &row);
            changes.push(Change { happened, row });
        }
        changes
    }

    /// Remembers that a change was printed.
    fn record(&mut self, happened: &'static str, row: &Row) {
        match happened {
            "DELETED" => drop(self.printed.remove(&id(row))),
            _ => drop(self.printed.insert(id(row), row.summary())),
        }
    }
}

fn version(row: &Row) -> String {
    text(&row.object, "/metadata/resourceVersion")
}

fn uid(row: &Row) -> String {
    text(&row.object, "/metadata/uid")
}

/// Prints the objects that exist when the watch begins.
pub(super) fn begin(table: &Table, resource: &Resource, query: &Query<'_>) -> anyhow::Result<()> {
    if table.rows.is_empty() && query.format.is_objects() {
        return Ok(());
    }
    show(table, resource, query, "ADDED", !query.command.no_headers)
}

/// Prints changes until the process is interrupted. Each server's watch is begun again by itself when it ends; what
/// changed while a server did not answer is read from its list.
pub(super) async fn run(
    plane: Option<&Client>,
    members: &[Member],
    known: &Resources,
    states: Vec<(Option<String>, ListState)>,
    query: &Query<'_>,
    clock: &Clock,
) -> anyhow::Result<()> {
    let headings = RefCell::new(query.command.watch_only && !query.command.no_headers);
    let plane = plane.map(|client| (None, Ok(client.clone())));
    let members = members.iter().map(|member| (Some(member.name.clone()), member.client()));
    let servers: Vec<_> = plane.into_iter().chain(members).collect();
    let asking = Semaphore::new(ASKED_MAX);
    let mut states: BTreeMap<Option<String>, ListState> = states.into_iter().collect();
    let watches = servers.into_iter().filter_map(|(name, client)| match client {
        Ok(client) => {
            let state = states.remove(&name);
            Some(Watch { name, client, known, query, clock, headings: &headings, asking: &asking }.run(state))
        }
        Err(why) => {
            trouble(name.as_deref(), &why);
            None
        }
    });
    try_join_all(watches).await.map(drop)
}

/// Says on stderr that a server does not answer.
fn trouble(name: Option<&str>, why: &str) {
    let who = name.map_or_else(|| "the control plane".to_owned(), |name| format!("cluster({name})"));
    print::note(&format!("{who} is inaccessible, its changes are printed once it answers: {}", print::line(why)));
}

/// The watch of one server.
struct Watch<'a> {
    name: Option<String>,
    client: Client,
    known: &'a Resources,
    query: &'a Query<'a>,
    clock: &'a Clock,
    /// The heading is still to be printed.
    headings: &'a RefCell<bool>,
    /// Places of the members that are asked at a time; a watch that has begun needs none.
    asking: &'a Semaphore,
}

impl Watch<'_> {
    /// Lists unless a state is given, watches, and starts again when the watch ends.
    ///
    /// # Errors
    /// If nothing can be printed.
    async fn run(self, state: Option<ListState>) -> anyhow::Result<()> {
        // What exists when `--watch-only` begins is not printed.
        let mut is_first = self.query.command.watch_only;
        // Who did not answer the first list was named then.
        let (mut pause, mut is_silent) = (PAUSE, state.is_none() && !is_first);
        let mut state = state.unwrap_or_default();
        loop {
            match self.once(&mut state, &mut is_first).await? {
                Ok(()) => (pause, is_silent) = (PAUSE, false),
                Err(why) => {
                    if !std::mem::replace(&mut is_silent, true) {
                        trouble(self.name.as_deref(), &why);
                    }
                    state.version.clear();
                }
            }
            self.clock.sleep(pause).await;
            pause = if is_silent { (pause * 2).min(PAUSE_MAX) } else { PAUSE };
        }
    }

    /// One watch, until it ends; the inner error says why the server did not answer.
    async fn once(&self, state: &mut ListState, is_first: &mut bool) -> anyhow::Result<Result<(), String>> {
        let mut resource = self.known.find(self.query.word).ok();
        // Never closed, so that it always gives a place.
        let place = self.asking.acquire().await;
        if state.version.is_empty() {
            let found = match self.within(find(&self.client, self.known, self.query)).await {
                Ok(Ok(found)) => found,
                Ok(Err(error)) => return Ok(Err(format!("{error:#}"))),
                Err(why) => return Ok(Err(why)),
            };
            let Some(found) = found else { return Ok(Err(format!("it does not serve {:?}", self.query.word))) };
            let changes = state.changes(found.table);
            if !std::mem::take(is_first) {
                changes.into_iter().try_for_each(|change| self.print(state, &found.resource, change))?;
            }
            resource = Some(found.resource);
        }
        let Some(resource) = resource else { return Ok(Err(format!("it does not serve {:?}", self.query.word))) };
        let mut parameters = WatchParams::default();
        parameters.label_selector.clone_from(&self.query.command.selector);
        parameters.field_selector.clone_from(&self.query.command.field_selector);
        let request = Request::new(path(self.query, &resource)).watch(&parameters, &state.version);
        let request = request.map_err(kube::Error::BuildRequest).and_then(|request| as_table(request, "Object"));
        let events = match request {
            Ok(request) => self.within(self.client.request_events::<Value>(request)).await,
            Err(error) => Ok(Err(error)),
        };
        let events = match events {
            Ok(Ok(events)) => events,
            Ok(Err(error)) => return Ok(Err(answer(&error))),
            Err(why) => return Ok(Err(why)),
        };
        drop(place);
        let mut events = Box::pin(events);
        while let Some(event) = events.next().await {
            let (happened, page) = match event {
                Ok(WatchEvent::Added(page)) => ("ADDED", page),
                Ok(WatchEvent::Modified(page)) => ("MODIFIED", page),
                Ok(WatchEvent::Deleted(page)) => ("DELETED", page),
                Ok(WatchEvent::Bookmark(bookmark)) => {
                    state.version = bookmark.metadata.resource_version;
                    continue;
                }
                // Usually 410, the version is too old: the next list says what changed.
                Ok(WatchEvent::Error(_)) => {
                    state.version.clear();
                    break;
                }
                Err(error) => return Ok(Err(answer(&error))),
            };
            let mut found = Table::read(page, &resource);
            found.learn(&state.columns);
            state.columns.learn(&found);
            for row in found.rows {
                state.version = version(&row);
                state.record(happened, &row);
                self.print(state, &resource, Change { happened, row })?;
            }
        }
        Ok(Ok(()))
    }

    /// The answer of a member, or an error if it did not answer in time.
    async fn within<T>(&self, question: impl Future<Output = T>) -> Result<T, String> {
        match self.name {
            Some(_) => members::within(self.clock, self.query.command.timeout, question).await,
            None => Ok(question.await),
        }
    }

    fn print(&self, state: &ListState, resource: &Resource, change: Change) -> anyhow::Result<()> {
        if !is_wanted(&change.row, self.query.names) {
            return Ok(());
        }
        let mut found = Table::default();
        found.learn(&state.columns);
        found.rows.push(change.row);
        let mut table = Table::default();
        table.join(found, self.name.as_deref(), self.query.scope != Scope::Karmada);
        show(&table, resource, self.query, change.happened, self.headings.replace(false))
    }
}

fn is_wanted(row: &Row, names: &[String]) -> bool {
    names.is_empty() || names.contains(&text(&row.object, "/metadata/name"))
}

/// Prints each object by itself: the next one may come much later.
fn show(
    table: &Table,
    resource: &Resource,
    query: &Query<'_>,
    happened: &'static str,
    headings: bool,
) -> anyhow::Result<()> {
    let events = query.command.output_watch_events;
    if query.format.plain() == Some(Output::Name) {
        let names = table.rows.iter().map(|row| print::name(&row.object) + "\n");
        return print::out(&names.collect::<String>());
    }
    if !query.format.is_objects() {
        if table.rows.is_empty() {
            return Ok(());
        }
        let options = super::table::Options {
            headings,
            event: events.then_some(happened),
            ..options(query.command, query.format, resource, false)
        };
        return print::out(&table.render(&options, &resource.api.kind));
    }
    if let Format::Columns(_) = query.format {
        let objects = table.rows.iter().map(|row| row.object.clone()).collect();
        return query.format.print(&query.format.text(objects, false, headings)?);
    }
    for row in &table.rows {
        let object = shown(row.object.clone(), query.command.show_managed_fields || query.format.is_chosen());
        let object = match events {
            true => json!({"type": happened, "object": object}),
            false => object,
        };
        query.format.print(&query.format.text(vec![object], true, headings)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kube::core::ApiResource;

    use super::*;

    fn list(version: &str, objects: &[(&str, &str)]) -> Table {
        let api = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        let items: Vec<Value> = objects
            .iter()
            .map(|(name, version)| json!({"metadata": {"name": name, "uid": name, "resourceVersion": version}}))
            .collect();
        let list = json!({"kind": "ConfigMapList", "metadata": {"resourceVersion": version}, "items": items});
        Table::read(list, &Resource { api, namespaced: true })
    }

    #[test]
    fn a_new_list_says_what_a_watch_missed() {
        let mut state = ListState::of(&list("10", &[("a", "1"), ("b", "2"), ("c", "3")]));
        let changes = state.changes(list("20", &[("a", "1"), ("b", "12"), ("d", "15")]));
        let received: Vec<(&str, String)> =
            changes.iter().map(|change| (change.happened, text(&change.row.object, "/metadata/name"))).collect();
        assert_eq!(received, [("DELETED", "c".to_owned()), ("MODIFIED", "b".to_owned()), ("ADDED", "d".to_owned())]);
        assert_eq!(state.version, "20");
        assert_eq!(state.changes(list("21", &[("a", "1"), ("b", "12"), ("d", "15")])), []);
    }
}
