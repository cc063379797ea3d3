//! Answers of the members' indexes for the fleet, shared by all decisions with the same question.
//!
//! A question that was asked before costs the clusters that changed since, independent of the size of the fleet.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
};

use ironclad_fleet::ClusterName;

use super::{Question, Subtracting};

/// Largest number of questions with kept answers; beyond it, the one that was not asked for the longest time is
/// dropped.
const QUESTIONS_MAX: usize = 256;

/// Answers by question.
#[derive(Debug, Default)]
pub struct Answers {
    /// Number of the last change.
    last: u64,
    /// Clusters by the number of their last change.
    changes: BTreeMap<u64, ClusterName>,
    changed: BTreeMap<ClusterName, u64>,
    kept: BTreeMap<(Question, Subtracting), Kept>,
    asked: u64,
}

#[derive(Debug, Default)]
struct Kept {
    seen: u64,
    asked: u64,
    answers: Arc<BTreeMap<ClusterName, i64>>,
}

impl Answers {
    /// Records that the index of a cluster changed, was added or removed.
    pub fn changed(&mut self, cluster: &ClusterName) {
        self.last += 1;
        if let Some(before) = self.changed.insert(cluster.clone(), self.last) {
            self.changes.remove(&before);
        }
        self.changes.insert(self.last, cluster.clone());
    }

    /// Answers of all clusters that have one. `ask` is called for each cluster that changed since the question was
    /// asked last; `None` is no opinion.
    pub fn ask(
        &mut self,
        question: &Question,
        subtracting: Subtracting,
        mut ask: impl FnMut(&ClusterName) -> Option<i64>,
    ) -> Arc<BTreeMap<ClusterName, i64>> {
        self.asked += 1;
        let key = (question.clone(), subtracting);
        if !self.kept.contains_key(&key)
            && self.kept.len() >= QUESTIONS_MAX
            && let Some(oldest) = self.kept.iter().min_by_key(|(_, kept)| kept.asked).map(|(key, _)| key.clone())
        {
            self.kept.remove(&oldest);
        }
        let kept = self.kept.entry(key).or_default();
        kept.asked = self.asked;
        if kept.seen < self.last {
            let answers = Arc::make_mut(&mut kept.answers);
            for cluster in self.changes.range((Excluded(kept.seen), Unbounded)).map(|(_, cluster)| cluster) {
                match ask(cluster) {
                    Some(fits) => drop(answers.insert(cluster.clone(), fits)),
                    None => drop(answers.remove(cluster)),
                }
            }
            kept.seen = self.last;
        }
        kept.answers.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(namespace: &str) -> Question {
        Question::replicas(namespace, None)
    }

    #[test]
    fn only_changed_clusters_are_asked_again() {
        let mut answers = Answers::default();
        let ask = |answers: &mut Answers, fits: &[(&str, i64)]| {
            let mut asked = Vec::new();
            let got = answers.ask(&question("shop"), Subtracting::Assigned, |cluster| {
                asked.push(cluster.to_string());
                fits.iter().find(|(name, _)| **name == *cluster.0).map(|(_, fits)| *fits)
            });
            let got: Vec<_> = got.iter().map(|(name, fits)| (name.to_string(), *fits)).collect();
            (asked, got)
        };
        let owned =
            |rows: &[(&str, i64)]| rows.iter().map(|(name, fits)| ((*name).to_owned(), *fits)).collect::<Vec<_>>();
        assert_eq!(ask(&mut answers, &[]), (vec![], vec![]), "no clusters");
        answers.changed(&"m1".into());
        answers.changed(&"m2".into());
        let both = [("m1", 1), ("m2", 2)];
        assert_eq!(ask(&mut answers, &both), (vec!["m1".to_owned(), "m2".to_owned()], owned(&both)));
        assert_eq!(ask(&mut answers, &[]), (vec![], owned(&both)), "nothing changed");
        answers.changed(&"m2".into());
        answers.changed(&"m2".into());
        assert_eq!(
            ask(&mut answers, &[("m2", 5)]),
            (vec!["m2".to_owned()], owned(&[("m1", 1), ("m2", 5)])),
            "once, however often it changed"
        );
        answers.changed(&"m1".into());
        assert_eq!(ask(&mut answers, &[]), (vec!["m1".to_owned()], owned(&[("m2", 5)])), "it has no opinion any more");
        let all = answers.ask(&question("other"), Subtracting::Assigned, |_| Some(7));
        assert_eq!(all.len(), 2, "another question asks every cluster");
        for n in 0..2 * QUESTIONS_MAX {
            answers.ask(&question(&n.to_string()), Subtracting::Assumed, |_| None);
        }
        assert_eq!(answers.kept.len(), QUESTIONS_MAX);
    }
}
