//! `ironclad plan load`: replicas of an autoscaled workload under another load, by cluster and over time.

use std::time::Duration;

use anyhow::Context as _;
use ironclad_api::{autoscaling::FederatedHPA, names, work::ResourceBinding};
use ironclad_fleet::Binding;
use ironclad_planning::load::{Foreseen, Question, clusters_of, foresee};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use jiff::SignedDuration;

use super::{command::Format, read};
use crate::{
    autoscaler::{last_round, named},
    connect::Plane,
    leader, print,
    report::{Exit, Misused, WOULD_MOVE},
};

/// Largest factor.
const MULTIPLY_MAX: f64 = 1_000_000.0;

/// The autoscaler, the load, and output options.
#[derive(clap::Args, Clone, Debug)]
pub struct How {
    /// The FederatedHPA: fhpa/NAME
    #[arg(value_name = "fhpa/NAME", required = true, num_args = 1..=2)]
    pub resource: Vec<String>,
    /// Its namespace [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// The load as a multiple of the present one
    #[arg(long, value_name = "FACTOR")]
    pub multiply: f64,
    /// Time for which the load lasts; the present one follows
    #[arg(long = "for", value_parser = crate::duration, default_value = "10m", value_name = "DURATION")]
    pub lasts: Duration,
    /// Time from the creation of a Pod until it is ready
    #[arg(long, value_parser = crate::duration, default_value = "10s", value_name = "DURATION")]
    pub startup: Duration,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub output: Format,
    #[command(flatten)]
    pub plane: Plane,
}

/// Runs the command.
///
/// # Errors
/// If there is no such autoscaler, or its last round is not known; and [`Exit`] with 3 if replicas would change.
pub async fn run(how: &How, clock: &Clock) -> anyhow::Result<()> {
    let name = named(&how.resource, "ironclad plan load")?;
    let load = thousandths(how.multiply)?;
    let client = how.plane.client().await?;
    let namespace = how.namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
    let report = last_round(&client, &namespace, &name).await?;
    let autoscaler = Api::<FederatedHPA>::namespaced(client.clone(), &namespace).get(&name).await?;
    let target = &autoscaler.spec.scale_target_ref;
    let binding = names::binding_name(&target.kind, &target.name);
    let binding = Api::<ResourceBinding>::namespaced(client.clone(), &namespace).get_opt(&binding).await?;
    let binding = binding.with_context(|| format!("{} {} has no ResourceBinding", target.kind, target.name))?;
    let (world, settings) = (read::lists(&client).await?, leader::settings(&client).await);
    print::note("assumed: the load is shared by the Pods that are ready, and every metric follows it");
    let signed = |given: Duration| SignedDuration::try_from(given).unwrap_or(SignedDuration::MAX);
    let foreseen = foresee(&Question {
        autoscaler: &autoscaler,
        report: &report,
        binding: &Binding::from(std::sync::Arc::new(binding)),
        clusters: &world.clusters,
        load,
        lasts: signed(how.lasts),
        startup: signed(how.startup),
        settings: &settings,
        now: clock.wall_seconds(),
    })?;
    let text = match how.output {
        Format::Table => table(&foreseen),
        Format::Json => serde_json::to_string_pretty(&foreseen)? + "\n",
    };
    print::out(&text)?;
    if foreseen.points.len() > 1 { Err(Exit(WOULD_MOVE).into()) } else { Ok(()) }
}

fn thousandths(multiply: f64) -> anyhow::Result<u64> {
    if !multiply.is_finite() || !(0.0..=MULTIPLY_MAX).contains(&multiply) {
        return Err(
            Misused(format!("--multiply {multiply} is not from 0 to {MULTIPLY_MAX}\n  try: --multiply 3")).into()
        );
    }
    // A number in this range has an integer of thousandths.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    Ok((multiply * 1_000.0).round() as u64)
}

/// The replicas as a table.
fn table(foreseen: &Foreseen) -> String {
    let clusters = clusters_of(foreseen);
    let mut heading = vec!["AFTER", "REPLICAS"];
    heading.extend(clusters.iter().map(|cluster| &*cluster.0));
    heading.push("REASON");
    let rows: Vec<Vec<String>> = foreseen
        .points
        .iter()
        .map(|point| {
            let mut row = vec![format!("{}s", point.after_seconds), point.replicas.to_string()];
            let of = |cluster: &str| point.clusters.get(cluster).copied().unwrap_or(0).to_string();
            row.extend(clusters.iter().map(|cluster| of(&cluster.0)));
            row.push(point.because.clone());
            row
        })
        .collect();
    let mut text = print::table(&heading, &rows);
    if foreseen.rounds_at_max > 0 {
        let rounds = foreseen.rounds_at_max;
        text.push_str(&format!("maxReplicas holds back replicas in {rounds} rounds\n"));
    }
    if foreseen.points.len() == 1 {
        text.push_str("the replicas would not change\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ironclad_planning::load::Point;

    use super::*;

    #[test]
    fn replicas_are_a_table_over_time() {
        let point = |after_seconds: i64, m1: i32, m2: i32, because: &str| Point {
            after_seconds,
            replicas: m1 + m2,
            clusters: BTreeMap::from([("m1".to_owned(), m1), ("m2".to_owned(), m2)]),
            proposed: None,
            because: because.to_owned(),
        };
        let foreseen = Foreseen {
            points: vec![point(0, 1, 1, "the load changes"), point(15, 2, 3, "cpu above target")],
            rounds_at_max: 2,
            seconds: 900,
        };
        assert_eq!(
            table(&foreseen),
            "AFTER   REPLICAS   m1   m2   REASON\n\
             0s      2          1    1    the load changes\n\
             15s     5          2    3    cpu above target\n\
             maxReplicas holds back replicas in 2 rounds\n"
        );
    }

    #[test]
    fn factors() {
        assert_eq!(thousandths(2.5).unwrap(), 2_500);
        for bad in [-1.0, f64::NAN, f64::INFINITY, 2e6] {
            assert!(thousandths(bad).is_err(), "{bad}");
        }
    }
}
