//! Families of metrics, by a scrape in Prometheus' text format or by the page that lists them.

use std::collections::{BTreeMap, BTreeSet};

use crate::table_after;

/// Type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Buckets, a sum and a count.
    Histogram,
}

impl Kind {
    fn parse(word: &str) -> Option<Self> {
        match word {
            "counter" => Some(Self::Counter),
            "gauge" => Some(Self::Gauge),
            "histogram" => Some(Self::Histogram),
            _ => None,
        }
    }
}

/// One family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    /// Its type.
    pub kind: Kind,
    /// Labels of its series.
    pub labels: BTreeSet<String>,
    /// The process has series of it.
    pub has_samples: bool,
}

/// Families by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exposition(pub BTreeMap<String, Family>);

impl Exposition {
    /// Reads a scrape in Prometheus' text format. Lines of other forms are left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut all = Self::default();
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let Some((name, kind)) = line.split_once(' ') else { continue };
            let Some(kind) = Kind::parse(kind.trim()) else { continue };
            all.0.insert(name.to_owned(), Family { kind, labels: BTreeSet::new(), has_samples: false });
        }
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((sample, rest)) = line.split_once(['{', ' ']) else { continue };
            let Some(name) = all.family_of(sample).map(str::to_owned) else { continue };
            let is_labelled = line.as_bytes().get(sample.len()) == Some(&b'{');
            let labels = if is_labelled { names_of_labels(rest) } else { Vec::new() };
            if let Some(family) = all.0.get_mut(&name) {
                family.has_samples = true;
                family.labels.extend(labels.into_iter().filter(|label| *label != "le").map(str::to_owned));
            }
        }
        all
    }

    /// Reads the page that lists metrics by name, type and labels (`docs/reference/metrics.md`).
    ///
    /// # Panics
    /// If the page has no table: who asks is a test.
    #[must_use]
    pub fn of_page(page: &str) -> Self {
        let table = table_after(page, "# Metrics");
        let quoted =
            |cell: &str| -> BTreeSet<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
        let families = table.rows.iter().filter_map(|row| {
            let kind = Kind::parse(&row[1])?;
            let family = Family { kind, labels: quoted(&row[2]), has_samples: false };
            Some((quoted(&row[0]).pop_first()?, family))
        });
        Self(families.collect())
    }

    /// Takes over the families that only the other one has, and labels of those without samples.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        for (name, family) in other.0 {
            match self.0.get_mut(&name) {
                Some(there) if there.has_samples => {}
                Some(there) => there.labels = family.labels,
                None => {
                    self.0.insert(name, family);
                }
            }
        }
        self
    }

    /// The family of a name as queries write it: a histogram's with its suffix, others as they are.
    #[must_use]
    pub fn find(&self, metric: &str) -> Option<&Family> {
        self.0.get(self.family_of(metric)?)
    }

    fn family_of<'a>(&'a self, sample: &'a str) -> Option<&'a str> {
        let is = |name: &str, histogram: bool| {
            self.0.get(name).is_some_and(|family| (family.kind == Kind::Histogram) == histogram)
        };
        if is(sample, false) {
            return Some(sample);
        }
        let stems = ["_bucket", "_sum", "_count"].into_iter().filter_map(|suffix| sample.strip_suffix(suffix));
        stems.into_iter().find(|stem| is(stem, true))
    }
}

/// Names of the labels behind the brace of a sample; values are quoted and may contain anything.
fn names_of_labels(mut rest: &str) -> Vec<&str> {
    let mut names = Vec::new();
    while let Some((name, value)) = rest.split_once("=\"") {
        names.push(name.trim_start_matches(','));
        let mut escaped = false;
        let end = value.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let Some(end) = end else { break };
        rest = &value[end + 1..];
        if rest.starts_with('}') {
            break;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_read_with_their_labels() {
        let text = "# HELP a_total A {b=\"c\"}.\n# TYPE a_total counter\na_total{x=\"1\",y=\"} \\\" z=\\\"\"} 3\n\
                    # TYPE h histogram\nh_bucket{le=\"1.0\",x=\"a\"} 1\nh_count{x=\"a\"} 1\n# TYPE n gauge\nn 1\n\
                    # TYPE e gauge\n# TYPE s summary\ns 1\n";
        let all = Exposition::parse(text);
        let shown = |name: &str| {
            let family = all.find(name)?;
            let labels: Vec<&str> = family.labels.iter().map(String::as_str).collect();
            Some((family.kind, labels.join(" "), family.has_samples))
        };
        for (name, want) in [
            ("a_total", Some((Kind::Counter, "x y".to_owned(), true))),
            ("a", None),
            ("h_bucket", Some((Kind::Histogram, "x".to_owned(), true))),
            ("h_sum", Some((Kind::Histogram, "x".to_owned(), true))),
            ("h", None),
            ("n", Some((Kind::Gauge, String::new(), true))),
            ("n_count", None),
            ("e", Some((Kind::Gauge, String::new(), false))),
            ("s", None),
        ] {
            assert_eq!(shown(name), want, "{name}");
        }
    }

    #[test]
    fn the_page_adds_what_a_scrape_does_not_have() {
        let page = "# Metrics\n\n| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n\
                    | `e` | gauge | `q` | E |\n| `n` | gauge | `q` | N |\n| `m` | counter |  | M |\n";
        let scrape = Exposition::parse("# TYPE n gauge\nn 1\n# TYPE e gauge\n");
        let all = scrape.or(Exposition::of_page(page));
        let labels = |name: &str| all.find(name).map(|family| family.labels.len());
        assert_eq!((labels("e"), labels("n"), labels("m")), (Some(1), Some(0), Some(0)));
    }
}
