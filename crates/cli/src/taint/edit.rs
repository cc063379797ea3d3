//! Edits of a cluster's taints.

use std::fmt;

use ironclad_api::Taint;
use ironclad_failover::taints::TaintId;
use ironclad_fleet::taint::text;

use super::spec::Request;

/// Treatment of existing taints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overwrite {
    /// `--overwrite`.
    Allowed,
    /// Without it.
    Refused,
}

/// Result of an edit, as printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Some were added.
    Tainted,
    /// Some were removed.
    Untainted,
    /// Both, or some were overwritten.
    Modified,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tainted => "tainted",
            Self::Untainted => "untainted",
            Self::Modified => "modified",
        })
    }
}

/// Why an edit makes no sense on this cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It has them.
    #[error("cluster {cluster} already has {keys} taint(s) with same effect(s) and --overwrite is false")]
    Present {
        /// The cluster.
        cluster: String,
        /// The keys.
        keys: String,
    },
    /// It has not.
    #[error("taint {taint:?} not found")]
    Missing {
        /// The taint.
        taint: String,
    },
}

/// The taints after the edit, and what to call it. A taint that is overwritten keeps its place and its `timeAdded`:
/// what waits for its time goes on waiting.
///
/// # Errors
/// If the cluster has a taint that is to be added, or not one that is to be removed.
pub fn edited(
    cluster: &str,
    standing: &[Taint],
    request: &Request,
    overwrite: Overwrite,
) -> Result<(Vec<Taint>, Outcome), Refused> {
    let mut taints = standing.to_vec();
    let same = |a: &Taint, b: &Taint| TaintId::of(a).is(b);
    if overwrite == Overwrite::Refused {
        let present = |new: &&Taint| standing.iter().any(|old| same(old, new));
        let keys: Vec<&str> = request.add.iter().filter(present).map(|taint| taint.key.as_str()).collect();
        if !keys.is_empty() {
            return Err(Refused::Present { cluster: cluster.to_owned(), keys: keys.join(",") });
        }
    }
    for removal in &request.remove {
        let before = taints.len();
        taints.retain(|taint| !removal.means(taint));
        if taints.len() == before {
            return Err(Refused::Missing { taint: removal.to_string() });
        }
    }
    let removed = taints.len() < standing.len();
    let (mut added, mut overwritten) = (false, false);
    for new in &request.add {
        match taints.iter_mut().find(|old| same(old, new)) {
            Some(old) => {
                overwritten = true;
                old.value.clone_from(&new.value);
            }
            None => {
                added = true;
                taints.push(new.clone());
            }
        }
    }
    let outcome = match (added, removed, overwritten) {
        (true, false, false) => Outcome::Tainted,
        (false, true, false) => Outcome::Untainted,
        _ => Outcome::Modified,
    };
    Ok((taints, outcome))
}

/// The taints of a request that can move workloads, as messages print them.
#[must_use]
pub fn evicting(request: &Request) -> Vec<String> {
    request.add.iter().filter(|taint| ironclad_failover::taints::evicts(taint)).map(text).collect()
}

#[cfg(test)]
mod tests {
    use ironclad_api::Time;
    use jiff::Timestamp;

    use super::*;
    use crate::taint::spec::parse;

    fn run(standing: &[&str], line: &str, overwrite: Overwrite) -> Result<String, String> {
        let words: Vec<String> = format!("clusters m1 {line}").split_whitespace().map(str::to_owned).collect();
        let standing = format!("clusters m1 {}", standing.join(" "));
        let standing: Vec<String> = standing.split_whitespace().map(str::to_owned).collect();
        let mut standing = parse(&standing).map(|request| request.add).unwrap_or_default();
        for taint in &mut standing {
            taint.time_added = Some(Time(Timestamp::from_second(5).unwrap()));
        }
        let (taints, outcome) =
            edited("m1", &standing, &parse(&words).unwrap(), overwrite).map_err(|error| error.to_string())?;
        let shown = |taint: &Taint| format!("{}{}", text(taint), if taint.time_added.is_some() { "@5" } else { "" });
        Ok(format!("{outcome} {}", taints.iter().map(shown).collect::<Vec<_>>().join(" ")))
    }

    #[test]
    fn edits() {
        use Overwrite::{Allowed, Refused};
        for (name, standing, line, overwrite, want) in [
            ("the first", &[][..], "k=v:NoSchedule", Refused, "tainted k=v:NoSchedule"),
            ("another effect", &["k:NoSchedule"], "k:NoExecute", Refused, "tainted k:NoSchedule@5 k:NoExecute"),
            ("a removal", &["k:NoSchedule", "x:NoExecute"], "k:NoSchedule-", Refused, "untainted x:NoExecute@5"),
            ("all effects", &["k:NoSchedule", "k:NoExecute"], "k-", Refused, "untainted "),
            ("both", &["k:NoSchedule"], "k- x:NoExecute", Refused, "modified x:NoExecute"),
            ("overwritten: its time stays", &["k=v:NoExecute"], "k=w:NoExecute", Allowed, "modified k=w:NoExecute@5"),
            ("nothing to overwrite", &["k:NoSchedule"], "x:NoExecute", Allowed, "tainted k:NoSchedule@5 x:NoExecute"),
        ] {
            assert_eq!(run(standing, line, overwrite).as_deref(), Ok(want), "{name}");
        }
    }

    #[test]
    fn refusals() {
        use Overwrite::{Allowed, Refused};
        let present = "cluster m1 already has k,x taint(s) with same effect(s) and --overwrite is false";
        for (name, standing, line, overwrite, want) in [
            ("there", &["k=v:NoExecute", "x:NoSchedule"][..], "k=w:NoExecute x:NoSchedule", Refused, present),
            ("not there", &["k:NoSchedule"], "k:NoExecute-", Refused, "taint \"k:NoExecute\" not found"),
            ("not there either", &[], "k-", Allowed, "taint \"k\" not found"),
        ] {
            assert_eq!(run(standing, line, overwrite).unwrap_err(), want, "{name}");
        }
    }
}
