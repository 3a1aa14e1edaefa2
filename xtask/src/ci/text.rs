//! Extracts the prose of tracked and new files: comments, string literals, Markdown.

use std::path::PathBuf;

use anyhow::Context as _;

use crate::shell;

/// A text file of the repository.
pub struct File {
    /// Relative to the repository's root, with `/`.
    pub path: String,
    pub text: String,
}

/// Files that are generated, third-party, or compared byte by byte. Those of xtask contain the words they look for.
const LEFT_OUT: [&str; 9] = [
    "LICENSE",
    "Cargo.lock",
    "docs/benchmarks/results.md",
    "tests/fuzz/corpus/",
    "tests/openstack/recorded/",
    "tests/assets/go.sum",
    "xtask/src/ci/links.rs",
    "xtask/src/ci/words.rs",
    "xtask/src/ci/words.txt",
];

/// Returns every tracked or new file that is written by hand.
pub fn files() -> anyhow::Result<Vec<File>> {
    let mut git = shell::command("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let root = shell::root();
    let mut files = Vec::new();
    for path in shell::output(git)?.lines() {
        let file: PathBuf = root.join(path);
        if LEFT_OUT.iter().any(|out| path.starts_with(out)) || Syntax::of(path).is_none() || !file.is_file() {
            continue;
        }
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {path}"))?;
        files.push(File { path: path.to_owned(), text });
    }
    Ok(files)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Syntax {
    /// `//` comments and strings in double quotes: Rust, Protocol Buffers, Go.
    Slashes,
    /// `#` comments: YAML, TOML, shell, Python, configuration files.
    Hash,
    /// Everything outside of fenced code.
    Markdown,
}

impl Syntax {
    fn of(path: &str) -> Option<Self> {
        match path.rsplit_once('.')?.1 {
            "rs" | "proto" | "go" => Some(Self::Slashes),
            "yaml" | "yml" | "toml" | "sh" | "py" | "conf" => Some(Self::Hash),
            "md" => Some(Self::Markdown),
            _ => None,
        }
    }
}

impl File {
    pub fn is_markdown(&self) -> bool {
        Syntax::of(&self.path) == Some(Syntax::Markdown)
    }

    /// Returns the prose of each line that has some, with the line's number.
    pub fn prose(&self) -> Vec<(usize, String)> {
        let lines = match Syntax::of(&self.path) {
            Some(Syntax::Slashes) => slashes(&self.text),
            Some(Syntax::Hash) => self.text.lines().map(hash).collect(),
            Some(Syntax::Markdown) => outside_fences(&self.text),
            None => Vec::new(),
        };
        let numbered = lines.into_iter().enumerate().map(|(at, prose)| (at + 1, prose));
        numbered.filter(|(_, prose)| !prose.trim().is_empty()).collect()
    }
}

/// Returns the lines of Markdown; those of fenced code are empty.
pub fn outside_fences(text: &str) -> Vec<String> {
    let mut fenced = false;
    let prose = |line: &str| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if fenced || fence { String::new() } else { line.to_owned() }
    };
    text.lines().map(prose).collect()
}

fn hash(line: &str) -> String {
    line.split_once('#').map_or_else(String::new, |(_, comment)| comment.to_owned())
}

/// Returns comments and text between double quotes, also over several lines. Raw strings end at their first quote.
fn slashes(text: &str) -> Vec<String> {
    let mut quoted = false;
    let prose = |line: &str| {
        let mut found = String::new();
        let mut rest = line.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                // An escaped line break or tab ends a word.
                '\\' if quoted => found.extend(rest.next().map(|c| if matches!(c, 'n' | 't' | 'r') { ' ' } else { c })),
                '"' => {
                    quoted = !quoted;
                    found.push(' ');
                }
                _ if quoted => found.push(c),
                // A quote as a character literal.
                '\'' if rest.peek() == Some(&'"') => {
                    rest.next();
                }
                '/' if rest.peek() == Some(&'/') => {
                    found.extend(rest.skip_while(|c| matches!(c, '/' | '!')));
                    return found;
                }
                _ => {}
            }
        }
        found
    };
    text.lines().map(prose).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prose(path: &str, text: &str) -> Vec<(usize, String)> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        file.prose().into_iter().map(|(line, prose)| (line, prose.trim().to_owned())).collect()
    }

    #[test]
    fn code_is_no_prose() {
        let text = "let told = \"a \\\"b\"; // c\n/// d\nlet x = '\"';\nlet y = \"e \\\n  f\";\nlet told = 1;\n";
        let expected = [(1, "a \"b  c"), (2, "d"), (4, "e"), (5, "f")];
        assert_eq!(prose("a.rs", text), expected.map(|(line, prose)| (line, prose.to_owned())));
    }

    #[test]
    fn fenced_code_is_no_prose() {
        assert_eq!(prose("a.md", "a\n```sh\nb\n```\nc\n"), [(1, "a".to_owned()), (5, "c".to_owned())]);
    }

    #[test]
    fn comments_of_yaml() {
        assert_eq!(prose("a.yaml", "a: b # c\nd: e\n"), [(1, "c".to_owned())]);
    }
}
