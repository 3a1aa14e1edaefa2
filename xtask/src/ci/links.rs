//! Checks the targets of links, in Markdown and from comments to `docs/`, the files and tests that Markdown names, and
//! the length of Markdown's lines.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::text::{self, File};
use crate::shell;

/// Limit of columns in a line of prose.
const COLUMNS: usize = 140;

pub fn check() -> anyhow::Result<()> {
    let files = text::files()?;
    let anchors = pages(&files);
    let root = shell::root();
    let there = |path: &str| root.join(path).exists();
    let tree = Tree { files: &files, there: &there };
    let mut faults = Vec::new();
    for file in &files {
        faults.extend(dead(file, &anchors, &there));
        if file.is_markdown() {
            faults.extend(long(file));
            faults.extend(missing(file, &tree));
        }
    }
    anyhow::ensure!(faults.is_empty(), "{}", faults.join("\n"));
    eprintln!("{} pages", anchors.len());
    Ok(())
}

/// Returns the anchors of every page.
pub fn pages(files: &[File]) -> BTreeMap<&str, BTreeSet<String>> {
    files.iter().filter(|file| file.is_markdown()).map(|file| (&*file.path, anchors(&file.text))).collect()
}

/// Returns the dead links of a file: in Markdown all relative ones, elsewhere those to `docs/`.
fn dead(file: &File, anchors: &BTreeMap<&str, BTreeSet<String>>, there: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut faults = Vec::new();
    for (line, prose) in file.prose() {
        let links = if file.is_markdown() { relative(&prose) } else { cited(&prose) };
        for link in links {
            let (path, anchor) = link.split_once('#').map_or((&*link, None), |(path, anchor)| (path, Some(anchor)));
            let base = if file.is_markdown() { Path::new(&file.path).parent() } else { None };
            let target = match path {
                "" => file.path.clone(),
                path => join(base.unwrap_or_else(|| Path::new("")), path),
            };
            let known = anchor.is_none_or(|anchor| anchors.get(&*target).is_none_or(|known| known.contains(anchor)));
            if !there(&target) {
                faults.push(format!("{}:{line}: {link}: there is no {target}", file.path));
            } else if !known {
                faults.push(format!("{}:{line}: {link}: {target} has no such anchor", file.path));
            }
        }
    }
    faults
}

/// What Markdown may name.
struct Tree<'a> {
    files: &'a [File],
    there: &'a dyn Fn(&str) -> bool,
}

/// Folders at the root. Inline code that begins with one of them is a path.
const ROOTS: [&str; 8] = ["crates/", "services/", "tests/", "xtask/", "proto/", "docs/", "deploy/", ".github/"];

impl Tree<'_> {
    /// Returns whether a path, as a page names it, leads somewhere: a path from the root; or the end of the path of a
    /// Rust file, and after `::` a function in it.
    fn has(&self, path: &str) -> bool {
        let path = path.split('#').next().unwrap_or(path);
        let (path, function) = path.split_once("::").map_or((path, None), |(path, function)| (path, Some(function)));
        let ends = |file: &&File| file.path == path || file.path.ends_with(&format!("/{path}"));
        let declares = |file: &File, name: &str| file.text.contains(&format!("fn {name}("));
        match function {
            Some(name) => self.files.iter().filter(ends).any(|file| declares(file, name)),
            // Anchors are checked where a page is linked.
            None if ROOTS.iter().any(|root| path.starts_with(root)) => (self.there)(path),
            None => self.files.iter().any(|file| ends(&file)),
        }
    }
}

/// Returns the paths in inline code that lead nowhere.
fn missing(file: &File, tree: &Tree<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    for (line, prose) in file.prose() {
        for path in prose.split('`').skip(1).step_by(2).flat_map(paths).filter(|path| !tree.has(path)) {
            faults.push(format!("{}:{line}: `{path}` does not exist", file.path));
        }
    }
    faults
}

/// Returns the paths that inline code names: one, or several as in `src/{a,b}.rs`; none if it is no path.
fn paths(code: &str) -> Vec<String> {
    let is_path = ROOTS.iter().any(|root| code.starts_with(root)) || code.contains(".rs");
    if !is_path || code.contains(|c: char| c.is_whitespace() || matches!(c, '*' | '<' | '$' | '=' | '(')) {
        return Vec::new();
    }
    match code.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?))) {
        Some((head, (names, tail))) => names.split(',').map(|name| format!("{head}{name}{tail}")).collect(),
        None => vec![code.to_owned()],
    }
}

/// Returns the targets of Markdown links that are not URLs, outside of inline code.
fn relative(prose: &str) -> Vec<String> {
    let text: String = prose.split('`').step_by(2).collect();
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains(':') && !target.is_empty()).map(str::to_owned).collect()
}

/// Returns the pages of `docs/` that a comment cites.
fn cited(prose: &str) -> Vec<String> {
    let end = |c: char| c.is_whitespace() || matches!(c, ')' | '`' | ',' | ';' | ']' | '\'');
    let named = prose
        .match_indices("docs/")
        .filter(|(at, _)| !prose[..*at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_')));
    let words = named.filter_map(|(at, _)| prose[at..].split(end).next());
    let pages = words.map(|word| word.trim_end_matches(['.', ':'])).filter(|word| word.contains(".md"));
    pages.map(str::to_owned).collect()
}

/// Returns the anchors of a page: its headings as GitHub names them, and explicit ones.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in text::outside_fences(text) {
        if let Some(heading) = line.strip_prefix('#') {
            anchors.insert(slug(heading.trim_start_matches('#').trim()));
        }
        let ids = line.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next());
        anchors.extend(ids.map(str::to_owned));
    }
    anchors
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn join(base: &Path, path: &str) -> String {
    let mut joined = PathBuf::new();
    for part in base.join(path).components() {
        match part {
            Component::ParentDir => drop(joined.pop()),
            Component::CurDir => {}
            part => joined.push(part),
        }
    }
    joined.to_string_lossy().into_owned()
}

/// Returns lines of prose that are too long for a readable diff. Tables and links cannot be broken.
fn long(file: &File) -> Vec<String> {
    let too_long = |(_, prose): &(usize, String)| {
        let breakable = prose.trim_start().split(' ').count() > 2 && !prose.trim_start().starts_with('|');
        breakable && prose.chars().count() > COLUMNS
    };
    let lines = file.prose().into_iter().filter(too_long);
    lines.map(|(line, _)| format!("{}:{line}: more than {COLUMNS} columns", file.path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        let page = "## One thing\n<a id=\"rule-4\"></a>\n";
        let anchors = BTreeMap::from([("docs/page.md", anchors(page))]);
        let there = |path: &str| ["docs/page.md", "README.md"].contains(&path);
        dead(&File { path: path.to_owned(), text: text.to_owned() }, &anchors, &there)
    }

    #[test]
    fn links_that_lead_somewhere() {
        let text = "[a](page.md) [b](../README.md) [c](page.md#rule-4) [d](page.md#one-thing) [e](https://example.org/x.md) `[f](g)`";
        assert_eq!(faults("docs/other.md", text), Vec::<String>::new());
        assert_eq!(faults("a.rs", "// See docs/page.md#rule-4, and docs/page.md.\nlet x = 1;\n"), Vec::<String>::new());
        assert_eq!(faults("a.rs", "let x = \"see docs/page.md.\\n\";\n"), Vec::<String>::new());
    }

    #[test]
    fn links_that_lead_nowhere() {
        assert_eq!(faults("docs/other.md", "[a](gone.md)\n[b](page.md#rule-5)\n[c](../page.md)\n").len(), 3);
        assert_eq!(faults("a.rs", "// docs/page.md#rule-5 says why, docs/gone.md too\n").len(), 2);
    }

    #[test]
    fn tables_may_be_long_and_prose_may_not() {
        let words = "word ".repeat(40);
        let text = format!("{words}\n| {words} |\n```\n{words}\n```\n");
        assert_eq!(long(&File { path: "a.md".to_owned(), text }), ["a.md:1: more than 140 columns"]);
    }

    #[test]
    fn files_and_tests_that_are_named_exist() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = [file("crates/a/src/b.rs", "fn it_works() {}"), file("crates/a/src/c.rs", "")];
        let there = |path: &str| path == "crates/a" || files.iter().any(|file| file.path == path);
        let tree = Tree { files: &files, there: &there };
        let page = "`crates/a`, `crates/a/src/{b,c}.rs`, `src/b.rs::it_works`, `b.rs`, `crates/*/src`, `cargo test b.rs`\n\
            `crates/b`, `crates/a/src/{b,d}.rs`, `src/b.rs::it_fails`, `d.rs`\n";
        let found = missing(&file("p.md", page), &tree);
        let expected = ["crates/b", "crates/a/src/d.rs", "src/b.rs::it_fails", "d.rs"];
        assert_eq!(found, expected.map(|path| format!("p.md:2: `{path}` does not exist")));
    }
}
