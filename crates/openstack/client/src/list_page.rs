//! One page of a list, read row by row: one bad row does not lose the others. Pure.

use std::collections::HashMap;

use gimbal_error_text::first_line;
use gimbal_octavia_rows::UnreadableRow;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::Error;

#[derive(Deserialize)]
struct Link {
    #[serde(default)]
    rel: String,
}

#[derive(Deserialize)]
struct Identified {
    id: String,
}

/// The owner of a row of which nothing else can be read.
#[derive(Default, Deserialize)]
struct Owned {
    project_id: Option<String>,
    tenant_id: Option<String>,
}

/// One page of a list, with its rows not decoded yet.
#[derive(Debug)]
pub(crate) struct RowPage<'a> {
    rows: Vec<&'a RawValue>,
    /// Each row's ID, if it can be read.
    pub ids: Vec<Option<String>>,
    /// Whether the server offers a next page. Its URL is not used: Octavia's lacks every requested filter and field.
    pub next: bool,
}

impl<'a> RowPage<'a> {
    /// Splits a page into the rows under `key`.
    pub(crate) fn read(key: &str, body: &'a [u8]) -> Result<Self, Error> {
        let undecodable =
            |error: serde_json::Error| Error::Undecodable { message: format!("a page of {key}: {error}") };
        let mut parts: HashMap<String, &'a RawValue> = serde_json::from_slice(body).map_err(undecodable)?;
        let Some(rows) = parts.remove(key) else {
            return Err(Error::Undecodable { message: format!("a page of {key} has no key {key}") });
        };
        let rows: Vec<&RawValue> = serde_json::from_str(rows.get()).map_err(undecodable)?;
        let links: Vec<Link> = match parts.remove(&format!("{key}_links")) {
            Some(links) => serde_json::from_str(links.get()).map_err(undecodable)?,
            None => Vec::new(),
        };
        let id = |row: &&RawValue| serde_json::from_str::<Identified>(row.get()).ok().map(|row| row.id);
        Ok(Self { ids: rows.iter().map(id).collect(), rows, next: links.iter().any(|link| link.rel == "next") })
    }

    /// Decodes the rows. Returns those that were read, and those that cannot be read.
    pub(crate) fn decode<T: DeserializeOwned>(self) -> (Vec<T>, Vec<UnreadableRow>) {
        let mut rows = Vec::with_capacity(self.rows.len());
        let mut unreadable = Vec::new();
        for (row, id) in self.rows.into_iter().zip(self.ids) {
            match serde_json::from_str(row.get()) {
                Ok(row) => rows.push(row),
                Err(error) => {
                    let Owned { project_id, tenant_id } = serde_json::from_str(row.get()).unwrap_or_default();
                    let problem = first_line(&error.to_string());
                    unreadable.push(UnreadableRow { id, project: project_id.or(tenant_id), problem });
                }
            }
        }
        (rows, unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Row {
        id: String,
        port: u16,
    }

    #[test]
    fn one_bad_row_leaves_the_others() {
        let body =
            br#"{"pools":[{"id":"a","port":1},{"id":"b","port":"x","project_id":"p"},{"port":3},{"id":"c","port":2}],
            "pools_links":[{"href":"http://nowhere/?marker=c","rel":"next"}]}"#;
        let page = RowPage::read("pools", body).unwrap();
        assert!(page.next);
        assert_eq!(page.ids, [Some("a".into()), Some("b".into()), None, Some("c".into())]);
        let (rows, unreadable) = page.decode::<Row>();
        assert_eq!(rows, [Row { id: "a".into(), port: 1 }, Row { id: "c".into(), port: 2 }]);
        let ids: Vec<_> = unreadable.iter().map(|row| (row.id.as_deref(), row.project.as_deref())).collect();
        assert_eq!(ids, [(Some("b"), Some("p")), (None, None)]);
        assert!(unreadable[0].problem.starts_with("invalid type: string \"x\""), "{unreadable:?}");
    }

    #[test]
    fn what_is_no_page() {
        for body in ["", "{", "[]", "<html>", "{}", r#"{"listeners":[]}"#, r#"{"pools":{}}"#, r#"{"pools":[{]}"#] {
            assert!(matches!(RowPage::read("pools", body.as_bytes()), Err(Error::Undecodable { .. })), "{body}");
        }
    }

    #[test]
    fn a_link_back_is_none_on() {
        let page = br#"{"pools":[],"pools_links":[{"href":"x","rel":"previous"}]}"#;
        assert!(!RowPage::read("pools", page).unwrap().next);
        assert!(!RowPage::read("pools", br#"{"pools":[]}"#).unwrap().next);
    }
}
