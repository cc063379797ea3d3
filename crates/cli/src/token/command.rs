//! `ironclad token`.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use ironclad_api::{
    agents::{
        BOOTSTRAP_GROUP, CLUSTER_INFO, CLUSTER_INFO_KUBECONFIG, KUBE_PUBLIC, TOKEN_SECRET_PREFIX, TOKEN_SECRET_TYPE,
    },
    namespaces::KUBE_SYSTEM,
};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Client, Config, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::Value;

use super::{
    BootstrapToken, NewToken, id_of, line, register_line,
    secret::{self, COLUMNS, Secrets},
};
use crate::{
    connect::{self, Plane},
    join::Address,
    pages,
    print::{self, Output},
    program,
    register::{self, pins},
    report::{Misused, answer},
    write::FIELD_MANAGER,
};

/// Create, list and delete bootstrap tokens, with which members are registered in pull mode
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad token create --print-register-command
  ironclad token create --print-register-command --cluster-name member3 --ttl 1h
  ironclad token list
  ironclad token delete abcdef")]
pub struct Command {
    #[command(subcommand)]
    pub verb: Verb,
    #[command(flatten)]
    pub plane: Plane,
}

/// Action.
#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    /// Create a token, and print it or the command that registers a member with it
    #[command(
        after_help = "Examples:\n  ironclad token create --print-register-command\n  ironclad token create --ttl 0 --description lab"
    )]
    Create(Create),
    /// List the tokens, without their secrets; under the names of karmadactl with them
    #[command(after_help = "Examples:\n  ironclad token list\n  ironclad token list --show-secrets")]
    List {
        /// Show the secrets, too
        #[arg(long)]
        show_secrets: bool,
        /// Output format
        #[arg(short, long, value_parser = Output::without(&[Output::Wide]), default_value = "table")]
        output: Output,
    },
    /// Delete tokens: nobody is registered with them any more; members that are registered stay so
    #[command(after_help = "Examples:\n  ironclad token delete abcdef ghijkl")]
    Delete {
        /// Ids, or whole tokens
        #[arg(required = true, value_name = "ID|TOKEN")]
        tokens: Vec<String>,
    },
}

/// Arguments of `create`.
#[derive(clap::Args, Debug)]
pub struct Create {
    /// The token [default: a random one]
    #[arg(value_name = "TOKEN")]
    pub new_token: Option<String>,
    /// Lifetime; 0 for one that never ends
    #[arg(long, value_parser = crate::duration, default_value = "24h", value_name = "DURATION")]
    pub ttl: Duration,
    /// Usages
    #[arg(long, value_delimiter = ',', default_value = "signing,authentication", value_name = "A,B")]
    pub usages: Vec<String>,
    /// Groups of those who authenticate with it
    #[arg(long, value_delimiter = ',', default_value = BOOTSTRAP_GROUP, value_name = "A,B")]
    pub groups: Vec<String>,
    /// Purpose of the token, for people
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    pub description: String,
    /// The only cluster that is registered with it [default: any]
    #[arg(long, value_name = "NAME")]
    pub cluster_name: Option<String>,
    /// Print the command that registers a member, in place of the token
    #[arg(long)]
    pub print_register_command: bool,
}

/// Runs the command.
///
/// # Errors
/// If the control plane refuses, or its kubeconfig has no certificate to recognize it by.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    match &command.verb {
        Verb::Create(wanted) => create(&command.plane, wanted, clock).await,
        Verb::List { show_secrets, output } => {
            let shown = *show_secrets || program::runs_as_karmadactl();
            let secrets = if shown { Secrets::Show } else { Secrets::Hide };
            list(&command.plane.client().await?, *output, secrets, clock).await
        }
        Verb::Delete { tokens } => delete(&command.plane.client().await?, tokens).await,
    }
}

fn api(client: &Client) -> Api<Secret> {
    Api::namespaced(client.clone(), KUBE_SYSTEM)
}

async fn create(plane: &Plane, wanted: &Create, clock: &Clock) -> anyhow::Result<()> {
    if let Some(cluster) = &wanted.cluster_name {
        register::refuse_name(cluster)?;
    }
    let token = match &wanted.new_token {
        Some(text) => text.parse::<BootstrapToken>().map_err(|error| Misused(error.to_string()))?,
        None => BootstrapToken::generate()?,
    };
    let expires = match wanted.ttl {
        Duration::ZERO => None,
        ttl => Some(clock.wall().checked_add(ttl).context("--ttl is too long")?),
    };
    let new = NewToken {
        token,
        expires,
        usages: wanted.usages.clone(),
        groups: wanted.groups.clone(),
        description: wanted.description.clone(),
        cluster: wanted.cluster_name.clone(),
    };
    let secret = secret::secret(&new)?;
    let way = if wanted.print_register_command { Some(Way::of(plane).await?) } else { None };
    let client = plane.client().await?;
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let id = new.token.id();
    api(&client).create(&params, &secret).await.map_err(|error| match &error {
        kube::Error::Api(status) if status.code == 409 => {
            anyhow!("token {id} was not created\n  because there is one of this id\n  try: ironclad token delete {id}")
        }
        _ => anyhow::Error::new(error).context(format!("token {id} was not created")),
    })?;
    let Some(way) = way else { return print::out(&format!("{}\n", new.token)) };
    let published = published(&client).await;
    let address = line::best(&way.address, published.as_deref());
    if line::is_internal(address.rsplit_once(':').map_or(address, |(host, _)| host)) {
        print::note(&format!(
            "warning: members on other machines can't reach {address}\n  try: the same with --server https://HOST:PORT, an \
             address that they reach and that the server's certificate names"
        ));
    }
    print::out(&(register_line(address, &new.token, &way.hashes, new.cluster.as_deref()) + "\n"))
}

/// Address and hashes of the control plane, by the kubeconfig.
struct Way {
    /// `HOST:PORT`.
    address: String,
    hashes: Vec<String>,
}

impl Way {
    async fn of(plane: &Plane) -> anyhow::Result<Self> {
        let config = connect::config(plane.kubeconfig()?, plane.context.as_deref(), "control plane").await?;
        Self::from(&config).ok_or_else(|| {
            anyhow!(
                "the command to register can't be printed, and no token was created\n  because the kubeconfig has no \
                 certificate of the control plane\n  try: a kubeconfig with certificate-authority-data"
            )
        })
    }

    /// `None` if there is no certificate.
    fn from(config: &Config) -> Option<Self> {
        let hashes = pins::of(Address::from(config).ca_bundle.as_bytes());
        let host = config.cluster_url.host()?;
        let address = format!("{host}:{}", config.cluster_url.port_u16().unwrap_or(443));
        (!hashes.is_empty()).then_some(Self { address, hashes })
    }
}

/// The address `HOST:PORT` that the control plane publishes, if it can be read.
async fn published(client: &Client) -> Option<String> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), KUBE_PUBLIC);
    let map = maps.get_opt(CLUSTER_INFO).await.ok()??;
    let cluster = register::first_cluster(map.data?.get(CLUSTER_INFO_KUBECONFIG)?)?;
    let address = register::address(&cluster.server?).ok()?;
    address.strip_prefix("https://").map(str::to_owned)
}

async fn list(client: &Client, output: Output, secrets: Secrets, clock: &Clock) -> anyhow::Result<()> {
    let of_type = ListParams::default().fields(&format!("type={TOKEN_SECRET_TYPE}"));
    let mut found = pages::all(&api(client), of_type).await.context("listing the tokens")?;
    found.retain(|secret| secret.name_any().starts_with(TOKEN_SECRET_PREFIX));
    match output {
        Output::Json | Output::Yaml => {
            let objects: Vec<Value> = found
                .iter()
                .map(|secret| object(secret, secrets))
                .collect::<Result<_, _>>()
                .context("writing the tokens")?;
            print::out(&print::objects(output, &[print::list(objects)])?)
        }
        Output::Name => print::out(&found.iter().map(|one| format!("secret/{}\n", one.name_any())).collect::<String>()),
        _ => {
            let rows: Vec<_> = found.iter().filter_map(|one| secret::row(one, clock.wall(), secrets)).collect();
            print::out(&print::table(&COLUMNS, &rows))
        }
    }
}

/// The Secret as an object with its kind, without what is hidden.
fn object(secret: &Secret, secrets: Secrets) -> Result<Value, serde_json::Error> {
    let mut object = serde_json::to_value(secret)?;
    object["apiVersion"] = "v1".into();
    object["kind"] = "Secret".into();
    if let (Secrets::Hide, Some(data)) = (secrets, object.pointer_mut("/data").and_then(Value::as_object_mut)) {
        data.remove("token-secret");
    }
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("annotations");
    }
    Ok(object)
}

async fn delete(client: &Client, tokens: &[String]) -> anyhow::Result<()> {
    let ids: Vec<&str> = tokens
        .iter()
        .map(|text| {
            let remedy = "an id, the first 6 characters of a token, as `ironclad token list` shows it";
            id_of(text).ok_or_else(|| {
                Misused(format!(
                    "no token was deleted\n  because a given token didn't match pattern: neither an id nor a token\n  try: {remedy}"
                ))
            })
        })
        .collect::<Result<_, _>>()?;
    for id in ids {
        let deleted = api(client).delete(&secret::name(id), &DeleteParams::default()).await;
        deleted.map_err(|error| {
            // Scripts for karmadactl look for the words of the server behind `err:`.
            let (reason, why) = match error {
                kube::Error::Api(status) => (format!(" ({})", status.reason), status.message),
                other => (String::new(), answer(&other)),
            };
            anyhow!("bootstrap token {id:?} was not deleted{reason}, err: {why}\n  try: ironclad token list")
        })?;
        print::out(&format!("bootstrap token {id:?} deleted\n"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_hide_the_secret() {
        let token = NewToken::new("abcdef.0123456789abcdef".parse().unwrap(), None);
        let secret = secret::secret(&token).unwrap();
        for (secrets, want) in [(Secrets::Hide, false), (Secrets::Show, true)] {
            let object = object(&secret, secrets).unwrap();
            assert_eq!((object["data"].get("token-secret").is_some(), &object["kind"]), (want, &"Secret".into()));
        }
    }

    #[test]
    fn ways_have_an_address_and_hashes() {
        let mut config = Config::new("https://plane.example.com/".parse().unwrap());
        assert!(Way::from(&config).is_none(), "without certificates nobody recognizes it");
        let certificate = rcgen::generate_simple_self_signed(vec!["plane".to_owned()]).unwrap().cert;
        config.root_cert = Some(vec![certificate.der().to_vec()]);
        let way = Way::from(&config).unwrap();
        assert_eq!(
            (way.address.as_str(), way.hashes),
            ("plane.example.com:443", pins::of(certificate.pem().as_bytes()))
        );
    }
}
