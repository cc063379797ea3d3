//! Servers and identity that a verb uses.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use ironclad_runtime::{client_config, client_from_kubeconfig};
use kube::{
    Client, Config,
    config::{AuthInfo, Kubeconfig, KubeconfigError, NamedAuthInfo, NamedCluster, NamedContext},
};
use secrecy::SecretString;

use crate::{
    asked::{self, Asked},
    warnings,
};

/// The control plane. The flags of Karmada are understood too, before and after the name of a verb of a verb (`sim
/// down`).
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Control plane")]
pub struct Plane {
    /// Kubeconfig of the control plane [default: $KUBECONFIG, then ~/.kube/config, then the Pod's service account]
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context in that kubeconfig [default: its current context]
    #[arg(long, global = true, alias = "karmada-context", value_name = "NAME")]
    pub context: Option<String>,
    /// User in that kubeconfig [default: the context's]
    #[arg(long, global = true, value_name = "NAME")]
    pub user: Option<String>,
    /// Address of the control plane [default: the kubeconfig's]
    #[arg(long, global = true, value_name = "URL")]
    pub server: Option<String>,
    /// Bearer token [default: the kubeconfig's credentials]
    #[arg(long, global = true, value_name = "TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Do not verify the control plane's certificate: whoever answers gets the credentials
    #[arg(long, global = true)]
    pub insecure_skip_tls_verify: bool,
    /// Act as this user
    #[arg(long = "as", global = true, alias = "karmada-as", value_name = "USER")]
    pub as_user: Option<String>,
    /// Act as a member of this group (repeatable)
    #[arg(long = "as-group", global = true, alias = "karmada-as-group", value_name = "GROUP", requires = "as_user")]
    pub as_groups: Vec<String>,
    /// Act as this uid
    #[arg(long = "as-uid", global = true, alias = "karmada-as-uid", value_name = "UID", requires = "as_user")]
    pub as_uid: Option<String>,
    /// Timeout for an answer of the control plane; 0 for the default [default: 32s]
    #[arg(long, global = true, value_parser = crate::duration, value_name = "TIME")]
    pub request_timeout: Option<Duration>,
    /// Fail if a server sent a warning
    #[arg(long, global = true)]
    pub warnings_as_errors: bool,
    /// A kubeconfig that takes the place of files: of a user for whom another program asks.
    #[arg(skip)]
    pub given: Option<Arc<Kubeconfig>>,
}

impl Plane {
    /// The kubeconfig, whose users impersonate whom the flags name. Members that it has contexts for are asked as that
    /// user, too.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn kubeconfig(&self) -> anyhow::Result<Kubeconfig> {
        let mut kubeconfig = match &self.given {
            Some(given) => Kubeconfig::clone(given),
            None => read(self.kubeconfig.as_ref())?,
        };
        if let Some(name) = self.context.clone().or_else(|| kubeconfig.current_context.clone()) {
            self.override_context(&mut kubeconfig, &name);
            kubeconfig.current_context = Some(name);
        }
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

    /// Applies `--user`, `--server`, `--token` and `--insecure-skip-tls-verify` to a context: it gets a cluster and a
    /// user of its own, as other contexts may share the ones that it names.
    fn override_context(&self, kubeconfig: &mut Kubeconfig, name: &str) {
        let named = kubeconfig.contexts.iter_mut().find(|context| context.name == name);
        let Some(context) = named.and_then(|context| context.context.as_mut()) else { return };
        if let Some(user) = &self.user {
            context.user = Some(user.clone());
        }
        if self.server.is_some() || self.insecure_skip_tls_verify {
            let known = kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster);
            let mut cluster = known.and_then(|known| known.cluster.clone()).unwrap_or_default();
            if let Some(server) = &self.server {
                cluster.server = Some(server.clone());
            }
            if self.insecure_skip_tls_verify {
                cluster.insecure_skip_tls_verify = Some(true);
                (cluster.certificate_authority, cluster.certificate_authority_data) = (None, None);
            }
            context.cluster = format!("{} of flags", context.cluster);
            kubeconfig.clusters.push(NamedCluster {
                name: context.cluster.clone(),
                cluster: Some(cluster),
                other: Default::default(),
            });
        }
        if let Some(token) = &self.token {
            let info = AuthInfo { token: Some(SecretString::from(token.clone())), ..AuthInfo::default() };
            let user = format!("{} of flags", context.user.clone().unwrap_or_default());
            context.user = Some(user.clone());
            kubeconfig.auth_infos.push(NamedAuthInfo { name: user, auth_info: Some(info), other: Default::default() });
        }
    }

    /// A client.
    ///
    /// # Errors
    /// If the kubeconfig can't be read, or its credentials can't be used.
    pub async fn client(&self) -> anyhow::Result<Client> {
        if self.warnings_as_errors {
            warnings::take_as_errors();
        }
        let kubeconfig = self.kubeconfig()?;
        let context = self.context.clone().or_else(|| kubeconfig.current_context.clone()).unwrap_or_default();
        let mut config = config(kubeconfig, self.context.as_deref(), "control plane").await?;
        config.read_timeout = self.request_timeout.filter(|timeout| !timeout.is_zero());
        if self.given.is_some() {
            // Errors and warnings of one user are not explained by what another one asked.
            return Ok(client_from_kubeconfig(config, Arc::default())?);
        }
        let traffic = warnings::printing();
        asked::remember(Asked {
            server: config.cluster_url.to_string().trim_end_matches('/').to_owned(),
            kubeconfig: self.source(),
            context,
            traffic: traffic.clone(),
        });
        Ok(client_from_kubeconfig(config, traffic)?)
    }

    /// The kubeconfig in words.
    fn source(&self) -> String {
        let variable = || env::var_os("KUBECONFIG").filter(|files| !files.is_empty());
        match (&self.kubeconfig, variable()) {
            (Some(file), _) => format!("kubeconfig {}", file.display()),
            (None, Some(files)) => format!("kubeconfig {}", files.display()),
            (None, None) => "the default kubeconfig".to_owned(),
        }
    }
}

/// A kubeconfig file. If none is named, what kubectl uses: the files of `$KUBECONFIG` that exist, else
/// `~/.kube/config`, else the service account of the Pod that this process runs in.
///
/// # Errors
/// If a file can't be read, or there is none.
pub fn read(file: Option<&PathBuf>) -> anyhow::Result<Kubeconfig> {
    match file {
        Some(file) => Kubeconfig::read_from(file).with_context(|| {
            format!(
                "kubeconfig {} can't be read\n  try: a file that `kubectl --kubeconfig FILE version` accepts",
                file.display()
            )
        }),
        None => default_kubeconfig(env::var_os("KUBECONFIG"), env::home_dir(), Path::new(SERVICE_ACCOUNT)),
    }
}

/// Directory of a Pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

fn default_kubeconfig(variable: Option<OsString>, home: Option<PathBuf>, account: &Path) -> anyhow::Result<Kubeconfig> {
    let named: Vec<PathBuf> =
        variable.iter().flat_map(env::split_paths).filter(|p| !p.as_os_str().is_empty()).collect();
    let files = if named.is_empty() { home.map(|home| home.join(".kube/config")).into_iter().collect() } else { named };
    let mut merged: Option<Kubeconfig> = None;
    for file in files.iter().filter(|file| file.exists()) {
        let next = read(Some(file))?;
        merged = Some(match merged {
            None => next,
            Some(first) => first.merge(next).with_context(|| format!("kubeconfig {}", file.display()))?,
        });
    }
    if let Some(merged) = merged {
        return Ok(merged);
    }
    if account.join("token").exists()
        && let (Ok(host), Ok(port)) = (env::var("KUBERNETES_SERVICE_HOST"), env::var("KUBERNETES_SERVICE_PORT"))
    {
        return Ok(in_cluster(&host, &port, account));
    }
    let searched: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    bail!(
        "no kubeconfig was found\n  because there is no file {}\n  try: --kubeconfig FILE, or KUBECONFIG=FILE in the environment",
        searched.join(", ")
    )
}

/// The kubeconfig of a Pod: its token is read again as it is renewed.
fn in_cluster(host: &str, port: &str, account: &Path) -> Kubeconfig {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let path = |name: &str| account.join(name).display().to_string();
    let cluster = kube::config::Cluster {
        server: Some(format!("https://{host}:{port}")),
        certificate_authority: Some(path("ca.crt")),
        ..kube::config::Cluster::default()
    };
    let name = "in-cluster".to_owned();
    let namespace = std::fs::read_to_string(account.join("namespace")).ok();
    let context = kube::config::Context {
        cluster: name.clone(),
        user: Some(name.clone()),
        namespace,
        ..kube::config::Context::default()
    };
    let user = AuthInfo { token_file: Some(path("token")), ..AuthInfo::default() };
    Kubeconfig {
        clusters: vec![NamedCluster { name: name.clone(), cluster: Some(cluster), other: Default::default() }],
        auth_infos: vec![NamedAuthInfo { name: name.clone(), auth_info: Some(user), other: Default::default() }],
        contexts: vec![NamedContext { name: name.clone(), context: Some(context), other: Default::default() }],
        current_context: Some(name),
        ..Kubeconfig::default()
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

/// A client over the network, whose servers' warnings are printed.
///
/// # Errors
/// If the credentials can't be used.
pub fn client(config: Config) -> anyhow::Result<Client> {
    Ok(client_from_kubeconfig(config, warnings::printing())?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn file(folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: {name}, cluster: {{server: \"https://{name}:6443\"}}}}]\n\
             users: [{{name: {name}, user: {{token: t}}}}]\n\
             contexts: [{{name: {name}, context: {{cluster: {name}, user: {name}}}}}]\ncurrent-context: {name}\n"
        );
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn kubeconfigs_are_looked_for_where_kubectl_looks() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b, missing) = (file(folder.path(), "a"), file(folder.path(), "b"), folder.path().join("missing"));
        fs::create_dir(folder.path().join(".kube")).unwrap();
        fs::copy(&a, folder.path().join(".kube/config")).unwrap();
        let (home, nobody) = (Some(folder.path().to_owned()), Some(missing.clone()));
        for (name, files, home, want) in [
            ("one file", vec![&a], &home, "a: a"),
            ("a missing file is skipped", vec![&missing, &b], &home, "b: b"),
            ("several are merged, and the first decides", vec![&b, &missing, &a], &home, "b: b a"),
            ("without the variable the home directory", vec![], &home, "a: a"),
            ("not if the variable names files", vec![&missing], &home, "none"),
            ("none at all", vec![], &nobody, "none"),
        ] {
            let variable = (!files.is_empty()).then(|| env::join_paths(files).unwrap());
            let got = match default_kubeconfig(variable, home.clone(), &missing) {
                Ok(found) => {
                    let contexts: Vec<&str> = found.contexts.iter().map(|context| &*context.name).collect();
                    format!("{}: {}", found.current_context.unwrap_or_default(), contexts.join(" "))
                }
                Err(error) => {
                    error.to_string().lines().next().unwrap_or_default().replace("no kubeconfig was found", "none")
                }
            };
            assert_eq!(got, want, "{name}");
        }
    }

    #[tokio::test]
    async fn flags_override_the_context_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let plane = Plane {
            kubeconfig: Some(file(folder.path(), "a")),
            server: Some("https://other:7443".into()),
            token: Some("secret".into()),
            insecure_skip_tls_verify: true,
            ..Plane::default()
        };
        let kubeconfig = plane.kubeconfig().unwrap();
        let config = config(kubeconfig.clone(), None, "control plane").await.unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://other:7443/");
        assert!(config.accept_invalid_certs && config.auth_info.token.is_some());
        let untouched = kubeconfig.clusters.iter().find(|cluster| cluster.name == "a").unwrap();
        assert_eq!(untouched.cluster.as_ref().unwrap().server.as_deref(), Some("https://a:6443"));
    }

    #[test]
    fn a_pod_uses_its_service_account() {
        let kubeconfig = in_cluster("fd00::1", "443", Path::new("/account"));
        let cluster = kubeconfig.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://[fd00::1]:443"));
        assert_eq!(cluster.certificate_authority.as_deref(), Some("/account/ca.crt"));
        let user = kubeconfig.auth_infos[0].auth_info.as_ref().unwrap();
        assert_eq!(user.token_file.as_deref(), Some("/account/token"));
    }
}
