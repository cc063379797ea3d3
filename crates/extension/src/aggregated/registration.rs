//! Registration of APIs behind a kube-apiserver: a Service, and an APIService for each version.

use ironclad_api::{labels, namespaces};
use ironclad_runtime::Api;
use k8s_openapi::{
    ByteString,
    api::core::v1::{Service, ServicePort, ServiceSpec},
    kube_aggregator::pkg::apis::apiregistration::v1::{APIService, APIServiceSpec, ServiceReference},
};
use kube::{
    Client, ResourceExt as _,
    api::{DeleteParams, ObjectMeta, PostParams},
};

use super::ServedVersion;
use crate::admission::{WebhookError, covers, failed};

/// The Service by which a kube-apiserver finds a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerService {
    /// One that exists.
    Named { namespace: String, name: String, port: u16 },
    /// One of type ExternalName that is made for this host and port.
    Made { host: String, port: u16 },
}

impl ServerService {
    /// The reference in APIServices of a server of this name.
    fn reference(&self, server: &str) -> ServiceReference {
        let (namespace, name, port) = match self {
            Self::Named { namespace, name, port } => (namespace.as_str(), name.as_str(), *port),
            Self::Made { port, .. } => (namespaces::SYSTEM, server, *port),
        };
        ServiceReference {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            port: Some(i32::from(port)),
        }
    }

    /// The name that the certificate must have.
    pub(super) fn host_name(&self, server: &str) -> String {
        let reference = self.reference(server);
        format!("{}.{}.svc", reference.name.unwrap_or_default(), reference.namespace.unwrap_or_default())
    }
}

/// The state of a registered version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Registered {
    /// The kube-apiserver reaches us.
    Available,
    /// It does not yet, or no more.
    Unavailable(String),
    /// Somebody else serves this version: nothing was written.
    Foreign,
}

/// Makes the Service what it should be, if it is ours.
pub(super) async fn register_service(
    client: &Client,
    server: &'static str,
    service: &ServerService,
) -> Result<(), WebhookError> {
    let ServerService::Made { host, port } = service else { return Ok(()) };
    let what = || format!("Service {}/{server}", namespaces::SYSTEM);
    let api: Api<Service> = Api::namespaced(client.clone(), namespaces::SYSTEM);
    let spec = ServiceSpec {
        type_: Some("ExternalName".to_owned()),
        external_name: Some(host.clone()),
        ports: Some(vec![ServicePort {
            name: Some("https".to_owned()),
            port: i32::from(*port),
            ..ServicePort::default()
        }]),
        ..ServiceSpec::default()
    };
    let params = PostParams { field_manager: Some(server.into()), ..PostParams::default() };
    let written = match api.get_opt(server).await.map_err(failed(what()))? {
        Some(mut existing) => {
            let json = |spec: &ServiceSpec| serde_json::to_value(spec).unwrap_or_default();
            if existing.spec.as_ref().is_some_and(|is| covers(&json(is), &json(&spec))) {
                return Ok(());
            }
            existing.spec = Some(spec);
            api.replace(server, &params, &existing).await
        }
        None => {
            let metadata = ObjectMeta {
                name: Some(server.to_owned()),
                labels: Some([(labels::SYSTEM.to_owned(), labels::TRUE.to_owned())].into()),
                ..ObjectMeta::default()
            };
            api.create(&params, &Service { metadata, spec: Some(spec), ..Service::default() }).await
        }
    };
    match written {
        // Another replica was first.
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(()),
        done => done.map(drop).map_err(failed(what())),
    }
}

/// Makes the APIService of a version what it should be, unless somebody else serves that version.
pub(super) async fn register_version(
    client: &Client,
    server: &'static str,
    version: ServedVersion,
    service: &ServerService,
    bundle: &str,
) -> Result<Registered, WebhookError> {
    let wanted = api_service(version, service.reference(server), bundle);
    let (api, name): (Api<APIService>, String) = (Api::all(client.clone()), wanted.name_any());
    let what = || format!("APIService {name}");
    let params = PostParams { field_manager: Some(server.into()), ..PostParams::default() };
    let written = match api.get_opt(&name).await.map_err(failed(what()))? {
        Some(existing) if !is_ours(&existing) => return Ok(Registered::Foreign),
        Some(mut existing) => {
            let json = |of: &APIService| serde_json::to_value(&of.spec).unwrap_or_default();
            if covers(&json(&existing), &json(&wanted)) {
                return Ok(availability(&existing));
            }
            existing.spec = wanted.spec;
            api.replace(&name, &params, &existing).await
        }
        None => api.create(&params, &wanted).await,
    };
    match written {
        Ok(_) => Ok(Registered::Unavailable("it was not asked yet".to_owned())),
        // Another replica was first.
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
            Ok(Registered::Unavailable("it was just written".to_owned()))
        }
        Err(error) => Err(failed(what())(error)),
    }
}

/// Deletes the APIService of a version, if it is ours.
pub(super) async fn unregister_version(client: &Client, version: ServedVersion) -> Result<(), WebhookError> {
    unregister(client, &name_of(version)).await
}

/// Deletes an APIService, if it is ours.
pub(crate) async fn unregister(client: &Client, name: &str) -> Result<(), WebhookError> {
    let api: Api<APIService> = Api::all(client.clone());
    let what = || format!("APIService {name}");
    match api.get_opt(name).await.map_err(failed(what()))? {
        Some(existing) if is_ours(&existing) => {
            let uid = existing.metadata.uid.clone();
            let preconditions = kube::api::Preconditions { uid, resource_version: None };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match api.delete(name, &params).await {
                Err(kube::Error::Api(status)) if status.code == 404 || status.is_conflict() => Ok(()),
                done => done.map(drop).map_err(failed(what())),
            }
        }
        _ => Ok(()),
    }
}

fn name_of(version: ServedVersion) -> String {
    format!("{}.{}", version.version, version.group)
}

fn is_ours(existing: &APIService) -> bool {
    existing.labels().get(labels::SYSTEM).is_some_and(|value| value == labels::TRUE)
}

fn availability(existing: &APIService) -> Registered {
    let conditions = existing.status.iter().flat_map(|status| status.conditions.iter().flatten());
    match conditions.into_iter().find(|condition| condition.type_ == "Available") {
        Some(condition) if condition.status == "True" => Registered::Available,
        Some(condition) => Registered::Unavailable(condition.message.clone().unwrap_or_default()),
        None => Registered::Unavailable("it was not asked yet".to_owned()),
    }
}

fn api_service(version: ServedVersion, service: ServiceReference, bundle: &str) -> APIService {
    let (group_priority, version_priority) = version.priority;
    let number = |priority: u32| i32::try_from(priority).unwrap_or(i32::MAX);
    APIService {
        metadata: ObjectMeta {
            name: Some(name_of(version)),
            labels: Some([(labels::SYSTEM.to_owned(), labels::TRUE.to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(APIServiceSpec {
            group: Some(version.group.to_owned()),
            version: Some(version.version.to_owned()),
            group_priority_minimum: number(group_priority),
            version_priority: number(version_priority),
            ca_bundle: Some(ByteString(bundle.as_bytes().to_vec())),
            service: Some(service),
            insecure_skip_tls_verify: None,
        }),
        status: None,
    }
}
