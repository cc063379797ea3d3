//! Usage of pods and nodes that members report, as rows (specification/operations.md 2.15).

use std::cmp::Reverse;

use ironclad_api::{ResourceList, quantity::Amount};
use ironclad_planning::views::{self, Capacity, Counts};
use serde::Serialize;
use serde_json::Value;

/// Order of rows; without one they are ordered by name.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortBy {
    /// Highest CPU usage first.
    Cpu,
    /// Highest memory usage first.
    Memory,
}

/// Amounts of CPU and memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Used {
    /// Thousandths of a core.
    pub cpu_millis: i64,
    /// Bytes.
    pub memory_bytes: i64,
}

impl Used {
    fn of(usage: &Value) -> Self {
        let amount =
            |name: &str| usage[name].as_str().and_then(|text| Amount::parse(text).ok()).unwrap_or(Amount::ZERO);
        Self { cpu_millis: amount("cpu").milli_value(), memory_bytes: amount("memory").value() }
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.saturating_add(other.cpu_millis),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
        }
    }

    /// The cells of both, in the format of kubectl.
    #[must_use]
    pub fn cells(self) -> [String; 2] {
        [format!("{}m", self.cpu_millis), format!("{}Mi", self.memory_bytes >> 20)]
    }
}

impl From<Counts> for Used {
    fn from(counts: Counts) -> Self {
        Self { cpu_millis: counts.cpu_millis, memory_bytes: counts.memory_bytes }
    }
}

/// Usage of a pod, a container or a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Figure {
    /// Its member.
    pub cluster: String,
    /// Its namespace; empty for nodes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The container, if each is a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Its usage.
    pub used: Used,
    /// Allocatable resources of a node, or its capacity, if they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<Used>,
}

/// Usage of a cluster, and what its nodes have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClusterFigure {
    pub name: String,
    /// Usage of its nodes, if it reports that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Used>,
    /// `None` if it never reported its resources: they are unknown, not zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
}

impl ClusterFigure {
    /// The cells of its row.
    #[must_use]
    pub fn cells(&self) -> Vec<String> {
        let unknown = || ["-".to_owned(), "-".to_owned()];
        let [cpu, memory] = self.used.map_or_else(unknown, Used::cells);
        let of = |part: fn(Capacity) -> Counts| self.capacity.map(part);
        let parts = [of(|all| all.requested), of(|all| all.waiting), of(|all| all.allocatable)];
        let [requested, waiting, allocatable] =
            parts.map(|part| part.map_or_else(unknown, |part| Used::from(part).cells()));
        let pods = |part: Option<Counts>| part.map_or_else(|| "-".to_owned(), |part| part.pods.to_string());
        let mut cells = vec![self.name.clone()];
        for (used, column) in [(cpu, 0), (memory, 1)] {
            cells.push(used);
            cells.extend([&requested, &waiting, &allocatable].map(|part| part[column].clone()));
        }
        cells.extend([pods(parts[0]), pods(parts[2])]);
        cells
    }
}

/// The rows of a `PodMetricsList`: one for each pod, or for each container.
#[must_use]
pub fn pods(cluster: &str, list: &Value, each_container: bool) -> Vec<Figure> {
    let mut rows = Vec::new();
    for item in list["items"].as_array().into_iter().flatten() {
        let containers = || item["containers"].as_array().into_iter().flatten();
        let row = |container: Option<&Value>, used: Used| Figure {
            cluster: cluster.to_owned(),
            namespace: text(&item["metadata"]["namespace"]),
            name: text(&item["metadata"]["name"]),
            container: container.map(|c| text(&c["name"])),
            used,
            of: None,
        };
        if each_container {
            rows.extend(containers().map(|c| row(Some(c), Used::of(&c["usage"]))));
        } else {
            let sum = containers().map(|c| Used::of(&c["usage"])).fold(Used::default(), Used::plus);
            rows.push(row(None, sum));
        }
    }
    rows
}

/// The rows of a `NodeMetricsList`.
#[must_use]
pub fn nodes(cluster: &str, list: &Value) -> Vec<Figure> {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .map(|item| Figure {
            cluster: cluster.to_owned(),
            namespace: String::new(),
            name: text(&item["metadata"]["name"]),
            container: None,
            used: Used::of(&item["usage"]),
            of: None,
        })
        .collect()
}

/// Puts rows in order.
pub fn sort(rows: &mut [Figure], by: Option<SortBy>) {
    rows.sort_by(|a, b| {
        let amount = |f: &Figure| {
            Reverse(match by {
                Some(SortBy::Cpu) => f.used.cpu_millis,
                Some(SortBy::Memory) => f.used.memory_bytes,
                None => 0,
            })
        };
        let place = |f: &Figure| (f.namespace.clone(), f.name.clone(), f.cluster.clone(), f.container.clone());
        amount(a).cmp(&amount(b)).then_with(|| place(a).cmp(&place(b)))
    });
}

/// CPU and memory in a list of resources.
#[must_use]
pub fn amounts(list: &ResourceList) -> Used {
    views::amounts(list).into()
}

/// A percentage such as `12%`, or a dash if the total is zero.
#[must_use]
pub fn share(part: i64, whole: i64) -> String {
    if whole <= 0 {
        return "-".to_owned();
    }
    format!("{}%", i128::from(part) * 100 / i128::from(whole))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list() -> Value {
        let container =
            |name: &str, cpu: &str, memory: &str| json!({"name": name, "usage": {"cpu": cpu, "memory": memory}});
        let pod = |name: &str, containers: Vec<Value>| json!({"metadata": {"name": name, "namespace": "shop"}, "containers": containers});
        json!({"items": [
            pod("b", vec![container("c", "100m", "64Mi"), container("d", "123456n", "1Ki")]),
            pod("a", vec![container("c", "2", "1Gi")]),
        ]})
    }

    #[test]
    fn rows_of_pods() {
        let rows = pods("m1", &list(), false);
        let cells: Vec<_> = rows.iter().map(|r| (r.name.as_str(), r.used.cells())).collect();
        assert_eq!(
            cells,
            [("b", ["101m".to_owned(), "64Mi".to_owned()]), ("a", ["2000m".to_owned(), "1024Mi".to_owned()])]
        );
        let containers = pods("m1", &list(), true);
        assert_eq!(containers.len(), 3);
        assert_eq!(containers[1].container.as_deref(), Some("d"));
    }

    #[test]
    fn rows_of_clusters() {
        let counts = |cpu_millis, pods| Counts { cpu_millis, memory_bytes: cpu_millis << 20, pods };
        let capacity = Capacity { allocatable: counts(4000, 110), requested: counts(100, 3), waiting: counts(0, 0) };
        let used = Used { cpu_millis: 7, memory_bytes: 9 << 20 };
        let row = |used, capacity| ClusterFigure { name: "m1".to_owned(), used, capacity };
        for (row, cells, json) in [
            (
                row(Some(used), Some(capacity)),
                "m1 7m 100m 0m 4000m 9Mi 100Mi 0Mi 4000Mi 3 110",
                json!({"name": "m1", "used": used, "capacity": capacity}),
            ),
            (row(None, None), "m1 - - - - - - - - - -", json!({"name": "m1"})),
        ] {
            assert_eq!(row.cells().join(" "), cells);
            assert_eq!(json!(row), json);
        }
        let pod = json!(pods("m1", &list(), false)[1]);
        let want = json!({"cluster": "m1", "namespace": "shop", "name": "a",
            "used": {"cpuMillis": 2000, "memoryBytes": 1 << 30}});
        assert_eq!(pod, want);
    }

    #[test]
    fn orders() {
        for (by, want) in [(None, ["a", "b"]), (Some(SortBy::Cpu), ["a", "b"]), (Some(SortBy::Memory), ["a", "b"])] {
            let mut rows = pods("m1", &list(), false);
            sort(&mut rows, by);
            assert_eq!(rows.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), want, "{by:?}");
        }
        let mut rows = [pods("m2", &list(), false), pods("m1", &list(), false)].concat();
        sort(&mut rows, None);
        let places: Vec<_> = rows.iter().map(|r| format!("{}/{}", r.name, r.cluster)).collect();
        assert_eq!(places, ["a/m1", "a/m2", "b/m1", "b/m2"]);
    }

    #[test]
    fn shares() {
        for (part, whole, want) in [(1, 8, "12%"), (8, 8, "100%"), (1, 0, "-"), (i64::MAX, i64::MAX, "100%")] {
            assert_eq!(share(part, whole), want);
        }
    }
}
