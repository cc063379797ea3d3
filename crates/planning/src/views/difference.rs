//! The difference of two texts by lines.

use serde::Serialize;

/// Comparisons that a difference costs at most: lines of one text times lines of the other, between those that begin
/// and end both. Beyond it, all of the one are told as removed and all of the other as added.
const COMPARISONS_MAX: usize = 1_000_000;

/// Texts that a line is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Side {
    /// Both.
    #[serde(rename = " ")]
    Both,
    /// The first one only.
    #[serde(rename = "-")]
    Removed,
    /// The second one only.
    #[serde(rename = "+")]
    Added,
}

/// A line of either text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    #[serde(rename = "sign")]
    pub side: Side,
    pub text: String,
}

/// The lines of both texts, in their order: with those that are only in the first one left out it is the second one,
/// and the other way round. As many lines as possible are in both.
#[must_use]
pub fn difference(before: &str, after: &str) -> Vec<Line> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let begin = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - begin;
    let end = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let line = |side| move |text: &&str| Line { side, text: (*text).to_owned() };
    let (head, old) = old.split_at(begin);
    let (old, tail) = old.split_at(old.len() - end);
    let new = &new[begin..new.len() - end];
    let mut all: Vec<Line> = head.iter().map(line(Side::Both)).collect();
    if old.len().saturating_mul(new.len()) > COMPARISONS_MAX {
        all.extend(old.iter().map(line(Side::Removed)));
        all.extend(new.iter().map(line(Side::Added)));
    } else {
        all.extend(changed(old, new));
    }
    all.extend(tail.iter().map(line(Side::Both)));
    all
}

/// The same of a part, by the length of the longest common subsequence of what is left of each.
fn changed(old: &[&str], new: &[&str]) -> Vec<Line> {
    let width = new.len() + 1;
    // Common lines of old[i..] and new[j..] are at i * width + j. A row below and a column behind have 0.
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for (i, a) in old.iter().enumerate().rev() {
        for (j, b) in new.iter().enumerate().rev() {
            let at = i * width + j;
            common[at] = if a == b { common[at + width + 1] + 1 } else { common[at + width].max(common[at + 1]) };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    let mut push = |side, text: &str| lines.push(Line { side, text: text.to_owned() });
    while i < old.len() || j < new.len() {
        let at = i * width + j;
        match (old.get(i), new.get(j)) {
            (Some(a), Some(b)) if a == b => {
                push(Side::Both, a);
                (i, j) = (i + 1, j + 1);
            }
            // What goes is told before what comes.
            (Some(a), b) if b.is_none() || common[at + width] >= common[at + 1] => {
                push(Side::Removed, a);
                i += 1;
            }
            (_, Some(b)) => {
                push(Side::Added, b);
                j += 1;
            }
            // Nothing is left of the second text, which the arm above has.
            (_, None) => break,
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn drawn(before: &str, after: &str) -> String {
        let sign = |side| match side {
            Side::Both => ' ',
            Side::Removed => '-',
            Side::Added => '+',
        };
        difference(before, after)
            .iter()
            .map(|line| format!("{}{}", sign(line.side), line.text))
            .collect::<Vec<_>>()
            .join("|")
    }

    #[test]
    fn lines_that_go_come_and_stay() {
        for (name, before, after, want) in [
            ("nothing", "", "", ""),
            ("the same", "a\nb\n", "a\nb\n", " a| b"),
            ("all new", "", "a\nb", "+a|+b"),
            ("all gone", "a\nb", "", "-a|-b"),
            ("changed in between", "a\nb\nc", "a\nx\nc", " a|-b|+x| c"),
            ("added at the end", "a", "a\nb", " a|+b"),
            ("added at the beginning", "b", "a\nb", "+a| b"),
            ("removed in between", "a\nb\nc", "a\nc", " a|-b| c"),
            ("one of several equal lines", "a\na\na", "a\na", " a| a|-a"),
            ("as much as possible stays", "a\nb\nc\nd", "c\na\nb\nd", "+c| a| b|-c| d"),
            (
                "two places",
                "k\na: 1\nb: 2\nc: 3\nd: 4",
                "k\na: 2\nb: 2\nc: 3\nd: 5",
                " k|-a: 1|+a: 2| b: 2| c: 3|-d: 4|+d: 5",
            ),
            ("a line break at the end is none", "a", "a\n", " a"),
        ] {
            assert_eq!(drawn(before, after), want, "{name}");
        }
    }

    #[test]
    fn long_texts_cost_little() {
        let text = |word: &str| (0..2_000).map(|number| format!("{word} {number}\n")).collect::<String>();
        let all = difference(&text("a"), &text("b"));
        assert_eq!(all.len(), 4_000);
        assert!(all[..2_000].iter().all(|line| line.side == Side::Removed));
        assert!(all[2_000..].iter().all(|line| line.side == Side::Added));
        assert!(difference(&text("a"), &text("a")).iter().all(|line| line.side == Side::Both));
    }

    proptest! {
        #[test]
        fn both_texts_are_in_it(before in vec("[abc]", 0..12), after in vec("[abc]", 0..12)) {
            let all = difference(&before.join("\n"), &after.join("\n"));
            let of = |other| all.iter().filter(|line| line.side != other).map(|line| line.text.clone()).collect::<Vec<_>>();
            prop_assert_eq!(of(Side::Added), before);
            prop_assert_eq!(of(Side::Removed), after);
        }
    }
}
