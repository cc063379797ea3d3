//! Modules of a crate as its sources declare them, and the files that import one another.
//!
//! The reader is small on purpose: it knows `mod`, `use` with trees, aliases and globs, and paths that begin with
//! `crate`, `self`, `super` or a module. It does not know what macros expand to, nor calls of methods.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// Path of a module from the crate's root.
type ModulePath = Vec<String>;

/// First words of paths that do not depend on imports of the module.
const ROOTS: [&str; 3] = ["crate", "self", "super"];

/// Re-exports that are followed before a path counts as a circle of re-exports.
const DEPTH_MAX: usize = 16;

#[derive(Debug, Default)]
struct Module {
    file: PathBuf,
    /// Names that `use` imports, with their paths.
    imports: BTreeMap<String, Vec<String>>,
    /// Paths of glob imports.
    globs: Vec<Vec<String>>,
    items: BTreeSet<String>,
    /// Paths in the code, besides those of `use`.
    paths: BTreeSet<Vec<String>>,
    /// Names that only a `pub use` imports.
    exports: BTreeSet<String>,
}

/// Files that import one another: each with those that it uses.
pub(super) type Circle<'a> = BTreeMap<&'a Path, Vec<&'a Path>>;

#[derive(Debug, Default)]
pub(super) struct Modules(BTreeMap<ModulePath, Module>);

impl Modules {
    /// Reads the crate whose root is the file `root`; `source` gives the text of a file, if there is one.
    pub(super) fn read(root: &Path, source: &dyn Fn(&Path) -> Option<String>) -> Self {
        let mut modules = Self::default();
        let folder = root.parent().unwrap_or(Path::new("")).to_owned();
        modules.read_file(Vec::new(), root, &folder, source);
        modules
    }

    fn read_file(&mut self, path: ModulePath, file: &Path, folder: &Path, source: &dyn Fn(&Path) -> Option<String>) {
        let Some(text) = source(file) else { return };
        let tokens = tokens(&text);
        self.0.insert(path.clone(), Module { file: file.to_owned(), ..Module::default() });
        self.read_tokens(&path, file, folder, &tokens, source);
    }

    fn read_tokens(
        &mut self,
        path: &ModulePath,
        file: &Path,
        folder: &Path,
        tokens: &[String],
        source: &dyn Fn(&Path) -> Option<String>,
    ) {
        let mut at = 0;
        while at < tokens.len() {
            let token = &*tokens[at];
            let before = at.checked_sub(1).map_or("", |before| &*tokens[before]);
            let next = tokens.get(at + 1).map_or("", |next| &**next);
            let after = tokens.get(at + 2).map_or("", |after| &**after);
            match token {
                "mod" if is_for_tests(&tokens[..at]) => {
                    at = if after == "{" { end_of_block(tokens, at + 2) + 1 } else { at + 3 };
                }
                "mod" if after == ";" => {
                    let child = [path.as_slice(), &[next.to_owned()]].concat();
                    let inner = folder.join(next);
                    let flat = folder.join(format!("{next}.rs"));
                    let file = if source(&flat).is_some() { flat } else { inner.join("mod.rs") };
                    self.read_file(child, &file, &inner, source);
                    at += 3;
                }
                "mod" if after == "{" => {
                    let child = [path.as_slice(), &[next.to_owned()]].concat();
                    let end = end_of_block(tokens, at + 2);
                    self.0.insert(child.clone(), Module { file: file.to_owned(), ..Module::default() });
                    self.read_tokens(&child, file, &folder.join(next), &tokens[at + 3..end], source);
                    at = end + 1;
                }
                "use" => {
                    let end = (at..tokens.len()).find(|end| tokens[*end] == ";").unwrap_or(tokens.len());
                    let is_export = before == "pub" || before == ")";
                    let module = self.0.get_mut(path).expect("the module was inserted before its tokens are read");
                    import(module, &[], &tokens[at + 1..end], is_export);
                    at = end + 1;
                }
                "fn" | "struct" | "enum" | "trait" | "const" | "static" | "type" | "union" | "macro_rules" => {
                    let name = if next == "!" { after } else { next };
                    let module = self.0.get_mut(path).expect("the module was inserted before its tokens are read");
                    module.items.insert(name.to_owned());
                    at += 1;
                }
                _ if is_name(token) && before != "." && before != "::" => {
                    let mut named = vec![token.to_owned()];
                    let mut end = at + 1;
                    while tokens.get(end).is_some_and(|sign| sign == "::")
                        && tokens.get(end + 1).is_some_and(|name| is_name(name))
                    {
                        named.push(tokens[end + 1].clone());
                        end += 2;
                    }
                    // `crate` alone is a visibility.
                    if named.len() > 1 || !ROOTS.contains(&token) {
                        let module = self.0.get_mut(path).expect("the module was inserted before its tokens are read");
                        module.paths.insert(named);
                    }
                    at = end;
                }
                _ => at += 1,
            }
        }
    }

    /// For every file, the files of which it uses something, followed through re-exports. A module that calls into its
    /// own child by a relative path, `child::function()`, does not import it.
    fn edges(&self) -> BTreeMap<&Path, BTreeSet<&Path>> {
        let mut edges: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
        for (path, module) in &self.0 {
            let to = edges.entry(&module.file).or_default();
            let used = |name: &str| module.paths.iter().any(|named| named[0] == name);
            let imports = module.imports.iter().filter(|(name, _)| !module.exports.contains(*name) || used(name));
            let absolute = module.paths.iter().filter(|named| ROOTS.contains(&&*named[0]));
            let named = imports.map(|(_, import)| import).chain(absolute);
            to.extend(named.filter_map(|named| self.file_of(path, named, 0)));
            to.remove(&*module.file);
        }
        edges
    }

    /// Returns the file that declares `named` as seen from the module `from`; `None` if it is of another crate.
    fn file_of(&self, from: &ModulePath, named: &[String], depth: usize) -> Option<&Path> {
        if depth > DEPTH_MAX {
            return None;
        }
        let (mut at, mut rest): (ModulePath, &[String]) = match &*named[0] {
            "crate" => (Vec::new(), &named[1..]),
            "self" => (from.clone(), &named[1..]),
            "super" => {
                let ups = named.iter().take_while(|name| *name == "super").count();
                (from[..from.len().checked_sub(ups)?].to_vec(), &named[ups..])
            }
            _ => (from.clone(), named),
        };
        let is_relative = !ROOTS.contains(&&*named[0]);
        let mut first = true;
        while let Some((name, following)) = rest.split_first() {
            let child = [at.as_slice(), std::slice::from_ref(name)].concat();
            let module = self.0.get(&at)?;
            if self.0.contains_key(&child) {
                at = child;
                rest = following;
            } else if let Some(import) = module.imports.get(name) {
                return self.file_of(&at, &[import, following].concat(), depth + 1);
            } else if module.items.contains(name) {
                return Some(&module.file);
            } else {
                let globs = module.globs.iter();
                let mut found =
                    globs.filter_map(|glob| self.file_of(&at, &[glob.as_slice(), rest].concat(), depth + 1));
                let by_glob = found.next();
                // A path that begins with an unknown name leads out of the crate.
                return by_glob.or_else(|| (!(first && is_relative) && depth == 0).then_some(&*module.file));
            }
            first = false;
        }
        self.0.get(&at).map(|module| &*module.file)
    }

    /// The groups of files that import one another, the largest first; each file with those of the group that it uses.
    pub(super) fn circles(&self) -> Vec<Circle<'_>> {
        let edges = self.edges();
        let reached: BTreeMap<&Path, BTreeSet<&Path>> =
            edges.keys().map(|file| (*file, reachable(&edges, file))).collect();
        let mut circles: Vec<Circle<'_>> = Vec::new();
        for file in edges.keys() {
            let files: BTreeSet<&Path> =
                reached[file].iter().filter(|other| reached[*other].contains(file)).copied().collect();
            if files.len() > 1 && !circles.iter().any(|circle| circle.contains_key(file)) {
                let within = |file: &Path| edges[file].intersection(&files).copied().collect();
                circles.push(files.iter().map(|file| (*file, within(file))).collect());
            }
        }
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }
}

fn reachable<'a>(edges: &BTreeMap<&'a Path, BTreeSet<&'a Path>>, from: &Path) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&Path> = edges.get(from).into_iter().flatten().copied().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(edges.get(next).into_iter().flatten());
        }
    }
    reached
}

fn import(module: &mut Module, prefix: &[String], tree: &[String], is_export: bool) {
    let mut path = prefix.to_vec();
    let mut at = 0;
    while at < tree.len() {
        match &*tree[at] {
            "::" => {}
            "*" => {
                module.globs.push(path);
                return;
            }
            "{" => {
                let end = end_of_block(tree, at);
                let mut start = at + 1;
                let mut depth = 0;
                for here in at + 1..=end {
                    match &*tree[here] {
                        "{" => depth += 1,
                        "}" if here < end => depth -= 1,
                        _ => {}
                    }
                    if here == end || (depth == 0 && tree[here] == ",") {
                        import(module, &path, &tree[start..here], is_export);
                        start = here + 1;
                    }
                }
                return;
            }
            "as" => {
                add_import(module, tree.get(at + 1).cloned().unwrap_or_default(), path, is_export);
                return;
            }
            name => path.push(name.to_owned()),
        }
        at += 1;
    }
    if path.len() > 1 && path.last().is_some_and(|name| name == "self") {
        path.pop();
    }
    if let Some(name) = path.last().cloned().filter(|_| !tree.is_empty()) {
        add_import(module, name, path, is_export);
    }
}

fn add_import(module: &mut Module, name: String, path: Vec<String>, is_export: bool) {
    if is_export {
        module.exports.insert(name.clone());
    }
    module.imports.insert(name, path);
}

/// Returns `true` if the attribute before a module restricts it to tests.
fn is_for_tests(before: &[String]) -> bool {
    let end = before.iter().rposition(|token| token == "]").map_or(0, |end| end + 1);
    let between = before[end..].iter().all(|token| ["pub", "(", "crate", "super", ")"].contains(&&**token));
    between && before[..end].ends_with(&["[", "cfg", "(", "test", ")", "]"].map(str::to_owned))
}

fn end_of_block(tokens: &[String], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match &**token {
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    tokens.len().saturating_sub(1)
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names and signs of Rust code, without comments, strings, characters and lifetimes.
pub(super) fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        let next = chars.get(at + 1).copied().unwrap_or_default();
        if c == '/' && next == '/' {
            at += chars[at..].iter().position(|c| *c == '\n').unwrap_or(chars.len() - at);
        } else if c == '/' && next == '*' {
            let end = chars[at..].windows(2).position(|pair| pair == ['*', '/']);
            at += end.map_or(chars.len() - at, |end| end + 2);
        } else if c == '"' {
            at = end_of_string(&chars, at);
        } else if c == '\'' {
            // A lifetime has no closing quote after one character or escape.
            if next == '\\' {
                at += 3 + chars[at + 3..].iter().position(|c| *c == '\'').unwrap_or(0) + 1;
            } else if chars.get(at + 2) == Some(&'\'') {
                at += 3;
            } else {
                at += 1;
                while chars.get(at).is_some_and(|c| c.is_alphanumeric() || *c == '_') {
                    at += 1;
                }
            }
        } else if c.is_alphanumeric() || c == '_' {
            let start = at;
            while chars.get(at).is_some_and(|c| c.is_alphanumeric() || *c == '_') {
                at += 1;
            }
            let word: String = chars[start..at].iter().collect();
            let hashes = chars[at..].iter().take_while(|c| **c == '#').count();
            if ["r", "br", "cr"].contains(&&*word) && chars.get(at + hashes) == Some(&'"') {
                at = end_of_raw_string(&chars, at + hashes, hashes);
            } else if word == "r" && hashes == 1 {
                at += 1;
            } else if !(["b", "c"].contains(&&*word) && chars.get(at) == Some(&'"')) {
                tokens.push(word);
            }
        } else if c == ':' && next == ':' {
            tokens.push("::".to_owned());
            at += 2;
        } else {
            if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
            at += 1;
        }
    }
    tokens
}

fn end_of_string(chars: &[char], open: usize) -> usize {
    let mut at = open + 1;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

fn end_of_raw_string(chars: &[char], open: usize, hashes: usize) -> usize {
    let close: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let end = chars[open + 1..].windows(hashes + 1).position(|window| window == close);
    end.map_or(chars.len(), |end| open + 1 + end + close.len())
}
