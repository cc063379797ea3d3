//! Printed form of a plan.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use ironclad_fleet::count::count;
use ironclad_planning::{FailoverPlan, MoveStatus};

use crate::{nodes, print};

/// Prints a plan: timeline, moves, bindings that stay with their reasons, and totals.
#[must_use]
pub fn table(found: &FailoverPlan, whole_timeline: bool) -> String {
    let mut text = String::new();
    let moved: Vec<String> = found.moves.iter().map(|one| one.binding.to_string()).collect();
    let shown = found.timeline.iter().filter(|line| whole_timeline || !moved.contains(&line.about));
    let rows: Vec<Vec<String>> = shown.map(|line| vec![time(line.at), line.about.clone(), line.what.clone()]).collect();
    if !rows.is_empty() {
        text.push_str(&print::table(&["AT", "ABOUT", "WHAT"], &rows));
        text.push('\n');
    }
    if !found.moves.is_empty() {
        let rows: Vec<Vec<String>> = found
            .moves
            .iter()
            .map(|one| {
                let end = |(cluster, replicas): (&String, &i32)| match replicas {
                    0 => cluster.clone(),
                    replicas => format!("{cluster}:{replicas}"),
                };
                let ends: Vec<String> = one.ends.iter().map(end).collect();
                vec![
                    time(one.evicted),
                    one.resource.clone(),
                    one.from.to_string(),
                    if ends.is_empty() { "-".to_owned() } else { ends.join(",") },
                    one.reason.clone(),
                    one.purge_mode.clone(),
                    match &one.because {
                        Some(because) => format!("{}: {because}", one.status),
                        None => one.status.to_string(),
                    },
                ]
            })
            .collect();
        text.push_str(&print::table(&["EVICTED", "RESOURCE", "FROM", "ENDS ON", "REASON", "PURGE", "STATUS"], &rows));
        text.push('\n');
    }
    if !found.waits.is_empty() {
        let rows: Vec<Vec<String>> = found
            .waits
            .iter()
            .map(|one| {
                vec![
                    one.resource.clone(),
                    one.from.to_string(),
                    one.state.clone(),
                    one.causes.join(","),
                    one.because.clone(),
                ]
            })
            .collect();
        text.push_str(&print::table(&["STAYS", "ON", "STATE", "TAINTS", "REASON"], &rows));
        text.push('\n');
    }
    sums(found, &mut text);
    for (cluster, why) in &found.nodes_unknown {
        text.push_str(&nodes::unknown(cluster, why));
        text.push('\n');
    }
    text
}

fn sums(found: &FailoverPlan, text: &mut String) {
    if found.moves.is_empty() {
        text.push_str("nothing would move");
        if let Some(because) = &found.quiet_because {
            text.push_str(": ");
            text.push_str(because);
        }
        text.push('\n');
    } else {
        let statuses = found.moves.iter().fold(BTreeMap::<MoveStatus, usize>::new(), |mut statuses, one| {
            *statuses.entry(one.status).or_default() += 1;
            statuses
        });
        let statuses: Vec<String> = statuses.iter().map(|(status, number)| format!("{number} {status}")).collect();
        // Writing into a String can't fail.
        let _ = writeln!(
            text,
            "{} within {}: {}",
            count(found.moves.len(), "eviction"),
            time(found.lasts),
            statuses.join("; ")
        );
        let _ = writeln!(
            text,
            "at most {} per second in force, {} within one minute",
            found.peak_rate, found.peak_per_minute
        );
        for (what, by) in [("namespace", &found.by_namespace), ("kind", &found.by_kind)] {
            let each: Vec<String> = by
                .iter()
                .map(|(name, count)| format!("{} {count}", if name.is_empty() { "(cluster)" } else { name }))
                .collect();
            let _ = writeln!(text, "by {what}: {}", each.join(", "));
        }
    }
    if found.abandoned > 0 {
        let _ = writeln!(text, "recovery would cancel {}", count(found.abandoned as usize, "eviction"));
    }
    if !found.waits.is_empty() {
        let _ = writeln!(text, "{} would not happen", count(found.waits.len(), "eviction"));
    }
    if found.cut_off {
        text.push_str("the fleet would still be changing at the horizon: see --horizon\n");
    }
}

/// `1h2m3.5s`, without parts that are nothing.
pub(super) fn time(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    let mut text = String::new();
    for (unit, count) in [("h", seconds / 3_600), ("m", seconds / 60 % 60)] {
        if count > 0 {
            let _ = write!(text, "{count}{unit}");
        }
    }
    let tenths = millis / 100;
    if tenths > 0 {
        let _ = write!(text, "{}.{tenths}s", seconds % 60);
    } else if seconds % 60 > 0 || text.is_empty() {
        let _ = write!(text, "{}s", seconds % 60);
    }
    text
}
