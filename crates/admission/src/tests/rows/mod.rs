//! Each row of the tables of specification/admission.md: writes that keep and break the rule, and the answers.
//!
//! A cell lists several violations; each has a case. The answers stand in `rows/answers.txt`. The other tests of this
//! folder test more values for each rule.

mod changes;
mod other;
mod policies;

use std::{collections::BTreeSet, fmt::Write as _};

use ironclad_reference::{Reference, Table, check_golden};

use super::*;

/// Expected answer to a write.
enum Want {
    /// A refusal whose field has this path, in one of the classes of the row.
    Refused(&'static str),
    /// A warning with this text.
    Warned(&'static str),
    Admitted,
    /// The value at this pointer after mutation; null if there is none.
    Changed(&'static str, Value),
}
use Want::{Admitted, Changed, Refused, Warned};

/// One case of a row.
struct Case {
    /// Heading before the table.
    section: &'static str,
    /// First cell of the row.
    row: &'static str,
    /// The part of the last cell that the write keeps or breaks.
    part: &'static str,
    write: Write,
    want: Want,
}

fn cases(section: &'static str, row: &'static str, list: Vec<(&'static str, Write, Want)>) -> Vec<Case> {
    list.into_iter().map(|(part, write, want)| Case { section, row, part, write, want }).collect()
}

/// Sections whose first table has one rule for each row.
const SECTIONS: [&str; 19] = [
    "### 2.1", "### 2.2", "### 2.3", "### 2.4", "### 2.6", "### 2.7", "### 3.1", "### 3.2", "### 3.3", "### 4.1",
    "### 4.2", "### 4.3", "### 5.1", "### 5.2", "### 5.3", "### 5.4", "### 5.5", "### 5.6", "## 7",
];

/// Parts of rows that are not decided by admission, with the place that does.
const ELSEWHERE: [(&str, &str, &str); 12] = [
    ("### 2.4", "default KubePriorityClass", "the schema: api/tests/it/fields.rs"),
    ("### 2.4", "preemption is never applied to ClusterResourceBindings", "scheduling"),
    ("### 2.4", "int32", "the schema: api/tests/it/fields.rs"),
    ("### 2.4", "written by the controller only", "propagation/src/priority.rs"),
    ("### 2.4", "a user's edit is reverted, not rejected", "propagation/src/priority.rs"),
    ("### 2.4", "optional, enum Never", "the schema: api/tests/it/fields.rs"),
    ("### 2.4", "filled from the class by the detector", "propagation/src/priority.rs"),
    ("### 4.1", "standard object metadata", "the API server"),
    ("### 4.2", "1–32 default 3", "the schema: api/tests/it/fields.rs"),
    ("### 4.2", "0–32 default 3", "the schema: api/tests/it/fields.rs"),
    ("### 5.5", "specification/failover.md IR-6", "a reference"),
    ("### 5.3", "keep)", "the path of the cases beside it"),
];

fn all() -> Vec<Case> {
    [changes::cases(), policies::cases(), other::cases()].into_iter().flatten().collect()
}

fn table(section: &str) -> Table {
    Reference::Admission.table(section)
}

/// The violations that the last cell of a row lists.
fn parts(rule: &str) -> Vec<&str> {
    rule.split("; ").flat_map(|part| part.split(" / ")).map(str::trim).filter(|part| !part.is_empty()).collect()
}

#[test]
fn each_part_of_each_row_has_a_case() {
    let all = all();
    let mut missing = vec![];
    for section in SECTIONS {
        for row in table(section).rows {
            for part in parts(row.last().unwrap()) {
                let is_there =
                    all.iter().any(|case| case.section == section && case.row == row[0] && part.contains(case.part));
                let is_elsewhere = ELSEWHERE.iter().any(|(of, text, _)| *of == section && part.contains(text));
                if !is_there && !is_elsewhere {
                    missing.push(format!("{section} {}: {part}", row[0]));
                }
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

/// Start of the message of a class of refusals (specification/admission.md 1.2).
fn message_of(class: &str) -> &'static str {
    match class {
        "Invalid" | "TypeInvalid" => "Invalid value: ",
        "Required" => "Required value",
        "Duplicate" => "Duplicate value: ",
        "NotSupported" => "Unsupported value: ",
        "Forbidden" => "Forbidden: ",
        other => panic!("{other} is no class"),
    }
}

#[test]
fn each_case_of_a_row_is_answered_as_the_row_says() {
    let mut answers = String::new();
    for Case { section, row, part, write, want } in all() {
        let name = format!("{section} {row}: {part}");
        let table = table(section);
        let rows: Vec<_> =
            table.rows.iter().filter(|cells| cells[0] == row && cells.last().unwrap().contains(part)).collect();
        assert!(!rows.is_empty(), "{name}: no such row");
        let classes: BTreeSet<&str> =
            rows.iter().flat_map(|row| table.cell(row, "Class").split([',', '/'])).map(str::trim).collect();
        let classes: Vec<&str> =
            classes.into_iter().filter(|class| !class.is_empty() && *class != "**stop**").collect();
        if let Changed(pointer, value) = &want {
            let made = write.mutated();
            assert_eq!(made.pointer(pointer).unwrap_or(&Value::Null), value, "{name}: {pointer}");
            writeln!(answers, "{section} {row}\n  {part}\n    {pointer} = {value}").unwrap();
            continue;
        }
        let verdict = write.validated();
        let refusal = verdict.denial.map(|denial| denial.message).unwrap_or_default();
        match want {
            Admitted | Changed(..) => assert_eq!(refusal, "", "{name}"),
            Warned(text) => {
                assert_eq!(refusal, "", "{name}");
                assert!(
                    verdict.warnings.iter().any(|warning| warning.contains(text)),
                    "{name}: {:?}",
                    verdict.warnings
                );
            }
            Refused("") => assert!(!refusal.is_empty(), "{name} is admitted"),
            Refused(path) => {
                let all = vec!["Invalid", "Required", "Duplicate", "NotSupported", "Forbidden"];
                let classes = if classes.is_empty() { all } else { classes };
                let is_of = |class: &&str| refusal.contains(&format!("{path}: {}", message_of(class)));
                assert!(classes.iter().any(is_of), "{name}: {refusal:?} is not {path} of {classes:?}");
            }
        }
        let answer = if refusal.is_empty() { verdict.warnings.join("\n    ") } else { refusal };
        let answer = if answer.is_empty() { "admitted" } else { &answer };
        let answer: String = answer.chars().take(ANSWER_CHARS_MAX).collect();
        writeln!(answers, "{section} {row}\n  {part}\n    {answer}").unwrap();
    }
    check_golden(concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/rows/answers.txt"), &answers);
}

/// Answers repeat the value, which can be long.
const ANSWER_CHARS_MAX: usize = 400;
