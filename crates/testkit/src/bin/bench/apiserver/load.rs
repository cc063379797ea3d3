//! Load on a server while it is measured. Bodies are prepared as text, so that the figures contain no client work
//! beyond TLS and HTTP.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, ensure};
use futures::{AsyncBufReadExt as _, StreamExt as _};
use http::Request;
use ironclad_seam::{Clock, Tasks};
use kube::Client;
use tokio::sync::Notify;

use super::side::Side;
use crate::propagate::at;

const WRITTEN: &str = "bench-written";
const LISTED: &str = "bench-listed";
const OTHERS: &str = "bench-others";
const WATCHED: &str = "bench-watched";
const DATA_BYTES: usize = 1_024;
const MAKERS: usize = 32;
/// A watch without an event for this long is broken.
const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct Writes {
    pub(super) clients: usize,
    pub(super) per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// The server's CPU seconds for ten thousand of them.
    pub(super) cpu_seconds: f64,
}

pub(crate) struct Load<'a> {
    side: &'a Side,
    clock: &'a Clock,
    tasks: Tasks,
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.tasks.kill();
    }
}

impl<'a> Load<'a> {
    pub(super) fn new(side: &'a Side, clock: &'a Clock) -> Self {
        Self { side, clock, tasks: Tasks::new("load") }
    }

    pub(super) async fn namespaces(&self) -> anyhow::Result<()> {
        let client = self.side.client().await?;
        for name in [WRITTEN, LISTED, OTHERS, WATCHED] {
            let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#);
            send(&client, "POST", "/api/v1/namespaces", body).await?;
        }
        Ok(())
    }

    /// Each client writes an object of its own, one request after the other.
    pub(super) async fn write(&self, clients: usize, during: Duration) -> anyhow::Result<Writes> {
        let mut connected = Vec::new();
        for number in 0..clients {
            let client = self.side.client().await?;
            let name = format!("of-{clients}-{number}");
            send(&client, "POST", &path(WRITTEN, ""), object(&name, 0)).await?;
            connected.push((client, name));
        }
        let (cpu, began) = (self.side.cpu_seconds()?, self.clock.mono());
        let end = began + during;
        let writers: Vec<_> = connected
            .into_iter()
            .map(|(client, name)| {
                let clock = self.clock.clone();
                self.tasks.spawn("writer", async move {
                    let (mut took, mut value) = (Vec::new(), 0);
                    let path = path(WRITTEN, &name);
                    loop {
                        value += 1;
                        let body = object(&name, value);
                        let began = clock.mono();
                        if began >= end {
                            return anyhow::Ok(took);
                        }
                        send(&client, "PUT", &path, body).await?;
                        took.push((clock.mono() - began).as_secs_f64() * 1e3);
                    }
                })
            })
            .collect();
        let mut all = Vec::new();
        for writer in writers {
            all.extend(writer.await??);
        }
        let seconds = (self.clock.mono() - began).as_secs_f64();
        let cpu = self.side.cpu_seconds()? - cpu;
        all.sort_by(f64::total_cmp);
        let count = all.len() as f64;
        Ok(Writes {
            clients,
            per_second: count / seconds,
            p50_ms: at(&all, 0.5),
            p99_ms: at(&all, 0.99),
            cpu_seconds: cpu / count * 1e4,
        })
    }

    /// Creates objects up to this number; returns the rate per second.
    pub(super) async fn fill(&self, listed: usize, objects: usize) -> anyhow::Result<f64> {
        let began = self.clock.mono();
        let next = Arc::new(AtomicUsize::new(0));
        let mut makers = Vec::new();
        for _ in 0..MAKERS {
            let (client, next) = (self.side.client().await?, next.clone());
            makers.push(self.tasks.spawn("maker", async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= objects {
                        return anyhow::Ok(());
                    }
                    let namespace = if number < listed { LISTED } else { OTHERS };
                    send(&client, "POST", &path(namespace, ""), object(&format!("o-{number:06}"), number)).await?;
                }
            }));
        }
        for maker in makers {
            maker.await??;
        }
        Ok(objects as f64 / (self.clock.mono() - began).as_secs_f64())
    }

    pub(super) async fn list(&self) -> anyhow::Result<(Duration, usize)> {
        let client = self.side.client().await?;
        let began = self.clock.mono();
        let text = client.request_text(Request::get(path(LISTED, "")).body(Vec::new())?).await?;
        Ok((self.clock.mono() - began, text.len()))
    }

    /// Milliseconds from the start of each write until the last watch has it, sorted.
    pub(super) async fn fan_out(&self, watchers: usize, events: usize) -> anyhow::Result<Vec<f64>> {
        let client = self.side.client().await?;
        send(&client, "POST", &path(WATCHED, ""), object("seen", 0)).await?;
        let (heard, all_heard) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let mut ends = Vec::new();
        for _ in 0..watchers {
            let client = self.side.client().await?;
            // The namespace also has the authority's certificate, which others write.
            let query = "watch=1&fieldSelector=metadata.name%3Dseen";
            let request = Request::get(format!("{}?{query}", path(WATCHED, ""))).body(Vec::new())?;
            let (heard, all_heard) = (heard.clone(), all_heard.clone());
            ends.push(self.tasks.spawn("watcher", async move {
                let mut lines = std::pin::pin!(client.request_stream(request).await?.lines());
                while let Some(line) = lines.next().await {
                    ensure!(line?.contains("\"seen\""), "an event of something else");
                    // All watches get each event before the next is written, so the count identifies it.
                    if (heard.fetch_add(1, Ordering::SeqCst) + 1).is_multiple_of(watchers) {
                        all_heard.notify_one();
                    }
                }
                anyhow::Ok(())
            }));
        }
        let heard_by_all = || async {
            tokio::time::timeout(DEADLINE, all_heard.notified()).await.context("not every watch has heard of a write")
        };
        // First the existing objects.
        heard_by_all().await?;
        let mut took = Vec::new();
        for event in 1..=events {
            let began = self.clock.mono();
            send(&client, "PUT", &path(WATCHED, "seen"), object("seen", event)).await?;
            heard_by_all().await?;
            took.push((self.clock.mono() - began).as_secs_f64() * 1e3);
        }
        drop(ends);
        took.sort_by(f64::total_cmp);
        Ok(took)
    }
}

fn path(namespace: &str, name: &str) -> String {
    let slash = if name.is_empty() { "" } else { "/" };
    format!("/api/v1/namespaces/{namespace}/configmaps{slash}{name}")
}

/// A ConfigMap of 1 KiB that differs for each value.
fn object(name: &str, value: usize) -> String {
    let data = format!("{value:0DATA_BYTES$}");
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"d":"{data}"}}}}"#)
}

async fn send(client: &Client, method: &str, path: &str, body: String) -> anyhow::Result<()> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(body.into_bytes())?;
    client.request_text(request).await.with_context(|| format!("{method} {path}"))?;
    Ok(())
}
