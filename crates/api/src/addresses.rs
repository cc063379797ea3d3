//! Addresses of servers.

use std::net::IpAddr;

/// True for an address that neither a member nor its proxy has: link-local ones, at which clouds answer with the
/// credentials of machines, and those of no single host. Admission refuses them in Clusters; a host name of a Cluster
/// can resolve to one, so connections check again.
#[must_use]
pub fn is_never_a_server(address: &IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_multicast() || v4.is_unspecified() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_multicast() || v6.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_no_server_has() {
        for (address, want) in [
            ("169.254.169.254", true),
            ("::ffff:169.254.169.254", true),
            ("fe80::1", true),
            ("0.0.0.0", true),
            ("::", true),
            ("224.0.0.1", true),
            ("ff02::1", true),
            ("255.255.255.255", true),
            ("127.0.0.1", false),
            ("10.0.0.1", false),
            ("fd00::1", false),
            ("203.0.113.7", false),
        ] {
            assert_eq!(is_never_a_server(&address.parse().unwrap()), want, "{address}");
        }
    }
}
