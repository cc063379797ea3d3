//! Input of `why`: read from the control plane, or from a dump.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use anyhow::{Context as _, bail};
use ironclad_api::{
    cluster::Cluster,
    conditions::FALSE,
    config::{ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration},
    names,
    policy::{ClusterOverridePolicy, ClusterPropagationPolicy, OverridePolicy, PropagationPolicy},
    reasons::binding::UNSCHEDULABLE,
    work::{ClusterResourceBinding, ResourceBinding},
};
use ironclad_fleet::{BindingRef, Gvk, ObjectKey};
use ironclad_interpreter::{AutoscalerKind, Interpreter, webhook::Webhooks};
use ironclad_interpreter_lua::{Customization, Declarative, Host, Shipped};
use ironclad_planning::{Fleet, Settings};
use ironclad_runtime::Api;
use ironclad_scheduling::preempt::Mode;
use ironclad_seam::Clock;
use k8s_openapi::{Resource as _, api::autoscaling::v2::HorizontalPodAutoscaler};
use kube::{Client, ResourceExt as _, api::ListParams};
use serde_json::Value;

use crate::{
    plan::read::{dumped, every},
    print,
    report::permitted,
    resource::{self, Resources},
};

/// Reads the objects that decide on one template from the control plane.
///
/// # Errors
/// If there is no such template, or the control plane does not answer.
pub(crate) async fn live(
    client: &Client,
    clock: &Clock,
    kind: &str,
    namespace: Option<&str>,
    name: &str,
    settings: Settings,
) -> anyhow::Result<(Fleet, Interpreter, ObjectKey)> {
    let served = Resources::of(client).await.context("asking the control plane what it serves")?;
    let resource = served.find(kind)?;
    let namespace = if resource.namespaced { namespace.unwrap_or(client.default_namespace()) } else { "" };
    crate::tree::refuse_ours(client, &resource, namespace, name, "why").await?;
    let key = ObjectKey {
        gvk: Gvk::from_manifest(&resource.api.api_version, &resource.api.kind),
        namespace: namespace.into(),
        name: name.into(),
    };
    let Some(template) = crate::tree::api(client.clone(), &resource, namespace).get_opt(name).await? else {
        bail!("{key} does not exist\n  try: ironclad get {} -A", resource.api.plural)
    };
    let customizations = every(Api::<ResourceInterpreterCustomization>::all(client.clone())).await?;
    let interpreter = interpreter(clock, &customizations, Webhooks::default());
    let webhooks = every(Api::<ResourceInterpreterWebhookConfiguration>::all(client.clone())).await.ok();
    let mut fleet = Fleet { settings, webhooks, ..Fleet::default() };
    let world = &mut fleet.world;
    world.insert_template(crate::tree::whole(&template, &resource)?);
    every(Api::<Cluster>::all(client.clone())).await?.into_iter().for_each(|one| world.insert_cluster(one));
    let policies = every(Api::<ClusterPropagationPolicy>::all(client.clone())).await?;
    policies.into_iter().for_each(|policy| world.insert_cluster_policy(policy));
    let cluster_overrides = every(Api::<ClusterOverridePolicy>::all(client.clone())).await?;
    fleet.cluster_overrides = cluster_overrides.into_iter().map(Arc::new).collect();
    let binding = names::binding_name(&resource.api.kind, name);
    if namespace.is_empty() {
        let found = Api::<ClusterResourceBinding>::all(client.clone()).get_opt(&binding).await?;
        found.into_iter().for_each(|binding| world.insert_cluster_binding(binding));
    } else {
        let policies = every(Api::<PropagationPolicy>::namespaced(client.clone(), namespace)).await?;
        policies.into_iter().for_each(|policy| world.insert_policy(policy));
        let overrides = every(Api::<OverridePolicy>::namespaced(client.clone(), namespace)).await?;
        fleet.overrides = overrides.into_iter().map(Arc::new).collect();
        // One of them may have the template as its target.
        for hpa in every(Api::<HorizontalPodAutoscaler>::namespaced(client.clone(), namespace)).await? {
            let mut object = serde_json::to_value(hpa)?;
            object["apiVersion"] = HorizontalPodAutoscaler::API_VERSION.into();
            object["kind"] = HorizontalPodAutoscaler::KIND.into();
            fleet.world.insert_template(object);
        }
        for gvk in interpreter.autoscalers().keys() {
            let Some(resource) = served.of_kind(&gvk.api_version(), &gvk.kind) else { continue };
            let api = crate::tree::api(client.clone(), resource, namespace);
            let objects = permitted(crate::pages::all(&api, ListParams::default()).await.map_err(Into::into))?;
            if objects.is_none() {
                print::note(&format!("not known here: {}, which you may not list", resource.api.plural));
            }
            for object in objects.into_iter().flatten() {
                fleet.world.insert_template(crate::tree::whole(&object, resource)?);
            }
        }
        let bindings = Api::<ResourceBinding>::namespaced(client.clone(), namespace);
        let found = bindings.get_opt(&binding).await?;
        // Preemption compares with the bindings of all namespaces, groups of workloads with those of their own.
        let all = if reads_all(&fleet, found.as_ref()) {
            fleet.quotas = crate::plan::read::quotas(client, &fleet.settings).await?;
            match permitted(every(Api::<ResourceBinding>::all(client.clone())).await)? {
                Some(all) => all,
                None => {
                    print::note("not known here: bindings of other namespaces, which you may not list");
                    every(bindings).await?
                }
            }
        } else if reads_namespace(&fleet, found.as_ref()) {
            every(bindings).await?
        } else {
            Vec::new()
        };
        all.into_iter().chain(found).for_each(|binding| fleet.world.insert_binding(binding));
    }
    Ok((fleet, interpreter, key))
}

/// True if the answer may depend on the bindings of all namespaces: the binding preempts, or may, or waits for capacity
/// that the last copies of others may hold.
fn reads_all(fleet: &Fleet, binding: Option<&ResourceBinding>) -> bool {
    let is_nominated =
        binding.and_then(|binding| binding.status.as_ref()).is_some_and(|status| !status.nominated_clusters.is_empty());
    let waits = binding.is_none_or(|binding| binding.spec.clusters.is_empty());
    let lacks_capacity = binding.is_some_and(|binding| {
        let scheduled = BindingRef::from(binding).scheduled();
        scheduled.is_some_and(|condition| condition.status == FALSE && condition.reason == UNSCHEDULABLE)
    });
    is_nominated || lacks_capacity || (waits && fleet.settings.scheduler.preemption() != Mode::Off)
}

/// True if the answer may depend on other bindings of the namespace: gate `WorkloadAffinity` is on, and the binding is
/// a member of a group, or a policy that may select the template makes groups.
fn reads_namespace(fleet: &Fleet, binding: Option<&ResourceBinding>) -> bool {
    let policies = fleet.policies().map(|policy| policy.spec());
    let mut placements = policies.map(|spec| &spec.placement);
    fleet.settings.scheduler.workload_affinity
        && (binding.is_some_and(|binding| binding.spec.workload_affinity_groups.is_some())
            || placements.any(|placement| placement.workload_affinity.is_some()))
}

/// The same from a dump.
///
/// # Errors
/// If the dump can't be read, or has no such template, or several.
pub(super) fn dump(
    file: &Path,
    clock: &Clock,
    kind: &str,
    namespace: Option<&str>,
    name: &str,
) -> anyhow::Result<(Fleet, Interpreter, ObjectKey)> {
    of_objects(dumped(file)?, clock, kind, namespace, name)
        .with_context(|| format!("the dump {} can't be used", file.display()))
}

/// The same from objects of any kinds.
pub(super) fn of_objects(
    objects: Vec<Value>,
    clock: &Clock,
    kind: &str,
    namespace: Option<&str>,
    name: &str,
) -> anyhow::Result<(Fleet, Interpreter, ObjectKey)> {
    let (mut fleet, mut templates) = (Fleet::default(), BTreeSet::new());
    for object in objects {
        let text = |pointer: &str| print::text(&object, pointer).to_owned();
        let (of, at, called) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
        if resource::is_word_for(kind, &of)
            && called == name
            && namespace.is_none_or(|namespace| at.is_empty() || at == namespace)
        {
            let gvk = Gvk::from_manifest(&text("/apiVersion"), &of);
            templates.insert(ObjectKey { gvk, namespace: at.as_str().into(), name: name.into() });
        }
        fleet.insert(object)?;
    }
    let mut found = templates.into_iter();
    let key = match (found.next(), found.next()) {
        (Some(one), None) => one,
        (None, _) => bail!("it holds no {kind} {name}"),
        (Some(_), Some(_)) => bail!("it holds several of {kind} {name}\n  try: -n NAMESPACE"),
    };
    let interpreter = interpreter(clock, &fleet.customizations, Webhooks::default());
    Ok((fleet, interpreter, key))
}

/// Interpreter of the fleet's customizations, the shipped ones and the native kinds. Webhooks are not called, so their
/// answers are missing.
pub(crate) fn interpreter(
    clock: &Clock,
    customizations: &[ResourceInterpreterCustomization],
    webhooks: Webhooks,
) -> Interpreter {
    let (wall, mono, start) = (clock.clone(), clock.clone(), clock.mono());
    let host = Host {
        wall_seconds: Arc::new(move || wall.wall().as_second()),
        elapsed: Arc::new(move || mono.mono() - start),
        running: None,
    };
    let compiled = customizations.iter().map(|customization| {
        let name = customization.name_any();
        let compiled = Arc::new(Customization::compile(&name, &customization.spec, &host));
        (name, compiled)
    });
    let declarative = Arc::new(Declarative::new(compiled.collect::<Vec<_>>()));
    let rows = AutoscalerKind::of_customizations(customizations);
    Interpreter::new(vec![declarative, Arc::new(webhooks), Arc::new(Shipped::new(host))])
        .with_autoscalers(Arc::new(rows))
}
