//! The views, each by the functions of the verb that shows the same.

use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};

use anyhow::Context as _;
use futures::FutureExt as _;
use ironclad_api::{autoscaling::FederatedHPA, cluster::Cluster};
use ironclad_dashboard::{Failed, Look, Question, Reference, Version, Views};
use ironclad_fleet::BindingKey;
use ironclad_planning::views::{self, BindingRow};
use ironclad_runtime::Api;
use ironclad_seam::{Clock, Seam};
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::Instant};

use super::{
    actions::parsed, failed::failed, kept::Kept, logs, manifests, observe, plans, policies, quotas, scheduling,
    services, usage,
};
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
/// Age of a view that shows more than what is watched: heartbeats, and the leader's queue.
const UNCOUNTED_MAX: Duration = Duration::from_secs(10);
/// Age of a view that shows only what is watched: it is computed anew to find out whether the user may still see it.
const WATCHED_MAX: Duration = Duration::from_secs(60);
/// Kinds that are watched for one user.
const WATCHES_OF_ONE: usize = 4;
/// Bindings in an account of a cluster's evictions.
const WAITING_MAX: usize = 50;

/// Views of the fleet of a control plane.
pub struct Live {
    plane: Plane,
    clock: Clock,
    kept: Kept,
    /// Rows of the bindings of a version of what is kept.
    rows: RefCell<Option<(u64, Rc<[BindingRow]>)>>,
    client: RefCell<Option<(Instant, Client)>>,
}

impl Live {
    /// Views of this control plane. What is watched for them ends with the tasks of `seam`, and with the views.
    #[must_use]
    pub fn new(plane: Plane, seam: &Seam) -> Self {
        Self::among(plane, seam, &Arc::new(Semaphore::new(WATCHES_OF_ONE)))
    }

    /// The same beside those of others: `watches` bounds the kinds that are watched for all of them.
    #[must_use]
    pub fn among(plane: Plane, seam: &Seam, watches: &Arc<Semaphore>) -> Self {
        Self {
            plane,
            clock: seam.clock.clone(),
            kept: Kept::new(seam, watches),
            rows: RefCell::default(),
            client: RefCell::new(None),
        }
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

    /// Computes a view. Errors are those of verbs.
    async fn view(&self, question: &Question) -> anyhow::Result<Value> {
        match question {
            Question::Fleet => self.fleet_of().await,
            Question::Cluster(name) => self.cluster_of(name).await,
            Question::Workloads => self.workloads_of().await,
            Question::Workload(template) => self.tree_of(template).await,
            Question::Why(template) => self.why_of(template).await,
            Question::Manifests(template, cluster) => {
                manifests::look(&self.client().await?, template, cluster.as_deref()).await
            }
            Question::Logs(template) => {
                let (client, kubeconfig) = (self.client().await?, self.plane.kubeconfig().ok());
                logs::look(&client, kubeconfig.as_ref(), &self.clock, template).await
            }
            Question::NodeUsage(cluster) => {
                let (client, kubeconfig) = (self.client().await?, self.plane.kubeconfig().ok());
                usage::of_nodes(&client, kubeconfig.as_ref(), &self.clock, cluster).await
            }
            Question::PodUsage(template) => {
                let (client, kubeconfig) = (self.client().await?, self.plane.kubeconfig().ok());
                usage::of_pods(&client, kubeconfig.as_ref(), &self.clock, template).await
            }
            Question::Timeline(template) => self.timeline_of(template).await,
            Question::Policies => policies::look(&self.client().await?, &self.kept).await,
            Question::Services => services::look(&self.client().await?, &self.kept, &self.clock).await,
            Question::Quotas => quotas::look(&self.client().await?, &self.kept).await,
            Question::Evictions => self.evictions_of().await,
            Question::Events => {
                Ok(json!({ "rows": observe::events(&self.client().await?, &self.kept, |_| true).await? }))
            }
            Question::System => self.system_of().await,
            Question::Doctor => self.doctor_of().await,
            Question::Scheduling => Ok(scheduling::queue(&self.client().await?).await),
            Question::Preemptions => scheduling::preemptions(&self.client().await?, &self.kept).await,
            Question::Accounts(by) => {
                let (client, kubeconfig) = (self.client().await?, self.plane.kubeconfig().ok());
                scheduling::accounts(&client, &self.kept, kubeconfig.as_ref(), &self.clock, *by).await
            }
            Question::Autoscalers => {
                let all = crate::plan::read::every(Api::<FederatedHPA>::all(self.client().await?)).await?;
                Ok(json!({ "rows": views::autoscalers(&all) }))
            }
            Question::Autoscaler(namespace, name) => self.autoscaler_of(namespace, name).await,
            Question::Plan(change) => plans::look(&self.plane, &self.client().await?, &self.clock, change).await,
        }
    }

    /// The rows of all bindings. Notes say which could not be read.
    async fn rows(
        &self,
        client: &Client,
        clusters: &[Arc<Cluster>],
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Rc<[BindingRow]>> {
        // Before they are read: what changes meanwhile is another version.
        let version = self.kept.placements();
        let known = self.rows.borrow().clone().filter(|(of, _)| Some(*of) == version);
        if let Some((_, rows)) = known
            && self.kept.bindings.allowed(client).await.is_ok()
            && self.kept.cluster_bindings.allowed(client).await.is_ok()
        {
            return Ok(rows);
        }
        let rows: Rc<[BindingRow]> = observe::bindings(client, &self.kept, clusters, notes).await?.into();
        *self.rows.borrow_mut() = version.map(|version| (version, rows.clone()));
        Ok(rows)
    }

    async fn fleet_of(&self) -> anyhow::Result<Value> {
        let client = self.client().await?;
        let (mut notes, clusters) = (Vec::new(), self.kept.clusters.all(&client).await?);
        let bindings = self.rows(&client, &clusters, &mut notes).await?;
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
        let clusters = self.kept.clusters.all(&client).await?;
        let found = clusters.iter().find(|cluster| cluster.metadata.name.as_deref() == Some(name));
        let cluster = found.with_context(|| format!("cluster {name} does not exist\n  try: ironclad get clusters"))?;
        let bindings = self.rows(&client, &clusters, &mut notes).await?;
        let mut queue = observe::queue(&client).await;
        let heard = observe::heard(&client).await;
        let rows = views::clusters(&clusters, &bindings, &queue, &heard, now);
        let row = rows.into_iter().find(|row| row.name == name);
        let is_here = |row: &&BindingRow| row.clusters.iter().any(|place| place.cluster == name);
        let bindings: Vec<&BindingRow> = bindings.iter().filter(is_here).collect();
        queue.retain(|row| *row.cluster.0 == *name);
        let waiting = queue.len();
        queue.truncate(WAITING_MAX);
        let conditions = cluster.status.as_ref().map(|status| &status.conditions);
        let about = format!("Cluster {name}");
        let of_cluster = |event: &Event| event.involved_object.kind.as_deref() == Some("Cluster");
        let events = match crate::report::permitted(observe::events(&client, &self.kept, of_cluster).await)? {
            Some(all) => all,
            None => observe::events_in(&client, "default").await.unwrap_or_default(),
        };
        let events: Vec<_> = events.into_iter().filter(|event| event.object == about).take(20).collect();
        let spec = json!({ "apiEndpoint": cluster.spec.api_endpoint, "id": cluster.spec.id });
        Ok(json!({ "cluster": row, "spec": spec, "conditions": conditions, "evictions": queue, "waiting": waiting,
            "events": events, "rows": bindings, "notes": notes }))
    }

    async fn workloads_of(&self) -> anyhow::Result<Value> {
        let client = self.client().await?;
        let (mut notes, clusters) = (Vec::new(), self.kept.clusters.all(&client).await?);
        let rows = self.rows(&client, &clusters, &mut notes).await?;
        Ok(json!({ "sums": observe::sums(rows.iter().map(|row| row.state)), "rows": &*rows, "notes": notes }))
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
        match crate::report::permitted(observe::events(&client, &self.kept, |_| true).await)? {
            Some(all) => entries.extend(all.into_iter().filter(|event| about.contains(&event.object))),
            None if !namespace.is_empty() => {
                let own = observe::events_in(&client, namespace).await?;
                entries.extend(own.into_iter().filter(|event| about.contains(&event.object)));
                notes.push("you may not list events in all namespaces: those of Works are left out".to_owned());
            }
            None => notes.push("you may not list events in all namespaces".to_owned()),
        }
        Ok(json!({ "rows": views::timeline(entries), "notes": notes }))
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

    async fn autoscaler_of(&self, namespace: &str, name: &str) -> anyhow::Result<Value> {
        let client = self.client().await?;
        let report = crate::autoscaler::last_round(&client, namespace, name).await?;
        let lately = leader::history(&client, &format!("?autoscaler={namespace}/{name}")).await;
        Ok(json!({ "text": report.lines().join("\n"), "report": report, "lately": lately }))
    }
}

impl Views for Live {
    fn look<'a>(&'a self, question: &'a Question) -> Look<'a> {
        async move { self.view(question).await.map_err(|error| -> Failed { failed(&crate::asked::explained(error)) }) }
            .boxed_local()
    }

    fn version(&self, question: &Question) -> Option<Version> {
        let holds = match question {
            Question::Workloads => WATCHED_MAX,
            Question::Fleet | Question::Cluster(_) => UNCOUNTED_MAX,
            _ => return None,
        };
        self.kept.placements().map(|changes| Version { changes, holds })
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
