//! The results of a run: JSON to compare with, Markdown and SVG to read.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::figure::{Figure, Outcome};
use crate::machine::Machine;
use crate::scenarios::Name;
use crate::{Context, table};

/// Results by scenario. Each has its own time and machine, since not all are measured at once.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Results(BTreeMap<String, Measured>);

#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    at: String,
    commit: String,
    scale: f64,
    runs: usize,
    machine: Machine,
    figures: Vec<Figure>,
    notes: Vec<String>,
    plots: Vec<String>,
}

const JSON: &str = "results.json";
const MARKDOWN: &str = "results.md";

impl Results {
    /// Reads the results that are already in `out`.
    ///
    /// # Errors
    /// The file exists and was not written by this program.
    pub fn read(out: &Path) -> anyhow::Result<Self> {
        let path = out.join(JSON);
        match std::fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).with_context(|| format!("{} is no result of ours", path.display()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Replaces the results of a scenario, and draws its plots.
    ///
    /// # Errors
    /// A plot cannot be written.
    pub fn put(
        &mut self,
        name: Name,
        context: &Context,
        machine: Machine,
        outcome: Outcome,
        out: &Path,
    ) -> anyhow::Result<()> {
        std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
        let mut plots = Vec::new();
        for plot in &outcome.plots {
            let file = format!("{name}-{}.svg", plot.name);
            plot.draw(&out.join(&file))?;
            plots.push(file);
        }
        for flame in &outcome.flames {
            let file = format!("{name}-{}.svg", flame.name);
            flame.draw(&out.join(&file))?;
            plots.push(file);
        }
        let mut outcome = outcome;
        if !context.only.is_empty()
            && let Some(before) = self.0.get(&name.to_string())
        {
            outcome = merged(before, outcome);
        }
        let measured = Measured {
            at: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
            commit: commit(),
            scale: context.scale,
            runs: context.runs,
            machine,
            figures: outcome.figures,
            notes: outcome.notes,
            plots,
        };
        self.0.insert(name.to_string(), measured);
        Ok(())
    }

    /// Writes all files.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, out: &Path) -> anyhow::Result<()> {
        let json = serde_json::to_string_pretty(self).context("results cannot be written as JSON")? + "\n";
        for (file, text) in [(JSON, json), (MARKDOWN, self.markdown())] {
            let path = out.join(file);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    fn markdown(&self) -> String {
        let mut text =
            "# Results\n\nWritten by `cargo xtask bench`; what the figures mean is described in docs/benchmarks.md.\n"
                .to_owned();
        for (name, measured) in &self.0 {
            let Measured { at, commit, scale, runs, machine, figures, notes, plots } = measured;
            text += &format!(
                "\n## {name}\n\n{at}, commit {commit}, scale {scale}, {runs} run(s), {} cores of {}, load before {}\n\n",
                machine.cores, machine.processor, machine.load_before
            );
            text += &table::markdown(figures);
            text += &notes.iter().map(|note| format!("\n- {note}")).collect::<String>();
            text += if notes.is_empty() { "" } else { "\n" };
            text += &plots.iter().map(|file| format!("\n![{file}]({file})\n")).collect::<String>();
        }
        text
    }
}

/// Puts some rows of a scenario in the place of the same ones before; the others stay, with the time and commit of their own.
fn merged(before: &Measured, outcome: Outcome) -> Outcome {
    let Outcome { figures: new, notes: new_notes, .. } = outcome;
    let stays = |figure: &&Figure| new.iter().all(|one| one.what != figure.what);
    let mut figures: Vec<Figure> = before.figures.iter().filter(stays).cloned().collect();
    for figure in &mut figures {
        figure.measured.get_or_insert_with(|| format!("{}, commit {}", before.at, before.commit));
    }
    let about = |note: &str| note.split_once(':').map_or_else(|| note.to_owned(), |(about, _)| about.to_owned());
    let stays = |note: &&String| new_notes.iter().all(|one| about(one) != about(note));
    let mut notes: Vec<String> = before.notes.iter().filter(stays).cloned().collect();
    figures.extend(new);
    notes.extend(new_notes);
    Outcome { figures, notes, ..Outcome::default() }
}

/// Returns the measured version of the source, marked if it was changed since.
fn commit() -> String {
    let describe = Command::new("git").args(["describe", "--always", "--dirty", "--exclude=*"]).output();
    let said = describe.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    said.map_or_else(|| "unknown".to_owned(), |text| String::from_utf8_lossy(&text).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_measured_again_keeps_its_date() {
        let machine = Machine::read();
        let before = Measured {
            at: "2026-11-27 20:00 UTC".to_owned(),
            commit: "abc".to_owned(),
            scale: 1.0,
            runs: 1,
            machine,
            figures: vec![Figure::new("one", 1.0, "s"), Figure::new("two", 2.0, "s")],
            notes: vec!["one: a".to_owned(), "two: b".to_owned()],
            plots: Vec::new(),
        };
        let new = Outcome { figures: vec![Figure::new("two", 3.0, "s")], ..Outcome::default() };
        let Outcome { figures, .. } = merged(&before, new);
        let shown: Vec<_> = figures.iter().map(|one| (&*one.what, one.value, one.measured.as_deref())).collect();
        assert_eq!(shown, [("one", 1.0, Some("2026-11-27 20:00 UTC, commit abc")), ("two", 3.0, None)]);
        assert!(table::markdown(&figures).contains("| one (2026-11-27 20:00 UTC, commit abc) |"), "{figures:?}");
    }
}
