//! `ironclad get`: objects of the control plane and of its members, as tables or whole (specification/operations.md
//! 2.7).

mod columns;
mod format;
mod order;
mod table;
mod watch;

use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::future::join_all;
use ironclad_api::cluster::Cluster;
use ironclad_jsonpath::Path;
use ironclad_seam::Clock;
use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::{DynamicObject, ListParams},
    core::Request,
};
use serde_json::Value;

use crate::{
    connect::Plane,
    evictions,
    members::{self, Member},
    print::{self, Output},
    report::{Misused, answer},
    resource::{Resource, Resources, arguments},
};
use format::Format;
use table::Table;

/// Scope of a query.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// In the control plane.
    #[default]
    Karmada,
    /// In the members.
    Members,
    /// In both.
    All,
}

/// Show objects of the control plane, of its members, or of both.
///
/// `-o wide` shows where a binding runs, how healthy it is and the last reason.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad get clusters -o wide
  ironclad get rb -n shop -o wide
  ironclad get deploy web -s all
  ironclad get pods -A -C member1,member2
  ironclad get works -A -w
  ironclad get deploy -s all -o custom-columns=NAME:.metadata.name,READY:.status.readyReplicas
  ironclad get rb -A -o jsonpath='{range .items[*]}{.metadata.name}{\"\\n\"}{end}'
  ironclad get pods -C member1 -L app --sort-by .spec.nodeName
  ironclad get evictions -w")]
pub struct Command {
    /// TYPE [NAME…], TYPE,TYPE or TYPE/NAME…
    #[arg(value_name = "TYPE", required = true)]
    pub resources: Vec<String>,
    /// Namespace [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Only objects with these fields
    #[arg(long, value_name = "SELECTOR")]
    pub field_selector: Option<String>,
    /// Output format: table, wide, json, yaml, name, jsonpath=TEMPLATE, jsonpath-file=FILE, jsonpath-as-json=TEMPLATE,
    /// custom-columns=HEADING:PATH,…, custom-columns-file=FILE
    #[arg(short, long, default_value = "table", value_name = "FORMAT")]
    pub output: String,
    /// Scope of the query [default: karmada; members with -C]
    #[arg(short = 's', long, value_enum, value_name = "SCOPE")]
    pub operation_scope: Option<Scope>,
    /// Only these members
    #[arg(short = 'C', long, alias = "cluster", value_delimiter = ',', value_name = "NAMES")]
    pub clusters: Vec<String>,
    /// Keep running, and print objects when they change
    #[arg(short, long)]
    pub watch: bool,
    /// Print changes only, not the objects that exist
    #[arg(long)]
    pub watch_only: bool,
    /// Print a column that says whether the object was added, modified or deleted
    #[arg(long)]
    pub output_watch_events: bool,
    /// Sort by this field, such as `.metadata.creationTimestamp`
    #[arg(long, value_name = "PATH")]
    pub sort_by: Option<String>,
    /// Do not print the heading
    #[arg(long)]
    pub no_headers: bool,
    /// Print all labels in a column
    #[arg(long)]
    pub show_labels: bool,
    /// Print a column for each of these labels
    #[arg(short = 'L', long, value_delimiter = ',', value_name = "LABELS")]
    pub label_columns: Vec<String>,
    /// Print the type before each name
    #[arg(long)]
    pub show_kind: bool,
    /// Exit with 0 if a named object does not exist
    #[arg(long)]
    pub ignore_not_found: bool,
    /// Fail if a member does not answer
    #[arg(long)]
    pub strict: bool,
    /// Timeout for the answer of a member
    #[arg(long, value_parser = crate::duration, default_value = "5s", value_name = "DURATION")]
    pub timeout: Duration,
    #[command(flatten)]
    #[allow(missing_docs, reason = "described where it is defined")]
    pub plane: Plane,
}

/// One server of a query; the control plane has no name.
struct Server {
    name: Option<String>,
    client: Client,
}

/// Query.
struct Query<'a> {
    resource: &'a Resource,
    names: &'a [String],
    namespace: Option<String>,
    command: &'a Command,
    format: &'a Format,
    /// Print the type before each name.
    kinds: bool,
}

/// Runs the command.
///
/// # Errors
/// If a type or a named object does not exist, or the control plane does not answer.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    let format = Format::read(&command.output)?;
    let order = command.sort_by.as_deref().map(|text| {
        Path::relaxed(text).map(|path| (path, text)).map_err(|error| Misused(format!("--sort-by {text}: {error}")))
    });
    let order = order.transpose()?;
    let watches = command.watch || command.watch_only;
    let wanted = arguments(&command.resources)?;
    if command.output_watch_events && !watches {
        return Err(Misused("--output-watch-events says what a watch sees\n  try: -w".into()).into());
    }
    if watches && wanted.len() > 1 {
        return Err(Misused("a watch looks at one type\n  try: one command for each".into()).into());
    }
    let client = command.plane.client().await?;
    if command.resources == ["evictions"] {
        let output = format.plain().ok_or_else(|| {
            Misused("evictions are printed as table, wide, json, yaml or name\n  try: -o json".to_owned())
        })?;
        let query = evictions::Query {
            namespace: command.namespace.as_deref().filter(|_| !command.all_namespaces),
            clusters: &command.clusters,
            output,
            watch: watches,
        };
        return evictions::get(&client, &query, clock).await;
    }
    let scope = command.operation_scope.unwrap_or(match command.clusters.is_empty() {
        true => Scope::Karmada,
        false => Scope::Members,
    });
    if scope == Scope::Karmada && !command.clusters.is_empty() {
        return Err(
            Misused("--clusters names members, and --operation-scope is karmada\n  try: -s members".into()).into()
        );
    }
    let (servers, silent) = servers(&client, command, scope).await?;
    let known = Resources::of(&client).await.context("asking the control plane what it serves")?;
    let mut unanswered = silent;
    let (mut objects, mut printed) = (Vec::new(), 0);
    let several = wanted.len() > 1;
    for (word, names) in &wanted {
        let resource = known.find(word)?;
        let namespace = command.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        let namespace = (resource.namespaced && !command.all_namespaces).then_some(namespace);
        let kinds = several || command.show_kind;
        let query = Query { resource: &resource, names, namespace, command, format: &format, kinds };
        if command.watch_only {
            return watch::run(&servers, Vec::new(), &query, scope, clock).await;
        }
        let answers = join_all(servers.iter().map(async |server| {
            let answer = match server.name {
                None => list(&server.client, &query).await.map_err(|error| format!("{error:#}")),
                Some(_) => members::within(clock, command.timeout, list(&server.client, &query))
                    .await
                    .and_then(|answer| answer.map_err(|error| format!("{error:#}"))),
            };
            (server, answer)
        }))
        .await;
        let mut table = Table::default();
        let mut states = Vec::new();
        for (server, answer) in answers {
            match (answer, &server.name) {
                (Ok(found), _) => {
                    states.push((server.name.clone(), watch::ListState::of(&found)));
                    table.join(found, server.name.as_deref(), scope != Scope::Karmada);
                }
                (Err(why), None) => bail!("{why}"),
                (Err(why), Some(name)) => unanswered.push((name.clone(), why)),
            }
        }
        missing(&query, &table)?;
        if let Some((path, text)) = &order {
            order::sort(&mut table.rows, path, text, |row| &row.object)?;
        }
        if watches {
            watch::begin(&table, &query)?;
            report_unanswered(&unanswered, servers.len(), command.strict)?;
            return watch::run(&servers, states, &query, scope, clock).await;
        }
        printed += table.rows.len();
        if format.plain() == Some(Output::Name) || format.is_objects() {
            objects.extend(table.rows.into_iter().map(|row| row.object));
        } else if !table.rows.is_empty() {
            // kubectl separates the tables of several types with an empty line.
            let before = if several && printed > table.rows.len() { "\n" } else { "" };
            print::out(&format!("{before}{}", table.render(&options(&query), &resource.api.kind)))?;
        }
    }
    if format.is_objects() {
        let single = wanted.len() == 1 && wanted[0].1.len() == 1 && servers.len() == 1;
        format.print(&format.text(objects, single, !command.no_headers)?)?;
    } else if format.plain() == Some(Output::Name) {
        print::out(&objects.iter().map(|object| print::name(object) + "\n").collect::<String>())?;
    } else if printed == 0 {
        let place = match (&command.namespace, command.all_namespaces) {
            (_, true) => String::new(),
            (Some(namespace), _) => format!(" in namespace {namespace}"),
            (None, _) => format!(" in namespace {}", client.default_namespace()),
        };
        print::note(&format!("no resources found{place}"));
    }
    report_unanswered(&unanswered, servers.len(), command.strict)
}

/// Returns the servers of the scope, and the members for which there is no client, with the reason.
async fn servers(
    client: &Client,
    command: &Command,
    scope: Scope,
) -> anyhow::Result<(Vec<Server>, Vec<(String, String)>)> {
    let mut servers = Vec::new();
    if scope != Scope::Members {
        servers.push(Server { name: None, client: client.clone() });
    }
    let mut silent = Vec::new();
    if scope != Scope::Karmada {
        let mut clusters = Api::<Cluster>::all(client.clone()).list(&ListParams::default()).await?.items;
        for name in &command.clusters {
            if !clusters.iter().any(|cluster| cluster.name_any() == *name) {
                bail!("cluster {name} does not exist\n  try: ironclad get clusters");
            }
        }
        clusters.retain(|cluster| command.clusters.is_empty() || command.clusters.contains(&cluster.name_any()));
        let kubeconfig = command.plane.kubeconfig().ok();
        for Member { name, client } in members::connect(client, kubeconfig.as_ref(), clusters).await {
            match client {
                Ok(client) => servers.push(Server { name: Some(name), client }),
                Err(why) => silent.push((name, why)),
            }
        }
    }
    Ok((servers, silent))
}

/// Reads all pages of a list as one table with whole objects, or the named objects.
async fn list(client: &Client, query: &Query<'_>) -> anyhow::Result<Table> {
    let resource = query.resource;
    let path = DynamicObject::url_path(&resource.api, query.namespace.as_deref());
    let mut table = Table::default();
    if query.names.is_empty() {
        let mut parameters = ListParams { limit: Some(500), ..ListParams::default() };
        parameters.label_selector.clone_from(&query.command.selector);
        parameters.field_selector.clone_from(&query.command.field_selector);
        loop {
            let request = Request::new(&path).list(&parameters)?;
            let page: Value = client.request(as_table(request, "Object")?).await.map_err(said)?;
            let next = page.pointer("/metadata/continue").and_then(Value::as_str).unwrap_or_default().to_owned();
            table.extend(Table::read(page, resource));
            if next.is_empty() {
                return Ok(table);
            }
            parameters.continue_token = Some(next);
        }
    }
    for name in query.names {
        let request = Request::new(&path).get(name, &Default::default())?;
        match client.request::<Value>(as_table(request, "Object")?).await {
            Ok(answer) => table.extend(Table::read(answer, resource)),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(said(error)),
        }
    }
    Ok(table)
}

fn said(error: kube::Error) -> anyhow::Error {
    anyhow::anyhow!("{}", answer(&error))
}

/// Requests the table that the server prints, with whole objects in its rows.
fn as_table(mut request: http::Request<Vec<u8>>, include: &str) -> anyhow::Result<http::Request<Vec<u8>>> {
    let accept = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";
    request.headers_mut().insert(http::header::ACCEPT, http::HeaderValue::from_static(accept));
    let uri = request.uri().to_string();
    let separator = if uri.contains('?') { '&' } else { '?' };
    *request.uri_mut() = format!("{uri}{separator}includeObject={include}").parse()?;
    Ok(request)
}

/// Fails if no server has a named object, unless --ignore-not-found is given.
fn missing(query: &Query<'_>, table: &Table) -> anyhow::Result<()> {
    if query.command.ignore_not_found {
        return Ok(());
    }
    for name in query.names {
        if !table.rows.iter().any(|row| row.object.pointer("/metadata/name").and_then(Value::as_str) == Some(name)) {
            let plural = match query.resource.api.group.as_str() {
                "" => query.resource.api.plural.clone(),
                group => format!("{}.{group}", query.resource.api.plural),
            };
            bail!("Error from server (NotFound): {plural} {name:?} not found");
        }
    }
    Ok(())
}

fn options(query: &Query<'_>) -> table::Options {
    let (command, api) = (query.command, &query.resource.api);
    let kind = || match api.group.as_str() {
        "" => api.kind.to_lowercase(),
        group => format!("{}.{group}", api.kind.to_lowercase()),
    };
    table::Options {
        wide: query.format.plain() == Some(Output::Wide),
        namespaces: command.all_namespaces && query.resource.namespaced,
        labels: command.show_labels,
        label_columns: command.label_columns.clone(),
        headings: !command.no_headers,
        kind: query.kinds.then(kind),
        event: None,
    }
}

fn report_unanswered(unanswered: &[(String, String)], asked: usize, strict: bool) -> anyhow::Result<()> {
    for (name, why) in unanswered {
        print::note(&format!(
            "cluster({name}) is inaccessible, please check authorization or network: {}",
            print::line(why)
        ));
    }
    if unanswered.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = unanswered.iter().map(|(name, _)| name.as_str()).collect();
    let summary =
        format!("{} of {} clusters did not answer: {}", names.len(), asked.max(names.len()), names.join(", "));
    if strict {
        bail!("{summary}");
    }
    print::note(&summary);
    Ok(())
}
