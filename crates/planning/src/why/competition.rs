//! The policies that select a claimed template.

use ironclad_fleet::PolicyKey;
use ironclad_propagation::{
    detector::claim::Claim,
    policy_match::{self, Policy},
    selector::Implicit,
    template::Identity,
};
use serde_json::Value;

/// The policy that has a template, and the others that select it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Competition {
    /// The policy that claims the template.
    pub holder: PolicyKey,
    /// Its match; `None` if it would not be chosen now: it keeps what it has claimed.
    pub by: Option<Implicit>,
    /// The others, each with the reason why it does not have the template.
    pub others: Vec<(PolicyKey, &'static str)>,
}

/// The competition for a template; `None` if no policy claims it, or none of these selects it.
#[must_use]
pub fn competition<'a>(policies: impl Iterator<Item = Policy<'a>>, template: &Value) -> Option<Competition> {
    let holder = Claim::of_template(template)?.policy();
    let choice = policy_match::choose(policies, &Identity::of(template))?;
    if choice.policy.key() == holder {
        let others = choice.losers.iter().map(|(policy, why)| (policy.key(), *why)).collect();
        return Some(Competition { holder, by: Some(choice.by), others });
    }
    let others = std::iter::once(choice.policy).chain(choice.losers.iter().map(|(policy, _)| *policy));
    let others = others.map(Policy::key).filter(|policy| *policy != holder);
    let others = others.map(|policy| (policy, "the template is claimed already")).collect();
    Some(Competition { holder, by: None, others })
}
