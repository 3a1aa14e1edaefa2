//! A list that is read page by page. Pure: the caller sends the requests and passes each answer.

use std::sync::Arc;

use gimbal_octavia_rows::CompleteList;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::answer::Answer;
use crate::list_page::RowPage;
use crate::list_walk::{Walk, WalkStep};
use crate::page_size::{PageSize, SHRINKS};

/// What was read of a list, and what to ask for next. A page that timed out, or was too large, is asked for again with fewer rows.
pub(crate) struct PagedList<'a, T> {
    key: &'a str,
    size: Arc<PageSize>,
    /// The rows that the page was asked for with.
    limit: u32,
    walk: Walk,
    shrinks: u32,
    complete: CompleteList<T>,
}

impl<'a, T: DeserializeOwned> PagedList<'a, T> {
    /// Returns a list of which nothing was read. Its rows are under `key` in each answer.
    pub(crate) fn new(key: &'a str, size: Arc<PageSize>) -> Self {
        let complete = CompleteList::from(Vec::new());
        Self { key, size, limit: 0, walk: Walk::default(), shrinks: 0, complete }
    }

    /// Returns the ID of the row after which the next page starts, or `None` for the first page.
    pub(crate) fn marker(&self) -> Option<&str> {
        self.walk.marker()
    }

    /// Returns the parameters of the next page.
    pub(crate) fn parameters(&mut self) -> Vec<(&'static str, String)> {
        self.limit = self.size.get();
        let marker = self.walk.marker().map(|marker| ("marker", marker.to_owned()));
        std::iter::once(("limit", self.limit.to_string())).chain(marker).collect()
    }

    /// Takes the answer to that. Returns whether the list is complete.
    pub(crate) fn add(&mut self, answer: Result<Answer, Error>) -> Result<bool, Error> {
        let limit = self.limit;
        let answer = match answer {
            // Octavia answers 400 to the marker of a row that was deleted, and Neutron 404.
            Err(Error::InvalidMarker { .. } | Error::NotFound { .. }) if self.walk.marker().is_some() => {
                if !self.walk.restart() {
                    return Err(marker_gone(self.key));
                }
                self.complete = CompleteList::from(Vec::new());
                return Ok(false);
            }
            // What is too large is known at once, so that it may be tried in every size.
            Err(Error::TooLarge { .. }) if self.size.too_slow(limit) => return Ok(false),
            Err(error) if error.asks_too_much() && self.size.too_slow(limit) && self.shrinks < SHRINKS => {
                self.shrinks += 1;
                tracing::warn!(%error, limit, smaller = self.size.get(), "too slow for pages of this size");
                return Ok(false);
            }
            answer => answer?,
        };
        self.size.in_time();
        let page = RowPage::read(self.key, &answer.body)?;
        let step = self.walk.add_page(self.key, &page.ids, page.next, limit)?;
        self.complete.server_time = self.complete.server_time.or_else(|| answer.server_time());
        if step != WalkStep::Echo {
            let (rows, unreadable) = page.decode();
            self.complete.rows.extend(rows);
            self.complete.unreadable.extend(unreadable);
        }
        Ok(step != WalkStep::More)
    }

    /// Returns what was read.
    pub(crate) fn complete(self) -> CompleteList<T> {
        self.complete
    }
}

/// The row that a page was to start after was deleted meanwhile.
pub(crate) fn marker_gone(key: &str) -> Error {
    Error::InvalidMarker { message: format!("{key}: the row that a page starts after is gone") }
}
