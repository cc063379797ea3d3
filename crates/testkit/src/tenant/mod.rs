//! A tenant with all rights in one namespace writes every field of every kind of our API, with values that reach
//! outside: nothing there may change, in the control plane or in a member, and nothing from there may be disclosed
//! (specification/admission.md 8).
//!
//! Fields come from the CRDs' schemas, values and verbs from a seed.

mod hostile;
mod kinds;
mod outside;
mod schema;

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_api::cluster::Cluster;
use ironclad_apiserver::Identity;
use ironclad_controllers::Settings;
use ironclad_fleet::gates::Gate;
use ironclad_runtime::{Api, discover};
use ironclad_seam::{Rng, Stream};
use kube::{
    Client,
    api::ListParams,
    client::Body,
    discovery::{Scope, verbs},
};
use serde_json::{Value, json};

use crate::sim::{Setup, World, WorldOptions};

use self::{
    kinds::{Kind, known_names, our_kinds, template_kinds},
    outside::{State, differences, look, tells_nothing},
    schema::{Field, Step},
};

/// The user, and the namespace in which they may do everything.
const TENANT: &str = "mallory";
const OWN: &str = "shop";
/// The namespace of somebody else, whose objects have the same names.
const VICTIM: &str = "other";
const OWN_NAME: &str = "conf";
/// Text in objects outside of the tenant's namespace, plain and in base64.
const CANARY: [&str; 2] = ["canary-7f3e", "Y2FuYXJ5LTdmM2Ut"];
const CANARY_TEXT: &str = "canary-7f3e-of-others";

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Writes after which controllers get time, and the state outside is compared.
const BATCH: usize = 40;
/// Virtual time of the controllers after a batch: queues, debounced status and deletions.
const ACT: Duration = Duration::from_secs(3);
/// Virtual time after the last one.
const SETTLE: Duration = Duration::from_secs(120);
/// Letters of a text in a message.
const SHOWN: usize = 600;

/// Counts of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Requests that must be forbidden.
    pub forbidden: usize,
    /// Fields that were written.
    pub fields: usize,
    /// Writes, and those that were accepted, by kind.
    pub writes: BTreeMap<String, (usize, usize)>,
}

/// The beginning of a text.
fn short(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

struct Tenant {
    world: World,
    client: Client,
    draw: Stream,
    /// Ids of somebody else's objects, which the tenant may have learnt.
    ids: Vec<String>,
    before: State,
    /// Writes since the last comparison.
    since: Vec<String>,
    outcome: Outcome,
}

/// Plays a run in which each field is written this often.
///
/// # Errors
/// The first thing that the tenant reached, or that did not hold.
pub async fn run(seed: u64, per_field: usize) -> anyhow::Result<Outcome> {
    let mut tenant = Tenant::start(seed).await?;
    tenant.try_outside().await?;
    let names = known_names();
    for kind in our_kinds()?.into_iter().chain(template_kinds()) {
        tenant.try_fields(&kind, &names, per_field).await?;
    }
    tenant.world.advance(SETTLE).await;
    tenant.compare().await?;
    Ok(tenant.outcome)
}

impl Tenant {
    async fn start(seed: u64) -> anyhow::Result<Self> {
        let mut settings = Settings::default();
        settings.gates = settings.gates.with(Gate::FederatedQuotaEnforcement, true).with(Gate::Failover, true);
        let setup = Setup { settings, ..WorldOptions { seed, members: 2 }.into() };
        let mut world = World::start(setup).await?;
        let admin = world.user();
        for (path, object) in kinds::around() {
            made(&admin, &path, &object).await?;
        }
        world.start_controllers().await;
        let clusters: Api<Cluster> = Api::all(admin.clone());
        world
            .until("all members are Ready", async || {
                Ok(clusters.list(&ListParams::default()).await?.items.iter().all(|cluster| cluster.is_ready()))
            })
            .await?;
        for name in ["member1", "member2"] {
            let member = world.member(name)?.client();
            for (path, object) in kinds::in_member() {
                made(&member, &path, &object).await?;
            }
        }
        for (path, object) in kinds::of_others().into_iter().chain(kinds::of_tenant()) {
            made(&admin, &path, &object).await?;
        }
        world.until_quiet().await?;
        let client = world.client_of(Identity::user(TENANT, &[]));
        let draw = Rng::from_seed(seed).stream("tenant");
        let mut tenant =
            Self { world, client, draw, ids: vec![], before: State::new(), since: vec![], outcome: Outcome::default() };
        tenant.before = tenant.look().await?;
        tenant.ids = ids_of(&tenant.before);
        ensure!(tenant.ids.len() > 3, "somebody else has no bindings: {:?}", tenant.ids);
        Ok(tenant)
    }

    /// Every verb on every kind outside of the namespace is forbidden.
    async fn try_outside(&mut self) -> anyhow::Result<()> {
        let mut paths = Vec::new();
        for group in discover(&self.world.user()).await?.groups() {
            for (resource, capabilities) in group.recommended_resources() {
                // Everybody may ask for their own rights.
                if resource.kind.starts_with("SelfSubject") {
                    continue;
                }
                let root =
                    if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
                let root = format!("{root}/{}", resource.version);
                let body = json!({
                    "apiVersion": resource.api_version, "kind": resource.kind,
                    "metadata": {"name": OWN_NAME}, "spec": {},
                });
                let listed = capabilities.supports_operation(verbs::LIST);
                if capabilities.scope == Scope::Namespaced {
                    for namespace in [VICTIM, "kube-system", "karmada-cluster", "karmada-es-member1"] {
                        paths.push((
                            format!("{root}/namespaces/{namespace}/{}", resource.plural),
                            body.clone(),
                            listed,
                        ));
                    }
                } else {
                    paths.push((format!("{root}/{}", resource.plural), body, listed));
                }
            }
        }
        for (path, body, listed) in paths {
            let one = format!("{path}/{OWN_NAME}");
            let mut requests = vec![("POST", path.clone(), JSON, body.clone())];
            if listed {
                requests.extend([
                    ("GET", path.clone(), JSON, Value::Null),
                    ("GET", format!("{path}?watch=true"), JSON, Value::Null),
                    ("GET", one.clone(), JSON, Value::Null),
                    ("DELETE", path.clone(), JSON, Value::Null),
                    ("DELETE", one.clone(), JSON, Value::Null),
                    ("PUT", one.clone(), JSON, body.clone()),
                    ("PATCH", format!("{one}/status"), MERGE, json!({"status": {}})),
                    ("PATCH", format!("{one}?fieldManager=x"), APPLY, body),
                ]);
            }
            for (method, path, content_type, body) in requests {
                let (code, answer) = send(&self.client, method, &path, content_type, &body).await?;
                // Some kinds lack some verbs.
                let refused = code == 403 || code == 405 || (path.ends_with("/status") && code == 404);
                ensure!(refused, "{method} {path}: {code} {}", short(&answer));
                tells_nothing(&answer, &path)?;
                self.outcome.forbidden += 1;
            }
        }
        self.compare().await
    }

    async fn try_fields(&mut self, kind: &Kind, names: &[String], per_field: usize) -> anyhow::Result<()> {
        let mut fields = schema::fields(&kind.schema, "");
        for field in &mut fields {
            field.steps.remove(0);
        }
        fields.retain(|field| !field.steps.is_empty());
        fields.extend(kinds::metadata_fields(kind.takes_marks.then_some(names)));
        for field in &fields {
            self.outcome.fields += 1;
            for _ in 0..per_field {
                self.write(kind, field, &fields).await?;
                if self.since.len() >= BATCH {
                    self.act(kind).await?;
                }
            }
        }
        self.act(kind).await
    }

    /// Writes an object with a drawn value in this field, and now and then in another one.
    async fn write(&mut self, kind: &Kind, field: &Field, all: &[Field]) -> anyhow::Result<()> {
        let mut object = kind.base.clone();
        let mut what = vec![field.path()];
        self.put_value(&mut object, kind, field);
        while self.draw.below(3) == 0 {
            let another = &all[self.draw.below(all.len() as u64) as usize];
            self.put_value(&mut object, kind, another);
            what.push(another.path());
        }
        let live = format!("{}/live", kind.path);
        let names_it = field.steps.last() == Some(&Step::Key("name".to_owned())) && field.steps.len() == 2;
        let dry = if self.draw.below(15) == 0 { "&dryRun=All" } else { "" };
        let of_status = field.steps.first() == Some(&Step::Key("status".to_owned()));
        let (method, path, content_type, body) = match self.draw.below(if of_status { 7 } else { 5 }) {
            0 => {
                if !names_it {
                    object["metadata"]["name"] = json!(format!("n{}", self.since.len()));
                }
                ("POST", format!("{}?fieldManager=x{dry}", kind.path), JSON, object)
            }
            1 => {
                let (_, current) = send(&self.client, "GET", &live, JSON, &Value::Null).await?;
                let current: Value = serde_json::from_str(&current)?;
                for key in ["name", "resourceVersion"] {
                    let metadata = &mut object["metadata"];
                    if metadata.is_object() && metadata[key].is_null() {
                        metadata[key] = current["metadata"][key].clone();
                    }
                }
                ("PUT", format!("{live}?fieldManager=x{dry}"), JSON, object)
            }
            2 => ("PATCH", format!("{live}?fieldManager=x{dry}"), MERGE, object),
            3 => {
                let top = field.steps.first().map(|step| match step {
                    Step::Key(key) => key.clone(),
                    Step::First => String::new(),
                });
                let top = top.unwrap_or_default();
                let patch = json!([{"op": "add", "path": format!("/{top}"), "value": object[top.as_str()]}]);
                ("PATCH", format!("{live}?fieldManager=x{dry}"), JSON_PATCH, patch)
            }
            4 => ("PATCH", format!("{live}?fieldManager=y&force=true{dry}"), APPLY, object),
            _ => ("PATCH", format!("{live}/status?fieldManager=x{dry}"), MERGE, json!({"status": object["status"]})),
        };
        let (code, answer) = send(&self.client, method, &path, content_type, &body).await?;
        let request = format!("{method} {path} {} with {}", short(&body.to_string()), what.join(", "));
        // A kube-apiserver, too, answers 500 without a reason to some bad input: an applied field that the schema does
        // not have, a resourceVersion that is no number. Errors of our own have the reason InternalError.
        let is_unclassified = code == 500 && !answer.contains(r#""reason":"#);
        ensure!(code < 500 || is_unclassified, "{request}: {code} {}", short(&answer));
        tells_nothing(&answer, &request)?;
        let (writes, accepted) = self.outcome.writes.entry(kind.name.clone()).or_default();
        *writes += 1;
        *accepted += usize::from(code < 300);
        self.since.push(format!("{code} {request}"));
        Ok(())
    }

    fn put_value(&self, object: &mut Value, kind: &Kind, field: &Field) {
        let allowed = field.schema["enum"].as_array();
        let mut value = hostile::value(field.kind(), field.name(), allowed, &self.draw);
        if value.is_string() && allowed.is_none() && self.draw.below(5) == 0 {
            value = json!(self.ids[self.draw.below(self.ids.len() as u64) as usize]);
        }
        schema::set(object, &kind.schema, &field.steps, value);
    }

    /// Lets the controllers act on what was written, looks whether anything outside changed, and cleans up.
    async fn act(&mut self, kind: &Kind) -> anyhow::Result<()> {
        self.world.advance(ACT).await;
        self.compare().await?;
        self.since.clear();
        let (code, answer) = send(&self.client, "DELETE", &kind.path, JSON, &Value::Null).await?;
        ensure!(code < 300, "DELETE {}: {code} {}", kind.path, short(&answer));
        // Finalizers of the tenant's own.
        let (_, all) = send(&self.client, "GET", &kind.path, JSON, &Value::Null).await?;
        let all: Value = serde_json::from_str(&all)?;
        for left in all["items"].as_array().into_iter().flatten() {
            let name = left["metadata"]["name"].as_str().unwrap_or_default();
            let finalizers = left["metadata"]["finalizers"].as_array().into_iter().flatten();
            let ours: Vec<&Value> =
                finalizers.filter(|one| one.as_str().is_some_and(|f| f.contains("karmada"))).collect();
            let body = json!({"metadata": {"finalizers": ours}});
            let (code, answer) = send(&self.client, "PATCH", &format!("{}/{name}", kind.path), MERGE, &body).await?;
            ensure!(code < 500, "freeing {}/{name}: {code} {}", kind.path, short(&answer));
        }
        self.world.advance(ACT).await;
        let admin = self.world.user();
        for (path, object) in kinds::of_tenant() {
            let (code, answer) = send(&admin, "POST", &path, JSON, &object).await?;
            ensure!(code < 300 || code == 409, "{path}: {code} {}", short(&answer));
        }
        let mut live = kind.base.clone();
        live["metadata"]["name"] = json!("live");
        let (code, answer) = send(&self.client, "POST", &kind.path, JSON, &live).await?;
        ensure!(code < 300 || code == 409, "{}: {code} {}", kind.path, short(&answer));
        Ok(())
    }

    async fn compare(&mut self) -> anyhow::Result<()> {
        let differences = differences(&self.before, &self.look().await?);
        ensure!(
            differences.is_empty(),
            "outside of the tenant's namespace:\n{}\nafter\n{}",
            differences.join("\n"),
            self.since.join("\n")
        );
        let (code, answer) = send(&self.client, "GET", "/readyz", JSON, &Value::Null).await?;
        ensure!(code == 200, "the server is not ready: {code} {}", short(&answer));
        let mut metrics = String::new();
        let controllers = self.world.context().context("the controllers ended")?;
        prometheus_client::encoding::text::encode(&mut metrics, &controllers.registry())?;
        let panicked = |line: &&str| line.contains("panics_total{") && !line.ends_with(" 0");
        let panics: Vec<&str> = metrics.lines().filter(panicked).collect();
        ensure!(panics.is_empty(), "{panics:?} after\n{}", self.since.join("\n"));
        Ok(())
    }

    /// The state outside of the tenant's namespace; what is inside may disclose nothing of it.
    async fn look(&self) -> anyhow::Result<State> {
        let mut outside = State::new();
        let mut servers = vec![("plane", self.world.user())];
        for name in ["member1", "member2"] {
            servers.push((name, self.world.member(name)?.client()));
        }
        for (server, client) in servers {
            let seen = look(server, &client).await?;
            for (key, object) in &seen.own {
                tells_nothing(&object.to_string(), key)?;
            }
            outside.extend(seen.outside);
        }
        Ok(outside)
    }
}

/// Uids and permanent ids.
fn ids_of(state: &State) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for (key, object) in state.iter().filter(|(key, _)| key.contains("karmada.io/")) {
        let metadata = &object["metadata"];
        ids.extend(metadata["uid"].as_str().map(str::to_owned));
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let permanent = labels.filter(|(name, _)| name.ends_with("permanent-id"));
        ids.extend(permanent.filter_map(|(_, id)| id.as_str()).map(str::to_owned));
        ids.extend(key.rsplit('/').next().map(str::to_owned));
    }
    ids.sort();
    ids.dedup();
    ids
}

async fn made(client: &Client, path: &str, object: &Value) -> anyhow::Result<()> {
    let (code, answer) = send(client, "POST", path, JSON, object).await?;
    ensure!(code == 201 || code == 409, "{path} {object}: {code} {}", short(&answer));
    Ok(())
}

/// Sends a request; answers code and body. A watch is not read.
async fn send(
    client: &Client,
    method: &str,
    path: &str,
    content_type: &str,
    body: &Value,
) -> anyhow::Result<(u16, String)> {
    let request = http::Request::builder().method(method).uri(path).header("content-type", content_type);
    let bytes = if body.is_null() { vec![] } else { serde_json::to_vec(body)? };
    let answer = client.send(request.body(Body::from(bytes))?).await?;
    let code = answer.status().as_u16();
    if code == 200 && path.ends_with("watch=true") {
        return Ok((code, String::new()));
    }
    let body = answer.into_body().collect_bytes().await?;
    Ok((code, String::from_utf8_lossy(&body).into_owned()))
}
