//! Carries Clusters over from one form to the other: decided by [`ironclad_admission::stored::carry_over`].

use std::{collections::BTreeMap, time::Duration};

use http::{Method, Request, header};
use ironclad_admission::stored::{
    SERVED, STORED,
    carry_over::{Form, Owners, Step, owned, step},
};
use ironclad_api::{
    cluster::{DEFINITION, STORED_DEFINITION, STORED_GROUP, STORED_USERS},
    crds::{crds, stored_clusters_crd},
};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use k8s_openapi::{
    api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Client, ResourceExt as _,
    api::{DeleteParams, ObjectMeta, PostParams},
    client::Body,
};
use serde_json::{Value, json};

use crate::{
    admission::{WebhookError, failed},
    aggregated::unregister,
};

const MANAGER: &str = "ironclad-clusters";
const API_SERVICE: &str = "v1alpha1.cluster.karmada.io";
/// Interval between looks whether the kube-apiserver serves a CRD, or has removed one.
const LOOK: Duration = Duration::from_millis(200);
/// Looks until it is given up; the whole is tried again.
const LOOKS: usize = 300;
/// Rounds over all Clusters until it is given up: somebody else writes them all the time.
const ROUNDS: usize = 50;
/// Lists of the kinds of which Clusters own objects: what joins, registers and serves members makes them.
const OWNED: [&str; 9] = [
    "/api/v1/secrets",
    "/api/v1/configmaps",
    "/api/v1/namespaces",
    "/apis/work.karmada.io/v1alpha1/works",
    "/apis/coordination.k8s.io/v1/leases",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
];

type Outcome<T = ()> = Result<T, WebhookError>;

/// Brings all Clusters into this form, if they are not, so that members and what runs there do not notice. Returns how
/// many were moved. Only a leader may call it, before its controllers start. The client sees Clusters as they are
/// stored.
///
/// # Errors
/// A request failed, or two Clusters have one name; what was done stays, and the next call goes on.
pub async fn carry_over(client: &Client, to: Form, clock: &Clock) -> Outcome<usize> {
    let mover = Mover { client: client.clone(), clock: clock.clone() };
    match to {
        Form::Stored => mover.store().await,
        Form::Plain => mover.unstore().await,
    }
}

struct Mover {
    client: Client,
    clock: Clock,
}

/// Clusters by name.
type Clusters = BTreeMap<String, Value>;

impl Mover {
    async fn store(&self) -> Outcome<usize> {
        self.let_server_write().await?;
        self.ensure(stored_clusters_crd(), STORED).await?;
        if self.definition(DEFINITION).await?.is_none() {
            return Ok(0);
        }
        // While an aggregated API has the group, nobody sees the objects of the CRD.
        self.unregister().await?;
        self.until(SERVED).await?;
        let moved = self.move_all(SERVED, STORED, Form::Stored).await?;
        self.remove_definition(DEFINITION).await?;
        self.without_api_service().await?;
        Ok(moved)
    }

    async fn unstore(&self) -> Outcome<usize> {
        if self.definition(STORED_DEFINITION).await?.is_none() {
            return Ok(0);
        }
        self.unregister().await?;
        // Before the served group has Clusters that do not have these uids: the garbage collector would take what
        // they own.
        let stored = self.list(STORED).await?;
        let same = |object: &Value| uid(object).map(|uid| (uid.clone(), (name(object), uid)));
        self.own(&stored.values().filter_map(same).collect(), Form::Stored).await?;
        let plain = crds().into_iter().find(|crd| crd.name_any() == DEFINITION);
        self.ensure(plain.unwrap_or_default(), SERVED).await?;
        let moved = self.move_all(STORED, SERVED, Form::Plain).await?;
        self.remove_definition(STORED_DEFINITION).await?;
        Ok(moved)
    }

    /// Moves all Clusters from one path to the other.
    async fn move_all(&self, from: &str, at: &str, to: Form) -> Outcome<usize> {
        let mut moved = 0;
        for _ in 0..ROUNDS {
            let (sources, targets) = (self.list(from).await?, self.list(at).await?);
            let same =
                |name: &String| uid(&sources[name]).is_some() && targets.get(name).and_then(uid) == uid(&sources[name]);
            if let Some(name) = sources.keys().find(|name| same(name)) {
                return Err(WebhookError::Contended(format!(
                    "Cluster {name}: an aggregated API serves what is stored, and it"
                )));
            }
            let mut names: Vec<&String> = sources.keys().chain(targets.keys()).collect();
            names.sort_unstable();
            names.dedup();
            let (mut owners, mut removals, mut is_done) = (Owners::new(), Vec::new(), true);
            for name in names {
                let next = step(sources.get(name), targets.get(name), to);
                is_done &= next == Step::Done;
                let path = format!("{at}/{name}");
                match next {
                    Step::Done => {}
                    Step::Create(copy) => self.write(Method::POST, at, &copy).await?,
                    Step::Replace(copy) | Step::Finish(copy) => self.write(Method::PUT, &path, &copy).await?,
                    Step::Status(copy) => self.write(Method::PUT, &format!("{path}/status"), &copy).await?,
                    Step::Delete => self.write(Method::DELETE, &path, &Value::Null).await?,
                    Step::Remove(last) => {
                        let (source, target) = (uid(&last), targets.get(name).and_then(uid));
                        owners.extend(source.zip(target).map(|(source, target)| (source, (name.clone(), target))));
                        removals.push(last);
                    }
                    Step::Conflict => {
                        let why = format!(
                            "Cluster {name} exists in two forms: delete one of {from}/{name} and {at}/{name}; it"
                        );
                        return Err(WebhookError::Contended(why));
                    }
                }
            }
            if is_done {
                return Ok(moved);
            }
            if !removals.is_empty() {
                self.own(&owners, to).await?;
                moved += removals.len();
            }
            for last in removals {
                self.remove(from, &last).await?;
            }
        }
        Err(WebhookError::Contended(format!("Clusters at {from}")))
    }

    /// Removes a Cluster whose copy is whole, unless somebody wrote it meanwhile.
    async fn remove(&self, from: &str, last: &Value) -> Outcome {
        let path = format!("{from}/{}", name(last));
        let Some(written) = self.send(Method::PUT, &path, last).await? else { return Ok(()) };
        if !written["metadata"]["deletionTimestamp"].is_null() {
            // Without finalizers it is gone.
            return Ok(());
        }
        let preconditions =
            json!({"uid": written["metadata"]["uid"], "resourceVersion": written["metadata"]["resourceVersion"]});
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
        self.write(Method::DELETE, &path, &options).await
    }

    /// Lets what these Clusters owned be owned by those of other uids.
    async fn own(&self, owners: &Owners, form: Form) -> Outcome {
        for kind in OWNED {
            for object in self.items(kind).await? {
                let metadata = &object["metadata"];
                let Some(references) = owned(metadata, owners, form) else { continue };
                let path = match (metadata["namespace"].as_str(), kind.rsplit_once('/')) {
                    (Some(namespace), Some((api, plural))) => {
                        format!("{api}/namespaces/{namespace}/{plural}/{}", name(&object))
                    }
                    _ => format!("{kind}/{}", name(&object)),
                };
                let patch = json!({"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], "ownerReferences": references}});
                if self.send(Method::PATCH, &path, &patch).await?.is_none()
                    && self.send(Method::GET, &path, &Value::Null).await?.is_some()
                {
                    return Err(WebhookError::Contended(path));
                }
            }
        }
        Ok(())
    }

    async fn list(&self, path: &str) -> Outcome<Clusters> {
        let answer = self.send(Method::GET, path, &Value::Null).await?.unwrap_or_default();
        let items = answer["items"].as_array().cloned().unwrap_or_default();
        Ok(items.into_iter().map(|object| (name(&object), object)).collect())
    }

    /// Metadata of all objects of a kind.
    async fn items(&self, path: &str) -> Outcome<Vec<Value>> {
        let request = Request::get(path)
            .header(header::ACCEPT, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io");
        let request = request.body(Vec::new()).map_err(|error| WebhookError::Certificate(error.to_string()))?;
        match self.client.request::<Value>(request).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            answer => {
                let answer = answer.map_err(failed(format!("listing {path}")))?;
                Ok(answer["items"].as_array().cloned().unwrap_or_default())
            }
        }
    }

    async fn write(&self, method: Method, path: &str, object: &Value) -> Outcome {
        self.send(method, path, object).await.map(drop)
    }

    /// Sends a request; `None` if the object is gone or was written by somebody else: the next round sees what is
    /// there.
    async fn send(&self, method: Method, path: &str, object: &Value) -> Outcome<Option<Value>> {
        let what = || format!("{method} {path}, to carry Clusters over");
        let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let is_write = !matches!(method, Method::GET | Method::DELETE);
        let query = if is_write { format!("?fieldManager={MANAGER}") } else { String::new() };
        let body = if object.is_null() { Vec::new() } else { object.to_string().into_bytes() };
        let request = Request::builder().method(method.clone()).uri(format!("{path}{query}"));
        let request = request.header(header::CONTENT_TYPE, media).body(body);
        let request = request.map_err(|error| WebhookError::Certificate(error.to_string()))?;
        match self.client.request::<Value>(request).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
            answer => answer.map(Some).map_err(failed(what())),
        }
    }

    async fn definition(&self, name: &str) -> Outcome<Option<CustomResourceDefinition>> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        api.get_opt(name).await.map_err(failed(format!("reading CustomResourceDefinition {name}")))
    }

    /// Installs a CRD, or brings its versions up to date, and waits until its kind is served.
    async fn ensure(&self, wanted: CustomResourceDefinition, path: &str) -> Outcome {
        let name = wanted.name_any();
        let what = || format!("CustomResourceDefinition {name}");
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        let written = match self.definition(&name).await? {
            Some(existing) if existing.metadata.deletion_timestamp.is_some() => {
                return Err(WebhookError::Contended(what()));
            }
            Some(mut existing) => {
                if existing.spec.versions == wanted.spec.versions {
                    Ok(existing)
                } else {
                    existing.spec = wanted.spec;
                    api.replace(&name, &params, &existing).await
                }
            }
            None => api.create(&params, &wanted).await,
        };
        written.map_err(failed(what()))?;
        self.until(path).await
    }

    /// Deletes a CRD without objects, and waits until its kind is not served.
    async fn remove_definition(&self, name: &str) -> Outcome {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let what = || format!("removing CustomResourceDefinition {name}");
        match api.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            deleted => deleted.map(drop).map_err(failed(what()))?,
        }
        for _ in 0..LOOKS {
            if self.definition(name).await?.is_none() {
                return Ok(());
            }
            self.clock.sleep(LOOK).await;
        }
        Err(WebhookError::Contended(what()))
    }

    /// Waits until a list is answered.
    async fn until(&self, path: &str) -> Outcome {
        for _ in 0..LOOKS {
            let request = Request::get(format!("{path}?limit=1")).body(Body::empty());
            let request = request.map_err(|error| WebhookError::Certificate(error.to_string()))?;
            let answer = self.client.send(request).await.map_err(failed(format!("reading {path}")))?;
            if answer.status().is_success() {
                return Ok(());
            }
            self.clock.sleep(LOOK).await;
        }
        Err(WebhookError::Contended(format!("{path} is not served yet, and its definition")))
    }

    /// Takes the group from an aggregated API of ours; an error if somebody else serves it.
    async fn unregister(&self) -> Outcome {
        unregister(&self.client, API_SERVICE).await?;
        let api: Api<APIService> = Api::all(self.client.clone());
        let left = api.get_opt(API_SERVICE).await.map_err(failed(format!("APIService {API_SERVICE}")))?;
        match left.and_then(|left| left.spec).and_then(|spec| spec.service) {
            // What it shows may be stored where nobody here sees it.
            Some(_) => Err(WebhookError::Contended(format!(
                "APIService {API_SERVICE} of somebody else serves Clusters: delete it first; it"
            ))),
            None => Ok(()),
        }
    }

    /// Waits until the kube-apiserver has withdrawn the APIService of the group's CRD.
    async fn without_api_service(&self) -> Outcome {
        let api: Api<APIService> = Api::all(self.client.clone());
        let what = || format!("APIService {API_SERVICE}");
        for _ in 0..LOOKS {
            if api.get_opt(API_SERVICE).await.map_err(failed(what()))?.is_none() {
                return Ok(());
            }
            self.clock.sleep(LOOK).await;
        }
        Err(WebhookError::Contended(what()))
    }

    /// Gives the group of users by which this program passes requests on the right to what is stored.
    async fn let_server_write(&self) -> Outcome {
        const GROUP: &str = "rbac.authorization.k8s.io";
        let metadata = ObjectMeta { name: Some(STORED_USERS.to_owned()), ..ObjectMeta::default() };
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        let rule = PolicyRule {
            api_groups: Some(vec![STORED_GROUP.to_owned()]),
            resources: Some(vec!["clusters".to_owned(), "clusters/status".to_owned()]),
            verbs: vec!["*".to_owned()],
            ..PolicyRule::default()
        };
        let role = ClusterRole { metadata: metadata.clone(), rules: Some(vec![rule]), ..ClusterRole::default() };
        let users = Subject {
            api_group: Some(GROUP.to_owned()),
            kind: "Group".to_owned(),
            name: STORED_USERS.to_owned(),
            ..Subject::default()
        };
        let role_ref = RoleRef {
            api_group: Some(GROUP.to_owned()),
            kind: "ClusterRole".to_owned(),
            name: STORED_USERS.to_owned(),
        };
        let binding = ClusterRoleBinding { metadata, role_ref, subjects: Some(vec![users]) };
        let (roles, bindings): (Api<ClusterRole>, Api<ClusterRoleBinding>) =
            (Api::all(self.client.clone()), Api::all(self.client.clone()));
        for made in [roles.create(&params, &role).await.map(drop), bindings.create(&params, &binding).await.map(drop)] {
            match made {
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                made => made.map_err(failed(format!("ClusterRole {STORED_USERS} or its binding")))?,
            }
        }
        Ok(())
    }
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn uid(object: &Value) -> Option<String> {
    object["metadata"]["uid"].as_str().map(str::to_owned)
}
