//! Tables of figures.

use crate::figure::{Aim, Figure};

const HEAD: [&str; 6] = ["what", "ours", "compared with", "ratio", "aim", ""];

fn rows(figures: &[Figure]) -> Vec<[String; 6]> {
    let row = |figure: &Figure| {
        let floor =
            figure.floor.as_ref().map(|floor| format!("{} {} ({})", number(floor.value), figure.unit, floor.what));
        let aim = figure.aim.map(|aim| match aim {
            Aim::AtMost(most) => format!("at most {}", number(most)),
            Aim::AtLeast(least) => format!("at least {}", number(least)),
        });
        let met = figure.is_met().map(|met| if met { "met" } else { "missed" }.to_owned());
        let measured = figure.measured.as_ref().map(|when| format!(" ({when})"));
        [
            format!("{}{}", figure.what, measured.unwrap_or_default()),
            format!("{} {}", number(figure.value), figure.unit).trim_end().to_owned(),
            floor.unwrap_or_default(),
            figure.ratio().map(number).unwrap_or_default(),
            aim.unwrap_or_default(),
            met.unwrap_or_default(),
        ]
    };
    figures.iter().map(row).collect()
}

/// Formats a number with three significant digits; as an integer if it is large.
fn number(value: f64) -> String {
    match value.abs() {
        size if size == 0.0 || size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.01 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

/// Formats the figures in columns.
#[must_use]
pub fn text(figures: &[Figure]) -> String {
    let rows: Vec<_> = std::iter::once(HEAD.map(str::to_owned)).chain(rows(figures)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// Formats the figures as Markdown.
#[must_use]
pub fn markdown(figures: &[Figure]) -> String {
    let line = |cells: &[String; 6]| format!("| {} |\n", cells.join(" | "));
    let head = line(&HEAD.map(str::to_owned)) + "|---|---|---|---|---|---|\n";
    head + &rows(figures).iter().map(line).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns() {
        let figures = [
            Figure::new("writes", 1234.5, "/s").floor("raw", 1300.0).aim(Aim::AtLeast(0.95)),
            Figure::new("peak", 58.25, "MB").aim(Aim::AtMost(60.0)),
        ];
        let text = text(&figures);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "writes  1234 /s  1300 /s (raw)  0.950  at least 0.950  missed");
        let column = |line: &str, text: &str| line.find(text);
        assert_eq!(column(lines[0], "aim"), column(lines[2], "at most 60.0"), "{text}");
        assert_eq!(column(lines[0], "ratio"), column(lines[1], "0.950"), "{text}");
    }
}
