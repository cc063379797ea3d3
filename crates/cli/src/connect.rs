//! Servers and identity that a verb uses.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context as _;
use ironclad_runtime::{Traffic, client_config, client_from_kubeconfig};
use kube::{
    Client, Config,
    config::{Kubeconfig, KubeconfigError},
};

/// The control plane. The flags of Karmada are understood too, before and after the name of a verb of a verb (`sim
/// down`).
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Control plane")]
pub struct Plane {
    /// Kubeconfig of the control plane [default: $KUBECONFIG, then ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context in that kubeconfig [default: its current context]
    #[arg(long, global = true, alias = "karmada-context", value_name = "NAME")]
    pub context: Option<String>,
    /// Act as this user
    #[arg(long = "as", global = true, alias = "karmada-as", value_name = "USER")]
    pub as_user: Option<String>,
    /// Act as a member of this group (repeatable)
    #[arg(long = "as-group", global = true, alias = "karmada-as-group", value_name = "GROUP", requires = "as_user")]
    pub as_groups: Vec<String>,
    /// Act as this uid
    #[arg(long = "as-uid", global = true, alias = "karmada-as-uid", value_name = "UID", requires = "as_user")]
    pub as_uid: Option<String>,
}

impl Plane {
    /// The kubeconfig, whose users impersonate whom the flags name. Members that it has contexts for are asked as that
    /// user, too.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn kubeconfig(&self) -> anyhow::Result<Kubeconfig> {
        let mut kubeconfig = read(self.kubeconfig.as_ref())?;
        for user in &mut kubeconfig.auth_infos {
            let info = user.auth_info.get_or_insert_default();
            if let Some(name) = &self.as_user {
                info.impersonate = Some(name.clone());
                info.impersonate_groups = (!self.as_groups.is_empty()).then(|| self.as_groups.clone());
                info.impersonate_uid.clone_from(&self.as_uid);
                info.impersonate_user_extra = None;
            }
        }
        Ok(kubeconfig)
    }

    /// A client.
    ///
    /// # Errors
    /// If the kubeconfig can't be read, or its credentials can't be used.
    pub async fn client(&self) -> anyhow::Result<Client> {
        client(config(self.kubeconfig()?, self.context.as_deref(), "control plane").await?)
    }
}

/// A kubeconfig file, or where kubectl looks if none is named.
///
/// # Errors
/// If it can't be read.
pub fn read(file: Option<&PathBuf>) -> anyhow::Result<Kubeconfig> {
    match file {
        Some(file) => Kubeconfig::read_from(file).with_context(|| {
            format!(
                "kubeconfig {} can't be read\n  try: a file that `kubectl --kubeconfig FILE version` accepts",
                file.display()
            )
        }),
        None => Kubeconfig::read()
            .context("no kubeconfig was found\n  try: --kubeconfig FILE, or KUBECONFIG=FILE in the environment"),
    }
}

/// The client configuration of one context. `whose` says in messages which side it is.
///
/// # Errors
/// If there is no such context, or it is incomplete.
pub async fn config(kubeconfig: Kubeconfig, context: Option<&str>, whose: &str) -> anyhow::Result<Config> {
    let names: Vec<_> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    client_config(kubeconfig, context).await.map_err(|error| {
        let remedy = match &error {
            KubeconfigError::LoadContext(_) | KubeconfigError::CurrentContextNotSet => {
                format!("\n  try: one of the contexts {}", names.join(", "))
            }
            _ => String::new(),
        };
        anyhow::Error::new(error).context(format!("the kubeconfig of the {whose} can't be used{remedy}"))
    })
}

/// A client over the network.
///
/// # Errors
/// If the credentials can't be used.
pub fn client(config: Config) -> anyhow::Result<Client> {
    Ok(client_from_kubeconfig(config, Arc::new(Traffic::default()))?)
}
