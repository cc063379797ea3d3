//! Table of the figures with their ratios and targets.

use super::{Args, Figures};

#[derive(Clone, Copy)]
enum Target {
    AtMost(f64),
    AtLeast(f64),
    None,
}

impl Target {
    fn holds(self, ratio: f64) -> Option<bool> {
        match self {
            Self::AtMost(bound) => Some(ratio <= bound),
            Self::AtLeast(bound) => Some(ratio >= bound),
            Self::None => None,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtMost(bound) => format!("<= {bound:.2}"),
            Self::AtLeast(bound) => format!(">= {bound:.2}"),
            Self::None => String::new(),
        }
    }
}

struct Row {
    name: String,
    ours: f64,
    theirs: Option<f64>,
    target: Target,
}

pub(super) fn print(args: &Args, ours: &Figures, theirs: Option<&Figures>) {
    let rows = rows(args, ours, theirs);
    println!("{:<44} {:>12} {:>16} {:>8} {:>9} {:>7}", "", "ironclad", "kube-api + etcd", "ratio", "target", "reached");
    for row in rows {
        let Some(theirs) = row.theirs else {
            println!("{:<44} {:>12.2}", row.name, row.ours);
            continue;
        };
        let ratio = row.ours / theirs;
        let reached = match row.target.holds(ratio) {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        };
        println!(
            "{:<44} {:>12.2} {:>16.2} {ratio:>8.2} {:>9} {reached:>7}",
            row.name,
            row.ours,
            theirs,
            row.target.text()
        );
    }
}

fn rows(args: &Args, ours: &Figures, theirs: Option<&Figures>) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |name: String, of: &dyn Fn(&Figures) -> f64, target| {
        rows.push(Row { name, ours: of(ours), theirs: theirs.map(of), target });
    };
    add("start to ready, s".into(), &|f| f.ready, Target::AtMost(0.2));
    add("memory at rest, MiB".into(), &|f| f.rest.0, Target::AtMost(0.1));
    add("  without pages of files, MiB".into(), &|f| f.rest.1, Target::None);
    for (index, writes) in ours.writes.iter().enumerate() {
        let clients = writes.clients;
        add(format!("writes per second, {clients} clients"), &|f| f.writes[index].per_second, Target::AtLeast(2.0));
        add("  p50 of a write, ms".into(), &|f| f.writes[index].p50_ms, Target::None);
        add("  p99 of a write, ms".into(), &|f| f.writes[index].p99_ms, Target::None);
        add("  CPU per 10,000 writes, s".into(), &|f| f.writes[index].cpu_seconds, Target::None);
    }
    add(format!("a write until {} watches have it, p50 ms", args.watchers), &|f| f.fan_out_ms.0, Target::None);
    add("  p99 ms".into(), &|f| f.fan_out_ms.1, Target::None);
    add("creates per second, 32 clients".into(), &|f| f.creates_per_second, Target::None);
    add(format!("list of {} objects, ms", args.listed), &|f| f.list_ms, Target::AtMost(0.5));
    add("  its bytes, MiB".into(), &|f| f.list_bytes as f64 / 1_048_576.0, Target::None);
    add(format!("memory with {} objects, MiB", args.objects), &|f| f.full.0, Target::AtMost(1.0 / 3.0));
    add("  without pages of files, MiB".into(), &|f| f.full.1, Target::None);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_include_their_bound() {
        for (name, target, ratio, want) in [
            ("less than the bound is good", Target::AtMost(0.5), 0.4, Some(true)),
            ("so is the bound", Target::AtMost(0.5), 0.5, Some(true)),
            ("more is not", Target::AtMost(0.5), 0.51, Some(false)),
            ("as fast as asked for", Target::AtLeast(2.0), 2.0, Some(true)),
            ("slower", Target::AtLeast(2.0), 1.99, Some(false)),
            ("nothing is asked for", Target::None, 9.0, None),
        ] {
            assert_eq!(target.holds(ratio), want, "{name}");
        }
    }
}
