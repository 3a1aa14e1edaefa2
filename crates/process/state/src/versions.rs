//! Which versions of a format a record is for. Programs of two releases share the records: during an upgrade, and after one
//! that was taken back.

use crate::{Format, RecordData};

/// The version of the newest keys that a record has.
const VERSION: &str = "format";
/// The oldest version whose programs may use and replace the record.
const OLDEST_READER: &str = "oldestReader";
/// The version of a record that has none.
const FIRST: u32 = 1;

/// A record that this program must neither use nor replace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "ConfigMap {config_map} is for programs that know format {needed} (key {OLDEST_READER}), and this one knows {known}: run the \
     newer release again, or delete the ConfigMap, and with it what was held and counted"
)]
pub struct NewerRecord {
    /// The name of the `ConfigMap`.
    pub config_map: String,
    /// The version that is needed, as the record says it.
    pub needed: String,
    /// The version that this program knows.
    pub known: u32,
}

fn version(data: &RecordData, key: &str) -> Result<u32, String> {
    data.get(key).map_or(Ok(FIRST), |text| text.parse().map_err(|_| text.clone()))
}

/// Checks that this program may use and replace a record. It may not if it cannot read which version that needs.
pub(crate) fn check<F: Format>(config_map: &str, data: &RecordData) -> Result<(), NewerRecord> {
    let needed = match version(data, OLDEST_READER) {
        Ok(needed) if needed <= F::VERSION => return Ok(()),
        Ok(needed) => needed.to_string(),
        Err(text) => format!("{text:?}"),
    };
    Err(NewerRecord { config_map: config_map.to_owned(), needed, known: F::VERSION })
}

/// Returns the data that replace `found`: what is rendered, and the keys of a newer version that this one does not know. Such
/// a record stays one of that version, so that the next write keeps them, too.
pub(crate) fn replacing<F: Format>(found: &RecordData, rendered: RecordData) -> RecordData {
    let mut data = marked::<F>(rendered);
    let Some(newer) = version(found, VERSION).ok().filter(|version| *version > F::VERSION) else { return data };
    let is_unknown = |key: &str| !F::has_key(key) && key != VERSION && key != OLDEST_READER;
    data.extend(found.iter().filter(|(key, _)| is_unknown(key)).map(|(key, value)| (key.clone(), value.clone())));
    data.insert(VERSION.to_owned(), newer.to_string());
    if let Ok(reader) = version(found, OLDEST_READER) {
        data.insert(OLDEST_READER.to_owned(), reader.max(F::OLDEST_READER).to_string());
    }
    data
}

/// Returns what is rendered, with its versions.
pub(crate) fn marked<F: Format>(mut rendered: RecordData) -> RecordData {
    rendered.insert(VERSION.to_owned(), F::VERSION.to_string());
    rendered.insert(OLDEST_READER.to_owned(), F::OLDEST_READER.to_string());
    rendered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Incarnations;

    fn data(entries: &[(&str, &str)]) -> RecordData {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_record_is_used_by_whoever_is_new_enough() {
        let newer = |text: &str| check::<Incarnations>("record", &data(&[("format", "9"), ("oldestReader", text)]));
        assert_eq!(check::<Incarnations>("record", &data(&[("incarnation", "a")])), Ok(()), "of the first version");
        assert_eq!([newer("1"), newer("2")], [Ok(()), Ok(())], "this is version 2");
        let needs = |text: &str| NewerRecord { config_map: "record".into(), needed: text.into(), known: 2 };
        assert_eq!(newer("3"), Err(needs("3")));
        assert_eq!(newer("soon"), Err(needs("\"soon\"")), "what cannot be read is not taken for old");
        assert_eq!(
            needs("3").to_string(),
            "ConfigMap record is for programs that know format 3 (key oldestReader), and this one knows 2: run the newer \
             release again, or delete the ConfigMap, and with it what was held and counted"
        );
    }

    #[test]
    fn unknown_keys_of_a_newer_version_stay_over_any_number_of_writes() {
        let newer = data(&[("format", "3"), ("oldestReader", "2"), ("incarnation", "a"), ("since", "x")]);
        let mut found = newer;
        for incarnation in ["b", "c"] {
            found = replacing::<Incarnations>(&found, data(&[("incarnation", incarnation)]));
            let expected = [("format", "3"), ("oldestReader", "2"), ("incarnation", incarnation), ("since", "x")];
            assert_eq!(found, data(&expected));
        }
        // One that this version has, and that says nothing now, does not come back.
        assert_eq!(replacing::<Incarnations>(&found, data(&[])).get("incarnation"), None);
    }

    #[test]
    fn unknown_keys_of_no_newer_version_go() {
        let of_ours = data(&[("incarnation", "b"), ("format", "2"), ("oldestReader", "1")]);
        for format in ["1", "2", "odd"] {
            let found = data(&[("format", format), ("incarnation", "a"), ("since", "x")]);
            assert_eq!(replacing::<Incarnations>(&found, data(&[("incarnation", "b")])), of_ours, "{format}");
        }
    }
}
