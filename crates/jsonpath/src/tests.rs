use proptest::prelude::*;
use serde_json::json;

use super::*;

const LENIENT: Rules = Rules { missing: Missing::Nothing, found_max: 10_000 };
const STRICT: Rules = Rules { missing: Missing::Refused, found_max: 10_000 };

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web", "tier": "front"}, "annotations": {"a.b/c": "d"}},
        "spec": {
            "nodeName": "n1", "hostNetwork": true, "priority": 5,
            "containers": [
                {"name": "c1", "image": "nginx:1", "ports": [{"containerPort": 80}, {"containerPort": 443}]},
                {"name": "c2", "image": "nginx:2"},
            ],
        },
    })
}

fn filled(template: &str, rules: Rules) -> Result<String, String> {
    Template::parse(template).and_then(|t| t.render(&pod(), rules)).map_err(|error| error.to_string())
}

/// Output of kubectl 1.36 for `-o jsonpath=`.
#[test]
fn output_equals_that_of_kubectl() {
    for (template, want) in [
        (".metadata.name", ".metadata.name"),
        ("{.metadata.name}", "web"),
        ("{ .metadata.name }", "web"),
        ("{$.metadata.name}", "web"),
        ("{@.metadata.name}", "web"),
        ("{.metadata.labels}", r#"{"app":"web","tier":"front"}"#),
        ("{.spec.containers[*].name}", "c1 c2"),
        ("{.spec.containers[-1].name}", "c2"),
        ("{.spec.containers[0,1].name}", "c1 c2"),
        ("{.spec.containers[1,0].name}", "c2 c1"),
        ("{.spec.containers[::2].name}", "c1"),
        ("{.spec.containers[0:1].name}", "c1"),
        ("{.spec.containers[].name}", "c1 c2"),
        ("{.spec.containers[2:]}", ""),
        ("{.spec.hostNetwork}", "true"),
        ("{.spec.priority}", "5"),
        ("{.spec.containers[*]['name','image']}", "c1 c2 nginx:1 nginx:2"),
        ("{.metadata.labels['app','tier']}", "web front"),
        (r"{.metadata.annotations.a\.b/c}", "d"),
        (r"{.metadata.annotations['a\.b/c']}", "d"),
        ("{['metadata.name','spec.nodeName']}", "web n1"),
        ("{.metadata.name} and {.spec.nodeName}", "web and n1"),
        (r#"{"a\"b\t"}"#, "a\"b\t"),
        ("{'single'}", "single"),
        ("{3}{true}", "3true"),
        ("{..name}", "web c1 c2"),
        ("{.spec..name}", "c1 c2"),
        ("{..containers[0].name}", "c1"),
        ("{.spec.containers[?(@.name)]..image}", "nginx:1 nginx:2"),
        ("{.metadata.*}", r#"{"a.b/c":"d"} {"app":"web","tier":"front"} web shop"#),
        // Filters.
        ("{.spec.containers[?(@.name=='c1')].image}", "nginx:1"),
        (r#"{.spec.containers[?(.name=="c1")].image}"#, "nginx:1"),
        (r#"{.spec.containers[?(@.name!="c1")].name}"#, "c2"),
        ("{.spec.containers[?(@.ports)].name}", "c1"),
        ("{.spec.containers[?(@.ports[0].containerPort>=80)].name}", "c1"),
        ("{.spec.containers[?(@.image==$.x)].name}", ""),
        // Ranges.
        (r#"{range .spec.containers[*]}{.name}{"\n"}{end}"#, "c1\nc2\n"),
        (r#"{range .spec.containers[*]}[{.name}]{"\t"}{end}"#, "[c1]\t[c2]\t"),
        ("{range .spec.containers[*]}{range .ports[*]}{.containerPort},{end}{.name};{end}", "80,443,c1;c2;"),
        ("{range .metadata.labels.*}{@}-{end}", "web-front-"),
        ("{range .spec.containers[*]}{.name}", "c1c2"),
        ("{range .spec.containers[*]}{$.metadata.name}{end}", ""),
        ("{range .nope[*]}{.x}{end}", ""),
        // A missing field yields nothing.
        ("{.nope}", ""),
        ("{.nope.x}", ""),
        ("{.nope[0]}", ""),
        ("{.metadata.name.x}", ""),
        ("{.spec.containers.name}", ""),
    ] {
        assert_eq!(filled(template, LENIENT).as_deref(), Ok(want), "{template}");
    }
    let whole: Value = serde_json::from_str(&filled("{}", LENIENT).unwrap()).unwrap();
    assert_eq!((&whole, filled("{@}", LENIENT), filled("{.}", LENIENT).is_ok()), (&pod(), filled("{}", LENIENT), true));
}

#[test]
fn failing_templates() {
    for (template, want) in [
        ("{.spec.containers[7].name}", "[7] is not found"),
        ("{.spec.containers[-3].name}", "[-3] is not found"),
        ("{.metadata[0]}", "[0] is not found"),
        ("{.metadata.name", "unclosed action"),
        ("{.a[}", "unclosed action"),
        ("{end}", "not in range, nothing to end"),
        ("{metadata.name}", "\"metadata.name\" can't be read"),
        ("{if .x}", "\"if .x\" can't be read"),
        ("{.spec.containers[a]}", "\".spec.containers[a]\" can't be read"),
        ("{.spec.containers[::-1].name}", "\".spec.containers[::-1].name\" can't be read"),
        ("{.a..}", "\".a..\" can't be read"),
        ("{.a[?(@.b==\"c\" && @.d)]}", "\".a[?(@.b==\\\"c\\\" && @.d)]\" can't be read"),
    ] {
        assert_eq!(filled(template, LENIENT), Err(want.to_owned()), "{template}");
    }
    for (template, want) in [
        ("{.nope}", "nope is not found"),
        ("{.metadata.name.x}", "x is not found"),
        ("{.spec.containers[*].ports}", "ports is not found"),
        ("{.spec.containers[?(@.name=='c3')]}", "what the filter asks for is not found"),
        ("{..nope}", "nope is not found"),
    ] {
        assert_eq!(filled(template, STRICT), Err(want.to_owned()), "{template}");
    }
    assert_eq!(filled("{..name}", STRICT).as_deref(), Ok("web c1 c2"), "in the depth not each has to have it");
}

#[test]
fn bounds() {
    let deep = |n: usize| "{range .a}".repeat(n);
    assert!(Template::parse(&deep(16)).is_ok());
    assert_eq!(Template::parse(&deep(17)), Err(PathError::TooDeep));
    let filters = |n: usize| format!("{{{}.a{}}}", ".a[?(@".repeat(n), ")]".repeat(n));
    assert!(Template::parse(&filters(15)).is_ok());
    assert_eq!(Template::parse(&filters(16)), Err(PathError::TooDeep));
    let long = "x".repeat(TEMPLATE_MAX + 1);
    assert_eq!(Template::parse(&long[1..]).unwrap().render(&pod(), LENIENT).as_deref(), Ok(&long[1..]));
    assert_eq!(Template::parse(&long), Err(PathError::TooLong(TEMPLATE_MAX)));
    let rules = |found_max| Rules { found_max, ..LENIENT };
    assert_eq!(filled("{.spec.containers[*].name}", rules(2)).as_deref(), Ok("c1 c2"));
    assert_eq!(filled("{.spec.containers[*].name}", rules(1)), Err("the path selects more than 1 values".to_owned()));
    assert_eq!(filled("{..name}", rules(5)), Err("the path selects more than 5 values".to_owned()));
}

#[test]
fn one_path_alone() {
    for (text, want) in [
        ("metadata.name", Some(json!(["web"]))),
        (".metadata.name", Some(json!(["web"]))),
        ("{.metadata.name}", Some(json!(["web"]))),
        ("{metadata.name}", Some(json!(["web"]))),
        (".spec.containers[*].name", Some(json!(["c1", "c2"]))),
        ("nope", Some(json!([]))),
        ("", None),
        ("{}", None),
        ("{.a", None),
        (".a}{.b", None),
        ("a b", None),
    ] {
        let found = Path::relaxed(text).ok().map(|path| json!(path.select(&pod(), LENIENT).unwrap()));
        assert_eq!(found, want, "{text}");
    }
}

#[test]
fn values_without_text() {
    let template = Template::parse("x{range .spec.containers[*]}{.name}\n{end}{.spec.priority}").unwrap();
    assert_eq!(template.values(&pod(), LENIENT), Ok(vec![json!("c1"), json!("c2"), json!(5)]));
    assert!(template.has_ranges() && !template.is_text());
    assert!(Template::parse("a{\"b\"}").unwrap().is_text());
}

proptest! {
    #[test]
    fn no_template_panics(template in r#"([{}\[\]().$@*'"\\,:?=<>!a-c0-2 é-]|range|end|\.\.){0,40}"#) {
        let value = json!({"a": [{"b": "c"}, {"b": 2}], "b": {"a": null}});
        for rules in [LENIENT, STRICT] {
            let _ = Template::parse(&template).map(|path| (path.render(&value, rules), path.values(&value, rules)));
        }
        let _ = Path::relaxed(&template).map(|path| path.select(&value, LENIENT).map(|found| found.len()));
    }
}
