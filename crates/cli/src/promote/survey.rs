//! Objects that are to be promoted: all of them are read and checked before anything is written.

use std::collections::BTreeSet;

use anyhow::{Context as _, anyhow};
use ironclad_interpreter::{Dependency, InterpretError, Interpreter, webhook::Webhooks};
use ironclad_patch::selector::LabelSelector;
use ironclad_propagation::{generated_policy, promotion};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use kube::{
    Client, ResourceExt as _,
    api::{DynamicObject, ListParams},
};
use serde_json::{Value, json};

use super::Command;
use crate::{
    claims::Claims,
    hooks, pages, print,
    report::Misused,
    resource::{Resource, Resources, arguments},
    tree::{api, whole},
    why,
};

/// An object to promote.
pub(super) struct Promoted {
    /// Its kind.
    pub(super) resource: Resource,
    /// As it is in the member.
    pub(super) present: DynamicObject,
    /// The template that it becomes.
    pub(super) template: Value,
    /// The policy that keeps it in the member.
    pub(super) policy: Option<Value>,
}

impl Promoted {
    /// For people.
    pub(super) fn words(&self) -> String {
        let namespace = self.present.namespace().map(|namespace| namespace + "/").unwrap_or_default();
        format!("{} {namespace}{}", self.resource.api.kind, self.present.name_any())
    }

    /// Command that says why its template is where it is.
    pub(super) fn why(&self) -> String {
        let namespace = self.present.namespace().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
        format!("ironclad why {}/{}{namespace}", self.resource.api.plural, self.present.name_any())
    }
}

struct Survey<'a> {
    command: &'a Command,
    plane: &'a Client,
    member: &'a Client,
    of_plane: Resources,
    of_member: Resources,
    interpreter: Interpreter,
    claims: Claims,
    seen: BTreeSet<String>,
    all: Vec<Promoted>,
}

/// Reason for which an object is promoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// The command line names or selects it.
    ByUser,
    /// Another one needs it.
    ByAnother,
}

/// Result of a look at one object.
enum Found {
    /// It can be promoted, and these would be made.
    New(Box<Promoted>),
    /// The control plane has its template already, or one of its name; true if that would leave it as it is.
    Template(bool),
}

/// Reads the objects, and checks all of them. What others need stands before them.
///
/// # Errors
/// If an object that is named is not there or can't be promoted, or a server does not answer.
pub(super) async fn surveyed(
    command: &Command,
    plane: &Client,
    member: &Client,
    clock: &Clock,
) -> anyhow::Result<Vec<Promoted>> {
    let (customizations, configurations) = match command.dependencies {
        true => (
            pages::all(&Api::all(plane.clone()), ListParams::default()).await.context("listing customizations")?,
            pages::all(&Api::all(plane.clone()), ListParams::default())
                .await
                .context("listing interpreter webhooks")?,
        ),
        false => (Vec::new(), Vec::new()),
    };
    let mut survey = Survey {
        command,
        plane,
        member,
        of_member: Resources::of(member).await.with_context(|| format!("asking {} what it serves", command.cluster))?,
        of_plane: Resources::of(plane).await.context("asking the control plane what it serves")?,
        interpreter: why::read::interpreter(clock, &customizations, Webhooks::new(&configurations)),
        claims: Claims::new(plane.clone()),
        seen: BTreeSet::new(),
        all: Vec::new(),
    };
    let wanted = arguments(&command.resource)?;
    let is_listed = command.all || command.selector.is_some();
    let named: usize = wanted.iter().map(|(_, names)| names.len()).sum();
    match wanted.iter().find(|(_, names)| names.is_empty() != is_listed) {
        Some((word, _)) if is_listed => {
            return Err(
                Misused(format!("--all and -l choose the objects, and {word} has names\n  try: without -l")).into()
            );
        }
        Some((word, _)) => {
            let text = format!("{word} without a name\n  try: ironclad promote {word} NAME -C CLUSTER, or --all");
            return Err(Misused(text).into());
        }
        None => {}
    }
    if command.policy_name.is_some() && (is_listed || named > 1) {
        return Err(Misused("--policy-name is for one object".to_owned()).into());
    }
    for (word, names) in wanted {
        survey.type_of(&word, &names).await?;
    }
    Ok(survey.all)
}

impl Survey<'_> {
    /// The objects of one type: those of these names, or those that the flags select.
    async fn type_of(&mut self, word: &str, names: &[String]) -> anyhow::Result<()> {
        let resource = self.of_member.find(word)?;
        let kind = resource.api.kind.clone();
        self.is_served(&resource)?;
        let namespace = self.command.namespace.clone().unwrap_or_else(|| self.plane.default_namespace().to_owned());
        let namespace = if resource.namespaced { namespace } else { String::new() };
        let cluster = &self.command.cluster;
        let objects = api(self.member.clone(), &resource, &namespace);
        if names.is_empty() {
            let mut selected = ListParams::default();
            selected.label_selector.clone_from(&self.command.selector);
            let found = pages::all(&objects, selected).await;
            for present in found.with_context(|| format!("listing {word} in {cluster}"))? {
                let name = present.name_any();
                let left_out = |why: &dyn std::fmt::Display| {
                    print::note(&format!("{kind} {name} is left out: {}", print::line(&why.to_string())));
                };
                match self.look(&resource, present, Wanted::ByUser).await? {
                    Ok(Found::New(one)) => self.add(*one).await?,
                    Ok(Found::Template(_)) => left_out(&"the control plane has one of that name already"),
                    Err(why) => left_out(&why),
                }
            }
            return Ok(());
        }
        for name in names {
            let read = objects.get_opt(name).await.with_context(|| format!("reading {kind} {name} in {cluster}"))?;
            let present = read.ok_or_else(|| anyhow!("{kind} {name} is not in {cluster}"))?;
            let refused = |why: &dyn std::fmt::Display| anyhow!("{kind} {name} was not promoted\n  because {why}");
            match self.look(&resource, present, Wanted::ByUser).await? {
                Ok(Found::New(one)) => self.add(*one).await?,
                Ok(Found::Template(_)) => return Err(refused(&"the control plane has one of that name already")),
                Err(why) => return Err(refused(&why)),
            }
        }
        Ok(())
    }

    fn is_served(&self, resource: &Resource) -> anyhow::Result<()> {
        let (kind, version) = (&resource.api.kind, &resource.api.api_version);
        match self.of_plane.of_kind(version, kind) {
            Some(_) => Ok(()),
            None => Err(anyhow!(
                "the control plane does not serve {kind} of {version}\n  try: install its CustomResourceDefinition there first"
            )),
        }
    }

    /// Looks whether an object can be promoted.
    async fn look(
        &mut self,
        resource: &Resource,
        present: DynamicObject,
        wanted: Wanted,
    ) -> anyhow::Result<Result<Found, promotion::NotPromoted>> {
        let object = whole(&present, resource)?;
        if let Err(why) = promotion::check(&object) {
            return Ok(Err(why));
        }
        let of_plane = api(self.plane.clone(), resource, &present.namespace().unwrap_or_default());
        if let Some(other) = of_plane.get_opt(&present.name_any()).await.context("reading the control plane")? {
            return Ok(Ok(Found::Template(promotion::is_template_of(&whole(&other, resource)?, &object))));
        }
        let template = promotion::template(&object);
        let command = self.command;
        let policy = command.auto_create_policy.then(|| {
            let name = command.policy_name.as_deref().filter(|_| wanted == Wanted::ByUser);
            let mut policy = generated_policy::of_promoted(&template, &command.cluster, name);
            if command.dependencies && wanted == Wanted::ByUser {
                policy["spec"]["propagateDeps"] = json!(true);
            }
            policy
        });
        if let Some(policy) = &policy
            && let Some(instead) = self.claims.instead_of(policy, &template).await?
        {
            return Ok(Err(promotion::NotPromoted::Claimed(instead)));
        }
        Ok(Ok(Found::New(Box::new(Promoted { resource: resource.clone(), present, template, policy }))))
    }

    /// Adds an object, and before it what it needs.
    async fn add(&mut self, one: Promoted) -> anyhow::Result<()> {
        if self.command.dependencies {
            let answer = loop {
                let answer = self.interpreter.dependencies(&one.template);
                if !hooks::ask_open(&self.interpreter, self.plane).await {
                    break answer;
                }
            };
            let needed = match answer {
                Ok(needed) => needed,
                Err(InterpretError::NotImplemented { .. }) => Vec::new(),
                Err(error) => {
                    let asked = format!("asking what {} needs\n  try: promote without --dependencies", one.words());
                    return Err(anyhow::Error::new(error).context(asked));
                }
            };
            for dependency in needed {
                self.add_needed(&one, &dependency).await?;
            }
        }
        self.push(one);
        Ok(())
    }

    fn push(&mut self, one: Promoted) {
        if self.seen.insert(format!("{} {}", one.resource.api.api_version, one.words())) {
            self.all.push(one);
        }
    }

    async fn add_needed(&mut self, by: &Promoted, dependency: &Dependency) -> anyhow::Result<()> {
        let cluster = &self.command.cluster;
        let what = format!("{} {}", dependency.kind, dependency.name);
        let left_out = |why: &dyn std::fmt::Display| {
            let why = print::line(&why.to_string()).into_owned();
            print::note(&format!("{what}, which {} needs, is left out: {why}", by.words()));
        };
        let Some(resource) = self.of_member.of_kind(&dependency.api_version, &dependency.kind).cloned() else {
            left_out(&format!("{cluster} does not serve its kind"));
            return Ok(());
        };
        self.is_served(&resource)?;
        let objects = api(self.member.clone(), &resource, &dependency.namespace);
        let found = match (dependency.name.as_str(), &dependency.label_selector) {
            ("", selector) => {
                let selector = match selector.as_ref().map(LabelSelector::from_object).transpose() {
                    Ok(selector) => selector.flatten(),
                    Err(error) => {
                        left_out(&error);
                        return Ok(());
                    }
                };
                match selector {
                    Some(selector) => {
                        let selected = ListParams::default().labels(&selector.to_string());
                        pages::all(&objects, selected).await.with_context(|| format!("listing {what} in {cluster}"))?
                    }
                    None => Vec::new(),
                }
            }
            (name, _) => {
                let found = objects.get_opt(name).await.with_context(|| format!("reading {what} in {cluster}"))?;
                found.into_iter().collect()
            }
        };
        if found.is_empty() {
            left_out(&format!("{cluster} does not have it"));
        }
        for present in found {
            let name = present.name_any();
            match self.look(&resource, present, Wanted::ByAnother).await? {
                Ok(Found::New(one)) => self.push(*one),
                Ok(Found::Template(true)) | Err(promotion::NotPromoted::Copy) => {}
                Ok(Found::Template(false)) => {
                    return Err(anyhow!(
                        "{} was not promoted\n  because it needs {} {name}, and that of the control plane differs from that of {cluster}\n  \
                         try: make them equal, or promote without --dependencies",
                        by.words(),
                        dependency.kind
                    ));
                }
                Err(why) => left_out(&why),
            }
        }
        Ok(())
    }
}
