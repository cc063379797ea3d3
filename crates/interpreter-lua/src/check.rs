//! Checks that a text is a valid script for an operation (specification/admission.md 5.6).

use ironclad_interpreter::{Operation, ScriptError};

use crate::{
    SCRIPT_BYTES_MAX,
    budget::Host,
    vm::{Vm, parameters},
};

/// Steps that a script may use before its function is called: it should only define functions.
pub const CHECK_STEPS_MAX: u64 = 1_000_000;
/// Memory that it may use, in bytes.
pub const CHECK_MEMORY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Compiles a script, runs it in the sandbox without calling its function, and checks that it defines the function of
/// the operation with the right number of parameters.
///
/// # Errors
/// The defect, with its line if known.
pub fn check_script(host: &Host, operation: Operation, text: &str) -> Result<(), ScriptError> {
    let error = |message: String| ScriptError { operation, line: None, message };
    if text.len() > SCRIPT_BYTES_MAX {
        return Err(error(format!("it has more than {SCRIPT_BYTES_MAX} bytes")));
    }
    let vm = Vm::new("a script under review", host, CHECK_MEMORY_BYTES_MAX).map_err(|e| error(e.to_string()))?;
    let script = vm.compile(operation, text)?;
    let found = vm.inspect(operation, &script, CHECK_STEPS_MAX, parameters)?;
    let (name, wanted) = (operation.function(), operation.parameters());
    match found {
        None => Err(error(format!("its {name} is a function of the library, not of the script"))),
        Some((_, true)) => Ok(()),
        Some((n, false)) if n == wanted => Ok(()),
        Some((n, false)) => Err(error(format!(
            "its function {name} has {n} parameter{}, it is called with {wanted} argument{}",
            if n == 1 { "" } else { "s" },
            if wanted == 1 { "" } else { "s" }
        ))),
    }
}
