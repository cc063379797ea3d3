//! Fields of our kinds that no code reads: each is in a list with a reason, and admission warns of it
//! (specification/admission.md 1.5).
//!
//! A field counts as read where code outside of `api` and of the validation accesses it: `.field`, neither assigned nor
//! called. A name of one word, or of several types, is common, so the file must also name the type, a type that
//! contains it, or the field that holds it. A field that only a pattern destructures counts as unread. Fields of
//! `status` are not walked: controllers write them for people.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::tokens;

/// Crates whose code does not act: types, and tests.
const NOT_ACTING: [&str; 4] = ["crates/api/", "crates/reference/", "crates/testkit/", "crates/xtask/"];

/// File of the API whose methods act: connections to members are made with them.
const ACTING: &str = "crates/api/src/cluster.rs";

/// Validation refuses and warns; it does not act.
const VALIDATION: &str = "crates/admission/src/kinds/";

/// The bindings' first version: admission converts it before anything reads it.
const CONVERTED: &str = "crates/api/src/work/legacy.rs";

/// A field of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    name: String,
    /// Name on the wire; empty for a field whose members are those of its parent.
    wire: String,
    /// Words of its type that begin with a capital letter.
    types: Vec<String>,
}

/// A type by its file and its name.
type TypeName = (String, String);

/// The types of `api` with their fields, and its kinds.
#[derive(Debug, Default)]
struct Types {
    fields: BTreeMap<TypeName, Vec<Field>>,
    kinds: Vec<TypeName>,
}

/// A field of a kind by its path.
type Place = (String, String);

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |out, word| {
        let (initial, rest) = word.split_at(word.len().min(1));
        format!("{out}{}{rest}", initial.to_uppercase())
    })
}

/// Words of a type that may name a type of ours.
fn type_words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| word.starts_with(|c: char| c.is_uppercase())).map(str::to_owned).collect()
}

impl Types {
    /// Reads the types of files that rustfmt formatted.
    fn read(texts: &[(String, String)]) -> Self {
        let mut types = Self::default();
        for (file, text) in texts.iter().filter(|(file, _)| file.starts_with("crates/api/src/") && file != CONVERTED) {
            types.read_structs(file, text);
            types.read_kinds(file, text);
        }
        types
    }

    fn read_structs(&mut self, file: &str, text: &str) {
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(name) = line.strip_prefix("pub struct ").and_then(|rest| rest.strip_suffix(" {")) else {
                continue;
            };
            let name = name.split('<').next().unwrap_or(name);
            let (mut fields, mut attributes, mut declaration) = (Vec::new(), String::new(), String::new());
            for line in lines.by_ref().take_while(|line| *line != "}").map(str::trim) {
                if declaration.is_empty() && !line.starts_with("pub ") {
                    attributes.push_str(line);
                    continue;
                }
                declaration.push_str(line);
                if !line.ends_with(',') {
                    continue;
                }
                if let Some((name, ty)) = declaration.trim_start_matches("pub ").split_once(':') {
                    let name = name.trim_start_matches("r#").to_owned();
                    let renamed = attributes.split("rename = \"").nth(1).and_then(|rest| rest.split('"').next());
                    let wire = match attributes.contains("(flatten)") {
                        true => String::new(),
                        false => renamed.map_or_else(|| camel_case(&name), str::to_owned),
                    };
                    fields.push(Field { name, wire, types: type_words(ty) });
                }
                attributes.clear();
                declaration.clear();
            }
            self.fields.insert((file.to_owned(), name.to_owned()), fields);
        }
    }

    /// Reads `kind! { … Name: "group", … { a: A; b: B } }`.
    fn read_kinds(&mut self, file: &str, text: &str) {
        for body in text.split("\nkind! {").skip(1) {
            let mut lines = body.lines().map(str::trim).filter(|line| !line.starts_with('/') && !line.is_empty());
            let (Some(head), Some(members)) = (lines.next(), lines.next()) else { continue };
            let Some((kind, _)) = head.split_once(':') else { continue };
            let members = members.trim_matches(['{', '}']).split([';', ',']).filter_map(|m| m.split_once(':'));
            let fields = members.map(|(name, ty)| {
                let name = name.trim().to_owned();
                Field { wire: camel_case(&name), name, types: type_words(ty) }
            });
            let kind = (file.to_owned(), kind.to_owned());
            self.fields.insert(kind.clone(), fields.collect());
            self.kinds.push(kind);
        }
    }

    /// The type that a word names in a file: one of the same file, or the only one of that name.
    fn resolve(&self, file: &str, word: &str) -> Option<&TypeName> {
        let own = self.fields.get_key_value(&(file.to_owned(), word.to_owned()));
        own.or_else(|| self.fields.iter().find(|((_, name), _)| name == word)).map(|(name, _)| name)
    }

    /// For each type, the names that tell that a file is about it: its own, and those of what holds it.
    fn names(&self) -> BTreeMap<&TypeName, BTreeSet<&str>> {
        let mut names: BTreeMap<&TypeName, BTreeSet<&str>> = BTreeMap::new();
        for (name, fields) in &self.fields {
            names.entry(name).or_default().insert(&name.1);
            for field in fields {
                for held in field.types.iter().filter_map(|word| self.resolve(&name.0, word)) {
                    let of_held = names.entry(held).or_default();
                    of_held.insert(&name.1);
                    if field.name != "spec" {
                        of_held.insert(&field.name);
                    }
                }
            }
        }
        names
    }

    /// Every field of the kind, with the places where it occurs.
    fn walk<'a>(&'a self, kind: &'a TypeName) -> Vec<(&'a TypeName, &'a Field, String)> {
        let mut found = Vec::new();
        let mut open = vec![(kind, String::new(), vec![kind])];
        while let Some((name, path, above)) = open.pop() {
            for field in self.fields.get(name).into_iter().flatten() {
                if path.is_empty() && ["metadata", "status"].contains(&&*field.name) {
                    continue;
                }
                let at = format!("{path}.{}", field.wire).trim_matches('.').to_owned();
                let inner = field.types.iter().filter_map(|word| self.resolve(&name.0, word));
                for inner in inner.filter(|inner| !above.contains(inner)) {
                    open.push((inner, at.clone(), [above.as_slice(), &[inner]].concat()));
                }
                found.push((name, field, at));
            }
        }
        found
    }
}

/// Names of fields that a file accesses without assigning or calling them, and all words of it.
fn accesses(text: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let tokens = tokens(text);
    let token = |at: usize| tokens.get(at).map_or("", |token| &**token);
    let accessed = (1..tokens.len()).filter(|at| {
        let is_assigned = token(at + 1) == "=" && token(at + 2) != "=";
        token(at - 1) == "." && token(at + 1) != "(" && !is_assigned
    });
    (accessed.map(|at| tokens[at].clone()).collect(), tokens.iter().cloned().collect())
}

fn is_acting(path: &str) -> bool {
    let is_test = path.contains("/tests/") || path.ends_with("tests.rs") || path.ends_with("/testkit.rs");
    path.starts_with("crates/")
        && path.ends_with(".rs")
        && path.contains("/src/")
        && !is_test
        && !path.starts_with(VALIDATION)
        && (path == ACTING || !NOT_ACTING.iter().any(|folder| path.starts_with(folder)))
}

/// Fields that nobody reads, without those below another one.
fn unread(texts: &[(String, String)]) -> BTreeSet<Place> {
    let types = Types::read(texts);
    let names = types.names();
    let holders = |field: &Field| types.fields.values().flatten().filter(|other| other.name == field.name).count();
    let readers: Vec<_> = texts.iter().filter(|(path, _)| is_acting(path)).map(|(_, text)| accesses(text)).collect();
    let is_read = |name: &TypeName, field: &Field| {
        readers.iter().any(|(accessed, words)| {
            accessed.contains(&field.name)
                && (field.name.contains('_') && holders(field) == 1
                    || names[name].iter().any(|name| words.contains(*name)))
        })
    };
    let mut found = BTreeSet::new();
    for kind in &types.kinds {
        let mut places: Vec<String> = types
            .walk(kind)
            .into_iter()
            .filter(|(name, field, _)| !is_read(name, field))
            .map(|(_, _, place)| place)
            .collect();
        places.sort();
        let all = places.clone();
        places.retain(|place| !all.iter().any(|above| place.starts_with(&format!("{above}."))));
        found.extend(places.into_iter().map(|place| (kind.1.clone(), place)));
    }
    found
}

/// The list of admission: places with their class.
fn listed(list: &str) -> BTreeMap<Place, &str> {
    let rows = list.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut columns = line.split(" | ");
        Some((columns.next()?, columns.next()?, columns.next()?))
    });
    rows.flat_map(|(kinds, path, class)| kinds.split(", ").map(move |kind| ((kind.to_owned(), path.to_owned()), class)))
        .collect()
}

/// Differences between the fields that nobody reads and the list.
fn mistakes(texts: &[(String, String)], list: &str) -> Vec<String> {
    let (unread, listed) = (unread(texts), listed(list));
    let whole = |kind: &str| listed.contains_key(&(kind.to_owned(), "*".to_owned()));
    let mut out = Vec::new();
    for place in unread.iter().filter(|place| !whole(&place.0) && !listed.contains_key(*place)) {
        out.push(format!("{} {}: nobody reads it: read it, or add it to the list with a reason", place.0, place.1));
    }
    let types = Types::read(texts);
    for (place, class) in listed.iter().filter(|(place, _)| place.1 != "*") {
        let kind = types.kinds.iter().find(|kind| kind.1 == place.0);
        let exists = kind.is_some_and(|kind| types.walk(kind).iter().any(|(_, _, at)| *at == place.1));
        if !exists {
            out.push(format!("{} {}: the list names it, and no such field exists", place.0, place.1));
        } else if ["unread", "implied"].contains(class) && !unread.contains(place) {
            out.push(format!("{} {}: the list says that nobody reads it, and somebody does", place.0, place.1));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cargo, guard::sources};

    #[test]
    fn every_field_is_read_or_listed() {
        let root = cargo::workspace_root();
        let texts = sources::texts(&root);
        let texts: Vec<(String, String)> =
            texts.into_iter().map(|(path, text)| (path.to_string_lossy().into_owned(), text)).collect();
        let types = Types::read(&texts);
        assert!(types.kinds.len() > 18, "only {} kinds were found", types.kinds.len());
        let fields: usize = types.kinds.iter().map(|kind| types.walk(kind).len()).sum();
        assert!(fields > 400, "only {fields} fields were walked");
        let list = std::fs::read_to_string(root.join("crates/admission/data/without-effect.txt")).unwrap();
        let wrong = mistakes(&texts, &list);
        assert!(wrong.is_empty(), "crates/admission/data/without-effect.txt:\n{}\n", wrong.join("\n"));
    }

    /// Mistakes of a tree with one kind, this code and this list.
    fn tree(code: &str, list: &str) -> Vec<String> {
        let api = "
kind! {
    /// A cat.
    Cat: \"pets\", \"v1\", \"cats\", Namespaced
    { spec: CatSpec; status: CatStatus }
}

/// Spec of a cat.
pub struct CatSpec {
    /// Its fur.
    pub fur: Fur,
    #[serde(rename = \"lifeURL\", default)]
    pub life_url: Option<String>,
}

pub struct Fur {
    pub length: i32,
    pub colours: Vec<Colour>,
}

pub struct Colour {
    pub name: String,
}

pub struct CatStatus {
    pub mood: String,
}
";
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        mistakes(&[file("crates/api/src/cat.rs", api), file("crates/a/src/lib.rs", code)], list)
    }

    #[test]
    fn fields_that_nobody_reads_are_found() {
        let all = "fn f(cat: &Cat) { cat.spec.fur.length; cat.spec.life_url; cat.spec.fur.colours[0].name; }";
        let missing =
            |place: &str| format!("Cat {place}: nobody reads it: read it, or add it to the list with a reason");
        let stale = |place: &str| format!("Cat {place}: the list says that nobody reads it, and somebody does");
        for (name, code, list, want) in [
            ("all are read", all.to_owned(), "", vec![]),
            ("a planted field", all.replace("cat.spec.life_url;", ""), "", vec![missing("spec.lifeURL")]),
            (
                "one that is only written",
                all.replace("cat.spec.life_url;", "cat.spec.life_url = None;"),
                "",
                vec![missing("spec.lifeURL")],
            ),
            ("compared", all.replace("cat.spec.life_url;", "cat.spec.life_url == None;"), "", vec![]),
            (
                "a method of the same name",
                all.replace("cat.spec.life_url;", "cat.life_url();"),
                "",
                vec![missing("spec.lifeURL")],
            ),
            (
                "in a comment",
                all.replace("cat.spec.life_url;", "// cat.spec.life_url\n"),
                "",
                vec![missing("spec.lifeURL")],
            ),
            (
                "the same words in a file about something else",
                "fn f(dog: &Dog) { dog.length; dog.spec.life_url; dog.name }".to_owned(),
                "",
                vec![missing("spec")],
            ),
            ("listed", all.replace("cat.spec.life_url;", ""), "Cat | spec.lifeURL | unread | it is long", vec![]),
            (
                "listed and read",
                all.to_owned(),
                "Cat | spec.lifeURL | unread | it is long",
                vec![stale("spec.lifeURL")],
            ),
            ("copied", all.to_owned(), "Cat | spec.lifeURL | copied | it is long", vec![]),
            ("the whole kind", String::new(), "Cat | * | unread | no cats", vec![]),
            (
                "a field that does not exist",
                all.to_owned(),
                "Cat | spec.tail | copied | it is long",
                vec!["Cat spec.tail: the list names it, and no such field exists".to_owned()],
            ),
        ] {
            assert_eq!(tree(&code, list), want, "{name}");
        }
    }
}
