//! Decision of a candidate about the Lease that it reads.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use tokio::time::Instant;

/// The Lease as last read, and the time of our own clock since which it is unchanged. The clocks of others may be
/// wrong.
#[derive(Debug, Default)]
pub(super) struct Observed(Option<(Option<LeaseSpec>, Instant)>);

/// Next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// There is no Lease.
    Create,
    /// It has no holder, or the holder did not renew it in time.
    Take,
    /// This process holds it: an answer was lost.
    Renew,
    /// Another process holds it.
    Wait,
}

pub(super) fn judge(lease: Option<&Lease>, identity: &str, observed: &mut Observed, mono: Instant) -> Step {
    let Some(lease) = lease else {
        observed.0 = None;
        return Step::Create;
    };
    let since = match &observed.0 {
        Some((spec, since)) if *spec == lease.spec => *since,
        _ => {
            observed.0 = Some((lease.spec.clone(), mono));
            mono
        }
    };
    let Some(spec) = &lease.spec else { return Step::Take };
    let lasts = Duration::from_secs(u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default());
    match spec.holder_identity.as_deref().unwrap_or_default() {
        "" => Step::Take,
        holder if holder == identity => Step::Renew,
        _ if mono >= since + lasts => Step::Take,
        _ => Step::Wait,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    fn lease(holder: &str, renewed: i64) -> Lease {
        let spec = LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
            ..LeaseSpec::default()
        };
        Lease { spec: Some(spec), ..Lease::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn steps() {
        use Step::{Create, Renew, Take, Wait};
        let start = ironclad_seam::Clock::system().mono();
        // Holder and renewal time of the Lease, by the second of the read.
        for (name, looks, want) in [
            ("no lease", vec![(0, None)], Create),
            ("given back", vec![(0, Some(lease("", 0)))], Take),
            ("ours, by an answer that was lost", vec![(0, Some(lease("me", 0)))], Renew),
            ("another's", vec![(0, Some(lease("other", 0)))], Wait),
            (
                "long expired by its own words, but seen for the first time",
                vec![(9_000, Some(lease("other", 0)))],
                Wait,
            ),
            ("one second before", vec![(0, Some(lease("other", 0))), (14, Some(lease("other", 0)))], Wait),
            (
                "not renewed for its whole duration",
                vec![(0, Some(lease("other", 0))), (15, Some(lease("other", 0)))],
                Take,
            ),
            (
                "renewed, by a clock that is behind",
                vec![(0, Some(lease("other", 0))), (15, Some(lease("other", -90)))],
                Wait,
            ),
            (
                "renewed, and then no more",
                vec![(0, Some(lease("other", 0))), (10, Some(lease("other", 10))), (24, Some(lease("other", 10)))],
                Wait,
            ),
            (
                "for long enough",
                vec![(0, Some(lease("other", 0))), (10, Some(lease("other", 10))), (25, Some(lease("other", 10)))],
                Take,
            ),
            ("without any content", vec![(0, Some(Lease::default()))], Take),
        ] {
            let mut observed = Observed::default();
            let mut step = Wait;
            for (second, lease) in looks {
                step = judge(lease.as_ref(), "me", &mut observed, start + Duration::from_secs(second));
            }
            assert_eq!(step, want, "{name}");
        }
    }
}
