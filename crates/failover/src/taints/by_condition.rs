//! The taints that a cluster gets by itself: they keep new work away from a cluster that is not ready
//! (specification/failover.md 1.6).

use ironclad_api::{
    Taint, Time,
    cluster::Cluster,
    conditions::{FALSE, TRUE},
    taints::{NO_SCHEDULE, NOT_READY, UNREACHABLE},
};
use jiff::Timestamp;

/// True if clusters are tainted by their Ready condition: `--taint-cluster-by-condition`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ByCondition {
    /// They are.
    #[default]
    On,
    /// Only people and policies taint.
    Off,
}

/// The taints that the cluster should have, if they are not those it has. Existing ones keep their place, value
/// and `timeAdded`; `now` is in whole seconds.
#[must_use]
pub fn wanted(cluster: &Cluster, by_condition: ByCondition, now: Timestamp) -> Option<Vec<Taint>> {
    let (add, remove): (Option<&str>, &[&str]) = match (by_condition, cluster.ready()) {
        (ByCondition::Off, _) => return None,
        // Nothing was ever reported: a taint of unreachability from elsewhere remains.
        (ByCondition::On, None) => (Some(NOT_READY), &[]),
        (ByCondition::On, Some(FALSE)) => (Some(NOT_READY), &[UNREACHABLE]),
        (ByCondition::On, Some(TRUE)) => (None, &[NOT_READY, UNREACHABLE]),
        (ByCondition::On, Some(_)) => (Some(UNREACHABLE), &[NOT_READY]),
    };
    let ours = |taint: &Taint, key: &str| taint.key == key && taint.effect == NO_SCHEDULE;
    let mut taints = cluster.spec.taints.clone();
    taints.retain(|taint| !remove.iter().any(|key| ours(taint, key)));
    if let Some(key) = add.filter(|key| !taints.iter().any(|taint| ours(taint, key))) {
        let (key, effect) = (key.to_owned(), NO_SCHEDULE.to_owned());
        taints.push(Taint { key, effect, value: None, time_added: Some(Time(now)) });
    }
    (taints != cluster.spec.taints).then_some(taints)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{at, cluster, ready};

    #[test]
    fn taints_follow_the_ready_condition() {
        let list = |keys: &[(&str, &str)]| -> Vec<Taint> {
            let taint = |(key, effect): &(&str, &str)| Taint {
                key: (*key).to_owned(),
                effect: (*effect).to_owned(),
                value: None,
                time_added: Some(Time(at(1))),
            };
            keys.iter().map(taint).collect()
        };
        let (not_ready, unreachable) = ((NOT_READY, NO_SCHEDULE), (UNREACHABLE, NO_SCHEDULE));
        let (cordon, mine) = (("cluster.karmada.io/unschedulable", NO_SCHEDULE), (NOT_READY, "NoExecute"));
        for (name, status, taints, want) in [
            ("a new cluster is not ready", None, &[][..], Some(&[not_ready][..])),
            ("nothing reported leaves unreachable alone", None, &[unreachable], Some(&[unreachable, not_ready])),
            ("False", Some("False"), &[], Some(&[not_ready])),
            ("False replaces the taint of Unknown in one write", Some("False"), &[unreachable], Some(&[not_ready])),
            ("False, tainted already", Some("False"), &[not_ready], None),
            ("Unknown", Some("Unknown"), &[not_ready], Some(&[unreachable])),
            ("True removes both", Some("True"), &[not_ready, cordon, unreachable], Some(&[cordon])),
            ("True, nothing to do", Some("True"), &[cordon], None),
            ("NoExecute taints are not removed", Some("True"), &[mine], None),
            (
                "a NoExecute taint does not replace the NoSchedule taint",
                Some("False"),
                &[mine],
                Some(&[mine, not_ready]),
            ),
        ] {
            let mut cluster = cluster("m1");
            if let Some(status) = status {
                ready(&mut cluster, status, 0);
            }
            cluster.spec.taints = list(taints);
            assert_eq!(wanted(&cluster, ByCondition::On, at(1)), want.map(list), "{name}");
            assert_eq!(wanted(&cluster, ByCondition::Off, at(1)), None, "{name}, switched off");
        }
    }
}
