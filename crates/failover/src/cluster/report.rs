//! Facts that an agent tells of itself in annotations of its Lease, which it renews anyway (specification/failover.md
//! 1.4).

use std::{collections::BTreeMap, time::Duration};

use ironclad_api::agents::{CERTIFICATE_LIFE, TUNNEL, TUNNEL_OFF, TUNNEL_OPEN};
use jiff::{SignedDuration, Timestamp};

/// A certificate is renewed when this part of its life is left.
const RENEWED_AT: i32 = 3;
/// It is told that it ends when this part is left: several renewals have failed by then.
const TOLD_AT: i32 = 10;
/// Most characters of a reason in an annotation.
const REASON_MAX: usize = 256;

/// Life of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// Its beginning.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
}

impl Life {
    /// True once a third of the life is left.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.has_left(now, RENEWED_AT)
    }

    /// True once a tenth of the life is left.
    #[must_use]
    pub fn is_ending(&self, now: Timestamp) -> bool {
        self.has_left(now, TOLD_AT)
    }

    /// True once it has ended.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until.duration_since(now) <= SignedDuration::ZERO
    }

    /// True if an agent whose clock says `now` should renew a certificate of this life; `got` tells of one that this
    /// process got itself.
    ///
    /// The clock may be off by more than the certificate lasts. Ahead, it would ask for another one each minute, and
    /// behind, it would not ask before the end. So it counts only if it made sense when the certificate came, and the
    /// time that passed counts in any case.
    #[must_use]
    pub fn is_renewed(&self, now: Timestamp, got: Option<Got>) -> bool {
        let is_early = |at: Timestamp| at < self.from;
        let Some(got) = got else { return self.is_due(now) || is_early(now) };
        let makes_sense = !is_early(got.at) && !self.is_due(got.at);
        let life = Duration::try_from(self.until.duration_since(self.from)).unwrap_or_default();
        let has_passed = got.ago >= life - life / RENEWED_AT.unsigned_abs();
        has_passed || (makes_sense && self.is_due(now))
    }

    fn has_left(&self, now: Timestamp, part: i32) -> bool {
        self.until.duration_since(now) <= self.until.duration_since(self.from) / part
    }
}

/// The time at which a process got a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Got {
    /// By its clock then.
    pub at: Timestamp,
    /// Time that passed since, whatever became of that clock.
    pub ago: Duration,
}

/// The connection over which the control plane reaches a member in pull mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tunnel {
    /// The agent opens none.
    Off,
    /// One is open at least.
    Open,
    /// None is open, for this reason.
    Missing(String),
}

/// Facts that an agent tells of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentReport {
    /// Life of its certificate.
    pub certificate: Option<Life>,
    /// `None` before the first attempt to open one.
    pub tunnel: Option<Tunnel>,
}

impl AgentReport {
    /// Reads the annotations of a Lease. What can't be read is not told.
    #[must_use]
    pub fn of(annotations: &BTreeMap<String, String>) -> Self {
        let certificate = annotations.get(CERTIFICATE_LIFE).and_then(|life| {
            let (from, until) = life.split_once('/')?;
            Some(Life { from: from.parse().ok()?, until: until.parse().ok()? })
        });
        let tunnel = annotations.get(TUNNEL).map(|tunnel| match tunnel.as_str() {
            TUNNEL_OFF => Tunnel::Off,
            TUNNEL_OPEN => Tunnel::Open,
            why => Tunnel::Missing(why.chars().take(REASON_MAX).collect()),
        });
        Self { certificate, tunnel }
    }

    /// Puts the facts into annotations of a Lease. What is not known leaves the annotation as it is.
    pub fn annotate(&self, annotations: &mut BTreeMap<String, String>) {
        if let Some(Life { from, until }) = &self.certificate {
            annotations.insert(CERTIFICATE_LIFE.to_owned(), format!("{from}/{until}"));
        }
        if let Some(tunnel) = &self.tunnel {
            let text = match tunnel {
                Tunnel::Off => TUNNEL_OFF.to_owned(),
                Tunnel::Open => TUNNEL_OPEN.to_owned(),
                Tunnel::Missing(why) => why.chars().take(REASON_MAX).collect(),
            };
            annotations.insert(TUNNEL.to_owned(), text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::at;

    #[test]
    fn a_certificate_is_renewed_before_its_end_is_told() {
        let life = Life { from: at(0), until: at(900) };
        for (now, due, ending, over) in [
            (0, false, false, false),
            (599, false, false, false),
            (600, true, false, false),
            (809, true, false, false),
            (810, true, true, false),
            (899, true, true, false),
            (900, true, true, true),
        ] {
            let now = at(now);
            assert_eq!((life.is_due(now), life.is_ending(now), life.is_over(now)), (due, ending, over), "{now}");
        }
    }

    #[test]
    fn renewals_do_not_depend_on_a_clock_that_is_an_hour_off() {
        // Fifteen minutes, signed at 10,000 with five minutes for slow clocks.
        let life = Life { from: at(9_700), until: at(10_600) };
        let got = |at_: i64, ago| Some(Got { at: at(at_), ago: Duration::from_secs(ago) });
        let (right, ahead, behind) = (10_000, 13_600, 6_400);
        for (name, now, got, want) in [
            ("found in the file, not due", right, None, false),
            ("found, due", 10_300, None, true),
            ("found, from the future: the clock is behind, and it may be due", behind, None, true),
            ("got, not due", 10_299, got(right, 299), false),
            ("got, due", 10_300, got(right, 300), true),
            ("got with a clock ahead: over by that clock, and not renewed each minute", ahead, got(ahead, 1), false),
            ("a minute before", ahead + 599, got(ahead, 599), false),
            ("once two thirds have passed", ahead + 600, got(ahead, 600), true),
            ("got with a clock behind", behind + 599, got(behind, 599), false),
            ("the same there", behind + 600, got(behind, 600), true),
            ("a clock that is set right later", 10_599, got(behind, 599), false),
            ("a process that slept: its clock ran on", 10_300, got(right, 5), true),
        ] {
            assert_eq!(life.is_renewed(at(now), got), want, "{name}");
        }
    }

    #[test]
    fn annotations_say_what_is_known() {
        let life = Life { from: at(0), until: at(900) };
        for tunnel in [None, Some(Tunnel::Off), Some(Tunnel::Open), Some(Tunnel::Missing("no route to host".into()))] {
            let report = AgentReport { certificate: Some(life), tunnel };
            let mut annotations = BTreeMap::new();
            report.annotate(&mut annotations);
            assert_eq!(AgentReport::of(&annotations), report);
        }
        let mut annotations = BTreeMap::from([(TUNNEL.to_owned(), TUNNEL_OPEN.to_owned())]);
        AgentReport::default().annotate(&mut annotations);
        assert_eq!(AgentReport::of(&annotations).tunnel, Some(Tunnel::Open), "of the process before");
    }

    #[test]
    fn annotations_that_others_wrote_are_bounded() {
        let annotations = BTreeMap::from([
            (CERTIFICATE_LIFE.to_owned(), "yesterday/2026-01-01T00:00:00Z".to_owned()),
            (TUNNEL.to_owned(), "ä".repeat(100_000)),
        ]);
        let report = AgentReport::of(&annotations);
        assert_eq!(report.certificate, None);
        assert_eq!(report.tunnel, Some(Tunnel::Missing("ä".repeat(REASON_MAX))));
    }
}
