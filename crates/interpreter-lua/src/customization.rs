//! One customization with its scripts (specification/propagation.md 20.3).

use std::collections::BTreeMap;

use ironclad_api::{
    JsonText,
    config::ResourceInterpreterCustomizationSpec,
    work::{AggregatedStatusItem, Component},
};
use ironclad_interpreter::{
    Dependency, Health, InterpretError, Item, Operation, Question, Replicas, Reply, ScriptError, checked_components,
    checked_object, checked_replicas,
};
use mlua::{Lua, MultiValue, Value as LuaValue};
use serde_json::{Value, json};

use crate::{
    budget::{Host, MEMORY_BYTES_MAX, STEPS_MAX},
    convert::{self, Empties, to_json},
    vm::{Script, Vm},
};

/// Longest script, in bytes.
pub const SCRIPT_BYTES_MAX: usize = 64 * 1024;

/// Trace of one run of a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// Steps used.
    pub steps: u64,
    /// Output of `print`, one item per line.
    pub printed: Vec<String>,
    /// Runs of each line of the script, counted from 1.
    pub lines: BTreeMap<u32, u64>,
    /// Line at which the script failed, if it did and the line is known.
    pub failed: Option<u32>,
}

/// Compiled scripts of one customization. A script that does not compile keeps its place, and answers with its error.
#[derive(Debug)]
pub struct Customization {
    /// Name of the interpreter in errors.
    interpreter: String,
    api_version: String,
    kind: String,
    vm: Result<Vm, String>,
    scripts: BTreeMap<Operation, Result<Script, ScriptError>>,
}

impl Customization {
    /// Compiles the scripts of the customization with this name.
    #[must_use]
    pub fn compile(name: &str, spec: &ResourceInterpreterCustomizationSpec, host: &Host) -> Self {
        let scripts = Operation::ALL.into_iter().filter_map(|o| Some((o, o.script(&spec.customizations)?)));
        let target = (&*spec.target.api_version, &*spec.target.kind);
        Self::of(format!("ResourceInterpreterCustomization {name}"), target, scripts, host)
    }

    /// Scripts that answer several operations together. The last one defines the functions; the others define what it
    /// needs.
    pub(crate) fn shipped(target: (&str, &str), operations: &[Operation], texts: &[&str], host: &Host) -> Self {
        let name = format!("the interpreter shipped for {} {}", target.0, target.1);
        let Some((last, before)) = texts.split_last() else { return Self::of(name, target, std::iter::empty(), host) };
        let mut this = Self::of(name, target, operations.iter().map(|operation| (*operation, *last)), host);
        if let Ok(vm) = &this.vm {
            for (operation, script) in &mut this.scripts {
                let before: Result<Vec<Script>, _> = before.iter().map(|text| vm.compile(*operation, text)).collect();
                *script = before.and_then(|before| Ok(script.clone()?.after(before)));
            }
        }
        this
    }

    fn of<'a>(
        interpreter: String,
        target: (&str, &str),
        scripts: impl Iterator<Item = (Operation, &'a str)>,
        host: &Host,
    ) -> Self {
        let vm = Vm::new(&interpreter, host, MEMORY_BYTES_MAX).map_err(|error| error.to_string());
        let compiled = |operation: Operation, text: &str| {
            if text.len() > SCRIPT_BYTES_MAX {
                let message = format!("it has more than {SCRIPT_BYTES_MAX} bytes");
                return Err(ScriptError { operation, line: None, message });
            }
            match &vm {
                Ok(vm) => vm.compile(operation, text),
                Err(message) => Err(ScriptError { operation, line: None, message: message.clone() }),
            }
        };
        let scripts = scripts.map(|(operation, text)| (operation, compiled(operation, text))).collect();
        Self { interpreter, api_version: target.0.into(), kind: target.1.into(), vm, scripts }
    }

    /// Target kind: `apiVersion` and `kind`.
    #[must_use]
    pub fn target(&self) -> (&str, &str) {
        (&self.api_version, &self.kind)
    }

    /// Returns true if it has a script for the operation, valid or not.
    #[must_use]
    pub fn has(&self, operation: Operation) -> bool {
        self.scripts.contains_key(&operation)
    }

    /// Operations that it has a script for.
    pub fn operations(&self) -> impl Iterator<Item = Operation> {
        self.scripts.keys().copied()
    }

    /// Errors of its scripts that show without running them.
    pub fn errors(&self) -> impl Iterator<Item = &ScriptError> {
        self.scripts.values().filter_map(|script| script.as_ref().err())
    }

    /// Errors of its scripts that are not run at this time, because a process ended while they ran.
    pub fn skipped(&self) -> impl Iterator<Item = ScriptError> {
        let compiled = self.scripts.iter().filter_map(|(operation, script)| Some((*operation, script.as_ref().ok()?)));
        let vm = self.vm.as_ref().ok();
        compiled.filter_map(move |(operation, script)| vm?.skipped(operation, script))
    }

    /// Answers a question that it has a script for.
    ///
    /// # Errors
    /// If the script fails, exhausts its budget, or returns an invalid answer.
    pub fn answer(&self, question: &Question<'_>) -> Result<Reply, InterpretError> {
        self.run(question).map_err(|error| InterpretError::Script { interpreter: self.interpreter.clone(), error })
    }

    /// Answers a question, and traces the run.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub fn trace(&self, question: &Question<'_>) -> (Result<Reply, InterpretError>, Trace) {
        let Ok(vm) = &self.vm else { return (self.answer(question), Trace::default()) };
        let (answer, lines) = vm.traced(|| self.answer(question));
        let failed = match &answer {
            Err(InterpretError::Script { error, .. }) => error.line,
            _ => None,
        };
        let trace = Trace { steps: vm.used(), printed: vm.printed(), lines, failed };
        (answer, trace)
    }

    fn run(&self, question: &Question<'_>) -> Result<Reply, ScriptError> {
        let operation = question.operation();
        let other = |message: &str| ScriptError { operation, line: None, message: message.to_owned() };
        let vm = self.vm.as_ref().map_err(|message| other(message))?;
        let script = match self.scripts.get(&operation) {
            Some(script) => script.as_ref().map_err(Clone::clone)?,
            None => return Err(other("there is none")),
        };
        vm.call(operation, script, STEPS_MAX, |lua| arguments(lua, question), |values| read(question, &values))
    }
}

fn arguments(lua: &Lua, question: &Question<'_>) -> mlua::Result<MultiValue> {
    let mut all = vec![convert::to_lua(lua, question.object())?];
    match question {
        Question::Revise { replicas, .. } => all.push(LuaValue::Integer((*replicas).into())),
        Question::Retain { observed, .. } => all.push(convert::to_lua(lua, observed)?),
        Question::Aggregate { items, .. } => {
            let list = lua.create_table_with_capacity(items.len(), 0)?;
            for (i, item) in items.iter().enumerate() {
                list.raw_set(i + 1, convert::to_lua(lua, &line(item))?)?;
            }
            all.push(LuaValue::Table(list));
        }
        _ => {}
    }
    Ok(all.into_iter().collect())
}

fn line(item: &Item<'_>) -> Value {
    json!(AggregatedStatusItem {
        cluster_name: item.cluster.to_owned(),
        status: item.status.as_deref().map(JsonText::from),
        applied: item.applied,
        applied_message: item.message.to_owned(),
        health: item.health,
        ..AggregatedStatusItem::default()
    })
}

/// Decodes the values that the function returned.
fn read(question: &Question<'_>, values: &MultiValue) -> Result<Reply, String> {
    let function = question.operation().function();
    let first = values.front().unwrap_or(&LuaValue::Nil);
    let wanted = |what: &str| Err(format!("{function} must return {what}, it returned {}", first.type_name()));
    let none = Empties::none();
    match question {
        Question::Replicas { .. } => {
            let replicas = match first {
                LuaValue::Integer(n) => i32::try_from(*n).ok().filter(|n| *n >= 0),
                LuaValue::Number(_) => None,
                _ => return wanted("a number of replicas"),
            };
            let Some(replicas) = replicas else {
                return Err(format!("{function} must return a whole number of replicas between 0 and {}", i32::MAX));
            };
            let requirements = match values.get(1) {
                None | Some(LuaValue::Nil) => None,
                Some(needs @ LuaValue::Table(_)) => match to_json(needs, &none)? {
                    Value::Object(map) if map.is_empty() => None,
                    needs => Some(
                        serde_json::from_value(with_quantities(needs))
                            .map_err(|error| format!("its replica requirements: {error}"))?,
                    ),
                },
                Some(other) => {
                    return Err(format!(
                        "{function} must return replica requirements as a table, it returned {}",
                        other.type_name()
                    ));
                }
            };
            checked_replicas(Replicas { replicas, requirements }).map(Reply::Replicas)
        }
        Question::Components { .. } => {
            let mut components: Vec<Component> = Vec::new();
            for (i, mut value) in list_of(first, function)?.into_iter().enumerate() {
                if let Some(needs) = value.get_mut("replicaRequirements") {
                    *needs = with_quantities(needs.take());
                }
                let component: Component =
                    serde_json::from_value(value).map_err(|error| format!("component {}: {error}", i + 1))?;
                components.push(component);
            }
            checked_components(components).map(Reply::Components)
        }
        Question::Revise { manifest, .. } => object(first, question, &[manifest]),
        Question::Retain { desired, observed } => object(first, question, &[desired, observed]),
        Question::Aggregate { .. } => object(first, question, &[]),
        Question::Status { .. } => match first {
            LuaValue::Table(_) => Ok(Reply::Status(Some(to_json(first, &none)?))),
            _ => wanted("a table"),
        },
        Question::Health { .. } => match first {
            LuaValue::Boolean(true) => Ok(Reply::Health(Health::Healthy)),
            LuaValue::Boolean(false) => Ok(Reply::Health(Health::Unhealthy)),
            _ => wanted("true or false"),
        },
        Question::Dependencies { .. } => Dependency::validated(list_of(first, function)?).map(Reply::Dependencies),
    }
}

fn object(first: &LuaValue, question: &Question<'_>, references: &[&Value]) -> Result<Reply, String> {
    let function = question.operation().function();
    if !matches!(first, LuaValue::Table(_)) {
        return Err(format!("{function} must return an object, it returned {}", first.type_name()));
    }
    let object = to_json(first, &Empties::of(references))?;
    checked_object(question.object(), &object)?;
    Ok(Reply::Object(object))
}

/// Requirements with quantities as texts: templates of other projects may contain `cpu: 1` as a number.
fn with_quantities(mut needs: Value) -> Value {
    for quantity in
        needs.get_mut("resourceRequest").and_then(Value::as_object_mut).into_iter().flatten().map(|(_, q)| q)
    {
        if quantity.is_number() {
            *quantity = Value::String(quantity.to_string());
        }
    }
    needs
}

/// A list; nil and an empty table are an empty list.
fn list_of(first: &LuaValue, function: &str) -> Result<Vec<Value>, String> {
    match first {
        LuaValue::Nil => Ok(Vec::new()),
        LuaValue::Table(_) => match to_json(first, &Empties::none())? {
            Value::Array(items) => Ok(items),
            Value::Object(map) if map.is_empty() => Ok(Vec::new()),
            _ => Err(format!("{function} must return a list, it returned a table with names as keys")),
        },
        other => Err(format!("{function} must return a list, it returned {}", other.type_name())),
    }
}
