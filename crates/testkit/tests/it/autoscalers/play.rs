//! Plays a scenario on one cluster.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, bail, ensure};
use http::{Method, Request};
use ironclad_testkit::real::until;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    load::Metrics,
    scenario::{Step, Workload},
};
use crate::member_controllers::{
    scenario::lookup,
    state::{State, path},
};

/// Deadline of a wait.
const DEADLINE: Duration = Duration::from_secs(120);
/// Time between two looks at a cluster that settles.
const LOOK: Duration = Duration::from_millis(500);
/// Looks without a change after which an autoscaler is settled: longer than all windows and periods of the scenarios.
const LOOKS_QUIET: u32 = 14;
/// Looks after which it does not settle.
const LOOKS_MAX: u32 = 150;

/// One of the two clusters.
pub(super) struct Side {
    pub(super) client: Client,
    pub(super) metrics: Metrics,
}

impl Side {
    /// Plays a scenario in a namespace of its own; returns the compared states by name.
    pub(super) async fn play(&self, namespace: &str, steps: &[Step]) -> anyhow::Result<BTreeMap<String, State>> {
        let own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        self.send(Method::POST, "/api/v1/namespaces", Some(&own)).await?;
        until("the namespace is ready", DEADLINE, async || {
            self.send(Method::GET, &format!("/api/v1/namespaces/{namespace}/serviceaccounts/default"), None).await
        })
        .await?;
        let mut states = BTreeMap::new();
        for (n, step) in steps.iter().enumerate() {
            let place = || format!("step {} of {namespace}", n + 1);
            match step {
                Step::Workload(workload) => {
                    self.create(namespace, &workload.objects()).await.with_context(place)?;
                    self.until_running(namespace, workload).await.with_context(place)?;
                }
                Step::Load(load) => self.metrics.set(namespace, load.clone()),
                Step::Autoscaler(autoscaler) => {
                    self.create(namespace, &[autoscaler.object()]).await.with_context(place)?;
                }
                Step::Refused(autoscaler) => {
                    let answer = self.refusal(namespace, &autoscaler.object()).await.with_context(place)?;
                    states.insert(format!("step {}", n + 1), State::from([("answer".to_owned(), answer)]));
                }
                Step::Create(objects) => self.create(namespace, objects).await.with_context(place)?,
                Step::Patch(patch) => {
                    let subresource = patch.subresource.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
                    let at = self.at(namespace, &patch.object)? + &subresource;
                    self.send(Method::PATCH, &at, Some(&patch.body)).await.with_context(place)?;
                }
                Step::Until(wanted) => {
                    until(&format!("{}: {} is {}", place(), wanted.path, wanted.is), DEADLINE, async || {
                        let got = self.send(Method::GET, &self.at(namespace, &wanted.object)?, None).await?;
                        let got = lookup(&got, &wanted.path);
                        ensure!(*got == wanted.is, "it is {got}");
                        Ok(())
                    })
                    .await?;
                }
                Step::Compare(name) => {
                    states.insert(name.clone(), self.settled(namespace).await.with_context(place)?);
                }
            }
        }
        self.send(Method::DELETE, &format!("/api/v1/namespaces/{namespace}"), None).await?;
        Ok(states)
    }

    async fn create(&self, namespace: &str, objects: &[Value]) -> anyhow::Result<()> {
        for object in objects {
            let kind = object["kind"].as_str().unwrap_or_default();
            let path = path(&format!("{}s", kind.to_lowercase()), namespace)?;
            self.send(Method::POST, &path, Some(object)).await?;
        }
        Ok(())
    }

    /// Sends an object that is refused; returns the message.
    async fn refusal(&self, namespace: &str, object: &Value) -> anyhow::Result<String> {
        let Err(error) = self.create(namespace, std::slice::from_ref(object)).await else {
            bail!("{object} is accepted");
        };
        match error.downcast_ref() {
            Some(kube::Error::Api(status)) => Ok(status.message.clone()),
            _ => Err(error),
        }
    }

    /// Waits until as many pods are ready as the workload has replicas, and those beside it are there.
    async fn until_running(&self, namespace: &str, workload: &Workload) -> anyhow::Result<()> {
        until("the workload runs", DEADLINE, async || {
            let pods = self.send(Method::GET, &path("pods", namespace)?, None).await?;
            let count = |is: &dyn Fn(&Value) -> bool| {
                let items = pods["items"].as_array().into_iter().flatten();
                i64::try_from(items.filter(|pod| is(pod)).count()).unwrap_or(i64::MAX)
            };
            let ready = count(&|pod| lookup(pod, "/status/conditions/Ready/status") == "True");
            let running = count(&|pod| pod["status"]["phase"] == "Running");
            ensure!(ready == workload.replicas, "{ready} pods are ready");
            ensure!(running == workload.replicas + workload.unready, "{running} pods run");
            let of = format!("{}s/web", workload.kind.to_lowercase());
            let got = self.send(Method::GET, &self.at(namespace, &of)?, None).await?;
            ensure!(lookup(&got, "/status/readyReplicas").as_i64().unwrap_or(0) == workload.replicas, "its status");
            Ok(())
        })
        .await
    }

    /// Returns the state once it has not changed for a while.
    async fn settled(&self, namespace: &str) -> anyhow::Result<State> {
        let (mut last, mut same) = (self.observe(namespace).await?, 0);
        for _ in 0..LOOKS_MAX {
            if same == LOOKS_QUIET {
                return Ok(last);
            }
            sleep(LOOK).await;
            let now = self.observe(namespace).await?;
            same = if now == last { same + 1 } else { 0 };
            last = now;
        }
        bail!("it does not settle; the last state is {last:#?}")
    }

    async fn observe(&self, namespace: &str) -> anyhow::Result<State> {
        let mut state = State::new();
        let mut put = |key: String, value: &Value| match value {
            Value::Null => {}
            Value::String(text) => drop(state.insert(key, text.clone())),
            other => drop(state.insert(key, other.to_string())),
        };
        for plural in ["deployments", "replicasets", "statefulsets"] {
            for item in self.items(&path(plural, namespace)?).await? {
                let name = text(&item, "/metadata/name");
                if name == "web" {
                    put(format!("{plural}/{name}: /spec/replicas"), lookup(&item, "/spec/replicas"));
                }
            }
        }
        for item in self.items(&path("horizontalpodautoscalers", namespace)?).await? {
            let name = text(&item, "/metadata/name");
            let status = &item["status"];
            for field in ["currentReplicas", "desiredReplicas", "observedGeneration"] {
                put(format!("hpa/{name}: {field}"), &status[field]);
            }
            put(format!("hpa/{name}: lastScaleTime"), &json!(!status["lastScaleTime"].is_null()));
            for (n, metric) in status["currentMetrics"].as_array().into_iter().flatten().enumerate() {
                put(format!("hpa/{name}: currentMetrics/{n}"), metric);
            }
            for condition in status["conditions"].as_array().into_iter().flatten() {
                let said = ["/status", "/reason", "/message"].map(|field| text(condition, field));
                put(format!("hpa/{name}: {}", text(condition, "/type")), &json!(said.join(" | ")));
            }
        }
        for item in self.items(&format!("/api/v1/namespaces/{namespace}/events")).await? {
            // A controller whose own write has not come back by its watch yet meets a conflict, and tries again.
            let stale = text(&item, "/message").contains("the object has been modified");
            if text(&item, "/involvedObject/kind") == "HorizontalPodAutoscaler" && !stale {
                let said = ["/type", "/reason", "/message"].map(|field| text(&item, field));
                let about = text(&item, "/involvedObject/name");
                put(format!("event of hpa/{about}: {}", said.join(" | ")), &json!("seen"));
            }
        }
        Ok(state)
    }

    async fn items(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        Ok(self.send(Method::GET, path, None).await?["items"].as_array().cloned().unwrap_or_default())
    }

    /// Returns the path of an object `PLURAL/NAME`.
    fn at(&self, namespace: &str, object: &str) -> anyhow::Result<String> {
        let (plural, name) = object.split_once('/').context("PLURAL/NAME")?;
        Ok(format!("{}/{name}", path(plural, namespace)?))
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = body.map(Value::to_string).unwrap_or_default().into_bytes();
        let request = Request::builder().method(method.clone()).uri(path).header("content-type", media).body(body)?;
        self.client.request(request).await.with_context(|| format!("{method} {path}"))
    }
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    lookup(object, path).as_str().unwrap_or("")
}
