//! `bench compaction`: size of file and process after very many updates of few objects.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::Context as _;
use http::Request;
use ironclad_runtime::{Traffic, client_from_kubeconfig, kubeconfig_client_config};
use ironclad_seam::{Clock, Tasks};

use crate::process::{Daemon, binary, free_port};

/// Number of intermediate outputs.
const SHOWN: u64 = 10;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Updates in all
    #[arg(long, default_value_t = 1_000_000)]
    updates: u64,
    /// Objects, each updated in turn
    #[arg(long, default_value_t = 1_000)]
    objects: u64,
    /// The bytes in each object's data
    #[arg(long, default_value_t = 1_024)]
    bytes: usize,
    /// Clients that write at once
    #[arg(long, default_value_t = 32)]
    clients: usize,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let (clock, tasks) = (Clock::system(), Tasks::new("bench"));
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    let listen = format!("127.0.0.1:{}", free_port()?);
    let shown = data.display().to_string();
    let arguments = ["up", "--data-dir", &shown, "--clusters", "0", "--listen", &listen, "--metrics-bind-address", "0"];
    let daemon = Daemon::start(&binary()?, &arguments)?;
    let client = async || {
        let config = kubeconfig_client_config(&data.join("kubeconfig"), None).await?;
        anyhow::Ok(client_from_kubeconfig(config, Arc::new(Traffic::default()))?)
    };
    let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
    println!("{:>12} {:>10} {:>10} {:>12} {:>10}", "updates", "file MiB", "now MiB", "largest MiB", "per second");
    let began = clock.mono();
    let show = |updates: u64| {
        let file = fs::metadata(data.join("store.redb"))?.len();
        let used = daemon.used()?;
        let rate = updates as f64 / (clock.mono() - began).as_secs_f64();
        println!("{updates:>12} {:>10.1} {:>10.1} {:>12.1} {rate:>10.0}", mib(file), used.resident_mib, used.peak_mib);
        anyhow::Ok(())
    };
    for part in 1..=SHOWN {
        let next = Arc::new(AtomicU64::new(args.updates * (part - 1) / SHOWN));
        let end = args.updates * part / SHOWN;
        let mut writers = Vec::new();
        for _ in 0..args.clients {
            let (client, next, objects, bytes) = (client().await?, next.clone(), args.objects, args.bytes);
            writers.push(tasks.spawn("writer", async move {
                loop {
                    let update = next.fetch_add(1, Ordering::Relaxed);
                    if update >= end {
                        return anyhow::Ok(());
                    }
                    let name = format!("o-{}", update % objects);
                    let path = format!("/api/v1/namespaces/default/configmaps/{name}?fieldManager=bench");
                    let body = format!(
                        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"d":"{update:0bytes$}"}}}}"#
                    );
                    // An apply creates the object, which an update does not.
                    let (method, kind) = if update < objects {
                        ("PATCH", "application/apply-patch+yaml")
                    } else {
                        ("PUT", "application/json")
                    };
                    let request =
                        Request::builder().method(method).uri(path).header("content-type", kind).body(body.into_bytes())?;
                    client.request_text(request).await.with_context(|| format!("update {update}"))?;
                }
            }));
        }
        for writer in writers {
            writer.await??;
        }
        show(end)?;
    }
    let began = clock.mono();
    drop(daemon);
    let daemon = Daemon::start(&binary()?, &arguments)?;
    let used = daemon.used()?;
    println!(
        "started again in {:.2} s, {:.1} MiB, file {:.1} MiB",
        (clock.mono() - began).as_secs_f64(),
        used.resident_mib,
        mib(fs::metadata(data.join("store.redb"))?.len())
    );
    Ok(())
}
