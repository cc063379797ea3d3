//! Every well-known name of the reference has its constant (api.md 12, 13, 14, 18).

use ironclad_api::gates::{Gate, Stage};

use crate::reference::table;

/// Looks for the words in a module's source, as string constants.
fn missing<'a>(source: &str, words: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let words = words.into_iter().map(|word| word.trim().trim_matches('`'));
    words.filter(|word| !word.is_empty() && !source.contains(&format!("= \"{word}\";"))).collect()
}

#[test]
fn keys_have_constants() {
    for (anchor, source, known) in [
        ("### 12.1", include_str!("../../src/labels.rs"), 26),
        ("### 12.2", include_str!("../../src/annotations.rs"), 32),
        ("### 12.3", include_str!("../../src/finalizers.rs"), 10),
    ] {
        let table = table(anchor);
        let cells: Vec<&str> = table.rows.iter().flat_map(|row| row[0].split(", ")).collect();
        assert!(cells.len() >= known, "{anchor}: only {} keys were read", cells.len());
        // A key that ends in a placeholder has a constant for its prefix.
        let keys = cells.iter().map(|key| key.split_once("`<").map_or(*key, |(prefix, _)| prefix));
        assert_eq!(missing(source, keys), Vec::<&str>::new(), "{anchor}");
    }
}

#[test]
fn conditions_and_reasons_have_constants() {
    let conditions = include_str!("../../src/conditions.rs");
    let reasons = include_str!("../../src/reasons.rs");
    for (anchor, of_reasons) in
        [("### 13.1", &[2][..]), ("### 13.2", &[2]), ("### 13.3", &[2]), ("### 13.4", &[2]), ("### 13.5", &[1, 2])]
    {
        for row in &table(anchor).rows {
            let type_ = row[0].split(" (").next();
            assert_eq!(missing(conditions, type_), Vec::<&str>::new(), "{anchor}");
            for column in of_reasons {
                let words = row[*column].split([',', '/']);
                assert_eq!(missing(reasons, words), Vec::<&str>::new(), "{anchor} {row:?}");
            }
        }
    }
}

#[test]
fn events_have_constants() {
    let events = include_str!("../../src/events.rs");
    for row in &table("## 18.").rows {
        assert_eq!(missing(events, row[0].split([',', '/'])), Vec::<&str>::new(), "{row:?}");
    }
}

#[test]
fn gates_are_those_of_the_reference() {
    let table = table("## 14.");
    let want: Vec<_> = table.rows.iter().map(|row| (row[0].clone(), row[1] == "true")).collect();
    let got: Vec<_> = Gate::ALL.iter().map(|gate| (gate.name().to_owned(), gate.default_on())).collect();
    assert_eq!(got, want);
    for (gate, row) in Gate::ALL.iter().zip(&table.rows) {
        // "Alpha 1.13, Beta 1.19": the last one counts.
        let last = ["Alpha", "Beta", "ours"].iter().max_by_key(|stage| row[2].rfind(**stage)).unwrap();
        let want = match *last {
            "Alpha" => Stage::Alpha,
            "Beta" => Stage::Beta,
            _ => Stage::Ours,
        };
        assert_eq!(gate.stage(), want, "{}", gate.name());
    }
}
