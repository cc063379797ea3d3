//! Contrast of the colours of the style sheet in both themes (WCAG 2.2 AA, 1.4.3 and 1.4.11).

use std::collections::{BTreeMap, BTreeSet};

const STYLE: &str = include_str!("../../files/style.css");
/// Least contrast of text.
const TEXT: f64 = 4.5;
/// Least contrast of borders, outlines and bars that say something.
const PART: f64 = 3.0;
/// Grounds of what has none of its own.
const GROUNDS: [&str; 2] = ["ground", "raised"];
/// Colours on a ground that a rule of an outer element sets.
const INSIDE: [(&str, &str, f64); 6] = [
    ("link", "wait-ground", TEXT),
    ("quiet", "wait-ground", TEXT),
    ("link", "bad-ground", TEXT),
    ("bad", "bad-ground", TEXT),
    ("bar", "line", PART),
    ("wait", "line", PART),
];

/// Custom properties that are colours, of a block.
fn colours(block: &str) -> BTreeMap<&str, [u8; 3]> {
    let declarations = block.split([';', '{']).filter_map(|one| one.trim().strip_prefix("--")?.split_once(':'));
    let byte = |text: &str, at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    let all = declarations.filter_map(|(name, value)| {
        let hex = value.trim().strip_prefix('#')?;
        assert_eq!(hex.len(), 6, "{name}");
        Some((name, [byte(hex, 0), byte(hex, 2), byte(hex, 4)]))
    });
    all.collect()
}

/// Relative luminance.
fn luminance(colour: [u8; 3]) -> f64 {
    let [red, green, blue] = colour.map(|part| {
        let part = f64::from(part) / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// The property that a declaration has as its value, or in it.
fn variable(value: &str) -> Option<&str> {
    Some(value.split_once("var(--")?.1.split_once(')')?.0)
}

/// Pairs of colour and ground that the rules use, with the contrast that each needs.
fn pairs() -> BTreeSet<(&'static str, &'static str, bool)> {
    let mut pairs: BTreeSet<_> = INSIDE.map(|(colour, ground, least)| (colour, ground, least == TEXT)).into();
    for rule in STYLE.split('}').filter_map(|rule| Some(rule.rsplit_once('{')?.1)) {
        let declared: Vec<(&str, &str)> = rule
            .split(';')
            .filter_map(|one| one.split_once(':'))
            .filter_map(|(name, value)| Some((name.trim(), variable(value)?)))
            .filter(|(name, _)| !name.starts_with("--"))
            .collect();
        let of = |wanted: &str| declared.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
        match (of("color"), of("background")) {
            (None, None) => {}
            (colour, Some(ground)) => drop(pairs.insert((colour.unwrap_or("text"), ground, true))),
            (Some(colour), None) => pairs.extend(GROUNDS.map(|ground| (colour, ground, true))),
        }
        let parts =
            declared.iter().filter(|(name, _)| ["border", "outline", "fill"].iter().any(|part| name.starts_with(part)));
        // Lines between what is apart anyway say nothing.
        for (_, colour) in parts.filter(|(_, colour)| *colour != "line") {
            pairs.extend(GROUNDS.map(|ground| (*colour, ground, false)));
        }
    }
    pairs
}

#[test]
fn colours_have_contrast_in_both_themes() {
    let blocks: Vec<_> =
        STYLE.split(":root {").skip(1).map(|block| colours(block.split('}').next().unwrap())).collect();
    let [light, dark] = &blocks[..] else { panic!("one block of properties for each theme") };
    assert_eq!(light.keys().collect::<Vec<_>>(), dark.keys().collect::<Vec<_>>());
    let pairs = pairs();
    assert!(pairs.len() > 25, "the rules were read: {pairs:?}");
    let used: BTreeSet<&str> = pairs.iter().flat_map(|(colour, ground, _)| [*colour, *ground]).collect();
    assert_eq!(used, light.keys().copied().collect(), "each property is a colour or a ground of some rule");
    let mut low = Vec::new();
    for (theme, colours) in [("light", light), ("dark", dark)] {
        for (colour, ground, is_text) in &pairs {
            let found = contrast(colours[colour], colours[ground]);
            if found < if *is_text { TEXT } else { PART } {
                low.push(format!("{theme}: {colour} on {ground} has {found:.2}"));
            }
        }
    }
    assert!(low.is_empty(), "{}", low.join("\n"));
}

#[test]
fn contrast_is_that_of_the_definition() {
    for (one, other, want) in [
        ([0, 0, 0], [255, 255, 255], 21.0),
        ([255, 255, 255], [255, 255, 255], 1.0),
        ([0x77, 0x77, 0x77], [255, 255, 255], 4.48),
        ([0x76, 0x76, 0x76], [255, 255, 255], 4.54),
    ] {
        assert!((contrast(one, other) - want).abs() < 0.005, "{one:?} {other:?}");
    }
}
