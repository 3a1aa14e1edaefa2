//! Words that say little, and references to texts that are not in the repository.
//!
//! `words.txt` lists the files that still have such words and how many. Their sum may fall and never rise, so a file
//! may be moved; `cargo xtask docs` writes the counts that fell.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context as _;

use super::text::{self, File};
use crate::shell;

/// Words, and what to write instead. Compared as whole words, in lower case.
const WORDS: [(&str, &str); 8] = [
    ("told", "logged, sent, reported, notified"),
    ("tells of", "reports"),
    ("stands", "exists, stays, holds"),
    ("so many", "the number itself, or its limit"),
    ("nobody", "no one by role: no client, no other backend"),
    ("whose it is", "its owner"),
    ("is none", "does not exist, is unset (`there is none` is allowed)"),
    ("are none", "do not exist"),
];

/// Comments that say nothing, compared as a whole.
const EMPTY: [&str; 12] = [
    "Whose.",
    "What.",
    "Why.",
    "Which.",
    "Who.",
    "How.",
    "How many.",
    "For people.",
    "See the module.",
    "See the proto.",
    "See there.",
    "In words.",
];

const LIST: &str = "xtask/src/ci/words.txt";

pub fn check() -> anyhow::Result<()> {
    let allowed = allowed()?;
    let mut faults = Vec::new();
    let mut left = BTreeMap::new();
    for file in text::files()? {
        let found = find(&file);
        if found.len() > allowed.get(&file.path).copied().unwrap_or(0) {
            faults.extend(found.iter().map(|(line, fault)| format!("{}:{line}: {fault}", file.path)));
        }
        left.insert(file.path, found.len());
    }
    left.retain(|_, count| *count > 0);
    for (path, count) in &left {
        eprintln!("{count:>4}  {path}");
    }
    let (now, before) = (left.values().sum::<usize>(), allowed.values().sum::<usize>());
    anyhow::ensure!(now <= before, "{now} words, {before} are allowed:\n{}", faults.join("\n"));
    eprintln!("{now} words left in {} files; {before} are allowed (`cargo xtask docs` lowers that)", left.len());
    Ok(())
}

/// Lowers the allowed counts to the present ones. `raise` also raises them, for files that were moved.
pub fn write(raise: bool) -> anyhow::Result<()> {
    let allowed = allowed()?;
    let mut text = String::from("# Words that are left in each file, see words.rs. Written by `cargo xtask docs`.\n");
    for file in text::files()? {
        let most = if raise { usize::MAX } else { allowed.get(&file.path).copied().unwrap_or(0) };
        let count = find(&file).len().min(most);
        if count > 0 {
            writeln!(text, "{count} {}", file.path)?;
        }
    }
    std::fs::write(shell::root().join(LIST), text).context(LIST)
}

fn allowed() -> anyhow::Result<BTreeMap<String, usize>> {
    let text = std::fs::read_to_string(shell::root().join(LIST)).context(LIST)?;
    let mut allowed = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (count, path) = line.split_once(' ').with_context(|| format!("{LIST}: {line:?}"))?;
        allowed.insert(path.to_owned(), count.parse().with_context(|| format!("{LIST}: {line:?}"))?);
    }
    Ok(allowed)
}

/// Returns each fault with its line.
fn find(file: &File) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, prose) in file.prose() {
        let text = prose.trim();
        if EMPTY.contains(&text) {
            found.push((line, format!("{text:?} says nothing: say what it means, its unit, its default")));
        }
        let lower = format!(" {} ", prose.to_lowercase());
        for (word, instead) in WORDS {
            let times = times(&lower, word);
            found.extend((0..times).map(|_| (line, format!("{word:?}: write {instead}"))));
        }
        found.extend(into_nothing(&prose).map(|reference| {
            (line, format!("{reference:?} is not in this repository: state the fact, or link docs/design.md#rule-N"))
        }));
    }
    found
}

/// Returns how often `word` occurs as a whole word in `text`, apart from usual phrases. `text` begins and ends with a
/// space.
fn times(text: &str, word: &str) -> usize {
    let own = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
    text.match_indices(word)
        .filter(|(at, _)| {
            let (before, after) = (&text[..*at], &text[at + word.len()..]);
            let usual = match word {
                "stands" => [" for", " aside", " out", " between"].iter().any(|next| after.starts_with(next)),
                "is none" | "are none" => before.trim_end().ends_with("there"),
                _ => false,
            };
            own(before.chars().next_back()) && own(after.chars().next()) && !usual
        })
        .count()
}

/// Returns references to texts that are not in the repository.
fn into_nothing(prose: &str) -> impl Iterator<Item = String> {
    let words: Vec<&str> = prose.split_whitespace().map(|word| word.trim_start_matches(['(', '`', '"'])).collect();
    let number = |word: Option<&&str>| word.is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let numbered =
            matches!(*word, "seed" | "Seed" | "seeds" | "scenario" | "Scenario") && number(words.get(at + 1));
        let contract = word.strip_prefix("DESIGN").is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
        if numbered || contract || word.starts_with("research/") {
            found.push((*word).to_owned());
        }
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        find(&file).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn words_are_found_in_prose_only() {
        let text = "// Nobody was told.\nlet told = nobody();\n/// foretold, untold_\nlog!(\"the agent is told\");\n";
        assert_eq!(found("a.rs", text), [1, 1, 4]);
    }

    #[test]
    fn usual_phrases_are_allowed() {
        assert_eq!(found("a.md", "It stands for a Service.\nIt stands.\nThere is none.\nIt is none.\n"), [2, 4]);
    }

    #[test]
    fn a_comment_of_one_word_says_nothing() {
        assert_eq!(found("a.rs", "/// Whose.\n/// Whose turn it is.\n"), [1]);
    }

    #[test]
    fn references_into_nothing() {
        let text = "As DESIGN 2 says.\n(DESIGN, rule 5)\nresearch/a.md\nseed 000\nscenario 24\n`--seed 17`\nseed of a run\nREDESIGN\n";
        assert_eq!(found("a.md", text), [1, 2, 3, 4, 5]);
    }
}
