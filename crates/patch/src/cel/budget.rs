//! Cost limits of expressions at run time (specification/apiserver.md 18, "Cost limits").
//!
//! The evaluator does not count, so compilation rewrites the tree: each iteration of a loop, each comparison and each
//! call of a function first pays for the work that follows, by the sizes of its operands. Without units left it fails,
//! and so does everything after it, even where `||` and `&&` forgive failures, so that an evaluation ends soon. Units
//! have the magnitude of a kube-apiserver's, but are not the same.

use std::cell::Cell;

use kube_cel::cel::{
    Context, ExecutionError, FunctionContext, IdedExpr, Value as CelValue,
    common::{
        ast::{CallExpr, EntryExpr, Expr, LiteralValue, operators as op},
        types::{CelInt, CelList, CelMap, CelOptional, CelString},
        value::Val,
    },
};

/// The most units of one evaluation.
pub const EVALUATION_UNITS_MAX: u64 = 1_000_000;
/// The most units of all evaluations of one request.
pub const REQUEST_UNITS_MAX: u64 = 10_000_000;
/// The most units of the match conditions of one webhook or policy.
pub const CONDITIONS_UNITS_MAX: u64 = REQUEST_UNITS_MAX / 4;

/// Error of an evaluation that exceeds its cost limit.
pub const EXCEEDED: &str = "operation cancelled: actual cost limit exceeded";

/// Bytes, elements or members that are visited for one unit.
const WALKED_PER_UNIT: u64 = 16;
/// Cost of a regular expression besides its length.
const PATTERN_UNITS: u64 = 50;
/// Maximum cost of the repetitions of a pattern: the library bounds their compiled size, too.
const REPETITION_UNITS_MAX: u64 = 50_000;

/// Units for a number of evaluations, such as those of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    left: u64,
    exceeded: bool,
}

impl Budget {
    /// Creates a budget of this many units.
    pub fn new(units: u64) -> Self {
        Self { left: units, exceeded: false }
    }

    /// Returns `true` once an evaluation was cut short because of its cost: nothing more should be evaluated.
    pub fn is_exceeded(&self) -> bool {
        self.exceeded
    }

    /// Runs an evaluation, limited by the remaining units and by the limit of one evaluation.
    pub(super) fn spend<T>(&mut self, run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let granted = self.left.min(EVALUATION_UNITS_MAX);
        LEFT.set(Some(granted));
        let came_to = run();
        let left = LEFT.replace(None);
        self.left -= granted - left.unwrap_or(0).min(granted);
        if left.is_none() {
            self.exceeded = true;
            return Err(EXCEEDED.to_owned());
        }
        came_to
    }
}

thread_local! {
    /// Remaining units of the evaluation on this thread; `None` once it exceeded its limit.
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

fn pay(units: u64) -> Result<(), ExecutionError> {
    let left = LEFT.get().and_then(|left| left.checked_sub(units));
    LEFT.set(left);
    match left {
        Some(_) => Ok(()),
        None => Err(ExecutionError::function_error("cost", EXCEEDED)),
    }
}

/// Number of elements, members and bytes to visit, limited to the remaining units.
fn size(value: &dyn Val) -> u64 {
    let most = LEFT.get().unwrap_or(0).saturating_mul(WALKED_PER_UNIT).saturating_add(WALKED_PER_UNIT);
    let mut seen = 0_u64;
    let mut open: Vec<&dyn Val> = vec![value];
    while let Some(value) = open.pop() {
        seen += 1;
        if let Some(text) = value.downcast_ref::<CelString>() {
            seen += text.inner().len() as u64;
        } else if let Some(list) = value.downcast_ref::<CelList>() {
            open.extend(list.inner().iter().map(|item| &**item));
        } else if let Some(map) = value.downcast_ref::<CelMap>() {
            open.extend(map.inner().values().map(|member| &**member));
        } else if let Some(inner) = value.downcast_ref::<CelOptional>().and_then(CelOptional::inner) {
            open.push(inner);
        }
        if seen.saturating_add(open.len() as u64) > most {
            return most;
        }
    }
    seen
}

fn walk(value: &dyn Val) -> u64 {
    1 + size(value) / WALKED_PER_UNIT
}

const TICK: &str = "@tick";
const WEIGH: &str = "@weigh";
const SQUARE: &str = "@square";
const PATTERN: &str = "@pattern";
const COUNT: &str = "@count";
const GROW: &str = "@grow";
const REPLACE: &str = "@replace";
const JOIN: &str = "@join";
/// Operators that visit their operands, and the functions that replace them.
const WALKING: [(&str, &str); 7] = [
    (op::EQUALS, "@equals"),
    (op::NOT_EQUALS, "@differs"),
    (op::LESS, "@less"),
    (op::LESS_EQUALS, "@at_most"),
    (op::GREATER, "@greater"),
    (op::GREATER_EQUALS, "@at_least"),
    (op::IN, "@within"),
];

pub(super) fn register(functions: &mut Context<'static>) {
    functions.add_function(TICK, tick);
    functions.add_function(WEIGH, weigh);
    functions.add_function(SQUARE, square);
    functions.add_function(PATTERN, pattern);
    functions.add_function(COUNT, count);
    functions.add_function(GROW, grow);
    functions.add_function(REPLACE, replace);
    functions.add_function(JOIN, join);
    functions.add_function(WALKING[0].1, equals);
    functions.add_function(WALKING[1].1, differs);
    functions.add_function(WALKING[2].1, less);
    functions.add_function(WALKING[3].1, at_most);
    functions.add_function(WALKING[4].1, greater);
    functions.add_function(WALKING[5].1, at_least);
    functions.add_function(WALKING[6].1, within);
}

type Answer = Result<CelValue, ExecutionError>;

fn argument<'a>(of: &'a FunctionContext<'_, '_>, at: usize) -> Result<std::borrow::Cow<'a, dyn Val>, ExecutionError> {
    let expression = of.args.get(at).ok_or(ExecutionError::NoSuchOverload)?;
    CelValue::resolve_val(expression, of.ptx)
}

/// Charges for an iteration of a loop over this element, with a body of this many parts.
fn tick(of: &FunctionContext<'_, '_>) -> Answer {
    let parts = argument(of, 1)?.downcast_ref::<CelInt>().map_or(1, |n| (*n.inner()).unsigned_abs());
    let element = argument(of, 0)?;
    pay(parts + walk(&*element))?;
    Ok(CelValue::Bool(true))
}

/// Charges for a value that is about to be extended.
fn grow(of: &FunctionContext<'_, '_>) -> Answer {
    let grown = argument(of, 0)?;
    pay(walk(&*grown))?;
    Ok(CelValue::Bool(true))
}

/// Charges for the size of the value.
fn weigh(of: &FunctionContext<'_, '_>) -> Answer {
    let value = argument(of, 0)?;
    pay(walk(&*value))?;
    CelValue::try_from(&*value)
}

/// Charges for a function that compares each pair of elements of the value.
fn square(of: &FunctionContext<'_, '_>) -> Answer {
    let value = argument(of, 0)?;
    let elements = value.downcast_ref::<CelList>().map_or(1, |list| list.inner().len() as u64);
    pay(1 + elements.saturating_mul(size(&*value)) / WALKED_PER_UNIT)?;
    CelValue::try_from(&*value)
}

/// Charges for a pattern or a format that a function parses first.
fn pattern(of: &FunctionContext<'_, '_>) -> Answer {
    let value = argument(of, 0)?;
    let text = value.downcast_ref::<CelString>().map_or("", |text| text.inner());
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let numbers = numbers.map(|digits| digits.parse::<u64>().unwrap_or(u64::MAX).max(1));
    let repeated = (numbers.fold(1, u64::saturating_mul) / 10).min(REPETITION_UNITS_MAX);
    pay(PATTERN_UNITS + text.len() as u64 + repeated)?;
    CelValue::try_from(&*value)
}

/// Charges for a number of elements to create.
fn count(of: &FunctionContext<'_, '_>) -> Answer {
    let value = argument(of, 0)?;
    let number = value.downcast_ref::<CelInt>().map_or(0, |n| *n.inner());
    pay(1 + u64::try_from(number).unwrap_or(0))?;
    CelValue::try_from(&*value)
}

/// Charges for two operands and returns them: a comparison visits at most the size of the shorter one.
fn compared<T>(
    of: &FunctionContext<'_, '_>,
    f: impl FnOnce(&dyn Val, &dyn Val) -> Result<T, ExecutionError>,
) -> Result<T, ExecutionError> {
    let (a, b) = (argument(of, 0)?, argument(of, 1)?);
    pay(walk(&*a).min(walk(&*b)))?;
    f(&*a, &*b)
}

fn equals(of: &FunctionContext<'_, '_>) -> Answer {
    compared(of, |a, b| Ok(CelValue::Bool(a.equals(b))))
}

fn differs(of: &FunctionContext<'_, '_>) -> Answer {
    compared(of, |a, b| Ok(CelValue::Bool(!a.equals(b))))
}

fn ordered(of: &FunctionContext<'_, '_>, wanted: fn(std::cmp::Ordering) -> bool) -> Answer {
    let ordering = compared(of, |a, b| a.as_comparer().ok_or(ExecutionError::NoSuchOverload)?.compare(b))?;
    Ok(CelValue::Bool(wanted(ordering)))
}

fn less(of: &FunctionContext<'_, '_>) -> Answer {
    ordered(of, std::cmp::Ordering::is_lt)
}

fn at_most(of: &FunctionContext<'_, '_>) -> Answer {
    ordered(of, std::cmp::Ordering::is_le)
}

fn greater(of: &FunctionContext<'_, '_>) -> Answer {
    ordered(of, std::cmp::Ordering::is_gt)
}

fn at_least(of: &FunctionContext<'_, '_>) -> Answer {
    ordered(of, std::cmp::Ordering::is_ge)
}

fn within(of: &FunctionContext<'_, '_>) -> Answer {
    let (item, all) = (argument(of, 0)?, argument(of, 1)?);
    // A map finds its keys without a scan.
    let comparisons = all.downcast_ref::<CelList>().map_or(0, |list| list.inner().len() as u64);
    pay(1 + comparisons.saturating_mul(walk(&*item)) / WALKED_PER_UNIT)?;
    let container = all.as_container().ok_or(ExecutionError::NoSuchOverload)?;
    Ok(CelValue::Bool(container.contains(&*item)?))
}

/// `text.replace(old, new)` and `text.replace(old, new, times)`.
fn replace(of: &FunctionContext<'_, '_>) -> Answer {
    let (text, old, new) = (argument(of, 0)?, argument(of, 1)?, argument(of, 2)?);
    let read = |value: &dyn Val| value.downcast_ref::<CelString>().map(|t| t.inner().to_owned());
    let (Some(text), Some(old), Some(new)) = (read(&*text), read(&*old), read(&*new)) else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let times = match of.args.get(3) {
        None => None,
        Some(_) => {
            let times = argument(of, 3)?;
            let times = times.downcast_ref::<CelInt>().ok_or(ExecutionError::NoSuchOverload)?;
            usize::try_from(*times.inner()).ok()
        }
    };
    let found = text.matches(&*old).count() as u64;
    let long = text.len() as u64 + found.saturating_mul(new.len() as u64);
    pay(1 + long / WALKED_PER_UNIT)?;
    let made = match times {
        Some(times) => text.replacen(&*old, &new, times),
        None => text.replace(&*old, &new),
    };
    Ok(CelValue::String(made.into()))
}

/// `list.join()` and `list.join(separator)`.
fn join(of: &FunctionContext<'_, '_>) -> Answer {
    let list = argument(of, 0)?;
    let list = list.downcast_ref::<CelList>().ok_or(ExecutionError::NoSuchOverload)?;
    let separator = match of.args.get(1) {
        None => String::new(),
        Some(_) => {
            let text = argument(of, 1)?;
            text.downcast_ref::<CelString>().ok_or(ExecutionError::NoSuchOverload)?.inner().to_owned()
        }
    };
    let between = (list.inner().len() as u64).saturating_mul(separator.len() as u64);
    pay(walk(list) + between / WALKED_PER_UNIT)?;
    let parts = list.inner().iter().map(|item| item.downcast_ref::<CelString>().map(|text| text.inner()));
    let parts: Option<Vec<&str>> = parts.collect();
    Ok(CelValue::String(parts.ok_or(ExecutionError::NoSuchOverload)?.join(&separator).into()))
}

fn call(name: &str, args: Vec<IdedExpr>) -> Expr {
    Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args })
}

fn wrapped(name: &str, inner: &mut IdedExpr) {
    if matches!(inner.expr, Expr::Literal(_)) && name == WEIGH {
        return;
    }
    let id = inner.id;
    let inside = std::mem::take(inner);
    *inner = IdedExpr { id, expr: call(name, vec![inside]) };
}

/// Returns `true` for names and fields: they can be evaluated twice at no cost.
fn is_pure(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Ident(_) => true,
        Expr::Select(select) => !select.test && is_pure(&select.operand),
        _ => false,
    }
}

/// Instruments an expression, and returns its number of parts without those of its loops.
///
/// `libraries` are the first words of functions with two words.
pub(super) fn instrument(tree: &mut IdedExpr, libraries: &[&str]) -> u64 {
    match &mut tree.expr {
        Expr::Call(_) => instrument_call(tree, libraries),
        Expr::Comprehension(it) => {
            let outside = [&mut it.iter_range, &mut it.accu_init, &mut it.result];
            let parts: u64 = outside.into_iter().map(|part| instrument(part, libraries)).sum();
            let inside = instrument(&mut it.loop_cond, libraries) + instrument(&mut it.loop_step, libraries);
            let literal = |value: LiteralValue| IdedExpr { id: 0, expr: Expr::Literal(value) };
            let step = std::mem::take(&mut it.loop_step);
            let parts_inside = CelInt::from(i64::try_from(inside).unwrap_or(i64::MAX));
            let element = IdedExpr { id: 0, expr: Expr::Ident(it.iter_var.clone()) };
            let paid = call(TICK, vec![element, literal(LiteralValue::Int(parts_inside))]);
            let never = literal(LiteralValue::Null);
            it.loop_step = IdedExpr {
                id: step.id,
                expr: call(op::CONDITIONAL, vec![IdedExpr { id: 0, expr: paid }, step, never]),
            };
            1 + parts
        }
        Expr::List(list) => 1 + list.elements.iter_mut().map(|item| instrument(item, libraries)).sum::<u64>(),
        Expr::Map(map) => {
            let entries = map.entries.iter_mut().map(|entry| match &mut entry.expr {
                EntryExpr::MapEntry(entry) => {
                    instrument(&mut entry.key, libraries) + instrument(&mut entry.value, libraries)
                }
                EntryExpr::StructField(field) => instrument(&mut field.value, libraries),
            });
            1 + entries.sum::<u64>()
        }
        Expr::Select(select) => 1 + instrument(&mut select.operand, libraries),
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => 1,
    }
}

fn instrument_call(tree: &mut IdedExpr, libraries: &[&str]) -> u64 {
    let Expr::Call(it) = &mut tree.expr else { return 1 };
    let mut parts = 1;
    let of_library =
        matches!(it.target.as_deref().map(|t| &t.expr), Some(Expr::Ident(name)) if libraries.contains(&&**name));
    if let Some(target) = it.target.as_deref_mut().filter(|_| !of_library) {
        parts += instrument(target, libraries);
    }
    parts += it.args.iter_mut().map(|arg| instrument(arg, libraries)).sum::<u64>();
    if let Some((_, paying)) = WALKING.iter().find(|(name, _)| *name == it.func_name) {
        it.func_name = (*paying).to_owned();
        return parts;
    }
    match it.func_name.as_str() {
        op::ADD => {
            let places: Vec<IdedExpr> = it.args.iter().filter(|arg| is_pure(arg)).cloned().collect();
            it.args.iter_mut().filter(|arg| !is_pure(arg) && !matches!(arg.expr, Expr::List(_))).for_each(|arg| {
                // Any other value was just created, and is at most as large as its operands, which were charged.
                if matches!(arg.expr, Expr::Call(_) | Expr::Comprehension(_)) {
                    wrapped(WEIGH, arg);
                }
            });
            for place in places {
                let sum = std::mem::take(tree);
                let paid = IdedExpr { id: 0, expr: call(GROW, vec![place]) };
                let never = IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::Null) };
                *tree = IdedExpr { id: sum.id, expr: call(op::CONDITIONAL, vec![paid, sum, never]) };
            }
        }
        name if name.starts_with(['_', '!', '@', '-']) => {}
        "replace" | "join" if it.target.is_some() => {
            it.func_name = if it.func_name == "join" { JOIN } else { REPLACE }.to_owned();
            it.args.splice(0..0, it.target.take().map(|target| *target));
        }
        "distinct" => it.target.iter_mut().for_each(|target| wrapped(SQUARE, target)),
        "range" if of_library => it.args.iter_mut().for_each(|arg| wrapped(COUNT, arg)),
        "contains" | "equivalent" | "intersects" if of_library => {
            it.args.iter_mut().for_each(|arg| wrapped(SQUARE, arg));
        }
        name => {
            let reads_pattern = matches!(name, "matches" | "find" | "findAll");
            let reads_format = name == "format";
            if let Some(target) = it.target.as_deref_mut().filter(|_| !of_library) {
                wrapped(if reads_format { PATTERN } else { WEIGH }, target);
            }
            for (i, arg) in it.args.iter_mut().enumerate() {
                // Called as a function, its first argument is its subject.
                let is_pattern = reads_pattern && (it.target.is_some() == (i == 0) || i == 1);
                wrapped(if is_pattern { PATTERN } else { WEIGH }, arg);
            }
        }
    }
    parts
}
