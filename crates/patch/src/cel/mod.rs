//! CEL expressions: compiled under limits, evaluated over JSON (specification/apiserver.md 18, 21).
//!
//! The language and Kubernetes' function libraries come from crate `kube-cel`. A server needs more before it evaluates
//! expressions of users: a limit on length, a check of names and types as far as schemas declare them, and an estimate
//! of the worst-case cost. This module adds them. Features that the libraries lack (`optMap`, two-variable
//! comprehensions, `authorizer`) are rejected at compilation.

mod budget;
mod check;
mod construct;
mod functions;
mod lexer;
mod nesting;
mod types;
mod value;

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use kube_cel::{
    KubeCelExt,
    cel::{
        Context, ExecutionError, IdedExpr, Value as CelValue,
        common::ast::{EntryExpr, Expr, operators},
        objects::{Key, OptionalValue},
        parser::Parser,
    },
};
use serde_json::Value;

use crate::structural::Node;

pub use budget::{Budget, CONDITIONS_UNITS_MAX, EVALUATION_UNITS_MAX, EXCEEDED, REQUEST_UNITS_MAX};
pub use check::{COST_MAX, Known, TOTAL_COST_MAX, Type, cost_of_node, factor};
pub use construct::{OBJECT, OPERATIONS};

/// The longest expression, in bytes.
pub const LENGTH_MAX: usize = 16 * 1024;

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct Expression {
    text: String,
    tree: IdedExpr,
    /// Worst-case cost, in Kubernetes' units.
    pub cost: u64,
    /// Name of the static type, to check that a result is a boolean.
    pub type_name: &'static str,
    /// Static type of the result with the names of constructed types: [`OBJECT`], [`OPERATIONS`]; `dyn` or `list` where
    /// it is not known.
    pub result_type: String,
}

/// Types that an expression may construct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Constructors {
    None,
    /// `Object`, what is below it, and `JSONPatch`.
    Mutation,
}

/// Binding of a name at compilation.
#[derive(Debug, Clone, Copy)]
pub enum Variable<'a> {
    /// A value of this schema.
    Of(&'a Node),
    /// An optional value of this schema.
    OptionalOf(&'a Node),
    /// A value that no schema describes.
    Anything,
}

/// Binding of a name at evaluation.
#[derive(Debug, Clone, Copy)]
pub enum Binding<'a> {
    /// A value of a schema: its formats count, and field names are escaped.
    Of(&'a Value, &'a Node),
    /// An optional value of a schema.
    OptionalOf(Option<&'a Value>, &'a Node),
    /// A value with its own member names.
    Plain(&'a Value),
    /// The result of another expression.
    Made(&'a Made),
}

/// The value of an expression, for use as a variable of others.
#[derive(Debug, Clone)]
pub struct Made(CelValue);

/// Result of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A boolean.
    Bool(bool),
    /// A text.
    Text(String),
    /// Anything else.
    Other,
}

thread_local! {
    /// The functions, registered once.
    static FUNCTIONS: RefCell<Context<'static>> = RefCell::new(functions());
}

/// Replacement of `a.?b` in trees: the crate's own function fails where the field is missing, and wraps a missing field
/// twice.
const SELECT_OPTIONALLY: &str = "@select_optionally";

fn functions() -> Context<'static> {
    let mut functions = Context::default().with_all();
    functions.add_function(SELECT_OPTIONALLY, |operand: CelValue, field: Arc<String>| {
        let operand = match &operand {
            CelValue::Opaque(_) => <&OptionalValue>::try_from(&operand).ok().and_then(OptionalValue::value),
            other => Some(other),
        };
        let found = match operand {
            Some(CelValue::Map(map)) => map.get(&Key::String(field)).cloned(),
            _ => None,
        };
        let found: Arc<OptionalValue> = Arc::new(found.map_or_else(OptionalValue::none, OptionalValue::of));
        Ok::<CelValue, ExecutionError>(CelValue::Opaque(found))
    });
    budget::register(&mut functions);
    types::register(&mut functions);
    functions
}

/// Replaces each `a.?b` by the function above, and constructions by those of maps.
fn rewrite(tree: &mut IdedExpr) {
    match &mut tree.expr {
        Expr::Call(call) => {
            if call.func_name == operators::OPT_SELECT {
                call.func_name = SELECT_OPTIONALLY.to_owned();
            }
            call.target.iter_mut().for_each(|target| rewrite(target));
            call.args.iter_mut().for_each(rewrite);
        }
        Expr::Comprehension(it) => {
            for part in [&mut it.iter_range, &mut it.accu_init, &mut it.loop_cond, &mut it.loop_step, &mut it.result] {
                rewrite(part);
            }
        }
        Expr::List(list) => list.elements.iter_mut().for_each(rewrite),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    rewrite(&mut entry.key);
                    rewrite(&mut entry.value);
                }
            }
        }
        Expr::Select(select) => rewrite(&mut select.operand),
        Expr::Struct(value) => {
            for entry in &mut value.entries {
                if let EntryExpr::StructField(field) = &mut entry.expr {
                    rewrite(&mut field.value);
                }
            }
            tree.expr = construct::to_map(std::mem::take(value));
        }
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
}

impl Expression {
    /// Reads an expression over these names.
    ///
    /// # Errors
    /// The mistake as a kube-apiserver shows it: `ERROR: <input>:1:5: undefined field 'a'` with the line below it.
    pub fn compile(text: &str, variables: &BTreeMap<&str, Variable<'_>>) -> Result<Self, String> {
        Self::compile_with(text, variables, Constructors::None)
    }

    /// Reads an expression that may construct `Object{…}` and `JSONPatch{…}`.
    ///
    /// # Errors
    /// As [`Expression::compile`].
    pub fn compile_mutation(text: &str, variables: &BTreeMap<&str, Variable<'_>>) -> Result<Self, String> {
        Self::compile_with(text, variables, Constructors::Mutation)
    }

    fn compile_with(
        text: &str,
        variables: &BTreeMap<&str, Variable<'_>>,
        constructors: Constructors,
    ) -> Result<Self, String> {
        if text.len() > LENGTH_MAX {
            return Err(shown(text, 0, &format!("expression is longer than {LENGTH_MAX} bytes")));
        }
        // The parser checks its own limit too late: it overflows the stack first.
        if nesting::depth(text) > nesting::DEPTH_MAX {
            return Err(shown(text, 0, &format!("expression nests deeper than {}", nesting::DEPTH_MAX)));
        }
        let mut tree = parse(text, &lexer::without_pairs(text))?;
        let (known, mistakes) = check::check(text, &tree, variables, constructors);
        if !mistakes.is_empty() {
            let all = mistakes.iter().map(|(at, message)| shown(text, *at, message));
            return Err(all.collect::<Vec<_>>().join("\n"));
        }
        let result_type = construct::result_type(&tree, known.ty);
        rewrite(&mut tree);
        budget::instrument(&mut tree, &functions::LIBRARIES);
        Ok(Self { text: text.to_owned(), tree, cost: known.cost, type_name: known.ty.name(), result_type })
    }

    /// The expression as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns `true` if the expression uses this variable.
    pub fn names(&self, variable: &str) -> bool {
        self.tree.references().has_variable(variable)
    }

    /// Evaluates the expression within the cost limit of one evaluation.
    ///
    /// # Errors
    /// `no such key: a`, `division by zero`, [`EXCEEDED`] and the like.
    pub fn evaluate(&self, variables: &[(&str, Binding<'_>)]) -> Result<Outcome, String> {
        self.evaluate_within(variables, &mut Budget::new(EVALUATION_UNITS_MAX))
    }

    /// Evaluates the expression within this budget.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn evaluate_within(&self, variables: &[(&str, Binding<'_>)], budget: &mut Budget) -> Result<Outcome, String> {
        Ok(match self.make(variables, budget)?.0 {
            CelValue::Bool(value) => Outcome::Bool(value),
            CelValue::String(text) => Outcome::Text(text.to_string()),
            _ => Outcome::Other,
        })
    }

    /// Evaluates the expression to a value for variables of others.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn make(&self, variables: &[(&str, Binding<'_>)], budget: &mut Budget) -> Result<Made, String> {
        budget.spend(|| self.made(variables))
    }

    fn made(&self, variables: &[(&str, Binding<'_>)]) -> Result<Made, String> {
        FUNCTIONS.with_borrow(|functions| {
            let mut scope = functions.new_inner_scope();
            for (name, binding) in variables {
                let value = match binding {
                    Binding::Of(value, node) => value::convert(value, Some(node)),
                    Binding::OptionalOf(value, node) => {
                        let optional = match value {
                            Some(value) => OptionalValue::of(value::convert(value, Some(node))),
                            None => OptionalValue::none(),
                        };
                        CelValue::Opaque(Arc::new(optional))
                    }
                    Binding::Plain(value) => value::convert(value, None),
                    Binding::Made(made) => made.0.clone(),
                };
                scope.add_variable_from_value(*name, value);
            }
            scope.resolve(&self.tree).map(Made).map_err(|e| failure(&e))
        })
    }
}

/// Maximum number of reported errors of one expression, as in cel-go.
const ERRORS_MAX: usize = 100;
/// Bytes of a line that a mistake is shown in; of a longer one, its surroundings are shown.
const SHOWN_MAX: usize = 500;

/// Stack of the parser's thread: without optimisation it needs tens of kilobytes for each level.
const PARSER_STACK: usize = 32 << 20;

/// Parses `reduced`; what is wrong with it is shown in `text`, in which everything is at the same place.
fn parse(text: &str, reduced: &str) -> Result<IdedExpr, String> {
    let run = || {
        let parsed = Parser::default().enable_optional_syntax(true).parse(reduced);
        parsed.map_err(|all| {
            let all = all.errors.iter().take(ERRORS_MAX).map(|e| {
                let line = usize::try_from(e.pos.0 - 1).unwrap_or(0);
                let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
                shown(text, start + usize::try_from(e.pos.1 - 1).unwrap_or(0), &e.msg)
            });
            all.collect::<Vec<_>>().join("\n")
        })
    };
    // The caller waits for the thread, so nothing runs concurrently and every run is the same.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("cel-parser".to_owned()).stack_size(PARSER_STACK);
        let parsed = thread.spawn_scoped(scope, run).map(std::thread::ScopedJoinHandle::join);
        match parsed {
            Ok(Ok(parsed)) => parsed,
            Ok(Err(_)) => Err(shown(text, 0, "the parser of expressions gave up")),
            Err(error) => Err(shown(text, 0, &format!("no thread for the parser of expressions: {error}"))),
        }
    })
}

/// Creates a map of results, such as `variables`.
pub fn made_map(all: &BTreeMap<String, Made>) -> Made {
    let all = all.iter().map(|(name, made)| (name.clone(), made.0.clone()));
    Made(CelValue::from(all.collect::<Map>()))
}

/// Representation of maps in the language.
#[allow(clippy::disallowed_types, reason = "the crate's own maps; no order of ours depends on them")]
type Map = std::collections::HashMap<String, CelValue>;

fn failure(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::UndeclaredReference(name) => format!("undeclared reference to '{name}'"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(CelValue::Int(at)) => format!("index out of bounds: {at}"),
        ExecutionError::NoSuchOverload => "no such overload".to_owned(),
        other => other.to_string(),
    }
}

/// A message about a place in an expression, with the line and a pointer to the place.
fn shown(text: &str, offset: usize, message: &str) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
    let source = text.lines().nth(line).unwrap_or_default();
    let (skipped, source) = if source.len() <= SHOWN_MAX {
        (0, source.to_owned())
    } else {
        let skipped = column.saturating_sub(SHOWN_MAX / 2);
        (skipped, source.chars().skip(skipped).take(SHOWN_MAX).collect())
    };
    let dots = ".".repeat(column - skipped);
    format!("ERROR: <input>:{}:{}: {message}\n | {source}\n | {dots}^", line + 1, column + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn anything() -> BTreeMap<&'static str, Variable<'static>> {
        BTreeMap::from([("self", Variable::Anything)])
    }

    #[test]
    fn values() {
        let object = json!({"a": 1, "l": [1, 2], "a-b": "x", "namespace": "n", "under_score": 2, "__x": 3, "f": 1.5});
        for (text, want) in [
            ("self.a == 1", Ok(Outcome::Bool(true))),
            ("self.l.all(x, x > 1)", Ok(Outcome::Bool(false))),
            ("self.l.map(x, x + 1).sum() == 5", Ok(Outcome::Bool(true))),
            ("self['a-b'] + self.namespace", Ok(Outcome::Text("xn".into()))),
            ("self.under_score + self.__x == 5", Ok(Outcome::Bool(true))),
            ("has(self.a) && !has(self.b)", Ok(Outcome::Bool(true))),
            ("self.?b.orValue(7) == 7", Ok(Outcome::Bool(true))),
            ("self.?a.orValue(7) == 1", Ok(Outcome::Bool(true))),
            ("self.?b.?c.orValue(7) == 7", Ok(Outcome::Bool(true))),
            ("self.?b.hasValue()", Ok(Outcome::Bool(false))),
            ("self.l[?5].orValue(9) == 9", Ok(Outcome::Bool(true))),
            ("self.l.exists_one(x, x == 1) && 2 in self.l", Ok(Outcome::Bool(true))),
            ("quantity('1Gi').isGreaterThan(quantity('1Mi'))", Ok(Outcome::Bool(true))),
            ("!!(self.a == 1)", Ok(Outcome::Bool(true))),
            ("!!!(self.a == 1)", Ok(Outcome::Bool(false))),
            ("--self.a == 1", Ok(Outcome::Bool(true))),
            ("3--self.a == 4", Ok(Outcome::Bool(true))),
            ("type(self.a) == int && type(self.l) == list && type(self) == map", Ok(Outcome::Bool(true))),
            ("type(self.namespace) == int || type(self.f) == type(1)", Ok(Outcome::Bool(false))),
            ("type(type(self)) == type && type(null) == null_type", Ok(Outcome::Bool(true))),
            ("dyn(self.a) == 1", Ok(Outcome::Bool(true))),
            ("self.l", Ok(Outcome::Other)),
            ("self.b", Err("no such key: b".to_owned())),
            ("self.l[3] == 1", Err("index out of bounds: 3".to_owned())),
            ("1 / (self.a - 1) == 1", Err("division by zero".to_owned())),
        ] {
            let expression = Expression::compile(text, &anything()).unwrap();
            assert_eq!(expression.evaluate(&[("self", Binding::Plain(&object))]), want, "{text}");
        }
    }

    #[test]
    fn expensive_evaluations_are_cancelled() {
        let object = json!({
            "l": (0..2_000).collect::<Vec<i32>>(), "s": "a".repeat(1 << 20), "few": [1, 2, 3],
            "names": (0..1_000).map(|i| format!("name-{i}")).collect::<Vec<_>>(),
        });
        for (name, text, fits) in [
            ("a small nested loop", "self.few.all(x, self.few.all(y, x == y || x != y))", true),
            ("a quadratic loop over names", "self.names.all(x, self.names.exists_one(y, y == x))", false),
            ("a lookup in a long list per name", "self.names.all(x, x in self.names)", true),
            ("three nested loops", "self.l.all(x, self.l.all(y, self.l.all(z, x + y + z >= 0)))", false),
            (
                "failures that exists() ignores",
                "self.l.exists(x, self.l.exists(y, self.l.exists(z, x + y + z < 0))) || true",
                false,
            ),
            ("a list that grows", "self.l.map(x, self.l.map(y, x + y)).size() > 0", false),
            ("a long list", "lists.range(100000000000).size() > 0", false),
            (
                "a long text",
                "self.s.replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa').size() > 0",
                false,
            ),
            ("a long text in a loop", "self.l.all(x, self.s.contains('b' + string(x)) || true)", false),
            ("patterns in a loop", "self.l.all(x, string(x).matches('^((a{100}){100}){100}$') || true)", false),
            ("a plain pattern in a loop", "self.names.all(x, x.matches('^[a-z]+-[0-9]{1,4}$'))", true),
            ("long lists compared", "self.l.all(x, self.l == self.l)", true),
            ("long lists compared in two loops", "self.names.all(x, self.l.all(y, self.l == self.l))", false),
            ("a joined text", "self.names.join(self.s).size() > 0", false),
            ("a short joined text", "self.names.join(',').size() > 0 && self.names.distinct().size() == 1000", true),
            ("replaced", "'aXbX'.replace('X', '-') == 'a-b-' && 'aXbX'.replace('X', '-', 1) == 'a-bX'", true),
        ] {
            let expression = Expression::compile(text, &anything()).unwrap();
            let came_to = expression.evaluate(&[("self", Binding::Plain(&object))]);
            let want = if fits { Ok(Outcome::Bool(name != "each name once")) } else { Err(EXCEEDED.to_owned()) };
            assert_eq!(came_to, want, "{name}");
        }
    }

    #[test]
    fn a_budget_is_shared_by_evaluations() {
        let object = json!({"l": (0..1_000).collect::<Vec<i32>>()});
        let variables = [("self", Binding::Plain(&object))];
        let expression = Expression::compile("self.l.all(x, x >= 0)", &anything()).unwrap();
        let mut budget = Budget::new(20_000);
        let ended = (0..100).position(|_| expression.evaluate_within(&variables, &mut budget).is_err());
        assert!(ended.is_some_and(|n| (1..10).contains(&n)), "{ended:?}");
        assert!(budget.is_exceeded());
        assert_eq!(expression.evaluate(&variables), Ok(Outcome::Bool(true)), "another budget is not affected");
    }

    #[test]
    fn invalid_expressions_are_rejected() {
        for (text, want) in [
            ("foo > 1", "ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo > 1\n | ^"),
            (
                "self.a.bogus()",
                "ERROR: <input>:1:13: undeclared reference to 'bogus' (in container '')\n | self.a.bogus()\n | ............^",
            ),
            (
                "1 > 'a'",
                "ERROR: <input>:1:3: found no matching overload for '_>_' applied to '(int, string)'\n | 1 > 'a'\n | ..^",
            ),
        ] {
            assert_eq!(Expression::compile(text, &anything()).unwrap_err(), want, "{text}");
        }
        let open = Expression::compile("self.a >", &anything()).unwrap_err();
        assert!(open.starts_with("ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>' expecting"), "{open}");
        assert!(open.ends_with("\n | self.a >\n | ........^"), "{open}");
    }

    #[test]
    fn an_error_is_not_much_longer_than_its_expression() {
        let many = Expression::compile(&"@".repeat(16_000), &anything()).unwrap_err();
        assert!(many.len() < 200_000, "{} bytes", many.len());
        let long = Expression::compile(&format!("{}foo > 1", "self.a && ".repeat(1_500)), &anything()).unwrap_err();
        assert!(long.starts_with("ERROR: <input>:1:15001: undeclared reference to 'foo'"), "{long:.100}");
        assert!(long.len() < 2_000, "{} bytes", long.len());
    }

    #[test]
    fn deeply_nested_expressions_are_rejected() {
        let at = nesting::DEPTH_MAX;
        for (text, fits) in [
            ("x".repeat(LENGTH_MAX + 1), false),
            (format!("{}true{}", "(".repeat(5_000), ")".repeat(5_000)), false),
            (format!("{}true", "!".repeat(10_000)), false),
            (format!("{}1{} != []", "[".repeat(5_000), "]".repeat(5_000)), false),
            ("self".to_owned() + &".a".repeat(6_000), false),
            ("1+".repeat(5_000) + "1 == 1", false),
            ("true ? ".repeat(1_000) + "true" + &" : true".repeat(1_000), false),
            ("self == '".to_owned() + &"(".repeat(5_000) + "'", true),
            ("self.a == 1 || ".repeat(500) + "true", true),
            ("self".to_owned() + &".a".repeat(at), true),
            (format!("{}true", "!".repeat(at)), true),
            (format!("{}1 == 1", "1+".repeat(at / 2 - 2)), true),
            (format!(r#"r"\" == "" || {}1 == 1"#, "1+".repeat(7_900)), false),
            (format!(r#"r"\" == "" || self{} == 1"#, ".a".repeat(7_900)), false),
            (format!("'\\q' + {}1", "1+".repeat(7_900)), false),
            (format!("{}{}{}", "!!(".repeat(12), "self.a && ".repeat(1_500) + "self.on", ")".repeat(12)), true),
        ] {
            // Half the stack of a worker thread.
            let run = move || Expression::compile(&text, &anything()).map_err(|e| format!("{e:.300}"));
            let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap();
            let answer = thread.join().unwrap();
            assert_eq!(answer.is_ok(), fits, "{answer:?}");
        }
        for depth in [at / 4, at] {
            let text = format!("{}true{}", "(".repeat(depth), ")".repeat(depth));
            let thread = std::thread::Builder::new().stack_size(1 << 20);
            let _ = thread.spawn(move || Expression::compile(&text, &anything()).is_ok()).unwrap().join().unwrap();
        }
    }
}
