//! Static check of expressions: types, mistakes, and worst-case cost.
//!
//! Costs follow cel-go where it matters: one unit per step, a tenth of a unit for each character of a text, and for a
//! comprehension its body once per element. Sizes without a bound in the schema are as large as a request allows.

use std::collections::BTreeMap;

use kube_cel::cel::{
    IdedExpr,
    common::ast::{ComprehensionExpr, EntryExpr, Expr, LiteralValue, StructExpr, operators as op},
};

use super::{
    Constructors, Variable, construct,
    functions::{FUNCTIONS, LIBRARIES, is_type},
    value::escaped,
};
use crate::structural::{Additional, JsonType, Node};

/// Maximum cost of one rule.
pub const COST_MAX: u64 = 10_000_000;
/// Maximum cost of all rules of a schema.
pub const TOTAL_COST_MAX: u64 = 100_000_000;
/// The most bytes of a request's body, which bounds everything in it.
const REQUEST_BYTES: u64 = 3 * 1024 * 1024;

/// Static type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the language's words")]
pub enum Type {
    Dyn,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Null,
    Timestamp,
    Duration,
    List,
    Map,
    Object,
    Optional,
}

impl Type {
    /// The name of the type in messages; `dyn` if it is unknown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dyn => "dyn",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Null => "null",
            Self::Timestamp => "timestamp",
            Self::Duration => "duration",
            Self::List => "list",
            Self::Map => "map",
            Self::Object => "object",
            Self::Optional => "optional_type",
        }
    }

    fn of(node: &Node) -> Self {
        if node.int_or_string {
            return Self::Dyn;
        }
        match node.ty {
            None => Self::Dyn,
            Some(JsonType::Boolean) => Self::Bool,
            Some(JsonType::Integer) => Self::Int,
            Some(JsonType::Number) => Self::Double,
            Some(JsonType::Array) => Self::List,
            Some(JsonType::Object) if node.properties.is_empty() && node.additional.is_some() => Self::Map,
            Some(JsonType::Object) => Self::Object,
            Some(JsonType::String) => match node.checks.format.as_ref().map(|f| f.name()) {
                Some("date" | "date-time") => Self::Timestamp,
                Some("duration") => Self::Duration,
                Some("byte") => Self::Bytes,
                _ => Self::String,
            },
        }
    }

    /// Returns `true` for types that the language compares and adds only with the same type.
    fn is_plain(self) -> bool {
        matches!(self, Self::Bool | Self::Int | Self::Uint | Self::Double | Self::String)
    }

    fn is_number(self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double)
    }
}

/// Static knowledge about an expression.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The type of its value.
    pub ty: Type,
    /// The schema of its value.
    pub node: Option<&'a Node>,
    /// The most elements, members or characters of its value.
    pub size: u64,
    /// Cost to evaluate it.
    pub cost: u64,
}

impl<'a> Known<'a> {
    fn new(ty: Type, cost: u64) -> Self {
        Self { ty, node: None, size: 1, cost }
    }

    fn of(node: &'a Node, cost: u64) -> Self {
        Self { ty: Type::of(node), node: Some(node), size: size_of(node), cost }
    }

    fn unknown(cost: u64) -> Self {
        Self { ty: Type::Dyn, node: None, size: REQUEST_BYTES, cost }
    }

    /// Returns the knowledge about an element of a list or a key of a map.
    fn element(&self) -> Self {
        match self.node {
            Some(node) if self.ty == Type::List => node.items.as_deref().map_or(Self::unknown(0), |n| Self::of(n, 0)),
            Some(_) => Self { size: REQUEST_BYTES, ..Self::new(Type::String, 0) },
            None => Self::unknown(0),
        }
    }
}

/// The fewest bytes of a value in a request.
fn smallest(node: &Node) -> u64 {
    match node.ty {
        Some(JsonType::Boolean) => 4,
        Some(JsonType::Integer | JsonType::Number) => 1,
        Some(JsonType::Object) => {
            let needed = node.checks.required.iter().filter_map(|name| Some((name, node.properties.get(name)?)));
            2 + needed.map(|(name, node)| name.len() as u64 + 3 + smallest(node)).sum::<u64>()
        }
        _ => 2,
    }
}

/// The most elements, members or characters of a schema's values.
fn size_of(node: &Node) -> u64 {
    let checks = &node.checks;
    let whole = REQUEST_BYTES - 2;
    match node.ty {
        Some(JsonType::Array) => {
            let item = node.items.as_deref().map_or(1, smallest);
            checks.max_items.unwrap_or(whole / (item + 1))
        }
        Some(JsonType::Object) => {
            let member = match &node.additional {
                Some(Additional::Of(node)) => smallest(node),
                _ => 1,
            };
            checks.max_properties.unwrap_or(whole / (member + 6))
        }
        Some(JsonType::String) => {
            let longest = checks.allowed.iter().filter_map(|v| v.as_str()).map(|t| t.len() as u64).max();
            let by_format = match checks.format.as_ref().map(|f| f.name()) {
                Some("date") => Some(10),
                Some("date-time" | "duration") => Some(32),
                _ => None,
            };
            longest.or(checks.max_length).or(by_format).unwrap_or(whole)
        }
        None if node.int_or_string => checks.max_length.unwrap_or(whole),
        _ => 1,
    }
}

/// Returns how many values of this schema one value of the schema above can hold at most.
pub fn cost_of_node(above: &Node) -> u64 {
    size_of(above).max(1)
}

/// Returns by how much a cost exceeds a limit, as in messages; `None` if it does not.
pub fn factor(cost: u64, limit: u64) -> Option<String> {
    if cost <= limit {
        return None;
    }
    let factor = cost as f64 / limit as f64;
    Some(if factor > 100.0 { "more than 100x".to_owned() } else { format!("{factor:.1}x") })
}

/// Checks a whole expression; returns its type and its mistakes with their positions.
pub(super) fn check<'a>(
    text: &str,
    tree: &IdedExpr,
    variables: &BTreeMap<&str, Variable<'a>>,
    constructors: Constructors,
) -> (Known<'a>, Vec<(usize, String)>) {
    let names = variables.iter().map(|(name, variable)| {
        let known = match variable {
            Variable::Of(node) => Known::of(node, 1),
            Variable::OptionalOf(node) => Known { ty: Type::Optional, ..Known::of(node, 1) },
            Variable::Anything => Known::unknown(1),
        };
        ((*name).to_owned(), known)
    });
    let mut checker = Checker { text, constructors, names: names.collect(), mistakes: Vec::new() };
    let known = checker.known(tree);
    checker.mistakes.sort();
    (known, checker.mistakes)
}

struct Checker<'t, 'a> {
    text: &'t str,
    constructors: Constructors,
    /// Names in scope; the innermost is last.
    names: Vec<(String, Known<'a>)>,
    mistakes: Vec<(usize, String)>,
}

/// A tenth of a unit for each character, at least one.
fn walk(size: u64) -> u64 {
    size.div_ceil(10).max(1)
}

impl<'a> Checker<'_, 'a> {
    /// Records a mistake at the position of a word. The tree has no positions: of several occurrences, take the first
    /// without a mistake.
    fn mistake(&mut self, needle: &str, skip: usize, message: String) {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let fits = |at: &usize| {
            let word = needle.trim_matches(|c: char| !is_word(c));
            let inside = needle.find(word).unwrap_or(0);
            let start = at + inside;
            let before = self.text[..start].chars().next_back().filter(|_| inside == 0);
            let after = self.text[start + word.len()..].chars().next();
            word.is_empty() || !(before.is_some_and(is_word) || after.is_some_and(is_word))
        };
        let places = self.text.match_indices(needle).map(|(at, _)| at).filter(fits);
        let known: Vec<usize> = self.mistakes.iter().map(|(at, _)| *at).collect();
        let at = places.map(|at| at + skip).find(|at| !known.contains(at)).unwrap_or(0);
        if !self.mistakes.iter().any(|(_, text)| *text == message) {
            self.mistakes.push((at, message));
        }
    }

    fn known(&mut self, tree: &IdedExpr) -> Known<'a> {
        match &tree.expr {
            Expr::Unspecified => Known::unknown(0),
            Expr::Literal(literal) => literal_of(literal),
            Expr::Ident(name) => match self.names.iter().rev().find(|(known, _)| known == name) {
                Some((_, known)) => Known { cost: 1, ..*known },
                None if is_type(name) => Known::new(Type::Dyn, 1),
                None => {
                    self.mistake(name, 0, format!("undeclared reference to '{name}' (in container '')"));
                    Known::unknown(1)
                }
            },
            Expr::Select(select) => {
                let operand = self.known(&select.operand);
                let field = self.field(&operand, &select.field);
                let cost = operand.cost.saturating_add(1);
                if select.test { Known::new(Type::Bool, cost) } else { Known { cost, ..field } }
            }
            Expr::List(list) => {
                let mut cost = 10_u64;
                for element in &list.elements {
                    cost = cost.saturating_add(self.known(element).cost);
                }
                Known { size: list.elements.len() as u64, ..Known::new(Type::List, cost) }
            }
            Expr::Map(map) => self.entries(map.entries.iter().map(|e| &e.expr), 30),
            Expr::Struct(value) => self.constructed(value),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Call(call) => {
                let function = call.func_name.as_str();
                let of_library = match call.target.as_deref().map(|t| &t.expr) {
                    Some(Expr::Ident(name)) if LIBRARIES.contains(&name.as_str()) => Some(format!("{name}.{function}")),
                    _ => None,
                };
                let name = of_library.as_deref().unwrap_or(function);
                let mut known: Vec<Known<'a>> = Vec::new();
                if let (Some(target), None) = (&call.target, &of_library) {
                    known.push(self.known(target));
                }
                for arg in &call.args {
                    known.push(self.known(arg));
                }
                self.call(name, call, &known)
            }
        }
    }

    /// Checks a construction: its type, the names of its fields, and the types of those that are texts.
    fn constructed(&mut self, value: &StructExpr) -> Known<'a> {
        let name = value.type_name.as_str();
        if self.constructors == Constructors::None || !construct::is_constructed(name) {
            self.mistake(name, 0, format!("undeclared reference to '{name}' (in container '')"));
            return self.entries(value.entries.iter().map(|e| &e.expr), 40);
        }
        let mut cost = 40_u64;
        for entry in &value.entries {
            let EntryExpr::StructField(field) = &entry.expr else { continue };
            let known = self.known(&field.value);
            cost = cost.saturating_add(known.cost);
            if !construct::has_field(name, &field.field) {
                self.mistake(&field.field, 0, format!("undefined field '{}'", field.field));
            } else if construct::is_text(name, &field.field) && known.ty.is_plain() && known.ty != Type::String {
                let (field, ty) = (&field.field, known.ty.name());
                let message = format!("expected type of field '{field}' is 'string' but provided type is '{ty}'");
                self.mistake(field, 0, message);
            }
        }
        Known { size: value.entries.len() as u64, ..Known::new(Type::Map, cost) }
    }

    fn entries<'e>(&mut self, entries: impl Iterator<Item = &'e EntryExpr>, start: u64) -> Known<'a> {
        let (mut cost, mut size) = (start, 0);
        for entry in entries {
            size += 1;
            let more = match entry {
                EntryExpr::StructField(field) => self.known(&field.value).cost,
                EntryExpr::MapEntry(entry) => self.known(&entry.key).cost.saturating_add(self.known(&entry.value).cost),
            };
            cost = cost.saturating_add(more);
        }
        Known { size, ..Known::new(Type::Map, cost) }
    }

    fn field(&mut self, operand: &Known<'a>, field: &str) -> Known<'a> {
        match (operand.ty, operand.node) {
            (Type::Object | Type::Map | Type::Optional, Some(node)) => {
                let property = node.properties.iter().find(|(name, _)| escaped(name) == field).map(|(_, node)| &**node);
                let member = match &node.additional {
                    Some(Additional::Of(node)) => Some(&**node),
                    _ => None,
                };
                match property.or(member) {
                    Some(found) => Known::of(found, 0),
                    None if node.additional.is_some() || node.preserve_unknown || implied(field) => Known::unknown(0),
                    None => {
                        self.mistake(&format!(".{field}"), 0, format!("undefined field '{field}'"));
                        Known::unknown(0)
                    }
                }
            }
            (ty, _) if ty.is_plain() || ty == Type::List => {
                let message = format!("type '{}' does not support field selection", ty.name());
                self.mistake(&format!(".{field}"), 0, message);
                Known::unknown(0)
            }
            _ => Known::unknown(0),
        }
    }

    fn comprehension(&mut self, it: &ComprehensionExpr) -> Known<'a> {
        let range = self.known(&it.iter_range);
        let init = self.known(&it.accu_init);
        let names = self.names.len();
        let size = if matches!(range.ty, Type::List | Type::Map | Type::Object | Type::Dyn) { range.size } else { 1 };
        self.names.push((it.accu_var.clone(), Known { size, ..init }));
        self.names.push((it.iter_var.clone(), range.element()));
        if let Some(second) = &it.iter_var2 {
            self.names.push((second.clone(), Known::unknown(0)));
        }
        let condition = self.known(&it.loop_cond).cost;
        let step = self.known(&it.loop_step).cost;
        self.names.truncate(names + 1);
        let result = self.known(&it.result);
        self.names.truncate(names);
        let loops = size.saturating_mul(condition.saturating_add(step));
        let cost = [range.cost, init.cost, loops, result.cost].into_iter().fold(0, u64::saturating_add);
        Known { cost, size: if result.ty == Type::List { size } else { result.size }, ..result }
    }

    fn call(&mut self, name: &str, call: &kube_cel::cel::common::ast::CallExpr, known: &[Known<'a>]) -> Known<'a> {
        let costs = known.iter().map(|k| k.cost).fold(0, u64::saturating_add);
        let plus = |more: u64| costs.saturating_add(more);
        let size = |at: usize| known.get(at).map_or(1, |k| k.size);
        let (a, b) = (known.first().copied(), known.get(1).copied());
        match name {
            op::LOGICAL_AND | op::LOGICAL_OR => Known::new(Type::Bool, costs),
            op::LOGICAL_NOT | op::NOT_STRICTLY_FALSE => Known::new(Type::Bool, plus(1)),
            op::CONDITIONAL => {
                let branches = [known.get(1), known.get(2)].map(|k| k.copied().unwrap_or(Known::unknown(0)));
                let one = branches[0];
                let ty = if one.ty == branches[1].ty { one.ty } else { Type::Dyn };
                let cost = size_free(known.first()).saturating_add(branches[0].cost.max(branches[1].cost));
                Known { ty, cost, size: one.size.max(branches[1].size), ..one }
            }
            op::EQUALS | op::NOT_EQUALS | op::LESS | op::LESS_EQUALS | op::GREATER | op::GREATER_EQUALS | op::ADD => {
                let (Some(a), Some(b)) = (a, b) else { return Known::unknown(costs) };
                let orders = !matches!(name, op::EQUALS | op::NOT_EQUALS | op::ADD);
                let mixed = orders && a.ty.is_number() && b.ty.is_number();
                if a.ty.is_plain() && b.ty.is_plain() && a.ty != b.ty && !mixed {
                    let sign = name.trim_matches('_');
                    let types = format!("({}, {})", a.ty.name(), b.ty.name());
                    self.mistake(sign, 0, format!("found no matching overload for '{name}' applied to '{types}'"));
                }
                if name == op::ADD {
                    let joined = a.size.saturating_add(b.size);
                    let long = !a.ty.is_number();
                    return Known { size: joined, ..Known::new(a.ty, plus(if long { walk(joined) } else { 1 })) };
                }
                let walked = if a.ty.is_number() || a.ty == Type::Bool { 1 } else { walk(a.size.min(b.size)) };
                Known::new(Type::Bool, plus(walked))
            }
            op::IN => Known::new(
                Type::Bool,
                plus(match b.map(|k| k.ty) {
                    Some(Type::Map | Type::Object) => 1,
                    _ => size(1),
                }),
            ),
            op::INDEX | op::OPT_INDEX => {
                let of = a.map_or(Known::unknown(0), |k| match k.node {
                    Some(node) => match (&node.items, &node.additional) {
                        (Some(items), _) => Known::of(items, 0),
                        (_, Some(Additional::Of(node))) => Known::of(node, 0),
                        _ => Known::unknown(0),
                    },
                    None => Known::unknown(0),
                });
                let ty = if name == op::OPT_INDEX { Type::Optional } else { of.ty };
                Known { ty, cost: plus(1), ..of }
            }
            op::OPT_SELECT => {
                let field = match call.args.get(1).map(|arg| &arg.expr) {
                    Some(Expr::Literal(LiteralValue::String(text))) => text.inner().to_owned(),
                    _ => String::new(),
                };
                let of = a.map_or(Known::unknown(0), |operand| self.field(&operand, &field));
                Known { ty: Type::Optional, cost: plus(1), ..of }
            }
            op::SUBSTRACT | op::MULTIPLY | op::DIVIDE | op::MODULO | op::NEGATE => {
                Known::new(a.map_or(Type::Dyn, |k| k.ty), plus(1))
            }
            _ if !FUNCTIONS.contains(&name) && !name.starts_with("math.bit") && !name.starts_with("format.") => {
                let short = name.rsplit('.').next().unwrap_or(name);
                let message = format!("undeclared reference to '{short}' (in container '')");
                self.mistake(&format!("{short}("), short.len(), message);
                Known::unknown(plus(1))
            }
            "size" => Known::new(Type::Int, plus(1)),
            "contains" => Known::new(Type::Bool, plus(walk(size(0)).saturating_mul(walk(size(1))))),
            "matches" | "find" | "findAll" => {
                let pattern = size(1).div_ceil(4).max(1);
                let ty = match name {
                    "matches" => Type::Bool,
                    "find" => Type::String,
                    _ => Type::List,
                };
                Known { size: size(0), ..Known::new(ty, plus(walk(size(0).saturating_add(1)).saturating_mul(pattern))) }
            }
            "startsWith" | "endsWith" => Known::new(Type::Bool, plus(walk(size(1)))),
            "string" => {
                let wide = a.is_some_and(|k| k.ty == Type::String || k.ty == Type::Bytes);
                Known {
                    size: if wide { size(0) } else { REQUEST_BYTES },
                    ..Known::new(Type::String, plus(walk(size(0))))
                }
            }
            "type" => Known::new(Type::Dyn, plus(1)),
            "dyn" => Known { ty: Type::Dyn, node: None, ..Known { cost: plus(1), ..a.unwrap_or(Known::unknown(0)) } },
            "int" => Known::new(Type::Int, plus(1)),
            "uint" => Known::new(Type::Uint, plus(1)),
            "double" => Known::new(Type::Double, plus(1)),
            "timestamp" => Known::new(Type::Timestamp, plus(1)),
            "duration" => Known::new(Type::Duration, plus(1)),
            "hasValue" | "isSorted" | "isURL" | "isIP" | "isCIDR" | "isQuantity" | "isSemver" | "isInteger"
            | "isGreaterThan" | "isLessThan" => Known::new(Type::Bool, plus(walk(size(0)))),
            "value" | "orValue" => {
                let of = a.unwrap_or(Known::unknown(0));
                Known { ty: of.node.map_or(Type::Dyn, Type::of), cost: plus(1), ..of }
            }
            "lowerAscii" | "upperAscii" | "trim" | "replace" | "substring" | "charAt" | "join" | "reverse"
            | "strings.quote"
                if a.is_some_and(|k| k.ty == Type::String) || name == "join" =>
            {
                Known { size: size(0), ..Known::new(Type::String, plus(walk(size(0)))) }
            }
            "split" => Known { size: size(0), ..Known::new(Type::List, plus(walk(size(0)))) },
            _ => Known::unknown(plus(if known.iter().any(|k| k.size > 1) { walk(size(0)) } else { 1 })),
        }
    }
}

fn size_free(known: Option<&Known<'_>>) -> u64 {
    known.map_or(0, |k| k.cost)
}

/// Returns `true` for fields that every root object has, even if its schema does not declare them.
fn implied(field: &str) -> bool {
    matches!(field, "apiVersion" | "kind" | "metadata")
}

fn literal_of<'a>(literal: &LiteralValue) -> Known<'a> {
    match literal {
        LiteralValue::Boolean(_) => Known::new(Type::Bool, 0),
        LiteralValue::Bytes(bytes) => Known { size: bytes.inner().len() as u64, ..Known::new(Type::Bytes, 0) },
        LiteralValue::Double(_) => Known::new(Type::Double, 0),
        LiteralValue::Int(_) => Known::new(Type::Int, 0),
        LiteralValue::Null => Known::new(Type::Null, 0),
        LiteralValue::String(text) => {
            Known { size: text.inner().chars().count() as u64, ..Known::new(Type::String, 0) }
        }
        LiteralValue::UInt(_) => Known::new(Type::Uint, 0),
    }
}
