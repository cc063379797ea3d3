//! The queries of dashboards and alert rules, compared with what a process exports.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, ensure};
use ironclad_reference::{
    exposition::Exposition,
    promql::{Query, labels_of_text, wrong_queries},
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A program that is scraped. Metrics are named by their beginnings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    /// Metrics that it does not have. Queries of them are left out, and a scrape that has one fails.
    pub(crate) absent: &'static [&'static str],
    /// Metrics that it has without series, which another program's scrape compares: only their names are compared here.
    pub(crate) by_name: &'static [&'static str],
    /// Metrics whose series come with events that the test need not cause. If they lack in the scrape, their labels are
    /// those of the page, which a test of crate `controllers` compares with the code.
    pub(crate) unseen: &'static [&'static str],
}

impl Program {
    fn is_absent(self, metric: &str) -> bool {
        self.absent.iter().any(|start| metric.starts_with(start))
    }
}

/// Reads `/metrics` of a process.
pub(crate) async fn scrape(port: u16) -> anyhow::Result<Exposition> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("a head")?;
    ensure!(head.starts_with("HTTP/1.1 200"), "{head}");
    let exposition = Exposition::parse(body);
    ensure!(exposition.0.len() > 30, "only {} families: {body}", exposition.0.len());
    Ok(exposition)
}

/// Checks that each query finds its metrics and labels in the scrape of a program.
pub(crate) fn check(program: Program, scraped: &Exposition) -> anyhow::Result<()> {
    let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/ironclad");
    let page = fs::read_to_string(charts.join("../../docs/reference/metrics.md"))?;
    let mut known = scraped.clone();
    let of_page = Exposition::of_page(&page);
    for (name, family) in &scraped.0 {
        if let Some(page) = of_page.0.get(name).filter(|page| page.kind != family.kind) {
            anyhow::bail!("{name} is a {:?}, and the page says {:?}", family.kind, page.kind);
        }
    }
    let mut declared = of_page;
    declared
        .0
        .retain(|name, _| scraped.0.contains_key(name) || program.unseen.iter().any(|start| name.starts_with(start)));
    known = known.or(declared);

    let mut texts = Vec::new();
    for file in fs::read_dir(charts.join("dashboards"))? {
        let path = file?.path();
        let dashboard: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for panel in dashboard["panels"].as_array().into_iter().flatten() {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let at = format!("{name}: {}: {}", panel["title"], target["refId"]);
                texts.push((at, target["expr"].clone(), target["legendFormat"].clone()));
            }
        }
        for variable in dashboard["templating"]["list"].as_array().into_iter().flatten() {
            if variable["type"] == "query" {
                texts.push((format!("{name}: {}", variable["name"]), variable["query"]["query"].clone(), Value::Null));
            }
        }
    }
    let rules: Value = serde_saphyr::from_str(&fs::read_to_string(charts.join("rules.yaml"))?)?;
    for rule in rules["groups"].as_array().into_iter().flatten().flat_map(|group| group["rules"].as_array()).flatten() {
        texts.push((rule["alert"].to_string(), rule["expr"].clone(), rule["annotations"].to_string().into()));
    }
    ensure!(texts.len() > 120, "only {} queries were read", texts.len());

    let mut queries = Vec::new();
    let mut seen = BTreeSet::new();
    for (at, query, shown) in &texts {
        let query = query.as_str().with_context(|| format!("{at} has a query"))?;
        let parsed = Query::parse(query).map_err(|wrong| anyhow::anyhow!("{at}: {wrong}"))?;
        let metrics = parsed.metrics();
        if metrics.iter().any(|name| program.is_absent(name)) {
            continue;
        }
        if metrics.iter().any(|name| program.by_name.iter().any(|start| name.starts_with(start))) {
            let missing = metrics.iter().find(|name| scraped.find(name).is_none());
            ensure!(missing.is_none(), "{at}: metric {missing:?} is not exported");
            continue;
        }
        seen.extend(metrics.into_iter().map(str::to_owned));
        queries.push((at.clone(), query, labels_of_text(shown.as_str().unwrap_or_default())));
    }
    let wrong = wrong_queries(queries, &known);
    ensure!(wrong.is_empty(), "{wrong:#?}");

    // The lists of exceptions stay true.
    let there: Vec<_> = scraped.0.keys().filter(|name| program.is_absent(name)).collect();
    ensure!(there.is_empty(), "it has {there:?}");
    for start in program.unseen {
        ensure!(seen.iter().any(|name| name.starts_with(start)), "no query has {start}");
    }
    Ok(())
}
