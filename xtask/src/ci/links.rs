//! Checks the targets of links, in Markdown and from comments to `docs/`, and the length of Markdown's lines.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::text::{self, File};
use crate::shell;

/// Limit of columns in a line of prose.
const COLUMNS: usize = 140;

pub fn check() -> anyhow::Result<()> {
    let files = text::files()?;
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        files.iter().filter(|file| file.is_markdown()).map(|file| (&*file.path, anchors(&file.text))).collect();
    let root = shell::root();
    let there = |path: &str| root.join(path).exists();
    let mut faults = Vec::new();
    for file in &files {
        faults.extend(dead(file, &anchors, &there));
        if file.is_markdown() {
            faults.extend(long(file));
        }
    }
    anyhow::ensure!(faults.is_empty(), "{}", faults.join("\n"));
    eprintln!("{} pages", anchors.len());
    Ok(())
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
}
