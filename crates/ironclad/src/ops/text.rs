//! Formats of metrics: OpenMetrics for those who ask for it, else the text format of Prometheus.

use http::{HeaderMap, header::ACCEPT};

pub(super) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
pub(super) const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// True if the client takes OpenMetrics, and does not prefer the text format by its weights.
pub(super) fn wants_open_metrics(headers: &HeaderMap) -> bool {
    let accepted: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let weight = |wanted: &str| {
        let weights = accepted.iter().flat_map(|value| value.split(',')).filter_map(|one| {
            let mut parts = one.split(';').map(str::trim);
            let is_wanted = parts.next()?.eq_ignore_ascii_case(wanted);
            let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse::<f64>().ok());
            is_wanted.then_some(weight.unwrap_or_default())
        });
        weights.fold(0.0, f64::max)
    };
    let open_metrics = weight("application/openmetrics-text");
    open_metrics > 0.0 && open_metrics >= weight("text/plain")
}

/// OpenMetrics in the text format: a counter is named as its samples, and there are neither units, exemplars nor an
/// end.
pub(super) fn plain(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help: Option<(&str, &str)> = None;
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
            continue;
        }
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some((_, words)) = help.take().filter(|(of, _)| *of == name) {
                text.push_str(&format!("# HELP {name}{suffix} {words}\n"));
            }
            let kind = match kind {
                "unknown" => "untyped",
                "info" | "stateset" => "gauge",
                kind => kind,
            };
            text.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        text.push_str(line.split_once(" # {").map_or(line, |(sample, _)| sample));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_by_accept() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        for (accept, want) in [
            (None, false),
            (Some("*/*"), false),
            (Some("text/plain"), false),
            (Some("application/openmetrics-text; version=1.0.0"), true),
            (Some(prometheus), true),
            (Some("application/openmetrics-text;q=0.2, text/plain;q=0.9"), false),
            (Some("application/openmetrics-text;q=0"), false),
        ] {
            let headers = accept.map(|accept| (ACCEPT, accept.parse().unwrap())).into_iter().collect();
            assert_eq!(wants_open_metrics(&headers), want, "{accept:?}");
        }
    }

    #[test]
    fn the_text_format_names_counters_as_their_samples() {
        let open_metrics = "# HELP a Some.\n# TYPE a counter\na_total{l=\"x\"} 1 # {id=\"1\"} 0.5\n# HELP b_seconds B.\n\
                            # TYPE b_seconds gauge\n# UNIT b_seconds seconds\nb_seconds 2.5\n# EOF\n";
        let want = "# HELP a_total Some.\n# TYPE a_total counter\na_total{l=\"x\"} 1\n# HELP b_seconds B.\n\
                    # TYPE b_seconds gauge\nb_seconds 2.5\n";
        assert_eq!(plain(open_metrics), want);
    }
}
