//! Prints an error and its causes on one line, for logs and for messages that are part of another error.

use std::error::Error;

/// Most characters that [`first_line`] keeps of a line. A proxy can answer with a page of HTML on one line.
const MAX_CHARS: usize = 300;

/// Returns an error and its causes on one line, separated by colons. Causes whose text is already there are left out,
/// since many errors repeat their cause in their own message.
#[must_use]
pub fn one_line(error: &(dyn Error + 'static)) -> String {
    let mut line = String::new();
    append_causes(&mut line, error);
    line
}

/// Appends `error` and its causes to a message, in the way of [`one_line`].
pub fn append_causes(line: &mut String, error: &(dyn Error + 'static)) {
    let mut next = Some(error);
    while let Some(error) = next {
        let text = first_line(&error.to_string());
        if !line.contains(&text) {
            if !line.is_empty() {
                line.push_str(": ");
            }
            line.push_str(&text);
        }
        next = error.source();
    }
}

/// Returns the first line of a text, without surrounding white space and without a link to the documentation of a Rust
/// library at its end, as rustls adds. A line of more than 300 characters is cut, and ends with `...`.
#[must_use]
pub fn first_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default().trim_end();
    let line = line.split_once(": https://docs.rs/").map_or(line, |(text, _)| text);
    match line.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    fn alert() -> Layer {
        let alert = Layer { text: "received fatal alert", source: None };
        let io = Layer { text: "connection error: received fatal alert\nin detail", source: Some(Box::new(alert)) };
        Layer { text: "transport error", source: Some(Box::new(io)) }
    }

    #[test]
    fn causes_are_on_one_line_without_repetition() {
        assert_eq!(one_line(&alert()), "transport error: connection error: received fatal alert");
        let mut line = "call failed".to_owned();
        append_causes(&mut line, &alert());
        assert_eq!(line, "call failed: transport error: connection error: received fatal alert");
    }

    #[test]
    fn first_lines_are_trimmed_and_cut() {
        for (text, expected) in [
            ("", ""),
            ("\n a \nb", "a"),
            ("a\r\nb", "a"),
            ("closed: https://docs.rs/rustls/latest/rustls/manual/index.html#unexpected-eof", "closed"),
            ("a: https://example.com/b", "a: https://example.com/b"),
        ] {
            assert_eq!(first_line(text), expected, "{text:?}");
        }
        assert_eq!(first_line(&"ü".repeat(300)), "ü".repeat(300));
        assert_eq!(first_line(&"ü".repeat(301)), format!("{}...", "ü".repeat(300)));
    }
}
