//! `ironclad get`: objects of the control plane and of its members, as tables or whole (specification/operations.md
//! 2.7).

pub(crate) mod columns;
mod format;
mod order;
mod table;
mod wanted;
mod watch;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, anyhow, bail};
use ironclad_jsonpath::Path;
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Client, Resource as _,
    api::{DynamicObject, ListParams},
    core::Request,
};
use serde_json::Value;

use crate::{
    connect::Plane,
    evictions,
    members::{self, Member, Silent},
    print::{self, Output},
    program,
    report::{self, Misused, answer},
    resource::{Resource, Resources, arguments},
};
use format::Format;
use table::Table;
use wanted::{Wanted, expanded, of_manifests};

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
  ironclad get pods -C member1 --via=proxy -L app --sort-by .spec.nodeName
  ironclad get -f web.yaml -s all
  ironclad get --raw /version -C member1
  ironclad get evictions -w")]
pub struct Command {
    /// TYPE [NAME…], TYPE,TYPE or TYPE/NAME…
    #[arg(value_name = "TYPE", required_unless_present_any = ["filename", "raw"])]
    pub resources: Vec<String>,
    /// The objects that these manifests name; - for stdin
    #[arg(short, long, value_name = "FILES", conflicts_with_all = ["resources", "selector", "field_selector", "all_namespaces"])]
    pub filename: Vec<PathBuf>,
    /// Print the answer to a request for this path, of one member with -C
    #[arg(long, value_name = "PATH", conflicts_with_all = ["resources", "filename", "watch", "watch_only"])]
    pub raw: Option<String>,
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
    /// Output format: table, wide, json, yaml, kyaml, name, jsonpath=TEMPLATE, jsonpath-file=FILE,
    /// jsonpath-as-json=TEMPLATE, custom-columns=HEADING:PATH,…, custom-columns-file=FILE
    #[arg(short, long, default_value = "table", value_name = "FORMAT")]
    pub output: String,
    /// Template of -o jsonpath and of the other formats that have one
    #[arg(long, value_name = "TEMPLATE")]
    pub template: Option<String>,
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
    /// Keep the managed fields of objects in JSON and YAML
    #[arg(long)]
    pub show_managed_fields: bool,
    /// Number of objects of one answer; 0 for all
    #[arg(long, default_value_t = 500, value_name = "NUMBER")]
    pub chunk_size: u32,
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
    pub way: members::Way,
    #[command(flatten)]
    pub plane: Plane,
}

/// Query of one type.
struct Query<'a> {
    /// The type as it was typed.
    word: &'a str,
    names: &'a [String],
    namespace: &'a str,
    command: &'a Command,
    format: &'a Format,
    scope: Scope,
}

/// Answer of one server to a query.
struct Found {
    /// The type as this server serves it.
    resource: Resource,
    table: Table,
}

/// True if the elements of the eviction queue are asked for, which are no objects of a server.
///
/// # Errors
/// If they are asked for by a name or with a flag that only objects have.
fn is_of_evictions(command: &Command) -> Result<bool, Misused> {
    let Some(first) = command.resources.first() else { return Ok(false) };
    let (word, name) = first.split_once('/').map_or((first.as_str(), None), |(word, name)| (word, Some(name)));
    if word != "evictions" {
        return Ok(false);
    }
    if let Some(name) = name.or_else(|| command.resources.get(1).map(String::as_str)) {
        return Err(Misused(format!("evictions have no names of their own\n  try: ironclad why evicted {name}")));
    }
    for (flag, is_set) in [
        ("--selector", command.selector.is_some()),
        ("--field-selector", command.field_selector.is_some()),
        ("--sort-by", command.sort_by.is_some()),
        ("--show-labels", command.show_labels),
        ("--label-columns", !command.label_columns.is_empty()),
        ("--show-kind", command.show_kind),
        ("--watch-only", command.watch_only),
        ("--output-watch-events", command.output_watch_events),
    ] {
        if is_set {
            let message =
                format!("{flag} can't be used with evictions: they are in the order of the queue, and have no labels");
            return Err(Misused(message));
        }
    }
    Ok(true)
}

/// Runs the command.
///
/// # Errors
/// If a type or a named object does not exist, or the control plane or all members do not answer.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    if let Some(path) = &command.raw {
        return raw(command, path).await;
    }
    let format = Format::given(&command.output, command.template.as_deref())?;
    let order = command.sort_by.as_deref().map(|text| {
        Path::relaxed(text).map(|path| (path, text)).map_err(|error| Misused(format!("--sort-by {text}: {error}")))
    });
    let order = order.transpose()?;
    let wanted = match command.filename.is_empty() {
        true => arguments(&command.resources)?.into_iter().map(Wanted::from).collect(),
        false => of_manifests(&command.filename)?,
    };
    let scope = scope(command, &wanted)?;
    let is_of_evictions = is_of_evictions(command)?;
    let client = command.plane.client().await?;
    if is_of_evictions {
        let output = format.plain().ok_or_else(|| {
            Misused("evictions are printed as table, wide, json, yaml or name\n  try: -o json".to_owned())
        })?;
        let query = evictions::Query {
            namespace: command.namespace.as_deref().filter(|_| !command.all_namespaces),
            clusters: &command.clusters,
            output,
            watch: command.watch,
            headers: !command.no_headers,
        };
        return evictions::get(&client, &query, clock).await;
    }
    let members = match scope {
        Scope::Karmada => Vec::new(),
        Scope::Members | Scope::All => {
            let clusters = members::clusters(&client, &command.clusters).await?;
            members::connect(&client, command.plane.kubeconfig().ok().as_ref(), command.way, &clusters).await
        }
    };
    let plane = (scope != Scope::Members).then_some(&client);
    let known = Resources::of(&client).await.context("asking the control plane what it serves")?;
    let namespace = command.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let mut silent = Silent::default();
    let (mut objects, mut tables, mut errors, mut is_namespaced) = (Vec::new(), Vec::new(), Vec::new(), false);
    let mut not_found = 0;
    let wanted: Vec<_> = wanted.into_iter().flat_map(|wanted| expanded(&known, wanted)).collect();
    for Wanted { word, names, namespace: of_manifest } in &wanted {
        let namespace = of_manifest.as_ref().unwrap_or(&namespace);
        let query = Query { word, names, namespace, command, format: &format, scope };
        if command.watch_only {
            return watch::run(plane, &members, &known, Vec::new(), &query, clock).await;
        }
        let (answers, unanswered) = ask(plane, &members, &known, &query, clock).await?;
        silent.extend(unanswered);
        let Some(resource) = answers.iter().find_map(|(_, found)| found.as_ref()).map(|found| found.resource.clone())
        else {
            // No server that answered serves the type.
            if !answers.is_empty() {
                errors.push(known.find(word).err().unwrap_or_else(|| {
                    anyhow!("no member that answered serves {word:?}\n  try: ironclad get crds -s members")
                }));
            }
            continue;
        };
        is_namespaced |= resource.namespaced;
        let mut table = Table::default();
        let mut states = Vec::new();
        for (server, found) in answers {
            match found {
                Some(found) => {
                    states.push((server.clone(), watch::ListState::of(&found.table)));
                    let joined = scope != Scope::Karmada || program::runs_as_karmadactl();
                    table.join(found.table, server.as_deref(), joined);
                }
                None => print::note(&format!("cluster({}) does not serve {word:?}", server.unwrap_or_default())),
            }
        }
        let mut missing = missing(&query, &resource, &table, &silent);
        let alone = match (plane, members.as_slice()) {
            (Some(client), []) => Some(client.clone()),
            (None, [member]) => member.client().ok(),
            _ => None,
        };
        if let (Some(client), false) = (alone, missing.is_empty())
            && let Some(error) = missing_namespace(&client, &query, &resource).await
        {
            missing = missing.iter().map(|_| anyhow!(answer(&error))).collect();
        }
        not_found += missing.len();
        errors.extend(missing);
        if let Some((path, text)) = &order {
            order::sort(&mut table.rows, path, text, |row| &row.object)?;
        }
        if command.watch {
            watch::begin(&table, &resource, &query)?;
            end(errors, &silent, plane.is_some(), members.len(), command.strict)?;
            return watch::run(plane, &members, &known, states, &query, clock).await;
        }
        if format.plain() == Some(Output::Name) || format.is_objects() {
            objects.extend(table.rows.into_iter().map(|row| row.object));
        } else if !table.rows.is_empty() {
            tables.push((resource, table));
        }
    }
    // Tables of several types have an empty line between them and the type before each name.
    let several = tables.len() > 1;
    for (index, (resource, table)) in tables.iter().enumerate() {
        let before = if index > 0 { "\n" } else { "" };
        let text = table.render(&options(command, &format, resource, several), &resource.api.kind);
        print::out(&format!("{before}{text}"))?;
    }
    if format.is_objects() {
        let single =
            wanted.len() == 1 && wanted[0].names.len() == 1 && members.len() + usize::from(plane.is_some()) == 1;
        // Templates see whole objects, as kubectl's do.
        let keeps = command.show_managed_fields || format.is_chosen();
        // Several objects of which none exists are an empty List, as with kubectl.
        let is_one_missing = single && not_found > 0;
        let is_empty_list = !command.ignore_not_found && !is_one_missing && errors.len() == not_found;
        if !objects.is_empty() || is_empty_list {
            let objects = objects.into_iter().map(|object| shown(object, keeps)).collect();
            format.print(&format.text(objects, single, !command.no_headers)?)?;
        }
    } else if format.plain() == Some(Output::Name) {
        print::out(&objects.iter().map(|object| print::name(object) + "\n").collect::<String>())?;
    } else if tables.is_empty() && errors.is_empty() && !command.ignore_not_found {
        print::note(&match command.all_namespaces || !is_namespaced {
            true => "No resources found".to_owned(),
            false => format!("No resources found in {namespace} namespace."),
        });
    }
    end(errors, &silent, plane.is_some(), members.len(), command.strict)
}

/// The scope of the query, if its flags make sense together. The refusals are kubectl's.
fn scope(command: &Command, wanted: &[Wanted]) -> Result<Scope, Misused> {
    let named = wanted.iter().any(|wanted| !wanted.names.is_empty());
    let watches = command.watch || command.watch_only;
    let refusals = [
        (command.output_watch_events && !watches, "--output-watch-events needs --watch\n  try: -w".to_owned()),
        (watches && wanted.len() > 1, "a watch takes one resource type\n  try: one command for each".to_owned()),
        (
            named && (command.selector.is_some() || command.field_selector.is_some()),
            "name cannot be provided when a selector is specified".to_owned(),
        ),
        (
            named && command.all_namespaces,
            "a resource cannot be retrieved by name across all namespaces\n  try: -n NAMESPACE".to_owned(),
        ),
        (
            command.show_labels && !matches!(command.output.as_str(), "table" | "wide"),
            format!("--show-labels option cannot be used with {} printer\n  try: -o wide", command.output),
        ),
        (
            command.operation_scope == Some(Scope::Karmada) && !command.clusters.is_empty(),
            "--clusters names members, and --operation-scope is karmada\n  try: -s members".to_owned(),
        ),
    ];
    if let Some((_, text)) = refusals.into_iter().find(|(refused, _)| *refused) {
        return Err(Misused(text));
    }
    let default = if command.clusters.is_empty() { Scope::Karmada } else { Scope::Members };
    Ok(command.operation_scope.unwrap_or(default))
}

/// Prints the answer to one request.
async fn raw(command: &Command, path: &str) -> anyhow::Result<()> {
    let request = http::Request::get(path).body(Vec::new()).ok().filter(|_| path.starts_with('/'));
    let request = request.ok_or_else(|| {
        Misused(format!("--raw {path:?} is not the path of a request\n  try: --raw /api/v1/namespaces/default/pods"))
    })?;
    let plane = command.plane.client().await?;
    let client = match command.clusters.as_slice() {
        [] if matches!(command.operation_scope, None | Some(Scope::Karmada)) => plane,
        [_] => {
            let clusters = members::clusters(&plane, &command.clusters).await?;
            let members =
                members::connect(&plane, command.plane.kubeconfig().ok().as_ref(), command.way, &clusters).await;
            let member = members.first().context("the cluster was found")?;
            member.client().map_err(|why| anyhow!("cluster {} is not reached\n  because {why}", member.name))?
        }
        _ => return Err(Misused("--raw asks one server\n  try: -C CLUSTER".to_owned()).into()),
    };
    print::data(&client.request_text(request).await?)
}

/// Answers of servers, `None` from a server that does not serve the type; the control plane has no name.
type Answers = Vec<(Option<String>, Option<Found>)>;

/// Asks all servers.
async fn ask(
    plane: Option<&Client>,
    members: &[Member],
    known: &Resources,
    query: &Query<'_>,
    clock: &Clock,
) -> anyhow::Result<(Answers, Silent)> {
    let mut all: Answers = Vec::new();
    if let Some(client) = plane {
        let resource = known.find(query.word)?;
        let table = list(client, query, &resource).await.map_err(|error| anyhow!(answer(&error)))?;
        all.push((None, Some(Found { resource, table })));
    }
    let answers = members::ask(members, clock, query.command.timeout, async |_, client| {
        find(&client, known, query).await.map_err(|error| format!("{error:#}"))
    })
    .await;
    all.extend(answers.answered.into_iter().map(|(name, found)| (Some(name), found)));
    Ok((all, answers.silent))
}

/// Resolves the type in a member and lists it; `None` if the member does not serve it. The control plane's versions are
/// tried first: most members serve the same, and need not be asked for what they serve.
async fn find(client: &Client, known: &Resources, query: &Query<'_>) -> anyhow::Result<Option<Found>> {
    if let Ok(resource) = known.find(query.word) {
        match list(client, query, &resource).await {
            Ok(table) => return Ok(Some(Found { resource, table })),
            Err(error) if !is_not_served(&error) => bail!(answer(&error)),
            Err(_) => {}
        }
    }
    let Ok(resource) = Resources::of(client).await?.find(query.word) else { return Ok(None) };
    let table = list(client, query, &resource).await.map_err(|error| anyhow!(answer(&error)))?;
    Ok(Some(Found { resource, table }))
}

/// True if a server has no such path. A named object that does not exist is no error of [`list`].
fn is_not_served(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Reads all pages of a list as one table with whole objects, or the named objects.
async fn list(client: &Client, query: &Query<'_>, resource: &Resource) -> Result<Table, kube::Error> {
    let path = path(query, resource);
    let mut table = Table::default();
    if query.names.is_empty() {
        let mut parameters =
            ListParams { limit: Some(query.command.chunk_size).filter(|size| *size > 0), ..ListParams::default() };
        parameters.label_selector.clone_from(&query.command.selector);
        parameters.field_selector.clone_from(&query.command.field_selector);
        loop {
            let request = Request::new(&path).list(&parameters).map_err(kube::Error::BuildRequest)?;
            let page: Value = client.request(as_table(request, "Object")?).await?;
            let next = page.pointer("/metadata/continue").and_then(Value::as_str).unwrap_or_default().to_owned();
            table.extend(Table::read(page, resource));
            if next.is_empty() {
                return Ok(table);
            }
            parameters.continue_token = Some(next);
        }
    }
    for name in query.names {
        let request = Request::new(&path).get(name, &Default::default()).map_err(kube::Error::BuildRequest)?;
        match client.request::<Value>(as_table(request, "Object")?).await {
            Ok(answer) => table.extend(Table::read(answer, resource)),
            // An object that does not exist, in contrast to a path that is not served, is named.
            Err(kube::Error::Api(status))
                if status.code == 404 && status.details.as_ref().is_some_and(|details| !details.name.is_empty()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(table)
}

/// The path of the objects.
fn path(query: &Query<'_>, resource: &Resource) -> String {
    let namespace = (resource.namespaced && !query.command.all_namespaces).then_some(query.namespace);
    DynamicObject::url_path(&resource.api, namespace)
}

/// Requests the table that the server prints, with whole objects in its rows.
fn as_table(mut request: http::Request<Vec<u8>>, include: &str) -> Result<http::Request<Vec<u8>>, kube::Error> {
    let accept = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";
    request.headers_mut().insert(http::header::ACCEPT, http::HeaderValue::from_static(accept));
    let uri = request.uri().to_string();
    let separator = if uri.contains('?') { '&' } else { '?' };
    let uri = format!("{uri}{separator}includeObject={include}").parse();
    *request.uri_mut() = uri.map_err(|error| kube::Error::HttpError(http::Error::from(error)))?;
    Ok(request)
}

/// Named objects that no server that answered has, unless --ignore-not-found is given.
fn missing(query: &Query<'_>, resource: &Resource, table: &Table, silent: &Silent) -> Vec<anyhow::Error> {
    if query.command.ignore_not_found {
        return Vec::new();
    }
    let plural = match resource.api.group.as_str() {
        "" => resource.api.plural.clone(),
        group => format!("{}.{group}", resource.api.plural),
    };
    let among = match silent.is_empty() {
        true => String::new(),
        false => format!(" in the clusters that answered; {} did not", silent.names()),
    };
    let exists = |name: &str| table.rows.iter().any(|row| print::text(&row.object, "/metadata/name") == name);
    let missing = query.names.iter().filter(|name| !exists(name));
    missing.map(|name| anyhow!("Error from server (NotFound): {plural} {name:?} not found{among}")).collect()
}

/// Error about the namespace of named objects that the only server does not have, if that does not exist either:
/// kubectl asks for it, too. The namespace `default` is not asked for.
async fn missing_namespace(client: &Client, query: &Query<'_>, resource: &Resource) -> Option<kube::Error> {
    if !resource.namespaced || matches!(query.namespace, "" | "default") {
        return None;
    }
    let error = Api::<Namespace>::all(client.clone()).get_metadata(query.namespace).await.err()?;
    matches!(&error, kube::Error::Api(status) if status.is_not_found()).then_some(error)
}

/// The object as JSON and YAML show it.
fn shown(mut object: Value, managed_fields: bool) -> Value {
    if !managed_fields && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

/// Options of a table; `several` if it is one of several.
fn options(command: &Command, format: &Format, resource: &Resource, several: bool) -> table::Options {
    let api = &resource.api;
    let kind = || match api.group.as_str() {
        "" => api.kind.to_lowercase(),
        group => format!("{}.{group}", api.kind.to_lowercase()),
    };
    table::Options {
        wide: format.plain() == Some(Output::Wide),
        namespaces: command.all_namespaces && resource.namespaced,
        labels: command.show_labels,
        label_columns: command.label_columns.clone(),
        headings: !command.no_headers,
        kind: (several || command.show_kind).then(kind),
        event: None,
    }
}

/// Ends the verb: names the members that did not answer and the errors, after what was found was printed.
fn end(
    mut errors: Vec<anyhow::Error>,
    silent: &Silent,
    plane_answered: bool,
    members: usize,
    strict: bool,
) -> anyhow::Result<()> {
    silent.print();
    let last = errors.pop();
    errors.iter().for_each(|error| print::note(&report::render(error)));
    match (silent.verdict(members, plane_answered, strict), last) {
        (Ok(()), None) => Ok(()),
        (Err(error), None) | (Ok(()), Some(error)) => Err(error),
        (Err(verdict), Some(error)) => {
            print::note(&report::render(&error));
            Err(verdict)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        command: Command,
    }

    #[test]
    fn evictions_take_no_names_and_no_flags_of_objects() {
        let asked = |words: &str| {
            let line = Line::try_parse_from(std::iter::once("get").chain(words.split(' '))).unwrap();
            is_of_evictions(&line.command)
                .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
        };
        assert_eq!(asked("evictions -A --no-headers -o wide"), Ok(true));
        assert_eq!(asked("deployments -l app=web --sort-by .metadata.name"), Ok(false));
        for words in ["evictions foo", "evictions/foo"] {
            assert_eq!(asked(words), Err("evictions have no names of their own".to_owned()), "{words}");
        }
        for words in ["evictions -l app=web", "evictions --sort-by .x", "evictions --show-labels"] {
            let flag = words.split(' ').nth(1).map_or("", |flag| if flag == "-l" { "--selector" } else { flag });
            let want =
                format!("{flag} can't be used with evictions: they are in the order of the queue, and have no labels");
            assert_eq!(asked(words), Err(want), "{words}");
        }
    }
}
