//! Decision about the address of a Service or Ingress.

use std::{collections::BTreeSet, time::Duration};

use jiff::{SignedDuration, Timestamp};
use kube::api::ObjectMeta;

/// Annotation of a Service or Ingress; with value `none` it gets no address.
const LOAD_BALANCER: &str = "sim.ironclad.io/load-balancer";

/// Networks that are reserved for documentation: nothing real answers there.
const NETWORKS: [&str; 3] = ["203.0.113", "198.51.100", "192.0.2"];
/// Host addresses of each network.
const HOSTS: usize = 254;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Leave,
    /// None before this time.
    Wait(Timestamp),
    /// Report this address.
    Assign(String),
    /// Report no address any more.
    Clear,
}

/// Demand of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    Address,
    /// It is a Service of another type, or for another load balancer.
    Nothing,
}

/// Decides about an object. `assigned`: it has an address; `used`: addresses of other objects; `member`: name of the
/// cluster, so that clusters give different addresses.
pub(super) fn decide(
    meta: &ObjectMeta,
    wants: Wants,
    assigned: bool,
    used: &BTreeSet<String>,
    member: &str,
    delay: Duration,
    now: Timestamp,
) -> Step {
    if meta.deletion_timestamp.is_some() {
        return Step::Leave;
    }
    if wants == Wants::Nothing {
        return if assigned { Step::Clear } else { Step::Leave };
    }
    let refused = meta.annotations.as_ref().and_then(|all| all.get(LOAD_BALANCER)).is_some_and(|value| value == "none");
    if assigned || refused {
        return Step::Leave;
    }
    let born = meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0);
    let due = SignedDuration::try_from(delay).ok().and_then(|delay| born.checked_add(delay).ok()).unwrap_or(born);
    if due > now {
        return Step::Wait(due);
    }
    let of = |text: &Option<String>| text.clone().unwrap_or_default();
    Step::Assign(address(&format!("{member}/{}/{}", of(&meta.namespace), of(&meta.name)), used))
}

/// Returns an address for this key that is not in use; if all are, the one of the key.
fn address(key: &str, used: &BTreeSet<String>) -> String {
    let total = NETWORKS.len() * HOSTS;
    // FNV-1a: the same address after a restart.
    let hash = key
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let start = usize::try_from(hash % 762).unwrap_or(0) % total;
    let nth = |n: usize| format!("{}.{}", NETWORKS[(n / HOSTS) % NETWORKS.len()], n % HOSTS + 1);
    (0..total).map(|n| nth((start + n) % total)).find(|address| !used.contains(address)).unwrap_or_else(|| nth(start))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn t(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn meta() -> ObjectMeta {
        ObjectMeta {
            name: Some("web".into()),
            namespace: Some("d".into()),
            creation_timestamp: Some(Time(t(100))),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn addresses_are_assigned_once_after_the_delay() {
        let none = || ObjectMeta { annotations: Some([(LOAD_BALANCER.into(), "none".into())].into()), ..meta() };
        let deleted = || ObjectMeta { deletion_timestamp: Some(Time(t(1))), ..meta() };
        let address = address("m/d/web", &BTreeSet::new());
        for (name, meta, wants, assigned, now, want) in [
            ("a second before", meta(), Wants::Address, false, 104, Step::Wait(t(105))),
            ("after the delay", meta(), Wants::Address, false, 105, Step::Assign(address)),
            ("it has one", meta(), Wants::Address, true, 105, Step::Leave),
            ("the annotation refuses it", none(), Wants::Address, false, 105, Step::Leave),
            ("no load balancer any more", meta(), Wants::Nothing, true, 105, Step::Clear),
            ("never one", meta(), Wants::Nothing, false, 105, Step::Leave),
            ("it is being deleted", deleted(), Wants::Address, false, 105, Step::Leave),
        ] {
            let delay = Duration::from_secs(5);
            assert_eq!(decide(&meta, wants, assigned, &BTreeSet::new(), "m", delay, t(now)), want, "{name}");
        }
    }

    #[test]
    fn addresses_differ_until_all_are_used() {
        let mut used = BTreeSet::new();
        for n in 0..NETWORKS.len() * HOSTS {
            assert!(used.insert(address(&format!("m/d/{n}"), &used)), "the {n}th repeats one");
        }
        assert!(used.contains(&address("m/d/more", &used)), "none is free");
        assert_ne!(address("m1/d/web", &BTreeSet::new()), address("m2/d/web", &BTreeSet::new()));
    }
}
