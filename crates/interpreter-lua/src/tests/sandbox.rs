//! The sandbox: what scripts cannot do, their limits, and the library.

use proptest::prelude::*;

use super::*;

#[test]
fn sandbox_lacks_unsafe_functions() {
    for name in ["io", "debug", "coroutine", "channel", "loadlib"] {
        assert_eq!(value(&format!("tostring({name})")), json!("nil"), "{name}");
    }
    for name in [
        "collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring", "rawequal", "rawget",
        "rawset", "setfenv", "setmetatable", "module", "newproxy", "string.gsub", "string.rep", "string.dump",
    ] {
        let want = format!("call function {name} is not supported in karmada customized resourceinterpreter.");
        assert!(eval(&format!("local x = {name}('a')\nreturn x")).contains(&want), "{name}");
    }
    assert!(
        eval("local x = ('a'):gsub('a', 'b') return x").contains("string.gsub is not supported"),
        "nor as a method"
    );
    assert!(eval("local x = require('os2') return x").contains("module 'os2' is not there"));
    assert!(eval("local x = os.execute('true') return x").contains("attempt to call field 'execute' (a nil value)"));
    assert!(eval("local x = math.random() return x").contains("math.random is not supported"));
}

#[test]
fn endless_scripts_are_stopped() {
    let steps = "it takes more than 10000000 steps";
    let memory = "it needs more than 64 MiB of memory";
    for (name, body, want) in [
        ("a loop", "while true do end", steps),
        ("a loop that catches its end", "while true do pcall(function() while true do end end) end", steps),
        (
            "the same with a handler",
            "while true do xpcall(function() while true do end end, function() while true do end end) end",
            steps,
        ),
        ("doubling a text", "local s = 'x' while true do s = s .. s end", memory),
        ("filling a table", "local t = {} while true do t[#t + 1] = {} end", memory),
        (
            "a pattern that explodes",
            "local s = 'a' for i = 1, 14 do s = s .. s end return s:find('.-.-.-.-.-b') ~= nil",
            steps,
        ),
        (
            "many such in one call",
            "local s = 'a' for i = 1, 10 do s = s .. s end while true do pcall(function() return s:find('.-.-.-b') end) end",
            steps,
        ),
        ("moving a long list", "local t = {} for i = 1, 1e7 do table.insert(t, 1, i) end", steps),
        (
            "sorting without an order",
            "local t = {} for i = 1, 1e6 do t[i] = i % 7 end table.sort(t, function(a, b) return a < b end) table.sort(t) table.sort(t) table.sort(t)",
            steps,
        ),
    ] {
        assert!(eval(body).ends_with(want), "{name}: {}", eval(body));
    }
    assert!(eval("local t = {} t.t = t return tostring(t) == 'table'").contains("Healthy"));
}

#[test]
fn memory_is_freed_after_an_exhausted_call() {
    let text = "function InterpretHealth(o)\n  if o.spec.size > 3 then local s = 'x' while true do s = s .. s end end\n  return true\nend";
    let customization = customization("a", rule(Operation::InterpretHealth, text));
    let (small, mut large) = (farm(), farm());
    large["spec"]["size"] = json!(9);
    for _ in 0..3 {
        assert!(customization.answer(&Question::Health { object: &large }).is_err());
        assert_eq!(customization.answer(&Question::Health { object: &small }), Ok(Reply::Health(Health::Healthy)));
    }
}

#[test]
fn calls_share_no_state() {
    let text = "count = (count or 0) + 1\nstring.mine = (string.mine or 0) + 1\nfunction ReflectStatus(o)\n  count = count + 1\n  kube = require('kube')\n  kube.x = (kube.x or 0) + 1\n  return {count = count, mine = string.mine, x = kube.x}\nend";
    let customization = customization("a", rule(Operation::InterpretStatus, text));
    for _ in 0..3 {
        assert_eq!(
            customization.answer(&Question::Status { object: &farm() }),
            Ok(Reply::Status(Some(json!({"count": 2, "mine": 1, "x": 1}))))
        );
    }
}

#[test]
fn the_library() {
    for (expression, want) in [
        ("string.format('%s-%d', 'a', 3)", json!("a-3")),
        ("string.format('%s %s %s|%5.1f', nil, true, {}, 2)", json!("nil true table|  2.0")),
        ("('Hello'):lower() .. ('x'):upper()", json!("helloX")),
        ("('hello'):sub(2, 3)", json!("el")),
        ("#'four'", json!(4)),
        ("string.byte('A') + string.char(66):byte()", json!(131)),
        ("('abc'):reverse()", json!("cba")),
        ("{string.find('key=value', '=', 1, true)}", json!([4, 4])),
        ("{string.find('abc', 'b()')}", json!([2, 2, 3])),
        ("{string.find('abc', 'c', -1)}", json!([3, 3])),
        ("string.match('v1.26', 'v(%d+)')", json!("1")),
        ("string.match(2026, '%d%d$')", json!("26")),
        ("string.find('abc', 'x') == nil", json!(true)),
        (
            "(function() local t = {} for k, v in ('a=1,b=2'):gmatch('(%w)=(%w)') do t[k] = v end return t end)()",
            json!({"a": "1", "b": "2"}),
        ),
        ("(function() local n = 0 for w in ('abc'):gmatch('') do n = n + 1 end return n end)()", json!(4)),
        ("(function() local t = {3, 1, 2} table.sort(t) return t end)()", json!([1, 2, 3])),
        (
            "(function() local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return t end)()",
            json!([3, 2, 1]),
        ),
        ("(function() local t = {1, 3} table.insert(t, 2, 2) table.insert(t, 4) return t end)()", json!([1, 2, 3, 4])),
        ("(function() local t = {1, 2, 3} return {table.remove(t, 1), table.remove(t), #t} end)()", json!([1, 3, 1])),
        ("table.concat({'a', 'b'}, ',')", json!("a,b")),
        ("math.floor(2.7) + math.max(1, 2) + math.ceil(0.1)", json!(5)),
        ("math.huge == 1 / 0", json!(true)),
        ("tostring(1e15)", json!("1000000000000000")),
        ("tostring(1.5)", json!("1.5")),
        ("tostring(nil) .. tostring(true)", json!("niltrue")),
        ("tonumber('0x10') + tonumber('7')", json!(23)),
        ("tonumber('seven') == nil", json!(true)),
        ("select('#', 1, nil, 3)", json!(3)),
        ("{unpack({1, 2, 3}, 2)}", json!([2, 3])),
        ("{pcall(function() return 1, 2 end)}", json!([true, 1, 2])),
        ("({pcall(function() error('x', 0) end)})[2]", json!("x")),
        ("({pcall(function() error({code = 5}) end)})[2].code", json!(5)),
        ("({pcall(function() require('kube').resourceAdd('x') end)})[2]:sub(1, 11)", json!("resourceAdd")),
        ("({xpcall(function() error('x', 0) end, function(e) return e .. '!' end)})[2]", json!("x!")),
        (
            "(function() local s = '' for k in pairs({b = 1, a = 2, [2] = 1, [1] = 1}) do s = s .. k end return s end)()",
            json!("12ab"),
        ),
        (
            "(function() local t, n = {a = 1, b = 2}, 0 for k in pairs(t) do t.b = nil n = n + 1 end return n end)()",
            json!(1),
        ),
        ("next({}) == nil", json!(true)),
        ("os.time()", json!(1_767_225_845)),
        ("os.time({year = 2026, month = 1, day = 1, hour = 0, min = 4, sec = 5})", json!(1_767_225_845)),
        ("os.date('!%Y-%m-%dT%H:%M:%SZ')", json!("2026-01-01T00:04:05Z")),
        ("os.date('*t', 0).year", json!(1970)),
        ("package.loaded.kube == require('kube')", json!(true)),
        ("_G.string == string", json!(true)),
    ] {
        assert_eq!(value(expression), want, "{expression}");
    }
}

#[test]
fn module_kube() {
    for (call, want) in [
        ("resourceAdd('100m', '900m', nil)", json!("1")),
        ("resourceAdd('1Gi', '1Gi')", json!("2Gi")),
        ("resourceAdd()", json!("0")),
        ("resourceAdd('1', 2)", json!("3")),
        ("getResourceQuantity('500m')", json!(0.5)),
        ("getResourceQuantity('1Ki')", json!(1024)),
        ("accuratePodRequirements({spec = {containers = {{name = 'a'}}}}) == nil", json!(true)),
        (
            "accuratePodRequirements({spec = {nodeSelector = {a = 'b'}, containers = {{resources = {limits = {cpu = '2'}}}}}})",
            json!({"nodeClaim": {"nodeSelector": {"a": "b"}}, "resourceRequest": {"cpu": "2"}}),
        ),
        (
            "getPodDependencies({spec = {volumes = {{configMap = {name = 'c'}}}}})",
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "c"}]),
        ),
        ("getPodDependencies({spec = {}}, 'n')", json!(null)),
    ] {
        assert_eq!(value(&format!("require('kube').{call}")), want, "{call}");
    }
    for (call, want) in [
        ("resourceAdd('much')", "resourceAdd: argument 1: \"much\" is not a quantity"),
        ("resourceAdd({})", "resourceAdd: argument 1: a table is not a quantity"),
        ("getResourceQuantity('-1')", "getResourceQuantity: -1 is negative"),
        ("getResourceQuantity()", "getResourceQuantity: a nil is not a quantity"),
        ("accuratePodRequirements()", "accuratePodRequirements: takes a pod template, which is a table"),
        ("accuratePodRequirements({}, {})", "accuratePodRequirements: takes a pod template, which is a table"),
        ("getPodDependencies({}, 1)", "getPodDependencies: the namespace is a integer, not a text"),
    ] {
        assert!(
            eval(&format!("local x = require('kube').{call}\nreturn x")).contains(want),
            "{call}: {}",
            eval(&format!("return require('kube').{call}"))
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The check of any text ends, and reports errors in one line without positions of our own code.
    #[test]
    fn checking_any_text_ends(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..24), soup in "\\PC{0,24}") {
        let text = format!("{}\n{soup}", words.join(" "));
        if let Err(error) = check_script(&Host::at(0), Operation::InterpretHealth, &text) {
            let message = error.to_string();
            prop_assert!(!message.contains("prelude") && !message.contains(".rs") && !message.contains("traceback"), "{message}");
        }
    }
}

const WORDS: &[&str] = &[
    "function", "InterpretHealth", "(", ")", "o", "end", "return", "true", "local", "x", "=", "while", "do", "for",
    "k", "in", "pairs", "{", "}", "1e9", "..", "'a'", ":", "find", "pcall", "error", "require", "\"kube\"", ",", ".",
    "#", "nil", "string",
];

#[test]
fn library_limits_text_sizes() {
    let long = "local s = 'x' for i = 1, 20 do s = s .. s end\n";
    for call in ["s:upper()", "s:find('y')", "s:find('y', 1, true)", "string.format(s)", "s:sub(2)", "s:gmatch('x')()"]
    {
        assert!(eval(&format!("{long}local x = {call}\nreturn x")).contains("more than 1000000 bytes"), "{call}");
    }
    assert!(eval(&format!("{long}return #s == 1048576")).contains("Healthy"));
}
