//! Compares the present counts with the accepted ones. Pure.

use super::kept::{Counts, Heap, Kept, With};

/// The largest difference between counts that still count as equal, as a share of the accepted one.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Tolerance {
    instructions: f64,
    allocations: f64,
}

/// With the same versions. Two runs differ only by the random seeds of hash maps (docs/benchmarks/counts.md).
const SAME: Tolerance = Tolerance { instructions: 0.05, allocations: 0.01 };
/// With others: another compiler generates other instructions, and its library may allocate differently.
const OTHER: Tolerance = Tolerance { instructions: 0.3, allocations: 0.1 };

/// Cases whose cost must not grow with unrelated state: the case, the smaller and the larger state, and the largest
/// ratio. A tree that is ten times larger is a level or two higher, for which the ratio allows.
const FLAT: [(&str, &str, &str, f64); 3] = [
    ("reconcile::change_through", "beside_1000", "beside_10000", 1.15),
    ("reconcile::comparison_step", "beside_1000", "beside_10000", 1.15),
    ("reconcile::tick", "beside_1000", "beside_10000", 1.15),
];

/// One case, before and now.
#[derive(Debug)]
struct Row {
    case: String,
    before: Option<Counts>,
    now: Option<Counts>,
    verdict: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Equal,
    Better,
    Worse,
    New,
    Gone,
}

/// All cases, with faults and notes.
#[derive(Debug)]
pub struct Comparison {
    rows: Vec<Row>,
    /// Differences that fail the check.
    pub faults: Vec<String>,
    /// Remarks for the reader.
    pub notes: Vec<String>,
}

/// Compares each case. With `all`, every case was counted, so a case that is only in `kept` does not exist any more.
pub fn compare(kept: &Kept, now: &Kept, all: bool) -> Comparison {
    let mut notes = Vec::new();
    let tolerance = tolerance(&kept.with, &now.with, &mut notes);
    let mut rows = Vec::new();
    for (case, counts) in &now.counts {
        let before = kept.counts.get(case).copied();
        let verdict = match (before, tolerance) {
            (None, _) => Verdict::New,
            (Some(_), None) => Verdict::Equal,
            (Some(before), Some(tolerance)) => judge(before, *counts, tolerance),
        };
        rows.push(Row { case: case.clone(), before, now: Some(*counts), verdict });
    }
    let gone = kept.counts.iter().filter(|(case, _)| all && !now.counts.contains_key(*case));
    rows.extend(gone.map(|(case, counts)| Row {
        case: case.clone(),
        before: Some(*counts),
        now: None,
        verdict: Verdict::Gone,
    }));
    let faults = rows.iter().filter_map(Row::fault).chain(grown(now)).collect();
    Comparison { rows, faults, notes }
}

/// Returns the tolerance; `None` if the counts cannot be compared.
fn tolerance(kept: &With, now: &With, notes: &mut Vec<String>) -> Option<Tolerance> {
    if kept == now {
        return Some(SAME);
    }
    if kept.target != now.target {
        notes.push(format!("not compared: what is kept was counted with {kept}, this with {now}"));
        return None;
    }
    notes.push(format!(
        "what is kept was counted with {kept}, this with {now}: up to {:.0} % more or less count as equal",
        OTHER.instructions * 100.0
    ));
    Some(OTHER)
}

fn judge(before: Counts, now: Counts, tolerance: Tolerance) -> Verdict {
    let mut pairs = vec![(before.instructions, now.instructions, tolerance.instructions)];
    match (before.heap, now.heap) {
        (Some(before), Some(now)) => pairs.extend([
            (before.allocations, now.allocations, tolerance.allocations),
            (before.bytes, now.bytes, tolerance.allocations),
        ]),
        (None, None) => {}
        _ => return Verdict::New,
    }
    let beyond = |more: fn(&f64, &f64) -> bool, sign: f64| {
        pairs.iter().any(|(before, now, share)| more(&(*now as f64), &(*before as f64 * (1.0 + sign * share))))
    };
    if beyond(f64::gt, 1.0) {
        Verdict::Worse
    } else if beyond(f64::lt, -1.0) {
        Verdict::Better
    } else {
        Verdict::Equal
    }
}

/// Returns the cases whose cost grows with unrelated state. This holds for every compiler.
fn grown(now: &Kept) -> Vec<String> {
    let of = |case: &str, id: &str| now.counts.get(&format!("{case} {id}")).copied();
    let grown = FLAT.iter().filter_map(|(case, small, large, most)| {
        let (few, many) = (of(case, small)?, of(case, large)?);
        let ratio = many.instructions as f64 / few.instructions as f64;
        (ratio > *most).then(|| {
            format!(
                "{case}: {} instructions {small}, {} {large}, that is {ratio:.2} times as many, more than {most}: \
                 it does work for each of the others",
                few.instructions, many.instructions
            )
        })
    });
    grown.collect()
}

impl Row {
    fn fault(&self) -> Option<String> {
        match self.verdict {
            Verdict::Equal | Verdict::Better => None,
            Verdict::Worse => Some(format!("{} costs more than what is kept: {}", self.case, self.change())),
            Verdict::New => Some(format!("{} is counted, but nothing is kept of it", self.case)),
            Verdict::Gone => Some(format!("{} is kept, but counted no more", self.case)),
        }
    }

    /// Describes the difference in words.
    fn change(&self) -> String {
        let differs = |figure: &Figure| figure.before.zip(figure.now).filter(|(before, now)| before != now);
        let words = |figure: Figure| {
            let (before, now) = differs(&figure)?;
            Some(format!("{before} to {now} {} ({})", figure.name, ratio(before, now)))
        };
        self.figures().into_iter().filter_map(words).collect::<Vec<_>>().join(", ")
    }

    fn figures(&self) -> [Figure; 3] {
        let heap = |of: fn(Heap) -> u64| move |counts: Counts| counts.heap.map(of);
        let figure = |name, of: &dyn Fn(Counts) -> Option<u64>| Figure {
            name,
            before: self.before.and_then(of),
            now: self.now.and_then(of),
        };
        [
            figure("instructions", &|counts| Some(counts.instructions)),
            figure("allocations", &heap(|heap| heap.allocations)),
            figure("bytes", &heap(|heap| heap.bytes)),
        ]
    }
}

/// One count of a case.
struct Figure {
    name: &'static str,
    before: Option<u64>,
    now: Option<u64>,
}

fn ratio(before: u64, now: u64) -> String {
    match before {
        // Nothing was allocated before.
        0 if now == 0 => "x 1.000".into(),
        0 => "x inf".into(),
        _ => format!("x {:.3}", now as f64 / before as f64),
    }
}

impl Comparison {
    /// Whether a case costs less than the accepted count, beyond the tolerance.
    pub fn is_better(&self) -> bool {
        self.rows.iter().any(|row| row.verdict == Verdict::Better)
    }

    /// Returns a line for each case: its cost now, and compared with the accepted one.
    pub fn table(&self) -> String {
        let width = self.rows.iter().map(|row| row.case.len()).max().unwrap_or_default();
        let mut table = format!("{:width$}", "case");
        for name in ["instructions", "allocations", "bytes"] {
            table.push_str(&format!("  {name:>12} {:>8}", ""));
        }
        for row in &self.rows {
            table.push_str(&format!("\n{:width$}", row.case));
            for Figure { before, now, .. } in row.figures() {
                let count = now.map(|now| now.to_string()).unwrap_or_default();
                let against = before.zip(now).map(|(before, now)| ratio(before, now)).unwrap_or_default();
                table.push_str(&format!("  {count:>12} {against:>8}"));
            }
            table.push_str(match row.verdict {
                Verdict::Equal => "",
                Verdict::Better => "  better",
                Verdict::Worse => "  WORSE",
                Verdict::New => "  NEW",
                Verdict::Gone => "  GONE",
            });
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(rustc: &str, target: &str) -> With {
        With { rustc: rustc.into(), target: target.into(), ..With::default() }
    }

    fn kept(with: &With, cases: &[(&str, u64, u64)]) -> Kept {
        let counts = cases.iter().map(|(case, instructions, allocations)| {
            let heap = Some(Heap { allocations: *allocations, bytes: 10 * allocations });
            ((*case).to_owned(), Counts { instructions: *instructions, heap })
        });
        Kept { with: with.clone(), counts: counts.collect() }
    }

    #[test]
    fn worse_than_the_tolerance_is_a_fault_and_better_is_told() {
        let one = with("1", "x86");
        let before = kept(&one, &[("a", 1000, 100)]);
        for (instructions, allocations, worse, better) in [
            (1000, 100, false, false),
            (1049, 101, false, false),
            (1051, 100, true, false),
            (1000, 102, true, false),
            (951, 99, false, false),
            (949, 100, false, true),
            (1000, 98, false, true),
            // A saving in one count does not make up for a growth of the other.
            (500, 102, true, false),
        ] {
            let now = kept(&one, &[("a", instructions, allocations)]);
            let comparison = compare(&before, &now, true);
            let found = (!comparison.faults.is_empty(), comparison.is_better());
            assert_eq!(found, (worse, better), "{instructions} {allocations}");
        }
    }

    #[test]
    fn another_compiler_is_compared_less_closely_and_another_machine_not_at_all() {
        let before = kept(&with("1", "x86"), &[("a", 1000, 100)]);
        for (with, instructions, faults, notes) in [
            (with("2", "x86"), 1250, 0, 1),
            (with("2", "x86"), 1350, 1, 1),
            (with("1", "arm"), 9000, 0, 1),
            (with("1", "x86"), 1000, 0, 0),
        ] {
            let comparison = compare(&before, &kept(&with, &[("a", instructions, 100)]), true);
            assert_eq!((comparison.faults.len(), comparison.notes.len()), (faults, notes), "{with} {instructions}");
        }
    }

    #[test]
    fn cases_and_what_is_kept_go_together() {
        let one = with("1", "x86");
        let (before, now) = (kept(&one, &[("a", 1, 1), ("b", 1, 1)]), kept(&one, &[("b", 1, 1), ("c", 1, 1)]));
        let all = compare(&before, &now, true);
        assert_eq!(all.faults, ["c is counted, but nothing is kept of it", "a is kept, but counted no more"]);
        assert_eq!(compare(&before, &now, false).faults.len(), 1);
        let mut without = before.clone();
        without.counts.get_mut("a").unwrap().heap = None;
        assert_eq!(compare(&before, &without, true).faults, ["a is counted, but nothing is kept of it"]);
        assert!(compare(&without, &without, true).faults.is_empty());
    }

    #[test]
    fn growth_with_the_number_of_others_is_a_fault_on_any_machine() {
        let cases = |many| [("reconcile::tick beside_1000", 1000, 1), ("reconcile::tick beside_10000", many, 1)];
        for (many, faults) in [(1100, 0), (1200, 1), (10_000, 1)] {
            let now = kept(&with("1", "arm"), &cases(many));
            let before = Kept { with: with("1", "x86"), ..now.clone() };
            assert_eq!(compare(&before, &now, true).faults.len(), faults, "{many}");
        }
    }

    #[test]
    fn the_table_shows_each_case_with_its_ratio() {
        let one = with("1", "x86");
        let comparison =
            compare(&kept(&one, &[("a", 1000, 100)]), &kept(&one, &[("a", 1500, 100), ("bb", 7, 0)]), true);
        let table = comparison.table();
        let lines: Vec<&str> = table.lines().map(str::trim_end).collect();
        assert_eq!(lines.len(), 3, "{table}");
        assert!(
            lines[1].starts_with("a ") && lines[1].contains("1500  x 1.500") && lines[1].ends_with("WORSE"),
            "{table}"
        );
        assert!(lines[2].starts_with("bb ") && lines[2].ends_with("NEW"), "{table}");
    }
}
