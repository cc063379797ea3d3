//! Addresses that listeners are given.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ironclad_cli::report::Misused;

/// Reads PORT on loopback, ADDRESS:PORT, or as Go's servers do :PORT on all addresses.
///
/// # Errors
/// It is none of them; the text names the flag.
pub(crate) fn address(flag: &str, text: &str) -> anyhow::Result<SocketAddr> {
    let at = |ip: Ipv4Addr, port: &str| Some(SocketAddr::new(IpAddr::V4(ip), port.parse().ok()?));
    let bind = match text.strip_prefix(':') {
        Some(port) => at(Ipv4Addr::UNSPECIFIED, port),
        None => at(Ipv4Addr::LOCALHOST, text).or_else(|| text.parse().ok()),
    };
    bind.ok_or_else(|| {
        Misused(format!("{flag} {text:?} is not an address and port\n  try: 8444, 0.0.0.0:8444, or 0 for none")).into()
    })
}

/// The address of health and metrics; `None` for 0.
///
/// # Errors
/// The flag has no address.
pub(crate) fn of_metrics(text: &str) -> anyhow::Result<Option<SocketAddr>> {
    if text == "0" { Ok(None) } else { address("--metrics-bind-address", text).map(Some) }
}

#[test]
fn addresses_have_a_port() {
    for (text, want) in [
        ("8444", Some("127.0.0.1:8444")),
        (":8444", Some("0.0.0.0:8444")),
        ("10.0.0.5:8444", Some("10.0.0.5:8444")),
        ("[::1]:8444", Some("[::1]:8444")),
        ("10.0.0.5", None),
        ("localhost:8444", None),
        (":", None),
        ("70000", None),
        ("", None),
    ] {
        let got = address("--bind", text);
        assert_eq!(got.as_ref().ok().map(ToString::to_string).as_deref(), want, "{text}");
        if let Err(error) = got {
            assert!(error.to_string().starts_with(&format!("--bind {text:?} is not an address and port")), "{error}");
        }
    }
    assert_eq!(of_metrics("0").unwrap(), None);
}
