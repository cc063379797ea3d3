//! Formats of many kinds: ports, addresses, labels, names. Errors name the field and use the words of a kube-apiserver.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};

use crate::{names, status::Cause};

use super::fields::{list, text};

/// The protocols that ports speak, as they are listed in refusals of most kinds.
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const PORT_NAME_BYTES_MAX: usize = 15;

/// Says at the field what is wrong with the text.
pub(crate) fn wrong(field: &str, given: &str, why: impl IntoIterator<Item = impl AsRef<str>>, out: &mut Vec<Cause>) {
    out.extend(why.into_iter().map(|why| Cause::invalid(field, &json!(given), why)));
}

/// More elements than there may be.
pub(crate) fn too_many(field: &str, count: usize, max: usize) -> Cause {
    let message = format!("Too many: {count}: must have at most {max} items");
    Cause { reason: "FieldValueTooMany".into(), message, field: field.to_owned() }
}

/// The text is one of these; an empty one is none of them.
pub(crate) fn supported(given: &str, field: &str, supported: &[&str], out: &mut Vec<Cause>) {
    if !supported.contains(&given) {
        out.push(Cause::unsupported(field, &json!(given), supported));
    }
}

/// A protocol of a port.
pub(crate) fn protocol(given: &str, field: &str, out: &mut Vec<Cause>) {
    match given {
        "" => out.push(Cause::required(field, "")),
        given => supported(given, field, &PROTOCOLS, out),
    }
}

/// A port by its number; none is 0.
pub(crate) fn port_number(port: &Value, field: &str, out: &mut Vec<Cause>) {
    let number = port.as_i64().unwrap_or(0);
    if !(1..=65_535).contains(&number) {
        out.push(Cause::invalid(field, &json!(number), "must be between 1 and 65535, inclusive"));
    }
}

/// Validates the name of a port by the rules of IANA.
pub(crate) fn port_name(name: &str) -> Vec<String> {
    let mut out = Vec::new();
    if name.len() > PORT_NAME_BYTES_MAX {
        out.push(format!("must be no more than {PORT_NAME_BYTES_MAX} characters"));
    }
    let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if name.is_empty() || !name.bytes().all(known) {
        out.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        out.push("must contain at least one letter (a-z)".into());
    }
    if name.contains("--") {
        out.push("must not contain consecutive hyphens".into());
    }
    if name.starts_with('-') || name.ends_with('-') {
        out.push("must not begin or end with a hyphen".into());
    }
    out
}

/// A port by its number or its name.
pub(crate) fn port(port: &Value, field: &str, out: &mut Vec<Cause>) {
    match port.as_str() {
        Some(name) => wrong(field, name, port_name(name), out),
        None => port_number(port, field, out),
    }
}

/// A name with an optional domain before it.
pub(crate) fn qualified(given: &str, field: &str, out: &mut Vec<Cause>) {
    wrong(field, given, names::qualified_name(given), out);
}

/// Validates the name of an object in a field of its own; the caller refuses empty names.
pub(crate) fn subdomain(given: &str, field: &str, out: &mut Vec<Cause>) {
    wrong(field, given, names::dns_subdomain(given), out);
}

/// A segment of a path that must be given.
pub(crate) fn path_segment(given: &str, field: &str, out: &mut Vec<Cause>) {
    match given {
        "" => out.push(Cause::required(field, "")),
        given => wrong(field, given, names::path_segment(given), out),
    }
}

/// Keys and values of labels.
pub(crate) fn labels(labels: &Value, field: &str, out: &mut Vec<Cause>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        qualified(key, field, out);
        let value = value.as_str().unwrap_or_default();
        wrong(field, value, names::label_value(value), out);
    }
}

/// A label selector; none is fine.
pub(crate) fn label_selector(selector: &Value, field: &str, out: &mut Vec<Cause>) {
    labels(&selector["matchLabels"], &format!("{field}.matchLabels"), out);
    for (i, expression) in list(selector, "/matchExpressions").iter().enumerate() {
        requirement(expression, &format!("{field}.matchExpressions[{i}]"), out);
    }
}

fn requirement(expression: &Value, field: &str, out: &mut Vec<Cause>) {
    let values = list(expression, "/values");
    match text(expression, "/operator") {
        "In" | "NotIn" if values.is_empty() => {
            out.push(Cause::required(
                format!("{field}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            ));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            out.push(Cause::forbidden(format!("{field}.values"), why));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => wrong(&format!("{field}.operator"), other, ["not a valid selector operator"], out),
    }
    qualified(text(expression, "/key"), &format!("{field}.key"), out);
    for (i, value) in values.iter().filter_map(Value::as_str).enumerate() {
        wrong(&format!("{field}.values[{i}]"), value, names::label_value(value), out);
    }
}

/// An address as it was written.
struct Address {
    ip: IpAddr,
    /// Some programs take numbers with leading zeros for octal ones.
    leading_zeros: bool,
}

impl Address {
    /// Reads an address, also one with leading zeros.
    fn parse(text: &str) -> Option<Self> {
        if let Ok(ip) = text.parse() {
            return Some(Self { ip, leading_zeros: false });
        }
        let mut octets = [0_u8; 4];
        let mut parts = text.split('.');
        for octet in &mut octets {
            let part = parts.next().filter(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))?;
            let digits = part.trim_start_matches('0');
            *octet = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        }
        let ip = IpAddr::V4(Ipv4Addr::from(octets));
        parts.next().is_none().then_some(Self { ip, leading_zeros: true })
    }

    fn is_mapped(&self) -> bool {
        matches!(self.ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
    }
}

/// True for the text of an IP address.
pub(crate) fn is_ip(given: &str) -> bool {
    Address::parse(given).is_some()
}

/// The address, IPv4 also where it is written as IPv6.
pub(crate) fn ip_of(given: &str) -> Option<IpAddr> {
    Address::parse(given).map(|a| a.ip.to_canonical())
}

/// Validates an address in a field that accepts every notation.
pub(crate) fn ip(given: &str, field: &str, out: &mut Vec<Cause>) {
    let Some(address) = Address::parse(given) else {
        return wrong(field, given, ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"], out);
    };
    if address.leading_zeros {
        wrong(field, given, ["must not have leading 0s"], out);
    }
    if address.is_mapped() {
        wrong(field, given, ["must not be an IPv4-mapped IPv6 address"], out);
    }
}

/// Validates an address in its canonical notation.
pub(crate) fn canonical_ip(given: &str, field: &str, out: &mut Vec<Cause>) {
    let before = out.len();
    ip(given, field, out);
    if out.len() == before
        && let Some(address) = Address::parse(given)
        && address.ip.to_string() != given
    {
        wrong(field, given, [format!("must be in canonical form ({:?})", address.ip.to_string())], out);
    }
}

/// An address that traffic can be sent to.
pub(crate) fn endpoint_ip(given: &str, field: &str, out: &mut Vec<Cause>) {
    let Some(ip) = ip_of(given) else { return wrong(field, given, ["must be a valid IP address"], out) };
    if ip.is_unspecified() {
        wrong(field, given, [format!("may not be unspecified ({given})")], out);
    }
    if ip.is_loopback() {
        wrong(field, given, ["may not be in the loopback range (127.0.0.0/8, ::1/128)"], out);
    }
    let (link, multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xff0f == 0xff02),
    };
    if link {
        wrong(field, given, ["may not be in the link-local range (169.254.0.0/16, fe80::/10)"], out);
    }
    if multicast {
        wrong(field, given, ["may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"], out);
    }
}

/// Addresses with the same first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    ip: IpAddr,
    /// Length of the prefix, in bits.
    pub(crate) bits: u8,
}

impl Network {
    /// Reads `10.0.0.0/8`, also with leading zeros.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (ip, bits) = text.split_once('/')?;
        let ip = Address::parse(ip)?.ip;
        let bits = Some(bits).filter(|b| !b.is_empty() && b.bytes().all(|b| b.is_ascii_digit()))?;
        let bits = bits.parse().ok().filter(|bits| *bits <= Self::width(ip))?;
        Some(Self { ip, bits })
    }

    fn width(ip: IpAddr) -> u8 {
        if ip.is_ipv4() { 32 } else { 128 }
    }

    fn number(ip: IpAddr) -> u128 {
        match ip {
            IpAddr::V4(ip) => ip.to_bits().into(),
            IpAddr::V6(ip) => ip.to_bits(),
        }
    }

    /// The address with the bits outside of the prefix zeroed.
    fn shared(&self, ip: IpAddr) -> u128 {
        Self::number(ip).checked_shr(u32::from(Self::width(ip) - self.bits)).unwrap_or(0)
    }

    /// True if the other network lies within this one and is smaller.
    pub(crate) fn strictly_contains(&self, other: &Self) -> bool {
        self.ip.is_ipv4() == other.ip.is_ipv4()
            && self.shared(self.ip) == self.shared(other.ip)
            && self.bits < other.bits
    }

    /// True for IPv4.
    pub(crate) fn is_ipv4(&self) -> bool {
        self.ip.is_ipv4()
    }
}

/// Validates a CIDR range.
pub(crate) fn cidr(given: &str, field: &str, out: &mut Vec<Cause>) {
    let Some(network) = Network::parse(given) else {
        return wrong(field, given, ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"], out);
    };
    let (ip, bits) = given.split_once('/').unwrap_or_default();
    let address = Address::parse(ip);
    let zeros = bits.len() > 1 && bits.starts_with('0') || address.as_ref().is_some_and(|a| a.leading_zeros);
    let host_bits = u32::from(Network::width(network.ip) - network.bits);
    if zeros {
        wrong(field, given, ["must not have leading 0s in IP or prefix length"], out);
    } else if address.is_some_and(|a| a.is_mapped()) {
        wrong(field, given, ["must not have an IPv4-mapped IPv6 address"], out);
    } else if network.shared(network.ip).checked_shl(host_bits).unwrap_or(0) != Network::number(network.ip) {
        wrong(field, given, ["must not have bits set beyond the prefix length"], out);
    }
}

/// Validates a host name, which may begin with `*.`.
pub(crate) fn host(given: &str) -> Vec<String> {
    if !given.contains('*') {
        return names::dns_subdomain(given);
    }
    let mut out = Vec::new();
    if given.len() > 253 {
        out.push("must be no more than 253 characters".to_owned());
    }
    if given.strip_prefix("*.").is_none_or(|rest| !names::dns_subdomain(rest).is_empty()) {
        out.push(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    out
}

/// A name with its whole domain, which may end in a dot.
pub(crate) fn domain_name(given: &str, field: &str, out: &mut Vec<Cause>) {
    if given.is_empty() {
        return out.push(Cause::required(field, ""));
    }
    let name = given.strip_suffix('.').unwrap_or(given);
    let errors = names::dns_subdomain(name);
    if !errors.is_empty() {
        return wrong(field, name, [errors.join(",")], out);
    }
    if !name.contains('.') {
        return wrong(field, name, ["should be a domain with at least two segments separated by dots"], out);
    }
    let label = name.split('.').find_map(|l| Some((l, names::dns_label(l))).filter(|(_, why)| !why.is_empty()));
    if let Some((label, why)) = label {
        wrong(field, label, [why.join(",")], out);
    }
}

/// `acme.io/foo`: a domain and a path below it.
pub(crate) fn domain_prefixed_path(given: &str, field: &str, out: &mut Vec<Cause>) {
    if given.is_empty() {
        return out.push(Cause::required(field, ""));
    }
    let (domain, path) = given.split_once('/').unwrap_or_default();
    if domain.is_empty() || path.is_empty() {
        return wrong(field, given, ["must be a domain-prefixed path (such as \"acme.io/foo\")"], out);
    }
    subdomain(domain, field, out);
    if !path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b)) {
        let why = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        wrong(field, path, [why], out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(check: impl FnOnce(&mut Vec<Cause>)) -> Vec<String> {
        let mut out = Vec::new();
        check(&mut out);
        out.into_iter().map(|c| c.message).collect()
    }

    #[test]
    fn addresses() {
        for (given, want) in [
            ("10.0.0.1", ""),
            ("2001:db8::1", ""),
            ("010.0.0.1", "must not have leading 0s"),
            ("256.0.0.1", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            ("1.2.3", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
        ] {
            let want: Vec<String> = Some(want)
                .filter(|w| !w.is_empty())
                .map(|w| format!("Invalid value: {given:?}: {w}"))
                .into_iter()
                .collect();
            assert_eq!(messages(|out| ip(given, "a", out)), want, "{given}");
        }
    }

    #[test]
    fn networks() {
        let beyond = "must not have bits set beyond the prefix length";
        let none = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        let zeros = "must not have leading 0s in IP or prefix length";
        for (given, want) in [
            ("10.0.0.0/8", ""),
            ("0.0.0.0/0", ""),
            ("::/0", ""),
            ("10.0.0.1/32", ""),
            ("2001:db8::/32", ""),
            ("10.0.0.1/8", beyond),
            ("2001:db8::1/32", beyond),
            ("10.0.0.0/33", none),
            ("10.0.0.0", none),
            ("10.0.0.0/08", zeros),
            ("010.0.0.0/8", zeros),
        ] {
            let want: Vec<String> = Some(want)
                .filter(|w| !w.is_empty())
                .map(|w| format!("Invalid value: {given:?}: {w}"))
                .into_iter()
                .collect();
            assert_eq!(messages(|out| cidr(given, "a", out)), want, "{given}");
        }
        for (outer, inner, want) in [
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.0.0.0/8", "10.0.0.0/8", false),
            ("10.0.0.0/8", "11.0.0.0/16", false),
            ("0.0.0.0/0", "11.0.0.0/16", true),
            ("::/0", "11.0.0.0/16", false),
            ("2001:db8::/32", "2001:db8:1::/48", true),
        ] {
            let contains = Network::parse(outer).zip(Network::parse(inner)).map(|(a, b)| a.strictly_contains(&b));
            assert_eq!(contains, Some(want), "{outer} {inner}");
        }
    }

    #[test]
    fn names_of_ports_and_hosts() {
        for (check, given, good) in [
            (port_name as fn(&str) -> Vec<String>, "http", true),
            (port_name, "http-2", true),
            (port_name, "8080", false),
            (port_name, "a--b", false),
            (port_name, "-a", false),
            (port_name, "sixteen-letters-", false),
            (port_name, "", false),
            (host, "a.example.com", true),
            (host, "*.example.com", true),
            (host, "*", false),
            (host, "*a.example.com", false),
        ] {
            assert_eq!(check(given).is_empty(), good, "{given}");
        }
    }
}
