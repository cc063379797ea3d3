//! The account of `ironclad run`, with the rights that its manifests give it, in place of an administrator's.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use ironclad_cli::manifests::{Release, Values, objects};
use serde_json::{Value, json};

use super::{Kubectl, RealEnv};

/// Namespace of the account.
const NAMESPACE: &str = "ironclad-system";
const NAME: &str = "ironclad";

impl RealEnv {
    /// Makes the account of `run` in the control plane, as `ironclad manifests --mode external` does. Returns the path
    /// of a kubeconfig with a token of it.
    pub async fn account(&self) -> anyhow::Result<String> {
        self.account_with("{}").await
    }

    /// The same with values for section `external` of the manifests.
    pub async fn account_with(&self, external: &str) -> anyhow::Result<String> {
        let text = format!("{{mode: external, external: {external}}}");
        let values = Values::new(&[("account".to_owned(), text)], &[])?;
        let release = Release { name: NAME.to_owned(), namespace: NAMESPACE.to_owned(), values };
        let mut wanted = objects(&release).map_err(anyhow::Error::msg)?;
        wanted.retain(|object| {
            let kind = object["kind"].as_str().unwrap_or_default();
            ["Namespace", "ServiceAccount"].contains(&kind) || object["apiVersion"] == "rbac.authorization.k8s.io/v1"
        });
        let kubectl = self.plane().kubectl();
        kubectl.apply(&json!({"apiVersion": "v1", "kind": "List", "items": wanted}).to_string()).await?;
        let directory = self.directory();
        let path = as_account(kubectl, (NAMESPACE, NAME), &self.plane().kubeconfig(), &directory).await?;
        Ok(path.display().to_string())
    }
}

/// Writes `account.kubeconfig` into the directory: the server of an administrator's kubeconfig, and a token of this
/// ServiceAccount in this namespace. Returns its path.
pub async fn as_account(
    kubectl: &Kubectl,
    (namespace, account): (&str, &str),
    admins: &Path,
    directory: &Path,
) -> anyhow::Result<PathBuf> {
    let token = kubectl.run(["create", "token", account, "-n", namespace]).await?;
    let mut own: Value = serde_saphyr::from_str(&fs::read_to_string(admins)?)?;
    let user = own["users"][0]["name"].clone();
    own["users"] = json!([{"name": user, "user": {"token": token.trim()}}]);
    let path = directory.join("account.kubeconfig");
    fs::write(&path, own.to_string()).with_context(|| path.display().to_string())?;
    Ok(path)
}
