//! Lua state with compiled scripts. Each call runs in a fresh environment and within a budget.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use ironclad_interpreter::{Operation, ScriptError};
use mlua::{
    Error, Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, VmState, chunk::ChunkMode,
    debug::DebugEvent,
};

use crate::{
    budget::{Budget, Host, MEMORY_BYTES_MAX, STEPS_BETWEEN_CHECKS},
    library,
    running::{Mark, ScriptId},
};

/// Name of a script in messages of the engine.
const CHUNK: &str = "script";
/// A state that holds more than this after a call is collected before the next.
const GARBAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Compiled script. It belongs to the [`Vm`] that compiled it.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    id: ScriptId,
    main: Function,
    /// Functions that run before it in the same environment.
    before: Vec<Function>,
}

impl Script {
    /// The same script, with others to run before it.
    pub(crate) fn after(self, before: Vec<Self>) -> Self {
        Self { before: before.into_iter().map(|script| script.main).collect(), ..self }
    }

    /// The bytecode without debug information.
    #[cfg(test)]
    fn dump(&self) -> Vec<u8> {
        self.main.dump(true)
    }
}

/// One Lua state.
#[derive(Debug)]
pub(crate) struct Vm {
    /// Name of the interpreter that the scripts belong to.
    name: String,
    lua: Lua,
    environment: Function,
    budget: Arc<Budget>,
    /// Serialises calls, since they share the budget.
    call_lock: Mutex<()>,
}

impl Vm {
    /// Creates a state with the sandbox and without scripts.
    ///
    /// # Errors
    /// If the engine cannot be started, which happens only without memory.
    pub(crate) fn new(name: &str, host: &Host, memory: usize) -> Result<Self, Error> {
        let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::new())?;
        let budget = Arc::new(Budget::new(host.clone()));
        let table = library::host(&lua, &budget)?;
        let prelude = lua.load(include_str!("prelude.lua")).set_name("=prelude").set_mode(ChunkMode::Text);
        let environment: Function = prelude.call(table)?;
        let this = Self { name: name.to_owned(), lua, environment, budget, call_lock: Mutex::default() };
        this.install_hook(HookTriggers::new(), STEPS_BETWEEN_CHECKS)?;
        this.lua.gc_collect()?;
        this.lua.set_memory_limit(memory.min(MEMORY_BYTES_MAX))?;
        Ok(this)
    }

    /// Installs the hook that counts steps, so many at a time, and lines if `moments` include them.
    fn install_hook(&self, moments: HookTriggers, steps: u32) -> Result<(), Error> {
        let counted = self.budget.clone();
        self.lua.set_hook(moments.every_nth_instruction(steps), move |_, debug| {
            let in_script = || debug.source().short_src.as_deref() == Some(CHUNK);
            if debug.event() == DebugEvent::Line {
                if in_script() {
                    counted.count_line(debug.current_line());
                }
                return Ok(VmState::Continue);
            }
            match counted.step(steps.into()) {
                Ok(()) => Ok(VmState::Continue),
                Err(exhausted) => {
                    // An error without a traceback.
                    if in_script() {
                        counted.exhausted_at(debug.current_line());
                    }
                    Err(library::fail(counted.message(exhausted)))
                }
            }
        })
    }

    /// Runs something that calls a script, and counts each of its steps, and how often each of its lines runs.
    pub(crate) fn traced<T>(&self, call: impl FnOnce() -> T) -> (T, BTreeMap<u32, u64>) {
        self.budget.lines();
        // If the hook cannot be set, the trace remains empty.
        let _ = self.install_hook(HookTriggers::new().every_line(), 1);
        let result = call();
        let _ = self.install_hook(HookTriggers::new(), STEPS_BETWEEN_CHECKS);
        (result, self.budget.lines())
    }

    /// Compiles a script without running it.
    pub(crate) fn compile(&self, operation: Operation, text: &str) -> Result<Script, ScriptError> {
        let chunk = self.lua.load(text).set_name(format!("={CHUNK}")).set_mode(ChunkMode::Text);
        chunk
            .into_function()
            .map(|main| Script { id: ScriptId::of(operation, text), main, before: Vec::new() })
            .map_err(|error| self.error(operation, &error))
    }

    /// Records that a script runs.
    ///
    /// # Errors
    /// If the script is skipped, because a process ended while it ran.
    fn mark(&self, operation: Operation, script: &Script) -> Result<Option<Mark<'_>>, ScriptError> {
        let Some(running) = self.budget.running() else { return Ok(None) };
        match self.skipped(operation, script) {
            Some(error) => Err(error),
            None => Ok(Some(running.mark(&script.id, &format!("{operation} of {}", self.name)))),
        }
    }

    /// The error of a script that is not run at this time, because a process ended while it ran.
    pub(crate) fn skipped(&self, operation: Operation, script: &Script) -> Option<ScriptError> {
        let message = self.budget.running()?.is_skipped(&script.id, self.budget.wall_seconds())?;
        Some(ScriptError { operation, line: None, message })
    }

    /// Runs a script and then its function with these arguments, within `steps`.
    pub(crate) fn call<T>(
        &self,
        operation: Operation,
        script: &Script,
        steps: u64,
        arguments: impl FnOnce(&Lua) -> mlua::Result<MultiValue>,
        read: impl FnOnce(MultiValue) -> Result<T, String>,
    ) -> Result<T, ScriptError> {
        let _guard = self.call_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let _mark = self.mark(operation, script)?;
        let result = (|| {
            let function = self.define(operation, script, steps)?;
            let arguments = arguments(&self.lua).map_err(|error| self.error(operation, &error))?;
            let values: MultiValue = function.call(arguments).map_err(|error| self.error(operation, &error))?;
            read(values).map_err(|message| ScriptError { operation, line: None, message })
        })();
        self.collect_garbage();
        result
    }

    /// Runs a script and passes its function to `read` without calling it.
    pub(crate) fn inspect<T>(
        &self,
        operation: Operation,
        script: &Script,
        steps: u64,
        read: impl FnOnce(&Function) -> T,
    ) -> Result<T, ScriptError> {
        let _guard = self.call_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let _mark = self.mark(operation, script)?;
        let result = self.define(operation, script, steps).map(|function| read(&function));
        self.collect_garbage();
        result
    }

    /// The output of `print` in the last call.
    pub(crate) fn printed(&self) -> Vec<String> {
        self.budget.printed()
    }

    /// Steps that the last call used.
    pub(crate) fn used(&self) -> u64 {
        self.budget.used()
    }

    fn define(&self, operation: Operation, script: &Script, steps: u64) -> Result<Function, ScriptError> {
        let name = operation.function();
        let defined = (|| {
            // The script's budget does not pay for its environment.
            self.budget.begin(u64::MAX);
            let environment: Table = self.environment.call(())?;
            self.budget.begin(steps);
            for part in script.before.iter().chain([&script.main]) {
                part.set_environment(environment.clone())?;
                part.call::<()>(())?;
            }
            environment.raw_get::<mlua::Value>(name)
        })();
        match defined.map_err(|error| self.error(operation, &error))? {
            mlua::Value::Function(function) => Ok(function),
            mlua::Value::Nil => {
                Err(ScriptError { operation, line: None, message: format!("it does not define the function {name}") })
            }
            other => {
                let message = format!("its {name} is a {}, not a function", other.type_name());
                Err(ScriptError { operation, line: None, message })
            }
        }
    }

    /// Collects garbage: it counts against the memory of the next call.
    fn collect_garbage(&self) {
        if self.lua.used_memory() > GARBAGE_BYTES_MAX {
            // A collection fails only in a finalizer, and scripts have none.
            let _ = self.lua.gc_collect();
        }
    }

    /// The error with a message for people and the first line of the script that it concerns.
    fn error(&self, operation: Operation, error: &Error) -> ScriptError {
        let whole = error.to_string();
        if let Err(exhausted) = self.budget.check() {
            let line = self.budget.line().or_else(|| line(&whole));
            return ScriptError { operation, line, message: self.budget.message(exhausted) };
        }
        let root = library::root(error);
        if matches!(root, Error::MemoryError(_)) || whole.contains("not enough memory") {
            let message = format!("it needs more than {} MiB of memory", MEMORY_BYTES_MAX / 1024 / 1024);
            return ScriptError { operation, line: line(&whole), message };
        }
        let message = library::first_line(&match root {
            Error::SyntaxError { message, .. } => message.clone(),
            other => other.to_string(),
        });
        let message = match split_position(&message) {
            Some((_, rest)) => rest.trim().to_owned(),
            None => message,
        };
        ScriptError { operation, line: line(&whole), message }
    }
}

/// Splits a message of the engine into its position (`script:12: …`, or one of our own) and the rest.
fn split_position(message: &str) -> Option<(&str, &str)> {
    let (chunk, rest) = message.split_once(':')?;
    let (number, rest) = rest.split_once(':')?;
    let ours = chunk == CHUNK || chunk == "prelude";
    (ours && number.bytes().all(|b| b.is_ascii_digit())).then_some((number, rest))
}

/// The first line of the script that a message or its traceback names.
fn line(message: &str) -> Option<u32> {
    let mark = format!("{CHUNK}:");
    message.match_indices(&mark).find_map(|(at, _)| {
        let rest = &message[at + mark.len()..];
        rest[..rest.find(|c: char| !c.is_ascii_digit())?].parse().ok()
    })
}

/// Number of parameters of a script's function, and whether it is variadic.
///
/// Lua 5.1 has no API for this. The bytecode has it: 12 bytes of header, the length and name of the source, two line
/// numbers, the count of upvalues, then these two.
pub(crate) fn parameters(function: &Function) -> Option<(u8, bool)> {
    let dump = function.dump(true);
    let length = dump.get(12..12 + size_of::<usize>())?.try_into().ok().map(usize::from_ne_bytes)?;
    let at = 12 + size_of::<usize>() + length + 2 * size_of::<i32>() + 1;
    Some((*dump.get(at)?, dump.get(at + 1)? & 2 != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_counted() {
        let vm = Vm::new("a", &Host::at(0), MEMORY_BYTES_MAX).unwrap();
        for (script, want) in [
            ("function Retain(a, b) return a end", (2, false)),
            ("function Retain() end", (0, false)),
            ("local x = 1 function Retain(a, b, c) return x end", (3, false)),
            ("function Retain(a, ...) end", (1, true)),
        ] {
            let compiled = vm.compile(Operation::Retain, script).unwrap();
            assert_eq!(
                vm.inspect(Operation::Retain, &compiled, 1_000_000, parameters).unwrap(),
                Some(want),
                "{script}"
            );
        }
    }

    #[test]
    fn bytecode_is_refused() {
        let vm = Vm::new("a", &Host::at(0), MEMORY_BYTES_MAX).unwrap();
        let compiled = vm.compile(Operation::Retain, "function Retain(a, b) return a end").unwrap().dump();
        let text: String = compiled.iter().map(|b| char::from(*b)).collect();
        assert!(vm.compile(Operation::Retain, &text).is_err());
    }
}
