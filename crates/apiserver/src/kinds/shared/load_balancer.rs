//! Addresses at which load balancers are reached.

use serde_json::Value;

use crate::{
    kinds::shared::{
        fields::text,
        formats::{self, wrong},
    },
    status::Cause,
};

/// An address or a host name of a load balancer, with `between` said between the two.
pub(crate) fn validate_ingress(at: &Value, field: &str, out: &mut Vec<Cause>, between: impl FnOnce(&mut Vec<Cause>)) {
    let (ip, host) = (text(at, "/ip"), text(at, "/hostname"));
    if !ip.is_empty() {
        formats::ip(ip, &format!("{field}.ip"), out);
    }
    between(out);
    if !host.is_empty() {
        let field = format!("{field}.hostname");
        formats::subdomain(host, &field, out);
        if formats::is_ip(host) {
            wrong(&field, host, ["must be a DNS name, not an IP address"], out);
        }
    }
}
