//! Settings that leaders announce in a ConfigMap, for readers that cannot ask their processes
//! (specification/operations.md 4.4).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::leader::{Configuration, EVICTIONS, Running};

/// The ConfigMap of namespace `karmada-system` in which leaders announce their settings.
pub const CONFIG_MAP: &str = "ironclad-configuration";
/// Maximum number of announcements that are read: one for each Lease.
const ANNOUNCEMENTS_MAX: usize = 16;
/// The controller whose process decides on placement.
const PLACEMENT: &str = "scheduler";
/// Controller whose process decides with the flags of FederatedHPAs.
const AUTOSCALING: &str = "federatedHorizontalPodAutoscaler";

/// Name of a Lease.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeaseName {
    pub namespace: String,
    pub name: String,
}

/// Settings that a leader announced at the start of its term.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Announcement {
    /// Start of the term.
    pub at: Timestamp,
    /// The Lease by which it leads; `None` without leader election.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseName>,
    /// Its identity in the Lease.
    #[serde(default)]
    pub holder: String,
    /// The settings.
    pub configuration: Configuration,
}

impl Announcement {
    /// Its key in the data of the ConfigMap: processes that share the work have a Lease each, so each has a key.
    #[must_use]
    pub fn key(&self) -> String {
        self.lease.as_ref().map_or("process".to_owned(), |lease| format!("{}.{}", lease.namespace, lease.name))
    }

    /// As the data of the ConfigMap.
    #[must_use]
    pub fn data(&self) -> BTreeMap<String, String> {
        // Plain data always serialises.
        BTreeMap::from([(self.key(), serde_json::to_string(self).unwrap_or_default())])
    }

    /// All announcements in the data of the ConfigMap, the newest first; what can't be read is left out.
    #[must_use]
    pub fn read(data: &BTreeMap<String, String>) -> Vec<Self> {
        let mut all: Vec<Self> = data.values().filter_map(|text| serde_json::from_str(text).ok()).collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.at));
        all.truncate(ANNOUNCEMENTS_MAX);
        all
    }

    /// Combines announcements, the newest first, by the holders of their Leases (empty: nobody holds it). Counted are
    /// those of present holders; where nobody leads, those of the last ones.
    ///
    /// # Errors
    /// The reason why none counts.
    pub fn combined(all: &[Self], holder: impl Fn(&LeaseName) -> String) -> Result<Configuration, String> {
        let holders: Vec<Option<String>> = all.iter().map(|one| one.lease.as_ref().map(&holder)).collect();
        let with = |counts: fn(&str, &str) -> bool| -> Vec<&Configuration> {
            let counted = all.iter().zip(&holders).filter(|(one, now)| match now {
                Some(now) => counts(now, &one.holder),
                None => true,
            });
            counted.map(|(one, _)| &one.configuration).collect()
        };
        let mut counted = with(|now, own| now == own);
        if counted.is_empty() {
            counted = with(|now, _| now.is_empty());
        }
        if let Some(configuration) = merged(&counted) {
            return Ok(configuration);
        }
        Err(match holders.iter().flatten().next() {
            Some(holder) => {
                format!("the leader {holder} has not announced its settings yet, or is of an older version")
            }
            None => format!("no leader has announced its settings in ConfigMap karmada-system/{CONFIG_MAP}"),
        })
    }
}

/// The settings of processes that share the work, the newest first: placement is decided by the one whose scheduler
/// runs, evictions and FederatedHPAs by those that decide on them, and a controller runs if it runs in any.
fn merged(all: &[&Configuration]) -> Option<Configuration> {
    let base = all.iter().find(|one| one.runs(PLACEMENT)).or(all.first())?;
    let mut merged = (*base).clone();
    merged.evictions = all.iter().find(|one| one.runs(EVICTIONS)).and_then(|one| one.evictions.clone());
    if let Some(one) = all.iter().find(|one| one.runs(AUTOSCALING)) {
        merged.autoscaler = one.autoscaler.clone();
    }
    for controller in all.iter().flat_map(|one| &one.controllers) {
        match merged.controllers.iter_mut().find(|known| known.name == controller.name) {
            Some(known) if controller.state == Running::Running => known.state = Running::Running,
            Some(_) => {}
            None => merged.controllers.push(controller.clone()),
        }
    }
    Some(merged)
}

#[cfg(test)]
mod tests {
    use ironclad_failover::Flags;
    use ironclad_fleet::gates::Gates;
    use ironclad_scheduling::Options;
    use jiff::SignedDuration;

    use super::*;
    use crate::leader::{ControllerState, Settings};

    fn controller(name: &str, state: Running) -> ControllerState {
        ControllerState { name: name.to_owned(), state, gate: None, acts_on: Vec::new() }
    }

    fn announced(at: i64, lease: Option<&str>, holder: &str, running: &[&str]) -> Announcement {
        let state = |name| if running.contains(&name) { Running::Running } else { Running::SwitchedOff };
        let controllers = ["scheduler", "taint-manager", "works"].map(|name| controller(name, state(name))).to_vec();
        let options = Options { scheduler_name: holder.to_owned(), ..Options::default() };
        let mut failover = Flags::default();
        failover.eviction.max_evictions_per_episode = u32::try_from(at).unwrap();
        Announcement {
            at: Timestamp::from_second(at).unwrap(),
            lease: lease.map(|name| LeaseName { namespace: "karmada-system".into(), name: name.into() }),
            holder: holder.to_owned(),
            configuration: Configuration::new(&Settings::new(Gates::default(), &options), controllers)
                .with_evictions(&failover),
        }
    }

    #[test]
    fn announcements_of_present_leaders_count() {
        let all = ["scheduler", "taint-manager", "works"].as_slice();
        let (placement, rest) = (["scheduler"].as_slice(), ["taint-manager", "works"].as_slice());
        let one = announced(1, Some("ironclad"), "a", all);
        // The name of the scheduler tells whose flags are used, the maximum whose flags of evictions.
        let not_yet = "the leader b has not announced its settings yet, or is of an older version";
        for (name, announcements, holders, want) in [
            ("the leader", vec![one.clone()], vec![("ironclad", "a")], Ok(("a", Some(1), "RRR"))),
            ("nobody leads: the last one", vec![one.clone()], vec![], Ok(("a", Some(1), "RRR"))),
            ("another one leads", vec![one.clone()], vec![("ironclad", "b")], Err(not_yet)),
            ("without election", vec![announced(1, None, "a", all)], vec![], Ok(("a", Some(1), "RRR"))),
            (
                "two that share the work",
                vec![announced(1, Some("ironclad"), "a", rest), announced(2, Some("scheduler"), "b", placement)],
                vec![("ironclad", "a"), ("scheduler", "b")],
                Ok(("b", Some(1), "RRR")),
            ),
            (
                "one of them was given up",
                vec![announced(1, Some("scheduler"), "b", placement), announced(2, Some("ironclad"), "a", all)],
                vec![("ironclad", "a")],
                Ok(("a", Some(2), "RRR")),
            ),
            (
                "nobody decides on evictions",
                vec![announced(1, Some("ironclad"), "a", &["scheduler"])],
                vec![("ironclad", "a")],
                Ok(("a", None, "R--")),
            ),
            (
                "none",
                vec![],
                vec![],
                Err("no leader has announced its settings in ConfigMap karmada-system/ironclad-configuration"),
            ),
        ] {
            let data = announcements.iter().flat_map(Announcement::data).collect();
            let read = Announcement::read(&data);
            assert_eq!(read.len(), announcements.len(), "{name}: each has its key");
            let holder = |lease: &LeaseName| {
                let held = holders.iter().find(|(of, _)| *of == lease.name);
                held.map(|(_, holder)| (*holder).to_owned()).unwrap_or_default()
            };
            let got = Announcement::combined(&read, holder).map(|one| {
                let states = one.controllers.iter().map(|c| if c.state == Running::Running { 'R' } else { '-' });
                let most = one.evictions.as_ref().map(|settings| settings.flags.eviction.max_evictions_per_episode);
                (one.scheduler.scheduler_name.clone(), most, states.collect::<String>())
            });
            let want = want.map(|(by, most, states)| (by.to_owned(), most, states.to_owned()));
            assert_eq!(got, want.map_err(str::to_owned), "{name}");
        }
    }

    #[test]
    fn flags_of_autoscalers_are_those_of_the_process_that_runs_them() {
        let mut scheduler = announced(2, Some("scheduler"), "b", &["scheduler"]).configuration;
        let mut autoscaler = announced(1, Some("ironclad"), "a", &[]).configuration;
        autoscaler.controllers.push(controller(AUTOSCALING, Running::Running));
        autoscaler.autoscaler.sync_period = SignedDuration::from_secs(1);
        assert_eq!(merged(&[&scheduler, &autoscaler]).unwrap().autoscaler.sync_period.as_secs(), 1);
        scheduler.controllers.push(controller(AUTOSCALING, Running::SwitchedOff));
        assert_eq!(
            merged(&[&scheduler, &autoscaler]).unwrap().autoscaler.sync_period.as_secs(),
            1,
            "switched off there"
        );
    }

    #[test]
    fn few_announcements_are_read_and_those_that_cannot_be_are_left_out() {
        let many = (1..=40).flat_map(|n| announced(n, Some(&format!("l{n}")), "a", &[]).data());
        let mut data: BTreeMap<String, String> = many.collect();
        data.insert("karmada-system.x".to_owned(), "{".to_owned());
        let read = Announcement::read(&data);
        assert_eq!((read.len(), read[0].at.as_second(), read[15].at.as_second()), (16, 40, 25));
    }
}
