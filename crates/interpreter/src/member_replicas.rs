//! Copies whose replicas an autoscaler in the member decides
//! (specification/autoscaling.md 6.6).
//!
//! An update of such a copy must not write a number that is older than the member's own. So the manifest says where its
//! number comes from, and the member's object keeps what was applied last: only a number that somebody else chose anew
//! is applied.

use std::fmt;

use ironclad_api::annotations::FEDERATED_HPA_APPLIED_REPLICAS;
use serde_json::Value;

use crate::lens;

/// Origin of the replicas in a manifest: annotation `federatedhpa.karmada.io/applied-replicas`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberReplicas {
    /// Replicas of the template, or those that the record of the member's decision is for: another number is what a
    /// user wants.
    pub template: i64,
    /// Replicas of the copy but for the member's decision: another number is what the scheduler, or an override policy
    /// of a user, wants.
    pub given: i64,
    /// True if the manifest says what the member decided.
    pub decided: bool,
    /// True if the member's autoscaler goes to zero and comes back by itself. Any other one does nothing at zero.
    pub may_rest: bool,
}

impl MemberReplicas {
    /// The word for [`MemberReplicas::decided`].
    const DECIDED: &'static str = "member";
    /// The word for [`MemberReplicas::may_rest`].
    const MAY_REST: &'static str = "zero";

    /// Reads the annotation of a manifest, or of an object in a member.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let mut words = lens::annotation(object, FEDERATED_HPA_APPLIED_REPLICAS)?.split('/').peekable();
        let (template, given) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let decided = words.next_if_eq(&Self::DECIDED).is_some();
        let may_rest = words.next_if_eq(&Self::MAY_REST).is_some();
        words.next().is_none().then_some(Self { template, given, decided, may_rest })
    }

    /// Returns true if the member's number is newer than the one of this manifest, which was preceded by `applied`.
    #[must_use]
    pub fn leaves_to_member(self, applied: Self) -> bool {
        self.template == applied.template && (self.decided || self.given == applied.given)
    }
}

impl fmt::Display for MemberReplicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.template, self.given)?;
        for word in [(self.decided, Self::DECIDED), (self.may_rest, Self::MAY_REST)].iter().filter(|(is, _)| *is) {
            write!(f, "/{}", word.1)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Interpreter;

    fn web(mark: Option<&str>, replicas: Option<i64>) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "annotations": {FEDERATED_HPA_APPLIED_REPLICAS: mark}},
            "spec": {"replicas": replicas}})
    }

    #[test]
    fn numbers_that_somebody_else_chose_are_applied() {
        for (name, desired, desired_replicas, applied, member, want) in [
            ("nothing changed", Some("4/1"), 1, Some("4/1"), Some(8), 8),
            ("the member's decision is recorded", Some("4/1/member"), 8, Some("4/1"), Some(9), 9),
            ("it decided again", Some("4/1/member"), 9, Some("4/1/member"), Some(7), 7),
            ("the record is not needed any more", Some("4/1"), 1, Some("4/1/member"), Some(1), 1),
            ("the scheduler moved replicas", Some("4/2"), 2, Some("4/1"), Some(1), 2),
            ("it did, and the member has decided", Some("4/2/member"), 8, Some("4/1/member"), Some(9), 9),
            ("a user changed the template", Some("9/3"), 3, Some("4/1/member"), Some(8), 3),
            (
                "a user changed it, and the record is still in force",
                Some("4/3/member"),
                8,
                Some("4/1/member"),
                Some(9),
                9,
            ),
            ("the end of that record", Some("9/3"), 3, Some("4/3/member"), Some(9), 3),
            ("a user changed it, but not for this cluster", Some("5/1"), 1, Some("4/1/member"), Some(8), 1),
            ("the first time", Some("4/1"), 1, None, Some(8), 1),
            ("the last time", None, 1, Some("4/1/member"), Some(8), 1),
            ("a member at zero has no autoscaler that acts", Some("4/1"), 1, Some("4/1"), Some(0), 1),
            ("one whose autoscaler brings it back", Some("4/1/zero"), 1, Some("4/1/zero"), Some(0), 0),
            ("a user changes the template meanwhile", Some("9/3/zero"), 3, Some("4/1/zero"), Some(0), 3),
            ("a member without replicas", Some("4/1"), 1, Some("4/1"), None, 1),
            ("a mark that cannot be read", Some("4/1/else"), 1, Some("4/1/else"), Some(8), 1),
            ("nor can this one", Some("many"), 1, Some("many"), Some(8), 1),
        ] {
            let (desired, observed) = (web(desired, Some(desired_replicas)), web(applied, member));
            let kept = Interpreter::default().retain(&desired, &observed).unwrap();
            assert_eq!(kept["spec"]["replicas"], json!(want), "{name}");
        }
    }

    #[test]
    fn marks_are_read_back() {
        for mark in [
            MemberReplicas { template: 4, given: 1, decided: false, may_rest: false },
            MemberReplicas { template: 40, given: 0, decided: true, may_rest: false },
            MemberReplicas { template: 4, given: 1, decided: false, may_rest: true },
            MemberReplicas { template: 4, given: 1, decided: true, may_rest: true },
        ] {
            assert_eq!(MemberReplicas::of(&web(Some(&mark.to_string()), None)), Some(mark));
        }
    }
}
