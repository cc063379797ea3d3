//! Secrets of type `kubernetes.io/service-account-token`: filled with a token of the ServiceAccount that they name,
//! removed if it does not exist (specification/apiserver.md 19).
//!
//! ServiceAccounts are not watched: the token of a deleted account is rejected immediately, but its Secret remains
//! until it is written or the controllers restart.
//!
//! The token is bound to its Secret. It also expires after 136 years, which a token of kube-controller-manager does
//! not.

use std::sync::Arc;

use ironclad_runtime::{Api, Failure, Informer, Key, Next, Queue, Writer};
use k8s_openapi::{
    ByteString,
    api::{
        authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
        core::v1::{Secret, ServiceAccount},
    },
};
use kube::{
    Client, ResourceExt as _,
    api::{DeleteParams, PostParams, Preconditions},
};
use serde_json::json;

use crate::{Cluster, caches::TOKEN_SECRETS};

/// Type of the Secrets that this controller fills.
pub(crate) const SECRET_TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// Maximum validity of a TokenRequest, in seconds.
const SECONDS: i64 = 1 << 32;
const WORKERS: usize = 1;

#[derive(Debug, PartialEq, Eq)]
enum SecretAction {
    Nothing,
    /// Its account is absent or was replaced.
    Remove,
    /// Fill in the missing token, namespace or certificate.
    Fill,
}

fn decide(secret: &Secret, account: Option<&ServiceAccount>, certificate: Option<&str>) -> SecretAction {
    if secret.metadata.deletion_timestamp.is_some() {
        return SecretAction::Nothing;
    }
    let Some(account) = account else { return SecretAction::Remove };
    let uid = secret.annotations().get(ACCOUNT_UID).map(String::as_str);
    if uid.is_some() && uid != account.metadata.uid.as_deref() {
        return SecretAction::Remove;
    }
    let data = |key: &str| secret.data.as_ref().and_then(|d| d.get(key)).map(|bytes| bytes.0.as_slice());
    let has = |key: &str| data(key).is_some_and(|bytes| !bytes.is_empty());
    let stale = certificate.is_some_and(|pem| data("ca.crt") != Some(pem.as_bytes()));
    if uid.is_none() || !has("token") || !has("namespace") || stale {
        SecretAction::Fill
    } else {
        SecretAction::Nothing
    }
}

struct Controller {
    client: Client,
    secrets: Informer<Secret>,
    writer: Writer,
    certificate: Option<String>,
}

/// Starts the controller as tasks of the cluster's seam; `certificate` (PEM) is added to the Secrets.
pub(crate) fn start(cluster: &Cluster, certificate: Option<&str>) {
    let controller = Arc::new(Controller {
        client: cluster.client.clone(),
        secrets: cluster.caches.take(&TOKEN_SECRETS),
        writer: Writer::new("serviceaccount-token-controller"),
        certificate: certificate.map(str::to_owned),
    });
    let queue: Queue<Key> = cluster.queue("serviceaccount-token");
    let to = queue.clone();
    controller.secrets.on_change(move |change| {
        if let Some(secret) = &change.new {
            to.add(Key::of(&**secret));
        }
    });
    let ready = [controller.secrets.when_synced()];
    cluster.run("serviceaccount-token", queue, WORKERS, ready, move |key| {
        let controller = controller.clone();
        async move { controller.reconcile(&key).await }
    });
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(secret) = self.secrets.get_key(key) else { return Ok(Next::Forget) };
        let namespace = secret.namespace().unwrap_or_default();
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &namespace);
        let account = match secret.annotations().get(ACCOUNT_NAME) {
            Some(name) => accounts.get_opt(name).await?,
            None => None,
        };
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &namespace);
        match (decide(&secret, account.as_ref(), self.certificate.as_deref()), account) {
            (SecretAction::Remove, _) => {
                let preconditions = Preconditions { uid: secret.metadata.uid.clone(), resource_version: None };
                let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                match secrets.delete(&secret.name_any(), &params).await.map_err(Failure::from) {
                    Ok(_) | Err(Failure::NotFound(_)) => {}
                    Err(failure) => return Err(failure),
                }
            }
            (SecretAction::Fill, Some(account)) => self.fill(&secrets, &accounts, &secret, &account).await?,
            _ => {}
        }
        Ok(Next::Forget)
    }

    async fn fill(
        &self,
        secrets: &Api<Secret>,
        accounts: &Api<ServiceAccount>,
        secret: &Secret,
        account: &ServiceAccount,
    ) -> Result<(), Failure> {
        let bound = BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Secret".to_owned()),
            name: secret.metadata.name.clone(),
            uid: secret.metadata.uid.clone(),
        };
        let spec =
            TokenRequestSpec { expiration_seconds: Some(SECONDS), bound_object_ref: Some(bound), ..Default::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let answer = accounts.create_token_request(&account.name_any(), &PostParams::default(), &request).await?;
        let token = answer.status.and_then(|status| status.token).unwrap_or_default();
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        let mut data = json!({"token": bytes(&token), "namespace": bytes(&secret.namespace().unwrap_or_default())});
        if let Some(certificate) = &self.certificate {
            data["ca.crt"] = json!(bytes(certificate));
        }
        let patch = json!({"metadata": {"annotations": {ACCOUNT_UID: account.metadata.uid}}, "data": data});
        self.writer.patch(secrets, Some(&self.secrets), secret, patch).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn secret(uid: Option<&str>, data: &[(&str, &str)]) -> Secret {
        let data: serde_json::Map<String, Value> =
            data.iter().map(|(k, v)| ((*k).to_owned(), json!(ByteString(v.as_bytes().to_vec())))).collect();
        let mut annotations = json!({ACCOUNT_NAME: "s"});
        if let Some(uid) = uid {
            annotations[ACCOUNT_UID] = json!(uid);
        }
        serde_json::from_value(json!({"metadata": {"annotations": annotations}, "data": data})).unwrap()
    }

    #[test]
    fn actions_on_secrets() {
        let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "s", "uid": "u"}})).unwrap();
        let whole = [("token", "t"), ("namespace", "n"), ("ca.crt", "pem")];
        let mut going = secret(None, &[]);
        going.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
        for (name, secret, account, want) in [
            ("a new Secret", secret(None, &[]), Some(&account), SecretAction::Fill),
            ("a complete Secret", secret(Some("u"), &whole), Some(&account), SecretAction::Nothing),
            ("the token is missing", secret(Some("u"), &whole[1..]), Some(&account), SecretAction::Fill),
            (
                "a different root certificate",
                secret(Some("u"), &[whole[0], whole[1], ("ca.crt", "old")]),
                Some(&account),
                SecretAction::Fill,
            ),
            ("the account is absent", secret(Some("u"), &whole), None, SecretAction::Remove),
            ("a new account of the same name", secret(Some("former"), &whole), Some(&account), SecretAction::Remove),
            ("the Secret is being deleted", going, None, SecretAction::Nothing),
        ] {
            assert_eq!(decide(&secret, account, Some("pem")), want, "{name}");
        }
    }
}
