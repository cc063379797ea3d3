//! `--check`: compiles each script, and finds customizations that implement the same operation of a kind.

use std::sync::Arc;

use anyhow::bail;
use ironclad_api::config::ResourceInterpreterCustomization;
use ironclad_interpreter::Operation;
use ironclad_interpreter_lua::{Customization, Declarative, Host, check_script};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::print::{self, Output};

/// Result of checking one script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    customization: String,
    operation: String,
    /// The problem, if any.
    problem: Option<String>,
}

pub(super) fn run(customizations: &[ResourceInterpreterCustomization], output: Output) -> anyhow::Result<()> {
    let findings = findings(customizations);
    let text = if output.is_objects() {
        let objects: Vec<Value> = findings
            .iter()
            .map(|f| json!({"customization": f.customization, "operation": f.operation, "problem": f.problem}))
            .collect();
        print::objects(output, &[json!({ "findings": objects })])?
    } else {
        let row = |f: &Finding| {
            let result = f.problem.as_ref().map_or_else(|| "PASS".to_owned(), |problem| format!("FAIL: {problem}"));
            vec![f.customization.clone(), f.operation.clone(), result]
        };
        print::table(&["CUSTOMIZATION", "OPERATION", "RESULT"], &findings.iter().map(row).collect::<Vec<_>>())
    };
    print::out(&text)?;
    let wrong = findings.iter().filter(|finding| finding.problem.is_some()).count();
    if wrong > 0 {
        bail!("{wrong} of {} scripts can't be used", findings.len());
    }
    Ok(())
}

/// Problems of the customizations, one line each.
pub(super) fn problems(customizations: &[ResourceInterpreterCustomization]) -> Vec<String> {
    let problem = |f: Finding| f.problem.map(|problem| format!("{} {}: {problem}", f.customization, f.operation));
    findings(customizations).into_iter().filter_map(problem).collect()
}

pub(super) fn findings(customizations: &[ResourceInterpreterCustomization]) -> Vec<Finding> {
    let mut all = Vec::new();
    for customization in customizations {
        let name = customization.name_any();
        let finding = |operation: &str, problem: Option<String>| Finding {
            customization: name.clone(),
            operation: operation.to_owned(),
            problem,
        };
        let target = &customization.spec.target;
        if target.api_version.is_empty() || target.kind.is_empty() || target.api_version == "*" || target.kind == "*" {
            all.push(finding("-", Some("spec.target needs an apiVersion and a kind, and * is neither".into())));
        }
        let scripts: Vec<_> = Operation::ALL
            .into_iter()
            .filter_map(|operation| Some((operation, operation.script(&customization.spec.customizations)?)))
            .collect();
        if scripts.is_empty() {
            all.push(finding("-", Some("it has no script".into())));
        }
        for (operation, text) in scripts {
            let problem = check_script(&Host::at(0), operation, text).err().map(|error| match error.line {
                Some(line) => format!("line {line}: {}", error.message),
                None => error.message,
            });
            all.push(finding(operation.name(), problem));
        }
    }
    let compiled = |c: &ResourceInterpreterCustomization| {
        (c.name_any(), Arc::new(Customization::compile(&c.name_any(), &c.spec, &Host::at(0))))
    };
    for conflict in Declarative::new(customizations.iter().map(compiled)).conflicts() {
        all.push(Finding {
            customization: conflict.loser,
            operation: conflict.operation.name().to_owned(),
            problem: Some(format!("it is never called: {} has one for the same kind", conflict.winner)),
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn customization(name: &str, spec: Value) -> ResourceInterpreterCustomization {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    }

    #[test]
    fn each_script_is_checked() {
        let farm = json!({"apiVersion": "farm.io/v1", "kind": "Farm"});
        let healthy = json!({"luaScript": "function InterpretHealth(o) return true end"});
        let found = findings(&[
            customization("a", json!({"target": farm, "customizations": {"healthInterpretation": healthy}})),
            customization(
                "b",
                json!({"target": farm, "customizations": {"healthInterpretation": healthy, "retention": {"luaScript": "function Retain(a) return a end"}}}),
            ),
            customization("c", json!({"target": {"apiVersion": "farm.io/v1", "kind": "*"}, "customizations": {}})),
        ]);
        let said: Vec<String> = found
            .iter()
            .map(|f| format!("{} {} {}", f.customization, f.operation, f.problem.as_deref().unwrap_or("PASS")))
            .collect();
        assert_eq!(
            said,
            [
                "a InterpretHealth PASS",
                "b Retain its function Retain has 1 parameter, it is called with 2 arguments",
                "b InterpretHealth PASS",
                "c - spec.target needs an apiVersion and a kind, and * is neither",
                "c - it has no script",
                "b InterpretHealth it is never called: a has one for the same kind",
            ]
        );
    }
}
