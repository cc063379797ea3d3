//! `ironclad get evictions`: elements of the eviction queue, in order, with the rate.

use std::time::Duration;

use ironclad_failover::taint_manager::Row;
use ironclad_seam::Clock;
use kube::Client;
use serde_json::json;

use super::{
    observe::{EvictionQueue, LeaderReport, eviction_queue, leader_report},
    show,
};
use crate::print::{self, Output};

/// From one look to the next with `-w`.
const AGAIN: Duration = Duration::from_secs(2);
/// The same where a look lists every binding of the fleet.
const AGAIN_BY_LISTS: Duration = Duration::from_secs(10);

/// Selection and output of evictions.
#[derive(Debug)]
pub struct Query<'a> {
    /// Only bindings of this namespace.
    pub namespace: Option<&'a str>,
    /// Only from these clusters; empty is all.
    pub clusters: &'a [String],
    /// Output format.
    pub output: Output,
    /// Go on showing them as they change.
    pub watch: bool,
    /// Print the heading.
    pub headers: bool,
}

/// Runs the command.
///
/// # Errors
/// If the control plane does not answer.
pub async fn run(client: &Client, query: &Query<'_>, clock: &Clock) -> anyhow::Result<()> {
    let mut last = None;
    loop {
        let page = page(client, query, clock).await?;
        // Remaining times differ in each answer; only changed rows, states and rates are printed.
        if last.as_ref() != Some(&page.news) {
            page.notes.iter().for_each(|note| print::note(note));
            print::out(&page.text)?;
        }
        if !query.watch {
            return Ok(());
        }
        last = Some(page.news);
        clock.sleep(page.again).await;
    }
}

/// One look.
struct Page {
    notes: Vec<String>,
    text: String,
    /// Differs if another page is worth printing.
    news: String,
    /// Interval between two queries.
    again: Duration,
}

/// The queue, with what the leader tells about it; true if every binding was listed for it.
///
/// # Errors
/// If the control plane does not answer.
pub(crate) async fn look(client: &Client, clock: &Clock) -> anyhow::Result<(LeaderReport, EvictionQueue, bool)> {
    let leader = leader_report(client).await?;
    let (queue, listed) = eviction_queue(client, &leader, clock.wall_seconds()).await?;
    Ok((leader, queue, listed.is_some()))
}

async fn page(client: &Client, query: &Query<'_>, clock: &Clock) -> anyhow::Result<Page> {
    let (leader, queue, is_listed) = look(client, clock).await?;
    let now = clock.wall_seconds();
    let again = if is_listed { AGAIN_BY_LISTS } else { AGAIN };
    let rows = select_rows(queue.rows, query);
    let mut notes = Vec::new();
    let mut head = String::new();
    if let Some(report) = &leader.report {
        head = show::rate(report, leader.paused);
        notes.extend([head.clone(), show::sums(report, now)]);
    } else if leader.paused {
        notes.push("evictions are paused".to_owned());
    }
    notes.extend(queue.notes);
    if rows.is_empty() {
        notes.push("no evictions wait".to_owned());
    }
    let waits: Vec<_> = rows.iter().map(|row| (&row.binding, &row.cluster, row.state, row.position)).collect();
    let news = format!("{head} {} {waits:?}", leader.paused);
    if query.output.is_objects() {
        let items = rows.iter().map(|row| json!(row)).collect();
        let text = print::objects(query.output, &[print::list(items)])?;
        return Ok(Page { notes: Vec::new(), text, news, again });
    }
    if query.output == Output::Name {
        let text = rows.iter().map(|row| format!("{}\n", row.binding)).collect();
        return Ok(Page { notes: Vec::new(), text, news, again });
    }
    let mut text = if rows.is_empty() { String::new() } else { show::rows(&rows, now, query.output == Output::Wide) };
    if !query.headers {
        text = text.split_once('\n').map_or_else(String::new, |(_, rows)| rows.to_owned());
    }
    Ok(Page { notes, text, news, again })
}

/// The rows that are asked for.
fn select_rows(queue: Vec<Row>, query: &Query) -> Vec<Row> {
    let is_wanted = |row: &Row| {
        query.namespace.is_none_or(|namespace| *row.binding.namespace == *namespace || row.binding.namespace.is_empty())
            && (query.clusters.is_empty() || query.clusters.iter().any(|cluster| *cluster == *row.cluster.0))
    };
    queue.into_iter().filter(is_wanted).collect()
}

#[cfg(test)]
mod tests {
    use ironclad_failover::taint_manager::Waiting;
    use ironclad_fleet::BindingKey;
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn rows_are_selected() {
        let row = |namespace: &str, name: &str, cluster: &str| Row {
            binding: BindingKey { namespace: namespace.into(), name: name.into() },
            resource: "r".into(),
            cluster: cluster.into(),
            state: Waiting::Queued,
            position: Some(1),
            rebuilt: false,
            since: None,
            due: Timestamp::UNIX_EPOCH,
            causes: vec![],
            purge_mode: "Gracefully".into(),
            expected: None,
            attempts: 0,
            because: None,
        };
        let queue = [("shop", "a", "m1"), ("shop", "b", "m2"), ("other", "c", "m1"), ("", "cluster-wide", "m1")];
        let queue = queue.map(|(namespace, name, cluster)| row(namespace, name, cluster));
        let (all, m1) = (&[][..], &["m1".to_owned()][..]);
        for (namespace, clusters, want) in [
            (None, all, "a b c cluster-wide"),
            (Some("shop"), all, "a b cluster-wide"),
            (Some("shop"), m1, "a cluster-wide"),
            (Some("none"), m1, "cluster-wide"),
        ] {
            let query = Query { namespace, clusters, output: Output::Table, watch: false, headers: true };
            let names: Vec<_> =
                select_rows(queue.to_vec(), &query).iter().map(|row| row.binding.name.to_string()).collect();
            assert_eq!(names.join(" "), want);
        }
    }
}
