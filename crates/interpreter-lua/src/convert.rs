//! Conversion of objects to Lua tables and back (specification/propagation.md 20.4, value conversion).

use std::{
    cell::{Cell, OnceCell},
    collections::BTreeSet,
};

use mlua::{Lua, Table, Value as LuaValue};
use serde_json::{Map, Number, Value};

/// Values in one answer. Without a limit, a table that contains itself would never end.
pub const VALUES_MAX: usize = 500_000;
/// Bytes of text in one answer.
pub const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum nesting depth of an answer.
pub const DEPTH_MAX: usize = 100;

/// Separator of path segments: no key of an object contains it.
const STEP: char = '\u{1f}';

/// Resolves empty tables, which are one value in Lua: an empty table of an answer becomes the empty list or object at
/// its path in one of the arguments, list indexes ignored. Without such a value the field is omitted.
#[derive(Debug)]
pub(crate) struct Empties<'a> {
    references: &'a [&'a Value],
    known: OnceCell<(BTreeSet<String>, BTreeSet<String>)>,
}

impl<'a> Empties<'a> {
    pub(crate) fn of(references: &'a [&'a Value]) -> Self {
        Self { references, known: OnceCell::new() }
    }

    /// Without arguments to compare with.
    pub(crate) fn none() -> Self {
        Self::of(&[])
    }

    /// `[]`, `{}`, or `None`.
    fn at(&self, path: &str) -> Option<Value> {
        let (lists, objects) = self.known.get_or_init(|| {
            let (mut lists, mut objects) = (BTreeSet::new(), BTreeSet::new());
            for reference in self.references {
                collect(reference, &mut String::new(), &mut lists, &mut objects);
            }
            (lists, objects)
        });
        if lists.contains(path) {
            Some(Value::Array(Vec::new()))
        } else if objects.contains(path) {
            Some(Value::Object(Map::new()))
        } else {
            None
        }
    }
}

fn collect(value: &Value, path: &mut String, lists: &mut BTreeSet<String>, objects: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) if items.is_empty() => {
            lists.insert(path.clone());
        }
        Value::Array(items) => {
            for item in items {
                collect(item, path, lists, objects);
            }
        }
        Value::Object(map) if map.is_empty() => {
            objects.insert(path.clone());
        }
        Value::Object(map) => {
            for (key, value) in map {
                let length = path.len();
                path.push(STEP);
                path.push_str(key);
                collect(value, path, lists, objects);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

/// Converts JSON to Lua; `null` is nil.
pub(crate) fn to_lua(lua: &Lua, value: &Value) -> mlua::Result<LuaValue> {
    Ok(match value {
        Value::Null => LuaValue::Nil,
        Value::Bool(b) => LuaValue::Boolean(*b),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(n), _) => LuaValue::Integer(n),
            (None, n) => LuaValue::Number(n.unwrap_or_default()),
        },
        Value::String(text) => LuaValue::String(lua.create_string(text)?),
        Value::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            // A nil would end the list there.
            for (i, item) in items.iter().filter(|item| !item.is_null()).enumerate() {
                table.raw_set(i + 1, to_lua(lua, item)?)?;
            }
            LuaValue::Table(table)
        }
        Value::Object(map) => {
            let table = lua.create_table_with_capacity(0, map.len())?;
            for (key, value) in map {
                table.raw_set(key.as_str(), to_lua(lua, value)?)?;
            }
            LuaValue::Table(table)
        }
    })
}

/// Converts Lua to JSON; nil is `null`. An empty table at the top is `{}`.
///
/// # Errors
/// If it contains a value that JSON cannot express.
pub(crate) fn to_json(value: &LuaValue, empties: &Empties<'_>) -> Result<Value, String> {
    let mut reader = Reader { empties, path: String::new(), depth: 0, values: Cell::new(0), bytes: Cell::new(0) };
    Ok(reader.read(value)?.unwrap_or_else(|| Value::Object(Map::new())))
}

struct Reader<'a> {
    empties: &'a Empties<'a>,
    path: String,
    depth: usize,
    values: Cell<usize>,
    bytes: Cell<usize>,
}

impl Reader<'_> {
    fn place(&self) -> String {
        let path = self.path.replace(STEP, ".");
        if path.is_empty() { "the answer".to_owned() } else { format!("{path} of the answer") }
    }

    fn count(&self, bytes: usize) -> Result<(), String> {
        self.values.set(self.values.get() + 1);
        self.bytes.set(self.bytes.get() + bytes);
        if self.values.get() > VALUES_MAX {
            return Err(format!("the answer has more than {VALUES_MAX} values"));
        }
        if self.bytes.get() > ANSWER_BYTES_MAX {
            return Err(format!("the answer has more than {ANSWER_BYTES_MAX} bytes of text"));
        }
        Ok(())
    }

    fn text(&self, text: &mlua::LuaString) -> Result<String, String> {
        let text = String::from_utf8(text.as_bytes().to_vec()).map_err(|_| format!("{} is not UTF-8", self.place()))?;
        self.count(text.len())?;
        Ok(text)
    }

    /// `None` for an empty table that is omitted.
    fn read(&mut self, value: &LuaValue) -> Result<Option<Value>, String> {
        self.count(0)?;
        Ok(Some(match value {
            LuaValue::Nil => Value::Null,
            LuaValue::Boolean(b) => Value::Bool(*b),
            LuaValue::Integer(n) => Value::Number((*n).into()),
            LuaValue::Number(n) => self.number(*n)?,
            LuaValue::String(text) => Value::String(self.text(text)?),
            LuaValue::Table(table) => return self.table(table),
            other => return Err(format!("{} is a {}, which JSON cannot express", self.place(), other.type_name())),
        }))
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "only where nothing is lost")]
    fn number(&self, n: f64) -> Result<Value, String> {
        if n.fract() == 0.0 && n.abs() < i64::MAX as f64 {
            return Ok(Value::Number((n as i64).into()));
        }
        let number =
            Number::from_f64(n).ok_or_else(|| format!("{} is {n}, which JSON cannot express", self.place()))?;
        Ok(Value::Number(number))
    }

    fn table(&mut self, table: &Table) -> Result<Option<Value>, String> {
        if self.depth >= DEPTH_MAX {
            return Err(format!("{} nests deeper than {DEPTH_MAX}, or contains itself", self.place()));
        }
        self.depth += 1;
        let read = self.filled(table);
        self.depth -= 1;
        read
    }

    fn filled(&mut self, table: &Table) -> Result<Option<Value>, String> {
        let mut fields: Vec<(String, LuaValue)> = Vec::new();
        let mut listed: Vec<(i64, LuaValue)> = Vec::new();
        for pair in table.pairs::<LuaValue, LuaValue>() {
            let (key, value) = pair.map_err(|error| error.to_string())?;
            match key {
                LuaValue::String(key) => fields.push((self.text(&key)?, value)),
                LuaValue::Integer(index) => listed.push((index, value)),
                other => return Err(format!("{} has a key that is a {}", self.place(), other.type_name())),
            }
            self.count(0)?;
        }
        match (fields.is_empty(), listed.is_empty()) {
            (true, true) => Ok(self.empties.at(&self.path)),
            (false, false) => Err(format!("{} has both indexes and names as keys", self.place())),
            (true, false) => self.list(listed).map(Some),
            (false, true) => self.object(fields).map(Some),
        }
    }

    fn list(&mut self, mut listed: Vec<(i64, LuaValue)>) -> Result<Value, String> {
        listed.sort_by_key(|(index, _)| *index);
        let mut items = Vec::with_capacity(listed.len());
        for (i, (index, value)) in (1..).zip(&listed) {
            if i != *index {
                return Err(format!("{} is a list with a hole at {i}", self.place()));
            }
            // Omitting an item would move those after it, so that it becomes an object.
            items.push(self.read(value)?.unwrap_or_else(|| Value::Object(Map::new())));
        }
        Ok(Value::Array(items))
    }

    fn object(&mut self, fields: Vec<(String, LuaValue)>) -> Result<Value, String> {
        let mut map = Map::new();
        for (key, value) in fields {
            let length = self.path.len();
            self.path.push(STEP);
            self.path.push_str(&key);
            let read = self.read(&value)?;
            self.path.truncate(length);
            if let Some(value) = read {
                map.insert(key, value);
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(script: &str, references: &[&Value]) -> Result<Value, String> {
        let lua = Lua::new();
        let value: LuaValue = lua.load(script).eval().unwrap();
        to_json(&value, &Empties::of(references))
    }

    #[test]
    fn lua_tables_convert_to_json() {
        for (script, want) in [
            ("return {1, 2, 3}", Ok(json!([1, 2, 3]))),
            ("return {a = 1, b = 'x', c = true, d = 1.5}", Ok(json!({"a": 1, "b": "x", "c": true, "d": 1.5}))),
            ("return {a = 4 / 2, big = 2^40}", Ok(json!({"a": 2, "big": 1_099_511_627_776_i64}))),
            ("return {a = nil}", Ok(json!({}))),
            ("return {a = {b = {}}, c = 1}", Ok(json!({"c": 1, "a": {}}))),
            ("return {a = {{}, {x = 1}}}", Ok(json!({"a": [{}, {"x": 1}]}))),
            ("return nil", Ok(json!(null))),
            ("return {1, a = 2}", Err("the answer has both indexes and names as keys")),
            ("return {a = {[1] = 1, [3] = 3}}", Err(".a of the answer is a list with a hole at 2")),
            ("return {a = {[true] = 1}}", Err(".a of the answer has a key that is a boolean")),
            ("return {a = print}", Err(".a of the answer is a function, which JSON cannot express")),
            ("return {a = 0/0}", Err(".a of the answer is NaN, which JSON cannot express")),
            ("return '\\255'", Err("the answer is not UTF-8")),
            ("local t = {} t.t = t return t", Err("nests deeper than 100, or contains itself")),
            ("local t = {1} for _ = 1, 60 do t = {t, t} end return t", Err("more than 500000 values")),
        ] {
            match (result(script, &[]), want) {
                (Err(got), Err(want)) => assert!(got.contains(want), "{script}: {got}"),
                (got, want) => assert_eq!(got, want.map_err(str::to_owned), "{script}"),
            }
        }
    }

    #[test]
    fn empty_tables_keep_their_original_type() {
        let pod = json!({"spec": {"volumes": [{"name": "a", "emptyDir": {}}], "args": [], "both": []}});
        let member = json!({"spec": {"both": {}, "selector": {}}});
        let script =
            "return {spec = {volumes = {{name = 'a', emptyDir = {}}}, args = {}, both = {}, selector = {}, new = {}}}";
        assert_eq!(
            result(script, &[&pod, &member]),
            Ok(json!({"spec": {"volumes": [{"name": "a", "emptyDir": {}}], "args": [], "both": [], "selector": {}}}))
        );
    }

    #[test]
    fn json_round_trips_through_lua() {
        let lua = Lua::new();
        for value in [
            json!({"a": [1, 2, {"b": "c"}], "d": {"e": false, "f": 1.25}, "g": -7}),
            json!(["x", "y"]),
            json!({"quantity": 9_007_199_254_740_991_i64}),
        ] {
            let table = to_lua(&lua, &value).unwrap();
            assert_eq!(to_json(&table, &Empties::none()), Ok(value));
        }
        let holes = to_lua(&lua, &json!([1, null, 2])).unwrap();
        assert_eq!(to_json(&holes, &Empties::none()), Ok(json!([1, 2])), "a null leaves no hole");
    }
}
