//! Reads what a process exposes at `/metrics`.

use std::collections::BTreeSet;

/// Returns each series of an exposition once, without its value and the values of its labels, as `name{labels} type`.
///
/// # Panics
/// A family is declared twice, as by a table of metrics that is registered twice.
#[must_use]
pub fn series(exposition: &str) -> Vec<String> {
    let mut kind = "";
    let (mut series, mut families) = (BTreeSet::new(), BTreeSet::new());
    for line in exposition.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            assert!(families.insert(declared), "{declared} is declared twice");
            kind = declared.split(' ').nth(1).unwrap_or_default();
        }
        let Some((sample, _)) = line.rsplit_once(' ').filter(|_| !line.starts_with('#')) else { continue };
        let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
        let labels: Vec<_> = labels.split("\",").filter_map(|label| Some(label.split_once('=')?.0)).collect();
        series.insert(format!("{name}{{{}}} {kind}", labels.join(",")));
    }
    series.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_do_not_matter() {
        let text = "# HELP a A\n# TYPE a counter\na_total{x=\"1\",y=\"a b\"} 1\na_total{x=\"2\",y=\"\"} 2\n# TYPE b gauge\nb 3\n# EOF\n";
        assert_eq!(series(text), ["a_total{x,y} counter", "b{} gauge"]);
    }

    #[test]
    #[should_panic(expected = "a counter is declared twice")]
    fn a_family_is_declared_once() {
        drop(series("# TYPE a counter\na_total 1\n# TYPE a counter\na_total 1\n# EOF\n"));
    }
}
