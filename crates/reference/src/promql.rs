//! Queries of PromQL, as far as the dashboards and the alert rules of the chart use the language.
//!
//! A query is parsed and not evaluated: [`Query::check`] compares its metrics and labels with an
//! [`Exposition`]. What is not known here is refused, so that nothing passes unread.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::exposition::{Exposition, Kind};

/// Labels that a scrape adds to every series.
const TARGET_LABELS: [&str; 4] = ["instance", "job", "namespace", "pod"];
/// Aggregations, and the number of their arguments.
const AGGREGATIONS: [(&str, usize); 7] =
    [("avg", 1), ("bottomk", 2), ("count", 1), ("max", 1), ("min", 1), ("sum", 1), ("topk", 2)];
/// Functions of ranges of counters.
const OF_COUNTERS: [&str; 2] = ["increase", "rate"];
/// Functions of ranges of gauges.
const OF_GAUGES: [&str; 4] = ["changes", "delta", "max_over_time", "min_over_time"];
/// Functions of instant vectors that keep labels.
const OF_VECTORS: [&str; 1] = ["clamp_min"];
/// Gauges that count, since their names are given and do not end in `_total`.
const COUNTERS_SHOWN_AS_GAUGES: [&str; 3] =
    ["create_resource_to_cluster", "delete_resource_from_cluster", "update_resource_to_cluster"];

/// A parsed query.
#[derive(Debug, Clone, PartialEq)]
pub enum Query {
    /// A number.
    Number(f64),
    /// A metric with the labels of its matchers, over a range or at an instant.
    Selector {
        /// Name of the metric.
        metric: String,
        /// Labels that matchers name.
        labels: BTreeSet<String>,
        /// A range follows.
        is_range: bool,
    },
    /// A function.
    Call {
        /// Its name.
        name: String,
        /// Its arguments.
        arguments: Vec<Query>,
    },
    /// An aggregation.
    Aggregate {
        /// Its name.
        name: String,
        /// Labels that stay or leave.
        grouping: Option<Grouping>,
        /// Its arguments.
        arguments: Vec<Query>,
    },
    /// An operation of two queries.
    Binary {
        /// The operator.
        operator: String,
        /// Labels by which series of both sides find each other.
        matching: Option<Grouping>,
        /// Both sides.
        sides: Box<[Query; 2]>,
    },
}

/// Labels of an aggregation or of a matching.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grouping {
    /// `by` or `on`; else `without` or `ignoring`.
    pub keeps: bool,
    /// The labels.
    pub labels: BTreeSet<String>,
}

/// Labels of the series that a query returns; none for a scalar.
type Labels = Option<BTreeSet<String>>;

/// A part of a query that no metric answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong(pub String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Query {
    /// Parses a query.
    ///
    /// # Errors
    /// It is no query, or uses what is not known here.
    pub fn parse(text: &str) -> Result<Self, Wrong> {
        let mut parser = Parser { words: words(text)?, at: 0 };
        let query = parser.query(0)?;
        match parser.peek() {
            None => Ok(query),
            Some(word) => Err(Wrong(format!("{word:?} is one too many"))),
        }
    }

    /// Names of the metrics.
    #[must_use]
    pub fn metrics(&self) -> BTreeSet<&str> {
        match self {
            Self::Number(_) => BTreeSet::new(),
            Self::Selector { metric, .. } => BTreeSet::from([metric.as_str()]),
            Self::Call { arguments, .. } | Self::Aggregate { arguments, .. } => {
                arguments.iter().flat_map(Self::metrics).collect()
            }
            Self::Binary { sides, .. } => sides.iter().flat_map(Self::metrics).collect(),
        }
    }

    /// Compares metrics and labels with an exposition, and returns the labels of the result.
    ///
    /// # Errors
    /// A metric is not exported, has not a label, is of another type, or two sides never match.
    pub fn check(&self, exposition: &Exposition) -> Result<Labels, Wrong> {
        match self {
            Self::Number(_) => Ok(None),
            Self::Selector { metric, labels, is_range } => {
                if *is_range {
                    return Err(Wrong(format!("the range of {metric} is not the argument of a function")));
                }
                selected(metric, labels, exposition).map(Some)
            }
            Self::Call { name, arguments } => called(name, arguments, exposition),
            Self::Aggregate { name, grouping, arguments } => {
                let argument = arguments.last().map(|argument| argument.check(exposition)).transpose()?.flatten();
                let inner = argument.ok_or_else(|| Wrong(format!("{name} of a number")))?;
                let is_choice = name.ends_with('k');
                aggregated(inner, grouping.as_ref(), is_choice).map(Some)
            }
            Self::Binary { operator, matching, sides } => {
                let [left, right] = &**sides;
                let (left, right) = (left.check(exposition)?, right.check(exposition)?);
                combined(operator, matching.as_ref(), left, right)
            }
        }
    }
}

fn selected(metric: &str, labels: &BTreeSet<String>, exposition: &Exposition) -> Result<BTreeSet<String>, Wrong> {
    let family = exposition.find(metric).ok_or_else(|| Wrong(format!("metric {metric} is not exported")))?;
    let mut there = family.labels.clone();
    there.extend(TARGET_LABELS.map(str::to_owned));
    if metric.ends_with("_bucket") {
        there.insert("le".to_owned());
    }
    match labels.difference(&there).next() {
        Some(label) => Err(Wrong(format!("metric {metric} has no label {label}"))),
        None => Ok(there),
    }
}

fn called(name: &str, arguments: &[Query], exposition: &Exposition) -> Result<Labels, Wrong> {
    if OF_COUNTERS.contains(&name) || OF_GAUGES.contains(&name) {
        let [Query::Selector { metric, labels, is_range: true }] = arguments else {
            return Err(Wrong(format!("{name} wants a metric with a range")));
        };
        let there = selected(metric, labels, exposition)?;
        let counts = exposition.find(metric).is_some_and(|family| family.kind != Kind::Gauge);
        let counts = counts || COUNTERS_SHOWN_AS_GAUGES.contains(&metric.as_str());
        if counts != OF_COUNTERS.contains(&name) {
            return Err(Wrong(format!("{name} is not for the type of {metric}")));
        }
        return Ok(Some(there));
    }
    match (name, arguments) {
        ("time", []) => Ok(None),
        ("absent", [inner]) => inner.check(exposition).map(|_| Some(BTreeSet::new())),
        ("histogram_quantile", [Query::Number(_), inner]) => {
            let mut labels = inner.check(exposition)?.unwrap_or_default();
            if !labels.remove("le") {
                return Err(Wrong("histogram_quantile of series without le".to_owned()));
            }
            Ok(Some(labels))
        }
        ("label_values", [Query::Selector { metric, labels, .. }, Query::Selector { metric: label, .. }]) => {
            let labels = labels.iter().cloned().chain([label.clone()]).collect();
            selected(metric, &labels, exposition).map(Some)
        }
        (name, [inner, ..]) if OF_VECTORS.contains(&name) => inner.check(exposition),
        _ => Err(Wrong(format!("{name} with {} arguments is not known here", arguments.len()))),
    }
}

fn aggregated(
    inner: BTreeSet<String>,
    grouping: Option<&Grouping>,
    is_choice: bool,
) -> Result<BTreeSet<String>, Wrong> {
    let Some(Grouping { keeps, labels }) = grouping else {
        return Ok(if is_choice { inner } else { BTreeSet::new() });
    };
    if let Some(label) = labels.difference(&inner).next() {
        return Err(Wrong(format!("there is no label {label} to aggregate by")));
    }
    if is_choice {
        return Ok(inner);
    }
    Ok(if *keeps { labels.clone() } else { inner.difference(labels).cloned().collect() })
}

fn combined(operator: &str, matching: Option<&Grouping>, left: Labels, right: Labels) -> Result<Labels, Wrong> {
    let (Some(left), Some(right)) = (&left, &right) else {
        return if matching.is_some() || matches!(operator, "and" | "or" | "unless") {
            Err(Wrong(format!("a number has no labels for {operator}")))
        } else {
            Ok(left.or(right))
        };
    };
    let side = |labels: &BTreeSet<String>| -> BTreeSet<String> {
        match matching {
            None => labels.clone(),
            Some(by) if by.keeps => by.labels.clone(),
            Some(by) => labels.difference(&by.labels).cloned().collect(),
        }
    };
    if let Some(Grouping { keeps, labels }) = matching {
        // A label that is ignored may be of one side only.
        let is_there = |label: &&String| {
            let (left, right) = (left.contains(*label), right.contains(*label));
            if *keeps { left && right } else { left || right }
        };
        if let Some(label) = labels.iter().find(|label| !is_there(label)) {
            return Err(Wrong(format!("there is no label {label} to match by")));
        }
    }
    if side(left) != side(right) {
        return Err(Wrong(format!("the sides of {operator} never match: {left:?} and {right:?}")));
    }
    Ok(Some(if matches!(operator, "and" | "or" | "unless") { left.clone() } else { side(left) }))
}

/// Operators by how tightly they bind.
fn binding(word: &str) -> Option<u8> {
    match word {
        "or" => Some(1),
        "and" | "unless" => Some(2),
        "==" | "!=" | ">" | "<" | ">=" | "<=" => Some(3),
        "+" | "-" => Some(4),
        "*" | "/" => Some(5),
        _ => None,
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Word {
    Name(String),
    Number(f64),
    Text(String),
    Sign(String),
}

struct Parser {
    words: Vec<Word>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Word> {
        self.words.get(self.at)
    }

    fn next(&mut self) -> Result<Word, Wrong> {
        let word = self.peek().cloned().ok_or_else(|| Wrong("the query ends early".to_owned()))?;
        self.at += 1;
        Ok(word)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Some(Word::Sign(word)) if word == sign);
        self.at += usize::from(found);
        found
    }

    fn wants(&mut self, sign: &str) -> Result<(), Wrong> {
        if self.takes(sign) { Ok(()) } else { Err(Wrong(format!("{sign} is missing before {:?}", self.peek()))) }
    }

    fn query(&mut self, at_least: u8) -> Result<Query, Wrong> {
        let mut left = self.operand()?;
        loop {
            let operator = match self.peek() {
                Some(Word::Sign(word) | Word::Name(word)) => word.clone(),
                _ => return Ok(left),
            };
            let Some(bound) = binding(&operator).filter(|bound| *bound > at_least) else { return Ok(left) };
            self.at += 1;
            let matching = self.grouping("on", "ignoring")?;
            let right = self.query(bound)?;
            left = Query::Binary { operator, matching, sides: Box::new([left, right]) };
        }
    }

    fn operand(&mut self) -> Result<Query, Wrong> {
        match self.next()? {
            Word::Number(number) => Ok(Query::Number(number)),
            Word::Sign(sign) if sign == "(" => {
                let inner = self.query(0)?;
                self.wants(")")?;
                Ok(inner)
            }
            Word::Name(name) => {
                if let Some((_, count)) = AGGREGATIONS.iter().find(|(known, _)| *known == name) {
                    return self.aggregation(name, *count);
                }
                if self.takes("(") {
                    return Ok(Query::Call { name, arguments: self.arguments()? });
                }
                self.selector(name)
            }
            word => Err(Wrong(format!("{word:?} begins no query"))),
        }
    }

    fn aggregation(&mut self, name: String, count: usize) -> Result<Query, Wrong> {
        let before = self.grouping("by", "without")?;
        self.wants("(")?;
        let arguments = self.arguments()?;
        if arguments.len() != count {
            return Err(Wrong(format!("{name} has {} arguments", arguments.len())));
        }
        let grouping = match before {
            Some(grouping) => Some(grouping),
            None => self.grouping("by", "without")?,
        };
        Ok(Query::Aggregate { name, grouping, arguments })
    }

    /// Arguments after the bracket.
    fn arguments(&mut self) -> Result<Vec<Query>, Wrong> {
        let mut arguments = Vec::new();
        if self.takes(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.query(0)?);
            if self.takes(")") {
                return Ok(arguments);
            }
            self.wants(",")?;
        }
    }

    fn grouping(&mut self, keeps: &str, drops: &str) -> Result<Option<Grouping>, Wrong> {
        let keeps = match self.peek() {
            Some(Word::Name(word)) if word == keeps => true,
            Some(Word::Name(word)) if word == drops => false,
            _ => return Ok(None),
        };
        self.at += 1;
        self.wants("(")?;
        let mut labels = BTreeSet::new();
        while !self.takes(")") {
            match self.next()? {
                Word::Name(label) => labels.insert(label),
                word => return Err(Wrong(format!("{word:?} is no label"))),
            };
            if !self.takes(",") {
                self.wants(")")?;
                break;
            }
        }
        Ok(Some(Grouping { keeps, labels }))
    }

    fn selector(&mut self, metric: String) -> Result<Query, Wrong> {
        let mut labels = BTreeSet::new();
        if self.takes("{") {
            while !self.takes("}") {
                let Word::Name(label) = self.next()? else { return Err(Wrong(format!("{metric}: no label"))) };
                let known = ["=", "=~", "!=", "!~"].into_iter().any(|sign| self.takes(sign));
                match self.next()? {
                    Word::Text(_) if known => labels.insert(label),
                    word => return Err(Wrong(format!("{metric}: {word:?} after {label}"))),
                };
                if !self.takes(",") {
                    self.wants("}")?;
                    break;
                }
            }
        }
        let is_range = self.takes("[");
        if is_range {
            match self.next()? {
                Word::Name(range) if range == "$__rate_interval" || range == "$__range" => {}
                Word::Number(_) => match self.next()? {
                    Word::Name(unit) if ["s", "m", "h", "d"].contains(&unit.as_str()) => {}
                    word => return Err(Wrong(format!("{metric}: {word:?} is no unit of time"))),
                },
                word => return Err(Wrong(format!("{metric}: {word:?} is no range"))),
            }
            self.wants("]")?;
        }
        Ok(Query::Selector { metric, labels, is_range })
    }
}

fn words(text: &str) -> Result<Vec<Word>, Wrong> {
    let (mut words, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let run = |is_part: fn(char) -> bool| rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let length = if first.is_ascii_digit() {
            let length = run(|c| c.is_ascii_digit() || c == '.');
            let number = rest[..length].parse().map_err(|_| Wrong(format!("{} is no number", &rest[..length])))?;
            words.push(Word::Number(number));
            length
        } else if first.is_ascii_alphabetic() || first == '_' || first == '$' {
            let length = run(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '$'));
            words.push(Word::Name(rest[..length].to_owned()));
            length
        } else if first == '"' {
            let end = rest[1..].find('"').ok_or_else(|| Wrong("a text has no end".to_owned()))?;
            words.push(Word::Text(rest[1..=end].to_owned()));
            end + 2
        } else {
            let signs = ["==", "!=", "=~", "!~", ">=", "<=", "(", ")", "{", "}", "[", "]", ",", "=", "+", "-", "*"];
            let sign = signs.into_iter().chain(["/", ">", "<"]).find(|sign| rest.starts_with(sign));
            let sign = sign.ok_or_else(|| Wrong(format!("{first:?} is not known here")))?;
            words.push(Word::Sign(sign.to_owned()));
            sign.len()
        };
        rest = rest[length..].trim_start();
    }
    Ok(words)
}

/// Labels that a legend or a summary takes from the result, as `{{label}}` or `{{ $labels.label }}`.
#[must_use]
pub fn labels_of_text(text: &str) -> BTreeSet<&str> {
    let inner = text.split("{{").skip(1).filter_map(|rest| Some(rest.split_once("}}")?.0.trim()));
    // Functions of templates stand behind a bar: the value alone has none of them here.
    inner.filter(|word| !word.starts_with("$value")).map(|word| word.trim_start_matches("$labels.")).collect()
}

/// Queries by where they stand, that ask for what is not there.
#[must_use]
pub fn wrong_queries<'a>(
    queries: impl IntoIterator<Item = (String, &'a str, BTreeSet<&'a str>)>,
    exposition: &Exposition,
) -> BTreeMap<String, Wrong> {
    let check = |text: &str, shown: &BTreeSet<&str>| {
        let labels = Query::parse(text)?.check(exposition)?.unwrap_or_default();
        match shown.iter().find(|label| !labels.contains(**label)) {
            Some(label) => Err(Wrong(format!("{label} is shown and is no label of the result"))),
            None => Ok(()),
        }
    };
    queries.into_iter().filter_map(|(at, text, shown)| Some((at, check(text, &shown).err()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# TYPE a_total counter\na_total{x=\"1\",y=\"2\"} 1\n# TYPE g gauge\ng{x=\"1\"} 1\n\
                        # TYPE h histogram\nh_bucket{le=\"1\",x=\"a\"} 1\nh_sum{x=\"a\"} 1\nh_count{x=\"a\"} 1\n\
                        # TYPE n gauge\nn 1\n# TYPE none gauge\n";

    fn labels(text: &str) -> Result<Vec<String>, String> {
        let exposition = Exposition::parse(TEXT);
        let labels = Query::parse(text).and_then(|query| query.check(&exposition)).map_err(|wrong| wrong.0)?;
        let own = |label: &String| !TARGET_LABELS.contains(&label.as_str());
        Ok(labels.unwrap_or_default().into_iter().filter(own).collect())
    }

    #[test]
    fn labels_of_results_follow_from_those_of_the_metrics() {
        for (text, want) in [
            ("1", ""),
            ("g", "x"),
            ("g{x=~\"$x\",job!=\"\"} > 0.5", "x"),
            ("sum(rate(a_total[5m])) by (x)", "x"),
            ("sum by (x, y) (rate(a_total{x=\"1\"}[$__rate_interval]))", "x y"),
            ("sum without (x) (increase(a_total[1h]))", "y"),
            ("sum(g)", ""),
            ("topk(3, g)", "x"),
            ("histogram_quantile(0.99, sum by (le, x) (rate(h_bucket[5m])))", "x"),
            ("sum(rate(h_sum[5m])) / sum(rate(h_count[5m]))", ""),
            ("sum by (x) (g) / sum by (x) (rate(a_total[5m])) * 100", "x"),
            ("g and on (x, job) a_total", "x"),
            ("n == 1 and on (job) g", ""),
            ("a_total unless ignoring (y) g", "x y"),
            ("absent(g{x=\"1\"})", ""),
            ("time() - n", ""),
            ("(g > 1) or (g < 0)", "x"),
            ("clamp_min(g, 1)", "x"),
            ("changes(n[15m]) > 2", ""),
        ] {
            assert_eq!(labels(text).map(|labels| labels.join(" ")), Ok(want.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_not_there_is_named() {
        for (text, want) in [
            ("b", "metric b is not exported"),
            ("sum(rate(b_total[5m]))", "metric b_total is not exported"),
            ("h", "metric h is not exported"),
            ("n_bucket", "metric n_bucket is not exported"),
            ("g{y=\"1\"}", "metric g has no label y"),
            ("none{y=\"1\"}", "metric none has no label y"),
            ("h_count{le=\"1\"}", "metric h_count has no label le"),
            ("sum by (y) (g)", "there is no label y to aggregate by"),
            ("sum(g) by (y)", "there is no label y to aggregate by"),
            ("topk by (y) (1, g)", "there is no label y to aggregate by"),
            ("g[5m]", "the range of g is not the argument of a function"),
            ("rate(g[5m])", "rate is not for the type of g"),
            ("delta(a_total[5m])", "delta is not for the type of a_total"),
            ("rate(a_total)", "rate wants a metric with a range"),
            ("histogram_quantile(0.9, sum(rate(h_bucket[5m])))", "histogram_quantile of series without le"),
            ("a_total / g", "the sides of / never match"),
            ("g and on (y) a_total", "there is no label y to match by"),
            ("g and 1", "a number has no labels for and"),
            ("sum(1)", "sum of a number"),
            ("deriv(g[5m])", "deriv with 1 arguments is not known here"),
            ("label_values(g, y)", "metric g has no label y"),
        ] {
            let got = labels(text).unwrap_err();
            assert!(got.starts_with(want), "{text}: {got}");
        }
    }

    #[test]
    fn what_is_no_query_is_refused() {
        for text in [
            "", "sum(", "g{x}", "g{x=1}", "g{x=\"}", "g g", "g[5]", "g[5w]", "rate(g[$x])", "1 +", "sum(g, g)",
            "g @ 1", "g offset 5m", "sum by (1) (g)", "1.2.3", ")",
        ] {
            assert!(Query::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn operators_bind_as_in_prometheus() {
        assert_eq!(Query::parse("1 + 2 * 3 > 4 and 5 or 6"), Query::parse("(((1 + (2 * 3)) > 4) and 5) or 6"));
        assert_eq!(Query::parse("1 - 2 - 3"), Query::parse("(1 - 2) - 3"));
        assert_ne!(Query::parse("1 - 2 - 3"), Query::parse("1 - (2 - 3)"));
    }

    #[test]
    fn shown_labels_are_compared() {
        assert_eq!(labels_of_text("{{x}} of {{ $labels.y }}: {{ $value }}"), BTreeSet::from(["x", "y"]));
        let exposition = Exposition::parse(TEXT);
        let queries = [("sum by (x) (g)", "{{x}}"), ("sum(g)", "{{x}}"), ("g", "{{job}}")];
        let queries = queries.iter().map(|(text, legend)| ((*text).to_owned(), *text, labels_of_text(legend)));
        let wrong = wrong_queries(queries, &exposition);
        assert_eq!(wrong.keys().collect::<Vec<_>>(), ["sum(g)"]);
    }
}
