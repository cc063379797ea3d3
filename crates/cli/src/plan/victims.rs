//! Text of a plan of preemption.

use std::fmt::Write as _;

use ironclad_api::work::TargetCluster;
use ironclad_planning::preemption::{Answer, PreemptionPlan};

/// Prints who leaves for a binding, and where each goes.
pub(crate) fn table(plan: &PreemptionPlan) -> String {
    let mut text = format!("{} with priority {}\n", plan.binding, plan.priority);
    let listed = |clusters: &[TargetCluster]| {
        let each: Vec<String> = clusters.iter().map(|target| format!("{}:{}", target.name, target.replicas)).collect();
        if each.is_empty() { "nowhere".to_owned() } else { each.join(", ") }
    };
    match &plan.answer {
        Answer::Fits { clusters } => {
            let _ = writeln!(text, "needs no preemption: {}", listed(clusters));
        }
        Answer::Waits { message } => {
            let _ = writeln!(text, "would wait, and nobody would leave: {message}");
        }
        Answer::Preempts { victims, nominated } => {
            let _ = writeln!(text, "would be nominated for {}, and these would leave:", listed(nominated));
            for victim in victims {
                let _ = write!(
                    text,
                    "  {} (priority {}) leaves {}, and runs on {}",
                    victim.binding,
                    victim.priority,
                    victim.from,
                    listed(&victim.clusters)
                );
                if let Some(homeless) = &victim.homeless {
                    let _ = write!(text, ": {homeless}");
                }
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ironclad_fleet::BindingKey;
    use ironclad_planning::preemption::Leaving;

    #[test]
    fn the_table_names_who_leaves_and_who_has_no_home() {
        let key = |name: &str| BindingKey { namespace: "shop".into(), name: name.into() };
        let on = |name: &str, replicas| vec![TargetCluster { name: name.into(), replicas, components: Vec::new() }];
        let leaving = |name: &str, clusters: Vec<TargetCluster>, homeless: Option<&str>| Leaving {
            binding: key(name),
            from: "m1".into(),
            priority: 1,
            clusters,
            homeless: homeless.map(str::to_owned),
        };
        let plan = |answer| {
            let unasked = std::collections::BTreeSet::new();
            PreemptionPlan { binding: key("web-deployment"), priority: 10, answer, unasked }
        };
        let answer = Answer::Preempts {
            victims: vec![leaving("a", on("m2", 3), None), leaving("b", Vec::new(), Some("no room."))],
            nominated: on("m1", 4),
        };
        assert_eq!(
            table(&plan(answer)),
            "shop/web-deployment with priority 10\n\
             would be nominated for m1:4, and these would leave:\n  \
             shop/a (priority 1) leaves m1, and runs on m2:3\n  \
             shop/b (priority 1) leaves m1, and runs on nowhere: no room.\n"
        );
        let waits = table(&plan(Answer::Waits { message: "too little".into() }));
        assert!(waits.ends_with("would wait, and nobody would leave: too little\n"), "{waits}");
        let fits = table(&plan(Answer::Fits { clusters: on("m2", 1) }));
        assert!(fits.ends_with("needs no preemption: m2:1\n"), "{fits}");
    }
}
