//! Names from kubeconfigs and servers, for at most a second and without a word about errors.

use std::{path::PathBuf, sync::Arc, time::Duration};

use ironclad_api::cluster::Cluster;
use ironclad_runtime::{Api, client_from_kubeconfig};
use ironclad_seam::{Clock, Tasks};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Client,
    api::{DynamicObject, ListParams},
    config::{ExecInteractiveMode, Kubeconfig},
};

use super::{Source, line::Line};
use crate::{connect, members, resource::Resources};

/// Time until the names are given up.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time for the answer of a member.
const MEMBER_PATIENCE: Duration = Duration::from_millis(700);
/// Names that a server is asked for; nobody reads more.
const NAMES_MAX: u32 = 500;

/// Output formats, those with an argument up to it.
const FORMATS: [&str; 11] = [
    "table", "wide", "json", "yaml", "kyaml", "name", "jsonpath=", "jsonpath-as-json=", "jsonpath-file=",
    "custom-columns=", "custom-columns-file=",
];

/// Names for the word that begins like `current`, in order; too many, as they are not compared with it.
pub(super) fn ask(source: Source, line: &Line, current: &str) -> Vec<String> {
    let mut names = match source {
        Source::Formats => return FORMATS.map(str::to_owned).to_vec(),
        Source::Contexts => contexts(line.plane.kubeconfig.as_ref()),
        Source::MemberContexts => contexts(line.member_kubeconfig.as_ref()),
        Source::Users => users(line.plane.kubeconfig.as_ref()),
        Source::Taints if line.positionals.is_empty() => vec!["clusters".to_owned()],
        _ => of_servers(source, line, current),
    };
    names.sort_unstable();
    names.dedup();
    names
}

fn contexts(file: Option<&PathBuf>) -> Vec<String> {
    let kubeconfig = connect::read(file).unwrap_or_default();
    kubeconfig.contexts.into_iter().map(|context| context.name).collect()
}

fn users(file: Option<&PathBuf>) -> Vec<String> {
    let kubeconfig = connect::read(file).unwrap_or_default();
    kubeconfig.auth_infos.into_iter().map(|user| user.name).collect()
}

/// Asks servers, in a runtime of its own. A credential plugin blocks its thread, so that it has one.
fn of_servers(source: Source, line: &Line, current: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let Ok(runtime) = runtime else { return Vec::new() };
    let (clock, tasks) = (Clock::system(), Tasks::new("completion"));
    let names = runtime.block_on(async {
        tokio::select! {
            biased;
            names = answers(source, line, current, &clock, &tasks) => names,
            () = clock.sleep(PATIENCE) => None,
        }
    });
    runtime.shutdown_background();
    names.unwrap_or_default()
}

async fn answers(source: Source, line: &Line, current: &str, clock: &Clock, tasks: &Tasks) -> Option<Vec<String>> {
    let kubeconfig = silent(line.plane.kubeconfig().ok()?);
    let context = line.plane.context.clone();
    let of_plane = kubeconfig.clone();
    let client = tasks.spawn("client", async move {
        let config = connect::config(of_plane, context.as_deref(), "control plane").await.ok()?;
        client_from_kubeconfig(config, Arc::default()).ok()
    });
    let client = client.await.ok().flatten()?;
    match source {
        Source::Clusters | Source::Taints => listed(Api::<Cluster>::all(client)).await,
        Source::Namespaces => listed(Api::<Namespace>::all(client)).await,
        Source::Kinds => Some(Resources::of(&client).await.ok()?.kinds()),
        Source::Objects => match words(line, current) {
            Wanted::Kinds => {
                let mut kinds = Resources::of(&client).await.ok()?.words();
                kinds.push("evictions".to_owned());
                // The last one of `deploy,svc`.
                let before = current.rfind(',').map_or("", |at| &current[..=at]);
                Some(kinds.into_iter().map(|kind| format!("{before}{kind}")).collect())
            }
            Wanted::Objects { kind, prefix } => {
                let names = match line.of_members {
                    true => in_members(&client, &kubeconfig, line, kind, clock).await?,
                    false => objects(&client, line, kind, client.default_namespace()).await?,
                };
                Some(names.into_iter().map(|name| format!("{prefix}{name}")).collect())
            }
        },
        Source::Bindings => {
            // Without a namespace those of all are meant.
            let line = Line { all_namespaces: line.namespace.is_none(), ..line.clone() };
            objects(&client, &line, "resourcebindings", client.default_namespace()).await
        }
        Source::Pods => match current.split_once('/') {
            None => in_members(&client, &kubeconfig, line, "pods", clock).await,
            Some((kind, _)) => {
                let names = objects(&client, line, kind, client.default_namespace()).await?;
                Some(names.into_iter().map(|name| format!("{kind}/{name}")).collect())
            }
        },
        Source::Contexts | Source::MemberContexts | Source::Users | Source::Formats => None,
    }
}

/// The kubeconfig whose credential plugins ask nobody: one that always does is not run.
fn silent(mut kubeconfig: Kubeconfig) -> Kubeconfig {
    let infos = kubeconfig.auth_infos.iter_mut().filter_map(|user| user.auth_info.as_mut());
    for plugin in infos.filter_map(|info| info.exec.as_mut()) {
        if plugin.interactive_mode == Some(ExecInteractiveMode::Always) {
            plugin.command = None;
        }
        plugin.interactive_mode = Some(ExecInteractiveMode::Never);
    }
    kubeconfig
}

/// Next word of `TYPE NAME…` or `TYPE/NAME…`.
#[derive(Debug, PartialEq, Eq)]
enum Wanted<'a> {
    Kinds,
    Objects {
        kind: &'a str,
        /// Text before each name.
        prefix: &'a str,
    },
}

fn words<'a>(line: &'a Line, current: &'a str) -> Wanted<'a> {
    if let Some(at) = current.find('/') {
        return Wanted::Objects { kind: &current[..at], prefix: &current[..=at] };
    }
    match line.positionals.first() {
        // After TYPE/NAME comes another one.
        Some(first) if !first.contains('/') => {
            Wanted::Objects { kind: first.split(',').next().unwrap_or_default(), prefix: "" }
        }
        _ => Wanted::Kinds,
    }
}

async fn listed<K>(api: Api<K>) -> Option<Vec<String>>
where
    K: ironclad_runtime::Object,
{
    let found = api.list_metadata(&ListParams::default().limit(NAMES_MAX)).await.ok()?;
    Some(found.items.into_iter().filter_map(|object| object.metadata.name).collect())
}

/// Names of the objects of a type in one server.
async fn objects(client: &Client, line: &Line, kind: &str, namespace: &str) -> Option<Vec<String>> {
    let resource = Resources::of(client).await.ok()?.find(kind).ok()?;
    let namespace = line.namespace.as_deref().unwrap_or(namespace);
    listed(match resource.namespaced && !line.all_namespaces {
        true => Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource.api),
        false => Api::all_with(client.clone(), &resource.api),
    })
    .await
}

/// Names of the objects of a type in the members that the line names, or in all.
async fn in_members(
    client: &Client,
    kubeconfig: &Kubeconfig,
    line: &Line,
    kind: &str,
    clock: &Clock,
) -> Option<Vec<String>> {
    // Credential plugins of contexts of members would block this thread.
    let has_plugins =
        kubeconfig.auth_infos.iter().any(|user| user.auth_info.as_ref().is_some_and(|i| i.exec.is_some()));
    let contexts = (!has_plugins).then_some(kubeconfig);
    let clusters = members::clusters(client, &line.clusters).await.ok()?;
    let members = members::connect(client, contexts, members::Way::default(), &clusters).await;
    let namespace = client.default_namespace();
    let answers = members::ask(&members, clock, MEMBER_PATIENCE, async |_, member| {
        objects(&member, line, kind, namespace).await.ok_or_else(String::new)
    });
    Some(answers.await.answered.into_iter().flat_map(|(_, names)| names).collect())
}

#[cfg(test)]
mod tests {
    use kube::config::{AuthInfo, ExecConfig, NamedAuthInfo};

    use super::*;

    #[test]
    fn types_come_before_names() {
        let objects = |kind, prefix| Wanted::Objects { kind, prefix };
        for (before, current, want) in [
            ("", "", Wanted::Kinds),
            ("", "dep", Wanted::Kinds),
            ("", "deploy,s", Wanted::Kinds),
            ("deploy", "", objects("deploy", "")),
            ("deploy web", "d", objects("deploy", "")),
            ("deploy,svc", "w", objects("deploy", "")),
            ("", "deploy/w", objects("deploy", "deploy/")),
            ("deploy/web", "", Wanted::Kinds),
            ("deploy/web", "svc/w", objects("svc", "svc/")),
        ] {
            let positionals = before.split_whitespace().map(str::to_owned).collect();
            let line = Line { positionals, ..Line::default() };
            assert_eq!(words(&line, current), want, "{before} | {current}");
        }
    }

    #[test]
    fn credential_plugins_ask_nobody() {
        let plugin = |mode| NamedAuthInfo {
            name: "u".into(),
            auth_info: Some(AuthInfo {
                exec: Some(ExecConfig {
                    command: Some("login".into()),
                    interactive_mode: mode,
                    ..ExecConfig::default()
                }),
                ..AuthInfo::default()
            }),
            other: Default::default(),
        };
        for (mode, runs) in [
            (None, true),
            (Some(ExecInteractiveMode::IfAvailable), true),
            (Some(ExecInteractiveMode::Never), true),
            (Some(ExecInteractiveMode::Always), false),
        ] {
            let kubeconfig = silent(Kubeconfig { auth_infos: vec![plugin(mode.clone())], ..Kubeconfig::default() });
            let exec = kubeconfig.auth_infos[0].auth_info.as_ref().and_then(|info| info.exec.as_ref()).unwrap();
            assert_eq!(exec.interactive_mode, Some(ExecInteractiveMode::Never), "{mode:?}");
            assert_eq!(exec.command.is_some(), runs, "{mode:?}");
        }
    }

    #[test]
    fn contexts_come_from_the_kubeconfig_of_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kc");
        std::fs::write(
            &file,
            "apiVersion: v1\nkind: Config\ncontexts: [{name: b, context: {cluster: c}}, {name: a, context: {cluster: c}}]\n\
             users: [{name: me, user: {token: t}}]\n",
        )
        .unwrap();
        let mut line = Line::default();
        line.plane.kubeconfig = Some(file.clone());
        assert_eq!(ask(Source::Contexts, &line, ""), ["a", "b"]);
        assert_eq!(ask(Source::Users, &line, ""), ["me"]);
        line.member_kubeconfig = Some(folder.path().join("missing"));
        assert_eq!(ask(Source::MemberContexts, &line, ""), Vec::<String>::new(), "errors are silent");
    }

    /// A server that accepts and never answers.
    #[test]
    fn servers_that_do_not_answer_are_given_up_after_a_second() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kc");
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: \"http://{address}\"}}}}]\n\
             users: [{{name: u, user: {{}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\ncurrent-context: c\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut line = Line::default();
        line.plane.kubeconfig = Some(file);
        let began = Clock::system().mono();
        assert_eq!(ask(Source::Clusters, &line, ""), Vec::<String>::new());
        assert!(Clock::system().mono() - began < 5 * PATIENCE);
    }
}
