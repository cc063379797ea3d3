//! `ironclad plan preemption`: who would leave for a binding, and where to.

use std::{fmt::Write as _, path::PathBuf};

use anyhow::Context as _;
use ironclad_api::work::TargetCluster;
use ironclad_fleet::{Binding, BindingKey, World};
use ironclad_planning::preemption::{Answer, PreemptionPlan, preemption};
use ironclad_seam::Clock;

use super::{command::Format, read};
use crate::{
    connect::Plane,
    print,
    report::{Exit, Misused, WOULD_MOVE},
};

/// The workload, and output options.
#[derive(clap::Args, Clone, Debug)]
pub struct How {
    /// The workload or its ResourceBinding, by name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Its namespace [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Plan with this priority [default: the binding's own]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub priority: Option<i32>,
    /// Read the fleet from this dump, - for stdin: objects or Lists as YAML or JSON
    #[arg(short, long, value_name = "FILE")]
    pub filename: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub output: Format,
    #[command(flatten)]
    #[allow(missing_docs, reason = "described where it is defined")]
    pub plane: Plane,
}

/// Runs the command.
///
/// # Errors
/// If the fleet can't be read or has no such binding; and [`Exit`] with 3 if somebody would leave.
pub async fn run(how: &How, clock: &Clock) -> anyhow::Result<()> {
    let (world, namespace) = match &how.filename {
        Some(file) => (read::dump(file)?, "default".to_owned()),
        None => {
            let client = how.plane.client().await?;
            (read::lists(&client).await?, client.default_namespace().to_owned())
        }
    };
    let key = find(&world, how.namespace.as_deref().unwrap_or(&namespace), &how.name)?;
    let plan = preemption(&world, &key, how.priority, clock.wall_seconds())
        .with_context(|| format!("there is no ResourceBinding {key}"))?;
    let text = match how.output {
        Format::Table => table(&plan),
        Format::Json => serde_json::to_string_pretty(&plan)? + "\n",
    };
    print::out(&text)?;
    if matches!(plan.answer, Answer::Preempts { .. }) { Err(Exit(WOULD_MOVE).into()) } else { Ok(()) }
}

/// The ResourceBinding of this name, or the one of the workload of this name.
fn find(world: &World, namespace: &str, name: &str) -> anyhow::Result<BindingKey> {
    let own = BindingKey { namespace: namespace.into(), name: name.into() };
    if world.binding(&own).is_some() {
        return Ok(own);
    }
    let of_workload = |binding: &Binding| {
        let resource = &binding.spec().resource;
        (resource.namespace == namespace && resource.name == name && matches!(binding, Binding::Namespaced(_)))
            .then(|| binding.key())
    };
    let found: Vec<BindingKey> = world.all_bindings().filter_map(|binding| of_workload(&binding)).collect();
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            let message = format!(
                "no ResourceBinding in namespace {namespace} is called {name} or is of a workload of this name\n  try: \
                 kubectl get resourcebindings -n {namespace}"
            );
            Err(Misused(message).into())
        }
        several => {
            let names: Vec<&str> = several.iter().map(|key| &*key.name).collect();
            Err(Misused(format!("{name} may be one of several\n  try: one of {}", names.join(", "))).into())
        }
    }
}

fn table(plan: &PreemptionPlan) -> String {
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
        let plan = |answer| PreemptionPlan { binding: key("web-deployment"), priority: 10, answer };
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
