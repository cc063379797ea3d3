//! Flags of the dashboard of `run`.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use ironclad_cli::report::Misused;

use super::bind::address;

/// Flags of the dashboard for users who log in.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Dashboard")]
pub(crate) struct DashboardFlags {
    /// Address on which the dashboard is served over TLS, with managed certificates: PORT on loopback, or ADDRESS:PORT;
    /// 0 for none. Users log in with tokens of the control plane
    #[arg(long, env = "IRONCLAD_DASHBOARD_BIND_ADDRESS", default_value = "0", value_name = "[ADDRESS:]PORT")]
    dashboard_bind_address: String,
    /// Names and addresses by which browsers reach it; others are refused [default: the address]
    #[arg(long, env = "IRONCLAD_DASHBOARD_HOST", value_delimiter = ',', value_name = "HOST,...")]
    dashboard_host: Vec<String>,
    /// Certificate for these names, PEM, instead of a managed one; it is read again when it changes
    #[arg(long, env = "IRONCLAD_DASHBOARD_TLS_CERT_FILE", value_name = "FILE")]
    dashboard_tls_cert_file: Option<PathBuf>,
    /// Its private key
    #[arg(long, env = "IRONCLAD_DASHBOARD_TLS_PRIVATE_KEY_FILE", value_name = "FILE")]
    dashboard_tls_private_key_file: Option<PathBuf>,
    /// Let its pages change something, as `ironclad dashboard --write` does, with the rights of the user's token
    #[arg(long, env = "IRONCLAD_DASHBOARD_WRITE", value_parser = clap::builder::BoolishValueParser::new(), action = clap::ArgAction::SetTrue)]
    dashboard_write: bool,
}

/// A dashboard for users who log in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BoundDashboard {
    /// Address to listen on.
    pub(crate) bind: SocketAddr,
    /// Names and addresses that are answered.
    pub(crate) hosts: Vec<String>,
    /// Certificate and key, if none is made.
    pub(crate) files: Option<(PathBuf, PathBuf)>,
    /// True if users can change something.
    pub(crate) writes: bool,
}

impl DashboardFlags {
    /// Returns what is served; `None` if nothing is.
    ///
    /// # Errors
    /// An address, a name or a pair of files is invalid, or none says under which name the dashboard is reached.
    pub(crate) fn dashboard(&self) -> anyhow::Result<Option<BoundDashboard>> {
        let files = match (&self.dashboard_tls_cert_file, &self.dashboard_tls_private_key_file) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            (certificate, _) => {
                let (has, lacks) = match certificate {
                    Some(_) => ("--dashboard-tls-cert-file", "--dashboard-tls-private-key-file"),
                    None => ("--dashboard-tls-private-key-file", "--dashboard-tls-cert-file"),
                };
                return Err(Misused(format!("{has} is given without {lacks}\n  try: both, or none")).into());
            }
        };
        if self.dashboard_bind_address == "0" {
            if self.dashboard_write {
                let text =
                    "--dashboard-write is given, and no dashboard is served\n  try: --dashboard-bind-address too";
                return Err(Misused(text.to_owned()).into());
            }
            return Ok(None);
        }
        let bind = address("--dashboard-bind-address", &self.dashboard_bind_address)?;
        let mut hosts: Vec<String> = self.dashboard_host.clone();
        if let Some(wrong) = hosts.iter().find(|host| !is_host(host)) {
            let text =
                format!("--dashboard-host {wrong:?} is no name or address\n  try: fleet.example, without a port");
            return Err(Misused(text).into());
        }
        match bind.ip() {
            ip if ip.is_unspecified() && hosts.is_empty() => {
                let text = "there is no name under which browsers reach the dashboard\n  because it is served on all \
                            addresses\n  try: --dashboard-host fleet.example";
                return Err(Misused(text.to_owned()).into());
            }
            ip if ip.is_unspecified() => {}
            ip if ip.is_loopback() => {
                hosts.extend([ip.to_string(), Ipv4Addr::LOCALHOST.to_string(), "localhost".to_owned()]);
            }
            ip => hosts.push(ip.to_string()),
        }
        hosts.sort();
        hosts.dedup();
        Ok(Some(BoundDashboard { bind, hosts, files, writes: self.dashboard_write }))
    }
}

/// True for an address, or a name without a port, a scheme or a wildcard.
fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_inside = |c: char| c.is_ascii_alphanumeric() || c == '-';
        !label.is_empty() && label.len() <= 63 && label.chars().all(is_inside) && !label.starts_with('-')
    };
    text.parse::<std::net::IpAddr>().is_ok() || (text.len() <= 253 && text.split('.').all(is_label))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(bind: &str, hosts: &[&str], certificate: Option<&str>, key: Option<&str>) -> DashboardFlags {
        DashboardFlags {
            dashboard_bind_address: bind.to_owned(),
            dashboard_host: hosts.iter().map(|host| (*host).to_owned()).collect(),
            dashboard_tls_cert_file: certificate.map(PathBuf::from),
            dashboard_tls_private_key_file: key.map(PathBuf::from),
            dashboard_write: false,
        }
    }

    #[test]
    fn the_dashboard_is_served_under_names() {
        assert_eq!(flags("0", &["fleet.example"], None, None).dashboard().unwrap(), None);
        for (bind, given, listens, hosts) in [
            ("8449", vec![], "127.0.0.1:8449", vec!["127.0.0.1", "localhost"]),
            ("8449", vec!["fleet.example"], "127.0.0.1:8449", vec!["127.0.0.1", "fleet.example", "localhost"]),
            ("[::1]:8449", vec![], "[::1]:8449", vec!["127.0.0.1", "::1", "localhost"]),
            ("10.0.0.5:8449", vec![], "10.0.0.5:8449", vec!["10.0.0.5"]),
            ("0.0.0.0:8449", vec!["fleet.example", "10.0.0.5"], "0.0.0.0:8449", vec!["10.0.0.5", "fleet.example"]),
        ] {
            let got = flags(bind, &given, None, None).dashboard().unwrap().unwrap();
            assert_eq!((got.bind.to_string(), got.files.is_none()), (listens.to_owned(), true), "{bind}");
            assert_eq!(got.hosts, hosts, "{bind} {given:?}");
        }
        let got = flags("8449", &[], Some("c"), Some("k")).dashboard().unwrap().unwrap();
        assert_eq!(got.files, Some(("c".into(), "k".into())));
        assert!(!got.writes, "nobody changes something by it without the flag");
        let writing = |bind: &str| DashboardFlags { dashboard_write: true, ..flags(bind, &[], None, None) };
        assert!(writing("8449").dashboard().unwrap().unwrap().writes);
        for (flags, want) in [
            (flags("x", &[], None, None), "--dashboard-bind-address \"x\" is not an address and port"),
            (flags("0.0.0.0:1", &[], None, None), "there is no name under which browsers reach the dashboard"),
            (flags("1", &["https://a"], None, None), "--dashboard-host \"https://a\" is no name"),
            (flags("1", &["a:443"], None, None), "--dashboard-host \"a:443\" is no name"),
            (flags("1", &["*.example"], None, None), "--dashboard-host \"*.example\" is no name"),
            (flags("1", &["a..b"], None, None), "--dashboard-host \"a..b\" is no name"),
            (flags("1", &[""], None, None), "--dashboard-host \"\" is no name"),
            (flags("1", &[], Some("c"), None), "--dashboard-tls-cert-file is given without"),
            (flags("0", &[], None, Some("k")), "--dashboard-tls-private-key-file is given without"),
            (writing("0"), "--dashboard-write is given, and no dashboard is served"),
        ] {
            let error = flags.dashboard().unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        }
    }
}
