//! Fields that have a value also where nothing is asked for: what Octavia is configured for, or what a provider knows.
//!
//! Nothing tells such a value from one that was asked for once. So what is set because the owner asks for it is named by a tag, by
//! which its default comes back when it is asked for no longer, also after a restart. Where there is no tag somebody else may have
//! chosen the value, and it stays.

use serde_json::Value;

use crate::mark::{field_set, set_tag};
use crate::sharing::{Sharing, retagged};

/// The fields of a listener whose defaults an operator chooses.
pub(crate) const TIMES: [&str; 4] =
    ["timeout_client_data", "timeout_member_data", "timeout_member_connect", "timeout_tcp_inspect"];

/// The one of a pool.
pub(crate) const ALGORITHM: &str = "lb_algorithm";

/// The tags of an object that name fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldTags<'a> {
    /// The tags that the object has.
    pub(crate) present: &'a [String],
    /// The fields that are asked for.
    pub(crate) asked: &'a [&'a str],
}

impl FieldTags<'_> {
    /// Returns the fields that were set because they were asked for, and are not any more.
    pub(crate) fn given_up(&self) -> impl Iterator<Item = &str> {
        self.present.iter().filter_map(|tag| field_set(tag)).filter(|field| !self.asked.contains(field))
    }

    /// Returns the tags as they are to be, if they differ. An object that is as it is wanted is not changed for such a tag alone.
    pub(crate) fn changed(&self, sharing: Option<&Sharing>, wanted: &[String], is_changed: bool) -> Option<Value> {
        let is_stale = |tag: &String| field_set(tag).is_some_and(|field| !self.asked.contains(&field));
        let mut kept: Vec<String> = self.present.iter().filter(|tag| !is_stale(tag)).cloned().collect();
        let wanted: Vec<String> = wanted
            .iter()
            .cloned()
            .chain(self.asked.iter().filter(|_| is_changed).map(|field| set_tag(field)))
            .collect();
        kept.sort();
        let is_fewer = kept.len() < self.present.len();
        retagged(sharing, &kept, &wanted).or_else(|| is_fewer.then(|| kept.into_iter().collect()))
    }
}

/// Returns the tags of a new object, of which these fields are asked for.
pub(crate) fn with_fields(tags: &[String], asked: &[&str]) -> Vec<String> {
    tags.iter().cloned().chain(asked.iter().map(|field| set_tag(field))).collect()
}
