//! Human-readable output: short aligned lines.

use std::time::Duration;

use crate::view::View;

/// Reports each step as it happens, and a summary at the end.
#[derive(Default)]
pub struct Report {
    times: Vec<(String, Duration)>,
}

impl Report {
    pub fn title(&self, what: &str, text: &str) {
        println!("{what:<16} {text}");
    }

    /// Reports the beginning of a step.
    pub fn note(&self, text: &str) {
        println!("\n{text}");
    }

    /// Reports a change that has arrived, and its time.
    pub fn took(&mut self, what: &str, time: Duration) {
        println!("{:>9}  {what}", milliseconds(time));
        self.times.push((what.to_owned(), time));
    }

    /// Reports a condition that holds.
    pub fn holds(&self, what: &str) {
        println!("{:>9}  {what}", "ok");
    }

    /// Reports a command and what it printed.
    pub fn said(&self, command: &str, output: &str) {
        println!("\n$ {command}\n{}", output.trim_end());
    }

    pub fn table(&self, view: &View) {
        let rows: Vec<[String; 4]> = view
            .iter()
            .map(|(source, seen)| {
                [source.clone(), seen.name.clone(), seen.ports.clone(), format!("{}/{}", seen.ready, seen.endpoints)]
            })
            .collect();
        let head = ["SOURCE", "IN THE GIMBAL CLUSTER", "PORTS", "READY"].map(str::to_owned);
        let widths: Vec<usize> = (0..4)
            .map(|column| rows.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or_default())
            .collect();
        println!();
        for row in [&head].into_iter().chain(&rows) {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
    }

    /// Reports the slowest change, and the median.
    pub fn times(&self) {
        let mut times = self.times.clone();
        times.sort_by_key(|(_, time)| *time);
        if let (Some((_, middle)), Some((what, slowest))) = (times.get(times.len() / 2), times.last()) {
            let (middle, slowest) = (milliseconds(*middle), milliseconds(*slowest));
            println!("\n{} things landed: {middle} in the middle, {slowest} at most ({what})", times.len());
        }
    }

    pub fn hint(&self, what: &str, line: &str) {
        println!("\n# {what}\n{line}");
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}
