//! The views, each by the functions of the verb that shows the same.

use std::{cell::RefCell, time::Duration};

use anyhow::Context as _;
use futures::FutureExt as _;
use ironclad_api::autoscaling::FederatedHPA;
use ironclad_dashboard::{Account, Change, Failed, Look, Reference, Views};
use ironclad_fleet::BindingKey;
use ironclad_planning::views;
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{actions::parsed, failed::failed, logs, manifests, observe, plans, policies, quotas, scheduling, services};
use crate::{
    bindings,
    connect::Plane,
    doctor, evictions, leader, members,
    resource::Resources,
    tree::{self, Ways},
    why,
};

/// Age at which a client is made anew: the credentials of its kubeconfig may have been renewed.
const CLIENT_MAX: Duration = Duration::from_secs(60);
/// Time for the answer of a member.
const MEMBER_MAX: Duration = Duration::from_secs(3);
/// Bindings in an account of a cluster's evictions.
const WAITING_MAX: usize = 50;

/// Views of the fleet of a control plane.
pub struct Live {
    plane: Plane,
    clock: Clock,
    client: RefCell<Option<(Instant, Client)>>,
}

impl Live {
    /// Views of this control plane.
    #[must_use]
    pub fn new(plane: Plane, clock: Clock) -> Self {
        Self { plane, clock, client: RefCell::new(None) }
    }

    async fn client(&self) -> anyhow::Result<Client> {
        let now = self.clock.mono();
        let known = self.client.borrow().clone().filter(|(made, _)| now - *made < CLIENT_MAX);
        if let Some((_, client)) = known {
            return Ok(client);
        }
        let client = self.plane.client().await?;
        *self.client.borrow_mut() = Some((now, client.clone()));
        Ok(client)
    }

    /// A view whose errors are told as those of verbs.
    fn told<'a>(&'a self, view: impl Future<Output = anyhow::Result<Value>> + 'a) -> Look<'a> {
        async move { view.await.map_err(|error| -> Failed { failed(&crate::asked::explained(error)) }) }.boxed_local()
    }

    async fn fleet_of(&self) -> anyhow::Result<Value> {
        let client = self.client().await?;
        let (mut notes, clusters) = (Vec::new(), observe::clusters(&client).await?);
        let bindings = observe::bindings(&client, &clusters, &mut notes).await?;
        let evictions = evictions::observe::leader_report_if_readable(&client).await;
        let heard = observe::heard(&client).await;
        let rows = views::clusters(&clusters, &bindings, &evictions.rows, &heard, self.clock.wall_seconds());
        let report = evictions.report.as_ref().map(told_rate);
        let sums = observe::sums(rows.iter().map(|row| row.state));
        Ok(json!({ "rows": rows, "sums": sums, "rate": report, "paused": evictions.paused, "notes": notes }))
    }

    async fn cluster_of(&self, name: &str) -> anyhow::Result<Value> {
        let client = self.client().await?;
        let (mut notes, now) = (Vec::new(), self.clock.wall_seconds());
        let clusters = observe::clusters(&client).await?;
        let found = clusters.iter().find(|cluster| cluster.metadata.name.as_deref() == Some(name));
        let cluster = found.with_context(|| format!("cluster {name} does not exist\n  try: ironclad get clusters"))?;
        let mut bindings = observe::bindings(&client, &clusters, &mut notes).await?;
        let mut queue = observe::queue(&client).await;
        let heard = observe::heard(&client).await;
        let rows = views::clusters(&clusters, &bindings, &queue, &heard, now);
        let row = rows.into_iter().find(|row| row.name == name);
        bindings.retain(|row| row.clusters.iter().any(|place| place.cluster == name));
        queue.retain(|row| *row.cluster.0 == *name);
        let waiting = queue.len();
        queue.truncate(WAITING_MAX);
        let conditions = cluster.status.as_ref().map(|status| &status.conditions);
        let about = format!("Cluster {name}");
        let events = observe::events(&client, Some("default")).await.unwrap_or_default();
        let events: Vec<_> = events.into_iter().filter(|event| event.object == about).take(20).collect();
        let spec = json!({ "apiEndpoint": cluster.spec.api_endpoint, "id": cluster.spec.id });
        Ok(json!({ "cluster": row, "spec": spec, "conditions": conditions, "evictions": queue, "waiting": waiting,
            "events": events, "rows": bindings, "notes": notes }))
    }

    async fn workloads_of(&self) -> anyhow::Result<Value> {
        let client = self.client().await?;
        let (mut notes, clusters) = (Vec::new(), observe::clusters(&client).await?);
        let rows = observe::bindings(&client, &clusters, &mut notes).await?;
        Ok(json!({ "sums": observe::sums(rows.iter().map(|row| row.state)), "rows": rows, "notes": notes }))
    }

    async fn tree_of(&self, template: &Reference) -> anyhow::Result<Value> {
        let client = self.client().await?;
        let kubeconfig = self.plane.kubeconfig().ok();
        let way = members::Way::default();
        let ways = Ways { client: &client, kubeconfig: kubeconfig.as_ref(), way, timeout: MEMBER_MAX, pods: true };
        let Reference { namespace, kind, name } = template;
        let seen = tree::look(&ways, &self.clock, kind, namespace, name).await?;
        let mut notes: Vec<String> = seen
            .silent
            .iter()
            .map(|(cluster, why)| format!("cluster {cluster} could not be asked: {}", crate::print::line(why)))
            .collect();
        if seen.without_works {
            notes.push("Works may not be read: what is applied is told by the binding".to_owned());
        }
        let lately = match &seen.binding {
            Some(BindingKey { namespace, name }) => {
                leader::history(&client, &format!("?binding={namespace}/{name}")).await
            }
            None => json!({}),
        };
        Ok(json!({ "tree": seen.tree, "notes": notes, "lately": lately }))
    }

    async fn why_of(&self, template: &Reference) -> anyhow::Result<Value> {
        let client = self.client().await?;
        let kubeconfig = self.plane.kubeconfig().ok();
        let Reference { namespace, kind, name } = template;
        let namespace = (!namespace.is_empty()).then_some(namespace.as_str());
        let (fleet, explanation, settings) =
            why::observe(&client, kubeconfig.as_ref(), &self.clock, kind, namespace, name).await?;
        let notes: Vec<String> = why::unknown_here(settings, &fleet, &explanation.template).into_iter().collect();
        Ok(json!({ "text": why::rendered(&explanation), "explanation": explanation, "notes": notes }))
    }

    async fn manifests_of(&self, template: &Reference, cluster: Option<&str>) -> anyhow::Result<Value> {
        manifests::look(&self.client().await?, template, cluster).await
    }

    async fn logs_of(&self, template: &Reference) -> anyhow::Result<Value> {
        let (client, kubeconfig) = (self.client().await?, self.plane.kubeconfig().ok());
        logs::look(&client, kubeconfig.as_ref(), &self.clock, template).await
    }

    async fn timeline_of(&self, template: &Reference) -> anyhow::Result<Value> {
        let client = self.client().await?;
        let Reference { namespace, kind, name } = template;
        let resource = Resources::of(&client).await.context("asking the control plane what it serves")?.find(kind)?;
        let namespace = if resource.namespaced { namespace.as_str() } else { "" };
        let binding = bindings::of(&client, &resource, namespace, name).await?;
        let (mut notes, mut entries) = (Vec::new(), Vec::new());
        let key = ironclad_fleet::ObjectKey {
            gvk: ironclad_fleet::Gvk::from_manifest(&resource.api.api_version, &resource.api.kind),
            namespace: namespace.into(),
            name: name.as_str().into(),
        };
        let mut about = vec![key.to_string()];
        if let Some(binding) = &binding {
            let (view, key) = (binding.view(), binding.key());
            about.push(format!("{} {key}", view.kind()));
            entries.extend(views::conditions(view.kind(), &key.namespace, &key.name, view.conditions()));
            match observe::works(&client, binding).await? {
                Some(works) => {
                    for work in &works {
                        let text = |field: &Option<String>| field.clone().unwrap_or_default();
                        let (at, name) = (text(&work.metadata.namespace), text(&work.metadata.name));
                        about.push(format!("Work {at}/{name}"));
                        let conditions = work.status.as_ref().map_or(&[][..], |status| &status.conditions);
                        entries.extend(views::conditions("Work", &at, &name, conditions));
                    }
                }
                None => notes.push("you may not list works.work.karmada.io".to_owned()),
            }
        }
        // Events about Works lie in the execution spaces.
        match crate::report::permitted(observe::events(&client, None).await)? {
            Some(all) => entries.extend(all.into_iter().filter(|event| about.contains(&event.object))),
            None if !namespace.is_empty() => {
                let own = observe::events(&client, Some(namespace)).await?;
                entries.extend(own.into_iter().filter(|event| about.contains(&event.object)));
                notes.push("you may not list events in all namespaces: those of Works are left out".to_owned());
            }
            None => notes.push("you may not list events in all namespaces".to_owned()),
        }
        Ok(json!({ "rows": views::timeline(entries), "notes": notes }))
    }

    async fn policies_of(&self) -> anyhow::Result<Value> {
        policies::look(&self.client().await?).await
    }

    async fn services_of(&self) -> anyhow::Result<Value> {
        services::look(&self.client().await?, &self.clock).await
    }

    async fn quotas_of(&self) -> anyhow::Result<Value> {
        quotas::look(&self.client().await?).await
    }

    async fn evictions_of(&self) -> anyhow::Result<Value> {
        let client = self.client().await?;
        let (leader, queue, _) = evictions::list::look(&client, &self.clock).await?;
        let report = leader.report.as_ref().map(told_rate);
        let lately = leader::history(&client, "").await;
        Ok(
            json!({ "rows": queue.rows, "rate": report, "paused": leader.paused, "notes": queue.notes, "lately": lately }),
        )
    }

    async fn events_of(&self) -> anyhow::Result<Value> {
        let client = self.client().await?;
        Ok(json!({ "rows": observe::events(&client, None).await? }))
    }

    async fn system_of(&self) -> anyhow::Result<Value> {
        let client = self.client().await?;
        let version = client.apiserver_version().await?;
        let (configuration, unknown) = match leader::configuration(&client).await {
            Ok(configuration) => (Some(configuration), None),
            Err(why) => (None, Some(why)),
        };
        let leases = Api::<k8s_openapi::api::coordination::v1::Lease>::namespaced(
            client.clone(),
            ironclad_api::namespaces::SYSTEM,
        );
        let leases = crate::report::permitted(
            crate::pages::all(&leases, kube::api::ListParams::default()).await.map_err(Into::into),
        )?;
        let holder = |lease: k8s_openapi::api::coordination::v1::Lease| {
            let (name, spec) = (lease.metadata.name.unwrap_or_default(), lease.spec.unwrap_or_default());
            json!({ "name": name, "holder": spec.holder_identity, "since": spec.acquire_time.map(|time| time.0) })
        };
        let leases = leases.map(|all| all.into_iter().map(holder).collect::<Vec<_>>());
        Ok(json!({ "program": crate::version::version(), "plane": version.git_version,
            "configuration": configuration, "unknown": unknown, "leases": leases }))
    }

    async fn doctor_of(&self) -> anyhow::Result<Value> {
        let client = self.client().await?;
        let mut command: doctor::Command = parsed(&["doctor".to_owned()])?;
        command.plane = self.plane.clone();
        let checkup = doctor::examine(&command, &client, &self.clock).await?;
        let mut view = checkup.told();
        view["broken"] = checkup.violations.iter().map(ToString::to_string).collect();
        Ok(view)
    }

    async fn scheduling_of(&self) -> anyhow::Result<Value> {
        Ok(scheduling::queue(&self.client().await?).await)
    }

    async fn preemptions_of(&self) -> anyhow::Result<Value> {
        scheduling::preemptions(&self.client().await?).await
    }

    async fn accounts_of(&self, by: Account) -> anyhow::Result<Value> {
        let (client, kubeconfig) = (self.client().await?, self.plane.kubeconfig().ok());
        scheduling::accounts(&client, kubeconfig.as_ref(), &self.clock, by).await
    }

    async fn autoscalers_of(&self) -> anyhow::Result<Value> {
        let client = self.client().await?;
        let all = crate::plan::read::every(Api::<FederatedHPA>::all(client)).await?;
        Ok(json!({ "rows": views::autoscalers(&all) }))
    }

    async fn autoscaler_of(&self, namespace: &str, name: &str) -> anyhow::Result<Value> {
        let client = self.client().await?;
        let report = crate::autoscaler::last_round(&client, namespace, name).await?;
        let lately = leader::history(&client, &format!("?autoscaler={namespace}/{name}")).await;
        Ok(json!({ "text": report.lines().join("\n"), "report": report, "lately": lately }))
    }

    async fn plan_of(&self, change: &Change) -> anyhow::Result<Value> {
        plans::look(&self.plane, &self.client().await?, &self.clock, change).await
    }
}

impl Views for Live {
    fn fleet(&self) -> Look<'_> {
        self.told(self.fleet_of())
    }

    fn cluster<'a>(&'a self, name: &'a str) -> Look<'a> {
        self.told(self.cluster_of(name))
    }

    fn workloads(&self) -> Look<'_> {
        self.told(self.workloads_of())
    }

    fn workload<'a>(&'a self, template: &'a Reference) -> Look<'a> {
        self.told(self.tree_of(template))
    }

    fn why<'a>(&'a self, template: &'a Reference) -> Look<'a> {
        self.told(self.why_of(template))
    }

    fn manifests<'a>(&'a self, template: &'a Reference, cluster: Option<&'a str>) -> Look<'a> {
        self.told(self.manifests_of(template, cluster))
    }

    fn logs<'a>(&'a self, template: &'a Reference) -> Look<'a> {
        self.told(self.logs_of(template))
    }

    fn timeline<'a>(&'a self, template: &'a Reference) -> Look<'a> {
        self.told(self.timeline_of(template))
    }

    fn policies(&self) -> Look<'_> {
        self.told(self.policies_of())
    }

    fn services(&self) -> Look<'_> {
        self.told(self.services_of())
    }

    fn quotas(&self) -> Look<'_> {
        self.told(self.quotas_of())
    }

    fn evictions(&self) -> Look<'_> {
        self.told(self.evictions_of())
    }

    fn events(&self) -> Look<'_> {
        self.told(self.events_of())
    }

    fn system(&self) -> Look<'_> {
        self.told(self.system_of())
    }

    fn doctor(&self) -> Look<'_> {
        self.told(self.doctor_of())
    }

    fn scheduling(&self) -> Look<'_> {
        self.told(self.scheduling_of())
    }

    fn preemptions(&self) -> Look<'_> {
        self.told(self.preemptions_of())
    }

    fn accounts(&self, by: Account) -> Look<'_> {
        self.told(self.accounts_of(by))
    }

    fn autoscalers(&self) -> Look<'_> {
        self.told(self.autoscalers_of())
    }

    fn autoscaler<'a>(&'a self, namespace: &'a str, name: &'a str) -> Look<'a> {
        self.told(self.autoscaler_of(namespace, name))
    }

    fn plan<'a>(&'a self, change: &'a Change) -> Look<'a> {
        self.told(self.plan_of(change))
    }
}

/// The leader's report without its time: a page is sent again when something else has changed.
fn told_rate(report: &ironclad_failover::taint_manager::Report) -> Value {
    let mut told = json!(report);
    if let Some(fields) = told.as_object_mut() {
        fields.remove("at");
        fields.remove("flags");
    }
    told
}
