//! `ironclad get evictions`: what waits in the eviction queue, in which order, at which rate.

use std::time::Duration;

use ironclad_api::conditions::{self, binding::EVICTION_PENDING};
use ironclad_failover::{Bound, eviction::Row};
use ironclad_seam::Clock;
use kube::Client;
use serde_json::{Value, json};

use super::{
    observe::{Told, objects, told},
    show,
};
use crate::print::{self, Output};

/// From one look to the next with `-w`.
const AGAIN: Duration = Duration::from_secs(2);

/// What is shown, and how.
#[derive(Debug)]
pub struct Query<'a> {
    /// Only bindings of this namespace.
    pub namespace: Option<&'a str>,
    /// Only from these clusters; empty is all.
    pub clusters: &'a [String],
    /// How they are printed.
    pub output: Output,
    /// Go on showing them as they change.
    pub watch: bool,
}

/// Runs the verb.
///
/// # Errors
/// If the control plane does not answer.
pub async fn run(client: &Client, query: &Query<'_>, clock: &Clock) -> anyhow::Result<()> {
    let mut last = String::new();
    loop {
        let text = page(client, query, clock).await?;
        if text != last {
            print::out(&text)?;
            last = text;
        }
        if !query.watch {
            return Ok(());
        }
        clock.sleep(AGAIN).await;
    }
}

async fn page(client: &Client, query: &Query<'_>, clock: &Clock) -> anyhow::Result<String> {
    let told = told(client).await?;
    let now = clock.wall_seconds();
    let Some(report) = &told.report else { return without_leader(client, query, &told).await };
    let wanted = |row: &&Row| {
        query.namespace.is_none_or(|namespace| *row.binding.namespace == *namespace || row.binding.namespace.is_empty())
            && (query.clusters.is_empty() || query.clusters.iter().any(|cluster| *cluster == *row.cluster.0))
    };
    let rows: Vec<Row> = report.rows.iter().filter(wanted).cloned().collect();
    if query.output.is_objects() {
        let items = rows.iter().map(|row| json!(row)).collect();
        return print::objects(query.output, &[print::list(items)]);
    }
    if query.output == Output::Name {
        return Ok(rows.iter().map(|row| format!("{}\n", row.binding)).collect());
    }
    eprintln!("{}", show::rate(report, told.paused));
    eprintln!("{}", show::sums(report, now));
    if rows.is_empty() {
        eprintln!("no evictions wait");
        return Ok(String::new());
    }
    let more = (report.ready + report.delayed + report.parked).saturating_sub(report.rows.len());
    if more > 0 {
        eprintln!("the leader tells of the first {}; {more} more wait", report.rows.len());
    }
    Ok(show::rows(&rows, now, query.output == Output::Wide))
}

/// Without a report only the bindings' conditions tell.
async fn without_leader(client: &Client, query: &Query<'_>, told: &Told) -> anyhow::Result<String> {
    let seen = objects(client, query.namespace).await?;
    let pending = |binding: &Bound| {
        let conditions = &binding.status()?.conditions;
        let condition = conditions::get(conditions, EVICTION_PENDING)?;
        Some((binding.key(), condition.reason.clone(), condition.message.clone()))
    };
    let found: Vec<_> = seen.bindings.iter().filter_map(pending).collect();
    if query.output.is_objects() {
        let item = |(key, reason, message): &(_, String, String)| -> Value {
            json!({ "binding": key, "state": reason, "message": message })
        };
        return print::objects(query.output, &[print::list(found.iter().map(item).collect())]);
    }
    let pause = if told.paused { "evictions are paused; " } else { "" };
    eprintln!("{pause}{}; order and times are unknown", told.silence);
    if found.is_empty() {
        eprintln!("no evictions wait");
        return Ok(String::new());
    }
    let rows: Vec<_> = found.into_iter().map(|(key, reason, message)| vec![key.to_string(), reason, message]).collect();
    Ok(print::table(&["BINDING", "STATE", "MESSAGE"], &rows))
}
