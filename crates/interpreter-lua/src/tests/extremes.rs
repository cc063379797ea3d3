//! Every function of the environment with extreme arguments: it returns or fails, and no number that the engine's
//! integers cannot hold reaches the engine. `cargo xtask fuzz lua` runs this file under AddressSanitizer.

use std::{fs, path::Path};

use proptest::prelude::*;

use super::*;

/// Functions of the environment, by the expressions that scripts use.
const FUNCTIONS: &[&str] = &[
    "assert", "error", "ipairs", "kube.accuratePodRequirements", "kube.getPodDependencies", "kube.getResourceQuantity",
    "kube.resourceAdd", "math.abs", "math.acos", "math.asin", "math.atan", "math.atan2", "math.ceil", "math.cos",
    "math.cosh", "math.deg", "math.exp", "math.floor", "math.fmod", "math.frexp", "math.ldexp", "math.log",
    "math.log10", "math.max", "math.min", "math.mod", "math.modf", "math.pow", "math.rad", "math.sin", "math.sinh",
    "math.sqrt", "math.tan", "math.tanh", "next", "os.date", "os.time", "pairs", "pcall", "print", "require", "select",
    "string.byte", "string.char", "string.find", "string.format", "string.gmatch", "string.len", "string.lower",
    "string.match", "string.reverse", "string.sub", "string.upper", "table.concat", "table.insert", "table.maxn",
    "table.remove", "table.sort", "tonumber", "tostring", "type", "unpack", "xpcall",
];

const EXTREMES: &[&str] = &[
    "nil",
    "true",
    "0",
    "-1",
    "2",
    "1.5",
    "100000",
    "-100000",
    "1073741824",
    "-1073741824",
    "2147483647",
    "-2147483648",
    "2147483648",
    "4294967297",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "1e308",
    "-1e308",
    "(1/0)",
    "(-1/0)",
    "(0/0)",
    "''",
    "'x'",
    "'#'",
    "'-1e308'",
    "'%d%99.99f%5c%q%x'",
    "'%b()([%a'",
    "('%*t')",
    "{}",
    "{1, 'b', 3}",
    "{year = -9223372036854775808, month = -9223372036854775808, day = 1e18}",
    "{spec = {containers = {{resources = {requests = {cpu = '-1e18', memory = 1e300}}}}}}",
    "print",
    "function(a, b) return a end",
];

fn run(body: &str) -> Result<Reply, InterpretError> {
    let text = format!("local kube = require('kube')\nfunction InterpretHealth(o)\n{body}\nreturn true\nend");
    customization("a", rule(Operation::InterpretHealth, &text)).answer(&Question::Health { object: &farm() })
}

#[test]
fn list_of_functions_is_complete() {
    let listed = value(
        "(function()
            local names, fails = {}, function(call) local ok, e = pcall(call) return not ok and tostring(e):find('not supported', 1, true) end
            for _, m in ipairs({'kube', 'math', 'os', 'string', 'table'}) do
                for k, f in pairs(require(m)) do if type(f) == 'function' and not fails(f) then names[#names + 1] = m .. '.' .. k end end
            end
            for k, f in pairs(_G) do if type(f) == 'function' and not fails(f) then names[#names + 1] = k end end
            table.sort(names)
            return names
        end)()",
    );
    let defined_here = ["ReflectStatus"];
    let listed: Vec<&str> =
        listed.as_array().unwrap_or_else(|| panic!("{listed}")).iter().filter_map(Value::as_str).collect();
    let listed: Vec<&str> = listed.into_iter().filter(|name| !defined_here.contains(name)).collect();
    assert_eq!(listed, FUNCTIONS);
}

#[test]
fn integers_out_of_range_are_errors() {
    for (call, want) in [
        ("unpack({}, -2147483648, 2147483647)", "bad argument #2 to 'unpack' (number out of range)"),
        ("unpack({}, -1073741824, 1073741824)", "too many results to unpack"),
        ("unpack({}, 1, 1e308)", "bad argument #3 to 'unpack' (number out of range)"),
        ("unpack({}, 0/0)", "bad argument #2 to 'unpack' (number out of range)"),
        ("unpack({}, {})", "bad argument #2 to 'unpack' (number expected, got table)"),
        ("unpack({}, 1, 7901)", "too many results to unpack"),
        ("unpack(1)", "bad argument #1 to 'unpack' (table expected, got number)"),
        ("select(-1e308, 1)", "bad argument #1 to 'select' (number out of range)"),
        ("select(2147483648, 1)", "bad argument #1 to 'select' (number out of range)"),
        ("tonumber('1', 1e308)", "bad argument #2 to 'tonumber' (number out of range)"),
        ("tonumber('1', 99)", "base out of range"),
        ("error('x', -1/0)", "bad argument #2 to 'error' (number out of range)"),
        ("('x'):byte(1e308)", "bad argument #2 to 'byte' (number out of range)"),
        ("('x'):byte(1, 1e308)", "bad argument #3 to 'byte' (number out of range)"),
        ("('x'):sub(-1e308)", "bad argument #2 to 'sub' (number out of range)"),
        ("('x'):sub('1', '1e308')", "bad argument #3 to 'sub' (number out of range)"),
        ("string.char(1e308)", "bad argument #1 to 'char' (number out of range)"),
        ("string.char(65, -1)", "bad argument #2 to 'char' (number out of range)"),
        ("string.format('%d', 1e308)", "bad argument #2 to 'format' (number out of range)"),
        ("string.format('%s %5d', 1, 0/0)", "bad argument #3 to 'format' (number out of range)"),
        ("string.format('%x', -1)", "bad argument #2 to 'format' (number out of range)"),
        ("string.format('%c', 256)", "bad argument #2 to 'format' (number out of range)"),
        ("table.concat({}, ',', -1e308)", "bad argument #3 to 'concat' (number out of range)"),
        ("table.concat({}, ',', 1, 1e308)", "bad argument #4 to 'concat' (number out of range)"),
        ("math.ldexp(1, 1e308)", "bad argument #2 to 'ldexp' (number out of range)"),
    ] {
        let got = eval(&format!("local x = {call}\nreturn true"));
        assert!(got.contains(want), "{call}: {got}");
        assert!(got.contains("line 2"), "the line is known: {call}: {got}");
    }
    for (expression, want) in [
        ("#{unpack({}, 1, 7900)}", json!(0)),
        ("select('#', unpack({}, 1, 7900))", json!(7900)),
        ("{unpack({1, 2, 3}, 2, 3)}", json!([2, 3])),
        ("#{unpack({1, 2, 3}, 3, 2)}", json!(0)),
        ("select(-1, 1, 2)", json!(2)),
        ("tonumber('zz', 36)", json!(1295)),
        ("('hello'):sub(-3, -2)", json!("ll")),
        ("('hello'):byte(-1)", json!(111)),
        ("string.format('%5d|%%|%x|%c|%.1f', -7, 255, 65, 0.25)", json!("   -7|%|ff|A|0.2")),
        ("string.format('%d', '7')", json!("7")),
        ("table.concat({'a', 'b', 'c'}, '-', 2, 3)", json!("b-c")),
        ("math.ldexp(1, 3)", json!(8)),
        ("({pcall(error, 'x', 0)})[2]", json!("x")),
    ] {
        assert_eq!(value(expression), want, "{expression}");
    }
}

/// Every function with every extreme in each of the first three places.
#[test]
fn every_function_takes_extreme_arguments() {
    let extremes = EXTREMES.iter().map(|value| format!("[#all + 1] = {value}")).collect::<Vec<_>>();
    // A nil would end the list: absent places are nil.
    let list = extremes.iter().map(|item| format!("all{item} n = n + 1 at[n] = #all")).collect::<Vec<_>>().join("\n");
    for name in FUNCTIONS.iter().filter(|name| **name != "print") {
        for second in EXTREMES.iter().step_by(4) {
            let body = format!(
                "local all, at, n = {{}}, {{}}, 0\n{list}\nfor i = 0, #all do for j = 0, #all, 3 do pcall({name}, all[i], {second}, all[j]) pcall({name}, all[i], all[j], {second}, {second}) end end"
            );
            if let Err(error) = run(&body) {
                let error = error.to_string();
                assert!(error.contains("steps") || error.contains("memory"), "{name} {second}: {error}");
            }
        }
    }
}

#[test]
fn print_keeps_a_bounded_text() {
    let text = "function InterpretHealth(o) local s = 'x' for i = 1, 17 do s = s .. s end for i = 1, 900 do print(s) end return true end";
    let (answer, trace) =
        customization("a", rule(Operation::InterpretHealth, text)).trace(&Question::Health { object: &farm() });
    assert_eq!(answer, Ok(Reply::Health(Health::Healthy)));
    assert!(trace.printed.iter().map(String::len).sum::<usize>() <= crate::PRINTED_BYTES_MAX);
}

/// Scripts that once ended the process or could have: `fuzz/seeds/lua`.
#[test]
fn corpus_is_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/lua");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let _ = check_script(&Host::at(0), Operation::InterpretHealth, &text);
        let _ =
            customization("a", rule(Operation::InterpretHealth, &text)).answer(&Question::Health { object: &farm() });
    }
}

fn statement() -> impl Strategy<Value = String> {
    let argument = prop_oneof![
        4 => prop::sample::select(EXTREMES).prop_map(str::to_owned),
        1 => prop::sample::select(&["t", "s", "o", "o.spec", "t[1]", "#t", "#s"][..]).prop_map(str::to_owned),
    ];
    let call = (prop::sample::select(FUNCTIONS), prop::collection::vec(argument.clone(), 0..5))
        .prop_map(|(name, arguments)| format!("{name}({})", arguments.join(", ")));
    let call = prop_oneof![
        call.clone(),
        (call, prop::sample::select(FUNCTIONS)).prop_map(|(inner, outer)| format!("{outer}({inner})")),
    ];
    prop_oneof![
        4 => call.clone().prop_map(|call| format!("pcall(function() t[#t + 1] = {call} end)")),
        2 => call.prop_map(|call| format!("pcall(function() s = tostring({call}) .. s end)")),
        2 => (argument.clone(), argument.clone()).prop_map(|(key, value)| format!("pcall(function() t[{key}] = {value} end)")),
        1 => (argument.clone(), argument.clone(), argument).prop_map(|(from, to, by)| format!(
            "pcall(function() local n = 0 for i = {from}, {to}, {by} do t[i] = i n = n + 1 if n > 50 then break end end end)"
        )),
        1 => Just("for i = 1, 8 do s = s .. s end".to_owned()),
        1 => Just("for k, v in pairs(t) do pcall(function() s = s .. k .. tostring(v) end) end".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::default() })]

    /// `PROPTEST_CASES` says how many. A script that ends the process is in the file that `IRONCLAD_FUZZ_KEEP` names.
    #[test]
    fn no_script_ends_the_process(statements in prop::collection::vec(statement(), 1..12)) {
        let body = format!("local t, s = {{}}, ''\n{}", statements.join("\n"));
        if let Some(file) = std::env::var_os("IRONCLAD_FUZZ_KEEP") {
            let text = format!("local kube = require('kube')\nfunction InterpretHealth(o)\n{body}\nreturn true\nend\n");
            fs::write(file, text).unwrap();
        }
        if let Err(error) = run(&body) {
            let message = error.to_string();
            prop_assert!(!message.contains("prelude") && !message.contains(".rs"), "{message}\n{body}");
        }
    }
}

/// Integers that no wrapper sees, such as keys of tables, overflow in the engine. `.cargo/config.toml` has the flag; a
/// `CFLAGS` of one's own, or objects compiled before it, lack it. In its own process: without the flag an optimised
/// engine writes past its stack.
#[test]
fn engine_is_compiled_with_wrapping_arithmetic() {
    const IN_CHILD: &str = "IRONCLAD_TEST_WRAPS";
    if std::env::var_os(IN_CHILD).is_some() {
        let call = mlua::Lua::new().load("return unpack({}, -2147483648, 2147483647)").eval::<mlua::MultiValue>();
        let error = call.unwrap_err().to_string();
        assert!(error.contains("too many results to unpack"), "{error}");
        return;
    }
    let name = "tests::extremes::engine_is_compiled_with_wrapping_arithmetic";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", name]).env(IN_CHILD, "1").output().unwrap();
    assert!(output.status.success(), "build the engine anew with -fwrapv: cargo clean -p mlua-sys: {output:?}");
}
