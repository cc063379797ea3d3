//! Keeping new work away from clusters, and letting it come again (specification/failover.md 9.2). Neither moves
//! anything.

pub mod command;

use ironclad_api::{
    Taint,
    taints::{NO_SCHEDULE, UNSCHEDULABLE},
};

use crate::{taint, write::Mode};

/// Direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cordon {
    /// New copies are not scheduled to the cluster.
    Close,
    /// It comes again.
    Open,
}

impl Cordon {
    /// Word that is printed for a cluster that was changed or needed no change.
    #[must_use]
    pub fn outcome(self, changed: bool) -> &'static str {
        match (self, changed) {
            (Self::Close, true) => "cordoned",
            (Self::Open, true) => "uncordoned",
            (Self::Close, false) => "already cordoned",
            (Self::Open, false) => "already uncordoned",
        }
    }

    /// The taints after it; `None` if they are so already. Other taints, and their places, stay.
    #[must_use]
    pub fn applied(self, taints: &[Taint]) -> Option<Vec<Taint>> {
        let ours = |taint: &Taint| taint.key == UNSCHEDULABLE && taint.effect == NO_SCHEDULE;
        let closed = taints.iter().any(ours);
        match (self, closed) {
            (Self::Close, true) | (Self::Open, false) => None,
            (Self::Open, true) => Some(taints.iter().filter(|taint| !ours(taint)).cloned().collect()),
            (Self::Close, false) => {
                let (key, effect) = (UNSCHEDULABLE.to_owned(), NO_SCHEDULE.to_owned());
                let cordon = Taint { key, effect, value: None, time_added: None };
                Some(taints.iter().cloned().chain([cordon]).collect())
            }
        }
    }
}

/// Cordons or uncordons a cluster. Returns true if that changed something.
///
/// # Errors
/// If there is no such cluster, or it can't be changed.
pub async fn cordon(plane: &kube::Client, name: &str, which: Cordon) -> Result<bool, taint::TaintError> {
    change(plane, name, which, Mode::Keep).await
}

pub(crate) async fn change(
    plane: &kube::Client,
    name: &str,
    which: Cordon,
    mode: Mode,
) -> Result<bool, taint::TaintError> {
    let cluster = taint::find(plane, name).await?;
    taint::change(plane, cluster, mode, |taints| Ok(which.applied(taints))).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cordon_and_uncordon_edit_the_taints() {
        let taint = |key: &str, effect: &str| Taint { key: key.into(), effect: effect.into(), ..Taint::default() };
        let (other, cordon) = (taint("k", "NoExecute"), taint(UNSCHEDULABLE, NO_SCHEDULE));
        let alike = taint(UNSCHEDULABLE, "NoExecute");
        for (name, which, existing, want) in [
            ("closed", Cordon::Close, vec![other.clone()], Some(vec![other.clone(), cordon.clone()])),
            ("closed already", Cordon::Close, vec![cordon.clone()], None),
            ("uncordon: other taints are kept", Cordon::Open, vec![other.clone(), cordon.clone()], Some(vec![other])),
            ("open already", Cordon::Open, vec![alike.clone()], None),
            ("another effect is another taint", Cordon::Close, vec![alike.clone()], Some(vec![alike, cordon])),
        ] {
            assert_eq!(which.applied(&existing), want, "{name}");
        }
        assert_eq!(Cordon::Close.outcome(false), "already cordoned");
    }
}
