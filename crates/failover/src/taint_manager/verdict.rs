//! Verdict on a binding on a faulty cluster: evicted when, or why not (specification/failover.md 3.2 to 3.6).
//!
//! The user's settings are read once, when a binding is first seen in an episode, and frozen ([`FailoverSettings`]);
//! the taints are always the current ones. Edits of policies during a fault change nothing; added and removed taints
//! do.

use ironclad_api::{
    Taint, Toleration,
    annotations::APPLIED_PLACEMENT,
    eviction::{TAINT_PREFER_NO_EXECUTE, TAINT_UNTOLERATED},
    policy::{Placement, PurgeMode},
    taints::{NO_EXECUTE, PREFER_NO_EXECUTE},
};
use ironclad_fleet::{
    Binding,
    because::eviction::Reason,
    taint::{self, tolerates},
};
use jiff::{SignedDuration, Timestamp};

use crate::flags::eviction::EvictionFlags;

/// Default wait after a PreferNoExecute taint (IR-11).
const PREFER_NO_EXECUTE_WAIT_SECONDS: i32 = 300;

/// A user's failover settings of one binding, as they were when the fault was first seen (IR-10).
#[derive(Debug, Clone, PartialEq)]
pub struct FailoverSettings {
    /// The tolerations of the placement that was applied last, and of the present one.
    tolerations: Box<[Toleration]>,
    /// `failover.cluster`: its purge mode and its seconds; `None` where the binding did not opt in.
    opted_in: Option<(PurgeMode, i32)>,
}

impl FailoverSettings {
    /// Reads it from a binding. Tolerations of the placement as last scheduled count, and those of the present one,
    /// which may wait for clusters (docs/decisions/0203).
    ///
    /// # Errors
    /// If there is no placement, or it can't be read: then nothing is evicted (IR-9).
    pub fn of(binding: &Binding) -> Result<Self, Reason> {
        let annotations = binding.metadata().annotations.as_ref();
        let present = binding.spec().placement.as_ref().map(|placement| &placement.cluster_tolerations);
        let mut tolerations = match annotations.and_then(|all| all.get(APPLIED_PLACEMENT)) {
            Some(text) => match serde_json::from_str::<Placement>(text) {
                Ok(placement) => placement.cluster_tolerations,
                Err(error) => return Err(Reason::PlacementUnreadable { error: error.to_string() }),
            },
            None if present.is_none() => {
                return Err(Reason::PlacementUnreadable { error: "there is none".to_owned() });
            }
            None => Vec::new(),
        };
        for toleration in present.into_iter().flatten() {
            if !tolerations.contains(toleration) {
                tolerations.push(toleration.clone());
            }
        }
        let cluster = binding.spec().failover.as_ref().and_then(|failover| failover.cluster.as_ref());
        let seconds = |seconds: Option<i32>| seconds.unwrap_or(PREFER_NO_EXECUTE_WAIT_SECONDS);
        Ok(Self {
            tolerations: tolerations.into_boxed_slice(),
            opted_in: cluster.map(|c| (c.purge_mode(), seconds(c.toleration_seconds))),
        })
    }
}

/// One effect that evicts: when, and by which taint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Due time.
    pub due: Timestamp,
    /// The taint, as messages print it.
    pub taint: String,
}

/// Everything that evicts a binding from a cluster; at least one is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Causes {
    /// The first NoExecute taint that is not tolerated any more: passive migration.
    pub no_execute: Option<Cause>,
    /// The first PreferNoExecute taint: active migration.
    pub prefer_no_execute: Option<Cause>,
}

impl Causes {
    /// Due time of the first of them.
    #[must_use]
    pub fn due(&self) -> Timestamp {
        let due = [&self.no_execute, &self.prefer_no_execute].into_iter().flatten().map(|cause| cause.due).min();
        due.unwrap_or(Timestamp::MAX)
    }

    /// Their taints, as messages print them.
    #[must_use]
    pub fn taints(&self) -> Vec<String> {
        [&self.no_execute, &self.prefer_no_execute].into_iter().flatten().map(|cause| cause.taint.clone()).collect()
    }

    /// The reason of the task (IR-25): NoExecute, unless PreferNoExecute alone asks for it or asks for it first.
    #[must_use]
    pub fn task_reason(&self) -> &'static str {
        match (&self.no_execute, &self.prefer_no_execute) {
            (Some(no), Some(prefer)) if prefer.due < no.due => TAINT_PREFER_NO_EXECUTE,
            (None, Some(_)) => TAINT_PREFER_NO_EXECUTE,
            _ => TAINT_UNTOLERATED,
        }
    }
}

/// Verdict on one binding by a faulty cluster's taints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Not evicted, for this reason.
    Stays(Reason),
    /// Evicted at `causes.due()`, with this purge mode.
    Goes {
        /// Causes with their due times.
        causes: Causes,
        /// Purge mode of the old copy (4.2).
        purge_mode: PurgeMode,
    },
}

impl Verdict {
    /// The reason, as `why` prints it.
    #[must_use]
    pub fn because(&self) -> Reason {
        match self {
            Self::Stays(reason) => reason.clone(),
            Self::Goes { causes, .. } => Reason::Affected { taints: causes.taints(), due: causes.due().to_string() },
        }
    }
}

/// Judges a binding by its settings. `first_seen` returns the time of first sight of a taint without `timeAdded`.
#[must_use]
pub fn judge(
    settings: &FailoverSettings,
    taints: &[Taint],
    first_seen: impl Fn(&Taint) -> Timestamp,
    flags: &EvictionFlags,
) -> Verdict {
    let added = |taint: &Taint| taint.time_added.as_ref().map_or_else(|| first_seen(taint), |time| time.0);
    let earliest = |causes: &mut dyn Iterator<Item = Cause>| causes.min_by_key(|cause| cause.due);
    let of_effect = |effect: &'static str| taints.iter().filter(move |taint| taint.effect == effect);
    let (any_no_execute, any_prefer) = (of_effect(NO_EXECUTE).next(), of_effect(PREFER_NO_EXECUTE).next());
    let mut tolerated = of_effect(NO_EXECUTE).filter_map(|taint| {
        let due = tolerated_until(&settings.tolerations, taint, added(taint))?;
        Some(Cause { due, taint: taint::text(taint) })
    });
    let no_execute = if flags.enable_no_execute_taint_eviction { earliest(&mut tolerated) } else { None };
    let prefer_no_execute = settings.opted_in.and_then(|(_, seconds)| {
        earliest(
            &mut of_effect(PREFER_NO_EXECUTE)
                .map(|taint| Cause { due: later(added(taint), i64::from(seconds.max(0))), taint: taint::text(taint) }),
        )
    });
    if no_execute.is_none() && prefer_no_execute.is_none() {
        return Verdict::Stays(match (any_no_execute, any_prefer) {
            (None, None) => Reason::NotTainted,
            (None, Some(_)) => Reason::NotOptedIn,
            (Some(_), _) if !flags.enable_no_execute_taint_eviction => Reason::NoExecuteOff,
            (Some(_), _) => Reason::Tolerated,
        });
    }
    let purge_mode = settings.opted_in.map_or_else(|| flags.no_execute_taint_eviction_purge_mode, |(mode, _)| mode);
    Verdict::Goes { causes: Causes { no_execute, prefer_no_execute }, purge_mode }
}

/// Time until which a NoExecute taint is tolerated; `None` is forever. Of several tolerations the most permissive
/// counts, whatever their order (IR-8).
fn tolerated_until(tolerations: &[Toleration], taint: &Taint, added: Timestamp) -> Option<Timestamp> {
    let matching: Vec<_> = tolerations.iter().filter(|toleration| tolerates(toleration, taint)).collect();
    if matching.iter().any(|toleration| toleration.toleration_seconds.is_none()) {
        return None;
    }
    let seconds = matching.iter().filter_map(|toleration| toleration.toleration_seconds).max();
    Some(later(added, seconds.unwrap_or(0).max(0)))
}

fn later(from: Timestamp, seconds: i64) -> Timestamp {
    from.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
