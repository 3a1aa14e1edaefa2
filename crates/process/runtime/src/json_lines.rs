//! Log lines for machines: one JSON object a line, in which no key occurs twice. Readers drop such a line, or one of the two
//! values.

use std::fmt;

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Keys that every line has.
const TAKEN: [&str; 3] = ["timestamp", "level", "target"];
/// Fields of a line of the crate `log` begin with it. One of them is its target.
const OF_LOG: &str = "log.";

/// Formats an event as an object: `timestamp`, `level`, the fields of the event with `message` among them, and `target`. A
/// field whose key is taken gets another one, with `_` at its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        let text = |text: &str| Value::from(text);
        write!(to, "{{\"timestamp\":{},\"level\":{}", text(&timestamp), text(metadata.level().as_str()))?;
        for (key, value) in &fields.named {
            write!(to, ",{}:{value}", text(key))?;
        }
        writeln!(to, ",\"target\":{}}}", text(fields.target.as_deref().unwrap_or_else(|| metadata.target())))
    }
}

/// The fields of an event.
#[derive(Default)]
struct Fields {
    named: Vec<(String, Value)>,
    /// The target of a line of the crate `log`, which is no metadata there.
    target: Option<String>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        let name = field.name();
        if let Some(of_log) = name.strip_prefix(OF_LOG) {
            if of_log == "target" {
                self.target = value.as_str().map(str::to_owned);
            }
            return;
        }
        let mut key = name.strip_prefix("r#").unwrap_or(name).to_owned();
        while TAKEN.contains(&&*key) || self.named.iter().any(|(there, _)| *there == key) {
            key.push('_');
        }
        self.named.push((key, value));
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}").into());
    }
}

#[cfg(test)]
mod tests {
    use tracing::info;

    use super::*;
    use crate::logging::kept::Kept;

    /// Returns the lines of what `log` logs.
    fn lines(log: impl FnOnce()) -> Vec<String> {
        let kept = Kept::default();
        let to = kept.clone();
        let lines = tracing_subscriber::fmt().event_format(JsonLines).with_writer(move || to.clone()).finish();
        tracing::subscriber::with_default(lines, log);
        kept.text().lines().map(str::to_owned).collect()
    }

    #[test]
    fn values_keep_their_types() {
        let lines = lines(|| {
            tracing::warn!(yes = true, count = 7_u64, below = -1, half = 0.5, text = "a \"b\"", shown = %"c", r#type = ?[1], "the message");
        });
        let [line] = &lines[..] else { panic!("{lines:?}") };
        let line: Value = serde_json::from_str(line).unwrap();
        let expected = serde_json::json!({
            "timestamp": line["timestamp"], "level": "WARN", "target": module_path!(), "message": "the message",
            "yes": true, "count": 7, "below": -1, "half": 0.5, "text": "a \"b\"", "shown": "c", "type": "[1]",
        });
        assert_eq!(line, expected);
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
    }

    #[test]
    fn no_key_occurs_twice_and_no_value_is_lost() {
        let lines = lines(|| {
            info!(target = "theirs", level = 1, timestamp = 2, kind = 3, kind = 4, message = 5, "the message");
        });
        let line = &lines[0];
        for key in ["timestamp", "level", "target", "message", "kind", "target_", "level_", "timestamp_", "kind_"] {
            assert_eq!(line.matches(&format!("\"{key}\":")).count(), 1, "{key}: {line}");
        }
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["level"], &line["target"]), (&"INFO".into(), &module_path!().into()));
        assert_eq!((&line["target_"], &line["level_"], &line["timestamp_"]), (&"theirs".into(), &1.into(), &2.into()));
        assert_eq!((&line["kind"], &line["kind_"]), (&3.into(), &4.into()));
    }
}
