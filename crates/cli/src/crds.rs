//! `ironclad crds`: prints our CustomResourceDefinitions, or installs them with the ClusterRoles for their users and
//! waits until they are served.

use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use ironclad_api::{
    StringMap,
    cluster::{DEFINITION, STORED_DEFINITION},
    roles::cluster_roles,
};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use k8s_openapi::{
    api::rbac::v1::ClusterRole,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, CustomResourceDefinitionVersion,
    },
};
use kube::{
    Client, ResourceExt as _,
    api::{ListParams, PostParams},
    core::{ApiResource, DynamicObject},
};
use serde_json::Value;

use crate::{
    connect::Plane,
    dry_run::DryRun,
    print::{self, Output},
    write::{FIELD_MANAGER, Outcome},
};

/// Requests that are under way at a time.
const AT_ONCE: usize = 8;
/// Definitions that are listed at a time.
const PAGE: u32 = 500;
/// Interval between checks whether a kind is served.
const LOOK: Duration = Duration::from_millis(100);

/// Print the CustomResourceDefinitions, or install them and wait until they are served.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad crds > crds.yaml
  ironclad crds --install --kubeconfig plane.kubeconfig
  ironclad crds --install --dry-run")]
pub struct Command {
    /// Install them, and the ClusterRoles karmada-view and karmada-edit
    #[arg(long)]
    pub install: bool,
    /// Only say what --install would do; the server checks it
    #[arg(long, value_enum, value_name = "WHO", num_args = 0..=1, default_value_t = DryRun::None, default_missing_value = "server", require_equals = true, requires = "install")]
    pub dry_run: DryRun,
    /// Timeout until every kind is served
    #[arg(long, default_value = "60s", value_parser = crate::duration, value_name = "DURATION")]
    pub timeout: Duration,
    /// Output format [default: yaml documents]
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
    #[command(flatten)]
    pub plane: Plane,
}

/// Runs the command.
///
/// # Errors
/// If a definition is refused, or not served in time.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    if command.install {
        let client = command.plane.client().await?;
        let crds = definitions(&client).await?;
        let dry_run = command.dry_run != DryRun::None;
        let roles = cluster_roles(&crds);
        let done = install(&client, clock, crds, command.timeout, dry_run).await?;
        let roles = install_roles(&client, roles, dry_run).await?;
        let roles =
            roles.into_iter().map(|(name, outcome)| (format!("clusterrole.rbac.authorization.k8s.io/{name}"), outcome));
        let done = done.into_iter();
        let done =
            done.map(|(name, outcome)| (format!("customresourcedefinition.apiextensions.k8s.io/{name}"), outcome));
        let dry_run = if dry_run { " (server dry run)" } else { "" };
        let lines = done.chain(roles).map(|(name, outcome)| {
            let outcome = match outcome {
                Outcome::Created => "created",
                Outcome::Updated => "configured",
                Outcome::Unchanged => "unchanged",
            };
            format!("{name} {outcome}{dry_run}\n")
        });
        return print::out(&lines.collect::<String>());
    }
    let crds = ironclad_api::crds::crds();
    let objects: Vec<Value> = crds.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
    let text = match command.output {
        None => print::documents(&objects)?,
        Some(output) if output.is_objects() => print::objects(output, &objects)?,
        Some(Output::Name) => objects.iter().map(|object| print::name(object) + "\n").collect(),
        Some(_) => print::table(&["NAME", "KIND", "SCOPE", "VERSIONS"], &crds.iter().map(row).collect::<Vec<_>>()),
    };
    print::out(&text)
}

fn row(crd: &CustomResourceDefinition) -> Vec<String> {
    let versions: Vec<_> = crd.spec.versions.iter().map(|version| version.name.as_str()).collect();
    vec![crd.name_any(), crd.spec.names.kind.clone(), crd.spec.scope.clone(), versions.join(",")]
}

/// Installs definitions, replacing older ones, and waits until a list of every kind is answered: then a watch can
/// begin.
///
/// # Errors
/// If a definition is refused, or a kind is not served in time.
pub async fn install(
    client: &Client,
    clock: &Clock,
    crds: Vec<CustomResourceDefinition>,
    timeout: Duration,
    dry_run: bool,
) -> anyhow::Result<Vec<(String, Outcome)>> {
    let installed: Vec<_> = stream::iter(crds.clone())
        .map(|crd| async move {
            let name = crd.name_any();
            let outcome = put(client, crd, dry_run).await.with_context(|| {
                format!(
                    "CustomResourceDefinition {name} was not installed\n  try: a kubeconfig of a cluster administrator"
                )
            })?;
            anyhow::Ok((name, outcome))
        })
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    if !dry_run {
        let deadline = clock.mono() + timeout;
        stream::iter(crds)
            .map(|crd| served(client, clock, crd, deadline, timeout))
            .buffered(AT_ONCE)
            .try_collect::<()>()
            .await?;
    }
    Ok(installed)
}

/// The definitions that a control plane needs: without that of Clusters where `run --aggregate-clusters` stores them
/// in a group of their own.
async fn definitions(client: &Client) -> anyhow::Result<Vec<CustomResourceDefinition>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let looking = || format!("looking for CustomResourceDefinition {STORED_DEFINITION}");
    let found = api.get_opt(STORED_DEFINITION).await.with_context(looking)?;
    let mut crds = ironclad_api::crds::crds();
    crds.retain(|crd| found.is_none() || crd.name_any() != DEFINITION);
    Ok(crds)
}

/// Annotation of a definition: the version of the program that installed it.
const INSTALLED_BY: &str = "crds.ironclad.io/installed-by";

/// True if a version, such as 0.2.0, is newer than another one. Without numbers it is not.
fn is_newer(version: &str, than: &str) -> bool {
    let numbers =
        |text: &str| -> Vec<u64> { text.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect() };
    numbers(version) > numbers(than)
}

/// Parts of a control plane that a server installs when it starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AtStart {
    /// The definitions.
    pub crds: bool,
    /// The ClusterRoles for users of our kinds.
    pub roles: bool,
}

/// Installs what is missing or of an older version, for a server that starts. Where a newer version has installed its
/// definitions, everything stays as it is: during an upgrade an old replica may start once more. Returns what was
/// written.
///
/// # Errors
/// If something is refused, or a kind is not served in time.
pub async fn install_at_start(
    client: &Client,
    clock: &Clock,
    what: AtStart,
    timeout: Duration,
) -> anyhow::Result<Vec<(String, Outcome)>> {
    const OURS: &str = env!("CARGO_PKG_VERSION");
    if what == AtStart::default() {
        return Ok(Vec::new());
    }
    let crds = definitions(client).await?;
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api.list_metadata(&params).await.context("looking for CustomResourceDefinitions that are there")?;
        let ours = page.items.iter().filter(|there| crds.iter().any(|crd| crd.metadata.name == there.metadata.name));
        let version = |annotations: &StringMap| annotations.get(INSTALLED_BY).cloned();
        let mut versions = ours.filter_map(|there| there.metadata.annotations.as_ref().and_then(version));
        if let Some(newer) = versions.find(|version| is_newer(version, OURS)) {
            crate::print::note(&format!("nothing is installed: version {newer} has installed its definitions"));
            return Ok(Vec::new());
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    let roles = cluster_roles(&crds);
    let mut done = Vec::new();
    if what.crds {
        done.extend(install(client, clock, crds, timeout, false).await?);
    }
    if what.roles {
        done.extend(install_roles(client, roles, false).await?);
    }
    done.retain(|(_, outcome)| *outcome != Outcome::Unchanged);
    Ok(done)
}

/// Annotation of a role that its administrator maintains: the value `false` keeps it as it is.
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// Installs the ClusterRoles for users of our kinds. One that differs is replaced, unless its annotation
/// `rbac.authorization.kubernetes.io/autoupdate` is `false`.
///
/// # Errors
/// If a role is refused.
pub async fn install_roles(
    client: &Client,
    roles: impl IntoIterator<Item = ClusterRole>,
    dry_run: bool,
) -> anyhow::Result<Vec<(String, Outcome)>> {
    let api: Api<ClusterRole> = Api::all(client.clone());
    let params = PostParams { dry_run, field_manager: Some(FIELD_MANAGER.to_owned()) };
    let mut done = Vec::new();
    for role in roles {
        let name = role.name_any();
        let outcome = put_role(&api, &params, role).await;
        let outcome = outcome.with_context(|| {
            format!("ClusterRole {name} was not installed\n  try: a kubeconfig of a cluster administrator")
        })?;
        done.push((name, outcome));
    }
    Ok(done)
}

async fn put_role(api: &Api<ClusterRole>, params: &PostParams, role: ClusterRole) -> Result<Outcome, kube::Error> {
    let name = role.name_any();
    loop {
        let written = match api.get_opt(&name).await? {
            None => api.create(params, &role).await.map(|_| Outcome::Created),
            Some(present) => {
                let has_labels = role.labels().iter().all(|(key, value)| present.labels().get(key) == Some(value));
                let is_kept = present.annotations().get(AUTO_UPDATE).is_some_and(|value| value == "false");
                if is_kept || (has_labels && present.rules == role.rules) {
                    return Ok(Outcome::Unchanged);
                }
                let mut wanted = present.clone();
                wanted.rules = role.rules.clone();
                wanted.labels_mut().extend(role.labels().clone());
                api.replace(&name, params, &wanted).await.map(|_| Outcome::Updated)
            }
        };
        match written {
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {}
            done => return done,
        }
    }
}

/// The definition that replaces a present one: ours, with the conversion and the served versions that a running server
/// added. `up` and `run --serve-legacy-binding-api` serve an old version with a webhook that converts it.
fn replacement(present: &CustomResourceDefinition, ours: &CustomResourceDefinition) -> CustomResourceDefinition {
    let mut wanted = present.clone();
    wanted.spec = ours.spec.clone();
    let converts = |of: &CustomResourceDefinition| of.spec.conversion.as_ref().is_some_and(|c| c.strategy == "Webhook");
    if converts(present) && !converts(ours) {
        wanted.spec.conversion.clone_from(&present.spec.conversion);
        for version in &mut wanted.spec.versions {
            let is_present = |other: &&CustomResourceDefinitionVersion| other.name == version.name;
            version.served |= present.spec.versions.iter().find(is_present).is_some_and(|other| other.served);
        }
    }
    wanted.labels_mut().extend(ours.labels().clone());
    wanted.annotations_mut().extend(ours.annotations().clone());
    wanted
}

/// A definition is replaced whole: merged, fields that a newer version dropped would stay.
async fn put(client: &Client, mut crd: CustomResourceDefinition, dry_run: bool) -> Result<Outcome, kube::Error> {
    crd.annotations_mut().insert(INSTALLED_BY.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PostParams { dry_run, field_manager: Some(FIELD_MANAGER.to_owned()) };
    let name = crd.name_any();
    loop {
        let Some(present) = api.get_opt(&name).await? else {
            match api.create(&params, &crd).await {
                Err(kube::Error::Api(status)) if status.is_already_exists() => continue,
                created => return created.map(|_| Outcome::Created),
            }
        };
        let wanted = replacement(&present, &crd);
        match api.replace(&name, &params, &wanted).await {
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            replaced => {
                let unchanged = replaced?.resource_version() == present.resource_version();
                return Ok(if unchanged { Outcome::Unchanged } else { Outcome::Updated });
            }
        }
    }
}

async fn served(
    client: &Client,
    clock: &Clock,
    crd: CustomResourceDefinition,
    deadline: tokio::time::Instant,
    timeout: Duration,
) -> anyhow::Result<()> {
    let name = crd.name_any();
    for version in crd.spec.versions.iter().filter(|version| version.served) {
        let resource = ApiResource {
            group: crd.spec.group.clone(),
            version: version.name.clone(),
            api_version: format!("{}/{}", crd.spec.group, version.name),
            kind: crd.spec.names.kind.clone(),
            plural: crd.spec.names.plural.clone(),
        };
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let mut last;
        loop {
            match api.list_metadata(&ListParams::default().limit(1)).await {
                Ok(_) => break,
                // Not yet in the handler, or its storage is just being made.
                Err(kube::Error::Api(status)) if [404, 429, 503].contains(&status.code) => {
                    last = status.message.clone()
                }
                Err(error) => return Err(error).with_context(|| format!("{name} is installed but can't be listed")),
            }
            if clock.mono() >= deadline {
                bail!(
                    "timed out after {} s waiting for {name} to be served\n  because {last}\n  try: --timeout 5m",
                    timeout.as_secs()
                );
            }
            clock.sleep(LOOK).await;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_versions_are_compared() {
        for (version, than, want) in [
            ("0.2.0", "0.1.9", true),
            ("0.10.0", "0.9.0", true),
            ("1.0.0", "0.9.0", true),
            ("0.1.0", "0.1.0", false),
            ("0.1.0", "0.2.0", false),
            ("0.2.0-rc.1", "0.1.0", true),
            ("", "0.1.0", false),
            ("latest", "0.1.0", false),
        ] {
            assert_eq!(is_newer(version, than), want, "{version} {than}");
        }
    }

    #[test]
    fn versions_that_a_server_converts_stay_served() {
        let all = ironclad_api::crds::crds();
        let is_legacy = |crd: &&CustomResourceDefinition| crd.spec.versions.iter().any(|version| !version.served);
        let ours = all.iter().find(is_legacy).expect("ResourceBinding has a version that is not served by default");
        let mut present = ours.clone();
        present.spec.versions.iter_mut().for_each(|version| version.served = true);
        assert_eq!(replacement(&present, ours).spec, ours.spec, "without a converter nobody can serve it");
        present.spec.conversion = serde_json::from_value(serde_json::json!({"strategy": "Webhook"})).unwrap();
        let wanted = replacement(&present, ours);
        assert_eq!(wanted.spec.conversion, present.spec.conversion);
        assert!(wanted.spec.versions.iter().all(|version| version.served));
    }
}
