//! Requests for objects of one kind. Everything below the types is compiled once: a request is bytes, and so is its
//! answer.

use std::{fmt, marker::PhantomData};

use bytes::Bytes;
use futures::{AsyncBufRead, TryStreamExt as _, future::BoxFuture};
use http_body_util::BodyExt as _;
use ironclad_kinds::{Encode, Object};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        authentication::v1::TokenRequest,
        autoscaling::v1::Scale,
        core::v1::{Pod, ServiceAccount},
    },
    apimachinery::pkg::apis::meta::v1::ListMeta,
};
use kube::{
    Client, Error, Resource, Result,
    api::{
        DeleteParams, GetParams, ListParams, LogParams, ObjectList, PartialObjectMeta, Patch, PatchParams, PostParams,
        TypeMeta,
    },
    client::Body,
    core::{DynamicResourceScope, ObjectMeta, Request, Status, request::Error as RequestError},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// An HTTP request whose body is bytes, or why it can't be made.
pub(crate) type Built = Result<http::Request<Vec<u8>>, RequestError>;

/// Requests for objects of one kind: of one namespace, or of all. Cheap to clone.
pub struct Api<K> {
    client: Client,
    request: Request,
    /// True for a kind of which only metadata is wanted.
    only_metadata: bool,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Api<K> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            request: self.request.clone(),
            only_metadata: self.only_metadata,
            kind: PhantomData,
        }
    }
}

impl<K> fmt::Debug for Api<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("url", &self.resource_url()).finish_non_exhaustive()
    }
}

impl<K> Api<K> {
    /// Path of the kind, with the namespace.
    #[must_use]
    pub fn resource_url(&self) -> &str {
        &self.request.url_path
    }

    /// The client.
    #[must_use]
    pub fn into_client(self) -> Client {
        self.client
    }

    /// The client.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn request(&self) -> &Request {
        &self.request
    }

    pub(crate) fn only_metadata(&self) -> bool {
        self.only_metadata
    }

    fn send(&self, request: Built) -> BoxFuture<'_, Result<Bytes>> {
        call(&self.client, request)
    }
}

/// Where an API looks for objects: a kind known when the program runs has its names with it.
impl<K: Resource> Api<K> {
    fn new(client: Client, names: &K::DynamicType, namespace: Option<&str>) -> Self {
        Self {
            client,
            request: Request::new(K::url_path(names, namespace)),
            only_metadata: K::metadata_api(),
            kind: PhantomData,
        }
    }

    /// Objects without a namespace, or of all namespaces, of a kind with these names.
    #[must_use]
    pub fn all_with(client: Client, names: &K::DynamicType) -> Self {
        Self::new(client, names, None)
    }

    /// Objects of one namespace, of a kind with these names.
    #[must_use]
    pub fn namespaced_with(client: Client, namespace: &str, names: &K::DynamicType) -> Self
    where
        K: Resource<Scope = DynamicResourceScope>,
    {
        Self::new(client, names, Some(namespace))
    }

    /// Objects without a namespace, or of all namespaces.
    #[must_use]
    pub fn all(client: Client) -> Self
    where
        K::DynamicType: Default,
    {
        Self::new(client, &K::DynamicType::default(), None)
    }

    /// Objects of one namespace.
    #[must_use]
    pub fn namespaced(client: Client, namespace: &str) -> Self
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Self::new(client, &K::DynamicType::default(), Some(namespace))
    }

    /// Objects of the client's default namespace.
    #[must_use]
    pub fn default_namespaced(client: Client) -> Self
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        let namespace = client.default_namespace().to_owned();
        Self::namespaced(client, &namespace)
    }
}

impl<K: Object> Api<K> {
    /// Reads an object.
    ///
    /// # Errors
    /// The server's refusal, 404 if there is no such object, or no answer.
    pub async fn get(&self, name: &str) -> Result<K> {
        let params = GetParams::default();
        let request = match self.only_metadata {
            true => self.request.get_metadata(name, &params),
            false => self.request.get(name, &params),
        };
        decoded(self.send(request).await)
    }

    /// Reads an object; `None` if there is no such object.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn get_opt(&self, name: &str) -> Result<Option<K>> {
        found(self.get(name).await)
    }

    /// Lists objects.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn list(&self, params: &ListParams) -> Result<ObjectList<K>> {
        let request = match self.only_metadata {
            true => self.request.list_metadata(params),
            false => self.request.list(params),
        };
        let answer = self.send(request).await?;
        let list = List::read(&answer)?;
        let items: Result<Vec<K>> = list.items().map(|item| K::decode(item).map_err(Error::SerdeError)).collect();
        let types = list.types();
        Ok(ObjectList { items: items?, metadata: list.metadata, types })
    }

    /// Patches an object.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn patch<P: Serialize>(&self, name: &str, params: &PatchParams, patch: &Patch<P>) -> Result<K> {
        decoded(self.send(self.request.patch(name, params, patch)).await)
    }

    /// Patches the status of an object.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn patch_status<P: Serialize>(&self, name: &str, params: &PatchParams, patch: &Patch<P>) -> Result<K> {
        self.patch_subresource("status", name, params, patch).await
    }

    /// Patches a subresource that is answered with the object.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn patch_subresource<P: Serialize>(
        &self,
        subresource: &str,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        decoded(self.send(self.request.patch_subresource(subresource, name, params, patch)).await)
    }
}

impl<K: Encode> Api<K> {
    /// Creates an object.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn create(&self, params: &PostParams, object: &K) -> Result<K> {
        self.create_json(params, encoded(object)?).await
    }

    pub(crate) async fn create_json(&self, params: &PostParams, json: Vec<u8>) -> Result<K> {
        decoded(self.send(self.request.create(params, json)).await)
    }

    /// Replaces an object.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn replace(&self, name: &str, params: &PostParams, object: &K) -> Result<K> {
        decoded(self.send(self.request.replace(name, params, encoded(object)?)).await)
    }

    /// Replaces the status of an object.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn replace_status(&self, name: &str, params: &PostParams, object: &K) -> Result<K> {
        self.replace_subresource("status", name, params, object).await
    }

    /// Replaces a subresource that is answered with the object.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn replace_subresource(
        &self,
        subresource: &str,
        name: &str,
        params: &PostParams,
        object: &K,
    ) -> Result<K> {
        let request = self.request.replace_subresource(subresource, name, params, encoded(object)?);
        decoded(self.send(request).await)
    }
}

/// Requests whose answers do not depend on the kind.
impl<K> Api<K> {
    /// Deletes an object.
    ///
    /// # Errors
    /// The server's refusal, 404 if there is no such object, or no answer.
    pub async fn delete(&self, name: &str, params: &DeleteParams) -> Result<Deleted> {
        let answer = self.send(self.request.delete(name, params)).await?;
        let answer: TypeMeta = serde_json::from_slice(&answer).map_err(Error::SerdeError)?;
        Ok(if answer.kind == "Status" { Deleted::Gone } else { Deleted::Waits })
    }

    /// Deletes the objects of a list.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn delete_collection(&self, params: &DeleteParams, list: &ListParams) -> Result<()> {
        self.send(self.request.delete_collection(params, list)).await.map(drop)
    }

    /// Reads the metadata of an object.
    ///
    /// # Errors
    /// As [`Api::get`].
    pub async fn get_metadata(&self, name: &str) -> Result<PartialObjectMeta<K>> {
        decode(&self.send(self.request.get_metadata(name, &GetParams::default())).await?).map(Metadata::of)
    }

    /// Reads the metadata of an object; `None` if there is no such object.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn get_metadata_opt(&self, name: &str) -> Result<Option<PartialObjectMeta<K>>> {
        found(self.get_metadata(name).await)
    }

    /// Lists the metadata of objects.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn list_metadata(&self, params: &ListParams) -> Result<ObjectList<PartialObjectMeta<K>>>
    where
        K: Clone,
    {
        let answer = self.send(self.request.list_metadata(params)).await?;
        let list = List::read(&answer)?;
        let items: Result<Vec<_>> = list.items().map(|item| decode(item).map(Metadata::of)).collect();
        let types = list.types();
        Ok(ObjectList { items: items?, metadata: list.metadata, types })
    }

    /// Patches the metadata of an object.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn patch_metadata<P: Serialize>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<PartialObjectMeta<K>> {
        decode(&self.send(self.request.patch_metadata(name, params, patch)).await?).map(Metadata::of)
    }

    /// Reads the scale of an object.
    ///
    /// # Errors
    /// The server's refusal, 404 if there is no such object or it has no scale, or no answer.
    pub async fn get_scale(&self, name: &str) -> Result<Scale> {
        decode(&self.send(self.request.get_subresource("scale", name)).await?)
    }

    /// Patches the scale of an object.
    ///
    /// # Errors
    /// As [`Api::get_scale`].
    pub async fn patch_scale<P: Serialize>(&self, name: &str, params: &PatchParams, patch: &Patch<P>) -> Result<Scale> {
        decode(&self.send(self.request.patch_subresource("scale", name, params, patch)).await?)
    }
}

impl Api<ServiceAccount> {
    /// Asks for a token of a service account.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn create_token_request(
        &self,
        name: &str,
        params: &PostParams,
        request: &TokenRequest,
    ) -> Result<TokenRequest> {
        let json = serde_json::to_vec(request).map_err(Error::SerdeError)?;
        decode(&self.send(self.request.create_subresource("token", name, params, json)).await?)
    }
}

impl Api<Pod> {
    /// Reads the log of a container, which may go on for ever.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn log_stream(&self, name: &str, params: &LogParams) -> Result<impl AsyncBufRead + use<>> {
        let response = open(&self.client, self.request.logs(name, params)).await?;
        let body = response.into_body().into_data_stream();
        Ok(body.map_err(std::io::Error::other).into_async_read())
    }
}

/// State of an object after its delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// Nothing: the object was removed.
    Gone,
    /// The object, which waits for its finalizers.
    Waits,
}

/// Answer with the metadata of an object of any kind.
#[derive(Deserialize)]
struct Metadata {
    #[serde(flatten)]
    types: Option<TypeMeta>,
    #[serde(default)]
    metadata: ObjectMeta,
}

impl Metadata {
    fn of<K>(self) -> PartialObjectMeta<K> {
        PartialObjectMeta { types: self.types, metadata: self.metadata, _phantom: PhantomData }
    }
}

/// A list whose items are not decoded yet.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct List<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    /// The version of the list, and the token of its next page.
    #[serde(default)]
    pub(crate) metadata: ListMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

impl<'a> List<'a> {
    pub(crate) fn read(answer: &'a [u8]) -> Result<Self> {
        decode(answer)
    }

    /// The items as JSON.
    pub(crate) fn items(&self) -> impl Iterator<Item = &'a [u8]> {
        self.items.iter().flatten().map(|item| item.get().as_bytes())
    }

    fn types(&self) -> TypeMeta {
        TypeMeta { api_version: self.api_version.clone(), kind: self.kind.clone() }
    }
}

fn decode<'a, T: Deserialize<'a>>(answer: &'a [u8]) -> Result<T> {
    serde_json::from_slice(answer).map_err(Error::SerdeError)
}

fn decoded<K: Object>(answer: Result<Bytes>) -> Result<K> {
    K::decode(&answer?).map_err(Error::SerdeError)
}

fn encoded<K: Encode>(object: &K) -> Result<Vec<u8>> {
    object.encode().map_err(Error::SerdeError)
}

fn found<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Err(Error::Api(status)) if status.is_not_found() => Ok(None),
        other => other.map(Some),
    }
}

/// Sends a request and reads the whole answer.
pub(crate) fn call(client: &Client, request: Built) -> BoxFuture<'_, Result<Bytes>> {
    Box::pin(async move {
        let response = open(client, request).await?;
        Ok(response.into_body().collect().await?.to_bytes())
    })
}

/// Sends a request and returns the answer before its body is read, unless it is a refusal.
pub(crate) fn open(client: &Client, request: Built) -> BoxFuture<'_, Result<http::Response<Body>>> {
    Box::pin(async move {
        let request = request.map_err(Error::BuildRequest)?;
        let response = client.send(request.map(Body::from)).await?;
        let code = response.status();
        if !code.is_client_error() && !code.is_server_error() {
            return Ok(response);
        }
        let body = response.into_body().collect().await?.to_bytes();
        // Proxies and paths that are not served answer with other texts than a Status.
        let status = serde_json::from_slice(&body).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&body);
            Status::failure(text.trim(), "Failed to parse error data").with_code(code.as_u16())
        });
        Err(Error::Api(Box::new(status)))
    })
}
