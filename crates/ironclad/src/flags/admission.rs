//! Flags of admission (specification/admission.md 1).

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use ironclad_admission::{Config, registration::Endpoint};
use ironclad_cli::report::Misused;
use ironclad_controllers::Settings;
use ironclad_fleet::gates::{Gate, Gates};
use ironclad_interpreter_lua::{Host, check_script};
use ironclad_seam::Clock;

use super::bind::address;

/// Admission flags.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Admission")]
pub(crate) struct AdmissionFlags {
    /// Protect namespaces that contain deletion-protected objects
    #[arg(
        long,
        env = "IRONCLAD_PROTECT_NAMESPACE_CONTENTS",
        default_value_t = true,
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    protect_namespace_contents: bool,
}

impl AdmissionFlags {
    /// Returns the configuration of the rules; `own_user` is the user of our controllers.
    pub(crate) fn config(&self, settings: &Settings, own_user: Option<String>, clock: Clock) -> Config {
        let host = Host {
            wall_seconds: Arc::new(move || clock.wall().as_second()),
            running: settings.running_scripts.clone(),
            ..Host::at(0)
        };
        Config {
            gates: settings.gates.clone(),
            no_execute_policy: settings.failover.health.no_execute_policy,
            protect_namespace_contents: self.protect_namespace_contents,
            watches_members: settings.propagation.resource_modeling.is_on() || settings.deschedules(),
            own_user,
            check_script: Some(Arc::new(move |operation, text| check_script(&host, operation, text))),
        }
    }
}

/// Webhook flags.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Admission")]
pub(crate) struct WebhookFlags {
    /// Address on which webhooks are served and registered, with managed certificates: PORT on loopback, or
    /// ADDRESS:PORT; 0 for none
    #[arg(long, env = "IRONCLAD_WEBHOOK_BIND_ADDRESS", default_value = "0", value_name = "ADDRESS:PORT")]
    webhook_bind_address: String,
    /// URL at which the kube-apiserver reaches the webhooks [default: https:// and the bind address]
    #[arg(long, env = "IRONCLAD_WEBHOOK_URL", value_name = "https://HOST:PORT", conflicts_with = "webhook_service")]
    webhook_url: Option<String>,
    /// The Service by which the kube-apiserver finds them, in place of a URL
    #[arg(long, env = "IRONCLAD_WEBHOOK_SERVICE", value_name = "NAMESPACE/NAME[:PORT]")]
    webhook_service: Option<String>,
    /// Serve v1alpha1 of the bindings to old clients, with conversion
    #[arg(
        long,
        env = "IRONCLAD_SERVE_LEGACY_BINDING_API",
        default_value_t = true,
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    pub serve_legacy_binding_api: bool,
}

/// Options of the webhook server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Webhooks {
    /// Address to listen on.
    pub bind: SocketAddr,
    /// Registered endpoint, if it is not the bind address.
    pub endpoint: Option<Endpoint>,
    /// Hosts of the certificate.
    pub hosts: Vec<String>,
}

impl WebhookFlags {
    /// A warning for each gate that does nothing unless some process serves webhooks, while this one serves none.
    pub(crate) fn warnings(&self, gates: &Gates) -> Vec<String> {
        let serves = self.webhook_bind_address != "0";
        let inert = (!serves && gates.enabled(Gate::FederatedQuotaEnforcement)).then(|| {
            "feature gate FederatedQuotaEnforcement: this process enforces no quota, as it serves no webhooks \
             (--webhook-bind-address); if none does, nothing is enforced"
                .to_owned()
        });
        inert.into_iter().collect()
    }

    /// Returns the options; `None` if webhooks are not served.
    ///
    /// # Errors
    /// An address is invalid, or the webhooks would be unreachable.
    pub(crate) fn webhooks(&self) -> anyhow::Result<Option<Webhooks>> {
        if self.webhook_bind_address == "0" {
            return Ok(None);
        }
        let bind = address("--webhook-bind-address", &self.webhook_bind_address)?;
        let (endpoint, mut hosts) = match (&self.webhook_service, &self.webhook_url) {
            (Some(service), _) => of_service(service).map(|(endpoint, hosts)| (Some(endpoint), hosts))?,
            (None, Some(url)) => of_url(url).map(|(endpoint, hosts)| (Some(endpoint), hosts))?,
            (None, None) if bind.ip().is_unspecified() => {
                let text = "the webhooks have no address for the kube-apiserver\n  because they are served on all addresses\n  \
                            try: --webhook-url https://HOST:PORT, or --webhook-service NAMESPACE/NAME";
                return Err(Misused(text.to_owned()).into());
            }
            (None, None) => (None, vec![]),
        };
        if !bind.ip().is_unspecified() {
            hosts.push(bind.ip().to_string());
        }
        hosts.sort();
        hosts.dedup();
        Ok(Some(Webhooks { bind, endpoint, hosts }))
    }
}

fn of_service(text: &str) -> anyhow::Result<(Endpoint, Vec<String>)> {
    let misused = || Misused(format!("--webhook-service {text:?} is not NAMESPACE/NAME[:PORT]"));
    let (namespace, rest) = text.split_once('/').ok_or_else(misused)?;
    let (name, port) = rest.split_once(':').unwrap_or((rest, "443"));
    let port = port.parse().ok().filter(|port| *port > 0).with_context(misused)?;
    if namespace.is_empty() || name.is_empty() {
        return Err(misused().into());
    }
    let hosts = vec![format!("{name}.{namespace}.svc"), format!("{name}.{namespace}")];
    Ok((Endpoint::Service { namespace: namespace.to_owned(), name: name.to_owned(), port }, hosts))
}

fn of_url(url: &str) -> anyhow::Result<(Endpoint, Vec<String>)> {
    let misused = || Misused(format!("--webhook-url {url:?} is not https://HOST:PORT"));
    let base = url.trim_end_matches('/');
    let authority = base.strip_prefix("https://").ok_or_else(misused)?;
    if authority.is_empty() || authority.contains(['/', '?', '#', '@']) {
        return Err(misused().into());
    }
    // An IPv6 address has brackets in a URL, but not in its certificate.
    let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host,
        None => authority.split(':').next().unwrap_or(authority),
    };
    Ok((Endpoint::Url(base.to_owned()), vec![host.to_owned()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(bind: &str, url: Option<&str>, service: Option<&str>) -> WebhookFlags {
        WebhookFlags {
            webhook_bind_address: bind.into(),
            webhook_url: url.map(Into::into),
            webhook_service: service.map(Into::into),
            serve_legacy_binding_api: true,
        }
    }

    #[test]
    fn a_gate_that_webhooks_enforce_is_told_where_none_are_served() {
        for (bind, is_on, count) in [("0", true, 1), ("0", false, 0), ("127.0.0.1:8443", true, 0)] {
            let gates = Gates::default().with(Gate::FederatedQuotaEnforcement, is_on);
            let warnings = flags(bind, None, None).warnings(&gates);
            assert_eq!(warnings.len(), count, "{bind} {is_on}: {warnings:?}");
        }
    }

    #[test]
    fn endpoints_of_webhooks() {
        let url = |text: &str| Some(Endpoint::Url(text.into()));
        let service = |port| Some(Endpoint::Service { namespace: "karmada-system".into(), name: "web".into(), port });
        for (name, flags, want) in [
            ("nowhere", flags("0", None, None), None),
            ("at the bind address", flags("10.0.0.1:8443", None, None), Some((None, vec!["10.0.0.1"]))),
            (
                "at a URL",
                flags("0.0.0.0:8443", Some("https://hooks.example:443/"), None),
                Some((url("https://hooks.example:443"), vec!["hooks.example"])),
            ),
            (
                "at an IPv6 address",
                flags("0.0.0.0:8443", Some("https://[::1]:443"), None),
                Some((url("https://[::1]:443"), vec!["::1"])),
            ),
            (
                "at a Service",
                flags("0.0.0.0:8443", None, Some("karmada-system/web")),
                Some((service(443), vec!["web.karmada-system", "web.karmada-system.svc"])),
            ),
            (
                "at a port of a Service",
                flags("0.0.0.0:8443", None, Some("karmada-system/web:9443")),
                Some((service(9443), vec!["web.karmada-system", "web.karmada-system.svc"])),
            ),
        ] {
            let got = flags.webhooks().unwrap().map(|w| (w.endpoint, w.hosts));
            let want =
                want.map(|(endpoint, hosts)| (endpoint, hosts.into_iter().map(str::to_owned).collect::<Vec<_>>()));
            assert_eq!(got, want, "{name}");
        }
        for (flags, want) in [
            (flags("x", None, None), "--webhook-bind-address \"x\" is not an address and port"),
            (flags("0.0.0.0:8443", None, None), "the webhooks have no address for the kube-apiserver"),
            (flags("0.0.0.0:8443", Some("http://a"), None), "--webhook-url \"http://a\" is not https://HOST:PORT"),
            (flags("0.0.0.0:8443", None, Some("web")), "--webhook-service \"web\" is not NAMESPACE/NAME[:PORT]"),
        ] {
            let error = flags.webhooks().unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        }
    }
}
