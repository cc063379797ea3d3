//! Runs a script.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use ironclad_api::{cluster::Cluster, taints::NO_EXECUTE};
use ironclad_controllers::{ControllerList, Settings};
use ironclad_fleet::{
    Gvk, ObjectKey,
    gates::{Gate, Gates},
};
use ironclad_propagation::skipped_resources::Skipped;
use ironclad_runtime::Api;
use ironclad_simcluster::Faults;
use k8s_openapi::api::core::v1::Event;
use kube::{
    Client, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    discovery::{Discovery, Scope},
};
use serde_json::Value;

use super::{
    mask::Masks,
    print::Transcript,
    syntax::{self, Named, Script, Step},
};
use crate::{
    numbers::Numbers,
    sim::{
        Setup, World, WorldOptions,
        matrix::{self, Disturbance, Played},
        script::{HAND_KEY, POLICY_KEY},
    },
};

/// All scripts run from one seed: a transcript has one history.
const SEED: u64 = 0x0dd5;

pub(super) fn run(text: &str) -> anyhow::Result<Transcript> {
    let masks = Masks::Numbered(Numbers::default());
    in_a_world(syntax::parse(text)?, Disturbance::None, masks).map(|(transcript, _)| transcript)
}

/// Runs a script with a disturbance; the outcome is the shown objects and the final state.
pub(super) fn play(text: &str, disturbance: Disturbance) -> anyhow::Result<Played> {
    let mut script = syntax::parse(text)?;
    // Numbers of events and requests may differ under a disturbance; the final state may not.
    script.steps.retain(|(_, step)| !matches!(step, Some(Step::Events | Step::Writes | Step::Reads)));
    script.steps.push(("settle".to_owned(), Some(Step::Settle)));
    let (transcript, mut played) = in_a_world(script, disturbance, Masks::Same)?;
    played.state = format!("{transcript}{}", played.state);
    Ok(played)
}

fn in_a_world(script: Script, disturbance: Disturbance, masks: Masks) -> anyhow::Result<(Transcript, Played)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(async {
        let mut setup = Setup::from(WorldOptions { seed: SEED, members: script.members });
        setup.settings.gates = Gates::parse(&script.gates)?.0;
        setup.rules.gate = setup.settings.gates.enabled(Gate::Failover);
        setup.rules.asked_taints = [HAND_KEY, POLICY_KEY].map(|key| (key.into(), NO_EXECUTE.into())).into();
        let mut world = World::start(setup).await?;
        world.start_controllers().await;
        let clusters: Api<Cluster> = Api::all(world.user());
        world
            .until("all clusters are Ready", async || {
                let all = clusters.list(&ListParams::default()).await?;
                Ok(all.items.iter().all(|c| c.is_ready()))
            })
            .await?;
        world.until_quiet().await?;
        let seen = world.history.lines().len();
        let mut runner =
            Runner { world, kinds: BTreeMap::new(), shown_events: BTreeSet::new(), written: seen, read: seen, masks };
        runner.events().await?;
        let faults = runner.world.faults.clone();
        let before = (faults.writes(), faults.events());
        disturbance.plan(&faults);
        let mut transcript = Transcript::default();
        for (line, step) in script.steps {
            let Some(step) = step else {
                transcript.script("# ", line.trim_start_matches('#').trim_start());
                continue;
            };
            transcript.script("> ", &line);
            if let Err(error) = runner.carry_out(step, &mut transcript).await {
                let lines = runner.world.history.lines();
                let tail = lines[lines.len().saturating_sub(40)..].join("\n");
                return Err(error.context(format!("at `{line}`; so far\n{transcript}\nthe history ends with\n{tail}")));
            }
        }
        matrix::show(disturbance, &runner.world.history);
        let played = Played::since(&faults, before, runner.world.state().await?);
        Ok((transcript, played))
    })
}

struct Runner {
    world: World,
    kinds: BTreeMap<(String, String), (ApiResource, Scope)>,
    shown_events: BTreeSet<String>,
    written: usize,
    read: usize,
    masks: Masks,
}

impl Runner {
    async fn carry_out(&mut self, step: Step, transcript: &mut Transcript) -> anyhow::Result<()> {
        match step {
            Step::Apply { server, documents } => {
                for document in documents {
                    self.apply(&server, document).await?;
                }
            }
            Step::Patch { object, subresource, patch } => {
                let api = self.api(&object).await?;
                let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
                match subresource {
                    None => api.patch(&object.name, &params, &patch).await?,
                    Some(subresource) => api.patch_subresource(&subresource, &object.name, &params, &patch).await?,
                };
            }
            Step::Refused(step) => {
                let Err(error) = Box::pin(self.carry_out(*step, transcript)).await else {
                    bail!("the step was not refused")
                };
                let Some(kube::Error::Api(status)) = error.downcast_ref::<kube::Error>() else { return Err(error) };
                for line in status.message.lines() {
                    transcript.shown(&format!("{} {}", status.code, self.masks.text(line)));
                }
            }
            Step::Delete(object) => {
                let api = self.api(&object).await?;
                let (resource, _) = self.kind(&object.server, &object.kind).await?;
                let gvk = Gvk::from_manifest(&resource.api_version, &resource.kind);
                let (namespace, name) = (object.namespace.as_str().into(), object.name.as_str().into());
                let taken = ObjectKey { gvk, namespace, name };
                self.world.model.with_checker(|checker, _| checker.will_be_taken(object.server.as_str().into(), taken));
                api.delete(&object.name, &DeleteParams::background()).await?;
            }
            Step::Settle => self.world.until_quiet().await?,
            Step::Advance(time) => self.world.advance(time).await,
            Step::Down(member) => self.faults(&member, Faults { down: true, ..Faults::default() })?,
            Step::Up(member) => self.faults(&member, Faults::default())?,
            Step::Restart(flags) => {
                self.world.kill_controllers();
                if !flags.is_empty() {
                    for warning in self.started_with(&flags)? {
                        transcript.shown(&warning);
                    }
                }
                self.world.start_controllers().await;
            }
            Step::Get { object, pointers } => {
                let api = self.api(&object).await?;
                match api.get_opt(&object.name).await? {
                    None => transcript.shown("absent"),
                    Some(found) => {
                        let json = serde_json::to_value(&found)?;
                        for pointer in &pointers {
                            let mut value = pointed(&json, pointer).cloned().unwrap_or(Value::Null);
                            self.masks.value(&mut value);
                            transcript.value(pointer, &value);
                        }
                        if pointers.is_empty() {
                            transcript.shown("present");
                        }
                    }
                }
            }
            Step::List { server, kind } => {
                let client = self.client(&server)?;
                let (resource, _) = self.kind(&server, &kind).await?;
                let all: Api<DynamicObject> = Api::all_with(client, &resource);
                for object in all.list(&ListParams::default()).await?.items {
                    let namespace = object.namespace().unwrap_or_default();
                    transcript.shown(&format!("{namespace}/{}", object.name_any()));
                }
            }
            Step::Events => {
                for line in self.events().await? {
                    transcript.shown(&line);
                }
            }
            Step::Writes => {
                let (counts, total) = self.requests(self.written, |method| !matches!(method, "GET" | "HEAD"));
                self.written = self.world.history.lines().len();
                for (what, count) in counts {
                    transcript.shown(&format!("{count} {what}"));
                }
                transcript.shown(&format!("{total} in all"));
            }
            Step::Reads => {
                let (counts, _) = self.requests(self.read, |method| matches!(method, "GET" | "HEAD"));
                self.read = self.world.history.lines().len();
                for (what, count) in counts {
                    transcript.shown(&format!("{count} {what}"));
                }
            }
        }
        Ok(())
    }

    /// Sets the flags of the next controller process; returns its warnings. Admission continues
    /// with its flags.
    fn started_with(&mut self, flags: &[(String, String)]) -> anyhow::Result<Vec<String>> {
        let (mut settings, mut warnings) = (Settings::default(), Vec::new());
        let (mut apis, mut namespaces) = ("", "kube-.*");
        for (name, value) in flags {
            match name.as_str() {
                "feature-gates" => {
                    let (gates, notes) = Gates::parse(value)?;
                    settings.gates = gates;
                    warnings.extend(notes);
                }
                "controllers" => {
                    settings.controllers = ControllerList::parse(value)?;
                    warnings.extend(settings.controllers.warnings());
                }
                "success-events" => settings.success_events = value == "true",
                "skipped-propagating-apis" => apis = value,
                "skipped-propagating-namespaces" => namespaces = value,
                _ => bail!("flag --{name} is not supported in scripts"),
            }
        }
        settings.propagation.skipped = Skipped::parse(apis, namespaces)?;
        self.world.settings = settings;
        Ok(warnings)
    }

    fn client(&self, server: &str) -> anyhow::Result<Client> {
        if server == "plane" {
            return Ok(self.world.user());
        }
        Ok(self.world.members.get(server).with_context(|| format!("there is no member {server}"))?.client())
    }

    fn faults(&self, member: &str, faults: Faults) -> anyhow::Result<()> {
        let member = self.world.members.get(member).with_context(|| format!("there is no member {member}"))?;
        member.set_faults(faults);
        Ok(())
    }

    /// Finds a kind by name or plural, in lower case; `group/kind` restricts the group.
    async fn kind(&mut self, server: &str, kind: &str) -> anyhow::Result<(ApiResource, Scope)> {
        let key = (server.to_owned(), kind.to_owned());
        let (wanted, kind) = kind.split_once('/').map_or((None, kind), |(group, kind)| (Some(group), kind));
        if let Some(known) = self.kinds.get(&key) {
            return Ok(known.clone());
        }
        let discovery = Discovery::new(self.client(server)?).run_aggregated().await?;
        for group in discovery.groups_alphabetical() {
            for (resource, capabilities) in group.resources_by_stability() {
                let is_named = resource.kind.to_lowercase() == kind || resource.plural == kind;
                if is_named && wanted.is_none_or(|group| group == resource.group) {
                    let found = (resource, capabilities.scope);
                    self.kinds.insert(key, found.clone());
                    return Ok(found);
                }
            }
        }
        bail!("{server} does not serve {kind}")
    }

    async fn api(&mut self, object: &Named) -> anyhow::Result<Api<DynamicObject>> {
        let (resource, scope) = self.kind(&object.server, &object.kind).await?;
        let client = self.client(&object.server)?;
        Ok(match scope {
            Scope::Cluster => Api::all_with(client, &resource),
            Scope::Namespaced => Api::namespaced_with(client, &object.namespace, &resource),
        })
    }

    async fn apply(&mut self, server: &str, document: Value) -> anyhow::Result<()> {
        // As if it had been stored before admission existed.
        let unreviewed = server == "unreviewed";
        let server = if unreviewed { "plane" } else { server };
        let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let group = text("/apiVersion").split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default();
        let name = Named {
            server: server.to_owned(),
            kind: format!("{group}/{}", text("/kind").to_lowercase()),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
        };
        let mut api = self.api(&name).await?;
        let object: DynamicObject = serde_json::from_value(document)?;
        if unreviewed {
            let (resource, scope) = self.kind(server, &name.kind).await?;
            api = match scope {
                Scope::Cluster => Api::all_with(self.world.ours(), &resource),
                Scope::Namespaced => Api::namespaced_with(self.world.ours(), &name.namespace, &resource),
            };
            let params = PostParams { field_manager: Some("ironclad-scenario".to_owned()), ..PostParams::default() };
            api.create(&params, &object).await?;
            return Ok(());
        }
        if api.get_opt(&name.name).await?.is_some() {
            api.patch(&name.name, &PatchParams::default(), &Patch::Merge(&object)).await?;
        } else {
            api.create(&PostParams::default(), &object).await?;
        }
        Ok(())
    }

    /// Returns the events that were not shown yet: type, reason, kind and name, message.
    async fn events(&mut self) -> anyhow::Result<Vec<String>> {
        let all: Api<Event> = Api::all(self.world.user());
        let mut lines = Vec::new();
        for event in all.list(&ListParams::default()).await?.items {
            if self.shown_events.insert(format!("{}/{}", event.namespace().unwrap_or_default(), event.name_any())) {
                let about = &event.involved_object;
                let text = |field: &Option<String>| field.clone().unwrap_or_default();
                lines.push(format!(
                    "{} {} {} {}: {}",
                    text(&event.type_),
                    text(&event.reason),
                    text(&about.kind),
                    text(&about.name),
                    text(&event.message),
                ));
            }
        }
        lines.sort();
        Ok(lines.iter().map(|line| self.masks.text(line)).collect())
    }

    /// Counts requests of the controllers to the control plane since that line of the history, by method and resource.
    /// Watches, health checks and events are left out.
    fn requests(&self, since: usize, wanted: fn(&str) -> bool) -> (BTreeMap<String, usize>, usize) {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for line in &self.world.history.lines()[since..] {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, link, method, uri, rest @ ..] = words.as_slice() else { continue };
            let is_request = !rest.contains(&"->") && !rest.contains(&"faulted") && !rest.contains(&"answer");
            if link.ends_with("->plane") && is_request && wanted(method) && !uri.contains("watch=") {
                *counts.entry(format!("{method} {}", resource_of(uri))).or_default() += 1;
            }
        }
        let total = counts.values().sum();
        (counts, total)
    }
}

/// Resolves a JSON pointer in which a list item may be named by its type, name or cluster:
/// `/status/conditions/Applied/reason`.
fn pointed<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    let mut at = object;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        at = match at {
            Value::Array(items) if token.parse::<usize>().is_err() => items.iter().find(|item| {
                ["type", "name", "clusterName"].into_iter().any(|field| item[field].as_str() == Some(&token))
            })?,
            Value::Array(items) => items.get(token.parse::<usize>().ok()?)?,
            other => other.get(&token)?,
        };
    }
    Some(at)
}

/// `resourcebindings/status` of
/// `/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/web-deployment/status?…`.
fn resource_of(uri: &str) -> String {
    let path = uri.split('?').next().unwrap_or_default();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let from = if parts.first() == Some(&"api") { 2 } else { 3 };
    let rest = parts.get(from..).unwrap_or_default();
    match rest {
        ["namespaces", _, resource] | ["namespaces", _, resource, _] => (*resource).to_owned(),
        ["namespaces", _, resource, _, subresource] => format!("{resource}/{subresource}"),
        [resource] | [resource, _] => (*resource).to_owned(),
        [resource, _, subresource] => format!("{resource}/{subresource}"),
        _ => path.to_owned(),
    }
}
