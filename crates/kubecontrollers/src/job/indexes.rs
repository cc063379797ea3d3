//! The completion indexes of an Indexed Job, written as `0-2,5`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

pub(crate) const INDEX: &str = "batch.kubernetes.io/job-completion-index";

pub(crate) fn of(pod: &Pod) -> Option<i32> {
    pod.metadata.annotations.as_ref()?.get(INDEX)?.parse().ok()
}

/// Parses indexes below a bound; invalid ones are skipped.
pub(crate) fn parse(text: &str, below: i32) -> BTreeSet<i32> {
    let mut indexes = BTreeSet::new();
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
            indexes.extend(first.max(0)..=last.min(below - 1));
        }
    }
    indexes
}

/// Formats indexes, three and more in a row as a range; `None` if there are none.
pub(crate) fn text(indexes: &BTreeSet<i32>) -> Option<String> {
    let mut parts: Vec<(i32, i32)> = Vec::new();
    for index in indexes {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => parts.push((*index, *index)),
        }
    }
    let part = |(first, last): &(i32, i32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    (!parts.is_empty()).then(|| parts.iter().map(part).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for (indexes, want) in
            [(vec![], None), (vec![3], Some("3")), (vec![0, 1], Some("0,1")), (vec![0, 1, 2, 5], Some("0-2,5"))]
        {
            let indexes: BTreeSet<i32> = indexes.into_iter().collect();
            assert_eq!(text(&indexes).as_deref(), want);
            assert_eq!(parse(want.unwrap_or(""), 10), indexes);
        }
        assert_eq!(parse("0-999999999,x,7-", 3), [0, 1, 2].into(), "bounded");
    }
}
