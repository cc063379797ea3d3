//! Printed form of the answer.

use std::fmt::Write as _;

use ironclad_fleet::{Because, because::propagation::Reason};

use ironclad_fleet::count::count;
use ironclad_planning::apply::{ApplyPlan, CopyChange, Object, TemplateChange};

use crate::{nodes, print, why};

/// Prints the change of each object, and then of each template.
pub(super) fn table(objects: &[Object], found: &ApplyPlan) -> String {
    let rows: Vec<Vec<String>> =
        objects.iter().map(|object| vec![object.name.clone(), object.change.as_str().to_owned()]).collect();
    let mut text = print::table(&["APPLIED", "CHANGE"], &rows);
    for change in &found.templates {
        text.push('\n');
        template(change, &mut text);
    }
    text.push('\n');
    // Writing into a String can't fail.
    let _ = match found.templates.iter().filter(|change| change.moves()).count() {
        0 if !found.not_followed.is_empty() => writeln!(text, "no copy would change by what is followed"),
        0 => writeln!(text, "no copy would change"),
        1 => writeln!(text, "the copies of 1 template would change"),
        many => writeln!(text, "the copies of {many} templates would change"),
    };
    for object in &found.not_followed {
        let _ = writeln!(text, "the effect of {object} on copies is not followed");
    }
    for (cluster, why) in &found.nodes_unknown {
        let _ = writeln!(text, "{}", nodes::unknown(cluster, why));
    }
    if found.unchanged > 0 {
        let _ = writeln!(text, "{} would not change", count(found.unchanged, "other template"));
    }
    text
}

fn template(change: &TemplateChange, text: &mut String) {
    let _ = writeln!(text, "{}", change.template);
    let mut lines = |name: &str, values: &[String]| {
        for (i, value) in values.iter().enumerate() {
            let _ = writeln!(text, "  {:<11}{value}", if i == 0 { name } else { "" });
        }
    };
    let is_need = |because: &&Because| {
        matches!(because, Because::Propagation(Reason::NeededBy { .. } | Reason::NotNeeded { .. }))
    };
    let (needs, claims): (Vec<&Because>, Vec<&Because>) = change.because.iter().partition(is_need);
    for (name, because) in [("policy", claims), ("needed", needs)] {
        lines(name, &because.into_iter().map(Because::to_string).collect::<Vec<_>>());
    }
    match &change.binding {
        None if !change.copies.is_empty() => {
            lines("binding", &["none: namespace sync brings it to every member".to_owned()]);
        }
        None => lines("binding", &["none: no policy would select it".to_owned()]),
        Some(binding) => {
            let made = if change.made { "" } else { " (would be made)" };
            lines("binding", &[format!("{binding}, replicas {}{made}", change.replicas)]);
        }
    }
    if let Some(scheduling) = &change.scheduling {
        let trigger: Vec<String> = scheduling.trigger.iter().map(Because::to_string).collect();
        lines("scheduler", &trigger);
        lines("failure", &scheduling.failure.iter().cloned().collect::<Vec<_>>());
    }
    if !change.copies.is_empty() {
        let rows: Vec<Vec<String>> = change.copies.iter().map(|(cluster, copy)| row(&cluster.0, copy)).collect();
        let _ = write!(text, "\n{}", print::table(&["COPY IN", "CHANGE", "NOW", "THEN", "OVERRIDES"], &rows));
    }
    for other in &change.alternatives {
        let on = other.copies.iter().filter_map(|(cluster, copy)| match copy.after? {
            0 => Some(cluster.to_string()),
            replicas => Some(format!("{cluster}:{replicas}")),
        });
        let on: Vec<String> = on.collect();
        let on = if on.is_empty() { "no cluster".to_owned() } else { on.join(", ") };
        let _ = writeln!(text, "or on {on}, {}", other.course);
    }
    for cycle in change.scheduling.iter().flat_map(|scheduling| &scheduling.cycles) {
        let group = cycle.group.as_ref().map(|group| format!("affinity group {group}\n")).unwrap_or_default();
        let _ = write!(text, "\n{group}{}", why::rendered_cycle(cycle));
        if let Some(failed) = &cycle.failed {
            let _ = writeln!(text, "{failed}");
        }
    }
}

fn row(cluster: &str, copy: &CopyChange) -> Vec<String> {
    let replicas = |replicas: Option<i32>| match replicas {
        None => "-".to_owned(),
        Some(0) => "present".to_owned(),
        Some(replicas) => replicas.to_string(),
    };
    let overrides = match (&copy.error, copy.overrides.is_empty()) {
        (Some(error), _) => error.clone(),
        (None, true) => "-".to_owned(),
        (None, false) => copy.overrides.join(", "),
    };
    vec![cluster.to_owned(), copy.change().to_owned(), replicas(copy.before), replicas(copy.after), overrides]
}
