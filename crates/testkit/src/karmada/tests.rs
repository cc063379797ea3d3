use serde_json::{Value, json};

use super::*;

const EXPECTED: &str = "
commit: c0ffee
leftOut: {search_test.go: needs OpenSearch, mcs_test.go: not built}
failing: {'quota_test.go:80': an event of its own, 'quota_test.go:90': needs docker}
";

fn reported(kind: &str, file: &str, line: u64, state: &str, failure: &Value) -> Value {
    json!({
        "LeafNodeType": kind, "LeafNodeLocation": {"FileName": format!("/src/base/{file}"), "LineNumber": line},
        "State": state, "RunTime": 1_500_000_000_u64, "Failure": failure, "LeafNodeText": "is there",
    })
}

fn report() -> String {
    let at = |message: &str| json!({"Message": message, "Location": {"FileName": "/src/framework/events.go", "LineNumber": 38}});
    let broken = reported("SynchronizedAfterSuite", "suite_test.go", 7, "failed", &at("gone"));
    let specs = json!([
        reported("SynchronizedBeforeSuite", "suite_test.go", 5, "passed", &Value::Null),
        reported("It", "quota_test.go", 120, "failed", &at("\n  Timed out after 60s.\nExpected\n")),
        reported("It", "quota_test.go", 80, "failed", &at("no event")),
        reported("It", "quota_test.go", 90, "passed", &Value::Null),
        reported("It", "quota_test.go", 95, "skipped", &Value::Null),
        reported("It", "apps_test.go", 9, "passed", &Value::Null),
        broken.clone(),
        broken,
    ]);
    json!([{"SuitePath": "/src/base", "SpecReports": specs}, {"SuitePath": "/src/none", "SpecReports": null}])
        .to_string()
}

#[test]
fn table_has_each_chosen_spec_once() {
    let run = Run::read(&report()).unwrap();
    assert_eq!(
        run.to_string(),
        "FILE           LINE STATE     SECONDS  FAILED AT
apps_test.go      9 passed        1.5
quota_test.go    80 failed        1.5  events.go:38 no event
quota_test.go    90 passed        1.5
quota_test.go   120 failed        1.5  events.go:38 Timed out after 60s.
2 of 4 specs passed"
    );
}

#[test]
fn differences_go_both_ways() {
    let run = Run::read(&report()).unwrap();
    assert_eq!(
        run.differences(&Known::read(EXPECTED).unwrap()),
        [
            "quota_test.go:90 passed, and was expected to fail: needs docker",
            "quota_test.go:120 failed, and was expected to pass",
            "SynchronizedAfterSuite failed at events.go:38: gone",
        ]
    );
}

#[test]
fn files_are_left_out_by_a_pattern_on_paths() {
    let known = Known::read(EXPECTED).unwrap();
    let pattern = regex::Regex::new(&known.skipped_files()).unwrap();
    for (path, want) in [
        ("/src/base/search_test.go", true),
        ("/src/base/mcs_test.go", true),
        ("/src/base/research_test.go", false),
        ("/src/base/mcs_test_go", false),
    ] {
        assert_eq!(pattern.is_match(path), want, "{path}");
    }
}

#[test]
fn a_place_without_a_line_is_refused() {
    let error = Known::read("{commit: a, leftOut: {}, failing: {quota_test.go: why}}").unwrap_err();
    assert_eq!(error.to_string(), "failing: \"quota_test.go\" is no FILE:LINE");
}

#[test]
fn the_committed_list_can_be_read() {
    let known = Known::read(KNOWN).unwrap();
    assert!(known.reason(&("mcs_test.go".to_owned(), 300)).is_some());
    assert!(known.left_out.contains_key("search_test.go"));
}
