//! `bench dashboard`: pages of a large fleet in a headless Chromium, served by `ironclad dashboard` beside a real
//! kube-apiserver.

use std::{fs, time::Duration};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use ironclad_api::work::ResourceBinding;
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use ironclad_testkit::{browser::Browser, real};
use kube::{Client, api::PostParams};
use serde_json::{Value, json};

use crate::{
    process::{Daemon, binary, used},
    propagate::{at, client, install},
    schedule,
    schedule_real::create_fleet,
};

/// Objects that are created at once.
const CREATING: usize = 8;
/// Longest time for one step.
const DEADLINE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(10);
/// Time over which the CPU of an idle tab is measured, and before it.
const IDLE: Duration = Duration::from_secs(20);
const SETTLE: Duration = Duration::from_secs(10);
/// Filter of the page on which changes are seen.
const CHANGED: &str = "changed-";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Clusters
    #[arg(long, default_value_t = 1_000)]
    clusters: usize,
    /// ResourceBindings
    #[arg(long, default_value_t = 10_000)]
    bindings: usize,
    /// Changes that are made and seen
    #[arg(long, default_value_t = 10)]
    changes: usize,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let clock = Clock::system();
    let program = real::browser_or_skip()?.context("no browser is on PATH: install chromium")?;
    let env = real::RealEnv::start(real::Config { members: 0, plane: true, ..real::Config::default() }).await?;
    install(&env)?;
    let kubeconfig = env.plane().kubeconfig();
    let plane = client(&kubeconfig, None).await?;
    create_fleet(&plane, args.clusters).await?;
    create_bindings(&plane, &args).await?;
    let path = kubeconfig.display().to_string();
    let (daemon, line) = Daemon::start_until(&binary()?, &["dashboard", "--kubeconfig", &path], "dashboard: ")?;
    let address = line.trim_start_matches("dashboard: ").to_owned();
    let origin = address.split_once("/login").map_or(address.as_str(), |(origin, _)| origin).to_owned();
    let mut browser = Browser::start(&program).await?;
    println!("{} clusters, {} bindings", args.clusters, args.bindings);
    println!("{:<28} {:>10} {:>12} {:>14} {:>10}", "page", "paint ms", "rows ms", "CPU idle %", "own MiB");
    browser.open(&address).await?;
    rows(&mut browser, &clock).await?;
    for page in ["/", "/workloads"] {
        let began = clock.mono();
        browser.open(&format!("{origin}{page}")).await?;
        rows(&mut browser, &clock).await?;
        let drawn = clock.mono() - began;
        let paint = browser.value("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1").await?;
        clock.sleep(SETTLE).await;
        let before = daemon.used()?;
        clock.sleep(IDLE).await;
        let after = daemon.used()?;
        let idle = (after.cpu_seconds - before.cpu_seconds) / IDLE.as_secs_f64() * 1e2;
        println!(
            "{page:<28} {:>10.0} {:>12.0} {idle:>14.2} {:>10.0}",
            paint.as_f64().unwrap_or_default(),
            drawn.as_secs_f64() * 1e3,
            after.own_mib
        );
    }
    let tab = tab_mib(browser.id().context("the browser runs")?)?;
    println!("memory of the tab: {tab:.0} MiB");
    let seen = changes(&mut browser, &clock, &plane, &origin, &args).await?;
    println!("a new binding is seen after: p50 {:.0} ms, at most {:.0} ms", at(&seen, 0.5), at(&seen, 1.0));
    Ok(())
}

/// Waits until the page has rows.
async fn rows(browser: &mut Browser, clock: &Clock) -> anyhow::Result<()> {
    until(browser, clock, "document.querySelectorAll('tbody tr').length > 0").await
}

async fn until(browser: &mut Browser, clock: &Clock, condition: &str) -> anyhow::Result<()> {
    let end = clock.mono() + DEADLINE;
    while browser.value(condition).await? != true {
        ensure!(clock.mono() < end, "{condition} is not true within {DEADLINE:?}");
        clock.sleep(LOOK).await;
    }
    Ok(())
}

/// Milliseconds from the answer to the create of a binding until a page shows it, sorted.
async fn changes(
    browser: &mut Browser,
    clock: &Clock,
    plane: &Client,
    origin: &str,
    args: &Args,
) -> anyhow::Result<Vec<f64>> {
    browser.open(&format!("{origin}/workloads?filter={CHANGED}")).await?;
    until(browser, clock, "document.readyState === 'complete'").await?;
    clock.sleep(SETTLE).await;
    let (api, mut seen) = (Api::<ResourceBinding>::namespaced(plane.clone(), "default"), Vec::new());
    for number in 0..args.changes {
        let name = format!("{CHANGED}{number:03}");
        api.create(&PostParams::default(), &placed(&name, number, args.clusters)?).await?;
        let began = clock.mono();
        until(browser, clock, &format!("document.body.textContent.includes('{name}')")).await?;
        seen.push((clock.mono() - began).as_secs_f64() * 1e3);
    }
    seen.sort_by(f64::total_cmp);
    Ok(seen)
}

/// A binding that is placed in one cluster.
fn placed(name: &str, number: usize, clusters: usize) -> anyhow::Result<ResourceBinding> {
    let mut binding = schedule::new_binding(&json!({}), number)?;
    binding.metadata.name = Some(name.to_owned());
    name.clone_into(&mut binding.spec.resource.name);
    let target: Value = json!([{ "name": schedule::name(number % clusters), "replicas": binding.spec.replicas }]);
    binding.spec.clusters = serde_json::from_value(target)?;
    Ok(binding)
}

async fn create_bindings(plane: &Client, args: &Args) -> anyhow::Result<()> {
    let api: Api<ResourceBinding> = Api::namespaced(plane.clone(), "default");
    stream::iter(0..args.bindings)
        .map(|number| {
            let api = api.clone();
            async move {
                let binding = placed(&schedule::binding_name(number), number, args.clusters)?;
                api.create(&PostParams::default(), &binding).await?;
                anyhow::Ok(())
            }
        })
        .buffer_unordered(CREATING)
        .try_for_each(async |()| Ok(()))
        .await
}

/// Own memory of the largest renderer below this process, in MiB.
fn tab_mib(browser: u32) -> anyhow::Result<f64> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // A process may have ended meanwhile.
        let Ok(status) = fs::read_to_string(format!("/proc/{id}/status")) else { continue };
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse::<u32>().ok());
        parents.extend(parent.map(|parent| (id, parent)));
    }
    let (mut below, mut most) = (vec![browser], 0.0_f64);
    while let Some(of) = below.pop() {
        for (id, _) in parents.iter().filter(|(_, parent)| *parent == of) {
            below.push(*id);
            let command = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
            if command.contains("--type=renderer") {
                most = most.max(used(*id)?.own_mib);
            }
        }
    }
    Ok(most)
}
